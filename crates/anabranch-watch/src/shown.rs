//! What is read from the database when somebody asks.

use crate::families::{Families, Labels};
use anabranch_runtime::{Consumers, Gauges, GaugesOf};
use anabranch_store::Log;

/// Reads what some workers own, or everything; nothing if it could not be read.
pub(crate) async fn read(log: &Log, workers: Option<&[String]>) -> Option<Gauges> {
    let of = workers.map_or(GaugesOf::All, GaugesOf::Workers);
    Consumers::new(log).gauges(of).await.ok()
}

/// Adds what was read.
pub(crate) fn add(families: &mut Families, gauges: &Gauges) {
    for of in &gauges.consumers {
        let labels = || -> Labels {
            let set = of.set.iter().map(|set| ("set", set.as_str().into()));
            set.chain([("consumer", of.consumer.as_str().into())]).collect()
        };
        let mut set = |name: &'static str, value: Option<f64>| {
            if let Some(value) = value {
                families.set(name, labels(), value);
            }
        };
        let number = |count: u64| Some(count as f64);
        set("anabranch_lag_events", of.lag_events.and_then(number));
        set("anabranch_lag_ready_events", of.lag_ready_events.and_then(number));
        set("anabranch_lag_seconds", of.lag_seconds);
        set("anabranch_parked_keys", number(of.parked_keys));
        set("anabranch_parked_events", number(of.parked_events));
        set("anabranch_slots_owned", number(of.slots_owned));
        for (reason, slots) in &of.slots_idle {
            let mut labels = labels();
            labels.push(("reason", (*reason).into()));
            families.set("anabranch_slots_idle", labels, *slots as f64);
        }
    }
    for of in &gauges.tasks {
        let labels = vec![("pool", of.pool.as_str().into()), ("state", of.state.as_str().into())];
        families.set("anabranch_tasks", labels, of.tasks as f64);
    }
    for of in &gauges.sets {
        let labels = || -> Labels { vec![("set", of.set.as_str().into())] };
        families.set("anabranch_workers", labels(), of.workers as f64);
        families.set("anabranch_generation", labels(), of.generation as f64);
    }
}
