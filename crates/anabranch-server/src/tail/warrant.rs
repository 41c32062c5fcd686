//! Whether the reader of a tail or a live stream may still see what it sends: tokens are revoked, and expire.

use crate::caller::Caller;
use crate::gate::ask_again;
use crate::scope::Scope;
use crate::state::Shared;
use anabranch::errors::ErrorCode;
use axum::http::request::Parts;
use std::time::Duration;
use tokio::time::Instant;

/// How long an answer is good. Tokens are remembered for as long, so that a thousand tails ask the database once.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// How long one goes on while the database does not say. Little comes from there meanwhile.
const UNSURE_FOR: Duration = Duration::from_secs(30);

/// The credentials of a reader.
pub(crate) struct Warrant {
    state: Shared,
    parts: Parts,
    asked: Instant,
    unsure: Unsure,
}

/// What is known of somebody who was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// They are who they were.
    Holds,
    /// They may not go on.
    Gone,
    /// The database has not said for too long, and this is why.
    Unknown(ErrorCode),
}

/// Since when the database does not say.
#[derive(Default)]
struct Unsure(Option<Instant>);

impl Unsure {
    /// It has not said now: whether that lasts for too long.
    fn lasts(&mut self, now: Instant) -> bool {
        now.saturating_duration_since(*self.0.get_or_insert(now)) >= UNSURE_FOR
    }
}

impl Warrant {
    /// Those of a request that was just let in.
    pub(crate) fn new(state: &Shared, parts: Parts) -> Self {
        let (asked, unsure) = (Instant::now(), Unsure::default());
        Self { state: Shared::clone(state), parts, asked, unsure }
    }

    /// Whether they are who they were, with the same rights. It is asked before each piece, so nothing is sent that was
    /// read later than a second after the token was revoked.
    pub(crate) async fn standing(&mut self, was: &Caller) -> Standing {
        if self.asked.elapsed() < GOOD_FOR {
            return Standing::Holds;
        }
        self.asked = Instant::now();
        match ask_again(&self.state, &self.parts, Scope::ReadMasked).await {
            Ok(now) => {
                self.unsure = Unsure::default();
                let is_same = now.is_masked() == was.is_masked()
                    && now.tenants() == was.tenants()
                    && now.consumers() == was.consumers();
                if is_same { Standing::Holds } else { Standing::Gone }
            }
            Err(problem) => match problem.code() {
                ErrorCode::NotAuthenticated | ErrorCode::NotAllowed => Standing::Gone,
                code if self.unsure.lasts(self.asked) => Standing::Unknown(code),
                _ => Standing::Holds,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_away_holds_no_door_open_for_long() {
        let (mut unsure, now) = (Unsure::default(), Instant::now());
        assert!(!unsure.lasts(now));
        assert!(!unsure.lasts(now + UNSURE_FOR - Duration::from_millis(1)));
        assert!(unsure.lasts(now + UNSURE_FOR));
        // It has said something in between.
        unsure = Unsure::default();
        assert!(!unsure.lasts(now + UNSURE_FOR));
    }
}
