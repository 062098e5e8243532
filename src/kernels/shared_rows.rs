//! Repeated rows of an operator, found once and gathered once: A = expand . core . collect. The
//! three factors are ordinary operators, and kernels gather by them in turn.
//!
//! Relations between things that share something (papers of one subject, authors of one conference)
//! are unions of cliques: many rows have the same entries, and so have many columns. With n rows, d
//! of them distinct, and c classes of columns that always occur together,
//!
//! | factor | shape | entries | |
//! | --- | --- | --- | --- |
//! | collect | c x n | at most n | sums the columns of a class, with their scales |
//! | core | d x c | few | the distinct rows |
//! | expand | n x d | n | copies to each row the distinct row that it equals, with its own scale |
//!
//! The result differs from that of the operator in the order of sums only. Rows are equal if their
//! entries and values are, compared one by one; hashes only propose candidates.
//!
//! The search takes one pass over the entries to hash rows and another one to compare them; the
//! rest works on distinct rows. It is not started if rows are short, and its result is dropped
//! unless it saves half of the entries.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use rayon::prelude::*;

use super::AdjacencyRef;
use crate::parallel::RowBlocks;

/// Average number of entries per row from which a search may pay.
const LEAST_MEAN: usize = 4;
/// The factors have at most this fraction of the entries.
const SAVES: usize = 2;

/// A factor's arrays.
#[derive(Clone, Debug)]
pub(super) struct Factor {
    pub columns: usize,
    pub offsets: Vec<u64>,
    pub neighbours: Vec<u32>,
    pub values: Option<Vec<f32>>,
    /// Its rows for gathering.
    pub blocks: RowBlocks,
}

impl Factor {
    fn new(
        columns: usize,
        offsets: Vec<u64>,
        neighbours: Vec<u32>,
        values: Option<Vec<f32>>,
    ) -> Self {
        let blocks = RowBlocks::balanced(offsets.len() - 1, &[&offsets], 2);
        Self { columns, offsets, neighbours, values, blocks }
    }

    /// Some of the rows.
    fn of_rows(&self, rows: &[u32]) -> Self {
        let (mut offsets, mut neighbours, mut values) = (vec![0], Vec::new(), Vec::new());
        for &row in rows {
            let [start, end] = [0, 1].map(|next| self.offsets[row as usize + next] as usize);
            neighbours.extend_from_slice(&self.neighbours[start..end]);
            values.extend(self.values.iter().flat_map(|values| &values[start..end]));
            offsets.push(neighbours.len() as u64);
        }
        let values = self.values.as_ref().map(|_| values);
        Self::new(self.columns, offsets, neighbours, values)
    }

    fn longest(&self) -> u64 {
        self.offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }
}

/// The factors of an operator with repeated rows.
#[derive(Clone, Debug)]
pub struct SharedRows {
    pub(super) collect: Factor,
    pub(super) core: Factor,
    pub(super) expand: Factor,
    /// Largest number of roundings of a sum of the whole operator.
    roundings: u64,
}

impl SharedRows {
    /// Finds the factors; `None` unless they are much cheaper than the operator itself.
    ///
    /// # Panics
    /// If the operator is a selection, or if a row names a column twice.
    pub fn find(a: &AdjacencyRef<'_>) -> Option<Self> {
        assert!(!a.is_selection(), "stored rows");
        let (rows, entries) = (a.rows(), a.nonzeros());
        if entries < LEAST_MEAN * rows.max(1) {
            return None;
        }
        let (kinds, first) = kinds(a, entries / SAVES)?;
        let classes = Classes::of(a, &first);
        let core = classes.core(a, &first);
        let collect = classes.collect();
        let found = Self {
            roundings: collect.longest() + core.longest() + 1,
            collect,
            core,
            expand: Factor::new(first.len(), (0..=rows as u64).collect(), kinds, None),
        };
        (found.entries() <= entries / SAVES).then_some(found)
    }

    /// Number of entries of all factors.
    pub fn entries(&self) -> usize {
        [&self.collect, &self.core, &self.expand].iter().map(|factor| factor.neighbours.len()).sum()
    }

    /// Number of distinct rows.
    pub fn kinds(&self) -> usize {
        self.core.offsets.len() - 1
    }

    /// Largest number of roundings of a sum, without those of products with scales and values.
    pub(super) fn roundings(&self) -> u64 {
        self.roundings
    }

