//! A file that changes while it is run: read when it is complete, and judged before anything is stopped.

use super::Described;
use crate::target::Target;
use anabranch::{FixedPartition, Log};
use anabranch_file::file::{File, Problems, Source};
use anabranch_file::program::Programs;
use anabranch_file::{CheckError, FilePlan, PlanError, check, plan};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

/// How often a file is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A file that is the same after this time is not being written.
const STILL: Duration = Duration::from_millis(200);
/// How soon a file is tried again that could not be used.
const AGAIN: Duration = Duration::from_secs(5);
/// How soon a set is started again that has failed.
const BEGIN_AGAIN: Duration = Duration::from_secs(30);
/// How often it is looked at for that.
const LOOKS: usize = 25;

/// Says when a file is to be read again.
pub(super) struct Reloads {
    path: PathBuf,
    watches: bool,
    /// The text that was read last, whether or not it could be used.
    seen: Arc<str>,
    /// When it is tried again, if it could not be used.
    again: Option<Instant>,
    /// Why it could not be used, as it was told.
    said: Option<String>,
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

/// Why a file is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// Somebody has said so.
    Signal,
    /// It is another one.
    Changed,
    /// It could not be used a while ago, for a reason that may be gone.
    Again,
}

/// Why a file is not used.
#[derive(Debug)]
pub(super) struct NotUsed {
    pub(super) why: String,
    /// Whether it may be used later as it is: what stands against it is in the database.
    pub(super) may_pass: bool,
}

impl NotUsed {
    /// For as long as it is as it is.
    pub(super) fn for_good(why: impl Into<String>) -> Self {
        Self { why: why.into(), may_pass: false }
    }

    /// For now.
    pub(super) fn for_now(why: impl Into<String>) -> Self {
        Self { why: why.into(), may_pass: true }
    }
}

impl Reloads {
    /// A run that ends by itself leaves the signal as it is: closing the terminal ends it.
    pub(super) fn new(file: &File, watches: bool, hears: bool) -> Self {
        #[cfg(unix)]
        let hangup = {
            use tokio::signal::unix::{SignalKind, signal};
            hears.then(|| signal(SignalKind::hangup()).ok()).flatten()
        };
        let (path, seen) = (file.source.path.clone(), Arc::clone(&file.source.text));
        let (again, said) = (None, None);
        Self {
            path,
            watches,
            seen,
            again,
            said,
            #[cfg(unix)]
            hangup,
        }
    }

    /// Waits until the file is to be read again.
    pub(super) async fn next(&mut self) -> Trigger {
        #[cfg(unix)]
        let hangup = async {
            if let Some(hangup) = &mut self.hangup
                && hangup.recv().await.is_some()
            {
                return;
            }
            std::future::pending().await
        };
        #[cfg(not(unix))]
        let hangup = std::future::pending::<()>();
        let changed = changed(&self.path, &self.seen, self.watches);
        let again = async {
            match self.again {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = hangup => Trigger::Signal,
            () = changed => Trigger::Changed,
            () = again => Trigger::Again,
        }
    }

    /// Something of the file has failed that was begun because the file had changed: it is tried again, and not too soon.
    pub(super) fn try_again(&mut self) {
        self.again = Some(Instant::now() + BEGIN_AGAIN);
    }

    /// What has become of it. Says whether that is to be told: not what was told before.
    pub(super) fn ended(&mut self, trigger: Trigger, not_used: Option<&NotUsed>) -> bool {
        self.again = not_used.filter(|it| it.may_pass).map(|_| Instant::now() + AGAIN);
        let said = not_used.map(|it| it.why.clone());
        let is_new = said != self.said;
        self.said = said;
        is_new || trigger != Trigger::Again
    }

    /// Reads the file when it is not being written; or says what is wrong with it.
    pub(super) async fn read(&mut self, running: &File) -> Result<Arc<str>, NotUsed> {
        self.read_still(running).await.map_err(NotUsed::for_good)
    }

    async fn read_still(&mut self, running: &File) -> Result<Arc<str>, String> {
        let (path, shown) = (&self.path, self.path.display());
        let read =
            || std::fs::read_to_string(path).map_err(|error| format!("cannot read it: {error}"));
        let mut text = read()?;
        for _ in 0..LOOKS {
            sleep(STILL).await;
            let again = read()?;
            if again == text {
                let text: Arc<str> = text.into();
                let ended = running.source.text.ends_with('\n');
                self.seen = Arc::clone(&text);
                return match text.trim().is_empty() {
                    true => Err("it is empty".to_owned()),
                    false if ended && !text.ends_with('\n') => Err(
                        "it ends in the middle of a line, as one that is not written to its end; end it with a line \
                         break"
                            .to_owned(),
                    ),
                    false => Ok(text),
                };
            }
            text = again;
        }
        Err(format!("{shown} does not stop changing"))
    }
}

/// Waits until a file has another text.
async fn changed(path: &Path, seen: &str, watches: bool) {
    if !watches {
        return std::future::pending().await;
    }
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        // One that is away for the moment, as while an editor replaces it, has not changed.
        if std::fs::read_to_string(path).is_ok_and(|text| text != seen) {
            return;
        }
    }
}

