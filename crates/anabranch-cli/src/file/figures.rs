//! What a run has done, as figures.

use anabranch::operate::{ConsumerStatus, Consumers};
use anabranch::running::{ConsumerProgress, Progress};
use anabranch::{Log, RunError, StoreError};
use anabranch_file::file::File;
use anabranch_terminal::output;
use serde::Serialize;
use std::time::Duration;

/// What is printed at the end.
#[derive(Serialize)]
pub(super) struct Figures {
    complete: bool,
    consumers: Vec<Figure>,
}

#[derive(Serialize)]
struct Figure {
    name: String,
    /// Events or tasks that this process has handled.
    handled: u64,
    /// Keys that have failed and wait for somebody.
    parked: u64,
    /// What is not handled, whichever process could: of all slots, or of those of a fixed partition. Null if it has
    /// never run.
    lag: Option<u64>,
    /// Why it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Figures {
    pub(super) async fn of(
        file: &File,
        log: &Log,
        is_partition: bool,
        progress: &Progress,
        errors: &[(String, RunError)],
    ) -> Result<Self, StoreError> {
        let stored = Consumers::new(log).list().await?;
        let figure = |(set, name): (&str, &str)| {
            let here = progress.consumers.iter().find(|consumer| consumer.name == name);
            let stored = stored.iter().find(|status| status.name == name);
            let (parked, lag) = match (here, is_partition) {
                (Some(here), true) => of_partition(here),
                _ => of_all(stored),
            };
            let of_set = errors.iter().find(|(of, _)| of == set);
            let error = here.and_then(|here| here.trouble.clone());
            let error = error.or_else(|| here.is_none().then(|| Some(of_set?.1.to_string()))?);
            let handled = here.map_or(0, |here| here.handled);
            Figure { name: name.to_owned(), handled, parked, lag, error }
        };
        let names =
            file.consumers().map(|(set, name)| (set.name.text.as_str(), name.text.as_str()));
        Ok(Self { complete: errors.is_empty(), consumers: names.map(figure).collect() })
    }
}

/// Of the slots of this process.
fn of_partition(here: &ConsumerProgress) -> (u64, Option<u64>) {
    (here.parked as u64, Some(here.head.get().saturating_sub(here.position.get())))
}

fn of_all(stored: Option<&ConsumerStatus>) -> (u64, Option<u64>) {
    let parked = stored.map_or(0, |status| status.parked_keys as u64);
    (parked, stored.map(|status| status.lag))
}

/// The same in one line.
pub(super) fn summary(figures: &Figures, took: Duration) -> String {
    let handled: Vec<String> =
        figures.consumers.iter().map(|one| format!("{} {}", one.name, one.handled)).collect();
    let consumers = output::count(figures.consumers.len() as u64, "consumer");
    format!("{consumers} caught up in {took:.1?}; handled here: {}", handled.join(", "))
}
