//! Tokens of the HTTP API: make, list, revoke.

use crate::refusal::Refusal;
use crate::serve::is_missing;
use crate::target::Target;
use anabranch::Timestamp;
use anabranch_server::{NewToken, Scope, Token, TokenError, Tokens};
use anabranch_terminal::output::{self, Table, time};
use anabranch_terminal::say;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Tokens of the HTTP API
#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    Make(Make),
    List(List),
    Revoke(Revoke),
}

/// Make a token, and print it: it is shown this once, and only its hash is stored
///
/// With the first one a server on 127.0.0.1 asks for a token, too.
#[derive(Args)]
pub(crate) struct Make {
    #[command(flatten)]
    target: Target,

    /// Whose it is, or what it is for
    name: String,

    /// What it may be used for: read, read-masked (no bodies of events), operate (includes read-masked), append; may be
    /// repeated
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_delimiter = ',')]
    scopes: Vec<Scope>,

    /// Only this consumer is there for it; may be repeated
    #[arg(long = "consumer", value_name = "NAME")]
    consumers: Vec<String>,

    /// Only events of this tenant are there for it; may be repeated
    #[arg(long = "tenant", value_name = "NAME")]
    tenants: Vec<String>,

    /// For how long it may be used, as 12h or 90d; for ever unless said
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    expires: Option<u64>,

    /// Print one JSON object, with the token as `secret`
    #[arg(long)]
    json: bool,
}

/// List the tokens: those that can be used, then the others, newest first; secrets are not known
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    target: Target,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Revoke a token, by the id that `token list` shows; browsers that it has logged in are logged out
#[derive(Args)]
pub(crate) struct Revoke {
    #[command(flatten)]
    target: Target,

    /// The id
    id: String,
}

#[derive(Serialize)]
struct Made<'a> {
    #[serde(flatten)]
    token: &'a Token,
    secret: String,
}

/// `30s`, `15m`, `12h` or `90d`.
fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "write a number and a unit: 30s, 15m, 12h or 90d".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|seconds| *seconds > 0).ok_or_else(wrong)
}

fn refused(error: TokenError) -> anyhow::Error {
    match error {
        TokenError::Store(error) => error.into(),
        error => Refusal::new(error.code(), error.to_string()).into(),
    }
}

impl TokenCommand {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Make(make) => make.run().await,
            Self::List(list) => list.run().await,
            Self::Revoke(revoke) => revoke.run().await,
        }
    }
}

impl Make {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let log = match self.target.connect().await {
            Err(error) if is_missing(&error) => self.target.create_for_consumers().await?,
            connected => connected?,
        };
        let limits = |names: Vec<String>| -> Option<BTreeSet<String>> {
            (!names.is_empty()).then(|| names.into_iter().collect())
        };
        let mut new = NewToken::new(self.name, self.scopes);
        new.consumers = limits(self.consumers);
        new.tenants = limits(self.tenants);
        new.expires_in_seconds = self.expires;
        let made = Tokens::new(&log).make(new, "the command").await;
        let (token, secret) = made.map_err(refused)?;
        if self.json {
            output::json(&Made { token: &token, secret: secret.reveal() })?;
            return Ok(ExitCode::SUCCESS);
        }
        output::print(format_args!("{}\n", secret.reveal()))?;
        let until = token.expires_at.map(|until| format!(", until {}", time(until)));
        say!(
            "the token `{}` may {}{}; it is shown this once: keep it where secrets are kept",
            token.name,
            scopes(&token),
            until.unwrap_or_default()
        );
        Ok(ExitCode::SUCCESS)
    }
}

fn scopes(token: &Token) -> String {
    token.scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(", ")
}

/// What a token is limited to.
fn limits(token: &Token) -> String {
    let of = |what: &str, names: &Option<BTreeSet<String>>| {
        names.as_ref().map(|names| {
            format!("{what} {}", names.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
        })
    };
    let all = [of("consumers", &token.consumers), of("tenants", &token.tenants)];
    let all: Vec<String> = all.into_iter().flatten().collect();
    if all.is_empty() { "-".to_owned() } else { all.join("; ") }
}

impl List {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let tokens = Tokens::new(&self.target.connect().await?).list().await.map_err(refused)?;
        if self.json {
            tokens.iter().try_for_each(output::json)?;
            return Ok(ExitCode::SUCCESS);
        }
        if tokens.is_empty() {
            say!("there are no tokens; `anabranch token make` makes one");
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new(["ID", "NAME", "SCOPES", "ONLY", "MADE", "USED", "STATE"]);
        for token in &tokens {
            let or_never = |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), time);
            let state = match (token.revoked_at, token.expires_at) {
                (Some(at), _) => format!("revoked {}", time(at)),
                (None, Some(until)) if until <= Timestamp::now() => {
                    format!("expired {}", time(until))
                }
                (None, Some(until)) => format!("until {}", time(until)),
                (None, None) => "good".to_owned(),
            };
            table.row([
                token.id.clone(),
                token.name.clone(),
                scopes(token),
                limits(token),
                time(token.made_at),
                or_never(token.used_at),
                state,
            ]);
        }
        table.print()?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Revoke {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let tokens = Tokens::new(&self.target.connect().await?);
        tokens.revoke(&self.id).await.map_err(refused)?;
        say!("the token {} is revoked; servers notice within a second", self.id);
        Ok(ExitCode::SUCCESS)
    }
}
