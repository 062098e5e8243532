//! Edge files.

use arrow_array::{
    Float32Array, Float64Array, Int64Array, ListArray, StringArray, types::Int32Type,
};

use super::{check_all, edges};
use crate::raw::{column, gzip, parquet, zstd};
use crate::sandbox::Sandbox;

#[test]
fn edge_lists() {
    check_all(&[
        edges(
            "letters for a number",
            "e.txt --ids integer",
            "e.txt:3: expected an integer id from 0 to 18446744073709551615 (pass --ids string if \
             ids are text), found \"x\"",
        )
        .file("e.txt", "1 2\n# c\n3 x\n"),
        edges(
            "letters after a thousand numbers",
            "e.txt",
            "e.txt:1001: expected an integer id from 0 to 18446744073709551615 (pass --ids string if \
             ids are text), found \"x\"",
        )
        .file("e.txt", "1 2\n".repeat(1000) + "3 x\n"),
        edges("a missing column", "e.txt", "e.txt:2: expected 2 columns, found 1: \"42\"")
            .file("e.txt", "1 2\n42\n"),
        edges(
            "a missing column of words",
            "e.csv",
            "e.csv:3: expected 2 columns, found 1: \"cleo\"",
        )
        .file("e.csv", "source,target\nann,bob\ncleo\n"),
        edges(
            "a separator inside a name",
            "e.csv",
            "e.csv:2: expected at most 2 columns as in the first line (cells with a separator need \
             quotes), found 3: \"Smith, John,Bob\"",
        )
        .file("e.csv", "source,target\nSmith, John,Bob\nBob,Ann\n"),
        edges(
            "more integers than in the first line",
            "e.csv",
            "e.csv:2: expected at most 2 columns as in the first line (cells with a separator need \
             quotes), found 3: \"3,4,5\"",
        )
        .file("e.csv", "1,2\n3,4,5\n"),
        edges(
            "source and target in one column",
            "e.csv --source to --target 1",
            "e.csv: column \"to\" is both source and target (expected two columns: choose them with \
             --source and --target)",
        )
        .file("e.csv", "from,to\nann,bob\n"),
        edges(
            "source and target in one column of numbers",
            "e.txt --source 1",
            "e.txt: column 1 is both source and target (expected two columns: choose them with \
             --source and --target)",
        )
        .file("e.txt", "1 2\n2 3\n"),
        edges("an empty cell", "e.csv", "e.csv:3: expected an id, found \"\"")
            .file("e.csv", "source,target\nann,bob\n,cleo\n"),
        edges(
            "a quote inside an id",
            "e.csv",
            "e.csv:2: expected an id without quotes, or all of it in quotes and those inside doubled, \
             found \"cl\\\"eo\"",
        )
        .file("e.csv", "ann,bob\ncl\"eo,bob\n"),
        edges(
            "quotes where blanks separate",
            "e.txt",
            "e.txt:1: expected an id without quotes (only lists with commas or tabs may quote ids), \
             found \"\\\"ann\"",
        )
        .file("e.txt", "\"ann b\" bob\n"),
        edges(
            "a quote that is not closed",
            "e.csv",
            "e.csv:2: expected a closing quote on the same line (a cell cannot \
             continue on the next line), found \"\\\"cleo,bob\"",
        )
        .file("e.csv", "ann,bob\n\"cleo,bob\n"),
        edges(
            "text after a closing quote",
            "e.csv",
            "e.csv:2: expected a separator after the closing quote (a quote inside \
             a quoted cell is written twice), found \
             \"\\\"cl\\\"eo,bob\"",
        )
        .file("e.csv", "ann,bob\n\"cl\"eo,bob\n"),
        edges(
            "a leading zero after a thousand numbers",
            "e.txt",
            "e.txt:1001: expected an integer id without leading zeros (pass --ids string if ids are \
             text), found \"007\"",
        )
        .file("e.txt", "1 2\n".repeat(1000) + "3 007\n"),
        edges(
            "a leading zero for an integer",
            "e.csv --ids integer",
            "e.csv:2: expected an integer id without leading zeros (pass --ids string if ids are \
             text), found \"00\"",
        )
        .file("e.csv", "1,2,0.5\n00,2,0.5\n"),
        edges(
            "an id that is no UTF-8",
            "e.txt",
            "e.txt:2: expected an id in UTF-8, found \"\\xff\\xfe\"",
        )
        .file("e.txt", b"ann bob\n\xff\xfe ann\n"),
        edges(
            "an id above 2^64 - 1",
            "e.txt --ids integer",
            "e.txt:2: expected an integer id from 0 to 18446744073709551615 (pass --ids string if \
             ids are text), found \
             \"18446744073709551616\"",
        )
        .file("e.txt", "1 2\n3 18446744073709551616\n"),
        edges(
            "a negative id",
            "e.txt --ids integer",
            "e.txt:2: expected an integer id from 0 to 18446744073709551615 (pass --ids string if \
             ids are text), found \"-3\"",
        )
        .file("e.txt", "1 2\n-3 4\n"),
        edges(
            "a fraction as id",
            "e.txt --ids integer",
            "e.txt:2: expected an integer id from 0 to 18446744073709551615 (pass --ids string if \
             ids are text), found \"4.5\"",
        )
        .file("e.txt", "1 2\n3 4.5\n"),
        edges(
            "a negative weight",
            "e.txt",
            "e.txt:2: expected a finite weight that is not negative, found \"-1\"",
        )
        .file("e.txt", "1 2 0.5\n2 3 -1\n"),
        edges(
            "a weight that is NaN",
            "e.csv",
            "e.csv:3: expected a finite weight that is not negative, found \"NaN\"",
        )
        .file("e.csv", "u,v,w\n1,2,0.5\n2,3,NaN\n"),
        edges(
            "an infinite weight",
            "e.csv",
            "e.csv:3: expected a finite weight that is not negative, found \"1e39\"",
        )
        .file("e.csv", "u,v,w\n1,2,0.5\n2,3,1e39\n"),
        edges(
            "letters for a weight",
            "e.txt",
            "e.txt:2: expected a number as weight, found \"much\"",
        )
        .file("e.txt", "1 2 0.5\n2 3 much\n"),
        edges("a missing weight", "e.txt", "e.txt:2: expected 3 columns, found 2: \"2 3\"")
            .file("e.txt", "1 2 0.5\n2 3\n"),
        edges(
            "a column that is not there",
            "e.csv --weight strength",
            "e.csv: no column \"strength\" for the weight (found columns: u, v, w)",
        )
        .file("e.csv", "u,v,w\n1,2,0.5\n"),
        edges(
            "a column beyond the last",
            "e.txt --target 7",
            "e.txt: no column \"7\" for the target (found 2 columns, no header)",
        )
        .file("e.txt", "1 2\n2 3\n"),
        edges(
            "a duplicate",
            "e.txt --duplicates error",
            "e.txt: the edge between 1 and 2 is given more than once, in either direction: merge such \
             edges with --duplicates sum, max or first",
        )
        .file("e.txt", "1 2\n5 7\n2 1\n"),
        edges(
            "a duplicate of words",
            "e.txt --duplicates error --directed",
            "e.txt: the edge from \"ann\" to \"bob\" is given more than once: merge such edges with \
             --duplicates sum, max or first",
        )
        .file("e.txt", "ann bob\nbob cleo\nann bob\n"),
        edges(
            "weights in the second file alone",
            "a.txt b.txt",
            "b.txt: has weights, but the previous file has none: pass --unweighted to ignore \
             weights",
        )
        .file("a.txt", "1 2\n")
        .file("b.txt", "1 2 0.5\n"),
        edges(
            "words in the second file alone",
            "a.txt b.txt",
            "b.txt: has ids of another type than the previous file: pass --ids string",
        )
        .file("a.txt", "1 2\n")
        .file("b.txt", "ann bob\n"),
        edges(
            "the second of two files",
            "a.txt b.txt",
            "b.txt:3: expected 2 columns, found 1: \"7\"",
        )
        .file("a.txt", "1 2\n2 3\n")
        .file("b.txt", "1 2\n1 2\n7\n"),
    ]);
}

