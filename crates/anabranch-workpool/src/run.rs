//! A task of an outside pool while it runs: checkpoints on the way, and what is to follow.

use crate::new_task::NewTask;
use anabranch_core::ErrorCode;
use anabranch_runtime::{HandlerError, HandlerResult};
use anabranch_store::trace;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// A task of an [`OutsidePool`](crate::OutsidePool) while it runs.
#[derive(Debug)]
pub struct Run {
    pub(crate) task: Uuid,
    pub(crate) checkpoint: Option<String>,
    pub(crate) saves: mpsc::Sender<Save>,
    pub(crate) then: Vec<(String, NewTask)>,
}

/// A checkpoint on its way.
#[derive(Debug)]
pub(crate) struct Save {
    pub(crate) task: Uuid,
    pub(crate) checkpoint: String,
    pub(crate) saved: oneshot::Sender<()>,
}

impl Run {
    /// What the task saved last, in this attempt or an earlier one.
    pub fn checkpoint<T: DeserializeOwned>(&self) -> HandlerResult<Option<T>> {
        Ok(self.checkpoint.as_deref().map(serde_json::from_str).transpose()?)
    }

    /// The same as JSON text.
    #[must_use]
    pub fn checkpoint_json(&self) -> Option<&str> {
        self.checkpoint.as_deref()
    }

    /// Saves how far the task is. Once this returns, an attempt that begins after a crash finds it by
    /// [`checkpoint`](Self::checkpoint). It fails if the task is not this process's any more: stop then.
    pub async fn save(&mut self, checkpoint: &impl Serialize) -> HandlerResult {
        self.save_json(serde_json::to_string(checkpoint)?).await
    }

    /// [`save`](Self::save) of JSON text.
    pub async fn save_json(&mut self, json: String) -> HandlerResult {
        let (saved, done) = oneshot::channel();
        let save = Save { task: self.task, checkpoint: json.clone(), saved };
        let gone = || {
            let said = "the task was cancelled, or has another owner by now";
            HandlerError::with_code(ErrorCode::TaskLost, said)
        };
        self.saves.send(save).await.map_err(|_| gone())?;
        done.await.map_err(|_| gone())?;
        self.checkpoint = Some(json);
        Ok(())
    }

    /// Enqueues a task of some pool in the transaction that stores the end of this one, if it succeeds.
    pub fn then(&mut self, pool: impl Into<String>, task: NewTask) {
        self.then.push((pool.into(), task.carried_by(trace::current())));
    }
}
