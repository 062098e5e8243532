//! Quantities for people: counts, bytes, seconds, rates. Programs get plain numbers by `--json`.

use crate::metrics::Metric;

/// `1234567` as `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in binary units: `512 B`, `1.5 KiB`, `20.3 MiB`.
pub fn bytes(value: u64) -> String {
    if value < 1024 {
        return format!("{value} B");
    }
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scaled = value as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be shown as 1024.0.
    while scaled >= 1023.95 && unit + 1 < units.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", units[unit])
}

/// A duration: `0.0123 s`, `3.42 s`, `81.0 s`, `12 min 5 s`.
pub fn seconds(value: f64) -> String {
    if value < 0.1 {
        format!("{value:.4} s")
    } else if value < 9.995 {
        format!("{value:.2} s")
    } else if value < 99.95 {
        format!("{value:.1} s")
    } else {
        let whole = value.round() as u64;
        format!("{} min {} s", whole / 60, whole % 60)
    }
}

/// A large number, rounded: `950`, `12.3 thousand`, `4.50 million`.
pub fn short(value: f64) -> String {
    let (scaled, word) = match value {
        v if v >= 1e9 => (v / 1e9, " billion"),
        v if v >= 1e6 => (v / 1e6, " million"),
        v if v >= 1e4 => (v / 1e3, " thousand"),
        v => return format!("{v:.0}"),
    };
    format!("{scaled:.*}{word}", if scaled < 10.0 { 2 } else { 1 })
}

/// A score: shares in per cent, `81.80 %`; all others with five significant digits, `0.21616`,
/// `1234.6`, `1.2346e9`.
pub fn score(metric: Metric, value: f64) -> String {
    if metric.is_share() { format!("{:.2} %", 100.0 * value) } else { significant(value) }
}

/// A number with five significant digits.
fn significant(value: f64) -> String {
    let digits = value.abs().log10().floor();
    match digits {
        _ if value == 0.0 || !value.is_finite() => format!("{value}"),
        digits if (-3.0..6.0).contains(&digits) => {
            format!("{value:.*}", (4.0 - digits).max(0.0) as usize)
        }
        _ => format!("{value:.4e}"),
    }
}

/// A fraction in per cent: `12.5 %`; `0.0 %` of nothing.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 })
}

/// `1 edge`, `2 edges`: a count with its noun.
pub fn plural(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// The same for a noun given in the plural, such as `rows` or `entries`.
pub fn items(value: u64, many: &str) -> String {
    let one = match many.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => many.strip_suffix('s').unwrap_or(many).into(),
    };
    plural(value, &one, many)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas() {
        assert_eq!(
            [0, 7, 999, 1000, 1_234_567].map(count),
            ["0", "7", "999", "1,000", "1,234,567"]
        );
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(
            (plural(1, "edge", "edges"), plural(0, "edge", "edges")),
            ("1 edge".into(), "0 edges".into())
        );
        assert_eq!([items(1, "entries"), items(1, "rows")], ["1 entry", "1 row"]);
        assert_eq!(items(2000, "entries"), "2,000 entries");
    }

    #[test]
    fn bytes_choose_their_unit() {
        let expected = ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "16.0 EiB"];
        assert_eq!([0, 1023, 1024, 1536, (1 << 20) - 1, u64::MAX].map(bytes), expected);
    }

    #[test]
    fn times_and_rates() {
        let expected = ["0.0123 s", "3.42 s", "10.0 s", "12 min 5 s"];
        assert_eq!([0.0123, 3.42, 9.999, 725.4].map(seconds), expected);
        let expected = ["950", "12.3 thousand", "4.50 million", "1.00 billion"];
        assert_eq!([950.0, 12_345.0, 4.5e6, 1e9].map(short), expected);
        let errors = [0.0, 0.216158, 12.5, 1234.56, -0.00512345, 1234567891.0, 1e-9];
        let shown = ["0", "0.21616", "12.500", "1234.6", "-0.0051234", "1.2346e9", "1.0000e-9"];
        assert_eq!(errors.map(|error| score(Metric::Rmse, error)), shown);
        assert_eq!(score(Metric::RocAuc, 0.9375), "93.75 %");
        assert_eq!((percent(1, 8), percent(0, 0)), ("12.5 %".into(), "0.0 %".into()));
    }
}
