//! What keys must be for every row to be handled: of one kind, never NULL, no two alike.
//!
//! Some of it is asked before a row is handled, the rest is seen in the pages and at the end. What nobody can
//! see while it runs, such as a row that comes later with a key that is done, is for the proof to find.

use crate::batch::Batch;
use crate::columns;
use crate::error::BatchError;
use crate::source::Source;
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_store::database::{EqualTexts, Kinds, Uniqueness, column};
use anabranch_store::{Database, Row, Value};
use std::sync::Arc;

/// How many keys are named.
const EXAMPLES: usize = 10;

/// What is known of the keys of a source.
#[derive(Debug)]
pub(crate) struct Keys {
    source: Source,
    /// Whether they are whole numbers, once that is known; else they are text.
    is_integer: Option<bool>,
    /// Whether nothing shows that they are unique.
    pub(crate) is_assumed: bool,
    /// Whether they can be NULL.
    may_be_null: bool,
}

/// A row of the source, with its key.
pub(crate) struct Keyed {
    /// What pages are ordered by.
    pub(crate) value: Value,
    /// As the database writes it, and the log.
    pub(crate) key: String,
    pub(crate) row: Row,
}

impl Keys {
    /// Finds out what can be known before a row is handled, and refuses what cannot be gone through. The
    /// tables it returns go through the rows in an order in which equal keys are the same key.
    pub(crate) async fn look(
        batch: &Batch,
        database: &Arc<dyn Database>,
        tables: Tables,
    ) -> Result<(Self, Tables), BatchError> {
        let source = batch.source.clone();
        let refuse = |problem: String| Err(BatchError::refused(&batch.job, problem));
        if let Err(error) = database.rows(tables.any_key()).await {
            let Source { name, key_name, from, .. } = &source;
            if error.is_transient() {
                return Err(error.into());
            }
            let why = match columns::of(database, from).await {
                Ok(has) if !has.contains(key_name) => columns::lacks(name, key_name, &has),
                _ => error.to_string(),
            };
            return refuse(format!("cannot read key `{key_name}` of {name}: {why}"));
        }
        let shown = match source.is_table {
            true => database.catalogue().uniqueness(&source.name, &source.key_name).await?,
            false => Uniqueness::NotShown("the catalogue knows nothing of a query".to_owned()),
        };
        let (collation, is_rowid, is_assumed) = match shown {
            Uniqueness::Unique { collation, is_row_number } => (collation, is_row_number, false),
            Uniqueness::NotShown(found) if !batch.is_assumed_unique => {
                return refuse(not_shown(&source, &found));
            }
            // As the log tells them apart.
            Uniqueness::NotShown(_) => {
                (database.dialect().page_collation().map(str::to_owned), false, true)
            }
        };
        let tables = tables.in_order_of(collation);
        let mut keys = Self { source, is_integer: None, is_assumed, may_be_null: !is_rowid };
        if is_rowid {
            keys.is_integer = Some(true);
        } else if let Some(problem) = keys.look_at_kinds(database).await? {
            return refuse(problem);
        }
        match keys.missing(database, &tables).await? {
            Some(problem) => refuse(problem),
            None => Ok((keys, tables)),
        }
    }

    /// Whether the database can count with them. Nobody knows before there is one on SQLite.
    pub(crate) fn are_integers(&self) -> bool {
        self.is_integer == Some(true)
    }

