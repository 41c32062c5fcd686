//! The steps of the feeds and lanes.

use crate::feed::Fed;
use crate::lane::{Next, Order};
use crate::laws::Violation;
use crate::mutant::Mutant;
use crate::process::{At, KEEPER};
use crate::store::Commit;
use crate::trace::What;
use crate::wire::{Answer, Request};
use crate::world::World;

/// How often a feed looks for new events when no wake comes.
const POLL: u64 = 40;
/// How often a lane looks around when nothing happens.
const IDLE: u64 = 30;

impl World {
    pub(crate) fn feed_step(&mut self, at: At) {
        let (page, mutant) = (self.scenario.page, self.mutant);
        let fed = self.processes[at.process].lane(at).feed.step(&self.log, page, mutant);
        let task = self.processes[at.process].feed_task(at);
        match fed {
            Fed::Idle => self.plan(at.process, task, POLL),
            Fed::Reading => {
                let pause = self.rng.between(1, 3);
                self.plan(at.process, task, pause);
            }
            Fed::Nothing { is_behind } => {
                let pause = if is_behind { 5 } else { POLL };
                self.plan(at.process, task, pause);
            }
            Fed::Chunk { up_to, is_behind, is_apart } => {
                self.record_lane(at, What::Read, up_to.get());
                if is_behind {
                    self.record_lane(at, What::BehindAppends, up_to.get());
                }
                if is_apart {
                    self.record_lane(at, What::ReadApart, up_to.get());
                }
                self.plan(at.process, task, 1);
                self.kick(at.process, task + 1);
            }
        }
    }

    pub(crate) fn lane_step(&mut self, at: At) -> Result<(), Violation> {
        match &mut self.processes[at.process].lane(at).work {
            Some(work) if work.is_sent => {
                self.commit_ended(at);
                Ok(())
            }
            Some(work) if work.handling > 0 => {
                work.handling -= 1;
                let pause = self.rng.between(1, 6);
                self.plan_lane(at, pause);
                Ok(())
            }
            Some(_) => {
                self.send_commit(at);
                Ok(())
            }
            None => self.look_around(at),
        }
    }

    /// Between two transactions: obeys, then does what is most urgent.
    fn look_around(&mut self, at: At) -> Result<(), Violation> {
        self.obey(at);
        let (void, narrowed) = self.processes[at.process].lane(at).accept();
        self.record_some(at, What::VoidChunk, void);
        self.record_some(at, What::Narrowed, narrowed);
        let feed = self.processes[at.process].feed_task(at);
        self.kick(at.process, feed);

        // A handler may take less than it is given, or fail after a part.
        let most = if self.rng.chance(20) { self.rng.between(1, 2) as usize } else { usize::MAX };
        let watermark = self.rng.chance(40);
        let size = self.scenario.batch;
        let own = &mut self.processes[at.process];
        let (lane, keep) = own.lane_and_keep(at);
        let next = lane.next(keep, size, most, watermark);
        let handling = match next {
            Next::Nothing => {
                self.plan_lane(at, IDLE);
                return Ok(());
            }
            Next::Handle { count, of } if count > 0 => {
                let own = &self.processes[at.process];
                let lane = (at.process, at.consumer, at.lane);
                self.laws.run_begins(&self.store, lane, &own.id, own.generation)?;
                self.record_lane(at, What::RunBegins, count as u64);
                if count < of {
                    self.record_lane(at, What::PartOfBatch, count as u64);
                }
                self.handler_steps(at)
            }
            _ => 0,
        };
        let own = &mut self.processes[at.process];
        let (worker, generation) = (own.id.clone(), own.generation);
        own.lane(at).begin(&next, &worker, generation, handling);
        self.plan_lane(at, 1);
        Ok(())
    }

    fn handler_steps(&mut self, at: At) -> u64 {
        if !self.is_calm && self.rng.chance(4) {
            self.record_lane(at, What::SlowHandler, 0);
            return self.rng.between(10, 40);
        }
        self.rng.between(0, 3)
    }

