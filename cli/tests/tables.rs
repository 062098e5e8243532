//! One table with everything about the nodes: from CSV and Parquet to a dataset, a model, and
//! predictions for a new table; for classes and for numbers.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::{Float64Array, StringArray};
use ignn_format::DatasetDir;
use ignn_format::encoding::Rule;

use crate::crossval::words;
use crate::raw::parquet;
use crate::sandbox::Sandbox;

/// People in two teams: reds are young and live in Bonn or Rome, blues are older and live in Rome or
/// Oslo. Friends are of the same team. The price depends on the age alone.
fn people(first: usize, count: usize) -> (String, String) {
    let mut nodes = String::from("id,team,age,income,city,price,part\n");
    let mut edges = String::from("from,to,since\n");
    for i in first..first + count {
        let (team, base, cities) = match i % 2 {
            0 => ("red", 20, ["Bonn", "Rome"]),
            _ => ("blue", 40, ["Rome", "Oslo"]),
        };
        let age = base + (i * 7) % 11;
        let income = if i % 9 == 4 { "NA".into() } else { format!("{}", 1000 + 10 * (i % 30)) };
        let city = cities[(i / 2) % 2];
        let part = ["train", "train", "val", "test"][(i / 2) % 4];
        writeln!(nodes, "p{i},{team},{age},{income},{city},{},{part}", 1000 + 50 * age).unwrap();
        for step in [2, 6] {
            writeln!(edges, "p{i},p{},2020", first + (i - first + step) % count).unwrap();
        }
    }
    (nodes, edges)
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, first, count) in [("", 0, 80), ("new-", 200, 24)] {
        let (nodes, edges) = people(first, count);
        sandbox.file(&format!("{name}nodes.csv"), nodes);
        sandbox.file(&format!("{name}edges.csv"), edges);
    }
    sandbox
}

/// Features of all nodes, row by row.
fn features(sandbox: &Sandbox, name: &str) -> Vec<Vec<f32>> {
    let dataset = DatasetDir::open(sandbox.path(name)).unwrap();
    let columns = dataset.features().unwrap().columns as usize;
    let mut rows = vec![0.0; dataset.nodes() as usize * columns];
    dataset.read_dense(0, &mut rows, columns).unwrap();
    rows.chunks(columns).map(<[f32]>::to_vec).collect()
}

#[test]
fn columns_that_are_probably_a_mistake_are_noted() {
    let sandbox = Sandbox::new();
    let mut nodes = String::from("id,price,same,value\n");
    for i in 0..40 {
        writeln!(nodes, "p{i},\"{},399\",5,{}.25", i + 1, i).unwrap();
    }
    let edges: String = (0..40).map(|i| format!("p{i},p{}\n", (i + 1) % 40)).collect();
    sandbox.file("nodes.csv", nodes).file("edges.csv", format!("from,to\n{edges}"));
    let run = sandbox.ignn(&words(
        "ingest edges edges.csv --nodes nodes.csv --label value --features price,same --out d",
    ));
    let stderr = run.exits(0).stderr;
    for note in [
        "column \"price\": values such as \"1,399\" are read as words",
        "column \"same\": the same number at all training nodes",
        "column \"value\": 40 classes whose names are numbers",
    ] {
        assert!(stderr.contains(note), "{stderr}");
    }
}

