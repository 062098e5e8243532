//! Files about nodes: lists, features, labels, communities, splits.

use arrow_array::{Float32Array, Int64Array, StringArray};

use super::{Case, check_all, edges};
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
    let list =
        |name, message, text: &str| path(name, "--nodes-file n.txt", message).file("n.txt", text);
    check_all(&[
        list(
            "a node that is not listed",
            "e.txt:2: expected a node of n.txt, found \"2\"",
            "0\n1\n",
        ),
        list(
            "a node listed twice",
            "n.txt:4: expected each node once, found \"1\" again",
            "0\n1\n2\n1\n",
        ),
        list("an empty list", "n.txt: no node ids (expected one per line)", "# none\n"),
        path(
            "a listed id that is no integer",
            "--nodes-file n.txt --ids integer",
            "n.txt:3: expected an integer id from 0 to 18446744073709551615 (pass --ids string if ids are \
             text), found \"x\"",
        )
        .file("n.txt", "0\n1\nx\n"),
        path(
            "no list",
            "--nodes-file n.txt",
            "n.txt: cannot open: No such file or directory (os error 2)",
        ),
        words(
            "a word that is not listed",
            "--nodes-file n.txt",
            "e.txt:2: expected a node of n.txt, found \"cleo\"",
        )
        .file("n.txt", "bob\nann\n"),
        words(
            "a word that is nearly listed",
            "--nodes-file n.txt",
            "e.txt:2: expected a node of n.txt, did you mean \"cloe\"?, found \"cleo\"",
        )
        .file("n.txt", "bob\nann\ncloe\n"),
        words(
            "a count of words",
            "--nodes 7",
            "e.txt: --nodes counts integer ids, but the ids are text: list the nodes with \
             --nodes-file, or insist on integers with --ids integer",
        ),
        path(
            "an id beyond the count",
            "--nodes 2",
            "e.txt:2: expected a node id below 2, as --nodes says, found \"2\"",
        ),
        path(
            "more nodes than 32 bits",
            "--nodes 4294967296",
            "e.txt: the graph has 4294967296 nodes (at most 4294967295 are supported)",
        ),
        edges(
            "a matrix beyond the count",
            "e.mtx --nodes 2",
            "e.mtx: 3 nodes (expected at most 2, as --nodes says)",
        )
        .file("e.mtx", "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2\n"),
        path(
            "more features than nodes",
            "--nodes 3 --features x.npy",
            "x.npy: 4 rows, but the graph has 3 nodes",
        )
        .file("x.npy", npy_floats(1, &[1.0, 2.0, 3.0, 4.0])),
    ]);
}

