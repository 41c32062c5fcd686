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
use tokio_postgres::Error;

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
}

/// The horizon for a reader that looks for events whose appends hold one of `scope`; for all events
/// if there is none.
pub(crate) async fn horizon(
    session: &Connection,
    sql: &Sql,
    classes: Classes,
    scope: Option<&[i32]>,
) -> Result<Horizon, Error> {
    let head = session.prepare_cached(&sql.horizon_head).await?;
    let marks = session.prepare_cached(&sql.horizon_marks).await?;
    let unsigned = |number: i32| i64::from(number as u32);
    let (marks_class, keys_class) = (unsigned(classes.marks), unsigned(classes.keys));
    let scope: Option<Vec<i64>> = scope.map(|keys| keys.iter().copied().map(unsigned).collect());
    // One round trip; the server runs the two statements one after the other.
    let (head, marks) = try_join(
        session.query_one(&head, &[]),
        session.query(&marks, &[&marks_class, &keys_class, &scope]),
    )
    .await?;
    let marks = marks.iter().map(|row| (row.get::<_, i64>(0) as u32, row.get(1)));
    Ok(horizon_of(Position::from_i64(head.get(0)), marks))
}

/// The horizon from the head and the marks: low 32 bits, and whether the reader has to mind them.
fn horizon_of(head: Position, marks: impl Iterator<Item = (u32, bool)>) -> Horizon {
    let mut horizon = Horizon { bound: head, of_all: head, drawn: head, pending: false };
    for (low_bits, relevant) in marks {
        let mark = mark_near(head, low_bits);
        if mark >= head {
            continue; // It began after the head was read: its positions are beyond.
        }
        horizon.of_all = horizon.of_all.min(mark);
        if relevant {
            horizon.bound = horizon.bound.min(mark);
            horizon.pending = true;
        }
    }
    horizon
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

    fn at(head: u64, marks: &[(u64, bool)]) -> Horizon {
        horizon_of(Position::new(head), marks.iter().map(|(mark, all)| (*mark as u32, *all)))
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
