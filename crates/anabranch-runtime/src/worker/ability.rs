//! What this worker runs, and what it is able to run: others own the slots of what it is not.
//!
//! There may be several reasons at a time why it is not. Each is kept where it arises, and what is said is
//! found out here from all of them: so no reason ends another, and what could not be said is said later.

use super::Keeper;
use super::running::Running;
use super::trouble::Trouble;
use crate::report::Doing;
use crate::run_error::RunError;
use crate::tables::runners::Runner;
use anabranch_core::{Happening, Notice};

/// Why a worker cannot run a consumer, of what is known: what keeps all of them from running comes first.
fn why_unable(lacks_session: Option<&str>, trouble: Option<&Trouble>) -> Option<String> {
    let of_trouble = |trouble: &Trouble| match trouble {
        Trouble::HandedOver { halt, .. } => {
            Some(format!("its handler fails here: {}", Doing::cut(&halt.error.reason())))
        }
        Trouble::Broken(_) => Some(Doing::cut(&trouble.reason())),
        // What fails everywhere, or is about to run, stays where it is.
        Trouble::Halted(_) | Trouble::Outage(_) | Trouble::Moving | Trouble::Exchanged(_) => None,
    };
    let no_session = lacks_session.map(|why| format!("it has no session for its lanes: {why}"));
    no_session.or_else(|| trouble.and_then(of_trouble))
}

impl Running {
    /// Why this worker cannot run it for the time being, whether that is said already or not.
    fn why_unable(&self) -> Option<String> {
        why_unable(self.lacks_session.as_deref(), self.trouble.as_ref())
    }

    /// The same, once nothing else keeps it from running.
    pub(super) fn why_no_session(&self) -> Option<String> {
        why_unable(self.lacks_session.as_deref(), None)
    }
}

impl Keeper {
    /// What this worker runs, as others are told when it joins.
    pub(super) fn runners(&self) -> Vec<Runner> {
        let runner = |running: &Running| Runner {
            consumer: running.consumer.name.clone(),
            version: Some(running.consumer.settings.version),
            unable: running.why_unable(),
        };
        self.running.iter().map(runner).collect()
    }

    /// Others have been told what it runs.
    pub(super) fn has_said(&mut self, runners: Vec<Runner>) {
        for (running, runner) in self.running.iter_mut().zip(runners) {
            running.unable = runner.unable;
        }
    }

    /// Says whether it is able to run a consumer, if others know it differently; `false` if the database does
    /// not hear it yet. A new generation gives the slots to those who can; what nobody else can run stays here.
    pub(super) async fn say_able(&mut self, number: usize) -> Result<bool, RunError> {
        let unable = self.running[number].why_unable();
        if self.running[number].unable == unable {
            return Ok(true);
        }
        let consumer = self.running[number].consumer.name.clone();
        let (set, worker) = (&self.plan.name, &self.worker.id);
        match self.tables.set_able(set, worker, &consumer, unable.as_deref()).await {
            Ok(made) => made.into_iter().for_each(|made| self.tables.events.emit(made)),
            Err(error) if error.is_worth_waiting() => {
                self.notice_of(&consumer, Notice::CannotSayAble, &error);
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        self.tables.events.of(&consumer).emit(match &unable {
            Some(why) => Happening::noticed(Notice::Unable, why.clone()),
            None => Happening::noticed(Notice::AbleAgain, None),
        });
        self.running[number].unable = unable;
        match self.follow().await {
            // The next heartbeat tells of the new generation.
            Err(RunError::Store(error)) if error.is_worth_waiting() => Ok(true),
            done => done.map(|()| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::Halt;
    use anabranch_core::{Again, Slot};
    use std::time::Instant;

    #[test]
    fn no_reason_ends_another() {
        let error = RunError::refused("orders", "no route".to_owned());
        let halt = Halt::new(error, Slot::ZERO, Again::AsSet);
        let handed_over = Trouble::HandedOver { halt, again: Instant::now() };
        let is_said = |lacks: Option<&str>, trouble: Option<&Trouble>, part: &str| {
            why_unable(lacks, trouble).is_some_and(|why| why.contains(part))
        };
        assert!(is_said(None, Some(&handed_over), "its handler fails here: "));
        assert!(is_said(
            Some("too many"),
            Some(&handed_over),
            "no session for its lanes: too many"
        ));
        // The handler is tried again, or fails everywhere, and there is still no session.
        assert!(is_said(Some("too many"), None, "too many"));
        assert!(is_said(Some("too many"), Some(&Trouble::Moving), "too many"));
        assert_eq!(why_unable(None, Some(&Trouble::Moving)), None);
        assert_eq!(why_unable(None, None), None);
    }
}
