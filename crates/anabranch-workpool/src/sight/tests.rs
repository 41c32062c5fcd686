//! Lanes that look and run against a table in memory, at random.

use super::*;
use crate::queue::ROOM;
use anabranch_core::Slot;
use proptest::prelude::*;

/// A random generator that proptest seeds.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Scheduled,
    Behind,
    Dead,
    Ended,
}

#[derive(Debug)]
struct Row {
    key: usize,
    state: State,
    due: Instant,
    attempts: u32,
    is_visible: bool,
    /// Enqueued at once, and visible at once: its order counts.
    is_plain: bool,
    in_work: bool,
}

/// The tables, and a lane.
struct World {
    dice: Dice,
    keys: usize,
    start: Instant,
    now: Instant,
    /// The seq of a row is its place and one.
    rows: Vec<Row>,
    held: HashSet<(usize, &'static str)>,
    slots: SlotSet,
    sight: Sight,
    queue: Queue,
    chains: bool,
    in_work: Vec<Task>,
    /// Nobody else does anything any more.
    is_quiet: bool,
}

fn slot(key: usize) -> Slot {
    Slot::new(key as u16).unwrap()
}

impl World {
    fn new(seed: u64, keys: usize, chains: bool) -> Self {
        let now = Instant::now();
        Self {
            dice: Dice(seed),
            keys,
            start: now,
            now,
            rows: Vec::new(),
            held: HashSet::new(),
            slots: (0..keys).map(slot).collect(),
            sight: Sight::default(),
            queue: Queue::new(chains),
            chains,
            in_work: Vec::new(),
            is_quiet: false,
        }
    }

    fn enqueue(&mut self, key: usize, delay: u64, is_visible: bool) {
        let state = if delay > 0 { State::Scheduled } else { State::Ready };
        let due = if delay > 0 { self.now + Duration::from_millis(delay) } else { self.start };
        let is_plain = is_visible && delay == 0;
        let (attempts, in_work) = (0, false);
        self.rows.push(Row { key, state, due, attempts, is_visible, is_plain, in_work });
    }

    fn release(&mut self, key: usize, why: &'static str) {
        self.held.remove(&(key, why));
        if !self.is_held(key) {
            let behind = self.rows.iter_mut().filter(|row| row.key == key);
            behind
                .filter(|row| row.state == State::Behind)
                .for_each(|row| row.state = State::Ready);
        }
    }

    fn is_held(&self, key: usize) -> bool {
        self.held.iter().any(|(held, _)| *held == key)
    }

    /// Something that others do.
    fn others(&mut self) {
        let key = self.dice.roll(self.keys);
        match self.dice.roll(12) {
            0..3 => self.enqueue(key, 0, true),
            3 => (0..self.dice.roll(40)).for_each(|_| self.enqueue(key, 0, true)),
            4 => self.enqueue(key, 1 + self.dice.0 % 3_000, true),
            5 => self.enqueue(key, 0, false),
            6 => {
                let late: Vec<usize> =
                    (0..self.rows.len()).filter(|row| !self.rows[*row].is_visible).collect();
                if !late.is_empty() {
                    let row = late[self.dice.roll(late.len())];
                    self.rows[row].is_visible = true;
                }
            }
            7 if self.dice.one_in(4) => drop(self.held.insert((key, "paused"))),
            8 => self.release(key, "paused"),
            9 => self.revive(key, true),
            10 => self.revive(key, false),
            11 if self.dice.one_in(4) => {
                // Cancelled: perhaps in work, perhaps in the queue.
                let open = |row: &Row| row.key == key && row.is_visible && row.state != State::Dead;
                if let Some(row) = self.rows.iter_mut().rfind(|row| open(row)) {
                    row.state = State::Ended;
                }
            }
            _ => {}
        }
    }

