//! What a run tells while it goes on: a line at the beginning, and a line of counts now and then.

use anabranch::running::{ConsumerProgress, Progress};
use anabranch::{FixedPartition, Log};
use anabranch_file::file::File;
use anabranch_terminal::output;
use clap::Args;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// With more consumers that have something to tell, a line is their sum.
const MOST_NAMED: usize = 6;
/// A day: where no counts are wanted, nothing comes due that would be shown.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// How often counts are told.
#[derive(Args)]
pub(crate) struct Narration {
    /// Say what was handled, on standard error: a line every so many seconds in which something changed; 0 for none
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    counts_every: u64,
}

impl Narration {
    pub(super) fn narrator(&self) -> Narrator {
        let every = match self.counts_every {
            0 => NEVER,
            seconds => Duration::from_secs(seconds),
        };
        let mut due = interval_at(Instant::now() + every, every);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Narrator { is_silent: self.counts_every == 0, due, told: BTreeMap::new() }
    }
}

/// Tells what has changed since it last did.
pub(super) struct Narrator {
    is_silent: bool,
    due: Interval,
    /// What was told last, of each consumer.
    told: BTreeMap<String, Counts>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    handled: u64,
    /// Behind the end of the log, in the slots of this process; none if that is not known: it has no slots, or it is a
    /// pool, whose tasks have no positions.
    lag: Option<u64>,
    parked: u64,
    retrying: u64,
}

impl Counts {
    fn of(progress: &ConsumerProgress) -> Self {
        let has_lag = !progress.has_tasks && progress.slots > 0;
        Self {
            handled: progress.handled,
            lag: has_lag.then(|| progress.head.get().saturating_sub(progress.position.get())),
            parked: progress.parked as u64,
            retrying: progress.retrying as u64,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            handled: self.handled + other.handled,
            lag: match (self.lag, other.lag) {
                (Some(one), Some(other)) => Some(one + other),
                (one, other) => one.or(other),
            },
            parked: self.parked + other.parked,
            retrying: self.retrying + other.retrying,
        }
    }

    fn in_words(self) -> String {
        let Self { handled, lag, parked, retrying } = self;
        let mut words = vec![format!("{handled} handled")];
        words.extend(lag.map(|lag| format!("lag {lag}")));
        for (keys, how) in [(retrying, "retrying"), (parked, "parked")] {
            words.extend((keys > 0).then(|| format!("{keys} {how}")));
        }
        words.join(", ")
    }
}

impl Narrator {
    /// Returns when the next line is due.
    pub(super) async fn is_due(&mut self) {
        self.due.tick().await;
    }

    /// The line: what was handled since the last one, and what is left. None if nothing has changed.
    pub(super) fn line(&mut self, all: &Progress) -> Option<String> {
        if self.is_silent {
            return None;
        }
        let mut changed = Vec::new();
        for progress in &all.consumers {
            let now = Counts::of(progress);
            let before = self.told.insert(progress.name.clone(), now).unwrap_or_default();
            // At first, that nothing is left is no news.
            let before = Counts { lag: before.lag.or(now.lag.filter(|lag| *lag == 0)), ..before };
            if now != before {
                let since = now.handled.saturating_sub(before.handled);
                changed.push((progress.name.as_str(), Counts { handled: since, ..now }));
            }
        }
        let told = match changed.len() {
            0 => return None,
            1..=MOST_NAMED => {
                let each =
                    changed.iter().map(|(name, counts)| format!("{name} {}", counts.in_words()));
                each.collect::<Vec<_>>().join("; ")
            }
            many => {
                let sum =
                    changed.iter().fold(Counts::default(), |sum, (_, counts)| sum.plus(*counts));
                format!("{many} consumers {}", sum.in_words())
            }
        };
        let every = self.due.period().as_secs();
        Some(format!("in the last {every} s: {told}"))
    }
}

/// What is run, and where.
pub(super) fn beginning(
    file: &File,
    log: &Log,
    partition: Option<FixedPartition>,
    catches_up: bool,
) -> String {
    let sets = file.sets.iter().map(|set| {
        let consumers: Vec<&str> = file
            .consumers()
            .filter(|(of, _)| of.name.text == set.name.text)
            .map(|(_, name)| name.text.as_str())
            .collect();
        let lanes = output::count(set.lanes as u64, "lane");
        let schedules = match set.schedules.len() as u64 {
            0 => String::new(),
            schedules => format!("; {}", output::count(schedules, "schedule")),
        };
        format!("`{}` ({}; {lanes}{schedules})", set.name.text, consumers.join(", "))
    });
    let sets: Vec<String> = sets.collect();
    let partition = partition.map_or_else(|| "elastic".to_owned(), |fixed| fixed.to_string());
    let at = log.database().at().to_owned();
    let verb = if catches_up { "catching up" } else { "running" };
    format!("{verb} {} on {at}, {partition}; Ctrl-C ends it", sets.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch::Position;

    fn progress(handled: u64, position: u64, parked: usize) -> ConsumerProgress {
        let mut one = ConsumerProgress::default();
        (one.name, one.handled, one.parked, one.slots) = ("totals".to_owned(), handled, parked, 1);
        (one.position, one.head) = (Position::new(position), Position::new(10));
        one
    }

    fn of(consumers: Vec<ConsumerProgress>) -> Progress {
        let mut one = Progress::default();
        one.consumers = consumers;
        one
    }

    #[tokio::test]
    async fn a_line_tells_what_has_changed_and_nothing_else() {
        let mut narrator = Narration { counts_every: 60 }.narrator();
        assert_eq!(narrator.line(&of(vec![])), None);
        assert_eq!(narrator.line(&of(vec![progress(0, 10, 0)])), None);
        let line = narrator.line(&of(vec![progress(7, 8, 1)]));
        assert_eq!(line.as_deref(), Some("in the last 60 s: totals 7 handled, lag 2, 1 parked"));
        assert_eq!(narrator.line(&of(vec![progress(7, 8, 1)])), None);
        let line = narrator.line(&of(vec![progress(9, 10, 0)]));
        assert_eq!(line.as_deref(), Some("in the last 60 s: totals 2 handled, lag 0"));
        // A pool has no lag of its own.
        let mut pool = progress(3, 0, 0);
        (pool.has_tasks, pool.name) = (true, "mail".to_owned());
        let line = narrator.line(&of(vec![progress(9, 10, 0), pool]));
        assert_eq!(line.as_deref(), Some("in the last 60 s: mail 3 handled"));
    }

    #[tokio::test]
    async fn many_consumers_are_summed_up_and_silence_is_kept() {
        let many = || {
            let one = |number: u64| {
                let mut one = progress(2, 9, 0);
                one.name = format!("c{number}");
                one
            };
            of((0..8).map(one).collect())
        };
        let line = Narration { counts_every: 5 }.narrator().line(&many());
        assert_eq!(line.as_deref(), Some("in the last 5 s: 8 consumers 16 handled, lag 8"));
        assert_eq!(Narration { counts_every: 0 }.narrator().line(&many()), None);
    }
}
