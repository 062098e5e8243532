//! Members of a zip archive, stored or deflated, as NumPy writes them (Zip64 too). Encrypted
//! archives, archives in several parts and other compressions are rejected.
//!
//! The directory at the end of the file says where members are and how long. Its claims are checked
//! against the length of the file; sizes and checksums are verified while a member is read. The
//! format is described in PKWARE's APPNOTE.TXT, whose sections are cited.

use std::fs::File;
use std::io::{self, Read, Take};
use std::os::unix::fs::FileExt;

use flate2::Crc;
use flate2::read::DeflateDecoder;

/// Bytes of the end record without its comment (4.3.16), and of the longest comment.
const END_BYTES: usize = 22;
const MAX_COMMENT_BYTES: u64 = u16::MAX as u64;
/// Largest directory that is read: enough for a hundred thousand members.
const MAX_DIRECTORY_BYTES: u64 = 16 << 20;
/// Maximum expansion of a deflate block.
const MAX_EXPANSION: u64 = 1032;
/// These values of a 16-bit and a 32-bit field mean that the number is in a Zip64 record.
const IN_ZIP64: (u64, u64) = (u16::MAX as u64, u32::MAX as u64);

/// An open archive.
#[derive(Debug)]
pub struct Zip {
    file: File,
    members: Vec<Member>,
}

/// A member, as the directory describes it.
#[derive(Clone, Debug)]
struct Member {
    name: String,
    encrypted: bool,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    /// Where its local header starts.
    start: u64,
}

impl Zip {
    /// Reads the directory of an archive.
    pub fn open(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let (directory, count) = find_directory(&file, length)?;
        let mut fields = Fields(&directory);
        let members = (0..count)
            .map(|_| Member::parse(&mut fields)?.within(length))
            .collect::<io::Result<_>>()?;
        Ok(Self { file, members })
    }

    /// Names of the members, in the order of the directory.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }

    /// The size of a member, as the directory says; reading fails if it is wrong.
    pub fn size(&self, name: &str) -> Option<u64> {
        self.members.iter().find(|member| member.name == name).map(|member| member.size)
    }

    /// The content of a member. Reading fails at its end if the size or checksum is wrong.
    pub fn member(&self, name: &str) -> io::Result<impl Read + use<'_>> {
        let member = self.members.iter().find(|member| member.name == name);
        let member =
            member.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such member"))?;
        if member.encrypted {
            return Err(invalid("it is encrypted"));
        }
        let mut header = [0; 30];
        self.file.read_exact_at(&mut header, member.start)?;
        let mut fields = Fields(&header);
        if fields.number(4)? != 0x0403_4b50 {
            return Err(invalid("no header where the directory says"));
        }
        // The name and extra fields may be longer here than in the directory (4.3.7).
        fields.skip(22)?;
        let data = member.start + 30 + fields.number(2)? + fields.number(2)?;
        let packed = FileAt { file: &self.file, at: data }.take(member.packed);
        let content = match member.method {
            0 => Content::Stored(packed),
            8 => Content::Deflated(DeflateDecoder::new(packed)),
            other => {
                return Err(invalid(format!(
                    "compression method {other} (expected 0, stored, or 8, deflated)"
                )));
            }
        };
        Ok(Verified { content, crc: Crc::new(), left: member.size, expected: member.crc })
    }
}

impl Member {
    /// The next entry of the directory (4.3.12).
    fn parse(fields: &mut Fields) -> io::Result<Self> {
        if fields.number(4)? != 0x0201_4b50 {
            return Err(invalid("a damaged directory"));
        }
        fields.skip(4)?;
        let encrypted = fields.number(2)? & 1 == 1;
        let method = fields.number(2)? as u16;
        fields.skip(4)?;
        let crc = fields.number(4)? as u32;
        let (mut packed, mut size) = (fields.number(4)?, fields.number(4)?);
        let [name, extra, comment] = [fields.number(2)?, fields.number(2)?, fields.number(2)?];
        fields.skip(8)?;
        let mut start = fields.number(4)?;
        let name = String::from_utf8_lossy(fields.take(name)?).into_owned();
        let mut extra = Fields(fields.take(extra)?);
        fields.skip(comment)?;
        while extra.0.len() >= 4 {
            let (kind, length) = (extra.number(2)?, extra.number(2)?);
            let mut field = Fields(extra.take(length)?);
            if kind == 1 {
                // This field only has the values that do not fit in their usual places (4.5.3).
                for value in [&mut size, &mut packed, &mut start] {
                    if *value == IN_ZIP64.1 {
                        *value = field.number(8)?;
                    }
                }
            }
        }
        // No sum with the length of a header overflows.
        if start.max(packed) > i64::MAX as u64 {
            return Err(invalid("a member beyond 2^63 bytes"));
        }
        Ok(Self { name, encrypted, method, crc, packed, size, start })
    }
}

