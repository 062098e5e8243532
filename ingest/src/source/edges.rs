//! All edge files of a job, of any format, as items of work that yield edges. This module detects
//! formats and reports positions; ids stay as they are in the file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;

use crate::error::{IngestError, Result, quoted};
use crate::source::adjacency;
use crate::source::edge_input::{EdgeFormat, EdgeInput};
use crate::source::edge_list::{self, BadLine, Key, Layout, Pushed};
use crate::source::edge_table::{self, EdgeTable, Slice};
use crate::source::matrix_market::{self, Symmetry};
use crate::source::text::{self, Block, Blocks};

/// The edge files of a job.
pub struct EdgeFiles {
    files: Vec<EdgeFile>,
    directed: bool,
    /// Whether ids are integers in all of them.
    pub integer: bool,
    /// Whether all of them have weights.
    pub weighted: bool,
    /// Ids below this number exist even without edges.
    pub min_nodes: u64,
    /// The same for sources and for targets, which may be of different types.
    pub shape: [u64; 2],
    /// Bytes on disk.
    pub bytes: u64,
    /// Guesses about the files that may be wrong, for notes to the user.
    pub guesses: Vec<String>,
}

struct EdgeFile {
    path: PathBuf,
    format: Format,
    /// Bytes on disk per byte of text, for progress.
    compression: f64,
}

enum Format {
    List {
        layout: Layout,
        /// Start of the edges in the text, after the header.
        start: u64,
    },
    MatrixMarket {
        header: matrix_market::Header,
        /// Start of the entries in the text.
        start: u64,
        /// Entries parsed so far; compared with the header at the end.
        seen: AtomicU64,
    },
    Adjacency {
        /// Number of nodes, if neighbours must be below it.
        nodes: Option<u64>,
    },
    Parquet(EdgeTable),
}

/// A piece of a file, to be parsed by one worker.
pub struct Item {
    file: usize,
    piece: Piece,
    /// Texts of cells with doubled quotes.
    unquoted: Vec<Vec<u8>>,
}

enum Piece {
    /// Whole lines, with the number of lines before them, if the format needs it.
    Text(Block, u64),
    /// Rows of a table, not read yet.
    Slice(Slice),
    /// Rows of a table.
    Rows(Slice, Vec<RecordBatch>),
}

/// How far an item was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// To its end.
    Whole,
    /// The receiver could not take its ids.
    Full,
}

impl Item {
    fn new(file: usize, piece: Piece) -> Self {
        Self { file, piece, unquoted: Vec::new() }
    }
}

/// Expands globs and sorts what they match; other paths stay as they are.
pub fn expand(words: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for word in words {
        let pattern = word.to_string_lossy();
        if word.exists() || !pattern.contains(['*', '?', '[']) {
            paths.push(word.clone());
            continue;
        }
        let found = glob::glob(&pattern)
            .map_err(|e| IngestError::file(word, format!("bad pattern: {e}")))?;
        let before = paths.len();
        for path in found {
            paths.push(path.map_err(|e| IngestError::file(word, e.to_string()))?);
        }
        if paths.len() == before {
            return Err(IngestError::file(word, "no file matches this pattern"));
        }
    }
    Ok(paths)
}

impl EdgeFiles {
    /// Opens each file and detects its format.
    ///
    /// In a `directed` graph, an entry of a symmetric matrix becomes two edges. `node_count` is the
    /// number of nodes, if the user gives it.
    pub fn open(input: &EdgeInput, directed: bool, node_count: Option<u64>) -> Result<Self> {
        Self::open_files(input, directed, Some(node_count.unwrap_or(0)))
    }

    /// The same for files whose sources and targets may be of different types, so that a matrix
    /// need not be square.
    pub fn open_pairs(input: &EdgeInput) -> Result<Self> {
        Self::open_files(input, true, None)
    }

