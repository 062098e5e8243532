//! How a prediction keeps to a memory limit: which of its matrices lie on a disk.

use ignn_format::features::FeatureKind;

use super::Item;
use super::error::PredictError;
use crate::config::Config;
use crate::dense::stride;
use crate::graph::{Graph, Manifest, RelationEntry};
use crate::models::file::{ModelFile, name, text};
use crate::models::{
    BodyShape, DiskPlan, Facts, LayerBytes, LayerMemory, LayerShape, Needs, NetworkShape, PlanError,
};
use crate::nn::{Equilibrium, Mapped};

/// Bytes of the chunks that are read out and written.
const CHUNKS: u64 = 128 << 20;

/// The plan for the model of a file on a graph and `allowed` bytes of memory; `None` if everything
/// fits, perhaps but for copies of the graph's entries ([`has_room_for_copies`]). Each of several
/// ranks must hold its share of the nodes, ghosts not counted.
pub fn plan(
    file: &ModelFile,
    graph: &Graph,
    allowed: u64,
    ranks: usize,
) -> Result<Option<DiskPlan>, PredictError> {
    let Some((shape, sparse, total)) = needs(file, graph, ranks) else { return Ok(None) };
    let manifest = graph.manifest();
    let needs = Needs {
        what: "the prediction",
        total,
        sparse,
        moves: 0,
        nodes: manifest.nodes,
        entries: manifest.relations.iter().map(|relation| relation.nonzeros).sum(),
        shape: &shape,
        has_graphs: manifest.graphs.is_some(),
    };
    // Graphs of a collection are solved in batches, which are small.
    if needs.has_graphs || ranks > 1 && total <= allowed {
        return Ok(None);
    }
    if ranks > 1 {
        let (of, what) = ("the prediction on a rank", "several ranks compute");
        return Err(PlanError::NotCovered { of, what, needed: total, allowed }.into());
    }
    Ok(DiskPlan::new(&needs, allowed)?)
}

/// Whether `allowed` bytes of memory also hold the copies of the graph's entries that narrow layers
/// gather by; otherwise they are to be left out.
pub fn has_room_for_copies(file: &ModelFile, graph: &Graph, allowed: u64, ranks: usize) -> bool {
    let Some((shape, _, total)) = needs(file, graph, ranks) else { return true };
    let share = |count: u64| count.div_ceil(ranks.max(1) as u64);
    let nodes = share(graph.manifest().nodes);
    let of =
        |entry: &RelationEntry| (nodes, share(entry.nonzeros), entry.weighted, entry.symmetric);
    let relations: Vec<_> = graph.manifest().relations.iter().map(of).collect();
    total.saturating_add(shape.copied_bytes(&relations)) <= allowed
}

/// The network, bytes of features that are stored sparse, and bytes of a rank if everything is in
/// memory.
fn needs(file: &ModelFile, graph: &Graph, ranks: usize) -> Option<(NetworkShape, u64, u64)> {
    // What is wrong with the file is said when it is read.
    let config = file.text(text::CONFIG).map(|toml| Config::from_toml(toml, file.path()));
    let Ok(Ok(config)) = config else { return None };
    let manifest = graph.manifest();
    let is_learned = file.shape(name::E).is_some();
    let features = manifest.features.as_ref().filter(|_| !is_learned);
    let classes = file.text(text::CLASSES).ok().and_then(|text| serde_json::from_str(text).ok());
    let classes: Vec<String> = classes.unwrap_or_default();
    let facts = Facts {
        nodes: manifest.nodes as usize,
        columns: features.map(|entry| entry.columns as usize),
        relations: manifest.relations.iter().map(|relation| relation.name.clone()).collect(),
        radii: Vec::new(),
        outputs: classes.len(),
        pools: Item::of_config(&config) == Item::Graph,
    };
    let shape = NetworkShape::new(&config.model, &facts, 0).ok()?;
    let sparse = sparse(manifest, is_learned);
    let nodes = manifest.nodes.div_ceil(ranks.max(1) as u64);
    let parts = [
        sparse.unwrap_or_else(|| dense(&shape, nodes)),
        shape.layers.iter().map(|layer| states(layer, &config, nodes)).sum(),
        shape.parameter_bytes().saturating_mul(2),
        CHUNKS,
    ];
    let total = parts.into_iter().fold(0, u64::saturating_add);
    Some((shape, sparse.unwrap_or(0), total))
}

/// Bytes of sparse features, by rows and by columns; `None` for others.
fn sparse(manifest: &Manifest, is_learned: bool) -> Option<u64> {
    let entry = manifest.features.as_ref().filter(|_| !is_learned)?;
    let nonzeros = entry.nonzeros.filter(|_| entry.kind == FeatureKind::Sparse)?;
    let numbers = [nonzeros, nonzeros, manifest.nodes, entry.columns];
    Some(numbers.into_iter().fold(0, u64::saturating_add).saturating_mul(8))
}

/// Bytes of dense features while they are read and gathered.
fn dense(shape: &NetworkShape, nodes: u64) -> u64 {
    let first = &shape.layers[0].input;
    let Mapped::Columns(columns) = first.mapped else { return 0 };
    let maps = first.gathered() + usize::from(first.own().is_some());
    let beside = if maps > 1 { row(columns.saturating_mul(maps)) } else { 0 };
    let rows = row(columns).saturating_mul(1 + first.gathered() as u64).saturating_add(beside);
    nodes.saturating_mul(rows)
}

/// Bytes of a layer's matrices, with the second state that tightens the certified error.
fn states(layer: &LayerShape, config: &Config, nodes: u64) -> u64 {
    let BodyShape::Equilibrium { kappas, .. } = &layer.body else {
        let LayerBytes { states, input, adjoint } = layer.bytes(LayerMemory::whole(), nodes, 0);
        return [input, adjoint].into_iter().fold(states, u64::saturating_add);
    };
    let mixing_buffers = config.forward().mixing_buffers();
    let width = layer.width as u64;
    let body = Equilibrium::bytes(nodes, width, kappas.len(), false, mixing_buffers);
    // B, the second state, and what follows the state.
    let more = [!layer.takes_table(), true, layer.between.is_some(), layer.norm.is_some()];
    let more = more.into_iter().map(u64::from).sum::<u64>();
    body.saturating_add(more.saturating_mul(nodes).saturating_mul(row(layer.width)))
}

fn row(columns: usize) -> u64 {
    (stride(columns) as u64).saturating_mul(size_of::<f32>() as u64)
}
