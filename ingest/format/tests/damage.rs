//! Damaged and wrong datasets: no bytes cause a panic, every flipped byte is found, and messages
//! are exact.

mod sample;

use std::fs;
use std::path::Path;

use ignn_format::check::check;
use ignn_format::graphs::Graphs;
use ignn_format::ids::Ids;
use ignn_format::labels::Labels;
use ignn_format::manifest::{Manifest, Normalisation};
use ignn_format::{DatasetDir, FormatError, checksum};
use proptest::prelude::*;
use sample::{Maker, Rows};
use serde_json::Value;

const MAKERS: [fn(&Path) -> Maker; 2] = [sample::graphs_maker, sample::relations_maker];

/// Reads everything and ignores the results.
fn read_all(dataset: &DatasetDir) {
    for relation in &dataset.manifest().relations {
        let _ = dataset.relation(&relation.name);
    }
    let _ = (
        dataset.ids(),
        dataset.labels(),
        dataset.splits(),
        dataset.graphs(),
        dataset.read_sparse(),
    );
    let mut out = [0.0; 24];
    let _ = dataset.read_dense(0, &mut out[..18], 3);
    let _ = dataset.read_dense(1, &mut out, 8);
}

/// All findings, one per line, without the path of the dataset.
fn findings(root: &Path) -> Vec<String> {
    let lines: Vec<String> = match DatasetDir::open(root) {
        Err(error) => vec![error.to_string()],
        Ok(dataset) => {
            read_all(&dataset);
            check(&dataset, &|_, _, _| {}).iter().map(ToString::to_string).collect()
        }
    };
    let prefix = format!("{}/", root.display());
    lines.into_iter().map(|line| line.strip_prefix(&prefix).unwrap_or(&line).to_string()).collect()
}

/// All files of a dataset, including the manifest.
fn file_names(root: &Path) -> Vec<String> {
    let manifest = Manifest::read(root).unwrap();
    manifest.files.keys().cloned().chain(["manifest.json".to_string()]).collect()
}

/// Corrects the sizes and checksums in the manifest, so that the check reads the damaged files.
fn reseal(root: &Path, mut manifest: Manifest) {
    for (name, entry) in &mut manifest.files {
        let skip = if name.ends_with(".parquet") { 0 } else { 64 };
        *entry = checksum::of_file(&root.join(name), skip).unwrap();
    }
    manifest.write(root).unwrap();
}

#[derive(Clone, Debug)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Truncate(prop::sample::Index),
    Extend(Vec<u8>),
    Overwrite(prop::sample::Index, Vec<u8>),
    Remove,
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        8 => (index(), 1u8..).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        2 => index().prop_map(Damage::Truncate),
        1 => prop::collection::vec(any::<u8>(), 1..100).prop_map(Damage::Extend),
        3 => (index(), prop::collection::vec(any::<u8>(), 1..16))
            .prop_map(|(at, bytes)| Damage::Overwrite(at, bytes)),
        1 => Just(Damage::Remove),
    ]
}

impl Damage {
    /// Damages a file; returns whether it changed.
    fn apply(&self, path: &Path) -> bool {
        let before = fs::read(path).unwrap();
        let mut bytes = before.clone();
        match self {
            Self::Flip(at, bits) => bytes[at.index(before.len())] ^= bits,
            Self::Truncate(at) => bytes.truncate(at.index(before.len())),
            Self::Extend(more) => bytes.extend(more),
            Self::Overwrite(at, new) => {
                let at = at.index(before.len());
                let end = before.len().min(at + new.len());
                bytes[at..end].copy_from_slice(&new[..end - at]);
            }
            Self::Remove => {
                fs::remove_file(path).unwrap();
                return true;
            }
        }
        fs::write(path, &bytes).unwrap();
        bytes != before
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_found_and_never_panics(
        which in 0..2usize, file in any::<prop::sample::Index>(), damage in damage(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        MAKERS[which](dir.path()).finish();
        let names = file_names(dir.path());
        if damage.apply(&dir.path().join(&names[file.index(names.len())])) {
            prop_assert!(!findings(dir.path()).is_empty());
        }
    }

    #[test]
    fn damage_with_the_right_checksum_never_panics(
        which in 0..2usize,
        file in any::<prop::sample::Index>(),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        MAKERS[which](dir.path()).finish();
        let manifest = Manifest::read(dir.path()).unwrap();
        let names: Vec<_> = manifest.files.keys().collect();
        let path = dir.path().join(names[file.index(names.len())]);
        for damage in &damages {
            if path.exists() && fs::metadata(&path).unwrap().len() > 0 && !matches!(damage, Damage::Remove) {
                damage.apply(&path);
            }
        }
        reseal(dir.path(), manifest);
        findings(dir.path());
    }

    #[test]
    fn a_manifest_of_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Manifest::parse(&bytes, Path::new("m")).is_err());
    }

