//! A reader that goes away, as `head` does, is no failure and no panic, for any command: what looks
//! ends, what works finishes or is undone, and the exit code says how that went.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;
mod sums;

use anabranch::backend::database::{End, Statement};
use process::{anabranch, run, stdout};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, PipeWriter, Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use sums::Bench;

const NAME: &str = "sums";
const PATIENCE: Duration = Duration::from_secs(60);
/// What the tasks are that the table names.
const TASK: &str = "018f3f3e-8f6b-7c1a-8f3e-000000000001";
const OTHER_TASK: &str = "018f3f3e-8f6b-7c1a-8f3e-000000000002";

/// A file that describes replica sets.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/orders.toml");

/// How each command is run here, in this order, and its exit code.
const COMMANDS: &[(&str, &str, i32)] = &[
    ("append", "Order:1 OrderPlaced --json", 0),
    ("tail", "--json", 0),
    ("tail", "--after 0", 0),
    ("tail", "--stream Order:1", 0),
    ("migrate", "--print", 0),
    ("migrate", "", 0),
    ("status", "", 0),
    ("status", "--json", 0),
    ("lag", "", 0),
    ("lag", "--json", 0),
    ("why", "Order:1", 0),
    ("why", "Order:1 --consumer sums --json", 0),
    ("workers", "", 0),
    ("health", "", 0),
    ("audit", "sums --start", 0),
    ("audit", "", 0),
    ("audit", "--json", 0),
    ("audit", "sums", 0),
    ("audit", "sums --json", 0),
    ("audit", "sums --stop --yes", 0),
    ("generations", "--json", 0),
    ("offsets", "sums", 0),
    ("rescale", "sums --from 2 --to 3", 0),
    ("parked list", "sums", 0),
    ("parked list", "sums --json", 0),
    ("parked show", "sums Order:1", 0),
    ("parked retry", "sums Order:1", 0),
    ("parked skip", "sums Order:1", 0),
    ("deliveries list", "", 0),
    ("deliveries show", "msg_none", 1),
    ("deliveries resend", "FILE msg_none", 1),
    ("deliveries send-again", "none --all --yes", 1),
    ("deliveries test", "FILE none", 1),
    ("tasks enqueue", "payouts a 1 --id TASK", 0),
    ("tasks enqueue", "payouts b 1 --id OTHER", 0),
    ("tasks pools", "", 0),
    ("tasks list", "payouts", 0),
    ("tasks show", "TASK", 0),
    ("tasks retry", "TASK", 1),
    ("tasks pause-key", "payouts a", 0),
    ("tasks resume-key", "payouts a", 0),
    ("tasks discard", "TASK --yes", 1),
    ("tasks cancel", "TASK", 0),
    ("batch run", "--source rows --key id --job copy --sql DO", 0),
    ("batch run", "--source rows --key id --job broken --command false", 1),
    ("batch verify", "--source rows --key id --job copy --complete", 0),
    ("batch verify", "--source rows --key id --job later --complete", 1),
    ("batch import", "--source rows --key id --job taken --from rows --where 1=1", 0),
    ("batch failed", "--source rows --key id --job broken", 0),
    ("partition explain", "Order:1 --total 4", 0),
    (
        "partition classify",
        "--one-entity yes --customer-order no --process no --total-order no --shared-rows no",
        0,
    ),
    ("rebuild compare", "sums --table TABLE", 1),
    ("rebuild switch", "sums --table TABLE", 2),
    ("rebuild abandon", "sums --table TABLE --yes", 0),
    ("pause", "sums", 0),
    ("journal", "", 0),
    ("journal", "--json", 0),
    ("plans list", "", 0),
    ("plans show", "TASK", 1),
    ("plans cancel", "TASK", 1),
    ("rebalance", "none", 1),
    ("token make", "ci --scope read", 0),
    ("token list", "", 0),
    ("token revoke", "none", 1),
    ("serve", "--listen 127.0.0.1:1 --tls-cert none", 2),
    ("resume", "sums", 0),
    ("replay", "sums --from-start", 0),
    ("accept-scope", "sums", 1),
    ("skip-to-head", "sums --yes", 0),
    (
        "import-positions",
        "other --strategy entity --rule fnv1a --partitions 1 --checkpoint 0=1 --yes",
        0,
    ),
    ("forget", "sums --yes", 0),
    ("check", "FILE", 0),
    ("check", "FILE --json", 0),
    ("test", "FILE", 0),
    ("run", "FILE --catch-up --json", 0),
    ("completions", "bash", 0),
    ("man", "", 0),
    ("demo", "--events 2000", 0),
    ("chaos", "--seconds 1 --workers 2 --rate 200", 0),
    ("bench log", "--events 2000 --seconds 0.1 --repeats 1", 0),
    ("bench dcb", "--seconds 0.1 --repeats 1", 0),
    ("bench project", "--events 1000 --streams 50 --repeats 1 --cases nothing,commits", 0),
    ("bench run", "--events 1000 --streams 50 --repeats 1 --cases sql", 0),
    ("bench serve", "--seconds 0.1 --repeats 1 --tails 2 --connections 2 --rate 5", 0),
    ("bench webhook", "--events 500 --streams 50 --repeats 1", 0),
    ("bench latency", "--count 5", 0),
    ("bench rescale", "--seconds-per-phase 0.1", 0),
    ("bench workpool", "--tasks 300 --keys 10 --repeats 1", 0),
    ("bench workflow", "--commands 50 --workflows 5 --events 100 --repeats 1", 0),
    ("bench observer", "--events 1000 --streams 50 --rounds 1 --pairs 1", 0),
    ("bench audit", "--events 1000 --streams 50 --rounds 1 --pairs 1", 0),
    ("bench batch", "--waiting 10 --rows 200 --repeats 1", 0),
];

