//! The manifests of `deploy/kubernetes/` are valid by published schemas, and say what the command understands.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

#[path = "files/place.rs"]
mod place;
mod process;
mod provided;
mod serving;

use place::{Place, number};
use process::stdout;
use provided::{kubernetes_schemas, node, python, root};
use serde_json::Value;
use serving::{Serving, get, until};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The oldest that the README promises, and the newest that there is a schema of.
const VERSIONS: [&str; 2] = ["1.28", "1.37"];

fn script(name: &str) -> std::path::PathBuf {
    root().join("crates/anabranch-cli/tests/manifests").join(name)
}

fn validate(folder: &Path) -> Output {
    let mut command = Command::new(python());
    command.arg(script("validate.py")).arg(folder).args(VERSIONS);
    command.env("PYTHONPATH", kubernetes_schemas().join("python")).output().unwrap()
}

/// Every document with its file, and the versions of Kubernetes whose schemas it was compared with.
fn manifests() -> Vec<Value> {
    serde_json::from_str(&stdout(&validate(&root().join("deploy/kubernetes")))).unwrap()
}

fn of_kind(kind: &str) -> Value {
    let found = manifests().into_iter().find(|it| it["document"]["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}"))["document"].take()
}

fn validate_others(documents: &[Value]) -> Output {
    let mut command = Command::new(node());
    command.arg(script("validate.mjs")).arg(kubernetes_schemas());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let all = serde_json::to_vec(documents).unwrap();
    child.stdin.take().unwrap().write_all(&all).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn manifests_are_valid_by_published_schemas() {
    let all = manifests();
    // Values of a chart are no manifest.
    let (manifests, values): (Vec<Value>, Vec<Value>) =
        all.into_iter().partition(|it| it["document"]["kind"].is_string());
    assert_eq!(values.len(), 1, "{values:?}");
    let (ours, others): (Vec<Value>, Vec<Value>) = manifests
        .into_iter()
        .partition(|it| it["validated"].as_array().unwrap().len() == VERSIONS.len());
    assert_eq!(ours.len(), 6, "{ours:?}");
    assert_eq!(stdout(&validate_others(&others)).trim(), "3", "KEDA's two, and a PodMonitor");

    let mut wrong = others;
    let scaled = wrong.iter_mut().find(|it| it["document"]["kind"] == "ScaledObject").unwrap();
    scaled["document"]["spec"]["maxReplicaCount"] = "ten".into();
    let said = validate_others(&wrong);
    assert!(!said.status.success());
    assert!(String::from_utf8(said.stderr).unwrap().contains("maxReplicaCount"));
}

#[test]
fn a_field_that_kubernetes_does_not_know_is_found() {
    let here = tempfile::tempdir().unwrap();
    let right = std::fs::read_to_string(root().join("deploy/kubernetes/deployment.yaml")).unwrap();
    let wrong = right.replace("readinessProbe:", "readynessProbe:");
    assert_ne!(right, wrong);
    std::fs::write(here.path().join("deployment.yaml"), wrong).unwrap();
    let output = validate(here.path());
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("readynessProbe"));
}

#[test]
fn the_file_is_the_one_of_deploy() {
    let map = of_kind("ConfigMap");
    let file = std::fs::read_to_string(root().join("deploy/orders.toml")).unwrap();
    assert_eq!(map["data"]["anabranch.toml"], file);
}

