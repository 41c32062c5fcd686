//! The parameters of a request, read strictly, and the lists that answer it.

use crate::problem::Problem;
use anabranch::errors::ErrorCode;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use serde::Serialize;
use std::str::FromStr;

/// How many items a list has by default.
pub(crate) const USUAL: usize = 100;
/// How many it may have at most.
pub(crate) const MOST: usize = 1000;

/// The parameters of a request, as they were sent. The gate has refused those that the route does not take.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// What a query holds.
    pub(crate) fn of(parts: &Parts) -> Result<Self, Problem> {
        let read = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let Query(pairs) = read.map_err(|error| Problem::invalid(error.body_text()))?;
        if let Some((name, _)) = pairs.iter().find(|(_, value)| value.contains('\0')) {
            let name = brief(name).escape_debug().to_string();
            return Err(Problem::invalid(format!("there is a NUL in `{name}`; leave it out")));
        }
        Ok(Self(pairs))
    }

    /// Refuses parameters that are not known.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Problem> {
        let Some((unknown, _)) = self.0.iter().find(|(name, _)| !known.contains(&name.as_str()))
        else {
            return Ok(());
        };
        let there = match known {
            [] => "it takes none".to_owned(),
            known => format!("it takes {}", known.join(", ")),
        };
        let said =
            format!("there is no parameter `{}` here; {there}", brief(unknown).escape_debug());
        Err(Problem::invalid(said).with("known", known))
    }

    /// One that may be given once.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut given =
            self.0.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str());
        let first = given.next();
        match given.next() {
            None => Ok(first),
            Some(_) => Err(Problem::invalid(format!("`{name}` is given twice; give it once"))),
        }
    }

    /// One that must be there.
    pub(crate) fn needed(&self, name: &str) -> Result<&str, Problem> {
        let given = self.one(name)?;
        given.ok_or_else(|| Problem::invalid(format!("`{name}` is missing; add `?{name}=…`")))
    }

    /// One that may be given several times.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// One of a type that is written as text, such as a number.
    pub(crate) fn parsed<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>, Problem> {
        let Some(given) = self.one(name)? else { return Ok(None) };
        let wrong = || {
            let given = brief(given);
            let said = format!("`{name}` is `{}`, which is not {what}", given.escape_debug());
            Problem::invalid(said)
        };
        given.parse().map(Some).map_err(|_| wrong())
    }

    /// How many items are asked for.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        let what = format!("a number from 1 to {MOST}");
        match self.parsed("limit", &what)? {
            None => Ok(USUAL),
            Some(limit @ 1..=MOST) => Ok(limit),
            Some(limit) => {
                Err(Problem::invalid(format!("`limit` is {limit}, which is not {what}")))
            }
        }
    }
}

/// As much of a value as is worth repeating.
fn brief(given: &str) -> String {
    given.chars().take(80).collect()
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // The gate has read them already.
        let read = parts.extensions.get::<Self>().cloned();
        read.ok_or_else(|| Problem::new(ErrorCode::ServerPanicked, "a route without a gate"))
    }
}

/// A list, or a part of one.
#[derive(Debug, Serialize)]
pub(crate) struct List<T> {
    pub(crate) items: Vec<T>,
    /// What `after` takes for what comes next; none at the end.
    pub(crate) next: Option<String>,
}

impl<T> List<T> {
    /// All that there is.
    pub(crate) fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// A page of `limit` items, of which one more was read to see whether it is the last one.
    pub(crate) fn page(mut items: Vec<T>, limit: usize, name: impl Fn(&T) -> String) -> Self {
        let is_more = items.len() > limit;
        items.truncate(limit);
        let next = is_more.then(|| items.last().map(name)).flatten();
        Self { items, next }
    }
}
