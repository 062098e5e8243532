//! Files about nodes: lists, features, labels, communities, splits.

use arrow_array::{Float32Array, Int64Array, StringArray};

use super::{Case, edges, judge};
use crate::raw::{column, npy, npy_floats, npz, parquet};

/// The edges of a path 0 - 1 - 2, with more arguments.
fn path(name: &'static str, arguments: &str, message: &'static str) -> Case {
    edges(name, &format!("e.txt {arguments}"), message).file("e.txt", "0 1\n1 2\n")
}

/// The edges of a path ann - bob - cleo, with more arguments.
fn words(name: &'static str, arguments: &str, message: &'static str) -> Case {
    edges(name, &format!("e.txt {arguments}"), message).file("e.txt", "ann bob\nbob cleo\n")
}

#[test]
fn lists_of_nodes() {
    let list = |name, message, text: &str| path(name, "--nodes-file n.txt", message).file("n.txt", text);
    judge(&[
        list("a node that is not listed", "?", "0\n1\n"),
        list("a node listed twice", "?", "0\n1\n2\n1\n"),
        list("an empty list", "?", "# none\n"),
        path("a listed id that is no integer", "--nodes-file n.txt --ids integer", "?").file("n.txt", "0\n1\nx\n"),
        path("no list", "--nodes-file n.txt", "?"),
        words("a word that is not listed", "--nodes-file n.txt", "?").file("n.txt", "bob\nann\n"),
        words("a count of words", "--nodes 7", "?"),
        path("an id beyond the count", "--nodes 2", "?"),
    ]);
}

#[test]
fn features() {
    let csv = |name, message, text: &str| path(name, "--features x.csv", message).file("x.csv", text);
    let array = |name, message, bytes: Vec<u8>| path(name, "--features x.npy", message).file("x.npy", bytes);
    let archive = |name, message, bytes: Vec<u8>| path(name, "--features x.npz", message).file("x.npz", bytes);
    let table = |name, message, columns| path(name, "--features x.parquet", message).file("x.parquet", parquet(columns));
    let floats = |values: &[f32]| column::<Float32Array>(values.to_vec());
    let integers = |values: &[i64]| column::<Int64Array>(values.to_vec());
    let good = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let with = |place: usize, value: f32| {
        let mut values = good;
        values[place] = value;
        npy_floats(2, &values)
    };
    let mut cut = npy_floats(2, &good);
    cut.truncate(cut.len() - 4);
    let mtx = "%%MatrixMarket matrix coordinate real general\n";
    judge(&[
        csv("NaN in a table", "?", "node,a,b\n0,1,2\n1,nan,2\n2,1,2\n"),
        csv("infinity in a table", "?", "node,a,b\n0,1,2\n1,1,inf\n2,1,2\n"),
        csv("a word in a table", "?", "node,a,b\n0,1,2\n1,1,red\n2,1,2\n"),
        csv("an empty cell", "?", "node,a,b\n0,1,2\n1,,2\n2,1,2\n"),
        csv("a missing column", "?", "node,a,b\n0,1,2\n1,2\n2,1,2\n"),
        csv("a node without features", "?", "node,a,b\n0,1,2\n2,1,2\n"),
        csv("an unknown node", "?", "node,a,b\n0,1,2\n1,1,2\n2,1,2\n7,1,2\n"),
        csv("a node twice", "?", "node,a,b\n0,1,2\n1,1,2\n1,3,4\n2,1,2\n"),
        csv("no feature", "?", "node\n0\n1\n2\n"),
        csv("an empty table", "?", ""),
        array("NaN in an array", "?", with(3, f32::NAN)),
        array("infinity in an array", "?", with(4, f32::NEG_INFINITY)),
        array("too few rows", "?", npy_floats(2, &good[..4])),
        path("too many rows", "--features x.npy --nodes-file n.txt", "?")
            .file("n.txt", "0\n1\n2\n")
            .file("x.npy", npy_floats(2, &[&good[..], &good[..2]].concat())),
        array("three dimensions", "?", npy("<f4", "(1, 2, 3)", &[0; 24])),
        array("objects", "?", npy("|O", "(3,)", &[0; 24])),
        array("complex numbers", "?", npy("<c8", "(3, 1)", &[0; 24])),
        array("a truncated array", "?", cut),
        array("text with the name of an array", "?", b"node,a\n0,1\n".to_vec()),
        archive("objects in an archive", "?", npz(&[("x", npy("|O", "(3, 2)", &[0; 48]))])),
        archive("several arrays", "?", npz(&[("x", npy_floats(2, &good)), ("y", npy_floats(2, &good))])),
        archive("no archive", "?", b"PK\x03\x04 no".to_vec()),
        table("NaN in Parquet", "?", vec![("node", integers(&[0, 1, 2])), ("a", floats(&[1.0, f32::NAN, 2.0]))]),
        table(
            "words in Parquet",
            "?",
            vec![("node", integers(&[0, 1, 2])), ("a", column::<StringArray>(vec!["x", "y", "z"]))],
        ),
        table("Parquet without ids, too few rows", "?", vec![("a", floats(&[1.0, 2.0]))]),
        path("an entry outside", "--features x.mtx", "?").file("x.mtx", format!("{mtx}3 2 1\n1 3 1\n")),
        path("an entry that is NaN", "--features x.mtx", "?").file("x.mtx", format!("{mtx}3 2 1\n1 2 nan\n")),
        words("rows without ids for words", "--features x.npy", "?").file("x.npy", npy_floats(2, &good)),
        path("no feature file", "--features x.npy", "?"),
        path("a directory of features", "--features x", "?").file("x/y", ""),
    ]);
}

