//! `ignn predict` and `ignn eval` with models made by hand: predictions solve the equation and have
//! the user's ids.

mod graphs;
mod refusals;

use std::path::Path;
use std::process::Command;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use ignn::config::Config;
use ignn::dense::Matrix;
use ignn::graph::Graph;
use ignn::models::Model;
use ignn::nn::Slot;
use ignn_format::labels::LabelKind;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::sandbox::Sandbox;

/// Edges of the graph, by position of the nodes a to f.
const EDGES: [(usize, usize); 6] = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)];
const FEATURES: [[f64; 3]; 6] = [
    [1.0, 0.0, 0.5],
    [0.0, 1.0, 0.0],
    [0.25, 0.0, 1.0],
    [0.0, 0.0, 1.0],
    [1.0, 1.0, 0.0],
    [0.0, 0.5, 0.5],
];
const W: [[f32; 2]; 2] = [[0.5, -0.25], [0.125, 0.5]];
const OMEGA: [[f32; 3]; 2] = [[1.0, -0.5, 0.25], [-0.75, 1.0, 0.5]];
const THETA: [[f32; 2]; 2] = [[2.0, -1.0], [-1.0, 1.5]];
const BIAS: [[f32; 2]; 1] = [[0.125, -0.25]];

/// The graph with features, labels of all nodes except f, and a split. Ids are 10, 20, ... if
/// `integers`.
fn ingest(sandbox: &Sandbox, name: &str, labels: &str, integers: bool) {
    let id = |node: usize| match integers {
        true => (10 * (node + 1)).to_string(),
        false => "abcdef"[node..=node].to_string(),
    };
    let edges = EDGES.iter().map(|&(from, to)| format!("{} {}\n", id(from), id(to)));
    sandbox.file("edges.txt", edges.collect::<String>());
    let features = FEATURES.iter().enumerate();
    let features = features.map(|(node, [x, y, z])| format!("{},{x},{y},{z}\n", id(node)));
    sandbox.file("x.csv", format!("node,x,y,z\n{}", features.collect::<String>()));
    let labels = labels.split_whitespace().map(|label| {
        let (node, class) = label.split_once(':').unwrap();
        format!("{},{class}\n", id("abcdef".find(node).unwrap()))
    });
    sandbox.file("labels.csv", format!("node,label\n{}", labels.collect::<String>()));
    let parts = ["train", "train", "valid", "test", "test", "test"];
    let parts = parts.iter().enumerate().map(|(node, part)| format!("{},{part}\n", id(node)));
    sandbox.file("splits.csv", format!("node,split\n{}", parts.collect::<String>()));
    let options = "--features x.csv --labels labels.csv --splits splits.csv -q";
    let command = format!("ingest edges edges.txt --out {name} {options}");
    sandbox.ignn(&words(&command)).exits(0);
}

const SINGLE: &str = "a:red b:blue c:red d:red e:blue";
const SETS: &str = "a:red b:blue c:red c:blue d:red e:blue e:red";

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn matrix<const C: usize>(rows: &[[f32; C]]) -> Matrix {
    Matrix::from_fn(rows.len(), C, |row, col| rows[row][col])
}

fn value(name: &str, value: Matrix) -> (Slot, Matrix) {
    let is_bias = name.ends_with("bias");
    (Slot { name: name.into(), shape: (value.rows(), value.cols()), is_bias }, value)
}

/// Classes red and blue from two states.
fn model(labels: LabelKind) -> Model {
    let mut config = Config::default();
    config.model.state = vec![2];
    let values = vec![
        value("layer0.W", matrix(&W)),
        value("layer0.Omega", matrix(&OMEGA)),
        value("head.Theta", matrix(&THETA)),
        value("head.bias", matrix(&BIAS)),
    ];
    let classes = ["red", "blue"].map(String::from).to_vec();
    let (dataset, nodes, scaling, encoding) = (String::new(), None, None, None);
    Model { config, classes, labels, scaling, encoding, dataset, nodes, values }
}

fn checksum(path: &Path) -> String {
    Graph::open(path).unwrap().manifest().checksum()
}

