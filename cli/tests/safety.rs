//! Nothing of the user's is lost: `--force` replaces only what the program made, two commands do
//! not write the same output, and what cannot be written is refused before the work.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Output, Stdio};

use crate::sandbox::{Sandbox, files_below};

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A directory with a dataset `s` of three communities.
fn communities() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ignn(&words("generate sbm --nodes 300 --blocks 3 --seed 3 --out s -q")).exits(0);
    sandbox
}

#[test]
fn force_replaces_no_directory_of_the_users() {
    let sandbox = communities();
    sandbox.file("e.txt", "0 1\n1 2\n").file("home/.git/HEAD", "ref: refs/heads/main\n");
    sandbox.file("home/thesis.tex", "precious").file("list/edges.tsv", "1\t2\n");
    // Nor do the names of a run's files.
    sandbox.file("mine/config.toml", "mine").file("mine/dataset.txt", "mine");
    let made = "--force replaces only what ignn made: choose another name";
    let cases = [
        ("train s --out mine --force", ""),
        (
            "ingest edges e.txt --out home --force",
            "home: not a dataset directory (it holds .git): ",
        ),
        ("generate grid --out home --force", "home: not a dataset directory (it holds .git): "),
        (
            "generate grid --raw home --force",
            "home: not a directory of `ignn generate --raw` (it holds .git): ",
        ),
        // The name of a raw file does not make it ours.
        (
            "generate grid --raw list --force",
            "list: not a directory of `ignn generate --raw` (it holds edges.tsv): ",
        ),
        ("train s --out home --force", "home: not a run directory (it holds .git): "),
        ("ingest edges e.txt --out e.txt --force", ""),
        ("demo --out home --force", ""),
        ("reproduce chains --quick --out home", ""),
        ("reproduce chains --quick --out home --force", ""),
        ("man home/thesis.tex", ""),
    ];
    let before = files_below(&sandbox.path(""));
    for (line, start) in cases {
        let run = sandbox.ignn(&words(&format!("{line} -q"))).exits(2);
        assert_eq!(run.stderr.lines().count(), 1, "{line}: {}", run.stderr);
        if !start.is_empty() {
            assert_eq!(run.stderr, format!("error: {start}{made}\n"), "{line}");
        }
        assert!(files_below(&sandbox.path("")) == before, "{line}");
    }
    let demo = "home/.git: not a file of a demo: --force would remove it: move it away first";
    sandbox.ignn(&words("demo --out home --force -q")).fails_with(demo);
    let link = "e.txt: output (found a file, expected a directory that ignn made, or a new name)";
    sandbox.ignn(&words("ingest edges e.txt --out e.txt --force -q")).fails_with(link);
}

#[test]
fn force_replaces_no_file_of_the_users() {
    let sandbox = communities();
    sandbox.ignn(&words("train s --out run --epochs 1 --set model.state=8 -q")).exits(0);
    sandbox.file("notes.txt", "precious").file("mine.html", "<h1>precious</h1>");
    sandbox.file("data.csv", "source,target,colour\n1,2,red\n").file("data.parquet", "precious");
    // The first columns of tables that the program writes, and others.
    sandbox.file("mine.csv", "node,colour,height\n1,red,2\n");
    sandbox.file("x.csv", "node,x0,x1,height\n1,0,0,2\n").file("e.csv", "id,x0,age\n1,0,9\n");
    sandbox.file("p.tsv", "id\tpredicted\tprobability\tremark\n1\ta\t1\tprecious\n");
    let made = "--force replaces only what ignn made: choose another name";
    let before = files_below(&sandbox.path(""));
    for (line, message) in [
        (
            "export s --splits mine.csv",
            format!("mine.csv: not a table with the columns node, default: {made}"),
        ),
        ("export s --features x.csv", format!("x.csv: not a table of features: {made}")),
        (
            "predict s --model run --embeddings e.csv",
            format!("e.csv: not a table of embeddings: {made}"),
        ),
        ("predict s --model run --out p.tsv", format!("p.tsv: not a table of predictions: {made}")),
        (
            "report run --out notes.txt",
            "notes.txt: file extension (found \"txt\", expected .html)".to_string(),
        ),
        ("report run --out mine.html", format!("mine.html: not a report: {made}")),
        (
            "predict s --model run --out data.csv",
            format!("data.csv: not a table of predictions: {made}"),
        ),
        (
            "predict s --model run --embeddings data.parquet",
            format!("data.parquet: not a table of embeddings: {made}"),
        ),
        ("export s --edges data.csv", format!("data.csv: not a table of edges: {made}")),
        ("export s --features data.csv", format!("data.csv: not a table of features: {made}")),
        ("export s --labels data.csv", format!("data.csv: not a table of labels: {made}")),
        ("export s --splits data.csv", format!("data.csv: not a table of splits: {made}")),
        ("export s --ids data.parquet", format!("data.parquet: not a table of ids: {made}")),
        ("export s --graphs data.csv", format!("data.csv: not a table of graphs: {made}")),
    ] {
        sandbox.ignn(&words(&format!("{line} --force -q"))).fails_with(&message);
        assert!(files_below(&sandbox.path("")) == before, "{line}");
    }
    // What the same command made is replaced, and an empty file.
    sandbox.file("empty.html", "");
    sandbox.ignn(&words("report run --out empty.html --force -q")).exits(0);
    for line in [
        "report run --out r.HTML",
        "predict s --model run --out p.csv --embeddings e.parquet",
        "predict s --model run --top 2 --out top.csv --embeddings states.csv",
        "export s --edges e.tsv --features f.parquet --labels l.csv --splits s.csv --ids i.parquet",
    ] {
        sandbox.ignn(&words(&format!("{line} -q"))).exits(0);
        sandbox.ignn(&words(&format!("{line} --force -q"))).exits(0);
    }
}

