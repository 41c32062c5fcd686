//! A statement that is prepared and not run. A savepoint around it keeps the transaction going if it is refused.

use super::batch::{FirstError, Own, What, batch};
use super::{PATIENCE, PostgresSession, Source};
use crate::error::Failure;
use crate::refusal::reason;
use crate::session::Connection;
use anabranch_store::database::{Described, End, Failed, ONE_STATEMENT, Reason, Statement};
use std::time::Duration;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::Type;

const SAVEPOINT: &str = "SAVEPOINT anabranch_describe";
const BACK: &str = "ROLLBACK TO SAVEPOINT anabranch_describe; RELEASE SAVEPOINT anabranch_describe";

/// The names of types as statements write them.
const TYPE_NAMES: &str = "SELECT pg_catalog.format_type(of.oid, NULL) \
                          FROM pg_catalog.unnest($1) WITH ORDINALITY AS of (oid, place) \
                          ORDER BY of.place";

/// What people write for the names of the standard.
const SHORT: [(&str, &str); 6] = [
    ("timestamp with time zone", "timestamptz"),
    ("timestamp without time zone", "timestamp"),
    ("time with time zone", "timetz"),
    ("time without time zone", "time"),
    ("character varying", "varchar"),
    ("bit varying", "varbit"),
];

impl PostgresSession {
    pub(super) async fn describe_one(
        &mut self,
        sql: &str,
        idle: Duration,
    ) -> Result<Described, Failed> {
        let (lease, begun) = self.lend().await?;
        self.is_users |= matches!(self.source, Source::Pool(..));
        let (session, is_users) = (lease.session(), self.is_users);
        let own =
            Own { signal: &self.signal, begin: &self.begin, appending: &self.appending, is_users };
        let work = async {
            batch(session, own, &[], begun, End::Open { idle }).await?;
            session.batch_execute(SAVEPOINT).await?;
            let described = described(session, sql).await;
            // Without it the transaction is over, whatever the statement is.
            session.batch_execute(BACK).await?;
            described.map_err(|error| FirstError::at(0, error))
        };
        let at = &self.server.at;
        let Ok(result) = tokio::time::timeout(PATIENCE, work).await else {
            return Err(Failed::store(Failure::Silent(PATIENCE).at(at)));
        };
        let (statement, error) = match result {
            Ok(described) => {
                self.open = Some(lease);
                return Ok(described);
            }
            Err(FirstError { statement, what: What::Said(error, _) }) => (statement, error),
            Err(FirstError { statement, what: What::Refused(reason) }) => {
                return Err(Failed { statement, reason });
            }
        };
        let blamed = statement.map(|_| Statement::new(sql.to_owned(), Vec::new()));
        let is_several = error.as_db_error().is_some_and(is_several);
        let failure = Failure::from(error);
        let reason = match &blamed {
            Some(blamed) if is_several => Reason::refused_in(blamed, ONE_STATEMENT, None),
            _ => reason(at, &failure, blamed.as_ref()),
        };
        if statement.is_some() && matches!(reason, Reason::Refused { .. }) {
            self.open = Some(lease);
        } else if failure.leaves_session_sound()
            && self.server.in_time(session.roll_back(is_users)).await.is_ok()
        {
            lease.give_back();
        }
        Err(Failed { statement, reason })
    }
}

async fn described(session: &Connection, sql: &str) -> Result<Described, Error> {
    // Not kept: it may be about a table that is not there for long.
    let prepared = session.prepare(sql).await?;
    let columns = prepared.columns().iter().map(|column| column.name().to_owned()).collect();
    let oids: Vec<u32> = prepared.params().iter().map(Type::oid).collect();
    if oids.is_empty() {
        return Ok(Described { values: Vec::new(), columns });
    }
    let names = session.query_typed(TYPE_NAMES, &[(&oids, Type::OID_ARRAY)]).await?;
    let values = names.iter().map(|row| row.get::<_, Option<String>>(0).map(short)).collect();
    Ok(Described { values, columns })
}

fn short(name: String) -> String {
    let (element, array) = name.split_at(name.find('[').unwrap_or(name.len()));
    match SHORT.iter().find(|(long, _)| *long == element) {
        Some((_, short)) => format!("{short}{array}"),
        None => name,
    }
}

/// Whether the text held several statements. The place in the server that says so has one name in all
/// languages, and says nothing else about syntax.
fn is_several(error: &DbError) -> bool {
    *error.code() == SqlState::SYNTAX_ERROR && error.routine() == Some("exec_parse_message")
}
