//! Projection of the rows of a matrix onto the L1 ball: the training constraint
//! ||W||_inf <= radius. The radius comes from [`super::spectral`].
//!
//! The nearest point of the ball `sum |x_k| <= r` to a row outside of it is `sign(x_k) max(|x_k| -
//! t, 0)` with the t that makes the sum r (Duchi et al. 2008). With M = max |x_k| and y_k = |x_k| -
//! M the same t is M + s with s in [-r, 0): `sum max(y_k - s, 0) = r`. Only entries within r of the
//! largest take part, and for these the difference y is exact where the sums of |x| would drown r
//! (rows of 1e30).
//!
//! The result is rounded towards zero, so its norm, summed in f64, never exceeds the radius. Rows
//! are independent: the same bits on any number of threads. A row costs O(m) if it is inside the
//! ball, and a few passes over it if it is not.

use rayon::prelude::*;

/// Why a matrix cannot be projected.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ProjectionError {
    /// A row holds NaN or an infinity.
    #[error("row {row} of the weight is not finite (found {found})")]
    NotFinite {
        /// The row.
        row: usize,
        /// The first such entry.
        found: f32,
    },
    /// The radius is NaN or negative.
    #[error("radius of the projection (found {found}, expected 0 or more)")]
    Radius {
        /// The radius.
        found: f64,
    },
}

/// Projects every row of a matrix with rows of `width` floats that start `stride` floats apart.
/// Returns the number of rows that changed. The floats between `width` and `stride` are left alone.
///
/// ```
/// use ignn::solver::projection::project_rows;
///
/// // The first row has norm 4 and moves to the nearest point of norm 2; the second is inside.
/// let mut w = [-3.0, 1.0, 0.5, -0.5];
/// assert_eq!(project_rows(&mut w, 2, 2, 2.0)?, 1);
/// assert_eq!(w, [-2.0, 0.0, 0.5, -0.5]);
/// # Ok::<(), ignn::solver::projection::ProjectionError>(())
/// ```
pub fn project_rows(
    data: &mut [f32],
    width: usize,
    stride: usize,
    radius: f64,
) -> Result<usize, ProjectionError> {
    if radius.is_nan() || radius < 0.0 {
        return Err(ProjectionError::Radius { found: radius });
    }
    if width == 0 || stride == 0 {
        return Ok(0);
    }
    let rows = data.par_chunks(stride).enumerate();
    let wrong = rows.find_map_first(|(row, entries)| {
        let found = entries[..width].iter().find(|x| !x.is_finite());
        found.map(|&found| ProjectionError::NotFinite { row, found })
    });
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let rows = data.par_chunks_mut(stride);
    let moved =
        rows.map_init(Vec::new, |near, row| usize::from(project(&mut row[..width], radius, near)));
    Ok(moved.sum())
}

/// Projects one finite row; returns whether it changed. `near` is scratch memory.
fn project(row: &mut [f32], radius: f64, near: &mut Vec<f64>) -> bool {
    near.clear();
    near.extend(row.iter().map(|&x| f64::from(x.abs())));
    let Some((largest, s)) = threshold(near, radius) else { return false };
    let support = near.len();
    let shrunk = |x: f32, s: f64| towards_zero(shrink(f64::from(x), (largest, s)));
    // The threshold comes from rounded sums. If the norm is too large for it, raise it by the
    // rounding error.
    near.clear();
    near.extend(row.iter().map(|&x| f64::from(shrunk(x, s).abs())));
    let slack = if sum(near) > radius { (support + 2) as f64 * f64::EPSILON * radius } else { 0.0 };
    for x in row {
        *x = shrunk(*x, (s + slack).min(0.0));
    }
    true
}