#[test]
fn a_foreign_file_in_a_directory_of_ours_is_named() {
    let sandbox = communities();
    sandbox.file("e.txt", "0 1\n1 2\n");
    sandbox.ignn(&words("generate grid --raw raw --out d -q")).exits(0);
    for (line, directory, what) in [
        ("ingest edges e.txt --out d", "d", "a dataset"),
        ("ingest edges e.txt --out d", "d/relations/edges", "a dataset"),
        ("generate grid --raw raw", "raw", "a directory of `ignn generate --raw`"),
    ] {
        let note = format!("{directory}/notes.txt");
        sandbox.file(&note, "precious");
        let message =
            format!("{note}: not a file of {what}: --force would remove it: move it away first");
        sandbox.ignn(&words(&format!("{line} --force -q"))).fails_with(&message);
        assert_eq!(sandbox.read(&note), "precious");
        fs::remove_file(sandbox.path(&note)).unwrap();
        // A dataset whose manifest is of another version is replaced as well.
        if directory == "d" {
            let manifest = sandbox.read("d/manifest.json");
            sandbox.file("d/manifest.json", manifest.replace("\"version\": 1", "\"version\": 9"));
        }
        sandbox.ignn(&words(&format!("{line} --force -q"))).exits(0);
        if directory != "raw" {
            sandbox.ignn(&words("check d")).exits(0);
            fs::remove_dir_all(sandbox.path("d")).unwrap();
            sandbox.ignn(&words("generate grid --out d -q")).exits(0);
        }
    }
    assert_eq!(sandbox.names(), ["d", "e.txt", "raw", "s"]);
}

