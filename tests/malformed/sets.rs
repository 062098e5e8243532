//! Data sets of many graphs.

use super::{Case, case, judge};
use crate::raw::{npy, npy_floats};

fn tu(name: &'static str, message: &'static str) -> Case {
    case(name, "ingest tu T --out d", message)
        .file("T/T_graph_indicator.txt", "1\n1\n2\n2\n")
        .file("T/T_A.txt", "1, 2\n2, 1\n3, 4\n4, 3\n")
        .file("T/T_graph_labels.txt", "1\n-1\n")
}

#[test]
fn tu_sets() {
    judge(&[
        tu("an edge between graphs", "?").file("T/T_A.txt", "1, 2\n2, 3\n"),
        tu("a node that is not there", "?").file("T/T_A.txt", "1, 2\n2, 5\n"),
        tu("too few graph labels", "?").file("T/T_graph_labels.txt", "1\n"),
        tu("too few node labels", "?").file("T/T_node_labels.txt", "1\n2\n3\n"),
        tu("an attribute that is NaN", "?").file("T/T_node_attributes.txt", "1\n2\nnan\n4\n"),
        tu("graphs out of order", "?").file("T/T_graph_indicator.txt", "1\n2\n1\n2\n"),
        case("no files", "ingest tu T --out d", "?").file("T/readme.txt", ""),
        case("one file of three", "ingest tu T --out d", "?").file("T/T_A.txt", "1, 2\n"),
        case("no directory", "ingest tu T --out d", "?"),
        case("a file for a directory", "ingest tu T --out d", "?").file("T", ""),
    ]);
}

#[test]
fn dgcnn_sets() {
    let set = |name, message, text: &str| case(name, "ingest dgcnn s.txt --out d", message).file("s.txt", text);
    judge(&[
        set("an empty file", "?", ""),
        set("a file that ends early", "?", "2\n2 1\n0 1 1\n0 1 0\n2 1\n0 1 1\n"),
        set("a file that goes on", "?", "1\n2 1\n0 1 1\n0 1 0\n2 1\n"),
        set("a neighbour that is not there", "?", "1\n2 1\n0 1 5\n0 1 0\n"),
        set("a wrong degree", "?", "1\n2 1\n0 2 1\n0 1 0\n"),
        set("letters", "?", "1\n2 1\n0 1 x\n0 1 0\n"),
        case("no file", "ingest dgcnn s.txt --out d", "?"),
        case("a directory", "ingest dgcnn s --out d", "?").file("s/t", ""),
    ]);
}

#[test]
fn graphsage_sets() {
    let graph = r#"{"directed": false, "graph": {}, "nodes": [{"id": 0, "test": false, "val": false}, {"id": 1, "test": false, "val": false}], "links": [{"source": 0, "target": 1}]}"#;
    let set = |name, message| {
        case(name, "ingest graphsage p --out d", message)
            .file("p/p-G.json", graph)
            .file("p/p-feats.npy", npy_floats(1, &[1.0, 2.0]))
            .file("p/p-class_map.json", r#"{"0": [1, 0], "1": [0, 1]}"#)
            .file("p/p-id_map.json", r#"{"0": 0, "1": 1}"#)
    };
    judge(&[
        set("a graph cut short", "?").file("p/p-G.json", &graph[..100]),
        set("a link to nowhere", "?").file("p/p-G.json", graph.replace("\"target\": 1", "\"target\": 7")),
        set("too few features", "?").file("p/p-feats.npy", npy_floats(1, &[1.0])),
        set("features that are objects", "?").file("p/p-feats.npy", npy("|O", "(2, 1)", &[0; 16])),
        set("a label for nobody", "?").file("p/p-class_map.json", r#"{"0": [1, 0], "x": [0, 1]}"#),
        set("labels of different lengths", "?").file("p/p-class_map.json", r#"{"0": [1, 0], "1": [0]}"#),
        case("no files", "ingest graphsage p --out d", "?").file("p/readme", ""),
        case("no directory", "ingest graphsage p --out d", "?"),
    ]);
}
