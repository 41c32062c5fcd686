//! What a worker must have to run anything: the sessions that it cannot do without. It claims nothing before
//! it has them, and gives back what it could not open a session for within a lease.

use super::start::Patience;
use super::{Keeper, Plan};
use crate::lane::Order;
use crate::replica_set::Progress;
use crate::run_error::RunError;
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_store::Backoff;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// What the reason begins with why it cannot run a consumer.
const NO_SESSION: &str = "it has no session for its lanes: ";

/// The longest pause between two tries: while one tries it takes what another could run with.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// Whether the worker has sessions for its lanes.
#[derive(Default)]
pub(super) struct Sessions {
    /// Since when it has none.
    none_since: Option<Instant>,
    /// When it last said that it can run what it runs, or cannot.
    said: Option<Instant>,
}

/// Waits until the worker has the sessions that it cannot do without, unless it is stopped before that: says
/// whether it has them. Until then it owns nothing, and those who have them run everything.
pub(super) async fn secure(
    tables: &Tables,
    set: &str,
    mut stop: Pin<&mut (impl Future<Output = ()> + Send)>,
) -> Result<bool, RunError> {
    let (mut backoff, mut patience) = (Backoff::default(), Patience::new());
    loop {
        let secured = tokio::select! {
            () = &mut stop => return Ok(false),
            secured = tables.database.secure_sessions() => secured,
        };
        match secured {
            Ok(()) => return Ok(true),
            // It has given back what it had meanwhile, so that somebody gets all that it needs.
            Err(error @ (StoreError::TooManyConnections { .. } | StoreError::NoSession { .. })) => {
                if backoff.complains() {
                    tracing::warn!(set, %error, "a worker waits for connections, and owns nothing yet");
                }
                tokio::select! {
                    () = &mut stop => return Ok(false),
                    () = tokio::time::sleep(backoff.wait_up_to(LONGEST_PAUSE)) => {}
                }
            }
            // One that is cut may be there the next time.
            Err(error) => patience.wait_out(error.into()).await?,
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

impl Keeper {
    /// Gives back what it could not open a session for within a lease, and says so when it can run it again.
    /// It says neither before a lease has passed since the last time, so that slots do not bounce.
    pub(super) async fn look_after_sessions(&mut self) -> Result<(), RunError> {
        let lease = self.plan.tuning.lease;
        let is_unable = self.running.iter().any(|run| lacks_session(run.unable.as_deref()));
        let may_say = self.sessions.said.is_none_or(|said| said.elapsed() >= lease);
        let shortage = self.tables.database.shortage().filter(|shortage| shortage.open == 0);
        let unable = match (is_unable, shortage) {
            // Nobody else asks for one now.
            (true, _) => match self.tables.database.secure_sessions().await {
                Ok(()) => None,
                Err(_) => return Ok(()),
            },
            (false, Some(shortage)) => {
                let since = *self.sessions.none_since.get_or_insert_with(Instant::now);
                if since.elapsed() < lease {
                    return Ok(());
                }
                Some(format!("{NO_SESSION}{}", shortage.error))
            }
            (false, None) => {
                self.sessions.none_since = None;
                return Ok(());
            }
        };
        if !may_say {
            return Ok(());
        }
        self.sessions = Sessions { none_since: None, said: Some(Instant::now()) };
        for number in 0..self.running.len() {
            // A reason that is not ours is not ours to end.
            let known = self.running[number].unable.as_deref();
            if known.is_some() && !lacks_session(known) {
                continue;
            }
            match self.set_able_by_session(number, unable.clone()).await {
                Err(RunError::Store(error)) if error.is_transient() => {
                    tracing::warn!(%error, "cannot say what it can run yet");
                    self.sessions.said = None;
                    return Ok(());
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Says it, and releases what its lanes cannot: they have no session to do it with.
    async fn set_able_by_session(
        &mut self,
        number: usize,
        unable: Option<String>,
    ) -> Result<(), RunError> {
        let is_unable = unable.is_some();
        self.set_able(number, unable).await?;
        if is_unable {
            let running = &mut self.running[number];
            self.tables.release(&running.consumer.name, &self.worker.id).await?;
            // What they are in the middle of is fenced.
            running.tell_all(|_| Order::Forget);
        }
        Ok(())
    }
}

fn lacks_session(unable: Option<&str>) -> bool {
    unable.is_some_and(|why| why.starts_with(NO_SESSION))
}
