//! `metrics.jsonl`: one [`EpochRecord`] as JSON per line. An observer writes it, [`Recorded`] reads
//! it back as the same types.
//!
//! A line is written in one piece as soon as its epoch is over, so that other programs can follow a
//! run. When a run is resumed, the lines of epochs after the checkpoint are removed, and so is an
//! incomplete last line. The lines up to the checkpoint were synced before it was written; a power
//! failure can damage any line after them. The checkpoint has the checksum of these records
//! ([`Lines`]).

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use ignn_format::storage::{OutputFile, SyncHandle};
use ignn_format::{FormatError, Result, checksum, regular};
use serde::Deserialize;

use crate::train::{EpochRecord, Observer};

/// Largest file that is read back: some millions of epochs.
const MOST_BYTES: u64 = 4 << 30;

/// Largest line that is read back. Records have some kilobytes.
const MOST_LINE_BYTES: u64 = 1 << 20;

/// The first lines of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    /// Where they end.
    pub end: u64,
    checksum: u64,
}

impl Lines {
    /// These lines and one more. Each record is hashed together with the checksum before it, so that
    /// a file can be continued, and without its times, so that a resumed run has the same checksum.
    fn with(self, line: &[u8], record: &EpochRecord) -> Self {
        let mut bytes = self.checksum.to_le_bytes().to_vec();
        write_record(&mut bytes, &record.without_times());
        Self { end: self.end + line.len() as u64, checksum: checksum::of_bytes(&bytes) }
    }

    /// Number of whole lines after these that are no records, such as notes of a user.
    pub fn others_after(self, path: &Path) -> Result<usize> {
        if !path.exists() {
            return Ok(0);
        }
        let (mut file, _) = regular::open(path)?;
        file.seek(SeekFrom::Start(self.end)).map_err(FormatError::io("read", path))?;
        let mut input = BufReader::new(file.take(MOST_BYTES));
        let (mut others, mut line) = (0, Vec::new());
        loop {
            read_line(&mut input, &mut line, path)?;
            let is_record = || serde_json::from_slice::<EpochRecord>(&line).is_ok();
            match line.last() {
                None => return Ok(others),
                Some(&end) => others += usize::from(end == b'\n' && !is_record()),
            }
        }
    }

    /// The checksum of all of them.
    pub fn checksum(self) -> String {
        checksum::hex(self.checksum)
    }
}

/// Reads a line with its end, or a part of one that is too long.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, path: &Path) -> Result<()> {
    line.clear();
    let read = input.take(MOST_LINE_BYTES + 1).read_until(b'\n', line);
    read.map(drop).map_err(FormatError::io("read", path))
}

fn write_record(out: &mut Vec<u8>, record: &EpochRecord) {
    serde_json::to_writer(out, record).expect("a record is plain data");
}

/// The records of a file, or its first ones.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// One per line.
    pub records: Vec<EpochRecord>,
    /// Their lines.
    pub lines: Lines,
    /// Whether they are followed by a line that was never finished.
    pub is_torn: bool,
}

/// The part of a line that decides whether it is kept.
#[derive(Deserialize)]
struct LineEpoch {
    epoch: u64,
}

