//! Whole ingest runs over all formats of edge files: damaged files do not cause a panic, and the
//! same edges give the same dataset in every format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use ignn_format::DatasetDir;
use ignn_format::ids::Ids;
use ignn_format::manifest::Normalisation;
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::context::Recorder;
use crate::source::edge_input::EdgeFormat;
use crate::source::matrix_market;

/// Small enough to spill to disk and to reject large tables.
const MEMORY: u64 = 1 << 20;
/// A header may declare more nodes than this and they would be created; that takes too long for a
/// test.
const MAX_NODES: u64 = 100_000;

type Edges = Vec<(u64, u64, f32)>;
type Matrix = BTreeMap<(String, String), f32>;

/// Ingests a file and reads the matrix back, by the ids.
fn ingest(
    name: &str,
    bytes: &[u8],
    format: Option<EdgeFormat>,
    directed: bool,
) -> Result<Matrix, String> {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join(name), dir.path().join("out"));
    std::fs::write(&path, bytes).unwrap();
    let relation =
        RelationOptions { directed, normalise: Normalisation::None, ..RelationOptions::default() };
    let mut job = IngestEdges { relation, ..IngestEdges::new(vec![path], out.clone()) };
    job.input.format = format;
    let observer = Recorder::default();
    let context = Context { threads: 2, memory: MEMORY, seed: 0, observer: &observer };
    job.run(&context).map_err(|error| error.to_string())?;
    let dataset = DatasetDir::open(&out).unwrap();
    let names: Vec<String> = match dataset.ids().unwrap() {
        Ids::Integer(ids) => ids.iter().map(u64::to_string).collect(),
        Ids::String { offsets, text } => {
            offsets.windows(2).map(|w| text[w[0] as usize..w[1] as usize].into()).collect()
        }
    };
    let incoming = dataset.relation("edges").unwrap().incoming;
    let row = |target: usize| {
        let (names, incoming) = (&names, &incoming);
        incoming.range(target).map(move |at| {
            let source = incoming.neighbours()[at] as usize;
            let value = incoming.values().map_or(1.0, |values| values[at]);
            ((names[source].clone(), names[target].clone()), value)
        })
    };
    Ok((0..incoming.rows()).flat_map(row).collect())
}

/// How lines are written.
struct Lines {
    separator: &'static str,
    end: &'static str,
    header: bool,
}

fn lines(edges: &Edges, weighted: bool, style: &Lines) -> String {
    let Lines { separator, end, header } = style;
    let mut text = String::new();
    if *header {
        let weight = if weighted { format!("{separator}weight") } else { String::new() };
        write!(text, "source{separator}target{weight}{end}").unwrap();
    }
    for (source, target, weight) in edges {
        write!(text, "{source}{separator}{target}").unwrap();
        if weighted {
            write!(text, "{separator}{weight}").unwrap();
        }
        text += end;
    }
    text
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn matrix_market(edges: &Edges, nodes: u64, weighted: bool, symmetric: bool) -> Vec<u8> {
    let field = if weighted { "real" } else { "pattern" };
    let symmetry = if symmetric { "symmetric" } else { "general" };
    let mut text = format!("%%MatrixMarket matrix coordinate {field} {symmetry}\n% by a test\n");
    writeln!(text, "{nodes} {nodes} {}", edges.len()).unwrap();
    for &(source, target, weight) in edges {
        let (row, column) =
            if symmetric { (source.max(target), source.min(target)) } else { (source, target) };
        write!(text, "{} {}", row + 1, column + 1).unwrap();
        if weighted {
            write!(text, " {weight}").unwrap();
        }
        text += "\n";
    }
    text.into_bytes()
}

fn adjacency_list(edges: &Edges, nodes: u64) -> Vec<u8> {
    let mut text = String::new();
    for node in 0..nodes {
        let neighbours: Vec<u64> =
            edges.iter().filter(|edge| edge.0 == node).map(|edge| edge.1).collect();
        write!(text, "{}", neighbours.len()).unwrap();
        neighbours.iter().for_each(|neighbour| write!(text, " {neighbour}").unwrap());
        text += "\n";
    }
    text.into_bytes()
}

fn parquet_table(edges: &Edges, weighted: bool, ids: impl Fn(Vec<u64>) -> ArrayRef) -> Vec<u8> {
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("source", ids(edges.iter().map(|edge| edge.0).collect())),
        ("target", ids(edges.iter().map(|edge| edge.1).collect())),
    ];
    if weighted {
        columns.push((
            "weight",
            Arc::new(Float32Array::from_iter_values(edges.iter().map(|edge| edge.2))),
        ));
    }
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    // Two row groups.
    let half = batch.num_rows() / 2;
    writer.write(&batch.slice(0, half)).unwrap();
    writer.flush().unwrap();
    writer.write(&batch.slice(half, batch.num_rows() - half)).unwrap();
    writer.close().unwrap();
    bytes
}

