//! Bars of a text histogram, in eighths of a character.

const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar for `value`, `width` characters long at `largest`; never empty for a value above 0.
pub fn bar(value: u64, largest: u64, width: usize) -> String {
    if value == 0 || largest == 0 {
        return String::new();
    }
    let share = (value as f64 / largest as f64).min(1.0);
    let eighths = ((share * (width * 8) as f64).round() as usize).max(1);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion() {
        assert_eq!(bar(8, 8, 2), "██");
        assert_eq!(bar(4, 8, 2), "█");
        assert_eq!(bar(3, 8, 2), "▊");
        assert_eq!(bar(1, 1_000_000, 10), "▏");
        assert_eq!((bar(0, 8, 2), bar(0, 0, 2)), (String::new(), String::new()));
    }
}
