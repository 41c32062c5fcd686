//! Turns, bounds and waits, one at a time; how it all works together is tested with `sight`.

use super::*;
use std::time::Duration;

pub(crate) fn task(key: &str, seq: i64) -> Task {
    Task {
        id: Uuid::from_u128(seq as u128),
        seq,
        key: key.into(),
        slot: Slot::ZERO,
        attempts: 0,
        payload: String::new(),
        checkpoint: None,
        then: None,
        trace: None,
        wait: None,
        late: None,
    }
}

fn seqs(tasks: &[Task]) -> Vec<i64> {
    tasks.iter().map(|task| task.seq).collect()
}

fn filled(chains: bool, keys: &[&str]) -> (Queue, Instant) {
    let (mut queue, now) = (Queue::new(chains), Instant::now());
    for (seq, key) in keys.iter().enumerate() {
        queue.add(task(key, seq as i64 + 1), now);
    }
    (queue, now)
}

#[test]
fn keys_take_turns() {
    let (mut queue, _) = filled(true, &["a", "a", "a", "b", "c", "b"]);
    assert_eq!(seqs(&queue.take(4)), [1, 4, 5, 2]);
    assert_eq!(seqs(&queue.take(9)), [6, 3]);
    let (mut queue, _) = filled(false, &["a", "a", "b"]);
    let taken = queue.take(9);
    assert_eq!(seqs(&taken), [1, 3], "one of each key is in work");
    queue.ended(&taken[0]);
    assert_eq!(seqs(&queue.take(9)), [2]);
}

/// Where each transaction runs one task, the others are put back: whoever has been run comes last.
#[test]
fn who_is_put_back_is_first_again() {
    let (mut queue, _) = filled(true, &["a", "b", "c", "a", "b", "c", "a", "d"]);
    let mut ran = Vec::new();
    while queue.has_turn() {
        let mut batch = queue.take(10);
        let rest = batch.split_off(1);
        queue.ended(&batch[0]);
        ran.push(batch[0].seq);
        queue.put_back(rest);
    }
    assert_eq!(ran, [1, 2, 3, 8, 4, 5, 6, 7]);
    assert_eq!(queue.len(), 0);
}

#[test]
fn one_that_fails_holds_back_its_key_and_keeps_nothing_behind_it() {
    let (mut queue, now) = filled(true, &["a", "a", "b", "a"]);
    let mut batch = queue.take(10);
    let first = batch.remove(0);
    queue.put_back(batch);
    let until = now + Duration::from_secs(1);
    queue.failed(first, until);
    assert_eq!((queue.len(), queue.waiting(), queue.next_due()), (2, 1, Some(until)));
    assert_eq!(seqs(&queue.take(10)), [3]);
    queue.add(task("a", 5), now);
    assert_eq!(queue.apart().count(), 1);
    assert!(!queue.wants_refill(), "not before its wait is over");
    queue.end_waits(until);
    assert_eq!(queue.to_refill(9)[0].count, 1 + LINE - 1);
    queue.refilled("a", vec![task("a", 1), task("a", 2), task("a", 4)], false, now);
    let taken = queue.take(10);
    assert_eq!(seqs(&taken), [1, 2, 4]);
    assert_eq!(taken[0].attempts, 1);
    assert_eq!(queue.apart().count(), 0);
}

#[test]
fn an_earlier_one_that_comes_late_does_not_end_the_wait_of_the_next() {
    let (mut queue, now) = filled(true, &[]);
    queue.add(task("a", 5), now);
    let failed = queue.take(1).remove(0);
    let until = now + Duration::from_secs(1);
    queue.failed(failed, until);
    queue.add(task("a", 3), now);
    let late = queue.take(10);
    assert_eq!(seqs(&late), [3]);
    queue.ended(&late[0]);
    assert!(!queue.has_turn());
    queue.end_waits(until);
    assert_eq!(seqs(&queue.take(10)), [5]);
}

#[test]
fn one_that_is_asked_for_waits_no_longer_and_is_run_once() {
    let (mut queue, now) = filled(true, &[]);
    queue.add(task("a", 5), now);
    let failed = queue.take(1).remove(0);
    queue.failed(failed.clone(), now + Duration::from_secs(3600));
    queue.add(task("a", 6), now);
    assert_eq!((queue.waiting(), queue.has_turn()), (1, false));
    queue.hurry(failed.clone(), now);
    assert_eq!((queue.waiting(), queue.next_due()), (0, None));
    let taken = queue.take(10);
    assert_eq!(seqs(&taken), [5]);
    queue.hurry(failed, now);
    assert_eq!(seqs(&queue.take(10)), [] as [i64; 0], "it is in work");
    queue.ended(&taken[0]);
    // One that was not known is there before what stands behind it.
    let (mut queue, now) = filled(true, &[]);
    queue.add(task("b", 8), now);
    queue.hurry(task("b", 7), now);
    assert_eq!(seqs(&queue.take(10)), [7, 8]);
}

#[test]
fn a_full_line_keeps_the_first_ones() {
    let (mut queue, now) = filled(true, &[]);
    (1..=LINE as i64 + 5).for_each(|seq| queue.add(task("a", seq * 10), now));
    assert_eq!(queue.len(), LINE);
    queue.add(task("a", 5), now);
    assert_eq!(queue.len(), LINE, "the last one makes place");
    let taken = seqs(&queue.take(100));
    let expected: Vec<i64> = [5].into_iter().chain((1..LINE as i64).map(|n| n * 10)).collect();
    assert_eq!(taken, expected);
    queue.add(task("a", LINE as i64 * 10), now);
    assert!(!queue.has_turn(), "it comes with the others of its key");
}

#[test]
fn those_who_wait_take_no_room() {
    let (mut queue, now) = filled(true, &[]);
    for number in 0..ROOM as i64 {
        queue.add(task(&format!("key-{number}"), number + 1), now);
    }
    assert_eq!(queue.room(), 0);
    for task in queue.take(ROOM) {
        queue.failed(task, now + Duration::from_secs(1));
    }
    assert_eq!((queue.room(), queue.len()), (ROOM, ROOM));
}

#[test]
fn a_try_is_of_a_key_that_was_not_tried_yet() {
    let (mut queue, now) = filled(false, &["a", "b", "c"]);
    let mut tried = Vec::new();
    for _ in 0..4 {
        let taken = queue.take_untried();
        tried.push(taken[0].seq);
        // Nothing is stored about it, and it is read again like the others.
        queue.ended(&taken[0]);
        queue.clear();
        for (seq, key) in [(1, "a"), (2, "b"), (3, "c")] {
            queue.add(task(key, seq), now);
        }
    }
    assert_eq!(tried, [1, 2, 3, 1]);
    // One that has never failed comes first.
    queue.clear();
    for (seq, key, attempts) in [(1, "a", 2), (2, "b", 1), (3, "c", 1), (4, "d", 0)] {
        queue.add(Task { attempts, ..task(key, seq) }, now);
    }
    assert_eq!(seqs(&queue.take_untried()), [4]);
    // One that works, and it begins anew.
    assert_eq!(seqs(&queue.take(1)), [1]);
    assert_eq!(seqs(&queue.take_untried()), [2]);
}
