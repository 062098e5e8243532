//! The model in f64 with dense loops: equilibria, losses and every gradient, for tests of the
//! engine. Slow, obvious, and free of the engine's types; the solver's unit tests include this file
//! too.
//!
//! The chain (input maps, skips, readout, losses) is written once; the operations that the engine
//! computes are a [`Backend`], so that the same golden cases run through [`Dense`] here and through
//! the kernels and solver in f32.

/// SplitMix64: a test that fails fails again.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [-1, 1).
    pub fn sign(&mut self) -> f64 {
        2.0 * self.unit() - 1.0
    }
}

/// phi
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phi {
    Identity,
    Relu,
    LeakyRelu(f64),
    Tanh,
    Sigmoid,
    Elu,
}

/// A dense matrix, rows after each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Mat {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Entries.
    pub data: Vec<f64>,
}

impl Mat {
    /// Entry by entry.
    pub fn new(rows: usize, cols: usize, mut entry: impl FnMut(usize, usize) -> f64) -> Self {
        let mut data = Vec::with_capacity(rows * cols);
        for i in 0..rows {
            data.extend((0..cols).map(|k| entry(i, k)));
        }
        Self { rows, cols, data }
    }

    /// An entry.
    pub fn at(&self, i: usize, k: usize) -> f64 {
        self.data[i * self.cols + k]
    }

    /// The transpose.
    pub fn t(&self) -> Self {
        Self::new(self.cols, self.rows, |i, k| self.at(k, i))
    }

    /// The product.
    pub fn times(&self, other: &Self) -> Self {
        assert_eq!(self.cols, other.rows, "shapes of a product");
        Self::new(self.rows, other.cols, |i, k| {
            (0..self.cols).map(|l| self.at(i, l) * other.at(l, k)).sum()
        })
    }

    /// Entries of two matrices combined.
    pub fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
        assert_eq!((self.rows, self.cols), (other.rows, other.cols), "matrices of one shape");
        Self::new(self.rows, self.cols, |i, k| f(self.at(i, k), other.at(i, k)))
    }

    /// The sum.
    pub fn plus(&self, other: &Self) -> Self {
        self.zip(other, |x, y| x + y)
    }

    /// The largest |entry|.
    pub fn largest(&self) -> f64 {
        self.data.iter().fold(0.0, |m, x| x.abs().max(m))
    }

    /// The largest |difference|.
    pub fn distance(&self, other: &Self) -> f64 {
        self.zip(other, |x, y| x - y).largest()
    }
}

/// phi(z).
pub fn value(activation: Phi, z: f64) -> f64 {
    match activation {
        Phi::Identity => z,
        Phi::Relu => z.max(0.0),
        Phi::LeakyRelu(slope) => {
            if z > 0.0 {
                z
            } else {
                slope * z
            }
        }
        Phi::Tanh => z.tanh(),
        Phi::Sigmoid => 1.0 / (1.0 + (-z).exp()),
        Phi::Elu => {
            if z > 0.0 {
                z
            } else {
                z.exp_m1()
            }
        }
    }
}

/// phi'(z) by x = phi(z).
pub fn slope(activation: Phi, x: f64) -> f64 {
    let below = match activation {
        Phi::Identity => return 1.0,
        Phi::Tanh => return 1.0 - x * x,
        Phi::Sigmoid => return x * (1.0 - x),
        Phi::Relu => 0.0,
        Phi::LeakyRelu(slope) => slope,
        Phi::Elu => x + 1.0,
    };
    if x > 0.0 { 1.0 } else { below }
}

/// One equilibrium layer: `X = phi(sum_r A_r^T X W_r^T + sum_r (A_r^T U) through_r^T + U direct^T +
/// bias)`.
#[derive(Clone, Debug)]
pub struct Layer {
    /// A_r, n x n.
    pub a: Vec<Mat>,
    /// W_r, m x m.
    pub w: Vec<Mat>,
    /// Omega_r of the input that passes through the graph, m x p; empty where none does.
    pub through: Vec<Mat>,
    /// Omega of the input that does not.
    pub direct: Option<Mat>,
    /// Bias, 1 x m.
    pub bias: Option<Mat>,
    /// phi
    pub activation: Phi,
    /// V (m x p) and v (1 x m) of the skip `X + U V^T + v`, with an elu unless last.
    pub skip: Option<(Mat, Mat)>,
}

/// Gradients of a layer, named as its fields.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// Of W_r.
    pub w: Vec<Mat>,
    /// Of the input maps through the graph.
    pub through: Vec<Mat>,
    /// Of the direct input map.
    pub direct: Option<Mat>,
    /// Of the bias.
    pub bias: Option<Mat>,
    /// Of the skip.
    pub skip: Option<(Mat, Mat)>,
    /// Of the layer's input.
    pub u: Mat,
}

