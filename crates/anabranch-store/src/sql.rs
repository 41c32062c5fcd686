//! The one statement that both SQL backends share: the positions of the events that match a query.
//!
//! Each item of the query becomes a range scan of the tag table (or of the index on types) that
//! begins at the cursor and stops after a page, so the cost depends on the page and not on how many
//! events match in all. Placeholders are numbered (`?1`, `$1`); the values come from
//! [`Positions::texts`].

use anabranch_core::{Query, QueryItem};
use std::fmt::Write;

/// How one backend writes what differs.
#[derive(Clone, Copy, Debug)]
pub struct Names<'d> {
    /// What stands before the number of a placeholder.
    pub placeholder: char,
    /// The table of events.
    pub events: &'d str,
    /// The table of tags.
    pub tags: &'d str,
}

impl Names<'_> {
    /// A placeholder. SQLite may plan a statement anew for each value of a bare one, which takes longer than to run
    /// it: a sign keeps it from that. PostgreSQL does not know the type of one with a sign.
    fn place(&self, number: usize) -> String {
        let sign = if self.placeholder == '?' { "+" } else { "" };
        format!("{sign}{}{number}", self.placeholder)
    }
}

/// A statement that yields positions in order, and its text values.
#[derive(Debug)]
pub struct Positions<'q> {
    /// The statement. Its first placeholders are: 1 the cursor, 2 the bound (the last position to
    /// look at), 3 the limit.
    pub sql: String,
    /// The values of the placeholders from 4 on.
    pub texts: Vec<&'q str>,
}

/// The placeholder of the limit, behind which those of the texts begin.
const LIMIT: usize = 3;

/// The positions of the events that match `query`, which is not [`Query::all`].
#[must_use]
pub fn positions<'q>(query: &'q Query, names: Names<'_>, backwards: bool) -> Positions<'q> {
    let mut statement = Statement { names, backwards, texts: Vec::new() };
    let ranges: Vec<String> = query.items().iter().map(|item| statement.ranges(item)).collect();
    let mut sql = ranges.join("\nUNION\n");
    if ranges.len() > 1 || sql.contains("UNION") {
        let (order, limit) = (statement.order(), names.place(LIMIT));
        sql = format!(
            "SELECT position FROM (\n{sql}\n) AS matches ORDER BY position {order} LIMIT {limit}"
        );
    }
    Positions { sql, texts: statement.texts }
}

struct Statement<'q, 'd> {
    names: Names<'d>,
    backwards: bool,
    texts: Vec<&'q str>,
}

impl<'q> Statement<'q, '_> {
    fn order(&self) -> &'static str {
        if self.backwards { "DESC" } else { "ASC" }
    }

    fn text(&mut self, text: &'q str) -> String {
        self.texts.push(text);
        self.names.place(LIMIT + self.texts.len())
    }

    /// One range scan for an item with tags, one for each type of an item without.
    fn ranges(&mut self, item: &'q QueryItem) -> String {
        if let Some(first) = item.leading_tag() {
            return self.tag_range(first, &item.tags[1..], &item.types);
        }
        let ranges: Vec<String> = item.types.iter().map(|name| self.type_range(name)).collect();
        ranges.join("\nUNION\n")
    }

    fn type_range(&mut self, name: &'q str) -> String {
        let filter = format!("e.type = {}", self.text(name));
        let from = format!("{} AS e", self.names.events);
        self.range("e", &from, &filter)
    }

    fn tag_range(&mut self, first: &'q str, others: &'q [String], types: &'q [String]) -> String {
        let mut from = format!("{} AS t", self.names.tags);
        let mut filter = format!("t.tag = {}", self.text(first));
        // Each table is bounded by itself: whichever the planner begins with, it reads a short range.
        for (number, tag) in others.iter().enumerate() {
            let (alias, tag) = (format!("t{number}"), self.text(tag));
            let (table, bounds) = (self.names.tags, self.bounds(&alias));
            let _ = write!(from, " JOIN {table} AS {alias} ON {alias}.position = t.position");
            let _ = write!(filter, " AND {alias}.tag = {tag} AND {bounds}");
        }
        if types.is_empty() {
            // The tags of an event that somebody has deleted may still be there; they must not use up the limit.
            let events = self.names.events;
            let _ = write!(
                filter,
                " AND (SELECT 1 FROM {events} AS there WHERE there.position = t.position) = 1"
            );
        } else {
            let names: Vec<String> = types.iter().map(|name| self.text(name)).collect();
            let _ = write!(from, " JOIN {} AS e ON e.position = t.position", self.names.events);
            let (names, bounds) = (names.join(", "), self.bounds("e"));
            let _ = write!(filter, " AND e.type IN ({names}) AND {bounds}");
        }
        self.range("t", &from, &filter)
    }

    fn bounds(&self, alias: &str) -> String {
        let (cursor, bound) = (self.names.place(1), self.names.place(2));
        if self.backwards {
            format!("{alias}.position < {cursor} AND {alias}.position >= {bound}")
        } else {
            format!("{alias}.position > {cursor} AND {alias}.position <= {bound}")
        }
    }

    fn range(&self, alias: &str, from: &str, filter: &str) -> String {
        let (limit, order, bounds) = (self.names.place(LIMIT), self.order(), self.bounds(alias));
        // A LIMIT inside a UNION needs a subquery of its own.
        format!(
            "SELECT position FROM (SELECT {alias}.position FROM {from} WHERE {filter} AND {bounds} \
             ORDER BY {alias}.position {order} LIMIT {limit}) AS range"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names<'_> = Names { placeholder: '?', events: "events", tags: "tags" };

    #[test]
    fn an_item_with_tags_is_one_range_of_the_tag_table() {
        let query = Query::types(["A", "B"]).tagged(["x", "y"]);
        let positions = positions(&query, NAMES, false);
        assert_eq!(positions.texts, ["x", "y", "A", "B"]);
        assert_eq!(
            positions.sql,
            "SELECT position FROM (SELECT t.position FROM tags AS t \
             JOIN tags AS t0 ON t0.position = t.position \
             JOIN events AS e ON e.position = t.position \
             WHERE t.tag = +?4 AND t0.tag = +?5 AND t0.position > +?1 AND t0.position <= +?2 \
             AND e.type IN (+?6, +?7) AND e.position > +?1 AND e.position <= +?2 \
             AND t.position > +?1 AND t.position <= +?2 \
             ORDER BY t.position ASC LIMIT +?3) AS range"
        );
    }

    #[test]
    fn several_items_and_types_are_united_and_cut_again() {
        let query = Query::types(["A", "B"]).or(Query::tags(["x"]));
        let positions = positions(&query, NAMES, true);
        assert_eq!(positions.texts, ["A", "B", "x"]);
        assert_eq!(positions.sql.matches("UNION").count(), 2);
        assert!(positions.sql.ends_with("ORDER BY position DESC LIMIT +?3"), "{}", positions.sql);
    }
}
