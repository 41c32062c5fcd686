//! A consumer as the runtime sees it: a name, a strategy, choices, and code.
//!
//! | module | subject |
//! |---|---|
//! | `place` | where a new version has its place |
//! | `register` | what is stored of it: registered, compared, put back |

mod place;
mod register;

pub(crate) use place::leave_out_outdated;

use crate::courier::{Courier, CourierCode};
use crate::fold::FoldCode;
use crate::handler::{HandlerResult, LaneHandler};
use crate::interference::Interference;
use crate::permits::Permits;
use crate::projection::{Projection, ProjectionCode};
use crate::rollup::{Rollup, RollupFold};
use crate::rows::{RowConsumer, RowConsumerCode, Work};
use crate::run_error::RunError;
use crate::settings::Settings;
use crate::subscriber::{Subscriber, SubscriberCode};
use crate::tables::imports::KIND;
use crate::tx::Tx;
use crate::view::{View, ViewFold};
use anabranch_core::{HashRule, Partition, Position, Retry, Strategy};
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// What follows the name of a consumer, and of its tables, while a new version is built beside it.
pub(crate) const NEXT: (&str, &str) = (".next", "_next");

/// The kinds of consumers.
pub(crate) const PROJECTION: &str = "projection";
pub(crate) const SUBSCRIBER: &str = "subscriber";
pub(crate) const WEBHOOK: &str = "webhook";
pub(crate) const VIEW: &str = "view";
pub(crate) const ROLLUP: &str = "rollup";

/// Whether consumers of a kind fold all events into tables that are made by the runtime.
pub(crate) fn is_folded(kind: &str) -> bool {
    [VIEW, ROLLUP].contains(&kind)
}

/// Whether consumers of a kind follow the log, so that they have a position in it.
pub(crate) fn follows_log(kind: &str) -> bool {
    [PROJECTION, SUBSCRIBER, WEBHOOK, VIEW, ROLLUP, KIND].contains(&kind)
}

const MAX_NAME_BYTES: usize = 60;
/// With `view_` before it and `_next` behind it, PostgreSQL has room for 63.
const MAX_FOLDED_NAME_BYTES: usize = 53;
/// How many events views and rollups fold at once, unless they say otherwise.
const FOLDED_AT_ONCE: usize = 16_384;

/// Refuses a name that no consumer can have.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    match begins && name.chars().all(plain) && name.len() <= MAX_NAME_BYTES {
        true => Ok(()),
        false => Err(format!(
            "its name is not made of A-Z, a-z, 0-9, _, - and ., beginning with a letter, at most \
             {MAX_NAME_BYTES}; rename it"
        )),
    }
}

/// Whether two names differ in nothing but capital letters: a reader takes them for one, and their tables would be.
pub(crate) fn differ_in_case_only(one: &str, other: &str) -> bool {
    one != other && one.eq_ignore_ascii_case(other)
}

/// Why a consumer is refused beside one whose name differs in nothing but capital letters.
pub(crate) fn twin_problem(twin: &str) -> String {
    format!(
        "there is `{twin}`, and the two names differ only in capital letters; write it as `{twin}` if it is the same \
         consumer, else rename it, or remove the other one (`anabranch forget {twin}`)"
    )
}

/// How keys become slots, as it is stored.
pub(crate) fn strategy_text(strategy: Strategy, rule: HashRule) -> String {
    match strategy {
        Strategy::Global => strategy.to_string(),
        strategy => format!("{strategy}, {rule}"),
    }
}

/// What a consumer's code does once, or when asked.
pub(crate) trait Hooks: Send + Sync {
    fn set_up<'a>(&'a self, tx: &'a mut Tx) -> BoxFuture<'a, HandlerResult>;

    /// Brings what a program of the last version has set up to where this one needs it.
    fn adopt<'a>(&'a self, _tx: &'a mut Tx) -> BoxFuture<'a, HandlerResult> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn reset<'a>(&'a self, to: Position, tx: &'a mut Tx) -> BoxFuture<'a, HandlerResult>;

    /// Whether one key can be handled again: its lanes undo what they made of it.
    fn resets_keys(&self) -> bool {
        false
    }

    /// The tables that it says it writes.
    fn tables(&self) -> &[&'static str] {
        &[]
    }
}

/// The code of a consumer of events.
pub(crate) trait Code: Hooks {
    /// The code for one lane, on a log with this rule. Whatever it has in work needs a permit.
    fn lane(&self, rule: HashRule, permits: Permits) -> Box<dyn LaneHandler>;

    /// How much of it may be in work at the same time, over all processes.
    fn max_parallelism(&self) -> Option<usize> {
        None
    }
}

/// A consumer.
#[derive(Clone)]
pub(crate) struct Consumer {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) partition: Partition,
    pub(crate) settings: Settings,
    /// What it has chosen, or what its kind has.
    pub(crate) retry: Retry,
    pub(crate) batch_size: usize,
    pub(crate) work: Work,
    /// Whether it may be built beside an older version of it.
    pub(crate) is_rebuild: bool,
    /// What follows the names of its tables.
    pub(crate) suffix: &'static str,
    /// Whether the rows that it writes are checked for a second slot.
    pub(crate) checks_rows: bool,
    /// What a test does to its handler.
    pub(crate) interference: Option<Arc<dyn Interference>>,
}

impl Consumer {
    pub(crate) fn projection<P: Projection>(projection: P) -> Self {
        let (name, partition) = (projection.name().to_owned(), projection.partition());
        let settings = projection.settings();
        let code = Work::Events(Arc::new(ProjectionCode(Arc::new(projection))));
        Self::new(PROJECTION, name, partition, settings, 1_000, code)
    }

