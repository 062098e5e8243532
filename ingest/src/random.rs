//! Random numbers by position: the value at a counter depends on seed, stream and counter alone. So
//! any thread can draw any part of a sequence, and the bytes are the same for any number of
//! threads.

/// A stream of random numbers; `at(i)` needs no state, `next` walks through it.
#[derive(Clone, Debug)]
pub struct Stream {
    key: u64,
    counter: u64,
}

/// Finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that mixes all bits.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream named `name` of a seed; different names give unrelated numbers.
    pub fn new(seed: u64, name: &str) -> Self {
        let key = name
            .bytes()
            .fold(mix(seed ^ 0x6a09_e667_f3bc_c909), |key, byte| mix(key ^ u64::from(byte)));
        Self { key, counter: 0 }
    }

    /// A stream of its own for item `index` of this one.
    pub fn fork(&self, index: u64) -> Self {
        Self { key: mix(self.key ^ mix(index.wrapping_add(0x9e37_79b9_7f4a_7c15))), counter: 0 }
    }

    /// 64 random bits at a position.
    pub fn at(&self, position: u64) -> u64 {
        mix(self.key.wrapping_add(position.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.counter += 1;
        self.at(self.counter - 1)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..bound (bound > 0), by multiplication; the bias is below bound / 2^64.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_differ() {
        let draw = |seed, name| (0..4).map(|i| Stream::new(seed, name).at(i)).collect::<Vec<_>>();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut stream = Stream::new(7, "moments");
        let n = 200_000;
        let (mut mean, mut square, mut uniform) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            let z = stream.normal();
            mean += z / f64::from(n);
            square += z * z / f64::from(n);
            uniform += stream.unit() / f64::from(n);
        }
        assert!(mean.abs() < 0.01 && (square - 1.0).abs() < 0.02 && (uniform - 0.5).abs() < 0.005);
    }
}
