//! The nodes to predict or to judge: the parts of a split, or all.
//! It chooses among the splits that a dataset has; it draws none.

use ignn_format::FormatError;
use ignn_format::splits::{NO_PART, Split};

use super::error::PredictError;
use crate::config::find_part;
use crate::graph::Dataset;

/// Some nodes with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// As the dataset spells it; "all" without a split.
    pub name: String,
    /// Rising.
    pub nodes: Vec<u32>,
}

/// The parts of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Its name; none where all nodes are one part.
    pub split: Option<String>,
    /// In the split's order.
    pub parts: Vec<Part>,
}

impl Parts {
    /// The parts of the split `asked` for, or else of the one that the model was trained on (`usual`), or else of the only one
    /// there is; or else all nodes.
    pub fn of(dataset: &Dataset, asked: Option<&str>, usual: &str) -> Result<Self, PredictError> {
        let mut splits = dataset.directory().splits()?;
        let position = |name: &str| splits.iter().position(|split| split.name == name);
        let at = match asked {
            Some(name) => Some(position(name).ok_or_else(|| PredictError::Split {
                dataset: dataset.directory().path().into(),
                found: name.into(),
                expected: names(&splits),
            })?),
            None => position(usual).or_else(|| (splits.len() == 1).then_some(0)),
        };
        Ok(match at {
            Some(at) => Self::of_split(splits.swap_remove(at)),
            None => {
                let nodes = (0..dataset.manifest().nodes as u32).collect();
                Self { split: None, parts: vec![Part { name: "all".into(), nodes }] }
            }
        })
    }

    /// Only the part `asked` for, as `part` or `split:part`; else as [`Parts::of`].
    pub fn only(dataset: &Dataset, asked: &str, usual: &str) -> Result<Self, PredictError> {
        let (split, part) = match asked.split_once(':') {
            Some((split, part)) => (Some(split), part),
            None => (None, asked),
        };
        let place = dataset.directory().path();
        let mut parts = Self::of(dataset, split, usual)?;
        let Some(split) = &parts.split else {
            let entries = &dataset.manifest().splits;
            if entries.is_empty() {
                let hint = ": ingest with --splits or --split".into();
                return Err(FormatError::Missing { path: place.into(), what: "splits".into(), hint }.into());
            }
            let found: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
            return Err(PredictError::WhichSplit {
                dataset: place.into(),
                part: part.into(),
                found: found.join(", "),
                expected: usual.into(),
            });
        };
        let known: Vec<_> = parts.parts.iter().map(|part| part.name.as_str()).collect();
        let Some(at) = find_part(&known, part) else {
            return Err(PredictError::Part {
                dataset: place.into(),
                split: split.clone(),
                found: part.into(),
                expected: known.join(", "),
            });
        };
        parts.parts = vec![parts.parts.swap_remove(at)];
        Ok(parts)
    }

    fn of_split(split: Split) -> Self {
        let part = |name: String| Part { name, nodes: Vec::new() };
        let mut parts: Vec<Part> = split.parts.into_iter().map(part).collect();
        for (node, &part) in (0..).zip(&split.of) {
            if part != NO_PART {
                parts[part as usize].nodes.push(node);
            }
        }
        Self { split: Some(split.name), parts }
    }
}

fn names(splits: &[Split]) -> String {
    match splits {
        [] => "none".into(),
        _ => splits.iter().map(|split| split.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}
