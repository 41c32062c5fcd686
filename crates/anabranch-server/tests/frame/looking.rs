//! What there is to look at, and that it is what the library says.

use crate::client::Server;
use crate::filled::{Filled, SECRET, filled};
use crate::on_both;
use crate::support::{Db, query};
use anabranch::operate::Consumers;
use anabranch::workpool::{NewTask, Tasks};
use anabranch_server::{NewToken, Scope};
use serde_json::{Value, json};

on_both!(
    consumers_are_as_the_library_shows_them,
    each_slot_is_in_the_map_once,
    parked_keys_come_with_their_events,
    parked_keys_are_grouped_by_what_their_errors_have_in_common,
    a_key_is_explained,
    tasks_come_page_by_page_and_digit_for_digit,
    dead_tasks_of_all_pools_are_found,
    states_of_workflows_say_at_which_version_they_were_kept,
    a_mask_hides_payloads_results_and_what_was_said,
    parameters_are_taken_strictly,
    metrics_and_health_are_served,
);

async fn start(db: &Db) -> (Server, Filled) {
    let filled = filled(db).await;
    (Server::start(&filled.log).await, filled)
}

async fn get(server: &Server, path: &str) -> Value {
    server.ask("GET", path, &[], "").await.good()
}

fn names(list: &Value, name: &str) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
}

async fn consumers_are_as_the_library_shows_them(db: Db) {
    let (server, filled) = start(&db).await;
    let shown = get(&server, "/v1/consumers/orders").await;
    let status = Consumers::new(&filled.log).status("orders").await.unwrap();
    assert_eq!(shown, serde_json::to_value(&status).unwrap());
    assert_eq!((&shown["parked_keys"], &shown["parked_events"]), (&json!(1), &json!(2)));
    let first = get(&server, "/v1/consumers?limit=1").await;
    assert_eq!((names(&first, "name"), &first["next"]), (vec!["orders".into()], &json!("orders")));
    let next = get(&server, "/v1/consumers?limit=1&after=orders").await;
    assert_eq!((names(&next, "name"), &next["next"]), (vec!["others".into()], &Value::Null));
    let none = server.ask("GET", "/v1/consumers/none", &[], "").await;
    let none = none.problem(404, "no_such_consumer");
    assert_eq!(none["known"], json!(["orders", "others"]));
    let audit = get(&server, "/v1/consumers/others/audit").await;
    assert_eq!(audit["consumer"], "others");
    server.ask("GET", "/v1/consumers/orders/audit", &[], "").await.problem(409, "not_audited");
    let sets = get(&server, "/v1/replica-sets").await;
    assert_eq!(names(&sets, "name"), ["main"]);
    assert!(!names(&get(&server, "/v1/generations?replica_set=main").await, "reason").is_empty());
    let none = server.ask("GET", "/v1/generations?replica_set=none", &[], "").await;
    none.problem(404, "no_such_replica_set");
    assert_eq!(get(&server, "/v1/deliveries?state=failed").await["items"][0]["id"], "msg_1");
    assert_eq!(get(&server, "/v1/deliveries?state=open").await["items"], json!([]));
}

async fn each_slot_is_in_the_map_once(db: Db) {
    let (server, _) = start(&db).await;
    for name in ["orders", "others"] {
        let map = get(&server, &format!("/v1/consumers/{name}/slots")).await;
        let mut slots = vec![0; 5040];
        for cursor in map["cursors"].as_array().unwrap() {
            let mut count = 0;
            for run in cursor["slots"].as_array().unwrap() {
                let number = |name: &str| run[name].as_u64().map(|number| number as usize);
                let step = number("step").unwrap_or(1);
                for slot in (number("from").unwrap()..=number("to").unwrap()).step_by(step) {
                    slots[slot] += 1;
                    count += 1;
                }
            }
            assert_eq!(cursor["slot_count"], count);
            // Nobody runs it now, and that has a name.
            assert!(cursor["owner"].is_null() && !cursor["reasons"].as_array().unwrap().is_empty());
        }
        assert!(slots.iter().all(|times| *times == 1));
    }
}

