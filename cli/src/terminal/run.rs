//! The run directory as the command line shows it: names of its files, the curve of a run, its
//! figures as text and JSON. It hears records and formats; it trains nothing.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ignn::metrics::{MeanDeviation, Metric};
use ignn::predict;
use ignn::report::quantity;
pub use ignn::report::runs::{CONFIG, DATASET, METRICS, RUN};
use ignn::report::sheet::Sheet;
use ignn::solver::Stopped;
use ignn::train::{Ended, EpochRecord, Observer, PartRecord, Task, Trainer};
use ignn_format::FormatError;
use serde_json::{Value, json};

use crate::machine;

/// Event files.
pub const TENSORBOARD: &str = "tensorboard";
/// The directory of the checkpoint.
const CHECKPOINT: &str = "checkpoint";
/// The ending of a file that is not whole yet.
const DRAFT: &str = "part";
/// All that a run leaves in its directory beside what [`write`] writes there.
const OF_A_RUN: &[&str] = &[METRICS, TENSORBOARD, CHECKPOINT, predict::MODEL];

/// Refuses a directory that holds anything but a run, or runs of several seeds: it must not be
/// replaced.
pub fn check_replaceable(directory: &Path) -> Result<()> {
    let runs = match seeds(directory) {
        none if none.is_empty() => vec![directory.to_path_buf()],
        seeds => seeds,
    };
    for run in runs {
        if [CONFIG, DATASET].iter().any(|file| !run.join(file).is_file()) {
            bail!("{}: not a run directory: --force replaces only those", directory.display());
        }
        let is_draft = |name: &str| name.starts_with(&format!(".{}.ignn-", predict::MODEL));
        let is_own = |name: &str| {
            is_draft(name) || OF_A_RUN.contains(&name) || is_written(&[CONFIG, DATASET, RUN], name)
        };
        check_names(&run, "a run", is_own)?;
    }
    Ok(())
}

/// Refuses a directory in which something has a name that is none of `what`: it must not be
/// replaced.
pub fn check_names(directory: &Path, what: &str, is_own: impl Fn(&str) -> bool) -> Result<()> {
    let entries = fs::read_dir(directory).map_err(FormatError::io("read", directory))?;
    let mut names: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    if let Some(name) = names.iter().find(|name| !is_own(name)) {
        let path = directory.join(name);
        bail!("{}: no file of {what}: --force would remove it: move it away first", path.display());
    }
    Ok(())
}

/// Whether nothing is in a directory.
pub fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// The runs in a directory of several seeds; none where something else is in it.
pub fn seeds(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut seeds: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    // Seed 10 comes after seed 9.
    seeds.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    let is_seed = |path: &PathBuf| {
        let named =
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed-"));
        named && path.join(CONFIG).is_file()
    };
    if seeds.iter().all(is_seed) { seeds } else { Vec::new() }
}

/// Refuses to go on with what is no run.
pub fn check(run: &Path) -> Result<()> {
    if run.join(CONFIG).is_file() {
        return Ok(());
    }
    match seeds(run).last() {
        Some(last) => bail!(
            "{}: several runs, one for each seed: resume one of them, such as {}",
            run.display(),
            last.display()
        ),
        None => bail!("{}: not a run directory (expected {CONFIG} in it)", run.display()),
    }
}

/// Creates a directory where it is not there and holds it: as long as the result lives, no other
/// process trains in it.
pub fn hold(directory: &Path) -> Result<File> {
    fs::create_dir_all(directory).map_err(FormatError::io("create", directory))?;
    let held = File::open(directory).map_err(FormatError::io("open", directory))?;
    match held.try_lock() {
        Err(TryLockError::WouldBlock) => {
            bail!(
                "{}: another process is at work in it: wait for its end, or stop it first",
                directory.display()
            )
        }
        // Some file systems have no locks: then nobody is kept out.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(held),
    }
}

/// Removes an older run, or those of several seeds, unless somebody is at work in it.
pub fn remove(directory: &Path) -> Result<()> {
    let places = std::iter::once(directory.to_path_buf()).chain(seeds(directory));
    let _held: Vec<File> = places.map(|place| hold(&place)).collect::<Result<_>>()?;
    fs::remove_dir_all(directory)
        .map_err(|error| FormatError::io("remove", directory)(error).into())
}

/// The dataset that a run was made with.
pub fn dataset_of(run: &Path) -> Result<PathBuf> {
    let file = run.join(DATASET);
    if !file.exists() {
        bail!("{}: not a run directory (expected {DATASET} in it)", run.display());
    }
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    match text.trim_end_matches('\n') {
        "" => bail!(
            "{}: empty (expected the path of a dataset): give DATASET as well",
            file.display()
        ),
        path => Ok(PathBuf::from(path)),
    }
}

/// A path that means the same from any directory.
pub fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.into()).display().to_string()
}

