//! What is done by a click: planned, applied or refused; and the same as a command and as a request.

use crate::browser::Browser;
use crate::full::Full;
use crate::place::{Place, rows};
use crate::stage::{FILE, Stage, until};
use crate::tab::Tab;
use serde_json::Value;
use std::collections::BTreeSet;

/// Every button that changes something.
const BUTTONS: &str = "[data-test=do]";
const PAUSE: &str = "[data-test=do][data-do=pause]";
const RETRY: &str = r#"[data-test=do][data-do=parked][data-action=retry][data-key="Order:1"]"#;

fn plan_has_come_to(tab: &Tab, stage: &str) {
    let is = format!("document.querySelector('[data-test=plan]')?.dataset.stage === '{stage}'");
    tab.wait(&format!("the plan is {stage}"), &is);
}

/// A worker, and an order that came twice, so that its key is set aside.
fn with_a_parked_key(stage: &Stage) -> crate::stage::Worker {
    stage.order("1", r#"{"cents": 40}"#);
    stage.order("1", r#"{"cents": 2}"#);
    let worker = stage.worker();
    until("the key is set aside", || {
        stage.command(&["parked", "list", "totals", "--json"]).contains("Order:1")
    });
    worker
}

fn a_parked_key_is_retried(stage: Stage) {
    let worker = with_a_parked_key(&stage);
    let browser = Browser::start();
    let tab = browser.tab();
    stage.open(&tab, "#/consumers/totals");
    let row = r#"[data-test=parked-row][data-key="Order:1"]"#;
    tab.wait_for(row);
    // What was in its way is gone.
    stage.wait_for(rows(&stage.log, "DELETE FROM totals"));
    tab.click(RETRY);
    let make = "[data-test=plan-make]";
    tab.wait(
        "a form or a plan",
        &format!("document.querySelector('{make}, [data-test=plan-apply]')"),
    );
    if tab.count(make) > 0 {
        tab.click(make);
    }
    plan_has_come_to(&tab, "planned");
    let says = tab.text("[data-test=plan-says]");
    assert!(says.contains("totals"), "{says}");
    tab.click("[data-test=plan-apply]");
    plan_has_come_to(&tab, "done");
    tab.click("[data-test=plan-close]");
    tab.wait_gone("[data-test=plan]");
    tab.wait_gone(row);
    let cents = stage.wait_for(rows(&stage.log, "SELECT cents FROM totals"))[0].get::<i64>(0);
    assert_eq!(cents.unwrap(), 2);
    // Somebody reads afterwards who it was.
    stage.open(&tab, "#/journal");
    tab.wait_for("[data-test=journal-row][data-target=totals][data-stage=done]");
    worker.kill();
}

#[test]
fn a_parked_key_is_retried_by_a_click_and_disappears_on_sqlite() {
    a_parked_key_is_retried(Stage::sqlite());
}

#[test]
fn a_parked_key_is_retried_by_a_click_and_disappears_on_postgresql() {
    a_parked_key_is_retried(Stage::postgres());
}

#[test]
fn a_plan_that_is_no_longer_true_is_refused_with_its_reason() {
    let stage = Stage::sqlite();
    let _worker = stage.worker();
    let browser = Browser::start();
    let tab = browser.tab();
    stage.open(&tab, "#/consumers/totals");
    tab.click(PAUSE);
    plan_has_come_to(&tab, "planned");
    stage.command(&["pause", "totals"]);
    tab.expect_complaints("status of 409");
    tab.click("[data-test=plan-apply]");
    plan_has_come_to(&tab, "refused");
    let problem = "[data-test=plan-problem]";
    assert_eq!(tab.attribute(problem, "data-code").as_deref(), Some("plan_outdated"));
    let why = tab.text(problem);
    assert!(why.contains("paused"), "{why}");
    // What is behind the dialog is how it stands by now.
    tab.click("[data-test=plan-close]");
    tab.wait_for("[data-test=do][data-do=resume]");
    tab.wait_gone(PAUSE);
}

/// What is applied is applied, but nobody hears of it.
const CUT_OFF: &str = r"window.fetch = ((fetch) => async (at, how) => {
  const answer = await fetch(at, how);
  if (at.endsWith('/apply')) throw new TypeError('cut off');
  return answer;
})(fetch); 0";

#[test]
fn a_plan_whose_answer_was_lost_is_followed() {
    let stage = Stage::sqlite();
    let _worker = stage.worker();
    let browser = Browser::start();
    let tab = browser.tab();
    stage.open(&tab, "#/consumers/totals");
    tab.js(CUT_OFF);
    tab.click(PAUSE);
    plan_has_come_to(&tab, "planned");
    tab.click("[data-test=plan-apply]");
    plan_has_come_to(&tab, "done");
    tab.click("[data-test=plan-close]");
    tab.wait_for("[data-test=do][data-do=resume]");
}

#[test]
fn errors_without_a_word_in_common_have_no_button_that_means_all_others_too() {
    let error = "$(case $task in (*ada*) echo no such address;; (*) date +%N;; esac)";
    let stage = Stage::of(Place::sqlite(), &FILE.replace("no such address", error));
    for key in ["ada", "grace", "joan"] {
        stage.command(&["tasks", "enqueue", "mail", key, "{}"]);
    }
    let _worker = stage.worker();
    until("the tasks are dead", || {
        stage.command(&["tasks", "list", "mail", "--state", "dead", "--json"]).lines().count() == 3
    });
    let browser = Browser::start();
    let tab = browser.tab();
    stage.open(&tab, "#/failed");
    let group = "[data-test=failed-group]";
    tab.wait("both groups", &format!("document.querySelectorAll('{group}').length === 2"));
    let of_words = format!("{group}[data-error='no such address'] [data-test=do]");
    assert_eq!(tab.count(&of_words), 2, "to retry and to discard");
    assert_eq!(tab.count(&format!("{group} [data-test=do]")), 2);
}

