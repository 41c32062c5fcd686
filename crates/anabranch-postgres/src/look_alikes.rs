//! Servers that only look like PostgreSQL, and poolers that only look like a server: recognised when
//! connecting, since what they do wrong shows nowhere else.
//!
//! A pooler in transaction mode gives each transaction whichever session is free. An advisory lock is then
//! held by whoever comes next, stays after its worker is dead, and a `LISTEN` hears nothing.

use crate::connection::{Server, int, rows};
use crate::error::{Failure, Unsuitable};
use crate::session::Connection;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

const DIRECT: &str = "give the direct URL of the server, or run the pooler in session mode";
const PROPER: &str = "use PostgreSQL 13 or newer";

/// What the `version()` of servers holds that speak PostgreSQL's protocol and do otherwise.
const OTHERS: [(&str, &str); 7] = [
    ("CockroachDB", "CockroachDB, whose advisory locks lock nothing"),
    ("-YB-", "YugabyteDB, whose sequences are cached, so that positions do not follow time"),
    ("Redshift", "Amazon Redshift, which has neither advisory locks nor unique indexes"),
    ("Materialize", "Materialize, which has neither advisory locks nor transactions that write"),
    ("CrateDB", "CrateDB, which has no transactions"),
    ("Greenplum", "Greenplum, whose sequences are cached, so that positions do not follow time"),
    ("Spanner", "Spanner, which has neither advisory locks nor LISTEN"),
];

/// What a server is by what it says of itself, if it is not PostgreSQL.
fn not_postgres(version: &str) -> Option<Unsuitable> {
    let other = OTHERS.iter().find(|(mark, _)| version.contains(mark));
    other.map(|(_, what)| Unsuitable { what: format!("it is {what}"), remedy: PROPER })
}

/// A session that is none.
pub(crate) fn pooled(found: String) -> Failure {
    let what = format!("a pooler in transaction mode stands before it ({found})");
    Failure::Unsuitable(Unsuitable { what, remedy: DIRECT })
}

/// A statement that this program has prepared on a session is not there, or one of that name is already.
pub(crate) fn lost_statement(said: String) -> Unsuitable {
    let what = format!(
        "a pooler in transaction mode stands before it, or a statement has run DISCARD or DEALLOCATE ({said})"
    );
    Unsuitable { what, remedy: DIRECT }
}

/// Refuses a server that will not do; otherwise returns the first session. All by plain text: prepared
/// statements are one of the things that fail behind a pooler.
pub(crate) async fn check(server: &Server) -> Result<Connection, Failure> {
    let bare = server.bare(|_| {}).await?;
    let version = server.in_time(bare.client.simple_query("SELECT version() AS text")).await?;
    let version = rows(&version).next().and_then(|row| row.get("text")).unwrap_or_default();
    if let Some(unsuitable) = not_postgres(version) {
        return Err(Failure::Unsuitable(unsuitable));
    }
    let one = server.set_up(bare).await?;
    // What is set on a session is there in its next transaction, whatever others do meanwhile.
    let mark = uuid::Uuid::now_v7().simple().to_string();
    let set = format!("SET anabranch.session = '{mark}'");
    server.in_time(one.batch_execute(&set)).await?;
    let other = match server.bare(|_| {}).await {
        Ok(other) => other,
        // There is room for one only. Heartbeats look again.
        Err(failure) if failure.is_full() => return Ok(one),
        Err(failure) => return Err(failure),
    };
    // While a transaction of another session is open, a pooler must give that one a server of its own.
    match server.in_time(other.client.batch_execute("BEGIN")).await {
        Ok(()) => {}
        Err(failure) if failure.code() == Some(&SqlState::PROTOCOL_VIOLATION) => {
            return Err(pooled("it refuses transactions, as in statement mode".to_owned()));
        }
        Err(failure) => return Err(failure),
    }
    let (other_pid, _) = look(server, &other.client).await?;
    if other_pid == one.pid {
        return Err(pooled(format!("two sessions were in server process {other_pid}")));
    }
    let (now, found) = look(server, one.client()).await?;
    if now != one.pid || found != mark {
        let first = one.pid;
        return Err(pooled(format!("a session was in server process {first} and then in {now}")));
    }
    Ok(one)
}

/// The server process of a session, and the mark that was set on it.
async fn look(server: &Server, client: &Client) -> Result<(i32, String), Failure> {
    let look = "SELECT pg_backend_pid() AS pid, \
                coalesce(current_setting('anabranch.session', true), '') AS mark";
    let answers = server.in_time(client.simple_query(look)).await?;
    let row = rows(&answers).next();
    let mark = row.and_then(|row| row.get("mark")).unwrap_or_default().to_owned();
    Ok((row.and_then(|row| int(row, "pid")).unwrap_or_default(), mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_what_they_say_of_themselves() {
        let proper = [
            "PostgreSQL 15.8 (Debian 15.8-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc, 64-bit",
            "PostgreSQL 17.2 on aarch64-unknown-linux-gnu, compiled by gcc, 64-bit",
            "PostgreSQL 16.4 on x86_64-pc-linux-gnu (Aurora), compiled by gcc, 64-bit",
        ];
        for version in proper {
            assert_eq!(not_postgres(version), None, "{version}");
        }
        let others = [
            (
                "CockroachDB CCL v24.1.2 (x86_64-pc-linux-gnu, built 2024/07/08, go1.22)",
                "CockroachDB",
            ),
            ("PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu, 64-bit", "YugabyteDB"),
            ("PostgreSQL 15.2-YB-2025.1.0.0-b0 on x86_64-pc-linux-gnu, 64-bit", "YugabyteDB"),
            (
                "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.77467",
                "Redshift",
            ),
            (
                "PostgreSQL 12.12 (Greenplum Database 7.1.0 build commit:e7c2b1f) 64-bit",
                "Greenplum",
            ),
        ];
        for (version, name) in others {
            let found = not_postgres(version).unwrap();
            assert!(found.what.contains(name), "{found:?}");
            assert!(found.remedy.contains("PostgreSQL"), "{found:?}");
        }
    }
}
