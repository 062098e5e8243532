//! The directory of an active run: its lock, its checkpoints, and the files that records go to.
//!
//! A new directory appears as soon as the run can start. A directory that replaces another appears
//! after its first epoch, with the record of that epoch and a checkpoint. Until then a failure
//! leaves the old run as it was; from then on the new run can be resumed.

use std::cell::RefCell;

use ignn_format::storage::{DirectoryLock, SyncHandle};

use super::RunDir;
use super::metrics_file::{Lines, MetricsWriter};
use super::tensorboard::TensorBoard;
use crate::models::file::Shared;
use crate::train::{EpochRecord, Observer, TrainError, Trainer};

/// Puts files into a directory that is still a draft.
pub(super) type Fill<'a> = dyn FnMut(&RunDir) -> Result<(), TrainError> + 'a;

/// The directory, created or not yet.
pub(super) struct Place<'a, B> {
    directory: &'a RunDir,
    /// Makes the directory, once.
    begin: Option<B>,
    lock: Option<DirectoryLock>,
    files: Option<Files>,
    /// Records from before the directory was created.
    waiting: Vec<EpochRecord>,
}

/// Records that stay in their file.
pub(super) struct Kept {
    /// Epoch of the last one.
    pub last: u64,
    /// Their lines.
    pub lines: Lines,
}

struct Files {
    metrics: MetricsWriter,
    board: TensorBoard,
    records: SyncHandle,
}

impl<'a, B: FnOnce(&mut Fill) -> Result<DirectoryLock, TrainError>> Place<'a, B> {
    /// A directory that `begin` makes.
    pub fn new(directory: &'a RunDir, begin: B) -> Self {
        Self { directory, begin: Some(begin), lock: None, files: None, waiting: Vec::new() }
    }

    /// Makes the directory with what `fill` puts into it, unless it is there.
    pub fn begin(&mut self, fill: &mut Fill) -> Result<(), TrainError> {
        if let Some(begin) = self.begin.take() {
            self.lock = Some(begin(fill)?);
        }
        Ok(())
    }

    /// Opens the files for records, after those that are kept.
    pub fn open(&mut self, kept: Option<Kept>) -> Result<(), TrainError> {
        let file = self.directory.metrics_file();
        let metrics = match &kept {
            Some(kept) => MetricsWriter::resume(&file, kept.lines)?,
            None => MetricsWriter::create(&file)?,
        };
        // Waiting records are already in `metrics.jsonl`, but not yet in the event file.
        let continued = kept.map(|kept| kept.last).filter(|_| self.waiting.is_empty());
        let mut board = TensorBoard::create(&self.directory.tensorboard(), continued)?;
        self.waiting.drain(..).try_for_each(|record| board.epoch(&record))?;
        let records = metrics.sync_handle()?;
        self.files = Some(Files { metrics, board, records });
        Ok(())
    }

    /// Whether records go to files.
    pub fn is_open(&self) -> bool {
        self.files.is_some()
    }

    /// Writes a checkpoint; makes the directory with it, if that is still to come.
    pub fn save(&mut self, trainer: &Trainer, shared: &Shared<'_>) -> Result<(), TrainError> {
        if let Some(Files { metrics, records, .. }) = &self.files {
            // Records are synced first, so that no record up to a checkpoint can be lost.
            records.sync()?;
            let checksum = metrics.lines().checksum();
            return trainer.save_after(&checksum, &self.directory.checkpoint_file(), shared);
        }
        let waiting = std::mem::take(&mut self.waiting);
        let mut lines = Lines::default();
        self.begin(&mut |draft| {
            let mut metrics = MetricsWriter::create(&draft.metrics_file())?;
            let mut before = Lines::default();
            for record in &waiting {
                metrics.epoch(record)?;
                lines = metrics.lines();
                // The epoch of the checkpoint is evaluated again.
                if record.epoch < trainer.epoch() {
                    before = lines;
                }
            }
            trainer.save_after(&before.checksum(), &draft.checkpoint_file(), shared)
        })?;
        let kept = waiting.last().map(|record| Kept { last: record.epoch, lines });
        self.waiting = waiting;
        self.open(kept)
    }

    /// Makes the records durable.
    pub fn sync(&self) -> Result<(), TrainError> {
        self.files.as_ref().map_or(Ok(()), |files| files.records.sync())?;
        Ok(())
    }
}

/// Writes the records of a run to its directory.
pub(super) struct Records<'p, 'a, B>(pub &'p RefCell<Place<'a, B>>);

impl<B> Observer for Records<'_, '_, B> {
    fn epoch(&mut self, record: &EpochRecord) -> ignn_format::Result<()> {
        let mut place = self.0.borrow_mut();
        match &mut place.files {
            Some(files) => {
                files.metrics.epoch(record)?;
                files.board.epoch(record)
            }
            None => {
                place.waiting.push(record.clone());
                Ok(())
            }
        }
    }
}
