//! Layers, round trips, and every kind of mistake with its message.

use std::fs;

use proptest::prelude::*;

use super::*;

fn set(sets: &[&str]) -> Result<IgnnConfig, ConfigError> {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    IgnnConfig::resolve(None, None, &sets)
}

fn message(text: &str) -> String {
    IgnnConfig::from_toml(text, Path::new("a.toml")).unwrap_err().to_string()
}

#[test]
fn the_types_have_the_fields_of_the_schema() {
    let config = serde_json::to_value(IgnnConfig::default()).unwrap();
    let fields: usize =
        config.as_object().unwrap().values().map(|s| s.as_object().unwrap().len()).sum();
    assert_eq!(fields, schema::FIELDS.len());
    for field in schema::FIELDS {
        assert_eq!(config[field.section()][field.key()], field.default.value(), "{}", field.path);
    }
}

#[test]
fn every_word_of_the_schema_is_one_of_its_type() {
    for field in schema::FIELDS {
        let schema::Kind::Word(words) = field.kind else { continue };
        for word in words {
            let config = set(&[&format!("{}={word}", field.path)]).unwrap();
            let value = serde_json::to_value(config).unwrap();
            assert_eq!(value[field.section()][field.key()], *word);
        }
    }
}

#[test]
fn later_layers_win() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    fs::write(&file, "model.state = 32\noptim = { clip_norm = 2 }\n[train]\nseed = 7\n").unwrap();
    let sets = ["train.seed=8", "model.hidden=64,32", "optim.clip=global", "train.split='a=b'"];
    let sets = sets.map(String::from);
    let config = IgnnConfig::resolve(Some("chains"), Some(&file), &sets).unwrap();
    let preset = IgnnConfig::resolve(Some("chains"), None, &[]).unwrap();
    assert_ne!(preset.model.state, [32]);
    assert_ne!(preset.train.epochs, IgnnConfig::default().train.epochs, "the preset says how long");
    let from_preset = (preset.model.kappa, preset.train.epochs);
    assert_eq!(
        (config.model.state, (config.model.kappa, config.train.epochs)),
        (vec![32], from_preset)
    );
    assert_eq!(
        (config.optim.clip_norm, config.optim.clip, config.train.seed),
        (2.0, Clip::Global, 8)
    );
    assert_eq!((config.model.hidden, config.train.split), (vec![64, 32], "a=b".into()));
    assert_eq!(config.solver, preset.solver);
}

#[test]
fn what_is_written_reads_back() {
    for preset in presets::PRESETS {
        let config = IgnnConfig::resolve(Some(preset.name), None, &[]).unwrap();
        let text = config.to_toml();
        assert_eq!(IgnnConfig::from_toml(&text, Path::new("a.toml")).unwrap(), config, "{text}");
        assert_eq!(text.lines().filter(|line| line.contains(" = ")).count(), schema::FIELDS.len());
        config.check().unwrap();
    }
    assert!(IgnnConfig::default().to_toml().contains("\ntolerance = 1e-5\n"));
}

#[test]
fn unknown_keys_are_refused_with_the_nearest() {
    let expected = [
        (
            "[model]\nstat = 3",
            "a.toml:2: key \"model.stat\" is not known (did you mean model.state?)",
        ),
        (
            "\n[modle]\nstate = 3",
            "a.toml:2: section \"modle\" is not known (did you mean [model]?)",
        ),
        ("state = 3", "a.toml:1: key \"state\" is not known (did you mean model.state?)"),
        (
            "[optim]\nkappa = 0.5",
            "a.toml:2: key \"optim.kappa\" is not known (did you mean model.kappa?)",
        ),
        (
            "[train]\nepoch = 3",
            "a.toml:2: key \"train.epoch\" is not known (did you mean train.epochs?)",
        ),
        (
            "[colours]",
            "a.toml:1: section \"colours\" is not known (expected one of [model], [solver], [optim], [train])",
        ),
        (
            "colour = 1",
            "a.toml:1: key \"colour\" is not known (expected SECTION.KEY, such as model.state)",
        ),
        (
            "[model.state]\nx = 1",
            "a.toml:1: model.state: wrong value (found a section, expected an integer from 1 to 2048, or a list of 1 to 64 such integers)",
        ),
        ("model = 3", "a.toml:1: model: wrong value (found 3, expected a section [model])"),
    ];
    for (text, expected) in expected {
        assert_eq!(message(text), expected);
    }
    assert!(message("[model]\nxyzzy = 1").contains("(expected one of kind, state, activation, "));
}

