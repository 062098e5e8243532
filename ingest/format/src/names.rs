//! Names of relations and splits. They are names of directories and columns too, so few characters
//! are allowed.

/// Whether a relation or split may have this name.
pub fn valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.')
        && !name.starts_with('.')
}
