//! Whether a file can be run, as far as that can be told before.
//!
//! | module | subject |
//! |---|---|
//! | `prepare` | the statements, prepared on a database |
//! | `refusal` | what a database says against one |

mod prepare;
mod refusal;

use crate::file::{By, Due, File, Problem, Problems, Set, suggest};
use crate::plan::is_projection;
use crate::program::Programs;
use crate::running::command;
use crate::sql::Compiler;
use crate::webhook::endpoint;
use crate::{MadeSet, Sets};
use anabranch::operate::{CodeChange, Consumers, ScopeChange};
use anabranch::running::SetCheck;
use anabranch::{Log, RunError, StoreError, Timestamp};
use prepare::prepare;
use thiserror::Error;

/// What is known of a file that has no mistakes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checked {
    /// The consumers.
    pub consumers: Vec<CheckedConsumer>,
    /// The values of the statements, and the type that each statement wants.
    pub values: Vec<CheckedValue>,
    /// What may be meant as it is, and looks as if it was not.
    pub warnings: Problems,
}

/// A consumer of a file.
#[derive(Clone, Debug)]
pub struct CheckedConsumer {
    /// Its replica set.
    pub set: String,
    /// Its name.
    pub name: String,
    /// Projection, program, pool or schedule.
    pub kind: &'static str,
    /// How its events are keyed, in words.
    pub partition: String,
    /// Whether the log knows it already: then its `setup` was executed, and is not again.
    pub is_known: bool,
}

/// A value of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedValue {
    /// The consumer.
    pub consumer: String,
    /// The type of event.
    pub event: String,
    /// The field.
    pub field: String,
    /// The type that the statement wants, if the database has types for values.
    pub wants: Option<String>,
    /// Whether it may be missing.
    pub is_optional: bool,
}

