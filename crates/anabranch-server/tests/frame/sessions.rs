//! Browsers: cookies, the header that goes with them, and the end of a session.

use crate::client::{Answer, Server};
use crate::on_both;
use crate::support::Db;
use anabranch_server::{NewToken, Scope, ServerLimits};
use std::time::{Duration, Instant};

on_both!(
    a_browser_logs_in_and_out,
    a_cookie_alone_changes_nothing,
    a_session_ends_with_its_token,
    a_session_ends_after_twelve_hours,
    wrong_logins_are_limited_and_others_go_on,
    a_burst_of_wrong_tokens_is_limited,
    logging_out_with_wrong_cookies_is_limited,
);

const JSON: (&str, &str) = ("content-type", "application/json");
const MEANT: (&str, &str) = ("x-anabranch", "1");

async fn log_in(server: &Server, token: &str) -> Answer {
    let body = format!(r#"{{"token": "{token}"}}"#);
    server.ask("POST", "/v1/session", &[JSON, MEANT], &body).await
}

/// What a browser sends of what it was told to keep.
fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

async fn a_browser_logs_in_and_out(db: Db) {
    let server = Server::start(&db.log().await).await;
    let token = server.token(&[Scope::Read]).await;
    let answer = log_in(&server, &token).await;
    let set = answer.header("set-cookie").to_owned();
    for part in ["anabranch_session=", "HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("Secure") && !set.contains(&token), "{set}");
    let cookie = cookie(&answer);
    assert_eq!(answer.good()["via"], "session");
    let me = server.ask("GET", "/v1/session", &[("cookie", &cookie)], "").await.good();
    assert_eq!((&me["via"], &me["name"]), (&"session".into(), &"test".into()));
    server.ask("GET", "/v1/consumers", &[("cookie", &cookie)], "").await.good();
    // Beside cookies of others.
    let many = format!("a=b; {cookie}; anabranch_sessions=x");
    server.ask("GET", "/v1/consumers", &[("cookie", &many)], "").await.good();
    // A cookie is no token, and a token is no cookie.
    let value = cookie.split_once('=').unwrap().1;
    server.get("/v1/consumers", &format!("anb_{value}")).await.problem(401, "not_authenticated");
    let wrong = format!("anabranch_session={}", token.strip_prefix("anb_").unwrap());
    let wrong = server.ask("GET", "/v1/consumers", &[("cookie", &wrong)], "").await;
    wrong.problem(401, "not_authenticated");
    let out = server.ask("DELETE", "/v1/session", &[("cookie", &cookie), MEANT], "").await;
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    let after = server.ask("GET", "/v1/consumers", &[("cookie", &cookie)], "").await;
    after.problem(401, "not_authenticated");
    // Where the connection is encrypted, the cookie goes over no other.
    let body = format!(r#"{{"token": "{token}"}}"#);
    let headers = [JSON, MEANT, ("x-forwarded-proto", "https")];
    let answer = server.ask("POST", "/v1/session", &headers, &body).await;
    assert!(answer.header("set-cookie").contains("; Secure"));
    let set = |api: anabranch_server::Api| api.encrypted().mounted_at("/ops");
    let other = Server::with(&server.log, ServerLimits::default(), set).await;
    let answer = log_in(&other, &token).await;
    let set = answer.header("set-cookie");
    assert!(set.contains("; Secure") && set.contains("Path=/ops;"), "{set}");
}

async fn a_cookie_alone_changes_nothing(db: Db) {
    let server = Server::start(&db.log().await).await;
    let token = server.token(&[Scope::Operate, Scope::Append]).await;
    let cookie = cookie(&log_in(&server, &token).await);
    let made = r#"{"name": "x", "scopes": ["read-masked"]}"#;
    for (path, body) in [
        ("/v1/tokens", made),
        ("/v1/session", "{}"),
        ("/v1/streams/A/1", r#"{"events": [{"type": "A", "data": 1}]}"#),
    ] {
        let refused = server.ask("POST", path, &[("cookie", &cookie), JSON], body).await;
        refused.problem(403, "cross_site");
        let headers = [("cookie", cookie.as_str()), JSON, ("x-anabranch", "2")];
        let refused = server.ask("POST", path, &headers, body).await;
        refused.problem(403, "cross_site");
    }
    let refused = server.ask("DELETE", "/v1/tokens/x", &[("cookie", &cookie)], "").await;
    refused.problem(403, "cross_site");
    server.ask("POST", "/v1/tokens", &[("cookie", &cookie), JSON, MEANT], made).await.good();
    assert_eq!(server.tokens().list().await.unwrap().len(), 2, "one that was meant");
}

async fn a_session_ends_with_its_token(db: Db) {
    let server = Server::start(&db.log().await).await;
    let (id, token) = server.make(NewToken::new("browser", [Scope::Read])).await;
    let operate = server.token(&[Scope::Operate]).await;
    let cookie = cookie(&log_in(&server, &token).await);
    server.ask("GET", "/v1/consumers", &[("cookie", &cookie)], "").await.good();
    let bearer = format!("Bearer {operate}");
    let path = format!("/v1/tokens/{id}");
    server.ask("DELETE", &path, &[("authorization", &bearer)], "").await.good();
    let after = server.ask("GET", "/v1/consumers", &[("cookie", &cookie)], "").await;
    after.problem(401, "not_authenticated");
    log_in(&server, &token).await.problem(401, "not_authenticated");
    // One that logs in while its token is being revoked elsewhere is logged out moments later. This server still knows the
    // token for a second; where the machine was busy for longer, it is tried again.
    let began = Instant::now();
    let late = loop {
        let (id, token) = server.make(NewToken::new("late", [Scope::Read])).await;
        server.get("/v1/consumers", &token).await.good();
        server.tokens().revoke(&id).await.unwrap();
        let late = log_in(&server, &token).await;
        if late.status == 200 {
            break late;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "nobody was late: {}", late.text);
    };
    is_logged_out(&server, &self::cookie(&late)).await;
}

/// Waits until a session has ended.
async fn is_logged_out(server: &Server, cookie: &str) {
    let began = Instant::now();
    while server.ask("GET", "/v1/consumers", &[("cookie", cookie)], "").await.status != 401 {
        assert!(began.elapsed() < Duration::from_secs(20), "the session has not ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn a_session_ends_after_twelve_hours(db: Db) {
    use anabranch::backend::database::{End, Statement};
    let server = Server::start(&db.log().await).await;
    let token = server.token(&[Scope::Read]).await;
    let cookie = cookie(&log_in(&server, &token).await);
    server.ask("GET", "/v1/consumers", &[("cookie", &cookie)], "").await.good();
    let database = server.log.database();
    let table = database.dialect().table("sessions");
    let select = format!("SELECT expires_us - made_us AS lasts FROM {table}");
    let rows = crate::support::query(&server.log, &select, vec![]).await;
    // The clock may be read twice for it.
    let seconds = rows[0].get::<i64>(0).unwrap() / 1_000_000;
    assert_eq!(seconds, 12 * 3600);
    // Twelve hours later.
    let later = format!("UPDATE {table} SET expires_us = expires_us - 43200000000");
    let later = vec![Statement::new(later, vec![])];
    database.control().run(later, End::Commit).await.unwrap();
    is_logged_out(&server, &cookie).await;
}

async fn wrong_logins_are_limited_and_others_go_on(db: Db) {
    let server = Server::start(&db.log().await).await;
    let token = server.token(&[Scope::Read, Scope::Operate]).await;
    server.get("/v1/consumers", &token).await.good();
    let mut refused = None;
    for number in 0..50 {
        let wrong = format!("anb_{number:043}");
        let answer = log_in(&server, &wrong).await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
        answer.problem(401, "not_authenticated");
    }
    let refused = refused.expect("nobody stops somebody who tries");
    refused.problem(429, "too_many_requests");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() <= 61);
    // By the other way as well.
    let wrong = format!("anb_{:043}", 999);
    server.get("/v1/consumers", &wrong).await.problem(429, "too_many_requests");
    // Who was good a moment ago stays so, at the same address, also when it is looked up again.
    server.get("/v1/consumers", &token).await.good();
    let made = r#"{"name": "after that all are looked up", "scopes": ["read"]}"#;
    server.post("/v1/tokens", &token, made).await.good();
    server.get("/v1/consumers", &token).await.good();
}

async fn a_burst_of_wrong_tokens_is_limited(db: Db) {
    let server = Server::start(&db.log().await).await;
    server.token(&[Scope::Read]).await;
    let wrong: Vec<_> = (0..200).map(|number| format!("anb_{number:043}")).collect();
    let answers = wrong.iter().map(|wrong| server.get("/v1/consumers", wrong));
    let answers = futures_util::future::join_all(answers).await;
    let looked_up = answers.iter().filter(|answer| answer.status == 401).count();
    // A few are looked up at the same time, and their mistakes are counted when they are known.
    assert!((20..24).contains(&looked_up), "{looked_up} of 200 were looked up");
    assert!(answers.iter().all(|answer| [401, 429].contains(&answer.status)));
}

async fn logging_out_with_wrong_cookies_is_limited(db: Db) {
    let server = Server::start(&db.log().await).await;
    let token = server.token(&[Scope::Read]).await;
    let cookie = cookie(&log_in(&server, &token).await);
    server.ask("GET", "/v1/consumers", &[("cookie", &cookie)], "").await.good();
    for number in 0..20 {
        let wrong = format!("anabranch_session={number:043}");
        let out = server.ask("DELETE", "/v1/session", &[("cookie", &wrong), MEANT], "").await;
        // Whoever is logged out already is told so.
        assert_eq!(out.status, 204, "{}", out.text);
    }
    let wrong = format!("anabranch_session={:043}", 20);
    let out = server.ask("DELETE", "/v1/session", &[("cookie", &wrong), MEANT], "").await;
    out.problem(429, "too_many_requests");
    // Who is logged in can log out all the same.
    let out = server.ask("DELETE", "/v1/session", &[("cookie", &cookie), MEANT], "").await;
    assert_eq!(out.status, 204, "{}", out.text);
}
