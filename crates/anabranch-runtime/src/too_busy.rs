//! Statements of a handler that the database gives up again and again: a time limit, a lock, a deadlock. Now and
//! then that is the database's matter, and it is waited for. Time after time it is that of the event: waited for, it
//! would hold up everything behind it for ever.

use crate::tx::Failure;
use anabranch_core::StoreError;
use anabranch_store::database::Reason;

/// How often in a row it is waited for.
const PATIENCE: u32 = 5;

/// How often in a row a lane was given up.
#[derive(Debug, Default)]
pub(crate) struct TooBusy {
    times: u32,
}

impl TooBusy {
    /// A failure as it is to be taken: that of the database, or from some point on that of the event.
    pub(crate) fn judge(&mut self, mut failure: Failure) -> Failure {
        let is_one = failure.failed.statement.is_some();
        let Reason::Store(error @ StoreError::Busy { .. }) = &failure.failed.reason else {
            return failure;
        };
        if !is_one {
            return failure;
        }
        self.times = self.times.saturating_add(1);
        if self.times > PATIENCE {
            let said = format!(
                "{error}; it was so {PATIENCE} times before, so it is the event that fails: does a statement of \
                 it take longer than the server's statement_timeout or lock_timeout?"
            );
            failure.failed.reason = Reason::refused(said);
        }
        failure
    }

    /// Something was committed.
    pub(crate) fn has_worked(&mut self) {
        self.times = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_store::database::Failed;

    fn failure(statement: Option<usize>) -> Failure {
        let error = StoreError::Busy { at: "db".to_owned(), source: "cancelled".into() };
        Failure { event: Some(3), failed: Failed { statement, reason: Reason::Store(error) } }
    }

    #[test]
    fn what_is_given_up_again_and_again_is_the_events_failure() {
        let mut busy = TooBusy::default();
        let mut is_waited_for =
            |statement| busy.judge(failure(statement)).failed.is_worth_waiting();
        assert!((0..PATIENCE).all(|_| is_waited_for(Some(0))));
        assert!(!is_waited_for(Some(0)) && !is_waited_for(Some(0)));
        // No statement of it is to blame.
        assert!(is_waited_for(None));
        busy.has_worked();
        assert!(busy.judge(failure(Some(0))).failed.is_worth_waiting());
    }
}
