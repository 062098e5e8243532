//! Products of bipartite lists: the number of paths between nodes, or whether there is one. The
//! module works on numbers; names, files and types are handled by its callers.
//!
//! Intermediate matrices are in memory; it is an error if they exceed the job's budget. The last
//! product is the relation itself, which goes row by row into a spool. A row is gathered in a dense
//! accumulator, one per thread: `A[i, j] = sum over k of L[i, k] R[k, j]`. Counts are sums of
//! integers in f64, so they are exact below 2^53 in any order; as f32 weights they are exact up to
//! 2^24.

use std::ops::Range;
use std::sync::Mutex;

use crate::context::Context;
use crate::edges::spool::{Edge, Plain, Spool};
use crate::edges::store::Budget;
use crate::error::{IngestError, Result};
use crate::pipeline;

/// Multiplications per block of rows when everything fits in memory.
const MAX_BLOCK_PRODUCTS: u64 = 1 << 18;
/// Minimum number of multiplications per block.
const MIN_BLOCK_PRODUCTS: u64 = 1 << 12;
/// Bytes per entry while a row is gathered.
const ENTRY_BYTES: u64 = 16;

/// Bytes reserved from a budget until dropped.
#[derive(Debug)]
struct Charge {
    budget: Budget,
    bytes: u64,
}

impl Charge {
    fn new(budget: &Budget) -> Self {
        Self { budget: budget.clone(), bytes: 0 }
    }

    fn grow(&mut self, bytes: u64) -> Result<()> {
        if !self.budget.take(bytes) {
            let (need, left) =
                ((self.bytes + bytes).div_ceil(1 << 20), (self.bytes + self.budget.left()) >> 20);
            let what = format!(
                "an intermediate matrix needs {need} MiB or more, but {left} MiB are left: raise \
                 --memory"
            );
            return Err(IngestError::Usage(what));
        }
        self.bytes += bytes;
        Ok(())
    }

