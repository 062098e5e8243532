//! The types of an experiment: panels, points, methods, published figures. `experiments` has the
//! experiments themselves.

use super::sources::Source;
use ignn::config::presets::Chosen;

/// An experiment.
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    pub title: &'static str,
    pub about: &'static str,
    /// How the settings of the baselines were chosen; those of IGNN are its preset's.
    pub baselines: Chosen,
    pub panels: &'static [Panel],
}

/// A table or figure of the paper.
pub struct Panel {
    pub id: &'static str,
    pub title: &'static str,
    /// What a point is, as the title of a column.
    pub points_are: &'static str,
    /// The axis of the figure with its unit; `None` for a table.
    pub axis: Option<&'static str>,
    pub scores: &'static [&'static str],
    pub repeats: Repeats,
    pub points: &'static [Point],
    pub methods: &'static [Method],
    /// Additional settings of the quick form.
    pub quick: &'static [&'static str],
}

/// What a figure is a mean of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// One run per seed.
    BySeeds,
    /// A cross-validation with this number of folds, and this number in the quick form.
    ByFolds(usize, usize),
}

/// A dataset, or one setting of it, on which all methods are trained.
pub struct Point {
    pub name: &'static str,
    pub x: f64,
    pub data: Source,
    pub preset: &'static str,
    pub sets: &'static [&'static str],
    /// Whether it is part of the quick form.
    pub is_quick: bool,
}

/// A model.
pub struct Method {
    pub name: &'static str,
    /// Settings that override the point's.
    pub sets: &'static [&'static str],
    /// Whether it starts from the point's preset, which was made for the equilibrium, or from the
    /// defaults.
    pub has_preset: bool,
    /// Whether the points do not matter to it: trained once, shown at every point.
    pub is_constant: bool,
    /// Whether it needs the point's data renormalised.
    pub is_renormalised: bool,
    /// What predicts classes.
    pub readout: Readout,
    /// Settings that override the panel's in the quick form; `None` if it takes too long for the
    /// quick form, which then leaves it out.
    pub quick: Option<&'static [&'static str]>,
    pub published: &'static [Published],
}

/// What predicts, and which of its figures are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readout {
    /// The model's own readout.
    Model,
    /// The same, trained with a support vector machine that another row shows.
    BesideSvm,
    /// The support vector machine on the embeddings of this method, from the same folds.
    SvmOf(&'static str),
    /// No model: the labels of training nodes with the same features.
    Lookup,
}

/// A published figure, in per cent.
pub struct Published {
    pub point: &'static str,
    pub score: &'static str,
    pub value: f64,
    pub deviation: Option<f64>,
    pub source: &'static str,
}

/// A published figure without a deviation.
pub const fn published(
    point: &'static str,
    score: &'static str,
    value: f64,
    source: &'static str,
) -> Published {
    Published { point, score, value, deviation: None, source }
}

/// A published accuracy with its deviation.
pub const fn with_deviation(
    point: &'static str,
    value: f64,
    deviation: f64,
    source: &'static str,
) -> Published {
    Published { point, score: "accuracy", value, deviation: Some(deviation), source }
}

/// A method without published figures.
pub const fn method(name: &'static str, sets: &'static [&'static str]) -> Method {
    reported(name, sets, &[])
}

/// A method with published figures.
pub const fn reported(
    name: &'static str,
    sets: &'static [&'static str],
    published: &'static [Published],
) -> Method {
    const NOTHING: &[&str] = &[];
    Method {
        name,
        sets,
        has_preset: true,
        is_constant: false,
        is_renormalised: false,
        readout: Readout::Model,
        quick: Some(NOTHING),
        published,
    }
}
