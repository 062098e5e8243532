//! What this machine can do, and what a sweep needs at least: the two sides of the roofline.
//! Measured in the same run as the sweep; nothing here depends on the kernels but the rate of the
//! product.

use std::time::Instant;

use ignn::dense::{Matrix, stride};
use ignn::kernels::sweep::{self, SweepScratch};
use ignn::kernels::{Isa, PackedWeights};
use ignn::parallel::{RowBlocks, with_threads};
use rayon::prelude::*;

/// Bytes of each side of the copy: beyond the caches of common machines.
const COPY_BYTES: usize = 256 << 20;
/// Width of the product: operands of a thread fit in its second cache.
const PRODUCT_WIDTH: usize = 256;
const REPEAT: usize = 5;

/// Bytes read and written in a second by a plain copy on so many threads.
pub fn copy_bandwidth(threads: usize) -> f64 {
    let floats = COPY_BYTES / size_of::<f32>();
    let from = Matrix::from_fn(floats / 1024, 1024, |_, _| 1.0);
    let mut to = from.clone();
    let seconds = with_threads(threads, || {
        best(|| {
            let (from, mut to) = (from.view(), to.view_mut());
            let chunks =
                to.padded_mut().par_chunks_mut(1 << 18).zip(from.padded().par_chunks(1 << 18));
            chunks.for_each(|(to, from)| to.copy_from_slice(from));
        })
    });
    2.0 * COPY_BYTES as f64 / seconds
}

/// Floating-point operations in a second of the dense product in cache, on so many threads.
pub fn product_rate(threads: usize) -> f64 {
    let width = PRODUCT_WIDTH;
    let rows = 192 * threads * 8;
    let matrix = |rows| Matrix::from_fn(rows, width, |i, k| ((i * 7 + k * 3) % 11) as f32 * 0.01);
    let (weights, small) = (PackedWeights::forward(matrix(width).view()), matrix(192));
    let seconds = with_threads(threads, || {
        let scratch = SweepScratch::with_widths(&[width], width, Isa::chosen());
        let blocks = RowBlocks::parts(192, &[], 1, 1);
        best(|| {
            // Each piece is small enough to stay in the cache of the thread that computes it.
            (0..threads * 8).into_par_iter().for_each_init(
                || Matrix::zeros(192, width),
                |to, _| {
                    sweep::product(
                        &blocks,
                        &[],
                        Some(&weights),
                        None,
                        small.view(),
                        to.view_mut(),
                        &scratch,
                    );
                },
            );
        })
    });
    2.0 * (rows * width * width) as f64 / seconds
}

fn best(mut work: impl FnMut()) -> f64 {
    let time = |_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    };
    (0..REPEAT).map(time).fold(f64::INFINITY, f64::min).max(1e-9)
}

/// What a sweep must at least compute and move.
///
/// Operations: 2 m a non-zero (multiply, add), 2 m m a node and relation (the product). Bytes:
/// every array once. The graph (4 a non-zero, 4 more with values; 8 an offset; 4 a scale), the
/// state read, the input read, the new state written, 4 m each a node with the padding of the rows;
/// the derivative of the adjoint.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    pub operations: f64,
    pub bytes: f64,
}

impl Need {
    /// Of a graph's relations (non-zeros and bytes of each), for a state of `width`.
    pub fn new(
        nodes: usize,
        relations: &[(usize, usize)],
        width: usize,
        derivative_bytes: usize,
    ) -> Self {
        let (nodes_f, width_f) = (nodes as f64, width as f64);
        let nonzeros: usize = relations.iter().map(|&(nonzeros, _)| nonzeros).sum();
        let graph: usize = relations.iter().map(|&(_, bytes)| bytes).sum();
        let product = 2.0 * nodes_f * width_f * width_f * relations.len() as f64;
        let states = 3.0 * nodes_f * (stride(width) * size_of::<f32>()) as f64;
        Self {
            operations: product + 2.0 * nonzeros as f64 * width_f,
            bytes: states + (graph + derivative_bytes) as f64,
        }
    }

    /// Seconds below which no sweep goes on a machine with these rates.
    pub fn floor(&self, rate: f64, bandwidth: f64) -> f64 {
        (self.operations / rate).max(self.bytes / bandwidth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_need_follows_the_formula() {
        let need = Need::new(1000, &[(5000, 28_000), (100, 9000)], 20, 40);
        assert_eq!(need.operations, (2 * 1000 * 400 * 2 + 2 * 5100 * 20) as f64);
        assert_eq!(need.bytes, (3 * 1000 * 128 + 37_000 + 40) as f64);
        assert_eq!(need.floor(1e6, 1e3), need.bytes / 1e3);
    }
}
