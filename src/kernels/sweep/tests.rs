//! The sweep against plain loops and against sprs, on every instruction set of this processor.

use proptest::prelude::*;
use sprs::CsMatViewI;

use super::*;
use crate::dense::Matrix;
use crate::kernels::ahead::tests::everywhere;
use crate::kernels::naive::{self, Operator, Random};
use crate::kernels::{Lockstep, RowPlaces, Signs};
use crate::parallel::with_threads;

const ACTIVATIONS: [Activation; 6] = [
    Activation::Identity,
    Activation::Relu,
    Activation::LeakyRelu(0.1),
    Activation::Tanh,
    Activation::Sigmoid,
    Activation::Elu,
];

struct Case {
    operators: Vec<Operator>,
    weights: Vec<Matrix>,
    input: Matrix,
    from: Matrix,
    /// Copies of the operators' entries, if sweeps gather by them.
    copies: Vec<Lockstep>,
}

impl Case {
    fn random(seed: u64, nodes: usize, width: usize, relations: usize) -> Self {
        let random = &mut Random(seed);
        let operator = |r| Operator::random(random, nodes, nodes, seed as usize + 3 * r);
        let operators = (0..relations).map(operator).collect();
        let weights = (0..relations).map(|_| random.matrix(width, width)).collect();
        Self {
            operators,
            weights,
            input: random.matrix(nodes, width),
            from: random.matrix(nodes, width),
            copies: Vec::new(),
        }
    }

    /// Sweeps gather by copies of the entries.
    fn copy_entries(&mut self) {
        self.copies = self.operators.iter().map(|of| Lockstep::of(&of.view())).collect();
    }

    fn operator(&self, at: usize) -> AdjacencyRef<'_> {
        let view = self.operators[at].view();
        self.copies.get(at).map_or(view, |copy| view.with_lockstep(copy))
    }

    fn naive_terms(&self) -> Vec<(AdjacencyRef<'_>, MatrixRef<'_>)> {
        self.operators.iter().zip(&self.weights).map(|(a, w)| (a.view(), w.view())).collect()
    }

    /// One sweep by the naive loop.
    fn naive_forward(&self, activation: Activation) -> naive::Rows {
        let (input, from) = (self.input.view(), self.from.view());
        naive::forward(&self.naive_terms(), input, activation, from)
    }

    /// One sweep into a matrix full of NaN, padding excepted.
    fn sweep_with(
        &self,
        isa: Isa,
        pack: fn(MatrixRef<'_>) -> PackedWeights,
        sweep: impl FnOnce(Sweep<'_>, MatrixMut<'_>) -> Change,
    ) -> (Matrix, Change) {
        let packed: Vec<_> = self.weights.iter().map(|w| pack(w.view())).collect();
        let terms =
            (0..).zip(&packed).map(|(at, weights)| Term { adjacency: self.operator(at), weights });
        let terms: Vec<_> = terms.collect();
        let widths: Vec<_> = terms.iter().map(|term| term.weights.inner()).collect();
        let scratch = SweepScratch::with_widths(&widths, self.from.cols(), isa);
        let blocks = blocks(&terms);
        let mut to = Matrix::from_fn(self.from.rows(), self.from.cols(), |_, _| f32::NAN);
        let parts = Sweep {
            blocks: &blocks,
            terms: &terms,
            input: self.input.view().into(),
            scratch: &scratch,
        };
        let change = sweep(parts, to.view_mut());
        (to, change)
    }

    fn forward(&self, isa: Isa, activation: Activation, norm: Norm<'_>) -> (Matrix, Change) {
        self.sweep_with(isa, PackedWeights::forward, |sweep, to| {
            sweep.forward(activation, norm, self.from.view(), to)
        })
    }

    fn adjoint(&self, isa: Isa, derivative: Derivative<'_>) -> (Matrix, Change) {
        self.sweep_with(isa, PackedWeights::adjoint, |sweep, to| {
            sweep.adjoint(derivative, Norm::default(), self.from.view(), to)
        })
    }
}

