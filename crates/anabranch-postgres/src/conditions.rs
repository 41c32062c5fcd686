//! What the conditions of a batch find in the log.
//!
//! Most conditions are on tags alone, and all of those are checked by one statement. Each of the others has a statement
//! of its own.

use crate::append::{Ready, Session, Value};
use crate::schema::Sql;
use anabranch_core::{Append, Condition, Position, Query, QueryItem};
use anabranch_store::sql::{Names, positions};
use futures_util::future::{try_join, try_join_all};
use tokio_postgres::Error;
use tokio_postgres::types::Type;

/// The conditions of a batch. They refer to its appends by their numbers.
#[derive(Default)]
pub(crate) struct Conditions<'a> {
    appends: usize,
    /// Those on a tag alone: whose, which tag, and after which position.
    of_tags: Vec<usize>,
    tags: Vec<&'a str>,
    afters: Vec<i64>,
    others: Vec<(usize, Check<'a>)>,
}

/// The statements of [`Conditions`].
pub(crate) struct ReadyConditions<'a> {
    tags: Option<Ready<'a>>,
    others: Vec<Ready<'a>>,
}

/// The check of one condition.
struct Check<'a> {
    sql: String,
    after: i64,
    texts: Vec<&'a str>,
}

impl<'a> Conditions<'a> {
    pub(crate) fn of(batch: &[&'a Append], sql: &Sql) -> Self {
        let mut conditions = Self { appends: batch.len(), ..Self::default() };
        for (number, append) in batch.iter().enumerate() {
            let Some(condition) = append.condition() else { continue };
            match tags_alone(&condition.query) {
                Some(tags) => {
                    for tag in tags {
                        conditions.of_tags.push(number);
                        conditions.tags.push(tag);
                        conditions.afters.push(condition.after.as_i64());
                    }
                }
                None => conditions.others.push((number, Check::of(condition, sql))),
            }
        }
        conditions
    }

    pub(crate) async fn ready<'s>(
        &'s self,
        session: Session<'_>,
        sql: &'s Sql,
    ) -> Result<ReadyConditions<'s>, Error> {
        let tags = match self.tags.is_empty() {
            true => None,
            false => Some(session.ready(&sql.first_matches).await?),
        };
        let mut others = Vec::with_capacity(self.others.len());
        for (_, check) in &self.others {
            others.push(session.ready(&check.sql).await?);
        }
        Ok(ReadyConditions { tags, others })
    }

    /// For each append the first stored event that breaks its condition.
    pub(crate) async fn first_matches(
        &self,
        session: Session<'_>,
        ready: &ReadyConditions<'_>,
    ) -> Result<Vec<Option<Position>>, Error> {
        let tag_values: [Value<'_>; 2] =
            [(&self.tags, Type::TEXT_ARRAY), (&self.afters, Type::INT8_ARRAY)];
        let by_tags = async {
            match &ready.tags {
                Some(statement) => session.query(statement, &tag_values).await,
                None => Ok(Vec::new()),
            }
        };
        let others = self.others.iter().zip(&ready.others);
        let others = others.map(|((_, check), statement)| check.first_match(session, statement));
        let (by_tags, others) = try_join(by_tags, try_join_all(others)).await?;
        let mut matches: Vec<Option<Position>> = vec![None; self.appends];
        let by_tags = by_tags.iter().map(|row| row.get::<_, Option<i64>>(0));
        for (number, found) in self.of_tags.iter().zip(by_tags) {
            let first = [matches[*number], found.map(Position::from_i64)];
            matches[*number] = first.into_iter().flatten().min();
        }
        for ((number, _), found) in self.others.iter().zip(others) {
            matches[*number] = found;
        }
        Ok(matches)
    }
}

/// The tags of a query that asks for events with one of them, whatever else they are.
fn tags_alone(query: &Query) -> Option<Vec<&str>> {
    let tag_alone = |item: &'_ QueryItem| item.types.is_empty() && item.tags.len() == 1;
    let alone = !query.is_all() && query.items().iter().all(tag_alone);
    alone.then(|| query.items().iter().filter_map(QueryItem::leading_tag).collect())
}

impl<'a> Check<'a> {
    fn of(condition: &'a Condition, sql: &Sql) -> Self {
        let after = condition.after.as_i64();
        if condition.query.is_all() {
            let sql = format!(
                "SELECT position FROM {} WHERE position > $1 AND position <= $2 \
                 ORDER BY position LIMIT $3",
                sql.events
            );
            return Self { sql, after, texts: Vec::new() };
        }
        let names = Names { placeholder: '$', events: &sql.events, tags: &sql.tags };
        let matching = positions(&condition.query, names, false);
        Self { sql: matching.sql, after, texts: matching.texts }
    }

    async fn first_match(
        &self,
        session: Session<'_>,
        statement: &Ready<'_>,
    ) -> Result<Option<Position>, Error> {
        let mut values: Vec<Value<'_>> =
            vec![(&self.after, Type::INT8), (&i64::MAX, Type::INT8), (&1i64, Type::INT8)];
        values.extend(self.texts.iter().map(|text| -> Value<'_> { (text, Type::TEXT) }));
        let rows = session.query(statement, &values).await?;
        Ok(rows.first().map(|row| Position::from_i64(row.get(0))))
    }
}
