//! A directory that appears complete or not at all.

use std::io;
use std::path::{Path, PathBuf};

use super::ownership::Kind;
use super::workspace::{Workspace, hold_signals};
use super::{exists, is_empty_directory, operation, sync_directory};
use crate::error::{FormatError, Result};

/// A temporary directory that becomes the target on [`Staging::commit`], and is removed if it is
/// dropped without a commit.
#[derive(Debug)]
pub struct Staging {
    workspace: Workspace,
    directory: PathBuf,
    replaces: Option<&'static Kind>,
}

impl Staging {
    /// Reserves a target directory and creates it under a temporary name. An existing target that
    /// is not empty is refused, unless it is of the kind `replaces`.
    pub fn create(target: &Path, replaces: Option<&'static Kind>) -> Result<Self> {
        // Reserved first, so that nothing seen after that is unfinished work of another run.
        let workspace = Workspace::claim(target, "a new directory")?;
        let staging = Self { directory: workspace.new_path(), workspace, replaces };
        staging.replaces_target()?;
        let made = operation::make_directory(staging.path());
        made.map_err(FormatError::io("create", staging.path()))?;
        Ok(staging)
    }

    /// Whether the target is replaced; an error if it must not be.
    fn replaces_target(&self) -> Result<bool> {
        let target = self.target();
        if !exists(target) || is_empty_directory(target) {
            return Ok(false);
        }
        let Some(kind) = self.replaces else {
            return Err(FormatError::Exists { path: target.into() });
        };
        if !target.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            let found = if target.is_symlink() { "a link" } else { "a file" };
            let expected = "a directory that ignn made, or a new name";
            return Err(FormatError::invalid(target, "output", found, expected));
        }
        (kind.check)(target)?;
        Ok(true)
    }

    /// A temporary directory that is never committed; its target may exist.
    pub fn scratch(name: &Path) -> Result<Self> {
        let workspace = Workspace::claim(name, "a new directory")?;
        let directory = workspace.new_path();
        operation::make_directory(&directory).map_err(FormatError::io("create", &directory))?;
        Ok(Self { workspace, directory, replaces: None })
    }

    /// The temporary directory.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// The target.
    pub fn target(&self) -> &Path {
        self.workspace.target()
    }

    /// Syncs everything in the directory and renames it to its target. An old target is exchanged
    /// with it in one step, and removed when the exchange is durable.
    pub fn commit(self) -> Result<()> {
        sync_tree(&self.directory)?;
        let live = hold_signals();
        let placed = self.take_place();
        self.workspace.close(live, placed)
    }

    fn take_place(&self) -> Result<()> {
        let (new, target, old) = (&self.directory, self.target(), self.workspace.old_path());
        let failed = || FormatError::io("rename", target);
        if !self.replaces_target()? {
            operation::rename(new, target).map_err(|error| match error.kind() {
                // It appeared just now.
                io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                    FormatError::Exists { path: target.into() }
                }
                _ => failed()(error),
            })?;
            return self.workspace.sync_names_or(|| operation::rename(target, new));
        }
        if operation::exchange(new, target).map_err(failed())? {
            return self.workspace.sync_names_or(|| operation::exchange(new, target).map(drop));
        }
        // In two steps: after a crash between them the next run restores the old target.
        operation::rename(target, &old).map_err(failed())?;
        operation::rename(new, target).map_err(|error| {
            let _ = operation::rename(&old, target);
            failed()(error)
        })?;
        self.workspace.sync_names_or(|| {
            operation::rename(target, new).and_then(|()| operation::rename(&old, target))
        })
    }
}