#[test]
fn files_that_are_not_edge_lists() {
    check_all(&[
        edges("an empty file", "e.txt", "e.txt: the file is empty (expected edges)")
            .file("e.txt", ""),
        edges(
            "nothing but comments",
            "e.txt",
            "e.txt: no edges (found only empty lines and comments)",
        )
        .file("e.txt", "# a\n% b\n\n"),
        edges("nothing but a header", "e.csv", "e.csv: no edges (expected at least one)")
            .file("e.csv", "source,target\n"),
        edges("a binary file", "e.txt", "e.txt: byte 0 at offset 7: a binary file (expected text)")
            .file("e.txt", b"\x7fELF\x02\x01\x01\0\0\0"),
        edges("an empty gzip file", "e.txt.gz", "e.txt.gz: the file is empty (expected edges)")
            .file("e.txt.gz", gzip("")),
        edges(
            "a directory",
            "graph",
            "graph: not a regular file (found a directory, expected a file)",
        )
        .file("graph/e.txt", "1 2\n"),
        edges(
            "a missing file",
            "gone.txt",
            "gone.txt: cannot open: No such file or directory (os error 2)",
        ),
        edges(
            "a pattern without a match",
            "part-*.txt",
            "part-*.txt: no file matches this pattern",
        )
        .file("e.txt", "1 2\n"),
        edges(
            "a bad pattern",
            "part-[.txt",
            "part-[.txt: bad pattern: Pattern syntax error near position 5: invalid range pattern",
        ),
        edges(
            "a truncated gzip file",
            "e.txt.gz",
            "e.txt.gz: truncated gzip file: it ends after 23752 bytes of text",
        )
        .file("e.txt.gz", truncated(gzip(numbers()))),
        edges(
            "a damaged gzip file",
            "e.txt.gz",
            "e.txt.gz: damaged gzip file after 48909 bytes of text: corrupt gzip stream does not \
             have a matching checksum",
        )
        .file("e.txt.gz", damaged(gzip(numbers()))),
        edges(
            "a gzip file with a wrong checksum",
            "e.txt.gz",
            "e.txt.gz: damaged gzip file after 48920 bytes of text: corrupt gzip stream does not \
             have a matching checksum",
        )
        .file("e.txt.gz", wrong_checksum(gzip(numbers()))),
        edges(
            "a truncated zstd file",
            "e.txt.zst",
            "e.txt.zst: truncated zstd file: it ends after 0 bytes of text",
        )
        .file("e.txt.zst", truncated(zstd(numbers()))),
        edges(
            "a damaged zstd file",
            "e.txt.zst",
            "e.txt.zst: damaged zstd file after 0 bytes of text: Data corruption detected",
        )
        .file("e.txt.zst", damaged(zstd(numbers()))),
    ]);
}

