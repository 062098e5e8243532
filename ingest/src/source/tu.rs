//! The raw text files of the TU collection of graph datasets: `NAME_A.txt`,
//! `NAME_graph_indicator.txt` and so on. Files about edges are not used, because edges have no
//! features in ignn.
//!
//! | file | line | meaning |
//! | --- | --- | --- |
//! | `NAME_graph_indicator.txt` | one per node | number of the node's graph, from 1, ascending |
//! | `NAME_A.txt` | one per edge | two node numbers, from 1; undirected edges are listed in both directions |
//! | `NAME_graph_labels.txt` | one per graph | its class, an integer |
//! | `NAME_graph_attributes.txt` (optional) | one per graph | numbers: one column may be predicted |
//! | `NAME_node_labels.txt` (optional) | one per node | integers: each column becomes one-hot features |
//! | `NAME_node_attributes.txt` (optional) | one per node | numbers: features after the one-hot ones |

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ignn_format::graphs::Graphs;
use ignn_format::ids::Ids;

use crate::collection::{Collection, FeatureTable, classes_of, degrees};
use crate::error::{IngestError, Result, quoted};
use crate::source::fields::{each_row, finite, integer, integer_within, split};

/// Suffix of the edge file, by which the name of the dataset is found.
const EDGES: &str = "_A.txt";

/// A parsed dataset.
#[derive(Debug)]
pub struct Tu {
    /// The common prefix of its file names.
    pub name: String,
    /// Its graphs; node ids are the numbers in the files.
    pub collection: Collection,
    /// Values of each column of node labels, in the order of the one-hot features.
    pub node_label_values: Vec<Vec<i64>>,
    /// Whether the last feature is the degree.
    pub has_degrees: bool,
    /// Files that were not used.
    pub unused: Vec<PathBuf>,
}

/// Reads the dataset in a directory. With `degree_features`, or if nodes have no other features,
/// the degree becomes the last feature. With `regress`, graphs have the numbers in that column of
/// their attributes instead of classes.
pub fn read(directory: &Path, degree_features: bool, regress: Option<usize>) -> Result<Tu> {
    let name = find_name(directory)?;
    let file = |part: &str| directory.join(format!("{name}_{part}.txt"));
    let indicator_path = file("graph_indicator");
    let graph_of = read_indicator(&indicator_path)?;
    let (graphs, nodes) =
        (graph_of.last().map_or(0, |&graph| graph as usize + 1), graph_of.len() as u64);

    let (classes, labels, numbers) = match regress {
        None => {
            let path = file("graph_labels");
            let labels = read_integers(&path, "one per graph", graphs as u64, &indicator_path)?;
            if labels.columns > 1 {
                let what =
                    format!("{} columns (expected 1, the class of the graph)", labels.columns);
                return Err(IngestError::file(path, what));
            }
            let (classes, of) = classes_of(&labels.values);
            let classes: Vec<String> = classes.iter().map(i64::to_string).collect();
            (classes, of.iter().map(|&class| class as i32).collect(), Vec::new())
        }
        Some(column) => {
            let path = file("graph_attributes");
            let (columns, values) =
                read_attributes(&path, "one per graph", graphs as u64, &indicator_path)?;
            if column >= columns {
                let what =
                    format!("{columns} columns (expected a column {column}, counting from 0)");
                return Err(IngestError::file(path, what));
            }
            let numbers = values.iter().skip(column).step_by(columns).copied();
            (vec![format!("attribute {column}")], Vec::new(), numbers.collect())
        }
    };
    let edges = read_edges(&file("A"), &graph_of)?;

    let mut features = FeatureTable::default();
    let mut node_label_values = Vec::new();
    if file("node_labels").exists() {
        let labels = read_integers(&file("node_labels"), "one per node", nodes, &indicator_path)?;
        for column in 0..labels.columns {
            let values: Vec<i64> =
                labels.values.iter().skip(column).step_by(labels.columns).copied().collect();
            let (classes, of) = classes_of(&values);
            features.add_hot(classes.len(), &of);
            node_label_values.push(classes);
        }
    }
    if file("node_attributes").exists() {
        let path = file("node_attributes");
        let (columns, values) =
            read_attributes::<f32>(&path, "one per node", nodes, &indicator_path)?;
        features.add_plain(columns, &values);
    }
    let has_degrees = degree_features || features.columns() == 0;
    if has_degrees {
        features.add_plain(1, &degrees(nodes, &edges));
    }

    let other = if regress.is_some() { "graph_labels" } else { "graph_attributes" };
    let unused = ["edge_labels", "edge_attributes", other].map(file).into_iter();
    let unused = unused.filter(|path| path.exists()).collect();
    let first_node =
        (0..=graphs).map(|graph| graph_of.partition_point(|&of| (of as usize) < graph) as u64);
    let collection = Collection {
        nodes,
        ids: Some(Ids::Integer((1..=nodes).collect())),
        edges,
        features,
        graphs: Some(Graphs {
            ids: (1..=graphs).map(|graph| graph.to_string()).collect(),
            first_node: first_node.collect(),
            classes,
            labels,
            numbers,
            splits: Vec::new(),
        }),
        ..Collection::default()
    };
    Ok(Tu { name, collection, node_label_values, has_degrees, unused })
}

