//! The JSON Schema in the repository is the parser's.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anabranch_file::file::{File, Source, json_schema};
use serde_json::Value;
use std::path::Path;

fn stored() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/anabranch-file.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_stored_schema_is_the_parsers() {
    assert_eq!(
        stored(),
        json_schema(),
        "schemas/anabranch-file.json is old; write it anew: anabranch check --schema > schemas/anabranch-file.json"
    );
}

/// As much of JSON Schema as the file's has.
fn accepts(schema: &Value, value: &Value) -> bool {
    let Some(schema) = schema.as_object() else { return false };
    let is_type = schema.get("type").is_none_or(|name| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64(),
        other => panic!("unknown type {other:?}"),
    });
    let is_one = schema
        .get("oneOf")
        .and_then(Value::as_array)
        .is_none_or(|all| all.iter().filter(|schema| accepts(schema, value)).count() == 1);
    let is_word =
        schema.get("enum").and_then(Value::as_array).is_none_or(|words| words.contains(value));
    let number = |key| schema.get(key).and_then(Value::as_i64);
    let is_in_range = value.as_i64().is_none_or(|given| {
        number("minimum").is_none_or(|least| given >= least)
            && number("maximum").is_none_or(|most| given <= most)
    });
    let is_enough = value
        .as_array()
        .is_none_or(|items| number("minItems").is_none_or(|least| items.len() as i64 >= least));
    let has_items = value.as_array().is_none_or(|items| {
        schema.get("items").is_none_or(|schema| items.iter().all(|item| accepts(schema, item)))
    });
    let has_keys = value.as_object().is_none_or(|given| {
        let required = schema.get("required").and_then(Value::as_array);
        let has_required = required
            .is_none_or(|keys| keys.iter().all(|key| given.contains_key(key.as_str().unwrap())));
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        has_required
            && given.iter().all(|(key, value)| {
                match (properties.and_then(|all| all.get(key)), others) {
                    (Some(schema), _) => accepts(schema, value),
                    (None, Some(Value::Bool(allowed))) => *allowed,
                    (None, Some(schema)) => accepts(schema, value),
                    (None, None) => true,
                }
            })
    });
    is_type && is_one && is_word && is_in_range && is_enough && has_items && has_keys
}

/// A TOML text as JSON.
fn json(text: &str) -> Value {
    let table: toml::Table = toml::from_str(text).unwrap();
    serde_json::to_value(table).unwrap()
}

#[test]
fn schema_and_parser_accept_and_refuse_the_same() {
    let set = "[[replica_set]]\nname = \"a\"\n";
    let projection = "[[replica_set.projection]]\nname = \"b\"\npartition = \"global\"\n";
    let on = "on.A = 'SELECT 1'\n";
    let test = format!("{set}{projection}{on}[[test]]\nthen = {{ parked = [] }}\n");
    let good = [
        format!("{set}{projection}{on}"),
        format!("{set}{projection}on.A = ['SELECT 1', 'SELECT 2']\n"),
        format!("{set}{projection}on.A = {{ sqlite = 'SELECT 1', postgres = ['SELECT 2'] }}\n"),
        format!("{set}lanes = 3\nfail_fast = true\n{projection}{on}start = \"head\"\n"),
        format!(
            "{set}[[replica_set.pool]]\nname = \"p\"\ncommand = [\"sh\"]\nenv = {{ A = \"b\" }}\n"
        ),
        format!("{set}{projection}{on}[[test]]\nthen = {{ sql = 'SELECT 1', rows = [[1]] }}\n"),
        format!("{set}{projection}{on}[[test]]\nthen = [{{ parked = [\"b A\"] }}]\n"),
        format!(
            "{test}given = [{{ stream = \"A:1\", type = \"A\", data = 7 }}, {{ sql = 'SELECT 1' }}]\n"
        ),
        format!("{test}given = [{{ sql = {{ sqlite = 'SELECT 1', postgres = ['SELECT 2'] }} }}]\n"),
    ];
    let bad = [
        format!("{set}{projection}"),
        format!("{set}{projection}{on}lanes = 3\n"),
        format!("{set}lanes = 0\n{projection}{on}"),
        format!("{set}lanes = 257\n{projection}{on}"),
        format!("{set}lanes = \"3\"\n{projection}{on}"),
        format!("{set}fail_fast = \"yes\"\n{projection}{on}"),
        format!("{set}{projection}{on}start = \"middle\"\n"),
        format!("{set}{projection}on.A = 7\n"),
        format!("{set}{projection}on.A = {{ mysql = 'SELECT 1' }}\n"),
        format!("{set}{projection}on.A = [7]\n"),
        format!("{set}{projection}{on}tags = \"x\"\n"),
        format!("{set}{projection}{on}retry = {{ then = \"parc\" }}\n"),
        format!("{set}{projection}{on}retry = {{ tries = 3 }}\n"),
        format!("{set}[replica_set.projection]\nname = \"b\"\n"),
        format!("{set}{projection}{on}[[test]]\ngiven = []\n"),
        format!("{set}{projection}{on}[[test]]\nthen = {{ rows = [1] }}\n"),
        format!("{set}{projection}{on}[[test]]\nthen = []\n"),
        format!("{test}given = [{{ stream = \"A:1\", type = \"A\", payload = 7 }}]\n"),
        format!("{test}given = [{{ pool = \"p\", key = \"A\", data = 7 }}]\n"),
        format!("{test}given = [{{ stream = \"A:1\", pool = \"p\" }}]\n"),
        format!("{test}given = [{{}}]\n"),
        "url = 7".to_owned(),
        "replica_set = 7".to_owned(),
        "what = 7".to_owned(),
    ];
    let schema = stored();
    for text in good {
        assert!(accepts(&schema, &json(&text)), "the schema refuses\n{text}");
        let parsed = File::parse(&Source::new("a.toml", text.as_str()));
        assert!(parsed.is_ok(), "the parser refuses\n{text}\n{}", parsed.unwrap_err());
    }
    for text in bad {
        assert!(
            File::parse(&Source::new("a.toml", text.as_str())).is_err(),
            "the parser accepts\n{text}"
        );
        if let Ok(table) = toml::from_str::<toml::Table>(&text) {
            let value = serde_json::to_value(table).unwrap();
            assert!(!accepts(&schema, &value), "the schema accepts\n{text}");
        }
    }
}

#[test]
fn the_schema_accepts_the_examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&root).unwrap().flatten() {
        match entry.path().is_dir() {
            true => files
                .extend(std::fs::read_dir(entry.path()).unwrap().flatten().map(|file| file.path())),
            false => files.push(entry.path()),
        }
    }
    files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    assert!(!files.is_empty());
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        if !text.contains("[[replica_set]]") {
            continue;
        }
        assert!(accepts(&stored(), &json(&text)), "{} is refused", path.display());
    }
}
