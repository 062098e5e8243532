//! NumPy archives (.npz): one dense array, or the arrays of a SciPy sparse matrix. Members are
//! unpacked into a scratch directory and read there by ranges, so an archive may exceed the memory.
//! Nothing is unpacked before the shapes of all arrays fit each other and the sizes of the members.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ignn_format::storage::OutputFile;

use crate::error::{IngestError, Result};
use crate::source::npy::{NpyArray, NpyHeader};
use crate::source::zip::Zip;
use crate::source::{plausible, text};

/// The content of an archive.
#[derive(Debug)]
pub enum Npz {
    /// One array of numbers.
    Dense(NpyArray),
    /// A sparse matrix.
    Sparse(Box<SparseArrays>),
}

/// The arrays of a SciPy sparse matrix (`scipy.sparse.save_npz`).
#[derive(Debug)]
pub struct SparseArrays {
    /// How the entries are arranged.
    pub layout: SparseLayout,
    /// Number of rows.
    pub rows: u64,
    /// Number of columns.
    pub columns: u64,
    /// Offsets of the rows (or columns) and their end; for [`SparseLayout::Coo`], the row of each
    /// entry.
    pub major: NpyArray,
    /// Column (or row) of each entry.
    pub minor: NpyArray,
    /// Value of each entry.
    pub values: NpyArray,
}

/// Supported layouts of SciPy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparseLayout {
    /// By rows.
    Csr,
    /// By columns.
    Csc,
    /// Entries in any order.
    Coo,
}

/// Maximum size of the arrays that are read into memory: `shape` and `format`.
const SMALL_BYTES: u64 = 4096;

/// Opens an archive; its arrays are unpacked into `scratch`, an existing directory.
pub fn open(path: &Path, scratch: &Path) -> Result<Npz> {
    let archive = Archive::open(path)?;
    match archive.content()? {
        Content::Dense(name) => Ok(Npz::Dense(archive.unpack(&name, scratch)?)),
        Content::Sparse(layout, shape @ [rows, columns]) => {
            let names = layout.names();
            archive.check_sparse(layout, shape, names)?;
            let [major, minor, values] = names.map(|name| archive.unpack(name, scratch));
            Ok(Npz::Sparse(Box::new(SparseArrays {
                layout,
                rows,
                columns,
                major: major?,
                minor: minor?,
                values: values?,
            })))
        }
    }
}

/// Number of rows, without unpacking.
pub fn rows(path: &Path) -> Result<u64> {
    let archive = Archive::open(path)?;
    match archive.content()? {
        // Without columns, rows take no space, so a tiny member could declare any number of them.
        Content::Dense(name) => {
            let (rows, columns) = archive.shape_of(&name)?;
            Ok(if columns == 0 { 0 } else { rows })
        }
        Content::Sparse(layout, shape) => {
            let names = layout.names();
            archive.check_sparse(layout, shape, names)?;
            Ok(shape[0])
        }
    }
}

impl SparseArrays {
    /// Number of stored entries.
    pub fn entries(&self) -> u64 {
        self.values.rows()
    }
}

impl SparseLayout {
    /// Names of the arrays: major, minor, values.
    fn names(self) -> [&'static str; 3] {
        match self {
            Self::Coo => ["row", "col", "data"],
            _ => ["indptr", "indices", "data"],
        }
    }
}

enum Content {
    Dense(String),
    Sparse(SparseLayout, [u64; 2]),
}

struct Archive {
    path: PathBuf,
    zip: Zip,
}

impl Archive {
    fn open(path: &Path) -> Result<Self> {
        let zip = Zip::open(text::open_file(path)?)
            .map_err(|error| IngestError::file(path, format!("not a NumPy archive: {error}")))?;
        Ok(Self { path: path.into(), zip })
    }

    /// How messages name a member.
    fn shown(&self, name: &str) -> PathBuf {
        let mut shown = self.path.clone().into_os_string();
        shown.push(format!(":{name}"));
        shown.into()
    }

