//! Appends over HTTP: what is stored is what was sent, once.

use crate::client::{Client, Server};
use crate::on_both;
use crate::support::Db;
use anabranch::prelude::*;
use serde_json::{Value, json};

on_both!(
    bodies_pass_through_byte_for_byte,
    every_field_of_an_event_is_stored,
    an_append_that_is_sent_again_stores_nothing_again,
    a_key_belongs_to_one_request,
    appends_at_the_same_moment_share_commits,
    several_streams_are_stored_all_or_none,
    what_is_wrong_is_refused_by_name,
);

async fn stored(client: &Client, path: &str) -> Vec<Value> {
    client.get(path).await.good()["items"].as_array().unwrap().clone()
}

async fn bodies_pass_through_byte_for_byte(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let client = server.anybody();
    // What a program that builds values would change: digits, order, spaces, escapes, a key that stands twice.
    let data = "{ \"z\":12345678901234567890123.10,\"a\" : 1.0e+2, \"a\":\"\\u00e9\\/\" }";
    let metadata = "{\"m\":[0.10 , 9007199254740993]}";
    let body = format!(
        r#"{{"expected": "none", "events": [{{"type":"A","data":{data},"metadata":{metadata}}}]}}"#
    );
    let answer = client.post("/v1/streams/Order/o%2F1%20%C3%A9", body).await.good();
    let stream = StreamId::new("Order", "o/1 é").unwrap();
    let event = log.read_stream(&stream).collect().await.unwrap().remove(0);
    assert_eq!((event.data_json(), event.metadata_json()), (data, Some(metadata)));
    assert_eq!(answer["events"][0]["id"], event.id().to_string());
    let position = event.position().get();
    assert_eq!(
        (&answer["position"], &answer["events"][0]["version"]),
        (&position.into(), &1.into())
    );
    let paths = ["/v1/streams/Order/o%2F1%20%C3%A9", "/v1/events?types=A", "/v1/events/1"];
    for path in paths {
        let path = path.replace("/1", &format!("/{position}"));
        let path = if path.contains("Order") { paths[0] } else { path.as_str() };
        let text = client.get(path).await.text;
        assert!(text.contains(&format!("\"data\":{data},\"metadata\":{metadata}")), "{text}");
    }
}

async fn every_field_of_an_event_is_stored(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let id = uuid::Uuid::now_v7();
    let body = json!({"events": [{
        "type": "A", "id": id, "schema_version": 3, "correlation": "c", "causation": "d",
        "tenant": "acme", "customer": "cust-7", "tags": ["x", "y"], "data": null,
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }, {"type": "B"}]});
    let trace = [("traceparent", "00-11111111111111111111111111111111-2222222222222222-01")];
    let client = server.anybody();
    client.post_with("/v1/streams/Order/1", &trace, body.to_string()).await.good();
    let events = log.read_stream(&StreamId::new("Order", "1").unwrap()).collect().await.unwrap();
    let [first, second] = events.as_slice() else { panic!("{events:?}") };
    let shown = &stored(&client, "/v1/streams/Order/1").await[0];
    assert_eq!(*shown, serde_json::to_value(first).unwrap());
    let wanted = body["events"][0].as_object().unwrap();
    for (name, value) in wanted {
        assert_eq!(shown[name], *value, "{name}");
    }
    // What names no context of its own has that of the request.
    assert!(second.trace().unwrap().to_string().starts_with("00-1111"), "{:?}", second.trace());
}

