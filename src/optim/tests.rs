//! The optimiser against the formulas in f64, and its memory.

use super::*;
use crate::dense::Matrix;
use crate::kernels::naive::Random;
use crate::parallel::with_threads;

fn parameters(random: &mut Random) -> Vec<Parameter> {
    let shapes = [("wide", 30, 37, true), ("bias", 1, 5, false), ("narrow", 900, 3, true)];
    shapes
        .map(|(name, rows, cols, decays)| Parameter::new(name, random.matrix(rows, cols), decays))
        .into()
}

fn draw(parameters: &mut [Parameter], random: &mut Random) {
    for parameter in parameters {
        parameter.gradient = random.matrix(parameter.value.rows(), parameter.value.cols());
    }
}

/// One entry in f64.
struct Entry {
    value: f64,
    first: f64,
    second: f64,
}

impl Entry {
    fn step(&mut self, config: &OptimConfig, decay: f64, gradient: f64, rate: f64, t: i32) {
        let OptimConfig { method, beta1, beta2, epsilon, momentum, decoupled, .. } = *config;
        let g = gradient + if decoupled { 0.0 } else { decay * self.value };
        if decoupled {
            self.value *= 1.0 - rate * decay;
        }
        match method {
            Method::Adam => {
                self.first = beta1 * self.first + (1.0 - beta1) * g;
                self.second = beta2 * self.second + (1.0 - beta2) * g * g;
                let (first, second) =
                    (self.first / (1.0 - beta1.powi(t)), self.second / (1.0 - beta2.powi(t)));
                self.value -= rate * first / (second.sqrt() + epsilon);
            }
            Method::Sgd => {
                self.first = momentum * self.first + g;
                self.value -= rate * self.first;
            }
        }
    }
}

fn adam() -> OptimConfig {
    OptimConfig::default()
}

fn sgd(momentum: f64) -> OptimConfig {
    OptimConfig { method: Method::Sgd, momentum, ..OptimConfig::default() }
}

#[test]
fn steps_are_those_of_the_formulas() {
    for method in [adam(), sgd(0.9), sgd(0.0)] {
        for (weight_decay, decoupled) in [(0.0, false), (0.3, false), (0.3, true)] {
            let config = OptimConfig { weight_decay, decoupled, ..method.clone() };
            let random = &mut Random(1);
            let mut parameters = parameters(random);
            let entry = |value: &f32| Entry { value: f64::from(*value), first: 0.0, second: 0.0 };
            let rows =
                |p: &Parameter| (0..p.value.rows()).flat_map(|i| p.value.row(i).to_vec()).collect();
            let mut expected: Vec<Vec<Entry>> = parameters
                .iter()
                .map(rows)
                .map(|rows: Vec<f32>| rows.iter().map(entry).collect())
                .collect();
            let mut optimiser = Optimiser::new(&config, &parameters).unwrap();
            for t in 1..=5 {
                draw(&mut parameters, random);
                let rate = 0.1 / f64::from(t);
                for (parameter, entries) in parameters.iter().zip(&mut expected) {
                    let decay = if parameter.decays { weight_decay } else { 0.0 };
                    let gradients =
                        (0..parameter.value.rows()).flat_map(|i| parameter.gradient.row(i));
                    for (entry, &g) in entries.iter_mut().zip(gradients) {
                        entry.step(&config, decay, f64::from(g), rate, t);
                    }
                }
                optimiser.step(&mut parameters, rate);
            }
            assert_eq!(optimiser.steps(), 5);
            for (parameter, entries) in parameters.iter().zip(&expected) {
                for (row, entries) in entries.chunks(parameter.value.cols()).enumerate() {
                    for (&found, entry) in parameter.value.row(row).iter().zip(entries) {
                        let error = (f64::from(found) - entry.value).abs();
                        assert!(error < 5e-6, "{config:?}: {found} {}", entry.value);
                    }
                    let padding = &parameter.value.view().padded_row(row)[parameter.value.cols()..];
                    assert!(padding.iter().all(|&x| x.to_bits() == 0));
                }
            }
        }
    }
}

fn bits(parameters: &[Parameter]) -> Vec<u32> {
    parameters.iter().flat_map(|p| p.value.view().padded()).map(|x| x.to_bits()).collect()
}

