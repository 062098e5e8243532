//! The memory of a pass over selected nodes or graphs: compact rows, logits and their gradients.
//! [`super::OnGraph`] fills it.

use std::ops::Range;

use super::network::Network;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::RowPlaces;
use crate::nn::{PoolingMemory, ReadoutMemory, normalise, select_rows};
use crate::parallel::Rows;

/// The memory of a pass over some nodes, or graphs if the model pools.
pub struct Pass {
    /// Their numbers on the current graph, in increasing order.
    pub(super) items: Vec<u32>,
    /// Their numbers in the dataset.
    pub(super) ids: Vec<u32>,
    /// The rows of those that this rank owns; on one rank, the same as `items`.
    pub(super) local: Vec<u32>,
    /// The positions of these among the items.
    pub(super) own: Range<usize>,
    /// One row per graph, if the model pools.
    pub(super) pooled: Matrix,
    pub(super) by_pooled: Matrix,
    pub(super) pooling: PoolingMemory,
    /// The rows before dropout, if the backward pass needs them; made by a readout for training.
    pub(super) normalised: Option<Matrix>,
    pub(super) lengths: Vec<f32>,
    /// Whether relu made zeros of all rows of a training step.
    pub(super) is_dead: bool,
    pub(super) rows: Matrix,
    /// dL/drows, allocated by the first backward pass: an evaluation needs none.
    pub(super) by_rows: Matrix,
    /// Which rows these are, found by the first backward pass that asks for it.
    pub(super) places: RowPlaces,
    pub(super) memory: ReadoutMemory,
    /// Logits, one row per item.
    pub logits: Matrix,
    /// dL/dlogits, to be written before a backward pass.
    pub by_logits: Matrix,
}

impl Network {
    /// Logits of some of the rows that the readout takes ([`super::OnGraph::seen`]), without
    /// dropout.
    pub fn logits(&self, seen: MatrixRef<'_>, items: &[u32]) -> Matrix {
        let mut rows = Matrix::zeros(items.len(), seen.cols());
        select_rows(seen, items, &mut rows);
        if self.normalises {
            normalise::forward(rows.view_mut(), &mut vec![0.0; items.len()]);
        }
        let mut logits = Matrix::zeros(items.len(), self.outputs());
        let head = self.values(&(self.head()..self.parameters.len()));
        self.readout.forward(
            &head,
            rows.view(),
            &mut self.readout.memory(items.len()),
            logits.view_mut(),
        );
        logits
    }
}

impl Pass {
    /// Whether the readout of a training step has seen nothing but rows that pass no gradient on:
    /// those that are too short to be scaled to length 1 ([`normalise::FADED`]), or zeros of relu.
    pub fn has_faded(&self) -> bool {
        let is_faded = |&length: &f32| f64::from(length) < normalise::FADED;
        match self.normalised {
            Some(_) => !self.lengths.is_empty() && self.lengths.iter().all(is_faded),
            None => self.is_dead,
        }
    }

    pub(super) fn new(
        model: &Network,
        over: &Rows,
        items: Vec<u32>,
        ids: Vec<u32>,
        graphs: usize,
    ) -> Self {
        assert!(items.is_sorted_by(|a, b| a < b), "items in increasing order");
        assert_eq!(items.len(), ids.len(), "one id per item");
        let width = model.layers.last().map_or(0, |layer| layer.width);
        let (k, c) = (items.len(), model.outputs());
        let (own, start) = match over.is_alone() {
            true => (0..k, 0),
            false => (over.positions(&items), over.own().start as u32),
        };
        Self {
            local: items[own.clone()].iter().map(|item| item - start).collect(),
            own,
            pooled: Matrix::zeros(graphs, width),
            by_pooled: Matrix::zeros(0, width),
            pooling: PoolingMemory::default(),
            normalised: model.normalises.then(|| Matrix::zeros(0, width)),
            lengths: vec![0.0; k],
            is_dead: false,
            rows: Matrix::zeros(k, width),
            by_rows: Matrix::zeros(0, width),
            places: RowPlaces::default(),
            memory: model.readout.memory(k),
            logits: Matrix::zeros(k, c),
            by_logits: Matrix::zeros(0, c),
            items,
            ids,
        }
    }

    /// The nodes or graphs, by their numbers in the dataset.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The rows of the nodes that this rank owns.
    pub fn own_rows(&self) -> &[u32] {
        &self.local
    }

    /// The rows that the readout took, one per item.
    pub fn rows(&self) -> MatrixRef<'_> {
        self.rows.view()
    }

    /// What a loss reads (logits and ids) and writes (dL/dlogits).
    pub fn for_loss(&mut self) -> (MatrixRef<'_>, &[u32], MatrixMut<'_>) {
        if self.by_logits.rows() != self.logits.rows() {
            self.by_logits = Matrix::zeros(self.logits.rows(), self.logits.cols());
        }
        (self.logits.view(), &self.ids, self.by_logits.view_mut())
    }

    /// Finds the places of the rows among those of a rank.
    pub(super) fn find_places(&mut self, rows: usize) {
        if self.places.rows() != rows || self.places.listed().len() != self.local.len() {
            self.places = RowPlaces::new(rows, self.local.clone());
        }
    }

    /// dL/drows of the rows that this rank owns.
    pub(super) fn own_gradients(&self) -> Matrix {
        let mut own = Matrix::zeros(self.own.len(), self.by_rows.cols());
        let block = self.by_rows.view().block(self.own.clone());
        own.view_mut().padded_mut().copy_from_slice(block.padded());
        own
    }

    pub(super) fn prepare_backward(&mut self) {
        if self.by_rows.rows() != self.rows.rows() {
            self.by_rows = Matrix::zeros(self.rows.rows(), self.rows.cols());
            self.by_pooled = Matrix::zeros(self.pooled.rows(), self.pooled.cols());
        }
    }
}
