//! An account that counts.

use anabranch::prelude::*;
use anabranch::workflow;
use anabranch::workflow::{Reactions, Workflow, Workflows};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub use crate::base::*;

/// An account whose balance never falls below zero.
#[derive(Clone, Copy)]
pub struct Accounts {
    pub snapshot_every: Option<u64>,
    pub state_version: u32,
    /// What `evolve` adds beside the amount, to tell two versions of it apart.
    pub bias: i64,
}

impl Default for Accounts {
    fn default() -> Self {
        Self { snapshot_every: Some(1_000), state_version: 1, bias: 0 }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub balance: i64,
    pub entries: u64,
    /// Depends on the order of the entries.
    pub trace: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    /// One entry.
    Put(i64),
    /// One entry for each.
    PutEach(Vec<i64>),
    /// As many entries as it takes to reach zero, one less each time.
    Empty,
    /// Refused if it would fall below zero.
    Take(i64),
    /// Nothing to do.
    Look,
    /// An event of a type that is not the workflow's to use.
    Forge,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    Put {
        amount: i64,
    },
    Taken {
        amount: i64,
    },
    Emptied,
    #[serde(rename = "workflow.paused")]
    Forged,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is only {balance}")]
pub struct TooLittle {
    pub balance: i64,
}

impl Workflow for Accounts {
    type State = Account;
    type Command = Command;
    type Event = Entry;
    type Action = String;
    type Rejection = TooLittle;

    fn name(&self) -> &str {
        "accounts"
    }

    fn category(&self) -> &str {
        "Account"
    }

    fn decide(&self, account: &Account, command: &Command) -> Result<Vec<Entry>, TooLittle> {
        let balance = account.balance;
        Ok(match command {
            Command::Put(amount) => vec![Entry::Put { amount: *amount }],
            Command::PutEach(amounts) => {
                amounts.iter().map(|amount| Entry::Put { amount: *amount }).collect()
            }
            Command::Take(amount) if *amount > balance => return Err(TooLittle { balance }),
            Command::Take(amount) => vec![Entry::Taken { amount: *amount }],
            Command::Empty if balance == 0 => vec![],
            Command::Empty => {
                let mut entries = vec![Entry::Taken { amount: 1 }; balance as usize];
                entries.push(Entry::Emptied);
                entries
            }
            Command::Look => vec![],
            Command::Forge => vec![Entry::Forged],
        })
    }

    fn evolve(&self, account: &mut Account, event: &Entry) {
        account.entries += 1;
        let amount = match event {
            Entry::Put { amount } => *amount,
            Entry::Taken { amount } => -amount,
            Entry::Emptied | Entry::Forged => 0,
        };
        account.balance += amount + self.bias;
        account.trace = account.trace.wrapping_mul(31).wrapping_add(amount as u64);
    }

    fn react(&self, id: &str, _: &Account, event: &Entry) -> Reactions<Self> {
        match event {
            Entry::Put { amount } => Reactions::none()
                .action(format!("thank {id} for {amount}"))
                .timer("interest", Duration::from_secs(60), Command::Put(1)),
            Entry::Emptied => Reactions::none().cancel_timer("interest"),
            _ => Reactions::none(),
        }
    }

    fn snapshot_every(&self) -> Option<u64> {
        self.snapshot_every
    }

    fn state_version(&self) -> u32 {
        self.state_version
    }
}

pub fn accounts(log: &Log) -> Workflows<Accounts> {
    Workflows::new(log, Accounts::default())
}

pub type SendError = workflow::SendError<TooLittle>;