/// Whether a name is that of one of these files, or of its draft, as [`write`] leaves them.
pub fn is_written(files: &[&str], name: &str) -> bool {
    let name = Path::new(name);
    files.iter().map(Path::new).any(|file| file == name || file.with_extension(DRAFT) == name)
}

/// A small file, whole or not at all.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let draft = path.with_extension(DRAFT);
    let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
    written.with_context(|| path.display().to_string())
}

/// What is remembered of a run's records.
pub struct Curve {
    monitor: Metric,
    /// Epoch, monitored value, test scores, of the epoch that is best on validation; and its
    /// validation loss.
    chosen: Option<(u64, f64, Option<PartRecord>)>,
    chosen_loss: f64,
    /// Whether that epoch's solve converged.
    chosen_converged: bool,
    /// The same of the epoch that is best on the test part: the published protocol.
    best_test: Option<(u64, f64, PartRecord)>,
    /// The record of the last epoch, as its line in the file has it.
    last: Value,
    sweeps: (u64, u64),
    epochs: u64,
    train_seconds: f64,
}

/// The figures of a finished run.
pub struct Figures {
    pub seed: u64,
    pub ended: Ended,
    pub epochs: u64,
    pub seconds: f64,
    pub seconds_per_epoch: f64,
    pub monitor: Metric,
    pub chosen: Option<(u64, f64, Option<PartRecord>)>,
    pub best_test: Option<(u64, f64, PartRecord)>,
    pub last: Value,
    pub sweeps: (f64, f64),
    pub failures: u64,
    /// Whether the solve of the model that is kept converged.
    pub converged: bool,
    pub estimated_bytes: u64,
}

/// A score of a part.
pub fn value(metric: Metric, part: &PartRecord) -> f64 {
    match metric {
        Metric::Loss => part.loss,
        metric => part.scores.get(metric.name()).copied().unwrap_or(f64::NAN),
    }
}

impl Curve {
    /// For a run judged by this metric; a resumed one takes the records of its file before.
    pub fn new(monitor: Metric, metrics: &Path, resumes: bool) -> Result<Self> {
        let mut curve = Self {
            monitor,
            chosen: None,
            chosen_loss: f64::INFINITY,
            chosen_converged: true,
            best_test: None,
            last: Value::Null,
            sweeps: (0, 0),
            epochs: 0,
            train_seconds: 0.0,
        };
        if resumes && metrics.exists() {
            let text =
                fs::read_to_string(metrics).with_context(|| metrics.display().to_string())?;
            for line in text.lines() {
                let record: Value = serde_json::from_str(line)?;
                let part = |name: &str| part_of(&record[name]);
                let epoch = record["epoch"].as_u64().unwrap_or(0);
                let parts = (part("validation"), part("test"));
                curve.judge(epoch, parts.0.as_ref(), parts.1.as_ref(), has_converged(&record));
                let sweeps = |solve: &str| record[solve]["sweeps"].as_u64().unwrap_or(0);
                curve.count(sweeps("forward"), sweeps("adjoint"), seconds_of(&record["seconds"]));
                curve.last = record;
            }
        }
        Ok(curve)
    }

    fn count(&mut self, forward: u64, adjoint: u64, seconds: f64) {
        self.sweeps.0 += forward;
        self.sweeps.1 += adjoint;
        self.epochs += 1;
        self.train_seconds += seconds;
    }

    fn judge(
        &mut self,
        epoch: u64,
        validation: Option<&PartRecord>,
        test: Option<&PartRecord>,
        converged: bool,
    ) {
        if let Some(test) = test {
            let new = value(self.monitor, test);
            if self.best_test.as_ref().is_none_or(|(_, old, _)| self.monitor.is_better(new, *old)) {
                self.best_test = Some((epoch, new, test.clone()));
            }
        }
        if let Some(validation) = validation {
            let new = value(self.monitor, validation);
            // Equal values: the smaller loss, as the trainer decides.
            let is_better = self.chosen.as_ref().is_none_or(|(_, old, _)| {
                self.monitor.is_better(new, *old)
                    || (new == *old && validation.loss < self.chosen_loss)
            });
            if is_better {
                (self.chosen_loss, self.chosen_converged) = (validation.loss, converged);
                self.chosen = Some((epoch, new, test.cloned()));
            }
        }
    }

    /// The figures at the end.
    pub fn figures(self, trainer: &Trainer, ended: Ended, seconds: f64, needed: u64) -> Figures {
        let epochs = self.epochs.max(1) as f64;
        // Without validation nodes the last model is kept.
        let converged = match &self.chosen {
            Some(_) => self.chosen_converged,
            None => has_converged(&self.last),
        };
        Figures {
            seed: trainer.config().train.seed,
            ended,
            epochs: trainer.epoch(),
            seconds,
            seconds_per_epoch: self.train_seconds / epochs,
            monitor: self.monitor,
            chosen: self.chosen,
            best_test: self.best_test,
            last: self.last,
            sweeps: (self.sweeps.0 as f64 / epochs, self.sweeps.1 as f64 / epochs),
            failures: trainer.failures(),
            converged,
            estimated_bytes: needed,
        }
    }
}

