//! The last version and this one on one database, before, during and after the migration.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

/// A test of one database each.
macro_rules! on_both {
    ($($test:ident,)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(crate::place::Place::sqlite()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(crate::place::Place::postgres()).await;
            })*
        }
    };
}

mod crew;
mod last_version;
mod ledger;
mod place;
#[path = "../process/mod.rs"]
mod process;
mod reading;
mod tally;
mod together;
