//! Whether a number of rows that a header declares is worth believing. Rows without entries take no
//! room in a file, but they do in a dataset: one line could make one of many gigabytes.

/// Up to this number, rows may be as empty as they like.
const MANY: u64 = 1 << 24;
/// More rows are believed with at least one entry (or byte) per this many.
const ROWS_PER_ENTRY: u64 = 64;

/// Whether so many rows are plausible, given the number of entries, or of bytes.
pub fn rows(rows: u64, entries: u64) -> bool {
    rows <= MANY.max(entries.saturating_mul(ROWS_PER_ENTRY))
}
