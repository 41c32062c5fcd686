//! `/v1/consumers/{name}/rebuild`: how the tables of a version that is built beside the old one differ from that one's.

use super::READ;
use crate::caller::Caller;
use crate::page::Params;
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use anabranch::errors::ErrorCode;
use anabranch::operate::{Rebuild, TableDifference};
use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use std::sync::Arc;

/// How many tables are compared.
const TABLES: usize = 20;

/// Who is limited to consumers is refused: a name of a table may be anybody's.
pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/consumers/{name}/rebuild", READ, compare).takes(&["table"])]
}

/// Both versions, compared.
#[derive(Serialize)]
struct Compared {
    consumer: String,
    /// Whether all tables have the same rows.
    is_same: bool,
    tables: Vec<TableDifference>,
}

async fn compare(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<Compared>, Problem> {
    let tables: Vec<&str> = params.all("table").collect();
    if tables.len() > TABLES {
        return Err(Problem::invalid(format!("{TABLES} tables are the most that are compared")));
    }
    if let Some(table) = tables.iter().find(|table| !is_plain(table)) {
        let table: String = table.chars().take(80).collect();
        let said = format!(
            "`{}` is no name of a table: letters, digits and _, with a . after a schema",
            table.escape_debug()
        );
        return Err(Problem::invalid(said));
    }
    let rebuild = match tables[..] {
        [] => Rebuild::for_view(&state.log, &name),
        _ => Rebuild::new(&state.log, &name, &tables),
    };
    let Ok(turn) = Arc::clone(&state.comparing).try_acquire_owned() else {
        let said = "another comparison is under way, which reads whole tables; try again when it has ended";
        return Err(Problem::new(ErrorCode::TooManyRequests, said).after_seconds(5));
    };
    // The database goes on with what nobody waits for any more, so its turn lasts as long.
    let comparing = tokio::spawn(async move {
        let compared = rebuild.compare().await;
        drop(turn);
        compared
    });
    let compared = comparing.await.map_err(|_| {
        Problem::new(ErrorCode::ServerPanicked, "a mistake in the server; its log has more")
    })?;
    let mut tables = compared?;
    let is_same = tables.iter().all(TableDifference::is_same);
    if caller.is_masked() {
        tables.iter_mut().for_each(|table| table.examples.clear());
    }
    Ok(Json(Compared { consumer: name, is_same, tables }))
}

/// The name goes into a statement as it stands.
fn is_plain(name: &str) -> bool {
    let is_of_name =
        |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(is_of_name)
}
