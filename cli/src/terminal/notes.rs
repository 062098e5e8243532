//! The notes of a command that trains, for standard error and for its JSON.

use std::sync::Mutex;

use super::printer;

/// Notes from any thread, in the order in which they came.
pub struct Notes {
    is_quiet: bool,
    all: Mutex<Vec<String>>,
}

impl Notes {
    /// None yet.
    pub fn new(is_quiet: bool) -> Self {
        Self { is_quiet, all: Mutex::default() }
    }

    /// Adds a note and prints it, unless the command is quiet.
    pub fn print(&self, text: &str) {
        self.add(text);
        if !self.is_quiet {
            printer::message(&format!("note: {text}"));
        }
    }

    /// Adds a note that is printed elsewhere.
    pub fn add(&self, text: &str) {
        self.all.lock().expect("no panic while held").push(text.into());
    }

    /// All of them.
    pub fn all(&self) -> Vec<String> {
        self.all.lock().expect("no panic while held").clone()
    }
}
