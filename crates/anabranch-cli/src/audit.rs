//! Proof that a consumer's handler received every event once and in order.

use crate::confirm::Confirm;
use crate::refusal::Printed;
use crate::target::Target;
use crate::times::duration;
use anabranch::errors::{ErrorCode, ErrorKind};
use anabranch::operate::{AuditError, AuditProgress, AuditStatus, Consumers, Proof};
use anabranch_terminal::cut_short::unless_signalled;
use anabranch_terminal::output::{self, Table, count};
use anabranch_terminal::{say, say_on};
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often a terminal shows how far a proof is.
const SHOW: Duration = Duration::from_millis(200);

/// Prove that a consumer's handler received every event once and in order
///
/// With --start each commit of the consumer records, in its own transaction, which events it handed to the handler.
/// Without an option this compares that record with the log, with itself and with the cursors, while the consumer's
/// workers run. It ends with what was proven, or names the first thing that is wrong: the row of the record, the slot,
/// the position, the event. What was proven is removed from the record.
///
/// Without a name it lists the consumers that are audited. docs/audit.md says what a proof means.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 proven, or done; 1 something is wrong, or the command failed; 2 wrong arguments"
)]
pub(crate) struct Audit {
    #[command(flatten)]
    target: Target,

    /// The consumer
    consumer: Option<String>,

    /// Begin to record
    #[arg(long, requires = "consumer")]
    start: bool,

    /// End it, and remove the record; needs --yes
    #[arg(long, requires = "consumer", conflicts_with = "start")]
    stop: bool,

    #[command(flatten)]
    confirm: Confirm,

    /// Keep the rows that were proven
    #[arg(long, requires = "consumer", conflicts_with_all = ["start", "stop"])]
    no_prune: bool,

    /// Prove it again and again, with this time in between, until something is wrong
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "consumer",
        conflicts_with_all = ["start", "stop"])]
    every: Option<Duration>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// What was proven, as JSON has it.
#[derive(Serialize)]
struct Line<'a> {
    consumer: &'a str,
    proven: bool,
    since: Timestamp,
    after: u64,
    up_to: u64,
    furthest: u64,
    handed: u64,
    skipped: u64,
    aside: u64,
    slots: usize,
    rows: u64,
    compared: u64,
    pruned: u64,
}

