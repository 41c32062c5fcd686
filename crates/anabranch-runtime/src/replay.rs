//! Beginning again: from where somebody wants it, and from where the log still can.
//!
//! Where the events at the place to begin are not in the log any more, a replay cannot make again what the
//! consumer once made of them. Whoever asks decides what that is worth: see [`MissingEvents`].

use crate::consumer::is_folded;
use crate::consumers::Consumers;
use crate::operate_error::{Obstacle, OperateError};
use crate::scope::Scope;
use anabranch_core::{
    ErrorCode, ErrorKind, Event, InputError, InputProblem, Position, Query, StoreError,
    debug_with_code,
};
use anabranch_store::database::Statement;
use std::fmt;
use thiserror::Error;

/// From where a replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayFrom {
    /// The first event.
    Start,
    /// The first event that the log still has, if those before it were deleted.
    FirstKept,
    /// The event after this position.
    After(Position),
    /// The first event that was recorded at this time or later, in microseconds since 1970.
    Time(i64),
    /// As many of its events before where it stands, [`MOST_LAST`] at most. Where its slots stand apart, that is where
    /// the last of them stands.
    Last(u64),
}

/// How many of its last events a consumer can be asked to handle again by their number; for more, say the position or the
/// time.
pub const MOST_LAST: u64 = 100_000;

/// Why a replay was not asked for.
#[derive(Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The log no longer has the events with which it would begin.
    #[error(transparent)]
    Missing(MissingEvents),
    /// There is no such consumer, it is not possible, or the database could not do it.
    #[error(transparent)]
    Operate(#[from] OperateError),
}

debug_with_code!(ReplayError);

impl From<StoreError> for ReplayError {
    fn from(error: StoreError) -> Self {
        Self::Operate(error.into())
    }
}

impl ReplayError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Missing(missing) => missing.code(),
            Self::Operate(error) => error.code(),
        }
    }

    /// Which kind of error it is: what an API answers.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.code().kind()
    }
}

/// The log no longer has the events with which a replay would begin: from where it can, and what that
/// means.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub struct MissingEvents {
    /// The consumer.
    pub consumer: String,
    /// It would begin after this position.
    pub after: Position,
    /// The first event after it that the log still has, and when that was recorded, in microseconds since
    /// 1970.
    pub first_kept: Option<(Position, i64)>,
}

impl MissingEvents {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::EventsMissing
    }
}

impl fmt::Display for MissingEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { consumer, after, first_kept } = self;
        match first_kept {
            Some((first, recorded_us)) => {
                let (next, last) = (after.get() + 1, first.get() - 1);
                let missing = match next == last {
                    true => format!("position {next}"),
                    false => format!("the positions {next} to {last}"),
                };
                let time = anabranch_core::time::from_micros(*recorded_us);
                write!(
                    f,
                    "the log has no events at {missing} any more, so a replay of `{consumer}` can \
                     begin with position {first}, recorded at {time}"
                )?;
            }
            None => write!(
                f,
                "the log has no events after position {after} any more, so there is nothing to replay \
                 for `{consumer}`"
            )?,
        }
        f.write_str(
            "; what it made of deleted events cannot be made again: a `reset` hook that empties its \
             tables loses it, one that removes nothing keeps it. `--from-first-kept` \
             (ReplayFrom::FirstKept) tells the hook of a projection to undo only what comes again; \
             views and rollups are folded from the first event on",
        )
    }
}

