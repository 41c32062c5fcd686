//! Who may hold how many of a pool's permits. Pure.

/// What a worker holds and wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) worker: String,
    /// What it holds; of the one that asks, what it has in use.
    pub(crate) held: usize,
    /// How many more it wants.
    pub(crate) wanted: usize,
    /// Since when, by the database's clock.
    pub(crate) since_us: i64,
}

/// What becomes of a worker that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dealt {
    /// What it holds from now on.
    pub(crate) held: usize,
    /// How many more it still wants: it waits for them.
    pub(crate) short: usize,
    /// Whether others wait for what it holds: then each permit goes back when its use is over.
    pub(crate) is_crowded: bool,
}

impl Claim {
    fn demand(&self) -> usize {
        self.held.saturating_add(self.wanted)
    }
}

/// How many permits a worker takes at once, if nobody else wants them: so that it need not ask for each.
fn block(limit: usize) -> usize {
    (limit / 12).max(1)
}

/// So many permits, and the rest of the last block.
pub(crate) fn in_blocks(limit: usize, permits: usize) -> usize {
    permits.next_multiple_of(block(limit))
}

/// Deals to one that asks. The sum of what all hold stays within the limit, except for what was in use when
/// the limit became lower: that runs to its end.
///
/// If there is enough, everybody gets what it wants. Else they are shared evenly, and those who have waited
/// longest come first; so, with fewer permits than workers, each has one in its turn.
pub(crate) fn deal(limit: usize, asks: &Claim, others: &[Claim]) -> Dealt {
    let others_hold: usize = others.iter().map(|other| other.held).sum();
    let demand = others.iter().map(Claim::demand).fold(asks.demand(), usize::saturating_add);
    let share = match limit.checked_sub(demand) {
        // What it takes beyond its demand nobody wants.
        Some(spare) if asks.demand() > 0 => {
            in_blocks(limit, asks.demand()).min(asks.demand() + spare)
        }
        Some(_) => 0,
        None => share_of(limit, asks, others),
    };
    let held = share.min(limit.saturating_sub(others_hold)).max(asks.held);
    let short = asks.demand().saturating_sub(held);
    let waiting = others.iter().filter(|other| other.wanted > 0).count();
    let is_scarce = waiting > 0 && limit < 1 + others.iter().filter(|o| o.demand() > 0).count();
    Dealt { held, short, is_crowded: is_scarce || (waiting > 0 && held > share) }
}

/// What is free goes to those who wait, the first ones first. Returns those who have more then, as they are
/// then.
pub(crate) fn hand_out(limit: usize, mut claims: Vec<Claim>) -> Vec<Claim> {
    claims.sort_by(|one, other| (one.since_us, &one.worker).cmp(&(other.since_us, &other.worker)));
    let mut grown = Vec::new();
    for place in 0..claims.len() {
        let mut asks = claims.remove(place);
        let more = deal(limit, &asks, &claims).held.min(asks.demand()) - asks.held;
        (asks.held, asks.wanted) = (asks.held + more, asks.wanted - more);
        grown.extend((more > 0).then(|| asks.clone()));
        claims.insert(place, asks);
    }
    grown
}

/// The fair share of one where there is not enough for all: permit by permit, in turns.
fn share_of(limit: usize, asks: &Claim, others: &[Claim]) -> usize {
    let mut all: Vec<&Claim> = others.iter().chain([asks]).collect();
    all.sort_by_key(|claim| (claim.since_us, claim.worker.as_str()));
    let (mut rest, mut level) = (limit, 0);
    loop {
        let hungry = all.iter().filter(|claim| claim.demand() > level).count();
        if hungry == 0 || hungry > rest {
            break;
        }
        rest -= hungry;
        level += 1;
    }
    let is_first = |claim: &&&Claim| claim.demand() > level;
    let more = all.iter().filter(is_first).take(rest).any(|claim| claim.worker == asks.worker);
    level.min(asks.demand()) + usize::from(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(worker: &str, held: usize, wanted: usize, since_us: i64) -> Claim {
        Claim { worker: worker.to_owned(), held, wanted, since_us }
    }

    #[test]
    fn one_that_is_alone_takes_blocks_and_gives_all_back() {
        let none = Dealt { held: 0, short: 0, is_crowded: false };
        assert_eq!(deal(100, &claim("a", 0, 3, 1), &[]), Dealt { held: 8, ..none });
        assert_eq!(deal(1, &claim("a", 0, 3, 1), &[]), Dealt { held: 1, short: 2, ..none });
        assert_eq!(deal(100, &claim("a", 0, 300, 1), &[]), Dealt { held: 100, short: 200, ..none });
        assert_eq!(deal(100, &claim("a", 5, 0, 1), &[]), Dealt { held: 8, ..none });
        assert_eq!(deal(100, &claim("a", 0, 0, 1), &[]), none);
    }

    #[test]
    fn those_who_want_more_than_there_is_share_it() {
        let others = [claim("b", 9, 9, 2), claim("c", 0, 9, 3)];
        // What another holds beyond its share comes back when its use is over.
        let asks = claim("a", 0, 9, 4);
        assert_eq!(deal(10, &asks, &others), Dealt { held: 1, short: 8, is_crowded: false });
        // Used beyond the share: not taken away, and given back one by one.
        let others = [claim("b", 1, 9, 2), claim("c", 0, 9, 3)];
        assert_eq!(
            deal(10, &claim("a", 9, 9, 1), &others),
            Dealt { held: 9, short: 9, is_crowded: true }
        );
        // Of two that are left over the first ones get one each.
        let others = [claim("b", 3, 9, 2), claim("c", 3, 9, 3)];
        assert_eq!(deal(10, &claim("a", 0, 9, 1), &others).held, 4);
        assert_eq!(deal(10, &claim("a", 0, 9, 4), &others).held, 3);
        // One that wants little leaves the rest to the others.
        assert_eq!(deal(10, &claim("a", 0, 9, 4), &[claim("b", 0, 2, 1)]).held, 8);
    }

    #[test]
    fn one_permit_goes_round() {
        let mut line = vec![claim("a", 1, 1, 0), claim("b", 0, 1, 1), claim("c", 0, 1, 2)];
        let mut had = String::new();
        for now in 3..12 {
            let holder = line.iter().position(|claim| claim.held == 1).unwrap();
            let asks = Claim { held: 0, since_us: now, ..line.remove(holder) };
            had += &asks.worker;
            let dealt = deal(1, &asks, &line);
            assert_eq!(dealt, Dealt { held: 0, short: 1, is_crowded: true });
            line.push(asks);
            let grown = hand_out(1, line.clone());
            let [next] = &grown[..] else { panic!("{grown:?}") };
            let first = line.iter_mut().find(|claim| claim.worker == next.worker).unwrap();
            (first.held, first.wanted) = (1, 1);
        }
        assert_eq!(had, "abcabcabc");
    }

    #[test]
    fn a_lower_limit_waits_for_what_is_in_use() {
        let others = [claim("b", 3, 0, 1)];
        let dealt = deal(2, &claim("a", 4, 2, 2), &others);
        assert_eq!((dealt.held, dealt.short), (4, 2));
        assert_eq!(deal(2, &claim("a", 0, 2, 2), &others).held, 0);
    }
}
