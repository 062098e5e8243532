//! The rules of ARCHITECTURE.md that a program can check.

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms of `src/` and their numbers: a room names only lower numbers, or itself.
const ROOMS: &[(&str, u32)] = &[
    ("parallel", 0),
    ("dense", 0),
    ("settings", 0),
    ("graph", 1),
    ("kernels", 2),
    ("solver", 3),
    ("nn", 4),
    ("optim", 4),
    ("metrics", 4),
    ("config", 5),
    ("models", 6),
    ("train", 7),
    ("predict", 7),
    ("report", 8),
];

/// The root of the project.
pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn number(room: &str) -> Option<u32> {
    ROOMS.iter().find(|(name, _)| *name == room).map(|(_, number)| *number)
}

/// All Rust files below a directory.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The lines of a file without comments, with their numbers.
fn code(path: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim().to_string()));
    lines.filter(|(_, line)| !line.starts_with("//")).collect()
}

/// The rooms that a line names, through `crate::` or `ignn::`.
fn rooms_named(line: &str) -> Vec<String> {
    let mut named = Vec::new();
    for prefix in ["crate::", "ignn::"] {
        for (at, _) in line.match_indices(prefix) {
            if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &line[at + prefix.len()..];
            let list = match rest.strip_prefix('{') {
                Some(list) => list.split('}').next().unwrap_or(list).split(',').collect(),
                None => vec![rest],
            };
            for item in list {
                let word: String =
                    item.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                named.push(word);
            }
        }
    }
    named
}

#[test]
fn names_are_found_in_every_form() {
    assert_eq!(rooms_named("use crate::graph::Dataset;"), ["graph"]);
    assert_eq!(rooms_named("use ignn::{graph, report::sheet};"), ["graph", "report"]);
    assert_eq!(rooms_named("let x = crate::cli::run(ignn::nn::f);"), ["cli", "nn"]);
    assert!(rooms_named("use myignn::cli;").is_empty());
}

#[test]
fn no_room_names_a_higher_one() {
    let src = project().join("src");
    let mut wrong = Vec::new();
    for path in sources(&src) {
        let inside = path.strip_prefix(&src).unwrap();
        let room = inside.iter().next().unwrap().to_string_lossy().into_owned();
        if inside.iter().count() == 1 {
            continue;
        }
        let own =
            number(&room).unwrap_or_else(|| panic!("{}: a room without a number", path.display()));
        for (line, text) in code(&path) {
            for named in rooms_named(&text) {
                if named != room && number(&named).is_some_and(|number| number >= own) {
                    wrong.push(format!("{}:{line}: {room} names {named}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn packages_know_only_what_lies_below_them() {
    let strangers: [(&str, &[&str]); 3] = [
        ("src", &["ignn_ingest", "clap", "indicatif", "ctrlc"]),
        ("ingest/src", &["ignn::", "clap", "indicatif", "ctrlc"]),
        ("ingest/format/src", &["ignn_ingest", "ignn::", "clap", "indicatif", "ctrlc"]),
    ];
    for (package, strangers) in strangers {
        for path in sources(&project().join(package)) {
            for (line, text) in code(&path) {
                let found = strangers.iter().find(|name| text.contains(&format!("use {name}")));
                assert!(
                    found.is_none(),
                    "{}:{line}: {package} knows {}",
                    path.display(),
                    found.unwrap()
                );
            }
        }
    }
}

/// Files with instructions of a processor: unsafe, one operation a block.
const INSTRUCTION_SETS: [&str; 2] = ["src/kernels/simd/avx2.rs", "src/kernels/simd/avx512.rs"];

#[test]
fn mmap_is_called_in_one_place_and_unsafe_stays_where_it_is_allowed() {
    for package in ["src", "cli/src", "ingest/src", "ingest/format/src"] {
        for path in sources(&project().join(package)) {
            if path.ends_with("ingest/format/src/mapped.rs") {
                continue;
            }
            let is_instructions = INSTRUCTION_SETS.iter().any(|file| path.ends_with(file));
            for (line, text) in code(&path) {
                let place = format!("{}:{line}", path.display());
                assert!(!text.contains("memmap2"), "{place}: memmap2 outside of mapped");
                assert!(is_instructions || !text.contains("unsafe {"), "{place}: unsafe");
            }
        }
    }
}

#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    for file in INSTRUCTION_SETS.iter().chain(&["ingest/format/src/mapped.rs"]) {
        let text = fs::read_to_string(project().join(file)).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("unsafe {")) {
            let explained =
                lines[at.saturating_sub(3)..at].iter().any(|line| line.starts_with("// SAFETY:"));
            assert!(explained, "{file}:{}: {line}", at + 1);
        }
    }
}

#[test]
fn no_drawer_for_odds_and_ends() {
    for package in ["src", "cli/src", "ingest/src", "ingest/format/src"] {
        for path in sources(&project().join(package)) {
            let odd = path.iter().any(|step| {
                let name = step.to_string_lossy();
                ["utils", "helpers", "common"].contains(&name.trim_end_matches(".rs"))
            });
            assert!(!odd || !path.starts_with(project()), "{}", path.display());
        }
    }
}

#[test]
fn documents_are_short_and_present() {
    let lines = |name: &str| {
        let text = fs::read_to_string(project().join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        text.lines().count()
    };
    assert!(lines("ARCHITECTURE.md") < 250);
    assert!(lines("README.md") < 250);
    for name in ["CONTRIBUTING.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(lines(name) > 0);
    }
    let readme = fs::read_to_string(project().join("README.md")).unwrap();
    for command in ["cargo run --release -- demo", "cargo test --workspace"] {
        assert!(readme.contains(command), "README.md does not say `{command}`");
    }
}
