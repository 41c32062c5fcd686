//! Lists of events: every one once, page by page, both ways, by what they are asked for.

use crate::client::{Client, Server};
use crate::on_both;
use crate::support::Db;
use anabranch::prelude::*;
use serde_json::{Value, json};

on_both!(
    pages_hold_every_event_once_both_ways,
    a_query_of_a_body_is_the_whole_query,
    large_events_end_a_page_early,
    one_event_is_found_by_id_and_by_position,
    what_an_event_has_caused_is_found,
    what_nobody_knows_is_refused,
);

async fn fill(log: &Log) {
    for number in 0..25_u32 {
        let stream = StreamId::new(if number % 2 == 0 { "Order" } else { "Seat" }, "1").unwrap();
        let event = NewEvent::new(if number % 5 == 0 { "Fifth" } else { "Other" }, number)
            .with_tag(format!("mod3:{}", number % 3));
        let event = if number % 4 == 0 { event.with_tenant("acme") } else { event };
        log.append(&stream, Expected::Any, [event]).await.unwrap();
    }
}

/// The data of all events, page by page.
async fn all(client: &Client, path: &str, limit: usize, go_on: &str) -> Vec<u64> {
    let (mut data, mut next) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{path}limit={limit}{next}")).await.good();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= limit);
        data.extend(items.iter().map(|event| event["data"].as_u64().unwrap()));
        match page["next"].as_str() {
            Some(place) => next = format!("&{go_on}={place}"),
            None => return data,
        }
    }
}

async fn pages_hold_every_event_once_both_ways(db: Db) {
    let log = db.log().await;
    fill(&log).await;
    let server = Server::start(&log).await;
    let client = server.anybody();
    let is = |wanted: fn(&u64) -> bool| (0..25).filter(wanted).collect::<Vec<u64>>();
    let cases: [(&str, &str, Vec<u64>); 7] = [
        ("/v1/events?", "after", is(|_| true)),
        ("/v1/events?types=Fifth&", "after", is(|n| n % 5 == 0)),
        ("/v1/events?types=Fifth&types=Other&tags=mod3:1&", "after", is(|n| n % 3 == 1)),
        ("/v1/events?category=Seat&", "after", is(|n| n % 2 == 1)),
        ("/v1/events?tenant=acme&category=Order&", "after", is(|n| n % 4 == 0)),
        ("/v1/events?types=None&", "after", vec![]),
        ("/v1/streams/Order/1?", "from", is(|n| n % 2 == 0)),
    ];
    for (path, go_on, wanted) in cases {
        for limit in [1, 2, 3, 7, 25, 1000] {
            assert_eq!(all(&client, path, limit, go_on).await, wanted, "{path} {limit}");
            let backwards = format!("{path}direction=backwards&");
            let mut got = all(&client, &backwards, limit, go_on).await;
            got.reverse();
            assert_eq!(got, wanted, "{backwards} {limit}");
        }
    }
    let none = client.get("/v1/streams/Order/none").await.good();
    assert_eq!(none, json!({"items": [], "next": null}));
}

async fn a_query_of_a_body_is_the_whole_query(db: Db) {
    let log = db.log().await;
    fill(&log).await;
    let server = Server::start(&log).await;
    let client = server.anybody();
    let data = |answer: Value| -> Vec<u64> {
        let items = answer["items"].as_array().unwrap().clone();
        items.iter().map(|event| event["data"].as_u64().unwrap()).collect()
    };
    let items = json!([{"types": ["Fifth"], "tags": ["mod3:0"]}, {"tags": ["mod3:1"]}]);
    let asked = json!({"query": {"items": items}, "limit": 4});
    let page = client.post("/v1/query", asked.to_string()).await.good();
    assert_eq!(data(page.clone()), [0, 1, 4, 7]);
    let asked = json!({"query": {"items": items}, "limit": 4, "after": page["next"]});
    assert_eq!(data(client.post("/v1/query", asked.to_string()).await.good()), [10, 13, 15, 16]);
    let asked = json!({"direction": "backwards", "limit": 2, "categories": ["Order"]});
    assert_eq!(data(client.post("/v1/query", asked.to_string()).await.good()), [24, 22]);
    let asked = json!({"tenants": ["acme"], "after": 3});
    let found = data(client.post("/v1/query", asked.to_string()).await.good());
    assert_eq!(found, [4, 8, 12, 16, 20, 24]);
    for wrong in [
        json!({"limit": 0}),
        json!({"limit": 1001}),
        json!({"after": "x"}),
        json!({"query": {"items": [{}, {"types": ["A"]}]}}),
        json!({"query": {"items": [{"type": ["A"]}]}}),
        json!({"direction": "up"}),
        json!({"querry": {}}),
    ] {
        let answer = client.post("/v1/query", wrong.to_string()).await;
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.text);
    }
}

