//! `anabranch batch`, with real processes, on both databases.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

/// A test of one database each.
macro_rules! on_both {
    ($($test:ident,)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(crate::table::Rows::sqlite().await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(crate::table::Rows::postgres().await).await;
            })*
        }
    };
}

mod attempts;
mod collisions;
mod exits;
mod flags;
mod handlers;
mod identity;
mod imports;
mod instances;
mod keys;
#[path = "../process/mod.rs"]
mod process;
mod refusals;
mod table;
