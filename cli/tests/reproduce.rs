//! `ignn reproduce` in miniature: what is run, what is kept, what is written, what is refused.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::sandbox::{Sandbox, send};

/// Two lengths, one method, two seeds, three epochs.
const CHAINS: [&str; 14] = [
    "reproduce",
    "chains",
    "--quick",
    "--out",
    "out",
    "--only",
    "IGNN,10",
    "--seeds",
    "0..1",
    "--set",
    "train.epochs=3",
    "--set",
    "solver.max_sweeps=300",
    "-q",
];

fn run_files(sandbox: &Sandbox) -> Vec<(std::path::PathBuf, std::time::SystemTime)> {
    let all = crate::sandbox::files_below(&sandbox.path("out/runs"));
    let runs = all.into_keys().filter(|path| path.ends_with("run.json"));
    runs.map(|path| {
        (
            path.clone(),
            fs::metadata(sandbox.path("out/runs").join(path)).unwrap().modified().unwrap(),
        )
    })
    .collect()
}

#[test]
fn chains_in_miniature_and_again_without_work() {
    let sandbox = Sandbox::new();
    let run = sandbox
        .ignn(&CHAINS)
        .exits(0)
        .says("Accuracy against the length of the chains")
        .says("100.0, published code");
    assert!(run.stdout.contains("page: out/report.html"), "{}", run.stdout);
    for name in ["out/report.html", "out/results.json", "out/results.csv", "out/results.parquet"] {
        assert!(sandbox.path(name).is_file(), "{name}");
    }
    let results: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/results.json")).unwrap();
    let row = &results["panels"][0]["rows"][0];
    assert_eq!(
        (&row["point"], &row["method"], &row["validation"]["count"]),
        (&"10".into(), &"IGNN".into(), &2.into())
    );
    assert_eq!(results["panels"].as_array().unwrap().len(), 2, "against length, against T");
    let page = sandbox.read("out/report.html");
    assert!(
        page.contains("data-series=\"IGNN\"") && page.contains("data-series=\"published code\"")
    );
    let csv = sandbox.read("out/results.csv");
    assert!(
        csv.contains("length,10,10,IGNN,accuracy,validation,ours,")
            && csv.contains(",published,published code,1,NaN,0")
    );

    // Every command can be repeated by hand.
    let commands = results["commands"].as_array().unwrap();
    assert!(
        [0, 1].iter().all(|seed| {
            let line = format!(
                "ignn generate chains --length 10 --seed {seed} --out \
                 out/data/chains-10-seed-{seed}.ignn"
            );
            commands.iter().any(|found| *found == line)
        }),
        "{commands:?}"
    );
    let split = |seed: u32| {
        fs::read(sandbox.path(&format!("out/data/chains-10-seed-{seed}.ignn/splits.parquet")))
            .unwrap()
    };
    assert_ne!(split(0), split(1), "each seed has parts of its own");

    let before = run_files(&sandbox);
    assert_eq!(before.len(), 4);
    let again = sandbox.ignn(&CHAINS).exits(0);
    assert_eq!(again.stdout, run.stdout);
    assert_eq!(run_files(&sandbox), before, "finished runs are kept");

    // Other settings are other runs; an interrupted one continues.
    let place = sandbox.path("out/runs/length/10/ignn/seed-1");
    fs::remove_file(place.join("run.json")).unwrap();
    sandbox.ignn(&CHAINS).exits(0);
    let after = run_files(&sandbox);
    let changed = before.iter().zip(&after).filter(|(old, new)| old != new).count();
    assert_eq!((after.len(), changed), (4, 1));
    let lines = fs::read_to_string(place.join("metrics.jsonl")).unwrap();
    assert_eq!(
        lines.lines().count(),
        4,
        "continued from the checkpoint, not trained anew:\n{lines}"
    );
    let mut other = CHAINS.to_vec();
    other[10] = "train.epochs=4";
    sandbox.ignn(&other).exits(0);
    assert!(
        run_files(&sandbox).iter().zip(&after).all(|(new, old)| new.0 == old.0 && new.1 != old.1)
    );
}