/// States and logits of the model on the graph, in f64: the equation repeated on a dense matrix.
fn by_hand() -> (Vec<[f64; 2]>, Vec<[f64; 2]>) {
    let mut a = [[0.0; 6]; 6];
    for &(i, j) in &EDGES {
        (a[i][j], a[j][i]) = (1.0, 1.0);
    }
    (0..6).for_each(|i| a[i][i] = 1.0);
    let sums = a.map(|row| row.iter().sum::<f64>());
    for i in 0..6 {
        (0..6).for_each(|j| a[i][j] /= (sums[i] * sums[j]).sqrt());
    }
    let gather = |x: &dyn Fn(usize) -> f64, i: usize| (0..6).map(|j| a[i][j] * x(j)).sum::<f64>();
    let mut states = vec![[0.0; 2]; 6];
    for _ in 0..200 {
        let old = states.clone();
        for (i, state) in states.iter_mut().enumerate() {
            for k in 0..2 {
                let hidden =
                    (0..2).map(|l| f64::from(W[k][l]) * gather(&|j| old[j][l], i)).sum::<f64>();
                let input = (0..3).map(|l| f64::from(OMEGA[k][l]) * gather(&|j| FEATURES[j][l], i));
                state[k] = (hidden + input.sum::<f64>()).max(0.0);
            }
        }
    }
    let logit = |x: &[f64; 2], k: usize| {
        f64::from(THETA[k][0]) * x[0] + f64::from(THETA[k][1]) * x[1] + f64::from(BIAS[0][k])
    };
    let logits = states.iter().map(|x| [logit(x, 0), logit(x, 1)]).collect();
    (states, logits)
}

/// The cells of a CSV without quotes, without its header.
fn cells(text: &str) -> Vec<Vec<&str>> {
    text.lines().skip(1).map(|line| line.split(',').collect()).collect()
}

#[track_caller]
fn assert_near(found: &str, expected: f64) {
    let found: f64 = found.parse().unwrap();
    assert!((found - expected).abs() < 1e-4, "found {found}, expected {expected}");
}

#[test]
fn predictions_solve_the_equation() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SINGLE, false);
    let mut model = model(LabelKind::Single);
    model.dataset = checksum(&sandbox.path("d"));
    std::fs::create_dir(sandbox.path("run")).unwrap();
    model.save(sandbox.path("run/model.safetensors")).unwrap();
    let run = sandbox
        .ignn(&words("predict d --model run --out p.csv --embeddings x.tsv --json -q"))
        .exits(0);
    assert_eq!(run.stderr, "");
    let (states, logits) = by_hand();
    let text = sandbox.read("p.csv");
    assert!(text.starts_with("id,predicted,probability,p_red,p_blue\n"), "{text}");
    let predicted = |node: usize| if logits[node][0] >= logits[node][1] { "red" } else { "blue" };
    for (node, row) in cells(&text).iter().enumerate() {
        let red = 1.0 / (1.0 + (logits[node][1] - logits[node][0]).exp());
        assert_eq!(row[..2], [&"abcdef"[node..=node], predicted(node)]);
        assert_near(row[2], red.max(1.0 - red));
        assert_near(row[3], red);
        assert_near(row[4], 1.0 - red);
    }
    assert_eq!(cells(&text).len(), 6);
    let text = sandbox.read("x.tsv");
    assert!(text.starts_with("id\tx0\tx1\na\t"), "{text}");
    for (state, line) in states.iter().zip(text.lines().skip(1)) {
        line.split('\t')
            .skip(1)
            .zip(state)
            .for_each(|(found, expected)| assert_near(found, *expected));
    }
    // The library gives the same numbers.
    let predicted_here = model.predict(&Graph::open(sandbox.path("d")).unwrap()).unwrap();
    for (node, expected) in logits.iter().enumerate() {
        let row = predicted_here.logits().row(node);
        assert!(row.iter().zip(expected).all(|(x, y)| (f64::from(*x) - y).abs() < 1e-3));
        assert!(
            (f64::from(predicted_here.embeddings().row(node)[1]) - states[node][1]).abs() < 1e-4
        );
    }
    // Scores, computed independently.
    let report = run.json();
    assert_eq!(
        (&report["trained_on_this_dataset"], &report["certified"]),
        (&true.into(), &true.into())
    );
    assert_eq!(report["solve"]["converged"], true);
    let error = |name: &str| report["solve"]["certified_error"][name].as_f64().unwrap();
    let size = states.iter().flatten().fold(0.0f64, |size, x| size.max(x.abs()));
    assert!(error("largest") < 1e-4 && error("at_least") <= error("largest"), "{report}");
    assert!((error("relative") * size / error("largest") - 1.0).abs() < 1e-3, "{report}");
    assert!(report["solve"]["estimated_error"].as_f64().unwrap() <= error("relative"));
    // The same bounds, compared with a solution in f64.
    let bench = words("bench solve d --model run --methods auto --repeat 1 --exact -q");
    sandbox.ignn(&bench).exits(0).says("true error").says("tight");
    let bench = sandbox.ignn(&[bench, words("--json")].concat()).exits(0).json();
    for solve in bench["solves"].as_array().unwrap() {
        let error = |name: &str| solve["relative_errors"][name].as_f64().unwrap();
        let (truth, within) = (error("true"), error("true_within"));
        assert!(truth <= error("tight_bound") + within, "{solve}");
        assert!(truth >= error("at_least") - within, "{solve}");
        assert!(error("tight_bound") <= error("bound_of_last_sweep"), "{solve}");
    }
    assert_eq!(
        report["files"],
        serde_json::json!([{"file": "p.csv", "rows": 6}, {"file": "x.tsv", "rows": 6}])
    );
    let truth = ["red", "blue", "red", "red", "blue"];
    for (part, nodes, all) in [(0, 0..2, 2), (1, 2..3, 1), (2, 3..5, 3)] {
        let scores = &report["evaluation"]["parts"][part];
        let labelled = nodes.len();
        let right = nodes.filter(|&node| predicted(node) == truth[node]).count();
        assert_eq!((&scores["nodes"], &scores["labelled"]), (&all.into(), &labelled.into()));
        assert_eq!(scores["accuracy"], right as f64 / labelled as f64, "{scores}");
    }
}

