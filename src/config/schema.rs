//! The fields of a configuration, one table: path, kind, default, a sentence. Reading, checking,
//! writing and the documentation come from it; what the fields do is for those who take them.

use std::fmt;

use serde_json::Value;

use super::choices::{
    ActivationName, ClassWeights, Clip, FeatureSource, FeatureStart, GradientKind, InitName,
    InputMap, Learn, LossName, MeasureName, Method, ModelKind, Monitor, OnFailure, PoolingName,
    Readout, Schedule, SolveMethod, StorageName,
};
use crate::solver::anderson::{DEPTH, MAX_DEPTH};
use crate::solver::fixed_point::{MAX_SWEEPS, PATIENCE, TOLERANCE};

/// Sections in their order, each with a sentence.
pub const SECTIONS: &[(&str, &str)] = &[
    ("model", "The equation and the read-out."),
    ("solver", "How equilibria and adjoints are solved."),
    ("optim", "How a gradient becomes a step."),
    ("train", "How long, on what, and judged by what."),
];

/// A field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// `section.key`.
    pub path: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The value where none is given.
    pub default: DefaultValue,
    /// What it is, in a sentence.
    pub doc: &'static str,
}

/// Values that a field takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// An integer, both ends included.
    Integer(u64, u64),
    /// A number.
    Number(Span),
    /// True or false.
    Flag,
    /// One of several words.
    Word(&'static [&'static str]),
    /// Any text but an empty one.
    Text,
    /// A list of so many widths at most, each an integer, both ends included. One alone is a list
    /// of one; so below.
    Widths(usize, u64, u64),
    /// A list of so many numbers at most.
    Numbers(usize, Span),
    /// A list of so many words at most, each one of several.
    Words(usize, &'static [&'static str]),
}

/// An interval of numbers.
#[derive(Clone, Copy, Debug)]
pub enum Span {
    /// From this on.
    From(f64),
    /// Above this.
    Above(f64),
    /// From the first to the second, both included.
    Closed(f64, f64),
    /// From the first to below the second.
    Below(f64, f64),
    /// Above the first to the second, included.
    AboveTo(f64, f64),
}

