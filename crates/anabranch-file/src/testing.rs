//! Tests that stand in a file, on the real engine: consumers run on a log that is made for the test.

use crate::Sets;
use crate::compare::{Difference, compare};
use crate::file::{Expectation, File, Given, Problem, Problems, Test, Text};
use crate::program::{Programs, Recorder};
use crate::sql::Compiler;
use anabranch::backend::database::{End, Statement};
use anabranch::operate::Consumers;
use anabranch::running::Left;
use anabranch::testing::{TestError, TestKit};
use anabranch::workpool::{NewTask, TaskError, TaskState, TaskStatus, Tasks};
use anabranch::{AppendError, Expected, Log, Query, ReplicaSet, Row, RunError, StoreError};
use serde_json::Value;
use std::ops::Range;
use std::sync::Arc;
use thiserror::Error;

/// How often the sets are run in turn while they give each other work.
const MOST_ROUNDS: usize = 1_000;

/// What is not as a test expects it.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// What was looked at.
    pub what: String,
    /// Where that is expected, in bytes of the file.
    pub at: usize,
    /// Expected and actual, line by line.
    pub difference: Difference,
}

/// Why a test could not be run to its end.
#[derive(Debug, Error)]
pub enum FileTestError {
    /// The file has mistakes.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] TestError),
    /// What was given was refused.
    #[error("{given} is refused: {error}")]
    Given {
        /// What.
        given: String,
        /// Why.
        error: String,
    },
    /// The sets give each other work without an end.
    #[error("the consumers give each other events or tasks without an end")]
    Endless,
}

impl From<StoreError> for FileTestError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

/// Runs a test on a kit whose log is empty. Nothing is returned if all is as expected.
pub async fn test(
    file: &File,
    test: &Test,
    kit: TestKit,
    programs: Programs,
) -> Result<Vec<Mismatch>, FileTestError> {
    let log = kit.log().clone();
    let recorder = Arc::new(Recorder::default());
    let programs = programs.recorded_by(&recorder);
    let steps = steps(file, test, &log)?;
    let sets = Sets { programs: programs.clone(), is_test: true }.of(file, &log)?;
    let sets = sets.into_iter().map(|made| (made.name, made.set)).collect();
    let mut running = Running { kit, sets, failed: Vec::new() };
    // So that their tables are there, for what is given and for a query of what nobody has written.
    running.once().await?;
    for step in steps {
        step.take(file, &log).await?;
    }
    let given = log.head().await?;
    let mut failed = running.until_done().await?;
    programs.ended().await;
    failed.extend(failures(file, &log).await?);
    // A consumer that has stopped is listed with the reason, and stands in its status as well.
    failed.sort();
    failed.dedup_by(|one, other| one.0 == other.0 && one.0.ends_with(ALL_OF_IT));
    let mut mismatches: Vec<Mismatch> = not_failed(test, &failed).into_iter().collect();
    for then in &test.then {
        match then {
            Expectation::Rows { sql, rows } => {
                let what = "rows of the query";
                mismatches.extend(match log.query(sql.text.clone(), vec![]).await {
                    Ok(actual) => {
                        let values =
                            |row: &Row| row.iter().map(|(_, value)| value.to_json()).collect();
                        let actual: Vec<Value> = actual.iter().map(values).collect();
                        mismatch(what, sql.span.start, rows, &actual)
                    }
                    Err(error) => Some(Mismatch {
                        what: what.to_owned(),
                        at: sql.span.start,
                        difference: messages(Vec::new(), vec![error.to_string()]),
                    }),
                });
            }
            Expectation::Sent { consumer, sent } => {
                let actual = recorder.sent(&consumer.text);
                let what = format!("what `{}` was sent", consumer.text);
                mismatches.extend(mismatch(&what, consumer.span.start, sent, &actual));
            }
            Expectation::Answered { consumer, answered } => {
                let actual = recorder.answered(&consumer.text);
                let what = format!("what `{}` has answered", consumer.text);
                mismatches.extend(mismatch(&what, consumer.span.start, answered, &actual));
            }
            Expectation::Appended { span, events } => {
                let appended = log.read(Query::all()).after(given).collect().await?;
                let appended: Vec<Value> =
                    appended.iter().filter_map(|event| serde_json::to_value(event).ok()).collect();
                mismatches.extend(mismatch("events appended", span.start, events, &appended));
            }
            // All of them together, before.
            Expectation::Failed { .. } => {}
        }
    }
    Ok(mismatches)
}

