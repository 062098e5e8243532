//! 16 lanes in two AVX2 registers, with fused multiply-add and conversions of 16-bit floats.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Kernel, Lanes, Order};
use crate::dense::{HalfLine, Line};

/// 6 rows of a line are 12 accumulators of the 16 registers; the others hold the line of the weight
/// and a factor.
const ROWS: usize = 6;

pub fn is_available() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn enabled<K: Kernel>(kernel: K) -> K::Output {
        kernel.compute::<Avx2, ROWS, 1>()
    }
    assert!(is_available());
    // SAFETY: the assertion has checked that the processor has all of them.
    unsafe { enabled(kernel) }
}

#[derive(Clone, Copy)]
pub struct Avx2(__m256, __m256);

/// Functions of [`Lanes`] whose body needs the instruction set; `this` is `self`.
macro_rules! enabled {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $output:ty)? $body:block)*) => {$(
        #[inline(always)]
        fn $name($($argument: $type),*) $(-> $output)? {
            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn enabled($($argument: $type),*) $(-> $output)? $body
            // SAFETY: `Avx2` is named by `dispatch` alone, which checks the processor first.
            unsafe { enabled($($argument),*) }
        }
    )*};
    ($(method $name:ident($this:ident $(, $argument:ident: $type:ty)*) $(-> $output:ty)? $body:block)*) => {$(
        #[inline(always)]
        fn $name(self $(, $argument: $type)*) $(-> $output)? {
            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn enabled($this: Avx2 $(, $argument: $type)*) $(-> $output)? $body
            // SAFETY: as above.
            unsafe { enabled(self $(, $argument)*) }
        }
    )*};
}

impl Lanes for Avx2 {
    enabled! {
        fn splat(x: f32) -> Avx2 {
            let x = _mm256_set1_ps(x);
            Avx2(x, x)
        }
        fn load(line: &Line) -> Avx2 {
            let start = line.0.as_ptr();
            // SAFETY: the first half of a line, aligned to 64 bytes.
            let low = unsafe { _mm256_load_ps(start) };
            // SAFETY: the second half, aligned to 32 bytes.
            let high = unsafe { _mm256_load_ps(start.wrapping_add(8)) };
            Avx2(low, high)
        }
        fn load_half(line: &HalfLine) -> Avx2 {
            let start: *const __m128i = line.0.as_ptr().cast();
            // SAFETY: the first half of a half line, aligned to 32 bytes.
            let low = unsafe { _mm_load_si128(start) };
            // SAFETY: the second half, aligned to 16 bytes.
            let high = unsafe { _mm_load_si128(start.wrapping_add(1)) };
            Avx2(_mm256_cvtph_ps(low), _mm256_cvtph_ps(high))
        }
        fn fence() {
            _mm_sfence();
        }
        fn prefetch(address: *const Line) {
            _mm_prefetch::<_MM_HINT_T1>(address.cast());
        }
        fn by_bits(bits: u16, set: Avx2, clear: Avx2) -> Avx2 {
            let bits = _mm256_set1_epi32(i32::from(bits));
            let low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let high = _mm256_slli_epi32::<8>(low);
            let choose = |lanes, set, clear| {
                let chosen = _mm256_cmpeq_epi32(_mm256_and_si256(bits, lanes), lanes);
                _mm256_blendv_ps(clear, set, _mm256_castsi256_ps(chosen))
            };
            Avx2(choose(low, set.0, clear.0), choose(high, set.1, clear.1))
        }
    }

