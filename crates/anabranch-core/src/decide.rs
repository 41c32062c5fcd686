//! Which appends of a batch are accepted: one pure rule for every backend.
//!
//! A backend locks what the batch touches, reads what it needs to [`Known`], calls [`decide`] (again,
//! if [`Decision::doubtful`] asks for more), writes the rows that it is told to, and answers with
//! [`Decision::settle`]. The appends are
//! decided in order, each on top of those accepted before it, so a batch means exactly what the same
//! appends one after the other would mean, and one that is refused leaves no trace.

use crate::error::{InputError, InputProblem};
use crate::event::{Body, Difference};
use crate::{Append, AppendError, Appended, Event, NewEvent, Position, Recorded, StreamId};
use std::collections::HashMap;
use uuid::Uuid;

/// What a backend read, under its locks, before it asks for a decision.
#[derive(Debug, Default)]
pub struct Known<'a> {
    /// The versions of the batch's streams. A stream that is missing has no events.
    pub versions: HashMap<&'a StreamId, u64>,
    /// The stored events with ids of the batch. Ids that the caller did not choose need not be
    /// looked up at first, since the log's unique index refuses a double.
    pub ids: HashMap<Uuid, Event>,
    /// For each append of the batch, the first stored event that breaks its condition.
    pub matches: Vec<Option<Position>>,
}

/// Which ids a backend looks up before it asks for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Those that callers chose, and then those that are [doubtful](Decision::doubtful). Any other
    /// fresh id is in the log only if the same `NewEvent` was appended before; then the unique index
    /// says so, and the batch is done again with `All`.
    Callers,
    /// Every id.
    All,
}

impl Ids {
    /// The ids to look up for an append.
    pub fn of(self, append: &Append) -> impl Iterator<Item = Uuid> {
        let wanted = move |event: &&NewEvent| self == Self::All || event.id_is_callers();
        let events = append.events().map(|(_, event)| event).filter(wanted).map(NewEvent::id);
        events.chain(append.next_id())
    }
}

/// A row to write.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The stream.
    pub stream: &'a StreamId,
    /// The version in it.
    pub version: u64,
    /// The event.
    pub event: &'a NewEvent,
}

/// What to write, and what to answer once it is written.
#[derive(Debug)]
#[must_use = "the rows have to be written and the appends answered"]
pub struct Decision<'a> {
    /// The rows to write; their positions must grow in this order.
    pub rows: Vec<Row<'a>>,
    outcomes: Vec<Result<Vec<Place>, AppendError>>,
    doubtful: Vec<Uuid>,
}

/// Where an event of an append is: among the rows to write, or in the log already.
#[derive(Clone, Copy, Debug)]
enum Place {
    Row(usize),
    Stored(Recorded),
}

/// Decides a batch of appends that have passed [`Append::validate`].
pub fn decide<'a>(batch: &[&'a Append], known: &Known<'a>) -> Decision<'a> {
    let mut versions = known.versions.clone();
    let mut rows: Vec<Row<'a>> = Vec::new();
    let mut rows_by_id = HashMap::new();
    let mut outcomes = Vec::new();
    let mut doubtful = Vec::new();
    for (number, append) in batch.iter().enumerate() {
        let stored_match = known.matches.get(number).copied().flatten();
        let before = rows.len();
        let outcome =
            decide_one(append, stored_match, &known.ids, &versions, &mut rows, &mut rows_by_id);
        if let Err(error) = &outcome {
            for row in rows.drain(before..) {
                rows_by_id.remove(&row.event.id());
            }
            if error.is_conflict() {
                doubtful.extend(append.events().map(|(_, event)| event.id()));
            }
        }
        for row in &rows[before..] {
            versions.insert(row.stream, row.version);
        }
        outcomes.push(outcome);
    }
    Decision { rows, outcomes, doubtful }
}

/// Decides one append and adds its rows; the caller takes them back if it is refused.
fn decide_one<'a>(
    append: &'a Append,
    stored_match: Option<Position>,
    stored: &HashMap<Uuid, Event>,
    versions: &HashMap<&'a StreamId, u64>,
    rows: &mut Vec<Row<'a>>,
    rows_by_id: &mut HashMap<Uuid, usize>,
) -> Result<Vec<Place>, AppendError> {
    let before = rows.len();
    let mut places = Vec::with_capacity(append.event_count());
    let mut conflict = None;
    for part in append.parts() {
        let stands_at = |rows: &[Row<'a>]| {
            let mine = rows[before..].iter().rev().find(|row| row.stream == &part.stream);
            let before = || versions.get(&part.stream).copied().unwrap_or(0);
            mine.map_or_else(before, |row| row.version)
        };
        let mut version = stands_at(rows);
        let expected_holds = part.expected.holds_at(version);
        let actual = version;
        for event in &part.events {
            if let Some(place) = find(event, &part.stream, before, stored, rows, rows_by_id)? {
                places.push(place);
                continue;
            }
            if !expected_holds && conflict.is_none() {
                let (stream, expected) = (part.stream.clone(), part.expected);
                conflict = Some(AppendError::Conflict { stream, expected, actual });
            }
            version += 1;
            rows_by_id.insert(event.id(), rows.len());
            places.push(Place::Row(rows.len()));
            rows.push(Row { stream: &part.stream, version, event });
        }
    }
    must_be_whole(append, &places, before, stored, rows, rows_by_id)?;
    if rows.len() == before {
        // Every event is in the log already: a repeated append answers as the first one did, even
        // though the stream has moved on since, by that very append.
        return Ok(places);
    }
    if let Some(conflict) = conflict {
        return Err(conflict);
    }
    check_condition(append, stored_match, &rows[..before])?;
    Ok(places)
}

