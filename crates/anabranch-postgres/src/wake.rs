//! LISTEN and NOTIFY: readers learn of new events at once, whichever machine appended them.
//!
//! A NOTIFY takes a lock of the whole server when it commits, so it is never part of an append:
//! one task sends it afterwards, at most every few milliseconds. A lost one costs a reader the wait
//! until its next poll, nothing else.

use crate::error::Failure;
use crate::link::{Ears, Link, Task, to_the_end};
use anabranch_store::Namespace;
use anabranch_store::database::Topic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How long after a NOTIFY the next one may follow.
const NOTIFY_PAUSE: Duration = Duration::from_millis(5);
/// How long a flush waits for a server that does not answer.
const FLUSH_WAIT: Duration = Duration::from_secs(2);
/// How long to wait before the next try to notify.
const AGAIN: Duration = Duration::from_millis(100);

/// Wakes readers of this process and of others. All handles of a log in a process share it.
pub(crate) struct Wake {
    link: Arc<Link>,
    namespace: Namespace,
    local: Ears,
    signals: [Ears; Topic::ALL.len()],
    to_notify: Arc<ToNotify>,
    /// The number of what it asked the link to listen to.
    listens: OnceLock<u64>,
    notifier: OnceLock<Task>,
}

impl Wake {
    pub(crate) fn new(link: &Arc<Link>, namespace: &Namespace) -> Self {
        Self {
            link: Arc::clone(link),
            namespace: namespace.clone(),
            local: Arc::new(watch::Sender::new(0)),
            signals: Topic::ALL.map(|_| Arc::new(watch::Sender::new(0))),
            to_notify: Arc::default(),
            listens: OnceLock::new(),
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
            let (link, namespace) = (Arc::clone(&self.link), self.namespace.clone());
            let notify = notify(link, namespace, Arc::clone(&self.to_notify));
            Task::spawn(self.link.home(), notify)
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
        self.listens.get().is_some_and(|listens| self.link.hears(*listens))
    }

    /// The statement that signals when it commits.
    pub(crate) fn signal_statement(&self, topic: Topic) -> String {
        format!("SELECT pg_notify('{}', '')", topic_channel(&self.namespace, topic))
    }

    fn listen(&self) {
        self.listens.get_or_init(|| {
            let listen = |(channel, ears): (String, &Ears)| self.link.listen(&channel, ears);
            self.channels().map(listen).max().unwrap_or_default()
        });
    }

    fn channels(&self) -> impl Iterator<Item = (String, &Ears)> {
        let topics = Topic::ALL
            .into_iter()
            .map(|topic| (topic_channel(&self.namespace, topic), &self.signals[topic as usize]));
        std::iter::once((channel(&self.namespace), &self.local)).chain(topics)
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        if self.listens.get().is_some() {
            self.channels().for_each(|(channel, ears)| self.link.unlisten(&channel, ears));
        }
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

/// Sends notifications as they are asked for.
async fn notify(link: Arc<Link>, namespace: Namespace, to_notify: Arc<ToNotify>) {
    loop {
        to_notify.wanted.notified().await;
        let once = notify_once(Arc::clone(&link), namespace.clone(), Arc::clone(&to_notify));
        // It may be cut off at any time, with the last handle of its log.
        if let Err(failure) = to_the_end(once).await {
            // Appends fail and retry by themselves; readers poll.
            tracing::debug!(?failure, "cannot notify other processes");
            tokio::time::sleep(AGAIN).await;
        }
        tokio::time::sleep(NOTIFY_PAUSE).await;
    }
}

/// Sends what is to be sent now.
async fn notify_once(
    link: Arc<Link>,
    namespace: Namespace,
    to_notify: Arc<ToNotify>,
) -> Result<(), Failure> {
    let lease = link.lend().await?;
    let asked = to_notify.asked.load(Ordering::Relaxed);
    // Nothing is stored, so there is nothing to wait for on disk.
    let mut send = "BEGIN; SET LOCAL synchronous_commit = off".to_owned();
    if *to_notify.sent.borrow() < asked {
        send += &format!("; NOTIFY {}", channel(&namespace));
    }
    for topic in Topic::ALL {
        if to_notify.topics[topic as usize].swap(false, Ordering::Relaxed) {
            send += &format!("; NOTIFY {}", topic_channel(&namespace, topic));
        }
    }
    send += "; COMMIT";
    link.in_time(lease.session().batch_execute(&send)).await?;
    lease.give_back();
    to_notify.sent.send_replace(asked);
    Ok(())
}
