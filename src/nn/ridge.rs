//! Ridge regression: the linear readout with the least squared error plus a penalty, in closed
//! form. It fits Theta and a bias to given rows. The caller supplies them and must not change the
//! model below the readout afterwards.
//!
//! ```text
//! minimise  sum_i |Theta h_i + bias - y_i|^2 / k  +  penalty |Theta|^2     over k rows h_i
//!           entries of y_i are 1 for the labels of item i, and -1 for all others;
//!           for numbers, y_i is the number of item i
//! Theta^T = (H^T H / k + penalty I)^-1 H^T Y / k,    H and Y centred if there is a bias
//! ```
//!
//! Sums and factorisation are in f64. If no penalty is given, generalised cross-validation chooses
//! one from a fixed grid: the one with the least `|residual|^2 / (k - trace)^2`, where trace is
//! that of the map from labels to fitted values. Penalties that leave too few degrees of freedom
//! are not considered. Every sum has one fixed order, so the bits are the same for any number of
//! threads.

use rayon::prelude::*;

use super::Targets;
use crate::dense::{Matrix, MatrixRef};

/// The grid of penalties, in units of the mean square of the rows' entries.
const GRID: [f64; 15] =
    [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 10.0];

/// Smallest number of degrees of freedom that a fit must leave, as a share of the rows.
const LEAST_LEFT: f64 = 0.2;

/// The sums over all rows added so far.
#[derive(Clone, Debug)]
pub struct Ridge {
    width: usize,
    outputs: usize,
    count: usize,
    /// H^T H, row by row.
    gram: Vec<f64>,
    /// H^T Y, row by row.
    by_labels: Vec<f64>,
    rows: Vec<f64>,
    labels: Vec<f64>,
    /// The sum of squares of Y, per output.
    squares: f64,
}

/// A fitted readout.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// outputs x width
    pub theta: Matrix,
    /// 1 x outputs, if requested.
    pub bias: Option<Matrix>,
    /// The penalty that was given or chosen.
    pub penalty: f64,
    /// Mean over rows of the squared residual.
    pub loss: f64,
}

impl Ridge {
    /// An empty sum for rows of this width and this number of labels.
    pub fn new(width: usize, outputs: usize) -> Self {
        Self {
            width,
            outputs,
            count: 0,
            gram: vec![0.0; width * width],
            by_labels: vec![0.0; width * outputs],
            rows: vec![0.0; width],
            labels: vec![0.0; outputs],
            squares: 0.0,
        }
    }

