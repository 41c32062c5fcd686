//! The API in a program of one's own.

use crate::on_both;
use crate::support::Db;
use anabranch_server::{Api, NewToken, Scope, Tokens, router};
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use axum::{Router, routing};
use tower_service::Service;

on_both!(
    a_router_is_mounted_under_any_path_and_asks_for_a_token,
    a_mounted_router_answers_for_its_hosts_only,
    links_lead_on_below_the_place_where_it_is_mounted,
    who_is_not_known_learns_nothing_of_the_database
);

async fn ask(app: &Router, path: &str, token: Option<&str>) -> (u16, String) {
    let mut request = Request::get(path).header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    send(app, request.body(Body::empty()).unwrap()).await
}

async fn send(app: &Router, request: Request<Body>) -> (u16, String) {
    let response: Response<Body> = app.clone().call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 10_000_000).await.unwrap();
    (status, String::from_utf8_lossy(&body).into_owned())
}

async fn a_router_is_mounted_under_any_path_and_asks_for_a_token(db: Db) {
    let log = db.log().await;
    let app = Router::new()
        .route("/", routing::get(|| async { "mine" }))
        .nest("/deep/events", router(&log));
    // Before any token was made, too.
    assert_eq!(ask(&app, "/deep/events/v1/consumers", None).await.0, 401);
    let new = NewToken::new("mine", [Scope::Read]);
    let (_, secret) = Tokens::new(&log).make(new, "test").await.unwrap();
    let token = secret.reveal();
    assert_eq!(ask(&app, "/deep/events/v1/consumers", Some(&token)).await.0, 200);
    assert_eq!(ask(&app, "/deep/events/v1/openapi.json", None).await.0, 200);
    assert_eq!(ask(&app, "/", None).await, (200, "mine".to_owned()));
    assert_eq!(ask(&app, "/v1/consumers", Some(&token)).await.0, 404);
}

/// `nest` takes the path of the mount from the request, and must not take the host.
async fn a_mounted_router_answers_for_its_hosts_only(db: Db) {
    let log = db.log().await;
    let api = Api::new(&log).host("events.example").mounted_at("/deep/events");
    let app = Router::new().nest("/deep/events", api.open_until_first_token().router());
    let asks = [
        ("/deep/events/v1/consumers", "events.example", 200),
        ("/deep/events/v1/consumers", "localhost:7070", 200),
        ("/deep/events/v1/consumers", "evil.example", 403),
        // A line with a whole address counts for more than the header, here as well.
        ("http://events.example/deep/events/v1/consumers", "evil.example", 200),
        ("http://evil.example/deep/events/v1/consumers", "events.example", 403),
    ];
    for (path, host, status) in asks {
        let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
        let (answered, said) = send(&app, request).await;
        assert_eq!(answered, status, "{path} at {host}: {said}");
        assert!(status == 200 || said.contains("wrong_host"), "{said}");
    }
    let origin = |origin: &str| {
        let request = Request::get("/deep/events/v1/consumers").header("host", "events.example");
        request.header("origin", origin).body(Body::empty()).unwrap()
    };
    assert_eq!(send(&app, origin("https://events.example")).await.0, 200);
    assert_eq!(send(&app, origin("https://evil.example")).await.0, 403);
}

async fn links_lead_on_below_the_place_where_it_is_mounted(db: Db) {
    let log = db.log().await;
    let api = Api::new(&log).mounted_at("/deep/events").open_until_first_token();
    let app = Router::new().nest("/deep/events", api.router());
    let post = |path: &str, body: &'static str| {
        let request = Request::post(format!("/deep/events{path}")).header("host", "localhost");
        let request = request.header("x-anabranch", "1").header("content-type", "application/json");
        request.body(Body::from(body)).unwrap()
    };
    let follow = async |said: String, member: &str, status: u16| {
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        let link = said[member].as_str().unwrap();
        let (answered, said) = ask(&app, &format!("/deep/events{link}"), None).await;
        assert_eq!(answered, status, "{link}: {said}");
    };
    let event = r#"{"events": [{"type": "A", "data": 1}]}"#;
    assert_eq!(send(&app, post("/v1/streams/seats/a%2Fb", event)).await.0, 200);
    let (status, instance) = ask(&app, "/deep/events/v1/workflows/seats/a%2Fb", None).await;
    assert_eq!(status, 200, "{instance}");
    follow(instance, "events", 200).await;
    let (status, task) =
        send(&app, post("/v1/pools/mails/tasks", r#"{"key": "k", "payload": 1}"#)).await;
    assert_eq!(status, 202, "{task}");
    // It waits for as long as it may by default unless the task is over.
    let cancel: serde_json::Value = serde_json::from_str(&task).unwrap();
    let id: uuid::Uuid = cancel["id"].as_str().unwrap().parse().unwrap();
    anabranch::workpool::Tasks::new(&log, "mails").cancel(id).await.unwrap();
    follow(task, "wait", 200).await;
}

async fn who_is_not_known_learns_nothing_of_the_database(db: Db) {
    use anabranch::backend::database::{End, Statement};
    let log = db.log().await;
    let app = router(&log);
    let table = log.database().dialect().table("tokens");
    let gone = Statement::new(format!("ALTER TABLE {table} RENAME TO gone_{}", db.own), vec![]);
    log.database().control().run(vec![gone], End::Commit).await.unwrap();
    let token = format!("anb_{:043}", 7);
    let (status, said) = ask(&app, "/v1/consumers", Some(&token)).await;
    assert!(status >= 500, "{said}");
    assert!(said.contains("cannot be looked up"), "{said}");
    let own = [db.own.as_str(), "postgres://", "sqlite:", "SELECT", "tokens"];
    assert!(own.iter().all(|word| !said.contains(word)), "{said}");
}
