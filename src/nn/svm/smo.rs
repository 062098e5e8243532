//! The two-class problem of a support vector machine, solved two multipliers at a time (sequential
//! minimal optimisation). It works on kernel values and signs; [`super`] deals with classes and
//! votes.
//!
//! ```text
//! minimise 1/2 sum_ij a_i a_j y_i y_j K_ij - sum_i a_i      with 0 <= a_i <= C and sum_i y_i a_i = 0
//! decision for x: sum_i a_i y_i K(x_i, x) - bias
//!
//! a_i   multiplier of row i               y_i  its class, 1 or -1
//! K_ij  kernel of rows x_i and x_j        C    bound on the multipliers
//! ```
//!
//! Each step changes two multipliers (Fan, Chen, Lin 2005). The first violates the optimality
//! conditions most; the second gives the largest decrease of the objective together with it. Ties
//! go to the first candidate, so the result depends on the input alone. The solve stops when no
//! pair violates the conditions by more than [`TOLERANCE`], or after [`STEPS_PER_ROW`] steps per
//! row.

/// Largest accepted violation of the optimality conditions, in units of the decision value.
pub const TOLERANCE: f64 = 1e-3;
/// Largest number of steps per row; small problems have a minimum.
pub const STEPS_PER_ROW: usize = 1000;
const FEWEST_STEPS: usize = 1_000_000;
/// Smallest curvature of a step, because that of two equal rows is zero.
const LEAST_CURVATURE: f64 = 1e-12;

/// The solution.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// a_i, from 0 to C.
    pub multipliers: Vec<f64>,
    /// Subtracted from the weighted sum of kernels.
    pub bias: f64,
    /// Whether the conditions hold to the tolerance.
    pub converged: bool,
}

/// Solves for signs `y` (each 1 or -1) and kernel values `kernel(i, j)`.
pub fn solve(y: &[f64], c: f64, kernel: impl Fn(usize, usize) -> f64) -> Solution {
    let rows = y.len();
    let mut a = vec![0.0; rows];
    // The gradient of the objective.
    let mut gradient = vec![-1.0; rows];
    let diagonal: Vec<f64> = (0..rows).map(|i| kernel(i, i)).collect();
    let mut converged = false;
    for _ in 0..(STEPS_PER_ROW * rows).max(FEWEST_STEPS) {
        let Some((i, j)) = pair(y, &a, &gradient, c, &diagonal, &kernel) else {
            converged = true;
            break;
        };
        let (old_i, old_j) = (a[i], a[j]);
        step(y, &mut a, &gradient, c, (i, j), diagonal[i] + diagonal[j] - 2.0 * kernel(i, j));
        let (by_i, by_j) = (y[i] * (a[i] - old_i), y[j] * (a[j] - old_j));
        for (t, gradient) in gradient.iter_mut().enumerate() {
            *gradient += y[t] * (by_i * kernel(i, t) + by_j * kernel(j, t));
        }
    }
    let bias = bias(y, &a, &gradient, c);
    Solution { multipliers: a, bias, converged }
}

/// Whether a multiplier can change so that y a increases.
fn may_rise(y: f64, a: f64, c: f64) -> bool {
    if y > 0.0 { a < c } else { a > 0.0 }
}

/// Whether a multiplier can change so that y a decreases.
fn may_fall(y: f64, a: f64, c: f64) -> bool {
    if y > 0.0 { a > 0.0 } else { a < c }
}

/// The pair to change next; `None` if the conditions hold.
fn pair(
    y: &[f64],
    a: &[f64],
    gradient: &[f64],
    c: f64,
    diagonal: &[f64],
    kernel: &impl Fn(usize, usize) -> f64,
) -> Option<(usize, usize)> {
    let (mut i, mut highest) = (None, f64::NEG_INFINITY);
    for t in 0..y.len() {
        let value = -y[t] * gradient[t];
        if may_rise(y[t], a[t], c) && value > highest {
            (i, highest) = (Some(t), value);
        }
    }
    let i = i?;
    let (mut j, mut lowest, mut best) = (None, f64::INFINITY, 0.0);
    for t in 0..y.len() {
        if !may_fall(y[t], a[t], c) {
            continue;
        }
        let value = -y[t] * gradient[t];
        lowest = lowest.min(value);
        let violation = highest - value;
        if violation > 0.0 {
            let curvature = (diagonal[i] + diagonal[t] - 2.0 * kernel(i, t)).max(LEAST_CURVATURE);
            let gain = violation * violation / curvature;
            if gain > best {
                (j, best) = (Some(t), gain);
            }
        }
    }
    if highest - lowest < TOLERANCE { None } else { j.map(|j| (i, j)) }
}

/// Moves a_i and a_j to the minimum of the objective along the line on which sum y a is constant,
/// within 0 and C.
fn step(
    y: &[f64],
    a: &mut [f64],
    gradient: &[f64],
    c: f64,
    (i, j): (usize, usize),
    curvature: f64,
) {
    // y_i a_i rises by t, y_j a_j falls by t.
    let wanted = (-y[i] * gradient[i] + y[j] * gradient[j]) / curvature.max(LEAST_CURVATURE);
    let room = |y: f64, a: f64, rises: bool| if (y > 0.0) == rises { c - a } else { a };
    let (room_i, room_j) = (room(y[i], a[i], true), room(y[j], a[j], false));
    let t = wanted.min(room_i).min(room_j);
    a[i] += y[i] * t;
    a[j] -= y[j] * t;
    // At a bound, set the multiplier to that bound exactly: rounding must not leave it just inside.
    if t == room_i {
        a[i] = if y[i] > 0.0 { c } else { 0.0 };
    }
    if t == room_j {
        a[j] = if y[j] > 0.0 { 0.0 } else { c };
    }
}

