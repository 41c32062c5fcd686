//! A consumer whose handler fails: handed over to workers where it succeeds; if it fails wherever it runs,
//! stopped everywhere, and tried with one event now and then.
//!
//! A worker that hands it over says that it is unable to run it, and tries it again after growing pauses: the
//! first failure then hands it over again. If nobody is able, that is an *outage*. The consumer's row says so, and every worker learns it with its next heartbeat: lanes keep their slots and call no
//! handler. The worker that owns the slot whose event failed tries again: it takes the try by a fenced
//! update, which says at the same time when the next one is due, so that a worker that dies meanwhile holds up
//! nobody; while a try lasts, it says so again with its heartbeats. If nobody has tried for some leases, any
//! worker tries what it has. Every other try is anybody's, and of another lane each time: keys that fail for
//! reasons of their own do not keep out what would work elsewhere (except with `Failure::Stop`). One that begins to run the consumer in an outage may bring the cure: it tries once,
//! without waiting for the next try to be due. One event that is handled ends the outage for all. Nothing to try ends it, too,
//! if the owner of the slot says so: a few failures after that begin it again.

use super::Keeper;
use super::trouble::Trouble;
use crate::lane::{FEW, Halt, Order, Probed};
use crate::run_error::RunError;
use crate::tables::outages::StoredOutage;
use crate::tables::replica_sets::LEAVING;
use crate::tables::runners::Runner;
use anabranch_core::engine_event::OutageOf;
use anabranch_core::{Failure, HashRule, Slot, SlotSet, StoreError};
use anabranch_core::{Happening, Notice};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A worker that has handed a consumer over waits so many times the pause between tries, and so many more for each
/// member of the set: they try it one after the other, and it must not be back before the last one has.
const HANDED_OVER: u32 = 10;
const FOR_EACH_MEMBER: u32 = 5;
/// After so many leases any worker tries what the one whose turn it is has not tried.
const ANYBODY: u32 = 4;

/// How long a handler can have a whole consumer wait: it speaks for one event, and others may be done before.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// A try of this worker: how many there were with it, and the lane.
#[derive(Clone, Copy)]
struct Trying {
    probes: i64,
    lane: usize,
}

/// An outage, as this worker knows it.
pub(super) struct Outage {
    pub(super) reason: String,
    slot: Slot,
    /// How often it was tried.
    probes: i64,
    /// When it is tried next.
    due: Instant,
    /// The try of this worker that is under way.
    trying: Option<Trying>,
    /// It is over, and that is not written down yet.
    is_over: bool,
    /// This worker began to run the consumer in the outage, and has not tried it yet: it may from this time on.
    at_once: Option<Instant>,
}

impl Outage {
    fn of(stored: &StoredOutage) -> Self {
        let StoredOutage { reason, slot, probes, .. } = stored.clone();
        let due = due(stored.next);
        Self { reason, slot, probes, due, trying: None, is_over: false, at_once: None }
    }
}

impl Keeper {
    /// The handler of a consumer fails here.
    pub(super) async fn has_halted(&mut self, number: usize, halt: Halt) -> Result<(), RunError> {
        if self.plan.fail_fast {
            return Err(halt.error);
        }
        let running = &mut self.running[number];
        if running.trouble.is_some() {
            // Another lane has said so.
            return Ok(());
        }
        running.tell_all(|_| Order::Halt);
        running.trouble = Some(Trouble::Halted(halt));
        self.write_down_halt(number).await
    }

    /// Says that a consumer has stopped; once the database hears it.
    pub(super) async fn write_down_halt(&mut self, number: usize) -> Result<(), RunError> {
        let running = &mut self.running[number];
        let name = running.consumer.name.clone();
        let halt = match running.trouble.take() {
            Some(Trouble::Halted(halt)) => halt,
            trouble => {
                running.trouble = trouble;
                return Ok(());
            }
        };
        let is_able_elsewhere = match self.is_able_elsewhere(number).await {
            Ok(is_able) => is_able,
            Err(away) if away.is_worth_waiting() => {
                self.running[number].trouble = Some(Trouble::Halted(halt));
                return Ok(());
            }
            Err(refused) => return self.is_broken(number, refused.into()),
        };
        // Nobody takes over a fixed partition for sure, and a catch-up must not wait for it.
        let may_wait = !self.plan.catch_up || self.plan.fixed.is_none();
        if is_able_elsewhere && may_wait && !halt.is_everywhere {
            return self.hand_over(number, halt).await;
        }
        if self.plan.catch_up {
            return self.is_broken(number, halt.error);
        }
        if !self.say_able(number).await? {
            self.running[number].trouble = Some(Trouble::Halted(halt));
            return Ok(());
        }
        let Halt { error, slot, patience, .. } = &halt;
        let (reason, slot) = (error.reason(), *slot);
        let pause = self.plan.tuning.pause_after(0).max(asked(*patience));
        match self.tables.begin_outage(&name, (&reason, slot), pause).await {
            Ok(is_first) => {
                if is_first {
                    let began = Happening::outage_began(OutageOf::Handler, error.to_string());
                    self.tables.events.of(&name).emit(began);
                }
                let written = Instant::now();
                let (probes, due) = (0, written + pause);
                let (trying, is_over, at_once) = (None, false, None);
                let outage = Outage { reason, slot, probes, due, trying, is_over, at_once };
                self.running[number].written = written;
                self.running[number].trouble = Some(Trouble::Outage(outage));
            }
            Err(away) if away.is_worth_waiting() => {
                self.running[number].trouble = Some(Trouble::Halted(halt));
            }
            Err(refused) => self.is_broken(number, refused.into())?,
        }
        Ok(())
    }

