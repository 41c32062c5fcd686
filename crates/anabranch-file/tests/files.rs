//! Files: every mistake is found in one run, with its place and what to do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anabranch_file::CheckError;
use anabranch_file::file::{Due, Effects, File, Problems, Source};
use std::time::Duration;

fn parse(text: &str) -> Result<File, Problems> {
    File::parse(&Source::new("orders.toml", text))
}

/// The mistakes, as `LINE:COLUMN text = what it is about | help`.
fn mistakes(text: &str) -> Vec<String> {
    said(&parse(text).unwrap_err())
}

fn said(problems: &Problems) -> Vec<String> {
    let source = problems.source();
    let said = problems.all().iter().map(|problem| {
        let place = source.place(problem.span.start);
        let help = problem.help.as_deref().unwrap_or("-");
        format!("{}:{} {} | {help}", place.line, place.column, problem.said)
    });
    said.collect()
}

const GOOD: &str = r#"
url = "sqlite:orders.db"
namespace = "shop"

[[replica_set]]
name = "reports"
lanes = 4
grace = "3s"
rollout = "recreate"
tuning = { preset = "latency", lease = "2s", rebalance = "never" }

[[replica_set.projection]]
name = "totals"
partition = "entity:Order"
setup = ['CREATE TABLE totals (id TEXT)', "SELECT 1"]
retry = { attempts = 3, first = "10ms", then = "skip" }
batch_size = 10
tags = ["vip"]
on.OrderPlaced = { sqlite = 'SELECT 1', postgres = 'SELECT 2' }
on."*" = 'SELECT 3'

[[replica_set.program]]
name = "risk"
partition = "field:data.region"
hash = "md5"
types = ["OrderPlaced"]
command = ["sh", "-c", "true"]
timeout = "5s"

[[replica_set.pool]]
name = "mail"
command = ["sh"]
effects = "database"

[[replica_set.schedule]]
cron = "0 6 * * *"
zone = "Europe/Berlin"
enqueue = { pool = "mail", key = "daily", payload = { kind = "report", at = 2026-11-16 } }

[[replica_set.schedule]]
name = "days"
cron = "@daily"
append = { stream = "Day:1", type = "DayEnded" }

[[test]]
given = [{ stream = "Order:1", type = "OrderPlaced" }, { pool = "mail", key = "a", payload = 7 }]
then = { sql = 'SELECT 1', rows = [[1]] }
"#;

#[test]
fn a_file_says_what_it_says() {
    let file = parse(GOOD).unwrap();
    assert_eq!(file.url.unwrap().resolve().unwrap(), "sqlite:orders.db");
    let [set] = file.sets.as_slice() else { panic!("one set") };
    assert_eq!(
        (set.name.text.as_str(), set.lanes, set.grace),
        ("reports", 4, Duration::from_secs(3))
    );
    let totals = &set.projections[0];
    assert_eq!(totals.consumer.setup.on("sqlite").unwrap().len(), 2);
    assert_eq!(totals.consumer.retry.attempts, 3);
    let (placed, others) = (&totals.on[1], &totals.on[0]);
    assert_eq!((placed.0.text.as_str(), others.0.text.as_str()), ("OrderPlaced", "*"));
    assert_eq!(placed.1.on("postgres").unwrap()[0].text, "SELECT 2");
    assert_eq!(set.programs[0].run.timeout, Duration::from_secs(5));
    assert_eq!(set.pools[0].effects, Effects::Database);
    let Due::Enqueue { payload, .. } = &set.schedules[0].what else { panic!("a task") };
    assert_eq!(payload.get(), r#"{"at":"2026-11-16","kind":"report"}"#);
    assert_eq!(set.schedules[0].name.text, "mail daily");
    assert_eq!(set.schedules[1].name.text, "days");
    assert_eq!((file.tests[0].name.as_str(), file.tests[0].given.len()), ("1", 2));
}

#[test]
fn every_mistake_is_found_in_one_run() {
    let found = mistakes(
        r#"
urll = "sqlite:orders.db"
[[replica_set]]
name = "reports"
lanes = 0
[[replica_set.projection]]
name = "totals"
partition = "entitty"
[[replica_set.projection]]
name = "totals"
partition = "field:dta.region"
retry = { then = "parc", attempts = "3" }
batch_size = 1.5
on.A = 7
on.B = { mysql = 'SELECT 1' }
[[replica_set.program]]
partition = "customer"
command = ["no-such-program-anywhere"]
[[replica_set.webhook]]
name = "crm"
[[replica_set.schedule]]
cron = "61 6 * * *"
zone = "Europe/Berlni"
[[replica_set.schedule]]
cron = "0 6 * * *"
zone = "Europe/Berlni"
append = { stream = "Day", type = "x" }
"#,
    );
    let expected = [
        "2:1 unknown key `urll` in the file | did you mean `url`?",
        "5:9 `lanes` is 0, and must be a whole number from 1 to 256 | -",
        "6:1 a projection lacks `on` |",
        "8:13 `partition` cannot be \"entitty\" | did you mean `entity`?",
        "11:13 `dta.region` is no field: an event has no field `dta` |",
        "12:18 `then` cannot be \"parc\" | did you mean `park`?",
        "12:37 `attempts` is a text, and must be a whole number",
        "13:14 `batch_size` is a number with a fraction",
        "14:8 `A` is a whole number, and must be a statement",
        "15:10 `mysql` is no database |",
        "16:1 a program lacks `name` |",
        "19:1 a webhook lacks `partition` |",
        "19:1 a webhook lacks `to` |",
        "21:1 a schedule has one of `enqueue` and `append`",
        "22:8 ",
        "23:8 ",
        "26:8 ",
        "27:21 ",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\nis not {expected}");
    }
}

#[test]
fn a_name_is_given_once() {
    let found =
        mistakes(&format!("{GOOD}\n[[replica_set.pool]]\nname = \"risk\"\ncommand = [\"sh\"]\n"));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("there is another consumer `risk`, in line 23"), "{found:#?}");
}

