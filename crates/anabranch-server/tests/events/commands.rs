//! Commands to workflows over HTTP: a worker that has the code carries them out, and the answer comes back.

use crate::client::Server;
use crate::on_both;
use crate::support::{Db, start};
use anabranch::prelude::*;
use anabranch::workflow::{Workflow, Workflows};
use serde::{Deserialize, Serialize};
use serde_json::json;

on_both!(a_command_is_carried_out_once_and_answered);

struct Counters;

#[derive(Serialize, Deserialize)]
enum Command {
    Add(i64),
}

#[derive(Serialize, Deserialize)]
enum Counted {
    Added { amount: i64 },
}

#[derive(Debug)]
struct Negative;

impl std::fmt::Display for Negative {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it would be negative")
    }
}

impl std::error::Error for Negative {}

impl Workflow for Counters {
    type State = i64;
    type Command = Command;
    type Event = Counted;
    type Action = ();
    type Rejection = Negative;

    fn name(&self) -> &str {
        "counters"
    }

    fn decide(&self, sum: &i64, command: &Command) -> Result<Vec<Counted>, Negative> {
        let Command::Add(amount) = *command;
        if sum + amount < 0 { Err(Negative) } else { Ok(vec![Counted::Added { amount }]) }
    }

    fn evolve(&self, sum: &mut i64, event: &Counted) {
        let Counted::Added { amount } = event;
        *sum += amount;
    }
}

async fn a_command_is_carried_out_once_and_answered(db: Db) {
    let log = db.log().await;
    // The server has none of the code, and a handle of its own.
    let server = Server::start(&db.log().await).await;
    let client = server.anybody();
    let path = "/v1/workflows/counters/a/commands";
    let id = uuid::Uuid::now_v7();
    let add = json!({"command": {"Add": 9_007_199_254_740_993_i64}, "id": id}).to_string();
    let sent = client.post(path, add.as_str()).await;
    assert_eq!(sent.status, 202);
    let sent = sent.good();
    let again = client.post(path, add.as_str()).await.good();
    assert_eq!((&sent["is_new"], &again["is_new"]), (&true.into(), &false.into()));
    assert_eq!((&sent["id"], &sent["command_id"]), (&again["id"], &id.to_string().into()));
    let key = [("idempotency-key", "c1")];
    for is_new in [true, false] {
        let keyed = client.post_with(path, &key, r#"{"command": {"Add": 1}}"#).await.good();
        assert_eq!(keyed["is_new"], is_new);
    }
    let other = client.post_with(path, &key, r#"{"command": {"Add": 2}}"#).await;
    other.problem(409, "id_reused");
    // A key is of a request, and a request is of an instance: no two commands have one id.
    let elsewhere = "/v1/workflows/counters/b/commands";
    let mut ids = Vec::new();
    for path in [path, elsewhere] {
        let keyed = client.post_with(path, &key, r#"{"command": {"Add": 1}}"#).await.good();
        ids.push(keyed["command_id"].clone());
    }
    assert_ne!(ids[0], ids[1]);
    let counters = Workflows::new(&log, Counters);
    let worker = start(&log, ReplicaSet::new("s").workflow(&counters).lanes(1));
    let wait = async |sent: &serde_json::Value| {
        let path = format!("{}?seconds=60", sent["wait"].as_str().unwrap());
        client.get(&path).await.good()["result"].clone()
    };
    assert_eq!(wait(&sent).await, json!({"done": {"events": 1, "version": 1}}));
    let refused = client.post(path, r#"{"command": {"Add": -9999999999999999}}"#).await.good();
    assert_eq!(wait(&refused).await, json!({"rejected": {"why": "it would be negative"}}));
    let nonsense = client.post(path, r#"{"command": {"Subtract": 1}}"#).await.good();
    let why = wait(&nonsense).await["unreadable"]["why"].to_string();
    assert!(why.contains("Subtract"), "{why}");
    let state = counters.state("a").await.unwrap().unwrap();
    assert_eq!((state.version, state.state), (2, 9_007_199_254_740_994));
    worker.stop().await;
}
