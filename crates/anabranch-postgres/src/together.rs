//! Reads of scopes that are asked for at the same time share a round trip.
//!
//! While one group is being read, the reads that are asked for queue up; they are the next group. So a read that is alone
//! waits for nobody. A read joins only a group whose statements have not been sent: it sees what was stored before it
//! began. The groups are read by a task of their own, so whoever gives up its read harms no other.

use crate::error::Failure;
use crate::scopes::ScopeRead;
use crate::session::lock;
use crate::store::Inner;
use anabranch_store::{Page, PageEnd, ReadRequest};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// The most reads of a group.
const MOST_READS: usize = 128;

/// What a group says to one of its reads; nothing if that is to be read alone.
type Answer = Option<Result<Page, Failure>>;

/// The reads that wait for the next group.
#[derive(Default)]
pub(crate) struct Together(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Whether the task is there that reads groups.
    is_served: bool,
}

struct Waiting {
    read: ScopeRead,
    answer: oneshot::Sender<Answer>,
}

impl Together {
    /// Joins the next group; says whether somebody has to start the task.
    fn join(&self, read: ScopeRead) -> (oneshot::Receiver<Answer>, bool) {
        let (answer, answered) = oneshot::channel();
        let mut queue = lock(&self.0);
        queue.waiting.push_back(Waiting { read, answer });
        (answered, !std::mem::replace(&mut queue.is_served, true))
    }

    /// Takes the next group, without those that nobody waits for any more.
    fn take(&self) -> Vec<Waiting> {
        let mut queue = lock(&self.0);
        queue.waiting.retain(|waiting| !waiting.answer.is_closed());
        let most = queue.waiting.len().min(MOST_READS);
        queue.waiting.drain(..most).collect()
    }

    /// Whether anybody waits. If not, the task is over.
    fn goes_on(&self) -> bool {
        let mut queue = lock(&self.0);
        queue.is_served = !queue.waiting.is_empty();
        queue.is_served
    }
}

impl Inner {
    /// Reads a page of a scope, together with whoever else does so now.
    pub(crate) async fn read_together(
        self: &Arc<Self>,
        mut request: ReadRequest,
        read: ScopeRead,
    ) -> Result<Page, Failure> {
        let (answered, is_first) = self.together.join(read);
        if is_first {
            let service = Service { inner: Arc::clone(self), has_ended: false };
            self.server.home.spawn(service.run());
        }
        let answered = self.server.home.wait_for(answered).await.map_err(Failure::OtherRuntime)?;
        match answered {
            // Much was looked at for nothing. What comes next may be as much.
            Ok(Some(Ok(page))) if page.events.is_empty() && page.end == PageEnd::More => {
                request.cursor = page.cursor;
            }
            Ok(Some(answer)) => return answer,
            Ok(None) => {}
            // The task is gone, perhaps with its runtime.
            Err(_) => self.server.home.runs().await.map_err(Failure::OtherRuntime)?,
        }
        self.read_alone(request).await
    }
}

/// The task that reads groups for as long as anybody waits.
struct Service {
    inner: Arc<Inner>,
    has_ended: bool,
}

impl Service {
    async fn run(mut self) {
        while self.inner.together.goes_on() {
            self.read_group().await;
        }
        self.has_ended = true;
    }

    async fn read_group(&self) {
        let inner = &self.inner;
        let mut group = Vec::new();
        let pages = inner.with_reader(&inner.scopes, async |reader| {
            // Tasks that were woken together read together, and not the first of them alone.
            tokio::task::yield_now().await;
            group = inner.together.take();
            let reads: Vec<&ScopeRead> = group.iter().map(|waiting| &waiting.read).collect();
            match reads.is_empty() {
                true => Ok(Vec::new()),
                false => reader.scopes(&reads).await,
            }
        });
        let answers: Vec<Answer> = match pages.await {
            Ok(pages) => pages.into_iter().map(|page| page.map(Ok)).collect(),
            // Perhaps through one of them, or with its session.
            Err(Failure::Query(_)) => group.iter().map(|_| None).collect(),
            Err(failure) => {
                if group.is_empty() {
                    // There was no session for them.
                    group = inner.together.take();
                }
                group.iter().map(|_| Some(Err(failure.clone()))).collect()
            }
        };
        for (waiting, answer) in group.into_iter().zip(answers) {
            // Who has gone away meanwhile is none of our business.
            let _ = waiting.answer.send(answer);
        }
    }
}

impl Drop for Service {
    /// It is given up half-way only with its runtime, or by a panic. Nobody may wait for it then.
    fn drop(&mut self) {
        if !self.has_ended {
            *lock(&self.inner.together.0) = Queue::default();
        }
    }
}
