//! Workers that share one table of permits, step by step: what `desk` and `asking` decide here is what runs in
//! production. Answers are lost, signals too, tasks come and end at any moment.

use super::asking::{LINGER, Next};
use super::desk::Desk;
use super::{Leased, Permit, Permits};
use crate::tables::permits::{Ask, Decision, Seen, Stored};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_secs(5);

/// What becomes of a question to the database.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Given,
    /// Stored, and nobody knows.
    Lost,
    /// Not even stored.
    Refused,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many tasks come.
    Come(usize, usize),
    /// Tasks that have not begun are cancelled.
    Cancel(usize),
    /// A lane begins what it can.
    Begin(usize),
    /// The task that began first, or last, is over.
    End(usize, bool),
    /// A keeper does what is due.
    Keep(usize, Answer),
    /// A signal does not arrive.
    Deaf(usize),
    Pass(u64),
}

fn step(workers: usize) -> impl Strategy<Value = Step> {
    let answer = prop_oneof![
        6 => Just(Answer::Given),
        1 => Just(Answer::Lost),
        1 => Just(Answer::Refused),
    ];
    prop_oneof![
        3 => (0..workers, 1..4_usize).prop_map(|(of, tasks)| Step::Come(of, tasks)),
        1 => (0..workers).prop_map(Step::Cancel),
        5 => (0..workers).prop_map(Step::Begin),
        5 => (0..workers, any::<bool>()).prop_map(|(of, first)| Step::End(of, first)),
        9 => (0..workers, answer).prop_map(|(of, answer)| Step::Keep(of, answer)),
        1 => (0..workers).prop_map(Step::Deaf),
        3 => (1..200_u64).prop_map(Step::Pass),
    ]
}

struct Worker {
    name: String,
    desk: Desk,
    permits: Permits,
    waiting: Option<BoxFuture<'static, Permit>>,
    tasks: usize,
    running: Vec<Permit>,
    is_signalled: bool,
}

struct World {
    limit: usize,
    workers: Vec<Worker>,
    table: BTreeMap<String, Stored>,
    now: Instant,
    begun: Instant,
    asks: usize,
}

impl World {
    fn new(limit: usize, workers: usize) -> Self {
        let now = Instant::now();
        let worker = |number: usize| {
            let name = format!("w{number}");
            let leased = Leased::new(limit, &name);
            let permits = Permits::new(Some(leased.clone()));
            let desk = Desk::new(leased, "pool".to_owned(), POLL, now);
            let (waiting, tasks, running, is_signalled) = (None, 0, Vec::new(), false);
            Worker { name, desk, permits, waiting, tasks, running, is_signalled }
        };
        let workers = (0..workers).map(worker).collect();
        Self { limit, workers, table: BTreeMap::new(), now, begun: now, asks: 0 }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Come(of, tasks) => self.workers[of].tasks += tasks,
            Step::Cancel(of) => {
                self.workers[of].tasks = 0;
                self.workers[of].waiting = None;
            }
            Step::Begin(of) => {
                self.workers[of].begin();
            }
            Step::End(of, is_first) => self.workers[of].end(is_first),
            Step::Keep(of, answer) => self.keep(of, answer),
            Step::Deaf(of) => self.workers[of].is_signalled = false,
            Step::Pass(ms) => self.now += Duration::from_millis(ms),
        }
        for worker in &mut self.workers {
            let tasks = worker.tasks;
            worker.permits.wants(tasks);
        }
        let running: usize = self.workers.iter().map(|worker| worker.running.len()).sum();
        assert!(running <= self.limit, "{running} at work");
        for worker in &self.workers {
            let held = self.table.get(&worker.name).map_or(0, |row| row.claim.held);
            assert!(worker.running.len() <= held, "{} uses more than {held}", worker.name);
        }
    }

    /// One keeper does what is due, if anything is.
    fn keep(&mut self, of: usize, answer: Answer) {
        let Self { workers, table, now, begun, asks, .. } = self;
        let worker = &mut workers[of];
        let mut next = worker.desk.next(*now);
        if let Next::Wait { hears_others: true, .. } = next
            && std::mem::take(&mut worker.is_signalled)
        {
            worker.desk.hear();
            next = worker.desk.next(*now);
        }
        let rows = |table: &BTreeMap<String, Stored>| -> Vec<(Stored, bool)> {
            table.values().cloned().map(|row| (row, true)).collect()
        };
        if next == Next::Look {
            *asks += 1;
            worker.is_signalled = false;
            let ask = worker.desk.looks(&worker.name, *now);
            let seen = Seen::new(rows(table), ask);
            if !matches!(answer, Answer::Given) || !worker.desk.has_seen(&worker.name, &seen) {
                return;
            }
            next = Next::Deal;
        }
        if next != Next::Deal {
            return;
        }
        *asks += 1;
        worker.is_signalled = false;
        let ask: Ask<'_> = worker.desk.deals(&worker.name, *now);
        let in_use = ask.in_use;
        let now_us = now.duration_since(*begun).as_micros() as i64;
        let decision = Seen::new(rows(table), ask).decide(ask, now_us);
        if matches!(answer, Answer::Refused) {
            return;
        }
        let Decision { dealt, mine, grown, tells } = decision;
        for claim in grown {
            if let Some(row) = table.get_mut(&claim.worker) {
                row.claim = claim;
            }
        }
        match mine.claim.held + mine.claim.wanted {
            0 => drop(table.remove(&worker.name)),
            _ => drop(table.insert(worker.name.clone(), mine)),
        }
        if matches!(answer, Answer::Given) {
            worker.desk.has_dealt(in_use, dealt);
        }
        if tells {
            workers.iter_mut().for_each(|worker| worker.is_signalled = true);
        }
    }

    /// Nothing fails any more, and each task ends when it has begun: all of them are run, by signals alone or,
    /// if some were lost, by a look now and then.
    fn come_to_rest(&mut self) {
        let count = self.workers.len();
        let tasks: usize = self.workers.iter().map(|worker| worker.tasks).sum();
        for _ in 0..10 * (tasks + count) + 50 {
            for of in 0..count {
                for _ in 0..self.workers[of].running.len() {
                    self.step(Step::End(of, true));
                }
                self.step(Step::Keep(of, Answer::Given));
                while self.workers[of].begin() {}
                self.step(Step::Begin(of));
            }
            let is_at_rest = |worker: &Worker| worker.tasks == 0 && worker.running.is_empty();
            if self.workers.iter().all(is_at_rest) && self.table.is_empty() {
                return;
            }
            self.step(Step::Pass(POLL.as_millis() as u64 / 4));
        }
        let tasks: Vec<usize> = self.workers.iter().map(|worker| worker.tasks).collect();
        panic!("tasks {tasks:?} wait for ever: {:?}", self.table);
    }
}

