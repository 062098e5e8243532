//! Watches training: an observer receives a record of every epoch, keeps the validation accuracy,
//! and ends the run when that is high enough.
//!
//!     cargo run --release --example observer

mod communities;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ignn::prelude::*;

/// Keeps a curve, and sets a flag when the accuracy is reached.
struct UntilAccuracy {
    wanted: f64,
    curve: Vec<f64>,
    stop: Arc<AtomicBool>,
}

impl Observer for UntilAccuracy {
    fn epoch(&mut self, record: &EpochRecord) -> ignn::Result<(), ignn::FormatError> {
        let Some(part) = &record.validation else { return Ok(()) };
        let accuracy = part.scores["accuracy"];
        self.curve.push(accuracy);
        let sweeps = record.forward.map_or(0, |solve| solve.sweeps);
        println!(
            "epoch {:3}: loss {:.4}, accuracy {accuracy:.3}, {sweeps} sweeps",
            record.epoch, part.loss
        );
        if accuracy >= self.wanted {
            self.stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Trains until a validation accuracy is reached, or for 200 epochs.
fn train_until(graph: &Graph, wanted: f64) -> ignn::Result<(Fit, Vec<f64>)> {
    let mut config = Config::default();
    (config.model.state, config.train.epochs) = (vec![16], 200);
    let stop = Arc::new(AtomicBool::new(false));
    let mut observer = UntilAccuracy { wanted, curve: Vec::new(), stop: Arc::clone(&stop) };
    let fit = Trainer::new(graph, config)?.with_stop(stop).fit_with(&mut observer)?;
    Ok((fit, observer.curve))
}

fn main() -> ignn::Result<()> {
    let (fit, curve) = train_until(&communities::graph(800, 1)?, 0.95)?;
    println!("{:?} after {} epochs", fit.ended, curve.len() - 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_ends_when_the_accuracy_is_reached() {
        let (fit, curve) = train_until(&communities::graph(400, 6).unwrap(), 0.9).unwrap();
        assert_eq!(fit.ended, Ended::Stopped);
        let (last, before) = curve.split_last().unwrap();
        assert!(*last >= 0.9 && before.iter().all(|accuracy| *accuracy < 0.9), "{curve:?}");
        assert_eq!(fit.history.len(), curve.len());
    }
}
