//! The parameters of an input map: names, shapes and first values, known before any graph.
//! It computes nothing: `input` does for features, `feed` for the layer below.
//!
//! | parameter | shape | where |
//! | --- | --- | --- |
//! | `layerN.Omega` | m x p | one relation, or the map of a node's own features where it is the only one |
//! | `layerN.Omega.<relation>` | m x p | each of several relations |
//! | `layerN.Omega2` | m x p | own features beside gathered ones |
//! | `layer0.E` | n x m | learned features |
//! | `layerN.bias` | 1 x m | if configured |

use super::slot::Slot;
use crate::dense::Matrix;
use crate::settings::words;

words! {
    /// Whose features enter the equation of a node.
    pub enum InputMap {
        /// Those of its neighbours: Omega U A.
        Gathered = "gathered",
        /// Its own: Omega U.
        Own = "own",
        /// Its neighbours' and its own, each with its own map: Omega1 U A + Omega2 U.
        Both = "both",
    }
}

/// What is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Rows with this many columns: features, or the layer below.
    Columns(usize),
    /// Nothing: a table with one row for each of this many nodes is learned.
    Learned(usize),
}

/// An input map apart from any graph.
#[derive(Clone, Debug, PartialEq)]
pub struct InputShape {
    /// Number of the layer, for names.
    pub layer: usize,
    /// Which neighbourhood it sees.
    pub map: InputMap,
    /// What it maps.
    pub mapped: Mapped,
    /// Whether a bias is added.
    pub has_bias: bool,
    /// m
    pub width: usize,
    /// Names of the relations.
    pub relations: Vec<String>,
}

impl InputShape {
    /// The parameters, in the order in which passes take them.
    pub fn slots(&self) -> Vec<Slot> {
        let (layer, m) = (self.layer, self.width);
        let mut slots = match self.mapped {
            Mapped::Learned(nodes) => vec![Slot::weight(format!("layer{layer}.E"), nodes, m)],
            Mapped::Columns(p) => {
                let omega = format!("layer{layer}.Omega");
                let mut slots = match (self.map, &self.relations[..]) {
                    (InputMap::Own, _) | (_, [_]) => vec![Slot::weight(omega, m, p)],
                    (_, several) => several
                        .iter()
                        .map(|name| Slot::weight(format!("{omega}.{name}"), m, p))
                        .collect(),
                };
                if self.map == InputMap::Both {
                    slots.push(Slot::weight(format!("layer{layer}.Omega2"), m, p));
                }
                slots
            }
        };
        if self.has_bias {
            slots.push(Slot::bias(format!("layer{layer}.bias"), m));
        }
        slots
    }

    /// Maps of gathered rows: one per relation, or none.
    pub fn gathered(&self) -> usize {
        if self.map == InputMap::Own { 0 } else { self.relations.len() }
    }

    /// The map of own rows, among the slots.
    pub fn own(&self) -> Option<usize> {
        (self.map != InputMap::Gathered).then(|| self.gathered())
    }

    /// Initial values, in the order of the slots: weights uniform within scale / sqrt(m), a bias
    /// zero.
    pub fn initial(&self, seed: u64, scale: f64) -> Vec<Matrix> {
        let bound = scale / (self.width as f64).sqrt();
        self.slots().iter().map(|slot| slot.initial(seed, bound)).collect()
    }
}
