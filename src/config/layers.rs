//! Layers of values, each on top of the one before: defaults, TOML text, settings of the command
//! line. Every value is checked where it is given, so that its message has a place; together they
//! make a [`Config`].

use std::path::Path;

use ignn_format::nearest::nearest;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Place};
use super::{Config, SECTIONS, fields};
use crate::settings::{Field, Kind, quoted};

/// Keys of earlier versions that changed how fast a run was and nothing else. TOML text that still
/// has them stays readable, such as that in saved models; their values have no effect.
const REMOVED: &[(&str, &str)] = &[("solver", "storage")];

/// Names that other programs have for a setting, for the hint about an unknown key.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("lr", "optim.learning_rate"),
    ("wd", "optim.weight_decay"),
    ("l2", "optim.weight_decay"),
    ("optimizer", "optim.method"),
    ("optimiser", "optim.method"),
    ("grad_clip", "optim.clip"),
    ("width", "model.state"),
    ("hidden_dim", "model.state"),
    ("hidden_size", "model.state"),
    ("hidden_channels", "model.state"),
    ("tol", "solver.tolerance"),
    ("max_iter", "solver.max_sweeps"),
    ("num_epochs", "train.epochs"),
    ("batch_size", "train.batch"),
    ("metric", "train.monitor"),
    ("early_stopping", "train.stop_after"),
];

/// Where TOML text comes from.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// A file.
    File(&'a Path),
    /// A built-in preset.
    Preset(&'a str),
}

/// The value of every key, by section, and the keys that were given.
pub struct Layers {
    values: Value,
    given: Vec<String>,
}

impl Layers {
    /// The lowest layer.
    pub fn defaults() -> Self {
        Self { values: Config::default().values(), given: Vec::new() }
    }

    /// Puts TOML text on top.
    pub fn add_text(&mut self, source: Source<'_>, text: &str) -> Result<(), ConfigError> {
        let place = |at: usize| source.place(text, at);
        let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            place: place(error.span().map_or(0, |span| span.start)),
            message: error.message().into(),
        })?;
        for (name, value) in in_order(table.get_ref()) {
            let (name, at) = (name.get_ref().as_ref(), name.span().start);
            let Some(section) = SECTIONS.iter().find(|section| section.name == name) else {
                return Err(unknown_section(place(at), name, value.get_ref()));
            };
            let DeValue::Table(values) = value.get_ref() else {
                let (found, expected) = (shown(value.get_ref()), format!("a section [{name}]"));
                let (place, key) = (place(at), name.into());
                return Err(ConfigError::Value { place, key, found, expected });
            };
            for (key, value) in in_order(values) {
                let (key, place) = (key.get_ref().as_ref(), place(key.span().start));
                if REMOVED.contains(&(name, key)) {
                    continue;
                }
                let Some(field) = section.fields.iter().find(|field| field.key == key) else {
                    return Err(unknown_key(place, &format!("{name}.{key}")));
                };
                let (value, found) = (plain(value.get_ref()), shown(value.get_ref()));
                self.put(section.name, field, value, found, place)?;
            }
        }
        Ok(())
    }

    /// Puts one `KEY=VALUE` on top. Words need no quotes and lists no brackets, and numbers may be
    /// written as people write them: `.5`, `5.`, `1e3` for an integer.
    pub fn add_setting(&mut self, setting: &str) -> Result<(), ConfigError> {
        let Some((path, given)) = setting.split_once('=') else {
            return Err(ConfigError::Setting { found: setting.into() });
        };
        let (path, given) = (path.trim(), given.trim());
        let place = Place::Setting(setting.into());
        let known = fields().find(|(section, field)| {
            path.split_once('.').is_some_and(|found| found == (*section, field.key))
        });
        let (section, field) = known.ok_or_else(|| unknown_key(place.clone(), path))?;
        let value = match field.kind {
            Kind::List(kind) if !given.starts_with('[') => {
                let items = given.split(',').map(|item| one_value(kind, item.trim()));
                items.collect::<Option<Value>>()
            }
            kind => one_value(&kind, given),
        };
        let found = if given.is_empty() { "nothing".into() } else { given.into() };
        self.put(section, field, value, found, place)
    }

    /// The keys that were given a value, as `section.key`, in their order.
    pub fn given(self) -> Vec<String> {
        self.given
    }

    /// The configuration that the layers make.
    pub fn finish(self) -> Config {
        let mut config: Config =
            serde_json::from_value(self.values).expect("every value was checked against its field");
        config.model.set_slope();
        config
    }

    fn put(
        &mut self,
        section: &str,
        field: &Field,
        value: Option<Value>,
        found: String,
        place: Place,
    ) -> Result<(), ConfigError> {
        let (is_list, is_number) = match field.kind {
            Kind::List(kind) => (true, matches!(kind, Kind::Number)),
            kind => (false, matches!(kind, Kind::Number)),
        };
        // A single value is a list of one.
        let value = value.map(|value| match value {
            one if is_list && !one.is_array() => Value::Array(vec![one]),
            other => other,
        });
        let is_key = |name: &str| name == format!("{section}.{}", field.key);
        match value {
            Some(value) if field.accepts(&value) => {
                let name = format!("{section}.{}", field.key);
                if !self.given.contains(&name) {
                    self.given.push(name);
                }
                // Numbers may be written as integers, and are kept as numbers.
                let number = |value: Value| value.as_f64().map_or(value, Value::from);
                self.values[section][field.key] = match value {
                    Value::Array(values) if is_number => values.into_iter().map(number).collect(),
                    value if is_number => number(value),
                    value => value,
                };
                Ok(())
            }
            Some(Value::Array(kappas))
                if is_key("model.kappa")
                    && kappas.iter().any(|kappa| kappa.as_f64().is_some_and(|x| x >= 1.0)) =>
            {
                Err(ConfigError::Kappa { place, found })
            }
            _ => {
                let near = field.nearest(&found).map(|word| format!(", did you mean {word:?}?"));
                let expected = field.expected() + &near.unwrap_or_default();
                let key = format!("{section}.{}", field.key);
                Err(ConfigError::Value { place, key, found, expected })
            }
        }
    }
}

