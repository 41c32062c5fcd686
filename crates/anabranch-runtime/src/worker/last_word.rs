//! How a replica set stands when its lanes have stopped: its last words to those who watch.
//!
//! Lanes that have stopped hold nothing, so what they would say is no answer. The tables are asked.

use super::Keeper;
use super::running::Running;
use crate::backlog::Backlog;
use crate::replica_set::{ConsumerProgress, Progress};
use anabranch_core::{Happening, Notice};
use anabranch_core::{SlotSet, StoreError};
use std::time::Duration;

/// How long to ask a database that may be away.
const ASK: Duration = Duration::from_secs(2);

/// How a set stood before its lanes were stopped.
pub(super) struct Before {
    progress: Progress,
    /// The slots that each consumer had.
    shares: Vec<SlotSet>,
}

impl Keeper {
    /// How it stands, while its lanes still know.
    pub(super) fn before_end(&self) -> Before {
        let share = |running: &Running| match running.share() {
            none if none.is_empty() => running.universe.clone(),
            share => share,
        };
        Before { progress: self.progress(), shares: self.running.iter().map(share).collect() }
    }

    /// The last words, after the lanes have stopped. If the database is away, they are what the lanes
    /// said last.
    pub(super) async fn last_word(&mut self, before: Before) -> Progress {
        // A database that does not say this in time is not asked for more.
        let mut answers = true;
        match tokio::time::timeout(ASK, self.log.head()).await {
            Ok(Ok(head)) => self.head = head,
            Ok(Err(_)) | Err(_) => answers = false,
        }
        let Before { progress, shares } = before;
        let mut last = self.progress();
        last.has_ended = true;
        let each = last.consumers.iter_mut().zip(progress.consumers);
        for ((now, then), (running, slots)) in each.zip(self.running.iter().zip(shares)) {
            (now.position, now.parked, now.retrying) = (then.position, then.parked, then.retrying);
            now.waiting_for.clear();
            if !answers {
                continue;
            }
            match tokio::time::timeout(ASK, self.stands(running, &slots, now)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.notice(Notice::CannotAskProgress, &error),
                Err(_) => answers = false,
            }
        }
        if !answers {
            let what = Happening::noticed(Notice::NoAnswerToProgress, None);
            self.tables.events.emit(what);
        }
        self.plan.observers.iter().for_each(|observer| observer(&last));
        last
    }

    /// How some slots of a consumer stand in the tables.
    async fn stands(
        &self,
        running: &Running,
        slots: &SlotSet,
        now: &mut ConsumerProgress,
    ) -> Result<(), StoreError> {
        let name = &running.consumer.name;
        if !running.has_rows() {
            let cursors = self.tables.cursors(name).await?;
            let ours = cursors.iter().filter(|cursor| !cursor.slots.is_disjoint(slots));
            if let Some(lowest) = ours.map(|cursor| cursor.position).min() {
                now.position = lowest;
            }
        }
        let follows_log = !running.has_rows();
        let backlog =
            Backlog::up_to(&self.tables, name, follows_log, anabranch_core::Position::END);
        let aside = backlog.await?.aside(slots);
        (now.parked, now.retrying) = (aside.parked_keys, aside.retrying_keys);
        Ok(())
    }
}
