//! Records as JSON, an object a line (`metrics.jsonl`): an observer of the trainer.
//! It appends and cuts; what is in a record is for the trainer, and notes are not kept.
//!
//! A line is written in one piece as soon as its epoch is over, so that others may read along.
//! Where a run is continued, lines of epochs after the checkpoint are cut away, and so is a last
//! line that was never finished.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ignn_format::{FormatError, Result};

use crate::train::{EpochRecord, Observer};

/// Writes records.
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    file: File,
    line: Vec<u8>,
}

impl JsonLines {
    /// Begins a file, in place of an older one.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(FormatError::io("create", path))?;
        Ok(Self { path: path.into(), file, line: Vec::new() })
    }

    /// Continues a file after the records up to and including `epoch`; begins one where there is
    /// none.
    pub fn resume(path: &Path, epoch: u64) -> Result<Self> {
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).open(path);
        let mut file = opened.map_err(FormatError::io("open", path))?;
        let end = end_of(&file, path, epoch)?;
        file.set_len(end).map_err(FormatError::io("cut", path))?;
        file.seek(SeekFrom::Start(end)).map_err(FormatError::io("write", path))?;
        Ok(Self { path: path.into(), file, line: Vec::new() })
    }
}

/// Where the first line of a later epoch begins.
fn end_of(file: &File, path: &Path, last: u64) -> Result<u64> {
    let mut lines = BufReader::new(file);
    let (mut end, mut number, mut line) = (0, 0, Vec::new());
    loop {
        line.clear();
        let length = lines.read_until(b'\n', &mut line).map_err(FormatError::io("read", path))?;
        number += 1;
        if length == 0 || line.last() != Some(&b'\n') {
            return Ok(end);
        }
        let record: Option<serde_json::Value> = serde_json::from_slice(&line).ok();
        match record.and_then(|record| record["epoch"].as_u64()) {
            Some(epoch) if epoch > last => return Ok(end),
            Some(_) => end += length as u64,
            // Never cut what this program did not write.
            None => {
                let what = format!("line {number}");
                return Err(FormatError::invalid(
                    path,
                    what,
                    "something else",
                    "an object with an epoch: move the file away",
                ));
            }
        }
    }
}

impl Observer for JsonLines {
    fn epoch(&mut self, record: &EpochRecord) -> Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, record).expect("a record is plain data");
        self.line.push(b'\n');
        self.file.write_all(&self.line).map_err(FormatError::io("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::testing::record;
    use std::fs;

    fn epochs(path: &Path) -> Vec<u64> {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        let epoch = |line: &str| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["epoch"].as_u64().unwrap()
        };
        text.lines().map(epoch).collect()
    }

    #[test]
    fn a_line_is_there_as_soon_as_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut lines = JsonLines::create(&path).unwrap();
        for epoch in 1..4 {
            lines.epoch(&record(epoch)).unwrap();
            assert_eq!(epochs(&path).last(), Some(&epoch));
        }
        drop(JsonLines::create(&path).unwrap());
        assert!(epochs(&path).is_empty());
    }

    #[test]
    fn a_continued_run_cuts_what_comes_after_its_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut lines = JsonLines::resume(&path, 7).unwrap();
        for epoch in 1..6 {
            lines.epoch(&record(epoch)).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], b"{\"epoch\":6,\"lo"].concat()).unwrap();
        JsonLines::resume(&path, 5).unwrap().epoch(&record(6)).unwrap();
        assert_eq!(epochs(&path), [1, 2, 3, 4, 5, 6]);
        JsonLines::resume(&path, 3).unwrap().epoch(&record(4)).unwrap();
        assert_eq!(epochs(&path), [1, 2, 3, 4]);
        assert!(whole.starts_with(&fs::read(&path).unwrap()), "the same lines again");
        drop(JsonLines::resume(&path, 0).unwrap());
        assert!(epochs(&path).is_empty());
    }

    #[test]
    fn files_of_others_are_not_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        fs::write(&path, "{\"epoch\":1}\nmy notes\n").unwrap();
        let error = JsonLines::resume(&path, 3).unwrap_err().to_string();
        let expected = "metrics.jsonl: line 2 (found something else, expected an object with an epoch: move the file away)";
        assert!(error.ends_with(expected), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"epoch\":1}\nmy notes\n");
    }
}
