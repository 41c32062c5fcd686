//! As much of JSON Schema as the description has, strictly: a keyword that is not known here is a mistake there.

use serde_json::Value;

/// What is wrong with a value, if something is.
pub fn check(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    Checker { document }.check(schema, value, "$")
}

struct Checker<'a> {
    document: &'a Value,
}

impl Checker<'_> {
    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let schema = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(schema) => schema,
            other => return Err(format!("{at}: {other} is no schema")),
        };
        for (keyword, what) in schema {
            let holds = match keyword.as_str() {
                "description" | "default" | "title" => true,
                "$ref" => {
                    let place = what.as_str().and_then(|place| place.strip_prefix('#'));
                    let found = place.and_then(|place| self.document.pointer(place));
                    let found = found.ok_or_else(|| format!("{at}: {what} leads nowhere"))?;
                    self.check(found, value, at)?;
                    true
                }
                "type" => match what {
                    Value::String(name) => is_of(name, value),
                    Value::Array(names) => {
                        names.iter().any(|name| is_of(name.as_str().unwrap(), value))
                    }
                    other => return Err(format!("{at}: {other} is no type")),
                },
                "const" => what == value,
                "enum" => what.as_array().unwrap().contains(value),
                "minimum" => value.as_f64().is_none_or(|number| number >= what.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|number| number <= what.as_f64().unwrap()),
                "minItems" | "maxItems" | "minLength" | "maxLength" | "uniqueItems" => true,
                "pattern" => {
                    let prefix = what.as_str().unwrap().strip_prefix('^').expect("a prefix");
                    value.as_str().is_none_or(|text| text.starts_with(prefix))
                }
                "format" => self.is_formatted(what.as_str().unwrap(), value),
                "anyOf" => {
                    let all = what.as_array().unwrap();
                    all.iter().any(|schema| self.check(schema, value, at).is_ok())
                }
                "oneOf" => {
                    let all = what.as_array().unwrap();
                    all.iter().filter(|schema| self.check(schema, value, at).is_ok()).count() == 1
                }
                "allOf" => {
                    for schema in what.as_array().unwrap() {
                        self.check(schema, value, at)?;
                    }
                    true
                }
                "items" => {
                    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(what, item, &format!("{at}[{number}]"))?;
                    }
                    true
                }
                "required" => value.as_object().is_none_or(|members| {
                    let names = what.as_array().unwrap();
                    names.iter().all(|name| members.contains_key(name.as_str().unwrap()))
                }),
                "properties" => {
                    for (name, member) in value.as_object().into_iter().flatten() {
                        if let Some(schema) = what.get(name) {
                            self.check(schema, member, &format!("{at}.{name}"))?;
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    let known = schema.get("properties");
                    for (name, member) in value.as_object().into_iter().flatten() {
                        if known.and_then(|known| known.get(name)).is_some() {
                            continue;
                        }
                        if *what == Value::Bool(false) {
                            return Err(format!("{at}: `{name}` is not described"));
                        }
                        self.check(what, member, &format!("{at}.{name}"))?;
                    }
                    true
                }
                other => return Err(format!("{at}: the keyword `{other}` is not known")),
            };
            if !holds {
                return Err(format!("{at}: `{keyword}: {what}` does not hold for {value}"));
            }
        }
        Ok(())
    }

    fn is_formatted(&self, format: &str, value: &Value) -> bool {
        let Some(text) = value.as_str() else { return true };
        match format {
            "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
            "uuid" => text.parse::<uuid::Uuid>().is_ok(),
            other => panic!("the format `{other}` is not known"),
        }
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("the type `{other}` is not known"),
    }
}

#[test]
fn what_does_not_fit_is_found() {
    let document = serde_json::json!({"a": {"type": "object", "required": ["x"], "additionalProperties": false,
        "properties": {"x": {"type": ["integer", "null"], "minimum": 1}, "y": {"type": "array", "items": {"$ref": "#/a"}}}}});
    let fits =
        |text: &str| check(&document, &document["a"], &serde_json::from_str(text).unwrap()).is_ok();
    assert!(fits(r#"{"x": 1}"#) && fits(r#"{"x": null, "y": [{"x": 2}]}"#));
    for wrong in [
        "[]",
        "{}",
        r#"{"x": 0}"#,
        r#"{"x": "1"}"#,
        r#"{"x": 1, "z": 1}"#,
        r#"{"x": 1, "y": [{}]}"#,
    ] {
        assert!(!fits(wrong), "{wrong}");
    }
    let unknown = serde_json::json!({"types": "object"});
    assert!(check(&document, &unknown, &Value::Null).is_err());
}
