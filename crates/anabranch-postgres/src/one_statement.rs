//! Appending in one statement, if the server admits it.
//!
//! Most appends can be accepted: nobody else appends to their stream at this moment, it stands where they
//! expect, and nothing breaks their condition. So the batch is decided on the guess that it is so, and sent with
//! what the guess rests on. The server takes the locks and the mark, looks whether the guess is true, and
//! writes the rows, all in one statement (`0009_admission.sql`). If it is not true, or a lock is held, nothing
//! is written, and the batch goes the ordinary way, which also finds out what to answer.

use crate::append::{Appending, Session, Value};
use crate::insert::{ADMISSION_VALUES, Insert};
use crate::keys;
use anabranch_core::decide::{Decision, Known, decide};
use anabranch_core::{Append, AppendError, Appended, Expected, Position, StreamId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// Beyond this, counting on could overflow.
const MAX_VERSION: u64 = i64::MAX as u64 / 2;

/// What the server says of a function that is not there, or that one may not call.
const GONE: [SqlState; 2] = [SqlState::UNDEFINED_FUNCTION, SqlState::INSUFFICIENT_PRIVILEGE];

/// What a batch takes for granted.
#[derive(Debug, Default, PartialEq)]
struct Guess<'a> {
    streams: Vec<&'a StreamId>,
    /// Where each of them stands; `None` if that does not matter.
    versions: Vec<Option<u64>>,
    numbers: HashMap<&'a StreamId, usize>,
    /// The ids that callers chose, none of which is in the log.
    ids: Vec<Uuid>,
    /// Tags, and the position after which no event has one.
    tags: Vec<&'a str>,
    afters: Vec<i64>,
}

impl<'a> Guess<'a> {
    /// `None` if the batch cannot be accepted by what one statement looks at.
    fn of(batch: &[&'a Append]) -> Option<Self> {
        let mut guess = Self::default();
        for append in batch {
            for part in append.parts() {
                guess.stands(&part.stream, part.expected)?;
                let ids = part.events.iter().filter(|event| event.id_is_callers());
                guess.ids.extend(ids.map(|event| event.id()));
            }
            guess.ids.extend(append.next_id());
            let Some(condition) = append.condition() else { continue };
            if condition.query.is_all() {
                return None;
            }
            for item in condition.query.items() {
                // An event that matches has every tag of the item, so where none has the first one, none matches.
                guess.tags.push(item.leading_tag()?);
                guess.afters.push(condition.after.as_i64());
            }
        }
        Some(guess)
    }

    fn stands(&mut self, stream: &'a StreamId, expected: Expected) -> Option<()> {
        let version = match expected {
            // A version that no stream has; the ordinary way says so.
            Expected::Exact(version) if version > MAX_VERSION => return None,
            Expected::Exact(version) => Some(version),
            Expected::NoStream => Some(0),
            Expected::Any => None,
        };
        match self.numbers.get(stream) {
            None => {
                self.numbers.insert(stream, self.streams.len());
                self.streams.push(stream);
                self.versions.push(version);
            }
            // Whether that will hold after the appends before it depends on where the stream stands.
            Some(number) if self.versions[*number].is_none() && version.is_some() => return None,
            Some(_) => {}
        }
        Some(())
    }

    fn known(&self) -> Known<'a> {
        let versions = self.versions.iter().map(|version| version.unwrap_or(0));
        let versions = self.streams.iter().copied().zip(versions).collect();
        Known { versions, ..Known::default() }
    }

    /// Where the stream of a row was taken to stand, and its number.
    fn stream(&self, stream: &StreamId) -> (u64, usize) {
        let number = self.numbers[stream];
        (self.versions[number].unwrap_or(0), number)
    }
}

/// How often it went well of late. A refusal costs more credit than a success brings, and each batch that does without
/// brings a little: so where many processes append to the same streams and scopes, it is seldom tried.
#[derive(Debug)]
pub(crate) struct Credit(AtomicI32);

const MAX_CREDIT: i32 = 16;
const PRICE_OF_REFUSAL: i32 = 4;

impl Default for Credit {
    fn default() -> Self {
        Self(AtomicI32::new(MAX_CREDIT))
    }
}

impl Credit {
    fn is_worth_a_try(&self) -> bool {
        let is_worth = self.0.load(Ordering::Relaxed) > 0;
        if !is_worth {
            self.add(1);
        }
        is_worth
    }

    fn turned_out(&self, well: bool) {
        self.add(if well { 1 } else { -PRICE_OF_REFUSAL });
    }

