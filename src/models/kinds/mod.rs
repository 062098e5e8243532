//! The kinds of models: one file each, and one row each in [`KINDS`].
//!
//! A row is all that the rest of the engine knows of a kind: where features come from, how many
//! layers there are and what each of them computes. Word and documentation of a kind are a variant
//! of [`ModelKind`]. Everything around a layer (input map, skip connection, normalisation, dropout,
//! places of the parameters) is added by [`NetworkShape::new`](super::NetworkShape::new) in the
//! same way for all kinds.
//!
//! A layer is solved ([`Body::Equilibrium`](super::BodyShape)) or computed by a
//! [`Map`]. A map of one kind only is in the file of that kind, forward
//! beside backward; one that several kinds share is in `nn`. `docs/adding-a-model.md` shows how to
//! add a kind.

mod gat;
mod gcn;
mod gcnii;
mod gin;
mod ignn;
mod label_propagation;
mod mlp;
mod sgc;
mod sse;
mod structural;

use std::borrow::Cow;
use std::sync::Arc;

use super::ModelError;
use super::shape::{BodyShape, Facts};
use crate::config::{ModelConfig, ModelKind};
use crate::dense::Matrix;
use crate::kernels::Activation;
use crate::nn::explicit::Map;
use crate::nn::{Dropout, InputMap, Operators};

/// All kinds, in the order in which messages and documentation list them.
pub const KINDS: &[Kind] = &[
    ignn::KIND,
    gcn::KIND,
    sgc::KIND,
    mlp::KIND,
    gat::KIND,
    gcnii::KIND,
    gin::KIND,
    sse::KIND,
    structural::KIND,
    label_propagation::KIND,
];

/// A kind of model: a row of [`KINDS`].
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its value of `model.kind`.
    pub kind: ModelKind,
    /// Where its features come from.
    pub features: FeatureRule,
    /// What follows the last layer.
    pub output: Output,
    /// Whether it has anything to learn. Kinds that do not are evaluated once, without an epoch.
    pub learns: bool,
    /// Whether `train.hide` and `model.init_features` apply: they need an equilibrium that carries
    /// the learned features of a node to other nodes.
    pub carries_learned_features: bool,
    /// The settings that it uses and some other kinds do not: `section.key`, or a whole section.
    /// `model.kind` documents them.
    pub uses: &'static [&'static str],
    /// Settings that the kind fixes, whatever the configuration says.
    pub fixed: Option<fn(&ModelConfig, &Facts) -> ModelConfig>,
    /// Its layers, from the features up.
    pub layers: fn(&Request<'_>) -> Result<Vec<LayerPlan>, ModelError>,
}

/// Where the features of a kind come from.
#[derive(Clone, Copy, Debug)]
pub enum FeatureRule {
    /// From the dataset or a learned table, as `model.features` says.
    Configured,
    /// Computed from the graph.
    Computed(ComputedFeatures),
    /// The labels of the training nodes, in the place of a learned table.
    Labels,
}

/// Features that are computed from the graph.
#[derive(Clone, Copy, Debug)]
pub struct ComputedFeatures {
    /// Number of columns. The second argument is the number of stored directions: one per relation,
    /// two per directed relation.
    pub columns: fn(&ModelConfig, usize) -> usize,
    /// One row per node.
    pub compute: fn(&ModelConfig, &Operators) -> Matrix,
}

/// What follows the last layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The readout that `model.readout` describes.
    Readout,
    /// Nothing: rows of the last layer are the logits. If graphs are classified, pooling and a
    /// readout follow all the same.
    Logits,
}

/// One layer, as its kind asks for it.
#[derive(Clone, Debug)]
pub struct LayerPlan {
    /// Width m of the state.
    pub width: usize,
    /// Rows that the input map sees.
    pub input: InputMap,
    /// Whether the input map has a bias.
    pub has_bias: bool,
    /// Dropout rate before the input map; its masks come from the stream `layerN.dropout`.
    pub dropout: f64,
    /// From the input term B to the state X.
    pub body: BodyShape,
}

/// What a kind makes its layers from.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The settings.
    pub config: &'a ModelConfig,
    /// The data.
    pub facts: &'a Facts,
    /// Seed of masks.
    pub seed: u64,
    /// Whether rows of the last layer are the logits.
    pub ends_in_logits: bool,
}

/// A layer of [`Request::stack`] whose map is still to be made.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a> {
    /// Its number, from 0.
    pub number: usize,
    /// Width m of the state.
    pub width: usize,
    /// Whether its rows are the logits.
    pub is_logits: bool,
    layers: usize,
    config: &'a ModelConfig,
}

impl Kind {
    /// A row with these layers and the most common properties: a baseline whose last layer gives
    /// the logits.
    const fn new(
        kind: ModelKind,
        uses: &'static [&'static str],
        layers: fn(&Request<'_>) -> Result<Vec<LayerPlan>, ModelError>,
    ) -> Self {
        Self {
            kind,
            features: FeatureRule::Configured,
            output: Output::Logits,
            learns: true,
            carries_learned_features: false,
            uses,
            fixed: None,
            layers,
        }
    }

