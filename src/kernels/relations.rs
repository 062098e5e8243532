//! The relations of a dataset as operators: mapped arrays, and beside them the rows that repeat.
//! It owns what the operators borrow; bounds and blocks are for `nn`.

use std::ops::Deref;
use std::sync::OnceLock;

use ignn_format::Relation;

use super::{AdjacencyError, AdjacencyRef, SharedRows};

/// What was found of both directions.
#[derive(Debug)]
struct Sides {
    incoming: Option<SharedRows>,
    /// None too where the incoming rows serve both.
    outgoing: Option<SharedRows>,
}

/// Relations, opened.
#[derive(Debug)]
pub struct Relations {
    stored: Vec<Relation>,
    shared: OnceLock<Vec<Sides>>,
}

impl From<Vec<Relation>> for Relations {
    fn from(stored: Vec<Relation>) -> Self {
        Self { stored, shared: OnceLock::new() }
    }
}

impl Deref for Relations {
    type Target = [Relation];

    fn deref(&self) -> &[Relation] {
        &self.stored
    }
}

impl Relations {
    /// A_r^T and A_r of every relation. The first call checks the arrays and looks for rows that
    /// repeat.
    #[allow(clippy::type_complexity)] // The two directions.
    pub fn operators(
        &self,
    ) -> Result<(Vec<AdjacencyRef<'_>>, Vec<AdjacencyRef<'_>>), AdjacencyError> {
        let (mut incoming, mut outgoing) = self.unshared_operators()?;
        let sides = self.shared.get_or_init(|| {
            let directions = self.iter().zip(incoming.iter().zip(&outgoing));
            let sides = directions.map(|(relation, (incoming, outgoing))| Sides {
                incoming: SharedRows::find(incoming),
                outgoing: relation.outgoing.as_ref().and_then(|_| SharedRows::find(outgoing)),
            });
            sides.collect()
        });
        for (at, (relation, sides)) in self.iter().zip(sides).enumerate() {
            let backward =
                if relation.outgoing.is_some() { &sides.outgoing } else { &sides.incoming };
            if let Some(shared) = &sides.incoming {
                incoming[at] = incoming[at].with_shared(shared);
            }
            if let Some(shared) = backward {
                outgoing[at] = outgoing[at].with_shared(shared);
            }
        }
        Ok((incoming, outgoing))
    }

    /// The same without looking for rows that repeat.
    #[allow(clippy::type_complexity)] // The two directions.
    pub fn unshared_operators(
        &self,
    ) -> Result<(Vec<AdjacencyRef<'_>>, Vec<AdjacencyRef<'_>>), AdjacencyError> {
        let incoming = self.iter().map(AdjacencyRef::incoming).collect::<Result<Vec<_>, _>>()?;
        let outgoing = self.iter().map(AdjacencyRef::outgoing).collect::<Result<Vec<_>, _>>()?;
        Ok((incoming, outgoing))
    }
}
