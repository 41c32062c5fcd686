//! The permits of a process between its lanes and the database: what it says of them, and what an answer
//! changes. No I/O.

use super::asking::{Asking, Here, Next};
use super::shares::Dealt;
use super::{Leased, Tenure};
use crate::tables::permits::{Ask, Seen};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

pub(super) struct Desk {
    pub(super) leased: Arc<Leased>,
    consumer: String,
    poll: Duration,
    tenure: Arc<Tenure>,
    asking: Asking,
}

impl Desk {
    pub(super) fn new(leased: Arc<Leased>, consumer: String, poll: Duration, now: Instant) -> Self {
        let tenure = Arc::clone(&leased.tenure.borrow());
        let asking = Asking::new(leased.limit, poll, true, now);
        Self { leased, consumer, poll, tenure, asking }
    }

    /// What to do next.
    pub(super) fn next(&mut self, now: Instant) -> Next {
        let here = self.here();
        self.asking.next(here, now)
    }

    /// Others have changed something.
    pub(super) fn hear(&mut self) {
        self.asking.hear();
    }

    fn here(&self) -> Here {
        let book = self.tenure.book();
        let lanes = self.leased.lanes();
        let (free, returned) = (self.tenure.free.available_permits(), book.returned);
        let in_use = book.held - returned - free;
        // A lane that has one on its way to it still wants it.
        let wanted = lanes.wanted().saturating_sub(in_use.saturating_sub(lanes.in_use));
        Here { in_use, free, returned, wanted, is_crowded: book.is_crowded }
    }

    /// What to tell the database of. Until it answers, what is free is kept from the lanes: so what is in use can
    /// only become less, and is leased whatever becomes of the answer.
    pub(super) fn deals<'a>(&'a mut self, worker: &'a str, now: Instant) -> Ask<'a> {
        let returned = {
            let mut book = self.tenure.book();
            let free = self.tenure.free.forget_permits(Semaphore::MAX_PERMITS);
            let returned = std::mem::take(&mut book.returned);
            book.held -= free + returned;
            returned
        };
        let had_turn = self.asking.asks(returned, now);
        self.ask(worker, had_turn)
    }

    /// It was told that this much was in use.
    pub(super) fn has_dealt(&mut self, in_use: usize, dealt: Dealt) {
        self.asking.has_dealt(dealt.short);
        let mut book = self.tenure.book();
        let more = dealt.held - in_use;
        book.held += more;
        book.is_crowded = dealt.is_crowded;
        self.tenure.free.add_permits(more);
    }

    pub(super) fn looks<'a>(&'a mut self, worker: &'a str, now: Instant) -> Ask<'a> {
        self.asking.asks(0, now);
        self.ask(worker, false)
    }

    /// Takes what others have handed over. Says whether to deal, since something else would come of it.
    pub(super) fn has_seen(&mut self, worker: &str, seen: &Seen) -> bool {
        let (held, waits) = seen.mine();
        self.asking.has_looked(waits);
        let held = {
            let mut book = self.tenure.book();
            if let Some(more) = held.checked_sub(book.held) {
                book.held = held;
                self.tenure.free.add_permits(more);
            }
            book.held
        };
        match seen.would_deal(self.ask(worker, false)) {
            Some(dealt) if dealt.held == held => self.tenure.book().is_crowded = dealt.is_crowded,
            _ => return true,
        }
        false
    }

    fn ask<'a>(&'a self, worker: &'a str, had_turn: bool) -> Ask<'a> {
        let Here { in_use, wanted, .. } = self.here();
        Ask { consumer: &self.consumer, worker, most: self.leased.limit, in_use, wanted, had_turn }
    }

    /// The worker's lease is over, and with it the permits: none is used any more when the future ends.
    pub(super) async fn lose(&self) {
        self.tenure.book().is_lost = true;
        self.tenure.free.close();
        while self.leased.lanes().in_use > 0 {
            self.leased.changed.notified().await;
        }
    }

    /// The next permits come under another lease, under which it may have asked already.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        self.asking = Asking::new(self.leased.limit, self.poll, true, now);
        self.tenure = Tenure::new();
        self.leased.tenure.send_replace(Arc::clone(&self.tenure));
    }
}
