//! The workflow of the shop: orders tell it what was sold, and every evening it closes the day.

use anabranch::cron::Cron;
use anabranch::workflow::{Schedule, Workflow};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;

/// There is one.
pub const ID: &str = "shop-1";

pub struct Shop;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Books {
    pub days: u64,
    /// Since the day was closed last.
    pub today_cents: u64,
    /// From the beginning.
    pub cents: u64,
    pub orders: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    Sold { cents: u64 },
    CloseDay,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ShopEvent {
    Sold { cents: u64 },
    DayClosed { cents: u64 },
}

impl Workflow for Shop {
    type State = Books;
    type Command = Command;
    type Event = ShopEvent;
    type Action = ();
    type Rejection = Infallible;

    fn name(&self) -> &str {
        "shop"
    }

    fn category(&self) -> &str {
        "Shop"
    }

    fn decide(&self, books: &Books, command: &Command) -> Result<Vec<ShopEvent>, Infallible> {
        Ok(match command {
            Command::Sold { cents } => vec![ShopEvent::Sold { cents: *cents }],
            Command::CloseDay => vec![ShopEvent::DayClosed { cents: books.today_cents }],
        })
    }

    fn evolve(&self, books: &mut Books, event: &ShopEvent) {
        match event {
            ShopEvent::Sold { cents } => {
                books.orders += 1;
                books.cents += cents;
                books.today_cents += cents;
            }
            ShopEvent::DayClosed { .. } => {
                books.days += 1;
                books.today_cents = 0;
            }
        }
    }

    /// At six in the evening, by the clock on the wall in Berlin, in summer and in winter.
    fn schedules(&self) -> Vec<Schedule<Self>> {
        let evening = Cron::parse("0 18 * * *", "Europe/Berlin").expect("five fields and a zone");
        vec![Schedule::new("close-the-day", evening, ID, Command::CloseDay)]
    }
}