    pub(crate) fn subscriber<S: Subscriber>(subscriber: S) -> Self {
        let (name, partition) = (subscriber.name().to_owned(), subscriber.partition());
        let settings = subscriber.settings();
        let code = Work::Events(Arc::new(SubscriberCode(Arc::new(subscriber))));
        Self::new(SUBSCRIBER, name, partition, settings, 100, code)
    }

    pub(crate) fn courier<C: Courier>(courier: C) -> Self {
        let (name, partition) = (courier.name().to_owned(), courier.partition());
        let settings = courier.settings();
        let code = Work::Events(Arc::new(CourierCode(Arc::new(courier))));
        Self::new(WEBHOOK, name, partition, settings, 1_000, code)
    }

    pub(crate) fn view<V: View>(view: V) -> Self {
        let (name, partition) = (view.name().to_owned(), view.partition());
        let settings = view.settings();
        let code = Work::Events(Arc::new(FoldCode::new(ViewFold(view))));
        Self::new(VIEW, name, partition, settings, FOLDED_AT_ONCE, code)
    }

    pub(crate) fn rollup<R: Rollup>(rollup: R) -> Self {
        let (name, partition) = (rollup.name().to_owned(), rollup.partition());
        let settings = rollup.settings();
        let code = Work::Events(Arc::new(FoldCode::new(RollupFold(rollup))));
        Self::new(ROLLUP, name, partition, settings, FOLDED_AT_ONCE, code)
    }

    pub(crate) fn rows<R: RowConsumer>(rows: R) -> Self {
        let (name, kind) = (rows.name().to_owned(), rows.kind());
        // Its rows say themselves which slot they are of.
        let partition = Partition::custom("key", |_| None);
        let settings = Settings { code: rows.code().map(ToOwned::to_owned), ..Settings::default() };
        let code = Work::Rows(Arc::new(RowConsumerCode(Arc::new(rows))));
        Self::new(kind, name, partition, settings, 0, code)
    }

    /// How much of it may be in work at the same time, over all processes.
    pub(crate) fn max_parallelism(&self) -> Option<usize> {
        match &self.work {
            Work::Rows(code) => code.max_parallelism(),
            Work::Events(code) => code.max_parallelism(),
        }
    }

    /// Whether its work is in tables of its own, and not in the log.
    pub(crate) fn has_rows(&self) -> bool {
        matches!(self.work, Work::Rows(_))
    }

    fn new(
        kind: &'static str,
        name: String,
        partition: Partition,
        settings: Settings,
        batch_size: usize,
        work: Work,
    ) -> Self {
        let batch_size = settings.batch_size.unwrap_or(batch_size);
        let retry = settings.retry.unwrap_or_else(|| match kind {
            SUBSCRIBER | WEBHOOK => Retry::outside(),
            _ => Retry::default(),
        });
        Self {
            name,
            kind,
            partition,
            settings,
            retry,
            batch_size,
            work,
            is_rebuild: false,
            suffix: "",
            checks_rows: false,
            interference: None,
        }
    }

    /// The same with another batch size, unless it has chosen one itself.
    pub(crate) fn sized(mut self, events: Option<usize>) -> Self {
        if let (Some(events), None) = (events, self.settings.batch_size) {
            self.batch_size = events;
        }
        self
    }

    /// The same with its rows checked: then it is known for each statement which event it is of.
    pub(crate) fn checking_rows(mut self) -> Self {
        if self.kind == PROJECTION {
            (self.checks_rows, self.batch_size) = (true, 1);
        }
        self
    }

    /// Refuses a name that a rebuild makes of another one, or whose tables would have names that are cut
    /// short: two consumers would write the same tables.
    fn check_tables(&self, own: &str) -> Result<(), String> {
        let is_folded = is_folded(self.kind);
        let reserved = [NEXT.0, NEXT.1, "_old"];
        let reserved = if is_folded { &reserved[..] } else { &reserved[..1] };
        let lower = own.to_ascii_lowercase();
        if let Some(end) = reserved.iter().find(|end| lower.ends_with(**end)) {
            return Err(format!("names that end in {end} are for rebuilds of others; rename it"));
        }
        if is_folded && own.len() > MAX_FOLDED_NAME_BYTES {
            return Err(format!(
                "the name of a view or rollup has at most {MAX_FOLDED_NAME_BYTES} bytes, since its \
                 table is named after it; rename it"
            ));
        }
        Ok(())
    }

    /// Refuses what can never run.
    pub(crate) fn validate(&self) -> Result<(), RunError> {
        let refuse = |problem: String| Err(RunError::refused(&self.name, problem));
        let own = self.own_name();
        if let Err(problem) = check_name(own).and_then(|()| self.check_tables(own)) {
            return refuse(problem);
        }
        if let Err(error) = self.settings.scope.query().validate() {
            return refuse(error.to_string());
        }
        if self.max_parallelism() == Some(0) {
            return refuse(
                "none of it may ever be in work, with a max_parallelism of 0; use 1 or more, or leave it out \
                 for no limit"
                    .to_owned(),
            );
        }
        match self.partition.category() {
            Some(category) if !self.settings.scope.allows(category) => refuse(format!(
                "it is partitioned by {category}, which its scope leaves out; add the category to \
                 the scope, or use Partition::entities()"
            )),
            _ => Ok(()),
        }
    }
}
