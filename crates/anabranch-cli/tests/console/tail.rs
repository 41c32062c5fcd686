//! Events as they are stored, on a page that stays open while its server is killed and comes again.

use crate::browser::Browser;
use crate::stage::Stage;
use crate::tab::Tab;
use serde_json::Value;

const SHOWN: &str = "[...document.querySelectorAll('[data-test=event-row]')].map((row) => Number(row.dataset.position))";

/// Waits until the newest that is shown is this one.
fn shows(tab: &Tab, newest: u64) {
    tab.wait(&format!("event {newest} is shown"), &format!("{SHOWN}.includes({newest})"));
}

/// Three events; the position of the last one.
fn append(stage: &Stage) -> u64 {
    let positions = (0..3).map(|number| stage.order(&format!("{number}"), r#"{"cents": 1}"#));
    positions.last().unwrap()
}

fn it_resumes_without_a_gap(mut stage: Stage) {
    let before = append(&stage);
    let browser = Browser::start();
    let tab = browser.tab();
    stage.open(&tab, "#/events");
    if tab.attribute("[data-test=events-live]", "data-live").as_deref() != Some("true") {
        tab.click("[data-test=events-live]");
    }
    tab.wait_for("[data-test=events-live][data-live=true]");
    shows(&tab, append(&stage));

    for _ in 0..2 {
        // The browser says that the server has gone, and that nobody answers.
        tab.expect_complaints("net::ERR_");
        stage.kill_server();
        let missed = append(&stage);
        tab.wait("one is told", "!document.querySelector('[data-test=tail][data-state=live]')");
        stage.start_server();
        shows(&tab, missed);
        shows(&tab, append(&stage));
    }
    let mut shown: Vec<u64> = serde_json::from_value(tab.js(SHOWN)).unwrap();
    let sorted_down = shown.windows(2).all(|pair| pair[0] > pair[1]);
    assert!(sorted_down || shown.windows(2).all(|pair| pair[0] < pair[1]), "in order: {shown:?}");
    shown.sort_unstable();
    let stored = stage.command(&["tail", "--json", "--after", "0"]);
    let stored = stored.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let stored: Vec<u64> = stored.map(|event| event["position"].as_u64().unwrap()).collect();
    assert!(shown[0] <= before + 1, "all that came while it was open: {shown:?}");
    let from = stored.iter().position(|position| *position == shown[0]).unwrap();
    assert_eq!(shown, stored[from..]);
}

#[test]
fn the_tail_goes_on_after_the_server_was_killed_on_sqlite() {
    it_resumes_without_a_gap(Stage::sqlite());
}

#[test]
fn the_tail_goes_on_after_the_server_was_killed_on_postgresql() {
    it_resumes_without_a_gap(Stage::postgres());
}
