//! Solves converge, report why they stopped, and fail with messages that name the origin.

use super::*;
use crate::parallel::with_threads;

#[test]
fn the_same_bits_for_any_number_of_threads() {
    let mut random = Random::new(23);
    for round in 0..12 {
        let equation = match round % 4 {
            0 => Equation::large(&mut random),
            _ => Equation::random(&mut random, 0.9),
        };
        let solve = |threads| with_threads(threads, || equation.forward(&SolveParams::default()));
        let first = solve(1);
        for threads in [2, 4] {
            let other = solve(threads);
            assert_eq!(other.info.without_times(), first.info.without_times());
            for i in 0..first.state.rows() {
                let bits =
                    |matrix: &Matrix| matrix.row(i).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&other.state), bits(&first.state));
            }
        }
    }
}

/// x = activation(w x + b) on one node with a loop.
fn scalar(w: f32, b: f32, activation: Activation) -> Equation {
    let graph = Graph { nodes: 1, entries: vec![(0, 0, 1.0)] };
    let (w, b) = (Matrix::from_fn(1, 1, |_, _| w), Matrix::from_fn(1, 1, |_, _| b));
    Equation::one(&graph, w, b, activation)
}

fn solve(
    equation: &Equation,
    params: &SolveParams,
    start: f32,
) -> (Result<SolveInfo, SolveError>, f32) {
    equation.with_sweep(false, &equation.b, |sweep, certificate| {
        let (mut state, mut workspace) =
            (Matrix::from_fn(1, 1, |_, _| start), Workspace::new(1, 1, true));
        let activation = equation.activation;
        let info = fixed_point::solve(
            sweep,
            Direction::Forward(activation),
            Some(&certificate),
            params,
            &mut state,
            &mut workspace,
        );
        (info, state.row(0)[0])
    })
}

#[test]
fn a_warm_start_takes_fewer_sweeps_and_the_reason_to_stop_is_reported() {
    let equation = scalar(0.5, 1.0, Activation::Relu);
    let params = SolveParams { method: Method::Plain, ..SolveParams::default() };
    let (cold, x) = solve(&equation, &params, 0.0);
    let cold = cold.unwrap();
    assert!((x - 2.0).abs() < 1e-4 && cold.converged && cold.stopped == Stopped::Converged);
    assert!((cold.contraction.unwrap() - 0.5).abs() < 1e-6 && cold.sweeps > 10);
    let (warm, _) = solve(&equation, &params, 2.0);
    assert_eq!(warm.unwrap().sweeps, 1);
    let (short, x) = solve(&equation, &SolveParams { max_sweeps: 2, ..params }, 0.0);
    let short = short.unwrap();
    assert_eq!(
        (short.stopped, short.converged, short.sweeps, x),
        (Stopped::MaxSweeps, false, 2, 1.5)
    );
    assert!(short.certified_error.unwrap().largest >= 0.5);
    let (none, x) = solve(&equation, &SolveParams { max_sweeps: 0, ..params }, 7.0);
    assert_eq!((none.unwrap().certified_error, x), (None, 7.0));
}

#[test]
fn an_input_that_counts_as_zero_ends_an_earlier_state() {
    // From 1, sweeps alone would shrink the state by a factor of 0.99 each.
    for b in [0.0, 1e-45, -1e-39, 1e-36] {
        let equation = scalar(0.99, b, Activation::Tanh);
        for measure in [Measure::State, Measure::Row] {
            let params = SolveParams { measure, ..SolveParams::default() };
            let (info, x) = solve(&equation, &params, 1.0);
            let info = info.unwrap();
            assert!(info.converged && info.sweeps == 1 && x.abs() < 1e-32, "{b:e}: {info:?}");
        }
    }
    let (info, x) = solve(&scalar(0.5, 1e-25, Activation::Tanh), &SolveParams::default(), 0.0);
    assert!(info.unwrap().converged && (x / 2e-25 - 1.0).abs() < 1e-4, "{x:e} counts");
}

#[test]
fn the_best_state_is_kept_if_nothing_converges() {
    // x = -2 x + 1 has 1/3, from which every sweep moves away: the start is the best state.
    let equation = scalar(-2.0, 1.0, Activation::Identity);
    let (info, x) =
        solve(&equation, &SolveParams { max_sweeps: 50, ..SolveParams::default() }, 0.5);
    let info = info.unwrap();
    assert_eq!((info.stopped, x), (Stopped::Stagnated, 0.5));
    assert_eq!((info.converged, info.contraction, info.certified_error), (false, None, None));
}

#[test]
fn values_that_are_not_finite_are_errors_that_name_their_origin() {
    let message = |equation: &Equation, start| {
        let params = SolveParams { max_sweeps: 1000, patience: 1000, ..SolveParams::default() };
        solve(equation, &params, start).0.unwrap_err().to_string()
    };
    let fine = scalar(0.5, 1.0, Activation::Relu);
    assert_eq!(
        message(&scalar(0.5, f32::NAN, Activation::Relu), 0.0),
        "forward solve: row 0 of the input is not finite (found NaN)"
    );
    assert_eq!(
        message(&scalar(f32::INFINITY, 1.0, Activation::Relu), 0.0),
        "forward solve: a weight of relation 0 is not finite (found inf)"
    );
    let mut edge = scalar(0.5, 1.0, Activation::Relu);
    edge.incoming[0].values[0] = f32::NAN;
    assert_eq!(
        message(&edge, 0.0),
        "forward solve: an edge of node 0 in relation 0 is not finite (found NaN)"
    );
    assert_eq!(
        message(&fine, f32::NAN),
        "forward solve: row 0 of the start is not finite (found NaN)"
    );
    let error = message(&scalar(1e20, 1.0, Activation::Relu), 0.0);
    assert!(error.starts_with("forward solve: the state overflowed in sweep 3"), "{error}");
    let backwards = |equation: &Equation, start: f32| {
        equation.with_sweep(true, &equation.b, |sweep, certificate| {
            let mut state = Matrix::from_fn(1, 1, |_, _| start);
            let (params, mut workspace) = (SolveParams::default(), Workspace::new(1, 1, true));
            let certificate = Some(&certificate);
            let error = fixed_point::solve(
                sweep,
                Direction::Adjoint(Derivative::One),
                certificate,
                &params,
                &mut state,
                &mut workspace,
            );
            error.unwrap_err().to_string()
        })
    };
    assert_eq!(
        backwards(&fine, f32::NAN),
        "adjoint solve: row 0 of the start is not finite (found NaN)"
    );
    assert_eq!(
        backwards(&scalar(0.5, f32::INFINITY, Activation::Relu), 0.0),
        "adjoint solve: row 0 of the input is not finite (found inf)"
    );
}

