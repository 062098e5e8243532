//! Graphs built in memory: the files of `ignn ingest` bit by bit, datasets that pass `ignn check`,
//! messages for input that is wrong, and sparse views.

use std::fmt::Write;
use std::fs;

use ignn::graph::{Edges, Graph, GraphBuilder, Ids, Labels, Normalisation, One, Scale};
use ignn_ingest::Context;
use ignn_ingest::command::edges::IngestEdges;
use ignn_ingest::context::Recorder;
use ignn_ingest::edges::options::RelationOptions;

const NODES: u32 = 40;

/// Edges with repeated ones, both ways round, and loops; weights that round.
fn edges() -> (Vec<(u32, u32)>, Vec<f32>) {
    let pairs: Vec<_> = (0..200u32).map(|i| (i * 7 % NODES, i * i % NODES)).collect();
    let weights = (0..200u32).map(|i| 0.1 + (i * 13 % 31) as f32 / 7.0).collect();
    (pairs, weights)
}

#[test]
fn a_built_relation_has_the_bytes_of_an_ingested_one() {
    let directory = tempfile::tempdir().unwrap();
    let (pairs, weights) = edges();
    for (at, normalise) in
        [Normalisation::None, Normalisation::Renorm, Normalisation::Row].into_iter().enumerate()
    {
        for (directed, weighted) in [(false, false), (false, true), (true, false), (true, true)] {
            let name = format!("{at}-{directed}-{weighted}");
            let file = directory.path().join(format!("{name}.csv"));
            let mut text = String::new();
            for ((source, target), weight) in pairs.iter().zip(&weights) {
                match weighted {
                    true => writeln!(text, "{source},{target},{weight}").unwrap(),
                    false => writeln!(text, "{source},{target}").unwrap(),
                }
            }
            fs::write(&file, text).unwrap();
            let out = directory.path().join(&name);
            let mut job = IngestEdges::new(vec![file], out.clone());
            job.relation = RelationOptions { directed, normalise, ..RelationOptions::default() };
            job.node_count = Some(NODES.into());
            let observer = Recorder::default();
            job.run(&Context { threads: 1, memory: 1 << 28, seed: 0, observer: &observer })
                .unwrap();
            let ingested = Graph::open(out).unwrap();

            let all = pairs.iter().copied();
            let edges = if directed { Edges::directed(all) } else { Edges::undirected(all) };
            let edges = edges.normalisation(normalise);
            let edges = if weighted { edges.weights(weights.clone()) } else { edges };
            let built = GraphBuilder::new(NODES as usize).relation("edges", edges).build().unwrap();
            assert_eq!(built.manifest().relations, ingested.manifest().relations, "{name}");
            assert_eq!(built.manifest().files, ingested.manifest().files, "{name}");
        }
    }
}

#[test]
fn a_built_graph_passes_the_check_and_is_removed_with_its_last_clone() {
    let classes = vec!["x".into(), "y".into()];
    let labels = Labels::sets(classes, vec![0, 2, 2, 3], vec![0, 1, 1]);
    let builder = GraphBuilder::new(3)
        .edges([(0, 1)])
        .relation("link", Edges::directed([(2, 0)]).normalisation(Normalisation::None))
        .features(2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        .labels(labels.clone())
        .ids(Ids::from_strings(["a", "b", "c"]))
        .split([0], [1], [2]);
    let graph = builder.build().unwrap();
    let findings = ignn_format::check::check(graph.directory(), &|_, _, _| ());
    assert_eq!(findings, []);
    assert_eq!(graph.labels().unwrap(), labels);
    assert_eq!(graph.splits().unwrap()[0].of, [0, 1, 2]);

    let (path, clone) = (graph.path().to_path_buf(), graph.clone());
    drop(graph);
    assert!(path.exists() && clone.relations().unwrap().len() == 2);
    drop(clone);
    assert!(!path.exists() && !path.parent().unwrap().exists());
}

#[test]
fn input_that_is_wrong_is_refused() {
    let edge = || GraphBuilder::new(3).edges([(0, 1)]);
    let weights = |weights| Edges::undirected([(0, 1)]).weights(weights);
    let wrong = [
        (GraphBuilder::new(3).edges([(0, 3)]), "node of an edge (found 3, expected less than 3)"),
        (edge().relation("../up", Edges::directed([])), "relation name (found ../up, expected"),
        (edge().relation("w", weights(vec![])), "number of weights (found 0, expected 1)"),
        (edge().relation("w", weights(vec![-1.0])), "weight of an edge (found -1, expected a"),
        (edge().features(2, vec![0.0; 5]), "number of features (found 5, expected 6)"),
        (edge().features(0, vec![]), "feature columns (found 0, expected at least 1)"),
        (edge().features(1, vec![0.0, f32::NAN, 0.0]), "feature (found NaN, expected a finite"),
        (edge().classes(["a"], [Some(0), None]), "number of labels (found 2, expected 3)"),
        (edge().classes(["a"], [Some(0), Some(1), None]), "class (found 1, expected less than 1)"),
        (edge().split([5], [], []), "number of nodes of a split (found 6, expected 3)"),
        (edge().ids(Ids::Integer(vec![1])), "number of ids (found 1, expected 3)"),
    ];
    for (builder, expected) in wrong {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} without {expected:?}");
    }
}