/// What stands behind the name of a consumer that has failed as a whole.
const ALL_OF_IT: &str = " (all of it)";

/// What has failed, as `CONSUMER KEY`, and what was said.
type Failures = Vec<(String, String)>;

/// The sets of a file, while they run.
struct Running {
    kit: TestKit,
    sets: Vec<(String, ReplicaSet)>,
    /// What could not go on.
    failed: Failures,
}

impl Running {
    /// Runs each set until it has nothing to do; says how much it did, and what it has left behind. A set that cannot go
    /// on has failed, and is not run again.
    async fn once(&mut self) -> Result<(u64, Vec<Left>), FileTestError> {
        let (mut handled, mut left) = (0, Vec::new());
        for (name, set) in std::mem::take(&mut self.sets) {
            match Box::pin(self.kit.try_run(set.clone())).await {
                Ok(ran) => {
                    handled += ran.handled();
                    left.extend(ran.left().iter().cloned());
                    self.sets.push((name, set));
                }
                Err(TestError::Run(error)) => self.failed.push(stopped(&name, &error)),
                Err(error @ TestError::TooLong(_)) => {
                    self.failed.push((format!("{name}{ALL_OF_IT}"), error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok((handled, left))
    }

    /// The sets give each other work: until none has any. What could not go on, and what is tried again later.
    async fn until_done(mut self) -> Result<Failures, FileTestError> {
        for _ in 0..MOST_ROUNDS {
            let (handled, left) = self.once().await?;
            if handled > 0 {
                continue;
            }
            let waiting = left.into_iter().filter(|left| left.retrying_keys > 0 || left.unseen > 0);
            self.failed.extend(waiting.map(|left| {
                let said = left.first_error.unwrap_or_else(|| "it was not handled".to_owned());
                (format!("{}{ALL_OF_IT}", left.consumer), said)
            }));
            return Ok(self.failed);
        }
        Err(FileTestError::Endless)
    }
}

/// A set that cannot go on, by the name of the consumer that is to blame, if it is one.
fn stopped(set: &str, error: &RunError) -> (String, String) {
    let (RunError::Refused { consumer: name, .. }
    | RunError::BeyondLog { consumer: name, .. }
    | RunError::Stopped { consumer: name, .. }
    | RunError::Broken { consumer: name, .. }) = error
    else {
        return (format!("{set}{ALL_OF_IT}"), error.to_string());
    };
    (format!("{name}{ALL_OF_IT}"), error.to_string())
}

fn mismatch(what: &str, at: usize, expected: &[Value], actual: &[Value]) -> Option<Mismatch> {
    let difference = compare(expected, actual)?;
    Some(Mismatch { what: what.to_owned(), at, difference })
}

fn messages(expected: Vec<String>, actual: Vec<String>) -> Difference {
    Difference { expected, actual, are_messages: true }
}

/// What is given, ready to be done.
enum Step<'t> {
    Give(&'t Given),
    /// A statement, and where it stands.
    Execute(String, Range<usize>),
}

/// What a test begins with, in the form for the database.
fn steps<'t>(file: &File, test: &'t Test, log: &Log) -> Result<Vec<Step<'t>>, Problems> {
    let database = log.database();
    let dialect = database.dialect();
    let mut compiler = Compiler::new(&file.source, Some(dialect.name()));
    let mut steps = Vec::new();
    for given in &test.given {
        let Given::Sql { span, statements } = given else {
            steps.push(Step::Give(given));
            continue;
        };
        let name = Text { text: "sql".to_owned(), span: span.clone() };
        for one in compiler.without_event("`sql`", &name, statements) {
            let at = one.text.part(&file.source.text, one.named.span.clone());
            steps.push(Step::Execute(one.named.sql, at));
        }
    }
    Problems::none_in(&file.source, compiler.problems)?;
    Ok(steps)
}

impl Step<'_> {
    async fn take(self, file: &File, log: &Log) -> Result<(), FileTestError> {
        let refused = |given: String, error: String| FileTestError::Given { given, error };
        match self {
            Self::Give(Given::Event { stream, event }) => {
                let event = event.as_ref().clone();
                let appended = log.append(stream, Expected::Any, [event]).await;
                appended.map_err(|error: AppendError| {
                    refused(format!("the event of {stream}"), error.to_string())
                })?;
            }
            Self::Give(Given::Task { pool, key, payload }) => {
                let pool = &pool.text;
                let task = NewTask::new(key.as_str(), payload);
                let enqueued = Tasks::new(log, pool).enqueue(task).await;
                enqueued.map_err(|error: TaskError| {
                    refused(format!("the task of pool {pool}, key {key}"), error.to_string())
                })?;
            }
            // They became statements.
            Self::Give(Given::Sql { .. }) => {}
            Self::Execute(sql, at) => {
                let statement = Statement::new(sql, Vec::new());
                let done = log.database().begin().run(vec![statement], End::Commit).await;
                done.map_err(|failed| {
                    let problem = Problem::new(at, failed.reason.to_string());
                    Problems::one(&file.source, problem)
                })?;
            }
        }
        Ok(())
    }
}

/// The keys that have failed, of events and of tasks.
async fn failures(file: &File, log: &Log) -> Result<Failures, FileTestError> {
    let consumers = Consumers::new(log);
    let mut failed = Vec::new();
    for status in consumers.list().await? {
        let unread = |error: String| FileTestError::Given {
            given: format!("consumer {}", status.name),
            error,
        };
        let parked = consumers.parked(&status.name).await;
        for key in parked.map_err(|error| unread(error.to_string()))? {
            failed.push((format!("{} {}", status.name, key.key), key.error));
        }
        if let Some(outage) = status.outage {
            failed.push((format!("{}{ALL_OF_IT}", status.name), outage.error));
        }
    }
    for pool in file.sets.iter().flat_map(|set| &set.pools) {
        let name = &pool.name.text;
        for state in TaskState::ALL.into_iter().filter(|state| state.is_dead()) {
            let tasks = Tasks::new(log, name).list(state, usize::from(u16::MAX)).await;
            let tasks = tasks.map_err(|error| FileTestError::Given {
                given: format!("pool {name}"),
                error: error.to_string(),
            })?;
            let said =
                |task: TaskStatus| (format!("{name} {}", task.key), task.error.unwrap_or_default());
            failed.extend(tasks.into_iter().map(said));
        }
    }
    Ok(failed)
}

/// What has failed and was not expected, and the other way round. `parked` of all expectations together are the keys;
/// each `error` is said of one of its own keys, or of any if it names none.
fn not_failed(test: &Test, failed: &[(String, String)]) -> Option<Mismatch> {
    let (mut wanted, mut missing, mut at) = (Vec::new(), Vec::new(), None);
    let mut is_any = false;
    for then in &test.then {
        let Expectation::Failed { span, parked, error } = then else { continue };
        at = at.or(Some(span.start));
        is_any |= parked.is_none();
        wanted.extend(parked.iter().flatten().cloned());
        let Some(error) = error else { continue };
        let is_meant = |key: &String| parked.as_ref().is_none_or(|keys| keys.contains(key));
        if !failed.iter().any(|(key, said)| is_meant(key) && said.contains(error.as_str())) {
            missing.push(format!("… {error} …"));
        }
    }
    wanted.sort();
    wanted.dedup();
    let mut keys: Vec<&String> = failed.iter().map(|(key, _)| key).collect();
    keys.sort();
    keys.dedup();
    let has_keys = match is_any {
        true => wanted.iter().all(|key| keys.contains(&key)),
        false => wanted.iter().eq(keys),
    };
    if has_keys && missing.is_empty() {
        return None;
    }
    wanted.append(&mut missing);
    let found = failed.iter().map(|(key, said)| format!("{key}: {said}")).collect();
    let at = at.unwrap_or(test.span.start);
    let difference = messages(wanted, found);
    Some(Mismatch { what: "keys that have failed".to_owned(), at, difference })
}