/// The largest |entry| and s, if the row lies outside the ball. `near` has the absolute values of
/// the row; those that stay above the threshold are left in it, relative to the largest.
///
/// The entries above the threshold of all of them are a smaller set with a higher threshold. Where
/// none leaves, it is the one sought (Michelot 1986). Some four passes over a row replace a sort.
fn threshold(near: &mut Vec<f64>, radius: f64) -> Option<(f64, f64)> {
    if sum(near) <= radius {
        return None;
    }
    let largest = near.iter().copied().fold(0.0, f64::max);
    near.iter_mut().for_each(|x| *x -= largest);
    near.retain(|&y| y > -radius);
    let mut s = -radius;
    loop {
        let (count, candidate) = (near.len(), (sum(near) - radius) / near.len() as f64);
        // Not a number if nothing is near, as for radius 0.
        if candidate.is_nan() || candidate <= s {
            break;
        }
        s = candidate;
        near.retain(|&y| y > s);
        if near.len() == count {
            break;
        }
    }
    Some((largest, s))
}

/// The sum, in lanes, so that additions do not wait for each other.
fn sum(values: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (parts, rest) = values.as_chunks::<LANES>();
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    sums.iter_mut().zip(rest).for_each(|(sum, x)| *sum += x);
    sums.iter().sum()
}

fn shrink(x: f64, (largest, s): (f64, f64)) -> f64 {
    ((x.abs() - largest) - s).max(0.0).copysign(x)
}