#[test]
fn a_table_becomes_classes_and_a_new_table_is_encoded_alike() {
    let sandbox = sandbox();
    let run = sandbox.ignn(&words(
        "ingest edges edges.csv --nodes nodes.csv --label team --features age,income,city \
         --split-column part --out d -q",
    ));
    run.exits(0)
        .says("features     6 columns, dense\n")
        .says("age: a number, mean ")
        .says("income: a number, mean ")
        .says(", and whether it is missing\n")
        .says("city: 3 words, one column each\n")
        .says("labels       2 classes, 80 labelled nodes, one per node\n")
        .says("split        default: train 40, val 20, test 20\n");
    let rows = features(&sandbox, "d");
    // Ages of the training nodes have mean 0 and deviation 1, those of all nodes need not.
    let train = |row: &usize| (row / 2) % 4 < 2;
    let ages: Vec<f32> = (0..80).filter(train).map(|row| rows[row][0]).collect();
    let mean = ages.iter().sum::<f32>() / 40.0;
    let variance = ages.iter().map(|age| (age - mean).powi(2)).sum::<f32>() / 40.0;
    assert!(mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-5, "{mean} {variance}");
    // Node 4 lacks an income: the mean, and an indicator. It lives in Bonn.
    assert_eq!(rows[4][1..], [0.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(rows[3][3..], [0.0, 1.0, 0.0], "Oslo is between Bonn and Rome");

    sandbox.ignn(&words("train d --out run --epochs 40 --set model.state=8 -q")).exits(0);
    let eval = sandbox.ignn(&words("eval d --model run --json -q")).exits(0).json();
    let test = &eval["evaluation"]["parts"][2];
    assert!(test["accuracy"].as_f64().unwrap() > 0.9, "{test}");
    for score in ["balanced_accuracy", "roc_auc", "average_precision"] {
        assert!(test[score].as_f64().unwrap() > 0.9, "{score}: {test}");
    }
    assert!(test["log_loss"].as_f64().unwrap() < 0.5 && test["r2"].is_null(), "{test}");

    // A new table, encoded by the model; one of the cities is unknown.
    let nodes = sandbox.read("new-nodes.csv").replacen("Rome", "Paris", 1);
    sandbox.file("new-nodes.csv", nodes);
    let encode = "ingest edges new-edges.csv --nodes new-nodes.csv --out new --encode-as";
    let run = sandbox.ignn(&words(&format!("{encode} run --label team"))).exits(0);
    let note = "note: new-nodes.csv: column \"city\": words that no training node has, such as \
                \"Paris\", got zeros: 1 nodes\n";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    let encoding =
        |name: &str| DatasetDir::open(sandbox.path(name)).unwrap().manifest().encoding.clone();
    assert_eq!(encoding("new"), encoding("d"));
    let run = sandbox.ignn(&words("predict new --model run --out p.csv --json -q")).exits(0);
    let all = &run.json()["evaluation"]["parts"][0];
    assert!(all["accuracy"].as_f64().unwrap() > 0.9, "{all}");
    assert!(sandbox.read("p.csv").starts_with("id,predicted,probability,p_blue,p_red\np200,red,"));
    // The dataset keeps the encoding as well.
    sandbox.ignn(&words(&format!("{encode} d --force -q"))).exits(0);
    assert_eq!(encoding("new"), encoding("d"));

    // Encoded by its own statistics, the same table means something else to the model.
    let own =
        "ingest edges new-edges.csv --nodes new-nodes.csv --features age,income,city --out own -q";
    sandbox.ignn(&words(own)).exits(0);
    sandbox.ignn(&words("predict own --model run --out q.csv -q")).fails_with(
        "run/model.safetensors: the model reads the columns of a node table as it was encoded for \
         its training (found another encoding of column \"age\" in own): make the dataset with \
         `ignn ingest ... --encode-as run/model.safetensors`",
    );
}

#[test]
fn a_table_becomes_numbers_in_their_own_unit() {
    let sandbox = sandbox();
    let run = sandbox.ignn(&words(
        "ingest edges edges.csv --nodes nodes.csv --regress price --features age,city \
         --split-column part --out d -q",
    ));
    run.exits(0).says("labels       a number, 80 labelled nodes\n");
    sandbox.ignn(&words("inspect d -q")).exits(0).says("the number price, 80 labelled nodes");
    sandbox.ignn(&words("check d -q")).exits(0);
    let train = "train d --epochs 150 --set model.state=8 --set model.dropout=0 --set \
                 model.input=both --out run -q";
    sandbox.ignn(&words(train)).exits(0).says("test R2").says("test RMSE").says("test MAE");
    let eval = sandbox.ignn(&words("eval d --model run -q")).exits(0);
    let eval = eval.says("  part   nodes  labelled       R2");
    assert!(!eval.stdout.contains("accuracy") && !eval.stdout.contains("classes of"));
    let report = sandbox.ignn(&words("eval d --model run --json -q")).exits(0).json();
    let test = &report["evaluation"]["parts"][2];
    assert!(test["r2"].as_f64().unwrap() > 0.9, "{test}");
    assert!(test["error_bound"].as_f64().unwrap() < 10.0, "{test}");
    assert!(test["accuracy"].is_null() && test["roc_auc"].is_null(), "{test}");

    let encode = "ingest edges new-edges.csv --nodes new-nodes.csv --encode-as run --out new -q";
    sandbox.ignn(&words(encode)).exits(0);
    sandbox.ignn(&words("predict new --model run --out p.csv -q")).exits(0);
    let table = sandbox.read("p.csv");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("id,predicted,error_bound"));
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let node: usize = cells[0][1..].parse().unwrap();
        let age = (if node.is_multiple_of(2) { 20 } else { 40 }) + (node * 7) % 11;
        let [predicted, bound] = [1, 2].map(|at| cells[at].parse::<f64>().unwrap());
        assert!((predicted - (1000 + 50 * age) as f64).abs() < 400.0, "{line}, age {age}");
        assert!(bound > 0.0 && bound < 10.0, "{line}");
    }
    sandbox.ignn(&words("report run --out r.html -q")).exits(0);
    assert!(sandbox.read("r.html").contains("RMSE"));
    sandbox.ignn(&words("export d --labels l.csv -q")).exits(0);
    assert!(sandbox.read("l.csv").starts_with("node,label\np0,2000\np1,"));
    // The labels may come from a file of their own.
    let other = "ingest edges edges.csv --labels l.csv --regress label --out e -q";
    sandbox.ignn(&words(other)).exits(0).says("a number, 80 labelled nodes");

    // It has no node table, and so no encoding.
    sandbox
        .ignn(&words("ingest edges edges.csv --nodes nodes.csv --encode-as e --out x -q"))
        .fails_with(
            "e: no encoding of a node table (expected one made with `--nodes TABLE --features`)",
        );

    // Numbers whose squares overflow leave nothing behind.
    sandbox.file("large.csv", sandbox.read("nodes.csv").replacen(",2000,", ",-2e200,", 1));
    let large = "ingest edges edges.csv --nodes large.csv --regress price --split-column part";
    sandbox.ignn(&words(&format!("{large} --out large -q"))).exits(0);
    sandbox.ignn(&words("train large --out x -q")).fails_with(
        "labels: the number -2e200 of \"price\" is too large (expected 1e100 at most in size): \
         divide the numbers by a fixed one, or leave this one out, and ingest again",
    );
    assert!(!sandbox.path("x").exists());

    // What has a meaning for classes only is refused, and the other way round.
    let refused = |arguments: &str, message: &str| {
        sandbox.ignn(&words(&format!("{arguments} -q"))).fails_with(message);
    };
    refused(
        "train d --out x --set train.monitor=accuracy",
        "train.monitor: accuracy is no score of the dataset's labels (found numbers): use r2, rmse, \
         mae, loss or auto",
    );
    refused(
        "train d --out x --set train.loss=cross-entropy",
        "train.loss: cross-entropy does not fit the dataset's labels (found numbers, expected one \
         class per node): use train.loss=squared, absolute or auto",
    );
    refused(
        "train d --out x --set train.class_weights=balanced",
        "train.class_weights: needs classes (found numbers, \"price\"): use \
         train.class_weights=none",
    );
    refused(
        "train d --out x --set model.kind=label-propagation",
        "model.kind: needs classes (found numbers, \"price\"): use another kind, such as sgc or gcn",
    );
    refused(
        "train d --out x --set train.task=classification",
        "train.task: classification needs classes (found numbers, \"price\"): make the dataset with \
         `ignn ingest ... --label price`, or use train.task=regression",
    );
    refused(
        "predict d --model run --out x.csv --top 2",
        "--top: the model predicts a number, \"price\", and no classes: leave --top out",
    );
    let one =
        "ingest edges edges.csv --nodes nodes.csv --label team --split-column part --out c -q";
    sandbox.ignn(&words(one)).exits(0);
    refused(
        "train c --out x --set train.monitor=rmse",
        "train.monitor: rmse is no score of the dataset's labels (found one class per node): use \
         accuracy, balanced-accuracy, micro-f1, macro-f1, roc-auc, average-precision, log-loss, \
         loss or auto",
    );
    refused(
        "train c --out x --set train.loss=absolute",
        "train.loss: absolute does not fit the dataset's labels (found one class per node, expected \
         numbers): use train.loss=cross-entropy or auto",
    );
    refused(
        "train c --out x --set train.task=regression",
        "train.task: regression needs numbers (found the class \"blue\"): make the dataset with \
         `ignn ingest ... --regress COLUMN`, or use train.task=classification",
    );
    // Classes whose names are numbers are numbers if the task says so.
    let ages =
        "ingest edges edges.csv --nodes nodes.csv --label age --split-column part --out a -q";
    sandbox.ignn(&words(ages)).exits(0);
    let train = "train a --out arun --epochs 3 --set train.task=regression -q";
    sandbox.ignn(&words(train)).exits(0).says("test R2");
    sandbox.ignn(&words("eval a --model arun -q")).exits(0).says("RMSE");
}

