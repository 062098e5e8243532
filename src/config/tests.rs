//! Layers, round trips, every kind of mistake with its message, and the files that are written from
//! the declarations.

use std::fs;

use proptest::prelude::*;
use toml::de::{DeTable, DeValue};

use super::*;
use crate::kernels::Activation;
use crate::optim::Clip;
use crate::settings::{Kind, paragraphs, quoted};

fn set(sets: &[&str]) -> Result<Config, ConfigError> {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    Config::resolve(None, None, &sets)
}

fn message(text: &str) -> String {
    Config::from_toml(text, Path::new("a.toml")).unwrap_err().to_string()
}

#[test]
fn every_setting_has_a_text_and_accepts_its_default() {
    let defaults = Config::default().values();
    for (section, field) in fields() {
        let (path, text) = (format!("{section}.{}", field.key), paragraphs(field.doc).join(" "));
        assert!(field.accepts(&defaults[section][field.key]), "{path}");
        assert!(text.ends_with('.'), "{path}: {text}");
    }
    assert_eq!(defaults.as_object().unwrap().len(), SECTIONS.len());
    let keys = |section: &SectionInfo| defaults[section.name].as_object().unwrap().len();
    assert!(SECTIONS.iter().all(|section| keys(section) == section.fields.len()));
    Config::default().check().unwrap();
}

#[test]
fn every_word_reads_and_is_written_back() {
    for (section, field) in fields() {
        let words = match field.kind {
            Kind::Choice(words) | Kind::List(&Kind::Choice(words)) => words,
            _ => continue,
        };
        for word in words {
            let config = set(&[&format!("{section}.{}={}", field.key, word.word)]).unwrap();
            let line = match field.kind {
                Kind::List(_) => format!("\n{} = [{}]\n", field.key, quoted(word.word)),
                _ => format!("\n{} = {}\n", field.key, quoted(word.word)),
            };
            assert!(config.to_toml().contains(&line), "{line}");
        }
    }
}

#[test]
fn leaky_relu_takes_its_slope_from_the_configuration() {
    let mut config = set(&["model.activation=leaky-relu,tanh", "model.slope=0.2"]).unwrap();
    assert_eq!(config.model.activation, [Activation::LeakyRelu(0.2), Activation::Tanh]);
    config.check().unwrap();
    config.model.slope = 0.3;
    let message = config.check().unwrap_err().to_string();
    let expected = "configuration: model.slope: wrong value \
                    (found 0.3, expected the slope of leaky-relu, 0.2)";
    assert_eq!(message, expected);
}

#[test]
fn later_layers_win() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    fs::write(&file, "model.state = 32\noptim = { clip_norm = 2 }\n[train]\nseed = 7\n").unwrap();
    let sets = ["train.seed=8", "model.hidden=64,32", "optim.clip=global", "train.split='a=b'"];
    let sets = sets.map(String::from);
    let config = Config::resolve(Some("chains"), Some(&file), &sets).unwrap();
    let preset = Config::resolve(Some("chains"), None, &[]).unwrap();
    assert_ne!(preset.model.state, [32]);
    assert_ne!(preset.train.epochs, Config::default().train.epochs, "the preset says how long");
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
fn a_written_configuration_reads_back() {
    for preset in presets::PRESETS {
        let config = Config::resolve(Some(preset.name), None, &[]).unwrap();
        let text = config.to_toml();
        assert_eq!(Config::from_toml(&text, Path::new("a.toml")).unwrap(), config, "{text}");
        assert_eq!(text.lines().filter(|line| line.contains(" = ")).count(), fields().count());
        config.check().unwrap();
    }
    assert!(Config::default().to_toml().contains("\ntolerance = 1e-5\n"));
}

