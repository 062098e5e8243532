//! The engine itself: equilibria and adjoints for weights and inputs of the caller.

use std::sync::{Arc, Mutex, PoisonError};

use ignn::dense::Matrix;
use ignn::kernels::Activation;
use ignn::nn::{Backward, Equilibrium, Operators};
use ignn::serde_json;
use ignn::solver::{Method, SolveInfo, SolveParams};
use numpy::PyReadonlyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Array, to_matrix};
use crate::graph::Graph;
use crate::job;
use crate::values::to_python;

/// An equilibrium layer on a graph, with the operators of its relations. Solves start from zero.
#[pyclass(frozen, module = "ignn._ignn")]
pub struct Layer {
    operators: Operators,
    activation: Activation,
    relations: usize,
    graph: ignn::graph::Graph,
    /// Memory of the last solve, for the next one of the same width.
    kept: Arc<Mutex<Option<Equilibrium>>>,
}

/// A result: the state and how it was solved.
type Solved = (Py<PyAny>, Py<PyAny>);

#[pymethods]
impl Layer {
    #[new]
    fn new(py: Python<'_>, graph: &Graph, phi: &str) -> PyResult<Self> {
        let activation: Activation = serde_json::from_value(phi.into()).map_err(|_| {
            let expected = "identity, relu, leaky-relu, tanh, sigmoid or elu";
            PyValueError::new_err(format!("phi: expected {expected}, found {phi:?}"))
        })?;
        let graph = graph.graph.clone();
        let own = graph.clone();
        let operators = job::run(py, None, move |_| Ok(Operators::of(graph.relations()?)))?;
        let relations = own.manifest().relations.len();
        Ok(Self { operators, activation, relations, graph: own, kept: Arc::default() })
    }

    /// Upper bounds of the spectral radius (one relation), or of the norms of the relations.
    fn radii(&self) -> Vec<f64> {
        self.operators.radii().to_vec()
    }

    /// X = phi(sum_r A_r^T X W_r^T + B).
    #[pyo3(signature = (weights, input, *, tolerance, max_sweeps, method, tight))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
    fn solve(
        &self,
        py: Python<'_>,
        weights: Vec<PyReadonlyArray2<'_, f32>>,
        input: PyReadonlyArray2<'_, f32>,
        tolerance: f64,
        max_sweeps: usize,
        method: &str,
        tight: bool,
    ) -> PyResult<Solved> {
        let params = params(tolerance, max_sweeps, method, tight)?;
        let (weights, width) = self.weights(py, &weights)?;
        let input = self.rows(py, "B", &input, width)?;
        let (operators, activation) = (self.operators.clone(), self.activation);
        let (kept, graph) = (Arc::clone(&self.kept), self.graph.clone());
        let (state, info) = job::run(py, None, move |_| {
            let mut layer = take(&kept, &operators, width, activation);
            layer.input = input;
            let views: Vec<_> = weights.iter().map(Matrix::view).collect();
            let info = layer.solve(&views, &params)?;
            graph.check_unchanged()?;
            let empty = Matrix::zeros(operators.nodes(), width);
            let state = std::mem::replace(&mut layer.state, empty);
            // The same bits as a first solve: nothing is left of the last certificate.
            layer.keep([None, None]);
            layer.input = Matrix::zeros(0, width);
            give(&kept, layer);
            Ok((state, info))
        })?;
        solved(py, state, info)
    }

