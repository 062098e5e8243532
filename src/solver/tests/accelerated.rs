//! Accelerated solves reach the result of plain ones in fewer sweeps, and fall back where they
//! would diverge.

use super::*;
use crate::kernels::{AdjacencyRef, SharedRows};
use crate::parallel::with_threads;
use crate::solver::ordered::Order;

fn with(method: Method, depth: usize) -> SolveParams {
    SolveParams { tolerance: 1e-5, max_sweeps: 3000, method, depth, ..SolveParams::default() }
}

/// A path of nodes with loops, both ways, and a W >= 0 near the bound: hundreds of plain sweeps.
fn slow(random: &mut Random, nodes: usize, activation: Activation) -> Equation {
    let entries = (1..nodes).flat_map(|i| [(i - 1, i, 1.0), (i, i - 1, 1.0)]).collect();
    let graph = Graph { nodes, entries };
    let (incoming, outgoing) = Equation::directions(&graph, 2);
    let m = 5;
    let mut w = Matrix::from_fn(m, m, |i, k| random.unit() as f32 + if i == k { 2.0 } else { 0.0 });
    for k in 0..m {
        let norm: f32 = w.row(k).iter().sum();
        w.row_mut(k).iter_mut().for_each(|x| *x *= 0.98 / norm);
    }
    let b = Matrix::from_fn(nodes, m, |_, _| random.unit() as f32);
    Equation { incoming: vec![incoming], outgoing: vec![outgoing], w: vec![w], b, activation }
}

#[test]
fn slow_equations_take_a_quarter_of_the_sweeps() {
    let mut random = Random::new(5);
    for activation in [Activation::Relu, Activation::Identity, Activation::Tanh] {
        let mut equation = slow(&mut random, 400, activation);
        if activation == Activation::Tanh {
            // Small numbers, where its slope is near 1.
            equation.b = Matrix::from_fn(400, 5, |_, _| 1e-3 * random.unit() as f32);
        }
        let r = Matrix::from_fn(400, 5, |_, _| random.sign() as f32);
        let plain = equation.forward(&with(Method::Plain, 5));
        let auto = equation.forward(&with(Method::Auto, 5));
        assert!(
            plain.info.sweeps > 100 && plain.info.choice.method == Used::Plain,
            "{:?}",
            plain.info
        );
        let back = |method| equation.adjoint(&plain.state, &r, &with(method, 5));
        for (plain, auto) in [(&plain, &auto), (&back(Method::Plain), &back(Method::Auto))] {
            assert!(
                auto.info.converged && auto.info.sweeps * 4 <= plain.info.sweeps,
                "{:?}",
                auto.info
            );
            assert_eq!(
                (auto.info.choice.method, auto.info.choice.why),
                (Used::Anderson, Why::Slow)
            );
            assert!(
                auto.info.choice.proposals > 2 && auto.info.choice.rate > 0.3,
                "{:?}",
                auto.info
            );
        }
    }
}

