//! The decision against a model: the same appends, one after the other.

use super::*;
use crate::{Expected, Query, Slots};
use proptest::prelude::*;

fn stream(id: u8) -> StreamId {
    StreamId::new("S", id.to_string()).unwrap()
}

fn event(tag: u8) -> NewEvent {
    NewEvent::new("E", ()).with_tag(format!("t:{tag}"))
}

fn positions(decision: &Decision<'_>, from: u64) -> Vec<Position> {
    (0..decision.rows.len() as u64).map(|n| Position::new(from + n)).collect()
}

fn stored(row: &Row<'_>, position: Position) -> Event {
    let slots = Slots::from_keys(crate::HashRule::Fnv1a, row.stream.id(), None, None);
    let body = row.event.body(row.stream);
    Event::from_row(position, row.version, row.event.id(), 0, slots, &body)
}

/// The log as a list of events, and `Known` read from it as a backend would.
#[derive(Default)]
struct Model(Vec<Event>);

impl Model {
    fn known<'a>(&self, batch: &[&'a Append]) -> Known<'a> {
        let mut known = Known::default();
        for append in batch {
            for (stream, event) in append.events() {
                let of_stream = self.0.iter().filter(|stored| stored.stream() == *stream);
                known.versions.insert(stream, of_stream.count() as u64);
                if let Some(stored) = self.0.iter().find(|stored| stored.id() == event.id()) {
                    known.ids.insert(event.id(), stored.clone());
                }
            }
            let next = |stored: &&Event| Some(stored.id()) == append.next_id();
            known.ids.extend(self.0.iter().find(next).map(|event| (event.id(), event.clone())));
            known.matches.push(append.condition().and_then(|condition| {
                let newer = |event: &&Event| event.position() > condition.after;
                let hit =
                    |event: &&Event| condition.query.matches(event.event_type(), event.tags());
                self.0.iter().filter(newer).find(hit).map(Event::position)
            }));
        }
        known
    }

    /// Decides and stores a batch; the answers as text without what may differ between a batch and
    /// single appends (the position of a match inside one commit).
    fn run(&mut self, batch: &[Append]) -> Vec<String> {
        let batch: Vec<&Append> = batch.iter().collect();
        let decision = decide(&batch, &self.known(&batch));
        let at = positions(&decision, self.0.len() as u64 + 1);
        for (row, position) in decision.rows.iter().zip(&at) {
            self.0.push(stored(row, *position));
        }
        let text = |answer: Result<Appended, AppendError>| match answer {
            Ok(appended) => format!("{:?}", appended.events()),
            Err(AppendError::ConditionFailed { query, after, .. }) => format!("{query} {after}"),
            Err(error) => error.to_string(),
        };
        decision.settle(&at).into_iter().map(text).collect()
    }
}

#[test]
fn a_refused_append_leaves_no_trace() {
    let (a, b) = (stream(1), stream(2));
    let batch = [
        Append::new().to(&a, Expected::Any, [event(1)]).to(&b, Expected::Exact(7), [event(2)]),
        Append::new().to(&a, Expected::NoStream, [event(3)]),
    ];
    let decision = decide(&batch.each_ref(), &Known::default());
    assert_eq!(decision.rows.len(), 1, "only the second append is written");
    let at = positions(&decision, 1);
    let answers = decision.settle(&at);
    let Err(AppendError::Conflict { stream, expected, actual }) = &answers[0] else {
        panic!("{answers:?}")
    };
    assert_eq!((stream, *expected, *actual), (&b, Expected::Exact(7), 0));
    assert_eq!(answers[1].as_ref().unwrap().version(), 1);
}

#[test]
fn a_condition_sees_what_the_same_batch_stores_before_it() {
    let reserve = || {
        Append::new()
            .to(&stream(1), Expected::Any, [event(9)])
            .unless(Query::tags(["t:9"]), Position::START)
    };
    let batch = [reserve(), reserve(), reserve()];
    let decision = decide(&batch.each_ref(), &Known::default());
    let at = positions(&decision, 1);
    let won: Vec<bool> = decision.settle(&at).iter().map(Result::is_ok).collect();
    assert_eq!(won, [true, false, false]);
}

#[test]
fn the_same_id_is_one_event_and_another_body_is_an_error() {
    let mut model = Model::default();
    let first = Append::new().to(&stream(1), Expected::NoStream, [event(1), event(2)]);
    let answers = model.run(&[first.clone(), first.clone()]);
    assert_eq!(answers[0], answers[1], "within a batch");
    assert_eq!(model.run(std::slice::from_ref(&first))[0], answers[0], "across batches");
    assert_eq!(model.0.len(), 2);

    let id = first.parts()[0].events[0].id();
    let other = NewEvent::new("E", "another body").with_tag("t:1").with_id(id);
    let reuse = Append::new().to(&stream(1), Expected::Any, [other]);
    assert!(model.run(std::slice::from_ref(&reuse))[0].contains("with a different data"));
    let elsewhere = event(1).with_id(id);
    let reuse = Append::new().to(&stream(2), Expected::Any, [elsewhere]);
    assert!(model.run(std::slice::from_ref(&reuse))[0].contains("with a different stream"));
    assert_eq!(model.0.len(), 2);
}

