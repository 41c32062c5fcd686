//! Runs the replica sets of a file.

use super::figures::{Figures, summary};
use super::narrate::{Narration, beginning};
use super::partition_flags::{PartitionFlags, as_partition};
use super::plan::{self, Accepts};
use super::reload::{self, Judge, NotUsed, Reloads, Trigger};
use super::sets::{EndedSet, RunningSets};
use super::{Described, programs, refused};
use crate::log_settings::{tell, tell_failure};
use crate::refusal::{Printed, refuse};
use crate::serve::{self, Place, ServeFlags};
use anabranch::running::Progress;
use anabranch::watch::{Server, Watch};
use anabranch::{Log, RunError, shutdown_signal};
use anabranch_file::file::{File, Problems};
use anabranch_file::{MadeSet, Sets};
use anabranch_terminal::output;
use clap::Args;
use std::convert::Infallible;
use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::time::Instant;
use tokio::sync::oneshot;

/// Run the consumers that a file describes: projections in SQL, programs in any language, pools, schedules
///
/// Start it in as many processes as you like: they share the work, hand it over when one comes or goes, and take over
/// from one that dies. It ends with Ctrl-C or SIGTERM, after what was begun is finished.
#[derive(Args)]
#[command(
    after_help = "See also: anabranch check FILE, anabranch test FILE, anabranch status; docs/files.md"
)]
pub(crate) struct Run {
    #[command(flatten)]
    described: Described,

    /// End when everything is handled that is there now: with 0, or with 1 if something is parked or failed
    #[arg(long)]
    catch_up: bool,

    /// Read the file again whenever it changes; SIGHUP does that, too
    ///
    /// Only consumers that have changed are handed over, the others go on. A file that is not valid is not used, with a
    /// word why, and what runs goes on as it was. Another database, and another set for a consumer, need a restart. Code
    /// that changes waits to be accepted, unless --accept was given.
    #[arg(long, conflicts_with_all = ["catch_up", "plan"])]
    watch: bool,

    /// Run nothing: say what would happen to each consumer; exits with 1 if something would be refused
    ///
    /// New, unchanged, code changed, scope, partition, kind or version changed, moved to another set, gone from the file.
    #[arg(long, conflicts_with = "catch_up")]
    plan: bool,

    /// Accept the code that the file has for these consumers, or for all, in the place of the accepted one
    ///
    /// A consumer whose SQL or command is not the accepted one does not run, and `status` says so: in a rolling deploy
    /// no two versions write the same tables. This makes the file's the accepted one, and workers with another one
    /// stop handling its events. What was written before stays as it is.
    #[arg(long, value_name = "NAME", num_args = 0.., value_delimiter = ',')]
    accept: Option<Vec<String>>,

    /// Only these replica sets of the file; may be repeated
    #[arg(long = "set", value_name = "NAME")]
    sets: Vec<String>,

    #[command(flatten)]
    partition: PartitionFlags,

    /// Serve metrics for Prometheus and health for probes there: /metrics, /livez and /readyz (docs/metrics.md)
    ///
    /// Whoever reaches the address may read them: the names of consumers, pools and sets, and counts; no event, no key.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "plan", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,

    /// Serve the HTTP API there, beside the workers, with the same metrics and health (docs/api.md)
    ///
    /// On 127.0.0.1 it is open to everybody on this machine until a token is made; other addresses need one.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "plan", value_parser = serve::address)]
    listen: Option<SocketAddr>,

    #[command(flatten)]
    served: ServeFlags,

    #[command(flatten)]
    narration: Narration,

