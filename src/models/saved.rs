//! A trained model without a graph: configuration, classes and values, as stored in its file. To
//! compute with it, [`Model::restored`] makes it a [`Network`].

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use ignn_format::checksum::HashingWriter;
use ignn_format::encoding::{Encoding, Scaling};
use ignn_format::labels::LabelKind;
use ignn_format::{FormatError, names};

use super::file::{self, ModelFile, Tensor, Texts, name, text};
use super::network::{Network, own_rows};
use super::shape::NetworkShape;
use super::{Facts, ModelError};
use crate::config::{Config, ConfigError};
use crate::dense::Matrix;
use crate::graph::Graph;
use crate::nn::Slot;
use crate::parallel::Rows;

/// Text: `single` or `multi`, whether classes exclude each other; `number` for a regression.
const LABELS: &str = "labels";
/// Text: mean and deviation of the numbers that a regression was trained on, as JSON.
const SCALING: &str = "scaling";
/// Text: how the columns of a table became features, as JSON.
const ENCODING: &str = "encoding";

/// What is wrong where names or shapes differ.
const UNFIT: &str = "the model does not fit the dataset and configuration";

/// Why a saved model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// The file.
    #[error(transparent)]
    File(#[from] FormatError),
    /// Its configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A configuration that describes no model for the data.
    #[error("{}: {source}", path.display())]
    Model {
        /// The model's file.
        path: PathBuf,
        /// What is wrong.
        source: ModelError,
    },
}

/// A trained model: its values and their meaning.
#[derive(Clone, Debug)]
pub struct Model {
    /// The configuration it was trained with.
    pub config: Config,
    /// Names of the outputs; of a regression, the name of the number.
    pub classes: Vec<String>,
    /// Whether a node has one class, a set of classes or a number.
    pub labels: LabelKind,
    /// For a regression: statistics of the training part, which turn the output into a number in
    /// the user's unit.
    pub scaling: Option<Scaling>,
    /// How the columns of a table became the features, where the dataset was made from one.
    pub encoding: Option<Encoding>,
    /// Checksum of the dataset it was trained on.
    pub dataset: String,
    /// Checksum of the ids of the nodes that its learned features belong to, in their order. None
    /// without learned features, and in files of older versions.
    pub nodes: Option<String>,
    /// Parameters by name.
    pub values: Vec<(Slot, Matrix)>,
}

