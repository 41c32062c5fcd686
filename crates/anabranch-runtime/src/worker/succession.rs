//! A new version takes the place of the old one under a running worker: whoever built it serves it from
//! then on under its own name, and nobody ends.

use super::Keeper;
use super::trouble::Trouble;
use crate::consumer::Consumer;
use crate::identity::Stored;
use crate::lane::Order;
use crate::run_error::RunError;
use crate::tables::runners::Runner;
use anabranch_core::{Happening, Notice};
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
                    Err(error) if error.is_worth_waiting() => return Ok(()),
                    Err(error) => return self.is_broken(number, error.into()),
                }
            }
            None => None,
        };
        match version {
            Some(version) if now.is_none() && version == consumer.settings.version => {
                self.moves(number);
                Ok(())
            }
            Some(version) if self.new_version_of(&consumer) == Some(version) => {
                self.moves(number);
                Ok(())
            }
            Some(version) if version > consumer.settings.version => {
                self.is_broken(number, consumer.is_outdated(version))?;
                // Others are to own its slots at once.
                self.see_to_broken(number).await
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

    /// A consumer is about to go on under its own name, or to make room for one that does. Its lanes have
    /// lost their cursors, and end.
    fn moves(&mut self, number: usize) {
        let running = &mut self.running[number];
        if matches!(running.trouble, Some(Trouble::Moving)) {
            return;
        }
        let (consumer, version) = (running.consumer.own_name(), running.consumer.settings.version);
        let kind = match running.consumer.is_beside() {
            true => Notice::TakesPlace,
            false => Notice::MakesRoom,
        };
        let what = Happening::noticed(kind, format!("version={version}"));
        self.tables.events.of(consumer).emit(what);
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
        if matches!(running.trouble, Some(Trouble::Exchanged(_))) {
            // Its task ends in a moment, and the next heartbeat goes on in any case: others must not wait here for a
            // handler of another lane.
            tokio::task::yield_now().await;
            return self.see_to_exchange(number).await;
        }
        Ok(())
    }

    /// Starts it under its own name when its lanes have ended.
    pub(super) async fn see_to_move(&mut self, number: usize) -> Result<(), RunError> {
        let running = &mut self.running[number];
        while running.lane_tasks.try_join_next().is_some() {}
        let consumer = Arc::clone(&running.consumer);
        if !consumer.is_beside() {
            return self.see_to_heir(number, &consumer);
        }
        if !running.lane_tasks.is_empty() {
            // A handler is still at work.
            return Ok(());
        }
        running.feed_task.abort_all();
        let placed = match consumer.take_place(&self.log, &self.tables).await {
            Ok(placed) => placed,
            // Tried again in a moment.
            Err(RunError::Store(error)) if error.is_worth_waiting() => return Ok(()),
            Err(error) => {
                self.running[number].trouble = None;
                return self.is_broken(number, error);
            }
        };
        let Some(number) = self.is_called(number, placed).await? else { return Ok(()) };
        let running = &mut self.running[number];
        (running.trouble, running.tries) = (None, 0);
        let what = Happening::noticed(Notice::ServesNewVersion, None);
        self.tables.events.of(&running.consumer.name).emit(what);
        self.start_lanes(number);
        self.reconcile();
        Ok(())
    }

    /// An old version, whose new one this program has too, makes room for it. If that cannot run, somebody
    /// must know.
    fn see_to_heir(&mut self, number: usize, old: &Consumer) -> Result<(), RunError> {
        let is_heir = |run: &super::Running| {
            run.consumer.is_rebuild && run.consumer.own_name() == old.name && run.goes_on()
        };
        if self.running.iter().any(is_heir) {
            return Ok(());
        }
        let Some(version) = self.new_version_of(old) else { return Ok(()) };
        self.running[number].trouble = None;
        self.is_broken(number, old.is_outdated(version))
    }

    /// A consumer has another name here from now on, or the same. An old version that had the name makes
    /// room for it, so its place among the others may be another one, too; none if the database does not hear
    /// of it yet.
    pub(super) async fn is_called(
        &mut self,
        number: usize,
        placed: Arc<Consumer>,
    ) -> Result<Option<usize>, RunError> {
        let was = self.running[number].consumer.name.clone();
        if was != placed.name {
            let (consumer, version) = (placed.name.clone(), Some(placed.settings.version));
            let unable = self.running[number].why_no_session();
            let runner = Runner { consumer, version, unable };
            let (set, worker) = (&self.plan.name, &self.worker.id);
            match self.tables.set_runner(set, worker, &was, &runner).await {
                Ok(made) => made.into_iter().for_each(|made| self.tables.events.emit(made)),
                Err(error) if error.is_worth_waiting() => {
                    self.notice_of(&was, Notice::CannotSayName, &error);
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
            self.running[number].unable = runner.unable;
        }
        let (number, name) = (self.running[number].number, placed.name.clone());
        self.running.retain(|run| run.number == number || run.consumer.name != name);
        let place = self.running.iter().position(|run| run.number == number).unwrap_or_default();
        self.running[place].consumer = placed;
        self.plan.consumers = self.running.iter().map(|run| Arc::clone(&run.consumer)).collect();
        self.tell_heartbeat();
        match self.follow().await {
            // The next heartbeat tells of the new generation.
            Err(RunError::Store(error)) if error.is_worth_waiting() => {}
            done => done?,
        }
        Ok(Some(place))
    }

    /// Tells the heartbeat which consumers to look at.
    pub(super) fn tell_heartbeat(&self) {
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.looks_at(self.names());
            heartbeat.now();
        }
    }
}
