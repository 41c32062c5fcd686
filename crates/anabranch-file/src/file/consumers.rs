//! The consumers of a replica set, from their tables.

use super::build::{self, Fields, Reader};
use super::json;
use super::model::{
    By, Consumer, Due, Effects, Form, Pool, Program, Projection, Run, Schedule, Statements,
};
use super::partition::partition;
use super::problem::Problem;
use super::text::Text;
use super::webhook;
use crate::event_line::EventLine;
use anabranch::cron::Cron;
use anabranch::{Failure, NewEvent, Retry, Scope, Settings, Start, StreamId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// The type of event that stands for all others.
pub(super) const ANY: &str = "*";

pub(super) fn projection(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Projection> {
    let mut on = Vec::new();
    if let Some(table) = fields.value("on").and_then(|value| value.get_ref().as_table()) {
        for (name, value) in table {
            let name = Text { text: name.get_ref().as_ref().to_owned(), span: name.span() };
            on.push((name, statements_of(value)));
        }
        if on.is_empty() {
            let problem = Problem::new(fields.span.clone(), "`on` names no type of event");
            reader.problem(problem.help("name one: OrderPlaced = 'INSERT …'"));
        }
    }
    let types: Vec<&str> = on.iter().map(|(name, _)| name.text.as_str()).collect();
    let types = if types.contains(&ANY) { Vec::new() } else { types };
    let consumer = consumer(reader, fields, types, Retry::default())?;
    Some(Projection { consumer, on })
}

pub(super) fn program(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Program> {
    let run = run(reader, fields);
    let types = fields.strings("types");
    let types = types.iter().map(String::as_str).collect();
    let consumer = consumer(reader, fields, types, Retry::default())?;
    Some(Program { consumer, run })
}

pub(super) fn pool(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Pool {
    let effects = match fields.word("effects") {
        Some("database") => Effects::Database,
        _ => Effects::Outside,
    };
    let unless_said = match effects {
        Effects::Outside => Retry::outside(),
        Effects::Database => Retry::default(),
    };
    Pool {
        name: fields.name("name"),
        by: by(reader, fields, effects),
        effects,
        retry: retry(reader, fields, unless_said),
        in_flight: fields.number("in_flight"),
        max_parallelism: fields.number("max_parallelism"),
        keep: fields.duration("keep"),
        batch_size: fields.number("batch_size"),
    }
}

/// What runs the tasks of a pool.
fn by(reader: &mut Reader<'_>, fields: &Fields<'_, '_>, effects: Effects) -> By {
    let (has_command, has_to) = (fields.value("command").is_some(), fields.value("to").is_some());
    if has_command == has_to {
        let said = match has_to {
            true => "a pool has one of `command` and `to`, and this has both",
            false => "a pool lacks `command` or `to`",
        };
        let help = "command = [\"node\", \"mail.mjs\"] runs a program for each task, to = \"https://…\" sends it";
        reader.problem(Problem::new(fields.span.clone(), said).help(help));
    }
    let of_other = match has_to {
        true => ["env", "grace"].as_slice(),
        false => &["secret", "headers", "private_addresses"],
    };
    for key in of_other.iter().filter(|key| fields.value(key).is_some() && has_command != has_to) {
        let said = match has_to {
            true => format!(
                "`{key}` is for programs, and this pool sends its tasks `to` another server"
            ),
            false => format!("`{key}` is for a pool that sends its tasks `to` another server"),
        };
        reader.problem(Problem::new(fields.span.clone(), said).help("leave it out"));
    }
    if has_to && effects == Effects::Database {
        let said = "what another server does is not in the database";
        let help = "leave out effects = \"database\"";
        reader.problem(Problem::new(fields.span.clone(), said).help(help));
    }
    match webhook::target(reader, fields) {
        Some(target) if has_to => By::Webhook(target),
        _ => By::Program(run(reader, fields)),
    }
}

pub(super) fn schedule(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Schedule> {
    let what = match (fields.table("enqueue"), fields.table("append")) {
        (Some(task), None) => Some(Due::Enqueue {
            pool: task.name("pool"),
            key: task.name("key").text,
            payload: task.raw_json("payload"),
        }),
        (None, Some(event)) => stream(reader, &event)
            .zip(new_event(reader, &event))
            .map(|(stream, event)| Due::Append { stream, event: Box::new(event) }),
        _ => {
            let said = "a schedule has one of `enqueue` and `append`";
            let help = "for example enqueue = { pool = \"mail\", key = \"daily\" }";
            reader.problem(Problem::new(fields.span.clone(), said).help(help));
            None
        }
    };
    let zone = fields.text("zone");
    let cron = fields.text("cron")?;
    let zone_name = zone.as_ref().map_or("UTC", |zone| zone.text.as_str());
    // Each by itself: both may be wrong.
    let alone = [
        (&cron, Cron::parse(&cron.text, "UTC")),
        (zone.as_ref().unwrap_or(&cron), Cron::parse("* * * * *", zone_name)),
    ];
    for (text, parsed) in alone {
        if let Err(error) = parsed {
            reader.problem(Problem::new(text.span.clone(), error.to_string()));
        }
    }
    let cron = Cron::parse(&cron.text, zone_name);
    let what = what?;
    let name = fields.text("name").unwrap_or_else(|| {
        let text = match &what {
            Due::Enqueue { pool, key, .. } => format!("{} {key}", pool.text),
            Due::Append { stream, event } => format!("{} {stream}", event.event_type()),
        };
        Text { text, span: fields.span.clone() }
    });
    Some(Schedule { name, cron: cron.ok()?, what })
}

/// The stream of an event.
pub(super) fn stream(reader: &mut Reader<'_>, event: &Fields<'_, '_>) -> Option<StreamId> {
    let stream = event.text("stream")?;
    match stream.text.parse() {
        Ok(parsed) => Some(parsed),
        Err(error) => {
            let problem = Problem::new(stream.span, format!("{error}"));
            reader.problem(problem.help("a stream is CATEGORY:ID, such as Order:ord-1"));
            None
        }
    }
}

/// An event, if it is one.
pub(super) fn new_event(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<NewEvent> {
    let keys = fields.table.iter();
    let keys = keys.filter_map(|(key, value)| Some((key.get_ref(), json::raw(value.get_ref())?)));
    let keys: BTreeMap<_, _> = keys.collect();
    // From its text: numbers keep their digits.
    let line = serde_json::to_string(&keys);
    match line.and_then(|line| serde_json::from_str::<EventLine>(&line)) {
        Ok(line) => Some(line.into_event()),
        Err(error) => {
            let is_known = |problem: &Problem| {
                let Range { start, end } = problem.span;
                fields.span.start <= start && end <= fields.span.end
            };
            if !reader.problems.iter().any(is_known) {
                let said = format!("this is no event: {error}");
                reader.problem(Problem::new(fields.span.clone(), said));
            }
            None
        }
    }
}

pub(super) fn consumer(
    reader: &mut Reader<'_>,
    fields: &Fields<'_, '_>,
    types: Vec<&str>,
    unless_said: Retry,
) -> Option<Consumer> {
    let mut scope = match types.is_empty() {
        true => Scope::all(),
        false => Scope::types(types),
    };
    let (tags, categories) = (fields.strings("tags"), fields.strings("categories"));
    if !tags.is_empty() {
        scope = scope.tagged(tags);
    }
    scope = scope.categories(categories).tenants(fields.strings("tenants"));
    let mut settings = Settings::default().scope(scope);
    let retry = retry(reader, fields, unless_said);
    if let Some(events) = fields.number("batch_size") {
        settings = settings.batch_size(events);
    }
    let version = fields.number("version").unwrap_or(1);
    settings = settings.version(version);
    if let Some(audit) = fields.truth("audit") {
        settings = settings.audit(audit);
    }
    if fields.word("start") == Some("head") {
        settings = settings.start(Start::Head);
    }
    let hash = reader.hash(fields);
    let partition = match partition(&fields.text("partition")?, hash) {
        Ok(partition) => partition,
        Err(problem) => {
            reader.problem(problem);
            return None;
        }
    };
    Some(Consumer {
        name: fields.name("name"),
        partition,
        settings,
        retry,
        setup: statements(fields, "setup").unwrap_or_default(),
        reset: statements(fields, "reset"),
        tables: tables(reader, fields),
        version,
    })
}

/// The names go into statements as they stand.
fn tables(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Vec<Text> {
    let tables = fields.texts("tables");
    for table in &tables {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins = table.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !begins || !table.text.chars().all(is_plain) {
            let said = format!("`{}` is no plain name of a table", table.text);
            let problem = Problem::new(table.span.clone(), said);
            reader.problem(problem.help("use letters, digits and _"));
        }
    }
    tables
}

fn retry(reader: &mut Reader<'_>, fields: &Fields<'_, '_>, unless_said: Retry) -> Retry {
    let mut retry = unless_said;
    let Some(fields) = fields.table("retry") else { return retry };
    if let Some(first) = fields.duration("first") {
        retry = retry.first(first);
    }
    if let Some(factor) = fields.number("factor") {
        retry = retry.factor(factor);
    }
    if let Some(longest) = fields.duration("longest") {
        retry = retry.longest(longest);
    }
    match (fields.number("attempts"), fields.duration("lasting")) {
        (Some(_), Some(_)) => {
            let said = "`attempts` and `lasting` both say how often";
            reader.problem(Problem::new(fields.span.clone(), said).help("leave one of them out"));
        }
        (Some(attempts), None) => retry = retry.attempts(attempts),
        (None, Some(time)) => retry = retry.lasting(time),
        (None, None) => {}
    }
    match fields.word("then") {
        Some("skip") => retry = retry.then(Failure::Skip),
        Some("stop") => retry = retry.then(Failure::Stop),
        Some("park") => retry = retry.then(Failure::Park),
        _ => {}
    }
    retry
}

fn run(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Run {
    let command = fields.texts("command");
    let names_one = command.first().is_some_and(|first| !first.text.is_empty());
    if let Some(value) = fields.value("command").filter(|value| value.get_ref().is_array())
        && !names_one
    {
        let problem = Problem::new(value.span(), "`command` names no program");
        reader.problem(problem.help("for example command = [\"python3\", \"risk.py\"]"));
    }
    Run {
        command,
        env: reader.settings(fields, "env"),
        timeout: fields.duration("timeout").unwrap_or(Duration::from_secs(30)),
        grace: fields.duration("grace"),
    }
}

pub(super) fn statements(fields: &Fields<'_, '_>, key: &str) -> Option<Statements> {
    let value = fields.value(key)?;
    Some(statements_of(value))
}

fn statements_of(value: &Spanned<DeValue<'_>>) -> Statements {
    let texts = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::Array(items) => items.iter().filter_map(build::text).collect(),
        _ => build::text(value).into_iter().collect::<Vec<Text>>(),
    };
    let forms = match value.get_ref() {
        DeValue::Table(forms) => forms
            .iter()
            .filter_map(|(name, value)| {
                let database = build::database(name.get_ref())?;
                Some(Form { database: Some(database), texts: texts(value) })
            })
            .collect(),
        _ => vec![Form { database: None, texts: texts(value) }],
    };
    Statements { forms }
}
