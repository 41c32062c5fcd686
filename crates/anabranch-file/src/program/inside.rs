//! A conversation whose effects are in a transaction: of a program for events, or for tasks of a pool.

use super::children::{Children, NotTaken};
use super::clock::{Awaited, Clock};
use super::message::{Enqueue, Message, Statement};
use super::process::{Broken, Process};
use super::{events, texts};
use crate::event_line::EventLine;
use anabranch::backend::RawTx;
use anabranch::backend::database::{self, Written};
use anabranch::workpool::{Task, Tasks};
use anabranch::{Event, HandlerError, HandlerResult, Log, Tx};
use serde_json::value::RawValue;
use std::collections::HashMap;
use uuid::Uuid;

/// What a batch is made of.
#[derive(Clone, Copy)]
pub(super) enum Items<'a> {
    Events(&'a [Event]),
    /// The transaction knows already which one it is among others.
    Task(&'a Task),
}

impl Items<'_> {
    fn len(self) -> usize {
        match self {
            Self::Events(events) => events.len(),
            Self::Task(_) => 1,
        }
    }

    fn awaited(self) -> Awaited {
        match self {
            Self::Events(_) => Awaited::Batch,
            Self::Task(_) => Awaited::Task,
        }
    }

    fn id(self, number: usize) -> Option<Uuid> {
        match self {
            Self::Events(events) => events.get(number).map(Event::id),
            Self::Task(task) => (number == 0).then(|| task.id()),
        }
    }

    /// What comes next in the transaction belongs to one of them, or to nobody knows which.
    fn attribute(self, tx: &mut Tx, event: Option<usize>) {
        match (self, event) {
            (Self::Events(_), Some(number)) => tx.for_event(number),
            (Self::Events(_), None) => tx.for_several(),
            (Self::Task(_), _) => {}
        }
    }
}

/// What a program has said at the end of a batch: its result, if it has one.
pub(super) type Ended = Option<Box<RawValue>>;

/// Lets a program of these handle a batch.
pub(super) async fn handle(
    children: &Children,
    log: &Log,
    items: Items<'_>,
    tx: &mut Tx,
) -> HandlerResult<Ended> {
    let mut process = match children.take().await {
        Ok(process) => process,
        Err(NotTaken::NotStarted(error)) => {
            items.attribute(tx, Some(0));
            return Err(error);
        }
        Err(NotTaken::Broken(broken)) => {
            items.attribute(tx, None);
            return Err(children.failure(broken, items.len()));
        }
    };
    let batch = process.begin_batch();
    let clock = Clock::new(children.command.timeout, items.awaited());
    let tasks = HashMap::new();
    let mut talk = Talk { children, log, items, batch, clock, tasks, lost: None };
    talk.send(&mut process, tx)?;
    let ended = talk.run(&mut process, tx).await;
    match ended.and_then(|ended| process.must_be_quiet().map(|()| ended)) {
        Ok(ended) => {
            children.give_back(process);
            ended
        }
        Err(broken) => {
            drop(process);
            items.attribute(tx, None);
            Err(children.failure(broken, items.len()))
        }
    }
}

struct Talk<'a> {
    children: &'a Children,
    log: &'a Log,
    items: Items<'a>,
    batch: u64,
    clock: Clock,
    /// How many tasks each event has enqueued.
    tasks: HashMap<usize, u64>,
    /// Why nothing of the batch will be stored. The program is heard out all the same: it does not know.
    lost: Option<HandlerError>,
}

