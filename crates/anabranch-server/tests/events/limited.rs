//! Tokens: what scopes, masks and limits keep from whom, on the routes of events and work.

use crate::client::Server;
use crate::on_both;
use crate::support::Db;
use anabranch::prelude::*;
use anabranch::workpool::Tasks;
use anabranch_server::{NewToken, Scope};
use serde_json::json;
use std::collections::BTreeSet;

on_both!(
    scopes_are_kept_apart,
    a_mask_hides_bodies_and_nothing_else,
    who_is_limited_to_tenants_sees_and_appends_only_theirs,
    who_is_limited_to_consumers_reaches_no_other_pool,
);

const ONE: &str =
    r#"{"events": [{"type": "A", "data": "secret", "metadata": {"by": "lovelace"}}]}"#;
const TASK: &str = r#"{"key": "k", "payload": 1}"#;

async fn scopes_are_kept_apart(db: Db) {
    let server = Server::start(&db.log().await).await;
    let appends = server.with_scopes(&[Scope::Append]).await;
    let reads = server.with_scopes(&[Scope::Read]).await;
    appends.post("/v1/streams/Order/1", ONE).await.good();
    reads.get("/v1/streams/Order/1").await.good();
    for path in
        ["/v1/streams/Order/1", "/v1/append", "/v1/pools/p/tasks", "/v1/workflows/w/1/commands"]
    {
        reads.post(path, ONE).await.problem(403, "not_allowed");
        // A token exists, so nobody goes without.
        server.anybody().post(path, ONE).await.problem(401, "not_authenticated");
    }
    let id = uuid::Uuid::now_v7();
    for path in ["/v1/streams/Order/1", "/v1/events", "/v1/events/1", "/v1/tail"] {
        appends.get(path).await.problem(403, "not_allowed");
        server.anybody().get(path).await.problem(401, "not_authenticated");
    }
    appends.get(&format!("/v1/tasks/{id}/wait")).await.problem(403, "not_allowed");
    appends.post("/v1/query", "{}").await.problem(403, "not_allowed");
}

async fn a_mask_hides_bodies_and_nothing_else(db: Db) {
    let server = Server::start(&db.log().await).await;
    let (appends, masked) = (
        server.with_scopes(&[Scope::Append]).await,
        server.with_scopes(&[Scope::ReadMasked]).await,
    );
    let whole = server.with_scopes(&[Scope::Read]).await;
    let answer = appends.post("/v1/streams/Order/1", ONE).await.good();
    let one = format!("/v1/events/{}", answer["position"]);
    for path in ["/v1/streams/Order/1", "/v1/events", one.as_str()] {
        let (seen, hidden) = (whole.get(path).await, masked.get(path).await);
        assert!(seen.text.contains("secret") && seen.text.contains("lovelace"), "{}", seen.text);
        assert!(
            !hidden.text.contains("secret") && !hidden.text.contains("lovelace"),
            "{}",
            hidden.text
        );
        let (seen, hidden) = (seen.good(), hidden.good());
        let event = |answer: &serde_json::Value| match answer.get("items") {
            Some(items) => items[0].clone(),
            None => answer["event"].clone(),
        };
        let (mut seen, mut hidden) = (event(&seen), event(&hidden));
        assert_eq!(hidden["masked"].take(), json!(true));
        hidden.as_object_mut().unwrap().remove("masked");
        (seen["data"], seen["metadata"]) = (json!(null), json!(null));
        assert_eq!(seen, hidden);
    }
}

async fn who_is_limited_to_tenants_sees_and_appends_only_theirs(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let tenants = Some(BTreeSet::from(["acme".to_owned(), "initech".to_owned()]));
    let scopes = [Scope::Read, Scope::Append];
    let client = server.holder(NewToken { tenants, ..NewToken::new("t", scopes) }).await;
    let stream = StreamId::new("Order", "1").unwrap();
    let mut positions = Vec::new();
    for tenant in [None, Some("umbrella"), Some("acme"), Some("initech")] {
        let event = NewEvent::new("A", 1).with_tag("x");
        let event = match tenant {
            Some(tenant) => event.with_tenant(tenant),
            None => event,
        };
        let appended = log.append(&stream, Expected::Any, [event]).await.unwrap();
        positions.push(appended.position().get());
    }
    for path in ["/v1/events", "/v1/events?direction=backwards", "/v1/streams/Order/1"] {
        let mut seen: Vec<u64> = client.get(path).await.good()["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["position"].as_u64().unwrap())
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, positions[2..], "{path}");
    }
    let others = client.get("/v1/events?tenant=umbrella").await.good();
    assert_eq!(others["items"], json!([]));
    client.get(&format!("/v1/events/{}", positions[1])).await.problem(404, "no_such_event");
    client.get(&format!("/v1/events/{}", positions[0])).await.problem(404, "no_such_event");
    client.get(&format!("/v1/events/{}", positions[2])).await.good();
    let to = |tenant: &str| format!(r#"{{"events": [{{"type": "A", "tenant": "{tenant}"}}]}}"#);
    client.post("/v1/streams/Order/1", to("acme")).await.good();
    client.post("/v1/streams/Order/1", to("umbrella")).await.problem(403, "not_allowed");
    client.post("/v1/streams/Order/1", ONE).await.problem(403, "not_allowed");
    let mixed = r#"{"streams": [{"stream": "A:1", "events": [{"type": "A", "tenant": "acme"}, {"type": "B"}]}]}"#;
    client.post("/v1/append", mixed).await.problem(403, "not_allowed");
    // Tasks have no tenant, so nobody can say whose they are.
    client.post("/v1/pools/p/tasks", TASK).await.problem(403, "not_allowed");
    assert_eq!(log.read(Query::all()).collect().await.unwrap().len(), 5);
}

async fn who_is_limited_to_consumers_reaches_no_other_pool(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let consumers = Some(BTreeSet::from(["mails".to_owned(), "orders.commands".to_owned()]));
    let scopes = [Scope::Read, Scope::Append];
    let client = server.holder(NewToken { consumers, ..NewToken::new("m", scopes) }).await;
    let mail = client.post("/v1/pools/mails/tasks", TASK).await.good();
    client.post("/v1/pools/payouts/tasks", TASK).await.problem(404, "no_such_pool");
    let command = r#"{"command": {"Place": 1}}"#;
    client.post("/v1/workflows/orders/o1/commands", command).await.good();
    client
        .post("/v1/workflows/refunds/o1/commands", command)
        .await
        .problem(404, "no_such_consumer");
    let task = Tasks::new(&log, "payouts");
    let payout = task.enqueue(anabranch::workpool::NewTask::new("k", &1)).await.unwrap().id;
    let wait = |id: String| format!("/v1/tasks/{id}/wait?seconds=0");
    client.get(&wait(payout.to_string())).await.problem(404, "no_such_task");
    client.get(&wait(mail["id"].as_str().unwrap().to_owned())).await.good();
}
