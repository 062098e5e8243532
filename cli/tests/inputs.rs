//! Input files that are not what they seem: pipes and devices in place of files, headers whose
//! sizes do not agree with the file, and small files that expand to a lot of data.

use std::process::Command;
use std::sync::Arc;

use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, Int64Array, ListArray, StringArray};

use crate::raw::{column, gzip, npy, parquet};
use crate::sandbox::Sandbox;

/// Address space for jobs with `--memory 64MiB`, in MiB: as in `memory.rs`, and room for stacks and
/// the program's own mappings.
const WITHIN: u64 = 900;

fn with_pipe() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("e.txt", "0 1\n1 2\n").file("spec.toml", "target = \"a\"\nlabels = \"pipe\"\n");
    let made = Command::new("mkfifo").arg(sandbox.path("pipe")).status().unwrap();
    assert!(made.success());
    sandbox
}

#[test]
fn pipes_and_devices_are_refused_at_once() {
    let sandbox = with_pipe();
    let refused = |place: &str, arguments: &str| {
        let mut arguments: Vec<&str> = arguments.split(' ').collect();
        arguments.extend(["--out", "d", "--quiet"]);
        let message = "not a regular file (found a pipe or device, expected a file)";
        sandbox.ignn(&arguments).fails_with(&format!("{place}: {message}"));
    };
    refused("pipe", "ingest edges pipe");
    for option in ["--features", "--labels", "--communities", "--splits", "--nodes-file"] {
        refused("pipe", &format!("ingest edges e.txt {option} pipe"));
    }
    refused("/dev/zero", "ingest edges e.txt --labels /dev/zero");
    refused("/dev/zero", "ingest edges /dev/zero");
    refused("pipe", "ingest dgcnn pipe");
    refused("pipe", "ingest relations pipe");
    refused("/dev/zero", "ingest relations /dev/zero");
    sandbox.file("tu/T_A.txt", "1 2\n").file("tu/T_graph_labels.txt", "1\n");
    let link = |name: &str, to: &str| std::os::unix::fs::symlink(to, sandbox.path(name)).unwrap();
    link("tu/T_graph_indicator.txt", "/dev/zero");
    refused("tu/T_graph_indicator.txt", "ingest tu tu");
}

#[test]
fn standard_input_is_read_if_it_is_a_file() {
    let sandbox = Sandbox::new();
    sandbox.file("e.txt", "0 1\n1 2\n");
    let arguments = ["ingest", "edges", "/dev/stdin", "--out", "d", "--quiet"];
    let mut command = sandbox.command(&arguments);
    command.stdin(std::fs::File::open(sandbox.path("e.txt")).unwrap());
    assert!(command.status().unwrap().success());
}

/// Runs `ingest edges e.txt` with these files and options in bounded memory.
fn bounded(files: &[(&str, &[u8])], options: &[&str]) -> crate::sandbox::Run {
    let sandbox = Sandbox::new();
    for (name, bytes) in files {
        sandbox.file(name, bytes);
    }
    let arguments = ["ingest", "edges", "--out", "d", "--memory", "64MiB", "--quiet"];
    sandbox.ignn_within(WITHIN, &[&arguments, options].concat())
}

const PATH: (&str, &[u8]) = ("e.txt", b"0 1\n1 2\n2 3\n");

