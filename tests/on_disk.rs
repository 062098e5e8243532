//! Training and prediction with matrices on a disk: the same bytes as in memory.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use ignn::config::Config;
use ignn::dense::Scratch;
use ignn::graph::{Edges, Graph, GraphBuilder, Normalisation};
use ignn::run::Run;
use ignn::train::{Ended, EpochRecord, Trainer};

use crate::ranks::{NODES, StopAfter, config, graph, outcome, pairs, undirected};

/// Bytes of 16 columns of all nodes.
const LINE: u64 = NODES as u64 * 64;

/// Trains and predicts in memory, and with every matrix on a disk and memory for this many times 16
/// columns.
fn same_on_a_disk(graph: &Graph, sets: &[&str], memory: &[u64]) {
    let config = config(sets);
    let computed = || {
        let fit = Trainer::new(graph, config.clone()).unwrap().fit().unwrap();
        let predictions = fit.model.predict(graph).unwrap();
        let logits: Vec<u32> = predictions.logits().padded().iter().map(|x| x.to_bits()).collect();
        let (history, values) = outcome(&fit);
        (format!("{history:?}"), values, logits)
    };
    let expected = computed();
    let place = tempfile::tempdir().unwrap();
    for lines in memory {
        let scratch = Scratch::with_least(place.path(), lines * LINE, 1);
        let found = scratch.scope(computed);
        scratch.check().unwrap();
        assert!(scratch.peak() > LINE, "{sets:?}: on the disk");
        assert_eq!(found.0, expected.0, "{sets:?}, {lines}");
        assert!(found.1 == expected.1, "{sets:?}, {lines}: the same model");
        assert!(found.2 == expected.2, "{sets:?}, {lines}: the same logits");
    }
    assert_eq!(place.path().read_dir().unwrap().count(), 0);
}

#[test]
fn training_has_the_same_bits_with_any_memory() {
    let renormalised = undirected(Normalisation::Renorm);
    same_on_a_disk(&renormalised, &["model.state=70", "solver.method=plain"], &[0, 2, 3, 9]);
    same_on_a_disk(&renormalised, &["model.state=40", "model.bias=true"], &[1, 3]);
    let plain = undirected(Normalisation::None);
    same_on_a_disk(&plain, &["model.state=3", "model.activation=tanh"], &[0]);
    same_on_a_disk(&plain, &["model.state=33", "model.activation=tanh"], &[0]);
}

#[test]
fn every_method_and_map_has_the_same_bits_on_a_disk() {
    let graph = undirected(Normalisation::Renorm);
    for sets in [
        &["model.state=24", "solver.method=anderson", "model.kappa=0.99"][..],
        &["model.state=24", "solver.method=active", "solver.tolerance=1e-6"],
        &["model.state=20", "model.input=own", "solver.measure=row"],
        &["model.state=18", "model.input=both", "model.dropout=0.3", "model.feature_dropout=0.4"],
        &["model.state=24", "solver.gradient=phantom"],
        &["model.state=24", "train.learn=ridge"],
        &["model.state=24", "model.features=learned", "optim.clip=global", "optim.clip_norm=0.01"],
        &["model.state=24", "model.features=learned", "train.hide=0.3"],
        &["model.state=[24,40]", "model.skip=true", "model.batch_norm=true"],
    ] {
        same_on_a_disk(&graph, sets, &[0]);
    }
}

#[test]
fn directed_graphs_and_several_relations_have_the_same_bits_on_a_disk() {
    let directed = graph(&[("edges", Edges::directed(pairs(3, 2500)))]);
    same_on_a_disk(&directed, &["model.state=24"], &[0, 2]);
    let several = graph(&[
        ("first", Edges::undirected(pairs(4, 900)).normalisation(Normalisation::Row)),
        ("second", Edges::directed(pairs(5, 1100)).normalisation(Normalisation::Row)),
    ]);
    same_on_a_disk(&several, &["model.state=24"], &[0, 2]);
}

#[test]
fn a_graph_that_is_solved_in_its_order_is_refused_by_name() {
    let chain = graph(&[("edges", Edges::directed((1..NODES).map(|i| (i - 1, i))))]);
    let place = tempfile::tempdir().unwrap();
    let scratch = Scratch::with_least(place.path(), 0, 1);
    let made = scratch.scope(|| Trainer::new(&chain, config(&["model.state=24"])));
    let found = made.err().expect("refused").to_string();
    assert_eq!(
        found,
        "solving a graph without cycles in its order works in memory only: raise --memory, or \
         train with --set solver.method=plain"
    );
    same_on_a_disk(&chain, &["model.state=24", "solver.method=plain"], &[0]);
}

