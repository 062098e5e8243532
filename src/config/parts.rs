//! Which part of a split a configuration means. Datasets keep the spelling of their source files,
//! so the usual spellings of a part are taken as the same.

/// Spellings of the same part.
const SPELLINGS: [&[&str]; 3] =
    [&["train", "training"], &["val", "valid", "validation", "dev"], &["test", "testing"]];

/// Position of a part: the one with exactly this name, or else with another usual spelling.
pub fn find_part<S: AsRef<str>>(parts: &[S], wanted: &str) -> Option<usize> {
    let position =
        |name: &str| parts.iter().position(|part| part.as_ref().eq_ignore_ascii_case(name));
    let exact = parts.iter().position(|part| part.as_ref() == wanted);
    exact.or_else(|| position(wanted)).or_else(|| {
        let wanted = wanted.to_ascii_lowercase();
        let same = SPELLINGS.iter().find(|same| same.contains(&wanted.as_str()))?;
        same.iter().find_map(|name| position(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_name_comes_before_other_spellings() {
        assert_eq!(find_part(&["train", "val", "validation"], "validation"), Some(2));
        assert_eq!(find_part(&["Train", "dev", "test"], "val"), Some(1));
        assert_eq!(find_part(&["Train", "train"], "train"), Some(1));
        assert_eq!(find_part(&["Train"], "training"), Some(0));
        assert_eq!(find_part(&["train", "rest"], "test"), None);
        assert_eq!(find_part(&["a", "b"], "b"), Some(1));
    }
}
