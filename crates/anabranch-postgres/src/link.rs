//! The one session of a process that is always there while something needs it: it listens, it notifies, it
//! shows the life of every worker of the process, and it takes their heartbeats, so that nothing else can
//! hold those up.
//!
//! What it should listen to and whose life it should show is kept here. One task opens the session, brings
//! it to that state, and does so again whenever the session is lost.

use crate::background::Task;
use crate::connection::{Server, rows};
use crate::error::Failure;
use crate::look_alikes;
use crate::room::{self, Room, Seen};
use crate::session::{Connection, Lease, Lender, Lent, Permit, lock};
use anabranch_core::engine_event::{Happening, Notice, OutageOf};
use anabranch_store::database::{Answer, Statement};
use anabranch_store::{Backoff, Home};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// How soon a lock that another session still holds is tried again: of a cut connection, as a rule, that the
/// server has not noticed yet.
const TRY_AGAIN: Duration = Duration::from_millis(20);
/// How long a heartbeat waits for the session to be there again.
const LINK_WAIT: Duration = Duration::from_secs(3);
/// A session that ended sooner than this is not opened again at once.
const SHORT_LIVED: Duration = Duration::from_secs(1);

/// A lock that shows the life of a worker: class and key.
pub(crate) type Life = (i32, i32);
/// Who is told of what arrives on a channel.
pub(crate) type Ears = Arc<watch::Sender<u64>>;

/// The session that listens and shows life.
pub(crate) struct Link {
    inner: Arc<Inner>,
    task: OnceLock<Task>,
}

struct Inner {
    server: Server,
    wants: Mutex<Wants>,
    changed: Notify,
    now: watch::Sender<Now>,
    /// One use at a time: a heartbeat is a transaction.
    alone: Arc<tokio::sync::Mutex<()>>,
    /// What the session holds. Changes only under `alone`.
    held: Mutex<Held>,
}

/// What should be.
#[derive(Default)]
struct Wants {
    version: u64,
    channels: BTreeMap<String, Vec<Ears>>,
    lives: BTreeSet<Life>,
    /// Nobody needs the session for anything else: it is closed until somebody does.
    rests: bool,
}

/// What is, of a session.
#[derive(Clone, Default)]
struct Held {
    channels: BTreeSet<String>,
    lives: BTreeSet<Life>,
}

/// How it stands.
#[derive(Clone, Default)]
struct Now {
    connection: Option<Arc<Connection>>,
    /// Up to which version of what should be it listens.
    done: u64,
    /// Whose life it shows.
    lives: BTreeSet<Life>,
    /// How often it has failed, and how the last time.
    failures: u64,
    failure: Option<Failure>,
}

/// A worker shows its life until this is dropped.
pub(crate) struct Shown {
    inner: Arc<Inner>,
    life: Life,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.inner.change(|wants| {
            wants.lives.remove(&self.life);
        });
    }
}

impl Link {
    pub(crate) fn new(server: &Server) -> Self {
        let inner = Inner {
            server: server.clone(),
            wants: Mutex::default(),
            changed: Notify::new(),
            now: watch::Sender::default(),
            alone: Arc::default(),
            held: Mutex::default(),
        };
        Self { inner: Arc::new(inner), task: OnceLock::new() }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.inner.server
    }

    fn start(&self) {
        if std::mem::take(&mut lock(&self.inner.wants).rests) {
            self.inner.changed.notify_one();
        }
        self.task.get_or_init(|| Task::spawn(self.home(), keep(Arc::clone(&self.inner))));
    }

    /// Where all that it does is done.
    pub(crate) fn home(&self) -> &Home {
        &self.inner.server.home
    }

    /// Closes the session until somebody needs it, unless it listens to something or shows a life.
    pub(crate) fn rest(&self) {
        lock(&self.inner.wants).rests = true;
        self.inner.changed.notify_one();
    }

    /// Whether the session is there.
    pub(crate) fn is_open(&self) -> bool {
        self.inner.now.borrow().connection.is_some()
    }

