//! What a file says, as values.

use super::problem::{Problem, Source};
use super::setting::Setting;
use super::tests::Test;
use super::text::Text;
use anabranch::cron::Cron;
use anabranch::running::Rollout;
use anabranch::{NewEvent, Partition, Retry, Settings, StreamId, Tuning};
use std::ops::Range;
use std::time::Duration;

/// A file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its text.
    pub source: Source,
    /// The database.
    pub url: Option<Setting>,
    /// Which log in it.
    pub namespace: Option<Setting>,
    /// The database of the events, if that is another.
    pub events_url: Option<Setting>,
    /// The replica sets.
    pub sets: Vec<Set>,
    /// The tests.
    pub tests: Vec<Test>,
    /// What was found when it was read, if it may have mistakes.
    pub(crate) mistakes: Vec<Problem>,
}

/// A replica set.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its name.
    pub name: Text,
    /// How many lanes each consumer has.
    pub lanes: usize,
    /// How its workers keep together.
    pub tuning: Tuning,
    /// How slots move.
    pub rollout: Rollout,
    /// How long handlers have to finish.
    pub grace: Duration,
    /// Whether the run ends with the first consumer that cannot go on.
    pub fail_fast: bool,
    /// Consumers in SQL.
    pub projections: Vec<Projection>,
    /// Consumers in other languages.
    pub programs: Vec<Program>,
    /// Events for other servers.
    pub webhooks: Vec<Webhook>,
    /// Tasks.
    pub pools: Vec<Pool>,
    /// What comes again and again.
    pub schedules: Vec<Schedule>,
}

/// What consumers of events have in common.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Its name.
    pub name: Text,
    /// How events are keyed.
    pub partition: Partition,
    /// Scope, batch size, version, start.
    pub settings: Settings,
    /// How often an event is tried.
    pub retry: Retry,
    /// What is executed the first time.
    pub setup: Statements,
    /// What a replay executes first.
    pub reset: Option<Statements>,
    /// The tables of its own, which stand in braces in its statements.
    pub tables: Vec<Text>,
    /// The version of its tables.
    pub version: u32,
}

/// A consumer in SQL.
#[derive(Clone, Debug)]
pub struct Projection {
    /// What all have.
    pub consumer: Consumer,
    /// The statements for each type of event; `*` is for all others.
    pub on: Vec<(Text, Statements)>,
}

/// A consumer in another language.
#[derive(Clone, Debug)]
pub struct Program {
    /// What all have.
    pub consumer: Consumer,
    /// How it is run.
    pub run: Run,
}

/// How a program is run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The program and its arguments.
    pub command: Vec<Text>,
    /// Variables for its environment.
    pub env: Vec<(String, Setting)>,
    /// How long it may take before its first query.
    pub timeout: Duration,
    /// How long it has to end; as long as its set, unless it is said.
    pub grace: Option<Duration>,
}

/// Events for another server.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// What all have.
    pub consumer: Consumer,
    /// Where they go.
    pub target: Target,
    /// The most events of one message.
    pub batch: usize,
    /// How many messages are under way at the same time.
    pub concurrency: Option<usize>,
    /// How many are sent in a second.
    pub max_per_second: Option<u32>,
}

/// Where messages go.
#[derive(Clone, Debug)]
pub struct Target {
    /// The address.
    pub to: Setting,
    /// What they are signed with.
    pub secrets: Vec<Setting>,
    /// More headers.
    pub headers: Vec<(String, Setting)>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Whether it may be in a private network.
    pub private_addresses: bool,
    /// Where that stands.
    pub span: Range<usize>,
}

/// What runs the tasks of a pool.
#[derive(Clone, Debug)]
pub enum By {
    /// A program.
    Program(Run),
    /// Another server.
    Webhook(Target),
}

/// Tasks that a program runs, or another server.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name.
    pub name: Text,
    /// What runs them.
    pub by: By,
    /// Where its effects are.
    pub effects: Effects,
    /// How often a task is tried.
    pub retry: Retry,
    /// How many run in each process.
    pub in_flight: Option<usize>,
    /// How many run in all processes.
    pub max_parallelism: Option<usize>,
    /// How long a task is kept that has ended.
    pub keep: Option<Duration>,
    /// The most tasks of one transaction.
    pub batch_size: Option<usize>,
}

/// Where the effects of a pool are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effects {
    /// Outside the database: at least once.
    Outside,
    /// In the database: exactly once.
    Database,
}

/// What comes again and again.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Its name.
    pub name: Text,
    /// When.
    pub cron: Cron,
    /// What.
    pub what: Due,
}

/// What a schedule does when it is due.
#[derive(Clone, Debug)]
pub enum Due {
    /// Enqueues a task.
    Enqueue {
        /// The pool.
        pool: Text,
        /// The key.
        key: String,
        /// The payload.
        payload: Box<serde_json::value::RawValue>,
    },
    /// Appends an event.
    Append {
        /// The stream.
        stream: StreamId,
        /// The event.
        event: Box<NewEvent>,
    },
}

/// Statements, for any database or in a form for each.
#[derive(Clone, Debug, Default)]
pub struct Statements {
    pub(super) forms: Vec<Form>,
}

/// Statements for one database, or for any.
#[derive(Clone, Debug)]
pub struct Form {
    /// The database; none: any.
    pub database: Option<&'static str>,
    /// The statements.
    pub texts: Vec<Text>,
}

impl Statements {
    /// The statements for a database, if it has a form.
    #[must_use]
    pub fn on(&self, database: &str) -> Option<&[Text]> {
        let is_for = |form: &&Form| form.database.is_none_or(|name| name == database);
        self.forms.iter().find(is_for).map(|form| form.texts.as_slice())
    }

    /// All forms.
    #[must_use]
    pub fn forms(&self) -> &[Form] {
        &self.forms
    }
}

impl Pool {
    /// The program that runs its tasks, if one does.
    pub(crate) fn program(&self) -> Option<&Run> {
        match &self.by {
            By::Program(run) => Some(run),
            By::Webhook(_) => None,
        }
    }
}

impl Set {
    /// The consumers, by their names.
    fn names(&self) -> impl Iterator<Item = &Text> {
        let projections = self.projections.iter().map(|one| &one.consumer.name);
        let programs = self.programs.iter().map(|one| &one.consumer.name);
        let webhooks = self.webhooks.iter().map(|one| &one.consumer.name);
        projections.chain(programs).chain(webhooks).chain(self.pools.iter().map(|one| &one.name))
    }

    /// Where messages go.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Target> {
        let pools = self.pools.iter().filter_map(|pool| match &pool.by {
            By::Webhook(target) => Some(target),
            By::Program(_) => None,
        });
        self.webhooks.iter().map(|webhook| &webhook.target).chain(pools)
    }

    /// The programs.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run> {
        let programs = self.programs.iter().map(|program| &program.run);
        programs.chain(self.pools.iter().filter_map(Pool::program))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names().next().is_none() && self.schedules.is_empty()
    }

    /// Where a consumer is named.
    pub(crate) fn name_of(&self, consumer: &str) -> Option<&Text> {
        self.names().find(|name| name.text == consumer)
    }
}

impl File {
    /// The names of everything that has a name of its own, with its set.
    pub fn consumers(&self) -> impl Iterator<Item = (&Set, &Text)> {
        self.sets.iter().flat_map(|set| set.names().map(move |name| (set, name)))
    }
}
