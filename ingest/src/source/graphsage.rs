//! The two published formats of PPI, and other datasets in the same formats. The JSON of graphs is
//! read by [`super::node_link`].
//!
//! Many graphs, in three parts `train`, `valid` and `test`, each with nodes numbered from 0 (the
//! rows of its arrays): `PART_graph.json` (node-link), `PART_feats.npy`, `PART_labels.npy` (0 or 1
//! for each class) and `PART_graph_id.npy` (ascending: the nodes of a graph are contiguous).
//!
//! GraphSAGE's format of one graph: `PREFIX-G.json` (node-link; nodes with `val` and `test`),
//! `PREFIX-id_map.json` (id to row), `PREFIX-class_map.json` (id to a class, or to a list of zeros
//! and ones) and, if there are features, `PREFIX-feats.npy`. It does not separate graphs: the result is
//! one graph with a split of its nodes.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use ignn_format::graphs::Graphs;
use ignn_format::ids::Ids;
use ignn_format::labels::Labels;
use ignn_format::splits::{NO_PART, Split};
use serde::Deserialize;

use crate::collection::{Collection, FeatureTable, classes_of};
use crate::error::{IngestError, Result};
use crate::source::node_link::{self, Key, read_json};
use crate::source::npy::NpyArray;

/// Names of the parts in the files of the first format.
pub const PART_FILES: [&str; 3] = ["train", "valid", "test"];
/// Names of the parts in a dataset.
pub const PARTS: [&str; 3] = ["train", "val", "test"];
/// Name of the split.
pub const SPLIT: &str = "default";
/// Suffix of the graph file of the second format.
const GRAPH: &str = "-G.json";

