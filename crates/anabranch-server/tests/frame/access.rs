//! Tokens: what each scope may, and when a token is good.

use crate::client::Server;
use crate::on_both;
use crate::support::Db;
use anabranch_server::{NewToken, Scope};
use std::time::{Duration, Instant};

on_both!(
    a_server_is_open_until_the_first_token_is_made,
    a_revoked_last_token_does_not_open_the_doors,
    each_scope_may_what_it_says_and_nothing_more,
    a_revoked_token_is_refused_within_moments,
    an_expired_token_is_refused,
    a_token_makes_none_that_may_more,
    only_hashes_are_stored,
    the_last_use_is_noted_to_the_minute,
);

const READS: [&str; 6] = [
    "/v1/consumers",
    "/v1/workers",
    "/v1/replica-sets",
    "/v1/pools",
    "/v1/deliveries",
    "/v1/workflows",
];

/// Asks until the answer has this status.
async fn until(server: &Server, path: &str, token: &str, status: u16) {
    let began = Instant::now();
    loop {
        let answer = server.get(path, token).await;
        if answer.status == status {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{}: {}", answer.status, answer.text);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn a_server_is_open_until_the_first_token_is_made(db: Db) {
    let server = Server::start(&db.log().await).await;
    for path in READS {
        server.ask("GET", path, &[], "").await.good();
    }
    let made = r#"{"name": "first", "scopes": ["operate", "read"]}"#;
    let headers = [("x-anabranch", "1"), ("content-type", "application/json")];
    let made = server.ask("POST", "/v1/tokens", &headers, made).await.good();
    for path in READS {
        server.ask("GET", path, &[], "").await.problem(401, "not_authenticated");
        server.get(path, made["secret"].as_str().unwrap()).await.good();
    }
    // Wrong ones of all shapes.
    for wrong in ["", "anb_", "anb_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "x y"] {
        server.get("/v1/consumers", wrong).await.problem(401, "not_authenticated");
    }
    let basic = [("authorization", "Basic YTpi")];
    server.ask("GET", "/v1/consumers", &basic, "").await.problem(401, "not_authenticated");
}

async fn a_revoked_last_token_does_not_open_the_doors(db: Db) {
    let server = Server::start(&db.log().await).await;
    let (id, _) = server.make(NewToken::new("only", [Scope::Read])).await;
    server.tokens().revoke(&id).await.unwrap();
    server.ask("GET", "/v1/consumers", &[], "").await.problem(401, "not_authenticated");
    // Nor does a server that is begun anew.
    let other = Server::start(&server.log).await;
    other.ask("GET", "/v1/consumers", &[], "").await.problem(401, "not_authenticated");
}

async fn each_scope_may_what_it_says_and_nothing_more(db: Db) {
    let server = Server::start(&db.log().await).await;
    let (read, masked) =
        (server.token(&[Scope::Read]).await, server.token(&[Scope::ReadMasked]).await);
    let (operate, append) =
        (server.token(&[Scope::Operate]).await, server.token(&[Scope::Append]).await);
    for path in READS {
        for token in [&read, &masked, &operate] {
            server.get(path, token).await.good();
        }
        server.get(path, &append).await.problem(403, "not_allowed");
    }
    let made = r#"{"name": "x", "scopes": ["read-masked"]}"#;
    for token in [&read, &masked, &append] {
        server.get("/v1/tokens", token).await.problem(403, "not_allowed");
        server.post("/v1/tokens", token, made).await.problem(403, "not_allowed");
        let bearer = format!("Bearer {token}");
        let answer = server.ask("DELETE", "/v1/tokens/x", &[("authorization", &bearer)], "").await;
        answer.problem(403, "not_allowed");
    }
    let event = r#"{"events": [{"type": "A", "data": 1}]}"#;
    server.post("/v1/streams/A/1", &append, event).await.good();
    for token in [&read, &masked, &operate] {
        server.post("/v1/streams/A/1", token, event).await.problem(403, "not_allowed");
    }
    let me = server.get("/v1/session", &masked).await.good();
    assert_eq!((&me["via"], &me["masked"]), (&"token".into(), &true.into()));
    assert_eq!(server.get("/v1/session", &read).await.good()["masked"], false);
}

async fn a_revoked_token_is_refused_within_moments(db: Db) {
    let server = Server::start(&db.log().await).await;
    let (id, token) = server.make(NewToken::new("gone", [Scope::Read])).await;
    server.get("/v1/consumers", &token).await.good();
    // By the command, in another process: the server is not told.
    server.tokens().revoke(&id).await.unwrap();
    until(&server, "/v1/consumers", &token, 401).await;
    // Over the API: at once.
    let operate = server.token(&[Scope::Operate]).await;
    let (id, token) = server.make(NewToken::new("gone", [Scope::Read])).await;
    server.get("/v1/consumers", &token).await.good();
    let bearer = format!("Bearer {operate}");
    let path = format!("/v1/tokens/{id}");
    let revoked = server.ask("DELETE", &path, &[("authorization", &bearer)], "").await;
    assert_eq!(revoked.status, 204);
    server.get("/v1/consumers", &token).await.problem(401, "not_authenticated");
    let headers = [("authorization", bearer.as_str())];
    let again = server.ask("DELETE", "/v1/tokens/nonsense", &headers, "").await;
    again.problem(404, "no_such_token");
}

async fn an_expired_token_is_refused(db: Db) {
    let server = Server::start(&db.log().await).await;
    let mut new = NewToken::new("short", [Scope::Read]);
    new.expires_in_seconds = Some(2);
    let (_, token) = server.make(new).await;
    server.get("/v1/consumers", &token).await.good();
    until(&server, "/v1/consumers", &token, 401).await;
    assert!(server.tokens().list().await.unwrap()[0].expires_at.is_some());
}

async fn a_token_makes_none_that_may_more(db: Db) {
    let server = Server::start(&db.log().await).await;
    let operate = server.token(&[Scope::Operate]).await;
    let more = r#"{"name": "more", "scopes": ["operate", "read"]}"#;
    server.post("/v1/tokens", &operate, more).await.problem(403, "not_allowed");
    let same = r#"{"name": "same", "scopes": ["operate", "read-masked"]}"#;
    let made = server.post("/v1/tokens", &operate, same).await.good();
    assert_eq!(made["made_by"], "test");
    let mut limited = NewToken::new("limited", [Scope::Operate]);
    limited.consumers = Some(["a".to_owned()].into());
    let (_, limited) = server.make(limited).await;
    server.post("/v1/tokens", &limited, same).await.problem(403, "not_allowed");
    for wrong in [
        r#"{"name": "", "scopes": ["operate"]}"#,
        r#"{"name": "a", "scopes": []}"#,
        r#"{"name": "a", "scopes": ["operate"], "consumers": []}"#,
        r#"{"name": "a", "scopes": ["operate"], "expires_in_seconds": 0}"#,
    ] {
        server.post("/v1/tokens", &operate, wrong).await.problem(400, "invalid_input");
    }
    for wrong in [
        r#"{"name": "a", "scopes": ["all"]}"#,
        r#"{"name": "a", "scopes": ["read-masked"], "x": 1}"#,
        "{",
        "",
    ] {
        server.post("/v1/tokens", &operate, wrong).await.problem(400, "invalid_json");
    }
}

async fn only_hashes_are_stored(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let token = server.token(&[Scope::Read, Scope::Operate]).await;
    let secret = token.strip_prefix("anb_").unwrap();
    let listed = server.get("/v1/tokens", &token).await;
    assert!(!listed.text.contains(secret), "{}", listed.text);
    let table = log.database().dialect().table("tokens");
    let sql = format!(
        "SELECT CAST(id AS TEXT) || name || scopes || made_by AS all_text, hash FROM {table}"
    );
    let rows = crate::support::query(&log, &sql, vec![]).await;
    let (text, hash): (String, Vec<u8>) = (rows[0].get(0).unwrap(), rows[0].get(1).unwrap());
    assert_eq!(hash.len(), 32);
    assert!(!text.contains(secret));
    assert!(!hash.windows(8).any(|part| secret.as_bytes().windows(8).any(|other| part == other)));
}

async fn the_last_use_is_noted_to_the_minute(db: Db) {
    let server = Server::start(&db.log().await).await;
    let token = server.token(&[Scope::Read]).await;
    assert!(server.tokens().list().await.unwrap()[0].used_at.is_none());
    server.get("/v1/consumers", &token).await.good();
    let began = Instant::now();
    let used = loop {
        if let Some(used) = server.tokens().list().await.unwrap()[0].used_at {
            break used;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "it was never noted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(used.as_second() % 60, 0);
}
