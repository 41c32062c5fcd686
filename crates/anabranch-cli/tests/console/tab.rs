//! A tab: what a person does in it, and what they see.

use crate::complaints::{complaint, said_by};
use crate::devtools::DevTools;
use crate::keys;
use crate::provided;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    Dark,
    Light,
}

/// At its end, a test fails of anything that the page complained of and that it did not expect.
pub struct Tab {
    devtools: Arc<DevTools>,
    session: String,
    /// Parts of complaints that the test provokes.
    expected: Mutex<Vec<String>>,
}

/// The middle of an element, once it stands still and nothing lies over it.
const MIDDLE: &str = r"(async (selector, nth) => {
  const frame = () => new Promise(requestAnimationFrame);
  const found = document.querySelectorAll(selector)[nth];
  if (!found) return { why: 'it is not there' };
  found.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
  await frame();
  const before = found.getBoundingClientRect();
  await frame();
  const box = found.getBoundingClientRect();
  if (box.width === 0 || box.height === 0) return { why: 'it is not seen' };
  if (box.x !== before.x || box.y !== before.y) return { why: 'it moves' };
  if (found.disabled) return { why: 'it is disabled' };
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const top = document.elementFromPoint(x, y);
  if (!top || !(found.contains(top) || top.contains(found))) return { why: `${top?.outerHTML.slice(0, 100)} lies over it` };
  return { x, y };
})";

impl Tab {
    pub fn new(devtools: Arc<DevTools>, session: String) -> Self {
        let tab = Self { devtools, session, expected: Mutex::new(Vec::new()) };
        for area in ["Page", "Runtime", "Log", "Network", "Audits"] {
            tab.call(&format!("{area}.enable"), json!({}));
        }
        tab.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
        tab.resize(1280, 800);
        tab
    }

    pub fn call(&self, method: &str, params: Value) -> Value {
        self.try_call(method, params).unwrap_or_else(|why| self.fail(&why))
    }

    fn try_call(&self, method: &str, params: Value) -> Result<Value, String> {
        self.devtools.call(Some(&self.session), method, params)
    }

    /// Opens an address. What follows a `#` is a page of the same document.
    pub fn goto(&self, url: &str) {
        let went = self.call("Page.navigate", json!({ "url": url }));
        if let Some(error) = went["errorText"].as_str() {
            self.fail(&format!("{url}: {error}"));
        }
        let is_there =
            format!("location.href === {} && document.readyState === 'complete'", json!(url));
        self.wait(&format!("{url} is open"), &is_there);
    }

    pub fn reload(&self) {
        self.js("window.isOfBefore = true");
        self.call("Page.reload", json!({}));
        self.wait("it is loaded again", "!window.isOfBefore && document.readyState === 'complete'");
    }

    /// The value of an expression in the page, or of its promise.
    pub fn js(&self, expression: &str) -> Value {
        self.try_js(expression).unwrap_or_else(|why| self.fail(&format!("{expression}: {why}")))
    }