    /// Tells somebody of what arrives on a channel; returns a number for [`hears`](Self::hears).
    pub(crate) fn listen(&self, channel: &str, ears: &Ears) -> u64 {
        let listen = |wants: &mut Wants| {
            wants.channels.entry(channel.to_owned()).or_default().push(Arc::clone(ears));
        };
        let version = self.inner.change(listen);
        self.start();
        version
    }

    pub(crate) fn unlisten(&self, channel: &str, ears: &Ears) {
        self.inner.change(|wants| {
            let Some(all) = wants.channels.get_mut(channel) else { return };
            all.retain(|other| !Arc::ptr_eq(other, ears));
            if all.is_empty() {
                wants.channels.remove(channel);
            }
        });
    }

    /// Whether what was asked for by then is so.
    pub(crate) fn hears(&self, version: u64) -> bool {
        let now = self.inner.now.borrow();
        now.connection.is_some() && now.done >= version
    }

    /// Shows the life of a worker. Locks of other workers that somebody still holds are not its concern.
    pub(crate) async fn show(&self, life: Life) -> Result<Shown, Failure> {
        self.inner.server.runs().await?;
        self.inner.change(|wants| {
            wants.lives.insert(life);
        });
        let shown = Shown { inner: Arc::clone(&self.inner), life };
        self.start();
        let wait = self.inner.server.silence;
        match timeout(wait, self.inner.reached(|now| now.lives.contains(&life))).await {
            Ok(reached) => reached.map(|_| shown),
            Err(_) if self.is_open() => Err(Failure::LifeHeld(wait)),
            Err(_) => Err(Failure::NotThere(wait)),
        }
    }

    /// Waits until the session is there.
    pub(crate) async fn ready(&self) -> Result<(), Failure> {
        self.inner.server.runs().await?;
        self.start();
        let wait = self.inner.server.silence;
        let reached = timeout(wait, self.inner.reached(|_| true)).await;
        reached.unwrap_or(Err(Failure::NotThere(wait))).map(drop)
    }

    /// The session, for a heartbeat or a notification.
    pub(crate) async fn lend(&self) -> Lent {
        self.start();
        self.borrow().await
    }

    /// The session, if it is there without this.
    pub(crate) async fn borrow(&self) -> Lent {
        let inner = &self.inner;
        inner.server.runs().await?;
        let opened = async {
            loop {
                let connection = inner.reached(|_| true).await?;
                let alone = Arc::clone(&inner.alone).lock_owned().await;
                if !connection.is_closed() {
                    return Ok::<_, Failure>((connection, alone));
                }
            }
        };
        match timeout(LINK_WAIT, opened).await {
            Ok(Ok((connection, alone))) => {
                let lender = Arc::clone(inner) as Arc<dyn Lender>;
                Ok(Lease::new(connection, 0, lender, Some(Permit::Alone(alone))))
            }
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::NotThere(LINK_WAIT)),
        }
    }

    /// Waits for an answer of the session, though not for ever.
    pub(crate) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Failure> {
        self.inner.server.in_time(work).await
    }

    /// What to make sure of with a heartbeat on the session, for whoever has it on loan.
    pub(crate) fn check(&self, session: &Connection) -> Check {
        Check { pid: session.pid, lives: lock(&self.inner.held).lives.len() }
    }
}

impl Inner {
    fn change(&self, change: impl FnOnce(&mut Wants)) -> u64 {
        let mut wants = lock(&self.wants);
        change(&mut wants);
        wants.version += 1;
        let version = wants.version;
        drop(wants);
        self.changed.notify_one();
        version
    }

    /// Whether there is a reason for a session.
    fn is_needed(&self) -> bool {
        let wants = lock(&self.wants);
        !wants.rests || !wants.channels.is_empty() || !wants.lives.is_empty()
    }

