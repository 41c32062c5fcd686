//! Consumers, on both databases: the laws, the strategies, failures, replays, views.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod exactly_once;
mod failures;
mod fence;
mod outages;
mod replays;
mod review;
mod strategies;
mod subscribers;
mod support;
mod views;
