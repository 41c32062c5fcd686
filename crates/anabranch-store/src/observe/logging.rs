//! The observer that writes to `tracing`: the one place in which the engine logs.

use super::lines::Line;
use super::{Observer, caught};
use anabranch_core::engine_event::{EngineEvent, Happening, Severity};
use std::fmt;
use tracing::field::{DisplayValue, display};
use tracing::level_filters::LevelFilter;

/// Writes what happens as lines of [`tracing`](https://docs.rs/tracing), with targets that begin with `anabranch`.
///
/// A log has it by itself, unless [`Options::tracing`](crate::Options::tracing) is off; then the lines are written
/// where they happen. Given as an observer, they are written by its thread: for a subscriber that may block.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingObserver;

impl Observer for TracingObserver {
    fn observe(&self, event: &EngineEvent) {
        if wants(&event.what) {
            Line::of(event).named().write();
        }
    }
}

/// Whether a subscriber may want a line.
pub(super) fn wants(what: &Happening) -> bool {
    level(what.severity()) <= LevelFilter::current()
}

/// Writes a line. A subscriber that panics harms nobody.
pub(super) fn say(event: &EngineEvent) {
    // Where else could it be said?
    let _ = caught(&TracingObserver, event);
}

fn level(severity: Severity) -> LevelFilter {
    match severity {
        Severity::Trace => LevelFilter::TRACE,
        Severity::Debug => LevelFilter::DEBUG,
        Severity::Info => LevelFilter::INFO,
        Severity::Warn => LevelFilter::WARN,
        Severity::Error => LevelFilter::ERROR,
    }
}

/// A text without what would begin another line or move a terminal: errors come from anywhere.
struct OneLine<'a>(&'a str);

fn one_line(text: &str) -> DisplayValue<OneLine<'_>> {
    display(OneLine(text))
}

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(breaks) {
            let plain = part.trim_end_matches(breaks);
            f.write_str(plain)?;
            write!(f, "{}", part[plain.len()..].escape_default())?;
        }
        Ok(())
    }
}

fn breaks(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}')
}

/// Writes a line with its target, which must be known when the program is built, as its level must.
macro_rules! lines {
    ($($target:literal)*) => {
        #[cfg(test)]
        const TARGETS: &[&str] = &[$($target),*];

        impl Line<'_> {
            fn write(&self) {
                match self.target {
                    $($target => lines!(@ $target self),)*
                    _ => lines!(@ "anabranch" self),
                }
            }
        }
    };
    (@ $target:literal $line:ident) => {
        match $line.severity {
            Some(Severity::Error) => lines!(@@ $target $line ERROR),
            Some(Severity::Warn) => lines!(@@ $target $line WARN),
            Some(Severity::Info) => lines!(@@ $target $line INFO),
            Some(Severity::Debug) => lines!(@@ $target $line DEBUG),
            Some(Severity::Trace) | None => lines!(@@ $target $line TRACE),
        }
    };
    (@@ $target:literal $line:ident $level:ident) => {
        tracing::event!(
            target: $target,
            tracing::Level::$level,
            set = $line.set,
            worker = $line.worker,
            died = $line.died,
            consumer = $line.consumer,
            pool = $line.pool,
            job = $line.job,
            workflow = $line.workflow,
            lane = $line.lane,
            generation = $line.generation,
            key = $line.key,
            task = $line.task.as_ref().map(display),
            position = $line.position,
            event = $line.event,
            attempts = $line.attempts,
            error = $line.error.map(one_line),
            detail = $line.detail.as_deref().map(one_line),
            "{}",
            OneLine(&$line.text)
        )
    };
}

lines! {
    "anabranch_batch::batch" "anabranch_batch::claimer" "anabranch_batch::identity" "anabranch_batch::later"
    "anabranch_batch::session" "anabranch_batch::worker"
    "anabranch_postgres::activity" "anabranch_postgres::hosts" "anabranch_postgres::life" "anabranch_postgres::link"
    "anabranch_postgres::store" "anabranch_postgres::wake"
    "anabranch_runtime::consumer::register" "anabranch_runtime::feed" "anabranch_runtime::import"
    "anabranch_runtime::key_samples" "anabranch_runtime::lane" "anabranch_runtime::lane::parking"
    "anabranch_runtime::lane::shed" "anabranch_runtime::lane::stats" "anabranch_runtime::lane::strict"
    "anabranch_runtime::lane::transact" "anabranch_runtime::permits::keeper" "anabranch_runtime::rebuild::switch"
    "anabranch_runtime::standing" "anabranch_runtime::subscriber" "anabranch_runtime::worker" "anabranch_runtime::worker::ability"
    "anabranch_runtime::worker::beats" "anabranch_runtime::worker::beyond" "anabranch_runtime::worker::claims"
    "anabranch_runtime::worker::exchange" "anabranch_runtime::worker::heartbeat" "anabranch_runtime::worker::last_word"
    "anabranch_runtime::worker::limits" "anabranch_runtime::worker::membership"
    "anabranch_runtime::worker::outage" "anabranch_runtime::worker::sessions" "anabranch_runtime::worker::start"
    "anabranch_runtime::worker::succession" "anabranch_runtime::worker::trouble"
    "anabranch_runtime::worker::weighing"
    "anabranch_sqlite::watch" "anabranch_store::event_stream" "anabranch_store::log" "anabranch_store::migration"
    "anabranch_store::observe" "anabranch_webhook::lane" "anabranch_workflow::load" "anabranch_workflow::running::commands"
    "anabranch_workflow::snapshots" "anabranch_workpool::ending" "anabranch_workpool::inside"
    "anabranch_workpool::outside" "anabranch_workpool::tasks"
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::engine_event::Notice;

    #[test]
    fn a_text_stays_on_its_line() {
        let said = |text| OneLine(text).to_string();
        assert_eq!(said("relation \"ledger\" is not there"), "relation \"ledger\" is not there");
        assert_eq!(
            said("no\n2026 ERROR\r\n\tx\u{1b}[2J\u{2028}"),
            "no\\n2026 ERROR\\r\\n\\tx\\u{1b}[2J\\u{2028}"
        );
        assert_eq!(said("\n"), "\\n");
        assert_eq!(said("größer ✓"), "größer ✓");
    }

    #[test]
    fn every_notice_has_the_target_of_its_module() {
        for notice in Notice::ALL {
            assert!(TARGETS.contains(&notice.target()), "{notice:?}: {}", notice.target());
        }
    }
}