    /// `nodes` is the minimum number of nodes, or `None` if sources and targets are of different
    /// types.
    fn open_files(input: &EdgeInput, directed: bool, nodes: Option<u64>) -> Result<Self> {
        let square = nodes.is_some();
        let (min_nodes, shape) = (0, [0; 2]);
        let mut all = Self {
            files: Vec::new(),
            directed,
            integer: true,
            weighted: false,
            min_nodes,
            shape,
            bytes: 0,
            guesses: Vec::new(),
        };
        for path in expand(&input.files)? {
            let (mut format, compression) = detect_format(&path, input)?;
            let (integer, weighted) = match &mut format {
                Format::List { layout, .. } => {
                    all.guesses.append(&mut layout.guesses);
                    (layout.integer, layout.weight.is_some())
                }
                Format::MatrixMarket { header, .. } => {
                    if square && header.rows != header.cols {
                        let (rows, cols) = (header.rows, header.cols);
                        let what = format!(
                            "a matrix of {rows} x {cols} (expected a square one as adjacency)"
                        );
                        return Err(IngestError::file(path, what));
                    }
                    if header.rows.max(header.cols) > u64::from(u32::MAX) {
                        let what = format!(
                            "a matrix of {} x {} (at most {} nodes are supported)",
                            header.rows,
                            header.cols,
                            u32::MAX
                        );
                        return Err(IngestError::file(path, what));
                    }
                    let size = header.rows.max(header.cols);
                    header.check_nodes(&path, size, nodes.unwrap_or(0))?;
                    all.shape = [all.shape[0].max(header.rows), all.shape[1].max(header.cols)];
                    (true, header.field != matrix_market::Field::Pattern && !input.unweighted)
                }
                Format::Adjacency { nodes: limit } => {
                    let lines = count_lines(&path)?;
                    *limit = nodes.map(|nodes| nodes.max(lines));
                    all.shape[0] = all.shape[0].max(lines);
                    (true, false)
                }
                Format::Parquet(table) => (table.integer, table.weighted()),
            };
            if weighted != all.weighted && !all.files.is_empty() {
                let what = if weighted {
                    "has weights, but the previous file has none"
                } else {
                    "has no weights, but the previous file has"
                };
                return Err(IngestError::file(
                    path,
                    format!("{what}: pass --unweighted to ignore weights"),
                ));
            }
            if integer != all.integer && !all.files.is_empty() {
                return Err(IngestError::file(
                    path,
                    "has ids of another type than the previous file: pass --ids string",
                ));
            }
            (all.integer, all.weighted) = (integer, weighted);
            all.bytes += std::fs::metadata(&path).map_err(IngestError::io("read", &path))?.len();
            all.files.push(EdgeFile { path, format, compression });
        }
        if all.files.is_empty() {
            return Err(IngestError::Usage("no edge files given".into()));
        }
        all.min_nodes = all.shape[0].max(all.shape[1]);
        Ok(all)
    }

    /// How the files are read, for people: one line per file, or per row of files that are read in
    /// the same way.
    pub fn read_as(&self) -> Vec<String> {
        let mut lines: Vec<(&Path, usize, String)> = Vec::new();
        for EdgeFile { path, format, .. } in &self.files {
            let words = match format {
                Format::List { layout, .. } => layout.words.clone(),
                Format::MatrixMarket { header, .. } => {
                    let pairs = match header.symmetry {
                        Symmetry::General => "general",
                        Symmetry::Symmetric => "symmetric",
                    };
                    let weight = if self.weighted { "values are weights" } else { "no weights" };
                    format!("Matrix Market, {pairs}, {weight}")
                }
                Format::Adjacency { .. } => "adjacency list, integer ids, no weights".into(),
                Format::Parquet(table) => table.words(),
            };
            match lines.last_mut() {
                Some((_, more, last)) if *last == words => *more += 1,
                _ => lines.push((path, 0, words)),
            }
        }
        let line = |(path, more, words): (&Path, usize, String)| match more {
            0 => format!("{}: {words}", path.display()),
            more => format!("{} and {more} more: {words}", path.display()),
        };
        lines.into_iter().map(line).collect()
    }