#[test]
fn the_workspace_is_as_large_as_estimated() {
    assert_eq!(Workspace::bytes(10, 20, false, 0), 10 * 32 * 4 + 3 * 10);
    assert_eq!(Workspace::bytes(10, 20, true, 0), 2 * 10 * 32 * 4 + 3 * 10);
    for (rows, cols, keeps) in [(10, 20, true), (7, 3, false), (0, 5, true), (1000, 64, true)] {
        let workspace = Workspace::new(rows, cols, keeps);
        assert_eq!((workspace.rows().len(), workspace.cols()), (rows, cols));
        let estimate = Workspace::bytes(rows, cols, keeps, 0);
        assert!((estimate..estimate + 128).contains(&workspace.held()));
    }
}

/// A wave along a chain: each sweep moves the state more than the one before, until it is through.
#[test]
fn a_solve_that_is_certified_does_not_give_up_on_a_wave() {
    let nodes = 40;
    let graph = Graph { nodes, entries: (1..nodes).map(|i| (i - 1, i, 1.0)).collect() };
    let b = Matrix::from_fn(nodes, 1, |i, _| if i == 0 { 1.0 } else { 0.0 });
    let equation = Equation::one(&graph, Matrix::from_fn(1, 1, |_, _| 1.1), b, Activation::Relu);
    let found = equation.forward(&SolveParams::default());
    // Of 40 rows one moves at a time; the last sweep computes all of them.
    assert!(found.info.converged && found.info.sweeps == nodes + 2, "{:?}", found.info);
    assert!(found.info.row_updates < 4 * nodes as u64, "{:?}", found.info);
    let last = found.state.row(nodes - 1)[0];
    assert!((f64::from(last) / 1.1f64.powi(nodes as i32 - 1) - 1.0).abs() < 1e-4, "{last}");
}

/// A path that halves what it passes on: x_i = 2^-i.
fn halving(nodes: usize) -> Equation {
    let entries = (1..nodes).map(|node| (node - 1, node, 1.0)).collect();
    let b = Matrix::from_fn(nodes, 1, |node, _| if node == 0 { 1.0 } else { 0.0 });
    Equation::one(
        &Graph { nodes, entries },
        Matrix::from_fn(1, 1, |_, _| 0.5),
        b,
        Activation::Identity,
    )
}

#[test]
fn measured_by_rows_a_wave_is_followed_to_its_end() {
    let solve = |nodes, measure| {
        let found = halving(nodes).forward(&SolveParams { measure, ..SolveParams::default() });
        assert!(found.info.converged, "{:?}", found.info);
        let state: Vec<f32> = (0..nodes).map(|node| found.state.row(node)[0]).collect();
        (found.info, state)
    };
    // By the largest entry the solve ends where a sweep adds 1e-5 of it, and the far end stays at
    // zero.
    let (info, state) = solve(30, Measure::State);
    assert!(info.sweeps < 20 && state[29] == 0.0, "{info:?}");
    let (info, state) = solve(30, Measure::Row);
    assert!((0..30).all(|node| state[node as usize] == 0.5f32.powi(node)), "{state:?}");
    // The sweep after the last changes nothing, and neither does the one over all rows that
    // verifies it.
    assert_eq!((info.sweeps, info.relative_residual), (32, 0.0));

    // 2^-40 is below 1e-12: rows from there on have faded, and no sweep is made for them but the
    // one that verifies.
    let (info, state) = solve(60, Measure::Row);
    assert_eq!(info.sweeps, 42, "{info:?}");
    assert!((0..=41).all(|node| state[node as usize] == 0.5f32.powi(node)) && state[42] == 0.0);
}

#[test]
fn measured_by_rows_patience_does_not_end_a_wave() {
    // Without a certificate, and a front that moves as much in every sweep: nothing gets smaller
    // for 50 sweeps.
    let nodes = 50;
    let mut entries: Vec<_> = (1..nodes).map(|node| (node - 1, node, 1.0)).collect();
    entries.push((0, 0, 1.1));
    let b = Matrix::from_fn(nodes, 1, |node, _| if node == 0 { 1.0 } else { 0.0 });
    let w = Matrix::from_fn(1, 1, |_, _| 1.0);
    let equation = Equation::one(&Graph { nodes, entries }, w, b, Activation::Tanh);
    let solve =
        |measure| equation.forward(&SolveParams { measure, patience: 5, ..SolveParams::default() });
    let by_row = solve(Measure::Row);
    assert!(by_row.info.contraction.is_none() && by_row.info.converged, "{:?}", by_row.info);
    assert!(
        by_row.info.sweeps > nodes && by_row.state.row(nodes - 1)[0] > 0.05,
        "{:?}",
        by_row.info
    );
}
