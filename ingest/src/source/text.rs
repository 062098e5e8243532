//! Text files, plain or compressed (gzip, zstd), as blocks of whole lines or line by line.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use ignn_format::regular;

use crate::error::{IngestError, Result};
use crate::pipeline::BufferPool;

/// Bytes of text per block: large enough to keep a worker busy, small enough to stay in cache.
pub const BLOCK_BYTES: usize = 2 << 20;
/// A file with a longer line is assumed not to be text.
pub const MAX_LINE_BYTES: usize = 256 << 20;

/// Some programs write it at the start of UTF-8 text; it is not part of the text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The marks at the start of UTF-16 text, which spreadsheets export.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// What is expected where a quoted cell does not end.
pub const CLOSING_QUOTE: &str =
    "a closing quote on the same line (a cell cannot continue on the next line)";
/// What is expected where something follows a quoted cell.
pub const AFTER_QUOTE: &str =
    "a separator after the closing quote (a quote inside a quoted cell is written twice)";
/// What is expected where semicolons seem to separate.
pub const SEPARATORS: &str = "columns separated by commas, tabs or blanks";

/// How a text is compressed; detected by the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not compressed.
    Plain,
    /// gzip, one or more members.
    Gzip,
    /// Zstandard, one or more frames.
    Zstd,
}

impl Compression {
    /// Bytes of text that a file of `bytes` can hold at most; `None` if there is no limit.
    pub fn most_text(self, bytes: u64) -> Option<u64> {
        match self {
            Self::Plain => Some(bytes),
            // The maximum expansion of a deflate block.
            Self::Gzip => Some(bytes.saturating_mul(1032)),
            Self::Zstd => None,
        }
    }
}

/// A reader of whole lines in blocks; iterate over it.
pub struct Blocks {
    path: PathBuf,
    compression: Compression,
    reader: Box<dyn Read + Send>,
    carry: Vec<u8>,
    offset: u64,
    ended: bool,
    spare: Arc<BufferPool<u8>>,
}

/// Whole lines; the last line of the file may lack its newline.
pub struct Block {
    /// The lines.
    pub text: Vec<u8>,
    /// Bytes of (decompressed) text before it in the file.
    pub offset: u64,
    spare: Arc<BufferPool<u8>>,
}

impl Block {
    /// The part after this offset of the file, and where it begins in the block.
    pub fn after(&self, offset: u64) -> (usize, &[u8]) {
        let skip = offset.saturating_sub(self.offset).min(self.text.len() as u64) as usize;
        (skip, &self.text[skip..])
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.spare.give(std::mem::take(&mut self.text));
    }
}

/// Opens a file that must be a readable, regular file: most formats are read more than once.
pub fn open_file(path: &Path) -> Result<File> {
    Ok(regular::open(path)?.0)
}

/// Fills the buffer as far as the input lasts; returns the number of bytes.
pub fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match reader.read(&mut buffer[got..])? {
            0 => break,
            more => got += more,
        }
    }
    Ok(got)
}

/// Opens a file, detects its compression by the first bytes, and returns the decompressed stream.
pub fn open_stream(path: &Path) -> Result<(Box<dyn Read + Send>, Compression)> {
    let mut file = open_file(path)?;
    let mut magic = [0u8; 4];
    let got = read_up_to(&mut file, &mut magic).map_err(IngestError::io("read", path))?;
    let head = io::Cursor::new(magic[..got].to_vec());
    let compression = match &magic[..got] {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd] => Compression::Zstd,
        _ => Compression::Plain,
    };
    let whole = head.chain(file);
    let reader: Box<dyn Read + Send> = match compression {
        Compression::Plain => Box::new(whole),
        Compression::Gzip => {
            Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(1 << 18, whole)))
        }
        Compression::Zstd => Box::new(
            zstd::stream::read::Decoder::new(whole).map_err(IngestError::io("read", path))?,
        ),
    };
    Ok((reader, compression))
}

impl Blocks {
    /// Opens a text file.
    pub fn open(path: &Path) -> Result<Self> {
        let (reader, compression) = open_stream(path)?;
        Ok(Self {
            path: path.into(),
            compression,
            reader,
            carry: Vec::new(),
            offset: 0,
            ended: false,
            spare: Arc::default(),
        })
    }

    fn read_block(&mut self) -> Result<Option<Block>> {
        let mut text = self.spare.take();
        text.append(&mut self.carry);
        let offset = self.offset - text.len() as u64;
        loop {
            let start = text.len();
            text.reserve(BLOCK_BYTES + 1);
            let got = (&mut self.reader).take(BLOCK_BYTES as u64).read_to_end(&mut text);
            let got = got.map_err(|error| self.read_error(error, text.len() - start))?;
            if self.offset == 0 && UTF_16.iter().any(|mark| text.starts_with(mark)) {
                return Err(IngestError::file(
                    &self.path,
                    "text in UTF-16 (expected UTF-8): \
                    convert it with `iconv -f UTF-16 -t UTF-8 FILE > NEW`, or save it as UTF-8",
                ));
            }
            if self.offset == 0 && text.starts_with(BYTE_ORDER_MARK) {
                text.drain(..BYTE_ORDER_MARK.len());
            }
            if let Some(at) = text[start..].iter().take(4096).position(|&byte| byte == 0) {
                let what = format!(
                    "byte 0 at offset {}: a binary file (expected text)",
                    self.offset + at as u64
                );
                return Err(IngestError::file(&self.path, what));
            }
            self.offset += got as u64;
            if got < BLOCK_BYTES {
                self.ended = true;
                return Ok((!text.is_empty()).then_some(Block {
                    text,
                    offset,
                    spare: self.spare.clone(),
                }));
            }
            if let Some(end) = text[start..].iter().rposition(|&byte| byte == b'\n') {
                self.carry.extend_from_slice(&text[start + end + 1..]);
                text.truncate(start + end + 1);
                return Ok(Some(Block { text, offset, spare: self.spare.clone() }));
            }
            if text.len() > MAX_LINE_BYTES {
                return Err(IngestError::file(
                    &self.path,
                    format!(
                        "a line longer than {} MiB: is this a text file?",
                        MAX_LINE_BYTES >> 20
                    ),
                ));
            }
        }
    }

