//! The rows of tokens, and of the sessions that browsers have begun with one.

use super::Tables;
use crate::scope::Scope;
use crate::secret::Hash;
use crate::token::Token;
use anabranch::backend::database::Statement;
use anabranch::migration::since;
use anabranch::{Row, StoreError, Timestamp, Value, params};
use std::collections::BTreeSet;
use std::time::Duration;

const COLUMNS: &str = "t.id, t.name, t.scopes, t.consumers, t.tenants, t.made_us, t.made_by, t.expires_us, \
                       t.used_us, t.revoked_us";

/// How many tokens are read. There are never more usable ones.
const READ: i64 = 1000;
/// For how long a token is kept after it has ended.
const KEPT: Duration = Duration::from_secs(90 * 24 * 3600);

/// A usable token, and what it was found by.
pub(crate) struct Granted {
    pub(crate) token: Token,
    /// What was stored, to be compared with what was shown.
    pub(crate) hash: Vec<u8>,
    /// For how long it may be used, if that ends.
    pub(crate) left: Option<Duration>,
}

impl Tables {
    /// Whether the log is as new as tokens.
    pub(crate) fn has_tokens(&self) -> bool {
        self.database.schema() >= since::OPERATIONS
    }

    /// Refuses a log that is older than this.
    pub(crate) fn must_have_tokens(&self) -> Result<(), StoreError> {
        match self.has_tokens() {
            true => Ok(()),
            false => self.database.require_newest_schema(),
        }
    }

    /// Whether a token was ever made. Revoked ones count, or revoking the last one would open the server.
    pub(crate) async fn any_token(&self) -> Result<bool, StoreError> {
        if !self.has_tokens() {
            return Ok(false);
        }
        let select = format!("SELECT 1 AS one FROM {} LIMIT 1", self.tokens);
        Ok(!self.rows(Statement::query(select, vec![])).await?.is_empty())
    }

    /// How many tokens are usable.
    pub(crate) async fn live_tokens(&self) -> Result<i64, StoreError> {
        let (tokens, is_live) = (&self.tokens, self.is_live());
        let select = format!("SELECT count(*) AS live FROM {tokens} t WHERE {is_live}");
        let rows = self.rows(Statement::query(select, vec![])).await?;
        Ok(rows.first().map(|row| self.column(row, "live")).transpose()?.unwrap_or(0))
    }

    /// The condition that a token is usable.
    fn is_live(&self) -> String {
        let now = self.now;
        format!("t.revoked_us IS NULL AND (t.expires_us IS NULL OR t.expires_us > {now})")
    }

    /// Adds a token, and deletes those that ended long ago: with the new one in the table, it stays known that tokens were
    /// made. The times are the database's.
    pub(crate) async fn add_token(
        &self,
        token: &Token,
        hash: &Hash,
        lasts: Option<Duration>,
        until: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let (tokens, now) = (&self.tokens, self.now);
        // Without a lifetime of its own the comparison is not true, and the given time holds.
        let expires = match until {
            None => format!("{now} + $8"),
            Some(_) => format!("CASE WHEN {now} + $8 < $9 THEN {now} + $8 ELSE $9 END"),
        };
        let list = |of: &Option<BTreeSet<String>>| {
            of.as_ref().map(|names| serde_json::to_string(names).unwrap_or_default())
        };
        let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
        let lasts_us = lasts.map(|lasts| i64::try_from(lasts.as_micros()).unwrap_or(i64::MAX / 2));
        let insert = format!(
            "INSERT INTO {tokens} (id, name, hash, scopes, consumers, tenants, made_us, made_by, expires_us) \
             VALUES ($1, $2, $3, $4, $5, $6, {now}, $7, {expires})"
        );
        let mut values = params![
            &token.id,
            &token.name,
            hash.bytes(),
            scopes.join(" "),
            list(&token.consumers),
            list(&token.tenants),
            &token.made_by,
            lasts_us
        ];
        values.extend(until.map(|until| Value::from(until.as_microsecond())));
        let long_ago = format!("{now} - {}", KEPT.as_micros());
        let forget = format!(
            "DELETE FROM {tokens} WHERE revoked_us < {long_ago} OR expires_us < {long_ago}"
        );
        self.run(vec![Statement::new(forget, vec![]), Statement::new(insert, values)])
            .await
            .map(drop)
    }

