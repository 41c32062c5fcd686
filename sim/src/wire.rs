//! Between the processes and the store: requests that come late, answers that get lost.

use crate::laws::Violation;
use crate::process::HEART;
use crate::scenario::Program;
use crate::store::{Commit, Ticked, View};
use crate::trace::What;
use crate::world::{Due, World};
use anabranch_core::SlotSet;
use anabranch_core::cursor::{Cursor, Move};

/// What a task asks of the store: one transaction.
#[derive(Debug)]
pub(crate) enum Request {
    Join(Program),
    Beat { settled: Option<i64>, is_leaving: bool },
    Claim { consumer: usize, lanes: Vec<SlotSet> },
    Leave,
    Commit(Commit),
}

/// What it says.
#[derive(Debug)]
pub(crate) enum Answer {
    Joined,
    Alive(View),
    /// The lease is over.
    Dead,
    Claimed {
        consumer: usize,
        cursors: Vec<Cursor>,
    },
    Left,
    Committed,
    Fenced,
}

/// A request on its way, or its answer on the way back.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) process: usize,
    life: u32,
    task: usize,
    /// Who asks.
    worker: String,
    request: Option<Request>,
    answer: Option<Answer>,
}

impl World {
    /// Sends a request; the task takes its next step when the answer is there, or gives up.
    pub(crate) fn send(&mut self, process: usize, task: usize, request: Request) {
        self.calls += 1;
        let call = self.calls;
        let from = &mut self.processes[process];
        from.tasks[task].awaiting = Some(call);
        let (life, worker) = (from.life, from.id.clone());
        let sent = Sent { process, life, task, worker, request: Some(request), answer: None };
        self.sent.insert(call, sent);
        let latency = self.latency(process);
        self.push(latency, Due::Arrives(call));
        let patience = self.rng.between(15, 30);
        self.plan(process, task, patience);
    }

    fn latency(&mut self, process: usize) -> u64 {
        if !self.is_calm && self.rng.chance(self.scenario.slow) {
            self.record(Some(process), What::Slow, 0);
            return self.rng.between(10, 120);
        }
        self.rng.between(1, 3)
    }

    /// The request reaches the store: the transaction happens.
    pub(crate) fn arrives(&mut self, call: u64) -> Result<(), Violation> {
        let Some(sent) = self.sent.get_mut(&call) else { return Ok(()) };
        let (process, life, worker) = (sent.process, sent.life, sent.worker.clone());
        let Some(request) = sent.request.take() else { return Ok(()) };
        if !self.is_calm && self.rng.chance(self.scenario.lost_requests) {
            self.record(Some(process), What::RequestLost, call);
            self.sent.remove(&call);
            return Ok(());
        }
        let answer = self.transact(process, life, &worker, request)?;
        if !self.is_calm && self.rng.chance(self.scenario.lost_answers) {
            self.record(Some(process), What::AnswerLost, call);
            self.sent.remove(&call);
            return Ok(());
        }
        if let Some(sent) = self.sent.get_mut(&call) {
            sent.answer = Some(answer);
        }
        let latency = self.rng.between(1, 3);
        self.push(latency, Due::Answers(call));
        Ok(())
    }

    /// The answer reaches the process, if it still waits for it.
    pub(crate) fn answers(&mut self, call: u64) -> Result<(), Violation> {
        let Some(sent) = self.sent.get(&call) else { return Ok(()) };
        let process = &self.processes[sent.process];
        if self.is_paused(sent.process) && process.life == sent.life {
            let later = process.paused_until - self.now + self.rng.between(0, 3);
            self.push(later, Due::Answers(call));
            return Ok(());
        }
        let Some(sent) = self.sent.remove(&call) else { return Ok(()) };
        let process = &mut self.processes[sent.process];
        let is_here = process.is_up && process.life == sent.life;
        if !is_here || process.tasks[sent.task].awaiting != Some(call) {
            return Ok(());
        }
        process.tasks[sent.task].answer = sent.answer;
        self.step(sent.process, sent.task)
    }

