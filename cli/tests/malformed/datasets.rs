//! Paths that are not datasets, damaged datasets, and datasets of another version.

use std::fs;

use super::{Case, case};
use crate::handmade::path_and_loner;
use crate::sandbox::Sandbox;

type Damage = fn(&Sandbox);

/// Checks rows about a dataset `d` that was intact before it was damaged.
fn check_all(rows: &[(Case, Damage)]) {
    let mut wrong = Vec::new();
    for (case, damage) in rows {
        let sandbox = case.sandbox();
        path_and_loner().write(&sandbox.path("d"));
        damage(&sandbox);
        wrong.extend(case.check_all(&sandbox).map(|wrong| format!("{}: {wrong}", case.name)));
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

fn truncate(sandbox: &Sandbox, name: &str, bytes: u64) {
    fs::OpenOptions::new().write(true).open(sandbox.path(name)).unwrap().set_len(bytes).unwrap();
}

fn edit(sandbox: &Sandbox, name: &str, from: &str, to: &str) {
    let text = sandbox.read(name);
    assert!(text.contains(from), "{from} in {text}");
    fs::write(sandbox.path(name), text.replace(from, to)).unwrap();
}

#[test]
fn datasets_that_are_missing_or_damaged() {
    let nothing: Damage = |_| {};
    let cut: Damage = |sandbox| truncate(sandbox, "d/relations/edges/in.neighbours.u32", 70);
    let empty: Damage = |sandbox| truncate(sandbox, "d/relations/edges/in.offsets.u64", 0);
    let gone: Damage =
        |sandbox| fs::remove_file(sandbox.path("d/relations/edges/in.offsets.u64")).unwrap();
    let version: Damage =
        |sandbox| edit(sandbox, "d/manifest.json", "\"version\": 1", "\"version\": 3");
    let manifest: Damage = |sandbox| truncate(sandbox, "d/manifest.json", 40);
    let ids: Damage = |sandbox| truncate(sandbox, "d/ids.parquet", 50);
    check_all(&[
        (case("inspect: nothing there",
            "inspect gone",
            "gone: not an ignn dataset: no such directory"), nothing),
        (case("inspect: a file",
            "inspect e.txt",
            "e.txt: not an ignn dataset: it is a file, not a directory")
            .file("e.txt",
            "1 2\n"), nothing),
        (case("inspect: another directory",
            "inspect raw",
            "raw: not an ignn dataset: it has no manifest.json (create one with `ignn ingest` or \
             `ignn generate`)")
            .file("raw/e.txt",
            "1 2\n"), nothing),
        (case("inspect: a truncated array",
            "inspect d",
            "d/relations/edges/in.neighbours.u32: length (found 70 bytes, expected 96 bytes): the \
             dataset is damaged: `ignn check d` shows the details"), cut),
        (case("inspect: an empty array",
            "inspect d",
            "d/relations/edges/in.offsets.u64: length (found 0 bytes, expected 104 bytes): the \
             dataset is damaged: `ignn check d` shows the details"), empty),
        (case("inspect: a missing array",
            "inspect d",
            "d/relations/edges/in.offsets.u64: cannot open: No such file or directory (os error \
             2)"), gone),
        (case("inspect: another version",
            "inspect d",
            "d/manifest.json: dataset format version 3 (this program reads up to version 2): ingest the \
             raw files again"), version),
        (case("inspect: half a manifest",
            "inspect d",
            "d/manifest.json: manifest (found EOF while parsing a string at line 3 column 10, \
             expected the fields of the format)"), manifest),
        (case("check: another version",
            "check d",
            "d/manifest.json: dataset format version 3 (this program reads up to version 2): ingest the \
             raw files again"), version),
        (case("check: half a manifest",
            "check d",
            "d/manifest.json: manifest (found EOF while parsing a string at line 3 column 10, \
             expected the fields of the format)"), manifest),
        (case("check: another directory",
            "check raw",
            "raw: not an ignn dataset: it has no manifest.json (create one with `ignn ingest` or \
             `ignn generate`)")
            .file("raw/e.txt",
            "1 2\n"), nothing),
        (case("export: nothing there",
            "export gone --edges x.tsv",
            "gone: not an ignn dataset: no such directory"), nothing),
        (case("export: another version",
            "export d --edges x.tsv",
            "d/manifest.json: dataset format version 3 (this program reads up to version 2): ingest the \
             raw files again"), version),
        (case("export: a truncated array",
            "export d --edges x.tsv",
            "d/relations/edges/in.neighbours.u32: length (found 70 bytes, expected 96 bytes): the \
             dataset is damaged: `ignn check d` shows the details"), cut),
        (case("export: truncated ids",
            "export d --edges x.tsv",
            "d/ids.parquet: length (found 50 bytes, expected 381 bytes): the dataset is damaged: \
             `ignn check d` shows the details"), ids),
        (case("export: nothing asked for",
            "export d",
            "nothing to export: name a file with --edges, --features, --labels, --splits, --ids or \
             --graphs"), nothing),
        (case("export: no such part",
            "export d --features x.csv",
            "d: the dataset has no features: ingest with --features FILE"), nothing),
        (case("export: no such relation",
            "export d --edges x.tsv --relation cites",
            "d: the dataset has no relation \"cites\" (it has: edges)"), nothing),
        (case("export: an unknown form",
            "export d --edges x.json",
            "x.json: file extension (found \"json\", expected .parquet, .tsv or .csv)"), nothing),
        (case("export: a file that is there",
            "export d --edges e.txt",
            "e.txt: file extension (found \"txt\", expected .parquet, .tsv or .csv)")
            .file("e.txt",
            "1 2\n"), nothing),
        (
            case("export: a table that is there",
                "export d --edges e.tsv",
                "e.tsv: already exists: choose another name, or pass --force to replace it")
                .file("e.tsv",
                "1 2\n"),
            nothing,
        ),
    ]);
}