/// What the engine computes.
pub trait Backend {
    /// B for a layer's input.
    fn input_term(&self, layer: &Layer, u: &Mat) -> Mat;
    /// X P^T.
    fn linear(&self, x: &Mat, p: &Mat) -> Mat;
    /// X for the input term B.
    fn equilibrium(&self, layer: &Layer, b: &Mat) -> Mat;
    /// G at the equilibrium X for R.
    fn adjoint(&self, layer: &Layer, x: &Mat, r: &Mat) -> Mat;
    /// G^T (A_r^T X).
    fn weight(&self, a: &Mat, g: &Mat, x: &Mat) -> Mat;
    /// G^T U.
    fn input(&self, g: &Mat, u: &Mat) -> Mat;
    /// Sums of columns, 1 x m.
    fn sums(&self, g: &Mat) -> Mat;
    /// A G.
    fn outgoing(&self, a: &Mat, g: &Mat) -> Mat;
}

/// Dense f64.
pub struct Dense;

/// Iterates to the last bits.
fn iterate(start: Mat, step: impl Fn(&Mat) -> Mat) -> Mat {
    let (mut state, mut before) = (start, f64::INFINITY);
    for _ in 0..100_000 {
        let next = step(&state);
        let moved = next.distance(&state);
        state = next;
        // Near the last bits the steps no longer fall.
        if moved <= 1e-16 * state.largest() || (moved <= 1e-13 * state.largest() && moved >= before)
        {
            break;
        }
        before = moved;
    }
    state
}

impl Backend for Dense {
    fn input_term(&self, layer: &Layer, u: &Mat) -> Mat {
        let mut b = Mat::new(u.rows, layer.w[0].rows, |_, k| {
            layer.bias.as_ref().map_or(0.0, |b| b.at(0, k))
        });
        for (a, omega) in layer.a.iter().zip(&layer.through) {
            b = b.plus(&a.t().times(u).times(&omega.t()));
        }
        layer.direct.as_ref().map_or_else(|| b.clone(), |omega| b.plus(&u.times(&omega.t())))
    }

    fn linear(&self, x: &Mat, p: &Mat) -> Mat {
        x.times(&p.t())
    }

    fn equilibrium(&self, layer: &Layer, b: &Mat) -> Mat {
        let pairs: Vec<_> = layer.a.iter().zip(&layer.w).map(|(a, w)| (a.t(), w.t())).collect();
        iterate(Mat::new(b.rows, b.cols, |_, _| 0.0), |x| {
            let sum = pairs.iter().fold(b.clone(), |sum, (a, w)| sum.plus(&a.times(x).times(w)));
            Mat::new(sum.rows, sum.cols, |i, k| value(layer.activation, sum.at(i, k)))
        })
    }

    fn adjoint(&self, layer: &Layer, x: &Mat, r: &Mat) -> Mat {
        iterate(Mat::new(r.rows, r.cols, |_, _| 0.0), |g| {
            let pairs = layer.a.iter().zip(&layer.w);
            let sum = pairs.fold(r.clone(), |sum, (a, w)| sum.plus(&a.times(g).times(w)));
            sum.zip(x, |sum, x| sum * slope(layer.activation, x))
        })
    }

    fn weight(&self, a: &Mat, g: &Mat, x: &Mat) -> Mat {
        g.t().times(&a.t().times(x))
    }

    fn input(&self, g: &Mat, u: &Mat) -> Mat {
        g.t().times(u)
    }

    fn sums(&self, g: &Mat) -> Mat {
        Mat::new(1, g.rows, |_, _| 1.0).times(g)
    }

    fn outgoing(&self, a: &Mat, g: &Mat) -> Mat {
        a.times(g)
    }
}

impl Layer {
    /// All gradients for the gradient R with respect to the equilibrium.
    pub fn backward(&self, backend: &impl Backend, u: &Mat, x: &Mat, r: &Mat) -> Gradients {
        let g = backend.adjoint(self, x, r);
        let mut of_u = Mat::new(u.rows, u.cols, |_, _| 0.0);
        for (a, omega) in self.a.iter().zip(&self.through) {
            of_u = of_u.plus(&backend.linear(&backend.outgoing(a, &g), &omega.t()));
        }
        if let Some(omega) = &self.direct {
            of_u = of_u.plus(&backend.linear(&g, &omega.t()));
        }
        Gradients {
            w: self.a.iter().map(|a| backend.weight(a, &g, x)).collect(),
            through: self
                .a
                .iter()
                .zip(&self.through)
                .map(|(a, _)| backend.weight(a, &g, u))
                .collect(),
            direct: self.direct.as_ref().map(|_| backend.input(&g, u)),
            bias: self.bias.as_ref().map(|_| backend.sums(&g)),
            skip: None,
            u: of_u,
        }
    }
}

