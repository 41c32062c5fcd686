//! Live streams: answers at once and when they change, to each what they may see, each look once for all.

use crate::client::{Client, Server};
use crate::on_both;
use crate::sse::Sse;
use crate::support::{Db, fill, until};
use anabranch::Retry;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, Tasks};
use anabranch_server::{NewToken, Scope, TailLimits, Tokens};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

on_both!(
    answers_come_at_once_and_again_when_they_change,
    what_cannot_be_watched_is_refused,
    each_sees_what_they_see_by_asking,
    a_live_stream_ends_with_its_token,
    each_look_is_one_for_all_who_watch,
    a_failure_is_an_answer_and_the_stream_goes_on,
    who_reads_slowly_holds_up_nobody,
    live_streams_are_told_when_the_server_stops,
    there_are_only_so_many_live_streams,
    a_silent_live_stream_says_that_it_is_there,
);

/// `orders` and `others`; `orders` has parked the key `Order:2`.
async fn log_with_consumers(db: &Db) -> Log {
    let log = db.log().await;
    fill(&log, 0..4, 1..=2).await;
    let refuses = |event: &Event| match event.stream_id() {
        "2" => Err("poison s3cret".into()),
        _ => Ok(()),
    };
    let settings = Settings::default().retry(Retry::never());
    let orders = db.recorder("orders").hook(refuses).settings(settings);
    let set = ReplicaSet::new("main").projection(orders).projection(db.recorder("others"));
    set.catch_up(&log).await.unwrap_err();
    log
}

fn watching(paths: &[&str]) -> String {
    let encoded = |path: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric();
        let letters = path.bytes().map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        });
        format!("watch={}", letters.collect::<String>())
    };
    let asked: Vec<String> = paths.iter().map(encoded).collect();
    format!("/v1/live?{}", asked.join("&"))
}

async fn live(client: &Client, paths: &[&str]) -> Sse {
    client.stream(&watching(paths)).await
}

/// The next answer for a path.
async fn answer(live: &mut Sse, path: &str) -> Value {
    loop {
        let frame = live.until("answer").await.json();
        if frame["path"] == path {
            return frame;
        }
    }
}

/// The next answer for a path that is as it should be.
async fn answer_that(live: &mut Sse, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    loop {
        let frame = answer(live, path).await;
        if is(&frame["body"]) {
            return frame;
        }
    }
}

