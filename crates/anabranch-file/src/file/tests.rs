//! Tests that stand in a file.

use super::build::{Fields, Reader};
use super::consumers::{new_event, statements, stream};
use super::keys::GIVEN;
use super::model::{File, Statements};
use super::one_of;
use super::problem::Problem;
use super::text::Text;
use super::validate::suggest;
use anabranch::{NewEvent, StreamId};
use serde_json::value::RawValue;
use std::ops::Range;

const NO_LIST: &str = "what is expected is no list";

/// A test.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its name, or its number.
    pub name: String,
    /// Where it stands.
    pub span: Range<usize>,
    /// What happens.
    pub given: Vec<Given>,
    /// What is expected then.
    pub then: Vec<Expectation>,
    /// The database that it is for; none: any.
    pub on: Option<&'static str>,
}

/// What a test begins with.
#[derive(Clone, Debug)]
pub enum Given {
    /// An event.
    Event {
        /// The stream.
        stream: StreamId,
        /// The event.
        event: Box<NewEvent>,
    },
    /// A task.
    Task {
        /// The pool.
        pool: Text,
        /// The key.
        key: String,
        /// The payload.
        payload: Box<RawValue>,
    },
    /// Statements that are executed.
    Sql {
        /// Where they stand.
        span: Range<usize>,
        /// The statements.
        statements: Statements,
    },
}

/// What is expected.
#[derive(Clone, Debug)]
pub enum Expectation {
    /// The rows of a query.
    Rows {
        /// The query.
        sql: Text,
        /// The rows.
        rows: Vec<serde_json::Value>,
    },
    /// What a program was sent.
    Sent {
        /// The program or pool.
        consumer: Text,
        /// The events or tasks, with the fields that count.
        sent: Vec<serde_json::Value>,
    },
    /// What a program has answered.
    Answered {
        /// The program or pool.
        consumer: Text,
        /// The messages, with the fields that count.
        answered: Vec<serde_json::Value>,
    },
    /// What consumers have appended.
    Appended {
        /// Where that stands.
        span: Range<usize>,
        /// The events, with the fields that count.
        events: Vec<serde_json::Value>,
    },
    /// What has failed.
    Failed {
        /// Where that stands.
        span: Range<usize>,
        /// The keys, as `CONSUMER KEY`; none: any, if there is an error.
        parked: Option<Vec<String>>,
        /// What one of these failures says, or a part of it.
        error: Option<String>,
    },
}

pub(super) fn test(reader: &mut Reader<'_>, number: usize, fields: &Fields<'_, '_>) -> Test {
    let given = fields.tables("given").into_iter().filter_map(|one| given(reader, &one)).collect();
    let listed = fields.tables("then");
    if let (true, Some(then)) = (listed.is_empty(), fields.value("then"))
        && then.get_ref().is_array()
    {
        let problem = Problem::new(then.span(), "nothing is expected");
        reader.problem(problem.help("that nothing fails is { parked = [] }"));
    }
    Test {
        name: fields.word("name").map_or_else(|| number.to_string(), str::to_owned),
        span: fields.span.clone(),
        given,
        then: listed.into_iter().flat_map(|one| expectations(reader, &one)).collect(),
        on: fields.word("on").and_then(super::build::database),
    }
}