#[test]
fn labels_and_communities() {
    let labels = |name, message, text: &str| path(name, "--labels y.csv", message).file("y.csv", text);
    let communities = |name, message, text: &str| path(name, "--communities c.txt", message).file("c.txt", text);
    judge(&[
        labels("a label for an unknown node", "?", "node,label\n0,red\n3,blue\n"),
        labels("a label for a negative node", "?", "node,label\n0,red\n-1,blue\n"),
        labels("a missing label", "?", "node,label\n0,red\n1\n"),
        labels("no labels at all", "?", "node,label\n0,\n1,\n"),
        labels("an empty file", "?", ""),
        labels("too many columns", "?", "0,red,1\n1,blue,2\n"),
        path("Parquet without a node", "--labels y.parquet", "?").file(
            "y.parquet",
            parquet(vec![("class", column::<Int64Array>(vec![1, 2])), ("x", column::<Int64Array>(vec![1, 2]))]),
        ),
        communities("an unknown member", "?", "0 1\n1 9\n"),
        communities("no community", "?", "# none\n"),
        path("none large enough", "--communities c.txt --communities-larger-than 5", "?").file("c.txt", "0 1\n"),
        path("none of the largest", "--communities c.txt --communities-top 0", "?").file("c.txt", "0 1\n"),
        path("no label file", "--labels y.csv", "?"),
        path("no community file", "--communities c.txt", "?"),
    ]);
}

#[test]
fn splits() {
    let splits = |name, message, text: &str| path(name, "--splits s.csv", message).file("s.csv", text);
    let draw = |name, message, spec: &str| path(name, &format!("--split {spec}"), message);
    judge(&[
        splits("a node twice", "?", "node,split\n0,train\n1,test\n0,test\n"),
        splits("an unknown node", "?", "node,split\n0,train\n5,test\n"),
        splits("no part", "?", "node,split\n0\n"),
        splits("no columns", "?", "0\n1\n"),
        splits("two splits of one name", "?", "node,a,a\n0,train,test\n"),
        splits("a split without nodes", "?", "node,a,b\n0,train,\n"),
        path("no split file", "--splits s.csv", "?"),
        draw("no share", "?", "train"),
        draw("a share that is a word", "?", "train=most"),
        draw("a share above 1", "?", "train=1.5"),
        draw("shares above 1 together", "?", "train=0.7,test=0.6"),
        draw("a negative share", "?", "train=-0.1"),
        draw("more nodes than there are", "?", "train=2,test=2"),
        draw("an empty part", "?", "train=0.01,test=rest"),
        draw("a part twice", "?", "train=0.1,train=0.2"),
        draw("a bad name", "?", "../x:train=0.5"),
        path("two drawn splits of one name", "--split train=0.5 --split train=0.3", "?"),
        path("a drawn split of a name from a file", "--splits s.csv --split train=0.5", "?")
            .file("s.csv", "node,split\n0,train\n1,test\n"),
    ]);
}
