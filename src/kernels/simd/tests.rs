//! Every instruction set of this processor against scalar arithmetic.

use super::*;
use half::f16;

use crate::kernels::Activation;

/// Operations on (a, b, c) by name, and their results.
type Results = Vec<(&'static str, [f32; 16])>;

struct Operations {
    a: Line,
    b: Line,
    c: Line,
}

impl Kernel for Operations {
    type Output = Results;

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> Results {
        assert_eq!(Isa::TILE % ROWS, 0);
        let (a, b, c) = (L::load(&self.a), L::load(&self.b), L::load(&self.c));
        L::prefetch(std::ptr::null());
        let mut line = Line([0.0; 16]);
        a.stream(&mut line);
        let mut halves = [HalfLine([f16::ZERO; 16]); 2];
        a.store_half(&mut halves[0]);
        a.stream_half(&mut halves[1]);
        L::fence();
        vec![
            ("stream", line.0),
            ("store_half", L::load_half(&halves[0]).to_array()),
            ("stream_half", halves[1].0.map(f16::to_f32)),
            ("splat", L::splat(self.a.0[3]).to_array()),
            ("add", a.add(b).to_array()),
            ("sub", a.sub(b).to_array()),
            ("mul", a.mul(b).to_array()),
            ("div", a.div(b).to_array()),
            ("mul_add", a.mul_add(b, c).to_array()),
            ("abs", a.abs().to_array()),
            ("clamp", a.clamp(L::splat(1.5)).to_array()),
            ("max_bits", a.abs().max_bits(b.abs()).to_array()),
            ("where_negative", a.where_negative(b).to_array()),
            ("if_positive", a.if_positive(b, c).to_array()),
            ("by_bits", L::by_bits(0b1010_0110_0000_1111, a, b).to_array()),
            ("round", a.round().to_array()),
            ("power_of_two", a.round().power_of_two().to_array()),
            ("tanh", tanh(a).to_array()),
            ("sigmoid", sigmoid(a).to_array()),
            ("elu", elu(a).to_array()),
        ]
    }
}

fn expected(name: &str, lane: usize, a: f32, b: f32, c: f32, first: f32) -> f32 {
    match name {
        "stream" => a,
        "store_half" => f16::from_f32(a).to_f32(),
        "stream_half" => f16::from_f32(a).to_f32(),
        "splat" => first,
        "add" => a + b,
        "sub" => a - b,
        "mul" => a * b,
        "div" => a / b,
        "mul_add" => a * b + c,
        "abs" => a.abs(),
        "clamp" => a.clamp(-1.5, 1.5),
        "max_bits" => a.abs().max(b.abs()),
        "where_negative" => {
            if a < 0.0 {
                b
            } else {
                a
            }
        }
        "if_positive" => {
            if a > 0.0 {
                b
            } else {
                c
            }
        }
        "by_bits" => {
            if 0b1010_0110_0000_1111 >> lane & 1 == 1 {
                a
            } else {
                b
            }
        }
        "round" => a.round_ties_even(),
        "power_of_two" => a.round_ties_even().exp2(),
        "tanh" => Activation::Tanh.value(a),
        "sigmoid" => Activation::Sigmoid.value(a),
        "elu" => Activation::Elu.value(a),
        _ => unreachable!("{name}"),
    }
}

#[test]
fn every_operation_on_every_lane() {
    let sets = Isa::available();
    println!(
        "tested: {:?}; sets that this processor lacks were not",
        sets.iter().map(|s| s.name()).collect::<Vec<_>>()
    );
    for isa in sets {
        for step in 0..400 {
            let line = |phase: f32| {
                let entry = |lane: usize| {
                    let t = (step * 16 + lane) as f32;
                    // From far below 1 to where the exponential overflows.
                    (t * 0.7 + phase).sin() * 10f32.powf((t * 0.013).sin() * 3.0 - 1.0)
                };
                Line(std::array::from_fn(entry))
            };
            let (a, b, c) = (line(0.0), line(1.0), line(2.0));
            for (name, found) in isa.dispatch(Operations { a, b, c }) {
                for (lane, &found) in found.iter().enumerate() {
                    let (x, y, z) = (a.0[lane], b.0[lane], c.0[lane]);
                    let expected = expected(name, lane, x, y, z, a.0[3]);
                    if name == "power_of_two" && x.abs() > 126.0 {
                        continue;
                    }
                    let error = (f64::from(found) - f64::from(expected)).abs();
                    let size = match name {
                        // Rounded once or twice; relative to the larger part.
                        "mul_add" => (x * y).abs().max(z.abs()),
                        _ => expected.abs(),
                    };
                    assert!(
                        error <= 6.0 * f64::from(f32::EPSILON) * f64::from(size) + 1e-37,
                        "{} {name}({x}, {y}, {z}): found {found}, expected {expected}",
                        isa.name(),
                    );
                }
            }
        }
    }
}

/// The operation that moves lanes.
struct Moves {
    floats: Line,
    order: Order,
}

impl Kernel for Moves {
    type Output = [f32; 16];

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> Self::Output {
        L::load(&self.floats).permute(&self.order).to_array()
    }
}

#[test]
fn lanes_move_alike_on_every_set() {
    let floats = Line(std::array::from_fn(|lane| 1.0 / (lane as f32 + 3.0)));
    let order = Order(std::array::from_fn(|lane| lane as u32 ^ 5));
    for isa in Isa::available() {
        let permuted = isa.dispatch(Moves { floats, order });
        assert_eq!(permuted, std::array::from_fn(|lane| floats.0[lane ^ 5]), "{}", isa.name());
    }
}

#[test]
fn nan_is_propagated() {
    for isa in Isa::available() {
        let nan = Line([f32::NAN; 16]);
        for (name, found) in
            isa.dispatch(Operations { a: nan, b: Line([1.0; 16]), c: Line([2.0; 16]) })
        {
            match name {
                "if_positive" => assert_eq!(found, [2.0; 16]),
                "power_of_two" | "by_bits" => {}
                _ => assert!(found.iter().all(|x| x.is_nan()), "{} {name}: {found:?}", isa.name()),
            }
        }
        let extremes = Line(std::array::from_fn(|lane| if lane % 2 == 0 { 1e30 } else { -1e30 }));
        for (name, found) in isa.dispatch(Operations { a: extremes, b: extremes, c: extremes }) {
            match name {
                "tanh" => assert_eq!(found[..2], [1.0, -1.0]),
                "sigmoid" => assert!(found[0] == 1.0 && found[1].abs() < 1e-37),
                "elu" => assert_eq!(found[..2], [1e30, -1.0]),
                _ => {}
            }
        }
    }
}

/// Loads 16-bit floats, and rounds a line to them in both ways.
struct Halves {
    load: HalfLine,
    store: Line,
}

impl Kernel for Halves {
    type Output = ([f32; 16], [[u16; 16]; 2]);

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> Self::Output {
        let mut lines = [HalfLine([f16::ZERO; 16]); 2];
        L::load(&self.store).store_half(&mut lines[0]);
        L::load(&self.store).stream_half(&mut lines[1]);
        L::fence();
        (L::load_half(&self.load).to_array(), lines.map(|line| line.0.map(f16::to_bits)))
    }
}

#[test]
fn conversions_of_16_bit_floats_have_the_bits_of_half() {
    for isa in Isa::available() {
        // Every finite positive 16-bit float, 16 at a time, with both signs by turns.
        for first in (0..0x7c00u16).step_by(16) {
            let half = |lane: usize| {
                f16::from_bits(
                    (first + lane as u16) | if lane.is_multiple_of(2) { 0 } else { 0x8000 },
                )
            };
            let next = |lane: usize| f16::from_bits(half(lane).to_bits() + 1);
            let load = HalfLine(std::array::from_fn(half));
            // The middle between neighbours is a tie; a little more or less is not.
            for nudge in [0.0f32, 1e-3, -1e-3] {
                let middle = |lane: usize| {
                    let (low, high) = (half(lane).to_f32(), next(lane).to_f32());
                    if high.is_finite() { low + (high - low) * (0.5 + nudge) } else { low }
                };
                let store = Line(std::array::from_fn(middle));
                let (loaded, stored) = isa.dispatch(Halves { load, store });
                assert_eq!(loaded, load.0.map(f16::to_f32), "{} {first:x}", isa.name());
                let expected = store.0.map(|x| f16::from_f32(x).to_bits());
                assert_eq!(stored, [expected; 2], "{} {first:x} {nudge}", isa.name());
            }
        }
        let extremes = [65519.0, 65520.0, -65520.0, 1e-8, -1e-8, f32::INFINITY, -0.0, 6e-8];
        let store = Line(std::array::from_fn(|lane| extremes[lane % 8]));
        let (_, stored) = isa.dispatch(Halves { load: HalfLine([f16::ZERO; 16]), store });
        assert_eq!(stored, [store.0.map(|x| f16::from_f32(x).to_bits()); 2], "{}", isa.name());
    }
}
