//! The workflow of an order, tested without a database: given, when, then, and a clock to advance.
//!
//!     cargo test -p anabranch --test order_processing

#![allow(unreachable_pub, dead_code, clippy::print_stdout, reason = "the example is only borrowed")]

mod order;
mod outside;
mod shop;
mod story;

use anabranch::HandlerError;
use anabranch::workflow::Kit;
use order::{Action, Command, DEADLINE, Method, OrderEvent as E, Orders, Stage};
use shop::{Shop, ShopEvent};
use std::time::Duration;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const BY_CARD: Command = Command::Place { cents: 4_000, method: Method::Card };
const BY_TRANSFER: Command = Command::Place { cents: 4_000, method: Method::Transfer };
const PLACED: E = E::Placed { cents: 4_000, method: Method::Transfer };
const ARRIVED: Command = Command::PaymentArrived { cents: 4_000 };
const PAID: E = E::Paid { cents: 4_000 };

fn orders() -> Kit<Orders> {
    Kit::new(Orders::default())
}

fn shipped() -> (Command, E) {
    let parcel = || "p-1".to_owned();
    (Command::Shipped { parcel: parcel() }, E::Shipped { parcel: parcel(), cents: 4_000 })
}

#[test]
fn an_order_is_paid_and_shipped_and_the_shop_is_told() {
    orders()
        .when(BY_CARD)
        .then([E::Placed { cents: 4_000, method: Method::Card }])
        .then_actions([Action::TakePayment { cents: 4_000 }])
        .then_timers(["reminder", "deadline"])
        .act_next([ARRIVED])
        .then([PAID])
        .then_timers([])
        .then_actions([Action::Ship])
        .act_next([shipped().0])
        .then([shipped().1])
        .then_told(&Shop, shop::ID, &shop::Command::Sold { cents: 4_000 })
        .advance(2 * DEADLINE)
        .then([])
        .when(BY_CARD)
        .then_rejected_with("it was placed before");
}

#[test]
fn who_does_not_pay_is_reminded_and_then_cancelled() {
    let why = "it was not paid in time".to_owned();
    orders()
        .when(BY_TRANSFER)
        .then([PLACED])
        .advance(DEADLINE / 2)
        .then([E::Reminded])
        .then_actions([Action::SendReminder])
        .act_next([])
        .advance(DEADLINE / 2 - Duration::from_millis(1))
        .then([])
        .advance(Duration::from_millis(1))
        .then([E::Cancelled { why }])
        .then_state(|order| assert_eq!(order.stage, Stage::Cancelled));
}

#[test]
fn a_payment_in_time_stops_the_clock() {
    orders().given([PLACED]).advance(DEADLINE / 2).when(ARRIVED).then([PAID]).then_timers([]);
}

#[test]
fn money_that_comes_too_late_goes_back() {
    let cancelled = E::Cancelled { why: "it was not paid in time".to_owned() };
    orders()
        .given([PLACED, cancelled])
        .when(ARRIVED)
        .then([E::MoneyTooLate { cents: 4_000 }])
        .then_actions([Action::Refund { cents: 4_000 }])
        .act_next([Command::Refunded { cents: 4_000 }])
        .then([E::Refunded { cents: 4_000 }])
        .then_state(|order| assert_eq!(order.stage, Stage::Cancelled));
}

#[test]
fn what_cannot_be_shipped_is_refunded_and_the_order_fails() {
    let why = || "nobody lives there".to_owned();
    orders()
        .given([PLACED])
        .when(ARRIVED)
        .acts(|action| match action {
            Action::Ship => Err(HandlerError::new(why())), // the attempts are used up
            Action::Refund { cents } => Ok(vec![Command::Refunded { cents: *cents }]),
            other => panic!("{other:?}"),
        })
        .then([
            E::ShippingFailed { why: why(), cents: 4_000 },
            E::Refunded { cents: 4_000 },
            E::Failed,
        ])
        .then_state(|order| assert!(order.stage.is_final()));
}

#[test]
fn a_payment_that_nobody_knows_the_end_of_waits_for_somebody() {
    orders()
        .when(BY_CARD)
        .acts(|_| Err(HandlerError::new("the payment provider does not answer")))
        .then([])
        .then_parked_with("the payment provider does not answer");
}

/// The evening of 24 October 2026 is in summer time, the next one is not.
#[test]
fn the_shop_closes_every_evening_at_six_by_the_clock_on_the_wall() {
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let noon = "2026-10-24T12:00:00+02:00".parse().expect("a time");
    Kit::new(Shop)
        .at(noon)
        .with_id(shop::ID)
        .when(shop::Command::Sold { cents: 4_000 })
        .advance(hours(6))
        .then([ShopEvent::DayClosed { cents: 4_000 }])
        .advance(hours(24))
        .then([])
        .advance(hours(1))
        .then([ShopEvent::DayClosed { cents: 0 }]);
}
