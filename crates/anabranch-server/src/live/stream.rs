//! One live stream: what of that which it watches has changed since it was sent.
//!
//! It has no queue: the connection asks it for the next event when it has sent the one before, and gets the newest answer
//! of what has changed. So a slow reader misses what lay between, and costs the memory of one answer.

use super::look::Sight;
use super::lookout::{Lookout, Place, Watching};
use crate::caller::Caller;
use crate::problem::Problem;
use crate::sse::frame;
use crate::tail::{Standing, Warrant};
use axum::body::Bytes;
use futures_util::Stream;
use futures_util::future::select_all;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often who reads is asked about again, while nothing changes.
const ASK: Duration = Duration::from_secs(1);

/// The last word: what became of the stream.
pub(super) fn ended(reason: &str) -> Bytes {
    frame(None, "ended", &json!({ "reason": reason }).to_string())
}

/// A live stream.
pub(super) struct Live {
    lookout: Arc<Lookout>,
    _place: Place,
    caller: Caller,
    warrant: Warrant,
    watched: Vec<Watched>,
    /// Which of them is looked at first, so that one which changes all the time leaves the others their turn.
    first: usize,
    spoke: Instant,
    is_over: bool,
}

/// Something that is watched.
struct Watched {
    of: Watching,
    /// The number of the answer that was sent last.
    sent: u64,
}

impl Live {
    pub(super) fn new(
        lookout: &Arc<Lookout>,
        caller: Caller,
        warrant: Warrant,
        paths: Vec<String>,
    ) -> Result<Self, Problem> {
        let place = lookout.join()?;
        let watch = |path| {
            let of = lookout.watch(Sight::new(path, &caller))?;
            Ok(Watched { of, sent: 0 })
        };
        Ok(Self {
            watched: paths.into_iter().map(watch).collect::<Result<_, Problem>>()?,
            lookout: Arc::clone(lookout),
            _place: place,
            caller,
            warrant,
            first: 0,
            spoke: Instant::now(),
            is_over: false,
        })
    }

    /// What it sends, piece by piece.
    pub(super) fn pieces(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        futures_util::stream::unfold(self, |mut live| async move {
            let piece = live.next().await?;
            live.spoke = Instant::now();
            Some((Ok(piece), live))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.is_over {
                return None;
            }
            let over = match self.warrant.standing(&self.caller).await {
                Standing::Holds => None,
                Standing::Gone => Some("not_allowed"),
                Standing::Unknown(_) => Some("log_failed"),
            };
            if let Some(reason) = over {
                self.is_over = true;
                return Some(ended(reason));
            }
            if self.lookout.tails.is_closed() {
                self.is_over = true;
                return Some(ended("server_stops"));
            }
            if let Some(event) = self.changed() {
                return Some(event);
            }
            let silence = self.spoke + self.lookout.limits.heartbeat;
            if Instant::now() >= silence {
                return Some(self.still_here());
            }
            let wakes = silence.min(Instant::now() + ASK);
            let tells = self.watched.iter_mut().map(|watched| Box::pin(watched.told()));
            tokio::select! {
                _ = select_all(tells) => {}
                () = self.lookout.tails.closed() => {}
                () = tokio::time::sleep_until(wakes) => {}
            }
        }
    }

    /// That it is there, and how old what it has sent may be: an event, since browsers do not show comments to a page.
    fn still_here(&self) -> Bytes {
        let oldest = self.watched.iter().map(|watched| watched.of.looked.age()).max();
        let oldest = oldest.unwrap_or_default().as_millis() as u64;
        frame(None, "still_here", &json!({ "looked_ms_ago": oldest }).to_string())
    }

    /// The next answer that is another one than was sent.
    fn changed(&mut self) -> Option<Bytes> {
        let count = self.watched.len();
        for step in 0..count {
            let place = (self.first + step) % count;
            let watched = &mut self.watched[place];
            let Some(seen) = watched.of.news.borrow_and_update().clone() else { continue };
            if seen.number != watched.sent {
                watched.sent = seen.number;
                self.first = place + 1;
                return Some(seen.event.clone());
            }
        }
        None
    }
}

impl Watched {
    /// Resolves when there is another answer.
    async fn told(&mut self) {
        if self.of.news.changed().await.is_err() {
            // Nobody looks any more: the runtime ends, and this with it.
            std::future::pending::<()>().await;
        }
    }
}