#[test]
fn replacements_are_noted() {
    let sandbox = Sandbox::new();
    let words =
        ["reproduce", "amazon", "--quick", "--data", "none", "--out", "out", "--only", "6 %,IGNN"];
    let more = ["--seeds", "0", "--set", "train.epochs=2", "-q"];
    let run = sandbox.ignn(&[&words[..], &more].concat()).exits(0);
    let note = "note: neither com-amazon nor com-dblp with all communities is in the data \
                directory: generated communities of 4000 nodes stand in";
    assert!(run.stdout.contains(note), "{}", run.stdout);
    assert!(
        sandbox.read("out/report.html").contains("generated communities of 4000 nodes stand in")
    );
    run.says("top_k_micro_f1");
}

#[test]
fn scores_are_of_com_dblp_and_times_of_com_amazon_too() {
    let sandbox = Sandbox::new();
    // A ring; every ten neighbours are a community.
    let edges: String = (0..600).map(|node| format!("{node}\t{}\n", (node + 1) % 600)).collect();
    let community = |first: usize| {
        let nodes: Vec<String> = (first..first + 10).map(|node| node.to_string()).collect();
        nodes.join("\t") + "\n"
    };
    let communities: String = (0..60).map(|at| community(10 * at)).collect();
    for (folder, members) in [("com-dblp", "all"), ("com-amazon", "top5000")] {
        sandbox.file(&format!("data/{folder}/{folder}.ungraph.txt"), &edges);
        sandbox.file(&format!("data/{folder}/{folder}.{members}.cmty.txt"), &communities);
    }
    let line = "reproduce amazon --quick --data data --out out --only 6_%,com-Amazon,IGNN,GCNII \
                --seeds 0 --set train.epochs=2 -q";
    let words: Vec<String> = line.split(' ').map(|word| word.replace('_', " ")).collect();
    let run = sandbox.ignn(&words.iter().map(String::as_str).collect::<Vec<_>>()).exits(0);
    let printed = run.stdout.clone();
    run.says("com-dblp stands in for it").says("the 58 largest of the 5,000 best ones");
    let results: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/results.json")).unwrap();
    let panel = |at: usize| results["panels"][at]["rows"].as_array().unwrap();
    assert_eq!((panel(0).len(), panel(1).len()), (8, 2), "two methods; four scores, and one");
    let cost = &panel(1)[0]["cost"];
    for key in ["seconds", "seconds_per_epoch", "epochs", "forward_sweeps", "peak_bytes"] {
        assert!(cost[key].as_f64() > Some(0.0), "{key}: {cost}");
    }
    assert!(panel(1)[1]["cost"]["forward_sweeps"].is_null(), "GCNII solves nothing");
    let datasets = results["datasets"].as_array().unwrap();
    let names: Vec<&str> = datasets.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["com-dblp", "com-amazon-top5000"]);
    assert_eq!((&datasets[1]["nodes"], &datasets[1]["nonzeros"]), (&600.into(), &1800.into()));
    assert!(datasets[1]["peak_bytes"].is_u64() && datasets[1]["seconds"].is_f64(), "{datasets:?}");
    // Thread scaling is measured where time matters, once.
    assert_eq!(datasets[0]["scaling"], serde_json::json!([]));
    let scaling = datasets[1]["scaling"].as_array().unwrap();
    assert_eq!(scaling[0]["threads"], 1);
    assert!(scaling.iter().all(|row| row["forward_seconds"].as_f64() > Some(0.0)), "{scaling:?}");
    let again = sandbox.ignn(&words.iter().map(String::as_str).collect::<Vec<_>>()).exits(0);
    assert_eq!(again.stdout, printed);
    let repeated: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/results.json")).unwrap();
    assert_eq!(repeated["datasets"][1]["scaling"], datasets[1]["scaling"]);
    let text = sandbox.read("out/results.md");
    let folded = text.replace(" \\\n", "\n").split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "ignn reproduce amazon --data DATA --out DIR --quick --seeds 0 --only '6 %,com-Amazon,\
         IGNN,GCNII' --set 'train.epochs=2' - Machine and date: ",
        "- Settings of preset amazon: tried: not recorded; chosen: with test scores in view; test \
         scores in view: yes. - ",
        "Means over one seed, 0, in per cent. | train | method |",
        "| com-Amazon | IGNN | ",
        "### Sweeps by the number of threads | dataset | threads |",
        "| com-amazon-top5000 | 1 | ",
    ] {
        assert!(folded.contains(part), "{part}\n{text}");
    }
}

