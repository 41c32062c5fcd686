//! Sessions that are lent to one use after the other: opened when they are needed, closed when they are
//! idle.
//!
//! Several uses can share the sessions of one pool, each with a limit of its own. Whoever finds no session
//! idle opens one if that is wanted, and otherwise waits for the next that is given back, in turn.

use crate::connection::Server;
use crate::error::Failure;
use crate::session::{Connection, Lease, Lender, Lent, Permit, Purpose, lock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// How soon a session that the server refused is asked for again, while others are there.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// When a session more is opened, though there are some already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Whenever none is idle.
    Always,
    /// When none is idle and the server has ample room: the others serve as well, if later.
    WithRoom,
    /// When none has been given back for so long.
    After(Duration),
}

/// How sessions are lent to one use.
#[derive(Clone, Copy)]
pub(crate) struct Use {
    pub(crate) purpose: Purpose,
    /// How many at the same time.
    pub(crate) limit: usize,
    pub(crate) growth: Growth,
    /// How long to wait for a session.
    pub(crate) wait: Duration,
    /// What to change if that is too few, for messages.
    pub(crate) option: &'static str,
}

/// One use of sessions that others may use too.
#[derive(Clone)]
pub(crate) struct Pool {
    sessions: Arc<Sessions>,
    turns: Arc<Semaphore>,
    how: Use,
}

/// The sessions of a pool.
pub(crate) struct Sessions {
    me: Weak<Self>,
    server: Server,
    state: Mutex<State>,
    /// So many stay open though they are idle.
    floor: AtomicUsize,
}

#[derive(Default)]
struct State {
    idle: Vec<(Arc<Connection>, Instant)>,
    /// What is on loan.
    lent: BTreeMap<u64, Loan>,
    /// Being opened.
    opening: usize,
    loans: u64,
    waiting: VecDeque<Waiting>,
    /// When the server last had no connection left for one more, and what it said.
    refused: Option<(Instant, Failure)>,
}

/// To whom a session is lent, for what and since when.
struct Loan {
    to: String,
    purpose: Purpose,
    since: Instant,
}

/// Somebody who waits for a session.
struct Waiting {
    who: String,
    purpose: Purpose,
    /// Where to hand a session to; nothing is handed over to look again.
    place: oneshot::Sender<Option<Given>>,
}

impl State {
    fn open(&self) -> usize {
        self.idle.len() + self.lent.len() + self.opening
    }

    fn lend(&mut self, to: &str, purpose: Purpose) -> u64 {
        self.loans += 1;
        let loan = Loan { to: to.to_owned(), purpose, since: Instant::now() };
        self.lent.insert(self.loans, loan);
        self.loans
    }

    /// The idle one that was used last, for the same purpose if there is one.
    fn idle(&mut self, purpose: Purpose) -> Option<Arc<Connection>> {
        self.idle.retain(|(connection, _)| !connection.is_closed());
        let fits = self.idle.iter().rposition(|(connection, _)| connection.purpose() == purpose);
        match fits {
            Some(place) => Some(self.idle.remove(place).0),
            None => self.idle.pop().map(|(connection, _)| connection),
        }
    }

    /// Tells the first who waits to look again.
    fn wake_one(&mut self) {
        while let Some(waiting) = self.waiting.pop_front() {
            if waiting.place.send(None).is_ok() {
                return;
            }
        }
    }
}

impl Sessions {
    pub(crate) fn new(server: Server, floor: usize) -> Arc<Self> {
        let (state, floor) = (Mutex::default(), AtomicUsize::new(floor));
        Arc::new_cyclic(|me| Self { me: me.clone(), server, state, floor })
    }

    pub(crate) fn lent_as(self: &Arc<Self>, how: Use) -> Pool {
        let turns = Arc::new(Semaphore::new(how.limit.max(1)));
        Pool { sessions: Arc::clone(self), turns, how }
    }

    /// So many stay open from now on though they are idle.
    pub(crate) fn keep(&self, floor: usize) {
        self.floor.store(floor, Ordering::Relaxed);
    }

    /// A session that was opened elsewhere.
    pub(crate) fn add(&self, connection: Connection) {
        lock(&self.state).idle.push((Arc::new(connection), Instant::now()));
    }

