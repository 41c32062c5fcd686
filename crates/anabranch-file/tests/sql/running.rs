//! A file for each case, and what its consumers do.

use crate::support::Db;
use anabranch::operate::Consumers;
use anabranch::running::ConsumerChange;
use anabranch::running::Progress;
use anabranch::{Log, Row, RunError, Value};
use anabranch_file::file::{File, Source};
use anabranch_file::{MadeSet, Sets};

/// A file, with `@` for the suffix of the case's tables.
pub fn file(db: &Db, text: &str) -> File {
    let text = text.replace('@', &format!("_{}", db.own));
    File::parse(&Source::new("case.toml", text)).unwrap_or_else(|problems| panic!("{problems}"))
}

/// One replica set with one projection of orders, and what else stands in it.
pub fn projection(db: &Db, lines: &str) -> File {
    let head = "[[replica_set]]\nname = \"set@\"\nlanes = 3\n[[replica_set.projection]]\n\
                name = \"totals@\"\npartition = \"entity:Order\"\n";
    file(db, &format!("{head}{lines}"))
}

/// Handles what is there.
pub async fn catch_up(file: &File, log: &Log) -> Result<Progress, RunError> {
    let sets = Sets::default().of(file, log).unwrap_or_else(|problems| panic!("{problems}"));
    let mut last = Progress::default();
    for MadeSet { set, .. } in sets {
        last = set.catch_up(log).await?;
    }
    Ok(last)
}

/// Says that the code of a file is meant.
pub async fn accept(file: &File, log: &Log) {
    for MadeSet { set, .. } in Sets::default().of(file, log).unwrap() {
        for (_, change) in set.changes_on(log).await.unwrap() {
            let ConsumerChange::Code(change) = change else { continue };
            Consumers::new(log).accept_code(&change).await.unwrap();
        }
    }
}

pub async fn rows(db: &Db, log: &Log, sql: &str) -> Vec<Vec<Value>> {
    let rows = log.query(sql.replace('@', &format!("_{}", db.own)), vec![]).await.unwrap();
    let values = |row: &Row| row.iter().map(|(_, value)| value.clone()).collect();
    rows.iter().map(values).collect()
}