#[test]
fn removed_keys_are_read_and_ignored_in_files_but_not_as_settings() {
    let text = "[solver]\nstorage = \"f16\"\ndepth = 3\n";
    let config = Config::from_toml(text, Path::new("a.toml")).unwrap();
    assert_eq!(config.solver.depth, 3);
    assert!(!config.to_toml().contains("storage"));
    let error = Config::resolve(None, None, &["solver.storage=f16".into()]).unwrap_err();
    assert!(error.to_string().contains("solver.storage\" is not known"), "{error}");
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
            "a.toml:1: section \"colours\" is not known (expected one of [model], [solver], \
             [optim], [train])",
        ),
        (
            "colour = 1",
            "a.toml:1: key \"colour\" is not known (expected SECTION.KEY, such as model.state)",
        ),
        (
            "[model.state]\nx = 1",
            "a.toml:1: model.state: wrong value (found a section, expected an integer from 1 to \
             2048, or a list of 1 to 64 such integers)",
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
            "a.toml:2: model.state: wrong value (found 0, expected an integer from 1 to 2048, or \
             a list of 1 to 64 such integers)",
        ),
        (
            "[model]\nstate = -1",
            "a.toml:2: model.state: wrong value (found -1, expected an integer from 1 to 2048, or \
             a list of 1 to 64 such integers)",
        ),
        (
            "[model]\nstate = 4.0",
            "a.toml:2: model.state: wrong value (found 4.0, expected an integer from 1 to 2048, \
             or a list of 1 to 64 such integers)",
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
            "a.toml:2: model.hidden: wrong value (found [64, 0], expected an integer from 1 to \
             65536, or a list of 1 to 8 such integers)",
        ),
        (
            "[solver]\ntolerance = nan",
            "a.toml:2: solver.tolerance: wrong value (found nan, expected a number above 0)",
        ),
        (
            "[optim]\nclip = \"xyzzy\"",
            "a.toml:2: optim.clip: wrong value (found \"xyzzy\", expected one of \"none\", \
             \"tensor\", \"global\")",
        ),
        (
            "[optim]\nclip = \"Tensor\"",
            "a.toml:2: optim.clip: wrong value (found \"Tensor\", expected one of \"none\", \
             \"tensor\", \"global\", did you mean \"tensor\"?)",
        ),
        (
            "[train]\nsplit = \"\"",
            "a.toml:2: train.split: wrong value (found \"\", expected text that is not empty)",
        ),
        (
            "[train]\nseed = 1979-05-27",
            "a.toml:2: train.seed: wrong value (found a date, expected an integer of at least 0)",
        ),
        (
            "[model]\nkappa = 1.0",
            "a.toml:2: model.kappa: from 1 on the equilibrium need not exist or be unique (found \
             1.0, expected a number from 0 to below 1, such as 0.95)",
        ),
        (
            "[model]\nkappa = -1",
            "a.toml:2: model.kappa: wrong value (found -1, expected a number from 0 to below 1, \
             or a list of 1 to 64 such numbers)",
        ),
    ];
    for (text, expected) in expected {
        assert_eq!(message(text), expected);
    }
    let words: Vec<String> = ModelKind::ALL.iter().map(|kind| quoted(kind.word())).collect();
    let expected = format!(
        "a.toml:2: model.kind: wrong value (found \"gnn\", expected one of {}, did you mean \
         \"ignn\"?)",
        words.join(", ")
    );
    assert_eq!(message("[model]\nkind = \"gnn\""), expected);
    assert!(message("[model\nstate = 3").starts_with("a.toml:1: not TOML: "));
}

#[test]
fn numbers_of_the_command_line_need_not_be_toml() {
    let config = set(&[
        "optim.learning_rate=.5",
        "optim.clip_norm=5.",
        "optim.momentum=+1e-1",
        "train.epochs=1e2",
        "train.seed=1_000",
        "train.batch=0x10",
        "model.hidden=1e1,20.",
        "model.kappa=.5,0.25",
    ])
    .unwrap();
    let optim = &config.optim;
    assert_eq!((optim.learning_rate, optim.clip_norm, optim.momentum), (0.5, 5.0, 0.1));
    let train = &config.train;
    assert_eq!((train.epochs, train.seed, train.batch), (100, 1000, 16));
    assert_eq!(
        (&config.model.hidden[..], &config.model.kappa[..]),
        (&[10, 20][..], &[0.5, 0.25][..])
    );
}

