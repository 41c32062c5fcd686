//! Scopes: which events a consumer handles.

use anabranch_core::{Event, Query, QueryItem};
use anabranch_store::Filter;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which events a consumer handles: those that pass every filter that is set. The database applies
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct Scope {
    query: Query,
    categories: Vec<String>,
    tenants: Vec<String>,
}

impl Scope {
    /// Every event.
    pub fn all() -> Self {
        Self::default()
    }

    /// Events of one of these types.
    pub fn types<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        Self { query: Query::types(types), ..Self::default() }
    }

    /// Events that match a query by type and tag.
    pub fn matching(query: Query) -> Self {
        Self { query, ..Self::default() }
    }

    /// And only those that have all of these tags.
    pub fn tagged<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.query = self.query.tagged(tags);
        self
    }

    /// And only those of streams of one of these categories.
    pub fn categories<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.categories = names.into_iter().map(Into::into).collect();
        self
    }

    /// And only those of one of these tenants.
    pub fn tenants<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.tenants = names.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) fn query(&self) -> &Query {
        &self.query
    }

    /// The categories and the tenants that are asked for; none means any.
    pub(crate) fn names(&self) -> (&[String], &[String]) {
        (&self.categories, &self.tenants)
    }

    /// The filter, narrowed to the category that the partition strategy names.
    pub(crate) fn filter(&self, category: Option<&str>) -> Filter {
        let categories = match category {
            Some(category) => vec![category.to_owned()],
            None => self.categories.clone(),
        };
        Filter { categories, tenants: self.tenants.clone(), slots: None }
    }

    /// Whether the strategy's category is one of those that are asked for.
    pub(crate) fn allows(&self, category: &str) -> bool {
        self.categories.is_empty() || self.categories.iter().any(|name| name == category)
    }

    /// Whether an event passes.
    #[must_use]
    pub fn matches(&self, event: &Event) -> bool {
        let is_one = |names: &[String], name: Option<&str>| {
            names.is_empty() || names.iter().any(|one| Some(one.as_str()) == name)
        };
        is_one(&self.categories, Some(event.category()))
            && is_one(&self.tenants, event.tenant())
            && self.query.matches(event.event_type(), event.tags())
    }

    /// The same events, written in one way: what is compared is not the order of names. The category
    /// that the partition strategy names is the only one, whatever else the scope allows.
    pub(crate) fn canonical(&self, category: Option<&str>) -> Self {
        let sorted = |names: &[String]| {
            let mut names = names.to_vec();
            names.sort_unstable();
            names.dedup();
            names
        };
        let item =
            |item: &QueryItem| QueryItem { types: sorted(&item.types), tags: sorted(&item.tags) };
        let mut items: Vec<QueryItem> = self.query.items().iter().map(item).collect();
        items.sort_unstable_by(|a, b| (&a.types, &a.tags).cmp(&(&b.types, &b.tags)));
        items.dedup();
        let categories = match category {
            Some(category) => vec![category.to_owned()],
            None => sorted(&self.categories),
        };
        Self { query: Query::from_items(items), categories, tenants: sorted(&self.tenants) }
    }
}

impl Scope {
    /// As it is stored, and compared.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("a scope is texts and lists of texts")
    }

    /// A stored one in words, whoever wrote it.
    pub(crate) fn in_words(text: &str) -> String {
        serde_json::from_str(text).map_or_else(|_| text.to_owned(), |scope: Self| scope.to_string())
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.query)?;
        for (what, names) in [("category", &self.categories), ("tenant", &self.tenants)] {
            if !names.is_empty() {
                write!(f, ", of {what} {}", names.join(" or "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_names_makes_no_other_scope() {
        let a = Scope::types(["A", "B"]).categories(["X", "Y"]).tenants(["t"]);
        let b = Scope::types(["B", "A", "B"]).categories(["Y", "X"]).tenants(["t", "t"]);
        assert_eq!(a.canonical(None), b.canonical(None));
        assert_ne!(a.canonical(None), a.clone().tagged(["x"]).canonical(None));
        let two = |a, b| Scope::matching(Query::tags([a]).or(Query::tags([b])));
        assert_eq!(two("x", "y").canonical(None), two("y", "x").canonical(None));
    }

    #[test]
    fn the_category_of_the_partition_is_not_said_twice() {
        let named = Scope::all().categories(["Order"]);
        let all = Scope::all().canonical(Some("Order"));
        assert_eq!(named.clone().categories(["Order", "X"]).canonical(Some("Order")), all);
        assert_ne!(named.canonical(None), Scope::all());
    }

    #[test]
    fn a_scope_is_read_back_as_it_was_written() {
        let scope = Scope::types(["A"]).tagged(["x"]).categories(["C"]).tenants(["t"]);
        let text = serde_json::to_string(&scope).unwrap();
        assert_eq!(serde_json::from_str::<Scope>(&text).unwrap(), scope);
        assert_eq!(scope.to_string(), "type A with tag x, of category C, of tenant t");
        assert_eq!(Scope::all().to_string(), "every event");
    }
}
