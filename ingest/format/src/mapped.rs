//! Memory-mapped array files, and the only calls of mmap in the project.
//! It checks headers and lengths; what the numbers mean is for `csr` and above.
//!
//! # Safety of the mapping
//! A mapped file that another process truncates raises SIGBUS, and one that it rewrites changes under a shared
//! reference. No operating-system call prevents that on Linux. Dataset directories are therefore written once,
//! under a temporary name, and renamed when complete: no program of this project ever opens a file of a finished
//! dataset for writing, and `--force` replaces the directory, which leaves the mapped inodes untouched.

use std::fs::File;
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::Path;

use memmap2::{Advice, Mmap};

use crate::error::{FormatError, Result};
use crate::header::{self, Element, HEADER_BYTES};

/// A read-only array in a mapped file; dereferences to a slice aligned to 64 bytes.
#[derive(Debug)]
pub struct MappedArray<T> {
    map: Mmap,
    element: PhantomData<T>,
}

/// How the pages of a mapping will be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// From front to back, once.
    Sequential,
    /// Anywhere.
    Random,
    /// All of it, soon.
    WillNeed,
}

impl<T: Element> MappedArray<T> {
    /// Maps a file and checks its header and length.
    pub fn open(path: &Path, kind: &str) -> Result<Self> {
        let file = File::open(path).map_err(FormatError::io("open", path))?;
        let length = file.metadata().map_err(FormatError::io("read", path))?.len();
        if length < HEADER_BYTES as u64 {
            let found = format!("{length} bytes");
            return Err(FormatError::invalid(path, "truncated array file", found, "a 64-byte header"));
        }
        // SAFETY: the file belongs to a dataset directory, which is written once (see the module's text).
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(FormatError::io("map", path))?;
        header::decode::<T>(&map, path, kind)?;
        Ok(Self { map, element: PhantomData })
    }

    /// Tells the system how the array will be read; advice, never an error.
    pub fn advise(&self, access: Access) {
        let advice = match access {
            Access::Sequential => Advice::Sequential,
            Access::Random => Advice::Random,
            Access::WillNeed => Advice::WillNeed,
        };
        let _ = self.map.advise(advice);
    }
}

impl<T: Element> Deref for MappedArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.map[HEADER_BYTES..])
    }
}