#[test]
fn the_nodes_of_a_part_with_their_best_classes() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SINGLE, true);
    model(LabelKind::Single).save(sandbox.path("m.safetensors")).unwrap();
    let run = sandbox
        .ignn(&words("predict d --model m.safetensors --out p.csv --part testing --top 5 -q"));
    run.exits(0).says("trained on   unknown").says("p.csv: 3 rows").says("test      3         2");
    let text = sandbox.read("p.csv");
    let header = "id,predicted,probability,class_1,probability_1,class_2,probability_2";
    assert_eq!(text.lines().next(), Some(header));
    for row in cells(&text) {
        assert_eq!((row[1], row[2]), (row[3], row[4]));
        assert_ne!(row[3], row[5]);
        assert_near(row[6], 1.0 - row[4].parse::<f64>().unwrap());
    }
    assert_eq!(cells(&text).iter().map(|row| row[0]).collect::<Vec<_>>(), ["40", "50", "60"]);
    let again = words(
        "predict d --model m.safetensors --out q.csv --split default --part test --top 5 -q \
         --threads 1",
    );
    sandbox.ignn(&again).exits(0);
    assert_eq!(sandbox.read("q.csv"), text);
    let wrong = words("predict d --model m.safetensors --out r.csv --part tset -q");
    let message = "d: split \"default\" has no part \"tset\" (it has: train, valid, test)";
    sandbox.ignn(&wrong).fails_with(message);
    let wrong = words("predict d --model m.safetensors --out r.csv --split other --part test -q");
    let message = "d: the dataset has no split \"other\" (it has: default)";
    sandbox.ignn(&wrong).fails_with(message);
    let wrong = words("predict d --model m.safetensors --out r.csv --split other -q");
    sandbox.ignn(&wrong).fails_with(message);
}

#[test]
fn a_split_is_a_split_and_a_part_a_part() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SINGLE, true);
    model(LabelKind::Single).save(sandbox.path("m.safetensors")).unwrap();
    let predict = |options: &str| {
        let line = format!("predict d --model m.safetensors --out p.csv --force --json {options}");
        let report = sandbox.ignn(&words(&line)).exits(0).json();
        (sandbox.read("p.csv").lines().count() - 1, report["notes"].clone())
    };
    assert_eq!(predict("--split default"), (6, serde_json::json!([])));
    // As earlier versions took it, where nothing else can be meant.
    let note = "--split test is a part: write --part test";
    assert_eq!(predict("--split test"), (3, serde_json::json!([note])));
    let note = "--split default:valid is a part: write --part valid --split default";
    assert_eq!(predict("--split default:valid -q"), (1, serde_json::json!([note])));
    sandbox.file("splits.csv", "node,test,b\n10,train,test\n20,test,train\n30,test,test\n");
    let line = "ingest edges edges.txt --features x.csv --labels labels.csv --splits splits.csv";
    sandbox.ignn(&words(&format!("{line} --out d --force -q"))).exits(0);
    let mut model = model(LabelKind::Single);
    model.config.train.split = "b".into();
    model.save(sandbox.path("m.safetensors")).unwrap();
    let both = words("predict d --model m.safetensors --out q.csv --split test -q");
    sandbox.ignn(&both).fails_with(
        "--split test: a split and a part have this name: pass --part test for the part, or \
         --split test with --part PART",
    );
    assert_eq!(predict("--part test").0, 2);
    assert_eq!(predict("--split test --part test").0, 2);
    assert_eq!(predict("--split test --part train").0, 1);
}

