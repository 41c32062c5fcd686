//! Audits while faults come, and one at the end: the engine's own proof, beside that of the ledger.

use anabranch::Log;
use anabranch::errors::ErrorKind;
use anabranch::operate::{AuditError, Consumers};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// What the workers run.
pub(crate) const CONSUMER: &str = "ledger";
/// How long it waits between two audits.
const PAUSE: Duration = Duration::from_millis(300);

/// Audits, one after the other.
pub(crate) struct Audits {
    consumers: Consumers,
    seen: Arc<Mutex<Seen>>,
    is_over: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

/// What they have found.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// How many proofs there were.
    pub(crate) proofs: u64,
    /// How many events were handed over, by these proofs.
    pub(crate) events: u64,
    /// Whether none was cut short after it had pruned something, perhaps.
    pub(crate) is_whole: bool,
    /// What was wrong.
    pub(crate) violations: Vec<String>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { proofs: 0, events: 0, is_whole: true, violations: Vec::new() }
    }
}

impl Audits {
    pub(crate) fn start(log: &Log) -> Self {
        let (consumers, seen) = (Consumers::new(log), Arc::<Mutex<Seen>>::default());
        let is_over = Arc::new(AtomicBool::new(false));
        let (for_task, of_task, ends) =
            (consumers.clone(), Arc::clone(&seen), Arc::clone(&is_over));
        let task = tokio::spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                audit(&for_task, &of_task).await;
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { consumers, seen, is_over, task }
    }

    /// Audits once more, now that nothing moves any more.
    pub(crate) async fn finish(self) -> Seen {
        // One that is under way is not cut short: nobody would know what it has proven and pruned.
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.task.await;
        let before = lock(&self.seen).proofs;
        audit(&self.consumers, &self.seen).await;
        let mut seen = lock(&self.seen).clone();
        if seen.proofs == before && seen.violations.is_empty() {
            seen.violations.push("the last audit could not be made".to_owned());
        }
        seen
    }
}

async fn audit(consumers: &Consumers, seen: &Mutex<Seen>) {
    let audited = consumers.audit(CONSUMER, |_| {}).await;
    let mut seen = lock(seen);
    match audited {
        Ok(proof) => {
            seen.proofs += 1;
            seen.events += proof.proven.handed;
        }
        // The server is being restarted, perhaps.
        Err(AuditError::Operate(error)) if error.kind() == ErrorKind::Unavailable => {
            seen.is_whole = false;
        }
        Err(error) => seen.violations.push(format!("audit: {error} [{}]", error.code())),
    }
}

fn lock(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
