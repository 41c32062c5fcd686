//! What an append asks for, and what it answers.

use crate::error::{InputError, InputProblem};
use crate::{Limits, NewEvent, Position, Query, StreamId, TraceContext};
use std::fmt;
use uuid::Uuid;

/// What the caller expects of a stream before its events are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing: add the events wherever the stream stands.
    Any,
    /// The stream has no events yet.
    NoStream,
    /// The stream's last event has exactly this version. `Exact(0)` means the same as `NoStream`.
    Exact(u64),
}

impl Expected {
    /// Whether a stream at this version (0: no events) is as expected.
    #[must_use]
    pub fn holds_at(self, version: u64) -> bool {
        match self {
            Self::Any => true,
            Self::NoStream => version == 0,
            Self::Exact(expected) => version == expected,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any version"),
            Self::NoStream | Self::Exact(0) => f.write_str("no events"),
            Self::Exact(version) => write!(f, "version {version}"),
        }
    }
}

/// A DCB condition: the append fails if an event that matches `query` exists after `after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What must not be there.
    pub query: Query,
    /// The position up to which the caller has seen the log.
    pub after: Position,
}

/// Events for one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamAppend {
    /// The stream.
    pub stream: StreamId,
    /// What is expected of it.
    pub expected: Expected,
    /// The events to add, in order.
    pub events: Vec<NewEvent>,
}

/// One append: events for one or several streams, stored all or not at all.
///
/// ```
/// use anabranch_core::{Append, Expected, NewEvent, Position, Query, StreamId};
/// let seat = StreamId::new("Seat", "12a")?;
/// let append = Append::new()
///     .to(&seat, Expected::Any, [NewEvent::new("SeatReserved", ()).with_tag("seat:12a")])
///     .unless(Query::tags(["seat:12a"]), Position::new(41));
/// assert_eq!(append.event_count(), 1);
/// # Ok::<(), anabranch_core::InputError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "an append does nothing until it is handed to a log"]
pub struct Append {
    parts: Vec<StreamAppend>,
    condition: Option<Condition>,
    /// The id that one more event would have: that of a longer request under the same key.
    next_id: Option<Uuid>,
}

