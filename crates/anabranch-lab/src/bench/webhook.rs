//! Webhooks: events to a server on this machine, beside the same requests from a client that keeps nothing.

use super::own_log::OwnLog;
use super::project::timed;
use super::report::{self, Case, Rates};
use super::{Measured, Side, webhook_outage};
use crate::receiver::{Receiver, Reply};
use crate::throwaway::Throwaway;
use anabranch::webhook::{Client, Endpoint, Webhook, WebhookSet};
use anabranch::{Partition, ReplicaSet};
use anyhow::ensure;
use clap::Args;
use futures_util::{StreamExt, TryStreamExt};
use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How much of an answer the bare client reads.
const ANSWER: usize = 1_024;

/// Webhooks: events to a server in this process, beside the same requests from a client that keeps nothing
///
/// Each event is a message of its own (or with --batch up to so many of one key), not signed, in order for each key. What
/// arrived is counted: each event once, in order. Works in tables of its own and removes them at the end.
#[derive(Args)]
pub(crate) struct BenchWebhook {
    #[command(flatten)]
    database: Measured,

    /// How many events the log has
    #[arg(long, default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,

    /// How many streams they are spread over
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    streams: u64,

    /// How many messages are under way at the same time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    concurrency: u16,

    /// The most events of one message
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    batch: u16,

    /// How many lanes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    lanes: u8,

    /// How often each measurement is repeated; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,

    /// Instead: take the server away for so many seconds in the middle of it, with one key that it always refuses, and
    /// see who waits afterwards. Fails unless that key alone is parked, and all else arrived in order
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600), conflicts_with = "repeats")]
    outage: Option<u64>,
}

impl BenchWebhook {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        self.database.run(async |made| Box::pin(self.measure(made)).await).await
    }

    async fn measure(&self, made: &Throwaway) -> anyhow::Result<()> {
        let own = &mut OwnLog::create(made, "webhook").await?;
        let at = own.log.at().to_owned();
        self.database.say(|| match self.outage {
            None => format!("{at}: {} repeats, the median counts", self.repeats),
            Some(seconds) => format!("{at}: the server will be down for {seconds} s"),
        });
        self.database
            .say(|| format!("filling: {} events in {} streams", self.events, self.streams));
        own.fill(self.events, self.streams).await?;
        if let Some(seconds) = self.outage {
            return self.outlast(own, Duration::from_secs(seconds)).await;
        }
        if !self.database.json {
            report::print_header("webhook")?;
        }
        let mut rates = Rates::default();
        for repeat in 1..=self.repeats {
            for side in self.database.turns(repeat) {
                let (rate, what) = match side {
                    Side::Ours => (self.delivered(own, repeat).await?, "as a webhook"),
                    Side::Limit => (self.posted().await?, "by the bare client"),
                };
                self.database
                    .say(|| format!("webhook: repeat {repeat}, {what} {rate:.0} events/s"));
                match side {
                    Side::Ours => rates.ours.push(rate),
                    Side::Limit => rates.bare.push(rate),
                }
            }
        }
        let words = "events to a server in this process, in order for each key; limit: as many requests, and nothing kept";
        Case::new("webhook", "deliver", self.lanes.into(), words, rates).print(self.database.json)
    }

    async fn delivered(&self, own: &mut OwnLog, repeat: u64) -> anyhow::Result<f64> {
        let receiver = Receiver::start(|_| Reply::default()).await?;
        let set = self.set(self.webhook(own, &format!("webhook_{repeat}"), &receiver)?);
        let rate = timed(own, set, self.events).await?;
        self.verify(&receiver)?;
        Ok(rate)
    }

    /// Takes the server away for a while, and says who waits afterwards.
    async fn outlast(&self, own: &OwnLog, down: Duration) -> anyhow::Result<()> {
        ensure!(
            self.streams > 1,
            "--streams: with one key, which is refused, nothing would be left"
        );
        ensure!(
            self.events >= 10 * self.streams.min(100),
            "--events: too few to be in the middle of it"
        );
        let name = "webhook_outage";
        let mut receiver = Receiver::start(webhook_outage::decide).await?;
        let webhook = self.webhook(own, name, &receiver)?.settings(webhook_outage::settings());
        let (set, figures) = (self.set(webhook), (self.events, self.streams));
        let seen = webhook_outage::measure(own, (set, name), &mut receiver, figures, down).await?;
        seen.print(self.database.json)
    }

    fn webhook(&self, own: &OwnLog, name: &str, receiver: &Receiver) -> anyhow::Result<Webhook> {
        let to = Endpoint::new(&receiver.url())?.private_addresses(true);
        Ok(Webhook::new(&own.log, name, Partition::entity("Order"), to)
            .batch(self.batch.into())
            .concurrency(self.concurrency.into()))
    }

    fn set(&self, webhook: Webhook) -> ReplicaSet {
        ReplicaSet::new("bench").lanes(self.lanes.into()).webhook(webhook)
    }

    /// Each event has arrived once, in order.
    fn verify(&self, receiver: &Receiver) -> anyhow::Result<()> {
        let mut last = std::collections::HashMap::new();
        let (mut count, mut ids) = (0, HashSet::new());
        for message in receiver.received() {
            ensure!(ids.insert(message.header("webhook-id").to_owned()), "a message came twice");
            for event in message.events() {
                let version = event["version"].as_u64().unwrap_or_default();
                let before = last.insert(event["stream"].to_string(), version).unwrap_or(0);
                ensure!(version == before + 1, "{} came after {before}", event["stream"]);
                count += 1;
            }
        }
        ensure!(count == self.events, "{count} of {} events have arrived", self.events);
        Ok(())
    }

    /// As many requests of the same size.
    async fn posted(&self) -> anyhow::Result<f64> {
        let receiver = Receiver::start(|_| Reply::default()).await?;
        let to = &Endpoint::new(&receiver.url())?.private_addresses(true);
        let client = &Client::new(true);
        let body = "x".repeat(400 * usize::from(self.batch));
        let requests = self.events.div_ceil(self.batch.into());
        let began = Instant::now();
        futures_util::stream::iter(0..requests)
            .map(|_| {
                let body = body.clone().into();
                async move { client.post(to, None, body, ANSWER).await }
            })
            .buffer_unordered(self.concurrency.into())
            .try_for_each(|_| std::future::ready(Ok(())))
            .await?;
        let rate = self.events as f64 / began.elapsed().as_secs_f64();
        ensure!(receiver.count() as u64 == requests, "some did not arrive");
        Ok(rate)
    }
}
