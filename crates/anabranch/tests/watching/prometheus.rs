//! A real Prometheus, that scrapes and is asked for figures.

use crate::asked::try_get;
use crate::server::provided;
use crate::support::PATIENCE;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The folder of `prometheus` and `promtool`. What is missing is a failure, never a skipped test.
fn programs() -> PathBuf {
    provided("ANABRANCH_TEST_PROMETHEUS_PROGRAMS", 4)
}

/// What `promtool` says of a text in the format of Prometheus: nothing, if it is as it should be.
pub fn problems(text: &str) -> String {
    let mut promtool = Command::new(programs().join("promtool"));
    promtool.args(["check", "metrics"]);
    let piped = promtool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    if output.status.success() { said } else { format!("{}: {said}", output.status) }
}

pub struct Prometheus {
    child: Child,
    at: SocketAddr,
    home: tempfile::TempDir,
}

impl Prometheus {
    /// Scrapes these every two seconds, each under the name of a job.
    pub fn start(targets: &[(&str, SocketAddr)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let jobs = targets.iter().map(|(job, at)| {
            format!("  - job_name: {job}\n    static_configs: [{{targets: ['{at}']}}]\n")
        });
        let jobs: String = jobs.collect();
        // A scrape that has not ended by then is none, and a slow machine takes its time.
        let file =
            format!("global: {{scrape_interval: 2s, scrape_timeout: 2s}}\nscrape_configs:\n{jobs}");
        std::fs::write(home.path().join("prometheus.yml"), file).unwrap();
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut prometheus = Command::new(programs().join("prometheus"));
        prometheus.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
        prometheus.arg(format!("--web.listen-address={at}")).current_dir(home.path());
        let said = std::fs::File::create(home.path().join("said")).unwrap();
        let child = prometheus.stdout(Stdio::null()).stderr(said).spawn().unwrap();
        Self { child, at, home }
    }

    /// The values that a query has now; none while it does not answer yet.
    pub fn query(&self, query: &str) -> Vec<f64> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("/api/v1/query?query={encoded}");
        let body = match try_get(self.at, &path, "*/*") {
            Ok((status, body)) if status != 503 => body,
            _ => return Vec::new(),
        };
        let body = body.split_once('{').map(|(_, rest)| format!("{{{rest}")).unwrap();
        let mut answer = serde_json::Deserializer::from_str(&body).into_iter::<Value>();
        let answer = answer.next().unwrap().unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let found = answer["data"]["result"].as_array().unwrap().iter();
        found.map(|one| one["value"][1].as_str().unwrap().parse().unwrap()).collect()
    }

    /// Waits until a query has this one value.
    pub async fn until(&self, query: &str, value: f64) {
        let began = Instant::now();
        loop {
            let found = self.query(query);
            if found == [value] {
                return;
            }
            let said = || std::fs::read_to_string(self.home.path().join("said")).unwrap();
            assert!(began.elapsed() < PATIENCE, "{query} is {found:?}, not {value}: {}", said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server of somebody's own, which shows what another one says to those who do not know OpenMetrics.
pub fn plain(of: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut asked = [0; 4096];
            // One request, and the connection ends.
            let _ = stream.read(&mut asked);
            // Who gets no answer asks again soon: one that is missing must not be the end of this thread.
            let Ok((_, text)) = try_get(of, "/metrics", "text/plain;version=0.0.4") else {
                continue;
            };
            assert!(!text.contains("# EOF"), "it is not OpenMetrics");
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{text}",
                text.len()
            );
        }
    });
    at
}
