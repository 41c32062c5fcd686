//! What a test expects.

use super::run::json;
use super::{Kit, Told};
use crate::Workflow;
use serde::Serialize;

impl<W: Workflow> Kit<W> {
    /// Exactly these events happened, in this order, and no command was rejected, unless a
    /// `then_rejected` before it says so.
    #[track_caller]
    pub fn then(self, events: impl IntoIterator<Item = W::Event>) -> Self {
        let expected = list(events);
        let happened = list(&self.step.events);
        let fine = self.step.rejections.is_empty() || self.step.expects_rejection;
        assert!(
            fine && expected == happened,
            "expected{}\nhappened{}",
            shown("event", &expected),
            self.step.told()
        );
        self
    }

    /// A command was rejected, and the rejection is as it should be.
    #[track_caller]
    pub fn then_rejected(mut self, check: impl FnOnce(&W::Rejection)) -> Self {
        self.step.expects_rejection = true;
        match self.step.rejections.first() {
            Some(rejection) => check(rejection),
            None => panic!("expected\n  rejected …\nhappened{}", self.step.told()),
        }
        self
    }

    /// A command was rejected with this message.
    #[track_caller]
    pub fn then_rejected_with(mut self, message: &str) -> Self {
        self.step.expects_rejection = true;
        let found = self.step.rejections.iter().any(|found| found.to_string() == message);
        assert!(found, "expected\n  rejected {message}\nhappened{}", self.step.told());
        self
    }

    /// Exactly these actions wait, in this order.
    #[track_caller]
    pub fn then_actions(self, actions: impl IntoIterator<Item = W::Action>) -> Self {
        let (expected, waiting) = (list(actions), list(&self.actions));
        assert!(
            expected == waiting,
            "expected{}\nthese wait{}\nhappened{}",
            shown("action", &expected),
            shown("action", &waiting),
            self.step.told()
        );
        self
    }

    /// The state is as it should be.
    #[track_caller]
    pub fn then_state(self, check: impl FnOnce(&W::State)) -> Self {
        check(&self.state);
        self
    }

    /// Another workflow was told this command.
    #[track_caller]
    pub fn then_told<O: Workflow>(self, other: &O, id: &str, command: &O::Command) -> Self {
        let workflow = other.name().to_owned();
        let expected = Told { workflow, id: id.to_owned(), command: json(command) };
        let Told { workflow, command, .. } = &expected;
        assert!(
            self.step.told.contains(&expected),
            "expected\n  told     {workflow} `{id}` {command}\nhappened{}",
            self.step.told()
        );
        self
    }

    /// The first action waits for somebody to look at it, because of this error.
    #[track_caller]
    pub fn then_parked_with(self, error: &str) -> Self {
        assert!(
            self.parked.as_deref() == Some(error),
            "expected an action that is parked with\n  {error}\nfound\n  {}",
            self.parked.as_deref().unwrap_or("none that is parked")
        );
        self
    }

    /// Exactly these timers run, in the order in which they are due.
    #[track_caller]
    pub fn then_timers<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut timers: Vec<_> =
            self.timers.iter().filter(|timer| timer.schedule.is_none()).collect();
        timers.sort_by_key(|timer| timer.due);
        let running: Vec<&str> = timers.iter().map(|timer| timer.name.as_str()).collect();
        let expected: Vec<&str> = names.into_iter().collect();
        assert!(running == expected, "expected the timers {expected:?}, but {running:?} run");
        self
    }
}

#[track_caller]
fn list<T: Serialize>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    values.into_iter().map(|value| json(&value)).collect()
}

fn shown(what: &str, values: &[String]) -> String {
    if values.is_empty() {
        return "\n  nothing".to_owned();
    }
    values.iter().map(|value| format!("\n  {what:<8} {value}")).collect()
}
