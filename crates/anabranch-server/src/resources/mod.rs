//! What there is to look at besides events: consumers, slots, workers, tasks, deliveries, batches, workflows.
//!
//! Nothing here changes anything. Counts come from cursors and counters.
//!
//! | module | subject |
//! |---|---|
//! | `consumers` | the state of consumers, slot by slot |
//! | `narrow` | what masked and limited tokens see of consumers |
//! | `explain` | why a key is not moving |
//! | `parked` | keys that have been set aside |
//! | `alike` | the same, grouped by what their errors have in common |
//! | `rebuild` | how the new version of a projection differs from the old one |
//! | `fleet` | workers, replica sets, generations |
//! | `tasks` | pools and tasks |
//! | `deliveries` | what webhooks have sent |
//! | `batches` | jobs of batch records, and rows of them that have failed |
//! | `workflows` | states of workflows: folded where the code is, and as they were kept last |

mod alike;
mod batches;
mod consumers;
mod deliveries;
mod explain;
mod fleet;
mod narrow;
mod parked;
mod rebuild;
mod tasks;
mod workflows;

pub(crate) use workflows::InstanceState;

use crate::routes::{Needs, Route};
use crate::scope::Scope;

/// Who may look at them.
const READ: Needs = Needs::Scope(Scope::ReadMasked);

pub(crate) fn routes() -> Vec<Route> {
    let mut all = consumers::routes();
    all.extend(explain::routes());
    all.extend(parked::routes());
    all.extend(alike::routes());
    all.extend(rebuild::routes());
    all.extend(fleet::routes());
    all.extend(tasks::routes());
    all.extend(deliveries::routes());
    all.extend(batches::routes());
    all.extend(workflows::routes());
    all
}