/// A parsed dataset.
#[derive(Debug)]
pub struct GraphSage {
    /// Its nodes.
    pub collection: Collection,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Reads a directory in either format.
pub fn read(directory: &Path) -> Result<GraphSage> {
    if directory.join("train_graph.json").exists() {
        return Ok(GraphSage { collection: read_parts(directory)?, notes: Vec::new() });
    }
    let mut prefixes = Vec::new();
    for entry in fs::read_dir(directory).map_err(IngestError::io("read", directory))? {
        let entry = entry.map_err(IngestError::io("read", directory))?;
        if let Some(prefix) = entry.file_name().to_str().and_then(|name| name.strip_suffix(GRAPH)) {
            prefixes.push(prefix.to_owned());
        }
    }
    prefixes.sort();
    match &prefixes[..] {
        [prefix] => read_graph(directory, prefix),
        [] => {
            let what = format!(
                "neither train_graph.json nor PREFIX{GRAPH} (expected a dataset in one of these \
                 formats)"
            );
            Err(IngestError::file(directory, what))
        }
        [first, second, ..] => {
            let what = format!(
                "both {first}{GRAPH} and {second}{GRAPH} (expected one dataset per directory)"
            );
            Err(IngestError::file(directory, what))
        }
    }
}

/// Reads the format of many graphs.
fn read_parts(directory: &Path) -> Result<Collection> {
    let mut set = Collection::default();
    let mut graphs = Graphs {
        ids: vec![],
        first_node: vec![0],
        classes: vec![],
        labels: vec![],
        numbers: Vec::new(),
        splits: vec![],
    };
    let (mut nodes_of_part, mut graphs_of_part) = (Vec::new(), Vec::new());
    let (mut offsets, mut of) = (vec![0], Vec::new());
    let (mut columns, mut classes, mut last_graph) = (None, None, None);
    for (part, name) in (0u8..).zip(PART_FILES) {
        let file = |what: &str| directory.join(format!("{name}_{what}"));
        let (features_path, labels_path, ids_path) =
            (file("feats.npy"), file("labels.npy"), file("graph_id.npy"));
        // This array has one column, so the file really has that many rows; the other arrays must
        // agree.
        let graph_of = read_graph_ids(&ids_path)?;
        let open_rows = |path: &Path| {
            let array = NpyArray::open(path)?;
            if array.rows() == graph_of.len() as u64 {
                return Ok(array);
            }
            let (found, expected) = (array.rows(), graph_of.len());
            let what = format!("{found} rows (expected {expected}, as in {name}_graph_id.npy)");
            Err(IngestError::file(path, what))
        };
        let (features, labels) = (open_rows(&features_path)?, open_rows(&labels_path)?);
        let first = set.nodes;
        set.nodes += graph_of.len() as u64;
        if set.nodes > u64::from(u32::MAX) {
            return Err(IngestError::file(
                &features_path,
                format!("more than {} nodes in total", u32::MAX),
            ));
        }

        let same_columns =
            |path: &Path, what: &str, found: u64, expected: u64| match found == expected {
                true => Ok(()),
                false => {
                    let what = format!(
                        "{found} columns (expected {expected}, as in {}_{what}.npy)",
                        PART_FILES[0]
                    );
                    Err(IngestError::file(path, what))
                }
            };
        same_columns(
            &features_path,
            "feats",
            features.columns(),
            *columns.get_or_insert(features.columns()),
        )?;
        append_finite(&features, &features_path, &mut set.features.plain)?;
        same_columns(
            &labels_path,
            "labels",
            labels.columns(),
            *classes.get_or_insert(labels.columns()),
        )?;
        append_marks(&labels, &labels_path, &mut offsets, &mut of)?;

        for (row, &graph) in (0..).zip(&graph_of) {
            let after = |last| graph == last && row > 0;
            match last_graph {
                Some(last) if after(last) => continue,
                Some(last) if graph <= last => {
                    let what = format!(
                        "graph {graph} after graph {last} in row {row} (expected the nodes of a \
                         graph to be contiguous, and increasing numbers over train, valid and test)"
                    );
                    return Err(IngestError::file(&ids_path, what));
                }
                Some(_) => graphs.first_node.push(first + row),
                None => {}
            }
            graphs.ids.push(graph.to_string());
            graphs_of_part.push(part);
            last_graph = Some(graph);
        }
        nodes_of_part.resize(set.nodes as usize, part);
        append_edges(&file("graph.json"), &ids_path, &graph_of, first as u32, &mut set.edges)?;
    }
    if graphs.ids.is_empty() {
        return Err(IngestError::file(directory, "no nodes in any of the files"));
    }
    graphs.first_node.push(set.nodes);
    set.features.plain_columns = columns.unwrap_or(0) as usize;
    let split = |of| Split { name: SPLIT.into(), parts: PARTS.map(String::from).into(), of };
    set.splits = vec![split(nodes_of_part)];
    graphs.splits = vec![split(graphs_of_part)];
    set.graphs = Some(graphs);
    let names = (0..classes.unwrap_or(0)).map(|class| class.to_string()).collect();
    set.labels = Some(Labels::complete_sets(names, offsets, of));
    Ok(set)
}

/// Appends the rows of an array of finite numbers.
fn append_finite(array: &NpyArray, path: &Path, values: &mut Vec<f32>) -> Result<()> {
    let before = values.len();
    let (rows, columns) = (array.rows() as usize, array.columns() as usize);
    values.resize(before + rows * columns, 0.0);
    array.read_rows(0, &mut values[before..])?;
    match values[before..].iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let (row, column, value) = (at / columns, at % columns, values[before + at]);
            let what = format!("{value} in row {row}, column {column} (expected finite numbers)");
            Err(IngestError::file(path, what))
        }
    }
}

/// Appends the columns that are 1 of each row of an array of 0 and 1.
fn append_marks(
    array: &NpyArray,
    path: &Path,
    offsets: &mut Vec<u64>,
    of: &mut Vec<u32>,
) -> Result<()> {
    // Without rows, the file need not have as many columns as it declares.
    let mut marks = vec![0.0; if array.rows() == 0 { 0 } else { array.columns() as usize }];
    for row in 0..array.rows() {
        array.read_rows(row, &mut marks)?;
        for (class, &mark) in (0u32..).zip(&marks) {
            if mark == 1.0 {
                of.push(class);
            } else if mark != 0.0 {
                let what = format!("{mark} in row {row}, column {class} (expected 0 or 1)");
                return Err(IngestError::file(path, what));
            }
        }
        offsets.push(of.len() as u64);
    }
    Ok(())
}