#[test]
fn nodes_are_cross_validated() {
    let sandbox = sandbox();
    let text = sandbox.read("nodes.csv").replacen("blue", "NA", 1);
    sandbox.file("nodes.csv", text);
    let small = "--folds 4 --epochs 40 --set model.state=4 --set model.dropout=0 --set \
                 model.input=both -q";
    let ingest = "ingest edges edges.csv --nodes nodes.csv --features age --force -q --out d";
    // Classes; the node without one is in no fold. No split is needed.
    sandbox.ignn(&words(&format!("{ingest} --label team"))).exits(0);
    let run = sandbox.ignn(&words(&format!("crossval d {small} --out classes"))).exits(0);
    run.says("fold     nodes  epoch").says("accuracy on test");
    let folds = sandbox.read("classes/folds.csv");
    assert!(folds.starts_with("node,fold\np0,") && !folds.contains("p1,"), "{folds}");
    assert_eq!(folds.lines().count(), 80);
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_str(&sandbox.read(&format!("{name}/crossval.json"))).unwrap()
    };
    let classes = json("classes");
    assert!(classes["summary"]["validation"]["mean"].as_f64().unwrap() > 0.9, "{classes}");
    assert_eq!((&classes["item"], &classes["summary"]["errors"]), (&"node".into(), &().into()));
    // Numbers, and classes that are read as numbers.
    sandbox.ignn(&words(&format!("{ingest} --regress price"))).exits(0);
    sandbox.ignn(&words(&format!("crossval d {small} --out numbers"))).exits(0).says("R2 on test");
    let numbers = json("numbers");
    assert!(numbers["summary"]["validation"]["mean"].as_f64().unwrap() > 0.9, "{numbers}");
    assert!(numbers["summary"]["errors"]["rmse"]["mean"].as_f64().unwrap() < 300.0, "{numbers}");
    assert_eq!(numbers["folds"][0]["graphs"], serde_json::json!([40, 20, 20]));
    sandbox.ignn(&words(&ingest.replace("--features age", "--label age"))).exits(0);
    let wanted = "crossval d --folds 4 --epochs 3 --set train.task=regression -q";
    sandbox.ignn(&words(wanted)).exits(0).says("R2 on test");
    sandbox.ignn(&words(ingest)).exits(0);
    sandbox.ignn(&words("crossval d -q")).fails_with(
        "d: the dataset has no labels: ingest with --label, --regress, --labels or --communities",
    );
}

