//! The command `anabranch`.
//!
//! Standard output is data, standard error is everything else. An error ends with its code, as in
//! `[no_such_consumer]`; with `--json` it is an object with `code`, `kind` and `message`. Exit codes: 0 done,
//! 1 failed, 2 wrong arguments or no --yes, 130 and 143 ended by SIGINT and SIGTERM after what was made is removed. A reader of
//! standard output that goes away changes none of them.
//!
//! | module | subject |
//! |---|---|
//! | `target` | which log a command works on |
//! | `event_line` | an event as commands print it |
//! | `refusal` | what the command refuses, and how errors are printed |
//! | `chosen` | the consumers that a command is about |
//! | `confirm` | what cannot be taken back |
//! | `append` | one event from the command line |
//! | `tail` | the last events, and the next ones |
//! | `migrate` | create or upgrade a log, or print how |
//! | `status` | consumers and their cursors |
//! | `status_watch` | the same in a terminal, as it changes |
//! | `workers` | processes that run consumers |
//! | `generations` | when slots were assigned anew, why, and to whom |
//! | `pause` | pause and resume a consumer |
//! | `planned` | what changes something: planned, applied, in the journal |
//! | `journal` | who did what, and plans |
//! | `replay` | begin again |
//! | `accept_scope` | another scope than before is meant |
//! | `audit` | proof that every event was handled once and in order |
//! | `rebalance` | move slots for their load |
//! | `skip_to_head` | leave out what is not handled |
//! | `deliveries` | what webhooks have sent: list, show, send again, try |
//! | `parked` | keys that failed: list, show, retry, skip |
//! | `tasks` | tasks of work pools: look at, enqueue, cancel, retry, discard |
//! | `batch` | rows of a table, each handled once by any number of instances |
//! | `offsets` | how far a consumer is, partition by partition |
//! | `rescale` | what going to another number of partitions moves |
//! | `times` | times on the command line |
//! | `log_lines` | lines of the log, beside the progress bar |
//! | `launch` | a program of a file, started so that it ends with us |
//! | `import_positions` | go on where other runners stopped |
//! | `partition` | where a key goes, and which strategy fits |
//! | `rebuild` | compare a new version, and switch to it |
//! | `file` | replica sets that are described in a file: run, check, test |
//! | `elsewhere` | commands that other systems have |
//! | `serve` | the HTTP API |
//! | `token` | tokens of the HTTP API |
//! | `pages` | the commands of the docs are ones (tests) |
//! | `forget` | remove a consumer that no longer exists |

#![warn(clippy::print_stderr)]

mod accept_scope;
mod append;
mod audit;
mod batch;
mod chosen;
mod confirm;
mod deliveries;
mod elsewhere;
mod event_line;
mod file;
mod forget;
mod generations;
mod health;
mod import_positions;
mod journal;
mod lag;
mod launch;
mod log_lines;
mod log_settings;
mod migrate;
mod offsets;
#[cfg(test)]
mod pages;
mod parked;
mod partition;
mod pause;
mod planned;
mod rebalance;
mod rebuild;
mod refusal;
mod replay;
mod rescale;
mod serve;
mod shell;
mod skip_to_head;
mod status;
#[cfg(unix)]
mod status_watch;
mod tail;
mod target;
mod tasks;
mod times;
mod token;
mod why;
mod workers;

use crate::refusal::Printed;
use anabranch_lab::{Bench, Chaos, ChaosWorker, Demo, DemoWorker};
use anabranch_terminal::cut_short::CutShort;
use anabranch_terminal::{say, say_on};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong arguments, or --yes is missing; 130 and 143 ended by SIGINT \
    and SIGTERM, after what the command had made for itself was removed.

A reader of standard output that goes away, as `head` does, is no failure: a command that only looks, or \
    measures, ends with 0; one that changes or proves something finishes it, and its exit code says how \
    that went.

An error ends with its code, as in [no_such_consumer]: docs/errors.md says what it means and what to do. With \
    --json it is one JSON object on standard error, with code, kind and message.";

/// Partitioned, elastic event processing that people can trust with their money.
#[derive(Parser)]
#[command(name = "anabranch", version, max_term_width = 100, after_long_help = EXIT_CODES)]
struct Arguments {
    #[command(flatten)]
    log: log_settings::LogSettings,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(file::Run),
    Check(file::Check),
    Test(file::Test),
    Serve(serve::Serve),
    /// Tokens of the HTTP API: who may use it, and for what
    #[command(subcommand)]
    Token(token::TokenCommand),
    Demo(Demo),
    #[command(hide = true)]
    DemoWorker(DemoWorker),
    Chaos(Chaos),
    #[command(hide = true)]
    ChaosWorker(ChaosWorker),
    #[command(hide = true)]
    Launch(launch::Launch),
    Append(append::AppendEvent),
    Tail(tail::Tail),
    Migrate(migrate::Migrate),
    Status(status::Status),
    Lag(lag::Lag),
    Health(health::Health),
    Why(why::Why),
    Workers(workers::Workers),
    Generations(generations::Generations),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Replay(replay::Replay),
    SkipToHead(skip_to_head::SkipToHead),
    AcceptScope(accept_scope::AcceptScope),
    Audit(audit::Audit),
    Journal(journal::Journal),
    Plans(journal::Plans),
    Rebalance(rebalance::Rebalance),
    Offsets(offsets::Offsets),
    Rescale(rescale::Rescale),
    ImportPositions(import_positions::ImportPositions),
    /// Keys that are set aside because an event of them failed
    #[command(subcommand)]
    Parked(parked::ParkedKeys),
    /// What webhooks have sent
    #[command(subcommand)]
    Deliveries(deliveries::DeliveriesCommand),
    Tasks(tasks::TasksOf),
    /// Rows of a table, each handled once by any number of instances
    #[command(subcommand)]
    Batch(batch::BatchOf),
    /// Where a key goes, and which strategy fits
    #[command(subcommand)]
    Partition(partition::Partition),
    Rebuild(rebuild::RebuildCommand),
    Forget(forget::Forget),
    /// Measure how fast it is here, beside the bare driver on the same schema
    Bench(Bench),
    Completions(shell::Completions),
    Man(shell::Man),
}

