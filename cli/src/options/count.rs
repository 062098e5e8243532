//! Counts with an optional suffix: `800k`, `5M`, `1G`, `1000000`.

/// Parses a count of at least 1.
pub fn parse(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        Some((at, 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let count = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(factor));
    count.filter(|&count| count > 0).ok_or_else(|| "expected a count such as 800k, 5M or 1G".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_have_a_suffix() {
        assert_eq!(parse("800k"), Ok(800_000));
        assert_eq!(parse("5M"), Ok(5_000_000));
        assert_eq!(parse("12"), Ok(12));
        for wrong in ["", "M", "0", "-1", "5.5M", "99999999999999999999", "99999999999G", "5\u{e9}"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