/// A default.
#[derive(Clone, Copy, Debug)]
pub enum DefaultValue {
    /// Of [`Kind::Integer`].
    Integer(u64),
    /// Of [`Kind::Number`].
    Number(f64),
    /// Of [`Kind::Flag`].
    Flag(bool),
    /// Of [`Kind::Word`] and [`Kind::Text`].
    Text(&'static str),
    /// Of [`Kind::Widths`].
    Widths(&'static [u64]),
    /// Of [`Kind::Numbers`].
    Numbers(&'static [f64]),
    /// Of [`Kind::Words`].
    Words(&'static [&'static str]),
}

use Kind::{Flag, Integer, Number, Numbers, Text, Widths, Word, Words};
use Span::{Above, AboveTo, Below, Closed, From};

/// Layers of a stack at most, and relations.
pub const LAYERS: usize = 64;
/// Integers of TOML end here.
const MOST: u64 = i64::MAX as u64;

const fn field(path: &'static str, kind: Kind, default: DefaultValue, doc: &'static str) -> Field {
    Field { path, kind, default, doc }
}

const fn integer(
    path: &'static str,
    default: u64,
    least: u64,
    most: u64,
    doc: &'static str,
) -> Field {
    field(path, Integer(least, most), DefaultValue::Integer(default), doc)
}

const fn number(path: &'static str, default: f64, span: Span, doc: &'static str) -> Field {
    field(path, Number(span), DefaultValue::Number(default), doc)
}

const fn flag(path: &'static str, default: bool, doc: &'static str) -> Field {
    field(path, Flag, DefaultValue::Flag(default), doc)
}

const fn word(
    path: &'static str,
    default: &'static str,
    words: &'static [&'static str],
    doc: &'static str,
) -> Field {
    field(path, Word(words), DefaultValue::Text(default), doc)
}

const fn text(path: &'static str, default: &'static str, doc: &'static str) -> Field {
    field(path, Text, DefaultValue::Text(default), doc)
}

/// All fields, in the order in which they are written.
#[rustfmt::skip] // A table: a field a line or two, read down the columns.
pub const FIELDS: &[Field] = &[
    word("model.kind", "ignn", ModelKind::WORDS, "The model: equilibrium layers and a read-out (\"ignn\"), or one of the baselines below."),
    field("model.state", Widths(LAYERS, 1, 2048), DefaultValue::Widths(&[128]), "Width m of the state; several widths make a stack of equilibrium layers, each fed by the one before."),
    field("model.activation", Words(LAYERS, ActivationName::WORDS), DefaultValue::Words(&["relu"]), "The activation phi of the equation: one for all layers, or one a layer."),
    number("model.slope", 0.01, Closed(0.0, 1.0), "Slope of leaky-relu below zero; of no use to the others."),
    word("model.input", "gathered", InputMap::WORDS,
        "How features enter: Omega U A (\"gathered\"), Omega U (\"own\"), or Omega1 U A + Omega2 U (\"both\")."),
    flag("model.bias", false, "A learned bias in the equation."),
    field("model.kappa", Numbers(LAYERS, Below(0.0, 1.0)), DefaultValue::Numbers(&[0.95]),
        "Bound of lambda(|W|) lambda(A) that the projection keeps: the nearer to 1, the farther nodes see and the more sweeps it takes. One for all layers, or one a layer. Of several relations: one that they share in equal parts, or one a relation; a sum of 1 or more is not certified."),
    word("model.init", "uniform", InitName::WORDS,
        "First values of W: \"uniform\" within 1 / sqrt(m), as the published code draws them; the \"identity\" times kappa / rho, with which nodes see as far as they may from the first epoch on; \"scaled\", random and brought to the bound by a factor; or \"cascade\", the identity in banks of as many columns as there are classes, where each bank after the first hears a tenth from the one before: with labels as features, a longer and smoother reach beside the plain one."),
    number("model.init_input", 1.0, Closed(0.0, 1000.0),
        "First values of Omega or E are uniform within this over sqrt(m). Small ones let learned features grow from what the labels tell, instead of from noise."),
    word("model.init_features", "random", FeatureStart::WORDS,
        "First values of learned features: \"random\", or the \"labels\" of the training nodes, a column a class and zero elsewhere; the read-out then starts as their reader, so that the untrained model is label propagation. Needs an init of \"identity\" or \"cascade\", a linear read-out and a state at least as wide as there are classes."),
    word("model.features", "auto", FeatureSource::WORDS,
        "Features of the dataset (\"given\"), a learned row a node (\"learned\"), or the first where there are any (\"auto\")."),
    flag("model.normalise_features", false, "Divides each row of the dataset's features by the sum of its entries' sizes, as is usual for bags of words."),
    number("model.feature_dropout", 0.0, Below(0.0, 1.0), "Share of the features' entries, or of a learned table's, that training sets to zero before they enter an equilibrium, drawn anew for each step, the others divided by what is left; skips see all. A node learns not to rest on single words. A step then has a forward solve of its own, and dense features are gathered anew for it. Baselines drop theirs by model.dropout; of no use to ridge regression."),
    flag("model.skip", false, "Adds a linear map of each layer's input to its state, V x + v, before what comes next."),
    word("model.between", "identity", ActivationName::WORDS, "Activation after the skip of every layer but the last; of no use without skips."),
    flag("model.batch_norm", false, "Normalises each layer's result over the nodes of a step, column by column."),
    word("model.pooling", "auto", PoolingName::WORDS,
        "From nodes to graphs: \"sum\", \"mean\" or \"max\" where graphs have the labels (\"auto\" is \"sum\" there), \"none\" where nodes do."),
    flag("model.normalise_state", false, "Scales each row of the state to length 1 before the read-out."),
    number("model.dropout", 0.5, Below(0.0, 1.0), "Share of the state's entries that training sets to zero before the read-out."),
    word("model.readout", "linear", Readout::WORDS, "From state to scores: one linear map, several with relu between them, or \"none\" where the last layer is as wide as there are classes."),
    field("model.hidden", Widths(8, 1, 65_536), DefaultValue::Widths(&[64]), "Widths between the maps of an mlp read-out; of no use to a linear one."),
    flag("model.head_bias", true, "A bias in the read-out."),
    integer("model.depth", 2, 1, LAYERS as u64, "Depth T of a baseline: layers, or how often rows are gathered; of no use to \"ignn\", whose layers are counted by model.state."),
    integer("model.heads", 8, 1, 256, "Heads of attention of \"gat\"; they share the width model.state in equal parts. A layer of logits has one."),
    integer("model.hops", 3, 0, 16, "How far \"structural\" looks around a node."),
    number("model.sse_damping", 0.5, AboveTo(0.0, 1.0), "Share of the new value in a step of \"sse\"."),
    number("model.gcnii_alpha", 0.1, Closed(0.0, 1.0), "Share of its start that every layer of \"gcnii\" keeps."),
    number("model.gcnii_lambda", 0.5, Closed(0.0, 100.0), "How much layer l of \"gcnii\" is a map of its own: beta = ln(lambda / l + 1), the rest is the identity."),
    number("model.drop_edge", 0.0, Below(0.0, 1.0), "Share of the edges that \"gcn\" and \"sgc\" leave out in each epoch of training (DropEdge)."),

    number("solver.tolerance", TOLERANCE, Above(0.0), "Relative residual max |Delta| / max |X| at which a forward solve has converged."),
    integer("solver.max_sweeps", MAX_SWEEPS as u64, 1, 1_000_000, "Sweeps of a solve at most, forward and adjoint alike."),
    integer("solver.patience", PATIENCE as u64, 1, 1_000_000, "Sweeps without a smaller residual before a solve gives up."),
    word("solver.measure", "auto", MeasureName::WORDS,
        "What a residual is relative to: the largest entry of the state, or of each row, which sees what fades along long paths; \"auto\" is \"row\" where rows are normalised."),
    word("solver.method", "auto", SolveMethod::WORDS,
        "How equilibria are found: sweeps alone (\"plain\"); with states proposed by what the last sweeps did (\"anderson\"); passing over rows whose inputs stay (\"active\"); row after row where no cycle passes through more than one node (\"ordered\"). \"auto\" takes the last where it can, passes over rows where a contraction is certified, takes proposals where the first sweeps are slow and most rows move, and tells so in the record."),
    word("solver.storage", "f32", StorageName::WORDS,
        "How states on the way to an equilibrium are stored; arithmetic and result are always in 32 bits. \"f16\" halves the bytes that sweeps gather and write, for two more buffers of 16 bits, until the residual is near 1e-3 (8e-3 while states are proposed) or the tolerance; 32 bits do the rest, so that residual and certified error are theirs. Only where a contraction is certified and residuals are relative to the whole state (not with normalise_state), and not while rows are passed over. Pays where memory is slower than arithmetic: many cores, narrow states, loose tolerances."),
    integer("solver.depth", DEPTH as u64, 1, MAX_DEPTH as u64, "Sweeps that acceleration looks back on; of each it keeps what it moved, in 16 bits, and a few more of these."),
    number("solver.adjoint_tolerance", TOLERANCE, Above(0.0), "The tolerance of adjoint solves."),
    number("solver.follow", 0.0, Closed(0.0, 1.0), "Solves that serve a step alone may stop at this part of their first residual, where that is above the tolerance: loose while steps are large, tight when they are small. 0 for never; evaluations always reach the tolerance."),
    word("solver.gradient", "exact", GradientKind::WORDS,
        "Gradient through the equilibrium: the adjoint solved, one evaluation, or a few damped steps."),
    integer("solver.phantom_steps", 5, 1, 10_000, "Steps of the phantom gradient."),
    number("solver.phantom_damping", 0.5, AboveTo(0.0, 1.0), "Share of the new value in a step of the phantom gradient."),
    flag("solver.warm_start", true, "Starts each solve from the state of the epoch before."),
    word("solver.on_failure", "warn", OnFailure::WORDS, "Whether a solve without convergence is counted and shown, or ends the run."),

    word("optim.method", "adam", Method::WORDS, "The optimiser."),
    number("optim.learning_rate", 0.01, AboveTo(0.0, 1000.0), "Learning rate, before the schedule."),
    number("optim.beta1", 0.9, Below(0.0, 1.0), "Decay of adam's mean of gradients."),
    number("optim.beta2", 0.999, Below(0.0, 1.0), "Decay of adam's mean of squared gradients."),
    number("optim.epsilon", 1e-8, Closed(1e-30, 1.0), "Added to the root of adam's squared gradients."),
    number("optim.momentum", 0.9, Below(0.0, 1.0), "Momentum of sgd."),
    number("optim.weight_decay", 0.0, From(0.0), "Pull of weights towards zero."),
    flag("optim.decoupled", false, "Decays weights by themselves (AdamW) instead of adding the pull to the gradient (L2)."),
    word("optim.clip", "none", Clip::WORDS, "Clips gradients by the norm of each tensor, or of all together."),
    number("optim.clip_norm", 0.5, Above(0.0), "The norm that clipping leaves at most."),
    word("optim.schedule", "constant", Schedule::WORDS, "How the learning rate changes with the epochs."),
    number("optim.schedule_floor", 0.0, Closed(0.0, 1.0), "Share of the learning rate that no schedule goes below."),
    integer("optim.step_epochs", 100, 1, MOST, "Epochs between two steps of the step schedule."),
    number("optim.step_factor", 0.5, AboveTo(0.0, 1.0), "What a step of the step schedule multiplies the learning rate by."),
    integer("optim.warmup_epochs", 0, 0, MOST, "Epochs in which the learning rate rises to its full value."),
    number("optim.layer_factor", 1.0, Closed(0.0, 1000.0), "What multiplies the learning rate of the weights below the read-out; with 0 they stay as they start."),
    number("optim.table_factor", 1.0, Closed(0.0, 1000.0), "What multiplies the learning rate of learned features; with 0 they stay as they start."),

    integer("train.epochs", 500, 0, 10_000_000, "Epochs at most; 0 writes an initialised model."),
    integer("train.seed", 0, 0, MOST, "Seed of initial weights and dropout: the same seed gives the same bits."),
    word("train.loss", "auto", LossName::WORDS, "The loss; \"auto\" takes the one that fits the dataset's labels."),
    word("train.class_weights", "none", ClassWeights::WORDS, "Whether rare classes weigh more in the loss."),
    word("train.learn", "all", Learn::WORDS,
        "What learns: everything; the read-out alone, step by step, over an equilibrium that stays as it was drawn (\"readout\"); or the same in one go by ridge regression (\"ridge\")."),
    number("train.ridge", 0.0, From(0.0), "Weight of the ridge regression's penalty beside the mean squared error of the training items; 0 chooses it by generalised cross-validation."),
    number("train.hide", 0.0, Below(0.0, 1.0),
        "Share of the training nodes whose rows of learned features count as zero in a step, drawn anew each time; the loss is theirs alone. A node then learns to be told by others, not by itself. 0 for none: every training node in every loss."),
    integer("train.batch", 1, 0, MOST, "Graphs of a step, where a dataset has many; 0 for all at once."),
    text("train.split", "default", "Split of the dataset to train on."),
    text("train.train_part", "train", "Part of the split whose labels are learned from; \"training\" is found too."),
    text("train.validation_part", "val", "Part that chooses the best epoch; \"valid\", \"validation\" and \"dev\" are found too."),
    text("train.test_part", "test", "Part that is only reported; \"testing\" is found too."),
    integer("train.evaluate_every", 1, 1, MOST, "Epochs from one evaluation to the next."),
    integer("train.stop_after", 0, 0, MOST, "Epochs without a better validation score before training ends; 0 for never."),
    word("train.monitor", "auto", Monitor::WORDS,
        "Validation score that chooses the best epoch; \"auto\" is accuracy for single labels, micro-f1 for multi-label."),
    integer("train.checkpoint_epochs", 50, 0, MOST, "Epochs between checkpoints; 0 for none by epochs."),
    number("train.checkpoint_minutes", 10.0, From(0.0), "Minutes between checkpoints; 0 for none by time."),
];

/// The field with this path.
pub fn find(path: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.path == path)
}