    /// Whether other workers of the set are able to run a consumer, and could own all that this one should.
    /// One of the last version owns what the set gives it, whatever others are able to.
    async fn is_able_elsewhere(&self, number: usize) -> Result<bool, StoreError> {
        let running = &self.running[number];
        let is_able = |runner: &Runner| runner.unable.is_none() && runner.version.is_some();
        let workers = self.tables.workers().await?;
        let able = workers.iter().filter(|worker| {
            worker.is_alive
                && worker.id != self.worker.id
                && worker.replica_set == self.plan.name
                && worker.runs != LEAVING
                && worker.runs(&running.consumer.name).is_some_and(is_able)
        });
        let mut theirs = SlotSet::empty();
        for worker in able {
            match &worker.fixed {
                None => return Ok(true),
                Some(fixed) => theirs = theirs.union(fixed),
            }
        }
        Ok(!theirs.is_empty() && running.share().is_subset(&theirs))
    }

    /// Lets others run a consumer that fails here.
    async fn hand_over(&mut self, number: usize, halt: Halt) -> Result<(), RunError> {
        let (tuning, members) = (self.plan.tuning, self.membership.assigned.members.len() as u32);
        let running = &mut self.running[number];
        let error = &halt.error;
        let events = self.tables.events.of(&running.consumer.name);
        events.emit(Happening::failed(Notice::HandedOver, error));
        let pause = tuning.probes.0 * (HANDED_OVER + FOR_EACH_MEMBER * members);
        let longest = (tuning.probes.1 * HANDED_OVER).max(pause);
        let pause = tuning.probes(pause, longest).pause_after(running.tries);
        running.tries = running.tries.saturating_add(1);
        running.trouble = Some(Trouble::HandedOver { halt, again: Instant::now() + pause });
        self.say_able(number).await.map(drop)
    }

    /// Tries a consumer again that was handed over: its first failure hands it over again.
    pub(super) async fn try_here(&mut self, number: usize) -> Result<(), RunError> {
        let running = &mut self.running[number];
        running.trouble = None;
        running.on_probation = Some(running.handled());
        running.tell_all(|_| Order::GoOn { patience: 1 });
        self.say_able(number).await.map(drop)
    }

    /// A consumer that was handed over stops everywhere once nobody is able to run it.
    async fn see_to_heirs(&mut self, number: usize) -> Result<(), RunError> {
        if self.is_able_elsewhere(number).await.unwrap_or(true) {
            return Ok(());
        }
        let running = &mut self.running[number];
        match running.trouble.take() {
            Some(Trouble::HandedOver { halt, .. }) => {
                // It has waited by now.
                let halt = Halt { patience: Duration::ZERO, ..halt };
                running.trouble = Some(Trouble::Halted(halt));
                self.write_down_halt(number).await
            }
            trouble => {
                running.trouble = trouble;
                Ok(())
            }
        }
    }

