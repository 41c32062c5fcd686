//! Positions by partition, another number of partitions, and positions of runners that were there before,
//! from the command line.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;
mod sums;

use anabranch::backend::database::{End, Statement};
use anabranch::{HashRule, Log, Query};
use process::{failure, postgres, stdout};
use serde_json::Value;
use std::process::Output;
use sums::{Bench, until};

const NAME: &str = "sums";
const STOPS: [u64; 3] = [20, 9, 33];

/// A log of 40 events in 10 orders.
async fn filled(bench: &Bench) -> Log {
    let log = bench.log().await;
    for _ in 0..4 {
        bench.fill(&log, 1..=10, 1).await;
    }
    log
}

/// How many events three old runners have left, by `hash(id) % 3`.
async fn left(log: &Log) -> i64 {
    let events = log.read(Query::all()).collect().await.unwrap();
    let stop = |id: &str| STOPS[(HashRule::fnv1a32(id) % 3) as usize];
    events.iter().filter(|event| event.position().get() > stop(event.stream_id())).count() as i64
}

fn import(bench: &Bench, more: &[&str]) -> Output {
    let fixed = ["import-positions", NAME, "--strategy", "entity", "--rule", "fnv1a"];
    bench.command(&[&fixed[..], &["--partitions", "3"], more].concat())
}

const GIVEN: [&str; 6] = ["--checkpoint", "0=20", "--checkpoint", "1=9", "--checkpoint", "2=33"];

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap()
}

