//! A projection whose statements stand in a file.

use super::document::Wanted;
use super::field::{Field, Of};
use crate::fingerprint::Fingerprint;
use crate::json_value;
use anabranch::backend::RawTx;
use anabranch::backend::database::{self, Lexical, Written};
use anabranch::backend::named_values::Segment;
use anabranch::errors::ErrorCode;
use anabranch::{
    Event, HandlerError, HandlerResult, Partition, Position, Projection, Settings, Tx, Value,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// The statements for one type of event.
#[derive(Debug, Default)]
pub(crate) struct Handler {
    statements: Vec<Statement>,
    /// What is wanted of the data and of the metadata, by the number of its place.
    data: Wanted,
    metadata: Wanted,
    places: usize,
}

#[derive(Debug)]
struct Statement {
    sql: &'static str,
    /// The same for a new version that is built beside this one, if it names a table of its own.
    next: Option<&'static str>,
    values: Vec<Place>,
    /// What messages call its values, and where it stands.
    written: &'static Written,
}

/// A value of a statement.
#[derive(Debug)]
struct Place {
    field: Field,
    is_optional: bool,
    /// Its number among what is wanted of documents.
    number: usize,
}

impl Handler {
    /// Adds a statement with `$1`, `$2`, … for these fields, which stands at a place.
    pub(crate) fn add(
        &mut self,
        sql: String,
        next: Option<String>,
        fields: Vec<(Field, bool)>,
        place: String,
    ) {
        let names = fields.iter().map(|(field, _)| format!(":{field}")).collect();
        let written = Written { values: names, place: Some(place) };
        let values = fields.into_iter().map(|(field, is_optional)| {
            let number = self.places;
            match &field.of {
                Of::Data(steps) => self.data.add(steps, number),
                Of::Metadata(steps) => self.metadata.add(steps, number),
                Of::Envelope(_) | Of::TagItem(_) | Of::Tag(_) => {
                    return Place { field, is_optional, number };
                }
            }
            self.places += 1;
            Place { field, is_optional, number }
        });
        let values = values.collect();
        let (sql, next, written) = (constant(sql), next.map(constant), interned(written));
        self.statements.push(Statement { sql, next, values, written });
    }

    fn fingerprint(&self, name: &str, print: Fingerprint, rules: Lexical) -> Fingerprint {
        self.statements.iter().fold(print.text("on", name), |print, statement| {
            let print = print.sql("statement", statement.sql, rules);
            statement.values.iter().fold(print, |print, place| {
                let optional = if place.is_optional { "?" } else { "" };
                print.text("value", &format!("{}{optional}", place.field))
            })
        })
    }

    async fn run(&self, event: &Event, is_next: bool, tx: &mut Tx) -> HandlerResult {
        let mut found = vec![None; self.places];
        if !self.data.is_empty() {
            self.data.find(event.data_json(), &mut found)?;
        }
        if let Some(metadata) = event.metadata_json().filter(|_| !self.metadata.is_empty()) {
            self.metadata.find(metadata, &mut found)?;
        }
        for statement in &self.statements {
            let value_at = |place: &Place| {
                let found = match &place.field.of {
                    Of::Data(steps) | Of::Metadata(steps) => {
                        found[place.number].map(|json| value(steps, json)).transpose()?
                    }
                    of => {
                        of.must_be_one(event).map_err(HandlerError::for_good)?;
                        of.outside_json(event)
                    }
                };
                match found {
                    Some(value) => Ok(value),
                    None if place.is_optional => Ok(Value::Null),
                    None => Err(lacks(event, &place.field)),
                }
            };
            let values = statement.values.iter().map(value_at).collect::<HandlerResult<_>>()?;
            let sql = statement.next.filter(|_| is_next).unwrap_or(statement.sql);
            let sql = database::Statement::new(sql, values);
            tx.push(sql.written(statement.written)).await?;
        }
        Ok(())
    }
}

/// The value of what was found in a document. All of a document is JSON, also where it is no object: a text stays in its
/// quotes.
fn value(steps: &[Segment], json: &str) -> Result<Value, serde_json::Error> {
    match steps {
        [] => Ok(Value::Json(json.to_owned())),
        _ => json_value::value_of(json),
    }
}

/// Trying again would not help.
fn lacks(event: &Event, field: &Field) -> HandlerError {
    HandlerError::for_good(format!(
        "the event ({}) has no `{field}`; write :{field}? where it may be missing",
        event.event_type()
    ))
}

/// A text that is there for as long as the program: it is checked and prepared once. The same text is kept once,
/// however often a file is read.
pub(super) fn constant(text: String) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text.as_str()) {
        return known;
    }
    let text: &'static str = Box::leak(text.into_boxed_str());
    texts.insert(text);
    text
}

