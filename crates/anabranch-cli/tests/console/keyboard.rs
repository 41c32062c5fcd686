//! All of it without a mouse.

use crate::browser::Browser;
use crate::full::Full;
use crate::tab::Tab;

/// What can be used, and what had the focus so far. A group of radio buttons is one stop.
const WATCH: &str = r"(() => {
  const all = 'a[href], button, input, select, textarea, summary, [tabindex]';
  const seen = (one) => one.checkVisibility({ visibilityProperty: true });
  const stops = (one) => one.tabIndex >= 0 && !one.disabled && seen(one) && (one.type !== 'radio' || one.checked);
  window.wanted = [...document.querySelectorAll(all)].filter(stops);
  window.reached = new Set();
  window.unseen = [];
  document.addEventListener('focusin', (event) => {
    const [one, style] = [event.target, getComputedStyle(event.target)];
    const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
    if (!ring && style.boxShadow === 'none') unseen.push(one.outerHTML.slice(0, 150));
    reached.add(one);
  });
  document.activeElement.blur();
  return wanted.length;
})()";

const MISSED: &str = "wanted.filter((one) => one.isConnected && !reached.has(one)).map((one) => one.outerHTML.slice(0, 150))";

/// Presses Tab until something has the focus.
fn tab_to(tab: &Tab, selector: &str) {
    let has = format!("document.activeElement?.matches({})", serde_json::json!(selector));
    for _ in 0..300 {
        tab.press("Tab");
        if tab.js(&has) == true {
            return;
        }
    }
    tab.fail(&format!("{selector} is not reached by Tab"));
}

fn is_on(tab: &Tab, page: &str) {
    let on = format!(
        "(({{ dataset }}) => dataset.page === '{page}' && dataset.ready === 'true')(document.querySelector('[data-test=page]'))"
    );
    tab.wait(&format!("{page} is open"), &on);
}

#[test]
fn everything_is_reached_by_tab_and_is_seen_to_have_the_focus() {
    let full = Full::new();
    let browser = Browser::start();
    let tab = browser.tab();
    for (name, page) in full.pages() {
        full.stage.open(&tab, &page);
        let stops = tab.js(WATCH).as_u64().unwrap();
        assert!(stops > 5, "{name}: there is nothing to use");
        for _ in 0..stops + 5 {
            tab.press("Tab");
        }
        // What has come meanwhile is in between.
        for _ in 0..stops {
            if tab.js(MISSED) == serde_json::json!([]) {
                break;
            }
            tab.press("Tab");
        }
        assert_eq!(tab.js(MISSED), serde_json::json!([]), "{name}: not reached");
        assert_eq!(tab.js("unseen"), serde_json::json!([]), "{name}: has the focus unseen");
    }
}

#[test]
fn pages_slots_and_plans_are_used_by_keys_alone() {
    let full = Full::new();
    let browser = Browser::start();
    let tab = browser.tab();
    full.stage.open(&tab, "#/");
    for page in
        ["failed", "events", "tasks", "workflows", "deliveries", "batches", "journal", "overview"]
    {
        tab_to(&tab, &format!("[data-test=nav-{page}]"));
        tab.press("Enter");
        is_on(&tab, page);
    }
    tab.press("g");
    tab.press("f");
    is_on(&tab, "failed");
    tab.press("g");
    tab.press("o");
    is_on(&tab, "overview");
    tab_to(&tab, "[data-test=worker-link]");
    tab.press("Enter");
    is_on(&tab, "worker");
    tab.js("history.back()");
    is_on(&tab, "overview");
    tab_to(&tab, "[data-test=consumer-row][data-name=totals] [data-test=consumer-link]");
    tab.press("Enter");
    is_on(&tab, "consumer");

    // The map is one stop, and arrows go from slot to slot.
    tab_to(&tab, "[data-test=slot-grid]");
    let slot =
        || -> i64 { tab.attribute("[data-test=slot-grid]", "data-slot").unwrap().parse().unwrap() };
    let columns: i64 =
        tab.attribute("[data-test=slot-map]", "data-columns").unwrap().parse().unwrap();
    tab.press("ArrowRight");
    tab.press("ArrowDown");
    let from = slot();
    for (key, by) in [
        ("ArrowRight", 1),
        ("ArrowDown", columns + 1),
        ("ArrowLeft", columns),
        ("ArrowUp", 0),
        ("Home", -(from % columns)),
        ("End", columns - 1 - from % columns),
    ] {
        tab.press(key);
        let wanted = from + by;
        tab.wait(
            &format!("{key} leads to slot {wanted}"),
            &format!(
                "['slot-grid', 'slot-detail'].every((name) => \
                 document.querySelector(`[data-test=${{name}}]`).dataset.slot === '{wanted}')"
            ),
        );
    }
    assert_eq!(tab.js("document.activeElement.dataset.test"), "slot-grid");

    // A plan is made and left, and the button has the focus again.
    let pause = "[data-test=do][data-do=pause]";
    tab_to(&tab, pause);
    tab.press("Enter");
    tab.wait_for("[data-test=plan-apply]");
    for _ in 0..10 {
        tab.press("Tab");
        let inside = "document.activeElement === document.body || !!document.activeElement.closest('[data-test=plan]')";
        assert_eq!(tab.js(inside), true, "what is behind a dialog is not reached");
    }
    tab.press("Escape");
    tab.wait_gone("[data-test=plan]");
    tab.wait("the button has it again", &format!("document.activeElement.matches('{pause}')"));
    assert!(full.stage.command(&["status", "totals", "--json"]).contains(r#""paused":false"#));
}
