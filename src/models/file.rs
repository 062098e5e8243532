//! The file of a model, `model.safetensors`: named f32 tensors and a few texts about them. This
//! module reads and writes names and shapes; a [`Network`](super::Network) decides which it needs.
//!
//! ```text
//! 8 bytes     length of the header, little endian
//! header      JSON, padded to 8: "__metadata__" {text: text}, and for each tensor "dtype",
//!             "shape", "data_offsets"
//! data        the tensors one after another, rows without padding
//! ```
//! Weights have one row per output and one column per input. `m` is the state width, `p` the number
//! of features, `c` of outputs, `n` of nodes.
//!
//! | name | shape | |
//! | --- | --- | --- |
//! | `layer0.W` | `[m, m]` | recurrent weight |
//! | `layer0.Omega` | `[m, p]` | input map; with two maps, that of the gathered features |
//! | `layer0.Omega2` | `[m, p]` | input map of the own features beside the gathered ones |
//! | `layer0.bias` | `[m]` | bias of the equation |
//! | `layer0.E` | `[n, m]` | learned features, one row per node |
//! | `head.hidden0.Theta`, ... | `[h, m], ...` | maps of an mlp readout before the last, in their order |
//! | `head.hidden0.bias`, ... | `[h], ...` | their biases |
//! | `head.Theta` | `[c, m]` | readout; of an mlp the last map |
//! | `head.bias` | `[c]` | bias of the readout |
//!
//! Explicit layers have other parameters: see their kind in [`super::kinds`]. With several
//! relations, `W` and `Omega` are followed by the name of the relation: `layer0.W.<relation>`.
//!
//! Texts: see [`text`]. The same content gives the same bytes.
//!
//! The text [`text::CHECKSUM`] is the XXH3-64 of all bytes of the file, in which its own sixteen
//! digits count as zeros. It is verified when the file is opened. Files of version 1 and files of
//! other programs have none and are read without; a program that changes a file leaves out the text
//! and the version.
//!
//! Tensors are written and read row by row, without a copy of the whole. A write is atomic: the
//! file appears complete or not at all.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use ignn_format::checksum::{HashingWriter, hex, of_bytes};
use ignn_format::storage::{ANY_FILE, Draft, OutputFile};
use ignn_format::{FormatError, Result, regular};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use crate::dense::{Matrix, MatrixRef};
use crate::kernels::elementwise;
use crate::parallel::{Ranks, Rows};

/// Version of names and meanings in files that this program writes.
pub const VERSION: &str = "2";

/// The version before checksums.
const WITHOUT_CHECKSUM: &str = "1";

/// In place of the checksum while it is computed.
const NO_DIGITS: &str = "0000000000000000";

/// What to do with a file that is not as it was written.
const DAMAGED: &str = "the file is damaged or was edited: restore it, or train again";

/// Bytes that one rank sends to the first at a time, of rows that are written.
const PIECE_BYTES: usize = 4 << 20;
/// Numbers that are read at a time where some of them are wanted.
const READ_NUMBERS: usize = 1 << 18;

/// Longest header that is read, as the format's own library limits it.
const MAX_HEADER: u64 = 100_000_000;

/// Names of tensors.
pub mod name {
    /// Shape `[m, m]`.
    pub const W: &str = "layer0.W";
    /// Shape `[m, p]`.
    pub const OMEGA: &str = "layer0.Omega";
    /// Shape `[m]`.
    pub const BIAS: &str = "layer0.bias";
    /// Shape `[n, m]`.
    pub const E: &str = "layer0.E";
    /// Shape `[c, m]`.
    pub const THETA: &str = "head.Theta";
}

/// Names of texts.
pub mod text {
    /// Always present: [`super::VERSION`].
    pub const FORMAT_VERSION: &str = "ignn_format_version";
    /// The checksum of the file: see [the module](super).
    pub const CHECKSUM: &str = "xxh3";
    /// The resolved configuration, TOML.
    pub const CONFIG: &str = "config";
    /// Names of the outputs, a JSON list.
    pub const CLASSES: &str = "classes";
    /// Checksum of the dataset that the model was trained on.
    pub const DATASET: &str = "dataset_checksum";
    /// Checksum of the node ids in their order, if the model has learned features.
    pub const NODES: &str = "node_ids_checksum";
}

/// Texts by name.
pub type Texts = BTreeMap<String, String>;