    #[test]
    fn a_manifest_with_a_changed_field_never_panics(
        which in 0..2usize, steps in prop::collection::vec(any::<prop::sample::Index>(), 1..6), new in json(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        MAKERS[which](dir.path()).finish();
        let path = dir.path().join("manifest.json");
        let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        value.as_object_mut().unwrap().remove("xxh3");
        change(&mut value, &steps, new);
        fs::write(&path, sealed(&value)).unwrap();
        findings(dir.path());
    }
}

fn json() -> impl Strategy<Value = Option<Value>> {
    let number = prop_oneof![
        Just(0),
        Just(1),
        Just(5),
        Just(1 << 31),
        Just(u64::from(u32::MAX)),
        Just(u64::MAX)
    ];
    let word = prop_oneof![
        Just("row"),
        Just("none"),
        Just("sparse"),
        Just("multi"),
        Just("../x"),
        Just("/etc/passwd")
    ];
    prop_oneof![
        Just(None),
        Just(Some(Value::Null)),
        any::<bool>().prop_map(|value| Some(value.into())),
        number.prop_map(|value| Some(value.into())),
        any::<i64>().prop_map(|value| Some(value.into())),
        word.prop_map(|value| Some(value.into())),
        Just(Some(Value::Array(vec![]))),
    ]
}

/// Replaces or removes the value at a path in the tree.
fn change(value: &mut Value, steps: &[prop::sample::Index], new: Option<Value>) {
    let Some((step, rest)) = steps.split_first() else {
        *value = new.unwrap_or_default();
        return;
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(step.index(fields.len())).unwrap().clone();
            match (rest.is_empty(), &new) {
                (true, None) => _ = fields.remove(&key),
                _ => change(&mut fields[&key], rest, new),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = step.index(items.len());
            change(&mut items[at], rest, new);
        }
        other => *other = new.unwrap_or_default(),
    }
}

/// A manifest with its checksum, written according to the specification.
fn sealed(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap();
    let body = text.strip_suffix("\n}").unwrap_or(&text);
    format!("{body},\n  \"xxh3\": \"{}\"\n}}\n", checksum::hex(checksum::of_bytes(body.as_bytes())))
}

/// The findings in a dataset after its files were changed.
fn after(maker: fn(&Path) -> Maker, damage: impl FnOnce(&Path)) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    maker(dir.path()).finish();
    damage(dir.path());
    findings(dir.path())
}

