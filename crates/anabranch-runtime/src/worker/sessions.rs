//! What a worker must have before it claims anything: the sessions that it cannot do without.

use super::Plan;
use crate::replica_set::Progress;
use crate::run_error::RunError;
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_store::Backoff;
use std::pin::Pin;

/// Waits until the worker has the sessions that it cannot do without, unless it is stopped before that: says
/// whether it has them. Until then it owns nothing, and those who have them run everything.
pub(super) async fn secure(
    tables: &Tables,
    set: &str,
    mut stop: Pin<&mut (impl Future<Output = ()> + Send)>,
) -> Result<bool, StoreError> {
    let mut backoff = Backoff::default();
    loop {
        match tables.database.secure_sessions().await {
            Ok(()) => return Ok(true),
            Err(error @ StoreError::TooManyConnections { .. }) => {
                if backoff.complains() {
                    tracing::warn!(set, %error, "a worker waits for connections, and owns nothing yet");
                }
                tokio::select! {
                    () = &mut stop => return Ok(false),
                    () = tokio::time::sleep(backoff.wait()) => {}
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// It was told to stop before it had them.
pub(super) fn stopped(plan: &Plan) -> Result<Progress, RunError> {
    match plan.catch_up {
        true => {
            let problem = "it was stopped while it waited for connections, and has caught up with \
                           nothing; give it the connections that its log line names, and start it again";
            Err(RunError::Set { name: plan.name.clone(), problem: problem.to_owned() })
        }
        false => Ok(Progress { consumers: Vec::new(), has_ended: true }),
    }
}