/// What is given, if it is one of what there is: else that was said.
fn given(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Given> {
    let shape = one_of::meant(fields.table, &GIVEN)?;
    if shape.keys.iter().any(|key| key.is_required && fields.value(key.name).is_none()) {
        return None;
    }
    let has = |key| fields.value(key).is_some();
    if has("stream") {
        let stream = stream(reader, fields)?;
        Some(Given::Event { stream, event: Box::new(new_event(reader, fields)?) })
    } else if has("pool") {
        Some(Given::Task {
            pool: fields.name("pool"),
            key: fields.name("key").text,
            payload: fields.raw_json("payload"),
        })
    } else {
        let statements = statements(fields, "sql")?;
        Some(Given::Sql { span: fields.span.clone(), statements })
    }
}

fn expectations(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Vec<Expectation> {
    let mut all = Vec::new();
    let has = |key| fields.value(key).is_some();
    let mut problem = |said: &str, help: &str| {
        reader.problem(Problem::new(fields.span.clone(), said).help(help));
    };
    match (fields.text("sql"), fields.json("rows")) {
        (Some(sql), Some(serde_json::Value::Array(rows))) => {
            all.push(Expectation::Rows { sql, rows });
        }
        (None, None) => {}
        _ => problem(
            "`sql` and `rows` go together",
            "for example { sql = 'SELECT …', rows = [[40]] }",
        ),
    }
    let mut listed = |key: &str| match fields.json(key)? {
        serde_json::Value::Array(listed) => Some(listed),
        _ => {
            problem(NO_LIST, "write a list of tables");
            None
        }
    };
    let (sent, answered) = (listed("sent"), listed("answered"));
    if let (Some(value), Some(events)) = (fields.value("appended"), listed("appended")) {
        all.push(Expectation::Appended { span: value.span(), events });
    }
    match fields.text("consumer") {
        Some(consumer) if has("sent") || has("answered") => {
            let sent = sent.map(|sent| Expectation::Sent { consumer: consumer.clone(), sent });
            let answered = answered.map(|answered| Expectation::Answered { consumer, answered });
            all.extend(sent.into_iter().chain(answered));
        }
        Some(_) => problem(
            "nothing is expected of the `consumer`",
            "say what it was `sent` or has `answered`; in `parked` it stands before the key",
        ),
        None => {
            for key in ["sent", "answered"].into_iter().filter(|key| has(key)) {
                let said = format!("`{key}` does not say of which `consumer`");
                problem(&said, "name the program or pool");
            }
        }
    }
    let error = fields.word("error").map(str::to_owned);
    if has("parked") || error.is_some() {
        let parked = has("parked").then(|| fields.strings("parked"));
        all.push(Expectation::Failed { span: fields.span.clone(), parked, error });
    }
    if fields.table.is_empty() {
        problem("nothing is expected", "for example { sql = 'SELECT …', rows = [[40]] }");
    }
    all
}

/// What a test says about consumers is about those of the file: of others it would know nothing.
pub(super) fn refuse_unknown_names(reader: &mut Reader<'_>, file: &File) {
    // What could not be read is not there, and was complained about.
    if !reader.problems.is_empty() {
        return;
    }
    let sets = || file.sets.iter();
    let pools = || sets().flat_map(|set| &set.pools).map(|pool| pool.name.text.as_str());
    let programs = sets().flat_map(|set| &set.programs);
    let programs = programs.map(|program| program.consumer.name.text.as_str());
    let webhooks = sets().flat_map(|set| &set.webhooks);
    let webhooks = webhooks.map(|webhook| webhook.consumer.name.text.as_str());
    let all: Vec<&str> = programs.chain(webhooks).chain(pools()).collect();
    let pools: Vec<&str> = pools().collect();
    let mut refuse = |what: &str, name: &Text, known: &[&str]| {
        if known.contains(&name.text.as_str()) {
            return;
        }
        let said = format!("this file has no {what} `{}`", name.text);
        let problem = Problem::new(name.span.clone(), said);
        reader.problem(match known {
            [] => problem.help("it has none at all"),
            known => problem.help(suggest(&name.text, known)),
        });
    };
    for test in &file.tests {
        for then in &test.then {
            if let Expectation::Sent { consumer, .. } | Expectation::Answered { consumer, .. } =
                then
            {
                refuse("program, webhook or pool", consumer, &all);
            }
        }
        for given in &test.given {
            if let Given::Task { pool, .. } = given {
                refuse("pool", pool, &pools);
            }
        }
    }
}