impl Audit {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let consumers = self.target.consumers().await?;
        let Some(name) = self.consumer.as_deref() else {
            self.list(&consumers.audits().await?)?;
            return Ok(ExitCode::SUCCESS);
        };
        match (self.start, self.stop, self.every) {
            (true, ..) => start(&consumers, name).await?,
            (_, true, _) => {
                self.confirm.require(&format!(
                    "the record of `{name}` is removed, and what it has not proven can never be proven"
                ))?;
                stop(&consumers, name).await?;
            }
            (.., None) => self.prove(&consumers, name).await?,
            (.., Some(every)) => unless_signalled(self.watch(&consumers, name, every)).await?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Proves it until something is wrong.
    async fn watch(
        &self,
        consumers: &Consumers,
        name: &str,
        every: Duration,
    ) -> anyhow::Result<()> {
        loop {
            match self.prove(consumers, name).await {
                Err(error) if says_nothing(&error) => {
                    say!("{}; trying again", Printed::of(&error));
                }
                done => done?,
            }
            tokio::time::sleep(every).await;
        }
    }

    async fn prove(&self, consumers: &Consumers, name: &str) -> anyhow::Result<()> {
        let shown = Shown::new(!self.json);
        let show = |progress: AuditProgress| shown.show(progress);
        let proof = match self.no_prune {
            true => consumers.audit_and_keep(name, show).await,
            false => consumers.audit(name, show).await,
        };
        shown.clear();
        let proof = proof?;
        if self.json {
            return output::json(&Line::of(&proof));
        }
        output::line(in_words(&proof))
    }

    fn list(&self, audits: &[AuditStatus]) -> anyhow::Result<()> {
        if self.json {
            return audits.iter().try_for_each(output::json);
        }
        if audits.is_empty() {
            say!("no consumer is audited; `anabranch audit CONSUMER --start` begins");
            return Ok(());
        }
        let mut table = Table::new(["CONSUMER", "SINCE", ">ROWS", "PROVEN", ">UP TO"]);
        for audit in audits {
            table.row([
                audit.consumer.clone(),
                output::time(audit.since),
                audit.records.to_string(),
                audit.proven_at.map_or_else(|| "never".to_owned(), output::time),
                audit.proven_up_to.map_or_else(|| "-".to_owned(), |at| at.to_string()),
            ]);
        }
        table.print()
    }
}

async fn start(consumers: &Consumers, name: &str) -> anyhow::Result<()> {
    match consumers.start_audit(name).await? {
        true => say!(
            "`{name}` is audited from here on; `anabranch audit {name}` proves what it handles"
        ),
        false => say!("`{name}` is audited already; `anabranch audit` shows since when"),
    }
    Ok(())
}

async fn stop(consumers: &Consumers, name: &str) -> anyhow::Result<()> {
    match consumers.stop_audit(name).await? {
        true => say!("`{name}` is not audited any more, and its record is removed"),
        false => say!("`{name}` is not audited, so nothing has changed"),
    }
    Ok(())
}

/// Whether nothing is wrong with the consumer: the database is away, or another audit was faster. Whoever watches goes on.
fn says_nothing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<AuditError>().is_some_and(|error| {
        error.kind() == ErrorKind::Unavailable || error.code() == ErrorCode::AuditDisturbed
    })
}

fn in_words(proof: &Proof) -> String {
    let proven = &proof.proven;
    let range = format!("after position {} up to {}", proven.since, proven.up_to);
    let mut text = format!(
        "proven: the handler of `{}` received every event once and in order, {range}: {} handed over, {} in {}",
        proof.consumer,
        count(proven.handed, "event"),
        count(proven.rows, "row"),
        count(proven.slots as u64, "slot"),
    );
    if matches!(proof.kind.as_str(), "subscriber" | "webhook") {
        text += "; what became of them outside is not proven";
    }
    if proven.furthest > proven.up_to {
        text += &format!("; some slots up to {}", proven.furthest);
    }
    if proven.skipped > 0 {
        text += &format!("; {} left out on purpose", count(proven.skipped, "event"));
    }
    if proven.aside > 0 {
        text += &format!("; {} set aside", count(proven.aside, "event"));
    }
    text
}

impl<'a> Line<'a> {
    fn of(proof: &'a Proof) -> Self {
        let proven = &proof.proven;
        Self {
            consumer: &proof.consumer,
            proven: true,
            since: proof.since,
            after: proven.since.get(),
            up_to: proven.up_to.get(),
            furthest: proven.furthest.get(),
            handed: proven.handed,
            skipped: proven.skipped,
            aside: proven.aside,
            slots: proven.slots,
            rows: proven.rows,
            compared: proof.compared,
            pruned: proof.pruned,
        }
    }
}

/// How far a proof is, on a terminal.
struct Shown {
    is_shown: bool,
    last: Mutex<Instant>,
}

impl Shown {
    fn new(is_for_people: bool) -> Self {
        let is_shown = is_for_people && std::io::stderr().is_terminal();
        Self { is_shown, last: Mutex::new(Instant::now()) }
    }

    fn show(&self, progress: AuditProgress) {
        let Some(mut last) = self.last.lock().ok().filter(|_| self.is_shown) else { return };
        if last.elapsed() >= SHOW {
            *last = Instant::now();
            let AuditProgress { compared, position, .. } = progress;
            say_on!("\r\x1b[2Kcompared {}, at position {position}", count(compared, "event"));
        }
    }

    fn clear(&self) {
        if self.is_shown {
            say_on!("\r\x1b[2K");
        }
    }
}
