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
    a_token_makes_none_that_outlives_it,
    tokens_that_have_ended_are_in_nobodys_way,
    only_hashes_are_stored,
    the_last_use_is_noted_to_the_minute,
);

const READS: [&str; 7] = [
    "/v1/consumers",
    "/v1/workers",
    "/v1/replica-sets",
    "/v1/pools",
    "/v1/deliveries",
    "/v1/batches",
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

async fn a_token_makes_none_that_outlives_it(db: Db) {
    let server = Server::start(&db.log().await).await;
    let mut new = NewToken::new("an hour", [Scope::Operate]);
    new.expires_in_seconds = Some(3600);
    let (_, hour) = server.make(new).await;
    let (_, always) = server.make(NewToken::new("always", [Scope::Operate])).await;
    let until = async |token: &str, more: &str| {
        let body = format!(r#"{{"name": "made", "scopes": ["read-masked"]{more}}}"#);
        let made = server.post("/v1/tokens", token, &body).await.good();
        made["expires_at"].as_str().map(|at| at.parse::<jiff::Timestamp>().unwrap())
    };
    let tokens = server.tokens().list().await.unwrap();
    let own = tokens.iter().find(|token| token.name == "an hour").unwrap().expires_at;
    assert_eq!(until(&hour, "").await, own);
    assert_eq!(until(&hour, r#", "expires_in_seconds": 1000000"#).await, own);
    let sooner = until(&hour, r#", "expires_in_seconds": 60"#).await;
    assert!(sooner.is_some() && sooner < own, "{sooner:?}");
    assert_eq!(until(&always, "").await, None);
    assert!(until(&always, r#", "expires_in_seconds": 1000000"#).await > own);
}

/// Adds a thousand tokens that were made by now, and ended so many days ago.
async fn ended(log: &anabranch::Log, name: &str, column: &str, days: i64) {
    use anabranch::backend::database::{End, Statement};
    let database = log.database();
    let (table, now) = (database.dialect().table("tokens"), database.dialect().now_us());
    let micros = days * 24 * 3600 * 1_000_000;
    let insert = format!(
        "INSERT INTO {table} (id, name, hash, scopes, made_us, made_by, {column}) \
         VALUES ($1, $2, $3, 'read', {now} + 1000000, 'test', {now} - {micros})"
    );
    let one = |number: usize| {
        let id = format!("{name}-{number}");
        let hash = id.clone().into_bytes();
        Statement::new(insert.clone(), anabranch::params![id, name, hash])
    };
    database.control().run((0..1000).map(one).collect(), End::Commit).await.unwrap();
}

async fn tokens_that_have_ended_are_in_nobodys_way(db: Db) {
    let server = Server::start(&db.log().await).await;
    let (id, _) = server.make(NewToken::new("live", [Scope::Read])).await;
    ended(&server.log, "revoked", "revoked_us", 1).await;
    ended(&server.log, "expired", "expires_us", 1).await;
    // They do not count among those that there may be, and hide none that can be used.
    server.make(NewToken::new("another", [Scope::Read])).await;
    let listed = server.tokens().list().await.unwrap();
    assert_eq!(listed.len(), 1000);
    assert_eq!((listed[0].name.as_str(), listed[1].id.as_str()), ("another", id.as_str()));
    // In the end they are forgotten, and that there was a token is not.
    ended(&server.log, "long ago", "revoked_us", 91).await;
    server.make(NewToken::new("last", [Scope::Read])).await;
    let table = server.log.database().dialect().table("tokens");
    let sql = format!("SELECT count(*) AS there FROM {table} WHERE name = 'long ago'");
    let rows = crate::support::query(&server.log, &sql, vec![]).await;
    assert_eq!(rows[0].get::<i64>(0).unwrap(), 0);
    server.ask("GET", "/v1/consumers", &[], "").await.problem(401, "not_authenticated");
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
    assert_eq!(used.as_microsecond() % 60_000_000, 0);
}