    /// Closes what has been idle for so long.
    pub(crate) fn close_idle(&self, idle_for: Duration) {
        let mut closed = Vec::new();
        let mut state = lock(&self.state);
        let floor = self.floor.load(Ordering::Relaxed);
        state.idle.retain(|(connection, _)| !connection.is_closed());
        // The one that was used last is the last in line.
        while state.open() > floor
            && state.idle.first().is_some_and(|(_, since)| since.elapsed() >= idle_for)
        {
            closed.push(state.idle.remove(0));
        }
        drop(state);
        // The server is told when the client is dropped.
        drop(closed);
    }

    /// How many are open, and what the server said if it had none left a moment ago.
    pub(crate) fn shortage(&self, recently: Duration) -> Option<(usize, Failure)> {
        let state = lock(&self.state);
        let (at, failure) = state.refused.as_ref()?;
        // One that is being opened may be refused like the last.
        let open = state.idle.len() + state.lent.len();
        (at.elapsed() < recently).then(|| (open, failure.clone()))
    }

    /// What each open session is lent for, or was lent for last.
    pub(crate) fn purposes(&self) -> Vec<Purpose> {
        let state = lock(&self.state);
        let idle = state.idle.iter().filter(|(connection, _)| !connection.is_closed());
        let idle = idle.map(|(connection, _)| connection.purpose());
        state.lent.values().map(|loan| loan.purpose).chain(idle).collect()
    }

    fn holders(&self) -> String {
        let state = lock(&self.state);
        let holder = |loan: &Loan| format!("{} for {:.1?}", loan.to, loan.since.elapsed());
        let holders: Vec<String> = state.lent.values().take(5).map(holder).collect();
        match holders.is_empty() {
            true => "others that took turns".to_owned(),
            false => holders.join(", "),
        }
    }
}

impl Lender for Sessions {
    fn returned(&self, loan: u64, connection: Arc<Connection>) {
        let mut state = lock(&self.state);
        state.lent.remove(&loan);
        if connection.is_closed() {
            state.wake_one();
            return;
        }
        let mut connection = connection;
        while let Some(Waiting { who, purpose, place }) = state.waiting.pop_front() {
            let (loan, home) = (state.lend(&who, purpose), self.me.clone());
            match place.send(Some(Given { connection: Some(connection), loan, home })) {
                Ok(()) => return,
                // Nobody waits there any more.
                Err(back) => {
                    state.lent.remove(&loan);
                    let Some(back) = back.and_then(|mut back| back.connection.take()) else {
                        return;
                    };
                    connection = back;
                }
            }
        }
        state.idle.push((connection, Instant::now()));
    }

    fn lost(&self, loan: u64) {
        let mut state = lock(&self.state);
        state.lent.remove(&loan);
        state.wake_one();
    }
}

/// A session that is handed over to somebody who waits. If nobody takes it, it goes back.
struct Given {
    connection: Option<Arc<Connection>>,
    loan: u64,
    home: Weak<Sessions>,
}

impl Drop for Given {
    fn drop(&mut self) {
        if let (Some(connection), Some(home)) = (self.connection.take(), self.home.upgrade()) {
            home.returned(self.loan, connection);
        }
    }
}

/// Counts a session that is being opened, however that ends.
struct Opening<'a>(&'a Sessions);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.opening -= 1;
        state.wake_one();
    }
}

/// What to do next for a session.
enum Next {
    Take(Arc<Connection>, u64),
    Open,
    Wait,
}

/// A place in the line of those who wait. It is kept while one more session is asked for.
type Place = oneshot::Receiver<Option<Given>>;

/// What is handed over at a place: for ever nothing, where there is none. An error means to look again.
async fn handed_over(place: &mut Option<Place>) -> Option<Given> {
    match place {
        Some(place) => place.await.ok().flatten(),
        None => std::future::pending().await,
    }
}

fn taken(given: Option<Given>) -> Option<(Arc<Connection>, u64)> {
    let mut given = given?;
    Some((given.connection.take()?, given.loan))
}

