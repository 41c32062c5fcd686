//! The statements of a file, prepared on a database in a transaction that is rolled back.

use super::refusal::{Refusal, word_at, word_of};
use super::{Checked, CheckedConsumer, CheckedValue};
use crate::file::{File, Problem, Problems, Set, Statements, Text};
use crate::sql::{Compiled, Compiler};
use anabranch::backend::database::{Described, End, Failed, Reason, Session, Statement};
use anabranch::backend::named_values::{NamedStatement, NamedValue};
use anabranch::{Log, StoreError};
use std::time::Duration;

/// How long the transaction may wait for the next statement.
const IDLE: Duration = Duration::from_secs(60);

/// What is known of the statements, and what is wrong with them.
pub(super) async fn prepare(
    file: &File,
    log: &Log,
    known: &[String],
) -> Result<(Checked, Vec<Problem>), StoreError> {
    let database = log.database();
    let name = Some(database.dialect().name());
    let compiler = Compiler::new(&file.source, name);
    let mut checker = Checker {
        log,
        known,
        is_partial: !file.mistakes.is_empty(),
        compiler,
        session: database.begin(),
        executed: Vec::new(),
        not_set_up: Vec::new(),
        checked: Checked {
            consumers: Vec::new(),
            values: Vec::new(),
            warnings: Problems::warnings(&file.source, Vec::new()),
        },
    };
    for set in &file.sets {
        checker.set_up(set).await?;
    }
    for set in &file.sets {
        checker.set(set).await?;
    }
    Ok((checker.checked, checker.compiler.problems))
}

const SET_UP_ALREADY: &str = "correct the name. If it is in `setup`: that was executed when the consumer first ran, and is not \
                              again (docs/files.md, Changing a file)";

struct Checker<'c> {
    log: &'c Log,
    /// The consumers that the log knows: they are set up already.
    known: &'c [String],
    /// Whether parts of the file could not be read.
    is_partial: bool,
    compiler: Compiler<'c>,
    session: Box<dyn Session>,
    /// What was executed so far: after a failure it is executed again, since that ends the transaction.
    executed: Vec<String>,
    /// The consumers that could not be set up: what is missing for them is no mistake of its own.
    not_set_up: Vec<String>,
    checked: Checked,
}

