//! Random numbers by position: a number is a function of a seed, a name and its position, and of
//! nothing else. Any thread can draw any part, nothing has to be saved in a checkpoint, and the
//! results are the same on any number of threads.
//!
//! The module is here because this is the one package that both ingest and the engine know, and
//! because its numbers are as stable as the format: a seed gives the same dataset and the same
//! training run in every version.
//!
//! All numbers come from SplitMix64 (Steele, Lea, Flood 2014). [`Sequence`] draws one number after
//! another (generators, splits); [`Stream`] addresses numbers by row and column (training). The two
//! derive their keys from names differently, so the same name gives them unrelated numbers.
//!
//! ```
//! use ignn_format::random::{Sequence, Stream};
//!
//! let mut sequence = Sequence::new(7, "nodes");
//! assert_eq!(sequence.below(1000), Sequence::new(7, "nodes").below(1000));
//!
//! let epoch = Stream::new(7, "dropout").narrowed(3);
//! assert_eq!(epoch.row(11).bits(5), epoch.row(11).bits(5));
//! ```

/// 2^64 over the golden ratio: odd, and its bits are well spread.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64: a bijection that changes half of the bits on average.
#[inline(always)]
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Where a SplitMix64 sequence starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u64);

impl Key {
    /// The key of a number within this key.
    #[inline(always)]
    fn narrowed(self, number: u64) -> Self {
        Self(mix(self.0 ^ mix(number.wrapping_add(STEP))))
    }

    /// 64 random bits.
    #[inline(always)]
    fn bits(self, position: u64) -> u64 {
        mix(self.0.wrapping_add(STEP.wrapping_mul(position)))
    }
}

/// Random numbers one after another.
#[derive(Clone, Debug)]
pub struct Sequence {
    key: Key,
    next: u64,
}

impl Sequence {
    /// The sequence with this name; different names give unrelated numbers.
    pub fn new(seed: u64, name: &str) -> Self {
        let first = mix(seed ^ 0x6a09_e667_f3bc_c909);
        let key = name.bytes().fold(first, |key, byte| mix(key ^ u64::from(byte)));
        Self { key: Key(key), next: 0 }
    }

    /// An independent sequence for item `index` of this one.
    #[inline]
    pub fn fork(&self, index: u64) -> Self {
        Self { key: self.key.narrowed(index), next: 0 }
    }

    /// 64 random bits at a position, independent of the current one.
    #[inline]
    pub fn at(&self, position: u64) -> u64 {
        self.key.bits(position)
    }

    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.next += 1;
        self.at(self.next - 1)
    }

    /// Uniform in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..bound` (`bound > 0`), by multiplication; the bias is below `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Standard normal (Box-Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Shuffles in place (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Random numbers addressed by row and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    key: Key,
}

/// The numbers of one row of a [`Stream`].
#[derive(Clone, Copy, Debug)]
pub struct Row {
    key: Key,
}

impl Stream {
    /// The stream with this name, such as `dropout` or `layer0.W`.
    pub fn new(seed: u64, name: &str) -> Self {
        // The length is part of the key, so that no name is a prefix of another.
        let key = Key(mix(seed.wrapping_add(STEP))).narrowed(name.len() as u64);
        Self { key: name.bytes().fold(key, |key, byte| key.narrowed(u64::from(byte))) }
    }

    /// The stream of a number within this stream, such as the epoch.
    pub fn narrowed(self, number: u64) -> Self {
        Self { key: self.key.narrowed(number) }
    }

    /// The numbers of a row.
    #[inline]
    pub fn row(self, row: u64) -> Row {
        Row { key: self.key.narrowed(row) }
    }
}

impl Row {
    /// 64 random bits.
    #[inline(always)]
    pub fn bits(self, column: usize) -> u64 {
        self.key.bits(column as u64 + 1)
    }

    /// Uniform in (-1, 1), symmetric about 0.
    #[inline(always)]
    pub fn symmetric(self, column: usize) -> f64 {
        ((self.bits(column) >> 12) as f64 + 0.5) / (1u64 << 51) as f64 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Datasets and training runs of earlier versions depend on these bits.
    #[test]
    fn bits_stay_those_of_the_first_version() {
        let mut sequence = Sequence::new(7, "splits");
        assert_eq!(
            (sequence.at(0), sequence.at(5)),
            (0xb814_31c3_ddc9_6675, 0x0f3f_7bce_03a5_7c31)
        );
        assert_eq!(sequence.fork(3).at(1), 0x7194_5802_e61f_b4d6);
        assert_eq!(sequence.bits(), 0xb814_31c3_ddc9_6675);
        assert_eq!(sequence.unit().to_bits(), 0x3fe8_9cad_9e0e_0584);
        // The logarithm and the cosine are the system's.
        assert!((sequence.normal() - f64::from_bits(0x3fe3_5ab5_e174_a6de)).abs() < 1e-14);
        assert_eq!(sequence.below(1000), 547);
        let mut items = [0, 1, 2, 3, 4, 5, 6, 7];
        sequence.shuffle(&mut items);
        assert_eq!(items, [6, 1, 2, 4, 7, 3, 5, 0]);

        let stream = Stream::new(7, "dropout");
        assert_eq!(stream.row(0).bits(0), 0xf71d_91f0_7995_1d15);
        assert_eq!(stream.narrowed(3).row(11).bits(5), 0xef88_55aa_ce5a_5696);
        assert_eq!(stream.row(2).symmetric(1).to_bits(), 0x3fce_090c_cb98_5d18);
    }

    #[test]
    fn sequences_are_reproducible_and_differ() {
        let draw = |seed, name| (0..4).map(|i| Sequence::new(seed, name).at(i)).collect::<Vec<_>>();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
    }

    #[test]
    fn streams_differ() {
        let stream = Stream::new(0, "a");
        let mut keys = vec![stream, Stream::new(0, ""), Stream::new(0, "\0"), Stream::new(1, "a")];
        keys.extend((0..1000).map(|epoch| stream.narrowed(epoch)));
        let mut keys: Vec<Key> = keys.iter().map(|stream| stream.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 1004);
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut sequence = Sequence::new(7, "moments");
        let n = 200_000;
        let (mut mean, mut square, mut uniform) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            let z = sequence.normal();
            mean += z / f64::from(n);
            square += z * z / f64::from(n);
            uniform += sequence.unit() / f64::from(n);
        }
        assert!(mean.abs() < 0.01 && (square - 1.0).abs() < 0.02 && (uniform - 0.5).abs() < 0.005);
    }
}
