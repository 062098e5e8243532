//! The input map b(U): features to the layer's input term B, and back to the gradients of its parameters.
//! It knows features and Omega; the equilibrium that B drives is elsewhere.
//!
//! | map | B | gradient |
//! | --- | --- | --- |
//! | gathered | (A^T U) Omega^T | G^T (A^T U) |
//! | own | U Omega^T | G^T U |
//! | both | (A^T U) Omega^T + U Omega2^T | both of these |
//! | learned, gathered | A^T E | A G |
//! | learned, own | E | G |
//!
//! each plus a bias row where there is one, whose gradient is the sum of G's rows. U is n x p, Omega m x p, E n x m.
//!
//! **Dense** features: A^T U does not change during training and is computed once; with `both`, U stands beside it in one
//! matrix of 2 p columns, and Omega2 beside Omega. **Sparse** features stay sparse: B = A^T (U Omega^T), where U is an
//! operator like the adjacency, and its transpose serves the gradient (U^T (A G)). **Learned** features: U is the
//! identity.

use ignn_format::features::SparseRows;
use rayon::prelude::*;

use super::features::Features;
use super::operators::Operators;
use super::random;
use super::readout::Slot;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::sweep::{self, SweepScratch};
use crate::kernels::{AdjacencyRef, Isa, PackedWeights, gradient};
use crate::parallel::RowBlocks;

/// Floats of a piece of elementwise work.
const CHUNK: usize = 1 << 14;
/// Names of the parameters.
pub const OMEGA: &str = "layer0.Omega";
/// See [`OMEGA`].
pub const OMEGA_2: &str = "layer0.Omega2";
/// See [`OMEGA`].
pub const EMBEDDING: &str = "layer0.E";
/// See [`OMEGA`].
pub const BIAS: &str = "layer0.bias";

/// Which neighbourhood the input sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputMap {
    /// Omega U A
    Gathered,
    /// Omega U
    Own,
    /// Omega U A + Omega2 U
    Both,
}

/// Where the numbers of B come from, prepared.
enum Source {
    /// A^T U, U, or both side by side; and p.
    Dense(Matrix, usize),
    Sparse {
        rows: Sparse,
        transposed: Sparse,
        table: Matrix,
    },
    Learned,
}

/// The input map with its memory.
pub struct Input<'g> {
    operators: &'g Operators<'g>,
    map: InputMap,
    source: Source,
    has_bias: bool,
    width: usize,
}

impl<'g> Input<'g> {
    /// Prepares the features: A^T U is computed here.
    ///
    /// # Panics
    /// Where there are not as many rows of features as nodes, or for learned features with both maps.
    pub fn new(
        operators: &'g Operators<'g>,
        features: Features,
        map: InputMap,
        has_bias: bool,
        width: usize,
    ) -> Self {
        let nodes = operators.nodes();
        let source = match features {
            Features::Dense(u) => {
                assert_eq!(u.rows(), nodes, "a row of features a node");
                let columns = u.cols();
                Source::Dense(prepare(operators, u, map), columns)
            }
            Features::Sparse { rows, columns } => {
                let rows = Sparse::new(rows, columns);
                assert_eq!(rows.rows.rows(), nodes, "a row of features a node");
                Source::Sparse { transposed: rows.transposed(), rows, table: Matrix::zeros(nodes, width) }
            }
            Features::Learned => {
                assert_ne!(map, InputMap::Both, "learned features are mapped once");
                Source::Learned
            }
        };
        Self { operators, map, source, has_bias, width }
    }

    /// Features of a node, where they are given.
    pub fn columns(&self) -> Option<usize> {
        match &self.source {
            Source::Dense(_, columns) => Some(*columns),
            Source::Sparse { rows, .. } => Some(rows.columns),
            Source::Learned => None,
        }
    }

    /// The parameters, in the order in which passes take them.
    pub fn slots(&self) -> Vec<Slot> {
        let m = self.width;
        let weight = |name: &str, shape| Slot { name: name.to_string(), shape, is_bias: false };
        let mut slots = match self.columns() {
            None => vec![weight(EMBEDDING, (self.operators.nodes(), m))],
            Some(p) if self.map == InputMap::Both => vec![weight(OMEGA, (m, p)), weight(OMEGA_2, (m, p))],
            Some(p) => vec![weight(OMEGA, (m, p))],
        };
        if self.has_bias {
            slots.push(Slot { name: BIAS.to_string(), shape: (1, m), is_bias: true });
        }
        slots
    }

