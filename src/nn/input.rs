//! The input map b(U) of the first layer: from features U to the input term B, and back from
//! G = dL/dB to the gradients of the parameters. What the layer does with B is up to the caller.
//!
//! | map | B | gradient |
//! | --- | --- | --- |
//! | gathered | sum_r (A_r^T U) Omega_r^T | G^T (A_r^T U) |
//! | own | U Omega^T | G^T U |
//! | both | sum_r (A_r^T U) Omega_r^T + U Omega2^T | both of these |
//! | learned, gathered | sum_r A_r^T E | sum_r A_r G |
//! | learned, own | E | G |
//!
//! If the map has a bias, it is added to every row of B, and its gradient is the sum of the rows of
//! G. U is n x p, Omega and Omega2 are m x p, E, B and G are n x m, for n nodes, p features and
//! states of width m.
//!
//! - **Dense** features: A_r^T U does not change during training, so it is computed once. The
//!   results of all relations, and U itself for `both`, are columns of one matrix. Their maps are
//!   joined in the same way, so that B is a single product.
//! - **Sparse** features stay sparse: B = A^T (U Omega^T). U is an operator like the adjacency; its
//!   transpose gives the gradient, U^T (A G).
//! - **Learned** features: U is the identity, and Omega^T is the table E with one row per node.

use ignn_format::features::SparseRows;
use rayon::prelude::*;

use super::dropout::Mask;
use super::features::Features;
use super::input_shape::{InputMap, InputShape, Mapped};
use super::operators::Operators;
use super::{linear, rows};
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::{AdjacencyRef, elementwise, gradient, update_ghosts};
use crate::parallel::{RowBlocks, Rows};

/// The features in the form in which passes use them.
#[allow(clippy::large_enum_variant)] // One per layer.
enum Source {
    Dense {
        /// A_r^T U of every relation, or U, or all of these as columns of one matrix.
        prepared: Matrix,
        /// U itself, if a skip connection or feature dropout needs it.
        own: Option<Matrix>,
    },
    Sparse {
        rows: Sparse,
        /// Without ghosts, if there are any and the map or a skip connection reads own features.
        own: Option<Sparse>,
        transposed: Sparse,
        tables: [Matrix; 2],
    },
    Learned,
}

/// The input map with its memory.
pub struct Input {
    operators: Operators,
    shape: InputShape,
    source: Source,
    /// The features of the current training pass, if entries of them are dropped.
    dropped: Option<Dropped>,
}

/// Features with entries dropped.
#[allow(clippy::large_enum_variant)] // One per network.
enum Dropped {
    Dense(Matrix),
    Sparse { rows: Sparse, own: Option<Sparse>, transposed: Sparse },
    Learned(Mask, Vec<u32>),
}

impl Input {
    /// Prepares the features: A^T U is computed here. `keeps_own` also keeps U itself, which
    /// [`Input::own_times`] and [`Input::drop_entries`] need.
    ///
    /// # Panics
    /// If the number of feature rows is not the number of nodes, or if the features are learned and
    /// the map is `both`.
    pub fn new(
        operators: &Operators,
        features: Features,
        shape: InputShape,
        keeps_own: bool,
    ) -> Self {
        let rows = operators.rows();
        let source = match features {
            Features::Dense(u) => {
                assert_eq!(u.rows(), rows.with_ghosts(), "one row of features per node");
                match prepare(operators, &u, &shape) {
                    Some(prepared) => Source::Dense { prepared, own: keeps_own.then_some(u) },
                    None => Source::Dense { own: keeps_own.then(|| u.clone()), prepared: u },
                }
            }
            Features::Sparse { rows, columns } => {
                Source::sparse(Sparse::new(rows, columns), operators.rows(), &shape, keeps_own)
            }
            Features::Learned => {
                assert_ne!(shape.map, InputMap::Both, "learned features are mapped once");
                Source::Learned
            }
        };
        Self { operators: operators.clone(), shape, source, dropped: None }
    }

    /// The same map on the nodes of some graphs. `operators` are those of the selected graphs,
    /// `nodes` their nodes in the same order.
    ///
    /// # Panics
    /// If the features are learned: their table belongs to the nodes of one graph.
    pub fn select(&self, operators: &Operators, nodes: &[u32]) -> Self {
        self.on_nodes(operators, nodes, |prepared, _| selected(prepared, nodes))
    }

