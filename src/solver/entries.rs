//! The entries of an adjacency in f64 with their scales, from which bounds are computed. Results
//! are exact or rounded outwards. This is slower than the f32 gather of the kernels, which it does
//! not replace.
//!
//! An entry is the absolute value of the exact product of the stored f32 numbers: bounds hold for
//! |A|.

use rayon::prelude::*;

use crate::kernels::AdjacencyRef;

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

/// The same over all neighbours, with x that contains the factors of the columns. The sum has four
/// parts, so that additions do not wait for each other.
fn stored_sum(a: &AdjacencyRef, row: usize, x: impl Fn(usize) -> f64) -> Bracket {
    let (range, shift) = (a.range(row), a.shift(row));
    let neighbours = &a.neighbours()[range.clone()];
    let x = |neighbour: u32| x(neighbour.wrapping_sub(shift) as usize);
    let sum = match a.values() {
        None => sum_of_four(neighbours, |neighbour, _| x(neighbour)),
        Some(values) => {
            let values = &values[range];
            sum_of_four(neighbours, |neighbour, at| f64::from(values[at]).abs() * x(neighbour))
        }
    };
    // Each product is rounded at most twice, the sum once per term, and the scale once.
    Bracket::around(sum * row_scale(a, row), neighbours.len() as u64)
}

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
    /// x times the factors of the columns, if there are any.
    scaled: Option<Vec<f64>>,
    /// The distinct row that each row equals, the sums of the distinct rows without the scales, and
    /// the number of roundings of these.
    shared: Option<(AdjacencyRef<'a>, Vec<f64>, u64)>,
}

impl<'a> Sums<'a> {
    pub fn of(a: &'a AdjacencyRef<'a>, x: impl Fn(usize) -> f64 + Sync) -> Self {
        let shared = a.factors().map(|factors| {
            let sums = |of: &AdjacencyRef<'_>, x: &(dyn Fn(usize) -> f64 + Sync)| -> Vec<f64> {
                let rows = (0..of.rows()).into_par_iter().with_min_len(ROWS_PER_TASK / 16);
                rows.map(|row| gathered(of, row).map(|(at, value)| value * x(at)).sum()).collect()
            };
            let collected = sums(&factors.collect.0, &x);
            let kinds = sums(&factors.core.0, &|class| collected[class]);
            // The sums, and a product by a value or a scale each time.
            (factors.expand, kinds, a.longest_sum() + 4)
        });
        let scaled = a.gather_scale().filter(|_| shared.is_none()).map(|scale| {
            let columns = (0..a.columns()).into_par_iter().with_min_len(ROWS_PER_TASK);
            let at = |column: usize| x(column) * f64::from(scale[a.stored_row(column)]).abs();
            columns.map(at).collect()
        });
        Self { a, scaled, shared }
    }

    /// The sum of a row; `x` is what it was made with.
    pub fn row(&self, row: usize, x: impl Fn(usize) -> f64) -> Bracket {
        match &self.shared {
            None => match &self.scaled {
                None => stored_sum(self.a, row, x),
                Some(scaled) => stored_sum(self.a, row, |column| scaled[column]),
            },
            Some((kind, sums, roundings)) => {
                let sum = sums[kind.column(row, row)] * row_scale(self.a, row);
                Bracket::around(sum, *roundings)
            }
        }
    }
}

/// The smallest and the largest `(|A| u)_i / u_i`, rounded outwards: they bracket the spectral
/// radius for u > 0.
pub(crate) fn ratios(a: &AdjacencyRef, u: impl Fn(usize) -> f64 + Sync) -> Bracket {
    let sums = Sums::of(a, &u);
    let ratio = |row: usize| divide(sums.row(row, &u), u(row));
    let widest =
        |x: Bracket, y: Bracket| Bracket { low: x.low.min(y.low), high: x.high.max(y.high) };
    let empty = || Bracket { low: f64::INFINITY, high: 0.0 };
    (0..a.rows()).into_par_iter().with_min_len(ROWS_PER_TASK).map(ratio).reduce(empty, widest)
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
        let bracket = ratios(&a, |_| 1.0);
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
        let x = |j: usize| 1.0 / (1.0 + j as f64);
        let factored = plain.with_shared(&shared);
        let sums = Sums::of(&factored, x);
        for row in 0..40 {
            let (one, other) = (row_sum(&plain, row, x, |_| true), sums.row(row, x));
            assert!(one.low <= other.high && other.low <= one.high && one.high > 0.0, "{row}");
            assert!(other.high - other.low < 1e-12 * other.high);
        }
    }

    #[test]
    fn entries_that_are_not_finite_give_an_infinite_bound() {
        for value in [f32::NAN, f32::INFINITY] {
            let values = [value, 1.0];
            let a = AdjacencyRef::new(2, &[0, 1, 2], &[1, 0]).unwrap().with_values(&values);
            assert_eq!(ratios(&a, |_| 1.0).high, f64::INFINITY);
        }
    }
}