#[test]
fn messages_of_damaged_files() {
    let edges = "relations/edges/in.neighbours.u32";
    let flip = |name: &'static str, at: usize| {
        move |root: &Path| {
            let mut bytes = fs::read(root.join(name)).unwrap();
            bytes[at] ^= 1;
            fs::write(root.join(name), bytes).unwrap();
        }
    };
    let one = |lines: Vec<String>| {
        assert_eq!(lines.len(), 1, "{lines:#?}");
        lines[0].clone()
    };
    let graphs = MAKERS[0];
    let found = one(after(graphs, flip("ids.parquet", 20)));
    assert!(found.starts_with("ids.parquet: checksum (found "), "{found}");
    let found = one(after(graphs, flip(edges, 70)));
    assert!(found.starts_with("relations/edges/in.neighbours.u32: checksum (found "), "{found}");
    let found = one(after(graphs, flip(edges, 17)));
    assert!(
        found.starts_with("relations/edges/in.neighbours.u32: damaged header (found "),
        "{found}"
    );
    let found = one(after(graphs, flip("manifest.json", 105)));
    assert!(found.starts_with("manifest.json: checksum of the manifest (found "), "{found}");
    let found =
        one(after(graphs, |root| fs::write(root.join("features/more.parquet"), "").unwrap()));
    assert_eq!(found, "features/more.parquet: not listed in the manifest");
    let found = one(after(graphs, |root| fs::remove_file(root.join("labels.parquet")).unwrap()));
    assert_eq!(found, "labels.parquet: cannot open: No such file or directory (os error 2)");
    let found = one(after(graphs, |root| {
        let file = fs::OpenOptions::new().write(true).open(root.join(edges)).unwrap();
        file.set_len(100).unwrap();
    }));
    assert_eq!(
        found,
        "relations/edges/in.neighbours.u32: length in bytes (found 100, expected 120)"
    );
}

#[test]
fn messages_of_wrong_manifests() {
    let message = |change: fn(&mut Manifest)| {
        let dir = tempfile::tempdir().unwrap();
        let mut maker = sample::graphs_maker(dir.path());
        change(&mut maker.manifest);
        fs::write(dir.path().join("manifest.json"), maker.manifest.to_text()).unwrap();
        findings(dir.path()).join("; ")
    };
    let manifest = |rest: &str| format!("manifest.json: {rest}");
    assert_eq!(
        message(|m| m.version = 3),
        manifest(
            "dataset format version 3 (this program reads up to version 2): ingest the raw files again"
        )
    );
    assert_eq!(
        message(|m| m.nodes = 1 << 32),
        manifest("number of nodes (found 4294967296, expected at most 4294967295)")
    );
    assert_eq!(
        message(|m| m.relations[0].normalisation = Normalisation::Row),
        manifest("scale of relation \"edges\" (found both, expected source)")
    );
    assert_eq!(
        message(|m| m.relations[0].name = "../edges".into()),
        manifest("relation name (found ../edges, expected letters, digits, '-', '_', '.')")
    );
    assert_eq!(
        message(|m| m.features.as_mut().unwrap().rows_per_shard = 0),
        manifest("feature rows per shard (found 0, expected at least 1)")
    );
    assert_eq!(
        message(|m| m.relations[0].nonzeros = 15),
        "relations/edges/in.neighbours.u32: number of neighbours (found 14, expected 15)"
    );
    assert_eq!(
        message(|m| {
            let entry = m.files.remove("ids.parquet").unwrap();
            m.files.insert("../ids.parquet".into(), entry);
        }),
        "ids.parquet: needed by the dataset, but not listed in the manifest's files; \
         manifest.json: file \"../ids.parquet\" is listed, but belongs to no part of the dataset; \
         ids.parquet: not listed in the manifest"
    );

    let dir = tempfile::tempdir().unwrap();
    let missing = DatasetDir::open(dir.path().join("none")).unwrap_err();
    assert!(
        missing.to_string().ends_with("none: not an ignn dataset: no such directory"),
        "{missing}"
    );
    let empty = DatasetDir::open(dir.path()).unwrap_err();
    assert!(matches!(empty, FormatError::NotADataset { .. }), "{empty}");
}

/// The findings in a dataset of three nodes with one relation.
fn relation(
    weighted: bool,
    normalisation: Normalisation,
    incoming: Rows,
    outgoing: Option<Rows>,
    scale: &[f32],
) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(dir.path(), 3);
    maker.relation("r", weighted, normalisation, incoming, outgoing, scale);
    maker.ids(&Ids::Integer(vec![0, 1, 2]));
    maker.finish();
    let prefix = "relations/r/";
    findings(dir.path())
        .iter()
        .map(|line| line.strip_prefix(prefix).unwrap_or(line).to_string())
        .collect()
}

