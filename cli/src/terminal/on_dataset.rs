//! What `predict` and `eval` share: opening a model and a dataset, solving, and reporting on the
//! solve. Tables of scores are in `score_tables`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use ignn::dense::Scratch;
use ignn::graph::Graph;
use ignn::models::Model;
use ignn::models::file::ModelFile;
use ignn::nn::Operators;
use ignn::parallel::Ranks;
use ignn::predict::{self, Choice, Item, Parts, PredictError, Predictor, SolvedModel, Truth};
use ignn::report::quantity::{count, plural, seconds};
use ignn::report::sheet::Sheet;
use ignn::solver::{Condition, Effort, Posedness, SolveInfo, SolveParams, Stopped};
use ignn_format::graphs::Graphs;
use ignn_ingest::{Observer, Unit};
use serde::Serialize;

use super::printer;
use super::progress::Console;
use crate::options::verification::{self, Verification};
use crate::{Outcome, Session};

/// A dataset, a model, and options of the solve.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// The dataset directory
    #[arg(value_name = "DATASET")]
    dataset: PathBuf,

    /// Run directory of `ignn train`, or a model.safetensors file
    #[arg(long, value_name = "RUN")]
    model: PathBuf,

    /// Relative residual at which the solve stops [default: the model's solver.tolerance]
    #[arg(long, value_name = "X", value_parser = positive)]
    tolerance: Option<f64>,

    /// Largest number of sweeps [default: the model's solver.max_sweeps]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_sweeps: Option<u32>,

    #[command(flatten)]
    verification: Verification,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a number above 0".into()),
    }
}

/// An opened dataset and model.
pub struct Opened {
    /// The dataset.
    pub dataset: Graph,
    /// The model.
    pub model: Model,
    /// The graphs of the dataset, if it has many.
    pub graphs: Option<Graphs>,
    /// What the model predicts.
    pub item: Item,
    file: PathBuf,
    params: SolveParams,
    /// Where matrices lie that do not fit in memory.
    on_disk: Option<Arc<Scratch>>,
    /// Whether there is room for copies of the graph's entries.
    has_copies: bool,
}

impl ModelArgs {
    /// A model solved with its own configuration.
    pub fn new(dataset: PathBuf, model: PathBuf) -> Self {
        let verification = Verification::default();
        Self { dataset, model, tolerance: None, max_sweeps: None, verification }
    }

    /// Opens both.
    pub fn open(&self) -> Result<Opened> {
        self.open_placed(|_, _| Ok((None, true)))
    }

    /// Opens both, to be solved within a memory limit; a note says if matrices lie on a disk.
    pub fn open_within(
        &self,
        session: &Session,
        directory: &Path,
        console: &Console,
    ) -> Result<Opened> {
        self.open_placed(|file, dataset| {
            let (memory, ranks) = (session.memory, session.ranks.size());
            let plan = predict::plan(file, dataset, memory, ranks)?;
            let has_copies = predict::has_room_for_copies(file, dataset, memory, ranks);
            let Some(plan) = plan else { return Ok((None, has_copies)) };
            let scratch = plan.scratch(directory)?;
            console.note(&plan.words(directory));
            Ok((Some(scratch), has_copies))
        })
    }

    fn open_placed(
        &self,
        placed: impl FnOnce(&ModelFile, &Graph) -> Result<(Option<Arc<Scratch>>, bool), PredictError>,
    ) -> Result<Opened> {
        let dataset = self.verification.open(&self.dataset)?;
        let file = predict::model_file(&self.model)?;
        let opened = ModelFile::open(&file)?;
        let (on_disk, has_copies) = placed(&opened, &dataset)?;
        let model = in_scope(on_disk.as_ref(), || Model::read(&opened))?;
        let mut params = model.config.forward();
        params.tolerance = self.tolerance.unwrap_or(params.tolerance);
        params.max_sweeps = self.max_sweeps.map_or(params.max_sweeps, |sweeps| sweeps as usize);
        let (graphs, item) = (dataset.directory().graphs()?, Item::of(&model));
        Ok(Opened { dataset, model, graphs, item, file, params, on_disk, has_copies })
    }
}

