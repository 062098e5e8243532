//! A training that collapses: noticed, stopped, or continued from its best model. And one whose
//! states fade.

use std::sync::atomic::AtomicBool;

use ignn::prelude::*;

/// Two rings whose class is that of one labelled node.
fn rings() -> Graph {
    let ring = |first: u32| (0..10).map(move |i| (first + i, first + (i + 1) % 10));
    GraphBuilder::new(20)
        .edges(ring(0).chain(ring(10)))
        .classes(["one", "other"], (0..20).map(|node| Some(node / 10)))
        .split([0, 3, 10, 13], [1, 11], (4..10).chain(14..20))
        .build()
        .unwrap()
}

fn config(on_collapse: &str, epochs: u64) -> Config {
    let sets = [
        "model.state=4".into(),
        "model.dropout=0".into(),
        "optim.learning_rate=0.05".into(),
        format!("train.epochs={epochs}"),
        format!("train.on_collapse={on_collapse}"),
    ];
    Config::resolve(None, None, &sets).unwrap()
}

/// Trained for forty epochs; then its readout is turned around, as one step that is far too long
/// would do.
fn collapsing(on_collapse: &str) -> Trainer {
    let mut trainer = Trainer::new(rings(), config(on_collapse, 100)).unwrap();
    for _ in 0..40 {
        assert!(!trainer.advance().unwrap().has_collapsed);
    }
    for parameter in &mut trainer.network_mut().parameters {
        if parameter.name.starts_with("head.") {
            parameter.value.view_mut().padded_mut().iter_mut().for_each(|x| *x *= -20.0);
        }
    }
    trainer
}

#[derive(Default)]
struct Notes(Vec<String>);

impl Observer for Notes {
    fn epoch(&mut self, _: &EpochRecord) -> Result<(), ignn::FormatError> {
        Ok(())
    }

    fn note(&mut self, text: &str) -> Result<(), ignn::FormatError> {
        self.0.push(text.into());
        Ok(())
    }
}

#[test]
fn a_collapse_is_noted_once_and_training_continues() {
    let (mut trainer, mut notes) = (collapsing("warn"), Notes::default());
    let fit = trainer.fit_with(&mut notes).unwrap();
    assert_eq!(fit.ended, Ended::Epochs);
    let [note] = &notes.0[..] else { panic!("{:?}", notes.0) };
    assert!(note.starts_with("epoch 41: training has collapsed: the training loss is "), "{note}");
    assert!(note.contains("train.on_collapse=restore"), "{note}");
    assert_eq!(fit.history.iter().filter(|record| record.has_collapsed).count(), 1);
}

#[test]
fn a_collapse_ends_training_with_the_best_model() {
    let mut trainer = collapsing("stop");
    let fit = trainer.fit().unwrap();
    assert_eq!((fit.ended, fit.history.last().unwrap().epoch), (Ended::Collapsed, 41));
    assert!(fit.best_epoch.unwrap() < 40);
    assert_eq!(trainer.fit().unwrap().ended, Ended::Collapsed, "it stays where it is");
}

#[test]
fn training_continues_from_the_best_model_at_a_lower_rate_also_when_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("checkpoint");
    let mut trainer = collapsing("restore");
    let before = trainer.advance().unwrap();
    assert!(!before.has_collapsed, "one epoch may be a spike");
    trainer.save(&file).unwrap();
    let collapsed = trainer.advance().unwrap();
    assert!(collapsed.has_collapsed);
    let best = trainer.best().unwrap().values.clone();
    for (parameter, best) in trainer.network().parameters.iter().zip(&best) {
        let best = best.as_ref().expect("no parameter is fixed");
        assert_eq!(parameter.value.view().padded(), best.view().padded(), "{}", parameter.name);
    }
    let after = trainer.advance().unwrap();
    assert!((after.learning_rate / before.learning_rate - 0.3).abs() < 1e-12);
    assert!(after.loss < 0.5 * collapsed.loss, "{} {}", after.loss, collapsed.loss);

    let mut resumed = Trainer::new(rings(), config("restore", 100)).unwrap();
    resumed.restore(&file).unwrap();
    let losses = [resumed.advance().unwrap().loss, resumed.advance().unwrap().loss];
    assert_eq!(losses, [collapsed.loss, after.loss], "the same curve to the bit");
}

