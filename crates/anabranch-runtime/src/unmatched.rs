//! A scope that no event of the log matches: a name that is spelled in another way, perhaps.
//!
//! Names of categories and types are looked up by their indexes. Tenants have none, so the last events are
//! looked at.

use crate::consumers::Consumers;
use crate::operate_error::OperateError;
use crate::scope::Scope;
use crate::standing;
use crate::tables::Tables;
use crate::tables::log_names::NameColumn;
use anabranch_core::{Position, Query, StoreError};
use anabranch_store::{Log, PageEnd, ReadRequest};
use std::fmt;

/// How many positions are looked at where there is no index.
const LOOK: u64 = 100_000;
/// How many names are compared, and of how many events where there is no index.
const MAX_COMPARED: usize = 1_000;
/// How many names are shown.
const MAX_SHOWN: usize = 5;

/// No event of the log matches what a consumer asks for, though the log has events. Its names may be
/// misspelled, or its events are still to come; see [`Consumers::unmatched`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unmatched {
    /// What no event has: a `category`, a `type` or a `tenant`. None if each name is there, and no event has
    /// them together.
    pub what: Option<&'static str>,
    /// What was asked for.
    pub asked: String,
    /// Some of those that the log has, the most similar first.
    pub nearest: Vec<String>,
    /// Whether the log has more than these.
    pub has_more: bool,
    /// How many positions were looked at, from the end of the log; all of it if there is none.
    pub looked_at: Option<u64>,
}

impl Unmatched {
    pub(crate) async fn of(log: &Log, scope: &Scope) -> Result<Option<Self>, StoreError> {
        // Of the log itself, wherever its consumers are.
        let tables = &Tables::of(log.store().database());
        let (categories, tenants) = scope.names();
        let types = types_of(scope.query());
        for (column, asked) in
            [(NameColumn::Category, categories.to_vec()), (NameColumn::Type, types.clone())]
        {
            if asked.is_empty() || has_one(tables, column, &asked).await? {
                continue;
            }
            let names = tables.log_names(column, MAX_COMPARED).await?;
            return Ok(
                (!names.is_empty()).then(|| Self::new(Some(column.name()), &asked, names, None))
            );
        }
        let is_narrowed_twice = !categories.is_empty() && !types.is_empty();
        if tenants.is_empty() && !is_narrowed_twice {
            return Ok(None);
        }
        let end = log.store().head().await?.visible;
        let from = Position::new(end.get().saturating_sub(LOOK));
        let looked_at = (from > Position::START).then_some(LOOK);
        // Further back there may be one; of tenants it is worth a word all the same.
        let is_unknown = looked_at.is_some() && tenants.is_empty();
        let matching = if types.is_empty() { Query::all() } else { Query::types(types) };
        if end == Position::START || is_unknown || matches(log, scope, matching, from, end).await? {
            return Ok(None);
        }
        let seen = log.read(Query::all()).backwards().limit(MAX_COMPARED).events();
        let seen = tenants_of(seen).await?;
        let has_one = tenants.iter().any(|tenant| seen.contains(tenant));
        Ok(Some(match tenants.is_empty() || has_one {
            true => Self::new(None, &[scope.to_string()], Vec::new(), looked_at),
            false => Self::new(Some("tenant"), tenants, seen, looked_at),
        }))
    }

    fn new(
        what: Option<&'static str>,
        asked: &[String],
        mut names: Vec<String>,
        looked_at: Option<u64>,
    ) -> Self {
        let nearest = |name: &String| asked.iter().map(|asked| distance(asked, name)).min();
        names.sort_by_cached_key(nearest);
        let has_more = names.len() > MAX_SHOWN;
        names.truncate(MAX_SHOWN);
        Self { what, asked: asked.join(" or "), nearest: names, has_more, looked_at }
    }
}

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.looked_at {
            None => f.write_str("no event of the log ")?,
            Some(positions) => write!(f, "no event of the last {positions} positions ")?,
        }
        match self.what {
            Some(what) => write!(f, "is of {what} {}", self.asked)?,
            None => write!(f, "matches ({})", self.asked)?,
        }
        if !self.nearest.is_empty() {
            let others = if self.has_more { ", …" } else { "" };
            write!(f, "; there are {}{others}", self.nearest.join(", "))?;
        }
        Ok(())
    }
}