impl Observer for &mut Curve {
    fn epoch(&mut self, record: &EpochRecord) -> ignn_format::Result<()> {
        let told = serde_json::to_value(record).unwrap_or(Value::Null);
        self.judge(
            record.epoch,
            record.validation.as_ref(),
            record.test.as_ref(),
            has_converged(&told),
        );
        let adjoint = record.adjoint.map_or(0, |solve| solve.sweeps as u64);
        let forward = record.forward.map_or(0, |solve| solve.sweeps as u64);
        self.count(forward, adjoint, record.seconds.total());
        self.last = told;
        Ok(())
    }
}

/// Whether the solve of a record did what was asked for; there may be none.
fn has_converged(record: &Value) -> bool {
    let solve = &record["forward"];
    solve.is_null() || solve["converged"] == json!(true) || is_truncated(solve)
}

fn is_truncated(solve: &Value) -> bool {
    serde_json::to_value(Stopped::Truncated).is_ok_and(|word| solve["stopped"] == word)
}

fn part_of(value: &Value) -> Option<PartRecord> {
    let fields = value.as_object()?;
    let number = |(name, value): (&String, &Value)| Some((name.clone(), value.as_f64()?));
    let mut scores: std::collections::BTreeMap<_, _> = fields.iter().filter_map(number).collect();
    let loss = scores.remove("loss").unwrap_or(f64::NAN);
    Some(PartRecord { loss, scores })
}

fn seconds_of(value: &Value) -> f64 {
    value.as_object().map_or(0.0, |phases| phases.values().filter_map(Value::as_f64).sum())
}

fn part_json(part: &PartRecord) -> Value {
    serde_json::to_value(part).unwrap_or(Value::Null)
}

/// The figures of a run for machines.
pub fn figures_json(figures: &Figures) -> Value {
    let chosen = figures.chosen.as_ref().map(|(epoch, value, test)| {
        json!({"epoch": epoch, "validation": value, "test": test.as_ref().map(part_json)})
    });
    let best_test = figures.best_test.as_ref().map(
        |(epoch, value, test)| json!({"epoch": epoch, "value": value, "test": part_json(test)}),
    );
    json!({
        "seed": figures.seed,
        "ended": format!("{:?}", figures.ended).to_lowercase(),
        "epochs": figures.epochs,
        "monitor": figures.monitor.name(),
        "chosen_on_validation": chosen,
        "best_on_test": best_test,
        "last": figures.last,
        "sweeps_per_epoch": {"forward": figures.sweeps.0, "adjoint": figures.sweeps.1},
        "failures": figures.failures,
        "seconds": figures.seconds,
        "seconds_per_epoch": figures.seconds_per_epoch,
        "estimated_bytes": figures.estimated_bytes,
    })
}

/// `run.json`.
pub fn facts(figures: &Figures, task: &Task, threads: usize, peak: Option<u64>) -> Value {
    let manifest = task.dataset().manifest();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "dataset": {
            "name": task.dataset().directory().path().file_name().map(|name| name.to_string_lossy()),
            "checksum": manifest.checksum(),
            "nodes": manifest.nodes,
            "train": task.parts().train.len(),
            "validation": task.parts().validation.len(),
            "test": task.parts().test.len(),
        },
        "machine": {
            "threads": threads,
            "simd": ignn::kernels::Isa::chosen().name(),
            "peak_bytes": peak,
            "cores": machine::cores(),
            "memory_bytes": machine::memory(),
            "processor": machine::processor(),
            "ended": machine::today(),
        },
        "figures": figures_json(figures),
    })
}

/// All runs of a command.
pub fn as_json(all: &[Figures]) -> Value {
    match all {
        [one] => figures_json(one),
        _ => {
            let metrics = summary(all)
                .into_iter()
                .map(|(name, mean, deviation)| json!({"metric": name, "mean": mean, "deviation": deviation}));
            json!({
                "runs": all.iter().map(figures_json).collect::<Vec<_>>(),
                "summary": metrics.collect::<Vec<_>>(),
            })
        }
    }
}