/// Calls `work`, whose large matrices lie on a disk if there is one.
fn in_scope<R>(on_disk: Option<&Arc<Scratch>>, work: impl FnOnce() -> R) -> R {
    match on_disk {
        Some(scratch) => scratch.scope(work),
        None => work(),
    }
}

impl Opened {
    /// Parameters of the solve.
    pub fn params(&self) -> SolveParams {
        self.params
    }

    /// What can be predicted or scored.
    pub fn choice(&self) -> Choice<'_> {
        Choice { graph: &self.dataset, graphs: self.graphs.as_ref(), item: self.item }
    }

    /// Whether what is predicted has labels.
    pub fn has_labels(&self) -> bool {
        match (self.item, &self.graphs) {
            (Item::Graph, graphs) => graphs.as_ref().is_some_and(|graphs| graphs.has_labels()),
            (Item::Node, _) => self.dataset.manifest().labels.is_some(),
        }
    }

    /// The graph with its bounds, or the share of one of several ranks.
    pub fn operators(&self, ranks: &Arc<dyn Ranks>, console: &Console) -> Result<Operators> {
        console.phase("compute the spectral bound", None, Unit::Items("nodes"));
        let operators = || predict::operators_on(&self.dataset, ranks);
        let operators = in_scope(self.on_disk.as_ref(), operators)?;
        if !self.has_copies {
            operators.leave_out_copies();
        }
        Ok(operators)
    }

    /// The model on the graph. Prints notes if it was trained elsewhere or is not certified here.
    pub fn predictor(
        &self,
        operators: &Operators,
        console: &Console,
    ) -> Result<(Predictor, ModelReport)> {
        console.phase("read features", None, Unit::Items("nodes"));
        let graphs = self.graphs.as_ref();
        let predictor =
            || Predictor::new(&self.model, &self.file, &self.dataset, operators, graphs);
        let predictor = in_scope(self.on_disk.as_ref(), predictor)?;
        let posedness = predictor.posedness();
        let certified_graphs = predictor.certified_graphs();
        let known = !self.model.dataset.is_empty();
        let report = ModelReport {
            dataset: self.dataset.directory().path().into(),
            model: self.file.clone(),
            is_trained_here: known
                .then(|| self.model.dataset == self.dataset.manifest().checksum()),
            is_certified: (!posedness.is_empty())
                .then(|| posedness.iter().all(|layer| layer.condition != Condition::NotCertified)),
            posedness,
            graphs: graphs
                .zip(certified_graphs)
                .map(|(graphs, certified)| [certified, graphs.len() as u64]),
            tolerance: self.params.tolerance,
            solve: None,
            not_verified: self.dataset.not_verified(),
            kappa: self.model.config.model.largest_kappa(self.dataset.manifest().relations.len()),
            relations: self.dataset.manifest().relations.len(),
        };
        if report.is_trained_here == Some(false) {
            console.note("the model was trained on another dataset");
        }
        let has_unnamed_rows = self.model.has_learned_features() && self.model.nodes.is_none();
        if has_unnamed_rows && report.is_trained_here != Some(true) {
            console.note(
                "the learned features of the model belong to node numbers, and its file does not \
                 say to which nodes: make sure that the nodes and their order are the same",
            );
        }
        if report.is_certified == Some(false) {
            console.note(&format!(
                "not certified on this graph ({}): there may be several solutions or none, and the \
                 result may depend on where the solve starts",
                report.bound_words()
            ));
        }
        if let Some(bound) = report.above_kappa() {
            let kappa = report.kappa;
            console.note(&format!(
                "the contraction bound on this graph is {bound:.4}, above kappa = {kappa}: kappa holds \
                 on the graphs that the model was trained on; the solution is unique all the same, \
                 but solves take more sweeps"
            ));
        }
        Ok((predictor, report))
    }

    /// Prints a note if all items are scored as one part although the model was trained on some of
    /// them, as after a cross-validation.
    pub fn note_mixed(&self, parts: &Parts, report: &ModelReport, console: &Console) {
        if parts.split.is_none() && report.is_trained_here == Some(true) && self.has_labels() {
            let items = match self.item {
                Item::Graph => "graphs",
                Item::Node => "nodes",
            };
            console.note(&format!(
                "scores are over all {items}, also those that the model was trained on: they say \
                 little about other {items}"
            ));
        }
    }

    /// Solves. Prints a note if the solve did not converge.
    pub fn solve(
        &self,
        predictor: Predictor,
        report: &mut ModelReport,
        console: &Console,
    ) -> Result<SolvedModel> {
        console.phase("solve", None, Unit::Items("sweeps"));
        let params = SolveParams { tight: true, ..self.params };
        let prediction = in_scope(self.on_disk.as_ref(), || predictor.solve(&params))?;
        report.solve = prediction.solve();
        let Some(solve) = report.solve else { return Ok(prediction) };
        console.advance(solve.sweeps as u64);
        if !solve.converged {
            let hint = match solve.stopped {
                Stopped::MaxSweeps => "raise --max-sweeps",
                _ => "raise --tolerance",
            };
            console.note(&format!(
                "the solve did not converge ({}): results are from the best state found: {hint}",
                report.residual_words(&solve)
            ));
        }
        Ok(prediction)
    }

    /// The dataset's labels as classes of the model. An error if there are none, or if they cannot
    /// be compared.
    pub fn truth(&self, console: &Console) -> Result<Truth> {
        let directory = self.dataset.directory();
        let labels = predict::item_labels(&self.dataset, self.graphs.as_ref(), self.item)?;
        let truth = Truth::new(labels, &self.model.classes, self.model.labels)
            .map_err(|error| anyhow::anyhow!("{}: {error}", directory.path().display()))?;
        if truth.left_out() > 0 {
            let labels = plural(truth.left_out(), "label", "labels");
            let classes = plural(truth.unknown().len() as u64, "class", "classes");
            console
                .note(&format!("{labels} of {classes} that the model does not know: not scored"));
        }
        Ok(truth)
    }
}

