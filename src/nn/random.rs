//! Random numbers by place: a number is a function of seed, stream, row and column, and of nothing
//! else. There is no state to carry along, none to save in a checkpoint, and no order of threads to
//! fix.
//!
//! A stream is a name (`dropout`, `layer0.W`), narrowed by numbers where needed (the epoch). Keys
//! and numbers come from the finaliser of SplitMix64 (Steele, Lea, Flood 2014): the numbers of a
//! row are the SplitMix64 sequence that starts at the row's key.

use rayon::prelude::*;

use crate::dense::Matrix;

/// Odd, with its bits well spread: 2^64 over the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Rows of a chunk of work.
const ROWS: usize = 64;

/// A stream of numbers, one for each row and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    key: u64,
}

/// The numbers of one row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    key: u64,
}

impl Stream {
    /// The stream with this name.
    pub fn new(seed: u64, name: &str) -> Self {
        let stream = Self { key: mix(seed.wrapping_add(STEP)) };
        // The length too: no two names give the same words.
        let stream = stream.narrowed(name.len() as u64);
        name.bytes().fold(stream, |stream, byte| stream.narrowed(u64::from(byte)))
    }

    /// The stream of this number within the stream: that of an epoch.
    pub fn narrowed(self, number: u64) -> Self {
        Self { key: mix(self.key ^ mix(number.wrapping_add(STEP))) }
    }

    /// The numbers of a row.
    #[inline]
    pub fn row(self, row: u64) -> Row {
        Row { key: self.narrowed(row).key }
    }
}

impl Row {
    /// 64 random bits.
    #[inline(always)]
    pub fn bits(self, column: usize) -> u64 {
        mix(self.key.wrapping_add(STEP.wrapping_mul(column as u64 + 1)))
    }

    /// Uniform in (-1, 1), symmetric.
    #[inline(always)]
    pub fn symmetric(self, column: usize) -> f64 {
        ((self.bits(column) >> 12) as f64 + 0.5) / (1u64 << 51) as f64 - 1.0
    }
}

/// Entries uniform between -bound and bound.
pub fn uniform(seed: u64, stream: &str, rows: usize, cols: usize, bound: f64) -> Matrix {
    let stream = Stream::new(seed, stream);
    let mut matrix = Matrix::zeros(rows, cols);
    let mut view = matrix.view_mut();
    let stride = view.stride();
    let chunks = view.padded_mut().par_chunks_mut(ROWS * stride).enumerate();
    chunks.for_each(|(chunk, part)| {
        for (at, row) in part.chunks_exact_mut(stride).enumerate() {
            let numbers = stream.row((chunk * ROWS + at) as u64);
            for (column, entry) in row[..cols].iter_mut().enumerate() {
                *entry = (numbers.symmetric(column) * bound) as f32;
            }
        }
    });
    matrix
}

/// A bijection of 64 bits that changes half of them on average.
#[inline(always)]
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::with_threads;

    #[test]
    fn the_same_bits_on_any_number_of_threads_and_other_bits_elsewhere() {
        let draw = |threads, seed, name: &str| {
            with_threads(threads, || uniform(seed, name, 333, 21, 0.5).view().padded().to_vec())
        };
        let one = draw(1, 7, "layer0.W");
        assert_eq!(one, draw(2, 7, "layer0.W"));
        assert_eq!(one, draw(4, 7, "layer0.W"));
        assert_ne!(one, draw(1, 8, "layer0.W"));
        assert_ne!(one, draw(1, 7, "layer1.W"));
        let narrow = uniform(7, "layer0.W", 100, 9, 0.5);
        let wide = uniform(7, "layer0.W", 333, 21, 0.5);
        assert_eq!(narrow.row(50), &wide.row(50)[..9], "a number does not depend on the shape");
    }

    #[test]
    fn streams_differ() {
        let stream = Stream::new(0, "a");
        let mut keys = vec![stream, Stream::new(0, ""), Stream::new(0, "\0"), Stream::new(1, "a")];
        keys.extend((0..1000).map(|epoch| stream.narrowed(epoch)));
        let mut keys: Vec<u64> = keys.iter().map(|stream| stream.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 1004);
    }

    #[test]
    fn moments_and_correlations_are_those_of_the_uniform_distribution() {
        let (rows, cols) = (2000, 50);
        let matrix = uniform(1, "test", rows, cols, 2.0);
        let count = (rows * cols) as f64;
        let at = |i: usize, k: usize| f64::from(matrix.row(i % rows)[k % cols]);
        let mean = |f: &dyn Fn(usize, usize) -> f64| {
            (0..rows)
                .flat_map(|i| (0..cols).map(move |k| (i, k)))
                .map(|(i, k)| f(i, k))
                .sum::<f64>()
                / count
        };
        let close = |found: f64, expected: f64, deviation: f64| {
            assert!(
                (found - expected).abs() < 4.5 * deviation / count.sqrt(),
                "{found} {expected}"
            );
        };
        close(mean(&|i, k| at(i, k)), 0.0, 1.155);
        close(mean(&|i, k| at(i, k).powi(2)), 4.0 / 3.0, 1.193);
        close(mean(&|i, k| at(i, k) * at(i + 1, k)), 0.0, 1.334);
        close(mean(&|i, k| at(i, k) * at(i, k + 1)), 0.0, 1.334);
        close(mean(&|i, k| at(i, k) * at(i + 1, k + 1)), 0.0, 1.334);
        assert!(mean(&|i, k| f64::from(u8::from(at(i, k).abs() > 2.0))) == 0.0);
    }
}
