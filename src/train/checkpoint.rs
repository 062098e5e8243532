//! The complete state of training in one file that is replaced atomically:
//! `checkpoint/state.safetensors`. Resumed training gives the same bits as training that was never
//! interrupted.
//!
//! | tensors | what |
//! | --- | --- |
//! | `layer0.W`, ... | the parameters, by their names |
//! | `adam.first.layer0.W`, ... | the moments of the optimiser, of parameters that it changes |
//! | `best.layer0.W`, ... | the parameters of the best epoch, of those that change |
//! | `state0.X`, `state0.G`, ... | state and adjoint of each layer, for warm starts (one graph) |
//! | `forward0.u`, `forward0.v`, `adjoint0.u`, ... | the vectors of the certificates |
//!
//! Metadata: configuration, checksum of the dataset, epoch, steps, failures; epoch, value and loss
//! of the best epoch, and factors of the certificates (as bits of the f64); in a run, a checksum of
//! the records before it. Random numbers need no state: they are functions of seed, epoch and
//! position.
//!
//! As in every [file of tensors](crate::models::file), a checksum over all bytes is verified.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::best::{Best, EpochScore};
use super::collapse::CollapseWatch;
use super::trainer::{GraphSet, all_values, whole_rows};
use super::{TrainError, Trainer};
use crate::config::Config;
use crate::dense::Matrix;
use crate::models::file::{self, ModelFile, Tensor, Texts, text};
use crate::models::own_rows;
use crate::nn::{Equilibrium, Slot, Vectors};
use crate::optim::Parameter;
use crate::parallel::Rows;

const EPOCH: &str = "epoch";
const STEPS: &str = "steps";
const FAILURES: &str = "failures";
const BEST_EPOCH: &str = "best_epoch";
const BEST_VALUE: &str = "best_value_bits";
const BEST_LOSS: &str = "best_loss_bits";
const RECORDS: &str = "records_xxh3";

/// The largest counter of a checkpoint that is accepted.
const LARGEST_COUNT: u64 = 1 << 48;

/// Name of the file in the directory `checkpoint` of a run.
pub const STATE: &str = "state.safetensors";

/// The checkpoint of a run directory.
pub fn path(run: &Path) -> PathBuf {
    run.join("checkpoint").join(STATE)
}

/// The states and tables of all ranks, on the first of them. Nothing on one rank, which has them.
#[derive(Default)]
pub(crate) struct WholeStates {
    layers: Vec<WholeLayer>,
    /// By name.
    tables: BTreeMap<String, Matrix>,
}

struct WholeLayer {
    state: Matrix,
    adjoint: Matrix,
    kept: [Option<Vectors>; 2],
}

impl Trainer {
    /// Writes a checkpoint in place of the last one, unless the graph was changed since it was
    /// mapped. On several ranks all call it together, and the first one writes.
    pub fn save(&self, path: &Path) -> Result<(), TrainError> {
        let (whole, ranks) = (self.whole_states(), self.task.ranks());
        let saved = match ranks.is_first() {
            true => self.save_with(path, Texts::new(), &whole),
            false => Ok(()),
        };
        ranks.agree(saved, TrainError::OtherRank)
    }

    /// Collects the states of all ranks, which call this together.
    pub(crate) fn whole_states(&self) -> WholeStates {
        if self.task.ranks().is_alone() {
            return WholeStates::default();
        }
        let layers = self.kept_layers().filter_map(WholeLayer::of).collect();
        let mut tables = BTreeMap::new();
        let divided = self.model.parameters.iter().enumerate();
        for (at, parameter) in divided {
            let Some(rows) = &parameter.rows else { continue };
            let mut own = vec![(parameter.name.clone(), parameter.value.view())];
            let moments = self.optimiser.state().into_iter();
            own.extend(moments.filter(|(name, _)| is_of(name, &parameter.name)));
            let best = self.best.as_ref().and_then(|best| best.values[at].as_ref());
            own.extend(best.map(|best| (best_name(&parameter.name), best.view())));
            for (name, matrix) in own {
                tables.extend(whole_rows(matrix, rows).map(|whole| (name, whole)));
            }
        }
        WholeStates { layers, tables }
    }

    /// Writes a checkpoint with the checksum of the records before it, for [`records`].
    pub(crate) fn save_after(
        &self,
        records: &str,
        path: &Path,
        whole: &WholeStates,
    ) -> Result<(), TrainError> {
        self.save_with(path, Texts::from([(RECORDS.into(), records.into())]), whole)
    }