async fn large_events_end_a_page_early(db: Db) {
    let log = db.log().await;
    let large = "x".repeat(900_000);
    let stream = StreamId::new("Order", "1").unwrap();
    for number in 0..9 {
        let event = NewEvent::new("A", json!([number, large]));
        log.append(&stream, Expected::Any, [event]).await.unwrap();
    }
    let server = Server::start(&log).await;
    let (mut numbers, mut next, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let answer = server.anybody().get(&format!("/v1/events?limit=1000{next}")).await;
        assert!(answer.text.len() < 6_000_000, "a page of {} bytes", answer.text.len());
        let page = answer.good();
        pages += 1;
        let items = page["items"].as_array().unwrap();
        numbers.extend(items.iter().map(|event| event["data"][0].as_u64().unwrap()));
        let Some(place) = page["next"].as_str() else { break };
        next = format!("&after={place}");
    }
    assert_eq!(numbers, (0..9).collect::<Vec<_>>());
    assert!(pages >= 2);
}

async fn one_event_is_found_by_id_and_by_position(db: Db) {
    let log = db.log().await;
    let stream = StreamId::new("Order", "1").unwrap();
    let first = log.append(&stream, Expected::Any, [NewEvent::new("A", 1)]).await.unwrap().last();
    let event = NewEvent::new("B", 2).with_causation(first.id.to_string());
    let second = log.append(&stream, Expected::Any, [event]).await.unwrap().last();
    let server = Server::start(&log).await;
    let client = server.anybody();
    for id in [second.id.to_string(), second.position.to_string()] {
        let found = client.get(&format!("/v1/events/{id}")).await.good();
        assert_eq!((&found["event"]["data"], &found["cause"]["data"]), (&2.into(), &1.into()));
    }
    let found = client.get(&format!("/v1/events/{}", first.position)).await.good();
    assert_eq!((&found["event"]["data"], &found["cause"]), (&1.into(), &Value::Null));
    for none in ["0", "999999", "18446744073709551615", "0190a5b0-0000-7000-8000-000000000000"] {
        client.get(&format!("/v1/events/{none}")).await.problem(404, "no_such_event");
    }
    client.get("/v1/events/nonsense").await.problem(400, "invalid_input");
}

async fn what_an_event_has_caused_is_found(db: Db) {
    let log = db.log().await;
    let stream = StreamId::new("Order", "1").unwrap();
    let first = log.append(&stream, Expected::Any, [NewEvent::new("A", 0)]).await.unwrap().last();
    for number in 1..=20_u32 {
        let event = NewEvent::new("B", number).with_correlation(format!("c{}", number % 2));
        let event = match number % 3 {
            0 => event.with_causation(first.id.to_string()),
            _ => event.with_causation("another"),
        };
        let event = if number % 4 == 0 { event } else { event.with_tenant("acme") };
        log.append(&stream, Expected::Any, [event]).await.unwrap();
    }
    let server = Server::start(&log).await;
    let client = server.anybody();
    let caused = format!("/v1/events?causation={}&after={}", first.id, first.position);
    let found = client.get(&caused).await.good();
    let data = |found: &Value| {
        let items = found["items"].as_array().unwrap();
        items.iter().map(|event| event["data"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(data(&found), [3, 6, 9, 12, 15, 18]);
    let path = format!("/v1/events?causation={}&correlation=c1&", first.id);
    for limit in [1, 2, 100] {
        assert_eq!(all(&client, &path, limit, "after").await, [3, 9, 15], "{limit}");
    }
    let both = client.get("/v1/events?correlation=c0&types=A").await.good();
    assert_eq!(both["items"], json!([]));
    client.get("/v1/events?causation=a&causation=b").await.problem(400, "invalid_input");
    // Who is limited finds only theirs, and who may not see bodies finds no bodies.
    let tenants = Some(std::collections::BTreeSet::from(["acme".to_owned()]));
    let scopes = [anabranch_server::Scope::Read];
    let acme =
        anabranch_server::NewToken { tenants, ..anabranch_server::NewToken::new("t", scopes) };
    let acme = server.holder(acme).await;
    assert_eq!(data(&acme.get(&caused).await.good()), [3, 6, 9, 15, 18]);
    let masked = server.with_scopes(&[anabranch_server::Scope::ReadMasked]).await;
    let hidden = masked.get(&caused).await.good();
    assert_eq!(hidden["items"].as_array().unwrap().len(), 6);
    assert!(hidden["items"].as_array().unwrap().iter().all(|event| event["data"].is_null()));
}

async fn what_nobody_knows_is_refused(db: Db) {
    let server = Server::start(&db.log().await).await;
    let client = server.anybody();
    for wrong in [
        "/v1/events?type=A",
        "/v1/events?limit=0",
        "/v1/events?limit=1001",
        "/v1/events?limit=1&limit=2",
        "/v1/events?after=-1",
        "/v1/events?direction=sideways",
        "/v1/events?tags=",
        "/v1/streams/Order/1?after=1",
        "/v1/streams/Order/1?from=x",
    ] {
        client.get(wrong).await.problem(400, "invalid_input");
    }
    let many: String = (0..200).map(|number| format!("types=T{number}&")).collect();
    client.get(&format!("/v1/events?{many}")).await.problem(400, "invalid_input");
}
