//! 16 lanes in one AVX-512 register.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Kernel, Lanes, Order};
use crate::dense::{HalfLine, Line};

/// 12 rows of 2 lines are 24 accumulators of the 32 registers.
const ROWS: usize = 12;
const PANELS: usize = 2;

pub fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
}

pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[target_feature(enable = "avx512f")]
    fn enabled<K: Kernel>(kernel: K) -> K::Output {
        kernel.compute::<Avx512, ROWS, PANELS>()
    }
    assert!(is_available());
    // SAFETY: the assertion has checked that the processor has the feature.
    unsafe { enabled(kernel) }
}

#[derive(Clone, Copy)]
pub struct Avx512(__m512);

/// Functions of [`Lanes`] whose body needs the instruction set; `this` is `self`.
macro_rules! enabled {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $output:ty)? $body:block)*) => {$(
        #[inline(always)]
        fn $name($($argument: $type),*) $(-> $output)? {
            #[inline]
            #[target_feature(enable = "avx512f")]
            fn enabled($($argument: $type),*) $(-> $output)? $body
            // SAFETY: `Avx512` is named by `dispatch` alone, which checks the processor first.
            unsafe { enabled($($argument),*) }
        }
    )*};
    ($(method $name:ident($this:ident $(, $argument:ident: $type:ty)*) $(-> $output:ty)? $body:block)*) => {$(
        #[inline(always)]
        fn $name(self $(, $argument: $type)*) $(-> $output)? {
            #[inline]
            #[target_feature(enable = "avx512f")]
            fn enabled($this: Avx512 $(, $argument: $type)*) $(-> $output)? $body
            // SAFETY: as above.
            unsafe { enabled(self $(, $argument)*) }
        }
    )*};
}

impl Lanes for Avx512 {
    enabled! {
        fn splat(x: f32) -> Avx512 {
            Avx512(_mm512_set1_ps(x))
        }
        fn load(line: &Line) -> Avx512 {
            // SAFETY: a whole line, aligned to 64 bytes.
            Avx512(unsafe { _mm512_load_ps(line.0.as_ptr()) })
        }
        fn load_half(line: &HalfLine) -> Avx512 {
            // SAFETY: a whole half line, aligned to 32 bytes.
            let half = unsafe { _mm256_load_si256(line.0.as_ptr().cast()) };
            Avx512(_mm512_cvtph_ps(half))
        }
        fn fence() {
            _mm_sfence();
        }
        fn prefetch(address: *const Line) {
            _mm_prefetch::<_MM_HINT_T1>(address.cast());
        }
        fn by_bits(bits: u16, set: Avx512, clear: Avx512) -> Avx512 {
            Avx512(_mm512_mask_blend_ps(bits, clear.0, set.0))
        }
    }

    enabled! {
        method store_half(this, line: &mut HalfLine) {
            let half = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(this.0);
            // SAFETY: a whole half line that is ours, aligned to 32 bytes.
            unsafe { _mm256_store_si256(line.0.as_mut_ptr().cast(), half) };
        }
        method stream_half(this, line: &mut HalfLine) {
            let half = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(this.0);
            // SAFETY: a whole half line that is ours, aligned; nobody reads it before the caller's
            // fence.
            unsafe { _mm256_stream_si256(line.0.as_mut_ptr().cast(), half) };
        }
        method store(this, line: &mut Line) {
            // SAFETY: a whole line that is ours, aligned to 64 bytes.
            unsafe { _mm512_store_ps(line.0.as_mut_ptr(), this.0) };
        }
        method stream(this, line: &mut Line) {
            // SAFETY: a whole line that is ours, aligned; nobody reads it before the caller's
            // fence.
            unsafe { _mm512_stream_ps(line.0.as_mut_ptr(), this.0) };
        }
        method permute(this, order: &Order) -> Avx512 {
            // SAFETY: 16 numbers, aligned to 64 bytes.
            let order = unsafe { _mm512_load_si512(order.0.as_ptr().cast()) };
            Avx512(_mm512_permutexvar_ps(order, this.0))
        }
        method add(this, other: Avx512) -> Avx512 {
            Avx512(_mm512_add_ps(this.0, other.0))
        }
        method sub(this, other: Avx512) -> Avx512 {
            Avx512(_mm512_sub_ps(this.0, other.0))
        }
        method mul(this, other: Avx512) -> Avx512 {
            Avx512(_mm512_mul_ps(this.0, other.0))
        }
        method div(this, other: Avx512) -> Avx512 {
            Avx512(_mm512_div_ps(this.0, other.0))
        }
        method mul_add(this, factor: Avx512, term: Avx512) -> Avx512 {
            Avx512(_mm512_fmadd_ps(this.0, factor.0, term.0))
        }
        method abs(this) -> Avx512 {
            Avx512(_mm512_abs_ps(this.0))
        }
        method clamp(this, limit: Avx512) -> Avx512 {
            // The second operand is returned where one is NaN.
            let x = _mm512_min_ps(limit.0, this.0);
            Avx512(_mm512_max_ps(_mm512_sub_ps(_mm512_setzero_ps(), limit.0), x))
        }
        method max_bits(this, other: Avx512) -> Avx512 {
            let (a, b) = (_mm512_castps_si512(this.0), _mm512_castps_si512(other.0));
            Avx512(_mm512_castsi512_ps(_mm512_max_epu32(a, b)))
        }
        method where_negative(this, then: Avx512) -> Avx512 {
            let negative = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(this.0, _mm512_setzero_ps());
            Avx512(_mm512_mask_blend_ps(negative, this.0, then.0))
        }
        method if_positive(this, then: Avx512, otherwise: Avx512) -> Avx512 {
            let positive = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(this.0, _mm512_setzero_ps());
            Avx512(_mm512_mask_blend_ps(positive, otherwise.0, then.0))
        }
        method round(this) -> Avx512 {
            Avx512(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(this.0))
        }
        method power_of_two(this) -> Avx512 {
            let exponent = _mm512_add_epi32(_mm512_cvtps_epi32(this.0), _mm512_set1_epi32(127));
            Avx512(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent)))
        }
    }
}
