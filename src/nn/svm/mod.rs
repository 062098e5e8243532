//! Support vector machines on the rows of a matrix: the kernel of all pairs of rows is computed in
//! advance, and each pair of classes has its own machine. Rows are referred to by number; where
//! they come from, and which are classified, is up to the caller.
//!
//! Scale the columns first ([`standardised`]), or the one with the largest values dominates a
//! kernel of distances. `smo` solves the problem of two classes. Each machine votes; a row gets the
//! class with the most votes, and the lower class if votes are equal. The bits are the same for any
//! number of threads.

mod smo;

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::dense::{Matrix, MatrixRef};

pub use smo::TOLERANCE;

/// A kernel function: the similarity of two rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kernel {
    /// x . z
    Linear,
    /// exp(-gamma |x - z|^2)
    Rbf {
        /// How fast the kernel decreases with the distance.
        gamma: f64,
    },
}

/// The kernel of every pair of rows.
#[derive(Clone, Debug)]
pub struct Gram {
    rows: usize,
    values: Vec<f32>,
}

/// Machines for all pairs of classes, trained on some of the rows.
#[derive(Clone, Debug)]
pub struct Svm {
    /// The lowest class with rows, which wins where there is no other.
    first: usize,
    machines: Vec<Machine>,
}

#[derive(Clone, Debug)]
struct Machine {
    /// The class of positive decisions, and the class of negative ones.
    pair: (usize, usize),
    /// For each support vector, its row, and its multiplier times its sign.
    vectors: Vec<(u32, f64)>,
    bias: f64,
    converged: bool,
}

impl Gram {
    /// Memory of the kernel of all pairs of this many rows.
    pub fn bytes(rows: u64) -> u64 {
        rows.saturating_mul(rows).saturating_mul(size_of::<f32>() as u64)
    }

    /// Computes the kernel of all pairs. It takes `rows^2` floats of memory.
    pub fn of(rows: MatrixRef<'_>, kernel: Kernel) -> Self {
        let count = rows.rows();
        let mut values = vec![0.0; count * count];
        values.par_chunks_mut(count.max(1)).enumerate().for_each(|(i, out)| {
            for (j, out) in out.iter_mut().enumerate() {
                let pairs = rows.row(i).iter().zip(rows.row(j));
                *out = match kernel {
                    Kernel::Linear => {
                        pairs.map(|(&x, &z)| f64::from(x) * f64::from(z)).sum::<f64>()
                    }
                    Kernel::Rbf { gamma } => {
                        let squared: f64 =
                            pairs.map(|(&x, &z)| (f64::from(x) - f64::from(z)).powi(2)).sum();
                        (-gamma * squared).exp()
                    }
                } as f32;
            }
        });
        Self { rows: count, values }
    }

    fn row(&self, row: u32) -> &[f32] {
        &self.values[row as usize * self.rows..][..self.rows]
    }
}

impl Svm {
    /// Trains on the rows `items`. The class of an item is `labels[item]`. `c` is the penalty for a
    /// row on the wrong side of the margin. Only classes with rows take part.
    ///
    /// # Panics
    /// If an item is not a row, or has no label.
    pub fn train(gram: &Gram, items: &[u32], labels: &[i32], c: f64) -> Self {
        let class = |item: u32| usize::try_from(labels[item as usize]).expect("a labelled row");
        // Of the classes without rows, none can win: every pair with one of them would vote for the
        // other class.
        let mut present: Vec<usize> = items.iter().map(|&item| class(item)).collect();
        present.sort_unstable();
        present.dedup();
        let pairs = present.iter().enumerate();
        let pairs = pairs.flat_map(|(at, &a)| present[at + 1..].iter().map(move |&b| (a, b)));
        let machine = |pair: (usize, usize)| {
            let own: Vec<u32> = items
                .iter()
                .copied()
                .filter(|&item| [pair.0, pair.1].contains(&class(item)))
                .collect();
            let y: Vec<f64> =
                own.iter().map(|&item| if class(item) == pair.0 { 1.0 } else { -1.0 }).collect();
            let solution = smo::solve(&y, c, |i, j| f64::from(gram.row(own[i])[own[j] as usize]));
            let vectors = own.iter().zip(&y).zip(&solution.multipliers);
            let vectors =
                vectors.filter(|(_, a)| **a > 0.0).map(|((&item, y), a)| (item, y * a)).collect();
            Machine { pair, vectors, bias: solution.bias, converged: solution.converged }
        };
        let machines = pairs.map(machine).collect();
        Self { first: present.first().copied().unwrap_or(0), machines }
    }