    /// The factors of some rows, in the same order of sums, with their columns at other places of
    /// `columns`.
    pub(super) fn of_rows(
        &self,
        rows: Range<usize>,
        columns: usize,
        place: impl Fn(u32) -> u32,
    ) -> Self {
        let kinds = distinct(&self.expand.neighbours[rows.clone()]);
        let core = self.core.of_rows(&kinds);
        let classes = distinct(&core.neighbours);
        let mut collect = self.collect.of_rows(&classes);
        collect.neighbours.iter_mut().for_each(|column| *column = place(*column));
        let place_in = |all: &[u32], wanted: &[u32]| -> Vec<u32> {
            let at = |one: &u32| all.binary_search(one).expect("one of them") as u32;
            wanted.iter().map(at).collect()
        };
        let expand = place_in(&kinds, &self.expand.neighbours[rows.clone()]);
        let in_core = place_in(&classes, &core.neighbours);
        Self {
            collect: Factor { columns, ..collect },
            core: Factor { columns: classes.len(), neighbours: in_core, ..core },
            expand: Factor::new(kinds.len(), (0..=rows.len() as u64).collect(), expand, None),
            roundings: self.roundings,
        }
    }
}

/// Each number once, ascending.
fn distinct(numbers: &[u32]) -> Vec<u32> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Entries of a row as they are stored.
fn stored<'a>(a: &AdjacencyRef<'a>, row: usize) -> (&'a [u32], Option<&'a [f32]>) {
    let range = a.range(row);
    (&a.neighbours()[range.clone()], a.values().map(|values| &values[range]))
}