#[test]
fn views_are_the_stored_matrix_in_both_directions() {
    let (pairs, weights) = edges();
    for is_weighted in [false, true] {
        let edges = Edges::directed(pairs.iter().copied()).normalisation(Normalisation::Row);
        let edges = if is_weighted { edges.weights(weights.clone()) } else { edges };
        let graph = GraphBuilder::new(NODES as usize).relation("flow", edges).build().unwrap();
        let flow = &graph.relations().unwrap()[0];
        assert_eq!((flow.name(), flow.nodes(), flow.entry.scale), ("flow", 40, Scale::Source));
        let (incoming, outgoing) =
            (flow.incoming_pattern().unwrap(), flow.outgoing_pattern().unwrap());
        assert_eq!(incoming.nnz() as u64, flow.entry.nonzeros);
        for (_, (i, j)) in incoming.iter() {
            assert_eq!(outgoing.get(j as usize, i as usize), Some(&One));
        }
        assert_eq!(flow.incoming_values().unwrap().is_some(), is_weighted);
        // Rows of A, scaled, sum to one: 1 for every node with an edge, by the product with ones.
        let mut sums = vec![0.0f32; NODES as usize];
        let ones = vec![1.0f32; NODES as usize];
        match flow.outgoing_values().unwrap() {
            Some(values) => sprs::prod::mul_acc_mat_vec_csr(values, &ones[..], &mut sums[..]),
            None => sprs::prod::mul_acc_mat_vec_csr(outgoing, &ones[..], &mut sums[..]),
        }
        for (node, (sum, scale)) in sums.iter().zip(flow.scale().unwrap()).enumerate() {
            let expected = if outgoing.outer_view(node).unwrap().nnz() == 0 { 0.0 } else { 1.0 };
            assert!((sum * scale - expected).abs() < 1e-6, "node {node}: {}", sum * scale);
        }
    }
}

/// Programs that make backups link, rename and touch files. Only another content is a change.
#[test]
fn a_dataset_may_be_linked_while_it_is_in_use_but_not_written_to() {
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
    let directory = tempfile::tempdir().unwrap();
    let (pairs, weights) = edges();
    let path = directory.path().join("graph.ignn");
    let edges = Edges::directed(pairs).weights(weights);
    GraphBuilder::new(NODES as usize).relation("edges", edges).write(&path).unwrap();
    let graph = Graph::open(&path).unwrap();
    graph.relations().unwrap();
    let files: Vec<_> = fs::read_dir(path.join("relations/edges")).unwrap().flatten().collect();
    for file in &files {
        let (file, link) = (file.path(), directory.path().join("link"));
        let before = fs::metadata(&file).unwrap();
        // Repeated, because the clock of the file system may be coarse.
        let until_it_shows = |change: &dyn Fn()| {
            let changed = || fs::metadata(&file).unwrap().ctime_nsec();
            let earlier = changed();
            while changed() == earlier {
                change();
            }
        };
        until_it_shows(&|| {
            fs::hard_link(&file, &link).unwrap();
            fs::remove_file(&link).unwrap();
        });
        graph.check_unchanged().unwrap();
        let last = before.len() - 1;
        let byte = *fs::read(&file).unwrap().last().unwrap();
        let write = |byte: u8| {
            let opened = fs::File::options().write(true).open(&file).unwrap();
            opened.write_all_at(&[byte], last).unwrap();
            opened.set_modified(before.modified().unwrap()).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        };
        until_it_shows(&|| write(byte ^ 1));
        let error = graph.check_unchanged().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: the file was changed", file.display())), "{error}");
        write(byte);
        graph.check_unchanged().unwrap();
    }
    assert!(files.len() > 1);
}