    /// The class of each of these rows.
    pub fn predict(&self, gram: &Gram, items: &[u32]) -> Vec<u32> {
        let class = |&item: &u32| {
            let kernels = gram.row(item);
            let mut votes = BTreeMap::from([(self.first, 0u32)]);
            for Machine { pair, vectors, bias, .. } in &self.machines {
                let sum: f64 =
                    vectors.iter().map(|&(row, a)| a * f64::from(kernels[row as usize])).sum();
                *votes.entry(if sum - bias >= 0.0 { pair.0 } else { pair.1 }).or_default() += 1;
            }
            // Of equal votes the lower class.
            let most = votes.values().copied().max().unwrap_or(0);
            votes.iter().find(|(_, count)| **count == most).map_or(0, |(&class, _)| class) as u32
        };
        items.iter().map(class).collect()
    }

    /// The share of these rows that are classified correctly.
    pub fn accuracy(&self, gram: &Gram, items: &[u32], labels: &[i32]) -> f64 {
        let found = self.predict(gram, items);
        let right = items
            .iter()
            .zip(&found)
            .filter(|(item, class)| labels[**item as usize] == **class as i32);
        right.count() as f64 / items.len().max(1) as f64
    }

    /// Number of support vectors of all machines.
    pub fn vectors(&self) -> usize {
        self.machines.iter().map(|machine| machine.vectors.len()).sum()
    }

    /// Whether every machine reached the tolerance.
    pub fn converged(&self) -> bool {
        self.machines.iter().all(|machine| machine.converged)
    }
}

