//! What runs by itself: commands, timers, schedules.

use super::{Kit, Step, Timer, Told};
use crate::reactions::Shown;
use crate::{ActionGaveUp, Reaction, Workflow};
use anabranch_core::{Event, NewEvent, Position, Slot, Slots, StreamId};
use jiff::Timestamp;
use std::collections::VecDeque;

/// A workflow that sends itself commands without end fails instead of hanging.
const MAX_COMMANDS: usize = 10_000;

impl<W: Workflow> Kit<W> {
    /// Runs commands, and those that follow from their events, in order.
    #[track_caller]
    pub(super) fn run(&mut self, commands: impl IntoIterator<Item = W::Command>) {
        let mut waiting: VecDeque<W::Command> = commands.into_iter().collect();
        let mut count = 0;
        while let Some(command) = waiting.pop_front() {
            count += 1;
            assert!(
                count <= MAX_COMMANDS,
                "{MAX_COMMANDS} commands followed from one, the last of them {}: does it end?",
                Shown(&command)
            );
            match self.workflow.decide(&self.state, &command) {
                Err(rejection) => self.step.rejections.push(rejection),
                Ok(events) => {
                    for event in events {
                        self.happen(event, &mut waiting);
                    }
                }
            }
        }
    }

    fn happen(&mut self, event: W::Event, waiting: &mut VecDeque<W::Command>) {
        self.workflow.evolve(&mut self.state, &event);
        for reaction in self.workflow.react(&self.id, &self.state, &event) {
            match reaction {
                Reaction::Command(command) => waiting.push_back(command),
                Reaction::Action(action) => self.actions.push_back(action),
                Reaction::Tell { workflow, id, command } => {
                    let command = match command {
                        Ok(command) => command.as_str().to_owned(),
                        Err(problem) => panic!("a command for {workflow} `{id}` {problem}"),
                    };
                    self.step.told.push(Told { workflow, id, command });
                }
                timer => self.set_timer(timer),
            }
        }
        self.step.events.push(event);
    }

    /// Sets or ends a timer; other reactions are not meant.
    pub(super) fn set_timer(&mut self, reaction: Reaction<W>) {
        let is_other =
            |timer: &Timer<W::Command>, name: &str| timer.schedule.is_some() || timer.name != name;
        match reaction {
            Reaction::Timer { name, due, command } => {
                self.timers.retain(|timer| is_other(timer, &name));
                let due = due.of(self.clock);
                self.timers.push(Timer { name, due, schedule: None, command });
            }
            Reaction::CancelTimer { name } => {
                self.timers.retain(|timer| is_other(timer, &name));
            }
            Reaction::Command(_) | Reaction::Action(_) | Reaction::Tell { .. } => {}
        }
    }

    /// Lets the schedules of this instance begin at the time on the clock.
    pub(super) fn start_schedules(&mut self) {
        self.timers.retain(|timer| timer.schedule.is_none());
        for number in 0..self.workflow.schedules().len() {
            self.set_schedule(number);
        }
    }

    /// The next time of a schedule. A fresh list gives a fresh command.
    fn set_schedule(&mut self, number: usize) {
        let Some(schedule) = self.workflow.schedules().into_iter().nth(number) else {
            return;
        };
        if schedule.id() != self.id {
            return;
        }
        if let Some(due) = schedule.cron().after(self.clock) {
            let name = schedule.name().to_owned();
            let command = schedule.into_command();
            self.timers.push(Timer { name, due, schedule: Some(number), command });
        }
    }

    /// Fires what comes due up to a time. Of two at the same time, that which was set first.
    #[track_caller]
    pub(super) fn pass_until(&mut self, end: Timestamp) {
        loop {
            let due = self.timers.iter().enumerate().filter(|(_, timer)| timer.due <= end);
            let Some((place, _)) = due.min_by_key(|(place, timer)| (timer.due, *place)) else {
                break;
            };
            let timer = self.timers.remove(place);
            // A timer for a time that has passed is due at once.
            self.clock = self.clock.max(timer.due);
            if let Some(number) = timer.schedule {
                self.set_schedule(number);
            }
            self.run([timer.command]);
        }
        self.clock = end;
    }

    #[track_caller]
    pub(super) fn run_actions(
        &mut self,
        mut act: impl FnMut(&W::Action) -> anabranch_runtime::HandlerResult<Vec<W::Command>>,
    ) {
        self.parked = None;
        let mut count = 0;
        while let Some(action) = self.actions.pop_front() {
            count += 1;
            assert!(
                count <= MAX_COMMANDS,
                "{MAX_COMMANDS} actions ran, the last of them {}: does it end?",
                Shown(&action)
            );
            let commands = match act(&action) {
                Ok(commands) => commands,
                Err(error) => match self.workflow.gave_up(&action, &error.to_string()) {
                    ActionGaveUp::GoOn(commands) => commands,
                    ActionGaveUp::Park => {
                        self.actions.push_front(action);
                        self.parked = Some(error.to_string());
                        return;
                    }
                },
            };
            self.run(commands);
        }
    }
}

impl<W: Workflow> Step<W> {
    /// What happened, for the message of a failed expectation.
    pub(super) fn told(&self) -> String {
        let mut told = String::new();
        for event in &self.events {
            told += &format!("\n  event    {}", Shown(event));
        }
        for rejection in &self.rejections {
            told += &format!("\n  rejected {rejection}");
        }
        for Told { workflow, id, command } in &self.told {
            told += &format!("\n  told     {workflow} `{id}` {command}");
        }
        if told.is_empty() { "\n  nothing".to_owned() } else { told }
    }
}

/// A value as the JSON that is compared.
#[track_caller]
pub(super) fn json(value: &impl serde::Serialize) -> String {
    match serde_json::to_string(value) {
        Ok(json) => json,
        Err(error) => panic!("it cannot be made into JSON, so it could not be stored: {error}"),
    }
}

/// An event as the log would hand it out.
#[track_caller]
pub(super) fn recorded(stream: &str, event: &NewEvent, time: Timestamp) -> Event {
    let stream: StreamId = match stream.parse() {
        Ok(stream) => stream,
        Err(error) => panic!("{error}"),
    };
    let slots = Slots { entity: Slot::ZERO, customer: None, saga: None };
    let body = event.body(&stream);
    Event::from_row(Position::new(1), 1, event.id(), time.as_microsecond(), slots, &body)
}
