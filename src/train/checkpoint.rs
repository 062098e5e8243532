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

use std::path::{Path, PathBuf};

use super::best::{Best, EpochScore};
use super::collapse::CollapseWatch;
use super::trainer::{GraphSet, all_values};
use super::{TrainError, Trainer};
use crate::config::Config;
use crate::dense::Matrix;
use crate::models::file::{ModelFile, Shared, Tensor, Texts, text};
use crate::nn::{Equilibrium, Slot, Vectors};
use crate::optim::Parameter;

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

impl Trainer {
    /// Writes a checkpoint in place of the last one, unless the graph was changed since it was
    /// mapped. On several ranks all call it together, and the first one writes.
    pub fn save(&self, path: &Path) -> Result<(), TrainError> {
        let (shared, ranks) = (self.shared(), self.task.ranks());
        let saved = match ranks.is_first() {
            true => self.save_with(path, Texts::new(), &shared),
            false => Ok(()),
        };
        shared.finish();
        ranks.agree(saved, TrainError::OtherRank)
    }

    /// Writes a checkpoint with the checksum of the records before it, for [`records`].
    pub(crate) fn save_after(
        &self,
        records: &str,
        path: &Path,
        shared: &Shared<'_>,
    ) -> Result<(), TrainError> {
        self.save_with(path, Texts::from([(RECORDS.into(), records.into())]), shared)
    }

    /// The tensors of a checkpoint, to be written once.
    pub(crate) fn shared(&self) -> Shared<'_> {
        Shared::new(self.tensors(), &**self.task.ranks())
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        let rows_of = |name: &str| {
            let parameters = self.model.parameters.iter();
            let mut tables = parameters.filter_map(|p| p.rows.as_ref().map(|rows| (&p.name, rows)));
            tables.find(|(table, _)| name == *table || is_of(name, table)).map(|(_, rows)| rows)
        };
        let tensor = |name: String, of: &str, value| {
            let rows = rows_of(of);
            let tensor = Tensor::matrix(name, value);
            rows.map_or(tensor.clone(), |rows| tensor.divided(rows))
        };
        let values = all_values(&self.model);
        let mut tensors: Vec<_> = values
            .iter()
            .map(|(slot, value)| tensor(slot.name.clone(), &slot.name, value.view()))
            .collect();
        let moments = self.optimiser.state();
        tensors.extend(moments.into_iter().map(|(name, of)| tensor(name.clone(), &name, of)));
        if let Some(best) = &self.best {
            let values = values.iter().zip(&best.values);
            let best = values.filter_map(|((slot, _), value)| {
                let value = value.as_ref()?.view();
                Some(tensor(best_name(&slot.name), &slot.name, value))
            });
            tensors.extend(best);
        }
        let mut vectors = Vec::new();
        for (at, layer) in self.kept_layers().enumerate() {
            for (name, state) in [("X", &layer.state), ("G", &layer.adjoint)] {
                let state = Tensor::matrix(format!("state{at}.{name}"), state.view());
                tensors.push(state.divided(layer.rows()));
            }
            for (kept, [u_name, v_name]) in layer.kept().into_iter().zip(vector_names(at)) {
                // A missing vector is a row of length 0; no row at all means nothing was kept.
                if let Some(Vectors { u, v, .. }) = kept {
                    let entries = |vector: &'_ Option<Vec<f32>>| vector.clone().unwrap_or_default();
                    let own = Tensor::numbers(u_name, entries(u));
                    vectors.push(if u.is_some() { own.divided(layer.rows()) } else { own });
                    vectors.push(Tensor::numbers(v_name, entries(v)));
                }
            }
        }
        if let GraphSet::One(one) = &self.graphs {
            let rows = one.on.operators().rows();
            let kept = one.on.kept_states().into_iter();
            tensors.extend(kept.map(|(at, state)| {
                Tensor::matrix(format!("state{at}.X"), state.view()).divided(rows)
            }));
        }
        tensors.extend(vectors);
        tensors
    }

    fn save_with(
        &self,
        path: &Path,
        mut texts: Texts,
        shared: &Shared<'_>,
    ) -> Result<(), TrainError> {
        self.task.graph().check_unchanged()?;
        let own = [
            (text::CONFIG, self.config.to_toml()),
            (text::DATASET, self.task.graph().manifest().checksum()),
            (EPOCH, self.epoch.to_string()),
            (STEPS, self.optimiser.steps().to_string()),
            (FAILURES, self.failures.to_string()),
        ];
        texts.extend(own.map(|(name, text)| (name.to_string(), text)));
        if let Some(best) = &self.best {
            texts.insert(BEST_EPOCH.into(), best.score.epoch.to_string());
            texts.insert(BEST_VALUE.into(), best.score.value.to_bits().to_string());
            texts.insert(BEST_LOSS.into(), best.score.loss.to_bits().to_string());
        }
        self.collapse.save(&mut texts);
        for (at, layer) in self.kept_layers().enumerate() {
            for (kept, factor) in layer.kept().into_iter().zip(factors(at)) {
                texts.extend(kept.map(|kept| (factor, kept.q.to_bits().to_string())));
            }
        }
        Ok(shared.write(path, &texts)?)
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
        // The rows of this rank, of a parameter with a row for each node.
        let own = |name: &str, of: &str, shape: (usize, usize)| -> Result<Matrix, TrainError> {
            let parameter = self.model.parameters.iter().find(|parameter| parameter.name == of);
            let rows = parameter.and_then(|parameter| parameter.rows.as_ref());
            match rows.filter(|rows| !rows.is_alone()) {
                Some(rows) => Ok(file.own_rows(name, rows, shape.1, rows.len())?),
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
                // Ghosts come with the next solve.
                let name = format!("state{at}.{name}");
                file.own_rows(&name, rows, width, rows.with_ghosts())
            });
            let (state, adjoint) = (state?, adjoint?);
            let mut kept = [None, None];
            for ((side, names), factor) in kept.iter_mut().zip(vector_names(at)).zip(factors(at)) {
                if file.shape(&names[0]).is_some() {
                    for (name, expected) in names.iter().zip([rows.all(), width]) {
                        let found = length(file, name);
                        if found > 0 && found != expected {
                            return Err(unfit(format!(
                                "{name}: found {found} numbers, expected {expected}"
                            )));
                        }
                    }
                    let [u, v] = &names;
                    let has_u = length(file, u) > 0;
                    let u = has_u.then(|| file.own_numbers(u, rows, 1.0)).transpose()?;
                    // Older checkpoints do not say it.
                    let is_known = file.texts().contains_key(&factor);
                    let q = if is_known { f64::from_bits(number(&factor)?) } else { 0.0 };
                    *side = Some(Vectors { u, v: vector(file, v)?, q });
                }
            }
            states.push((state, adjoint, kept));
        }
        let mut kept = Vec::new();
        if let GraphSet::One(one) = &self.graphs {
            for (at, state) in one.on.kept_states() {
                let rows = one.on.operators().rows();
                let name = format!("state{at}.X");
                kept.push((at, file.own_rows(&name, rows, state.cols(), state.rows())?));
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

/// Length of a vector; 0 if it is missing.
fn length(file: &ModelFile, name: &str) -> usize {
    file.shape(name).and_then(|shape| shape.first().copied()).unwrap_or(0)
}

fn vector(file: &ModelFile, name: &str) -> Result<Option<Vec<f32>>, TrainError> {
    let length = length(file, name);
    let row = file.vector(name, length)?;
    Ok((length > 0).then(|| row.row(0).to_vec()))
}