    fn save_with(
        &self,
        path: &Path,
        mut texts: Texts,
        whole: &WholeStates,
    ) -> Result<(), TrainError> {
        self.task.graph().check_unchanged()?;
        let mut tensors = Vec::new();
        let values = all_values(&self.model);
        let of_all = |name: &str| whole.tables.get(name).map(Matrix::view);
        for (slot, value) in &values {
            let value = of_all(&slot.name).unwrap_or(value.view());
            tensors.push(Tensor::matrix(&slot.name, value));
        }
        for (name, matrix) in self.optimiser.state() {
            let matrix = of_all(&name).unwrap_or(matrix);
            tensors.push(Tensor::matrix(name, matrix));
        }
        let own = [
            (text::CONFIG, self.config.to_toml()),
            (text::DATASET, self.task.graph().manifest().checksum()),
            (EPOCH, self.epoch.to_string()),
            (STEPS, self.optimiser.steps().to_string()),
            (FAILURES, self.failures.to_string()),
        ];
        texts.extend(own.map(|(name, text)| (name.to_string(), text)));
        if let Some(best) = &self.best {
            for ((slot, _), value) in values.iter().zip(&best.values) {
                let Some(value) = value else { continue };
                let name = best_name(&slot.name);
                let value = of_all(&name).unwrap_or(value.view());
                tensors.push(Tensor::matrix(name, value));
            }
            texts.insert(BEST_EPOCH.into(), best.score.epoch.to_string());
            texts.insert(BEST_VALUE.into(), best.score.value.to_bits().to_string());
            texts.insert(BEST_LOSS.into(), best.score.loss.to_bits().to_string());
        }
        self.collapse.save(&mut texts);
        let mut rows: Vec<(String, Matrix)> = Vec::new();
        for (at, layer) in self.kept_layers().enumerate() {
            let whole = whole.layers.get(at);
            let (state, adjoint, kept) = match whole {
                Some(WholeLayer { state, adjoint, kept }) => {
                    (state, adjoint, kept.each_ref().map(Option::as_ref))
                }
                None => (&layer.state, &layer.adjoint, layer.kept()),
            };
            tensors.push(Tensor::matrix(format!("state{at}.X"), state.view()));
            tensors.push(Tensor::matrix(format!("state{at}.G"), adjoint.view()));
            for ((kept, names), factor) in kept.into_iter().zip(vector_names(at)).zip(factors(at)) {
                // A missing vector is a row of length 0; no row at all means nothing was kept.
                if let Some(Vectors { u, v, q }) = kept {
                    rows.extend(names.into_iter().zip([row(u), row(v)]));
                    texts.insert(factor, q.to_bits().to_string());
                }
            }
        }
        if let GraphSet::One(one) = &self.graphs {
            let kept = one.on.kept_states().into_iter();
            tensors.extend(
                kept.map(|(at, state)| Tensor::matrix(format!("state{at}.X"), state.view())),
            );
        }
        tensors.extend(rows.iter().map(|(name, row)| Tensor::vector(name, row.view())));
        Ok(file::write(path, &tensors, &texts)?)
    }

    /// Continues from a checkpoint of the same configuration and dataset.
    pub fn restore(&mut self, path: &Path) -> Result<(), TrainError> {
        self.restore_from(&ModelFile::open(path)?)
    }

