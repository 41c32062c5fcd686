//! The worker as a member of its set: joining, following generations, leaving.

use super::Keeper;
use crate::run_error::RunError;
use crate::tables::replica_sets::Assigned;
use crate::tables::workers::Beat;
use anabranch_core::engine_event::OutageOf;
use anabranch_core::generation::{Next, Rollout};
use anabranch_core::{Happening, Notice, SlotSet, StoreError, Weights};
use anabranch_store::Backoff;
use anabranch_store::database::LifeSign;
use std::time::Instant;

/// What the worker knows of its set.
pub(super) struct Membership {
    /// Shows that the process lives.
    pub(super) life: Option<LifeSign>,
    rollout: Rollout,
    /// What it should own in the generation that it follows.
    pub(super) assigned: Assigned,
    /// Of generations before this one it holds nothing, as others know.
    settled: i64,
    /// Workers whose process is gone, and nobody has said so yet.
    pub(super) gone: Vec<String>,
    /// Since when slots are held that others should own, or wanted that others hold.
    in_motion: Option<Instant>,
    /// Since when the load of its slots is counted.
    pub(super) counting: Instant,
    /// The generation in which it has measured that.
    pub(super) weighed: Option<i64>,
}

impl Membership {
    /// The process of another worker is gone.
    pub(super) fn is_gone(&mut self, worker: String) {
        // Who has left as it should is looked at no more.
        self.assigned.leaving.retain(|leaving| *leaving != worker);
        self.gone.push(worker);
    }

    pub(super) fn new(rollout: Rollout) -> Self {
        Self {
            life: None,
            rollout,
            assigned: Assigned::none(),
            settled: 0,
            gone: Vec::new(),
            in_motion: None,
            counting: Instant::now(),
            weighed: None,
        }
    }
}

impl Keeper {
    /// Becomes a member: from here on it has a lease, and slots of its own.
    pub(super) async fn join(&mut self) -> Result<(), RunError> {
        // It claims only what it can run.
        self.tables.database.secure_sessions().await?;
        let life = self.tables.database.show_life(&self.worker.id).await?;
        self.membership.life = Some(life);
        let report = self.report().text();
        let (lease, runners) = (self.plan.tuning.lease, self.runners());
        self.tables.enlist(&self.worker, lease, &runners, &report).await?;
        self.has_said(runners);
        self.start_heartbeat();
        self.tick().await?;
        Ok(())
    }

    /// Others have taken this process for dead. Whatever its lanes do is fenced; it begins anew.
    pub(super) async fn declared_dead(&mut self) -> Result<(), RunError> {
        self.tables.events.emit(Happening::worker_fenced());
        // Of the one that was taken for dead: the next one has its own.
        self.heartbeat = None;
        self.peers.stop();
        self.membership = Membership::new(self.plan.rollout);
        let old = self.renew_worker();
        let (none, even, is_fixed) = (SlotSet::empty(), Weights::even(), self.plan.fixed.is_some());
        for running in &mut self.running {
            running.forget_all();
            running.want(&none, &even, is_fixed);
        }
        self.tell_who();
        let _ = self.tables.dismiss(&old.id).await;
        self.join_patiently(None).await
    }

    /// Tells all lanes whose they are.
    fn tell_who(&mut self) {
        for running in &mut self.running {
            running.serve(&self.worker.id);
        }
    }

    /// Joins, and again while the database is away, up to a time if there is one.
    pub(super) async fn join_patiently(&mut self, until: Option<Instant>) -> Result<(), RunError> {
        let mut backoff = Backoff::default();
        loop {
            let is_late = until.is_some_and(|until| Instant::now() >= until);
            match self.join().await {
                Err(RunError::Store(error)) if error.is_worth_waiting() && !is_late => {
                    self.tables.events.outage(&mut backoff, OutageOf::Join, &error);
                    // What is half done is done under another name. The one that may have shown life already shows it
                    // no more, and nobody waits for it.
                    if self.heartbeat.take().is_some() {
                        self.tables.events.emit(Happening::worker_left());
                    }
                    self.renew_worker();
                    self.tell_who();
                    tokio::time::sleep(backoff.wait()).await;
                }
                done => {
                    if done.is_ok() {
                        let waited = backoff.end();
                        self.tables.events.emit(Happening::worker_joined(waited));
                    }
                    return done;
                }
            }
        }
    }

    /// Makes the next generation if the members have changed, then follows it.
    pub(super) async fn tick(&mut self) -> Result<(), RunError> {
        let gone = std::mem::take(&mut self.membership.gone);
        let next = match self.tables.tick(&self.plan.name, &gone).await {
            Ok(next) => next,
            Err(error) => {
                self.membership.gone = gone;
                return Err(error.into());
            }
        };
        let mut ended = gone;
        if let Some(next) = next {
            let (Next { left, died, .. }, made) = next;
            died.iter().for_each(|died| {
                self.tables.events.emit(Happening::worker_died(died.clone()));
            });
            self.tables.events.emit(made);
            ended.extend(died.into_iter().chain(left));
        }
        for worker in ended {
            // Its open transactions may hold locks that its heirs need.
            if let Err(error) = self.tables.database.bury(&worker).await {
                let (error, worker) = (Some(error.to_string()), Some(worker));
                let what = Happening::notice(Notice::CannotEndSessions, error, worker);
                self.tables.events.emit(what);
            }
        }
        self.follow().await
    }

