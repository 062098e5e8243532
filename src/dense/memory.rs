//! The memory of a matrix: zeroed lines, from the allocator if they are few and on huge pages
//! otherwise; in a scratch file, if the thread is in the scope of a [`Scratch`].
//!
//! A sweep gathers rows from anywhere in the state. On small pages nearly every row would cost a
//! walk through the page tables.
//!
//! The system zeroes fresh pages slowly, one fault at a time. Work whose matrices live for one step
//! keeps what it frees ([`Reuse`]).

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytemuck::Zeroable;
use ignn_format::mapped::{AnonymousMemory, ScratchMemory};

use super::Line;
use super::scratch::{Scratch, Use};

/// From this many bytes on, memory comes from the system on huge pages: four of them or more.
pub(super) const LARGE: usize = 8 << 20;

/// From this many bytes on, memory is kept to be used again.
const REUSED: usize = 256 << 10;

/// A kept region is used again for anything of at least this fraction of its size.
const WASTE: usize = 2;

/// While there is one, the memory of large matrices that are dropped is kept for those that follow,
/// in all threads of the process.
#[derive(Debug)]
pub struct Reuse(());

/// What is kept, and for how many.
#[derive(Debug)]
struct Kept {
    users: usize,
    regions: Vec<AnonymousMemory>,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { users: 0, regions: Vec::new() });

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reuse {
    /// Begins to keep memory, until it is dropped.
    #[allow(clippy::new_without_default)] // It has an effect beyond its value.
    pub fn new() -> Self {
        kept().users += 1;
        Self(())
    }
}

impl Drop for Reuse {
    fn drop(&mut self) {
        let mut kept = kept();
        kept.users -= 1;
        if kept.users == 0 {
            kept.regions.clear();
        }
    }
}

/// Lines on pages of the system's.
#[derive(Debug)]
pub struct Pages {
    /// At least as many bytes; there until it is dropped.
    memory: Option<AnonymousMemory>,
    bytes: usize,
}

impl Pages {
    /// Zeroed memory; `None` if it is too small or the system refuses.
    fn zeros(bytes: usize) -> Option<Self> {
        if bytes < REUSED {
            return None;
        }
        let mut kept = kept();
        if kept.users == 0 {
            drop(kept);
            let memory = if bytes >= LARGE { AnonymousMemory::new(bytes) } else { None };
            return memory.map(|memory| Self { memory: Some(memory), bytes });
        }
        let sizes = kept.regions.iter().map(|region| region.len()).enumerate();
        let fits = sizes.clone().filter(|&(_, size)| bytes <= size && size / WASTE <= bytes);
        let found = fits.min_by_key(|&(_, size)| size).map(|(at, _)| at);
        if let Some(at) = found {
            let mut memory = kept.regions.swap_remove(at);
            drop(kept);
            memory[..bytes].fill(0);
            return Some(Self { memory: Some(memory), bytes });
        }
        // The new region replaces the largest one that is too small: matrices grow, their number
        // does not.
        let too_small = sizes.filter(|&(_, size)| size < bytes).max_by_key(|&(_, size)| size);
        if let Some((at, _)) = too_small {
            kept.regions.swap_remove(at);
        }
        drop(kept);
        let memory = AnonymousMemory::new(bytes)?;
        Some(Self { memory: Some(memory), bytes })
    }

    fn all(&self) -> &[u8] {
        &self.memory.as_ref().expect("memory until it is dropped")[..self.bytes]
    }

    fn all_mut(&mut self) -> &mut [u8] {
        &mut self.memory.as_mut().expect("memory until it is dropped")[..self.bytes]
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let mut kept = kept();
        if kept.users > 0 {
            kept.regions.extend(self.memory.take());
        }
    }
}

#[derive(Debug)]
pub enum Lines {
    Heap(Vec<Line>),
    Pages(Pages),
    Disk(ScratchMemory, #[allow(dead_code)] Use),
}

impl Lines {
    pub fn zeros(lines: usize) -> Self {
        let bytes = lines.saturating_mul(size_of::<Line>());
        let on_disk = Scratch::current().filter(|scratch| scratch.takes(bytes));
        let on_disk = on_disk.and_then(|scratch| scratch.allocate(bytes));
        on_disk.map_or_else(|| Self::resident(lines), |(memory, used)| Self::Disk(memory, used))
    }

    /// In memory, whatever the scope.
    pub fn resident(lines: usize) -> Self {
        let bytes = lines.saturating_mul(size_of::<Line>());
        let pages = Pages::zeros(bytes);
        pages.map_or_else(|| Self::Heap(vec![Line::zeroed(); lines]), Self::Pages)
    }

    pub fn all(&self) -> &[Line] {
        match self {
            Self::Heap(lines) => lines,
            Self::Pages(pages) => bytemuck::cast_slice(pages.all()),
            Self::Disk(bytes, _) => bytemuck::cast_slice(bytes),
        }
    }

    pub fn all_mut(&mut self) -> &mut [Line] {
        match self {
            Self::Heap(lines) => lines,
            Self::Pages(pages) => bytemuck::cast_slice_mut(pages.all_mut()),
            Self::Disk(bytes, _) => bytemuck::cast_slice_mut(bytes),
        }
    }
}

impl Clone for Lines {
    fn clone(&self) -> Self {
        let mut copy = Self::zeros(self.all().len());
        copy.all_mut().copy_from_slice(self.all());
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_and_small_behave_alike() {
        for lines in [0, 3, LARGE / size_of::<Line>() + 1] {
            let mut memory = Lines::zeros(lines);
            assert_eq!(memory.all().len(), lines);
            assert!(memory.all().iter().all(|line| line.0 == [0.0; 16]));
            if let Some(last) = memory.all_mut().last_mut() {
                last.0[15] = 1.0;
                assert_eq!(memory.clone().all()[lines - 1].0[15], 1.0);
            }
        }
    }
    #[test]
    fn what_is_kept_is_used_again_and_zero() {
        // Other tests of the process may allocate meanwhile, so that addresses say nothing.
        let lines = |bytes: usize| bytes / size_of::<Line>();
        let reuse = Reuse::new();
        for bytes in [REUSED, 3 * REUSED, 2 * REUSED, LARGE + 64, LARGE, REUSED - 64] {
            let mut memory = Lines::zeros(lines(bytes));
            assert_eq!(memory.all().len(), lines(bytes));
            assert!(memory.all().iter().all(|line| line.0 == [0.0; 16]), "{bytes}");
            memory.all_mut().fill(Line([1.0; 16]));
        }
        assert!(!kept().regions.is_empty());
        let smaller = Lines::zeros(lines(LARGE / 2 + 64));
        assert!(matches!(smaller, Lines::Pages(_)));
        drop(smaller);
        drop(reuse);
    }
}