/// The part before `_A.txt` of the only file with that suffix.
fn find_name(directory: &Path) -> Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(IngestError::io("read", directory))? {
        let entry = entry.map_err(IngestError::io("read", directory))?;
        if let Some(name) = entry.file_name().to_str().and_then(|name| name.strip_suffix(EDGES)) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    match &names[..] {
        [name] => Ok(name.clone()),
        [] => Err(IngestError::file(
            directory,
            format!("no file NAME{EDGES} (expected a TU dataset)"),
        )),
        [first, second, ..] => {
            let what = format!(
                "both {first}{EDGES} and {second}{EDGES} (expected one dataset per directory)"
            );
            Err(IngestError::file(directory, what))
        }
    }
}

/// The graph of each node, from 0.
fn read_indicator(path: &Path) -> Result<Vec<u32>> {
    let mut graph_of: Vec<u32> = Vec::new();
    each_row(path, |line, row| {
        if graph_of.len() == u32::MAX as usize {
            return Err(IngestError::file(path, format!("more than {} nodes", u32::MAX)));
        }
        // Graphs are numbered from 1, so the number of the last graph is the index of the next.
        let last = graph_of.last().map_or(0, |&graph| u64::from(graph) + 1);
        let expected = match last {
            0 => "graph number 1".to_owned(),
            last => format!("graph number {last} or {}", last + 1),
        };
        let graph = integer(path, line, &expected, row.trim_ascii())?;
        if graph != last as i64 + 1 && (graph != last as i64 || last == 0) {
            let why = if graph > last as i64 {
                format!(" (graph {} has no nodes)", last + 1)
            } else {
                " (the nodes of a graph must be contiguous)".to_owned()
            };
            return Err(IngestError::line(path, line, expected, format!("{graph}{why}")));
        }
        graph_of.push(graph as u32 - 1);
        Ok(())
    })?;
    if graph_of.is_empty() {
        return Err(IngestError::file(
            path,
            "no nodes (expected the number of a graph on each line)",
        ));
    }
    Ok(graph_of)
}

fn read_edges(path: &Path, graph_of: &[u32]) -> Result<Vec<[u32; 2]>> {
    let mut edges = Vec::new();
    each_row(path, |line, row| {
        let mut fields = split(row);
        let (Some(u), Some(v), None) = (fields.next(), fields.next(), fields.next()) else {
            let found = format!("{}: {}", split(row).count(), quoted(row));
            return Err(IngestError::line(path, line, "2 node numbers", found));
        };
        let node =
            |field| integer_within(path, line, "a node number", 1, graph_of.len() as u64, field);
        let ends = [node(u)? as u32 - 1, node(v)? as u32 - 1];
        let [u, v] = ends;
        let (of_u, of_v) = (graph_of[u as usize], graph_of[v as usize]);
        if of_u != of_v {
            let found =
                format!("nodes {} and {} of graphs {} and {}", u + 1, v + 1, of_u + 1, of_v + 1);
            return Err(IngestError::line(path, line, "an edge within one graph", found));
        }
        edges.push(ends);
        Ok(())
    })?;
    Ok(edges)
}

/// A table of integers, row by row.
struct Integers {
    columns: usize,
    values: Vec<i64>,
}

fn read_integers(path: &Path, each: &str, expected: u64, indicator: &Path) -> Result<Integers> {
    let mut values = Vec::new();
    let columns = read_table(path, each, expected, indicator, |line, field| {
        values.push(integer(path, line, "an integer", field)?);
        Ok(())
    })?;
    Ok(Integers { columns, values })
}

