//! The tasks of a worker that are not lanes: signs of life, and claims.

use crate::lane::Order;
use crate::laws::Violation;
use crate::process::{At, HEART, KEEPER};
use crate::trace::What;
use crate::wire::{Answer, Request};
use crate::world::World;
use anabranch_core::SlotSet;
use anabranch_core::cursor::Cursor;
use anabranch_core::generation::Rollout;

/// How many signs of life a lease has.
const BEATS: u64 = 5;

impl World {
    pub(crate) fn heart_step(&mut self, process: usize) {
        let own = &mut self.processes[process];
        let task = &mut own.tasks[HEART];
        let was_awaiting = task.awaiting.take().is_some();
        match task.answer.take() {
            Some(Answer::Joined) => own.has_joined = true,
            Some(Answer::Alive(view)) => {
                own.has_said_so = own.is_leaving;
                let (is_news, claims) = own.digest(&view, &self.scenario.weights);
                let each = view.may_hold.iter().zip(&view.assigned);
                let waits = each.into_iter().any(|(may, assigned)| !may && !assigned.is_empty());
                let was_woken = std::mem::take(&mut own.was_woken);
                if waits {
                    self.record(Some(process), What::HeldBack, view.generation as u64);
                }
                if is_news {
                    self.kick_lanes(process);
                }
                if claims || self.processes[process].is_leaving {
                    self.kick(process, KEEPER);
                }
                // By its own clock, which may be fast or slow.
                let pace = self.scenario.processes[process].pace;
                let interval = (self.scenario.lease / BEATS) * pace / 100;
                let interval = if was_woken { 1 } else { interval.max(2) };
                return self.plan(process, HEART, interval);
            }
            Some(Answer::Dead) => self.found_dead(process),
            _ if was_awaiting => self.record(Some(process), What::GaveUp, 0),
            _ => {}
        }
        self.beat(process);
    }

    fn beat(&mut self, process: usize) {
        let own = &self.processes[process];
        if !own.is_up {
            return;
        }
        if !own.has_joined {
            let program = self.scenario.processes[process].clone();
            return self.send(process, HEART, Request::Join(program));
        }
        let settles = self.scenario.rollout == Rollout::Recreate && own.is_empty();
        let (generation, is_leaving) = (own.generation, own.is_leaving);
        let settled = settles.then_some(generation);
        if settles {
            self.record(Some(process), What::Settled, generation as u64);
        }
        self.send(process, HEART, Request::Beat { settled, is_leaving });
    }

    /// Others have taken it for dead. Whatever its lanes do is fenced; it begins anew, or is gone if
    /// it was about to leave.
    fn found_dead(&mut self, process: usize) {
        self.record(Some(process), What::FoundDead, 0);
        if self.processes[process].is_leaving {
            return self.ends(process);
        }
        let id = self.new_name(process);
        let own = &mut self.processes[process];
        own.id = id;
        own.has_joined = false;
        own.tasks[KEEPER].awaiting = None;
        own.keep.iter_mut().for_each(|keep| keep.fill(SlotSet::empty()));
        for running in &mut own.running {
            running.claim = true;
            for lane in &mut running.lanes {
                lane.orders.push_back(Order::Forget);
            }
        }
        self.kick_lanes(process);
    }

    pub(crate) fn keeper_step(&mut self, process: usize) -> Result<(), Violation> {
        let task = &mut self.processes[process].tasks[KEEPER];
        let was_awaiting = task.awaiting.take().is_some();
        match task.answer.take() {
            Some(Answer::Claimed { consumer, cursors }) => {
                self.hand_out(process, consumer, cursors)
            }
            Some(Answer::Left) => {
                self.ends(process);
                return Ok(());
            }
            Some(_) => self.kick(process, HEART),
            None if was_awaiting => {
                // Nobody knows whether it has happened.
                self.record(Some(process), What::ClaimFailed, 0);
                let running = &mut self.processes[process].running;
                running.iter_mut().for_each(|running| running.claim = true);
            }
            None => {}
        }
        let own = &mut self.processes[process];
        if own.has_said_so && own.is_empty() {
            self.send(process, KEEPER, Request::Leave);
            return Ok(());
        }
        let wanting = own.running.iter().position(|running| running.claim);
        if let Some(consumer) = wanting.filter(|_| own.has_joined) {
            // One that is asked for meanwhile is another one.
            own.running[consumer].claim = false;
            let lanes = own.keep[consumer].clone();
            self.send(process, KEEPER, Request::Claim { consumer, lanes });
        } else {
            let pause = if own.is_leaving { 5 } else { 1000 };
            self.plan(process, KEEPER, pause);
        }
        Ok(())
    }

    /// Each cursor goes to the lane that its slots belong to.
    fn hand_out(&mut self, process: usize, consumer: usize, cursors: Vec<Cursor>) {
        let own = &self.processes[process];
        let mut of_lane: Vec<Vec<Cursor>> = own.lane_slots.iter().map(|_| Vec::new()).collect();
        for cursor in cursors {
            if let Some(lane) = own.lane_for(&cursor.slots) {
                of_lane[lane].push(cursor);
            }
        }
        for (lane, cursors) in of_lane.into_iter().enumerate() {
            if !cursors.is_empty() {
                let at = At { process, consumer, lane };
                let own = &mut self.processes[process];
                own.lane(at).orders.push_back(Order::Take(cursors));
                let task = own.feed_task(at) + 1;
                self.kick(process, task);
            }
        }
    }

    fn kick_lanes(&mut self, process: usize) {
        for task in 2..self.processes[process].tasks.len() {
            if task % 2 == 1 {
                self.kick(process, task);
            }
        }
    }
}