    /// At the end, print one JSON object with figures: consumers, each with name, handled, parked and lag. With --plan:
    /// one with consumers, each with name, set, change, says and refused
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        self.run_file().await.map_err(refused)
    }

    async fn run_file(self) -> anyhow::Result<ExitCode> {
        let mut file = self.wanted()?;
        let accepts = Accepts::of(self.accept.as_deref(), &file)?;
        if self.plan {
            return plan::show(&self.described, &file, &accepts, self.json).await;
        }
        // First of all: the signal would end a process that does not hear it yet.
        let mut reloads = Reloads::new(&file, self.watch, !self.catch_up);
        let partition = self.partition.partition()?;
        let target = self.described.target(&file)?;
        // Before anything is made in the database.
        let listener = self.listener()?;
        let place = self.listen.map(|address| Place::bind(address, &self.served)).transpose()?;
        let log = target.create_for_consumers().await?;
        let (log, _servers) = watched(log, listener, place).await?;
        let programs = programs();
        let made = Sets { programs: programs.clone(), ..Sets::default() };
        let sets = as_partition(made.of(&file, &log)?, partition);
        plan::accept(&sets, &log, &accepts).await?;
        Sets::begin(&file, &log).await?;
        // Who asks for figures at the end of a short run has no use for it.
        if !(self.catch_up && self.json) {
            tell(&beginning(&file, &log, partition, self.catch_up));
        }
        let began = Instant::now();
        let began_with = file.clone();
        let warned = warn_of_programs(&made, &began_with, &log);
        let judge = Judge {
            described: &self.described,
            target: &target,
            log: &log,
            programs: &programs,
            partition,
        };
        let (progress, errors) = tokio::select! {
            ended = self.run_sets(sets, &mut file, &judge, &mut reloads) => ended,
            never = warned => match never {},
        };
        programs.ended().await;
        let figures = Figures::of(&file, &log, partition.is_some(), &progress, &errors).await?;
        match self.json {
            true => output::json(&figures)?,
            false if self.catch_up && errors.is_empty() => {
                tell(&summary(&figures, began.elapsed()));
            }
            false => {}
        }
        Ok(if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Where metrics are served, if they are asked for.
    fn listener(&self) -> anyhow::Result<Option<TcpListener>> {
        let Some(address) = self.metrics else { return Ok(None) };
        match TcpListener::bind(address) {
            Ok(listener) => Ok(Some(listener)),
            Err(error) => {
                refuse!(InvalidArguments, "cannot serve metrics on {address}: {error}")
            }
        }
    }

    /// The file with the sets that are wanted of it.
    fn wanted(&self) -> anyhow::Result<File> {
        let mut file = self.described.read()?;
        self.only_wanted(&mut file)?;
        Ok(file)
    }

    fn only_wanted(&self, file: &mut File) -> anyhow::Result<()> {
        for name in &self.sets {
            if !file.sets.iter().any(|set| set.name.text == *name) {
                let known: Vec<&str> = file.sets.iter().map(|set| set.name.text.as_str()).collect();
                refuse!(
                    InvalidArguments,
                    "the file has no replica set `{name}`; it has {}",
                    known.join(", ")
                );
            }
        }
        if !self.sets.is_empty() {
            file.sets.retain(|set| self.sets.contains(&set.name.text));
        }
        if file.sets.is_empty() {
            refuse!(InvalidFile, "the file has no [[replica_set]], so there is nothing to run");
        }
        Ok(())
    }

    /// Runs all sets side by side, until the process is told to stop. What ends a set is said at once: the others may
    /// go on for days.
    async fn run_sets(
        &self,
        sets: Vec<MadeSet>,
        file: &mut File,
        judge: &Judge<'_>,
        reloads: &mut Reloads,
    ) -> (Progress, Vec<(String, RunError)>) {
        let mut running = RunningSets::new(judge.log, self.catch_up);
        sets.into_iter().for_each(|set| running.start(set));
        let mut errors = Vec::new();
        let signal = shutdown_signal();
        tokio::pin!(signal);
        let mut is_stopping = false;
        let mut narrator = self.narration.narrator();
        loop {
            tokio::select! {
                () = narrator.is_due() => {
                    let line = narrator.line(&running.progress());
                    line.iter().for_each(|line| tell(line));
                }
                ended = running.next_end() => match ended {
                    None => break,
                    Some(EndedSet { how: Ok(_), .. }) => {}
                    Some(EndedSet { name, how: Err(error), is_still_run }) => {
                        let error = anyhow::Error::from(error);
                        tell_failure(&Printed::of(&error).to_string());
                        let is_tried_again = running.lacks_some() && !is_stopping;
                        if !running.is_empty() && !is_stopping {
                            tell(&has_ended(&name, is_still_run, is_tried_again));
                        }
                        match error.downcast() {
                            // How it ends after that is its answer.
                            _ if is_tried_again => reloads.try_again(),
                            Ok(error) => errors.push((name, error)),
                            Err(_) => {}
                        }
                    }
                },
                trigger = reloads.next(), if !is_stopping && !self.catch_up => {
                    // The sets go on meanwhile, on tasks of their own.
                    tokio::select! {
                        () = &mut signal => {
                            is_stopping = true;
                            running.stop();
                        }
                        changed = self.changed(reloads, file, judge, running.lacks_some()) => {
                            let said = self.apply(changed, file, judge, &mut running).await;
                            if reloads.ended(trigger, said.as_ref().err()) {
                                say_reloaded(file, trigger, said);
                            }
                        }
                    }
                }
                () = &mut signal, if !is_stopping => {
                    is_stopping = true;
                    running.stop();
                }
            }
        }
        (running.progress(), errors)
    }

    /// The file as it is now, if it is another one and can run in the place of the one that runs.
    async fn changed(
        &self,
        reloads: &mut Reloads,
        file: &File,
        judge: &Judge<'_>,
        lacks_some: bool,
    ) -> Result<Option<File>, NotUsed> {
        let text = reloads.read(file).await?;
        if text == file.source.text && !lacks_some {
            return Ok(None);
        }
        let mut new = reload::parsed(&file.source.path, text)?;
        self.only_wanted(&mut new).map_err(|error| NotUsed::for_good(error.to_string()))?;
        judge.accepts(file, &new).await?;
        Ok(Some(new))
    }

    /// Goes on with another file: says what that changes.
    async fn apply(
        &self,
        changed: Result<Option<File>, NotUsed>,
        file: &mut File,
        judge: &Judge<'_>,
        running: &mut RunningSets,
    ) -> Result<Vec<String>, NotUsed> {
        let Some(new) = changed? else { return Ok(Vec::new()) };
        let made = Sets { programs: judge.programs.clone(), ..Sets::default() };
        let sets = made.of(&new, judge.log);
        let sets = sets.map_err(|problems| NotUsed::for_good(problems.to_string()))?;
        let sets = as_partition(sets, judge.partition);
        let accepts = match &self.accept {
            None => Accepts::None,
            Some(names) if names.is_empty() => Accepts::All,
            Some(names) => Accepts::Named(names.clone()),
        };
        // What can fail comes before what stops the code that runs.
        let begun = Sets::begin(&new, judge.log).await;
        begun.map_err(|error| NotUsed::for_now(error.to_string()))?;
        RunningSets::check(&sets).map_err(|error| NotUsed::for_good(error.to_string()))?;
        plan::accept(&sets, judge.log, &accepts).await.map_err(|error| {
            let why = format!(
                "{error}; some of its code may be accepted already, and workers with the old one stop: it is tried \
                 again soon"
            );
            NotUsed::for_now(why)
        })?;
        let said = running.apply(sets).map_err(|error| NotUsed::for_good(error.to_string()))?;
        *file = new;
        Ok(said)
    }
}

/// What is served while the sets run: dropped, it ends.
type Servers = (Option<Server>, Option<oneshot::Sender<()>>);

/// The log with metrics and the API, if they are asked for, and their servers.
async fn watched(
    log: Log,
    listener: Option<TcpListener>,
    place: Option<Place>,
) -> anyhow::Result<(Log, Servers)> {
    if listener.is_none() && place.is_none() {
        return Ok((log, (None, None)));
    }
    let watch = Watch::new(log);
    let server = listener.map(|listener| watch.serve(listener)).transpose()?;
    if let Some(server) = &server {
        let at = server.address();
        tell(&format!("metrics and health at http://{at}/metrics, /livez and /readyz"));
    }
    let mut api = None;
    if let Some(place) = place {
        let (stop, stopped) = oneshot::channel();
        drop(place.serve(&watch, stopped).await?);
        api = Some(stop);
    }
    Ok((watch.log(), (server, api)))
}

fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    serve::address_as(text, 9090)
}

