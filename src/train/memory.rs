//! Estimates the memory of training before anything is allocated, and the widest state that would
//! fit. `ignn inspect` prints the estimate, and `ignn train` refuses to start if it exceeds the
//! allowed memory; both use the same formula.
//!
//! With n nodes, m the width of a layer, p features and c classes, in rows of f32:
//!
//! | part | what |
//! | --- | --- |
//! | features | dense: A^T U per relation, U if a layer reads it; sparse: by rows and by columns |
//! | | and the buffers for reading dense ones, which the allocator keeps |
//! | states | n x m: X and the buffer of solves, moves of Anderson mixing in f16; bits of signs |
//! | input term | n x m: B, unless it is the table of learned features itself |
//! | adjoint | n x m: G; R, unless it is rows of the readout or in the memory of B |
//! | parameters | value; of those that steps change also gradient, moments, best epoch; the gradient |
//! | | of learned features is in the buffer of solves |
//! | readout | m + c per evaluated item; the same again for gradients of the training part |
//! | copies | of the entries of the graph, for layers of at most 4 columns |
//!
//! Which matrices of a layer share memory is planned in [`LayerMemory`](crate::models::LayerMemory).
//! Moves are counted in full, although only slow solves allocate them. The graph is mapped and not
//! part of the sum, nor are the program itself, its threads and the labels.

use ignn_format::features::FeatureKind;
use serde::Serialize;

use super::task::computed_columns;
use super::{Task, TrainError};
use crate::config::{Config, FeatureSource, ModelConfig};
use crate::dense::stride;
use crate::graph::{Graph, Manifest, RelationEntry};
use crate::models::kinds::FeatureRule;
use crate::models::{DiskPlan, Facts, Kind, LayerShape, Needs, NetworkShape, PlanError};
use crate::nn::{Mapped, PoolingChoice, evaluated_nodes};
use crate::optim::Method;
use crate::parallel::{self, Rows};

/// Bytes by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// Features, as training holds them; more if reading them needs more memory than training.
    pub features: u64,
    /// States with the buffers of their solves.
    pub states: u64,
    /// Input terms.
    pub input: u64,
    /// Adjoint states and their right-hand sides.
    pub adjoint: u64,
    /// Parameters with gradients, moments and copies.
    pub parameters: u64,
    /// Rows that are read out, with their gradients.
    pub readout: u64,
    /// Copies of the graph's entries, which narrow layers gather by. They are left out where memory
    /// has no room for them.
    pub copies: u64,
    /// Sum of the parts.
    pub total: u64,
}

/// What the estimate depends on, apart from the configuration.
#[derive(Clone, Debug)]
pub struct DataFacts {
    /// What a model has to know about the dataset.
    pub model: Facts,
    /// Entries of features that are stored sparse.
    pub nonzeros: Option<u64>,
    /// Rows of dense features that are decoded at a time: one shard per thread.
    pub rows_read: u64,
    /// Nodes in the largest step.
    pub trained_nodes: u64,
    /// Nodes that are evaluated at a time.
    pub evaluated_nodes: u64,
    /// Whether a step takes some of many graphs.
    pub has_batches: bool,
    /// Whether one rank has all nodes.
    pub is_alone: bool,
    /// Nodes, or graphs where they have the labels, that are trained on.
    pub train_items: u64,
    /// Those of all parts.
    pub items: u64,
    /// Rows and entries of each relation, whether it is weighted, and whether one direction serves
    /// both. None if the nodes belong to many graphs, which are not copied.
    pub relations: Vec<(u64, u64, bool, bool)>,
}

