//! The text format of DGCNN and GIN for graph classification datasets, one file per dataset. Node
//! tags become one-hot features, further numbers on a node's line become plain features.
//!
//! ```text
//! 2                  number of graphs
//! 3 1                a graph: number of nodes, class
//! 0 1 1              a node: tag, degree, neighbours (from 0 inside the graph), attributes if there are any
//! 4 2 0 2
//! 0 1 1
//! 1 0                the next graph
//! ...
//! ```

use std::path::Path;

use ignn_format::graphs::Graphs;

use crate::collection::{Collection, FeatureTable, classes_of};
use crate::error::{IngestError, Result, quoted};
use crate::source::fields::{finite, integer, integer_within, split};
use crate::source::text::Lines;

/// A parsed dataset.
#[derive(Debug)]
pub struct Dgcnn {
    /// Its graphs; node ids count from 0 throughout the file.
    pub collection: Collection,
    /// Values of the node tags, in the order of their one-hot features.
    pub tags: Vec<i64>,
}

/// Reads the file.
pub fn read(path: &Path) -> Result<Dgcnn> {
    let mut rows = Rows { lines: Lines::open(path)?, row: Vec::new() };
    let count = match rows.next()? {
        Some((line, row)) => integer_within(
            path,
            line,
            "a number of graphs",
            1,
            u64::from(u32::MAX),
            row.trim_ascii(),
        )?,
        None => {
            return Err(IngestError::file(
                path,
                "empty (expected the number of graphs on the first line)",
            ));
        }
    };
    let mut parsed = Parsed { first_node: vec![0], ..Parsed::default() };
    for graph in 0..count {
        read_graph(&mut rows, path, &mut parsed, graph, count)?;
    }
    if let Some((line, row)) = rows.next()? {
        let expected = format!("the end of the file after {count} graphs");
        return Err(IngestError::line(path, line, expected, quoted(row)));
    }
    Ok(parsed.finish())
}

#[derive(Default)]
struct Parsed {
    first_node: Vec<u64>,
    labels: Vec<i64>,
    tags: Vec<i64>,
    edges: Vec<[u32; 2]>,
    /// Attributes per node; known after the first node.
    attributes: Option<usize>,
    values: Vec<f32>,
}

fn read_graph(
    rows: &mut Rows,
    path: &Path,
    parsed: &mut Parsed,
    graph: u64,
    count: u64,
) -> Result<()> {
    let Some((line, row)) = rows.next()? else {
        let what = format!("ends after {graph} graphs (expected {count}, as its first line says)");
        return Err(IngestError::file(path, what));
    };
    let fields: Vec<&[u8]> = split(row).collect();
    let [nodes, label] = fields[..] else {
        let found = format!("{}: {}", fields.len(), quoted(row));
        return Err(IngestError::line(path, line, "2 columns, nodes and label of a graph", found));
    };
    let first = parsed.tags.len() as u64;
    let nodes =
        integer_within(path, line, "a number of nodes", 1, u64::from(u32::MAX) - first, nodes)?;
    parsed.labels.push(integer(path, line, "an integer label of a graph", label)?);
    for node in 0..nodes {
        let Some((line, row)) = rows.next()? else {
            let what = format!("ends after {node} of the {nodes} nodes of graph {}", graph + 1);
            return Err(IngestError::file(path, what));
        };
        read_node(path, line, row, parsed, first, node, nodes)?;
    }
    parsed.first_node.push(parsed.tags.len() as u64);
    Ok(())
}

fn read_node(
    path: &Path,
    line: u64,
    row: &[u8],
    parsed: &mut Parsed,
    first: u64,
    node: u64,
    nodes: u64,
) -> Result<()> {
    let mut fields = split(row);
    let short = || IngestError::line(path, line, "tag and degree of a node", quoted(row));
    let tag = integer(path, line, "an integer tag", fields.next().ok_or_else(short)?)?;
    let degree = fields.next().ok_or_else(short)?;
    let degree = integer_within(path, line, "a degree", 0, u64::from(u32::MAX), degree)?;
    for found in 0..degree {
        let Some(field) = fields.next() else {
            let expected = format!("{degree} neighbours, as the degree says");
            return Err(IngestError::line(
                path,
                line,
                expected,
                format!("{found}: {}", quoted(row)),
            ));
        };
        let neighbour = integer_within(path, line, "a neighbour", 0, nodes - 1, field)?;
        parsed.edges.push([(first + node) as u32, (first + neighbour) as u32]);
    }
    let before = parsed.values.len();
    for field in fields {
        parsed.values.push(finite(path, line, field)?);
    }
    let count = parsed.values.len() - before;
    let expected = *parsed.attributes.get_or_insert(count);
    if count != expected {
        let expected = format!("{expected} attributes after the neighbours, as for the first node");
        return Err(IngestError::line(path, line, expected, format!("{count}: {}", quoted(row))));
    }
    parsed.tags.push(tag);
    Ok(())
}

