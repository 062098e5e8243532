//! The memory of a matrix: zeroed lines, from the allocator if they are few and on huge pages
//! otherwise; in a scratch file, if the thread is in the scope of a [`Scratch`].
//!
//! A sweep gathers rows from anywhere in the state. On small pages nearly every row would cost a
//! walk through the page tables.

use bytemuck::Zeroable;
use ignn_format::mapped::{AnonymousMemory, ScratchMemory};

use super::Line;
use super::scratch::{Scratch, Use};

/// From this many bytes on, memory comes from the system on huge pages: four of them or more.
pub(super) const LARGE: usize = 8 << 20;

#[derive(Debug)]
pub enum Lines {
    Heap(Vec<Line>),
    Pages(AnonymousMemory),
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
        let pages = if bytes >= LARGE { AnonymousMemory::new(bytes) } else { None };
        pages.map_or_else(|| Self::Heap(vec![Line::zeroed(); lines]), Self::Pages)
    }

    pub fn all(&self) -> &[Line] {
        match self {
            Self::Heap(lines) => lines,
            Self::Pages(bytes) => bytemuck::cast_slice(bytes),
            Self::Disk(bytes, _) => bytemuck::cast_slice(bytes),
        }
    }

    pub fn all_mut(&mut self) -> &mut [Line] {
        match self {
            Self::Heap(lines) => lines,
            Self::Pages(bytes) => bytemuck::cast_slice_mut(bytes),
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
}
