//! The alerts of `deploy/prometheus/` and the dashboard of `deploy/grafana/`: they ask for metrics that there are, in
//! PromQL that parses; each alert is tested, and has a place in docs/alerts.md.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod provided;

use anabranch::watch::{Kind, METRICS, Metric};
use provided::{prometheus_programs, root};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Of kube-state-metrics.
const OF_OTHERS: [&str; 2] = ["kube_deployment_spec_replicas", "kube_statefulset_replicas"];

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn promtool(arguments: &[&str], directory: &Path) -> Result<String, String> {
    let program = prometheus_programs().join("promtool");
    let output = Command::new(program).args(arguments).current_dir(directory).output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    if output.status.success() { Ok(said) } else { Err(said) }
}

/// Names of metrics in text that has no other words of their form.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("anabranch_") || word.starts_with("kube_")).collect()
}

fn is_histogram(metric: &Metric) -> bool {
    matches!(metric.kind, Kind::Seconds | Kind::Sizes)
}

fn is_there(metric: &str) -> bool {
    let base = ["_bucket", "_sum", "_count"].iter().find_map(|ending| metric.strip_suffix(ending));
    let is_named = |known: &Metric| match is_histogram(known) {
        true => base == Some(known.name),
        false => metric == known.name,
    };
    METRICS.iter().any(is_named) || OF_OTHERS.contains(&metric)
}

fn names_only_what_there_is(text: &str) {
    let named = metrics(text);
    let unknown: Vec<_> = named.iter().filter(|metric| !is_there(metric)).collect();
    assert!(unknown.is_empty() && !named.is_empty(), "there is no {unknown:?}");
}

fn dashboard() -> Value {
    serde_json::from_str(&text("deploy/grafana/anabranch.json")).unwrap()
}

/// Every expression of the dashboard.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let annotations = dashboard["annotations"]["list"].as_array().unwrap();
    let all = targets.chain(annotations);
    all.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// The alerts, each with its lines.
fn alerts(rules: &str) -> Vec<(&str, &str)> {
    let parts = rules.split("- alert: ").skip(1);
    parts.map(|part| part.split_once('\n').unwrap()).collect()
}

#[test]
fn alerts_name_only_metrics_that_there_are() {
    let rules = text("deploy/prometheus/anabranch.rules.yaml");
    for (_, body) in alerts(&rules) {
        let expression = body.split_once("labels:\n").unwrap().0;
        names_only_what_there_is(expression);
    }
}

#[test]
fn alerts_fire_where_they_should_and_not_where_they_should_not() {
    let folder = root().join("deploy/prometheus");
    let checked = promtool(&["check", "rules", "anabranch.rules.yaml"], &folder).unwrap();
    assert!(checked.contains("18 rules found"), "{checked}");
    promtool(&["test", "rules", "anabranch.rules.test.yaml"], &folder).unwrap();
}

#[test]
fn each_alert_is_tested_both_ways() {
    let (rules, tests) = (
        text("deploy/prometheus/anabranch.rules.yaml"),
        text("deploy/prometheus/anabranch.rules.test.yaml"),
    );
    for (alert, _) in alerts(&rules) {
        let cases =
            tests.split("  - name: ").filter(|case| case.starts_with(&format!("'{alert}: ")));
        let (quiet, fired): (Vec<_>, Vec<_>) =
            cases.partition(|case| case.contains("exp_alerts: []"));
        assert!(
            !quiet.is_empty() && !fired.is_empty(),
            "{alert} fires {}, not {}",
            fired.len(),
            quiet.len()
        );
    }
}

#[test]
fn each_alert_says_how_bad_it_is_and_where_to_read_on() {
    let rules = text("deploy/prometheus/anabranch.rules.yaml");
    let page = text("docs/alerts.md");
    let headings: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let named: BTreeSet<&str> = alerts(&rules).iter().map(|(alert, _)| *alert).collect();
    assert_eq!(headings, named, "docs/alerts.md has a heading for each alert, and no other");
    for (alert, body) in alerts(&rules) {
        let severe =
            ["critical", "warning"].iter().any(|it| body.contains(&format!("severity: {it}\n")));
        assert!(severe && body.contains("summary: ") && body.contains("description: "), "{alert}");
        let link = format!("runbook_url: docs/alerts.md#{}\n", alert.to_lowercase());
        assert!(body.contains(&link), "{alert} has no {link}");
    }
}

#[test]
fn the_dashboard_asks_for_every_metric_and_no_other() {
    let all = expressions(&dashboard()).join("\n").replace("ALERTS{alertname=~\"Anabranch.+\"", "");
    names_only_what_there_is(&all);
    let asked = metrics(&all);
    for metric in METRICS {
        let ending = if is_histogram(metric) { "_bucket" } else { "" };
        let name = format!("{}{ending}", metric.name);
        assert!(asked.contains(name.as_str()), "no panel shows {name}");
    }
}

#[test]
fn expressions_of_the_dashboard_parse() {
    let check = |expressions: &[String]| {
        let filled = expressions.iter().map(|expression| {
            let expression = expression.replace("$__rate_interval", "5m");
            expression.replace("$set", ".*").replace("$consumer", ".*")
        });
        let rules: Vec<Value> = filled
            .enumerate()
            .map(|(number, expr)| json!({"record": format!("panel:{number}"), "expr": expr}))
            .collect();
        // JSON is YAML, too.
        let file = json!({"groups": [{"name": "dashboard", "rules": rules}]});
        let here = tempfile::tempdir().unwrap();
        std::fs::write(here.path().join("rules.yaml"), file.to_string()).unwrap();
        promtool(&["check", "rules", "rules.yaml"], here.path())
    };
    let all = expressions(&dashboard());
    assert!(all.len() > 30, "{}", all.len());
    check(&all).unwrap();
    check(&["sum by (set (anabranch_workers)".to_owned()]).unwrap_err();
}

#[test]
fn panels_have_ids_and_places_of_their_own() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let place =
        |panel: &Value| ["x", "y", "w", "h"].map(|it| panel["gridPos"][it].as_u64().unwrap());
    for (number, panel) in panels.iter().enumerate() {
        let [x, y, w, h] = place(panel);
        assert!(x + w <= 24, "{panel}");
        for other in &panels[number + 1..] {
            let [ox, oy, ow, oh] = place(other);
            let apart = x + w <= ox || ox + ow <= x || y + h <= oy || oy + oh <= y;
            assert!(apart, "{} lies upon {}", panel["title"], other["title"]);
        }
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "set", "consumer"]);
}