#[test]
fn messages_of_wrong_relations() {
    use Normalisation::{None as Plain, Renorm, Row};
    let none: Vec<String> = vec![];
    let pair: Rows = &[&[(1, 1.0)], &[(0, 1.0)], &[]];
    assert_eq!(relation(false, Plain, pair, None, &[]), none);
    assert_eq!(
        relation(false, Plain, &[&[(1, 1.0)], &[(0, 1.0)], &[(3, 1.0)]], None, &[]),
        ["in.neighbours.u32: row 2: neighbour (found 3, expected less than 3)"]
    );
    assert_eq!(
        relation(
            false,
            Plain,
            &[&[(2, 1.0), (1, 1.0)], &[(0, 1.0)], &[(0, 1.0), (0, 1.0)]],
            None,
            &[]
        ),
        [
            "in.neighbours.u32: row 0: neighbours must be strictly increasing (found 1 after 2)",
            "in.neighbours.u32: row 2: neighbours must be strictly increasing (found 0 after 0)"
        ]
    );
    assert_eq!(
        relation(false, Plain, &[&[(1, 1.0)], &[(2, 1.0)], &[]], None, &[]),
        [
            "in.neighbours.u32: not symmetric: entry 1 of row 0 has no counterpart",
            "in.neighbours.u32: not symmetric: entry 2 of row 1 has no counterpart"
        ]
    );
    assert_eq!(
        relation(true, Plain, &[&[(1, 1.0)], &[(0, 1.5)], &[]], None, &[]),
        [
            "in.neighbours.u32: not symmetric: entry 1 of row 0 is 1, its counterpart 1.5",
            "in.neighbours.u32: not symmetric: entry 0 of row 1 is 1.5, its counterpart 1"
        ]
    );
    assert_eq!(
        relation(true, Plain, &[&[(1, f32::NAN)], &[(0, -1.0)], &[]], None, &[]),
        [
            "in.neighbours.u32: row 0: value (found NaN, expected a finite number that is not \
             negative)",
            "in.neighbours.u32: row 1: value (found -1, expected a finite number that is not \
             negative)"
        ]
    );
    assert_eq!(
        relation(true, Plain, &[&[(1, 2.0)], &[], &[]], Some(&[&[], &[(0, 3.0)], &[]]), &[]),
        ["in.neighbours.u32: out is not the transpose of in: entry 1 of row 0 is 2, its \
             counterpart 3"]
    );
    assert_eq!(
        relation(false, Plain, &[&[(1, 1.0)], &[], &[]], Some(&[&[], &[(1, 1.0)], &[]]), &[]),
        ["out.neighbours.u32: entries on the diagonal (found 1, expected 0)"]
    );
    assert_eq!(
        relation(false, Row, pair, None, &[1.0, 0.5, 0.0]),
        ["scale.f32: scale of node 1 (found 5e-1, expected 1e0)"]
    );
    assert_eq!(
        relation(false, Row, pair, None, &[1.0, 1.0, f32::NAN]),
        ["scale.f32: scale of node 2 (found NaN, expected 0e0)"]
    );
    // Row sums are over outgoing edges: here node 1 has edges to both others and itself, the others
    // only to themselves.
    let incoming: Rows = &[&[(0, 1.0), (1, 1.0)], &[(1, 1.0)], &[(1, 1.0), (2, 1.0)]];
    let outgoing: Rows = &[&[(0, 1.0)], &[(0, 1.0), (1, 1.0), (2, 1.0)], &[(2, 1.0)]];
    let scale = [1.0, sample::inverse_root(3.0), 1.0];
    assert_eq!(relation(false, Renorm, incoming, Some(outgoing), &scale), none);
    assert_eq!(relation(false, Renorm, outgoing, Some(incoming), &scale).len(), 3);
}

#[test]
fn many_problems_of_a_kind_are_counted() {
    let rows: Vec<&[(u32, f32)]> = (0..5000).map(|_| &[(5000, 1.0)][..]).collect();
    let dir = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(dir.path(), 5000);
    maker.relation("r", false, Normalisation::None, &rows, None, &[]);
    maker.ids(&Ids::Integer((0..5000).collect()));
    maker.finish();
    let found = findings(dir.path());
    assert_eq!(found.len(), 4);
    assert!(
        found[2].ends_with("row 2: neighbour (found 5000, expected less than 5000)"),
        "{found:?}"
    );
    assert!(found[3].ends_with("and 4997 more of this kind"), "{found:?}");
}

