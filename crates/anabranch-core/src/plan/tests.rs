//! Plans: cover, balance, few moves.

use super::*;

fn elastic_members(count: usize) -> Vec<Member> {
    (0..count).map(|n| Member { id: format!("w{n:03}"), fixed: None }).collect()
}

#[test]
fn members_share_evenly() {
    let planned = plan(&SlotSet::all(), &elastic_members(11), &Assignment::new(), &Weights::even());
    assert!(planned.values().all(|slots| (458..=459).contains(&slots.len())));
}
