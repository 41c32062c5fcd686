//! What happens to processes, and the appends that go on meanwhile.

use crate::log::State;
use crate::process::Process;
use crate::scenario::Program;
use crate::trace::What;
use crate::world::{Due, World};
use anabranch_core::Position;

/// One that appends, and how far it has come.
#[derive(Debug)]
pub(crate) struct Appender {
    pub(crate) left: usize,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Idle,
    /// It has read the head.
    Looked(Position),
    Marked,
    Drawn(Vec<Position>),
}

impl Appender {
    pub(crate) fn new(appends: usize) -> Self {
        Self { left: appends, stage: Stage::Idle }
    }
}

impl World {
    /// An append goes a step on: the head that it saw, its mark, its positions, its end.
    pub(crate) fn append_step(&mut self, number: usize) {
        let head = self.log.head();
        let stage = std::mem::replace(&mut self.appenders[number].stage, Stage::Idle);
        let mut pause = self.rng.between(1, 4);
        let next = match stage {
            Stage::Idle if self.appenders[number].left == 0 => return,
            Stage::Idle => Stage::Looked(head),
            Stage::Looked(head) => {
                self.log.mark(number, head);
                self.record(None, What::AppendMarked, head.get());
                Stage::Marked
            }
            Stage::Marked => {
                let count = self.rng.between(1, 3);
                let slots = usize::from(self.scenario.slots);
                let drawn = (0..count).map(|_| self.log.draw(self.rng.below(slots) as u16));
                let drawn: Vec<Position> = drawn.collect();
                self.record(None, What::AppendDrawn, count);
                let is_slow = !self.is_calm && self.rng.chance(20);
                pause = if is_slow { self.rng.between(10, 80) } else { pause };
                Stage::Drawn(drawn)
            }
            Stage::Drawn(positions) => {
                let fails = self.rng.chance(self.scenario.rolled_back);
                let (state, what) = match fails {
                    true => (State::RolledBack, What::AppendRolledBack),
                    false => (State::Committed, What::AppendCommitted),
                };
                self.log.end(number, &positions, state);
                self.record(None, what, positions[0].get());
                if !fails {
                    self.wake_feeds();
                }
                self.appenders[number].left -= 1;
                pause = self.rng.between(5, 40);
                Stage::Idle
            }
        };
        self.appenders[number].stage = next;
        self.push(pause, Due::Append(number));
    }

    fn wake_feeds(&mut self) {
        for process in 0..self.processes.len() {
            if let Some(delay) = self.wake_delay(process) {
                let life = self.processes[process].life;
                self.push(delay, Due::NewEvents { process, life });
            }
        }
    }

    /// The next fault, unless they are over.
    pub(crate) fn fault(&mut self) {
        if self.is_calm {
            return;
        }
        let process = self.rng.below(self.processes.len());
        let is_up = self.processes[process].is_up;
        match self.rng.below(10) {
            _ if !is_up => self.start(process),
            0..=2 => self.crash(process),
            3..=7 => self.pause(process),
            _ => {
                self.processes[process].is_leaving = true;
                self.record(Some(process), What::AskedToLeave, 0);
                self.signalled(process);
            }
        }
        let pause = self.rng.between(5, self.scenario.fault_every);
        self.push(pause, Due::Fault);
    }

    pub(crate) fn start(&mut self, process: usize) {
        let life = self.processes[process].life + 1;
        let id = self.new_name(process);
        self.record(Some(process), What::Started, u64::from(life));
        self.processes[process] = Process::started(life, id, &self.scenario, self.mutant);
        for task in 0..self.processes[process].tasks.len() {
            let delay = self.rng.between(1, 5);
            self.plan(process, task, delay);
        }
    }

    fn crash(&mut self, process: usize) {
        self.record(Some(process), What::Crashed, 0);
        self.cut_off(process);
        if self.scenario.notices {
            let id = &self.processes[process].id;
            for row in self.store.workers.iter_mut().filter(|row| row.id == *id) {
                row.is_gone = true;
            }
        }
        self.ends(process);
    }

    /// A process is no more.
    pub(crate) fn ends(&mut self, process: usize) {
        let life = self.processes[process].life + 1;
        self.processes[process] = Process { life, ..Process::down() };
        self.laws.process_ends(process);
    }

    fn pause(&mut self, process: usize) {
        let lease = self.scenario.lease;
        let is_long = self.rng.chance(50);
        let (least, most) = if is_long { (lease, 5 * lease / 2) } else { (5, lease / 2) };
        let pause = self.rng.between(least, most);
        self.processes[process].paused_until = self.now + pause;
        let what = if is_long { What::PausedBeyondLease } else { What::Paused };
        self.record(Some(process), what, pause);
    }

    /// No more faults. Somebody must be there to take every slot of every consumer.
    pub(crate) fn calm(&mut self) {
        self.is_calm = true;
        self.record(None, What::Calm, 0);
        for process in &mut self.processes {
            process.paused_until = 0;
        }
        let stays = |process: &Process| process.is_up && !process.is_leaving;
        let programs = self.scenario.processes.iter().zip(&self.processes);
        let staying =
            programs.filter(|(program, process)| program.fixed.is_none() && stays(process));
        let elastic: Vec<&Program> = staying.map(|(program, _)| program).collect();
        let consumers = self.scenario.consumers;
        let is_run = |consumer: usize| elastic.iter().any(|program| program.runs[consumer]);
        if !(0..consumers).all(is_run) {
            let down = |number: &usize| !self.processes[*number].is_up;
            let first = (0..self.processes.len()).find(down);
            let number = first.unwrap_or_else(|| {
                self.processes.push(Process::down());
                self.processes.len() - 1
            });
            let whole = Program::whole(consumers);
            self.scenario.processes.resize(self.processes.len(), whole.clone());
            self.scenario.processes[number] = whole;
            self.start(number);
        }
    }
}
