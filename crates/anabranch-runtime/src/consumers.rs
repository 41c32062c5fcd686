//! Operating the consumers of a log: status, pause, replay, parked keys.

use crate::consumer::follows_log;
use crate::operate_error::{Obstacle, OperateError};
use crate::row_watch;
use crate::standing;
use crate::status::{ConsumerStatus, CursorStatus, Situation, WorkerStatus};
use crate::tables::Tables;
use crate::tables::consumers::Registered;
use crate::tables::generations::Generation;
use crate::tables::parked::{Asked, ParkedKey};
use anabranch_core::{Event, Position, Query, Slot, StoreError, time};
use anabranch_store::database::{End, Statement, Topic};
use anabranch_store::{Log, WoundBack};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The consumers of a log, as an operator sees them. Nothing here needs their code: what does, such as
/// a replay, is asked for and then done by the worker that runs them.
///
/// ```
/// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
/// use anabranch_runtime::Consumers;
/// let consumers = Consumers::new(&log);
/// for status in consumers.list().await? {
///     println!("{} has {} events to do", status.name, status.lag_ready);
///     println!("and {} that wait for somebody", status.parked_events);
/// }
/// consumers.pause("order_summary").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Consumers {
    pub(crate) log: Log,
    pub(crate) tables: Tables,
    /// What is run in the transaction of each change, before and after it.
    pub(crate) around: (Vec<Statement>, Vec<Statement>),
}

/// A key that is set aside because an event of it failed: with its later events, in order.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Parked {
    /// The key.
    pub key: String,
    /// Whether somebody has to do something.
    pub state: KeyState,
    /// Its slot.
    pub slot: Slot,
    /// How often its first event has failed.
    pub attempts: u32,
    /// What the handler said the last time.
    pub error: String,
    /// Since when, by the database's clock.
    pub since: Timestamp,
    /// In how long it is tried again by itself; not at all if there is none.
    pub retry_in: Option<Duration>,
    /// What was requested and a worker has not done yet.
    pub asked: Option<&'static str>,
    /// How many events wait.
    pub events: u64,
    /// The position of the first of them.
    pub first: Option<Position>,
}

/// What becomes of a key that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// Its attempts are used up: it waits for somebody to retry or skip it.
    Parked,
    /// A worker tries it again: at its time, or since that was requested.
    Retrying,
}

impl KeyState {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Retrying => "retrying",
        }
    }
}

impl From<ParkedKey> for Parked {
    fn from(key: ParkedKey) -> Self {
        let state = if key.is_parked() { KeyState::Parked } else { KeyState::Retrying };
        let asked = key.asked.map(Asked::name);
        let ParkedKey { key, slot, attempts, error, since_us, retry_in, events, first, .. } = key;
        let since = time::from_micros(since_us);
        Self { key, state, slot, attempts, error, since, retry_in, asked, events, first }
    }
}

impl Consumers {
    /// The consumers of a log.
    #[must_use]
    pub fn new(log: &Log) -> Self {
        Self { log: log.clone(), tables: Tables::of(log.database()), around: Default::default() }
    }

    /// The same, with statements that are run in the transaction of each change, before and after its own: for the journal
    /// of operations. If one of them does not match, nothing is changed.
    #[doc(hidden)]
    #[must_use]
    pub fn in_transaction_with(&self, before: Vec<Statement>, after: Vec<Statement>) -> Self {
        Self { around: (before, after), ..self.clone() }
    }

    /// The statements of a change with those that are run before and after them.
    pub(crate) fn around(&self, statements: Vec<Statement>) -> Vec<Statement> {
        let (before, after) = self.around.clone();
        [before, statements, after].concat()
    }

    /// All of them.
    pub async fn list(&self) -> Result<Vec<ConsumerStatus>, StoreError> {
        let mut all = Vec::new();
        let running = Situation::of(&self.tables).await?;
        for registered in self.tables.registered(None).await? {
            all.push(running.status(&self.log, &self.tables, registered).await?);
        }
        Ok(all)
    }

    /// One of them.
    pub async fn status(&self, name: &str) -> Result<ConsumerStatus, OperateError> {
        let running = Situation::of(&self.tables).await?;
        match self.tables.registered(Some(name)).await?.pop() {
            Some(registered) => Ok(running.status(&self.log, &self.tables, registered).await?),
            None => Err(self.unknown(name).await),
        }
    }

