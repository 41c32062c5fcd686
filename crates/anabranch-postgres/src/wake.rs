//! LISTEN and NOTIFY: readers learn of new events at once, whichever machine appended them.
//!
//! A NOTIFY takes a lock of the whole server when it commits, so it is never part of an append:
//! one task sends it afterwards, at most every few milliseconds. A lost one costs a reader the wait
//! until its next poll, nothing else.

use crate::connection::Server;
use crate::error::Failure;
use anabranch_store::database::Topic;
use anabranch_store::{Backoff, Namespace};
use futures_util::{StreamExt, stream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client};

/// How long after a NOTIFY the next one may follow.
const NOTIFY_PAUSE: Duration = Duration::from_millis(5);
/// How long a flush waits for a server that does not answer.
const FLUSH_WAIT: Duration = Duration::from_secs(2);
/// How long to wait before connecting again to notify.
const RECONNECT_WAIT: Duration = Duration::from_millis(100);

/// Wakes readers of this process and of others.
pub(crate) struct Wake {
    server: Server,
    namespace: Namespace,
    local: Arc<watch::Sender<u64>>,
    signals: [Arc<watch::Sender<u64>>; Topic::ALL.len()],
    to_notify: Arc<ToNotify>,
    listener: OnceLock<Task>,
    hears: Arc<AtomicBool>,
    notifier: OnceLock<Task>,
}

impl Wake {
    pub(crate) fn new(server: &Server, namespace: &Namespace) -> Self {
        Self {
            server: server.clone(),
            namespace: namespace.clone(),
            local: Arc::new(watch::Sender::new(0)),
            signals: Topic::ALL.map(|_| Arc::new(watch::Sender::new(0))),
            to_notify: Arc::default(),
            listener: OnceLock::new(),
            hears: Arc::default(),
            notifier: OnceLock::new(),
        }
    }

    /// Events have been stored: tell everybody.
    pub(crate) fn appended(&self) {
        self.local.send_modify(|count| *count += 1);
        self.to_notify.asked.fetch_add(1, Ordering::Relaxed);
        self.start_notifying();
    }

    /// Something has been committed that those who care for a topic should look at.
    pub(crate) fn announce(&self, topic: Topic) {
        self.signals[topic as usize].send_modify(|count| *count += 1);
        self.to_notify.topics[topic as usize].store(true, Ordering::Relaxed);
        self.start_notifying();
    }

    fn start_notifying(&self) {
        self.to_notify.wanted.notify_one();
        self.notifier.get_or_init(|| {
            let (server, namespace) = (self.server.clone(), self.namespace.clone());
            Task::spawn(notify(server, namespace, Arc::clone(&self.to_notify)))
        });
    }

    /// Waits until other processes have been told of what was appended, though not for ever.
    pub(crate) async fn flush(&self) {
        let asked = self.to_notify.asked.load(Ordering::Relaxed);
        let mut sent = self.to_notify.sent.subscribe();
        let sent = sent.wait_for(|sent| *sent >= asked);
        let _ = tokio::time::timeout(FLUSH_WAIT, sent).await;
    }

    /// Changes when there may be new events. The first reader starts the listener.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.listen();
        self.local.subscribe()
    }

    /// Changes when somebody has signalled something on a topic.
    pub(crate) fn signals(&self, topic: Topic) -> watch::Receiver<u64> {
        self.listen();
        self.signals[topic as usize].subscribe()
    }

    /// Whether what other processes send arrives.
    pub(crate) fn hears(&self) -> bool {
        self.hears.load(Ordering::Relaxed)
    }

    /// The statement that signals when it commits.
    pub(crate) fn signal_statement(&self, topic: Topic) -> String {
        format!("SELECT pg_notify('{}', '')", topic_channel(&self.namespace, topic))
    }

    fn listen(&self) {
        self.listener.get_or_init(|| {
            let topics = Topic::ALL.map(|topic| {
                let channel = topic_channel(&self.namespace, topic);
                (channel, Arc::clone(&self.signals[topic as usize]))
            });
            let mut channels = vec![(channel(&self.namespace), Arc::clone(&self.local))];
            channels.extend(topics);
            Task::spawn(listen(self.server.clone(), channels, Arc::clone(&self.hears)))
        });
    }
}