impl Consumers {
    /// Asks for a replay: the next worker that runs the consumer calls its `reset` hook and puts its
    /// cursors back, in one transaction. Returns the position after which it begins.
    ///
    /// If the log no longer has the event with which it would begin, this is refused with
    /// [`ReplayError::Missing`], which says from where it can. Choose [`ReplayFrom::FirstKept`] then, or
    /// [`replay_what_is_left`](Self::replay_what_is_left).
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch_runtime::{Consumers, ReplayError, ReplayFrom};
    /// let consumers = Consumers::new(&log);
    /// match consumers.replay("order_summary", ReplayFrom::Start).await {
    ///     Err(ReplayError::Missing(missing)) => println!("it would lose something: {missing}"),
    ///     asked => println!("begins again after position {}", asked?),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn replay(&self, name: &str, from: ReplayFrom) -> Result<Position, ReplayError> {
        self.ask_replay(name, from, false, Vec::new()).await
    }

    /// [`replay`](Self::replay) of a webhook under new ids: its receiver takes what comes again for new.
    #[doc(hidden)]
    pub async fn replay_under_new_ids(
        &self,
        name: &str,
        from: ReplayFrom,
        accepts_missing: bool,
    ) -> Result<Position, ReplayError> {
        let edition = vec![self.tables.next_edition(name)];
        self.ask_replay(name, from, accepts_missing, edition).await
    }

    /// [`replay`](Self::replay), though the log may have lost the events with which it would begin: what
    /// the consumer made of those cannot be made again.
    pub async fn replay_what_is_left(
        &self,
        name: &str,
        from: ReplayFrom,
    ) -> Result<Position, ReplayError> {
        self.ask_replay(name, from, true, Vec::new()).await
    }

    async fn ask_replay(
        &self,
        name: &str,
        from: ReplayFrom,
        accepts_missing: bool,
        with: Vec<Statement>,
    ) -> Result<Position, ReplayError> {
        let to = self.replay_position(name, from, accepts_missing).await?;
        let log = self.log.identity().await?;
        let mut statements = vec![self.tables.ask_reset(name, to, log)];
        statements.extend(with);
        self.on_existing(name, statements).await?;
        Ok(to)
    }

    /// The position after which a replay would begin; refused as the replay would be. Nothing is changed.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::ReplayError> {
    /// use anabranch_runtime::{Consumers, ReplayFrom};
    /// let consumers = Consumers::new(&log);
    /// let to = consumers.replay_position("order_summary", ReplayFrom::Last(100), false).await?;
    /// println!("it would begin again after position {to}");
    /// # Ok(()) }
    /// ```
    pub async fn replay_position(
        &self,
        name: &str,
        from: ReplayFrom,
        accepts_missing: bool,
    ) -> Result<Position, ReplayError> {
        self.must_follow_log(name).await?;
        let cursors = self.tables.cursors(name).await?;
        let standing = || cursors.iter().map(|cursor| cursor.position);
        let (lowest, furthest) = (standing().min(), standing().max().unwrap_or_default());
        // After the cursors: whatever is drawn meanwhile lies beyond them.
        let drawn = self.log.store().drawn().await?;
        let to = match from {
            ReplayFrom::Start => Position::START,
            ReplayFrom::FirstKept => self.before_first().await?.unwrap_or(drawn),
            ReplayFrom::After(position) => position,
            ReplayFrom::Time(micros) => self.before(micros).await?,
            ReplayFrom::Last(events) => {
                self.before_last(name, events, lowest.unwrap_or_default()).await?
            }
        };
        // What was not handled yet comes anyway.
        let to = match (from, lowest) {
            (ReplayFrom::FirstKept, Some(lowest)) => to.min(lowest),
            _ => to,
        };
        if let Some(stands) = lowest.filter(|stands| to > *stands) {
            return Err(self.not_possible(name, Obstacle::Forwards { stands, to }).into());
        }
        if to > drawn {
            return Err(self.not_possible(name, Obstacle::ReplayBeyondLog { to, drawn }).into());
        }
        let registered = self.tables.registered(Some(name)).await?;
        if to > Position::START && registered.iter().any(|known| is_folded(&known.kind)) {
            return Err(self.not_possible(name, Obstacle::Folded).into());
        }
        if !accepts_missing && from != ReplayFrom::FirstKept {
            self.must_have(name, to, furthest).await?;
        }
        Ok(to)
    }

    /// The position before the last events of a consumer up to a position; the start if there are not as many.
    async fn before_last(
        &self,
        name: &str,
        events: u64,
        up_to: Position,
    ) -> Result<Position, ReplayError> {
        if events > MOST_LAST {
            let problem = InputProblem::TooMany {
                count: usize::try_from(events).unwrap_or(usize::MAX),
                limit: MOST_LAST as usize,
                remedy: "name a position or a time instead",
            };
            return Err(
                OperateError::from(InputError::new("number of last events", problem)).into()
            );
        }
        let stored = self.tables.identity(name).await?;
        // One that a program of the last version made has not stored it.
        let scope = stored.and_then(|stored| stored.scope);
        let scope = scope.and_then(|text| serde_json::from_str::<Scope>(&text).ok());
        let scope = scope.unwrap_or_default();
        if events == 0 {
            return Ok(up_to);
        }
        let behind = Position::new(up_to.get().saturating_add(1));
        let mut found = self.log.read(scope.query().clone()).before(behind).events();
        let mut left = events;
        while let Some(event) = found.next().await {
            let event = event?;
            if scope.matches(&event) {
                left -= 1;
                if left == 0 {
                    return Ok(Position::new(event.position().get() - 1));
                }
            }
        }
        Ok(Position::START)
    }

    /// Refuses a replay if the event with which it would begin is not there, though the consumer has come
    /// further. A place where nothing was ever stored, because an append was rolled back, looks the same.
    async fn must_have(
        &self,
        name: &str,
        to: Position,
        furthest: Position,
    ) -> Result<(), ReplayError> {
        let first = self.first_after(to).await?;
        let is_next = first.as_ref().is_some_and(|event| event.position().get() == to.get() + 1);
        if is_next || furthest <= to {
            return Ok(());
        }
        let first_kept = first.map(|event| (event.position(), event.recorded_us()));
        Err(ReplayError::Missing(MissingEvents {
            consumer: name.to_owned(),
            after: to,
            first_kept,
        }))
    }

    /// The position before the first event that the log still has, if it has one.
    async fn before_first(&self) -> Result<Option<Position>, StoreError> {
        let first = self.first_after(Position::START).await?;
        Ok(first.map(|event| Position::new(event.position().get() - 1)))
    }

    pub(crate) async fn first_after(
        &self,
        position: Position,
    ) -> Result<Option<Event>, StoreError> {
        let read = self.log.read(Query::all()).after(position).limit(1);
        Ok(read.collect().await?.pop())
    }

    /// The position before the first event of a time. Times do not order events, positions do, so
    /// this is found by halving and is as exact as the clocks that made them.
    async fn before(&self, micros: i64) -> Result<Position, StoreError> {
        let (mut low, mut high) = (0, self.log.head().await?.get());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.first_after(Position::new(middle)).await? {
                Some(event) if event.recorded_us() < micros => low = event.position().get(),
                _ => high = middle,
            }
        }
        Ok(Position::new(low))
    }
}
