//! The counts of tasks by pool and state, which triggers keep and metrics read.

use super::Tables;
use anabranch_store::database::Statement;
use anabranch_store::migration::since;

/// From how many rows on the counts of tasks are folded, and how many at a time.
const FEW: usize = 200;
const FOLDED: usize = 100_000;

impl Tables {
    /// Folds the changes of the counts of tasks into one row for each pool and state; nothing where one writes at a
    /// time, since there they are kept so, nor on older logs. Few are left as they are.
    ///
    /// Those who change tasks only add rows. Two that fold lock them in one order, and find those gone that the other
    /// has folded: so nobody waits in a circle, and no change is counted twice.
    pub(crate) fn fold_counts(&self) -> Option<Statement> {
        let has_counts = self.database.schema() >= since::WATCHING;
        if self.for_update.is_empty() || !has_counts {
            return None;
        }
        let (counts, lock) = (self.database.dialect().table("task_counts"), self.for_update);
        let fold = format!(
            "WITH old AS MATERIALIZED (SELECT id FROM {counts} \
             WHERE (SELECT count(*) FROM (SELECT 1 FROM {counts} LIMIT {FEW}) AS some_of_them) >= {FEW} \
             ORDER BY id LIMIT {FOLDED} {lock}), \
             gone AS (DELETE FROM {counts} WHERE id IN (SELECT id FROM old) RETURNING pool, state, delta) \
             INSERT INTO {counts} (pool, state, delta) \
             SELECT pool, state, sum(delta) FROM gone GROUP BY pool, state HAVING sum(delta) <> 0"
        );
        Some(Statement::new(fold, vec![]))
    }
}
