//! A folder with raw files and a specification, and the resulting dataset or error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ignn_format::DatasetDir;
use ignn_format::check::check;
use ignn_format::ids::Ids;
use ignn_ingest::Context;
use ignn_ingest::builder::DatasetSummary;
use ignn_ingest::command::relations::IngestRelations;
use ignn_ingest::context::Recorder;
use tempfile::TempDir;

pub const AMPLE: u64 = 1 << 30;

pub fn run_with(
    job: &IngestRelations,
    threads: usize,
    memory: u64,
) -> Result<(DatasetSummary, Vec<String>), String> {
    let observer = Recorder::default();
    let context = Context { threads, memory, seed: 1, observer: &observer };
    let summary = job.run(&context).map_err(|error| error.to_string())?;
    let findings = check(&DatasetDir::open(&job.out).unwrap(), &|_, _, _| ());
    assert!(findings.is_empty(), "{}", findings[0].message);
    Ok((summary, observer.notes()))
}

/// A folder with files, and a specification among them.
pub struct Fixture(pub TempDir);

impl Fixture {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        Self(dir)
    }

    pub fn job(&self, spec: &str, out: &str) -> IngestRelations {
        let path = self.0.path().join("spec.toml");
        std::fs::write(&path, spec).unwrap();
        let out = self.0.path().join(out);
        IngestRelations { spec: path, data: None, out, force: true, encoding: None }
    }

    pub fn run(&self, spec: &str) -> Result<(DatasetSummary, Vec<String>), String> {
        run_with(&self.job(spec, "out"), 2, AMPLE)
    }

    /// The error of a specification, without the folder.
    pub fn message(&self, spec: &str) -> String {
        let error = self.run(spec).map(drop).unwrap_err();
        assert!(!self.0.path().join("out").exists());
        error.replace(&format!("{}/", self.0.path().display()), "")
    }

    pub fn entries(&self, relation: &str) -> Entries {
        entries(&self.0.path().join("out"), relation)
    }
}

pub type Entries = BTreeMap<(String, String), f32>;

/// The entries of a relation without normalisation, by ids: (source, target).
pub fn entries(path: &Path, relation: &str) -> Entries {
    let dataset = DatasetDir::open(path).unwrap();
    let relation = dataset.relation(relation).unwrap();
    let names: Vec<String> = match dataset.ids().unwrap() {
        Ids::Integer(ids) => ids.iter().map(u64::to_string).collect(),
        Ids::String { offsets, text } => {
            offsets.windows(2).map(|w| text[w[0] as usize..w[1] as usize].to_string()).collect()
        }
    };
    let mut entries = BTreeMap::new();
    for target in 0..relation.incoming.rows() {
        for at in relation.incoming.range(target) {
            let source = relation.incoming.neighbours()[at] as usize;
            let value = relation.incoming.values().map_or(1.0, |values| values[at]);
            entries.insert((names[source].clone(), names[target].clone()), value);
        }
    }
    entries
}

pub fn bytes(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                folders.push(entry);
            } else {
                all.insert(
                    entry.strip_prefix(path).unwrap().into(),
                    std::fs::read(&entry).unwrap(),
                );
            }
        }
    }
    all
}

pub fn ids(fixture: &Fixture) -> String {
    let dataset = DatasetDir::open(fixture.0.path().join("out")).unwrap();
    match dataset.ids().unwrap() {
        Ids::Integer(ids) => ids.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
        Ids::String { offsets, text } => {
            let ids: Vec<&str> =
                offsets.windows(2).map(|w| &text[w[0] as usize..w[1] as usize]).collect();
            ids.join(" ")
        }
    }
}

pub fn shown(entries: &Entries) -> String {
    let shown = |((s, t), w): (&(String, String), &f32)| format!("{s}>{t}:{w}");
    entries.iter().map(shown).collect::<Vec<_>>().join(" ")
}
