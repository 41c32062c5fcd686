//! A collector that takes nothing that is not by the rules of OTLP over HTTP, and keeps what it took.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;
use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a case waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A span as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub name: String,
    pub trace: String,
    pub id: String,
    /// Empty for the first of a trace.
    pub parent: String,
    pub kind: i32,
    /// By the clock, in nanoseconds.
    pub end: u64,
    /// Trace and span.
    pub links: Vec<(String, String)>,
    pub attributes: BTreeMap<String, String>,
    /// What it said when it failed.
    pub error: Option<String>,
    pub service: String,
}

impl Seen {
    /// Its context, as the header has it.
    pub fn context(&self) -> String {
        format!("00-{}-{}-01", self.trace, self.id)
    }

    pub fn links_to(&self, other: &Self) -> bool {
        self.links.contains(&(other.trace.clone(), other.id.clone()))
    }
}

#[derive(Default)]
struct Taken {
    spans: Vec<Seen>,
    /// What was not by the rules.
    faults: Vec<String>,
    requests: usize,
}

/// A server of its own; it ends with the process.
pub struct Receiver {
    address: String,
    taken: Arc<Mutex<Taken>>,
}

impl Receiver {
    pub fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap())
    }

    pub fn start_at(place: SocketAddr) -> Self {
        let listener = TcpListener::bind(place).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let taken = Arc::<Mutex<Taken>>::default();
        let takes = Arc::clone(&taken);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let takes = Arc::clone(&takes);
                std::thread::spawn(move || serve(stream.unwrap(), &takes));
            }
        });
        Self { address, taken }
    }

    /// Its address, for `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn requests(&self) -> usize {
        self.taken.lock().unwrap().requests
    }

    /// All spans that have come, if everything was by the rules.
    pub fn spans(&self) -> Vec<Seen> {
        let taken = self.taken.lock().unwrap();
        assert!(taken.faults.is_empty(), "not by the rules: {:#?}", taken.faults);
        taken.spans.clone()
    }

    /// Waits until the spans that have come show something.
    pub fn until<T>(&self, what: &str, check: impl Fn(&Spans) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            let spans = Spans(self.spans());
            spans.commits_are_inside();
            if let Some(found) = check(&spans) {
                return found;
            }
            let names: Vec<_> = spans.0.iter().map(|span| (&span.name, &span.trace)).collect();
            assert!(began.elapsed() < PATIENCE, "waited a minute for {what}; there are {names:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Spans, to be looked at.
pub struct Spans(pub Vec<Seen>);

impl Spans {
    /// Those with this name.
    pub fn named(&self, name: &str) -> Vec<&Seen> {
        self.0.iter().filter(|span| span.name == name).collect()
    }

    /// The only one with this name, if it has come.
    pub fn one(&self, name: &str) -> Option<&Seen> {
        match self.named(name)[..] {
            [only] => Some(only),
            [] => None,
            ref several => panic!("there are several {name}: {several:#?}"),
        }
    }

    /// That no commit has ended after what it commits.
    pub fn commits_are_inside(&self) {
        let commits = self.named("commit").into_iter();
        let inside = |commit: &&Seen| {
            let parent = self.0.iter().find(|span| span.id == commit.parent);
            parent.is_none_or(|parent| commit.end <= parent.end)
        };
        let outside: Vec<_> = commits.filter(|commit| !inside(commit)).collect();
        assert!(outside.is_empty(), "they end after what they commit: {outside:#?}");
    }

    /// The spans below this one, with this name.
    pub fn below(&self, span: &Seen, name: &str) -> Vec<&Seen> {
        let of = |it: &&Seen| it.name == name && it.parent == span.id && it.trace == span.trace;
        self.0.iter().filter(of).collect()
    }
}

fn serve(stream: TcpStream, taken: &Mutex<Taken>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some((head, body)) = request(&mut reader) {
        let read = read(&head, &body);
        let mut taken = taken.lock().unwrap();
        taken.requests += 1;
        let status = match read.and_then(|spans| take(&mut taken.spans, spans)) {
            Ok(()) => "200 OK",
            Err(fault) => {
                taken.faults.push(fault);
                "400 Bad Request"
            }
        };
        drop(taken);
        // The answer to a request that was taken whole is an empty message.
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n"
        );
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The lines of the head, and the body; nothing when the client has gone.
fn request(reader: &mut impl BufRead) -> Option<(Vec<String>, Vec<u8>)> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_ascii_lowercase()),
        }
    }
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn read(head: &[String], body: &[u8]) -> Result<ExportTraceServiceRequest, String> {
    let must =
        |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what}: {head:?}")) };
    must(head[0] == "post /v1/traces http/1.1", "another request")?;
    must(head.iter().any(|it| it == "content-type: application/x-protobuf"), "another content")?;
    // A signal of its own about a span of the exporter would be a trace of tracing.
    must(!head.iter().any(|it| it.starts_with("traceparent")), "the export is traced itself")?;
    let request = ExportTraceServiceRequest::decode(body).map_err(|error| error.to_string())?;
    // Fields that the schema does not have are lost when it is written again.
    must(request.encoded_len() == body.len(), "fields that there are not")?;
    Ok(request)
}