/// An edge list that does not compress well.
fn numbers() -> String {
    (0..5000u64)
        .map(|edge| format!("{} {}\n", edge * 7919 % 10007, edge * 104729 % 10009))
        .collect()
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
    let case =
        edges("an unreadable file", "e.txt", "e.txt: cannot open: Permission denied (os error 13)");
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
    check_all(&[
        mtx(
            "an index out of range",
            "e.mtx:4: expected a column from 1 to 3, found \"2 4 1\"",
            &format!("{general}3 3 2\n1 2 0.5\n2 4 1\n"),
        ),
        mtx(
            "an index from 0",
            "e.mtx:3: expected a row from 1 to 3, found \"0 2 0.5\"",
            &format!("{general}3 3 2\n0 2 0.5\n2 1 1\n"),
        ),
        mtx(
            "too few entries",
            "e.mtx: 3 entries declared on line 2, but 2 found",
            &format!("{general}3 3 3\n1 2 0.5\n2 3 1\n"),
        ),
        mtx(
            "too many entries",
            "e.mtx: 1 entries declared on line 2, but 2 found",
            &format!("{general}3 3 1\n1 2 0.5\n2 3 1\n"),
        ),
        mtx(
            "a value that is missing",
            "e.mtx:3: expected a row, a column and a value, found \"1 2\"",
            &format!("{general}3 3 1\n1 2\n"),
        ),
        mtx(
            "a negative value",
            "e.mtx:4: expected a finite weight that is not negative, found \"2 3 -1\"",
            &format!("{general}3 3 2\n1 2 0.5\n2 3 -1\n"),
        ),
        mtx(
            "a matrix that is not square",
            "e.mtx: a matrix of 3 x 4 (expected a square one as adjacency)",
            &format!("{general}3 4 1\n1 2 0.5\n"),
        ),
        mtx("no sizes", "e.mtx: ends before the numbers of rows, columns and entries", general),
        mtx(
            "sizes that are no numbers",
            "e.mtx:2: expected the numbers of rows, columns and entries, found \"three 3 1\"",
            &format!("{general}three 3 1\n1 2 1\n"),
        ),
        mtx(
            "complex values",
            "e.mtx:1: expected values that are real, integer or pattern, found \"%%MatrixMarket \
             matrix coordinate complex general\"",
            "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 2 1 0\n",
        ),
        mtx(
            "a dense matrix",
            "e.mtx:1: expected a coordinate matrix (save a dense one as .npy), found \
             \"%%MatrixMarket matrix array real general\"",
            "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n",
        ),
        mtx(
            "more nodes than 32 bits",
            "e.mtx: a matrix of 5000000000 x 5000000000 (at most 4294967295 nodes are supported)",
            &format!("{general}5000000000 5000000000 1\n1 2 1\n"),
        ),
        edges(
            "another form, called Matrix Market",
            "e.txt --format mtx",
            "e.txt:1: expected \"%%MatrixMarket matrix coordinate pattern|real|integer \
             general|symmetric\", found \"1 2\"",
        )
        .file("e.txt", "1 2\n"),
    ]);
}

