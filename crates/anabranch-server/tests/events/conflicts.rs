//! Conflicts: 409 with what a caller needs to decide anew.

use crate::client::Server;
use crate::on_both;
use crate::support::Db;
use anabranch_server::{NewToken, Scope};
use serde_json::{Value, json};
use std::collections::BTreeSet;

on_both!(
    a_conflict_says_what_was_expected_and_where_the_stream_stands,
    a_condition_holds_and_says_what_has_broken_it,
    a_condition_that_could_never_fail_is_refused,
    who_may_not_read_learns_nothing_of_other_events,
);

const ONE: &str = r#"{"type": "A", "data": {"secret": 7}, "tags": ["seat:1"]}"#;

fn append(expected: &str) -> String {
    format!(r#"{{"expected": {expected}, "events": [{ONE}]}}"#)
}

async fn a_conflict_says_what_was_expected_and_where_the_stream_stands(db: Db) {
    let server = Server::start(&db.log().await).await;
    let client = server.anybody();
    client.post("/v1/streams/Seat/1", append("0")).await.good();
    client.post("/v1/streams/Seat/1", append("1")).await.good();
    for (expected, shown) in [("\"none\"", json!("none")), ("1", json!(1)), ("7", json!(7))] {
        let refused = client.post("/v1/streams/Seat/1", append(expected)).await;
        let problem = refused.problem(409, "stream_conflict");
        let members = (&problem["stream"], &problem["expected"], &problem["actual"]);
        assert_eq!(members, (&"Seat:1".into(), &shown, &2.into()));
        assert_eq!(problem["status"], 409);
    }
}

async fn a_condition_holds_and_says_what_has_broken_it(db: Db) {
    let server = Server::start(&db.log().await).await;
    let client = server.anybody();
    let unless = |after: u64| {
        json!({
            "streams": [{"stream": "Seat:2", "events": [{"type": "A", "tags": ["seat:1"]}]}],
            "unless": {"query": {"items": [{"types": ["A"], "tags": ["seat:1"]}]}, "after": after},
        })
        .to_string()
    };
    let first = client.post("/v1/append", unless(0)).await.good();
    let refused = client.post("/v1/append", unless(0)).await;
    let problem = refused.problem(409, "condition_failed");
    assert_eq!((&problem["after"], &problem["position"]), (&0.into(), &first["position"]));
    assert_eq!(problem["query"]["items"][0]["tags"], json!(["seat:1"]));
    client.post("/v1/append", unless(first["position"].as_u64().unwrap())).await.good();
    let empty = r#"{"streams": [{"stream": "A:1", "events": [{"type": "A"}]}],
        "unless": {"query": {"items": [{}]}, "after": 0}}"#;
    client.post("/v1/append", empty).await.problem(400, "invalid_input");
}

async fn a_condition_that_could_never_fail_is_refused(db: Db) {
    let server = Server::start(&db.log().await).await;
    let client = server.anybody();
    let unless = |after: u64| {
        json!({
            "streams": [{"stream": "Seat:3", "events": [{"type": "A", "tags": ["seat:1"]}]}],
            "unless": {"query": {"items": [{"types": ["B"], "tags": ["seat:1"]}]}, "after": after},
        })
        .to_string()
    };
    client.post("/v1/append", unless(1)).await.problem(409, "log_fell_back");
    let first = client.post("/v1/append", unless(0)).await.good()["position"].as_u64().unwrap();
    // Where a log that was restored from a backup has never been.
    for beyond in [first + 1, 999_999, (1 << 62) - 1] {
        let refused = client.post("/v1/append", unless(beyond)).await;
        let problem = refused.problem(409, "log_fell_back");
        assert_eq!((&problem["after"], &problem["newest"]), (&beyond.into(), &first.into()));
    }
    client.post("/v1/append", unless(first)).await.good();
    assert_eq!(client.get("/v1/streams/Seat/3").await.good()["items"].as_array().unwrap().len(), 2);
}

async fn who_may_not_read_learns_nothing_of_other_events(db: Db) {
    let server = Server::start(&db.log().await).await;
    let id = uuid::Uuid::now_v7();
    let event = |data: Value, tenant: &str| {
        json!({"events": [{"type": "A", "id": id, "data": data, "tenant": tenant}]}).to_string()
    };
    let both = server.with_scopes(&[Scope::Read, Scope::Append]).await;
    both.post("/v1/streams/Vault/1", event(json!({"secret": 7}), "umbrella")).await.good();
    let told = both.post("/v1/streams/Vault/1", event(json!(1), "umbrella")).await;
    let told = told.problem(409, "id_reused");
    assert!(told["detail"].as_str().unwrap().contains("secret"), "{told}");
    let only = server.with_scopes(&[Scope::Append]).await;
    let tenants = Some(BTreeSet::from(["acme".to_owned()]));
    let scopes = [Scope::Read, Scope::Append];
    let acme = server.holder(NewToken { tenants, ..NewToken::new("acme", scopes) }).await;
    for client in [only, acme] {
        let refused = client.post("/v1/streams/Order/1", event(json!(1), "acme")).await;
        let problem = refused.problem(409, "id_reused");
        let text = problem.to_string();
        assert!(!text.contains("secret") && !text.contains("Vault"), "{text}");
    }
}
