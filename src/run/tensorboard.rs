//! Records as scalars for TensorBoard (`events.out.tfevents.<seconds>.<host>`). An observer that
//! writes the event-file format itself, without TensorFlow, and only scalars.
//!
//! A file is a sequence of framed messages, all numbers little endian:
//! ```text
//! length u64 | masked CRC32C of the length u32 | message | masked CRC32C of the message u32
//! ```
//! A message is an `Event` in protocol buffers:
//! ```text
//! Event       1 wall_time double, 2 step int64, 3 file_version string, 5 summary, 7 session_log
//! Summary     1 value, repeated          Value   1 tag string, 2 simple_value float
//! SessionLog  1 status: 1 is "start": readers drop all steps from the event's step on
//! ```

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ignn_format::storage::{self, OutputFile};
use ignn_format::{FormatError, Result};

use crate::solver::fixed_point::SolveInfo;
use crate::train::{EpochRecord, Observer};

/// Prefix of all event files, by which TensorBoard finds them.
const PREFIX: &str = "events.out.tfevents.";

/// Whether a file of this name may have been written here.
pub(super) fn is_event_file(name: &str) -> bool {
    name.starts_with(PREFIX) && !name.contains('/')
}

/// Writes the scalars of every epoch.
#[derive(Debug)]
pub struct TensorBoard {
    file: OutputFile,
}

impl TensorBoard {
    /// Starts an event file in a directory, which is created if it is missing. `continued` is the
    /// last epoch that a resumed run keeps: TensorBoard drops later scalars of its older files.
    pub fn create(directory: &Path, continued: Option<u64>) -> Result<Self> {
        storage::create_directory(directory)?;
        let name = format!("{PREFIX}{}.{}", now().as_secs(), host());
        let mut board = Self { file: new_file(directory, &name)? };
        board.write(&Event::at(0).text(3, b"brain.Event:2"))?;
        if let Some(epoch) = continued {
            let start = Message::default().integer(1, 1);
            board.write(&Event::at(epoch + 1).text(7, &start.0))?;
        }
        Ok(board)
    }

    /// The event file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    fn write(&mut self, event: &Message) -> Result<()> {
        // One write per event: a reader never sees half of one.
        let written = self.file.write_all(&framed(&event.0));
        written.map_err(FormatError::io("write", self.file.path()))
    }
}

impl Observer for TensorBoard {
    fn epoch(&mut self, record: &EpochRecord) -> Result<()> {
        let mut summary = Message::default();
        for (tag, value) in scalars(record) {
            summary = summary
                .text(1, &Message::default().text(1, tag.as_bytes()).float(2, value as f32).0);
        }
        self.write(&Event::at(record.epoch).text(5, &summary.0))
    }
}

/// The scalars of a record; TensorBoard groups panels by what precedes the slash.
fn scalars(record: &EpochRecord) -> Vec<(String, f64)> {
    let mut scalars = vec![("loss/step".to_string(), record.loss)];
    for (part, values) in record.parts() {
        scalars.push((format!("loss/{part}"), values.loss));
        scalars
            .extend(values.scores.iter().map(|(score, value)| (format!("{score}/{part}"), *value)));
    }
    scalars.extend(record.forward.iter().flat_map(|info| solve("forward", info)));
    scalars.extend(record.adjoint.iter().flat_map(|info| solve("adjoint", info)));
    scalars.extend(
        record.seconds.named().map(|(phase, seconds)| (format!("seconds/{phase}"), seconds)),
    );
    let others = [
        ("model/contraction", record.contraction),
        ("model/weight_radius", record.weight_radius),
        ("optim/gradient_norm", record.gradient_norm),
        ("optim/learning_rate", record.learning_rate),
        ("speed/nodes_per_second", record.nodes_per_second),
        ("speed/edges_per_second", record.edges_per_second),
        ("solver/failures", record.failures as f64),
    ];
    scalars.extend(others.map(|(tag, value)| (tag.to_string(), value)));
    scalars
}

fn solve(direction: &str, info: &SolveInfo) -> impl Iterator<Item = (String, f64)> {
    let bound = info.certified_error.into_iter();
    let error = bound.flat_map(|error| {
        [("certified_error", error.largest), ("certified_relative_error", error.relative)]
    });
    let estimate = info.estimated_error.map(|estimate| ("estimated_relative_error", estimate));
    let values = [("sweeps", info.sweeps as f64), ("residual", info.relative_residual)];
    values
        .into_iter()
        .chain(error)
        .chain(estimate)
        .map(move |(name, value)| (format!("solver/{direction}_{name}"), value))
}

/// A new file: two runs that start within a second must not share one.
fn new_file(directory: &Path, name: &str) -> Result<OutputFile> {
    for attempt in 0u32.. {
        let path =
            directory.join(if attempt == 0 { name.into() } else { format!("{name}.{attempt}") });
        match OutputFile::try_create_new(&path) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < 1000 => {}
            Err(error) => return Err(FormatError::io("create", &path)(error)),
        }
    }
    unreachable!("the last attempt returns")
}

