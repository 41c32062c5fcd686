//! One fixed partition of several, by flags or by the environment.

use anabranch::FixedPartition;
use anabranch_file::MadeSet;
use clap::Args;

/// Which partition this process is.
#[derive(Args)]
pub(crate) struct PartitionFlags {
    /// Be this fixed partition, counted from 0, of --total-partitions, instead of sharing the work with others. The
    /// flags win over the variables PARTITION_KEY (or PARTITION_INDEX) and TOTAL_PARTITIONS
    #[arg(long, value_name = "N", visible_alias = "partition-index")]
    partition_key: Option<u64>,

    /// How many fixed partitions there are; each must be run by a process
    #[arg(long, value_name = "N")]
    total_partitions: Option<u64>,
}

impl PartitionFlags {
    /// The partition that is asked for; none if the process shares the work.
    pub(super) fn partition(&self) -> anyhow::Result<Option<FixedPartition>> {
        let given = [
            ("--partition-key", self.partition_key),
            ("--total-partitions", self.total_partitions),
        ];
        let given =
            given.into_iter().filter_map(|(flag, number)| Some(format!("{flag}={}", number?)));
        let mut flags: Vec<String> = given.collect();
        let get = |name: &str| std::env::var(name).ok();
        Ok(FixedPartition::from_args_and_env(&mut flags, get)?)
    }
}

/// The sets, each as that partition.
pub(super) fn as_partition(
    mut sets: Vec<MadeSet>,
    partition: Option<FixedPartition>,
) -> Vec<MadeSet> {
    if let Some(partition) = partition {
        sets.iter_mut().for_each(|made| made.set = made.set.clone().partition(partition));
    }
    sets
}
