//! Workflows as a replica set runs them: reactions become tasks, tasks become commands and actions.
//!
//! | module | subject |
//! |---|---|
//! | `react` | what follows from an event, enqueued with the cursor that passes it |
//! | `hear` | what follows from events of others |
//! | `commands` | the pool that delivers commands: of reactions, timers and schedules |
//! | `overdue` | timers that came due while nobody ran |
//! | `actions` | the pool that runs actions, with their journal |
//! | `schedules` | sees to it that each schedule has a next time |
//! | `job` | what stands in a task |

mod actions;
mod commands;
mod hear;
mod job;
mod overdue;
mod react;
mod schedules;

pub(crate) use job::{is_sent, sent};

use crate::workflows::REMEDY;
use crate::{Workflow, Workflows};
use anabranch_runtime::ReplicaSet;
use anabranch_workpool::PoolSet;

/// Adds workflows to a replica set.
///
/// ```
/// # use anabranch_runtime::{ReplicaSet, RunError};
/// # use anabranch_workflow::{Workflow, WorkflowSet, Workflows};
/// # async fn f<W: Workflow>(log: anabranch_store::Log, orders: W) -> Result<(), RunError> {
/// let orders = Workflows::new(&log, orders);
/// ReplicaSet::new("orders").workflow(&orders).lanes(4).run(&log).await?;
/// # Ok(()) }
/// ```
pub trait WorkflowSet {
    /// Runs what follows from the events of a workflow: its reactions, actions, timers and schedules.
    ///
    /// Its consumers are `NAME.react`, `NAME.hear`, the pools `NAME.commands` and `NAME.actions`, and
    /// `NAME.schedules`; all are partitioned by the id of the instance.
    #[must_use]
    fn workflow<W: Workflow>(self, workflows: &Workflows<W>) -> Self;
}

impl WorkflowSet for ReplicaSet {
    fn workflow<W: Workflow>(self, workflows: &Workflows<W>) -> Self {
        let workflow = workflows.workflow();
        let mut set = self
            .in_one_database("a workflow", REMEDY)
            .projection(react::React::of(workflows))
            .outside_pool(commands::Commands::of(workflows))
            .outside_pool(actions::Actions::of(workflows));
        if let Some(scope) = workflow.hears() {
            set = set.projection(hear::Hear::of(workflows, scope));
        }
        if !workflow.schedules().is_empty() {
            set = set.rows(schedules::Schedules::of(workflows));
        }
        set
    }
}

/// The pool of a workflow's commands.
pub(crate) fn command_pool(workflow: &str) -> String {
    format!("{workflow}.commands")
}

/// The pool of a workflow's actions.
pub(crate) fn action_pool(workflow: &str) -> String {
    format!("{workflow}.actions")
}
