//! Consumers of rows instead of events: work that is found in tables of their own.

use crate::consumer::{Code, Hooks};
use crate::handler::{HandlerError, HandlerResult};
use crate::holding::Holding;
use crate::run_error::RunError;
use crate::tx::Tx;
use anabranch_core::Position;
use futures_util::future::BoxFuture;
use std::future::Future;
use std::sync::Arc;

/// Looks after rows of its own, each of which belongs to a slot: tasks of a pool, records of a table.
///
/// It shares everything with the other consumers of its replica set but the log: the slots are dealt
/// out, handed over and taken over as theirs are, it can be paused, and each of its commits is fenced.
/// What it does with its slots is its own: [`look_after`](Self::look_after) runs once on each lane, and
/// learns from its [`Holding`] which slots that lane holds.
pub trait RowConsumer: Send + Sync + 'static {
    /// Its name: lower-case letters, digits, `_`, `-` and `.`. Its cursors are kept under it.
    fn name(&self) -> &str;

    /// What it is, in a word, for lists.
    fn kind(&self) -> &'static str {
        "rows"
    }

    /// Makes what it needs, the first time that it runs: in the transaction that registers it.
    fn set_up(&self, _tx: &mut Tx) -> impl Future<Output = HandlerResult> + Send {
        std::future::ready(Ok(()))
    }

    /// Which code it has, if it says so: see [`Settings::code`](crate::Settings::code).
    fn code(&self) -> Option<&str> {
        None
    }

    /// How many of its rows may be in work at the same time, over all processes: each under a
    /// [permit](Holding::permits). Without a limit permits cost nothing.
    fn max_parallelism(&self) -> Option<usize> {
        None
    }

    /// Looks after the rows of the slots that a lane holds, until it is
    /// [told to stop](Holding::is_stopping).
    fn look_after(
        &self,
        holding: &mut Holding,
    ) -> impl Future<Output = Result<(), RunError>> + Send;
}

/// A consumer of rows as the runtime runs it.
pub(crate) trait RowsCode: Hooks {
    fn max_parallelism(&self) -> Option<usize>;

    fn look_after<'a>(&'a self, holding: &'a mut Holding) -> BoxFuture<'a, Result<(), RunError>>;
}

/// How a consumer finds its work.
#[derive(Clone)]
pub(crate) enum Work {
    /// In the log.
    Events(Arc<dyn Code>),
    /// In tables of its own.
    Rows(Arc<dyn RowsCode>),
}

impl Work {
    pub(crate) fn hooks(&self) -> &dyn Hooks {
        match self {
            Self::Events(code) => code.as_ref(),
            Self::Rows(code) => code.as_ref(),
        }
    }
}

pub(crate) struct RowConsumerCode<R>(pub(crate) Arc<R>);

impl<R: RowConsumer> Hooks for RowConsumerCode<R> {
    fn set_up<'a>(&'a self, tx: &'a mut Tx) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.0.set_up(tx))
    }

    fn reset<'a>(&'a self, _: Position, _: &'a mut Tx) -> BoxFuture<'a, HandlerResult> {
        Box::pin(std::future::ready(Err(HandlerError::new(
            "it handles rows and not events, so there is no position to go back to",
        ))))
    }
}

impl<R: RowConsumer> RowsCode for RowConsumerCode<R> {
    fn max_parallelism(&self) -> Option<usize> {
        self.0.max_parallelism()
    }

    fn look_after<'a>(&'a self, holding: &'a mut Holding) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(self.0.look_after(holding))
    }
}
