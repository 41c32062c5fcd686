//! The prover: rows of the record and events of the log go in, a proof or the first violation comes out.

use super::by_position::ByPosition;
use super::chain::{Chain, Linked};
use super::ledger::Ledger;
use super::segment::{Row, Segment};
use super::window::Window;
use super::{EventPlace, Proven, Record, RecordKind, RowPlace, Violation, shape};
use crate::{Position, Slot, SlotSet};
use std::sync::Arc;
use uuid::Uuid;

/// Proves that each event was handed to the handler once and in order, or finds the first that was not.
///
/// Rows come in windows of any size: each row of a window by [`record`](Self::record), parents before children; then the
/// events that [`wanted`](Self::wanted) names by [`found`](Self::found), then all matching events of
/// [`ranges`](Self::ranges) by [`event`](Self::event), then those that are [`unsettled`](Self::unsettled) by
/// [`found`](Self::found), then [`close`](Self::close). After the last window
/// [`end`](Self::end) compares with the cursors. What it keeps is bounded by one window, the cursors, what is set aside, and
/// with a custom key by what the cursors are apart. After a violation it can prove nothing more.
///
/// ```
/// use anabranch_core::audit::{AuditedCursor, Digester, Prover, Record, RecordKind, Seen};
/// use anabranch_core::{Position, Slot, SlotSet};
/// use std::collections::BTreeSet;
/// let (slots, id) = (SlotSet::from_slot(Slot::ZERO), uuid::Uuid::from_u128(7));
/// let mut digester = Digester::new();
/// digester.add(Position::new(1), &id);
/// let begin = Record {
///     id: 1,
///     kind: RecordKind::Begin,
///     parents: vec![],
///     slots: Some(slots.clone()),
///     from: Position::START,
///     to: Position::START,
///     count: 0,
///     digest: None,
///     handed: None,
///     aside: vec![],
///     skipped: vec![],
/// };
/// let step = Record {
///     id: 2,
///     kind: RecordKind::Step,
///     parents: vec![1],
///     slots: None,
///     to: Position::new(3),
///     count: digester.count(),
///     digest: digester.finish(),
///     ..begin.clone()
/// };
///
/// let mut prover = Prover::new(slots.clone(), true);
/// prover.record(begin)?;
/// prover.record(step)?;
/// assert_eq!(prover.wanted(), []);
/// assert_eq!(prover.ranges(), [(Position::START, Position::new(3))]);
/// prover.event(Seen {
///     position: Position::new(1),
///     id,
///     slot: Some(Slot::ZERO),
///     key: Some("Order:ord-1".to_owned()),
///     name: "Paid Order:ord-1@1".to_owned(),
/// })?;
/// prover.close()?;
/// let cursor = AuditedCursor { slots, position: Position::new(3), record: Some(2) };
/// let proven = prover.end(&[cursor], &BTreeSet::new())?;
/// assert_eq!((proven.rows, proven.handed, proven.up_to), (2, 1, Position::new(3)));
/// // Row 2 becomes a `proven` row when the others are deleted.
/// assert_eq!(prover.checkpoint()[0].record, 2);
/// # Ok::<(), anabranch_core::audit::Violation>(())
/// ```
#[derive(Debug)]
pub struct Prover {
    pub(super) chain: Chain,
    pub(super) ledger: Ledger,
    /// Where slots are unknown.
    pub(super) by_position: Option<ByPosition>,
    window: Window,
    is_ready: bool,
    /// The last event of this window.
    last: Option<Position>,
    pub(super) sum: Proven,
    /// The highest position at which slots begin in the record.
    begun: Position,
}

impl Prover {
    /// For a consumer with these slots. `by_slot` says whether the slot of an event is known: not with custom keys,
    /// where the positions of the record are compared instead.
    #[must_use]
    pub fn new(slots: SlotSet, by_slot: bool) -> Self {
        let by_position = (!by_slot).then(|| ByPosition::new(&slots));
        let sum = Proven { slots: slots.len(), since: Position::END, ..Proven::default() };
        let (ledger, window) = (Ledger::default(), Window::default());
        let chain = Chain::new(slots);
        Self {
            chain,
            ledger,
            by_position,
            window,
            is_ready: false,
            last: None,
            sum,
            begun: Position::START,
        }
    }

    /// Whether rows that were proven may be pruned. With custom keys not before all slots have passed where the last of them
    /// begins: events before that were handled by some and not by others, and what is left of the rows could not say so.
    #[must_use]
    pub fn may_prune(&self) -> bool {
        self.by_position.is_none() || self.chain.lowest() >= self.begun
    }

    /// Whether it has seen this row. A row that it has not seen, and that another row or a cursor names, was in flight when
    /// an earlier window was read: give it by its id, behind those of its own parents that it has not seen.
    #[must_use]
    pub fn knows(&self, row: i64) -> bool {
        self.chain.knows(row)
    }