    /// Adds rows; row r belongs to item `ids[r]`.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn add(&mut self, h: MatrixRef<'_>, ids: &[u32], targets: Targets<'_>) {
        assert_eq!((h.rows(), h.cols()), (ids.len(), self.width), "one row of this width per item");
        let of = |&item: &u32| -> Vec<f64> {
            if let Targets::Numbers(_) = targets {
                return vec![f64::from(targets.number(item).unwrap_or(0.0)); self.outputs];
            }
            let mut y = vec![-1.0; self.outputs];
            targets.classes_of(item).for_each(|class| y[class] = 1.0);
            y
        };
        let labels: Vec<Vec<f64>> = ids.iter().map(of).collect();
        let rows = |k: usize| h.row(k).iter().map(|&x| f64::from(x));
        self.gram.par_chunks_mut(self.width.max(1)).enumerate().for_each(|(j, sums)| {
            for k in 0..ids.len() {
                let x = f64::from(h.row(k)[j]);
                if x != 0.0 {
                    sums.iter_mut().zip(rows(k)).for_each(|(sum, y)| *sum += x * y);
                }
            }
        });
        self.by_labels.par_chunks_mut(self.outputs.max(1)).enumerate().for_each(|(j, sums)| {
            for (k, labels) in labels.iter().enumerate() {
                let x = f64::from(h.row(k)[j]);
                sums.iter_mut().zip(labels).for_each(|(sum, y)| *sum += x * y);
            }
        });
        for (k, labels) in labels.iter().enumerate() {
            self.rows.iter_mut().zip(rows(k)).for_each(|(sum, x)| *sum += x);
            self.labels.iter_mut().zip(labels).for_each(|(sum, y)| *sum += y);
        }
        self.squares += labels.iter().flatten().map(|y| y * y).sum::<f64>();
        self.count += ids.len();
    }

    /// The best readout. Without a penalty, generalised cross-validation chooses one.
    ///
    /// # Panics
    /// If no row was added.
    pub fn fit(&self, penalty: Option<f64>, has_bias: bool) -> Fitted {
        assert!(self.count > 0, "rows to fit to");
        let moments = self.moments(has_bias);
        let (m, k) = (self.width, self.count as f64);
        let mean_square = (0..m).map(|j| moments.gram[j * m + j]).sum::<f64>() / m.max(1) as f64;
        // Rows that are all zero, or all the same: any penalty gives zeros.
        let unit = if mean_square > 0.0 { mean_square } else { 1.0 };
        // A bias takes one degree of freedom.
        let fixed = if has_bias { 1.0 } else { 0.0 };
        let penalties =
            penalty.map_or(GRID.map(|part| part * unit).to_vec(), |penalty| vec![penalty]);
        let tried = penalties.iter().filter_map(|&penalty| {
            // The penalty is too small for a factorisation in f64.
            let lower = Cholesky::of(&moments.gram, m, penalty)?;
            let theta = lower.solve(&moments.by_labels, self.outputs);
            let residual = moments.residual(&theta).max(0.0);
            let trace = m as f64 - penalty * lower.inverse_trace() + fixed;
            let left = 1.0 - trace / k;
            // A fit through nearly all labels says nothing about other items: its quotient
            // is that of two small differences.
            let score = if left >= LEAST_LEFT { residual / (left * left) } else { f64::INFINITY };
            Some((score, penalty, residual, theta))
        });
        // The last of equal scores: the larger penalty.
        let best = tried.reduce(|best, next| if next.0 <= best.0 { next } else { best });
        let zero = || (0.0, penalty.unwrap_or(unit), moments.squares, vec![0.0; m * self.outputs]);
        let (_, penalty, loss, theta) = best.unwrap_or_else(zero);
        let bias = has_bias.then(|| {
            Matrix::from_fn(1, self.outputs, |_, c| {
                let mapped: f64 =
                    (0..m).map(|j| self.rows[j] / k * theta[j * self.outputs + c]).sum();
                (self.labels[c] / k - mapped) as f32
            })
        });
        let theta = Matrix::from_fn(self.outputs, m, |c, j| theta[j * self.outputs + c] as f32);
        Fitted { theta, bias, penalty, loss }
    }

    /// Means of products, centred if there is a bias.
    fn moments(&self, is_centred: bool) -> Moments {
        let (m, c, k) = (self.width, self.outputs, self.count as f64);
        let mean = |sum: f64| if is_centred { sum / k } else { 0.0 };
        let (rows, labels): (Vec<f64>, Vec<f64>) = (
            self.rows.iter().map(|&x| mean(x)).collect(),
            self.labels.iter().map(|&y| mean(y)).collect(),
        );
        let about = |sums: &[f64], left: &[f64], right: &[f64]| -> Vec<f64> {
            let at = |i: usize| left[i / right.len()] * right[i % right.len()];
            sums.iter().enumerate().map(|(i, sum)| sum / k - at(i)).collect()
        };
        let mut gram = about(&self.gram, &rows, &rows);
        // Rounding may make the matrix slightly asymmetric, and a square negative.
        for i in 0..m {
            gram[i * m + i] = gram[i * m + i].max(0.0);
            (0..i).for_each(|j| gram[i * m + j] = gram[j * m + i]);
        }
        let squares = self.squares / k - labels.iter().map(|y| y * y).sum::<f64>();
        Moments {
            gram,
            by_labels: about(&self.by_labels, &rows, &labels),
            squares,
            width: m,
            outputs: c,
        }
    }
}

struct Moments {
    gram: Vec<f64>,
    by_labels: Vec<f64>,
    squares: f64,
    width: usize,
    outputs: usize,
}

impl Moments {
    /// Mean over rows of |Theta h - y|^2.
    fn residual(&self, theta: &[f64]) -> f64 {
        let (m, c) = (self.width, self.outputs);
        let row = |i: usize| -> f64 {
            let theta_i = &theta[i * c..][..c];
            let mut mapped = vec![0.0; c];
            for j in 0..m {
                let g = self.gram[i * m + j];
                mapped.iter_mut().zip(&theta[j * c..][..c]).for_each(|(sum, x)| *sum += g * x);
            }
            let by_labels = &self.by_labels[i * c..][..c];
            (0..c).map(|l| theta_i[l] * (mapped[l] - 2.0 * by_labels[l])).sum()
        };
        let rows: Vec<f64> = (0..m).into_par_iter().map(row).collect();
        self.squares + rows.iter().sum::<f64>()
    }
}

