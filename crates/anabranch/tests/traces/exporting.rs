//! The export itself: nobody waits for it, it says what is lost, and it makes no spans.

use crate::receiver::Receiver;
use crate::said::Said;
use crate::support::until;
use crate::traced::arrived;
use anabranch::trace::Export;
use std::io::Read;
use std::net::TcpListener;
use std::time::{Duration, Instant};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

/// More than fit into the queue.
const MANY: usize = 50_000;

/// Makes spans, and says how long that took.
fn make(spans: usize) -> Duration {
    let began = Instant::now();
    for _ in 0..spans {
        drop(tracing::info_span!("made"));
    }
    began.elapsed()
}

/// A collector that takes connections, reads, and never says a word.
fn silent() -> String {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1/traces", silent.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in silent.incoming() {
            std::thread::spawn(move || stream.unwrap().read_to_end(&mut Vec::new()));
        }
    });
    address
}

/// Ends an export to a collector that does not answer, which takes less than it would take to wait for its answers. Says
/// what it said.
fn end(export: Export, answers: Duration) -> Vec<String> {
    let (said, _guard) = Said::listen();
    let began = Instant::now();
    drop(export);
    assert!(began.elapsed() < answers, "its end waits {:?}", began.elapsed());
    said.lines("anabranch::otlp")
}

#[tokio::test]
async fn nobody_waits_for_a_collector_that_does_not_answer() {
    let export = Export::to(&silent(), "the test").unwrap();
    let guard = tracing_subscriber::registry().with(export.layer()).set_default();
    let took = make(MANY);
    // A hundred requests, each of which waits for ten seconds.
    assert!(took < Duration::from_secs(60), "{MANY} spans took {took:?}");
    drop(guard);
    // A full queue is four requests, and one is on its way.
    let ended = end(export, Duration::from_secs(30));
    // Some are on their way, some wait, and for most there was no room.
    assert!(ended.len() == 1 && ended[0].contains("lost=50000"), "{ended:?}");
}

#[tokio::test]
async fn what_is_lost_at_the_end_is_said_although_nobody_answers() {
    let export = Export::to(&silent(), "the test").unwrap();
    let guard = tracing_subscriber::registry().with(export.layer()).set_default();
    make(5);
    drop(guard);
    let ended = end(export, Duration::from_secs(10));
    assert!(ended.len() == 1 && ended[0].contains("lost=5 "), "{ended:?}");
    assert!(ended[0].contains("WARN"), "{ended:?}");
}

#[tokio::test]
async fn what_is_lost_is_said_once_and_how_much_when_it_is_over() {
    let place = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = Said::listen_everywhere();
    // Nobody listens there.
    let export = Export::to(&format!("http://{place}/v1/traces"), "the test").unwrap();
    let guard = tracing_subscriber::registry().with(export.layer()).set_default();
    let mut lost = 0;
    for _ in 0..3 {
        until("nobody took them", async || {
            make(5);
            lost += 5;
            // On a machine that stands still for a second, they were tried before, and it has nothing to send.
            (!export.flush()).then_some(())
        })
        .await;
    }
    // What was tried in vain is not tried again, so nothing waits by then.
    arrived(&export);
    let warned = said.lines("the collector does not take spans");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("WARN anabranch::otlp") && warned[0].contains("cannot connect"));
    let receiver = Receiver::start_at(place);
    make(5);
    arrived(&export);
    assert_eq!(receiver.spans().len(), 5);
    let over = said.lines("takes spans again");
    assert!(over.len() == 1 && over[0].contains(&format!("lost={lost}")), "{over:?}");
    drop(guard);
}

/// A client that makes a span for each request would make spans for ever.
#[tokio::test]
async fn the_export_is_not_exported() {
    let receiver = Receiver::start();
    let export = Export::to(&format!("{}/v1/traces", receiver.address()), "the test").unwrap();
    // All that anybody in this process traces.
    let layer = export.layer().with_filter(LevelFilter::TRACE);
    tracing_subscriber::registry().with(layer).init();
    make(1);
    until("the span, by itself", async || (!receiver.spans().is_empty()).then_some(())).await;
    arrived(&export);
    let (requests, spans) = (receiver.requests(), receiver.spans());
    assert_eq!((requests, spans.len()), (1, 1), "{spans:#?}");
    drop(export);
    assert_eq!(receiver.requests(), 1);
}

#[test]
fn what_is_no_address_is_refused() {
    for wrong in ["not an address", ""] {
        assert!(Export::to(wrong, "the test").is_err(), "{wrong:?}");
    }
}
