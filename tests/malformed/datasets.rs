//! Dataset directories that are none, or damaged, or of another version.

use std::fs;

use super::{Case, case};
use crate::handmade::path_and_loner;
use crate::util::Sandbox;

type Damage = fn(&Sandbox);

/// Judges rows about a sound dataset `d` after something was done to it.
fn judge(rows: &[(Case, Damage)]) {
    let mut wrong = Vec::new();
    for (case, damage) in rows {
        let sandbox = case.sandbox();
        path_and_loner().write(&sandbox.path("d"));
        damage(&sandbox);
        wrong.extend(case.judge(&sandbox).map(|wrong| format!("{}: {wrong}", case.name)));
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
fn what_is_no_sound_dataset() {
    let nothing: Damage = |_| {};
    let cut: Damage = |sandbox| truncate(sandbox, "d/relations/edges/in.neighbours.u32", 70);
    let empty: Damage = |sandbox| truncate(sandbox, "d/relations/edges/in.offsets.u64", 0);
    let gone: Damage = |sandbox| fs::remove_file(sandbox.path("d/relations/edges/in.offsets.u64")).unwrap();
    let version: Damage = |sandbox| edit(sandbox, "d/manifest.json", "\"version\": 1", "\"version\": 2");
    let manifest: Damage = |sandbox| truncate(sandbox, "d/manifest.json", 40);
    let ids: Damage = |sandbox| truncate(sandbox, "d/ids.parquet", 50);
    judge(&[
        (case("inspect: nothing there", "inspect gone", "?"), nothing),
        (case("inspect: a file", "inspect e.txt", "?").file("e.txt", "1 2\n"), nothing),
        (case("inspect: another directory", "inspect raw", "?").file("raw/e.txt", "1 2\n"), nothing),
        (case("inspect: a truncated array", "inspect d", "?"), cut),
        (case("inspect: an empty array", "inspect d", "?"), empty),
        (case("inspect: a missing array", "inspect d", "?"), gone),
        (case("inspect: another version", "inspect d", "?"), version),
        (case("inspect: half a manifest", "inspect d", "?"), manifest),
        (case("check: another version", "check d", "?"), version),
        (case("check: half a manifest", "check d", "?"), manifest),
        (case("check: another directory", "check raw", "?").file("raw/e.txt", "1 2\n"), nothing),
        (case("export: nothing there", "export gone --edges x.tsv", "?"), nothing),
        (case("export: another version", "export d --edges x.tsv", "?"), version),
        (case("export: a truncated array", "export d --edges x.tsv", "?"), cut),
        (case("export: truncated ids", "export d --edges x.tsv", "?"), ids),
        (case("export: nothing asked for", "export d", "?"), nothing),
        (case("export: no such part", "export d --features x.csv", "?"), nothing),
        (case("export: no such relation", "export d --edges x.tsv --relation cites", "?"), nothing),
        (case("export: an unknown form", "export d --edges x.json", "?"), nothing),
        (case("export: a file that is there", "export d --edges e.txt", "?").file("e.txt", "1 2\n"), nothing),
        (case("export: a table that is there", "export d --edges e.tsv", "?").file("e.tsv", "1 2\n"), nothing),
        (case("export: no directory", "export d --edges new/x.tsv", "?"), nothing),
    ]);
}
