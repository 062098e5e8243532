//! Trains a model and scores it on the test nodes.
//!
//!     cargo run --release --example train                     on a small graph made here
//!     cargo run --release --example train -- cora.ignn        on a dataset directory

mod communities;

use ignn::prelude::*;

/// Trains on a graph; the fraction of test nodes that are classified correctly.
fn train(graph: &Graph) -> ignn::Result<f64> {
    let mut config = Config::default();
    (config.model.state, config.train.epochs) = (vec![16], 60);
    let fit = Trainer::new(graph, config)?.fit()?;
    let last = fit.history.last().expect("an epoch at least");
    println!("{} epochs; best: {:?}; solves: {:?}", last.epoch, fit.best_epoch, last.forward);

    let evaluation = fit.model.predict(graph)?.evaluate()?;
    let test = evaluation.parts.iter().find(|part| part.part == "test");
    Ok(test.and_then(|part| part.scores.accuracy).unwrap_or(f64::NAN))
}

fn main() -> ignn::Result<()> {
    let graph = match std::env::args().nth(1) {
        Some(path) => Graph::open(path)?,
        None => communities::graph(800, 1)?,
    };
    println!("test accuracy: {:.1} %", 100.0 * train(&graph)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn most_test_nodes_are_classified_correctly() {
        let accuracy = super::train(&super::communities::graph(400, 2).unwrap()).unwrap();
        assert!(accuracy > 0.9, "{accuracy}");
    }
}
