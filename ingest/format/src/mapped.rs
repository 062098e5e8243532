//! Memory-mapped array files and anonymous memory: the only calls of mmap in the project. Headers
//! and lengths are checked here, contents by the callers.
//!
//! # Safety of the mapping
//! If another process truncates a mapped file, access raises SIGBUS; if it rewrites the file, data
//! changes behind a shared reference. No system call prevents that on Linux. Dataset directories
//! are therefore written once, under a temporary name, and renamed when complete. No program of
//! this project opens a file of a finished dataset for writing, and `--force` replaces the
//! directory, which leaves mapped inodes untouched.

use std::fs::File;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use memmap2::{Advice, Mmap, MmapMut};

use crate::error::{FormatError, Result};
use crate::header::{self, Element, HEADER_BYTES};

/// A read-only array in a mapped file; dereferences to a slice aligned to 64 bytes.
#[derive(Debug)]
pub struct MappedArray<T> {
    map: Mmap,
    element: PhantomData<T>,
}

/// How the pages of a mapping will be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Sequentially, once.
    Sequential,
    /// At random.
    Random,
    /// All of them, soon.
    WillNeed,
}

impl<T: Element> MappedArray<T> {
    /// Maps a file and checks its header and length.
    pub fn open(path: &Path, kind: &str) -> Result<Self> {
        let file = File::open(path).map_err(FormatError::io("open", path))?;
        let metadata = file.metadata().map_err(FormatError::io("read", path))?;
        if !metadata.is_file() {
            return Err(FormatError::invalid(
                path,
                "array file",
                "a directory or device",
                "a file",
            ));
        }
        let length = metadata.len();
        if length < HEADER_BYTES as u64 {
            let found = format!("{length} bytes");
            return Err(FormatError::invalid(
                path,
                "truncated array file",
                found,
                "a 64-byte header",
            ));
        }
        // SAFETY: the file belongs to a dataset directory, which is written once (see the module
        // docs).
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(FormatError::io("map", path))?;
        header::decode::<T>(&map, path, kind)?;
        Ok(Self { map, element: PhantomData })
    }

    /// Advises the system how the array will be read; never an error.
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

/// Zeroed private memory, aligned to a page, on huge pages if the system allows.
///
/// Pages are allocated on first write, close to the thread that writes.
#[derive(Debug)]
pub struct AnonymousMemory {
    map: MmapMut,
}

impl AnonymousMemory {
    /// `None` if the system refuses, and for zero bytes.
    pub fn new(bytes: usize) -> Option<Self> {
        if bytes == 0 {
            return None;
        }
        let map = MmapMut::map_anon(bytes).ok()?;
        #[cfg(target_os = "linux")]
        // This is only advice: without huge pages, the system uses small ones.
        let _ = map.advise(Advice::HugePage);
        Some(Self { map })
    }
}

impl Deref for AnonymousMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl DerefMut for AnonymousMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::ArrayWriter;

    #[test]
    fn an_empty_array_is_an_empty_slice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let entry = ArrayWriter::<u64>::create(&path, "offsets").unwrap().finish().unwrap();
        assert_eq!(entry.bytes, 64);
        let array = MappedArray::<u64>::open(&path, "offsets").unwrap();
        array.advise(Access::WillNeed);
        assert!(array.is_empty());
        assert!(MappedArray::<u64>::open(dir.path(), "offsets").is_err());
    }

    #[test]
    fn anonymous_memory_is_zero_and_aligned() {
        let mut memory = AnonymousMemory::new(5_000_000).unwrap();
        assert!(memory.iter().all(|&byte| byte == 0));
        assert_eq!(memory.as_ptr() as usize % 4096, 0);
        memory[4_999_999] = 7;
        assert_eq!((memory.len(), memory[4_999_999]), (5_000_000, 7));
        assert!(AnonymousMemory::new(0).is_none());
    }

    #[test]
    fn a_large_array_comes_back_through_any_size_of_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let elements: Vec<u32> = (0..3_000_000).collect();
        let mut writer = ArrayWriter::<u32>::create(&path, "neighbours").unwrap();
        let (mut at, mut size) = (0, 1);
        while at < elements.len() {
            let end = elements.len().min(at + size);
            writer.write(&elements[at..end]).unwrap();
            (at, size) = (end, size * 3);
        }
        assert_eq!(writer.count(), 3_000_000);
        let entry = writer.finish().unwrap();
        assert_eq!(entry, crate::checksum::of_file(&path, 64).unwrap());
        assert_eq!(MappedArray::<u32>::open(&path, "neighbours").unwrap()[..], elements[..]);
        assert!(
            ArrayWriter::<u32>::create(&path, "neighbours").is_err(),
            "a file is never overwritten"
        );
    }
}
