//! How tasks are enqueued, as statements.

use super::{READY, SCHEDULED, Tables};
use crate::new_task::{Due, NewTask};
use anabranch_core::{HashRule, Json, TraceContext};
use anabranch_store::database::{ColumnType, Given, Statement, Topic};
use anabranch_store::{Value, params};
use std::time::Duration;

/// What every task that is enqueued has, and what only some have: the statement for those that have none of that
/// takes half the time.
const GIVEN: [(&str, ColumnType); 5] = [
    ("id", ColumnType::Uuid),
    ("pool", ColumnType::Text),
    ("key", ColumnType::Text),
    ("slot", ColumnType::Integer),
    ("payload", ColumnType::Json),
];
const DUE: [(&str, ColumnType); 2] =
    [("delay_us", ColumnType::Integer), ("at_us", ColumnType::Integer)];
const UNIQUE: [(&str, ColumnType); 1] = [("unique_key", ColumnType::Text)];
const THEN: [(&str, ColumnType); 1] = [("then_run", ColumnType::Json)];
const TRACE: [(&str, ColumnType); 1] = [("trace", ColumnType::Text)];

/// Whether tasks may be there already when they are enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum There {
    /// No: one that is fails the statement.
    No,
    /// One that is stays as it is.
    Perhaps,
    /// The same, and the statements return the ids of those that are new.
    Tell,
}

impl Tables {
    /// Enqueues tasks, each with its pool, from code that runs in this trace.
    pub(crate) fn enqueue(
        &self,
        rule: HashRule,
        tasks: &[(&str, &NewTask)],
        there: There,
        current: Option<TraceContext>,
    ) -> Vec<Statement> {
        let some = |has: fn(&NewTask) -> bool| tasks.iter().any(|(_, task)| has(task));
        let has_due = some(|task| task.due != Due::Now);
        let (has_unique, has_then) =
            (some(|task| task.unique.is_some()), some(|task| task.then.is_some()));
        let has_trace =
            self.keeps_traces && tasks.iter().any(|(_, task)| task.trace(current).is_some());
        let mut given = GIVEN.to_vec();
        for (has, columns) in
            [(has_due, &DUE[..]), (has_unique, &UNIQUE), (has_then, &THEN), (has_trace, &TRACE)]
        {
            given.extend(columns.iter().filter(|_| has));
        }
        let row = |(pool, task): &(&str, &NewTask)| {
            let mut values = params![
                task.id,
                *pool,
                task.key.as_str(),
                rule.slot(&task.key).get(),
                Value::Json(task.payload.as_ref().map_or("null", Json::as_str).to_owned()),
            ];
            if has_due {
                values.extend(due(task));
            }
            if has_unique {
                values.push(task.unique.clone().into());
            }
            if has_then {
                let then = task.then.as_ref().and_then(|then| serde_json::to_string(then).ok());
                values.push(then.map_or(Value::Null, Value::Json));
            }
            if has_trace {
                values.push(task.trace(current).map(|trace| trace.to_string()).into());
            }
            values
        };
        let insert = |given: &Given| {
            // Asked for once where a clock goes on within a statement.
            let (now, now_us) = match given.from {
                Some(_) => ("n.now_us", format!("(SELECT {} AS now_us) AS n", self.now)),
                None => (self.now, String::new()),
            };
            let of = |name| given.column(name).to_owned();
            let mut columns: Vec<(&str, String)> =
                GIVEN.iter().map(|(name, _)| (*name, of(name))).collect();
            let due_us = match has_due {
                true => format!("coalesce({}, {now} + {}, 0)", of("at_us"), of("delay_us")),
                false => "0".to_owned(),
            };
            let state = match has_due {
                true => format!("CASE WHEN {due_us} > {now} THEN {SCHEDULED} ELSE {READY} END"),
                false => READY.to_string(),
            };
            columns.extend([("state", state), ("due_us", due_us), ("enqueued_us", now.to_owned())]);
            columns.extend(has_unique.then(|| ("unique_key", of("unique_key"))));
            columns.extend(has_then.then(|| ("then_run", of("then_run"))));
            columns.extend(has_trace.then(|| ("trace", of("trace"))));
            let (names, values): (Vec<&str>, Vec<String>) = columns.into_iter().unzip();
            let (names, values) = (names.join(", "), values.join(", "));
            let rows = match given.from {
                Some(_) => format!("SELECT {values}{}", given.from(&[&now_us])),
                None => format!("VALUES ({values})"),
            };
            let end = match there {
                There::No => "",
                There::Perhaps => " ON CONFLICT DO NOTHING",
                There::Tell => " ON CONFLICT DO NOTHING RETURNING id",
            };
            format!("INSERT INTO {} ({names}) {rows}{end}", self.tasks)
        };
        let rows = tasks.iter().map(row).collect();
        let statement = match there {
            There::Tell => |sql, values| Statement::query(sql, values),
            There::No | There::Perhaps => |sql, values| Statement::new(sql, values),
        };
        let statements = self.dialect().for_rows(&given, rows, &insert).into_iter();
        let mut statements: Vec<Statement> =
            statements.map(|each| statement(each.sql, each.values)).collect();
        statements.push(Statement::signal(Topic::Tasks));
        statements
    }
}

/// When a task is due, as the statement takes it: after a delay, or at a time.
fn due(task: &NewTask) -> [Value; 2] {
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 4);
    let (delay, at) = match task.due {
        Due::Now => (None, None),
        Due::After(delay) => (Some(micros(delay).min(i64::MAX / 4)), None),
        Due::At(time) => (None, Some(time.as_microsecond())),
    };
    [delay.into(), at.into()]
}
