//! The entries of an adjacency in f64 with their scales, from which bounds are computed. Results
//! are exact or rounded outwards. This is slower than the f32 gather of the kernels, which it does
//! not replace.
//!
//! An entry is the absolute value of the exact product of the stored f32 numbers: bounds hold for
//! |A|.

use std::ops::Range;

use rayon::prelude::*;

use crate::kernels::AdjacencyRef;
use crate::parallel::RowBlocks;

/// Rows per task: enough to pay for starting it, few enough to balance the load.
pub(crate) const ROWS_PER_TASK: usize = 2048;

/// Neighbours of a row with |value|, the row's own scale left out.
fn gathered<'a>(a: &AdjacencyRef<'a>, row: usize) -> impl Iterator<Item = (usize, f64)> + use<'a> {
    let (range, shift) = (a.range(row), a.shift(row));
    let values = a.values().map(|values| &values[range.clone()]);
    let scale = a.gather_scale();
    a.neighbours()[range].iter().enumerate().map(move |(at, &neighbour)| {
        let value = values.map_or(1.0, |values| f64::from(values[at]));
        let scale = scale.map_or(1.0, |scale| f64::from(scale[neighbour as usize]));
        (neighbour.wrapping_sub(shift) as usize, (value * scale).abs())
    })
}

/// |scale| of a row.
fn row_scale(a: &AdjacencyRef, row: usize) -> f64 {
    f64::from(a.row_factor(row)).abs()
}

/// Whether the entry at `at` of a row is not zero. Zeros are not edges.
pub(crate) fn is_nonzero(a: &AdjacencyRef, row: usize, at: usize) -> bool {
    let neighbour = a.neighbours()[at] as usize;
    a.values().is_none_or(|values| values[at] != 0.0)
        && a.gather_scale().is_none_or(|scale| scale[neighbour] != 0.0)
        && a.row_factor(row) != 0.0
}

/// A sum of non-negative terms and bounds for what it would be without rounding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bracket {
    /// Not above the exact sum.
    pub low: f64,
    /// Not below the exact sum.
    pub high: f64,
}

impl Bracket {
    /// The bounds of a sum that was rounded `roundings` times; two more are counted.
    fn around(sum: f64, roundings: u64) -> Self {
        // An epsilon is two roundings, which covers second-order terms and this multiplication.
        let slack = (roundings + 4) as f64 * f64::EPSILON;
        let bracket = Self { low: sum * (1.0 - slack), high: sum * (1.0 + slack) };
        if bracket.high.is_finite() { bracket } else { Self { low: 0.0, high: f64::INFINITY } }
    }
}

/// `sum_j |a_ij| x_j` over the neighbours that `takes` admits; x is non-negative.
pub(crate) fn row_sum(
    a: &AdjacencyRef,
    row: usize,
    x: impl Fn(usize) -> f64,
    takes: impl Fn(usize) -> bool,
) -> Bracket {
    let (mut sum, mut terms) = (0.0, 0u64);
    for (neighbour, value) in gathered(a, row).filter(|entry| takes(entry.0)) {
        sum += value * x(neighbour);
        terms += 1;
    }
    sum *= row_scale(a, row);
    // Each product is rounded once, the sum once per term, and the scale once.
    Bracket::around(sum, terms)
}