#[test]
fn features() {
    let csv =
        |name, message, text: &str| path(name, "--features x.csv", message).file("x.csv", text);
    let array = |name, message, bytes: Vec<u8>| {
        path(name, "--features x.npy", message).file("x.npy", bytes)
    };
    let archive = |name, message, bytes: Vec<u8>| {
        path(name, "--features x.npz", message).file("x.npz", bytes)
    };
    let table = |name, message, columns| {
        path(name, "--features x.parquet", message).file("x.parquet", parquet(columns))
    };
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
    check_all(&[
        csv(
            "NaN in a table",
            "x.csv:3: expected a finite number in column \"a\", found \"nan\"",
            "node,a,b\n0,1,2\n1,nan,2\n2,1,2\n",
        ),
        csv(
            "infinity in a table",
            "x.csv:3: expected a finite number in column \"b\", found \"inf\"",
            "node,a,b\n0,1,2\n1,1,inf\n2,1,2\n",
        ),
        csv(
            "a word in a table",
            "x.csv:3: expected a number in column \"b\", found \"red\"",
            "node,a,b\n0,1,2\n1,1,red\n2,1,2\n",
        ),
        csv(
            "an empty cell",
            "x.csv:3: expected a number in column \"a\", found an empty cell",
            "node,a,b\n0,1,2\n1,,2\n2,1,2\n",
        ),
        csv(
            "a missing column",
            "x.csv:3: expected 3 columns, found 2: \"1,2\"",
            "node,a,b\n0,1,2\n1,2\n2,1,2\n",
        ),
        csv(
            "a node without features",
            "x.csv: no features for 1 of 3 nodes (the first is node 1): pass --missing-features \
             zero to give them zeros",
            "node,a,b\n0,1,2\n2,1,2\n",
        ),
        csv(
            "an unknown node",
            "x.csv:5: expected the id of a node of the graph, found \"7\" (unknown: if it is a \
             node without edges, list all nodes with --nodes-file)",
            "node,a,b\n0,1,2\n1,1,2\n2,1,2\n7,1,2\n",
        ),
        csv(
            "a node twice",
            "x.csv:4: expected each node once, found \"1\" again (first on line 3)",
            "node,a,b\n0,1,2\n1,1,2\n1,3,4\n2,1,2\n",
        ),
        csv(
            "no feature",
            "x.csv: no feature columns (expected columns like node,f0,f1)",
            "node\n0\n1\n2\n",
        ),
        csv("an empty table", "x.csv: no rows (expected one line per node)", ""),
        array(
            "NaN in an array",
            "x.npy: row 1, column 1 (counting from 0): expected a finite number, found NaN",
            with(3, f32::NAN),
        ),
        array(
            "infinity in an array",
            "x.npy: row 2, column 0 (counting from 0): expected a finite number, found -inf",
            with(4, f32::NEG_INFINITY),
        ),
        array(
            "too few rows",
            "x.npy: 2 rows, but the graph has 3 nodes (row r belongs to node id r; pass \
             --missing-features zero to give the others zeros)",
            npy_floats(2, &good[..4]),
        ),
        path(
            "too many rows",
            "--features x.npy --nodes-file n.txt",
            "x.npy: 4 rows, but the graph has 3 nodes",
        )
        .file("n.txt", "0\n1\n2\n")
        .file("x.npy", npy_floats(2, &[&good[..], &good[..2]].concat())),
        array(
            "three dimensions",
            "x.npy: array of 3 dimensions (expected 2)",
            npy("<f4", "(1, 2, 3)", &[0; 24]),
        ),
        array(
            "objects",
            "x.npy: array of Python objects: save it with a numeric dtype, for example \
             numpy.save(FILE, array.astype(\"float32\"))",
            npy("|O", "(3,)", &[0; 24]),
        ),
        array(
            "complex numbers",
            "x.npy: array of dtype '<c8' (expected f4, f8, i1 to i8, u1 to u8 or bool): save it \
             with one of these",
            npy("<c8", "(3, 1)", &[0; 24]),
        ),
        array(
            "a truncated array",
            "x.npy: 20 bytes of data, but shape (3, 2) of '<f4' needs 24: truncated or damaged",
            cut,
        ),
        array(
            "text with the name of an array",
            "x.npy: not a NumPy array file: it begins with \"node,a\"",
            b"node,a\n0,1\n".to_vec(),
        ),
        archive(
            "objects in an archive",
            "x.npz:x: array of Python objects: save it with a numeric dtype, for example \
             numpy.save(FILE, array.astype(\"float32\"))",
            npz(&[("x", npy("|O", "(3, 2)", &[0; 48]))]),
        ),
        archive(
            "several arrays",
            "x.npz: expected one array, or a sparse matrix saved by scipy.sparse.save_npz; found 2 \
             arrays: x, y; save only the features as .npy",
            npz(&[("x", npy_floats(2, &good)), ("y", npy_floats(2, &good))]),
        ),
        archive(
            "no archive",
            "x.npz: not a NumPy archive: no directory at its end: truncated, or not a zip archive",
            b"PK\x03\x04 no".to_vec(),
        ),
        table(
            "NaN in Parquet",
            "x.parquet: row 1 (counting from 0): expected a finite number in column \"a\", found \
             \"NaN\"",
            vec![("node", integers(&[0, 1, 2])), ("a", floats(&[1.0, f32::NAN, 2.0]))],
        ),
        table(
            "words in Parquet",
            "x.parquet: row 0 (counting from 0): expected a number in column \"a\", found \"x\"",
            vec![("node", integers(&[0, 1, 2])), ("a", column::<StringArray>(vec!["x", "y", "z"]))],
        ),
        table(
            "Parquet without ids, too few rows",
            "x.parquet: 2 rows, but the graph has 3 nodes (row r belongs to node id r; pass \
             --missing-features zero to give the others zeros)",
            vec![("a", floats(&[1.0, 2.0]))],
        ),
        path(
            "an entry outside",
            "--features x.mtx",
            "x.mtx:3: expected a column from 1 to 2, found \"1 3 1\"",
        )
        .file("x.mtx", format!("{mtx}3 2 1\n1 3 1\n")),
        path(
            "an entry that is NaN",
            "--features x.mtx",
            "x.mtx:3: expected a finite value, found \"1 2 nan\"",
        )
        .file("x.mtx", format!("{mtx}3 2 1\n1 2 nan\n")),
        words(
            "rows without ids for words",
            "--features x.npy",
            "x.npy: rows without node ids, but the ids of the graph are text: give the features as \
             CSV or Parquet with a column \"node\"",
        )
        .file("x.npy", npy_floats(2, &good)),
        path(
            "no feature file",
            "--features x.npy",
            "x.npy: cannot open: No such file or directory (os error 2)",
        ),
        path(
            "a directory of features",
            "--features x",
            "x: not a regular file (found a directory, expected a file)",
        )
        .file("x/y", ""),
    ]);
}

