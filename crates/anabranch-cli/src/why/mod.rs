//! Why a key does not go on: from its slot to what blocks it.
//!
//! | module | subject |
//! |---|---|
//! | `verdict` | the reason in one sentence, and what to do |
//! | `show` | the answer as text |

mod show;
mod verdict;

use crate::chosen::chosen;
use crate::partition::{hashed, really, registered};
use crate::refusal::refuse;
use crate::status::{self, POOL};
use crate::target::Target;
use anabranch::operate::{
    ConsumerStatus, Consumers, CursorStatus, NextEvent, Parked, UnrunPool, WorkerStatus,
};
use anabranch::partitioning::{SLOTS, Slot};
use anabranch::workpool::{KeyTasks, Tasks};
use anabranch::{HashRule, Log};
use anabranch_terminal::{output, say};
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;
use verdict::Verdict;

/// Say why a key does not go on: its slot, who owns it, what failed, what it waits for
///
/// For each consumer, or for one: key, slot, owner, how far the slot's cursor is, why that does not move, what failed and
/// when it is tried again, the first event that waits, and what to do. For a pool: the first task of the key that has not
/// ended. Nothing is changed.
#[derive(Args)]
#[command(
    after_help = "See also: anabranch partition explain KEY, anabranch status NAME, anabranch parked list NAME"
)]
pub(crate) struct Why {
    #[command(flatten)]
    target: Target,

    /// The key: a stream as CATEGORY:ID, an id, a customer, a correlation, the key of a task
    #[arg(allow_negative_numbers = true)]
    key: String,

    /// Only for this consumer or pool
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,

    /// Print one JSON object a line, one for each consumer
    #[arg(long)]
    json: bool,
}

/// What there is to say about a key, for one consumer.
#[derive(Serialize)]
struct Answer {
    key: String,
    consumer: String,
    kind: String,
    strategy: String,
    /// What of the key is hashed, and how; nothing if all events are one sequence.
    #[serde(skip)]
    hashed: Option<(HashRule, String)>,
    slot: Slot,
    /// What the consumer as a whole is doing.
    state: String,
    /// Who owns the slot, in words.
    owner: String,
    /// None of a pool that no worker has ever run.
    cursor: Option<CursorStatus>,
    /// The key, if an event of it has failed.
    parked: Option<Parked>,
    /// The first event that waits: the first of the key if it has failed, else of its slot.
    next: Option<NextEvent>,
    /// Of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<KeyTasks>,
    #[serde(flatten)]
    verdict: Verdict,
}

/// A log, and what is looked up once for all consumers.
struct Look<'a> {
    log: &'a Log,
    consumers: &'a Consumers,
    workers: &'a [WorkerStatus],
    key: &'a str,
}