#[test]
fn missing_ppi_graphs_are_generated() {
    let sandbox = Sandbox::new();
    let line = "reproduce ppi --quick --data none --out out --only MLP --seeds 0 --set \
                train.epochs=1 --set model.state=8 -q";
    let run = sandbox.ignn(&line.split(' ').collect::<Vec<_>>()).exits(0);
    run.says("46.2, paper")
        .says("note: ppi is not in the data directory: a generated set of its shape stands in");
}

#[test]
fn published_ppi_files_are_used_and_looked_up() {
    let sandbox = Sandbox::new();
    let words = |line: &'static str| line.split(' ').collect::<Vec<_>>();
    sandbox.ignn(&words("generate ppi --scale 0.075 --raw data/ppi -q")).exits(0);
    let line = "reproduce ppi --quick --data data --out out --only GAT,lookup --seeds 0 --set \
                train.epochs=1 --set model.state=8 -q";
    let run = sandbox.ignn(&words(line)).exits(0);
    run.says("note: ppi has labels of unknown origin (").says("97.3, paper");
    let results: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/results.json")).unwrap();
    let rows = results["panels"][0]["rows"].as_array().unwrap();
    assert_eq!((&rows[0]["method"], &rows[1]["method"]), (&"GAT".into(), &"lookup".into()));
    let lookup = rows[1]["validation"]["mean"].as_f64().unwrap();
    assert!(0.2 < lookup && lookup < 0.9 && rows[1]["best_test"].is_null(), "{rows:?}");
    let commands = results["commands"].to_string();
    assert!(
        commands.contains("ignn ingest graphsage data/ppi --normalise renorm")
            && commands.contains("--set 'model.heads=[4, 4, 6]'"),
        "{commands}"
    );
    // A baseline starts from the defaults, not from the equilibrium's preset.
    assert!(!commands.contains("--preset"), "{commands}");
}

#[test]
fn a_method_that_fails_does_not_hide_the_others() {
    let sandbox = Sandbox::new();
    let words = [
        "reproduce",
        "chains",
        "--quick",
        "--out",
        "out",
        "--only",
        "10,IGNN",
        "--seeds",
        "0",
        "-q",
    ];
    let run = sandbox
        .ignn(&[&words[..], &["--set", "train.loss=binary-cross-entropy"]].concat())
        .exits(1);
    assert!(
        run.stdout.contains("note: IGNN failed on 10: ") && run.stdout.contains("failed"),
        "{}",
        run.stdout
    );
    let results: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/results.json")).unwrap();
    assert!(results["panels"][0]["rows"][0]["failure"].is_string());
}

#[test]
fn mistakes_are_reported_before_anything_is_run() {
    let sandbox = Sandbox::new();
    let run = sandbox.ignn(&["reproduce", "ppi", "--out", "out", "--only", "GNC", "-q"]).exits(2);
    assert_eq!(
        run.stderr,
        "error: --only GNC: not in this experiment (it has: PPI, IGNN, linear IGNN, GAT, SSE, \
         GCN, MLP, lookup)\n"
    );
    let run = sandbox
        .ignn(&["reproduce", "graphs", "--data", "none", "--out", "out", "--only", "MUTAG", "-q"])
        .exits(2);
    let expected = "error: nothing to run: MUTAG is left out: no tu/MUTAG/ in none: \
                    `scripts/fetch-datasets` gets the public sets\n";
    assert_eq!(run.stderr, expected);
    let run = sandbox.ignn(&["reproduce", "everything", "--out", "out"]).exits(2);
    assert!(
        run.stderr.contains(
            "[possible values: chains, oversmoothing, amazon, ppi, graphs, heterogeneous]"
        ),
        "{}",
        run.stderr
    );
}

