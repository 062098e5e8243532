//! Names that would control a terminal, a browser or a spreadsheet, and paths that are not UTF-8,
//! through every command.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Stdio;

use crate::crossval::{words, write_rings_and_stars};
use crate::report::{browser, opened};
use crate::sandbox::{Run, Sandbox};

/// Colours, a new title of the window, a cleared screen, and letters in another order.
const HOSTILE: &str = "\u{1b}[31m\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\u{7f}";
/// Longest line that any command prints, in characters.
const LINE: usize = 5002;

/// Asserts that what was printed is clean, and lines are not too long.
#[track_caller]
fn clean(run: Run) -> Run {
    for text in [&run.stdout, &run.stderr] {
        let is_wrong =
            |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!text.contains(is_wrong), "{:?}", text.chars().take(3000).collect::<String>());
        if text.starts_with('{') {
            // JSON is exact.
            continue;
        }
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest <= LINE, "a line of {longest} characters");
    }
    run
}

/// A dataset whose ids, classes, parts and path are hostile, one class of 70,000 characters, and a
/// run on it. Returns the paths of both.
fn trained(sandbox: &Sandbox) -> (String, String) {
    let id = |node: usize| format!("{HOSTILE}n{node}");
    let ring: String = (0..30).map(|i| format!("{},{}\n", id(i), id((i + 1) % 30))).collect();
    sandbox.file("edges.csv", format!("source,target\n{ring}"));
    let long = "x".repeat(70_000);
    let classes = [format!("{HOSTILE}a"), format!("=1+1{HOSTILE}b"), long];
    let (mut labels, mut splits) = (String::from("node,label\n"), String::from("node,split\n"));
    for node in 0..30 {
        writeln!(labels, "{},{}", id(node), classes[node % 3]).unwrap();
        let part = ["train".into(), "val".into(), "test".into(), format!("{HOSTILE}p")];
        writeln!(splits, "{},{}", id(node), part[node % 4]).unwrap();
    }
    let features: String = (0..30).map(|i| format!("{},{}\n", id(i), i % 3)).collect();
    sandbox.file("labels.csv", labels).file("splits.csv", splits);
    sandbox.file("features.csv", format!("node,{HOSTILE}\n{features}"));
    let (dataset, out) = (format!("d{HOSTILE}"), format!("run{HOSTILE}"));
    let ingest = words("ingest edges edges.csv --labels labels.csv --splits splits.csv");
    let ingest = [&ingest[..], &["--features", "features.csv", "--out", &dataset]].concat();
    clean(sandbox.ignn(&ingest)).exits(0);
    let train = ["train", &dataset, "--out", &out, "--epochs", "3", "--set", "model.state=4"];
    clean(sandbox.ignn(&train)).exits(0);
    (dataset, out)
}

#[test]
fn no_command_prints_what_a_terminal_obeys() {
    let sandbox = Sandbox::new();
    let (dataset, run) = trained(&sandbox);
    let (dataset, run) = (dataset.as_str(), run.as_str());
    let hostile = |name: &str| format!("{name}{HOSTILE}");
    let (page, table, bench) = (hostile("p.html"), hostile("t"), hostile("bench"));
    let (csv, html) = (format!("{table}.csv"), format!("{page}.html"));
    let ids = format!("ids{csv}");
    let cases: [(i32, &[&str]); 17] = [
        (0, &["inspect", dataset]),
        (0, &["check", dataset]),
        (0, &["eval", dataset, "--model", run]),
        (0, &["predict", dataset, "--model", run, "--out", &csv, "--force"]),
        (0, &["export", dataset, "--ids", &ids, "--labels", "l.csv", "--force"]),
        (0, &["report", run, "--out", &html, "--title", HOSTILE, "--force"]),
        (0, &["bench", "sweep", dataset, "--seconds", "0.01", "--state", "4"]),
        (
            0,
            &["generate", "chains", "--chains", "20", "--length", "20", "--out", &bench, "--force"],
        ),
        (0, &["train", "--resume", run]),
        (2, &["eval", dataset, "--model", run, "--part", HOSTILE]),
        (2, &["predict", dataset, "--model", run, "--out", &table]),
        (2, &["predict", dataset, "--model", run, "--out", "x.csv", "--split", HOSTILE]),
        (2, &["export", dataset, "--edges", "e.csv", "--relation", HOSTILE]),
        (2, &["train", dataset, "--set", &format!("train.split={HOSTILE}"), "--out", "x"]),
        (2, &["train", dataset, "--set", HOSTILE, "--out", "x"]),
        (0, &["crossval", dataset, "--folds", "3", "--epochs", "1"]),
        (2, &[HOSTILE]),
    ];
    for (code, arguments) in cases {
        clean(sandbox.ignn(arguments)).exits(code);
        let json = clean(sandbox.ignn(&[arguments, &["--json"]].concat())).exits(code);
        if code == 0 {
            json.json();
        }
    }
    // The exact names are in the JSON.
    let eval = sandbox.ignn(&["eval", dataset, "--model", run, "--json", "-q"]).exits(0).json();
    assert_eq!(
        eval["evaluation"]["parts"][0]["classes"][0]["name"],
        hostile("").as_str().to_owned() + "a"
    );
}

