//! Partitions that people already deploy, and the settings that name one.

use super::*;

/// `rule`, `key` and `hash(key) % N`, computed apart from this code.
const VECTORS: &str = include_str!("vectors.txt");
const TOTALS: [u16; 10] = [2, 3, 4, 5, 6, 7, 8, 9, 10, 12];

#[test]
fn keys_keep_the_partition_that_is_deployed() {
    let mut checked = 0;
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [rule, key, expected] = columns[..] else { panic!("not a vector: {line}") };
        let rule: HashRule = rule.parse().unwrap();
        let indexes: Vec<u16> = expected.split(' ').map(|index| index.parse().unwrap()).collect();
        assert_eq!(indexes.len(), TOTALS.len(), "{line}");
        for (index, total) in indexes.into_iter().zip(TOTALS) {
            let partition = FixedPartition::of_key(rule, key, total).unwrap();
            assert_eq!(partition, FixedPartition::new(index, total).unwrap(), "{rule} {key}");
            assert!(partition.slots().contains(rule.slot(key)));
            checked += 1;
        }
    }
    assert_eq!(checked, 3 * 32 * TOTALS.len());
}

#[test]
fn a_partition_that_cannot_be_is_refused_with_the_remedy() {
    let message = |index, total| FixedPartition::new(index, total).unwrap_err().to_string();
    assert_eq!(message(3, 3), "partition index: is 3; use 0 to 2");
    assert_eq!(message(0, 0), "number of partitions: is 0; use 1 to 5040");
    assert_eq!(message(0, 5041), "number of partitions: is 5041; use 1 to 5040");
    assert!(FixedPartition::of_key(HashRule::Fnv1a, "a", 0).is_err());
    let last = FixedPartition::new(5039, 5040).unwrap();
    assert_eq!((last.index(), last.total(), last.slots().len()), (5039, 5040, 1));
}

fn env(set: &[(&str, &str)]) -> Result<Option<FixedPartition>, String> {
    let get = |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, v)| v.to_string());
    FixedPartition::from_env(get).map_err(|error| error.to_string())
}

#[test]
fn the_environment_names_a_partition() {
    let one_of_three = FixedPartition::new(1, 3).ok();
    assert_eq!(env(&[]), Ok(None));
    assert_eq!(env(&[(KEY, "1"), (TOTAL, "3")]), Ok(one_of_three));
    assert_eq!(env(&[(INDEX, "1"), (TOTAL, " 3\n")]), Ok(one_of_three));
    assert_eq!(env(&[(KEY, "1"), (INDEX, "01"), (TOTAL, "3")]), Ok(one_of_three));
}

#[test]
fn a_wrong_environment_is_refused_with_the_remedy() {
    for (set, expected) in [
        (
            &[(KEY, "1"), (INDEX, "2"), (TOTAL, "3")][..],
            "PARTITION_KEY: is 1, but PARTITION_INDEX is 2; set only one of them",
        ),
        (&[(KEY, "1")], "PARTITION_KEY: is set, but TOTAL_PARTITIONS is not; set both or neither"),
        (
            &[(INDEX, "1")],
            "PARTITION_INDEX: is set, but TOTAL_PARTITIONS is not; set both or neither",
        ),
        (
            &[(TOTAL, "3")],
            "TOTAL_PARTITIONS: is set, but PARTITION_KEY is not; set both or neither",
        ),
        (
            &[(KEY, "one"), (TOTAL, "3")],
            "PARTITION_KEY: is `one`, which is not a whole number; write it with digits only, for \
             example 2",
        ),
        (&[(KEY, "3"), (TOTAL, "3")], "PARTITION_KEY: is 3; use 0 to 2"),
        (&[(KEY, "0"), (TOTAL, "70000")], "TOTAL_PARTITIONS: is 70000; use 1 to 5040"),
    ] {
        assert_eq!(env(set).unwrap_err(), expected);
    }
    assert!(env(&[(KEY, ""), (TOTAL, "")]).is_err(), "set but empty is a mistake, not a choice");
    assert!(env(&[(KEY, "-1"), (TOTAL, "3")]).is_err());
}

fn flags(given: &str, set: &[(&str, &str)]) -> Result<(Option<FixedPartition>, String), String> {
    let get = |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, v)| v.to_string());
    let mut arguments: Vec<String> = given.split(' ').map(str::to_owned).collect();
    let partition = FixedPartition::from_args_and_env(&mut arguments, get);
    partition.map(|it| (it, arguments.join(" "))).map_err(|error| error.to_string())
}

#[test]
fn flags_name_a_partition_and_beat_the_environment() {
    let fixed = |index, total| FixedPartition::new(index, total).ok();
    let set = [(KEY, "1"), (TOTAL, "3")];
    let left = |partition| Ok((partition, "a b".to_owned()));
    assert_eq!(flags("a b", &[]), left(None));
    assert_eq!(flags("a b", &set), left(fixed(1, 3)));
    assert_eq!(flags("a --partition-key 2 b --total-partitions=4", &set), left(fixed(2, 4)));
    assert_eq!(flags("--partition-index=0 a b", &set), left(fixed(0, 3)));
    assert_eq!(flags("a b --total-partitions 2", &set), left(fixed(1, 2)));
    assert_eq!(flags("a --partition-key-or-so b", &[]).unwrap().1, "a --partition-key-or-so b");
}

#[test]
fn a_flag_alone_is_refused_with_the_other_one() {
    let says = |given: &str| flags(given, &[]).unwrap_err();
    let alone = "--partition-key: is set, but --total-partitions is not; set both or neither";
    assert_eq!(says("a --partition-key 1"), alone);
    let alone = "--total-partitions: is set, but --partition-key is not; set both or neither";
    assert_eq!(says("--total-partitions 3"), alone);
    assert!(says("--partition-key").contains("not a whole number"));
    assert!(says("--partition-key 3 --total-partitions 3").contains("use 0 to 2"));
    assert!(says("--partition-key 1 --partition-index 2").contains("set only one of them"));
}
