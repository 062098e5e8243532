//! The README's own graph: its commands run as they are written there.

use std::fs;

use crate::util::{Sandbox, project};

const FILES: [&str; 3] = ["friends.csv", "teams.csv", "split.csv"];

#[test]
fn the_three_commands_of_the_readme_work() {
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
    // Numbers depend on the instruction set; the names of the rows do not.
    let shown = readme.lines().skip_while(|line| !line.contains("run/model.safetensors on"));
    for line in shown.take_while(|line| line.trim() != "...") {
        let name = line.split_whitespace().next().unwrap();
        assert!(output.contains(name), "`{name}` is not in the output of predict:\n{output}");
    }
    let predictions = sandbox.read("predictions.csv");
    let mut lines = predictions.lines();
    assert_eq!(lines.next(), Some("id,predicted,probability,p_blue,p_red"));
    assert!(lines.next().unwrap().starts_with("ann,red,"), "{predictions}");
    assert_eq!(lines.count(), 11);
}
