//! How many deliveries of a lane are under way at the same time: fewer where what stands before the endpoint fails.

use crate::endpoint::Verdict;

pub(crate) struct Pace {
    pub(crate) now: usize,
    most: usize,
    good: usize,
}

impl Pace {
    pub(crate) fn of(most: usize) -> Self {
        Self { now: most, most, good: 0 }
    }

    pub(crate) fn learn(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Arrived => {
                self.good += 1;
                if self.good >= self.now {
                    (self.now, self.good) = ((self.now + 1).min(self.most), 0);
                }
            }
            Verdict::Strained { .. } => (self.now, self.good) = ((self.now / 2).max(1), 0),
            _ => {}
        }
    }
}