    fn add(&self, change: i32) {
        let add = |credit: i32| Some((credit + change).min(MAX_CREDIT));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl Appending {
    /// Stores a batch in one statement; `None` if that cannot be, and nothing was written.
    pub(crate) async fn append_at_once(
        &self,
        session: Session<'_>,
        batch: &[&Append],
    ) -> Result<Option<Vec<Result<Appended, AppendError>>>, Error> {
        let Some(guess) = Guess::of(batch) else { return Ok(None) };
        let mut decision = decide(batch, &guess.known());
        if decision.rows.is_empty() || !decision.accepts_all() || !self.credit.is_worth_a_try() {
            return Ok(None);
        }
        let written = self.write_if_admitted(session, batch, &guess, &mut decision).await;
        let positions = match written {
            // Somebody has dropped the function, or it may not be called any more. If it is a table that may not be
            // written, the ordinary way says so.
            Err(error) if error.code().is_some_and(|code| GONE.contains(code)) => {
                self.at_once.store(false, Ordering::Relaxed);
                return Ok(None);
            }
            written => written?,
        };
        self.credit.turned_out(!positions.is_empty());
        Ok((!positions.is_empty()).then(|| decision.settle(&positions)))
    }

    /// Writes the rows if all locks are free and the guess is true; no positions if not. The rows get the
    /// versions at which they stand.
    async fn write_if_admitted(
        &self,
        session: Session<'_>,
        batch: &[&Append],
        guess: &Guess<'_>,
        decision: &mut Decision<'_>,
    ) -> Result<Vec<Position>, Error> {
        let (lock_keys, alone) = keys::of_batch(batch);
        let categories: Vec<&str> = guess.streams.iter().map(|stream| stream.category()).collect();
        let stream_ids: Vec<&str> = guess.streams.iter().map(|stream| stream.id()).collect();
        let version = |version: &Option<u64>| version.map(|version| version as i64);
        let mut versions: Vec<Option<i64>> = guess.versions.iter().map(version).collect();
        if versions.iter().all(Option::is_none) {
            versions.clear();
        }
        let admission: [Value<'_>; ADMISSION_VALUES] = [
            (&self.classes.keys, Type::INT4),
            (&lock_keys, Type::INT4_ARRAY),
            (&alone, Type::BOOL_ARRAY),
            (&self.classes.marks, Type::INT4),
            (&categories, Type::TEXT_ARRAY),
            (&stream_ids, Type::TEXT_ARRAY),
            (&versions, Type::INT8_ARRAY),
            (&guess.ids, Type::UUID_ARRAY),
            (&guess.tags, Type::TEXT_ARRAY),
            (&guess.afters, Type::INT8_ARRAY),
        ];
        let insert = Insert::relative(&decision.rows, self.rule, self.sql.keeps_traces, |row| {
            guess.stream(row.stream)
        });
        let sql = insert.admitted_sql(&self.sql, &self.inserts);
        let statement = session.kept(&sql).await?;
        let mut values = Vec::from(admission);
        values.extend(insert.values());
        let rows = session.query(&statement, &values).await?;
        let mut positions = Vec::with_capacity(rows.len());
        for (row, stored) in decision.rows.iter_mut().zip(&rows) {
            positions.push(Position::from_i64(stored.get(0)));
            row.version = stored.get::<_, i64>(1).unsigned_abs();
        }
        Ok(positions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::{NewEvent, Query};

    fn append(id: &str, expected: Expected) -> Append {
        let stream = StreamId::new("S", id).unwrap();
        Append::new().to(&stream, expected, [NewEvent::new("E", ())])
    }

    fn versions(batch: &[&Append]) -> Option<Vec<Option<u64>>> {
        Some(Guess::of(batch)?.versions)
    }

    #[test]
    fn a_stream_stands_where_its_first_append_expects_it() {
        let (new, any) = (append("1", Expected::NoStream), append("1", Expected::Any));
        let (first, huge) =
            (append("1", Expected::Exact(1)), append("2", Expected::Exact(u64::MAX)));
        assert_eq!(versions(&[&new]), Some(vec![Some(0)]));
        assert_eq!(versions(&[&first, &any]), Some(vec![Some(1)]));
        assert_eq!(versions(&[&any, &any, &append("2", Expected::Any)]), Some(vec![None, None]));
        assert_eq!(versions(&[&huge]), None);
    }

    /// It would hold in a stream that stood at 0, and that is not known.
    #[test]
    fn an_expectation_after_an_append_anywhere_is_not_guessed() {
        let (any, first) = (append("1", Expected::Any), append("1", Expected::Exact(1)));
        assert_eq!(versions(&[&any, &first]), None);
        assert_eq!(versions(&[&any, &append("1", Expected::NoStream)]), None);
    }

    #[test]
    fn after_refusals_it_is_seldom_tried() {
        let credit = Credit::default();
        (0..4).for_each(|_| credit.turned_out(false));
        assert!(!credit.is_worth_a_try());
        assert!(credit.is_worth_a_try(), "once in a while");
        credit.turned_out(false);
        assert_eq!((0..4).filter(|_| credit.is_worth_a_try()).count(), 0);
        assert!(credit.is_worth_a_try());
        (0..100).for_each(|_| credit.turned_out(true));
        credit.turned_out(false);
        assert!(credit.is_worth_a_try());
    }

    #[test]
    fn a_condition_is_guessed_by_a_tag_of_each_item() {
        let unless = |query| append("1", Expected::Any).unless(query, Position::new(7));
        let guessed = |query| {
            let append = unless(query);
            let guess = Guess::of(&[&append])?;
            Some((guess.tags.join(","), guess.afters))
        };
        let both = Query::types(["A"]).tagged(["x", "y"]).or(Query::tags(["z"]));
        assert_eq!(guessed(both), Some(("x,z".to_owned(), vec![7, 7])));
        for query in [Query::all(), Query::types(["A"]), Query::tags(["x"]).or(Query::types(["A"]))]
        {
            assert_eq!(guessed(query), None);
        }
    }
}