    fn transact(
        &mut self,
        process: usize,
        life: u32,
        worker: &str,
        request: Request,
    ) -> Result<Answer, Violation> {
        match request {
            Request::Join(program) => {
                self.store.join(worker, &program);
                self.record(Some(process), What::Joined, 0);
                Ok(Answer::Joined)
            }
            Request::Beat { settled, is_leaving } => {
                let (view, ticked) = self.store.beat(worker, settled, is_leaving);
                self.has_ticked(process, &ticked);
                match view {
                    Some(view) => {
                        self.record(Some(process), What::Beat, view.generation as u64);
                        Ok(Answer::Alive(view))
                    }
                    None => Ok(Answer::Dead),
                }
            }
            Request::Claim { consumer, lanes } => {
                let Some(cursors) = self.store.claim(worker, consumer, &lanes) else {
                    self.record(Some(process), What::ClaimRefused, 0);
                    return Ok(Answer::Dead);
                };
                self.record(Some(process), What::Claimed, cursors.len() as u64);
                self.laws.written(&self.store, &self.log, consumer, None)?;
                Ok(Answer::Claimed { consumer, cursors })
            }
            Request::Leave => {
                self.store.leave(worker);
                self.record(Some(process), What::Left, 0);
                for consumer in 0..self.scenario.consumers {
                    self.laws.written(&self.store, &self.log, consumer, None)?;
                }
                self.signal();
                Ok(Answer::Left)
            }
            Request::Commit(commit) => self.commit(process, life, commit),
        }
    }

    fn has_ticked(&mut self, process: usize, ticked: &Ticked) {
        if ticked.died > 0 {
            self.record(Some(process), What::Died, ticked.died as u64);
        }
        if ticked.noticed > 0 {
            self.record(Some(process), What::Noticed, ticked.noticed as u64);
        }
        if ticked.is_new_generation {
            self.record(Some(process), What::NewGeneration, self.store.generation as u64);
            self.signal();
        }
    }

    fn commit(&mut self, process: usize, life: u32, commit: Commit) -> Result<Answer, Violation> {
        let from = &self.processes[process];
        let is_zombie = from.life != life || self.is_paused(process);
        let is_zombie = is_zombie || !self.store.is_alive(&commit.worker);
        let place = |step: &Move| (commit.consumer, step.cursor.id, step.from.1, step.from.0);
        let places: Vec<_> = commit.moves.iter().map(place).collect();
        let figure = commit.moves.first().map_or(0, |step| step.cursor.position.get());
        if !self.store.commit(commit.consumer, &commit.moves) {
            self.record(Some(process), What::Fenced, figure);
            if places.iter().any(|place| self.left_behind.contains(place)) {
                self.record(Some(process), What::FencedByItself, figure);
            }
            if is_zombie {
                self.record(Some(process), What::ZombieFenced, figure);
            }
            return Ok(Answer::Fenced);
        }
        self.left_behind.extend(places);
        self.record(Some(process), What::Committed, figure);
        if is_zombie {
            self.record(Some(process), What::ZombieCommitted, figure);
        }
        self.laws.committed(&self.store, &self.log, &commit)?;
        if commit.moves.iter().any(Move::lets_go) {
            self.signal();
        }
        Ok(Answer::Committed)
    }

    /// Tells all workers that there is something new for them; some hear it late or never.
    fn signal(&mut self) {
        for process in 0..self.processes.len() {
            if let Some(delay) = self.wake_delay(process) {
                let life = self.processes[process].life;
                self.push(delay, Due::Signal { process, life });
            }
        }
    }

    /// When a wake arrives, if it does.
    pub(crate) fn wake_delay(&mut self, process: usize) -> Option<u64> {
        if !self.processes[process].is_up {
            return None;
        }
        if !self.is_calm && self.rng.chance(self.scenario.lost_wakes) {
            self.record(Some(process), What::WakeLost, 0);
            return None;
        }
        if !self.is_calm && self.rng.chance(self.scenario.late_wakes) {
            self.record(Some(process), What::WakeLate, 0);
            return Some(self.rng.between(10, 60));
        }
        Some(self.rng.between(1, 3))
    }

    pub(crate) fn signalled(&mut self, process: usize) {
        self.record(Some(process), What::Woken, 0);
        let woken = &mut self.processes[process];
        if woken.tasks[HEART].awaiting.is_some() {
            woken.was_woken = true;
        } else {
            self.kick(process, HEART);
        }
    }

    /// A process is gone: what it had sent and was not done may vanish with it.
    pub(crate) fn cut_off(&mut self, process: usize) {
        let life = self.processes[process].life;
        let of = |sent: &&Sent| sent.process == process && sent.life == life;
        let open: Vec<u64> = self
            .sent
            .iter()
            .filter(|(_, sent)| of(sent) && sent.request.is_some())
            .map(|(call, _)| *call)
            .collect();
        for call in open {
            if self.rng.chance(50) {
                self.record(Some(process), What::Vanished, call);
                self.sent.remove(&call);
            }
        }
    }
}
