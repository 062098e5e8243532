//! The rules of ARCHITECTURE.md that a program can check.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A package whose modules stand in the order of the table in its `lib.rs`: a module names only
/// modules with lower numbers, or itself.
struct Package {
    /// Its name in Rust code.
    name: &'static str,
    /// Its sources, from the root of the project.
    src: &'static str,
}

const PACKAGES: [Package; 3] = [
    Package { name: "ignn", src: "src" },
    Package { name: "ignn_ingest", src: "ingest/src" },
    Package { name: "ignn_format", src: "ingest/format/src" },
];

/// The sources of all packages; that for Python is no part of the workspace.
const SOURCES: [&str; 5] = ["src", "cli/src", "ingest/src", "ingest/format/src", "python/src"];

/// The root of the project.
pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below a directory.
pub fn sources(directory: &Path) -> Vec<PathBuf> {
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

/// The numbers of the modules of a package, from the table in the docs of its `lib.rs`.
fn numbers(package: &Package) -> BTreeMap<String, u32> {
    let path = project().join(package.src).join("lib.rs");
    let text = fs::read_to_string(&path).unwrap();
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("//! | ")?.split(" | ");
        let module = cells.next()?.trim_matches(['[', ']', '`']);
        Some((module.to_string(), cells.next()?.parse().ok()?))
    });
    let table: BTreeMap<String, u32> = rows.collect();
    assert!(!table.is_empty(), "{}: no table of modules", path.display());
    table
}

/// Where a file stands in the tree of modules: `["source", "npy"]` for `source/npy/mod.rs`.
fn module_path(inside: &Path) -> Vec<String> {
    let mut path: Vec<String> =
        inside.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    path.pop_if(|last| last == "mod");
    path
}

/// A name at the start of a text, and what follows it.
fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at(end)
}