#[test]
fn a_stopped_experiment_goes_on() {
    let sandbox = Sandbox::new();
    let line = "reproduce chains --quick --out out --only IGNN,10 --seeds 0 --set \
                train.epochs=400 --set train.stop_after=0";
    let words: Vec<&str> = line.split(' ').collect();
    let mut child =
        sandbox.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let metrics = sandbox.path("out/runs/length/10/ignn/seed-0/metrics.jsonl");
    let epochs = || fs::read_to_string(&metrics).map_or(0, |text| text.lines().count());
    while epochs() < 3 {
        assert!(child.try_wait().unwrap().is_none(), "the run was faster than its signal");
        std::thread::sleep(Duration::from_millis(2));
    }
    send(Signal::SIGTERM, &child);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("note: stopped: the same command continues from here"), "{said}");
    let done = epochs();
    assert!(done < 401, "{done}");
    let board = sandbox.path("out/runs/length/10/ignn/seed-0/tensorboard");
    sandbox.ignn(&words).exits(0);
    assert_eq!(epochs(), 401);
    assert_eq!(
        fs::read_dir(board).unwrap().count(),
        2,
        "one event file per session: the run was resumed"
    );
}

#[test]
fn graphs_are_cross_validated() {
    let sandbox = Sandbox::new();
    // Rings of three and paths of three: the class is whether there is a cycle.
    let (mut edges, mut graphs, mut labels, mut kinds) =
        (String::new(), String::new(), String::new(), String::new());
    for graph in 0..18 {
        let first = 3 * graph + 1;
        let mut pairs = vec![(first, first + 1), (first + 1, first + 2)];
        pairs.extend((graph % 2 == 0).then_some((first + 2, first)));
        for (a, b) in pairs {
            edges += &format!("{a}, {b}\n{b}, {a}\n");
        }
        graphs += &format!("{0}\n{0}\n{0}\n", graph + 1);
        labels += &format!("{}\n", graph % 2);
        kinds += "0\n1\n0\n";
    }
    for (name, text) in [
        ("A", edges),
        ("graph_indicator", graphs),
        ("graph_labels", labels),
        ("node_labels", kinds),
    ] {
        sandbox.file(&format!("data/tu/MUTAG/MUTAG_{name}.txt"), text);
    }
    let line =
        "reproduce graphs --quick --data data --out out --only MUTAG --set train.epochs=2 -q";
    let run = sandbox.ignn(&line.split(' ').collect::<Vec<_>>()).exits(0);
    run.says("MUTAG").says("89.3 (6.7), paper; 76.0, re-run by others");
    let results: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/results.json")).unwrap();
    let rows = results["panels"][0]["rows"].as_array().unwrap();
    assert_eq!(rows[0]["validation"]["count"], 3, "folds of the quick form");
    let methods: Vec<&str> = rows.iter().map(|row| row["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["IGNN", "IGNN, SVM", "GCN", "GIN", "SGC", "GAT", "GCNII", "SSE", "MLP"]);
    let crossval = |sandbox: &Sandbox, seed: u64| -> serde_json::Value {
        let path = format!("out/runs/graphs/mutag/ignn/seed-{seed}/crossval.json");
        serde_json::from_str(&sandbox.read(&path)).unwrap()
    };
    let figures = crossval(&sandbox, 0);
    assert_eq!(
        rows[1]["validation"]["mean"], figures["summary"]["svm"]["mean"],
        "of the model's runs"
    );
    assert!(
        rows[1]["best_test"].is_null() && rows.iter().all(|row| row["failure"].is_null()),
        "{rows:?}"
    );
    // With several seeds, a figure is a mean over them, and the first one's runs are kept.
    let line = format!("{line} --only MUTAG,IGNN --seeds 0,3");
    sandbox.ignn(&line.split(' ').collect::<Vec<_>>()).exits(0);
    assert_eq!(crossval(&sandbox, 0), figures);
    let results: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/results.json")).unwrap();
    let (panel, other) = (&results["panels"][0], crossval(&sandbox, 3));
    assert!(panel["repeats"].as_str().unwrap().starts_with("seeds 0, 3, each a mean over 3"));
    let mean = |of: &serde_json::Value| of["summary"]["validation"]["mean"].as_f64().unwrap();
    let found = &panel["rows"][0]["validation"];
    let expected = (mean(&figures) + mean(&other)) / 2.0;
    assert!((found["mean"].as_f64().unwrap() - expected).abs() < 1e-12, "{found}");
    assert_eq!(found["count"], 2, "two seeds");
}

#[test]
fn baselines_use_the_mean_of_relations_and_slow_ones_are_not_in_the_quick_form() {
    let sandbox = Sandbox::new();
    // Neighbours on a path, and every second one: two relations over twelve nodes of two kinds.
    let matrix = |kind: &str, columns: usize, entries: &[(usize, usize)]| {
        let lines: String =
            entries.iter().map(|(row, column)| format!("{} {}\n", row + 1, column + 1)).collect();
        crate::raw::gzip(format!(
            "%%MatrixMarket matrix coordinate pattern {kind}\n12 {columns} {}\n{lines}",
            entries.len()
        ))
    };
    let steps = |step: usize| (0..12 - step).map(|node| (node + step, node)).collect::<Vec<_>>();
    sandbox.file("data/acm/PAP.mtx.gz", matrix("symmetric", 12, &steps(1)));
    sandbox.file("data/acm/PSP.mtx.gz", matrix("symmetric", 12, &steps(2)));
    let kinds: Vec<_> = (0..12).map(|node| (node, node / 6)).collect();
    sandbox.file("data/acm/features.mtx.gz", matrix("general", 2, &kinds));
    let table = |name: &str, value: &dyn Fn(usize) -> String| {
        let lines: String = (0..12).map(|node| format!("{node},{}\n", value(node))).collect();
        sandbox.file(&format!("data/acm/{name}s.csv"), format!("node,{name}\n{lines}"));
    };
    table("label", &|node| (node / 6).to_string());
    table("split", &|node| ["train", "val", "test"][node % 3].into());
    let line = "reproduce heterogeneous --quick --data data --out out --only ACM --seeds 0 --set \
                train.epochs=2 -q";
    let words: Vec<&str> = line.split(' ').collect();
    let run = sandbox.ignn(&words).exits(0);
    run.says("90.5, paper")
        .says("note: GAT is left out of the quick form, as it takes long: --only GAT runs it");
    let results: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/results.json")).unwrap();
    let rows = results["panels"][0]["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["validation"]["mean"].is_number()), "{rows:?}");
    assert_eq!(rows.len(), 14, "seven methods by two scores");
    let gat: Vec<&str> =
        words.iter().map(|word| if *word == "ACM" { "ACM,GAT" } else { word }).collect();
    let run = sandbox.ignn(&gat).exits(0);
    assert!(
        run.stdout.contains("GAT  micro_f1") && !run.stdout.contains("left out"),
        "{}",
        run.stdout
    );
}

#[test]
fn a_browser_shows_the_figures() {
    let Some(browser) = crate::report::browser() else { return };
    let sandbox = Sandbox::new();
    sandbox.ignn(&CHAINS).exits(0);
    let page = sandbox.path("out/report.html");
    let (dom, said) = crate::report::opened(&browser, &page, &sandbox.path("profile"), 390);
    let written = fs::read_to_string(&page).unwrap();
    for part in ["<section", "class=\"curve", "<svg", "<desc", "class=\"mark"] {
        assert_eq!(dom.matches(part).count(), written.matches(part).count(), "{part}\n{said}");
    }
    assert_eq!(dom.matches("<svg").count(), 4, "two panels by two protocols");
    assert!(!said.contains("CONSOLE"), "{said}");
}

#[test]
fn what_names_a_row_cannot_be_overridden() {
    let sandbox = Sandbox::new();
    for key in ["model.kind=mlp", "train.split=other", "train.test_part=train"] {
        let arguments = ["reproduce", "chains", "--quick", "--out", "out", "--set", key, "-q"];
        let key = key.split('=').next().unwrap();
        sandbox.ignn(&arguments).fails_with(&format!(
            "--set {key}: each method and point of the experiment has its own: choose with --only"
        ));
    }
    assert!(!sandbox.path("out").exists());
}