    /// The same from an open file.
    pub(crate) fn restore_from(&mut self, file: &ModelFile) -> Result<(), TrainError> {
        let path = file.path();
        let unfit = |what: String| TrainError::Checkpoint { path: path.into(), what };
        let expected = self.task.graph().manifest().checksum();
        let found = file.text(text::DATASET)?;
        if found != expected {
            return Err(unfit(format!(
                "dataset: found {found}, expected {expected}: has it changed?"
            )));
        }
        let saved = Config::from_toml(file.text(text::CONFIG)?, path);
        if let Some(what) = self.other_setting(&saved.map_err(|error| unfit(error.to_string()))?) {
            return Err(unfit(what));
        }
        let number = |name: &str| -> Result<u64, TrainError> {
            let found = file.text(name)?;
            found.parse().map_err(|_| unfit(format!("{name}: found {found:?}, expected a number")))
        };
        // Far more than any training makes, and counting on from it does not overflow.
        let count = |name: &str| match number(name)? {
            found if found > LARGEST_COUNT => {
                Err(unfit(format!("{name}: found {found}, expected at most {LARGEST_COUNT}")))
            }
            found => Ok(found),
        };
        let same = |matrix: &Matrix, name: &str| file.matrix(name, matrix.rows(), matrix.cols());
        // The rows of this rank, of a parameter with a row for each node.
        let own = |name: &str, of: &str, shape: (usize, usize)| -> Result<Matrix, TrainError> {
            let parameter = self.model.parameters.iter().find(|parameter| parameter.name == of);
            let rows = parameter.and_then(|parameter| parameter.rows.as_ref());
            match rows.filter(|rows| !rows.is_alone()) {
                Some(rows) => Ok(own_rows(&file.matrix(name, rows.all(), shape.1)?, rows)),
                None => Ok(file.matrix(name, shape.0, shape.1)?),
            }
        };
        let mut values = Vec::new();
        for (slot, value) in all_values(&self.model) {
            values.push(own(&slot.name, &slot.name, (value.rows(), value.cols()))?);
        }
        let mut moments = Vec::new();
        for (name, matrix) in self.optimiser.state() {
            let names = self.model.parameters.iter().map(|parameter| &parameter.name[..]);
            let of = names.into_iter().find(|of| is_of(&name, of)).unwrap_or_default();
            let read = own(&name, of, (matrix.rows(), matrix.cols()))?;
            moments.push((name, read));
        }
        let best = match file.texts().contains_key(BEST_EPOCH) {
            false => None,
            true => {
                let read = |(at, (slot, value)): (usize, (Slot, &Matrix))| {
                    let is_fixed = self.model.parameters.get(at).is_some_and(Parameter::is_fixed);
                    let shape = (value.rows(), value.cols());
                    let read = || own(&best_name(&slot.name), &slot.name, shape);
                    (!is_fixed).then(read).transpose()
                };
                let all = all_values(&self.model).into_iter().enumerate();
                let values = all.map(read).collect::<Result<_, _>>()?;
                let value = f64::from_bits(number(BEST_VALUE)?);
                let loss = f64::from_bits(number(BEST_LOSS)?);
                if !value.is_finite() {
                    return Err(unfit(format!(
                        "score of the best epoch: found {value}, expected a finite number"
                    )));
                }
                let score = EpochScore { epoch: number(BEST_EPOCH)?, value, loss };
                Some(Best { score, values })
            }
        };
        let mut states = Vec::new();
        for (at, layer) in self.kept_layers().enumerate() {
            let (rows, width) = (layer.rows(), layer.width());
            let [state, adjoint] = ["X", "G"].map(|name| {
                let whole = file.matrix(&format!("state{at}.{name}"), rows.all(), width)?;
                Ok::<_, TrainError>(local(whole, rows))
            });
            let (state, adjoint) = (state?, adjoint?);
            let mut kept = [None, None];
            for ((side, names), factor) in kept.iter_mut().zip(vector_names(at)).zip(factors(at)) {
                if file.shape(&names[0]).is_some() {
                    let [u, v] = names.each_ref().map(|name| vector(file, name));
                    let (vectors, lengths) = ([u?, v?], [rows.all(), width]);
                    for ((name, vector), expected) in names.iter().zip(&vectors).zip(lengths) {
                        if let Some(found) =
                            vector.as_ref().map(Vec::len).filter(|&found| found != expected)
                        {
                            return Err(unfit(format!(
                                "{name}: found {found} numbers, expected {expected}"
                            )));
                        }
                    }
                    let [u, v] = vectors;
                    let u = u.map(|u| rows.select(&u, 1.0));
                    // Older checkpoints do not say it.
                    let is_known = file.texts().contains_key(&factor);
                    let q = if is_known { f64::from_bits(number(&factor)?) } else { 0.0 };
                    *side = Some(Vectors { u, v, q });
                }
            }
            states.push((state, adjoint, kept));
        }
        let mut kept = Vec::new();
        if let GraphSet::One(one) = &self.graphs {
            for (at, state) in one.on.kept_states() {
                kept.push((at, same(state, &format!("state{at}.X"))?));
            }
        }
        let (epoch, failures) = (count(EPOCH)?, count(FAILURES)?);
        if let Some(Best { score, .. }) = &best
            && score.epoch > epoch
        {
            let found = score.epoch;
            return Err(unfit(format!("best epoch: found {found}, expected at most {epoch}")));
        }
        let collapse = CollapseWatch::load(file.texts(), number)?;
        let steps = count(STEPS)?;
        self.optimiser.restore(steps, moments).map_err(|error| unfit(error.to_string()))?;
        self.model.take_values(values);
        if let GraphSet::One(one) = &mut self.graphs {
            for (layer, (state, adjoint, kept)) in one.on.equilibria_mut().zip(states) {
                (layer.state, layer.adjoint) = (state, adjoint);
                layer.keep(kept);
            }
        }
        if let GraphSet::One(one) = &mut self.graphs {
            kept.into_iter().for_each(|(at, state)| one.on.keep_state(at, state));
        }
        (self.best, self.epoch, self.failures) = (best, epoch, failures);
        self.collapse = collapse;
        Ok(())
    }
}