#[test]
fn workers_end_later_than_their_grace_and_have_no_rights() {
    for kind in ["Deployment", "StatefulSet"] {
        let pod = &of_kind(kind)["spec"]["template"]["spec"];
        // `grace` of a replica set is 10 s.
        assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() >= 20, "{kind}");
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let worker = &pod["containers"][0];
        assert_eq!(worker["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(worker["securityContext"]["allowPrivilegeEscalation"], false);
        assert_eq!(worker["securityContext"]["capabilities"]["drop"][0], "ALL");
        assert_eq!(worker["livenessProbe"]["httpGet"]["path"], "/livez");
        assert_eq!(worker["startupProbe"]["httpGet"]["path"], "/livez");
        assert_eq!(worker["readinessProbe"]["httpGet"]["path"], "/readyz");
        assert_eq!(worker["ports"][0]["containerPort"], 9090);
    }
}

/// What the manifests say is run: by the real command, with the variables of a pod, and asked as Kubernetes and KEDA ask.
#[tokio::test(flavor = "multi_thread")]
async fn arguments_probes_and_the_query_of_the_autoscaler_work() {
    let place = Place::postgres();
    let log = place.log().await;
    place.write(
        "anabranch.toml",
        &std::fs::read_to_string(root().join("deploy/orders.toml")).unwrap(),
    );
    for kind in ["Deployment", "StatefulSet"] {
        let worker = &of_kind(kind)["spec"]["template"]["spec"]["containers"][0];
        let words = worker["args"].as_array().unwrap().iter();
        let mut words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
        // What differs from a pod: where the file lies, and the port, which may be taken here.
        let file = words.iter().position(|word| *word == "/etc/anabranch/anabranch.toml").unwrap();
        let port = words.iter().position(|word| *word == "0.0.0.0:9090").unwrap();
        (words[file], words[port]) = ("anabranch.toml", "127.0.0.1:0");
        let mut command = place.process(&words);
        for variable in worker["env"].as_array().unwrap() {
            match variable["name"].as_str().unwrap() {
                "DATABASE_URL" => {}
                // The second of them, as the label of a pod says it.
                name @ "PARTITION_KEY" => drop(command.env(name, "1")),
                name => drop(command.env(name, variable["value"].as_str().unwrap())),
            }
        }
        let serving = Serving::of(command);
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let path = worker[probe]["httpGet"]["path"].as_str().unwrap();
            until("the probe succeeds", || get(serving.at, path) == (200, "ok\n".to_owned()));
        }
        assert_eq!(
            get(
                serving.at,
                of_kind("PodMonitor")["spec"]["podMetricsEndpoints"][0]["path"].as_str().unwrap()
            )
            .0,
            200
        );
        serving.stop();
    }
    place.order(&log, "1", r#"{"cents": 2}"#).await;
    let scaled = of_kind("ScaledObject");
    let query = scaled["spec"]["triggers"][0]["metadata"]["query"].as_str().unwrap();
    let view = log.database().dialect().table("lag");
    let query = query.replace(r#""anabranch".lag"#, &view);
    assert!(query.contains(&view), "{query}");
    assert_eq!(number(&log, &query).await, 1, "{query}");
}

#[test]
fn partitions_are_as_many_as_replicas_and_know_their_number() {
    let set = of_kind("StatefulSet");
    let variables = &set["spec"]["template"]["spec"]["containers"][0]["env"];
    let variable =
        |name: &str| variables.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
    assert_eq!(variable("TOTAL_PARTITIONS")["value"], set["spec"]["replicas"].to_string());
    let path = &variable("PARTITION_KEY")["valueFrom"]["fieldRef"]["fieldPath"];
    assert_eq!(path, "metadata.labels['apps.kubernetes.io/pod-index']");
}

#[test]
fn autoscalers_agree_and_leave_the_server_connections() {
    let (scaled, hpa) = (of_kind("ScaledObject"), of_kind("HorizontalPodAutoscaler"));
    assert_eq!(scaled["spec"]["maxReplicaCount"], hpa["spec"]["maxReplicas"]);
    assert_eq!(scaled["spec"]["minReplicaCount"], hpa["spec"]["minReplicas"]);
    // PostgreSQL has 100 connections and keeps 3; a process takes one for each of its four lanes, and four more. A rolling
    // update has one process more.
    assert!((hpa["spec"]["maxReplicas"].as_u64().unwrap() + 1) * (4 + 4) <= 97);
    let query = scaled["spec"]["triggers"][0]["metadata"]["query"].as_str().unwrap();
    assert!(query.contains("ready_events") && query.contains(r#""anabranch".lag"#), "{query}");
}
