//! Paths as text, in `dataset.txt` and in JSON. A path is a sequence of any bytes except zero.
//!
//! A path that is one line of UTF-8 is written as it is. Any other one is written as a `file:` URL
//! of the absolute path, with every byte but letters, digits and `/-_.~` as `%` and two hexadecimal
//! digits. An absolute path never begins with `file:`, so the two are told apart.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serializer};

const URL: &str = "file://";

/// The text of a path.
///
/// ```
/// use std::path::Path;
/// use ignn::run::path_text;
///
/// assert_eq!(path_text::of(Path::new("data/cora.ignn")), "data/cora.ignn");
/// assert_eq!(path_text::of(Path::new("/two\nlines")), "file:///two%0Alines");
/// assert_eq!(path_text::path("file:///two%0Alines"), Path::new("/two\nlines"));
/// ```
pub fn of(path: &Path) -> Cow<'_, str> {
    if let Some(text) = path.to_str()
        && !text.contains(['\n', '\r'])
        && !text.starts_with(URL)
    {
        return text.into();
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let bytes = absolute.as_os_str().as_encoded_bytes();
    let mut url = String::with_capacity(URL.len() + 3 * bytes.len());
    url.push_str(URL);
    for &byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                url.push(char::from(byte));
            }
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url.into()
}

/// The path of a text. A text that is not a URL as [`of`] writes it is taken as the path itself.
pub fn path(text: &str) -> PathBuf {
    let decoded = text.strip_prefix(URL).and_then(decoded).and_then(from_bytes);
    decoded.unwrap_or_else(|| text.into())
}

/// The bytes of a URL's path.
fn decoded(url: &str) -> Option<Vec<u8>> {
    let mut pieces = url.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    Some(bytes)
}

#[cfg(unix)]
fn from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    Some(std::ffi::OsString::from_vec(bytes).into())
}

/// On other systems, only paths in UTF-8 are meaningful outside the process that wrote them.
#[cfg(not(unix))]
fn from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    Some(String::from_utf8(bytes).ok()?.into())
}

/// For `#[serde(with = "path_text")]`. Writes [`of`].
pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&of(path))
}

/// For `#[serde(with = "path_text")]`. Reads [`path`].
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(path(&String::deserialize(deserializer)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_programs_wrote_is_a_path() {
        for text in ["/data/a b/ü%41\\x", "relative", "C:\\data", "file://%zz", "file://a%4"] {
            assert_eq!(path(text), Path::new(text));
        }
    }

    #[cfg(unix)]
    #[test]
    fn every_path_reads_back() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;

        let all: Vec<u8> = (1..=255).collect();
        for bytes in
            [&b"/a"[..], b"/\xff\xfe", b"/a\nb\r", b"/C:\\x", b"/%41", &[b"/", &all[..]].concat()]
        {
            let original = Path::new(OsStr::from_bytes(bytes));
            let text = of(original);
            assert!(!text.contains(['\n', '\r']), "{text}");
            assert_eq!(path(&text), original, "{text}");
        }
        assert_eq!(of(Path::new("/%41")), "/%41", "as before");
        let relative = Path::new(OsStr::from_bytes(b"\xff"));
        assert_eq!(path(&of(relative)), std::path::absolute(relative).unwrap());
        let odd = Path::new("file://x");
        assert_eq!(path(&of(odd)), std::path::absolute(odd).unwrap());
    }
}
