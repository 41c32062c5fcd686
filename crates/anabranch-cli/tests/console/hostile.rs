//! Events that would like to be a page: what they hold is text, wherever it is shown.

use crate::browser::Browser;
use crate::operations::with_dry_run;
use crate::place::Place;
use crate::stage::{FILE, Stage, until};
use crate::tab::Tab;
use anabranch::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Ends an attribute, a tag and a text, and would run in three ways.
const EVIL: &str = r#"'"></script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">${window.hacked=1}"#;

/// As part of an address.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Nothing of it has run, and none of it is anything but text.
fn is_text(tab: &Tab, page: &str) {
    let made = "document.querySelectorAll('img, [onerror], body script, iframe').length";
    assert_eq!(tab.js(made), 0, "{page} has made elements of a text");
    assert_eq!(tab.js("window.hacked ?? null"), Value::Null, "{page} has run a text");
}

fn field(tab: &Tab, name: &str) -> String {
    tab.text(&format!("[data-test=event-field][data-field={name}]"))
}

#[test]
fn what_an_event_holds_stays_text_and_bytes_on_every_page() {
    // As JSON, in a text of a shell.
    let error = json!(EVIL).to_string();
    let error = error[1..error.len() - 1].replace('\\', r"\\").replace('"', r#"\""#);
    let file = FILE.replace("no such address", &error.replace('$', r"\$"));
    let stage = Stage::of(Place::sqlite(), &file);
    // Digits, spaces, escapes and the order of keys are those of whoever wrote them.
    let data =
        format!(r#"{{ "z":12345678901234567890.120,"a" : {}, "u":"\u003cb\u003e" }}"#, json!(EVIL));
    let metadata = format!(r#"{{"by":{} ,"n":1e2}}"#, json!(EVIL));
    let hostile = |kind: &str| {
        NewEvent::from_json(kind, data.clone())
            .with_metadata(RawValue::from_string(metadata.clone()).unwrap())
            .with_tag(format!("show:{EVIL}"))
            .with_tag(EVIL)
            .with_tenant(EVIL)
            .with_customer(EVIL)
            .with_correlation(EVIL)
            .with_causation(EVIL)
    };
    let position = stage.append(&format!("Order{}", EVIL.replace(':', "")), EVIL, hostile(EVIL));
    stage.append("Order", EVIL, hostile("OrderPlaced"));
    stage.command(&["tasks", "enqueue", "mail", EVIL, &json!({ EVIL: EVIL }).to_string()]);
    let worker = stage.worker();
    until("the key and the task have failed", || {
        let of = |arguments: &[&str]| stage.command(arguments).contains("onerror");
        of(&["parked", "list", "totals", "--json"])
            && of(&["tasks", "list", "mail", "--state", "dead", "--json"])
    });
    let task = stage.command(&["tasks", "list", "mail", "--json"]);
    let task: Value = serde_json::from_str(task.lines().next().unwrap()).unwrap();
    let category = encoded(&format!("Order{EVIL}"));
    let pages = [
        "#/".to_owned(),
        "#/events".to_owned(),
        format!("#/events/{position}"),
        format!("#/streams/{category}/{}", encoded(EVIL)),
        format!("#/streams/Order/{}", encoded(EVIL)),
        "#/consumers/totals".to_owned(),
        format!("#/workers/{}", worker.id),
        "#/failed".to_owned(),
        format!("#/failed/totals/{}", encoded(&format!("Order:{EVIL}"))),
        "#/tasks".to_owned(),
        format!("#/tasks/{}", task["id"].as_str().unwrap()),
        "#/workflows".to_owned(),
        "#/deliveries".to_owned(),
        "#/batches".to_owned(),
        format!("#/batches?table={}", encoded(EVIL)),
        "#/journal".to_owned(),
        format!("#/{}", encoded(EVIL)),
        format!("#/consumers/{0}?{0}={0}", encoded(EVIL)),
    ];
    let browser = Browser::start();
    let tab = browser.tab();
    tab.expect_complaints("status of 404");
    for page in &pages {
        stage.open(&tab, page);
        is_text(&tab, page);
    }
    let shows = format!("document.body.textContent.includes({})", json!(EVIL));
    for page in &pages[1..5] {
        stage.open(&tab, page);
        tab.wait("it is seen as it is", &shows);
    }

    stage.open(&tab, &pages[2]);
    tab.wait_for("[data-test=event-data]");
    assert_eq!(tab.text("[data-test=event-data]"), data);
    assert_eq!(tab.text("[data-test=event-metadata]"), metadata);
    for name in ["type", "tenant", "customer", "correlation", "causation"] {
        assert_eq!(field(&tab, name), EVIL, "{name}");
    }
    assert!(field(&tab, "stream").ends_with(&format!(":{EVIL}")));

    // What is searched for is shown again.
    stage.open(&tab, "#/consumers/totals");
    tab.fill("[data-test=slot-search]", EVIL);
    tab.press("Enter");
    tab.wait("it is found", "location.hash.includes('slot=')");
    is_text(&tab, "a search");
    // Nobody waits for the next one.
    tab.fill("[data-test=slot-search]", "Order:other");
    tab.press("Enter");
    // In a dialog, and in its copies.
    stage.open(&tab, "#/failed");
    let group = "[data-test=failed-group] [data-test=failed-open][aria-expanded=false]";
    while tab.count(group) > 0 {
        tab.click(group);
    }
    is_text(&tab, "a group of errors");
    assert_eq!(tab.js("location.hash"), "#/failed", "the search before it is over");
    tab.click("[data-test=do][data-do=parked][data-key]");
    tab.wait(
        "a form or a plan",
        "document.querySelector('[data-test=plan-make], [data-test=plan-apply]')",
    );
    if tab.count("[data-test=plan-make]") > 0 {
        tab.click("[data-test=plan-make]");
        tab.wait_for("[data-test=plan-apply]");
    }
    is_text(&tab, "a dialog");
    let copied = tab.attribute("[data-test=copy-command]", "data-copy").unwrap();
    let dry = stage.shell(&with_dry_run(&copied));
    assert!(dry.status.success(), "{copied}: {dry:?}");
    worker.kill();
}
