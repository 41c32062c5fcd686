//! What handlers return, and how the runtime calls them.

use crate::tx::Tx;
use anabranch_core::Event;
use futures_util::future::BoxFuture;
use std::error::Error;
use std::fmt;

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
pub struct HandlerError(Box<dyn Error + Send + Sync>);

impl HandlerError {
    /// An error that says this.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into().into())
    }
}

// It is no `Error` itself; else this would collide with the conversion of every type to itself.
impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Display for HandlerError {
    /// The error with its causes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        let mut last = self.0.to_string();
        while let Some(error) = cause {
            let text = error.to_string();
            if !last.contains(&text) {
                write!(f, ": {text}")?;
            }
            last = text;
            cause = error.source();
        }
        Ok(())
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
