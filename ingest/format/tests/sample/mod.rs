//! Two small, complete datasets, written with the writers of this package, for its tests.

#![allow(dead_code, missing_docs)] // Every test binary uses its part of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ignn_format::array::ArrayWriter;
use ignn_format::checksum::FileEntry;
use ignn_format::csr::CsrWriter;
use ignn_format::dataset::relation_path;
use ignn_format::encoding::{ColumnEncoding, Encoding, Rule, Scaling};
use ignn_format::features::{self, FeatureKind, FeaturesEntry, SparseRows};
use ignn_format::graphs::{self, Graphs};
use ignn_format::ids::{self, IdKind, Ids, IdsEntry};
use ignn_format::labels::{self, Labels};
use ignn_format::manifest::{FORMAT, MadeBy, Manifest, Normalisation, RelationEntry, Scale};
use ignn_format::splits::{self, NO_PART, Split};

/// A dataset under construction: parts are added, the manifest is written last.
pub struct Maker {
    pub root: PathBuf,
    pub manifest: Manifest,
}

/// Rows of an adjacency: neighbours with values.
pub type Rows<'a> = &'a [&'a [(u32, f32)]];

impl Maker {
    pub fn new(root: &Path, nodes: u64) -> Self {
        let made_by = MadeBy {
            program: "ignn-format tests".into(),
            command: "golden".into(),
            options: BTreeMap::from([("kept".into(), "for ever".into())]),
        };
        let manifest = Manifest {
            format: FORMAT.into(),
            version: 1,
            made_by,
            nodes,
            order: "none".into(),
            relations: Vec::new(),
            ids: IdsEntry { kind: IdKind::Integer },
            features: None,
            encoding: None,
            labels: None,
            splits: Vec::new(),
            graphs: None,
            files: BTreeMap::new(),
        };
        Self { root: root.into(), manifest }
    }

    pub fn add(&mut self, files: impl IntoIterator<Item = (PathBuf, FileEntry)>) {
        for (path, entry) in files {
            let name = path.strip_prefix(&self.root).unwrap().to_str().unwrap().to_string();
            assert!(self.manifest.files.insert(name, entry).is_none());
        }
    }

    /// Writes a relation. Counts are taken from `incoming`; without `outgoing`, it is symmetric.
    pub fn relation(
        &mut self,
        name: &str,
        weighted: bool,
        normalisation: Normalisation,
        incoming: Rows,
        outgoing: Option<Rows>,
        scale: &[f32],
    ) {
        let directory = relation_path(&self.root, name);
        fs::create_dir_all(&directory).unwrap();
        for (direction, rows) in [("in", Some(incoming)), ("out", outgoing)] {
            let Some(rows) = rows else { continue };
            let mut writer = CsrWriter::create(&directory, direction, weighted).unwrap();
            for row in rows {
                let (neighbours, values): (Vec<_>, Vec<_>) = row.iter().copied().unzip();
                writer.extend(&neighbours, &values).unwrap();
                writer.end_rows(&[row.len() as u64]).unwrap();
            }
            self.add(writer.finish().unwrap());
        }
        let scale_kind = match normalisation {
            Normalisation::None => Scale::None,
            Normalisation::Renorm => Scale::Both,
            Normalisation::Row => Scale::Source,
        };
        if scale_kind != Scale::None {
            let path = directory.join("scale.f32");
            let mut writer = ArrayWriter::<f32>::create(&path, "scale").unwrap();
            writer.write(scale).unwrap();
            self.add([(path, writer.finish().unwrap())]);
        }
        let on_diagonal = |(i, row): (usize, &&[(u32, f32)])| {
            row.iter().filter(|(j, _)| *j as usize == i).count()
        };
        self.manifest.relations.push(RelationEntry {
            name: name.into(),
            symmetric: outgoing.is_none(),
            weighted,
            normalisation,
            scale: scale_kind,
            nonzeros: incoming.iter().map(|row| row.len() as u64).sum(),
            diagonal: incoming.iter().enumerate().map(on_diagonal).sum::<usize>() as u64,
        });
    }

    pub fn ids(&mut self, ids: &Ids) {
        let (entry, path, file) = ids::write(&self.root, ids).unwrap();
        self.manifest.ids = entry;
        self.add([(path, file)]);
    }

    pub fn dense(&mut self, columns: usize, rows_per_shard: usize, values: &[f32]) {
        for (shard, rows) in values.chunks(columns * rows_per_shard).enumerate() {
            let file =
                features::write_dense_shard(&self.root, shard as u64, columns, rows).unwrap();
            self.add([(features::shard_path(&self.root, shard as u64), file)]);
        }
        self.manifest.features = Some(FeaturesEntry {
            kind: FeatureKind::Dense,
            columns: columns as u64,
            rows_per_shard: rows_per_shard as u64,
            shards: (values.len() / columns).div_ceil(rows_per_shard) as u64,
            nonzeros: None,
        });
    }

    /// Writes sparse features in one shard.
    pub fn sparse(&mut self, columns: u64, rows: &SparseRows) {
        let file = features::write_sparse_shard(&self.root, 0, rows).unwrap();
        self.add([(features::shard_path(&self.root, 0), file)]);
        self.manifest.features = Some(FeaturesEntry {
            kind: FeatureKind::Sparse,
            columns,
            rows_per_shard: 1000,
            shards: 1,
            nonzeros: Some(rows.values.len() as u64),
        });
    }

    pub fn labels(&mut self, labels: &Labels) {
        let (entry, files) = labels::write(&self.root, labels).unwrap();
        self.manifest.labels = Some(entry);
        self.add(files);
    }

    pub fn splits(&mut self, splits: &[Split]) {
        let (entries, files) = splits::write(&self.root, splits).unwrap();
        self.manifest.splits = entries;
        self.add(files);
    }

    pub fn graphs(&mut self, graphs: &Graphs) {
        let (entry, files) = graphs::write(&self.root, graphs).unwrap();
        self.manifest.graphs = Some(entry);
        self.add(files);
    }

    pub fn finish(self) {
        self.manifest.write(&self.root).unwrap();
    }
}

pub fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

pub fn split(name: &str, parts: &[&str], of: &[u8]) -> Split {
    Split { name: name.into(), parts: strings(parts), of: of.to_vec() }
}

/// `1 / sqrt(x)`, rounded once.
pub fn inverse_root(x: f64) -> f32 {
    x.sqrt().recip() as f32
}

pub const DENSE: [f32; 18] = [
    0.5, -1.0, 2.0, 0.0, 0.25, 1e-3, 3.0, 4.0, 5.0, -6.5, 7.0, 1e10, 1.0, 1.0, 1.0, -0.0, 0.125,
    9.0,
];
pub const PATH_ROWS: Rows = &[
    &[(0, 1.0), (1, 1.0)],
    &[(0, 1.0), (1, 1.0), (2, 1.0)],
    &[(1, 1.0), (2, 1.0), (3, 1.0)],
    &[(2, 1.0), (3, 1.0)],
    &[(4, 1.0), (5, 1.0)],
    &[(4, 1.0), (5, 1.0)],
];

pub fn path_scale() -> [f32; 6] {
    [2.0, 3.0, 3.0, 2.0, 2.0, 2.0].map(inverse_root)
}

pub fn many_graphs() -> Graphs {
    Graphs {
        ids: strings(&["path", "pair"]),
        first_node: vec![0, 4, 6],
        classes: strings(&["long", "short"]),
        labels: vec![0, 1],
        numbers: Vec::new(),
        splits: vec![split("default", &["train", "test"], &[0, 1])],
    }
}

pub fn single_labels() -> Labels {
    Labels::Single { classes: strings(&["red", "green", "blue"]), of: vec![0, 2, -1, 1, 1, -1] }
}

pub const STRING_IDS: [&str; 6] = ["a", "b", "c c", "d", "\u{e9}", "f"];

/// Two graphs, a path of four nodes and a pair: symmetric, string ids, dense features, single
/// labels.
pub fn graphs_maker(root: &Path) -> Maker {
    fs::create_dir_all(root).unwrap();
    let mut maker = Maker::new(root, 6);
    maker.relation("edges", false, Normalisation::Renorm, PATH_ROWS, None, &path_scale());
    maker.ids(&Ids::from_strings(STRING_IDS));
    maker.dense(3, 4, &DENSE);
    maker.labels(&single_labels());
    maker.graphs(&many_graphs());
    maker
}

pub const FLOW_IN: Rows =
    &[&[], &[(0, 0.5), (1, 2.0)], &[(0, 1.5)], &[(0, 2.0), (1, 6.0), (2, 0.25)], &[]];
pub const FLOW_OUT: Rows =
    &[&[(1, 0.5), (2, 1.5), (3, 2.0)], &[(1, 2.0), (3, 6.0)], &[(3, 0.25)], &[], &[]];
pub const FLOW_SCALE: [f32; 5] = [0.25, 0.125, 4.0, 0.0, 0.0];
pub const LINK_IN: Rows = &[&[(4, 1.0)], &[], &[(1, 1.0), (3, 1.0)], &[], &[]];
pub const LINK_OUT: Rows = &[&[], &[(2, 1.0)], &[], &[(2, 1.0)], &[(0, 1.0)]];
pub const WIDE_IDS: [u64; 5] = [7, 0, u64::MAX, 12, 1 << 40];

pub fn sparse_rows() -> SparseRows {
    SparseRows {
        offsets: vec![0, 2, 2, 3, 6, 6],
        columns: vec![0, 9999, 17, 1, 2, 3],
        values: vec![1.0, -2.0, 0.5, 1.0, 1.0, 1.0],
    }
}

pub fn multi_labels() -> Labels {
    let classes = strings(&["x", "y", "z"]);
    Labels::sets(classes, vec![0, 2, 2, 3, 3, 6], vec![0, 2, 1, 0, 1, 2])
}

pub fn two_splits() -> [Split; 2] {
    [
        split("default", &["train", "val", "test"], &[0, 1, 2, NO_PART, 0]),
        split("fold-1", &["train", "test"], &[1, 0, 0, 0, 1]),
    ]
}

/// Two directed relations, wide integer ids, sparse features, multi-labels, two splits.
pub fn relations_maker(root: &Path) -> Maker {
    fs::create_dir_all(root).unwrap();
    let mut maker = Maker::new(root, 5);
    maker.relation("flow", true, Normalisation::Row, FLOW_IN, Some(FLOW_OUT), &FLOW_SCALE);
    maker.relation("link", false, Normalisation::None, LINK_IN, Some(LINK_OUT), &[]);
    maker.ids(&Ids::Integer(WIDE_IDS.to_vec()));
    maker.sparse(10_000, &sparse_rows());
    maker.labels(&multi_labels());
    maker.splits(&two_splits());
    maker
}

pub fn encoding() -> Encoding {
    let scale = Some(Scaling { mean: 2.5, deviation: 0.5 });
    let words = strings(&["a b", "\u{e9}"]);
    Encoding {
        columns: vec![
            ColumnEncoding::new("age", Rule::Number { scale, fill: 2.5 }, true),
            ColumnEncoding::new("city", Rule::Words { words }, false),
            ColumnEncoding::new("code", Rule::Hashed { columns: 2 }, false),
        ],
    }
}

pub fn numbered_graphs() -> Graphs {
    Graphs {
        classes: strings(&["energy"]),
        labels: Vec::new(),
        numbers: vec![0.25, -1e-300],
        ..many_graphs()
    }
}

/// The same graphs with numbers, of nodes and of graphs, and features from a table.
pub fn table_maker(root: &Path) -> Maker {
    fs::create_dir_all(root).unwrap();
    let mut maker = Maker::new(root, 6);
    maker.manifest.version = 2;
    maker.relation("edges", false, Normalisation::Renorm, PATH_ROWS, None, &path_scale());
    maker.ids(&Ids::from_strings(STRING_IDS));
    let row = |node: u16| [f32::from(node), 0.0, 1.0, 0.0, 0.0, 1.0];
    maker.dense(6, 4, &(0..6).flat_map(row).collect::<Vec<f32>>());
    maker.manifest.encoding = Some(encoding());
    let none = f64::NAN;
    maker.labels(&Labels::numbers("price", vec![1.5, -2e300, none, 0.0, none, 7.0]));
    maker.graphs(&numbered_graphs());
    maker
}
