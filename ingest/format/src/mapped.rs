//! Memory-mapped array files and anonymous memory: the only calls of mmap in the project. Headers
//! and lengths are checked here, contents by the callers.
//!
//! # Safety of the mapping
//! If another process truncates a mapped file, access raises SIGBUS; if it rewrites the file, data
//! changes behind a shared reference. No system call prevents that on Linux. Dataset directories
//! are therefore written once, under a temporary name, and renamed when complete. No program of
//! this project opens a file of a finished dataset for writing, and `--force` replaces the
//! directory, which leaves mapped inodes untouched.
//!
//! If a file is truncated while it is in use, or its disk fails, SIGBUS ends the process. After a
//! call of [`report_bus_errors`], the process ends with a message that names the file. The library
//! never calls it by itself, because signal handlers belong to the whole process.
//!
//! If somebody writes to a file while it is in use, results may be wrong. Mapping a file therefore
//! records its length and times. [`MappedArray::check_unchanged`] compares them; it is called before
//! a result is written. Another length or time of modification is a write. If only the time of the
//! last change differs, a program may have restored the other (`rsync --times --inplace`), or the
//! file may just have another mode, name or link. The bytes of a file of a dataset are then compared
//! with its checksum. Replacing or removing a file is not a change: the mapping keeps the old file.

use std::fs::{self, Metadata};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};

use memmap2::{Advice, Mmap, MmapMut};

use crate::checksum;
use crate::error::{FormatError, Result};
use crate::header::{self, Element, HEADER_BYTES};
use crate::{regular, storage};

/// A read-only array in a mapped file; dereferences to a slice aligned to 64 bytes.
#[derive(Debug)]
pub struct MappedArray<T> {
    map: Mmap,
    source: Arc<Source>,
    /// Its entry in the table of mappings that a bus error can name.
    _named: Option<bus::Named>,
    element: PhantomData<T>,
}

/// A file as it was when it was mapped.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    stamp: Mutex<Stamp>,
    /// The checksum of its array, if it is known.
    checksum: OnceLock<String>,
}

/// Metadata that changes if somebody writes to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    file: (u64, u64),
}

/// The files that are mapped in this process, and some that were.
static SOURCES: Mutex<Vec<Weak<Source>>> = Mutex::new(Vec::new());

impl Source {
    fn new(path: &Path, metadata: &Metadata) -> Arc<Self> {
        let stamp = Mutex::new(Stamp::of(metadata));
        let source = Arc::new(Self { path: path.into(), stamp, checksum: OnceLock::new() });
        let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() == sources.capacity() {
            sources.retain(|source| source.strong_count() > 0);
        }
        sources.push(Arc::downgrade(&source));
        source
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the checksum that decides where times do not: that of the bytes after the header.
    pub fn expect_checksum(&self, xxh3: &str) {
        self.checksum.get_or_init(|| xxh3.into());
    }

    /// Refuses the file if somebody has written to it since it was mapped.
    pub fn check_unchanged(&self) -> Result<()> {
        let before = *self.stamp();
        let Ok(found) = fs::metadata(&self.path).map(|metadata| Stamp::of(&metadata)) else {
            return Ok(());
        };
        match found.since(&before) {
            Since::Other | Since::Same => Ok(()),
            Since::Written => self.changed(),
            Since::Touched => self.compare(&before),
        }
    }

    /// Compares the bytes with the checksum, if it is known.
    fn compare(&self, before: &Stamp) -> Result<()> {
        let Some(expected) = self.checksum.get() else { return Ok(()) };
        let (mut file, _) = match regular::open(&self.path) {
            Ok(opened) => opened,
            // It was removed just now.
            Err(_) if !self.path.exists() => return Ok(()),
            Err(error) => return Err(error),
        };
        // Another file may have its name by now.
        let found = Stamp::of(&file.metadata().map_err(FormatError::io("open", &self.path))?);
        match found.since(before) {
            Since::Other => return Ok(()),
            Since::Written => return self.changed(),
            Since::Same | Since::Touched => {}
        }
        let skip = HEADER_BYTES as u64;
        if checksum::of_reader(&mut file, &self.path, skip, &mut |_| {})?.xxh3 != *expected {
            return self.changed();
        }
        *self.stamp() = found;
        Ok(())
    }

    fn changed(&self) -> Result<()> {
        Err(FormatError::Changed { path: self.path.clone() })
    }

    /// Held for single assignments only, because a panic may be explained while it is held.
    fn stamp(&self) -> MutexGuard<'_, Stamp> {
        self.stamp.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            file: (metadata.dev(), metadata.ino()),
        }
    }

    /// What has happened since an earlier stamp.
    fn since(&self, before: &Self) -> Since {
        match self {
            _ if self.file != before.file => Since::Other,
            _ if (self.length, self.modified) != (before.length, before.modified) => Since::Written,
            _ if self.changed != before.changed => Since::Touched,
            _ => Since::Same,
        }
    }
}

