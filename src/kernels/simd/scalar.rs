//! 16 lanes as an array, in loops that compilers vectorise. There is no fused multiply-add, which
//! is a slow call on processors without it. The reference for the other instruction sets.

use super::{Lanes, Order};
use half::f16;

use crate::dense::{HalfLine, Line};

#[derive(Clone, Copy)]
pub struct Scalar([f32; 16]);

#[inline(always)]
fn zip(a: Scalar, b: Scalar, f: impl Fn(f32, f32) -> f32) -> Scalar {
    let mut out = a;
    for (a, b) in out.0.iter_mut().zip(b.0) {
        *a = f(*a, b);
    }
    out
}

impl Lanes for Scalar {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        Self([x; 16])
    }

    #[inline(always)]
    fn load(line: &Line) -> Self {
        Self(line.0)
    }

    #[inline(always)]
    fn store(self, line: &mut Line) {
        line.0 = self.0;
    }

    #[inline(always)]
    fn stream(self, line: &mut Line) {
        self.store(line);
    }

    #[inline(always)]
    fn permute(self, order: &Order) -> Self {
        Self(order.0.map(|lane| self.0[lane as usize % 16]))
    }

    #[inline(always)]
    fn load_half(line: &HalfLine) -> Self {
        Self(line.0.map(f16::to_f32))
    }

    #[inline(always)]
    fn store_half(self, line: &mut HalfLine) {
        line.0 = self.0.map(f16::from_f32);
    }

    #[inline(always)]
    fn stream_half(self, line: &mut HalfLine) {
        self.store_half(line);
    }

    #[inline(always)]
    fn fence() {}

    #[inline(always)]
    fn prefetch(_address: *const Line) {}

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        zip(self, other, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        zip(self, other, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        zip(self, other, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        zip(self, other, |a, b| a / b)
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        self.mul(factor).add(term)
    }

    #[inline(always)]
    fn abs(self) -> Self {
        zip(self, self, |a, _| a.abs())
    }

    #[inline(always)]
    fn clamp(self, limit: Self) -> Self {
        zip(self, limit, |x, limit| {
            let x = if x > limit { limit } else { x };
            if x < -limit { -limit } else { x }
        })
    }

    #[inline(always)]
    fn max_bits(self, other: Self) -> Self {
        zip(self, other, |a, b| f32::from_bits(a.to_bits().max(b.to_bits())))
    }

    #[inline(always)]
    fn where_negative(self, then: Self) -> Self {
        zip(self, then, |x, then| if x < 0.0 { then } else { x })
    }

    #[inline(always)]
    fn if_positive(self, then: Self, otherwise: Self) -> Self {
        let mut out = otherwise;
        for (out, (x, then)) in out.0.iter_mut().zip(self.0.into_iter().zip(then.0)) {
            *out = if x > 0.0 { then } else { *out };
        }
        out
    }

    #[inline(always)]
    fn by_bits(bits: u16, set: Self, clear: Self) -> Self {
        let mut out = clear;
        for (lane, (out, set)) in out.0.iter_mut().zip(set.0).enumerate() {
            *out = if bits >> lane & 1 == 1 { set } else { *out };
        }
        out
    }

    #[inline(always)]
    fn round(self) -> Self {
        // Adding 1.5 * 2^23 leaves no bits for a fraction.
        const SHIFT: f32 = 12_582_912.0;
        zip(self, self, |x, _| (x + SHIFT) - SHIFT)
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        zip(self, self, |x, _| f32::from_bits(((x as i32).wrapping_add(127) << 23) as u32))
    }
}
