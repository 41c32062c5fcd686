//! The API in a program of one's own.

use crate::on_both;
use crate::support::Db;
use anabranch_server::{NewToken, Scope, Tokens, router};
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use axum::{Router, routing};
use tower_service::Service;

on_both!(
    a_router_is_mounted_under_any_path_and_asks_for_a_token,
    who_is_not_known_learns_nothing_of_the_database
);

async fn ask(app: &Router, path: &str, token: Option<&str>) -> (u16, String) {
    let mut request = Request::get(path).header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response: Response<Body> =
        app.clone().call(request.body(Body::empty()).unwrap()).await.unwrap();
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
