//! How events are keyed, as a file says it.

use super::problem::Problem;
use super::text::Text;
use super::validate::suggest;
use crate::sql::Field;
use anabranch::{Event, HashRule, Partition};

const WORDS: [&str; 7] =
    ["entity", "entity:CATEGORY", "customer", "saga", "global", "dcb:TYPE", "field:PATH"];

/// Reads a partition such as `entity:Order`.
pub(super) fn partition(text: &Text, hash: Option<HashRule>) -> Result<Partition, Problem> {
    let problem = |said: String| Problem::new(text.span.clone(), said);
    let partition = match text.text.split_once(':') {
        None => match text.text.as_str() {
            "entity" => Partition::entities(),
            "customer" => Partition::customer(),
            "saga" => Partition::saga(),
            "global" => Partition::global(),
            word => {
                let said = format!("`partition` cannot be {word:?}");
                return Err(problem(said).help(suggest(word, &WORDS)));
            }
        },
        Some((word, "")) => {
            return Err(problem(format!("nothing follows `{word}:`"))
                .help(format!("use one of {}", WORDS.join(", "))));
        }
        Some(("entity", category)) => Partition::entity(category),
        Some(("dcb", scope)) => Partition::dcb(scope),
        Some(("field", path)) => {
            let field = Field::parse(path).map_err(|error| {
                let said = format!("`{path}` is no field: {error}");
                problem(said).help("use a field such as field:data.region or field:tenant")
            })?;
            Partition::custom(text.text.as_str(), move |event| key(&field, event))
        }
        Some((word, _)) => {
            let said = format!("`partition` cannot begin with {word:?}");
            return Err(problem(said).help(suggest(word, &WORDS)));
        }
    };
    Ok(match hash {
        Some(rule) => partition.with_rule(rule),
        None => partition,
    })
}

/// The key of an event: a text, a number or a truth value of it.
fn key(field: &Field, event: &Event) -> Option<String> {
    use anabranch::Value;
    match field.of(event)? {
        Value::Text(text) => Some(text),
        Value::Int(number) => Some(number.to_string()),
        Value::Unsigned(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Uuid(id) => Some(id.to_string()),
        _ => None,
    }
}