fn take(all: &mut Vec<Seen>, request: ExportTraceServiceRequest) -> Result<(), String> {
    let mut known: HashSet<String> = all.iter().map(|span| span.id.clone()).collect();
    let mut new = Vec::new();
    for of_resource in request.resource_spans {
        let resource = of_resource.resource.ok_or("no resource")?;
        let service = attributes(&resource.attributes)?.remove("service.name");
        let service = service.filter(|name| !name.is_empty()).ok_or("no service.name")?;
        for of_scope in of_resource.scope_spans {
            of_scope.scope.filter(|scope| !scope.name.is_empty()).ok_or("no scope")?;
            for span in of_scope.spans {
                let seen = seen(&span, &service).map_err(|fault| format!("{fault}: {span:?}"))?;
                if !known.insert(seen.id.clone()) {
                    return Err(format!("it has come before: {span:?}"));
                }
                new.push(seen);
            }
        }
    }
    all.extend(new);
    Ok(())
}

fn seen(span: &Span, service: &str) -> Result<Seen, String> {
    let trace = id(&span.trace_id, 16)?;
    let parent = match span.parent_span_id.is_empty() {
        true => String::new(),
        false => id(&span.parent_span_id, 8)?,
    };
    if span.name.is_empty() || !(1..=5).contains(&span.kind) {
        return Err("no name, or no kind".to_owned());
    }
    let (begin, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
    if begin == 0 || end < begin {
        return Err("it ended before it began".to_owned());
    }
    let mut links = Vec::new();
    for link in &span.links {
        links.push((id(&link.trace_id, 16)?, id(&link.span_id, 8)?));
    }
    let (own, different) = (id(&span.span_id, 8)?, links.iter().collect::<HashSet<_>>().len());
    if own == parent || different != links.len() || span.dropped_links_count > 0 {
        return Err(
            "it is its own parent, or a link comes twice, or links were left out".to_owned()
        );
    }
    let status = span.status.clone().unwrap_or_default();
    let error = match status.code() {
        StatusCode::Error => Some(status.message),
        _ => None,
    };
    let (name, service) = (span.name.clone(), service.to_owned());
    let attributes = attributes(&span.attributes)?;
    let kind = span.kind;
    Ok(Seen { name, trace, id: own, parent, kind, end, links, attributes, error, service })
}

fn id(bytes: &[u8], length: usize) -> Result<String, String> {
    match bytes.len() == length && bytes.iter().any(|byte| *byte != 0) {
        true => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        false => Err(format!("no id of {length} bytes: {bytes:?}")),
    }
}

fn attributes(pairs: &[KeyValue]) -> Result<BTreeMap<String, String>, String> {
    let mut attributes = BTreeMap::new();
    for pair in pairs {
        let value = match &pair.value {
            Some(AnyValue { value: Some(Value::StringValue(text)) }) => text.clone(),
            Some(AnyValue { value: Some(Value::IntValue(number)) }) => number.to_string(),
            Some(AnyValue { value: Some(Value::BoolValue(is)) }) => is.to_string(),
            other => return Err(format!("{}: {other:?}", pair.key)),
        };
        if pair.key.is_empty() || attributes.insert(pair.key.clone(), value).is_some() {
            return Err(format!("the attribute `{}` comes twice", pair.key));
        }
    }
    Ok(attributes)
}