/// Runs the same command several times at once.
fn race(sandbox: &Sandbox, line: &str, count: usize) -> Vec<Output> {
    let line = words(line);
    let spawn = |_| {
        let mut command = sandbox.command(&line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..count).map(spawn).collect();
    children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

#[test]
fn of_two_commands_with_the_same_output_one_wins() {
    let sandbox = communities();
    sandbox.ignn(&words("generate grid --raw raw -q")).exits(0);
    sandbox.ignn(&words("train s --out model --epochs 1 --set model.state=8 -q")).exits(0);
    let train = "train s --epochs 3 --set model.state=8 -q --out run";
    let lines = [
        (train.to_string(), "run"),
        (format!("{train} --seeds 0,1"), "run"),
        ("ingest edges raw/edges.tsv --out d -q".into(), "d"),
        ("predict s --model model --out p.csv -q".into(), "p.csv"),
    ];
    for (line, out) in lines {
        let outputs = race(&sandbox, &line, 3);
        let codes: Vec<_> = outputs.iter().map(|output| output.status.code()).collect();
        let won = codes.iter().filter(|code| **code == Some(0)).count();
        let refused = codes.iter().filter(|code| **code == Some(2)).count();
        assert_eq!((won, refused), (1, 2), "{line}: {codes:?}");
        for output in outputs.iter().filter(|output| !output.status.success()) {
            let said = String::from_utf8_lossy(&output.stderr);
            let messages =
                ["already exists: ", "another run is writing", "another process is using"];
            assert!(messages.iter().any(|message| said.contains(message)), "{line}: {said}");
            assert_eq!(said.lines().count(), 1, "{line}: {said}");
        }
        match out {
            "d" => drop(sandbox.ignn(&words("check d")).exits(0)),
            "run" if line.contains("seeds") => {
                for seed in [0, 1] {
                    let model = format!("run/seed-{seed}");
                    sandbox.ignn(&["eval", "s", "--model", &model, "-q"]).exits(0);
                }
            }
            "run" => {
                sandbox.ignn(&words("eval s --model run -q")).exits(0);
                assert_eq!(sandbox.read("run/metrics.jsonl").lines().count(), 4);
            }
            _ => assert_eq!(sandbox.read(out).lines().count(), 301),
        }
        let drafts: Vec<_> =
            sandbox.names().into_iter().filter(|name| name.contains("ignn-draft")).collect();
        assert!(drafts.is_empty(), "{line}: {drafts:?}");
        match sandbox.path(out).is_dir() {
            true => fs::remove_dir_all(sandbox.path(out)).unwrap(),
            false => fs::remove_file(sandbox.path(out)).unwrap(),
        }
    }
}

#[test]
fn drafts_overwrite_nothing_and_follow_no_link() {
    let sandbox = communities();
    sandbox.ignn(&words("train s --out run --epochs 1 --set model.state=8 -q")).exits(0);
    // Names of drafts of earlier versions.
    sandbox.file("report.part", "mine").file("precious.txt", "precious");
    sandbox.ignn(&words("report run --out report.html --no-classes -q")).exits(0);
    assert_eq!(sandbox.read("report.part"), "mine");
    // Links where a draft or an output will be.
    let precious = sandbox.path("precious.txt");
    symlink(&precious, sandbox.path("linked.html")).unwrap();
    symlink(&precious, sandbox.path(".planted.html.ignn-draft")).unwrap();
    fs::create_dir(sandbox.path(".held.html.ignn-draft")).unwrap();
    symlink(&precious, sandbox.path(".held.html.ignn-draft/ignn-new")).unwrap();
    symlink(&precious, sandbox.path("run/metrics.jsonl.link")).unwrap();
    let line = "report run --no-classes -q --force --out";
    sandbox.ignn(&words(&format!("{line} linked.html"))).exits(2);
    sandbox.ignn(&words(&format!("{line} planted.html"))).exits(2);
    // Inside of a directory that looks like that of a dead run, a link is removed, not followed.
    sandbox.ignn(&words(&format!("{line} held.html"))).exits(0);
    fs::remove_file(sandbox.path("run/metrics.jsonl.link")).unwrap();
    fs::remove_file(sandbox.path("run/metrics.jsonl")).unwrap();
    symlink(&precious, sandbox.path("run/metrics.jsonl")).unwrap();
    sandbox.ignn(&words("train --resume run --epochs 2 -q")).exits(2);
    assert_eq!(sandbox.read("precious.txt"), "precious");
    assert!(sandbox.path("linked.html").is_symlink());
}

#[test]
fn a_full_disk_leaves_no_draft() {
    let sandbox = communities();
    sandbox.ignn(&words("train s --out run --epochs 1 --set model.state=8 -q")).exits(0);
    let (before, names) = (files_below(&sandbox.path("")), sandbox.names());
    let lines = [
        "report run --out report.html --no-classes -q",
        "report run --out deep/report.html --no-classes -q",
        "predict s --model run --out p.csv -q",
        "export s --edges e.parquet --ids i.csv -q",
        "ingest edges s/nothing --out d -q",
        "generate grid --raw raw --out d -q",
        "train s --out other --epochs 2 --set model.state=8 -q",
        "train s --out run --force --set train.split=none -q",
        "man pages",
    ];
    for line in lines {
        for number in 1..8 {
            let mut command = sandbox.command(&words(line));
            let output = command.env("IGNN_FAULT", format!("{number}:ENOSPC")).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            if !output.status.success() {
                assert_eq!(output.status.code(), Some(2), "{line}: {number}: {said}");
                assert_eq!(said.lines().count(), 1, "{line}: {number}: {said}");
            }
            for name in sandbox.names().iter().filter(|name| !names.contains(name)) {
                // A run keeps what it has set up; the raw files are made before the dataset.
                let is_kept = ["other", "raw", "pages"].contains(&name.as_str());
                let is_made = is_kept || output.status.success();
                assert!(is_made, "{line}: {number}: {name}: {said}");
                let path = sandbox.path(name);
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            }
            assert!(files_below(&sandbox.path("")) == before, "{line}: {number}: {said}");
        }
    }
}

#[test]
fn a_run_killed_at_any_moment_of_its_setup_can_be_started_again() {
    let sandbox = communities();
    let line = "train s --out run --epochs 2 --set model.state=8 -q";
    let (mut is_done, mut kills) = (false, 0);
    for number in 1..200 {
        let mut command = sandbox.command(&words(line));
        let status = command.env("IGNN_FAULT", format!("{number}:KILL")).stderr(Stdio::null());
        is_done = status.stdout(Stdio::null()).status().unwrap().success();
        if is_done {
            break;
        }
        kills += 1;
        if !sandbox.path("run").exists() {
            // A plain restart works.
            continue;
        }
        let exists = "run: already exists: choose another name, or pass --force to replace it";
        sandbox.ignn(&words(line)).fails_with(exists);
        assert!(
            sandbox.path("run/config.toml").is_file() && sandbox.path("run/dataset.txt").is_file()
        );
        if number % 5 == 0 {
            let resumed = sandbox.ignn(&words("train --resume run -q"));
            let again = "error: run: the run ended before its first checkpoint: train again with \
                         --force\n";
            assert!(resumed.code == Some(0) || resumed.stderr == again, "{}", resumed.stderr);
            sandbox.ignn(&words(&format!("{line} --force"))).exits(0);
        }
        fs::remove_dir_all(sandbox.path("run")).unwrap();
    }
    assert!(is_done && kills > 10, "{kills}");
    assert_eq!(sandbox.names(), ["run", "s"]);
}

#[test]
fn a_half_made_run_of_an_older_version_is_accepted() {
    let sandbox = communities();
    let line = "train s --out run --epochs 1 --set model.state=8 -q";
    sandbox.ignn(&words(line)).exits(0);
    let config = sandbox.read("run/config.toml");
    fs::remove_dir_all(sandbox.path("run")).unwrap();
    sandbox.file("run/config.toml", &config);
    let missing = "run/dataset.txt: missing or empty (expected the path of a dataset): give \
                   DATASET as well";
    sandbox.ignn(&words("train --resume run -q")).fails_with(missing);
    sandbox.ignn(&words(&format!("{line} --force"))).exits(0);
}

#[test]
fn what_cannot_be_written_is_refused_before_the_work() {
    let sandbox = communities();
    sandbox.file("file", "mine");
    sandbox.ignn(&words("train s --out model --epochs 1 --set model.state=8 -q")).exits(0);
    fs::create_dir(sandbox.path("closed")).unwrap();
    let mut closed = fs::metadata(sandbox.path("closed")).unwrap().permissions();
    closed.set_readonly(true);
    fs::set_permissions(sandbox.path("closed"), closed).unwrap();
    // Root writes everywhere.
    let is_root = fs::write(sandbox.path("closed/x"), "").is_ok();
    let outs = ["x/.", "..", "/", ".", "file/x", "closed/y/z"];
    for out in outs.iter().filter(|out| !is_root || !out.starts_with("closed")) {
        // A command that came to its work would fail on the dataset or the model, which are not
        // there, or on the number of epochs.
        for line in ["generate rmat --scale 31 --out", "generate rmat --scale 31 --raw"] {
            let run = sandbox.ignn(&words(&format!("{line} {out} -q"))).exits(2);
            assert!(run.stderr.starts_with("error: "), "{out}: {}", run.stderr);
        }
        let train = format!("train s --epochs 1000000 -q --out {out}");
        sandbox.ignn(&words(&train)).exits(2);
    }
    // Neither form is written where the other one cannot be.
    sandbox.ignn(&words("generate grid --raw raw --out file -q")).exits(2);
    // The output comes before the input.
    for form in ["tu", "graphsage", "dgcnn"] {
        let parent = "file: parent of the output (found a file, expected a directory)";
        sandbox.ignn(&["ingest", form, "nothing", "--out", "file/d", "-q"]).fails_with(parent);
    }
    for out in ["x.csv/.", "..", "file/x.csv"] {
        sandbox.ignn(&words(&format!("predict s --model model --out {out} -q"))).exits(2);
        let page = out.replace(".csv", ".html");
        sandbox.ignn(&words(&format!("report model --out {page} -q"))).exits(2);
    }
    assert_eq!(sandbox.names(), ["closed", "file", "model", "s"]);
}

#[test]
fn a_limit_of_file_sizes_is_an_error_of_the_write() {
    let sandbox = Sandbox::new();
    let line = words("generate grid --rows 100 --columns 100 --out d -q");
    let run = sandbox.ignn_limited("-f 8", &line).exits(2);
    assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    assert!(run.stderr.contains("cannot write: File too large"), "{}", run.stderr);
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
}
