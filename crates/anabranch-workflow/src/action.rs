//! The run of an action: what it may ask, and what it may save on its way.

use anabranch_runtime::HandlerResult;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// What a workflow does when the attempts of an action are used up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ActionGaveUp<C> {
    /// The action waits for somebody to look at it, and the later ones of its instance wait behind it.
    #[default]
    Park,
    /// These commands are sent to the instance, and its next action runs.
    GoOn(Vec<C>),
}

/// Where the progress of an action is kept.
pub trait Journal: Send {
    /// What was saved last, as JSON.
    fn checkpoint(&self) -> Option<&str>;

    /// Keeps this JSON in place of what was saved before, durably.
    fn save(&mut self, json: String) -> BoxFuture<'_, HandlerResult>;
}

/// One attempt at an action.
///
/// A long action saves how far it is; when it runs again, after a failure or a restart, it goes on
/// from there:
///
/// ```
/// # use anabranch_workflow::{ActionRun, MemoryJournal};
/// # use anabranch_runtime::HandlerResult;
/// async fn send_letters(run: &mut ActionRun<'_>, to: &[&str]) -> HandlerResult {
///     let sent: usize = run.checkpoint()?.unwrap_or(0);
///     for (number, address) in to.iter().enumerate().skip(sent) {
///         // … send it, with `run.key()` and the number as its idempotency key …
/// #       let _ = address;
///         run.save(&(number + 1)).await?;
///     }
///     Ok(())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> HandlerResult {
/// # let mut journal = MemoryJournal::default();
/// # let mut run = ActionRun::new("7", "orders/7/1", 1, &mut journal);
/// # send_letters(&mut run, &["a", "b"]).await?;
/// # assert_eq!(run.checkpoint::<usize>()?, Some(2));
/// # Ok(()) }
/// ```
pub struct ActionRun<'a> {
    id: &'a str,
    key: &'a str,
    attempt: u32,
    journal: &'a mut dyn Journal,
}

impl<'a> ActionRun<'a> {
    /// A run of an action of the instance `id`: its key, the number of the attempt from 1, and where
    /// its progress is kept.
    pub fn new(id: &'a str, key: &'a str, attempt: u32, journal: &'a mut dyn Journal) -> Self {
        Self { id, key, attempt, journal }
    }

    /// The id of the instance.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id
    }

    /// The idempotency key: the same in every attempt at this action, and no other action has it.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key
    }

    /// Which attempt this is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// What this action saved last, in this attempt or an earlier one.
    pub fn checkpoint<T: DeserializeOwned>(&self) -> HandlerResult<Option<T>> {
        Ok(self.journal.checkpoint().map(serde_json::from_str).transpose()?)
    }

    /// Saves how far it is, durably.
    pub async fn save<T: Serialize + Sync>(&mut self, progress: &T) -> HandlerResult {
        self.journal.save(serde_json::to_string(progress)?).await
    }
}

impl fmt::Debug for ActionRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, key, attempt, .. } = self;
        write!(f, "ActionRun({id} {key}, attempt {attempt})")
    }
}

/// A journal in memory, for tests of `act`.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal {
    saved: Option<String>,
}

impl Journal for MemoryJournal {
    fn checkpoint(&self) -> Option<&str> {
        self.saved.as_deref()
    }

    fn save(&mut self, json: String) -> BoxFuture<'_, HandlerResult> {
        self.saved = Some(json);
        Box::pin(std::future::ready(Ok(())))
    }
}
