//! Other web sites, and what every answer has.

use crate::client::Server;
use crate::support::Db;
use anabranch_server::ServerLimits;

const JSON: (&str, &str) = ("content-type", "application/json");
const TOKEN: &str = r#"{"name": "x", "scopes": ["read"]}"#;

async fn server() -> (Db, Server) {
    let db = Db::sqlite();
    let server = Server::start(&db.log().await).await;
    (db, server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_host_is_refused_though_it_leads_here() {
    let (_db, server) = server().await;
    for host in
        ["evil.example", "evil.example:7070", "127.0.0.1.evil.example", "localhost.evil", ""]
    {
        let refused = server.ask("GET", "/v1/consumers", &[("host", host)], "").await;
        refused.problem(403, "wrong_host");
    }
    for host in ["localhost:7070", "127.0.0.1", "[::1]:80"] {
        server.ask("GET", "/v1/consumers", &[("host", host)], "").await.good();
    }
    for path in ["/metrics", "/livez", "/readyz"] {
        let refused = server.ask("GET", path, &[("host", "evil.example")], "").await;
        refused.problem(403, "wrong_host");
    }
    // Where other machines reach it, probes ask by whatever name they like, and learn nothing else.
    let far = |api: anabranch_server::Api| api.open_metrics(false);
    let far = Server::with(&server.log, ServerLimits::default(), far).await;
    let live = far.ask("GET", "/livez", &[("host", "pod-7.internal")], "").await;
    assert_eq!((live.status, live.text.as_str()), (200, "ok\n"));
    let named = |api: anabranch_server::Api| api.host("Events.Example");
    let other = Server::with(&server.log, ServerLimits::default(), named).await;
    other.ask("GET", "/v1/consumers", &[("host", "events.example:443")], "").await.good();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_site_changes_and_reads_nothing() {
    let (_db, server) = server().await;
    // What forms and scripts can send without being allowed to.
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/json",
    ] {
        let refused = server.ask("POST", "/v1/tokens", &[("content-type", kind)], TOKEN).await;
        refused.problem(403, "cross_site");
    }
    let meant = ("x-anabranch", "1");
    for origin in ["https://evil.example", "null", "http://localhost:1"] {
        let headers = [JSON, meant, ("origin", origin)];
        server.ask("POST", "/v1/tokens", &headers, TOKEN).await.problem(403, "cross_site");
        server
            .ask("GET", "/v1/consumers", &[("origin", origin)], "")
            .await
            .problem(403, "cross_site");
    }
    for site in ["cross-site", "same-site"] {
        let headers = [JSON, meant, ("sec-fetch-site", site)];
        server.ask("POST", "/v1/tokens", &headers, TOKEN).await.problem(403, "cross_site");
    }
    // Nobody is ever allowed to: not even asked.
    let asks = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
    let answer = server.ask("OPTIONS", "/v1/tokens", &asks, "").await;
    assert_eq!(answer.status, 405);
    assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control")));
    assert!(server.tokens().list().await.unwrap().is_empty(), "nothing was changed");
    let ours = format!("http://{}", server.address);
    let headers = [JSON, meant, ("origin", ours.as_str()), ("sec-fetch-site", "same-origin")];
    server.ask("POST", "/v1/tokens", &headers, TOKEN).await.good();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_has_the_headers_that_protect() {
    let (_db, server) = server().await;
    for (method, path, status) in [
        ("GET", "/v1/consumers", 200),
        ("GET", "/v1/openapi.json", 200),
        ("GET", "/livez", 200),
        ("GET", "/v1/consumers/none", 404),
        ("GET", "/nothing", 404),
        ("PUT", "/v1/consumers", 405),
        ("POST", "/v1/tokens", 403),
    ] {
        let answer = server.ask(method, path, &[], "").await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
    }
    let answer = server.ask("PUT", "/v1/session", &[], "").await;
    let allow = answer.header("allow");
    for method in ["GET", "POST", "DELETE"] {
        assert!(allow.contains(method), "{allow}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_comes_back_in_an_error() {
    let (_db, server) = server().await;
    server.token(&[anabranch_server::Scope::Read]).await;
    let wrong = format!("anb_{}", "S3cr3t-".repeat(6));
    let bearer = format!("Bearer {wrong}");
    for (path, headers, body) in [
        ("/v1/session", vec![JSON, ("x-anabranch", "1")], format!(r#"{{"token": "{wrong}"}}"#)),
        (
            "/v1/session",
            vec![JSON, ("x-anabranch", "1")],
            format!(r#"{{"token": "{wrong}", "x": 1}}"#),
        ),
        ("/v1/tokens", vec![JSON, ("authorization", bearer.as_str())], TOKEN.to_owned()),
    ] {
        let answer = server.ask("POST", path, &headers, &body).await;
        assert!(answer.status >= 400 && !answer.text.contains("S3cr3t"), "{}", answer.text);
    }
}