async fn parked_keys_come_with_their_events(db: Db) {
    let (server, _) = start(&db).await;
    let all = get(&server, "/v1/consumers/orders/parked").await;
    assert_eq!(names(&all, "key"), ["Order:2"]);
    let one = get(&server, "/v1/consumers/orders/parked/Order:2").await;
    assert_eq!((&one["error"], &one["events"]), (&json!("poison"), &json!(2)));
    let versions: Vec<_> =
        one["next_events"].as_array().unwrap().iter().map(|event| &event["version"]).collect();
    assert_eq!(versions, [3, 4]);
    let one = get(&server, "/v1/consumers/orders/parked/Order%3A2?limit=1").await;
    assert_eq!(one["next_events"].as_array().unwrap().len(), 1);
    let none = server.ask("GET", "/v1/consumers/orders/parked/Order:1", &[], "").await;
    none.problem(404, "no_such_key");
}

async fn parked_keys_are_grouped_by_what_their_errors_have_in_common(db: Db) {
    use anabranch::operate::ParkedFilter;
    use anabranch::prelude::{Event, ReplicaSet, Settings};
    let log = db.log().await;
    crate::support::fill(&log, 0..20, 1..=2).await;
    let refuses = |event: &Event| match event.stream_id() {
        "0" | "1" | "2" | "3" => {
            let id = event.stream_id();
            Err(format!("order {id}7 is not \"{id}\" any more").into())
        }
        "10" => Err("4711".into()),
        "11" => Err("another".into()),
        _ => Ok(()),
    };
    let settings = Settings::default().retry(anabranch::Retry::never());
    let orders = db.recorder("orders").hook(refuses).settings(settings);
    ReplicaSet::new("main").projection(orders).catch_up(&log).await.unwrap_err();
    let server = Server::start(&log).await;
    let path = "/v1/consumers/orders/parked/groups";
    let found = get(&server, path).await;
    assert_eq!((&found["looked_at"], &found["is_all"]), (&json!(6), &json!(true)));
    let items = found["items"].as_array().unwrap();
    let first = &items[0];
    assert_eq!(
        (&first["says"], &first["contains"]),
        (&json!("order … is not … any more"), &json!("any more"))
    );
    assert_eq!(
        (&first["keys"], &first["events"], &first["retrying"]),
        (&json!(4), &json!(8), &json!(0))
    );
    // What it gives for a filter finds them.
    let filter =
        ParkedFilter { error_contains: Some("any more".to_owned()), ..ParkedFilter::default() };
    let counted = Consumers::new(&log).count_parked("orders", &filter).await.unwrap();
    assert_eq!((counted.keys, counted.events), (4, 8));
    assert_eq!((items[1]["says"].as_str(), items[1]["contains"].as_str()), (Some("…"), Some("")));
    assert_eq!(
        (items[2]["says"].as_str(), items[2]["contains"].as_str()),
        (Some("another"), Some("another"))
    );
    let key = format!("/v1/consumers/orders/parked/{}", first["example"].as_str().unwrap());
    assert_eq!(get(&server, &key).await["events"], 2);
    let masked = server.token(&[Scope::ReadMasked]).await;
    let hidden = server.get(path, &masked).await.good();
    for (seen, hidden) in items.iter().zip(hidden["items"].as_array().unwrap()) {
        assert_eq!((&hidden["says"], &hidden["contains"]), (&json!(""), &json!("")));
        assert_eq!((&seen["keys"], &seen["example"]), (&hidden["keys"], &hidden["example"]));
    }
}

async fn a_key_is_explained(db: Db) {
    let (server, filled) = start(&db).await;
    let parked = get(&server, "/v1/consumers/orders/explain?key=Order:2").await;
    assert_eq!(parked["slot"], filled.log.hash_rule().slot("2").get());
    assert_eq!(
        (&parked["parked"]["key"], &parked["next"]["version"]),
        (&json!("Order:2"), &json!(3))
    );
    assert!(parked["why"].to_string().contains("no living worker"), "{parked}");
    let fine = get(&server, "/v1/consumers/others/explain?key=Order:2").await;
    assert_eq!((&fine["parked"], &fine["next"]), (&Value::Null, &Value::Null));
}

