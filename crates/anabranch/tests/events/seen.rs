//! An observer that keeps what it sees.

use crate::support::until;
use anabranch::events::{EngineEvent, Happening, Observer};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<Vec<EngineEvent>>>);

impl Observer for Seen {
    fn observe(&self, event: &EngineEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Seen {
    pub fn all(&self) -> Vec<EngineEvent> {
        self.0.lock().unwrap().clone()
    }

    /// Those of a name, in order.
    pub fn of(&self, name: &str) -> Vec<EngineEvent> {
        assert!(Happening::NAMES.contains(&name), "there is no {name}");
        self.all().into_iter().filter(|event| event.what.name() == name).collect()
    }

    /// Waits for the first of a name.
    pub async fn first(&self, name: &str) -> EngineEvent {
        until(name, async || self.of(name).into_iter().next()).await
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.all().iter().map(|event| event.what.name()).collect()
    }

    /// How many events all batches of a consumer had.
    pub fn handled(&self, consumer: &str) -> u64 {
        let of_consumer = |event: &EngineEvent| event.consumer.as_deref() == Some(consumer);
        let count = |event: EngineEvent| match event.what {
            Happening::BatchHandled { events, .. } => events as u64,
            _ => 0,
        };
        self.all().into_iter().filter(of_consumer).map(count).sum()
    }
}
