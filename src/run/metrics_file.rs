//! `metrics.jsonl`: one [`EpochRecord`] as JSON per line. An observer writes it, [`read`] reads it
//! back as the same types.
//!
//! A line is written in one piece as soon as its epoch is over, so that other programs can follow a
//! run. When a run is resumed, lines of epochs after the checkpoint are cut away, and so is a last
//! line that was never finished. Those of the checkpoint were synced before it; a power cut can
//! damage any line after them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use ignn_format::storage::{OutputFile, SyncHandle};
use ignn_format::{FormatError, Result, regular};
use serde::Deserialize;

use crate::train::{EpochRecord, Observer};

/// Largest file that is read back: some millions of epochs.
const MOST_BYTES: u64 = 4 << 30;

/// Writes one line per epoch.
#[derive(Debug)]
pub struct MetricsWriter {
    file: OutputFile,
    line: Vec<u8>,
}

/// The part of a line that decides whether it is kept.
#[derive(Deserialize)]
struct LineEpoch {
    epoch: u64,
}

impl MetricsWriter {
    /// Starts a file, in place of an older one.
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { file: OutputFile::create_again(path)?, line: Vec::new() })
    }

    /// Continues a file after the records up to and including `epoch`; starts one if there is none.
    pub fn resume(path: &Path, epoch: u64) -> Result<Self> {
        let mut file = OutputFile::resume(path)?;
        let end = end_of(&mut file, path, epoch)?;
        file.cut(end)?;
        Ok(Self { file, line: Vec::new() })
    }

    /// To make the records of a checkpoint durable before it.
    pub fn sync_handle(&self) -> Result<SyncHandle> {
        self.file.sync_handle()
    }
}

/// The offset at which the first line of a later epoch begins.
fn end_of(file: &mut OutputFile, path: &Path, last: u64) -> Result<u64> {
    let mut lines = BufReader::new(file);
    let (mut end, mut number, mut seen, mut line) = (0, 0, 0, Vec::new());
    loop {
        line.clear();
        let length = lines.read_until(b'\n', &mut line).map_err(FormatError::io("read", path))?;
        number += 1;
        if length == 0 || line.last() != Some(&b'\n') {
            return Ok(end);
        }
        match serde_json::from_slice::<LineEpoch>(&line) {
            Ok(LineEpoch { epoch }) if epoch > last => return Ok(end),
            Ok(LineEpoch { epoch }) => (end, seen) = (end + length as u64, epoch),
            // Damaged after the checkpoint, by a power cut.
            Err(_) if seen >= last => return Ok(end),
            // Never cut what this program did not write.
            Err(_) => {
                let expected = "an object with an epoch: move the file away";
                let what = format!("line {number}");
                return Err(FormatError::invalid(path, what, "something else", expected));
            }
        }
    }
}

/// All records of a file; a last line that was never finished is left out.
pub fn read(path: &Path) -> Result<Vec<EpochRecord>> {
    let text = regular::read_text(path, MOST_BYTES)?;
    let complete = text.rfind('\n').map_or("", |end| &text[..=end]);
    let record = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let what = format!("line {}", at + 1);
            FormatError::invalid(path, what, error.to_string(), "the record of an epoch")
        })
    };
    complete.lines().enumerate().map(record).collect()
}

impl Observer for MetricsWriter {
    fn epoch(&mut self, record: &EpochRecord) -> Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, record).expect("a record is plain data");
        self.line.push(b'\n');
        let written = self.file.write_all(&self.line);
        written.map_err(FormatError::io("write", self.file.path()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::train::testing::record;

    fn epochs(path: &Path) -> Vec<u64> {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        read(path).unwrap().into_iter().map(|record| record.epoch).collect()
    }

    #[test]
    fn lines_can_be_read_as_soon_as_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut lines = MetricsWriter::create(&path).unwrap();
        for epoch in 1..4 {
            lines.epoch(&record(epoch)).unwrap();
            assert_eq!(epochs(&path).last(), Some(&epoch));
        }
        drop(MetricsWriter::create(&path).unwrap());
        assert!(epochs(&path).is_empty());
    }

    #[test]
    fn a_resumed_run_cuts_what_comes_after_its_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut lines = MetricsWriter::resume(&path, 7).unwrap();
        for epoch in 1..6 {
            lines.epoch(&record(epoch)).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], b"{\"epoch\":6,\"lo"].concat()).unwrap();
        MetricsWriter::resume(&path, 5).unwrap().epoch(&record(6)).unwrap();
        assert_eq!(epochs(&path), [1, 2, 3, 4, 5, 6]);
        MetricsWriter::resume(&path, 3).unwrap().epoch(&record(4)).unwrap();
        assert_eq!(epochs(&path), [1, 2, 3, 4]);
        assert!(whole.starts_with(&fs::read(&path).unwrap()), "the same lines again");
        drop(MetricsWriter::resume(&path, 0).unwrap());
        assert!(epochs(&path).is_empty());
    }

    #[test]
    fn damage_after_the_checkpoint_is_cut_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut lines = MetricsWriter::create(&path).unwrap();
        (1..3).for_each(|epoch| lines.epoch(&record(epoch)).unwrap());
        let whole = fs::read(&path).unwrap();
        let damaged = [&whole[..], b"{\"epoch\":3,\0\0\0\n{\"epoch\":4}\n"].concat();
        fs::write(&path, &damaged).unwrap();
        assert!(MetricsWriter::resume(&path, 3).is_err(), "the third record was synced");
        assert_eq!(fs::read(&path).unwrap(), damaged);
        MetricsWriter::resume(&path, 2).unwrap().epoch(&record(3)).unwrap();
        assert_eq!(epochs(&path), [1, 2, 3]);
    }

    #[test]
    fn files_that_training_did_not_write_are_not_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        fs::write(&path, "{\"epoch\":1}\nmy notes\n").unwrap();
        let error = MetricsWriter::resume(&path, 3).unwrap_err().to_string();
        let expected = "metrics.jsonl: line 2 (found something else, \
                        expected an object with an epoch: move the file away)";
        assert!(error.ends_with(expected), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"epoch\":1}\nmy notes\n");
    }
}
