//! The settings as a JSON Schema (draft 2020-12), for editors and other programs.

use serde_json::{Map, Value, json};

use super::{Config, SECTIONS};
use crate::settings::{Bound, Field, Kind, Word, paragraphs};

/// The schema of a configuration file.
///
/// ```
/// let schema = ignn::config::json_schema();
/// let dropout = &schema["properties"]["model"]["properties"]["dropout"];
/// assert_eq!(dropout["default"], 0.5);
/// assert_eq!(dropout["exclusiveMaximum"], 1.0);
/// ```
pub fn json_schema() -> Value {
    let defaults = Config::default().values();
    let sections = SECTIONS.iter().map(|section| {
        let property = |field: &Field| {
            let mut property = values(field);
            property.insert("title".into(), format!("{}.{}", section.name, field.key).into());
            property.insert("description".into(), text(field.doc));
            property.insert("default".into(), defaults[section.name][field.key].clone());
            (field.key.to_string(), Value::Object(property))
        };
        let properties: Map<String, Value> = section.fields.iter().map(property).collect();
        let schema = json!({
            "title": format!("[{}]", section.name),
            "description": text(section.doc),
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        });
        (section.name.to_string(), schema)
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ignn configuration",
        "description": "Settings of `ignn train`. Those that are left out keep their defaults.",
        "type": "object",
        "properties": sections.collect::<Map<_, _>>(),
        "additionalProperties": false,
    })
}

/// Keywords for the values of a key.
fn values(field: &Field) -> Map<String, Value> {
    let Kind::List(kind) = field.kind else { return one_value(field, &field.kind) };
    let one = Value::Object(one_value(field, kind));
    let most = field.limits.items;
    let list = json!({ "type": "array", "items": one, "minItems": 1, "maxItems": most });
    Map::from_iter([("anyOf".to_string(), json!([one, list]))])
}

fn one_value(field: &Field, kind: &Kind) -> Map<String, Value> {
    let pair = |keyword: &str, value: Value| (keyword.to_string(), value);
    let number = |value: f64| match kind {
        Kind::Integer => json!(value as u64),
        _ => json!(value),
    };
    let bound = |inclusive: &str, exclusive: &str, bound: Option<Bound>| {
        bound.map(|Bound { value, is_exclusive }| {
            pair(if is_exclusive { exclusive } else { inclusive }, number(value))
        })
    };
    let range = || {
        let lower = bound("minimum", "exclusiveMinimum", field.limits.lower);
        lower.into_iter().chain(bound("maximum", "exclusiveMaximum", field.limits.upper))
    };
    let of_type = |name: &str| Map::from_iter([pair("type", name.into())]);
    match kind {
        Kind::Flag => of_type("boolean"),
        Kind::Integer => of_type("integer").into_iter().chain(range()).collect(),
        Kind::Number => of_type("number").into_iter().chain(range()).collect(),
        Kind::Text => Map::from_iter([pair("type", "string".into()), pair("minLength", 1.into())]),
        Kind::Choice(words) => {
            let word = |&Word { word, doc }| json!({ "const": word, "description": text(doc) });
            Map::from_iter([pair("oneOf", words.iter().map(word).collect())])
        }
        Kind::List(_) => of_type("array"),
    }
}

fn text(doc: &str) -> Value {
    paragraphs(doc).join("\n\n").into()
}
