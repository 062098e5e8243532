//! Adam and gradient descent with momentum, with weight decay through the gradient or decoupled
//! from it. Learning rates, clipping and projections are computed elsewhere.
//!
//! ```text
//! g  = gradient + decay * value                     L2 decay; not added if decay is decoupled
//! m' = beta1 m + (1 - beta1) g                      Adam (Kingma, Ba 2015) at step t, from 1
//! v' = beta2 v + (1 - beta2) g^2
//! value' = value - lr * (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + epsilon)
//! v' = momentum v + g,   value' = value - lr v'     gradient descent
//! value is first scaled by 1 - lr * decay           decoupled decay (Loshchilov, Hutter 2019)
//! ```
//!
//! A step is one pass over value, gradient and moments, limited by memory bandwidth. It allocates
//! nothing.
//! Subnormal moments are set to zero: far from any label gradients fade out, and arithmetic on
//! subnormal numbers is many times slower. Entries of gradients count as at most 1e18, so that
//! squares and moments stay finite.
//!
//! ```
//! use ignn::dense::Matrix;
//! use ignn::optim::{OptimConfig, Optimiser, Parameter};
//!
//! let weight = Matrix::from_fn(1, 2, |_, _| 1.0);
//! let mut parameters = [Parameter::new("W", weight, true)];
//! let mut adam = Optimiser::new(&OptimConfig::default(), &parameters).unwrap();
//! parameters[0].gradient = Matrix::from_fn(1, 2, |_, k| [4.0, -0.25][k]);
//! adam.step(&mut parameters, 0.1);
//! // The first step of Adam moves every entry by the learning rate, against its gradient.
//! let moved = parameters[0].value.row(0);
//! assert!((moved[0] - 0.9).abs() < 1e-5 && (moved[1] - 1.1).abs() < 1e-5);
//! ```

use std::collections::HashMap;

use rayon::prelude::*;

use super::{CHUNK, OptimConfig, Parameter};
use crate::dense::{Matrix, MatrixRef};
use crate::settings::{Section, SettingError, words};

/// Squares of smaller gradients would be subnormal. They are negligible next to any usable epsilon.
const TINY: f32 = 1e-17;

/// The square of a larger gradient would be infinite, and so would the moments that a checkpoint
/// has.
const HUGE: f32 = 1e18;

words! {
    /// Optimisers.
    pub enum Method {
        /// Adam with bias correction.
        Adam = "adam",
        /// Gradient descent with momentum.
        Sgd = "sgd",
    }
}

/// A state that does not belong to the optimiser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A matrix is missing.
    #[error("{name}: missing from the state of the optimiser")]
    Missing {
        /// Its name.
        name: String,
    },
    /// A matrix that the optimiser does not have.
    #[error("{name}: unknown to the optimiser; was the state written with another one?")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// A matrix whose shape is not that of its parameter.
    #[error(
        "{name}: wrong shape (found {} x {}, expected {} x {})",
        found.0, found.1, expected.0, expected.1
    )]
    Shape {
        /// Its name.
        name: String,
        /// Its rows and columns.
        found: (usize, usize),
        /// Those of the parameter.
        expected: (usize, usize),
    },
}

/// An optimiser with its moments.
#[derive(Clone, Debug)]
pub struct Optimiser {
    config: OptimConfig,
    steps: u64,
    /// One per parameter, in order.
    moments: Vec<Moments>,
}

/// The moments of one parameter, under its name.
#[derive(Clone, Debug)]
struct Moments {
    parameter: String,
    matrices: Vec<Matrix>,
}

impl Optimiser {
    /// An optimiser for these parameters. Every step must be given the same ones in the same order.
    pub fn new(config: &OptimConfig, parameters: &[Parameter]) -> Result<Self, SettingError> {
        config.check()?;
        // Not clones: untouched zero pages take no memory until the first step.
        let zeros = |value: &Matrix| Matrix::zeros(value.rows(), value.cols());
        let moments = parameters.iter().map(|parameter| Moments {
            parameter: parameter.name.clone(),
            matrices: match parameter.is_fixed() {
                true => Vec::new(),
                false => kinds(config).iter().map(|_| zeros(&parameter.value)).collect(),
            },
        });
        Ok(Self { config: config.clone(), steps: 0, moments: moments.collect() })
    }

    /// Updates every parameter, with the learning rate times the parameter's own factor.
    ///
    /// # Panics
    /// If the parameters are not those that the optimiser was made for.
    pub fn step(&mut self, parameters: &mut [Parameter], learning_rate: f64) {
        assert_eq!(
            parameters.len(),
            self.moments.len(),
            "the parameters that the optimiser was made for"
        );
        self.steps += 1;
        for (parameter, moments) in parameters.iter_mut().zip(&mut self.moments) {
            assert_eq!(parameter.name, moments.parameter, "parameters in the optimiser's order");
            if parameter.is_fixed() {
                continue;
            }
            let learning_rate = learning_rate * parameter.rate_factor;
            let OptimConfig { weight_decay, decoupled, .. } = self.config;
            let rate = if parameter.decays { weight_decay } else { 0.0 };
            let pull = Pull {
                l2: if decoupled { 0.0 } else { rate as f32 },
                keep: if decoupled { (1.0 - learning_rate * rate) as f32 } else { 1.0 },
            };
            let (mut value, gradient) = (parameter.value.view_mut(), parameter.gradient.view());
            let pairs =
                value.padded_mut().par_chunks_mut(CHUNK).zip(gradient.padded().par_chunks(CHUNK));
            match (self.config.method, moments.matrices.as_mut_slice()) {
                (Method::Adam, [first, second]) => {
                    let adam = Adam::new(&self.config, learning_rate, self.steps);
                    let (mut first, mut second) = (first.view_mut(), second.view_mut());
                    let first = first.padded_mut().par_chunks_mut(CHUNK);
                    let second = second.padded_mut().par_chunks_mut(CHUNK);
                    let chunks = pairs.zip(first.zip(second));
                    chunks.for_each(|((value, gradient), (first, second))| {
                        adam.step(pull, value, gradient, first, second);
                    });
                }
                (Method::Sgd, [velocity]) => {
                    let (momentum, rate) = (self.config.momentum as f32, learning_rate as f32);
                    let mut velocity = velocity.view_mut();
                    let chunks = pairs.zip(velocity.padded_mut().par_chunks_mut(CHUNK));
                    chunks.for_each(|((value, gradient), velocity)| {
                        for ((value, &g), velocity) in value.iter_mut().zip(gradient).zip(velocity)
                        {
                            *velocity = normal(momentum * *velocity + pull.gradient(g, *value));
                            *value = pull.keep * *value - rate * *velocity;
                        }
                    });
                }
                (_, _) => {
                    let rate = learning_rate as f32;
                    pairs.for_each(|(value, gradient)| {
                        for (value, &g) in value.iter_mut().zip(gradient) {
                            *value = pull.keep * *value - rate * pull.gradient(g, *value);
                        }
                    });
                }
            }
        }
    }

