//! LISTEN and NOTIFY: readers learn of new events at once, whichever machine appended them.
//!
//! A NOTIFY takes a lock of the whole server when it commits, so it is never part of an append:
//! one task sends it afterwards, at most every few milliseconds. What it has not sent when the last handle of
//! the log is dropped, as a program does that ends, is sent then. A lost one costs a reader the wait until its
//! next poll, nothing else.

use crate::background::{Task, to_the_end};
use crate::connection::Server;
use crate::error::Failure;
use crate::link::{Ears, Link};
use anabranch_core::{Happening, Notice};
use anabranch_store::Namespace;
use anabranch_store::database::Topic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How long after a NOTIFY the next one may follow.
const NOTIFY_PAUSE: Duration = Duration::from_millis(5);
/// … and while events are stored without a pause: as long as this, after so many. Where many processes append all the
/// time, their notifications would be a good part of what the server does.
const NOTIFY_PAUSE_BUSY: Duration = Duration::from_millis(20);
const BUSY_AFTER: u32 = 20;
/// How long a flush waits for a server that does not answer.
const FLUSH_WAIT: Duration = Duration::from_secs(2);
/// How long a process that ends waits for it.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// The channel of appends, and those of the topics.
const CHANNELS: usize = 1 + Topic::ALL.len();
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
    /// Whether nothing is to be said at the end.
    gave_up: AtomicBool,
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
            gave_up: AtomicBool::new(false),
        }
    }

    /// Events have been stored: tell everybody.
    pub(crate) fn appended(&self) {
        self.local.send_modify(|count| *count += 1);
        self.to_notify.asked[0].fetch_add(1, Ordering::Relaxed);
        self.start_notifying();
    }

    /// Something has been committed that those who care for a topic should look at.
    pub(crate) fn announce(&self, topic: Topic) {
        self.signals[topic as usize].send_modify(|count| *count += 1);
        self.to_notify.asked[1 + topic as usize].fetch_add(1, Ordering::Relaxed);
        self.start_notifying();
    }

    fn start_notifying(&self) {
        self.gave_up.store(false, Ordering::Relaxed);
        self.to_notify.wanted.notify_one();
        self.notifier.get_or_init(|| {
            let (link, namespace) = (Arc::clone(&self.link), self.namespace.clone());
            let notify = notify(link, namespace, Arc::clone(&self.to_notify));
            Task::spawn(self.link.home(), notify)
        });
    }

    /// Waits until other processes have been told of what was appended or signalled, though not for ever. Whether
    /// they have.
    pub(crate) async fn flush(&self) -> bool {
        let asked = self.to_notify.asked();
        let mut sent = self.to_notify.sent.subscribe();
        let sent = sent.wait_for(|sent| sent.iter().zip(asked).all(|(sent, asked)| *sent >= asked));
        tokio::time::timeout(FLUSH_WAIT, sent).await.is_ok_and(|sent| sent.is_ok())
    }

    /// The same, and what could not be sent is not said at the end either: that would block a thread.
    pub(crate) async fn close(&self) {
        if !self.flush().await {
            self.link.server().events.emit(Happening::noticed(Notice::NotNotifiedAtEnd, None));
            self.gave_up.store(true, Ordering::Relaxed);
        }
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
        if *self.gave_up.get_mut() {
            return;
        }
        if let (Some(send), _) = self.to_notify.due(&self.namespace) {
            last_word(self.link.server().clone(), send);
        }
    }
}

/// Sends what is still to be sent, although the program may end with whoever waits here: on a thread, since the
/// runtime ends too, and on a session of its own, since the others are the runtime's.
fn last_word(server: Server, send: String) {
    let (done, wait) = mpsc::channel();
    let events = server.events.clone();
    let say = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let said = runtime.map(|runtime| {
            let say = async {
                // Its own runtime may have ended, or waits for this one.
                let server = server.moved_here();
                server.in_time(server.open().await?.batch_execute(&send)).await
            };
            runtime.block_on(async { tokio::time::timeout(LAST_WAIT, say).await })
        });
        if !matches!(said, Ok(Ok(Ok(())))) {
            events.emit(Happening::noticed(Notice::NotNotifiedAtEnd, None));
        }
        let _ = done.send(());
    };
    let thread = std::thread::Builder::new().name("anabranch-last-word".to_owned()).spawn(say);
    if thread.is_ok() {
        let _ = wait.recv_timeout(LAST_WAIT);
    }
}

/// What the notifier has to do, and what it has done.
struct ToNotify {
    wanted: Notify,
    /// Of how much is to be told on each channel.
    asked: [AtomicU64; CHANNELS],
    /// Of how much others have been told.
    sent: watch::Sender<[u64; CHANNELS]>,
}

impl Default for ToNotify {
    fn default() -> Self {
        let sent = watch::Sender::new([0; CHANNELS]);
        Self { wanted: Notify::new(), asked: Default::default(), sent }
    }
}

impl ToNotify {
    fn asked(&self) -> [u64; CHANNELS] {
        std::array::from_fn(|place| self.asked[place].load(Ordering::Relaxed))
    }

    /// The statements that tell of what others do not know yet, if there is something; and what they know then.
    fn due(&self, namespace: &Namespace) -> (Option<String>, [u64; CHANNELS]) {
        let (asked, sent) = (self.asked(), *self.sent.borrow());
        let topics = Topic::ALL.into_iter().map(|topic| topic_channel(namespace, topic));
        let channels = std::iter::once(channel(namespace)).chain(topics);
        let due = channels.zip(asked.iter().zip(sent)).filter(|(_, (asked, sent))| *asked > sent);
        let due: String = due.map(|(channel, _)| format!(", pg_notify('{channel}', '')")).collect();
        // Nothing is stored, so there is nothing to wait for on disk. One statement, and so a transaction of its own.
        let send = format!("SELECT set_config('synchronous_commit', 'off', true){due}");
        ((!due.is_empty()).then_some(send), asked)
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
    let mut in_a_row = 0;
    loop {
        let wanted = to_notify.wanted.notified();
        tokio::pin!(wanted);
        in_a_row = if wanted.as_mut().enable() { in_a_row + 1 } else { 0 };
        wanted.await;
        let once = notify_once(Arc::clone(&link), namespace.clone(), Arc::clone(&to_notify));
        // It may be cut off at any time, with the last handle of its log.
        if let Err(failure) = to_the_end(once).await {
            // Appends fail and retry by themselves; readers poll.
            let what = Happening::notice(Notice::NotNotified, Some(format!("{failure:?}")), None);
            link.server().events.emit(what);
            tokio::time::sleep(AGAIN).await;
        }
        let pause = if in_a_row < BUSY_AFTER { NOTIFY_PAUSE } else { NOTIFY_PAUSE_BUSY };
        tokio::time::sleep(pause).await;
    }
}

/// Sends what is to be sent now.
async fn notify_once(
    link: Arc<Link>,
    namespace: Namespace,
    to_notify: Arc<ToNotify>,
) -> Result<(), Failure> {
    let lease = link.lend().await?;
    let (send, asked) = to_notify.due(&namespace);
    if let Some(send) = send {
        link.in_time(lease.session().batch_execute(&send)).await?;
    }
    lease.give_back();
    to_notify.sent.send_replace(asked);
    Ok(())
}