    /// The same map on some nodes with edges of their own: features are gathered over `operators`.
    ///
    /// # Panics
    /// As [`Input::select`], and if dense features are gathered and [`Input::new`] did not keep U.
    pub fn gathered_anew(&self, operators: &Operators, nodes: &[u32]) -> Self {
        self.on_nodes(operators, nodes, |prepared, own| match (self.shape.gathered(), own) {
            (0, _) => selected(prepared, nodes),
            (_, own) => prepare(operators, own.expect("features that were kept"), &self.shape)
                .expect("gathered features"),
        })
    }

    /// The map on some nodes; `prepared` makes the prepared features from those of this map and the
    /// nodes' own.
    fn on_nodes(
        &self,
        operators: &Operators,
        nodes: &[u32],
        prepared: impl Fn(&Matrix, Option<&Matrix>) -> Matrix,
    ) -> Self {
        let source = match &self.source {
            Source::Dense { prepared: all, own } => {
                let own = own.as_ref().map(|own| selected(own, nodes));
                Source::Dense { prepared: prepared(all, own.as_ref()), own }
            }
            Source::Sparse { rows, .. } => {
                Source::sparse(rows.select(nodes), operators.rows(), &self.shape, false)
            }
            Source::Learned => panic!("learned features belong to the nodes of one graph"),
        };
        let (operators, shape) = (operators.clone(), self.shape.clone());
        Self { operators, shape, source, dropped: None }
    }

    /// Drops entries of the features in the passes that follow. Row r is masked as node `ids[r]`.
    /// `None` restores all entries. A skip connection always sees all of them.
    ///
    /// # Panics
    /// If the features are dense and gathered, and [`Input::new`] did not keep U.
    pub fn drop_entries(&mut self, mask: Option<(Mask, &[u32])>) {
        // Free the old copy before a new one is made.
        self.dropped = None;
        let nodes = self.operators.nodes();
        self.dropped = mask.map(|(mask, ids)| match &self.source {
            Source::Dense { prepared, own } => {
                let is_own = self.shape.gathered() == 0;
                let u =
                    own.as_ref().or(is_own.then_some(prepared)).expect("features that were kept");
                let mut kept = u.clone();
                mask.apply(ids, kept.view_mut());
                Dropped::Dense(prepare(&self.operators, &kept, &self.shape).unwrap_or(kept))
            }
            Source::Sparse { rows, own, transposed, .. } => {
                let masked =
                    |rows: &Sparse| rows.masked(|node, column| mask.at(ids[node].into(), column));
                Dropped::Sparse {
                    rows: masked(rows),
                    own: own.as_ref().map(masked),
                    transposed: transposed.masked(|column, node| match node < nodes {
                        true => mask.at(ids[node].into(), column),
                        // The sum of the ranks before.
                        false => 1.0,
                    }),
                }
            }
            Source::Learned => Dropped::Learned(mask, ids.to_vec()),
        });
    }

