//! One proof: the record read window by window, the log beside it, and what was proven pruned behind it.

use super::Obstacle;
use crate::consumers::Consumers;
use crate::lane::{key_or_stream, parked_event};
use crate::operate_error::OperateError;
use crate::scope::Scope;
use crate::tables::audited::{Edition, Present, Prune};
use anabranch_core::audit::{Proven, Prover, Record, Seen, Violation};
use anabranch_core::{
    ErrorCode, ErrorKind, Event, Partition, Position, StoreError, debug_with_code, time,
};
use anabranch_store::{Filter, PageEnd, ReadRequest, Scope as StoreScope};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How many rows of the record are compared with the log at a time: what is proven is pruned in one transaction, for
/// which SQLite's other writers wait.
const WINDOW: usize = 20_000;
/// The same where each row names the position of each event.
const LISTED_WINDOW: usize = 1_000;
/// How many events are read at a time.
const PAGE: usize = 1_000;
/// How long an append in flight may hold up a proof, and how long it waits between two looks.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// How often a proof begins again since another one has pruned the record meanwhile.
const ATTEMPTS: usize = 5;

/// That a consumer's handler received every event once and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proof {
    /// The consumer.
    pub consumer: String,
    /// What it is. What a subscriber or a webhook did outside is not proven.
    pub kind: String,
    /// Since when it is audited.
    pub since: Timestamp,
    /// What was proven now.
    pub proven: Proven,
    /// How many events of the log were compared.
    pub compared: u64,
    /// How many rows of the record were pruned.
    pub pruned: u64,
}

/// How far a proof is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditProgress {
    /// Rows of the record.
    pub rows: u64,
    /// Events of the log that were compared.
    pub compared: u64,
    /// The position of the last of them.
    pub position: Position,
}

/// Why there is no proof.
#[derive(Error)]
#[non_exhaustive]
pub enum AuditError {
    /// Something is wrong.
    #[error("consumer `{consumer}` is not as its record says: {violation}")]
    Violated {
        /// The consumer.
        consumer: String,
        /// The first thing that is wrong.
        violation: Box<Violation>,
    },
    /// There is no such consumer, it is not possible, or the database could not do it.
    #[error(transparent)]
    Operate(#[from] OperateError),
}

debug_with_code!(AuditError);

impl AuditError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Violated { violation, .. } => violation.code(),
            Self::Operate(error) => error.code(),
        }
    }

    /// Which kind of error it is: what an API answers.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.code().kind()
    }
}

impl From<StoreError> for AuditError {
    fn from(error: StoreError) -> Self {
        Self::Operate(error.into())
    }
}

impl Consumers {
    /// Proves that the handler of an audited consumer received every event once and in order, from where the record
    /// begins up to its cursors; else says what is wrong first. Its workers go on meanwhile. What was proven is removed
    /// from the record.
    pub async fn audit(
        &self,
        name: &str,
        progress: impl Fn(AuditProgress) + Send + Sync,
    ) -> Result<Proof, AuditError> {
        self.prove(name, true, &progress).await
    }

    /// [`audit`](Self::audit) that keeps the record as it is.
    pub async fn audit_and_keep(
        &self,
        name: &str,
        progress: impl Fn(AuditProgress) + Send + Sync,
    ) -> Result<Proof, AuditError> {
        self.prove(name, false, &progress).await
    }

    /// Boxed, so that the prover is compiled here.
    fn prove<'a>(
        &'a self,
        name: &'a str,
        prunes: bool,
        progress: &'a (dyn Fn(AuditProgress) + Send + Sync),
    ) -> BoxFuture<'a, Result<Proof, AuditError>> {
        Box::pin(self.prove_here(name, prunes, progress))
    }

    async fn prove_here(
        &self,
        name: &str,
        prunes: bool,
        progress: &(dyn Fn(AuditProgress) + Send + Sync),
    ) -> Result<Proof, AuditError> {
        self.must_be_auditable(name).await?;
        for _ in 0..ATTEMPTS {
            let Some(edition) = self.tables.edition(name).await? else {
                return Err(self.not_possible(name, Obstacle::NotAudited).into());
            };
            let mut audit = Audit::new(self, name, edition, prunes, progress).await?;
            let violation = match audit.run().await {
                Ok(proof) => return Ok(proof),
                Err(Stop::Changed) => continue,
                Err(Stop::Failed(error)) => return Err(error.into()),
                Err(Stop::Violated(violation)) => violation,
            };
            // Another proof may have pruned what this one was about to read.
            if self.tables.edition(name).await? == Some(audit.edition) {
                let consumer = name.to_owned();
                return Err(AuditError::Violated { consumer, violation });
            }
        }
        Err(self.not_possible(name, Obstacle::RecordChanges).into())
    }
}

