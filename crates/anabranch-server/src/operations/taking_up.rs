//! Going on with plans that a server has begun to carry out and left, since its process ended.

use super::applying::{NoPlace, carry_out};
use crate::state::State as Server;
use anabranch::operations::{By, Operations};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often to look for what was left.
const LOOK: Duration = Duration::from_secs(10);
/// By which ways a plan is applied that is a server's to go on with. What a command has left is its user's.
const OURS: [&str; 2] = ["api", "console"];

/// Goes on with what servers have left, for as long as the API is there.
pub(crate) async fn take_up(state: Weak<Server>) {
    loop {
        match state.upgrade() {
            Some(state) => look(&state).await,
            None => return,
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn look(state: &Arc<Server>) {
    let operations = Operations::new(&state.log, By::new("a server", "api"));
    // A log that is older than plans has none, and one that is away is asked again.
    let Ok(left) = operations.abandoned(&OURS).await else { return };
    for plan in left {
        let (Some(who), Some(via)) = (&plan.applied_by, &plan.applied_via) else { continue };
        match state.applying.begin(plan.id) {
            // In the name of whoever applies it, as the journal has it from its beginning.
            Ok(place) => drop(carry_out(operations.by(By::new(who, via)), plan.id, Some(place))),
            Err(NoPlace::Running(_)) => {}
            Err(NoPlace::Full) => return,
        }
    }
}