/// The command line that only says what it would do. What stands behind `--` are no options.
pub fn with_dry_run(command: &str) -> String {
    match command.split_once(" -- ") {
        Some((before, behind)) => format!("{before} --dry-run -- {behind}"),
        None => format!("{command} --dry-run"),
    }
}

/// The texts of the copies of the plan that is shown. The clipboard has what its button says it has.
fn copies(tab: &Tab) -> [String; 2] {
    ["copy-command", "copy-curl"].map(|name| {
        let button = format!("[data-test={name}]");
        let text = tab.attribute(&button, "data-copy").unwrap();
        tab.click(&button);
        let json = Value::from(text.as_str());
        tab.wait(
            "it is copied",
            &format!("navigator.clipboard.readText().then((is) => is === {json})"),
        );
        text
    })
}

/// What is the same for all rows of a list is looked at twice.
const OF_A_KIND: usize = 2;

#[test]
fn plans_are_copied_as_a_command_and_as_a_request_that_do_the_same() {
    let full = Full::new();
    let stage = &full.stage;
    // Keys that a shell and the command would like to read otherwise.
    let keys = ["o'hara $HOME", "--all"];
    for key in keys {
        stage.command(&["tasks", "enqueue", "mail", "--", key, "{}"]);
    }
    let mut tasks = Vec::new();
    until("the tasks are dead", || {
        let dead = stage.command(&["tasks", "list", "mail", "--state", "dead", "--json"]);
        let dead = dead.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_these = dead.filter(|task| keys.iter().any(|key| task["key"] == *key));
        tasks = of_these.map(|task| format!("#/tasks/{}", task["id"].as_str().unwrap())).collect();
        tasks.len() == keys.len()
    });
    let before = stage.command(&["journal", "--json"]);
    let lists = [
        "#/consumers/crm",
        "#/tasks?pool=mail&state=dead",
        "#/tasks?pool=mail&key=--all",
        "#/deliveries?consumer=crm",
    ];
    let pages = full.pages().into_iter().map(|(_, page)| page);
    let browser = Browser::start();
    let tab = browser.tab();
    tab.expect_complaints("status of 409");
    let mut seen = BTreeSet::new();
    for page in pages.chain(lists.map(str::to_owned)).chain(tasks) {
        stage.open(&tab, &page);
        let mut of_page = Vec::new();
        for number in 0..tab.count(BUTTONS) {
            let data = format!("document.querySelectorAll('{BUTTONS}')[{number}].dataset");
            let what = tab.js(&format!("({{...{data}}})"));
            let kind = (what["do"].clone(), what["action"].clone());
            of_page.push(kind.clone());
            if of_page.iter().filter(|known| **known == kind).count() > OF_A_KIND {
                continue;
            }
            tab.click_nth(BUTTONS, number);
            if plan(&tab, &page, &what) {
                compare(stage, &tab, &page);
                seen.insert(what["do"].as_str().unwrap().to_owned());
            }
            tab.click("[data-test=plan-close]");
            tab.wait_gone("[data-test=plan]");
        }
    }
    for wanted in [
        "parked",
        "pause",
        "pause_key",
        "rebalance",
        "replay",
        "replay_key",
        "resend",
        "skip_to_head",
        "task",
        "tasks",
    ] {
        assert!(seen.contains(wanted), "{wanted} is missing: {seen:?}");
    }
    // None of it was done.
    assert_eq!(stage.command(&["journal", "--json"]), before);
}

/// Makes the plan of the dialog that has been opened. Some cannot be done as things are, and it is said why.
fn plan(tab: &Tab, page: &str, what: &Value) -> bool {
    tab.wait_for("[data-test=plan-make], [data-test=plan-apply], [data-test=plan-problem]");
    if tab.count("[data-test=plan-make]") > 0 {
        let field = "[data-test=plan] input[required]";
        if tab.count(field) > 0 {
            tab.fill(field, "cust-1");
        }
        tab.click("[data-test=plan-make]");
        tab.wait_for("[data-test=plan-apply], [data-test=plan-problem]");
    }
    let problem = "[data-test=plan-problem]";
    if tab.count(problem) == 0 {
        return true;
    }
    // Not while it runs, and not without a hook.
    let cannot = what["do"] == "forget" || what["do"] == "replay_key";
    assert!(cannot, "{page}: {what} cannot be planned: {}", tab.text(problem));
    false
}

/// The copies of a plan say what its dialog says.
fn compare(stage: &Stage, tab: &Tab, page: &str) {
    let [command, curl] = copies(tab);
    let says = tab.text("[data-test=plan-says]");
    let dry = stage.shell(&with_dry_run(&command));
    let said = [dry.stdout, dry.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(dry.status.success(), "{page}: {command}: {said}");
    assert!(said.contains(&says), "{page}: {command}: {said}, not {says}");
    let planned = stage.shell(&curl);
    let answer: Value = serde_json::from_slice(&planned.stdout)
        .unwrap_or_else(|_| panic!("{page}: {curl}: {planned:?}"));
    assert_eq!(answer["effect"]["says"], says, "{page}: {curl}");
}
