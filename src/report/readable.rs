//! Makes text from files and options safe to show to people: characters that control a terminal are
//! escaped, and text that is too long is shortened in the middle.
//!
//! Names of classes, parts and nodes are whatever a file says. Printed as they are, they could
//! recolour a terminal, move its cursor, forge a line of the report, or fill the screen. Programs
//! get the exact text by `--json` and in tables.

use super::quantity;

/// Longest line in characters. A path of the longest length that Linux allows still fits.
pub const LINE: usize = 5000;
/// Most lines of one message.
const MESSAGE_LINES: usize = 40;

/// Whether a character is escaped: control characters (C0, DEL, C1), line separators, and
/// bidirectional control characters, which show text in another order than it has.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}')
}

/// One line of at most `most` characters. Everything that is not printable is escaped as in
/// `\u{1b}`, line breaks too. A longer text keeps its beginning and its end.
///
/// ```
/// use ignn::report::readable::line;
///
/// assert_eq!(line("red\u{1b}[31m\n", 100), "red\\u{1b}[31m\\n");
/// assert_eq!(line(&"x".repeat(1000), 30), "xxxx… (1,000 characters) …xxxx");
/// ```
pub fn line(text: &str, most: usize) -> String {
    escaped(text, most, |_| false)
}

/// The text with its own line breaks, each line as in [`line()`], of at most [`LINE`] characters.
pub fn lines(text: &str) -> String {
    spelled_lines(text).collect::<Vec<_>>().join("\n")
}

/// A message on standard error: as [`lines`], but of limited length, and with the lines after the
/// first indented, so that none of them looks like a message of its own.
pub fn message(text: &str) -> String {
    let count = text.split('\n').count();
    let mut kept: Vec<String> = spelled_lines(text).take(MESSAGE_LINES).collect();
    if count > MESSAGE_LINES {
        kept.push(format!("… and {} more lines", quantity::count((count - MESSAGE_LINES) as u64)));
    }
    kept.join("\n  ")
}

/// JSON in which the control characters that JSON allows unescaped (DEL, C1, bidirectional
/// controls) are escaped too. A JSON parser reads the same text.
pub fn json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if is_control(c) && !c.is_ascii_whitespace() => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

fn spelled_lines(text: &str) -> impl Iterator<Item = String> {
    text.split('\n').map(|one| line(one, LINE))
}

/// The text with control characters escaped, except those that `keeps` accepts, and shortened in
/// the middle to at most `most` characters.
pub(super) fn escaped(text: &str, most: usize, keeps: impl Fn(char) -> bool) -> String {
    let is_escaped = |c: char| is_control(c) && !keeps(c);
    // An escaped character counts as long as its escape, so that the limit holds for any text.
    let width = |c: char| if is_escaped(c) { c.escape_default().count() } else { 1 };
    let write = |part: &str| -> String {
        let mut written = String::with_capacity(part.len());
        for c in part.chars() {
            match is_escaped(c) {
                true => written.extend(c.escape_default()),
                false => written.push(c),
            }
        }
        written
    };
    // Stops counting beyond the limit, so that a long text is not read to its end.
    let shown = |text: &str| text.chars().map(width).take(most + 1).sum::<usize>();
    if shown(text) <= most {
        return write(text);
    }
    let gap = format!("… ({} characters) …", quantity::count(text.chars().count() as u64));
    let half = most.saturating_sub(gap.chars().count()) / 2;
    let bytes_within = |characters: &mut dyn Iterator<Item = char>| {
        let mut room = half;
        let kept = characters.take_while(|&c| {
            let fits = width(c) <= room;
            room = room.saturating_sub(width(c));
            fits
        });
        kept.map(char::len_utf8).sum::<usize>()
    };
    let head = bytes_within(&mut text.chars());
    let tail = text.len() - bytes_within(&mut text.chars().rev());
    format!("{}{gap}{}", write(&text[..head]), write(&text[tail..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn controls_and_marks_of_direction_are_spelled_out() {
        let all = "a\u{0}\u{7}\u{1b}[2J\r\t\u{7f}\u{9b}31m\u{202e}b\u{2066}\u{2028}\u{200f}é";
        let expected = "a\\u{0}\\u{7}\\u{1b}[2J\\r\\t\\u{7f}\\u{9b}31m\\u{202e}b\\u{2066}\\u{2028}\
                        \\u{200f}é";
        assert_eq!(line(all, 1000), expected);
        assert_eq!(line("one\ntwo", 100), "one\\ntwo");
        assert_eq!(lines("one\u{1b}\ntwo\n"), "one\\u{1b}\ntwo\n");
        // An emoji of several characters, letters with marks, and right-to-left scripts stay.
        for text in ["👩\u{200d}🔬", "e\u{301}", "עברית", "中文"] {
            assert_eq!(line(text, 100), text);
        }
    }

    #[test]
    fn long_texts_keep_both_ends() {
        let text = format!("{}{}", "a".repeat(70_000), "z".repeat(70_000));
        let cut = line(&text, 60);
        assert_eq!(cut.chars().count(), 60);
        assert!(cut.starts_with("aaaa") && cut.ends_with("zzzz"), "{cut}");
        assert!(cut.contains("… (140,000 characters) …"), "{cut}");
        assert_eq!(line(&"x".repeat(60), 60), "x".repeat(60));
        let lines = lines(&format!("short\n{text}\n"));
        assert_eq!(lines.lines().map(|line| line.chars().count()).max(), Some(LINE));
    }

    #[test]
    fn a_message_cannot_pass_for_two() {
        assert_eq!(message("x\nerror: forged"), "x\n  error: forged");
        let many = message(&"y\n".repeat(1000));
        assert_eq!(many.lines().count(), MESSAGE_LINES + 1);
        assert!(many.ends_with("… and 961 more lines"), "{many}");
    }

    proptest! {
        #[test]
        fn any_text_is_one_short_line(text in any::<String>(), most in 30usize..200) {
            let shown = line(&text, most);
            prop_assert!(shown.chars().count() <= most, "{shown}");
            prop_assert!(!shown.chars().any(is_control), "{shown:?}");
        }

        #[test]
        fn escaped_json_reads_back(text in any::<String>()) {
            let text = format!("{text}\u{9b}\u{7f}\u{202e}");
            let written = json(&format!("{:#}", serde_json::json!({ "x": [text] })));
            prop_assert!(!written.chars().any(|c| is_control(c) && c != '\n'), "{written:?}");
            let read: serde_json::Value = serde_json::from_str(&written).unwrap();
            prop_assert_eq!(&read["x"][0], &text);
        }
    }
}
