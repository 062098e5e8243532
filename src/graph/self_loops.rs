//! Self-loops of the user, as opposed to the diagonal that renormalisation adds.

use ignn_format::Relation;
use ignn_format::manifest::Normalisation;

/// The weight of the user's self-loop behind a stored diagonal entry; `None` where there was none.
///
/// Renormalisation adds 1 to every diagonal entry. In an unweighted relation the stored diagonal is
/// therefore the added one alone; in a weighted one the excess over 1 is the user's. A loop whose
/// weight is lost when it is added to 1 in f32 is not found. Without renormalisation a stored
/// diagonal entry is the user's as it stands.
///
/// ```
/// use ignn::graph::{Normalisation, self_loops::weight};
///
/// assert_eq!(weight(Normalisation::Renorm, None), None);
/// assert_eq!(weight(Normalisation::Renorm, Some(3.5)), Some(2.5));
/// assert_eq!(weight(Normalisation::Row, None), Some(1.0));
/// ```
pub fn weight(normalisation: Normalisation, value: Option<f32>) -> Option<f32> {
    match (normalisation, value) {
        (Normalisation::Renorm, None) => None,
        (Normalisation::Renorm, Some(value)) => (value > 1.0).then_some(value - 1.0),
        (_, value) => Some(value.unwrap_or(1.0)),
    }
}

/// The number of the user's self-loops in a relation; see [`weight`].
pub fn count(relation: &Relation) -> u64 {
    let entry = &relation.entry;
    if entry.normalisation != Normalisation::Renorm {
        return entry.diagonal;
    }
    let Some(values) = relation.incoming.values() else { return 0 };
    let mut loops = 0;
    for node in 0..relation.incoming.rows() {
        let range = relation.incoming.range(node);
        if let Ok(at) = relation.incoming.row(node).binary_search(&(node as u32))
            && weight(entry.normalisation, Some(values[range.start + at])).is_some()
        {
            loops += 1;
        }
    }
    loops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renormalisation_hides_only_its_own_diagonal() {
        assert_eq!(weight(Normalisation::Renorm, Some(1.0)), None);
        assert_eq!(weight(Normalisation::None, Some(0.25)), Some(0.25));
    }
}