/// The fields of a section.
pub fn of_section(section: &str) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| field.section() == section)
}

impl Field {
    /// The section that it is in.
    pub fn section(&self) -> &'static str {
        self.path.split_once('.').map_or("", |(section, _)| section)
    }

    /// Its name in the section.
    pub fn key(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, key)| key)
    }
}

impl Kind {
    /// Whether a value is one of these. Numbers may come as integers.
    pub fn accepts(&self, value: &Value) -> bool {
        let within = |value: &Value, least, most| {
            value.as_u64().is_some_and(|x| (least..=most).contains(&x))
        };
        match *self {
            Integer(least, most) => within(value, least, most),
            Number(span) => value.as_f64().is_some_and(|x| span.contains(x)),
            Flag => value.is_boolean(),
            Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Text => value.as_str().is_some_and(|text| !text.is_empty()),
            Widths(count, least, most) => is_list(value, count, |width| within(width, least, most)),
            Numbers(count, span) => {
                is_list(value, count, |x| x.as_f64().is_some_and(|x| span.contains(x)))
            }
            Words(count, words) => is_list(value, count, |word| {
                word.as_str().is_some_and(|word| words.contains(&word))
            }),
        }
    }

    /// Whether it takes lists.
    pub fn is_list(&self) -> bool {
        matches!(self, Widths(..) | Numbers(..) | Words(..))
    }
}

