//! The workflow of an order: what can be asked of it, what can happen to it, and what follows from that.

use super::outside::{Charge, Outside};
use super::shop::{self, Shop};
use anabranch::prelude::*;
use anabranch::workflow::ActionGaveUp;
use anabranch::workflow::{ActionRun, Reactions, Workflow};
use anabranch::{HandlerError, Retry};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a customer has to pay, and after half of that there is a reminder. An example is in a hurry.
pub const DEADLINE: Duration = Duration::from_millis(1500);

/// The orders. Without the outside, for tests, they decide as they always do, but cannot act.
pub struct Orders {
    deadline: Duration,
    outside: Option<Outside>,
}

impl Default for Orders {
    fn default() -> Self {
        Self { deadline: DEADLINE, outside: None }
    }
}

impl Orders {
    pub fn with(outside: Outside, deadline: Duration) -> Self {
        Self { deadline, outside: Some(outside) }
    }
}

/// An order, as its events add up to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Order {
    pub stage: Stage,
    pub cents: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    #[default]
    Unknown,
    AwaitsPayment,
    Paid,
    /// It cannot be shipped; the money is on its way back.
    Refunding,
    Shipped,
    Cancelled,
    Failed,
}

impl Stage {
    pub fn is_final(self) -> bool {
        matches!(self, Self::Shipped | Self::Cancelled | Self::Failed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// We take the money.
    Card,
    /// The customer sends it.
    Transfer,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    Place { cents: u64, method: Method },
    PaymentArrived { cents: u64 },
    PaymentDeclined { why: String },
    Remind,
    TimeOut,
    Shipped { parcel: String },
    ShippingFailed { why: String },
    Refunded { cents: u64 },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum OrderEvent {
    Placed {
        cents: u64,
        method: Method,
    },
    Paid {
        cents: u64,
    },
    Reminded,
    /// Money for an order that does not wait for any: it goes back.
    MoneyTooLate {
        cents: u64,
    },
    Shipped {
        parcel: String,
        cents: u64,
    },
    ShippingFailed {
        why: String,
        cents: u64,
    },
    Refunded {
        cents: u64,
    },
    Cancelled {
        why: String,
    },
    Failed,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Action {
    TakePayment { cents: u64 },
    SendReminder,
    Ship,
    Refund { cents: u64 },
}

#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("it was placed before")]
    PlacedBefore,
    #[error("there is no such order")]
    Unknown,
}

impl Workflow for Orders {
    type State = Order;
    type Command = Command;
    type Event = OrderEvent;
    type Action = Action;
    type Rejection = Refused;

    fn name(&self) -> &str {
        "orders"
    }

    fn category(&self) -> &str {
        "Order"
    }

    fn decide(&self, order: &Order, command: &Command) -> Result<Vec<OrderEvent>, Refused> {
        use OrderEvent as E;
        let cancelled = |why: &str| vec![E::Cancelled { why: why.to_owned() }];
        Ok(match (command, order.stage) {
            (Command::Place { cents, method }, Stage::Unknown) => {
                vec![E::Placed { cents: *cents, method: *method }]
            }
            (Command::Place { .. }, _) => return Err(Refused::PlacedBefore),
            (_, Stage::Unknown) => return Err(Refused::Unknown),
            (Command::PaymentArrived { cents }, Stage::AwaitsPayment) => {
                vec![E::Paid { cents: *cents }]
            }
            (Command::PaymentArrived { cents }, _) => vec![E::MoneyTooLate { cents: *cents }],
            (Command::PaymentDeclined { why }, Stage::AwaitsPayment) => cancelled(why),
            (Command::Remind, Stage::AwaitsPayment) => vec![E::Reminded],
            (Command::TimeOut, Stage::AwaitsPayment) => cancelled("it was not paid in time"),
            (Command::Shipped { parcel }, Stage::Paid) => {
                vec![E::Shipped { parcel: parcel.clone(), cents: order.cents }]
            }
            (Command::ShippingFailed { why }, Stage::Paid) => {
                vec![E::ShippingFailed { why: why.clone(), cents: order.cents }]
            }
            (Command::Refunded { cents }, Stage::Refunding) => {
                vec![E::Refunded { cents: *cents }, E::Failed]
            }
            (Command::Refunded { cents }, _) => vec![E::Refunded { cents: *cents }],
            // A timer that was too late to be stopped, an answer to a question of yesterday.
            _ => vec![],
        })
    }

    fn evolve(&self, order: &mut Order, event: &OrderEvent) {
        match event {
            OrderEvent::Placed { cents, .. } => {
                *order = Order { stage: Stage::AwaitsPayment, cents: *cents };
            }
            OrderEvent::Paid { .. } => order.stage = Stage::Paid,
            OrderEvent::Shipped { .. } => order.stage = Stage::Shipped,
            OrderEvent::ShippingFailed { .. } => order.stage = Stage::Refunding,
            OrderEvent::Cancelled { .. } => order.stage = Stage::Cancelled,
            OrderEvent::Failed => order.stage = Stage::Failed,
            OrderEvent::Reminded
            | OrderEvent::MoneyTooLate { .. }
            | OrderEvent::Refunded { .. } => {}
        }
    }

    fn react(&self, _id: &str, _order: &Order, event: &OrderEvent) -> Reactions<Self> {
        let none = Reactions::none;
        match event {
            OrderEvent::Placed { cents, method } => {
                let timers = none().timer("reminder", self.deadline / 2, Command::Remind).timer(
                    "deadline",
                    self.deadline,
                    Command::TimeOut,
                );
                match method {
                    Method::Card => timers.action(Action::TakePayment { cents: *cents }),
                    Method::Transfer => timers,
                }
            }
            OrderEvent::Paid { .. } => {
                none().cancel_timer("reminder").cancel_timer("deadline").action(Action::Ship)
            }
            OrderEvent::Cancelled { .. } => {
                none().cancel_timer("reminder").cancel_timer("deadline")
            }
            OrderEvent::Reminded => none().action(Action::SendReminder),
            OrderEvent::MoneyTooLate { cents } | OrderEvent::ShippingFailed { cents, .. } => {
                none().action(Action::Refund { cents: *cents })
            }
            OrderEvent::Shipped { cents, .. } => {
                none().tell(&Shop, shop::ID, shop::Command::Sold { cents: *cents })
            }
            OrderEvent::Refunded { .. } | OrderEvent::Failed => none(),
        }
    }

    async fn act(&self, action: &Action, run: &mut ActionRun<'_>) -> HandlerResult<Vec<Command>> {
        let nobody = || HandlerError::new("there is nobody outside to call");
        let outside = self.outside.as_ref().ok_or_else(nobody)?;
        // The same key however often this runs: whoever is called can tell.
        let (order, key) = (run.id(), run.key());
        Ok(match action {
            Action::TakePayment { cents } => match outside.charge(key, order, *cents).await? {
                Charge::Taken => vec![Command::PaymentArrived { cents: *cents }],
                Charge::Declined(why) => vec![Command::PaymentDeclined { why }],
            },
            Action::SendReminder => {
                outside.send_reminder(key, order).await?;
                vec![]
            }
            Action::Ship => vec![Command::Shipped { parcel: outside.ship(key, order).await? }],
            Action::Refund { cents } => {
                outside.refund(key, order, *cents).await?;
                vec![Command::Refunded { cents: *cents }]
            }
        })
    }

    fn gave_up(&self, action: &Action, error: &str) -> ActionGaveUp<Command> {
        match action {
            // Compensation: the money goes back.
            Action::Ship => {
                ActionGaveUp::GoOn(vec![Command::ShippingFailed { why: error.to_owned() }])
            }
            Action::SendReminder => ActionGaveUp::GoOn(vec![]),
            // Nobody can tell whether money has moved: somebody has to look at it.
            Action::TakePayment { .. } | Action::Refund { .. } => ActionGaveUp::Park,
        }
    }

    fn retry(&self) -> Retry {
        Retry::default().attempts(4).first(Duration::from_millis(50))
    }

    /// Transfers, which the bank appends to the log.
    fn hears(&self) -> Option<Scope> {
        Some(Scope::types(["TransferReceived"]))
    }

    fn hear(&self, event: &Event) -> HandlerResult<Vec<(String, Command)>> {
        let Transfer { order, cents } = event.data()?;
        Ok(vec![(order, Command::PaymentArrived { cents })])
    }
}

/// The data of a `TransferReceived`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Transfer {
    pub order: String,
    pub cents: u64,
}
