//! What a matrix holds: floats, or short ones where only their size and direction count.
//! Storage only; arithmetic is always in f32.

use std::fmt::Debug;

use bytemuck::{Pod, Zeroable};

/// Entries in a line.
pub const LINE: usize = 16;

/// A cache line of floats; its alignment is the matrix's.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Line(pub [f32; LINE]);

/// Half a cache line: 16 short floats.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct HalfLine(pub [F16; LINE]);

/// A float of 16 bits (IEEE binary16): 11 bits of precision, from 6e-8 to 65504. What is kept of
/// the moves of a solve, each with a factor that brings it near 1.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct F16(pub u16);

impl F16 {
    /// The largest number.
    pub const LARGEST: f32 = 65504.0;

    /// Rounded to the nearest, to the even one of two; infinite from 65520 on.
    #[inline(always)]
    pub fn new(x: f32) -> Self {
        let (sign, size) = ((x.to_bits() >> 16 & 0x8000) as u16, x.to_bits() & 0x7fff_ffff);
        let bits = if size > 0x7f80_0000 {
            0x7e00
        } else if size >= 0x477f_f000 {
            0x7c00
        } else if size < 0x3880_0000 {
            // A multiple of 2^-24, which is the last place of a half.
            (f32::from_bits(size) + 0.5).to_bits() - 0.5f32.to_bits()
        } else {
            (size + 0xfff + (size >> 13 & 1) - 0x3800_0000) >> 13
        };
        Self(sign | bits as u16)
    }

    /// The float that it is.
    #[inline(always)]
    pub fn value(self) -> f32 {
        let (sign, size) = (u32::from(self.0 & 0x8000) << 16, u32::from(self.0 & 0x7fff));
        let value = match size >> 10 {
            0 => size as f32 / 16_777_216.0,
            31 => f32::from_bits(0x7f80_0000 | size << 13),
            _ => f32::from_bits((size << 13) + 0x3800_0000),
        };
        f32::from_bits(sign | value.to_bits())
    }
}

/// What a matrix holds.
pub trait Entry: Pod + Send + Sync + Debug {
    /// 16 of them.
    type Line: Pod + Send + Sync + Debug;
}

impl Entry for f32 {
    type Line = Line;
}

impl Entry for F16 {
    type Line = HalfLine;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_floats_are_the_nearest_ones() {
        // Every short float is itself, and the middle of two is the even one.
        for bits in 0..0x7c00u16 {
            let x = F16(bits).value();
            assert_eq!((F16::new(x), F16::new(-x)), (F16(bits), F16(bits | 0x8000)), "{bits:x}");
            let middle = (x + F16(bits + 1).value()) / 2.0;
            if middle.is_finite() {
                assert_eq!(F16::new(middle), F16((bits + 1) & !1), "{bits:x}");
            }
        }
        assert_eq!(
            [65519.0, 65520.0, f32::INFINITY].map(|x| F16::new(x).0),
            [0x7bff, 0x7c00, 0x7c00]
        );
        assert!(F16::new(f32::NAN).value().is_nan() && F16::new(-f32::NAN).value().is_nan());
        assert_eq!(F16::new(f32::NEG_INFINITY).value(), f32::NEG_INFINITY);
    }
}