impl Model {
    /// Saves the model as a safetensors file. A file that has its name is replaced, once the new one
    /// is complete.
    ///
    /// ```
    /// use ignn::prelude::*;
    ///
    /// # let graph = GraphBuilder::new(4)
    /// #     .edges([(0, 1), (2, 3)])
    /// #     .features(1, vec![1.0, 1.0, -1.0, -1.0])
    /// #     .classes(["a", "b"], (0..4).map(|node| Some(node / 2)))
    /// #     .split([0, 2], [], [1, 3])
    /// #     .build()?;
    /// # let mut config = Config::default();
    /// # (config.model.state, config.train.epochs) = (vec![4], 2);
    /// # let directory = tempfile::tempdir()?;
    /// # let file = directory.path().join("model.safetensors");
    /// let model = Trainer::new(&graph, config)?.fit()?.model;
    /// model.save(&file)?;
    /// let loaded = Model::load(&file)?;
    /// assert_eq!(loaded.classes, ["a", "b"]);
    /// let (here, there) = (model.predict(&graph)?, loaded.predict(&graph)?);
    /// assert_eq!(here.logits().row(0), there.logits().row(0));
    /// # Ok::<(), ignn::Error>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), FormatError> {
        let tensors: Vec<_> = self.values.iter().map(|(slot, value)| tensor(slot, value)).collect();
        file::write(path.as_ref(), &tensors, &self.texts())
    }

    /// The texts of its file.
    pub(crate) fn texts(&self) -> Texts {
        let kind = match self.labels {
            LabelKind::Single => "single",
            LabelKind::Multi => "multi",
            LabelKind::Number => "number",
        };
        fn json<T: serde::Serialize>(value: &T) -> String {
            serde_json::to_string(value).expect("plain data")
        }
        let texts = [
            (text::CONFIG, self.config.to_toml()),
            (text::CLASSES, json(&self.classes)),
            (text::DATASET, self.dataset.clone()),
            (LABELS, kind.to_string()),
        ];
        let nodes = self.nodes.iter().map(|nodes| (text::NODES, nodes.clone()));
        let scaling = self.scaling.iter().map(|scaling| (SCALING, json(scaling)));
        let encoding = self.encoding.iter().map(|encoding| (ENCODING, json(encoding)));
        let texts = texts.into_iter().chain(nodes).chain(scaling).chain(encoding);
        texts.map(|(name, text)| (name.to_string(), text)).collect()
    }

    /// Loads a file that [`Model::save`] wrote, or another program with the same names and texts.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SavedError> {
        Self::read(&ModelFile::open(path.as_ref())?)
    }

    /// The same from an open file.
    pub fn read(file: &ModelFile) -> Result<Self, SavedError> {
        let path = file.path();
        let config = Config::from_toml(file.text(text::CONFIG)?, path)?;
        let invalid = |what: &str, found: &str, expected: &str| {
            FormatError::invalid(path, format!("text {what}"), found, expected)
        };
        let classes = file.text(text::CLASSES)?;
        let classes: Vec<String> = serde_json::from_str(classes)
            .map_err(|_| invalid(text::CLASSES, classes, "a JSON list of names"))?;
        names::check_unique(path, "text classes", &classes)?;
        let labels = match file.text(LABELS)? {
            "single" => LabelKind::Single,
            "multi" => LabelKind::Multi,
            "number" => LabelKind::Number,
            other => return Err(invalid(LABELS, other, "single, multi or number").into()),
        };
        let scaling = match (labels, file.texts().get(SCALING)) {
            (LabelKind::Number, Some(text)) => {
                let scaling = serde_json::from_str(text).ok().filter(Scaling::is_sound);
                let expected = "a finite mean and a deviation above 0";
                Some(scaling.ok_or_else(|| invalid(SCALING, text, expected))?)
            }
            (LabelKind::Number, None) => {
                return Err(invalid(SCALING, "none", "mean and deviation of the numbers").into());
            }
            _ => None,
        };
        if labels == LabelKind::Number && classes.len() != 1 {
            let found = format!("{} names", classes.len());
            return Err(invalid(text::CLASSES, &found, "one, that of the number").into());
        }
        let encoding = match file.texts().get(ENCODING) {
            Some(text) => {
                let encoding = serde_json::from_str::<Encoding>(text).ok();
                let encoding = encoding.filter(|encoding| encoding.fault().is_none());
                Some(encoding.ok_or_else(|| invalid(ENCODING, "another text", "an encoding"))?)
            }
            None => None,
        };
        let dataset = file.texts().get(text::DATASET).cloned().unwrap_or_default();
        let nodes = file.texts().get(text::NODES).cloned();
        let mut values = Vec::new();
        for name in file.names() {
            let (shape, is_bias) = match *file.shape(&name).unwrap_or(&[]) {
                [cols] => ((1, cols), true),
                [rows, cols] => ((rows, cols), false),
                _ => return Err(invalid(&name, "another number of dimensions", "1 or 2").into()),
            };
            let value = match is_bias {
                true => file.vector(&name, shape.1)?,
                false => file.matrix(&name, shape.0, shape.1)?,
            };
            values.push((Slot { name, shape, is_bias }, value));
        }
        Ok(Self { config, classes, labels, scaling, encoding, dataset, nodes, values })
    }

    /// The network with these values, for data with these properties; without memory for training.
    pub fn restored(&self, facts: &Facts, origin: &Path) -> Result<Network, SavedError> {
        self.check_relations(facts, origin)?;
        // Before memory is taken for what the configuration asks for.
        let unfit = |source: ModelError| SavedError::Model { path: origin.into(), source };
        let shape = NetworkShape::new(&self.config.model, facts, 0).map_err(unfit)?;
        self.check_shapes(&shape.slots, origin)?;
        let mut model = Network::new(&self.config.model, facts, 0, false).map_err(unfit)?;
        self.copy_into(&mut model, origin)?;
        Ok(model)
    }

    /// A checksum of configuration and values.
    pub(crate) fn checksum(&self) -> String {
        let mut hash = HashingWriter::new(std::io::sink());
        let mut add = |bytes: &[u8]| hash.write_all(bytes).expect("a sink takes everything");
        add(self.config.to_toml().as_bytes());
        for (slot, value) in &self.values {
            add(slot.name.as_bytes());
            add(bytemuck::cast_slice(value.view().padded()));
        }
        hash.into_parts().1.xxh3
    }

    /// Whether a table with one row per node was learned.
    pub fn has_learned_features(&self) -> bool {
        self.values.iter().any(|(slot, _)| slot.name == name::E)
    }

    /// Refuses a graph with other nodes than those that the learned features belong to, or with the
    /// same in another order. A file of an older version does not say which they are: there, the
    /// number of nodes alone is compared, with all other shapes.
    pub fn check_nodes(&self, graph: &Graph, origin: &Path) -> Result<(), FormatError> {
        let Some(expected) = &self.nodes else { return Ok(()) };
        let is_own = self.dataset == graph.manifest().checksum();
        if !self.has_learned_features() || is_own || *expected == graph.ids()?.checksum() {
            return Ok(());
        }
        let what = "the model has learned a row of features for each node of its own graph";
        let found = format!("other node ids, or another order, in {}", graph.path().display());
        let expected = "the nodes it was trained on: train on this dataset, or train with \
                        model.features=given for a model that goes from graph to graph";
        Err(FormatError::invalid(origin, what, found, expected))
    }

    /// A model with parameters per relation needs relations of the same names; a model with a
    /// single W needs a single relation, of any name. Kinds that only average the relations have no
    /// parameters that belong to one, so any relations will do.
    fn check_relations(&self, facts: &Facts, origin: &Path) -> Result<(), FormatError> {
        let relation = |(slot, _): &'_ (Slot, Matrix)| -> Option<String> {
            let name = slot.name.strip_prefix("layer0.W.");
            name.or_else(|| slot.name.strip_prefix("layer0.Omega.")).map(str::to_string)
        };
        let own: BTreeSet<String> = self.values.iter().filter_map(relation).collect();
        let found: Vec<&str> = facts.relations.iter().map(String::as_str).collect();
        let is_single = self.values.iter().any(|(slot, _)| slot.name == "layer0.W");
        let fits = match own.is_empty() {
            true => !is_single || found.len() == 1,
            false => {
                own.iter().map(String::as_str).eq(found.iter().copied().collect::<BTreeSet<_>>())
            }
        };
        if fits {
            return Ok(());
        }
        let expected =
            if own.is_empty() { "a single one".into() } else { Vec::from_iter(own).join(", ") };
        let what = "the dataset has other relations than the model";
        Err(FormatError::invalid(origin, what, found.join(", "), expected))
    }

    /// Copies these values into a network, which must have the same names and shapes; one of several
    /// ranks takes its own rows of a table. `origin` is the file that messages name.
    pub fn copy_into(&self, model: &mut Network, origin: &Path) -> Result<(), FormatError> {
        let what = UNFIT;
        let mut wanted: Vec<(String, (usize, usize))> =
            model.slots().into_iter().map(|slot| (slot.name, slot.shape)).collect();
        let tables: Vec<Option<Rows>> =
            model.parameters.iter().map(|parameter| parameter.rows.clone()).collect();
        for ((_, shape), rows) in wanted.iter_mut().zip(&tables) {
            shape.0 = rows.as_ref().map_or(shape.0, Rows::all);
        }
        let statistics = model.statistics_by_name();
        wanted.extend(
            statistics.into_iter().map(|(name, value)| (name, (value.rows(), value.cols()))),
        );
        let is_wanted = |slot: &Slot| wanted.iter().any(|(name, _)| *name == slot.name);
        if let Some((extra, _)) = self.values.iter().find(|(own, _)| !is_wanted(own)) {
            let names: Vec<_> = wanted.iter().map(|(name, _)| name.as_str()).collect();
            let (what, found) = (format!("{what}: parameters"), format!("{} too", extra.name));
            return Err(FormatError::invalid(origin, what, found, names.join(", ")));
        }
        let mut values = Vec::new();
        let all = std::iter::repeat(&None);
        for ((name, shape), rows) in wanted.iter().zip(tables.iter().chain(all)) {
            let value = self.value(name, *shape, origin)?;
            let divided = rows.as_ref().filter(|rows| !rows.is_alone());
            values.push(divided.map_or_else(|| value.clone(), |rows| own_rows(value, rows)));
        }
        model.take_values(values);
        Ok(())
    }
}

