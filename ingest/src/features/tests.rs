//! Features go to a sink in memory, which asks for shards of odd sizes, from the last to the first.

use std::sync::Arc;

use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, ListArray};

use super::*;
use crate::context::Recorder;
use crate::nodes::Consecutive;
use crate::source::npy::tests::npy;
use crate::source::npz::tests::{npz, sparse};
use crate::source::table::tests::parquet;
use proptest::prelude::*;

/// Nodes in the reverse order of their integer ids.
struct Reversed(u64);

impl NodeLookup for Reversed {
    fn kind(&self) -> IdKind {
        IdKind::Integer
    }
    fn nodes(&self) -> u64 {
        self.0
    }
    fn find_integer(&self, id: u64) -> Result<Option<u32>> {
        Ok((id < self.0).then(|| (self.0 - 1 - id) as u32))
    }
    fn find_string(&self, _id: &str) -> Result<Option<u32>> {
        Ok(None)
    }
}

/// Nodes "a", "b", ...
struct Letters(u64);

impl NodeLookup for Letters {
    fn kind(&self) -> IdKind {
        IdKind::String
    }
    fn nodes(&self) -> u64 {
        self.0
    }
    fn find_integer(&self, _id: u64) -> Result<Option<u32>> {
        Ok(None)
    }
    fn find_string(&self, id: &str) -> Result<Option<u32>> {
        let letter =
            id.as_bytes().first().map_or(u64::MAX, |&letter| u64::from(letter.wrapping_sub(b'a')));
        Ok((id.len() == 1 && letter < self.0).then_some(letter as u32))
    }
}

#[derive(Default)]
struct Memory {
    scratch: PathBuf,
    nodes: u64,
    dense: Vec<f32>,
    sparse: SparseRows,
}

const SHARD: u64 = 3;

impl Sink for Memory {
    fn scratch(&self) -> PathBuf {
        self.scratch.clone()
    }

    fn add_dense(&mut self, columns: usize, fill: &DenseFill) -> Result<()> {
        self.dense = vec![f32::NAN; self.nodes as usize * columns];
        let shards = self.dense.chunks_mut(SHARD as usize * columns).enumerate();
        for (shard, out) in shards.rev() {
            fill(shard as u64 * SHARD, out)?;
        }
        Ok(())
    }

    fn add_sparse(&mut self, _columns: usize, rows: &SparseRead) -> Result<()> {
        self.sparse.offsets = vec![0];
        for first in (0..self.nodes).step_by(SHARD as usize) {
            let shard = rows(first, SHARD.min(self.nodes - first) as usize)?;
            let start = self.sparse.columns.len() as u64;
            self.sparse.offsets.extend(shard.offsets[1..].iter().map(|offset| start + offset));
            self.sparse.columns.extend(shard.columns);
            self.sparse.values.extend(shard.values);
        }
        Ok(())
    }
}

fn run(
    name: &str,
    bytes: &[u8],
    nodes: &dyn NodeLookup,
    missing_zero: bool,
    memory: u64,
) -> Result<(FeaturesSummary, Memory), String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let observer = Recorder::default();
    let context = Context { threads: 1, memory, seed: 0, observer: &observer };
    let mut sink = Memory { scratch: dir.path().into(), nodes: nodes.nodes(), ..Memory::default() };
    let job = Job { context: &context, nodes, path: &path, missing_zero };
    match job.run(&mut sink) {
        Ok(summary) => Ok((summary, sink)),
        Err(error) => Err(error.to_string().replace(&format!("{}/", dir.path().display()), "")),
    }
}

fn dense(name: &str, bytes: &[u8], nodes: &dyn NodeLookup) -> Vec<f32> {
    let all: Vec<_> =
        [1 << 30, 0].map(|memory| run(name, bytes, nodes, false, memory).unwrap().1.dense).into();
    assert_eq!(all[0], all[1]);
    all[0].clone()
}

fn message(name: &str, bytes: &[u8], nodes: &dyn NodeLookup) -> String {
    run(name, bytes, nodes, false, 1 << 20).map(|found| found.0).unwrap_err()
}

fn floats(rows: usize, columns: usize, values: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    npy("'<f4'", "False", &format!("({rows}, {columns})"), &data)
}