/// What is said of a set that has ended with an error, while others go on.
fn has_ended(name: &str, is_still_run: bool, is_tried_again: bool) -> String {
    let goes_on = match is_still_run {
        true => "as the file says now it does not run, and it goes on as it was",
        false => "has ended; the others go on",
    };
    let again = if is_tried_again { "; it is started again in a while" } else { "" };
    format!("replica set `{name}` {goes_on}{again}")
}

/// Says what has become of a file that was read again.
fn say_reloaded(file: &File, trigger: Trigger, said: Result<Vec<String>, NotUsed>) {
    let path = file.source.path.display();
    let line = match said {
        Ok(said) if !said.is_empty() => format!("{path} has changed: {}", said.join("; ")),
        Ok(_) if trigger == Trigger::Signal => format!("{path} changes nothing that runs"),
        Ok(_) => return,
        Err(NotUsed { why, may_pass }) => {
            let later =
                if may_pass { "; it is tried again until it is used or changes" } else { "" };
            let line = format!(
                "{path} is not used as it is now, and what runs goes on as it was{later}: {why}"
            );
            return tell_failure(&line);
        }
    };
    tell(&line);
}

/// A program that cannot run is said so at once, and not with its first event, which may come at night. Its consumer
/// waits for it; the others go on.
async fn warn_of_programs(sets: &Sets, file: &File, log: &Log) -> Infallible {
    let problems = sets.greet(file, log.database().dialect().name()).await;
    if !problems.is_empty() {
        let warnings = Problems::warnings(&file.source, problems);
        let shown = warnings.render(std::io::stderr().is_terminal());
        tell_failure(&shown);
    }
    std::future::pending().await
}