#[test]
fn labels_and_communities() {
    let labels =
        |name, message, text: &str| path(name, "--labels y.csv", message).file("y.csv", text);
    let communities =
        |name, message, text: &str| path(name, "--communities c.txt", message).file("c.txt", text);
    check_all(&[
        labels(
            "a label for an unknown node",
            "y.csv:3: expected the id of a node of the graph, found \"3\" (unknown: if it is a \
             node without edges, list all nodes with --nodes-file)",
            "node,label\n0,red\n3,blue\n",
        ),
        labels(
            "a label for a negative node",
            "y.csv:3: expected the id of a node of the graph, found \"-1\" (unknown: if it is a \
             node without edges, list all nodes with --nodes-file)",
            "node,label\n0,red\n-1,blue\n",
        ),
        labels(
            "a missing label",
            "y.csv:3: expected 2 columns, found 1: \"1\"",
            "node,label\n0,red\n1\n",
        ),
        labels(
            "no labels at all",
            "y.csv: no labels: column \"label\" is empty",
            "node,label\n0,\n1,\n",
        ),
        labels("an empty file", "y.csv: no rows (expected one line per node)", ""),
        labels(
            "too many columns",
            "y.csv: no column of labels (found: 3 columns without a header; expected two columns, \
             node and label, or a header with a column named \"label\", \"class\" or \"y\")",
            "0,red,1\n1,blue,2\n",
        ),
        words(
            "a header that is not recognised",
            "--labels y.csv",
            "y.csv:1: expected the id of a node of the graph (or a header with a column named \
             \"node\", \"id\" or \"node_id\"), found \"person\" (unknown: if it is a \
             node without edges, list all nodes with --nodes-file)",
        )
        .file("y.csv", "person,team\nann,red\n"),
        path(
            "Parquet without a node",
            "--labels y.parquet",
            "y.parquet: no column named \"node\", \"id\" or \"node_id\" (found: \"class, x\")",
        )
        .file(
            "y.parquet",
            parquet(vec![
                ("class", column::<Int64Array>(vec![1, 2])),
                ("x", column::<Int64Array>(vec![1, 2])),
            ]),
        ),
        communities(
            "an unknown member",
            "c.txt:2: expected ids of nodes of the graph, found \"9\" (unknown: if it is a \
             node without edges, list all nodes with --nodes-file)",
            "0 1\n1 9\n",
        ),
        communities(
            "no community",
            "c.txt: no communities (expected one per line: the ids of its members)",
            "# none\n",
        ),
        path(
            "none large enough",
            "--communities c.txt --communities-larger-than 5",
            "c.txt: no community has more than 5 members (the largest has 2)",
        )
        .file("c.txt", "0 1\n"),
        path(
            "none of the largest",
            "--communities c.txt --communities-top 0",
            "--communities-top 0: expected at least 1",
        )
        .file("c.txt", "0 1\n"),
        path(
            "no label file",
            "--labels y.csv",
            "y.csv: cannot open: No such file or directory (os error 2)",
        ),
        path(
            "no community file",
            "--communities c.txt",
            "c.txt: cannot open: No such file or directory (os error 2)",
        ),
    ]);
}

