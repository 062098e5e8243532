//! A run read back from its directory: configuration, records, summary. A run that has not ended is
//! read as far as it got.

use super::metrics_file::Recorded;
use super::{Figures, RunDir, RunError, RunSummary, files};
use crate::config::Config;
use crate::metrics::Metric;
use crate::train::{Ended, EpochRecord, PhaseSeconds};

/// A run on disk.
#[derive(Clone, Debug)]
pub struct SavedRun {
    /// Its directory.
    pub directory: RunDir,
    /// Its configuration.
    pub config: Config,
    /// The configuration as text.
    pub config_text: String,
    /// One record per epoch.
    pub records: Vec<EpochRecord>,
    /// Whether the last line of the file of records was never finished, as when the process was
    /// killed while it wrote; it is left out.
    pub is_torn: bool,
    /// `run.json`; `None` while the run has not ended.
    pub summary: Option<RunSummary>,
}

impl SavedRun {
    /// Reads a run directory.
    pub fn read(directory: &RunDir) -> Result<Self, RunError> {
        let file = directory.config_file();
        let config_text = files::read_whole(&file)?;
        let config = Config::from_toml(&config_text, &file)?;
        let Recorded { records, is_torn, .. } = Recorded::read(&directory.metrics_file())?;
        let (directory, summary) = (directory.clone(), directory.summary()?);
        Ok(Self { directory, config, config_text, records, is_torn, summary })
    }

    /// Its figures, where it has ended.
    pub fn figures(&self) -> Option<&Figures> {
        self.summary.as_ref().map(|summary| &summary.figures)
    }

    /// Whether it ended other than by being stopped.
    pub fn is_finished(&self) -> bool {
        self.figures().is_some_and(|figures| figures.ended != Ended::Stopped)
    }

    /// Steps that it has made, as `run.json` counts them; while it has not ended, those before the
    /// last record.
    pub fn epochs(&self) -> Option<u64> {
        let recorded = self.records.last().map(|last| last.epoch);
        self.figures().map(|figures| figures.epochs).or(recorded)
    }

    /// A value by epoch; epochs where it is missing or not finite are left out.
    pub fn curve(&self, value: impl Fn(&EpochRecord) -> Option<f64>) -> Vec<(f64, f64)> {
        let point = |record: &EpochRecord| {
            Some((record.epoch as f64, value(record).filter(|value| value.is_finite())?))
        };
        self.records.iter().filter_map(point).collect()
    }

    /// The value of a metric on the test part, at the epoch that is best on the validation part.
    pub fn chosen(&self, metric: Metric) -> Option<f64> {
        let test = self.figures()?.chosen_on_validation.as_ref()?.test.as_ref()?;
        Some(test.value(metric)).filter(|value| value.is_finite())
    }

    /// The same at the epoch that is best on the test part, as papers often report it.
    pub fn best(&self, metric: Metric) -> Option<f64> {
        let test = &self.figures()?.best_on_test.as_ref()?.test;
        Some(test.value(metric)).filter(|value| value.is_finite())
    }

    /// The metric that chose the best epoch; while the run has not ended, the first of its scores.
    pub fn monitor(&self) -> Metric {
        match self.figures() {
            Some(figures) => figures.monitor,
            None => self.metrics().into_iter().next().unwrap_or(Metric::Loss),
        }
    }

    /// The scores that its records have, the monitored one first, the others by name.
    pub fn metrics(&self) -> Vec<Metric> {
        let has = |metric: &Metric| {
            let mut parts = self.records.iter().flat_map(EpochRecord::parts);
            parts.any(|(_, part)| part.scores.contains_key(metric.name()))
        };
        let mut found: Vec<Metric> = Metric::ALL.into_iter().filter(has).collect();
        let monitor = self.figures().map(|figures| figures.monitor);
        found.sort_by_key(|metric| (Some(*metric) != monitor, metric.name()));
        found
    }

    /// Seconds by phase, summed over all epochs, in the order of an epoch.
    pub fn seconds(&self) -> [(&'static str, f64); 5] {
        let mut total = PhaseSeconds::default().named();
        for record in &self.records {
            for (sum, (_, seconds)) in total.iter_mut().zip(record.seconds.named()) {
                if seconds.is_finite() {
                    sum.1 += seconds;
                }
            }
        }
        total
    }
}

#[cfg(test)]
pub mod testing {
    //! A run on disk for the tests of reports.

    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use ignn_format::storage;