#[test]
fn aliases_stand_for_settings() {
    for (alias, key) in layers::ALIASES {
        assert!(fields().any(|(section, field)| *key == format!("{section}.{}", field.key)));
        assert!(!fields().any(|(_, field)| field.key == *alias), "{alias} is a key itself");
    }
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
            "--set model.state=: model.state: wrong value (found nothing, expected an integer \
             from 1 to 2048, or a list of 1 to 64 such integers)",
        ),
        (
            "model.state=3\nx=4",
            "--set model.state=3\nx=4: model.state: wrong value (found 3\nx=4, expected an \
             integer from 1 to 2048, or a list of 1 to 64 such integers)",
        ),
        (
            "modelstate=3",
            "--set modelstate=3: key \"modelstate\" is not known (expected SECTION.KEY, such as \
             model.state)",
        ),
        (
            "optim.lr=0.1",
            "--set optim.lr=0.1: key \"optim.lr\" is not known (did you mean \
             optim.learning_rate?)",
        ),
        ("lr=0.1", "--set lr=0.1: key \"lr\" is not known (did you mean optim.learning_rate?)"),
        (
            "train.epochs=1.5",
            "--set train.epochs=1.5: train.epochs: wrong value (found 1.5, expected an integer from \
             0 to 10000000)",
        ),
        (
            "optim.learning_rate=inf",
            "--set optim.learning_rate=inf: optim.learning_rate: wrong value (found inf, expected a \
             number above 0 and at most 1000)",
        ),
        (
            "mdoel.state=3",
            "--set mdoel.state=3: key \"mdoel.state\" is not known (did you mean model.state?)",
        ),
        (
            "model.kappa=2",
            "--set model.kappa=2: model.kappa: from 1 on the equilibrium need not exist or be \
             unique (found 2, expected a number from 0 to below 1, such as 0.95)",
        ),
    ];
    for (setting, expected) in expected {
        assert_eq!(set(&[setting]).unwrap_err().to_string(), expected);
    }
    let error = Config::resolve(Some("amazn"), None, &[]).unwrap_err().to_string();
    let known = presets::PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
    let expected =
        format!("preset \"amazn\" is not known (expected {known}): did you mean amazon?");
    assert_eq!(error, expected);
    let error = Config::resolve(None, Some(Path::new("none.toml")), &[]).unwrap_err().to_string();
    assert!(error.starts_with("none.toml: cannot open: "), "{error}");
}

#[test]
fn values_set_by_a_program_are_checked() {
    let mut config = Config::default();
    config.optim.learning_rate = f64::NAN;
    let error = config.check().unwrap_err().to_string();
    let expected = "configuration: optim.learning_rate: wrong value (found NaN or infinity, expected a \
         number above 0 and at most 1000)";
    assert_eq!(error, expected);
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "[a-e.=\\[\\]\"0-9\n {}t,#é-]{0,60}") {
        let _ = Config::from_toml(&text, Path::new("a.toml"));
        let _ = set(&[&text]);
        let _ = set(&[&format!("model.hidden={text}")]);
    }

    #[test]
    fn numbers_and_text_survive_a_round_trip(
        rate in 1e-300f64..1e3,
        seed in 0..i64::MAX as u64,
        split in "\\PC{1,12}|[\"\\\\\n\t']{1,5}",
    ) {
        let mut config = Config::default();
        (config.optim.learning_rate, config.train.seed, config.train.split) = (rate, seed, split);
        let again = Config::from_toml(&config.to_toml(), Path::new("a.toml")).unwrap();
        prop_assert_eq!(again, config);
    }
}

/// Whether a value satisfies a schema, for the keywords that ours has; any other keyword fails.
fn satisfies(schema: &Value, value: &Value) -> bool {
    let number = value.as_f64().unwrap_or(f64::NAN);
    let all = |schemas: &Value| schemas.as_array().unwrap().clone();
    schema.as_object().unwrap().iter().all(|(keyword, expected)| match keyword.as_str() {
        "$schema" | "title" | "description" | "default" => true,
        "type" => match expected.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            other => panic!("type {other}"),
        },
        "const" => value == expected,
        "minimum" => number >= expected.as_f64().unwrap(),
        "exclusiveMinimum" => number > expected.as_f64().unwrap(),
        "maximum" => number <= expected.as_f64().unwrap(),
        "exclusiveMaximum" => number < expected.as_f64().unwrap(),
        "minLength" => {
            value.as_str().unwrap_or("").chars().count() as u64 >= expected.as_u64().unwrap()
        }
        "anyOf" => all(expected).iter().any(|schema| satisfies(schema, value)),
        "oneOf" => all(expected).iter().filter(|schema| satisfies(schema, value)).count() == 1,
        "items" => {
            value.as_array().is_some_and(|items| items.iter().all(|x| satisfies(expected, x)))
        }
        "minItems" => {
            value.as_array().is_some_and(|x| x.len() as u64 >= expected.as_u64().unwrap())
        }
        "maxItems" => {
            value.as_array().is_some_and(|x| x.len() as u64 <= expected.as_u64().unwrap())
        }
        "properties" => value.as_object().is_none_or(|object| {
            object.iter().all(|(key, value)| expected.get(key).is_none_or(|s| satisfies(s, value)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|object| {
            assert_eq!(expected, false);
            object.keys().all(|key| schema["properties"].get(key).is_some())
        }),
        other => panic!("keyword {other}"),
    })
}

/// TOML as JSON.
fn as_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::Table(table) => table_as_json(table),
        other => layers::plain(other).unwrap(),
    }
}

