//! Exact messages about errors in a specification or its files.

use crate::fixture::{Fixture, run_with};
use crate::{pairs, table};

#[test]
fn wrong_specifications_have_exact_messages() {
    let files = Fixture::new(&[
        ("pa.tsv", "0 1\n"),
        ("empty.tsv", ""),
        ("header.tsv", "paper\tauthor\n"),
        ("bad.tsv", "0 1\n0\n"),
        ("text.tsv", "a b\n"),
    ]);
    let head = "target = \"author\"\n";
    let pa = "[lists.pa]\nfile = \"pa.tsv\"\ncolumns = [\"paper\", \"author\"]\n";
    let apa = "[relations.apa]\npath = [\"author\", \"paper\", \"author\"]\n";
    let cases = [
        (
            "target = ".into(),
            "spec.toml:1: expected TOML, found \"string values must be quoted, expected literal \
             string\"",
        ),
        (String::new(), "spec.toml:1: expected target to be the type of the nodes, found nothing"),
        ("target = 3\n".into(), "spec.toml:1: expected target to be text, found 3"),
        (
            head.into(),
            "spec.toml:1: expected relations to be sections like [relations.NAME], found none",
        ),
        (
            format!("{head}lables = \"x\"\n"),
            "spec.toml:2: expected one of the keys target, nodes, node-table, id-column, label, \
             regress, split-column, categories, numbers, words, missing, features, missing-features, \
             labels, communities, communities-larger-than, communities-top, splits, split, \
             normalise, lists, relations at the top, found \"lables\" (did you mean \"labels\"?)",
        ),
        (
            format!("{head}{pa}{apa}diagnol = true\n"),
            "spec.toml:7: expected one of the keys path, through, counted, diagonal, normalise in \
             relations.apa, found \"diagnol\" (did you mean \"diagonal\"?)",
        ),
        (
            format!("target = \"autor\"\n{pa}{apa}"),
            "spec.toml:1: expected target to be a type of the lists (author, paper), found \
             \"autor\" (did you mean \"author\"?)",
        ),
        (
            format!(
                "{head}{pa}[relations.x]\npath = [\"author\", \"paper\", \"venue\", \"paper\", \
                 \"author\"]\n"
            ),
            "spec.toml:6: expected relations.x.path to be a path along lists, one of which \
             connects \"paper\" and \"venue\", found pa (paper, author)",
        ),
        (
            format!(
                "{head}{pa}[lists.wrote]\nfile = \"pa.tsv\"\ncolumns = [\"author\", \
                 \"paper\"]\n{apa}"
            ),
            "spec.toml:9: expected relations.apa.path to be a path along one list that connects \
             \"author\" and \"paper\", found 2 (pa, wrote): choose with through = [...], one list \
             per step",
        ),
        (
            format!("{head}{pa}{apa}through = [\"pa\"]\n"),
            "spec.toml:7: expected relations.apa.through to be 2 lists, one per step, found 1",
        ),
        (
            format!("{head}{pa}{apa}through = [\"pa\", \"ap\"]\n"),
            "spec.toml:7: expected relations.apa.through to be a list that connects \"paper\" and \
             \"author\" at step 2 (pa), found \"ap\"",
        ),
        (
            format!("{head}{pa}{apa}file = \"pa.tsv\"\n"),
            "spec.toml:6: expected relations.apa.path to be absent if file is given, found both",
        ),
        (
            format!("{head}[relations.x]\n"),
            "spec.toml:2: expected relations.x.file to be given, or else path, found neither",
        ),
        (
            format!("{head}{pa}[relations.x]\npath = [\"paper\", \"author\"]\n"),
            "spec.toml:6: expected relations.x.path to be a path that begins at the target \
             \"author\", found \"paper\"",
        ),
        (
            format!("{head}{pa}[relations.x]\npath = [\"author\", \"paper\"]\n"),
            "spec.toml:6: expected relations.x.path to be a path that ends at the target \
             \"author\", found \"paper\"",
        ),
        (
            format!("{head}{pa}[relations.x]\npath = [\"author\"]\n"),
            "spec.toml:6: expected relations.x.path to be a list of two or more types, from \
             \"author\" to \"author\", found 1",
        ),
        (
            format!("{head}{pa}{apa}normalise = \"sym\"\n"),
            "spec.toml:7: expected relations.apa.normalise to be one of \"renorm\", \"row\", \
             \"none\", found \"sym\"",
        ),
        (
            format!("{head}nodes = 0\n{pa}{apa}"),
            "spec.toml:2: expected nodes to be 1 or more, found 0",
        ),
        (
            format!("{head}nodes = 5000000000\n{pa}{apa}"),
            "spec.toml:2: expected nodes to be 4294967295 or less, found 5000000000",
        ),
        (
            format!("{head}[lists.pa]\nfile = \"pa.tsv\"\ncolumns = [\"paper\"]\n{apa}"),
            "spec.toml:4: expected lists.pa.columns to be the types of the two columns, found 1 \
             names",
        ),
        (
            format!("{head}{pa}directed = true\n{apa}"),
            "spec.toml:5: expected lists.pa.directed to be absent: a list of two types is used in \
             both directions, found true",
        ),
        (
            format!("{head}[relations.\"a/b\"]\nfile = \"pa.tsv\"\n"),
            "spec.toml:2: expected relations to be sections with names of at most 64 letters, \
             digits, '-', '_' and '.', found \"a/b\"",
        ),
        (
            format!("{head}[relations.x]\nfile = \"none.tsv\"\n"),
            "spec.toml: relations.x.file: none.tsv: cannot open: No such file or directory (os \
             error 2)",
        ),
        (
            format!("{head}labels = \"none.csv\"\n[relations.x]\nfile = \"pa.tsv\"\n"),
            "spec.toml: labels: none.csv: cannot open: No such file or directory (os error 2)",
        ),
        (
            format!("{head}[relations.x]\nfile = \"pa.tsv\"\nformat = \"csv\"\n"),
            "spec.toml:4: expected relations.x.format to be one of \"auto\", \"list\", \"mtx\", \
             \"parquet\", \"adjacency\", \"matrix-market\", found \"csv\"",
        ),
        (
            format!("{head}[relations.x]\nfile = \"pa.tsv\"\nform = \"list\"\nformat = \"mtx\"\n"),
            "spec.toml:4: expected relations.x.form to be absent if format is given, found both",
        ),
        (
            format!("{head}[relations.x]\nfile = \"pa.tsv\"\nfromat = \"list\"\n"),
            "spec.toml:4: expected one of the keys file, format, header, ids, source, target, \
             weight, unweighted, directed, duplicates, self-loops, normalise in relations.x, found \
             \"fromat\" (did you mean \"format\"?)",
        ),
        (
            format!("{head}{}{apa}", pa.replace("pa.tsv", "empty.tsv")),
            "spec.toml: lists.pa.file: empty.tsv: the file is empty (expected edges)",
        ),
        (
            format!("{head}{}{apa}", pa.replace("pa.tsv", "header.tsv")),
            "header.tsv: no pairs (expected at least one)",
        ),
        (
            format!("{head}{}{apa}", pa.replace("pa.tsv", "bad.tsv")),
            "bad.tsv:2: expected 2 columns, found 1: \"0\"",
        ),
        (
            format!("{head}[relations.x]\nfile = \"pa.tsv\"\n[relations.y]\nfile = \"text.tsv\"\n"),
            "pa.tsv: node ids are integers, but those of text.tsv are text: set ids = \"string\" \
             for this relation",
        ),
    ];
    for (spec, message) in cases {
        assert_eq!(
            files.message(&spec).replace(&files.0.path().display().to_string(), ""),
            message,
            "{spec}"
        );
    }
}

#[test]
fn a_path_that_does_not_fit_in_memory_is_rejected() {
    let pairs = pairs(1, 300_000, 2_000, 3_000);
    let files =
        Fixture::new(&[("pa.tsv", &table(&pairs, |id| id.to_string(), |id| id.to_string()))]);
    let spec = "target = \"author\"\n[lists.pa]\nfile = \"pa.tsv\"\ncolumns = [\"paper\", \
                \"author\"]\n\
                [relations.apapa]\npath = [\"author\", \"paper\", \"author\", \"paper\", \
                \"author\"]\n";
    let error = run_with(&files.job(spec, "out"), 2, 24 << 20).map(drop).unwrap_err();
    assert!(error.contains("spec.toml: relations.apapa: an intermediate matrix needs "), "{error}");
    assert!(error.ends_with("raise --memory"), "{error}");
    assert!(!files.0.path().join("out").exists());
}
