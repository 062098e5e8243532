//! Names of relations and splits. They are names of directories and columns too, so few characters
//! are allowed.

/// Whether a relation or split may have this name.
pub fn valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.')
        && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Component, Path};

    #[test]
    fn a_name_is_one_step_of_a_path() {
        for name in ["edges", "a-b_c.9", "-", "A"] {
            assert!(valid_name(name), "{name:?}");
            let steps: Vec<_> = Path::new(name).components().collect();
            assert!(matches!(steps[..], [Component::Normal(_)]), "{name:?}");
        }
        let long = "a".repeat(65);
        for name in [
            "", ".", "..", "../x", "a/../b", "/etc", "a/b", "a\\b", "C:", "a\0b", ".hidden", "a\n",
            "a b", "\u{1b}", "é", &long,
        ] {
            assert!(!valid_name(name), "{name:?}");
        }
    }
}
