//! Reading: streams and the log, both ways, page by page.

use super::{Harness, numbered, numbers, order};
use crate::Page;
use anabranch_core::limits::{MAX_ITEM_TAGS, MAX_QUERY_TERMS};
use anabranch_core::{Append, Expected, NewEvent, Position, Query};

/// From a version, backwards, with a limit; a stream that is not there is empty.
pub async fn a_stream_reads_in_both_directions(harness: &Harness) {
    let log = harness.log().await;
    for number in 1..=10 {
        log.append(&order(1), Expected::Any, [numbered(number)]).await.unwrap();
        log.append(&order(2), Expected::Any, [numbered(100 + number)]).await.unwrap();
    }
    let read = || log.read_stream(&order(1));
    let all: Vec<u64> = (1..=10).collect();
    assert_eq!(numbers(&read().collect().await.unwrap()), all);
    assert_eq!(numbers(&read().from_version(8).collect().await.unwrap()), [8, 9, 10]);
    assert_eq!(numbers(&read().from_version(0).limit(2).collect().await.unwrap()), [1, 2]);
    assert!(read().from_version(11).collect().await.unwrap().is_empty());
    assert!(read().from_version(u64::MAX).collect().await.unwrap().is_empty());
    assert_eq!(numbers(&read().backwards().limit(3).collect().await.unwrap()), [10, 9, 8]);
    let down = read().backwards().from_version(2).collect().await.unwrap();
    assert_eq!(numbers(&down), [2, 1]);
    let down = read().backwards().from_version(u64::MAX).limit(1).collect().await.unwrap();
    assert_eq!(numbers(&down), [10]);
    assert!(read().limit(0).collect().await.unwrap().is_empty());
    assert!(log.read_stream(&order("none")).collect().await.unwrap().is_empty());
}

/// After, before, backwards, with a limit.
pub async fn the_log_reads_in_both_directions(harness: &Harness) {
    let log = harness.log().await;
    for number in 1..=10 {
        log.append(&order(number % 3), Expected::Any, [numbered(number)]).await.unwrap();
    }
    let read = || log.read(Query::all());
    let at = Position::new;
    assert_eq!(numbers(&read().collect().await.unwrap()), (1..=10).collect::<Vec<_>>());
    assert_eq!(numbers(&read().after(at(8)).collect().await.unwrap()), [9, 10]);
    assert_eq!(numbers(&read().after(at(3)).limit(2).collect().await.unwrap()), [4, 5]);
    assert!(read().after(at(10)).collect().await.unwrap().is_empty());
    assert!(read().after(at(u64::MAX)).collect().await.unwrap().is_empty());
    assert_eq!(numbers(&read().backwards().limit(2).collect().await.unwrap()), [10, 9]);
    assert_eq!(numbers(&read().before(at(3)).collect().await.unwrap()), [2, 1]);
    assert!(read().before(at(1)).collect().await.unwrap().is_empty());
}

/// More than a page, in both directions, by stream, by query and whole.
pub async fn a_long_read_is_complete_and_in_order(harness: &Harness) {
    const EVENTS: u64 = 2 * Page::MAX_EVENTS as u64 + 1000;
    let log = harness.log().await;
    for from in (0..EVENTS).step_by(1000) {
        let events = (from..EVENTS.min(from + 1000)).map(|number| numbered(number).with_tag("t"));
        log.append(&order(1), Expected::Any, events).await.unwrap();
    }
    let up: Vec<u64> = (0..EVENTS).collect();
    let down: Vec<u64> = (0..EVENTS).rev().collect();
    assert_eq!(numbers(&log.read(Query::all()).collect().await.unwrap()), up);
    assert_eq!(numbers(&log.read(Query::all()).backwards().collect().await.unwrap()), down);
    assert_eq!(numbers(&log.read(Query::tags(["t"])).collect().await.unwrap()), up);
    assert_eq!(numbers(&log.read_stream(&order(1)).collect().await.unwrap()), up);
    assert_eq!(numbers(&log.read_stream(&order(1)).backwards().collect().await.unwrap()), down);
    let mut events = log.read(Query::all()).limit(5000).events();
    let mut taken = Vec::new();
    while let Some(event) = events.next().await {
        taken.push(event.unwrap());
    }
    assert_eq!(numbers(&taken), (0..5000).collect::<Vec<_>>());
    let mut events = log.read(Query::all()).events();
    let first = events.next().await.unwrap().unwrap();
    let rest = events.collect().await.unwrap();
    assert_eq!((numbers(&[first]), rest.len() as u64), (vec![0], EVENTS - 1), "nothing between");
}

/// Events near the limit are read in pages of a few, so that memory stays bounded.
pub async fn large_events_come_in_small_pages(harness: &Harness) {
    let log = harness.log().await;
    let large = || NewEvent::new("Large", "x".repeat((1 << 20) - 2));
    for number in 0..12 {
        log.append(&order(number), Expected::Any, [large()]).await.unwrap();
    }
    let backend = |scope| crate::ReadRequest {
        scope,
        filter: crate::Filter::default(),
        cursor: 0,
        up_to: anabranch_core::Position::END,
        backwards: false,
        max_events: 4096,
    };
    let page = log.store().read(backend(crate::Scope::Log(Query::all()))).await.unwrap();
    assert!(page.events.len() <= 5, "a page of {} MiB", page.events.len());
    assert_eq!(page.end, crate::PageEnd::More);
    assert_eq!(log.read(Query::all()).collect().await.unwrap().len(), 12);
}

