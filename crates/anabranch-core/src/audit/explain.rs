//! Which single mistake explains a digest: each hypothesis is compared by sums of prefixes, without hashing again.

use super::digest::{Digest, Lanes};
use super::{EventPlace, RowPlace, Seen, Violation};
use crate::Position;
use std::sync::Arc;

/// Up to so many pairs of events are tried, which takes about half a second: all of them for 3,000 events.
const PAIRS: usize = 5_000_000;

/// What does not fit together.
pub(super) struct Mismatch<'a> {
    pub(super) row: RowPlace,
    /// What the handler should have received, in this order.
    pub(super) expected: &'a [Arc<Seen>],
    /// How many these are, if not all of them were kept.
    pub(super) total: u64,
    /// How many it received, and their digest.
    pub(super) count: u64,
    pub(super) digest: Option<Digest>,
    /// Other events around there, which it should not have received.
    pub(super) others: &'a [Arc<Seen>],
    /// Those of them that the row says it has set aside or skipped.
    pub(super) left_out: &'a dyn Fn(Position) -> bool,
    /// Whether events of this slot are the row's.
    pub(super) is_own: &'a dyn Fn(&Seen) -> bool,
}

impl Mismatch<'_> {
    /// The mistake, by name if a single one explains it.
    pub(super) fn explain(self) -> Violation {
        let is_whole = self.expected.len() as u64 == self.total;
        let found = if is_whole { Sums::new(&self).and_then(|sums| sums.search()) } else { None };
        found.unwrap_or_else(|| Violation::Differs {
            row: self.row.clone(),
            expected: self.total,
            recorded: self.count,
            digest: self.digest,
            first: self.expected.first().map(|event| event.place()),
        })
    }

    fn event(&self, at: usize) -> EventPlace {
        self.expected[at].place()
    }
}

/// Digests of all prefixes, and the powers of the base.
struct Sums<'a> {
    case: &'a Mismatch<'a>,
    recorded: Lanes,
    hashes: Vec<Lanes>,
    prefixes: Vec<Lanes>,
    powers: Vec<Lanes>,
}

impl<'a> Sums<'a> {
    fn new(case: &'a Mismatch<'a>) -> Option<Self> {
        let recorded = case.digest.map_or_else(Lanes::default, |digest| digest.0);
        let lanes = |event: &Arc<Seen>| Lanes::event(event.position, &event.id);
        let hashes: Vec<Lanes> = case.expected.iter().map(lanes).collect();
        // Many more than expected are no single mistake.
        let most = (hashes.len() * 2).max(1);
        if case.count > most as u64 {
            return None;
        }
        let mut prefixes = vec![Lanes::default()];
        for hash in &hashes {
            let before = prefixes[prefixes.len() - 1];
            prefixes.push(before.times(Lanes::BASE).plus(*hash));
        }
        let mut powers = vec![Lanes::ONE];
        for _ in 0..most {
            powers.push(powers[powers.len() - 1].times(Lanes::BASE));
        }
        Some(Self { case, recorded, hashes, prefixes, powers })
    }

    fn len(&self) -> usize {
        self.hashes.len()
    }

    /// The digest of the events from one place up to another.
    fn between(&self, from: usize, to: usize) -> Lanes {
        self.prefixes[to].minus(self.prefixes[from].times(self.powers[to - from]))
    }

    /// Of something with the events from a place on behind it.
    fn with_rest(&self, before: Lanes, from: usize) -> Lanes {
        before.times(self.powers[self.len() - from]).plus(self.between(from, self.len()))
    }

    fn search(&self) -> Option<Violation> {
        let (expected, count) = (self.len(), self.case.count as usize);
        match count.checked_sub(expected) {
            None => self.run_missing(expected - count),
            Some(0) => self.swapped().or_else(|| self.moved()).or_else(|| self.replaced()),
            Some(1) => self.run_again(1).or_else(|| self.once_more()).or_else(|| self.added()),
            Some(more) => self.run_again(more),
        }
    }

    /// Some in a row were left out: one, the first ones, the last ones or all.
    fn run_missing(&self, missing: usize) -> Option<Violation> {
        let is_it = |at: &usize| self.with_rest(self.prefixes[*at], at + missing) == self.recorded;
        let at = (0..=self.len() - missing).find(is_it)?;
        let (row, event) = (self.case.row.clone(), self.case.event(at));
        Some(Violation::NotHanded { row, event, missing: missing as u64 })
    }

    /// Some in a row were handed out once more, right behind themselves.
    fn run_again(&self, again: usize) -> Option<Violation> {
        let last = self.len().checked_sub(again)?;
        let is_it = |at: &usize| self.with_rest(self.prefixes[at + again], *at) == self.recorded;
        let at = (0..=last).find(is_it)?;
        let (row, event) = (self.case.row.clone(), self.case.event(at));
        Some(Violation::HandedTwice { row, event, again: again as u64 })
    }