    /// The usable tokens, then the others, each newest first.
    pub(crate) async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let select = format!(
            "SELECT {COLUMNS} FROM {} t ORDER BY CASE WHEN {} THEN 0 ELSE 1 END, t.made_us DESC, t.id DESC LIMIT $1",
            self.tokens,
            self.is_live()
        );
        let rows = self.rows(Statement::query(select, params![READ])).await?;
        rows.iter().map(|row| self.token(row)).collect()
    }

    /// One of them.
    pub(crate) async fn token_of_id(&self, id: &str) -> Result<Option<Token>, StoreError> {
        let select = format!("SELECT {COLUMNS} FROM {} t WHERE t.id = $1", self.tokens);
        let rows = self.rows(Statement::query(select, params![id])).await?;
        rows.first().map(|row| self.token(row)).transpose()
    }

    /// Revokes a token and ends its sessions, or nothing if there is no such one; says whether there is.
    pub(crate) async fn revoke(&self, id: &str) -> Result<bool, StoreError> {
        let revoke = format!(
            "UPDATE {} SET revoked_us = coalesce(revoked_us, {}) WHERE id = $1",
            self.tokens, self.now
        );
        let end = format!("DELETE FROM {} WHERE token = $1", self.sessions);
        let done = vec![Statement::new(revoke, params![id]), Statement::new(end, params![id])];
        Ok(self.run(done).await?.first().is_some_and(|changed| *changed > 0))
    }

    /// The token with a hash, if it may be used now.
    pub(crate) async fn granted_to_token(
        &self,
        hash: &Hash,
    ) -> Result<Option<Granted>, StoreError> {
        let (tokens, now, is_live) = (&self.tokens, self.now, self.is_live());
        let select = format!(
            "SELECT {COLUMNS}, t.hash AS hash, t.expires_us - {now} AS left_us FROM {tokens} t \
             WHERE t.hash = $1 AND {is_live}"
        );
        let rows = self.rows(Statement::query(select, params![hash.bytes()])).await?;
        rows.first().map(|row| self.granted(row)).transpose()
    }

    /// The token of a session, if both may be used now.
    pub(crate) async fn granted_to_session(
        &self,
        hash: &Hash,
    ) -> Result<Option<Granted>, StoreError> {
        let (tokens, sessions, now, is_live) =
            (&self.tokens, &self.sessions, self.now, self.is_live());
        let select = format!(
            "SELECT {COLUMNS}, s.hash AS hash, CASE WHEN t.expires_us < s.expires_us THEN t.expires_us \
             ELSE s.expires_us END - {now} AS left_us FROM {sessions} s JOIN {tokens} t ON t.id = s.token \
             WHERE s.hash = $1 AND s.expires_us > {now} AND {is_live}"
        );
        let rows = self.rows(Statement::query(select, params![hash.bytes()])).await?;
        rows.first().map(|row| self.granted(row)).transpose()
    }

    /// Begins a session, and deletes those that are over, and the oldest ones of this token if there are too many.
    pub(crate) async fn begin_session(
        &self,
        hash: &Hash,
        token: &str,
        lasts: Duration,
        most: i64,
    ) -> Result<(), StoreError> {
        let (sessions, now) = (&self.sessions, self.now);
        let lasts_us = i64::try_from(lasts.as_micros()).unwrap_or(i64::MAX / 2);
        let clean = format!("DELETE FROM {sessions} WHERE expires_us <= {now}");
        let trim = format!(
            "DELETE FROM {sessions} WHERE token = $1 AND hash NOT IN \
             (SELECT hash FROM {sessions} WHERE token = $1 ORDER BY made_us DESC LIMIT $2)"
        );
        let begin = format!(
            "INSERT INTO {sessions} (hash, token, made_us, expires_us) VALUES ($1, $2, {now}, {now} + $3)"
        );
        let statements = vec![
            Statement::new(clean, vec![]),
            Statement::new(trim, params![token, most - 1]),
            Statement::new(begin, params![hash.bytes(), token, lasts_us]),
        ];
        self.run(statements).await.map(drop)
    }

    /// Ends a session.
    pub(crate) async fn end_session(&self, hash: &Hash) -> Result<(), StoreError> {
        let delete = format!("DELETE FROM {} WHERE hash = $1", self.sessions);
        self.run(vec![Statement::new(delete, params![hash.bytes()])]).await.map(drop)
    }

    /// Notes when a token was used, to the minute.
    pub(crate) async fn note_use(&self, id: &str) -> Result<(), StoreError> {
        // The clock is read once: two readings differ, and the minute would be one before.
        let minute = format!("({} / 60000000) * 60000000", self.now);
        let update = format!(
            "UPDATE {} SET used_us = {minute} WHERE id = $1 AND coalesce(used_us, 0) < {minute}",
            self.tokens
        );
        self.run(vec![Statement::new(update, params![id])]).await.map(drop)
    }

    fn granted(&self, row: &Row) -> Result<Granted, StoreError> {
        let left_us: Option<i64> = self.column(row, "left_us")?;
        let left = left_us.map(|left| Duration::from_micros(u64::try_from(left).unwrap_or(0)));
        Ok(Granted { token: self.token(row)?, hash: self.column(row, "hash")?, left })
    }

    fn token(&self, row: &Row) -> Result<Token, StoreError> {
        let corrupt = |what: &str| StoreError::Corrupt {
            at: self.database.at().to_owned(),
            what: format!("{what} of a token"),
        };
        let time = |name| -> Result<Option<Timestamp>, StoreError> {
            let micros: Option<i64> = self.column(row, name)?;
            Ok(micros.and_then(|micros| Timestamp::from_microsecond(micros).ok()))
        };
        let list = |name| -> Result<Option<BTreeSet<String>>, StoreError> {
            let text: Option<String> = self.column(row, name)?;
            let read = text.map(|text| serde_json::from_str(&text)).transpose();
            read.map_err(|_| corrupt("the limits"))
        };
        let scopes: String = self.column(row, "scopes")?;
        // An unknown scope, of a later version, is ignored rather than making the token useless.
        let scopes: Vec<Scope> = scopes.split(' ').filter_map(|name| name.parse().ok()).collect();
        Ok(Token {
            id: self.column(row, "id")?,
            name: self.column(row, "name")?,
            scopes,
            consumers: list("consumers")?,
            tenants: list("tenants")?,
            made_at: time("made_us")?.ok_or_else(|| corrupt("the time"))?,
            made_by: self.column(row, "made_by")?,
            expires_at: time("expires_us")?,
            used_at: time("used_us")?,
            revoked_at: time("revoked_us")?,
        })
    }
}
