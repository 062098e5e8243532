//! Batch normalisation: each column is shifted and scaled to mean 0 and variance 1 over the rows of
//! a batch, then multiplied by a learned scale and moved by a learned shift. Rows are nodes, or
//! graphs after pooling. To scale each row by itself, see [`normalise`](super::normalise).
//!
//! ```text
//! training     mean and variance of the n rows (the sum of squares divided by n)
//! evaluation   the running mean and variance
//! forward      z = (x - mean) / sqrt(variance + EPSILON), y = scale z + shift
//! running      r <- (1 - MOMENTUM) r + MOMENTUM s, where s is the mean, or the variance with divisor
//!              n - 1; the first batch sets r = s
//! backward     dscale = sum z g, dshift = sum g,
//!              dx = scale (g - dshift / n - z dscale / n) / sqrt(variance + EPSILON)
//! ```
//!
//! The constants and both divisors are those of PyTorch, so that results can be compared. The first
//! batch is the exception: it replaces the initial statistics. Otherwise states far smaller than 1
//! would be normalised by a variance close to 1 for dozens of steps. A single row has no variance:
//! in training it is normalised by the running statistics, as in evaluation. These then count as
//! constants in the backward pass and are not updated. Without rows, nothing changes and gradients
//! are zero.
//!
//! Sums are f64, over the rows of all ranks, and have the same bits on any number of threads and
//! ranks.

use std::ops::Range;

use rayon::prelude::*;

use super::Slot;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::parallel::Rows;
use crate::solver::certificate::TINY;

/// Added to the variance, so that a constant column is not divided by zero.
pub const EPSILON: f64 = 1e-5;
/// Weight of a new batch in the running statistics.
pub const MOMENTUM: f64 = 0.1;

/// Rows per piece of elementwise work.
const ROWS: usize = 64;

/// Batch normalisation of matrices with a given number of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchNorm {
    width: usize,
}

/// The statistics that evaluation uses. They belong to the model, but training passes update them,
/// not an optimiser.
#[derive(Clone, Debug)]
pub struct RunningStatistics {
    /// 1 x m; initially zero.
    pub mean: Matrix,
    /// 1 x m; initially one.
    pub variance: Matrix,
}

/// The sums of a pass, kept from forward to backward. It grows to the largest shape so far and is
/// reused.
#[derive(Clone, Debug, Default)]
pub struct BatchNormMemory {
    /// Number of rows.
    rows: usize,
    mean: Vec<f64>,
    /// 1 / sqrt(variance + EPSILON)
    inverse: Vec<f64>,
    /// Sums of the gradient, and of its product with z.
    by_shift: Vec<f64>,
    by_scale: Vec<f64>,
    /// Whether the pass used the statistics of the batch, so that gradients flow through them.
    is_batch: bool,
}

impl RunningStatistics {
    /// The statistics of a model that has seen no batch.
    pub fn new(width: usize) -> Self {
        Self { mean: Matrix::zeros(1, width), variance: Matrix::from_fn(1, width, |_, _| 1.0) }
    }

    /// Whether no batch has updated them yet.
    fn is_first(&self) -> bool {
        let is = |row: &[f32], value: f32| row.iter().all(|&x| x == value);
        is(self.mean.row(0), 0.0) && is(self.variance.row(0), 1.0)
    }

    /// Names of mean and variance in files, for the normalisation of `part`, such as `layer0`.
    pub fn names(part: &str) -> [String; 2] {
        ["mean", "variance"].map(|what| format!("{part}.norm.{what}"))
    }
}

impl BatchNorm {
    /// The normalisation of matrices with `width` columns.
    pub fn new(width: usize) -> Self {
        Self { width }
    }

    /// The parameters in the order in which passes expect them: scale and shift, both 1 x m.
    /// Neither has weight decay: a smaller scale does not make the model simpler.
    pub fn slots(&self, part: &str) -> Vec<Slot> {
        let slot = |what| Slot {
            name: format!("{part}.norm.{what}"),
            shape: (1, self.width),
            is_bias: true,
        };
        ["scale", "shift"].map(slot).into()
    }

    /// Initial values, in the order of the slots: one and zero.
    pub fn initial(&self) -> Vec<Matrix> {
        vec![Matrix::from_fn(1, self.width, |_, _| 1.0), Matrix::zeros(1, self.width)]
    }