impl Recorded {
    /// All whole lines of a file.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_while(path, |_, _| true)
    }

    /// The lines up to and including those of an epoch. Damage after it is ignored, because a power
    /// failure can cause it.
    pub fn read_until(path: &Path, last: u64) -> Result<Self> {
        Self::read_while(path, |before, line| match serde_json::from_slice::<LineEpoch>(line) {
            Ok(LineEpoch { epoch }) => epoch <= last,
            Err(_) => before.is_none_or(|before| before < last),
        })
    }

    /// Reads lines while `is_wanted(epoch before, line)`.
    fn read_while(path: &Path, is_wanted: impl Fn(Option<u64>, &[u8]) -> bool) -> Result<Self> {
        let (file, length) = regular::open(path)?;
        if length > MOST_BYTES {
            let (found, expected) = (format!("{length} bytes"), format!("at most {MOST_BYTES}"));
            return Err(FormatError::invalid(path, "file too large", found, expected));
        }
        let mut input = BufReader::new(file.take(MOST_BYTES));
        let (mut recorded, mut line) = (Self::default(), Vec::new());
        loop {
            read_line(&mut input, &mut line, path)?;
            let number = recorded.records.len() + 1;
            recorded.is_torn = line.last().is_some_and(|&end| end != b'\n');
            let before = recorded.records.last().map(|record| record.epoch);
            if line.len() as u64 > MOST_LINE_BYTES && is_wanted(before, &line) {
                let what = format!("line {number}");
                let found = format!("more than {MOST_LINE_BYTES} bytes");
                return Err(FormatError::invalid(path, what, found, "the record of an epoch"));
            }
            if line.is_empty() || recorded.is_torn || !is_wanted(before, &line) {
                return Ok(recorded);
            }
            let record: EpochRecord = serde_json::from_slice(&line).map_err(|error| {
                // Its line is always the first one.
                let text = error.to_string();
                let place = format!(" at line {} column {}", error.line(), error.column());
                let found = match text.strip_suffix(&place) {
                    Some(found) => format!("{found} at column {}", error.column()),
                    None => text,
                };
                let what = format!("line {number}");
                FormatError::invalid(path, what, found, "the record of an epoch")
            })?;
            if let Some(expected) = before.map(|before| before.saturating_add(1))
                && record.epoch != expected
            {
                let expected = format!("{expected}: one line per epoch, in order");
                let what = format!("line {number}: epoch");
                return Err(FormatError::invalid(path, what, record.epoch, expected));
            }
            recorded.lines = recorded.lines.with(&line, &record);
            recorded.records.push(record);
        }
    }
}

/// Writes one line per epoch.
#[derive(Debug)]
pub struct MetricsWriter {
    file: OutputFile,
    line: Vec<u8>,
    written: Lines,
}

impl MetricsWriter {
    /// Starts a file, in place of an older one.
    pub fn create(path: &Path) -> Result<Self> {
        let file = OutputFile::create_again(path)?;
        Ok(Self { file, line: Vec::new(), written: Lines::default() })
    }

    /// Continues a file after its first lines; starts one if there is none.
    pub(super) fn resume(path: &Path, written: Lines) -> Result<Self> {
        let mut file = OutputFile::resume(path)?;
        file.cut(written.end)?;
        Ok(Self { file, line: Vec::new(), written })
    }

    /// All lines of the file.
    pub(super) fn lines(&self) -> Lines {
        self.written
    }

    /// A handle for making the records durable before a checkpoint is written.
    pub fn sync_handle(&self) -> Result<SyncHandle> {
        self.file.sync_handle()
    }
}