#[test]
fn a_number_of_nodes_needs_entries() {
    let header = "%%MatrixMarket matrix coordinate pattern general\n";
    let empty = format!("{header}4294967295 4294967295 0\n");
    bounded(&[("e.mtx", empty.as_bytes())], &["e.mtx"]).fails_with(
        "e.mtx: a matrix of 4294967295 x 4294967295 with only 0 entries, declared on line 2: if it \
         has that many nodes, say so with --nodes 4294967295 (nodes = 4294967295 in a \
         specification)",
    );
    let lies = format!("{header}4294967295 4294967295 4294967295\n1 2\n");
    bounded(&[("e.mtx", lies.as_bytes())], &["e.mtx"]).fails_with(
        "e.mtx: 4294967295 entries declared on line 2, more than the file has room for: truncated \
         or damaged",
    );
    let rows = format!("{header}4000000000 3 1\n1 1\n");
    let run = bounded(&[PATH, ("x.mtx", rows.as_bytes())], &["e.txt", "--features", "x.mtx"]);
    assert!(run.exits(2).stderr.contains("x.mtx: a matrix of 4000000000 x 3 with only 1 entries"));
    let none = npy("<f4", "(4294967295, 0)", b"");
    bounded(&[PATH, ("x.npy", &none)], &["e.txt", "--features", "x.npy"])
        .fails_with("x.npy: no feature columns (expected at least 1)");
}

#[test]
fn a_thousand_relations_take_little_memory() {
    let sandbox = Sandbox::new();
    let mut spec = "target = \"a\"\n".to_string();
    for relation in 0..1000 {
        let (name, other) = (format!("r{relation}.txt"), relation + 1);
        sandbox.file(&name, format!("{relation} {other}\n{other} 7\n"));
        spec += &format!("[relations.r{relation}]\nfile = \"{name}\"\n");
    }
    sandbox.file("spec.toml", spec);
    let arguments = ["ingest", "relations", "spec.toml", "--out", "d", "--memory", "64MiB"];
    let made = sandbox.ignn(&[&arguments[..], &["--quiet", "--json"]].concat()).exits(0).json();
    assert_eq!(made["nodes"], 1001);
    let peak = made["peak_memory_bytes"].as_u64();
    assert!(peak.is_none_or(|peak| peak < 320 << 20), "{peak:?}");
}

#[test]
fn graphs_held_in_memory_fit_in_it() {
    let sandbox = Sandbox::new();
    sandbox.file("s.txt", format!("1\n1 0\n0 0{}\n", " 0.5".repeat(2_250_000)));
    sandbox.ignn(&["ingest", "dgcnn", "s.txt", "--out", "d", "--memory", "16MiB", "--quiet"]).fails_with(
        "s.txt: the graphs, which are held in memory, need 18 MiB or more, but at most 16 MiB may be \
         used for that: raise --memory",
    );
}

#[test]
fn parquet_files_do_not_expand_in_memory() {
    let nodes: ArrayRef = Arc::new(Int64Array::from_iter_values((0..8192).map(|row| row % 4)));
    // One text, to which all rows refer: copies of it would take 8 GiB.
    let long = "x".repeat(1 << 20);
    let texts = StringArray::from_iter_values((0..8).map(|_| &long));
    let texts = arrow_array::DictionaryArray::new(
        arrow_array::Int32Array::from_iter_values((0..8192).map(|_| 0)),
        Arc::new(texts.slice(0, 1)),
    );
    let table = parquet(vec![("node", nodes), ("label", Arc::new(texts))]);
    bounded(&[PATH, ("l.parquet", &table)], &["e.txt", "--labels", "l.parquet"]).exits(0);

    let items = (0..1).map(|_| Some((0..4 << 20).map(|_| Some(1.0))));
    let lists = ListArray::from_iter_primitive::<Float32Type, _, _>(items);
    let table = parquet(vec![("node", column::<Int64Array>(vec![0])), ("x", Arc::new(lists))]);
    assert!(table.len() < 4096, "{}", table.len());
    bounded(&[PATH, ("x.parquet", &table)], &["e.txt", "--features", "x.parquet"]).fails_with(
        "x.parquet: the 4194304 items of column \"x\" in one page need 64 MiB or more, but at most \
         16 MiB may be used for that: raise --memory",
    );
}

