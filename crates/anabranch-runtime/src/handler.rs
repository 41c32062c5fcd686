//! What handlers return, and how the runtime calls them.

use crate::tx::Tx;
use anabranch_core::{Again, Event};
use futures_util::future::BoxFuture;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// How many characters of an error are told.
const MAX_SAID: usize = 4_000;

/// What a handler returns.
pub type Result<T, E = HandlerError> = std::result::Result<T, E>;

/// Why a handler failed: any error turns into it by `?`, and any text by [`HandlerError::new`].
///
/// ```
/// use anabranch_runtime::{HandlerError, Result};
/// fn amount(text: &str) -> Result<u32> {
///     if text.is_empty() {
///         return Err(HandlerError::new("the order has no amount"));
///     }
///     Ok(text.parse()?)
/// }
/// assert_eq!(amount("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
///
/// It is tried again as the [`Retry`](anabranch_core::Retry) of the consumer or pool says. An error that
/// knows better says so by [`for_good`](Self::for_good) or [`try_after`](Self::try_after).
pub struct HandlerError {
    error: Box<dyn Error + Send + Sync>,
    again: Again,
}

impl HandlerError {
    /// An error that says this.
    pub fn new(message: impl Into<String>) -> Self {
        Self { error: message.into().into(), again: Again::AsSet }
    }

    /// An error that no further attempt can mend: the attempts are used up at once, and what comes then
    /// is the same as ever (parked, skipped, stopped; `gave_up` of a pool or a workflow).
    ///
    /// ```
    /// use anabranch_runtime::{HandlerError, Result};
    /// fn address(text: &str) -> Result<&str> {
    ///     text.strip_prefix("mailto:").ok_or_else(|| HandlerError::for_good("this is no address"))
    /// }
    /// # assert_eq!(address("x").unwrap_err().again(), anabranch_core::Again::Never);
    /// ```
    pub fn for_good(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), again: Again::Never }
    }

    /// An error that says when to try again: not before so much time has passed, a year at most. It counts
    /// as an attempt, and the wait is never shorter than the next one would be. While the whole consumer is
    /// stopped by failures, it is not tried before either, though after an hour at most.
    ///
    /// ```
    /// use anabranch_runtime::HandlerError;
    /// use std::time::Duration;
    /// let seconds = 120; // what a `Retry-After` says
    /// let error = HandlerError::try_after(Duration::from_secs(seconds), "429 Too Many Requests");
    /// # assert_eq!(error.to_string(), "429 Too Many Requests");
    /// ```
    pub fn try_after(wait: Duration, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), again: Again::After(wait) }
    }

    /// What it says about the next attempt.
    #[must_use]
    pub fn again(&self) -> Again {
        self.again
    }
}

// It is no `Error` itself; else this would collide with the conversion of every type to itself.
impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self { error: Box::new(error), again: Again::AsSet }
    }
}

impl fmt::Display for HandlerError {
    /// The error with its causes, its first 4,000 characters: it is logged and stored with each attempt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.error.to_string();
        let mut said = last.clone();
        let mut cause = self.error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !last.contains(&text) {
                said += ": ";
                said += &text;
            }
            last = text;
            cause = error.source();
        }
        match said.char_indices().nth(MAX_SAID) {
            Some((end, _)) => write!(f, "{}…", &said[..end]),
            None => f.write_str(&said),
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A consumer's code as one lane runs it. Each lane has its own, so it may keep what it knows about
/// the keys of its slots.
pub(crate) trait LaneHandler: Send {
    /// Handles events in order. Which event is to blame for an error stands in the transaction.
    fn handle<'a>(
        &'a mut self,
        events: &'a [Event],
        tx: &'a mut Tx<'_>,
    ) -> BoxFuture<'a, Result<()>>;

    /// Whether its effects are outside the transaction, so that no rollback takes them back.
    fn is_external(&self) -> bool {
        false
    }

    /// The events that `handle` got are committed, or rolled back.
    fn settled(&mut self, _committed: bool) {}

    /// Runs after the commit, for effects that must happen at most once.
    fn after_commit<'a>(&'a mut self, _events: &'a [Event]) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