impl Observer for MetricsWriter {
    fn epoch(&mut self, record: &EpochRecord) -> Result<()> {
        self.line.clear();
        write_record(&mut self.line, record);
        self.line.push(b'\n');
        let written = self.file.write_all(&self.line);
        written.map_err(FormatError::io("write", self.file.path()))?;
        self.written = self.written.with(&self.line, record);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::train::testing::record;

    fn epochs(path: &Path) -> Vec<u64> {
        let recorded = Recorded::read(path).unwrap();
        assert_eq!(
            (recorded.lines.end, recorded.is_torn),
            (fs::metadata(path).unwrap().len(), false)
        );
        recorded.records.into_iter().map(|record| record.epoch).collect()
    }

    fn resume(path: &Path, last: u64) -> Result<MetricsWriter> {
        MetricsWriter::resume(path, Recorded::read_until(path, last)?.lines)
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
        let mut lines = MetricsWriter::resume(&path, Lines::default()).unwrap();
        for epoch in 1..6 {
            lines.epoch(&record(epoch)).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], b"{\"epoch\":6,\"lo"].concat()).unwrap();
        let recorded = Recorded::read(&path).unwrap();
        assert_eq!((recorded.records.len(), recorded.is_torn), (5, true));
        let mut resumed = resume(&path, 5).unwrap();
        assert_eq!(resumed.lines(), lines.lines());
        resumed.epoch(&record(6)).unwrap();
        assert_eq!(resumed.lines(), Recorded::read(&path).unwrap().lines);
        assert_eq!(epochs(&path), [1, 2, 3, 4, 5, 6]);
        resume(&path, 3).unwrap().epoch(&record(4)).unwrap();
        assert_eq!(epochs(&path), [1, 2, 3, 4]);
        assert!(whole.starts_with(&fs::read(&path).unwrap()), "the same lines again");
        drop(resume(&path, 0).unwrap());
        assert!(epochs(&path).is_empty());
    }

    #[test]
    fn a_backup_by_hard_links_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let [path, backup] = ["metrics.jsonl", "backup"].map(|name| dir.path().join(name));
        let mut lines = MetricsWriter::create(&path).unwrap();
        (0..3).for_each(|epoch| lines.epoch(&record(epoch)).unwrap());
        fs::hard_link(&path, &backup).unwrap();
        resume(&path, 0).unwrap().epoch(&record(1)).unwrap();
        assert_eq!((epochs(&path), epochs(&backup)), (vec![0, 1], vec![0, 1, 2]));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no draft stays");
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
        assert!(resume(&path, 3).is_err(), "the third record was synced");
        assert_eq!(fs::read(&path).unwrap(), damaged);
        let others = Lines::default().others_after(&path).unwrap();
        assert_eq!(others, 2, "neither is a record");
        assert_eq!(lines.lines().others_after(&path).unwrap(), 2);
        resume(&path, 2).unwrap().epoch(&record(3)).unwrap();
        assert_eq!(epochs(&path), [1, 2, 3]);
        assert_eq!(lines.lines().others_after(&path).unwrap(), 0, "a record");
    }

    #[test]
    fn a_line_without_an_end_is_refused_before_it_takes_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut lines = MetricsWriter::create(&path).unwrap();
        lines.epoch(&record(0)).unwrap();
        // A sparse file with gigabytes of zeros after its first line.
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(MOST_BYTES).unwrap();
        let error = Recorded::read(&path).unwrap_err().to_string();
        let expected = "metrics.jsonl: line 2 (found more than 1048576 bytes, expected the record of \
                        an epoch)";
        assert!(error.ends_with(expected), "{error}");
        let recorded = Recorded::read_until(&path, 0).unwrap();
        assert_eq!(recorded.lines, lines.lines(), "what follows is cut away");
    }

    #[test]
    fn files_that_training_did_not_write_are_not_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        MetricsWriter::create(&path).unwrap().epoch(&record(1)).unwrap();
        let text = fs::read_to_string(&path).unwrap() + "my notes\n";
        fs::write(&path, &text).unwrap();
        let error = resume(&path, 3).unwrap_err().to_string();
        let expected = "metrics.jsonl: line 2 (found expected value at column 1, expected the record \
                        of an epoch)";
        assert!(error.ends_with(expected), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn epochs_come_once_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        for (epochs, line, found, expected) in
            [([0, 1, 1], 3, 1, 2), ([1, 0, 2], 2, 0, 2), ([0, 1, 3], 3, 3, 2)]
        {
            let mut lines = MetricsWriter::create(&path).unwrap();
            epochs.iter().for_each(|&epoch| lines.epoch(&record(epoch)).unwrap());
            let error = Recorded::read(&path).unwrap_err().to_string();
            let expected = format!(
                "metrics.jsonl: line {line}: epoch (found {found}, expected {expected}: one line per \
                 epoch, in order)"
            );
            assert!(error.ends_with(&expected), "{error}");
        }
    }
}