impl Member {
    /// The member, if it can be in a file of this length.
    fn within(self, length: u64) -> io::Result<Self> {
        let Self { packed, size, .. } = self;
        if self.start.saturating_add(packed) > length {
            return Err(invalid("a member outside of the file"));
        }
        if size > packed.saturating_mul(MAX_EXPANSION) {
            return Err(invalid(format!("a member of {size} bytes, packed in {packed}")));
        }
        Ok(self)
    }
}

/// The bytes of the directory and the number of its entries, by the records at the end of the file.
fn find_directory(file: &File, length: u64) -> io::Result<(Vec<u8>, u64)> {
    let tail_start = length.saturating_sub(END_BYTES as u64 + MAX_COMMENT_BYTES);
    let tail = read_range(file, tail_start, length)?;
    let end = (0..=tail.len().saturating_sub(END_BYTES))
        .rev()
        .find(|&at| tail[at..].starts_with(b"PK\x05\x06"))
        .ok_or_else(|| invalid("no directory at its end: truncated, or not a zip archive"))?;
    let mut fields = Fields(&tail[end..]);
    fields.skip(4)?;
    if fields.number(4)? != 0 {
        return Err(invalid("an archive in several parts"));
    }
    fields.skip(2)?;
    let (mut count, mut bytes, mut start) =
        (fields.number(2)?, fields.number(4)?, fields.number(4)?);
    if count == IN_ZIP64.0 || bytes == IN_ZIP64.1 || start == IN_ZIP64.1 {
        // The locator is in front of the end record (4.3.15) and points to another one (4.3.14).
        let end = tail_start + end as u64;
        let locator = read_range(file, end.saturating_sub(20), end)?;
        if !locator.starts_with(b"PK\x06\x07") {
            return Err(invalid("no Zip64 record"));
        }
        let mut fields = Fields(&locator);
        fields.skip(8)?;
        let record = fields.number(8)?;
        let record = read_range(file, record, record.saturating_add(56))?;
        if !record.starts_with(b"PK\x06\x06") {
            return Err(invalid("no Zip64 record"));
        }
        let mut fields = Fields(&record[32..]);
        (count, bytes, start) = (fields.number(8)?, fields.number(8)?, fields.number(8)?);
    }
    if bytes > MAX_DIRECTORY_BYTES.min(length) {
        return Err(invalid(format!("a directory of {bytes} bytes")));
    }
    Ok((read_range(file, start, start.saturating_add(bytes))?, count))
}

/// Bytes of the file; the range must be within it.
fn read_range(file: &File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (end - start) as usize];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// A cursor over little-endian fields.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: u64) -> io::Result<&'a [u8]> {
        let split = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
        let (field, rest) = split.ok_or_else(|| invalid("a truncated record"))?;
        self.0 = rest;
        Ok(field)
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        self.take(length).map(drop)
    }

    fn number(&mut self, length: u64) -> io::Result<u64> {
        Ok(self.take(length)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }
}

