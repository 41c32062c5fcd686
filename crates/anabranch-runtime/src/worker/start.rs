//! Before a worker joins: its consumers are registered, and what is lost meanwhile is tried again.

use super::Plan;
use crate::consumer::leave_out_outdated;
use crate::run_error::RunError;
use crate::status::WorkerStatus;
use crate::tables::Tables;
use anabranch_core::engine_event::OutageOf;
use anabranch_core::{Position, StoreError};
use anabranch_store::{Backoff, Emitter, Log};
use std::time::{Duration, Instant};

/// How long a start is tried again. The database was there a moment ago, when the log was opened: a connection
/// that is cut, or a fail-over, does not end the process; what lasts longer is said.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A start that is tried again.
pub(super) struct Patience {
    until: Instant,
    backoff: Backoff,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { until: Instant::now() + PATIENCE, backoff: Backoff::default() }
    }

    /// Waits a little if the database is away, and not for too long yet; else it is the error.
    pub(super) async fn wait_out(
        &mut self,
        events: &Emitter,
        error: RunError,
    ) -> Result<(), RunError> {
        match error {
            RunError::Store(error) if error.is_transient() && Instant::now() < self.until => {
                events.outage(&mut self.backoff, OutageOf::Start, &error);
                tokio::time::sleep(self.backoff.wait()).await;
                Ok(())
            }
            error => Err(error),
        }
    }

    /// What was waited for is there.
    pub(super) fn end(&mut self, events: &Emitter) {
        events.outage_over(&mut self.backoff, OutageOf::Start);
    }
}

/// Registers the consumers of a set: says which of them are refused, and with what position it has to catch up.
pub(super) async fn prepare(
    log: &Log,
    tables: &Tables,
    plan: &mut Plan,
) -> Result<(Vec<Option<RunError>>, Option<Position>), RunError> {
    let mut patience = Patience::new();
    loop {
        match try_prepare(log, tables, plan).await {
            Err(error) => patience.wait_out(&tables.events, error).await?,
            Ok(prepared) => {
                patience.end(&tables.events);
                return Ok(prepared);
            }
        }
    }
}

async fn try_prepare(
    log: &Log,
    tables: &Tables,
    plan: &mut Plan,
) -> Result<(Vec<Option<RunError>>, Option<Position>), RunError> {
    leave_out_outdated(&mut plan.consumers, tables).await?;
    let refused = register(log, tables, plan).await?;
    let target = match plan.catch_up {
        true => Some(log.head().await?),
        false => None,
    };
    Ok((refused, target))
}

/// Registers the consumers of a set. Those that are refused do not keep the others from running.
async fn register(
    log: &Log,
    tables: &Tables,
    plan: &mut Plan,
) -> Result<Vec<Option<RunError>>, RunError> {
    let mut refused = Vec::new();
    for consumer in &mut plan.consumers {
        match consumer.take_place(log, tables).await {
            Ok(placed) => {
                *consumer = placed;
                refused.push(None);
            }
            Err(RunError::Store(error)) if error.is_transient() => return Err(error.into()),
            Err(error) => refused.push(Some(error)),
        }
    }
    // What an operator may accept any time is waited for; a run that is to end says so.
    let goes_on = |error: &Option<RunError>| {
        error.as_ref().is_none_or(|error| error.is_waited_for() && !plan.catch_up)
    };
    let ends = plan.fail_fast || !refused.iter().any(goes_on);
    if let Some(error) = refused.iter_mut().filter(|_| ends).find_map(Option::take) {
        return Err(error);
    }
    if plan.catch_up || plan.fail_fast {
        try_now(tables, plan).await?;
    }
    Ok(refused)
}

/// Consumers that have stopped by themselves are to be tried now, and the run ends if that fails. Who fails fast
/// may be started again and again: it leaves that to those who try now and then, if there are any.
async fn try_now(tables: &Tables, plan: &Plan) -> Result<(), StoreError> {
    let others = if plan.catch_up { Vec::new() } else { tables.workers().await? };
    for consumer in &plan.consumers {
        let tries = |other: &WorkerStatus| other.is_alive && other.runs(&consumer.name).is_some();
        if !others.iter().any(tries) {
            tables.end_outage(&consumer.name).await?;
        }
    }
    Ok(())
}