    /// Takes over what the current generation says.
    pub(super) async fn follow(&mut self) -> Result<(), RunError> {
        let assigned = self.tables.assigned(&self.plan.name, &self.worker.id).await?;
        if !assigned.is_complete {
            // Made just now, by a worker that does not know who runs what. The next heartbeat sees that,
            // and makes another: whoever followed this one would claim and release in vain.
            return Ok(());
        }
        let membership = &mut self.membership;
        let is_other = assigned.generation != membership.assigned.generation;
        if is_other {
            membership.in_motion = Some(Instant::now());
            // What was counted is of other slots.
            membership.counting = Instant::now();
            self.running.iter().for_each(|run| run.feed.count_anew());
            if membership.rollout == Rollout::Recreate {
                // Not before all who run it have released what they hold of the one before, as the next
                // heartbeat will say.
                self.running.iter_mut().for_each(|run| run.may_hold = false);
            }
        }
        self.tables.events.follows(assigned.generation);
        membership.assigned = assigned;
        self.watch_peers();
        self.reconcile();
        if is_other {
            self.check_limits().await;
        }
        Ok(())
    }

    fn watch_peers(&mut self) {
        let Assigned { members, leaving, .. } = &self.membership.assigned;
        self.peers.watch(members, leaving, &self.worker.id);
    }

    /// Tells the consumers what they should hold now.
    pub(super) fn reconcile(&mut self) {
        let (nothing, is_fixed) = (SlotSet::empty(), self.plan.fixed.is_some());
        for running in &mut self.running {
            let share = self.membership.assigned.of(&running.consumer.name);
            let slots = if running.may_hold { &share.slots } else { &nothing };
            running.want(slots, &share.weights, is_fixed);
        }
    }

    /// What a heartbeat says about the set.
    pub(super) async fn look_after_set(&mut self, beat: &Beat) -> Result<(), RunError> {
        if beat.generation < self.membership.assigned.generation {
            // Older than what is known already.
            return Ok(());
        }
        self.membership.rollout = beat.rollout;
        let is_new = beat.generation != self.membership.assigned.generation;
        let stale = beat.is_stale || !self.membership.gone.is_empty();
        let done = match (stale, is_new) {
            (true, _) => self.tick().await,
            (false, true) => self.follow().await,
            (false, false) => Ok(()),
        };
        match done {
            Err(RunError::Store(error)) if error.is_worth_waiting() => {
                self.notice(Notice::CannotFollow, &error);
                return Ok(());
            }
            done => done?,
        }
        if beat.generation == self.membership.assigned.generation && self.may_hold(beat) {
            self.reconcile();
        }
        self.watch_peers();
        self.settle(beat).await?;
        self.warn_if_stuck();
        self.weigh().await
    }

    /// Finds out which consumers may hold something of this generation; says whether that has changed.
    fn may_hold(&mut self, beat: &Beat) -> bool {
        let mut has_changed = false;
        for running in &mut self.running {
            let of = beat.consumers.iter().find(|of| of.consumer == running.consumer.name);
            let Some(of) = of else { continue };
            let may_hold = beat.rollout.may_hold(beat.generation, [of.settled]);
            has_changed |= may_hold != running.may_hold;
            running.may_hold = may_hold;
        }
        has_changed
    }

    /// For `Recreate`: says that it holds nothing of older generations, once that is so.
    async fn settle(&mut self, beat: &Beat) -> Result<(), RunError> {
        let generation = self.membership.assigned.generation;
        let is_due = beat.rollout == Rollout::Recreate && self.membership.settled < generation;
        if !is_due || self.running.iter().any(|run| run.may_hold || run.held() > 0) {
            return Ok(());
        }
        match self.tables.settle(&self.worker.id, generation).await {
            Ok(()) => self.membership.settled = generation,
            Err(error) if error.is_worth_waiting() => {
                self.notice(Notice::CannotSettle, &error);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn warn_if_stuck(&mut self) {
        let is_whole = |run: &super::Running| {
            let should: usize = run.lane_slots.iter().map(SlotSet::len).sum();
            run.held() == should
        };
        if self.running.iter().all(is_whole) {
            self.membership.in_motion = None;
        }
        let timeout = self.plan.tuning.coordination_timeout;
        if self.membership.in_motion.is_some_and(|since| since.elapsed() >= timeout) {
            let waiting = self.running.iter().flat_map(|run| run.waiting_for.iter().cloned());
            let generation = self.membership.assigned.generation;
            let late = Happening::coordination_timed_out(generation, waiting.collect(), timeout);
            self.tables.events.emit(late);
            self.membership.in_motion = Some(Instant::now());
        }
    }

    /// Says that it leaves, so that others already wait for what its lanes let go.
    pub(super) async fn announce_leave(&self) -> Result<(), StoreError> {
        self.tables.announce_leave(&self.worker.id).await?;
        if let Some((_, made)) = self.tables.tick(&self.plan.name, &[]).await? {
            self.tables.events.emit(made);
        }
        Ok(())
    }

    /// Releases its cursors and is a worker no more.
    pub(super) async fn leave(&self) {
        // One that was never registered owns nothing.
        for running in self.running.iter().filter(|running| running.is_known) {
            let name = &running.consumer.name;
            if let Err(error) = self.tables.release(name, &self.worker.id).await {
                self.notice_of(name, Notice::CannotReleaseCursors, &error);
            }
        }
        match self.tables.dismiss(&self.worker.id).await {
            Ok(()) => self.tables.events.emit(Happening::worker_left()),
            Err(error) => self.notice(Notice::CannotLeave, &error),
        }
    }
}
