//! A scope that is no longer the stored one: what that leaves out, and saying that it is meant.

use crate::consumers::Consumers;
use crate::scope::Scope;
use anabranch_core::{Position, StoreError};
use anabranch_store::Log;
use anabranch_store::database::{End, Statement, Topic};
use std::fmt;
use std::time::{Duration, Instant};

/// How many events are counted, and for how long: whoever starts a program waits for it.
const MAX_COUNTED: u64 = 100_000;
const MAX_COUNTING: Duration = Duration::from_secs(5);

/// A program asks for another scope than the one that its consumer was run with.
///
/// Nothing is handled twice by it. What is left out are events that the consumer has passed and that
/// match only the new scope; see [`Consumers::accept_scope`].
#[derive(Clone, Debug)]
pub struct ScopeChange {
    /// Which consumer.
    pub consumer: String,
    /// Which events it has handled so far.
    pub stored: Scope,
    /// Which ones a program asks for.
    pub wanted: Scope,
    /// How far the consumer is.
    pub position: Position,
    /// How many events up to there match only the new scope: they would never be handled.
    pub left_out: u64,
    /// Whether that is all of them, or as many as could be counted in a few seconds.
    pub is_counted: bool,
    /// The first of them.
    pub first: Option<Position>,
}

impl ScopeChange {
    pub(crate) async fn of(
        log: &Log,
        consumer: &str,
        (stored, wanted): (&Scope, &Scope),
        position: Position,
    ) -> Result<Self, StoreError> {
        let mut change = Self {
            consumer: consumer.to_owned(),
            stored: stored.clone(),
            wanted: wanted.clone(),
            position,
            left_out: 0,
            is_counted: false,
            first: None,
        };
        let began = Instant::now();
        let mut events = log.read(wanted.query().clone()).after(Position::START).events();
        while let Some(event) = events.next().await {
            let event = event?;
            if event.position() > position {
                change.is_counted = true;
                return Ok(change);
            }
            if wanted.matches(&event) && !stored.matches(&event) {
                change.left_out += 1;
                change.first.get_or_insert(event.position());
            }
            if change.left_out >= MAX_COUNTED || began.elapsed() > MAX_COUNTING {
                return Ok(change);
            }
        }
        change.is_counted = true;
        Ok(change)
    }
}

impl fmt::Display for ScopeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stored, wanted, position, left_out, is_counted, first, .. } = self;
        write!(
            f,
            "its scope was ({stored}) and now is ({wanted}); it stands at position {position}: "
        )?;
        let at_least = if *is_counted { "" } else { "at least " };
        match first {
            Some(first) => write!(
                f,
                "{at_least}{left_out} events up to there match only now and would be left out for \
                 ever (the first at position {first})"
            )?,
            None => write!(f, "no event {}is left out", if *is_counted { "" } else { "so far " })?,
        }
        f.write_str(
            ", none would be repeated, and what it made of events that no longer match stays",
        )
    }
}

impl Consumers {
    /// The scope that a program has asked for, where it differs from the stored one and nobody has
    /// accepted it yet.
    pub async fn scope_change(&self, name: &str) -> Result<Option<ScopeChange>, StoreError> {
        self.tables.database.require_newest_schema()?;
        let stored = self.tables.identity(name).await?.ok_or_else(|| self.unknown(name))?;
        let (Some(old), Some(wanted)) = (stored.scope, stored.wanted_scope) else {
            return Ok(None);
        };
        let cursors = self.tables.cursors(name).await?;
        let position = cursors.iter().map(|cursor| cursor.position).max().unwrap_or_default();
        ScopeChange::of(&self.log, name, (&old, &wanted), position).await.map(Some)
    }

    /// Says that the change of a scope is meant: the consumer goes on from where it is with the new
    /// one, and programs with the old one are refused. Its workers with the old scope stop.
    ///
    /// To handle what that leaves out, [replay](Self::replay) or [rebuild](crate::Rebuild) it.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_core::StoreError> {
    /// use anabranch_runtime::Consumers;
    /// let consumers = Consumers::of(&log);
    /// if let Some(change) = consumers.scope_change("order_summary").await? {
    ///     println!("{change}");
    ///     consumers.accept_scope(&change).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn accept_scope(&self, change: &ScopeChange) -> Result<(), StoreError> {
        let name = &change.consumer;
        let mut session = self.tables.database.control();
        self.tables.lock_consumer(session.as_mut(), name).await?;
        let mut statements = vec![self.tables.accept_scope(name, &change.wanted)];
        statements.extend(self.tables.fence_all(name));
        statements.push(Statement::signal(Topic::Workers));
        match session.run(statements, End::Commit).await {
            Ok(_) => Ok(()),
            Err(failed) if failed.is_unmatched() => {
                let source = format!(
                    "the scope that a program asks for `{name}` is no longer ({}); look again",
                    change.wanted
                );
                Err(StoreError::Other { at: self.log.at().to_owned(), source: source.into() })
            }
            Err(failed) => Err(self.tables.error(failed)),
        }
    }
}
