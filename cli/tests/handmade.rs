//! Datasets written entry by entry with `ignn-format`, to test `inspect` and `export` without
//! ingest.

use std::collections::BTreeMap;
use std::f32::consts::FRAC_1_SQRT_2;
use std::fs;
use std::path::{Path, PathBuf};

use ignn_format::array::ArrayWriter;
use ignn_format::checksum::FileEntry;
use ignn_format::csr::CsrWriter;
use ignn_format::ids::{IdKind, IdsWriter};
use ignn_format::labels::{self, Labels};
use ignn_format::manifest::{FORMAT, MadeBy, Manifest, Normalisation, RelationEntry, Scale};
use ignn_format::splits::{self, Split};

/// The stored entries to write.
pub struct Handmade<'a> {
    pub ids: &'a [&'a str],
    /// Source, target, stored value; both directions if symmetric.
    pub entries: &'a [(u32, u32, f32)],
    pub symmetric: bool,
    pub weighted: bool,
    pub normalisation: Normalisation,
    pub scale: Option<(Scale, &'a [f32])>,
    pub labels: Option<Labels>,
    pub splits: Vec<Split>,
}

impl Handmade<'_> {
    /// Writes the dataset.
    pub fn write(&self, path: &Path) {
        let relation = path.join("relations/edges");
        fs::create_dir_all(&relation).unwrap();
        let mut files = self.direction(&relation, "in", |&(source, target, _)| (target, source));
        if !self.symmetric {
            files.extend(self.direction(&relation, "out", |&(source, target, _)| (source, target)));
        }
        if let Some((_, values)) = self.scale {
            let file = relation.join("scale.f32");
            let mut writer = ArrayWriter::<f32>::create(&file, "scale").unwrap();
            writer.write(values).unwrap();
            files.push((file, writer.finish().unwrap()));
        }
        let mut ids = IdsWriter::create(path, IdKind::String, false).unwrap();
        ids.push_strings(self.ids.iter().copied()).unwrap();
        let (ids, file, entry) = ids.finish().unwrap();
        files.push((file, entry));
        let labels = self.labels.as_ref().map(|labels| {
            let (entry, written) = labels::write(path, labels).unwrap();
            files.extend(written);
            entry
        });
        let mut split_entries = Vec::new();
        if !self.splits.is_empty() {
            let (entries, written) = splits::write(path, &self.splits).unwrap();
            files.extend(written);
            split_entries = entries;
        }
        let name =
            |file: &Path| file.strip_prefix(path).unwrap_or(file).to_string_lossy().into_owned();
        let manifest = Manifest {
            format: FORMAT.into(),
            version: 1,
            made_by: MadeBy {
                program: "hand".into(),
                command: "test".into(),
                options: BTreeMap::new(),
            },
            nodes: self.ids.len() as u64,
            order: "none".into(),
            relations: vec![RelationEntry {
                name: "edges".into(),
                symmetric: self.symmetric,
                weighted: self.weighted,
                normalisation: self.normalisation,
                scale: self.scale.map_or(Scale::None, |(scale, _)| scale),
                nonzeros: self.entries.len() as u64,
                diagonal: self.entries.iter().filter(|entry| entry.0 == entry.1).count() as u64,
            }],
            ids,
            features: None,
            encoding: None,
            labels,
            splits: split_entries,
            graphs: None,
            files: files.iter().map(|(file, entry)| (name(file), entry.clone())).collect(),
        };
        manifest.write(path).unwrap();
    }

    fn direction(
        &self,
        relation: &Path,
        name: &str,
        key: impl Fn(&(u32, u32, f32)) -> (u32, u32),
    ) -> Vec<(PathBuf, FileEntry)> {
        let mut entries: Vec<_> = self.entries.iter().map(|entry| (key(entry), entry.2)).collect();
        entries.sort_by_key(|entry| entry.0);
        let mut writer = CsrWriter::create(relation, name, self.weighted).unwrap();
        let neighbours: Vec<u32> = entries.iter().map(|entry| entry.0.1).collect();
        let values: Vec<f32> = entries.iter().map(|entry| entry.1).collect();
        writer.extend(&neighbours, &values).unwrap();
        let degree = |row| entries.iter().filter(|entry| entry.0.0 == row).count() as u64;
        writer.end_rows(&(0..self.ids.len() as u32).map(degree).collect::<Vec<_>>()).unwrap();
        writer.finish().unwrap()
    }
}

/// An undirected, renormalised path a - b - c and an isolated node d, with the diagonal that
/// renormalisation adds.
pub fn path_and_loner() -> Handmade<'static> {
    Handmade {
        ids: &["a", "b", "c", "d"],
        entries: &[
            (0, 1, 1.0),
            (1, 0, 1.0),
            (1, 2, 1.0),
            (2, 1, 1.0),
            (0, 0, 1.0),
            (1, 1, 1.0),
            (2, 2, 1.0),
            (3, 3, 1.0),
        ],
        symmetric: true,
        weighted: false,
        normalisation: Normalisation::Renorm,
        scale: Some((Scale::Both, &[FRAC_1_SQRT_2, 0.577_350_26, FRAC_1_SQRT_2, 1.0])),
        labels: None,
        splits: Vec::new(),
    }
}

/// A directed, weighted, renormalised chain x -> y -> z with a loop of weight 15 at z; row sums
/// 4, 4, 16.
pub fn weighted_chain() -> Handmade<'static> {
    Handmade {
        ids: &["x", "y", "z"],
        entries: &[(0, 1, 3.0), (1, 2, 3.0), (0, 0, 1.0), (1, 1, 1.0), (2, 2, 16.0)],
        symmetric: false,
        weighted: true,
        scale: Some((Scale::Both, &[0.5, 0.5, 0.25])),
        ..path_and_loner()
    }
}
