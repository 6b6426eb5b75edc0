//! A real trace collector: Jaeger, built with Go from its module, once.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::http::{Client, Headers, PATIENCE, Request};

/// The newest version that builds in about a minute; it takes OTLP over HTTP and gRPC.
const MODULE: &str = "github.com/jaegertracing/jaeger@v1.42.0";

/// Only one test builds the program.
static BUILDING: Mutex<()> = Mutex::new(());

/// The running collector. It ends when this is dropped.
pub(crate) struct Collector {
    child: Child,
    query: SocketAddr,
    ports: Ports,
}

/// Starts of a collector whose ports were taken, at most.
const STARTS_MAX: usize = 10;

/// The ports for spans.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) http: u16,
    pub(crate) grpc: u16,
}

impl Ports {
    /// Two ports that are free now.
    pub(crate) fn free() -> Self {
        let [http, grpc] = free_ports();
        Self { http, grpc }
    }
}

/// A span, as the collector shows it.
#[derive(Clone, Debug)]
pub(crate) struct Span(Value);

impl Collector {
    /// Starts the collector, and waits until it answers queries.
    pub(crate) fn start() -> Self {
        Self::repeated(Ports::free)
    }

    /// The same, with these ports for spans.
    pub(crate) fn start_at(ports: Ports) -> Self {
        Self::repeated(|| ports)
    }

    /// A port that was free can be taken by a connection before the collector listens on it. The
    /// collector then ends, and is started again.
    fn repeated(ports: impl Fn() -> Ports) -> Self {
        let started = (0..STARTS_MAX).find_map(|_| Self::try_start(ports()));
        started.expect("a collector whose ports are free")
    }

