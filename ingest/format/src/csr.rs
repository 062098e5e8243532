//! One direction of an adjacency: offsets, neighbours and, unless all are 1, values. The
//! normalisation is in the manifest.
//!
//! Row `i` is entries `offsets[i] .. offsets[i + 1]` of `neighbours` (and `values`).
//!
//! | invariant | checked |
//! | --- | --- |
//! | `offsets` has rows + 1 entries, from 0 to the number of neighbours, ascending | on opening |
//! | `values`, if present, has the length of `neighbours` | on opening |
//! | neighbours are below the number of nodes | on opening |
//! | neighbours of a row are strictly increasing | on opening |
//! | values are finite and not negative | on opening |
//!
//! Code that has a [`CsrFile`] can therefore rely on all of them, whatever bytes the files hold.
//! The entries are checked in one parallel pass at the speed of memory, in a fraction of a sweep's
//! time.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::array::ArrayWriter;
use crate::checksum::WrittenFiles;
use crate::error::{FormatError, Result};
use crate::mapped::{MappedArray, Source};

/// The three files of a direction: `in.offsets.u64`, `in.neighbours.u32`, `in.values.f32`.
pub(crate) fn paths(directory: &Path, direction: &str) -> [PathBuf; 3] {
    ["offsets.u64", "neighbours.u32", "values.f32"]
        .map(|array| directory.join(format!("{direction}.{array}")))
}

/// Writes a direction row by row.
pub struct CsrWriter {
    paths: [PathBuf; 3],
    offsets: ArrayWriter<u64>,
    neighbours: ArrayWriter<u32>,
    values: Option<ArrayWriter<f32>>,
    scratch: Vec<u64>,
    end: u64,
}

impl CsrWriter {
    /// Creates the files in an existing directory; `direction` is "in" or "out".
    pub fn create(directory: &Path, direction: &str, weighted: bool) -> Result<Self> {
        let paths = paths(directory, direction);
        let mut offsets = ArrayWriter::create(&paths[0], "offsets")?;
        offsets.write(&[0])?;
        Ok(Self {
            offsets,
            neighbours: ArrayWriter::create(&paths[1], "neighbours")?,
            values: if weighted { Some(ArrayWriter::create(&paths[2], "values")?) } else { None },
            paths,
            scratch: Vec::new(),
            end: 0,
        })
    }

    /// Appends neighbours (and values, if the writer has them) to the row being written.
    pub fn extend(&mut self, neighbours: &[u32], values: &[f32]) -> Result<()> {
        self.neighbours.write(neighbours)?;
        if let Some(writer) = &mut self.values {
            assert_eq!(values.len(), neighbours.len(), "a value for every neighbour");
            writer.write(values)?;
        }
        Ok(())
    }

    /// Ends `degrees.len()` rows, whose entries are appended with [`CsrWriter::extend`] before or
    /// after.
    pub fn end_rows(&mut self, degrees: &[u64]) -> Result<()> {
        self.scratch.clear();
        for degree in degrees {
            self.end += degree;
            self.scratch.push(self.end);
        }
        self.offsets.write(&self.scratch)
    }

    /// Number of neighbours so far.
    pub fn entries(&self) -> u64 {
        self.neighbours.count()
    }

    /// Completes the files; returns their paths and entries for the manifest.
    pub fn finish(self) -> Result<WrittenFiles> {
        assert_eq!(self.end, self.neighbours.count(), "rows and entries agree");
        let [offsets, neighbours, values] = self.paths;
        let mut files =
            vec![(offsets, self.offsets.finish()?), (neighbours, self.neighbours.finish()?)];
        if let Some(writer) = self.values {
            files.push((values, writer.finish()?));
        }
        Ok(files)
    }
}

/// A mapped direction.
#[derive(Debug)]
pub struct CsrFile {
    offsets: MappedArray<u64>,
    neighbours: MappedArray<u32>,
    values: Option<MappedArray<f32>>,
}

