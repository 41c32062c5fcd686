//! What a heartbeat finds out: what others have changed, and what somebody asks for.

use super::Keeper;
use super::trouble::Trouble;
use crate::lane::{Order, Wish};
use crate::run_error::RunError;
use crate::standing;
use crate::tables::workers::Beat;
use anabranch_core::{Happening, Notice};
use std::sync::Arc;

impl Keeper {
    /// What a heartbeat has found out.
    pub(super) async fn look_after(&mut self, beat: &Beat) -> Result<(), RunError> {
        for number in 0..self.running.len() {
            // One may make room for another meanwhile.
            let Some(running) = self.running.get(number) else { break };
            if matches!(running.trouble, Some(Trouble::Exchanged(_))) {
                // It is about to be something else.
                continue;
            }
            let name = &running.consumer.name;
            let found = beat.consumers.iter().find(|beat| beat.consumer == *name);
            if found.is_none() && beat.begun < running.begun {
                // It has looked for the name that it had before.
                continue;
            }
            let now = found.map(|beat| &beat.identity);
            let still_is = running.consumer.still_is(self.log.hash_rule(), now);
            match still_is {
                Ok(()) => self.running[number].is_accepted(),
                Err(error) => self.has_changed(number, now, error).await?,
            }
        }
        self.check_log().await?;
        self.look_after_set(beat).await?;
        self.look_after_sessions().await?;
        let report = self.report().text();
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.say(report);
        }
        let begun = beat.begun;
        for beat in &beat.consumers {
            let found = self.running.iter().position(|run| run.consumer.name == beat.consumer);
            let Some(number) = found else { continue };
            let running = &mut self.running[number];
            if running.paused != beat.paused {
                running.paused = beat.paused;
                let events = self.tables.events.of(&beat.consumer);
                events.emit(match beat.paused {
                    true => Happening::paused(),
                    false => Happening::resumed(),
                });
                running.tell_all(|_| Order::Pause(beat.paused));
            }
            if self.plan.catch_up && beat.paused {
                self.is_broken(number, paused(&beat.consumer))?;
            }
            self.follow_outage(number, beat.outage.as_ref(), begun).await?;
            let running = &mut self.running[number];
            if !running.is_up() {
                continue;
            }
            if running.generation.is_some_and(|generation| generation != beat.generation) {
                running.claim = true;
            }
            // What others have freed, or left behind; and whatever else is not held, whyever.
            running.claim |= running.lacks_slots() || !running.holds(beat.owned);
            if beat.wants_reset {
                self.reset(number).await?;
            }
            if beat.asked {
                self.pass_on_asked(number).await?;
            }
        }
        Ok(())
    }

    async fn reset(&mut self, number: usize) -> Result<(), RunError> {
        let running = &mut self.running[number];
        let consumer = Arc::clone(&running.consumer);
        match standing::check(&self.log, &self.tables, &consumer.name).await {
            Ok(()) => {}
            Err(RunError::Store(error)) if error.is_worth_waiting() => {
                self.notice_of(&consumer.name, Notice::CannotReplayYet, &error);
                return Ok(());
            }
            // It was asked for on another log: those who have that one do it.
            Err(error) => return self.is_broken(number, error),
        }
        match consumer.reset(&self.log, &self.tables).await {
            Ok(done) => {
                if done {
                    self.tables.events.of(&consumer.name).emit(Happening::replay_began());
                }
                running.claim = true;
            }
            Err(RunError::Store(error)) if error.is_worth_waiting() => {
                self.notice_of(&consumer.name, Notice::CannotReplayYet, &error);
            }
            Err(error) => {
                // Asked again it would fail again: it is withdrawn, and `status` says why.
                let error = withdrawn(error);
                running.claim = true;
                self.notice_of(&consumer.name, Notice::CannotReplay, &error);
                let withdraw = self.tables.withdraw_reset(&consumer.name, &said(&error));
                if let Err(away) = self.tables.commit(withdraw).await {
                    self.notice_of(&consumer.name, Notice::CannotWithdrawReplay, &away);
                }
                if self.plan.catch_up {
                    // What somebody asked for is not done.
                    return self.is_broken(number, error);
                }
            }
        }
        Ok(())
    }

    async fn pass_on_asked(&mut self, number: usize) -> Result<(), RunError> {
        let running = &mut self.running[number];
        let parked = match self.tables.parked(&running.consumer.name).await {
            Ok(parked) => parked,
            Err(error) if error.is_worth_waiting() => return Ok(()),
            Err(error) => return self.is_broken(number, error.into()),
        };
        let mut of_lanes = vec![Vec::new(); running.lanes.len()];
        for key in parked {
            let Some(asked) = key.asked else { continue };
            if let Some(lane) = running.lane_of(key.slot) {
                let up_to = key.asked_to;
                of_lanes[lane].push(Wish { key: key.key, slot: key.slot, asked, up_to });
            }
        }
        for (lane, keys) in running.lanes.iter_mut().zip(of_lanes) {
            if !keys.is_empty() {
                lane.ask(keys);
            }
        }
        Ok(())
    }
}

/// The replay that could not be begun is not asked for any more.
fn withdrawn(error: RunError) -> RunError {
    match error {
        RunError::Refused { consumer, problem } => {
            let problem = format!(
                "{problem} (the replay is withdrawn, and it goes on where it stood; ask for it again with \
                 `anabranch replay` when that is mended)"
            );
            RunError::Refused { consumer, problem }
        }
        error => error,
    }
}

/// What `status` says of the replay, and not of the consumer, which goes on.
fn said(error: &RunError) -> String {
    match error {
        RunError::Refused { problem, .. } => problem.clone(),
        error => error.to_string(),
    }
}

/// A catch-up would wait for ever.
fn paused(consumer: &str) -> RunError {
    let problem = "it is paused, so it would never catch up; resume it first".to_owned();
    RunError::refused(consumer, problem)
}
