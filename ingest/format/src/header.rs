//! The 64 bytes at the start of every array file: element type, number of elements, kind, and a
//! checksum of the header. Parquet and JSON files have no such header.
//!
//! ```text
//! byte  0..8   magic "IGNNARR\0"
//!       8..12  format version, u32
//!      12..16  element type, u32: 1 = u32, 2 = u64, 3 = f32
//!      16..24  number of elements, u64
//!      24..40  kind, ASCII, zero-padded: "offsets", "neighbours", "values", "scale"
//!      40..56  zero
//!      56..64  XXH3-64 of bytes 0..56
//! ```
//! All integers are little-endian; the elements follow at byte 64, packed.

use std::path::Path;

use crate::checksum;
use crate::error::{FormatError, Result};

/// Version of the whole dataset format, in array headers and in the manifest.
pub const VERSION: u32 = 1;
/// Length of the header, which is also the alignment of the elements in the file.
pub const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"IGNNARR\0";

/// The element types of array files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// 32-bit unsigned.
    U32 = 1,
    /// 64-bit unsigned.
    U64 = 2,
    /// 32-bit float.
    F32 = 3,
}

/// An element of an array file.
pub trait Element: bytemuck::Pod + Send + Sync {
    /// Its tag in the header.
    const TYPE: ElementType;
}
impl Element for u32 {
    const TYPE: ElementType = ElementType::U32;
}
impl Element for u64 {
    const TYPE: ElementType = ElementType::U64;
}
impl Element for f32 {
    const TYPE: ElementType = ElementType::F32;
}

fn type_name(tag: u32) -> String {
    match tag {
        1 => "u32".into(),
        2 => "u64".into(),
        3 => "f32".into(),
        other => format!("tag {other}"),
    }
}

/// The header of an array of `count` elements.
pub fn encode<T: Element>(kind: &str, count: u64) -> [u8; HEADER_BYTES] {
    assert!(kind.len() <= 16 && kind.is_ascii(), "array kind");
    let mut bytes = [0u8; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(T::TYPE as u32).to_le_bytes());
    bytes[16..24].copy_from_slice(&count.to_le_bytes());
    bytes[24..24 + kind.len()].copy_from_slice(kind.as_bytes());
    let check = checksum::of_bytes(&bytes[..56]);
    bytes[56..].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// Checks a header against what the reader expects and the length of the file; returns the number
/// of elements.
pub fn decode<T: Element>(bytes: &[u8], path: &Path, kind: &str) -> Result<u64> {
    if bytes.len() < HEADER_BYTES {
        let found = format!("{} bytes", bytes.len());
        return Err(FormatError::invalid(path, "truncated array file", found, "a 64-byte header"));
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    if bytes[..8] != MAGIC {
        let found = format!("bytes {:02x?}", &bytes[..8]);
        return Err(FormatError::invalid(path, "not an array file", found, "magic \"IGNNARR\""));
    }
    if word(8) != VERSION {
        return Err(FormatError::Version { path: path.into(), found: word(8), supported: VERSION });
    }
    if long(56) != checksum::of_bytes(&bytes[..56]) {
        return Err(FormatError::invalid(
            path,
            "damaged header",
            checksum::hex(long(56)),
            checksum::hex(checksum::of_bytes(&bytes[..56])),
        ));
    }
    if word(12) != T::TYPE as u32 {
        return Err(FormatError::invalid(
            path,
            "element type",
            type_name(word(12)),
            type_name(T::TYPE as u32),
        ));
    }
    let found_kind = String::from_utf8_lossy(&bytes[24..40]).trim_end_matches('\0').to_string();
    if found_kind != kind {
        return Err(FormatError::invalid(
            path,
            "kind of array",
            format!("{found_kind:?}"),
            format!("{kind:?}"),
        ));
    }
    let count = long(16);
    let length = count
        .checked_mul(size_of::<T>() as u64)
        .and_then(|payload| payload.checked_add(HEADER_BYTES as u64));
    if length != Some(bytes.len() as u64) {
        let found = format!("{} bytes", bytes.len());
        let expected = format!("{count} elements of {} bytes after the header", size_of::<T>());
        return Err(FormatError::invalid(path, "file length", found, expected));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T: Element>(bytes: &[u8], kind: &str) -> String {
        decode::<T>(bytes, Path::new("a"), kind).unwrap_err().to_string()
    }

    /// The header with a corrected checksum.
    fn resealed(mut header: [u8; HEADER_BYTES]) -> [u8; HEADER_BYTES] {
        let check = checksum::of_bytes(&header[..56]);
        header[56..].copy_from_slice(&check.to_le_bytes());
        header
    }

    #[test]
    fn every_damaged_byte_is_found() {
        let header = encode::<u32>("values", 0);
        assert_eq!(decode::<u32>(&header, Path::new("a"), "values").unwrap(), 0);
        for at in 0..HEADER_BYTES {
            let mut damaged = header;
            damaged[at] ^= 0x10;
            assert!(decode::<u32>(&damaged, Path::new("a"), "values").is_err(), "byte {at}");
        }
    }

    #[test]
    fn messages() {
        let header = encode::<u32>("values", 2);
        assert_eq!(
            message::<u32>(&header, "values"),
            "a: file length (found 64 bytes, expected 2 elements of 4 bytes after the header)"
        );
        let absurd = encode::<u64>("values", u64::MAX);
        assert!(message::<u64>(&absurd, "values").contains("18446744073709551615 elements"));
        // 2^61 elements of 8 bytes: the product would wrap to 0.
        let wrapping = encode::<u64>("values", 1 << 61);
        assert!(message::<u64>(&wrapping, "values").starts_with("a: file length"));
        assert_eq!(message::<f32>(&header, "values"), "a: element type (found u32, expected f32)");
        assert_eq!(
            message::<u32>(&header, "scale"),
            "a: kind of array (found \"values\", expected \"scale\")"
        );
        assert_eq!(
            message::<u32>(&header[..63], "values"),
            "a: truncated array file (found 63 bytes, expected a 64-byte header)"
        );
        let mut later = header;
        later[8] = 2;
        assert_eq!(
            message::<u32>(&later, "values"),
            "a: dataset format version 2 (this program reads up to version 1): ingest the raw files again"
        );
        let mut unknown = header;
        unknown[12] = 9;
        assert_eq!(
            message::<u32>(&resealed(unknown), "values"),
            "a: element type (found tag 9, expected u32)"
        );
        assert!(message::<u32>(&unknown, "values").starts_with("a: damaged header"));
    }
}
