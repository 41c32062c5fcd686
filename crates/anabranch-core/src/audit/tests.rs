mod breaking;
mod broken_events;
mod broken_rows;
mod by_hand;
mod model;
mod pruning;

use model::{SLOTS, World, ops};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_right_is_proven(
        ops in ops(), slots in prop_oneof![Just(1), Just(SLOTS)], by_slot in any::<bool>(),
        window in 1..40_usize,
    ) {
        let world = World::after(slots, by_slot, &ops);
        let proven = world.prove(window).map_err(|e| TestCaseError::fail(format!("{e}\n{e:?}\n{:#?}", world.rows.iter().map(|r| &r.record).map(|r| format!("{r:?}")).collect::<Vec<_>>())))?;
        prop_assert_eq!(proven.rows, world.rows.len() as u64);
        prop_assert_eq!(proven.handed, world.rows.iter().map(|r| r.handed.len() as u64).sum::<u64>());
        prop_assert_eq!(proven.aside, world.aside.len() as u64);
        prop_assert_eq!(proven.slots, usize::from(slots));
    }
}