#[test]
fn what_is_no_toml_is_shown_where_it_ends() {
    let found = mistakes("url = \"sqlite:a.db\n[[replica_set]\nname = \"a\"\n");
    assert!(found.len() >= 2 && found[0].starts_with("1:"), "{found:#?}");
}

#[test]
fn a_variable_stands_alone_and_must_be_set() {
    let found = mistakes("url = \"postgres://${HOST}/x\"");
    assert!(found[0].starts_with("1:7 a variable must be the whole value"), "{found:#?}");
    let problems = parse("url = \"postgres://app:geheim@${HOST}/x\"").unwrap_err();
    assert!(!problems.render(false).contains("geheim"), "{}", problems.render(false));
    let resolved = |text: &str| parse(text).unwrap().url.unwrap().resolve();
    // Not before it is used.
    let problem = resolved("url = \"${ANABRANCH_NO_SUCH_VARIABLE}\"").unwrap_err();
    assert_eq!(problem.said, "the variable ANABRANCH_NO_SUCH_VARIABLE is not set");
    assert_eq!(resolved("url = \"${PATH}\"").ok(), std::env::var("PATH").ok());
    let file = parse("url = \"postgres://app:geheim@x/y\"").unwrap();
    assert!(!format!("{file:?}").replace("source", "").contains("url: Some(Text"), "{file:?}");
}

/// What is found of a file that can be read, as [`mistakes`].
async fn found_offline(text: &str) -> Vec<String> {
    match anabranch_file::check_offline(&parse(text).unwrap(), None).await {
        Ok(_) => Vec::new(),
        Err(CheckError::Problems(problems)) => said(&problems),
        Err(CheckError::Store(error)) => panic!("{error}"),
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_program_is_looked_for_where_its_own_path_says() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("only-here");
    let allow = |mode| {
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::write(&program, "").unwrap();
    allow(0o755);
    let file = |env: &str| {
        format!(
            "[[replica_set]]\nname = \"s\"\n[[replica_set.program]]\nname = \"p\"\npartition = \"entity\"\n\
             command = [\"only-here\"]\nenv = {{ {env} }}\n"
        )
    };
    let own = format!("PATH = \"{}\"", folder.path().display());
    assert_eq!(found_offline(&file(&own)).await, [] as [&str; 0]);
    let found = found_offline(&file("")).await;
    assert!(found[0].starts_with("6:12 there is no program `only-here` in PATH"), "{found:#?}");
    allow(0o644);
    let (found, shown) = (found_offline(&file(&own)).await, program.display());
    let said = format!("6:12 `{shown}` is not executable; run chmod +x {shown}");
    assert!(found[0].starts_with(&said), "{found:#?}");
}