    /// First values, in the order of the slots: weights uniform within scale / sqrt(m), a bias zero.
    pub fn initial(&self, seed: u64, scale: f64) -> Vec<Matrix> {
        let bound = scale / (self.width as f64).sqrt();
        let value = |slot: &Slot| match slot.shape {
            (rows, cols) if slot.is_bias => Matrix::zeros(rows, cols),
            (rows, cols) => random::uniform(seed, &slot.name, rows, cols, bound),
        };
        self.slots().iter().map(value).collect()
    }

    /// B, from the values in the order of the slots.
    ///
    /// # Panics
    /// Where shapes do not fit.
    pub fn forward(&mut self, values: &[MatrixRef<'_>], b: &mut Matrix) {
        let bias = self.has_bias.then(|| values[values.len() - 1].row(0));
        let (operators, map) = (self.operators, self.map);
        let gather = |from: MatrixRef<'_>, to: &mut Matrix| {
            gradient::adjacency_times(
                operators.incoming_blocks(),
                operators.incoming()[0],
                from,
                to.view_mut(),
            );
        };
        match &mut self.source {
            Source::Dense(prepared, columns) => {
                let omega = side_by_side(values, map, self.width, *columns);
                let packed = PackedWeights::forward(omega.view());
                let blocks = RowBlocks::balanced(prepared.rows(), &[], packed.inner() as u64 / 8 + 1);
                let scratch = SweepScratch::with_widths(&[packed.inner()], packed.outer(), Isa::chosen());
                let from = prepared.view();
                sweep::product(&blocks, &[], Some(&packed), bias, from, b.view_mut(), &scratch);
                return;
            }
            Source::Sparse { rows, table, .. } => {
                if map == InputMap::Own {
                    rows.times(&transposed(values[0]), b);
                } else {
                    rows.times(&transposed(values[0]), table);
                    gather(table.view(), b);
                }
                if map == InputMap::Both {
                    rows.times(&transposed(values[1]), table);
                    add(table.view(), b.view_mut());
                }
            }
            Source::Learned if map == InputMap::Own => copy(values[0], b.view_mut()),
            Source::Learned => gather(values[0], b),
        }
        if let Some(bias) = bias {
            add_row(bias, b.view_mut());
        }
    }

    /// Gradients of the parameters, in the order of the slots, from G = dL/dB; they are replaced.
    ///
    /// # Panics
    /// Where shapes do not fit.
    pub fn backward(&mut self, g: MatrixRef<'_>, gradients: &mut [MatrixMut<'_>]) {
        if self.has_bias {
            let last = gradients.len() - 1;
            gradients[last].row_mut(0).copy_from_slice(&gradient::bias(g));
        }
        let (operators, map) = (self.operators, self.map);
        let gather = |to: MatrixMut<'_>| {
            let (blocks, outgoing) = (operators.outgoing_blocks(), operators.outgoing()[0]);
            gradient::adjacency_times(blocks, outgoing, g, to);
        };
        match &mut self.source {
            Source::Dense(prepared, columns) => {
                let sum = gradient::input(g, prepared.view());
                let parts = if map == InputMap::Both { 2 } else { 1 };
                for (part, gradient) in gradients[..parts].iter_mut().enumerate() {
                    for k in 0..sum.rows() {
                        let from = &sum.row(k)[part * *columns..][..*columns];
                        gradient.row_mut(k).copy_from_slice(from);
                    }
                }
            }
            Source::Sparse { transposed: by_columns, table, .. } => {
                let own = usize::from(map == InputMap::Both);
                if map != InputMap::Gathered {
                    copy(by_columns.gradient(g).view(), gradients[own].reborrow());
                }
                if map != InputMap::Own {
                    gather(table.view_mut());
                    copy(by_columns.gradient(table.view()).view(), gradients[0].reborrow());
                }
            }
            Source::Learned if map == InputMap::Own => copy(g, gradients[0].reborrow()),
            Source::Learned => gather(gradients[0].reborrow()),
        }
    }
}