#[test]
fn arrays_by_position() {
    let values: Vec<f32> = (0..10).map(|v| v as f32).collect();
    let bytes = floats(5, 2, &values);
    assert_eq!(dense("x.npy", &bytes, &Consecutive(5)), values);
    assert_eq!(dense("x.npz", &npz(&[("x", bytes.clone())]), &Consecutive(5)), values);
    assert_eq!(
        dense("x", &bytes, &Reversed(5)),
        [8.0, 9.0, 6.0, 7.0, 4.0, 5.0, 2.0, 3.0, 0.0, 1.0]
    );
    let (summary, sink) =
        run("x.npy", &floats(1, 2, &[1.0, 2.0]), &Consecutive(4), true, 0).unwrap();
    let expected = FeaturesSummary { kind: FeatureKind::Dense, columns: 2, given: 1, missing: 3 };
    assert_eq!(summary, expected);
    assert_eq!(sink.dense, [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn tables_by_id() {
    let text = b"f0,NODE,f1\r\n5,c,6\r\n\"1\",a,2\r\n# x\r\n3, b ,4";
    assert_eq!(dense("x.csv", text, &Letters(3)), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(dense("x.txt", b"1 3e1\n0 4\n", &Consecutive(2)), [4.0, 30.0]);
    assert_eq!(dense("x.tsv", b"paper\tx\n1\t1\n0\t4\n", &Consecutive(2)), [4.0, 1.0]);
    let (summary, sink) = run("x.csv", b"node,x\n2,5\n", &Consecutive(3), true, 0).unwrap();
    assert_eq!((summary.given, summary.missing, sink.dense), (1, 2, vec![0.0, 0.0, 5.0]));
}

#[test]
fn parquet_by_id_by_row_and_as_lists() {
    let integers = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    let floats = |values: &[f64]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
    let lists = |rows: &[&[f32]]| {
        let rows =
            rows.iter().map(|row| Some(row.iter().map(|&value| Some(value)).collect::<Vec<_>>()));
        Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows)) as ArrayRef
    };
    let by_id = parquet(vec![
        ("f", floats(&[0.5, 1.5])),
        ("id", integers(&[1, 0])),
        ("g", integers(&[7, 8])),
    ]);
    assert_eq!(dense("x.parquet", &by_id, &Consecutive(2)), [1.5, 8.0, 0.5, 7.0]);
    let by_row = parquet(vec![("x", lists(&[&[1.0, 2.0], &[3.0, 4.0]]))]);
    assert_eq!(dense("x", &by_row, &Reversed(2)), [3.0, 4.0, 1.0, 2.0]);
    assert_eq!(
        message("x.parquet", &by_row, &Consecutive(1)),
        "x.parquet: 2 rows, but the graph has 1 nodes"
    );
    assert!(
        message("x.parquet", &by_row, &Consecutive(3))
            .starts_with("x.parquet: 2 rows, but the graph has 3 nodes")
    );
    assert!(
        message("x.parquet", &by_row, &Letters(2)).starts_with("x.parquet: rows without node ids")
    );
    let uneven = parquet(vec![("node", integers(&[0, 1])), ("x", lists(&[&[1.0, 2.0], &[3.0]]))]);
    assert_eq!(
        message("x.parquet", &uneven, &Consecutive(2)),
        "x.parquet: row 1 (counting from 0): expected 2 values, as in the first row, found 1"
    );
    let infinite = parquet(vec![("node", integers(&[0, 1])), ("x", floats(&[0.0, 1e300]))]);
    assert_eq!(
        message("x.parquet", &infinite, &Consecutive(2)),
        "x.parquet: row 1 (counting from 0): expected a finite number in column \"x\", found \
         \"1e300\""
    );
    let twice = parquet(vec![("node", integers(&[1, 1])), ("x", floats(&[0.0, 1.0]))]);
    assert_eq!(
        message("x.parquet", &twice, &Consecutive(2)),
        "x.parquet: row 1 (counting from 0): expected each node once, found \"1\" again (first in \
         row 0)"
    );
}

#[test]
fn sparse_formats_agree() {
    // Rows: {1: 2, 3: -1}, {}, {0: 4}, {0: 1, 2: 8}; with a repeated entry and zeros.
    let expected = SparseRows {
        offsets: vec![0, 2, 2, 3, 5],
        columns: vec![1, 3, 0, 0, 2],
        values: vec![2.0, -1.0, 4.0, 1.0, 8.0],
    };
    let mtx = b"%%MatrixMarket matrix coordinate real general\n4 4 8\n4 3 8\n1 4 -1\n3 1 4\n1 2 \
                0.5\n2 2 0\n1 2 1.5\n\
                4 1 1\n3 4 0\n";
    let csr = sparse(
        "csr",
        [4, 4],
        &[0, 3, 3, 5, 7],
        &[3, 1, 1, 0, 2, 2, 0],
        &[-1.0, 0.5, 1.5, 4.0, 0.0, 8.0, 1.0],
    );
    let csc = sparse(
        "csc",
        [4, 4],
        &[0, 2, 4, 5, 6],
        &[3, 2, 0, 0, 3, 0],
        &[1.0, 4.0, 1.0, 1.0, 8.0, -1.0],
    );
    let coo =
        sparse("coo", [4, 4], &[3, 0, 3, 2, 0], &[2, 1, 0, 0, 3], &[8.0, 2.0, 1.0, 4.0, -1.0]);
    for memory in [0, 1 << 30] {
        for (name, bytes) in
            [("x.mtx", &mtx[..]), ("r.npz", &csr), ("c.npz", &csc), ("o.npz", &coo)]
        {
            let (summary, sink) = run(name, bytes, &Consecutive(4), false, memory).unwrap();
            assert_eq!(sink.sparse, expected, "{name}");
            assert_eq!((summary.kind, summary.columns, summary.given), (FeatureKind::Sparse, 4, 4));
            let (_, sink) = run(name, bytes, &Reversed(4), false, memory).unwrap();
            assert_eq!(sink.sparse.offsets, [0, 2, 3, 3, 5], "{name}");
            assert_eq!(sink.sparse.columns, [0, 2, 0, 1, 3], "{name}");
        }
    }
    let symmetric = b"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n";
    let (_, sink) = run("x.mtx", symmetric, &Consecutive(3), false, 0).unwrap();
    assert_eq!((sink.sparse.offsets, sink.sparse.columns), (vec![0, 1, 2, 3], vec![1, 0, 2]));
}

#[test]
fn rows_by_position_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let count = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        rows_by_position(&path).unwrap()
    };
    assert_eq!(count("x.npy", &floats(5, 2, &[0.0; 10])), Some(5));
    assert_eq!(count("x.npz", &sparse("csr", [3, 4], &[0, 0, 0, 0], &[], &[])), Some(3));
    assert_eq!(count("x.mtx", b"%%MatrixMarket matrix coordinate real general\n7 4 0\n"), Some(7));
    assert_eq!(count("x.csv", b"node,x\n2,5\n"), None);
}

