//! What a page should not say: errors, warnings, violations of its policy, dialogs that it did not ask for.

use crate::devtools::Event;
use serde_json::Value;

/// What an event says that should not be.
pub fn complaint(Event { method, params }: &Event) -> Option<String> {
    let is_bad = |kind: &Value| matches!(kind.as_str(), Some("error" | "warning" | "assert"));
    match method.as_str() {
        "Runtime.exceptionThrown" => Some(said_by(&params["exceptionDetails"])),
        "Runtime.consoleAPICalled" if is_bad(&params["type"]) => {
            let said = params["args"].as_array().into_iter().flatten();
            let said = said.map(|arg| arg.get("value").unwrap_or(&arg["description"]).to_string());
            Some(format!("console: {}", said.collect::<Vec<_>>().join(" ")))
        }
        "Log.entryAdded" if is_bad(&params["entry"]["level"]) => {
            let entry = &params["entry"];
            Some(format!("{}: {} ({})", entry["source"], entry["text"], entry["url"]))
        }
        "Audits.issueAdded" if params["issue"]["code"] == "ContentSecurityPolicyIssue" => {
            Some(format!("content security policy: {}", params["issue"]["details"]))
        }
        "Page.javascriptDialogOpening" => Some(format!("a dialog: {}", params["message"])),
        _ => None,
    }
}

/// What was thrown, in words.
pub fn said_by(thrown: &Value) -> String {
    let what = thrown["exception"]["description"].as_str();
    let what = what.or_else(|| thrown["exception"]["value"].as_str());
    what.unwrap_or_else(|| thrown["text"].as_str().unwrap_or("an exception")).to_owned()
}
