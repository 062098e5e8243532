//! Which matrices lie in memory and which on a disk, where memory does not hold all of them. The
//! plan is made before anything is computed; [`Scratch`] carries it out.
//!
//! On the disk lie all large matrices: features, states, input terms, adjoints, tables, moves of
//! Anderson mixing, rows that are read out. In memory are vectors with a number per node, sparse
//! features, weights, and as many columns of a state as fit: those that sweeps gather from. An
//! eighth of the memory, or up to 128 MiB where matrices are large, is left to the system, for the
//! pages of graph and matrices on their way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignn_format::{FormatError, storage};
use serde::Serialize;

use super::on_graph::OnGraph;
use super::shape::{BodyShape, LayerShape, NetworkShape};
use crate::dense::{LINE, Line, Scratch, stride};
use crate::nn::Equilibrium;
use crate::solver::SolveParams;

/// Bytes per node in memory: vectors of certificates and what their search takes, flags of active
/// rows, numbers and labels of nodes.
const PER_NODE: u64 = 44;
/// Bytes of the program, its threads and their buffers.
const PROGRAM: u64 = 48 << 20;
/// Bytes that are left to the pages of large matrices at least: with less, pages that were read ahead
/// are gone before they are used.
const PAGES: u64 = 128 << 20;

/// What a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// What is computed, for messages: "training" or "the prediction".
    pub what: &'static str,
    /// Bytes if everything is in memory.
    pub total: u64,
    /// Those of features that are stored sparse, which no disk takes.
    pub sparse: u64,
    /// Those of the moves of Anderson mixing.
    pub moves: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Entries of all relations, in the direction of the forward sweep.
    pub entries: u64,
    /// The network.
    pub shape: &'a NetworkShape,
    /// Whether the nodes belong to many graphs.
    pub has_graphs: bool,
}

/// A plan for matrices on a disk. All sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DiskPlan {
    /// What is computed.
    pub what: &'static str,
    /// Memory that may be used.
    pub allowed: u64,
    /// What everything in memory would take.
    pub in_memory: u64,
    /// Vectors, sparse features, weights and the program, in memory.
    pub vectors: u64,
    /// Memory for the columns that a sweep gathers from at a time.
    pub columns_memory: u64,
    /// Their number, of the widest layer.
    pub columns: u64,
    /// Columns of that layer.
    pub width: u64,
    /// Scratch files.
    pub scratch: u64,
    /// Those of them that solves without Anderson mixing do not need.
    pub moves: u64,
    /// Read from them by a sweep, and from the graph.
    pub read: u64,
    /// Written to them by a sweep.
    pub written: u64,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A model that is computed in memory only.
    #[error("{of} needs about {:.2} GiB (found {:.2} GiB allowed): {what} in memory only: raise \
             --memory", gibibytes(*needed), gibibytes(*allowed))]
    NotCovered {
        /// What is computed.
        of: &'static str,
        /// What is not covered, with its verb.
        what: &'static str,
        /// Bytes.
        needed: u64,
        /// Bytes.
        allowed: u64,
    },
    /// Not even some columns fit in memory.
    #[error("{of} needs about {:.2} GiB, or {:.2} GiB and a disk (found {:.2} GiB allowed): {hint}\
             raise --memory", gibibytes(*needed), gibibytes(*least), gibibytes(*allowed))]
    Memory {
        /// What is computed.
        of: &'static str,
        /// Bytes with everything in memory.
        needed: u64,
        /// Bytes with matrices on a disk.
        least: u64,
        /// Bytes.
        allowed: u64,
        /// What would fit, and "or"; or nothing.
        hint: String,
    },
    /// The disk is too small.
    #[error("{}: {of} with {:.2} GiB of memory needs about {:.2} GiB of scratch files (found \
             {:.2} GiB free): choose another directory with --scratch, or raise --memory to {:.2} \
             GiB{hint}", directory.display(), gibibytes(*allowed), gibibytes(*needed),
             gibibytes(*free), gibibytes(*in_memory))]
    Disk {
        /// The directory.
        directory: PathBuf,
        /// What is computed.
        of: &'static str,
        /// Bytes of scratch files.
        needed: u64,
        /// Bytes.
        free: u64,
        /// Bytes of memory.
        allowed: u64,
        /// Bytes with everything in memory.
        in_memory: u64,
        /// What else would fit, after a comma; or nothing.
        hint: String,
    },
    /// A graph that is solved in its order, row by row.
    #[error(
        "solving a graph without cycles in its order works in memory only: raise --memory, or train \
         with --set solver.method=plain"
    )]
    Ordered,
    /// The directory for scratch files cannot be used.
    #[error(transparent)]
    Directory(#[from] FormatError),
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}

impl PlanError {
    /// Refuses what does not work with matrices on a disk, if the thread is in the scope of one.
    pub fn check_order(on: &OnGraph, params: &SolveParams) -> Result<(), Self> {
        let is_ordered =
            params.method.takes_order() && on.equilibria().any(Equilibrium::is_ordered);
        if is_ordered && Scratch::current().is_some() { Err(Self::Ordered) } else { Ok(()) }
    }
}

