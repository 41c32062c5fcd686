//! That the browser and its tab do what a person does, and find what they should find.

use crate::browser::Browser;
use crate::tab::Theme;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpListener;

const PAGE: &str = r#"<!doctype html><html lang="en"><title>A page</title><body style="margin: 0">
<style>@media (prefers-color-scheme: dark) { body { background: black } }</style>
<button onclick="1" data-test="count">0</button> <input data-test="name"> <p data-test="later"></p>
<button data-test="copy">copy</button>
<div style="height: 3000px"></div><button data-test="below">below</button>
<button data-test="covered" style="position: fixed; top: 200px">a</button>
<div style="position: fixed; top: 190px; width: 300px; height: 60px; background: red"></div>
<script nonce="n">
const find = (name) => document.querySelector(`[data-test=${name}]`);
find('count').addEventListener('click', (event) => { event.target.textContent -= -1; });
find('below').addEventListener('click', (event) => { event.target.textContent = event.isTrusted; });
find('copy').addEventListener('click', () => navigator.clipboard.writeText('copied'));
find('name').addEventListener('keydown', (event) => {
  if (event.key === 'Enter') setTimeout(() => { find('later').textContent = 'Hello, ' + event.target.value; }, 50);
});
window.complain = () => { console.error('a complaint', 7); setTimeout(() => { throw new Error('thrown'); }); };
</script>"#;

/// A server of one page, for as long as somebody asks; and its address.
fn serve(page: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap_or(0);
            let status =
                if head[..length].starts_with(b"GET / ") { "200 OK" } else { "404 Not Found" };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\
                 content-security-policy: script-src 'nonce-n'\r\n\r\n{page}",
                page.len()
            );
        }
    });
    url
}

/// The size of a picture, which stands at the beginning of its file.
fn size(picture: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().unwrap());
    assert!(picture.starts_with(b"\x89PNG"));
    (number(16), number(20))
}

#[test]
fn a_tab_clicks_types_waits_and_notices_complaints() {
    let url = serve(PAGE);
    let browser = Browser::start();
    let tab = browser.tab();
    tab.goto(&url);
    // The page has a handler in an attribute, and no icon.
    tab.wait("the policy was noticed", "true");
    let noticed = tab.complaints().join("\n");
    assert!(noticed.contains("content security policy"), "{noticed}");
    tab.expect_complaints("content security policy");
    tab.expect_complaints("Content Security Policy");
    tab.expect_complaints("favicon.ico");

    tab.click("[data-test=count]");
    assert_eq!(tab.text("[data-test=count]"), "1");
    tab.click("[data-test=below]");
    assert_eq!(tab.text("[data-test=below]"), "true", "it was scrolled to, and is a real click");
    tab.fill("[data-test=name]", "Grace Hopper 1906");
    tab.press("Enter");
    tab.wait("it is said", "document.body.textContent.includes('Hello, Grace Hopper 1906')");
    tab.press("Shift+Tab");
    assert_eq!(tab.js("document.activeElement.dataset.test"), "count");
    tab.click("[data-test=copy]");
    assert_eq!(tab.js("navigator.clipboard.readText()"), "copied");

    let covered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        tab.click_within(std::time::Duration::from_millis(100), "[data-test=covered]", 0);
    }));
    let why = covered.unwrap_err().downcast::<String>().unwrap();
    assert!(why.contains("lies over it") && why.contains("Hello, Grace"), "{why}");
    let of_failure = why.lines().find_map(|line| line.strip_prefix("its picture: ")).unwrap();
    assert_eq!(size(&std::fs::read(of_failure).unwrap()), (1280, 800));
    std::fs::remove_file(of_failure).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("pictures/page.png");
    let is_dark = "matchMedia('(prefers-color-scheme: dark)').matches";
    for (theme, width) in [(Theme::Dark, 360), (Theme::Light, 1280)] {
        tab.resize(width, 500);
        tab.prefer(theme, true);
        tab.wait("it has that size", &format!("innerWidth === {width}"));
        assert_eq!(tab.js(is_dark), theme == Theme::Dark);
        assert_eq!(tab.js("matchMedia('(prefers-reduced-motion: reduce)').matches"), true);
        tab.screenshot(&picture);
        assert_eq!(size(&std::fs::read(&picture).unwrap()), (width, 500));
    }
    assert!(tab.transferred() > PAGE.len() as f64);

    assert_eq!(tab.complaints(), Vec::<String>::new());
    tab.js("complain()");
    crate::stage::until("both are noticed", || tab.complaints().len() == 2);
    let noticed = tab.complaints().join("\n");
    for said in [r#""a complaint" 7"#, "Error: thrown"] {
        assert!(noticed.contains(said), "{said} in {noticed}");
        tab.expect_complaints(said);
    }

    // Cookies are those of one tab.
    tab.js("document.cookie = 'a=1'");
    let other = browser.tab();
    other.expect_complaints("");
    other.goto(&url);
    assert_eq!(json!([tab.js("document.cookie"), other.js("document.cookie")]), json!(["a=1", ""]));
}
