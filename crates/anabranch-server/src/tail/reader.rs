//! One tail: it reads the log by itself until it reaches the ring, then it goes on with the ring.
//!
//! Nothing waits for it: the connection asks for the next piece when it has sent the last one. So a slow reader costs the
//! memory of one piece, and is dropped when the ring has passed it.

use super::catch_up::{self, NoPage};
use super::hub::{Hub, Place};
use super::run::{Ended, News};
use super::warrant::{Standing, Warrant};
use crate::events::wanted::Wanted;
use crate::problem::leave_out;
use crate::sse::{frame, heartbeat};
use anabranch::errors::ErrorCode;
use axum::body::Bytes;
use futures_util::Stream;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How many events of the ring are looked at in one turn.
const LOOKS_AT: usize = 256;
/// How much is sent in one piece, before the last event of it.
const PIECE: usize = 32 * 1024;
/// How long a tail that is behind waits for a database that is away.
const AWAY: Duration = Duration::from_secs(1);

/// A tail.
pub(crate) struct Tail {
    hub: Arc<Hub>,
    place: Place,
    news: watch::Receiver<News>,
    wanted: Wanted,
    masked: bool,
    warrant: Warrant,
    /// Everything up to here was sent.
    cursor: u64,
    stage: Stage,
    /// Whether its reader was told that it has caught up.
    has_said: bool,
    spoke: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Reads the log.
    Behind,
    /// Reads the ring.
    Joined,
    Over,
}

impl Tail {
    pub(crate) fn new(
        hub: &Arc<Hub>,
        place: Place,
        wanted: Wanted,
        warrant: Warrant,
        after: u64,
    ) -> Self {
        let run = place.seat.run();
        let stage = if run.reaches_back_to(after) { Stage::Joined } else { Stage::Behind };
        let (hub, news, masked) = (Arc::clone(hub), run.news(), wanted.caller.is_masked());
        let (has_said, spoke) = (false, Instant::now());
        Self { hub, place, news, wanted, masked, warrant, cursor: after, stage, has_said, spoke }
    }

    /// What it sends, piece by piece.
    pub(crate) fn pieces(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        futures_util::stream::unfold(self, |mut tail| async move {
            let piece = tail.next().await?;
            tail.spoke = Instant::now();
            Some((Ok(piece), tail))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.stage != Stage::Over {
                match self.warrant.standing(&self.wanted.caller).await {
                    Standing::Holds => {}
                    Standing::Gone => {
                        let why = "the token may not be used for this any more";
                        return Some(self.dropped("not_allowed", Some(ErrorCode::NotAllowed), why));
                    }
                    Standing::Unknown(code) => {
                        let why = "nobody could say for a while whether the token may still be used; go on after its last id";
                        return Some(self.dropped("log_failed", Some(code), why));
                    }
                }
            }
            let piece = match self.stage {
                Stage::Over => return None,
                Stage::Behind => self.behind().await,
                Stage::Joined => self.joined().await,
            };
            if piece.is_some() {
                return piece;
            }
        }
    }

    /// Reads a page of the log.
    async fn behind(&mut self) -> Option<Bytes> {
        if let Some(ended) = self.ended() {
            return Some(self.farewell(&ended));
        }
        let run = self.place.seat.run();
        let page = catch_up::page(&self.hub, run, &self.wanted, self.masked, self.cursor);
        let page = match page.await {
            Ok(page) => page,
            Err(NoPage::Unwritable(why)) => return Some(self.unwritable(&why)),
            Err(NoPage::Store(error)) if error.is_worth_waiting() => {
                tokio::time::sleep(AWAY).await;
                return self.alive();
            }
            Err(NoPage::Store(error)) => {
                let (code, detail) = (error.code(), error.to_string());
                return Some(self.farewell(&Ended::Failed { code, detail }));
            }
        };
        self.cursor = page.cursor;
        if self.place.seat.run().reaches_back_to(self.cursor) {
            self.stage = Stage::Joined;
        }
        self.place.seat.run().counts.sent(page.events);
        match page.text.is_empty() {
            true => self.alive(),
            false => Some(page.text.into()),
        }
    }

    /// Takes from the ring what is there, or waits.
    async fn joined(&mut self) -> Option<Bytes> {
        // What comes after the look below wakes it.
        self.news.borrow_and_update();
        let run = self.place.seat.run();
        let Ok(entries) = run.after(self.cursor, LOOKS_AT) else {
            run.counts.dropped_one();
            let why =
                "it read so slowly that the newest events have passed it; go on after its last id";
            return Some(self.dropped("too_slow", None, why));
        };
        if entries.is_empty() {
            return self.at_the_end().await;
        }
        let (mut text, mut first, mut sent) = (Vec::new(), None, 0);
        for entry in entries {
            if self.wanted.passes(entry.event()) {
                let frame = match entry.frame(self.masked, &run.counts) {
                    Ok(frame) => frame,
                    // First what stands before it, since that is what the last word says to have been sent.
                    Err(_) if sent > 0 => break,
                    Err(why) => return Some(self.unwritable(&why)),
                };
                sent += 1;
                // One alone is sent as it is; several become one piece.
                match first.take() {
                    None if text.is_empty() => first = Some(frame),
                    before => {
                        text.extend_from_slice(before.as_deref().unwrap_or_default());
                        text.extend_from_slice(&frame);
                    }
                }
            }
            self.cursor = entry.position();
            if text.len() >= PIECE {
                break;
            }
        }
        run.counts.sent(sent);
        match first {
            Some(frame) => Some(frame),
            None if text.is_empty() => self.alive(),
            None => Some(text.into()),
        }
    }

    async fn at_the_end(&mut self) -> Option<Bytes> {
        if let Some(ended) = self.ended() {
            return Some(self.farewell(&ended));
        }
        if !std::mem::replace(&mut self.has_said, true) {
            let data = json!({ "position": self.cursor }).to_string();
            return Some(frame(Some(self.cursor), "caught_up", &data));
        }
        if let Some(alive) = self.alive() {
            return Some(alive);
        }
        let silence = self.spoke + self.hub.limits.heartbeat;
        // Whatever comes of it, its token is looked at before the next word.
        tokio::select! {
            // The sender is in the place that this one has.
            _ = self.news.changed() => {}
            () = tokio::time::sleep_until(silence) => {}
        }
        None
    }

    /// A word, if it was silent for long.
    fn alive(&self) -> Option<Bytes> {
        let is_due = self.spoke.elapsed() >= self.hub.limits.heartbeat;
        is_due.then(|| heartbeat(self.cursor))
    }

    fn ended(&self) -> Option<Ended> {
        self.news.borrow().ended.clone()
    }

    fn farewell(&mut self, ended: &Ended) -> Bytes {
        match ended {
            Ended::Closed => {
                self.dropped("server_stops", None, "the server stops; go on after its last id")
            }
            Ended::Failed { code, detail } => {
                let detail = leave_out(detail, self.hub.log().at());
                self.dropped("log_failed", Some(*code), &detail)
            }
        }
    }

    fn unwritable(&mut self, why: &str) -> Bytes {
        self.dropped("unwritable", Some(ErrorCode::InvalidJson), why)
    }

    /// The last word.
    fn dropped(&mut self, reason: &str, code: Option<ErrorCode>, detail: &str) -> Bytes {
        self.stage = Stage::Over;
        let data = json!({
            "reason": reason, "code": code, "detail": detail, "position": self.cursor,
        });
        frame(Some(self.cursor), "dropped", &data.to_string())
    }
}
