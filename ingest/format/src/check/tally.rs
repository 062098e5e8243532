//! The first few problems of a kind and their number, as results of parallel passes over rows.

use std::path::Path;

use crate::check::Finding;

/// Number of problems of a kind that are reported one by one.
const REPORTED: usize = 3;

/// Problems of one kind, in row order.
#[derive(Debug, Default)]
pub(super) struct Tally {
    reported: Vec<String>,
    count: u64,
}

impl Tally {
    /// Counts a problem; `message` is only called if it will be reported.
    pub fn add(&mut self, message: impl FnOnce() -> String) {
        if self.reported.len() < REPORTED {
            self.reported.push(message());
        }
        self.count += 1;
    }

    /// Appends the problems of later rows.
    pub fn then(mut self, later: Self) -> Self {
        let room = REPORTED - self.reported.len();
        self.reported.extend(later.reported.into_iter().take(room));
        self.count += later.count;
        self
    }

    /// One finding per problem, and one for the rest.
    pub fn report(self, path: &Path, findings: &mut Vec<Finding>) {
        let more = self.count - self.reported.len() as u64;
        let rest = (more > 0).then(|| format!("and {more} more of this kind"));
        let messages = self.reported.into_iter().chain(rest);
        findings.extend(messages.map(|message| Finding { path: path.into(), message }));
    }
}
