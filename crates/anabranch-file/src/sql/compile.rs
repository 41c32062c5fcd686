//! From the statements of a file to a projection.

use super::field::Field;
use super::projection::{Handler, HookStatement, Hooks, SqlProjection, constant};
use super::tables::{Expanded, TableProblem, expand};
use crate::file::{Consumer, Problem, Projection, Source, Statements, Text};
use anabranch::backend::control::{self, transaction_control};
use anabranch::backend::database::Lexical;
use anabranch::backend::named_values::{self, NamedStatement, NamedValue};

/// The field that a `reset` may name: where the replay begins.
const POSITION: &str = "position";

/// Reads statements, and notes what is wrong with them.
pub(crate) struct Compiler<'c> {
    pub(crate) source: &'c Source,
    /// The database, as URLs begin. Without one all forms are read, each as its database reads it.
    pub(crate) database: Option<&'c str>,
    pub(crate) problems: Vec<Problem>,
    /// The tables that stand in braces.
    tables: Vec<String>,
}

/// How a database reads statements; what is not known to be for one is read as any may.
fn lexical(database: Option<&str>) -> Lexical {
    match database {
        Some("sqlite") => anabranch::sqlite::LEXICAL,
        Some("postgres") => anabranch::postgres::LEXICAL,
        _ => Lexical::ANY,
    }
}

/// A statement of a file, with what its values are.
pub(crate) struct Compiled<'t> {
    pub(crate) text: &'t Text,
    pub(crate) named: NamedStatement,
    pub(crate) fields: Vec<(Field, bool)>,
    /// The same for a new version that is built beside this one, if it names a table of its own.
    pub(crate) next: Option<String>,
}

impl<'c> Compiler<'c> {
    /// For the statements of a file, in the form for a database.
    pub(crate) fn new(source: &'c Source, database: Option<&'c str>) -> Self {
        Self { source, database, problems: Vec::new(), tables: Vec::new() }
    }
}