/// What is known of a model on a graph, and of its solve.
#[derive(Serialize)]
pub struct ModelReport {
    #[serde(serialize_with = "printer::path_as_json")]
    dataset: PathBuf,
    #[serde(serialize_with = "printer::path_as_json")]
    model: PathBuf,
    /// None if the model file does not say.
    #[serde(rename = "trained_on_this_dataset")]
    is_trained_here: Option<bool>,
    /// Whether the equilibrium is certified to be unique; none for models without an equilibrium.
    #[serde(rename = "certified")]
    pub is_certified: Option<bool>,
    posedness: Vec<Posedness>,
    /// Number of certified graphs, and of all graphs; none if the dataset is a single graph.
    #[serde(rename = "graphs_certified_of")]
    graphs: Option<[u64; 2]>,
    tolerance: f64,
    solve: Option<SolveInfo>,
    /// Files of the dataset that were used without a comparison with their checksums.
    pub not_verified: Vec<String>,
    /// The bound that training kept on its own graphs.
    kappa: f64,
    #[serde(skip)]
    relations: usize,
}

impl ModelReport {
    /// A solve that did not converge counts as a missed goal.
    pub fn outcome(&self) -> Outcome {
        match self.solve {
            Some(solve) if !solve.converged => Outcome::Missed,
            _ => Outcome::Done,
        }
    }

