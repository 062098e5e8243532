//! `ignn demo`: the README's first command.

use crate::sandbox::Sandbox;

#[test]
fn the_equilibrium_model_reaches_far_and_the_demo_can_be_repeated() {
    let sandbox = Sandbox::new();
    let run = sandbox.ignn(&["demo"]).exits(0);
    let run = run
        .says("1. generate")
        .says("2. ingest")
        .says("3. inspect")
        .says("4. check")
        .says(": ok (");
    let run = run
        .says("5. train: equilibrium")
        .says("6. train: 2-layer GCN")
        .says("7. compare: accuracy outside the training part");
    assert!(!run.stderr.contains("error:"), "{}", run.stderr);
    assert_eq!(sandbox.names(), ["ignn-demo"]);
    let first = sandbox.read("ignn-demo/graph.ignn/manifest.json");
    sandbox.ignn(&["check", "ignn-demo/graph.ignn"]).exits(0);
    let again = sandbox.ignn(&["demo", "--json", "--quiet", "--threads", "1"]).exits(0);
    assert_eq!(again.stderr, "");
    assert_eq!(again.json()["check"]["result"]["sound"], true);
    assert_eq!(sandbox.read("ignn-demo/graph.ignn/manifest.json"), first, "same seed, same bytes");
    // The equilibrium model predicts the class even at the far end of a chain; a model of two
    // layers sees only three nodes.
    let trained = again.json()["train"].clone();
    let accuracy = |model: usize, at: usize| {
        trained[model]["accuracy_by_distance"][at]["accuracy"].as_f64().unwrap()
    };
    assert_eq!((accuracy(0, 0), accuracy(0, 5), accuracy(1, 0)), (1.0, 1.0, 1.0));
    assert!((0.3..0.7).contains(&accuracy(1, 5)), "{trained}");
    sandbox.ignn(&["eval", "ignn-demo/graph.ignn", "--model", "ignn-demo/run", "-q"]).exits(0);
}

#[test]
fn a_directory_that_no_demo_made_is_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.file("mine/thesis.txt", "precious");
    let message = "mine: already exists: choose another name, or pass --force to replace it";
    sandbox.ignn(&["demo", "--out", "mine"]).fails_with(message);
    assert_eq!(sandbox.names(), ["mine"]);
    assert_eq!(sandbox.read("mine/thesis.txt"), "precious");
}