/// A tensor to write.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    name: String,
    shape: Vec<usize>,
    rows: Entries<'a>,
    /// Who has the other rows, if this rank has some of them.
    over: Option<Rows>,
}

/// The entries of a tensor on this rank.
#[derive(Clone, Debug)]
enum Entries<'a> {
    Matrix(MatrixRef<'a>),
    /// One dimension.
    Numbers(Cow<'a, [f32]>),
}

impl<'a> Tensor<'a> {
    /// Two dimensions.
    pub fn matrix(name: impl Into<String>, matrix: MatrixRef<'a>) -> Self {
        let shape = vec![matrix.rows(), matrix.cols()];
        Self { name: name.into(), shape, rows: Entries::Matrix(matrix), over: None }
    }

    /// One dimension: the only row of a matrix.
    ///
    /// # Panics
    /// If it does not have exactly one row.
    pub fn vector(name: impl Into<String>, row: MatrixRef<'a>) -> Self {
        assert_eq!(row.rows(), 1, "a vector is one row");
        Self::numbers(name, row.row(0))
    }

    /// One dimension.
    pub(crate) fn numbers(name: impl Into<String>, numbers: impl Into<Cow<'a, [f32]>>) -> Self {
        let numbers = numbers.into();
        let (name, shape) = (name.into(), vec![numbers.len()]);
        Self { name, shape, rows: Entries::Numbers(numbers), over: None }
    }

    /// The same with a row, or number, for each node, of which this rank has its own first; those of
    /// its ghosts may follow.
    pub(crate) fn divided(mut self, over: &Rows) -> Self {
        self.shape[0] = over.all();
        self.rows = match self.rows {
            Entries::Matrix(matrix) => Entries::Matrix(matrix.first(over.len())),
            Entries::Numbers(mut numbers) => {
                match &mut numbers {
                    Cow::Borrowed(numbers) => *numbers = &numbers[..over.len()],
                    Cow::Owned(numbers) => numbers.truncate(over.len()),
                }
                Entries::Numbers(numbers)
            }
        };
        self.over = (!over.is_alone()).then(|| over.clone());
        self
    }

    /// Entries per row; 1 of one dimension.
    fn width(&self) -> usize {
        self.shape.get(1).copied().unwrap_or(1)
    }

    /// Calls `work` with the entries of this rank's rows, in pieces of a row or more.
    fn each_part<E>(&self, mut work: impl FnMut(&[f32]) -> Result<(), E>) -> Result<(), E> {
        match &self.rows {
            // The package does not compile for big-endian machines.
            Entries::Matrix(matrix) => (0..matrix.rows()).try_for_each(|row| work(matrix.row(row))),
            Entries::Numbers(numbers) => work(numbers),
        }
    }

    /// The ranks that send rows to the first one, in order: one number for each piece.
    fn pieces(&self) -> impl Iterator<Item = usize> + '_ {
        let count = |rank: usize, over: &Rows| over.rows_of(rank).len().div_ceil(self.piece_rows());
        let over = self.over.iter();
        over.flat_map(move |over| {
            (1..over.ranks().size()).flat_map(move |rank| (0..count(rank, over)).map(move |_| rank))
        })
    }

    /// Rows of a piece.
    fn piece_rows(&self) -> usize {
        (PIECE_BYTES / (self.width() * size_of::<f32>()).max(1)).max(1)
    }

    /// Sends the rows of this rank to the first one, in pieces.
    fn send(&self, ranks: &dyn Ranks) {
        let entries = self.piece_rows() * self.width();
        let send = |piece: &[f32]| {
            ranks.exchange(vec![(0, bytemuck::cast_slice(piece).to_vec())], &[]);
        };
        let mut piece = Vec::with_capacity(entries);
        let sent: Result<(), Infallible> = self.each_part(|mut part| {
            while !part.is_empty() {
                let (now, later) = part.split_at(part.len().min(entries - piece.len()));
                piece.extend_from_slice(now);
                part = later;
                if piece.len() == entries {
                    send(&piece);
                    piece.clear();
                }
            }
            Ok(())
        });
        let Ok(()) = sent;
        if !piece.is_empty() {
            send(&piece);
        }
    }
}

/// Tensors of which each rank has its own rows. The first rank writes them, piece by piece as the
/// others send theirs, so that it needs no memory for those.
pub(crate) struct Shared<'a> {
    tensors: Vec<Tensor<'a>>,
    ranks: &'a dyn Ranks,
    /// Number of pieces that were received.
    received: Cell<usize>,
}