impl Parsed {
    fn finish(self) -> Dgcnn {
        let (tags, of) = classes_of(&self.tags);
        let mut features = FeatureTable::default();
        features.add_hot(tags.len(), &of);
        features.add_plain(self.attributes.unwrap_or(0), &self.values);
        let (classes, labels) = classes_of(&self.labels);
        let graphs = Graphs {
            ids: (0..labels.len()).map(|graph| graph.to_string()).collect(),
            first_node: self.first_node,
            classes: classes.iter().map(i64::to_string).collect(),
            labels: labels.iter().map(|&class| class as i32).collect(),
            numbers: Vec::new(),
            splits: Vec::new(),
        };
        let collection = Collection {
            nodes: self.tags.len() as u64,
            edges: self.edges,
            features,
            graphs: Some(graphs),
            ..Collection::default()
        };
        Dgcnn { collection, tags }
    }
}

/// The lines, without blank ones.
struct Rows {
    lines: Lines,
    row: Vec<u8>,
}

impl Rows {
    fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        while let Some((number, line)) = self.lines.next()? {
            if !line.iter().all(u8::is_ascii_whitespace) {
                self.row.clear();
                self.row.extend_from_slice(line);
                return Ok(Some((number, &self.row)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::tu::tests::shared;

    fn parse(bytes: &[u8]) -> Result<Dgcnn> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.txt");
        std::fs::write(&path, bytes).unwrap();
        read(&path)
    }

    fn message(text: &str) -> String {
        let error = parse(text.as_bytes()).unwrap_err().to_string();
        error[error.find("t.txt").unwrap()..].to_owned()
    }

    #[test]
    fn a_small_set_is_read_whole() {
        let set = parse(b"2\n3 1\n5 1 1 0.5\n4 2 0 2 1\n5 1 1 2\n1 -1\n9 1 0 3\n\n").unwrap();
        assert_eq!(set.tags, [4, 5, 9]);
        assert_eq!(set.collection.edges, [[0, 1], [1, 0], [1, 2], [2, 1], [3, 3]]);
        let graphs = set.collection.graphs.unwrap();
        assert_eq!((&graphs.first_node[..], &graphs.labels[..]), (&[0, 3, 4][..], &[1, 0][..]));
        assert_eq!(graphs.classes, ["-1", "1"]);
        let mut rows = [0.0; 16];
        set.collection.features.fill(0, &mut rows);
        assert_eq!(rows[..8], [0.0, 1.0, 0.0, 0.5, 1.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn malformed_files_are_reported() {
        let cases = [
            ("", "t.txt: empty (expected the number of graphs on the first line)"),
            ("many\n", "t.txt:1: expected a number of graphs from 1 to 4294967295, found \"many\""),
            ("0\n", "t.txt:1: expected a number of graphs from 1 to 4294967295, found \"0\""),
            ("2\n1 0\n0 0\n", "t.txt: ends after 1 graphs (expected 2, as its first line says)"),
            ("1\n2 0\n0 0\n", "t.txt: ends after 1 of the 2 nodes of graph 1"),
            (
                "1\n1 0\n0 0\n7 7\n",
                "t.txt:4: expected the end of the file after 1 graphs, found \"7 7\"",
            ),
            ("1\n1\n", "t.txt:2: expected 2 columns, nodes and label of a graph, found 1: \"1\""),
            ("1\n0 1\n", "t.txt:2: expected a number of nodes from 1 to 4294967295, found \"0\""),
            ("1\n1 x\n", "t.txt:2: expected an integer label of a graph, found \"x\""),
            ("1\n1 0\n3\n", "t.txt:3: expected tag and degree of a node, found \"3\""),
            ("1\n1 0\na 0\n", "t.txt:3: expected an integer tag, found \"a\""),
            (
                "1\n2 0\n3 2 1\n",
                "t.txt:3: expected 2 neighbours, as the degree says, found 1: \"3 2 1\"",
            ),
            ("1\n2 0\n3 1 2\n", "t.txt:3: expected a neighbour from 0 to 1, found \"2\""),
            ("1\n1 0\n3 0 inf\n", "t.txt:3: expected a finite number, found \"inf\""),
            (
                "1\n2 0\n3 0 1\n3 0\n",
                "t.txt:4: expected 1 attributes after the neighbours, as for the first node, found \
                 0: \"3 0\"",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(message(text), expected);
        }
    }

    #[test]
    fn the_real_set_has_its_counts() {
        let Some(path) = shared("dgcnn/PTC.txt") else { return };
        let set = read(&path).unwrap();
        assert_eq!(set.collection.graphs.unwrap().labels.len(), 344);
        assert_eq!(set.tags.len(), 19);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..300),
            prop::collection::vec(prop::sample::select(b"0012349 \n-.".to_vec()), 0..300),
        ]) {
            let _ = parse(&bytes);
            let _ = parse(&[b"4000000000\n4000000000 1\n", &bytes[..]].concat());
        }
    }
}