/// Equilibrium layers one after the other, an optional readout, a loss.
#[derive(Clone, Debug)]
pub struct Model {
    /// U, n x p.
    pub u: Mat,
    /// The layers.
    pub layers: Vec<Layer>,
    /// Theta, c x m; absent where the last layer's output is the logits.
    pub theta: Option<Mat>,
    /// The loss.
    pub loss: Loss,
}

/// A loss averaged over the rows named.
#[derive(Clone, Debug)]
pub struct Loss {
    /// Classes (n x 1) for cross entropy, 0/1 (n x c) for binary cross entropy.
    pub targets: Mat,
    /// Which of the two.
    pub binary: bool,
    /// The rows.
    pub rows: Vec<usize>,
}

/// What a model computes, with every gradient.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// X of every layer.
    pub equilibria: Vec<Mat>,
    /// Y.
    pub logits: Mat,
    /// The loss.
    pub loss: f64,
    /// By layer.
    pub gradients: Vec<Gradients>,
    /// Of Theta.
    pub theta: Option<Mat>,
}

impl Loss {
    /// The loss, and its gradient with respect to the logits.
    pub fn of(&self, logits: &Mat) -> (f64, Mat) {
        let mut gradient = Mat::new(logits.rows, logits.cols, |_, _| 0.0);
        let mut sum = 0.0;
        let count = self.rows.len() as f64 * if self.binary { logits.cols as f64 } else { 1.0 };
        for &i in &self.rows {
            let row: Vec<f64> = (0..logits.cols).map(|k| logits.at(i, k)).collect();
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let all: f64 = row.iter().map(|y| (y - top).exp()).sum();
            for (k, &y) in row.iter().enumerate() {
                let slope = if self.binary {
                    let target = self.targets.at(i, k);
                    sum += y.max(0.0) - y * target + (-y.abs()).exp().ln_1p();
                    value(Phi::Sigmoid, y) - target
                } else {
                    let hit = self.targets.at(i, 0) == k as f64;
                    sum -= if hit { y - top - all.ln() } else { 0.0 };
                    (y - top).exp() / all - f64::from(u8::from(hit))
                };
                gradient.data[i * logits.cols + k] = slope / count;
            }
        }
        (sum / count, gradient)
    }
}

impl Model {
    /// Forward and backward.
    pub fn run(&self, backend: &impl Backend) -> Outcome {
        let (mut inputs, mut equilibria) = (vec![self.u.clone()], Vec::new());
        for (at, layer) in self.layers.iter().enumerate() {
            let u = &inputs[at];
            let x = backend.equilibrium(layer, &backend.input_term(layer, u));
            let mut out = x.clone();
            if let Some((v, bias)) = &layer.skip {
                let skipped = backend.linear(u, v);
                out = Mat::new(out.rows, out.cols, |i, k| {
                    out.at(i, k) + skipped.at(i, k) + bias.at(0, k)
                });
                if at + 1 < self.layers.len() {
                    out.data.iter_mut().for_each(|z| *z = value(Phi::Elu, *z));
                }
            }
            equilibria.push(x);
            inputs.push(out);
        }
        let last = inputs.last().expect("the input is there");
        let logits =
            self.theta.as_ref().map_or_else(|| last.clone(), |theta| backend.linear(last, theta));
        let (loss, of_logits) = self.loss.of(&logits);
        let theta = self.theta.as_ref().map(|_| backend.input(&of_logits, last));
        let mut r = self
            .theta
            .as_ref()
            .map_or_else(|| of_logits.clone(), |theta| backend.linear(&of_logits, &theta.t()));
        let mut gradients = Vec::new();
        for (at, layer) in self.layers.iter().enumerate().rev() {
            if layer.skip.is_some() && at + 1 < self.layers.len() {
                r = r.zip(&inputs[at + 1], |r, x| r * slope(Phi::Elu, x));
            }
            let mut found = layer.backward(backend, &inputs[at], &equilibria[at], &r);
            if let Some((v, _)) = &layer.skip {
                found.u = found.u.plus(&backend.linear(&r, &v.t()));
                found.skip = Some((backend.input(&r, &inputs[at]), backend.sums(&r)));
            }
            r = found.u.clone();
            gradients.push(found);
        }
        gradients.reverse();
        Outcome { equilibria, logits, loss, gradients, theta }
    }
}
