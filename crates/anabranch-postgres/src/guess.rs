//! Appending in one round trip, by a guess that the server checks.
//!
//! An append usually says where its stream stands (`Exact`, `NoStream`), or this process has appended
//! to it before. Then the decision need not wait for a look: it is made on the guess, and the
//! transaction goes out whole: begin, locks, a check that the guess is true, rows, commit. If a lock
//! is held or the guess is wrong, the check fails, the rows are never written, and the batch goes the
//! ordinary way, which also finds out what to answer.

use crate::append::{Appending, Session, Value};
use crate::insert::Insert;
use crate::keys;
use anabranch_core::decide::{Decision, Known, decide};
use anabranch_core::{Append, AppendError, Appended, Expected, Position, StreamId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

/// Beyond this, counting on could overflow.
const MAX_VERSION: u64 = i64::MAX as u64 / 2;
/// How many streams are remembered; then it begins anew.
const MAX_STREAMS: usize = 20_000;
/// Guessing goes on while there is credit. A wrong guess costs more of it than a right one brings,
/// so where other processes append to the same streams, guesses become rare.
const MAX_CREDIT: i32 = 16;
const PRICE_OF_WRONG: i32 = 8;

/// What this process knows of streams, without asking.
#[derive(Debug)]
pub(crate) struct Guesses {
    versions: Mutex<HashMap<StreamId, u64>>,
    credit: AtomicI32,
}

impl Default for Guesses {
    fn default() -> Self {
        Self { versions: Mutex::default(), credit: AtomicI32::new(1) }
    }
}

impl Guesses {
    fn versions(&self) -> MutexGuard<'_, HashMap<StreamId, u64>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the streams of a batch stand, as far as one can tell.
    fn guess<'a>(&self, batch: &[&'a Append]) -> Option<HashMap<&'a StreamId, u64>> {
        if self.credit.load(Ordering::Relaxed) <= 0 {
            return None;
        }
        let remembered = self.versions();
        let mut guess = HashMap::new();
        for part in batch.iter().flat_map(|append| append.parts()) {
            if guess.contains_key(&part.stream) {
                continue;
            }
            let version = match part.expected {
                // A version that no stream has; the ordinary way says so.
                Expected::Exact(version) if version > MAX_VERSION => return None,
                Expected::Exact(version) => version,
                Expected::NoStream => 0,
                Expected::Any => *remembered.get(&part.stream)?,
            };
            guess.insert(&part.stream, version);
        }
        Some(guess)
    }

    /// Remembers what was written.
    pub(crate) fn learn(&self, decision: &Decision<'_>) {
        let mut remembered = self.versions();
        if remembered.len() > MAX_STREAMS {
            remembered.clear();
        }
        for row in &decision.rows {
            match remembered.get_mut(row.stream) {
                Some(version) => *version = row.version,
                None => drop(remembered.insert(row.stream.clone(), row.version)),
            }
        }
        let up = |credit: i32| Some((credit + 1).min(MAX_CREDIT));
        let _ = self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, up);
    }

    fn was_wrong(&self) {
        self.credit.fetch_sub(PRICE_OF_WRONG, Ordering::Relaxed);
    }
}