#[test]
fn comments_of_any_length_come_before_the_edges() {
    let comments = "# nothing to see here\n".repeat(200_000);
    assert!(comments.len() > 4 << 20);
    let list = gzip(format!("{comments}from,to,weight\n{comments}7,9,0.5\n9,12,x\n"));
    bounded(&[("e.csv", &list)], &["e.csv"])
        .fails_with("e.csv:400003: expected a number as weight, found \"x\"");
    let plain = format!("{comments}7 9\n");
    bounded(&[("e.txt", plain.as_bytes())], &["e.txt"]).exits(0);
    let percent = comments.replace('#', "%");
    let matrix =
        format!("%%MatrixMarket matrix coordinate pattern general\n{percent}3 3 1\n{percent}1 2\n");
    bounded(&[("e.mtx", matrix.as_bytes())], &["e.mtx"]).exits(0);
    bounded(&[("e.txt", comments.as_bytes())], &["e.txt"])
        .fails_with("e.txt: no edges (found only empty lines and comments)");
}

#[test]
fn the_line_that_makes_ids_text_is_named() {
    let sandbox = Sandbox::new();
    sandbox.file("e.txt", "# mixed\n1 2\n3 x\n");
    let run = sandbox.ignn(&["ingest", "edges", "e.txt", "--out", "d"]).exits(0);
    let note = "e.txt:3: the id \"x\" is not an integer, so all ids are text: pass --ids integer \
                to insist on integers";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    assert!(!run.stderr.contains("--header"), "{}", run.stderr);
    sandbox
        .ignn(&["ingest", "edges", "e.txt", "--out", "i", "--ids", "integer", "--quiet"])
        .fails_with(
            "e.txt:3: expected an integer id from 0 to 18446744073709551615 (pass --ids string if \
             ids are text), found \"x\"",
        );
}

/// The ids of the dataset that a list of edges makes, and what the command said.
fn ids_of(name: &str, text: &str, options: &str) -> (Vec<String>, String) {
    let sandbox = Sandbox::new();
    sandbox.file(name, text);
    let mut arguments = vec!["ingest", "edges", name, "--out", "d"];
    arguments.extend(options.split_whitespace());
    let said = sandbox.ignn(&arguments).exits(0).stderr;
    sandbox.ignn(&["export", "d", "--ids", "i.tsv", "-q"]).exits(0);
    let table = sandbox.read("i.tsv");
    let ids = table.lines().skip(1).map(|line| line.rsplit_once('\t').unwrap().0.to_string());
    (ids.collect(), said)
}

#[test]
fn ids_with_leading_zeros_are_text() {
    let (ids, said) = ids_of("e.txt", "7 8\n007 8\n", "");
    assert_eq!(ids, ["007", "7", "8"]);
    let note = "note: e.txt:2: the id \"007\" has a leading zero, so all ids are text: pass --ids \
                integer to insist on integers\n";
    assert!(said.contains(note), "{said}");
    // Also on the first line, which is no header.
    let (ids, said) = ids_of("e.txt", "007 8\n7 8\n", "");
    assert_eq!(ids, ["007", "7", "8"]);
    assert!(said.contains(&note.replace(":2:", ":1:")) && !said.contains("header"), "{said}");
    assert_eq!(ids_of("e.txt", "0 10\n10 20\n", "").0, ["0", "10", "20"]);
    let (ids, said) = ids_of("e.txt", "1 2\n2 18446744073709551616\n", "");
    assert_eq!(ids.len(), 3);
    assert!(said.contains("is above 18446744073709551615, so all ids are text"), "{said}");
    // The ids of labels have the same rule.
    let sandbox = Sandbox::new();
    sandbox.file("e.txt", "7 8\n").file("l.csv", "node,label\n007,a\n");
    let line = ["ingest", "edges", "e.txt", "--labels", "l.csv", "--out", "d", "-q"];
    sandbox.ignn(&line).fails_with(
        "l.csv:2: expected the id of a node of the graph, found \"007\" (unknown: if it is a \
             node without edges, list all nodes with --nodes-file)",
    );
}