    /// G = phi'(X) * (sum_r A_r G W_r + R), with the gradients dL/dW_r.
    #[pyo3(signature = (weights, state, right, *, tolerance, max_sweeps, method))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
    fn solve_adjoint(
        &self,
        py: Python<'_>,
        weights: Vec<PyReadonlyArray2<'_, f32>>,
        state: PyReadonlyArray2<'_, f32>,
        right: PyReadonlyArray2<'_, f32>,
        tolerance: f64,
        max_sweeps: usize,
        method: &str,
    ) -> PyResult<(Py<PyAny>, Py<PyAny>, Vec<Py<PyAny>>)> {
        let params = params(tolerance, max_sweeps, method, false)?;
        let (weights, width) = self.weights(py, &weights)?;
        let state = self.rows(py, "X", &state, width)?;
        let right = self.rows(py, "R", &right, width)?;
        let (operators, activation) = (self.operators.clone(), self.activation);
        let (relations, graph) = (self.relations, self.graph.clone());
        let (adjoint, info, gradients) = job::run(py, None, move |_| {
            let mut layer = Equilibrium::new(&operators, width, activation).with_adjoint();
            (layer.state, layer.right) = (state, right);
            let views: Vec<_> = weights.iter().map(Matrix::view).collect();
            let info = layer.solve_adjoint(&views, Backward::Exact, &params)?;
            graph.check_unchanged()?;
            let gradients: Vec<_> = (0..relations).map(|at| layer.weight_gradient(at)).collect();
            Ok((layer.adjoint, info, gradients))
        })?;
        let (adjoint, info) = solved(py, adjoint, info)?;
        let array = |gradient: Matrix| Array::matrix(gradient).into_numpy(py);
        Ok((adjoint, info, gradients.into_iter().map(array).collect::<PyResult<_>>()?))
    }
}

impl Layer {
    /// The weights, one square matrix per relation, and their width.
    fn weights(
        &self,
        py: Python<'_>,
        weights: &[PyReadonlyArray2<'_, f32>],
    ) -> PyResult<(Vec<Matrix>, usize)> {
        let shapes: Vec<_> = weights.iter().map(|own| own.as_array().dim()).collect();
        if shapes.len() != self.relations {
            return Err(PyValueError::new_err(format!(
                "W: expected one matrix for each of {} relations, found {}",
                self.relations,
                shapes.len()
            )));
        }
        let width = shapes.first().map_or(0, |shape| shape.0);
        if let Some((rows, cols)) = shapes.iter().find(|&&it| it != (width, width) || width == 0) {
            return Err(PyValueError::new_err(format!(
                "W: expected square matrices of one width, found {rows} x {cols}"
            )));
        }
        let matrices = weights.iter().map(|own| copied(py, own)).collect::<PyResult<_>>()?;
        Ok((matrices, width))
    }

    /// A matrix with one row per node.
    fn rows(
        &self,
        py: Python<'_>,
        name: &str,
        array: &PyReadonlyArray2<'_, f32>,
        width: usize,
    ) -> PyResult<Matrix> {
        let ((rows, cols), nodes) = (array.as_array().dim(), self.operators.nodes());
        if (rows, cols) != (nodes, width) {
            return Err(PyValueError::new_err(format!(
                "{name}: expected {nodes} x {width} (nodes x state), found {rows} x {cols}"
            )));
        }
        copied(py, array)
    }
}

/// The entries of an array as a matrix.
fn copied(py: Python<'_>, array: &PyReadonlyArray2<'_, f32>) -> PyResult<Matrix> {
    let view = array.as_array();
    job::run_borrowing(py, None, move |_| Ok(to_matrix(view)))
}

fn take(
    kept: &Mutex<Option<Equilibrium>>,
    operators: &Operators,
    width: usize,
    activation: Activation,
) -> Equilibrium {
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    let kept = kept.filter(|kept| kept.width() == width);
    kept.unwrap_or_else(|| Equilibrium::new(operators, width, activation))
}

fn give(kept: &Mutex<Option<Equilibrium>>, layer: Equilibrium) {
    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(layer);
}

/// A tolerance that a solve can have.
pub fn checked_tolerance(tolerance: f64) -> PyResult<f64> {
    if tolerance > 0.0 && tolerance.is_finite() {
        return Ok(tolerance);
    }
    let text = format!("tolerance: expected a number above 0, found {tolerance}");
    Err(PyValueError::new_err(text))
}

fn params(tolerance: f64, max_sweeps: usize, method: &str, tight: bool) -> PyResult<SolveParams> {
    let tolerance = checked_tolerance(tolerance)?;
    let method: Method = serde_json::from_value(method.into()).map_err(|_| {
        let expected = "auto, plain, active, anderson or ordered";
        PyValueError::new_err(format!("method: expected {expected}, found {method:?}"))
    })?;
    Ok(SolveParams { tolerance, max_sweeps, method, tight, ..SolveParams::default() })
}

fn solved(py: Python<'_>, state: Matrix, info: SolveInfo) -> PyResult<Solved> {
    let info =
        serde_json::to_value(info).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((Array::matrix(state).into_numpy(py)?, to_python(py, &info)?))
}
