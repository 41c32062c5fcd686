//! What a worker must have to run anything: the sessions that it cannot do without. It claims nothing before
//! it has them, and gives back what it could not open a session for within a lease.

use super::start::Patience;
use super::{Keeper, Plan};
use crate::replica_set::Progress;
use crate::run_error::RunError;
use crate::tables::Tables;
use anabranch_core::engine_event::OutageOf;
use anabranch_core::{Happening, Notice, StoreError};
use anabranch_store::Backoff;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// How long it takes to open sessions with a server that has room.
const MOMENT: Duration = Duration::from_secs(2);

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
    mut stop: Pin<&mut (impl Future<Output = ()> + Send)>,
) -> Result<bool, RunError> {
    let (mut backoff, mut patience) = (Backoff::default(), Patience::new());
    loop {
        // Most of the time they are there in a moment; one that is told to stop meanwhile leaves as others do.
        let stopped = async {
            tokio::time::sleep(MOMENT).await;
            stop.as_mut().await;
        };
        let secured = tokio::select! {
            () = stopped => return Ok(false),
            secured = tables.database.secure_sessions() => secured,
        };
        match secured {
            Ok(()) => {
                tables.events.outage_over(&mut backoff, OutageOf::Connections);
                patience.end(&tables.events);
                return Ok(true);
            }
            // It has given back what it had meanwhile, so that somebody gets all that it needs.
            Err(error @ (StoreError::TooManyConnections { .. } | StoreError::NoSession { .. })) => {
                tables.events.outage(&mut backoff, OutageOf::Connections, &error);
                tokio::select! {
                    () = &mut stop => return Ok(false),
                    () = tokio::time::sleep(backoff.wait_up_to(LONGEST_PAUSE)) => {}
                }
            }
            // One that is cut may be there the next time.
            Err(error) => patience.wait_out(&tables.events, error.into()).await?,
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
        if let Some(lacks) = self.has_turned().await {
            self.sessions = Sessions { none_since: None, said: Some(Instant::now()) };
            for running in &mut self.running {
                running.must_release = lacks.is_some();
                running.lacks_session.clone_from(&lacks);
            }
        }
        for number in 0..self.running.len() {
            self.say_able(number).await?;
            self.give_back(number).await?;
        }
        Ok(())
    }

    /// Why it has no session from now on, or that it has one; nothing if that is as before, or is not to be
    /// said yet.
    async fn has_turned(&mut self) -> Option<Option<String>> {
        let lease = self.plan.tuning.lease;
        let may_say = self.sessions.said.is_none_or(|said| said.elapsed() >= lease);
        if self.running.iter().any(|running| running.lacks_session.is_some()) {
            // Nobody else asks for one now.
            let secured = self.tables.database.secure_sessions().await;
            return (secured.is_ok() && may_say).then_some(None);
        }
        let shortage = self.tables.database.shortage().filter(|shortage| shortage.open == 0);
        let Some(shortage) = shortage else {
            self.sessions.none_since = None;
            return None;
        };
        let since = *self.sessions.none_since.get_or_insert_with(Instant::now);
        (since.elapsed() >= lease && may_say).then(|| Some(shortage.error.to_string()))
    }

    /// Releases what its lanes cannot, until that is done: they have no session to do it with. Not before
    /// others know, or this worker would claim it again.
    async fn give_back(&mut self, number: usize) -> Result<(), RunError> {
        let running = &mut self.running[number];
        if !running.must_release || running.unable.is_none() {
            return Ok(());
        }
        match self.tables.release(&running.consumer.name, &self.worker.id).await {
            Ok(()) => {
                running.must_release = false;
                // What they are in the middle of is fenced.
                running.forget_all();
                Ok(())
            }
            Err(error) if error.is_worth_waiting() => {
                let events = self.tables.events.of(&running.consumer.name);
                events.emit(Happening::failed(Notice::CannotGiveBack, &error));
                Ok(())
            }
            Err(error) => self.is_broken(number, error.into()),
        }
    }
}
