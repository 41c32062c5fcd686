//! A scope that is no longer the stored one: what that leaves out, and saying that it is meant.

use crate::consumers::Consumers;
use crate::operate_error::{Obstacle, OperateError};
use crate::scope::Scope;
use crate::tables::Tables;
use anabranch_core::{Cursor, Position, StoreError};
use anabranch_store::Log;
use anabranch_store::database::{End, Statement, Topic};
use std::fmt;
use std::time::{Duration, Instant};

/// How many events are counted, and for how long: the start of a program waits for it.
const MAX_COUNTED: u64 = 100_000;
const MAX_COUNTING: Duration = Duration::from_secs(5);

/// A program asks for another scope than the one that its consumer was run with.
///
/// Nothing is handled twice by it. What is left out are events that the consumer has passed and that
/// match only the new scope; see [`Consumers::accept_scope`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScopeChange {
    /// Which consumer.
    pub consumer: String,
    /// Which events it has handled so far.
    pub stored: Scope,
    /// Which ones a program asks for.
    pub wanted: Scope,
    /// All its events up to here are done.
    pub position: Position,
    /// None of its slots is further than this.
    pub furthest: Position,
    /// How many events up to there match only the new scope: those that it has passed would never be
    /// handled.
    pub left_out: u64,
    /// How many events up to there match only the old scope: they were handled, and their like will not
    /// be any more.
    pub no_longer: u64,
    /// Whether these are all of them, or as many as could be counted in a few seconds.
    pub is_counted: bool,
    /// The first of them.
    pub first: Option<Position>,
}

impl ScopeChange {
    pub(crate) async fn of(
        log: &Log,
        tables: &Tables,
        consumer: &str,
        (stored, wanted): (&str, &Scope),
        cursors: &[Cursor],
    ) -> Result<Self, StoreError> {
        let stored = scope_of(tables, stored)?;
        let positions = || cursors.iter().map(|cursor| cursor.position);
        let mut change = Self {
            consumer: consumer.to_owned(),
            stored,
            wanted: wanted.clone(),
            position: positions().min().unwrap_or_default(),
            furthest: positions().max().unwrap_or_default(),
            left_out: 0,
            no_longer: 0,
            is_counted: true,
            first: None,
        };
        let (wanted, stored) = (change.wanted.clone(), change.stored.clone());
        let (left_out, first) = change.count(log, &wanted, &stored).await?;
        let (no_longer, _) = change.count(log, &stored, &wanted).await?;
        (change.left_out, change.first, change.no_longer) = (left_out, first, no_longer);
        Ok(change)
    }

    /// How many events match one scope and not the other, and the first of them.
    async fn count(
        &mut self,
        log: &Log,
        one: &Scope,
        other: &Scope,
    ) -> Result<(u64, Option<Position>), StoreError> {
        let (began, mut count, mut first) = (Instant::now(), 0, None);
        let mut events = log.read(one.query().clone()).after(Position::START).events();
        while let Some(event) = events.next().await {
            let event = event?;
            if event.position() > self.furthest {
                break;
            }
            if one.matches(&event) && !other.matches(&event) {
                count += 1;
                first.get_or_insert(event.position());
            }
            if count >= MAX_COUNTED || began.elapsed() > MAX_COUNTING {
                self.is_counted = false;
                break;
            }
        }
        Ok((count, first))
    }
}

fn scope_of(tables: &Tables, text: &str) -> Result<Scope, StoreError> {
    let unknown = |error| tables.corrupt(format!("a scope that is not known here ({error})"));
    serde_json::from_str(text).map_err(unknown)
}

