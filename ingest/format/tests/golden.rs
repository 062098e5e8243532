//! Datasets written by the first program of each version, which are kept forever: they must open, pass
//! the check and have the same content.
//!
//! They were written by `IGNN_WRITE_GOLDEN=1 cargo test -p ignn-format --test golden`, which only
//! writes missing datasets. A later version gets its own folder; these files never change.

mod sample;

use std::fs;
use std::path::{Path, PathBuf};

use ignn_format::check::check;
use ignn_format::ids::Ids;
use ignn_format::labels::Labels;
use ignn_format::{DatasetDir, FormatError};
use sample::Rows;

/// The version of the format that has a dataset, and the path of the dataset.
fn golden(name: &str) -> PathBuf {
    let version = if name == "table" { "v2" } else { "v1" };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(version).join(name)
}

/// The golden dataset, and the same dataset written now.
fn both(
    name: &str,
    maker: fn(&Path) -> sample::Maker,
) -> [(DatasetDir, Option<tempfile::TempDir>); 2] {
    let kept = golden(name);
    if std::env::var_os("IGNN_WRITE_GOLDEN").is_some() && !kept.exists() {
        maker(&kept).finish();
    }
    let now = tempfile::tempdir().unwrap();
    maker(now.path()).finish();
    let open = |path: &Path| DatasetDir::open(path).unwrap();
    [(open(&kept), None), (open(now.path()), Some(now))]
}

fn assert_sound(dataset: &DatasetDir) {
    let findings = check(dataset, &|_, done, total| assert!(done <= total));
    assert!(findings.is_empty(), "{findings:#?}");
}

fn assert_rows(csr: &ignn_format::csr::CsrFile, rows: Rows) {
    assert_eq!(csr.rows(), rows.len());
    for (i, row) in rows.iter().enumerate() {
        let (neighbours, values): (Vec<u32>, Vec<f32>) = row.iter().copied().unzip();
        assert_eq!(csr.row(i), neighbours);
        if let Some(stored) = csr.values() {
            assert_eq!(stored[csr.range(i)], values);
        }
    }
}

#[test]
fn many_graphs_with_dense_features() {
    for (dataset, _keep) in both("graphs", sample::graphs_maker) {
        assert_sound(&dataset);
        assert_eq!(dataset.nodes(), 6);
        assert_eq!(dataset.manifest().made_by.options["kept"], "for ever");
        let relation = dataset.relation("edges").unwrap();
        assert_rows(&relation.incoming, sample::PATH_ROWS);
        assert!(relation.outgoing.is_none());
        assert_eq!(relation.scale.unwrap()[..], sample::path_scale());
        assert_eq!(dataset.ids().unwrap(), Ids::from_strings(sample::STRING_IDS));
        let mut features = [0.0; 18];
        dataset.read_dense(0, &mut features, 3).unwrap();
        assert_eq!(features.map(f32::to_bits), sample::DENSE.map(f32::to_bits));
        assert_eq!(dataset.labels().unwrap(), sample::single_labels());
        assert_eq!(dataset.graphs().unwrap(), Some(sample::many_graphs()));
        assert_eq!(dataset.splits().unwrap(), []);
        let error = dataset.read_sparse().unwrap_err();
        assert!(matches!(error, FormatError::Missing { .. }), "{error}");
    }
}

#[test]
fn relations_with_sparse_features() {
    for (dataset, _keep) in both("relations", sample::relations_maker) {
        assert_sound(&dataset);
        let flow = dataset.relation("flow").unwrap();
        assert_rows(&flow.incoming, sample::FLOW_IN);
        assert_rows(&flow.outgoing.unwrap(), sample::FLOW_OUT);
        assert_eq!(flow.scale.unwrap()[..], sample::FLOW_SCALE);
        let link = dataset.relation("link").unwrap();
        assert_rows(&link.incoming, sample::LINK_IN);
        assert_rows(&link.outgoing.unwrap(), sample::LINK_OUT);
        assert!(link.scale.is_none());
        assert_eq!(dataset.ids().unwrap(), Ids::Integer(sample::WIDE_IDS.to_vec()));
        assert_eq!(dataset.read_sparse().unwrap(), sample::sparse_rows());
        assert_eq!(dataset.labels().unwrap(), sample::multi_labels());
        assert_eq!(dataset.splits().unwrap(), sample::two_splits());
        assert_eq!(dataset.graphs().unwrap(), None);
        assert!(
            dataset.relation("edges").unwrap_err().to_string().ends_with("(it has: flow, link)")
        );
    }
}

#[test]
fn numbers_and_an_encoded_table() {
    for (dataset, _keep) in both("table", sample::table_maker) {
        assert_sound(&dataset);
        let manifest = dataset.manifest();
        assert_eq!((manifest.version, manifest.lowest_version()), (2, 2));
        assert_eq!(manifest.encoding, Some(sample::encoding()));
        let Labels::Number { name, of } = dataset.labels().unwrap() else { panic!("numbers") };
        assert_eq!((&name[0][..], of[0], of[1]), ("price", 1.5, -2e300));
        assert!(of[2].is_nan());
        assert_eq!(dataset.graphs().unwrap(), Some(sample::numbered_graphs()));
    }
}

/// The array files have this project's own format: the bytes written now are those written then.
#[test]
fn array_files_are_written_as_ever() {
    for (name, maker) in
        [("graphs", sample::graphs_maker as fn(&Path) -> _), ("relations", sample::relations_maker)]
    {
        let [(kept, _), (now, _keep)] = both(name, maker);
        let arrays = kept.manifest().files.keys().filter(|name| name.starts_with("relations/"));
        for file in arrays {
            assert_eq!(
                fs::read(kept.path().join(file)).unwrap(),
                fs::read(now.path().join(file)).unwrap()
            );
        }
    }
}

#[test]
fn a_dataset_without_nodes_is_a_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let mut maker = sample::Maker::new(dir.path(), 0);
    maker.relation("edges", false, ignn_format::manifest::Normalisation::None, &[], None, &[]);
    maker.ids(&Ids::Integer(vec![]));
    maker.dense(3, 4, &[]);
    maker.splits(&[sample::split("default", &["train"], &[])]);
    maker.finish();
    let dataset = DatasetDir::open(dir.path()).unwrap();
    assert_sound(&dataset);
    dataset.read_dense(0, &mut [], 3).unwrap();
    assert_eq!(dataset.relation("edges").unwrap().incoming.rows(), 0);
}
