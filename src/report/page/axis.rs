//! Axes: positions of values, and ticks. `chart` draws them.

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear.
    Linear,
    /// Logarithmic; values of 0 and below are not shown.
    Log,
}

/// An axis: label, scale, and values that it must include.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// The scale.
    pub scale: Scale,
    /// Values that the axis includes whatever the data.
    pub include: Vec<f64>,
}

/// An axis with its ends and ticks.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    pub scale: Scale,
    pub from: f64,
    pub to: f64,
    pub ticks: Vec<(f64, String)>,
}

/// Approximate number of ticks.
const TICKS: f64 = 5.0;
/// Values that span a larger factor get a logarithmic axis if the caller leaves the choice open.
const LOG_FROM: f64 = 50.0;

impl Scale {
    /// Logarithmic for values that span orders of magnitude, linear otherwise.
    pub fn fitting(values: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|value| value.is_finite()) {
            if value <= 0.0 {
                return Self::Linear;
            }
            (least, most) = (least.min(value), most.max(value));
        }
        if most > LOG_FROM * least { Self::Log } else { Self::Linear }
    }
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, include: Vec::new() }
    }

    /// An axis with this scale.
    pub fn scaled(label: impl Into<String>, scale: Scale) -> Self {
        Self { scale, ..Self::linear(label) }
    }

    /// The same axis, including these values.
    pub fn including(mut self, values: &[f64]) -> Self {
        self.include.extend(values);
        self
    }

    /// Whether a value can be shown.
    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// Ends and ticks for these values; `None` without values. A `tight` axis ends where the values
    /// do.
    pub(super) fn fit(&self, values: impl Iterator<Item = f64>, tight: bool) -> Option<Fitted> {
        let values = values.chain(self.include.iter().copied()).filter(|&value| self.shows(value));
        let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
            let (from, to) = ends.unwrap_or((value, value));
            Some((from.min(value), to.max(value)))
        });
        let (from, to) = ends?;
        Some(match self.scale {
            Scale::Linear => linear(from, to, tight),
            Scale::Log => logarithmic(from, to),
        })
    }
}

impl Fitted {
    /// Position between 0 and 1.
    pub fn at(&self, value: f64) -> f64 {
        let (from, to, value) = match self.scale {
            Scale::Linear => (self.from, self.to, value),
            Scale::Log => (self.from.log10(), self.to.log10(), value.log10()),
        };
        if to > from { (value - from) / (to - from) } else { 0.5 }
    }
}

fn linear(mut from: f64, mut to: f64, tight: bool) -> Fitted {
    if to - from <= f64::EPSILON * to.abs().max(from.abs()) {
        // A single value is centred.
        let room = if to == 0.0 { 1.0 } else { 0.5 * to.abs() };
        (from, to) = (from - room, to + room);
    }
    let step = nice((to - from) / TICKS);
    let (first, last) = match tight {
        true => ((from / step).ceil(), (to / step).floor()),
        false => ((from / step + 1e-9).floor(), (to / step - 1e-9).ceil()),
    };
    if !tight {
        (from, to) = (first * step, last * step);
    }
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let ticks = (0..=(last - first).max(0.0) as usize).map(|at| {
        let value = (first + at as f64) * step;
        // Never "-0".
        let value = if value.abs() < step * 1e-6 { 0.0 } else { value };
        (value, plain(value, decimals))
    });
    Fitted { scale: Scale::Linear, from, to, ticks: ticks.collect() }
}

fn logarithmic(from: f64, to: f64) -> Fitted {
    let steps = [1.0, 2.0, 5.0, 10.0];
    // Ends at 1, 2 or 5 times a power of ten.
    let below = |value: f64| {
        let power = 10f64.powf(value.log10().floor());
        power
            * steps
                .into_iter()
                .rev()
                .find(|step| step * power <= value * (1.0 + 1e-9))
                .unwrap_or(1.0)
    };
    let above = |value: f64| {
        let power = 10f64.powf(value.log10().floor());
        power * steps.into_iter().find(|step| step * power >= value * (1.0 - 1e-9)).unwrap_or(10.0)
    };
    let (mut from, mut to) = (below(from), above(to));
    if to <= from * (1.0 + 1e-9) {
        (from, to) = (from / 10.0, to * 10.0);
    }
    let (low, high) = ((from.log10() + 1e-9).floor() as i32, (to.log10() - 1e-9).ceil() as i32);
    let every = (f64::from(high - low) / TICKS).ceil().max(1.0) as i32;
    // With few powers of ten, there is room for ticks between them.
    let between: &[u32] = if high - low <= 2 { &[1, 2, 5] } else { &[1] };
    let is_plain = low >= -2 && high <= 4;
    let mut ticks = Vec::new();
    for power in (low..=high).filter(|power| (power - low) % every == 0) {
        for &digit in between {
            let value = f64::from(digit) * 10f64.powi(power);
            if value >= from * (1.0 - 1e-9) && value <= to * (1.0 + 1e-9) {
                ticks.push((value, logarithmic_label(digit, power, is_plain)));
            }
        }
    }
    Fitted { scale: Scale::Log, from, to, ticks }
}

