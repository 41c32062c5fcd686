//! Metrics and health of what runs on one log.

use crate::counted::Counted;
use crate::families::{Families, Format, Labels};
use crate::health::{NotReady, Workers};
use crate::server::Server;
use crate::shown;
use anabranch_core::engine_event::EngineEvent;
use anabranch_runtime::{Consumers, Gauges};
use anabranch_store::{Log, Observer};
use std::future::Future;
use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// How often the process notes that it turns over.
const PULSE: Duration = Duration::from_secs(1);
/// For how long it may not, before it is taken for stuck.
const STUCK: Duration = Duration::from_secs(10);
/// How long an answer waits for the database.
const PATIENCE: Duration = Duration::from_secs(2);
/// How old what was read may be: many may ask.
const FRESH: Duration = Duration::from_secs(1);

/// Metrics and health of what runs on a log, in this process. Cheap to clone.
///
/// Run replica sets on [`log`](Self::log): what happens there is counted, where it happens, so the counts miss
/// nothing. Counts need no database; how far consumers are behind is read from it when somebody asks, of the slots that
/// the workers of this process own.
///
/// ```
/// # async fn f(log: anabranch_store::Log) -> std::io::Result<()> {
/// use anabranch_watch::Watch;
/// let watch = Watch::new(log);
/// let server = watch.listen("127.0.0.1:9090")?; // /metrics, /livez, /readyz
/// let log = watch.log(); // for replica sets and appends
/// # drop((server, log)); Ok(()) }
/// ```
#[derive(Clone)]
pub struct Watch {
    log: Log,
    seen: Arc<Seen>,
    handle: Handle,
    stuck: Duration,
    is_server: bool,
    read: Arc<tokio::sync::Mutex<Option<Read>>>,
}

/// What was read last of the database.
struct Read {
    at: Instant,
    /// Nothing if it did not answer.
    gauges: Option<Gauges>,
}

/// What was seen of the process so far.
struct Seen {
    counted: Mutex<Counted>,
    workers: Mutex<Workers>,
    turned: Mutex<Instant>,
}

/// What is asked of a database, and is not asked any more once nobody waits for the answer.
struct Asked<T>(JoinHandle<T>);

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Counts where it happens.
struct Eyes(Arc<Seen>);

impl Observer for Eyes {
    fn observe(&self, event: &EngineEvent) {
        lock(&self.0.counted).count(event);
        lock(&self.0.workers).saw(event);
    }

