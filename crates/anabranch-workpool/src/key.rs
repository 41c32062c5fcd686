//! What there is of one key: for somebody who asks why it does not go on.

use crate::task::TaskStatus;
use crate::task_error::TaskError;
use crate::tasks::Tasks;
use anabranch_core::StoreError;
use anabranch_store::database::column;
use serde::Serialize;

/// What of a key has not ended, or is dead.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct KeyTasks {
    /// How many tasks they are.
    pub tasks: u64,
    /// The first of them: the others wait behind it.
    pub first: Option<TaskStatus>,
    /// Whether somebody has paused the key.
    pub is_paused: bool,
}

impl Tasks {
    /// What of a key has not ended, or is dead: the first of these, and how many they are.
    ///
    /// ```
    /// # use anabranch_workpool::{TaskError, Tasks};
    /// # async fn f(payouts: Tasks) -> Result<(), TaskError> {
    /// let of_key = payouts.of_key("account-7").await?;
    /// if let Some(first) = of_key.first {
    ///     println!("{} of {} tasks: {}", first.state, of_key.tasks, first.error.unwrap_or_default());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn of_key(&self, key: &str) -> Result<KeyTasks, TaskError> {
        let statements = vec![
            self.tables.unfinished_of_key(self.pool(), key, 1),
            self.tables.count_of_key(self.pool(), key),
        ];
        let answers = self.run(statements).await?;
        let at = self.database.at();
        let [first, counts] = &answers[..] else {
            let what = "two statements without two answers".to_owned();
            return Err(StoreError::Corrupt { at: at.to_owned(), what }.into());
        };
        let first = first.rows.first().map(|row| self.tables.task_status(at, row)).transpose()?;
        let count = |name: &str| -> Result<u64, StoreError> {
            counts.rows.first().map_or(Ok(0), |row| column(at, row, name))
        };
        Ok(KeyTasks { tasks: count("tasks")?, first, is_paused: count("paused")? > 0 })
    }
}
