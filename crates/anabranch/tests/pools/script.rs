//! A pool that does what a test says, inside the database or outside.

use anabranch::prelude::*;
use anabranch::workpool::PoolSettings;
use anabranch::workpool::TaskGaveUp;
use anabranch::workpool::{OutsidePool, Pool, Run, Task};
use std::sync::Arc;

type Act = Arc<dyn Fn(&Task) -> HandlerResult + Send + Sync>;
type Surrender = Arc<dyn Fn(&Task) -> TaskGaveUp + Send + Sync>;

#[derive(Clone)]
pub struct Script {
    name: &'static str,
    settings: PoolSettings,
    act: Act,
    gave_up: Surrender,
}

impl Script {
    pub fn new(
        name: &'static str,
        act: impl Fn(&Task) -> HandlerResult + Send + Sync + 'static,
    ) -> Self {
        let settings = PoolSettings::default();
        Self { name, settings, act: Arc::new(act), gave_up: Arc::new(|_| TaskGaveUp::AsSet) }
    }

    pub fn settings(self, settings: PoolSettings) -> Self {
        Self { settings, ..self }
    }

    pub fn gave_up(self, gave_up: impl Fn(&Task) -> TaskGaveUp + Send + Sync + 'static) -> Self {
        Self { gave_up: Arc::new(gave_up), ..self }
    }
}

impl Pool for Script {
    type Output = ();

    fn name(&self) -> &str {
        self.name
    }

    fn settings(&self) -> PoolSettings {
        self.settings
    }

    async fn run(&self, task: &Task, _: &mut Tx) -> HandlerResult {
        (self.act)(task)
    }

    fn gave_up(&self, task: &Task, _: &str) -> TaskGaveUp {
        (self.gave_up)(task)
    }
}

impl OutsidePool for Script {
    type Output = ();

    fn name(&self) -> &str {
        self.name
    }

    fn settings(&self) -> PoolSettings {
        self.settings
    }

    async fn run(&self, task: &Task, _: &mut Run) -> HandlerResult {
        (self.act)(task)
    }

    fn gave_up(&self, task: &Task, _: &str) -> TaskGaveUp {
        (self.gave_up)(task)
    }
}
