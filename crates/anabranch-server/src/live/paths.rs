//! Which addresses of the API a live stream watches.

use crate::page::Params;
use crate::problem::Problem;
use axum::http::Uri;

/// How many one stream may watch.
const MOST: usize = 16;
/// How long one may be.
const LENGTH: usize = 2_000;

/// What a request wants to watch: one to sixteen addresses of resources that can be watched, each once.
pub(super) fn asked(params: &Params, watched: &[&'static str]) -> Result<Vec<String>, Problem> {
    let mut paths: Vec<String> = Vec::new();
    for path in params.all("watch") {
        if !can_be_watched(path, watched) {
            let path: String = path.chars().take(200).collect();
            let said = format!(
                "`{}` cannot be watched; what can, each with its own query: {}",
                path.escape_debug(),
                watched.join(", ")
            );
            return Err(Problem::invalid(said).with("known", watched));
        }
        if !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    match paths.len() {
        0 => Err(Problem::invalid("say what to watch: `?watch=%2Fv1%2Fconsumers`")),
        1..=MOST => Ok(paths),
        count => {
            let said =
                format!("{count} addresses are more than one stream watches; {MOST} are the most");
            Err(Problem::invalid(said))
        }
    }
}

fn can_be_watched(path: &str, watched: &[&'static str]) -> bool {
    let Ok(uri) = path.parse::<Uri>() else { return false };
    // What is parsed leaves out a fragment, and a host would not be ours.
    path.len() <= LENGTH
        && uri.path_and_query().is_some_and(|parsed| parsed.as_str() == path)
        && watched.iter().any(|pattern| fits(uri.path(), pattern))
}

/// Whether a path is one of a route: segment by segment, as the router compares them.
fn fits(path: &str, pattern: &str) -> bool {
    let (mut path, mut pattern) = (path.split('/'), pattern.split('/'));
    loop {
        match (path.next(), pattern.next()) {
            (None, None) => return true,
            (Some(part), Some(wanted)) if wanted.starts_with('{') && !part.is_empty() => {}
            (Some(part), Some(wanted)) if part == wanted => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes;

    fn watched() -> Vec<&'static str> {
        let watched = routes::all().into_iter().filter(|route| route.is_watched);
        watched.map(|route| route.path).collect()
    }

    #[test]
    fn only_routes_that_read_are_watched() {
        let all = routes::all();
        let watched: Vec<_> = all.iter().filter(|route| route.is_watched).collect();
        assert_eq!(watched.len(), 19);
        assert!(watched.iter().all(|route| route.method == "GET" && !route.rules.is_long));
    }

    #[test]
    fn addresses_of_watched_resources_fit_and_no_others() {
        let watched = watched();
        for path in [
            "/v1/consumers",
            "/v1/consumers?limit=20",
            "/v1/consumers/orders/slots",
            "/v1/consumers/a%2Fb",
            "/v1/tasks?pool=mails&state=dead",
            "/v1/streams/Order/1?direction=backwards",
        ] {
            assert!(can_be_watched(path, &watched), "{path}");
        }
        let long = format!("/v1/consumers?after={}", "x".repeat(LENGTH));
        for path in [
            "",
            "/",
            "v1/consumers",
            "/v1/consumers/",
            "/v1//consumers",
            "/v1/consumers/orders/explain?key=1",
            "/v1/consumers/orders/parked/groups",
            "/v1/events",
            "/v1/tail",
            "/v1/live?watch=%2Fv1%2Fconsumers",
            "/v1/tokens",
            "/v1/session",
            "/metrics",
            "/v1/plans/1/apply",
            "http://127.0.0.1/v1/consumers",
            "//v1/consumers",
            "/v1/consumers#x",
            "/v1/consumers/../tokens",
            "/v1/consumers x",
            long.as_str(),
        ] {
            assert!(!can_be_watched(path, &watched), "{path}");
        }
    }
}
