//! What events of a workflow carry besides their data, and the state that `react` sees.

use crate::on_both;
use crate::support::{Db, start, until};
use anabranch::prelude::*;
use anabranch::workflow::{ActionRun, EventInfo, Reactions, Workflow, Workflows};
use anabranch::workflow::{Kit, Reaction, SendError};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use uuid::Uuid;

on_both!(
    events_carry_what_the_workflow_says,
    a_repeated_command_is_found_beside_other_metadata,
    what_cannot_be_carried_is_refused_by_name,
    what_is_empty_is_refused_by_name,
    react_sees_the_state_right_after_its_event,
);

/// A subscription of a customer, renewed again and again. What it costs is in the state only.
#[derive(Clone, Default)]
struct Subscriptions {
    reserved: bool,
    /// The charges that were made: the state that `react` saw.
    charged: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Subscription {
    customer: String,
    renewals: u32,
}

#[derive(Clone, Serialize, Deserialize)]
enum Command {
    Open(String),
    Renew(u32),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Happened {
    Opened(String),
    Renewed,
}

#[derive(Debug, thiserror::Error)]
#[error("no")]
struct No;

impl Workflow for Subscriptions {
    type State = Subscription;
    type Command = Command;
    type Event = Happened;
    type Action = String;
    type Rejection = No;

    fn name(&self) -> &str {
        "subscriptions"
    }

    fn decide(&self, _: &Subscription, command: &Command) -> Result<Vec<Happened>, No> {
        Ok(match command {
            Command::Open(customer) => vec![Happened::Opened(customer.clone())],
            Command::Renew(times) => vec![Happened::Renewed; *times as usize],
        })
    }

    fn evolve(&self, state: &mut Subscription, event: &Happened) {
        match event {
            Happened::Opened(customer) => state.customer.clone_from(customer),
            Happened::Renewed => state.renewals += 1,
        }
    }

    fn describe(&self, id: &str, state: &Subscription, event: &Happened) -> EventInfo {
        let info = EventInfo::none()
            .customer(&state.customer)
            .tenant("acme")
            .correlation(format!("sub-{id}"))
            .tag(format!("subscription:{id}"))
            .metadata("renewals", state.renewals);
        match (event, self.reserved) {
            (Happened::Renewed, true) => info.metadata("command_events", 7),
            (Happened::Renewed, false) => info.tag("renewal"),
            (Happened::Opened(_), _) => info,
        }
    }

    fn react(&self, id: &str, state: &Subscription, event: &Happened) -> Reactions<Self> {
        let charge = || format!("{id}: {} owes for {}", state.customer, state.renewals);
        match event {
            Happened::Renewed => Reactions::none().action(charge()),
            Happened::Opened(_) => Reactions::none(),
        }
    }

    async fn act(&self, action: &String, _: &mut ActionRun<'_>) -> HandlerResult<Vec<Command>> {
        self.charged.lock().unwrap().push(action.clone());
        Ok(Vec::new())
    }
}

async fn events(log: &Log) -> Vec<Event> {
    log.read(Query::all()).collect().await.unwrap()
}

async fn events_carry_what_the_workflow_says(db: Db) {
    let log = db.log().await;
    let subscriptions = Workflows::new(&log, Subscriptions::default());
    subscriptions.send("7", Command::Open("cust-1".to_owned())).await.unwrap();
    subscriptions.send("7", Command::Renew(2)).await.unwrap();
    let events = events(&log).await;
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event.customer(), Some("cust-1"));
        assert_eq!(event.tenant(), Some("acme"));
        assert_eq!(event.correlation(), Some("sub-7"));
        assert!(event.causation().is_some(), "the command");
        assert_eq!(event.metadata_json(), Some(format!("{{\"renewals\":{number}}}").as_str()));
    }
    let renewals = log.read(Query::tags(["subscription:7", "renewal"])).collect().await.unwrap();
    assert_eq!(renewals.len(), 2);
    let slot = Partition::customer().slot(&events[0], log.hash_rule());
    assert_eq!(slot, log.hash_rule().slot("cust-1"));
}