    fn content(&self) -> Result<Content> {
        let arrays = self.zip.names().filter_map(|name| name.strip_suffix(".npy"));
        let mut names: Vec<String> = arrays.map(String::from).collect();
        names.sort();
        let has = |name: &str| names.iter().any(|n| n == name);
        if has("format") && has("shape") && has("data") {
            let layout = self.layout()?;
            return Ok(Content::Sparse(layout, self.shape()?));
        }
        match &names[..] {
            [name] => Ok(Content::Dense(name.clone())),
            _ => {
                let listed = if names.is_empty() { "none".into() } else { names.join(", ") };
                let what = format!(
                    "expected one array, or a sparse matrix saved by scipy.sparse.save_npz; found \
                     {} arrays: {listed}; save only the features as .npy",
                    names.len()
                );
                Err(IngestError::file(&self.path, what))
            }
        }
    }

    /// Rows and columns of an array, which must be those of its member's size.
    fn shape_of(&self, name: &str) -> Result<(u64, u64)> {
        let shown = self.shown(name);
        let header = self.member(name, |member| NpyHeader::read(&shown, member))?;
        let size = self.zip.size(&format!("{name}.npy")).unwrap_or(0);
        header.check_size(&shown, size)?;
        header.matrix(&shown)
    }

    /// Checks the arrays of a sparse matrix by their headers.
    fn check_sparse(
        &self,
        layout: SparseLayout,
        [rows, columns]: [u64; 2],
        names: [&str; 3],
    ) -> Result<()> {
        let mut lengths = [0; 3];
        for (length, name) in lengths.iter_mut().zip(names) {
            let (found, columns) = self.shape_of(name)?;
            if columns != 1 {
                let what = format!("array of {columns} columns (expected one dimension)");
                return Err(IngestError::file(self.shown(name), what));
            }
            *length = found;
        }
        let [majors, minors, entries] = lengths;
        let expected = match layout {
            SparseLayout::Csr => rows.checked_add(1),
            SparseLayout::Csc => columns.checked_add(1),
            SparseLayout::Coo => Some(entries),
        };
        // The other layouts have no array with one element per row, so the declared number of rows
        // is only accepted if the number of entries makes it plausible.
        let implausible = layout != SparseLayout::Csr && !plausible::rows(rows, entries);
        if Some(majors) != expected || minors != entries || implausible {
            let what = format!(
                "sparse matrix with inconsistent arrays: shape ({rows}, {columns}), lengths \
                 {majors}, {minors} and {entries}"
            );
            return Err(IngestError::file(&self.path, what));
        }
        Ok(())
    }

    /// The member `format`: a byte or unicode string without dimensions.
    fn layout(&self) -> Result<SparseLayout> {
        let (_, bytes) = self.small("format")?;
        let word: String =
            bytes.iter().filter(|&&byte| byte != 0).map(|&byte| byte as char).collect();
        match word.as_str() {
            "csr" => Ok(SparseLayout::Csr),
            "csc" => Ok(SparseLayout::Csc),
            "coo" => Ok(SparseLayout::Coo),
            _ => {
                let what = format!(
                    "sparse matrix of format {word:?} (expected csr, csc or coo): save m.tocsr()"
                );
                Err(IngestError::file(&self.path, what))
            }
        }
    }

    fn shape(&self) -> Result<[u64; 2]> {
        let (header, bytes) = self.small("shape")?;
        let numbers: Vec<u64> = match header.dtype.to_string().as_str() {
            "<i8" | "<u8" => bytes
                .chunks_exact(8)
                .map(|b| u64::from_le_bytes(b.try_into().expect("8")))
                .collect(),
            "<i4" | "<u4" => bytes
                .chunks_exact(4)
                .map(|b| u64::from(u32::from_le_bytes(b.try_into().expect("4"))))
                .collect(),
            other => {
                let what = format!("shape of dtype '{other}' (expected integers)");
                return Err(IngestError::file(&self.path, what));
            }
        };
        // Numbers above 2^63 are negative.
        match numbers[..] {
            [rows, columns] if rows.max(columns) <= i64::MAX as u64 => Ok([rows, columns]),
            _ => Err(IngestError::file(
                &self.path,
                "sparse matrix whose shape does not have two dimensions",
            )),
        }
    }

