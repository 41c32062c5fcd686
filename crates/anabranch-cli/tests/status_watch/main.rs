//! `anabranch status --watch` in a real pseudo-terminal.

#![cfg(unix)]
#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

#[path = "../process/mod.rs"]
mod process;
#[path = "../provided/mod.rs"]
mod provided;
#[path = "../sums/mod.rs"]
mod sums;
mod terminal;

use anabranch::backend::database::{End, Statement};
use anabranch_terminal::screen::Screen;
use process::{failure, run};
use std::process::Command;
use sums::Bench;
use terminal::{Seen, Terminal};

const NAME: &str = "sums";
/// With room for the legend beside the map.
const WIDE: (usize, usize) = (130, 45);

fn watch(bench: &Bench) -> Command {
    bench.process(&["status", "--watch", "--every", "0.2"])
}

fn has_map(seen: &Seen) -> bool {
    seen.map() == [84; 30]
}

#[test]
fn it_needs_a_terminal() {
    let here = tempfile::tempdir().unwrap();
    let refused = failure(&run(here.path(), &["status", "--watch"]), 1);
    assert!(refused.contains("anabranch status --json"), "{refused}");
    let refused = failure(&run(here.path(), &["status", "--every", "2"]), 2);
    assert!(refused.contains("--watch"), "{refused}");
    let refused = failure(&run(here.path(), &["status", "--watch", "--every", "0"]), 2);
    assert!(refused.contains("0.1"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_shows_who_has_which_slots_as_they_change() {
    let bench = Bench::sqlite();
    let log = bench.log().await;
    bench.fill(&log, 1..=3, 2).await;
    let first = bench.start(&log).await;
    let mut terminal = Terminal::start(WIDE, &watch(&bench));
    let seen = terminal.until("one worker has all", |seen| seen.has("5040 ") && has_map(seen));
    assert!(seen.has("CONSUMER") && seen.has("▸ sums") && seen.has("REPLICA SET"));
    assert!(seen.has("log at 6") && seen.has(", 1 worker"), "{}", seen.text());
    assert_eq!(seen.colours(), 1);

    let second = bench.start(&log).await;
    let seen = terminal.until("two have a half each", |seen| seen.colours() == 2 && has_map(seen));
    assert!(seen.has(", 2 workers"), "{}", seen.text());
    bench.fill(&log, 4..=4, 1).await;
    terminal.until("the log has grown", |seen| seen.has("log at 7"));

    terminal.press("l");
    terminal.until("it is coloured by lag", |seen| seen.has("by lag") && seen.has("5040 no lag"));
    terminal.press("r");
    terminal
        .until("and by reason", |seen| seen.has("by reason") && seen.has("5040 as it should be"));
    terminal.press("?");
    terminal.until("there is help", |seen| seen.has("Shift-Tab") && seen.map().is_empty());
    terminal.press("?o ");
    terminal.until("it is paused", |seen| seen.has("paused") && seen.has("by owner"));
    terminal.press(" ");

    terminal.ask("resize 60 10");
    let small = |seen: &Seen| seen.has("needs a terminal of 84") && !seen.has("paused");
    let seen = terminal.until("it fits a small terminal", small);
    assert!(seen.has("▸ sums") && seen.map().is_empty(), "{}", seen.text());
    for size in ["1 1", "200 2", "3 60"] {
        terminal.ask(&format!("resize {size}"));
        terminal.until("it fits any terminal", |seen| !seen.text().trim().is_empty());
    }
    terminal.ask("resize 84 36");
    let seen = terminal.until("the map has just room", has_map);
    assert!(seen.lines()[35].starts_with("q end"), "{}", seen.text());

    second.stop().await;
    terminal.until("one has left", |seen| seen.has(", 1 worker") && seen.colours() == 1);
    terminal.press("q");
    terminal.ended(0);
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_parked_is_a_red_slot_among_good_ones() {
    let bench = Bench::sqlite();
    let log = bench.log().await;
    bench.fill(&log, 1..=2, 1).await;
    bench.break_orders(true);
    let running = bench.start(&log).await;
    let mut terminal = Terminal::start(WIDE, &bench.process(&["status", NAME, "--watch"]));
    let is_marked = |seen: &Seen| seen.has("   1 parked key");
    let seen = terminal.until("the slot is marked", is_marked);
    assert!(seen.has("1 key parked") && seen.has("   1 parked") && seen.has("5039 "));
    // With Ctrl-C it ends as with q.
    terminal.press("\u{3}");
    terminal.ended(0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_colours_there_are_letters() {
    let bench = Bench::sqlite();
    let log = bench.log().await;
    let (first, second) = (bench.start(&log).await, bench.start(&log).await);
    let mut command = watch(&bench);
    command.env("NO_COLOR", "1");
    let mut terminal = Terminal::start(WIDE, &command);
    let of = |seen: &Seen, letter: char| {
        let heading = seen.lines().iter().position(|line| line.contains("by owner"));
        let lines = heading.map(|heading| seen.lines()[heading + 1..][..30].concat());
        lines.map_or(0, |lines| lines.matches(letter).count())
    };
    let seen = terminal.until("both are seen", |seen| of(seen, 'A') > 500 && of(seen, 'B') > 500);
    assert!(!seen.has("▀"), "{}", seen.text());
    terminal.ask("signal TERM");
    let seen = terminal.ended(143);
    assert!(seen.has("error: terminated"), "{}", seen.text());
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_picture_stays_while_the_database_is_away() {
    let bench = Bench::sqlite();
    let log = bench.log().await;
    bench.start(&log).await.stop().await;
    let mut terminal = Terminal::start(WIDE, &watch(&bench));
    terminal.until("there is a picture", |seen| seen.has("▸ sums") && has_map(seen));
    let rename = async |from: &str, to: &str| {
        let prefix = &bench.namespace;
        let sql = format!("ALTER TABLE {prefix}_{from} RENAME TO {prefix}_{to}");
        let statements = vec![Statement::new(sql, vec![])];
        log.store().database().begin().run(statements, End::Commit).await.unwrap();
    };
    rename("consumers", "gone").await;
    let seen = terminal.until("it says so", |seen| seen.has(" s ago; error: "));
    assert!(seen.has("▸ sums") && has_map(&seen), "{}", seen.text());
    rename("gone", "consumers").await;
    terminal.until("it goes on", |seen| !seen.has("error: "));
    terminal.press("q");
    terminal.ended(0);
}

/// What `a_panic_leaves_the_terminal_as_it_was` runs in a terminal; on its own it does nothing.
#[test]
fn panics_with_the_screen_taken() {
    if std::env::var_os(PANICS).is_some() {
        let screen = Screen::take().unwrap();
        screen.show(std::iter::once((7, "a frame".to_owned()))).unwrap();
        panic!("it was on purpose");
    }
}

const PANICS: &str = "ANABRANCH_TEST_PANICS";

#[test]
fn a_panic_leaves_the_terminal_as_it_was() {
    let here = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "panics_with_the_screen_taken", "--nocapture"]);
    command.current_dir(here.path()).env(PANICS, "1").env("RUST_BACKTRACE", "0");
    let seen = Terminal::start((100, 30), &command).ended(101);
    assert!(seen.has("it was on purpose") && !seen.has("a frame"), "{}", seen.text());
}