    /// Computes B. `values` are the parameters in the order of [`InputShape::slots`].
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn forward(&mut self, values: &[MatrixRef<'_>], mut b: MatrixMut<'_>) {
        let bias = self.shape.has_bias.then(|| values[values.len() - 1].row(0));
        let (gathered, own) = (self.shape.gathered(), self.shape.own());
        let (incoming, blocks) = (self.operators.incoming(), self.operators.incoming_blocks());
        let nodes = self.operators.nodes();
        let gather = |relation: usize, from: MatrixRef<'_>, to: MatrixMut<'_>| {
            gradient::adjacency_times(blocks, incoming[relation], from, to);
        };
        match &mut self.source {
            Source::Dense { prepared, .. } => {
                let omega = side_by_side(&values[..gathered + usize::from(own.is_some())]);
                let prepared =
                    if let Some(Dropped::Dense(kept)) = &self.dropped { kept } else { prepared };
                linear::forward(omega.view(), bias, prepared.view().first(nodes), b.reborrow());
                return;
            }
            Source::Sparse { rows, own: without_ghosts, tables: [table, sum], .. } => {
                let (rows, without_ghosts) =
                    if let Some(Dropped::Sparse { rows, own, .. }) = &self.dropped {
                        (rows, own)
                    } else {
                        (&*rows, &*without_ghosts)
                    };
                if let Some(own) = own {
                    let rows = without_ghosts.as_ref().unwrap_or(rows);
                    rows.times(&transposed(values[own]), b.reborrow());
                }
                for (relation, &omega) in values[..gathered].iter().enumerate() {
                    rows.times(&transposed(omega), table.view_mut());
                    if relation == 0 && own.is_none() {
                        gather(relation, table.view(), b.reborrow());
                    } else {
                        gather(relation, table.view(), sum.view_mut());
                        elementwise::add(sum.view(), b.reborrow());
                    }
                }
            }
            Source::Learned if gathered == 0 => {
                elementwise::copy(values[0], b.reborrow());
                if let Some(Dropped::Learned(mask, ids)) = &self.dropped {
                    mask.apply(&ids[..nodes], b.reborrow());
                }
            }
            Source::Learned => {
                let over = self.operators.rows();
                let mut kept = None;
                if self.dropped.is_some() || !over.is_alone() {
                    let kept = kept.insert(Matrix::zeros(over.with_ghosts(), b.cols()));
                    let mut rows = kept.view_mut();
                    elementwise::copy(values[0], rows.reborrow().first(nodes));
                    update_ghosts(over, rows.reborrow());
                    if let Some(Dropped::Learned(mask, ids)) = &self.dropped {
                        mask.apply(ids, rows);
                    }
                }
                let table = kept.as_ref().map_or(values[0], Matrix::view);
                gather(0, table, b.reborrow());
                for relation in 1..gathered {
                    let mut sum = Matrix::zeros(b.rows(), b.cols());
                    gather(relation, table, sum.view_mut());
                    elementwise::add(sum.view(), b.reborrow());
                }
            }
        }
        if let Some(bias) = bias {
            elementwise::add_row(bias, b.reborrow());
        }
    }

    /// Computes the gradients of the parameters from G = dL/dB, in the order of
    /// [`InputShape::slots`]. Old gradients are overwritten. A learned table without memory for its
    /// gradient has none.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn backward(&mut self, g: MatrixRef<'_>, gradients: &mut [MatrixMut<'_>]) {
        if self.shape.has_bias {
            let last = gradients.len() - 1;
            let sum = gradient::bias_over(self.operators.rows(), g.first(self.operators.nodes()));
            gradients[last].row_mut(0).copy_from_slice(&sum);
        }
        let (gathered, own) = (self.shape.gathered(), self.shape.own());
        let rows = self.operators.rows();
        let (outgoing, blocks) = (self.operators.outgoing(), self.operators.outgoing_blocks());
        let gather = |relation: usize, to: MatrixMut<'_>| {
            gradient::adjacency_times(blocks, outgoing[relation], g, to);
        };
        match &mut self.source {
            // A table that no step changes.
            Source::Learned if gradients[0].rows() == 0 => return,
            Source::Dense { prepared, .. } => {
                let prepared =
                    if let Some(Dropped::Dense(kept)) = &self.dropped { kept } else { prepared };
                let sum = gradient::input_over(
                    rows,
                    g.first(rows.len()),
                    prepared.view().first(rows.len()),
                );
                let parts = gathered + usize::from(own.is_some());
                let columns = sum.cols() / parts;
                for (part, gradient) in gradients[..parts].iter_mut().enumerate() {
                    for k in 0..sum.rows() {
                        let from = &sum.row(k)[part * columns..][..columns];
                        gradient.row_mut(k).copy_from_slice(from);
                    }
                }
            }
            Source::Sparse { transposed: all, tables: [table, _], .. } => {
                let by_columns = match &self.dropped {
                    Some(Dropped::Sparse { transposed, .. }) => transposed,
                    _ => all,
                };
                if let Some(own) = own {
                    let sum = by_columns.gradient(rows, g);
                    elementwise::copy(sum.view(), gradients[own].reborrow());
                }
                for (relation, gradient) in gradients[..gathered].iter_mut().enumerate() {
                    gather(relation, table.view_mut().first(rows.len()));
                    let sum = by_columns.gradient(rows, table.view());
                    elementwise::copy(sum.view(), gradient.reborrow());
                }
            }
            Source::Learned if gathered == 0 => {
                elementwise::copy(g.first(rows.len()), gradients[0].reborrow());
            }
            Source::Learned => {
                gather(0, gradients[0].reborrow());
                for relation in 1..gathered {
                    let mut sum = Matrix::zeros(rows.len(), g.cols());
                    gather(relation, sum.view_mut());
                    elementwise::add(sum.view(), gradients[0].reborrow());
                }
            }
        }
        if let Some(Dropped::Learned(mask, ids)) = &self.dropped {
            mask.apply(&ids[..rows.len()], gradients[0].reborrow());
        }
    }

    /// to = U V^T + v, for own rows: the skip connection of the first layer.
    ///
    /// # Panics
    /// If the features are learned, or [`Input::new`] did not keep U.
    pub fn own_times(&self, v: MatrixRef<'_>, bias: &[f32], mut to: MatrixMut<'_>) {
        match &self.source {
            Source::Dense { own: Some(u), .. } => {
                linear::forward(v, Some(bias), u.view().first(self.operators.nodes()), to);
            }
            Source::Sparse { rows, own, .. } => {
                own.as_ref().unwrap_or(rows).times(&transposed(v), to.reborrow());
                elementwise::add_row(bias, to);
            }
            _ => panic!("features that were kept for a skip"),
        }
    }

    /// G^T U: the gradient of V of the skip connection.
    ///
    /// # Panics
    /// As [`Input::own_times`].
    pub fn own_gradient(&self, g: MatrixRef<'_>) -> Matrix {
        match &self.source {
            Source::Dense { own: Some(u), .. } => {
                let rows = self.operators.rows();
                gradient::input_over(rows, g, u.view().first(rows.len()))
            }
            Source::Sparse { transposed, .. } => transposed.gradient(self.operators.rows(), g),
            _ => panic!("features that were kept for a skip"),
        }
    }
}

