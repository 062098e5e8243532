//! Layers of values, each over the one before: defaults, TOML text, settings of the command line.
//! Every value is checked where it is given, so that its message has a place; together they make an
//! [`IgnnConfig`].

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::IgnnConfig;
use super::error::{ConfigError, Place};
use super::schema::{self, FIELDS, Field, Kind, SECTIONS};
use ignn_format::nearest::nearest;

/// Where TOML text comes from.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// A file.
    File(&'a Path),
    /// A built-in preset.
    Preset(&'a str),
}

/// The value of every field.
pub struct Layers(BTreeMap<&'static str, Value>);

impl Layers {
    /// The lowest layer.
    pub fn defaults() -> Self {
        Self(FIELDS.iter().map(|field| (field.path, field.default.value())).collect())
    }

    /// A configuration that was made by hand, checked.
    pub fn of(config: &IgnnConfig) -> Result<Self, ConfigError> {
        let mut layers = Self::defaults();
        let sections = serde_json::to_value(config).expect("a configuration is plain data");
        for field in FIELDS {
            let value = sections[field.section()][field.key()].clone();
            // JSON has no word for them.
            let found =
                if value.is_null() { "NaN or infinity".into() } else { schema::literal(&value) };
            layers.put(field, Some(value), found, Place::Program)?;
        }
        Ok(layers)
    }

    /// Puts TOML text on top.
    pub fn add_text(&mut self, source: Source<'_>, text: &str) -> Result<(), ConfigError> {
        let place = |at: usize| source.place(text, at);
        let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            place: place(error.span().map_or(0, |span| span.start)),
            message: error.message().into(),
        })?;
        for (section, value) in in_order(table.get_ref()) {
            let (name, at) = (section.get_ref().as_ref(), section.span().start);
            if !SECTIONS.iter().any(|(known, _)| *known == name) {
                return Err(unknown_at_the_top(place(at), name, value.get_ref()));
            }
            let DeValue::Table(fields) = value.get_ref() else {
                let found = shown(value.get_ref());
                let expected = format!("a section [{name}]");
                return Err(ConfigError::Value {
                    place: place(at),
                    key: name.into(),
                    found,
                    expected,
                });
            };
            for (key, value) in in_order(fields) {
                let (path, place) = (format!("{name}.{}", key.get_ref()), place(key.span().start));
                let field = schema::find(&path).ok_or_else(|| unknown_key(place.clone(), &path))?;
                self.put(field, plain(value.get_ref()), shown(value.get_ref()), place)?;
            }
        }
        Ok(())
    }

    /// Puts one `KEY=VALUE` on top. Words need no quotes, lists no brackets.
    pub fn add_setting(&mut self, setting: &str) -> Result<(), ConfigError> {
        let Some((path, given)) = setting.split_once('=') else {
            return Err(ConfigError::Setting { found: setting.into() });
        };
        let (path, given) = (path.trim(), given.trim());
        let place = Place::Setting(setting.into());
        let field = schema::find(path).ok_or_else(|| unknown_key(place.clone(), path))?;
        let is_word =
            matches!(field.kind, Kind::Word(_) | Kind::Text) && !given.starts_with(['"', '\'']);
        let is_list = field.kind.is_list() && !given.starts_with('[');
        let value = match field.kind {
            _ if is_word => Some(Value::from(given)),
            Kind::Words(..) if is_list => {
                Some(given.split(',').map(|word| Value::from(word.trim())).collect())
            }
            _ if is_list => parsed(&format!("[{given}]")),
            _ => parsed(given),
        };
        let found = if given.is_empty() { "nothing".into() } else { given.into() };
        self.put(field, value, found, place)
    }

    /// The configuration that the layers make.
    pub fn finish(self) -> IgnnConfig {
        let mut sections = serde_json::Map::new();
        for (path, value) in self.0 {
            let (section, key) = path.split_once('.').expect("every field is in a section");
            sections.entry(section).or_insert_with(|| serde_json::json!({}))[key] = value;
        }
        serde_json::from_value(Value::Object(sections))
            .expect("the schema and the types have the same fields")
    }

    fn put(
        &mut self,
        field: &'static Field,
        value: Option<Value>,
        found: String,
        place: Place,
    ) -> Result<(), ConfigError> {
        // One alone is a list of one.
        let value = value.map(|value| match value {
            Value::Array(_) => value,
            one if field.kind.is_list() => Value::Array(vec![one]),
            one => one,
        });
        match value {
            Some(value) if field.kind.accepts(&value) => {
                // Numbers may be written as integers, and are kept as numbers.
                let number = |value: Value| value.as_f64().map_or(value, Value::from);
                let value = match (field.kind, value) {
                    (Kind::Number(_), value) => number(value),
                    (Kind::Numbers(..), Value::Array(values)) => {
                        values.into_iter().map(number).collect()
                    }
                    (_, value) => value,
                };
                self.0.insert(field.path, value);
                Ok(())
            }
            Some(Value::Array(kappas))
                if field.path == "model.kappa"
                    && kappas
                        .iter()
                        .any(|kappa| kappa.as_f64().is_some_and(|kappa| kappa >= 1.0)) =>
            {
                Err(ConfigError::Kappa { place, found })
            }
            _ => {
                let (key, expected) = (field.path.into(), field.kind.to_string());
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

/// The entries as they come in the text: the first mistake is told, not the first of the alphabet.
fn in_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<Entry<'a, 'i>> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn unknown_at_the_top(place: Place, name: &str, value: &DeValue<'_>) -> ConfigError {
    if !value.is_table() {
        return unknown_key(place, name);
    }
    let known = SECTIONS.iter().map(|(name, _)| *name);
    let hint = match nearest(name, known.clone()) {
        Some(nearest) => format!("did you mean [{nearest}]?"),
        None => {
            let known: Vec<String> = known.map(|name| format!("[{name}]")).collect();
            format!("expected one of {}", known.join(", "))
        }
    };
    ConfigError::Unknown { place, what: format!("section {}", schema::quoted(name)), hint }
}

/// Proposes the nearest key of the same section, or else of any.
fn unknown_key(place: Place, path: &str) -> ConfigError {
    let (section, key) = path.split_once('.').unwrap_or(("", path));
    let of_any = || nearest(key, FIELDS.iter().map(Field::key));
    let own: Vec<&str> = schema::of_section(section).map(Field::key).collect();
    let hint = if let Some(key) = nearest(key, own.iter().copied()) {
        format!("did you mean {section}.{key}?")
    } else if let Some(field) =
        of_any().and_then(|key| FIELDS.iter().find(|field| field.key() == key))
    {
        format!("did you mean {}?", field.path)
    } else if own.is_empty() {
        "expected SECTION.KEY, such as model.state".into()
    } else {
        format!("expected one of {}", own.join(", "))
    };
    ConfigError::Unknown { place, what: format!("key {}", schema::quoted(path)), hint }
}

/// One value of TOML.
fn parsed(text: &str) -> Option<Value> {
    DeValue::parse(text).ok().and_then(|value| plain(value.get_ref()))
}

/// A value without its place; none for what no field takes.
fn plain(value: &DeValue<'_>) -> Option<Value> {
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
        DeValue::String(text) => schema::quoted(text),
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
