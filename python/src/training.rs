//! Training: runs in a directory, with checkpoints, and in memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ignn::config::Config;
use ignn::format::storage::Draft;
use ignn::report::crossvals;
use ignn::report::page::PAGE;
use ignn::report::runs::{self, Group, ShownRun};
use ignn::run::{FinishedRun, RunDir, SavedRun};
use ignn::serde_json::{self, Value};
use ignn::train::{Ended, Fit, Observer, Parts, Task, Trainer, memory, unused_settings};
use ignn::{FormatError, parallel, predict};
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::failure::{Failure, exception};
use crate::graph::{self, Graph};
use crate::job::{self, Reports};
use crate::model::Model;
use crate::values::to_python;

/// Training that has ended.
#[pyclass(frozen, module = "ignn._ignn")]
pub struct Run {
    /// Where it is kept; `None` in memory.
    #[pyo3(get)]
    directory: Option<PathBuf>,
    /// "epochs", "patience", "stopped" or "collapsed".
    #[pyo3(get)]
    ended: String,
    #[pyo3(get)]
    best_epoch: Option<u64>,
    figures: Value,
    history: Vec<Value>,
    model: ignn::models::Model,
}

#[pymethods]
impl Run {
    /// The model of the best epoch.
    fn model(&self) -> Model {
        Model::new(self.model.clone())
    }

    /// One record per epoch.
    fn history(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, &Value::from(self.history.clone()))
    }

    /// The figures of a run in a directory, as in its `run.json`.
    fn figures(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, &self.figures)
    }
}

fn word(ended: Ended) -> String {
    let value = serde_json::to_value(ended).unwrap_or_default();
    value.as_str().unwrap_or_default().into()
}

fn plain<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The resolved settings, or why they are wrong.
#[pyfunction]
#[pyo3(signature = (settings, *, preset, config))]
pub fn check_settings(
    py: Python<'_>,
    settings: Vec<String>,
    preset: Option<String>,
    config: Option<PathBuf>,
) -> PyResult<Py<PyAny>> {
    let resolved = Config::resolve(preset.as_deref(), config.as_deref(), &settings);
    to_python(py, &resolved.map_err(|error| exception(Failure::from(error)))?.values())
}

/// Items for training, validation and test.
type PartArrays<'py> =
    (PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, u32>);

/// Trains a model.
#[pyfunction]
#[pyo3(signature = (
    graph, settings, *, preset, config, out, force, init, memory_limit, parts, listener
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn train(
    py: Python<'_>,
    graph: &Graph,
    settings: Vec<String>,
    preset: Option<String>,
    config: Option<PathBuf>,
    out: Option<PathBuf>,
    force: bool,
    init: Option<PathBuf>,
    memory_limit: Option<u64>,
    parts: Option<PartArrays<'_>>,
    listener: Option<&Bound<'_, PyAny>>,
) -> PyResult<Run> {
    let graph = graph.graph.clone();
    if out.is_some() && parts.is_some() {
        return Err(PyValueError::new_err("a run in a directory trains on a split of its dataset"));
    }
    if out.is_none() && (init.is_some() || force) {
        return Err(PyValueError::new_err("init and force need out, the directory of the run"));
    }
    let chosen = match parts {
        Some((train, validation, test)) => Some(Parts {
            train: train.as_slice()?.to_vec(),
            validation: validation.as_slice()?.to_vec(),
            test: test.as_slice()?.to_vec(),
        }),
        None => None,
    };
    job::run(py, listener, move |reports| {
        let resolved = Config::resolve(preset.as_deref(), config.as_deref(), &settings)?;
        let mut observer = reports;
        if let Some(note) = unused_settings(config.as_deref(), &settings, &resolved, &graph)? {
            observer.note(&note)?;
        }
        let memory_limit = graph::memory(memory_limit)?;
        let Some(out) = out else {
            return in_memory(graph, resolved, chosen, memory_limit, reports);
        };
        let mut run = ignn::run::Run::new(graph, resolved, out).memory(memory_limit);
        if force {
            run = run.replacing();
        }
        if let Some(init) = init {
            run = run.starting_from(predict::model_file(&init)?);
        }
        in_directory(&run, reports)
    })
}

/// Continues a run from its last checkpoint.
#[pyfunction]
#[pyo3(signature = (directory, *, graph, epochs, memory_limit, listener))]
pub fn resume(
    py: Python<'_>,
    directory: PathBuf,
    graph: Option<&Graph>,
    epochs: Option<u64>,
    memory_limit: Option<u64>,
    listener: Option<&Bound<'_, PyAny>>,
) -> PyResult<Run> {
    let dataset = graph.map(|graph| graph.graph.path().to_path_buf());
    job::run(py, listener, move |reports| {
        let run = match dataset {
            Some(dataset) => ignn::run::Run::resume_on(directory, &dataset)?,
            None => ignn::run::Run::resume(directory)?,
        };
        let run = run.memory(graph::memory(memory_limit)?);
        let run = match epochs {
            Some(epochs) => run.epochs(epochs)?,
            None => run,
        };
        in_directory(&run, reports)
    })
}

