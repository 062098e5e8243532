//! Edge files.

use arrow_array::{Float32Array, Float64Array, Int64Array, ListArray, StringArray, types::Int32Type};

use super::{edges, judge};
use crate::raw::{column, gzip, parquet, zstd};
use crate::util::Sandbox;

#[test]
fn edge_lists() {
    judge(&[
        edges("letters for a number", "e.txt --ids integer", "?").file("e.txt", "1 2\n# c\n3 x\n"),
        edges("letters after a thousand numbers", "e.txt", "?")
            .file("e.txt", "1 2\n".repeat(1000) + "3 x\n"),
        edges("a missing column", "e.txt", "?").file("e.txt", "1 2\n42\n"),
        edges("a missing column of words", "e.csv", "?").file("e.csv", "source,target\nann,bob\ncleo\n"),
        edges("an empty cell", "e.csv", "?").file("e.csv", "source,target\nann,bob\n,cleo\n"),
        edges("a quote inside an id", "e.csv", "?").file("e.csv", "ann,bob\ncl\"eo,bob\n"),
        edges("an id that is no UTF-8", "e.txt", "?").file("e.txt", b"ann bob\n\xff\xfe ann\n"),
        edges("an id above 2^64 - 1", "e.txt --ids integer", "?")
            .file("e.txt", "1 2\n3 18446744073709551616\n"),
        edges("a negative id", "e.txt --ids integer", "?").file("e.txt", "1 2\n-3 4\n"),
        edges("a fraction as id", "e.txt --ids integer", "?").file("e.txt", "1 2\n3 4.5\n"),
        edges("a negative weight", "e.txt", "?").file("e.txt", "1 2 0.5\n2 3 -1\n"),
        edges("a weight that is NaN", "e.csv", "?").file("e.csv", "u,v,w\n1,2,0.5\n2,3,NaN\n"),
        edges("an infinite weight", "e.csv", "?").file("e.csv", "u,v,w\n1,2,0.5\n2,3,1e39\n"),
        edges("letters for a weight", "e.txt", "?").file("e.txt", "1 2 0.5\n2 3 much\n"),
        edges("a missing weight", "e.txt", "?").file("e.txt", "1 2 0.5\n2 3\n"),
        edges("a column that is not there", "e.csv --weight strength", "?").file("e.csv", "u,v,w\n1,2,0.5\n"),
        edges("a column beyond the last", "e.txt --target 7", "?").file("e.txt", "1 2\n2 3\n"),
        edges("a duplicate", "e.txt --duplicates error", "?").file("e.txt", "1 2\n5 7\n2 1\n"),
        edges("a duplicate of words", "e.txt --duplicates error --directed", "?")
            .file("e.txt", "ann bob\nbob cleo\nann bob\n"),
        edges("weights in the second file alone", "a.txt b.txt", "?")
            .file("a.txt", "1 2\n")
            .file("b.txt", "1 2 0.5\n"),
        edges("words in the second file alone", "a.txt b.txt", "?")
            .file("a.txt", "1 2\n")
            .file("b.txt", "ann bob\n"),
        edges("the second of two files", "a.txt b.txt", "?")
            .file("a.txt", "1 2\n2 3\n")
            .file("b.txt", "1 2\n1 2\n7\n"),
    ]);
}

#[test]
fn files_that_are_no_edge_lists() {
    judge(&[
        edges("an empty file", "e.txt", "?").file("e.txt", ""),
        edges("nothing but comments", "e.txt", "?").file("e.txt", "# a\n% b\n\n"),
        edges("nothing but a header", "e.csv", "?").file("e.csv", "source,target\n"),
        edges("a binary file", "e.txt", "?").file("e.txt", b"\x7fELF\x02\x01\x01\0\0\0"),
        edges("an empty gzip file", "e.txt.gz", "?").file("e.txt.gz", gzip("")),
        edges("a directory", "graph", "?").file("graph/e.txt", "1 2\n"),
        edges("a missing file", "gone.txt", "?"),
        edges("a pattern without a match", "part-*.txt", "?").file("e.txt", "1 2\n"),
        edges("a bad pattern", "part-[.txt", "?"),
        edges("a truncated gzip file", "e.txt.gz", "?").file("e.txt.gz", truncated(gzip(numbers()))),
        edges("a damaged gzip file", "e.txt.gz", "?").file("e.txt.gz", damaged(gzip(numbers()))),
        edges("a gzip file with a wrong checksum", "e.txt.gz", "?")
            .file("e.txt.gz", wrong_checksum(gzip(numbers()))),
        edges("a truncated zstd file", "e.txt.zst", "?").file("e.txt.zst", truncated(zstd(numbers()))),
        edges("a damaged zstd file", "e.txt.zst", "?").file("e.txt.zst", damaged(zstd(numbers()))),
    ]);
}

/// An edge list that does not compress to nothing.
fn numbers() -> String {
    (0..5000u64).map(|edge| format!("{} {}\n", edge * 7919 % 10007, edge * 104729 % 10009)).collect()
}

fn truncated(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() / 2);
    bytes
}

fn damaged(mut bytes: Vec<u8>) -> Vec<u8> {
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xaa);
    bytes
}

fn wrong_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let place = bytes.len() - 8;
    bytes[place] ^= 1;
    bytes
}

