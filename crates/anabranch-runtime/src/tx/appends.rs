//! Events that a handler appends: they are stored with its effects and the cursor, or not at all.

use super::{Failure, Tx};
use crate::handler::{HandlerError, HandlerResult};
use anabranch_core::{Append, AppendError, Expected, NewEvent, StreamId, TraceContext};
use anabranch_store::database::{Failed, Reason, Statement};
use anabranch_store::trace;
use std::collections::HashMap;
use uuid::Uuid;

/// How much is queued before a batch ends early.
const MAX_EVENTS: usize = 10_000;
/// How much one transaction takes at the most: its locks hold others up while it is stored.
const MOST_EVENTS: usize = 50_000;
const MOST_BYTES: usize = 64 << 20;

const FOR_WHICH: &str = "events are appended for one event of the batch: say which by Tx::for_event before \
                         Tx::append, so that a replay finds them again";

const THE_SAME: &str = "append the same for the same event: no times, no random numbers (a consumer that appends \
                        something else needs another name)";

/// What the ids of appended events are made of.
pub(crate) struct Origin {
    /// The consumer, the same for each of its versions.
    pub(crate) name: String,
    /// The events or tasks of the batch.
    pub(crate) items: Vec<Uuid>,
}

/// Where a batch stands in a trace, and each of its items if there are several.
#[derive(Default)]
pub(super) struct Traces {
    batch: Option<TraceContext>,
    items: Vec<Option<TraceContext>>,
}

/// The appends of a transaction, until its end.
#[derive(Default)]
pub(super) struct Appends {
    queued: Vec<Queued>,
    /// How many events each item of the batch has appended.
    numbers: HashMap<usize, u64>,
    events: usize,
    bytes: usize,
    origin: Option<Origin>,
}

struct Queued {
    append: Append,
    /// The event to blame.
    item: Option<usize>,
    /// How many events that one has appended before.
    number: u64,
    /// Of its events.
    bytes: usize,
}

impl Appends {
    pub(super) fn len(&self) -> usize {
        self.queued.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        for undone in self.queued.drain(len..).rev() {
            self.events -= undone.append.event_count();
            self.bytes -= undone.bytes;
            if let Some(item) = undone.item {
                self.numbers.insert(item, undone.number);
            }
        }
    }

    /// Queues one, if the transaction takes it.
    fn push(&mut self, queued: Queued) -> Result<(), Reason> {
        let (events, bytes) =
            (self.events + queued.append.event_count(), self.bytes + queued.bytes);
        if events > MOST_EVENTS || bytes > MOST_BYTES {
            let megabytes = MOST_BYTES >> 20;
            let said = format!(
                "one transaction appends {MOST_EVENTS} events and {megabytes} MiB at the most, and this would \
                 be {events} events and {bytes} bytes: append less for one event, or let what it appends \
                 be handled in turn and append the rest"
            );
            return Err(Reason::TooMuch { said });
        }
        (self.events, self.bytes) = (events, bytes);
        self.queued.push(queued);
        Ok(())
    }

    /// Whether all of them are of one event.
    fn are_of(&self, item: Option<usize>) -> bool {
        self.queued.iter().all(|queued| queued.item == item)
    }

    pub(super) fn is_full(&self) -> bool {
        self.events >= MAX_EVENTS || self.bytes >= super::MAX_QUEUED_BYTES
    }

    /// The statement that stores them, and the event of each.
    pub(super) fn take(&mut self) -> Option<(Statement, Vec<Option<usize>>)> {
        if self.queued.is_empty() {
            return None;
        }
        let queued = std::mem::take(&mut self.queued).into_iter();
        let (appends, items) = queued.map(|queued| (queued.append, queued.item)).unzip();
        Some((Statement::appends(appends), items))
    }

    /// Gives events that have no id of their own one that a replay finds again.
    fn named(&mut self, append: Append, item: Option<usize>) -> Result<Queued, Reason> {
        let bytes = bytes_of(&append);
        let Some(origin) = &self.origin else {
            return Ok(Queued { append, item, number: 0, bytes });
        };
        let Some((item, id)) = item.and_then(|item| Some((item, origin.items.get(item)?))) else {
            return Err(Reason::refused(FOR_WHICH));
        };
        let next = self.numbers.entry(item).or_default();
        let (number, cause) = (*next, Uuid::new_v5(id, origin.name.as_bytes()));
        let append = append.with_ids(|| {
            let id = Uuid::new_v5(&cause, &next.to_be_bytes());
            *next += 1;
            id
        });
        Ok(Queued { append, item: Some(item), number, bytes })
    }
}

/// What its events carry.
fn bytes_of(append: &Append) -> usize {
    let carried = |(_, event): (_, &NewEvent)| {
        let (data, metadata) = (event.data(), event.metadata());
        data.map_or(0, |data| data.as_str().len()) + metadata.map_or(0, |data| data.as_str().len())
    };
    append.events().map(carried).sum()
}

