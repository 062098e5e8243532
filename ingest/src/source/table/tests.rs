//! Both kinds of tables through the same interface.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, FixedSizeListArray, Float32Array,
    Float64Array, Int64Array, LargeStringArray, ListArray, RecordBatch, StringArray, UInt8Array,
    UInt64Array,
};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;

use super::*;
use crate::nodes::Consecutive;

/// The bytes of a Parquet file.
pub(crate) fn parquet(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn open(name: &str, bytes: &[u8], ids: IdKind) -> Result<(Table, Vec<Batch>)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let mut table = Table::open(&path, ids, false, 1 << 20)?;
    let mut batches = Vec::new();
    while let Some(batch) = table.next_batch()? {
        batches.push(batch);
    }
    table.path = name.into();
    Ok((table, batches))
}

/// All cells as text, with the numbers of their rows.
fn texts(name: &str, bytes: &[u8], ids: IdKind) -> Vec<(u64, Vec<String>)> {
    let (table, batches) = open(name, bytes, ids).unwrap();
    let mut all = Vec::new();
    for batch in batches {
        for row in 0..batch.rows() {
            let cells =
                (0..table.width).map(|column| batch.cell(row, column).to_string()).collect();
            all.push((batch.number(row), cells));
        }
    }
    all
}

fn rows(expected: &[(u64, &[&str])]) -> Vec<(u64, Vec<String>)> {
    expected
        .iter()
        .map(|(line, cells)| (*line, cells.iter().map(|&cell| cell.into()).collect()))
        .collect()
}

#[test]
fn csv_with_quotes_comments_and_windows_ends() {
    let text =
        b"\xef\xbb\xbfnode,label\r\n#1,x\r\n\r\n 1 , a b \r\n2,\"x, \"\"y\"\"\"\r\n\"3\" ,\r\n4,#b";
    let expected =
        rows(&[(4, &["1", "a b"]), (5, &["2", "x, \"y\""]), (6, &["3", ""]), (7, &["4", "#b"])]);
    assert_eq!(texts("t.csv", text, IdKind::Integer), expected);
}

#[test]
fn tabs_and_whitespace() {
    assert_eq!(texts("t", b"1\t\"a, b\"\t\n", IdKind::Integer), rows(&[(1, &["1", "a, b", ""])]));
    assert_eq!(
        texts("t", b"  1   x\n2 y  \n", IdKind::Integer),
        rows(&[(1, &["1", "x"]), (2, &["2", "y"])])
    );
    let compressed = zstd::encode_all(&b"1 x\n"[..], 1).unwrap();
    assert_eq!(texts("t.zst", &compressed, IdKind::Integer), rows(&[(1, &["1", "x"])]));
}

#[test]
fn headers_are_detected() {
    let id = |text: &[u8], ids| {
        let (table, _) = open("t.csv", text, ids).unwrap();
        (table.names.is_some(), table.id_column().unwrap(), table.value_columns())
    };
    assert_eq!(id(b"label,Node_ID\nx,1\n", IdKind::String), (true, 1, vec![0]));
    assert_eq!(id(b"paper,label\n1,x\n", IdKind::Integer), (true, 0, vec![1]));
    assert_eq!(id(b"paper,label\n1,x\n", IdKind::String), (false, 0, vec![1]));
    assert_eq!(id(b"1,x\n", IdKind::Integer), (false, 0, vec![1]));
}

#[test]
fn many_batches_keep_their_lines() {
    let text: String = (0..200_000).map(|i| format!("{i},label number {}\n", i % 7)).collect();
    let (_, batches) = open("t.csv", text.as_bytes(), IdKind::Integer).unwrap();
    assert!(batches.len() > 2);
    let mut next = 1;
    for batch in &batches {
        for row in 0..batch.rows() {
            assert_eq!(batch.number(row), next);
            assert_eq!(batch.cell(row, 0).to_string(), (next - 1).to_string());
            next += 1;
        }
    }
    assert_eq!(next, 200_001);
}

#[test]
fn parquet_cells_of_every_type() {
    let dictionary: DictionaryArray<Int32Type> = ["p", "q", "p"].into_iter().collect();
    let bytes = parquet(vec![
        ("id", Arc::new(Int64Array::from(vec![0, 1, -2])) as ArrayRef),
        ("large", Arc::new(LargeStringArray::from(vec![Some("x"), None, Some("")]))),
        ("dictionary", Arc::new(dictionary)),
        ("float", Arc::new(Float64Array::from(vec![3.0, 0.5, f64::NAN]))),
        ("wide", Arc::new(UInt64Array::from(vec![u64::MAX, 1, 2]))),
        ("small", Arc::new(UInt8Array::from(vec![7, 8, 9]))),
        ("flag", Arc::new(BooleanArray::from(vec![true, false, true]))),
    ]);
    let wide = u64::MAX.to_string();
    let expected = rows(&[
        (0, &["0", "x", "p", "3", &wide, "7", "true"]),
        (1, &["1", "", "q", "0.5", "1", "8", "false"]),
        (2, &["-2", "", "p", "NaN", "2", "9", "true"]),
    ]);
    assert_eq!(texts("t", &bytes, IdKind::Integer), expected);
    let (table, batches) = open("t", &bytes, IdKind::Integer).unwrap();
    let batch = &batches[0];
    assert_eq!(batch.cell(1, 1), Cell::Missing);
    assert_eq!(batch.cell(2, 1), Cell::Missing);
    assert_eq!(batch.cell(2, 3).text(), None);
    assert_eq!(batch.cell(0, 6).number(), Some(1.0));
    assert_eq!(table.node(batch, 1, &Consecutive(5)).unwrap(), 1);
    assert_eq!(
        table.node(batch, 2, &Consecutive(5)).unwrap_err().to_string(),
        "t: row 2 (counting from 0): expected the id of a node of the graph, found \"-2\" \
         (unknown: if it is a node without edges, list all nodes with --nodes-file)"
    );
}

