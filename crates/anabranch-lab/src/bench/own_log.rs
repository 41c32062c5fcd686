//! A log of a benchmark's own, with the tables of what it measures, and a bare connection to look
//! at them.

use super::bare::Bare;
use super::events::{self, event, stream};
use crate::throwaway::Throwaway;
use anabranch::{Append, Expected, Log, Namespace, StreamId};
use std::fmt::Display;

const FILL_BATCH: u64 = 1000;

pub(crate) struct OwnLog {
    pub(crate) url: String,
    pub(crate) namespace: Namespace,
    pub(crate) log: Log,
    pub(crate) bare: Bare,
}

impl OwnLog {
    /// A log of this process and no other.
    pub(crate) async fn create(made: &Throwaway, name: &str) -> anyhow::Result<Self> {
        let namespace = Namespace::new(format!("bench_{name}_{}", std::process::id()))?;
        let log = made.log(&namespace).await?;
        let bare = Bare::connect(made.url(), &namespace).await?;
        Ok(Self { url: made.url().to_owned(), namespace, log, bare })
    }

    /// A table that is dropped with the log. Its name lives as long as the program: what is measured
    /// has its statements at hand, as a program with literals would.
    pub(crate) fn table(&self, name: impl Display) -> &'static str {
        let dot = if self.is_postgres() { '.' } else { '_' };
        format!("{}{dot}{name}", self.namespace).leak()
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.bare, Bare::Postgres(_))
    }

    /// Appends events, each to the next stream.
    pub(crate) async fn fill(&self, events: u64, streams: u64) -> anyhow::Result<()> {
        // A part of an append is a stream of its own.
        let step = FILL_BATCH.min(streams);
        for first in (0..events).step_by(step as usize) {
            let mut append = Append::new();
            for number in first..events.min(first + step) {
                let stream = StreamId::new("Order", stream(number, streams))?;
                append = append.to(&stream, Expected::Any, [event(number)]);
            }
            self.log.append_all(append).await?;
        }
        Ok(())
    }

    /// Appends events to one stream.
    pub(crate) async fn fill_stream(&self, id: &str, events: u64) -> anyhow::Result<()> {
        let stream = StreamId::new("Order", id)?;
        self.log.append(&stream, Expected::Any, (0..events).map(event)).await?;
        Ok(())
    }

    /// Fails unless a table holds every event once.
    pub(crate) async fn verify(&mut self, table: &str, events: u64) -> anyhow::Result<()> {
        verify(table, events, self.bare.sums(table).await?)
    }
}

/// Fails unless these are the sums of so many events.
pub(crate) fn verify(what: &str, events: u64, found: (u64, f64)) -> anyhow::Result<()> {
    let expected = (events, (0..events).map(events::total).sum::<f64>());
    anyhow::ensure!(
        found == expected,
        "{what} holds {} events of {} in total, where the log has {} of {}",
        found.0,
        found.1,
        expected.0,
        expected.1
    );
    Ok(())
}