impl Checker<'_> {
    /// Executes what the consumers of a set are set up with that the log does not know yet.
    async fn set_up(&mut self, set: &Set) -> Result<(), StoreError> {
        let projections = set.projections.iter().map(|one| &one.consumer);
        let programs = set.programs.iter().map(|one| &one.consumer);
        for consumer in projections.chain(programs) {
            self.compiler.of(consumer);
            let setup = self.compiler.setup(&consumer.name, &consumer.setup);
            if self.known.contains(&consumer.name.text) {
                continue;
            }
            for Compiled { text, named, .. } in setup {
                if !self.execute(text, &named).await? {
                    self.not_set_up.push(consumer.name.text.clone());
                    break;
                }
            }
        }
        Ok(())
    }

    async fn execute(&mut self, text: &Text, named: &NamedStatement) -> Result<bool, StoreError> {
        let statement = Statement::new(named.sql.clone(), vec![]);
        match self.session.run(vec![statement], End::Open { idle: IDLE }).await {
            Ok(_) => {
                self.executed.push(named.sql.clone());
                Ok(true)
            }
            Err(failed) => {
                self.refused(None, text, named, failed)?;
                self.session = self.log.database().begin();
                let again = self.executed.iter().map(|sql| Statement::new(sql, vec![])).collect();
                let again = self.session.run(again, End::Open { idle: IDLE }).await;
                again.map_err(|failed| failed.into_store_error(self.log.database().at()))?;
                Ok(false)
            }
        }
    }

    async fn set(&mut self, set: &Set) -> Result<(), StoreError> {
        let known = self.known;
        let mut add = |name: &Text, kind, partition: String| {
            self.checked.consumers.push(CheckedConsumer {
                set: set.name.text.clone(),
                name: name.text.clone(),
                kind,
                partition,
                is_known: known.contains(&name.text),
            });
        };
        let rule = self.log.hash_rule();
        for projection in &set.projections {
            let consumer = &projection.consumer;
            add(&consumer.name, "projection", consumer.partition.identity(rule));
        }
        for program in &set.programs {
            let consumer = &program.consumer;
            add(&consumer.name, "program", consumer.partition.identity(rule));
        }
        for webhook in &set.webhooks {
            let consumer = &webhook.consumer;
            add(&consumer.name, "webhook", consumer.partition.identity(rule));
        }
        for pool in &set.pools {
            add(&pool.name, "pool", "the key of a task".to_owned());
        }
        for schedule in &set.schedules {
            add(&schedule.name, "schedule", format!("{}", schedule.cron));
        }
        for projection in &set.projections {
            let consumer = projection.consumer.name.text.as_str();
            self.compiler.of(&projection.consumer);
            for (event, statements) in &projection.on {
                for compiled in self.compiler.for_event(event, statements) {
                    self.statement(consumer, event, compiled).await?;
                }
            }
            self.reset(&projection.consumer.name, projection.consumer.reset.as_ref()).await?;
        }
        for program in &set.programs {
            self.compiler.of(&program.consumer);
            self.reset(&program.consumer.name, program.consumer.reset.as_ref()).await?;
        }
        Ok(())
    }

    async fn statement(
        &mut self,
        consumer: &str,
        event: &Text,
        compiled: Compiled<'_>,
    ) -> Result<(), StoreError> {
        let Compiled { text, named, fields, .. } = compiled;
        let Some(described) = self.describe(consumer, text, &named).await? else {
            return Ok(());
        };
        for (place, wants) in named.values.iter().zip(&described.values) {
            if let Some(help) = wants.as_deref().and_then(|wants| no_value_goes(place, wants)) {
                let span = text.part(&self.compiler.source.text, place.span.clone());
                let said = format!(
                    "no value of an event goes into {}",
                    wants.as_deref().unwrap_or_default()
                );
                self.compiler.problems.push(Problem::new(span, said).help(help));
            }
        }
        for ((field, is_optional), wants) in fields.into_iter().zip(described.values) {
            let value = CheckedValue {
                consumer: consumer.to_owned(),
                event: event.text.clone(),
                field: field.to_string(),
                wants,
                is_optional,
            };
            if !self.checked.values.contains(&value) {
                self.checked.values.push(value);
            }
        }
        Ok(())
    }

    async fn reset(&mut self, name: &Text, reset: Option<&Statements>) -> Result<(), StoreError> {
        let Some(reset) = reset else { return Ok(()) };
        for Compiled { text, named, .. } in self.compiler.reset(name, reset) {
            self.describe(&name.text, text, &named).await?;
        }
        Ok(())
    }

    async fn describe(
        &mut self,
        consumer: &str,
        text: &Text,
        named: &NamedStatement,
    ) -> Result<Option<Described>, StoreError> {
        match self.session.describe(&named.sql, IDLE).await {
            Ok(described) => Ok(Some(described)),
            Err(failed) => self.refused(Some(consumer), text, named, failed).map(|()| None),
        }
    }

    /// What the database says against a statement, where it says it.
    fn refused(
        &mut self,
        consumer: Option<&str>,
        text: &Text,
        named: &NamedStatement,
        failed: Failed,
    ) -> Result<(), StoreError> {
        let (said, at) = match failed.reason {
            Reason::Store(error) => return Err(error),
            Reason::Refused { said, at, .. } => (said, at),
            other => (other.to_string(), None),
        };
        let refusal = Refusal::of(&said);
        let is_not_set_up = |name: &str| self.not_set_up.iter().any(|other| other == name);
        // What is missing may be a consequence of another mistake, such as a misspelled `setup`.
        if refusal == Refusal::Missing && (self.is_partial || consumer.is_some_and(is_not_set_up)) {
            return Ok(());
        }
        let part = match at {
            Some(at) => word_at(&text.text, named.source_offset(at)),
            None => word_of(&text.text, named, &said),
        };
        let problem = Problem::new(text.part(&self.compiler.source.text, part), said);
        let is_known = |name: &str| self.known.iter().any(|known| known == name);
        let help = match refusal {
            // Its `setup` is not executed again, so what stands there now is no help.
            Refusal::Missing if consumer.is_some_and(is_known) => Some(SET_UP_ALREADY),
            refusal => refusal.help(),
        };
        self.compiler.problems.push(match help {
            Some(help) => problem.help(help),
            None => problem,
        });
        Ok(())
    }
}

/// Types whose texts depend on settings of the session, or that JSON has no values for: a value must be cast on its way.
const BY_CAST: [&str; 21] = [
    "bit",
    "box",
    "cidr",
    "circle",
    "daterange",
    "inet",
    "int4range",
    "int8range",
    "interval",
    "line",
    "lseg",
    "macaddr",
    "macaddr8",
    "money",
    "numrange",
    "path",
    "point",
    "polygon",
    "timetz",
    "varbit",
    "xml",
];

/// What to write where no value goes as it is.
fn no_value_goes(value: &NamedValue, wants: &str) -> Option<String> {
    match wants {
        "bytea" => Some(format!("write decode(:{value}, 'hex') for hexadecimal digits")),
        wants if BY_CAST.contains(&wants) => {
            Some(format!("write CAST(CAST(:{value} AS TEXT) AS {wants})"))
        }
        _ => None,
    }
}
