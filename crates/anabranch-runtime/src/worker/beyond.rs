//! Cursors beyond the end of the log. Somebody has emptied the log, restored it from an older backup, or
//! put its sequence back: whoever went on would ignore what is appended next, for as long as it takes to
//! come to its cursor again, and look as if it had nothing to do.
//!
//! A cursor is looked at when it is claimed, before anything of it is handled; and where lanes stand is
//! compared with the log every few seconds while they run, by one small statement. What falls back and
//! grows beyond a cursor again between two such looks is not noticed. With that look goes one at the keys
//! of what other programs have handled.
//!
//! A fail-over to a standby that was behind takes the log and its cursors back together. Then only lanes stand
//! beyond the log, by what they remember: they forget that, and go on where the tables say.

use super::Keeper;
use crate::key_samples;
use crate::lane::Order;
use crate::run_error::RunError;
use anabranch_core::{Cursor, Position, StoreError};
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
        match self.find_beyond(&[(number, furthest)]).await? {
            Looked::Away => Ok(false),
            Looked::In => Ok(true),
            Looked::Beyond(beyond) => Err(self.refuse(beyond).await?),
        }
    }

    /// Compares where the lanes stand with the log, now and then.
    pub(super) async fn check_log(&mut self) -> Result<(), RunError> {
        if self.log_checked.elapsed() < CHECK {
            return Ok(());
        }
        self.check_keys().await?;
        let furthest: Vec<(usize, Position)> = self
            .running
            .iter()
            .enumerate()
            .filter(|(_, running)| !running.has_rows() && running.held() > 0)
            .map(|(number, running)| {
                let lanes = running.stats.iter();
                let furthest = lanes.map(|lane| lane.furthest.load(Ordering::Relaxed)).max();
                (number, Position::new(furthest.unwrap_or(0)))
            })
            .collect();
        match self.find_beyond(&furthest).await? {
            Looked::Away => {}
            Looked::In => self.log_checked = Instant::now(),
            Looked::Beyond(beyond) => match self.has_fallen_back(&beyond).await {
                Ok(true) => self.fall_back(&beyond),
                Ok(false) => return Err(self.refuse(beyond).await?),
                Err(error) if error.is_worth_waiting() => {
                    tracing::warn!(%error, "cannot compare its cursors with the log yet");
                }
                Err(error) => return Err(error.into()),
            },
        }
        Ok(())
    }

    /// Whether its cursors are where the log is, though its lanes remember otherwise.
    async fn has_fallen_back(&self, beyond: &Beyond) -> Result<bool, StoreError> {
        let name = &self.running[beyond.number].consumer.name;
        let stored = self.tables.cursors(name).await?;
        Ok(stored.iter().all(|cursor| cursor.position <= beyond.drawn))
    }

    fn fall_back(&mut self, beyond: &Beyond) {
        let running = &mut self.running[beyond.number];
        tracing::error!(
            consumer = running.consumer.name,
            position = beyond.position.get(),
            drawn = beyond.drawn.get(),
            "the database has fallen back, the log and its cursors together: a standby that was behind \
             has become the primary, or an older backup was restored. What came after is lost; it goes on \
             where the cursors stand now"
        );
        running.tell_all(|_| Order::Forget);
        running.claim = true;
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

    /// Whether somebody stands beyond the last position ever drawn. It is read after the positions: they
    /// never lie beyond it then, unless it has fallen back.
    async fn find_beyond(&self, standing: &[(usize, Position)]) -> Result<Looked, RunError> {
        if standing.is_empty() {
            return Ok(Looked::In);
        }
        let drawn = match self.log.store().drawn().await {
            Ok(drawn) => drawn,
            Err(error) if error.is_worth_waiting() => {
                tracing::warn!(%error, "cannot compare its cursors with the log yet");
                return Ok(Looked::Away);
            }
            Err(error) => return Err(error.into()),
        };
        let beyond = standing.iter().find(|(_, position)| *position > drawn);
        let beyond = beyond.map(|&(number, position)| Beyond { number, position, drawn });
        Ok(beyond.map_or(Looked::In, Looked::Beyond))
    }

    /// The error for a consumer that stands beyond the log.
    async fn refuse(&self, beyond: Beyond) -> Result<RunError, RunError> {
        let Beyond { number, position, drawn } = beyond;
        let consumer = self.running[number].consumer.name.clone();
        // The log may grow past it again, and what is there then would look handled.
        self.tables.commit(vec![self.tables.is_beyond(&consumer, drawn)]).await?;
        Ok(RunError::BeyondLog { consumer, position, drawn })
    }
}

/// A consumer that stands beyond the last position ever drawn.
struct Beyond {
    /// Its number.
    number: usize,
    position: Position,
    drawn: Position,
}

/// Where consumers stand.
enum Looked {
    /// In the log, all of them.
    In,
    /// This one does not.
    Beyond(Beyond),
    /// The database is away, so nobody can tell.
    Away,
}