    fn try_start(ports: Ports) -> Option<Self> {
        let [query, query_grpc, admin, own_http, own_grpc, agent] = free_ports();
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("jaeger-{query}.log"));
        let log = File::create(log).unwrap();
        let mut command = Command::new(built());
        for (option, port) in [
            ("collector.otlp.http", ports.http),
            ("collector.otlp.grpc", ports.grpc),
            ("query.http-server", query),
            ("query.grpc-server", query_grpc),
            ("admin.http", admin),
            ("collector.http-server", own_http),
            ("collector.grpc-server", own_grpc),
            ("http-server", agent),
        ] {
            command.arg(format!("--{option}.host-port=127.0.0.1:{port}"));
        }
        for agent in ["jaeger-binary", "jaeger-compact", "zipkin-compact"] {
            command.arg(format!("--processor.{agent}.server-host-port=127.0.0.1:0"));
        }
        let child = command
            .args(["--collector.otlp.enabled=true", "--memory.max-traces=10000"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let query = SocketAddr::from((Ipv4Addr::LOCALHOST, query));
        let mut collector = Self { child, query, ports };
        until("the collector answers or ends", || {
            let answers = collector.query("/api/services").is_some();
            let has_ended = collector.child.try_wait().unwrap().is_some();
            (answers || has_ended).then_some(answers)
        })
        .then_some(collector)
    }

    pub(crate) fn ports(&self) -> Ports {
        self.ports
    }

    /// The spans of a trace, once there is this number; ordered by start.
    #[track_caller]
    pub(crate) fn spans(&self, trace: &str, count: usize) -> Vec<Span> {
        let mut last = Vec::new();
        let found = within_patience(|| {
            last = self.trace(trace);
            (last.len() == count).then(|| last.clone())
        });
        found.unwrap_or_else(|| panic!("expected {count} spans of {trace}: {:#?}", lines(&last)))
    }

    /// Waits for a span of a trace.
    #[track_caller]
    pub(crate) fn wait_for_span(&self, trace: &str, is_it: impl Fn(&Span) -> bool) {
        let mut last = Vec::new();
        let found = within_patience(|| {
            last = self.trace(trace);
            last.iter().any(&is_it).then_some(())
        });
        found.unwrap_or_else(|| panic!("not among {:#?}", lines(&last)));
    }

    /// The spans of a trace at the moment.
    pub(crate) fn trace(&self, trace: &str) -> Vec<Span> {
        let Some(answer) = self.query(&format!("/api/traces/{trace}")) else { return Vec::new() };
        let mut spans: Vec<_> = answer["data"][0]["spans"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|span| {
                let mut span = span.clone();
                let process = span["processID"].as_str().unwrap().to_owned();
                span["process"] = answer["data"][0]["processes"][&process].clone();
                Span(span)
            })
            .collect();
        spans.sort_by_key(|span| (span.start_us(), span.0["spanID"].to_string()));
        spans
    }

    fn query(&self, path: &str) -> Option<Value> {
        let mut client = Client::new(self.query, PATIENCE);
        let headers = Headers(vec![("host".into(), "localhost".into())]);
        let (method, path, body) = ("GET".into(), path.into(), Vec::new());
        let answer = client.call(&Request { method, path, headers, body }).ok()?;
        serde_json::from_slice(answer.text().as_bytes()).ok()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

impl Span {
    pub(crate) fn name(&self) -> &str {
        self.0["operationName"].as_str().unwrap()
    }

    pub(crate) fn id(&self) -> &str {
        self.0["spanID"].as_str().unwrap()
    }

    /// The id of the parent; empty without one.
    pub(crate) fn parent(&self) -> &str {
        let reference = &self.0["references"][0];
        assert!(reference.is_null() || reference["refType"] == "CHILD_OF", "{self:?}");
        reference["spanID"].as_str().unwrap_or_default()
    }

    pub(crate) fn start_us(&self) -> u64 {
        self.0["startTime"].as_u64().unwrap()
    }

    pub(crate) fn end_us(&self) -> u64 {
        self.start_us() + self.0["duration"].as_u64().unwrap()
    }

    /// An attribute as text; empty if absent.
    pub(crate) fn attribute(&self, name: &str) -> String {
        tag(&self.0["tags"], name)
    }

    /// An attribute of the program.
    pub(crate) fn resource(&self, name: &str) -> String {
        match name {
            "service.name" => self.0["process"]["serviceName"].as_str().unwrap().to_owned(),
            name => tag(&self.0["process"]["tags"], name),
        }
    }

    /// Everything, for a search of what must not be in it.
    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }

    /// `name kind [attribute=value]...` without values that differ from run to run.
    pub(crate) fn line(&self) -> String {
        let changing = [
            "server.port",
            "otel.library.version",
            "otel.scope.version",
            "span.kind",
            "internal.span.format",
        ];
        let mut tags: Vec<_> = self.0["tags"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|tag| !changing.contains(&tag["key"].as_str().unwrap()))
            .map(|tag| format!("{}={}", tag["key"].as_str().unwrap(), text(&tag["value"])))
            .filter(|tag| !tag.starts_with("otel.library.name"))
            .collect();
        tags.sort();
        format!("{} ({}) {}", self.name(), self.attribute("span.kind"), tags.join(" "))
    }
}

fn tag(tags: &Value, name: &str) -> String {
    let found = tags.as_array().unwrap().iter().find(|tag| tag["key"] == name);
    found.map(|tag| text(&tag["value"])).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn lines(spans: &[Span]) -> Vec<String> {
    spans.iter().map(Span::line).collect()
}

/// Ports of the loopback interface that are free now.
fn free_ports<const N: usize>() -> [u16; N] {
    let bound = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    bound.map(|listener| listener.local_addr().unwrap().port())
}

#[track_caller]
fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within_patience(look).unwrap_or_else(|| panic!("{what}: not within {PATIENCE:?}"))
}

fn within_patience<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if deadline < Instant::now() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The program, which is built in the directory of its module.
fn built() -> PathBuf {
    let _alone = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, version) = MODULE.split_once('@').unwrap();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("jaeger-{version}"));
    if !program.exists() {
        let output = Command::new("go").args(["mod", "download", "-json", MODULE]).output();
        let module: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        let (directory, partial) = (module["Dir"].as_str().unwrap(), program.with_extension("new"));
        let mut go = Command::new("go");
        go.args(["build", "-C", directory, "-o"]).arg(&partial).arg("./cmd/all-in-one");
        assert!(go.status().unwrap().success(), "go build in {directory}");
        fs::rename(partial, &program).unwrap();
    }
    program
}
