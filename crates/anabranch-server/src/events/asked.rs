//! Which events a request asks for, by its parameters or by its body.

use super::wanted::Wanted;
use crate::body::objects;
use crate::caller::Caller;
use crate::page::Params;
use crate::problem::Problem;
use anabranch::log::QueryItem;
use anabranch::{Position, Query};
use serde::Deserialize;

/// A query, as a body writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AskedQuery {
    /// Events match one of them; all match if there are none.
    #[serde(default, deserialize_with = "objects")]
    items: Vec<AskedItem>,
}

/// One of these types, and all of these tags.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedItem {
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    tags: Vec<String>,
}

impl AskedQuery {
    pub(crate) fn into_query(self) -> Result<Query, Problem> {
        let item = |AskedItem { types, tags }| QueryItem { types, tags };
        let query = Query::from_items(self.items.into_iter().map(item).collect());
        query.validate()?;
        Ok(query)
    }
}

/// What the parameters ask for: one of the types, all of the tags, one of the categories, one of
/// the tenants, this causation, this correlation.
pub(crate) fn wanted(params: &Params, caller: &Caller) -> Result<Wanted, Problem> {
    let all = |name| params.all(name).map(str::to_owned).collect::<Vec<String>>();
    let (types, tags) = (all("types"), all("tags"));
    let query = if types.is_empty() { Query::all() } else { Query::types(types) };
    let query = if tags.is_empty() { query } else { query.tagged(tags) };
    query.validate()?;
    let (categories, tenants) = (all("category"), all("tenant"));
    let one = |name| Ok::<_, Problem>(params.one(name)?.map(str::to_owned));
    Ok(Wanted {
        query,
        categories,
        tenants,
        causation: one("causation")?,
        correlation: one("correlation")?,
        caller: caller.clone(),
    })
}

/// The direction of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// From the oldest to the newest.
    #[default]
    Forwards,
    /// From the newest to the oldest.
    Backwards,
}

impl Direction {
    pub(crate) fn of(params: &Params) -> Result<Self, Problem> {
        match params.one("direction")? {
            None | Some("forwards") => Ok(Self::Forwards),
            Some("backwards") => Ok(Self::Backwards),
            Some(other) => Err(Problem::invalid(format!(
                "`direction` is forwards or backwards, and not `{}`",
                other.escape_debug()
            ))),
        }
    }
}

/// Where a list of events goes on: after a position, or before it when going backwards.
pub(crate) fn after(params: &Params) -> Result<Option<Position>, Problem> {
    let after = params.parsed("after", "a position: a whole number, or the `next` of a list")?;
    Ok(after.map(Position::new))
}
