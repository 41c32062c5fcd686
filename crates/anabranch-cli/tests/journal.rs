//! Operations from the command line: planned without a change, applied by their id, and written in the journal.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod printed;
mod process;
mod sums;

use anabranch::workpool::{NewTask, Tasks};
use printed::{lines, said};
use process::{failure, postgres, stdout};
use serde_json::Value;
use sums::{Bench, until};

/// The projection's name.
const NAME: &str = "sums";

fn both() -> [Bench; 2] {
    [Bench::sqlite(), Bench::postgres(postgres())]
}

/// The plan that a command prints with `--dry-run --json`.
fn planned(bench: &Bench, arguments: &[&str]) -> Value {
    let command = [arguments, &["--dry-run", "--json"]].concat();
    lines(&bench.command(&command)).remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_planned_is_done_by_its_id_and_once() {
    for bench in both() {
        let log = bench.log().await;
        bench.fill(&log, 1..=4, 2).await;
        bench.catch_up(&log).await;
        let shown = bench.command(&["pause", NAME, "--dry-run"]);
        let text = stdout(&shown);
        assert!(text.starts_with("`sums` would stand still until it is resumed"), "{text}");
        let after = String::from_utf8_lossy(&shown.stderr).into_owned();
        assert!(after.contains("nothing was changed") && after.contains("--plan"), "{after}");
        assert!(!bench.status(&log).await.paused);

        let plan = planned(&bench, &["pause", NAME]);
        let id = plan["id"].as_str().unwrap();
        assert_eq!((&plan["verb"], &plan["state"]), (&"pause".into(), &"open".into()));
        let other = bench.command(&["resume", NAME, "--plan", id]);
        assert!(failure(&other, 1).contains("[plan_differs]"));
        said(&bench.command(&["pause", NAME, "--plan", id]));
        assert!(bench.status(&log).await.paused);
        let again = failure(&bench.command(&["pause", NAME, "--plan", id]), 1);
        assert!(again.contains("is done already") && again.contains("[plan_used]"), "{again}");

        let entry = &lines(&bench.command(&["journal", "--json"]))[0];
        assert_eq!(
            (&entry["verb"], &entry["target"], &entry["stage"], &entry["via"]),
            (&"pause".into(), &NAME.into(), &"applied".into(), &"cli".into())
        );
        assert_eq!(entry["plan"], id);
        assert!(entry["who"].as_str().unwrap().contains('@'), "{entry}");
        let table = stdout(&bench.command(&["journal", NAME]));
        assert!(table.contains("pause sums") && table.contains("applied"), "{table}");
        assert!(said(&bench.command(&["journal", "nobody"])).contains("nothing of that"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_not_true_any_more_is_refused_with_what_has_changed() {
    for bench in both() {
        let log = bench.log().await;
        bench.fill(&log, 1..=4, 1).await;
        bench.catch_up(&log).await;
        let plan = planned(&bench, &["replay", NAME, "--last", "2"]);
        assert_eq!(plan["effect"]["counts"]["events"], 2);
        said(&bench.command(&["pause", NAME]));
        let id = plan["id"].as_str().unwrap();
        let refused = bench.command(&["replay", NAME, "--last", "2", "--plan", id]);
        let refused = failure(&refused, 1);
        assert!(refused.contains("its state was not paused and is paused"), "{refused}");
        assert!(refused.contains("[plan_outdated]"), "{refused}");
        assert_eq!(bench.status(&log).await.replay_from, None);
        said(&bench.command(&["resume", NAME]));
        said(&bench.command(&["replay", NAME, "--last", "2", "--plan", id]));
        assert_eq!(bench.status(&log).await.replay_from.map(|to| to.get()), Some(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_taken_back_needs_yes_or_a_plan() {
    for bench in both() {
        let log = bench.log().await;
        bench.fill(&log, 1..=4, 1).await;
        bench.catch_up(&log).await;
        bench.fill(&log, 1..=4, 1).await;
        let skip = ["skip-to-head", NAME];
        let refused = failure(&bench.command(&skip), 2);
        assert!(refused.contains("would never handle its events after position 4 up to 8"));
        assert!(refused.contains("add --yes"), "{refused}");
        assert!(said(&bench.command(&["plans", "list"])).contains("there are no plans"));
        assert!(said(&bench.command(&["plans"])).contains("there are no plans"));
        assert!(said(&bench.command(&["journal"])).contains("the journal is empty"));
        let text = stdout(&bench.command(&[&skip[..], &["--dry-run"]].concat()));
        assert!(text.contains("this cannot be taken back"), "{text}");
        let plan = planned(&bench, &skip);
        bench.fill(&log, 1..=4, 1).await;
        let id = plan["id"].as_str().unwrap();
        said(&bench.command(&[&skip[..], &["--plan", id]].concat()));
        assert_eq!(bench.status(&log).await.position.get(), 8, "no further than was shown");
        let shown = stdout(&bench.command(&["plans", "show", id]));
        assert!(shown.contains("done, 1 of 1 done"), "{shown}");
        let listed = lines(&bench.command(&["plans", "list", "--json"]));
        assert_eq!(listed.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_keys_and_tasks_are_meant_by_filter() {
    for bench in both() {
        let log = bench.log().await;
        bench.break_orders(true);
        let running = bench.start(&log).await;
        bench.fill(&log, 1..=4, 2).await;
        until("the key is parked", async || bench.status(&log).await.parked_keys == 1).await;
        let by_error = ["parked", "retry", NAME, "--error-contains", "is broken"];
        let plan = planned(&bench, &by_error);
        assert_eq!((&plan["total"], &plan["effect"]["first"][0]), (&1.into(), &"Order:1".into()));
        let none = planned(&bench, &["parked", "retry", NAME, "--key-contains", "Order:2"]);
        assert_eq!(none["total"], 0);
        bench.break_orders(false);
        assert!(said(&bench.command(&by_error)).contains("asked for 1 key of `sums`"));
        until("it is handled", async || bench.status(&log).await.parked_keys == 0).await;
        let all = ["parked", "skip", NAME, "--all"];
        let refused = failure(&bench.command(&all), 2);
        assert!(refused.contains("add --yes"), "{refused}");
        let both = bench.command(&["parked", "retry", NAME, "Order:1", "--all"]);
        assert!(failure(&both, 2).contains("cannot be used with"));
        running.stop().await;

        let mails = Tasks::new(&log, "mails");
        for key in 0..3 {
            mails.enqueue(NewTask::new(format!("k{key}"), &key)).await.unwrap();
        }
        let cancel = ["tasks", "cancel", "--where", "pool=mails"];
        let refused = failure(&bench.command(&cancel), 2);
        assert!(
            refused.contains("3 open tasks would be cancelled: 3 of pool `mails`"),
            "{refused}"
        );
        let done = said(&bench.command(&[&cancel[..], &["--yes", "--per-second", "50"]].concat()));
        assert!(done.contains("3 open tasks cancelled"), "{done}");
        let stages = lines(&bench.command(&["journal", "mails", "--json"]));
        let stages: Vec<_> = stages.iter().map(|entry| &entry["stage"]).collect();
        assert_eq!(stages, ["done", "began"]);
        let typo = bench.command(&["tasks", "cancel", "--where", "pool=mials", "--yes"]);
        assert!(failure(&typo, 1).contains("there is no pool for which `pool=mials` is true"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistyped_plan_is_none() {
    let bench = Bench::sqlite();
    let _log = bench.log().await;
    let typo = bench.command(&["pause", NAME, "--plan", "0199"]);
    assert!(failure(&typo, 2).contains("the id of a plan looks like"));
    let none = bench.command(&["plans", "cancel", "0199d3a0-5f5e-7c3a-9d0e-6a1f6c1f0a11"]);
    assert!(failure(&none, 1).contains("[no_such_plan]"));
    let both = ["pause", NAME, "--dry-run", "--plan", "0199d3a0-5f5e-7c3a-9d0e-6a1f6c1f0a11"];
    assert!(failure(&bench.command(&both), 2).contains("cannot be used with"));
}
