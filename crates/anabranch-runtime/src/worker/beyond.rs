//! Cursors beyond the end of the log. Somebody has emptied the log, restored it from an older backup, or
//! put its sequence back: whoever went on would ignore what is appended next, for as long as it takes to
//! come to its cursor again, and look as if it had nothing to do.
//!
//! A cursor is looked at when it is claimed, before anything of it is handled; and where lanes stand is
//! compared with the log every few seconds while they run, by one small statement. What falls back and
//! grows beyond a cursor again between two such looks is not noticed. With that look goes one at the keys
//! of what other programs have handled.

use super::Keeper;
use crate::key_samples;
use crate::run_error::RunError;
use anabranch_core::{Cursor, Position};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often to compare.
const CHECK: Duration = Duration::from_secs(5);

impl Keeper {
    /// Refuses cursors that were just claimed if they stand beyond the log. `false` if the database is
    /// away, so that nobody can tell.
    pub(super) async fn stands_in_log(
        &self,
        number: usize,
        cursors: &[Cursor],
    ) -> Result<bool, RunError> {
        let running = &self.running[number];
        let furthest = cursors.iter().map(|cursor| cursor.position).max();
        let Some(furthest) = furthest.filter(|_| !running.has_rows()) else { return Ok(true) };
        self.is_in_log(&[(running.consumer.name.as_str(), furthest)]).await
    }

    /// Compares where the lanes stand with the log, now and then.
    pub(super) async fn check_log(&mut self) -> Result<(), RunError> {
        if self.log_checked.elapsed() < CHECK {
            return Ok(());
        }
        self.check_keys().await?;
        let furthest: Vec<(&str, Position)> = self
            .running
            .iter()
            .filter(|running| !running.has_rows() && running.held() > 0)
            .map(|running| {
                let lanes = running.stats.iter();
                let furthest = lanes.map(|lane| lane.furthest.load(Ordering::Relaxed)).max();
                (running.consumer.name.as_str(), Position::new(furthest.unwrap_or(0)))
            })
            .collect();
        if furthest.is_empty() || self.is_in_log(&furthest).await? {
            self.log_checked = Instant::now();
        }
        Ok(())
    }

    /// Compares the keys of what others have handled with what this program's functions answer.
    pub(super) async fn check_keys(&mut self) -> Result<(), RunError> {
        for running in &mut self.running {
            let (consumer, checked) = (&running.consumer, &mut running.checked_keys);
            match key_samples::check(consumer, &self.log, &self.tables, checked).await {
                Err(RunError::Store(error)) if error.is_worth_waiting() => {
                    tracing::warn!(%error, "cannot compare keys yet");
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Whether nobody stands beyond the last position ever drawn. It is read after the positions: they
    /// never lie beyond it then, unless it has fallen back.
    async fn is_in_log(&self, standing: &[(&str, Position)]) -> Result<bool, RunError> {
        let drawn = match self.log.store().drawn().await {
            Ok(drawn) => drawn,
            Err(error) if error.is_worth_waiting() => {
                tracing::warn!(%error, "cannot compare its cursors with the log yet");
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        match standing.iter().find(|(_, position)| *position > drawn) {
            Some((consumer, position)) => {
                let (consumer, position) = ((*consumer).to_owned(), *position);
                // The log may grow past it again, and what is there then would look handled.
                self.tables.commit(vec![self.tables.is_beyond(&consumer, drawn)]).await?;
                Err(RunError::BeyondLog { consumer, position, drawn })
            }
            None => Ok(true),
        }
    }
}
