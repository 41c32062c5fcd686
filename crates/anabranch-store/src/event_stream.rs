//! The stream of events, and the task that feeds it.
//!
//! The task reads one page ahead: while the caller handles a page, the next one is on its way. The
//! channel between them holds one page, so a slow caller stops the reading.

use crate::log_store::{Filter, LogStore, Page, PageEnd, ReadRequest, Scope};
use anabranch_core::engine_event::{Happening, OutageOf};
use anabranch_core::{Event, Position, StoreError};
use futures_util::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// The first page is small, so that a short read is not paid like a long one.
const FIRST_PAGE_EVENTS: usize = 256;
/// How soon to look again at appends in flight. A rolled-back append wakes nobody, so this bounds
/// how long it holds back readers.
const PENDING_POLL: Duration = Duration::from_millis(5);
const PENDING_POLL_MAX: Duration = Duration::from_millis(40);
/// How soon to look for new events when no wake comes: wakes may be lost.
const FALLBACK_POLL: Duration = Duration::from_secs(1);
/// How often a subscription that has come to the end makes sure that the log has not fallen behind it.
const CHECK: Duration = Duration::from_secs(5);
/// How long to wait for a database that is away.
const OUTAGE_POLL: Duration = Duration::from_millis(50);
const OUTAGE_POLL_MAX: Duration = Duration::from_secs(5);

/// Events, in order, as they are read. Memory stays bounded however long the log is.
///
/// It is a [`Stream`]; [`next`](Self::next) and [`collect`](Self::collect) are there for those who
/// need no more. After an error it ends.
#[derive(Debug)]
#[must_use = "a stream that is dropped stops reading"]
pub struct EventStream {
    page: std::vec::IntoIter<Event>,
    pages: mpsc::Receiver<Result<Vec<Event>, StoreError>>,
}

/// What to read.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) scope: Scope,
    pub(crate) cursor: u64,
    pub(crate) backwards: bool,
    pub(crate) limit: usize,
    pub(crate) follow: bool,
}

impl Plan {
    pub(crate) fn of(scope: Scope) -> Self {
        Self { scope, cursor: 0, backwards: false, limit: usize::MAX, follow: false }
    }
}

impl EventStream {
    pub(crate) fn start(store: Arc<dyn LogStore>, plan: Plan) -> Self {
        let (sender, pages) = mpsc::channel(1);
        tokio::spawn(Feeder { store, plan, sender }.run());
        Self { page: Vec::new().into_iter(), pages }
    }

    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Event, StoreError>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// All the events up to the end.
    pub async fn collect(mut self) -> Result<Vec<Event>, StoreError> {
        // What is left of the page that `next` began.
        let mut events: Vec<Event> = self.page.collect();
        while let Some(page) = self.pages.recv().await {
            events.append(&mut page?);
        }
        Ok(events)
    }
}