    /// One of its own was handed out once more, anywhere.
    fn once_more(&self) -> Option<Violation> {
        let (of, _) = self.insertion(&self.hashes)?;
        let (row, event) = (self.case.row.clone(), self.case.event(of));
        Some(Violation::HandedTwice { row, event, again: 1 })
    }

    /// Another one was handed out as well.
    fn added(&self) -> Option<Violation> {
        let others = self.case.others;
        let hashes: Vec<_> = others.iter().map(|e| Lanes::event(e.position, &e.id)).collect();
        let (of, _) = self.insertion(&hashes)?;
        Some(self.too_much(&others[of]))
    }

    fn too_much(&self, other: &Seen) -> Violation {
        let (row, event) = (self.case.row.clone(), other.place());
        if (self.case.left_out)(other.position) {
            Violation::HandedAlso { row, event }
        } else if (self.case.is_own)(other) {
            Violation::HandedTwice { row, event, again: 1 }
        } else {
            Violation::OtherSlot { row, event }
        }
    }

    /// Which of these was put in, and where.
    fn insertion(&self, candidates: &[Lanes]) -> Option<(usize, usize)> {
        let places = self.len() + 1;
        let most = (PAIRS / places).min(candidates.len());
        (0..places).find_map(|place| {
            let (before, power) = (self.prefixes[place], self.powers[self.len() - place]);
            // What the one that was put in adds must be this.
            let without = before.times(Lanes::BASE).times(power);
            let rest = self.between(place, self.len());
            let adds = self.recorded.minus(without).minus(rest);
            let is_it = |candidate: &Lanes| candidate.times(power) == adds;
            Some((candidates[..most].iter().position(is_it)?, place))
        })
    }

    /// Two are in each other's place.
    fn swapped(&self) -> Option<Violation> {
        let pairs = self.pairs(1).chain(self.pairs(2));
        let len = self.len();
        let adds = self.recorded.minus(self.prefixes[len]);
        for (first, second) in pairs {
            let by = self.hashes[second].minus(self.hashes[first]);
            let places = self.powers[len - 1 - first].minus(self.powers[len - 1 - second]);
            if by.times(places) == adds {
                return Some(self.too_early(second, first));
            }
        }
        None
    }

    /// One is elsewhere, and those in between have moved by one.
    fn moved(&self) -> Option<Violation> {
        let power = |places: usize| self.powers[places];
        for (first, second) in self.pairs(2) {
            let (behind, length) = (second + 1, second + 1 - first);
            let later = self.between(first, second);
            let to_front = self.hashes[second].times(power(length - 1)).plus(later);
            let front = self.prefixes[first].times(power(length)).plus(to_front);
            if self.with_rest(front, behind) == self.recorded {
                return Some(self.too_early(second, first));
            }
            let others = self.between(first + 1, behind);
            let to_back = others.times(power(1)).plus(self.hashes[first]);
            let back = self.prefixes[first].times(power(length)).plus(to_back);
            if self.with_rest(back, behind) == self.recorded {
                return Some(self.too_early(first + 1, first));
            }
        }
        None
    }

    fn too_early(&self, event: usize, after: usize) -> Violation {
        let (event, after) = (self.case.event(event), self.case.event(after));
        Violation::OutOfOrder { row: self.case.row.clone(), event, after }
    }

    /// Neighbours, or all others; of very many, those that are not far from each other.
    fn pairs(&self, least: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let len = self.len();
        let furthest = match least {
            1 => 1,
            _ if len.saturating_mul(len) / 2 <= PAIRS => len,
            _ => PAIRS / len,
        };
        (0..len).flat_map(move |first| {
            let end = len.min((first + furthest).saturating_add(1));
            (first + least..end).map(move |second| (first, second))
        })
    }

    /// Another one was handed out in the place of one.
    fn replaced(&self) -> Option<Violation> {
        let adds = self.recorded.minus(self.prefixes[self.len()]);
        let most = (PAIRS / self.len().max(1)).min(self.case.others.len());
        let others = &self.case.others[..most];
        let hashes: Vec<_> = others.iter().map(|e| Lanes::event(e.position, &e.id)).collect();
        (0..self.len()).find_map(|at| {
            let power = self.powers[self.len() - 1 - at];
            let is_it = |hash: &Lanes| hash.minus(self.hashes[at]).times(power) == adds;
            let other = hashes.iter().position(is_it)?;
            let (own, other) = (self.case.event(at), &others[other]);
            Some(if own.position < other.position {
                Violation::NotHanded { row: self.case.row.clone(), event: own, missing: 1 }
            } else {
                self.too_much(other)
            })
        })
    }
}
