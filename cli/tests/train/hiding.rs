//! Labels as first values of learned features, and training nodes hidden from a step.

use std::path::Path;

use ignn::config::Config;
use ignn::graph::Graph;
use ignn::train::Trainer;

use super::{bytes, communities, metrics, words};

const LABELS: &str = "--set model.features=learned --set model.init_features=labels --set \
                      model.init=cascade --set model.activation=identity --set model.input=own";

fn trainer_of<T>(path: &Path, sets: &str, with: impl FnOnce(Trainer) -> T) -> T {
    let sets: Vec<String> =
        words(sets).into_iter().filter(|word| *word != "--set").map(String::from).collect();
    let config = Config::resolve(None, None, &sets).unwrap();
    with(Trainer::new(Graph::open(path).unwrap(), config).unwrap())
}

#[test]
fn the_untrained_model_is_label_propagation() {
    let sandbox = communities();
    let sets = format!("{LABELS} --set model.state=7 --set model.kappa=0.9");
    trainer_of(&sandbox.path("s"), &sets, |trainer| {
        let model = trainer.network();
        let value = |name: &str| {
            let found = model.parameters.iter().find(|parameter| parameter.name == name);
            &found.unwrap_or_else(|| panic!("{name}")).value
        };
        // Three classes: two banks, and a column that is left alone. The last digits are those of
        // the bound on the graph's radius.
        let (w, theta, table) = (value("layer0.W"), value("head.Theta"), value("layer0.E"));
        for k in 0..7 {
            for l in 0..7 {
                let expected = match (k == l, k == l + 3, (3..6).contains(&k)) {
                    (true, _, false) => 0.9,
                    (true, _, true) => 0.81,
                    (_, true, true) => 0.09,
                    _ => 0.0,
                };
                assert!((w.row(k)[l] - expected).abs() < 1e-5, "W[{k}, {l}] = {}", w.row(k)[l]);
            }
        }
        assert_eq!(theta.row(0), [6.0, 0.0, 0.0, 6.0, 0.0, 0.0, 0.0]);
        assert_eq!(theta.row(1), [0.0, 6.0, 0.0, 0.0, 6.0, 0.0, 0.0]);
        let labelled =
            (0..table.rows()).filter(|&node| table.row(node).iter().sum::<f32>() == 1.0).count();
        let unlabelled =
            (0..table.rows()).filter(|&node| table.row(node).iter().all(|x| *x == 0.0)).count();
        assert_eq!(labelled + unlabelled, 300);
        assert!((0..table.rows()).all(|node| table.row(node)[3..].iter().all(|x| *x == 0.0)));
        assert!(labelled > 0 && unlabelled > 0, "training nodes only: {labelled}");
    });
    // With one group of columns, and before any step, it predicts what the baseline predicts.
    let accuracy = |run: &str, sets: &str| {
        let line = format!("train s --out {run} --epochs 0 -q {sets}");
        sandbox.ignn(&words(&line)).exits(0);
        metrics(&sandbox, run)[0]["test"]["accuracy"].as_f64().unwrap()
    };
    let started =
        accuracy("run", &format!("{LABELS} --set model.init=identity --set model.state=7"));
    let propagated = accuracy("baseline", "--set model.kind=label-propagation");
    assert!(propagated > 0.6 && (started - propagated).abs() < 0.01, "{started} {propagated}");
}

