//! What a program may say.

use crate::event_line::EventLine;
use crate::json_value::value_of;
use anabranch::trace::TraceContext;
use anabranch::workpool::NewTask;
use anabranch::{HandlerError, Timestamp, Value};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::time::Duration;
use uuid::Uuid;

/// One line of a program.
pub(super) enum Message<'a> {
    Hello { protocol: u64 },
    Execute(Statement<'a>),
    Query(Statement<'a>),
    Append { append: Box<EventLine>, event: Option<usize> },
    Enqueue { enqueue: Box<Enqueue<'a>>, event: Option<usize> },
    Save(&'a RawValue),
    Failed { event: Option<usize>, error: HandlerError },
    Done { result: Option<&'a RawValue> },
}

pub(super) struct Statement<'a> {
    pub(super) sql: Cow<'a, str>,
    pub(super) values: Vec<Value>,
    pub(super) event: Option<usize>,
}

#[derive(Deserialize)]
struct Hello {
    protocol: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Enqueue<'a> {
    pub(super) pool: String,
    key: String,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "seconds")]
    after: Option<Duration>,
    at: Option<Timestamp>,
    unique: Option<String>,
    id: Option<Uuid>,
    traceparent: Option<TraceContext>,
}

impl Enqueue<'_> {
    /// The task. If the program has given it no id, it gets one that is the same when the batch is repeated: of what is
    /// handled, the consumer, and how many tasks it has enqueued before.
    pub(super) fn task(self, item: Uuid, consumer: &str, number: u64) -> NewTask {
        let id = self.id.unwrap_or_else(|| {
            let cause = Uuid::new_v5(&item, consumer.as_bytes());
            Uuid::new_v5(&cause, &[b"task".as_slice(), &number.to_be_bytes()].concat())
        });
        let task = NewTask::new(self.key, &self.payload).with_id(id);
        let task = match (self.at, self.after) {
            (Some(time), _) => task.run_at(time),
            (None, Some(delay)) => task.run_after(delay),
            (None, None) => task,
        };
        let task = match self.unique {
            Some(unique) => task.unique(unique),
            None => task,
        };
        match self.traceparent {
            Some(trace) => task.with_trace(trace),
            None => task,
        }
    }
}

/// A line with everything that may be in one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    hello: Option<Hello>,
    #[serde(borrow)]
    execute: Option<Text<'a>>,
    query: Option<Text<'a>>,
    append: Option<Box<EventLine>>,
    enqueue: Option<Box<Enqueue<'a>>>,
    #[serde(default, borrow, deserialize_with = "even_null")]
    save: Option<&'a RawValue>,
    failed: Option<u64>,
    done: Option<u64>,
    batch: Option<u64>,
    values: Option<Vec<&'a RawValue>>,
    event: Option<usize>,
    error: Option<String>,
    again: Option<Again>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// Text, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "`again` is \"never\" or a number of seconds")]
enum Again {
    Never(Never),
    After(#[serde(deserialize_with = "some_seconds")] Duration),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Never {
    Never,
}

fn some_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(from)?;
    Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let seconds: Option<f64> = Option::deserialize(from)?;
    let seconds = seconds.map(Duration::try_from_secs_f64).transpose();
    seconds.map_err(serde::de::Error::custom)
}

/// A checkpoint may be `null`. Everywhere else that is the same as leaving it out.
fn even_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

const ONE_OF: &str =
    "a message has one of `execute`, `query`, `append`, `enqueue`, `save`, `failed` and `done`";

const NO_BATCH: &str = "it has no `batch`: say to which batch it belongs, by its number, so that what comes late is no answer to the next";

impl<'a> Message<'a> {
    /// Reads a line, and to which batch it belongs. Says what is wrong with it.
    pub(super) fn read(line: &'a str) -> Result<(Self, Option<u64>), String> {
        let line: Line<'a> = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let kinds = [
            line.hello.is_some(),
            line.execute.is_some(),
            line.query.is_some(),
            line.append.is_some(),
            line.enqueue.is_some(),
            line.save.is_some(),
            line.failed.is_some(),
            line.done.is_some(),
        ];
        if kinds.iter().filter(|is_there| **is_there).count() != 1 {
            return Err(ONE_OF.to_owned());
        }
        let is_sql = line.execute.is_some() || line.query.is_some();
        let [has_event, fails] = [
            is_sql || line.append.is_some() || line.enqueue.is_some() || line.failed.is_some(),
            line.failed.is_some(),
        ];
        for (is_there, may, name) in [
            (line.values.is_some(), is_sql, "values"),
            (line.event.is_some(), has_event, "event"),
            (line.error.is_some(), fails, "error"),
            (line.again.is_some(), fails, "again"),
            (line.result.is_some(), line.done.is_some(), "result"),
        ] {
            if is_there && !may {
                return Err(format!("`{name}` does not belong to this message"));
            }
        }
        // An end of a batch names it in its own key.
        let batch = line.batch.or(line.done).or(line.failed);
        if batch.is_none() && line.hello.is_none() {
            return Err(NO_BATCH.to_owned());
        }
        Ok((line.message()?, batch))
    }
}

impl<'a> Line<'a> {
    fn message(self) -> Result<Message<'a>, String> {
        let event = self.event;
        let statement = |sql: Text<'a>, values: Option<Vec<&RawValue>>| {
            let values = values.unwrap_or_default().into_iter().map(|value| value_of(value.get()));
            let values = values.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
            Ok::<_, String>(Statement { sql: sql.0, values, event })
        };
        Ok(if let Some(sql) = self.execute {
            Message::Execute(statement(sql, self.values)?)
        } else if let Some(sql) = self.query {
            Message::Query(statement(sql, self.values)?)
        } else if let Some(append) = self.append {
            Message::Append { append, event }
        } else if let Some(enqueue) = self.enqueue {
            Message::Enqueue { enqueue, event }
        } else if let Some(save) = self.save {
            Message::Save(save)
        } else if self.failed.is_some() {
            let said = self.error.unwrap_or_else(|| "the program says no more".to_owned());
            let error = match self.again {
                None => HandlerError::new(said),
                Some(Again::Never(Never::Never)) => HandlerError::for_good(said),
                Some(Again::After(wait)) => HandlerError::try_after(wait, said),
            };
            Message::Failed { event, error }
        } else if self.done.is_some() {
            Message::Done { result: self.result }
        } else if let Some(Hello { protocol }) = self.hello {
            Message::Hello { protocol }
        } else {
            return Err(ONE_OF.to_owned());
        })
    }
}
