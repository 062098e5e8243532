//! Failures at a chosen operation, for tests. `IGNN_FAULT=17:ENOSPC` makes the 17th operation of a
//! process fail with "no space left on device"; the words are `ENOSPC`, `EIO`, `EACCES`, and
//! `KILL`, which aborts the process before the operation. Operations are counted from 1.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use super::{Watch, watch};

/// What happens at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this error of the system.
    Error(i32),
    /// The process is aborted, as by a crash.
    Kill,
}

/// Makes the operation with this number fail, counted from 1 below `root`.
pub fn at(root: impl Into<PathBuf>, number: u64, fault: Fault) -> Watch {
    let mut seen = 0;
    watch(root, move |_| {
        seen += 1;
        match fault {
            _ if seen != number => Ok(()),
            Fault::Error(code) => Err(io::Error::from_raw_os_error(code)),
            Fault::Kill => std::process::abort(),
        }
    })
}

/// Parses `17:ENOSPC`.
pub fn parse(text: &str) -> Option<(u64, Fault)> {
    let (number, word) = text.split_once(':')?;
    let fault = match word {
        "ENOSPC" => Fault::Error(Errno::NOSPC.raw_os_error()),
        "EIO" => Fault::Error(Errno::IO.raw_os_error()),
        "EACCES" => Fault::Error(Errno::ACCESS.raw_os_error()),
        "KILL" => Fault::Kill,
        _ => return None,
    };
    Some((number.parse().ok()?, fault))
}

/// Installs the fault that the variable `IGNN_FAULT` asks for, until the end of the process. Debug
/// builds only: a release build has no such function.
///
/// # Panics
/// If the value of the variable is invalid, so that a test does not pass because of a typo.
#[cfg(debug_assertions)]
pub fn from_environment() {
    if let Ok(text) = std::env::var("IGNN_FAULT") {
        let Some((number, fault)) = parse(&text) else { panic!("IGNN_FAULT={text}: unknown") };
        std::mem::forget(at("", number, fault));
    }
}
