//! Reads the small files of a run back.

use std::path::Path;

use ignn_format::{FormatError, regular};

/// Largest small file of a run that is read back: configurations, setups, summaries, folds.
const MOST_BYTES: u64 = 256 << 20;

/// Reads a small file of a run.
pub fn read_whole(path: &Path) -> Result<String, FormatError> {
    regular::read_text(path, MOST_BYTES)
}
