//! What a backend must provide for the log. One file, one trait; `contract` proves it.

use crate::anchors::{Look, Seen};
use crate::database::Database;
use anabranch_core::{
    Append, AppendError, Appended, Event, HashRule, Limits, Position, Query, SlotColumn, SlotSet,
    StoreError, StreamId,
};
use futures_util::future::BoxFuture;
use std::any::Any;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

/// A database that holds a log.
///
/// The laws that an implementation keeps: an append is stored whole or not at all, and is durable
/// before it is answered; positions grow in the order of an append's events, and none is given twice,
/// even if its event was deleted; a forward read of the log never passes a position that may still be filled (**no skip**).
pub trait LogStore: Any + Send + Sync {
    /// Stores a batch of valid appends, in one commit where it can, and answers each ticket.
    ///
    /// A refused append never fails another. The future ends when the next batch may begin; a
    /// ticket that has to wait for somebody else's lock may be answered later than that.
    fn append(&self, batch: Vec<Ticket>) -> BoxFuture<'_, ()>;

    /// What an append locks. Two batches may be stored at the same time if they lock nothing in common, or only what
    /// both share; `None` if batches have to follow each other.
    fn locks(&self, append: &Append) -> Option<Vec<Locked>> {
        let _ = append;
        None
    }

    /// Reads one page. A backward read of the log waits for matching appends in flight below the end
    /// that it sees, as forward reads do by [`PageEnd::Pending`]: so the position of any event that
    /// was read is safe to decide on.
    fn read(&self, request: ReadRequest) -> BoxFuture<'_, Result<Page, StoreError>>;

    /// The committed event with this id, if there is one.
    fn find(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Event>, StoreError>>;

    /// Where the log ends now.
    fn head(&self) -> BoxFuture<'_, Result<Head, StoreError>>;

    /// The last position that was ever drawn, whether or not its event is there (any more): no event
    /// stored from now on has one up to it. A cursor beyond it belongs to another log, or to a later
    /// state of this one.
    fn drawn(&self) -> BoxFuture<'_, Result<Position, StoreError>>;

    /// What is where in the log, and which log it is, all at one moment. A log that was opened though it is
    /// older than its identity ([`Options::take_older`](crate::Options::take_older)) is refused.
    fn look(&self, look: Look) -> BoxFuture<'_, Result<Seen, StoreError>>;

    /// Makes sure that other processes have been told of what was appended.
    fn flush(&self) -> BoxFuture<'_, ()>;

    /// The same, before the last handle is dropped: from here on a drop waits for nobody, also if the others could
    /// not be told, until something is appended again.
    fn close(&self) -> BoxFuture<'_, ()> {
        self.flush()
    }

    /// Changes whenever there may be new events. A wake may be lost, so readers poll as well.
    fn wake(&self) -> watch::Receiver<u64>;

    /// Which database this is, for messages. Never holds a password.
    fn at(&self) -> &str;

    /// What an append may hold.
    fn limits(&self) -> Limits;

    /// How this log makes slots of keys.
    fn hash_rule(&self) -> HashRule;

    /// The database that the log is in, for effects that commit together with a cursor.
    fn database(&self) -> Arc<dyn Database>;
}

/// What an append locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locked {
    /// Which lock it is.
    pub key: i32,
    /// Whether it is taken alone, or together with others that share it.
    pub alone: bool,
}

/// One append on its way, and the place to answer it.
#[derive(Debug)]
pub struct Ticket {
    /// What is to be stored.
    pub append: Append,
    reply: oneshot::Sender<Result<Appended, AppendError>>,
}

impl Ticket {
    /// A ticket for an append that has passed [`Append::validate`], and where its answer arrives.
    pub fn new(append: Append) -> (Self, oneshot::Receiver<Result<Appended, AppendError>>) {
        let (reply, answer) = oneshot::channel();
        (Self { append, reply }, answer)
    }

    /// Answers. A caller that has gone away meanwhile is none of our business.
    pub fn answer(self, answer: Result<Appended, AppendError>) {
        let _ = self.reply.send(answer);
    }
}

/// Which events to read.
#[derive(Clone, Debug)]
pub enum Scope {
    /// One stream, ordered by version.
    Stream(StreamId),
    /// The events of the log that match, ordered by position.
    Log(Query),
}

/// What else an event of the log must have to be read. It holds for forward reads of the log.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// One of these categories; none means any.
    pub categories: Vec<String>,
    /// One of these tenants; none means any.
    pub tenants: Vec<String>,
    /// A slot of this set.
    pub slots: Option<SlotFilter>,
}

/// Which slots to read. An event that has no such slot counts as slot 0, so that somebody reads it.
#[derive(Clone, Debug)]
pub struct SlotFilter {
    /// Which of an event's slots.
    pub column: SlotColumn,
    /// The slots.
    pub slots: Arc<SlotSet>,
}

impl Filter {
    /// How many positions one page of a filtered read looks at, at the most: a page ends in time
    /// even where nothing matches.
    pub const WINDOW: u64 = 500_000;

    /// Whether every event passes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.categories.is_empty() && self.tenants.is_empty() && self.slots.is_none()
    }

    /// Whether an event passes, apart from its slot.
    #[must_use]
    pub fn passes(&self, category: &str, tenant: Option<&str>) -> bool {
        let one_of = |names: &[String], name: &str| names.iter().any(|wanted| wanted == name);
        (self.categories.is_empty() || one_of(&self.categories, category))
            && (self.tenants.is_empty() || tenant.is_some_and(|name| one_of(&self.tenants, name)))
    }
}

/// Where a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last position that is visible.
    pub visible: Position,
    /// The last visible position up to which everything is decided.
    pub decided: Position,
}

/// One page to read.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// Which events.
    pub scope: Scope,
    /// What else they must have.
    pub filter: Filter,
    /// Where to begin: the last version (of a stream) or position (of the log) that is not wanted
    /// again.
    pub cursor: u64,
    /// The last position that is wanted, in a forward read of the log.
    pub up_to: Position,
    /// Towards the beginning.
    pub backwards: bool,
    /// The most events that are wanted.
    pub max_events: usize,
}

impl ReadRequest {
    /// Whether it reads a range of positions and passes over what it does not want.
    #[must_use]
    pub fn is_scan(&self) -> bool {
        let is_bounded = !self.filter.is_empty() || self.up_to < Position::END;
        matches!(self.scope, Scope::Log(_)) && !self.backwards && is_bounded
    }
}

/// One page of events.
#[derive(Debug)]
pub struct Page {
    /// The events, in the order that was asked for.
    pub events: Vec<Event>,
    /// Where the next page begins. It may lie beyond the last event: everything up to there has
    /// been looked at.
    pub cursor: u64,
    /// What follows.
    pub end: PageEnd,
}

/// What follows a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEnd {
    /// Perhaps more: read again at once.
    More,
    /// Appends in flight hold back what may follow: read again soon. No wake may come, since an
    /// append that is rolled back wakes nobody.
    Pending,
    /// Nothing for now: wait for a wake.
    Last,
}

impl Page {
    /// How much text a page may hold before it ends early, so that large events do not add up:
    /// a reader holds at most three pages.
    pub const MAX_BYTES: usize = 4 << 20;
    /// The most events of a page.
    pub const MAX_EVENTS: usize = 4096;
}