impl Source {
    fn sparse(rows: Sparse, over: &Rows, shape: &InputShape, keeps_own: bool) -> Self {
        assert_eq!(rows.rows.rows(), over.with_ghosts(), "one row of features per node");
        // The second table is needed only if several terms are added.
        let has_second = shape.gathered() + usize::from(shape.own().is_some()) > 1;
        let second = if has_second { over.len() } else { 0 };
        let tables = [over.with_ghosts(), second].map(|rows| Matrix::zeros(rows, shape.width));
        if over.is_alone() {
            return Self::Sparse { transposed: rows.transposed(), rows, own: None, tables };
        }
        let own = rows.select(&(0..over.len() as u32).collect::<Vec<_>>());
        let transposed = own.transposed().continued();
        let own = (keeps_own || shape.own().is_some()).then_some(own);
        Self::Sparse { transposed, rows, own, tables }
    }
}

/// Some rows.
fn selected(matrix: &Matrix, nodes: &[u32]) -> Matrix {
    let mut chosen = Matrix::zeros(nodes.len(), matrix.cols());
    rows::select_rows(matrix.view(), nodes, &mut chosen);
    chosen
}

/// A_r^T U of every relation, and U if the map is `both`, as columns of one matrix; `None` if that
/// would be U itself.
fn prepare(operators: &Operators, u: &Matrix, shape: &InputShape) -> Option<Matrix> {
    assert_eq!(shape.mapped, Mapped::Columns(u.cols()), "a map of the columns of the features");
    let (nodes, p, blocks) = (operators.nodes(), u.cols(), operators.incoming_blocks());
    let gathered = |relation: usize| {
        let mut gathered = Matrix::zeros(nodes, p);
        let adjacency = operators.incoming()[relation];
        gradient::adjacency_times(blocks, adjacency, u.view(), gathered.view_mut());
        gathered
    };
    let mut parts: Vec<Matrix> = (0..shape.gathered()).map(gathered).collect();
    let all: Vec<&Matrix> = parts.iter().chain(shape.own().map(|_| u)).collect();
    if all.len() == 1 {
        return parts.pop();
    }
    let mut beside = Matrix::zeros(nodes, all.len() * p);
    let mut rows = beside.view_mut();
    let stride = rows.stride();
    rows.padded_mut().par_chunks_mut(stride).enumerate().for_each(|(i, row)| {
        for (part, to) in all.iter().zip(row.chunks_exact_mut(p.max(1))) {
            to.copy_from_slice(part.row(i));
        }
    });
    Some(beside)
}