/// Where an event with this id is already, refused if that is another event.
fn find<'a>(
    event: &NewEvent,
    stream: &StreamId,
    before: usize,
    stored: &HashMap<Uuid, Event>,
    rows: &[Row<'a>],
    rows_by_id: &HashMap<Uuid, usize>,
) -> Result<Option<Place>, AppendError> {
    let id = event.id();
    let differs = |from: &Body<'_>| from.difference(&event.body(stream));
    if let Some(stored) = stored.get(&id) {
        let (version, position) = (stored.version(), stored.position());
        return match differs(&stored.body()) {
            None => Ok(Some(Place::Stored(Recorded { id, version, position }))),
            Some(found) => Err(reused(id, stored.stream(), version, found)),
        };
    }
    let Some(&number) = rows_by_id.get(&id) else {
        return Ok(None);
    };
    let row = rows[number];
    match differs(&row.event.body(row.stream)) {
        None => Ok(Some(Place::Row(number))),
        Some(_) if number >= before => {
            let subject = format!("event id {id}");
            Err(InputError { subject, problem: InputProblem::IdTwice }.into())
        }
        Some(found) => Err(reused(id, row.stream.clone(), row.version, found)),
    }
}

/// Refuses a request that the log has in part, or as a part of what was sent under its key before.
fn must_be_whole(
    append: &Append,
    places: &[Place],
    before: usize,
    stored: &HashMap<Uuid, Event>,
    rows: &[Row<'_>],
    rows_by_id: &HashMap<Uuid, usize>,
) -> Result<(), AppendError> {
    let Some(next) = append.next_id() else { return Ok(()) };
    let count = append.event_count();
    let other = |id, stream, version, was| {
        let (was, is) = (format!("{was} than {count}"), count.to_string());
        Err(reused(id, stream, version, Difference { part: "number of events", was, is }))
    };
    if let Some(event) = stored.get(&next) {
        return other(next, event.stream(), event.version(), "more");
    }
    if let Some(row) = rows_by_id.get(&next).filter(|number| **number < before) {
        return other(next, rows[*row].stream.clone(), rows[*row].version, "more");
    }
    let is_new = |place: &Place| matches!(place, Place::Row(number) if *number >= before);
    if !places.iter().any(is_new) {
        return Ok(());
    }
    match append.events().zip(places).find(|(_, place)| !is_new(place)) {
        None => Ok(()),
        Some(((stream, event), place)) => {
            let version = match place {
                Place::Row(number) => rows[*number].version,
                Place::Stored(recorded) => recorded.version,
            };
            other(event.id(), stream.clone(), version, "fewer")
        }
    }
}

fn reused(id: Uuid, stream: StreamId, version: u64, found: Difference) -> AppendError {
    let Difference { part, was, is } = found;
    let differs = format!("{part}, which was {was} and now is {is}").into();
    AppendError::IdReused { id, stream, version, differs }
}

/// The condition fails by what is stored, or by what this batch stores before this append.
fn check_condition(
    append: &Append,
    stored_match: Option<Position>,
    earlier: &[Row<'_>],
) -> Result<(), AppendError> {
    let Some(condition) = append.condition() else {
        return Ok(());
    };
    let matches = |row: &Row<'_>| {
        let tags = row.event.tags().iter().map(String::as_str);
        condition.query.matches(row.event.event_type(), tags)
    };
    let in_batch = || earlier.iter().any(matches).then_some(Position::END);
    match stored_match.or_else(in_batch) {
        None => Ok(()),
        Some(position) => Err(AppendError::ConditionFailed {
            query: condition.query.clone(),
            after: condition.after,
            position,
        }),
    }
}

impl Decision<'_> {
    /// Whether no append was refused.
    #[must_use]
    pub fn accepts_all(&self) -> bool {
        self.outcomes.iter().all(Result::is_ok)
    }

    /// The ids of appends that were refused by a conflict. If one of them is in the log, its append
    /// is a repeated one and the conflict is its own doing: look up those that have not been, and
    /// decide again.
    #[must_use]
    pub fn doubtful(&self) -> &[Uuid] {
        &self.doubtful
    }

    /// The answers, in the order of the batch, once the rows stand at these positions.
    ///
    /// # Panics
    /// If there is not one position for each row, or they do not grow: a backend that broke the
    /// order of the log must not report success.
    #[must_use]
    pub fn settle(self, positions: &[Position]) -> Vec<Result<Appended, AppendError>> {
        assert_eq!(positions.len(), self.rows.len(), "one position for each row");
        assert!(positions.is_sorted_by(|a, b| a < b), "positions grow in the order of the rows");
        let rows = self.rows;
        let settle = |place| match place {
            Place::Stored(recorded) => recorded,
            Place::Row(number) => {
                let row: &Row<'_> = &rows[number];
                let (id, version) = (row.event.id(), row.version);
                Recorded { id, version, position: positions[number] }
            }
        };
        let answer = |places: Vec<Place>| Appended::new(places.into_iter().map(settle).collect());
        self.outcomes.into_iter().map(|outcome| outcome.map(answer)).collect()
    }
}

#[cfg(test)]
mod tests;