    fn try_js(&self, expression: &str) -> Result<Value, String> {
        let ask = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.try_call("Runtime.evaluate", ask)?;
        match answer.get("exceptionDetails") {
            Some(thrown) => Err(said_by(thrown)),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Waits until an expression is true (or something that counts as true), and answers it. What throws is not true yet.
    pub fn wait(&self, what: &str, expression: &str) -> Value {
        self.wait_within(PATIENCE, what, expression)
    }

    fn wait_within(&self, patience: Duration, what: &str, expression: &str) -> Value {
        let began = Instant::now();
        loop {
            let is = self.try_js(expression);
            match &is {
                Ok(Value::Null | Value::Bool(false)) | Err(_) => {}
                Ok(Value::Number(number)) if number.as_f64() == Some(0.0) => {}
                Ok(Value::String(text)) if text.is_empty() => {}
                Ok(value) => return value.clone(),
            }
            if began.elapsed() > patience {
                self.fail(&format!("waited {patience:?} until {what}: {expression} is {is:?}"));
            }
            std::thread::sleep(PAUSE);
        }
    }

    pub fn text(&self, selector: &str) -> String {
        let expression = format!("document.querySelector({}).textContent", json!(selector));
        self.js(&expression).as_str().unwrap().to_owned()
    }

    pub fn count(&self, selector: &str) -> u64 {
        self.js(&format!("document.querySelectorAll({}).length", json!(selector))).as_u64().unwrap()
    }

    pub fn attribute(&self, selector: &str, name: &str) -> Option<String> {
        let (selector, name) = (json!(selector), json!(name));
        let value = self.js(&format!("document.querySelector({selector}).getAttribute({name})"));
        value.as_str().map(str::to_owned)
    }

    /// Waits until there is one, and until there is none.
    pub fn wait_for(&self, selector: &str) {
        self.wait(
            &format!("there is {selector}"),
            &format!("!!document.querySelector({})", json!(selector)),
        );
    }

    pub fn wait_gone(&self, selector: &str) {
        self.wait(
            &format!("{selector} is gone"),
            &format!("!document.querySelector({})", json!(selector)),
        );
    }

    /// With a mouse, as a person does: what is hidden, covered or disabled cannot be clicked.
    pub fn click(&self, selector: &str) {
        self.click_within(PATIENCE, selector, 0);
    }

    /// One of several, from 0.
    pub fn click_nth(&self, selector: &str, nth: u64) {
        self.click_within(PATIENCE, selector, nth);
    }

    pub fn click_within(&self, patience: Duration, selector: &str, nth: u64) {
        let middle = format!("{MIDDLE}({}, {nth})", json!(selector));
        let middle = format!("{middle}.then((at) => {{ if (at.why) throw at.why; return at; }})");
        let at = self.wait_within(patience, &format!("{selector} can be clicked"), &middle);
        self.mouse("mouseMoved", &at, 0);
        self.mouse("mousePressed", &at, 1);
        self.mouse("mouseReleased", &at, 1);
    }

    pub fn hover(&self, x: f64, y: f64) {
        self.mouse("mouseMoved", &json!({ "x": x, "y": y }), 0);
    }

    fn mouse(&self, kind: &str, at: &Value, clicks: u8) {
        let button = if clicks == 0 { "none" } else { "left" };
        let event = json!({ "type": kind, "x": at["x"], "y": at["y"], "button": button, "clickCount": clicks });
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Into what has the focus, key by key.
    pub fn type_text(&self, text: &str) {
        for letter in text.chars() {
            for event in keys::letter(letter) {
                self.call("Input.dispatchKeyEvent", event);
            }
        }
    }

    /// Clicks a field, and types in place of what is in it.
    pub fn fill(&self, selector: &str, text: &str) {
        self.click(selector);
        self.js(&format!("document.querySelector({}).select()", json!(selector)));
        if text.is_empty() {
            self.press("Backspace");
        }
        self.type_text(text);
    }

    /// A key by its name, such as `Enter` or `Shift+Tab`.
    pub fn press(&self, key: &str) {
        for event in keys::key(key) {
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    pub fn resize(&self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// As the settings of a person's system would have it.
    pub fn prefer(&self, theme: Theme, reduced_motion: bool) {
        let theme = if theme == Theme::Dark { "dark" } else { "light" };
        let motion = if reduced_motion { "reduce" } else { "no-preference" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": theme },
            { "name": "prefers-reduced-motion", "value": motion },
        ]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// A picture of what is seen.
    pub fn screenshot(&self, file: &Path) {
        self.picture(file, json!({ "format": "png" }));
    }

    /// A picture of all of the page, as far as it is looked at by anybody.
    pub fn screenshot_of_all(&self, file: &Path) {
        let height = self.js("Math.min(document.documentElement.scrollHeight, 4000)");
        let clip =
            json!({ "x": 0, "y": 0, "width": self.js("innerWidth"), "height": height, "scale": 1 });
        self.picture(file, json!({ "format": "png", "captureBeyondViewport": true, "clip": clip }));
    }

    fn picture(&self, file: &Path, how: Value) {
        // Not by `call`, which takes a picture when it fails.
        let picture = self.try_call("Page.captureScreenshot", how).unwrap();
        let picture = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, picture).unwrap();
    }

    /// The bytes that came over the network, with heads.
    pub fn transferred(&self) -> f64 {
        let events = self.devtools.events(&self.session, 0);
        let ends = events.iter().filter(|event| event.method == "Network.loadingFinished");
        ends.filter_map(|event| event.params["encodedDataLength"].as_f64()).sum()
    }

    /// What this test provokes: complaints with this part in them.
    pub fn expect_complaints(&self, part: &str) {
        self.expected.lock().unwrap().push(part.to_owned());
    }

    /// What the page complained of, or the browser about it, and the test did not expect.
    pub fn complaints(&self) -> Vec<String> {
        let expected = self.expected.lock().unwrap();
        let events = self.devtools.events(&self.session, 0);
        let all = events.iter().filter_map(complaint);
        all.filter(|said| !expected.iter().any(|part| said.contains(part))).collect()
    }

    /// Fails with what a person would see.
    pub fn fail(&self, why: &str) -> ! {
        let show = "location.href + '\\n' + document.body?.innerText?.slice(0, 1500)";
        let seen = self.try_js(show).map(|seen| seen.as_str().unwrap_or_default().to_owned());
        let seen = seen.unwrap_or_else(|why| why);
        let test = std::thread::current().name().unwrap_or("a test").replace("::", "-");
        let picture = provided::root().join(format!("target/screenshots/failures/{test}.png"));
        self.screenshot(&picture);
        let complaints = self.complaints();
        panic!(
            "{why}\nthe page: {seen}\nits picture: {}\ncomplaints: {complaints:#?}",
            picture.display()
        );
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let complaints = self.complaints();
        assert!(complaints.is_empty(), "the page complained: {complaints:#?}");
    }
}
