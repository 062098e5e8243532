//! Opens files that this program reads back: regular files only, small ones whole and only up to a
//! stated size. A pipe would wait forever, a device might never end, and a directory has no bytes.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::error::{FormatError, Result};

/// Opens a file for reading and returns it with its length. Anything but a regular file is refused
/// before it is opened; links are followed.
pub fn open(path: &Path) -> Result<(File, u64)> {
    // Opening a pipe without a writer would not return.
    let kind = fs::metadata(path).map_err(FormatError::io("open", path))?;
    let is_file = |metadata: &fs::Metadata| match metadata.is_file() {
        true => Ok(()),
        false => {
            let found = if metadata.is_dir() { "a directory" } else { "a pipe or device" };
            Err(FormatError::invalid(path, "not a regular file", found, "a file"))
        }
    };
    is_file(&kind)?;
    let file = File::open(path).map_err(FormatError::io("open", path))?;
    let metadata = file.metadata().map_err(FormatError::io("read", path))?;
    is_file(&metadata)?;
    Ok((file, metadata.len()))
}

/// Reads a whole file of at most `most` bytes.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let (file, length) = open(path)?;
    let too_long = |found: u64| {
        let (found, expected) = (format!("{found} bytes"), format!("at most {most}"));
        FormatError::invalid(path, "file too large", found, expected)
    };
    if length > most {
        return Err(too_long(length));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    // The file may grow while it is read: the limit holds for what is read as well.
    file.take(most + 1).read_to_end(&mut bytes).map_err(FormatError::io("read", path))?;
    if bytes.len() as u64 > most {
        return Err(too_long(bytes.len() as u64));
    }
    Ok(bytes)
}

/// The same as text, which must be UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    String::from_utf8(read(path, most)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        FormatError::invalid(path, "damaged text", format!("byte {at} is not UTF-8"), "UTF-8 text")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_up_to_the_limit_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "four").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "four");
        let message =
            |error: FormatError| error.to_string().replace(&path.display().to_string(), "f");
        assert_eq!(
            message(read(&path, 3).unwrap_err()),
            "f: file too large (found 4 bytes, expected at most 3)"
        );
        fs::write(&path, b"ab\xff").unwrap();
        assert_eq!(
            message(read_text(&path, 9).unwrap_err()),
            "f: damaged text (found byte 2 is not UTF-8, expected UTF-8 text)"
        );
        let error = open(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("not a regular file (found a directory, expected a file)"));
        #[cfg(target_os = "linux")]
        assert!(read(Path::new("/dev/zero"), 9).unwrap_err().to_string().contains("a pipe or"));
    }
}
