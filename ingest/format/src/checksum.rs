//! XXH3-64 of the bytes of a file, computed while they are written and again by `ignn check`; and of
//! JSON objects that carry their own checksum. It detects damage; it does not protect against
//! deliberate changes.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use crate::error::{FormatError, Result};
use crate::regular;

/// Size and checksum of one file, as in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Length of the whole file.
    pub bytes: u64,
    /// XXH3-64 in sixteen hexadecimal digits; for array files, of the bytes after the header.
    pub xxh3: String,
}

/// Written files, for the manifest.
pub type WrittenFiles = Vec<(PathBuf, FileEntry)>;

/// The checksum of a slice.
pub fn of_bytes(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The checksum as in the manifest.
pub fn hex(digest: u64) -> String {
    format!("{digest:016x}")
}

/// The last field of a sealed object, and the text before and after its sixteen digits.
pub(crate) const SEAL: &str = "xxh3";
const SEAL_BEFORE: &str = ",\n  \"xxh3\": \"";
const SEAL_AFTER: &str = "\"\n}\n";

/// A JSON object, pretty-printed, with one more field at its end: `xxh3`, the checksum of all bytes
/// before the comma that precedes it.
///
/// # Panics
/// If the value is not an object with fields.
pub fn sealed(object: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(object).expect("plain data");
    let body = text.strip_suffix("\n}").expect("an object with fields").len();
    text.truncate(body);
    let digest = hex(of_bytes(text.as_bytes()));
    text + SEAL_BEFORE + &digest + SEAL_AFTER
}

/// The checksum that a sealed object has, and the one that it should have; `None` if there is none
/// at its end.
pub fn seal_of(text: &[u8]) -> Option<[String; 2]> {
    const DIGITS: usize = 16;
    let rest = text.strip_suffix(SEAL_AFTER.as_bytes())?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    let body = rest.strip_suffix(SEAL_BEFORE.as_bytes())?;
    Some([std::str::from_utf8(digits).ok()?.into(), hex(of_bytes(body))])
}

/// A writer that counts and hashes the bytes written.
pub struct HashingWriter<W> {
    inner: W,
    hash: Xxh3Default,
    bytes: u64,
}

impl<W: Write> HashingWriter<W> {
    /// Wraps a writer.
    pub fn new(inner: W) -> Self {
        Self { inner, hash: Xxh3Default::new(), bytes: 0 }
    }

    /// The wrapped writer, and the size and checksum of everything written.
    pub fn into_parts(self) -> (W, FileEntry) {
        let entry = FileEntry { bytes: self.bytes, xxh3: hex(self.hash.digest()) };
        (self.inner, entry)
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buf)?;
        self.hash.update(&buf[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Size of a file and checksum of its bytes after the first `skip`, read in pieces.
pub fn of_file(path: &Path, skip: u64) -> Result<FileEntry> {
    of_file_observed(path, skip, &mut |_| {})
}

/// Like [`of_file`]; `observe` receives the number of bytes of each piece.
pub fn of_file_observed(path: &Path, skip: u64, observe: &mut dyn FnMut(u64)) -> Result<FileEntry> {
    let (mut file, _) = regular::open(path)?;
    of_reader(&mut file, path, skip, observe)
}

/// The same for an open file; `path` is for messages.
pub(crate) fn of_reader(
    file: &mut impl Read,
    path: &Path,
    skip: u64,
    observe: &mut dyn FnMut(u64),
) -> Result<FileEntry> {
    const PIECE: usize = 1 << 20;
    let mut hash = Xxh3Default::new();
    let mut buffer = vec![0u8; PIECE];
    let (mut bytes, mut skip) = (0u64, skip as usize);
    loop {
        let got = match file.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other.map_err(FormatError::io("read", path))?,
        };
        if got == 0 {
            return Ok(FileEntry { bytes, xxh3: hex(hash.digest()) });
        }
        bytes += got as u64;
        observe(got as u64);
        let start = skip.min(got);
        skip -= start;
        hash.update(&buffer[start..got]);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_change_of_a_sealed_object_shows() {
        let text = sealed(&serde_json::json!({"fold": 3, "test": 0.5}));
        let [found, expected] = seal_of(text.as_bytes()).unwrap();
        assert_eq!(found, expected);
        let [found, expected] = seal_of(text.replace("0.5", "0.6").as_bytes()).unwrap();
        assert_ne!(found, expected);
        for other in ["", "{}\n", "\"\n}\n", &text[..text.len() - 1]] {
            assert_eq!(seal_of(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn written_and_read_back_agree() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7) as u8).collect();
        let mut writer = HashingWriter::new(File::create(&path).unwrap());
        writer.write_all(&bytes).unwrap();
        let (_, entry) = writer.into_parts();
        assert_eq!(entry, of_file(&path, 0).unwrap());
        assert_eq!(entry.bytes, 3_000_000);
        assert_eq!(of_file(&path, 64).unwrap().xxh3, hex(of_bytes(&bytes[64..])));
    }
}