    fn obey(&mut self, at: At) {
        let mutant = self.mutant;
        while let Some(order) = self.processes[at.process].lane(at).orders.pop_front() {
            let lane = self.processes[at.process].lane(at);
            match order {
                Order::Take(cursors) => {
                    if mutant != Mutant::Loss && lane.parts.has_lost(&cursors) {
                        self.learns_of_loss(at);
                    }
                    let told = cursors.len();
                    let new = self.processes[at.process].lane(at).take(cursors);
                    self.record_some(at, What::Took, new);
                    self.record_some(at, What::KnewThem, told - new);
                }
                Order::Forget => {
                    lane.forget();
                    self.record_lane(at, What::Forgot, 0);
                }
            }
        }
    }

    /// A claim has told it of a cursor that it held and has lost. It may not be told of all that is
    /// its own, so another claim follows.
    fn learns_of_loss(&mut self, at: At) {
        self.processes[at.process].lane(at).forget();
        self.record_lane(at, What::LearntOfLoss, 0);
        self.processes[at.process].running[at.consumer].claim = true;
        self.kick(at.process, KEEPER);
    }

    fn send_commit(&mut self, at: At) {
        let mutant = self.mutant;
        let own = &mut self.processes[at.process];
        let (lane, keep) = own.lane_and_keep(at);
        let finished = lane.finish(keep, mutant);
        let Some((moves, effects)) = finished else {
            self.run_ends(at);
            return self.plan_lane(at, 1);
        };
        let Some(work) = &own.lane(at).work else { return };
        let (worker, generation) = (work.worker.clone(), work.generation);
        let commit = Commit { consumer: at.consumer, moves, effects, worker, generation };
        self.record_lane(at, What::Sent, commit.effects.len() as u64);
        let task = self.processes[at.process].feed_task(at) + 1;
        self.send(at.process, task, Request::Commit(commit));
    }

    fn commit_ended(&mut self, at: At) {
        let own = &mut self.processes[at.process];
        let task = own.feed_task(at) + 1;
        own.tasks[task].awaiting = None;
        let answer = own.tasks[task].answer.take();
        self.run_ends(at);
        let lane = self.processes[at.process].lane(at);
        let has_events = lane.work.as_ref().is_some_and(|work| work.count.is_some());
        match answer {
            Some(Answer::Committed) => {
                let settled = lane.settle();
                if settled.has_merged {
                    self.record_lane(at, What::Merged, 0);
                }
                match (settled.has_shed, has_events) {
                    (true, true) => self.record_lane(at, What::ShedInBatch, 0),
                    (true, false) => self.record_lane(at, What::ShedIdle, 0),
                    (false, false) => self.record_lane(at, What::Watermark, 0),
                    (false, true) => {}
                }
                self.record_some(at, What::Narrowed, settled.narrowed);
                self.plan_lane(at, 1);
            }
            Some(_) => {
                lane.work = None;
                lane.forget();
                self.record_lane(at, What::Forgot, 0);
                self.processes[at.process].running[at.consumer].claim = true;
                self.kick(at.process, KEEPER);
                self.plan_lane(at, IDLE);
            }
            None => {
                lane.work = None;
                self.record_lane(at, What::GaveUp, 0);
                let pause = self.rng.between(1, 10);
                self.plan_lane(at, pause);
            }
        }
    }

    fn run_ends(&mut self, at: At) {
        self.laws.run_ends((at.process, at.consumer, at.lane));
    }

    fn plan_lane(&mut self, at: At, delay: u64) {
        let task = self.processes[at.process].feed_task(at) + 1;
        self.plan(at.process, task, delay);
    }

    fn record_some(&mut self, at: At, what: What, count: usize) {
        if count > 0 {
            self.record_lane(at, what, count as u64);
        }
    }
}
