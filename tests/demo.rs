//! `ignn demo`: the README's first command.

use crate::util::Sandbox;

#[test]
fn it_ends_with_a_sound_dataset_and_can_be_repeated() {
    let sandbox = Sandbox::new();
    let run = sandbox.ignn(&["demo"]).exits(0);
    let run = run.says("1. generate").says("2. ingest").says("3. inspect").says("4. check").says(": ok (");
    assert!(!run.stderr.contains("error"), "{}", run.stderr);
    assert_eq!(sandbox.names(), ["ignn-demo"]);
    let first = sandbox.read("ignn-demo/graph.ignn/manifest.json");
    sandbox.ignn(&["check", "ignn-demo/graph.ignn"]).exits(0);
    let again = sandbox.ignn(&["demo", "--json", "--quiet", "--threads", "1"]).exits(0);
    assert_eq!(again.stderr, "");
    assert_eq!(again.json()["check"]["result"]["sound"], true);
    assert_eq!(sandbox.read("ignn-demo/graph.ignn/manifest.json"), first, "same seed, same bytes");
}

#[test]
fn a_directory_of_somebody_else_is_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.file("mine/thesis.txt", "precious");
    let message = "mine: already exists: choose another name, or pass --force to replace it";
    sandbox.ignn(&["demo", "--out", "mine"]).fails_with(message);
    assert_eq!(sandbox.names(), ["mine"]);
    assert_eq!(sandbox.read("mine/thesis.txt"), "precious");
}