impl<'a> Shared<'a> {
    /// All ranks have the same tensors, each with its own rows.
    pub fn new(tensors: Vec<Tensor<'a>>, ranks: &'a dyn Ranks) -> Self {
        Self { tensors, ranks, received: Cell::new(0) }
    }

    /// Writes the file, once, on the first rank, while the others [`finish`](Self::finish).
    pub fn write(&self, path: &Path, texts: &Texts) -> Result<()> {
        write_with(path, &self.tensors, texts, &|rank| self.receive(rank))
    }

    fn receive(&self, rank: usize) -> Vec<u8> {
        self.received.set(self.received.get() + 1);
        self.ranks.exchange(Vec::new(), &[rank]).pop().unwrap_or_default()
    }

    /// Sends the rows of this rank; on the first one, receives what it did not write because of an
    /// error. All ranks call it together.
    pub fn finish(self) {
        if !self.ranks.is_first() {
            return self
                .tensors
                .iter()
                .filter(|t| t.over.is_some())
                .for_each(|t| t.send(self.ranks));
        }
        let rest = self.tensors.iter().flat_map(Tensor::pieces).skip(self.received.get());
        rest.for_each(|rank| drop(self.receive(rank)));
    }
}

/// Writes a file, in place of an older one if there is one.
///
/// # Panics
/// If two tensors have the same name.
pub fn write(path: &Path, tensors: &[Tensor<'_>], texts: &Texts) -> Result<()> {
    write_with(path, tensors, texts, &|_| unreachable!("all rows are here"))
}

fn write_with(
    path: &Path,
    tensors: &[Tensor<'_>],
    texts: &Texts,
    receive: &dyn Fn(usize) -> Vec<u8>,
) -> Result<()> {
    let draft = Draft::create(path, Some(&ANY_FILE))?;
    let mut file = draft.open()?;
    write_all(&mut file, tensors, texts, receive).map_err(FormatError::io("write", path))?;
    draft.commit(file)
}

fn write_all(
    file: &mut OutputFile,
    tensors: &[Tensor<'_>],
    texts: &Texts,
    receive: &dyn Fn(usize) -> Vec<u8>,
) -> io::Result<()> {
    let header = header(tensors, texts);
    let digits = digits_at(&header).expect("the header has a checksum");
    let mut out = BufWriter::with_capacity(1 << 18, HashingWriter::new(file));
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for tensor in tensors {
        tensor.each_part(|part| out.write_all(bytemuck::cast_slice(part)))?;
        tensor.pieces().try_for_each(|rank| out.write_all(&receive(rank)))?;
    }
    let (file, written) = out.into_inner()?.into_parts();
    file.seek(SeekFrom::Start(8 + digits as u64))?;
    file.write_all(written.xxh3.as_bytes())
}

/// Where the digits of the checksum are in a header, as this program writes it.
fn digits_at(header: &[u8]) -> Option<usize> {
    // Quotes in other texts are escaped, so that this can be nothing else.
    let before = format!("\"{}\":\"", text::CHECKSUM).into_bytes();
    let start = header.windows(before.len()).position(|found| found == before)? + before.len();
    let digits = header.get(start..start + NO_DIGITS.len())?;
    (digits.is_ascii() && header.get(start + NO_DIGITS.len()) == Some(&b'"')).then_some(start)
}

/// Written here and not by the `safetensors` crate, whose order of texts changes from run to run.
fn header(tensors: &[Tensor<'_>], texts: &Texts) -> Vec<u8> {
    let mut texts = texts.clone();
    texts.insert(text::FORMAT_VERSION.into(), VERSION.into());
    texts.insert(text::CHECKSUM.into(), NO_DIGITS.into());
    let mut header =
        serde_json::Map::from_iter([("__metadata__".to_string(), serde_json::json!(texts))]);
    let mut end = 0;
    for Tensor { name, shape, .. } in tensors {
        let start = end;
        end += shape.iter().product::<usize>() * size_of::<f32>();
        let info =
            TensorInfo { dtype: Dtype::F32, shape: shape.clone(), data_offsets: (start, end) };
        let info = serde_json::to_value(info).expect("plain data");
        assert!(header.insert(name.clone(), info).is_none(), "two tensors named {name}");
    }
    let mut bytes = serde_json::Value::Object(header).to_string().into_bytes();
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    bytes
}

/// A file to read tensors from; only its header is in memory.
#[derive(Debug)]
pub struct ModelFile {
    path: PathBuf,
    file: File,
    data: u64,
    header: Metadata,
    texts: Texts,
}

impl ModelFile {
    /// Reads the header, checks that it fits the file's length, and compares the whole file with
    /// its checksum if it has one.
    pub fn open(path: &Path) -> Result<Self> {
        let (mut file, length) = regular::open(path)?;
        let damaged =
            |found: String| FormatError::invalid(path, "damaged model file", found, "safetensors");
        let mut bytes = [0; 8];
        if length < 8 {
            return Err(damaged(format!("{length} bytes")));
        }
        file.read_exact(&mut bytes).map_err(FormatError::io("read", path))?;
        let header_length = u64::from_le_bytes(bytes);
        if header_length > length - 8 {
            return Err(damaged(format!(
                "a header of {header_length} bytes in a file of {length}"
            )));
        }
        if header_length > MAX_HEADER {
            return Err(damaged(format!(
                "a header of {header_length} bytes, more than {MAX_HEADER}"
            )));
        }
        let mut bytes = vec![0; header_length as usize];
        file.read_exact(&mut bytes).map_err(FormatError::io("read", path))?;
        let header: Metadata = serde_json::from_slice(&bytes)
            .map_err(|error| damaged(format!("a header that cannot be read: {error}")))?;
        let (found, expected) = (length - 8 - header_length, header.data_len());
        if found != expected as u64 {
            let (found, expected) =
                (format!("{found} bytes"), format!("{expected} bytes as its header says"));
            return Err(FormatError::invalid(path, "damaged model file: data", found, expected));
        }
        let texts: Texts =
            header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        let found = texts.get(text::CHECKSUM);
        // Files of other programs have no version; only the names matter then.
        match texts.get(text::FORMAT_VERSION).map(String::as_str) {
            None | Some(WITHOUT_CHECKSUM) => {}
            Some(VERSION) if found.is_some() => {}
            Some(VERSION) => {
                let what = format!("text {}", text::CHECKSUM);
                return Err(FormatError::invalid(path, what, "none", format!("one: {DAMAGED}")));
            }
            Some(found) => {
                let (what, found) = ("version of the model file", format!("{found:?}"));
                let expected = format!("\"{WITHOUT_CHECKSUM}\" or \"{VERSION}\"");
                return Err(FormatError::invalid(path, what, found, expected));
            }
        }
        if let Some(found) = found {
            let expected = checksum_of(&file, bytes).map_err(FormatError::io("read", path))?;
            if expected.as_ref() != Some(found) {
                let expected = expected.map_or_else(String::new, |digits| format!("{digits}: "));
                return Err(FormatError::invalid(
                    path,
                    "checksum",
                    found,
                    format!("{expected}{DAMAGED}"),
                ));
            }
        }
        Ok(Self { path: path.into(), file, data: 8 + header_length, header, texts })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The checksum of the file; that of its texts where an older file has none.
    pub(crate) fn checksum(&self) -> String {
        let of_texts = || hex(of_bytes(format!("{:?}", self.texts).as_bytes()));
        self.texts.get(text::CHECKSUM).cloned().unwrap_or_else(of_texts)
    }

    /// All texts.
    pub fn texts(&self) -> &Texts {
        &self.texts
    }

    /// A text that must be there.
    pub fn text(&self, name: &str) -> Result<&str> {
        let missing = || {
            FormatError::invalid(&self.path, format!("text {name}"), "none", "one in the metadata")
        };
        self.texts.get(name).map(String::as_str).ok_or_else(missing)
    }

    /// Names of the tensors, in the order of the file.
    pub fn names(&self) -> Vec<String> {
        self.header.offset_keys()
    }

    /// Shape of a tensor, if there is one of this name.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.header.info(name).map(|info| info.shape.as_slice())
    }

    /// Reads a tensor of two dimensions, which must have this shape. As of every tensor, all of its
    /// numbers must be finite.
    pub fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<Matrix> {
        self.read(name, &[rows, cols], rows, cols)
    }

    /// Reads a tensor of one dimension as the only row of a matrix.
    pub fn vector(&self, name: &str, cols: usize) -> Result<Matrix> {
        self.read(name, &[cols], 1, cols)
    }

    /// The rows of this rank, of a tensor with a row for each node, in a matrix of `rows` rows.
    pub(crate) fn own_rows(
        &self,
        name: &str,
        over: &Rows,
        cols: usize,
        rows: usize,
    ) -> Result<Matrix> {
        self.read_part(name, &[over.all(), cols], &over.own(), rows, cols)
    }

    /// The numbers of this rank and of its ghosts, of a tensor with a number for each node; `filler`
    /// between them.
    pub(crate) fn own_numbers(&self, name: &str, over: &Rows, filler: f32) -> Result<Vec<f32>> {
        let shape = [over.all()];
        let own = self.read_part(name, &shape, &over.own(), over.len(), 1)?;
        let mut numbers: Vec<f32> = (0..own.rows()).map(|row| own.row(row)[0]).collect();
        if over.is_alone() {
            return Ok(numbers);
        }
        numbers.resize(Rows::first_ghost(over.len()), filler);
        let mut ghosts = over.ghosts();
        for start in (0..over.all()).step_by(READ_NUMBERS) {
            let end = over.all().min(start + READ_NUMBERS);
            let count = ghosts.partition_point(|&ghost| (ghost as usize) < end);
            let (now, later) = ghosts.split_at(count);
            ghosts = later;
            if !now.is_empty() {
                let read = self.read_part(name, &shape, &(start..end), end - start, 1)?;
                numbers.extend(now.iter().map(|&ghost| read.row(ghost as usize - start)[0]));
            }
        }
        Ok(numbers)
    }

    fn read(&self, name: &str, shape: &[usize], rows: usize, cols: usize) -> Result<Matrix> {
        self.read_part(name, shape, &(0..rows), rows, cols)
    }

    /// Some rows of a tensor, the first of a matrix with `rows` rows.
    fn read_part(
        &self,
        name: &str,
        shape: &[usize],
        part: &Range<usize>,
        rows: usize,
        cols: usize,
    ) -> Result<Matrix> {
        let invalid = |what: &str, found: String, expected: String| {
            FormatError::invalid(&self.path, format!("tensor {name}{what}"), found, expected)
        };
        let Some(info) = self.header.info(name) else {
            let names = self.names();
            let found = if names.is_empty() { "no tensors".into() } else { names.join(", ") };
            return Err(invalid(" is missing", found, format!("one of shape {shape:?}")));
        };
        if info.dtype != Dtype::F32 {
            return Err(invalid(": type", info.dtype.to_string(), Dtype::F32.to_string()));
        }
        if info.shape != shape {
            return Err(invalid(": shape", format!("{:?}", info.shape), format!("{shape:?}")));
        }
        // Rows without numbers take no room in the file, but they do in memory.
        if cols == 0 && rows > 1 {
            let expected = "at least one number per row".to_string();
            return Err(invalid(": shape", format!("{shape:?}"), expected));
        }
        let mut matrix = Matrix::zeros(rows, cols);
        let before = part.start * cols * size_of::<f32>();
        let start = self.data + (info.data_offsets.0 + before) as u64;
        let count = part.len();
        read_rows(&self.file, start, count, &mut matrix)
            .map_err(FormatError::io("read", &self.path))?;
        match elementwise::first_not_finite(matrix.view()) {
            None => Ok(matrix),
            Some((row, found)) => {
                let expected = "finite numbers: training went wrong, or the file is damaged";
                let row = part.start + row;
                Err(invalid(&format!(": row {row}"), found.to_string(), expected.into()))
            }
        }
    }
}

/// The checksum that a file with this header should have; `None` if the header is not laid out as
/// this program does it. The file is read from the end of its header.
fn checksum_of(file: &File, mut header: Vec<u8>) -> io::Result<Option<String>> {
    let Some(start) = digits_at(&header) else { return Ok(None) };
    header[start..start + NO_DIGITS.len()].copy_from_slice(NO_DIGITS.as_bytes());
    let mut hash = HashingWriter::new(io::sink());
    hash.write_all(&(header.len() as u64).to_le_bytes())?;
    hash.write_all(&header)?;
    io::copy(&mut BufReader::with_capacity(1 << 18, file), &mut hash)?;
    Ok(Some(hash.into_parts().1.xxh3))
}

fn read_rows(file: &File, start: u64, count: usize, matrix: &mut Matrix) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 18, file);
    input.seek(SeekFrom::Start(start))?;
    for row in 0..count {
        input.read_exact(bytemuck::cast_slice_mut(matrix.row_mut(row)))?;
    }
    Ok(())
}
