//! The README's own graph: its commands run as they are written there, and print what it shows.

use std::fs;

use crate::sandbox::{Sandbox, project};

const FILES: [&str; 3] = ["friends.csv", "teams.csv", "split.csv"];

/// A line with `#` for every number. Numbers depend on the instruction set and times on the
/// machine; words, signs and spaces do not.
fn pattern(line: &str) -> String {
    let word = |word: &str| {
        let number = word.trim_end_matches(',');
        if number.parse::<f64>().is_ok() { word.replace(number, "#") } else { word.into() }
    };
    line.trim_end().split(' ').map(word).collect::<Vec<String>>().join(" ")
}

#[test]
fn the_three_commands_of_the_readme_work_and_print_what_it_shows() {
    let readme = fs::read_to_string(project().join("README.md")).unwrap();
    let sandbox = Sandbox::new();
    for name in FILES {
        let text = fs::read_to_string(project().join("examples/friends").join(name)).unwrap();
        for line in text.lines().take(3) {
            assert!(readme.contains(line), "README.md does not show `{line}` of {name}");
        }
        sandbox.file(name, text);
    }
    let commands: Vec<&str> =
        readme.lines().filter_map(|line| line.strip_prefix("    $ ignn ")).collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    let mut output = String::new();
    for command in commands {
        let arguments: Vec<&str> = command.split_whitespace().collect();
        output = sandbox.ignn(&arguments).exits(0).stdout;
    }
    // What the README shows of a command, without the indentation of a code block.
    let shown = |command: &str| -> Vec<&str> {
        let lines = readme.lines().skip_while(|line| !line.trim().starts_with(command)).skip(1);
        let lines = lines.map_while(|line| line.strip_prefix("    "));
        lines.take_while(|line| line.trim() != "..." && !line.starts_with('$')).collect()
    };
    let lines = shown("$ ignn predict");
    assert!(lines.len() >= 5, "{lines:?}");
    for (line, printed) in lines.iter().zip(output.lines()) {
        assert_eq!(pattern(line), pattern(printed), "README.md differs from:\n{output}");
    }
    let predictions = sandbox.read("predictions.csv");
    let lines = shown("$ head -3 predictions.csv");
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, written) in lines.iter().zip(predictions.lines()) {
        for (cell, found) in line.split(',').zip(written.split(',')) {
            match (cell.parse::<f64>(), found.parse::<f64>()) {
                (Ok(cell), Ok(found)) => assert!((cell - found).abs() < 0.01, "{line}\n{written}"),
                _ => assert_eq!(cell, found, "{line}\n{written}"),
            }
        }
        assert_eq!(line.split(',').count(), written.split(',').count(), "{line}\n{written}");
    }
    assert_eq!(predictions.lines().count(), 13);
}
