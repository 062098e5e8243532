//! `Model` and `Predictions`: a trained model, and what it says about a graph.

use std::path::PathBuf;
use std::sync::Arc;

use ignn::dense::Matrix;
use ignn::graph::LabelKind;
use ignn::predict::{self, Item};
use ignn::serde_json;
use ignn::solver::{SolveInfo, SolveParams};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::Array;
use crate::failure::Failure;
use crate::graph::Graph;
use crate::job;
use crate::solve::checked_tolerance;
use crate::values::to_python;

/// A trained model.
#[pyclass(frozen, module = "ignn._ignn")]
pub struct Model {
    model: Arc<ignn::models::Model>,
}

impl Model {
    pub fn new(model: ignn::models::Model) -> Self {
        Self { model: Arc::new(model) }
    }
}

fn as_python(py: Python<'_>, solve: Option<SolveInfo>) -> PyResult<Option<Py<PyAny>>> {
    let value = solve.map(|solve| serde_json::to_value(solve).unwrap_or_default());
    value.map(|value| to_python(py, &value)).transpose()
}

#[pymethods]
impl Model {
    /// Loads the model of a run, or a model file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        job::run(py, None, move |_| {
            Ok(Self::new(ignn::models::Model::load(predict::model_file(&path)?)?))
        })
    }

    /// Saves the model as a safetensors file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let model = Arc::clone(&self.model);
        job::run(py, None, move |_| Ok(model.save(path)?))
    }

    /// Names of the classes.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.model.classes.clone()
    }

    /// Whether an item has a set of classes.
    #[getter]
    fn is_multi_label(&self) -> bool {
        self.model.labels == LabelKind::Multi
    }

    /// Whether an item has a number.
    #[getter]
    fn is_regression(&self) -> bool {
        self.model.labels == LabelKind::Number
    }

    /// "node" or "graph".
    #[getter]
    fn item(&self) -> &'static str {
        name(Item::of(&self.model))
    }

    /// The settings by section and key.
    fn settings(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, &self.model.config.values())
    }

    /// The parameters by name, as copies.
    fn parameters(&self, py: Python<'_>) -> PyResult<Vec<(String, Py<PyAny>)>> {
        let array = |value: &Matrix| Array::matrix(value.clone()).into_numpy(py);
        self.model
            .values
            .iter()
            .map(|(slot, value)| Ok((slot.name.clone(), array(value)?)))
            .collect()
    }

    /// Predicts all nodes of a graph, or all graphs of a collection.
    #[pyo3(signature = (graph, *, tolerance, max_sweeps, tight))]
    fn predict(
        &self,
        py: Python<'_>,
        graph: &Graph,
        tolerance: Option<f64>,
        max_sweeps: Option<usize>,
        tight: bool,
    ) -> PyResult<Predictions> {
        let (model, graph) = (Arc::clone(&self.model), graph.graph.clone());
        let own = model.config.forward();
        let params = SolveParams {
            tolerance: tolerance.map_or(Ok(own.tolerance), checked_tolerance)?,
            max_sweeps: max_sweeps.unwrap_or(own.max_sweeps),
            tight,
            ..own
        };
        job::run(py, None, move |_| {
            let predictions = model.predict_solved(&graph, &params)?;
            Ok(Predictions { predictions: Arc::new(predictions) })
        })
    }

    /// The rows that the readout takes, and how the equilibria were solved.
    fn embed(&self, py: Python<'_>, graph: &Graph) -> PyResult<(Py<PyAny>, Option<Py<PyAny>>)> {
        let (model, graph) = (Arc::clone(&self.model), graph.graph.clone());
        let (matrix, solve) = job::run(py, None, move |_| {
            let embeddings = model.embed(&graph)?;
            let solve = embeddings.solve();
            Ok((embeddings.into_matrix(), solve))
        })?;
        Ok((Array::matrix(matrix).into_numpy(py)?, as_python(py, solve)?))
    }
}

fn name(item: Item) -> &'static str {
    match item {
        Item::Node => "node",
        Item::Graph => "graph",
    }
}

/// The predictions of a model for a graph.
#[pyclass(frozen, module = "ignn._ignn")]
pub struct Predictions {
    predictions: Arc<predict::Predictions>,
}

#[pymethods]
impl Predictions {
    /// Class of each item, by position among the model's classes.
    fn positions(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let of = |item| self.predictions.class(item) as i64;
        Array::vector((0..self.predictions.len()).map(of).collect()).into_numpy(py)
    }

    /// The number of each item, and how far it can be from that of the exact equilibrium; nothing
    /// for classes, and NaN where nothing is certified.
    fn numbers(&self, py: Python<'_>) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        let predictions = Arc::clone(&self.predictions);
        if predictions.label_kind() != LabelKind::Number {
            return Ok(None);
        }
        let (numbers, errors): (Vec<f64>, Vec<f64>) = job::run(py, None, move |_| {
            let of = |value: Option<f64>| value.unwrap_or(f64::NAN);
            let both = |item| (of(predictions.number(item)), of(predictions.number_error(item)));
            Ok((0..predictions.len()).map(both).unzip())
        })?;
        let errors = Array::vector(errors).into_numpy(py)?;
        Ok(Some((Array::vector(numbers).into_numpy(py)?, errors)))
    }

    /// Probability of every class: one row per item.
    fn probabilities(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let predictions = Arc::clone(&self.predictions);
        if predictions.label_kind() == LabelKind::Number {
            return Err(PyValueError::new_err("probabilities: a regression has none"));
        }
        let matrix = job::run(py, None, move |_| {
            let mut matrix = Matrix::zeros(predictions.len(), predictions.classes().len());
            for item in 0..predictions.len() {
                matrix.row_mut(item).copy_from_slice(&predictions.probabilities(item));
            }
            Ok(matrix)
        })?;
        Array::matrix(matrix).into_numpy(py)
    }

    /// Scores before softmax or sigmoid: a view.
    fn logits(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let rows = self.predictions.logits();
        Array::rows(rows, Arc::clone(&self.predictions)).into_numpy(py)
    }

    /// The rows that the readout takes: a view.
    fn embeddings(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let rows = self.predictions.embeddings();
        Array::rows(rows, Arc::clone(&self.predictions)).into_numpy(py)
    }

    /// How the equilibria were solved.
    fn solve(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        as_python(py, self.predictions.solve())
    }

    /// Whether the equilibrium is certified to be unique.
    #[getter]
    fn is_certified(&self) -> bool {
        self.predictions.is_certified()
    }

    /// Scores against the labels of the graph, by part of the model's split.
    fn evaluate(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let predictions = Arc::clone(&self.predictions);
        let evaluation = job::run(py, None, move |_| {
            let evaluation = predictions.evaluate()?;
            serde_json::to_value(evaluation).map_err(|error| Failure::argument(error.to_string()))
        })?;
        to_python(py, &evaluation)
    }
}
