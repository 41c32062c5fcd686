//! An event that must not be passed: tried a few times where it stands, then its consumer is stopped.

use super::halt::Why;
use super::transact::{Extra, Outcome};
use super::{Batch, Lane};
use crate::handler::HandlerError;
use crate::run_error::RunError;
use anabranch_core::{Happening, Retry};
use anabranch_store::backoff::random;
use std::ops::ControlFlow;
use std::time::Duration;

/// What to do about it.
const STOPS: &str =
    "its policy is to stop: correct the handler or the event, and it goes on with this event";
/// The longest wait between its tries.
const SOON: Duration = Duration::from_secs(1);

impl Lane {
    /// The policy is to stop: the event is tried where it stands a few times, and nothing passes it. Then
    /// the consumer is stopped, and the waiting is up to those who try it now and then.
    pub(super) async fn try_or_stop(
        &mut self,
        batch: &mut Batch,
        event: usize,
        error: HandlerError,
    ) -> Result<ControlFlow<()>, RunError> {
        if event > 0 {
            // What stands before it is done, and is not done again by the tries.
            let up_to = self.point_of(&batch.events[event - 1]);
            if let Some(flow) = self.commit_before(batch, event, up_to, Extra::default()).await? {
                return Ok(flow);
            }
        }
        let retry = at_once(self.setup.consumer.retry);
        let is_trying = self.trying;
        let (mut error, mut attempt) = (error, 1);
        let next = |attempt, error: &HandlerError| match is_trying || error.is_unable() {
            true => None,
            false => retry.after(attempt, error.again(), random()),
        };
        while let Some(wait) = next(attempt, &error) {
            let position = batch.events[0].position();
            let held_up = Happening::event_held_up(position, error.to_string(), wait);
            self.setup.events.emit(held_up);
            self.pause_for(wait).await?;
            if self.is_over(batch) {
                return Ok(ControlFlow::Break(()));
            }
            if self.must_shed() || self.halted {
                // It may be somebody else's event in a moment, or nobody is to try it.
                return Ok(ControlFlow::Continue(()));
            }
            if self.paused {
                self.read_again();
                return Ok(ControlFlow::Break(()));
            }
            match self.transact(batch, 1, Extra::default()).await {
                Outcome::Committed { events } => {
                    batch.delivered.clear();
                    self.has_worked(&batch.events[..events]);
                    batch.events.drain(..events);
                    return Ok(ControlFlow::Continue(()));
                }
                Outcome::Fenced => {
                    self.lost();
                    return Ok(ControlFlow::Break(()));
                }
                // Nobody has tried it.
                Outcome::Away(away) => self.wait_out(away).await?,
                Outcome::Broken(error) => return Err(error.into()),
                Outcome::Failed { error: again, .. } => (error, attempt) = (again, attempt + 1),
            }
        }
        let failed = batch.events[0].clone();
        let why = Why::of(&error);
        let is_not_its_own = error.is_unable() || error.is_overload();
        self.has_failed(&failed, if is_not_its_own { why } else { why.with_remedy(STOPS) });
        Ok(ControlFlow::Break(()))
    }
}

/// Its tries: as they are set, but no more and no slower than the default has them.
fn at_once(set: Retry) -> Retry {
    let few = Retry::default();
    let (first, longest) = (set.first.min(few.first), set.longest.min(SOON));
    Retry { attempts: set.attempts.min(few.attempts), first, longest, ..set }
}
