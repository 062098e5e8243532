//! What a search for a bound costs, apart from what it finds.

use serde::{Deserialize, Serialize};

use crate::json_number;

/// Work done before the first sweep of a solve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Passes over the entries of the relations in f64.
    pub passes: usize,
    /// Wall time.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub seconds: f64,
}

impl Effort {
    /// Both together.
    pub fn with(self, other: Self) -> Self {
        Self { passes: self.passes + other.passes, seconds: self.seconds + other.seconds }
    }
}