#[test]
fn messages_on_hostile_files_are_clean_and_short() {
    let sandbox = Sandbox::new();
    let long = "y".repeat(3_000_000);
    sandbox.file("short.csv", format!("source,target\n{HOSTILE}\n"));
    sandbox.file("long.csv", format!("source,target\n{long}\n"));
    sandbox.file("toml.toml", format!("[{HOSTILE}\n"));
    sandbox.file("long.toml", format!("x = [{}", "1,".repeat(200_000)));
    sandbox.file("edges.txt", "1 2\n2 3\n");
    sandbox.file("labels.csv", format!("node,label\n{HOSTILE}{long},a\n"));
    for arguments in [
        "ingest edges short.csv --out d",
        "ingest edges long.csv --out d",
        "ingest edges edges.txt --labels labels.csv --out d",
        "ingest relations toml.toml --out d",
        "ingest relations long.toml --out d",
        "train d --config toml.toml --out r",
        "train d --config long.toml --out r",
    ] {
        let run = clean(sandbox.ignn(&words(&format!("{arguments} -q")))).exits(2);
        assert!(run.stderr.starts_with("error: ") && run.stderr.len() < 20_000, "{}", run.stderr);
    }
}

#[test]
fn cross_validations_of_hostile_paths_are_clean() {
    let sandbox = Sandbox::new();
    write_rings_and_stars(&sandbox, "raw", 12);
    let (dataset, out) = (format!("d{HOSTILE}"), format!("cv{HOSTILE}"));
    clean(sandbox.ignn(&["ingest", "tu", "raw", "--out", &dataset])).exits(0);
    let settings = "--preset graphs --set model.state=4 --epochs 2 --folds 3 --csv-safe --out";
    let crossval = [&["crossval", &dataset][..], &words(settings), &[&out]].concat();
    clean(sandbox.ignn(&crossval)).exits(0);
    clean(sandbox.ignn(&["crossval", "--resume", &out, "--json"])).exits(0).json();
    assert!(sandbox.read(&format!("{out}/setup.json")).contains("\"csv_safe\":true"));
}

#[test]
fn formulas_are_text_on_request() {
    let sandbox = Sandbox::new();
    sandbox.file("edges.csv", "source,target\n=1+1,@x\n@x,-7\n-7,c\n");
    sandbox.file("labels.csv", "node,label\n=1+1,+a+b\n@x,-1\n");
    sandbox.ignn(&words("ingest edges edges.csv --labels labels.csv --out d -q")).exits(0);
    sandbox.ignn(&words("export d --labels exact.csv --ids ids.csv -q")).exits(0);
    assert_eq!(sandbox.read("exact.csv"), "node,label\n=1+1,+a+b\n@x,-1\n");
    sandbox.ignn(&words("export d --labels l.csv --ids i.tsv --csv-safe -q")).exits(0);
    assert_eq!(sandbox.read("l.csv"), "node,label\n'=1+1,'+a+b\n'@x,-1\n");
    assert_eq!(sandbox.read("i.tsv"), "id\tnode\n-7\t0\n'=1+1\t1\n'@x\t2\nc\t3\n");
}

#[test]
fn a_closed_pipe_hides_no_failure() {
    let sandbox = Sandbox::new();
    crate::handmade::path_and_loner().write(&sandbox.path("d"));
    let path = sandbox.path("d/relations/edges/in.neighbours.u32");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    for arguments in [&["check", "d"][..], &["check", "d", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = sandbox.command(arguments);
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
    // A solve that did not converge.
    let chains = "generate chains --length 6 --chains 4 --features 4 --train 10 --val 10 --test 20";
    sandbox.ignn(&words(&format!("{chains} --out c -q"))).exits(0);
    let train = "train c --epochs 1 --set model.state=4 --set solver.method=plain --out run -q";
    sandbox.ignn(&words(train)).exits(0);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let eval = words("eval c --model run --max-sweeps 1 --tolerance 1e-12 -q");
    let output = sandbox.command(&eval).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    // Other failures of the output are errors.
    if let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") {
        let output = sandbox.command(&["completions", "bash"]).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with("error: standard output: cannot write: "), "{said}");
    }
}

