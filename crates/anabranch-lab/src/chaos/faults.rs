//! Which fault comes when: all of it follows from the seed, nothing from what happens.

use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// What is done to the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A process is killed (`kill -9`), and a new one started soon after.
    Kill,
    /// A process is stopped until its lease is over, then goes on (`SIGSTOP`, `SIGCONT`).
    Stop,
    /// One more process.
    Join,
    /// A process is told to stop, and leaves in good order.
    Leave,
    /// The server ends sessions of a process.
    Cut,
    /// The server is restarted.
    Restart,
}

/// How often each has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct FaultCounts {
    kill: u64,
    stop: u64,
    join: u64,
    leave: u64,
    cut: u64,
    restart: u64,
}

impl FaultCounts {
    pub(crate) fn add(&mut self, fault: Fault) {
        *match fault {
            Fault::Kill => &mut self.kill,
            Fault::Stop => &mut self.stop,
            Fault::Join => &mut self.join,
            Fault::Leave => &mut self.leave,
            Fault::Cut => &mut self.cut,
            Fault::Restart => &mut self.restart,
        } += 1;
    }
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kill, stop, join, leave, cut, restart } = self;
        write!(
            f,
            "kill {kill}, stop {stop}, join {join}, leave {leave}, cut {cut}, restart {restart}"
        )
    }
}

/// What is possible here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Possible {
    /// Whether there is a server that can end sessions.
    pub(crate) cut: bool,
    /// Whether it may be restarted.
    pub(crate) restart: bool,
    /// The most workers.
    pub(crate) workers_max: usize,
}

/// Draws one fault after the other: each is as rare as it is slow, and none stays away for long.
pub(crate) struct Deck {
    possible: Possible,
    left: Vec<Fault>,
    is_first: bool,
}

impl Deck {
    pub(crate) fn new(possible: Possible) -> Self {
        Self { possible, left: Vec::new(), is_first: true }
    }

    /// The next fault that can happen to so many live workers.
    pub(crate) fn draw(&mut self, random: &mut Random, live: usize) -> Fault {
        let workers_max = self.possible.workers_max;
        let fits = |fault: &Fault| match fault {
            Fault::Kill | Fault::Stop | Fault::Leave => live > 1,
            Fault::Join => live < workers_max,
            Fault::Cut | Fault::Restart => true,
        };
        if !self.left.iter().any(fits) {
            let more = self.shuffled(random);
            self.left.extend(more);
        }
        let place = self.left.iter().position(fits);
        place.map_or(Fault::Join, |place| self.left.remove(place))
    }

    fn shuffled(&mut self, random: &mut Random) -> Vec<Fault> {
        let often = |count: usize| if self.is_first { 1 } else { count };
        let mut deck = [
            vec![Fault::Kill; often(3)],
            vec![Fault::Stop; 1],
            vec![Fault::Join; often(3)],
            vec![Fault::Leave; often(3)],
            vec![Fault::Cut; if self.possible.cut { often(2) } else { 0 }],
            vec![Fault::Restart; usize::from(self.possible.restart)],
        ]
        .concat();
        self.is_first = false;
        for end in (1..deck.len()).rev() {
            deck.swap(end, random.below(end as u64 + 1) as usize);
        }
        deck
    }
}

/// Numbers that follow from a seed (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    /// Once in so many times.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A time between two numbers of milliseconds.
    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Possible = Possible { cut: true, restart: true, workers_max: 6 };

    #[test]
    fn each_fault_comes_once_before_any_comes_often() {
        for seed in 0..50 {
            let (mut deck, mut random) = (Deck::new(ALL), Random::new(seed));
            let mut counts = FaultCounts::default();
            (0..6).for_each(|_| counts.add(deck.draw(&mut random, 3)));
            let once = FaultCounts { kill: 1, stop: 1, join: 1, leave: 1, cut: 1, restart: 1 };
            assert_eq!(counts, once, "seed {seed}");
        }
    }

    #[test]
    fn the_number_of_workers_stays_in_its_bounds() {
        let possible = Possible { cut: false, restart: false, ..ALL };
        let (mut deck, mut random) = (Deck::new(possible), Random::new(7));
        let mut live = 4;
        for _ in 0..10_000 {
            match deck.draw(&mut random, live) {
                Fault::Kill | Fault::Leave => live -= 1,
                Fault::Join => live += 1,
                Fault::Stop => assert!(live > 1),
                Fault::Cut | Fault::Restart => panic!("not possible here"),
            }
            assert!((1..=6).contains(&live));
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_faults() {
        let draw = |seed| {
            let (mut deck, mut random) = (Deck::new(ALL), Random::new(seed));
            (0..40).map(|_| deck.draw(&mut random, 3)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
