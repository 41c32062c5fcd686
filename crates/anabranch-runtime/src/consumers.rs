//! Looking after the consumers of a log: status, pause, replay, parked keys.

use crate::report::Report;
use crate::tables::Tables;
use crate::tables::consumers::Registered;
use crate::tables::parked::{Asked, ParkedKey};
use crate::tables::replica_sets::Generation;
use crate::tx::{Ended, Tx};
use anabranch_core::{Cursor, Event, Position, Query, Slot, SlotSet, StoreError};
use anabranch_store::Log;
use anabranch_store::database::{End, Statement};
use serde::Serialize;
use std::time::Duration;

/// The consumers of a log, as an operator sees them. Nothing here needs their code: what does, such as
/// a replay, is asked for and then done by the worker that runs them.
///
/// ```
/// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_core::StoreError> {
/// use anabranch_runtime::Consumers;
/// let consumers = Consumers::of(&log);
/// for status in consumers.list().await? {
///     println!("{} is {} events behind", status.name, status.lag);
/// }
/// consumers.pause("order_summary").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Consumers {
    log: Log,
    tables: Tables,
}

/// How a consumer stands.
#[derive(Clone, Debug, Serialize)]
pub struct ConsumerStatus {
    /// Its name.
    pub name: String,
    /// Projection, view or subscriber.
    pub kind: String,
    /// How its keys become slots.
    pub strategy: String,
    /// The version of its tables.
    pub version: u32,
    /// Whether it is paused.
    pub paused: bool,
    /// Where somebody has asked it to begin again.
    pub replay_from: Option<Position>,
    /// What could not be done for it, such as a replay that its hook refused.
    pub problem: Option<String>,
    /// All events up to here are done, parked ones apart.
    pub position: Position,
    /// The end of the log.
    pub head: Position,
    /// How many positions lie between.
    pub lag: u64,
    /// How many keys are parked.
    pub parked_keys: usize,
    /// How many events wait behind them.
    pub parked_events: u64,
    /// Its cursors.
    pub cursors: Vec<CursorStatus>,
}

/// How a cursor stands.
#[derive(Clone, Debug, Serialize)]
pub struct CursorStatus {
    /// Which slots, in words.
    pub slots: String,
    /// How many they are.
    pub slot_count: usize,
    /// All their events up to here are done.
    pub position: Position,
    /// How often it has changed hands.
    pub epoch: i64,
    /// Who moves it on, or why nobody does.
    pub owner: Owner,
}

/// Who owns a cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// Nobody: no running worker wants these slots.
    Unassigned,
    /// A worker.
    Worker(WorkerStatus),
    /// A worker whose lease is over: the next one that wants these slots takes them.
    Dead(String),
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerStatus {
    /// Its id.
    pub id: String,
    /// Its replica set.
    pub replica_set: String,
    /// Where it runs.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// What it wants: everything, or a partition.
    pub runs: String,
    /// How many lanes it has.
    pub lanes: usize,
    /// Since when, in microseconds since 1970.
    pub started_us: i64,
    /// Whether its lease is good.
    pub is_alive: bool,
    /// What it says of itself.
    pub report: Report,
}

/// A key that is set aside because an event of it failed.
#[derive(Clone, Debug, Serialize)]
pub struct Parked {
    /// The key.
    pub key: String,
    /// Its slot.
    pub slot: Slot,
    /// How often its first event has failed.
    pub attempts: u32,
    /// What the handler said the last time.
    pub error: String,
    /// Since when, in microseconds since 1970.
    pub since_us: i64,
    /// In how long it is tried again by itself; not at all if there is none.
    pub retry_in: Option<Duration>,
    /// What somebody has asked for and a worker has not done yet.
    pub asked: Option<&'static str>,
    /// How many events wait.
    pub events: u64,
    /// The position of the first of them.
    pub first: Option<Position>,
}

impl From<ParkedKey> for Parked {
    fn from(key: ParkedKey) -> Self {
        let asked = key.asked.map(Asked::name);
        let ParkedKey { key, slot, attempts, error, since_us, retry_in, events, first, .. } = key;
        Self { key, slot, attempts, error, since_us, retry_in, asked, events, first }
    }
}

/// From where a replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayFrom {
    /// The first event.
    Start,
    /// The event after this position.
    After(Position),
    /// The first event that was recorded at this time or later, in microseconds since 1970.
    Time(i64),
}