    /// Computes Y from X with the statistics of the X of all ranks, and updates the running ones.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn train(
        &self,
        over: &Rows,
        values: &[MatrixRef<'_>],
        x: MatrixRef<'_>,
        running: &mut RunningStatistics,
        memory: &mut BatchNormMemory,
        y: MatrixMut<'_>,
    ) {
        if over.all() < 2 {
            return self.evaluate(values, x, running, memory, y);
        }
        memory.prepare(x.rows(), self.width);
        memory.is_batch = true;
        let rows = over.all() as f64;
        let BatchNormMemory { mean, inverse, .. } = memory;
        sum(over, mean, |row, sums| {
            sums.iter_mut().zip(x.row(row)).for_each(|(sum, &x)| *sum += f64::from(x));
        });
        mean.iter_mut().for_each(|mean| *mean /= rows);
        // Deviations from the mean, in a second pass: the difference of two large sums would lose a
        // small variance.
        sum(over, inverse, |row, sums| {
            for ((sum, &x), &mean) in sums.iter_mut().zip(x.row(row)).zip(&*mean) {
                *sum += (f64::from(x) - mean).powi(2);
            }
        });
        let share = if running.is_first() { 1.0 } else { MOMENTUM };
        let keep =
            |old: &mut f32, new: f64| *old = ((1.0 - share) * f64::from(*old) + share * new) as f32;
        let (means, variances) = (running.mean.row_mut(0), running.variance.row_mut(0));
        for (((mean, inverse), old_mean), old) in mean.iter().zip(inverse).zip(means).zip(variances)
        {
            keep(old_mean, *mean);
            keep(old, *inverse / (rows - 1.0));
            *inverse = 1.0 / (*inverse / rows + EPSILON).sqrt();
        }
        self.apply(values, x, memory, y);
    }

    /// Computes Y from X with the running statistics.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn evaluate(
        &self,
        values: &[MatrixRef<'_>],
        x: MatrixRef<'_>,
        running: &RunningStatistics,
        memory: &mut BatchNormMemory,
        y: MatrixMut<'_>,
    ) {
        memory.prepare(x.rows(), self.width);
        memory.is_batch = false;
        for (to, &mean) in memory.mean.iter_mut().zip(running.mean.row(0)) {
            *to = f64::from(mean);
        }
        for (to, &variance) in memory.inverse.iter_mut().zip(running.variance.row(0)) {
            *to = 1.0 / (f64::from(variance) + EPSILON).sqrt();
        }
        self.apply(values, x, memory, y);
    }