    /// What a heartbeat says about the outage of a consumer.
    pub(super) async fn follow_outage(
        &mut self,
        number: usize,
        stored: Option<&StoredOutage>,
        begun: Instant,
    ) -> Result<(), RunError> {
        let running = &mut self.running[number];
        let consumer = running.consumer.name.clone();
        if begun < running.written {
            // It may not know what this worker has written since.
            return Ok(());
        }
        match (stored, &mut running.trouble) {
            (_, Some(Trouble::Broken(_) | Trouble::Moving | Trouble::Exchanged(_)))
            | (None, None | Some(Trouble::Halted(_))) => {}
            (None, Some(Trouble::HandedOver { .. })) => return self.see_to_heirs(number).await,
            (Some(stored), Some(Trouble::Outage(outage))) => {
                let Outage { trying, is_over, at_once, .. } = *outage;
                *outage = Outage { trying, is_over, at_once, ..Outage::of(stored) };
                return self.keep_try(number).await;
            }
            (Some(stored), _) => {
                if self.plan.catch_up || self.plan.fail_fast {
                    let problem = format!("it has stopped by itself: {}", stored.reason);
                    return self.is_broken(number, RunError::refused(&consumer, problem));
                }
                let reason = &stored.reason;
                let what = Happening::failed(Notice::StoppedEverywhere, reason);
                self.tables.events.of(&consumer).emit(what);
                running.tell_all(|_| Order::Halt);
                // What lasted longer when it was read than this worker had run it by then.
                let runs = begun.saturating_duration_since(running.begun);
                let is_new = running.trouble.is_none() && runs < stored.lasts;
                let at_once = is_new.then(Instant::now);
                running.trouble = Some(Trouble::Outage(Outage { at_once, ..Outage::of(stored) }));
                // It may have been handed over before.
                return self.say_able(number).await.map(drop);
            }
            (None, Some(Trouble::Outage(_))) => {
                let what = Happening::noticed(Notice::GoesOn, None);
                self.tables.events.of(&consumer).emit(what);
                running.trouble = None;
                running.tell_all(|_| Order::GoOn { patience: FEW });
            }
        }
        Ok(())
    }

    /// A try that takes long stays this worker's while it lives: an endpoint that swallows what it is sent
    /// says nothing, and that is no reason to try more.
    async fn keep_try(&mut self, number: usize) -> Result<(), RunError> {
        let (tuning, running) = (self.plan.tuning, &mut self.running[number]);
        let name = running.consumer.name.clone();
        let Some(Trouble::Outage(outage)) = &mut running.trouble else { return Ok(()) };
        let Some(Trying { probes, lane }) = outage.trying else { return Ok(()) };
        if running.stats[lane].slots.load(Ordering::Relaxed) == 0 {
            // It has lost what it was to try.
            outage.trying = None;
            return Ok(());
        }
        let hold = tuning.hold_for(probes);
        if outage.due > Instant::now() + hold / 2 {
            return Ok(());
        }
        match self.tables.keep_probe(&name, probes, hold).await {
            Ok(()) => outage.due = Instant::now() + hold,
            Err(error) if error.is_worth_waiting() => {}
            Err(error) => return self.is_broken(number, error.into()),
        }
        Ok(())
    }

    /// Takes the next try, if it is this worker's, and writes down what is over.
    pub(super) async fn see_to_outage(&mut self, number: usize) -> Result<(), RunError> {
        let lease = self.plan.tuning.lease;
        let running = &mut self.running[number];
        let name = running.consumer.name.clone();
        let Some(Trouble::Outage(outage)) = &running.trouble else { return Ok(()) };
        if outage.is_over {
            return self.end_outage(number).await;
        }
        if running.paused || outage.trying.is_some() {
            return Ok(());
        }
        let Outage { slot, probes, due, at_once, .. } = *outage;
        let owner = running.owner_of(slot);
        let in_turn = match probes % 2 == 1 && running.consumer.retry.then != Failure::Stop {
            true => running.lane_in_turn(probes / 2),
            false => None,
        };
        let (tries, patience) = match (in_turn, owner) {
            // What works may be anywhere.
            (Some(lane), _) => (Some(lane), self.place_in_turn(probes)),
            (None, Some(lane)) if running.can_try(lane) => (Some(lane), Duration::ZERO),
            (None, Some(_)) => (None, lease),
            // Another event that works would say nothing about the one that must not be passed.
            (None, None) if running.consumer.retry.then == Failure::Stop => return Ok(()),
            // The owner is gone for good, if it takes so long, and somebody must try something.
            (None, None) => match (0..running.lanes.len()).find(|lane| running.can_try(*lane)) {
                Some(lane) => (Some(lane), lease * ANYBODY),
                None => return Ok(()),
            },
        };
        let at_once = at_once.filter(|_| tries.is_some());
        if Instant::now() < at_once.unwrap_or(due + patience) {
            return Ok(());
        }
        let hold = self.plan.tuning.hold_for(probes + 1);
        let taken = self.tables.take_probe(&name, probes, hold, at_once.is_some()).await;
        let running = &mut self.running[number];
        let Some(Trouble::Outage(outage)) = &mut running.trouble else { return Ok(()) };
        outage.due = Instant::now() + hold;
        match taken {
            Ok(true) => {
                outage.probes = probes + 1;
                running.written = Instant::now();
                let tried = Happening::outage_tried(outage.probes);
                self.tables.events.of(&name).emit(tried);
                match tries {
                    Some(lane) => {
                        outage.trying = Some(Trying { probes: probes + 1, lane });
                        let is_owner = owner == Some(lane);
                        running.lanes[lane].tell(Order::Probe { before: probes, is_owner });
                    }
                    None => outage.is_over = true,
                }
            }
            // The next heartbeat says how it stands.
            Ok(false) => {
                let tuning = self.plan.tuning;
                outage.due = Instant::now() + tuning.pause_after(0);
                outage.at_once = at_once.map(|_| Instant::now() + tuning.heartbeat_interval());
            }
            Err(error) if error.is_worth_waiting() => outage.due = Instant::now(),
            Err(error) => self.is_broken(number, error.into())?,
        }
        Ok(())
    }