#[test]
fn splits() {
    let splits =
        |name, message, text: &str| path(name, "--splits s.csv", message).file("s.csv", text);
    let draw = |name, message, spec: &str| path(name, &format!("--split {spec}"), message);
    check_all(&[
        splits(
            "a node twice",
            "s.csv:4: expected each node once, found \"0\" again (first on line 2)",
            "node,split\n0,train\n1,test\n0,test\n",
        ),
        splits(
            "an unknown node",
            "s.csv:3: expected the id of a node of the graph, found \"5\" (unknown: if it is a \
             node without edges, list all nodes with --nodes-file)",
            "node,split\n0,train\n5,test\n",
        ),
        splits("no part", "s.csv:2: expected 2 columns, found 1: \"0\"", "node,split\n0\n"),
        splits(
            "no columns",
            "s.csv: expected at least two columns, node and split; found 1",
            "0\n1\n",
        ),
        splits(
            "two splits of one name",
            "s.csv: two columns named \"a\" (expected a name of its own for each)",
            "node,a,a\n0,train,test\n",
        ),
        splits("a split without nodes", "s.csv: split \"b\" has no nodes", "node,a,b\n0,train,\n"),
        path(
            "no split file",
            "--splits s.csv",
            "s.csv: cannot open: No such file or directory (os error 2)",
        ),
        draw(
            "no share",
            "split \"train\": \"train\" is not PART=SHARE (expected a split like \
             [NAME:]train=0.06,val=500,test=rest)",
            "train",
        ),
        draw(
            "a share that is a word",
            "split \"train=most\": \"most\" is not a fraction between 0.0 and 1.0, a count or \
             \"rest\" (expected a split like [NAME:]train=0.06,val=500,test=rest)",
            "train=most",
        ),
        draw(
            "a share above 1",
            "split \"train=1.5\": \"1.5\" is not a fraction between 0.0 and 1.0, a count or \
             \"rest\" (expected a split like [NAME:]train=0.06,val=500,test=rest)",
            "train=1.5",
        ),
        draw(
            "shares above 1 together",
            "split \"train=0.7,test=0.6\": the fractions sum to 1.3000, more than 1 (expected a \
             split like [NAME:]train=0.06,val=500,test=rest)",
            "train=0.7,test=0.6",
        ),
        draw(
            "a negative share",
            "split \"train=-0.1\": \"-0.1\" is not a fraction between 0.0 and 1.0, a count or \
             \"rest\" (expected a split like [NAME:]train=0.06,val=500,test=rest)",
            "train=-0.1",
        ),
        draw(
            "more nodes than there are",
            "split \"train=2,test=2\": the parts need 4 nodes, but there are 3 nodes (expected a \
             split like [NAME:]train=0.06,val=500,test=rest)",
            "train=2,test=2",
        ),
        draw(
            "an empty part",
            "split \"train=0.01,test=rest\": part \"train\" would be empty: there are 3 nodes \
             (expected a split like [NAME:]train=0.06,val=500,test=rest)",
            "train=0.01,test=rest",
        ),
        draw(
            "a part twice",
            "split \"train=0.1,train=0.2\": part \"train\" is given twice (expected a split like \
             [NAME:]train=0.06,val=500,test=rest)",
            "train=0.1,train=0.2",
        ),
        draw(
            "a bad name",
            "split \"../x:train=0.5\": name \"../x\" is not at most 64 letters, digits, '-', '_' \
             and '.' (expected a split like [NAME:]train=0.06,val=500,test=rest)",
            "../x:train=0.5",
        ),
        path(
            "two drawn splits of one name",
            "--split train=0.5 --split train=0.3",
            "split \"train=0.3\": a second split named \"default\": name them, as in a:train=0.05 \
             b:train=0.06 (expected a split like [NAME:]train=0.06,val=500,test=rest)",
        ),
        path(
            "a drawn split of a name from a file",
            "--splits s.csv --split train=0.5",
            "s.csv: two splits named \"default\": rename one of them, with --split \
             other:train=0.06 or by the name of its column",
        )
        .file("s.csv", "node,split\n0,train\n1,test\n"),
    ]);
}