impl Tx {
    /// Appends events to a stream **in this transaction**: they are stored exactly once, together with
    /// what else the handler writes and the cursor, or not at all. This is how events are made of events.
    ///
    /// It only queues them: when the batch commits, all its appends take their locks and are decided, one
    /// after the other. So it answers no position, and a reader sees them after the commit. A conflict with
    /// what is `expected` fails the event that asked, which is tried again as the consumer's
    /// [`Retry`](anabranch_core::Retry) says: it reads anew and decides anew.
    ///
    /// An event that was given no id gets one that follows from the consumer, the handled event and its
    /// number. A replay, or a new version of the consumer that is built beside this one, makes the same ids:
    /// it finds what is in the log already and adds nothing. So append the same for the same event: if the body
    /// under such an id differs (a time, a random number, another version of your code), the event has failed.
    /// To append anew what was appended before, give the consumer another name.
    ///
    /// Where the events are on another server than the cursors (`Log::with_database`) it is refused
    /// ([`StoreError::TwoServers`](anabranch_core::StoreError::TwoServers)): no transaction spans both.
    ///
    /// A consumer that handles what it appends goes on for ever: leave that type out of its scope.
    ///
    /// One transaction takes 50,000 events and 64 MiB. A batch that has queued much is committed before it comes to
    /// that, or done in parts; an event that appends more by itself fails.
    ///
    /// ```
    /// # use anabranch_core::{Event, Expected, NewEvent, StreamId};
    /// # use anabranch_runtime::{HandlerResult, Tx};
    /// async fn handle(event: &Event, tx: &mut Tx) -> HandlerResult {
    ///     let order: serde_json::Value = event.data()?;
    ///     let invoice = StreamId::new("Invoice", event.stream_id())?;
    ///     let issued = NewEvent::new("InvoiceIssued", serde_json::json!({ "total": order["total"] }));
    ///     tx.append(&invoice, Expected::Any, [issued.caused_by(event)])
    /// }
    /// ```
    pub fn append(
        &mut self,
        stream: &StreamId,
        expected: Expected,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> HandlerResult {
        self.append_all(Append::new().to(stream, expected, events))
    }

    /// Appends to several streams, or with a condition: all of it or nothing, as [`append`](Self::append)
    /// does.
    pub fn append_all(&mut self, append: Append) -> HandlerResult {
        let (item, limits) = (self.current(), self.database.limits());
        let number = self.appends.len();
        let refused = |error: AppendError| Reason::Append { number, error };
        let is_here = self.database.must_hold_log().map_err(|error| refused(error.into()));
        let valid =
            is_here.and_then(|()| append.validate(&limits).map_err(|error| refused(error.into())));
        let append = append.within_trace(self.trace());
        let named = valid.and_then(|()| self.appends.named(append, item));
        let Err(reason) = named.and_then(|queued| self.appends.push(queued)) else { return Ok(()) };
        let error = HandlerError::of(&reason);
        let event = match &reason {
            // Without the others it may do.
            Reason::TooMuch { .. } if !self.appends.are_of(item) => None,
            _ => item,
        };
        // Also if the handler passes over it: what it meant to do is not done.
        let failed = Failed { statement: None, reason };
        self.failure.get_or_insert(Failure { event, failed });
        Err(error)
    }

    /// Whether its commit appends.
    pub(crate) fn has_appends(&self) -> bool {
        self.appends.len() > 0
    }

    /// Whether so much is queued that the batch should end.
    pub(crate) fn is_full(&self) -> bool {
        self.appends.is_full()
    }

    /// Says where the batch stands in a trace, and where its items were appended.
    pub(crate) fn goes_on(
        &mut self,
        batch: Option<TraceContext>,
        items: impl ExactSizeIterator<Item = Option<TraceContext>> + Clone,
    ) {
        self.traces = Traces { batch, items: Vec::new() };
        // One is the batch itself.
        if items.len() > 1 && items.clone().any(|item| item.is_some()) {
            self.traces.items = items.collect();
        }
    }

    /// Where what the handler does now stands in a trace: in that of the event that it is for, if the batch has several.
    #[doc(hidden)]
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        let (now, Traces { batch, items }) = (trace::current(), &self.traces);
        let of_item = || self.current().and_then(|item| *items.get(item)?);
        if now == *batch { of_item().or(now) } else { now.or_else(of_item) }
    }

    /// Says what the ids of appended events are made of.
    pub(crate) fn stands_for(&mut self, origin: Origin) {
        self.appends.origin = Some(origin);
    }
}

impl HandlerError {
    /// What the database has said to what a handler wrote or appended.
    pub(crate) fn of(reason: &Reason) -> Self {
        let error = match reason {
            Reason::Append { error, .. } => error,
            Reason::TooMuch { said } => return Self::too_much(said),
            reason => return Self::with_code(reason.code(), reason.to_string()),
        };
        match error {
            error if error.is_conflict() => Self::new(error.to_string()),
            // Its id follows from the consumer, the event and its number.
            AppendError::IdReused { id, stream, version, differs }
                if id.get_version_num() == 5 =>
            {
                Self::for_good(format!(
                    "{THE_SAME}; what differs is its {differs} (version {version} of stream {stream}, \
                     event id {id})"
                ))
            }
            error => Self::for_good(error.to_string()),
        }
        .about_append(error)
    }
}
