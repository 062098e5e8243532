//! The binary `ignn`: allocator, parse, run, exit code.
//! Everything else is in `cli` (words to calls) and in the libraries.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done; also when the reader of our output closed the pipe |
//! | 1 | finished, but the goal was missed: `check` found damage, a solve did not converge |
//! | 2 | wrong usage, wrong input, or the system refused |
//! | 130 | stopped by a signal; unfinished output was removed, a run of `train` has its checkpoint |

mod cli;

use std::process::ExitCode;

use clap::Parser;

// Many threads allocate buffers of a few megabytes and free them on other threads: the system's allocator keeps such
// memory in per-thread arenas, and peak memory drifts past `--memory`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::messages::stop_cleanly_on_signals();
    match cli::Cli::parse().run() {
        Ok(cli::Outcome::Done) => ExitCode::SUCCESS,
        Ok(cli::Outcome::Missed) => ExitCode::from(1),
        Ok(cli::Outcome::Stopped) => ExitCode::from(cli::messages::STOPPED),
        Err(error) if cli::messages::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            cli::messages::print_error(&error);
            ExitCode::from(cli::messages::code(&error))
        }
    }
}
