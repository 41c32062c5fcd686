//! The suite that every backend runs: the promises of the log and of its database, written once against
//! [`Log`].
//!
//! A backend proves itself with one line in its tests:
//!
//! ```text
//! anabranch_store::contract!(my_harness());
//! ```
//!
//! where the expression makes a fresh [`Harness`], on an empty log of its own, for each case. Cases
//! never wait for time, only for conditions.

// The suite is test code that ships: a case fails by panicking.
#![allow(clippy::unwrap_used)]

pub mod anchors;
pub mod append;
pub mod dcb;
pub mod describe;
pub mod dialect;
pub mod effects;
pub mod envelope;
pub mod lexical;
pub mod limits;
pub mod migrations;
pub mod open;
pub mod positions;
pub mod read;
pub mod subscribe;
pub mod traces;
pub mod transactional_appends;

use crate::{Log, Options};
use anabranch_core::{Event, NewEvent, StoreError, StreamId};
use futures_util::future::BoxFuture;
use std::any::Any;
use std::time::Duration;

/// One database for one case.
pub struct Harness {
    open: Box<dyn Fn(Options) -> BoxFuture<'static, Result<Log, StoreError>> + Send + Sync>,
    /// Whether a second `open` reaches the same log, as another process would.
    pub shared: bool,
    /// Kept until the case is over, such as a temporary directory.
    _keep: Box<dyn Any + Send + Sync>,
}

impl Harness {
    /// A harness that opens a log with options. It may change their namespace, as long as the
    /// default one leads to one log and each other one to another.
    pub fn new(
        shared: bool,
        keep: impl Any + Send + Sync,
        open: impl Fn(Options) -> BoxFuture<'static, Result<Log, StoreError>> + Send + Sync + 'static,
    ) -> Self {
        Self { open: Box::new(open), shared, _keep: Box::new(keep) }
    }

    /// Opens the log with options.
    pub async fn open(&self, options: Options) -> Result<Log, StoreError> {
        (self.open)(options).await
    }

    /// Opens the log with the defaults.
    pub async fn log(&self) -> Log {
        self.open(Options::default()).await.expect("the log opens")
    }

    /// The same log through a second door, where the database has one.
    pub async fn again(&self, log: &Log) -> Log {
        if self.shared { self.log().await } else { log.clone() }
    }
}

/// Runs every case against a backend.
#[macro_export]
macro_rules! contract {
    ($harness:expr) => {
        $crate::contract! { @cases $harness;
            anchors::a_log_has_an_identity_of_its_own,
            anchors::a_look_finds_what_stands_where,
            anchors::what_was_deleted_is_told_from_what_was_wound_back,
            append::versions_and_positions_grow,
            append::an_expectation_is_kept_or_the_conflict_says_why,
            append::several_streams_are_stored_all_or_not_at_all,
            append::the_order_of_a_large_append_is_kept,
            append::concurrent_appends_to_one_stream_lose_and_double_nothing,
            append::a_conflict_never_fails_its_neighbours,
            append::the_same_id_is_one_event,
            append::a_request_is_stored_once,
            append::an_id_with_another_body_is_refused,
            append::an_append_goes_on_when_its_caller_gives_up,
            dcb::queries_select_by_type_and_tag,
            dcb::a_condition_fails_for_newer_matches_only,
            dcb::the_last_seat_is_sold_once,
            dcb::a_condition_on_types_or_everything_is_race_free,
            dcb::decisions_from_reads_never_overdraw,
            describe::a_statement_says_what_it_wants,
            describe::types_have_the_names_that_people_write,
            describe::an_error_has_its_place,
            describe::a_refused_statement_ends_nothing,
            dialect::conditions_mean_what_they_say,
            dialect::hints_change_no_answer,
            dialect::the_last_id_is_known,
            dialect::tables_are_made_renamed_and_ordered,
            dialect::the_clock_is_the_time,
            dialect::the_catalogue_knows_tables,
            effects::statements_are_stored_all_or_not_at_all,
            effects::a_fence_that_does_not_match_rolls_back,
            effects::a_fence_matches_only_in_the_transaction_that_began,
            effects::several_statements_in_one_text_are_refused,
            effects::an_open_transaction_is_seen_when_it_commits,
            effects::a_forgotten_transaction_is_rolled_back,
            effects::values_come_back_as_they_were,
            effects::values_are_numbered,
            effects::a_query_reads_and_only_reads,
            effects::signals_are_heard_everywhere,
            transactional_appends::appends_are_stored_with_their_transaction,
            transactional_appends::an_append_that_is_refused_takes_its_transaction_with_it,
            transactional_appends::appends_go_with_what_fails_after_them,
            transactional_appends::appends_of_many_transactions_do_not_wait_in_a_circle,
            envelope::every_field_comes_back,
            envelope::slots_are_stored_with_every_event,
            envelope::any_unicode_comes_back_as_it_was,
            lexical::statements_are_read_as_the_database_reads_them,
            limits::bad_input_is_refused_by_name_and_nothing_is_written,
            limits::the_data_limit_can_be_changed,
            open::many_processes_may_start_at_once,
            open::the_hash_rule_of_a_log_is_kept,
            open::without_migration_a_missing_log_is_an_error,
            open::logs_in_one_database_are_apart,
            positions::the_last_position_drawn_is_known,
            positions::the_positions_of_deleted_events_are_not_given_again,
            positions::deleted_events_hide_no_others,
            read::a_stream_reads_in_both_directions,
            read::the_log_reads_in_both_directions,
            read::a_long_read_is_complete_and_in_order,
            read::large_events_come_in_small_pages,
            read::a_filtered_read_is_bounded_and_says_how_far_it_looked,
            read::one_event_is_found_by_its_id,
            read::the_largest_queries_work,
            read::a_bad_query_is_an_error,
            subscribe::a_subscription_catches_up_and_follows,
            subscribe::a_filtered_subscription_sees_only_its_events,
            subscribe::every_event_once_and_in_order_under_load,
            traces::the_trace_of_the_first_append_stays,
            traces::a_trace_comes_back_with_every_event,
        }
    };
    (@cases $harness:expr; $($group:ident :: $case:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let harness: $crate::contract::Harness = $harness;
                $crate::contract::$group::$case(&harness).await;
            }
        )*
    };
}

/// How long a case waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that must come.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it came within a minute")
}

/// A stream of category `Order`.
#[must_use]
pub fn order(id: impl std::fmt::Display) -> StreamId {
    StreamId::new("Order", id.to_string()).expect("a valid id")
}

/// An event with a number as its data.
#[must_use]
pub fn numbered(number: u64) -> NewEvent {
    NewEvent::new("Numbered", number)
}

/// The numbers of events made by [`numbered`].
#[must_use]
pub fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.data().expect("a number")).collect()
}
