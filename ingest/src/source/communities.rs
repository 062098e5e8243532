//! SNAP community files: one community per line, the ids of its members separated by whitespace.
//! Which communities become labels is decided in [`crate::labels`].

use std::path::Path;

use crate::error::{IngestError, Result, quoted};
use crate::source::text::Lines;

/// One community.
pub struct Community<'a> {
    /// Position in the file, from 0; comments and blank lines do not count.
    pub index: u64,
    /// Its line, for messages.
    pub line: u64,
    text: &'a str,
}

impl Community<'_> {
    /// Ids of the members, as written.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.text.split_ascii_whitespace()
    }
}

/// Visits all communities of a file in order; a file without any is an error.
pub fn for_each(path: &Path, mut visit: impl FnMut(Community) -> Result<()>) -> Result<()> {
    let mut lines = Lines::open(path)?;
    let mut index = 0;
    while let Some((line, bytes)) = lines.next()? {
        if matches!(bytes.trim_ascii_start(), [] | [b'#', ..]) {
            continue;
        }
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|_| IngestError::line(path, line, "UTF-8 text", quoted(bytes)))?;
        visit(Community { index, line, text })?;
        index += 1;
    }
    if index == 0 {
        return Err(IngestError::file(
            path,
            "no communities (expected one per line: the ids of its members)",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Vec<(u64, u64, Vec<String>)>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.cmty.txt");
        std::fs::write(&path, bytes).unwrap();
        let mut all = Vec::new();
        for_each(&path, |community| {
            let members = community.members().map(String::from).collect();
            all.push((community.index, community.line, members));
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn comments_and_blank_lines_do_not_count() {
        let found = read(b"# members\r\n1\t2 3\r\n\r\n x").unwrap();
        let expected =
            [(0, 2, vec!["1".into(), "2".into(), "3".into()]), (1, 4, vec!["x".to_string()])];
        assert_eq!(found, expected);
    }

    #[test]
    fn malformed_files_have_exact_messages() {
        let message = |bytes| {
            let error = read(bytes).unwrap_err().to_string();
            error[error.find("x.cmty.txt").unwrap()..].to_string()
        };
        assert_eq!(
            message(b"# nothing\n"),
            "x.cmty.txt: no communities (expected one per line: the ids of its members)"
        );
        assert_eq!(message(b"1 2\n\xff\n"), "x.cmty.txt:2: expected UTF-8 text, found \"\\xff\"");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