impl fmt::Display for ScopeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stored, wanted, position, furthest, left_out, is_counted, first, no_longer, ..
        } = self;
        write!(
            f,
            "its scope was ({stored}) and now is ({wanted}); it stands at position {position}"
        )?;
        if furthest > position {
            write!(f, ", some of its slots at up to {furthest}")?;
        }
        let at_least = if *is_counted { "" } else { "at least " };
        let events = |count: u64| if count == 1 { "event" } else { "events" };
        match first {
            Some(first) => write!(
                f,
                ": {at_least}{left_out} {} up to there match only now, and those that it has \
                 passed would be left out for ever (the first at position {first})",
                events(*left_out)
            )?,
            None => {
                write!(f, ": no event {}is left out", if *is_counted { "" } else { "so far " })?
            }
        }
        f.write_str(", none is repeated")?;
        if *no_longer == 0 && *is_counted {
            return Ok(());
        }
        write!(
            f,
            "; {at_least}{no_longer} {} that match no more were in its scope; what it made of them stays, and their \
             like are ignored from now on",
            events(*no_longer)
        )
    }
}

impl Consumers {
    /// The scope that a program has asked for, where it differs from the stored one and nobody has
    /// accepted it yet.
    pub async fn scope_change(&self, name: &str) -> Result<Option<ScopeChange>, OperateError> {
        self.tables.database.require_newest_schema()?;
        self.must_follow_log(name).await?;
        let Some(stored) = self.tables.identity(name).await? else {
            return Err(self.unknown(name).await);
        };
        let (Some(old), Some(wanted)) = (stored.scope, stored.wanted_scope) else {
            return Ok(None);
        };
        let cursors = self.tables.cursors(name).await?;
        let wanted = scope_of(&self.tables, &wanted)?;
        let scopes = (old.as_str(), &wanted);
        Ok(Some(ScopeChange::of(&self.log, &self.tables, name, scopes, &cursors).await?))
    }

    /// Says that the change of a scope is meant: the consumer goes on from where it is with the new
    /// one, and programs with the old one are refused. Its workers with the old scope stop. Workers of
    /// the last version know nothing of scopes that change, so as long as one lives this is refused.
    ///
    /// To handle what that leaves out, [replay](Self::replay) or [rebuild](crate::Rebuild) it.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
    /// use anabranch_runtime::Consumers;
    /// let consumers = Consumers::new(&log);
    /// if let Some(change) = consumers.scope_change("order_summary").await? {
    ///     println!("{change}");
    ///     consumers.accept_scope(&change).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// Returns the change as it came to be: while workers with the old scope go on, more events are
    /// left out than were counted when it was shown.
    pub async fn accept_scope(&self, change: &ScopeChange) -> Result<ScopeChange, OperateError> {
        let name = &change.consumer;
        let old = self.tables.old_workers().await?;
        if !old.is_empty() {
            return Err(self.not_possible(name, Obstacle::OldWorkers { workers: old }));
        }
        let mut session = self.tables.database.control();
        // From here on nobody moves a cursor, so that what is passed is known.
        let locked = self.tables.lock(session.as_mut(), name).await?;
        let mut statements = vec![self.tables.accept_scope(name, &change.wanted)];
        if self.tables.is_audited_in(session.as_mut(), name).await? {
            // What was recorded was handled by the old scope, and is compared by the stored one.
            let cursors = &locked.cursors;
            statements.extend(self.tables.begin_record(session.as_mut(), name, cursors).await?);
        }
        statements.extend(self.tables.fence_all(name));
        statements.push(Statement::signal(Topic::Workers));
        match session.run(statements, End::Commit).await {
            Ok(_) => {
                let scopes = (change.stored.text(), &change.wanted);
                let scopes = (scopes.0.as_str(), scopes.1);
                Ok(ScopeChange::of(&self.log, &self.tables, name, scopes, &locked.cursors).await?)
            }
            Err(failed) if failed.is_unmatched() => {
                let wanted = Box::new(change.wanted.clone());
                Err(self.not_possible(name, Obstacle::ScopeChanged { wanted }))
            }
            Err(failed) => Err(self.tables.error(failed).into()),
        }
    }
}
