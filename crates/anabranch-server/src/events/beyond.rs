//! Positions up to which somebody says to have read, and that the log does not have.

use crate::problem::Problem;
use anabranch::errors::ErrorCode;
use anabranch::{Log, Query};

/// Refuses a position beyond all events: it belongs to another log, or to a later state of this one. What is stored next would
/// be taken for what was read already.
pub(crate) async fn must_not_be(log: &Log, after: u64, remedy: &str) -> Result<(), Problem> {
    if after <= log.head().await?.get() {
        return Ok(());
    }
    // Beyond what is decided there may be an event that was read: other appends are in flight below it.
    let newest = log.read(Query::all()).backwards().limit(1).collect().await?;
    let newest = newest.first().map_or(0, |event| event.position().get());
    if after <= newest {
        return Ok(());
    }
    let said = format!(
        "position {after} is beyond the last event of the log, {newest}: it belongs to another log, or this log was \
         restored to an earlier state. {remedy}"
    );
    Err(Problem::new(ErrorCode::LogFellBack, said).with("after", after).with("newest", newest))
}