    /// The dead task of a key is retried, or discarded.
    fn revive(&mut self, key: usize, again: bool) {
        let dead = self.rows.iter_mut().find(|row| row.key == key && row.state == State::Dead);
        let Some(row) = dead else { return };
        row.state = if again { State::Ready } else { State::Ended };
        (row.attempts, row.due) = (0, self.start);
        self.release(key, "dead");
    }

    fn between(&mut self) {
        if !self.is_quiet && self.dice.one_in(4) {
            self.others();
        }
    }

    fn select(&self, limit: usize, which: impl Fn(i64, &Row) -> bool) -> Vec<Task> {
        let rows = self.rows.iter().enumerate().map(|(place, row)| (place as i64 + 1, row));
        let found = rows.filter(|(seq, row)| row.is_visible && which(*seq, row));
        let task = |(seq, row): (i64, &Row)| {
            let mut task = crate::queue::tests::task(&row.key.to_string(), seq);
            (task.slot, task.attempts) = (slot(row.key), row.attempts);
            task.wait = row.due.checked_duration_since(self.now).filter(|wait| !wait.is_zero());
            task
        };
        found.take(limit).map(task).collect()
    }

    /// What a reader does, with others in between.
    fn look(&mut self) {
        let ask = self.sight.ask(&self.queue, self.now);
        let slots = self.sight.slots().clone();
        let apart: HashSet<usize> = ask.apart.iter().map(|key| key.parse().unwrap()).collect();
        let known: HashSet<Uuid> = ask.known.iter().copied().collect();
        let is_mine = |row: &Row| slots.contains(slot(row.key)) && !apart.contains(&row.key);
        let is_new = |seq: i64| !known.contains(&Uuid::from_u128(seq as u128));
        let mut found = Found::default();
        let held = self.held.iter().filter(|(key, _)| slots.contains(slot(*key)));
        found.held = held.map(|(key, _)| key.to_string()).collect();
        self.between();
        if !ask.apart.is_empty() {
            let is_ready = |row: &Row| row.is_visible && row.state == State::Ready;
            let last = self.rows.iter().rposition(is_ready).map(|place| place as i64 + 1);
            found.last = last.filter(|seq| *seq > ask.after);
            self.between();
        }
        if ask.full {
            let which = |seq, row: &Row| {
                row.state == State::Ready && seq <= ask.after && is_mine(row) && is_new(seq)
            };
            found.full = self.select(ask.limit, which);
            self.between();
        }
        found.on = self.select(ask.limit, |seq, row| {
            row.state == State::Ready
                && seq > ask.after
                && is_mine(row)
                && (ask.after > 0 || is_new(seq))
        });
        self.between();
        let now = self.now;
        found.due = self.select(usize::MAX, |seq, row| {
            row.state == State::Scheduled && row.due <= now && is_mine(row) && is_new(seq)
        });
        found.due.sort_by_key(|task| self.rows[task.seq as usize - 1].due);
        found.due.truncate(ask.limit);
        let due = self.rows.iter().filter(|row| row.is_visible && row.state == State::Scheduled);
        let due = due.map(|row| row.due).filter(|due| *due > now).min();
        found.next_due = due.map(|due| due - now);
        self.between();
        for refill in &ask.refill {
            let key: usize = refill.key.parse().unwrap();
            let tasks = self.select(refill.count, |_, row| {
                let is_due = row.state == State::Scheduled && row.due <= now;
                row.key == key && (row.state == State::Ready || is_due)
            });
            found.refills.push(tasks);
            self.between();
        }
        self.sight.found(&ask, found, &mut self.queue, self.now);
        let held = self.sight.take_held(&mut self.queue);
        self.between();
        for key in held {
            let key: usize = key.parse().unwrap();
            if !self.is_held(key) {
                self.sight.look_again();
                continue;
            }
            let now = self.now;
            let to_do = |row: &&mut Row| {
                row.key == key
                    && row.is_visible
                    && (row.state == State::Ready
                        || (row.state == State::Scheduled && row.due <= now))
            };
            self.rows.iter_mut().filter(to_do).for_each(|row| row.state = State::Behind);
        }
    }