/// Why a file was not checked to its end, or what is wrong with it.
#[derive(Debug, Error)]
pub enum CheckError {
    /// Mistakes.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// The database cannot be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Checks a file on the database of a log. Nothing is changed there, unless a `setup` does what no transaction
/// takes back.
///
/// Programs are started and greeted, and get nothing to handle.
pub async fn check(file: &File, log: &Log, programs: &Programs) -> Result<Checked, CheckError> {
    let known: Vec<String> =
        Consumers::new(log).list().await?.into_iter().map(|status| status.name).collect();
    let (sets, mut problems) = Sets::default().with_problems(file, log);
    problems.extend(file.mistakes.iter().cloned());
    problems.extend(nothing_to_run(file));
    let mut warnings = doubtful(file, log.database().clock().now());
    let is_newest = log.database().require_newest_schema().is_ok();
    for (of, MadeSet { set, .. }) in file.sets.iter().zip(&sets) {
        // An older schema does not have all that is compared.
        let found = match is_newest {
            true => set.check_on(log).await?,
            false => SetCheck::from(set.check()),
        };
        problems.extend(found.refused.iter().filter_map(|refused| problem_of(file, of, refused)));
        warnings.extend(found.scopes.iter().map(|change| scope_changed(of, change)));
        warnings.extend(found.codes.iter().map(|change| code_changed(of, change)));
    }
    let (mut checked, refused) = prepare(file, log, &known).await?;
    problems.extend(refused);
    let sets = Sets { programs: programs.clone(), ..Sets::default() };
    problems.extend(sets.greet(file, log.database().dialect().name()).await);
    Problems::none_in(&file.source, problems)?;
    checked.warnings = Problems::warnings(&file.source, warnings);
    Ok(checked)
}

/// What can be told without a database. Statements are read for the database of this name, if it is known: as URLs
/// begin.
pub async fn check_offline(file: &File, database: Option<&str>) -> Result<Problems, CheckError> {
    let log = anabranch::connect("sqlite::memory:").await?;
    let mut compiler = Compiler::new(&file.source, database);
    for set in &file.sets {
        for projection in &set.projections {
            compiler.projection(projection);
        }
        for program in &set.programs {
            compiler.hooks(&program.consumer);
        }
    }
    let mut problems = compiler.problems;
    problems.extend(file.mistakes.iter().cloned());
    problems.extend(nothing_to_run(file));
    // What it says of statements is about another database, and what is not set here may be there.
    let (sets, _) = Sets::default().with_problems(file, &log);
    for (of, MadeSet { set, .. }) in file.sets.iter().zip(&sets) {
        for run in of.runs() {
            let mut found = Vec::new();
            command((file, of), run, &mut found);
            let is_about_it = |problem: &Problem| {
                run.command.first().is_some_and(|program| program.span == problem.span)
            };
            problems.extend(found.into_iter().filter(is_about_it));
        }
        for target in of.targets() {
            let mut found = Vec::new();
            let _ = endpoint(target, &mut found);
            // What is not set here may be where it runs.
            problems.extend(found.into_iter().filter(|problem| !problem.is_about_environment));
        }
        problems.extend(set.check().iter().filter_map(|refused| problem_of(file, of, refused)));
    }
    let warnings = doubtful(file, log.database().clock().now());
    log.close().await;
    Problems::none_in(&file.source, problems)?;
    Ok(Problems::warnings(&file.source, warnings))
}

fn nothing_to_run(file: &File) -> Option<Problem> {
    let help = "add one, with a [[replica_set.projection]] in it";
    let problem =
        || Problem::new(0..0, "the file has no [[replica_set]], so there is nothing to run");
    (file.sets.is_empty() && file.mistakes.is_empty()).then(|| problem().help(help))
}

/// Why a set or a consumer of it would be refused, where it is named, unless something was found there already.
fn problem_of(file: &File, set: &Set, refused: &RunError) -> Option<Problem> {
    let problem = match refused {
        RunError::Refused { consumer, .. } if consumer.is_empty() => return None,
        RunError::Set { name, .. } if name.is_empty() || set.is_empty() => return None,
        RunError::Refused { consumer, problem } => {
            let span = set.name_of(consumer).unwrap_or(&set.name).span.clone();
            Problem::new(span, format!("`{consumer}` is refused: {problem}"))
        }
        RunError::Set { problem, .. } => Problem::new(
            set.name.span.clone(),
            format!("`{}` is refused: {problem}", set.name.text),
        ),
        other => Problem::new(set.name.span.clone(), other.to_string()),
    };
    let is_new = file.mistakes.iter().all(|found| found.span != problem.span);
    is_new.then_some(problem)
}

fn scope_changed(set: &Set, change: &ScopeChange) -> Problem {
    let span = set.name_of(&change.consumer).unwrap_or(&set.name).span.clone();
    let help = format!(
        "`run` refuses it until that is said to be meant: run it once, then `anabranch accept-scope {} --yes`",
        change.consumer
    );
    Problem::new(span, format!("{change}")).help(help)
}

fn code_changed(set: &Set, change: &CodeChange) -> Problem {
    let span = set.name_of(&change.consumer).unwrap_or(&set.name).span.clone();
    let or_rebuild = match is_projection(set, &change.consumer) {
        true => ", or rebuild it",
        false => "",
    };
    let help = format!(
        "`run` runs nothing of it until that is said to be meant: `anabranch run FILE --accept {}`{or_rebuild}",
        change.consumer
    );
    Problem::new(span, format!("`{}`: {change}", change.consumer)).help(help)
}

/// What may be meant, and looks as if it was not.
fn doubtful(file: &File, now: Timestamp) -> Vec<Problem> {
    let pools: Vec<&str> =
        file.sets.iter().flat_map(|set| &set.pools).map(|pool| pool.name.text.as_str()).collect();
    let mut warnings = Vec::new();
    for schedule in file.sets.iter().flat_map(|set| &set.schedules) {
        if let Due::Enqueue { pool, .. } = &schedule.what
            && !pools.contains(&pool.text.as_str())
        {
            let said = format!("the file has no pool `{}`", pool.text);
            let near = match pools.is_empty() {
                true => String::new(),
                false => format!("{}; ", suggest(&pool.text, &pools)),
            };
            let help = format!("{near}its tasks wait for a process that runs such a pool");
            warnings.push(Problem::new(pool.span.clone(), said).help(help));
        }
        if schedule.cron.after(now).is_none() {
            let said = format!("`{}` is never due", schedule.cron);
            warnings.push(Problem::new(schedule.name.span.clone(), said));
        }
    }
    for set in &file.sets {
        let of_pools = set.pools.iter().filter_map(|pool| match &pool.by {
            By::Webhook(target) => Some((&pool.name, target)),
            By::Program(_) => None,
        });
        let webhooks = set.webhooks.iter().map(|one| (&one.consumer.name, &one.target));
        for (name, target) in webhooks.chain(of_pools) {
            if target.secrets.is_empty() {
                let said = format!("`{}` has no secret, so its messages are not signed", name.text);
                let help = "receivers cannot tell them from others: secret = { env = \"…\" }";
                warnings.push(Problem::new(name.span.clone(), said).help(help));
            }
            for secret in target.secrets.iter().filter(|secret| secret.is_literal()) {
                let said = "this secret stands in the file, where everybody who has it reads it";
                let help = "take it from the environment: secret = { env = \"…\" }";
                warnings.push(Problem::new(secret.span(), said).help(help).secret());
            }
        }
    }
    warnings
}