/// Syncs everything in a directory, and the directory itself. Files are not synced while they are
/// written: by the end, the system has written most of them anyway, and discarded output costs
/// nothing.
fn sync_tree(directory: &Path) -> Result<()> {
    if !super::is_durable(directory) {
        return Ok(());
    }
    let failed = || FormatError::io("read", directory);
    for entry in std::fs::read_dir(directory).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed())?);
        if kind.is_dir() {
            sync_tree(&path)?;
        } else if kind.is_file() {
            operation::sync_file(&path).map_err(FormatError::io("sync", &path))?;
        }
    }
    sync_directory(directory)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::storage::{
        ANY_FILE, Draft, Operation, check_contents, create_below, not_replaceable, watch,
        write_file, write_new,
    };

    /// Directories with a file `f`.
    static KIND: Kind = Kind { check: |path| check_contents(path, "a test", &|path| path == "f") };

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn commit(target: &Path, force: bool, content: &str) -> Result<()> {
        let staging = Staging::create(target, force.then_some(&KIND))?;
        write_new(&staging.path().join("f"), content.as_bytes())?;
        staging.commit()
    }

    #[test]
    fn directories_are_created_below_a_root_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let (root, gone) = (dir.path().join("root"), dir.path().join("gone"));
        fs::create_dir(&root).unwrap();
        for _ in 0..2 {
            create_below(&root, &root.join("a/b")).unwrap();
        }
        assert!(root.join("a/b").is_dir());
        assert!(create_below(&gone, &gone.join("a/b")).is_err());
        assert_eq!(names(dir.path()), ["root"]);
    }

    #[test]
    fn the_target_appears_complete_and_nothing_else_remains() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("new/deep/out");
        let staging = Staging::create(&target, None).unwrap();
        write_new(&staging.path().join("f"), b"1").unwrap();
        assert!(!target.exists());
        staging.commit().unwrap();
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "1");
        assert_eq!(names(&target), ["f"]);
        assert_eq!(names(target.parent().unwrap()), ["out"]);
    }

    #[test]
    fn an_existing_target_is_rejected_and_force_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        // An empty directory is free.
        fs::create_dir(&target).unwrap();
        commit(&target, false, "1").unwrap();
        assert!(matches!(commit(&target, false, "2"), Err(FormatError::Exists { .. })));
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "1");
        commit(&target, true, "3").unwrap();
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "3");
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn force_removes_nothing_of_the_users() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        commit(&target, false, "1").unwrap();
        fs::create_dir(target.join(".git")).unwrap();
        let error = commit(&target, true, "2").unwrap_err();
        assert!(matches!(error, FormatError::Foreign { .. }), "{error}");
        fs::remove_dir(target.join(".git")).unwrap();
        // It may appear while the new one is written.
        let staging = Staging::create(&target, Some(&KIND)).unwrap();
        write_new(&staging.path().join("f"), b"2").unwrap();
        fs::write(target.join("notes"), "").unwrap();
        assert!(matches!(staging.commit(), Err(FormatError::Foreign { .. })));
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "1");
        let file = dir.path().join("file");
        fs::write(&file, "mine").unwrap();
        assert!(commit(&file, true, "2").is_err());
        assert_eq!(names(dir.path()), ["file", "out"]);
    }

    #[test]
    fn force_replaces_only_files_of_its_kind() {
        static MARKED: Kind = Kind {
            check: |path| match fs::read(path) {
                Ok(bytes) if bytes.starts_with(b"ours") => Ok(()),
                _ => Err(not_replaceable(path, "a test")),
            },
        };
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let write = || Draft::create(&file, Some(&MARKED))?.write(b"new");
        for free in ["", "ours"] {
            fs::write(&file, free).unwrap();
            write().unwrap();
        }
        fs::write(&file, "mine").unwrap();
        let error = write().unwrap_err().to_string();
        let expected =
            "file: not a test: --force replaces only what ignn made: choose another name";
        assert!(error.ends_with(expected), "{error}");
        // It may become another's while the new one is written.
        fs::write(&file, "ours").unwrap();
        let draft = Draft::create(&file, Some(&MARKED)).unwrap();
        fs::write(&file, "mine").unwrap();
        assert!(matches!(draft.write(b"new"), Err(FormatError::NotReplaceable { .. })));
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    }

    #[test]
    fn a_target_that_appeared_meanwhile_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let staging = Staging::create(&target, None).unwrap();
        fs::write(&target, "somebody else's").unwrap();
        assert!(matches!(staging.commit(), Err(FormatError::Exists { .. })));
        let file = dir.path().join("file");
        let draft = Draft::create(&file, None).unwrap();
        fs::write(&file, "somebody else's").unwrap();
        assert!(matches!(draft.write(b"1"), Err(FormatError::Exists { .. })));
        assert_eq!(fs::read_to_string(&file).unwrap(), "somebody else's");
        assert_eq!(names(dir.path()), ["file", "out"]);
    }

    #[test]
    fn links_are_neither_followed_nor_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (target, other) = (dir.path().join("out"), dir.path().join("other"));
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
        };
        commit(&other, false, "keep").unwrap();
        link(&other, "out");
        assert!(commit(&target, true, "new").is_err());
        link(&other.join("f"), "file");
        assert!(write_file(&dir.path().join("file"), b"new").is_err());
        // Something else at the name of a draft.
        link(&other, ".planted.ignn-draft");
        let error = commit(&dir.path().join("planted"), false, "new").unwrap_err().to_string();
        let expected = ".planted.ignn-draft: temporary directory (found something else, expected a \
                        draft of ignn: move it away first)";
        assert!(error.ends_with(expected), "{error}");
        assert_eq!(fs::read_to_string(other.join("f")).unwrap(), "keep");
        assert_eq!(names(&other), ["f"]);
        assert_eq!(names(dir.path()), [".planted.ignn-draft", "file", "other", "out"]);
    }

    #[test]
    fn a_users_directory_with_the_name_of_a_draft_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (target, draft) = (dir.path().join("out"), dir.path().join(".out.ignn-draft"));
        fs::create_dir_all(draft.join("ignn-new")).unwrap();
        fs::write(draft.join("mine"), "").unwrap();
        assert!(commit(&target, true, "new").is_err());
        assert_eq!(names(&draft), ["ignn-new", "mine"]);
        fs::remove_dir_all(&draft).unwrap();
        fs::write(&draft, "mine").unwrap();
        assert!(commit(&target, true, "new").is_err());
        assert_eq!(fs::read_to_string(&draft).unwrap(), "mine");
    }

    #[test]
    fn without_commit_nothing_remains() {
        let dir = tempfile::tempdir().unwrap();
        let staging = Staging::create(&dir.path().join("out"), None).unwrap();
        fs::create_dir_all(staging.path().join("a/b")).unwrap();
        assert_eq!(names(dir.path()), [".out.ignn-draft"]);
        drop(staging);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn created_parents_are_removed_with_their_target() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("there")).unwrap();
        drop(Staging::create(&dir.path().join("new/deep/out"), None).unwrap());
        drop(Staging::create(&dir.path().join("there/out"), None).unwrap());
        assert_eq!(names(dir.path()), ["there"]);
        fs::write(dir.path().join("file"), "").unwrap();
        for below in ["file/out", "file/deep/out"] {
            let error = Staging::create(&dir.path().join(below), None).unwrap_err().to_string();
            assert!(
                error.ends_with("file: parent of the output (found a file, expected a directory)"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_live_run_is_busy_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let staging = Staging::create(&target, None).unwrap();
        let error = Staging::create(&target, Some(&KIND)).unwrap_err();
        assert!(matches!(error, FormatError::Busy { .. }), "{error}");
        assert!(matches!(Draft::create(&target, Some(&ANY_FILE)), Err(FormatError::Busy { .. })));
        // The name of another target may have the same prefix.
        drop(Staging::create(&dir.path().join("out.ignn-draft"), None).unwrap());
        drop(Staging::create(&dir.path().join("ou"), None).unwrap());
        write_new(&staging.path().join("f"), b"").unwrap();
        staging.commit().unwrap();
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn remains_of_dead_runs_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".out.ignn-draft/ignn-new/deep")).unwrap();
        fs::create_dir_all(dir.path().join(".file.ignn-draft")).unwrap();
        fs::write(dir.path().join(".file.ignn-draft/ignn-new"), "half").unwrap();
        let foreign = [".other.ignn-draft", ".out.ignn-draft.ignn-draft", ".out.ignn-draftx"];
        foreign.iter().for_each(|name| fs::create_dir(dir.path().join(name)).unwrap());
        commit(&dir.path().join("out"), false, "1").unwrap();
        write_file(&dir.path().join("file"), b"1").unwrap();
        assert_eq!(names(dir.path()), [&foreign[..], &["file", "out"]].concat());
    }

    #[test]
    fn an_old_target_without_replacement_is_restored() {
        let dir = tempfile::tempdir().unwrap();
        let (target, draft) = (dir.path().join("out"), dir.path().join(".out.ignn-draft"));
        commit(&target, false, "old").unwrap();
        fs::create_dir_all(draft.join("ignn-new")).unwrap();
        fs::rename(&target, draft.join("ignn-old")).unwrap();
        // Without force the run fails, but the old target is restored.
        assert!(matches!(commit(&target, false, "new"), Err(FormatError::Exists { .. })));
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "old");
        assert_eq!(names(dir.path()), ["out"]);
        // One that was replaced is removed.
        fs::create_dir_all(draft.join("ignn-old")).unwrap();
        commit(&target, true, "newer").unwrap();
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "newer");
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn a_path_without_a_name_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["..", ".", "/", "x/.", "x/./", "x/..", "./."] {
            let error = Staging::create(&dir.path().join(path), None).unwrap_err().to_string();
            assert!(error.contains("output (found a path without a name"), "{path}: {error}");
            assert!(Draft::create(&dir.path().join(path), None).is_err());
        }
        commit(&dir.path().join("x/"), false, "1").unwrap();
        assert_eq!(names(dir.path()), ["x"]);
    }

    /// The operations of `act` below a directory, without the directory in their paths.
    fn recorded(directory: &Path, act: impl FnOnce()) -> Vec<String> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let root = directory.to_path_buf();
        let watch = watch(directory, move |operation| {
            let short =
                |path: &Path| path.strip_prefix(&root).unwrap_or(path).display().to_string();
            sink.lock().unwrap().push(match operation {
                Operation::Write { path, offset, bytes } => {
                    format!("write {} {offset} {}", short(path), bytes.len())
                }
                Operation::Create { path } => format!("create {}", short(path)),
                Operation::SyncFile { path } => format!("sync {}", short(path)),
                Operation::SyncDirectory { path } => format!("sync {}/", short(path)),
                Operation::Rename { from, to } => format!("rename {} {}", short(from), short(to)),
                Operation::Exchange { first, second } => {
                    format!("exchange {} {}", short(first), short(second))
                }
                Operation::MakeDirectory { path } => format!("make {}/", short(path)),
                Operation::RemoveTree { path } => format!("remove {}/", short(path)),
                other => format!("{other:?}"),
            });
            Ok(())
        });
        act();
        drop(watch);
        Arc::into_inner(seen).unwrap().into_inner().unwrap()
    }

    #[test]
    fn contents_are_synced_before_the_rename_and_names_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let made =
            recorded(dir.path(), || commit(&dir.path().join("new/out"), false, "1").unwrap());
        let expected = [
            "make new/",
            "make new/.out.ignn-draft/",
            "make new/.out.ignn-draft/ignn-new/",
            "create new/.out.ignn-draft/ignn-new/f",
            "write new/.out.ignn-draft/ignn-new/f 0 1",
            "sync new/.out.ignn-draft/ignn-new/f",
            "sync new/.out.ignn-draft/ignn-new/",
            "rename new/.out.ignn-draft/ignn-new new/out",
            "sync new/",
            "sync /",
            "remove new/.out.ignn-draft/",
        ];
        assert_eq!(made, expected);
        let replaced =
            recorded(dir.path(), || commit(&dir.path().join("new/out"), true, "2").unwrap());
        let expected = [
            "exchange new/.out.ignn-draft/ignn-new new/out",
            "sync new/",
            "remove new/.out.ignn-draft/",
        ];
        assert!(replaced.ends_with(&expected.map(String::from)), "{replaced:?}");
        let written = recorded(dir.path(), || {
            write_file(&dir.path().join("file"), b"12").unwrap();
            write_file(&dir.path().join("file"), b"").unwrap();
        });
        let expected = [
            "make .file.ignn-draft/",
            "create .file.ignn-draft/ignn-new",
            "write .file.ignn-draft/ignn-new 0 2",
            "sync .file.ignn-draft/ignn-new",
            "rename .file.ignn-draft/ignn-new file",
            "sync /",
            "remove .file.ignn-draft/",
            "make .file.ignn-draft/",
            "create .file.ignn-draft/ignn-new",
            "sync .file.ignn-draft/ignn-new",
            "exchange .file.ignn-draft/ignn-new file",
            "sync /",
            "remove .file.ignn-draft/",
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn file_systems_that_cannot_exchange_names_move_the_old_target_aside() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        commit(&target, false, "0").unwrap();
        // Nothing, or each of the renames, fails as well.
        for failing in 0..3 {
            let mut renames = 0;
            let watch = watch(dir.path(), move |operation| {
                renames += u32::from(matches!(operation, Operation::Rename { .. }));
                match operation {
                    Operation::Exchange { .. } => Err(io::Error::from_raw_os_error(22)),
                    Operation::Rename { .. } if renames == failing => {
                        Err(io::Error::from_raw_os_error(5))
                    }
                    _ => Ok(()),
                }
            });
            let result = commit(&target, true, &failing.to_string());
            drop(watch);
            assert_eq!(result.is_ok(), failing == 0);
            assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "0");
            assert_eq!(names(dir.path()), ["out"]);
        }
        // The old target cannot be moved back: it is kept where the next run finds it.
        let mut renames = 0;
        let watch = watch(dir.path(), move |operation| {
            renames += u32::from(matches!(operation, Operation::Rename { .. }));
            match operation {
                Operation::Exchange { .. } => Err(io::Error::from_raw_os_error(22)),
                Operation::Rename { .. } if renames > 1 => Err(io::Error::from_raw_os_error(5)),
                _ => Ok(()),
            }
        });
        assert!(commit(&target, true, "9").is_err());
        drop(watch);
        assert_eq!(names(dir.path()), [".out.ignn-draft"]);
        assert!(matches!(commit(&target, false, "9"), Err(FormatError::Exists { .. })));
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "0");
    }

    #[test]
    fn an_operation_that_fails_leaves_the_old_state_or_the_new_one() {
        use crate::storage::faults::{self, Fault};
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("new/out");
        for force in [false, true] {
            for number in 1.. {
                assert!(number < 100, "no end");
                let fault = faults::at(dir.path(), number, Fault::Error(28));
                let result = commit(&target, force, "2");
                drop(fault);
                match (&result, force) {
                    (Ok(()), _) => break,
                    (Err(_), true) => {
                        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "1");
                        assert_eq!(names(target.parent().unwrap()), ["out"], "{number}");
                    }
                    (Err(_), false) => {
                        assert!(names(dir.path()).is_empty(), "{number}: {:?}", names(dir.path()));
                    }
                }
            }
            if !force {
                commit(&target, true, "1").unwrap();
            }
        }
    }
}