impl Source<'_> {
    /// The line, from 1, with this byte.
    fn place(self, text: &str, at: usize) -> Place {
        let before = &text.as_bytes()[..at.min(text.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        match self {
            Self::File(path) => Place::File(path.into(), line),
            Self::Preset(name) => Place::Preset(name.into(), line),
        }
    }
}

type Entry<'a, 'i> = (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

/// The entries in the order of the text, so that the first mistake is the one that is reported.
fn in_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<Entry<'a, 'i>> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn unknown_section(place: Place, name: &str, value: &DeValue<'_>) -> ConfigError {
    if !value.is_table() {
        return unknown_key(place, name);
    }
    let known = SECTIONS.iter().map(|section| section.name);
    let hint = match nearest(name, known.clone()) {
        Some(nearest) => format!("did you mean [{nearest}]?"),
        None => {
            let known: Vec<String> = known.map(|name| format!("[{name}]")).collect();
            format!("expected one of {}", known.join(", "))
        }
    };
    ConfigError::Unknown { place, what: format!("section {}", quoted(name)), hint }
}

/// Proposes the key that an alias stands for, the nearest key of the same section, or else of any.
fn unknown_key(place: Place, path: &str) -> ConfigError {
    let (section, key) = path.split_once('.').unwrap_or(("", path));
    let own = SECTIONS.iter().find(|known| known.name == section);
    let own: Vec<&str> =
        own.map_or(&[][..], |section| section.fields).iter().map(|f| f.key).collect();
    let anywhere = nearest(key, fields().map(|(_, field)| field.key))
        .and_then(|key| fields().find(|(_, field)| field.key == key));
    let alias = ALIASES.iter().find(|(alias, _)| key.eq_ignore_ascii_case(alias));
    let hint = if let Some((_, key)) = alias {
        format!("did you mean {key}?")
    } else if let Some(key) = nearest(key, own.iter().copied()) {
        format!("did you mean {section}.{key}?")
    } else if let Some((section, field)) = anywhere {
        format!("did you mean {section}.{}?", field.key)
    } else if own.is_empty() {
        "expected SECTION.KEY, such as model.state".into()
    } else {
        format!("expected one of {}", own.join(", "))
    };
    ConfigError::Unknown { place, what: format!("key {}", quoted(path)), hint }
}

/// A value of the command line, or one of a list.
fn one_value(kind: &Kind, given: &str) -> Option<Value> {
    match kind {
        Kind::Choice(_) | Kind::Text if !given.starts_with(['"', '\'']) => Some(Value::from(given)),
        // As TOML first, which knows 0x10 and 1_000.
        Kind::Integer => parsed(given).filter(|value| !value.is_f64()).or_else(|| {
            // Every integer below 2^53 is a float.
            let whole = float(given).filter(|x| x.fract() == 0.0 && (0.0..9e15).contains(x));
            whole.map(|x| Value::from(x as u64))
        }),
        Kind::Number => parsed(given).or_else(|| float(given).map(Value::from)),
        _ => parsed(given),
    }
}

/// A number as Rust reads it, without its words for infinity and NaN.
fn float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|x: &f64| x.is_finite())
}

/// One value of TOML.
fn parsed(text: &str) -> Option<Value> {
    DeValue::parse(text).ok().and_then(|value| plain(value.get_ref()))
}

/// A value without its place; none if no key takes such a value.
pub(super) fn plain(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(text.as_ref().into()),
        DeValue::Integer(digits) => {
            let unsigned =
                u64::from_str_radix(digits.as_str(), digits.radix()).ok().map(Value::from);
            unsigned.or_else(|| {
                i64::from_str_radix(digits.as_str(), digits.radix()).ok().map(Value::from)
            })
        }
        DeValue::Float(digits) => digits.as_str().parse::<f64>().ok().map(Value::from),
        DeValue::Boolean(value) => Some((*value).into()),
        DeValue::Array(items) => items.iter().map(|item| plain(item.get_ref())).collect(),
        DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

/// A value for messages.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(digits) => digits.to_string(),
        DeValue::Float(digits) => digits.as_str().into(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(|item| shown(item.get_ref())).collect::<Vec<_>>().join(", ")
            )
        }
        DeValue::Table(_) => "a section".into(),
    }
}
