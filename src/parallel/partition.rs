//! Which rows belong to which rank: consecutive rows, cut where the parts of sums over rows end
//! ([`RowBlocks::for_sums`]), with about the same work for every rank.

use std::ops::Range;

use super::RowBlocks;

/// The rows of every rank.
///
/// ```
/// use ignn::parallel::{Partition, RowBlocks};
///
/// let parts = RowBlocks::for_sums(1000, &[]);
/// let partition = Partition::new(&parts, &[], 3);
/// assert_eq!(partition.ranks(), 3);
/// assert_eq!(partition.rows(0).start, 0);
/// assert_eq!(partition.rows(2).end, 1000);
/// assert_eq!(partition.owner(partition.rows(1).start), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Rank `r` has the parts `parts[r]..parts[r + 1]`.
    parts: Vec<usize>,
    /// Rank `r` has the rows `bounds[r]..bounds[r + 1]`.
    bounds: Vec<usize>,
}

impl Partition {
    /// Cuts rows at the ends of these parts; `offsets` holds the row offsets of each relation. Some
    /// ranks have no rows where there are fewer parts than ranks, or few heavy ones.
    pub fn new(parts: &RowBlocks, offsets: &[&[u64]], ranks: usize) -> Self {
        let ranks = ranks.max(1);
        let starts: Vec<usize> =
            (0..parts.len()).map(|part| parts.range(part).start).chain([parts.rows()]).collect();
        let work: Vec<u64> =
            starts.iter().map(|&row| RowBlocks::work_of_sums(row, offsets)).collect();
        let total = work.last().copied().unwrap_or(0);
        let mut cuts = vec![0];
        for rank in 1..ranks {
            let wanted = (u128::from(total) * rank as u128 / ranks as u128) as u64;
            let above = work.partition_point(|&before| before < wanted).min(parts.len());
            // The cut that is closer.
            let is_below =
                above > 0 && wanted - work[above - 1] < work[above].saturating_sub(wanted);
            cuts.push((above - usize::from(is_below)).max(cuts[rank - 1]));
        }
        cuts.push(parts.len());
        let bounds = cuts.iter().map(|&part| starts[part]).collect();
        Self { parts: cuts, bounds }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.bounds.len() - 1
    }

    /// The rows of a rank.
    pub fn rows(&self, rank: usize) -> Range<usize> {
        self.bounds[rank]..self.bounds[rank + 1]
    }

    /// The parts of a rank.
    pub fn parts(&self, rank: usize) -> Range<usize> {
        self.parts[rank]..self.parts[rank + 1]
    }

    /// The rank that has a row.
    pub fn owner(&self, row: usize) -> usize {
        self.bounds.partition_point(|&bound| bound <= row) - 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_row_has_one_owner_and_cuts_are_ends_of_parts(
            degrees in prop::collection::vec(0u64..40, 0..600),
            hub in 0u64..100_000,
            ranks in 1usize..12,
        ) {
            let mut offsets = vec![0u64];
            for (row, degree) in degrees.iter().enumerate() {
                let more = if row == 7 { hub } else { 0 };
                offsets.push(offsets[row] + degree + more);
            }
            let parts = RowBlocks::for_sums(degrees.len(), &[&offsets]);
            let partition = Partition::new(&parts, &[&offsets], ranks);
            prop_assert_eq!(partition.ranks(), ranks);
            let mut next = 0;
            for rank in 0..ranks {
                let rows = partition.rows(rank);
                prop_assert_eq!(rows.start, next);
                next = rows.end;
                prop_assert!(rows.clone().all(|row| partition.owner(row) == rank));
                let own = partition.parts(rank);
                let covered: usize = own.map(|part| parts.range(part).len()).sum();
                prop_assert_eq!(covered, rows.len());
                prop_assert!(rows.start.is_multiple_of(16) || rows.is_empty());
            }
            prop_assert_eq!(next, degrees.len());
        }
    }

    #[test]
    fn ranks_have_about_the_same_work() {
        let offsets: Vec<u64> = (0..=100_000).map(|row| row * 8).collect();
        let parts = RowBlocks::for_sums(100_000, &[&offsets]);
        for ranks in [2, 3, 5, 8] {
            let partition = Partition::new(&parts, &[&offsets], ranks);
            for rank in 0..ranks {
                let share = partition.rows(rank).len() as f64 / 100_000.0 * ranks as f64;
                assert!(
                    (share - 1.0).abs() < 1.1 * ranks as f64 / parts.len() as f64,
                    "{rank} of {ranks}: {share}"
                );
            }
        }
    }
}
