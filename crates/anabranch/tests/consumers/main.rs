//! Consumers, on both databases: the laws, the strategies, failures, replays, views.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod appended_conflicts;
mod appended_events;
mod appended_limits;
mod appended_pipelines;
mod attempts;
mod capitals;
mod catch_ups;
mod clean_sessions;
mod emptied_logs;
mod ended_transactions;
mod exactly_once;
mod fail_apart;
mod fail_apart_tries;
mod failures;
mod fence;
mod gates;
mod gauges;
mod given_up;
mod identity;
mod imports;
mod leases;
mod misuse;
mod odd_handlers;
mod odd_views;
mod offsets;
mod older_logs;
mod operate_errors;
mod outages;
mod parked_keys;
mod rebuilds;
mod replays;
mod rollups;
mod runtimes;
mod said;
mod sqlite_files;
mod strategies;
mod subscribers;
mod support;
mod taken_cursors;
mod typos;
mod unable;
mod views;
mod watched_rows;
