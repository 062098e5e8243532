//! Scratch files: they have no name, so that nothing of them is left when their process ends, in
//! whatever way it ends.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open};
use rustix::io::Errno;

use super::operation::{self, Operation, announce};
use crate::error::{FormatError, Result};

/// Bytes that are written at a time where a file system cannot reserve space.
const ZEROS: usize = 1 << 20;
/// Bytes that are written to measure a disk.
const MEASURED: u64 = 128 << 20;

/// A file of `bytes` zeros in a directory, without a name. Its space is reserved: a disk that fills
/// up later does not concern it.
pub fn scratch_file(directory: &Path, bytes: u64) -> Result<File> {
    // For whoever watches; the file is never visible under it.
    let path = directory.join(".ignn-scratch");
    let file = announce(|| Operation::Create { path: path.clone() })
        .and_then(|()| nameless(directory))
        .map_err(FormatError::io("create a scratch file", directory))?;
    announce(|| Operation::Resize { path, length: bytes })
        .and_then(|()| reserve(&file, bytes))
        .map_err(FormatError::io("reserve space for a scratch file", directory))?;
    Ok(file)
}

/// Bytes that a user without privileges can still write below a directory.
pub fn free_space(directory: &Path) -> Result<u64> {
    let found = rustix::fs::statvfs(directory).map_err(io::Error::from);
    let found = found.map_err(FormatError::io("find the free space", directory))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Bytes per second that a disk writes, by a small scratch file.
pub fn write_speed(directory: &Path) -> Result<f64> {
    let file = scratch_file(directory, 0)?;
    let start = Instant::now();
    let written = write_zeros(&file, MEASURED).and_then(|()| file.sync_data());
    written.map_err(FormatError::io("write a scratch file", directory))?;
    Ok(MEASURED as f64 / start.elapsed().as_secs_f64().max(1e-9))
}

fn nameless(directory: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match open(directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => named_and_removed(directory),
        Err(error) => Err(error.into()),
    }
}

/// The same where the file system has no files without a name. A kill between its two calls leaves an
/// empty file; there are no others to be recognised.
fn named_and_removed(directory: &Path) -> io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".ignn-scratch-{}-{count}", std::process::id()));
        match File::options().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                operation::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP) => write_zeros(file, bytes),
        Err(error) => Err(error.into()),
    }
}

fn write_zeros(mut file: &File, mut bytes: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS];
    while bytes > 0 {
        let part = bytes.min(ZEROS as u64);
        file.write_all(&zeros[..part as usize])?;
        bytes -= part;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_scratch_file_has_zeros_its_space_and_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let before = free_space(dir.path()).unwrap();
        assert!(before > 0);
        let files =
            [scratch_file(dir.path(), 3 << 20).unwrap(), named_and_removed(dir.path()).unwrap()];
        write_zeros(&files[1], 3 << 20).unwrap();
        for file in files {
            let found = file.metadata().unwrap();
            assert_eq!((found.len(), found.nlink()), (3 << 20, 0));
            assert!(found.blocks() * 512 >= 3 << 20, "reserved");
            let mut bytes = [1; 7];
            file.read_exact_at(&mut bytes, (3 << 20) - 7).unwrap();
            assert_eq!(bytes, [0; 7]);
        }
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_killed_process_leaves_no_scratch_file() {
        const DIRECTORY: &str = "IGNN_TEST_SCRATCH_DIRECTORY";
        if let Some(dir) = std::env::var_os(DIRECTORY) {
            let dir = Path::new(&dir);
            let files = [nameless(dir).unwrap(), named_and_removed(dir).unwrap()];
            files.iter().for_each(|file| write_zeros(file, 1 << 20).unwrap());
            println!("written");
            // Until it is killed.
            io::stdin().read_line(&mut String::new()).unwrap();
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let name = "storage::scratch::tests::a_killed_process_leaves_no_scratch_file";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(DIRECTORY, dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("written")));
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_missing_and_a_disk_that_is_too_small_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let error = scratch_file(&dir.path().join("missing"), 1).unwrap_err().to_string();
        assert!(error.contains("missing: cannot create a scratch file: "), "{error}");
        let error = scratch_file(dir.path(), 1 << 55).unwrap_err().to_string();
        assert!(error.contains("cannot reserve space for a scratch file: "), "{error}");
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
}