fn table_as_json(table: &DeTable<'_>) -> Value {
    let entries =
        table.iter().map(|(key, value)| (key.get_ref().to_string(), as_json(value.get_ref())));
    Value::Object(entries.collect())
}

#[test]
fn defaults_and_presets_satisfy_the_json_schema() {
    let schema = json_schema();
    assert!(satisfies(&schema, &Config::default().values()));
    for preset in presets::PRESETS {
        let as_written = table_as_json(DeTable::parse(preset.text).unwrap().get_ref());
        assert!(satisfies(&schema, &as_written), "{}", preset.name);
        let resolved = Config::resolve(Some(preset.name), None, &[]).unwrap();
        assert!(satisfies(&schema, &resolved.values()), "{}", preset.name);
    }
    for wrong in ["[modle]", "model = 3", "[model]\nstat = 3"] {
        assert!(
            !satisfies(&schema, &table_as_json(DeTable::parse(wrong).unwrap().get_ref())),
            "{wrong}"
        );
    }
}

#[test]
fn the_json_schema_accepts_what_is_accepted() {
    let schema = json_schema();
    let mut samples: Vec<String> =
        ["true", "\"\"", "\"none\"", "\"relu\"", "[]", "[\"tanh\", \"elu\"]"]
            .map(String::from)
            .into();
    let numbers = ["-1", "0", "1", "16", "17", "256", "257", "2048", "65537", "10000001", "-0.5"];
    samples.extend(numbers.map(String::from));
    samples.extend(["0.0", "1e-31", "0.5", "1.0", "1.5", "1000.5"].map(String::from));
    samples.extend(["[1, 2]", "[0.5, 0.25]", "[0]", "[1, 0.5]", "[\"relu\", 1]"].map(String::from));
    samples.extend([9, 65].map(|length| format!("[{}]", vec!["1"; length].join(", "))));
    let (mut accepted, mut refused) = (0, 0);
    for (section, field) in fields() {
        for sample in &samples {
            let text = format!("[{section}]\n{} = {sample}", field.key);
            let is_accepted = Config::from_toml(&text, Path::new("a.toml")).is_ok();
            let value = table_as_json(DeTable::parse(&text).unwrap().get_ref());
            assert_eq!(satisfies(&schema, &value), is_accepted, "{text}");
            *(if is_accepted { &mut accepted } else { &mut refused }) += 1;
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
}

#[test]
fn the_listing_reads_back_to_the_defaults_and_explains_every_key() {
    let listing = document::listing(&Config::default());
    let plain: Vec<&str> =
        listing.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let written = Config::default().to_toml();
    assert_eq!(plain, written.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>());
    let commented = listing.split("\n\n").filter(|entry| entry.starts_with("# "));
    // The last one is the list of presets.
    assert_eq!(commented.count(), SECTIONS.len() + fields().count() + 1);
    assert!(listing.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn the_documents_are_up_to_date() {
    let schema = format!("{:#}\n", json_schema());
    for (name, expected) in [("config.md", document::markdown()), ("config.schema.json", schema)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
        if std::env::var_os("IGNN_REWRITE").is_some() {
            fs::write(&path, &expected).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == expected,
            "docs/{name} is out of date: run IGNN_REWRITE=1 cargo test --lib config::"
        );
    }
}