/// The change by definition.
fn naive_change(old: MatrixRef<'_>, new: MatrixRef<'_>, u: &[f32], v: &[f32]) -> (f64, f32, f32) {
    let (mut weighted, mut largest, mut state) = (0.0f64, 0.0f32, 0.0f32);
    for (i, &u) in u.iter().enumerate() {
        for (k, (&old, &new)) in old.row(i).iter().zip(new.row(i)).enumerate() {
            let delta = (new - old).abs();
            weighted = weighted.max(f64::from(delta) / f64::from(u) / f64::from(v[k]));
            (largest, state) = (largest.max(delta), state.max(new.abs()));
        }
    }
    (weighted, largest, state)
}

/// [`Change::row`] by definition.
fn naive_row_change(old: MatrixRef<'_>, new: MatrixRef<'_>, above: f32) -> f32 {
    let largest = |row: &mut dyn Iterator<Item = f32>| row.fold(0.0f32, |max, x| max.max(x.abs()));
    let mut found = 0.0f32;
    for i in 0..new.rows() {
        let size = largest(&mut old.row(i).iter().chain(new.row(i)).copied());
        if size > above {
            let moved = largest(&mut old.row(i).iter().zip(new.row(i)).map(|(old, new)| new - old));
            found = found.max(moved / size);
        }
    }
    found
}