impl Appending {
    /// Stores a batch in one round trip; `None` if that cannot be, and nothing was written.
    pub(crate) async fn append_by_guess(
        &self,
        session: Session<'_>,
        batch: &[&Append],
    ) -> Result<Option<Vec<Result<Appended, AppendError>>>, Error> {
        let needs_a_look = |append: &&Append| {
            append.condition().is_some() || append.events().any(|(_, event)| event.id_is_callers())
        };
        if batch.iter().any(needs_a_look) {
            return Ok(None);
        }
        let Some(versions) = self.guesses.guess(batch) else {
            return Ok(None);
        };
        let known = Known { versions, ..Known::default() };
        let decision = decide(batch, &known);
        if !decision.accepts_all() {
            return Ok(None);
        }
        match self.write_if(session, batch, &known, &decision).await {
            Ok(positions) => {
                self.guesses.learn(&decision);
                Ok(Some(decision.settle(&positions)))
            }
            Err(error) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
                self.guesses.was_wrong();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the rows if all locks are free and the guess is true.
    async fn write_if(
        &self,
        session: Session<'_>,
        batch: &[&Append],
        known: &Known<'_>,
        decision: &Decision<'_>,
    ) -> Result<Vec<Position>, Error> {
        let (lock_keys, alone) = keys::of_batch(batch);
        let lock_values: [Value<'_>; 4] = [
            (&self.classes.keys, Type::INT4),
            (&lock_keys, Type::INT4_ARRAY),
            (&alone, Type::BOOL_ARRAY),
            (&self.classes.marks, Type::INT4),
        ];
        let streams: Vec<(&&StreamId, &u64)> = known.versions.iter().collect();
        let categories: Vec<&str> = streams.iter().map(|(stream, _)| stream.category()).collect();
        let stream_ids: Vec<&str> = streams.iter().map(|(stream, _)| stream.id()).collect();
        let versions: Vec<i64> = streams.iter().map(|(_, version)| **version as i64).collect();
        let version_values: [Value<'_>; 3] = [
            (&categories, Type::TEXT_ARRAY),
            (&stream_ids, Type::TEXT_ARRAY),
            (&versions, Type::INT8_ARRAY),
        ];
        let rows = Insert::of(&decision.rows, self.rule);
        let row_values = rows.values();

        let lock = session.ready(&self.sql.lock_or_fail).await?;
        let check = session.ready(&self.sql.versions_or_fail).await?;
        let insert = rows.sql(&self.sql.events, &self.sql.tags);
        let insert = session.ready(&insert).await?;
        // Polled in this order, so sent in this order. After a failure the server skips the rest,
        // and answers the COMMIT with a rollback. All are waited for, and the first failure in their
        // order is told: that of a statement that was skipped may be heard first and says nothing.
        let (begun, locked, checked, rows, ended) = tokio::join!(
            biased;
            session.begin(),
            session.query(&lock, &lock_values),
            session.query(&check, &version_values),
            session.query(&insert, &row_values),
            session.end("COMMIT"),
        );
        begun?;
        locked?;
        checked?;
        let rows = rows?;
        ended?;
        Ok(rows.iter().map(|row| Position::from_i64(row.get(0))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::NewEvent;
    use anabranch_core::decide::Row;

    fn append(id: &str, expected: Expected) -> Append {
        let stream = StreamId::new("S", id).unwrap();
        Append::new().to(&stream, expected, [NewEvent::new("E", ())])
    }

    fn guess(guesses: &Guesses, append: &Append) -> Option<u64> {
        guesses.guess(&[append])?.into_values().next()
    }

    #[test]
    fn an_expectation_is_a_guess_and_so_is_what_was_written_before() {
        let guesses = Guesses::default();
        assert_eq!(guess(&guesses, &append("1", Expected::NoStream)), Some(0));
        assert_eq!(guess(&guesses, &append("1", Expected::Exact(7))), Some(7));
        assert_eq!(guess(&guesses, &append("1", Expected::Exact(u64::MAX))), None);
        let any = append("1", Expected::Any);
        assert_eq!(guess(&guesses, &any), None);
        let known =
            Known { versions: HashMap::from([(&any.parts()[0].stream, 4)]), ..Known::default() };
        let decision = decide(&[&any], &known);
        assert!(matches!(decision.rows[..], [Row { version: 5, .. }]));
        guesses.learn(&decision);
        assert_eq!(guess(&guesses, &any), Some(5));
    }

    #[test]
    fn wrong_guesses_make_guesses_rare() {
        let guesses = Guesses::default();
        let new = append("1", Expected::NoStream);
        let decision = decide(&[&new], &Known::default());
        (0..100).for_each(|_| guesses.learn(&decision));
        guesses.was_wrong();
        assert!(guess(&guesses, &new).is_some());
        guesses.was_wrong();
        assert!(guess(&guesses, &new).is_none());
        guesses.learn(&decision);
        assert!(guess(&guesses, &new).is_some());
    }
}
