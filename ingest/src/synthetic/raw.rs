//! Writes generated content as plain files for any program: edge list, features, labels, splits.
//! The published format of PPI is [`super::ppi_raw`].
//!
//! | file | format |
//! | --- | --- |
//! | `edges.tsv` or `edges.txt` | two node ids per line, separated by a tab or a space |
//! | `features.npy` | f32, one row per node |
//! | `labels.csv` | `node,label` |
//! | `splits.csv` | `node,split`, for the nodes that are in a part |

use std::io::{self, BufWriter, Write};
use std::path::Path;

use ignn_format::FormatError;
use ignn_format::labels::Labels;
use ignn_format::splits::Split;
use ignn_format::storage::{self, Kind, OutputFile};

use crate::content::{Content, Features, for_each_chunk};
use crate::context::{Context, Unit};
use crate::error::{IngestError, Result};
use crate::synthetic::npy;

/// Lists the files of a directory that [`mark`] was called for.
const MARKER: &str = ".made-by-ignn-generate";

/// Directories of raw files that this module wrote: they have its marker, and only the files that
/// the marker lists.
pub static RAW: Kind = Kind { check: check_replaceable };

fn check_replaceable(directory: &Path) -> Result<(), FormatError> {
    let marker = directory.join(MARKER);
    let is_file = marker.symlink_metadata().is_ok_and(|found| found.is_file());
    let Some(listed) = is_file.then(|| std::fs::read_to_string(&marker).ok()).flatten() else {
        return Err(storage::not_replaceable(directory, "a directory of `ignn generate --raw`"));
    };
    storage::check_contents(directory, "a directory of `ignn generate --raw`", &|path| {
        path == MARKER || listed.lines().any(|name| name == path)
    })
}

/// Marks a directory as made by this program, and lists its files. File names alone prove nothing:
/// a user's own edge list may be called `edges.txt` as well.
pub fn mark(directory: &Path) -> Result<()> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(IngestError::io("read", directory))? {
        let entry = entry.map_err(IngestError::io("read", directory))?;
        names.push(entry.file_name().to_string_lossy().into_owned() + "\n");
    }
    names.sort_unstable();
    Ok(storage::write_new(&directory.join(MARKER), names.concat().as_bytes())?)
}

/// Bytes written at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Feature rows filled at once.
const ROWS: u64 = 4096;

/// Writes one file per part of the content into a directory. `edges` is the name of the edge list;
/// with the extension `.tsv`, its separator is a tab.
pub fn write(
    content: &dyn Content,
    context: &Context,
    directory: &Path,
    edges: &str,
) -> Result<()> {
    let separator = if edges.ends_with(".tsv") { b'\t' } else { b' ' };
    write_edges(content, context, &directory.join(edges), separator)?;
    if let Some(Features::Dense { columns, fill }) = content.features() {
        let path = directory.join("features.npy");
        let shape = [content.nodes(), columns as u64];
        let mut rows = Vec::new();
        let blocks = (0..content.nodes()).step_by(ROWS as usize).flat_map(|first| {
            rows.resize((content.nodes() - first).min(ROWS) as usize * columns, 0.0f32);
            fill(first, &mut rows);
            rows.clone()
        });
        npy::write(&path, &shape, blocks)?;
    }
    if let Some(Labels::Single { classes, of }) = content.labels() {
        let rows = (0u64..)
            .zip(&of)
            .filter_map(|(node, &class)| Some((node, classes.get(usize::try_from(class).ok()?)?)));
        write_csv(&directory.join("labels.csv"), "node,label", rows)?;
    }
    if let Some(Labels::Number { name: [name], of }) = content.labels() {
        let texts: Vec<String> = of.iter().map(f64::to_string).collect();
        write_csv(&directory.join("numbers.csv"), &format!("node,{name}"), (0u64..).zip(&texts))?;
    }
    for Split { parts, of, .. } in content.splits() {
        let rows = (0u64..)
            .zip(&of)
            .filter_map(|(node, &part)| Some((node, parts.get(usize::from(part))?)));
        write_csv(&directory.join("splits.csv"), "node,split", rows)?;
    }
    Ok(())
}

/// Creates a file with buffered writes.
pub(super) fn create(path: &Path) -> Result<BufWriter<OutputFile>> {
    let file = OutputFile::create_new(path)?;
    Ok(BufWriter::with_capacity(BUFFER_BYTES, file))
}

