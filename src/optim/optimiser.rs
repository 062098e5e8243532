//! Adam and gradient descent with momentum, with weight decay through the gradient or decoupled
//! from it. It moves parameters along their gradients; rates, clipping and projections are
//! elsewhere.
//!
//! ```text
//! g  = gradient + rate * value                      L2 decay; not added if decay is decoupled
//! m' = beta1 m + (1 - beta1) g                      Adam (Kingma, Ba 2015) at step t, from 1
//! v' = beta2 v + (1 - beta2) g^2
//! value' = value - lr * (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + epsilon)
//! v' = momentum v + g,   value' = value - lr v'     gradient descent
//! value is first scaled by 1 - lr * rate            (decoupled decay: Loshchilov, Hutter 2019)
//! ```
//!
//! Cost: one pass over value, gradient and moments, limited by memory bandwidth, nothing allocated.
//! Subnormal moments are set to zero: far from any label gradients fade out, and arithmetic on
//! subnormal numbers is many times slower.
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

/// Squares of smaller gradients would be subnormal. Next to any usable epsilon they are nothing.
const TINY: f32 = 1e-17;

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
    /// A matrix is not there.
    #[error("{name}: missing from the state of the optimiser")]
    Missing {
        /// Its name.
        name: String,
    },
    /// A matrix has no use.
    #[error("{name}: unknown to the optimiser; was the state written with another one?")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// A matrix has another shape than its parameter.
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

/// A method with its memory.
#[derive(Clone, Debug)]
pub struct Optimiser {
    config: OptimConfig,
    steps: u64,
    /// One per parameter, in order.
    moments: Vec<Moments>,
}

/// What is remembered of a parameter: the method's matrices, under the parameter's name.
#[derive(Clone, Debug)]
struct Moments {
    parameter: String,
    matrices: Vec<Matrix>,
}

impl Optimiser {
    /// An optimiser for these parameters, which must be given again, in the same order, at every
    /// step.
    pub fn new(config: &OptimConfig, parameters: &[Parameter]) -> Result<Self, SettingError> {
        config.check()?;
        // Not clones of one: untouched zeros cost nothing until the first step.
        let zeros = |value: &Matrix| Matrix::zeros(value.rows(), value.cols());
        let moments = parameters.iter().map(|parameter| Moments {
            parameter: parameter.name.clone(),
            matrices: kinds(config).iter().map(|_| zeros(&parameter.value)).collect(),
        });
        Ok(Self { config: config.clone(), steps: 0, moments: moments.collect() })
    }

    /// Moves every parameter, at the learning rate times its own factor.
    ///
    /// # Panics
    /// Where the parameters are not those the optimiser was made for.
    pub fn step(&mut self, parameters: &mut [Parameter], learning_rate: f64) {
        assert_eq!(
            parameters.len(),
            self.moments.len(),
            "the parameters that the optimiser was made for"
        );
        self.steps += 1;
        for (parameter, moments) in parameters.iter_mut().zip(&mut self.moments) {
            assert_eq!(parameter.name, moments.parameter, "parameters in the optimiser's order");
            if parameter.rate_factor == 0.0 {
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

    /// The memory, by name: `adam.first.P`, `adam.second.P`, `sgd.velocity.P` for a parameter P.
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

/// Names of the matrices that a method remembers.
fn kinds(config: &OptimConfig) -> &'static [&'static str] {
    match config.method {
        Method::Adam => &["adam.first", "adam.second"],
        Method::Sgd if config.momentum == 0.0 => &[],
        Method::Sgd => &["sgd.velocity"],
    }
}

/// Weight decay in one of its forms; the other has no effect.
#[derive(Clone, Copy)]
struct Pull {
    l2: f32,
    keep: f32,
}

impl Pull {
    #[inline(always)]
    fn gradient(self, gradient: f32, value: f32) -> f32 {
        normal(gradient + self.l2 * value)
    }
}

/// Subnormal numbers are zero; NaN stays.
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

    /// A chunk of each; written so that it vectorises.
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