#[test]
fn multiple_labels_are_lists() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SETS, true);
    model(LabelKind::Multi).save(sandbox.path("m.safetensors")).unwrap();
    let run =
        words("predict d --model m.safetensors --out p.parquet --embeddings x.parquet --json -q");
    let report = sandbox.ignn(&run).exits(0).json();
    let (_, logits) = by_hand();
    let file = std::fs::File::open(sandbox.path("p.parquet")).unwrap();
    let mut reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let batch = reader.next().unwrap().unwrap();
    let names: Vec<_> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["id", "predicted", "probabilities", "p_red", "p_blue"]);
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values()[..], [10, 20, 30, 40, 50, 60]);
    let mut hits = 0;
    for (node, logits) in logits.iter().enumerate() {
        let expected: Vec<_> =
            (0..2).filter(|&k| logits[k] >= 0.0).map(|k| ["red", "blue"][k]).collect();
        let found = batch.column(1).as_list::<i32>().value(node);
        assert_eq!(found.as_string::<i32>().iter().flatten().collect::<Vec<_>>(), expected);
        let likely = batch.column(2).as_list::<i32>().value(node);
        assert!(likely.as_primitive::<Float32Type>().values().iter().all(|p| *p >= 0.5));
        assert_eq!(likely.len(), expected.len());
        let p = f64::from(batch.column(4).as_primitive::<Float32Type>().value(node));
        assert!((p - 1.0 / (1.0 + (-logits[1]).exp())).abs() < 1e-4);
        let truth: Vec<_> =
            SETS.split(' ').filter(|label| label.starts_with(&"abcdef"[node..=node])).collect();
        hits += expected
            .iter()
            .filter(|class| truth.iter().any(|label| label.ends_with(*class)))
            .count();
    }
    let classes =
        |part: usize| report["evaluation"]["parts"][part]["classes"].as_array().unwrap().clone();
    let recalled = |line: &serde_json::Value| {
        (line["recall"].as_f64().unwrap() * line["support"].as_f64().unwrap()).round() as usize
    };
    let counted: usize = (0..3).map(|part| classes(part).iter().map(recalled).sum::<usize>()).sum();
    assert_eq!(counted, hits);
    assert!(report["evaluation"]["parts"][0]["top_k_micro_f1"].is_number());
    sandbox.ignn(&words("predict d --model m.safetensors --out p.csv --top 1 -q")).exits(0);
    let text = sandbox.read("p.csv");
    assert!(text.starts_with("id,predicted,probabilities,class_1,probability_1\n10,"), "{text}");
    assert!(text.contains("[\"\"red\"\"") || text.contains("[\"\"blue\"\""), "{text}");
}

#[test]
fn python_reads_the_tables() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SETS, false);
    model(LabelKind::Multi).save(sandbox.path("m.safetensors")).unwrap();
    sandbox.ignn(&words("predict d --model m.safetensors --out p.parquet -q")).exits(0);
    // Each makes `t`: lists of cells by column.
    let readers = [
        "import pyarrow.parquet as q; t = q.read_table('p.parquet').to_pydict()",
        "import pandas; t = pandas.read_parquet('p.parquet').to_dict('list')",
        "import polars; t = polars.read_parquet('p.parquet').to_dict(as_series=False)",
        "import duckdb; r = duckdb.sql(\"from 'p.parquet'\"); t = dict(zip(r.columns, zip(*r.fetchall())))",
    ];
    let check = "print(list(t), list(t['id']), [';'.join(x) for x in t['predicted']])";
    let (_, logits) = by_hand();
    let name = |logits: &[f64; 2]| {
        let predicted = ["red", "blue"].into_iter().zip(logits).filter(|(_, logit)| **logit >= 0.0);
        predicted.map(|(class, _)| class).collect::<Vec<_>>().join(";")
    };
    let predicted: Vec<_> = logits.iter().map(|logits| format!("'{}'", name(logits))).collect();
    let columns = "['id', 'predicted', 'probabilities', 'p_red', 'p_blue']";
    let expected = format!("{columns} ['a', 'b', 'c', 'd', 'e', 'f'] [{}]", predicted.join(", "));
    let mut is_read = false;
    for read in readers {
        let mut python = Command::new("python3");
        let python = python.args(["-c", &format!("{read}\n{check}")]).current_dir(sandbox.path(""));
        let Ok(output) = python.output() else { break };
        let errors = String::from_utf8_lossy(&output.stderr);
        // pandas without pyarrow says so in an ImportError.
        if errors.contains("ModuleNotFoundError") || errors.contains("ImportError") {
            continue;
        }
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{read}: {errors}");
        is_read = true;
    }
    if !is_read {
        println!("skipped: no Python with pyarrow, pandas, polars or duckdb");
    }
}