#[test]
fn a_restored_optimiser_goes_on_with_the_same_bits_on_any_number_of_threads() {
    for method in [adam(), sgd(0.5), sgd(0.0)] {
        let config = OptimConfig { weight_decay: 0.01, decoupled: true, ..method };
        let run = |threads, interrupted: bool| {
            with_threads(threads, || {
                let random = &mut Random(8);
                let mut parameters = parameters(random);
                let mut optimiser = Optimiser::new(&config, &parameters).unwrap();
                for step in 0..6 {
                    draw(&mut parameters, random);
                    optimiser.step(&mut parameters, 0.01);
                    if interrupted && step == 2 {
                        let copy = |(name, _): &(String, _), matrix: &Matrix| {
                            (name.clone(), matrix.clone())
                        };
                        let state = optimiser.state();
                        let matrices: Vec<Matrix> = state
                            .iter()
                            .map(|(_, m)| Matrix::from_fn(m.rows(), m.cols(), |i, k| m.row(i)[k]))
                            .collect();
                        let mut state: Vec<_> =
                            state.iter().zip(&matrices).map(|(s, m)| copy(s, m)).collect();
                        state.reverse();
                        let mut fresh = Optimiser::new(&config, &parameters).unwrap();
                        fresh.restore(optimiser.steps(), state).unwrap();
                        optimiser = fresh;
                    }
                }
                bits(&parameters)
            })
        };
        let whole = run(1, false);
        assert!(
            whole == run(2, false) && whole == run(4, true) && whole == run(1, true),
            "{config:?}"
        );
    }
}

#[test]
fn states_that_do_not_fit_are_refused() {
    let parameters = [Parameter::new("head.Theta", Matrix::zeros(2, 3), true)];
    let mut optimiser = Optimiser::new(&adam(), &parameters).unwrap();
    let names: Vec<String> = optimiser.state().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["adam.first.head.Theta", "adam.second.head.Theta"]);
    let mut message = |state: &[(&str, usize)]| {
        let state =
            state.iter().map(|&(name, rows)| (name.to_string(), Matrix::zeros(rows, 3))).collect();
        optimiser.restore(7, state).unwrap_err().to_string()
    };
    assert_eq!(
        message(&[("adam.first.head.Theta", 2)]),
        "adam.second.head.Theta: missing from the state of the optimiser"
    );
    assert_eq!(
        message(&[("sgd.velocity.head.Theta", 2)]),
        "sgd.velocity.head.Theta: unknown to the optimiser; was the state written with another one?"
    );
    assert_eq!(
        message(&[("adam.first.head.Theta", 4)]),
        "adam.first.head.Theta: wrong shape (found 4 x 3, expected 2 x 3)"
    );
    assert_eq!(optimiser.steps(), 0, "nothing is changed on an error");
}

#[test]
fn settings_out_of_range_are_refused() {
    let message = |config: OptimConfig| Optimiser::new(&config, &[]).unwrap_err().to_string();
    let fraction = "expected a number from 0 to below 1";
    assert_eq!(
        message(OptimConfig { beta1: 1.0, ..adam() }),
        format!("beta1: wrong value (found 1.0, {fraction})")
    );
    assert_eq!(
        message(OptimConfig { beta2: f64::NAN, ..adam() }),
        format!("beta2: wrong value (found NaN or infinity, {fraction})")
    );
    assert_eq!(
        message(OptimConfig { epsilon: 0.0, ..adam() }),
        "epsilon: wrong value (found 0.0, expected a number from 1e-30 to 1)"
    );
    assert_eq!(message(sgd(-0.1)), format!("momentum: wrong value (found -0.1, {fraction})"));
    assert_eq!(
        message(OptimConfig { weight_decay: -1.0, ..adam() }),
        "weight_decay: wrong value (found -1.0, expected a number of at least 0)"
    );
}

#[test]
fn fading_gradients_leave_no_subnormal_moments() {
    let mut parameters = [Parameter::new("table", Matrix::zeros(4, 16), true)];
    let mut optimiser = Optimiser::new(&adam(), &parameters).unwrap();
    for step in 0..2000 {
        let g = 10f32.powi(-(step / 20));
        parameters[0].gradient = Matrix::from_fn(4, 16, |i, _| g * 10f32.powi(-7 * i as i32));
        optimiser.step(&mut parameters, 0.01);
        for (name, moment) in optimiser.state() {
            assert!(moment.padded().iter().all(|x| !x.is_subnormal()), "{name}");
        }
    }
    assert!(parameters[0].value.view().padded().iter().all(|x| x.is_finite() && *x < 0.0));
    parameters[0].gradient.row_mut(1)[0] = f32::NAN;
    optimiser.step(&mut parameters, 0.01);
    assert!(parameters[0].value.row(1)[0].is_nan(), "NaN is not hidden");
}

#[test]
fn moments_stay_finite_whatever_the_gradient() {
    for (method, momentum) in [(Method::Adam, 0.0), (Method::Sgd, 0.9)] {
        let config = OptimConfig { method, momentum, ..OptimConfig::default() };
        let mut parameters = [Parameter::new("W", Matrix::zeros(1, 2), true)];
        let mut optimiser = Optimiser::new(&config, &parameters).unwrap();
        parameters[0].gradient = Matrix::from_fn(1, 2, |_, k| [f32::MAX, -1e30][k]);
        for _ in 0..20 {
            optimiser.step(&mut parameters, 0.01);
        }
        let all = optimiser.state().into_iter().map(|(_, moment)| moment);
        for matrix in all.chain([parameters[0].value.view()]) {
            assert!(matrix.row(0).iter().all(|x| x.is_finite()), "{method:?}: {:?}", matrix.row(0));
        }
    }
}
