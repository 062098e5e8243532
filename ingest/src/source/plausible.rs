//! Whether the number of rows that a header declares is plausible. Rows without entries take no
//! space in a raw file, but they do in a dataset: a header of one line could otherwise produce a
//! dataset of many gigabytes.

/// Up to this many rows are accepted without any entries.
const MANY: u64 = 1 << 24;
/// Beyond that, there must be at least one entry (or byte) per this many rows.
const ROWS_PER_ENTRY: u64 = 64;

/// Whether this number of rows is plausible, given the number of entries, or of bytes.
pub fn rows(rows: u64, entries: u64) -> bool {
    rows <= MANY.max(entries.saturating_mul(ROWS_PER_ENTRY))
}