    /// The pieces of all files, in order.
    pub fn items(&self) -> impl Iterator<Item = Result<Item>> + Send + '_ {
        self.files.iter().enumerate().flat_map(|(file, EdgeFile { path, format, .. })| {
            let items: Box<dyn Iterator<Item = Result<Item>> + Send> = match format {
                Format::Parquet(table) => Box::new(
                    table.slices().map(move |slice| Ok(Item::new(file, Piece::Slice(slice)))),
                ),
                _ => match Blocks::open(path) {
                    Err(error) => Box::new(std::iter::once(Err(error))),
                    Ok(blocks) => {
                        if let Format::MatrixMarket { seen, .. } = format {
                            seen.store(0, Ordering::Relaxed);
                        }
                        let numbered = matches!(format, Format::Adjacency { .. });
                        let mut line = 0;
                        Box::new(blocks.map(move |block| {
                            let (block, first) = (block?, line);
                            if numbered {
                                line +=
                                    block.text.iter().filter(|&&byte| byte == b'\n').count() as u64;
                            }
                            Ok(Item::new(file, Piece::Text(block, first)))
                        }))
                    }
                },
            };
            items
        })
    }

    /// Decodes what cannot be parsed in place: Parquet rows, and ids with doubled quotes.
    pub fn load(&self, mut item: Item) -> Result<Item> {
        match (&item.piece, &self.files[item.file].format) {
            (Piece::Slice(slice), Format::Parquet(table)) => {
                item.piece = Piece::Rows(*slice, table.read(*slice)?);
            }
            (Piece::Text(block, _), Format::List { layout, start }) => {
                item.unquoted = edge_list::unquoted(block.after(*start).1, layout);
            }
            _ => {}
        }
        Ok(item)
    }

    /// Parses a piece that was loaded.
    pub fn parse<'a, K: IdKey<'a>>(
        &self,
        item: &'a Item,
        mut push: impl FnMut(K, K, f32) -> Pushed,
    ) -> Result<Parsed> {
        let EdgeFile { path, format, .. } = &self.files[item.file];
        let (start, done) = match (format, &item.piece) {
            (Format::List { layout, start }, Piece::Text(block, _)) => {
                let (skip, text) = block.after(*start);
                (skip, K::parse_list(text, &item.unquoted, layout, push))
            }
            (Format::MatrixMarket { header, start, seen }, Piece::Text(block, _)) => {
                let (skip, text) = block.after(*start);
                let both = self.directed && header.symmetry == Symmetry::Symmetric;
                (
                    skip,
                    parse_entries(text, header, both, seen, |s, t, w| {
                        K::integers(&mut push, s, t, w)
                    }),
                )
            }
            (Format::Adjacency { nodes }, Piece::Text(Block { text, .. }, first)) => (
                0,
                adjacency::parse(text, *first, *nodes, |s, t, w| K::integers(&mut push, s, t, w)),
            ),
            (Format::Parquet(table), Piece::Rows(_, batches)) => {
                (0, K::parse_table(table, batches, push))
            }
            _ => unreachable!(
                "pieces have the format of their file and are loaded before they are \
                               parsed"
            ),
        };
        match done {
            Ok(Pushed::Full) => Ok(Parsed::Full),
            Ok(_) => Ok(Parsed::Whole),
            Err(BadLine { at, expected, found }) => match &item.piece {
                Piece::Text(block, _) => {
                    let line = text::line_at(path, block.offset + (start + at) as u64)?;
                    Err(IngestError::line(path, line, expected, found))
                }
                Piece::Slice(slice) | Piece::Rows(slice, _) => {
                    Err(IngestError::row(path, slice.first_row + at as u64, expected, found))
                }
            },
        }
    }

    /// Checks what is only known at the end of a pass.
    pub fn finish(&self) -> Result<()> {
        for file in &self.files {
            if let Format::MatrixMarket { header, seen, .. } = &file.format {
                header.check_count(&file.path, seen.load(Ordering::Relaxed))?;
            }
        }
        Ok(())
    }

    /// The error for the first edge with an integer id of `limit` or more, which must exist. It
    /// reads the files again to find the line. `why` explains the limit.
    pub fn id_out_of_range(&self, limit: u64, why: &str) -> IngestError {
        let check = |source: u64, target: u64, _| match (source < limit, target < limit) {
            (true, true) => Pushed::Taken,
            (false, _) => Pushed::UnknownSource,
            (true, false) => Pushed::UnknownTarget,
        };
        let parse = |item| self.parse::<u64>(&self.load(item?)?, check).map(drop);
        let expected = format!("a node id below {limit}, {why}");
        match self.items().try_for_each(parse) {
            Err(IngestError::Line { path, line, found, .. }) => {
                IngestError::Line { path, line, expected, found }
            }
            Err(IngestError::Row { path, row, found, .. }) => {
                IngestError::Row { path, row, expected, found }
            }
            Err(error) => error,
            Ok(()) => IngestError::file(self.first_path(), format!("expected {expected}")),
        }
    }

    /// Approximate bytes of a piece on disk.
    pub fn item_bytes(&self, item: &Item) -> u64 {
        let bytes = match &item.piece {
            Piece::Text(block, _) => block.text.len(),
            Piece::Slice(_) => 0,
            Piece::Rows(_, batches) => batches.iter().map(RecordBatch::get_array_memory_size).sum(),
        };
        (bytes as f64 * self.files[item.file].compression) as u64
    }

    /// The first file, for messages about all of them.
    pub fn first_path(&self) -> &Path {
        &self.files[0].path
    }
}