impl DataFacts {
    /// The facts of a task.
    pub fn of_task(task: &Task, config: &Config) -> Self {
        let (manifest, parts) = (task.graph().manifest(), task.parts());
        let items = parts.train.len() + parts.validation.len() + parts.test.len();
        let has_batches = task.graphs().is_some();
        let mut model = task.facts(Vec::new());
        // On several ranks, the nodes of this one and its ghosts.
        if let Some(rows) = task.rows_of_rank() {
            model.nodes = rows.with_ghosts();
        }
        let nodes = model.nodes as u64;
        let widest = config.model.state.iter().copied().max().unwrap_or(0);
        let largest = task.graphs().map_or(0, |(graphs, _)| {
            graphs.first_node.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0)
        });
        Self {
            nonzeros: sparse_entries(manifest, config),
            rows_read: rows_read(manifest),
            trained_nodes: task.nodes_at_once(config).min(nodes),
            evaluated_nodes: if has_batches {
                nodes.min(evaluated_nodes(widest).max(largest))
            } else {
                nodes
            },
            has_batches,
            is_alone: task.rows_of_rank().is_none(),
            train_items: parts.train.len() as u64,
            items: items as u64,
            relations: match has_batches {
                true => Vec::new(),
                false => relations(manifest, task.rows_of_rank()),
            },
            model,
        }
    }

    /// The facts of a dataset, whether or not it can be trained on as it is.
    pub fn of_dataset(dataset: &Graph, config: &Config) -> Self {
        match Task::open(dataset.clone(), config) {
            Ok(task) => Self::of_task(&task, config),
            Err(_) => Self::of_manifest(dataset.manifest(), config),
        }
    }

    /// The facts in a manifest, for a dataset without labels or without a split. Assumes that all
    /// labelled items are trained on, in one step.
    pub fn of_manifest(manifest: &Manifest, config: &Config) -> Self {
        let nodes = manifest.nodes;
        let graphs = manifest.graphs.as_ref().filter(|graphs| !graphs.classes.is_empty());
        let graphs = graphs.filter(|_| config.model.pooling != PoolingChoice::None);
        let labels = manifest.labels.as_ref();
        let (outputs, items) = match (graphs, labels) {
            (Some(graphs), _) => (graphs.classes.len() as u64, graphs.count),
            (None, Some(labels)) => (labels.classes, labels.labelled),
            (None, None) => (0, 0),
        };
        let given = manifest.features.as_ref().map(|entry| entry.columns as usize);
        let columns = match Kind::of(config.model.kind).features {
            FeatureRule::Labels => None,
            FeatureRule::Computed(_) => computed_columns(manifest, &config.model),
            FeatureRule::Configured if config.model.features == FeatureSource::Learned => None,
            FeatureRule::Configured => given,
        };
        let names = manifest.relations.iter().map(|relation| relation.name.clone()).collect();
        Self {
            model: Facts {
                nodes: nodes as usize,
                columns,
                relations: names,
                radii: Vec::new(),
                outputs: outputs as usize,
                pools: graphs.is_some(),
            },
            nonzeros: sparse_entries(manifest, config),
            rows_read: rows_read(manifest),
            trained_nodes: nodes,
            evaluated_nodes: nodes,
            has_batches: false,
            is_alone: true,
            train_items: items,
            items,
            relations: match manifest.graphs {
                Some(_) => Vec::new(),
                None => relations(manifest, None),
            },
        }
    }

    fn nodes(&self) -> u64 {
        self.model.nodes as u64
    }

    /// Nodes of the largest pass.
    fn nodes_at_once(&self) -> u64 {
        self.trained_nodes.max(self.evaluated_nodes)
    }
}

/// Rows and entries of the relations; on several ranks about those of one.
fn relations(manifest: &Manifest, rows: Option<&Rows>) -> Vec<(u64, u64, bool, bool)> {
    let nodes = manifest.nodes;
    let own = rows.map_or(nodes, |rows| rows.len() as u64);
    let relation = |relation: &RelationEntry| {
        let entries = u128::from(relation.nonzeros) * u128::from(own) / u128::from(nodes.max(1));
        (own, entries as u64, relation.weighted, relation.symmetric)
    };
    manifest.relations.iter().map(relation).collect()
}

/// Rows of the dataset's features that all threads read at a time.
fn rows_read(manifest: &Manifest) -> u64 {
    let shard = manifest.features.as_ref().map_or(0, |entry| entry.rows_per_shard);
    shard.saturating_mul(parallel::threads() as u64).min(manifest.nodes)
}

/// Entries of the dataset's features, where they are sparse and the model takes them.
fn sparse_entries(manifest: &Manifest, config: &Config) -> Option<u64> {
    let entry = manifest.features.as_ref()?;
    let is_sparse = entry.kind == FeatureKind::Sparse;
    let is_computed = computed_columns(manifest, &config.model).is_some();
    (is_sparse && !is_computed).then(|| entry.nonzeros.unwrap_or(0))
}

impl Estimate {
    /// The estimate for a dataset, whether or not it can be trained on as it is.
    pub fn of_dataset(dataset: &Graph, config: &Config) -> Self {
        Self::new(&DataFacts::of_dataset(dataset, config), config).unwrap_or_default()
    }