fn is_list(value: &Value, most: usize, fits: impl Fn(&Value) -> bool) -> bool {
    value
        .as_array()
        .is_some_and(|items| (1..=most).contains(&items.len()) && items.iter().all(fits))
}

impl Span {
    fn contains(self, x: f64) -> bool {
        x.is_finite()
            && match self {
                From(least) => x >= least,
                Above(least) => x > least,
                Closed(least, most) => (least..=most).contains(&x),
                Below(least, most) => (least..most).contains(&x),
                AboveTo(least, most) => x > least && x <= most,
            }
    }
}

impl fmt::Display for Kind {
    /// What messages say was expected.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Integer(least, MOST) => write!(f, "an integer from {least} on"),
            Integer(least, most) => write!(f, "an integer from {least} to {most}"),
            Number(span) => write!(f, "a number {span}"),
            Flag => f.write_str("true or false"),
            Word([only]) => write!(f, "{only:?}"),
            Word(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                write!(f, "one of {}", words.join(", "))
            }
            Text => f.write_str("text that is not empty"),
            Widths(count, least, most) => {
                write!(f, "{}, or a list of 1 to {count} such integers", Integer(least, most))
            }
            Numbers(count, span) => {
                write!(f, "a number {span}, or a list of 1 to {count} such numbers")
            }
            Words(count, words) => write!(f, "{}, or a list of 1 to {count} of them", Word(words)),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            From(least) => write!(f, "from {least} on"),
            Above(least) => write!(f, "above {least}"),
            Closed(least, most) => write!(f, "from {least} to {most}"),
            Below(least, most) => write!(f, "from {least} to below {most}"),
            AboveTo(least, most) => write!(f, "above {least} and up to {most}"),
        }
    }
}