fn read_attributes<T>(
    path: &Path,
    each: &str,
    rows: u64,
    indicator: &Path,
) -> Result<(usize, Vec<T>)>
where
    T: FromStr + Copy + Into<f64>,
{
    let mut values = Vec::new();
    let columns = read_table(path, each, rows, indicator, |line, field| {
        values.push(finite(path, line, field)?);
        Ok(())
    })?;
    Ok((columns, values))
}

/// Reads a table of exactly `expected` lines with the same number of fields; returns that number.
fn read_table(
    path: &Path,
    each: &str,
    expected: u64,
    indicator: &Path,
    mut value: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<usize> {
    let mut columns = None;
    let rows = each_row(path, |line, row| {
        let mut count = 0;
        for field in split(row) {
            value(line, field)?;
            count += 1;
        }
        if count == 0 {
            return Err(IngestError::line(path, line, "a value", quoted(row)));
        }
        match *columns.get_or_insert(count) {
            columns if columns == count => Ok(()),
            columns => {
                Err(IngestError::line(path, line, format!("{columns} columns"), count.to_string()))
            }
        }
    })?;
    if rows != expected {
        let indicator = indicator.file_name().unwrap_or_default().to_string_lossy();
        let what = format!("{rows} lines (expected {expected}, {each} of {indicator})");
        return Err(IngestError::file(path, what));
    }
    Ok(columns.unwrap_or(0))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::content::{Content, Features};

    /// Directory of the shared data, or `None` after a note.
    pub(crate) fn shared(part: &str) -> Option<PathBuf> {
        let root = std::env::var_os("IGNN_SHARED").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
            PathBuf::from,
        );
        let path = root.join("data").join(part);
        if !path.exists() {
            println!("skipped: no {} (set IGNN_SHARED)", path.display());
            return None;
        }
        Some(path)
    }

    const GOOD: [(&str, &str); 4] = [
        ("graph_indicator", "1\n1\n1\n2\n2\n"),
        ("A", "1, 2\n2, 1\n2,3\n3, 2\n4 5\n"),
        ("graph_labels", "1\n-1\n"),
        ("node_labels", "7\n3\n7\n7\n3\n"),
    ];

    fn write(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (part, text) in GOOD.iter().chain(files) {
            fs::write(dir.path().join(format!("T_{part}.txt")), text).unwrap();
        }
        dir
    }

    fn message(files: &[(&str, &str)]) -> String {
        let dir = write(files);
        let error = read(dir.path(), false, None).unwrap_err().to_string();
        error.strip_prefix(&format!("{}/", dir.path().display())).unwrap_or(&error).to_owned()
    }

    #[test]
    fn a_small_set_is_read_whole() {
        let dir =
            write(&[("node_attributes", "1,2\n3, 4\n5,6\n7,8\n9,1e1\n"), ("edge_labels", "1\n")]);
        let tu = read(dir.path(), true, None).unwrap();
        assert_eq!(tu.name, "T");
        assert_eq!(tu.node_label_values, [[3, 7]]);
        assert_eq!(tu.unused, [dir.path().join("T_edge_labels.txt")]);
        let set = tu.collection;
        assert_eq!(set.edges, [[0, 1], [1, 0], [1, 2], [2, 1], [3, 4]]);
        assert_eq!(set.ids, Some(Ids::Integer(vec![1, 2, 3, 4, 5])));
        let graphs = set.graphs.as_ref().unwrap();
        assert_eq!(graphs.first_node, [0, 3, 5]);
        assert_eq!(
            (&graphs.classes[..], &graphs.labels[..]),
            (&["-1".to_owned(), "1".into()][..], &[1, 0][..])
        );
        let Some(Features::Dense { columns: 5, fill }) = set.features() else { panic!() };
        let mut rows = [0.0; 10];
        fill(1, &mut rows);
        assert_eq!(rows, [1.0, 0.0, 3.0, 4.0, 2.0, 0.0, 1.0, 5.0, 6.0, 1.0]);
        drop(fill);
        // Without labels and attributes, the degree is the only feature.
        for part in ["node_labels", "node_attributes"] {
            fs::remove_file(dir.path().join(format!("T_{part}.txt"))).unwrap();
        }
        let tu = read(dir.path(), false, None).unwrap();
        let Some(Features::Dense { columns: 1, fill }) = tu.collection.features() else { panic!() };
        let mut rows = [0.0; 5];
        fill(0, &mut rows);
        assert_eq!((tu.has_degrees, rows), (true, [1.0, 2.0, 1.0, 1.0, 1.0]));
    }

    #[test]
    fn malformed_files_are_reported() {
        let cases: [(&[(&str, &str)], &str); 13] = [
            (&[("A", "1 2\n42\n")], "T_A.txt:2: expected 2 node numbers, found 1: \"42\""),
            (&[("A", "1,2,3\n")], "T_A.txt:1: expected 2 node numbers, found 3: \"1,2,3\""),
            (&[("A", "1 6\n")], "T_A.txt:1: expected a node number from 1 to 5, found \"6\""),
            (&[("A", "0 1\n")], "T_A.txt:1: expected a node number from 1 to 5, found \"0\""),
            (
                &[("A", "1 2\n\n2 1\n")],
                "T_A.txt:2: expected a value on every line, found a blank line",
            ),
            (
                &[("A", "3 4\n")],
                "T_A.txt:1: expected an edge within one graph, found nodes 3 and 4 of graphs 1 and \
                 2",
            ),
            (
                &[("graph_indicator", "1\n1\n1\n3\n3\n")],
                "T_graph_indicator.txt:4: expected graph number 1 or 2, found 3 (graph 2 has no \
                 nodes)",
            ),
            (
                &[("graph_indicator", "1\n2\n1\n")],
                "T_graph_indicator.txt:3: expected graph number 2 or 3, found 1 (the nodes of a \
                 graph must be contiguous)",
            ),
            (
                &[("graph_indicator", "")],
                "T_graph_indicator.txt: no nodes (expected the number of a graph on each line)",
            ),
            (
                &[("graph_labels", "1\n-1\n1\n")],
                "T_graph_labels.txt: 3 lines (expected 2, one per graph of T_graph_indicator.txt)",
            ),
            (
                &[("graph_labels", "1\n0.5\n")],
                "T_graph_labels.txt:2: expected an integer, found \"0.5\"",
            ),
            (
                &[("node_labels", "1\n2\n")],
                "T_node_labels.txt: 2 lines (expected 5, one per node of T_graph_indicator.txt)",
            ),
            (
                &[("node_attributes", "1,2\n1,nan\n")],
                "T_node_attributes.txt:2: expected a finite number, found \"nan\"",
            ),
        ];
        for (files, expected) in cases {
            assert_eq!(message(files), expected);
        }
        assert_eq!(
            message(&[("graph_labels", ",\n,\n")]),
            "T_graph_labels.txt:1: expected a value, found \",\""
        );
        assert_eq!(
            message(&[("node_attributes", "1,2\n1\n")]),
            "T_node_attributes.txt:2: expected 2 columns, found 1"
        );
        let empty = tempfile::tempdir().unwrap();
        let error = read(empty.path(), false, None).unwrap_err().to_string();
        assert!(error.ends_with("no file NAME_A.txt (expected a TU dataset)"), "{error}");
    }

    #[test]
    fn the_real_sets_have_their_counts() {
        let Some(root) = shared("tu") else { return };
        let sets = [
            ("MUTAG", 188, 7),
            ("PTC_MR", 344, 18),
            ("COX2", 467, 8 + 3),
            ("PROTEINS", 1113, 3),
            ("NCI1", 4110, 37),
        ];
        for (name, graphs, columns) in sets {
            let tu = read(&root.join(name), false, None).unwrap();
            let found = tu.collection.graphs.unwrap();
            assert_eq!((found.labels.len(), found.classes.len()), (graphs, 2), "{name}");
            assert_eq!(tu.collection.features.columns(), columns, "{name}");
            // Every edge is listed in both directions.
            let mut edges = tu.collection.edges.clone();
            let mut turned: Vec<_> = edges.iter().map(|&[u, v]| [v, u]).collect();
            edges.sort_unstable();
            turned.sort_unstable();
            assert_eq!(edges, turned, "{name}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn arbitrary_bytes_never_panic(
            part in 0usize..5,
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                prop::collection::vec(prop::sample::select(b"0123456789,- \n\r.e".to_vec()), 0..200),
            ],
        ) {
            let part = ["graph_indicator", "A", "graph_labels", "node_labels", "node_attributes"][part];
            let dir = write(&[]);
            fs::write(dir.path().join(format!("T_{part}.txt")), &bytes).unwrap();
            let _ = read(dir.path(), true, None);
        }
    }
}