async fn answers_come_at_once_and_again_when_they_change(db: Db) {
    let log = log_with_consumers(&db).await;
    let payload: Box<serde_json::value::RawValue> =
        serde_json::from_str(r#"{"a": 12345678901234567890.10}"#).unwrap();
    let task = Tasks::new(&log, "mails").enqueue(NewTask::new("k", &payload)).await.unwrap().id;
    let task = format!("/v1/tasks/{task}");
    let paths = [
        "/v1/consumers/orders",
        "/v1/consumers/orders/slots",
        "/v1/tasks?pool=mails&limit=2",
        "/v1/streams/Order/2?limit=1",
        "/v1/consumers/none",
        "/v1/consumers?limits=1",
        "/v1/workers",
        "/v1/journal",
        task.as_str(),
    ];
    let server = Server::start(&log).await;
    let client = server.anybody();
    let mut live = live(&client, &paths).await;
    let mut seen = Vec::new();
    while seen.len() < paths.len() {
        let frame = live.until("answer").await;
        let said = frame.json();
        let path = said["path"].as_str().unwrap().to_owned();
        let asked = client.get(&path).await;
        assert_eq!(
            (&said["status"], &said["body"]),
            (&json!(asked.status), &asked.json()),
            "{path}"
        );
        assert_eq!(frame.id, None);
        if path == task {
            assert!(
                frame.data.contains(r#""payload":{"a": 12345678901234567890.10}"#),
                "{}",
                frame.data
            );
        }
        assert!(!seen.contains(&path), "{path} was answered twice, though nothing has changed");
        seen.push(path);
    }
    // What changes is sent, and nothing else.
    Consumers::new(&log).pause("orders").await.unwrap();
    let mut changed = Vec::new();
    while !changed.contains(&"/v1/consumers/orders".to_owned()) {
        let frame = live.until("answer").await.json();
        changed.push(frame["path"].as_str().unwrap().to_owned());
        if frame["path"] == "/v1/consumers/orders" {
            assert_eq!(frame["body"]["paused"], true);
        }
    }
    assert!(changed.iter().all(|path| path.starts_with("/v1/consumers/orders")), "{changed:?}");
    Consumers::new(&log).resume("orders").await.unwrap();
    answer_that(&mut live, "/v1/consumers/orders", |body| body["paused"] == false).await;
    // A path that is watched twice is answered once.
    let twice = watching(&["/v1/pools", "/v1/pools", "/v1/workflows"]);
    let mut twice = client.stream(&twice).await;
    let two = [twice.until("answer").await.json(), twice.until("answer").await.json()];
    assert_ne!(two[0]["path"], two[1]["path"]);
}

async fn what_cannot_be_watched_is_refused(db: Db) {
    let server = Server::start(&db.log().await).await;
    let client = server.anybody();
    for path in [
        "/v1/events",
        "/v1/tail",
        "/v1/live?watch=x",
        "/v1/tokens",
        "/v1/session",
        "/metrics",
        "/v1/consumers/orders/parked/groups",
        "http://elsewhere/v1/consumers",
        "",
        "consumers",
    ] {
        let refused = client.get(&watching(&["/v1/consumers", path])).await;
        let problem = refused.problem(400, "invalid_input");
        let known = problem["known"].as_array().unwrap();
        assert!(known.contains(&json!("/v1/consumers/{name}/slots")), "{problem}");
    }
    client.get("/v1/live").await.problem(400, "invalid_input");
    client.get("/v1/live?watch=%2Fv1%2Fpools&after=1").await.problem(400, "invalid_input");
    let many: Vec<String> = (0..17).map(|number| format!("/v1/consumers/{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    client.get(&watching(&many)).await.problem(400, "invalid_input");
    let append = server.with_scopes(&[Scope::Append]).await;
    append.get(&watching(&["/v1/consumers"])).await.problem(403, "not_allowed");
}

/// Several with different rights, on one server and at the same time, watch all that there is.
async fn each_sees_what_they_see_by_asking(db: Db) {
    let log = log_with_consumers(&db).await;
    let stream = StreamId::new("Seat", "1").unwrap();
    for tenant in [None, Some("umbrella"), Some("acme")] {
        let event = NewEvent::new("A", "s3cret");
        let event = tenant.map_or(event.clone(), |tenant| event.with_tenant(tenant));
        log.append(&stream, Expected::Any, [event]).await.unwrap();
    }
    let server = Server::start(&log).await;
    let paths = [
        "/v1/consumers",
        "/v1/consumers/orders",
        "/v1/consumers/orders/parked",
        "/v1/consumers/others/slots",
        "/v1/workers",
        "/v1/replica-sets",
        "/v1/plans",
        "/v1/streams/Seat/1",
    ];
    let limited = |consumers: &[&str], tenants: &[&str], scope| {
        let set = |names: &[&str]| {
            let names: std::collections::BTreeSet<_> =
                names.iter().map(|name| (*name).to_owned()).collect();
            (!names.is_empty()).then_some(names)
        };
        let (consumers, tenants) = (set(consumers), set(tenants));
        NewToken { consumers, tenants, ..NewToken::new("limited", [scope]) }
    };
    let holders = [
        limited(&[], &[], Scope::Read),
        limited(&[], &[], Scope::ReadMasked),
        limited(&["others"], &[], Scope::Read),
        limited(&["orders"], &[], Scope::ReadMasked),
        limited(&[], &["acme"], Scope::Read),
        limited(&[], &["acme"], Scope::ReadMasked),
    ];
    let mut all = Vec::new();
    for holder in holders {
        let client = server.holder(holder).await;
        let stream = live(&client, &paths).await;
        all.push((client, stream));
    }
    let mut texts = Vec::new();
    for (client, stream) in &mut all {
        let mut text = String::new();
        for _ in paths {
            let frame = stream.until("answer").await;
            let said = frame.json();
            let path = said["path"].as_str().unwrap();
            let asked = client.get(path).await;
            assert_eq!(
                (&said["status"], &said["body"]),
                (&json!(asked.status), &asked.json()),
                "{path}"
            );
            text += &frame.data;
        }
        texts.push(text);
    }
    let secret: Vec<bool> = texts.iter().map(|text| text.contains("s3cret")).collect();
    // The error of `orders` and the data of an event, each only for who may see it.
    assert_eq!(secret, [true, false, false, false, true, false]);
    assert!(!texts[2].contains("Order:2"), "{}", texts[2]);
    assert!(texts[4].contains("acme") && !texts[4].contains("umbrella"), "{}", texts[4]);
    // What changes afterwards as well.
    Consumers::new(&log).pause("others").await.unwrap();
    let (client, stream) = &mut all[2];
    let seen =
        answer_that(stream, "/v1/consumers", |body| body["items"][0]["paused"] == true).await;
    assert_eq!(seen["body"]["items"].as_array().unwrap().len(), 1);
    client.get("/v1/consumers/orders").await.problem(404, "no_such_consumer");
}

async fn a_live_stream_ends_with_its_token(db: Db) {
    let log = log_with_consumers(&db).await;
    let server = Server::start(&log).await;
    let stays = server.with_scopes(&[Scope::Read]).await;
    let goes = server.holder(NewToken::new("goes", [Scope::Read])).await;
    // They share what they see, and not how long.
    let (mut stays, mut goes) = (
        live(&stays, &["/v1/consumers/orders"]).await,
        live(&goes, &["/v1/consumers/orders"]).await,
    );
    stays.until("answer").await;
    goes.until("answer").await;
    let all = Tokens::new(&log).list().await.unwrap();
    let token = all.into_iter().find(|token| token.name == "goes").unwrap();
    // By another process: this one finds it out by itself, though nothing changes.
    Tokens::new(&db.log().await).revoke(&token.id).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), goes.until("ended")).await;
    assert_eq!(ended.expect("it ends soon").json(), json!({"reason": "not_allowed"}));
    assert_eq!(goes.next().await, None);
    Consumers::new(&log).pause("orders").await.unwrap();
    answer_that(&mut stays, "/v1/consumers/orders", |body| body["paused"] == true).await;
}

async fn each_look_is_one_for_all_who_watch(db: Db) {
    let log = log_with_consumers(&db).await;
    let server = Server::start(&log).await;
    let (one, other) =
        (server.with_scopes(&[Scope::Read]).await, server.with_scopes(&[Scope::Read]).await);
    let masked = server.with_scopes(&[Scope::ReadMasked]).await;
    let began = Instant::now();
    let mut all = Vec::new();
    for number in 0..60 {
        let client = [&one, &other, &masked][number % 3];
        let mut stream = live(client, &["/v1/consumers/orders", "/v1/pools"]).await;
        answer(&mut stream, "/v1/consumers/orders").await;
        all.push(stream);
    }
    assert_eq!(server.tails.figures().live, 60);
    Consumers::new(&log).pause("orders").await.unwrap();
    for stream in &mut all {
        answer_that(stream, "/v1/consumers/orders", |body| body["paused"] == true).await;
    }
    // Two things, seen with two kinds of rights, once a second.
    let most = 4 * (began.elapsed().as_secs() + 2);
    let looks = server.tails.figures().looks;
    assert!((4..=most).contains(&looks), "{looks} looks in {:?}", began.elapsed());
    // With nobody there, nobody looks.
    drop(all);
    until("all have left", async || (server.tails.figures().live == 0).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let looks = server.tails.figures().looks;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(server.tails.figures().looks, looks);
}

async fn a_failure_is_an_answer_and_the_stream_goes_on(db: Db) {
    use anabranch::backend::database::{End, Statement};
    let log = log_with_consumers(&db).await;
    let server = Server::start(&log).await;
    let mut live = live(&server.anybody(), &["/v1/workflows"]).await;
    assert_eq!(live.until("answer").await.json()["status"], 200);
    let table = log.database().dialect().table("workflow_snapshots");
    let bare = table.rsplit('.').next().unwrap().trim_matches('"').to_owned();
    let (gone, there) = match table.rsplit_once('.') {
        Some((schema, _)) => (format!("{schema}.gone"), table.clone()),
        None => (format!("{bare}_gone"), table.clone()),
    };
    let rename = async |from: &str, to: &str| {
        let to = to.rsplit('.').next().unwrap().to_owned();
        let rename = Statement::new(format!("ALTER TABLE {from} RENAME TO {to}"), vec![]);
        log.database().control().run(vec![rename], End::Commit).await.unwrap();
    };
    rename(&there, &gone).await;
    let failed = live.until("answer").await.json();
    assert!(failed["status"].as_u64().unwrap() >= 500, "{failed}");
    assert_eq!(failed["body"]["status"], failed["status"]);
    rename(&gone, &there).await;
    assert_eq!(live.until("answer").await.json()["status"], 200);
    // No database sees a NUL.
    let mut nul = crate::live::live(&server.anybody(), &["/v1/consumers/%00"]).await;
    assert_eq!(nul.until("answer").await.json()["status"], 400);
}

async fn who_reads_slowly_holds_up_nobody(db: Db) {
    let log = db.log().await;
    let stream = StreamId::new("Order", "1").unwrap();
    let append = async |number: u64| {
        let event = NewEvent::new("A", json!([number, "x".repeat(300_000)]));
        log.append(&stream, Expected::Any, [event]).await.unwrap();
    };
    append(0).await;
    let server = Server::start(&log).await;
    let path = |number: u64| {
        format!("/v1/streams/Order/1?direction=backwards&limit=3&from={}", 1000 + number)
    };
    let paths: Vec<String> = (0..8).map(path).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut slow = server.anybody().slow_stream(&watching(&paths)).await;
    let mut fast = live(&server.anybody(), &paths[..1]).await;
    let is_of = |number: u64| move |body: &Value| body["items"][0]["data"][0] == number;
    let changes = 4;
    for number in 1..=changes {
        append(number).await;
        answer_that(&mut fast, paths[0], is_of(number)).await;
    }
    // It gets what is there now, without what lay between, but for what was under way.
    let (mut got, mut newest) = (0, 0);
    while newest < paths.len() {
        newest += usize::from(is_of(changes)(&slow.until("answer").await.json()["body"]));
        got += 1;
    }
    assert!(got <= 24, "{got} answers of {} were kept for it", paths.len() as u64 * (changes + 1));
    // An answer that is too large is refused.
    for number in changes + 1..=changes + 4 {
        append(number).await;
    }
    let large = "/v1/streams/Order/1";
    let mut too_large = live(&server.anybody(), &[large]).await;
    let refused = too_large.until("answer").await.json();
    assert_eq!(
        (&refused["status"], &refused["body"]["code"]),
        (&json!(413), &json!("body_too_large"))
    );
}

async fn live_streams_are_told_when_the_server_stops(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let mut stream = live(&server.anybody(), &["/v1/consumers"]).await;
    stream.until("answer").await;
    server.tails.close();
    assert_eq!(stream.until("ended").await.json(), json!({"reason": "server_stops"}));
    assert_eq!(stream.next().await, None);
    server.anybody().get(&watching(&["/v1/consumers"])).await.problem(503, "log_closed");
    // As the command does it.
    let (server, stop) = Server::that_stops(&log).await;
    let mut stream = live(&server.anybody(), &["/v1/consumers"]).await;
    stream.until("answer").await;
    stop.send(()).unwrap();
    assert_eq!(stream.until("ended").await.json(), json!({"reason": "server_stops"}));
    assert_eq!(stream.next().await, None);
}

async fn there_are_only_so_many_live_streams(db: Db) {
    let limits = TailLimits { live: 2, ..TailLimits::default() };
    let server = Server::with(&db.log().await, limits, |api| api).await;
    let first = live(&server.anybody(), &["/v1/consumers"]).await;
    let _second = live(&server.anybody(), &["/v1/consumers"]).await;
    let refused = server.anybody().get(&watching(&["/v1/consumers"])).await;
    assert_eq!(refused.problem(429, "too_many_requests")["limit"], 2);
    drop(first);
    until("a place is free", async || (server.tails.figures().live == 1).then_some(())).await;
    live(&server.anybody(), &["/v1/consumers"]).await.until("answer").await;
}

async fn a_silent_live_stream_says_that_it_is_there(db: Db) {
    let heartbeat = Duration::from_millis(50);
    let limits = TailLimits { heartbeat, ..TailLimits::default() };
    let server = Server::with(&db.log().await, limits, |api| api).await;
    let mut stream = live(&server.anybody(), &["/v1/consumers"]).await;
    stream.until("answer").await;
    for _ in 0..3 {
        let said = stream.next().await.unwrap();
        assert_eq!(said.name, "still_here");
        let ago = said.json()["looked_ms_ago"].as_u64().unwrap();
        assert!(ago < 30_000, "{ago}");
    }
}