async fn tasks_come_page_by_page_and_digit_for_digit(db: Db) {
    let (server, filled) = start(&db).await;
    let (mut ids, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(&server, &format!("/v1/tasks?pool=mails&limit=3{after}")).await;
        ids.extend(names(&page, "id"));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!((ids.len(), &ids[0]), (4, &filled.task.to_string()));
    assert_eq!(names(&get(&server, "/v1/tasks?pool=mails&key=key").await, "id").len(), 1);
    assert_eq!(get(&server, "/v1/tasks?pool=mails&state=dead").await["items"], json!([]));
    let one = server.ask("GET", &format!("/v1/tasks/{}", filled.task), &[], "").await;
    assert!(one.text.contains(r#""number": 12345678901234567890123"#), "{}", one.text);
    let pools = get(&server, "/v1/pools").await;
    assert_eq!(
        (&pools["items"][0]["pool"], &pools["items"][0]["tasks"]["ready"]),
        (&json!("mails"), &json!(4))
    );
    assert_eq!(pools["items"][0]["tasks"]["dead"], json!(0));
    server.ask("GET", "/v1/tasks?pool=none", &[], "").await.problem(404, "no_such_pool");
    let none = format!("/v1/tasks/{}", uuid::Uuid::nil());
    server.ask("GET", &none, &[], "").await.problem(404, "no_such_task");
    server.ask("GET", "/v1/tasks/x", &[], "").await.problem(400, "invalid_input");
}

async fn dead_tasks_of_all_pools_are_found(db: Db) {
    let (server, filled) = start(&db).await;
    for (pool, key) in [("calls", "a"), ("calls", "b"), ("zebras", "c"), ("idle", "d")] {
        Tasks::new(&filled.log, pool).enqueue(NewTask::new(key, &1)).await.unwrap();
    }
    let table = |name| filled.log.database().dialect().table(name);
    let dead = format!("UPDATE {} SET state = 3 WHERE key IN ('a', 'b', 'c')", table("tasks"));
    query(&filled.log, &dead, vec![]).await;
    let pools = get(&server, "/v1/pools").await;
    let calls = pools["items"].as_array().unwrap().iter().find(|pool| pool["pool"] == "calls");
    assert_eq!(calls.unwrap()["tasks"]["dead"], json!(2), "{pools}");
    let (mut keys, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(&server, &format!("/v1/tasks?state=dead&limit=1{after}")).await;
        keys.extend(names(&page, "key"));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(keys, ["a", "b", "c"]);
    let mut new = NewToken::new("limited", [Scope::Read]);
    new.consumers = Some(["zebras".to_owned()].into());
    let (_, token) = server.make(new).await;
    let theirs = server.get("/v1/tasks?state=dead", &token).await.good();
    assert_eq!(names(&theirs, "key"), ["c"]);
    for wrong in ["state=done", "state=dead&key=a", "key=a"] {
        let path = format!("/v1/tasks?{wrong}");
        server.get(&path, &token).await.problem(400, "invalid_input");
    }
    // One that a worker has run, and that never had a task.
    let update = format!("UPDATE {} SET kind = 'pool' WHERE name = 'others'", table("consumers"));
    query(&filled.log, &update, vec![]).await;
    let whole = server.token(&[Scope::Read]).await;
    assert_eq!(server.get("/v1/tasks?pool=others", &whole).await.good()["items"], json!([]));
    server.get("/v1/tasks?pool=orders", &whole).await.problem(404, "no_such_pool");
}

async fn states_of_workflows_say_at_which_version_they_were_kept(db: Db) {
    let (server, _) = start(&db).await;
    assert_eq!(names(&get(&server, "/v1/workflows").await, "workflow"), ["seats"]);
    let one = get(&server, "/v1/workflows/seats/12a").await;
    assert_eq!((&one["version"], &one["snapshot"]["version"]), (&json!(3), &json!(2)));
    assert_eq!(one["snapshot"]["state"]["by"], SECRET);
    let events = get(&server, one["events"].as_str().unwrap()).await;
    assert_eq!(events["items"].as_array().unwrap().len(), 3);
    server.ask("GET", "/v1/workflows/seats/1", &[], "").await.problem(404, "no_such_instance");
}

async fn a_mask_hides_payloads_results_and_what_was_said(db: Db) {
    let (server, filled) = start(&db).await;
    let (read, masked) =
        (server.token(&[Scope::Read]).await, server.token(&[Scope::ReadMasked]).await);
    for path in [
        "/v1/workflows/seats/12a".to_owned(),
        format!("/v1/tasks/{}", filled.task),
        "/v1/deliveries".to_owned(),
        "/v1/streams/seats/12a".to_owned(),
    ] {
        assert!(server.get(&path, &read).await.text.contains(SECRET), "{path}");
        let hidden = server.get(&path, &masked).await;
        assert!(hidden.status == 200 && !hidden.text.contains(SECRET), "{path}: {}", hidden.text);
    }
    let parked = "/v1/consumers/orders/parked/Order:2";
    assert_eq!(server.get(parked, &read).await.good()["next_events"][0]["data"], 3);
    let hidden = server.get(parked, &masked).await.good();
    assert_eq!((&hidden["next_events"][0]["data"], &hidden["error"]), (&Value::Null, &json!("")));
    // What a consumer says of itself: the error of its outage and of its parked key, in fields and in words.
    let dialect = filled.log.database();
    let consumers = dialect.dialect().table("consumers");
    let outage = format!(
        "UPDATE {consumers} SET outage = 'poison', outage_since_us = 1700000000000000 WHERE name = 'orders'"
    );
    let outage = anabranch::backend::database::Statement::new(outage, vec![]);
    let end = anabranch::backend::database::End::Commit;
    filled.log.database().control().run(vec![outage], end).await.unwrap();
    for path in [
        "/v1/consumers",
        "/v1/consumers/orders",
        "/v1/consumers/orders/slots",
        "/v1/consumers/orders/explain?key=Order:2",
        "/v1/consumers/orders/explain?key=Order:1",
    ] {
        assert!(server.get(path, &read).await.text.contains("poison"), "{path}");
        let hidden = server.get(path, &masked).await;
        assert!(hidden.status == 200 && !hidden.text.contains("poison"), "{path}: {}", hidden.text);
    }
    assert_eq!(hidden["next_events"][0]["masked"], true);
}

async fn parameters_are_taken_strictly(db: Db) {
    let (server, _) = start(&db).await;
    for path in [
        "/v1/consumers?limits=1",
        "/v1/consumers?limit=0",
        "/v1/consumers?limit=1001",
        "/v1/consumers?limit=-1",
        "/v1/consumers?limit=x",
        "/v1/consumers?limit=",
        "/v1/consumers?limit=1&limit=2",
        "/v1/workers?limit=1",
        "/v1/tasks",
        "/v1/tasks?pool=mails&state=dread",
        "/v1/tasks?pool=mails&after=x",
        "/v1/consumers/orders/explain",
        "/v1/deliveries?state=x",
    ] {
        server.ask("GET", path, &[], "").await.problem(400, "invalid_input");
    }
    let unknown = server.ask("GET", "/v1/consumers?limits=1", &[], "").await;
    assert_eq!(unknown.json()["known"], json!(["limit", "after"]));
    server.ask("GET", "/v1/nothing", &[], "").await.problem(404, "no_such_route");
    server.ask("PATCH", "/v1/consumers", &[], "").await.problem(405, "method_not_allowed");
    let plain = [("content-type", "text/plain"), ("x-anabranch", "1")];
    server.ask("POST", "/v1/tokens", &plain, "{}").await.problem(415, "unsupported_media_type");
}

async fn metrics_and_health_are_served(db: Db) {
    let (server, filled) = start(&db).await;
    for path in ["/livez", "/readyz"] {
        let answer = server.ask("GET", path, &[], "").await;
        assert_eq!((answer.status, answer.text.as_str()), (200, "ok\n"), "{path}");
    }
    let metrics = server.ask("GET", "/metrics", &[], "").await;
    assert!(metrics.status == 200 && metrics.text.contains("anabranch_build_info"));
    // Not on loopback: who reads metrics has a token, as soon as that is needed.
    let closed = |api: anabranch_server::Api| api.open_metrics(false);
    let other = Server::with(&filled.log, Default::default(), closed).await;
    let token = other.token(&[Scope::ReadMasked]).await;
    other.ask("GET", "/metrics", &[], "").await.problem(401, "not_authenticated");
    assert_eq!(other.get("/metrics", &token).await.status, 200);
    assert_eq!(other.ask("GET", "/readyz", &[], "").await.status, 200);
}
