//! What each operation would do, counted. Nothing here changes anything.

#[cfg(feature = "webhook")]
mod deliveries;
mod many;

#[cfg(feature = "webhook")]
pub(crate) use deliveries::delivery_filter;

use crate::basis::{Basis, Bound};
use crate::operation_error::OperationError;
use crate::operations::{Looked, Operations};
use crate::plan::Effect;
use crate::request::{Begin, Request};
use anabranch_core::Position;
use anabranch_runtime::{ConsumerStatus, Fingerprint, Reason, Rebuild};
use std::collections::BTreeSet;

/// The kind of consumer whose hook undoes what is handled again.
const PROJECTION: &str = "projection";

impl Looked {
    /// About one thing.
    pub(crate) fn one(consumers: Vec<Fingerprint>, bound: Bound, effect: Effect) -> Self {
        Self { basis: Basis { consumers, set: None, bound }, effect, total: 1 }
    }
}

impl Operations {
    pub(crate) async fn look_at(&self, request: &Request) -> Result<Looked, OperationError> {
        match request {
            Request::Pause { consumer } => self.pause(consumer).await,
            Request::Resume { consumer } => self.resume(consumer).await,
            Request::Replay { consumer, from, accept_missing, new_ids } => {
                self.replay(consumer, *from, *accept_missing, *new_ids).await
            }
            Request::ReplayKey { consumer, key, accept_missing } => {
                self.replay_key(consumer, key, *accept_missing).await
            }
            #[cfg(feature = "webhook")]
            Request::Resend { consumer, filter, .. } => {
                self.resend(request, consumer, filter).await
            }
            #[cfg(not(feature = "webhook"))]
            Request::Resend { .. } => Err(OperationError::NoWebhooks),
            Request::Rebalance { replica_set } => self.rebalance(replica_set).await,
            Request::SkipToHead { consumer } => self.skip(consumer).await,
            Request::Parked { consumer, action, filter, .. } => {
                self.parked(request, consumer, *action, filter).await
            }
            Request::Tasks { action, state, conditions, .. } => {
                self.tasks(request, *action, *state, conditions).await
            }
            Request::Task { action, id, force } => self.task(*action, *id, *force).await,
            Request::PauseKey { pool, key } => {
                let says = format!(
                    "nothing of `{key}` in pool `{pool}` would be run until it is resumed; what runs at this moment \
                     is finished"
                );
                self.key(pool, says).await
            }
            Request::ResumeKey { pool, key } => {
                self.key(pool, format!("`{key}` of pool `{pool}` would not be paused any more"))
                    .await
            }
            Request::SwitchRebuild { consumer, tables } => self.switch(consumer, tables).await,
            Request::Forget { consumer } => self.forget(consumer).await,
        }
    }

    async fn known(
        &self,
        consumer: &str,
    ) -> Result<(ConsumerStatus, Vec<Fingerprint>), OperationError> {
        // The fingerprint first: what changes in between is found when the plan is applied.
        let fingerprint = self.consumers.fingerprint(consumer).await?;
        Ok((self.consumers.status(consumer).await?, vec![fingerprint]))
    }

    async fn pause(&self, name: &str) -> Result<Looked, OperationError> {
        let (status, known) = self.known(name).await?;
        let workers = workers(&status);
        let says = match (status.paused, workers) {
            (true, _) => format!("`{name}` is paused already; nothing would change"),
            (_, 0) => {
                format!("`{name}` would stand still until it is resumed; no worker runs it now")
            }
            (_, workers) => format!(
                "`{name}` would stand still until it is resumed: {} their batches and wait",
                counted(workers, "worker finishes", "workers finish")
            ),
        };
        let effect = Effect::new(says).count("workers", workers).count("lag", status.lag);
        Ok(Looked::one(known, Bound::None, effect))
    }

    async fn resume(&self, name: &str) -> Result<Looked, OperationError> {
        let (status, known) = self.known(name).await?;
        let waits = |reason: &&Reason| {
            matches!(reason, Reason::WoundBack { .. } | Reason::BeyondLog { .. })
        };
        let reasons = status.cursors.iter().flat_map(|cursor| &cursor.reasons);
        let decision = reasons.clone().find(waits);
        let says = match (decision, status.paused, &status.outage) {
            (Some(reason), ..) => format!(
                "`{name}` would not go on by that: {reason} (`anabranch replay {name} --from-start`, `anabranch \
                 skip-to-head {name}`)"
            ),
            (None, false, None) => {
                format!("`{name}` is neither paused nor stopped; nothing would change")
            }
            // Not what its handler said: that may quote events, and a plan is read by those who may not.
            (None, _, Some(outage)) => format!(
                "`{name}` would be tried again at once; it has stopped by itself {} s ago",
                outage.for_ms.div_ceil(1000)
            ),
            (None, true, None) => format!(
                "`{name}` would go on, with {}",
                counted(status.lag_ready, "event to do", "events to do")
            ),
        };
        let effect = Effect::new(says).count("workers", workers(&status)).count("lag", status.lag);
        Ok(Looked::one(known, Bound::None, effect))
    }

