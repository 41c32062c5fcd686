//! Tokens: who may use the API, and for what.

use crate::scope::Scope;
use crate::secret::{Kind, Secret};
use crate::tables::Tables;
use anabranch::errors::ErrorCode;
use anabranch::{Log, StoreError, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;
use thiserror::Error;
use uuid::Uuid;

/// How many usable tokens there may be.
const MOST: i64 = 1000;
/// How long a name may be.
const NAME: usize = 100;
/// How many consumers or tenants a token may be limited to.
const LIMITS: usize = 1000;

/// A token, without its secret, which is not stored.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Token {
    /// Its id, which reveals nothing about the secret.
    pub id: String,
    /// Whose it is, or what it is for.
    pub name: String,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// The only consumers that it sees; all if there are none.
    pub consumers: Option<BTreeSet<String>>,
    /// The only tenants whose events it sees; all, and events without one, if there are none.
    pub tenants: Option<BTreeSet<String>>,
    /// When it was made.
    pub made_at: Timestamp,
    /// By whom.
    pub made_by: String,
    /// Until when it may be used.
    pub expires_at: Option<Timestamp>,
    /// When it was used last, to the minute.
    pub used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A token to be made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Whose it is, or what it is for.
    pub name: String,
    /// What it may be used for.
    pub scopes: BTreeSet<Scope>,
    /// The only consumers that it sees; all if there are none.
    #[serde(default)]
    pub consumers: Option<BTreeSet<String>>,
    /// The only tenants whose events it sees; all if there are none.
    #[serde(default)]
    pub tenants: Option<BTreeSet<String>>,
    /// For how many seconds it may be used; without a limit if not given.
    #[serde(default)]
    pub expires_in_seconds: Option<u64>,
}

/// Why something was not done with a token.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenError {
    /// There can be no such token.
    #[error("{0}")]
    Invalid(String),
    /// There is no such token.
    #[error("there is no token `{}`; `anabranch token list` shows them", .0.escape_debug())]
    NoSuchToken(String),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TokenError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid(_) => ErrorCode::InvalidInput,
            Self::NoSuchToken(_) => ErrorCode::NoSuchToken,
            Self::Store(error) => error.code(),
        }
    }
}

/// The tokens of a log's API. They are kept where its consumers are.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let log = anabranch::connect("sqlite::memory:").await?;
/// use anabranch_server::{NewToken, Scope, Tokens};
/// let tokens = Tokens::new(&log);
/// let (token, secret) = tokens.make(NewToken::new("grafana", [Scope::ReadMasked]), "ada").await?;
/// println!("{}", secret.reveal()); // anb_…, which is shown nowhere else
/// assert_eq!(tokens.list().await?[0].name, "grafana");
/// tokens.revoke(&token.id).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Tokens {
    tables: Tables,
}

impl NewToken {
    /// A token for these scopes, without limits.
    #[must_use]
    pub fn new(name: impl Into<String>, scopes: impl IntoIterator<Item = Scope>) -> Self {
        let scopes = scopes.into_iter().collect();
        let (name, none) = (name.into(), None);
        Self { name, scopes, consumers: none.clone(), tenants: none, expires_in_seconds: None }
    }

    fn check(&self) -> Result<(), TokenError> {
        let refuse = |said: &str| Err(TokenError::Invalid(said.to_owned()));
        let is_plain = |text: &str, most: usize| {
            let length = text.chars().count();
            (1..=most).contains(&length) && !text.chars().any(char::is_control)
        };
        if !is_plain(&self.name, NAME) {
            return refuse(
                "the name of a token has 1 to 100 characters, none of them a control character",
            );
        }
        if self.scopes.is_empty() {
            return refuse("a token needs a scope: read, read-masked, operate or append");
        }
        for names in [&self.consumers, &self.tenants].into_iter().flatten() {
            let are_plain = names.iter().all(|name| is_plain(name, 500));
            if names.is_empty() || names.len() > LIMITS || !are_plain {
                return refuse(
                    "a token is limited to 1 to 1,000 consumers or tenants, or not at all; their names are not empty",
                );
            }
        }
        match self.expires_in_seconds {
            Some(0) => {
                refuse("a token that expires at once is of no use; give it a second at least")
            }
            Some(seconds) if seconds > 3_200_000_000 => {
                refuse("a token expires within 100 years, or not at all")
            }
            _ => Ok(()),
        }
    }
}

impl Tokens {
    /// Those of a log.
    #[must_use]
    pub fn new(log: &Log) -> Self {
        Self { tables: Tables::of(log) }
    }

    /// Makes a token. Its secret is returned here and nowhere else: only a hash of it is stored.
    pub async fn make(&self, new: NewToken, by: &str) -> Result<(Token, Secret), TokenError> {
        self.make_until(new, by, None).await
    }

    /// The same, with a token that expires at a given time or earlier.
    pub(crate) async fn make_until(
        &self,
        new: NewToken,
        by: &str,
        until: Option<Timestamp>,
    ) -> Result<(Token, Secret), TokenError> {
        new.check()?;
        self.tables.must_have_tokens()?;
        if self.tables.live_tokens().await? >= MOST {
            let said = format!("there are {MOST} tokens already; revoke those that nobody uses");
            return Err(TokenError::Invalid(said));
        }
        let secret = Secret::random();
        let token = Token {
            id: Uuid::now_v7().simple().to_string(),
            name: new.name,
            scopes: new.scopes.into_iter().collect(),
            consumers: new.consumers,
            tenants: new.tenants,
            made_at: Timestamp::UNIX_EPOCH,
            made_by: by.to_owned(),
            expires_at: None,
            used_at: None,
            revoked_at: None,
        };
        let lasts = new.expires_in_seconds.map(Duration::from_secs);
        self.tables.add_token(&token, &secret.hash(Kind::Token), lasts, until).await?;
        // With the times of the database.
        let made = self.tables.token_of_id(&token.id).await?;
        Ok((made.ok_or(TokenError::NoSuchToken(token.id))?, secret))
    }

    /// At most a thousand tokens: first all that can be used, then the revoked and expired ones, each newest first. A token
    /// is deleted 90 days after it has ended.
    pub async fn list(&self) -> Result<Vec<Token>, TokenError> {
        self.tables.must_have_tokens()?;
        Ok(self.tables.tokens().await?)
    }

    /// Revokes a token, by its id, and ends its sessions. A server that runs elsewhere notices within a second.
    pub async fn revoke(&self, id: &str) -> Result<(), TokenError> {
        self.tables.must_have_tokens()?;
        match self.tables.revoke(id).await? {
            true => Ok(()),
            false => Err(TokenError::NoSuchToken(id.chars().take(100).collect())),
        }
    }

    /// Whether a token was ever made. From then on a server on loopback asks for one, too.
    pub async fn any(&self) -> Result<bool, TokenError> {
        Ok(self.tables.any_token().await?)
    }
}
