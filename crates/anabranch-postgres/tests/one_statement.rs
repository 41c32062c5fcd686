//! Appends in one statement: they answer and store exactly what appends with a look first do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;

use anabranch_core::{Append, AppendError, Expected, NewEvent, Position, Query};
use anabranch_postgres::Postgres;
use anabranch_store::contract::{numbered, numbers, order, soon};
use anabranch_store::{Log, Namespace, Options, Ticket};
use server::{client, namespace, open, url};
use uuid::Uuid;

/// A log without the function, so that every append looks first.
async fn looking(namespace: &Namespace) -> Log {
    drop(open(namespace).await);
    client().await.batch_execute(&format!("DROP FUNCTION {namespace}.admit")).await.unwrap();
    open(namespace).await
}

/// Numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// An append to one or two of few streams, with few tags and ids, so that it often meets another.
fn some_append(dice: &mut Dice) -> Append {
    let mut append = Append::new();
    for _ in 0..=dice.below(4) / 3 {
        let stream = order(dice.below(4));
        let expected = match dice.below(6) {
            0 => Expected::NoStream,
            1 => Expected::Exact(dice.below(8)),
            _ => Expected::Any,
        };
        let events: Vec<NewEvent> = (0..=dice.below(2)).map(|_| some_event(dice)).collect();
        append = append.to(&stream, expected, events);
    }
    let tag = format!("t{}", dice.below(4));
    let query = match dice.below(8) {
        0 => Query::tags([tag]),
        1 => Query::types(["A"]).tagged([tag]),
        2 => Query::tags([tag, "t1".to_owned()]).or(Query::tags(["t2"])),
        3 => Query::types(["A", "B"]),
        _ => return append,
    };
    let after = Position::new(dice.below(400));
    append.unless(query, after)
}

fn some_event(dice: &mut Dice) -> NewEvent {
    let kind = ["A", "B", "C"][dice.below(3) as usize];
    let mut event = NewEvent::new(kind, dice.below(3));
    if dice.below(2) == 0 {
        event = event.with_tags((0..=dice.below(2)).map(|number| format!("t{number}")));
    }
    match dice.below(5) {
        0 => event.with_id(Uuid::from_u128(u128::from(dice.below(60)) + 1)),
        1 => event.with_customer("c").with_correlation("s"),
        _ => event,
    }
}

/// What an append was answered, in words that do not depend on ids which nobody chose.
fn told(answer: &Result<anabranch_core::Appended, AppendError>) -> String {
    match answer {
        Ok(appended) => {
            let places = appended.events().iter().map(|event| (event.version, event.position));
            format!("{:?}", places.collect::<Vec<_>>())
        }
        Err(error) => error.to_string(),
    }
}

/// Random batches, to a log with the function and to one without: the same answers, the same events at the
/// same positions, and the same tags.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ways_answer_and_store_the_same() {
    let (with, without) = (namespace(), namespace());
    let logs = [open(&with).await, looking(&without).await];
    let (mut dice, mut accepted, mut refused) = (Dice(16), 0, 0);
    for round in 0..150 {
        let batch: Vec<Append> = (0..=dice.below(3)).map(|_| some_append(&mut dice)).collect();
        let batch: Vec<Append> =
            batch.into_iter().filter(|append| append.validate(&logs[0].limits()).is_ok()).collect();
        let mut answers = Vec::new();
        for log in &logs {
            let (tickets, replies): (Vec<_>, Vec<_>) =
                batch.iter().cloned().map(Ticket::new).unzip();
            soon(log.store().append(tickets)).await;
            let mut told_all = Vec::new();
            for reply in replies {
                let answer = soon(reply).await.unwrap();
                *if answer.is_ok() { &mut accepted } else { &mut refused } += 1;
                told_all.push(told(&answer));
            }
            answers.push(told_all);
        }
        assert_eq!(answers[0], answers[1], "round {round}: {batch:?}");
    }
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
    let client = client().await;
    for table in [
        "SELECT string_agg(concat_ws('|', position, id, category, stream_id, version, type, data, tags, \
         customer, customer_slot, saga_slot, entity_slot), E'\\n' ORDER BY position) FROM {}.events",
        "SELECT string_agg(concat_ws('|', tag, position), E'\\n' ORDER BY tag, position) FROM {}.event_tags",
    ] {
        let all = async |namespace: &Namespace| {
            let sql = table.replace("{}", namespace.as_str());
            client.query_one(&sql, &[]).await.unwrap().get::<_, String>(0)
        };
        assert_eq!(all(&with).await, all(&without).await);
    }
}

/// Streams that others append to as well: what this process knows of them is always old.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_are_counted_from_where_the_stream_stands() {
    let namespace = namespace();
    let logs = [open(&namespace).await, open(&namespace).await];
    for number in 0..10 {
        let log = &logs[number as usize % 2];
        let batch = [(1, number), (2, number), (1, number)].map(|(stream, number)| {
            let (ticket, answer) =
                Ticket::new(Append::new().to(&order(stream), Expected::Any, [numbered(number)]));
            (ticket, answer)
        });
        let (tickets, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        log.store().append(tickets).await;
        let mut versions = Vec::new();
        for answer in answers {
            versions.push(soon(answer).await.unwrap().unwrap().version());
        }
        assert_eq!(versions, [2 * number + 1, number + 1, 2 * number + 2]);
    }
    let read = logs[0].read_stream(&order(2)).collect().await.unwrap();
    assert_eq!(numbers(&read), (0..10).collect::<Vec<_>>());
}