    /// The formula; `None` for settings that do not describe a model.
    pub fn new(data: &DataFacts, config: &Config) -> Option<Self> {
        let shape = NetworkShape::new(&config.model, &data.model, 0).ok()?;
        let mixing_buffers = config.forward().mixing_buffers();
        let mut estimate = Self {
            parameters: parameters(data, &shape, config),
            readout: readout(data, &shape),
            ..Self::default()
        };
        for (at, layer) in shape.layers.iter().enumerate() {
            let memory = shape.memory(at, data.is_alone);
            let bytes = |nodes: u64| layer.bytes(memory, nodes, mixing_buffers);
            // A pass for evaluation has no adjoint; it may take more nodes than a step.
            let (trained, evaluated) = (bytes(data.trained_nodes), bytes(data.evaluated_nodes));
            let table = data.nodes().saturating_mul(row(layer.input.width as u64));
            let temporary = learned_tables(layer).saturating_mul(table);
            add(&mut estimate.states, trained.states.max(evaluated.states));
            add(&mut estimate.input, trained.input.saturating_add(temporary));
            add(&mut estimate.adjoint, trained.adjoint);
        }
        estimate.copies = shape.copied_bytes(&data.relations);
        let [held, reading] = features(data, &shape.layers[0]);
        let later = [estimate.states, estimate.input, estimate.adjoint, estimate.readout];
        estimate.features = held.max(reading.saturating_sub(sum(later)));
        estimate.total = sum(estimate.parts().map(|part| part.1));
        Some(estimate)
    }

    /// What training cannot do without.
    pub fn needed(&self) -> u64 {
        // A sum that has overflowed stays where it is.
        if self.total == u64::MAX { self.total } else { self.total.saturating_sub(self.copies) }
    }

    /// Every part with its name.
    pub fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("features", self.features),
            ("states", self.states),
            ("input term", self.input),
            ("adjoint", self.adjoint),
            ("parameters", self.parameters),
            ("readout", self.readout),
            ("copies", self.copies),
        ]
    }
}

/// Bytes that training needs.
pub fn estimate(task: &Task, config: &Config) -> u64 {
    of_task(task, config).map_or(0, |estimate| match task.leaves_out_copies() {
        true => estimate.needed(),
        false => estimate.total,
    })
}

/// The estimate; settings that do not describe a model are refused later, when it is built.
fn of_task(task: &Task, config: &Config) -> Option<Estimate> {
    Estimate::new(&DataFacts::of_task(task, config), config)
}

/// How training keeps to `allowed` bytes of memory with matrices on a disk; `None` if everything
/// fits. The error says what would fit.
pub fn plan(task: &Task, config: &Config, allowed: u64) -> Result<Option<DiskPlan>, TrainError> {
    let facts = DataFacts::of_task(task, config);
    if of_task(task, config).is_some_and(|estimate| estimate.total > allowed) {
        task.leave_out_copies();
    }
    let planned = disk_plan(&facts, task.graph().manifest(), config, allowed);
    planned.map_err(|error| match error {
        PlanError::Memory { of, needed, least, allowed, .. } => {
            let hint = widest(task, config, allowed);
            let hint = hint.map_or(String::new(), |m| format!("model.state={m} would fit, or "));
            PlanError::Memory { of, needed, least, allowed, hint }.into()
        }
        error => error.into(),
    })
}

/// The same from the facts of a dataset.
pub fn disk_plan(
    facts: &DataFacts,
    manifest: &Manifest,
    config: &Config,
    allowed: u64,
) -> Result<Option<DiskPlan>, PlanError> {
    // Settings that do not describe a model are refused later, when it is built.
    let Ok(shape) = NetworkShape::new(&config.model, &facts.model, 0) else { return Ok(None) };
    let Some(estimate) = Estimate::new(facts, config) else { return Ok(None) };
    let is_sparse = facts.nonzeros.is_some();
    let needs = Needs {
        what: "training",
        total: estimate.needed(),
        sparse: if is_sparse { estimate.features } else { 0 },
        moves: moves(&shape, config, facts.nodes()),
        nodes: facts.nodes(),
        entries: manifest.relations.iter().map(|relation| relation.nonzeros).sum(),
        shape: &shape,
        has_graphs: facts.has_batches || facts.model.pools,
    };
    DiskPlan::new(&needs, allowed)
}