impl Consumers {
    /// Whether no event of the log matches what a consumer asks for, though the log has events: its
    /// category, types or tenants may be misspelled. A worker warns of it when the consumer first runs.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
    /// use anabranch_runtime::Consumers;
    /// if let Some(unmatched) = Consumers::new(&log).unmatched("order_summary").await? {
    ///     println!("{unmatched}"); // no event of the log is of category Ordr; there are Order, Cart
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn unmatched(&self, name: &str) -> Result<Option<Unmatched>, OperateError> {
        // A log of the last version does not know it.
        if self.tables.database.require_newest_schema().is_err() {
            return Ok(None);
        }
        let Some(stored) = self.tables.identity(name).await? else {
            return Err(self.unknown(name).await);
        };
        let registered = self.tables.registered(Some(name)).await?.pop();
        if let Some(registered) = registered
            && standing::other_log(&self.log, &registered).await?.is_some()
        {
            // Its events are elsewhere.
            return Ok(None);
        }
        // One that a program of the last version made has not stored it; a pool's means nothing.
        let scope = stored.scope.and_then(|text| serde_json::from_str(&text).ok());
        match scope.filter(|_| crate::consumer::follows_log(&stored.kind)) {
            Some(scope) => Ok(Unmatched::of(&self.log, &scope).await?),
            None => Ok(None),
        }
    }
}

/// The types that a query is narrowed to; none if some item is of any type.
fn types_of(query: &Query) -> Vec<String> {
    match query.items().iter().any(|item| item.types.is_empty()) {
        true => Vec::new(),
        false => query.items().iter().flat_map(|item| item.types.iter().cloned()).collect(),
    }
}

async fn has_one(
    tables: &Tables,
    column: NameColumn,
    names: &[String],
) -> Result<bool, StoreError> {
    for name in names {
        if tables.log_has(column, name).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an event between two positions is of these types, and of the scope's categories and tenants.
async fn matches(
    log: &Log,
    scope: &Scope,
    types: Query,
    from: Position,
    up_to: Position,
) -> Result<bool, StoreError> {
    let mut cursor = from.get();
    loop {
        let page = log.store().read(ReadRequest {
            scope: anabranch_store::Scope::Log(types.clone()),
            filter: scope.filter(None),
            cursor,
            up_to,
            backwards: false,
            max_events: 1,
        });
        let page = page.await?;
        if !page.events.is_empty() {
            return Ok(true);
        }
        if page.end != PageEnd::More || page.cursor <= cursor || page.cursor >= up_to.get() {
            return Ok(false);
        }
        cursor = page.cursor;
    }
}

async fn tenants_of(mut events: anabranch_store::EventStream) -> Result<Vec<String>, StoreError> {
    let mut tenants: Vec<String> = Vec::new();
    while let Some(event) = events.next().await {
        let event = event?;
        let tenant = event.tenant().filter(|tenant| !tenants.iter().any(|known| known == tenant));
        tenants.extend(tenant.map(ToOwned::to_owned));
    }
    Ok(tenants)
}

/// How many characters must be changed, added or left out to make one name of the other; a capital letter
/// counts for less than another letter.
fn distance(a: &str, b: &str) -> usize {
    let (same, other_case, other) = (0, 1, 4);
    let a: Vec<char> = a.chars().collect();
    let mut row: Vec<usize> = (0..=a.len()).map(|count| count * other).collect();
    for (number, b) in b.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], (number + 1) * other);
        for (index, a) in a.iter().enumerate() {
            let cost = match (*a == b, a.to_lowercase().eq(b.to_lowercase())) {
                (true, _) => same,
                (false, true) => other_case,
                (false, false) => other,
            };
            let best = (diagonal + cost).min(row[index] + other).min(row[index + 1] + other);
            diagonal = std::mem::replace(&mut row[index + 1], best);
        }
    }
    row[a.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_comes_first() {
        let names = ["Cart", "Ordering", "Order", "Orders", "Invoice", "order-old"];
        let first = |asked: &str| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let unmatched = Unmatched::new(Some("category"), &[asked.to_owned()], names, None);
            assert!(unmatched.has_more);
            unmatched.nearest[0].clone()
        };
        assert_eq!(first("order"), "Order");
        assert_eq!(first("Ordr"), "Order");
        assert_eq!(first("Invioce"), "Invoice");
        assert_eq!(first("ordering"), "Ordering");
    }

    #[test]
    fn a_query_of_any_type_names_none() {
        assert_eq!(types_of(&Query::types(["A"]).or(Query::types(["B"]))), ["A", "B"]);
        assert!(types_of(&Query::types(["A"]).or(Query::tags(["x"]))).is_empty());
        assert!(types_of(&Query::all()).is_empty());
    }
}