    /// Reads a small member into memory.
    fn small(&self, name: &str) -> Result<(NpyHeader, Vec<u8>)> {
        let shown = self.shown(name);
        self.member(name, |mut member| {
            let header = NpyHeader::read(&shown, &mut member)?;
            let mut bytes = Vec::new();
            member.take(SMALL_BYTES).read_to_end(&mut bytes).map_err(damaged(&shown))?;
            Ok((header, bytes))
        })
    }

    fn unpack(&self, name: &str, scratch: &Path) -> Result<NpyArray> {
        self.shape_of(name)?;
        let shown = self.shown(name);
        // A name in an archive can be anything, even a path like `../x`, so the scratch file gets
        // its own name.
        let target = scratch.join(match name {
            "indptr" | "row" => "features.major.npy",
            "indices" | "col" => "features.minor.npy",
            _ => "features.values.npy",
        });
        self.member(name, |mut member| {
            let mut file = OutputFile::create_again(&target)?;
            io::copy(&mut member, &mut file).map_err(|error| match error.kind() {
                io::ErrorKind::StorageFull => IngestError::io("write", &target)(error),
                _ => damaged(&shown)(error),
            })?;
            Ok(())
        })?;
        NpyArray::open_as(&target, &shown)
    }

    fn member<T>(&self, name: &str, read: impl FnOnce(&mut dyn Read) -> Result<T>) -> Result<T> {
        let shown = self.shown(name);
        let mut member = self.zip.member(&format!("{name}.npy")).map_err(|error| {
            IngestError::file(&shown, format!("cannot read this member: {error}"))
        })?;
        read(&mut member)
    }
}