/// Bytes of the moves of Anderson mixing of all layers.
fn moves(shape: &NetworkShape, config: &Config, nodes: u64) -> u64 {
    let buffers = config.forward().mixing_buffers() as u64;
    let layer = |layer: &LayerShape| row(layer.width as u64) / 2;
    let rows = shape.layers.iter().map(layer).fold(0, u64::saturating_add);
    rows.saturating_mul(buffers).saturating_mul(nodes)
}

/// Bytes that training needs within `allowed` ones: if only copies of entries do not fit, it goes
/// without them. Returns an error that says what would fit, if it needs more.
pub fn check(task: &Task, config: &Config, allowed: u64) -> Result<u64, TrainError> {
    if of_task(task, config).is_some_and(|estimate| estimate.total > allowed) {
        task.leave_out_copies();
    }
    let needed = estimate(task, config);
    if needed <= allowed {
        return Ok(needed);
    }
    let hint = match (&config.model.state[..], widest(task, config, allowed)) {
        ([_], None) => "no width fits: raise --memory".to_string(),
        ([_], Some(widest)) => format!("model.state={widest} would fit, or raise --memory"),
        _ => "narrow the layers of model.state, or raise --memory".to_string(),
    };
    Err(TrainError::Memory { needed, allowed, hint })
}

/// The widest state of a model of one layer that fits in memory.
fn widest(task: &Task, config: &Config, allowed: u64) -> Option<usize> {
    match config.model.state[..] {
        [width] => {
            let facts = DataFacts::of_task(task, config);
            let fits = |width: &usize| {
                let model = ModelConfig { state: vec![*width], ..config.model.clone() };
                let narrower = Config { model, ..config.clone() };
                Estimate::new(&facts, &narrower)
                    .is_some_and(|estimate| estimate.needed() <= allowed)
            };
            // The widest that fits, by bisection: the estimate grows with the width.
            let (mut widest, mut too_wide) = (0, width);
            while too_wide - widest > 1 {
                let middle = widest + (too_wide - widest) / 2;
                if fits(&middle) { widest = middle } else { too_wide = middle }
            }
            Some(widest).filter(|&widest| widest > 0)
        }
        _ => None,
    }
}

/// Features while training holds them, and while they are read and prepared, which is before
/// states are allocated.
fn features(data: &DataFacts, first: &LayerShape) -> [u64; 2] {
    let (nodes, drops) = (data.nodes(), first.dropout.is_some());
    let (gathered, own) = (first.input.gathered() as u64, first.input.own().is_some());
    let maps = gathered + u64::from(own);
    // Batches have copies of their rows.
    let selected = if data.has_batches { data.nodes_at_once() } else { 0 };
    let dropped = if data.has_batches { data.trained_nodes } else { nodes };
    let Mapped::Columns(columns) = first.input.mapped else { return [0, 0] };
    let columns = columns as u64;
    if let Some(nonzeros) = data.nonzeros {
        // A column and a value per entry, an offset per row; then the same by columns.
        let stored = sum([nonzeros, nonzeros, nodes, columns]).saturating_mul(8);
        let copies = 1 + u64::from(drops) + u64::from(data.has_batches);
        // Between features and state: one table for gathered maps, one more where they are summed.
        let tables = u64::from(gathered > 0) + u64::from(gathered > 0 && maps > 1);
        let table = data.nodes_at_once().saturating_mul(row(first.input.width as u64));
        let held = stored.saturating_mul(copies).saturating_add(table.saturating_mul(tables));
        return [held, 0];
    }
    let one = row(columns);
    let side_by_side = row(columns.saturating_mul(maps));
    let keeps_own = first.between.is_some() || (drops && gathered > 0);
    let kept = side_by_side.saturating_add(if keeps_own { one } else { 0 });
    // U, what each relation gathers from it, and where there are several, their concatenation.
    let concatenated = if maps > 1 { side_by_side } else { 0 };
    let prepared = one.saturating_mul(1 + gathered).saturating_add(concatenated);
    // Rows as they are decoded. They are freed after reading, but the allocator keeps the memory.
    let buffers = data.rows_read.saturating_mul(one);
    let held = sum([
        buffers,
        nodes.saturating_mul(kept),
        selected.saturating_mul(kept),
        // Every step computes these again.
        if drops { dropped.saturating_mul(prepared) } else { 0 },
    ]);
    [held, nodes.saturating_mul(prepared).saturating_add(buffers)]
}