impl Model {
    /// Refuses values of other shapes than these.
    fn check_shapes(&self, slots: &[Slot], origin: &Path) -> Result<(), FormatError> {
        slots.iter().try_for_each(|slot| self.value(&slot.name, slot.shape, origin).map(drop))
    }

    /// The value of this name, which must have this shape.
    fn value(
        &self,
        name: &str,
        shape: (usize, usize),
        origin: &Path,
    ) -> Result<&Matrix, FormatError> {
        let expected = format!("{name} of shape {shape:?}");
        match self.values.iter().find(|(own, _)| own.name == name) {
            Some((own, value)) if own.shape == shape => Ok(value),
            Some((own, _)) => {
                let found = format!("{} of shape {:?}", own.name, own.shape);
                Err(FormatError::invalid(origin, UNFIT, found, expected))
            }
            None => {
                let names: Vec<_> = self.values.iter().map(|(own, _)| own.name.as_str()).collect();
                let what = format!("{UNFIT}: parameters");
                Err(FormatError::invalid(origin, what, names.join(", "), expected))
            }
        }
    }
}

/// A parameter as a tensor of a file. Biases become vectors.
pub(crate) fn tensor<'a>(slot: &Slot, value: &'a Matrix) -> Tensor<'a> {
    match slot.is_bias {
        true => Tensor::vector(&slot.name, value.view()),
        false => Tensor::matrix(&slot.name, value.view()),
    }
}