#[test]
fn adjacency_lists() {
    let list = |name, message, text: &str| {
        edges(name, "a.txt --format adjacency", message).file("a.txt", text)
    };
    check_all(&[
        list(
            "a wrong count",
            "a.txt:3: expected 3 neighbours, as the first number of the line says, found 2",
            "2 1 2\n1 0\n3 0 1\n",
        ),
        list(
            "letters for a neighbour",
            "a.txt:3: expected an integer id from 0 to 18446744073709551615, without leading \
             zeros, found \"x\"",
            "2 1 2\n1 0\n2 0 x\n",
        ),
        list(
            "letters for the count",
            "a.txt:2: expected a number of neighbours, found \"x\"",
            "2 1 2\nx 0\n1 0\n",
        ),
        list(
            "an empty line",
            "a.txt:2: expected a number of neighbours, found \"\"",
            "2 1 2\n\n1 0\n",
        ),
        list(
            "a neighbour that is not there",
            "a.txt:3: expected a neighbour below 3, the number of nodes, found \"3\"",
            "2 1 2\n1 0\n1 3\n",
        ),
    ]);
}

#[test]
fn parquet_tables() {
    let integers = |values: &[i64]| column::<Int64Array>(values.to_vec());
    let table = |name, message, columns| {
        edges(name, "e.parquet", message).file("e.parquet", parquet(columns))
    };
    let lists =
        ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), Some([Some(2)])]);
    let mut cut = parquet(vec![("source", integers(&[1, 2])), ("target", integers(&[2, 3]))]);
    cut.truncate(cut.len() - 20);
    check_all(&[
        table(
            "no such columns",
            "e.parquet: no column \"source\" for the source (found a, b): name it with --source",
            vec![("a", integers(&[1, 2])), ("b", integers(&[2, 3]))],
        ),
        table(
            "ids that are floats",
            "e.parquet: column \"source\" has type Float64 (expected integers or strings as ids)",
            vec![("source", column::<Float64Array>(vec![1.0, 2.0])), ("target", integers(&[2, 3]))],
        ),
        table(
            "ids that are lists",
            "e.parquet: column \"target\" has type List(Int32) (expected integers or strings as \
             ids)",
            vec![("source", integers(&[1, 2])), ("target", column::<ListArray>(lists))],
        ),
        table(
            "integers and text",
            "e.parquet: integers in one of \"source\" and \"target\", strings in the other \
             (expected the same)",
            vec![("source", integers(&[1, 2])), ("target", column::<StringArray>(vec!["a", "b"]))],
        ),
        table(
            "a null",
            "e.parquet: row 1 (counting from 0): expected an id, found null",
            vec![
                ("source", integers(&[1, 2])),
                ("target", column::<Int64Array>(vec![Some(2), None])),
            ],
        ),
        table(
            "a null among words",
            "e.parquet: row 1 (counting from 0): expected an id, found null",
            vec![
                ("source", column::<StringArray>(vec![Some("a"), None])),
                ("target", column::<StringArray>(vec!["b", "c"])),
            ],
        ),
        table(
            "a negative id",
            "e.parquet: row 1 (counting from 0): expected an id that is not negative, found -2",
            vec![("source", integers(&[1, -2])), ("target", integers(&[2, 3]))],
        ),
        table(
            "a negative weight",
            "e.parquet: row 1 (counting from 0): expected a finite weight that is not negative, \
             found -0.5",
            vec![
                ("source", integers(&[1, 2])),
                ("target", integers(&[2, 3])),
                ("weight", column::<Float32Array>(vec![1.0, -0.5])),
            ],
        ),
        table(
            "a null as weight",
            "e.parquet: row 1 (counting from 0): expected a finite weight that is not negative, \
             found NaN or null",
            vec![
                ("source", integers(&[1, 2])),
                ("target", integers(&[2, 3])),
                ("weight", column::<Float32Array>(vec![Some(1.0), None])),
            ],
        ),
        table(
            "a weight that is text",
            "e.parquet: column \"weight\" has type Utf8 (expected a number as weight)",
            vec![
                ("source", integers(&[1, 2])),
                ("target", integers(&[2, 3])),
                ("weight", column::<StringArray>(vec!["a", "b"])),
            ],
        ),
        table(
            "no rows",
            "e.parquet: no edges (expected at least one)",
            vec![("source", integers(&[])), ("target", integers(&[]))],
        ),
        edges(
            "a truncated file",
            "e.parquet",
            "e.parquet: damaged Parquet file: Parquet error: Invalid Parquet file. Corrupt footer",
        )
        .file("e.parquet", cut),
        edges(
            "a file that is none",
            "e.txt --format parquet",
            "e.txt: not a Parquet file (it does not start with PAR1)",
        )
        .file("e.txt", "1 2\n"),
        edges(
            "text with the name of a table",
            "e.parquet",
            "e.parquet:2: expected 2 columns, found 1: \"7\"",
        )
        .file("e.parquet", "1 2\n7\n"),
    ]);
}