/// Matrices with the same number of rows, joined by columns.
fn side_by_side(values: &[MatrixRef<'_>]) -> Matrix {
    let (m, p) = (values[0].rows(), values[0].cols());
    let mut omega = Matrix::zeros(m, values.len() * p);
    for (part, value) in values.iter().enumerate() {
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
    fn times(&self, table: &Matrix, to: MatrixMut<'_>) {
        gradient::adjacency_times(&self.blocks, self.view(), table.view(), to);
    }

    /// If this operator is U^T: (U^T G)^T, m x p, over the rows of all ranks. The sum of a column
    /// follows the order of nodes: on several ranks, one continues from the sums of the one before,
    /// and the operator is a [`Sparse::continued`] one.
    fn gradient(&self, over: &Rows, g: MatrixRef<'_>) -> Matrix {
        let mut by_columns = Matrix::zeros(self.rows.rows(), g.cols());
        if over.is_alone() {
            gradient::adjacency_times(&self.blocks, self.view(), g, by_columns.view_mut());
            return transposed(by_columns.view());
        }
        let start = by_columns.view().padded().to_vec();
        let sums = over.chain(start, |before| {
            let mut from = Matrix::zeros(self.columns, g.cols());
            let mut sum = Matrix::zeros(self.rows.rows(), g.cols());
            let (mut rows, own) = (from.view_mut(), g.first(over.len()));
            let (first, rest) = rows.padded_mut().split_at_mut(own.padded().len());
            first.copy_from_slice(own.padded());
            rest.copy_from_slice(&before);
            gradient::adjacency_times(&self.blocks, self.view(), from.view(), sum.view_mut());
            sum.view().padded().to_vec()
        });
        by_columns.view_mut().padded_mut().copy_from_slice(&sums);
        transposed(by_columns.view())
    }

    /// An operator whose row i has one more entry, before the others: a 1 in column i of those that
    /// are appended. What is gathered then begins with what is there.
    fn continued(&self) -> Self {
        let SparseRows { offsets, columns, values } = &self.rows;
        let mut rows = SparseRows { offsets: vec![0], columns: Vec::new(), values: Vec::new() };
        for (row, ends) in offsets.windows(2).enumerate() {
            let entries = ends[0] as usize..ends[1] as usize;
            rows.columns.push((self.columns + row) as u32);
            rows.values.push(1.0);
            rows.columns.extend_from_slice(&columns[entries.clone()]);
            rows.values.extend_from_slice(&values[entries]);
            rows.offsets.push(rows.columns.len() as u64);
        }
        Self::new(rows, self.columns + self.rows.rows())
    }

    /// A copy in which every value is multiplied by the factor of its row and column.
    fn masked(&self, factor: impl Fn(usize, usize) -> f32 + Sync) -> Self {
        let SparseRows { offsets, columns, values } = &self.rows;
        let row = |row: usize| {
            let entries = offsets[row] as usize..offsets[row + 1] as usize;
            let factor = &factor;
            entries.map(move |at| values[at] * factor(row, columns[at] as usize))
        };
        let values = (0..self.rows.rows()).into_par_iter().flat_map_iter(row).collect();
        let rows = SparseRows { offsets: offsets.clone(), columns: columns.clone(), values };
        Self { rows, columns: self.columns, blocks: self.blocks.clone() }
    }

    /// A copy of some of the rows.
    fn select(&self, chosen: &[u32]) -> Self {
        let SparseRows { offsets, columns, values } = &self.rows;
        let mut rows = SparseRows { offsets: vec![0], columns: Vec::new(), values: Vec::new() };
        for &row in chosen {
            let entries = offsets[row as usize] as usize..offsets[row as usize + 1] as usize;
            rows.columns.extend_from_slice(&columns[entries.clone()]);
            rows.values.extend_from_slice(&values[entries]);
            rows.offsets.push(rows.columns.len() as u64);
        }
        Self::new(rows, self.columns)
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
        let mut rows = SparseRows {
            columns: vec![0; columns.len()],
            values: vec![0.0; values.len()],
            offsets: starts,
        };
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