    /// The row of a configured kind.
    ///
    /// # Panics
    /// If the table has no row for it, which a test excludes.
    pub fn of(kind: ModelKind) -> &'static Self {
        KINDS.iter().find(|row| row.kind == kind).expect("every word of model.kind has a row")
    }

    /// The word of `model.kind`.
    pub fn name(&self) -> &'static str {
        self.kind.word()
    }

    /// Whether a setting, `section.key`, has no effect on a model of this kind; `pools`: whether
    /// graphs are classified.
    pub fn ignores(&self, setting: &str, config: &ModelConfig, pools: bool) -> bool {
        let uses = |kind: &Self| {
            let is_it = |used: &&str| match used.contains('.') {
                true => *used == setting,
                false => setting.split('.').next() == Some(used),
            };
            kind.uses.iter().any(is_it)
        };
        match setting {
            "model.readout" | "model.hidden" | "model.head_bias" | "model.normalise_state" => {
                self.ends_in_logits(pools)
            }
            "model.features" | "model.normalise_features" => {
                !matches!(self.features, FeatureRule::Configured)
            }
            "model.skip" | "model.between" | "model.batch_norm" | "model.dropout"
            | "model.init_input" => !self.learns,
            setting if setting.starts_with("optim.") => !self.learns,
            "train.hide" | "model.init_features" => !self.carries_learned_features,
            // There is nothing between the layers of one.
            "model.layer_dropout" if config.state.len() == 1 => true,
            // A single layer of logits has no width, but where graphs are classified it has one.
            "model.state" if pools => false,
            _ => KINDS.iter().any(uses) && !uses(self),
        }
    }

    /// The settings with those that the kind fixes.
    pub(super) fn resolve<'a>(
        &self,
        config: &'a ModelConfig,
        facts: &Facts,
    ) -> Cow<'a, ModelConfig> {
        self.fixed.map_or(Cow::Borrowed(config), |fixed| Cow::Owned(fixed(config, facts)))
    }

    /// Whether rows of the last layer are the logits; `pools`: whether graphs are classified.
    pub fn ends_in_logits(&self, pools: bool) -> bool {
        self.output == Output::Logits && !pools
    }
}

impl<'a> Request<'a> {
    /// `depth` computed layers on top of each other. The input map of each sees a node's own rows,
    /// without a bias, after `model.dropout`; the maps come from `map`. Widths are one for all
    /// layers, or one for each that does not give the logits.
    pub fn stack<M: Map + 'static>(
        &self,
        depth: usize,
        map: impl Fn(Layer<'a>) -> Result<Arc<M>, ModelError>,
    ) -> Result<Vec<LayerPlan>, ModelError> {
        let plan = |(number, width): (usize, usize)| {
            let is_logits = self.ends_in_logits && number + 1 == depth;
            let layer = Layer { number, width, is_logits, layers: depth, config: self.config };
            Ok(LayerPlan {
                width,
                input: InputMap::Own,
                has_bias: false,
                dropout: self.config.dropout,
                body: BodyShape::Explicit(map(layer)?),
            })
        };
        self.widths(depth)?.into_iter().enumerate().map(plan).collect()
    }

    /// Dropout with masks from the stream of this name; `None` if the rate is 0.
    pub fn dropout(&self, rate: f64, name: &str) -> Option<Dropout> {
        Dropout::named(rate, self.seed, name).ok().filter(|_| rate > 0.0)
    }

    fn widths(&self, depth: usize) -> Result<Vec<usize>, ModelError> {
        let inner = depth - usize::from(self.ends_in_logits);
        let mut widths = match &self.config.state[..] {
            [one] => vec![*one; inner],
            each if each.len() == inner => each.to_vec(),
            // A single layer of logits has no use for a width.
            _ if inner == 0 => Vec::new(),
            each => {
                return Err(ModelError::Widths {
                    found: each.len(),
                    expected: inner,
                    depth: self.config.depth,
                });
            }
        };
        widths.extend(self.ends_in_logits.then_some(self.facts.outputs));
        Ok(widths)
    }
}

impl Layer<'_> {
    /// The configured activation: one for all layers, or one per layer; none before logits.
    pub fn activation(&self) -> Result<Activation, ModelError> {
        match self.is_logits {
            true => Ok(Activation::Identity),
            false => activation(self.config, self.number, self.layers),
        }
    }
}

/// The activation of a layer: one for all layers, or one per layer.
fn activation(config: &ModelConfig, layer: usize, layers: usize) -> Result<Activation, ModelError> {
    match &config.activation[..] {
        [one] => Ok(*one),
        each if each.len() == layers => Ok(each[layer]),
        each => Err(ModelError::Activations { found: each.len(), layers }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    #[test]
    fn every_word_of_the_setting_has_a_row() {
        let kinds: Vec<ModelKind> = KINDS.iter().map(|row| row.kind).collect();
        assert_eq!(kinds, ModelKind::ALL);
    }

    #[test]
    fn the_text_of_a_kind_lists_the_settings_that_it_uses() {
        let settings::Kind::Choice(words) = <ModelKind as settings::Setting>::KIND else {
            panic!("kinds are words")
        };
        for (kind, word) in KINDS.iter().zip(words) {
            let text = settings::paragraphs(word.doc).join(" ");
            let (_, list) = text.split_once("Uses ").unwrap_or_else(|| panic!("{text}"));
            let (list, _) = list.split_once('.').unwrap_or((list, ""));
            let mut section = "model";
            let mut listed = Vec::new();
            for name in list.split('`').skip(1).step_by(2) {
                match (name.strip_prefix('['), list.contains("of `[solver]`")) {
                    // What follows is of this section.
                    (Some(_), true) => section = "solver",
                    (Some(name), false) => listed.push(name.trim_end_matches(']').to_string()),
                    (None, _) => listed.push(format!("{section}.{name}")),
                }
            }
            assert_eq!(listed, kind.uses, "{}", word.word);
        }
    }

    #[test]
    fn the_text_of_a_kind_says_whether_a_readout_follows() {
        let settings::Kind::Choice(words) = <ModelKind as settings::Setting>::KIND else {
            panic!("kinds are words")
        };
        for (kind, word) in KINDS.iter().zip(words) {
            let text = settings::paragraphs(word.doc).join(" ");
            let says_so = text.contains("Ends in a readout.");
            assert_eq!(says_so, kind.output == Output::Readout, "{}", word.word);
        }
    }
}
