//! Chooses the items to predict or to evaluate: the parts of one of the dataset's splits, or all
//! items. A split of graphs is also a split of their nodes.

use ignn_format::FormatError;
use ignn_format::graphs::Graphs;
use ignn_format::splits::{NO_PART, Split};

use super::error::PredictError;
use super::predictor::Item;
use crate::config::find_part;
use crate::graph::Graph;

/// Some nodes or graphs, with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// As the dataset spells it; "all" without a split.
    pub name: String,
    /// The items, in ascending order.
    pub items: Vec<u32>,
}

/// The parts of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Its name; `None` where all items are one part.
    pub split: Option<String>,
    /// In the split's order.
    pub parts: Vec<Part>,
}

/// What there is to choose from.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The graphs of a collection.
    pub graphs: Option<&'a Graphs>,
    /// What is predicted.
    pub item: Item,
}

impl Choice<'_> {
    /// Splits of the items: those of graphs first, as in training.
    fn splits(&self) -> Result<Vec<Split>, FormatError> {
        let over_graphs = self.graphs.map_or(&[][..], |graphs| &graphs.splits);
        if self.item == Item::Graph {
            return Ok(over_graphs.to_vec());
        }
        let spread = |split: &Split| {
            let ends = self.graphs.map_or(&[][..], |graphs| &graphs.first_node).windows(2);
            let of = split.of.iter().zip(ends);
            let of = of
                .flat_map(|(&part, ends)| std::iter::repeat_n(part, (ends[1] - ends[0]) as usize));
            Split { name: split.name.clone(), parts: split.parts.clone(), of: of.collect() }
        };
        let mut splits: Vec<Split> = over_graphs.iter().map(spread).collect();
        splits.extend(self.graph.splits()?);
        Ok(splits)
    }

    fn items(&self) -> u32 {
        match (self.item, self.graphs) {
            (Item::Graph, Some(graphs)) => graphs.len() as u32,
            _ => self.graph.manifest().nodes as u32,
        }
    }
}

impl Parts {
    /// The parts of the split `asked` for; without one, of the split that the model was trained on
    /// (`usual`), or of the only split there is. If there is none of these, all items.
    pub fn of(choice: Choice<'_>, asked: Option<&str>, usual: &str) -> Result<Self, PredictError> {
        let mut splits = choice.splits()?;
        let position = |name: &str| splits.iter().position(|split| split.name == name);
        let at = match asked {
            Some(name) => Some(position(name).ok_or_else(|| PredictError::Split {
                dataset: choice.graph.path().into(),
                found: name.into(),
                expected: names(&splits),
            })?),
            None => position(usual).or_else(|| (splits.len() == 1).then_some(0)),
        };
        Ok(match at {
            Some(at) => Self::of_split(splits.swap_remove(at)),
            None => {
                let items = (0..choice.items()).collect();
                Self { split: None, parts: vec![Part { name: "all".into(), items }] }
            }
        })
    }

    /// Only one part of a split, which is chosen as in [`Parts::of`].
    pub fn only(
        choice: Choice<'_>,
        split: Option<&str>,
        part: &str,
        usual: &str,
    ) -> Result<Self, PredictError> {
        let place = choice.graph.path();
        let mut parts = Self::of(choice, split, usual)?;
        let Some(split) = &parts.split else {
            let splits = choice.splits()?;
            if splits.is_empty() {
                let (what, hint) = match choice.item {
                    Item::Node => ("splits", ": ingest with --splits or --split"),
                    Item::Graph => ("splits over graphs", ": leave --part out to predict them all"),
                };
                let (what, hint) = (what.into(), hint.into());
                return Err(FormatError::Missing { path: place.into(), what, hint }.into());
            }
            let found: Vec<_> = splits.iter().map(|split| split.name.as_str()).collect();
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
        let part = |name: String| Part { name, items: Vec::new() };
        let mut parts: Vec<Part> = split.parts.into_iter().map(part).collect();
        for (item, &part) in (0..).zip(&split.of) {
            if part != NO_PART {
                parts[part as usize].items.push(item);
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