/// The writing end of a pipe that nobody reads.
fn unread() -> PipeWriter {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer
}

/// The commands that have no commands below them, as the program itself lists them.
fn leaves(above: &[&str]) -> BTreeSet<String> {
    let here = Path::new(".");
    let help = stdout(&run(here, &[above, &["--help"]].concat()));
    let Some((_, commands)) = help.split_once("\nCommands:\n") else {
        return BTreeSet::from([above.join(" ")]);
    };
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let names = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.map(|line| line.split_whitespace().next().unwrap());
    let below = names.filter(|name| *name != "help");
    below.flat_map(|name| leaves(&[above, &[name]].concat())).collect()
}

#[test]
fn every_command_is_in_the_table_and_its_help_may_be_left_unread() {
    let listed: BTreeSet<String> = COMMANDS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(leaves(&[]), listed, "add the new command to the table");
    for name in listed.iter().map(String::as_str).chain([""]) {
        let mut help = anabranch(Path::new("."));
        help.args(name.split_whitespace()).arg("--help").stdout(unread());
        let helped = help.output().unwrap();
        assert_eq!((helped.status.code(), text(&helped).as_str()), (Some(0), ""), "{name}");
        let mut wrong = anabranch(Path::new("."));
        wrong.args(name.split_whitespace()).arg("--no-such-option").stderr(unread());
        assert_eq!(wrong.status().unwrap().code(), Some(2), "{name}");
    }
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A log with a consumer that has a parked key and a new version, and a table of rows.
async fn a_log() -> Bench {
    let bench = Bench::sqlite();
    let log = bench.log().await;
    bench.fill(&log, 1..=3, 2).await;
    bench.break_orders(true);
    let running = bench.start(&log).await;
    sums::until("the key is parked", async || {
        let status = bench.status(&log).await;
        status.parked_keys == 1 && status.lag_ready == 0
    })
    .await;
    running.stop().await;
    bench.break_orders(false);
    bench.rebuild(&log, 2).await;
    for sql in [
        "CREATE TABLE rows (id BIGINT PRIMARY KEY NOT NULL)",
        "CREATE TABLE copied (id BIGINT)",
        "INSERT INTO rows VALUES (1), (2), (3)",
    ] {
        let statement = Statement::new(sql.to_owned(), vec![]);
        log.store().database().begin().run(vec![statement], End::Commit).await.unwrap();
    }
    bench
}

/// Runs the whole table: each command as `spoil` has it, in a directory for temporary files that must
/// be empty afterwards.
async fn all_commands(spoil: impl Fn(&mut Command)) {
    let bench = a_log().await;
    let temporary = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for (name, arguments, code) in COMMANDS {
        let words = |word| match word {
            "TASK" => TASK,
            "OTHER" => OTHER_TASK,
            "TABLE" => bench.table(),
            "DO" => "INSERT INTO copied VALUES (:id)",
            "FILE" => FILE,
            word => word,
        };
        let words: Vec<&str> =
            name.split(' ').chain(arguments.split_whitespace()).map(words).collect();
        let mut command = bench.process(&words);
        command.env("TMPDIR", temporary.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        spoil(&mut command);
        let output = command.output().unwrap();
        let said = text(&output);
        if output.status.code() != Some(*code) || said.contains("panicked") {
            wrong.push(format!("{words:?}: {}, {said}", output.status));
        }
        let left: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().collect();
        assert!(left.is_empty(), "{words:?} leaves {left:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(number(&bench, "SELECT count(*) FROM copied").await, 3, "it is finished");
    let left =
        "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'bench_%' OR name LIKE 'chaos_%'";
    assert_eq!(number(&bench, left).await, 0, "tables are left");
}

async fn number(bench: &Bench, query: &str) -> i64 {
    let log = bench.log().await;
    let query = Statement::query(query.to_owned(), vec![]);
    let answers = log.store().database().begin().run(vec![query], End::Commit).await;
    answers.unwrap()[0].rows[0].get(0).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reads_what_a_command_prints() {
    all_commands(|command| {
        command.stdout(unread());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reads_what_a_command_says_about_it() {
    all_commands(|command| {
        command.stderr(unread()).env("RUST_LOG", "debug");
    })
    .await;
}

/// It would otherwise wait for an event that may never come.
#[test]
fn a_tail_ends_with_its_reader_though_nothing_happens() {
    let here = tempfile::tempdir().unwrap();
    stdout(&run(here.path(), &["append", "Order:1", "OrderPlaced"]));
    let mut tail = anabranch(here.path());
    let mut tail = tail.args(["tail", "-f"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(tail.stdout.take().unwrap());
    reader.read_line(&mut String::new()).unwrap();
    drop(reader);
    let started = Instant::now();
    let status = loop {
        if let Some(status) = tail.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > PATIENCE {
            tail.kill().unwrap();
            panic!("it still waits");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(0));
}

/// All lines are stored, though their positions were of interest to nobody.
#[test]
fn an_append_of_many_lines_is_finished() {
    let here = tempfile::tempdir().unwrap();
    let mut append = anabranch(here.path());
    append.args(["append", "--lines", "--json"]).stdin(Stdio::piped()).stdout(unread());
    let mut append = append.stderr(Stdio::piped()).spawn().unwrap();
    let mut input = append.stdin.take().unwrap();
    for number in 0..200 {
        writeln!(input, r#"{{"stream": "Order:{number}", "type": "OrderPlaced"}}"#).unwrap();
    }
    drop(input);
    let mut said = String::new();
    append.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((append.wait().unwrap().code(), said.as_str()), (Some(0), ""));
    assert_eq!(stdout(&run(here.path(), &["tail", "--after", "0"])).lines().count(), 200);
}
