//! Whether the log still is the one that a consumer's cursors belong to: its identity, and, where it is on another
//! server, the events by which the cursors know it.
//!
//! What is compared is what is stored. A log that was wound back may grow again and lose its old events one day, so
//! what was found is kept in the consumer's row until somebody says where it goes on. Another log is not: that may
//! be a wrong URL of one process, and it is found out each time.

use crate::consumer::follows_log;
use crate::reason::Reason;
use crate::run_error::RunError;
use crate::tables::Tables;
use crate::tables::anchors::Belonging;
use crate::tables::consumers::Registered;
use anabranch_core::cursor::{Anchor, Point};
use anabranch_core::store_error::OtherLog;
use anabranch_core::{Happening, Notice, Position, StoreError};
use anabranch_store::{Log, Look, WoundBack};
use uuid::Uuid;

/// The error of a consumer whose log is not the one any more that its cursors belong to.
pub(crate) fn wound_back(
    log: &Log,
    tables: &Tables,
    consumer: &str,
    what: &WoundBack,
) -> StoreError {
    let at = log.at().to_owned();
    match what {
        WoundBack::OtherLog { was, is } => StoreError::OtherLog(Box::new(OtherLog {
            consumer: consumer.to_owned(),
            at: tables.at().to_owned(),
            log: at,
            belongs_to: *was,
            identity: *is,
        })),
        _ => StoreError::WoundBack { at, what: what.to_string() },
    }
}

/// A position with the event that it is known by, if the log is elsewhere.
pub(crate) async fn point(log: &Log, position: Position) -> Result<Point, StoreError> {
    let anchor = match log.is_apart() {
        true => log.store().look(Look { up_to: position, ..Look::default() }).await?.last,
        false => None,
    };
    Ok(Point { position, anchor })
}

/// The log that a consumer belongs to and the one at hand, if they differ. A consumer that finds its work
/// elsewhere, or of which nobody has stored it, belongs to any.
pub(crate) async fn other_log(
    log: &Log,
    consumer: &Registered,
) -> Result<Option<(Uuid, Uuid)>, StoreError> {
    let Some(belongs_to) = consumer.log.filter(|_| follows_log(&consumer.kind)) else {
        return Ok(None);
    };
    let identity = log.identity().await?;
    Ok((identity != belongs_to).then_some((belongs_to, identity)))
}

/// Compares what is stored of a consumer with the log.
pub(crate) async fn compare(
    log: &Log,
    belonging: &Belonging,
) -> Result<Result<(), WoundBack>, StoreError> {
    let anchors: Vec<Anchor> = if log.is_apart() { belonging.anchors.clone() } else { Vec::new() };
    let seen = log.store().look(Look { anchors: anchors.clone(), ..Look::default() }).await?;
    Ok(seen.is_log(belonging.log).and_then(|()| seen.compare(&anchors)))
}

/// What is to be said about the log of a consumer.
pub(crate) async fn reason(
    log: &Log,
    tables: &Tables,
    consumer: &Registered,
) -> Result<Option<Reason>, StoreError> {
    if let Some((belongs_to, identity)) = other_log(log, consumer).await? {
        return Ok(Some(Reason::OtherLog { belongs_to, identity }));
    }
    if let Some(belongs_to) = consumer.reset_log.filter(|_| consumer.reset_to.is_some()) {
        let identity = log.identity().await?;
        if identity != belongs_to {
            return Ok(Some(Reason::OtherLog { belongs_to, identity }));
        }
    }
    if let Some(what) = consumer.wound_back.clone() {
        return Ok(Some(Reason::WoundBack { what }));
    }
    if !log.is_apart() || !follows_log(&consumer.kind) {
        return Ok(None);
    }
    let compared = compare(log, &tables.belonging(&consumer.name).await?).await?;
    Ok(compared.err().map(|wound| Reason::WoundBack { what: wound.to_string() }))
}

/// Refuses a consumer whose log is another one now, or was wound back. One that is to begin again may have been
/// wound back, but begins on the log on which that was asked for, and on no other.
pub(crate) async fn check(log: &Log, tables: &Tables, consumer: &str) -> Result<(), RunError> {
    let belonging = tables.belonging(consumer).await?;
    if let Some(was) = belonging.replay_on {
        let is = log.identity().await?;
        return match is == was {
            true => Ok(()),
            false => {
                let other = wound_back(log, tables, consumer, &WoundBack::OtherLog { was, is });
                Err(RunError::from(other).of(consumer))
            }
        };
    }
    if let Some(what) = belonging.wound_back {
        let error = StoreError::WoundBack { at: log.at().to_owned(), what };
        return Err(RunError::from(error).of(consumer));
    }
    let Err(wound) = compare(log, &belonging).await? else { return Ok(()) };
    keep(tables, consumer, belonging.generation, &wound).await;
    Err(RunError::from(wound_back(log, tables, consumer, &wound)).of(consumer))
}

/// Writes down that the log of a consumer was wound back, as somebody has found who looked at what the consumer had
/// passed in this generation.
pub(crate) async fn keep(tables: &Tables, consumer: &str, generation: i64, wound: &WoundBack) {
    if matches!(wound, WoundBack::OtherLog { .. }) {
        return;
    }
    let keep = tables.is_wound_back(consumer, generation, &wound.to_string());
    if let Err(error) = tables.commit(vec![keep]).await {
        not_kept(tables, consumer, &error);
    }
}

/// Says that it could not be written down.
pub(crate) fn not_kept(tables: &Tables, consumer: &str, error: &StoreError) {
    tables.events.of(consumer).emit(Happening::failed(Notice::WoundBackNotStored, error));
}