/// Rows per block of a parallel pass.
const BLOCK_ROWS: usize = 1 << 10;

/// The entries of a row that violate the invariants.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RowFaults {
    pub range: Option<String>,
    pub order: Option<String>,
    pub value: Option<String>,
}

impl CsrFile {
    /// Maps the files and checks all invariants of the module's table.
    pub fn open(
        directory: &Path,
        direction: &str,
        rows: u64,
        entries: u64,
        weighted: bool,
    ) -> Result<Self> {
        let csr = Self::map(directory, direction, rows, entries, weighted)?;
        let Some(row) = csr.first_fault() else { return Ok(csr) };
        let [_, neighbours, values] = paths(directory, direction);
        let RowFaults { range, order, value } = csr.faults(row);
        let path = if range.is_some() || order.is_some() { neighbours } else { values };
        // `relations/NAME` inside the dataset.
        let dataset = directory.ancestors().nth(2).unwrap_or(directory).into();
        let what = range.or(order).or(value).unwrap_or_default();
        Err(FormatError::Damaged { path, what, dataset })
    }

    /// Maps the files and checks only lengths and offsets, in O(rows); for `ignn check`, which
    /// reports on all rows.
    pub(crate) fn map(
        directory: &Path,
        direction: &str,
        rows: u64,
        entries: u64,
        weighted: bool,
    ) -> Result<Self> {
        let [offsets_path, neighbours_path, values_path] = paths(directory, direction);
        let offsets = MappedArray::<u64>::open(&offsets_path, "offsets")?;
        let neighbours = MappedArray::<u32>::open(&neighbours_path, "neighbours")?;
        let values =
            if weighted { Some(MappedArray::<f32>::open(&values_path, "values")?) } else { None };
        let invalid = |path, what: &str, found: u64, expected: u64| {
            Err(FormatError::invalid(path, what, found, expected))
        };
        if offsets.len() as u64 != rows.saturating_add(1) {
            return invalid(
                &offsets_path,
                "number of offsets",
                offsets.len() as u64,
                rows.saturating_add(1),
            );
        }
        if neighbours.len() as u64 != entries {
            return invalid(
                &neighbours_path,
                "number of neighbours",
                neighbours.len() as u64,
                entries,
            );
        }
        if let Some(values) = &values
            && values.len() as u64 != entries
        {
            return invalid(&values_path, "number of values", values.len() as u64, entries);
        }
        if offsets[0] != 0 {
            return invalid(&offsets_path, "first offset", offsets[0], 0);
        }
        if offsets[rows as usize] != entries {
            return invalid(&offsets_path, "last offset", offsets[rows as usize], entries);
        }
        if let Some(row) = offsets.par_windows(2).position_first(|pair| pair[0] > pair[1]) {
            let what = format!("offset of row {}", row + 1);
            let expected = format!("at least {}", offsets[row]);
            return Err(FormatError::invalid(&offsets_path, what, offsets[row + 1], expected));
        }
        Ok(Self { offsets, neighbours, values })
    }

