//! Turns a sorted bucket into rows: merges duplicates, keeps or drops self-loops, and adds the
//! identity for renormalisation. It runs on one thread and writes no files.

use ignn_format::manifest::Normalisation;

use crate::edges::options::{Duplicates, RelationOptions, SelfLoops};
use crate::edges::spool::Edge;

/// The rows, or parts of rows, of one bucket.
#[derive(Debug, Default)]
pub struct Rows {
    /// Number of entries of each row, from the bucket's first row to its last.
    pub degrees: Vec<u64>,
    /// Sum of the values of each of those rows. Empty if values are not kept: then the sum is the
    /// degree.
    pub sums: Vec<f64>,
    /// Columns, row after row.
    pub neighbours: Vec<u32>,
    /// Values, if they are kept.
    pub values: Vec<f32>,
    /// Entries on the diagonal.
    pub diagonal: u64,
    /// Entries that were duplicates of another, off the diagonal and on it.
    pub merged: [u64; 2],
    /// Self-loops dropped.
    pub dropped: u64,
    /// Whether all values are 1.
    pub all_one: bool,
    /// An edge given twice: its row and column.
    pub duplicate: Option<(u32, u32)>,
    /// An edge whose weights sum to more than a 32-bit float can represent.
    pub overflow: Option<(u32, u32)>,
}

/// Merges equal keys of sorted entries in place, to keep a bucket small while it is read. `done`
/// counts the merged entries and keeps the first duplicate. Entries stay in input order, so merging
/// in steps gives the same result as merging at once.
pub fn compact<E: Edge>(entries: &mut Vec<E>, duplicates: Duplicates, done: &mut Rows) {
    entries.dedup_by(|later, kept| {
        let (row, column) = (kept.source(), kept.target());
        let same = later.source() == row && later.target() == column;
        if same {
            *kept = E::new(row, column, combine(duplicates, kept.weight(), later.weight()));
            done.merged[usize::from(row == column)] += 1;
            done.duplicate.get_or_insert((row, column));
        }
        same
    });
}

fn combine(duplicates: Duplicates, kept: f32, later: f32) -> f32 {
    match duplicates {
        Duplicates::Sum => kept + later,
        Duplicates::Max => kept.max(later),
        Duplicates::First | Duplicates::Error => kept,
    }
}

/// Builds the rows of the keys `bounds.0 .. bounds.1` from their sorted entries. With
/// `keep_values`, the result has values; `done` has the counts of [`compact`].
pub fn rows<E: Edge>(
    entries: &[E],
    bounds: (u64, u64),
    options: &RelationOptions,
    keep_values: bool,
    done: Rows,
) -> Rows {
    let (first, last) = ((bounds.0 >> 32) as u32, ((bounds.1 - 1) >> 32) as u32);
    let identity = options.normalise == Normalisation::Renorm;
    let mut out = Rows { all_one: true, ..done };
    let count = (last - first) as usize + 1;
    out.degrees.reserve(count);
    out.neighbours.reserve(entries.len() + if identity { count } else { 0 });
    if keep_values {
        out.sums.reserve(count);
        out.values.reserve(out.neighbours.capacity());
    }
    let mut at = 0;
    for row in first..=last {
        let start = out.neighbours.len();
        // The entry of the identity in this row, if its key is in this bucket.
        let diagonal_key = u64::from(row) << 32 | u64::from(row);
        let mut identity_due = identity && (bounds.0..bounds.1).contains(&diagonal_key);
        let push = |column: u32, value: f32, out: &mut Rows| {
            out.neighbours.push(column);
            if !value.is_finite() {
                out.overflow.get_or_insert((row, column));
            }
            out.diagonal += u64::from(column == row);
            if keep_values {
                out.values.push(value);
                out.all_one &= value == 1.0;
            }
        };
        while at < entries.len() && entries[at].source() == row {
            let column = entries[at].target();
            let mut value = entries[at].weight();
            at += 1;
            while at < entries.len()
                && entries[at].source() == row
                && entries[at].target() == column
            {
                value = combine(options.duplicates, value, entries[at].weight());
                out.merged[usize::from(row == column)] += 1;
                out.duplicate.get_or_insert((row, column));
                at += 1;
            }
            if identity_due && column >= row {
                identity_due = false;
                if column > row {
                    push(row, 1.0, &mut out);
                } else if options.self_loops == SelfLoops::Keep {
                    value += 1.0;
                } else {
                    out.dropped += 1;
                    value = 1.0;
                }
            } else if column == row && options.self_loops == SelfLoops::Drop {
                out.dropped += 1;
                continue;
            }
            push(column, value, &mut out);
        }
        if identity_due {
            push(row, 1.0, &mut out);
        }
        out.degrees.push((out.neighbours.len() - start) as u64);
        if keep_values {
            out.sums.push(out.values[start..].iter().map(|&value| f64::from(value)).sum());
        }
    }
    out
}
