//! A cache line of floats in registers for each instruction set, and the choice among the sets at
//! run time. Kernels are written once over these 16 lanes.
//!
//! Kernels are generic over [`Lanes`] and always inlined into a function that enables the
//! instruction set, chosen once per block of rows ([`Isa::dispatch`]).
//! `IGNN_SIMD=scalar|avx2|avx512` overrides the choice; a set that the processor lacks is never
//! chosen. Results differ between instruction sets in the last bits (fused multiply-add), never
//! between numbers of threads.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod math;
mod scalar;

pub(crate) use math::{elu, sigmoid, tanh};

use std::sync::OnceLock;

use crate::dense::{HalfLine, Line};

/// Name of the environment variable that overrides the instruction set.
pub const VARIABLE: &str = "IGNN_SIMD";

/// Which lane each lane becomes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Order(pub [u32; 16]);

/// 16 floats in registers.
pub(crate) trait Lanes: Copy {
    fn splat(x: f32) -> Self;
    fn load(line: &Line) -> Self;
    fn store(self, line: &mut Line);
    /// Stores past the caches; visible to other threads after [`Lanes::fence`].
    fn stream(self, line: &mut Line);
    /// Loads 16 floats of 16 bits.
    fn load_half(line: &HalfLine) -> Self;
    /// Rounds to 16 bits, to the nearest and ties to even.
    fn store_half(self, line: &mut HalfLine);
    /// Rounds like [`Lanes::store_half`] and stores like [`Lanes::stream`].
    fn stream_half(self, line: &mut HalfLine);
    fn fence();
    /// Prefetches the line at an address, which need not be valid.
    fn prefetch(address: *const Line);
    /// Lane i becomes lane `order[i]`, which is in the same half of 8 lanes.
    fn permute(self, order: &Order) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// self * factor + term
    fn mul_add(self, factor: Self, term: Self) -> Self;
    fn abs(self) -> Self;
    /// Within [-limit, limit]; NaN stays NaN.
    fn clamp(self, limit: Self) -> Self;
    /// The larger of two non-negative numbers by their bits: NaN beats infinity beats every number.
    fn max_bits(self, other: Self) -> Self;
    /// `then` where negative, itself elsewhere; NaN stays NaN.
    fn where_negative(self, then: Self) -> Self;
    /// `then` where positive, `otherwise` elsewhere.
    fn if_positive(self, then: Self, otherwise: Self) -> Self;
    /// `set` where the bit of the lane is set, `clear` elsewhere; lowest bit first.
    fn by_bits(bits: u16, set: Self, clear: Self) -> Self;
    /// The nearest whole number, for numbers below 2^22.
    fn round(self) -> Self;
    /// 2 to the power of a whole number in [-126, 127].
    fn power_of_two(self) -> Self;

    /// The largest lane of non-negative numbers, by bits: a NaN is larger than anything.
    #[inline(always)]
    fn largest(self) -> f32 {
        f32::from_bits(self.to_array().iter().fold(0, |max, x| x.to_bits().max(max)))
    }

    #[inline(always)]
    fn to_array(self) -> [f32; 16] {
        let mut line = Line([0.0; 16]);
        self.store(&mut line);
        line.0
    }
}

/// Work that runs on any instruction set.
///
/// The registers of the set hold `ROWS` rows of `PANELS` lines of accumulators. Implementations are
/// `#[inline(always)]`, and so is everything that they call.
pub(crate) trait Kernel {
    type Output;
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> Self::Output;
}

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// Rows that the multiply works on together are a multiple of this for every instruction set.
    pub(crate) const TILE: usize = 12;

    /// Plain code, on any processor.
    pub const SCALAR: Self = Self(Set::Scalar);

    /// All sets that this processor has, the best one last.
    pub fn available() -> Vec<Self> {
        let mut sets = vec![Self::SCALAR];
        #[cfg(target_arch = "x86_64")]
        {
            if avx2::is_available() {
                sets.push(Self(Set::Avx2));
            }
            if avx512::is_available() {
                sets.push(Self(Set::Avx512));
            }
        }
        sets
    }

    /// The best one, or the one that `IGNN_SIMD` names if the processor has it. Determined once.
    pub fn chosen() -> Self {
        static CHOSEN: OnceLock<Isa> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let available = Self::available();
            let wanted = std::env::var(VARIABLE).unwrap_or_default();
            let named = available.iter().find(|isa| isa.name() == wanted);
            *named.or(available.last()).unwrap_or(&Self::SCALAR)
        })
    }

    /// What is wrong with the instruction set that `IGNN_SIMD` names, if it is none that this
    /// processor has.
    pub fn check_variable() -> Result<(), String> {
        let Ok(wanted) = std::env::var(VARIABLE) else { return Ok(()) };
        let available: Vec<_> = Self::available().into_iter().map(Self::name).collect();
        match wanted.is_empty() || available.contains(&&*wanted) {
            true => Ok(()),
            false => Err(format!(
                "{VARIABLE}={wanted}: not an instruction set of this processor (expected {})",
                available.join(", ")
            )),
        }
    }

    /// `scalar`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Set::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
        }
    }

    /// Runs a kernel with this instruction set.
    pub(crate) fn dispatch<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            Set::Scalar => kernel.compute::<scalar::Scalar, 2, 1>(),
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => avx2::dispatch(kernel),
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => avx512::dispatch(kernel),
        }
    }
}

#[cfg(test)]
mod tests;
