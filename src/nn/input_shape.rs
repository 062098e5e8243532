//! The parameters of an input map: names, shapes and initial values, independent of any graph.
//! Computing with them is the task of [`input`](super::input) for features, and of
//! [`feed`](super::feed) for the layer below.
//!
//! | parameter | shape | map |
//! | --- | --- | --- |
//! | `layerN.Omega` | m x p | of rows gathered by the only relation; or of own rows, if none are gathered |
//! | `layerN.Omega.<relation>` | m x p | of rows gathered by one of several relations |
//! | `layerN.Omega2` | m x p | of a node's own row, beside gathered ones |
//! | `layer0.E` | n x m | none: learned features |
//! | `layerN.bias` | 1 x m | if configured |

use super::slot::Slot;
use crate::dense::Matrix;
use crate::settings::words;

words! {
    /// Whose features enter the equation of a node.
    pub enum InputMap {
        /// Those of its neighbours: A^T U Omega^T.
        Gathered = "gathered",
        /// Its own: U Omega^T.
        Own = "own",
        /// Its neighbours' and its own, each with its own map: A^T U Omega^T + U Omega2^T.
        Both = "both",
    }
}

/// What is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Features, or the layer below, with this number of columns.
    Columns(usize),
    /// Nothing: a table with one row per node is learned, for this number of nodes.
    Learned(usize),
}

/// An input map without a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct InputShape {
    /// Number of the layer, for names.
    pub layer: usize,
    /// Whose rows enter: the neighbours', the node's own, or both.
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
    /// The parameters, in the order in which passes expect them.
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

    /// Number of maps of gathered rows: one per relation, or 0.
    pub fn gathered(&self) -> usize {
        if self.map == InputMap::Own { 0 } else { self.relations.len() }
    }

    /// Position, among the slots, of the map of a node's own row.
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