#[test]
fn the_best_epoch_is_chosen_by_any_score() {
    let sandbox = sandbox();
    let ingest =
        "ingest edges edges.csv --nodes nodes.csv --label team --split-column part --out d -q";
    sandbox.ignn(&words(ingest)).exits(0);
    for monitor in ["balanced-accuracy", "roc-auc", "average-precision", "log-loss"] {
        let train =
            format!("train d --epochs 4 --set train.monitor={monitor} --out {monitor} -q --json");
        let name = monitor.replace('-', "_");
        assert_eq!(sandbox.ignn(&words(&train)).exits(0).json()["monitor"], *name);
    }
    // A validation part of one class ranks nothing.
    let one = sandbox.read("nodes.csv").replace("blue,", "red,");
    sandbox.file("nodes.csv", one.replacen("red", "blue", 1));
    sandbox.ignn(&words(&format!("{ingest} --force"))).exits(0);
    sandbox.ignn(&words("train d --set train.monitor=roc-auc --out x -q")).fails_with(
        "train.monitor: roc_auc needs items of at least two classes in the validation part (found \
         one class): use another score, or another split",
    );
}

#[test]
fn parquet_and_specifications_take_the_same_tables() {
    let sandbox = sandbox();
    let text = sandbox.read("nodes.csv");
    let cells: Vec<Vec<&str>> =
        text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let texts = |at: usize| -> arrow_array::ArrayRef {
        Arc::new(cells.iter().map(|row| Some(row[at])).collect::<StringArray>())
    };
    let numbers = |at: usize| -> arrow_array::ArrayRef {
        Arc::new(cells.iter().map(|row| row[at].parse::<f64>().ok()).collect::<Float64Array>())
    };
    let table = parquet(vec![
        ("id", texts(0)),
        ("team", texts(1)),
        ("age", numbers(2)),
        ("income", numbers(3)),
        ("city", texts(4)),
        ("part", texts(6)),
    ]);
    sandbox.file("nodes.parquet", table);
    let options = "--label team --features all --split-column part -q";
    let without = text.lines().map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        [&cells[..5], &cells[6..]].concat().join(",") + "\n"
    });
    sandbox.file("plain.csv", without.collect::<String>());
    for (table, out) in [("plain.csv", "csv"), ("nodes.parquet", "parquet")] {
        let ingest = format!("ingest edges edges.csv --nodes {table} {options} --out {out}");
        sandbox.ignn(&words(&ingest)).exits(0).says("features     6 columns");
    }
    assert_eq!(features(&sandbox, "csv"), features(&sandbox, "parquet"));

    sandbox.file(
        "spec.toml",
        "target = \"person\"\nnode-table = \"nodes.parquet\"\nlabel = \"team\"\n\
         features = [\"age\", \"income\", \"city\"]\nsplit-column = \"part\"\n\
         [relations.friends]\nfile = \"edges.csv\"\n",
    );
    sandbox.ignn(&words("ingest relations spec.toml --out spec -q")).exits(0);
    assert_eq!(features(&sandbox, "spec"), features(&sandbox, "csv"));
    sandbox.ignn(&words("ingest relations spec.toml --encode-as csv --out again -q")).exits(0);
    assert_eq!(features(&sandbox, "again"), features(&sandbox, "csv"));
    sandbox.file(
        "spec.toml",
        "target = \"person\"\nlabel = \"team\"\n[relations.r]\nfile = \"edges.csv\"\n",
    );
    sandbox
        .ignn(&words("ingest relations spec.toml --out x -q"))
        .fails_with("spec.toml:2: expected label to be absent without node-table, found it");
}