fn read_graph_ids(path: &Path) -> Result<Vec<u64>> {
    let array = NpyArray::open(path)?;
    if array.columns() != 1 {
        return Err(IngestError::file(path, format!("{} columns (expected 1)", array.columns())));
    }
    let mut ids = vec![0; array.rows() as usize];
    array.read_integers(0, &mut ids)?;
    Ok(ids)
}

/// Appends the links of a part's graph file, whose node ids are row numbers.
fn append_edges(
    path: &Path,
    rows: &Path,
    graph_of: &[u64],
    first: u32,
    edges: &mut Vec<[u32; 2]>,
) -> Result<()> {
    let graph = node_link::read(path)?;
    let rows = rows.file_name().unwrap_or_default().to_string_lossy();
    if graph.nodes.len() != graph_of.len() {
        let what = format!(
            "{} nodes (expected {}, the rows of {rows})",
            graph.nodes.len(),
            graph_of.len()
        );
        return Err(IngestError::file(path, what));
    }
    let mut row_of = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        match node.id {
            Key::Integer(id) if id < graph_of.len() as u64 => row_of.push(id as u32),
            _ => {
                let what = format!(
                    "node id {} (expected a row of {rows}, 0 to {})",
                    node.id,
                    graph_of.len() - 1
                );
                return Err(IngestError::file(path, what));
            }
        }
    }
    for [u, v] in graph.edges(path)? {
        let (u, v) = (row_of[u as usize], row_of[v as usize]);
        let (of_u, of_v) = (graph_of[u as usize], graph_of[v as usize]);
        if of_u != of_v {
            let what = format!(
                "a link between nodes {u} and {v} of graphs {of_u} and {of_v} (expected links \
                 within a graph)"
            );
            return Err(IngestError::file(path, what));
        }
        edges.push([first + u, first + v]);
    }
    Ok(())
}

/// The class map's value for a node.
#[derive(Deserialize)]
#[serde(untagged)]
enum ClassEntry {
    One(i64),
    Marks(Vec<u8>),
}

/// Reads GraphSAGE's format.
fn read_graph(directory: &Path, prefix: &str) -> Result<GraphSage> {
    let file = |part: &str| directory.join(format!("{prefix}{part}"));
    let graph_path = file(GRAPH);
    let graph = node_link::read(&graph_path)?;
    let nodes = graph.nodes.len();
    if nodes == 0 {
        return Err(IngestError::file(&graph_path, "no nodes"));
    }
    let rows_path = file("-id_map.json");
    let row_of = read_rows(&rows_path, &graph)?;
    let edges = graph.edges(&graph_path)?;
    let edges = edges.iter().map(|pair| pair.map(|place| row_of[place as usize])).collect();

    let mut place_of = vec![0; nodes];
    for (place, &row) in row_of.iter().enumerate() {
        place_of[row as usize] = place;
    }
    let ids = match graph.nodes.iter().all(|node| matches!(node.id, Key::Integer(_))) {
        true => {
            Ids::Integer(place_of.iter().map(|&place| integer_of(&graph.nodes[place].id)).collect())
        }
        false => {
            let (mut offsets, mut text) = (vec![0], String::new());
            for &place in &place_of {
                text.push_str(&text_of(&graph.nodes[place].id));
                offsets.push(text.len() as u64);
            }
            Ids::String { offsets, text }
        }
    };

    let mut features = FeatureTable::default();
    let features_path = file("-feats.npy");
    let mut notes = vec![format!(
        "{prefix}{GRAPH} does not separate graphs: the dataset has one graph, with a split of its \
         nodes"
    )];
    if features_path.exists() {
        let array = NpyArray::open(&features_path)?;
        if array.rows() != nodes as u64 {
            let what = format!(
                "{} rows (expected {nodes}, one per node of {prefix}{GRAPH})",
                array.rows()
            );
            return Err(IngestError::file(&features_path, what));
        }
        features.plain_columns = array.columns() as usize;
        append_finite(&array, &features_path, &mut features.plain)?;
    } else {
        notes.push(format!("there is no {prefix}-feats.npy: the dataset has no features"));
    }
    let labels = read_classes(&file("-class_map.json"), &graph, &place_of)?;

    let mut unmarked = 0;
    let part_of =
        place_of.iter().map(|&place| match (graph.nodes[place].val, graph.nodes[place].test) {
            (_, Some(true)) => 2,
            (Some(true), _) => 1,
            (None, None) => {
                unmarked += 1;
                NO_PART
            }
            _ => 0,
        });
    let split =
        Split { name: SPLIT.into(), parts: PARTS.map(String::from).into(), of: part_of.collect() };
    if unmarked > 0 {
        notes.push(format!(
            "{unmarked} nodes of {prefix}{GRAPH} have neither \"val\" nor \"test\": they are in no \
             part"
        ));
    }
    let collection = Collection {
        nodes: nodes as u64,
        ids: Some(ids),
        edges,
        features,
        labels: Some(labels),
        splits: vec![split],
        graphs: None,
    };
    Ok(GraphSage { collection, notes })
}