async fn a_repeated_command_is_found_beside_other_metadata(db: Db) {
    let log = db.log().await;
    let subscriptions = Workflows::new(&log, Subscriptions::default());
    let id = Uuid::now_v7();
    subscriptions.send("7", Command::Open("cust-1".to_owned())).await.unwrap();
    for repeated in [false, true, true] {
        let sent = subscriptions.send_as(id, "7", Command::Renew(3)).await.unwrap();
        assert_eq!((sent.version, sent.events, sent.repeated), (4, 3, repeated));
    }
    let events = events(&log).await;
    let metadata = events[1].metadata_json().unwrap();
    let metadata: serde_json::Value = serde_json::from_str(metadata).unwrap();
    assert_eq!(metadata, serde_json::json!({ "command_events": 3, "renewals": 1 }));
    assert_eq!(events.len(), 4);
}

async fn what_cannot_be_carried_is_refused_by_name(db: Db) {
    let log = db.log().await;
    let reserved = Subscriptions { reserved: true, ..Subscriptions::default() };
    let subscriptions = Workflows::new(&log, reserved);
    let error = subscriptions.send("7", Command::Renew(1)).await.unwrap_err();
    assert!(matches!(error, SendError::Unwritable { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("`Renewed`: the field `command_events` of its metadata"), "{said}");
    assert!(events(&log).await.is_empty());
}

/// `describe` sees the state after each event, and before the first that names a customer there is none.
async fn what_is_empty_is_refused_by_name(db: Db) {
    let log = db.log().await;
    let subscriptions = Workflows::new(&log, Subscriptions::default());
    let error = subscriptions.send("7", Command::Renew(1)).await.unwrap_err();
    assert!(matches!(error, SendError::Unwritable { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("`Renewed`: its customer, by `describe`, is empty"), "{said}");
    assert!(said.contains("`None`"), "{said}");
    assert!(events(&log).await.is_empty());
}

async fn react_sees_the_state_right_after_its_event(db: Db) {
    let log = db.log().await;
    let workflow = Subscriptions::default();
    let subscriptions = Workflows::new(&log, workflow.clone());
    let owes = |id: &str, count| format!("{id}: cust-{id} owes for {count}");
    let mut expected = Vec::new();
    for id in ["1", "2"] {
        subscriptions.send(id, Command::Open(format!("cust-{id}"))).await.unwrap();
    }
    for round in 0..3 {
        // All are there before anybody reacts, and whoever does has not seen the earlier ones.
        for id in ["1", "2"] {
            subscriptions.send(id, Command::Renew(2)).await.unwrap();
            subscriptions.send(id, Command::Renew(1)).await.unwrap();
            expected.extend((1..=3).map(|number| owes(id, round * 3 + number)));
        }
        let here = Workflows::new(&log, workflow.clone());
        let worker = start(&log, ReplicaSet::new("subscriptions").workflow(&here).lanes(2));
        let charged = || workflow.charged.lock().unwrap().clone();
        until("all charges", async || (charged().len() == expected.len()).then_some(())).await;
        let mut charged = charged();
        charged.sort_unstable();
        expected.sort_unstable();
        assert_eq!(charged, expected);
        worker.stop().await;
    }
    // The kit and a what-if show it the same state.
    let charge = |what: &anabranch::workflow::WhatIf<Subscriptions>| {
        let actions = what.reactions.iter().filter_map(|reaction| match reaction {
            Reaction::Action(action) => Some(action.clone()),
            _ => None,
        });
        actions.collect::<Vec<_>>()
    };
    let imagined = subscriptions.what_if("1", [Command::Renew(2)]).await.unwrap();
    assert_eq!(charge(&imagined[0]), [owes("1", 10), owes("1", 11)]);
    let kit = Kit::new(workflow).with_id("1").given([Happened::Opened("cust-1".to_owned())]);
    kit.when(Command::Renew(2)).then_actions([owes("1", 1), owes("1", 2)]);
}
