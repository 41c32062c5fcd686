//! How rows go on from each other: each slot has one last row, and the next row of a slot goes on from there.

use super::row_ids::RowIds;
use super::shape::place;
use super::{Record, RecordKind, RowPlace, Violation};
use crate::{Position, SlotSet};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The last rows, and which rows there were.
#[derive(Debug)]
pub(super) struct Chain {
    /// The slots of the consumer.
    all: SlotSet,
    /// Those whose record has begun. Each of them is in one tip.
    begun: SlotSet,
    tips: BTreeMap<i64, Tip>,
    seen: RowIds,
    /// The slots of the rows of this window, to say what two branches share.
    recent: HashMap<i64, Arc<SlotSet>>,
}

/// The last row of some slots.
#[derive(Debug)]
pub(super) struct Tip {
    pub(super) slots: Arc<SlotSet>,
    /// Whether these are all slots of the row; others have gone on from it otherwise.
    is_whole: bool,
    pub(super) position: Position,
    /// The segment of the window to which the row belongs.
    pub(super) segment: Option<usize>,
}

/// What a row goes on from.
#[derive(Debug)]
pub(super) struct Linked {
    pub(super) slots: Arc<SlotSet>,
    /// Where its slots were.
    pub(super) starts: Vec<(Position, Arc<SlotSet>)>,
    /// The segment of the only row before it, if no slots were added or left behind.
    pub(super) segment: Option<usize>,
}

impl Linked {
    pub(super) fn place(&self, record: &Record) -> RowPlace {
        RowPlace { slots: SlotSet::clone(&self.slots), ..place(record) }
    }
}

impl Chain {
    pub(super) fn new(all: SlotSet) -> Self {
        let (begun, tips, seen) = (SlotSet::empty(), BTreeMap::new(), RowIds::default());
        Self { all, begun, tips, seen, recent: HashMap::new() }
    }

    pub(super) fn knows(&self, row: i64) -> bool {
        self.seen.contains(row)
    }

    pub(super) fn all(&self) -> &SlotSet {
        &self.all
    }

    pub(super) fn tips(&self) -> &BTreeMap<i64, Tip> {
        &self.tips
    }

    /// Rows that go on from this last one belong to this segment.
    pub(super) fn continue_in(&mut self, row: i64, segment: Option<usize>) {
        if let Some(tip) = self.tips.get_mut(&row) {
            tip.segment = segment;
        }
    }

    /// The lowest position of all slots.
    pub(super) fn lowest(&self) -> Position {
        self.tips.values().map(|tip| tip.position).min().unwrap_or_default()
    }

    /// The window is done, and its segments with it.
    pub(super) fn forget_segments(&mut self) {
        self.tips.values_mut().for_each(|tip| tip.segment = None);
        self.recent = self.tips.iter().map(|(row, tip)| (*row, Arc::clone(&tip.slots))).collect();
    }

    /// The next row. It is the last one of its slots from now on.
    pub(super) fn link(&mut self, record: &Record) -> Result<Linked, Violation> {
        if self.seen.contains(record.id) {
            return Err(Violation::RowTwice { row: place(record) });
        }
        let linked = match record.kind {
            RecordKind::Begin | RecordKind::Proven => self.begin(record)?,
            _ => self.go_on(record)?,
        };
        self.seen.insert(record.id);
        let slots = Arc::clone(&linked.slots);
        self.recent.insert(record.id, Arc::clone(&slots));
        let tip = Tip { slots, is_whole: true, position: record.to, segment: linked.segment };
        self.tips.insert(record.id, tip);
        Ok(linked)
    }

    fn begin(&mut self, record: &Record) -> Result<Linked, Violation> {
        let row = place(record);
        if let Some(slot) = row.slots.difference(&self.all).iter().next() {
            return Err(Violation::SlotFromNowhere { row, slot });
        }
        if let Some(slot) = row.slots.intersection(&self.begun).iter().next() {
            let last = self.last_row(&SlotSet::from_slot(slot)).unwrap_or_default();
            return Err(Violation::BegunTwice { row, slot, last });
        }
        self.begun = self.begun.union(&row.slots);
        let slots = Arc::new(row.slots);
        let starts = vec![(record.from, Arc::clone(&slots))];
        Ok(Linked { slots, starts, segment: None })
    }

