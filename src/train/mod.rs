//! Training: what is asked for, and what is told of every epoch.
//! It emits records to an observer and prints nothing; files and terminals are for `report`.

mod record;

#[cfg(test)]
pub use record::testing;
pub use record::{EpochRecord, Observer, PartRecord, PhaseSeconds};
