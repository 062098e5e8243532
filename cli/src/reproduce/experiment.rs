//! What an experiment is made of: panels, points, methods, published figures.
//! The experiments themselves are in `experiments`.

use super::sources::Source;

/// An experiment.
pub struct Experiment {
    /// Its word on the command line.
    pub name: &'static str,
    pub title: &'static str,
    pub about: &'static str,
    pub panels: &'static [Panel],
}

/// A table or figure of the paper.
pub struct Panel {
    pub id: &'static str,
    pub title: &'static str,
    /// What a point is, in a word.
    pub points_are: &'static str,
    /// The axis of the figure with its unit; none for a table.
    pub axis: Option<&'static str>,
    pub scores: &'static [&'static str],
    pub judged: Judged,
    pub points: &'static [Point],
    pub methods: &'static [Method],
    /// Settings on top in the quick form.
    pub quick: &'static [&'static str],
}

/// How a figure is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// A run a seed.
    BySeeds,
    /// A cross-validation with so many folds, and so many in the quick form.
    ByFolds(usize, usize),
}

/// A dataset, or a setting of one, that all methods are tried on.
pub struct Point {
    pub name: &'static str,
    pub x: f64,
    pub data: Source,
    pub preset: &'static str,
    pub sets: &'static [&'static str],
    /// Whether the quick form has it.
    pub is_quick: bool,
}

/// A model.
pub struct Method {
    pub name: &'static str,
    /// Settings on top of the point's.
    pub sets: &'static [&'static str],
    /// Whether points make no difference to it: run once, drawn everywhere.
    pub is_constant: bool,
    /// Whether it takes the point's data renormalised, where these have plain adjacency.
    pub is_renormalised: bool,
    /// What tells classes in a cross-validation.
    pub readout: Readout,
    /// Settings on top of the panel's in the quick form; none where it takes too long for that
    /// form, which leaves it out.
    pub quick: Option<&'static [&'static str]>,
    pub published: &'static [Published],
}

/// Whose figures a cross-validation is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readout {
    /// The model's own read-out.
    Model,
    /// The same, beside a support vector machine that another row tells of.
    BesideSvm,
    /// The support vector machine on the embeddings of this method, of the same runs.
    SvmOf(&'static str),
}

/// A figure that others report, in per cent.
pub struct Published {
    pub point: &'static str,
    pub score: &'static str,
    pub value: f64,
    pub deviation: Option<f64>,
    pub source: &'static str,
}

/// Without a deviation.
pub const fn published(
    point: &'static str,
    score: &'static str,
    value: f64,
    source: &'static str,
) -> Published {
    Published { point, score, value, deviation: None, source }
}

/// An accuracy with its deviation.
pub const fn with_deviation(
    point: &'static str,
    value: f64,
    deviation: f64,
    source: &'static str,
) -> Published {
    Published { point, score: "accuracy", value, deviation: Some(deviation), source }
}

/// A method of which nothing is published.
pub const fn method(name: &'static str, sets: &'static [&'static str]) -> Method {
    reported(name, sets, &[])
}

/// A method beside published figures.
pub const fn reported(
    name: &'static str,
    sets: &'static [&'static str],
    published: &'static [Published],
) -> Method {
    const NOTHING: &[&str] = &[];
    let (readout, quick) = (Readout::Model, Some(NOTHING));
    Method { name, sets, is_constant: false, is_renormalised: false, readout, quick, published }
}
