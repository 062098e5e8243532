//! A mapped relation: its adjacency in both directions, and the same as sparse matrices of `sprs`.
//! Views share the mapped arrays; nothing is copied.

use std::ops::{Deref, Mul};
use std::sync::Arc;

use ignn_format::csr::CsrFile;
use ignn_format::{FormatError, Result};
use sprs::CsMatViewI;

/// One relation of a [`super::Graph`], mapped; a clone shares the mapping.
///
/// The matrix is `A[j, i] = v(j, i) * s`: `v` is the stored value of the edge j -> i, or 1 where
/// none are stored, and `s` comes from the scale vector as `entry.scale` says. Values and scale are
/// stored apart, and a normalised matrix is never written out. The views below are therefore
/// those of the stored values alone; [`Relation::scale`] has the rest.
///
/// ```
/// use ignn::dense::Matrix;
/// use ignn::graph::GraphBuilder;
/// use ignn::kernels::{AdjacencyRef, gradient};
/// use ignn::parallel::RowBlocks;
///
/// let graph = GraphBuilder::new(5).edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]).build()?;
/// let relation = &graph.relations()?[0];
/// let x = [1.0f32, 2.0, 3.0, 4.0, 5.0];
///
/// // A^T x for a renormalised relation: s * (P (s * x)), P the pattern of incoming edges.
/// let scale = relation.scale().expect("renormalised");
/// let scaled: Vec<f32> = x.iter().zip(scale).map(|(x, s)| x * s).collect();
/// let mut by_sprs = vec![0.0f32; 5];
/// sprs::prod::mul_acc_mat_vec_csr(relation.incoming_pattern()?, &scaled[..], &mut by_sprs[..]);
/// by_sprs.iter_mut().zip(scale).for_each(|(y, s)| *y *= s);
///
/// // The same by the engine's gather.
/// let a_t = AdjacencyRef::incoming(relation);
/// let blocks = RowBlocks::balanced(5, &[a_t.offsets()], 1);
/// let mut by_engine = Matrix::zeros(5, 1);
/// let column = Matrix::from_fn(5, 1, |i, _| x[i]);
/// gradient::adjacency_times(&blocks, a_t, column.view(), by_engine.view_mut());
/// for (i, y) in by_sprs.iter().enumerate() {
///     assert!((y - by_engine.row(i)[0]).abs() < 1e-6);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Relation {
    stored: Arc<ignn_format::Relation>,
}

/// The value of every entry of a relation without stored values, for [`Relation::incoming_pattern`]
/// and [`Relation::outgoing_pattern`]. It takes no memory, and times x it is x.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct One;

impl Mul<&f32> for &One {
    type Output = f32;

    fn mul(self, x: &f32) -> f32 {
        *x
    }
}

impl Mul<&f64> for &One {
    type Output = f64;

    fn mul(self, x: &f64) -> f64 {
        *x
    }
}

impl Deref for Relation {
    type Target = ignn_format::Relation;

    fn deref(&self) -> &Self::Target {
        &self.stored
    }
}

impl From<ignn_format::Relation> for Relation {
    fn from(stored: ignn_format::Relation) -> Self {
        Self { stored: Arc::new(stored) }
    }
}

impl Relation {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.incoming.rows()
    }

    /// The scale vector, one factor per node, where the relation is normalised.
    pub fn scale(&self) -> Option<&[f32]> {
        self.stored.scale.as_deref()
    }

    /// Incoming edges without their values: row `i` has the sources of the edges into node `i`. It
    /// is the pattern of A^T.
    pub fn incoming_pattern(&self) -> Result<CsMatViewI<'_, One, u32, u64>> {
        self.pattern(&self.incoming)
    }

    /// Outgoing edges without their values: row `j` has the targets of the edges out of node `j`.
    /// It is the pattern of A.
    pub fn outgoing_pattern(&self) -> Result<CsMatViewI<'_, One, u32, u64>> {
        self.pattern(self.out())
    }

    /// Incoming edges with their stored values; none where every value is 1.
    ///
    /// ```
    /// use ignn::graph::{Edges, GraphBuilder, Normalisation};
    ///
    /// let edges = Edges::directed([(0, 1), (1, 2)]).weights(vec![2.0, 0.5]);
    /// let edges = edges.normalisation(Normalisation::None);
    /// let graph = GraphBuilder::new(3).relation("flow", edges).build()?;
    /// let flow = &graph.relations()?[0];
    /// let a_t = flow.incoming_values()?.expect("weights");
    /// assert_eq!((a_t.get(1, 0), a_t.get(0, 1)), (Some(&2.0), None));
    /// let a = flow.outgoing_values()?.expect("weights");
    /// assert_eq!(a.get(1, 2), Some(&0.5));
    /// # Ok::<(), ignn::FormatError>(())
    /// ```
    pub fn incoming_values(&self) -> Result<Option<CsMatViewI<'_, f32, u32, u64>>> {
        self.values(&self.incoming)
    }

    /// Outgoing edges with their stored values; none where every value is 1.
    pub fn outgoing_values(&self) -> Result<Option<CsMatViewI<'_, f32, u32, u64>>> {
        self.values(self.out())
    }

    /// Rows of outgoing edges: where values are symmetric, those of incoming ones.
    fn out(&self) -> &CsrFile {
        self.outgoing.as_ref().unwrap_or(&self.incoming)
    }

    fn pattern<'a>(&self, direction: &'a CsrFile) -> Result<CsMatViewI<'a, One, u32, u64>> {
        // A vector of values without size allocates nothing: there is nothing to leak.
        let ones: &'static [One] = vec![One; direction.neighbours().len()].leak();
        self.view(direction, ones)
    }

    fn values<'a>(&self, direction: &'a CsrFile) -> Result<Option<CsMatViewI<'a, f32, u32, u64>>> {
        direction.values().map(|values| self.view(direction, values)).transpose()
    }

    /// The arrays as a matrix, after a pass over them: sprs asks for neighbours that rise and lie
    /// below the number of nodes.
    fn view<'a, N>(
        &self,
        direction: &'a CsrFile,
        data: &'a [N],
    ) -> Result<CsMatViewI<'a, N, u32, u64>> {
        let shape = (direction.rows(), direction.rows());
        let (offsets, neighbours) = (&direction.offsets()[..], &direction.neighbours()[..]);
        CsMatViewI::try_new(shape, offsets, neighbours, data).map_err(|(.., error)| {
            let expected = "a matrix in compressed rows: `ignn check DIR` shows the details";
            FormatError::invalid(format!("relations/{}", self.name()), "arrays", error, expected)
        })
    }
}