/// The mean over the free multipliers, or the middle of the interval that the others allow.
fn bias(y: &[f64], a: &[f64], gradient: &[f64], c: f64) -> f64 {
    let (mut sum, mut free) = (0.0, 0);
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    for t in 0..y.len() {
        let value = y[t] * gradient[t];
        match (may_rise(y[t], a[t], c), may_fall(y[t], a[t], c)) {
            (true, true) => {
                sum += value;
                free += 1;
            }
            (true, false) => high = high.min(value),
            (false, true) => low = low.max(value),
            (false, false) => {}
        }
    }
    if free > 0 {
        return sum / f64::from(free);
    }
    match (low.is_finite(), high.is_finite()) {
        (true, true) => (low + high) / 2.0,
        (true, false) => low,
        (false, true) => high,
        (false, false) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::Random;

    fn dot(x: &[f64], z: &[f64]) -> f64 {
        x.iter().zip(z).map(|(x, z)| x * z).sum()
    }

    fn squared(x: &[f64], z: &[f64]) -> f64 {
        x.iter().zip(z).map(|(x, z)| (x - z).powi(2)).sum()
    }

    #[test]
    fn two_points_have_the_plane_between_them() {
        // Points 0 and 4 on a line: w = 1/2, the plane at 2, both multipliers w^2 / 2 = 1/8.
        let x = [[0.0], [4.0]];
        let found = solve(&[-1.0, 1.0], 10.0, |i, j| dot(&x[i], &x[j]));
        assert!(found.converged);
        assert!(
            (found.multipliers[0] - 0.125).abs() < 1e-6
                && (found.multipliers[1] - 0.125).abs() < 1e-6
        );
        assert!((found.bias - 1.0).abs() < 1e-3, "w x - bias = 0 at x = 2");
        // A small C limits the multipliers.
        let found = solve(&[-1.0, 1.0], 0.05, |i, j| dot(&x[i], &x[j]));
        assert_eq!(found.multipliers, [0.05, 0.05]);
    }

    #[test]
    fn xor_is_solved_by_a_kernel_and_symmetric() {
        let x = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]];
        let y = [-1.0, -1.0, 1.0, 1.0];
        let kernel = |i: usize, j: usize| (-squared(&x[i], &x[j])).exp();
        let found = solve(&y, 100.0, kernel);
        // All four decisions are at the margin: a (1 + e^-2 - 2 e^-1) = 1, by symmetry.
        let expected = 1.0 / (1.0 + (-2f64).exp() - 2.0 * (-1f64).exp());
        for (i, a) in found.multipliers.iter().enumerate() {
            assert!((a - expected).abs() < 2e-3 * expected, "{a} {expected}");
            let decision: f64 =
                (0..4).map(|j| found.multipliers[j] * y[j] * kernel(j, i)).sum::<f64>()
                    - found.bias;
            assert!((decision * y[i] - 1.0).abs() < 2e-3);
        }
    }

    #[test]
    fn the_conditions_of_the_optimum_hold() {
        let (random, mut free) = (&mut Random(3), 0);
        for (rows, c, gamma) in
            [(20, 1.0, 0.5), (80, 0.1, 0.2), (80, 10.0, 1.0), (60, 1000.0, 0.05)]
        {
            let x: Vec<Vec<f64>> = (0..rows)
                .map(|_| random.vector(3).iter().map(|&x| f64::from(x)).collect())
                .collect();
            // Overlapping classes: no plane parts them.
            let y: Vec<f64> = (0..rows)
                .map(|i| {
                    if x[i][0] + 0.3 * f64::from(random.below(3) as u32) > 0.3 { 1.0 } else { -1.0 }
                })
                .collect();
            let kernel = |i: usize, j: usize| (-gamma * squared(&x[i], &x[j])).exp();
            let found = solve(&y, c, kernel);
            assert!(found.converged);
            let sum: f64 = found.multipliers.iter().zip(&y).map(|(a, y)| a * y).sum();
            assert!(sum.abs() < 1e-9 * c * rows as f64, "{sum}");
            free += found.multipliers.iter().filter(|&&a| a > 0.0 && a < c).count();
            for i in 0..rows {
                let a = found.multipliers[i];
                assert!((0.0..=c).contains(&a));
                let decision: f64 =
                    (0..rows).map(|j| found.multipliers[j] * y[j] * kernel(j, i)).sum::<f64>()
                        - found.bias;
                let margin = y[i] * decision;
                let slack = 2.0 * TOLERANCE;
                match a {
                    0.0 => assert!(margin >= 1.0 - slack, "{margin}"),
                    a if a == c => assert!(margin <= 1.0 + slack, "{margin}"),
                    _ => assert!((margin - 1.0).abs() <= slack, "{margin}"),
                }
            }
        }
        assert!(free > 10, "{free} on the margin");
    }

    #[test]
    fn one_class_and_equal_rows_do_no_harm() {
        let found = solve(&[1.0, 1.0], 1.0, |_, _| 1.0);
        assert!(found.converged && found.multipliers == [0.0, 0.0]);
        let found = solve(&[1.0, -1.0, 1.0], 2.0, |_, _| 1.0);
        assert!(found.converged && found.multipliers.iter().all(|a| a.is_finite()));
        assert!(solve(&[], 1.0, |_, _| 1.0).converged);
    }
}