impl Append {
    /// An append without events yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds events for a stream. Positions follow the order in which events are added.
    pub fn to(
        mut self,
        stream: &StreamId,
        expected: Expected,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> Self {
        let (stream, events) = (stream.clone(), events.into_iter().collect());
        self.parts.push(StreamAppend { stream, expected, events });
        self
    }

    /// Fails the append if an event that matches `query` exists after position `after`: nothing
    /// that the decision was based on may have happened since it was read. `after` is the position
    /// of an event that was read, or [`Position::START`] if there was none.
    ///
    /// Read all that a decision rests on by *one* query, and use that query here. A second condition is added to the
    /// first: no event may match either of them, after the lower of the two positions.
    ///
    /// The first tag of each item of the query is what appends wait for and what is looked up: the most specific one
    /// should come first (`seat:12a` before `tenant:acme`).
    pub fn unless(mut self, query: Query, after: Position) -> Self {
        self.condition = Some(match self.condition.take() {
            None => Condition { query, after },
            Some(first) => {
                Condition { query: first.query.or(query), after: first.after.min(after) }
            }
        });
        self
    }

    /// Gives the events that have no id of their caller's one of yours, in order.
    pub fn with_ids(mut self, mut id: impl FnMut() -> Uuid) -> Self {
        for event in self.parts.iter_mut().flat_map(|part| &mut part.events) {
            if !event.id_is_callers() {
                event.set_id(id());
            }
        }
        self
    }

    /// Makes it a request that is stored once, however often it is sent: events that have no id of their caller's get
    /// `id(0)`, `id(1)` and so on, by which the log knows them again.
    ///
    /// Such an append is in the log as a whole, or not at all. So it is refused ([`AppendError::IdReused`]) if the log
    /// has other events under these ids, or only some of them, or one more: it is not the request that was sent before.
    ///
    /// ```
    /// use anabranch_core::{Append, Expected, NewEvent, StreamId};
    /// use uuid::Uuid;
    /// let key = Uuid::new_v5(&Uuid::NAMESPACE_OID, b"place-ord-1");
    /// let append = Append::new()
    ///     .to(&StreamId::new("Order", "1")?, Expected::Any, [NewEvent::new("OrderPlaced", ())])
    ///     .once(|number| Uuid::new_v5(&key, &number.to_be_bytes()));
    /// # let _ = append;
    /// # Ok::<(), anabranch_core::InputError>(())
    /// ```
    ///
    /// [`AppendError::IdReused`]: crate::AppendError::IdReused
    pub fn once(self, id: impl Fn(u64) -> Uuid) -> Self {
        let mut number = 0;
        let mut append = self.with_ids(|| {
            number += 1;
            id(number - 1)
        });
        append.next_id = Some(id(number));
        append
    }

    /// The id that a request [sent once](Self::once) has no event for: one with it would be of a longer request.
    #[must_use]
    pub fn next_id(&self) -> Option<Uuid> {
        self.next_id
    }

    /// Gives the events that have no trace context of their own this one.
    pub fn within_trace(mut self, trace: Option<TraceContext>) -> Self {
        if let Some(trace) = trace {
            let events = self.parts.iter_mut().flat_map(|part| &mut part.events);
            events.for_each(|event| event.carry(trace));
        }
        self
    }

    /// The events, stream by stream.
    #[must_use]
    pub fn parts(&self) -> &[StreamAppend] {
        &self.parts
    }

    /// The condition, if there is one.
    #[must_use]
    pub fn condition(&self) -> Option<&Condition> {
        self.condition.as_ref()
    }

    /// Every event with its stream, in order.
    pub fn events(&self) -> impl Iterator<Item = (&StreamId, &NewEvent)> {
        self.parts.iter().flat_map(|part| part.events.iter().map(|event| (&part.stream, event)))
    }

    /// How many events there are.
    #[must_use]
    pub fn event_count(&self) -> usize {
        self.parts.iter().map(|part| part.events.len()).sum()
    }

    /// Refuses what no database should see.
    pub fn validate(&self, limits: &Limits) -> Result<(), InputError> {
        let refuse = |problem| Err(InputError { subject: "append".to_owned(), problem });
        let count = self.event_count();
        if count == 0 {
            return refuse(InputProblem::NoEvents);
        }
        if let Some(empty) = self.parts.iter().find(|part| part.events.is_empty()) {
            let subject = format!("append to stream {}", empty.stream);
            return Err(InputError { subject, problem: InputProblem::NoEvents });
        }
        if count > limits.events_per_append {
            let remedy = "append in several steps";
            let limit = limits.events_per_append;
            return refuse(InputProblem::TooMany { count, limit, remedy });
        }
        for (which, (_, event)) in self.events().enumerate() {
            event.validate(limits, which)?;
        }
        let Some(condition) = &self.condition else { return Ok(()) };
        if condition.after == Position::END {
            let subject = format!("condition on {}", condition.query);
            return Err(InputError { subject, problem: InputProblem::AfterEnd });
        }
        condition.query.validate()
    }
}

/// Where one event of an append was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The event.
    pub id: Uuid,
    /// Its version in its stream.
    pub version: u64,
    /// Its position in the log.
    pub position: Position,
}

/// What an append recorded: one entry for each of its events, in order. It is the same whether the
/// events were stored just now or by an earlier append of the same ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    events: Vec<Recorded>,
}

impl Appended {
    pub(crate) fn new(events: Vec<Recorded>) -> Self {
        debug_assert!(!events.is_empty(), "an append without events is refused");
        Self { events }
    }

    /// Where each event was recorded.
    #[must_use]
    pub fn events(&self) -> &[Recorded] {
        &self.events
    }

    /// The last event: its position is the one to read up to, or to hand to the next condition.
    #[must_use]
    pub fn last(&self) -> Recorded {
        *self.events.last().expect("an append has at least one event")
    }

    /// The position of the last event.
    #[must_use]
    pub fn position(&self) -> Position {
        self.last().position
    }

    /// The version of the last event.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.last().version
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AppendError;

    fn append() -> Append {
        let stream = StreamId::new("Seat", "1").unwrap();
        Append::new().to(&stream, Expected::Any, [NewEvent::new("Sold", ())])
    }

    #[test]
    fn a_second_condition_does_not_replace_the_first() {
        let both = append()
            .unless(Query::tags(["a"]), Position::new(7))
            .unless(Query::tags(["b"]), Position::new(3));
        let condition = both.condition().unwrap();
        assert!(condition.query.matches("Sold", ["a"]) && condition.query.matches("Sold", ["b"]));
        assert_eq!(condition.after, Position::new(3));
    }

    /// A conflict within one commit has no position yet. Whoever goes on from there is refused, and not let through.
    #[test]
    fn a_condition_that_can_never_fail_is_refused() {
        let query = Query::tags(["a"]);
        let (after, position) = (Position::START, Position::END);
        let conflict = AppendError::ConditionFailed { query: query.clone(), after, position };
        assert!(conflict.to_string().contains("stored at the same moment"), "{conflict}");
        let error = append().unless(query, position).validate(&Limits::default()).unwrap_err();
        assert_eq!(error.problem, InputProblem::AfterEnd);
    }
}