/// Number of temporary tables of a pass that have the shape of the learned features.
fn learned_tables(layer: &LayerShape) -> u64 {
    let gathered = layer.input.gathered();
    match layer.input.mapped {
        Mapped::Learned(_) if gathered > 0 => {
            u64::from(gathered > 1) + u64::from(layer.dropout.is_some())
        }
        _ => 0,
    }
}

/// Value, gradient, moments and the copy of the best epoch, of a fixed table the value alone; then,
/// during steps, the concatenated maps of features and their gradients.
fn parameters(data: &DataFacts, shape: &NetworkShape, config: &Config) -> u64 {
    let moments = match config.optim.method {
        Method::Adam => 2,
        Method::Sgd => u64::from(config.optim.momentum > 0.0),
    };
    let first = &shape.layers[0].input;
    let temporary = match first.mapped {
        Mapped::Learned(_) => 0,
        Mapped::Columns(columns) => {
            let maps = first.gathered() as u64 + u64::from(first.own().is_some());
            let maps = if data.nonzeros.is_some() { 1 } else { maps };
            let columns = row((columns as u64).saturating_mul(maps));
            twice(columns.saturating_mul(first.width as u64))
        }
    };
    let table = match first.mapped {
        Mapped::Learned(_) => data.nodes().saturating_mul(row(first.width as u64)),
        Mapped::Columns(_) => 0,
    };
    let others = shape.parameter_bytes().saturating_sub(table);
    let lent = shape.memory(0, data.is_alone).lends_buffer;
    let copies = match config.optim.table_factor {
        0.0 => 1,
        _ => 2 + u64::from(!lent) + moments,
    };
    sum([others.saturating_mul(3 + moments), table.saturating_mul(copies), temporary])
}

/// Rows and logits of all parts at once on one graph, the training part twice, or of the largest
/// batch; gradients of the training part; logits of all items, which batches collect.
fn readout(data: &DataFacts, shape: &NetworkShape) -> u64 {
    let width = row(shape.layers.last().map_or(0, |layer| layer.width as u64));
    let logits = row(data.model.outputs as u64);
    let pooled = if shape.pooling.is_some() { width } else { 0 };
    let normalised = if shape.normalises { width } else { 0 };
    let pass = sum([width, logits, pooled, shape.readout.row_bytes() / 2]);
    let (rows, learned, collected) = if data.has_batches {
        let rows = data.items.min(data.nodes_at_once());
        (rows, data.train_items.min(data.trained_nodes), twice(data.items))
    } else {
        (data.items.saturating_add(data.train_items), data.train_items, 0)
    };
    sum([
        rows.saturating_mul(pass),
        learned.saturating_mul(pass.saturating_add(normalised)),
        collected.saturating_mul(logits),
    ])
}

/// Bytes of a row; a damaged manifest cannot overflow it.
fn row(columns: u64) -> u64 {
    (stride(columns as usize) as u64).saturating_mul(size_of::<f32>() as u64)
}

fn twice(bytes: u64) -> u64 {
    bytes.saturating_mul(2)
}

fn add(to: &mut u64, more: u64) {
    *to = to.saturating_add(more);
}