#[test]
fn quoted_ids_are_read_as_csv_says() {
    let text = "\"a b\",\"c\"\n\"say \"\"hi\"\"\", \"x,y\" \nc,\" d\"\n";
    let (found, _) = ids_of("e.csv", text, "");
    // The export quotes again what tabs need.
    assert_eq!(found, [" d", "a b", "c", "\"say \"\"hi\"\"\"", "x,y"]);
    let tabs = text.replace("\", \"", "\"\t\"").replace("\",\"", "\"\t\"").replace("c,", "c\t");
    assert_eq!(ids_of("e.tsv", &tabs, "").0, found);
    // Names of columns may be quoted too, and node lists and tables of nodes follow the same rule.
    let sandbox = Sandbox::new();
    sandbox.file("e.csv", "\"my \"\"source\"\"\",to\n\"a \"\"b\"\"\",c\n");
    sandbox
        .file("nodes.txt", "c\n\"a \"\"b\"\"\"\n")
        .file("l.tsv", "node\tlabel\n\"a \"\"b\"\"\"\tx\n");
    let line = ["ingest", "edges", "e.csv", "--source", "my \"source\"", "--out", "d", "-q"];
    let nodes = ["--nodes-file", "nodes.txt", "--labels", "l.tsv"];
    sandbox.ignn(&[&line[..], &nodes].concat()).exits(0);
    sandbox.ignn(&["export", "d", "--labels", "out.csv", "-q"]).exits(0);
    assert_eq!(sandbox.read("out.csv"), "node,label\n\"a \"\"b\"\"\",x\n");
}

#[test]
fn a_first_line_of_names_is_a_header() {
    let note = |first: &str| {
        format!(
            "note: e.csv: the first line is taken as a header: {first}: pass --no-header if it is \
             an edge, or choose columns with --source, --target and --weight\n"
        )
    };
    let columns = "the source is \"person\", the target is \"friend\", there is no weight";
    for options in ["", "--ids string"] {
        let (ids, said) = ids_of("e.csv", "person,friend\n1,2\n2,3\n", options);
        assert_eq!(ids, ["1", "2", "3"]);
        assert!(said.contains(&note(columns)), "{options}: {said}");
    }
    // Names before words, if another column has numbers.
    let (ids, said) = ids_of("e.csv", "person,friend,strength\nann,bob,3\nbob,cleo,4\n", "");
    assert_eq!(ids, ["ann", "bob", "cleo"]);
    assert!(said.contains(&note(columns)), "{said}");
    // An edge of words before integers and words is an edge.
    let (ids, said) = ids_of("e.csv", "a,b\n1,2\nc,d\n", "");
    assert_eq!(ids, ["1", "2", "a", "b", "c", "d"]);
    assert!(said.contains("the first line \"a,b\" is taken as an edge: pass --header"), "{said}");
    let (ids, said) = ids_of("e.csv", "person,friend\n1,2\n", "--no-header");
    assert_eq!(ids, ["1", "2", "friend", "person"]);
    assert!(!said.contains("header"), "{said}");
    // Nothing is said about names that are known.
    assert!(!ids_of("e.csv", "from,to\n1,2\n", "").1.contains("header"));
}

#[test]
fn sums_of_weights_beyond_a_float_are_refused() {
    let edges = ("e.txt", &b"0 1 3e38\n1 0 3e38\n"[..]);
    bounded(&[edges], &["e.txt", "--duplicates", "sum"]).fails_with(
        "e.txt: the weights of the edge between 1 and 0 sum to more than a 32-bit float can \
         represent: scale them down",
    );
    let edges = ("e.txt", &b"0 1 1e-45\n"[..]);
    bounded(&[edges], &["e.txt", "--normalise", "row"]).fails_with(
        "e.txt: the weights of the edges out of node 0 sum to 1.401298464324817e-45, too little to \
         normalise: scale them up",
    );
}