#[test]
fn malformed_files_have_exact_messages() {
    let nodes = &Consecutive(3);
    let array = |rows, value| floats(rows, 1, &vec![value; rows]);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("x.npy", array(4, 0.0), "x.npy: 4 rows, but the graph has 3 nodes"),
        (
            "x.npy",
            array(2, 0.0),
            "x.npy: 2 rows, but the graph has 3 nodes (row r belongs to node id r; pass \
             --missing-features zero to give the others zeros)",
        ),
        (
            "x.npy",
            floats(3, 2, &[0.0, 1.0, 2.0, f32::NAN, 3.0, 4.0]),
            "x.npy: row 1, column 1 (counting from 0): expected a finite number, found NaN",
        ),
        ("x.npy", floats(3, 0, &[]), "x.npy: no feature columns (expected at least 1)"),
        ("x.npy", b"node,x\n".to_vec(), "x.npy: not a NumPy array file: it begins with \"node,x\""),
        (
            "x.npy.gz",
            b"\x1f\x8b..".to_vec(),
            "x.npy.gz: a compressed NumPy file: decompress it first",
        ),
        (
            "x.mtx",
            b"%%MatrixMarket matrix coordinate real general\n4 1 0\n".to_vec(),
            "x.mtx: 4 rows, but the graph has 3 nodes",
        ),
        (
            "x.mtx",
            b"%%MatrixMarket matrix coordinate real general\n3 1 2\n2 1 3e38\n2 1 3e38\n".to_vec(),
            "x.mtx: the entries of node 1 in column 0 sum to more than a 32-bit float can \
             represent",
        ),
        (
            "x.npz",
            sparse("csr", [3, 1], &[0, 1, 1, 1], &[7], &[1.0]),
            "x.npz: entry at row 0, column 7, outside shape (3, 1)",
        ),
        (
            "x.npz",
            sparse("csr", [3, 1], &[0, 1, 0, 1], &[0], &[1.0]),
            "x.npz:indptr: element 2 is 0, below the previous one",
        ),
        (
            "x.npz",
            sparse("csr", [3, 1], &[0, 1, 1, 5], &[0], &[1.0]),
            "x.npz:indptr: offset 5, but there are 1 entries",
        ),
        (
            "x.npz",
            sparse("csr", [3, 1], &[0, 1, 1, 1], &[0], &[f32::INFINITY]),
            "x.npz: row 0, column 0 (counting from 0): expected a finite number, found inf",
        ),
        ("x.csv", b"".to_vec(), "x.csv: no rows (expected one line per node)"),
        (
            "x.csv",
            b"node,x\n0,1\n1,2\n0,3\n".to_vec(),
            "x.csv:4: expected each node once, found \"0\" again (first on line 2)",
        ),
        (
            "x.csv",
            b"node,x\n1,1\n".to_vec(),
            "x.csv: no features for 2 of 3 nodes (the first is node 0): pass --missing-features \
             zero to give them zeros",
        ),
        (
            "x.csv",
            b"node,x\n3,1\n".to_vec(),
            "x.csv:2: expected the id of a node of the graph, found \"3\" (unknown: if it is a \
             node without edges, list all nodes with --nodes-file)",
        ),
        (
            "x.csv",
            b"node,x\n0,abc\n".to_vec(),
            "x.csv:2: expected a number in column \"x\", found \"abc\"",
        ),
        (
            "x.csv",
            b"0,1,\n".to_vec(),
            "x.csv:1: expected a number in column 2 (counting from 0), found an empty cell",
        ),
        (
            "x.csv",
            b"node,x\n0,nan\n".to_vec(),
            "x.csv:2: expected a finite number in column \"x\", found \"nan\"",
        ),
        ("x.csv", b"node,x\n0,1,2\n".to_vec(), "x.csv:2: expected 2 columns, found 3: \"0,1,2\""),
        ("x.csv", b"0\n".to_vec(), "x.csv: no feature columns (expected columns like node,f0,f1)"),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(message(name, &bytes, nodes), expected);
    }
    assert_eq!(
        message("x.npy", &array(3, 0.0), &Letters(3)),
        "x.npy: rows without node ids, but the ids of the graph are text: give the features as CSV \
         or Parquet with a column \"node\""
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for name in ["x", "x.csv", "x.npy", "x.npz", "x.mtx", "x.parquet"] {
            let _ = run(name, &bytes, &Consecutive(3), true, 0);
        }
    }

    #[test]
    fn damaged_arrays_do_not_panic(at in 0usize..4000, byte in any::<u8>()) {
        let mut bytes = sparse("csr", [3, 2], &[0, 1, 1, 2], &[1, 0], &[1.0, 2.0]);
        let length = bytes.len();
        bytes[at % length] = byte;
        let _ = run("x.npz", &bytes, &Consecutive(3), true, 0);
    }

    #[test]
    fn permuted_rows_reach_their_nodes(
        columns in 1usize..5,
        values in prop::collection::vec(-9i16..9, 1..60),
        memory in 0u64..20_000,
    ) {
        let rows = values.len() / columns;
        prop_assume!(rows > 0);
        let values: Vec<f32> = values[..rows * columns].iter().map(|&v| f32::from(v)).collect();
        let (array, nodes) = (floats(rows, columns, &values), Reversed(rows as u64));
        let (_, sink) = run("x.npy", &array, &nodes, false, memory).unwrap();
        let expected: Vec<f32> = values.chunks(columns).rev().flatten().copied().collect();
        prop_assert_eq!(sink.dense, expected);
    }
}
