//! Tickets for a show: typed events with an upcaster, a DCB decision, and a subscription.
//!
//!     cargo run --example tickets                                  # embedded, in memory
//!     cargo run --example tickets postgres://user@localhost/shop   # on PostgreSQL
//!
//! Forty guests want one of ten seats at the same time. Each reads what was sold, decides, and
//! appends only if nothing that the decision depends on has changed since.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use anabranch::EventSchema;
use anabranch::prelude::*;
use serde::{Deserialize, Serialize};
use std::error::Error;

const SEATS: usize = 10;
const GUESTS: usize = 40;

/// The name of a variant is the type of the event.
#[derive(Debug, Serialize, Deserialize)]
enum TicketEvent {
    TicketSold { guest: usize, price_cents: u64 },
}

/// Version 1 had the price in whole euros.
fn schema() -> EventSchema<TicketEvent> {
    EventSchema::new().upcast("TicketSold", 1, |data| {
        let euros = data["price"].as_u64().ok_or("there is no price")?;
        data["price_cents"] = (euros * 100).into();
        Ok(())
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite::memory:".to_owned());
    let log = anabranch::connect(&url).await?;
    // A show of its own for each run, so that the example can be run again on the same database.
    let show = format!("show:{}", log.head().await?);

    // An old event, as it was written years ago.
    let old = NewEvent::new("TicketSold", serde_json::json!({ "guest": 0, "price": 25 }));
    let first = StreamId::new("Guest", format!("{show}-0"))?;
    let start = log.append(&first, Expected::NoStream, [old.with_tag(&show)]).await?.position();

    let guests: Vec<_> =
        (1..=GUESTS).map(|guest| tokio::spawn(buy(log.clone(), show.clone(), guest))).collect();
    let mut turned_away = 0;
    for guest in guests {
        turned_away += usize::from(!guest.await??);
    }
    println!("{GUESTS} guests came, {turned_away} were turned away");

    // Follow the show from its first event; the subscription would go on for ever.
    let mut sold = log.subscribe(Query::tags([&show]), Position::new(start.get() - 1));
    let (mut count, mut takings) = (0, 0);
    while count < SEATS {
        let event = sold.next().await.ok_or("the subscription ended")??;
        let TicketEvent::TicketSold { price_cents, .. } = schema().decode(&event)?;
        count += 1;
        takings += price_cents;
    }
    println!("{count} tickets sold, {} euros taken", takings / 100);
    let all = log.read(Query::tags([&show])).collect().await?;
    assert_eq!(all.len(), SEATS, "every seat is sold once");
    Ok(())
}

/// Whether the guest got a ticket.
async fn buy(log: Log, show: String, guest: usize) -> Result<bool, Box<dyn Error + Send + Sync>> {
    loop {
        let sold = log.read(Query::tags([&show])).collect().await?;
        if sold.len() == SEATS {
            return Ok(false);
        }
        let seen = sold.last().map_or(Position::START, |event| event.position());
        let ticket = TicketEvent::TicketSold { guest, price_cents: 2500 };
        let append = Append::new()
            .to(
                &StreamId::new("Guest", format!("{show}-{guest}"))?,
                Expected::NoStream,
                [schema().encode(&ticket)?.with_tag(&show)],
            )
            .unless(Query::tags([&show]), seen);
        match log.append_all(append).await {
            Ok(_) => return Ok(true),
            Err(error) if error.is_conflict() => {} // Somebody was faster: look again.
            Err(error) => return Err(error.into()),
        }
    }
}
