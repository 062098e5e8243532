//! The value of `--memory`: a size such as `2GiB`, or a share of the machine such as `50%`.
//! This module parses and resolves it; ingest and training keep to it.

use std::fmt;
use std::str::FromStr;

use ignn::report::quantity;

/// Default of `--memory`.
pub const DEFAULT: MemorySize = MemorySize::Percent(50.0);
/// The least that holds the buffers of one thread.
pub const SMALLEST: u64 = 16 << 20;

const EXPECTED: &str =
    "expected a size with a unit, such as 2GiB or 512MiB, or a share such as 50%";

/// A size in bytes, or a share of the machine's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemorySize {
    /// Bytes.
    Bytes(u64),
    /// Above 0, at most 100.
    Percent(f64),
}

impl MemorySize {
    /// Bytes on a machine with `available` bytes; never below [`SMALLEST`].
    pub fn resolve(self, available: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => ((available as f64 * (percent / 100.0)) as u64).max(SMALLEST),
        }
    }
}

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim());
        let number: f64 = number.parse().map_err(|_| EXPECTED.to_string())?;
        let unit = match unit.to_ascii_lowercase().as_str() {
            "%" if number > 0.0 && number <= 100.0 => return Ok(Self::Percent(number)),
            "%" => return Err("expected a share above 0% and at most 100%".into()),
            "" => return Err(format!("the unit is missing: {EXPECTED}")),
            "k" | "kib" => 1u64 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            other => return Err(format!("unknown unit {other:?}: {EXPECTED}")),
        };
        let bytes = number * unit as f64;
        if bytes > (1u64 << 60) as f64 {
            return Err("expected at most 1 EiB".into());
        }
        if bytes < SMALLEST as f64 {
            return Err(format!("too small: expected at least {}", quantity::bytes(SMALLEST)));
        }
        Ok(Self::Bytes(bytes as u64))
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{}", quantity::bytes(*bytes)),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_shares() {
        let parse = |text: &str| text.parse::<MemorySize>();
        assert_eq!(parse("2GiB"), Ok(MemorySize::Bytes(2 << 30)));
        assert_eq!(parse("512mib"), Ok(MemorySize::Bytes(512 << 20)));
        assert_eq!(parse(" 1.5 G "), Ok(MemorySize::Bytes(3 << 29)));
        assert_eq!(parse("100MB"), Ok(MemorySize::Bytes(100_000_000)));
        assert_eq!(parse("50%"), Ok(MemorySize::Percent(50.0)));
        assert_eq!(parse("50%").unwrap().resolve(8 << 30), 4 << 30);
        assert_eq!(parse("1%").unwrap().resolve(100 << 20), SMALLEST);
        assert_eq!(DEFAULT.to_string().parse(), Ok(DEFAULT));
    }

    #[test]
    fn mistakes_are_explained() {
        let message = |text: &str| text.parse::<MemorySize>().unwrap_err();
        assert_eq!(message("lots"), EXPECTED);
        assert_eq!(message(""), EXPECTED);
        assert_eq!(message("1.2.3GiB"), EXPECTED);
        assert_eq!(message("4"), format!("the unit is missing: {EXPECTED}"));
        assert_eq!(message("4 apples"), format!("unknown unit \"apples\": {EXPECTED}"));
        assert_eq!(message("0%"), "expected a share above 0% and at most 100%");
        assert_eq!(message("120%"), "expected a share above 0% and at most 100%");
        assert_eq!(message("1MiB"), "too small: expected at least 16.0 MiB");
        assert_eq!(message("9999999999TiB"), "expected at most 1 EiB");
        assert_eq!(message("-1GiB"), EXPECTED);
    }
}