    fn go_on(&mut self, record: &Record) -> Result<Linked, Violation> {
        if let Some(parent) = record.parents.iter().find(|parent| !self.knows(**parent)) {
            return Err(Violation::ParentMissing { row: place(record), parent: *parent });
        }
        let linked = match &record.slots {
            None => self.inherit(record, record.parents[0])?,
            Some(slots) => self.gather(record, slots)?,
        };
        self.check_positions(record, &linked)?;
        Ok(linked)
    }

    /// All slots of the only parent.
    fn inherit(&mut self, record: &Record, parent: i64) -> Result<Linked, Violation> {
        match self.tips.remove(&parent) {
            Some(tip) if tip.is_whole => {
                let starts = vec![(tip.position, Arc::clone(&tip.slots))];
                Ok(Linked { slots: tip.slots, starts, segment: tip.segment })
            }
            tip => {
                let left = tip.map_or_else(SlotSet::empty, |tip| SlotSet::clone(&tip.slots));
                let had = self.recent.get(&parent);
                Err(self.fork(record, parent, had.map(|had| had.difference(&left))))
            }
        }
    }

    /// These slots, from whichever parents they are.
    fn gather(&mut self, record: &Record, slots: &SlotSet) -> Result<Linked, Violation> {
        let mut rest = slots.clone();
        let mut starts = Vec::new();
        let mut segment = None;
        // The parent of which slots have gone on otherwise.
        let mut divided = None;
        for parent in &record.parents {
            let Some(tip) = self.tips.get_mut(parent) else {
                divided = divided.or(Some(*parent));
                continue;
            };
            if !tip.is_whole {
                divided = divided.or(Some(*parent));
            }
            let taken = tip.slots.intersection(slots);
            if taken.is_empty() {
                continue;
            }
            rest = rest.difference(&taken);
            let left = tip.slots.difference(&taken);
            let position = tip.position;
            if left.is_empty() {
                // What has fewer slots now than its row is no run with it.
                segment = tip.segment.filter(|_| tip.is_whole && record.parents.len() == 1);
                self.tips.remove(parent);
            } else {
                tip.slots = Arc::new(left);
                tip.is_whole = false;
            }
            starts.push((position, Arc::new(taken)));
        }
        let first = rest.iter().next();
        if let Some(slot) = first {
            return Err(match divided {
                Some(parent) if self.begun.contains(slot) => self.fork(record, parent, Some(rest)),
                _ => Violation::SlotFromNowhere { row: place(record), slot },
            });
        }
        if starts.len() < record.parents.len() {
            let problem = "it goes on from a row of which it has no slots";
            return Err(Violation::Contradiction { row: place(record), problem });
        }
        Ok(Linked { slots: Arc::new(slots.clone()), starts, segment })
    }

    fn check_positions(&self, record: &Record, linked: &Linked) -> Result<(), Violation> {
        let positions = || linked.starts.iter().map(|(position, _)| *position);
        let (lowest, highest) = (positions().min(), positions().max());
        let (lowest, highest) = (lowest.unwrap_or_default(), highest.unwrap_or_default());
        if record.from != lowest {
            let stood = linked.starts.iter().find(|(position, _)| *position == lowest);
            let slot =
                stood.and_then(|(_, slots)| slots.iter().next()).unwrap_or(crate::Slot::ZERO);
            return Err(Violation::Moved { row: linked.place(record), slot, ended: lowest });
        }
        let problem = match record.kind {
            RecordKind::Step if record.to < highest => "it goes back, and is no replay",
            RecordKind::Join | RecordKind::Retry | RecordKind::Skip if lowest < highest => {
                "it goes on from rows at several positions and covers nothing"
            }
            _ => return Ok(()),
        };
        Err(Violation::Contradiction { row: linked.place(record), problem })
    }

    /// `shared` are the slots of both branches, if that is known.
    fn fork(&self, record: &Record, parent: i64, shared: Option<SlotSet>) -> Violation {
        let slot = shared.as_ref().and_then(|slots| slots.iter().next());
        let last = slot.and_then(|slot| self.last_row(&SlotSet::from_slot(slot)));
        Violation::Fork { row: place(record), parent, slot, last }
    }

    /// The last row of some of these slots.
    pub(super) fn last_row(&self, slots: &SlotSet) -> Option<i64> {
        self.tips.iter().find(|(_, tip)| !tip.slots.is_disjoint(slots)).map(|(row, _)| *row)
    }
}