    /// Bounds how far an entry of Y = [`BatchNorm::evaluate`] is from that of the exact X, if no
    /// entry of X is larger than `size`, nor off by more than `error`.
    pub fn error_bound(
        &self,
        values: &[MatrixRef<'_>],
        running: &RunningStatistics,
        [size, error]: [f64; 2],
    ) -> f64 {
        let column = |k: usize| {
            let [scale, shift, mean, variance] = [
                values[0].row(0)[k],
                values[1].row(0)[k],
                running.mean.row(0)[k],
                running.variance.row(0)[k],
            ]
            .map(f64::from);
            let factor = scale.abs() / (variance + EPSILON).sqrt();
            // One rounding to f32; those in f64 are far below the other half of this epsilon.
            let rounding = f64::from(f32::EPSILON);
            factor * error + rounding * (factor * (size + mean.abs()) + shift.abs())
        };
        let largest = (0..self.width).map(column).fold(0.0, f64::max);
        largest * (1.0 + 1e-12) + TINY
    }

    /// Computes the gradients of X and of the parameters, in the order of the slots, from dL/dY.
    /// Call it after a forward pass of the same X. Old gradients are overwritten.
    ///
    /// # Panics
    /// If shapes do not match.
    #[allow(clippy::too_many_arguments)] // Those of the other backward passes, and the rows.
    pub fn backward(
        &self,
        over: &Rows,
        values: &[MatrixRef<'_>],
        x: MatrixRef<'_>,
        memory: &mut BatchNormMemory,
        by_y: MatrixRef<'_>,
        gradients: &mut [MatrixMut<'_>],
        mut by_x: MatrixMut<'_>,
    ) {
        self.check(values, x, by_x.as_ref());
        assert_eq!(
            (by_y.rows(), by_y.cols()),
            (x.rows(), x.cols()),
            "a gradient of the same shape"
        );
        assert_eq!((memory.rows, memory.mean.len()), (x.rows(), self.width), "memory of this pass");
        let BatchNormMemory { mean, inverse, by_shift, by_scale, is_batch, .. } = memory;
        sum(over, by_shift, |row, sums| {
            sums.iter_mut().zip(by_y.row(row)).for_each(|(sum, &g)| *sum += f64::from(g));
        });
        sum(over, by_scale, |row, sums| {
            let entries = x.row(row).iter().zip(by_y.row(row)).zip(&*mean).zip(&*inverse);
            for (sum, (((&x, &g), mean), inverse)) in sums.iter_mut().zip(entries) {
                *sum += (f64::from(x) - mean) * inverse * f64::from(g);
            }
        });
        for (gradient, sums) in gradients.iter_mut().zip([&*by_scale, by_shift]) {
            gradient.row_mut(0).iter_mut().zip(sums).for_each(|(to, &sum)| *to = sum as f32);
        }
        // If the statistics are constants, no gradient flows through them.
        let share = if *is_batch { 1.0 / over.all() as f64 } else { 0.0 };
        let (scale, stride) = (values[0].row(0), x.stride());
        let parts = by_x.padded_mut().par_chunks_mut(stride.max(1)).enumerate();
        parts.with_min_len(ROWS).for_each(|(row, by_x)| {
            let (x, g) = (x.row(row), by_y.row(row));
            let columns = mean.iter().zip(&*inverse).zip(&*by_shift).zip(&*by_scale).zip(scale);
            for (((by_x, &x), &g), ((((mean, inverse), shift), scaled), &scale)) in
                by_x[..self.width].iter_mut().zip(x).zip(g).zip(columns)
            {
                let z = (f64::from(x) - mean) * inverse;
                let centred = f64::from(g) - (shift + z * scaled) * share;
                *by_x = (f64::from(scale) * inverse * centred) as f32;
            }
        });
    }

    fn apply(
        &self,
        values: &[MatrixRef<'_>],
        x: MatrixRef<'_>,
        memory: &BatchNormMemory,
        mut y: MatrixMut<'_>,
    ) {
        self.check(values, x, y.as_ref());
        let (scale, shift, stride) = (values[0].row(0), values[1].row(0), x.stride());
        let parts = y.padded_mut().par_chunks_mut(stride.max(1)).enumerate();
        parts.with_min_len(ROWS).for_each(|(row, y)| {
            let x = x.row(row);
            let columns = memory.mean.iter().zip(&memory.inverse).zip(scale).zip(shift);
            for ((y, &x), (((mean, inverse), &scale), &shift)) in
                y[..self.width].iter_mut().zip(x).zip(columns)
            {
                let z = (f64::from(x) - mean) * inverse;
                *y = (f64::from(scale) * z + f64::from(shift)) as f32;
            }
        });
    }

    fn check(&self, values: &[MatrixRef<'_>], x: MatrixRef<'_>, y: MatrixRef<'_>) {
        let is_row = |value: &MatrixRef<'_>| (value.rows(), value.cols()) == (1, self.width);
        assert!(
            values.len() == 2 && values.iter().all(is_row),
            "the parameters that the slots list"
        );
        assert_eq!(x.cols(), self.width, "rows of the normalisation's width");
        assert_eq!((y.rows(), y.cols()), (x.rows(), x.cols()), "as many rows out as in");
    }
}

impl BatchNormMemory {
    fn prepare(&mut self, rows: usize, width: usize) {
        self.rows = rows;
        for sums in [&mut self.mean, &mut self.inverse, &mut self.by_shift, &mut self.by_scale] {
            sums.resize(width, 0.0);
        }
    }
}

/// Column sums over the rows of all ranks; `add` adds the terms of one row.
fn sum(over: &Rows, total: &mut [f64], add: impl Fn(usize, &mut [f64]) + Sync) {
    let part = |rows: Range<usize>| {
        let mut sums = vec![0.0; total.len()];
        rows.for_each(|row| add(row, &mut sums));
        sums
    };
    let merge = |mut a: Vec<f64>, b: Vec<f64>| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    };
    match over.sum(part, merge) {
        Some(sums) => total.copy_from_slice(&sums),
        None => total.fill(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::{self, Random};
    use crate::parallel::{RowBlocks, with_threads};

    type Wide = naive::Rows;

    fn wide(matrix: &Matrix) -> Wide {
        (0..matrix.rows()).map(|i| matrix.row(i).iter().map(|&x| f64::from(x)).collect()).collect()
    }

    /// Mean and biased variance of each column.
    fn moments(x: &Wide) -> Vec<(f64, f64)> {
        let rows = x.len() as f64;
        let column = |k: usize| {
            let mean = x.iter().map(|x| x[k]).sum::<f64>() / rows;
            (mean, x.iter().map(|x| (x[k] - mean).powi(2)).sum::<f64>() / rows)
        };
        (0..x[0].len()).map(column).collect()
    }

    /// The formula in f64; by the statistics given, or by those of the batch.
    fn naive(values: &[Wide], x: &Wide, given: Option<&[(f64, f64)]>) -> Wide {
        let statistics = given.map_or_else(|| moments(x), <[_]>::to_vec);
        let entry = |k: usize, x: f64| {
            let (mean, variance) = statistics[k];
            (x - mean) / (variance + 1e-5).sqrt() * values[0][0][k] + values[1][0][k]
        };
        x.iter().map(|x| x.iter().enumerate().map(|(k, &x)| entry(k, x)).collect()).collect()
    }

    fn rows(x: &Matrix) -> Rows {
        Rows::alone(RowBlocks::for_sums(x.rows(), &[]))
    }

    struct Pass {
        y: Matrix,
        gradients: Vec<Matrix>,
        by_x: Matrix,
        running: RunningStatistics,
    }

    fn pass(values: &[Matrix], x: &Matrix, by_y: &Matrix, trains: bool) -> Pass {
        let norm = BatchNorm::new(x.cols());
        let nan = |rows, cols| {
            let mut matrix = Matrix::zeros(rows, cols);
            (0..rows).for_each(|i| matrix.row_mut(i).fill(f32::NAN));
            matrix
        };
        let views: Vec<_> = values.iter().map(Matrix::view).collect();
        let (mut y, mut by_x) = (nan(x.rows(), x.cols()), nan(x.rows(), x.cols()));
        let mut gradients = vec![nan(1, x.cols()), nan(1, x.cols())];
        let mut running = running(x.cols());
        let over = rows(x);
        // Memory of another shape before, larger or smaller, must leave no trace.
        let mut memory = BatchNormMemory::default();
        memory.prepare(x.rows() / 2 + 40, x.cols() + 3);
        if trains {
            norm.train(&over, &views, x.view(), &mut running, &mut memory, y.view_mut());
        } else {
            norm.evaluate(&views, x.view(), &running, &mut memory, y.view_mut());
        }
        let mut slots: Vec<_> = gradients.iter_mut().map(Matrix::view_mut).collect();
        let (by_y, by_x_mut) = (by_y.view(), by_x.view_mut());
        norm.backward(&over, &views, x.view(), &mut memory, by_y, &mut slots, by_x_mut);
        Pass { y, gradients, by_x, running }
    }

    /// Statistics that are not the first ones.
    fn running(width: usize) -> RunningStatistics {
        let mean = Matrix::from_fn(1, width, |_, k| 0.3 - 0.1 * k as f32);
        RunningStatistics { mean, variance: Matrix::from_fn(1, width, |_, k| 0.5 + 0.2 * k as f32) }
    }

    fn pairs(running: &RunningStatistics) -> Vec<(f64, f64)> {
        let (mean, variance) = (running.mean.row(0), running.variance.row(0));
        mean.iter().zip(variance).map(|(&mean, &variance)| (mean.into(), variance.into())).collect()
    }

    #[test]
    fn the_first_batch_takes_the_place_of_the_first_statistics() {
        let x = Random(9).matrix(20, 3);
        let norm = BatchNorm::new(3);
        let (values, mut running) = (norm.initial(), RunningStatistics::new(3));
        let views: Vec<_> = values.iter().map(Matrix::view).collect();
        let (mut memory, mut y) = (BatchNormMemory::default(), Matrix::zeros(20, 3));
        norm.train(&rows(&x), &views, x.view(), &mut running, &mut memory, y.view_mut());
        for ((mean, variance), expected) in pairs(&running).into_iter().zip(moments(&wide(&x))) {
            assert!(
                (mean - expected.0).abs() < 1e-6
                    && (variance - expected.1 * 20.0 / 19.0).abs() < 1e-6
            );
        }
        let before = pairs(&running);
        let other = Matrix::from_fn(20, 3, |i, k| 5.0 + x.row(i)[k]);
        norm.train(&rows(&other), &views, other.view(), &mut running, &mut memory, y.view_mut());
        let moved = pairs(&running);
        assert!(moved.iter().zip(before).all(|(new, old)| (new.0 - old.0 - 0.5).abs() < 1e-5));
    }

    #[test]
    fn values_and_differences_agree_with_the_formula() {
        for (rows, cols) in [(1, 3), (2, 1), (5, 3), (70, 16), (131, 21)] {
            for trains in [true, false] {
                let random = &mut Random(rows as u64);
                let values = [random.matrix(1, cols), random.matrix(1, cols)];
                let (x, by_y) = (random.matrix(rows, cols), random.matrix(rows, cols));
                let found = pass(&values, &x, &by_y, trains);
                let before = pairs(&running(cols));
                let given = (!trains || rows == 1).then_some(&before[..]);
                let what = format!("{rows} x {cols}, training {trains}");
                let mut all: Vec<Wide> = values.iter().map(wide).chain([wide(&x)]).collect();
                let g = wide(&by_y);
                let forward = |all: &[Wide]| naive(&all[..2], &all[2], given);
                naive::assert_close(found.y.view(), &forward(&all), &what);
                let value = |all: &[Wide]| -> f64 {
                    forward(all).iter().flatten().zip(g.iter().flatten()).map(|(y, g)| y * g).sum()
                };
                for (at, gradient) in found.gradients.iter().chain([&found.by_x]).enumerate() {
                    let mut differences = all[at].clone();
                    for i in 0..gradient.rows() {
                        for k in 0..cols {
                            let mut moved = |by: f64| {
                                let before = all[at][i][k];
                                all[at][i][k] = before + by;
                                let value = value(&all);
                                all[at][i][k] = before;
                                value
                            };
                            differences[i][k] = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                        }
                    }
                    naive::assert_close(
                        gradient.view(),
                        &differences,
                        &format!("{what}: slot {at}"),
                    );
                }
                let after = pairs(&found.running);
                if given.is_some() {
                    assert_eq!(after, before, "{what}: statistics stay");
                    continue;
                }
                let unbiased = rows as f64 / (rows as f64 - 1.0);
                for ((after, before), batch) in after.iter().zip(&before).zip(moments(&all[2])) {
                    let expected =
                        (0.9 * before.0 + 0.1 * batch.0, 0.9 * before.1 + 0.1 * batch.1 * unbiased);
                    assert!(
                        (after.0 - expected.0).abs() < 1e-6 && (after.1 - expected.1).abs() < 1e-6
                    );
                }
            }
        }
    }

    #[test]
    fn constant_columns_and_large_means_are_no_trouble() {
        let offset = Matrix::from_fn(40, 2, |i, k| if k == 0 { 7.0 } else { 4e6 + (i % 2) as f32 });
        let values = BatchNorm::new(2).initial();
        let by_y = Random(1).matrix(40, 2);
        let found = pass(&values, &offset, &by_y, true);
        let expected = 0.5 / (0.25 + EPSILON).sqrt();
        for i in 0..40 {
            assert_eq!(found.y.row(i)[0], 0.0);
            let sign = if i % 2 == 0 { -1.0 } else { 1.0 };
            assert!((f64::from(found.y.row(i)[1]) - sign * expected).abs() < 1e-6);
            assert!(found.by_x.row(i).iter().all(|g| g.is_finite()));
        }
    }

    #[test]
    fn one_row_and_none_are_finite() {
        let values = [Random(1).matrix(1, 3), Random(2).matrix(1, 3)];
        let none = pass(&values, &Matrix::zeros(0, 3), &Matrix::zeros(0, 3), true);
        assert!(none.gradients.iter().all(|gradient| gradient.row(0) == [0.0; 3]));
        assert_eq!(pairs(&none.running), pairs(&running(3)));
        let (x, by_y) = (Random(3).matrix(1, 3), Random(4).matrix(1, 3));
        let one = pass(&values, &x, &by_y, true);
        assert_eq!(one.y.row(0), pass(&values, &x, &by_y, false).y.row(0), "as in evaluation");
    }

    #[test]
    fn the_same_bits_on_any_number_of_threads() {
        let (x, by_y) = (Random(1).matrix(5000, 37), Random(2).matrix(5000, 37));
        let values = [Random(3).matrix(1, 37), Random(4).matrix(1, 37)];
        let run = |threads| {
            with_threads(threads, || {
                let Pass { y, gradients, by_x, running } = pass(&values, &x, &by_y, true);
                let all = gradients.iter().chain([&y, &by_x, &running.mean, &running.variance]);
                all.flat_map(|m| m.view().padded()).map(|x| x.to_bits()).collect::<Vec<_>>()
            })
        };
        let one = run(1);
        assert!(one == run(2) && one == run(4));
    }

    #[test]
    fn names_and_first_values() {
        let norm = BatchNorm::new(3);
        let names: Vec<_> = norm.slots("layer2").into_iter().map(|slot| slot.name).collect();
        assert_eq!(names, ["layer2.norm.scale", "layer2.norm.shift"]);
        assert_eq!(
            RunningStatistics::names("layer0"),
            ["layer0.norm.mean", "layer0.norm.variance"]
        );
        let initial = norm.initial();
        assert_eq!((initial[0].row(0), initial[1].row(0)), (&[1.0; 3][..], &[0.0; 3][..]));
        assert_eq!(pairs(&RunningStatistics::new(2)), [(0.0, 1.0); 2]);
    }
}