impl Trainer {
    /// A setting that differs from the checkpoint's, apart from those that decide only when the
    /// training ends and when it is saved.
    fn other_setting(&self, saved: &Config) -> Option<String> {
        let mut saved = saved.clone();
        saved.train.epochs = self.config.train.epochs;
        saved.train.stop_after = self.config.train.stop_after;
        saved.train.checkpoint_epochs = self.config.train.checkpoint_epochs;
        saved.train.checkpoint_minutes = self.config.train.checkpoint_minutes;
        let [found, expected] = self.config.difference(&saved)?;
        Some(format!(
            "settings: found {found}, expected {expected}: a run continues with the settings it began with"
        ))
    }

    /// Layers whose states are kept for warm starts: those of one graph.
    fn kept_layers(&self) -> impl Iterator<Item = &Equilibrium> {
        let one = if let GraphSet::One(one) = &self.graphs { Some(one) } else { None };
        one.into_iter().flat_map(|one| one.on.equilibria())
    }
}

impl WholeLayer {
    /// The states of a layer on all ranks; `None` but on the first.
    fn of(layer: &Equilibrium) -> Option<Self> {
        let rows = layer.rows();
        let (state, adjoint) =
            (whole_rows(layer.state.view(), rows), whole_rows(layer.adjoint.view(), rows));
        let kept = layer.kept().map(|kept| {
            let Vectors { u, v, q } = kept?;
            let u = u.as_ref().map(|u| rows.collect(&u[..rows.len()]));
            Some(Vectors { u: u.flatten(), v: v.clone(), q: *q })
        });
        Some(Self { state: state?, adjoint: adjoint?, kept })
    }
}

/// The rows of this rank; its ghosts come with the next solve.
fn local(whole: Matrix, rows: &Rows) -> Matrix {
    if rows.is_alone() {
        return whole;
    }
    let mut local = Matrix::zeros(rows.with_ghosts(), whole.cols());
    let own = whole.view().block(rows.own());
    local.view_mut().padded_mut()[..own.padded().len()].copy_from_slice(own.padded());
    local
}

/// Name of a parameter of the best epoch.
fn best_name(parameter: &str) -> String {
    format!("best.{parameter}")
}

/// Whether a name is that of a moment of this parameter.
fn is_of(moment: &str, parameter: &str) -> bool {
    moment.strip_suffix(parameter).is_some_and(|kind| kind.ends_with('.'))
}

/// Names of the certificates' vectors of a layer, forward and adjoint, u and v.
fn vector_names(layer: usize) -> [[String; 2]; 2] {
    ["forward", "adjoint"].map(|side| ["u", "v"].map(|vector| format!("{side}{layer}.{vector}")))
}

/// Names of the texts with the certificates' factors of a layer, forward and adjoint, as bits of the
/// f64.
fn factors(layer: usize) -> [String; 2] {
    ["forward", "adjoint"].map(|side| format!("{side}{layer}.q_bits"))
}

/// The configuration of a checkpoint.
pub fn config(path: &Path) -> Result<String, TrainError> {
    Ok(ModelFile::open(path)?.text(text::CONFIG)?.to_string())
}

/// The checksum of the records that a checkpoint was written after, if it has one.
pub(crate) fn records(file: &ModelFile) -> Option<&str> {
    file.texts().get(RECORDS).map(String::as_str)
}

/// A vector as a matrix of one row; a missing one has no columns.
fn row(vector: &Option<Vec<f32>>) -> Matrix {
    let entries = vector.as_deref().unwrap_or_default();
    Matrix::from_fn(1, entries.len(), |_, k| entries[k])
}

fn vector(file: &ModelFile, name: &str) -> Result<Option<Vec<f32>>, TrainError> {
    let length = file.shape(name).and_then(|shape| shape.first().copied()).unwrap_or(0);
    let row = file.vector(name, length)?;
    Ok((length > 0).then(|| row.row(0).to_vec()))
}