    /// The mapped files.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        let values = self.values.as_ref().map(MappedArray::source);
        [self.offsets.source(), self.neighbours.source()].into_iter().chain(values)
    }

    /// The first row that breaks a rule.
    fn first_fault(&self) -> Option<usize> {
        let rows = self.rows();
        let in_block = |block: usize| {
            let mut block = block * BLOCK_ROWS..rows.min((block + 1) * BLOCK_ROWS);
            if self.is_sound(&block) {
                return None;
            }
            block.find(|&row| self.faults(row) != RowFaults::default())
        };
        (0..rows.div_ceil(BLOCK_ROWS)).into_par_iter().find_map_first(in_block)
    }

    /// Whether rows follow the rules. Their entries are looked at all at once and without branches,
    /// so that the compiler can use wide instructions: rows are increasing if neighbours fall at
    /// ends of rows only.
    fn is_sound(&self, rows: &Range<usize>) -> bool {
        let ends = &self.offsets[rows.start..=rows.end];
        let (first, last) = (ends[0] as usize, ends[ends.len() - 1] as usize);
        let neighbours = &self.neighbours[first..last];
        let pairs = neighbours.iter().zip(neighbours.get(1..).unwrap_or_default());
        let falls: usize = pairs.map(|(one, next)| usize::from(one >= next)).sum();
        let (mut falls_at_ends, mut before) = (0, first);
        for &end in ends {
            let end = end as usize;
            // Empty rows end where another one does.
            if end > before && end < last {
                let at = end - first;
                falls_at_ends += usize::from(neighbours[at - 1] >= neighbours[at]);
                before = end;
            }
        }
        let largest = neighbours.iter().fold(0, |largest, &next| next.max(largest));
        let is_in_range = neighbours.is_empty() || (largest as usize) < self.rows();
        let has_values = self.values.as_ref().is_none_or(|values| {
            let values = values[first..last].iter();
            values.fold(true, |sound, &value| sound & is_sound_value(value))
        });
        (falls == falls_at_ends) & is_in_range & has_values
    }

    /// What breaks the rules in a row.
    pub(crate) fn faults(&self, row: usize) -> RowFaults {
        let (neighbours, nodes) = (self.row(row), self.rows());
        let far = neighbours.iter().find(|neighbour| **neighbour as usize >= nodes);
        let range = |far| format!("row {row}: neighbour (found {far}, expected less than {nodes})");
        let pair = neighbours.windows(2).find(|pair| pair[0] >= pair[1]);
        let order = |pair: &[u32]| {
            let (last, next) = (pair[0], pair[1]);
            format!("row {row}: neighbours must be strictly increasing (found {next} after {last})")
        };
        let values = self.values.as_ref().map_or(&[][..], |values| &values[self.range(row)]);
        let value = |value: &f32| {
            format!(
                "row {row}: value (found {value}, expected a finite number that is not negative)"
            )
        };
        RowFaults {
            range: far.map(range),
            order: pair.map(order),
            value: values.iter().find(|value| !is_sound_value(**value)).map(value),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// `rows() + 1` offsets into neighbours and values.
    pub fn offsets(&self) -> &MappedArray<u64> {
        &self.offsets
    }

    /// All neighbours, row by row.
    pub fn neighbours(&self) -> &MappedArray<u32> {
        &self.neighbours
    }

    /// All values, if they are stored.
    pub fn values(&self) -> Option<&MappedArray<f32>> {
        self.values.as_ref()
    }

    /// The entries of a row.
    pub fn range(&self, row: usize) -> Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    /// The neighbours of a row.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.neighbours[self.range(row)]
    }
}

