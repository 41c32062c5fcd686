//! Who a token or a cookie belongs to, without asking the database for each request.
//!
//! An answer is trusted for a second, so a revoked token can be used for that long. A token that is known to be good is
//! never held up by wrong tries of others.
//!
//! | module | subject |
//! |---|---|
//! | `tries` | how many wrong tries are allowed |
//! | `turns` | who asks the database at the same time |

mod tries;
mod turns;

use crate::caller::{Caller, Known};
use crate::problem::Problem;
use crate::secret::{Hash, Kind, Secret};
use crate::tables::{Granted, Tables};
use anabranch::errors::ErrorCode;
use anabranch::{Log, StoreError};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tries::Tries;
use turns::Turns;

/// For how long an answer is trusted.
const TRUSTED: Duration = Duration::from_secs(1);
/// How many are remembered.
const REMEMBERED: usize = 4096;
/// How long a browser stays logged in.
pub(crate) const SESSION: Duration = Duration::from_secs(12 * 3600);
/// How many browsers may be logged in by one token.
const SESSIONS: i64 = 100;
/// Uses are noted to the minute.
const MINUTE: Duration = Duration::from_secs(60);

pub(crate) struct Access {
    pub(crate) tables: Tables,
    found: Mutex<HashMap<Hash, Found>>,
    turns: Turns,
    any: Mutex<Any>,
    noted: Mutex<HashMap<String, Instant>>,
    tries: Tries,
}

/// What the database said last.
#[derive(Clone)]
struct Found {
    caller: Option<Caller>,
    until: Instant,
}

