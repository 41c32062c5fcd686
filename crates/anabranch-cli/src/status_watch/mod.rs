//! `anabranch status --watch`: the consumers, the replica sets and a map of slots in a terminal, as they change.
//!
//! What is drawn is a pure function of what was seen, of what somebody has chosen, and of the size of the terminal.
//!
//! | module | subject |
//! |---|---|
//! | `look` | one look at the log |
//! | `picture` | what was seen, beside the look before |
//! | `draw` | the whole picture as lines |
//! | `overview` | consumers and replica sets, a line each |
//! | `map` | all slots of a consumer |
//! | `why` | why a slot does not go on, in a few words and a colour |
//! | `line` | a line, its styles and its width |
//! | `keys` | the keys, and what they mean |

mod draw;
mod keys;
mod line;
mod look;
mod map;
mod overview;
mod picture;
mod why;

use crate::refusal::{Printed, refuse_unless};
use crate::target::Target;
use anabranch::Log;
use anabranch_terminal::cut_short::{CutShort, signalled};
use anabranch_terminal::screen::Screen;
use anyhow::Context;
use draw::{View, draw};
use futures_util::poll;
use keys::{Key, keys};
use look::{Looked, look};
use picture::{Memory, Picture};
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// A look that takes longer than this is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shows how the consumers stand until somebody ends it.
pub(crate) async fn watch(
    target: &Target,
    only: Option<String>,
    every: Duration,
) -> anyhow::Result<ExitCode> {
    refuse_unless!(
        Screen::is_there(),
        InvalidArguments,
        "--watch draws on a terminal, and standard output is none; for programs there is `anabranch status --json`"
    );
    let log = target.connect().await?;
    // What is wrong from the start is an error like any other.
    let first = look(log.clone(), only.clone()).await?;
    let mut watching = Watching::new(log, only, every, &first);
    // It listens from here on: no signal ends the process while nobody would give the screen back.
    let mut ended = pin!(signalled());
    if let Poll::Ready(cut) = poll!(ended.as_mut()) {
        return Err(cut.into());
    }
    let screen = Screen::take()?;
    watching.run(&screen, ended).await
}

struct Watching {
    log: Log,
    only: Option<String>,
    every: Duration,
    view: View,
    picture: Picture,
    memory: Memory,
    /// When the picture was seen.
    seen: Instant,
    /// Why no look has succeeded since.
    error: Option<String>,
    /// The look that is under way, and since when.
    looking: Option<(Instant, JoinHandle<anyhow::Result<Looked>>)>,
}

impl Watching {
    fn new(log: Log, only: Option<String>, every: Duration, first: &Looked) -> Self {
        let mut memory = Memory::default();
        let picture = Picture::of(first, &mut memory);
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let every_in_words = format!("{} s", every.as_secs_f64());
        let view = View { every: every_in_words, has_colours, ..View::default() };
        let (seen, error, looking) = (first.at, None, None);
        Self { log, only, every, view, picture, memory, seen, error, looking }
    }

    async fn run(
        &mut self,
        screen: &Screen,
        mut ended: Pin<&mut impl Future<Output = CutShort>>,
    ) -> anyhow::Result<ExitCode> {
        let mut pressed = screen.keys();
        let mut resized = signal(SignalKind::window_change())?;
        let mut clock = tokio::time::interval(self.every);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // It is drawn at once, and the next look is one interval later.
        clock.reset();
        let mut has_keys = true;
        loop {
            // A panic anywhere has given the screen back, and was told.
            anyhow::ensure!(Screen::is_taken(), "a part of the program has panicked");
            self.show(screen)?;
            tokio::select! {
                cut = ended.as_mut() => return match cut {
                    CutShort::Interrupted => Ok(ExitCode::SUCCESS),
                    cut => Err(cut.into()),
                },
                bytes = pressed.recv(), if has_keys => match bytes {
                    Some(bytes) => {
                        if keys(&bytes).into_iter().any(|key| self.press(key)) {
                            return Ok(ExitCode::SUCCESS);
                        }
                    }
                    None => has_keys = false,
                },
                _ = resized.recv() => {}
                looked = looked(&mut self.looking) => self.take(looked),
                _ = clock.tick() => self.look(),
            }
        }
    }

    /// Begins to look, unless it is paused, or the last look is still under way.
    fn look(&mut self) {
        if self.looking.is_none() && !self.view.is_paused {
            let look = Box::pin(look(self.log.clone(), self.only.clone()));
            self.looking = Some((Instant::now(), tokio::spawn(look)));
        }
    }

    /// Takes what was seen; where nothing was, the picture stays.
    fn take(&mut self, looked: anyhow::Result<Looked>) {
        self.looking = None;
        match looked {
            Ok(looked) => {
                self.seen = looked.at;
                self.picture = Picture::of(&looked, &mut self.memory);
                self.error = None;
            }
            Err(error) => self.error = Some(Printed::of(&error).to_string()),
        }
    }

    fn show(&mut self, screen: &Screen) -> anyhow::Result<()> {
        let late = self.looking.as_ref().filter(|(since, _)| since.elapsed() > PATIENCE);
        let wrong = match (&self.error, late) {
            (Some(error), _) => Some(error.clone()),
            (None, Some(_)) => Some("the database has not answered yet".to_owned()),
            (None, None) => None,
        };
        let ago = self.seen.elapsed().as_secs();
        // First what fits any terminal.
        self.view.error = wrong.map(|wrong| format!("seen {ago} s ago; {wrong}"));
        let lines = draw(&self.picture, &self.view, screen.size());
        let has_colours = self.view.has_colours;
        screen.show(lines.iter().map(|line| (line.width(), line.painted(has_colours))))
    }

    /// Does what a key means; says whether it is the end.
    fn press(&mut self, key: Key) -> bool {
        let view = &mut self.view;
        match key {
            Key::End => return true,
            Key::By(by) => view.by = by,
            Key::Pause => view.is_paused = !view.is_paused,
            Key::Help => view.shows_help = !view.shows_help,
            Key::Back => view.shows_help = false,
            Key::Next => self.choose(1),
            Key::Previous => self.choose(self.picture.consumers.len().saturating_sub(1)),
        }
        false
    }

    /// Chooses the consumer that is so many further on.
    fn choose(&mut self, further: usize) {
        let consumers = &self.picture.consumers;
        if !consumers.is_empty() {
            let next = (self.view.chosen(&self.picture) + further) % consumers.len();
            self.view.chosen = Some(consumers[next].name.clone());
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some((_, looking)) = &self.looking {
            looking.abort();
        }
    }
}

/// Waits for the look that is under way.
async fn looked(
    looking: &mut Option<(Instant, JoinHandle<anyhow::Result<Looked>>)>,
) -> anyhow::Result<Looked> {
    match looking {
        Some((_, looking)) => looking.await.context("a look has ended by itself")?,
        None => std::future::pending().await,
    }
}