fn write_csv<'a>(
    path: &Path,
    header: &str,
    rows: impl Iterator<Item = (u64, &'a String)>,
) -> Result<()> {
    let mut out = create(path)?;
    let write = || -> io::Result<()> {
        writeln!(out, "{header}")?;
        for (node, value) in rows {
            writeln!(out, "{node},{value}")?;
        }
        out.flush()
    };
    write().map_err(IngestError::io("write", path))
}

/// Formats lines in parallel and writes them in order, one chunk at a time.
fn write_edges(content: &dyn Content, context: &Context, path: &Path, separator: u8) -> Result<()> {
    context.observer.phase("write edges", content.edges(), Unit::Edges);
    let mut file = OutputFile::create_new(path)?;
    let lines = |edges: &[[u32; 2]]| (edges.len() as u64, format_edges(edges, separator));
    for_each_chunk(content, context.threads, lines, |(count, text)| {
        file.write_all(&text).map_err(IngestError::io("write", path))?;
        context.observer.advance(count);
        Ok(())
    })
}

/// Digits of the largest id.
const MAX_DIGITS: usize = 10;
/// Maximum bytes of a line: two ids, separator and line end.
const MAX_LINE_BYTES: usize = 2 * MAX_DIGITS + 2;

fn format_edges(edges: &[[u32; 2]], separator: u8) -> Vec<u8> {
    let mut text = vec![0; edges.len() * MAX_LINE_BYTES];
    let mut at = 0;
    for &[source, target] in edges {
        at = put(&mut text, at, source, separator);
        at = put(&mut text, at, target, b'\n');
    }
    text.truncate(at);
    text
}

/// Writes the digits of a number and one more byte; returns the end.
fn put(text: &mut [u8], at: usize, number: u32, after: u8) -> usize {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let field = &mut text[at..at + digits + 1];
    let mut rest = number;
    for digit in field[..digits].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    field[digits] = after;
    at + digits + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Recorder;
    use crate::synthetic::chains::{Chains, ChainsOptions};
    use crate::synthetic::rmat::{Rmat, RmatOptions};

    #[test]
    fn numbers_are_written_in_full() {
        let text = format_edges(&[[0, 9], [10, u32::MAX], [1_000_000_000, 999_999_999]], b' ');
        assert_eq!(String::from_utf8(text).unwrap(), "0 9\n10 4294967295\n1000000000 999999999\n");
    }

    fn context(threads: usize, recorder: &Recorder) -> Context<'_> {
        Context { threads, memory: 1 << 30, seed: 1, observer: recorder }
    }

    #[test]
    fn chains_have_all_four_files() {
        let dir = tempfile::tempdir().unwrap();
        let options = ChainsOptions {
            chains: 1,
            length: 3,
            features: 2,
            train: 1,
            val: 0,
            test: 5,
            ..Default::default()
        };
        let chains = Chains::new(&options, 1).unwrap();
        write(&chains, &context(2, &Recorder::default()), dir.path(), "edges.tsv").unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(read("edges.tsv"), "0\t1\n1\t2\n3\t4\n4\t5\n");
        assert_eq!(read("labels.csv"), "node,label\n0,0\n1,0\n2,0\n3,1\n4,1\n5,1\n");
        assert_eq!(read("splits.csv").matches("test").count(), 5);
        let npy = std::fs::read(dir.path().join("features.npy")).unwrap();
        let (header, values) = npy.split_at(128);
        let expected = "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2, ), }";
        assert_eq!(header[..10], *b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(header[10..], *format!("{expected:117}\n").as_bytes());
        let expected = [1f32, 0., 0., 0., 0., 0., 0., 1., 0., 0., 0., 0.];
        assert_eq!(*values, *expected.map(f32::to_le_bytes).as_flattened());
    }

    #[test]
    fn bytes_do_not_depend_on_threads() {
        let rmat =
            Rmat::new(&RmatOptions { scale: 20, edges: Some(700_000), ..Default::default() }, 1)
                .unwrap();
        let bytes = |threads| {
            let dir = tempfile::tempdir().unwrap();
            write(&rmat, &context(threads, &Recorder::default()), dir.path(), "edges.txt").unwrap();
            std::fs::read(dir.path().join("edges.txt")).unwrap()
        };
        let one = bytes(1);
        assert_eq!(one.iter().filter(|&&byte| byte == b'\n').count(), 700_000);
        assert!(one == bytes(4));
    }
}
