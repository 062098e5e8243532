//! A model trained by the library alone: a dataset is opened, a loop runs, predictions come back.
//!
//!     ignn generate sbm --nodes 2000 --blocks 4 --out graph.ignn
//!     cargo run --release --example train -- graph.ignn

use std::error::Error;
use std::sync::atomic::AtomicBool;

use ignn::config::Config;
use ignn::graph::Graph;
use ignn::train::{EpochRecord, Observer, Trainer};

/// Prints every tenth epoch; an observer may do anything with a record.
struct Printer;

impl Observer for Printer {
    fn epoch(&mut self, record: &EpochRecord) -> ignn_format::Result<()> {
        if record.epoch.is_multiple_of(10) {
            let accuracy = record.validation.as_ref().and_then(|part| part.scores.get("accuracy"));
            let sweeps = record.forward.map_or(0, |solve| solve.sweeps);
            println!("epoch {:3}: validation {accuracy:?}, {sweeps} sweeps", record.epoch);
        }
        Ok(())
    }
}

/// Trains on a dataset and returns the share of its test nodes that are told right.
fn train(path: &str) -> Result<f64, Box<dyn Error>> {
    let mut config = Config::default();
    (config.model.state, config.train.epochs) = (vec![16], 50);
    let mut trainer = Trainer::new(Graph::open(path)?, config)?;
    let stop = AtomicBool::new(false);
    trainer.run(&mut Printer, &stop, |_| Ok(()))?;

    // The best epoch's model, apart from any graph: to be written, or put on this graph or another.
    let (model, task) = (trainer.finished(), trainer.task());
    let predicted = model.predict(task.dataset())?;
    let scores = |nodes: &[u32]| {
        let rows = ignn::dense::Matrix::from_fn(nodes.len(), model.classes.len(), |row, class| {
            predicted.logits.row(nodes[row] as usize)[class]
        });
        task.scores(rows.view(), nodes)
    };
    Ok(ignn::metrics::Metric::MicroF1.of(&scores(&task.parts().test), 0.0).unwrap_or(f64::NAN))
}

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(path) => println!("test nodes told right: {:.1} %", 100.0 * train(&path)?),
        None => {
            println!("usage: train DATASET, one with labels and a split (see `ignn ingest --help`)")
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_that_is_no_dataset_is_an_error() {
        let error = super::train("no such directory").unwrap_err();
        assert_eq!(error.to_string(), "no such directory: not an ignn dataset: no such directory");
    }
}
