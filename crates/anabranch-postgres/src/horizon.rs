//! Up to which position everything is decided (law 4: no skip).
//!
//! Positions come from a sequence, so a later one can become visible first. An append takes a shared
//! advisory lock that carries the last position drawn before it draws its own (`try_lock.sql`), and
//! holds it until its transaction is over. A reader that meets a gap asks, in this order and in
//! separate statements:
//!
//! 1. `horizon_head.sql`: the last position drawn, H;
//! 2. `horizon_marks.sql`: the marks held. An append that drew a position up to H took its mark
//!    before that, so either its mark is seen here or its transaction is over;
//! 3. the events up to the lowest of H and the marks. The snapshot of this statement is later than
//!    2, so a transaction that was over then is visible now, or never will be.
//!
//! Only appends hold marks, so no other transaction, however long, holds up a reader; and a mark
//! goes with its transaction, so a rolled-back append holds up nobody.

use crate::keys::Classes;
use crate::schema::Sql;
use crate::session::Connection;
use anabranch_core::Position;
use futures_util::future::try_join;
use tokio_postgres::{Error, Row, Statement};

/// What a reader may read up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// Everything up to here that the reader looks for is decided.
    pub(crate) bound: Position,
    /// Every event up to here, whatever it is, is decided.
    pub(crate) of_all: Position,
    /// The last position drawn by anybody.
    pub(crate) drawn: Position,
    /// Whether appends in flight hold it back.
    pub(crate) pending: bool,
    /// The last position that was visible before any of this was asked. Whoever has read up to here has read all
    /// that was stored when it began.
    pub(crate) visible: Position,
}

impl Horizon {
    /// Whether appends in flight hold back what was visible when the reader began. It need not wait for others: their
    /// positions are beyond all that was stored by then.
    pub(crate) fn holds_back(&self) -> bool {
        self.bound < self.visible
    }
}

/// The two statements of the horizon, ready to be sent in this order.
pub(crate) struct Asking<'a> {
    session: &'a Connection,
    head: Statement,
    marks: Statement,
    classes: [i64; 2],
    scope: Option<Vec<i64>>,
}

impl<'a> Asking<'a> {
    /// For readers that look for events whose appends hold one of `scope`; for all events if there is none.
    pub(crate) async fn new(
        session: &'a Connection,
        sql: &Sql,
        classes: Classes,
        scope: Option<&[i32]>,
    ) -> Result<Self, Error> {
        let head = session.prepare_cached(&sql.horizon_head).await?;
        let marks = session.prepare_cached(&sql.horizon_marks).await?;
        let classes = [unsigned(classes.marks), unsigned(classes.keys)];
        let scope = scope.map(|keys| keys.iter().copied().map(unsigned).collect());
        Ok(Self { session, head, marks, classes, scope })
    }

    /// One round trip; the server runs the two statements one after the other. What is polled after this, and has
    /// its statement prepared, is sent with them and run after them.
    pub(crate) async fn ask(&self) -> Result<InFlight, Error> {
        let [marks_class, keys_class] = &self.classes;
        let (head, marks) = try_join(
            self.session.query_one(&self.head, &[]),
            self.session.query(&self.marks, &[marks_class, keys_class, &self.scope]),
        )
        .await?;
        Ok(InFlight::new(
            Position::from_i64(head.get(0)),
            Position::from_i64(head.get(1)),
            marks.iter().map(mark_of_row),
        ))
    }
}

fn unsigned(number: i32) -> i64 {
    i64::from(number as u32)
}

fn mark_of_row(row: &Row) -> (u32, Vec<i32>) {
    let keys: Vec<i64> = row.get(1);
    (row.get::<_, i64>(0) as u32, keys.into_iter().map(|key| key as i32).collect())
}

/// What the two statements found: where the log ended, and the appends in flight below that.
pub(crate) struct InFlight {
    drawn: Position,
    visible: Position,
    /// The mark of each, and which of the keys that were asked for it holds.
    marks: Vec<(Position, Vec<i32>)>,
}

impl InFlight {
    /// From marks as they are stored: their low 32 bits.
    fn new(
        drawn: Position,
        visible: Position,
        marks: impl Iterator<Item = (u32, Vec<i32>)>,
    ) -> Self {
        let marks = marks.map(|(low_bits, keys)| (mark_near(drawn, low_bits), keys));
        // Beyond what was drawn: somebody has put the sequence back, and nothing can be concluded from it.
        let visible = if visible > drawn { Position::START } else { visible };
        // One that began after the head was read has its positions beyond.
        Self { drawn, visible, marks: marks.filter(|(mark, _)| *mark < drawn).collect() }
    }

