use super::*;
use proptest::prelude::*;

type Change<'a> = &'a dyn Fn(&mut Vec<(u64, u128)>);

fn digest(events: &[(u64, u128)]) -> Option<Digest> {
    let mut digester = Digester::new();
    for (position, id) in events {
        digester.add(Position::new(*position), &Uuid::from_u128(*id));
    }
    assert_eq!(digester.count(), events.len() as u64);
    digester.finish()
}

/// Computed by another program in another language: stored digests must mean the same for ever.
#[test]
fn golden_vectors() {
    let id = 0x0191_f3a2_5b7c_7def_8abc_0123_4567_89ab;
    let squares: Vec<_> = (1..=1000_u64).map(|i| (i, u128::from(i * i))).collect();
    for (events, expected) in [
        (vec![(1, 0)], "13ea8f4d6148418413f21f58f2262b12"),
        (vec![(1, id)], "08f61a05e672ed0a142cfbec3d650acc"),
        (vec![(1, 0), (2, id)], "0d3d9cecd8b647261481035513703a3f"),
        (vec![(2, id), (1, 0)], "094ae3a49464b572080f3096d17cf715"),
        (vec![(i64::MAX as u64, u128::MAX)], "093969dbdc6261250ce8a084e94080c3"),
        (squares, "1b04ef95c6a831ad019c85c88587c4e9"),
    ] {
        assert_eq!(digest(&events).unwrap().to_string(), expected, "{} events", events.len());
    }
    assert_eq!(digest(&[]), None);
}

#[test]
fn bytes_that_are_no_digest_are_refused() {
    assert_eq!(Digest::from_bytes(&[0; 15]), None);
    assert_eq!(Digest::from_bytes(&[0xff; 16]), None);
    assert!(Digest::from_bytes(&[0; 16]).is_some());
}

proptest! {
    #[test]
    fn every_change_changes_it(
        events in proptest::collection::vec((1..1_000_u64, any::<u128>()), 2..30),
        at in any::<prop::sample::Index>(), other in any::<prop::sample::Index>(),
        bit in 0..128_u32,
    ) {
        let whole = digest(&events).unwrap();
        prop_assert_eq!(Digest::from_bytes(&whole.to_bytes()), Some(whole));
        let (at, other) = (at.index(events.len()), other.index(events.len()));
        let changed = |change: Change<'_>| {
            let mut events = events.clone();
            change(&mut events);
            digest(&events)
        };
        prop_assert_ne!(Some(whole), changed(&|events| _ = events.remove(at)));
        prop_assert_ne!(Some(whole), changed(&|events| events.insert(other, events[at])));
        prop_assert_ne!(Some(whole), changed(&|events| events[at].0 += 1));
        prop_assert_ne!(Some(whole), changed(&|events| events[at].1 ^= 1 << bit));
        if events[at] != events[other] {
            prop_assert_ne!(Some(whole), changed(&|events| events.swap(at, other)));
        }
    }

    /// The prover counts with lanes.
    #[test]
    fn lanes_are_numbers_of_a_field(a in any::<u128>(), b in any::<u128>(), c in any::<u128>()) {
        let lane = |id: u128| Lanes::event(Position::START, &Uuid::from_u128(id));
        let (a, b, c) = (lane(a), lane(b), lane(c));
        prop_assert_eq!(a.plus(b).minus(b), a);
        prop_assert_eq!(a.minus(a), Lanes::default());
        prop_assert_eq!(a.plus(b).times(c), a.times(c).plus(b.times(c)));
        prop_assert_eq!(a.times(Lanes::ONE), a);
    }
}
