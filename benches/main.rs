//! `cargo bench`: the parts of the engine and of ingest on inputs that the program makes itself.
//!
//! Every benchmark first verifies what it is about to time, by a different algorithm, and panics
//! on a mismatch; the verifier stands beside the benchmark it belongs to. Inputs are named and
//! made in [`inputs`]. `ignn bench` measures the same on graphs of your own, beside what the
//! machine itself can do.
//!
//! ```text
//! cargo bench                      everything, about two minutes
//! cargo bench -- sweep             one group
//! cargo bench -- --test            verify only, time nothing
//! ```

mod epoch;
mod gather;
mod ingest;
mod inputs;
mod product;
mod solve;
mod sweep;

fn main() {
    divan::main();
}