    /// Learns of what kind they are; says what is wrong with it.
    async fn look_at_kinds(
        &mut self,
        database: &Arc<dyn Database>,
    ) -> Result<Option<String>, StoreError> {
        let Source { from, key, name, key_name, .. } = &self.source;
        let kinds = database.catalogue().kinds(from, key).await?;
        self.is_integer = match kinds {
            Kinds::Integers => Some(true),
            Kinds::Texts { .. } | Kinds::Uuids | Kinds::Others(_) => Some(false),
            Kinds::Unknown | Kinds::Mixed(_) => None,
        };
        let only = "keys are whole numbers or text, all of them alike";
        let wrong = match kinds {
            Kinds::Texts { equal: Some(EqualTexts::Numeric) } if self.is_assumed => Some(format!(
                "key `{key_name}` of {name} is numeric, where 1.0 and 1.00 are equal and have two \
                 texts; cast it to bigint or text in a query"
            )),
            Kinds::Texts { equal: Some(EqualTexts::Collation) } if self.is_assumed => {
                Some(format!(
                    "the collation of key `{key_name}` of {name} takes different texts for equal; give \
                 it another one in a query, such as {key_name} COLLATE \"C\" AS {key_name}"
                ))
            }
            Kinds::Unknown | Kinds::Integers | Kinds::Texts { .. } | Kinds::Uuids => None,
            Kinds::Others(kind) => Some(format!(
                "key `{key_name}` of {name} is of type {kind}, and {only}: other values have texts \
                 that settings change; cast it in a query"
            )),
            Kinds::Mixed(kinds) => Some(format!(
                "key `{key_name}` of {name} holds {}, and {only}: 1 and '1' would be one key; cast it in a \
                 query",
                kinds.join(" and ")
            )),
        };
        Ok(wrong)
    }

    /// Counts the rows that have no key; says so if there are any.
    async fn missing(
        &self,
        database: &Arc<dyn Database>,
        tables: &Tables,
    ) -> Result<Option<String>, StoreError> {
        if !self.may_be_null {
            return Ok(None);
        }
        let rows = database.rows(tables.without_key()).await?;
        let n = rows.first().map_or(Ok(0), |row| column::<u64>(database.at(), row, "n"))?;
        let Source { name, key_name, .. } = &self.source;
        Ok((n > 0).then(|| {
            format!(
                "key `{key_name}` of {name} is NULL in {n} of its rows: they can never be handled. Give them \
                 a key, choose another, or leave them out by a query"
            )
        }))
    }

    /// Looks at a page, in the order of its keys: says what cannot be handled of it.
    pub(crate) fn check(&mut self, page: &[Keyed]) -> Option<String> {
        let Source { name, key_name, .. } = &self.source;
        for Keyed { value, key, .. } in page {
            let is_integer = match value {
                Value::Int(_) => true,
                Value::Text(_) | Value::Uuid(_) => false,
                _ => {
                    return Some(format!(
                        "key `{key_name}` of {name} is neither a whole number nor text in a row: {key}"
                    ));
                }
            };
            if *self.is_integer.get_or_insert(is_integer) != is_integer {
                return Some(format!(
                    "key `{key_name}` of {name} is text in some rows and a number in others, such as {key}: 1 \
                     and '1' would be one key; cast it in a query"
                ));
            }
        }
        let same: Vec<_> = page.windows(2).filter(|two| two[0].key == two[1].key).collect();
        let mut same: Vec<&str> = same.iter().map(|two| two[0].key.as_str()).collect();
        same.dedup();
        same.truncate(EXAMPLES);
        (!same.is_empty()).then(|| alike(&self.source, &same.join(", ")))
    }

    /// Looks at the whole once all is done: says what was passed over.
    pub(crate) async fn passed_over(
        &self,
        database: &Arc<dyn Database>,
        tables: &Tables,
    ) -> Result<Option<String>, StoreError> {
        if let Some(problem) = self.missing(database, tables).await? {
            return Ok(Some(problem));
        }
        if !self.is_assumed {
            return Ok(None);
        }
        let mut keys = Vec::new();
        for row in database.rows(tables.doubled(EXAMPLES)).await? {
            keys.push(column::<String>(database.at(), &row, "key")?);
        }
        Ok((!keys.is_empty()).then(|| alike(&self.source, &keys.join(", "))))
    }
}

/// Types of PostgreSQL whose texts are always the same, and never those of two values.
fn not_shown(source: &Source, found: &str) -> String {
    let Source { name, key_name, .. } = source;
    format!(
        "nothing shows that key `{key_name}` of {name} is unique and never NULL: {found}. Rows that share a key \
         are one to a batch, and all but one of them would never be handled. Give the column NOT NULL and a \
         unique index, or choose a key that has them, or, if you know that it is unique, say so with \
         --assume-unique (`Batch::assume_unique`); verify then proves it"
    )
}

fn alike(source: &Source, keys: &str) -> String {
    let Source { name, key_name, .. } = source;
    format!(
        "rows of {name} share their key `{key_name}`: {keys}. They are one to a batch, and all but one of them \
         are never handled; choose a key that is unique"
    )
}
