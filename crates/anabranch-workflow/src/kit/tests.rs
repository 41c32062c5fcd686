use super::*;
use crate::{ActionGaveUp, Schedule};
use anabranch_core::Cron;
use anabranch_runtime::{HandlerError, HandlerResult};
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A reminder that repeats itself, a letter for each, and a round at noon.
struct Reminders;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct State {
    reminders: u32,
    rounds: u32,
    open: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Command {
    Open,
    Close,
    Remind,
    Round,
    Sent(u32),
    Loop,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Happened {
    Opened,
    Closed,
    Reminded(u32),
    RoundMade,
    LetterSent(u32),
    Looped,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Act {
    Letter(u32),
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct No(&'static str);

const HOUR: Duration = Duration::from_secs(3600);

impl Workflow for Reminders {
    type State = State;
    type Command = Command;
    type Event = Happened;
    type Action = Act;
    type Rejection = No;

    fn name(&self) -> &str {
        "reminders"
    }

    fn decide(&self, state: &State, command: &Command) -> Result<Vec<Happened>, No> {
        Ok(match command {
            Command::Open if state.open => return Err(No("it is open")),
            Command::Open => vec![Happened::Opened],
            Command::Close => vec![Happened::Closed],
            Command::Remind if !state.open => return Err(No("it is closed")),
            Command::Remind => vec![Happened::Reminded(state.reminders + 1)],
            Command::Round => vec![Happened::RoundMade],
            Command::Sent(number) => vec![Happened::LetterSent(*number)],
            Command::Loop => vec![Happened::Looped],
        })
    }

    fn evolve(&self, state: &mut State, event: &Happened) {
        match event {
            Happened::Opened => state.open = true,
            Happened::Closed => state.open = false,
            Happened::Reminded(number) => state.reminders = *number,
            Happened::RoundMade => state.rounds += 1,
            Happened::LetterSent(_) | Happened::Looped => {}
        }
    }

    fn react(&self, id: &str, _: &State, event: &Happened) -> Reactions<Self> {
        let next = || Reactions::none().timer("remind", HOUR, Command::Remind);
        match event {
            Happened::Opened => next(),
            Happened::Reminded(number) => next().action(Act::Letter(*number)),
            Happened::Closed => {
                Reactions::none().cancel_timer("remind").tell(&Reminders, "next", Command::Open)
            }
            Happened::LetterSent(3) => Reactions::none().command(Command::Close),
            Happened::Looped => Reactions::none().command(Command::Loop),
            Happened::LetterSent(_) | Happened::RoundMade => {
                assert!(matches!(id, "kit" | "box-7"));
                Reactions::none()
            }
        }
    }

    fn gave_up(&self, Act::Letter(number): &Act, _error: &str) -> ActionGaveUp<Command> {
        if *number == 2 { ActionGaveUp::GoOn(vec![Command::Close]) } else { ActionGaveUp::Park }
    }

    fn hear(&self, event: &anabranch_core::Event) -> HandlerResult<Vec<(String, Command)>> {
        let number: u32 = event.data()?;
        Ok(vec![
            (event.stream_id().to_owned(), Command::Sent(number)),
            ("somebody else".to_owned(), Command::Close),
        ])
    }

    fn schedules(&self) -> Vec<Schedule<Self>> {
        let noon = || Cron::parse("0 12 * * *", "UTC").unwrap();
        vec![
            Schedule::new("noon", noon(), "kit", Command::Round),
            Schedule::new("other", noon(), "somebody else", Command::Round),
        ]
    }
}

use Happened::{Closed, LetterSent, Opened, Reminded, RoundMade};

#[test]
fn timers_and_schedules_fire_in_order_each_at_its_time() {
    Kit::new(Reminders)
        .at("2026-03-01T10:30:00Z".parse().unwrap())
        .when(Command::Open)
        .then([Opened])
        .then_timers(["remind"])
        .advance(HOUR - Duration::from_secs(1))
        .then([])
        .advance(2 * HOUR)
        .then([Reminded(1), RoundMade, Reminded(2)])
        .then_state(|state| assert_eq!((state.reminders, state.rounds), (2, 1)))
        .advance(48 * HOUR)
        .then_state(|state| assert_eq!((state.reminders, state.rounds), (50, 3)));
}

#[test]
fn given_events_set_timers_and_leave_nothing_to_do() {
    let kit = Kit::new(Reminders).given([Opened, Reminded(1)]).then_actions([]).then([]);
    assert_eq!(kit.now(), "2026-01-01T00:00:00Z".parse().unwrap());
    kit.advance(HOUR).then([Reminded(2)]).then_actions([Act::Letter(2)]);
}

#[test]
fn actions_wait_in_order_and_their_commands_run_to_the_end() {
    Kit::new(Reminders)
        .when(Command::Open)
        .advance(3 * HOUR)
        .then_actions([Act::Letter(1), Act::Letter(2), Act::Letter(3)])
        .act_next([Command::Sent(1)])
        .then([LetterSent(1)])
        .acts(|Act::Letter(number)| Ok(vec![Command::Sent(*number)]))
        .then([LetterSent(2), LetterSent(3), Closed])
        .then_told(&Reminders, "next", &Command::Open)
        .then_actions([])
        .then_timers([])
        .advance(5 * HOUR)
        .then([]);
}

#[test]
fn an_action_that_is_given_up_parks_or_goes_on() {
    let failing = |_: &Act| Err(HandlerError::new("no stamps"));
    Kit::new(Reminders)
        .given([Opened])
        .advance(HOUR)
        .acts(failing)
        .then([])
        .then_parked_with("no stamps")
        .then_actions([Act::Letter(1)])
        .acts(|_| Ok(vec![]))
        .advance(HOUR)
        .acts(failing)
        .then([Closed]);
}

#[test]
fn rejections_are_seen() {
    Kit::new(Reminders)
        .given([Opened])
        .when(Command::Open)
        .then_rejected_with("it is open")
        .then_rejected(|No(why)| assert_eq!(*why, "it is open"))
        .then([]);
}

#[test]
fn events_of_others_are_heard() {
    Kit::new(Reminders)
        .with_id("box-7")
        .hears("Letterbox:box-7", &NewEvent::new("Emptied", 3))
        .then([LetterSent(3), Closed])
        .then_told(&Reminders, "somebody else", &Command::Close);
}

/// What a failing expectation says.
fn said(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

#[test]
fn what_was_expected_and_what_happened_are_both_told() {
    let opened = || Kit::new(Reminders).when(Command::Open);
    assert_eq!(
        said(|| drop(opened().then([Opened, Reminded(1)]))),
        "expected\n  event    \"Opened\"\n  event    {\"Reminded\":1}\nhappened\n  event    \"Opened\""
    );
    let rejected = said(|| drop(opened().when(Command::Open).then([])));
    assert_eq!(rejected, "expected\n  nothing\nhappened\n  rejected it is open");
    let not_rejected = said(|| drop(opened().then_rejected_with("it is late")));
    assert_eq!(not_rejected, "expected\n  rejected it is late\nhappened\n  event    \"Opened\"");
    let actions = said(|| drop(opened().advance(HOUR).then_actions([])));
    assert!(actions.contains("these wait\n  action   {\"Letter\":1}"), "{actions}");
    let told = said(|| drop(opened().then_told(&Reminders, "x", &Command::Open)));
    assert!(told.contains("told     reminders `x` \"Open\""), "{told}");
    let endless = said(|| drop(opened().when(Command::Loop)));
    assert!(endless.contains("does it end?"), "{endless}");
    let timers = said(|| drop(opened().then_timers([])));
    assert_eq!(timers, "expected the timers [], but [\"remind\"] run");
}