/// Rows that are not there count as zeros: nothing of the result differs from that of a matrix with
/// zeros in it.
#[test]
fn some_rows_of_the_input_are_a_matrix_with_zeros() {
    for (width, of) in [1, 3, 8, 16, 40].into_iter().flat_map(|width| [(width, 1), (width, 3)]) {
        let mut case = Case::random(width as u64, 70, width, 2);
        let listed: Vec<u32> = (0..70).filter(|row| (row * 7 + 3) % 5 < of).collect();
        let rows =
            Matrix::from_fn(listed.len(), width, |at, k| case.input.row(listed[at] as usize)[k]);
        let places = RowPlaces::new(70, listed.clone());
        for row in (0..70).filter(|row| !listed.contains(row)) {
            case.input.row_mut(row as usize).fill(0.0);
        }
        let some = Added::Some { places: &places, rows: rows.view() };
        let mut signs = Signs::new(70, width);
        signs.record(case.from.view());
        let derivative = Derivative::Signs { signs: &signs, slope: 0.5 };
        let adjoint = Direction::Adjoint(derivative);
        for direction in ACTIVATIONS.map(Direction::Forward).into_iter().chain([adjoint]) {
            for isa in Isa::available() {
                let [whole, found] = [None, Some(some)].map(|input| {
                    case.sweep_with(isa, PackedWeights::forward, |sweep, to| {
                        let sweep = Sweep { input: input.unwrap_or(sweep.input), ..sweep };
                        let norm = Norm { rows: Some(0.0), ..Norm::default() };
                        sweep.step(direction, norm, Tracking::Nothing, case.from.view(), to)
                    })
                });
                let bits = |matrix: &Matrix| -> Vec<u32> {
                    matrix.view().padded().iter().map(|x| x.to_bits()).collect()
                };
                assert_eq!(bits(&whole.0), bits(&found.0), "{direction:?} {width}");
                assert_eq!(whole.1, found.1);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_width_and_set_is_the_naive_loop(
        seed in any::<u64>(),
        nodes in 1usize..90,
        width in prop_oneof![1usize..9, 1usize..70],
        relations in 1usize..4,
        phi in 0usize..6,
    ) {
        let case = Case::random(seed, nodes, width, relations);
        let activation = ACTIVATIONS[phi];
        let expected = case.naive_forward(activation);
        let (u, v) = (Random(seed ^ 1).vector(nodes), Random(seed ^ 2).vector(width));
        for isa in Isa::available() {
            let what = format!("{} {activation:?} {width} {relations}", isa.name());
            let norm = Norm { u: Some(&u), v: Some(&v), rows: Some(0.0) };
            let (to, change) = case.forward(isa, activation, norm);
            naive::assert_close(to.view(), &expected, &what);
            let (weighted, largest, state) = naive_change(case.from.view(), to.view(), &u, &v);
            prop_assert!(change.finite);
            prop_assert_eq!((change.largest, change.state), (largest, state));
            prop_assert!((f64::from(change.weighted) - weighted).abs() <= 1e-6 * weighted, "{}", what);
        }
    }

    #[test]
    fn rows_are_measured_by_themselves_above_the_floor(
        seed in any::<u64>(),
        nodes in 1usize..90,
        width in prop_oneof![1usize..9, 1usize..70],
        floor in 0usize..4,
        weighted: bool,
    ) {
        let mut case = Case::random(seed, nodes, width, 1);
        // Rows of many orders, before and after.
        for i in 0..nodes {
            let scale = 10f32.powi(-((i % 7) as i32));
            case.input.row_mut(i).iter_mut().for_each(|x| *x *= scale);
            case.from.row_mut(i).iter_mut().for_each(|x| *x *= scale);
        }
        case.weights[0].view_mut().padded_mut().iter_mut().for_each(|w| *w *= 1e-6);
        let (u, v) = (vec![1.0; nodes], vec![1.0; width]);
        let above = [0.0, 1e-5, 1e-2, 10.0][floor];
        for isa in Isa::available() {
            let norm = match weighted {
                true => Norm { u: Some(&u), v: Some(&v), rows: Some(above) },
                false => Norm { rows: Some(above), ..Norm::default() },
            };
            let (to, change) = case.forward(isa, Activation::Tanh, norm);
            let expected = naive_row_change(case.from.view(), to.view(), above);
            prop_assert_eq!(change.row, expected, "{} above {}", isa.name(), above);
            let (_, change) = case.forward(isa, Activation::Tanh, Norm { rows: None, ..norm });
            prop_assert_eq!(change.row, 0.0, "not asked for");
        }
    }

    #[test]
    fn a_state_on_the_disk_gives_the_same_bits(
        seed in any::<u64>(),
        nodes in 1usize..90,
        width in prop_oneof![1usize..9, 9usize..100],
        relations in 1usize..4,
        phi in 0usize..6,
    ) {
        let case = Case::random(seed, nodes, width, relations);
        let (u, v) = (Random(seed ^ 1).vector(nodes), Random(seed ^ 2).vector(width));
        let norm = Norm { u: Some(&u), v: Some(&v), rows: Some(0.0) };
        let activation = ACTIVATIONS[phi];
        let state = Random(seed ^ 3).matrix(nodes, width);
        let derivative = Derivative::State { activation, state: state.view() };
        for isa in Isa::available() {
            let found = everywhere(nodes, width, || {
                let (there, change) = case.forward(isa, activation, norm);
                let (back, back_change) = case.adjoint(isa, derivative);
                let mut moves = Matrix::blank(nodes, width);
                case.sweep_with(isa, PackedWeights::forward, |sweep, to| {
                    let moves = Tracking::Moves(Moves { to: moves.view_mut(), factor: 1.0 });
                    sweep.step(Direction::Forward(activation), norm, moves, there.view(), to)
                });
                let bits = |x: &Matrix| -> Vec<u32> {
                    x.all_lines().iter().flat_map(|line| line.0).map(f32::to_bits).collect()
                };
                let moves: Vec<u16> = moves
                    .all_lines()
                    .iter()
                    .flat_map(|line: &crate::dense::HalfLine| line.0)
                    .map(half::f16::to_bits)
                    .collect();
                (bits(&there), bits(&back), moves, format!("{change:?} {back_change:?}"))
            });
            for other in &found[1..] {
                prop_assert!(found[0] == *other, "{}", isa.name());
            }
        }
    }

    #[test]
    fn the_adjoint_is_the_naive_loop(
        seed in any::<u64>(),
        nodes in 1usize..90,
        width in prop_oneof![1usize..9, 1usize..70],
        relations in 1usize..4,
        phi in 0usize..6,
    ) {
        let case = Case::random(seed, nodes, width, relations);
        let state = Random(seed ^ 3).matrix(nodes, width);
        let mut signs = Signs::new(nodes, width);
        signs.record(state.view());
        let activation = ACTIVATIONS[phi];
        let recomputed = Derivative::State { activation, state: state.view() };
        let slope = activation.slope_below();
        let by_signs = slope.map(|slope| Derivative::Signs { signs: &signs, slope });
        let others = [recomputed, Derivative::One, Derivative::Matrix(state.view())];
        for derivative in by_signs.into_iter().chain(others) {
            let (terms, input) = (case.naive_terms(), case.input.view());
            let expected = naive::adjoint(&terms, input, derivative, case.from.view());
            for isa in Isa::available() {
                let (to, _) = case.adjoint(isa, derivative);
                let what = format!("{} {width} {relations}", isa.name());
                naive::assert_close(to.view(), &expected, &what);
            }
        }
    }
}

#[test]
fn wide_states_are_the_naive_loop() {
    for width in [127, 128, 129, 256, 300, 513] {
        let case = Case::random(width as u64, 40, width, 1);
        let expected = case.naive_forward(Activation::Identity);
        for isa in Isa::available() {
            let (to, _) = case.forward(isa, Activation::Identity, Norm::default());
            naive::assert_close(to.view(), &expected, &format!("{} {width}", isa.name()));
        }
    }
}

#[test]
fn gathering_agrees_with_sprs() {
    for width in [1, 5, 16, 48, 130] {
        let random = &mut Random(width as u64);
        // Only values: scales are not sprs's.
        let operator = Operator::random(random, 70, 50, 1);
        let indices: Vec<usize> = operator.neighbours.iter().map(|&j| j as usize).collect();
        let offsets: Vec<usize> = operator.offsets.iter().map(|&o| o as usize).collect();
        let values = operator.values.as_ref().unwrap();
        let sparse = CsMatViewI::<f32, usize>::new((70, 50), &offsets, &indices, values);
        let from = random.matrix(50, width);
        let columns = (0..width).map(|k| {
            let column: Vec<f32> = (0..50).map(|j| from.row(j)[k]).collect();
            let mut out = vec![0.0f32; 70];
            sprs::prod::mul_acc_mat_vec_csr(sparse, &column, &mut out);
            out
        });
        let columns: Vec<Vec<f32>> = columns.collect();
        let expected =
            (0..70).map(|i| columns.iter().map(|column| f64::from(column[i])).collect()).collect();
        // With P = I the product is the gathered sum.
        let identity = Matrix::from_fn(width, width, |k, l| f32::from(u8::from(k == l)));
        let packed = PackedWeights::forward(identity.view());
        let terms = [Term { adjacency: operator.view(), weights: &packed }];
        for isa in Isa::available() {
            let scratch = SweepScratch::with_widths(&[width], width, isa);
            let mut to = Matrix::zeros(70, width);
            product(&blocks(&terms), &terms, None, None, from.view(), to.view_mut(), &scratch);
            naive::assert_close(to.view(), &expected, &format!("{} {width}", isa.name()));
        }
    }
}

#[test]
fn products_of_other_shapes_with_a_plain_part_and_a_bias() {
    for (p, m) in [(1, 1), (3, 20), (40, 3), (33, 17), (100, 64)] {
        let random = &mut Random(p as u64);
        let operator = Operator::random(random, 60, 60, 6);
        let (u, gathered, plain) = (random.matrix(60, p), random.matrix(m, p), random.matrix(m, p));
        let bias = random.vector(m);
        let copy: naive::Rows =
            (0..60).map(|i| u.row(i).iter().map(|&x| f64::from(x)).collect()).collect();
        let mut expected =
            naive::times_transposed(&naive::gather(operator.view(), u.view()), gathered.view());
        let second = naive::times_transposed(&copy, plain.view());
        for (row, second) in expected.iter_mut().zip(second) {
            for (k, (x, second)) in row.iter_mut().zip(second).enumerate() {
                *x += second + f64::from(bias[k]);
            }
        }
        let (gathered, plain) =
            (PackedWeights::forward(gathered.view()), PackedWeights::forward(plain.view()));
        let terms = [Term { adjacency: operator.view(), weights: &gathered }];
        for isa in Isa::available() {
            let scratch = SweepScratch::with_widths(&[p, p], m, isa);
            let mut to = Matrix::zeros(60, m);
            product(
                &blocks(&terms),
                &terms,
                Some(&plain),
                Some(&bias),
                u.view(),
                to.view_mut(),
                &scratch,
            );
            naive::assert_close(to.view(), &expected, &format!("{} {p} {m}", isa.name()));
        }
    }
}

/// A graph whose hubs have more entries than a block has work, in the middle and at the end.
fn with_hubs(random: &mut Random, nodes: usize, parts: usize) -> Operator {
    let mut hubbed = Operator::random(random, nodes, nodes, parts);
    let (mut offsets, mut neighbours) = (vec![0], Vec::new());
    for row in 0..nodes {
        let degree = match row {
            _ if row + 1 == nodes => 3 * RowBlocks::BLOCK_WORK as usize + 17,
            _ if row == nodes / 2 => RowBlocks::BLOCK_WORK as usize + 1,
            _ => random.below(5),
        };
        neighbours.extend((0..degree).map(|_| random.below(nodes) as u32));
        offsets.push(neighbours.len() as u64);
    }
    hubbed.values = hubbed.values.map(|_| neighbours.iter().map(|_| random.float()).collect());
    (hubbed.offsets, hubbed.neighbours) = (offsets, neighbours);
    hubbed
}

#[test]
fn hubs_are_the_naive_loop_with_the_same_bits_on_any_number_of_threads() {
    for (width, parts) in [(1, 0), (2, 7), (3, 1), (5, 6), (8, 2), (16, 7), (37, 3)] {
        let random = &mut Random(width as u64);
        let mut case = Case::random(9, 700, width, 2);
        case.operators[1] = with_hubs(random, 700, parts);
        // Sums of many terms stay near 1.
        case.from.view_mut().padded_mut().iter_mut().for_each(|x| *x *= 1e-2);
        let expected = case.naive_forward(Activation::Identity);
        for isa in Isa::available() {
            let run = |threads| {
                with_threads(threads, || {
                    let (to, _) = case.forward(isa, Activation::Identity, Norm::default());
                    naive::assert_close(to.view(), &expected, &format!("{} {width}", isa.name()));
                    to.view().padded().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
                })
            };
            let one = run(1);
            assert!([2, 4, 16].iter().all(|&threads| run(threads) == one), "{width}");
            let on_disk = everywhere(700, width, || {
                let (to, _) = case.forward(isa, Activation::Identity, Norm::default());
                to.view().padded().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
            });
            assert!(on_disk.iter().all(|found| *found == one), "{width}");
        }
    }
}

/// Sweeps that gather in lockstep are the naive loop, and have the bits of those that gather row after
/// row, in both directions and whatever they record: moves, or which rows are active.
#[test]
fn in_lockstep_every_sweep_has_the_same_bits() {
    for (width, parts) in [(1, 0), (1, 7), (2, 2), (2, 1), (3, 6), (4, 0), (4, 5)] {
        let random = &mut Random(width as u64 + 40);
        let mut case = Case::random(11, 1500, width, 2);
        // A relation with hubs and a long row that is none, and one of 0 to 60 entries per row.
        let mut hubbed = with_hubs(random, 1500, parts);
        let at = hubbed.offsets[5] as usize;
        let more = RowBlocks::BLOCK_WORK as u32 / 8;
        hubbed.neighbours.splice(at..at, (0..more).map(|k| k % 1500));
        if let Some(values) = &mut hubbed.values {
            values.splice(at..at, (0..more).map(|k| k as f32 / 4096.0));
        }
        hubbed.offsets[6..].iter_mut().for_each(|offset| *offset += u64::from(more));
        case.operators[1] = hubbed;
        case.from.view_mut().padded_mut().iter_mut().for_each(|x| *x *= 1e-2);
        let state = random.matrix(1500, width);
        let derivative = Derivative::State { activation: Activation::Tanh, state: state.view() };
        let forward = case.naive_forward(Activation::Tanh);
        let terms = case.naive_terms();
        let adjoint = naive::adjoint(&terms, case.input.view(), derivative, case.from.view());
        let everything = |case: &Case, isa: Isa| {
            let bits = |to: &Matrix| -> Vec<u32> {
                to.view().padded().iter().map(|x| x.to_bits()).collect()
            };
            let what = format!("{} {width} {parts}", isa.name());
            let (there, change) = case.forward(isa, Activation::Tanh, Norm::default());
            naive::assert_close(there.view(), &forward, &what);
            let (back, _) = case.adjoint(isa, derivative);
            naive::assert_close(back.view(), &adjoint, &what);
            let mut moves = Matrix::blank(1500, width);
            let (next, _) = case.sweep_with(isa, PackedWeights::forward, |sweep, to| {
                let moves = Tracking::Moves(Moves { to: moves.view_mut(), factor: 1.0 });
                let direction = Direction::Forward(Activation::Tanh);
                sweep.step(direction, Norm::default(), moves, there.view(), to)
            });
            let moves: Vec<u16> = moves
                .all_lines()
                .iter()
                .flat_map(|line: &crate::dense::HalfLine| line.0)
                .map(half::f16::to_bits)
                .collect();
            // Three sweeps, of which the later ones compute the rows that some row above moved.
            let mut activity = Activity::new(1500);
            activity.threshold = Threshold { absolute: 0.05, relative: 0.2, least: 0.0 };
            let (mut states, mut computed) = ([case.from.clone(), there.clone()], Vec::new());
            case.sweep_with(isa, PackedWeights::forward, |sweep, _| {
                let mut last = Change::NONE;
                for at in 0..3 {
                    let [from, to] = &mut states;
                    let (from, to) = if at % 2 == 0 { (from, to) } else { (to, from) };
                    let tracking = Tracking::Activity(&mut activity);
                    let direction = Direction::Forward(Activation::Tanh);
                    last = sweep.step(
                        direction,
                        Norm::default(),
                        tracking,
                        from.view(),
                        to.view_mut(),
                    );
                    computed.push(last.rows);
                }
                last
            });
            assert!(computed[0] == 1500 && computed[2] < 1500, "{computed:?}");
            let states = states.each_ref().map(bits);
            (bits(&there), bits(&back), bits(&next), moves, states, computed, format!("{change:?}"))
        };
        for isa in Isa::available() {
            case.copies.clear();
            let expected = everything(&case, isa);
            case.copy_entries();
            for threads in [1, 2, 5] {
                let found = with_threads(threads, || everything(&case, isa));
                assert!(found == expected, "{} {width} {parts} {threads}", isa.name());
            }
        }
    }
}

/// Degrees of an R-MAT graph with the default quarters: edges are split between the lower and the
/// upper half of the ids, 76 to 24, again and again down to one id; then the ids are shuffled.
fn rmat_degrees(random: &mut Random, scale: u32, edges: u64) -> Vec<u64> {
    let mut degrees = vec![edges];
    for _ in 0..scale {
        let halves = degrees.iter().flat_map(|&edges| {
            // A binomial number: drawn one by one where it is small, by its deviation otherwise.
            let low = if edges <= 16 {
                (0..edges).filter(|_| random.float() < 2.0 * 0.76 - 1.0).count() as u64
            } else {
                let deviation = (edges as f64 * 0.76 * 0.24).sqrt();
                let normal: f64 = (0..12).map(|_| f64::from(random.float()) / 2.0).sum();
                (edges as f64 * 0.76 + deviation * normal).clamp(0.0, edges as f64) as u64
            };
            [low, edges - low]
        });
        degrees = halves.collect();
    }
    for at in (1..degrees.len()).rev() {
        degrees.swap(at, random.below(at + 1));
    }
    degrees
}

#[test]
fn no_thread_of_64_waits_for_more_than_a_twentieth_of_a_sweep() {
    let random = &mut Random(3);
    let scale = 20;
    // Both directions of 16 million edges.
    let degrees = rmat_degrees(random, scale, 32 << 20);
    let offsets: Vec<u64> = std::iter::once(0)
        .chain(degrees.iter().scan(0, |sum, degree| {
            *sum += degree;
            Some(*sum)
        }))
        .collect();
    let hub = degrees.iter().max().unwrap();
    let share = offsets[1 << scale] / 64;
    assert!(hub * 20 > share, "undivided it would wait: {hub} of {share}");
    for (step, row_work) in [(1, 3), (16, 1), (256, 1), (1, 17)] {
        let blocks = RowBlocks::balanced_in(1 << scale, &[&offsets], row_work, step);
        let wait = balance::wait(&[&offsets], row_work, &blocks, 64);
        assert!(wait > 0.0 && wait < 0.05, "{wait} of a sweep");
    }
}

#[test]
fn the_same_bits_on_any_number_of_threads() {
    for width in [1, 2, 4, 7, 128] {
        let case = Case::random(5, 4000, width, 2);
        for isa in Isa::available() {
            let run = |threads| {
                with_threads(threads, || {
                    let (to, change) = case.forward(isa, Activation::Tanh, Norm::default());
                    (to.view().padded().iter().map(|x| x.to_bits()).collect::<Vec<_>>(), change)
                })
            };
            let one = run(1);
            assert!(one == run(2) && one == run(4), "{} {width}", isa.name());
        }
    }
}

#[test]
fn forward_and_adjoint_are_transposes() {
    // With identity and no input: <A^T X W^T, Y> = <X, A Y W>, A stored by rows and by columns.
    for width in [1, 6, 30, 64] {
        let random = &mut Random(width as u64 + 100);
        let incoming = Operator::random(random, 80, 80, 1);
        let mut entries: Vec<(u32, u32, f32)> = (0..80)
            .flat_map(|i| {
                incoming.view().entries(i).map(move |(j, value)| (j as u32, i as u32, value))
            })
            .collect();
        entries.sort_unstable_by_key(|&(j, i, _)| (j, i));
        let offsets =
            (0..=80).map(|j| entries.partition_point(|&(row, ..)| row < j) as u64).collect();
        let outgoing = Operator {
            columns: 80,
            offsets,
            neighbours: entries.iter().map(|&(_, i, _)| i).collect(),
            values: Some(entries.iter().map(|&(.., value)| value).collect()),
            gather_scale: None,
            row_scale: None,
        };
        let w = random.matrix(width, width);
        let case = |operator| Case {
            operators: vec![operator],
            weights: vec![w.clone()],
            input: Matrix::zeros(80, width),
            from: Random(width as u64).matrix(80, width),
            copies: Vec::new(),
        };
        let (forward, adjoint) = (case(incoming), case(outgoing));
        let dot = |a: MatrixRef<'_>, b: MatrixRef<'_>| -> f64 {
            a.padded().iter().zip(b.padded()).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
        };
        for isa in Isa::available() {
            let (x, _) = forward.forward(isa, Activation::Identity, Norm::default());
            let (y, _) = adjoint.adjoint(isa, Derivative::One);
            let (left, right) =
                (dot(x.view(), adjoint.from.view()), dot(forward.from.view(), y.view()));
            let size = dot(x.view(), x.view()).sqrt() * dot(y.view(), y.view()).sqrt();
            assert!((left - right).abs() <= 1e-5 * size, "{} {width}: {left} {right}", isa.name());
        }
    }
}

#[test]
fn values_that_are_not_finite_are_reported() {
    for isa in Isa::available() {
        for width in [1, 20] {
            for poison in [f32::NAN, f32::INFINITY] {
                for activation in ACTIVATIONS {
                    let mut case = Case::random(3, 30, width, 1);
                    case.input.row_mut(17)[width - 1] = poison;
                    let (to, change) = case.forward(isa, activation, Norm::default());
                    let is_bad =
                        to.row(17)[width - 1].is_nan() || to.row(17)[width - 1].is_infinite();
                    assert_eq!(change.finite, !is_bad, "{} {activation:?} {poison}", isa.name());
                    assert!(is_bad || poison.is_infinite(), "NaN disappeared in {activation:?}");
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "states of one width")]
fn wrong_shapes_are_refused() {
    let case = Case::random(3, 30, 4, 1);
    let from = Matrix::zeros(30, 5);
    case.sweep_with(Isa::chosen(), PackedWeights::forward, |sweep, to| {
        sweep.forward(Activation::Relu, Norm::default(), from.view(), to)
    });
}