    /// Number of steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The moments by name: `adam.first.P`, `adam.second.P`, `sgd.velocity.P` for a parameter P that
    /// is not fixed.
    pub fn state(&self) -> Vec<(String, MatrixRef<'_>)> {
        let mut state = Vec::new();
        for moments in &self.moments {
            for (kind, matrix) in kinds(&self.config).iter().zip(&moments.matrices) {
                state.push((format!("{kind}.{}", moments.parameter), matrix.view()));
            }
        }
        state
    }

    /// Restores what [`Optimiser::state`] and [`Optimiser::steps`] returned, so that the next step
    /// is the one that would have followed.
    ///
    /// On an error nothing is changed.
    pub fn restore(
        &mut self,
        steps: u64,
        state: Vec<(String, Matrix)>,
    ) -> Result<(), RestoreError> {
        let expected = self.state();
        for (name, matrix) in &state {
            let Some((_, own)) = expected.iter().find(|(own, _)| own == name) else {
                return Err(RestoreError::Unknown { name: name.clone() });
            };
            let (found, expected) = ((matrix.rows(), matrix.cols()), (own.rows(), own.cols()));
            if found != expected {
                return Err(RestoreError::Shape { name: name.clone(), found, expected });
            }
        }
        if let Some((name, _)) =
            expected.iter().find(|(own, _)| state.iter().all(|(name, _)| name != own))
        {
            return Err(RestoreError::Missing { name: name.clone() });
        }
        let mut state: HashMap<String, Matrix> = state.into_iter().collect();
        for moments in &mut self.moments {
            for (kind, own) in kinds(&self.config).iter().zip(&mut moments.matrices) {
                if let Some(matrix) = state.remove(&format!("{kind}.{}", moments.parameter)) {
                    *own = matrix;
                }
            }
        }
        self.steps = steps;
        Ok(())
    }
}

/// Names of the moments of an optimiser.
fn kinds(config: &OptimConfig) -> &'static [&'static str] {
    match config.method {
        Method::Adam => &["adam.first", "adam.second"],
        Method::Sgd if config.momentum == 0.0 => &[],
        Method::Sgd => &["sgd.velocity"],
    }
}

/// Weight decay, in one of its two forms; the other one is neutral.
#[derive(Clone, Copy)]
struct Pull {
    l2: f32,
    keep: f32,
}

impl Pull {
    #[inline(always)]
    fn gradient(self, gradient: f32, value: f32) -> f32 {
        normal((gradient + self.l2 * value).clamp(-HUGE, HUGE))
    }
}

/// Sets subnormal numbers to zero; NaN stays.
#[inline(always)]
fn normal(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x }
}

/// The constants of one step of Adam.
struct Adam {
    beta1: f32,
    rest1: f32,
    beta2: f32,
    rest2: f32,
    /// lr / (1 - beta1^t)
    rate: f32,
    /// 1 / sqrt(1 - beta2^t)
    root: f32,
    epsilon: f32,
}

impl Adam {
    fn new(config: &OptimConfig, learning_rate: f64, steps: u64) -> Self {
        let OptimConfig { beta1, beta2, epsilon, .. } = *config;
        let corrected = |beta: f64| 1.0 - beta.powf(steps as f64);
        Self {
            beta1: beta1 as f32,
            rest1: (1.0 - beta1) as f32,
            beta2: beta2 as f32,
            rest2: (1.0 - beta2) as f32,
            rate: (learning_rate / corrected(beta1)) as f32,
            root: (1.0 / corrected(beta2).sqrt()) as f32,
            epsilon: epsilon as f32,
        }
    }

    /// Updates one chunk; written so that it vectorises.
    fn step(
        &self,
        pull: Pull,
        value: &mut [f32],
        gradient: &[f32],
        first: &mut [f32],
        second: &mut [f32],
    ) {
        for (((value, &g), first), second) in value.iter_mut().zip(gradient).zip(first).zip(second)
        {
            let g = pull.gradient(g, *value);
            let square = if g.abs() < TINY { 0.0 } else { g * g };
            *first = normal(self.beta1 * *first + self.rest1 * g);
            *second = normal(self.beta2 * *second + self.rest2 * square);
            let step = self.rate * *first / (second.sqrt() * self.root + self.epsilon);
            *value = pull.keep * *value - step;
        }
    }
}
