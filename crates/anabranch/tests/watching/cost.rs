//! What a scrape costs: one statement, which reads neither all events nor all tasks.

use crate::asked::value;
use crate::gates::table_of;
use crate::server::Server;
use crate::support::*;
use anabranch::Log;
use anabranch::backend::database::{End, Hint, Statement};
use anabranch::operate::Import;
use anabranch::watch::{Format, Watch};

const MANY: i64 = 100_000;
const STREAMS: u64 = 500;

/// What the server was asked since its log had so many lines, of tables.
fn statements(server: &Server, since: usize) -> Vec<String> {
    let log = std::fs::read_to_string(server.home().join("server.log")).unwrap();
    let asked = log.lines().skip(since).filter_map(|line| {
        let (_, rest) = line.split_once("LOG:  ")?;
        let is_one = rest.starts_with("execute ") || rest.starts_with("statement: ");
        is_one.then(|| rest.split_once(": ").map(|(_, sql)| sql.to_owned()))?
    });
    asked.filter(|sql| sql.contains(" FROM ")).collect()
}

fn lines(server: &Server) -> usize {
    std::fs::read_to_string(server.home().join("server.log")).unwrap().lines().count()
}

/// The metrics of a scrape that the database has answered in time, and the statements that it took; and the watch, which
/// knows that answer for a moment.
async fn scraped(server: &Server, log: &Log) -> (String, Vec<String>, Watch) {
    let is_up = |text: &str| value(text, "anabranch_database_up") == Some(1.0);
    until("a scrape that is answered in time", async || {
        // The first one prepares its statement, and the next one has a watch that knows no answer yet.
        let first = Watch::new(log.clone()).for_server().metrics(Format::Prometheus).await;
        let watch = Watch::new(log.clone()).for_server();
        let before = lines(server);
        let text = watch.metrics(Format::Prometheus).await;
        let asked = statements(server, before);
        (is_up(&first) && is_up(&text)).then_some((text, asked, watch))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrape_is_one_statement_that_scans_neither_events_nor_tasks() {
    let server = Server::start(&["log_statement=all"]);
    let db = Db::at(server.url());
    let log = db.log().await;
    // The first of each stream is appended; the others are like it, and are there in a second.
    fill(&log, 0..STREAMS, 1..=1).await;
    let events = table_of(&log, "events");
    server.ask(&format!(
        "INSERT INTO {events} (version, recorded_at, id, schema_version, entity_slot, category, stream_id, type, data) \
         SELECT n, recorded_at, gen_random_uuid(), schema_version, entity_slot, category, stream_id, type, data \
         FROM {events}, generate_series(2, {MANY} / {STREAMS}) AS n"
    ));
    Import::new("orders").partitions(1).checkpoint(0, 10).apply(&log).await.unwrap();
    let (tasks, consumers) = (table_of(&log, "tasks"), table_of(&log, "consumers"));
    let insert = format!(
        "INSERT INTO {tasks} (id, pool, key, slot, state, due_us, payload, enqueued_us) \
         SELECT gen_random_uuid(), 'mails', n::text, 7, 0, 0, 'null', 1 FROM generate_series(1, {MANY}) AS n"
    );
    server.ask(&insert);
    server.ask(&format!(
        "INSERT INTO {consumers} (name, kind, strategy, version, slots) \
         SELECT 'mails', 'pool', strategy, version, slots FROM {consumers}"
    ));
    server.ask("ANALYZE");

    let looks = db.log().await;
    let (text, asked, again) = scraped(&server, &looks).await;
    assert_eq!(
        value(&text, "anabranch_lag_events{consumer=\"orders\"}"),
        Some((MANY - 10) as f64),
        "{text}"
    );
    assert_eq!(value(&text, "anabranch_lag_ready_events{consumer=\"mails\"}"), Some(MANY as f64));
    assert_eq!(asked.len(), 1, "{asked:#?}");
    // Many who ask at once get one answer.
    let before = lines(&server);
    tokio::join!(again.metrics(Format::Prometheus), again.metrics(Format::OpenMetrics));
    assert!(statements(&server, before).len() <= 1);

    assert_cheap(&log, &asked[0]).await;

    // A bad deploy has parked many keys, each with a tail of events.
    let (keys, events) = (table_of(&log, "parked_keys"), table_of(&log, "parked_events"));
    server.ask(&format!(
        "INSERT INTO {keys} (consumer, key, slot, attempts, error, since_us) \
         SELECT 'orders', n::text, n % 5040, 1, 'no', 1 FROM generate_series(1, 2000) AS n"
    ));
    server.ask(&format!(
        "INSERT INTO {events} (consumer, key, position) \
         SELECT 'orders', (n % 2000 + 1)::text, n FROM generate_series(1, {MANY}) AS n"
    ));
    server.ask("ANALYZE");
    let (text, ..) = scraped(&server, &looks).await;
    let parked =
        |what: &str| value(&text, &format!("anabranch_parked_{what}{{consumer=\"orders\"}}"));
    assert_eq!((parked("keys"), parked("events")), (Some(2000.0), Some(MANY as f64)), "{text}");
    assert_cheap(&log, &asked[0]).await;
}

/// How many rows a line of a plan says that were read.
fn rows_of(line: &str) -> Option<u64> {
    let (_, actual) = line.split_once("(actual time=")?;
    let number = |name: &str| -> Option<u64> {
        let (_, rest) = actual.split_once(name)?;
        rest.split([' ', ')']).next()?.parse().ok()
    };
    Some(number("rows=")? * number("loops=")?)
}

/// A statement finds the few events and tasks that it reads, and what is parked, by their keys; and it is not compiled,
/// which would take longer than the rest.
async fn assert_cheap(log: &Log, statement: &str) {
    let explain = format!("EXPLAIN (ANALYZE, FORMAT TEXT) {statement}");
    let hint = log.database().dialect().hint(Hint::Figures).unwrap();
    let statements = vec![hint, Statement::query(explain, vec![])];
    let answers = log.database().begin().run(statements, End::Commit).await.unwrap();
    let plan: Vec<String> = answers[1].rows.iter().map(|row| row.get(0).unwrap()).collect();
    let reads = |table: &str| {
        let scans = plan.iter().filter(|line| line.contains(&format!(" on {table} ")));
        scans.filter_map(|line| rows_of(line)).sum::<u64>()
    };
    assert!(reads("events") > 0 && reads("cursors") > 0, "the plan is understood: {plan:#?}");
    for table in ["events", "tasks", "event_tags"] {
        assert!(reads(table) < 20, "{} rows of {table}: {plan:#?}", reads(table));
    }
    let is_scan = |line: &&String| {
        line.contains("Seq Scan on parked_events ") && rows_of(line).is_some_and(|rows| rows > 0)
    };
    assert_eq!(plan.iter().find(is_scan), None, "{plan:#?}");
    assert!(!plan.iter().any(|line| line.starts_with("JIT:")), "it is compiled: {plan:#?}");
    let took = plan.iter().find(|line| line.starts_with("Execution Time: ")).unwrap();
    println!("a scrape, for the server: {took}");
}