impl Worker {
    /// Begins a task if there is a permit.
    fn begin(&mut self) -> bool {
        self.permits.wants(self.tasks);
        if self.tasks == 0 {
            return false;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(self.permits.next()));
        let Some(permit) = waiting.now_or_never() else { return false };
        self.waiting = None;
        self.running.push(permit);
        self.tasks -= 1;
        true
    }

    fn end(&mut self, is_first: bool) {
        match is_first && !self.running.is_empty() {
            true => drop(self.running.remove(0)),
            false => drop(self.running.pop()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_limit_holds_and_nobody_waits_for_ever(
        limit in prop_oneof![3 => 1..5_usize, 1 => 24..60_usize],
        steps in proptest::collection::vec(step(3), 1..120),
    ) {
        let mut world = World::new(limit, 3);
        for step in steps {
            world.step(step);
        }
        world.come_to_rest();
    }
}

/// A permit that a keeper forgot about when its deal failed stood in the table for ever.
#[test]
fn a_permit_that_was_given_back_in_vain_comes_back() {
    for answer in [Answer::Refused, Answer::Lost] {
        let mut world = World::new(1, 2);
        let keep = |world: &mut World, of| world.step(Step::Keep(of, Answer::Given));
        world.step(Step::Come(0, 1));
        keep(&mut world, 0);
        world.step(Step::Begin(0));
        world.step(Step::End(0, true));
        keep(&mut world, 0);
        world.step(Step::Pass(LINGER.as_millis() as u64));
        world.step(Step::Keep(0, answer));
        world.step(Step::Come(1, 1));
        world.come_to_rest();
    }
}

/// While one task runs and nobody else wants anything, there is nothing to ask but whether that is still so.
#[test]
fn a_long_task_asks_for_nothing() {
    let mut world = World::new(100, 2);
    world.step(Step::Come(0, 1));
    for _ in 0..3 {
        world.step(Step::Keep(0, Answer::Given));
        world.step(Step::Begin(0));
    }
    let before = world.asks;
    for _ in 0..100 {
        world.step(Step::Pass(LINGER.as_millis() as u64));
        world.step(Step::Keep(0, Answer::Given));
    }
    assert_eq!(world.asks - before, 1, "in {POLL:?}");
}
