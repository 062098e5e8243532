//! Fuzz targets; their bodies are in `targets.rs`.

pub mod targets;

/// A target for libFuzzer.
#[macro_export]
macro_rules! fuzz {
    ($name:literal) => {
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            $crate::report_panics();
            $crate::body($name)(bytes)
        });
    };
}

/// The body of a target.
pub fn body(name: &str) -> fn(&[u8]) {
    targets::TARGETS.iter().find(|target| target.0 == name).expect("a target of this name").1
}

/// libfuzzer-sys aborts at every panic, also at those of the Parquet library that are caught and
/// become errors. Panics that reach the target still end the process.
pub fn report_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            if !place.contains("/parquet-") && !place.contains("/arrow-") {
                eprintln!("{panic}");
            }
        }));
    });
}
