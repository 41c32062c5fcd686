//! Where a key goes: its slot, its partition for a number of them, its owner.

use crate::refusal::refuse_unless;
use crate::status;
use crate::target::MaybeTarget;
use anabranch::operate::{Consumers, CursorStatus};
use anabranch::partitioning::{SLOTS, Slot, Strategy};
use anabranch::{FixedPartition, HashRule, Log, StreamId};
use anabranch_terminal::output::{self, Table};
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

/// Totals for the table if none is asked for; all of them divide 5040.
const TOTALS: [u16; 8] = [2, 3, 4, 5, 6, 8, 10, 12];

/// Show where a key goes: its slot, its partition, and with --consumer its owner
///
/// The slot is hash(key) % 5040 and never changes; the partition of N is slot % N. A stream such as
/// Order:ord-123 has the slot of its id alone, ord-123; a customer, a correlation, a dcb:tenant:… or a custom
/// key that of the whole text. All events of a consumer by `global` are in slot 0.
///
/// Without --strategy and --consumer a key is taken for that of an entity, unless it begins with dcb:tenant: or is
/// `global`.
///
/// No database is opened, unless --consumer or --url names one: then the rule is the consumer's, or
/// the log's.
#[derive(Args)]
pub(crate) struct Explain {
    /// The key: a stream as CATEGORY:ID, an id, a customer, a correlation
    #[arg(allow_negative_numbers = true)]
    key: String,

    /// How events become keys: entity, customer, saga, global, dcb or custom [default: as the key looks]
    #[arg(long, conflicts_with = "consumer")]
    strategy: Option<Strategy>,

    /// How many partitions there are [default: a table of some]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(SLOTS)))]
    total: Option<u16>,

    /// How keys become slots: fnv1a, md5 or integer [default: fnv1a]
    #[arg(long, conflicts_with_all = ["consumer", "url"])]
    rule: Option<HashRule>,

    /// Also name the reader of the partition: TYPE_runner_partition_I_of_N
    #[arg(long = "type", value_name = "TYPE")]
    reader: Option<String>,

    /// Also show who owns the key for this consumer, and how far it is
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,

