//! The events that benchmarks append: orders of about 195 bytes.

use anabranch::NewEvent;
use serde::Deserialize;

/// What a handler takes from an event.
#[derive(Deserialize)]
pub(crate) struct Order {
    pub(crate) total: f64,
}

/// The id of the stream of the event with this number, if there are so many streams.
pub(crate) fn stream(number: u64, streams: u64) -> String {
    format!("ord-{}", number % streams)
}

/// About 195 bytes.
pub(crate) fn data(number: u64) -> String {
    format!(
        r#"{{"order":"ord-{number}","customer":"cust-{}","currency":"EUR","total":{}.50,"lines":[{{"sku":"sku-{}","quantity":2,"price":19.95}},{{"sku":"sku-{}","quantity":1,"price":7.25}}],"note":"leave at the door"}}"#,
        number % 1000,
        number % 500,
        number % 300,
        number % 700,
    )
}

/// What [`data`] says. Halves add up exactly, in any order.
pub(crate) fn total(number: u64) -> f64 {
    (number % 500) as f64 + 0.5
}

pub(crate) fn customer(number: u64) -> String {
    format!("cust-{}", number % 1000)
}

pub(crate) fn event(number: u64) -> NewEvent {
    NewEvent::from_json("OrderPlaced", data(number)).with_customer(customer(number))
}