/// Mean and deviation over runs of each test score, chosen on validation; then of the best on the
/// test part.
fn summary(all: &[Figures]) -> Vec<(String, f64, f64)> {
    let mut rows = Vec::new();
    let metrics = Metric::ALL.into_iter().filter(|metric| *metric != Metric::Loss);
    for metric in metrics {
        let chosen = all.iter().filter_map(|figures| {
            let test = figures.chosen.as_ref()?.2.as_ref()?;
            test.scores.get(metric.name()).copied()
        });
        push(
            &mut rows,
            format!("test {} (chosen on validation)", metric.name()),
            &chosen.collect::<Vec<_>>(),
        );
    }
    let best = all.iter().filter_map(|figures| Some(figures.best_test.as_ref()?.1));
    let name = all.first().map_or("", |figures| figures.monitor.name());
    push(&mut rows, format!("test {name} (best epoch on test)"), &best.collect::<Vec<_>>());
    rows
}

fn push(rows: &mut Vec<(String, f64, f64)>, name: String, values: &[f64]) {
    if values.is_empty() {
        return;
    }
    let MeanDeviation { mean, deviation } = MeanDeviation::of(values);
    rows.push((name, mean, deviation));
}

/// What a person reads at the end.
pub fn as_text(places: &[PathBuf], all: &[Figures]) -> String {
    let mut text = String::new();
    if let [figures] = all {
        text += &one_run(figures);
    } else {
        let monitor = all.first().map_or("", |figures| figures.monitor.name());
        let header = [
            "seed",
            "epochs",
            "best epoch",
            &format!("validation {monitor}"),
            &format!("test {monitor}"),
        ];
        let mut sheet = Sheet::columns(&header);
        for figures in all {
            let (epoch, validation, test) = match &figures.chosen {
                Some((epoch, value, test)) => (
                    epoch.to_string(),
                    format!("{value:.4}"),
                    test.as_ref().map_or("-".into(), |t| format!("{:.4}", value_of(figures, t))),
                ),
                None => ("-".into(), "-".into(), "-".into()),
            };
            sheet.row([
                figures.seed.to_string(),
                figures.epochs.to_string(),
                epoch,
                validation,
                test,
            ]);
        }
        text += &sheet.render();
        let mut means = Sheet::columns(&["score", "mean", "deviation"]);
        for (name, mean, deviation) in summary(all) {
            means.row([name, format!("{mean:.4}"), format!("{deviation:.4}")]);
        }
        text += &format!("\n{}", means.render());
    }
    text.push('\n');
    for place in places {
        text += &format!("model: {}\n", place.join(predict::MODEL).display());
    }
    for (place, figures) in places.iter().zip(all) {
        if figures.ended == Ended::Stopped {
            return text + &format!("next: ignn train --resume {}\n", place.display());
        }
    }
    let first = places.first().map_or_else(String::new, |place| place.display().to_string());
    text + &format!("next: ignn eval DATASET --model {first}\n")
}

fn value_of(figures: &Figures, part: &PartRecord) -> f64 {
    value(figures.monitor, part)
}

/// The figures of a run for people.
pub fn one_run(figures: &Figures) -> String {
    let mut sheet = Sheet::pairs();
    let ended = match figures.ended {
        Ended::Epochs => "all epochs done",
        Ended::Patience => "no better validation for train.stop_after epochs",
        Ended::Stopped => "stopped; go on with --resume",
    };
    sheet.row(["epochs".to_string(), format!("{}: {ended}", figures.epochs)]);
    if let Some((epoch, value, test)) = &figures.chosen {
        let name = figures.monitor.name();
        sheet.row(["best epoch".to_string(), format!("{epoch}, by validation {name} {value:.4}")]);
        if let Some(test) = test {
            for (score, value) in &test.scores {
                sheet.row([format!("test {score}"), format!("{value:.4}")]);
            }
        }
    }
    if let Some((epoch, value, _)) = &figures.best_test {
        let what =
            format!("{value:.4} in epoch {epoch}: not a fair figure, for comparison with papers");
        sheet.row([format!("best test {}", figures.monitor.name()), what]);
    }
    let (forward, adjoint) = figures.sweeps;
    let solve = &figures.last["forward"];
    if !solve.is_null() {
        sheet.row([
            "sweeps an epoch".to_string(),
            format!("{forward:.1} forward, {adjoint:.1} adjoint"),
        ]);
        let failures = match (figures.failures, is_truncated(solve)) {
            // Nothing bounds the weights of such a model: whether it has a steady state can only be
            // seen.
            (0, true) => format!(
                "a set number of steps each; the last one would move the state by {:.2} % of its size",
                100.0 * solve["relative_residual"].as_f64().unwrap_or(f64::NAN)
            ),
            (0, false) => "all converged".to_string(),
            (failures, _) => format!("{failures} did not converge"),
        };
        sheet.row(["solves".to_string(), failures]);
    } else {
        sheet.row(["solves", "none: this model has no equilibrium"]);
    }
    let each = quantity::seconds(figures.seconds_per_epoch);
    sheet.row([
        "time".to_string(),
        format!("{}, {each} an epoch", quantity::seconds(figures.seconds)),
    ]);
    sheet.render()
}