    fn at_once(&self) -> bool {
        true
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Watches what runs on a log.
    ///
    /// # Panics
    /// Outside a tokio runtime: whether that one turns over is what `/livez` tells.
    #[must_use]
    pub fn new(log: Log) -> Self {
        let turned = Mutex::new(Instant::now());
        let (counted, workers) = (Mutex::default(), Mutex::default());
        let seen = Arc::new(Seen { counted, workers, turned });
        let log = log.with_observer(Eyes(Arc::clone(&seen)));
        tokio::spawn(turn(Arc::downgrade(&seen)));
        let (handle, read) = (Handle::current(), Arc::default());
        Self { log, seen, handle, stuck: STUCK, is_server: false, read }
    }

    /// For a process that runs no workers: it is ready if its databases answer, and its metrics are of all consumers,
    /// so that slots of dead workers show.
    #[must_use]
    pub fn for_server(mut self) -> Self {
        self.is_server = true;
        self
    }

    /// For how long the process may not turn over before it is taken for stuck; 10 seconds unless said otherwise.
    #[must_use]
    pub fn stuck_after(mut self, time: Duration) -> Self {
        self.stuck = time;
        self
    }

    /// The log that is watched.
    #[must_use]
    pub fn log(&self) -> Log {
        self.log.clone()
    }

    /// Serves `/metrics`, `/livez` and `/readyz`, on a thread of its own, until the server is dropped.
    pub fn listen(&self, address: impl ToSocketAddrs) -> io::Result<Server> {
        self.serve(TcpListener::bind(address)?)
    }

    /// The same on a socket that listens already: one that was bound before anything else, or was handed over.
    pub fn serve(&self, listener: TcpListener) -> io::Result<Server> {
        Server::start(self.clone(), listener)
    }

    /// The metrics as text, for programs that have a server of their own.
    pub async fn metrics(&self, format: Format) -> String {
        let mut families = lock(&self.seen.counted).now();
        let gauges = self.gauges().await;
        self.add_own(&mut families, gauges.is_some());
        if let Some(gauges) = gauges {
            shown::add(&mut families, &gauges);
        }
        families.text(format)
    }

    /// Whether the process turns over. It never asks the database: a restart would not bring that back.
    pub fn live(&self) -> Result<(), NotReady> {
        let ago = lock(&self.seen.turned).elapsed();
        if ago > self.stuck { Err(NotReady::Stuck { ago }) } else { Ok(()) }
    }

    /// Whether it can do its work. Workers: each replica set that the process runs has its worker, which has shown life
    /// within two heartbeats, so it holds its lease; and the log answers, where that is on a server of its own. A server:
    /// its databases answer.
    pub async fn ready(&self) -> Result<(), NotReady> {
        self.live()?;
        if !self.is_server {
            lock(&self.seen.workers).are_ready()?;
        }
        let (asks_log, asks_home) =
            (self.is_server || self.log.is_apart(), self.is_server && self.log.is_apart());
        let log = async {
            if !asks_log {
                return Ok(());
            }
            let log = self.log.clone();
            self.answers(self.log.at(), async move { log.head().await.map(drop) }).await
        };
        let home = async {
            if !asks_home {
                return Ok(());
            }
            let (consumers, at) = (Consumers::new(&self.log), self.log.database());
            self.answers(at.at(), async move { consumers.workers().await.map(drop) }).await
        };
        // Together: a probe has as much patience as one of them takes.
        tokio::try_join!(log, home).map(drop)
    }

    async fn answers<E: std::fmt::Display + Send + 'static>(
        &self,
        at: &str,
        asked: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Result<(), NotReady> {
        let away = |error| NotReady::Unreachable { at: at.to_owned(), error };
        match self.within(asked).await {
            Some(answer) => answer.map_err(|error| away(Some(error.to_string()))),
            None => Err(away(None)),
        }
    }

    /// What is read from the database, a second old at most; nothing if it does not answer. Those who ask while
    /// somebody waits for an answer get the same, also if whoever asked first has gone: clients that come and go ask the
    /// database no more often than others.
    async fn gauges(&self) -> Option<Gauges> {
        let mut read = Arc::clone(&self.read).lock_owned().await;
        if let Some(Read { at, gauges }) = &*read
            && at.elapsed() < FRESH
        {
            return gauges.clone();
        }
        let workers = (!self.is_server).then(|| lock(&self.seen.workers).ids());
        let (watch, log) = (self.clone(), self.log.clone());
        let asked = async move { shown::read(&log, workers.as_deref()).await };
        let reads = async move {
            let gauges = watch.within(asked).await.flatten();
            *read = Some(Read { at: Instant::now(), gauges: gauges.clone() });
            gauges
        };
        tokio::spawn(reads).await.ok().flatten()
    }

    /// Asks on the runtime of the log: this one may be another. Nothing comes if the time is over.
    async fn within<T: Send + 'static>(
        &self,
        asked: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let mut task = Asked(self.handle.spawn(asked));
        tokio::time::timeout(PATIENCE, &mut task.0).await.ok()?.ok()
    }

    fn add_own(&self, families: &mut Families, is_up: bool) {
        let dropped = self.log.events().dropped();
        families.add("anabranch_observer_dropped_total", Labels::new(), dropped as f64);
        for (of, sessions) in self.log.open_sessions() {
            let labels = vec![("use", of.into())];
            families.set("anabranch_sessions", labels, sessions as f64);
        }
        families.set("anabranch_database_up", Labels::new(), f64::from(u8::from(is_up)));
        let version = vec![("version", env!("CARGO_PKG_VERSION").into())];
        families.set("anabranch_build_info", version, 1.0);
    }
}

/// Notes that the runtime turns over, as long as somebody watches.
async fn turn(seen: Weak<Seen>) {
    while let Some(seen) = seen.upgrade() {
        *lock(&seen.turned) = Instant::now();
        drop(seen);
        tokio::time::sleep(PULSE).await;
    }
}
