//! Fuzz targets; their bodies are in `targets.rs`.

pub mod targets;

/// A target for libFuzzer.
#[macro_export]
macro_rules! fuzz {
    ($name:literal) => {
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $crate::body($name)(bytes));
    };
}

/// The body of a target.
pub fn body(name: &str) -> fn(&[u8]) {
    targets::TARGETS.iter().find(|target| target.0 == name).expect("a target of this name").1
}