fn sum<const N: usize>(parts: [u64; N]) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn manifest(features: Value, labels: Value) -> Manifest {
        let mut value = json!({
            "format": "ignn-dataset", "version": 1, "nodes": 1000, "order": "none",
            "made_by": {"program": "ignn", "command": "test", "options": {}},
            "relations": [{"name": "edges", "symmetric": true, "weighted": false,
                           "normalisation": "renorm", "scale": "both", "nonzeros": 5000,
                           "diagonal": 1000}],
            "ids": {"kind": "integer"}, "files": {},
        });
        for (key, part) in [("features", features), ("labels", labels)] {
            if !part.is_null() {
                value[key] = part;
            }
        }
        serde_json::from_value(value).unwrap()
    }

    fn config(sets: &[&str]) -> Config {
        let sets: Vec<_> = sets.iter().map(ToString::to_string).collect();
        Config::resolve(None, None, &sets).unwrap()
    }

    fn dense(columns: u64) -> Value {
        json!({"kind": "dense", "columns": columns, "rows_per_shard": 1000, "shards": 1})
    }

    fn estimate(manifest: &Manifest, sets: &[&str]) -> Estimate {
        let config = config(sets);
        Estimate::new(&DataFacts::of_manifest(manifest, &config), &config).unwrap()
    }

    #[test]
    fn follows_the_formula() {
        let labels = json!({"kind": "single", "classes": 7, "labelled": 10});
        let sets = ["model.state=64", "solver.method=plain", "model.head_bias=false"];
        let found = estimate(&manifest(dense(50), labels), &sets);
        let matrix = 1000 * 64 * 4;
        // G; R is the rows of the loss, of which one bit per node says which they are.
        assert_eq!((found.input, found.adjoint), (matrix, matrix + 1024 / 64 * 12));
        // X and a buffer; bits of signs, flags of active rows, vectors of two norms.
        assert_eq!(found.states, 2 * matrix + 1000 * (64 / 8 + 3 + 8));
        // The rows of 50 columns are padded to 64; as much again while they are read.
        assert_eq!(found.features, 2 * matrix);
        let values = 4 * (64 * 64 + 64 * 64 + 7 * 64);
        assert_eq!(found.parameters, 5 * values + 2 * 4 * 64 * 64);
        // Ten items, all of them also trained on: three times a row and its logits.
        assert_eq!(found.readout, 3 * 10 * 4 * (64 + 8));
        let parts: u64 = found.parts().iter().map(|part| part.1).sum();
        assert_eq!(found.total, parts);
    }

    #[test]
    fn copies_of_entries_are_counted_for_narrow_layers_and_not_needed() {
        let manifest = manifest(Value::Null, Value::Null);
        let [narrow, wide] =
            ["model.state=4", "model.state=5"].map(|set| estimate(&manifest, &[set]));
        // 4 bytes per entry and 3 per row, and 8 for each of 4 windows: one direction is stored.
        assert_eq!((narrow.copies, wide.copies), (5000 * 4 + 1000 * 3 + 4 * 8, 0));
        assert_eq!(narrow.needed(), narrow.total - narrow.copies);
        let parts: u64 = narrow.parts().iter().map(|part| part.1).sum();
        assert_eq!(narrow.total, parts);
    }

    #[test]
    fn moves_of_mixing_are_counted_in_full() {
        let manifest = manifest(Value::Null, Value::Null);
        let plain = estimate(&manifest, &["model.state=64", "solver.method=plain"]);
        let auto = estimate(&manifest, &["model.state=64"]);
        let buffers = config(&[]).forward().mixing_buffers() as u64;
        assert_eq!(auto.states - plain.states, buffers * 1000 * 64 * 2);
    }

    #[test]
    fn learned_features_are_parameters() {
        let manifest = manifest(Value::Null, Value::Null);
        let found = estimate(&manifest, &["model.state=128"]);
        assert_eq!(found.features, 0);
        // The gradient of the table takes the buffer of solves.
        assert!(found.parameters >= 4 * 4 * (128 * 128 + 1000 * 128));
        // One that no step changes is there once, and is the input term if that gathers nothing.
        let own = ["model.state=128", "model.input=own", "optim.table_factor=0"];
        let [free, fixed] = [&own[..2], &own[..]].map(|sets| estimate(&manifest, sets));
        assert_eq!(free.parameters - fixed.parameters, 3 * 4 * 1000 * 128);
        assert_eq!((free.input, fixed.input), (0, 0));
        assert_eq!(found.input, 4 * 1000 * 128);
    }

    #[test]
    fn reading_wide_features_may_take_more_than_training() {
        let manifest = manifest(dense(6400), Value::Null);
        let found = estimate(&manifest, &["model.state=16", "solver.method=plain"]);
        // U, the buffers of reading it, and what is gathered from it, before anything else exists.
        assert_eq!(found.total - found.parameters, 3 * 1000 * 6400 * 4);
    }

    #[test]
    fn a_damaged_manifest_does_not_overflow() {
        let mut damaged = manifest(dense(u64::MAX), Value::Null);
        assert_eq!(estimate(&damaged, &[]).total, u64::MAX);
        damaged.nodes = u64::MAX;
        assert_eq!(estimate(&damaged, &[]).total, u64::MAX);
        damaged.features = None;
        assert_eq!(estimate(&damaged, &[]).total, u64::MAX);
    }
}