fn count_lines(path: &Path) -> Result<u64> {
    let mut lines = 0;
    for block in Blocks::open(path)? {
        let block = block?;
        let text = &block.text;
        lines += text.iter().filter(|&&byte| byte == b'\n').count() as u64
            + u64::from(!text.ends_with(b"\n"));
    }
    Ok(lines)
}

fn parse_entries(
    text: &[u8],
    header: &matrix_market::Header,
    both: bool,
    seen: &AtomicU64,
    mut push: impl FnMut(u64, u64, f32) -> Pushed,
) -> Result<Pushed, BadLine> {
    let (mut at, mut entries) = (0, 0);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let start = at;
        at += line.len();
        let line = line.trim_ascii_end();
        let bad = |expected: String, found: String| BadLine { at: start, expected, found };
        let entry = header.parse_entry(line).map_err(|error| bad(error.expected, error.found))?;
        let Some((row, column, value)) = entry else { continue };
        entries += 1;
        let weight = edge_list::check_weight(value).map_err(|e| bad(e.into(), quoted(line)))?;
        for (row, column) in
            [(row, column), (column, row)].into_iter().take(1 + usize::from(both && row != column))
        {
            match push(row, column, weight) {
                Pushed::Taken => {}
                Pushed::Full => return Ok(Pushed::Full),
                _ => return Err(bad(edge_list::LISTED.into(), quoted(line))),
            }
        }
    }
    seen.fetch_add(entries, Ordering::Relaxed);
    Ok(Pushed::Taken)
}

/// A key and its parsers.
pub trait IdKey<'a>: Key<'a> {
    /// Parses a block of an edge list, with the texts of its cells with doubled quotes.
    fn parse_list(
        text: &'a [u8],
        unquoted: &'a [Vec<u8>],
        layout: &Layout,
        push: impl FnMut(Self, Self, f32) -> Pushed,
    ) -> Result<Pushed, BadLine>;

    /// Parses rows of a table.
    fn parse_table(
        table: &EdgeTable,
        batches: &'a [RecordBatch],
        push: impl FnMut(Self, Self, f32) -> Pushed,
    ) -> Result<Pushed, BadLine>;

    /// Passes integer ids on. Formats with only integer ids are never read with string keys.
    fn integers(
        push: &mut impl FnMut(Self, Self, f32) -> Pushed,
        source: u64,
        target: u64,
        weight: f32,
    ) -> Pushed;
}

impl<'a> IdKey<'a> for u64 {
    fn parse_list(
        text: &'a [u8],
        _unquoted: &'a [Vec<u8>],
        layout: &Layout,
        push: impl FnMut(Self, Self, f32) -> Pushed,
    ) -> Result<Pushed, BadLine> {
        edge_list::parse_integers(text, layout, push)
    }

    fn parse_table(
        table: &EdgeTable,
        batches: &'a [RecordBatch],
        push: impl FnMut(Self, Self, f32) -> Pushed,
    ) -> Result<Pushed, BadLine> {
        table.integers(batches, push)
    }

    fn integers(
        push: &mut impl FnMut(Self, Self, f32) -> Pushed,
        source: u64,
        target: u64,
        weight: f32,
    ) -> Pushed {
        push(source, target, weight)
    }
}

