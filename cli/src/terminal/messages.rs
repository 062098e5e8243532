//! Messages outside of results: how errors are printed, what happens on signals, and the exit codes
//! of both.

use std::sync::atomic::{AtomicBool, Ordering};

use clap::error::ErrorKind;
use ignn::run::RunError;
use ignn::train::TrainError;

use super::printer;

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

/// On SIGINT, SIGTERM and SIGHUP: removes unfinished output, prints one line unless `is_quiet`, and
/// exits.
pub fn stop_cleanly_on_signals(is_quiet: bool) {
    let print = move |line: &str| {
        if !is_quiet {
            printer::message(line);
        }
    };
    let handler = move || {
        if IS_ASKED.load(Ordering::Relaxed) && !STOP.swap(true, Ordering::Relaxed) {
            print("stopping after this epoch; once more stops at once");
            return;
        }
        let what = match ignn_format::storage::abandon_all() {
            true => "stopped: unfinished output was removed",
            false => "stopped",
        };
        print(what);
        std::process::exit(STOPPED.into());
    };
    // Without a handler the signal ends the process, and the next run removes what it left behind.
    if let Err(error) = ctrlc::set_handler(handler) {
        print(&format!("note: signals are not handled: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use std::io;

    #[test]
    fn causes_are_printed_once() {
        let inner = || io::Error::other("disk on fire");
        let known = ignn_format::FormatError::io("write", "x.csv")(inner());
        assert_eq!(full_message(&anyhow::Error::new(known)), "x.csv: cannot write: disk on fire");
        let added = Err::<(), _>(inner()).context("demo").unwrap_err();
        assert_eq!(full_message(&added), "demo: disk on fire");
    }
}
