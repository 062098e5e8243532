//! A sparse operator that keeps its arrays alive: a relation's mapped files, arrays in memory, or
//! whole graphs of another operator. Cheap to clone, and without a lifetime; kernels take the
//! borrowed [`AdjacencyRef`] that [`Adjacency::view`] makes on demand.
//!
//! Arrays are checked once, when an `Adjacency` is made. A view costs a few loads.

use std::sync::Arc;

use super::{AdjacencyError, AdjacencyRef, Lockstep, Selection, SharedRows};
use crate::graph::Relation;

/// An operator with shared ownership of its arrays.
#[derive(Clone, Debug)]
pub struct Adjacency {
    arrays: Arrays,
    /// Repeated rows, if they were searched for and found.
    shared: Option<Arc<SharedRows>>,
    /// A copy of the entries for narrow states, if one was made.
    lockstep: Option<Arc<Lockstep>>,
    /// The rows, if this is the operator of a selection of graphs.
    selected: Option<Arc<SelectedRows>>,
}

/// Where the entries are.
#[derive(Clone, Debug)]
enum Arrays {
    /// Incoming edges of a mapped relation.
    Incoming(Relation),
    /// Outgoing edges of a mapped relation.
    Outgoing(Relation),
    Memory(Arc<Csr>),
}

/// An operator's arrays in memory; see [`AdjacencyRef`] for what they mean.
#[derive(Clone, Debug)]
struct Csr {
    columns: usize,
    offsets: Vec<u64>,
    neighbours: Vec<u32>,
    values: Option<Vec<f32>>,
    gather_scale: Option<Vec<f32>>,
    row_scale: Option<Vec<f32>>,
}

#[derive(Debug)]
struct SelectedRows {
    selection: Arc<Selection>,
    /// Entries before each selected row.
    offsets: Vec<u64>,
}

impl Adjacency {
    /// Both directions of a mapped relation, `[A^T, A]`. Searches the arrays for repeated rows, in a
    /// few passes over the entries.
    pub fn of(relation: &Relation) -> [Self; 2] {
        let incoming = AdjacencyRef::incoming(relation);
        let outgoing = AdjacencyRef::outgoing(relation);
        let shared_incoming = SharedRows::find(&incoming).map(Arc::new);
        let shared_outgoing = match relation.outgoing {
            Some(_) => SharedRows::find(&outgoing).map(Arc::new),
            // One stored direction serves both.
            None => shared_incoming.clone(),
        };
        [
            Self {
                arrays: Arrays::Incoming(relation.clone()),
                shared: shared_incoming,
                lockstep: None,
                selected: None,
            },
            Self {
                arrays: Arrays::Outgoing(relation.clone()),
                shared: shared_outgoing,
                lockstep: None,
                selected: None,
            },
        ]
    }

    /// Both directions of a mapped relation, `[A^T, A]`, without a search for repeated rows.
    pub fn mapped(relation: &Relation) -> [Self; 2] {
        [Arrays::Incoming(relation.clone()), Arrays::Outgoing(relation.clone())]
            .map(|arrays| Self { arrays, shared: None, lockstep: None, selected: None })
    }

    /// An operator in memory of `offsets.len() - 1` rows and `columns` columns: row `i` gathers
    /// from `neighbours[offsets[i]..offsets[i + 1]]`, with values of 1 and no scale.
    ///
    /// ```
    /// use ignn::kernels::Adjacency;
    ///
    /// // Row 0 gathers from columns 1 and 2, row 1 from nothing, row 2 from column 0.
    /// let a = Adjacency::from_csr(3, vec![0, 2, 2, 3], vec![1, 2, 0])?;
    /// let a = a.with_values(vec![0.5, 0.25, 2.0]);
    /// assert_eq!(a.view().entries(0).collect::<Vec<_>>(), [(1, 0.5), (2, 0.25)]);
    ///
    /// let error = Adjacency::from_csr(3, vec![0, 1], vec![7]).unwrap_err();
    /// assert!(error.to_string().contains("neighbour (found 7, expected less than 3)"));
    /// # Ok::<(), ignn::kernels::AdjacencyError>(())
    /// ```
    pub fn from_csr(
        columns: usize,
        offsets: Vec<u64>,
        neighbours: Vec<u32>,
    ) -> Result<Self, AdjacencyError> {
        AdjacencyRef::new(columns, &offsets, &neighbours)?;
        let (values, gather_scale, row_scale) = (None, None, None);
        let csr = Csr { columns, offsets, neighbours, values, gather_scale, row_scale };
        Ok(Self {
            arrays: Arrays::Memory(Arc::new(csr)),
            shared: None,
            lockstep: None,
            selected: None,
        })
    }

    /// With one value per entry.
    ///
    /// # Panics
    /// If there are not as many values as entries, or the operator is not one in memory.
    pub fn with_values(self, values: Vec<f32>) -> Self {
        self.with(|csr| {
            assert_eq!(values.len(), csr.neighbours.len(), "one value per entry");
            csr.values = Some(values);
        })
    }

    /// With one factor per column, applied while gathering.
    ///
    /// # Panics
    /// If there are not as many factors as columns, or the operator is not one in memory.
    pub fn with_gather_scale(self, scale: Vec<f32>) -> Self {
        self.with(|csr| {
            assert_eq!(scale.len(), csr.columns, "one factor per column");
            csr.gather_scale = Some(scale);
        })
    }