#[test]
fn messages_of_wrong_tables() {
    let with = |change: &dyn Fn(&mut Maker)| {
        let dir = tempfile::tempdir().unwrap();
        let mut maker = Maker::new(dir.path(), 3);
        change(&mut maker);
        if maker.manifest.relations.is_empty() {
            maker.relation("r", false, Normalisation::None, &[&[], &[], &[]], None, &[]);
        }
        if !maker.manifest.files.contains_key("ids.parquet") {
            maker.ids(&Ids::Integer(vec![0, 1, 2]));
        }
        maker.finish();
        findings(dir.path())
    };
    let twice = "ids.parquet: duplicate id 7";
    assert_eq!(with(&|maker| maker.ids(&Ids::Integer(vec![7, 1, 7]))), [twice]);
    assert_eq!(
        with(&|maker| maker.ids(&Ids::from_strings(["a", "b", "b"]))),
        ["ids.parquet: duplicate id \"b\""]
    );
    assert_eq!(
        with(&|maker| maker.ids(&Ids::Integer(vec![7, 1]))),
        ["ids.parquet: number of rows (found 2, expected 3)"]
    );
    assert_eq!(
        with(&|maker| maker.dense(2, 2, &[0.0, 1.0, 2.0, f32::INFINITY, f32::NAN, 3.0])),
        [
            "features: node 1, column 1: value (found inf, expected a finite number)",
            "features: node 2, column 0: value (found NaN, expected a finite number)"
        ]
    );
    assert_eq!(
        with(&|maker| {
            maker.dense(1, 2, &[0.0, 1.0, 2.0, 3.0]);
        }),
        ["features/part-00001.parquet: number of rows (found 2, expected 1)"]
    );
    assert_eq!(
        with(&|maker| {
            let mut rows = sample::sparse_rows();
            rows.offsets.truncate(4);
            rows.columns.truncate(3);
            rows.values = vec![1.0, f32::NEG_INFINITY, 1.0];
            maker.sparse(10_000, &rows);
        }),
        ["features: node 0, column 9999: value (found -inf, expected a finite number)"]
    );
    assert_eq!(
        with(&|maker| {
            maker.labels(&Labels::Single { classes: sample::strings(&["a"]), of: vec![0, -1] });
        }),
        ["labels.parquet: number of rows (found 2, expected 3)"]
    );
    assert_eq!(
        with(&|maker| {
            maker.splits(&[sample::split("s", &["train", "test"], &[0, 1, 1])]);
            maker.manifest.splits[0].parts[1].1 = 1;
        }),
        ["splits.parquet: size of part \"test\" of split \"s\" (found 2, expected 1)"]
    );
    let graphs = Graphs { first_node: vec![0, 1, 3], ..sample::many_graphs() };
    assert_eq!(
        with(&|maker| {
            maker.graphs(&graphs);
            let rows: Rows = &[&[(1, 1.0)], &[(0, 1.0)], &[]];
            maker.relation("r", false, Normalisation::None, rows, None, &[]);
        }),
        [
            "relations/r/in.neighbours.u32: row 0: neighbour in another graph (found 1, expected 0 \
             to 1)",
            "relations/r/in.neighbours.u32: row 1: neighbour in another graph (found 0, expected 1 \
             to 3)"
        ]
    );
}

/// A byte of the repetition levels that made the Parquet library skip rows forever.
#[test]
fn damaged_levels_end_in_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/graphs");
    let mut bytes = fs::read(golden.join("features/part-00000.parquet")).unwrap();
    bytes[27] = 0o301;
    fs::create_dir(dir.path().join("features")).unwrap();
    fs::write(dir.path().join("features/part-00000.parquet"), bytes).unwrap();
    let entry = Manifest::read(&golden).unwrap().features.unwrap();
    assert!(ignn_format::features::read_dense(dir.path(), &entry, 1, &mut [0.0; 9], 3).is_err());
}