impl Stream for EventStream {
    type Item = Result<Event, StoreError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.page.next() {
                return Poll::Ready(Some(Ok(event)));
            }
            match ready!(self.pages.poll_recv(context)) {
                Some(Ok(page)) => self.page = page.into_iter(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// The task: reads pages until the end, or for ever when it follows.
struct Feeder {
    store: Arc<dyn LogStore>,
    plan: Plan,
    sender: mpsc::Sender<Result<Vec<Event>, StoreError>>,
}

/// What the feeder does after a page.
enum Next {
    Read,
    Done,
    Wait(Duration),
}

impl Feeder {
    async fn run(mut self) {
        if let Scope::Log(query) = &self.plan.scope
            && let Err(error) = query.validate()
        {
            let _ = self.sender.send(Err(error.into())).await;
            return;
        }
        let mut wake = self.plan.follow.then(|| self.store.wake());
        let mut pace = Pace::default();
        loop {
            wake.as_mut().map(watch::Receiver::borrow_and_update);
            match self.step(&mut pace).await {
                Next::Read => {}
                Next::Done => return,
                Next::Wait(longest) => {
                    tokio::select! {
                        () = self.sender.closed() => return,
                        () = woken(wake.as_mut()) => {}
                        () = tokio::time::sleep(longest) => {}
                    }
                }
            }
        }
    }

    /// Reads one page and hands it over.
    async fn step(&mut self, pace: &mut Pace) -> Next {
        let max_events = pace.page_events().min(self.plan.limit);
        if max_events == 0 {
            return Next::Done;
        }
        let (scope, cursor) = (self.plan.scope.clone(), self.plan.cursor);
        let (backwards, up_to) = (self.plan.backwards, Position::END);
        let filter = Filter::default();
        let request = ReadRequest { scope, filter, cursor, up_to, backwards, max_events };
        let page = match self.store.read(request).await {
            Ok(page) => page,
            Err(error) if self.plan.follow && error.is_worth_waiting() => {
                let wait = pace.outage();
                self.waits(pace, &error);
                return Next::Wait(wait);
            }
            Err(error) => {
                let _ = self.sender.send(Err(error)).await;
                return Next::Done;
            }
        };
        if let Some(since) = pace.away_since.take() {
            let ended = Happening::outage_ended(OutageOf::Subscription, Some(since.elapsed()));
            self.store.database().events().emit(ended);
        }
        pace.read(&page);
        self.plan.cursor = page.cursor;
        self.plan.limit = self.plan.limit.saturating_sub(page.events.len());
        if !page.events.is_empty() && self.sender.send(Ok(page.events)).await.is_err() {
            return Next::Done;
        }
        if self.plan.limit == 0 {
            return Next::Done;
        }
        self.after(page.end, pace).await
    }

    /// Says each time that the log is away: the waits grow.
    fn waits(&self, pace: &mut Pace, error: &StoreError) {
        let error = error.to_string();
        let what = match pace.away_since {
            Some(_) => Happening::outage_lasts(OutageOf::Subscription, error),
            None => Happening::outage_began(OutageOf::Subscription, error),
        };
        pace.away_since.get_or_insert_with(Instant::now);
        self.store.database().events().emit(what);
    }

    async fn after(&self, end: PageEnd, pace: &mut Pace) -> Next {
        match end {
            PageEnd::Last if self.plan.follow => match self.fell_back(pace).await {
                Some(error) => {
                    let _ = self.sender.send(Err(error)).await;
                    Next::Done
                }
                None => Next::Wait(FALLBACK_POLL),
            },
            PageEnd::Last => Next::Done,
            PageEnd::Pending if self.plan.follow => Next::Wait(pace.pending()),
            _ if self.plan.follow || self.plan.backwards => Next::Read,
            // Most reads end with the second page, if not with the first.
            PageEnd::More if !std::mem::replace(&mut pace.has_gone_on, true) => Next::Read,
            // A read that does not follow ends with what was there when it began, so that a busy
            // log cannot keep it going for ever.
            end => match self.target(pace).await {
                Err(error) => {
                    let _ = self.sender.send(Err(error)).await;
                    Next::Done
                }
                Ok(target) if self.plan.cursor >= target.get() => Next::Done,
                Ok(_) if end == PageEnd::Pending => Next::Wait(pace.pending()),
                Ok(_) => Next::Read,
            },
        }
    }

    /// Whether the log has never been where this stands: it was emptied, or is an older one now.
    async fn fell_back(&self, pace: &mut Pace) -> Option<StoreError> {
        let is_due = pace.checked.get_or_insert_with(Instant::now).elapsed() >= CHECK;
        if !is_due || matches!(self.plan.scope, Scope::Stream(_)) {
            return None;
        }
        // If it is away, the next read finds that out.
        let drawn = self.store.drawn().await.ok()?;
        pace.checked = Some(Instant::now());
        let position = Position::new(self.plan.cursor);
        let at = self.store.at().to_owned();
        (position > drawn).then_some(StoreError::FellBack { at, position, drawn })
    }

    async fn target(&self, pace: &mut Pace) -> Result<Position, StoreError> {
        match (&self.plan.scope, pace.target) {
            (_, Some(target)) => Ok(target),
            (Scope::Stream(_), None) => Ok(*pace.target.insert(Position::END)),
            (Scope::Log(_), None) => Ok(*pace.target.insert(self.store.head().await?.visible)),
        }
    }
}

/// Resolves at the next wake; never, if nobody wakes.
async fn woken(wake: Option<&mut watch::Receiver<u64>>) {
    if let Some(wake) = wake
        && wake.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// How large the next page is, and how long the next wait.
#[derive(Default)]
struct Pace {
    page_events: Option<usize>,
    pending: Option<Duration>,
    outage: Option<Duration>,
    away_since: Option<Instant>,
    target: Option<Position>,
    /// Whether it is beyond its first page.
    has_gone_on: bool,
    /// When it last made sure that the log has not fallen behind it.
    checked: Option<Instant>,
}

impl Pace {
    fn page_events(&self) -> usize {
        self.page_events.unwrap_or(FIRST_PAGE_EVENTS)
    }

    /// Pages grow as long as the events stay small enough for the largest page.
    fn read(&mut self, page: &Page) {
        self.outage = None;
        if page.end != PageEnd::Pending {
            self.pending = None;
        }
        if page.events.is_empty() {
            return;
        }
        let bytes: usize = page.events.iter().map(Event::text_bytes).sum();
        let fits = Page::MAX_BYTES / (bytes / page.events.len()).max(1);
        let grown = self.page_events() * 4;
        self.page_events = Some(grown.min(fits).clamp(1, Page::MAX_EVENTS));
    }

    fn pending(&mut self) -> Duration {
        next_wait(&mut self.pending, PENDING_POLL, PENDING_POLL_MAX)
    }

    fn outage(&mut self) -> Duration {
        next_wait(&mut self.outage, OUTAGE_POLL, OUTAGE_POLL_MAX)
    }
}

/// Doubles a wait from its first to its longest.
fn next_wait(current: &mut Option<Duration>, first: Duration, longest: Duration) -> Duration {
    let wait = current.map_or(first, |last| (last * 2).min(longest));
    *current = Some(wait);
    wait
}