impl<'a> IdKey<'a> for &'a str {
    fn parse_list(
        text: &'a [u8],
        unquoted: &'a [Vec<u8>],
        layout: &Layout,
        push: impl FnMut(Self, Self, f32) -> Pushed,
    ) -> Result<Pushed, BadLine> {
        edge_list::parse(text, unquoted, layout, push)
    }

    fn parse_table(
        table: &EdgeTable,
        batches: &'a [RecordBatch],
        push: impl FnMut(Self, Self, f32) -> Pushed,
    ) -> Result<Pushed, BadLine> {
        table.strings(batches, push)
    }

    fn integers(_: &mut impl FnMut(Self, Self, f32) -> Pushed, _: u64, _: u64, _: f32) -> Pushed {
        Pushed::UnknownSource
    }
}

/// The format of a file, and its bytes on disk per byte of content.
fn detect_format(path: &Path, input: &EdgeInput) -> Result<(Format, f64)> {
    let size = std::fs::metadata(path).map_err(IngestError::io("open", path))?.len();
    let mut magic = [0u8; 4];
    let is_parquet = std::io::Read::read_exact(&mut text::open_file(path)?, &mut magic).is_ok()
        && magic == *edge_table::MAGIC;
    if is_parquet && input.format.is_none() || input.format == Some(EdgeFormat::Parquet) {
        if !is_parquet {
            return Err(IngestError::file(
                path,
                "not a Parquet file (it does not start with PAR1)",
            ));
        }
        let table = EdgeTable::open(path, input)?;
        return Ok((Format::Parquet(table), 1.0));
    }
    let mut blocks = Blocks::open(path)?;
    let head = match blocks.next() {
        Some(block) => std::mem::take(&mut block?.text),
        None => return Err(IngestError::file(path, "the file is empty (expected edges)")),
    };
    // Exact for a small file; a fixed estimate for a large one.
    let kind = text::open_stream(path)?.1;
    let compression = if kind == text::Compression::Plain {
        1.0
    } else if head.len() < text::BLOCK_BYTES / 2 {
        size as f64 / head.len().max(1) as f64
    } else {
        0.3
    };
    let format = input.format.unwrap_or_else(|| match &head {
        head if head.starts_with(matrix_market::MAGIC) => EdgeFormat::MatrixMarket,
        head if adjacency::looks_like(head) => EdgeFormat::Adjacency,
        _ => EdgeFormat::List,
    });
    let format = match format {
        EdgeFormat::List => {
            let head = first_edges(head, blocks)?;
            let layout = Layout::detect(path, &head.text, head.lines, input)?;
            let start = head.offset + layout.data_start(&head.text) as u64;
            Format::List { layout, start }
        }
        EdgeFormat::MatrixMarket => {
            let (header, start) = matrix_market::Header::open(path)?;
            if let Some(most) = kind.most_text(size) {
                header.check_length(path, most)?;
            }
            Format::MatrixMarket { header, start, seen: AtomicU64::new(0) }
        }
        EdgeFormat::Adjacency => Format::Adjacency { nodes: None },
        EdgeFormat::Parquet => unreachable!("handled above"),
    };
    Ok((format, compression))
}

/// The part of a text from which its layout is detected.
struct Head {
    text: Vec<u8>,
    /// Bytes and lines before it.
    offset: u64,
    lines: u64,
}

/// The blocks of a text without those at its start that have only comments, as far as they are
/// needed to detect the layout.
fn first_edges(text: Vec<u8>, blocks: Blocks) -> Result<Head> {
    let mut head = Head { text, offset: 0, lines: 0 };
    for block in blocks {
        let found = edge_list::sample(&head.text).take(edge_list::SAMPLE_LINES).count();
        if found == 0 {
            head.offset += head.text.len() as u64;
            head.lines += head.text.iter().filter(|&&byte| byte == b'\n').count() as u64;
            head.text.clear();
        } else if found == edge_list::SAMPLE_LINES || head.text.len() > 2 * text::BLOCK_BYTES {
            break;
        }
        head.text.append(&mut block?.text);
    }
    Ok(head)
}
