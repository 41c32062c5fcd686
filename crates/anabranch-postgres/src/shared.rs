//! The sessions that all logs and all replica sets of a process share, where they go to the same database
//! as the same user: four, beside those of lanes at work.
//!
//! | session | for |
//! |---|---|
//! | the link | listens, notifies, shows the life of all workers, takes their heartbeats |
//! | control | claims, generations, commands |
//! | the watcher | watches workers of other processes |
//! | work | reads and appends; more of them while there is work and ample room |
//!
//! The lanes of each set have sessions of their own, which nobody else can use up; so have transactions of
//! callers.

use crate::background::Task;
use crate::connection::Server;
use crate::error::Failure;
use crate::life::Watcher;
use crate::link::{Ears, Link};
use crate::look_alikes;
use crate::pool::{Growth, Pool, Sessions, Use};
use crate::session::{Purpose, lock};
use crate::wake::Wake;
use anabranch_core::StoreError;
use anabranch_store::{Durability, Namespace};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Id};
use tokio::sync::{OnceCell, watch};

/// How long a session may be idle before it is closed, less where the server has little room, and how often
/// that is looked at.
const IDLE: Duration = Duration::from_secs(3);
const IDLE_IN_LITTLE_ROOM: Duration = Duration::from_secs(1);
const SWEEP: Duration = Duration::from_millis(500);
/// How often others are asked to close what they do not need.
const ASK: Duration = Duration::from_secs(1);
/// Control work is short, so a set waits for the session that another one uses; a claim that waits for
/// somebody's lock does not hold up other sets for longer than this.
const CONTROL_PATIENCE: Duration = Duration::from_secs(1);
/// How long a lane waits for its turn: others of its set may be at work for long.
const LANE_WAIT: Duration = Duration::from_secs(60);

/// The channel on which processes ask each other for connections, whichever logs they have.
const WANTED: &str = "anabranch_sessions_wanted";

/// What makes sessions interchangeable. Their tasks belong to the runtime that opened them.
#[derive(PartialEq)]
struct Key {
    url: String,
    durability: Durability,
    tracing: bool,
    runtime: Id,
}

/// The sessions that a process shares.
pub(crate) struct Shared {
    pub(crate) server: Server,
    pub(crate) link: Arc<Link>,
    control: Arc<Sessions>,
    pub(crate) watcher: Arc<Watcher>,
    /// Sessions that read and append.
    pub(crate) work: Arc<Sessions>,
    /// The sessions of lanes, set by set.
    lanes: Mutex<Vec<Weak<Sessions>>>,
    wakes: Mutex<HashMap<String, Weak<Wake>>>,
    /// How many workers there are.
    workers: Mutex<usize>,
    /// Workers start one after the other: what one gives back, another is not about to rely on.
    pub(crate) starting: tokio::sync::Mutex<()>,
    suitable: OnceCell<()>,
    /// What others ask for.
    wanted: Ears,
    sweeper: OnceLock<Task>,
}

/// All that this process shares.
static ALL: Mutex<Vec<(Key, Weak<Shared>)>> = Mutex::new(Vec::new());

impl Shared {
    /// Those of this process for a URL.
    pub(crate) fn of(
        url: &str,
        durability: Durability,
        tracing: bool,
    ) -> Result<Arc<Self>, StoreError> {
        let (url_text, runtime) = (url.to_owned(), Handle::current().id());
        let key = Key { url: url_text, durability, tracing, runtime };
        let mut all = lock(&ALL);
        all.retain(|(_, shared)| shared.strong_count() > 0);
        let known = all.iter().find(|(known, _)| *known == key);
        if let Some(shared) = known.and_then(|(_, shared)| shared.upgrade()) {
            return Ok(shared);
        }
        let shared = Arc::new(Self::new(Server::parse(url, durability, tracing)?));
        all.push((key, Arc::downgrade(&shared)));
        drop(all);
        let sweep = sweep(Arc::downgrade(&shared));
        shared.sweeper.get_or_init(|| Task::spawn(&shared.server.home, sweep));
        Ok(shared)
    }

    fn new(server: Server) -> Self {
        Self {
            link: Arc::new(Link::new(&server)),
            control: Sessions::new(server.clone(), 0),
            watcher: Arc::new(Watcher::new(&server)),
            work: Sessions::new(server.clone(), 1),
            lanes: Mutex::default(),
            wakes: Mutex::default(),
            workers: Mutex::new(0),
            starting: tokio::sync::Mutex::default(),
            suitable: OnceCell::new(),
            wanted: Arc::new(watch::Sender::new(0)),
            sweeper: OnceLock::new(),
            server,
        }
    }

    /// Refuses what only looks like PostgreSQL, the first time.
    pub(crate) async fn check(&self) -> Result<(), Failure> {
        let check = async {
            let first = look_alikes::check(&self.server).await?;
            self.work.add(first);
            Ok(())
        };
        self.suitable.get_or_try_init(|| check).await.map(drop)
    }

    /// Sessions for the lanes of a set.
    pub(crate) fn lanes(&self, limit: usize) -> Pool {
        let sessions = Sessions::new(self.server.clone(), 0);
        let mut lanes = lock(&self.lanes);
        lanes.retain(|sessions| sessions.strong_count() > 0);
        lanes.push(Arc::downgrade(&sessions));
        sessions.lent_as(Use {
            purpose: Purpose::Effects,
            limit,
            growth: Growth::Always,
            wait: LANE_WAIT,
            option: "Options::sessions",
        })
    }

