//! All edge files of a job, whatever their forms, as items of work that yield edges.
//! It recognises forms and reports positions; ids stay what they are in the file.

use std::path::{Path, PathBuf};

use crate::command::edges::{EdgeForm, IngestEdges};
use crate::error::{IngestError, Result};
use crate::source::edge_list::{self, BadLine, Key, Layout, Pushed};
use crate::source::text::{self, Block, Blocks};

/// The edge files of a job.
pub struct EdgeFiles {
    files: Vec<EdgeFile>,
    /// Ids are integers in all of them.
    pub integer: bool,
    /// Some have weights.
    pub weighted: bool,
    /// Ids below this exist, with edges or without.
    pub least_nodes: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

struct EdgeFile {
    path: PathBuf,
    form: Form,
}

enum Form {
    List(Layout),
}

/// A piece of a file, to be parsed by one worker.
pub struct Item {
    file: usize,
    block: Block,
}

/// How far an item was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// To its end.
    Whole,
    /// The receiver could not take its ids.
    Full,
}

/// The files that the user's words name: globs expanded and sorted, plain paths as they are.
pub fn expand(words: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for word in words {
        let pattern = word.to_string_lossy();
        if word.exists() || !pattern.contains(['*', '?', '[']) {
            paths.push(word.clone());
            continue;
        }
        let found = glob::glob(&pattern).map_err(|e| IngestError::file(word, format!("bad pattern: {e}")))?;
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
    /// Opens each file and recognises its form.
    pub fn open(wishes: &IngestEdges) -> Result<Self> {
        let mut all = Self { files: Vec::new(), integer: true, weighted: false, least_nodes: 0, bytes: 0 };
        let mut unweighted = None;
        for path in expand(&wishes.files)? {
            let form = recognise(&path, wishes)?;
            let (integer, weighted) = match &form {
                Form::List(layout) => (layout.integer, layout.weight.is_some()),
            };
            all.integer &= integer;
            if weighted != all.weighted && !all.files.is_empty() {
                let other = if weighted { unweighted.unwrap_or(path) } else { path };
                let what = "has no weights, but another of the edge files has: pass --unweighted to ignore them";
                return Err(IngestError::file(other, what));
            }
            all.weighted = weighted;
            if !weighted {
                unweighted = Some(path.clone());
            }
            all.bytes += std::fs::metadata(&path).map_err(IngestError::io("read", &path))?.len();
            all.files.push(EdgeFile { path, form });
        }
        if all.files.is_empty() {
            return Err(IngestError::Usage("no edge files given".into()));
        }
        Ok(all)
    }

    /// The pieces of all files, in order.
    pub fn items(&self) -> impl Iterator<Item = Result<Item>> + Send + '_ {
        self.files.iter().enumerate().flat_map(|(file, EdgeFile { path, .. })| {
            let (blocks, failed) = match Blocks::open(path) {
                Ok(blocks) => (Some(blocks), None),
                Err(error) => (None, Some(Err(error))),
            };
            let blocks = blocks.into_iter().flatten();
            failed.into_iter().chain(blocks.map(move |block| Ok(Item { file, block: block? })))
        })
    }

    /// Parses a piece.
    pub fn parse<'a, K: IdKey<'a>>(&self, item: &'a Item, push: impl FnMut(K, K, f32) -> Pushed) -> Result<Parsed> {
        let EdgeFile { path, form } = &self.files[item.file];
        let Block { text, offset } = &item.block;
        let (start, done) = match form {
            Form::List(layout) => {
                let start = if *offset == 0 { layout.data_start(text) } else { 0 };
                (start, K::parse_list(&text[start..], layout, push))
            }
        };
        match done {
            Ok(Pushed::Full) => Ok(Parsed::Full),
            Ok(_) => Ok(Parsed::Whole),
            Err(BadLine { at, expected, found }) => {
                let line = text::line_at(path, offset + (start + at) as u64)?;
                Err(IngestError::line(path, line, expected, found))
            }
        }
    }

    /// Bytes of text in a piece.
    pub fn item_bytes(item: &Item) -> u64 {
        item.block.text.len() as u64
    }

    /// The first file, for messages about all of them.
    pub fn first_path(&self) -> &Path {
        &self.files[0].path
    }
}

/// A key with the fastest list parser that it has.
pub trait IdKey<'a>: Key<'a> {
    /// Parses a block of an edge list.
    fn parse_list(
        text: &'a [u8],
        layout: &Layout,
        push: impl FnMut(Self, Self, f32) -> Pushed,
    ) -> Result<Pushed, BadLine>;
}

impl<'a> IdKey<'a> for u64 {
    fn parse_list(
        text: &'a [u8],
        layout: &Layout,
        push: impl FnMut(Self, Self, f32) -> Pushed,
    ) -> Result<Pushed, BadLine> {
        edge_list::parse_integers(text, layout, push)
    }
}

impl<'a> IdKey<'a> for &'a str {
    fn parse_list(
        text: &'a [u8],
        layout: &Layout,
        push: impl FnMut(Self, Self, f32) -> Pushed,
    ) -> Result<Pushed, BadLine> {
        edge_list::parse(text, layout, push)
    }
}

fn recognise(path: &Path, wishes: &IngestEdges) -> Result<Form> {
    let head = match Blocks::open(path)?.next() {
        Some(block) => block?.text,
        None => return Err(IngestError::file(path, "the file is empty (expected edges)")),
    };
    let form = wishes.form.unwrap_or(EdgeForm::List);
    match form {
        EdgeForm::List => Ok(Form::List(Layout::detect(path, &head, wishes)?)),
        _ => Err(IngestError::Usage("not yet".into())),
    }
}