/// Why a proof ends.
enum Stop {
    Violated(Box<Violation>),
    /// Somebody else has done something to the record.
    Changed,
    Failed(StoreError),
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Self::Violated(Box::new(violation))
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

struct Audit<'a> {
    consumers: &'a Consumers,
    name: &'a str,
    kind: String,
    edition: Edition,
    prunes: bool,
    progress: &'a (dyn Fn(AuditProgress) + Send + Sync),
    scope: Scope,
    /// None with a custom key.
    partition: Option<Partition>,
    prover: Prover,
    /// The rows of the record that were given to the prover and are still stored.
    stored: HashSet<i64>,
    done: AuditProgress,
    pruned: u64,
}

impl<'a> Audit<'a> {
    async fn new(
        consumers: &'a Consumers,
        name: &'a str,
        edition: Edition,
        prunes: bool,
        progress: &'a (dyn Fn(AuditProgress) + Send + Sync),
    ) -> Result<Self, OperateError> {
        let tables = &consumers.tables;
        let registered = tables.registered(Some(name)).await?.pop();
        let stored = tables.identity(name).await?;
        let Some((registered, stored)) = registered.zip(stored) else {
            return Err(consumers.unknown(name).await);
        };
        let Some((identity, scope)) = stored.partition.zip(stored.scope) else {
            return Err(consumers.not_possible(name, Obstacle::NeverRun));
        };
        let unknown = |error| tables.corrupt(format!("a scope that is not known here ({error})"));
        let scope: Scope = serde_json::from_str(&scope).map_err(unknown)?;
        let partition = Partition::from_identity(&identity);
        let prover = Prover::new(registered.slots, partition.is_some());
        Ok(Self {
            consumers,
            name,
            kind: registered.kind,
            edition,
            prunes,
            progress,
            scope,
            partition,
            prover,
            stored: HashSet::new(),
            done: AuditProgress::default(),
            pruned: 0,
        })
    }

    async fn run(&mut self) -> Result<Proof, Stop> {
        let (tables, mut last) = (&self.consumers.tables, 0);
        let window = if self.partition.is_some() { WINDOW } else { LISTED_WINDOW };
        loop {
            let records = tables.records_after(self.name, last, window).await?;
            if records.len() < window {
                break;
            }
            last = records.last().map_or(last, |record| record.id);
            self.window(records, Vec::new()).await?;
            self.prune(None).await?;
        }
        let Present { records, cursors, aside } = tables.present(self.name, last).await?;
        let tips = cursors.iter().filter_map(|cursor| cursor.record).collect();
        self.window(records, tips).await?;
        let proven = self.prover.end(&cursors, &aside)?;
        self.prune(Some(proven.up_to)).await?;
        Ok(Proof {
            consumer: self.name.to_owned(),
            kind: self.kind.clone(),
            since: time::from_micros(self.edition.since_us()),
            proven,
            compared: self.done.compared,
            pruned: self.pruned,
        })
    }

    /// Some rows, and the events that they are about. `tips` are rows that must be known, too.
    async fn window(&mut self, records: Vec<Record>, tips: Vec<i64>) -> Result<(), Stop> {
        for record in self.with_late_ones(records, tips).await? {
            self.stored.insert(record.id);
            self.done.rows += 1;
            self.prover.record(record)?;
        }
        self.find(self.prover.wanted()).await?;
        for (after, up_to) in self.prover.ranges() {
            self.compare(after, up_to).await?;
        }
        // Set aside under a scope that was wider.
        self.find(self.prover.unsettled()).await?;
        Ok(self.prover.close()?)
    }

    /// Gives the prover the events at these positions.
    async fn find(&mut self, positions: Vec<Position>) -> Result<(), Stop> {
        for position in positions {
            if let Some(event) = self.wanted(position).await? {
                let seen = self.seen(&event);
                self.prover.found(seen)?;
            }
        }
        Ok(())
    }

