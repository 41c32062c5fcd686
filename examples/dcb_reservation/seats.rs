//! The decision: a seat is reserved once, and nobody has more than four of a show.

use anabranch::partitioning::ScopeKey;
use anabranch::prelude::*;
use anabranch::workpool::{DcbError, DcbHandler};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const TENANT: &str = "opera";
/// How many seats of a show one customer may have.
pub const MOST: usize = 4;
/// The seat of which something changes whenever somebody decides about it.
pub const ROYAL_BOX: &str = "royal-box";

/// How often anything was decided, conflicts included.
#[derive(Clone, Default)]
pub struct Seats {
    pub tries: Arc<AtomicUsize>,
}

/// What a customer asks for; which seat, the scope says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reserve {
    pub show: String,
    pub customer: String,
}

/// The data of a `SeatReserved`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reserved {
    pub seat: String,
    pub customer: String,
}

/// The scope of a seat of a show.
pub fn seat(show: &str, name: &str) -> Result<ScopeKey, anabranch::InputError> {
    ScopeKey::new(TENANT, "seat", format!("{show}.{name}"))
}

impl DcbHandler for Seats {
    type Command = Reserve;
    type Output = u64;

    fn name(&self) -> &str {
        "seat-reservations"
    }

    async fn decide(&self, log: &Log, seat: &ScopeKey, wish: &Reserve) -> Result<u64, DcbError> {
        self.tries.fetch_add(1, Ordering::Relaxed);
        let Reserve { show, customer } = wish;
        let whose = format!("customer:{show}.{customer}");
        // The decision depends on two things: the seat, and what the customer has of this show.
        let scope = seat.query().or(Query::types(["SeatReserved"]).tagged([&whose]));
        let seen = log.read(scope.clone()).collect().await?;
        let mut has = 0;
        for event in seen.iter().filter(|event| event.event_type() == "SeatReserved") {
            let reserved: Reserved = event.data()?;
            match (reserved.seat == seat.id(), reserved.customer == *customer) {
                // This very wish, granted before: its process died before it could say so.
                (true, true) => return Ok(event.position().get()),
                (true, false) => return Err(DcbError::Rejected("the seat is taken".to_owned())),
                (false, _) => has += 1,
            }
        }
        if has >= MOST {
            return Err(DcbError::Rejected(format!("the customer has {MOST} seats")));
        }
        if seat.id().ends_with(ROYAL_BOX) {
            polish(log, seat).await?;
        }
        let after = seen.last().map_or(Position::START, Event::position);
        let data = Reserved { seat: seat.id().to_owned(), customer: customer.clone() };
        let reserved = seat.mark(NewEvent::new("SeatReserved", data)).with_tag(whose);
        let stream = StreamId::new("Seat", seat.id())?;
        let append = Append::new().to(&stream, Expected::Any, [reserved]).unless(scope, after);
        Ok(log.append_all(append).await?.position().get())
    }
}

/// Somebody who is always faster.
async fn polish(log: &Log, seat: &ScopeKey) -> Result<(), DcbError> {
    let polished = seat.mark(NewEvent::new("SeatPolished", ()));
    log.append(&StreamId::new("Seat", seat.id())?, Expected::Any, [polished]).await?;
    Ok(())
}