/// The row of each node, in the order of the graph file: a bijection onto `0 .. nodes`.
fn read_rows(path: &Path, graph: &node_link::NodeLink) -> Result<Vec<u32>> {
    let rows: HashMap<String, u64> = read_json(path, "a map from ids to rows")?;
    let nodes = graph.nodes.len();
    let mut taken = vec![false; nodes];
    let mut row_of = Vec::with_capacity(nodes);
    for node in &graph.nodes {
        let Some(&row) = rows.get(&*text_of(&node.id)) else {
            return Err(IngestError::file(path, format!("no row for the node {}", node.id)));
        };
        match taken.get_mut(row as usize) {
            Some(taken) if !*taken => *taken = true,
            Some(_) => {
                return Err(IngestError::file(
                    path,
                    format!("row {row} twice, the second time for the node {}", node.id),
                ));
            }
            None => {
                let what =
                    format!("row {row} for the node {} (expected 0 to {})", node.id, nodes - 1);
                return Err(IngestError::file(path, what));
            }
        }
        row_of.push(row as u32);
    }
    Ok(row_of)
}

fn read_classes(path: &Path, graph: &node_link::NodeLink, place_of: &[usize]) -> Result<Labels> {
    let mut classes: HashMap<String, ClassEntry> =
        read_json(path, "a map from ids to a class or a list of 0 and 1")?;
    let (mut single, mut offsets, mut of, mut width) = (Vec::new(), vec![0], Vec::new(), None);
    for &place in place_of {
        let id = &graph.nodes[place].id;
        match classes.remove(&*text_of(id)) {
            None => return Err(IngestError::file(path, format!("no class for the node {id}"))),
            Some(ClassEntry::One(class)) => single.push(class),
            Some(ClassEntry::Marks(marks)) => {
                let expected = *width.get_or_insert(marks.len());
                if marks.len() != expected || marks.iter().any(|&mark| mark > 1) {
                    let what =
                        format!("node {id}: expected {expected} marks of 0 or 1, found others");
                    return Err(IngestError::file(path, what));
                }
                of.extend(
                    (0u32..).zip(&marks).filter(|&(_, &mark)| mark == 1).map(|(class, _)| class),
                );
                offsets.push(of.len() as u64);
            }
        }
    }
    match width {
        None => {
            let (classes, of) = classes_of(&single);
            let of = of.iter().map(|&class| class as i32).collect();
            Ok(Labels::Single { classes: classes.iter().map(i64::to_string).collect(), of })
        }
        Some(width) if single.is_empty() => {
            let classes = (0..width).map(|class| class.to_string()).collect();
            Ok(Labels::complete_sets(classes, offsets, of))
        }
        Some(_) => Err(IngestError::file(
            path,
            "a class for some nodes and a list for others (expected one of them)",
        )),
    }
}

fn integer_of(id: &Key) -> u64 {
    match id {
        Key::Integer(id) => *id,
        Key::Text(_) => unreachable!("all ids were found to be integers"),
    }
}

/// An id as a key of the maps: keys of JSON objects are strings.
fn text_of(id: &Key) -> std::borrow::Cow<'_, str> {
    match id {
        Key::Integer(id) => id.to_string().into(),
        Key::Text(id) => id.into(),
    }
}

#[cfg(test)]
mod tests;