#[test]
fn wrong_values_name_key_found_and_expected() {
    let expected = [
        (
            "[model]\nstate = 0",
            "a.toml:2: model.state: wrong value (found 0, expected an integer from 1 to 2048, or a list of 1 to 64 such integers)",
        ),
        (
            "[model]\nstate = -1",
            "a.toml:2: model.state: wrong value (found -1, expected an integer from 1 to 2048, or a list of 1 to 64 such integers)",
        ),
        (
            "[model]\nstate = 4.0",
            "a.toml:2: model.state: wrong value (found 4.0, expected an integer from 1 to 2048, or a list of 1 to 64 such integers)",
        ),
        (
            "[model]\nbias = \"yes\"",
            "a.toml:2: model.bias: wrong value (found \"yes\", expected true or false)",
        ),
        (
            "[model]\ndropout = 1",
            "a.toml:2: model.dropout: wrong value (found 1, expected a number from 0 to below 1)",
        ),
        (
            "[model]\nhidden = [64, 0]",
            "a.toml:2: model.hidden: wrong value (found [64, 0], expected an integer from 1 to 65536, or a list of 1 to 8 such integers)",
        ),
        (
            "[solver]\ntolerance = nan",
            "a.toml:2: solver.tolerance: wrong value (found nan, expected a number above 0)",
        ),
        (
            "[optim]\nclip = \"no\"",
            "a.toml:2: optim.clip: wrong value (found \"no\", expected one of \"none\", \"tensor\", \"global\")",
        ),
        (
            "[train]\nsplit = \"\"",
            "a.toml:2: train.split: wrong value (found \"\", expected text that is not empty)",
        ),
        (
            "[train]\nseed = 1979-05-27",
            "a.toml:2: train.seed: wrong value (found a date, expected an integer from 0 on)",
        ),
        (
            "[model]\nkind = \"gnn\"",
            "a.toml:2: model.kind: wrong value (found \"gnn\", expected one of \"ignn\", \"gcn\", \"sgc\", \"mlp\", \"gat\", \"gcnii\", \"sse\", \"structural\", \"label-propagation\")",
        ),
        (
            "[model]\nkappa = 1.0",
            "a.toml:2: model.kappa: from 1 on the equilibrium need not exist or be unique (found 1.0, expected a number from 0 to below 1, such as 0.95)",
        ),
        (
            "[model]\nkappa = -1",
            "a.toml:2: model.kappa: wrong value (found -1, expected a number from 0 to below 1, or a list of 1 to 64 such numbers)",
        ),
    ];
    for (text, expected) in expected {
        assert_eq!(message(text), expected);
    }
    assert!(message("[model\nstate = 3").starts_with("a.toml:1: not TOML: "));
}

#[test]
fn wrong_settings_are_shown_as_they_were_given() {
    let expected = [
        (
            "model.state",
            "--set model.state: not a setting (expected KEY=VALUE, such as model.state=64)",
        ),
        (
            "model.state=",
            "--set model.state=: model.state: wrong value (found nothing, expected an integer from 1 to 2048, or a list of 1 to 64 such integers)",
        ),
        (
            "model.state=3\nx=4",
            "--set model.state=3\nx=4: model.state: wrong value (found 3\nx=4, expected an integer from 1 to 2048, or a list of 1 to 64 such integers)",
        ),
        (
            "modelstate=3",
            "--set modelstate=3: key \"modelstate\" is not known (expected SECTION.KEY, such as model.state)",
        ),
        (
            "mdoel.state=3",
            "--set mdoel.state=3: key \"mdoel.state\" is not known (did you mean model.state?)",
        ),
        (
            "model.kappa=2",
            "--set model.kappa=2: model.kappa: from 1 on the equilibrium need not exist or be unique (found 2, expected a number from 0 to below 1, such as 0.95)",
        ),
    ];
    for (setting, expected) in expected {
        assert_eq!(set(&[setting]).unwrap_err().to_string(), expected);
    }
    let error = IgnnConfig::resolve(Some("amazn"), None, &[]).unwrap_err().to_string();
    let known = presets::PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
    let expected =
        format!("preset \"amazn\" is not known (expected {known}): did you mean amazon?");
    assert_eq!(error, expected);
    let error =
        IgnnConfig::resolve(None, Some(Path::new("none.toml")), &[]).unwrap_err().to_string();
    assert!(error.starts_with("none.toml: cannot read: "), "{error}");
}

#[test]
fn configurations_made_by_programs_are_checked_too() {
    let mut config = IgnnConfig::default();
    config.optim.learning_rate = f64::NAN;
    let error = config.check().unwrap_err().to_string();
    let expected = "configuration: optim.learning_rate: wrong value (found NaN or infinity, expected a number above 0 and up to 1000)";
    assert_eq!(error, expected);
}

proptest! {
    #[test]
    fn arbitrary_text_does_no_harm(text in "[a-e.=\\[\\]\"0-9\n {}t,#é-]{0,60}") {
        let _ = IgnnConfig::from_toml(&text, Path::new("a.toml"));
        let _ = set(&[&text]);
        let _ = set(&[&format!("model.hidden={text}")]);
    }

    #[test]
    fn numbers_and_text_survive_a_round_trip(rate in 1e-300f64..1e3, seed in 0..i64::MAX as u64, split in "\\PC{1,12}|[\"\\\\\n\t']{1,5}") {
        let mut config = IgnnConfig::default();
        (config.optim.learning_rate, config.train.seed, config.train.split) = (rate, seed, split);
        let again = IgnnConfig::from_toml(&config.to_toml(), Path::new("a.toml")).unwrap();
        prop_assert_eq!(again, config);
    }
}