async fn imports_and_goes_on(bench: Bench) {
    let log = filled(&bench).await;
    let left = left(&log).await;
    let dry = import(&bench, &[&GIVEN[..], &["--dry-run"]].concat());
    let expected = "PARTITION  SLOTS  POSITION  LAG  NOW\n\
                    0 of 3      1680        20   20  -\n\
                    1 of 3      1680         9   31  -\n\
                    2 of 3      1680        33    7  -\n\n\
                    by entity, fnv1a, 3 cursors, minimum 9, head 40, lag 31\n";
    assert_eq!(stdout(&dry), expected);
    assert!(errors(&dry).contains("nothing was changed"), "{}", errors(&dry));
    let asked = failure(&import(&bench, &GIVEN), 2);
    assert!(
        asked.contains("where the 3 old partitions stand, the last at position 9 of 40"),
        "{asked}"
    );
    assert!(failure(&bench.command(&["status", NAME]), 1).contains("there is no consumer"));

    let done = import(&bench, &[&GIVEN[..], &["--yes"]].concat());
    assert_eq!(stdout(&done), expected);
    assert!(errors(&done).contains("start it, with any number"), "{}", errors(&done));
    let status = stdout(&bench.command(&["status", NAME]));
    assert!(status.contains("imported") && status.contains("partition 1 of 3"), "{status}");
    bench.catch_up(&log).await;
    assert_eq!(bench.handled(&log).await, left, "each event that the old ones have left, once");

    let again = failure(&import(&bench, &[&GIVEN[..], &["--yes"]].concat()), 1);
    assert!(again.contains("stands at 40: it would handle up to 31 positions again"), "{again}");
    let dry = json(&import(&bench, &[&GIVEN[..], &["--replace", "--dry-run", "--json"]].concat()));
    assert_eq!(
        (&dry["before"], &dry["partitions"][1]["repeats"]),
        (&"consumer".into(), &31.into())
    );
    let dry = stdout(&import(&bench, &[&GIVEN[..], &["--replace", "--dry-run"]].concat()));
    assert!(dry.contains("at 40, repeats up to 31"), "{dry}");
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_are_imported_on_sqlite() {
    imports_and_goes_on(Bench::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_are_imported_on_postgres() {
    imports_and_goes_on(Bench::postgres(postgres())).await;
}

async fn from_table(bench: Bench) {
    let log = filled(&bench).await;
    let table = format!("checkpoints_{}", bench.table());
    let create = format!("CREATE TABLE {table} (reader TEXT, part BIGINT, last BIGINT)");
    let reader = |i: usize| format!("('order_runner_partition_{i}_of_3', {i}, {})", STOPS[i]);
    let rows = (0..3).map(reader).collect::<Vec<_>>().join(", ");
    let insert = format!("INSERT INTO {table} VALUES {rows}");
    let statements = [create, insert].map(|sql| Statement::new(sql, vec![])).to_vec();
    log.store().database().begin().run(statements, End::Commit).await.unwrap();

    let named = ["--table", &table, "--position-column", "last", "--name-column", "reader"];
    let index = ["--table", &table, "--position-column", "last", "--index-column", "part"];
    let no_type = failure(&import(&bench, &named), 2);
    assert!(no_type.contains("give --type"), "{no_type}");
    let no_column = failure(&import(&bench, &named[..4]), 2);
    assert!(no_column.contains("give --name-column or --index-column"), "{no_column}");
    let other = failure(&import(&bench, &[&named[..], &["--type", "invoice"]].concat()), 1);
    assert!(other.contains("no row has `invoice_runner_partition_0_of_3`"), "{other}");
    let pattern = ["--name-pattern", "{type}_runner_partition_{i}_of_3", "--type", "order"];
    for from in [
        &[&named[..], &["--type", "order"]].concat(),
        &[&named[..], &pattern].concat(),
        &index.to_vec(),
    ] {
        let plan = json(&import(&bench, &[from, &["--dry-run", "--json"][..]].concat()));
        let found: Vec<_> =
            (0..3).map(|i| plan["partitions"][i]["position"].as_u64().unwrap()).collect();
        assert_eq!(found, STOPS);
    }
    stdout(&import(&bench, &[&index[..], &["--yes"]].concat()));
    bench.catch_up(&log).await;
    assert_eq!(bench.handled(&log).await, left(&log).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_come_from_a_table_of_sqlite() {
    from_table(Bench::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_come_from_a_table_of_postgres() {
    from_table(Bench::postgres(postgres())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_all_said_at_once() {
    let bench = Bench::sqlite();
    filled(&bench).await;
    let wrong = import(&bench, &["--checkpoint", "0=99", "--checkpoint", "3=1", "--dry-run"]);
    assert_eq!(wrong.status.code(), Some(1));
    let said = errors(&wrong);
    for part in
        ["the log ends at 40", "for partition 3, but 3", "no checkpoint for partition 1, 2 of 3"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(failure(&import(&bench, &["--checkpoint", "0"]), 2).contains("for example 0=120"));
    assert!(failure(&import(&bench, &[]), 2).contains("--checkpoint"));
    let both = [&GIVEN[..], &["--table", "t", "--position-column", "p"]].concat();
    assert!(failure(&import(&bench, &both), 2).contains("cannot be used with"));
    let one = ["import-positions", NAME, "--partitions", "1", "--checkpoint", "0=4", "--yes"];
    let no_rule = bench.command(&[&one[..], &["--strategy", "entity"]].concat());
    assert!(failure(&no_rule, 2).contains("--rule"));
    let md5 = bench.command(&[&one[..], &["--strategy", "entity", "--rule", "md5"]].concat());
    assert!(errors(&md5).contains("must say with_rule(HashRule::Md5)"), "{}", errors(&md5));
    let global = bench.command(&[&one[..], &["--strategy", "global"]].concat());
    assert!(stdout(&global).contains("by global, 1 cursor, minimum 4"), "{}", stdout(&global));
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_and_a_rescale_are_shown_and_change_nothing() {
    let bench = Bench::sqlite();
    let log = filled(&bench).await;
    for command in [&["offsets", "x"][..], &["rescale", "x", "--from", "1", "--to", "2"]] {
        assert!(failure(&bench.command(command), 1).contains("there is no consumer `x`"));
    }
    stdout(&import(&bench, &[&GIVEN[..], &["--yes"]].concat()));
    let offsets = stdout(&bench.command(&["offsets", NAME]));
    let by_partition = stdout(&bench.command(&["offsets", NAME, "--partitions", "3"]));
    assert_eq!(
        by_partition,
        "SLOTS             COUNT  LOWEST  HIGHEST  LAG  OWNER\n\
         partition 0 of 3   1680      20       20   20  unassigned\n\
         partition 1 of 3   1680       9        9   31  unassigned\n\
         partition 2 of 3   1680      33       33    7  unassigned\n\n\
         minimum 9, head 40, lag 31\n"
    );
    assert!(offsets.ends_with("minimum 9, head 40, lag 31\n"), "{offsets}");
    let offsets = json(&bench.command(&["offsets", NAME, "--partitions", "2", "--json"]));
    assert_eq!((&offsets["minimum"], &offsets["lag"]), (&9.into(), &31.into()));
    assert_eq!(
        (&offsets["parts"][0]["lowest"], &offsets["parts"][0]["highest"]),
        (&9.into(), &33.into())
    );

    let rescale = |more: &[&str]| {
        let output =
            bench.command(&[&["rescale", NAME, "--from", "3", "--to", "6"], more].concat());
        (stdout(&output), errors(&output))
    };
    let (text, said) = rescale(&[]);
    assert_eq!(
        text,
        "PARTITION  FROM    SLOTS  LOWEST  HIGHEST\n\
         0 of 6     0 of 3    840      20       20  stays\n\
         1 of 6     1 of 3    840       9        9  stays\n\
         2 of 6     2 of 3    840      33       33  stays\n\
         3 of 6     0 of 3    840      20       20  moves\n\
         4 of 6     1 of 3    840       9        9  moves\n\
         5 of 6     2 of 3    840      33       33  moves\n\n\
         2520 slots stay, 2520 move\n\
         before  3 partitions, minimum 9, lag 31\n\
         after   6 partitions, minimum 9, lag 31\n"
    );
    assert!(said.contains("nothing was changed and nothing has to be"), "{said}");
    assert!(
        said.contains("start 6 processes with TOTAL_PARTITIONS=6 and PARTITION_KEY=0 to 5"),
        "{said}"
    );
    assert!(said.contains("no worker runs one of the old partitions now"), "{said}");
    assert_eq!(rescale(&["--dry-run"]), (text, said), "there is nothing else that it could do");
    let (plan, _) = rescale(&["--json"]);
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!((&plan["staying"], &plan["moving"]), (&2520.into(), &2520.into()));
    assert_eq!((&plan["before"]["minimum"], &plan["after"]["minimum"]), (&9.into(), &9.into()));
    assert_eq!((&plan["moves"][3]["from"], &plan["moves"][3]["lowest"]), (&0.into(), &20.into()));

    let running = bench.start_partition(&log, "1/3").await;
    until("it runs", async || running.holds_all()).await;
    let (_, said) = rescale(&[]);
    assert!(said.contains("warning: `sums` is still run by bench on "), "{said}");
    assert!(said.contains("stop the 1 worker of the old partitions"), "{said}");
    let owned = stdout(&bench.command(&["offsets", NAME, "--partitions", "3"]));
    assert!(owned.contains(", partition 1 of 3"), "{owned}");
    let refused = failure(&import(&bench, &[&GIVEN[..], &["--replace", "--yes"]].concat()), 1);
    assert!(refused.contains("it is run by bench on "), "{refused}");
    running.stop().await;
}