/// The lower triangle L with L L^T = G + penalty I.
struct Cholesky {
    lower: Vec<f64>,
    size: usize,
}

impl Cholesky {
    /// `None` if the matrix is not numerically positive definite.
    fn of(gram: &[f64], size: usize, penalty: f64) -> Option<Self> {
        let mut lower = vec![0.0; size * size];
        for i in 0..size {
            for j in 0..=i {
                let (row, other) = (&lower[i * size..][..j], &lower[j * size..][..j]);
                let done: f64 = row.iter().zip(other).map(|(x, y)| x * y).sum();
                let own = gram[i * size + j] + if i == j { penalty } else { 0.0 };
                let left = own - done;
                lower[i * size + j] = if i == j {
                    if !(left > own * 1e-14 && left > 0.0) {
                        return None;
                    }
                    left.sqrt()
                } else {
                    left / lower[j * size + j]
                };
            }
        }
        Some(Self { lower, size })
    }

    /// (L L^T)^-1 R, where R has `columns` columns.
    fn solve(&self, right: &[f64], columns: usize) -> Vec<f64> {
        let n = self.size;
        let mut x = right.to_vec();
        for i in 0..n {
            let (done, rest) = x.split_at_mut(i * columns);
            let row = &mut rest[..columns];
            for j in 0..i {
                let l = self.lower[i * n + j];
                row.iter_mut().zip(&done[j * columns..][..columns]).for_each(|(x, y)| *x -= l * y);
            }
            row.iter_mut().for_each(|x| *x /= self.lower[i * n + i]);
        }
        for i in (0..n).rev() {
            let (rest, done) = x.split_at_mut((i + 1) * columns);
            let row = &mut rest[i * columns..];
            for j in i + 1..n {
                let l = self.lower[j * n + i];
                let other = &done[(j - i - 1) * columns..][..columns];
                row.iter_mut().zip(other).for_each(|(x, y)| *x -= l * y);
            }
            row.iter_mut().for_each(|x| *x /= self.lower[i * n + i]);
        }
        x
    }