#[test]
fn gradients_of_a_hiding_step_are_differences_of_its_loss() {
    let sandbox = communities();
    let path = sandbox.path("s");
    let sets = format!(
        "{LABELS} --set model.state=6 --set model.activation=tanh --set train.hide=0.3 --set \
         model.dropout=0 --set model.normalise_state=true --set solver.tolerance=1e-7 --set \
         solver.adjoint_tolerance=1e-7"
    );
    // The loss of the first step, one entry changed before it.
    let loss = |change: Option<(usize, usize, usize, f32)>| {
        trainer_of(&path, &sets, |mut trainer| {
            if let Some((parameter, row, column, by)) = change {
                trainer.network_mut().parameters[parameter].value.row_mut(row)[column] += by;
            }
            trainer.advance().unwrap().loss
        })
    };
    let (names, gradients) = trainer_of(&path, &sets, |mut trainer| {
        trainer.advance().unwrap();
        let parameters = &trainer.network().parameters;
        let names: Vec<String> =
            parameters.iter().map(|parameter| parameter.name.clone()).collect();
        (names, parameters.iter().map(|parameter| parameter.gradient.clone()).collect::<Vec<_>>())
    });
    let labelled: Vec<usize> = trainer_of(&path, &sets, |trainer| {
        let table = &trainer.network().parameters[1].value;
        (0..table.rows()).filter(|&node| table.row(node).iter().any(|x| *x != 0.0)).collect()
    });
    assert_eq!(names[1], "layer0.E");
    let is_hidden = |&&node: &&usize| gradients[1].row(node).iter().all(|x| *x == 0.0);
    let hidden: Vec<usize> = labelled.iter().filter(is_hidden).copied().collect();
    assert_eq!(hidden.len(), (labelled.len() as f64 * 0.3).round() as usize);
    // The features of a hidden node have no effect on the loss of the step, up to the tolerance of
    // solves that start from different states.
    let moved = |node: usize| (loss(Some((1, node, 0, 0.5))) - loss(None)).abs();
    let visible = *labelled.iter().find(|node| !hidden.contains(node)).unwrap();
    assert!(
        moved(hidden[0]) < 1e-6 && moved(visible) > 1e-4,
        "{} {}",
        moved(hidden[0]),
        moved(visible)
    );
    let step = 1e-2;
    for (parameter, gradient) in gradients.iter().enumerate() {
        // The steepest entry.
        let entries = (0..gradient.rows())
            .flat_map(|row| (0..gradient.cols()).map(move |column| (row, column)));
        let size = |&(row, column): &(usize, usize)| gradient.row(row)[column].abs();
        let (row, column) = entries.max_by(|a, b| size(a).total_cmp(&size(b))).unwrap();
        let [up, down] = [step, -step].map(|by| loss(Some((parameter, row, column, by))));
        let (found, expected) =
            (f64::from(gradient.row(row)[column]), (up - down) / (2.0 * f64::from(step)));
        let name = &names[parameter];
        assert!((found - expected).abs() <= 0.02 * expected.abs(), "{name}: {found} {expected}");
    }
}

#[test]
fn hiding_learns_the_same_bits_and_leaves_slow_features_alone() {
    let sandbox = communities();
    let sets = "--set model.state=6 --set train.hide=0.3 --set optim.table_factor=0 --set \
                optim.layer_factor=0.1 --set train.evaluate_every=3";
    for (run, threads) in [("one", 1), ("two", 2)] {
        let line =
            format!("train s --out {run} --epochs 12 -q {LABELS} {sets} --threads {threads}");
        sandbox.ignn(&words(&line)).exits(0).says("all converged");
    }
    assert!(bytes(&sandbox, "one/model.safetensors") == bytes(&sandbox, "two/model.safetensors"));
    let records = metrics(&sandbox, "one");
    assert_eq!(records, metrics(&sandbox, "two"));
    let evaluated: Vec<_> = records.iter().map(|record| record["test"].is_object()).collect();
    assert_eq!(evaluated, (0..=12).map(|epoch| epoch % 3 == 0).collect::<Vec<_>>());
    let loss = |at: usize| records[at]["validation"]["loss"].as_f64().unwrap();
    assert!(loss(12) < loss(0), "{} {}", loss(0), loss(12));
    let path = sandbox.path("s");
    trainer_of(&path, &format!("{LABELS} {sets}"), |mut trainer| {
        let before: Vec<_> = trainer.network().parameters.iter().map(|p| p.value.clone()).collect();
        for _ in 0..3 {
            trainer.advance().unwrap();
        }
        for (parameter, before) in trainer.network().parameters.iter().zip(&before) {
            let is_same = parameter.value.view().padded() == before.view().padded();
            assert_eq!(is_same, parameter.name == "layer0.E", "{}", parameter.name);
        }
    });
}

#[test]
fn features_of_the_dataset_are_neither_labels_nor_hidden() {
    let sandbox = communities();
    sandbox.ignn(&words("train s --out run -q --set train.hide=0.5")).fails_with(
        "train.hide: only learned features are hidden (found 0.5 with features of the dataset): \
         use train.hide=0 or model.features=learned",
    );
    sandbox.ignn(&words("train s --out run -q --set model.init_features=labels")).fails_with(
        "model.init_features: labels as features need learned features (found features of the \
         dataset): use model.features=learned or model.init_features=random",
    );
}
