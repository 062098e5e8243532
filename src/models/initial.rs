//! Initial values of the weights, by `model.init`, drawn by a seed. [`Network`](super::Network)
//! decides which parameter gets them.

use crate::config::Init;
use crate::dense::Matrix;
use crate::nn::{InputShape, Mapped, Slot, random};
use crate::solver::posedness::infinity_norm;

/// Share of a bank's input that comes from the bank before it. With kappa 0.95 it keeps both about
/// equally large while the second reaches farther.
const CASCADE_SHARE: f64 = 0.1;

/// The factor that brings the initial values of an input map within sqrt(6 / (p + m)), for p
/// columns and width m. Tables of learned features stay within 1 / sqrt(m).
pub(super) fn glorot(input: &InputShape) -> f64 {
    match input.mapped {
        Mapped::Columns(p) => (6.0 * input.width as f64 / (p + input.width).max(1) as f64).sqrt(),
        Mapped::Learned(_) => 1.0,
    }
}

/// The initial W of a layer. `bank` is the number of columns per bank of the cascade.
pub(super) fn initial_weight(
    init: Init,
    slot: &Slot,
    radius: f64,
    bank: usize,
    seed: u64,
) -> Matrix {
    let m = slot.shape.0;
    let uniform = || random::uniform(seed, &slot.name, m, m, 1.0 / (m as f64).sqrt());
    match init {
        Init::Uniform => uniform(),
        Init::Identity => Matrix::from_fn(m, m, |k, l| if k == l { radius as f32 } else { 0.0 }),
        Init::Cascade => Matrix::from_fn(m, m, |k, l| {
            // Columns beyond the last whole bank get no input: some classes would have more columns
            // than others.
            let is_fed = k >= bank && k < m / bank.max(1) * bank;
            let heard = if is_fed { CASCADE_SHARE } else { 0.0 };
            let share = if k == l { 1.0 - heard } else { heard };
            if k == l || (is_fed && k == l + bank) { (radius * share) as f32 } else { 0.0 }
        }),
        Init::Scaled => {
            let drawn = uniform();
            let factor = radius / infinity_norm(drawn.view()).max(f64::MIN_POSITIVE);
            Matrix::from_fn(m, m, |k, l| (f64::from(drawn.row(k)[l]) * factor) as f32)
        }
    }
}