    /// The horizon of a reader, who has to mind the appends that hold one of its keys: `scope` is some of the keys
    /// that were asked for. Of one who looks for all events, if there is none.
    pub(crate) fn horizon(&self, scope: Option<&[i32]>) -> Horizon {
        let Self { drawn, visible, marks } = self;
        let lowest = |marks: &mut dyn Iterator<Item = Position>| marks.min().unwrap_or(*drawn);
        let minds =
            |keys: &[i32]| scope.is_none_or(|scope| keys.iter().any(|key| scope.contains(key)));
        let mut minded = marks.iter().filter(|(_, keys)| minds(keys)).map(|(mark, _)| *mark);
        let bound = lowest(&mut minded);
        let of_all = lowest(&mut marks.iter().map(|(mark, _)| *mark));
        let pending = bound < *drawn;
        Horizon { bound, of_all, drawn: *drawn, pending, visible: *visible }
    }
}

/// The position with these low 32 bits that is nearest to the head: no append in flight is two
/// billion positions behind.
fn mark_near(head: Position, low_bits: u32) -> Position {
    let behind = (head.get() as u32).wrapping_sub(low_bits) as i32;
    Position::from_i64(head.as_i64() - i64::from(behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: i32 = 7;

    fn in_flight(head: u64, marks: &[(u64, i32)]) -> InFlight {
        let marks = marks.iter().map(|(mark, key)| (*mark as u32, vec![*key]));
        InFlight::new(Position::new(head), Position::new(head), marks)
    }

    fn at(head: u64, marks: &[(u64, bool)]) -> Horizon {
        let keyed: Vec<_> =
            marks.iter().map(|(mark, mine)| (*mark, if *mine { MINE } else { 8 })).collect();
        in_flight(head, &keyed).horizon(Some(&[MINE]))
    }

    #[test]
    fn each_reader_minds_the_marks_of_its_own_keys() {
        let in_flight = in_flight(100, &[(90, 1), (80, 2), (10, 3)]);
        for (scope, bound) in [(vec![1], 90), (vec![2, 1], 80), (vec![3], 10), (vec![4], 100)] {
            let horizon = in_flight.horizon(Some(&scope));
            assert_eq!((horizon.bound.get(), horizon.of_all.get()), (bound, 10));
            assert_eq!(horizon.pending, bound < 100);
        }
        assert_eq!(in_flight.horizon(None).bound.get(), 10);
    }

    #[test]
    fn the_lowest_mark_that_matters_is_the_bound() {
        let horizon = at(100, &[(90, true), (80, true), (10, false)]);
        assert_eq!((horizon.bound.get(), horizon.of_all.get()), (80, 10));
        assert!(horizon.pending);
        let horizon = at(100, &[(10, false)]);
        assert_eq!((horizon.bound.get(), horizon.pending), (100, false));
    }

    #[test]
    fn a_reader_waits_only_for_what_is_below_something_visible() {
        let horizon = |visible| {
            let mark = [(90, vec![MINE])].into_iter();
            let found = InFlight::new(Position::new(100), Position::new(visible), mark);
            found.horizon(Some(&[MINE]))
        };
        assert!(horizon(91).holds_back() && horizon(100).holds_back());
        assert!(!horizon(90).holds_back() && !horizon(10).holds_back());
        // The sequence was put back.
        assert_eq!(horizon(101).visible, Position::START);
    }

    #[test]
    fn a_mark_at_or_beyond_the_head_holds_back_nothing() {
        for mark in [100, 101, 5000] {
            let horizon = at(100, &[(mark, true)]);
            assert_eq!((horizon.bound.get(), horizon.of_all.get()), (100, 100));
            assert!(!horizon.pending);
        }
    }

    #[test]
    fn marks_are_found_again_beyond_32_bits() {
        let (signed, unsigned) = (1u64 << 31, 1u64 << 32);
        for head in [signed - 1, signed, signed + 7, unsigned, unsigned + 3, 5 * unsigned + 2] {
            for behind in [1, 2, 10, 1_000_000] {
                let horizon = at(head, &[(head - behind, true)]);
                assert_eq!(horizon.bound.get(), head - behind, "head {head}");
                assert_eq!(at(head, &[(head + behind, true)]).bound.get(), head);
            }
        }
    }
}