impl Pool {
    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// A session, for somebody.
    pub(crate) async fn get(&self, who: &str) -> Lent {
        self.sessions.server.runs().await?;
        let started = Instant::now();
        let turn = timeout(self.how.wait, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(self.none_free()) };
        let (connection, loan) = self.connection(who, started).await?;
        let lender = Arc::clone(&self.sessions) as Arc<dyn Lender>;
        // From here on it is on loan, whatever becomes of its borrower.
        let lease = Lease::new(connection, loan, lender, Some(Permit::Turn(turn)));
        lease.session().serve(self.how.purpose).await;
        Ok(lease)
    }

    async fn connection(
        &self,
        who: &str,
        started: Instant,
    ) -> Result<(Arc<Connection>, u64), Failure> {
        let (mut place, mut has_waited) = (None, false);
        loop {
            let given = match self.next(who, started, &mut place, has_waited) {
                Next::Take(connection, loan) => return Ok((connection, loan)),
                Next::Open => {
                    let opening = Opening(&self.sessions);
                    let opened = tokio::select! {
                        opened = self.sessions.server.open() => Ok(opened),
                        given = handed_over(&mut place) => Err(given),
                    };
                    let opened = match opened {
                        Ok(opened) => opened,
                        Err(given) => {
                            drop(opening);
                            place = None;
                            match taken(given) {
                                Some(taken) => return Ok(taken),
                                None => continue,
                            }
                        }
                    };
                    let mut state = lock(&self.sessions.state);
                    match opened {
                        Ok(connection) => {
                            state.refused = None;
                            let loan = state.lend(who, self.how.purpose);
                            drop(state);
                            drop(opening);
                            return Ok((Arc::new(connection), loan));
                        }
                        Err(failure) => {
                            let others = state.open() - 1;
                            if failure.is_full() {
                                state.refused = Some((Instant::now(), failure.clone()));
                            }
                            drop(state);
                            drop(opening);
                            // Others are there: it takes turns with them.
                            if !failure.is_full() || others == 0 {
                                return Err(failure);
                            }
                            continue;
                        }
                    }
                }
                Next::Wait => {
                    let left = self.how.wait.saturating_sub(started.elapsed());
                    let again = match self.how.growth {
                        Growth::After(after) => after.saturating_sub(started.elapsed()),
                        _ => ASK_AGAIN,
                    };
                    let again = if again.is_zero() { ASK_AGAIN } else { again };
                    has_waited = true;
                    match timeout(left.min(again), handed_over(&mut place)).await {
                        Ok(given) => {
                            place = None;
                            given
                        }
                        Err(_) => None,
                    }
                }
            };
            if let Some(taken) = taken(given) {
                return Ok(taken);
            }
            if started.elapsed() >= self.how.wait {
                return Err(self.none_free());
            }
        }
    }

    /// What to do next. Whoever has waited and was told to look again is the first in line; who waits keeps
    /// its place.
    fn next(
        &self,
        who: &str,
        started: Instant,
        place: &mut Option<Place>,
        has_waited: bool,
    ) -> Next {
        let mut state = lock(&self.sessions.state);
        if let Some(connection) = state.idle(self.how.purpose) {
            let loan = state.lend(who, self.how.purpose);
            return Next::Take(connection, loan);
        }
        let refused = state.refused.as_ref();
        let may_ask = refused.is_none_or(|(at, _)| at.elapsed() >= ASK_AGAIN);
        let grows = match self.how.growth {
            Growth::Always => may_ask,
            Growth::WithRoom => may_ask && self.sessions.server.room.is_ample(),
            Growth::After(after) => may_ask && started.elapsed() >= after,
        };
        if state.open() == 0 || grows {
            state.opening += 1;
            return Next::Open;
        }
        if place.is_none() {
            let (given, receiver) = oneshot::channel();
            let waiting = Waiting { who: who.to_owned(), purpose: self.how.purpose, place: given };
            match has_waited {
                true => state.waiting.push_front(waiting),
                false => state.waiting.push_back(waiting),
            }
            *place = Some(receiver);
        }
        Next::Wait
    }

    fn none_free(&self) -> Failure {
        let (wait, option) = (self.how.wait, self.how.option);
        let limit = self.sessions.server.room.limit();
        Failure::NoneFree { wait, holders: self.sessions.holders(), option, limit }
    }
}
