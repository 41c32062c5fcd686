//! Tokens that are limited to consumers or tenants.

use crate::client::Server;
use crate::filled::filled;
use crate::on_both;
use crate::support::Db;
use anabranch_server::{NewToken, Scope};

on_both!(
    another_consumer_is_as_if_it_were_not_there,
    what_a_worker_says_of_other_consumers_is_left_out,
    what_nobody_keeps_to_its_limits_is_refused,
);

async fn limited_to(server: &Server, consumers: &[&str]) -> String {
    let mut new = NewToken::new("limited", [Scope::Read, Scope::Operate]);
    new.consumers = Some(consumers.iter().map(|name| (*name).to_owned()).collect());
    server.make(new).await.1
}

async fn another_consumer_is_as_if_it_were_not_there(db: Db) {
    let server = Server::start(&filled(&db).await.log).await;
    let token = limited_to(&server, &["others", "missing"]).await;
    let list = server.get("/v1/consumers", &token).await;
    assert!(list.status == 200 && !list.text.contains("orders"), "{}", list.text);
    server.get("/v1/consumers/others", &token).await.good();
    for rest in [
        "",
        "/slots",
        "/parked",
        "/parked/groups",
        "/parked/Order:2",
        "/audit",
        "/explain?key=Order:2",
    ] {
        let of = |name: &str| format!("/v1/consumers/{name}{rest}");
        let there = server.get(&of("orders"), &token).await;
        there.problem(404, "no_such_consumer");
        // Word for word what is said of one that does not exist, theirs or not.
        for other in ["nobody", "missing"] {
            let other_answer = server.get(&of(other), &token).await;
            assert_eq!(other_answer.text.replace(other, "orders"), there.text, "{rest}");
        }
    }
    server.get("/v1/deliveries?consumer=orders", &token).await.problem(404, "no_such_consumer");
    server.get("/v1/deliveries", &token).await.problem(400, "invalid_input");
    server.get("/v1/tasks?pool=mails", &token).await.problem(404, "no_such_pool");
    assert_eq!(server.get("/v1/pools", &token).await.good()["items"], serde_json::json!([]));
}

async fn what_a_worker_says_of_other_consumers_is_left_out(db: Db) {
    use anabranch::prelude::ReplicaSet;
    let log = db.log().await;
    crate::support::fill(&log, 0..3, 1..=1).await;
    let set =
        ReplicaSet::new("main").projection(db.recorder("mine")).projection(db.recorder("theirs"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = {
        let log = log.clone();
        tokio::spawn(async move { set.run_until(&log, async { drop(stopped.await) }).await })
    };
    let server = Server::start(&log).await;
    let whole = server.token(&[Scope::Read]).await;
    let token = limited_to(&server, &["mine"]).await;
    let began = std::time::Instant::now();
    loop {
        // The worker runs both, and says so; an owner is only named.
        let all = server.get("/v1/workers", &whole).await;
        let mine = server.get("/v1/consumers/mine", &whole).await;
        if all.text.contains("theirs") && mine.text.contains("\"pid\"") {
            break;
        }
        assert!(began.elapsed().as_secs() < 30, "no worker has claimed it: {}", all.text);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    for path in [
        "/v1/consumers",
        "/v1/consumers/mine",
        "/v1/consumers/mine/slots",
        "/v1/consumers/mine/explain?key=1",
    ] {
        let answer = server.get(path, &token).await;
        assert!(answer.status == 200 && !answer.text.contains("theirs"), "{path}: {}", answer.text);
    }
    assert!(server.get("/v1/consumers/mine", &token).await.text.contains("\"pid\""));
    drop(stop);
    running.await.unwrap().unwrap();
}

async fn what_nobody_keeps_to_its_limits_is_refused(db: Db) {
    let server = Server::start(&db.log().await).await;
    let consumers = limited_to(&server, &["orders"]).await;
    let mut new = NewToken::new("tenant", [Scope::Read, Scope::Operate]);
    new.tenants = Some(["acme".to_owned()].into());
    let (_, tenants) = server.make(new).await;
    for path in [
        "/v1/workers",
        "/v1/replica-sets",
        "/v1/generations",
        "/v1/tokens",
        "/v1/workflows",
        "/v1/batches",
        "/v1/batches/mails/failed",
    ] {
        server.get(path, &consumers).await.problem(403, "not_allowed");
        server.get(path, &tenants).await.problem(403, "not_allowed");
    }
    for path in ["/v1/consumers", "/v1/pools", "/v1/deliveries"] {
        server.get(path, &tenants).await.problem(403, "not_allowed");
    }
    let me = server.get("/v1/session", &tenants).await.good();
    assert_eq!(me["tenants"], serde_json::json!(["acme"]));
}