#[test]
fn paths_that_are_not_utf8_are_trained_resumed_and_shown() {
    let sandbox = Sandbox::new();
    let make = "generate chains --length 6 --chains 4 --features 4 --train 10 --val 10 --test 20";
    let name = |bytes: &'static [u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let run = |words: &[&str], paths: &[(&str, &PathBuf)]| {
        let mut command = sandbox.command(words);
        for (option, path) in paths {
            (!option.is_empty()).then(|| command.arg(option));
            command.arg(path);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{words:?} {paths:?}\n{said}");
        output.stdout
    };
    for (data, out) in [
        (name(b"d\xff\xfe"), name(b"run\xff")),
        (name(b"two\nlines"), name(b"run\n")),
        (name(b"C:\\data\\%41"), name(b"run\\")),
    ] {
        run(&words(make), &[("--out", &data)]);
        let train = words("train --preset chains --epochs 2 -q");
        run(&train, &[("", &data), ("--out", &out)]);
        run(&words("train -q"), &[("--resume", &out)]);
        let text = fs::read_to_string(sandbox.path("").join(&out).join("dataset.txt")).unwrap();
        assert_eq!(text.lines().count(), 1, "{text:?}");
        let json = run(&words("eval --json -q"), &[("", &data), ("--model", &out)]);
        let found: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let read = ignn::run::path_text::path(found["dataset"].as_str().unwrap());
        assert!(read.ends_with(&data), "{read:?}");
        for command in ["inspect --json", "check --json"] {
            run(&words(command), &[("", &data)]);
        }
        let predicted = name(b"p\xff.csv");
        run(
            &words("predict --json --force"),
            &[("", &data), ("--model", &out), ("--out", &predicted)],
        );
        run(&words("report --json --force"), &[("", &out), ("--out", &name(b"r\xff.html"))]);
    }
}

#[test]
fn a_browser_runs_nothing_of_a_hostile_page() {
    let Some(browser) = browser() else { return };
    let sandbox = Sandbox::new();
    let run = "document.title='owned'";
    let hostile = [
        format!("<script>{run}</script>"),
        format!("\"><img src=x onerror=\"{run}\">"),
        format!("' onmouseover='{run}' autofocus onfocus='{run}"),
        format!("</title></style></pre></svg><script>{run}</script>"),
        format!("<svg onload={run}>"),
    ];
    // Classes, the dataset's name, the title, scores and the strings of run.json.
    let (mut labels, mut edges) = (String::from("node,label\n"), String::new());
    for node in 0..30 {
        let class = hostile[node % 5].replace('"', "\"\"");
        writeln!(labels, "{node},\"{class}\"").unwrap();
        writeln!(edges, "{node} {}", (node + 1) % 30).unwrap();
    }
    sandbox.file("labels.csv", labels).file("edges.txt", edges);
    let split = "--split train=0.4,val=0.3,test=0.3 --out d.ignn -q";
    let ingest = format!("ingest edges edges.txt --labels labels.csv {split}");
    sandbox.ignn(&words(&ingest)).exits(0);
    let out = format!("run{}", hostile[1]);
    let train = ["train", "d.ignn", "--epochs", "3", "--set", "model.state=4", "-q", "--out", &out];
    sandbox.ignn(&train).exits(0);
    let metrics = sandbox.read(&format!("{out}/metrics.jsonl"));
    let score = serde_json::to_string(&hostile[2]).unwrap();
    let forged = metrics.replace("\"accuracy\":", &format!("{score}:0.5,\"accuracy\":"));
    assert_ne!(forged, metrics);
    sandbox.file(&format!("{out}/metrics.jsonl"), forged);
    let mut summary: serde_json::Value =
        serde_json::from_str(&sandbox.read(&format!("{out}/run.json"))).unwrap();
    for field in ["/version", "/machine/simd", "/machine/processor", "/dataset/name"] {
        *summary.pointer_mut(field).unwrap() = hostile[0].clone().into();
    }
    sandbox.file(&format!("{out}/run.json"), summary.to_string());
    let config = sandbox.read(&format!("{out}/config.toml"));
    sandbox.file(&format!("{out}/config.toml"), format!("# {}\n{config}", hostile[3]));
    let report = ["report", &out, "--out", "r.html", "--title", &hostile[0], "-q"];
    sandbox.ignn(&report).exits(0);
    let html = sandbox.read("r.html");
    assert!(html.contains("id=\"classes\"") && html.contains("onload="), "classes are shown");

    // Without the policy, so that it is the escaping that holds.
    let (start, end) = (html.find("<meta http-equiv").unwrap(), html.find("<meta name").unwrap());
    sandbox.file("bare.html", [&html[..start], &html[end..]].concat());
    let owned = |file: &str| {
        let (dom, said) = opened(&browser, &sandbox.path(file), &sandbox.path("profile"), 900);
        assert!(dom.contains("<title>"), "{said}");
        dom.contains("<title>owned</title>")
    };
    assert!(!owned("bare.html"), "a script ran");
    // The same text unescaped does run there, and the policy alone stops it.
    let script = format!("<script>{run}</script></body>");
    sandbox.file("open.html", sandbox.read("bare.html").replace("</body>", &script));
    assert!(owned("open.html"), "the test would notice a script");
    sandbox.file("guarded.html", html.replace("</body>", &script));
    assert!(!owned("guarded.html"), "the policy forbids scripts");
}
