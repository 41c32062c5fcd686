//! The shape of a file as a JSON Schema, so that editors complete and complain.

use super::keys::FILE;
use super::shape::{DATABASES, Kind, Table};
use serde_json::{Map, Value, json};

/// The JSON Schema of a file: what `schemas/anabranch-file.json` holds.
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = table(&FILE);
    if let Some(object) = schema.as_object_mut() {
        object.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        object.insert("title".to_owned(), "A file of Anabranch: anabranch run FILE".into());
    }
    schema
}

fn table(shape: &Table) -> Value {
    let mut properties = Map::new();
    for key in shape.keys {
        let mut value = kind(key.kind);
        if let Some(object) = value.as_object_mut() {
            object.insert("description".to_owned(), key.about.into());
        }
        properties.insert(key.name.to_owned(), value);
    }
    let required: Vec<&str> =
        shape.keys.iter().filter(|key| key.is_required).map(|key| key.name).collect();
    let mut schema = json!({
        "type": "object",
        "description": shape.about,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn kind(of: Kind) -> Value {
    let one_or_several = || json!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] });
    match of {
        Kind::Text | Kind::Setting => json!({ "type": "string" }),
        Kind::Secrets => {
            let variable = json!({
                "type": "object",
                "properties": { "env": { "type": "string" } },
                "required": ["env"],
                "additionalProperties": false,
            });
            let one = json!({ "oneOf": [{ "type": "string" }, variable] });
            let several = json!({ "type": "array", "items": one, "minItems": 1, "maxItems": 4 });
            json!({ "oneOf": [{ "type": "string" }, variable, several] })
        }
        Kind::Integer { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Kind::Duration => json!({ "type": "string", "examples": ["5s", "100ms", "1h30m"] }),
        Kind::Truth => json!({ "type": "boolean" }),
        Kind::Word(words) => json!({ "type": "string", "enum": words }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Statements => {
            let forms = DATABASES.map(|name| (name.to_owned(), one_or_several()));
            let forms: Map<String, Value> = forms.into_iter().collect();
            json!({ "oneOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
                { "type": "object", "properties": forms, "additionalProperties": false },
            ]})
        }
        Kind::Each(of) => json!({ "type": "object", "additionalProperties": kind(*of) }),
        Kind::Table(shape) => table(shape),
        Kind::Tables(shape) => json!({ "type": "array", "items": table(shape) }),
        Kind::TablesOf(shapes) => {
            let shapes: Vec<Value> = shapes.iter().map(|shape| table(shape)).collect();
            json!({ "type": "array", "items": { "oneOf": shapes } })
        }
        Kind::TableOrTables(shape) => {
            let several = json!({ "type": "array", "items": table(shape), "minItems": 1 });
            json!({ "oneOf": [table(shape), several] })
        }
        Kind::Rows => json!({ "type": "array", "items": { "type": "array" } }),
        Kind::Any => json!({}),
    }
}