/// Reads a file from a position, independently of other readers.
struct FileAt<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FileAt<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(out, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

enum Content<'a> {
    Stored(Take<FileAt<'a>>),
    Deflated(DeflateDecoder<Take<FileAt<'a>>>),
}

/// Checks size and checksum at the end.
struct Verified<'a> {
    content: Content<'a>,
    crc: Crc,
    left: u64,
    expected: u32,
}

impl Read for Verified<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.content {
            Content::Stored(content) => content.read(out)?,
            Content::Deflated(content) => content.read(out)?,
        };
        self.crc.update(&out[..count]);
        let left = self.left.checked_sub(count as u64);
        self.left = left.ok_or_else(|| invalid("more bytes than its directory says"))?;
        if count == 0 && !out.is_empty() {
            if self.left > 0 {
                return Err(invalid(format!("it is {} bytes short", self.left)));
            }
            if self.crc.sum() != self.expected {
                return Err(invalid("wrong checksum"));
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    /// How an archive is written.
    #[derive(Clone, Copy, Default)]
    pub(crate) struct Style {
        pub deflated: bool,
        pub zip64: bool,
    }

    /// The bytes of an archive with these members.
    pub(crate) fn zip(members: &[(&str, &[u8])], style: Style) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Vec::new());
        for (name, content) in members {
            let mut crc = Crc::new();
            crc.update(content);
            let packed = if style.deflated {
                let mut encoder =
                    flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            } else {
                content.to_vec()
            };
            let start = bytes.len() as u64;
            let [size, packed_size] = [content.len() as u64, packed.len() as u64];
            let mut extra = Vec::new();
            if style.zip64 {
                extra.extend([1, 0, 24, 0]);
                extra.extend([size, packed_size, start].map(u64::to_le_bytes).as_flattened());
            }
            let field = |value: u64| if style.zip64 { u32::MAX } else { value as u32 };
            let mut common = Vec::new();
            common.extend([20, 0, 0, 0, if style.deflated { 8 } else { 0 }, 0, 0, 0, 0, 0]);
            common.extend(crc.sum().to_le_bytes());
            common.extend(field(packed_size).to_le_bytes());
            common.extend(field(size).to_le_bytes());
            common.extend((name.len() as u16).to_le_bytes());
            common.extend((extra.len() as u16).to_le_bytes());
            bytes.extend(b"PK\x03\x04");
            bytes.extend(&common);
            bytes.extend(name.as_bytes());
            bytes.extend(&extra);
            bytes.extend(packed);
            directory.extend(b"PK\x01\x02\x14\x00");
            directory.extend(&common);
            directory.extend([0; 10]);
            directory.extend(field(start).to_le_bytes());
            directory.extend(name.as_bytes());
            directory.extend(&extra);
        }
        let [start, length] = [bytes.len() as u64, directory.len() as u64];
        let count = members.len() as u64;
        bytes.extend(directory);
        let end = bytes.len() as u64;
        if style.zip64 {
            bytes.extend(b"PK\x06\x06");
            bytes.extend([44, 0, 0, 0, 0, 0, 0, 0, 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            bytes.extend([count, count, length, start].map(u64::to_le_bytes).as_flattened());
            bytes.extend(b"PK\x06\x07\0\0\0\0");
            bytes.extend(end.to_le_bytes());
            bytes.extend([1, 0, 0, 0]);
        }
        bytes.extend(b"PK\x05\x06\0\0\0\0");
        let count = if style.zip64 { u16::MAX } else { count as u16 };
        bytes.extend([count, count].map(u16::to_le_bytes).as_flattened());
        let field = |value: u64| if style.zip64 { u32::MAX } else { value as u32 };
        bytes.extend([length, start].map(|value| field(value).to_le_bytes()).as_flattened());
        bytes.extend([0; 2]);
        bytes
    }

    fn open(bytes: &[u8]) -> io::Result<Zip> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Zip::open(file)
    }

    fn read(bytes: &[u8], name: &str) -> Result<Vec<u8>, String> {
        let mut content = Vec::new();
        let zip = open(bytes).map_err(|error| error.to_string())?;
        let mut member = zip.member(name).map_err(|error| error.to_string())?;
        member.read_to_end(&mut content).map_err(|error| error.to_string())?;
        Ok(content)
    }

    #[test]
    fn members_come_back_in_every_style() {
        let long = b"0123456789".repeat(10_000);
        let members = [("a.npy", &b"first"[..]), ("empty", b""), ("b/c.npy", &long)];
        for (deflated, zip64) in [(false, false), (true, false), (false, true), (true, true)] {
            let bytes = zip(&members, Style { deflated, zip64 });
            assert_eq!(bytes.len() < long.len(), deflated);
            let names: Vec<String> = open(&bytes).unwrap().names().map(String::from).collect();
            assert_eq!(names, ["a.npy", "empty", "b/c.npy"]);
            for (name, content) in members {
                assert_eq!(read(&bytes, name).unwrap(), content);
            }
            let commented = [&bytes[..bytes.len() - 2], b"\x07\0comment"].concat();
            assert_eq!(read(&commented, "a.npy").unwrap(), b"first");
        }
    }

    #[test]
    fn damage_is_found() {
        let sound = zip(&[("a", b"content of a")], Style::default());
        let changed = |at: usize, byte: u8| {
            let mut bytes = sound.clone();
            bytes[at] = byte;
            read(&bytes, "a").unwrap_err()
        };
        let directory = 30 + 1 + 12;
        assert_eq!(changed(31, b'C'), "wrong checksum");
        assert_eq!(changed(0, b'Q'), "no header where the directory says");
        assert_eq!(changed(directory, b'Q'), "a damaged directory");
        assert_eq!(changed(directory + 8, 1), "it is encrypted");
        assert_eq!(
            changed(directory + 10, 12),
            "compression method 12 (expected 0, stored, or 8, deflated)"
        );
        assert_eq!(changed(directory + 20, 11), "it is 1 bytes short");
        assert_eq!(changed(directory + 24, 11), "more bytes than its directory says");
        assert_eq!(changed(directory + 30, 200), "a truncated record");
        assert_eq!(changed(directory + 47 + 4, 1), "an archive in several parts");
        assert_eq!(read(&sound, "b").unwrap_err(), "no such member");
        assert_eq!(
            read(&sound[..sound.len() - 1], "a").unwrap_err(),
            "no directory at its end: truncated, or not a zip archive"
        );
    }
}
