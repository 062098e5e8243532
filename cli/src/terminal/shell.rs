//! Command lines for people to copy: quotes each word so that a shell reads it back unchanged.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignn::report::readable;

/// A word, in quotes if the shell needs them. Characters that a terminal does not show, and bytes
/// that are not UTF-8, are escaped in the form that bash, zsh and ksh read: `$'d\xff'`.
pub fn word(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_bytes();
    let is_plain = |c: char| c.is_alphanumeric() || "_-+=@%:,./".contains(c);
    match str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && text.chars().all(is_plain) => text.into(),
        Ok(text) if readable::line(text, text.len()) == text => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => {
            let spelled = bytes.iter().map(|&byte| match byte {
                b'\'' | b'\\' => format!("\\{}", byte as char),
                b' '..=b'~' => (byte as char).into(),
                _ => format!("\\x{byte:02x}"),
            });
            format!("$'{}'", spelled.collect::<String>())
        }
    }
}

/// A path that is not an option: `-d` becomes `./-d`.
pub fn path(path: &Path) -> String {
    match path.as_os_str().as_bytes().first() {
        Some(b'-') => word(Path::new(".").join(path)),
        _ => word(path),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_meant() {
        let plain = ["runs/cora-1.ignn", "model.state=64,32", "größe"];
        assert_eq!(plain.map(word), plain);
        let words =
            ["", "a b", "it's", "$HOME `x` \\", "*?[a]", "~/x", "a;b&c|d<e>f(g)", "#x", "!"];
        for text in words.into_iter().chain(plain) {
            let line = format!("printf %s {}", word(text));
            let output = Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), text, "{line}");
        }
        assert_eq!(word(OsStr::from_bytes(b"d\xff\n'\\")), r"$'d\xff\x0a\'\\'");
        assert_eq!(word("two\u{1b}[31m"), r"$'two\x1b[31m'");
        assert_eq!(
            (path(Path::new("-d")), path(Path::new("a b"))),
            ("./-d".into(), "'a b'".into())
        );
    }
}
