//! Options that several commands share, and how their values are written and parsed.

pub mod choices;
pub mod count;
pub mod memory_size;
pub mod scratch;
pub mod settings;
pub mod verification;
