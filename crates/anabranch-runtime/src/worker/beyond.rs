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
use crate::run_error::RunError;
use crate::standing;
use anabranch_core::{Cursor, Position};
use anabranch_core::{Happening, Notice};
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
        if self.log.is_apart() {
            match standing::check(&self.log, &self.tables, &running.consumer.name).await {
                Err(RunError::Store(error)) if error.is_worth_waiting() => {
                    self.notice_of(&running.consumer.name, Notice::CannotCompareCursors, &error);
                    return Ok(false);
                }
                checked => checked?,
            }
        }
        let Some(drawn) = self.drawn().await? else { return Ok(false) };
        self.is_in_log(&running.consumer.name, furthest, drawn).await.map(|()| true)
    }

    /// Compares where the lanes stand with the log, now and then.
    pub(super) async fn check_log(&mut self) -> Result<(), RunError> {
        if self.log_checked.elapsed() < CHECK {
            return Ok(());
        }
        for (number, error) in self.changed_keys().await {
            self.is_broken(number, error)?;
        }
        let furthest: Vec<(usize, Position)> = self
            .running
            .iter()
            .enumerate()
            .filter(|(_, running)| running.is_up() && !running.has_rows() && running.held() > 0)
            .map(|(number, running)| {
                let lanes = running.stats.iter();
                let furthest = lanes.map(|lane| lane.furthest.load(Ordering::Relaxed)).max();
                (number, Position::new(furthest.unwrap_or(0)))
            })
            .collect();
        if !furthest.is_empty() {
            let Some(drawn) = self.drawn().await? else { return Ok(()) };
            for (number, position) in furthest {
                if position > drawn && !self.compare_beyond(number, position, drawn).await? {
                    return Ok(());
                }
            }
        }
        self.log_checked = Instant::now();
        Ok(())
    }

    /// Lanes of a consumer stand beyond the log: so do its cursors, or only what the lanes remember. `false`
    /// if the database is away, so that nobody can tell.
    async fn compare_beyond(
        &mut self,
        number: usize,
        position: Position,
        drawn: Position,
    ) -> Result<bool, RunError> {
        let name = self.running[number].consumer.name.clone();
        match self.tables.cursors(&name).await {
            Ok(stored) if stored.iter().all(|cursor| cursor.position <= drawn) => {
                self.fall_back(number, position, drawn);
            }
            Ok(_) => {
                if let Err(error) = self.is_in_log(&name, position, drawn).await {
                    self.is_broken(number, error)?;
                }
            }
            Err(error) if error.is_worth_waiting() => {
                self.notice_of(&name, Notice::CannotCompareCursors, &error);
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Its cursors are where the log is, though its lanes remember otherwise.
    fn fall_back(&mut self, number: usize, position: Position, drawn: Position) {
        let running = &mut self.running[number];
        let detail = format!("position={position} drawn={drawn}");
        let what = Happening::noticed(Notice::FellBack, detail);
        self.tables.events.of(&running.consumer.name).emit(what);
        running.forget_all();
        running.claim = true;
    }

    /// The same for keys, at the end of a run.
    pub(super) async fn check_keys(&mut self) -> Result<(), RunError> {
        match self.changed_keys().await.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Compares the keys of what others have handled with what this program's functions answer: the
    /// consumers whose do not.
    async fn changed_keys(&mut self) -> Vec<(usize, RunError)> {
        let mut changed = Vec::new();
        for (number, running) in self.running.iter_mut().enumerate() {
            if !running.is_up() {
                continue;
            }
            let (consumer, checked) = (&running.consumer, &mut running.checked_keys);
            match key_samples::check(consumer, &self.log, &self.tables, checked).await {
                Ok(()) => {}
                Err(RunError::Store(error)) if error.is_worth_waiting() => {
                    let what = Happening::failed(Notice::CannotCompareKeys, &error);
                    self.tables.events.of(&consumer.name).emit(what);
                }
                Err(error) => changed.push((number, error)),
            }
        }
        changed
    }

    /// The last position ever drawn; nothing if the database is away. It is read after the positions of
    /// cursors: they never lie beyond it then, unless it has fallen back.
    async fn drawn(&self) -> Result<Option<Position>, RunError> {
        match self.log.store().drawn().await {
            Ok(drawn) => Ok(Some(drawn)),
            Err(error) if error.is_worth_waiting() => {
                self.notice(Notice::CannotCompareCursors, &error);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses a consumer that stands beyond the last position ever drawn.
    async fn is_in_log(
        &self,
        consumer: &str,
        position: Position,
        drawn: Position,
    ) -> Result<(), RunError> {
        if position <= drawn {
            return Ok(());
        }
        // The log may grow past it again, and what is there then would look handled.
        if let Err(error) = self.tables.commit(vec![self.tables.is_beyond(consumer, drawn)]).await {
            self.notice_of(consumer, Notice::BeyondNotStored, &error);
        }
        Err(RunError::BeyondLog { consumer: consumer.to_owned(), position, drawn })
    }
}
