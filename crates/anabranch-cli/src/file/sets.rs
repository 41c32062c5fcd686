//! The replica sets of a file while they run: started, exchanged, stopped.

use crate::log_lines::BAR;
use anabranch::running::{Progress, SetHandle};
use anabranch::{Log, RunError};
use anabranch_file::MadeSet;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// How a set ended: its number, its name, and how.
type Ended = (usize, String, Result<Progress, RunError>);

/// The replica sets that run here, each on a task of its own.
pub(super) struct RunningSets {
    log: Log,
    /// Whether they end when everything is handled.
    catches_up: bool,
    tasks: JoinSet<Ended>,
    /// Those that the file has, by their names.
    current: BTreeMap<String, Current>,
    /// How far each is, by its number: the last that was started under a name has the highest.
    shown: Arc<Mutex<BTreeMap<usize, Progress>>>,
    stops: Vec<watch::Sender<bool>>,
    started: usize,
}

/// A set as it runs now.
struct Current {
    number: usize,
    made: MadeSet,
    handle: SetHandle,
    stop: watch::Sender<bool>,
    /// The one that it is to take over from, until it has joined: if it never does, that one goes on.
    before: Option<Before>,
}

/// A set that runs until its heir has joined.
struct Before {
    current: Box<Current>,
    is_over: Arc<AtomicBool>,
}

impl RunningSets {
    pub(super) fn new(log: &Log, catches_up: bool) -> Self {
        Self {
            log: log.clone(),
            catches_up,
            tasks: JoinSet::new(),
            current: BTreeMap::new(),
            shown: Arc::default(),
            stops: Vec::new(),
            started: 0,
        }
    }

    /// Starts a set. What is returned resolves when it has joined, and fails if it ends before that.
    pub(super) fn start(&mut self, made: MadeSet) -> oneshot::Receiver<()> {
        let number = self.started;
        self.started += 1;
        let (joined, has_joined) = oneshot::channel();
        let joined = Mutex::new(Some(joined));
        let (shown, shows) = (Arc::clone(&self.shown), self.catches_up);
        let handle = SetHandle::new();
        let set = made.set.clone().handle(&handle).on_progress(move |progress| {
            if !progress.has_ended
                && let Some(joined) = joined.lock().ok().and_then(|mut joined| joined.take())
            {
                let _ = joined.send(());
            }
            let Ok(mut all) = shown.lock() else { return };
            all.insert(number, progress.clone());
            if shows {
                BAR.show(&merged(all.values()));
            }
        });
        let (stop, mut stopped) = watch::channel(false);
        self.stops.push(stop.clone());
        let (log, catches_up, name) = (self.log.clone(), self.catches_up, made.name.clone());
        self.tasks.spawn(async move {
            let until = async move { drop(stopped.wait_for(|stop| *stop).await) };
            let ended = match catches_up {
                true => set.catch_up_until(&log, until).await,
                false => set.run_until(&log, until).await,
            };
            (number, name, ended)
        });
        self.current
            .insert(made.name.clone(), Current { number, made, handle, stop, before: None });
        has_joined
    }

    /// The next set that ends: its name, and how. Nothing if none runs.
    pub(super) async fn next_end(&mut self) -> Option<(String, Result<Progress, RunError>)> {
        let (number, name, ended) = match self.tasks.join_next().await? {
            Ok(ended) => ended,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        if self.current.get(&name).is_some_and(|current| current.number == number)
            && let Some(current) = self.current.remove(&name)
            && let Some(before) = current.before
            && !before.is_over.load(Ordering::SeqCst)
        {
            self.current.insert(name.clone(), *before.current);
        }
        Some((name, ended))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Lets all of them finish.
    pub(super) fn stop(&self) {
        for stop in &self.stops {
            let _ = stop.send(true);
        }
    }

    /// Refuses sets that could not run.
    pub(super) fn check(sets: &[MadeSet]) -> Result<(), RunError> {
        sets.iter().find_map(|made| made.set.check().into_iter().next()).map_or(Ok(()), Err)
    }

    /// Lets the sets be what a file says now, and says what that changes. Those that are the same go on; where only
    /// consumers are other ones, those are exchanged; a set that is run in another way is handed over as a whole, to one
    /// that has joined before.
    pub(super) fn apply(&mut self, sets: Vec<MadeSet>) -> Result<Vec<String>, RunError> {
        let mut said = Vec::new();
        let names: Vec<&str> = sets.iter().map(|made| made.name.as_str()).collect();
        let gone: Vec<String> =
            self.current.keys().filter(|name| !names.contains(&name.as_str())).cloned().collect();
        for name in gone {
            if let Some(current) = self.current.remove(&name) {
                let _ = current.stop.send(true);
            }
            said.push(format!("replica set `{name}` is gone, and ends"));
        }
        for made in sets {
            let name = made.name.clone();
            let Some(current) = self.current.get_mut(&name) else {
                said.push(format!("replica set `{name}` is new, and begins"));
                self.start(made);
                continue;
            };
            if current.made.run != made.run {
                said.push(format!("replica set `{name}` is run in another way, and handed over"));
                self.hand_over(made);
                continue;
            }
            let difference = difference(&current.made, &made);
            if !difference.is_empty() {
                let kept: Vec<String> = made.shared(&current.made).map(ToOwned::to_owned).collect();
                let is_kept = |name: &str| kept.iter().any(|kept| kept == name);
                current.handle.exchange(made.set.clone(), is_kept)?;
                said.extend(difference);
            }
            current.made = made;
        }
        Ok(said)
    }

    /// Starts a set anew, and stops the one that runs when it has joined.
    fn hand_over(&mut self, made: MadeSet) {
        let (name, before) = (made.name.clone(), self.current.remove(&made.name));
        let joined = self.start(made);
        let (Some(before), Some(heir)) = (before, self.current.get_mut(&name)) else { return };
        let (stop, is_over) = (before.stop.clone(), Arc::new(AtomicBool::new(false)));
        heir.before = Some(Before { current: Box::new(before), is_over: Arc::clone(&is_over) });
        tokio::spawn(async move {
            if joined.await.is_ok() {
                is_over.store(true, Ordering::SeqCst);
                let _ = stop.send(true);
            }
        });
    }

    /// How far they are, those that were started last first.
    pub(super) fn progress(&self) -> Vec<Progress> {
        let shown = self.shown.lock().map(|shown| shown.clone()).unwrap_or_default();
        shown.into_values().rev().collect()
    }
}

/// In which consumers a set differs from what it was.
fn difference(old: &MadeSet, new: &MadeSet) -> Vec<String> {
    let print = |of: &MadeSet, name: &str| {
        of.consumers.iter().find(|(known, _)| known == name).map(|(_, print)| print.clone())
    };
    let mut said = Vec::new();
    for (name, now) in &new.consumers {
        match print(old, name) {
            None => said.push(format!("`{name}` is new, and begins")),
            Some(before) if before != *now => said.push(format!("`{name}` has changed")),
            Some(_) => {}
        }
    }
    let gone = old.consumers.iter().filter(|(name, _)| print(new, name).is_none());
    said.extend(gone.map(|(name, _)| format!("`{name}` is gone, and not run here any more")));
    said
}

/// All sets as one, for one progress bar.
fn merged<'p>(all: impl Iterator<Item = &'p Progress>) -> Progress {
    let mut one = Progress::default();
    one.has_ended = true;
    for progress in all {
        one.consumers.extend(progress.consumers.iter().cloned());
        one.has_ended &= progress.has_ended;
    }
    one
}