    /// The session once it is as somebody needs it; an error if it cannot be opened.
    async fn reached(&self, is_so: impl Fn(&Now) -> bool) -> Result<Arc<Connection>, Failure> {
        let mut now = self.now.subscribe();
        let failures = now.borrow().failures;
        loop {
            {
                let now = now.borrow_and_update();
                match &now.connection {
                    Some(open) if is_so(&now) && !open.is_closed() => {
                        return Ok(Arc::clone(open));
                    }
                    None if now.failures > failures => {
                        return Err(now.failure.clone().unwrap_or(Failure::NotThere(LINK_WAIT)));
                    }
                    _ => {}
                }
            }
            // It ends with the process' sessions only.
            let _ = now.changed().await;
        }
    }

    fn wake(&self, channel: &str) {
        if let Some(ears) = lock(&self.wants).channels.get(channel) {
            ears.iter().for_each(|ears| ears.send_modify(|count| *count += 1));
        }
    }

    /// Brings a session to what should be; whether it is. It is not while somebody still holds a lock.
    async fn apply(&self, connection: &Connection) -> Result<bool, Failure> {
        let _alone = self.alone.lock().await;
        let (version, channels, lives) = {
            let wants = lock(&self.wants);
            let channels: BTreeSet<String> = wants.channels.keys().cloned().collect();
            (wants.version, channels, wants.lives.clone())
        };
        let held = lock(&self.held).clone();
        let mut statements = String::new();
        for channel in held.channels.difference(&channels) {
            statements += &format!("UNLISTEN {channel};");
        }
        for channel in channels.difference(&held.channels) {
            statements += &format!("LISTEN {channel};");
        }
        for (class, key) in held.lives.difference(&lives) {
            statements += &format!("SELECT pg_advisory_unlock({class}, {key}) AS unlocked;");
        }
        let wanted: Vec<Life> = lives.difference(&held.lives).copied().collect();
        // Never a wait: it would hold up all that is done here.
        for (class, key) in &wanted {
            statements += &format!("SELECT pg_try_advisory_lock({class}, {key}) AS locked;");
        }
        let mut missing = 0;
        if !statements.is_empty() {
            let answers = self.server.in_time(connection.simple_query(&statements)).await?;
            let locked = rows(&answers).filter_map(|row| row.try_get("locked").ok().flatten());
            let mut now =
                Held { channels, lives: held.lives.intersection(&lives).copied().collect() };
            for (life, locked) in wanted.iter().zip(locked) {
                match locked {
                    "t" => {
                        now.lives.insert(*life);
                    }
                    _ => missing += 1,
                }
            }
            // Whatever happened before it listened.
            now.channels.difference(&held.channels).for_each(|channel| self.wake(channel));
            *lock(&self.held) = now;
        }
        let lives = lock(&self.held).lives.clone();
        self.now.send_modify(|now| {
            now.done = now.done.max(version);
            now.lives = lives;
        });
        Ok(missing == 0)
    }

    fn failed(&self, failure: Failure) {
        self.now.send_modify(|now| {
            now.connection = None;
            now.failures += 1;
            now.failure = Some(failure);
        });
    }
}

impl Lender for Inner {
    fn returned(&self, _: u64, _: Arc<Connection>) {}

    /// It is opened anew.
    fn lost(&self, _: u64) {}
}

/// Keeps the session as it should be for as long as the process has use for it.
async fn keep(inner: Arc<Inner>) {
    let mut backoff = Backoff::default();
    loop {
        while !inner.is_needed() {
            inner.changed.notified().await;
        }
        let opened = Instant::now();
        if let Err(failure) = keep_once(&inner, &mut backoff).await {
            let error = failure.at(&inner.server.at);
            inner.server.events.outage(&mut backoff, OutageOf::Listener, &error);
            inner.failed(failure);
            tokio::time::sleep(backoff.wait()).await;
            continue;
        }
        let detail = format!("at={}", inner.server.at);
        inner.server.events.emit(Happening::noticed(Notice::ListenerGone, detail));
        inner.now.send_modify(|now| now.connection = None);
        backoff.end();
        if opened.elapsed() < SHORT_LIVED {
            tokio::time::sleep(backoff.wait()).await;
        }
    }
}

