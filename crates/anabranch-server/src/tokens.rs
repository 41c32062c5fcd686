//! `/v1/tokens`: list, make and revoke tokens.

use crate::body::Body;
use crate::caller::Caller;
use crate::page::List;
use crate::problem::Problem;
use crate::routes::{Needs, Route};
use crate::scope::Scope;
use crate::state::Shared;
use crate::token::{NewToken, Token, Tokens};
use anabranch::errors::ErrorCode;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Serialize;

const OPERATE: Needs = Needs::Scope(Scope::Operate);

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/tokens", OPERATE, list),
        Route::post("/v1/tokens", OPERATE, make),
        Route::delete("/v1/tokens/{id}", OPERATE, revoke),
    ]
}

#[derive(Serialize)]
struct Made {
    #[serde(flatten)]
    token: Token,
    /// Shown only here.
    secret: String,
}

async fn list(State(state): State<Shared>) -> Result<Json<List<Token>>, Problem> {
    Ok(Json(List::whole(Tokens::new(&state.log).list().await?)))
}

async fn make(
    State(state): State<Shared>,
    caller: Caller,
    Body(new): Body<NewToken>,
) -> Result<impl IntoResponse, Problem> {
    // Nobody makes a token with more rights than their own.
    if let Some(more) = new.scopes.iter().find(|scope| !caller.may(**scope)) {
        let said = format!(
            "a token cannot make one with more rights: it does not have the scope `{more}` itself"
        );
        return Err(Problem::new(ErrorCode::NotAllowed, said));
    }
    // Nor one that outlives their own.
    let made = Tokens::new(&state.log).make_until(new, caller.name(), caller.0.until).await;
    let (token, secret) = made?;
    state.access.forget();
    Ok((StatusCode::CREATED, Json(Made { token, secret: secret.reveal() })))
}

async fn revoke(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    Tokens::new(&state.log).revoke(&id).await?;
    state.access.forget();
    Ok(StatusCode::NO_CONTENT)
}