    /// The report as text.
    pub fn as_text(&self) -> String {
        let mut sheet = Sheet::pairs();
        let trained = match self.is_trained_here {
            Some(true) => "this dataset",
            Some(false) => "another dataset",
            None => "unknown",
        };
        sheet.row(["trained on", trained]);
        let condition = match self.weakest().map(|weakest| weakest.1.condition) {
            None if self.solve.is_some() => {
                "not certified: nothing bounds the weights of this model".into()
            }
            None => "none: this model is computed, not solved".into(),
            Some(Condition::Acyclic) => "certified: the graph has no cycle".into(),
            Some(Condition::NotCertified) => {
                // The norm is a coarse test: the certificate may have found a weighted norm in
                // which sweeps contract.
                let contracts = self.solve.as_ref().and_then(|solve| solve.contraction);
                let more = contracts
                    .filter(|q| *q < 1.0)
                    .map(|q| format!("; but sweeps contract by {q:.4}"));
                format!("not certified: {}{}", self.bound_words(), more.unwrap_or_default())
            }
            Some(_) => format!("certified: {}", self.bound_words()),
        };
        if let Some(files) = verification::words(&self.not_verified) {
            sheet.row(["not verified".into(), files]);
        }
        sheet.row(["equilibrium".into(), condition]);
        if let Some([certified, all]) = self.graphs {
            let words = match certified == all {
                true => format!("{}, each certified by its own bound", count(all)),
                false => format!(
                    "{}, {} of them certified by their own bound",
                    count(all),
                    count(certified)
                ),
            };
            sheet.row(["graphs".into(), words]);
        }
        if let Some(solve) = &self.solve {
            let how = match solve.stopped {
                Stopped::Converged => "converged",
                Stopped::MaxSweeps => "did not converge: reached the limit of sweeps",
                Stopped::Stagnated | Stopped::Truncated => {
                    "did not converge: the residual stopped falling"
                }
            };
            let sweeps = plural(solve.sweeps as u64, "sweep", "sweeps");
            sheet.row(["solve".into(), format!("{how}, {sweeps} in {}", seconds(solve.seconds))]);
            sheet.row(["residual".into(), self.residual_words(solve)]);
            let error = match &solve.certified_error {
                Some(bound) => format!(
                    "certified: at most {:.1e} in any entry of the state, {:.1e} of its largest \
                     entry",
                    bound.largest, bound.relative
                ),
                None => format!("not certified: {}", self.why_no_error(solve)),
            };
            sheet.row(["error".into(), error]);
            if let Some(estimate) = solve.estimated_error {
                let words =
                    format!("error about {estimate:.1e} of the largest entry, not certified");
                sheet.row(["estimate".into(), words]);
            }
            if let Some(q) = solve.contraction {
                let Effort { passes, seconds: took } = solve.certificate;
                let passes = plural(passes as u64, "pass", "passes");
                let words = format!("at most {q:.4} per sweep, by {passes} in {}", seconds(took));
                sheet.row(["contraction".into(), words]);
            }
        }
        format!("{} on {}\n{}", self.model.display(), self.dataset.display(), sheet.render())
    }

    /// The layer closest to its limit; none without an equilibrium.
    fn weakest(&self) -> Option<(usize, Posedness)> {
        let layers = self.posedness.iter().copied().enumerate();
        layers.min_by(|a, b| a.1.margin().total_cmp(&b.1.margin()))
    }

    /// `norm of W times the spectral bound of the graph is 0.95, below 1`.
    fn bound_words(&self) -> String {
        let Some((layer, Posedness { by_norm, by_eigenvalue, condition, .. })) = self.weakest()
        else {
            return "there is no equilibrium".into();
        };
        let (what, value) = match condition {
            Condition::Norm => ("norm of W", by_norm),
            _ => ("spectral radius of |W|", by_eigenvalue),
        };
        let against = if condition == Condition::NotCertified { "expected below" } else { "below" };
        let layer =
            if self.posedness.len() > 1 { format!("in layer {layer} the ") } else { String::new() };
        if self.relations > 1 {
            return format!(
                "{layer}norms of W times those of their relations sum to {value:.4}, {against} 1"
            );
        }
        format!("{layer}{what} times the spectral bound of the graph is {value:.4}, {against} 1")
    }

    /// The contraction bound on this graph, if it is certified but above that of training.
    fn above_kappa(&self) -> Option<f64> {
        let (_, Posedness { by_norm, by_eigenvalue, condition, .. }) = self.weakest()?;
        let bound = by_norm.min(by_eigenvalue);
        let is_certified = matches!(condition, Condition::Norm | Condition::Eigenvalue);
        (is_certified && bound > 1.001 * self.kappa).then_some(bound)
    }

    /// Why no error is certified.
    fn why_no_error(&self, solve: &SolveInfo) -> &'static str {
        match solve {
            _ if self.posedness.is_empty() || solve.stopped == Stopped::Truncated => {
                "nothing bounds the weights of this model"
            }
            SolveInfo { contraction: None, .. } => {
                "no norm was found in which every sweep contracts"
            }
            SolveInfo { sweeps: 0, .. } => "no sweep was made",
            _ => "the bound is not finite",
        }
    }

    fn residual_words(&self, solve: &SolveInfo) -> String {
        let (found, wanted) = (solve.relative_residual, self.tolerance);
        let against = if solve.converged { "tolerance" } else { "expected at most" };
        format!("{found:.1e} relative, {against} {wanted:.0e}")
    }
}
