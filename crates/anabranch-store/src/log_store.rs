//! What a backend must provide for the log. One file, one trait; `contract` proves it.

use anabranch_core::{
    Append, AppendError, Appended, Event, HashRule, Limits, Position, Query, StoreError, StreamId,
};
use futures_util::future::BoxFuture;
use std::any::Any;
use tokio::sync::{oneshot, watch};

/// A database that holds a log.
///
/// The laws that an implementation keeps: an append is stored whole or not at all, and is durable
/// before it is answered; positions grow in the order of an append's events; a forward read of the
/// log never passes a position that may still be filled (**no skip**).
pub trait LogStore: Any + Send + Sync {
    /// Stores a batch of valid appends, in one commit where it can, and answers each ticket.
    ///
    /// A refused append never fails another. The future ends when the next batch may begin; a
    /// ticket that has to wait for somebody else's lock may be answered later than that.
    fn append(&self, batch: Vec<Ticket>) -> BoxFuture<'_, ()>;

    /// Reads one page. A backward read of the log waits for matching appends in flight below the end
    /// that it sees, as forward reads do by [`PageEnd::Pending`]: so the position of any event that
    /// was read is safe to decide on.
    fn read(&self, request: ReadRequest) -> BoxFuture<'_, Result<Page, StoreError>>;

    /// Where the log ends now.
    fn head(&self) -> BoxFuture<'_, Result<Head, StoreError>>;

    /// Makes sure that other processes have been told of what was appended.
    fn flush(&self) -> BoxFuture<'_, ()>;

    /// Changes whenever there may be new events. A wake may be lost, so readers poll as well.
    fn wake(&self) -> watch::Receiver<u64>;

    /// Which database this is, for messages. Never holds a password.
    fn at(&self) -> &str;

    /// What an append may hold.
    fn limits(&self) -> Limits;

    /// How this log makes slots of keys.
    fn hash_rule(&self) -> HashRule;
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
    /// Where to begin: the last version (of a stream) or position (of the log) that is not wanted
    /// again.
    pub cursor: u64,
    /// Towards the beginning.
    pub backwards: bool,
    /// The most events that are wanted.
    pub max_events: usize,
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