#[test]
fn numbers_words_and_missing_values_follow_their_options() {
    let sandbox = Sandbox::new();
    sandbox.file("e.csv", "0,1\n1,2\n2,3\n");
    sandbox.file("n.csv", "id,x,code,part\n0,10,7,train\n1,30,8,train\n2,,9,test\n3,50,7,test\n");
    let ingest = |options: &str| {
        let words = format!("ingest edges e.csv --nodes n.csv {options} --out d --force -q");
        sandbox.ignn(&super::crossval::words(&words)).exits(0);
        features(&sandbox, "d")
    };
    // No training node lacks a value: no indicator, and the mean of the training nodes.
    let rows = ingest("--features x --split-column part");
    assert_eq!(rows, [[-1.0], [1.0], [0.0], [3.0]]);
    assert_eq!(ingest("--features x --split-column part --numbers plain")[2], [20.0]);
    let rows = ingest("--features code --categories code --split-column part");
    assert_eq!(rows, [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]], "9 is unknown");
    let rows = ingest("--features code --categories code --words hashed:5");
    assert!(rows.iter().all(|row| row.len() == 5 && row.iter().sum::<f32>() == 1.0), "{rows:?}");
    let encoding = DatasetDir::open(sandbox.path("d")).unwrap().manifest().encoding.clone();
    assert_eq!(encoding.unwrap().columns[0].rule, Rule::Hashed { columns: 5 });
    // Without a split, all nodes count, and node 2 lacks a value.
    let rows = ingest("--features x");
    assert_eq!((rows[2].len(), rows[2][1], rows[0][1]), (2, 1.0, 0.0));
    // Truth values, as several programs write them.
    sandbox.file("n.csv", "id,is\n0,True\n1,false\n2,TRUE\n3,true\n");
    assert_eq!(ingest("--features is"), [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]);
    sandbox.file("n.csv", "id,x,code,part\n0,10,7,train\n1,30,8,train\n2,,9,test\n3,50,7,test\n");
    // All columns but those with another use.
    assert_eq!(
        ingest("--features all --label code --split-column part"),
        [[-1.0], [1.0], [0.0], [3.0]]
    );
}

