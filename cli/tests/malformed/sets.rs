//! Datasets of many graphs.

use super::{Case, case, check_all};
use crate::raw::{npy, npy_floats};

fn tu(name: &'static str, message: &'static str) -> Case {
    case(name, "ingest tu T --out d", message)
        .file("T/T_graph_indicator.txt", "1\n1\n2\n2\n")
        .file("T/T_A.txt", "1, 2\n2, 1\n3, 4\n4, 3\n")
        .file("T/T_graph_labels.txt", "1\n-1\n")
}

#[test]
fn tu_sets() {
    check_all(&[
        tu(
            "an edge between graphs",
            "T/T_A.txt:2: expected an edge within one graph, found nodes 2 and 3 of graphs 1 and 2",
        )
        .file("T/T_A.txt", "1, 2\n2, 3\n"),
        tu(
            "a node that is not there",
            "T/T_A.txt:2: expected a node number from 1 to 4, found \"5\"",
        )
        .file("T/T_A.txt", "1, 2\n2, 5\n"),
        tu(
            "too few graph labels",
            "T/T_graph_labels.txt: 1 lines (expected 2, one per graph of T_graph_indicator.txt)",
        )
        .file("T/T_graph_labels.txt", "1\n"),
        tu(
            "too few node labels",
            "T/T_node_labels.txt: 3 lines (expected 4, one per node of T_graph_indicator.txt)",
        )
        .file("T/T_node_labels.txt", "1\n2\n3\n"),
        tu(
            "an attribute that is NaN",
            "T/T_node_attributes.txt:3: expected a finite number, found \"nan\"",
        )
        .file("T/T_node_attributes.txt", "1\n2\nnan\n4\n"),
        tu(
            "graphs out of order",
            "T/T_graph_indicator.txt:3: expected graph number 2 or 3, found 1 (the nodes of a \
             graph must be contiguous)",
        )
        .file("T/T_graph_indicator.txt", "1\n2\n1\n2\n"),
        case("no files", "ingest tu T --out d", "T: no file NAME_A.txt (expected a TU dataset)")
            .file("T/readme.txt", ""),
        case(
            "one file of three",
            "ingest tu T --out d",
            "T/T_graph_indicator.txt: cannot open: No such file or directory (os error 2)",
        )
        .file("T/T_A.txt", "1, 2\n"),
        case(
            "no directory",
            "ingest tu T --out d",
            "T: cannot read: No such file or directory (os error 2)",
        ),
        case(
            "a file for a directory",
            "ingest tu T --out d",
            "T: cannot read: Not a directory (os error 20)",
        )
        .file("T", ""),
    ]);
}

#[test]
fn dgcnn_sets() {
    let set = |name, message, text: &str| {
        case(name, "ingest dgcnn s.txt --out d", message).file("s.txt", text)
    };
    check_all(&[
        set("an empty file", "s.txt: empty (expected the number of graphs on the first line)", ""),
        set(
            "a file that ends early",
            "s.txt: ends after 1 of the 2 nodes of graph 2",
            "2\n2 1\n0 1 1\n0 1 0\n2 1\n0 1 1\n",
        ),
        set(
            "a file that goes on",
            "s.txt:5: expected the end of the file after 1 graphs, found \"2 1\"",
            "1\n2 1\n0 1 1\n0 1 0\n2 1\n",
        ),
        set(
            "a neighbour that is not there",
            "s.txt:3: expected a neighbour from 0 to 1, found \"5\"",
            "1\n2 1\n0 1 5\n0 1 0\n",
        ),
        set(
            "a wrong degree",
            "s.txt:3: expected 2 neighbours, as the degree says, found 1: \"0 2 1\"",
            "1\n2 1\n0 2 1\n0 1 0\n",
        ),
        set(
            "letters",
            "s.txt:3: expected a neighbour from 0 to 1, found \"x\"",
            "1\n2 1\n0 1 x\n0 1 0\n",
        ),
        case(
            "no file",
            "ingest dgcnn s.txt --out d",
            "s.txt: cannot open: No such file or directory (os error 2)",
        ),
        case(
            "a directory",
            "ingest dgcnn s --out d",
            "s: not a regular file (found a directory, expected a file)",
        )
        .file("s/t", ""),
    ]);
}

#[test]
fn graphsage_sets() {
    let nodes =
        [0, 1].map(|id| format!(r#"{{"id": {id}, "test": false, "val": false}}"#)).join(",");
    let graph = format!(
        r#"{{"directed": false, "nodes": [{nodes}], "links": [{{"source": 0, "target": 1}}]}}"#
    );
    let set = |name, message| {
        case(name, "ingest graphsage p --out d", message)
            .file("p/p-G.json", graph.as_str())
            .file("p/p-feats.npy", npy_floats(1, &[1.0, 2.0]))
            .file("p/p-class_map.json", r#"{"0": [1, 0], "1": [0, 1]}"#)
            .file("p/p-id_map.json", r#"{"0": 0, "1": 1}"#)
    };
    check_all(&[
        set(
            "a graph cut short",
            "p/p-G.json:1: expected a graph in node-link JSON, found EOF while parsing a value at \
             column 100",
        )
        .file("p/p-G.json", &graph[..100]),
        set("a link to nowhere", "p/p-G.json: a link to 7 (expected a node id from 0 to 1)")
            .file("p/p-G.json", graph.replace("\"target\": 1", "\"target\": 7")),
        set("too few features", "p/p-feats.npy: 1 rows (expected 2, one per node of p-G.json)")
            .file("p/p-feats.npy", npy_floats(1, &[1.0])),
        set(
            "features that are objects",
            "p/p-feats.npy: array of Python objects: save it with a numeric dtype, for example \
             numpy.save(FILE, array.astype(\"float32\"))",
        )
        .file("p/p-feats.npy", npy("|O", "(2, 1)", &[0; 16])),
        set("a label for nobody", "p/p-class_map.json: no class for the node 1")
            .file("p/p-class_map.json", r#"{"0": [1, 0], "x": [0, 1]}"#),
        set(
            "labels of different lengths",
            "p/p-class_map.json: node 1: expected 2 marks of 0 or 1, found others",
        )
        .file("p/p-class_map.json", r#"{"0": [1, 0], "1": [0]}"#),
        case(
            "no files",
            "ingest graphsage p --out d",
            "p: neither train_graph.json nor PREFIX-G.json (expected a dataset in one of these \
             formats)",
        )
        .file("p/readme", ""),
        case(
            "no directory",
            "ingest graphsage p --out d",
            "p: cannot read: No such file or directory (os error 2)",
        ),
    ]);
}
