//! Events of several traces in one transaction: it links to each, and each goes on by itself.

use crate::receiver::{Seen, Spans};
use crate::support::Db;
use crate::traced::{Traced, placed, request};
use crate::traced_on_both;
use anabranch::prelude::*;

traced_on_both!(
    a_batch_links_to_what_it_was_made_of,
    a_batch_of_one_append_is_a_part_of_its_trace,
    a_batch_of_one_request_is_a_part_of_its_trace,
    a_batch_handler_goes_on_event_by_event,
    more_traces_than_links,
);

fn issue(event: &Event, tx: &mut Tx) -> HandlerResult {
    let stream = StreamId::new("Invoice", event.stream_id())?;
    tx.append(&stream, Expected::Any, [NewEvent::new("InvoiceIssued", ())])
}

/// Appends an event for each order, one by one.
struct Singly;

impl Projection for Singly {
    fn name(&self) -> &str {
        "invoices"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        issue(event, tx)
    }
}

/// The same of a batch at once.
struct Together;

impl Projection for Together {
    fn name(&self) -> &str {
        "invoices"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        issue(event, tx)
    }

    async fn handle_batch(&self, events: &[Event], tx: &mut Tx) -> HandlerResult {
        for (number, event) in events.iter().enumerate() {
            tx.for_event(number);
            issue(event, tx)?;
        }
        Ok(())
    }
}

/// The append of the request with this name.
fn append_of<'a>(spans: &'a Spans, order: &str) -> Option<&'a Seen> {
    let request = spans.one(order)?;
    spans.below(request, "append").into_iter().next()
}

async fn handle_all(log: &Log, projection: impl Projection) {
    ReplicaSet::new("main").projection(projection).lanes(1).catch_up(log).await.unwrap();
}

async fn invoice(log: &Log, order: &str) -> Event {
    let stream = StreamId::new("Invoice", order).unwrap();
    log.read_stream(&stream).collect().await.unwrap().remove(0)
}

async fn a_batch_links_to_what_it_was_made_of(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    for order in ["a", "b", "c"] {
        placed(&log, order).await;
    }
    handle_all(&log, Singly).await;
    let mut found = Vec::new();
    traced.sent().until("the batch", |spans| {
        let batch = spans.one("handle invoices")?;
        assert_eq!(
            (batch.parent.as_str(), batch.attributes["anabranch.events"].as_str()),
            ("", "3")
        );
        assert_eq!(batch.links.len(), 3);
        assert_eq!(spans.below(batch, "commit").len(), 1);
        for order in ["a", "b", "c"] {
            let append = append_of(spans, order)?;
            assert!(batch.links_to(append) && batch.trace != append.trace);
            // Each event is handled in its own trace, for the batch.
            let each = spans.below(append, "handle event");
            assert_eq!(each.len(), 1);
            assert!(each[0].links_to(batch));
        }
        Some(())
    });
    for order in ["a", "b", "c"] {
        found.push((order, invoice(&log, order).await.trace().unwrap()));
    }
    // And what was appended for it goes on from there.
    traced.sent().until("the batch", |spans| {
        for (order, trace) in &found {
            let each = spans.below(append_of(spans, order)?, "handle event")[0];
            assert_eq!(trace.to_string(), each.context());
        }
        Some(())
    });
}

async fn a_batch_of_one_append_is_a_part_of_its_trace(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    let append = |order: &str| {
        let stream = StreamId::new("Order", order).unwrap();
        Append::new().to(&stream, Expected::Any, [NewEvent::new("OrderPlaced", ())])
    };
    let both = append("a").to(
        &StreamId::new("Order", "b").unwrap(),
        Expected::Any,
        [NewEvent::new("OrderPlaced", ())],
    );
    request("both", log.append_all(both)).await.unwrap();
    handle_all(&log, Singly).await;
    traced.sent().until("the batch", |spans| {
        let append = append_of(spans, "both")?;
        let batch = spans.one("handle invoices")?;
        assert_eq!((&batch.parent, &batch.trace), (&append.id, &append.trace));
        assert!(spans.0.iter().all(|span| span.links.is_empty()), "one append needs no links");
        // Each of its events stands in the batch.
        assert_eq!(spans.below(batch, "handle event").len(), 2);
        assert_eq!(spans.below(batch, "commit").len(), 1);
        Some(())
    });
}

/// Two appends of one request: two spans, but one trace.
async fn a_batch_of_one_request_is_a_part_of_its_trace(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    let both = async {
        placed(&log, "a").await;
        placed(&log, "b").await;
    };
    Box::pin(request("both", both)).await;
    handle_all(&log, Singly).await;
    traced.sent().until("the batch", |spans| {
        let (first, second) = (append_of(spans, "a")?, append_of(spans, "b")?);
        let batch = spans.one("handle invoices")?;
        assert_eq!(batch.attributes["anabranch.events"], "2");
        assert_eq!((&batch.parent, &batch.trace), (&first.id, &first.trace));
        assert!(batch.links.len() == 1 && batch.links_to(second), "{batch:?}");
        // Each of its events stands in the batch, which has the link.
        let each = spans.below(batch, "handle event");
        assert!(each.len() == 2 && each.iter().all(|event| event.links.is_empty()), "{each:?}");
        assert_eq!(spans.below(batch, "commit").len(), 1);
        assert!(spans.0.iter().all(|span| span.trace == first.trace), "one request is one trace");
        Some(())
    });
}

async fn a_batch_handler_goes_on_event_by_event(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    for order in ["a", "b"] {
        placed(&log, order).await;
    }
    // Outside of any trace.
    let stream = StreamId::new("Order", "c").unwrap();
    let plain = NewEvent::new("OrderPlaced", ());
    let quiet = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::new());
    log.append(&stream, Expected::Any, [plain]).await.unwrap();
    drop(quiet);
    handle_all(&log, Together).await;
    let [a, b, c] = [invoice(&log, "a").await, invoice(&log, "b").await, invoice(&log, "c").await];
    traced.sent().until("the batch", |spans| {
        let batch = spans.one("handle invoices")?;
        assert_eq!(batch.links.len(), 2);
        for (order, event) in [("a", &a), ("b", &b)] {
            let append = append_of(spans, order)?;
            assert!(batch.links_to(append));
            // It has no span of its own in a handler of whole batches.
            assert_eq!(event.trace().unwrap().to_string(), append.context());
        }
        // What began no trace goes on with that of the batch.
        assert_eq!(c.trace().unwrap().to_string(), batch.context());
        Some(())
    });
}

async fn more_traces_than_links(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    for number in 0..140 {
        placed(&log, &number.to_string()).await;
    }
    handle_all(&log, Together).await;
    // The receiver refuses a span of which links were left out.
    traced.sent().until("the batch", |spans| {
        let batch = spans.one("handle invoices")?;
        assert_eq!(batch.links.len(), 128);
        Some(())
    });
}
