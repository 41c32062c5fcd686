//! The contract suite, against a real server.

mod server;

anabranch_store::contract!(server::harness());

/// Of the steps that were released, in order. A release adds to them, and nothing changes them.
const RELEASED: [u64; 8] = [
    0x8aa8_2d5a_4d04_81a6,
    0xc800_4478_5728_e322,
    0x9921_0684_68b1_9c87,
    0x6401_5876_b59d_01b6,
    0x61ba_2cd0_862b_fa01,
    0xc4ab_c66c_1b83_7433,
    0xc40b_d23a_2d70_1f32,
    0x0160_45b3_c860_26f8,
];

#[test]
fn released_migrations_never_change_and_later_ones_only_add() {
    let migrations = anabranch_postgres::MIGRATIONS;
    anabranch_store::contract::migrations::are_kept(&migrations, &RELEASED);
}