/// What the notifier has to do, and what it has done.
struct ToNotify {
    wanted: Notify,
    /// How many appends are to be told of.
    asked: AtomicU64,
    /// Of how many others have been told.
    sent: watch::Sender<u64>,
    topics: [AtomicBool; Topic::ALL.len()],
}

impl Default for ToNotify {
    fn default() -> Self {
        let (asked, sent) = (AtomicU64::new(0), watch::Sender::new(0));
        Self { wanted: Notify::new(), asked, sent, topics: Default::default() }
    }
}

/// The channel of a log.
pub(crate) fn channel(namespace: &Namespace) -> String {
    format!("{namespace}_appended")
}

/// The channel of a topic.
fn topic_channel(namespace: &Namespace, topic: Topic) -> String {
    format!("{namespace}_{}", topic.name())
}

/// A task that ends with its owner.
pub(crate) struct Task(pub(crate) JoinHandle<()>);

impl Task {
    pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(future))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends notifications as they are asked for, over a session of its own.
async fn notify(server: Server, namespace: Namespace, to_notify: Arc<ToNotify>) {
    let mut session: Option<(Client, Task)> = None;
    loop {
        to_notify.wanted.notified().await;
        let asked = to_notify.asked.load(Ordering::Relaxed);
        let (client, driver) = match session.take().filter(|(client, _)| !client.is_closed()) {
            Some(open) => open,
            None => match connect(&server, |_| {}).await {
                Ok(open) => open,
                Err(error) => {
                    // Appends fail and retry by themselves; readers poll.
                    let error = error.at(&server.at);
                    tracing::debug!(%error, "cannot notify other processes");
                    tokio::time::sleep(RECONNECT_WAIT).await;
                    continue;
                }
            },
        };
        // Nothing is stored, so there is nothing to wait for on disk.
        let mut send = "SET synchronous_commit = off".to_owned();
        if *to_notify.sent.borrow() < asked {
            send += &format!("; NOTIFY {}", channel(&namespace));
        }
        for topic in Topic::ALL {
            if to_notify.topics[topic as usize].swap(false, Ordering::Relaxed) {
                send += &format!("; NOTIFY {}", topic_channel(&namespace, topic));
            }
        }
        if client.batch_execute(&send).await.is_ok() {
            session = Some((client, driver));
            to_notify.sent.send_replace(asked);
        }
        tokio::time::sleep(NOTIFY_PAUSE).await;
    }
}

/// Channels, and who is told of what arrives on them.
type Channels = Vec<(String, Arc<watch::Sender<u64>>)>;

/// Listens for ever, with a new session whenever the old one ends.
async fn listen(server: Server, channels: Channels, hears: Arc<AtomicBool>) {
    let mut backoff = Backoff::default();
    loop {
        let ended = listen_once(&server, &channels, &hears).await;
        hears.store(false, Ordering::Relaxed);
        match ended {
            Ok(()) => backoff.end(),
            Err(error) if backoff.complains() => {
                let error = error.at(&server.at);
                tracing::warn!(%error, "cannot listen; readers poll meanwhile");
            }
            Err(_) => {}
        }
        tokio::time::sleep(backoff.wait()).await;
    }
}

/// Listens until the session ends.
async fn listen_once(
    server: &Server,
    channels: &Channels,
    hears: &AtomicBool,
) -> Result<(), Failure> {
    let woken = {
        let channels = channels.clone();
        move |channel: &str| {
            for (_, wake) in channels.iter().filter(|(name, _)| name == channel) {
                wake.send_modify(|count| *count += 1);
            }
        }
    };
    let (client, mut driver) = connect(server, woken.clone()).await?;
    for (channel, _) in channels {
        client.batch_execute(&format!("LISTEN {channel}")).await?;
        // Whatever happened before the LISTEN took effect.
        woken(channel);
    }
    hears.store(true, Ordering::Relaxed);
    let _ = (&mut driver.0).await;
    Ok(())
}

/// A session outside the pools, and the task that drives it.
pub(crate) async fn connect(
    server: &Server,
    woken: impl Fn(&str) + Send + 'static,
) -> Result<(Client, Task), Failure> {
    let (client, connection) = server.open().await?;
    let driver = Task::spawn(async move {
        let mut connection = connection;
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                woken(notification.channel());
            }
        }
    });
    Ok((client, driver))
}