impl Talk<'_> {
    fn send(&self, process: &mut Process, tx: &mut Tx) -> HandlerResult {
        let mut sent = Ok(());
        process.send(|out| {
            sent = match self.items {
                Items::Task(task) => events::task(out, self.batch, task, None),
                Items::Events(items) => {
                    events::events(out, self.batch, items).map_err(|(number, error)| {
                        tx.for_event(number);
                        error.into()
                    })
                }
            };
        });
        sent
    }

    /// Does what the program says, until the end of the batch.
    async fn run(
        &mut self,
        process: &mut Process,
        tx: &mut Tx,
    ) -> Result<HandlerResult<Ended>, Broken> {
        loop {
            if let Some(limit) = tx.open_limit() {
                self.clock.open(limit);
            }
            match process.next(&mut self.clock).await? {
                Message::Execute(statement) => {
                    let done = self.execute(statement, tx).await?;
                    self.keep(done);
                }
                Message::Query(statement) => {
                    // A batch that is lost has no rows: each query has one answer.
                    if let Some(rows) = self.query(statement, tx).await?
                        && let Some(rows) = self.keep(rows)
                    {
                        process.send(|out| events::rows(out, &rows));
                    }
                    if let Some(error) = self.lost.take() {
                        process.send(|out| events::abandoned(out, self.batch, &error));
                        process.flush(&mut self.clock).await?;
                        return Ok(Err(error));
                    }
                }
                Message::Append { append, event } => {
                    let event = self.needed(event, "append")?;
                    let done = self.append(*append, event, tx);
                    self.keep(done);
                }
                Message::Enqueue { enqueue, event } => {
                    let event = self.needed(event, "enqueue")?;
                    let done = self.enqueue(*enqueue, event, tx).await;
                    self.keep(done);
                }
                Message::Failed { event, error } => {
                    self.must_be_there(event)?;
                    if let Some(lost) = self.lost.take() {
                        return Ok(Err(lost));
                    }
                    self.items.attribute(tx, event);
                    return Ok(Err(error));
                }
                Message::Done { result } => {
                    let result = match (result, self.items) {
                        (Some(_), Items::Events(_)) => {
                            return Err(Broken::new(
                                "has answered `done` with a `result`, which only tasks have; leave it out",
                            ));
                        }
                        (result, _) => result.map(ToOwned::to_owned),
                    };
                    return Ok(self.lost.take().map_or(Ok(result), Err));
                }
                Message::Save(_) => {
                    return Err(Broken::new(
                        "has answered `save`, which only a pool with `effects = \"outside\"` may",
                    ));
                }
                Message::Hello { .. } => return Err(Broken::new("has greeted twice; greet once")),
            }
        }
    }

    /// Keeps why the batch is lost.
    fn keep<T>(&mut self, done: HandlerResult<T>) -> Option<T> {
        done.map_err(|error| self.lost.get_or_insert(error)).ok()
    }

    async fn execute(
        &mut self,
        statement: Statement<'_>,
        tx: &mut Tx,
    ) -> Result<HandlerResult, Broken> {
        let Statement { sql, values, event } = statement;
        self.must_be_there(event)?;
        if self.lost.is_some() {
            return Ok(Ok(()));
        }
        self.items.attribute(tx, event);
        let statement = database::Statement::new(texts::statement(&sql), values);
        Ok(tx.push(statement.written(Written::ELSEWHERE)).await)
    }

    /// The rows of a query, unless the batch is lost already.
    async fn query(
        &mut self,
        statement: Statement<'_>,
        tx: &mut Tx,
    ) -> Result<Option<HandlerResult<Vec<anabranch::Row>>>, Broken> {
        let Statement { sql, values, event } = statement;
        self.must_be_there(event)?;
        if self.lost.is_some() {
            return Ok(None);
        }
        self.items.attribute(tx, event);
        let statement = database::Statement::query(texts::statement(&sql), values);
        Ok(Some(tx.query_statement(statement.written(Written::ELSEWHERE)).await))
    }

    fn append(&mut self, append: EventLine, event: usize, tx: &mut Tx) -> HandlerResult {
        if self.lost.is_some() {
            return Ok(());
        }
        self.items.attribute(tx, Some(event));
        let (stream, expected) = (append.stream.clone(), append.expected());
        tx.append(&stream, expected, [append.into_event()])
    }

    async fn enqueue(&mut self, enqueue: Enqueue<'_>, event: usize, tx: &mut Tx) -> HandlerResult {
        let Some(id) = self.items.id(event).filter(|_| self.lost.is_none()) else { return Ok(()) };
        self.items.attribute(tx, Some(event));
        let tasks = Tasks::new(self.log, enqueue.pool.as_str());
        let number = self.tasks.entry(event).or_default();
        let task = enqueue.task(id, self.children.consumer(), *number);
        *number += 1;
        tasks.enqueue_in(tx, &[task]).await
    }

    /// Refuses an event that is not in the batch.
    fn must_be_there(&self, event: Option<usize>) -> Result<(), Broken> {
        match event {
            Some(event) if event >= self.items.len() => Err(Broken::new(format!(
                "has named event {event} of a batch of {}: they are counted from 0",
                self.items.len()
            ))),
            _ => Ok(()),
        }
    }

    fn needed(&self, event: Option<usize>, what: &str) -> Result<usize, Broken> {
        self.must_be_there(event)?;
        let none = || {
            Broken::new(format!(
                "has answered `{what}` without `event`, which ids are made of: say for which event of the \
                 batch it is, from 0"
            ))
        };
        event.ok_or_else(none)
    }
}