    /// The next row of the window, parents before children. Checks what it says of itself and of its parents.
    pub fn record(&mut self, record: Record) -> Result<(), Violation> {
        if self.is_ready {
            let problem = "a row came after the first event of its window";
            return Err(Violation::Misused { problem });
        }
        shape::check(&record, self.by_position.is_none())?;
        let linked = self.chain.link(&record)?;
        self.sum.rows += 1;
        self.sum.handed += record.count;
        let number = self.sum.rows;
        let place = || RowPlace { slots: SlotSet::clone(&linked.slots), ..shape::place(&record) };
        self.ledger.note(&record, place, &linked.slots, number);
        match record.kind {
            RecordKind::Begin => {
                self.sum.since = self.sum.since.min(record.to);
                self.begun = self.begun.max(record.to);
            }
            RecordKind::Proven => {
                self.sum.since = self.sum.since.min(record.to);
                if record.from < record.to {
                    self.cover(record, linked, number);
                }
            }
            RecordKind::Step => {
                self.sum.skipped += record.skipped.len() as u64;
                let id = record.id;
                let segment = self.cover(record, linked, number);
                self.chain.continue_in(id, Some(segment));
            }
            RecordKind::Retry | RecordKind::Skip => {
                self.sum.skipped += record.skipped.len() as u64;
            }
            RecordKind::Join => {}
            RecordKind::Replay | RecordKind::Jump => self.chain.continue_in(record.id, None),
        }
        Ok(())
    }

    /// Adds a row to the segment that it goes on from, or to a new one.
    fn cover(&mut self, record: Record, linked: Linked, number: u64) -> usize {
        let segments = &mut self.window.segments;
        let segment = linked.segment.unwrap_or_else(|| {
            segments.push(Segment::new(linked.slots, linked.starts));
            segments.len() - 1
        });
        segments[segment].rows.push_back(Row::new(record, number));
        segment
    }

    /// Positions whose events it needs besides those of the ranges, ascending: they were set aside before this window.
    #[must_use]
    pub fn wanted(&self) -> Vec<Position> {
        let ranges = self.ranges();
        let is_outside = |position: &Position| {
            let next = ranges.partition_point(|(_, up_to)| up_to < position);
            ranges.get(next).is_none_or(|(after, _)| position <= after)
        };
        self.ledger.noted().filter(is_outside).collect()
    }

    /// Positions of which rows of this window speak, and whose events were not among those of the ranges: they do not
    /// match the consumer any more, or the log has them no more.
    #[must_use]
    pub fn unsettled(&self) -> Vec<Position> {
        self.ledger.noted().collect()
    }

    /// An event at a wanted position, before the first [`event`](Self::event), or at one that is unsettled, after the last.
    /// One that the log has no more is left out.
    pub fn found(&mut self, event: Seen) -> Result<(), Violation> {
        self.get_ready();
        self.ledger.settle(&Arc::new(event))
    }

    /// The ranges of the log that the rows of this window cover, each `(after, up to]`: ascending, and none touches another.
    #[must_use]
    pub fn ranges(&self) -> Vec<(Position, Position)> {
        self.window.ranges()
    }

    /// The next event of the ranges: all that match the consumer, of all slots, by position. Events outside of the ranges
    /// may be among them.
    pub fn event(&mut self, event: Seen) -> Result<(), Violation> {
        self.get_ready();
        if self.last.replace(event.position) >= Some(event.position) {
            let problem = "the events of a window did not come in the order of their positions";
            return Err(Violation::Misused { problem });
        }
        let event = Arc::new(event);
        self.ledger.settle(&event)?;
        let ledger = &self.ledger;
        self.window
            .event(&event, &mut self.by_position, |segment| segment.check_order(&event, ledger))
    }

    /// All events of the window were given. Its rows are compared to the end and forgotten.
    pub fn close(&mut self) -> Result<(), Violation> {
        self.get_ready();
        self.window.close(self.by_position.is_none())?;
        self.ledger.close()?;
        self.chain.forget_segments();
        if let Some(by_position) = &mut self.by_position {
            by_position.close();
        }
        (self.is_ready, self.last) = (false, None);
        Ok(())
    }

    /// All rows of the window are known, and no event of it yet.
    fn get_ready(&mut self) {
        if std::mem::replace(&mut self.is_ready, true) {
            return;
        }
        self.ledger.ready();
        let lowest = self.chain.lowest();
        if let Some(by_position) = &mut self.by_position {
            by_position.is_passed(lowest);
        }
    }

    /// Whether all rows were compared.
    pub(super) fn is_closed(&self) -> bool {
        self.window.segments.is_empty() && self.ledger.is_empty()
    }
}

/// An event of the log, as far as a proof needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where it is.
    pub position: Position,
    /// Its id.
    pub id: Uuid,
    /// Its slot; `None` with a custom key.
    pub slot: Option<Slot>,
    /// The key under which it would be set aside, if that is known: proves that nothing overtook an event of its key.
    pub key: Option<String>,
    /// Its type, stream and version, as a person reads them: `OrderPlaced Order:ord-1@3`.
    pub name: String,
}

impl Seen {
    pub(super) fn place(&self) -> EventPlace {
        EventPlace { position: self.position, slot: self.slot, name: Some(self.name.clone()) }
    }
}
