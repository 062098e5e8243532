//! The jobs of this package, one file per command: options in, a finished dataset directory out.

pub mod arrays;
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

/// Memory that parsed numbers take, as a multiple of their size in the file: an upper estimate.
const HELD_BYTES: u64 = 2;

/// Refuses input that has to be held in memory and does not fit: a file, or all files of a
/// directory.
fn check_held(context: &Context, path: &Path) -> Result<()> {
    let bytes = match fs::read_dir(path) {
        Ok(entries) => {
            let lengths = entries.flatten().filter_map(|entry| entry.metadata().ok());
            lengths.map(|file| file.len()).sum()
        }
        // Not a directory. A path that does not exist is reported when it is read.
        Err(_) => fs::metadata(path).map_or(0, |file| file.len()),
    };
    let needs = HELD_BYTES * bytes;
    if needs > context.memory {
        let what = "the graphs, which are held in memory,";
        return Err(IngestError::memory(path, what, needs, context.memory));
    }
    Ok(())
}
