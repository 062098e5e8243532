//! Matrices that lie on a disk. Within [`Scratch::scope`], the calling thread allocates large
//! matrices in scratch files that are mapped into memory: to whoever uses them they are matrices
//! like others. The system keeps as many of their pages in memory as there is room for.
//!
//! That is good for passes from the first row to the last one. Gathering rows from anywhere is not
//! such a pass; kernels therefore copy what they gather from into memory, as many columns at a time
//! as [`Scratch::memory`] allows.
//!
//! ```
//! use ignn::dense::{Matrix, Scratch};
//!
//! let scratch = Scratch::new(std::env::temp_dir(), 1 << 30);
//! let matrix = scratch.scope(|| Matrix::zeros(100_000, 32));
//! assert_eq!(scratch.used(), 100_000 * 32 * 4);
//! drop(matrix);
//! assert_eq!(scratch.used(), 0);
//! scratch.check()?;
//! # Ok::<(), ignn::FormatError>(())
//! ```

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ignn_format::FormatError;
use ignn_format::mapped::ScratchMemory;

use super::matrix::lines;
use super::memory::LARGE;
use super::{LINE, Matrix};

/// Matrices that are kept to be used again, of each kind.
const KEPT: usize = 64;

thread_local! {
    /// The scratch of the scope that the thread is in.
    static CURRENT: RefCell<Option<Arc<Scratch>>> = const { RefCell::new(None) };
}

/// Where large matrices lie, and how much memory may be used for gathering from them.
#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
    least: usize,
    memory: u64,
    used: Arc<AtomicU64>,
    peak: AtomicU64,
    failed: Mutex<Option<FormatError>>,
    /// Matrices in memory and on the disk that are free to be used again: fresh pages are slow.
    kept: [Mutex<Vec<Matrix>>; 2],
}

/// A part of the disk in use, until it is dropped.
#[derive(Debug)]
pub(super) struct Use {
    bytes: u64,
    used: Arc<AtomicU64>,
}

impl Drop for Use {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A matrix that goes back to its scratch when it is dropped.
#[derive(Debug)]
pub struct Lent {
    matrix: Option<Matrix>,
    scratch: Arc<Scratch>,
    place: usize,
}

impl Scratch {
    /// Scratch files in a directory, and `memory` bytes to gather from.
    pub fn new(directory: impl Into<PathBuf>, memory: u64) -> Arc<Self> {
        Self::with_least(directory, memory, LARGE)
    }

    /// The same; matrices of at least `least` bytes lie on the disk.
    pub fn with_least(directory: impl Into<PathBuf>, memory: u64, least: usize) -> Arc<Self> {
        Arc::new(Self {
            directory: directory.into(),
            least,
            memory,
            used: Arc::default(),
            peak: AtomicU64::new(0),
            failed: Mutex::default(),
            kept: Default::default(),
        })
    }

    /// The directory of the scratch files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Bytes that what is gathered from may take in memory.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Bytes of all scratch files now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The most bytes of scratch files so far.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Calls `work`, whose large matrices lie on the disk if this thread allocates them.
    pub fn scope<R>(self: &Arc<Self>, work: impl FnOnce() -> R) -> R {
        /// Restores the scope around this one, also after a panic.
        struct Restore(Option<Arc<Scratch>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(Arc::clone(self))));
        work()
    }

    /// The scratch of the scope that the calling thread is in.
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Whether a matrix of this size lies on the disk.
    pub fn takes(&self, bytes: usize) -> bool {
        bytes >= self.least.max(1)
    }

    /// The error of a scratch file that could not be made, the first of them. The matrix is in
    /// memory instead, and whatever is computed with it is right; but a run that goes on takes more
    /// memory than it may.
    pub fn check(&self) -> Result<(), FormatError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// [`Scratch::check`] of the scope that the calling thread is in.
    pub fn check_current() -> Result<(), FormatError> {
        Self::current().map_or(Ok(()), |scratch| scratch.check())
    }