    /// The session for control, for one set: one use at a time.
    pub(crate) fn control(&self) -> Pool {
        self.control.lent_as(Use {
            purpose: Purpose::Effects,
            limit: 1,
            growth: Growth::After(CONTROL_PATIENCE),
            wait: LANE_WAIT,
            option: "max_connections",
        })
    }

    /// Who wakes the readers of a log.
    pub(crate) fn wake(&self, namespace: &Namespace) -> Arc<Wake> {
        let mut wakes = lock(&self.wakes);
        wakes.retain(|_, wake| wake.strong_count() > 0);
        if let Some(wake) = wakes.get(namespace.as_str()).and_then(Weak::upgrade) {
            return wake;
        }
        let wake = Arc::new(Wake::new(&self.link, namespace));
        wakes.insert(namespace.to_string(), Arc::downgrade(&wake));
        wake
    }

    /// Opens the four that a worker cannot do without, and keeps them open.
    pub(crate) async fn secure(self: &Arc<Self>) -> Result<Secured, Failure> {
        let secured = Secured::new(self);
        // At the same time, so that it takes no longer than one.
        tokio::try_join!(
            self.link.ready(),
            self.watcher.ready(),
            opened(self.control()),
            opened(self.work.lent_as(READING)),
        )?;
        Ok(secured)
    }

    /// Closes all that nobody uses: a worker that waits for connections holds none meanwhile, or each of
    /// many would keep a few that are enough for nobody. What other workers here run on stays.
    pub(crate) fn give_back(&self) {
        if *lock(&self.workers) > 0 {
            return;
        }
        self.work.keep(0);
        self.close_idle(Duration::ZERO);
        self.link.rest();
    }

    /// How many sessions are open, by what they are for.
    pub(crate) fn open(&self) -> BTreeMap<&'static str, usize> {
        let lanes: Vec<_> = lock(&self.lanes).iter().filter_map(Weak::upgrade).collect();
        let work = self.work.purposes();
        let appends = work.iter().filter(|purpose| **purpose == Purpose::Append).count();
        BTreeMap::from([
            ("link", usize::from(self.link.is_open())),
            ("control", self.control.purposes().len()),
            ("watch", usize::from(self.watcher.is_open())),
            ("reads", work.len() - appends),
            ("appends", appends),
            ("lanes", lanes.iter().map(|lanes| lanes.purposes().len()).sum()),
        ])
    }

    /// Closes what has been idle for so long, in all pools.
    fn close_idle(&self, idle_for: Duration) {
        self.work.close_idle(idle_for);
        self.control.close_idle(idle_for);
        let lanes: Vec<_> = lock(&self.lanes).iter().filter_map(Weak::upgrade).collect();
        lanes.iter().for_each(|lanes| lanes.close_idle(idle_for));
    }
}

/// Sees that a pool has a session.
pub(crate) async fn opened(pool: Pool) -> Result<(), Failure> {
    pool.get("a worker that starts").await?.give_back();
    Ok(())
}

/// How the log reads: more sessions while the server has ample room.
pub(crate) const READING: Use = Use {
    purpose: Purpose::Read,
    limit: 1,
    growth: Growth::WithRoom,
    wait: Duration::from_secs(5),
    option: "Options::readers",
};

/// The four sessions stay open for a worker until this is dropped.
pub(crate) struct Secured {
    shared: Arc<Shared>,
}

impl Secured {
    fn new(shared: &Arc<Shared>) -> Self {
        let mut workers = lock(&shared.workers);
        *workers += 1;
        if *workers == 1 {
            shared.control.keep(1);
            shared.work.keep(1);
            shared.watcher.stay(true);
            shared.link.listen(WANTED, &shared.wanted);
        }
        Self { shared: Arc::clone(shared) }
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        let shared = &self.shared;
        let mut workers = lock(&shared.workers);
        *workers -= 1;
        if *workers == 0 {
            shared.control.keep(0);
            shared.watcher.stay(false);
            shared.link.unlisten(WANTED, &shared.wanted);
        }
    }
}

/// Closes idle sessions: after a while, and at once when somebody needs them.
async fn sweep(shared: Weak<Shared>) {
    let (room, wanted) = match shared.upgrade() {
        Some(shared) => (Arc::clone(&shared.server.room), Arc::clone(&shared.wanted)),
        None => return,
    };
    let mut wanted = wanted.subscribe();
    let mut asked: Option<Instant> = None;
    loop {
        let mut is_short = false;
        let mut idle = if room.is_tight() { IDLE_IN_LITTLE_ROOM } else { IDLE };
        tokio::select! {
            () = tokio::time::sleep(SWEEP) => {}
            () = room.wanted.notified() => is_short = true,
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                room.is_asked_for();
                idle = Duration::ZERO;
            }
        }
        let Some(shared) = shared.upgrade() else { return };
        shared.close_idle(idle);
        if is_short && asked.is_none_or(|at| at.elapsed() >= ASK) {
            asked = Some(Instant::now());
            ask(&shared).await;
        }
    }
}

/// Tells other processes that connections are short, if there is a session to say it with.
async fn ask(shared: &Shared) {
    if !shared.link.is_open() {
        return;
    }
    let Ok(lease) = shared.link.borrow().await else { return };
    let notify = format!("NOTIFY {WANTED}");
    if shared.server.in_time(lease.session().batch_execute(&notify)).await.is_ok() {
        lease.give_back();
    }
}
