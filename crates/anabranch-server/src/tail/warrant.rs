//! Whether who opened a tail or a live stream may still see what it sends: a token can be revoked, and expires.

use crate::caller::Caller;
use crate::gate::ask_again;
use crate::scope::Scope;
use crate::state::Shared;
use anabranch::errors::ErrorCode;
use axum::http::request::Parts;
use std::time::Duration;
use tokio::time::Instant;

/// How long an answer is good. What is known of tokens is kept for as long, so that a thousand tails ask the database once.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// With what somebody has shown who they are.
pub(crate) struct Warrant {
    state: Shared,
    parts: Parts,
    asked: Instant,
}

impl Warrant {
    /// That of a request which was let in just now.
    pub(crate) fn new(state: &Shared, parts: Parts) -> Self {
        Self { state: Shared::clone(state), parts, asked: Instant::now() }
    }

    /// Whether they are who they were, with the same rights. It is asked before each piece, so nothing is sent that was
    /// read later than a second after the token was revoked. While the database is away there is nothing to send.
    pub(crate) async fn holds(&mut self, was: &Caller) -> bool {
        if self.asked.elapsed() < GOOD_FOR {
            return true;
        }
        self.asked = Instant::now();
        match ask_again(&self.state, &self.parts, Scope::ReadMasked).await {
            Ok(now) => {
                now.is_masked() == was.is_masked()
                    && now.tenants() == was.tenants()
                    && now.consumers() == was.consumers()
            }
            Err(problem) => !is_refusal(problem.code()),
        }
    }
}

fn is_refusal(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NotAuthenticated | ErrorCode::NotAllowed)
}
