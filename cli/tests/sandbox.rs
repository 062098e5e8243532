//! The test fixture: a temporary directory, the binary run in it, and its output.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A temporary directory in which the binary is run.
pub struct Sandbox {
    directory: TempDir,
}

/// Exit code and output of the binary.
pub struct Run {
    arguments: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Sandbox {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    /// A path inside.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a name below the directory")).unwrap();
        fs::write(path, contents).unwrap();
        self
    }

    /// Reads a file as text.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Names of everything in the directory, sorted, hidden files too.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// The binary, to be run in the directory.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ignn"));
        command.args(arguments).current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    /// Runs the binary.
    pub fn ignn(&self, arguments: &[&str]) -> Run {
        Self::run(self.command(arguments), arguments)
    }

    /// Runs the binary in an address space of this many MiB, so that it cannot take more memory.
    pub fn ignn_within(&self, mebibytes: u64, arguments: &[&str]) -> Run {
        self.ignn_limited(&format!("-v {}", mebibytes << 10), arguments)
    }

    /// Runs the binary with a limit of `ulimit`.
    pub fn ignn_limited(&self, limit: &str, arguments: &[&str]) -> Run {
        let mut command = Command::new("sh");
        let limited = format!("ulimit {limit} && exec \"$0\" \"$@\"");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_ignn")]).args(arguments);
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        Self::run(command, arguments)
    }

    fn run(mut command: Command, arguments: &[&str]) -> Run {
        let output = command.output().expect("the binary runs");
        Run {
            arguments: arguments.join(" "),
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Run {
    /// Asserts the exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        let Self { arguments, stdout, stderr, .. } = &self;
        assert_eq!(
            self.code,
            Some(code),
            "ignn {arguments}\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        );
        self
    }

    /// Asserts that standard output holds a piece of text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(
            self.stdout.contains(text),
            "ignn {}: no {text:?} in\n{}",
            self.arguments,
            self.stdout
        );
        self
    }

    /// Asserts exit code 2, nothing on standard output, and exactly this error.
    #[track_caller]
    pub fn fails_with(self, message: &str) -> Self {
        let run = self.exits(2);
        assert_eq!(
            (run.stdout.as_str(), run.stderr.as_str()),
            ("", format!("error: {message}\n").as_str())
        );
        run
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in\n{}", self.stdout))
    }
}

/// Sends a signal to a process that a test started.
pub fn send(signal: Signal, child: &Child) {
    kill(Pid::from_raw(child.id() as i32), signal).expect("the process is there");
}

/// Every file below a directory, by its path from there, with its contents.
pub fn files_below(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn visit(at: &Path, root: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, root, files);
            } else {
                files.insert(path.strip_prefix(root).unwrap().into(), fs::read(&path).unwrap());
            }
        }
    }
    let mut files = BTreeMap::new();
    visit(directory, directory, &mut files);
    files
}

/// A path in the shared data, or `None` after printing that it is not available.
pub fn shared(part: &str) -> Option<PathBuf> {
    let root =
        std::env::var_os("IGNN_SHARED").map_or_else(|| project().join("../shared"), PathBuf::from);
    let path = root.join(part);
    if !path.exists() {
        println!(
            "skipped: no {} (set IGNN_SHARED to the directory that has {part})",
            path.display()
        );
    }
    path.exists().then_some(path)
}

/// The root of the project.
pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the project")
}
