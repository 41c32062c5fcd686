//! A handler that fails whatever the key: the lane stops calling it, and tries it with one event when it is
//! told to.
//!
//! It is the handler that is tried, and not the event: a try in vain does not count as an attempt. The tries
//! take turns: the next event, whose key is set aside if it fails again, then a key that was set aside. So
//! one bad event cannot keep the consumer stopped for ever. An event whose append the log refuses is set aside, and
//! shows that the handler works.

use super::{Halt, Lane, Probed, Report};
use crate::handler::HandlerError;
use crate::run_error::RunError;
use anabranch_core::{Again, Event, Failure};
use std::sync::atomic::Ordering;

/// What to do about a handler that fails for all keys.
const BROKEN: &str = "key after key fails and nothing works in between, so it is the handler that is broken, \
                      or something that it needs: correct that, and it goes on";
/// What to do about one that cannot run.
const UNABLE: &str =
    "its handler cannot run, whatever the event is: correct what it needs, and it goes on";

/// What to do about one whose other side asks for less.
pub(crate) const OVERLOAD: &str = "its other side asks for less, whatever the event is: workers that run try it again by themselves";

/// How many keys a try may fail with, if the handler tells whose fault it is: the other side has answered each time, so
/// the next key may be the one that works. Else a few keys that always fail would keep it stopped.
const TRIES: usize = 10;

/// Why a lane does not call its handler any more.
#[derive(Debug)]
pub(super) struct Why {
    said: String,
    again: Again,
    remedy: &'static str,
    is_everywhere: bool,
}

impl Why {
    /// A handler has failed with this, through no fault of the event.
    pub(super) fn of(error: &HandlerError) -> Self {
        let is_everywhere = error.is_overload();
        let remedy = match is_everywhere {
            true => OVERLOAD,
            false if error.is_unable() => UNABLE,
            false => BROKEN,
        };
        Self { said: error.to_string(), again: error.again(), remedy, is_everywhere }
    }

    /// The same with something else to do about it.
    pub(super) fn with_remedy(self, remedy: &'static str) -> Self {
        Self { remedy, ..self }
    }
}

impl Lane {
    /// Goes on. So many keys that fail before something works stop it again.
    pub(super) fn go_on(&mut self, patience: usize) {
        if std::mem::take(&mut self.halted) {
            self.setup.streak.begin(patience);
        }
        self.probe = None;
    }

    /// The handler fails: it is not called any more, and what was read is read again later.
    pub(super) fn has_failed(&mut self, event: &Event, why: Why) {
        let (_, slot) = self.key_of(event);
        let Why { said, again, remedy, is_everywhere } = why;
        let halt = Halt::new(self.stopped(event, said, remedy), slot, again);
        let halt = Halt { is_everywhere, ..halt };
        self.read_again();
        match std::mem::take(&mut self.trying) {
            true => self.setup.reporter.say(Report::Probed(Probed::Failed(halt))),
            false => {
                self.halted = true;
                self.setup.reporter.say(Report::Halted(halt));
            }
        }
    }

    /// Drops what it has in memory, and asks for its cursors: they stand before what was not handled.
    pub(super) fn read_again(&mut self) {
        self.forget();
        self.setup.reporter.say(Report::Lost);
    }

    /// These events were handled, or the log has answered what one of them appends: if that was the try, the
    /// consumer goes on.
    pub(super) fn has_worked(&mut self, events: &[Event]) {
        self.setup.streak.works(events.iter().map(|event| self.key_of(event).0));
        if std::mem::take(&mut self.trying) {
            self.halted = false;
            self.setup.reporter.say(Report::Probed(Probed::Worked));
        }
    }

    /// A key has failed in a try. Says whether another one may be tried.
    pub(super) fn may_try_another(&mut self, event: &Event, error: &HandlerError) -> bool {
        self.tries_left = self.tries_left.saturating_sub(1);
        let is_its_own = !error.is_unable() && !error.is_overload();
        let may = self.trying && is_its_own && self.tries_left > 0;
        if may {
            self.tried = Some((event.clone(), Why::of(error)));
        }
        may
    }

    /// Whether a key that has failed again, so many times by now, is not to blame for it: it is a try, or other
    /// keys fail like it.
    pub(super) fn blames_handler(&self, key: &str, attempts: u32, error: &HandlerError) -> bool {
        let (retry, again) = (self.setup.consumer.retry, error.again());
        match self.trying {
            true => again != Again::Never && !error.is_answer(),
            false => {
                let is_given_up = retry.delay(attempts, 0.0).is_none();
                self.setup.streak.fails(key, is_given_up, error)
            }
        }
    }

    /// What a lane does while its handler is not called: it looks what there is, and tries it if told to.
    pub(super) async fn wait_halted(&mut self) -> Result<(), RunError> {
        self.take_queued();
        if !self.pending.has_events() {
            self.look_only();
        }
        self.say_what_it_could_try();
        if let Some(before) = self.probe.take() {
            self.try_one(before).await?;
            self.say_what_it_could_try();
        }
        Ok(())
    }

    fn say_what_it_could_try(&self) {
        let can_try = self.pending.has_events() || self.parking.retrying() > 0;
        self.setup.stats.can_try.store(can_try, Ordering::Relaxed);
    }

    /// Tries one event: the next one, or the first of a key that was set aside.
    async fn try_one(&mut self, before: i64) -> Result<(), RunError> {
        self.trying = true;
        self.tries_left = if self.handler.tells_whose_fault() { TRIES } else { 1 };
        self.tried = None;
        let tenure = self.parts.tenure();
        let aside = self.parking.retrying_in_turn(before / 2);
        let aside = aside.filter(|_| self.policy() != Failure::Stop);
        if before % 2 == 1
            && let Some(key) = &aside
        {
            self.drain(key).await?;
        }
        while self.trying && !self.stopping && !self.must_shed() && self.pending.has_events() {
            self.handle_next().await?;
        }
        if self.trying
            && !self.stopping
            && let Some(key) = &aside
        {
            self.drain(key).await?;
        }
        if let Some((event, why)) = self.tried.take().filter(|_| self.trying) {
            self.has_failed(&event, why);
        }
        if std::mem::take(&mut self.trying) {
            let is_over = self.stopping || self.must_shed() || tenure != self.parts.tenure();
            let probed = if is_over { Probed::Over } else { Probed::Nothing };
            self.setup.reporter.say(Report::Probed(probed));
        }
        Ok(())
    }
}