    fn follow(&mut self, is_signalled: bool) {
        self.sight.keep(self.slots.clone(), &mut self.queue);
        let mut looks = 0;
        while self.sight.wants_look(&self.queue, is_signalled && looks == 0, self.now) {
            self.look();
            looks += 1;
            assert!(looks < 500, "it looks and looks");
        }
        self.queue.end_waits(self.now);
        assert!(self.queue.ready() <= ROOM + 3 * PAGE, "{} tasks are kept", self.queue.ready());
    }

    /// Takes tasks, and checks that it is their turn.
    fn take(&mut self, count: usize) {
        for task in self.queue.take(count) {
            let place = task.seq as usize - 1;
            let row = &self.rows[place];
            assert!(!row.in_work, "{} is in work twice", task.seq);
            assert!(self.slots.contains(task.slot), "{} is somebody else's", task.seq);
            let before = self.rows[..place].iter().filter(|other| {
                other.key == row.key && other.is_plain && !(self.chains && other.in_work)
            });
            let first = before.clone().find(|other| other.state != State::Ended || other.in_work);
            assert!(!row.is_plain || first.is_none(), "{} overtakes {first:?}", task.seq);
            let is_alone = !self.rows.iter().any(|other| other.in_work && other.key == row.key);
            assert!(self.chains || is_alone, "two of key {} are in work", row.key);
            self.rows[place].in_work = true;
            self.in_work.push(task);
        }
    }

    /// Ends what is in work, in order, one way or another.
    fn end(&mut self, count: usize) {
        for _ in 0..count {
            if self.in_work.is_empty() {
                return;
            }
            let task = self.in_work.remove(0);
            let row = &mut self.rows[task.seq as usize - 1];
            row.in_work = false;
            let is_open = !matches!(row.state, State::Dead | State::Ended);
            let verdict = if self.is_quiet { 0 } else { self.dice.roll(10) };
            if !is_open {
                // Cancelled meanwhile.
                match verdict {
                    0..5 => self.queue.ended(&task),
                    _ => {
                        self.sight.hold(&task.key);
                        self.sight.look_again();
                        self.queue.ended(&task);
                        self.queue.forget_key(&task.key);
                    }
                }
                continue;
            }
            if verdict < 7 {
                row.state = State::Ended;
                self.queue.ended(&task);
                continue;
            }
            if self.chains {
                self.put_back();
            }
            let row = &mut self.rows[task.seq as usize - 1];
            if verdict < 9 {
                let until = self.now + Duration::from_millis(1 + self.dice.0 % 2_000);
                (row.state, row.due, row.attempts) = (State::Ready, until, row.attempts + 1);
                self.queue.failed(task, until);
            } else {
                row.state = State::Dead;
                self.held.insert((row.key, "dead"));
                self.sight.hold(&task.key);
                self.queue.ended(&task);
                self.queue.forget_key(&task.key);
            }
        }
    }

    fn put_back(&mut self) {
        let rest = std::mem::take(&mut self.in_work);
        rest.iter().for_each(|task| self.rows[task.seq as usize - 1].in_work = false);
        self.queue.put_back(rest);
    }