fn hash(a: &AdjacencyRef<'_>, row: usize) -> u64 {
    let mix = |hash: u64, x: u32| {
        (hash.rotate_left(23) ^ u64::from(x)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let (neighbours, values) = stored(a, row);
    let hash = neighbours.iter().fold(neighbours.len() as u64, |hash, &x| mix(hash, x));
    values.unwrap_or(&[]).iter().fold(hash, |hash, x| mix(hash, x.to_bits()))
}

/// Compares rows by bits, so that NaN equals itself.
fn is_equal(a: &AdjacencyRef<'_>, one: usize, other: usize) -> bool {
    let ((x, x_values), (y, y_values)) = (stored(a, one), stored(a, other));
    x == y
        && x_values
            .unwrap_or(&[])
            .iter()
            .zip(y_values.unwrap_or(&[]))
            .all(|(x, y)| x.to_bits() == y.to_bits())
}

/// The distinct row that each row equals, and the first row of each kind; `None` if these have more
/// than `most` entries.
fn kinds(a: &AdjacencyRef<'_>, most: usize) -> Option<(Vec<u32>, Vec<usize>)> {
    let hashes: Vec<u64> =
        (0..a.rows()).into_par_iter().with_min_len(256).map(|row| hash(a, row)).collect();
    let mut by_hash: HashMap<u64, u32> = HashMap::new();
    let (mut of, mut first, mut entries) = (Vec::with_capacity(a.rows()), Vec::new(), 0);
    for (row, &hash) in hashes.iter().enumerate() {
        let next = first.len() as u32;
        let kind = match by_hash.entry(hash) {
            Entry::Vacant(vacant) => *vacant.insert(next),
            Entry::Occupied(known) if is_equal(a, first[*known.get() as usize], row) => {
                *known.get()
            }
            // A different row with the same hash becomes a kind that no later row is compared with.
            Entry::Occupied(_) => next,
        };
        if kind == next {
            first.push(row);
            entries += a.range(row).len();
            if entries > most {
                return None;
            }
        }
        of.push(kind);
    }
    Some((of, first))
}

/// Classes of columns that occur together in every row, with one value per row.
struct Classes {
    /// The class of each column; [`Classes::NONE`] if it occurs nowhere.
    of: Vec<u32>,
    count: usize,
}

impl Classes {
    const NONE: u32 = u32::MAX;

    /// Splits the classes row by row.
    fn of(a: &AdjacencyRef<'_>, rows: &[usize]) -> Self {
        let mut of = vec![0u32; a.columns()];
        let mut sizes = vec![a.columns()];
        let mut occurs = vec![false; a.columns()];
        for &row in rows {
            let (neighbours, values) = stored(a, row);
            let key =
                |at: usize, class: u32| (class, values.map_or(0, |values| values[at].to_bits()));
            let mut parts: HashMap<(u32, u32), (usize, u32)> = HashMap::new();
            for (at, &column) in neighbours.iter().enumerate() {
                occurs[column as usize] = true;
                parts.entry(key(at, of[column as usize])).or_insert((0, Self::NONE)).0 += 1;
            }
            for (at, &column) in neighbours.iter().enumerate() {
                let class = of[column as usize];
                let part = parts.get_mut(&key(at, class)).expect("counted");
                if part.1 == Self::NONE {
                    // A class that is contained whole is not split.
                    part.1 =
                        if part.0 == sizes[class as usize] { class } else { sizes.len() as u32 };
                    if part.1 != class {
                        sizes.push(0);
                    }
                }
                if part.1 != class {
                    of[column as usize] = part.1;
                    sizes[part.1 as usize] += 1;
                    sizes[class as usize] -= 1;
                }
            }
        }
        Self::numbered(of, &occurs, sizes.len())
    }

    /// Numbers the classes in the order of their first columns, without gaps.
    fn numbered(mut of: Vec<u32>, occurs: &[bool], most: usize) -> Self {
        let (mut numbers, mut count) = (vec![Self::NONE; most], 0);
        for (class, &occurs) in of.iter_mut().zip(occurs) {
            let number = &mut numbers[*class as usize];
            if occurs && *number == Self::NONE {
                *number = count;
                count += 1;
            }
            *class = if occurs { *number } else { Self::NONE };
        }
        Self { of, count: count as usize }
    }

    fn core(&self, a: &AdjacencyRef<'_>, rows: &[usize]) -> Factor {
        let (mut offsets, mut classes, mut values) = (vec![0], Vec::new(), Vec::new());
        let mut seen = vec![usize::MAX; self.count];
        for (kind, &row) in rows.iter().enumerate() {
            let (neighbours, own) = stored(a, row);
            for (at, &column) in neighbours.iter().enumerate() {
                let class = self.of[column as usize];
                if seen[class as usize] != kind {
                    seen[class as usize] = kind;
                    classes.push(class);
                    values.extend(own.map(|own| own[at]));
                }
            }
            offsets.push(classes.len() as u64);
        }
        Factor::new(self.count, offsets, classes, a.values().map(|_| values))
    }

    fn collect(&self) -> Factor {
        let mut offsets = vec![0u64; self.count + 1];
        let with_class = || (0u32..).zip(&self.of).filter(|(_, class)| **class != Self::NONE);
        with_class().for_each(|(_, &class)| offsets[class as usize + 1] += 1);
        (0..self.count).for_each(|class| offsets[class + 1] += offsets[class]);
        let (mut next, mut columns) = (offsets.clone(), vec![0; offsets[self.count] as usize]);
        for (column, &class) in with_class() {
            columns[next[class as usize] as usize] = column;
            next[class as usize] += 1;
        }
        Factor::new(self.of.len(), offsets, columns, None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dense::Matrix;
    use crate::kernels::ahead::tests::everywhere;
    use crate::kernels::gradient::{self, adjacency_times};
    use crate::kernels::sweep::{self, Sweep, SweepScratch, Term};
    use crate::kernels::{Activation, Norm, PackedWeights, naive};

    /// Rows of a few kinds: entries, and values by their position where there are any.
    struct Repeating {
        columns: usize,
        offsets: Vec<u64>,
        neighbours: Vec<u32>,
        values: Option<Vec<f32>>,
        scale: Vec<f32>,
    }

    impl Repeating {
        fn new(columns: usize, kinds: &[Vec<u32>], of: &[usize], has_values: bool) -> Self {
            let (mut offsets, mut neighbours, mut values) = (vec![0], Vec::new(), Vec::new());
            for &kind in of {
                let kind = &kinds[kind % kinds.len()];
                neighbours.extend_from_slice(kind);
                values.extend(kind.iter().map(|column| (column % 3) as f32 - 0.5));
                offsets.push(neighbours.len() as u64);
            }
            let scale = (0..of.len().max(columns)).map(|i| 0.1 + (i % 7) as f32).collect();
            Self { columns, offsets, neighbours, values: has_values.then_some(values), scale }
        }

        fn view(&self) -> AdjacencyRef<'_> {
            let view = AdjacencyRef::new(self.columns, &self.offsets, &self.neighbours).unwrap();
            let view = self.values.as_ref().map_or(view, |values| view.with_values(values));
            view.with_gather_scale(&self.scale[..self.columns])
                .with_row_scale(&self.scale[..view.rows()])
        }
    }

    fn cliques(size: u32, count: u32) -> (Vec<Vec<u32>>, Vec<usize>) {
        let kinds = (0..count).map(|kind| (kind * size..(kind + 1) * size).collect()).collect();
        (kinds, (0..(size * count) as usize).map(|row| row / size as usize).collect())
    }

    #[test]
    fn cliques_take_one_entry_per_row() {
        let (kinds, of) = cliques(20, 5);
        let graph = Repeating::new(100, &kinds, &of, false);
        let shared = SharedRows::find(&graph.view()).unwrap();
        assert_eq!((shared.kinds(), shared.entries()), (5, 100 + 5 + 100));
        assert_eq!(shared.roundings(), 20 + 1 + 1);
        // Values that differ within a row keep its columns apart: three classes per row.
        let graph = Repeating::new(100, &kinds, &of, true);
        assert_eq!(SharedRows::find(&graph.view()).unwrap().entries(), 100 + 15 + 100);
    }

    #[test]
    fn rows_that_differ_or_are_short_are_left_alone() {
        let kinds: Vec<Vec<u32>> =
            (0..50).map(|row| (0..50).filter(|&j| j != row).collect()).collect();
        let differ = Repeating::new(50, &kinds, &(0..50).collect::<Vec<_>>(), false);
        assert!(SharedRows::find(&differ.view()).is_none());
        let (kinds, of) = cliques(3, 10);
        assert!(SharedRows::find(&Repeating::new(30, &kinds, &of, false).view()).is_none());
        assert!(SharedRows::find(&AdjacencyRef::new(0, &[0], &[]).unwrap()).is_none());
    }

    proptest! {
        #[test]
        fn factors_gather_what_the_operator_gathers(
            kinds in prop::collection::vec(prop::collection::btree_set(0u32..40, 0..30), 1..6),
            of in prop::collection::vec(0usize..6, 1..80),
            has_values: bool,
            width in 1usize..40,
        ) {
            let kinds: Vec<Vec<u32>> = kinds.into_iter().map(|kind| kind.into_iter().collect()).collect();
            let graph = Repeating::new(40, &kinds, &of, has_values);
            let plain = graph.view();
            let Some(shared) = SharedRows::find(&plain) else { return Ok(()) };
            let factored = plain.with_shared(&shared);
            let x = naive::Random(3).matrix(40, width);
            let expected = naive::gather(plain, x.view());
            let blocks = RowBlocks::balanced(of.len(), &[], 1);
            let mut found = Matrix::zeros(of.len(), width);
            adjacency_times(&blocks, factored, x.view(), found.view_mut());
            naive::assert_close(found.view(), &expected, "gathered");
            let g = naive::Random(4).matrix(of.len(), 5);
            let one = gradient::weight(plain, g.view(), x.view());
            let other = gradient::weight(factored, g.view(), x.view());
            for k in 0..5 {
                for (x, y) in one.row(k).iter().zip(other.row(k)) {
                    prop_assert!((x - y).abs() <= 1e-3 * (1.0 + x.abs()), "{} {}", x, y);
                }
            }
            let on_disk = everywhere(40, width, || {
                let mut found = Matrix::zeros(of.len(), width);
                adjacency_times(&blocks, factored, x.view(), found.view_mut());
                let weight = gradient::weight(factored, g.view(), x.view());
                [found, weight].map(|matrix| matrix.view().padded().to_vec())
            });
            prop_assert!(on_disk.iter().all(|found| *found == on_disk[0]));
        }
    }

    #[test]
    fn sweeps_agree_with_several_relations() {
        let (kinds, of) = cliques(25, 4);
        let graph = Repeating::new(100, &kinds, &of, false);
        let other = naive::Operator::random(&mut naive::Random(5), 100, 100, 1);
        let shared = SharedRows::find(&graph.view()).unwrap();
        let random = &mut naive::Random(6);
        for width in [3, 16, 70] {
            let (w, b, x) =
                (random.matrix(width, width), random.matrix(100, width), random.matrix(100, width));
            let packed = PackedWeights::forward(w.view());
            let sweep = |adjacency: AdjacencyRef<'_>| {
                let terms =
                    [adjacency, other.view()].map(|adjacency| Term { adjacency, weights: &packed });
                let (blocks, scratch) = (sweep::blocks(&terms), SweepScratch::new(&terms));
                let sweep = Sweep {
                    blocks: &blocks,
                    terms: &terms,
                    input: b.view().into(),
                    scratch: &scratch,
                };
                let mut found = everywhere(100, width, || {
                    let mut to = Matrix::resident(100, width);
                    let change =
                        sweep.forward(Activation::Relu, Norm::default(), x.view(), to.view_mut());
                    (to, change.largest)
                });
                let first = found.swap_remove(0);
                let is_first = |(to, moved): &(Matrix, f32)| {
                    to.view().padded() == first.0.view().padded() && *moved == first.1
                };
                assert!(found.iter().all(is_first), "{width}");
                first
            };
            let ((plain, moved), (found, found_moved)) =
                (sweep(graph.view()), sweep(graph.view().with_shared(&shared)));
            for i in 0..100 {
                for (x, y) in plain.row(i).iter().zip(found.row(i)) {
                    assert!((x - y).abs() <= 1e-4 * (1.0 + moved), "{width}: {x} {y}");
                }
            }
            assert!((moved - found_moved).abs() <= 1e-4 * moved);
        }
    }
}