    async fn replay(
        &self,
        name: &str,
        from: Begin,
        accept_missing: bool,
        new_ids: bool,
    ) -> Result<Looked, OperationError> {
        let (status, known) = self.known(name).await?;
        let is_webhook = status.kind == "webhook";
        if new_ids && !is_webhook {
            let (consumer, kind) = (name.to_owned(), status.kind);
            return Err(OperationError::NoIds { consumer, kind });
        }
        let to = self.consumers.replay_position(name, from.replay_from(), accept_missing).await?;
        let again = status.position.get().saturating_sub(to.get());
        let position = status.position;
        let says = match (is_webhook, is_of_other_log(&status)) {
            (_, true) => format!(
                "this is another log than the one of which `{name}` has handled the events up to position {position}; \
                 it would begin with this one, and belong to it"
            ),
            (true, _) => format!(
                "`{name}` is a webhook: every event after position {to}, up to position {position}, is sent to its \
                 endpoint again, {}",
                if new_ids { "under new ids" } else { "under the same ids" }
            ),
            (false, _) => format!(
                "`{name}` would handle its events after position {to} again, up to position {position}: at most {}",
                counted(again, "event", "events")
            ),
        };
        let parked = (status.parked_keys + status.retrying_keys) as u64;
        let mut effect =
            Effect::new(says)
                .count("events", again)
                .count("keys", parked)
                .note((parked > 0).then(|| {
                    format!(
                        "{} handled again with the others",
                        counted(parked, "key that has failed is", "keys that have failed are")
                    )
                }))
                .note((status.kind == PROJECTION && to > Position::START).then(|| {
                    format!(
                        "whether its `reset` can undo a part only its workers know: if it cannot, they refuse, \
                         `anabranch status {name}` says so, and it goes on where it stood"
                    )
                }))
                .note((!status.is_run()).then(|| {
                    "no worker runs it now, so the next one that does will do it".to_owned()
                }));
        // What its hook takes back comes again; what an endpoint was sent does not come back.
        effect.is_final = is_webhook || accept_missing || is_of_other_log(&status);
        Ok(Looked::one(known, Bound::ReplayAfter(to), effect))
    }

    async fn replay_key(
        &self,
        name: &str,
        key: &str,
        accept_missing: bool,
    ) -> Result<Looked, OperationError> {
        let (status, known) = self.known(name).await?;
        self.consumers.can_replay_key(name, key, accept_missing).await?;
        let says = match &*status.kind {
            "webhook" | "subscriber" => format!(
                "every event of `{key}` would be delivered again by `{name}`, from the first on and under the same ids; its \
                 later events wait meanwhile"
            ),
            _ => format!(
                "`{name}` would undo what it made of `{key}` and handle all its events again, from the first on; its later \
                 events wait meanwhile, and other keys go on"
            ),
        };
        let mut effect = Effect::new(says).count("keys", 1).note(
            (!status.is_run())
                .then(|| "no worker runs it now, so the next one that does will do it".to_owned()),
        );
        effect.first = vec![key.to_owned()];
        effect.is_final = accept_missing || status.kind == "webhook";
        Ok(Looked::one(known, Bound::None, effect))
    }

    async fn rebalance(&self, set: &str) -> Result<Looked, OperationError> {
        let preview = self.consumers.rebalance_preview(set).await?;
        let slots: usize = preview.moves.iter().map(|one| one.slots).sum();
        let says = match slots {
            0 => format!(
                "no slot of `{set}` would move: its load is even enough, or not measured yet"
            ),
            slots => format!(
                "{} of `{set}` would move, and nothing else would pause",
                counted(slots as u64, "slot", "slots")
            ),
        };
        let unmeasured = preview.unmeasured.len() as u64;
        let mut effect =
            Effect::new(says).count("slots", slots as u64).note((unmeasured > 0).then(|| {
                format!(
                    "{} not measured the load of their slots yet: {}",
                    counted(unmeasured, "worker has", "workers have"),
                    preview.unmeasured.join(", ")
                )
            }));
        let nobody = || "nobody".to_owned();
        let moves = preview.moves.iter().take(10).map(|one| {
            let (from, to) = (one.from.clone().unwrap_or_else(nobody), one.to.clone());
            format!("{} from {from} to {}", one.slots, to.unwrap_or_else(nobody))
        });
        effect.first = moves.collect();
        let mut looked = Looked::one(Vec::new(), Bound::None, effect);
        looked.basis.set = Some((set.to_owned(), preview.generation));
        Ok(looked)
    }

