//! Training and prediction on several ranks: the same bytes as on one. The ranks are threads of this
//! process; `scripts/test-mpi` does the same with processes.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ignn::config::Config;
use ignn::graph::{Edges, Graph, GraphBuilder, Normalisation};
use ignn::parallel::{Alone, Ranks, ThreadRanks};
use ignn::predict::{PredictError, Predictor, operators_on};
use ignn::run::{Crossval, CrossvalSetup, FoldObserver, FoldReadout, Run};
use ignn::solver::SolveParams;
use ignn::train::crossval::FoldRecord;
use ignn::train::{EpochRecord, Fit, Observer, Task, TrainError, Trainer};
use ignn_ingest::Context;
use ignn_ingest::command::generate::{Generate, Kind};
use ignn_ingest::context::Recorder;
use ignn_ingest::synthetic::ppi::PpiOptions;
use ignn_ingest::synthetic::rings::RingsOptions;

pub(crate) const NODES: u32 = 700;
const CLASSES: u32 = 3;

/// Numbers from a position.
fn random(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

pub(crate) fn pairs(seed: u64, count: u32) -> Vec<(u32, u32)> {
    let end = |at: u64| (random(seed * 1_000_003 + at) % u64::from(NODES)) as u32;
    let mut pairs: Vec<_> = (0..u64::from(count))
        .map(|at| (end(2 * at), end(2 * at + 1)))
        .filter(|p| p.0 != p.1)
        .collect();
    // A hub; and some nodes without edges.
    pairs.extend((0..NODES / 3).map(|node| (5, node)).filter(|pair| pair.1 != 5));
    pairs.retain(|pair| pair.0 % 41 != 3 && pair.1 % 41 != 3);
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// A graph with features that say little, and labels that depend on neighbours.
pub(crate) fn graph(relations: &[(&str, Edges)]) -> Graph {
    let columns = 11;
    let value = |at: u64| (random(77 + at) % 2000) as f32 / 1000.0 - 1.0;
    let features: Vec<f32> = (0..u64::from(NODES) * columns).map(value).collect();
    let class = |node: u32| Some((random(u64::from(node) + 5) % 3) as u32 % CLASSES);
    let mut builder = GraphBuilder::new(NODES as usize);
    for (name, edges) in relations {
        builder = builder.relation(name, edges.clone());
    }
    let part = |rest: u32| (0..NODES).filter(move |node| node % 5 == rest);
    builder
        .features(columns as usize, features)
        .classes(["a", "b", "c"], (0..NODES).map(class))
        .split(part(0), part(1), part(2))
        .build()
        .unwrap()
}

pub(crate) fn undirected(normalisation: Normalisation) -> Graph {
    graph(&[("edges", Edges::undirected(pairs(1, 1800)).normalisation(normalisation))])
}

pub(crate) fn config(sets: &[&str]) -> Config {
    let sets: Vec<String> =
        ["train.epochs=4"].iter().chain(sets).map(ToString::to_string).collect();
    Config::resolve(None, None, &sets).unwrap()
}

fn fit(graph: &Graph, config: &Config, ranks: Arc<dyn Ranks>) -> Result<Fit, TrainError> {
    let task = Task::on_ranks(graph.clone(), config, ranks)?;
    Trainer::with_task(Arc::new(task), config.clone())?.fit()
}

/// What must not depend on the number of ranks.
pub(crate) fn outcome(fit: &Fit) -> (Vec<EpochRecord>, Vec<Vec<u32>>) {
    let history = fit.history.iter().map(EpochRecord::without_times).collect();
    let bits = fit
        .model
        .values
        .iter()
        .map(|(_, value)| value.view().padded().iter().map(|x| x.to_bits()).collect());
    (history, bits.collect())
}

fn same_on_all_ranks(graph: &Graph, sets: &[&str], sizes: &[usize]) -> Fit {
    let config = config(sets);
    let alone = fit(graph, &config, Alone::shared()).unwrap();
    let expected = outcome(&alone);
    for &size in sizes {
        let found =
            ThreadRanks::run(size, 1 + size % 2, |ranks| fit(graph, &config, ranks).unwrap());
        for (rank, found) in found.iter().enumerate() {
            let found = outcome(found);
            assert_eq!(format!("{:?}", found.0), format!("{:?}", expected.0), "{sets:?}, {size}");
            // The first rank has all rows of learned features.
            let has_table = |set: &&str| {
                ["model.features=learned", "model.kind=label-propagation"].contains(set)
            };
            let is_whole = rank == 0 || !sets.iter().any(has_table);
            assert!(!is_whole || found.1 == expected.1, "{sets:?}: {rank} of {size} differs");
        }
    }
    alone
}

#[test]
fn training_has_the_same_bits_on_any_number_of_ranks() {
    let renormalised = undirected(Normalisation::Renorm);
    let sizes = [2, 3, 4, 5, 8];
    same_on_all_ranks(&renormalised, &["model.state=16"], &sizes);
    // More ranks than parts to cut: some have no rows.
    same_on_all_ranks(&renormalised, &["model.state=20", "model.bias=true"], &[50]);
    // Rows that share lines; the norm of another graph is found by a search.
    let plain = undirected(Normalisation::None);
    same_on_all_ranks(&plain, &["model.state=3", "model.activation=tanh"], &[2, 5]);
}

#[test]
fn every_method_and_map_has_the_same_bits_on_several_ranks() {
    let graph = undirected(Normalisation::Renorm);
    for sets in [
        &["model.state=12", "solver.method=anderson", "model.kappa=0.99"][..],
        &["model.state=12", "solver.method=active", "solver.tolerance=1e-6"],
        &["model.state=8", "model.input=own", "solver.measure=row"],
        &["model.state=8", "model.input=both", "model.dropout=0.3", "model.feature_dropout=0.4"],
        &["model.state=16", "solver.gradient=phantom"],
        &["model.state=16", "train.learn=ridge"],
        &["model.state=6", "model.features=given", "model.normalise_features=true"],
        &["model.state=12", "model.features=learned", "optim.clip=global", "optim.clip_norm=0.01"],
        &[
            "model.state=5",
            "model.features=learned",
            "model.input=own",
            "model.feature_dropout=0.2",
        ],
    ] {
        same_on_all_ranks(&graph, sets, &[3]);
    }
}

#[test]
fn stacks_skips_and_normalisations_have_the_same_bits_on_several_ranks() {
    let graph = undirected(Normalisation::Renorm);
    let stack = "model.state=[12,5,8]";
    for sets in [
        &[stack][..],
        &[stack, "model.skip=true", "model.between=elu"],
        &[stack, "model.batch_norm=true"],
        &[stack, "model.skip=true", "model.batch_norm=true", "model.input=both", "model.bias=true"],
        &[stack, "model.input=own", "model.skip=true", "model.layer_dropout=0.3"],
        &["model.state=7", "model.batch_norm=true", "model.skip=true"],
        &["model.state=[6,6]", "model.features=learned"],
        &["model.state=9", "model.features=learned", "train.hide=0.3"],
    ] {
        same_on_all_ranks(&graph, sets, &[2, 5]);
    }
    // Several relations, and more ranks than parts.
    let several = self::graph(&[
        ("first", Edges::undirected(pairs(4, 900)).normalisation(Normalisation::Row)),
        ("second", Edges::directed(pairs(5, 1100)).normalisation(Normalisation::Row)),
    ]);
    let sets = ["model.state=[8,4]", "model.skip=true", "model.batch_norm=true"];
    same_on_all_ranks(&several, &sets, &[3, 50]);
}

#[test]
fn directed_graphs_and_several_relations_have_the_same_bits_on_several_ranks() {
    let directed = graph(&[("edges", Edges::directed(pairs(3, 2500)))]);
    same_on_all_ranks(&directed, &["model.state=16"], &[3, 4]);
    let several = graph(&[
        ("first", Edges::undirected(pairs(4, 900)).normalisation(Normalisation::Row)),
        ("second", Edges::directed(pairs(5, 1100)).normalisation(Normalisation::Row)),
    ]);
    same_on_all_ranks(&several, &["model.state=16"], &[2, 5]);
}

#[test]
fn numbers_and_their_bounds_have_the_same_bits_on_several_ranks() {
    let value = |at: u64| (random(77 + at) % 2000) as f32 / 1000.0 - 1.0;
    let part = |rest: u32| (0..NODES).filter(move |node| node % 5 == rest);
    let graph = GraphBuilder::new(NODES as usize)
        .edges(pairs(1, 1800))
        .features(6, (0..u64::from(NODES) * 6).map(value).collect())
        .numbers("price", (0..NODES).map(|node| Some(f64::from(node % 17) * 100.0)))
        .split(part(0), part(1), part(2))
        .build()
        .unwrap();
    let sets = ["model.state=10"];
    let model = same_on_all_ranks(&graph, &sets, &[2, 5]).model;
    let items: Vec<u32> = (0..NODES).filter(|node| node % 3 > 0).collect();
    let predict = |ranks: Arc<dyn Ranks>| {
        let operators = operators_on(&graph, &ranks).unwrap();
        let predictor = Predictor::new(&model, Path::new("m"), &graph, &operators, None).unwrap();
        let solved = predictor.solve(&SolveParams::default()).unwrap();
        let mut numbers = Vec::new();
        solved
            .each_chunk(&items, |_, logits| -> Result<(), PredictError> {
                numbers.extend((0..logits.rows()).map(|row| solved.number(logits.row(row))));
                Ok(())
            })
            .unwrap();
        (numbers, solved.number_errors(&items).expect("a certified model"))
    };
    let alone = predict(Alone::shared());
    assert!(alone.1.iter().all(|error| *error > 0.0 && error.is_finite()));
    for found in ThreadRanks::run(3, 1, predict) {
        assert_eq!(found, alone);
    }
}

#[test]
fn baselines_have_the_same_bits_on_several_ranks() {
    let renormalised = undirected(Normalisation::Renorm);
    let rows = graph(&[
        ("first", Edges::undirected(pairs(4, 900)).normalisation(Normalisation::Row)),
        ("second", Edges::directed(pairs(5, 1100)).normalisation(Normalisation::Row)),
    ]);
    for graph in [&renormalised, &rows] {
        for sets in [
            &["model.kind=gcn", "model.state=12", "model.drop_edge=0.3"][..],
            &["model.kind=gcn", "model.state=7", "model.depth=3", "model.batch_norm=true"],
            &["model.kind=sgc", "model.depth=3"],
            &["model.kind=sgc", "model.depth=2", "model.drop_edge=0.2"],
            &["model.kind=mlp", "model.state=9", "model.skip=true", "model.between=elu"],
            &["model.kind=gat", "model.state=8", "model.heads=2", "model.dropout=0.2"],
            &["model.kind=gat", "model.state=8", "model.heads=[4,2]"],
            &["model.kind=gcnii", "model.state=6", "model.depth=4", "model.dropout=0.2"],
            &["model.kind=gin", "model.state=6", "model.gin_learn_epsilon=true"],
            &["model.kind=gin", "model.state=20", "model.features=learned"],
            &["model.kind=sse", "model.state=6", "solver.tolerance=1e-4"],
            &["model.kind=structural", "model.state=8"],
            &["model.kind=label-propagation"],
        ] {
            same_on_all_ranks(graph, sets, &[3]);
        }
    }
    // More ranks than parts: some have no rows.
    same_on_all_ranks(&renormalised, &["model.kind=gat", "model.state=8"], &[50]);
    same_on_all_ranks(&renormalised, &["model.kind=sse", "model.state=8"], &[50]);
}

#[test]
fn graphs_without_cycles_are_solved_in_order_on_several_ranks() {
    let chain = graph(&[("edges", Edges::directed((1..NODES).map(|i| (i - 1, i))))]);
    let solve = |fit: &Fit| fit.history[2].forward.as_ref().unwrap().choice.method;
    let fit = same_on_all_ranks(&chain, &["model.state=4"], &[2, 3, 50]);
    assert_eq!(format!("{:?}", solve(&fit)), "Ordered");
    same_on_all_ranks(&chain, &["model.state=16", "solver.method=plain"], &[2]);
    // Edges go from rank to rank and back; loops are iterated.
    let order = |node: u32| random(u64::from(node) + 99);
    let mut edges = pairs(9, 1500);
    edges.retain(|&(a, b)| order(a) < order(b));
    edges.extend((0..NODES).step_by(5).map(|node| (node, node)));
    let dag = graph(&[("edges", Edges::directed(edges))]);
    let fit = same_on_all_ranks(&dag, &["model.state=20"], &[2, 5]);
    assert_eq!(format!("{:?}", solve(&fit)), "Ordered");
}

#[test]
fn repeated_rows_have_the_same_bits_on_several_ranks() {
    // Cliques of some members each, all over the graph.
    let clique = |node: u32| random(u64::from(node) * 3 + 1) % 25;
    let edges = (0..NODES).flat_map(|a| (0..a).map(move |b| (b, a)));
    let edges: Vec<_> = edges.filter(|&(a, b)| clique(a) == clique(b)).collect();
    // Every node of a group gathers from all nodes of the next one.
    let next = |a: u32, b: u32| (clique(a) + 1) % 25 == clique(b);
    let both = (0..NODES).flat_map(|a| (0..NODES).map(move |b| (a, b)));
    let directed: Vec<_> = both.filter(|&(a, b)| next(a, b)).collect();
    let several = [
        graph(&[("e", Edges::undirected(edges).normalisation(Normalisation::Renorm))]),
        graph(&[("e", Edges::directed(directed).normalisation(Normalisation::Row))]),
    ];
    for graph in &several {
        let operators = operators_on(graph, &Alone::shared()).unwrap();
        assert!(operators.incoming()[0].shared().is_some(), "rows that repeat");
        same_on_all_ranks(graph, &["model.state=16"], &[2, 5]);
        same_on_all_ranks(graph, &["model.state=4", "model.features=learned"], &[3]);
        same_on_all_ranks(graph, &["model.kind=gcn", "model.state=6"], &[3]);
    }
}

#[test]
fn collections_have_the_same_bits_on_several_ranks() {
    let place = tempfile::tempdir().unwrap();
    let generate = |name: &str, kind: Kind| {
        let out = Some(place.path().join(name));
        let normalise = Normalisation::Renorm;
        let job = Generate { kind, out, raw: None, force: false, normalise };
        let observer = Recorder::default();
        job.run(&Context { threads: 1, memory: 1 << 28, seed: 3, observer: &observer }).unwrap();
        Graph::open(place.path().join(name)).unwrap()
    };
    let rings = RingsOptions { rings: 16, length: 12, by_graph: true, ..RingsOptions::default() };
    let rings = generate("rings", Kind::Rings(rings));
    let ppi = generate("ppi", Kind::Ppi(PpiOptions { scale: 0.075, ..PpiOptions::default() }));
    let batch = "train.batch=5";
    let fit = same_on_all_ranks(&rings, &["model.state=6", batch], &[2, 3]);
    same_on_all_ranks(&rings, &["model.kind=gin", "model.state=6", batch], &[3]);
    same_on_all_ranks(&rings, &["model.state=6", "train.learn=ridge"], &[3]);
    same_on_all_ranks(&ppi, &["model.state=8", "train.batch=1"], &[2, 5]);
    let dropped = "train.drop_nodes=0.3";
    same_on_all_ranks(&rings, &["model.state=6", batch, dropped], &[3]);
    same_on_all_ranks(&ppi, &["model.state=[8,6]", "model.skip=true", dropped], &[3]);
    same_on_all_ranks(&ppi, &["model.kind=gat", "model.state=8", "model.heads=2", dropped], &[3]);
    let predict = |ranks: Arc<dyn Ranks>| {
        let (operators, graphs) = (operators_on(&rings, &ranks).unwrap(), rings.collection());
        let graphs = graphs.unwrap();
        let predictor =
            Predictor::new(&fit.model, Path::new("m"), &rings, &operators, graphs.as_ref());
        let solved = predictor.unwrap().solve(&SolveParams::default()).unwrap();
        let solves: Vec<_> = solved.solves().iter().map(|solve| solve.without_times()).collect();
        (solved.states().padded().to_vec(), format!("{solves:?}"))
    };
    let alone = predict(Alone::shared());
    for found in ThreadRanks::run(3, 1, predict) {
        assert!(found == alone);
    }
}

#[test]
fn a_model_to_start_from_may_have_learned_features() {
    let place = tempfile::tempdir().unwrap();
    let graph = undirected(Normalisation::Renorm);
    let config = config(&["model.state=6", "model.features=learned"]);
    let first = fit(&graph, &config, Alone::shared()).unwrap().model;
    let file = place.path().join("first.safetensors");
    first.save(&file).unwrap();
    let train = |name: &str, size: usize| {
        let directory = place.path().join(name);
        ThreadRanks::run(size, 1, |ranks| {
            let run = Run::new(graph.clone(), config.clone(), &directory).on_ranks(ranks);
            run.starting_from(&file).train(&mut (), &AtomicBool::new(false)).unwrap();
        });
        fs::read(directory.join("model.safetensors")).unwrap()
    };
    assert!(train("alone", 1) == train("three", 3));
}

#[test]
fn ranks_that_see_different_datasets_are_refused() {
    let graphs = [undirected(Normalisation::Renorm), undirected(Normalisation::None)];
    let found = ThreadRanks::run(3, 1, |ranks| {
        let graph = &graphs[ranks.rank() / 2];
        fit(graph, &config(&[]), ranks).unwrap_err().to_string()
    });
    assert!(found.iter().all(|found| found.contains("rank 2 sees another dataset")), "{found:?}");
}

/// Sets a flag after an epoch.
pub(crate) struct StopAfter<'a>(pub u64, pub &'a AtomicBool);

impl Observer for StopAfter<'_> {
    fn epoch(&mut self, record: &EpochRecord) -> ignn::format::Result<()> {
        if record.epoch == self.0 {
            self.1.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[test]
fn runs_of_several_seeds_are_the_same_on_several_ranks() {
    let place = tempfile::tempdir().unwrap();
    let graph = undirected(Normalisation::Renorm);
    let config = config(&["model.state=8"]);
    let train = |name: &str, size: usize| {
        let directory = place.path().join(name);
        let counts = ThreadRanks::run(size, 1, |ranks| {
            let run = Run::new(graph.clone(), config.clone(), &directory).on_ranks(ranks);
            assert!(size == 1 || run.runs_at_once(2).unwrap() == 1);
            let stop = AtomicBool::new(false);
            run.train_seeds(&[3, 5], 1, |_| (), |_| (), &stop).unwrap().len()
        });
        assert_eq!(counts, vec![2; size]);
        ["seed-3", "seed-5"].map(|seed| {
            let model = directory.join(seed).join("model.safetensors");
            fs::read(model).unwrap()
        })
    };
    let alone = train("alone", 1);
    assert!(alone == train("three", 3));
    assert!(alone[0] != alone[1]);
}

/// Sees nothing.
struct Silent;

impl FoldObserver for Silent {
    fn epoch(&self, _fold: usize, _record: &EpochRecord) {}
    fn note(&self, _fold: usize, _text: &str) {}
    fn finished(&self, _record: &FoldRecord) {}
}

#[test]
fn folds_are_dealt_to_ranks() {
    let place = tempfile::tempdir().unwrap();
    let graph = undirected(Normalisation::Renorm);
    let config = config(&["model.state=6"]);
    let setup = CrossvalSetup { folds: 5, readout: FoldReadout::Model, csv_safe: false };
    let train = |name: &str, size: usize| {
        let directory = place.path().join(name);
        // One that is there is replaced.
        let replaces = directory.exists();
        let mut all = ThreadRanks::run(size, 1, |ranks| {
            let crossval = Crossval::new(graph.clone(), config.clone(), setup);
            let crossval = crossval.in_directory(&directory, replaces).on_ranks(ranks);
            let (summary, records) = crossval.train(&Silent, &AtomicBool::new(false)).unwrap();
            let records = records.into_iter().map(|record| FoldRecord { seconds: 0.0, ..record });
            (summary.folds.len(), records.collect::<Vec<_>>())
        });
        assert!(all.iter().all(|of_rank| *of_rank == all[0]));
        let models = (0..5).map(|fold| directory.join(format!("fold-{fold}/model.safetensors")));
        (all.swap_remove(0), models.map(|model| fs::read(model).unwrap()).collect::<Vec<_>>())
    };
    let alone = train("alone", 1);
    assert_eq!(alone.0.0, 5);
    assert!(alone == train("three", 3));
    fs::remove_file(place.path().join("three/fold-1/model.safetensors")).unwrap();
    assert!(alone == train("three", 3), "replaced");
    // All are finished: nothing is left to do, on any number of ranks.
    let (directory, stop) = (place.path().join("three"), AtomicBool::new(false));
    let again = ThreadRanks::run(2, 1, |ranks| {
        let crossval = Crossval::resume_on(&directory, graph.path()).unwrap().on_ranks(ranks);
        assert!(crossval.open_folds().is_empty());
        crossval.train(&Silent, &stop).unwrap().1.len()
    });
    assert_eq!(again, [5, 5]);
}

#[test]
fn ranks_that_see_different_directories_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let directories = ["here", "there"].map(|name| place.path().join(name));
    let graph = undirected(Normalisation::Renorm);
    let config = config(&["train.epochs=7", "train.checkpoint_epochs=1", "model.state=6"]);
    // Copies of one run, one of which is older.
    for (directory, epochs) in directories.iter().zip([2, 4]) {
        let stop = AtomicBool::new(false);
        let run = Run::new(graph.clone(), config.clone(), directory);
        run.train(&mut StopAfter(epochs, &stop), &stop).unwrap();
    }
    let model = directories[0].join("model.safetensors");
    let before = fs::read(&model).unwrap();
    let found = ThreadRanks::run(2, 1, |ranks| {
        let run = Run::resume_on(&directories[ranks.rank()], graph.path()).unwrap();
        let resumed = run.on_ranks(ranks).train(&mut (), &AtomicBool::new(false));
        resumed.unwrap_err().to_string()
    });
    assert!(
        found.iter().all(|found| found.contains("rank 1 sees another checkpoint")),
        "{found:?}"
    );
    assert!(fs::read(&model).unwrap() == before);

    let folds = directories.map(|directory| directory.with_extension("folds"));
    let setup = CrossvalSetup { folds: 3, readout: FoldReadout::Model, csv_safe: false };
    let train = |rank_sees: [usize; 2], replaces| {
        ThreadRanks::run(2, 1, |ranks| {
            let directory = &folds[rank_sees[ranks.rank()]];
            let crossval = Crossval::new(graph.clone(), config.clone(), setup);
            let crossval = crossval.in_directory(directory, replaces).on_ranks(ranks);
            let trained = crossval.train(&Silent, &AtomicBool::new(false));
            trained.map(|_| ()).map_err(|error| error.to_string())
        })
    };
    assert_eq!(train([1, 1], false), [Ok(()), Ok(())]);
    let kept = fs::read(folds[1].join("fold-1/model.safetensors")).unwrap();
    for found in train([0, 1], true) {
        assert!(found.as_ref().is_err_and(|e| e.contains("another cross-validation")), "{found:?}");
    }
    assert!(fs::read(folds[1].join("fold-1/model.safetensors")).unwrap() == kept, "untouched");
}

/// Ranks, of which the first notes the longest message that it receives.
#[derive(Debug)]
struct Noting(Arc<dyn Ranks>, &'static AtomicUsize);

impl Ranks for Noting {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn exchange(&self, messages: Vec<(usize, Vec<u8>)>, from: &[usize]) -> Vec<Vec<u8>> {
        let received = self.0.exchange(messages, from);
        if self.rank() == 0 {
            self.1.fetch_max(received.iter().map(Vec::len).max().unwrap_or(0), Ordering::Relaxed);
        }
        received
    }
}

#[test]
fn the_first_rank_holds_no_table_of_others_when_a_run_ends() {
    static LONGEST: AtomicUsize = AtomicUsize::new(0);
    let place = tempfile::tempdir().unwrap();
    // Half of its table is longer than a piece of a file, 4 MiB.
    let nodes = 40_000;
    let graph = GraphBuilder::new(nodes as usize)
        .edges((1..nodes).map(|node| (node - 1, node)))
        .classes(["a", "b"], (0..nodes).map(|node| Some(node % 2)))
        .split(0..50, 50..100, 100..150)
        .build()
        .unwrap();
    let config = config(&["model.kind=gin", "model.features=learned", "model.state=64"]);
    let train = |name: &str, size: usize| {
        let directory = place.path().join(name);
        ThreadRanks::run(size, 1, |ranks| {
            let ranks: Arc<dyn Ranks> = match size {
                1 => ranks,
                _ => Arc::new(Noting(ranks, &LONGEST)),
            };
            let run = Run::new(graph.clone(), config.clone(), &directory).on_ranks(ranks);
            run.train(&mut (), &AtomicBool::new(false)).unwrap();
        });
        fs::read(directory.join("model.safetensors")).unwrap()
    };
    assert!(train("alone", 1) == train("two", 2));
    assert_eq!(LONGEST.load(Ordering::Relaxed), 4 << 20);
}

#[test]
fn a_run_stops_on_three_ranks_and_ends_on_two_with_the_same_bytes() {
    stopped_and_resumed("model.features=given");
    stopped_and_resumed("model.features=learned");
}

fn stopped_and_resumed(features: &str) {
    let place = tempfile::tempdir().unwrap();
    let graph = graph(&[("edges", Edges::undirected(pairs(1, 1800)))]);
    let config =
        config(&["train.epochs=7", "model.state=12", "train.checkpoint_epochs=2", features]);
    let run = |name: &str, size: usize, stop_after: Option<u64>| {
        let directory = place.path().join(name);
        let ended = ThreadRanks::run(size, 1, |ranks| {
            let stop = AtomicBool::new(false);
            // Only one rank is asked to stop.
            let asked = stop_after.filter(|_| ranks.rank() + 1 == size);
            let run = match directory.exists() {
                true => Run::resume_on(&directory, graph.path()).unwrap(),
                false => Run::new(graph.clone(), config.clone(), &directory),
            };
            let mut observer = StopAfter(asked.unwrap_or(u64::MAX), &stop);
            run.on_ranks(ranks).train(&mut observer, &stop).unwrap().figures.ended
        });
        assert!(ended.iter().all(|of_rank| *of_rank == ended[0]));
        directory
    };
    let whole = run("whole", 1, None);
    run("parts", 3, Some(3));
    let parts = run("parts", 2, None);
    let model = |run: &Path| fs::read(run.join("model.safetensors")).unwrap();
    assert!(model(&whole) == model(&parts), "the same model");
    let checkpoint = |run: &Path| fs::read(run.join("checkpoint/state.safetensors")).unwrap();
    assert!(checkpoint(&whole) == checkpoint(&parts), "the same checkpoint");
    let records = |run: &Path| -> Vec<EpochRecord> {
        let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let record = |line| serde_json::from_str::<EpochRecord>(line).unwrap().without_times();
        text.lines().map(record).collect()
    };
    assert_eq!(format!("{:?}", records(&whole)), format!("{:?}", records(&parts)));
}