/// How two stamps of a path differ.
enum Since {
    /// They are of different files.
    Other,
    /// Somebody wrote to the file.
    Written,
    /// Only the time of the last change tells that something happened.
    Touched,
    Same,
}

/// Returns an error if any file that is mapped in this process has changed since. It is for
/// programs that want to explain a panic; jobs call [`MappedArray::check_unchanged`] instead.
pub fn check_all_unchanged() -> Result<()> {
    let sources = match SOURCES.try_lock() {
        Ok(sources) => sources,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // The panicking thread may hold the lock.
        Err(TryLockError::WouldBlock) => return Ok(()),
    };
    sources.iter().filter_map(Weak::upgrade).try_for_each(|source| source.check_unchanged())
}

/// What a bus error says of a file of a dataset, and of a scratch file, after the name.
const IN_A_DATASET: &str = ": the file was truncated or changed while it was in use, or its disk \
                            failed: check the dataset with `ignn check`\n";
const IN_SCRATCH: &str = ": a scratch file in this directory cannot be read or written: has its disk \
                          failed?\n";

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
        let (file, length) = regular::open(path)?;
        let source = Source::new(path, &file.metadata().map_err(FormatError::io("open", path))?);
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
        let named = bus::Named::new(&map, path, IN_A_DATASET);
        Ok(Self { map, source, _named: named, element: PhantomData })
    }

    /// Refuses the file if somebody has written to it since it was mapped.
    pub fn check_unchanged(&self) -> Result<()> {
        self.source.check_unchanged()
    }

    /// The file.
    pub(crate) fn source(&self) -> &Source {
        &self.source
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

/// From now on, a bus error (SIGBUS) in a mapped file ends the process with a message that names
/// the file, and with exit code 2. It installs a signal handler for the whole process and is meant
/// for programs; call it before anything is mapped. Bus errors anywhere else are left to the
/// handler that was there before. Does nothing on systems without such signals.
pub fn report_bus_errors() {
    bus::install();
}

/// From now on, a write beyond the limit of file sizes (`ulimit -f`) fails with an error that names
/// the file. Otherwise the system ends the process by a signal (SIGXFSZ). It is meant for programs,
/// and stands here because signals need `unsafe`. Does nothing on systems without such signals.
pub fn report_size_limits() {
    bus::ignore_size_limits();
}

#[cfg(unix)]
mod bus {
    //! A table of the mapped ranges and their files, and a handler that reads it. The handler uses
    //! atomics, `write` and `_exit` alone, all of which are safe in a signal handler.

    use std::ffi::{c_int, c_void};
    use std::path::Path;
    use std::ptr;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

    use nix::libc;

    /// Mappings beyond this number cannot be named.
    const PLACES: usize = 4096;
    /// Start of an entry that is taken but not complete. No mapping starts at this address.
    const TAKEN: usize = 1;

    struct Place {
        /// 0 for a free place.
        start: AtomicUsize,
        end: AtomicUsize,
        message: AtomicPtr<u8>,
        message_length: AtomicUsize,
    }

    static TABLE: [Place; PLACES] = [const {
        Place {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            message: AtomicPtr::new(ptr::null_mut()),
            message_length: AtomicUsize::new(0),
        }
    }; PLACES];

    static HAS_PRINTED: AtomicBool = AtomicBool::new(false);

    /// What the handler prints. Control characters of a path are escaped here, because the
    /// handler can do nothing but write.
    fn message(path: &Path, what: &str) -> String {
        let mut text = String::from("error: ");
        for letter in path.display().to_string().chars() {
            match letter.is_control() {
                true => text.extend(letter.escape_unicode()),
                false => text.push(letter),
            }
        }
        text + what
    }

    /// The handler before ours; set once ours is installed.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    /// A mapping in the table, until it is dropped.
    #[derive(Debug)]
    pub struct Named(usize);

    impl Named {
        /// Adds a mapping, if the handler is installed and there is room.
        pub fn new(map: &[u8], path: &Path, what: &str) -> Option<Self> {
            BEFORE.get()?;
            let is_free = |place: &Place| {
                let (order, otherwise) = (Ordering::Acquire, Ordering::Relaxed);
                place.start.compare_exchange(0, TAKEN, order, otherwise).is_ok()
            };
            let at = TABLE.iter().position(is_free)?;
            let place = &TABLE[at];
            // Never freed: the handler may read it at any time, in any thread. A program that
            // asked for the handler maps few files.
            let message = message(path, what).into_bytes().leak();
            place.message.store(message.as_mut_ptr(), Ordering::Relaxed);
            place.message_length.store(message.len(), Ordering::Relaxed);
            let start = map.as_ptr() as usize;
            place.end.store(start + map.len(), Ordering::Relaxed);
            place.start.store(start, Ordering::Release);
            Some(Self(at))
        }
    }

    impl Drop for Named {
        fn drop(&mut self) {
            TABLE[self.0].start.store(0, Ordering::Release);
        }
    }

    pub fn install() {
        if BEFORE.get().is_some() {
            return;
        }
        // SAFETY: all bytes zero are a valid `sigaction`: no flags, no handler, an empty mask.
        #[allow(unsafe_code)]
        let (mut new, mut old): (libc::sigaction, libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        new.sa_sigaction =
            handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler has the type that SA_SIGINFO asks for and is safe at any moment; both
        // pointers are to live values.
        #[allow(unsafe_code)]
        let result = unsafe { libc::sigaction(libc::SIGBUS, &new, &mut old) };
        if result == 0 {
            let _ = BEFORE.set(old);
        }
    }

    pub fn ignore_size_limits() {
        // SAFETY: no handler runs; the signal is only ignored.
        #[allow(unsafe_code)]
        let _ = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    }

    extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        // SAFETY: with SA_SIGINFO the system passes a valid `info`, which has an address for
        // SIGBUS.
        #[allow(unsafe_code)]
        let address = unsafe { (*info).si_addr() } as usize;
        for place in &TABLE {
            let start = place.start.load(Ordering::Acquire);
            if start <= TAKEN || !(start..place.end.load(Ordering::Relaxed)).contains(&address) {
                continue;
            }
            // Several threads may get here at once: one of them prints and ends the process.
            while HAS_PRINTED.swap(true, Ordering::Relaxed) {
                // SAFETY: waits for a signal; always safe.
                #[allow(unsafe_code)]
                unsafe {
                    libc::pause()
                };
            }
            let length = place.message_length.load(Ordering::Relaxed);
            write(place.message.load(Ordering::Relaxed), length);
            // SAFETY: ends the process at once, without destructors.
            #[allow(unsafe_code)]
            unsafe {
                libc::_exit(2)
            }
        }
        // Not one of our files: restore the previous handler, which runs when the access fails
        // again.
        if let Some(before) = BEFORE.get() {
            // SAFETY: `before` is what the system gave us.
            #[allow(unsafe_code)]
            let _ = unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
        }
    }

    /// Writes to standard error; nothing can be done if that fails.
    fn write(bytes: *const u8, length: usize) {
        // SAFETY: callers pass the start and length of live bytes.
        #[allow(unsafe_code)]
        let _ = unsafe { libc::write(2, bytes.cast(), length) };
    }
}

#[cfg(not(unix))]
mod bus {
    //! Systems without bus errors.

    use std::path::Path;

    #[derive(Debug)]
    pub struct Named;

    impl Named {
        pub fn new(_map: &[u8], _path: &Path, _what: &str) -> Option<Self> {
            None
        }
    }

    pub fn install() {}

    pub fn ignore_size_limits() {}
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

/// Zeroed memory in a scratch file, aligned to a page: the system keeps as many of its pages in
/// memory as there is room for, and the others on the disk.
#[derive(Debug)]
pub struct ScratchMemory {
    map: MmapMut,
    _named: Option<bus::Named>,
}

impl ScratchMemory {
    /// Memory in a nameless file in `directory`, with its space on the disk reserved. At least one
    /// byte.
    pub fn new(directory: &Path, bytes: usize) -> Result<Self> {
        let file = storage::scratch_file(directory, bytes as u64)?;
        // SAFETY: the file has no name, so that no other process can open it, and its only handle is
        // closed at the end of this function.
        #[allow(unsafe_code)]
        let map = unsafe { MmapMut::map_mut(&file) };
        let map = map.map_err(FormatError::io("map a scratch file", directory))?;
        let named = bus::Named::new(&map, directory, IN_SCRATCH);
        Ok(Self { map, _named: named })
    }
}

impl Deref for ScratchMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl DerefMut for ScratchMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::ArrayWriter;

    #[test]
    fn scratch_memory_is_zero_aligned_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut memory = ScratchMemory::new(dir.path(), 5_000_000).unwrap();
        assert!(memory.iter().all(|&byte| byte == 0));
        assert_eq!(memory.as_ptr() as usize % 4096, 0);
        memory[4_999_999] = 7;
        assert_eq!((memory.len(), memory[4_999_999]), (5_000_000, 7));
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }

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
    fn a_file_that_somebody_writes_to_is_noticed_and_one_that_is_replaced_is_not() {
        use std::time::{Duration, SystemTime};
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a"), dir.path().join("b"));
        for path in [&path, &other] {
            let mut writer = ArrayWriter::<u32>::create(path, "neighbours").unwrap();
            writer.write(&[1, 2, 3]).unwrap();
            writer.finish().unwrap();
        }
        let array = MappedArray::<u32>::open(&path, "neighbours").unwrap();
        let set_time = |path: &Path, seconds: u64| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        };
        array.check_unchanged().unwrap();
        set_time(&path, 1000);
        let error = array.check_unchanged().unwrap_err();
        assert!(matches!(&error, FormatError::Changed { path: found } if *found == path));
        assert!(check_all_unchanged().is_err());
        // As `--force` does it: the mapping keeps the old file.
        fs::rename(&other, &path).unwrap();
        array.check_unchanged().unwrap();
        fs::remove_file(&path).unwrap();
        array.check_unchanged().unwrap();
        assert_eq!(array[..], [1, 2, 3]);
    }

    #[test]
    fn bytes_decide_where_only_the_time_of_the_last_change_differs() {
        use std::io::Write;
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a"), dir.path().join("b"));
        let mut writer = ArrayWriter::<u32>::create(&path, "neighbours").unwrap();
        writer.write(&[1, 2, 3]).unwrap();
        let entry = writer.finish().unwrap();
        let array = MappedArray::<u32>::open(&path, "neighbours").unwrap();
        array.source().expect_checksum(&entry.xxh3);
        let before = fs::metadata(&path).unwrap();
        let bytes = fs::read(&path).unwrap();
        let write = |bytes: &[u8]| {
            let mut file = fs::File::options().write(true).open(&path).unwrap();
            file.write_all(bytes).unwrap();
            file.set_modified(before.modified().unwrap()).unwrap();
        };
        // Repeated, because the clock of the file system may be coarse.
        let until_it_shows = |change: &dyn Fn()| {
            let changed = || Stamp::of(&fs::metadata(&path).unwrap()).changed;
            let earlier = changed();
            while changed() == earlier {
                change();
            }
        };
        let set_mode = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        until_it_shows(&|| {
            fs::hard_link(&path, &other).unwrap();
            fs::remove_file(&other).unwrap();
        });
        array.check_unchanged().unwrap();
        until_it_shows(&|| {
            fs::rename(&path, &other).unwrap();
            fs::rename(&other, &path).unwrap();
        });
        array.check_unchanged().unwrap();
        until_it_shows(&|| set_mode(before.permissions().mode()));
        array.check_unchanged().unwrap();
        let found = Stamp::of(&fs::metadata(&path).unwrap());
        assert_eq!(*array.source().stamp(), found, "bytes are compared once");
        // The same bytes again, and then others, with another mode.
        until_it_shows(&|| write(&bytes));
        array.check_unchanged().unwrap();
        let mut others = bytes;
        *others.last_mut().unwrap() ^= 1;
        until_it_shows(&|| {
            write(&others);
            set_mode(0o600);
        });
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before.modified().unwrap());
        for _ in 0..2 {
            assert!(matches!(array.check_unchanged(), Err(FormatError::Changed { .. })));
        }
    }

    /// The signal ends the process, so the test runs itself again as a child process; an
    /// environment variable tells the child.
    #[cfg(unix)]
    #[test]
    fn a_file_that_is_cut_while_it_is_mapped_is_named() {
        const FILE: &str = "IGNN_TEST_CUT_FILE";
        if let Some(path) = std::env::var_os(FILE) {
            report_bus_errors();
            let path = Path::new(&path);
            let array = MappedArray::<u32>::open(path, "neighbours").unwrap();
            fs::OpenOptions::new().write(true).open(path).unwrap().set_len(64).unwrap();
            panic!("read {}", array[array.len() - 1]);
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut writer = ArrayWriter::<u32>::create(&path, "neighbours").unwrap();
        writer.write(&(0..100_000).collect::<Vec<u32>>()).unwrap();
        writer.finish().unwrap();
        let name = "mapped::tests::a_file_that_is_cut_while_it_is_mapped_is_named";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(FILE, &path)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = format!("error: {}: the file was truncated or changed", path.display());
        assert!(said.contains(&expected), "{said}");
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
        assert_eq!(entry, checksum::of_file(&path, 64).unwrap());
        assert_eq!(MappedArray::<u32>::open(&path, "neighbours").unwrap()[..], elements[..]);
        assert!(
            ArrayWriter::<u32>::create(&path, "neighbours").is_err(),
            "a file is never overwritten"
        );
    }
}
