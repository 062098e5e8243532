//! Names of relations, splits, parts and classes: unique. Those of relations and splits are names of
//! directories and columns too, so few characters are allowed.

use std::collections::HashSet;
use std::path::Path;

use crate::error::{FormatError, Result};

/// Whether a relation or split may have this name.
pub fn valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.')
        && !name.starts_with('.')
}

/// Refuses a name that occurs twice; `what` says whose names they are, `path` where they are.
pub fn check_unique<'a>(
    path: &Path,
    what: &str,
    names: impl IntoIterator<Item = &'a String>,
) -> Result<()> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(name) => {
            Err(FormatError::invalid(path, what, format!("{name:?} twice"), "unique names"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Component;

    #[test]
    fn a_name_that_occurs_twice_is_refused() {
        let check = |names: [&str; 3]| {
            let names = names.map(String::from);
            check_unique(Path::new("m"), "classes", &names).map_err(|error| error.to_string())
        };
        assert_eq!(check(["a", "b", "A"]), Ok(()));
        let expected = "m: classes (found \"b\" twice, expected unique names)";
        assert_eq!(check(["b", "a", "b"]), Err(expected.into()));
    }

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