    fn step(&mut self) {
        match self.dice.roll(20) {
            0 => {
                // Slots that come and go; those in work stay with it.
                let busy = self.queue.busy();
                let wanted = (0..self.keys).filter(|_| !self.dice.one_in(3)).map(slot).collect();
                if self.in_work.is_empty() || !self.chains {
                    self.slots = busy.union(&wanted);
                }
            }
            1 if self.dice.one_in(5) => {
                // Everything is lost, and had again.
                self.in_work.clear();
                self.rows.iter_mut().for_each(|row| row.in_work = false);
                self.queue.clear();
                self.sight.forget();
            }
            _ => {}
        }
        (0..self.dice.roll(4)).for_each(|_| self.others());
        self.now += Duration::from_millis(self.dice.0 % 300);
        let is_signalled = self.dice.one_in(2);
        if self.chains {
            self.follow(is_signalled);
            self.take(1 + self.dice.0 as usize % 15);
            (0..self.dice.roll(3)).for_each(|_| self.others());
            let count = self.dice.roll(20);
            self.end(count);
            self.put_back();
        } else {
            self.follow(is_signalled);
            self.take(self.dice.0 as usize % 4);
            (0..self.dice.roll(3)).for_each(|_| self.others());
            let count = self.dice.roll(4);
            self.end(count);
        }
    }

    /// With all slots, and when nobody adds or holds any more, everything comes to its end.
    fn finish(&mut self) {
        self.is_quiet = true;
        self.slots = (0..self.keys).map(slot).collect();
        self.rows.iter_mut().for_each(|row| row.is_visible = true);
        for _ in 0..3_000 {
            for key in 0..self.keys {
                self.revive(key, true);
                self.release(key, "paused");
            }
            self.now += Duration::from_millis(700);
            self.follow(false);
            self.take(20);
            self.end(20);
            if self.chains {
                self.put_back();
            }
            if self.rows.iter().all(|row| row.state == State::Ended) && self.in_work.is_empty() {
                return;
            }
        }
        let open = self.rows.iter().enumerate().find(|(_, row)| row.state != State::Ended);
        panic!("never run: {open:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]

    #[test]
    fn all_is_run_once_and_in_order(seed: u64, keys in 1..12_usize, chains: bool) {
        let mut world = World::new(seed, keys, chains);
        (0..100).for_each(|_| world.step());
        world.finish();
    }
}

/// Each of many keys is blocked by one that waits, with more behind them than are ever kept: a key that
/// comes last has its turn all the same.
#[test]
fn blocked_keys_keep_out_nobody() {
    for chains in [false, true] {
        let keys = 3 * ROOM;
        let mut world = World::new(1, keys + 1, chains);
        world.is_quiet = true;
        for _ in 0..20 {
            (0..keys).for_each(|key| world.enqueue(key, 0, true));
        }
        let far = world.now + Duration::from_secs(3_600);
        world.rows.iter_mut().take(keys).for_each(|row| row.due = far);
        world.enqueue(keys, 0, true);
        let last = world.rows.len() as i64;
        for _ in 0..5 {
            world.follow(false);
            world.now += Duration::from_secs(2);
        }
        let taken = world.queue.take(10);
        assert_eq!(taken.iter().map(|task| task.seq).collect::<Vec<_>>(), [last]);
    }
}

/// The tasks of a key that is left out are not passed again and again.
#[test]
fn what_is_left_out_is_passed_once() {
    let mut world = World::new(1, 2, true);
    world.is_quiet = true;
    (0..10 * ROOM).for_each(|_| world.enqueue(0, 0, true));
    for _ in 0..30 {
        world.follow(true);
    }
    let ask = world.sight.ask(&world.queue, world.now);
    assert_eq!((ask.apart.len(), ask.after), (1, 10 * ROOM as i64));
    world.enqueue(1, 0, true);
    world.follow(true);
    let taken: Vec<i64> = world.queue.take(3).iter().map(|task| task.seq).collect();
    assert!(taken.contains(&(10 * ROOM as i64 + 1)), "{taken:?}");
}

/// A full look that took long comes again after a long while.
#[test]
fn looking_at_everything_takes_a_small_part_of_the_time() {
    let mut world = World::new(1, 1, true);
    world.is_quiet = true;
    world.enqueue(0, 0, true);
    world.follow(true);
    world.sight.full_took = Duration::from_millis(200);
    let asks = |ms| world.sight.ask(&world.queue, world.now + Duration::from_millis(ms)).full;
    assert!(!asks(3_999) && asks(4_001));
}
