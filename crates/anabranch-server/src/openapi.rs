//! The description of the API.

use crate::routes::{Needs, Route};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

/// The description, as it is served.
pub(crate) const OPENAPI: &str = include_str!("../openapi.json");

pub(crate) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/openapi.json", Needs::Nothing, openapi).keeps_consumers().keeps_tenants()]
}

async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes;
    use serde_json::Value;
    use std::collections::{BTreeMap, BTreeSet};

    /// The routes of the API. Files of the console are for browsers, and no part of it.
    fn of_api() -> Vec<Route> {
        routes::all().into_iter().filter(|route| !route.is_page).collect()
    }

    fn document() -> Value {
        serde_json::from_str(OPENAPI).unwrap()
    }

    /// Each method of each path, with what is said of it.
    fn described(document: &Value) -> BTreeMap<(String, String), Value> {
        let paths = document["paths"].as_object().unwrap();
        let methods = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(move |(method, is)| ((path.clone(), method.to_uppercase()), is.clone()))
        });
        methods.collect()
    }

    fn words(list: &Value) -> BTreeSet<String> {
        let words = list.as_array().into_iter().flatten();
        words.map(|word| word.as_str().unwrap().to_owned()).collect()
    }

    fn named(operation: &Value, place: &str) -> BTreeSet<String> {
        let all = operation["parameters"].as_array().into_iter().flatten();
        let found = all.filter(|parameter| parameter["in"] == place);
        found.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_description_has_the_routes_of_the_table_and_no_others() {
        let document = document();
        let described = described(&document);
        let table: BTreeSet<_> =
            of_api().iter().map(|route| (route.path.to_owned(), route.method.to_owned())).collect();
        let known: BTreeSet<_> = described.keys().cloned().collect();
        let (missing, unknown): (Vec<_>, Vec<_>) =
            (table.difference(&known).collect(), known.difference(&table).collect());
        assert!(missing.is_empty(), "openapi.json does not describe {missing:?}");
        assert!(unknown.is_empty(), "openapi.json describes what is not there: {unknown:?}");
        assert_eq!(table.len(), of_api().len(), "a route stands twice in the table");
        let paths: Vec<_> = document["paths"].as_object().unwrap().keys().collect();
        assert!(paths.is_sorted(), "the paths of openapi.json are not sorted");
    }

    #[test]
    fn scopes_limits_and_parameters_are_those_of_the_table() {
        let described = described(&document());
        for route in of_api() {
            let place = format!("{} {}", route.method, route.path);
            let Some(operation) = described.get(&(route.path.to_owned(), route.method.to_owned()))
            else {
                continue;
            };
            let scope = match route.rules.needs {
                Needs::Nothing => "none",
                Needs::Metrics => "metrics",
                Needs::Token => "token",
                Needs::Scope(scope) => scope.name(),
            };
            assert_eq!(operation["x-scope"], scope, "the scope of {place}");
            let keeps = [
                ("consumers", route.rules.keeps_consumers),
                ("tenants", route.rules.keeps_tenants),
            ];
            let keeps =
                keeps.into_iter().filter(|(_, keeps)| *keeps).map(|(name, _)| name.to_owned());
            assert_eq!(words(&operation["x-keeps"]), keeps.collect(), "the limits of {place}");
            assert_eq!(
                operation["x-watched"] == true,
                route.is_watched,
                "whether {place} is watched"
            );
            let params = route.rules.params.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(named(operation, "query"), params, "the parameters of {place}");
            let in_path = route.path.split('{').skip(1).filter_map(|part| part.split_once('}'));
            let in_path = in_path.map(|(name, _)| name.to_owned()).collect();
            assert_eq!(named(operation, "path"), in_path, "the path of {place}");
            let says = |name: &str| operation[name].as_str().is_some_and(|text| !text.is_empty());
            assert!(says("operationId") && says("summary"), "{place} says nothing of itself");
            assert!(operation["responses"]["default"].is_object(), "{place} has no problem");
            let takes_body = operation["requestBody"].is_object();
            // A plan says all there is to say.
            let needs_body = route.method == "POST" && !route.path.starts_with("/v1/plans/");
            assert_eq!(takes_body, needs_body, "the body of {place}");
        }
    }

    #[test]
    fn only_files_for_browsers_are_left_out() {
        let pages = routes::all().into_iter().filter(|route| route.is_page);
        let pages: Vec<_> = pages.map(|route| (route.method, route.path, route.rules)).collect();
        let paths: Vec<_> = pages.iter().map(|(method, path, _)| (*method, *path)).collect();
        assert_eq!(paths, [("GET", "/"), ("GET", "/console/{*file}")]);
        assert!(pages.iter().all(|(_, _, rules)| rules.needs == Needs::Nothing && !rules.is_probe));
    }

    #[test]
    fn names_of_operations_are_different_and_references_lead_somewhere() {
        let document = document();
        let mut names = BTreeSet::new();
        for (place, operation) in described(&document) {
            let name = operation["operationId"].as_str().unwrap().to_owned();
            assert!(names.insert(name), "the name of {place:?} is another one's");
        }
        for part in OPENAPI.split("\"$ref\": \"#").skip(1) {
            let place = part.split('"').next().unwrap();
            assert!(document.pointer(place).is_some(), "{place} leads nowhere");
        }
    }
}
