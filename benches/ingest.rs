//! `cargo bench --bench ingest`: the ingest benchmark of the command line, in the release profile.
//! The measuring is in `ignn bench ingest`, so that anybody can run it without the sources.

use std::process::{Command, exit};

fn main() {
    // Cargo passes `--bench`; what follows `--` is for the benchmark: `cargo bench --bench ingest -- --edges 50M`.
    let arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let status = Command::new(env!("CARGO_BIN_EXE_ignn")).args(["bench", "ingest"]).args(arguments).status();
    match status {
        Ok(status) => exit(status.code().unwrap_or(1)),
        Err(error) => {
            eprintln!("cannot run the benchmark: {error}");
            exit(2);
        }
    }
}
