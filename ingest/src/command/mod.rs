//! The jobs of this package, one file per command: options in, a finished dataset directory out.

pub mod dgcnn;
pub mod edges;
pub mod generate;
pub mod graphsage;
pub mod node_data;
pub mod relations;
pub mod tu;

use std::fs;
use std::path::Path;

use crate::context::Context;
use crate::error::{IngestError, Result};

/// Numbers in memory take at most about so many times their bytes in a file.
const HELD_BYTES: u64 = 2;

/// Refuses a file, or the files of a directory, that are to be held in memory and do not fit.
fn check_held(context: &Context, path: &Path) -> Result<()> {
    let bytes = match fs::read_dir(path) {
        Ok(entries) => {
            let lengths = entries.flatten().filter_map(|entry| entry.metadata().ok());
            lengths.map(|file| file.len()).sum()
        }
        // What is wrong with the path is reported when it is read.
        Err(_) => fs::metadata(path).map_or(0, |file| file.len()),
    };
    let needs = HELD_BYTES * bytes;
    if needs > context.memory {
        let what = "the graphs, which are held in memory,";
        return Err(IngestError::memory(path, what, needs, context.memory));
    }
    Ok(())
}
