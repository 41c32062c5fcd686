//! Webhooks: events delivered over HTTP, at least once, in order for each key, by the
//! [Standard Webhooks](https://www.standardwebhooks.com) specification.
//!
//! | module | subject |
//! |---|---|
//! | [`webhook`] | [`Webhook`]: a consumer whose events go to an endpoint |
//! | `lane` | what is known about the keys of a lane, and which of their events go together |
//! | `sending`, `pace` | several keys at the same time |
//! | [`endpoint`] | [`Endpoint`]: where messages go, and what an answer means |
//! | `message` | what a receiver gets |
//! | [`secret`] | [`Secrets`]: signatures |
//! | `rate` | how many in a second, from all workers together |
//! | [`deliveries`] | [`Deliveries`]: what was sent, as operators see it |
//! | `resend` | sent again by the workers, by filter and at a rate |
//! | `tables` | the rows of deliveries and endpoints |
//! | [`client`] | [`Client`]: HTTP |
//! | `connect`, `address` | connections, to addresses that may be reached |

mod address;
pub mod client;
mod connect;
pub mod deliveries;
pub mod endpoint;
mod lane;
mod message;
mod pace;
mod rate;
mod resend;
pub mod secret;
mod sending;
mod tables;
pub mod webhook;

pub use client::{Client, NoReply, Reply};
pub use deliveries::{Deliveries, Delivery, DeliveryState, Failure, Filter};
pub use endpoint::{Attempt, Endpoint, EndpointError, Verdict};
pub use resend::{ResendPlace, ResendPreview, Resent};
pub use secret::{SecretError, Secrets};
pub use webhook::{MAX_BATCH, ResendError, Webhook};

use anabranch_runtime::ReplicaSet;

/// Adds webhooks to a replica set.
pub trait WebhookSet {
    /// Adds a webhook.
    #[must_use]
    fn webhook(self, webhook: Webhook) -> Self;
}

impl WebhookSet for ReplicaSet {
    fn webhook(self, webhook: Webhook) -> Self {
        self.courier(webhook)
    }
}