fn towards_zero(x: f64) -> f32 {
    let rounded = x as f32;
    match f64::from(rounded).abs() > x.abs() {
        true if rounded > 0.0 => rounded.next_down(),
        true => rounded.next_up(),
        false => rounded,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Random;
    use super::*;
    use crate::parallel::with_threads;

    fn norm(row: &[f32]) -> f64 {
        row.iter().map(|&x| f64::from(x).abs()).sum()
    }

    fn projected(row: &[f32], radius: f64) -> Vec<f32> {
        let mut row = row.to_vec();
        let width = row.len();
        project_rows(&mut row, width, width, radius).unwrap();
        row
    }

    #[test]
    fn golden_rows() {
        let Some(golden) = super::super::testing::golden("projection.json") else { return };
        for case in golden["cases"].as_array().unwrap() {
            let numbers = |name: &str| -> Vec<f64> {
                case[name].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
            };
            let (row, expected, radius) =
                (numbers("row"), numbers("projected"), case["radius"].as_f64().unwrap());
            let mut near = row.iter().map(|x| x.abs()).collect();
            let exact = match threshold(&mut near, radius) {
                Some(found) => row.iter().map(|&x| shrink(x, found)).collect(),
                None => row.clone(),
            };
            let single = projected(&row.iter().map(|&x| x as f32).collect::<Vec<_>>(), radius);
            for k in 0..row.len() {
                // The golden threshold is a difference of sums: huge rows lose digits of it.
                let largest = row.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
                assert!(
                    (exact[k] - expected[k]).abs() <= 1e-15 * largest,
                    "{} {}",
                    exact[k],
                    expected[k]
                );
                let scale = row[k].abs().max(1.0);
                assert!((f64::from(single[k]) - expected[k]).abs() <= 2e-7 * scale, "{case}");
            }
        }
    }

    #[test]
    fn rows_inside_do_not_move_and_rows_outside_land_on_the_ball() {
        let mut random = Random::new(3);
        for _ in 0..3000 {
            let width = 1 + random.below(40);
            let size = 10f64.powf(random.sign() * 32.0);
            let row: Vec<f32> = (0..width)
                .map(|_| match random.below(5) {
                    0 => 0.0,
                    1 => size as f32,
                    _ => (random.sign() * size) as f32,
                })
                .collect();
            let radius = size * random.unit() * 4.0 * 10f64.powi(-(random.below(8) as i32));
            let result = projected(&row, radius);
            if norm(&row) <= radius {
                assert_eq!(result, row);
                continue;
            }
            assert!(norm(&result) <= radius, "{} > {radius}: {row:?}", norm(&result));
            // Rounding towards zero takes at most one ulp per entry, or the smallest float.
            let lost = radius * 1.3e-7 + width as f64 * 1e-44;
            assert!(norm(&result) >= radius - lost, "{} < {radius}: {row:?}", norm(&result));
            optimal(&row, &result, radius);
            assert_eq!(projected(&result, radius), result, "a second projection changes nothing");
        }
    }

    /// The residual x - p is the same t on the support, at most t off it, with the signs of x.
    fn optimal(row: &[f32], result: &[f32], radius: f64) {
        let pairs = || row.iter().zip(result).map(|(&x, &p)| (f64::from(x), f64::from(p)));
        let support = pairs().filter(|pair| pair.1 != 0.0).map(|(x, p)| x.abs() - p.abs());
        let (low, high) =
            support.fold((f64::INFINITY, 0.0f64), |(low, high), t| (low.min(t), high.max(t)));
        if low == f64::INFINITY {
            return;
        }
        let largest = row.iter().fold(0.0, |m, &x| f64::from(x).abs().max(m));
        let slack = 1.3e-7 * radius.min(largest) + 1e-15 * largest + 1e-44;
        assert!(high - low <= slack, "{row:?} -> {result:?}");
        for (x, p) in pairs() {
            assert!(p == 0.0 || p.signum() == x.signum());
            assert!(p != 0.0 || x.abs() <= high + slack, "{row:?} -> {result:?}");
        }
    }

    #[test]
    fn huge_and_tiny_rows() {
        assert_eq!(projected(&[1e30, -1e30, 3.0], 1.0), [0.5, -0.5, 0.0]);
        assert_eq!(projected(&[f32::MAX; 4], 2.0), [0.5; 4]);
        let tiny = [1e-30, -2e-30, 0.0];
        assert_eq!(projected(&tiny, 0.9), tiny);
        let shrunk = projected(&tiny, 1e-30);
        assert!((f64::from(shrunk[1]) + 1e-30).abs() < 1e-36 && shrunk[0] == 0.0);
        assert_eq!(projected(&[1.0, -2.0], 0.0), [0.0, 0.0]);
        assert_eq!(projected(&[1.0, -2.0], f64::INFINITY), [1.0, -2.0]);
        assert!(projected(&[], 1.0).is_empty());
    }

    #[test]
    fn rows_are_independent_and_threads_do_not_matter() {
        let mut random = Random::new(4);
        let (rows, width, stride) = (700, 33, 48);
        let data: Vec<f32> = (0..rows * stride).map(|_| random.sign() as f32).collect();
        let expected: Vec<Vec<f32>> =
            data.chunks(stride).map(|row| projected(&row[..width], 3.0)).collect();
        for threads in [1, 2, 4] {
            let mut data = data.clone();
            let moved = with_threads(threads, || project_rows(&mut data, width, stride, 3.0));
            assert_eq!(moved, Ok(rows));
            assert!(
                data.chunks(stride).zip(&expected).all(|(row, expected)| &row[..width] == expected)
            );
        }
    }

    #[test]
    fn padding_stays_and_errors_name_the_row() {
        let mut data = [3.0, 0.0, 7.0, 7.0, 0.1, 0.1, 7.0, 7.0];
        assert_eq!(project_rows(&mut data, 2, 4, 1.0), Ok(1));
        assert_eq!(data, [1.0, 0.0, 7.0, 7.0, 0.1, 0.1, 7.0, 7.0]);
        let mut bad = [1.0, 1.0, f32::NAN, f32::INFINITY];
        let error = project_rows(&mut bad, 2, 2, 1.0).unwrap_err();
        assert_eq!(error.to_string(), "row 1 of the weight is not finite (found NaN)");
        assert_eq!(bad[..2], [1.0, 1.0], "nothing is changed on an error");
        let error = project_rows(&mut [1.0], 1, 1, -1.0).unwrap_err();
        assert_eq!(error.to_string(), "radius of the projection (found -1, expected 0 or more)");
    }
}
