//! The customers: they place orders at a rate, and those who pay by transfer do so when it suits them.

use super::Outcome;
use super::order::{Command, Orders, Transfer};
use super::story::Story;
use anabranch::prelude::*;
use anabranch::workflow::Workflows;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Customers at work.
pub struct Customers {
    enough: Arc<AtomicBool>,
    placing: JoinHandle<Outcome<u64>>,
    paying: JoinHandle<Outcome<()>>,
}

impl Customers {
    /// Places so many orders a second: until it is stopped, or so many in all.
    pub async fn start(
        orders: &Workflows<Orders>,
        per_second: u64,
        in_all: Option<u64>,
    ) -> Outcome<Self> {
        let head = orders.log().head().await?;
        let enough = Arc::new(AtomicBool::new(false));
        let (workflows, stop) = (orders.clone(), Arc::clone(&enough));
        let placing = tokio::spawn(async move {
            let mut beat = tokio::time::interval(Duration::from_secs(1) / per_second.max(1) as u32);
            let mut count = 0;
            while in_all.is_none_or(|all| count < all) && !stop.load(Ordering::Relaxed) {
                beat.tick().await;
                // No two runs share an order, since the log grows by more events than orders.
                place(&workflows, head.get() + 1 + count).await?;
                count += 1;
            }
            Ok(count)
        });
        let paying = tokio::spawn(pay(orders.log().clone()));
        Ok(Self { enough, placing, paying })
    }

    /// No more orders. Those who owe money go on paying. Answers how many orders there were.
    pub async fn stop_placing(&mut self) -> Outcome<u64> {
        self.enough.store(true, Ordering::Relaxed);
        (&mut self.placing).await?
    }

    /// Waits until the orders that were asked for are placed.
    pub async fn all_placed(&mut self) -> Outcome<u64> {
        (&mut self.placing).await?
    }
}

impl Drop for Customers {
    fn drop(&mut self) {
        self.placing.abort();
        self.paying.abort();
    }
}

async fn place(orders: &Workflows<Orders>, number: u64) -> Outcome<()> {
    let id = format!("ord-{number}");
    let method = Story::of(&id).method();
    orders.send(&id, Command::Place { cents: cents(&id), method }).await?;
    Ok(())
}

/// Those who pay at once, when they are reminded, or when it is too late.
async fn pay(log: Log) -> Outcome<()> {
    let when = Query::types(["Placed", "Reminded", "Cancelled"]);
    let mut news = log.subscribe(when, Position::START);
    while let Some(event) = news.next().await {
        let event = event?;
        match (Story::of(event.stream_id()), event.event_type()) {
            (Story::Transfer, "Placed")
            | (Story::Forgetful, "Reminded")
            | (Story::TooLate, "Cancelled") => transfer(&log, event.stream_id()).await?,
            _ => {}
        }
    }
    Ok(())
}

/// The bank appends what it has received. Its id follows from the order: customers who begin anew pay
/// nothing twice.
async fn transfer(log: &Log, order: &str) -> Outcome<()> {
    let data = Transfer { order: order.to_owned(), cents: cents(order) };
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, order.as_bytes());
    let received = NewEvent::new("TransferReceived", data).with_id(id);
    log.append(&StreamId::new("Bank", order)?, Expected::Any, [received]).await?;
    Ok(())
}

/// What an order costs, by its number.
fn cents(order: &str) -> u64 {
    let number = order.rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
    1_000 + 37 * (number.unwrap_or_default() % 100)
}