fn damaged(shown: &Path) -> impl FnOnce(io::Error) -> IngestError {
    move |error| IngestError::file(shown, format!("damaged archive: {error}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::source::npy::tests::npy;
    use crate::source::zip::tests::{Style, zip};
    use proptest::prelude::*;

    /// The bytes of an archive with these members.
    pub(crate) fn npz(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let names: Vec<String> = members.iter().map(|(name, _)| format!("{name}.npy")).collect();
        let members: Vec<(&str, &[u8])> =
            names.iter().zip(members).map(|(name, (_, member))| (&**name, &**member)).collect();
        zip(&members, Style { deflated: true, zip64: false })
    }

    fn integers(values: &[i32]) -> Vec<u8> {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        npy("'<i4'", "False", &format!("({},)", values.len()), &bytes)
    }

    /// A sparse matrix as SciPy saves it.
    pub(crate) fn sparse(
        layout: &str,
        shape: [i64; 2],
        major: &[i32],
        minor: &[i32],
        values: &[f32],
    ) -> Vec<u8> {
        let names = if layout == "coo" { ["row", "col"] } else { ["indptr", "indices"] };
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let shape: Vec<u8> = shape.iter().flat_map(|v| v.to_le_bytes()).collect();
        npz(&[
            (names[1], integers(minor)),
            (names[0], integers(major)),
            ("format", npy("'|S3'", "False", "()", layout.as_bytes())),
            ("shape", npy("'<i8'", "False", "(2,)", &shape)),
            ("data", npy("'<f4'", "False", &format!("({},)", values.len()), &data)),
        ])
    }

    fn message(bytes: &[u8]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.npz");
        std::fs::write(&path, bytes).unwrap();
        let error = open(&path, dir.path()).unwrap_err().to_string();
        error.replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn dense_and_sparse_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.npz");
        let data: Vec<u8> = (0..4).flat_map(|v| (v as f32).to_le_bytes()).collect();
        std::fs::write(&path, npz(&[("arr_0", npy("'<f4'", "False", "(2, 2)", &data))])).unwrap();
        assert_eq!(rows(&path).unwrap(), 2);
        let Npz::Dense(array) = open(&path, dir.path()).unwrap() else { panic!("dense") };
        let mut out = [0.0; 2];
        array.read_rows(1, &mut out).unwrap();
        assert_eq!(out, [2.0, 3.0]);

        std::fs::write(&path, sparse("csr", [3, 4], &[0, 1, 1, 2], &[3, 0], &[1.0, 2.0])).unwrap();
        assert_eq!(rows(&path).unwrap(), 3);
        let Npz::Sparse(matrix) = open(&path, dir.path()).unwrap() else { panic!("sparse") };
        assert_eq!((matrix.layout, matrix.columns, matrix.entries()), (SparseLayout::Csr, 4, 2));
    }

    #[test]
    fn malformed_archives_have_exact_messages() {
        assert!(message(b"hello").starts_with("x.npz: not a NumPy archive: "));
        assert_eq!(
            message(&npz(&[("b", vec![]), ("a", vec![])])),
            "x.npz: expected one array, or a sparse matrix saved by scipy.sparse.save_npz; found 2 \
             arrays: a, b; save only the features as .npy"
        );
        assert_eq!(
            message(&npz(&[("x", npy("'|O'", "False", "(2,)", b"pickle"))])),
            "x.npz:x: array of Python objects: save it with a numeric dtype, for example \
             numpy.save(FILE, array.astype(\"float32\"))"
        );
        assert_eq!(
            message(&sparse("csr", [3, 4], &[0, 1], &[3], &[1.0])),
            "x.npz: sparse matrix with inconsistent arrays: shape (3, 4), lengths 2, 1 and 1"
        );
        assert_eq!(
            message(&sparse("bsr", [3, 4], &[0, 1], &[3], &[1.0])),
            "x.npz: sparse matrix of format \"bsr\" (expected csr, csc or coo): save m.tocsr()"
        );
    }

    #[test]
    fn nothing_is_unpacked_before_its_shape_is_known_to_be_right() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.npz");
        let scratch = dir.path().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        let bomb = |shape: &str| npz(&[("x", npy("'<f4'", "False", shape, &vec![0; 1 << 20]))]);
        let long = [0; 1 << 18];
        for (bytes, what) in [
            (bomb("(4, 1)"), "x.npz:x: 1048576 bytes of data, but shape (4, 1) of '<f4' needs 16"),
            (
                sparse("csr", [4, 4], &long, &long, &[0.0; 1 << 18]),
                "x.npz: sparse matrix with inconsistent arrays: shape (4, 4), lengths 262144, ",
            ),
            (
                sparse("coo", [1 << 40, 4], &[0], &[0], &[1.0]),
                "x.npz: sparse matrix with inconsistent arrays: shape (1099511627776, 4), ",
            ),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = open(&path, &scratch).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "{what}");
        }
        std::fs::write(&path, bomb("(262144, 1)")).unwrap();
        assert!(matches!(open(&path, &scratch).unwrap(), Npz::Dense(_)));
    }

    proptest! {
        #[test]
        fn damaged_archives_do_not_panic(at in 0usize..1500, byte in any::<u8>(), cut in 0usize..1500) {
            let mut bytes = sparse("csc", [3, 2], &[0, 1, 2], &[2, 0], &[1.0, 2.0]);
            let length = bytes.len();
            bytes[at % length] = byte;
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x.npz");
            for bytes in [&bytes[..], &bytes[..cut.min(length)]] {
                std::fs::write(&path, bytes).unwrap();
                let _ = (rows(&path), open(&path, dir.path()));
            }
        }
    }
}