fn now() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// This machine's name, reduced to characters that suit a file name.
fn host() -> String {
    let name =
        fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    let name: String = name.unwrap_or_default();
    let fits = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '.';
    let name: String = name.trim().chars().filter(fits).take(64).collect();
    if name.is_empty() { "localhost".into() } else { name }
}

struct Event;

impl Event {
    /// An event with the current time.
    fn at(step: u64) -> Message {
        Message::default().double(1, now().as_secs_f64()).integer(2, step)
    }
}

/// A protocol-buffer message, built field by field.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    fn integer(self, field: u64, value: u64) -> Self {
        self.varint(field << 3).varint(value)
    }

    fn double(self, field: u64, value: f64) -> Self {
        let mut message = self.varint(field << 3 | 1);
        message.0.extend(value.to_le_bytes());
        message
    }

    fn float(self, field: u64, value: f32) -> Self {
        let mut message = self.varint(field << 3 | 5);
        message.0.extend(value.to_le_bytes());
        message
    }

    /// A string, bytes or an embedded message.
    fn text(self, field: u64, bytes: &[u8]) -> Self {
        let mut message = self.varint(field << 3 | 2).varint(bytes.len() as u64);
        message.0.extend(bytes);
        message
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u64).to_le_bytes();
    [&length[..], &masked(&length).to_le_bytes(), message, &masked(message).to_le_bytes()].concat()
}

/// Masked as the format requires, because a checksum of data with checksums is weak.
fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli): polynomial 0x1EDC6F41, bits reflected.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, &byte| CRC[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::testing::record;

    /// A field: its number, its wire type, its bytes (a varint as its value).
    type Field = (u64, u64, Vec<u8>);

    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }

    fn fields(mut bytes: &[u8]) -> Vec<Field> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => varint(&mut bytes).to_le_bytes().to_vec(),
                wire => {
                    let length = match wire {
                        1 => 8,
                        5 => 4,
                        2 => varint(&mut bytes) as usize,
                        other => panic!("wire type {other}"),
                    };
                    let (value, rest) = bytes.split_at(length);
                    bytes = rest;
                    value.to_vec()
                }
            };
            fields.push((key >> 3, key & 7, value));
        }
        fields
    }

    fn events(path: &Path) -> Vec<Vec<Field>> {
        let file = fs::read(path).unwrap();
        let mut bytes = &file[..];
        let mut events = Vec::new();
        while !bytes.is_empty() {
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            assert_eq!(bytes[8..12], masked(&bytes[..8]).to_le_bytes());
            let message = &bytes[12..12 + length];
            assert_eq!(bytes[12 + length..16 + length], masked(message).to_le_bytes());
            events.push(fields(message));
            bytes = &bytes[16 + length..];
        }
        events
    }

    fn find(event: &[Field], number: u64) -> &[u8] {
        &event.iter().find(|(field, ..)| *field == number).expect("the field").2
    }

    #[test]
    fn the_checksum_is_castagnolis() {
        // The check value of the algorithm, and 32 zero bytes as in RFC 3720.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn integers_of_several_bytes_are_split_by_sevens() {
        assert_eq!(Message::default().integer(1, 300).0, [0x08, 0xac, 0x02]);
        assert_eq!(Message::default().text(2, b"testing").0, b"\x12\x07testing");
    }

    #[test]
    fn scalars_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut board = TensorBoard::create(&dir.path().join("run"), None).unwrap();
        for epoch in [1, 1000] {
            board.epoch(&record(epoch)).unwrap();
        }
        let name = board.path().file_name().unwrap().to_str().unwrap();
        assert!(
            name.starts_with("events.out.tfevents.1") || name.starts_with("events.out.tfevents.2"),
            "{name}"
        );
        let events = events(board.path());
        assert_eq!(events.len(), 3);
        assert_eq!(find(&events[0], 3), b"brain.Event:2");
        assert_eq!(find(&events[2], 2), 1000u64.to_le_bytes());
        let wall = f64::from_le_bytes(find(&events[2], 1).try_into().unwrap());
        assert!((now().as_secs_f64() - wall).abs() < 3600.0);
        let values = fields(find(&events[2], 5));
        let value = |tag: &str| {
            let value = values.iter().map(|(_, _, value)| fields(value));
            let value = value.into_iter().find(|value| find(value, 1) == tag.as_bytes());
            value.map(|value| f32::from_le_bytes(find(&value, 2).try_into().unwrap()))
        };
        assert_eq!(value("loss/step"), Some(0.5));
        assert_eq!((value("accuracy/validation"), value("accuracy/test")), (Some(0.75), None));
        assert_eq!(
            (value("solver/forward_sweeps"), value("seconds/adjoint")),
            (Some(12.0), Some(0.25))
        );
        assert_eq!(values.len(), scalars(&record(1)).len());
    }

    #[test]
    fn a_continued_run_takes_back_later_steps_in_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let first = TensorBoard::create(dir.path(), None).unwrap();
        let second = TensorBoard::create(dir.path(), Some(40)).unwrap();
        assert_ne!(first.path(), second.path());
        let events = events(second.path());
        assert_eq!(find(&events[1], 2), 41u64.to_le_bytes());
        assert_eq!(find(&events[1], 7), [0x08, 1]);
    }
}
