//! Who may only read: sees all of it, no button, and is refused by the server as well.

use crate::browser::Browser;
use crate::stage::{Stage, until};
use crate::tab::Tab;

fn log_in(stage: &Stage, tab: &Tab, token: &str) {
    tab.goto(&stage.page("#/"));
    tab.wait_for("[data-test=login]");
    tab.fill("[data-test=login-token]", token);
    tab.press("Enter");
    tab.wait_for("[data-test=logout]");
}

fn log_out(tab: &Tab) {
    tab.click("[data-test=logout]");
    tab.wait_for("[data-test=login]");
}

#[test]
fn nobody_is_shown_what_the_token_before_could_see() {
    let stage = Stage::sqlite();
    // Two errors, and neither is shown to who may not see them.
    stage.order("1", r#"{"cents": 40}"#);
    stage.order("1", r#"{"cents": 2}"#);
    stage.order("2", r#"{"price": 2}"#);
    let _worker = stage.worker();
    until("the keys are parked", || {
        stage.command(&["parked", "list", "totals", "--json"]).lines().count() == 2
    });
    let (reader, masked) =
        (stage.token("reader", "read"), stage.token("masked", "read-masked,operate"));
    let browser = Browser::start();
    let tab = browser.tab();
    tab.expect_complaints("status of 401");
    log_in(&stage, &tab, &reader);
    stage.open(&tab, "#/events/1");
    assert_eq!(tab.text("[data-test=event-data]"), r#"{"cents": 40}"#);
    log_out(&tab);
    assert_eq!(tab.count("[data-test=event-data]"), 0);
    tab.fill("[data-test=login-token]", &masked);
    tab.press("Enter");
    tab.wait_for("[data-test=logout]");
    stage.open(&tab, "#/events/1");
    assert_eq!(tab.count("[data-test=event-data]"), 0);
    assert!(tab.text("[data-test=page]").contains("Your token does not show it"));
    stage.open(&tab, "#/failed");
    assert_eq!(tab.count("[data-test=failed-group]"), 2, "both groups, though they say the same");
    let of_group = "[data-test=failed-group] [data-test=do]";
    assert_eq!(tab.count(of_group), 0, "they cannot be told apart, so none is acted on alone");
}

#[test]
fn who_may_only_read_sees_no_buttons_and_is_refused() {
    let stage = Stage::sqlite();
    stage.order("1", r#"{"cents": 40}"#);
    stage.order("1", r#"{"cents": 2}"#);
    let _worker = stage.worker();
    until("the key is set aside", || {
        stage.command(&["parked", "list", "totals", "--json"]).contains("Order:1")
    });
    let (reader, operator) =
        (stage.token("reader", "read"), stage.token("operator", "read,operate"));
    let browser = Browser::start();
    let tab = browser.tab();
    tab.expect_complaints("status of 401");
    tab.goto(&stage.page("#/"));
    tab.wait_for("[data-test=login]");
    tab.fill("[data-test=login-token]", "anb_wrong");
    tab.click("[data-test=login-submit]");
    tab.wait_for("[data-test=problem][data-code=not_authenticated]");
    assert_eq!(tab.js("document.cookie"), "", "and no script reads one");
    log_in(&stage, &tab, &reader);

    for page in [
        "#/",
        "#/consumers/totals",
        "#/failed",
        "#/tasks",
        "#/deliveries",
        "#/batches",
        "#/journal",
    ] {
        stage.open(&tab, page);
        assert_eq!(tab.count("[data-test=do]"), 0, "{page} has a button for who may only read");
        assert_eq!(tab.count("[data-test=problem]"), 0, "{page}");
    }
    stage.open(&tab, "#/failed");
    tab.click("[data-test=failed-open]");
    tab.wait("it is seen", "document.body.textContent.includes('Order:1')");
    let ask = |name: &str| {
        format!(
            "fetch('/v1/plans', {{ method: 'POST', headers: {{ {name} 'content-type': 'application/json' }}, \
             body: JSON.stringify({{ do: 'pause', consumer: 'totals' }}) }}).then((answer) => answer.status)"
        )
    };
    tab.expect_complaints("status of 403");
    assert_eq!(tab.js(&ask("'x-anabranch': '1',")), 403, "may not");
    assert_eq!(stage.command(&["plans", "list", "--json"]), "");

    // The same page, for who may.
    let other = browser.tab();
    other.expect_complaints("status of 401");
    log_in(&stage, &other, &operator);
    stage.open(&other, "#/failed");
    other.wait_for("[data-test=do][data-do=parked]");
    other.expect_complaints("status of 403");
    assert_eq!(other.js(&ask("")), 403, "not meant by the page");
    assert_eq!(other.js(&ask("'x-anabranch': '1',")), 201);

    // Logged out, and the token revoked under a page that is open.
    log_out(&tab);
    assert_eq!(tab.js("fetch('/v1/consumers').then((answer) => answer.status)"), 401);
    let tokens = stage.command(&["token", "list", "--json"]);
    let tokens =
        tokens.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let own = tokens.into_iter().find(|token| token["name"] == "operator").unwrap();
    stage.command(&["token", "revoke", own["id"].as_str().unwrap()]);
    other.wait_for("[data-test=login]");
    other.js("location.hash = '#/events'");
    log_in(&stage, &other, &reader);
    stage.open(&other, "#/events");
}
