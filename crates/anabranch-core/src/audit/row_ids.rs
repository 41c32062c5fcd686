//! A set of ids of rows: one bit for each, since millions are remembered and most are neighbours.

use std::collections::BTreeMap;

const WORD: i64 = u64::BITS as i64;
const WORDS: usize = 64;
const CHUNK: i64 = WORD * WORDS as i64;

#[derive(Debug, Default)]
pub(super) struct RowIds {
    chunks: BTreeMap<i64, Box<[u64; WORDS]>>,
}

impl RowIds {
    /// Adds a row; whether it was missing.
    pub(super) fn insert(&mut self, row: i64) -> bool {
        let (chunk, word, bit) = place(row);
        let word = &mut self.chunks.entry(chunk).or_insert_with(|| Box::new([0; WORDS]))[word];
        let was_missing = *word & bit == 0;
        *word |= bit;
        was_missing
    }

    pub(super) fn contains(&self, row: i64) -> bool {
        let (chunk, word, bit) = place(row);
        self.chunks.get(&chunk).is_some_and(|words| words[word] & bit != 0)
    }
}

fn place(row: i64) -> (i64, usize, u64) {
    let within = row.rem_euclid(CHUNK);
    (row.div_euclid(CHUNK), (within / WORD) as usize, 1 << (within % WORD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(
            rows in proptest::collection::vec(prop_oneof![-9000..9000_i64, any::<i64>()], 0..200),
            others in proptest::collection::vec(-9000..9000_i64, 0..200),
        ) {
            let (mut ids, mut set) = (RowIds::default(), BTreeSet::new());
            for row in &rows {
                prop_assert_eq!(ids.insert(*row), set.insert(*row));
            }
            for row in rows.iter().chain(&others) {
                prop_assert_eq!(ids.contains(*row), set.contains(row));
            }
        }
    }
}
