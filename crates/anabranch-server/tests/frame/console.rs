//! The files of the console: what a browser gets, from where, and who else.

use crate::client::Server;
use crate::support::Db;
use anabranch_server::{Api, Scope, ServerLimits};
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::{Router, routing};
use std::collections::BTreeMap;
use std::path::Path;
use tower_service::Service;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

async fn server() -> (Db, Server) {
    let db = Db::sqlite();
    let server = Server::start(&db.log().await).await;
    (db, server)
}

/// The files on the disk, by their names below `console/`.
fn files() -> BTreeMap<String, String> {
    fn read(folder: &Path, below: &Path, all: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, below, all);
            } else {
                let name = path.strip_prefix(below).unwrap().to_string_lossy().into_owned();
                all.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
    let mut all = BTreeMap::new();
    read(&folder, &folder, &mut all);
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_and_its_parts_are_there_for_anybody() {
    let (_db, server) = server().await;
    // Also when everything else needs a token.
    server.token(&[Scope::Read]).await;
    let page = server.ask("GET", "/", &[], "").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let mut files = files();
    let index = files.remove("index.html").unwrap();
    assert_eq!(page.text, index.replace("{mount}", ""));
    for (name, text) in files {
        let part = server.ask("GET", &format!("/console/{name}"), &[], "").await;
        assert_eq!((part.status, &part.text), (200, &text), "{name}");
        let kind = match name.rsplit_once('.').unwrap().1 {
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("a file that ends in {other}"),
        };
        assert_eq!(part.header("content-type"), kind, "{name}");
    }
    // Nothing else: not the page with its places for words, and no file of the machine.
    for path in
        ["/console/index.html", "/console/none.js", "/console/../Cargo.toml", "/console/%2e%2e/x"]
    {
        server.ask("GET", path, &[], "").await.problem(404, "no_such_route");
    }
    server.ask("POST", "/", &[("x-anabranch", "1")], "").await.problem(405, "method_not_allowed");
    server.ask("GET", "/v1/consumers", &[], "").await.problem(401, "not_authenticated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_runs_nothing_that_comes_from_elsewhere() {
    let (_db, server) = server().await;
    for path in ["/", "/console/app.js", "/console/app.css", "/console/icon.svg"] {
        let answer = server.ask("GET", path, &[], "").await;
        assert_eq!(answer.header("content-security-policy"), POLICY, "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin", "{path}");
    }
    // The policy would stop what stands in the page itself.
    let page = server.ask("GET", "/", &[], "").await.text;
    for inside in ["<style", " style=", "onclick=", "onload=", "javascript:", "http://", "https://"]
    {
        assert!(!page.contains(inside), "the page has {inside}");
    }
    assert_eq!(
        page.matches("<script").count(),
        page.matches("<script type=\"module\" src=").count()
    );
    // The API's answers have their own.
    let api = server.ask("GET", "/v1/consumers", &[], "").await;
    assert!(!api.header("content-security-policy").contains("self"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_the_browser_has_is_not_sent_again() {
    let (_db, server) = server().await;
    let mut tags = Vec::new();
    for path in ["/", "/console/app.js"] {
        let answer = server.ask("GET", path, &[], "").await;
        let tag = answer.header("etag").to_owned();
        assert!(tag.starts_with('"') && tag.len() > 10, "{tag}");
        assert_eq!(answer.header("cache-control"), "no-cache");
        let again = server.ask("GET", path, &[("if-none-match", &tag)], "").await;
        assert_eq!((again.status, again.text.as_str()), (304, ""));
        assert_eq!((again.header("etag"), again.header("cache-control")), (&*tag, "no-cache"));
        assert_eq!(again.header("content-security-policy"), POLICY);
        let other = server.ask("GET", path, &[("if-none-match", "\"other\"")], "").await;
        assert_eq!((other.status, other.text), (200, answer.text));
        let head = server.ask("HEAD", path, &[], "").await;
        assert_eq!((head.status, head.text.as_str(), head.header("etag")), (200, "", &*tag));
        tags.push(tag);
    }
    assert_ne!(tags[0], tags[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_for_its_own_host_and_site() {
    let (_db, server) = server().await;
    for path in ["/", "/console/app.js"] {
        for host in ["evil.example", "localhost.evil", ""] {
            let refused = server.ask("GET", path, &[("host", host)], "").await;
            refused.problem(403, "wrong_host");
        }
        // As a part of a page of another site.
        let part = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")];
        server.ask("GET", path, &part, "").await.problem(403, "cross_site");
        // A link may lead here.
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(server.ask("GET", path, &link, "").await.status, 200);
    }
    let named = |api: Api| api.host("Events.Example");
    let named = Server::with(&server.log, ServerLimits::default(), named).await;
    assert_eq!(named.ask("GET", "/", &[("host", "events.example:443")], "").await.status, 200);
}

async fn ask(app: &Router, path: &str) -> (u16, String) {
    let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
    let response = app.clone().call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 10_000_000).await.unwrap();
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_wherever_it_is_mounted() {
    let db = Db::sqlite();
    let log = db.log().await;
    let api = Api::new(&log).mounted_at("/deep/events").router();
    let own = Router::new().route("/", routing::get(|| async { "mine" }));
    let app = own.nest("/deep/events", api);
    assert_eq!(ask(&app, "/").await, (200, "mine".to_owned()));
    let (status, page) = ask(&app, "/deep/events").await;
    assert_eq!(status, 200);
    assert!(page.contains("name=\"anabranch-mount\" content=\"/deep/events\""), "{page}");
    // Each address in it leads to a file.
    let mut found = 0;
    for attribute in ["src=\"", "href=\""] {
        for rest in page.split(attribute).skip(1) {
            let address = rest.split('"').next().unwrap();
            assert!(address.starts_with("/deep/events/console/"), "{address}");
            assert_eq!(ask(&app, address).await.0, 200, "{address}");
            found += 1;
        }
    }
    assert!(found >= 3, "{page}");
    assert_eq!(ask(&app, "/console/app.js").await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_can_be_left_out() {
    let db = Db::sqlite();
    let log = db.log().await;
    let api = Api::new(&log).open_until_first_token().console(false);
    // A router without it goes into one that has a page of its own at the root.
    let app = Router::new().route("/", routing::get(|| async { "mine" })).merge(api.router());
    assert_eq!(ask(&app, "/").await, (200, "mine".to_owned()));
    assert_eq!(ask(&app, "/console/app.js").await.0, 404);
    assert_eq!(ask(&app, "/v1/consumers").await.0, 200);
}
