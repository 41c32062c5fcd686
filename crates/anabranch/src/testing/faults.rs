//! What goes wrong in a run, as the test has it.

use super::error::TestError;
use crate::{Event, HandlerError, HandlerResult, Log};
use anabranch_runtime::interference::{Interference, Item, take_slots};
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Says of an event whether its call fails.
pub(super) type When = Box<dyn Fn(&Event) -> HandlerResult + Send + Sync>;

/// What goes wrong, and when.
pub(super) enum Fault {
    /// The call fails before the handler is called.
    FailAt(u64, HandlerError),
    /// The call fails after the handler has done all it does.
    FailAfter(u64, HandlerError),
    /// Calls fail with the events for which the function says so, however often.
    FailWhen(When),
    /// The process dies after the call.
    CrashAfter(u64),
    /// The slots are taken over while the call runs.
    TakeOverAt(u64),
}

impl Fault {
    fn name(&self) -> String {
        match self {
            Self::FailAt(call, _) => format!("fail_at({call}, …)"),
            Self::FailAfter(call, _) => format!("fail_after({call}, …)"),
            Self::FailWhen(_) => "fail_when(…)".to_owned(),
            Self::CrashAfter(call) => format!("crash_after({call})"),
            Self::TakeOverAt(call) => format!("deliver_again({call})"),
        }
    }
}

/// The faults of one run.
pub(super) struct Faults {
    log: Log,
    calls: AtomicU64,
    armed: Mutex<Vec<Fault>>,
    /// Whether a fault that stays armed has come to pass.
    met: Mutex<bool>,
    /// What was armed for a delivery at most once, and does not apply to those.
    misplaced: Mutex<Option<String>>,
    crash: Notify,
}

impl Faults {
    pub(super) fn new(log: &Log, armed: Vec<Fault>) -> Self {
        let (calls, crash) = (AtomicU64::new(0), Notify::new());
        let (met, misplaced) = (Mutex::default(), Mutex::default());
        Self { log: log.clone(), calls, armed: Mutex::new(armed), met, misplaced, crash }
    }

    /// Resolves when the process is to die.
    pub(super) async fn crashed(&self) {
        self.crash.notified().await;
    }

    /// What has not come to pass, if anything, and why.
    pub(super) fn check(&self) -> Result<(), TestError> {
        let misplaced = self.misplaced.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(fault) = misplaced {
            return Err(TestError::AtMostOnce { fault });
        }
        let has_met = *self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unmet = |fault: &&Fault| !(has_met && matches!(fault, Fault::FailWhen(_)));
        let unmet = self.armed().iter().find(is_unmet).map(Fault::name);
        let calls = self.calls.load(Ordering::SeqCst);
        unmet.map_or(Ok(()), |fault| Err(TestError::NeverReached { fault, calls }))
    }

    fn armed(&self) -> MutexGuard<'_, Vec<Fault>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first fault that is meant, which has come to pass with that.
    fn take(&self, is_meant: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let mut armed = self.armed();
        let place = armed.iter().position(is_meant)?;
        Some(armed.remove(place))
    }

    /// What the functions of `fail_when` say of an event.
    fn fails(&self, event: &Event) -> HandlerResult {
        let said = self.armed().iter().try_for_each(|fault| match fault {
            Fault::FailWhen(when) => when(event),
            _ => Ok(()),
        });
        if said.is_err() {
            *self.met.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
        said
    }
}

impl Interference for Faults {
    fn begin<'a>(&'a self, consumer: &'a str, items: &'a [Item<'a>]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let before = self.calls.load(Ordering::SeqCst);
            let calls = before + 1..=before + items.len() as u64;
            let is_meant =
                |fault: &Fault| matches!(fault, Fault::TakeOverAt(call) if calls.contains(call));
            // A transaction is fenced once, whichever of its calls are meant.
            let taken_over = std::iter::from_fn(|| self.take(is_meant)).count();
            if taken_over > 0 {
                // What cannot be taken now was somebody else's already.
                let taken = take_slots(&self.log, consumer).await;
                taken.expect("the database of a test answers");
            }
        })
    }

    fn before<'a>(&'a self, item: Item<'a>) -> BoxFuture<'a, HandlerResult<u64>> {
        Box::pin(async move {
            let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
            let is_meant = |fault: &Fault| matches!(fault, Fault::FailAt(at, _) if *at == call);
            if let Some(Fault::FailAt(_, error)) = self.take(is_meant) {
                return Err(error);
            }
            if let Item::Committed(_) = item {
                let is_meant =
                    |fault: &Fault| matches!(fault, Fault::TakeOverAt(at) if *at == call);
                if let Some(fault) = self.take(is_meant) {
                    let mut misplaced =
                        self.misplaced.lock().unwrap_or_else(PoisonError::into_inner);
                    misplaced.get_or_insert_with(|| fault.name());
                }
            }
            if let Item::Event(event) | Item::Committed(event) = item {
                self.fails(event)?;
            }
            Ok(call)
        })
    }

    fn after(&self, call: u64) -> BoxFuture<'_, HandlerResult> {
        Box::pin(async move {
            let is_meant = |fault: &Fault| matches!(fault, Fault::FailAfter(at, _) if *at == call);
            if let Some(Fault::FailAfter(_, error)) = self.take(is_meant) {
                return Err(error);
            }
            let is_meant = |fault: &Fault| matches!(fault, Fault::CrashAfter(at) if *at == call);
            if self.take(is_meant).is_some() {
                self.crash.notify_one();
                // Dead processes do nothing.
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }
}
