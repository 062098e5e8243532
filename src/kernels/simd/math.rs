//! Exponential, tanh, sigmoid and elu on 16 lanes, to a few units in the last place.
//! NaN in, NaN out; the scalar definitions are in `activation`.
//!
//! x = n ln 2 + r with |r| <= ln(2) / 2; exp(r) - 1 is its series to r^7, whose next term is below
//! 2^-27 of it. Then exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1) without cancellation near 0.

use super::Lanes;

/// Beyond it exp leaves the normal numbers.
const LIMIT: f32 = 87.0;
/// ln 2 in two parts, the first with so few bits that its products with n are exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// (2^n, exp(r) - 1)
#[inline(always)]
fn parts<L: Lanes>(x: L) -> (L, L) {
    let x = x.clamp(L::splat(LIMIT));
    let n = x.mul(L::splat(std::f32::consts::LOG2_E)).round();
    let r = n.mul_add(L::splat(-LN_2_HIGH), x);
    let r = n.mul_add(L::splat(-LN_2_LOW), r);
    let mut sum = L::splat(1.0 / 5040.0);
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0] {
        sum = sum.mul_add(r, L::splat(coefficient));
    }
    (n.power_of_two(), sum.mul(r))
}

#[inline(always)]
fn exp_m1<L: Lanes>(x: L) -> L {
    let (scale, rest) = parts(x);
    scale.mul_add(rest, scale.sub(L::splat(1.0)))
}

/// 1 / (1 + exp(-x))
#[inline(always)]
pub fn sigmoid<L: Lanes>(x: L) -> L {
    let one = L::splat(1.0);
    let (scale, rest) = parts(L::splat(0.0).sub(x));
    one.div(one.add(scale.mul_add(rest, scale)))
}

/// tanh x = t / (t + 2), t = exp(2x) - 1
#[inline(always)]
pub fn tanh<L: Lanes>(x: L) -> L {
    // tanh 10 is 1 in f32.
    let x = x.clamp(L::splat(10.0));
    let t = exp_m1(x.add(x));
    t.div(t.add(L::splat(2.0)))
}

/// x where positive, else exp(x) - 1
#[inline(always)]
pub fn elu<L: Lanes>(x: L) -> L {
    x.where_negative(exp_m1(x))
}
