//! Messages outside of results: how errors are printed, what happens on signals, and the exit codes
//! of both.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::error::ErrorKind;
use ignn::run::RunError;
use ignn::train::TrainError;
#[cfg(unix)]
use nix::sys::signal::{SigSet, Signal};

use super::printer;

/// Exit code after SIGINT, SIGTERM, SIGHUP or SIGUSR1; the handler does not know which.
pub const STOPPED: u8 = 130;

/// Signals that follow each other faster than a person presses keys are one.
const ECHO: Duration = Duration::from_millis(100);

/// Exit code of an error: 1 where the input was in order but a goal was missed, 2 otherwise.
pub fn code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(RunError::Train(TrainError::NotConverged { .. })) => 1,
        _ => 2,
    }
}

/// Prints `error: ...` with every cause that its message does not already contain.
pub fn print_error(error: &anyhow::Error) {
    printer::message(&format!("error: {}", full_message(error)));
}

/// Prints what is wrong with the arguments, or the help that was asked for, and exits.
pub fn refuse(error: &clap::Error) -> ! {
    let text = error.render();
    if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        printer::styled_message(&text);
        std::process::exit(error.exit_code());
    }
    // Help is a result: a write that fails is an error.
    let code = match printer::styled_result(&text) {
        Ok(()) => error.exit_code(),
        Err(error) => {
            print_error(&error);
            code(&error).into()
        }
    };
    std::process::exit(code);
}

/// A panic while a mapped file was changed ends the process with the message that names the file,
/// as an error would. Everything else is left to the hook that was there before.
pub fn explain_panics() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        static HAS_PRINTED: AtomicBool = AtomicBool::new(false);
        let Err(error) = ignn_format::mapped::check_all_unchanged() else { return before(info) };
        // Several threads may get here at once: one of them prints and ends the process.
        while HAS_PRINTED.swap(true, Ordering::Relaxed) {
            std::thread::park();
        }
        ignn_format::storage::abandon_all();
        print_error(&error.into());
        std::process::exit(2);
    }));
}

/// The message with its causes.
pub fn full_message(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Our error types name their cause themselves.
        if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

/// When the last signal came.
static LAST: Mutex<Option<Instant>> = Mutex::new(None);
/// Set by the first signal, for commands that end their work themselves.
static STOP: AtomicBool = AtomicBool::new(false);
/// Whether the command is one of those.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// Whether the command has ended, so that signals change nothing any more.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// From now on signals are ignored: the outcome is known.
pub fn ignore_signals() {
    HAS_ENDED.store(true, Ordering::Relaxed);
}

/// From now on the first signal only sets the returned flag; a second one ends the process as
/// before.
pub fn ask_to_stop() -> &'static AtomicBool {
    IS_ASKED.store(true, Ordering::Relaxed);
    &STOP
}

/// Whether this signal follows the last one so closely that both are one request: `timeout`, for
/// instance, signals its child and then their process group.
fn is_echo(last: &mut Option<Instant>, now: Instant) -> bool {
    last.replace(now).is_some_and(|last| now - last < ECHO)
}

/// On SIGINT, SIGTERM and SIGHUP, and on SIGUSR1 if `has_ranks`: removes unfinished output, prints one
/// line unless `is_quiet`, and exits.
///
/// Launchers of MPI pass SIGUSR1 on and wait, while they answer the others in ways of their own.
/// Threads must start after this.
pub fn stop_cleanly_on_signals(is_quiet: bool, has_ranks: bool) {
    let handler = move || {
        if HAS_ENDED.load(Ordering::Relaxed) {
            return;
        }
        let is_echo =
            is_echo(&mut LAST.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        if IS_ASKED.load(Ordering::Relaxed) && is_echo {
            return;
        }
        if IS_ASKED.load(Ordering::Relaxed) && !STOP.swap(true, Ordering::Relaxed) {
            if !is_quiet {
                printer::message("stopping after this epoch; a second signal stops at once");
            }
            return;
        }
        let what = match ignn_format::storage::abandon_all() {
            true => "stopped: unfinished output was removed",
            false => "stopped",
        };
        if !is_quiet {
            printer::last_message(what);
        }
        std::process::exit(STOPPED.into());
    };
    #[cfg(unix)]
    if has_ranks {
        let mut of_users = SigSet::empty();
        of_users.add(Signal::SIGUSR1);
        if of_users.thread_block().is_ok() {
            std::thread::spawn(move || {
                while of_users.wait().is_ok() {
                    handler();
                }
            });
        }
    }
    // Without a handler the signal ends the process, and the next run removes what it left behind.
    if let Err(error) = ctrlc::set_handler(handler)
        && !is_quiet
    {
        printer::message(&format!("note: signals are not handled: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use ignn_format::array::ArrayWriter;
    use ignn_format::mapped::MappedArray;
    use std::fs::File;
    use std::io;
    use std::path::Path;
    use std::time::SystemTime;

    #[test]
    fn signals_within_a_moment_are_one_request() {
        let (start, mut last) = (Instant::now(), None);
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let seen = [0, 3, 90, 400].map(|at| is_echo(&mut last, after(at)));
        assert_eq!(seen, [false, true, true, false]);
    }

    /// The panic ends the process, so the test runs itself again as a child process; an environment
    /// variable tells the child.
    #[test]
    fn a_panic_over_a_changed_file_names_the_file() {
        const FILE: &str = "IGNN_TEST_CHANGED_FILE";
        let write = |path: &Path| {
            let mut writer = ArrayWriter::<u32>::create(path, "neighbours").unwrap();
            writer.write(&[1, 2, 3]).unwrap();
            writer.finish().unwrap();
        };
        if let Some(path) = std::env::var_os(FILE) {
            explain_panics();
            let path = Path::new(&path);
            write(path);
            let _array = MappedArray::<u32>::open(path, "neighbours").unwrap();
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            let worker = std::thread::spawn(|| panic!("rows out of order"));
            worker.join().unwrap_err();
            unreachable!("the process has ended");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let name = "terminal::messages::tests::a_panic_over_a_changed_file_names_the_file";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(FILE, &path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let expected = format!("error: {}: the file was changed while", path.display());
        assert!(said.starts_with(&expected) && !said.contains("panicked"), "{said}");
    }

    #[test]
    fn causes_are_printed_once() {
        let inner = || io::Error::other("disk on fire");
        let known = ignn_format::FormatError::io("write", "x.csv")(inner());
        assert_eq!(full_message(&anyhow::Error::new(known)), "x.csv: cannot write: disk on fire");
        let added = Err::<(), _>(inner()).context("demo").unwrap_err();
        assert_eq!(full_message(&added), "demo: disk on fire");
    }
}