#[test]
fn scores_by_part_and_class() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SINGLE, false);
    model(LabelKind::Single).save(sandbox.path("m.safetensors")).unwrap();
    let run = sandbox.ignn(&words("eval d --model m.safetensors -q")).exits(0);
    let run = run.says(
        "split default\n  part   nodes  labelled  accuracy  balanced accuracy  micro-F1  macro-F1  ",
    );
    let run = run.says("classes of part test\n  class  precision").says("confusion in part test\n");
    run.says("contraction  at most 0.")
        .says("certified: norm of W times the spectral bound of the graph is 0.7500, below 1");
    let run = sandbox.ignn(&words("eval d --model m.safetensors --part dev -q")).exits(0);
    run.says("confusion in part valid\n");
    let report = sandbox.ignn(&words("eval d --model m.safetensors -q --json")).exits(0).json();
    let parts = report["evaluation"]["parts"].as_array().unwrap();
    for part in parts {
        let rows = part["confusion"].as_array().unwrap().iter();
        let sum: u64 =
            rows.flat_map(|row| row.as_array().unwrap()).map(|x| x.as_u64().unwrap()).sum();
        assert_eq!(part["labelled"], sum);
        assert_eq!(part["classes"][1]["name"], "blue");
    }
    assert_eq!((report["evaluation"]["split"].as_str(), parts.len()), (Some("default"), 3));
    // The same labels with classes in another order, and one class that the model does not know.
    ingest(&sandbox, "e", "f:azure a:red b:blue c:red d:red e:blue", false);
    let run = sandbox.ignn(&words("eval e --model m.safetensors --json")).exits(0);
    let note = "note: 1 label of 1 class that the model does not know: not scored\n";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    let other = run.json();
    assert_eq!(other["evaluation"]["unknown_classes"], serde_json::json!(["azure"]));
    assert_eq!(other["evaluation"]["parts"], report["evaluation"]["parts"]);
}

#[test]
fn more_nodes_than_are_read_out_at_once() {
    let sandbox = Sandbox::new();
    sandbox
        .ignn(&words("generate grid --rows 300 --columns 300 --coordinates --out d -q"))
        .exits(0);
    let mut model = model(LabelKind::Single);
    model.values[1] = value("layer0.Omega", matrix(&[[1.0, -0.5], [-0.25, 0.75]]));
    model.config.model.normalise_state = true;
    model.config.model.dropout = 0.5;
    model.save(sandbox.path("m.safetensors")).unwrap();
    let run = "predict d --model m.safetensors --out p.csv --embeddings x.csv -q";
    let run = sandbox.ignn(&words(run)).exits(0).says("p.csv: 90,000 rows\nx.csv: 90,000 rows\n");
    assert!(!run.stdout.contains("split"), "no labels, no scores: {}", run.stdout);
    let (predictions, states) = (sandbox.read("p.csv"), sandbox.read("x.csv"));
    let (predictions, states) = (cells(&predictions), cells(&states));
    assert_eq!((predictions.len(), states.len()), (90_000, 90_000));
    for (node, (row, state)) in predictions.iter().zip(&states).enumerate() {
        assert_eq!((row[0], state[0]), (node.to_string().as_str(), row[0]));
        let x: Vec<f64> = state[1..].iter().map(|x| x.parse().unwrap()).collect();
        let length = x[0].hypot(x[1]).max(1e-12);
        let logit = |k: usize| {
            let theta = THETA[k].map(f64::from);
            (theta[0] * x[0] + theta[1] * x[1]) / length + f64::from(BIAS[0][k])
        };
        assert_near(row[3], 1.0 / (1.0 + (logit(1) - logit(0)).exp()));
    }
}
