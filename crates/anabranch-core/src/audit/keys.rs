//! Nothing overtakes an event of its key: when which events of each key were set aside within a window.

use super::{RowPlace, Seen, Violation};
use crate::{Position, Slot};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// By slot and key. Few keys fail, so this is small.
#[derive(Debug, Default)]
pub(super) struct Keys {
    keys: HashMap<Slot, HashMap<String, Key>>,
}

#[derive(Debug, Default)]
struct Key {
    spans: Vec<Span>,
    /// While anything of the key was set aside: from row to row, with the first event of that time.
    times: BTreeMap<u64, (u64, Arc<Seen>)>,
}

/// From which row to which row an event was set aside, by their numbers.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) event: Arc<Seen>,
    pub(super) from: u64,
    /// The row that ended it; the highest number if none did.
    pub(super) to: u64,
    /// The row that handed it to the handler.
    pub(super) tried_by: Option<Arc<RowPlace>>,
}

impl Keys {
    pub(super) fn add(&mut self, span: Span) {
        let event = Arc::clone(&span.event);
        let (Some(slot), Some(name)) = (event.slot, &event.key) else { return };
        let keys = self.keys.entry(slot).or_default();
        if !keys.contains_key(name) {
            keys.insert(name.clone(), Key::default());
        }
        if let Some(key) = keys.get_mut(name) {
            key.join(&span);
            key.spans.push(span);
        }
    }

    /// The event of the same key, and before this one, that was set aside when this row handed it to the handler.
    pub(super) fn waiting(&self, event: &Seen, row: u64) -> Option<&Arc<Seen>> {
        let key = self.keys.get(&event.slot?)?.get(event.key.as_ref()?)?;
        let (_, (to, first)) = key.times.range(..=row).next_back()?;
        (*to > row && first.position < event.position).then_some(first)
    }

    /// Whether what was tried again was always the first of its key.
    pub(super) fn close(&mut self) -> Result<(), Violation> {
        std::mem::take(&mut self.keys)
            .into_values()
            .flat_map(HashMap::into_values)
            .try_for_each(Key::close)
    }
}

impl Key {
    /// Times that overlap become one, so that there are few.
    fn join(&mut self, span: &Span) {
        let (mut from, mut to, mut first) = (span.from, span.to, &span.event);
        let mut joined = Vec::new();
        for (begin, (end, event)) in self.times.range(..to).rev() {
            if *end <= from {
                break;
            }
            joined.push(*begin);
            (from, to) = (from.min(*begin), to.max(*end));
            if event.position < first.position {
                first = event;
            }
        }
        let first = Arc::clone(first);
        joined.iter().for_each(|begin| drop(self.times.remove(begin)));
        self.times.insert(from, (to, first));
    }

    fn close(mut self) -> Result<(), Violation> {
        if self.spans.iter().all(|span| span.tried_by.is_none()) {
            return Ok(());
        }
        // What ended at a row was set aside until there, what began at one is since then.
        let mut changes: Vec<(u64, bool, usize)> = Vec::new();
        for (number, span) in self.spans.iter().enumerate() {
            changes.push((span.from, true, number));
            changes.push((span.to, false, number));
        }
        changes.sort_unstable();
        let mut aside: BTreeSet<(Position, usize)> = BTreeSet::new();
        for same in changes.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let place = |number: usize| (self.spans[number].event.position, number);
            for (_, begins, number) in same {
                match begins {
                    true => aside.insert(place(*number)),
                    false => aside.remove(&place(*number)),
                };
            }
            let Some((waiting, first)) = aside.first().copied() else { continue };
            for (_, begins, number) in same {
                let span = &mut self.spans[*number];
                if *begins || span.event.position < waiting {
                    continue;
                }
                if let Some(row) = span.tried_by.take() {
                    let event = span.event.place();
                    let aside = self.spans[first].event.place();
                    return Err(Violation::Overtaken { row: RowPlace::clone(&row), event, aside });
                }
            }
        }
        Ok(())
    }
}
