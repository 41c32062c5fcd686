//! The world of a seed: what is due when, and the one that picks what is next.

use crate::faults::Appender;
use crate::laws::{Laws, Violation};
use crate::log::Log;
use crate::mutant::Mutant;
use crate::process::{At, HEART, KEEPER, Process};
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::store::Store;
use crate::trace::{Step, Trace, What};
use crate::wire::Sent;
use anabranch_core::Position;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// How long after the last fault everything must be as it should.
const PATIENCE: u64 = 3000;
/// How often to look whether it is.
const LOOK: u64 = 25;
/// More steps than any run needs.
const MOST_STEPS: u64 = 200_000;

/// Something that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Append(usize),
    Step { process: usize, life: u32, task: usize, token: u64 },
    Arrives(u64),
    Answers(u64),
    Signal { process: usize, life: u32 },
    NewEvents { process: usize, life: u32 },
    Fault,
    Calm,
    Look,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) mutant: Mutant,
    pub(crate) rng: Rng,
    pub(crate) now: u64,
    pub(crate) is_calm: bool,
    pub(crate) store: Store,
    pub(crate) log: Log,
    pub(crate) appenders: Vec<Appender>,
    pub(crate) processes: Vec<Process>,
    pub(crate) sent: BTreeMap<u64, Sent>,
    pub(crate) calls: u64,
    /// What rows were before commits went on from there: consumer, id, epoch, position.
    pub(crate) left_behind: BTreeSet<(usize, i64, i64, Position)>,
    pub(crate) laws: Laws,
    pub(crate) trace: Trace,
    pub(crate) steps: u64,
    /// By time; what is due at the same time in an order that the seed decides.
    queue: BinaryHeap<Reverse<(u64, u64, Due)>>,
    names: u32,
}

impl World {
    pub(crate) fn new(seed: u64, mutant: Mutant, keep_trace: bool) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::of(&mut rng);
        let mut world = Self {
            mutant,
            rng,
            now: 0,
            is_calm: false,
            store: Store::new(&scenario, mutant),
            log: Log::default(),
            appenders: (0..scenario.appenders).map(|_| Appender::new(scenario.appends)).collect(),
            processes: scenario.processes.iter().map(|_| Process::down()).collect(),
            sent: BTreeMap::new(),
            calls: 0,
            left_behind: BTreeSet::new(),
            laws: Laws::new(&scenario),
            trace: Trace::new(keep_trace),
            steps: 0,
            queue: BinaryHeap::new(),
            names: 0,
            scenario,
        };
        for process in 0..world.scenario.begin {
            world.start(process);
        }
        for number in 0..world.scenario.appenders {
            world.push(1, Due::Append(number));
        }
        world.push(world.scenario.fault_every, Due::Fault);
        world.push(world.scenario.calm_at, Due::Calm);
        world.push(world.scenario.calm_at + LOOK, Due::Look);
        world
    }

    /// Runs to the end, or to the first step that breaks a law.
    pub(crate) fn run(&mut self, most_steps: Option<u64>) -> Result<(), Violation> {
        while let Some(Reverse((at, _, due))) = self.queue.pop() {
            if most_steps.is_some_and(|most| self.steps >= most) {
                return Ok(());
            }
            self.steps += 1;
            self.now = at;
            self.store.clock = at;
            if due == Due::Look {
                match self.missing() {
                    None if self.appenders.iter().all(|appender| appender.left == 0) => {
                        return Ok(());
                    }
                    Some(how) if at > self.scenario.calm_at + PATIENCE => {
                        return Err(Laws::liveness(how));
                    }
                    _ => self.push(LOOK, Due::Look),
                }
            } else {
                self.dispatch(due)?;
            }
            if self.steps > MOST_STEPS {
                return Err(Laws::liveness(format!("no end after {MOST_STEPS} steps")));
            }
        }
        Ok(())
    }

    /// What is still missing, once the faults are over.
    fn missing(&self) -> Option<String> {
        let missing = self.laws.missing(&self.store, &self.log, &self.scenario);
        missing.or_else(|| self.processes.iter().find_map(|process| process.mistaken(&self.store)))
    }

    fn dispatch(&mut self, due: Due) -> Result<(), Violation> {
        match due {
            Due::Append(number) => self.append_step(number),
            Due::Fault => self.fault(),
            Due::Calm => self.calm(),
            Due::Look => {}
            Due::Arrives(call) => self.arrives(call)?,
            Due::Answers(call) => self.answers(call)?,
            Due::Step { process, life, .. }
            | Due::Signal { process, life }
            | Due::NewEvents { process, life } => {
                let own = &self.processes[process];
                if !own.is_up || own.life != life {
                    return Ok(());
                }
                if self.is_paused(process) {
                    // It all comes at once when it goes on, in any order.
                    let later = own.paused_until - self.now + self.rng.between(0, 3);
                    self.push(later, due);
                    return Ok(());
                }
                match due {
                    Due::Step { task, token, .. } if own.tasks[task].token == token => {
                        self.step(process, task)?;
                    }
                    Due::Signal { .. } => self.signalled(process),
                    Due::NewEvents { .. } => self.new_events(process),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// A task takes a step.
    pub(crate) fn step(&mut self, process: usize, task: usize) -> Result<(), Violation> {
        match task {
            HEART => self.heart_step(process),
            KEEPER => self.keeper_step(process)?,
            _ => {
                let (at, is_lane) = self.processes[process].lane_of(process, task);
                if is_lane {
                    self.lane_step(at)?;
                } else {
                    self.feed_step(at);
                }
            }
        }
        Ok(())
    }

    fn new_events(&mut self, process: usize) {
        for task in (2..self.processes[process].tasks.len()).step_by(2) {
            self.kick(process, task);
        }
    }

    pub(crate) fn is_paused(&self, process: usize) -> bool {
        self.processes[process].paused_until > self.now
    }

    pub(crate) fn push(&mut self, delay: u64, due: Due) {
        let order = self.rng.next();
        self.queue.push(Reverse((self.now + delay, order, due)));
    }

    /// The next step of a task, instead of what was planned.
    pub(crate) fn plan(&mut self, process: usize, task: usize, delay: u64) {
        let own = &mut self.processes[process];
        if !own.is_up {
            return;
        }
        let life = own.life;
        let planned = &mut own.tasks[task];
        planned.token += 1;
        planned.due = self.now + delay;
        let token = planned.token;
        self.push(delay, Due::Step { process, life, task, token });
    }

    /// The next step of a task soon, unless it is or waits for an answer.
    pub(crate) fn kick(&mut self, process: usize, task: usize) {
        let planned = &self.processes[process].tasks[task];
        if planned.awaiting.is_none() && planned.due > self.now + 2 {
            let delay = self.rng.between(1, 2);
            self.plan(process, task, delay);
        }
    }

    /// A name that no worker has had.
    pub(crate) fn new_name(&mut self, process: usize) -> String {
        self.names += 1;
        format!("p{process}.{}", self.names)
    }

    pub(crate) fn record(&mut self, process: Option<usize>, what: What, figure: u64) {
        let process = process.map(|process| process as u8);
        self.trace.record(Step { at: self.now, process, lane: None, what, figure });
    }

    pub(crate) fn record_lane(&mut self, at: At, what: What, figure: u64) {
        let (process, lane) = (Some(at.process as u8), Some((at.consumer as u8, at.lane as u8)));
        self.trace.record(Step { at: self.now, process, lane, what, figure });
    }
}