    /// The error of the stream, which occurred `got` bytes into the current block.
    fn read_error(&self, error: io::Error, got: usize) -> IngestError {
        let offset = self.offset + got as u64;
        match self.compression {
            Compression::Plain => IngestError::io("read", &self.path)(error),
            compressed => {
                let name = if compressed == Compression::Gzip { "gzip" } else { "zstd" };
                let what = match error.kind() {
                    io::ErrorKind::UnexpectedEof => {
                        format!("truncated {name} file: it ends after {offset} bytes of text")
                    }
                    _ => format!("damaged {name} file after {offset} bytes of text: {error}"),
                };
                IngestError::file(&self.path, what)
            }
        }
    }
}

impl Iterator for Blocks {
    type Item = Result<Block>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let block = self.read_block();
        self.ended |= block.is_err();
        block.transpose()
    }
}

/// The number, from 1, of the line that starts at this offset of the (decompressed) text.
pub fn line_at(path: &Path, offset: u64) -> Result<u64> {
    let mut line = 1;
    for block in Blocks::open(path)? {
        let block = block?;
        let before = offset.saturating_sub(block.offset).min(block.text.len() as u64) as usize;
        line += block.text[..before].iter().filter(|&&byte| byte == b'\n').count() as u64;
        if before < block.text.len() {
            break;
        }
    }
    Ok(line)
}

/// A file line by line, for files that need no parallel parsing.
pub struct Lines {
    blocks: Blocks,
    block: Vec<u8>,
    /// Bytes of text before the block.
    before: u64,
    at: usize,
    line: u64,
}

impl Lines {
    /// Opens a text file.
    pub fn open(path: &Path) -> Result<Self> {
        let blocks = Blocks::open(path)?;
        Ok(Self { blocks, block: Vec::new(), before: 0, at: 0, line: 0 })
    }

    /// The next line without its end (`\n` or `\r\n`), and its number from 1.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        if self.at == self.block.len() {
            match self.blocks.next().transpose()? {
                Some(mut block) => {
                    (self.block, self.at) = (std::mem::take(&mut block.text), 0);
                    self.before = block.offset;
                }
                None => return Ok(None),
            }
        }
        let rest = &self.block[self.at..];
        let (mut line, used) = match rest.iter().position(|&byte| byte == b'\n') {
            Some(end) => (&rest[..end], end + 1),
            None => (rest, rest.len()),
        };
        if let [head @ .., b'\r'] = line {
            line = head;
        }
        self.at += used;
        self.line += 1;
        Ok(Some((self.line, line)))
    }

    /// Bytes of (decompressed) text before the next line.
    pub fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.blocks.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines(bytes: &[u8]) -> Result<Vec<(u64, Vec<u8>)>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, bytes).unwrap();
        let mut lines = Lines::open(&path)?;
        let mut all = Vec::new();
        while let Some((number, line)) = lines.next()? {
            all.push((number, line.to_vec()));
        }
        Ok(all)
    }

    #[test]
    fn line_ends_and_missing_final_newline() {
        let expected = vec![(1, b"a b".to_vec()), (2, b"".to_vec()), (3, b"c".to_vec())];
        assert_eq!(lines(b"a b\r\n\r\nc").unwrap(), expected);
        assert_eq!(lines(b"").unwrap(), vec![]);
        assert_eq!(lines(b"\xef\xbb\xbfa b\n\nc").unwrap(), expected, "a byte order mark");
        assert_eq!(lines(b"\xef\xbb\xbf").unwrap(), vec![]);
    }

    #[test]
    fn utf_16_is_refused_with_what_to_do() {
        for text in [&b"\xff\xfea\0,\0b\0\n\0"[..], b"\xfe\xff\0a\0,\0b\0\n"] {
            let error = lines(text).unwrap_err().to_string();
            let end = "text in UTF-16 (expected UTF-8): convert it with `iconv -f UTF-16 -t UTF-8 FILE \
                       > NEW`, or save it as UTF-8";
            assert!(error.ends_with(end), "{error}");
        }
    }

    #[test]
    fn compression_is_detected_and_truncation_is_reported() {
        let text: Vec<u8> =
            (0..500_000).flat_map(|i| format!("{i} {}\n", i * 7).into_bytes()).collect();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&text).unwrap();
        let gz = gz.finish().unwrap();
        let zst = zstd::encode_all(&text[..], 1).unwrap();
        assert_eq!(lines(&gz).unwrap().len(), 500_000);
        assert_eq!(lines(&zst).unwrap()[499_999], (500_000, b"499999 3499993".to_vec()));
        let error = lines(&gz[..gz.len() / 2]).unwrap_err().to_string();
        assert!(error.contains("truncated gzip file"), "{error}");
        assert!(lines(&zst[..zst.len() / 2]).is_err());
        assert!(lines(b"a\0b").unwrap_err().to_string().contains("binary file"));
    }
}