#[tokio::main]
async fn main() -> ExitCode {
    let (arguments, matches) = parse().unwrap_or_else(|error| refuse(&error));
    let as_json = wants_json(&matches);
    let exports = matches!(arguments.command, Command::Run(_));
    let ready = target::check_environment(&matches).and_then(|()| arguments.log.begin(exports));
    // What was not sent when the command ends is sent then.
    let _spans = match ready {
        Ok(spans) => spans,
        Err(error) => return failed(&error, as_json),
    };
    match Box::pin(run(arguments.command)).await {
        Ok(code) => code,
        Err(error) => failed(&error, as_json),
    }
}

/// Says what has failed; the exit code says whether it was the command, or how it was called.
fn failed(error: &anyhow::Error, as_json: bool) -> ExitCode {
    let (cut, printed) = (error.downcast_ref::<CutShort>(), Printed::of(error));
    match serde_json::to_string(&printed) {
        _ if cut == Some(&CutShort::Unread) => {}
        Ok(json) if as_json => say!("{json}"),
        _ => say!("{printed}"),
    }
    match cut {
        Some(cut) => cut.code(),
        None if printed.is_not_confirmed() => ExitCode::from(2),
        None => ExitCode::FAILURE,
    }
}

/// Reads the arguments.
fn parse() -> Result<(Arguments, ArgMatches), clap::Error> {
    let matches = Arguments::command().try_get_matches()?;
    let arguments = Arguments::from_arg_matches(&matches);
    let arguments = arguments.map_err(|error| error.format(&mut Arguments::command()))?;
    Ok((arguments, matches))
}

/// Whether the command, or the part of it that was named, prints JSON.
fn wants_json(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("json").ok().flatten();
    here == Some(&true) || matches.subcommand().is_some_and(|(_, matches)| wants_json(matches))
}

/// Says what is wrong with the arguments. A URL in the wrong place is not repeated: it may hold a password.
fn refuse(error: &clap::Error) -> ! {
    if let Some(hint) = elsewhere::hint(error) {
        say_on!("error: {hint}; `anabranch help` lists all commands");
        std::process::exit(error.exit_code())
    }
    let given = || std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let urls: Vec<String> = given()
        .filter_map(|argument| argument.find("postgres").map(|start| argument[start..].to_owned()))
        .filter(|url| url.contains(':'))
        .collect();
    if urls.is_empty() {
        error.exit();
    }
    let said = error.render().to_string();
    say_on!("{}", urls.iter().fold(said, |said, url| said.replace(url, "postgres://…")));
    std::process::exit(error.exit_code())
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(run) => run.run().await,
        Command::Check(check) => check.run().await,
        Command::Test(test) => test.run().await,
        Command::Serve(serve) => Box::pin(serve.run()).await,
        Command::Token(token) => token.run().await,
        Command::Demo(demo) => demo.run().await,
        Command::DemoWorker(worker) => worker.run().await,
        Command::Chaos(chaos) => chaos.run().await,
        Command::ChaosWorker(worker) => worker.run().await,
        Command::Launch(launch) => launch.run(),
        Command::Append(append) => append.run().await,
        Command::Tail(tail) => tail.run().await,
        Command::Migrate(migrate) => migrate.run().await,
        Command::Status(status) => status.run().await,
        Command::Lag(lag) => lag.run().await,
        Command::Health(health) => health.run().await,
        Command::Why(why) => why.run().await,
        Command::Workers(workers) => workers.run().await,
        Command::Generations(generations) => generations.run().await,
        Command::Pause(pause) => pause.run().await,
        Command::Resume(resume) => resume.run().await,
        Command::Replay(replay) => replay.run().await,
        Command::SkipToHead(skip) => skip.run().await,
        Command::AcceptScope(accept) => accept.run().await,
        Command::Audit(audit) => Box::pin(audit.run()).await,
        Command::Journal(journal) => journal.run().await,
        Command::Plans(plans) => plans.run().await,
        Command::Rebalance(rebalance) => rebalance.run().await,
        Command::Offsets(offsets) => offsets.run().await,
        Command::Rescale(rescale) => rescale.run().await,
        Command::ImportPositions(import) => import.run().await,
        Command::Parked(parked) => parked.run().await,
        Command::Deliveries(deliveries) => deliveries.run().await,
        Command::Tasks(tasks) => tasks.run().await,
        Command::Batch(batch) => batch.run().await,
        Command::Partition(partition) => partition.run().await,
        Command::Rebuild(rebuild) => Box::pin(rebuild.run()).await,
        Command::Forget(forget) => forget.run().await,
        Command::Bench(bench) => bench.run().await,
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    }
}
