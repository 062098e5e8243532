//! The readout: from rows of the state to logits, linear or through hidden layers, forward and
//! backward. Which nodes are read out, and how parameters are updated, is up to the caller.
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | H | k x m | rows of the state, one for each node that is read out |
//! | Theta, bias | c x m, 1 x c | the linear readout, Y = H Theta^T + bias |
//! | Y | k x c | logits |
//!
//! With `model.readout = "none"`, Y = H: the last layer has one column per output. With hidden
//! widths h_1 .. h_L: H_0 = H, H_l = relu(H_{l-1} V_l^T + v_l), Y = H_L V_{L+1}^T + v_{L+1}.
//! [`Readout::slots`] lists the parameters: those of the hidden layers (`head.hidden0.Theta`,
//! `head.hidden0.bias` and so on), then `head.Theta` and `head.bias`. Sums over rows are those of
//! `kernels::gradient`, with the same bits for any number of threads.
//!
//! ```
//! use ignn::dense::Matrix;
//! use ignn::nn::Readout;
//!
//! let readout = Readout::new(2, &[], 3, true);
//! let names: Vec<String> = readout.slots().into_iter().map(|slot| slot.name).collect();
//! assert_eq!(names, ["head.Theta", "head.bias"]);
//!
//! let theta = Matrix::from_fn(3, 2, |i, _| i as f32);
//! let bias = Matrix::from_fn(1, 3, |_, _| 0.5);
//! let (rows, mut logits) = (Matrix::from_fn(1, 2, |_, _| 1.0), Matrix::zeros(1, 3));
//! let values = [theta.view(), bias.view()];
//! readout.forward(&values, rows.view(), &mut readout.memory(1), logits.view_mut());
//! assert_eq!(logits.row(0), [0.5, 2.5, 4.5]);
//! ```

use super::linear;
use super::slot::Slot;
use crate::dense::{Matrix, MatrixMut, MatrixRef, stride};
use crate::kernels::{Activation, elementwise, gradient};

/// The shape of a readout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readout {
    /// State width, hidden widths, number of outputs.
    widths: Vec<usize>,
    has_bias: bool,
}

/// The hidden layers of a pass over a fixed set of nodes, kept from forward to backward. Empty for
/// a linear readout.
#[derive(Clone, Debug)]
pub struct ReadoutMemory {
    rows: usize,
    hidden: Vec<Matrix>,
    /// Gradients of the hidden layers, allocated by the first backward pass: evaluation needs none.
    gradients: Vec<Matrix>,
}

impl Readout {
    /// From states of width `state` to `outputs` logits; linear if there are no hidden widths.
    pub fn new(state: usize, hidden: &[usize], outputs: usize, has_bias: bool) -> Self {
        let widths = [&[state], hidden, &[outputs]].concat();
        Self { widths, has_bias }
    }

    /// No map: the rows themselves are the logits.
    pub fn none(outputs: usize) -> Self {
        Self { widths: vec![outputs], has_bias: false }
    }

    /// Number of logits.
    pub fn outputs(&self) -> usize {
        self.widths[self.layers()]
    }