/// The same event as a read of its stream hands out; an id that no append has stored finds nothing.
pub async fn one_event_is_found_by_its_id(harness: &Harness) {
    let log = harness.log().await;
    for stream in 1..=3 {
        let events = (1..=5).map(|number| numbered(10 * stream + number).with_tag("t"));
        log.append(&order(stream), Expected::Any, events).await.unwrap();
    }
    let refused = numbered(9);
    let refusal = log.append(&order(1), Expected::NoStream, [refused.clone()]).await;
    assert!(refusal.is_err());
    let other = harness.again(&log).await;
    for event in log.read(Query::all()).collect().await.unwrap() {
        assert_eq!(other.find(event.id()).await.unwrap(), Some(event));
    }
    assert_eq!(log.find(refused.id()).await.unwrap(), None, "a refused append leaves no trace");
    assert_eq!(log.find(uuid::Uuid::nil()).await.unwrap(), None);
}

/// A query as large as may be, forwards, backwards and as a condition.
pub async fn the_largest_queries_work(harness: &Harness) {
    let log = harness.log().await;
    let names =
        |prefix: &str, count: usize| (0..count).map(move |n| format!("{prefix}{n}")).collect();
    let tags: Vec<String> = names("tag-", MAX_ITEM_TAGS);
    let types: Vec<String> = names("Type", MAX_QUERY_TERMS);
    let event = NewEvent::new("Type1", 1).with_tags(tags.clone());
    log.append(&order(1), Expected::Any, [event]).await.unwrap();
    let one_type: Vec<String> = names("Type", MAX_QUERY_TERMS - MAX_ITEM_TAGS);
    let many_items = (0..MAX_QUERY_TERMS).map(|n| Query::tags([format!("tag-{n}")]));
    for query in [
        Query::types(types),
        Query::types(one_type).tagged(tags),
        many_items.reduce(Query::or).unwrap(),
    ] {
        assert_eq!(log.read(query.clone()).collect().await.unwrap().len(), 1);
        assert_eq!(log.read(query.clone()).backwards().collect().await.unwrap().len(), 1);
        let append = Append::new().to(&order(2), Expected::Any, [numbered(2)]);
        let error = log.append_all(append.unless(query, Position::START)).await.unwrap_err();
        assert!(error.is_conflict(), "{error}");
    }
}

/// A query that no event can match is refused, not answered with nothing.
pub async fn a_bad_query_is_an_error(harness: &Harness) {
    let log = harness.log().await;
    let error = log.read(Query::types([""])).collect().await.unwrap_err();
    assert!(error.to_string().contains("`` in query item 1: is empty"), "{error}");
}

/// What a consumer's feed asks for: some slots, some categories, up to a position. An event without the
/// slot that is asked for counts as slot 0.
pub async fn a_filtered_read_is_bounded_and_says_how_far_it_looked(harness: &Harness) {
    use crate::{Filter, ReadRequest, Scope, SlotFilter};
    use anabranch_core::{HashRule, Slot, SlotColumn, SlotSet};
    use std::sync::Arc;
    let log = harness.log().await;
    for number in 0..40u64 {
        let category = if number % 4 == 0 { "Other" } else { "Order" };
        let stream = anabranch_core::StreamId::new(category, number.to_string()).unwrap();
        let event = numbered(number).with_tag(if number % 2 == 0 { "even" } else { "odd" });
        let event = if number % 5 == 0 { event } else { event.with_customer(number.to_string()) };
        log.append(&stream, Expected::Any, [event]).await.unwrap();
    }
    let read = async |query: Query, filter: Filter, up_to: u64| {
        let (scope, up_to) = (Scope::Log(query), anabranch_core::Position::new(up_to));
        let request =
            ReadRequest { scope, filter, cursor: 3, up_to, backwards: false, max_events: 100 };
        let page = log.store().read(request).await.unwrap();
        (numbers(&page.events), page.cursor)
    };
    let categories = || Filter { categories: vec!["Other".to_owned()], ..Filter::default() };
    assert_eq!(read(Query::all(), categories(), 20).await, (vec![4, 8, 12, 16], 20));
    let odd = Query::tags(["odd"]);
    assert_eq!(read(odd.clone(), Filter::default(), 9).await, (vec![3, 5, 7], 9));
    assert_eq!(read(odd, categories(), 40).await, (vec![], 40), "all of it was looked at");
    let half = SlotSet::partition(0, 2);
    let is_wanted = |slot: Option<Slot>| half.contains(slot.unwrap_or(Slot::ZERO));
    for column in [SlotColumn::Entity, SlotColumn::Customer] {
        let expected = (3..30u64).filter(|number| {
            let slot = HashRule::Fnv1a.slot(&number.to_string());
            match column {
                SlotColumn::Entity => is_wanted(Some(slot)),
                _ => is_wanted((number % 5 != 0).then_some(slot)),
            }
        });
        let slots = Some(SlotFilter { column, slots: Arc::new(half.clone()) });
        let filter = Filter { slots, ..Filter::default() };
        assert_eq!(read(Query::all(), filter, 30).await, (expected.collect(), 30));
    }
}
