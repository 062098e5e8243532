//! Whether the program made a file, or a directory and everything in it, so that replacing it loses
//! no data of the user.

use std::fs;
use std::path::Path;

use super::draft::Draft;
use super::lock::DirectoryLock;
use super::workspace;
use crate::error::{FormatError, Result};

/// A kind of file or directory that the program makes and `--force` may replace.
#[derive(Debug)]
pub struct Kind {
    /// Refuses a file that the program did not make, and a directory that is not of this kind or
    /// has anything else in it; see [`check_contents`] and [`not_replaceable`].
    pub check: fn(&Path) -> Result<()>,
}

/// Any plain file, for names in directories that belong to the program, and for callers of the
/// library that ask for it.
pub static ANY_FILE: Kind = Kind { check: |_| Ok(()) };

/// A directory that the program fills step by step, each part checked by its own kind. A marker
/// file in it proves that the program made it.
#[derive(Debug)]
pub struct MarkedDirectory {
    /// "an experiment".
    pub what: &'static str,
    /// Name of the marker file.
    pub marker: &'static str,
    /// Names that the program may write in it, with a slash after a directory.
    pub names: &'static [&'static str],
}

impl MarkedDirectory {
    /// Locks a directory and marks it. Without `force`, it must be new, empty, or marked. With
    /// `force`, it may contain only names that the program writes, marked or not.
    pub fn claim(&self, directory: &Path, force: bool) -> Result<DirectoryLock> {
        let lock = DirectoryLock::create(directory)?;
        let (marker, entries) = (directory.join(self.marker), entries(directory)?);
        let is_marked = marker.symlink_metadata().is_ok_and(|found| found.is_file());
        if force {
            let is_own = |(name, is_directory, is_file): &(String, bool, bool)| {
                let name = if *is_directory { format!("{name}/") } else { name.clone() };
                let is_known = name == self.marker || self.names.contains(&name.as_str());
                (*is_directory || *is_file) && is_known || workspace::drafted(&name).is_some()
            };
            if let Some((name, ..)) = entries.iter().find(|entry| !is_own(entry)) {
                return Err(FormatError::Foreign { path: directory.join(name), what: self.what });
            }
        } else if !is_marked && !entries.is_empty() {
            return Err(FormatError::Exists { path: directory.into() });
        }
        if !is_marked {
            Draft::create(&marker, None)?.write(b"")?;
        }
        Ok(lock)
    }
}

/// Refuses a directory in which any name is not the program's own, and any link. `is_own` is asked
/// about each path below the directory, with `/` between names and after a directory: `a/`, `a/b`.
/// Drafts of own names are own.
pub fn check_contents(
    directory: &Path,
    what: &'static str,
    is_own: &dyn Fn(&str) -> bool,
) -> Result<()> {
    check_below(directory, "", what, is_own)
}

fn check_below(
    directory: &Path,
    prefix: &str,
    what: &'static str,
    is_own: &dyn Fn(&str) -> bool,
) -> Result<()> {
    for (name, is_directory, is_file) in entries(directory)? {
        let (path, below) = (directory.join(&name), format!("{prefix}{name}"));
        let is_accepted = if let Some(drafted) = workspace::drafted(&name) {
            let drafted = format!("{prefix}{drafted}");
            is_directory
                && (is_own(&drafted) || is_own(&format!("{drafted}/")))
                && workspace::is_own(&path)
        } else if is_directory {
            let below = format!("{below}/");
            if is_own(&below) {
                check_below(&path, &below, what, is_own)?;
            }
            is_own(&below)
        } else {
            is_file && is_own(&below)
        };
        if !is_accepted {
            return Err(FormatError::Foreign { path, what });
        }
    }
    Ok(())
}

/// The error for a file or directory that is not of a kind. Of a directory it names the first thing
/// in it, which tells a user what was nearly replaced.
pub fn not_replaceable(path: &Path, what: impl Into<Box<str>>) -> FormatError {
    let first = entries(path).ok().and_then(|entries| entries.into_iter().next());
    let holds = first.map_or(String::new(), |(name, ..)| format!(" (it holds {name})"));
    FormatError::NotReplaceable { path: path.into(), what: what.into(), holds }
}

/// Names in order, and whether each is a directory or a plain file; a link is neither.
fn entries(directory: &Path) -> Result<Vec<(String, bool, bool)>> {
    let failed = || FormatError::io("read", directory);
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let kind = entry.file_type().map_err(failed())?;
        // A name that is not UTF-8 is never the program's, and is not after this either.
        let name = entry.file_name().to_string_lossy().into_owned();
        all.push((name, kind.is_dir(), kind.is_file()));
    }
    all.sort_unstable();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_name_is_found_at_any_depth() {
        let dir = tempfile::tempdir().unwrap();
        let is_own = |path: &str| ["a/", "a/b", "c"].contains(&path);
        let check = || check_contents(dir.path(), "a thing", &is_own);
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/b"), "").unwrap();
        fs::write(dir.path().join("c"), "").unwrap();
        fs::create_dir_all(dir.path().join("a/.b.ignn-draft/ignn-new")).unwrap();
        fs::create_dir_all(dir.path().join(".a.ignn-draft")).unwrap();
        check().unwrap();
        for foreign in ["a/d", "d", "c~", "a/.b.ignn-draft/mine", ".d.ignn-draft"] {
            fs::create_dir(dir.path().join(foreign)).unwrap();
            let error = check().unwrap_err().to_string();
            assert!(error.contains(": not a file of a thing: --force would remove it"), "{error}");
            fs::remove_dir(dir.path().join(foreign)).unwrap();
        }
        fs::remove_file(dir.path().join("c")).unwrap();
        std::os::unix::fs::symlink("a/b", dir.path().join("c")).unwrap();
        assert!(matches!(check(), Err(FormatError::Foreign { .. })), "a link is not ours");
        let error = not_replaceable(dir.path(), "a thing").to_string();
        let expected = ": not a thing (it holds .a.ignn-draft): --force replaces only what ignn \
                        made: choose another name";
        assert!(error.ends_with(expected), "{error}");
    }
}