impl Why {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.target.connect().await?;
        let consumers = Consumers::new(&log);
        let (all, unrun) = chosen(&consumers, self.consumer.as_deref()).await?;
        let workers = consumers.workers().await?;
        let look = Look { log: &log, consumers: &consumers, workers: &workers, key: &self.key };
        let mut answers = Vec::new();
        for status in &all {
            match look.at(status).await {
                Ok(answer) => answers.push(answer),
                // The key may be one of the others.
                Err(error) if self.consumer.is_none() && all.len() + unrun.len() > 1 => {
                    say!("note: not for `{}`: {error}", status.name);
                }
                Err(error) => return Err(error),
            }
        }
        for pool in &unrun {
            answers.push(look.at_unrun(pool).await?);
        }
        if answers.is_empty() {
            refuse!(
                NoSuchConsumer,
                "there is no consumer that `{}` could be a key of; one appears when it first runs",
                self.key
            );
        }
        match self.json {
            true => answers.iter().try_for_each(output::json)?,
            false => show::print(&answers)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Look<'_> {
    async fn at(&self, status: &ConsumerStatus) -> anyhow::Result<Answer> {
        let (name, rule) = (&status.name, self.log.hash_rule());
        let (slot, by) = self.slot(status, rule)?;
        let cursor = self.consumers.owner_of(name, slot).await?;
        let (mut parked, mut next, mut tasks) = (None, None, None);
        if status.kind == POOL {
            tasks = Some(Tasks::new(self.log, name).of_key(self.key).await?);
        } else {
            parked = self.parked(status, slot, by.as_ref()).await?;
            next = match &parked {
                Some(parked) => {
                    let first = self.consumers.parked_events(name, &parked.key, 1).await?;
                    first.into_iter().next().map(|event| NextEvent::new(event, true))
                }
                // Of another log, what lies behind the cursor says nothing.
                None if !status.is_lag_known() => None,
                None => self.consumers.next_of_slot(name, slot).await?,
            };
        }
        let verdict = match &tasks {
            Some(tasks) => Verdict::of_pool(name, self.key, status.limit, &cursor, tasks),
            None => Verdict::of_events(name, &cursor, parked.as_ref(), next.is_some()),
        };
        Ok(Answer {
            key: self.key.to_owned(),
            consumer: name.clone(),
            kind: status.kind.clone(),
            strategy: status.strategy.clone(),
            hashed: by,
            slot,
            state: status::state(status),
            owner: status::owner(&cursor.owner, self.workers),
            cursor: Some(cursor),
            parked,
            next,
            tasks,
            verdict,
        })
    }

    /// Of a pool that has tasks, and that no worker has ever run.
    async fn at_unrun(&self, pool: &UnrunPool) -> anyhow::Result<Answer> {
        let rule = self.log.hash_rule();
        let tasks = Tasks::new(self.log, &pool.name).of_key(self.key).await?;
        Ok(Answer {
            key: self.key.to_owned(),
            consumer: pool.name.clone(),
            kind: POOL.to_owned(),
            strategy: format!("custom, {rule}"),
            hashed: Some((really(rule, self.key), self.key.to_owned())),
            slot: rule.slot(self.key),
            state: "no worker has run it yet".to_owned(),
            owner: "nobody".to_owned(),
            cursor: None,
            parked: None,
            next: None,
            verdict: Verdict::of_unrun(&pool.name, &tasks),
            tasks: Some(tasks),
        })
    }

    /// The slot of the key, and what of it is hashed by which rule.
    fn slot(
        &self,
        status: &ConsumerStatus,
        log_rule: HashRule,
    ) -> anyhow::Result<(Slot, Option<(HashRule, String)>)> {
        let (strategy, rule) = registered(&status.strategy, log_rule)?;
        Ok(match hashed(self.key, strategy)? {
            None => (Slot::ZERO, None),
            Some(hashed) => (rule.slot(&hashed), Some((really(rule, &hashed), hashed))),
        })
    }

    /// The key among those that have failed: as `parked list` shows it, or by what is hashed of it.
    async fn parked(
        &self,
        status: &ConsumerStatus,
        slot: Slot,
        by: Option<&(HashRule, String)>,
    ) -> anyhow::Result<Option<Parked>> {
        if status.parked_keys + status.retrying_keys == 0 {
            return Ok(None);
        }
        let (strategy, _) = registered(&status.strategy, self.log.hash_rule())?;
        let mut all = self.consumers.parked(&status.name).await?;
        all.retain(|parked| {
            let is_alike = || {
                let its = hashed(&parked.key, strategy).ok().flatten();
                parked.slot == slot && its.as_ref() == by.map(|(_, hashed)| hashed)
            };
            parked.key == self.key || is_alike()
        });
        // Streams of several categories share an id, and so a slot.
        let exact = all.iter().position(|parked| parked.key == self.key);
        Ok(match exact {
            Some(place) => Some(all.swap_remove(place)),
            None if self.key.contains(':') => None,
            None => all.into_iter().next(),
        })
    }
}

/// A slot in words: where it comes from.
fn slot_in_words(slot: Slot, hashed: Option<&(HashRule, String)>) -> String {
    match hashed {
        Some((rule, text)) => format!("{slot} = {rule} of `{text}` % {SLOTS}"),
        None => format!("{slot}: all events are one sequence"),
    }
}