    fn shrink(&mut self, bytes: u64) {
        self.budget.give(self.bytes.saturating_sub(bytes));
        self.bytes = self.bytes.min(bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

/// A sparse matrix in memory; the columns of a row are in ascending order.
#[derive(Debug)]
pub struct Matrix {
    columns: u64,
    offsets: Vec<usize>,
    neighbours: Vec<u32>,
    /// Numbers of paths; if absent, all are 1.
    counts: Option<Vec<f64>>,
    charge: Charge,
}

impl Matrix {
    /// The 0/1 matrix of a list of pairs. `entry` maps a pair to row and column; with `both`, the
    /// reverse entry is added too. Also returns the number of duplicates.
    pub fn from_pairs(
        pairs: &Spool<Plain>,
        rows: u64,
        columns: u64,
        both: bool,
        budget: &Budget,
        entry: impl Fn(u32, u32) -> (u32, u32),
    ) -> Result<(Self, u64)> {
        let mut charge = Charge::new(budget);
        let most = pairs.len() * if both { 2 } else { 1 };
        charge.grow((rows + 1) * size_of::<usize>() as u64 + most * size_of::<u32>() as u64)?;
        let visit = |push: &mut dyn FnMut(u32, u32)| {
            pairs.visit(|chunk| {
                for pair in chunk {
                    let (row, column) = entry(pair.source, pair.target);
                    push(row, column);
                    if both && row != column {
                        push(column, row);
                    }
                }
            })
        };
        // While a row is filled, its start advances to its end, which is the start of the next row.
        let mut offsets = vec![0usize; rows as usize + 1];
        let mut total = 0;
        visit(&mut |row, _| {
            offsets[row as usize] += 1;
            total += 1;
        })?;
        let mut start = 0;
        for offset in &mut offsets {
            start += std::mem::replace(offset, start);
        }
        let mut neighbours = vec![0u32; total];
        visit(&mut |row, column| {
            neighbours[offsets[row as usize]] = column;
            offsets[row as usize] += 1;
        })?;
        let (mut kept, mut start, mut loops) = (0, 0, 0);
        for (row, offset) in offsets.iter_mut().take(rows as usize).enumerate() {
            let end = *offset;
            neighbours[start..end].sort_unstable();
            let first = kept;
            for at in start..end {
                if kept == first || neighbours[kept - 1] != neighbours[at] {
                    loops += u64::from(neighbours[at] as usize == row);
                    neighbours[kept] = neighbours[at];
                    kept += 1;
                }
            }
            (start, *offset) = (end, first);
        }
        offsets[rows as usize] = kept;
        neighbours.truncate(kept);
        let distinct = if both { (kept as u64 - loops) / 2 + loops } else { kept as u64 };
        let merged = pairs.len() - distinct;
        Ok((Self { columns, offsets, neighbours, counts: None, charge }, merged))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    fn range(&self, row: usize) -> Range<usize> {
        self.offsets[row]..self.offsets[row + 1]
    }

    fn count(&self, at: usize) -> f64 {
        self.counts.as_ref().map_or(1.0, |counts| counts[at])
    }

    /// The transpose.
    pub fn transposed(&self) -> Result<Self> {
        let mut charge = Charge::new(&self.charge.budget);
        let entry = if self.counts.is_some() { 12 } else { 4 };
        let starts = (self.columns + 1) * size_of::<usize>() as u64;
        let kept = starts + self.neighbours.len() as u64 * entry;
        charge.grow(kept + starts)?;
        let mut offsets = vec![0usize; self.columns as usize + 1];
        for &column in &self.neighbours {
            offsets[column as usize + 1] += 1;
        }
        for row in 0..self.columns as usize {
            offsets[row + 1] += offsets[row];
        }
        let mut next = offsets.clone();
        let mut neighbours = vec![0u32; self.neighbours.len()];
        let mut counts = self.counts.as_ref().map(|counts| vec![0f64; counts.len()]);
        for row in 0..self.rows() {
            for at in self.range(row) {
                let place = &mut next[self.neighbours[at] as usize];
                neighbours[*place] = row as u32;
                if let Some(counts) = &mut counts {
                    counts[*place] = self.count(at);
                }
                *place += 1;
            }
        }
        charge.shrink(kept);
        Ok(Self { columns: self.rows() as u64, offsets, neighbours, counts, charge })
    }

    /// The product with another matrix, in memory.
    pub fn times(&self, right: &Self, counted: bool, context: &Context) -> Result<Self> {
        let budget = &self.charge.budget;
        let mut charge = Charge::new(budget);
        let fixed = (self.rows() as u64 + 1) * size_of::<usize>() as u64;
        charge.grow(fixed)?;
        let entry = if counted { 12 } else { 4 };
        let mut offsets = vec![0usize];
        let (mut neighbours, mut counts) = (Vec::new(), counted.then(Vec::new));
        let product = Product { left: self, right: Some(right), counted, upper: false };
        let finish = |_, row: &mut Row, rows: &mut Rows| {
            row.touched.sort_unstable();
            rows.lengths.push(row.touched.len());
            rows.neighbours.extend_from_slice(&row.touched);
            if counted {
                rows.counts.extend(row.touched.iter().map(|&column| row.sums[column as usize]));
            }
        };
        product.run(context, budget, finish, |rows: Rows| {
            // A growing vector may use twice its length.
            charge.grow(2 * entry * rows.neighbours.len() as u64)?;
            neighbours.extend(rows.neighbours);
            if let Some(counts) = &mut counts {
                counts.extend(rows.counts);
            }
            for length in rows.lengths {
                offsets.push(offsets[offsets.len() - 1] + length);
            }
            Ok(())
        })?;
        neighbours.shrink_to_fit();
        if let Some(counts) = &mut counts {
            counts.shrink_to_fit();
        }
        charge.shrink(fixed + entry * neighbours.len() as u64);
        Ok(Self { columns: right.columns, offsets, neighbours, counts, charge })
    }
}

/// A relation as the product of two matrices, or as a single matrix.
pub struct Product<'a> {
    /// From the nodes to the middle of the path.
    pub left: &'a Matrix,
    /// From the middle of the path to the nodes.
    pub right: Option<&'a Matrix>,
    /// Whether to count paths, not only to find whether there is one.
    pub counted: bool,
    /// Whether to keep only entries on and above the diagonal, for a symmetric product.
    pub upper: bool,
}

/// The accumulator of a row.
struct Row {
    /// Number of paths to each column, if they are counted.
    sums: Vec<f64>,
    /// Whether there is a path to each column, if they are not counted.
    seen: Vec<bool>,
    /// Columns with a path, in the order in which they were found.
    touched: Vec<u32>,
}

/// Rows of a product that are collected into a matrix.
#[derive(Default)]
struct Rows {
    lengths: Vec<usize>,
    neighbours: Vec<u32>,
    counts: Vec<f64>,
}

impl Row {
    fn add(&mut self, column: u32, count: f64) {
        let sum = &mut self.sums[column as usize];
        if *sum == 0.0 {
            self.touched.push(column);
        }
        *sum += count;
    }

    fn mark(&mut self, column: u32) {
        if !std::mem::replace(&mut self.seen[column as usize], true) {
            self.touched.push(column);
        }
    }

    fn clear(&mut self) {
        for column in self.touched.drain(..) {
            match self.sums.get_mut(column as usize) {
                Some(sum) => *sum = 0.0,
                None => self.seen[column as usize] = false,
            }
        }
    }
}

impl Product<'_> {
    /// Appends the entries to a spool, row by row, with the row as source; entries on the diagonal
    /// only with `diagonal`.
    pub fn spool<E: Edge>(
        &self,
        context: &Context,
        budget: &Budget,
        diagonal: bool,
        spool: &mut Spool<E>,
    ) -> Result<()> {
        let finish = |source: u32, row: &mut Row, edges: &mut Vec<E>| {
            let kept = row.touched.iter().filter(|&&column| diagonal || column != source);
            let count = |column: u32| row.sums.get(column as usize).map_or(1.0, |&sum| sum as f32);
            edges.extend(kept.map(|&column| E::new(source, column, count(column))));
        };
        self.run(context, budget, finish, |edges: Vec<E>| spool.push(&edges))
    }

    /// Computes all rows, block by block in parallel; blocks are consumed in order.
    fn run<T: Default + Send>(
        &self,
        context: &Context,
        budget: &Budget,
        finish: impl Fn(u32, &mut Row, &mut T) + Sync,
        mut consume: impl FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let columns = self.right.unwrap_or(self.left).columns as usize;
        let mut charge = Charge::new(budget);
        charge
            .grow((context.threads.max(1) * columns * if self.counted { 8 } else { 1 }) as u64)?;
        let fresh = || Row {
            sums: if self.counted { vec![0.0; columns] } else { Vec::new() },
            seen: if self.counted { Vec::new() } else { vec![false; columns] },
            touched: Vec::new(),
        };
        let idle: Mutex<Vec<Row>> = Mutex::default();
        let work = |rows: Range<usize>| {
            let mut row = idle.lock().expect("no panic while held").pop().unwrap_or_else(fresh);
            let (mut out, count) = (T::default(), rows.len() as u64);
            for source in rows {
                self.gather(source, &mut row);
                finish(source as u32, &mut row, &mut out);
                row.clear();
            }
            idle.lock().expect("no panic while held").push(row);
            Ok((out, count))
        };
        let workers = pipeline::alive(context.threads) as u64;
        let share = context.memory / 8 / workers / ENTRY_BYTES;
        let blocks = self.blocks(share.clamp(MIN_BLOCK_PRODUCTS, MAX_BLOCK_PRODUCTS)).map(Ok);
        pipeline::ordered(context.threads, blocks, work, |(out, count)| {
            context.observer.advance(count);
            IngestError::unless_stopped(context.observer.is_stopped())?;
            consume(out)
        })
    }

    /// Blocks of rows with about `products` multiplications each.
    fn blocks(&self, products: u64) -> impl Iterator<Item = Range<usize>> + Send + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let (first, mut sum) = (next, 0);
            while next < self.left.rows() && (next == first || sum < products) {
                sum += match self.right {
                    Some(right) => {
                        let middle = &self.left.neighbours[self.left.range(next)];
                        1 + middle
                            .iter()
                            .map(|&k| right.range(k as usize).len() as u64)
                            .sum::<u64>()
                    }
                    None => 1 + self.left.range(next).len() as u64,
                };
                next += 1;
            }
            (next > first).then_some(first..next)
        })
    }

    /// Gathers one row.
    fn gather(&self, source: usize, row: &mut Row) {
        let below = |columns: &[u32]| {
            if self.upper {
                columns.partition_point(|&column| (column as usize) < source)
            } else {
                0
            }
        };
        let left = self.left;
        let Some(right) = self.right else {
            let range = left.range(source);
            for at in range.start + below(&left.neighbours[range.clone()])..range.end {
                match self.counted {
                    true => row.add(left.neighbours[at], left.count(at)),
                    false => row.mark(left.neighbours[at]),
                }
            }
            return;
        };
        for at in left.range(source) {
            let range = right.range(left.neighbours[at] as usize);
            let range = range.start + below(&right.neighbours[range.clone()])..range.end;
            let count = left.count(at);
            match (self.counted, &right.counts) {
                (false, _) => right.neighbours[range].iter().for_each(|&column| row.mark(column)),
                (true, None) => {
                    right.neighbours[range].iter().for_each(|&column| row.add(column, count));
                }
                (true, Some(counts)) => {
                    let entries = right.neighbours[range.clone()].iter().zip(&counts[range]);
                    entries.for_each(|(&column, more)| row.add(column, count * more));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Recorder;
    use crate::edges::spool::Weighted;
    use proptest::prelude::*;

    const SIZE: usize = 9;
    type Dense = [[f64; SIZE]; SIZE];

    fn dense(pairs: &[(u32, u32)]) -> Dense {
        let mut matrix = Dense::default();
        pairs.iter().for_each(|&(row, column)| matrix[row as usize][column as usize] = 1.0);
        matrix
    }

    fn times(a: &Dense, b: &Dense) -> Dense {
        let dot = |i: usize, j: usize| (0..SIZE).map(|k| a[i][k] * b[k][j]).sum();
        std::array::from_fn(|i| std::array::from_fn(|j| dot(i, j)))
    }

    fn sparse(pairs: &[(u32, u32)], both: bool, budget: &Budget) -> (Matrix, u64) {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(dir.path(), budget);
        for chunk in pairs.chunks(5) {
            let chunk: Vec<_> =
                chunk.iter().map(|&(source, target)| Plain { source, target }).collect();
            spool.push(&chunk).unwrap();
        }
        Matrix::from_pairs(&spool, SIZE as u64, SIZE as u64, both, budget, |a, b| (a, b)).unwrap()
    }

    fn spooled(product: &Product, diagonal: bool, threads: usize, budget: &Budget) -> Dense {
        let dir = tempfile::tempdir().unwrap();
        let observer = Recorder::default();
        let context = Context { threads, memory: 1 << 20, seed: 0, observer: &observer };
        let mut spool = Spool::<Weighted>::new(dir.path(), budget);
        product.spool(&context, budget, diagonal, &mut spool).unwrap();
        let mut found = Dense::default();
        let mut keep = |edge: &Weighted| {
            let entry = &mut found[edge.source as usize][edge.target as usize];
            assert_eq!(*entry, 0.0, "each entry once");
            *entry = f64::from(edge.weight);
        };
        spool.visit(|chunk| chunk.iter().for_each(&mut keep)).unwrap();
        found
    }

    #[test]
    fn repeated_pairs_are_counted_once() {
        let budget = Budget::new(1 << 20);
        let pairs = [(1, 2), (3, 3), (1, 2), (2, 1), (3, 3)];
        let (matrix, merged) = sparse(&pairs, false, &budget);
        assert_eq!((matrix.neighbours.len(), merged), (3, 2));
        let (both, merged) = sparse(&pairs, true, &budget);
        assert_eq!((both.neighbours.len(), merged), (3, 3));
        drop((matrix, both));
        assert_eq!(budget.left(), 1 << 20);
    }

    proptest! {
        #[test]
        fn products_agree_with_dense_ones(
            a in prop::collection::vec((0u32..SIZE as u32, 0u32..SIZE as u32), 0..40),
            b in prop::collection::vec((0u32..SIZE as u32, 0u32..SIZE as u32), 0..40),
            threads in 1usize..4,
            counted: bool,
            diagonal: bool,
        ) {
            let budget = Budget::new(1 << 20);
            let observer = Recorder::default();
            let context = Context { threads, memory: 1 << 20, seed: 0, observer: &observer };
            let ((left, _), (right, _)) = (sparse(&a, false, &budget), sparse(&b, false, &budget));
            let half = left.times(&right, counted, &context).unwrap();
            let back = half.transposed().unwrap();
            let expected = times(&dense(&a), &dense(&b));
            let transposed: Dense = std::array::from_fn(|i| std::array::from_fn(|j| expected[j][i]));
            let clip = |matrix: Dense, upper: bool, diagonal: bool| {
                let mut matrix = matrix;
                for (i, row) in matrix.iter_mut().enumerate() {
                    for (j, value) in row.iter_mut().enumerate() {
                        let kept = (diagonal || i != j) && (!upper || j >= i);
                        *value = if !kept { 0.0 } else if counted { *value } else { value.min(1.0) };
                    }
                }
                matrix
            };
            let one = Product { left: &half, right: None, counted, upper: false };
            prop_assert_eq!(spooled(&one, diagonal, threads, &budget), clip(expected, false, diagonal));
            for upper in [false, true] {
                let both = Product { left: &half, right: Some(&back), counted, upper };
                let expected = clip(times(&expected, &transposed), upper, diagonal);
                prop_assert_eq!(spooled(&both, diagonal, threads, &budget), expected);
            }
            drop((left, right, half, back));
            prop_assert_eq!(budget.left(), 1 << 20);
        }
    }
}