    #[command(flatten)]
    target: MaybeTarget,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Explanation {
    key: String,
    /// What is hashed; nothing if all events are one sequence.
    hashed: Option<String>,
    rule: HashRule,
    /// What the rule comes to for this key: by `integer`, what is no integer is hashed.
    hashed_by: Option<HashRule>,
    slot: Slot,
    partitions: Vec<Place>,
    consumer: Option<Owned>,
}

#[derive(Serialize)]
struct Place {
    total: u16,
    index: u16,
    reader: Option<String>,
}

#[derive(Serialize)]
struct Owned {
    name: String,
    strategy: String,
    cursor: CursorStatus,
    #[serde(skip)]
    owner: String,
}

impl Explain {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let explanation = self.explain().await?;
        if self.json {
            output::json(&explanation)?;
        } else {
            self.print(&explanation)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn explain(&self) -> anyhow::Result<Explanation> {
        let mut rule = self.rule.unwrap_or_default();
        let mut strategy = self.strategy;
        let mut consumer = None;
        if self.consumer.is_some() || self.target.url.is_some() {
            let log = self.target.or_default()?.connect().await?;
            rule = log.hash_rule();
            if let Some(name) = &self.consumer {
                let registered = Consumers::new(&log).status(name).await?.strategy;
                let (by, its_rule) = self::registered(&registered, rule)?;
                (strategy, rule) = (Some(by), its_rule);
                consumer = Some((log, name, registered));
            }
        }
        let hashed = hashed(&self.key, strategy.unwrap_or_else(|| looks_like(&self.key)))?;
        let slot = hashed.as_deref().map_or(Slot::ZERO, |hashed| rule.slot(hashed));
        let hashed_by = hashed.as_deref().map(|hashed| really(rule, hashed));
        let totals = self.total.map_or(TOTALS.to_vec(), |total| vec![total]);
        let place = |total| -> anyhow::Result<Place> {
            let partition = FixedPartition::new(slot.get() % total, total)?;
            let reader = self.reader.as_ref().map(|kind| partition.reader_name(kind));
            Ok(Place { total, index: partition.index(), reader })
        };
        let partitions = totals.into_iter().map(place).collect::<Result<_, _>>()?;
        let consumer = match consumer {
            Some((log, name, strategy)) => Some(owned(&log, name, strategy, slot).await?),
            None => None,
        };
        let key = self.key.clone();
        Ok(Explanation { key, hashed, rule, hashed_by, slot, partitions, consumer })
    }

    fn print(&self, explanation: &Explanation) -> anyhow::Result<()> {
        let Explanation { key, hashed, rule, slot, partitions, consumer, .. } = explanation;
        let by = explanation.hashed_by.unwrap_or(*rule);
        let mut why = Vec::new();
        if by != *rule {
            why.push(format!("it is no {rule}, so by {by}"));
        }
        if hashed.as_ref().is_some_and(|hashed| hashed != key) {
            why.push("a stream has the slot of its id, without the category".to_owned());
        }
        let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
        output::line(format_args!("key        {key}"))?;
        match hashed {
            Some(hashed) => {
                output::line(format_args!(
                    "slot       {slot} = {by} of `{hashed}` % {SLOTS}{why}"
                ))?;
            }
            None => {
                output::line("slot       0: all events of a consumer by global are one sequence")?
            }
        }
        if hashed.is_none() && self.strategy.is_none() && consumer.is_none() {
            output::line("note       for a stream with the id `global` add --strategy entity")?;
        }
        if let (Some(total), [place]) = (self.total, partitions.as_slice()) {
            output::line(format_args!("partition  {} of {total} = slot % {total}", place.index))?;
            if let Some(reader) = &place.reader {
                output::line(format_args!("reader     {reader}"))?;
            }
            if !SLOTS.is_multiple_of(total) {
                output::line(format_args!(
                    "note       {total} does not divide {SLOTS}: where a rule of your own takes \
                     hash % {total}, the two differ"
                ))?;
            }
        }
        if let Some(Owned { name, strategy, cursor, owner }) = consumer {
            output::line(format_args!("consumer   {name}, by {strategy}"))?;
            output::line(format_args!(
                "cursor     {}, done up to {}",
                cursor.slots, cursor.position
            ))?;
            output::line(format_args!("owner      {owner}"))?;
        }
        if self.total.is_none() {
            output::line("")?;
            print_places(partitions)?;
        }
        Ok(())
    }
}

fn print_places(places: &[Place]) -> anyhow::Result<()> {
    let is_named = places.iter().any(|place| place.reader.is_some());
    let mut table = Table::new([">TOTAL", ">PARTITION", if is_named { "READER" } else { "" }]);
    for Place { total, index, reader } in places {
        table.row([total.to_string(), index.to_string(), reader.clone().unwrap_or_default()]);
    }
    table.print()
}

/// The rule that a key really goes by.
pub(crate) fn really(rule: HashRule, key: &str) -> HashRule {
    match rule {
        HashRule::Integer if HashRule::integer(key, u32::from(SLOTS)).is_none() => HashRule::Fnv1a,
        rule => rule,
    }
}

/// What begins every key of a dynamic consistency boundary.
const DCB: &str = "dcb:tenant:";

/// The strategy that a key is of, as far as one can see.
fn looks_like(key: &str) -> Strategy {
    match key {
        "global" => Strategy::Global,
        key if key.starts_with(DCB) => Strategy::Dcb,
        _ => Strategy::Entity,
    }
}

/// How a consumer is registered, `entity, md5` or `global` without a rule, as a strategy and a rule.
pub(crate) fn registered(
    strategy: &str,
    log_rule: HashRule,
) -> anyhow::Result<(Strategy, HashRule)> {
    let (word, by) = strategy.split_once(", ").unwrap_or((strategy, log_rule.name()));
    let word = word.parse().map_err(anyhow::Error::msg)?;
    Ok((word, by.parse().map_err(anyhow::Error::msg)?))
}

/// What of a key is hashed, as [`Partition`](anabranch::Partition) does it; nothing if all events are one
/// sequence.
pub(crate) fn hashed(key: &str, strategy: Strategy) -> anyhow::Result<Option<String>> {
    Ok(match strategy {
        Strategy::Global => None,
        // A stream, or its id alone.
        Strategy::Entity => Some(match key.parse::<StreamId>() {
            Ok(stream) => stream.id().to_owned(),
            Err(_) => key.to_owned(),
        }),
        Strategy::Dcb => {
            refuse_unless!(
                key.starts_with(DCB),
                InvalidArguments,
                "`{key}` is no key by dcb; give it as events have it: dcb:tenant:TENANT:SCOPE:ID"
            );
            Some(key.to_owned())
        }
        Strategy::Customer | Strategy::Saga | Strategy::Custom => Some(key.to_owned()),
    })
}

async fn owned(log: &Log, name: &str, strategy: String, slot: Slot) -> anyhow::Result<Owned> {
    let consumers = Consumers::new(log);
    let cursor = consumers.owner_of(name, slot).await?;
    let owner = status::owner(&cursor.owner, &consumers.workers().await?);
    Ok(Owned { name: name.to_owned(), strategy, cursor, owner })
}
