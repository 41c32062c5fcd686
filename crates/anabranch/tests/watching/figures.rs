//! The figures that a real Prometheus has scraped are those that were counted otherwise.

use crate::asked::value;
use crate::gates::{never, table_of};
use crate::ledger::{Ledger, counted};
use crate::on_both;
use crate::prometheus::{Prometheus, plain, problems};
use crate::records::Records;
use crate::support::*;
use anabranch::HandlerError;
use anabranch::prelude::*;
use anabranch::watch::{Format, METRICS, Watch};
use anabranch::webhook::{Endpoint, Webhook, WebhookSet};
use anabranch::workpool::Tasks;

on_both!(prometheus_has_the_figures_that_others_count);

/// A name that a text format must write with care.
const SET: &str = "a \"set\" \\n {of=\"é\"} #";

async fn prometheus_has_the_figures_that_others_count(db: Db) {
    let counted_elsewhere = db.log().await;
    let log = match db.url.starts_with("sqlite:") {
        true => db.log().await,
        false => db.log_named("watched").await,
    };
    let watch = Watch::new(log);
    let (server, log) = (watch.listen("127.0.0.1:0").unwrap(), watch.log());
    let at = server.address();
    let prometheus = Prometheus::start(&[("open", at), ("plain", plain(at))]);
    prometheus.until("sum(up)", 2.0).await;

    let hook = |event: &Event| match event.stream_id() {
        "3" => Err(HandlerError::new("never")),
        _ => Ok(()),
    };
    let orders = db.recorder("orders").settings(never()).hook(hook);
    let (table, ledger) = (orders.table.clone(), Ledger::new(&db, &log, "mails").await);
    let crm = Endpoint::new("http://127.0.0.1:9/").unwrap().private_addresses(true);
    let crm = Webhook::new(&log, "crm", Partition::entity("Nobody"), crm);
    let set = ReplicaSet::new(SET).projection(orders).pool(ledger.clone()).webhook(crm).lanes(2);
    let running = start(&log, set);
    // It is there with 0 before anything has failed, so the growth is seen.
    let failed = "sum by (job) (anabranch_event_failures_total{consumer=\"orders\"})";
    prometheus.until(&format!("count({failed} == 0)"), 2.0).await;

    fill(&log, 0..10, 1..=20).await;
    let stream = StreamId::new("Order", "0").unwrap();
    log.append(&stream, Expected::NoStream, [numbered(1)]).await.unwrap_err();
    let tasks = Tasks::new(&log, "mails");
    tasks.enqueue_all(counted(5, 8)).await.unwrap();
    let records = Records::new(&db, &log, 0..30).await;
    records.batch().run(&log, records.clone()).await.unwrap();
    let rest = async || {
        let orders = status(&counted_elsewhere, "orders").await;
        (orders.lag_ready == 0 && ledger.proof(&counted_elsewhere).await.0 == 40).then_some(orders)
    };
    let orders = until("all of it is done", rest).await;

    let other = &counted_elsewhere;
    let count = async |sql: String| number(other, &sql).await as f64;
    let set = table_of(other, "replica_sets");
    let handled = count(format!("SELECT count(*) FROM {table}")).await;
    assert_eq!(handled, 180.0);
    let done = format!("SELECT count(*) FROM {} WHERE state = 4", table_of(other, "tasks"));
    let figures = [
        ("anabranch_events_handled_total{consumer=\"orders\"}", handled),
        ("anabranch_batch_events_sum{consumer=\"orders\"}", handled),
        ("anabranch_lag_events{consumer=\"orders\"}", orders.lag as f64),
        ("anabranch_lag_ready_events{consumer=\"orders\"}", 0.0),
        ("anabranch_parked_keys{consumer=\"orders\"}", orders.parked_keys as f64),
        ("anabranch_parked_events{consumer=\"orders\"}", orders.parked_events as f64),
        ("anabranch_event_failures_total{consumer=\"orders\"}", 1.0),
        ("anabranch_append_seconds_count", 20.0),
        ("anabranch_append_batch_events_sum", 201.0),
        ("anabranch_append_conflicts_total", 1.0),
        ("anabranch_tasks_done_total{pool=\"mails\"}", 40.0),
        ("anabranch_tasks{pool=\"mails\",state=\"done\"}", count(done).await),
        ("anabranch_task_seconds_count{pool=\"mails\"}", 40.0),
        (
            "anabranch_batch_rows_total{consumer=\"copy\",outcome=\"done\"}",
            records.copied(other).await.0 as f64,
        ),
        ("anabranch_slots_owned{consumer=\"orders\"}", 5040.0),
        ("anabranch_workers", 1.0),
        ("anabranch_generation", count(format!("SELECT generation FROM {set}")).await),
        ("anabranch_deliveries_total{outcome=\"gone\"}", 0.0),
        ("anabranch_database_up", 1.0),
    ];
    for (query, figure) in figures {
        for job in ["open", "plain"] {
            let (name, labels) = query.split_once('{').unwrap_or((query, "}"));
            prometheus.until(&format!("{name}{{job=\"{job}\",{labels}"), figure).await;
        }
    }
    assert_eq!(orders.parked_keys, 1);
    prometheus
        .until("count(increase(anabranch_event_failures_total{consumer=\"orders\"}[5m]) > 0)", 2.0)
        .await;
    // The name of the set arrives as it is.
    let named = SET.replace('\\', "\\\\").replace('"', "\\\"");
    prometheus.until(&format!("count(anabranch_workers{{set=\"{named}\"}})"), 2.0).await;
    sessions_are_those_of_the_server(&db, &prometheus, other).await;

    // Those of the database are left out where it takes too long.
    let scraped = async || {
        let text = watch.metrics(Format::Prometheus).await;
        (value(&text, "anabranch_database_up") == Some(1.0)).then_some(text)
    };
    let text = until("all metrics", scraped).await;
    assert_eq!(problems(&text), "", "{text}");
    for metric in METRICS {
        assert!(text.contains(&format!("# TYPE {} ", metric.name)), "{} is missing", metric.name);
    }
    running.stop().await;
}

/// What it has open, as the server knows it.
async fn sessions_are_those_of_the_server(db: &Db, prometheus: &Prometheus, log: &Log) {
    if db.url.starts_with("sqlite:") {
        return prometheus.until("sum(anabranch_sessions{job=\"open\",use=\"writes\"})", 1.0).await;
    }
    // Those of a lane or a reader are closed when they are idle. Names change with their use, so they are told by what
    // they have in common with the link: the process that is their client.
    let all = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' \
               AND application_name LIKE $1";
    let agree = async || {
        let name = format!("{}_watched%", db.own);
        let rows = query(log, all, params![name]).await;
        let open: i64 = rows[0].get(0).unwrap();
        let found = prometheus.query("sum(anabranch_sessions{job=\"open\"})");
        (found == [open as f64] && open >= 5).then_some(())
    };
    until("as many sessions as the server has", agree).await;
    for of in ["link", "control", "watch"] {
        prometheus.until(&format!("anabranch_sessions{{job=\"open\",use=\"{of}\"}}"), 1.0).await;
    }
}