    /// Memory on the disk; `None` if there is none, which [`Scratch::check`] reports.
    pub(super) fn allocate(&self, bytes: usize) -> Option<(ScratchMemory, Use)> {
        match ScratchMemory::new(&self.directory, bytes) {
            Ok(memory) => {
                let bytes = bytes as u64;
                let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
                self.peak.fetch_max(used, Ordering::Relaxed);
                Some((memory, Use { bytes, used: Arc::clone(&self.used) }))
            }
            Err(error) => {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
                None
            }
        }
    }

    /// A matrix on the disk, or in memory, with any content but zero padding.
    pub fn lend(self: &Arc<Self>, rows: usize, cols: usize, in_memory: bool) -> Lent {
        let place = usize::from(in_memory);
        let mut kept = self.kept(place);
        let needed = lines(rows, cols, LINE);
        let fits = |matrix: &Matrix| needed <= matrix.all_lines().len();
        let found = kept.iter().enumerate().filter(|(_, matrix)| fits(matrix));
        let found = found.min_by_key(|(_, matrix)| matrix.all_lines().len()).map(|(at, _)| at);
        let matrix = match found {
            Some(at) => kept.swap_remove(at).reshaped(rows, cols),
            None => {
                if in_memory {
                    // Too small: what is lent next is no smaller.
                    kept.clear();
                }
                drop(kept);
                if in_memory { Matrix::resident(rows, cols) } else { Matrix::zeros(rows, cols) }
            }
        };
        Lent { matrix: Some(matrix), scratch: Arc::clone(self), place }
    }

    fn kept(&self, place: usize) -> MutexGuard<'_, Vec<Matrix>> {
        self.kept[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::ops::Deref for Lent {
    type Target = Matrix;

    fn deref(&self) -> &Matrix {
        self.matrix.as_ref().expect("a matrix until it is dropped")
    }
}

impl std::ops::DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Matrix {
        self.matrix.as_mut().expect("a matrix until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut kept = self.scratch.kept(self.place);
        if kept.len() < KEPT {
            kept.extend(self.matrix.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(least: usize) -> (tempfile::TempDir, Arc<Scratch>) {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::with_least(dir.path(), 0, least);
        (dir, scratch)
    }

    #[test]
    fn large_matrices_of_a_scope_lie_on_the_disk() {
        let (_dir, scratch) = scratch(1 << 12);
        let (mut large, small) = scratch.scope(|| (Matrix::zeros(100, 16), Matrix::zeros(10, 16)));
        assert_eq!(scratch.used(), 6400);
        large.row_mut(99).fill(2.0);
        let copy = large.clone();
        assert_eq!(scratch.used(), 6400, "a copy outside of the scope is in memory");
        assert_eq!((copy.row(99), small.row(9)), (&[2.0; 16][..], &[0.0; 16][..]));
        let outer = Matrix::zeros(100, 16);
        drop((large, outer));
        assert_eq!((scratch.used(), scratch.peak()), (0, 6400));
        scratch.check().unwrap();
    }

    #[test]
    fn a_disk_without_room_is_reported_and_the_matrix_is_in_memory() {
        let (dir, scratch) = scratch(1);
        drop(dir);
        let matrix = scratch.scope(|| Matrix::zeros(3, 4));
        assert_eq!((matrix.row(2), scratch.used()), (&[0.0; 4][..], 0));
        let error = scratch.check().unwrap_err().to_string();
        assert!(error.contains("cannot create a scratch file"), "{error}");
        scratch.check().unwrap();
    }

    #[test]
    fn lent_matrices_are_used_again() {
        let (_dir, scratch) = scratch(1);
        scratch.scope(|| {
            let address = |matrix: &Matrix| matrix.all_lines().as_ptr() as usize;
            let first = scratch.lend(10, 32, false);
            let at = address(&first);
            drop(first);
            let again = scratch.lend(10, 16, false);
            assert_eq!((address(&again), again.rows(), again.cols()), (at, 10, 16));
            assert!(address(&scratch.lend(10, 32, false)) != at);
            assert_eq!(scratch.used(), 2 * 1280);
            let resident = scratch.lend(10, 32, true);
            assert_eq!((scratch.used(), resident.view().rows()), (2 * 1280, 10));
        });
    }
}