#[test]
fn lists_are_visited_item_by_item() {
    use arrow_array::types::Float32Type;
    let lists = [Some(vec![Some(1.0), Some(2.0)]), None];
    let fixed = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(
        [Some(vec![Some(3.0), None]), Some(vec![Some(4.0), Some(5.0)])],
        2,
    );
    let bytes = parquet(vec![
        ("x", Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists)) as ArrayRef),
        ("y", Arc::new(fixed)),
        ("z", Arc::new(Float32Array::from(vec![6.0, 7.0]))),
    ]);
    let (table, batches) = open("t.parquet", &bytes, IdKind::Integer).unwrap();
    assert_eq!(
        (table.id_column(), table.kind(0), table.kind(1)),
        (None, ColumnKind::List, ColumnKind::List)
    );
    let items = |row, column| {
        let mut items = Vec::new();
        batches[0].for_each_item(row, column, &mut |cell| items.push(cell.number()));
        items
    };
    assert_eq!((items(0, 0), items(1, 0)), (vec![Some(1.0), Some(2.0)], vec![]));
    assert_eq!((items(0, 1), items(1, 1)), (vec![Some(3.0), None], vec![Some(4.0), Some(5.0)]));
    assert_eq!(items(1, 2), vec![Some(7.0)]);
}

#[test]
fn wrong_parquet_files_have_exact_messages() {
    let text = Arc::new(StringArray::from(vec!["a"])) as ArrayRef;
    let binary = Arc::new(BinaryArray::from(vec![&b"a"[..]])) as ArrayRef;
    let float = Arc::new(Float32Array::from(vec![1.0])) as ArrayRef;
    let table = |columns| open("t.parquet", &parquet(columns), IdKind::Integer).unwrap().0;
    let error =
        table(vec![("a", text.clone()), ("b", text.clone())]).require_id().unwrap_err().to_string();
    assert_eq!(
        error,
        "t.parquet: no column named \"node\", \"id\" or \"node_id\" (found: \"a, b\")"
    );
    let error = table(vec![("node", float)]).require_id().unwrap_err().to_string();
    assert_eq!(
        error,
        "t.parquet: column \"node\" holds floats (expected node ids: integers or text)"
    );
    let error =
        table(vec![("node", text), ("label", binary)]).require(1, &[ColumnKind::Text], "labels");
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "t.parquet: column \"label\" holds values of type Binary (expected labels)");
    let error = open("t.parquet", b"node,label\n0,1\n", IdKind::Integer).err().unwrap().to_string();
    assert!(error.contains("t.parquet: ") && error.contains("arquet"), "{error}");
}

proptest! {
    #[test]
    fn damaged_parquet_does_not_panic(at in 0usize..10_000, byte in any::<u8>(), cut in 0usize..10_000) {
        let mut bytes = parquet(vec![
            ("node", Arc::new(Int64Array::from(vec![0, 1, 2])) as ArrayRef),
            ("label", Arc::new(StringArray::from(vec!["a", "bb", "a"]))),
        ]);
        let length = bytes.len();
        bytes[at % length] = byte;
        let _ = open("t.parquet", &bytes, IdKind::Integer);
        let _ = open("t.parquet", &bytes[..cut % length], IdKind::Integer);
    }

    #[test]
    fn quoted_cells_come_back(cells in prop::collection::vec("[a-z\", \t#]{0,8}", 1..5)) {
        let quoted = |cell: &String| format!("\"{}\"", cell.replace('"', "\"\""));
        let line: Vec<String> = cells.iter().map(quoted).collect();
        let names: Vec<String> = (0..cells.len()).map(|at| format!("x{at}")).collect();
        let text = format!("id,{}\n1,{}\n", names.join(","), line.join(","));
        let found = texts("t.csv", text.as_bytes(), IdKind::Integer);
        prop_assert_eq!(&found[0].1[1..], &cells[..]);
    }
}

#[test]
fn missing_values_have_several_spellings() {
    for text in ["NA", "n/a", "NaN", "null", "NULL"] {
        assert!(Cell::Text(text).is_missing(), "{text}");
    }
    assert!(Cell::Missing.is_missing() && Cell::Float(f64::NAN).is_missing());
    assert!(!Cell::Text("none").is_missing() && !Cell::Float(0.0).is_missing());
    assert_eq!(Cell::Text("inf").finite(), None);
    assert_eq!(Cell::Text("-1.5e3").finite(), Some(-1500.0));
}
