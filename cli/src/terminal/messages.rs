//! Messages outside of results: how errors are printed, what happens on signals, and the exit codes
//! of both.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use ignn::run::RunError;
use ignn::train::TrainError;

/// Exit code after SIGINT, SIGTERM or SIGHUP; the handler does not know which.
pub const STOPPED: u8 = 130;

/// Exit code of an error: 1 where the input was in order but a goal was missed, 2 otherwise.
pub fn code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(RunError::Train(TrainError::NotConverged { .. })) => 1,
        _ => 2,
    }
}

/// Prints `error: ...` with every cause that its message does not already contain.
pub fn print_error(error: &anyhow::Error) {
    // Nothing can be done if standard error is closed.
    let _ = writeln!(io::stderr(), "error: {}", full_message(error));
}

/// The message with its causes.
fn full_message(error: &anyhow::Error) -> String {
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

/// Whether the reader of standard output closed the pipe.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(is_pipe))
}

/// Set by the first signal, for commands that end their work themselves.
static STOP: AtomicBool = AtomicBool::new(false);
/// Whether the command is one of those.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// From now on the first signal only sets the returned flag; a second one ends the process as
/// before.
pub fn ask_to_stop() -> &'static AtomicBool {
    IS_ASKED.store(true, Ordering::Relaxed);
    &STOP
}

/// On SIGINT, SIGTERM and SIGHUP: removes unfinished output, prints one line, and exits.
pub fn stop_cleanly_on_signals() {
    let handler = || {
        if IS_ASKED.load(Ordering::Relaxed) && !STOP.swap(true, Ordering::Relaxed) {
            let _ = writeln!(io::stderr(), "stopping after this epoch; once more stops at once");
            return;
        }
        let what = match ignn_format::staging::abandon_all() {
            true => "stopped: unfinished output was removed",
            false => "stopped",
        };
        let _ = writeln!(io::stderr(), "{what}");
        std::process::exit(STOPPED.into());
    };
    // Without a handler the signal ends the process, and the next run removes what it left behind.
    if let Err(error) = ctrlc::set_handler(handler) {
        let _ = writeln!(io::stderr(), "note: signals are not handled: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn causes_are_printed_once() {
        let inner = || io::Error::other("disk on fire");
        let known = ignn_format::FormatError::io("write", "x.csv")(inner());
        assert_eq!(full_message(&anyhow::Error::new(known)), "x.csv: cannot write: disk on fire");
        let added = Err::<(), _>(inner()).context("demo").unwrap_err();
        assert_eq!(full_message(&added), "demo: disk on fire");
    }

    #[test]
    fn a_closed_pipe_is_recognised_below_context() {
        let pipe =
            Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe)).context("standard output");
        assert!(is_closed_pipe(&pipe.unwrap_err()));
        assert!(!is_closed_pipe(&anyhow::anyhow!("no")));
    }
}