    enabled! {
        method store_half(this, line: &mut HalfLine) {
            let start: *mut __m128i = line.0.as_mut_ptr().cast();
            // SAFETY: the first half of a half line that is ours, aligned to 32 bytes.
            unsafe { _mm_store_si128(start, _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(this.0)) };
            let high = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(this.1);
            // SAFETY: the second half, aligned to 16 bytes.
            unsafe { _mm_store_si128(start.wrapping_add(1), high) };
        }
        method stream_half(this, line: &mut HalfLine) {
            let start: *mut __m128i = line.0.as_mut_ptr().cast();
            // SAFETY: the first half of a half line that is ours, aligned; nobody reads it before
            // the caller's fence.
            unsafe { _mm_stream_si128(start, _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(this.0)) };
            let high = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(this.1);
            // SAFETY: the second half, likewise.
            unsafe { _mm_stream_si128(start.wrapping_add(1), high) };
        }
        method store(this, line: &mut Line) {
            let start = line.0.as_mut_ptr();
            // SAFETY: the first half of a line that is ours, aligned to 64 bytes.
            unsafe { _mm256_store_ps(start, this.0) };
            // SAFETY: the second half, aligned to 32 bytes.
            unsafe { _mm256_store_ps(start.wrapping_add(8), this.1) };
        }
        method stream(this, line: &mut Line) {
            let start = line.0.as_mut_ptr();
            // SAFETY: the first half of a line that is ours, aligned; nobody reads it before the
            // caller's fence.
            unsafe { _mm256_stream_ps(start, this.0) };
            // SAFETY: the second half, likewise.
            unsafe { _mm256_stream_ps(start.wrapping_add(8), this.1) };
        }
        method permute(this, order: &Order) -> Avx2 {
            let start: *const __m256i = order.0.as_ptr().cast();
            // SAFETY: the first half of 16 numbers, aligned to 64 bytes.
            let low = unsafe { _mm256_load_si256(start) };
            // SAFETY: the second half, aligned to 32 bytes.
            let high = unsafe { _mm256_load_si256(start.wrapping_add(1)) };
            // The three lowest bits count.
            Avx2(_mm256_permutevar8x32_ps(this.0, low), _mm256_permutevar8x32_ps(this.1, high))
        }
        method add(this, other: Avx2) -> Avx2 {
            Avx2(_mm256_add_ps(this.0, other.0), _mm256_add_ps(this.1, other.1))
        }
        method sub(this, other: Avx2) -> Avx2 {
            Avx2(_mm256_sub_ps(this.0, other.0), _mm256_sub_ps(this.1, other.1))
        }
        method mul(this, other: Avx2) -> Avx2 {
            Avx2(_mm256_mul_ps(this.0, other.0), _mm256_mul_ps(this.1, other.1))
        }
        method div(this, other: Avx2) -> Avx2 {
            Avx2(_mm256_div_ps(this.0, other.0), _mm256_div_ps(this.1, other.1))
        }
        method mul_add(this, factor: Avx2, term: Avx2) -> Avx2 {
            Avx2(_mm256_fmadd_ps(this.0, factor.0, term.0), _mm256_fmadd_ps(this.1, factor.1, term.1))
        }
        method abs(this) -> Avx2 {
            let sign = _mm256_set1_ps(-0.0);
            Avx2(_mm256_andnot_ps(sign, this.0), _mm256_andnot_ps(sign, this.1))
        }
        method clamp(this, limit: Avx2) -> Avx2 {
            let zero = _mm256_setzero_ps();
            // The second operand is returned where one is NaN.
            let clamp = |x, limit| {
                let x = _mm256_min_ps(limit, x);
                _mm256_max_ps(_mm256_sub_ps(zero, limit), x)
            };
            Avx2(clamp(this.0, limit.0), clamp(this.1, limit.1))
        }
        method max_bits(this, other: Avx2) -> Avx2 {
            let max = |a, b| {
                _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), _mm256_castps_si256(b)))
            };
            Avx2(max(this.0, other.0), max(this.1, other.1))
        }
        method where_negative(this, then: Avx2) -> Avx2 {
            let zero = _mm256_setzero_ps();
            let choose = |x, then| _mm256_blendv_ps(x, then, _mm256_cmp_ps::<_CMP_LT_OQ>(x, zero));
            Avx2(choose(this.0, then.0), choose(this.1, then.1))
        }
        method if_positive(this, then: Avx2, otherwise: Avx2) -> Avx2 {
            let zero = _mm256_setzero_ps();
            let choose = |x, then, otherwise| {
                _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps::<_CMP_GT_OQ>(x, zero))
            };
            Avx2(choose(this.0, then.0, otherwise.0), choose(this.1, then.1, otherwise.1))
        }
        method round(this) -> Avx2 {
            const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
            Avx2(_mm256_round_ps::<NEAREST>(this.0), _mm256_round_ps::<NEAREST>(this.1))
        }
        method power_of_two(this) -> Avx2 {
            let power = |x| {
                let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
            };
            Avx2(power(this.0), power(this.1))
        }
    }
}
