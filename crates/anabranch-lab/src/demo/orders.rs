//! The stream of orders.

use anabranch::AppendError;
use anabranch::prelude::*;
use serde_json::json;
use tokio::task::JoinHandle;

const ORDERS: u64 = 2_000;
/// How many events are appended in one go.
const BATCH: u64 = 100;

/// Appends events until there are so many.
pub(super) struct Orders(JoinHandle<Result<(), AppendError>>);

impl Orders {
    pub(super) fn start(log: &Log, events: u64) -> Self {
        let log = log.clone();
        Self(tokio::spawn(async move {
            let mut number = 0;
            while number < events {
                let end = (number + BATCH).min(events);
                let mut append = Append::new();
                for event in number..end {
                    let order = StreamId::new("Order", format!("ord-{}", event % ORDERS))?;
                    let line =
                        json!({ "sku": format!("sku-{}", event % 700), "cents": event % 5000 });
                    let name = if event < ORDERS { "OrderPlaced" } else { "LineAdded" };
                    append = append.to(&order, Expected::Any, [NewEvent::new(name, line)]);
                }
                log.append_all(append).await?;
                number = end;
            }
            Ok(())
        }))
    }

    pub(super) async fn finish(self) -> anyhow::Result<()> {
        Ok(self.0.await??)
    }
}