/// A backend need not look up every id at first, but a conflict may be an append's own doing.
/// What is sent under one key is one request: it is there as a whole, and nothing else is taken for it.
#[test]
fn a_request_is_stored_once_and_no_other_is_taken_for_it() {
    let id = |number: u64| Uuid::from_u128(u128::from(number) + 1);
    let sent = |streams: &[(u8, &[u8])]| {
        let to = |append: Append, (name, tags): &(u8, &[u8])| {
            append.to(&stream(*name), Expected::Any, tags.iter().map(|tag| event(*tag)))
        };
        streams.iter().fold(Append::new(), to).once(id)
    };
    let all: [&[(u8, &[u8])]; 7] = [
        &[(1, &[1])],
        &[(1, &[1, 2])],
        &[(1, &[1, 2, 3])],
        &[(1, &[2, 1])],
        &[(2, &[1])],
        &[(1, &[1]), (2, &[2])],
        &[(1, &[2])],
    ];
    for first in all {
        for second in all {
            let (mut apart, mut together) = (Model::default(), Model::default());
            let (stored, count) = (apart.run(&[sent(first)]), apart.0.len());
            let again = apart.run(&[sent(second)]);
            match first == second {
                true => assert_eq!(stored, again),
                false => assert!(again[0].contains("is in the log already"), "{again:?}"),
            }
            assert_eq!(apart.0.len(), count, "{first:?} {second:?}");
            // The same within one batch.
            let both = together.run(&[sent(first), sent(second)]);
            assert_eq!((both, together.0), ([stored, again].concat(), apart.0));
        }
    }
}

#[test]
fn the_ids_of_a_refused_append_are_doubtful() {
    let mut model = Model::default();
    let first = Append::new().to(&stream(1), Expected::NoStream, [event(1), event(2)]);
    model.run(std::slice::from_ref(&first));
    let other = Append::new().to(&stream(2), Expected::Any, [event(3)]);
    let batch = [&first, &other];
    let known = Known { ids: HashMap::new(), ..model.known(&batch) };
    let decision = decide(&batch, &known);
    let ids: Vec<Uuid> = first.events().map(|(_, event)| event.id()).collect();
    assert_eq!(decision.doubtful(), ids);
    let decision = decide(&batch, &model.known(&batch));
    assert!(decision.doubtful().is_empty());
}

#[test]
fn one_id_with_two_bodies_in_one_append_is_refused() {
    let first = event(1);
    let second = event(2).with_id(first.id());
    let batch = [Append::new().to(&stream(1), Expected::Any, [first, second])];
    let decision = decide(&batch.each_ref(), &Known::default());
    assert!(decision.rows.is_empty());
    let answer = decision.settle(&[]).remove(0);
    assert!(answer.unwrap_err().to_string().contains("stands twice in this append"));
}

#[test]
#[should_panic(expected = "positions grow")]
fn a_backend_that_breaks_the_order_is_caught() {
    let batch = [Append::new().to(&stream(1), Expected::Any, [event(1), event(2)])];
    let decision = decide(&batch.each_ref(), &Known::default());
    let _ = decision.settle(&[Position::new(2), Position::new(1)]);
}

fn any_append() -> impl Strategy<Value = Append> {
    let expected = prop_oneof![
        Just(Expected::Any),
        Just(Expected::NoStream),
        (0..4u64).prop_map(Expected::Exact)
    ];
    let part = (0..3u8, expected, proptest::collection::vec((0..3u8, 0..12u128), 1..3));
    let condition = proptest::option::of((0..3u8, 0..6u64));
    let once = proptest::option::of(0..12u64);
    (proptest::collection::vec(part, 1..3), condition, once).prop_map(|(parts, condition, once)| {
        let mut append = Append::new();
        for (id, expected, events) in parts {
            // Few ids, so that repeated and reused ones come up.
            let event = |(tag, id)| event(tag).with_id(Uuid::from_u128(id));
            append = append.to(&stream(id), expected, events.into_iter().map(event));
        }
        if let Some(next) = once {
            append = append.once(|number| Uuid::from_u128(u128::from(next + number)));
        }
        match condition {
            Some((tag, after)) => {
                append.unless(Query::tags([format!("t:{tag}")]), Position::new(after))
            }
            None => append,
        }
    })
}

proptest! {
    #[test]
    fn a_batch_means_the_same_as_its_appends_one_by_one(
        before in proptest::collection::vec(any_append(), 0..4),
        batch in proptest::collection::vec(any_append(), 1..8),
    ) {
        let (mut together, mut apart) = (Model::default(), Model::default());
        for append in before {
            together.run(std::slice::from_ref(&append));
            apart.run(std::slice::from_ref(&append));
        }
        // A condition that looks beyond the head would be decided by positions not yet drawn.
        let head = Position::new(together.0.len() as u64);
        let batch: Vec<Append> = batch
            .into_iter()
            .filter(|append| append.condition().is_none_or(|condition| condition.after <= head))
            .collect();
        let answers = together.run(&batch);
        let single: Vec<String> =
            batch.iter().flat_map(|append| apart.run(std::slice::from_ref(append))).collect();
        prop_assert_eq!(answers, single);
        prop_assert_eq!(together.0, apart.0);
    }
}
