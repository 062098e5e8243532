//! `ignn check`: intact datasets are ok; damage is reported with exit code 1.

use std::fs;

use crate::handmade::{path_and_loner, weighted_chain};
use crate::sandbox::Sandbox;

#[test]
fn an_intact_dataset_is_ok() {
    let sandbox = Sandbox::new();
    path_and_loner().write(&sandbox.path("path"));
    weighted_chain().write(&sandbox.path("chain"));
    for name in ["path", "chain"] {
        let run = sandbox.ignn(&["check", name, "--quiet"]).exits(0);
        assert!(run.stdout.starts_with(&format!("{name}: ok (")), "{}", run.stdout);
        assert_eq!(run.stderr, "");
        let verified = sandbox.ignn(&["check", name, "--json"]).exits(0).json();
        assert_eq!(
            (&verified["sound"], &verified["findings"]),
            (&true.into(), &serde_json::json!([]))
        );
    }
}

#[test]
fn damage_is_found_and_exits_with_1() {
    let sandbox = Sandbox::new();
    path_and_loner().write(&sandbox.path("d"));
    let path = sandbox.path("d/relations/edges/in.neighbours.u32");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let run = sandbox
        .ignn(&["check", "d", "--quiet"])
        .exits(1)
        .says("d/relations/edges/in.neighbours.u32: ");
    assert!(run.stdout.ends_with(" found: ingest the raw files again\n"), "{}", run.stdout);
    assert_eq!(run.stderr, "", "a finding is a result, not an error");
    let verified = sandbox.ignn(&["check", "d", "--json"]).exits(1).json();
    assert_eq!(verified["sound"], false);
    assert!(!verified["findings"].as_array().unwrap().is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn files_with_names_that_are_not_text_are_told_apart() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new();
    path_and_loner().write(&sandbox.path("d"));
    for name in [b"\xfe", b"\xff"] {
        fs::write(sandbox.path("d").join(OsStr::from_bytes(name)), "").unwrap();
    }
    let found = sandbox.ignn(&["check", "d", "--json"]).exits(1).json();
    let paths: Vec<_> =
        found["findings"].as_array().unwrap().iter().map(|finding| &finding["path"]).collect();
    assert_eq!(paths.len(), 2);
    assert!(paths[0].as_str().unwrap().ends_with("/d/%FE"), "{paths:?}");
    assert!(paths[1].as_str().unwrap().ends_with("/d/%FF"), "{paths:?}");
}
