//! `/v1/deliveries`: what webhooks have sent.

use super::{READ, narrow};
use crate::caller::Caller;
use crate::page::{List, Params};
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use anabranch::webhook::{Deliveries, Delivery, DeliveryState, Filter};
use axum::Json;
use axum::extract::State;

pub(super) fn routes() -> Vec<Route> {
    let list = Route::get("/v1/deliveries", READ, list);
    vec![list.takes(&["consumer", "state", "key", "limit"]).keeps_consumers().watched()]
}

/// Newest first.
async fn list(
    State(state): State<Shared>,
    caller: Caller,
    params: Params,
) -> Result<Json<List<Delivery>>, Problem> {
    let consumer = params.one("consumer")?;
    match consumer {
        Some(name) => drop(narrow::status(&state, &caller, name).await?),
        None if caller.consumers().is_some() => {
            let said = "the token is limited to consumers; say which one: `?consumer=NAME`";
            return Err(Problem::invalid(said));
        }
        None => {}
    }
    let filter = Filter {
        consumer: consumer.map(str::to_owned),
        state: params.one("state")?.map(named).transpose()?,
        key: params.one("key")?.map(str::to_owned),
        limit: params.limit()?,
        ..Filter::default()
    };
    let mut found = Deliveries::new(&state.log).list(&filter).await?;
    if caller.is_masked() {
        // Receivers often repeat what they were sent.
        for delivery in &mut found {
            delivery.answer = None;
            delivery.failures.iter_mut().for_each(|failure| failure.answer.clear());
        }
    }
    Ok(Json(List::whole(found)))
}

fn named(name: &str) -> Result<DeliveryState, Problem> {
    let found = DeliveryState::ALL.into_iter().find(|state| state.name() == name);
    found.ok_or_else(|| {
        let known = DeliveryState::ALL.map(DeliveryState::name);
        Problem::invalid(format!("`state` is one of {}", known.join(", "))).with("known", known)
    })
}