    /// The workers, dead ones that nobody has noticed yet included.
    pub async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        self.tables.workers().await
    }

    /// The last generations of a replica set, or of all, the newest first: when, why, who had what.
    pub async fn generations(
        &self,
        replica_set: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Generation>, StoreError> {
        self.tables.generations(replica_set, limit).await
    }

    /// Who owns a slot of a consumer.
    pub async fn owner_of(&self, name: &str, slot: Slot) -> Result<CursorStatus, OperateError> {
        let status = self.status(name).await?;
        let found = status.cursors.into_iter().find(|cursor| cursor.set.contains(slot));
        match found {
            Some(cursor) => Ok(cursor),
            None => Err(self.unknown(name).await),
        }
    }

    /// Stops handling events until [`resume`](Self::resume); workers finish their batches.
    pub async fn pause(&self, name: &str) -> Result<(), OperateError> {
        self.on_existing(name, vec![self.tables.pause(name, true)]).await
    }

    /// Goes on after a [`pause`](Self::pause). One that has stopped by itself
    /// ([`outage`](ConsumerStatus::outage)) is tried again at once.
    pub async fn resume(&self, name: &str) -> Result<(), OperateError> {
        self.on_existing(name, vec![self.tables.pause(name, false)]).await
    }

    /// Removes a consumer that no longer exists, with its cursors and parked keys. Its tables stay.
    pub async fn forget(&self, name: &str) -> Result<(), OperateError> {
        self.tables.database.require_newest_schema()?;
        self.must_exist(name).await?;
        let watched = row_watch::removal(name, &self.tables).await?;
        let mut session = self.tables.database.control();
        // A claim at the same time would add cursors of nobody.
        self.tables.lock_consumer(session.as_mut(), name).await?;
        let mut statements = watched;
        statements.extend(self.tables.forget(name));
        statements.push(Statement::signal(Topic::Workers));
        let statements = self.around(statements);
        let done = session.run(statements, End::Commit).await;
        done.map(drop).map_err(|failed| self.tables.error(failed).into())
    }

    /// The keys of a consumer that are set aside, those that are [tried again by
    /// themselves](KeyState::Retrying) included.
    pub async fn parked(&self, name: &str) -> Result<Vec<Parked>, OperateError> {
        self.must_exist(name).await?;
        Ok(self.tables.parked(name).await?.into_iter().map(Into::into).collect())
    }

    /// The first events that wait behind a parked key, without those that the log has no more.
    pub async fn parked_events(
        &self,
        name: &str,
        key: &str,
        limit: usize,
    ) -> Result<Vec<Event>, OperateError> {
        let mut events = Vec::new();
        for position in self.tables.parked_positions(name, key, Position::END, limit).await? {
            let before = Position::new(position.get().saturating_sub(1));
            let read = self.log.read(Query::all()).after(before).limit(1);
            // One that was deleted is not there any more; the next one is another's.
            let found = read.collect().await?.into_iter();
            events.extend(found.filter(|event| event.position() == position));
        }
        if events.is_empty() {
            self.must_exist(name).await?;
        }
        Ok(events)
    }

    /// Asks for a parked key, or one that waits for its next attempt, to be tried again at once; done by the worker that owns its slot, or by
    /// the next one.
    pub async fn retry_parked(&self, name: &str, key: &str) -> Result<(), OperateError> {
        self.ask(name, key, Asked::Retry).await
    }

    /// Asks for the first event of a parked key to be left out, and the others to be tried. It is the event that is the
    /// first one now: if it is handled after all, none is left out.
    pub async fn skip_parked(&self, name: &str, key: &str) -> Result<(), OperateError> {
        self.ask(name, key, Asked::Skip).await
    }

    /// Asks for all events that wait behind a parked key now to be left out. What comes behind it until that is done is
    /// tried.
    pub async fn skip_all_parked(&self, name: &str, key: &str) -> Result<(), OperateError> {
        self.ask(name, key, Asked::SkipAll).await
    }

    async fn ask(&self, name: &str, key: &str, asked: Asked) -> Result<(), OperateError> {
        let statements = self.around(vec![self.tables.ask(name, key, asked)]);
        if self.tables.on_existing(statements).await? {
            return Ok(());
        }
        self.must_exist(name).await?;
        let (consumer, key) = (name.to_owned(), key.to_owned());
        Err(OperateError::NoSuchKey { at: self.log.at().to_owned(), consumer, key })
    }

    pub(crate) async fn on_existing(
        &self,
        name: &str,
        statements: Vec<Statement>,
    ) -> Result<(), OperateError> {
        match self.tables.on_existing(self.around(statements)).await? {
            true => Ok(()),
            false => Err(self.unknown(name).await),
        }
    }

    /// Refuses a consumer that is not there, or finds its work elsewhere and so has no position.
    pub(crate) async fn must_follow_log(&self, name: &str) -> Result<(), OperateError> {
        let registered = self.tables.registered(Some(name)).await?;
        let Some(found) = registered.first() else { return Err(self.unknown(name).await) };
        if follows_log(&found.kind) {
            return Ok(self.must_have_log(found).await?);
        }
        Err(self.not_possible(name, Obstacle::NoPosition { kind: found.kind.clone() }))
    }

    /// Refuses a consumer that is not there.
    pub(crate) async fn must_exist(&self, name: &str) -> Result<(), OperateError> {
        match self.tables.registered(Some(name)).await?.is_empty() {
            true => Err(self.unknown(name).await),
            false => Ok(()),
        }
    }

    pub(crate) fn not_possible(&self, name: &str, because: Obstacle) -> OperateError {
        let (at, consumer) = (self.log.at().to_owned(), name.to_owned());
        OperateError::NotPossible { at, consumer, because }
    }

    /// That no consumer has this name, and which there are.
    pub(crate) async fn unknown(&self, name: &str) -> OperateError {
        self.tables.no_such_consumer(name).await
    }

    /// Refuses a consumer whose events are elsewhere, if nobody has said where.
    pub(crate) async fn must_have_log(&self, found: &Registered) -> Result<(), StoreError> {
        match standing::other_log(&self.log, found).await? {
            Some((belongs_to, identity)) if !self.log.is_apart() => {
                let other = WoundBack::OtherLog { was: belongs_to, is: identity };
                Err(standing::wound_back(&self.log, &self.tables, &found.name, &other))
            }
            _ => Ok(()),
        }
    }
}

impl Tables {
    /// That no consumer has this name, and which there are.
    pub(crate) async fn no_such_consumer(&self, name: &str) -> OperateError {
        let registered = match self.registered(None).await {
            Ok(registered) => registered,
            Err(error) => return error.into(),
        };
        let known = registered.into_iter().map(|registered| registered.name).collect();
        let (at, name) = (self.database.at().to_owned(), name.to_owned());
        OperateError::NoSuchConsumer { at, name, known }
    }
}
