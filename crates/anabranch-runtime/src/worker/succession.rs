//! A new version takes the place of the old one under a running worker: whoever built it serves it from
//! then on under its own name, and nobody ends.

use super::Keeper;
use super::trouble::Trouble;
use crate::consumer::Consumer;
use crate::identity::Stored;
use crate::lane::Order;
use crate::run_error::RunError;
use anabranch_core::{SlotSet, Weights};
use std::sync::Arc;

impl Keeper {
    /// A consumer is not what it was. If a new version has taken the place of an old one, both are where
    /// they belong afterwards; anything else keeps it from running here.
    pub(super) async fn has_changed(
        &mut self,
        number: usize,
        now: Option<&Stored>,
        error: RunError,
    ) -> Result<(), RunError> {
        let consumer = Arc::clone(&self.running[number].consumer);
        let version = match now {
            Some(now) => Some(now.version),
            None if consumer.is_beside() => {
                match self.tables.registered(Some(consumer.own_name())).await {
                    Ok(known) => known.first().map(|known| known.version),
                    // The next heartbeat says so again.
                    Err(error) if error.is_transient() => return Ok(()),
                    Err(error) => return self.is_broken(number, error.into()),
                }
            }
            None => None,
        };
        match version {
            Some(version) if consumer.is_beside() && version == consumer.settings.version => {
                self.moves(number);
                Ok(())
            }
            Some(version) if self.new_version_of(&consumer) == Some(version) => {
                self.retire(number);
                Ok(())
            }
            Some(version) if version > consumer.settings.version => {
                self.is_broken(number, consumer.is_outdated(version))
            }
            _ => self.is_broken(number, error),
        }
    }

    /// Whether this program has a new version of a consumer as well.
    pub(super) fn has_new_version(&self, number: usize) -> bool {
        self.new_version_of(&self.running[number].consumer).is_some()
    }

    fn new_version_of(&self, old: &Consumer) -> Option<u32> {
        let mut others = self.plan.consumers.iter();
        let new = others.find(|other| other.is_rebuild && other.own_name() == old.name);
        new.filter(|_| !old.is_rebuild).map(|new| new.settings.version)
    }

    /// The old version of a consumer is not run here any more, since this program has the new one too. Its
    /// cursors are gone, so whatever its lanes do is fenced.
    fn retire(&mut self, number: usize) {
        let consumer = self.plan.consumers.remove(number);
        self.running.remove(number);
        tracing::info!(
            consumer = consumer.name,
            version = consumer.settings.version,
            "a new version has taken the place of this one"
        );
        self.tell_heartbeat();
    }

    /// A consumer goes on under its own name, once its lanes have ended: they have lost their cursors.
    fn moves(&mut self, number: usize) {
        let running = &mut self.running[number];
        if matches!(running.trouble, Some(Trouble::Moving)) {
            return;
        }
        let (consumer, version) = (running.consumer.own_name(), running.consumer.settings.version);
        tracing::info!(consumer, version, "it has taken the place of the old version");
        running.trouble = Some(Trouble::Moving);
        running.want(&SlotSet::empty(), &Weights::even(), false);
        running.claim = false;
        running.waiting_for.clear();
        running.tell_all(|_| Order::Stop);
    }

    /// A lane has ended, as it was told: if it was the last, nobody waits any longer.
    pub(super) async fn lane_has_ended(&mut self, number: usize) -> Result<(), RunError> {
        let running = &mut self.running[number];
        if matches!(running.trouble, Some(Trouble::Moving)) {
            // It has said so with its last breath.
            running.lane_tasks.join_next().await;
            return self.see_to_move(number).await;
        }
        Ok(())
    }

    /// Starts it under its own name when its lanes have ended.
    pub(super) async fn see_to_move(&mut self, number: usize) -> Result<(), RunError> {
        let running = &mut self.running[number];
        while running.lane_tasks.try_join_next().is_some() {}
        if !running.lane_tasks.is_empty() {
            // A handler is still at work.
            return Ok(());
        }
        running.feed_task.abort_all();
        let consumer = Arc::clone(&running.consumer);
        match consumer.take_place(&self.log, &self.tables).await {
            Ok(placed) => {
                let running = &mut self.running[number];
                (running.trouble, running.tries) = (None, 0);
                self.is_called(number, placed);
                self.start_lanes(number);
                self.reconcile();
                Ok(())
            }
            // Tried again in a moment.
            Err(RunError::Store(error)) if error.is_transient() => Ok(()),
            Err(error) => {
                self.running[number].trouble = None;
                self.is_broken(number, error)
            }
        }
    }

    /// A consumer has another name here from now on, or the same.
    pub(super) fn is_called(&mut self, number: usize, placed: Arc<Consumer>) {
        self.plan.consumers[number] = Arc::clone(&placed);
        self.running[number].consumer = placed;
        self.tell_heartbeat();
    }

    /// Tells the heartbeat which consumers to look at.
    fn tell_heartbeat(&self) {
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.looks_at(self.names());
            heartbeat.now();
        }
    }
}