/// The same for how a statement was written.
fn interned(written: Written) -> &'static Written {
    static ALL: Mutex<BTreeMap<String, &'static Written>> = Mutex::new(BTreeMap::new());
    let key = format!("{:?} {:?}", written.values, written.place);
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.entry(key).or_insert_with(|| Box::leak(Box::new(written)))
}

/// A projection whose statements stand in a file.
#[derive(Debug)]
pub struct SqlProjection {
    pub(crate) name: String,
    pub(crate) partition: Partition,
    pub(crate) settings: Settings,
    pub(crate) hooks: Hooks,
    /// In the order of their types.
    pub(crate) on: Vec<(String, Handler)>,
    /// For all other types.
    pub(crate) others: Option<Handler>,
    /// The tables of its own that stand in braces.
    pub(crate) tables: Vec<&'static str>,
}

/// What is executed the first time, and by a replay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hooks {
    pub(crate) setup: Vec<HookStatement>,
    /// With `$1`, … for the position that a replay begins at.
    pub(crate) reset: Option<Vec<HookStatement>>,
}

/// A statement that is executed once, or when asked.
#[derive(Clone, Debug)]
pub(crate) struct HookStatement {
    pub(crate) sql: String,
    /// The same for a new version that is built beside this one, if it names a table of its own.
    pub(crate) next: Option<String>,
    /// How many values it has.
    pub(crate) values: usize,
}

impl From<String> for HookStatement {
    fn from(sql: String) -> Self {
        Self { sql, next: None, values: 0 }
    }
}

impl HookStatement {
    fn text(&self, is_next: bool) -> &str {
        self.next.as_deref().filter(|_| is_next).unwrap_or(&self.sql)
    }
}

impl Hooks {
    /// Adds what it executes.
    pub(crate) fn fingerprint(&self, mut print: Fingerprint, rules: Lexical) -> Fingerprint {
        for statement in &self.setup {
            print = print.sql("setup", &statement.sql, rules);
        }
        let Some(reset) = &self.reset else { return print };
        reset.iter().fold(print.text("reset", ""), |print, one| print.sql("reset", &one.sql, rules))
    }

    pub(crate) async fn set_up(&self, is_next: bool, tx: &mut Tx) -> HandlerResult {
        for statement in &self.setup {
            tx.execute(statement.text(is_next).to_owned(), vec![]).await?;
        }
        Ok(())
    }

    pub(crate) async fn reset(&self, to: Position, is_next: bool, tx: &mut Tx) -> HandlerResult {
        let Some(reset) = &self.reset else {
            return Err(HandlerError::with_code(
                ErrorCode::InvalidInput,
                "it has no `reset`, so a replay would count its events twice; add one to the file that \
                 empties its tables, such as reset = 'DELETE FROM …', or reset = [] if it has none",
            ));
        };
        if to != Position::START
            && reset.iter().all(|statement| statement.values == 0)
            && !reset.is_empty()
        {
            return Err(HandlerError::with_code(
                ErrorCode::InvalidInput,
                "its `reset` undoes everything, so a replay can only begin at the start; use :position in it to undo \
                 what comes after that position",
            ));
        }
        for statement in reset {
            let values = vec![Value::from(to); statement.values];
            tx.execute(statement.text(is_next).to_owned(), values).await?;
        }
        Ok(())
    }
}

impl SqlProjection {
    /// Whether a transaction is of a new version, built beside the old one. It learns which tables that writes.
    fn is_next(&self, tx: &Tx) -> bool {
        let Some((first, others)) = self.tables.split_first() else { return false };
        if tx.table(first) == *first {
            return false;
        }
        others.iter().for_each(|table| drop(tx.table(table)));
        true
    }

    /// What it does, as a hash.
    pub(crate) fn code(&self, rules: Lexical) -> String {
        let mut print = self.hooks.fingerprint(Fingerprint::new("sql"), rules);
        for (name, handler) in &self.on {
            print = handler.fingerprint(name, print, rules);
        }
        if let Some(others) = &self.others {
            print = others.fingerprint("*", print, rules);
        }
        print.finish()
    }
}

impl Projection for SqlProjection {
    fn name(&self) -> &str {
        &self.name
    }

    fn partition(&self) -> Partition {
        self.partition.clone()
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let found = self.on.binary_search_by(|(name, _)| name.as_str().cmp(event.event_type()));
        match found.ok().map(|at| &self.on[at].1).or(self.others.as_ref()) {
            Some(handler) => handler.run(event, self.is_next(tx), tx).await,
            None => Ok(()),
        }
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        self.hooks.set_up(self.is_next(tx), tx).await
    }

    async fn reset(&self, to: Position, tx: &mut Tx) -> HandlerResult {
        self.hooks.reset(to, self.is_next(tx), tx).await
    }

    fn tables(&self) -> &[&'static str] {
        &self.tables
    }
}
