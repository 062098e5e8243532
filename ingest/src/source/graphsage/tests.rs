//! Both formats, sound and malformed.

use proptest::prelude::*;

use super::*;

/// A `.npy` file of 64-bit numbers, as NumPy writes it.
fn npy(dtype: &str, order: &str, shape: &str, words: &[[u8; 8]]) -> Vec<u8> {
    let header = format!("{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), words.as_flattened()].concat()
}

fn floats(shape: &str, values: &[f64]) -> Vec<u8> {
    npy("<f8", "False", shape, &values.iter().map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

fn integers(shape: &str, values: &[i64]) -> Vec<u8> {
    npy("<i8", "False", shape, &values.iter().map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

fn graph(nodes: usize, links: &[[usize; 2]]) -> Vec<u8> {
    let nodes: Vec<_> = (0..nodes).map(|id| format!("{{\"id\": {id}}}")).collect();
    let links: Vec<_> =
        links.iter().map(|[u, v]| format!("{{\"source\": {u}, \"target\": {v}}}")).collect();
    format!("{{\"nodes\": [{}], \"links\": [{}]}}", nodes.join(", "), links.join(", ")).into_bytes()
}

type Files<'a> = &'a [(&'a str, Vec<u8>)];

fn directory(files: Files) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// Train: graphs 1 (two nodes) and 2 (one), validation: graph 3, test: graph 5; two features, three
/// classes.
fn parts(changed: Files) -> tempfile::TempDir {
    let dir = directory(&[
        ("train_graph.json", graph(3, &[[0, 1], [1, 0], [2, 2]])),
        ("train_feats.npy", floats("(3, 2)", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("train_labels.npy", integers("(3, 3)", &[1, 0, 1, 0, 0, 0, 0, 1, 0])),
        ("train_graph_id.npy", integers("(3,)", &[1, 1, 2])),
        ("valid_graph.json", graph(1, &[])),
        (
            "valid_feats.npy",
            npy("<f8", "True", "(1, 2)", &[7f64.to_le_bytes(), 8f64.to_le_bytes()]),
        ),
        ("valid_labels.npy", integers("(1, 3)", &[1, 1, 1])),
        ("valid_graph_id.npy", integers("(1,)", &[3])),
        ("test_graph.json", graph(2, &[[1, 0]])),
        ("test_feats.npy", floats("(2, 2)", &[0.0; 4])),
        ("test_labels.npy", integers("(2, 3)", &[0; 6])),
        ("test_graph_id.npy", integers("(2,)", &[5, 5])),
    ]);
    for (name, bytes) in changed {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// Nodes "b" (row 1, test), "a" (row 0, no marks), "c" (row 2, val).
fn one(changed: Files) -> tempfile::TempDir {
    let nodes = r#"{"id": "b", "val": false, "test": true}, {"id": "a", "feature": [1]},
        {"id": "c", "val": true, "test": false}"#;
    let dir = directory(&[
        (
            "p-G.json",
            format!(r#"{{"nodes": [{nodes}], "links": [{{"source": 0, "target": 2}}]}}"#).into(),
        ),
        ("p-id_map.json", br#"{"a": 0, "b": 1, "c": 2}"#.to_vec()),
        ("p-class_map.json", br#"{"a": [0, 1], "b": [1, 1], "c": [0, 0]}"#.to_vec()),
        ("p-feats.npy", floats("(3, 1)", &[1.0, 2.0, 3.0])),
    ]);
    for (name, bytes) in changed {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn message(dir: &tempfile::TempDir) -> String {
    let error = read(dir.path()).unwrap_err().to_string();
    error.strip_prefix(&format!("{}/", dir.path().display())).unwrap_or(&error).to_owned()
}

#[test]
fn parts_are_joined_in_order() {
    let set = read(parts(&[]).path()).unwrap().collection;
    assert_eq!(set.nodes, 6);
    assert_eq!(set.edges, [[0, 1], [1, 0], [2, 2], [5, 4]]);
    assert_eq!(
        (set.features.plain_columns, &set.features.plain[4..8]),
        (2, &[5.0, 6.0, 7.0, 8.0][..])
    );
    let graphs = set.graphs.unwrap();
    assert_eq!(
        (graphs.ids, graphs.first_node),
        (["1", "2", "3", "5"].map(String::from).into(), vec![0, 2, 3, 4, 6])
    );
    assert_eq!(
        (&graphs.splits[0].of[..], &set.splits[0].of[..]),
        (&[0, 0, 1, 2][..], &[0, 0, 0, 1, 2, 2][..])
    );
    let Some(Labels::Multi { classes, offsets, of, labelled }) = set.labels else { panic!() };
    // A row of zeros is a label: the node has no class.
    assert_eq!(labelled, [true; 6]);
    assert_eq!(
        (classes.len(), offsets, of),
        (3, vec![0, 2, 2, 3, 6, 6, 6], vec![0, 2, 1, 0, 1, 2])
    );
}

#[test]
fn one_graph_is_ordered_by_rows() {
    let set = read(one(&[]).path()).unwrap();
    assert_eq!(set.notes.len(), 2);
    let set = set.collection;
    assert_eq!(set.ids, Some(Ids::String { offsets: vec![0, 1, 2, 3], text: "abc".into() }));
    assert_eq!((set.edges, &set.splits[0].of[..]), (vec![[1, 2]], &[NO_PART, 2, 1][..]));
    let Some(Labels::Multi { offsets, of, labelled, .. }) = set.labels else { panic!() };
    assert_eq!((offsets, of, labelled), (vec![0, 1, 3, 3], vec![1, 0, 1], vec![true; 3]));
    let single = one(&[("p-class_map.json", br#"{"a": 7, "b": 3, "c": 7}"#.to_vec())]);
    let labels = read(single.path()).unwrap().collection.labels;
    assert_eq!(
        labels,
        Some(Labels::Single { classes: vec!["3".into(), "7".into()], of: vec![1, 0, 1] })
    );
}

#[test]
fn malformed_parts_are_reported() {
    let cases: [(&str, Vec<u8>, &str); 12] = [
        (
            "train_graph.json",
            graph(2, &[]),
            "train_graph.json: 2 nodes (expected 3, the rows of train_graph_id.npy)",
        ),
        (
            "train_graph.json",
            graph(3, &[[0, 2]]),
            "train_graph.json: a link between nodes 0 and 2 of graphs 1 and 2 (expected links \
             within a graph)",
        ),
        (
            "train_graph.json",
            graph(3, &[[0, 3]]),
            "train_graph.json: a link to 3 (expected a node id from 0 to 2)",
        ),
        (
            "test_graph.json",
            br#"{"nodes": [{"id": 0}, {"id": 2}], "links": []}"#.to_vec(),
            "test_graph.json: node id 2 (expected a row of test_graph_id.npy, 0 to 1)",
        ),
        (
            "valid_feats.npy",
            floats("(2, 2)", &[0.0; 4]),
            "valid_feats.npy: 2 rows (expected 1, as in valid_graph_id.npy)",
        ),
        (
            "valid_feats.npy",
            floats("(1, 3)", &[0.0; 3]),
            "valid_feats.npy: 3 columns (expected 2, as in train_feats.npy)",
        ),
        (
            "test_feats.npy",
            floats("(2, 2)", &[0.0, 1.0, f64::NAN, 0.0]),
            "test_feats.npy: NaN in row 1, column 0 (expected finite numbers)",
        ),
        (
            "test_labels.npy",
            integers("(2, 3)", &[0, 1, 0, 0, 2, 0]),
            "test_labels.npy: 2 in row 1, column 1 (expected 0 or 1)",
        ),
        (
            "valid_labels.npy",
            integers("(1, 2)", &[0, 1]),
            "valid_labels.npy: 2 columns (expected 3, as in train_labels.npy)",
        ),
        (
            "train_graph_id.npy",
            integers("(3, 1, 1)", &[1, 1, 2]),
            "train_graph_id.npy: array of 3 dimensions (expected 2)",
        ),
        (
            "test_graph_id.npy",
            integers("(2,)", &[5, 4]),
            "test_graph_id.npy: graph 4 after graph 5 in row 1 (expected the nodes of a graph to \
             be contiguous, and increasing numbers over train, valid and test)",
        ),
        (
            "valid_graph_id.npy",
            integers("(1,)", &[2]),
            "valid_graph_id.npy: graph 2 after graph 2 in row 0 (expected the nodes of a graph to \
             be contiguous, and increasing numbers over train, valid and test)",
        ),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(message(&parts(&[(name, bytes)])), expected);
    }
}

#[test]
fn malformed_maps_are_reported() {
    let cases: [(&str, Vec<u8>, &str); 8] = [
        (
            "p-id_map.json",
            br#"{"a": 0, "b": 1}"#.to_vec(),
            "p-id_map.json: no row for the node \"c\"",
        ),
        (
            "p-id_map.json",
            br#"{"a": 0, "b": 1, "c": 1}"#.to_vec(),
            "p-id_map.json: row 1 twice, the second time for the node \"c\"",
        ),
        (
            "p-id_map.json",
            br#"{"a": 0, "b": 9, "c": 1}"#.to_vec(),
            "p-id_map.json: row 9 for the node \"b\" (expected 0 to 2)",
        ),
        (
            "p-class_map.json",
            br#"{"a": 0, "b": 9}"#.to_vec(),
            "p-class_map.json: no class for the node \"c\"",
        ),
        (
            "p-class_map.json",
            br#"{"a": 0, "b": [1], "c": 1}"#.to_vec(),
            "p-class_map.json: a class for some nodes and a list for others (expected one of them)",
        ),
        (
            "p-class_map.json",
            br#"{"a": [2], "b": [1], "c": [1]}"#.to_vec(),
            "p-class_map.json: node \"a\": expected 1 marks of 0 or 1, found others",
        ),
        (
            "p-feats.npy",
            floats("(2, 1)", &[0.0; 2]),
            "p-feats.npy: 2 rows (expected 3, one per node of p-G.json)",
        ),
        ("q-G.json", vec![], "both p-G.json and q-G.json (expected one dataset per directory)"),
    ];
    for (name, bytes, expected) in cases {
        let found = message(&one(&[(name, bytes)]));
        assert!(found.ends_with(expected), "{found} // {expected}");
    }
    let found = message(&directory(&[]));
    assert!(found.ends_with(
        "neither train_graph.json nor PREFIX-G.json (expected a dataset in one of these formats)"
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn arbitrary_bytes_never_panic(
        file in 0usize..8,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        shape in prop::sample::select(vec![
            "(3, 2)", "(3,)", "(99999999999, 0)", "(0, 99999999999)", "(18446744073709551615, 9)",
        ]),
    ) {
        let names = ["train_graph.json", "train_feats.npy", "train_labels.npy", "train_graph_id.npy"];
        let maps = ["p-G.json", "p-id_map.json", "p-class_map.json", "p-feats.npy"];
        let shaped = npy("<i8", "False", shape, &[]);
        for content in [bytes.clone(), [&shaped[..], &bytes[..]].concat()] {
            let dir = match file {
                0..4 => parts(&[(names[file], content)]),
                _ => one(&[(maps[file - 4], content)]),
            };
            let _ = read(dir.path());
        }
    }
}