/// What a file must agree with while it is run.
pub(super) struct Judge<'j> {
    pub(super) described: &'j Described,
    pub(super) target: &'j Target,
    pub(super) log: &'j Log,
    pub(super) programs: &'j Programs,
    pub(super) partition: Option<FixedPartition>,
}

impl Judge<'_> {
    /// Whether the sets of a file can run in the place of those of another: else why not. Nothing is changed.
    pub(super) async fn accepts(&self, old: &File, new: &File) -> Result<(), NotUsed> {
        let target = self.described.target(new);
        let target = target.map_err(|error| NotUsed::for_good(error.to_string()))?;
        let Target { url, namespace, events_url } = self.target;
        if (&target.url, &target.namespace, &target.events_url) != (url, namespace, events_url) {
            let why = "it names another database or namespace, which needs a restart";
            return Err(NotUsed::for_good(why));
        }
        for (set, name) in old.consumers() {
            let is_it = |(_, other): &(_, &anabranch_file::file::Text)| other.text == name.text;
            if let Some((other, _)) = new.consumers().find(is_it)
                && other.name.text != set.name.text
            {
                return Err(NotUsed::for_good(format!(
                    "`{}` is in replica set `{}` and was in `{}`: to rename a set, or to move a consumer to \
                     another one, needs a restart",
                    name.text, other.name.text, set.name.text
                )));
            }
        }
        match check(new, self.log, self.programs).await {
            Ok(_) => {}
            // Some of them are about what is stored.
            Err(CheckError::Problems(problems)) => {
                return Err(NotUsed::for_now(rendered(&problems)));
            }
            Err(CheckError::Store(error)) => return Err(NotUsed::for_now(error.to_string())),
        }
        match plan(new, self.log, |_| false).await {
            Ok(planned) => refusal(&planned).map_err(NotUsed::for_now),
            Err(PlanError::Problems(problems)) => Err(NotUsed::for_good(rendered(&problems))),
            Err(PlanError::Store(error)) => Err(NotUsed::for_now(error.to_string())),
        }
    }
}

/// A file from a text that was read.
pub(super) fn parsed(path: &Path, text: Arc<str>) -> Result<File, NotUsed> {
    let parsed = File::parse(&Source::new(path, text));
    parsed.map_err(|problems| NotUsed::for_good(rendered(&problems)))
}

/// What would be refused.
fn refusal(planned: &FilePlan) -> Result<(), String> {
    let consumers = planned.consumers.iter().filter(|one| one.refused);
    let consumers = consumers.map(|one| format!("`{}` is refused: {}", one.name, one.says));
    let all: Vec<String> = planned.refused.iter().cloned().chain(consumers).collect();
    if all.is_empty() { Ok(()) } else { Err(all.join("\n")) }
}

fn rendered(problems: &Problems) -> String {
    problems.render(std::io::stderr().is_terminal())
}