#[test]
fn a_disk_without_room_ends_the_training_with_its_error() {
    let graph = undirected(Normalisation::Renorm);
    let scratch = Scratch::with_least("/nowhere", 0, 1);
    let made = scratch.scope(|| Trainer::new(&graph, config(&["model.state=24"])));
    let found = made.err().expect("refused").to_string();
    assert!(found.starts_with("/nowhere: cannot create a scratch file: "), "{found}");
}

/// A graph whose states of 128 columns are large enough for a disk.
fn large() -> Graph {
    let nodes = 16_500u32;
    let edges = (0..nodes).flat_map(|i| [(i, (i + 1) % nodes), (i, (i * 7 + 3) % nodes)]);
    let edges: Vec<_> = edges.filter(|(a, b)| a != b).collect();
    let part = |rest: u32| (0..nodes).filter(move |node| node % 50 == rest);
    GraphBuilder::new(nodes as usize)
        .edges(edges)
        .features(4, (0..nodes * 4).map(|at| (at % 13) as f32 / 13.0 - 0.5).collect())
        .classes(["a", "b"], (0..nodes).map(|node| Some(node / 9 % 2)))
        .split(part(0), part(1), part(2))
        .build()
        .unwrap()
}

/// A run with 60 MiB, which is stopped and resumed, has the files of one in memory.
#[test]
fn a_run_on_a_disk_is_stopped_and_resumed_to_the_same_bytes() {
    let (place, graph) = (tempfile::tempdir().unwrap(), large());
    let sets = ["model.state=128", "train.epochs=3", "train.checkpoint_epochs=1"];
    let config = Config::resolve(None, None, &sets.map(String::from)).unwrap();
    let new = |name: &str| Run::new(graph.clone(), config.clone(), place.path().join(name));
    let train = |run: Run, stop_after: u64| {
        let stop = AtomicBool::new(false);
        run.train(&mut StopAfter(stop_after, &stop), &stop).unwrap().figures.ended
    };
    assert_eq!(train(new("whole"), u64::MAX), Ended::Epochs);
    let scratch = tempfile::tempdir().unwrap();
    let on_disk = |run: Run| run.memory(60 << 20).scratch(scratch.path());
    assert_eq!(train(on_disk(new("parts")), 1), Ended::Stopped);
    let resumed = Run::resume_on(place.path().join("parts"), graph.path()).unwrap();
    assert_eq!(train(on_disk(resumed), u64::MAX), Ended::Epochs);
    let bytes = |run: &str, file: &str| fs::read(place.path().join(run).join(file)).unwrap();
    for file in ["model.safetensors", "checkpoint/state.safetensors"] {
        assert!(bytes("whole", file) == bytes("parts", file), "{file}");
    }
    let records = |run: &str| -> Vec<EpochRecord> {
        let text = String::from_utf8(bytes(run, "metrics.jsonl")).unwrap();
        let record = |line| serde_json::from_str::<EpochRecord>(line).unwrap().without_times();
        text.lines().map(record).collect()
    };
    assert_eq!(format!("{:?}", records("whole")), format!("{:?}", records("parts")));
    assert_eq!(scratch.path().read_dir().unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_run_that_no_disk_can_help_is_refused_before_anything_is_written() {
    let (place, graph) = (tempfile::tempdir().unwrap(), large());
    let refused = |sets: &[&str], memory: u64, scratch: &Path| {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let config = Config::resolve(None, None, &sets).unwrap();
        let run = Run::new(graph.clone(), config, place.path().join("run"));
        let run = run.memory(memory).scratch(scratch);
        let error = run.train(&mut (), &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(!place.path().join("run").exists());
        error
    };
    let here = place.path();
    let found = refused(&["model.state=128", "model.kind=gcn"], 16 << 20, here);
    assert!(
        found
            .ends_with("a model without an equilibrium is computed in memory only: raise --memory")
    );
    let found = refused(&["model.state=128"], 32 << 20, here);
    assert!(found.contains(" GiB and a disk (found 0.03 GiB allowed): model.state="), "{found}");
    assert!(found.ends_with(" would fit, or raise --memory"), "{found}");
    let found = refused(&["model.state=128"], 60 << 20, &here.join("missing"));
    assert!(found.contains("missing: cannot find the free space: "), "{found}");
}