/// Opens the session and keeps it as it should be until it is gone.
async fn keep_once(inner: &Arc<Inner>, backoff: &mut Backoff) -> Result<(), Failure> {
    let woken = {
        let inner: Weak<Inner> = Arc::downgrade(inner);
        move |channel: &str| {
            if let Some(inner) = inner.upgrade() {
                inner.wake(channel);
            }
        }
    };
    let connection = Arc::new(inner.server.open_listening(woken).await?);
    // Idle for as long as the process lives, and on purpose.
    let stay =
        "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'";
    let stayed = inner.server.in_time(connection.batch_execute(stay)).await;
    *lock(&inner.held) = Held::default();
    let mut failed = stayed.err();
    while inner.is_needed() {
        let is_done = match failed.take() {
            None => inner.apply(&connection).await,
            Some(failure) => Err(failure),
        };
        let is_done = match is_done {
            // It was cut: that says nothing about the next one.
            Err(failure) if failure.is_cut() => return Ok(()),
            done => done?,
        };
        let is_published = inner
            .now
            .borrow()
            .connection
            .as_ref()
            .is_some_and(|open| Arc::ptr_eq(open, &connection));
        if !is_published {
            inner.now.send_modify(|now| now.connection = Some(Arc::clone(&connection)));
            inner.server.events.outage_over(backoff, OutageOf::Listener);
        }
        let again = if is_done { Duration::MAX } else { TRY_AGAIN };
        tokio::select! {
            () = inner.changed.notified() => {}
            () = tokio::time::sleep(again) => {}
            () = connection.until_closed() => return Ok(()),
        }
    }
    Ok(())
}

/// What is asked of the session that shows life together with a heartbeat: whether it is still the one that
/// it was, and how much room the server has.
pub(crate) struct Check {
    pid: i32,
    lives: usize,
}

impl Check {
    pub(crate) fn statement() -> Statement {
        let check = format!(
            "SELECT pg_backend_pid() AS pid, (SELECT count(*)::int FROM pg_locks \
             WHERE locktype = 'advisory' AND objsubid = 2 AND mode = 'ExclusiveLock' AND granted \
             AND pid = pg_backend_pid()) AS lives, room.* FROM ({}) AS room",
            room::LOOK
        );
        Statement::query(check, Vec::new())
    }

    /// What the session answered.
    pub(crate) fn answered(&self, answer: &Answer, room: &Room) -> Result<(), Failure> {
        let number = |name| answer.rows.first().and_then(|row| row.get::<i32>(name).ok());
        if let (Some(most), Some(reserved), Some(used)) =
            (number("most"), number("reserved"), number("used"))
        {
            room.saw(Seen { most, reserved, used });
        }
        let Self { pid, lives } = self;
        match (number("pid"), number("lives")) {
            (Some(now), _) if now != *pid => Err(look_alikes::pooled(format!(
                "the session that shows life began in server process {pid} and is now in {now}"
            ))),
            (_, Some(now)) if (now as usize) < *lives => Err(look_alikes::pooled(format!(
                "the session that shows life has {now} of its {lives} locks left"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_store::{Row, Value};

    #[test]
    fn a_session_that_is_another_or_has_lost_a_lock_is_refused() {
        let columns: Arc<[String]> =
            ["pid", "lives", "most", "reserved", "used"].map(str::to_owned).into();
        let room = Room::default();
        let said = |pid: i32, lives: i32| {
            let values = [pid, lives, 100, 3, 50].map(Value::from).to_vec();
            let rows = vec![Row::new(Arc::clone(&columns), values)];
            let answered = Check { pid: 7, lives: 2 }.answered(&Answer { changed: 1, rows }, &room);
            answered.map_err(|failure| failure.at("x").to_string())
        };
        assert_eq!(said(7, 2), Ok(()));
        assert!(said(8, 2).unwrap_err().contains("began in server process 7 and is now in 8"));
        assert!(said(7, 1).unwrap_err().contains("has 1 of its 2 locks left"));
        assert_eq!(room.seen(), Some(Seen { most: 100, reserved: 3, used: 50 }));
    }
}