/// With a function that admits nothing but says so by an error, one sees which appends ask it.
#[tokio::test]
async fn appends_are_stored_in_one_statement() {
    let namespace = namespace();
    let log = open(&namespace).await;
    let client = client().await;
    let signature = format!(
        "SELECT pg_get_function_identity_arguments('{namespace}.admit'::regproc), \
         pg_get_function_result('{namespace}.admit'::regproc)"
    );
    let row = client.query_one(&signature, &[]).await.unwrap();
    let (arguments, result): (String, String) = (row.get(0), row.get(1));
    let shout = format!(
        "CREATE OR REPLACE FUNCTION {namespace}.admit({arguments}) RETURNS {result} LANGUAGE plpgsql \
         AS $$ BEGIN RAISE 'asked'; END $$"
    );
    client.batch_execute(&shout).await.unwrap();
    let one = |expected| Append::new().to(&order(1), expected, [numbered(1)]);
    let chosen =
        Append::new().to(&order(1), Expected::Any, [numbered(1).with_id(Uuid::from_u128(7))]);
    for append in [
        one(Expected::Any),
        one(Expected::NoStream),
        one(Expected::Any).unless(Query::types(["A"]).tagged(["t"]), Position::START),
        chosen,
    ] {
        let error = log.append_all(append).await.unwrap_err();
        assert!(error.to_string().contains("asked"), "{error}");
    }
    let look = one(Expected::Any).unless(Query::types(["A"]), Position::START);
    log.append_all(look).await.unwrap();
}

/// Where functions are nobody's by default, a role that may write still may.
#[tokio::test]
async fn who_may_not_call_the_function_looks_first() {
    let (namespace, client) = (namespace(), client().await);
    drop(open(&namespace).await);
    let role = format!("role_{namespace}");
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN PASSWORD 'x'; \
             REVOKE EXECUTE ON FUNCTION {namespace}.admit FROM PUBLIC; \
             GRANT USAGE ON SCHEMA {namespace} TO {role}; \
             GRANT ALL ON ALL TABLES IN SCHEMA {namespace} TO {role}; \
             GRANT ALL ON ALL SEQUENCES IN SCHEMA {namespace} TO {role}"
        ))
        .await
        .unwrap();
    let whole = url();
    let (_, rest) = whole.rsplit_once('@').unwrap();
    let options = Options { namespace: namespace.clone(), ..Options::default() };
    let url = format!("postgres://{role}:x@{rest}");
    let log = Log::new(Postgres::connect(&url, &options).await.unwrap());
    log.append(&order(1), Expected::NoStream, [numbered(1)]).await.unwrap();
    assert_eq!(numbers(&log.read(Query::all()).collect().await.unwrap()), [1]);
}

/// Somebody drops the function under a running program.
#[tokio::test]
async fn without_the_function_appends_go_on() {
    let (namespace, client) = (namespace(), client().await);
    let log = open(&namespace).await;
    log.append(&order(1), Expected::NoStream, [numbered(1)]).await.unwrap();
    client.batch_execute(&format!("DROP FUNCTION {namespace}.admit")).await.unwrap();
    log.append(&order(1), Expected::Exact(1), [numbered(2)]).await.unwrap();
    // Another one of that name is none of ours.
    let stranger = format!(
        "CREATE FUNCTION {namespace}.admit(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'"
    );
    client.batch_execute(&stranger).await.unwrap();
    let again = open(&namespace).await;
    again.append(&order(1), Expected::Exact(2), [numbered(3)]).await.unwrap();
    assert_eq!(numbers(&again.read(Query::all()).collect().await.unwrap()), [1, 2, 3]);
}

/// The function of a schema that was renamed names the tables of the old one, where another log may be by now.
#[tokio::test]
async fn a_log_that_was_renamed_is_checked_by_its_own_events() {
    let (old, new, client) = (namespace(), namespace(), client().await);
    let sale = |number: u64| {
        let sold = NewEvent::new("Sold", ()).with_tag("seat:1");
        let append = Append::new().to(&order(number), Expected::Any, [sold]);
        append.unless(Query::tags(["seat:1"]), Position::START)
    };
    open(&old).await.append_all(sale(1)).await.unwrap();
    client.batch_execute(&format!("ALTER SCHEMA {old} RENAME TO {new}")).await.unwrap();
    let stranger = open(&old).await;
    stranger.append(&order(1), Expected::Any, [1, 2, 3].map(numbered)).await.unwrap();
    // On sessions of its own: the plans of one that has called the function still mean the tables that were renamed.
    let (url, sign) = (url(), if url().contains('?') { '&' } else { '?' });
    let options = Options { namespace: new, ..Options::default() };
    let url = format!("{url}{sign}application_name=renamed");
    let renamed = Log::new(Postgres::connect(&url, &options).await.unwrap());
    assert!(renamed.append_all(sale(2)).await.unwrap_err().is_conflict());
    let appended = renamed.append(&order(1), Expected::Any, [numbered(2)]).await.unwrap();
    assert_eq!(appended.version(), 2);
}