    /// The parameters, in the order in which passes take them: layer by layer, weight before bias.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        for (layer, widths) in self.widths.windows(2).enumerate() {
            let part = if layer + 1 == self.layers() {
                "head".into()
            } else {
                format!("head.hidden{layer}")
            };
            let (weight, bias) = (format!("{part}.Theta"), format!("{part}.bias"));
            slots.push(Slot::weight(weight, widths[1], widths[0]));
            if self.has_bias {
                slots.push(Slot::bias(bias, widths[1]));
            }
        }
        slots
    }

    /// Initial values, in the order of the slots: weights uniform within 1 / sqrt(columns), biases
    /// zero.
    pub fn initial(&self, seed: u64) -> Vec<Matrix> {
        let value = |slot: &Slot| slot.initial(seed, 1.0 / (slot.shape.1.max(1) as f64).sqrt());
        self.slots().iter().map(value).collect()
    }

    /// Bytes of the hidden layers and their gradients, per row.
    pub fn row_bytes(&self) -> u64 {
        let hidden = self.widths.iter().skip(1).take(self.layers().saturating_sub(1));
        hidden.map(|&width| 2 * stride(width) as u64 * size_of::<f32>() as u64).sum()
    }

    /// Memory for passes over this many rows.
    pub fn memory(&self, rows: usize) -> ReadoutMemory {
        ReadoutMemory { rows, hidden: self.hidden(rows), gradients: Vec::new() }
    }

    fn hidden(&self, rows: usize) -> Vec<Matrix> {
        let between = self.widths.iter().skip(1).take(self.layers().saturating_sub(1));
        between.map(|&width| Matrix::zeros(rows, width)).collect()
    }

    fn layers(&self) -> usize {
        self.widths.len() - 1
    }

    /// Computes Y from H.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn forward(
        &self,
        values: &[MatrixRef<'_>],
        h: MatrixRef<'_>,
        memory: &mut ReadoutMemory,
        mut logits: MatrixMut<'_>,
    ) {
        self.check(values, h, memory);
        if self.layers() == 0 {
            elementwise::copy(h, logits.reborrow());
        }
        for layer in 0..self.layers() {
            let (done, rest) = memory.hidden.split_at_mut(layer);
            let from = done.last().map_or(h, Matrix::view);
            let (weight, bias) = self.layer(values, layer);
            let bias = bias.map(|bias| bias.row(0));
            match rest.first_mut() {
                Some(hidden) => {
                    linear::forward(weight, bias, from, hidden.view_mut());
                    elementwise::activate(Activation::Relu, hidden.view_mut());
                }
                None => linear::forward(weight, bias, from, logits.reborrow()),
            }
        }
    }

    /// Computes the gradients of H and of the parameters, in the order of the slots, from dL/dY.
    /// Call it after [`Readout::forward`] with the same rows. Old gradients are overwritten.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn backward(
        &self,
        values: &[MatrixRef<'_>],
        h: MatrixRef<'_>,
        memory: &mut ReadoutMemory,
        by_logits: MatrixRef<'_>,
        gradients: &mut [MatrixMut<'_>],
        mut by_h: MatrixMut<'_>,
    ) {
        self.check(values, h, memory);
        assert_eq!(gradients.len(), values.len(), "one gradient per parameter");
        if self.layers() == 0 {
            return elementwise::copy(by_logits, by_h);
        }
        if memory.gradients.len() < memory.hidden.len() {
            memory.gradients = self.hidden(memory.rows);
        }
        let per_layer = 1 + usize::from(self.has_bias);
        for layer in (0..self.layers()).rev() {
            // Gradients by the hidden layers below this one, and by its own result.
            let (below, own) = memory.gradients.split_at_mut(layer);
            let g = own.first().map_or(by_logits, Matrix::view);
            let from = if layer == 0 { h } else { memory.hidden[layer - 1].view() };
            let slots = &mut gradients[layer * per_layer..][..per_layer];
            replace(&mut slots[0], gradient::input(g, from).view());
            if let Some(bias) = slots.get_mut(1) {
                bias.row_mut(0).copy_from_slice(&gradient::bias(g));
            }
            let weight = self.layer(values, layer).0;
            match below.last_mut() {
                Some(below) => {
                    linear::backward(weight, g, below.view_mut());
                    elementwise::differentiate(Activation::Relu, from, below.view_mut());
                }
                None => linear::backward(weight, g, by_h.reborrow()),
            }
        }
    }

    /// How far the logits of one row can be from those of the exact row, if each entry of `h` is at
    /// most `error` away from it: through the absolute values of the weights, with the rounding of
    /// the products in f32.
    ///
    /// ```
    /// use ignn::dense::Matrix;
    /// use ignn::nn::Readout;
    ///
    /// let theta = Matrix::from_fn(1, 2, |_, k| [3.0, -4.0][k]);
    /// let readout = Readout::new(2, &[], 1, false);
    /// let bound = readout.error_bound(&[theta.view()], &[0.0, 0.0], 0.5);
    /// assert!(bound[0] >= 3.5 && bound[0] < 3.5001);
    /// ```
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn error_bound(&self, values: &[MatrixRef<'_>], h: &[f32], error: f64) -> Vec<f64> {
        assert_eq!(h.len(), self.widths[0], "a row of the state's width");
        let mut row: Vec<f64> = h.iter().map(|&x| f64::from(x)).collect();
        let mut errors = vec![error; row.len()];
        // How far `row` is from what the kernels compute in f32.
        let mut apart = vec![0.0; row.len()];
        for layer in 0..self.layers() {
            let (weight, bias) = self.layer(values, layer);
            let roundings = (row.len() + 2) as f64 * f64::from(f32::EPSILON);
            let output = |k: usize| {
                let bias = bias.map_or(0.0, |bias| f64::from(bias.row(0)[k]));
                let (mut sum, mut size, mut through, mut moved) = (bias, bias.abs(), 0.0, 0.0);
                for (((&w, &x), &e), &a) in weight.row(k).iter().zip(&row).zip(&errors).zip(&apart)
                {
                    let w = f64::from(w);
                    sum += w * x;
                    size += w.abs() * (x.abs() + a);
                    through += w.abs() * e;
                    moved += w.abs() * a;
                }
                let rounding = roundings * size;
                (sum, through + rounding, moved + rounding)
            };
            let outputs: Vec<_> = (0..weight.rows()).map(output).collect();
            let is_last = layer + 1 == self.layers();
            row = outputs.iter().map(|y| if is_last { y.0 } else { y.0.max(0.0) }).collect();
            errors = outputs.iter().map(|y| y.1).collect();
            apart = outputs.iter().map(|y| y.2).collect();
        }
        // The sums here round too, in f64.
        errors.iter().map(|error| error * (1.0 + 1e-9)).collect()
    }

    /// Weight and bias of a layer.
    fn layer<'a>(
        &self,
        values: &[MatrixRef<'a>],
        layer: usize,
    ) -> (MatrixRef<'a>, Option<MatrixRef<'a>>) {
        if self.has_bias {
            (values[2 * layer], Some(values[2 * layer + 1]))
        } else {
            (values[layer], None)
        }
    }

    fn check(&self, values: &[MatrixRef<'_>], h: MatrixRef<'_>, memory: &ReadoutMemory) {
        let per_layer = 1 + usize::from(self.has_bias);
        assert_eq!(values.len(), self.layers() * per_layer, "the parameters that the slots list");
        assert_eq!(h.cols(), self.widths[0], "rows of the state's width");
        let hidden = self.layers().saturating_sub(1);
        assert_eq!((h.rows(), hidden), (memory.rows, memory.hidden.len()), "memory that fits");
    }
}

fn replace(to: &mut MatrixMut<'_>, from: MatrixRef<'_>) {
    assert_eq!(
        (to.rows(), to.cols()),
        (from.rows(), from.cols()),
        "a gradient of the parameter's shape"
    );
    to.padded_mut().copy_from_slice(from.padded());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::{self, Random, Rows};
    use crate::parallel::with_threads;

    /// The formula in f64; parameters as rows, in the order of the slots.
    fn naive(readout: &Readout, values: &[Rows], h: &Rows) -> Rows {
        let per_layer = 1 + usize::from(readout.has_bias);
        let mut x = h.clone();
        for (layer, values) in values.chunks(per_layer).enumerate() {
            let dot = |x: &[f64], w: &[f64]| x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>();
            let bias = |k: usize| values.get(1).map_or(0.0, |bias| bias[0][k]);
            let is_last = layer + 1 == readout.layers();
            let entry = |x: &[f64], k: usize| {
                let z = dot(x, &values[0][k]) + bias(k);
                if is_last { z } else { z.max(0.0) }
            };
            x = x.iter().map(|x| (0..values[0].len()).map(|k| entry(x, k)).collect()).collect();
        }
        x
    }

    fn wide(matrix: &Matrix) -> Rows {
        (0..matrix.rows()).map(|i| matrix.row(i).iter().map(|&x| f64::from(x)).collect()).collect()
    }

    struct Pass {
        logits: Matrix,
        gradients: Vec<Matrix>,
        by_h: Matrix,
    }

    fn pass(readout: &Readout, values: &[Matrix], h: &Matrix, by_logits: &Matrix) -> Pass {
        let views: Vec<_> = values.iter().map(Matrix::view).collect();
        let mut memory = readout.memory(h.rows());
        let nan = |rows, cols| Matrix::from_fn(rows, cols, |_, _| f32::NAN);
        let mut logits = nan(h.rows(), readout.outputs());
        readout.forward(&views, h.view(), &mut memory, logits.view_mut());
        let mut gradients: Vec<_> =
            values.iter().map(|value| nan(value.rows(), value.cols())).collect();
        let mut by_h = nan(h.rows(), h.cols());
        let mut slots: Vec<_> = gradients.iter_mut().map(Matrix::view_mut).collect();
        readout.backward(
            &views,
            h.view(),
            &mut memory,
            by_logits.view(),
            &mut slots,
            by_h.view_mut(),
        );
        Pass { logits, gradients, by_h }
    }

    #[test]
    fn differences_agree() {
        let shapes: [(usize, &[usize], usize); 5] =
            [(5, &[], 3), (17, &[], 2), (4, &[6], 3), (16, &[8, 20], 1), (3, &[5, 4, 7], 2)];
        for (seed, (m, hidden, c)) in shapes.into_iter().enumerate() {
            for has_bias in [false, true] {
                let readout = Readout::new(m, hidden, c, has_bias);
                let random = &mut Random(seed as u64);
                let draw = |slot: &Slot| random.matrix(slot.shape.0, slot.shape.1);
                let values: Vec<Matrix> = readout.slots().iter().map(draw).collect();
                let (h, by_logits) = (random.matrix(9, m), random.matrix(9, c));
                let found = pass(&readout, &values, &h, &by_logits);
                let what = format!("{m} {hidden:?} {c} {has_bias}");
                let mut rows: Vec<Rows> = values.iter().map(wide).collect();
                rows.push(wide(&h));
                let split =
                    |rows: &[Rows]| naive(&readout, &rows[..rows.len() - 1], &rows[rows.len() - 1]);
                naive::assert_close(found.logits.view(), &split(&rows), &what);
                let g = wide(&by_logits);
                let value = |rows: &[Rows]| -> f64 {
                    split(rows).iter().flatten().zip(g.iter().flatten()).map(|(y, g)| y * g).sum()
                };
                for (at, gradient) in found.gradients.iter().chain([&found.by_h]).enumerate() {
                    let mut differences = rows[at].clone();
                    for i in 0..gradient.rows() {
                        for k in 0..gradient.cols() {
                            let mut moved = |by: f64| {
                                let before = rows[at][i][k];
                                rows[at][i][k] = before + by;
                                let value = value(&rows);
                                rows[at][i][k] = before;
                                value
                            };
                            differences[i][k] = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                        }
                    }
                    naive::assert_close(
                        gradient.view(),
                        &differences,
                        &format!("{what}: slot {at}"),
                    );
                }
            }
        }
    }

    #[test]
    fn the_same_bits_on_any_number_of_threads() {
        let readout = Readout::new(24, &[33], 7, true);
        let (h, by_logits) = (Random(1).matrix(4000, 24), Random(2).matrix(4000, 7));
        let run = |threads| {
            with_threads(threads, || {
                let Pass { logits, gradients, by_h } =
                    pass(&readout, &readout.initial(3), &h, &by_logits);
                let all = gradients.iter().chain([&logits, &by_h]);
                all.flat_map(|m| m.view().padded()).map(|x| x.to_bits()).collect::<Vec<_>>()
            })
        };
        let one = run(1);
        assert!(one == run(2) && one == run(4));
    }

    #[test]
    fn names_and_first_values() {
        let names =
            |readout: &Readout| readout.slots().into_iter().map(|s| s.name).collect::<Vec<_>>();
        assert_eq!(names(&Readout::new(4, &[], 3, true)), ["head.Theta", "head.bias"]);
        assert_eq!(names(&Readout::new(4, &[], 3, false)), ["head.Theta"]);
        let deep = Readout::new(4, &[9], 3, true);
        assert_eq!(
            names(&deep),
            ["head.hidden0.Theta", "head.hidden0.bias", "head.Theta", "head.bias"]
        );
        let shapes: Vec<_> = deep.slots().iter().map(|slot| slot.shape).collect();
        assert_eq!(shapes, [(9, 4), (1, 9), (3, 9), (1, 3)]);
        let values = deep.initial(0);
        assert!(values[0].row(8).iter().all(|x| x.abs() <= 0.5 && *x != 0.0));
        assert_eq!(values[1].row(0), [0.0; 9]);
        let none = pass(&deep, &values, &Matrix::zeros(0, 4), &Matrix::zeros(0, 3));
        assert!(none.gradients[0].view().padded().iter().all(|&g| g == 0.0));
    }
}