    use super::*;
    use crate::run::MetricsWriter;
    use crate::run::summary::{
        BestTestEpoch, ChosenEpoch, DatasetSummary, MachineSummary, SweepsPerEpoch,
    };
    use crate::train::testing::record;
    use crate::train::{Observer, PartRecord};

    /// A summary of a run with this number of epochs, monitored by accuracy.
    pub fn summary(epochs: u64) -> RunSummary {
        let scores = BTreeMap::from([("accuracy".to_string(), 0.5)]);
        let test = PartRecord { loss: 0.25, scores };
        RunSummary {
            version: "0.1.0".into(),
            dataset: DatasetSummary {
                name: Some("sample.ignn".into()),
                checksum: "00".into(),
                nodes: 800,
                train: 20,
                validation: 100,
                test: 200,
                not_verified: Vec::new(),
            },
            machine: MachineSummary {
                threads: 2,
                simd: "avx2".into(),
                peak_bytes: Some(1 << 20),
                cores: 2,
                memory_bytes: 1 << 30,
                processor: None,
                ended: "2026-11-17".into(),
            },
            figures: Figures {
                seed: 0,
                ended: Ended::Epochs,
                epochs,
                monitor: Metric::Accuracy,
                chosen_on_validation: Some(ChosenEpoch {
                    epoch: 1,
                    validation: 0.75,
                    test: Some(test.clone()),
                }),
                best_on_test: Some(BestTestEpoch { epoch: 1, value: 0.5, test }),
                last: Some(record(epochs)),
                sweeps_per_epoch: SweepsPerEpoch { forward: 12.0, adjoint: 9.0 },
                failures: 0,
                seconds: 1.5,
                seconds_per_epoch: 0.75,
                estimated_bytes: 1 << 20,
            },
        }
    }

    /// Writes a run of this number of epochs, finished or not.
    pub fn write(path: &Path, epochs: u64, is_finished: bool) -> RunDir {
        fs::create_dir_all(path).unwrap();
        let run = RunDir::new(path);
        run.write_setup(&Config::default(), Path::new("sample.ignn"), storage::write_new).unwrap();
        let mut metrics = MetricsWriter::create(&run.metrics_file()).unwrap();
        (0..epochs).for_each(|epoch| metrics.epoch(&record(epoch)).unwrap());
        if is_finished {
            fs::write(run.summary_file(), summary(epochs).to_json()).unwrap();
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_training_wrote_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let run = SavedRun::read(&testing::write(dir.path(), 3, true)).unwrap();
        let accuracy = |record: &EpochRecord| {
            record.validation.as_ref().map(|part| part.value(Metric::Accuracy))
        };
        assert_eq!(run.curve(accuracy), [(0.0, 0.75), (1.0, 0.75), (2.0, 0.75)]);
        assert!(run.curve(|record| record.test.as_ref().map(|part| part.loss)).is_empty());
        assert_eq!((run.monitor(), run.chosen(Metric::Accuracy)), (Metric::Accuracy, Some(0.5)));
        assert_eq!(run.seconds()[0], ("forward", 1.5));
        assert_eq!(run.summary, Some(testing::summary(3)));
        // The step after the last record counts.
        assert_eq!(run.epochs(), Some(3));
        assert!(run.is_finished());
    }

    #[test]
    fn an_unfinished_run_is_read_as_far_as_it_got() {
        let dir = tempfile::tempdir().unwrap();
        let directory = testing::write(dir.path(), 2, false);
        let path = directory.metrics_file();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.clone() + "{\"epoch\":2,\"lo").unwrap();
        let run = SavedRun::read(&directory).unwrap();
        assert_eq!(
            (run.records.len(), run.is_torn, run.is_finished(), run.monitor()),
            (2, true, false, Metric::Accuracy)
        );
        assert_eq!(run.epochs(), Some(1));
        fs::write(&path, text + "mine\n").unwrap();
        let error = SavedRun::read(&directory).unwrap_err().to_string();
        assert!(error.contains("metrics.jsonl: line 3"), "{error}");
    }
}
