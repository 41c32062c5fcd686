//! The turn of whoever carries out a plan step by step: kept while a step takes long, so that nobody else begins the
//! same step.

use crate::operations::Operations;
use crate::tables::TURN;
use anabranch_store::database::End;
use tokio::sync::oneshot;
use tokio::time::timeout;
use uuid::Uuid;

/// Keeps the turn at a plan until it is dropped.
pub(crate) struct Turn {
    _over: oneshot::Sender<()>,
}

impl Turn {
    /// Keeps it for the call that has it.
    pub(crate) fn keep(operations: &Operations, plan: Uuid, runner: &str) -> Self {
        let (over, mut is_over) = oneshot::channel();
        let (tables, runner) = (operations.tables.clone(), runner.to_owned());
        // A task of its own: the step that takes long may be what its caller waits for. It ends between two
        // statements, never within one, which would close the session.
        tokio::spawn(async move {
            while timeout(TURN / 3, &mut is_over).await.is_err() {
                // Not on the session for control, of which there is one, and which the step may hold. On SQLite it waits
                // for the step to end, and so does whoever would take the turn.
                let mut session = tables.database.begin();
                let kept = session.run(vec![tables.kept(plan, &runner)], End::Commit).await;
                // Somebody has cancelled the plan, or has taken it up. A database that is away is asked again.
                if kept.is_err_and(|failed| failed.is_unmatched()) {
                    return;
                }
            }
        });
        Self { _over: over }
    }
}
