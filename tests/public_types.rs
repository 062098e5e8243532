//! A user of the library depends on `ignn` alone: public signatures have no type of another crate,
//! but of those that `ignn` re-exports. Types of `ignn` itself are held by a lint,
//! `unnameable_types`.

use std::collections::BTreeSet;
use std::fs;

use super::architecture::{project, sources};

/// Crates whose types may occur in public signatures, as they are re-exported by `src/lib.rs`.
const REEXPORTED: [(&str, &str); 3] = [
    ("ignn_format", "pub use ignn_format as format;"),
    ("serde_json", "pub use serde_json;"),
    ("sprs", "pub use sprs;"),
];

/// A module that is not public.
const PRIVATE: &str = "json_number.rs";

/// Names that a source imports from one of these crates.
fn imported(source: &str, crates: &[String]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for statement in source.split("use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let Some((first, rest)) = statement.split_once("::") else { continue };
        if crates.iter().any(|name| name == first.trim()) {
            let words = rest.split(|c: char| !c.is_alphanumeric() && c != '_');
            let types = words.filter(|word| word.starts_with(|c: char| c.is_uppercase()));
            names.extend(types.map(String::from));
        }
    }
    names
}

/// Public signatures: functions up to their body, fields and constants, without strings.
fn signatures(source: &str) -> Vec<(usize, String)> {
    let (mut found, mut lines) = (Vec::new(), source.lines().enumerate());
    while let Some((at, line)) = lines.next() {
        let code = line.trim();
        if code.starts_with("#[cfg(test)]") {
            break;
        }
        // Fields have a `pub` of their own, and bounds of a trait are no types.
        let skipped = ["pub use", "pub mod", "pub struct", "pub trait"];
        if !code.starts_with("pub ") || skipped.iter().any(|start| code.starts_with(start)) {
            continue;
        }
        let mut signature = code.to_string();
        while code.starts_with("pub fn") && !signature.contains(['{', ';']) {
            let Some((_, more)) = lines.next() else { break };
            signature.push_str(more);
        }
        found.push((at + 1, signature.split('"').step_by(2).collect()));
    }
    found
}

fn foreign_types(source: &str, crates: &[String]) -> Vec<(usize, String)> {
    let names = imported(source, crates);
    let is_foreign = |signature: &str| {
        let words: Vec<&str> =
            signature.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        words.iter().any(|word| names.contains(*word) || crates.iter().any(|name| name == word))
    };
    signatures(source).into_iter().filter(|(_, signature)| is_foreign(signature)).collect()
}

#[test]
fn foreign_types_are_found() {
    let crates = ["arrow_array".to_string()];
    let found = |source| foreign_types(source, &crates).len();
    assert_eq!(found("use arrow_array::{Array, ArrayRef};\npub fn f(x: ArrayRef) {}"), 1);
    assert_eq!(found("use arrow_array::ArrayRef;\npub fn f(\n    x: u8,\n) -> ArrayRef {\n}"), 1);
    assert_eq!(found("pub struct S {\n    pub x: arrow_array::ArrayRef,\n}"), 1);
    assert_eq!(found("use arrow_array::ArrayRef;\nfn f(x: ArrayRef) {}\npub fn g(x: u8) {}"), 0);
    assert_eq!(found("use other::ArrayRef;\npub fn f(x: ArrayRef) {}"), 0);
}

#[test]
fn public_signatures_need_no_other_crate() {
    let manifest = fs::read_to_string(project().join("Cargo.toml")).unwrap();
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    let names = names.filter(|name| !name.is_empty()).map(|name| name.replace('-', "_"));
    let is_closed = |name: &String| REEXPORTED.iter().all(|(open, _)| open != name);
    let crates: Vec<String> = names.filter(is_closed).collect();
    assert!(crates.contains(&"arrow_array".to_string()), "{crates:?}");
    let root = fs::read_to_string(project().join("src/lib.rs")).unwrap();
    for (_, line) in REEXPORTED {
        assert!(root.contains(line), "src/lib.rs does not say `{line}`");
    }
    let mut wrong = Vec::new();
    for path in sources(&project().join("src")).iter().filter(|path| !path.ends_with(PRIVATE)) {
        let source = fs::read_to_string(path).unwrap();
        for (line, signature) in foreign_types(&source, &crates) {
            wrong.push(format!("{}:{line}: {signature}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
