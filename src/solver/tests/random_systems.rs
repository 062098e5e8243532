//! Random equations of every kind, each solved in f32 and by plain loops in f64: no true error is
//! above the certified one. A sample by default; `IGNN_CASES=100000` asks for more.

use rayon::prelude::*;

use super::super::ordered::{self, Order};
use super::super::testing::cases;
use super::super::testing::reference::value;
use super::*;
use crate::kernels::Signs;

const KAPPAS: [f64; 7] = [0.1, 0.3, 0.6, 0.9, 0.98, 0.99, 0.999];
const METHODS: [Method; 5] =
    [Method::Plain, Method::Auto, Method::Anderson, Method::Active, Method::Ordered];

/// The kinds of graphs.
const KINDS: [&str; 12] = [
    "empty",
    "path",
    "cycle",
    "star",
    "hubs",
    "grid",
    "random",
    "dense",
    "disconnected",
    "directed",
    "acyclic",
    "bipartite",
];

/// An equation, and how it is solved.
struct Case {
    equation: Equation,
    /// Right-hand side of the adjoint.
    right: Matrix,
    kappa: f64,
    params: SolveParams,
    /// What makes the case, for messages.
    words: String,
}

fn edges(kind: &str, nodes: usize, random: &mut Random) -> Vec<(usize, usize)> {
    let chance = |random: &mut Random, part: f64| random.unit() < part;
    let mut edges = Vec::new();
    let mut both = |i: usize, j: usize| edges.extend([(i, j), (j, i)]);
    match kind {
        "path" => (1..nodes).for_each(|i| both(i - 1, i)),
        "cycle" => (0..nodes).for_each(|i| both(i, (i + 1) % nodes)),
        "star" => (1..nodes).for_each(|i| both(0, i)),
        "hubs" => {
            for i in 2.min(nodes)..nodes {
                both(random.below(2), i);
                if chance(random, 0.2) {
                    both(random.below(nodes), i);
                }
            }
        }
        "grid" => {
            let width = (nodes as f64).sqrt() as usize;
            for i in 0..nodes {
                if (i + 1) % width != 0 && i + 1 < nodes {
                    both(i, i + 1);
                }
                if i + width < nodes {
                    both(i, i + width);
                }
            }
        }
        "random" | "dense" | "disconnected" | "bipartite" => {
            let part = if kind == "dense" { 0.8 } else { 0.25 };
            for i in 0..nodes {
                for j in 0..i {
                    let allowed = match kind {
                        "disconnected" => i / 3 == j / 3,
                        "bipartite" => i % 2 != j % 2,
                        _ => true,
                    };
                    if allowed && chance(random, part) {
                        both(i, j);
                    }
                }
            }
        }
        "directed" | "acyclic" => {
            for i in 0..nodes {
                for j in 0..nodes {
                    let allowed = i < j || (kind == "directed" && i != j);
                    if allowed && chance(random, 0.3) {
                        edges.push((i, j));
                    }
                }
            }
        }
        _ => {}
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn graph(kind: &str, nodes: usize, random: &mut Random) -> Graph {
    let mut edges = edges(kind, nodes, random);
    if random.below(3) == 0 {
        let loops: Vec<_> = (0..nodes).filter(|_| random.below(2) == 0).map(|i| (i, i)).collect();
        edges.retain(|(i, j)| i != j);
        edges.extend(loops);
    }
    let weighted = random.below(4);
    let value = |random: &mut Random| match weighted {
        0 => random.unit() as f32 * 3.0,
        1 => (random.sign() * 5.0).exp() as f32,
        _ => 1.0,
    };
    Graph { nodes, entries: edges.into_iter().map(|(i, j)| (i, j, value(random))).collect() }
}

/// A matrix of one scale, of a scale per row, or with few entries; scales from 1e-20 to 1e20.
fn input(nodes: usize, m: usize, random: &mut Random) -> Matrix {
    let scale = |random: &mut Random| 10f64.powf(20.0 * random.sign()) as f32;
    let (form, one) = (random.below(6), scale(random));
    let rows: Vec<f32> = (0..nodes).map(|_| scale(random)).collect();
    Matrix::from_fn(nodes, m, |i, _| {
        let entry = random.sign() as f32;
        match form {
            0 => entry * one,
            1 => entry * rows[i],
            2 => entry.abs() * one,
            3 if random.below(8) != 0 => 0.0,
            _ => entry,
        }
    })
}

/// Dense or sparse, signed or not, every row of this L1 norm.
fn weight(m: usize, norm: f64, random: &mut Random) -> Matrix {
    let (is_sparse, is_positive) = (random.below(3) == 0, random.below(3) == 0);
    let mut w = Matrix::from_fn(m, m, |_, _| {
        let entry = random.sign() as f32;
        match (is_sparse && random.below(4) != 0, is_positive) {
            (true, _) => 0.0,
            (_, true) => entry.abs(),
            _ => entry,
        }
    });
    for k in 0..m {
        let sum: f32 = w.row(k).iter().map(|x| x.abs()).sum();
        if sum > 0.0 {
            w.row_mut(k).iter_mut().for_each(|x| *x *= norm as f32 / sum);
        }
    }
    w
}

impl Case {
    fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let (kind, kappa) = (KINDS[random.below(KINDS.len())], KAPPAS[random.below(KAPPAS.len())]);
        // The plain loops take long near 1.
        let (nodes, m) = match kappa > 0.98 {
            true => (1 + random.below(8), 1 + random.below(6)),
            false => {
                let widest = [4, 12, 40][random.below(3)];
                (1 + random.below(16), 1 + random.below(widest))
            }
        };
        let relations = 1 + random.below(5) / 3 + random.below(8) / 7;
        let form = random.below(3);
        let sides = (0..relations).map(|_| Equation::directions(&graph(kind, nodes, random), form));
        let (incoming, outgoing): (Vec<Csr>, Vec<Csr>) = sides.unzip();
        let w = incoming.iter().map(|csr| {
            let rho = match relations {
                1 => SpectralBound::of(&csr.view(), None, &SpectralParams::default()).rho,
                _ => entries::ratios(&csr.view(), entries::Vector::Ones).high * relations as f64,
            };
            weight(m, if rho == 0.0 { 0.8 } else { kappa / rho }, random)
        });
        let w = w.collect();
        let (b, right) = (input(nodes, m, random), input(nodes, m, random));
        let activation = ACTIVATIONS[random.below(ACTIVATIONS.len())];
        let method = METHODS[random.below(METHODS.len())];
        let tolerance = 10f64.powf(-0.5 - 7.0 * random.unit());
        let measure = if random.below(8) == 0 { Measure::Row } else { Measure::State };
        let max_sweeps = if random.below(8) == 0 { 1 + random.below(6) } else { 5000 };
        let params =
            SolveParams { tolerance, max_sweeps, method, measure, ..SolveParams::default() };
        let words = format!(
            "seed {seed}: {kind}, form {form}, {nodes} nodes, width {m}, {relations} relations, \
             kappa {kappa}, {activation:?}, {params:?}"
        );
        Self {
            equation: Equation { incoming, outgoing, w, b, activation },
            right,
            kappa,
            params,
            words,
        }
    }

    /// Solves one direction as a layer does, with the error bound of its last sweep and with a tight
    /// one: the adjoint at the state `x`. `None` where a number overflows.
    fn solve(&self, x: Option<&Matrix>) -> Option<(Solved, SolveInfo)> {
        let equation = &self.equation;
        let input = if x.is_some() { &self.right } else { &equation.b };
        let (n, m) = (input.rows(), input.cols());
        equation.with_sweep(x.is_some(), input, |sweep, certificate| {
            let (mut state, mut workspace) =
                (Matrix::zeros(n, m), Workspace::new(n, m, !certificate.holds()));
            let mut signs = Signs::new(n, m);
            let direction = match (x, equation.activation.slope_below()) {
                (None, _) => Direction::Forward(equation.activation),
                (Some(x), Some(slope)) => {
                    signs.record(x.view());
                    Direction::Adjoint(Derivative::Signs { signs: &signs, slope })
                }
                (Some(x), None) => Direction::Adjoint(Derivative::State {
                    activation: equation.activation,
                    state: x.view(),
                }),
            };
            let relations: Vec<_> = sweep.terms.iter().map(|term| term.adjacency).collect();
            let order = Order::of(&relations).filter(|_| self.params.method.takes_order());
            let (certificate, params) = (Some(&certificate), &self.params);
            let info = match order {
                Some(order) => ordered::solve(
                    sweep,
                    direction,
                    &order,
                    certificate,
                    params,
                    &mut state,
                    &mut workspace,
                ),
                None => fixed_point::solve(
                    sweep,
                    direction,
                    certificate,
                    params,
                    &mut state,
                    &mut workspace,
                ),
            };
            let info = info.ok()?;
            let tight = refined::tighten(
                sweep,
                direction,
                certificate,
                params,
                &state,
                &mut workspace,
                info,
            );
            Some((Solved { info, state }, tight))
        })
    }

    /// The solution in f64 by plain loops from a state nearby, and how far it can be from the exact
    /// one.
    fn exact(&self, x: Option<&Matrix>, start: &Matrix) -> (Mat, f64) {
        let equation = &self.equation;
        let input = to_mat(if x.is_some() { &self.right } else { &equation.b });
        let sides = if x.is_some() { &equation.outgoing } else { &equation.incoming };
        let terms: Vec<Relation> = sides
            .iter()
            .zip(&equation.w)
            .map(|(csr, w)| (list(csr), if x.is_some() { to_mat(w) } else { to_mat(w).t() }))
            .collect();
        let absolute: Vec<Relation> =
            terms.iter().map(|(a, w)| (a.clone(), map(w, f64::abs))).collect();
        let activation = phi(equation.activation);
        let slopes = x.map(|x| map(&to_mat(x), |x| slope(activation, x)));
        let apply = |state: &Mat| {
            let z = product(&terms, state).zip(&input, |sum, input| sum + input);
            match &slopes {
                None => map(&z, |z| value(activation, z)),
                Some(slopes) => z.zip(slopes, |z, slope| z * slope),
            }
        };
        let mut state = to_mat(start);
        let (mut moved, mut least, mut stalled) = (f64::INFINITY, f64::INFINITY, 0);
        // Moves fall in the end, but may rise before.
        let mut sweeps = 0;
        while moved > 0.0 && sweeps < 300_000 && (stalled < 60 || moved > 1e-13 * state.largest()) {
            sweeps += 1;
            let next = apply(&state);
            moved = next.distance(&state);
            state = next;
            stalled = if moved < least { 0 } else { stalled + 1 };
            least = least.min(moved);
        }
        // Of the last state, |error| <= M |error| + what a step changes or rounds.
        let change = apply(&state).zip(&state, |next, state| (next - state).abs());
        let sizes = product(&absolute, &map(&state, f64::abs))
            .zip(&input, |sum, input| 1e-14 * (sum + input.abs()));
        let is_smooth = matches!(activation, Phi::Tanh | Phi::Sigmoid | Phi::Elu);
        let rounded = if is_smooth && slopes.is_none() { 1e-15 } else { 0.0 };
        let step = change.zip(&sizes, |change, size| change + size + rounded);
        let mut error = step.clone();
        for _ in 0..100_000 {
            let next = product(&absolute, &error).zip(&step, |sum, step| sum + step);
            let grown = next.distance(&error);
            error = next;
            if grown <= 1e-3 * (1.0 - self.kappa) * error.largest() {
                break;
            }
        }
        (state, 2.0 * error.largest())
    }
}

/// The entries (row, column, value) of an operator, and its right factor.
type Relation = (Vec<(usize, usize, f64)>, Mat);

/// The entries of a direction in f64.
fn list(csr: &Csr) -> Vec<(usize, usize, f64)> {
    let scale = |i: usize| csr.scale.as_ref().map_or(1.0, |scale| f64::from(scale[i]));
    let row = |i: usize| {
        (csr.offsets[i] as usize..csr.offsets[i + 1] as usize).map(move |at| {
            let j = csr.neighbours[at] as usize;
            (i, j, f64::from(csr.values[at]) * scale(i) * scale(j))
        })
    };
    (0..csr.offsets.len() - 1).flat_map(row).collect()
}

/// sum_r A_r X P_r
fn product(terms: &[Relation], x: &Mat) -> Mat {
    let m = x.cols;
    let mut sum = Mat::new(x.rows, m, |_, _| 0.0);
    for (a, p) in terms {
        let mut gathered = vec![0.0; x.rows * m];
        for &(i, j, value) in a {
            for k in 0..m {
                gathered[i * m + k] += value * x.data[j * m + k];
            }
        }
        for i in 0..x.rows {
            for (l, &gathered) in gathered[i * m..(i + 1) * m].iter().enumerate() {
                let row = &p.data[l * m..(l + 1) * m];
                sum.data[i * m..(i + 1) * m]
                    .iter_mut()
                    .zip(row)
                    .for_each(|(sum, p)| *sum += gathered * p);
            }
        }
    }
    sum
}

fn map(x: &Mat, f: impl Fn(f64) -> f64) -> Mat {
    x.zip(x, |x, _| f(x))
}

/// phi' from x = phi(z).
fn slope(phi: Phi, x: f64) -> f64 {
    match phi {
        Phi::Identity => 1.0,
        Phi::Relu => f64::from(u8::from(x > 0.0)),
        Phi::LeakyRelu(slope) => {
            if x > 0.0 {
                1.0
            } else {
                slope
            }
        }
        Phi::Tanh => 1.0 - x * x,
        Phi::Sigmoid => x * (1.0 - x),
        Phi::Elu => {
            if x > 0.0 {
                1.0
            } else {
                x + 1.0
            }
        }
    }
}

/// What was seen of some cases.
#[derive(Default)]
struct Seen {
    certified: usize,
    uncertified: usize,
    overflowed: usize,
    /// Solves whose bound is less than ten times the error of the f64 solution.
    unsure: usize,
    /// Certified over true error, where the true one is well above that of the f64 solution.
    ratios: Vec<f64>,
    /// The same of the tight bound.
    tight: Vec<f64>,
}

fn check(seed: u64) -> Seen {
    let (case, mut seen) = (Case::random(seed), Seen::default());
    let mut state: Option<Matrix> = None;
    for direction in ["forward", "adjoint"] {
        let Some((found, tight)) = case.solve(state.as_ref()) else {
            seen.overflowed += 1;
            break;
        };
        let Some((bound, tight)) = found.info.certified_error.zip(tight.certified_error) else {
            seen.uncertified += 1;
            break;
        };
        let (exact, own) = case.exact(state.as_ref(), &found.state);
        let distance = exact.distance(&to_mat(&found.state));
        let message = || format!("{direction} of {}: {:?}", case.words, found.info);
        assert!(distance <= bound.largest + own, "{distance} above {bound:?}, {}", message());
        // Where errors grow by a factor of a million, f64 is no better judge than that.
        seen.unsure += usize::from(own > 0.1 * bound.largest);
        assert!(distance <= tight.largest + own, "{distance} above {tight:?}, {}", message());
        assert!(distance >= tight.at_least - own, "{distance} below {tight:?}, {}", message());
        assert!(tight.largest <= bound.largest && tight.rounding <= tight.largest);
        let size = to_mat(&found.state).largest();
        for bound in [bound, tight].into_iter().filter(|_| size > 0.0) {
            let relative = bound.relative * size;
            assert!(relative >= bound.largest * (1.0 - 1e-12), "{bound:?}, {}", message());
        }
        seen.certified += 1;
        if distance > 10.0 * own {
            seen.ratios.push(bound.largest / distance);
            seen.tight.push(tight.largest / distance);
        }
        state = Some(found.state);
    }
    seen
}

#[test]
fn no_true_error_of_a_random_system_is_above_the_certified_one() {
    let count = cases(400);
    let seen = (0..count).into_par_iter().with_max_len(1).map(|seed| check(seed as u64));
    let mut all = seen.reduce(Seen::default, |mut a, b| {
        a.certified += b.certified;
        a.uncertified += b.uncertified;
        a.overflowed += b.overflowed;
        a.unsure += b.unsure;
        a.ratios.extend(b.ratios);
        a.tight.extend(b.tight);
        a
    });
    println!(
        "{count} systems: {} solves certified ({} unsure), {} not, {} overflowed",
        all.certified, all.unsure, all.uncertified, all.overflowed
    );
    for (name, ratios) in [("last sweep", &mut all.ratios), ("tight", &mut all.tight)] {
        ratios.sort_by(f64::total_cmp);
        let at = |part: f64| ratios[((ratios.len() - 1) as f64 * part) as usize];
        println!(
            "certified over true error, {name}: 10 % below {:.1}, half below {:.1}, 90 % below \
             {:.1}, 99 % below {:.1}",
            at(0.1),
            at(0.5),
            at(0.9),
            at(0.99)
        );
    }
    let median = all.tight[all.tight.len() / 2];
    assert!(median < 3.0, "the tight bound is {median} times the true error");
    assert!(all.certified > count && all.uncertified < count / 4 && all.overflowed < count / 10);
    assert!(all.unsure <= count / 100);
}
