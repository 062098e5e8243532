//! Trains on one graph, saves the model, and predicts on another graph with it. That works for
//! models that read features; a model with learned features belongs to the nodes of its graph.
//!
//!     cargo run --release --example transfer

mod communities;

use ignn::prelude::*;

/// Trains on `known`, saves to `file`, loads, and predicts on `other`.
fn transfer(known: &Graph, other: &Graph, file: &std::path::Path) -> ignn::Result<Predictions> {
    let mut config = Config::default();
    (config.model.state, config.train.epochs) = (vec![16], 60);
    Trainer::new(known, config)?.fit()?.model.save(file)?;
    Ok(Model::load(file)?.predict(other)?)
}

fn main() -> ignn::Result<()> {
    let (known, other) = (communities::graph(800, 1)?, communities::graph(1600, 2)?);
    let directory = tempfile::tempdir()?;
    let predictions = transfer(&known, &other, &directory.path().join("model.safetensors"))?;
    let all = &predictions.evaluate()?.parts;
    for part in all {
        println!("{}: accuracy {:?} on {} nodes", part.part, part.scores.accuracy, part.items());
    }
    println!("unique equilibrium on the other graph: {}", predictions.is_certified());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_goes_from_graph_to_graph() {
        let (known, other) =
            (communities::graph(400, 3).unwrap(), communities::graph(500, 4).unwrap());
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("model.safetensors");
        let predictions = transfer(&known, &other, &file).unwrap();
        assert_eq!(predictions.len(), 500);
        assert!(predictions.is_certified() && predictions.solve().unwrap().converged);
        let right = (0..500).filter(|&node| predictions.class(node) == node % 4).count();
        assert!(right > 450, "{right} of 500");
    }
}
