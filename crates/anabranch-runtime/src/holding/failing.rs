//! Rows that fail: one by one, or all of them because of something that they need.

use super::Holding;
use crate::handler::HandlerError;
use crate::lane::{Halt, OVERLOAD, Probed, Report};
use crate::run_error::RunError;
use anabranch_core::{Again, Position, Slot};

/// What to do about rows that fail whatever their key.
const BROKEN: &str = "key after key fails and nothing works in between: correct what they need, and it \
                      goes on";

/// What to do about rows that cannot be run at all.
const UNABLE: &str = "it cannot run, whatever the row is: correct what it needs, and it goes on";

impl Holding {
    /// A row of a key has failed with an error, of which `said` is told; it would be given up or not. `true` if that row is not to blame for it, since others fail like it: then nothing is to be stored about
    /// it, and [`keep`](Self::keep) is empty until rows can be done again.
    pub fn fails(
        &mut self,
        (key, slot): (&str, Slot),
        is_given_up: bool,
        (error, said): (&HandlerError, &str),
    ) -> bool {
        let again = error.again();
        let is_broken = match self.trying {
            true => again != Again::Never && !error.is_answer(),
            false => self.setup.streak.fails(key, is_given_up, error),
        };
        if is_broken {
            let remedy = match error.is_overload() {
                true => OVERLOAD,
                false if error.is_unable() => UNABLE,
                false => BROKEN,
            };
            self.stop((slot, error.is_overload()), (said, again), remedy);
        }
        is_broken
    }

    /// A row of a key has failed because of what it is, and that is stored. If it was the one to be tried, that
    /// is over: rows can be done again if the log has answered what it appends, or else when another one is.
    pub fn has_failed(&mut self, slot: Slot, (error, said): (&HandlerError, &str)) {
        if self.trying && error.is_answer() {
            self.works_again();
        } else if self.trying && error.again() == Again::Never {
            self.stop_at(slot, (said, Again::Never), BROKEN);
        }
    }

    /// What it tried is done: all rows can be.
    pub(super) fn works_again(&mut self) {
        if std::mem::take(&mut self.trying) {
            self.halted = false;
            self.setup.reporter.say(Report::Probed(Probed::Worked));
        }
    }

    /// A row of this slot must not be passed: the consumer is stopped, and tried again now and then.
    pub fn stop_at(&mut self, slot: Slot, said: (&str, Again), remedy: &'static str) {
        self.stop((slot, false), said, remedy);
    }

    fn stop(
        &mut self,
        (slot, is_everywhere): (Slot, bool),
        (error, again): (&str, Again),
        remedy: &'static str,
    ) {
        self.is_failing(error);
        let (consumer, error) = (self.setup.consumer.name.clone(), error.to_owned());
        let event = format!("a row of slot {}", slot.get());
        let error = RunError::Stopped { consumer, position: Position::START, event, error, remedy };
        let halt = Halt { is_everywhere, ..Halt::new(error, slot, again) };
        let report = match std::mem::take(&mut self.trying) {
            true => Report::Probed(Probed::Failed(halt)),
            false => Report::Halted(halt),
        };
        self.halted = true;
        self.setup.reporter.say(report);
    }
}