impl DiskPlan {
    /// The plan for this much memory; `None` if everything fits there.
    pub fn new(needs: &Needs<'_>, allowed: u64) -> Result<Option<Self>, PlanError> {
        let Needs { what: of, total: needed, nodes, shape, .. } = *needs;
        if needed <= allowed {
            return Ok(None);
        }
        let refuse = |what| Err(PlanError::NotCovered { of, what, needed, allowed });
        if needs.has_graphs {
            return refuse("a collection of graphs is computed");
        }
        if !shape.layers.iter().all(LayerShape::is_solved) {
            return refuse("a model without an equilibrium is computed");
        }
        let widest = shape.layers.iter().max_by_key(|layer| layer.width);
        let Some(widest) = widest else { return refuse("a model without layers is computed") };
        let width = widest.width as u64;
        let tables = |rows: usize| rows as u64 == nodes;
        let slots = shape.slots.iter().filter(|slot| !tables(slot.shape.0));
        let weights = slots.map(|slot| slot.shape.0 as u64 * stride(slot.shape.1) as u64 * 4);
        let vectors = [
            nodes.saturating_mul(PER_NODE),
            needs.sparse,
            weights.fold(0, u64::saturating_add),
            PROGRAM,
        ];
        let vectors = vectors.into_iter().fold(0, u64::saturating_add);
        let line = nodes.saturating_mul(size_of::<Line>() as u64);
        let reserved = PAGES.min(needed / 24);
        let usable = allowed.saturating_sub(reserved.max(allowed / 8));
        if usable < vectors.saturating_add(line) {
            let least = vectors.saturating_add(line);
            let least = least.saturating_add(reserved).max(least.saturating_mul(8).div_ceil(7));
            return Err(PlanError::Memory { of, needed, least, allowed, hint: String::new() });
        }
        let columns_memory = usable - vectors;
        let per_row = width.div_ceil(LINE as u64).max(1);
        let at_once = (columns_memory / line.max(1)).clamp(1, per_row);
        let groups = per_row.div_ceil(at_once);
        let BodyShape::Equilibrium { kappas, .. } = &widest.body else {
            return refuse("a model without an equilibrium is computed");
        };
        let (state, relations) = (line.saturating_mul(per_row), kappas.len() as u64);
        // X to gather from, X to compare with and B; X'. Rows that are gathered ahead, both ways.
        let ahead = if groups > 1 { relations } else { 0 };
        let graph = needs.entries.saturating_mul(4).saturating_mul(groups);
        Ok(Some(Self {
            what: of,
            allowed,
            in_memory: needed,
            vectors,
            columns_memory,
            columns: (at_once * LINE as u64).min(width),
            width,
            moves: needs.moves,
            scratch: needed.saturating_add(ahead.saturating_mul(state)),
            read: state.saturating_mul(groups + 2 + ahead).saturating_add(graph),
            written: state.saturating_mul(1 + ahead),
        }))
    }

    /// Seconds that a sweep waits for the disk, and the speed of the disk in bytes per second; it is
    /// measured in less than a second.
    pub fn sweep_seconds(&self, directory: &Path) -> Result<(f64, f64), PlanError> {
        let speed = storage::write_speed(directory)?;
        Ok((self.read.saturating_add(self.written) as f64 / speed, speed))
    }

    /// The plan in a sentence.
    pub fn words(&self, directory: &Path) -> String {
        let time = self.sweep_seconds(directory).map_or(String::new(), |(seconds, speed)| {
            let speed = gibibytes(speed as u64);
            format!(
                ", {seconds:.1} s at the {speed:.2} GiB/s of the disk, or less if the system has \
                 memory left"
            )
        });
        let &Self { what, columns, width, .. } = self;
        let [allowed, needed, scratch, read, written] =
            [self.allowed, self.in_memory, self.scratch, self.read, self.written].map(gibibytes);
        format!(
            "{what} needs {needed:.2} GiB and may use {allowed:.2} GiB: matrices are in scratch \
             files in {} (up to {scratch:.2} GiB); a sweep gathers {columns} of {width} columns at \
             a time, reads {read:.2} GiB and writes {written:.2} GiB{time}",
            directory.display()
        )
    }

    /// The scratch of this plan in a directory; refused if its disk is too small.
    pub fn scratch(&self, directory: &Path) -> Result<Arc<Scratch>, PlanError> {
        let free = storage::free_space(directory)?;
        if free < self.scratch {
            let &Self { what: of, allowed, in_memory, scratch: needed, moves, .. } = self;
            let less = gibibytes(moves);
            let hint = match moves {
                0 => String::new(),
                _ => format!(", or set solver.method=plain, which needs {less:.2} GiB less"),
            };
            let directory = directory.into();
            return Err(PlanError::Disk { directory, of, needed, free, allowed, in_memory, hint });
        }
        Ok(Scratch::new(directory, self.columns_memory))
    }
}