#[test]
#[cfg(unix)]
fn a_file_that_may_not_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let case = edges("an unreadable file", "e.txt", "e.txt: cannot open: Permission denied (os error 13)");
    let sandbox = Sandbox::new();
    let path = sandbox.file("e.txt", "1 2\n").path("e.txt");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        println!("skipped: this user reads every file, whatever its permissions");
        return;
    }
    let run = sandbox.ignn(&["ingest", "edges", "e.txt", "--out", "d", "--quiet"]);
    run.fails_with(case.message);
    assert_eq!(sandbox.names(), ["e.txt"]);
}

#[test]
fn matrix_market() {
    let general = "%%MatrixMarket matrix coordinate real general\n";
    let mtx = |name, message, text: &str| edges(name, "e.mtx", message).file("e.mtx", text);
    judge(&[
        mtx("an index out of range", "?", &format!("{general}3 3 2\n1 2 0.5\n2 4 1\n")),
        mtx("an index from 0", "?", &format!("{general}3 3 2\n0 2 0.5\n2 1 1\n")),
        mtx("too few entries", "?", &format!("{general}3 3 3\n1 2 0.5\n2 3 1\n")),
        mtx("too many entries", "?", &format!("{general}3 3 1\n1 2 0.5\n2 3 1\n")),
        mtx("a value that is missing", "?", &format!("{general}3 3 1\n1 2\n")),
        mtx("a negative value", "?", &format!("{general}3 3 2\n1 2 0.5\n2 3 -1\n")),
        mtx("a matrix that is not square", "?", &format!("{general}3 4 1\n1 2 0.5\n")),
        mtx("no sizes", "?", general),
        mtx("sizes that are no numbers", "?", &format!("{general}three 3 1\n1 2 1\n")),
        mtx("complex values", "?", "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 2 1 0\n"),
        mtx("a dense matrix", "?", "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n"),
        mtx("more nodes than 32 bits", "?", &format!("{general}5000000000 5000000000 1\n1 2 1\n")),
        edges("another form, called Matrix Market", "e.txt --format mtx", "?").file("e.txt", "1 2\n"),
    ]);
}

#[test]
fn adjacency_lists() {
    let list = |name, message, text: &str| edges(name, "a.txt --format adjacency", message).file("a.txt", text);
    judge(&[
        list("a wrong count", "?", "2 1 2\n1 0\n3 0 1\n"),
        list("letters for a neighbour", "?", "2 1 2\n1 0\n2 0 x\n"),
        list("letters for the count", "?", "2 1 2\nx 0\n1 0\n"),
        list("an empty line", "?", "2 1 2\n\n1 0\n"),
    ]);
}

#[test]
fn parquet_tables() {
    let integers = |values: &[i64]| column::<Int64Array>(values.to_vec());
    let table = |name, message, columns| edges(name, "e.parquet", message).file("e.parquet", parquet(columns));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), Some([Some(2)])]);
    let mut cut = parquet(vec![("source", integers(&[1, 2])), ("target", integers(&[2, 3]))]);
    cut.truncate(cut.len() - 20);
    judge(&[
        table("no such columns", "?", vec![("a", integers(&[1, 2])), ("b", integers(&[2, 3]))]),
        table(
            "ids that are floats",
            "?",
            vec![("source", column::<Float64Array>(vec![1.0, 2.0])), ("target", integers(&[2, 3]))],
        ),
        table(
            "ids that are lists",
            "?",
            vec![("source", integers(&[1, 2])), ("target", column::<ListArray>(lists))],
        ),
        table(
            "integers and text",
            "?",
            vec![("source", integers(&[1, 2])), ("target", column::<StringArray>(vec!["a", "b"]))],
        ),
        table(
            "a null",
            "?",
            vec![("source", integers(&[1, 2])), ("target", column::<Int64Array>(vec![Some(2), None]))],
        ),
        table(
            "a null among words",
            "?",
            vec![
                ("source", column::<StringArray>(vec![Some("a"), None])),
                ("target", column::<StringArray>(vec!["b", "c"])),
            ],
        ),
        table("a negative id", "?", vec![("source", integers(&[1, -2])), ("target", integers(&[2, 3]))]),
        table(
            "a negative weight",
            "?",
            vec![
                ("source", integers(&[1, 2])),
                ("target", integers(&[2, 3])),
                ("weight", column::<Float32Array>(vec![1.0, -0.5])),
            ],
        ),
        table(
            "a null as weight",
            "?",
            vec![
                ("source", integers(&[1, 2])),
                ("target", integers(&[2, 3])),
                ("weight", column::<Float32Array>(vec![Some(1.0), None])),
            ],
        ),
        table(
            "a weight that is text",
            "?",
            vec![
                ("source", integers(&[1, 2])),
                ("target", integers(&[2, 3])),
                ("weight", column::<StringArray>(vec!["a", "b"])),
            ],
        ),
        table("no rows", "?", vec![("source", integers(&[])), ("target", integers(&[]))]),
        edges("a truncated file", "e.parquet", "?").file("e.parquet", cut),
        edges("a file that is none", "e.txt --format parquet", "?").file("e.txt", "1 2\n"),
        edges("text with the name of a table", "e.parquet", "?").file("e.parquet", "1 2\n7\n"),
    ]);
}
