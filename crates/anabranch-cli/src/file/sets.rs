//! The replica sets of a file while they run: started, exchanged, stopped.

use crate::log_lines::BAR;
use anabranch::events::{Happening, Notice};
use anabranch::running::{ConsumerProgress, Progress, SetHandle};
use anabranch::{Log, RunError};
use anabranch_file::MadeSet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// How a task of a set ended: its number, its name, and how.
type Ended = (usize, String, Result<Progress, RunError>);

/// A set that has ended.
pub(super) struct EndedSet {
    pub(super) name: String,
    pub(super) how: Result<Progress, RunError>,
    /// Whether the one that it was to take over from goes on.
    pub(super) is_still_run: bool,
}

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
    /// Whether something that the file has was started in a reload, and has failed.
    lacks: bool,
    /// Those of which a run has failed, and was not begun again.
    failed: BTreeSet<String>,
    /// Those that the file has no more.
    gone: BTreeSet<String>,
}

/// A set as it runs now.
struct Current {
    number: usize,
    /// Whether it was started because the file has changed.
    is_reload: bool,
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

impl Current {
    /// What ends it, and those that it has not taken over from yet.
    fn chain(&self) -> Vec<(watch::Sender<bool>, Option<Arc<AtomicBool>>)> {
        let mut all =
            vec![(self.stop.clone(), self.before.as_ref().map(|it| Arc::clone(&it.is_over)))];
        all.extend(self.before.iter().flat_map(|before| before.current.chain()));
        all
    }

    /// Ends it, and those that it has not taken over from yet: nothing of the set is left.
    fn end(&self) {
        end(&self.chain());
    }

    /// One that it was to take over from, at once or by another, has ended by itself.
    fn forget(&mut self, number: usize) {
        match &mut self.before {
            Some(before) if before.current.number == number => {
                self.before = before.current.before.take();
            }
            Some(before) => before.current.forget(number),
            None => {}
        }
    }
}

fn end(chain: &[(watch::Sender<bool>, Option<Arc<AtomicBool>>)]) {
    for (stop, is_over) in chain {
        if let Some(is_over) = is_over {
            is_over.store(true, Ordering::SeqCst);
        }
        let _ = stop.send(true);
    }
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
            lacks: false,
            failed: BTreeSet::new(),
            gone: BTreeSet::new(),
        }
    }

    /// Starts a set.
    pub(super) fn start(&mut self, made: MadeSet) {
        drop(self.start_as(made, false));
    }

    /// Starts a set. What is returned resolves when it has joined, and fails if it ends before that.
    fn start_as(&mut self, made: MadeSet, is_reload: bool) -> oneshot::Receiver<()> {
        let number = self.started;
        self.started += 1;
        self.failed.remove(&made.name);
        self.gone.remove(&made.name);
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
        let name = made.name.clone();
        let current = Current { number, is_reload, made, handle, stop, before: None };
        self.current.insert(name, current);
        has_joined
    }

    /// The next set that ends. Nothing if none runs.
    pub(super) async fn next_end(&mut self) -> Option<EndedSet> {
        let (number, name, how) = match self.tasks.join_next().await? {
            Ok(ended) => ended,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        let mut is_still_run = false;
        match self.current.get_mut(&name) {
            Some(current) if current.number == number => {
                self.lacks |= current.is_reload && how.is_err();
                let before = self.current.remove(&name).and_then(|current| current.before);
                if let Some(before) = before
                    && !before.is_over.load(Ordering::SeqCst)
                {
                    is_still_run = true;
                    self.current.insert(name.clone(), *before.current);
                }
            }
            Some(current) => current.forget(number),
            None => {}
        }
        match how.is_err() {
            true if self.gone.contains(&name) => self.is_not_wanted(&name),
            true => drop(self.failed.insert(name.clone())),
            false => {}
        }
        Some(EndedSet { name, how, is_still_run })
    }

    /// Whether something of the file does not run that was started because the file has changed: the same file is to be
    /// applied again.
    pub(super) fn lacks_some(&self) -> bool {
        self.lacks
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
        self.lacks = false;
        let mut said = Vec::new();
        let names: Vec<&str> = sets.iter().map(|made| made.name.as_str()).collect();
        let gone: Vec<String> =
            self.current.keys().filter(|name| !names.contains(&name.as_str())).cloned().collect();
        for name in gone {
            if let Some(current) = self.current.remove(&name) {
                current.end();
            }
            said.push(format!("replica set `{name}` is gone, and ends"));
            self.gone.insert(name);
        }
        let is_wanted = |name: &String| names.contains(&name.as_str());
        let (wanted, gone) = std::mem::take(&mut self.failed).into_iter().partition(is_wanted);
        self.failed = wanted;
        let gone: BTreeSet<String> = gone;
        gone.iter().for_each(|name| self.is_not_wanted(name));
        for made in sets {
            let name = made.name.clone();
            let Some(current) = self.current.get_mut(&name) else {
                said.push(format!("replica set `{name}` is new, and begins"));
                drop(self.start_as(made, true));
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
            // What has failed was to be another one, and the file is as it was before.
            if self.failed.remove(&name) {
                self.is_not_wanted(&name);
            }
        }
        Ok(said)
    }

    /// Nobody waits any more for what has failed of a set.
    fn is_not_wanted(&self, name: &str) {
        let removed = Happening::noticed(Notice::FailureRemoved, None);
        self.log.events().clone().in_set(name).emit(removed);
    }

    /// Starts a set anew, and stops the one that runs when it has joined.
    fn hand_over(&mut self, made: MadeSet) {
        let (name, before) = (made.name.clone(), self.current.remove(&made.name));
        let joined = self.start_as(made, true);
        let (Some(before), Some(heir)) = (before, self.current.get_mut(&name)) else { return };
        let is_over = Arc::new(AtomicBool::new(false));
        heir.before = Some(Before { current: Box::new(before), is_over });
        // Whatever has not been taken over from yet: an heir that is replaced before it has joined never will.
        let mut chain = heir.chain();
        let (_, is_over) = chain.remove(0);
        tokio::spawn(async move {
            if joined.await.is_ok() {
                is_over.iter().for_each(|is_over| is_over.store(true, Ordering::SeqCst));
                end(&chain);
            }
        });
    }

    /// How far the consumers are that were run here.
    pub(super) fn progress(&self) -> Progress {
        let shown = self.shown.lock().map(|shown| shown.clone()).unwrap_or_default();
        of_consumers(shown.into_values().rev())
    }
}

/// Each consumer as the set says that was started last, with what all of them have handled. The sets that were started
/// last come first.
fn of_consumers(sets: impl Iterator<Item = Progress>) -> Progress {
    let mut all: Vec<ConsumerProgress> = Vec::new();
    for consumer in sets.flat_map(|progress| progress.consumers) {
        match all.iter_mut().find(|known| known.name == consumer.name) {
            Some(known) => known.handled += consumer.handled,
            None => all.push(consumer),
        }
    }
    let mut one = Progress::default();
    one.consumers = all;
    one
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_set_has_handled_counts_after_it_was_handed_over() {
        let of = |handled, parked| {
            let mut consumer = ConsumerProgress::default();
            (consumer.name, consumer.handled, consumer.parked) =
                ("totals".to_owned(), handled, parked);
            let mut one = Progress::default();
            one.consumers = vec![consumer];
            one
        };
        let all = of_consumers([of(5, 1), of(100, 7)].into_iter());
        let seen: Vec<_> = all.consumers.iter().map(|one| (one.handled, one.parked)).collect();
        assert_eq!(seen, [(105, 1)]);
    }
}
