//! A replica set of a file, and what tells it from another one: so that a file that has changed hands over only what
//! has changed in it.

use crate::file::{By, Consumer, Effects, Pool, Run, Set, Setting, Target, Webhook};
use crate::fingerprint::Fingerprint;
use crate::program::Command;
use anabranch::{HashRule, ReplicaSet};

/// A replica set of a file, ready to run.
#[derive(Clone)]
#[non_exhaustive]
pub struct MadeSet {
    /// Its name.
    pub name: String,
    /// It.
    pub set: ReplicaSet,
    /// How it is run, as a hash: lanes, tuning, roll-out, grace, `fail_fast`.
    pub run: String,
    /// Its consumers, each with a hash of all that is said of it: what it does, and how it is run. Where it stands in the
    /// file does not count.
    pub consumers: Vec<(String, String)>,
}

impl MadeSet {
    pub(crate) fn new(of: &Set, lanes: usize) -> Self {
        let Set { name, tuning, rollout, grace, fail_fast, .. } = of;
        let run = format!("{lanes} {tuning:?} {rollout:?} {grace:?} {fail_fast}");
        let run = Fingerprint::new("set").text("run", &run).finish();
        let name = name.text.clone();
        let set = ReplicaSet::new(name.as_str());
        Self { name, set, run, consumers: Vec::new() }
    }

    /// The names of its consumers that another one has just so.
    pub fn shared<'m>(&'m self, other: &'m Self) -> impl Iterator<Item = &'m str> {
        let both = self.consumers.iter().filter(|consumer| other.consumers.contains(consumer));
        both.map(|(name, _)| name.as_str())
    }

    pub(crate) fn has(&mut self, consumer: &Consumer, code: &str, rule: HashRule, started: &str) {
        self.consumers.push(print_of(consumer, code, rule, started));
    }

    /// `done` is how its program is started, or where its messages go.
    pub(crate) fn has_pool(&mut self, pool: &Pool, done: &str) {
        let Pool { retry, in_flight, max_parallelism, keep, batch_size, .. } = pool;
        let how = format!("{retry:?} {in_flight:?} {max_parallelism:?} {keep:?} {batch_size:?}");
        let print = Fingerprint::new("pool").text("code", &pool_code(pool)).text("how", &how);
        let print = print.text("started", done).finish();
        self.consumers.push((pool.name.text.clone(), print));
    }
}

/// A consumer, by its name and a hash of all that is said of it.
pub(crate) fn print_of(
    consumer: &Consumer,
    code: &str,
    rule: HashRule,
    started: &str,
) -> (String, String) {
    let Consumer { name, partition, settings, retry, .. } = consumer;
    let print = Fingerprint::new("consumer")
        .text("code", code)
        .text("partition", &partition.identity(rule))
        .text("settings", &format!("{settings:?} {retry:?}"))
        .text("started", started);
    (name.text.clone(), print.finish())
}

/// How a program is started, with the values of its variables.
pub(crate) fn started(command: &Command) -> String {
    let Command { argv, directory, env, timeout, grace, .. } = command;
    format!("{argv:?} {directory:?} {env:?} {timeout:?} {grace:?}")
}

/// What a program does, as far as a file says it.
pub(crate) fn program_print(kind: &str, run: &Run) -> Fingerprint {
    let words = run.command.iter().map(|word| word.text.as_str());
    Fingerprint::new(kind).program(words, run.env.iter().map(|(name, _)| name.as_str()))
}

/// What a pool does, as a hash.
pub(crate) fn pool_code(pool: &Pool) -> String {
    let effects = match pool.effects {
        Effects::Outside => "outside",
        Effects::Database => "database",
    };
    match &pool.by {
        By::Program(run) => program_print("pool", run).text("effects", effects).finish(),
        By::Webhook(target) => target_print("pool", target).finish(),
    }
}

/// What a webhook does, as a hash: where it sends what. Its secrets may be replaced without a word.
pub(crate) fn webhook_code(webhook: &Webhook) -> String {
    let form = if webhook.batch > 1 { "batch" } else { "event" };
    target_print("webhook", &webhook.target).text("form", form).finish()
}

fn target_print(kind: &str, target: &Target) -> Fingerprint {
    Fingerprint::new(kind).text("to", &target.to.resolve().unwrap_or_default())
}

/// Where messages go, and with what, with the values of its variables.
pub(crate) fn sent_to(target: &Target) -> String {
    let value = |setting: &Setting| setting.resolve().unwrap_or_default();
    let secrets: Vec<String> = target.secrets.iter().map(value).collect();
    let headers: Vec<(&str, String)> =
        target.headers.iter().map(|(name, setting)| (name.as_str(), value(setting))).collect();
    let (timeout, is_private) = (target.timeout, target.private_addresses);
    format!("{} {secrets:?} {headers:?} {timeout:?} {is_private}", value(&target.to))
}
