//! `ignn report`: what the file contains, what is refused, and how a browser reads it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sandbox::Sandbox;

/// Sections that every page of a finished run has, by their anchors.
const SECTIONS: [&str; 9] =
    ["results", "loss", "metrics", "solves", "contraction", "time", "classes", "config", "machine"];

/// Chains, a run on them, and two seeds.
fn runs() -> Sandbox {
    let sandbox = Sandbox::new();
    let chains = ["generate", "chains", "--length", "6", "--chains", "4", "--features", "4"];
    let parts = ["--train", "10", "--val", "10", "--test", "20", "--out", "c.ignn", "-q"];
    sandbox.ignn(&[&chains[..], &parts].concat()).exits(0);
    let train = ["train", "c.ignn", "--preset", "chains", "--epochs", "4", "-q", "--out"];
    sandbox.ignn(&[&train[..], &["run"]].concat()).exits(0);
    sandbox
        .ignn(&[&train[..], &["seeds", "--seeds", "0..1", "--set", "model.kappa=0.8"]].concat())
        .exits(0);
    sandbox
}

#[test]
fn one_run_is_one_file_with_every_section() {
    let sandbox = runs();
    let run = sandbox.ignn(&["report", "run", "--out", "report.html"]).exits(0);
    assert!(run.stdout.starts_with("made report.html: 1 run, "), "{}", run.stdout);
    let html = sandbox.read("report.html");
    for section in SECTIONS {
        assert!(html.contains(&format!("<section id=\"{section}\">")), "no section {section}");
    }
    for curve in ["train", "validation", "test", "step", "forward", "adjoint", "q", "radius of |W|"]
    {
        assert!(html.contains(&format!("data-series=\"{curve}\"")), "no curve {curve}");
    }
    for word in ["data-reference=\"kappa 0.9\"", "data-part=\"forward\"", "kappa = [0.9]", "c.ignn"]
    {
        assert!(html.contains(word), "no {word}");
    }
    for word in ["<script", "http:", "https:"] {
        assert!(!html.contains(word), "{word}: needs no network");
    }
}

#[test]
fn several_runs_are_compared_and_seeds_are_one_group() {
    let sandbox = runs();
    let run = sandbox
        .ignn(&["report", "run", "seeds", "--out", "r.html", "--title", "A & B", "--json"])
        .exits(0);
    let printed = run.json();
    assert_eq!(
        (&printed["runs"], &printed["groups"]),
        (&3.into(), &serde_json::json!(["run", "seeds"]))
    );
    let html = sandbox.read("r.html");
    assert_eq!(html.matches("<figure ").count(), printed["charts"].as_u64().unwrap() as usize);
    for word in [
        "<h1>A &amp; B</h1>",
        "<td class=\"n\">2</td>",
        "class=\"band s1\"",
        "model.kappa",
        "data-series=\"seeds\"",
    ] {
        assert!(html.contains(word), "no {word}");
    }
}

#[test]
fn classes_are_left_out_if_the_dataset_is_gone_or_on_request() {
    let sandbox = runs();
    sandbox.ignn(&["report", "run", "--out", "a.html", "--no-classes"]).exits(0);
    assert!(!sandbox.read("a.html").contains("<section id=\"classes\">"));
    fs::rename(sandbox.path("c.ignn"), sandbox.path("moved.ignn")).unwrap();
    let run = sandbox.ignn(&["report", "run", "--out", "b.html"]).exits(0);
    assert!(run.stderr.contains("note: run: no results by class: "), "{}", run.stderr);
    assert!(!sandbox.read("b.html").contains("<section id=\"classes\">"));
}

#[test]
fn what_is_not_a_run_and_existing_files_are_refused() {
    let sandbox = runs();
    let expected = "expected config.toml in it, as `ignn train` writes it";
    sandbox
        .ignn(&["report", "c.ignn", "--out", "r.html"])
        .fails_with(&format!("c.ignn: not a run directory ({expected})"));
    fs::create_dir(sandbox.path("d.html")).unwrap();
    sandbox
        .ignn(&["report", "run", "--out", "d.html"])
        .fails_with("d.html: output (found a directory, expected a file's name)");
    sandbox
        .ignn(&["report", "run", "--out", "report"])
        .fails_with("report: file extension (found none, expected .html)");
    sandbox.file("r.html", "mine");
    sandbox
        .ignn(&["report", "run", "--out", "r.html"])
        .fails_with("r.html: already exists: choose another name, or pass --force to replace it");
    assert_eq!(sandbox.read("r.html"), "mine");
    sandbox.file("run/metrics.jsonl", "mine\n");
    let run = sandbox.ignn(&["report", "run", "--out", "x.html"]).exits(2);
    assert!(run.stderr.starts_with("error: run/metrics.jsonl: line 1 (found "), "{}", run.stderr);
    assert!(!sandbox.path("x.html").exists());
}

#[test]
fn an_unfinished_run_is_shown_as_far_as_it_got() {
    let sandbox = runs();
    fs::remove_file(sandbox.path("run/run.json")).unwrap();
    sandbox.ignn(&["report", "run", "--out", "r.html"]).exits(0);
    let html = sandbox.read("r.html");
    assert!(html.contains("1 run is not finished") && html.contains("data-series=\"validation\""));
    // Killed in the middle of a line.
    let text = sandbox.read("run/metrics.jsonl") + "{\"epoch\":99,\"lo";
    sandbox.file("run/metrics.jsonl", text);
    let run = sandbox.ignn(&["report", "run", "--out", "torn.html", "--no-classes"]).exits(0);
    let note = "note: run/metrics.jsonl: the last line was never finished: left out\n";
    assert!(run.stderr.contains(note), "{}", run.stderr);
}

/// A browser of this machine.
pub fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).find_map(|directory| {
        names.iter().map(|name| directory.join(name)).find(|path| path.is_file())
    });
    if found.is_none() {
        println!("skipped: no chromium on this machine");
    }
    found
}

/// The page as the browser built it, and what it said while doing so.
pub fn opened(browser: &Path, page: &Path, profile: &Path, width: u32) -> (String, String) {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--window-size={width},900"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("the browser starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_browser_shows_every_section_and_curve_and_says_nothing() {
    let Some(browser) = browser() else { return };
    let sandbox = runs();
    sandbox.ignn(&["report", "run", "seeds", "--out", "r.html"]).exits(0);
    let (dom, said) = opened(&browser, &sandbox.path("r.html"), &sandbox.path("profile"), 390);
    for section in SECTIONS {
        assert!(
            dom.contains(&format!("<section id=\"{section}\">")),
            "no section {section} in\n{dom}\n{said}"
        );
    }
    let written = sandbox.read("r.html");
    for part in ["class=\"curve", "<svg", "<figure", "data-part=", "<desc"] {
        assert_eq!(dom.matches(part).count(), written.matches(part).count(), "{part}");
    }
    assert!(dom.matches("class=\"curve").count() > 20);
    let console: Vec<_> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{console:?}");
    // The same browser does report mistakes on its console.
    let broken = "<!DOCTYPE html><script>console.error('heard')</script>";
    sandbox.file("broken.html", broken);
    let (_, said) = opened(&browser, &sandbox.path("broken.html"), &sandbox.path("profile"), 390);
    assert!(said.contains("heard"), "a silent console proves something: {said}");
}