/// A non-negative vector, one entry per column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Vector<'a> {
    /// All ones.
    Ones,
    /// In f32.
    Single(&'a [f32]),
    /// In f64.
    Double(&'a [f64]),
}

impl<'a> Vector<'a> {
    /// These weights, or all ones.
    pub fn of(weights: Option<&'a [f32]>) -> Self {
        weights.map_or(Self::Ones, Self::Single)
    }

    /// An entry.
    #[inline(always)]
    pub fn at(self, index: usize) -> f64 {
        match self {
            Self::Ones => 1.0,
            Self::Single(x) => f64::from(x[index]),
            Self::Double(x) => x[index],
        }
    }
}

/// Blocks of rows for products.
pub(crate) fn blocks(a: &AdjacencyRef) -> RowBlocks {
    RowBlocks::balanced(a.rows(), &[a.gathered_offsets()], 2)
}

/// `sum_j |a_ij| x_j` of a row, with x that contains the factors of the columns, and the number of
/// its terms.
#[inline(always)]
fn stored_sum(a: &AdjacencyRef, row: usize, x: Vector<'_>) -> (f64, u64) {
    let (range, shift) = (a.range(row), a.shift(row));
    let neighbours = &a.neighbours()[range.clone()];
    let values = a.values().map(|values| &values[range]);
    let sum = match (values, x) {
        (None, Vector::Ones) => neighbours.len() as f64,
        (None, Vector::Single(x)) => {
            long_sum(neighbours, |j, _| f64::from(x[j.wrapping_sub(shift) as usize]))
        }
        (None, Vector::Double(x)) => long_sum(neighbours, |j, _| x[j.wrapping_sub(shift) as usize]),
        (Some(values), x) => long_sum(neighbours, |j, at| {
            f64::from(values[at]).abs() * x.at(j.wrapping_sub(shift) as usize)
        }),
    };
    (sum * row_scale(a, row), neighbours.len() as u64)
}

/// The sum over the entries of a row. The parts of a very long row are summed on all threads and
/// added in their order.
#[inline(always)]
fn long_sum(neighbours: &[u32], term: impl Fn(u32, usize) -> f64 + Sync) -> f64 {
    const PART: usize = RowBlocks::BLOCK_WORK as usize / 2;
    const SHORT: usize = 24;
    if neighbours.len() <= SHORT {
        // One loop, whose end the processor predicts less often wrongly than that of two.
        return neighbours.iter().enumerate().fold(0.0, |sum, (at, &j)| sum + term(j, at));
    }
    if neighbours.len() <= 2 * PART {
        return sum_of_four(neighbours, term);
    }
    let parts = neighbours.par_chunks(PART).enumerate();
    let sums = parts.map(|(part, some)| sum_of_four(some, |j, at| term(j, part * PART + at)));
    sums.collect::<Vec<_>>().into_iter().sum()
}

/// The sum has four parts, so that additions do not wait for each other.
#[inline(always)]
fn sum_of_four(neighbours: &[u32], term: impl Fn(u32, usize) -> f64) -> f64 {
    let (fours, rest) = neighbours.as_chunks::<4>();
    let mut sums = [0.0f64; 4];
    for (four, at) in fours.iter().zip((0..).step_by(4)) {
        for (k, sum) in sums.iter_mut().enumerate() {
            *sum += term(four[k], at + k);
        }
    }
    let first = neighbours.len() - rest.len();
    let rest: f64 = rest.iter().zip(first..).map(|(&neighbour, at)| term(neighbour, at)).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// `|A| x` row by row for non-negative x. On construction, repeated rows are summed once, and entries
/// of x are multiplied by the factors of their columns.
pub(crate) struct Sums<'a> {
    a: &'a AdjacencyRef<'a>,
    x: Vector<'a>,
    /// x times the factors of the columns, if there are any.
    scaled: Option<Vec<f64>>,
    /// The distinct row that each row equals, the sums of the distinct rows without the scales, and
    /// the number of roundings of these.
    shared: Option<(AdjacencyRef<'a>, Vec<f64>, u64)>,
}

impl<'a> Sums<'a> {
    pub fn of(a: &'a AdjacencyRef<'a>, x: Vector<'a>) -> Self {
        let shared = a.factors().map(|factors| {
            let sums = |of: &AdjacencyRef<'_>, x: Vector<'_>| -> Vec<f64> {
                let rows = (0..of.rows()).into_par_iter().with_min_len(ROWS_PER_TASK / 16);
                let sum = |row| gathered(of, row).map(|(at, value)| value * x.at(at)).sum();
                rows.map(sum).collect()
            };
            let collected = sums(&factors.collect.0, x);
            let kinds = sums(&factors.core.0, Vector::Double(&collected));
            // The sums, and a product by a value or a scale each time.
            (factors.expand, kinds, a.longest_sum() + 4)
        });
        let scaled = a.gather_scale().filter(|_| shared.is_none()).map(|scale| {
            let columns = (0..a.columns()).into_par_iter().with_min_len(ROWS_PER_TASK);
            let at = |column: usize| x.at(column) * f64::from(scale[a.stored_row(column)]).abs();
            columns.map(at).collect()
        });
        Self { a, x, scaled, shared }
    }

    /// The bounds of the sum of a row.
    #[inline(always)]
    pub fn row(&self, row: usize) -> Bracket {
        let (sum, roundings) = self.rounded(row);
        Bracket::around(sum, roundings)
    }

    /// The sum of a row, and its number of terms: each product is rounded at most twice, the sum once
    /// per term, and the scale once.
    #[inline(always)]
    pub fn rounded(&self, row: usize) -> (f64, u64) {
        match &self.shared {
            None => {
                let x = self.scaled.as_ref().map_or(self.x, |scaled| Vector::Double(scaled));
                stored_sum(self.a, row, x)
            }
            Some((kind, sums, roundings)) => {
                (sums[kind.column(row, row)] * row_scale(self.a, row), *roundings)
            }
        }
    }
}

impl Bracket {
    /// Of no numbers.
    pub const NONE: Self = Self { low: f64::INFINITY, high: 0.0 };

    /// Whether both bounds agree to a relative tolerance.
    pub fn is_tight(self, tolerance: f64) -> bool {
        self.high - self.low <= tolerance * self.high
    }

    /// Both.
    pub fn with(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// The smallest and the largest `(|A| u)_i / u_i`, rounded outwards: they bracket the spectral
/// radius for u > 0.
pub(crate) fn ratios(a: &AdjacencyRef, u: Vector<'_>) -> Bracket {
    let sums = Sums::of(a, u);
    let block = |_, rows: Range<usize>, ()| {
        rows.map(|row| divide(sums.row(row), u.at(row))).fold(Bracket::NONE, Bracket::with)
    };
    let all = blocks(a).map_reduce((), |(), _| ((), ()), block, Bracket::with);
    all.unwrap_or(Bracket::NONE)
}

/// A bracket divided by a positive number, rounded outwards.
pub(crate) fn divide(sum: Bracket, by: f64) -> Bracket {
    let high = if sum.high == 0.0 { 0.0 } else { (sum.high / by).next_up() };
    let low = (sum.low / by).next_down().max(0.0);
    if high.is_finite() { Bracket { low, high } } else { Bracket { low: 0.0, high: f64::INFINITY } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_and_values_multiply() {
        let a = AdjacencyRef::new(2, &[0, 2, 3], &[0, 1, 0]).unwrap().with_values(&[2.0, 0.0, 3.0]);
        let a = a.with_gather_scale(&[0.5, 4.0]).with_row_scale(&[1.0, 10.0]);
        assert!(is_nonzero(&a, 0, 0) && !is_nonzero(&a, 0, 1));
        let sum = row_sum(&a, 1, |_| 2.0, |_| true);
        assert!(sum.low <= 30.0 && 30.0 <= sum.high && sum.high - sum.low < 1e-12);
        let bracket = ratios(&a, Vector::Ones);
        assert!((bracket.low - 1.0).abs() < 1e-12 && (bracket.high - 15.0).abs() < 1e-12);
    }

    #[test]
    fn repeated_rows_are_summed_once_with_the_same_result() {
        let offsets: Vec<u64> = (0..=40).map(|row| row * 20).collect();
        let neighbours: Vec<u32> =
            (0..40).flat_map(|row| (0..20).map(move |j| row / 20 * 20 + j)).collect();
        let scale: Vec<f32> = (0..40).map(|i| 0.1 + (i % 7) as f32).collect();
        let plain = AdjacencyRef::new(40, &offsets, &neighbours).unwrap();
        let plain = plain.with_gather_scale(&scale).with_row_scale(&scale);
        let shared = crate::kernels::SharedRows::find(&plain).unwrap();
        let x: Vec<f64> = (0..40).map(|j| 1.0 / (1.0 + f64::from(j))).collect();
        let factored = plain.with_shared(&shared);
        let sums = Sums::of(&factored, Vector::Double(&x));
        for row in 0..40 {
            let (one, other) = (row_sum(&plain, row, |j| x[j], |_| true), sums.row(row));
            assert!(one.low <= other.high && other.low <= one.high && one.high > 0.0, "{row}");
            assert!(other.high - other.low < 1e-12 * other.high);
        }
    }

    #[test]
    fn entries_that_are_not_finite_give_an_infinite_bound() {
        for value in [f32::NAN, f32::INFINITY] {
            let values = [value, 1.0];
            let a = AdjacencyRef::new(2, &[0, 1, 2], &[1, 0]).unwrap().with_values(&values);
            assert_eq!(ratios(&a, Vector::Ones).high, f64::INFINITY);
        }
    }
}