async fn an_append_that_is_sent_again_stores_nothing_again(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let client = server.anybody();
    let key = [("idempotency-key", "e2a1-first")];
    let body =
        r#"{"expected": "none", "events": [{"type": "A", "data": 1}, {"type": "A", "data": 1}]}"#;
    let first = client.post_with("/v1/streams/Order/1", &key, body).await.good();
    // The answer was lost; meanwhile somebody else has appended.
    client.post("/v1/streams/Order/1", r#"{"events": [{"type": "B"}]}"#).await.good();
    let again = client.post_with("/v1/streams/Order/1", &key, body).await.good();
    assert_eq!(first, again);
    assert_eq!(stored(&client, "/v1/streams/Order/1").await.len(), 3);
    // Another body under the same key is no repetition.
    let other = r#"{"events": [{"type": "A", "data": 2}]}"#;
    let refused = client.post_with("/v1/streams/Order/1", &key, other).await;
    let problem = refused.problem(409, "id_reused");
    assert_eq!((&problem["stream"], &problem["version"]), (&"Order:1".into(), &1.into()));
    let other_key = [("idempotency-key", "e2a1-second")];
    client.post_with("/v1/streams/Order/1", &other_key, other).await.good();
    assert_eq!(stored(&client, "/v1/streams/Order/1").await.len(), 4);
    let long = "k".repeat(256);
    for key in ["", "a b", long.as_str()] {
        let wrong = [("idempotency-key", key)];
        let refused = client.post_with("/v1/streams/Order/1", &wrong, other).await;
        refused.problem(400, "invalid_input");
    }
}

async fn a_key_belongs_to_one_request(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let client = server.anybody();
    let one = |stream: &str, data: &[u64]| {
        let events: Vec<_> = data.iter().map(|n| json!({"type": "A", "data": n})).collect();
        json!({"stream": stream, "events": events})
    };
    let requests = [
        vec![one("Order:1", &[1])],
        vec![one("Order:1", &[1, 2])],
        vec![one("Order:1", &[1, 2, 3])],
        vec![one("Order:1", &[2, 1])],
        vec![one("Order:2", &[1])],
        vec![one("Order:1", &[1]), one("Order:2", &[2])],
    ];
    for (number, first) in requests.iter().enumerate() {
        let key = [("idempotency-key", format!("request-{number}"))];
        let key = [(key[0].0, key[0].1.as_str())];
        let send = async |streams: &Vec<Value>| {
            let body = json!({"streams": streams}).to_string();
            client.post_with("/v1/append", &key, body).await
        };
        let stored = send(first).await.good();
        for other in &requests {
            match other == first {
                true => assert_eq!(send(other).await.good(), stored),
                false => drop(send(other).await.problem(409, "id_reused")),
            }
        }
    }
    let all = log.read(Query::all()).collect().await.unwrap();
    assert_eq!(all.len(), 1 + 2 + 3 + 2 + 1 + 2);
}

async fn appends_at_the_same_moment_share_commits(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let posting = (0..64).map(|number| {
        let client = server.anybody();
        async move {
            let path = format!("/v1/streams/Order/{number}");
            client.post(&path, r#"{"events": [{"type": "A"}]}"#).await.good()
        }
    });
    let answers = futures_util::future::join_all(posting).await;
    let mut positions: Vec<u64> =
        answers.iter().map(|answer| answer["position"].as_u64().unwrap()).collect();
    positions.sort_unstable();
    positions.dedup();
    assert_eq!(positions.len(), 64);
}

async fn several_streams_are_stored_all_or_none(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let client = server.anybody();
    let append = |expected: Value| {
        json!({"streams": [
            {"stream": "Seat:1", "events": [{"type": "Taken", "tags": ["seat:1"]}]},
            {"stream": "Show:7", "expected": expected, "events": [{"type": "Sold"}]},
        ]})
        .to_string()
    };
    let answer = client.post("/v1/append", append(json!("none"))).await.good();
    assert_eq!(answer["events"].as_array().unwrap().len(), 2);
    let refused = client.post("/v1/append", append(json!("none"))).await;
    refused.problem(409, "stream_conflict");
    assert_eq!(stored(&client, "/v1/streams/Seat/1").await.len(), 1);
    client.post("/v1/append", append(json!(1))).await.good();
    assert_eq!(stored(&client, "/v1/streams/Seat/1").await.len(), 2);
}

async fn what_is_wrong_is_refused_by_name(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let client = server.anybody();
    let cases = [
        (r#"{"events": []}"#, 400, "invalid_input", "has no events"),
        (r#"{"events": [{"type": ""}]}"#, 400, "invalid_input", "type of event 1"),
        (r#"{"events": [{"type": "A", "dat": 1}]}"#, 400, "invalid_json", "unknown field `dat`"),
        (r#"{"events": [{"type": "A", "data": 1}"#, 400, "invalid_json", "EOF"),
        (r#"{"events": [{"type": "A", "data": "\u0000"}]}"#, 400, "invalid_json", "NUL"),
        (r#"{"events": [{"type": "A", "metadata": 7}]}"#, 400, "invalid_json", "object"),
        (r#"{"events": [{"type": "A"}], "expected": "some"}"#, 400, "invalid_json", "a version"),
        (r#"{"events": [{"type": "A"}], "expected": -1}"#, 400, "invalid_json", "a version"),
        (r#"{"event": [{"type": "A"}]}"#, 400, "invalid_json", "unknown field `event`"),
        (r#"[[{"type": "A"}], "none"]"#, 400, "invalid_json", "an object, with its fields by name"),
        (r#"[{"type": "A"}]"#, 400, "invalid_json", "an object, with its fields by name"),
        (r#"{"events": [["A", 1]]}"#, 400, "invalid_json", "an object, with its fields by name"),
    ];
    for (body, status, code, said) in cases {
        let problem = client.post("/v1/streams/Order/1", body).await.problem(status, code);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(said), "{body}: {detail}");
    }
    for header in ["if-match", "ES-ExpectedVersion"] {
        let event = r#"{"events": [{"type": "A"}]}"#;
        let problem = client.post_with("/v1/streams/Order/1", &[(header, "5")], event).await;
        let problem = problem.problem(400, "invalid_input");
        assert!(problem["detail"].as_str().unwrap().contains("`expected` is"), "{problem}");
    }
    let wrong = client.post("/v1/streams/Or:der/1", r#"{"events": [{"type": "A"}]}"#).await;
    wrong.problem(400, "invalid_input");
    let unknown = client.post("/v1/append", r#"{"streams": [], "unles": 1}"#).await;
    unknown.problem(400, "invalid_json");
    assert!(log.read(Query::all()).collect().await.unwrap().is_empty());
}