impl Consumers {
    /// The consumers of a log.
    #[must_use]
    pub fn of(log: &Log) -> Self {
        Self { log: log.clone(), tables: Tables::of(log.store().database()) }
    }

    /// All of them.
    pub async fn list(&self) -> Result<Vec<ConsumerStatus>, StoreError> {
        let mut all = Vec::new();
        let workers = self.workers().await?;
        for registered in self.tables.registered(None).await? {
            all.push(self.status_of(registered, &workers).await?);
        }
        Ok(all)
    }

    /// One of them.
    pub async fn status(&self, name: &str) -> Result<ConsumerStatus, StoreError> {
        let workers = self.workers().await?;
        match self.tables.registered(Some(name)).await?.pop() {
            Some(registered) => self.status_of(registered, &workers).await,
            None => Err(self.unknown(name)),
        }
    }

    async fn status_of(
        &self,
        registered: Registered,
        workers: &[WorkerStatus],
    ) -> Result<ConsumerStatus, StoreError> {
        let Registered { name, kind, strategy, version, paused, reset_to, problem } = registered;
        // Before the cursors: they may move on meanwhile, and a lag is never negative.
        let cursors = self.tables.cursors(&name).await?;
        let head = self.log.head().await?;
        let position = cursors.iter().map(|cursor| cursor.position).min().unwrap_or_default();
        let parked = self.tables.parked(&name).await?;
        let lag = head.get().saturating_sub(position.get());
        let cursors = cursors.iter().map(|cursor| cursor_status(cursor, workers)).collect();
        Ok(ConsumerStatus {
            kind,
            strategy,
            version,
            paused,
            replay_from: reset_to,
            problem,
            position,
            head,
            lag,
            parked_keys: parked.len(),
            parked_events: parked.iter().map(|key| key.events).sum(),
            cursors,
            name,
        })
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
    pub async fn owner_of(&self, name: &str, slot: Slot) -> Result<CursorStatus, StoreError> {
        let workers = self.workers().await?;
        let cursors = self.tables.cursors(name).await?;
        let found = cursors.iter().find(|cursor| cursor.slots.contains(slot));
        let found = found.map(|cursor| cursor_status(cursor, &workers));
        found.ok_or_else(|| self.unknown(name))
    }

    /// Stops handling events until [`resume`](Self::resume); workers finish their batches.
    pub async fn pause(&self, name: &str) -> Result<(), StoreError> {
        self.on_existing(name, self.tables.pause(name, true)).await
    }

    /// Goes on after a [`pause`](Self::pause).
    pub async fn resume(&self, name: &str) -> Result<(), StoreError> {
        self.on_existing(name, self.tables.pause(name, false)).await
    }

    /// Asks for a replay: the next worker that runs the consumer calls its `reset` hook and puts its
    /// cursors back, in one transaction. Returns the position after which it begins.
    pub async fn replay(&self, name: &str, from: ReplayFrom) -> Result<Position, StoreError> {
        let to = match from {
            ReplayFrom::Start => Position::START,
            ReplayFrom::After(position) => position,
            ReplayFrom::Time(micros) => self.before(micros).await?,
        };
        let stands = self.tables.cursors(name).await?.iter().map(|cursor| cursor.position).min();
        if let Some(stands) = stands.filter(|stands| to > *stands) {
            let source = format!(
                "consumer `{name}` stands at position {stands}, and a replay goes back: after {to} \
                 it would leave events out; choose a position up to {stands}, or skip to the head"
            );
            return Err(StoreError::Other { at: self.log.at().to_owned(), source: source.into() });
        }
        self.on_existing(name, self.tables.ask_reset(name, to)).await?;
        Ok(to)
    }

    /// The position before the first event of a time. Times do not order events, positions do, so
    /// this is found by halving and is as exact as the clocks that made them.
    async fn before(&self, micros: i64) -> Result<Position, StoreError> {
        let (mut low, mut high) = (0, self.log.head().await?.get());
        while low < high {
            let middle = low + (high - low) / 2;
            let read = self.log.read(Query::all()).after(Position::new(middle)).limit(1);
            match read.collect().await?.first() {
                Some(event) if event.recorded_us() < micros => low = event.position().get(),
                _ => high = middle,
            }
        }
        Ok(Position::new(low))
    }

    /// Leaves out everything up to the end of the log, parked keys included. Returns that end.
    pub async fn skip_to_head(&self, name: &str) -> Result<Position, StoreError> {
        let head = self.log.head().await?;
        let mut tx = Tx::begin(&self.tables.database, "");
        if self.tables.registered(Some(name)).await?.is_empty() {
            return Err(self.unknown(name));
        }
        let locked = self.tables.lock(tx.session(), name).await?;
        // Lanes may have passed that head meanwhile; nothing is to be handled twice.
        let furthest = locked.cursors.iter().map(|cursor| cursor.position).max();
        let head = head.max(furthest.unwrap_or_default());
        let (cursors, slots) = (&locked.cursors, &locked.slots);
        let restart = self.tables.restart_at(name, cursors, slots, head, Position::START);
        match tx.commit(restart).await {
            Ended::Committed => Ok(head),
            Ended::Fenced => Err(self.unknown(name)),
            Ended::Broken(failed) => Err(self.tables.error(failed)),
            Ended::Failed(failure) => Err(self.tables.error(failure.failed)),
        }
    }

    /// Removes a consumer that no longer exists, with its cursors and parked keys. Its tables stay.
    pub async fn forget(&self, name: &str) -> Result<(), StoreError> {
        if self.tables.registered(Some(name)).await?.is_empty() {
            return Err(self.unknown(name));
        }
        let mut session = self.tables.database.control();
        // A claim at the same time would add cursors of nobody.
        self.tables.lock_consumer(session.as_mut(), name).await?;
        let mut statements = self.tables.forget(name);
        statements.push(Statement::signal());
        let done = session.run(statements, End::Commit).await;
        done.map(drop).map_err(|failed| self.tables.error(failed))
    }

    /// The parked keys of a consumer.
    pub async fn parked(&self, name: &str) -> Result<Vec<Parked>, StoreError> {
        if self.tables.registered(Some(name)).await?.is_empty() {
            return Err(self.unknown(name));
        }
        Ok(self.tables.parked(name).await?.into_iter().map(Into::into).collect())
    }

    /// The first events that wait behind a parked key.
    pub async fn parked_events(
        &self,
        name: &str,
        key: &str,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let mut events = Vec::new();
        for position in self.tables.parked_positions(name, key, limit).await? {
            let before = Position::new(position.get().saturating_sub(1));
            let read = self.log.read(Query::all()).after(before).limit(1);
            events.extend(read.collect().await?);
        }
        Ok(events)
    }

    /// Asks for a parked key to be tried again at once; done by the worker that owns its slot, or by
    /// the next one.
    pub async fn retry_parked(&self, name: &str, key: &str) -> Result<(), StoreError> {
        self.ask(name, key, Asked::Retry).await
    }

    /// Asks for the first event of a parked key to be left out, and the others to be tried.
    pub async fn skip_parked(&self, name: &str, key: &str) -> Result<(), StoreError> {
        self.ask(name, key, Asked::Skip).await
    }

    /// Asks for all events that wait behind a parked key to be left out.
    pub async fn skip_all_parked(&self, name: &str, key: &str) -> Result<(), StoreError> {
        self.ask(name, key, Asked::SkipAll).await
    }

    async fn ask(&self, name: &str, key: &str, asked: Asked) -> Result<(), StoreError> {
        if self.tables.on_existing(self.tables.ask(name, key, asked)).await? {
            return Ok(());
        }
        let source = format!(
            "consumer `{name}` has no parked key `{}`; `anabranch parked list {name}` shows them",
            key.escape_debug()
        );
        Err(StoreError::Other { at: self.log.at().to_owned(), source: source.into() })
    }

    async fn on_existing(&self, name: &str, statement: Statement) -> Result<(), StoreError> {
        match self.tables.on_existing(statement).await? {
            true => Ok(()),
            false => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> StoreError {
        let source = format!(
            "there is no consumer `{}`; one appears when it first runs, and `anabranch status` \
             lists them",
            name.escape_debug()
        );
        StoreError::Other { at: self.log.at().to_owned(), source: source.into() }
    }
}

fn cursor_status(cursor: &Cursor, workers: &[WorkerStatus]) -> CursorStatus {
    let owner = match &cursor.owner {
        None => Owner::Unassigned,
        Some(id) => match workers.iter().find(|worker| worker.id == *id) {
            Some(worker) if worker.is_alive => Owner::Worker(worker.clone()),
            _ => Owner::Dead(id.clone()),
        },
    };
    let slots: &SlotSet = &cursor.slots;
    CursorStatus {
        slots: slots.to_string(),
        slot_count: slots.len(),
        position: cursor.position,
        epoch: cursor.epoch,
        owner,
    }
}