/// A relation of 2,100 nodes, all connected, with values: 17.6 MB each of neighbours and values.
#[test]
fn large_files_are_verified_on_request_and_small_ones_always() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = 2_100u32;
    let row: Vec<(u32, f32)> = (0..nodes).map(|j| (j, 1.0)).collect();
    let rows: Vec<&[(u32, f32)]> = (0..nodes).map(|_| &row[..]).collect();
    let mut maker = Maker::new(dir.path(), nodes.into());
    maker.relation("r", true, Normalisation::None, &rows, None, &[]);
    maker.ids(&Ids::Integer((0..nodes.into()).collect()));
    maker.finish();
    let dataset = || DatasetDir::open(dir.path()).unwrap();
    dataset().verify().unwrap();
    let message =
        |error: FormatError| error.to_string().replace(&dir.path().display().to_string(), "D");
    let write = |name: &str, at: usize, new: &[u8]| {
        let path = dir.path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        bytes[at..at + new.len()].copy_from_slice(new);
        fs::write(&path, bytes).unwrap();
    };

    // Another value that is as good as the right one.
    write("relations/r/in.values.f32", 64, &2f32.to_le_bytes());
    assert!(dataset().relation("r").is_ok(), "valid, and too large to be hashed each time");
    let found = message(dataset().verify().unwrap_err());
    let place = "D/relations/r/in.values.f32: checksum (found ";
    assert!(found.starts_with(place), "{found}");
    assert!(found.ends_with("the dataset is damaged: `ignn check D` shows the details"), "{found}");

    // A value that nothing can be computed with.
    write("relations/r/in.values.f32", 64, &f32::NAN.to_le_bytes());
    let found = message(dataset().relation("r").unwrap_err());
    let place = "D/relations/r/in.values.f32: row 0: value (found NaN, expected";
    assert!(found.starts_with(place), "{found}");

    // A small file is hashed whenever it is used, but only once per opened dataset.
    let opened = dataset();
    opened.ids().unwrap();
    let at = fs::metadata(dir.path().join("ids.parquet")).unwrap().len() as usize / 2;
    write("ids.parquet", at, &[0xff; 4]);
    let found = message(dataset().ids().unwrap_err());
    assert!(found.starts_with("D/ids.parquet: checksum (found "), "{found}");

    // All lengths can be looked at without reading anything.
    let file = fs::OpenOptions::new().write(true).open(dir.path().join("ids.parquet")).unwrap();
    file.set_len(5).unwrap();
    let found = message(dataset().check_lengths().unwrap_err());
    assert!(found.starts_with("D/ids.parquet: length (found 5 bytes, expected "), "{found}");
}

#[test]
fn a_panic_of_the_parquet_library_is_a_finding() {
    // Every byte of the table, each with the right checksum, so that the library gets to read it.
    let dir = tempfile::tempdir().unwrap();
    sample::graphs_maker(dir.path()).finish();
    let path = dir.path().join("graphs.parquet");
    let (bytes, manifest) = (fs::read(&path).unwrap(), Manifest::read(dir.path()).unwrap());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        fs::write(&path, damaged).unwrap();
        reseal(dir.path(), manifest.clone());
        findings(dir.path());
    }
}

#[test]
fn absurd_numbers_in_a_manifest_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    sample::graphs_maker(dir.path()).finish();
    let refused = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = Manifest::read(dir.path()).unwrap();
        change(&mut manifest);
        let text = manifest.to_text();
        let error = Manifest::parse(text.as_bytes(), Path::new("m")).unwrap_err().to_string();
        error.strip_prefix("m: ").unwrap().to_string()
    };
    assert_eq!(
        refused(&|manifest| manifest.relations.clear()),
        "number of relations (found 0, expected at least 1)"
    );
    assert_eq!(
        refused(&|manifest| manifest.features.as_mut().unwrap().columns = 2_147_483_647),
        "feature columns (found 2147483647, expected 1 to 1048576)"
    );
}