    /// The trace of (L L^T)^-1: the sum of squares of L^-1.
    fn inverse_trace(&self) -> f64 {
        let n = self.size;
        let column = |k: usize| -> f64 {
            let mut x = vec![0.0; n];
            for i in k..n {
                let own = if i == k { 1.0 } else { 0.0 };
                let done: f64 = (k..i).map(|j| self.lower[i * n + j] * x[j]).sum();
                x[i] = (own - done) / self.lower[i * n + i];
            }
            x.iter().map(|x| x * x).sum()
        };
        let columns: Vec<f64> = (0..n).into_par_iter().map(column).collect();
        columns.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::Random;
    use crate::parallel::with_threads;

    fn rows(seed: u64, count: usize, width: usize) -> Matrix {
        Random(seed).matrix(count, width)
    }

    #[test]
    fn a_fit_satisfies_its_own_equations() {
        let (h, ids) = (rows(1, 60, 7), (0..60).collect::<Vec<u32>>());
        let classes: Vec<i32> = (0..60).map(|i| i % 3).collect();
        for (penalty, has_bias) in [(0.3, false), (0.01, true)] {
            let mut ridge = Ridge::new(7, 3);
            // In two parts, as batches come.
            for part in [0..25, 25..60] {
                let some = Matrix::from_fn(part.len(), 7, |i, j| h.row(part.start + i)[j]);
                ridge.add(some.view(), &ids[part], Targets::Classes(&classes));
            }
            let fitted = ridge.fit(Some(penalty), has_bias);
            let bias =
                |c: usize| fitted.bias.as_ref().map_or(0.0, |bias| f64::from(bias.row(0)[c]));
            // The gradient of the loss by Theta and by the bias is zero.
            let mut loss = 0.0;
            for c in 0..3 {
                let mut by_theta: Vec<f64> =
                    fitted.theta.row(c).iter().map(|&x| f64::from(x) * penalty * 60.0).collect();
                let mut by_bias = 0.0;
                for (i, &class) in classes.iter().enumerate() {
                    let y = if class as usize == c { 1.0 } else { -1.0 };
                    let mapped = fitted.theta.row(c).iter().zip(h.row(i));
                    let error = mapped.map(|(t, x)| f64::from(t * x)).sum::<f64>() + bias(c) - y;
                    by_theta
                        .iter_mut()
                        .zip(h.row(i))
                        .for_each(|(g, &x)| *g += error * f64::from(x));
                    by_bias += error;
                    loss += error * error / 60.0;
                }
                assert!(by_theta.iter().all(|g| g.abs() < 1e-3), "{by_theta:?}");
                assert!(!has_bias || by_bias.abs() < 1e-3, "{by_bias}");
            }
            assert!((loss - fitted.loss).abs() < 1e-4 * loss, "{loss} {}", fitted.loss);
        }
    }

    #[test]
    fn sets_of_labels_that_rows_tell_are_found() {
        // Label l is there where entry l is positive.
        let h = rows(2, 200, 4);
        let (mut offsets, mut of) = (vec![0u64], Vec::new());
        for i in 0..200 {
            of.extend((0..4u32).filter(|&l| h.row(i)[l as usize] > 0.0));
            offsets.push(of.len() as u64);
        }
        let ids: Vec<u32> = (0..200).collect();
        let mut ridge = Ridge::new(4, 4);
        ridge.add(h.view(), &ids, Targets::Labels { offsets: &offsets, of: &of });
        let fitted = ridge.fit(None, false);
        for l in 0..4 {
            let own = fitted.theta.row(l)[l];
            assert!(own > 0.5, "{:?}", fitted.theta.row(l));
            assert!((0..4).all(|j| j == l || fitted.theta.row(l)[j].abs() < own / 3.0));
        }
    }

    #[test]
    fn cross_validation_takes_more_penalty_for_noise() {
        let ids: Vec<u32> = (0..80).collect();
        let penalty = |classes: &[i32], h: &Matrix| {
            let mut ridge = Ridge::new(40, 2);
            ridge.add(h.view(), &ids, Targets::Classes(classes));
            ridge.fit(None, true).penalty
        };
        let h = rows(3, 80, 40);
        let separable: Vec<i32> =
            (0..80).map(|i| i32::from(h.row(i)[0] + h.row(i)[1] > 0.0)).collect();
        let noise = rows(4, 80, 1);
        let noise: Vec<i32> = (0..80).map(|i| i32::from(noise.row(i)[0] > 0.0)).collect();
        assert!(penalty(&noise, &h) > 3.0 * penalty(&separable, &h));
    }

    #[test]
    fn fewer_rows_than_columns_are_not_fitted_through() {
        let (h, ids) = (rows(6, 20, 60), (0..20).collect::<Vec<u32>>());
        let noise = rows(7, 20, 1);
        let noise: Vec<i32> = (0..20).map(|i| i32::from(noise.row(i)[0] > 0.0)).collect();
        let mut ridge = Ridge::new(60, 2);
        ridge.add(h.view(), &ids, Targets::Classes(&noise));
        let fitted = ridge.fit(None, true);
        // Each label is 1 or -1, in two columns: a fit through all of them would leave nothing.
        assert!(fitted.loss > 0.02, "{}", fitted.loss);
    }

    #[test]
    fn rows_of_zeros_and_equal_columns_are_fitted_all_the_same() {
        let ids: Vec<u32> = (0..10).collect();
        let classes: Vec<i32> = (0..10).map(|i| i32::from(i > 2)).collect();
        for h in [Matrix::zeros(10, 3), Matrix::from_fn(10, 3, |i, _| i as f32)] {
            let mut ridge = Ridge::new(3, 2);
            ridge.add(h.view(), &ids, Targets::Classes(&classes));
            for penalty in [None, Some(0.0), Some(0.1)] {
                let fitted = ridge.fit(penalty, true);
                let bias = fitted.bias.unwrap();
                assert!(fitted.theta.row(0).iter().chain(bias.row(0)).all(|x| x.is_finite()));
            }
        }
    }

    #[test]
    fn sums_have_the_same_bits_on_any_number_of_threads() {
        let (h, ids) = (rows(5, 300, 20), (0..300).collect::<Vec<u32>>());
        let classes: Vec<i32> = (0..300).map(|i| i % 4).collect();
        let fit = |threads| {
            with_threads(threads, || {
                let mut ridge = Ridge::new(20, 4);
                ridge.add(h.view(), &ids, Targets::Classes(&classes));
                let fitted = ridge.fit(None, true);
                fitted.theta.view().padded().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
            })
        };
        assert!(fit(1) == fit(2) && fit(1) == fit(4));
    }
}