#[test]
fn missing_labels_and_parts_are_none() {
    let sandbox = Sandbox::new();
    sandbox.file("e.csv", "0,1\n1,2\n2,3\n");
    let rows = "id,team,part\n0,red,train\n1,NA,train\n2,blue,n/a\n3,nan,test\n";
    sandbox.file("n.csv", rows);
    let options = "--label team --split-column part --out d";
    let run = sandbox.ignn(&words(&format!("ingest edges e.csv --nodes n.csv {options}"))).exits(0);
    let run = run.says("labels       2 classes, 2 labelled nodes").says("train 2, test 1\n");
    for note in [
        "note: n.csv: column \"team\": \"NA\" and the like stand for a missing value: 2 nodes \
         without a label (if it is a name, write it in other words)\n",
        "note: n.csv: column \"part\": \"n/a\" and the like stand for a missing value: 1 nodes in \
         no part (if it is a name, write it in other words)\n",
    ] {
        assert!(run.stderr.contains(note), "{}", run.stderr);
    }
    // Masks, and files of their own.
    sandbox.file("m.csv", "id,train_mask,test_mask\n0,1,0\n1,NA,1\n2,0,null\n3,,\n");
    let masks = "ingest edges e.csv --splits m.csv --labels n.csv --out m -q";
    sandbox.file("n.csv", "id,label\n0,red\n1,NA\n2,blue\n");
    sandbox.ignn(&words(masks)).exits(0).says("2 labelled nodes").says("train 1, test 1\n");
}

#[test]
fn an_encoding_is_learned_or_given() {
    let sandbox = Sandbox::new();
    sandbox.file("e.csv", "0,1\n1,2\n2,3\n");
    sandbox.file("n.csv", "id,day,part\n0,1,Training\n1,2,Training\n2,3,dev\n3,4,other\n");
    let ingest =
        |options: &str| sandbox.ignn(&words(&format!("ingest edges e.csv {options} --force")));
    ingest("--nodes n.csv --features day --out d -q").exits(0);
    for (option, name) in [
        ("--numbers plain", "--numbers <NUMBERS>"),
        ("--words hashed", "--words <HOW>"),
        ("--missing refuse", "--missing <MISSING>"),
        ("--categories day", "--categories <COLUMNS>"),
        ("--features day", "--features <FILE|COLUMNS>"),
    ] {
        let run = ingest(&format!("--nodes n.csv --encode-as d {option} --out x")).exits(2);
        let refused = format!("'--encode-as <DATASET|RUN|MODEL>' cannot be used with '{name}'");
        assert!(run.stderr.contains(&refused), "{option}: {}", run.stderr);
    }
    let dates = parquet(vec![
        ("id", crate::raw::column::<arrow_array::Int64Array>(vec![0, 1, 2, 3])),
        ("day", Arc::new(arrow_array::Date32Array::from(vec![1, 2, 3, 4]))),
    ]);
    sandbox.file("n.parquet", dates);
    ingest("--nodes n.parquet --encode-as d --out x -q").fails_with(
        "n.parquet: column \"day\" holds dates, such as Date32 (expected numbers or words): write \
         a number instead, such as the days since a fixed day, the year or the day of the week, or \
         leave the column out of --features",
    );
    // A split that nobody named, and parts in other spellings.
    let run = ingest("--nodes n.csv --features all --out x").exits(0);
    let note = "note: n.csv: without a split, features are encoded by all nodes: add one with";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    assert!(!run.stderr.contains("looks like a split"), "\"other\" is no part: {}", run.stderr);
    sandbox.file("n.csv", "id,day,part\n0,1,Training\n1,2,Training\n2,3,dev\n3,4,test\n");
    let run = ingest("--nodes n.csv --features all --out x").exits(0);
    let note = "note: n.csv: column \"part\" looks like a split, and became features: name it with \
                --split-column if it is one\n";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    let run = ingest("--nodes n.csv --features all --split-column part --out x").exits(0);
    assert!(!run.stderr.contains("note: n.csv: without"), "{}", run.stderr);
    assert_eq!(features(&sandbox, "x"), [[-1.0], [1.0], [3.0], [5.0]], "by the training nodes");
    // Parts of which none trains.
    sandbox.file("n.csv", "id,day,part\n0,1,a\n1,2,a\n2,3,b\n3,4,b\n");
    let run = ingest("--nodes n.csv --features day --split-column part --out x").exits(0);
    let note =
        "note: n.csv: without a part named train, features are encoded by all nodes: add one";
    assert!(run.stderr.contains(note), "{}", run.stderr);
}