#[test]
fn accelerated_and_plain_solves_agree_within_both_certificates() {
    let mut random = Random::new(71);
    let (mut compared, mut proposals) = (0, 0);
    for round in 0..200 {
        let equation = match round % 20 {
            0 => Equation::large(&mut random),
            1 => slow(&mut random, 60, Activation::Relu),
            _ => Equation::random(&mut random, [0.9, 0.99][round % 2]),
        };
        let r = Matrix::from_fn(equation.b.rows(), equation.b.cols(), |_, _| random.sign() as f32);
        let plain = equation.forward(&with(Method::Plain, 1));
        let back = equation.adjoint(&plain.state, &r, &with(Method::Plain, 1));
        for depth in [1, 2, 5, 10] {
            for method in [Method::Auto, Method::Anderson] {
                let forward = equation.forward(&with(method, depth));
                let adjoint = equation.adjoint(&plain.state, &r, &with(method, depth));
                for (plain, found) in [(&plain, &forward), (&back, &adjoint)] {
                    // It may even get where rounding stops small steps.
                    assert!(
                        found.info.converged || !plain.info.converged,
                        "{:?} {:?}",
                        found.info,
                        plain.info
                    );
                    proposals += found.info.choice.proposals;
                    let (Some(a), Some(b)) =
                        (found.info.certified_error, plain.info.certified_error)
                    else {
                        continue;
                    };
                    let distance = to_mat(&plain.state).distance(&to_mat(&found.state));
                    assert!(distance <= a.largest + b.largest, "{distance} {:?}", found.info);
                    // Never much longer than sweeps alone.
                    assert!(
                        found.info.sweeps <= plain.info.sweeps + plain.info.sweeps / 5 + 12,
                        "{:?} {:?}",
                        found.info,
                        plain.info
                    );
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 2000 && proposals > 2000, "{compared} {proposals}");
}

#[test]
fn accelerated_solves_have_the_same_bits_on_any_number_of_threads() {
    let mut random = Random::new(72);
    for round in 0..6 {
        let equation = match round % 2 {
            0 => Equation::large(&mut random),
            _ => slow(&mut random, 2000, Activation::Relu),
        };
        let params = with(Method::Anderson, 4);
        let solve = |threads| with_threads(threads, || equation.forward(&params));
        let first = solve(1);
        assert!(first.info.choice.proposals > 0);
        for threads in [2, 4] {
            let other = solve(threads);
            assert_eq!(other.info.without_times(), first.info.without_times());
            let bits = |matrix: &Matrix| {
                matrix.view().padded().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
            };
            assert_eq!(bits(&other.state), bits(&first.state));
        }
    }
}

#[test]
fn the_best_state_is_kept_if_nothing_contracts() {
    // x = tanh(-5 x + 1) on one node swings between two states for ever; and a sweep that moves
    // away from where it began.
    for (w, b, activation) in [(-5.0, 1.0, Activation::Tanh), (-2.0, 1.0, Activation::Identity)] {
        let graph = Graph { nodes: 1, entries: vec![(0, 0, 1.0)] };
        let (w, b) = (Matrix::from_fn(1, 1, |_, _| w), Matrix::from_fn(1, 1, |_, _| b));
        let equation = Equation::one(&graph, w, b, activation);
        for method in [Method::Plain, Method::Auto, Method::Anderson] {
            let found = equation.forward(&SolveParams { max_sweeps: 200, ..with(method, 3) });
            assert!(found.info.contraction.is_none() && found.info.certified_error.is_none());
            assert!(found.state.row(0)[0].is_finite() && found.info.relative_residual.is_finite());
            if method == Method::Plain {
                assert!(!found.info.converged);
            }
        }
    }
}

#[test]
fn the_history_takes_no_more_memory_than_estimated() {
    let mut random = Random::new(73);
    for depth in 1..=anderson::MAX_DEPTH {
        let equation = slow(&mut random, 200, Activation::Relu);
        equation.with_sweep(false, &equation.b, |sweep, certificate| {
            let (n, m) = (equation.b.rows(), equation.b.cols());
            for keeps in [false, true] {
                let (mut state, mut workspace) = (Matrix::zeros(n, m), Workspace::new(n, m, keeps));
                // Without its certificate the best state is pinned as well.
                let certificate = (!keeps).then_some(&certificate);
                let params = with(Method::Anderson, depth);
                let info = fixed_point::solve(
                    sweep,
                    Direction::Forward(Activation::Relu),
                    certificate,
                    &params,
                    &mut state,
                    &mut workspace,
                );
                assert!(info.unwrap().converged);
                assert_eq!((state.rows(), state.cols()), (n, m));
                let estimate = Workspace::bytes(n, m, keeps, params.mixing_buffers());
                assert!(
                    workspace.held() <= estimate + 64 * 20,
                    "depth {depth}: {} above {estimate}",
                    workspace.held()
                );
            }
        });
    }
}

/// A few long chains with loops and shortcuts, renormalised: each row gathers from earlier ones and
/// from itself.
#[test]
fn rows_in_topological_order_are_the_equilibrium() {
    let mut random = Random::new(74);
    for (round, activation) in ACTIVATIONS.into_iter().cycle().take(24).enumerate() {
        let nodes = 150;
        let mut entries: Vec<_> = (1..nodes).map(|i| (i - 1, i, 1.0)).collect();
        entries.extend((0..40).map(|_| {
            let (a, b) = (random.below(nodes), random.below(nodes));
            (a.min(b), a.max(b), 1.0)
        }));
        entries.sort_by_key(|entry| (entry.0, entry.1));
        entries.dedup_by_key(|entry| (entry.0, entry.1));
        entries.retain(|entry| entry.0 != entry.1);
        let (incoming, outgoing) = Equation::directions(&Graph { nodes, entries }, 1 + round % 2);
        let m = [1, 5, 16, 20][round % 4];
        let mut w = Matrix::from_fn(m, m, |_, _| random.sign() as f32);
        for k in 0..m {
            let norm: f32 = w.row(k).iter().map(|x| x.abs()).sum();
            w.row_mut(k).iter_mut().for_each(|x| *x *= 0.9 / norm.max(1e-3));
        }
        let b = Matrix::from_fn(nodes, m, |_, _| random.sign() as f32);
        let equation = Equation {
            incoming: vec![incoming],
            outgoing: vec![outgoing],
            w: vec![w],
            b,
            activation,
        };
        let r = Matrix::from_fn(nodes, m, |_, _| random.sign() as f32);
        let plain = equation.forward(&with(Method::Plain, 1));
        let back = equation.adjoint(&plain.state, &r, &with(Method::Plain, 1));
        let x = &plain.state;
        for (is_adjoint, input, plain) in [(false, &equation.b, &plain), (true, &r, &back)] {
            equation.with_sweep(is_adjoint, input, |sweep, certificate| {
                let adjacency: Vec<_> = sweep.terms.iter().map(|term| term.adjacency).collect();
                let order = Order::of(&adjacency).unwrap();
                let mut state = Matrix::zeros(nodes, m);
                let mut workspace = Workspace::new(nodes, m, !certificate.holds());
                let (certificate, params) = (Some(&certificate), with(Method::Ordered, 1));
                let info = if is_adjoint {
                    let derivative = Derivative::State { activation, state: x.view() };
                    ordered::solve(
                        sweep,
                        Direction::Adjoint(derivative),
                        &order,
                        certificate,
                        &params,
                        &mut state,
                        &mut workspace,
                    )
                } else {
                    ordered::solve(
                        sweep,
                        Direction::Forward(activation),
                        &order,
                        certificate,
                        &params,
                        &mut state,
                        &mut workspace,
                    )
                };
                let info = info.unwrap();
                assert!(
                    info.converged && info.sweeps <= 3 && info.sweeps < plain.info.sweeps,
                    "{info:?}"
                );
                assert_eq!((info.choice.method, info.choice.why), (Used::Ordered, Why::Acyclic));
                // Where waves are short, sweeps are as few as the repetitions of a row's own loop.
                assert!(
                    plain.info.sweeps < 60 || info.row_updates < plain.info.row_updates,
                    "{info:?}"
                );
                let bounds = info.certified_error.unwrap().largest
                    + plain.info.certified_error.unwrap().largest;
                let distance = to_mat(&plain.state).distance(&to_mat(&state));
                assert!(distance <= bounds, "{distance} above {bounds}");
            });
        }
    }
}

/// Levels of 700 and of 3 rows in turn, renormalised: rows gather from the level before and from
/// themselves.
#[test]
fn levels_that_threads_divide_are_solved_to_the_same_bits() {
    let mut random = Random::new(5);
    let starts: Vec<usize> =
        [700, 3].into_iter().cycle().take(6).fold(vec![0], |mut ends, width| {
            ends.push(ends[ends.len() - 1] + width);
            ends
        });
    let nodes = starts[6];
    let mut entries = Vec::new();
    for (level, ends) in starts.windows(2).enumerate() {
        for node in ends[0]..ends[1] {
            for _ in 0..if level > 0 { 3 } else { 0 } {
                let before = starts[level - 1] + random.below(starts[level] - starts[level - 1]);
                entries.push((before, node, 0.3));
            }
        }
    }
    entries.sort_by_key(|entry| (entry.0, entry.1));
    entries.dedup_by_key(|entry| (entry.0, entry.1));
    for (m, activation) in [(3, Activation::Tanh), (20, Activation::Relu)] {
        let graph = Graph { nodes, entries: entries.clone() };
        let (incoming, outgoing) = Equation::directions(&graph, 1);
        let w = Matrix::from_fn(m, m, |_, _| 0.8 * random.sign() as f32 / m as f32);
        let b = Matrix::from_fn(nodes, m, |_, _| random.sign() as f32);
        let (incoming, outgoing, w) = (vec![incoming], vec![outgoing], vec![w]);
        let equation = Equation { incoming, outgoing, w, b, activation };
        let solve = |threads, in_order: bool| {
            with_threads(threads, || {
                equation.with_sweep(false, &equation.b, |sweep, certificate| {
                    let order = Order::of(&[sweep.terms[0].adjacency]).unwrap();
                    let Order::Levels(levels) = &order else { panic!("wide levels: {order:?}") };
                    let all = Order::All(levels.rows().to_vec());
                    let (mut state, mut workspace) =
                        (Matrix::zeros(nodes, m), Workspace::new(nodes, m, !certificate.holds()));
                    let info = ordered::solve(
                        sweep,
                        Direction::Forward(activation),
                        if in_order { &all } else { &order },
                        Some(&certificate),
                        &with(Method::Ordered, 1),
                        &mut state,
                        &mut workspace,
                    );
                    let bits: Vec<u32> =
                        state.view().padded().iter().map(|x| x.to_bits()).collect();
                    (info.unwrap().without_times(), bits)
                })
            })
        };
        let expected = solve(1, true);
        assert!(expected.0.converged && expected.0.sweeps <= 3, "{:?}", expected.0);
        for threads in [1, 2, 5] {
            assert!(solve(threads, false) == expected, "{threads} threads");
        }
    }
}

#[test]
fn an_order_is_found_if_there_is_one() {
    let order = |nodes: usize, edges: &[(usize, usize)]| {
        let graph = Graph { nodes, entries: edges.iter().map(|&(i, j)| (i, j, 1.0)).collect() };
        let csr = graph.csr(false);
        Order::of(&[csr.view()])
    };
    assert_eq!(order(3, &[(2, 1), (1, 0), (0, 0)]), Some(Order::All(vec![2, 1, 0])));
    assert_eq!(order(0, &[]), Some(Order::All(vec![])));
    assert_eq!(order(5, &[(0, 1), (1, 0), (2, 2), (4, 4)]), Some(Order::Alone(vec![2, 4])));
    assert_eq!(order(2, &[(0, 1), (1, 0)]), None);
    assert_eq!(order(4, &[(0, 1), (1, 2), (2, 3), (3, 1)]), None);
    let mut random = Random::new(75);
    for _ in 0..200 {
        let graph = Graph::random(&mut random);
        let csr = graph.csr(false);
        let is_acyclic = components::Components::of(&csr.view());
        let alone = (0..graph.nodes).all(|i| {
            let own = is_acyclic.of[i];
            own == components::NO_CYCLE
                || is_acyclic.of.iter().filter(|&&other| other == own).count() == 1
        });
        let found = Order::of(&[csr.view()]);
        assert_eq!(matches!(found, Some(Order::All(_))), alone);
        if let Some(Order::All(order)) = found {
            let mut place = vec![0; graph.nodes];
            order.iter().enumerate().for_each(|(at, &row)| place[row as usize] = at);
            assert!(
                graph.entries.iter().all(|&(source, target, _)| place[source] <= place[target])
            );
        }
    }
}

#[test]
fn rows_whose_inputs_stay_are_skipped_and_the_result_is_verified() {
    let mut random = Random::new(81);
    let (mut compared, mut skipped) = (0, 0);
    for round in 0..200 {
        let equation = match round % 20 {
            0 => Equation::large(&mut random),
            1 => slow(&mut random, 60, Activation::Relu),
            _ => Equation::random(&mut random, [0.9, 0.99][round % 2]),
        };
        let (n, m) = (equation.b.rows(), equation.b.cols());
        // Few rows have anything to tell.
        let few = |matrix: &Matrix| {
            Matrix::from_fn(n, m, |i, k| if i % 7 == 3 { matrix.row(i)[k] } else { 0.0 })
        };
        let equation = Equation { b: few(&equation.b), ..equation };
        let r = few(&Matrix::from_fn(n, m, |_, _| random.sign() as f32));
        for measure in [Measure::State, Measure::Row] {
            let params = |method| SolveParams { measure, ..with(method, 5) };
            let plain = equation.forward(&params(Method::Plain));
            let back = equation.adjoint(&plain.state, &r, &params(Method::Plain));
            let active = equation.forward(&params(Method::Active));
            let active_back = equation.adjoint(&plain.state, &r, &params(Method::Active));
            for (plain, active) in [(&plain, &active), (&back, &active_back)] {
                let rows = (active.info.sweeps * n) as u64;
                assert_eq!(
                    active.info.choice.method == Used::Active,
                    active.info.row_updates < rows
                );
                assert_eq!(
                    active.info.converged, plain.info.converged,
                    "{:?}\n{:?}",
                    active.info, plain.info
                );
                assert!(
                    !active.info.converged
                        || active.info.relative_residual <= active.info.tolerance
                );
                if active.info.contraction.is_none() {
                    // Without certificate no row is skipped.
                    assert_eq!(active.info.row_updates, rows);
                    continue;
                }
                skipped += rows - active.info.row_updates;
                let bound = |info: &SolveInfo| info.certified_error.unwrap().largest;
                let distance = to_mat(&plain.state).distance(&to_mat(&active.state));
                assert!(distance <= bound(&active.info) + bound(&plain.info), "{distance}");
                compared += 1;
            }
        }
    }
    assert!(compared > 400 && skipped > 10_000, "{compared} {skipped}");
}

#[test]
fn active_rows_are_the_same_on_any_number_of_threads_and_work_falls_with_them() {
    let mut random = Random::new(82);
    let mut equation = slow(&mut random, 3000, Activation::Relu);
    equation.b = Matrix::from_fn(3000, 5, |i, _| if i < 3 { 1.0 } else { 0.0 });
    let run = |threads, method| with_threads(threads, || equation.forward(&with(method, 5)));
    let (one, plain) = (run(1, Method::Active), run(1, Method::Plain));
    assert!(one.info.row_updates * 4 < plain.info.row_updates, "{:?} {:?}", one.info, plain.info);
    for threads in [2, 4] {
        let other = run(threads, Method::Active);
        assert_eq!(other.info.row_updates, one.info.row_updates);
        assert_eq!(other.state.view().padded(), one.state.view().padded());
    }
    let auto = run(2, Method::Auto);
    assert_eq!((auto.info.choice.method, auto.info.choice.why), (Used::Active, Why::Quiet));
}

#[test]
fn a_solve_that_follows_stops_at_a_part_of_its_first_residual() {
    let mut random = Random::new(83);
    let equation = slow(&mut random, 300, Activation::Relu);
    let tight = equation.forward(&with(Method::Plain, 1));
    let loose = equation.forward(&SolveParams { follow: 1e-3, ..with(Method::Plain, 1) });
    // From zero the first residual is 1.
    assert!((loose.info.tolerance - 1e-3).abs() < 1e-6 && loose.info.converged);
    assert!(loose.info.relative_residual <= 1e-3 && loose.info.sweeps < tight.info.sweeps);
    let looser = equation.forward(&SolveParams { follow: 1.0, ..with(Method::Plain, 1) });
    assert_eq!(looser.info.tolerance, fixed_point::LOOSEST);
    let bound = |info: &SolveInfo| info.certified_error.unwrap().largest;
    let distance = to_mat(&tight.state).distance(&to_mat(&loose.state));
    assert!(distance <= bound(&tight.info) + bound(&loose.info));
}

#[test]
fn rows_that_gather_only_from_themselves_are_solved_before_sweeps() {
    // Two nodes that see each other, and 50 with a loop alone, whose own iteration is the slow one.
    let entries =
        [(0, 1, 0.1), (1, 0, 0.1)].into_iter().chain((2..52).map(|i| (i, i, 1.0))).collect();
    let w = Matrix::from_fn(3, 3, |k, l| if k == l { 0.95 } else { 0.0 });
    let equation = Equation::one(
        &Graph { nodes: 52, entries },
        w,
        Matrix::from_fn(52, 3, |_, _| 1.0),
        Activation::Relu,
    );
    let plain = equation.forward(&with(Method::Plain, 1));
    equation.with_sweep(false, &equation.b, |sweep, certificate| {
        let order = Order::of(&[sweep.terms[0].adjacency]).unwrap();
        assert_eq!(order, Order::Alone((2..52).collect()));
        let run = |threads| {
            with_threads(threads, || {
                let (mut state, mut workspace) =
                    (Matrix::zeros(52, 3), Workspace::new(52, 3, false));
                let (certificate, params) = (Some(&certificate), with(Method::Auto, 5));
                let direction = Direction::Forward(equation.activation);
                let solve = ordered::solve;
                let info = solve(
                    sweep,
                    direction,
                    &order,
                    certificate,
                    &params,
                    &mut state,
                    &mut workspace,
                );
                (info.unwrap(), state)
            })
        };
        let (info, state) = run(1);
        assert!(info.converged && info.sweeps < 10 && plain.info.sweeps > 100, "{info:?}");
        let bound = |info: &SolveInfo| info.certified_error.unwrap().largest;
        let distance = to_mat(&plain.state).distance(&to_mat(&state));
        assert!(
            distance <= bound(&info) + bound(&plain.info) && (state.row(7)[0] - 20.0).abs() < 1e-2
        );
        assert_eq!(run(3).1.view().padded(), state.view().padded());
    });
}

/// Three cliques, only one of which has input: few rows move, but repeated rows cannot be skipped.
#[test]
fn repeated_rows_are_accelerated_instead_of_skipped() {
    let offsets: Vec<u64> = (0..=60).map(|row| row * 20).collect();
    let neighbours: Vec<u32> =
        (0..60).flat_map(|row| (0..20).map(move |j| row / 20 * 20 + j)).collect();
    let values = vec![0.05f32; neighbours.len()];
    let plain = AdjacencyRef::new(60, &offsets, &neighbours).unwrap().with_values(&values);
    let shared = SharedRows::find(&plain).unwrap();
    let w = [PackedWeights::forward(
        Matrix::from_fn(3, 3, |k, l| if k == l { 0.98 } else { 0.0 }).view(),
    )];
    let b = Matrix::from_fn(60, 3, |i, k| if i < 20 { (1 + i + k) as f32 } else { 0.0 });
    let solve = |adjacency: AdjacencyRef<'_>| {
        let terms = [Term { adjacency, weights: &w[0] }];
        let (blocks, scratch) = (blocks(&terms), SweepScratch::new(&terms));
        let sweep =
            Sweep { blocks: &blocks, terms: &terms, input: b.view().into(), scratch: &scratch };
        let certificate = Certificate::of(&terms, 1.0, None);
        let (mut state, mut workspace) = (Matrix::zeros(60, 3), Workspace::new(60, 3, false));
        let direction = Direction::Forward(Activation::Relu);
        let params = with(Method::Auto, 5);
        fixed_point::solve(
            &sweep,
            direction,
            Some(&certificate),
            &params,
            &mut state,
            &mut workspace,
        )
        .unwrap()
    };
    let (each, once) = (solve(plain), solve(plain.with_shared(&shared)));
    assert_eq!((each.choice.method, each.choice.why), (Used::Active, Why::Quiet), "{each:?}");
    assert_eq!((once.choice.method, once.choice.why), (Used::Anderson, Why::Slow), "{once:?}");
    assert!(
        once.converged && once.sweeps < each.sweeps && once.row_updates == 60 * once.sweeps as u64
    );
}
