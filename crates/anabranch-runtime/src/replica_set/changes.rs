//! How the consumers of a set differ from what is stored of them, told before any of them runs.

use super::ReplicaSet;
use crate::code_change::CodeChange;
use crate::consumer::{differ_in_case_only, twin_problem};
use crate::identity::Difference;
use crate::run_error::RunError;
use crate::scope_change::ScopeChange;
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_store::Log;

/// How a consumer differs from what is stored of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConsumerChange {
    /// Nothing is stored of it.
    New,
    /// It is refused: there is one whose name differs only in capitals.
    Twin {
        /// Why, and what to do.
        refusal: RunError,
    },
    /// It is what is stored.
    Unchanged,
    /// Its code is not the accepted one, and all else is the same: nothing of it is run until it is accepted.
    Code(CodeChange),
    /// Its scope is another one: it is refused until that is accepted.
    Scope(Box<ScopeChange>),
    /// It is refused: it is another kind of consumer.
    Kind {
        /// What it was.
        was: String,
        /// What it is.
        is: String,
        /// Why, and what to do.
        refusal: RunError,
    },
    /// It is refused: its events are keyed in another way.
    Partition {
        /// How they were.
        was: String,
        /// How they are.
        is: String,
        /// Why, and what to do.
        refusal: RunError,
    },
    /// It is refused: the version of its tables is another one.
    Version {
        /// The version that is stored.
        was: u32,
        /// The version that it has.
        is: u32,
        /// Why, and what to do.
        refusal: RunError,
    },
}

impl ReplicaSet {
    /// How each of its consumers, by name, differs from what the log has stored of it. Nothing is changed. Of several
    /// differences it is the one that weighs most.
    ///
    /// ```
    /// # use anabranch_runtime::replica_set::ConsumerChange;
    /// # async fn f(set: anabranch_runtime::ReplicaSet, log: anabranch_store::Log) -> Result<(), anabranch_core::StoreError> {
    /// for (name, change) in set.changes_on(&log).await? {
    ///     if let ConsumerChange::Code(change) = change {
    ///         println!("{name}: {change}");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn changes_on(&self, log: &Log) -> Result<Vec<(String, ConsumerChange)>, StoreError> {
        let tables = Tables::of(log.database());
        let mut changes = Vec::new();
        for consumer in self.consumers.iter().filter(|consumer| !consumer.is_rebuild) {
            let name = &consumer.name;
            let Some(stored) = tables.identity(name).await? else {
                let all = tables.registered(None).await?;
                let twin = all.iter().find(|other| differ_in_case_only(&other.name, name));
                let change = twin.map_or(ConsumerChange::New, |twin| {
                    let refusal = RunError::refused(name, twin_problem(&twin.name));
                    ConsumerChange::Twin { refusal }
                });
                changes.push((name.clone(), change));
                continue;
            };
            let change = match consumer.identity(log.hash_rule()).compare(&stored) {
                Ok(()) => ConsumerChange::Unchanged,
                Err(Difference::Scope { was, is }) => {
                    let cursors = tables.cursors(name).await?;
                    let change = ScopeChange::of(log, &tables, name, (&was, &is), &cursors);
                    ConsumerChange::Scope(Box::new(change.await?))
                }
                Err(Difference::Code { was, is }) => {
                    ConsumerChange::Code(CodeChange::new(name, was, is))
                }
                Err(ref difference @ Difference::Kind { ref was, is }) => {
                    let (was, is) = (was.clone(), is.to_owned());
                    ConsumerChange::Kind { was, is, refusal: consumer.differs(difference) }
                }
                Err(ref difference @ Difference::Partition { ref was, ref is }) => {
                    let (was, is) = (was.clone(), is.clone());
                    ConsumerChange::Partition { was, is, refusal: consumer.differs(difference) }
                }
                Err(ref difference @ Difference::Version { was, is }) => {
                    let refusal = match was > is {
                        true => consumer.is_outdated(was),
                        false => consumer.differs(difference),
                    };
                    ConsumerChange::Version { was, is, refusal }
                }
            };
            changes.push((name.clone(), change));
        }
        Ok(changes)
    }
}