/// A^T U, U, or both side by side.
fn prepare(operators: &Operators<'_>, u: Matrix, map: InputMap) -> Matrix {
    if map == InputMap::Own {
        return u;
    }
    let (nodes, p) = (u.rows(), u.cols());
    let mut gathered = Matrix::zeros(nodes, p);
    let blocks = operators.incoming_blocks();
    gradient::adjacency_times(blocks, operators.incoming()[0], u.view(), gathered.view_mut());
    if map == InputMap::Gathered {
        return gathered;
    }
    let mut both = Matrix::zeros(nodes, 2 * p);
    let mut rows = both.view_mut();
    let stride = rows.stride();
    rows.padded_mut().par_chunks_mut(stride).enumerate().for_each(|(i, row)| {
        row[..p].copy_from_slice(gathered.row(i));
        row[p..2 * p].copy_from_slice(u.row(i));
    });
    both
}

/// Omega, or Omega and Omega2 side by side.
fn side_by_side(values: &[MatrixRef<'_>], map: InputMap, m: usize, p: usize) -> Matrix {
    let parts = if map == InputMap::Both { 2 } else { 1 };
    let mut omega = Matrix::zeros(m, parts * p);
    for (part, value) in values[..parts].iter().enumerate() {
        for k in 0..m {
            omega.row_mut(k)[part * p..][..p].copy_from_slice(value.row(k));
        }
    }
    omega
}

fn transposed(matrix: MatrixRef<'_>) -> Matrix {
    let mut out = Matrix::zeros(matrix.cols(), matrix.rows());
    let mut rows = out.view_mut();
    let stride = rows.stride();
    rows.padded_mut().par_chunks_mut(stride).enumerate().for_each(|(l, row)| {
        row.iter_mut().take(matrix.rows()).enumerate().for_each(|(k, x)| *x = matrix.row(k)[l]);
    });
    out
}

fn copy(from: MatrixRef<'_>, mut to: MatrixMut<'_>) {
    let chunks = to.padded_mut().par_chunks_mut(CHUNK).zip(from.padded().par_chunks(CHUNK));
    chunks.for_each(|(to, from)| to.copy_from_slice(from));
}

fn add(from: MatrixRef<'_>, mut to: MatrixMut<'_>) {
    let chunks = to.padded_mut().par_chunks_mut(CHUNK).zip(from.padded().par_chunks(CHUNK));
    chunks.for_each(|(to, from)| to.iter_mut().zip(from).for_each(|(to, from)| *to += from));
}

fn add_row(row: &[f32], mut to: MatrixMut<'_>) {
    let stride = to.stride();
    let rows = to.padded_mut().par_chunks_mut(stride).with_min_len(CHUNK / stride + 1);
    rows.for_each(|to| to.iter_mut().zip(row).for_each(|(to, x)| *to += x));
}

/// Sparse features as an operator.
struct Sparse {
    rows: SparseRows,
    columns: usize,
    blocks: RowBlocks,
}

impl Sparse {
    fn new(rows: SparseRows, columns: usize) -> Self {
        let blocks = RowBlocks::balanced(rows.rows(), &[&rows.offsets], 2);
        Self { rows, columns, blocks }
    }

    fn view(&self) -> AdjacencyRef<'_> {
        let rows = AdjacencyRef::new(self.columns, &self.rows.offsets, &self.rows.columns);
        rows.expect("features whose columns are below their number").with_values(&self.rows.values)
    }

    /// to = U table
    fn times(&self, table: &Matrix, to: &mut Matrix) {
        gradient::adjacency_times(&self.blocks, self.view(), table.view(), to.view_mut());
    }

    /// With U^T as this operator: (U^T G)^T, m x p.
    fn gradient(&self, g: MatrixRef<'_>) -> Matrix {
        let mut by_columns = Matrix::zeros(self.rows.rows(), g.cols());
        gradient::adjacency_times(&self.blocks, self.view(), g, by_columns.view_mut());
        transposed(by_columns.view())
    }

    fn transposed(&self) -> Self {
        let SparseRows { offsets, columns, values } = &self.rows;
        let mut starts = vec![0u64; self.columns + 1];
        for &column in columns {
            starts[column as usize + 1] += 1;
        }
        for column in 0..self.columns {
            starts[column + 1] += starts[column];
        }
        let mut next = starts.clone();
        let mut rows =
            SparseRows { columns: vec![0; columns.len()], values: vec![0.0; values.len()], offsets: starts };
        for (row, ends) in offsets.windows(2).enumerate() {
            for entry in ends[0] as usize..ends[1] as usize {
                let at = &mut next[columns[entry] as usize];
                rows.columns[*at as usize] = row as u32;
                rows.values[*at as usize] = values[entry];
                *at += 1;
            }
        }
        let columns = self.rows.rows();
        Self::new(rows, columns)
    }
}