    /// The event at a position that was set aside, if the log still has it.
    async fn wanted(&self, position: Position) -> Result<Option<Event>, StoreError> {
        let began = Instant::now();
        loop {
            match parked_event(&self.consumers.log, position, self.scope.query()).await {
                // An append in flight elsewhere says nothing of this event.
                Err(StoreError::Busy { .. }) if began.elapsed() < PATIENCE => {
                    tokio::time::sleep(PAUSE).await;
                }
                found => return found,
            }
        }
    }

    /// Rows were in flight when an earlier window was read: they are known by those that go on from them.
    async fn with_late_ones(
        &self,
        mut records: Vec<Record>,
        tips: Vec<i64>,
    ) -> Result<Vec<Record>, StoreError> {
        let mut known: HashSet<i64> = records.iter().map(|record| record.id).collect();
        let parents = records.iter().flat_map(|record| record.parents.iter().copied());
        let mut wanted: Vec<i64> = parents.chain(tips).collect();
        loop {
            wanted.retain(|id| known.insert(*id) && !self.prover.knows(*id));
            if wanted.is_empty() {
                break;
            }
            let late = self.consumers.tables.records_of(self.name, &wanted).await?;
            wanted = late.iter().flat_map(|record| record.parents.iter().copied()).collect();
            records.extend(late);
        }
        // Parents have lower ids.
        records.sort_unstable_by_key(|record| record.id);
        Ok(records)
    }

    /// Gives the prover the events of a range.
    async fn compare(&mut self, after: Position, up_to: Position) -> Result<(), Stop> {
        let (mut at, mut waiting) = (after, None);
        while at < up_to {
            let request = self.request(at, up_to, self.scope.clone());
            let (events, cursor, end) = self.read(request).await?;
            for event in &events {
                let seen = self.seen(event);
                self.prover.event(seen)?;
                self.done.compared += 1;
                self.done.position = event.position();
            }
            (self.progress)(self.done);
            let is_further = cursor > at;
            at = at.max(cursor);
            match end {
                PageEnd::More => {}
                // The log ends before what the record says; what that means is the prover's to say.
                PageEnd::Last => break,
                PageEnd::Pending if is_further => waiting = None,
                PageEnd::Pending => {
                    if waiting.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                        let at = self.consumers.log.at().to_owned();
                        let source = "an append in flight holds up the audit".into();
                        return Err(StoreError::Busy { at, source }.into());
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Ok(())
    }

    fn request(&self, after: Position, up_to: Position, scope: Scope) -> ReadRequest {
        let filter: Filter = scope.filter(None);
        ReadRequest {
            scope: StoreScope::Log(scope.query().clone()),
            filter,
            cursor: after.get(),
            up_to,
            backwards: false,
            max_events: PAGE,
        }
    }

    async fn read(
        &self,
        request: ReadRequest,
    ) -> Result<(Vec<Event>, Position, PageEnd), StoreError> {
        let page = self.consumers.log.store().read(request).await?;
        Ok((page.events, Position::new(page.cursor), page.end))
    }

    fn seen(&self, event: &Event) -> Seen {
        let rule = self.consumers.log.hash_rule();
        let partition = self.partition.as_ref();
        Seen {
            position: event.position(),
            id: event.id(),
            slot: partition.map(|partition| partition.slot(event, rule)),
            key: partition.map(|partition| key_or_stream(partition, event)),
            name: format!("{} {}@{}", event.event_type(), event.stream(), event.version()),
        }
    }

    /// Prunes what is proven so far, and notes up to where once all of it is.
    async fn prune(&mut self, proven: Option<Position>) -> Result<(), Stop> {
        let prunes = self.prunes && self.prover.may_prune();
        let keep = if prunes { self.prover.checkpoint() } else { Vec::new() };
        let kept: HashSet<i64> = keep.iter().map(|checkpoint| checkpoint.record).collect();
        let delete: Vec<i64> = match prunes {
            true => self.stored.difference(&kept).copied().collect(),
            false => Vec::new(),
        };
        let prune = Prune { keep: &keep, delete: &delete, proven };
        let pruned = self.consumers.tables.prune(self.name, self.edition, &prune).await?;
        self.edition = pruned.ok_or(Stop::Changed)?;
        self.pruned += delete.len() as u64;
        self.stored.retain(|id| kept.contains(id) || !prunes);
        Ok(())
    }
}
