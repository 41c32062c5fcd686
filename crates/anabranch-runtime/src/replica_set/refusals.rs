//! Why a set or its consumers would be refused, told before any of them runs.

use super::changes::ConsumerChange;
use super::{MAX_LANES, ReplicaSet};
use crate::code_change::CodeChange;
use crate::consumer::{Consumer, differ_in_case_only, twin_problem};
use crate::run_error::RunError;
use crate::scope_change::ScopeChange;
use crate::settings::FIRST_VERSION;
use anabranch_core::{StoreError, Strategy};
use anabranch_store::Log;
use std::collections::HashSet;

/// What [`ReplicaSet::check_on`] has found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SetCheck {
    /// Why the set, or consumers of it, would be refused.
    pub refused: Vec<RunError>,
    /// Consumers that ask for another scope than they were run with. They are refused until somebody says that it
    /// is meant: [`Consumers::accept_scope`](crate::Consumers::accept_scope).
    pub scopes: Vec<ScopeChange>,
    /// Consumers whose code is not the accepted one. Nothing of them is run until somebody says that it is meant:
    /// [`Consumers::accept_code`](crate::Consumers::accept_code).
    pub codes: Vec<CodeChange>,
}

impl From<Vec<RunError>> for SetCheck {
    fn from(refused: Vec<RunError>) -> Self {
        Self { refused, ..Self::default() }
    }
}

impl ReplicaSet {
    /// Everything for which [`run`](Self::run) refuses the set or a consumer of it, whatever the log is: names, scopes,
    /// lanes, tuning. Nothing is run.
    ///
    /// ```
    /// use anabranch_runtime::ReplicaSet;
    /// let refused = ReplicaSet::new("reports").check();
    /// assert!(refused[0].to_string().contains("it has no consumers"));
    /// ```
    #[must_use]
    pub fn check(&self) -> Vec<RunError> {
        let mut refused = Vec::new();
        let mut refuse =
            |problem: String| refused.push(RunError::Set { name: self.name.clone(), problem });
        if self.name.is_empty() || self.name.chars().any(char::is_control) || self.name.len() > 100
        {
            refuse("its name is empty, too long or not plain text; rename it".to_owned());
        }
        if self.consumers.is_empty() {
            refuse("it has no consumers; add a projection, view or subscriber".to_owned());
        }
        if self.lanes == 0 || self.lanes > MAX_LANES {
            refuse(format!("it has {} lanes; use 1 to {MAX_LANES}", self.lanes));
        }
        if let Err(problem) = self.tuning.check() {
            refuse(format!("it has {problem}"));
        }
        let mut names = HashSet::new();
        for (number, consumer) in self.consumers.iter().enumerate() {
            let before = self.consumers[..number].iter().map(|other| other.name.as_str());
            let mut twins = before.filter(|other| differ_in_case_only(other, &consumer.name));
            let of_consumer = [
                match twins.next() {
                    None => Ok(()),
                    Some(twin) => Err(RunError::refused(&consumer.name, twin_problem(twin))),
                },
                consumer.validate(),
                self.check_rebuild(consumer),
                self.check_lanes(consumer),
                match names.insert((&consumer.name, consumer.is_rebuild)) {
                    true => Ok(()),
                    false => {
                        let problem = "there are two with that name in the set; rename one";
                        Err(RunError::refused(&consumer.name, problem.to_owned()))
                    }
                },
            ];
            refused.extend(of_consumer.into_iter().filter_map(Result::err));
        }
        refused
    }

    /// The same, and what the log has stored of its consumers: kind, partition, version, scope and code. Nothing is changed.
    pub async fn check_on(&self, log: &Log) -> Result<SetCheck, StoreError> {
        let mut found = SetCheck::from(self.check());
        for (_, change) in self.changes_on(log).await? {
            match change {
                ConsumerChange::New | ConsumerChange::Unchanged => {}
                ConsumerChange::Scope(change) => found.scopes.push(*change),
                ConsumerChange::Code(change) => found.codes.push(change),
                ConsumerChange::Twin { refusal }
                | ConsumerChange::Kind { refusal, .. }
                | ConsumerChange::Partition { refusal, .. }
                | ConsumerChange::Version { refusal, .. } => found.refused.push(refusal),
            }
        }
        Ok(found)
    }

    /// Refuses a new version that could not be told from the old one.
    fn check_rebuild(&self, consumer: &Consumer) -> Result<(), RunError> {
        let version = consumer.settings.version;
        let old = self.consumers.iter().filter(|old| !old.is_rebuild && old.name == consumer.name);
        let old = old.map(|old| old.settings.version).max().unwrap_or(FIRST_VERSION);
        if !consumer.is_rebuild || version > old {
            return Ok(());
        }
        let problem = format!(
            "it is to be built beside version {old} and has version {version}; raise the version of the \
             new one (Settings::version)"
        );
        Err(RunError::refused(&consumer.name, problem))
    }

    fn check_lanes(&self, consumer: &Consumer) -> Result<(), RunError> {
        if consumer.partition.strategy() != Strategy::Global || self.lanes <= 1 {
            return Ok(());
        }
        let problem = format!(
            "the global strategy handles all events one after the other, on one lane, and the set has {}; put \
             it into a replica set of its own that has one lane",
            self.lanes
        );
        Err(RunError::refused(&consumer.name, problem))
    }
}