    /// With one factor per row, applied after gathering.
    ///
    /// # Panics
    /// If there are not as many factors as rows, or the operator is not one in memory.
    pub fn with_row_scale(self, scale: Vec<f32>) -> Self {
        self.with(|csr| {
            assert_eq!(scale.len(), csr.offsets.len() - 1, "one factor per row");
            csr.row_scale = Some(scale);
        })
    }

    fn with(mut self, change: impl FnOnce(&mut Csr)) -> Self {
        assert!(self.selected.is_none(), "values and scales come before a selection");
        let Arrays::Memory(csr) = &mut self.arrays else { panic!("an operator in memory") };
        change(Arc::make_mut(csr));
        // Both were made with other values.
        (self.shared, self.lockstep) = (None, None);
        self
    }

    /// With its repeated rows, found in these very entries.
    pub(super) fn with_shared_rows(self, shared: Option<SharedRows>) -> Self {
        Self { shared: shared.map(Arc::new), ..self }
    }

    /// The same entries without shared rows: every row is gathered on its own. For measurements.
    pub fn without_shared_rows(self) -> Self {
        Self { shared: None, ..self }
    }

    /// The same operators, `[A_r^T, A_r]` of every relation, with copies of their entries for narrow
    /// states. A relation that stores one direction has one copy. Selections and operators with
    /// repeated rows have none.
    ///
    /// # Panics
    /// If there are not as many relations in both directions.
    pub fn in_lockstep([incoming, outgoing]: [&[Self]; 2]) -> [Vec<Self>; 2] {
        assert_eq!(incoming.len(), outgoing.len(), "both directions of the same relations");
        let copied = |of: &Self| {
            let view = of.view();
            let is_plain = of.shared.is_none() && of.selected.is_none();
            let lockstep = is_plain.then(|| Arc::new(Lockstep::of(&view)));
            Self { lockstep, ..of.clone() }
        };
        let both = incoming.iter().zip(outgoing).map(|(a, b)| {
            let first = copied(a);
            let second = match a.is_stored_with(b) {
                true => Self { lockstep: first.lockstep.clone(), ..b.clone() },
                false => copied(b),
            };
            (first, second)
        });
        let (incoming, outgoing) = both.unzip();
        [incoming, outgoing]
    }

    /// Whether both are made of the same stored entries: the directions of a symmetric relation.
    pub fn is_stored_with(&self, other: &Self) -> bool {
        let (a, b) = (self.view(), other.view());
        std::ptr::eq(a.neighbours(), b.neighbours()) && std::ptr::eq(a.offsets(), b.offsets())
    }

    /// Bytes of the copy of the entries, if there is one.
    pub fn copied_bytes(&self) -> usize {
        self.lockstep.as_ref().map_or(0, |copy| copy.held())
    }

    /// The operator of some of its graphs, over the same arrays. It is an error if one of their
    /// entries leaves its graph.
    ///
    /// # Panics
    /// If the operator is itself a selection.
    pub fn select(&self, selection: &Arc<Selection>) -> Result<Self, AdjacencyError> {
        let offsets = self.view().select(selection)?.into_offsets();
        let selected = SelectedRows { selection: Arc::clone(selection), offsets };
        let (arrays, selected) = (self.arrays.clone(), Some(Arc::new(selected)));
        Ok(Self { arrays, shared: None, lockstep: None, selected })
    }

    /// The arrays as kernels take them.
    pub fn view(&self) -> AdjacencyRef<'_> {
        let stored = match &self.arrays {
            Arrays::Incoming(relation) => AdjacencyRef::incoming(relation),
            Arrays::Outgoing(relation) => AdjacencyRef::outgoing(relation),
            Arrays::Memory(csr) => {
                let view = AdjacencyRef::checked(csr.columns, &csr.offsets, &csr.neighbours);
                view.with_optional(
                    csr.values.as_deref(),
                    csr.gather_scale.as_deref(),
                    csr.row_scale.as_deref(),
                )
            }
        };
        match (&self.selected, &self.shared, &self.lockstep) {
            (Some(rows), ..) => stored.with_rows(rows.selection.source(), &rows.offsets),
            (None, Some(shared), _) => stored.with_shared(shared),
            (None, None, Some(copy)) => stored.with_lockstep(copy),
            (None, None, None) => stored,
        }
    }
}

/// A copy in memory.
///
/// # Panics
/// For a selection.
impl From<AdjacencyRef<'_>> for Adjacency {
    fn from(view: AdjacencyRef<'_>) -> Self {
        assert!(!view.is_selection(), "a copy of stored rows");
        let owned = |array: Option<&[f32]>| array.map(<[f32]>::to_vec);
        let csr = Csr {
            columns: view.columns(),
            offsets: view.offsets().to_vec(),
            neighbours: view.neighbours().to_vec(),
            values: owned(view.values()),
            gather_scale: owned(view.gather_scale()),
            row_scale: owned(view.row_scale()),
        };
        let shared = view.shared().cloned().map(Arc::new);
        Self { arrays: Arrays::Memory(Arc::new(csr)), shared, lockstep: None, selected: None }
    }
}

/// The views of several operators.
pub fn views(adjacency: &[Adjacency]) -> Vec<AdjacencyRef<'_>> {
    adjacency.iter().map(Adjacency::view).collect()
}
