//! The tables: where documents come from, and where their rows go.

use crate::contract::{Contract, Table};
use crate::document::too_large;
use crate::mapper::Mapper;
use crate::start::Outcome;
use anabranch::backend::database::{End, Statement};
use anabranch::batch::{Batch, Record, RowHandler, Source};
use anabranch::{HandlerError, HandlerResult, Log, Row, Tx, Value};

/// The table of documents, the processing log, and the name of the batch.
pub const APPLICATIONS: &str = "applications";
pub const LOG: &str = "applications_log";

/// The batch, but for who takes part in it. A document that is too large stays where it is: only its size
/// is read. The catalogue knows nothing of a query; but `id` is the primary key of the one table it reads.
pub fn batch(contract: &Contract) -> Batch {
    let bytes = contract.limits.bytes;
    let select = format!(
        "SELECT id, octet_length(xml) AS bytes, \
         CASE WHEN octet_length(xml) <= {bytes} THEN xml END AS xml FROM {APPLICATIONS}"
    );
    Batch::new("xml_conversion", Source::query(select, "id")).assume_unique().log_table(LOG)
}

/// Converts documents. What it writes commits together with the entry of the document in the log.
pub struct Convert {
    mapper: Mapper,
    /// For each table of the contract.
    inserts: Vec<String>,
}

impl Convert {
    pub fn new(contract: &Contract) -> Self {
        let inserts = contract.tables.iter().map(|table| insert(contract, table)).collect();
        Self { mapper: Mapper::new(contract.clone()), inserts }
    }
}

impl RowHandler for Convert {
    async fn handle(&self, record: &Record, tx: &mut Tx) -> HandlerResult {
        let Some(bytes) = record.get::<Option<usize>>("bytes")? else {
            return Err(HandlerError::new("/: there is no document"));
        };
        let refused = |refused: crate::document::Refused| HandlerError::new(refused.to_string());
        let limits = self.mapper.contract().limits;
        let Some(xml) = record.get::<Option<String>>("xml")? else {
            return Err(refused(too_large(bytes, limits)));
        };
        let key: i64 = record.get("id")?;
        // All of a document is read before anything of it is written.
        for row in self.mapper.map(&xml).map_err(refused)? {
            let mut values = vec![Value::from(key)];
            values.extend(row.values);
            tx.execute(self.inserts[row.table].clone(), values).await?;
        }
        Ok(())
    }
}

/// The columns of a table with their types, in the order of a row.
fn columns(contract: &Contract, table: &Table, database: &str) -> Vec<(String, &'static str)> {
    let mut columns = vec![(contract.key.clone(), "bigint"), (contract.number.clone(), "bigint")];
    columns.extend(table.parent.iter().map(|(name, _)| (name.clone(), "bigint")));
    let typed =
        table.columns.iter().map(|column| (column.name.clone(), column.kind.column(database)));
    columns.extend(typed);
    columns
}

fn insert(contract: &Contract, table: &Table) -> String {
    let columns = columns(contract, table, "sqlite");
    let names: Vec<_> = columns.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let places: Vec<_> = (1..=columns.len()).map(|place| format!("${place}")).collect();
    let (names, places) = (names.join(", "), places.join(", "));
    format!("INSERT INTO \"{}\" ({names}) VALUES ({places})", table.name)
}

/// Makes the tables that are not there yet. A document that is converted twice would meet its own rows.
pub async fn create(log: &Log, contract: &Contract) -> Outcome<()> {
    let database = log.store().database().dialect().name();
    let received = if database == "postgres" { "timestamptz" } else { "text" };
    let mut creates = vec![format!(
        "CREATE TABLE IF NOT EXISTS {APPLICATIONS} (id bigint PRIMARY KEY, seed bigint NOT NULL, \
         received {received} NOT NULL, xml text)"
    )];
    for table in &contract.tables {
        let columns = columns(contract, table, database);
        let columns: Vec<_> = columns.iter().map(|(name, of)| format!("\"{name}\" {of}")).collect();
        let Contract { key, number, .. } = contract;
        creates.push(format!(
            "CREATE TABLE IF NOT EXISTS \"{}\" ({}, PRIMARY KEY (\"{key}\", \"{number}\"))",
            table.name,
            columns.join(", "),
        ));
    }
    run(log, creates.into_iter().map(|sql| Statement::new(sql, vec![])).collect()).await
}

/// Drops all tables of the example.
pub async fn drop_all(log: &Log, contract: &Contract) -> Outcome<()> {
    let mut names: Vec<String> = contract.tables.iter().map(|table| table.name.clone()).collect();
    names.push(APPLICATIONS.to_owned());
    names.extend(["", "_history", "_sessions"].map(|suffix| format!("{LOG}{suffix}")));
    let drop = |name| Statement::new(format!("DROP TABLE IF EXISTS \"{name}\""), vec![]);
    run(log, names.into_iter().map(drop).collect()).await
}

/// Runs statements in one transaction.
pub async fn run(log: &Log, statements: Vec<Statement>) -> Outcome<()> {
    log.store().database().begin().run(statements, End::Commit).await?;
    Ok(())
}

/// The one row of a query.
pub async fn row(log: &Log, select: String) -> Outcome<Row> {
    let mut session = log.store().database().begin();
    let answers = session.run(vec![Statement::query(select, vec![])], End::Commit).await?;
    let row = answers.into_iter().flat_map(|answer| answer.rows).next();
    row.ok_or_else(|| "there is no row".into())
}