/// The same edges in every format that can express them: name, bytes, and the format where it
/// cannot be detected.
fn forms(
    edges: &Edges,
    nodes: u64,
    weighted: bool,
    directed: bool,
) -> Vec<(&'static str, Vec<u8>, Option<EdgeFormat>)> {
    let text = |separator, end, header| lines(edges, weighted, &Lines { separator, end, header });
    let blank = text(" ", "\n", false);
    let integers = |ids: Vec<u64>| {
        Arc::new(Int64Array::from_iter_values(ids.iter().map(|&id| id as i64))) as _
    };
    let unsigned = |ids: Vec<u64>| Arc::new(UInt64Array::from(ids)) as ArrayRef;
    let strings = |ids: Vec<u64>| {
        Arc::new(StringArray::from_iter_values(ids.iter().map(u64::to_string))) as ArrayRef
    };
    let commented = blank.replace('\n', "\n# a comment, 1 2\n\n% another\n");
    let mut all = vec![
        ("blank.txt", blank.clone().into_bytes(), None),
        ("runs.txt", text(" \t  ", "  \n", false).into_bytes(), None),
        ("tabs.tsv", text("\t", "\n", true).into_bytes(), None),
        ("commas.csv", text(",", "\n", true).into_bytes(), None),
        ("spaced.csv", text(" , ", "\n", true).into_bytes(), None),
        ("windows.csv", text(",", "\r\n", true).into_bytes(), None),
        ("windows.txt", text(" ", "\r\n", false).into_bytes(), None),
        ("unended.txt", blank.trim_end().into(), None),
        ("commented.txt", format!("# first\n{commented}").into_bytes(), None),
        ("list.txt.gz", gzip(blank.as_bytes()), None),
        ("list.txt.zst", zstd::encode_all(blank.as_bytes(), 1).unwrap(), None),
        ("general.mtx", matrix_market(edges, nodes, weighted, false), None),
        ("general.mtx.gz", gzip(&matrix_market(edges, nodes, weighted, false)), None),
        ("integers.parquet", parquet_table(edges, weighted, integers), None),
        ("unsigned.parquet", parquet_table(edges, weighted, unsigned), None),
        ("strings.parquet", parquet_table(edges, weighted, strings), None),
    ];
    if !directed {
        all.push(("symmetric.mtx", matrix_market(edges, nodes, weighted, true), None));
    }
    if !weighted {
        all.push(("lines.txt", adjacency_list(edges, nodes), Some(EdgeFormat::Adjacency)));
    }
    all
}

fn edges() -> impl Strategy<Value = (u64, Edges)> {
    (1u64..40).prop_flat_map(|nodes| {
        let edge = (0..nodes, 0..nodes, 1u8..9).prop_map(|(s, t, w)| (s, t, f32::from(w) * 0.25));
        (Just(nodes), prop::collection::vec(edge, 1..60))
    })
}

/// Damage to a file.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, u8),
    Truncate(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..8),
        "[0-9 ,.e\\-\n\"#]{1,8}".prop_map(String::into_bytes),
        Just(b"18446744073709551615".to_vec()),
        Just(b"nan".to_vec()),
    ];
    prop_oneof![
        (any::<Index>(), 1u8..).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        (any::<Index>(), piece).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        (any::<Index>(), 1u8..20).prop_map(|(at, count)| Damage::Remove(at, count)),
        any::<Index>().prop_map(Damage::Truncate),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        match self {
            Self::Flip(at, bits) if length > 0 => bytes[at.index(length)] ^= bits,
            Self::Insert(at, piece) => {
                let at = at.index(length + 1);
                bytes.splice(at..at, piece.iter().copied());
            }
            Self::Remove(at, count) => {
                let at = at.index(length + 1);
                bytes.drain(at..length.min(at + usize::from(*count)));
            }
            Self::Truncate(at) => bytes.truncate(at.index(length + 1)),
            Self::Flip(..) => {}
        }
    }
}

/// Whether a Matrix Market file declares few enough nodes for a test.
fn modest(bytes: &[u8]) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    std::fs::write(&path, bytes).unwrap();
    let header = matrix_market::Header::open(&path);
    header.map_or(true, |(header, _)| header.rows.max(header.cols) <= MAX_NODES)
}

const FORMATS: [Option<EdgeFormat>; 5] = [
    None,
    Some(EdgeFormat::List),
    Some(EdgeFormat::MatrixMarket),
    Some(EdgeFormat::Adjacency),
    Some(EdgeFormat::Parquet),
];

proptest! {
    // One case covers dozens of files; PROPTEST_CASES changes the number of cases.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.div_ceil(4),
        ..Default::default()
    })]

    #[test]
    fn every_format_gives_the_same_matrix((nodes, edges) in edges(), weighted: bool, directed: bool) {
        let forms = forms(&edges, nodes, weighted, directed);
        let expected = ingest(forms[0].0, &forms[0].1, None, directed).unwrap();
        for (name, bytes, form) in &forms[1..] {
            let found = ingest(name, bytes, *form, directed);
            prop_assert_eq!(found.as_ref(), Ok(&expected), "{}", name);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), directed: bool) {
        for form in FORMATS {
            let _ = ingest("x", &bytes, form, directed);
        }
        let _ = ingest("x", &[b"PAR1", &bytes[..], b"PAR1"].concat(), None, directed);
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in "[0-9a-c ,\t\n\r\"#%.\\-]{0,80}", directed: bool) {
        for form in FORMATS {
            let _ = ingest("x", text.as_bytes(), form, directed);
        }
    }

    #[test]
    fn damaged_files_do_not_panic(
        (nodes, edges) in edges(),
        weighted: bool,
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        for (name, mut bytes, form) in forms(&edges, nodes, weighted, false) {
            damages.iter().for_each(|damage| damage.apply(&mut bytes));
            if modest(&bytes) {
                let _ = ingest(name, &bytes, form, false);
            }
        }
    }
}