/// Shifts and scales each column so that it has mean 0 and variance 1 over the rows `items`.
/// Constant columns become 0.
pub fn standardised(rows: MatrixRef<'_>, items: &[u32]) -> Matrix {
    let count = items.len().max(1) as f64;
    let of = |k: usize, value: &dyn Fn(f64) -> f64| -> f64 {
        items.iter().map(|&item| value(f64::from(rows.row(item as usize)[k]))).sum::<f64>() / count
    };
    let column = |k: usize| {
        let mean = of(k, &|x| x);
        let deviation = of(k, &|x| (x - mean).powi(2)).sqrt();
        // Rounding errors of a constant column are not a signal.
        let is_constant = deviation <= 1e-6 * mean.abs() || deviation == 0.0;
        (mean, if is_constant { 0.0 } else { 1.0 / deviation })
    };
    let columns: Vec<(f64, f64)> = (0..rows.cols()).map(column).collect();
    Matrix::from_fn(rows.rows(), rows.cols(), |i, k| {
        ((f64::from(rows.row(i)[k]) - columns[k].0) * columns[k].1) as f32
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::Random;
    use crate::parallel::with_threads;

    /// Points around three centres, some far from theirs.
    fn clouds(random: &mut Random, rows: usize) -> (Matrix, Vec<i32>) {
        let centres = [[0.0, 3.0], [3.0, 0.0], [-3.0, -3.0]];
        let labels: Vec<i32> = (0..rows).map(|i| (i % 3) as i32).collect();
        let noise = random.matrix(rows, 2);
        let x = Matrix::from_fn(rows, 2, |i, k| centres[i % 3][k] + 1.5 * noise.row(i)[k]);
        (x, labels)
    }

    #[test]
    fn several_classes_are_separated_on_rows_that_were_not_seen() {
        let (x, labels) = clouds(&mut Random(1), 240);
        let (seen, new): (Vec<u32>, Vec<u32>) = (0..240).partition(|row| row % 4 != 0);
        for kernel in [Kernel::Linear, Kernel::Rbf { gamma: 0.3 }] {
            let gram = Gram::of(x.view(), kernel);
            let svm = Svm::train(&gram, &seen, &labels, 1.0);
            assert!(svm.converged() && svm.vectors() > 0);
            assert!(svm.accuracy(&gram, &new, &labels) > 0.95, "{kernel:?}");
        }
    }

    #[test]
    fn a_ring_needs_distances() {
        let random = &mut Random(2);
        let noise = random.matrix(200, 2);
        let radius = |i: usize| if i.is_multiple_of(2) { 1.0 } else { 3.0 };
        let x = Matrix::from_fn(200, 2, |i, k| {
            let angle = i as f32 * 0.7;
            radius(i) * [angle.cos(), angle.sin()][k] + 0.3 * noise.row(i)[k]
        });
        let labels: Vec<i32> = (0..200).map(|i| i % 2).collect();
        let all: Vec<u32> = (0..200).collect();
        let score = |kernel, c| {
            let gram = Gram::of(x.view(), kernel);
            Svm::train(&gram, &all, &labels, c).accuracy(&gram, &all, &labels)
        };
        assert_eq!(score(Kernel::Rbf { gamma: 1.0 }, 10.0), 1.0);
        assert!(score(Kernel::Linear, 10.0) < 0.75);
    }

    #[test]
    fn a_class_without_rows_is_never_predicted() {
        let (x, mut labels) = clouds(&mut Random(3), 60);
        labels.iter_mut().for_each(|label| *label = (*label).min(1));
        let gram = Gram::of(x.view(), Kernel::Linear);
        let all: Vec<u32> = (0..60).collect();
        let found = Svm::train(&gram, &all, &labels, 1.0).predict(&gram, &all);
        assert!(found.iter().all(|&class| class < 2));
        let only: Vec<u32> = (0..60).filter(|&row| labels[row as usize] == 1).collect();
        let found = Svm::train(&gram, &only, &labels, 1.0).predict(&gram, &all);
        assert!(found.iter().all(|&class| class == 1));
    }

    #[test]
    fn classes_without_rows_take_no_memory() {
        let (x, mut labels) = clouds(&mut Random(5), 30);
        // Two classes of two thousand million.
        labels.iter_mut().for_each(|label| *label = if *label == 0 { 7 } else { i32::MAX });
        let gram = Gram::of(x.view(), Kernel::Linear);
        let all: Vec<u32> = (0..30).collect();
        let found = Svm::train(&gram, &all, &labels, 1.0).predict(&gram, &all);
        assert!(found.contains(&7) && found.contains(&(i32::MAX as u32)));
    }

    #[test]
    fn the_same_bits_on_any_number_of_threads() {
        let (x, labels) = clouds(&mut Random(4), 150);
        let all: Vec<u32> = (0..150).collect();
        let run = |threads| {
            with_threads(threads, || {
                let gram = Gram::of(x.view(), Kernel::Rbf { gamma: 0.5 });
                let svm = Svm::train(&gram, &all, &labels, 2.0);
                svm.machines
                    .iter()
                    .map(|machine| (machine.bias.to_bits(), machine.vectors.clone()))
                    .collect()
            })
        };
        let one: Vec<_> = run(1);
        assert!(one == run(2) && one == run(4));
    }

    #[test]
    fn columns_are_scaled_by_the_rows_at_hand() {
        let x = Matrix::from_fn(4, 3, |i, k| {
            [[1.0, 5.0, 0.1], [3.0, 5.0, 0.1], [5.0, 5.0, 0.1], [9.0, 6.0, 2.0]][i][k]
        });
        let scaled = standardised(x.view(), &[0, 2]);
        assert_eq!(scaled.row(0), [-1.0, 0.0, 0.0]);
        assert_eq!(scaled.row(1), [0.0, 0.0, 0.0]);
        assert_eq!(scaled.row(2)[0], 1.0);
        assert_eq!(scaled.row(3), [3.0, 0.0, 0.0], "a constant column stays zero");
    }
}