fn in_directory(run: &ignn::run::Run, reports: &Reports) -> Result<Run, Failure> {
    // It ends after its epoch, with a checkpoint, and not within a solve.
    let (goes_on, mut observer) = (Arc::default(), reports);
    let ended = parallel::stoppable(&goes_on, || run.train(&mut observer, &reports.stop));
    let FinishedRun { directory, figures, is_kept, .. } = ended?;
    if !is_kept {
        let path = directory.path().display();
        return Err(Failure::argument(format!(
            "{path}: stopped before the new run could replace the old one, which is as it was"
        )));
    }
    let model = ignn::models::Model::load(directory.model_file())?;
    let history = directory.records()?.iter().map(plain).collect();
    Ok(Run {
        directory: Some(directory.path().into()),
        ended: word(figures.ended),
        best_epoch: figures.chosen_on_validation.as_ref().map(|best| best.epoch),
        figures: plain(&figures),
        history,
        model,
    })
}

fn in_memory(
    graph: ignn::graph::Graph,
    config: Config,
    chosen: Option<Parts>,
    allowed: u64,
    reports: &Reports,
) -> Result<Run, Failure> {
    let nodes = graph.nodes() as u64;
    let count = graph.manifest().graphs.as_ref().map_or(nodes, |graphs| graphs.count);
    let outside = |items: &Vec<u32>| items.iter().any(|&item| u64::from(item) >= count);
    if let Some(Parts { train, validation, test }) = &chosen
        && [train, validation, test].into_iter().any(outside)
    {
        return Err(Failure::argument(format!("nodes: expected numbers below {count}")));
    }
    let task = Arc::new(Task::with_parts(graph, &config, chosen)?);
    memory::check(&task, &config, allowed)?;
    let stop: Arc<AtomicBool> = Arc::clone(&reports.stop);
    let mut trainer = Trainer::with_task(task, config)?.with_stop(stop);
    let mut observer = reports;
    trainer.notes().iter().try_for_each(|note| observer.note(note))?;
    let Fit { model, history, ended, best_epoch } = trainer.fit_with(&mut observer)?;
    Ok(Run {
        directory: None,
        ended: word(ended),
        best_epoch,
        figures: Value::Null,
        history: history.iter().map(plain).collect(),
        model,
    })
}

/// Writes the page of one or several runs.
#[pyfunction]
#[pyo3(signature = (directories, out, *, title, classes, force, listener))]
pub fn report(
    py: Python<'_>,
    directories: Vec<PathBuf>,
    out: PathBuf,
    title: Option<String>,
    classes: bool,
    force: bool,
    listener: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    job::run(py, listener, move |reports| {
        if !out.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html")) {
            return Err(FormatError::ending(&out, ".html").into());
        }
        let draft = Draft::create(&out, force.then_some(&PAGE))?;
        let named = |names: &[&str]| title.clone().unwrap_or_else(|| names.join(", "));
        if let Some(all) = crossvals::read(&directories)? {
            let names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
            let page = crossvals::page(&named(&names), &all);
            return Ok(draft.write(page.render().as_bytes())?);
        }
        let mut groups = Vec::new();
        for (path, name) in directories.iter().zip(runs::names(&directories)) {
            let members = RunDir::new(path).runs();
            if members.is_empty() {
                // Says what is wrong with it.
                ignn::run::Run::resume(path)?;
            }
            let mut group = Group { name, runs: Vec::new() };
            for member in members {
                let saved = SavedRun::read(&member)?;
                let classes = classes.then(|| score_classes(&saved, reports)).flatten();
                group.runs.push(ShownRun { saved, classes });
            }
            groups.push(group);
        }
        let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
        Ok(draft.write(runs::page(&named(&names), &groups).render().as_bytes())?)
    })
}

/// Scores of the test part by class, if the dataset is still the same; a note if not.
fn score_classes(run: &SavedRun, reports: &Reports) -> Option<predict::PartScores> {
    let checksum = &run.summary.as_ref()?.dataset.checksum;
    let score = || -> Result<Option<predict::PartScores>, ignn::Error> {
        let graph = ignn::graph::Graph::open(run.directory.dataset()?)?;
        if graph.manifest().checksum() != *checksum {
            return Ok(None);
        }
        let model = ignn::models::Model::load(run.directory.model_file())?;
        let mut parts = model.predict(&graph)?.evaluate()?.parts;
        let test = parts.iter().position(|part| part.part == "test");
        Ok(parts.len().checked_sub(1).map(|last| parts.swap_remove(test.unwrap_or(last))))
    };
    let found = score().map_err(|error| error.to_string());
    let reason = match found {
        Ok(Some(part)) => return Some(part),
        Ok(None) => "not the dataset of the run any more".into(),
        Err(error) => error,
    };
    let mut observer = reports;
    let path = run.directory.path().display();
    let _ = observer.note(&format!("{path}: no results by class: {reason}"));
    None
}
