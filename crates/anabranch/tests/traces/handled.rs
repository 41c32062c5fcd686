//! One event: its append, its handler and its commit are one trace, whoever handles it.

use crate::support::{Db, start, until};
use crate::traced::{Traced, placed, request};
use crate::traced_on_both;
use anabranch::Delivery;
use anabranch::prelude::*;
use anabranch::trace::{TraceContext, current, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

traced_on_both!(
    an_append_its_handler_and_the_commit_are_one_trace,
    a_repeated_append_stays_in_the_trace_of_the_first,
    what_was_said_of_a_request_goes_on,
    a_failed_attempt_and_the_next_are_in_the_same_trace,
    who_takes_over_goes_on_with_the_trace,
);

/// Appends an event for each order.
struct Invoices;

impl Projection for Invoices {
    fn name(&self) -> &str {
        "invoices"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let stream = StreamId::new("Invoice", event.stream_id())?;
        tx.append(&stream, Expected::Any, [NewEvent::new("InvoiceIssued", ())])
    }
}

/// Tells somebody of each invoice.
struct Mails;

impl Subscriber for Mails {
    fn name(&self) -> &str {
        "mails"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Invoice")
    }

    async fn deliver(&self, delivery: &Delivery<'_>) -> HandlerResult {
        // It runs in the trace of the event, so a span of its own goes on with it.
        assert_eq!(current().unwrap().trace_id(), delivery.event().trace().unwrap().trace_id());
        drop(tracing::info_span!("mail"));
        Ok(())
    }
}

async fn an_append_its_handler_and_the_commit_are_one_trace(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    let event = placed(&log, "o-1").await;
    let set = || ReplicaSet::new("main").projection(Invoices).subscriber(Mails).lanes(1);
    let running = start(&log, set());
    let receiver = traced.sent();
    let invoice = StreamId::new("Invoice", "o-1").unwrap();
    until("the invoice", async || {
        (!log.read_stream(&invoice).collect().await.unwrap().is_empty()).then_some(())
    })
    .await;
    until("the mail", async || {
        traced.sent();
        (receiver.spans().iter().any(|span| span.name == "mail")).then_some(())
    })
    .await;
    running.stop().await;
    traced.sent().until("all of the trace", |spans| {
        let (request, append) = (spans.one("o-1")?, spans.one("append")?);
        assert_eq!((request.parent.as_str(), append.parent.as_str()), ("", request.id.as_str()));
        let handle = spans.one("handle invoices")?;
        assert_eq!(handle.parent, append.id, "what was appended is what is handled");
        assert_eq!(event.trace().unwrap().to_string(), append.context());
        let commit = spans.below(handle, "commit");
        assert_eq!(commit.len(), 1);
        // What it has appended goes on from it.
        let second = spans.one("handle mails")?;
        assert_eq!(second.parent, handle.id);
        assert_eq!(spans.one("mail")?.parent, second.id);
        assert_eq!(spans.below(second, "commit").len(), 1);
        assert!(spans.0.iter().all(|span| span.trace == request.trace && span.links.is_empty()));
        assert!(spans.0.iter().all(|span| span.error.is_none() && span.service == "the test"));
        // Who did it. A producer is 4, and a consumer 5.
        assert_eq!((append.kind, handle.kind), (4, 5));
        let of = |key: &str| handle.attributes[key].as_str();
        assert_eq!((of("anabranch.set"), of("anabranch.consumer")), ("main", "invoices"));
        assert_eq!((of("anabranch.lane"), of("anabranch.events")), ("0", "1"));
        assert!(!of("anabranch.worker").is_empty());
        Some(())
    });
    let names: Vec<String> = receiver.spans().into_iter().map(|span| span.name).collect();
    // Reading, waiting, heartbeats and the export itself are none.
    assert_eq!(names.len(), 7, "{names:?}");
}

async fn a_repeated_append_stays_in_the_trace_of_the_first(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    let (stream, id) = (StreamId::new("Order", "o-1").unwrap(), uuid::Uuid::now_v7());
    let append = || {
        let placed = NewEvent::new("OrderPlaced", 1).with_id(id);
        log.append(&stream, Expected::Any, [placed])
    };
    let first = request("first", append()).await.unwrap();
    let second = request("second", append()).await.unwrap();
    assert_eq!(first, second, "it is the same append, in whatever span");
    ReplicaSet::new("main").projection(Invoices).catch_up(&log).await.unwrap();
    traced.sent().until("the handler", |spans| {
        let (first, second) = (spans.one("first")?, spans.one("second")?);
        assert_ne!(first.trace, second.trace);
        let handle = spans.one("handle invoices")?;
        assert_eq!(handle.trace, first.trace);
        assert_eq!(handle.parent, spans.below(first, "append")[0].id);
        assert_eq!(spans.below(second, "append").len(), 1);
        Some(())
    });
}

/// Without a span, `within` says where the code runs: the trace of somebody else, who did not sample it or did.
async fn what_was_said_of_a_request_goes_on(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    let given = |text: &str| text.parse::<TraceContext>().unwrap();
    let theirs = given("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let unsampled = given("00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
    for (order, context) in [("1", theirs), ("2", unsampled)] {
        let stream = StreamId::new("Order", order).unwrap();
        let append = log.append(&stream, Expected::Any, [NewEvent::new("OrderPlaced", ())]);
        within(context, append).await.unwrap();
        ReplicaSet::new("main").projection(Invoices).catch_up(&log).await.unwrap();
    }
    let invoice = StreamId::new("Invoice", "2").unwrap();
    let events = log.read_stream(&invoice).collect().await.unwrap();
    let second = events[0].trace().unwrap();
    assert_eq!((second.trace_id(), second.flags()), (unsampled.trace_id(), 0), "it is handed on");
    traced.sent().until("the handler of the first", |spans| {
        let handle = spans.one("handle invoices")?;
        assert_eq!(handle.trace, "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(handle.parent, "b7ad6b7169203331");
        Some(())
    });
    // Of the trace that nobody samples there is nothing.
    let traces: Vec<String> = traced.receiver.spans().into_iter().map(|span| span.trace).collect();
    assert!(traces.iter().all(|trace| !trace.starts_with("1af76")), "{traces:?}");
}

/// Fails at first.
struct Once(AtomicU32);

impl Projection for Once {
    fn name(&self) -> &str {
        "once"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, _: &Event, _: &mut Tx) -> HandlerResult {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err(anabranch::HandlerError::new("the first is in vain")),
            _ => Ok(()),
        }
    }
}

async fn a_failed_attempt_and_the_next_are_in_the_same_trace(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    placed(&log, "o-1").await;
    let running = start(&log, ReplicaSet::new("main").projection(Once(AtomicU32::new(0))));
    until("both attempts", async || {
        let spans = traced.sent().spans();
        (spans.iter().filter(|span| span.name == "handle once").count() == 2).then_some(())
    })
    .await;
    running.stop().await;
    traced.sent().until("both attempts", |spans| {
        let append = spans.one("append")?;
        let handles = spans.below(append, "handle once");
        let [first, second] = handles[..] else { return None };
        let failed = first.error.as_deref().unwrap_or_default();
        assert!(failed.contains("the first is in vain"), "{first:?}");
        assert!(spans.below(first, "commit").is_empty() && second.error.is_none());
        assert_eq!(spans.below(second, "commit").len(), 1);
        Some(())
    });
}

/// Never ends, the first time.
struct Stuck(Arc<AtomicU32>);

impl Projection for Stuck {
    fn name(&self) -> &str {
        "stuck"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, _: &Event, _: &mut Tx) -> HandlerResult {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

async fn who_takes_over_goes_on_with_the_trace(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    placed(&log, "o-1").await;
    let begun = Arc::new(AtomicU32::new(0));
    let set = || {
        // A crash is seen at once; only a worker that stands still is taken for dead by its lease.
        let tuning = anabranch::Tuning::default().lease(Duration::from_secs(5));
        let tuning = tuning.heartbeat(Duration::from_millis(100));
        ReplicaSet::new("main").projection(Stuck(Arc::clone(&begun))).tuning(tuning)
    };
    let first = start(&db.log().await, set());
    until("the first", async || (begun.load(Ordering::SeqCst) == 1).then_some(())).await;
    let second = start(&db.log().await, set());
    first.crash();
    until("the second", async || {
        let spans = traced.sent().spans();
        (spans.iter().any(|span| span.name == "commit")).then_some(())
    })
    .await;
    second.stop().await;
    traced.sent().until("both workers", |spans| {
        let append = spans.one("append")?;
        let handles = spans.below(append, "handle stuck");
        let [first, second] = handles[..] else { return None };
        let worker = |span: &crate::receiver::Seen| span.attributes["anabranch.worker"].clone();
        assert_ne!(worker(first), worker(second));
        // Only one has committed.
        assert!(spans.below(first, "commit").is_empty());
        assert_eq!(spans.below(second, "commit").len(), 1);
        Some(())
    });
}