impl DefaultValue {
    /// The value.
    pub fn value(self) -> Value {
        match self {
            Self::Integer(x) => x.into(),
            Self::Number(x) => x.into(),
            Self::Flag(x) => x.into(),
            Self::Text(x) => x.into(),
            Self::Widths(x) => x.into(),
            Self::Numbers(x) => x.into(),
            Self::Words(x) => x.into(),
        }
    }
}

/// A value as TOML writes it.
pub fn literal(value: &Value) -> String {
    match value {
        // The shortest digits that read back to the same number; `{:?}` always has a point or an
        // exponent.
        Value::Number(x) if x.is_f64() => format!("{:?}", x.as_f64().unwrap_or_default()),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// Text in quotes, on one line.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_in_a_section_once_and_accepts_its_default() {
        for (at, field) in FIELDS.iter().enumerate() {
            assert!(SECTIONS.iter().any(|(name, _)| *name == field.section()), "{}", field.path);
            assert!(
                !FIELDS[..at].iter().any(|other| other.path == field.path),
                "{} twice",
                field.path
            );
            assert!(field.kind.accepts(&field.default.value()), "{}", field.path);
            assert!(field.doc.ends_with('.'), "{}", field.path);
        }
    }

    #[test]
    fn intervals_end_where_they_say() {
        let inside =
            |span: Span| [0.0, 0.5, 1.0, f64::NAN, f64::INFINITY].map(|x| span.contains(x));
        assert_eq!(inside(Below(0.0, 1.0)), [true, true, false, false, false]);
        assert_eq!(inside(AboveTo(0.0, 1.0)), [false, true, true, false, false]);
        assert_eq!(inside(Closed(0.0, 1.0)), [true, true, true, false, false]);
        assert_eq!(inside(Above(0.5)), [false, false, true, false, false]);
        assert_eq!(inside(From(0.5)), [false, true, true, false, false]);
    }
}