#[test]
fn a_gradient_that_is_not_finite_is_a_collapse() {
    let mut trainer = collapsing("restore");
    for parameter in &mut trainer.network_mut().parameters {
        if parameter.name.starts_with("head.") {
            parameter.value.view_mut().padded_mut().iter_mut().for_each(|x| *x *= 1e38);
        }
    }
    let record = trainer.advance().unwrap();
    assert!(record.has_collapsed && record.loss.is_nan(), "{record:?}");
    assert!(trainer.advance().unwrap().loss < 0.7);
}

#[test]
fn there_must_be_a_model_to_restore() {
    let graph = GraphBuilder::new(4)
        .edges([(0, 1), (2, 3)])
        .classes(["a", "b"], (0..4).map(|node| Some(node / 2)))
        .split([0, 2], [], [1, 3])
        .build()
        .unwrap();
    let error = Trainer::new(&graph, config("restore", 5)).err().expect("refused").to_string();
    assert!(error.contains("train.on_collapse=restore continues from the best model"), "{error}");
}

/// Dropout makes the losses of steps on few nodes jump; the training is fine.
#[test]
fn dropout_on_few_nodes_is_no_collapse() {
    for seed in 0..4 {
        let mut config = config("stop", 300);
        (config.model.dropout, config.train.seed) = (0.5, seed);
        let fit = Trainer::new(rings(), config).unwrap().fit().unwrap();
        let lowest = fit.history.iter().map(|record| record.loss).fold(f64::INFINITY, f64::min);
        let jumps = fit.history.iter().filter(|record| record.loss > 0.35 + lowest / 2.0).count();
        assert_eq!(fit.ended, Ended::Epochs, "seed {seed}, {jumps} epochs with a large step loss");
    }
}

#[test]
fn states_that_all_fade_are_noted_once() {
    let notes = |size: f32| {
        let graph = GraphBuilder::new(6)
            .edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
            .features(1, (0..6).map(|node| size * [1.0, -1.0][node / 3]).collect())
            .classes(["a", "b"], (0..6).map(|node| Some(node / 3)))
            .split([0, 3], [1, 4], [2, 5])
            .build()
            .unwrap();
        let sets = ["model.state=4", "model.normalise_state=true", "train.epochs=3"];
        let config = Config::resolve(None, None, &sets.map(String::from)).unwrap();
        let (mut trainer, mut notes) = (Trainer::new(&graph, config).unwrap(), Notes::default());
        trainer.run(&mut notes, &AtomicBool::new(false), |_| Ok(())).unwrap();
        notes.0
    };
    assert!(notes(1.0).is_empty());
    let expected = "epoch 0: the states of all training items are almost zero (shorter than 1e-12), so \
                    that only the readout learns: ";
    let found = notes(1e-20);
    let [note] = &found[..] else { panic!("{found:?}") };
    assert!(note.starts_with(expected), "{note}");
    assert!(note.contains("model.normalise_features=true"), "{note}");
}

#[test]
fn states_that_relu_makes_zero_are_noted_once() {
    let graph = GraphBuilder::new(6)
        .edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
        .features(1, vec![1.0; 6])
        .numbers("price", (0..6).map(|node| Some(f64::from(node))))
        .split([0, 3], [1, 4], [2, 5])
        .build()
        .unwrap();
    // One state of the sign of its weight: zero everywhere where that is negative.
    let notes = |seed: u64, activation: &str| {
        let sets = ["model.state=1".into(), format!("model.activation={activation}")];
        let mut config = Config::resolve(None, None, &sets).unwrap();
        (config.model.dropout, config.train.epochs, config.train.seed) = (0.0, 5, seed);
        let (mut trainer, mut notes) = (Trainer::new(&graph, config).unwrap(), Notes::default());
        trainer.run(&mut notes, &AtomicBool::new(false), |_| Ok(())).unwrap();
        notes.0
    };
    let found: Vec<_> = (0..8).map(|seed| notes(seed, "relu")).collect();
    let dead: Vec<_> = found.iter().filter(|notes| !notes.is_empty()).collect();
    assert!((1..8).contains(&dead.len()), "{found:?}");
    for notes in dead {
        let [note] = &notes[..] else { panic!("{notes:?}") };
        let expected =
            "the states of all training items are zero, where relu passes no gradient on";
        assert!(note.starts_with("epoch ") && note.contains(expected), "{note}");
    }
    assert!((0..8).all(|seed| notes(seed, "leaky-relu").is_empty()));
}