/// Whether there is a token.
enum Any {
    Unknown,
    NotAt(Instant),
    Yes,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Access {
    pub(crate) fn new(log: &Log) -> Self {
        Self {
            tables: Tables::of(log),
            found: Mutex::default(),
            turns: Turns::new(),
            any: Mutex::new(Any::Unknown),
            noted: Mutex::default(),
            tries: Tries::default(),
        }
    }

    /// Whether a token was ever made.
    pub(crate) async fn any_token(&self) -> Result<bool, Problem> {
        match *lock(&self.any) {
            Any::Yes => return Ok(true),
            Any::NotAt(at) if at.elapsed() < TRUSTED => return Ok(false),
            _ => {}
        }
        let any = self.tables.any_token().await.map_err(|error| away(&error))?;
        *lock(&self.any) = if any { Any::Yes } else { Any::NotAt(Instant::now()) };
        Ok(any)
    }

    /// The caller with a secret, be it a token or a cookie.
    pub(crate) async fn caller(
        &self,
        secret: Option<Secret>,
        kind: Kind,
        source: Option<IpAddr>,
    ) -> Result<Caller, Problem> {
        if !self.tables.has_tokens() {
            return Err(unknown(kind));
        }
        let Some(hash) = secret.map(|secret| secret.hash(kind)) else {
            // What cannot be a secret is not looked up, but counts as a try.
            self.tries.may(source)?;
            self.tries.failed(source);
            return Err(unknown(kind));
        };
        let before = self.remembered(&hash);
        if let Some(Found { caller: Some(caller), until }) = &before
            && Instant::now() < *until
        {
            self.note_use(caller);
            return Ok(caller.clone());
        }
        // Callers who were good a moment ago are not held up by others at the same address.
        let is_stranger = before.is_none_or(|found| found.caller.is_none());
        let _place = match is_stranger {
            true => {
                self.tries.may(source)?;
                self.turns.of_stranger(source).await
            }
            false => None,
        };
        let turn = self.turns.of_secret(&hash).await;
        let found = match self.remembered(&hash) {
            Some(found) if Instant::now() < found.until => found,
            _ => {
                if is_stranger {
                    // Others of this address may have been wrong too often meanwhile.
                    self.tries.may(source)?;
                }
                self.ask(&hash, kind).await?
            }
        };
        drop(turn);
        match found.caller {
            Some(caller) => {
                self.note_use(&caller);
                Ok(caller)
            }
            None => {
                self.tries.failed(source);
                Err(unknown(kind))
            }
        }
    }

    /// The same for somebody who was let in with it and is still being answered. That is no try: nobody's tries keep it
    /// from being looked up, and it counts as none.
    pub(crate) async fn caller_again(
        &self,
        secret: Option<Secret>,
        kind: Kind,
    ) -> Result<Caller, Problem> {
        let Some(hash) = secret.map(|secret| secret.hash(kind)) else { return Err(unknown(kind)) };
        let _turn = self.turns.of_secret(&hash).await;
        let found = match self.remembered(&hash) {
            Some(found) if Instant::now() < found.until => found,
            _ => self.ask(&hash, kind).await?,
        };
        found.caller.inspect(|caller| self.note_use(caller)).ok_or_else(|| unknown(kind))
    }

    fn remembered(&self, hash: &Hash) -> Option<Found> {
        lock(&self.found).get(hash).cloned()
    }

    async fn ask(&self, hash: &Hash, kind: Kind) -> Result<Found, Problem> {
        let asked = Instant::now();
        let granted = match kind {
            Kind::Token => self.tables.granted_to_token(hash).await,
            Kind::Session => self.tables.granted_to_session(hash).await,
        };
        let granted = granted.map_err(|error| away(&error))?;
        let granted = granted.filter(|granted| hash.is(&granted.hash));
        let left = granted.as_ref().and_then(|granted| granted.left).unwrap_or(TRUSTED);
        let caller = granted.map(caller_of);
        let found = Found { caller, until: asked + left.min(TRUSTED) };
        let mut all = lock(&self.found);
        if all.len() >= REMEMBERED {
            let now = Instant::now();
            all.retain(|_, found| now < found.until);
        }
        // If all of them are fresh, this one is looked up again next time.
        if all.len() < REMEMBERED {
            all.insert(*hash, found.clone());
        }
        Ok(found)
    }

    /// Logs a browser in.
    pub(crate) async fn begin_session(&self, caller: &Caller) -> Result<Secret, Problem> {
        let token = caller.0.token.clone().ok_or_else(|| unknown(Kind::Token))?;
        let secret = Secret::random();
        let hash = secret.hash(Kind::Session);
        self.tables.begin_session(&hash, &token, SESSION, SESSIONS).await?;
        Ok(secret)
    }

    /// Logs a browser out.
    pub(crate) async fn end_session(&self, secret: &Secret) -> Result<(), Problem> {
        let hash = secret.hash(Kind::Session);
        lock(&self.found).remove(&hash);
        Ok(self.tables.end_session(&hash).await?)
    }

    /// Looks everything up again: a token was made or revoked here.
    pub(crate) fn forget(&self) {
        let now = Instant::now();
        // It is still remembered who was good a moment ago.
        lock(&self.found).values_mut().for_each(|found| found.until = now);
        *lock(&self.any) = Any::Unknown;
    }

    /// Notes that a token is used, once a minute and in the background: no request waits for it, and if it fails, the next
    /// minute does it.
    fn note_use(&self, caller: &Caller) {
        let Some(token) = &caller.0.token else { return };
        {
            let mut noted = lock(&self.noted);
            if noted.get(token).is_some_and(|at| at.elapsed() < MINUTE) {
                return;
            }
            if noted.len() >= REMEMBERED {
                noted.clear();
            }
            noted.insert(token.clone(), Instant::now());
        }
        let (tables, token) = (self.tables.clone(), token.clone());
        tokio::spawn(async move {
            if let Err(error) = tables.note_use(&token).await {
                tracing::debug!(target: "anabranch::server", "the use of a token was not noted: {error}");
            }
        });
    }
}

fn caller_of(granted: Granted) -> Caller {
    let token = granted.token;
    Caller(Arc::new(Known {
        name: token.name,
        token: Some(token.id),
        scopes: token.scopes,
        consumers: token.consumers,
        tenants: token.tenants,
        until: token.expires_at,
    }))
}

/// The database does not answer. The caller is not known yet, so they are not told where it is and what it said.
fn away(error: &StoreError) -> Problem {
    tracing::warn!(target: "anabranch::server", "a token cannot be looked up: {error}");
    Problem::new(error.code(), "the token cannot be looked up at the moment; try again")
}

/// The same words for all that is not good: the reason is not disclosed.
fn unknown(kind: Kind) -> Problem {
    let said = match kind {
        Kind::Token => "the token is unknown, expired or revoked",
        Kind::Session => "the session is over; log in again",
    };
    Problem::new(ErrorCode::NotAuthenticated, said)
}
