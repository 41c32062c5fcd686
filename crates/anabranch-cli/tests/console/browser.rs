//! Chromium without a window, as a process that ends with the test, however that ends.

use crate::devtools::DevTools;
use crate::provided;
use crate::tab::Tab;
use serde_json::json;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// It looks for nothing outside of this machine, and a sandbox needs rights that containers do not give.
const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-extensions",
    "--remote-debugging-pipe",
];

/// It reads commands from the descriptor 3 and answers on 4, which no test of this workspace may set up without a
/// shell (that needs `unsafe`). When this process is gone the pipes end, and so does the browser.
const PIPED: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

const PATIENCE: Duration = Duration::from_secs(10);

pub struct Browser {
    process: Child,
    devtools: Arc<DevTools>,
    home: TempDir,
}

impl Browser {
    pub fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let said = std::fs::File::create(home.path().join("said")).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", PIPED]).arg(provided::chromium()).args(FLAGS);
        command.arg(format!("--user-data-dir={}", home.path().join("user").display()));
        // What it keeps for a user, it would keep for the one who runs the tests.
        command.env("HOME", home.path()).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said);
        let mut process = command.spawn().unwrap();
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let devtools = Arc::new(DevTools::new(to, from));
        let browser = Self { process, devtools, home };
        if let Err(why) = browser.devtools.call(None, "Browser.getVersion", json!({})) {
            let said = std::fs::read_to_string(browser.home.path().join("said"));
            panic!("the browser does not answer: {why}; it said: {}", said.unwrap_or_default());
        }
        browser
    }

    /// A tab with cookies and a clipboard of its own.
    pub fn tab(&self) -> Tab {
        let ask = |method: &str, params| self.devtools.call(None, method, params).unwrap();
        let context = ask("Target.createBrowserContext", json!({}));
        let context = &context["browserContextId"];
        ask(
            "Browser.grantPermissions",
            json!({
                "browserContextId": context,
                "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"],
            }),
        );
        let new = json!({ "url": "about:blank", "browserContextId": context });
        let target = ask("Target.createTarget", new);
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = ask("Target.attachToTarget", attach);
        Tab::new(Arc::clone(&self.devtools), session["sessionId"].as_str().unwrap().to_owned())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Told to end it ends all of its processes; killed it would leave some to find out by themselves.
        let _ = self.devtools.call(None, "Browser.close", json!({}));
        let began = Instant::now();
        while self.process.try_wait().is_ok_and(|ended| ended.is_none()) {
            if began.elapsed() > PATIENCE {
                let _ = self.process.kill();
                let _ = self.process.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
