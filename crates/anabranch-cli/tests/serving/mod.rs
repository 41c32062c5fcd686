//! A process that runs a file, and serves metrics and health.

use crate::place::Place;
use crate::process::stdout;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Ends with the test, however that ends.
pub struct Serving {
    child: Option<Child>,
    pub at: SocketAddr,
}

impl Serving {
    pub fn start(place: &Place, file: &str) -> Self {
        Self::start_at(place, &["run", file, "--metrics", "127.0.0.1:0"])
    }

    /// The same with all its arguments.
    pub fn start_at(place: &Place, arguments: &[&str]) -> Self {
        Self::of(place.process(arguments))
    }

    pub fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = said.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("metrics and health at http://")?;
            Some(rest.split_once('/')?.0.to_owned())
        });
        // What it says from now on is read, so that it never waits for a reader.
        std::thread::spawn(move || said.for_each(drop));
        Self { child: Some(child), at: line.expect("it says where").parse().unwrap() }
    }

    pub fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Ends it as it should end.
    pub fn stop(mut self) {
        signal(self.id(), "TERM");
        stdout(&self.child.take().unwrap().wait_with_output().unwrap());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn signal(id: u32, name: &str) {
    let mut kill = Command::new("kill");
    assert!(kill.args(["-s", name, &id.to_string()]).status().unwrap().success());
}

/// The status and the body of an answer.
pub fn get(at: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// Waits for a condition.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited a minute until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
