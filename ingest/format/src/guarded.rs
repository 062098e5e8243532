//! Calls the Parquet library on bytes that may be damaged. The library trusts much of what a file
//! says and panics if it is wrong. Here, such a panic becomes an error that names the file, and
//! nothing is printed.
//!
//! To print nothing, the first call installs a panic hook for the process. It is silent for threads
//! that are inside of [`call`], and calls the hook that was there before for all others. A program
//! that sets a hook of its own later replaces it: panics are then caught as before, but reported by
//! that hook.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

use parquet::errors::ParquetError;

use crate::error::FormatError;

thread_local! {
    /// Number of calls that this thread is inside of.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Calls the library for this file; a panic becomes an error.
pub fn call<T, E: From<FormatError>>(
    path: &Path,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    static HOOK: Once = Once::new();
    // A thread that is already panicking may not change hooks.
    if !std::thread::panicking() {
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                // If the thread-local storage is already destroyed, the thread is not in a call.
                if DEPTH.try_with(Cell::get).unwrap_or(0) == 0 {
                    before(info);
                }
            }));
        });
    }
    DEPTH.set(DEPTH.get() + 1);
    // After a panic, what the call used is dropped or never used again.
    let result = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    result.unwrap_or_else(|panic| {
        let source = ParquetError::General(text(&*panic).to_string());
        Err(FormatError::Parquet { path: path.into(), source }.into())
    })
}

/// The message of a panic.
fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the Parquet library failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_that_names_the_file() {
        let fails = || -> Result<(), FormatError> { panic!("page {} is missing", 7) };
        let error = call(Path::new("a.parquet"), fails).unwrap_err().to_string();
        assert_eq!(error, "a.parquet: damaged Parquet file: Parquet error: page 7 is missing");
        let nested = call(Path::new("b"), || call(Path::new("a"), fails)).unwrap_err();
        assert_eq!(nested.path(), Path::new("a"));
        assert_eq!(DEPTH.get(), 0);
        assert_eq!(call(Path::new("a"), || Ok::<_, FormatError>(1)).unwrap(), 1);
    }
}
