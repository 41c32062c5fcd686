//! A database that is made for a test, and dropped after it.

use crate::connection::Server;
use anabranch_core::StoreError;
use anabranch_store::Durability;
use uuid::Uuid;

/// The schemas that unqualified names would be made in: those of the user's own database are not in a new one.
const SCHEMAS_OF_THE_PATH: &str = r#"
DO $$
DECLARE
    part text;
BEGIN
    FOREACH part IN ARRAY string_to_array(current_setting('search_path'), ',') LOOP
        part := trim(part);
        part := CASE WHEN part LIKE '"%' THEN replace(trim(BOTH '"' FROM part), '""', '"') ELSE lower(part) END;
        IF part <> '' AND part <> '$user' AND part NOT LIKE 'pg\_%' THEN
            EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', part);
        END IF;
    END LOOP;
END
$$
"#;

/// A new, empty database on a server, for a test: [`remove`](Self::remove) drops it. The user needs the right to create
/// databases. It has the schemas of the search path that the URL or the role sets.
///
/// ```no_run
/// # async fn f() -> Result<(), anabranch_core::StoreError> {
/// use anabranch_postgres::ThrowawayDatabase;
/// let made = ThrowawayDatabase::create("postgres://postgres@localhost/postgres").await?;
/// // anabranch::connect(made.url()) …
/// made.remove().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ThrowawayDatabase {
    /// Of the server, and the database that was there before.
    from: String,
    name: String,
    url: String,
}

impl ThrowawayDatabase {
    /// Makes one on the server of a URL.
    pub async fn create(url: &str) -> Result<Self, StoreError> {
        let name = format!("anabranch_test_{}", Uuid::now_v7().simple());
        // In the name are letters, digits and underscores only.
        run(url, &format!("CREATE DATABASE {name}")).await?;
        let sign = if url.contains('?') { '&' } else { '?' };
        // An option comes after the path, and so in its place.
        let of_database = format!("{url}{sign}dbname={name}");
        let made = Self { from: url.to_owned(), name, url: of_database };
        match run(made.url(), SCHEMAS_OF_THE_PATH).await {
            Ok(()) => Ok(made),
            Err(error) => {
                made.remove().await?;
                Err(error)
            }
        }
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Drops it, whoever is connected to it.
    pub async fn remove(self) -> Result<(), StoreError> {
        run(&self.from, &format!("DROP DATABASE {} WITH (FORCE)", self.name)).await
    }
}

/// Runs a statement that cannot be in a transaction.
async fn run(url: &str, statement: &str) -> Result<(), StoreError> {
    let server = Server::parse(url, Durability::Full, false)?;
    let session = server.open().await.map_err(|failure| failure.at(&server.at))?;
    let ran = server.in_time(session.client().batch_execute(statement)).await;
    ran.map_err(|failure| failure.at(&server.at))
}