/// The next of 1, 2, 5 times a power of ten.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = step / power;
    let factor =
        [1.0, 2.0, 5.0].into_iter().find(|nice| factor <= nice * (1.0 + 1e-9)).unwrap_or(10.0);
    factor * power
}

/// A number, with thousands separators if it is large.
fn plain(value: f64, decimals: usize) -> String {
    if value.abs() >= 1e7 || decimals > 6 {
        return format!("{value:.1e}");
    }
    if decimals == 0 {
        let digits = super::super::quantity::count(value.abs().round() as u64);
        return if value < 0.0 { format!("−{digits}") } else { digits };
    }
    format!("{value:.decimals$}").replace('-', "−")
}

/// `10⁻⁵`, `2·10⁻⁵`, or plain numbers if all labels of the axis are short.
fn logarithmic_label(digit: u32, power: i32, is_plain: bool) -> String {
    if is_plain {
        let value = f64::from(digit) * 10f64.powi(power);
        return plain(value, -power.min(0) as usize);
    }
    let digits = power.to_string();
    let raised = digits.chars().map(|c| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
    });
    let power = format!("10{}", raised.collect::<String>());
    if digit == 1 { power } else { format!("{digit}·{power}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64], tight: bool) -> Vec<String> {
        let fitted = axis.fit(values.iter().copied(), tight).unwrap();
        fitted.ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        let axis = Axis::linear("x");
        assert_eq!(labels(&axis, &[0.0, 1.0], false), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&axis, &[0.13, 0.87], false), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&axis, &[0.0, 1234.0], true), ["0", "500", "1,000"]);
        assert_eq!(labels(&axis, &[-1.0, 1.0], false), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(
            labels(&axis, &[3.0], false),
            ["1", "2", "3", "4", "5"],
            "one value alone has an axis too"
        );
        let log = Axis::scaled("x", Scale::Log);
        assert_eq!(labels(&log, &[2e-5, 0.5], false), ["10⁻⁴", "10⁻³", "10⁻²", "10⁻¹"]);
        assert_eq!(labels(&log, &[2e4, 3e6], false), ["10⁵", "10⁶"]);
        assert_eq!(labels(&log, &[1.5e-5, 8e-5], false), ["10⁻⁵", "2·10⁻⁵", "5·10⁻⁵", "10⁻⁴"]);
        assert_eq!(labels(&log, &[0.5, 60.0], false), ["1", "10", "100"]);
    }

    #[test]
    fn ends_hold_all_that_is_asked_for() {
        let axis = Axis::linear("x").including(&[0.0, 1.0]);
        let fitted = axis.fit([0.4, f64::NAN].into_iter(), false).unwrap();
        assert_eq!((fitted.from, fitted.to, fitted.at(0.5)), (0.0, 1.0, 0.5));
        assert!(Axis::linear("x").fit([f64::INFINITY].into_iter(), false).is_none());
        let log = Axis::scaled("x", Scale::Log);
        assert!(!log.shows(0.0) && log.fit([0.0].into_iter(), false).is_none());
        assert_eq!(log.fit([0.1, 10.0].into_iter(), false).unwrap().at(1.0), 0.5);
    }

    #[test]
    fn the_scale_follows_the_span() {
        assert_eq!(Scale::fitting([1.0, 40.0].into_iter()), Scale::Linear);
        assert_eq!(Scale::fitting([1e-6, 0.1, f64::NAN].into_iter()), Scale::Log);
        assert_eq!(Scale::fitting([0.0, 1000.0].into_iter()), Scale::Linear);
        assert_eq!(Scale::fitting([].into_iter()), Scale::Linear);
    }
}
