//! A code that is not the accepted one: saying that it is meant.
//!
//! One code of a consumer is accepted at a time. A worker claims slots only while its code is that one, in the
//! transaction that claims; and what makes another one the accepted code takes all slots away in the same
//! transaction. So a batch of the old code has committed before that, or fails at its fence.

use crate::consumers::Consumers;
use crate::operate_error::{Obstacle, OperateError};
use crate::run_error::shortened;
use anabranch_store::database::{End, Statement, Topic};
use serde::Serialize;
use std::fmt;

/// A program has another code of a consumer than the one that is accepted.
///
/// It runs nothing of the consumer until [`Consumers::accept_code`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CodeChange {
    /// Which consumer.
    pub consumer: String,
    /// The code that is accepted.
    pub accepted: String,
    /// The code that a program has.
    pub wanted: String,
}

impl CodeChange {
    pub(crate) fn new(consumer: &str, accepted: String, wanted: String) -> Self {
        Self { consumer: consumer.to_owned(), accepted, wanted }
    }
}

impl fmt::Display for CodeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (accepted, wanted) = (shortened(&self.accepted), shortened(&self.wanted));
        write!(f, "its code was {accepted} and now is {wanted}; what it has written stays as it is")
    }
}

impl Consumers {
    /// The code that a program has, where it is not the accepted one.
    pub async fn code_change(&self, name: &str) -> Result<Option<CodeChange>, OperateError> {
        let Some(stored) = self.tables.registered(Some(name)).await?.pop() else {
            return Err(self.unknown(name).await);
        };
        let both = stored.code.zip(stored.wanted_code);
        Ok(both.map(|(accepted, wanted)| CodeChange::new(name, accepted, wanted)))
    }

    /// Says that the change of a code is meant: from here on workers with the new one run the consumer, from where it
    /// stands, and those with the old one run nothing of it. No batch of the old code commits after this. What it has
    /// written stays; to handle its events again, [replay](Self::replay) or [rebuild](crate::Rebuild) it.
    ///
    /// Workers of older versions know nothing of this, so as long as one runs the consumer it is refused.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
    /// use anabranch_runtime::Consumers;
    /// let consumers = Consumers::new(&log);
    /// if let Some(change) = consumers.code_change("order_summary").await? {
    ///     println!("{change}");
    ///     consumers.accept_code(&change).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn accept_code(&self, change: &CodeChange) -> Result<(), OperateError> {
        let CodeChange { consumer: name, accepted, wanted } = change;
        self.tables.database.require_newest_schema()?;
        let old = self.tables.workers_before_codes(name).await?;
        if !old.is_empty() {
            return Err(self.not_possible(name, Obstacle::OldWorkers { workers: old }));
        }
        let mut session = self.tables.database.control();
        // Whoever is about to commit does so before this, or not at all.
        self.tables.lock(session.as_mut(), name).await?;
        let mut statements = vec![self.tables.accept_code(name, accepted, wanted)];
        statements.extend(self.tables.fence_all(name));
        statements.push(Statement::signal(Topic::Workers));
        match session.run(statements, End::Commit).await {
            Ok(_) => Ok(()),
            Err(failed) if failed.is_unmatched() => {
                let accepted = accepted.clone();
                Err(self.not_possible(name, Obstacle::CodeChanged { accepted }))
            }
            Err(failed) => Err(self.tables.error(failed).into()),
        }
    }
}
