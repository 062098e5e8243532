//! What the program says outside its results: the one printer of errors, and the last words after a
//! signal. It decides the exit codes of errors and signals.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use ignn::train::TrainError;

/// Exit code after SIGINT, SIGTERM or SIGHUP; the handler is not told which.
pub const STOPPED: u8 = 130;

/// Exit code of an error: 1 where all was in order but a goal was missed, 2 else.
pub fn code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(TrainError::NotConverged { .. }) => 1,
        _ => 2,
    }
}

/// Prints `error: ...` with every cause that its message does not already contain.
pub fn print_error(error: &anyhow::Error) {
    // If standard error is closed there is nobody left to tell.
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

/// Whether the reader of our standard output went away.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(is_pipe))
}

/// Set by the first signal where a command ends its work itself.
static STOP: AtomicBool = AtomicBool::new(false);
/// Whether a command does.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// From now on the first signal only sets the flag that is returned; a second one ends the process
/// as before.
pub fn ask_to_stop() -> &'static AtomicBool {
    IS_ASKED.store(true, Ordering::Relaxed);
    &STOP
}

/// On SIGINT, SIGTERM and SIGHUP: removes unfinished output, says so in one line, and exits.
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
    // Without a handler the signal ends the process, and the next run removes what was left.
    if let Err(error) = ctrlc::set_handler(handler) {
        let _ = writeln!(io::stderr(), "note: signals are not handled: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn causes_are_told_once() {
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