/// Whether a stored value is finite and not negative.
pub(crate) fn is_sound_value(value: f32) -> bool {
    (0.0..f32::INFINITY).contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = CsrWriter::create(dir.path(), "in", true).unwrap();
        writer.extend(&[1, 2], &[0.5, 1.0]).unwrap();
        writer.extend(&[0], &[2.0]).unwrap();
        writer.end_rows(&[2, 0, 1]).unwrap();
        assert_eq!(writer.finish().unwrap().len(), 3);
        let csr = CsrFile::open(dir.path(), "in", 3, 3, true).unwrap();
        assert_eq!((csr.row(0), csr.row(1), csr.row(2)), (&[1, 2][..], &[][..], &[0][..]));
        assert_eq!(csr.values().unwrap()[..], [0.5, 1.0, 2.0]);
        assert_eq!(csr.offsets().as_ptr() as usize % 64, 0);
        assert!(CsrFile::open(dir.path(), "in", 2, 3, true).is_err());
        assert!(CsrFile::open(dir.path(), "in", 3, 4, true).is_err());
    }

    #[test]
    fn decreasing_offsets_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let mut offsets =
            ArrayWriter::<u64>::create(&dir.path().join("in.offsets.u64"), "offsets").unwrap();
        offsets.write(&[0, 2, 1, 2]).unwrap();
        offsets.finish().unwrap();
        let path = dir.path().join("in.neighbours.u32");
        let mut neighbours = ArrayWriter::<u32>::create(&path, "neighbours").unwrap();
        neighbours.write(&[0, 1]).unwrap();
        neighbours.finish().unwrap();
        let error = CsrFile::open(dir.path(), "in", 3, 2, false).unwrap_err().to_string();
        assert!(
            error.ends_with("in.offsets.u64: offset of row 2 (found 1, expected at least 2)"),
            "{error}"
        );
    }

    #[test]
    fn rows_that_kernels_cannot_rely_on_are_rejected() {
        let open = |neighbours: &[u32], values: &[f32]| {
            let dir = tempfile::tempdir().unwrap();
            let directory = dir.path().join("relations").join("r");
            std::fs::create_dir_all(&directory).unwrap();
            let mut writer = CsrWriter::create(&directory, "in", true).unwrap();
            writer.extend(neighbours, values).unwrap();
            writer.end_rows(&[0, 3, 1]).unwrap();
            writer.finish().unwrap();
            let error = CsrFile::open(&directory, "in", 3, 4, true).err()?.to_string();
            let (place, tail) = error.split_once(": the dataset is damaged: ").unwrap();
            assert_eq!(tail, format!("`ignn check {}` shows the details", dir.path().display()));
            Some(place.rsplit('/').next().unwrap().to_string())
        };
        let (sound, ones) = ([0, 1, 2, 0], [1.0; 4]);
        assert_eq!(open(&sound, &ones), None);
        let expected = "in.neighbours.u32: row 1: neighbours must be strictly increasing (found 0 \
                        after 0)";
        assert_eq!(open(&[0; 4], &ones).unwrap(), expected);
        let expected = "in.neighbours.u32: row 2: neighbour (found 3, expected less than 3)";
        assert_eq!(open(&[0, 1, 2, 3], &ones).unwrap(), expected);
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0] {
            let expected = format!(
                "in.values.f32: row 1: value (found {wrong}, expected a finite number that is not \
                 negative)"
            );
            assert_eq!(open(&sound, &[1.0, 1.0, wrong, 1.0]).unwrap(), expected);
        }
        assert_eq!(open(&sound, &[0.0, -0.0, f32::MAX, f32::MIN_POSITIVE]), None);
    }

    /// All small rows at the ends of blocks and of each other, empty ones among them.
    #[test]
    fn blocks_are_sound_if_all_their_rows_are() {
        let mut sequence = crate::random::Sequence::new(1, "rows");
        let mut seen = [0, 0];
        for _ in 0..400 {
            let dir = tempfile::tempdir().unwrap();
            let mut writer = CsrWriter::create(dir.path(), "in", false).unwrap();
            let rows = 1 + sequence.below(6);
            let mut entries = 0;
            for _ in 0..rows {
                let mut row: Vec<u32> =
                    (0..sequence.below(3)).map(|_| sequence.below(rows + 1) as u32).collect();
                if sequence.below(4) > 0 {
                    row.sort_unstable();
                    row.dedup();
                    row.retain(|&neighbour| u64::from(neighbour) < rows);
                }
                entries += row.len() as u64;
                writer.extend(&row, &[]).unwrap();
                writer.end_rows(&[row.len() as u64]).unwrap();
            }
            writer.finish().unwrap();
            let csr = CsrFile::map(dir.path(), "in", rows, entries, false).unwrap();
            for first in 0..rows as usize {
                for end in first..=rows as usize {
                    let is_sound = |row| csr.faults(row) == RowFaults::default();
                    let expected = (first..end).all(is_sound);
                    assert_eq!(csr.is_sound(&(first..end)), expected);
                    seen[usize::from(expected)] += 1;
                }
            }
        }
        assert!(seen[0] > 500 && seen[1] > 500, "{seen:?}");
    }
}