    async fn skip(&self, name: &str) -> Result<Looked, OperationError> {
        let (status, known) = self.known(name).await?;
        let head = status.head;
        let failed = (status.parked_keys + status.retrying_keys) as u64;
        let (keys, position) = (counted(failed, "failed key", "failed keys"), status.position);
        let says = match beyond(&status) {
            Some(drawn) => format!(
                "`{name}` stands at position {position}, beyond {drawn}, the last one that the log has ever drawn; it \
                 would go back to {head} and never handle the events that are there now, nor those of its {keys}"
            ),
            None if is_of_other_log(&status) => format!(
                "this is another log than the one of which `{name}` has handled the events up to position {position}; \
                 it would go on at the end of this one, and belong to it"
            ),
            None if status.lag == 0 && failed == 0 => {
                format!(
                    "`{name}` has handled everything up to {head}: there is nothing to leave out"
                )
            }
            None => format!(
                "`{name}` would never handle its events after position {position} up to {head}, nor those of its {keys}"
            ),
        };
        let mut effect = Effect::new(says).count("events", status.lag).count("keys", failed);
        effect.is_final = true;
        Ok(Looked::one(known, Bound::SkipUpTo(head), effect))
    }

    pub(crate) fn rebuild(&self, name: &str, tables: &[String]) -> Rebuild {
        if tables.is_empty() {
            return Rebuild::for_view(&self.log, name);
        }
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        Rebuild::new(&self.log, name, &tables)
    }

    async fn switch(&self, name: &str, tables: &[String]) -> Result<Looked, OperationError> {
        let preview = self.rebuild(name, tables).preview().await?;
        let mut known = Vec::new();
        for name in [name.to_owned(), format!("{name}.next")] {
            known.push(self.consumers.fingerprint(&name).await?);
        }
        let (new, old) = (&preview.new, &preview.old);
        let says = format!(
            "version {} of `{name}` would take the place of version {}",
            new.version, old.version
        );
        let mut effect = Effect::new(says)
            .count("tables", preview.columns.len() as u64)
            .count("old_workers", old.workers.len() as u64)
            .count("new_workers", new.workers.len() as u64)
            .note(
                "the old tables are kept, with _old in their names, until the next switch"
                    .to_owned(),
            );
        effect.first = preview.columns.iter().map(|(table, _)| table.clone()).take(10).collect();
        effect.is_final = true;
        Ok(Looked::one(known, Bound::None, effect))
    }

    async fn forget(&self, name: &str) -> Result<Looked, OperationError> {
        let (status, known) = self.known(name).await?;
        if status.is_run() {
            return Err(OperationError::StillRunning { consumer: name.to_owned() });
        }
        let failed = (status.parked_keys + status.retrying_keys) as u64;
        let says = format!(
            "how far `{name}` is (position {}) and its {} would be gone, and it would begin anew if it ran again",
            status.position,
            counted(failed, "failed key", "failed keys")
        );
        let mut effect = Effect::new(says).count("keys", failed);
        effect.is_final = true;
        Ok(Looked::one(known, Bound::None, effect))
    }
}

/// How many living workers own slots of a consumer.
fn workers(status: &ConsumerStatus) -> u64 {
    let own = status.runners.iter().filter(|runner| runner.slots > 0);
    own.map(|runner| &runner.worker).collect::<BTreeSet<_>>().len() as u64
}

fn is_of_other_log(status: &ConsumerStatus) -> bool {
    let mut reasons = status.cursors.iter().flat_map(|cursor| &cursor.reasons);
    reasons.any(|reason| matches!(reason, Reason::OtherLog { .. }))
}

/// The last position that the log has ever drawn, if a consumer stands beyond it.
fn beyond(status: &ConsumerStatus) -> Option<Position> {
    let mut reasons = status.cursors.iter().flat_map(|cursor| &cursor.reasons);
    reasons.find_map(|reason| match reason {
        Reason::BeyondLog { drawn } => Some(*drawn),
        _ => None,
    })
}

pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