/// The items of a list in braces, without what is nested in them.
fn list_items(list: &str) -> Vec<&str> {
    let (mut items, mut depth, mut start) = (Vec::new(), 0, 1);
    for (at, c) in list.char_indices() {
        depth += i32::from(c == '{');
        depth -= i32::from(c == '}');
        if depth == 0 || (depth == 1 && c == ',') {
            items.push(list[start..at].trim());
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    items
}

/// The modules at the root of a package that a source names, with the lines: by `crate::`, by the
/// name of the package, or by as many `super::` as lead from the module at `depth` to the root.
fn modules_named(source: &str, package: &str, depth: usize) -> Vec<(usize, String)> {
    let mut named = Vec::new();
    let mut inline: Vec<usize> = Vec::new();
    let mut offset = 0;
    for (index, line) in source.split_inclusive('\n').enumerate() {
        let (start, code) = (offset, line.trim());
        offset += line.len();
        if code.starts_with("//") {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        if code == "}" && inline.last() == Some(&indent) {
            inline.pop();
        }
        for (at, _) in line.match_indices("::") {
            let before = line[..at].trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
            if before.ends_with("::") || before.ends_with('$') {
                continue;
            }
            let mut rest = &source[start + at + 2..];
            let at_root = match &line[before.len()..at] {
                "super" => {
                    let mut level = depth + inline.len() - 1;
                    while let Some(more) = rest.strip_prefix("super::") {
                        (rest, level) = (more, level - 1);
                    }
                    level == 0
                }
                first => first == "crate" || first == package,
            };
            if at_root {
                let items = if rest.starts_with('{') { list_items(rest) } else { vec![rest] };
                let words =
                    items.into_iter().map(|item| word(item).0).filter(|word| !word.is_empty());
                named.extend(words.map(|word| (index + 1, word.to_string())));
            }
        }
        if code.ends_with('{') && code.split_whitespace().rev().nth(2) == Some("mod") {
            inline.push(indent);
        }
    }
    named
}

#[test]
fn names_are_found_in_every_form() {
    let named = |source: &str, depth| {
        let named = modules_named(source, "ignn", depth);
        named.into_iter().map(|(line, name)| format!("{line} {name}")).collect::<Vec<_>>()
    };
    assert_eq!(named("use crate::graph::Graph;", 1), ["1 graph"]);
    assert_eq!(named("use ignn::{graph, report::sheet};", 1), ["1 graph", "1 report"]);
    assert_eq!(named("\nuse crate::{\n    a::{b, c},\n    d,\n};", 1), ["2 a", "2 d"]);
    assert_eq!(named("let x = crate::cli::run(ignn::nn::f);", 1), ["1 cli", "1 nn"]);
    assert!(named("use myignn::cli;\nuse other::crate_::cli;\n// crate::cli", 1).is_empty());
    assert_eq!(named("use super::graph;", 1), ["1 graph"]);
    assert!(named("use super::graph;", 2).is_empty());
    assert_eq!(named("use super::super::{graph, nn};", 2), ["1 graph", "1 nn"]);
    let nested = "mod tests {\n    use super::*;\n    use super::super::nn;\n}\nuse super::cli;\n";
    assert_eq!(named(nested, 1), ["3 nn", "5 cli"]);
}

#[test]
fn no_module_names_a_higher_one() {
    let mut wrong = Vec::new();
    for package in &PACKAGES {
        let (numbers, src) = (numbers(package), project().join(package.src));
        let mut seen = BTreeSet::new();
        for path in sources(&src) {
            let modules = module_path(path.strip_prefix(&src).unwrap());
            let module = &modules[0];
            if module == "lib" {
                continue;
            }
            seen.insert(module.clone());
            let Some(own) = numbers.get(module) else {
                wrong.push(format!("{}: {module} is not in lib.rs's table", path.display()));
                continue;
            };
            let source = fs::read_to_string(&path).unwrap();
            for (line, named) in modules_named(&source, package.name, modules.len()) {
                if named != *module && numbers.get(&named).is_some_and(|number| number >= own) {
                    wrong.push(format!("{}:{line}: {module} names {named}", path.display()));
                }
            }
        }
        let gone = numbers.keys().filter(|module| !seen.contains(*module));
        wrong.extend(gone.map(|module| format!("{}: no module {module}", package.src)));
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

/// Files with instructions of a processor: unsafe, one operation per block.
const INSTRUCTION_SETS: [&str; 2] = ["src/kernels/simd/avx2.rs", "src/kernels/simd/avx512.rs"];

#[test]
fn mmap_is_called_in_one_place_and_unsafe_stays_where_it_is_allowed() {
    for package in SOURCES {
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

/// The only place that changes files and directories.
const STORAGE: &str = "ingest/format/src/storage/";
/// What changes them in the standard library and in libraries that we use.
const CHANGES: [&str; 16] = [
    "File::create",
    "File::options",
    "OpenOptions",
    "DirBuilder",
    "fs::write(",
    "fs::copy(",
    "fs::rename(",
    "fs::create_dir",
    "fs::remove_",
    "fs::hard_link(",
    "fs::set_permissions(",
    "fs::symlink(",
    "sync_all(",
    "sync_data(",
    "rustix::fs",
    "generate_to(",
];

#[test]
fn files_are_changed_in_one_place() {
    let mut wrong = Vec::new();
    for package in SOURCES {
        for path in sources(&project().join(package)) {
            let inside = path.strip_prefix(project()).unwrap().to_string_lossy().into_owned();
            let is_test = inside.ends_with("/tests.rs") || inside.contains("/tests/");
            if is_test || inside.starts_with(STORAGE) || inside == "cli/src/document.rs" {
                continue;
            }
            // Tests stand at the end of a file.
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("\n#[cfg(test)]\npub mod testing").next().unwrap_or_default();
            let code = code.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let code =
                code.split("\n#[cfg(test)]\npub(crate) mod tests").next().unwrap_or_default();
            for (at, line) in code.lines().enumerate() {
                let is_comment = line.trim_start().starts_with("//");
                // A switch of the kernel, not a file.
                let is_switch = line.contains("\"/proc/self/");
                // `OutputFile::create_new` is of storage.
                let is_named = |change: &&&str| {
                    line.match_indices(**change)
                        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric()))
                };
                if let Some(change) = CHANGES.iter().find(is_named)
                    && !is_comment
                    && !is_switch
                {
                    wrong.push(format!("{inside}:{}: {change}", at + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "outside of {STORAGE}:\n{}", wrong.join("\n"));
}

#[test]
fn one_place_prints() {
    let printing = ["println!", "print!(", "stdout()", "stderr()", ".println("];
    for path in sources(&project().join("cli/src")) {
        if path.ends_with("terminal/printer.rs") {
            continue;
        }
        for (line, text) in code(&path) {
            let asks = text.contains("stderr().is_terminal()");
            let found = printing.iter().find(|word| text.contains(*word) && !asks);
            let place = format!("{}:{line}", path.display());
            assert!(found.is_none(), "{place}: {} outside of terminal/printer", found.unwrap());
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
    for package in SOURCES {
        for path in sources(&project().join(package)) {
            let odd = path.iter().any(|step| {
                let name = step.to_string_lossy();
                ["utils", "helpers", "common"].contains(&name.trim_end_matches(".rs"))
            });
            assert!(!odd || !path.starts_with(project()), "{}", path.display());
        }
    }
}

/// Longest line of a source file or document, in columns.
const WIDTH: usize = 110;
/// Longest README, in lines.
const README_LINES: usize = 150;

/// All files with this ending below a directory.
fn files_ending(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_ending(&path, ending));
        } else if path.extension().is_some_and(|found| found == ending) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Lines that are too wide, with their place. Tables of Markdown and lines with a URL may be wider:
/// neither can be wrapped.
fn wide_lines(path: &Path, text: &str) -> Vec<String> {
    let is_markdown = path.extension().is_some_and(|ending| ending == "md");
    let may_be_wide =
        |line: &str| (is_markdown && line.trim_start().starts_with('|')) || line.contains("://");
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.chars().count() > WIDTH && !may_be_wide(line));
    lines.map(|(at, _)| format!("{}:{}", path.display(), at + 1)).collect()
}

#[test]
fn wide_lines_are_found() {
    let wide = "x".repeat(WIDTH + 1);
    let umlauts = "\u{fc}".repeat(WIDTH);
    let (rust, markdown) = (Path::new("a.rs"), Path::new("a.md"));
    assert_eq!(wide_lines(rust, &format!("{umlauts}\n{wide}\n")), ["a.rs:2"]);
    assert_eq!(wide_lines(rust, &format!("| {wide}\n")), ["a.rs:1"]);
    assert!(wide_lines(markdown, &format!("| {wide} |\nhttps://{wide}\n")).is_empty());
}

#[test]
fn no_line_is_too_wide() {
    let folders =
        ["benches", "cli", "docs", "examples", "ingest", "python", "scripts", "src", "tests"];
    let mut files: Vec<PathBuf> = ["rs", "md"]
        .iter()
        .flat_map(|ending| {
            folders.iter().flat_map(move |folder| files_ending(&project().join(folder), ending))
        })
        .collect();
    let entries = fs::read_dir(project()).unwrap().map(|entry| entry.unwrap().path());
    files.extend(entries.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    assert!(files.len() > 200, "only {} files were found", files.len());
    let wide: Vec<String> = files
        .iter()
        .flat_map(|path| wide_lines(path, &fs::read_to_string(path).unwrap()))
        .collect();
    assert!(wide.is_empty(), "lines of more than {WIDTH} columns:\n{}", wide.join("\n"));
}

#[test]
fn documents_are_present_and_the_readme_is_short() {
    let read = |name: &str| {
        fs::read_to_string(project().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let documents = [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "docs/decisions.md",
        "docs/results.md",
    ];
    for name in documents {
        assert!(!read(name).is_empty(), "{name} is empty");
    }
    let readme = read("README.md");
    assert!(readme.lines().count() <= README_LINES, "README.md has more than {README_LINES} lines");
    for command in ["cargo run --release -- demo", "cargo test --workspace"] {
        assert!(readme.contains(command), "README.md does not say `{command}`");
    }
}

/// Targets of the links to files in a Markdown text, without their anchors.
fn linked_files(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    files.map(|target| target.split('#').next().unwrap_or(target).to_string()).collect()
}

#[test]
fn links_in_documents_lead_to_files() {
    assert_eq!(linked_files("[a](b.md#c), [d](https://e.org), [f](#g)"), ["b.md"]);
    let entries = fs::read_dir(project()).unwrap().map(|entry| entry.unwrap().path());
    let mut documents: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    documents.extend(files_ending(&project().join("docs"), "md"));
    for path in documents {
        let folder = path.parent().unwrap();
        for target in linked_files(&fs::read_to_string(&path).unwrap()) {
            assert!(folder.join(&target).exists(), "{}: no file {target}", path.display());
        }
    }
}