    /// How long this worker leaves a try to others that is anybody's: each is the first one now and then.
    fn place_in_turn(&self, probes: i64) -> Duration {
        let place = HashRule::fnv1a32(&format!("{}/{probes}", self.worker.id));
        self.plan.tuning.heartbeat_interval().mul_f64(f64::from(place) / f64::from(u32::MAX))
    }

    /// What has become of a try.
    pub(super) async fn has_probed(
        &mut self,
        number: usize,
        probed: Probed,
    ) -> Result<(), RunError> {
        let running = &mut self.running[number];
        let name = running.consumer.name.clone();
        let Some(Trouble::Outage(outage)) = &running.trouble else { return Ok(()) };
        // A lane that does not own what failed cannot say that nothing of it is left.
        let owner = running.owner_of(outage.slot);
        let is_owner = owner.is_some() && owner == outage.trying.map(|trying| trying.lane);
        let Some(Trouble::Outage(outage)) = &mut running.trouble else { return Ok(()) };
        let tried = outage.trying.take();
        if !matches!(probed, Probed::Over) {
            outage.at_once = None;
        }
        let probes = tried.map_or(outage.probes, |tried| tried.probes);
        let pause = self.plan.tuning.pause_after(u32::try_from(probes).unwrap_or(u32::MAX));
        match probed {
            Probed::Over => self.next_after(number, probes, pause).await,
            Probed::Nothing if !is_owner => self.next_after(number, probes, pause).await,
            Probed::Worked | Probed::Nothing => {
                outage.is_over = true;
                self.end_outage(number).await
            }
            Probed::Failed(Halt { error, patience, .. }) => {
                let wait = asked(patience).max(pause);
                let failed = Happening::outage_try_failed(error.to_string(), wait);
                self.tables.events.of(&name).emit(failed);
                outage.reason = error.reason();
                outage.due = Instant::now() + wait;
                let said = (outage.reason.as_str(), wait);
                match self.tables.probed_in_vain(&name, probes, said).await {
                    Ok(()) => self.running[number].written = Instant::now(),
                    Err(error) => self.notice_of(&name, Notice::TryNotStored, &error),
                }
                Ok(())
            }
        }
    }

    /// A try is over that says nothing: the next one need not wait for as long as it might have lasted.
    async fn next_after(
        &mut self,
        number: usize,
        probes: i64,
        pause: Duration,
    ) -> Result<(), RunError> {
        let name = self.running[number].consumer.name.clone();
        match self.tables.keep_probe(&name, probes, pause).await {
            Ok(()) => {
                if let Some(Trouble::Outage(outage)) = &mut self.running[number].trouble {
                    outage.due = Instant::now() + pause;
                }
                Ok(())
            }
            Err(error) if error.is_worth_waiting() => Ok(()),
            Err(error) => self.is_broken(number, error.into()),
        }
    }

    async fn end_outage(&mut self, number: usize) -> Result<(), RunError> {
        let name = self.running[number].consumer.name.clone();
        match self.tables.end_outage(&name).await {
            Ok(is_first) => {
                self.tables.events.of(&name).emit(match is_first {
                    true => Happening::outage_ended(OutageOf::Handler, None),
                    // Another worker has said so.
                    false => Happening::noticed(Notice::GoesOn, None),
                });
                self.running[number].written = Instant::now();
                self.running[number].trouble = None;
                self.running[number].tell_all(|_| Order::GoOn { patience: FEW });
                Ok(())
            }
            Err(error) if error.is_worth_waiting() => Ok(()),
            Err(error) => self.is_broken(number, error.into()),
        }
    }
}

/// How long to wait because a handler asked for it.
fn asked(patience: Duration) -> Duration {
    patience.min(LONGEST_ASKED)
}

/// When something is due that the database's clock speaks of.
fn due(next: Result<Duration, Duration>) -> Instant {
    let now = Instant::now();
    match next {
        Ok(wait) => now + wait,
        Err(late) => now.checked_sub(late).unwrap_or(now),
    }
}
