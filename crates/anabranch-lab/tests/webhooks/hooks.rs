//! What these tests share.

use crate::support::*;
use anabranch::operate::{ConsumerStatus, Consumers};
use anabranch::prelude::*;
use anabranch::webhook::{Endpoint, Webhook, WebhookSet};
use anabranch::{Retry, Settings, Tuning};
use anabranch_lab::receiver::{Received, Receiver, Reply};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// An endpoint at a receiver.
pub fn endpoint(receiver: &Receiver) -> Endpoint {
    Endpoint::new(&receiver.url()).unwrap().private_addresses(true)
}

/// A webhook that is tried again soon.
pub fn hook(log: &Log, receiver: &Receiver) -> Webhook {
    hook_named(log, receiver, "crm")
}

pub fn hook_named(log: &Log, receiver: &Receiver, name: &str) -> Webhook {
    Webhook::new(log, name, Partition::entity("Order"), endpoint(receiver)).settings(quickly(3))
}

pub fn quickly(attempts: u32) -> Settings {
    let wait = Duration::from_millis(20);
    Settings::default().retry(Retry::outside().attempts(attempts).first(wait).longest(wait))
}

pub fn set(hook: Webhook) -> ReplicaSet {
    ReplicaSet::new("s").webhook(hook).tuning(tuning())
}

/// Outages are tried again soon.
pub fn tuning() -> Tuning {
    Tuning::default().probes(Duration::from_millis(100), Duration::from_millis(200))
}

pub async fn receiver(decide: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Receiver {
    Receiver::start(decide).await.unwrap()
}

pub async fn always_taken() -> Receiver {
    receiver(|_| Reply::default()).await
}

/// The stream of a message with one event.
pub fn stream(received: &Received) -> String {
    received.json()["stream"].as_str().unwrap_or_default().to_owned()
}

/// The versions of the events of each stream that were taken, in the order in which they came. What came again under the
/// same id is left out, as receivers do.
pub fn taken(receiver: &Receiver) -> HashMap<String, Vec<u64>> {
    let mut all: HashMap<String, Vec<u64>> = HashMap::new();
    let mut seen = HashSet::new();
    for message in receiver.received().iter().filter(|message| message.status == 200) {
        if !seen.insert(message.header("webhook-id").to_owned()) {
            continue;
        }
        for event in message.events() {
            let of = all.entry(event["stream"].as_str().unwrap().to_owned()).or_default();
            let version = event["version"].as_u64().unwrap();
            of.push(version);
        }
    }
    all
}

/// Every event of so many streams was taken, in order.
pub fn is_whole(receiver: &Receiver, streams: usize, each: u64) {
    let taken = taken(receiver);
    assert_eq!(taken.len(), streams);
    for (stream, versions) in taken {
        assert_eq!(versions, (1..=each).collect::<Vec<u64>>(), "{stream}");
    }
}

/// How the webhook stands, once it is known.
pub async fn standing(log: &Log) -> Option<ConsumerStatus> {
    Consumers::new(log).status("crm").await.ok()
}

pub async fn until_handled(log: &Log) {
    until("all is handled", async || (standing(log).await?.lag == 0).then_some(())).await;
}