impl Compiler<'_> {
    /// What it reads from here on are statements of a consumer.
    pub(crate) fn of(&mut self, consumer: &Consumer) {
        self.tables = consumer.tables.iter().map(|table| table.text.clone()).collect();
    }

    /// By which rules its statements are read.
    pub(crate) fn lexical(&self) -> Lexical {
        lexical(self.database)
    }

    /// A projection.
    pub(crate) fn projection(&mut self, projection: &Projection) -> SqlProjection {
        let Projection { consumer, on } = projection;
        self.of(consumer);
        let mut compiled = SqlProjection {
            name: consumer.name.text.clone(),
            partition: consumer.partition.clone(),
            settings: consumer.settings.clone(),
            hooks: self.hooks(consumer),
            on: Vec::new(),
            others: None,
            tables: consumer.tables.iter().map(|table| constant(table.text.clone())).collect(),
        };
        for (name, statements) in on {
            let mut handler = Handler::default();
            for statement in self.for_event(name, statements) {
                let place = self.place(&statement);
                handler.add(statement.named.sql, statement.next, statement.fields, place);
            }
            match name.text.as_str() {
                "*" => compiled.others = Some(handler),
                _ => compiled.on.push((name.text.clone(), handler)),
            }
        }
        compiled.on.sort_by(|(one, _), (other, _)| one.cmp(other));
        compiled
    }

    /// The statements for a type of event.
    pub(crate) fn for_event<'t>(
        &mut self,
        name: &Text,
        statements: &'t Statements,
    ) -> Vec<Compiled<'t>> {
        let mut parsed = self.parsed(&format!("`{}`", name.text), name, statements);
        for Compiled { text, named, fields, .. } in &mut parsed {
            *fields = named.values.iter().filter_map(|value| self.field(text, value)).collect();
        }
        parsed
    }

    /// What is executed the first time, and by a replay.
    pub(crate) fn hooks(&mut self, consumer: &Consumer) -> Hooks {
        self.of(consumer);
        let setup = self.setup(&consumer.name, &consumer.setup);
        let text = |compiled: Compiled<'_>| {
            let values = compiled.named.values.len();
            HookStatement { sql: compiled.named.sql, next: compiled.next, values }
        };
        let setup = setup.into_iter().map(text).collect();
        let reset = consumer
            .reset
            .as_ref()
            .map(|reset| self.reset(&consumer.name, reset).into_iter().map(text).collect());
        Hooks { setup, reset }
    }

    /// What is executed the first time.
    pub(crate) fn setup<'t>(&mut self, name: &Text, setup: &'t Statements) -> Vec<Compiled<'t>> {
        if setup.forms().is_empty() {
            return Vec::new();
        }
        self.without_event("`setup`", name, setup)
    }

    /// Statements that have no values.
    pub(crate) fn without_event<'t>(
        &mut self,
        what: &str,
        name: &Text,
        statements: &'t Statements,
    ) -> Vec<Compiled<'t>> {
        let parsed = self.parsed(what, name, statements);
        for Compiled { text, named, .. } in &parsed {
            for value in &named.values {
                let said = format!("{what} has no event, and so no `{value}`");
                self.problem_at(text, value, said, "write the value itself");
            }
        }
        parsed
    }

    /// What a replay executes.
    pub(crate) fn reset<'t>(&mut self, name: &Text, reset: &'t Statements) -> Vec<Compiled<'t>> {
        let parsed = self.parsed("`reset`", name, reset);
        for Compiled { text, named, .. } in &parsed {
            for value in named.values.iter().filter(|value| value.to_string() != POSITION) {
                let said = format!("`reset` has no event, and so no `{value}`");
                let help = "the one value that it has is :position, where the replay begins";
                self.problem_at(text, value, said, help);
            }
        }
        parsed
    }

    /// Where a statement stands: `orders.toml:14`.
    pub(crate) fn place(&self, statement: &Compiled<'_>) -> String {
        let start = statement.text.place(&self.source.text, statement.named.span.start);
        format!("{}:{}", self.source.path.display(), self.source.place(start).line)
    }

    fn field(&mut self, text: &Text, value: &NamedValue) -> Option<(Field, bool)> {
        match Field::from_path(&value.to_string(), value.path.clone()) {
            Ok(field) => Some((field, value.optional)),
            Err(error) => {
                self.problem_at(text, value, error.said, error.help);
                None
            }
        }
    }

    fn problem_at(
        &mut self,
        text: &Text,
        value: &NamedValue,
        said: impl Into<String>,
        help: impl Into<String>,
    ) {
        let span = text.part(&self.source.text, value.span.clone());
        self.problems.push(Problem::new(span, said).help(help));
    }

    /// Gives tables of its own their names; returns the statement of a new version that is built beside this one.
    fn expand(
        &mut self,
        text: &Text,
        named: &mut NamedStatement,
        rules: Lexical,
    ) -> Option<String> {
        match expand(&named.sql, &self.tables, rules) {
            Ok(Expanded { sql, next }) => {
                named.sql = sql;
                next
            }
            Err(TableProblem { span, said, help }) => {
                let place = named.source_offset(span.start)..named.source_offset(span.end);
                let span = text.part(&self.source.text, place);
                self.problems.push(Problem::new(span, said).help(help));
                None
            }
        }
    }

    fn refuse_control(&mut self, text: &Text, named: &NamedStatement, word: &str) {
        let span = text.part(&self.source.text, named.span.clone());
        let said = format!("{word} is refused: statements commit together with the cursor");
        self.problems.push(Problem::new(span, said).help("leave it out"));
    }

    /// The statements in the form for this database.
    fn parsed<'t>(
        &mut self,
        what: &str,
        name: &Text,
        statements: &'t Statements,
    ) -> Vec<Compiled<'t>> {
        let mut texts = Vec::new();
        match self.database {
            Some(database) => match statements.on(database) {
                Some(found) => {
                    texts.extend(found.iter().map(|text| (text, lexical(self.database))))
                }
                None => {
                    let said = format!("{what} has no form for {database}");
                    let help = format!("add {database} = '…' to it");
                    self.problems.push(Problem::new(name.span.clone(), said).help(help));
                }
            },
            None => texts.extend(
                statements
                    .forms()
                    .iter()
                    .flat_map(|form| form.texts.iter().map(|text| (text, lexical(form.database)))),
            ),
        }
        let mut all = Vec::new();
        for (text, lexical) in texts {
            match named_values::parse(&text.text, lexical) {
                Ok(named) if named.statements.is_empty() => {
                    let problem =
                        Problem::new(text.span.clone(), format!("{what} has an empty statement"));
                    self.problems.push(problem.help("leave it out"));
                }
                Ok(named) => {
                    for mut named in named.statements {
                        let next = self.expand(text, &mut named, lexical);
                        if let Some(word) = transaction_control(&named.sql) {
                            self.refuse_control(text, &named, word);
                        } else if let Some((word, why)) = never_works(&named.sql) {
                            let span = text.part(&self.source.text, named.span.clone());
                            let said = format!("{word} is refused: {why}");
                            self.problems.push(Problem::new(span, said).help("leave it out"));
                        }
                        all.push(Compiled { text, named, fields: Vec::new(), next });
                    }
                }
                Err(error) => {
                    let at = text.place(&self.source.text, error.at);
                    self.problems.push(Problem::new(at..at + 1, error.said));
                }
            }
        }
        all
    }
}

/// Statements that no consumer can use, and why.
fn never_works(sql: &str) -> Option<(&'static str, &'static str)> {
    let begins = |word: &str| control::begins_with(sql, &[word]);
    if begins("SET") {
        // The transaction has other events of other keys, and which they are depends on the load.
        Some(("SET LOCAL", "it would hold for later events of the same transaction as well"))
    } else if begins("COPY") {
        Some(("COPY", "statements have no data stream; use INSERT"))
    } else if begins("VACUUM") {
        Some(("VACUUM", "it does not run in a transaction"))
    } else {
        None
    }
}
