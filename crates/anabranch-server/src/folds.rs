//! Workflows whose code is in this program, by name: the states of their instances are folded from the events.

use crate::caller::Caller;
use crate::problem::Problem;
use crate::resources::InstanceState;
use anabranch::workflow::{Instance, LoadError, Workflow, Workflows};
use serde::Serialize;
use serde_json::value::to_raw_value;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The workflows whose code is here.
#[derive(Clone, Default)]
pub(crate) struct Folds(BTreeMap<String, Arc<dyn Fold>>);

impl Folds {
    pub(crate) fn add<W: Workflow>(&mut self, workflows: Workflows<W>) {
        self.0.insert(workflows.workflow().name().to_owned(), Arc::new(workflows));
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The code of a workflow, if it is here.
    pub(crate) fn of(&self, workflow: &str) -> Option<&dyn Fold> {
        self.0.get(workflow).map(AsRef::as_ref)
    }
}

type Folded<'a> = Pin<Box<dyn Future<Output = Result<Option<InstanceState>, Problem>> + Send + 'a>>;

/// A workflow of any type.
pub(crate) trait Fold: Send + Sync {
    /// The category of its streams, which need not be its name.
    fn category(&self) -> &str;

    /// The state of an instance: by its last event, or right after the event with this version.
    fn state<'a>(&'a self, caller: &'a Caller, id: &'a str, version: Option<u64>) -> Folded<'a>;
}

impl<W: Workflow> Fold for Workflows<W> {
    fn category(&self) -> &str {
        self.workflow().category()
    }

    fn state<'a>(&'a self, caller: &'a Caller, id: &'a str, version: Option<u64>) -> Folded<'a> {
        Box::pin(async move {
            let loaded = match version {
                None => Workflows::state(self, id).await,
                Some(version) => self.state_at(id, version).await,
            };
            let loaded = loaded.map_err(|error| unread(caller, error))?;
            Ok(loaded.map(|instance| shown(caller, &instance)).transpose()?)
        })
    }
}

fn shown<S: Serialize>(
    caller: &Caller,
    instance: &Instance<S>,
) -> Result<InstanceState, serde_json::Error> {
    let masked = caller.is_masked();
    let state = if masked { None } else { Some(to_raw_value(&instance.state)?) };
    let mode = instance.mode.name().to_owned();
    Ok(InstanceState { version: instance.version, mode, state, masked })
}

/// An event that cannot be read is quoted by the error, which a mask hides.
fn unread(caller: &Caller, error: LoadError) -> Problem {
    match &error {
        LoadError::Event { workflow, id, .. } if caller.is_masked() => {
            let id = id.escape_debug();
            let said = format!("workflow `{workflow}` cannot read an event of its instance `{id}`");
            Problem::new(error.code(), said)
        }
        _ => error.into(),
    }
}