#[test]
fn graphs_have_numbers_too() {
    let sandbox = Sandbox::new();
    let generate = "generate rings --by-graph --rings 60 --length 6 --out g -q";
    sandbox.ignn(&words(generate)).exits(0).says("graphs           60, a number each\n");
    sandbox.ignn(&words("check g -q")).exits(0);
    sandbox.ignn(&words("inspect g -q")).exits(0).says("heat: 60");
    let train = "train g --epochs 60 --set model.state=2 --set model.activation=identity --set \
                 model.pooling=mean --set model.dropout=0 --set train.batch=30 --out run -q";
    sandbox.ignn(&words(train)).exits(0);
    let report = sandbox.ignn(&words("eval g --model run --json -q")).exits(0).json();
    let test = &report["evaluation"]["parts"][2];
    assert!(test["r2"].as_f64().unwrap() > 0.9 && test["graphs"] == 15, "{test}");
    sandbox.ignn(&words("predict g --model run --out p.csv -q")).exits(0);
    assert!(sandbox.read("p.csv").starts_with("graph,predicted,error_bound\n0,"));
    let options = "--folds 3 --epochs 60 --set model.state=2 --set model.activation=identity --set \
                   model.pooling=mean --set model.dropout=0 --set train.batch=20";
    let run = sandbox.ignn(&words(&format!("crossval g {options} --out cv -q"))).exits(0);
    run.says("fold    graphs  epoch").says("R2 on test").says("RMSE ").says("MAE ");
    let figures: serde_json::Value =
        serde_json::from_str(&sandbox.read("cv/crossval.json")).unwrap();
    assert_eq!((&figures["metric"], &figures["item"]), (&"r2".into(), &"graph".into()));
    assert!(figures["summary"]["validation"]["mean"].as_f64().unwrap() > 0.8, "{figures}");
    let [rmse, mae] =
        ["rmse", "mae"].map(|name| figures["summary"]["errors"][name]["mean"].as_f64().unwrap());
    assert!(0.0 < mae && mae <= rmse, "{figures}");
    // Finished folds are taken over.
    std::fs::remove_file(sandbox.path("cv/fold-1/fold.json")).unwrap();
    let again = sandbox.ignn(&words("crossval --resume cv --json -q")).exits(0).json();
    assert_eq!(again["summary"], figures["summary"]);
    sandbox.ignn(&words("crossval g --readout svm -q")).fails_with(
        "--readout: a support vector machine needs many graphs with a class each: use --readout model",
    );

    // Attributes of a TU collection: the second column, with a split of the graphs.
    let (mut edges, mut indicator, mut attributes) = (String::new(), String::new(), String::new());
    for graph in 0..12 {
        let first = 3 * graph + 1;
        writeln!(edges, "{first}, {}\n{}, {first}", first + 1, first + 1).unwrap();
        write!(indicator, "{0}\n{0}\n{0}\n", graph + 1).unwrap();
        writeln!(attributes, "7, {}.25", 100 * graph).unwrap();
    }
    sandbox.file("T/T_A.txt", edges).file("T/T_graph_indicator.txt", indicator);
    sandbox.file("T/T_graph_attributes.txt", attributes);
    let ingest = "ingest tu T --regress 1 --split train=0.5,val=0.25,test=0.25 --out t -q";
    sandbox.ignn(&words(ingest)).exits(0).says("train 6, val 3, test 3");
    sandbox.ignn(&words("export t --graphs g.csv -q")).exits(0);
    assert!(sandbox.read("g.csv").contains("\n3,6,3,200.25,"), "{}", sandbox.read("g.csv"));
    sandbox.ignn(&words("train t --epochs 2 --out trun -q")).exits(0).says("test RMSE");
    sandbox
        .ignn(&words("ingest tu T --regress 2 --out x -q"))
        .fails_with("T/T_graph_attributes.txt: 2 columns (expected a column 2, counting from 0)");
}
