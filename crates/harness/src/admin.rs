//! A blocking client of the admin API (hub-semantics 4), one keep-alive connection.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ledger::Amount;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tls::{BlockingTlsStream, ClientFiles, ClientTls, MinimumVersion};

use crate::error::HarnessError;
use crate::interrupt::Interrupt;
use crate::stored_session::{TOKEN_VARIABLE, session_file, token_of_environment};
use crate::switch_process::{checked_token, read_token};

const WITHIN: Duration = Duration::from_secs(20);
/// Interval at which a wait for an answer checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Status of a request beyond the limits of an address.
const TOO_MANY: u16 = 429;
/// How often such a request is sent again, and the pause before.
const REPEATS_MAX: usize = 10;
const REPEAT_PAUSE: Duration = Duration::from_secs(1);
/// The timeout after an interrupt.
const INTERRUPTED: Duration = Duration::from_secs(2);

/// The admin API of one hub, over HTTP or HTTPS.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    /// The trusted authorities, if the hub is called over TLS.
    tls: Option<Arc<ClientTls>>,
    /// The value of the `Host` header. A hub accepts only names that it knows.
    host: String,
    /// Header lines of every request: the token, the author and the reason.
    lines: String,
    stream: Option<Connection>,
    /// Timeout for connecting, for writing a request, and for its whole response.
    within: Duration,
}

/// A connection to the admin API.
#[derive(Debug)]
enum Connection {
    Plain(TcpStream),
    Tls(Box<BlockingTlsStream>),
}

/// A response: status and body.
#[derive(Debug)]
pub struct AdminResponse {
    /// The status.
    pub status: u16,
    /// The body; may be empty.
    pub body: Vec<u8>,
}

/// An account as listed by the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub id: u64,
    pub kind: String,
    pub currency: String,
    pub value: Amount,
    pub reserved: Amount,
}

/// Counters and gauges by name, labels added up.
#[derive(Clone, Debug, Default)]
pub struct Metrics(BTreeMap<String, f64>);

#[derive(Deserialize)]
struct Listed {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccountText<'a> {
    id: u64,
    ledger_account_type: String,
    currency: String,
    #[serde(borrow)]
    value: &'a RawValue,
    #[serde(borrow)]
    reserved_value: Option<&'a RawValue>,
}

impl Admin {
    pub fn new(address: SocketAddr, token: Option<String>) -> Self {
        let lines = token.map_or(String::new(), |it| format!("authorization: Bearer {it}\r\n"));
        let host = address.to_string();
        Self { address, tls: None, host, lines, stream: None, within: WITHIN }
    }

    /// Calls the hub over TLS, and trusts these authorities. The certificate must contain the host
    /// of the address.
    #[must_use]
    pub fn over_tls(self, tls: Arc<ClientTls>) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// A client of `url`, with this token. An `https` URL trusts the authorities of the system.
    fn of_url(url: &str, token: Option<String>) -> Result<Self, HarnessError> {
        let admin = Self::new(resolve(url)?, token);
        let (scheme, host) = url.split_once("://").unwrap_or(("", url));
        let admin = Self { host: host.trim_end_matches('/').to_owned(), ..admin };
        match scheme {
            "https" => Ok(admin.over_tls(authorities(None)?)),
            _ => Ok(admin),
        }
    }

    /// A client of `url`, such as `http://127.0.0.1:3001`, without a token.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn without_token(url: &str) -> Result<Self, HarnessError> {
        Self::of_url(url, None)
    }

    /// A client of `url` with this token.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn with_token(url: &str, token: String) -> Result<Self, HarnessError> {
        Self::of_url(url, Some(token))
    }

    /// A client of `url`, such as `http://127.0.0.1:3001`, with the token in a file, that in the
    /// variable `UPESI_TOKEN`, or that of the session that `upesi login` stored for the address.
    ///
    /// # Errors
    /// The address is invalid, or the token cannot be read.
    pub fn at(url: &str, token: Option<&Path>) -> Result<Self, HarnessError> {
        let stored = || session_file(url).filter(|file| file.exists());
        let token = match (token, token_of_environment()) {
            (None, Some(token)) => Some(checked_token(TOKEN_VARIABLE, &token)?),
            (file, _) => {
                let file = file.map(Path::to_owned).or_else(stored);
                file.as_deref().map(read_token).transpose()?
            }
        };
        Self::of_url(url, token)
    }

    /// Waits up to `within` for each response, instead of 20 s.
    #[must_use]
    pub fn waiting(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// Sends this header with every subsequent request; `value` must not contain line breaks.
    pub fn with(&mut self, name: &str, value: &str) {
        self.lines += &format!("{name}: {value}\r\n");
    }

    /// Sends a request and returns its response, whatever the status.
    ///
    /// # Errors
    ///
    /// The hub cannot be reached, or its response cannot be read.
    pub fn call(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> Result<AdminResponse, HarnessError> {
        let request = self.request(method, path, body);
        let fresh = self.stream.is_none();
        let mut answer = self.exchange(&request);
        // A kept connection may have been closed meanwhile, in which case the hub read nothing.
        let stale = |error: &io::Error| {
            let kinds = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
            kinds.contains(&error.kind()) || error.kind() == io::ErrorKind::UnexpectedEof
        };
        if !fresh && answer.as_ref().is_err_and(stale) {
            answer = self.exchange(&request);
        }
        answer.map_err(|error| match error.downcast() {
            Ok(error) => error,
            Err(error) => HarnessError::Admin {
                request: self.describe(method, path),
                problem: problem_of(&error, self.within),
            },
        })
    }

    /// Sends a request whose response must have one of the statuses `expected`. A hub that bounds
    /// the requests of an address refuses before it reads: the request is then sent again.
    pub fn must(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
        expected: &[u16],
    ) -> Result<AdminResponse, HarnessError> {
        let mut answered = self.call(method, path, body)?;
        for _ in 0..REPEATS_MAX {
            if answered.status != TOO_MANY || expected.contains(&TOO_MANY) {
                break;
            }
            thread::sleep(REPEAT_PAUSE);
            answered = self.call(method, path, body)?;
        }
        if expected.contains(&answered.status) {
            return Ok(answered);
        }
        Err(HarnessError::Admin {
            request: self.describe(method, path),
            problem: format!(
                "answered {} {}",
                answered.status,
                String::from_utf8_lossy(&answered.body)
            ),
        })
    }

    /// Reads server-sent events on a connection of their own. Passes the id and the data of each to
    /// `visit`, until it returns false or the hub ends the response.
    ///
    /// # Errors
    ///
    /// The hub cannot be reached, has another status than 200, or is silent for too long.
    pub fn follow(
        &self,
        path: &str,
        visit: &mut dyn FnMut(&str, &str) -> bool,
    ) -> Result<(), HarnessError> {
        self.read_events(path, visit).map_err(|error| match error.downcast() {
            Ok(error) => error,
            Err(error) => HarnessError::Admin {
                request: self.describe("GET", path),
                problem: problem_of(&error, self.within),
            },
        })
    }

    fn read_events(&self, path: &str, visit: &mut dyn FnMut(&str, &str) -> bool) -> io::Result<()> {
        let mut stream = self.connect()?;
        let request = self.request("GET", path, None);
        let request = request.replacen("\r\n", "\r\naccept: text/event-stream\r\n", 1);
        stream.write(request.as_bytes())?;
        let mut events = EventReader::default();
        let mut bytes = [0; 16 * 1024];
        loop {
            // The hub sends heartbeats.
            match Timeout::begin(self.within).read(&mut stream, &mut bytes)? {
                0 => return Ok(()),
                length => events.raw.extend_from_slice(&bytes[..length]),
            }
            if !events.read(visit)? {
                return Ok(());
            }
        }
    }

    /// Whether the hub reports that it is healthy.
    pub fn healthy(&mut self) -> bool {
        self.call("GET", "/health", None).is_ok_and(|answered| answered.status == 200)
    }

    /// The problems in the hub's health response: components that are down, a full disk.
    pub fn health_problems(&mut self) -> Option<String> {
        let health = serde_json::from_slice(&self.call("GET", "/health", None).ok()?.body).ok()?;
        let storage = self.call("GET", "/storage", None).ok();
        let storage = storage.and_then(|answered| serde_json::from_slice(&answered.body).ok());
        health_problems_of(&health, &storage.unwrap_or_default())
    }

    /// Names of all participants, including the hub if it lists itself.
    ///
    /// # Errors
    ///
    /// The hub cannot be reached, or its response cannot be read.
    pub fn participants(&mut self) -> Result<Vec<String>, HarnessError> {
        let answered = self.must("GET", "/participants", None, &[200])?;
        let listed = serde_json::from_slice::<Vec<Listed>>(&answered.body);
        let listed = listed.map_err(|error| HarnessError::Admin {
            request: "GET /participants".to_owned(),
            problem: error.to_string(),
        })?;
        Ok(listed.into_iter().map(|participant| participant.name).collect())
    }

    /// GET /participants/{name}/accounts
    pub fn accounts(&mut self, name: &str) -> Result<Vec<Account>, HarnessError> {
        let path = format!("/participants/{name}/accounts");
        let answered = self.must("GET", &path, None, &[200])?;
        read_accounts(&answered.body).ok_or_else(|| HarnessError::Admin {
            request: format!("GET {path}"),
            problem: format!("cannot be read: {}", String::from_utf8_lossy(&answered.body)),
        })
    }

    /// GET /metrics
    pub fn metrics(&mut self) -> Result<Metrics, HarnessError> {
        let answered = self.must("GET", "/metrics", None, &[200])?;
        Ok(Metrics::read(&String::from_utf8_lossy(&answered.body)))
    }

    fn describe(&self, method: &str, path: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{method} {scheme}://{}{path}", self.address)
    }

    fn connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&self.address, self.within)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(self.within))?;
        let Some(tls) = &self.tls else { return Ok(Connection::Plain(stream)) };
        stream.set_read_timeout(Some(self.within))?;
        let (host, _) = self.host.rsplit_once(':').unwrap_or((&self.host, ""));
        let stream = tls.connect_blocking(("", host), stream);
        let stream = stream.map_err(|fault| io::Error::other(format!("TLS: {}", fault.text())))?;
        Ok(Connection::Tls(Box::new(stream)))
    }

    fn request(&self, method: &str, path: &str, body: Option<&str>) -> String {
        let host = &self.host;
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n");
        request += &self.lines;
        match body {
            Some(body) => {
                let length = body.len();
                request += "content-type: application/json\r\n";
                request += &format!("content-length: {length}\r\n\r\n{body}");
            }
            None => request += "\r\n",
        }
        request
    }

    fn exchange(&mut self, request: &str) -> io::Result<AdminResponse> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        let mut patience = Timeout::begin(self.within);
        stream.write(request.as_bytes())?;
        let mut buffer = Vec::new();
        let mut chunk = [0; 16 * 1024];
        loop {
            let broken = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            if let Some(response) = dfsp::http1::response(&buffer).map_err(broken)? {
                let answered =
                    AdminResponse { status: response.status, body: response.body.to_vec() };
                if response.keep_alive {
                    self.stream = Some(stream);
                }
                return Ok(answered);
            }
            match patience.read(&mut stream, &mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => buffer.extend_from_slice(&chunk[..length]),
            }
        }
    }
}

/// Reads a chunked response with server-sent events.
#[derive(Default)]
struct EventReader {
    /// Bytes that were not read yet.
    raw: Vec<u8>,
    is_head_read: bool,
    /// The incomplete event at the end.
    text: Vec<u8>,
}

impl EventReader {
    /// Reads what has arrived. Returns false at the end.
    fn read(&mut self, visit: &mut dyn FnMut(&str, &str) -> bool) -> io::Result<bool> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        if !self.is_head_read {
            let Some(end) = find(&self.raw, b"\r\n\r\n") else { return Ok(true) };
            if !self.raw.starts_with(b"HTTP/1.1 200") {
                let line = self.raw.split(|byte| *byte == b'\r').next().unwrap_or_default();
                let line = String::from_utf8_lossy(line).into_owned();
                return Err(io::Error::other(line));
            }
            self.raw.drain(..end + 4);
            self.is_head_read = true;
        }
        while let Some(end) = find(&self.raw, b"\r\n") {
            let size = str::from_utf8(&self.raw[..end]).ok();
            let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
            let size = size.ok_or_else(invalid)?;
            let Some(chunk) = self.raw.get(end + 2..end + 2 + size + 2) else { return Ok(true) };
            if size == 0 {
                return Ok(false);
            }
            self.text.extend_from_slice(&chunk[..size]);
            self.raw.drain(..end + 2 + size + 2);
            while let Some(end) = find(&self.text, b"\n\n") {
                let event = String::from_utf8(self.text.drain(..end + 2).collect());
                let event = event.map_err(|_| invalid())?;
                let value = |name| event.lines().find_map(|line| line.strip_prefix(name));
                let (id, data) = (value("id: "), value("data: "));
                if let (Some(id), Some(data)) = (id, data)
                    && !visit(id, data)
                {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|found| found == wanted)
}

impl Metrics {
    /// The value of a metric, summed over its labels; `None` if the hub does not have it.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Reads the Prometheus text format.
    pub fn read(text: &str) -> Self {
        let mut values = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name_length = line.find(['{', ' ']).unwrap_or(line.len());
            let rest = line.rfind('}').map_or(&line[name_length..], |at| &line[at + 1..]);
            if let Some(Ok(value)) = rest.split_whitespace().next().map(str::parse::<f64>) {
                *values.entry(line[..name_length].to_owned()).or_insert(0.0) += value;
            }
        }
        Self(values)
    }
}

impl Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    fn read(&mut self, chunk: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(chunk),
            Self::Tls(stream) => stream.read(chunk),
        }
    }

    fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        let socket = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.socket(),
        };
        socket.set_read_timeout(Some(time))
    }
}

/// TLS without a certificate of its own. It trusts the authorities in a PEM file, or those of the
/// system.
///
/// # Errors
/// The file cannot be used.
pub fn authorities(ca: Option<&Path>) -> Result<Arc<ClientTls>, HarnessError> {
    let files = ClientFiles {
        section: "admin",
        certificate: None,
        ca: ca.map(Path::to_owned),
        ca_directory: None,
        crl: None,
        minimum: MinimumVersion::Tls12,
        protocols: &[],
    };
    let opened = ClientTls::open(files).map(Arc::new);
    opened.map_err(|error| HarnessError::Options(error.to_string()))
}

/// Resolves `http://host:port` or `https://host:port`.
pub fn resolve(url: &str) -> Result<SocketAddr, HarnessError> {
    let wrong = |why: &str| HarnessError::Options(format!("{url}: {why}"));
    let authority = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let authority = authority.ok_or_else(|| wrong("must start with http:// or https://"))?;
    let authority = authority.trim_end_matches('/');
    if authority.contains('/') {
        return Err(wrong("a path is not supported"));
    }
    let mut addresses = authority.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
    addresses.next().ok_or_else(|| wrong("has no address"))
}

/// Remaining time of a request.
struct Timeout {
    end: Instant,
    interrupted: bool,
}

impl Timeout {
    fn begin(within: Duration) -> Self {
        Self { end: Instant::now() + within, interrupted: false }
    }

    /// The remaining time; short after an interrupt.
    fn left(&mut self) -> io::Result<Duration> {
        if !self.interrupted && Interrupt::seen_by_any_listener() {
            self.interrupted = true;
            self.end = self.end.min(Instant::now() + INTERRUPTED);
        }
        let left = self.end.saturating_duration_since(Instant::now());
        match (left.is_zero(), self.interrupted) {
            (false, _) => Ok(left),
            (true, true) => Err(io::Error::other(HarnessError::Interrupted)),
            (true, false) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Reads the next bytes, if they arrive in time.
    fn read(&mut self, stream: &mut Connection, chunk: &mut [u8]) -> io::Result<usize> {
        loop {
            stream.set_read_timeout(self.left()?.min(POLL_INTERVAL))?;
            match stream.read(chunk) {
                Err(error) if is_wait(&error) => {}
                read => return read,
            }
        }
    }
}

/// Whether a read ended by its timeout or by a signal. The system reports a timeout as an
/// unavailable resource.
fn is_wait(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut, io::ErrorKind::Interrupted];
    kinds.contains(&error.kind())
}

/// Describes a failed request. The system reports a timeout as an unavailable resource.
fn problem_of(error: &io::Error, within: Duration) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("did not answer within {within:?}")
        }
        io::ErrorKind::ConnectionRefused => {
            format!("{error}; start the switch, or name its address with --admin")
        }
        _ => error.to_string(),
    }
}

/// Describes the problems in the responses of both endpoints.
fn health_problems_of(health: &Value, storage: &Value) -> Option<String> {
    let services = health["services"].as_array().map_or(&[][..], Vec::as_slice);
    let down = services.iter().filter(|service| service["status"] == "DOWN");
    let mut down: Vec<&str> = down.filter_map(|service| service["name"].as_str()).collect();
    // A log in files has no broker. Otherwise the log's own entry has more detail.
    if down.contains(&"log") {
        down.retain(|name| *name != "broker");
    }
    let mut problems: Vec<String> = down.iter().map(|name| format!("{name} is down")).collect();
    // The storage object also lists its growth, which never exceeds the current size.
    let bytes = |name: &str| storage[name].as_u64();
    if let (Some(free), Some(all)) = (bytes("freeBytes"), bytes("diskBytes"))
        && free < all / 20
    {
        let free = free >> 20;
        problems
            .push(format!("its disk is full ({free} MiB free); free space or use another --data"));
    }
    (!problems.is_empty()).then(|| format!("the hub reports: {}", problems.join("; ")))
}

fn read_accounts(body: &[u8]) -> Option<Vec<Account>> {
    let texts: Vec<AccountText<'_>> = serde_json::from_slice(body).ok()?;
    let accounts = texts.into_iter().map(|text| {
        let reserved = text.reserved_value.map_or(Some(Amount::ZERO), number);
        Some(Account {
            id: text.id,
            kind: text.ledger_account_type,
            currency: text.currency,
            value: number(text.value)?,
            reserved: reserved?,
        })
    });
    accounts.collect()
}

/// Parses a number as decimal, never as floating point.
fn number(text: &RawValue) -> Option<Amount> {
    Amount::parse_decimal(text.get().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every read returns a byte, and the response still never completes.
    #[test]
    fn slow_response_times_out_like_a_missing_one() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let dripping = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("connected");
            let begun = stream.write_all(b"HTTP/1.1 200 OK\r\nx: ");
            while begun.is_ok() && stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let within = Duration::from_millis(300);
        let mut admin = Admin { within, ..Admin::new(address, None) };
        let began = Instant::now();
        let error = admin.call("GET", "/health", None).expect_err("timeout");
        assert!(error.to_string().ends_with("did not answer within 300ms"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        drop(admin);
        dripping.join().expect("thread ended");
    }

    #[test]
    fn full_disk_and_failed_components_are_named() {
        let json = |text: &str| serde_json::from_str(text).expect("JSON");
        let health = |services: &str| json(&format!(r#"{{"services":[{services}]}}"#));
        let storage =
            |free: &str| json(&format!(r#"{{"freeBytes":{free},"diskBytes":1000000000}}"#));
        let down = r#"{"name":"datastore","status":"DOWN"},{"name":"broker","status":"OK"}"#;
        for (services, free, expected) in [
            ("", "null", None),
            ("", "60000000", None),
            ("", "3145728", Some("its disk is full (3 MiB free)")),
            (down, "60000000", Some("datastore is down")),
        ] {
            let found = health_problems_of(&health(services), &storage(free));
            let found = found.as_deref();
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(expected.is_none_or(|it| found.is_some_and(|text| text.contains(it))));
        }
    }

    #[test]
    fn timeout_is_reported_as_a_missing_response() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = silent.local_addr().expect("bound");
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_millis(5))).expect("timeout set");
        let error = stream.read(&mut [0]).expect_err("timeout");
        assert_eq!(problem_of(&error, Duration::from_secs(20)), "did not answer within 20s");
        let error = io::Error::from(io::ErrorKind::ConnectionRefused);
        let problem = problem_of(&error, Duration::from_secs(20));
        assert_eq!(
            problem,
            "connection refused; start the switch, or name its address with --admin"
        );
    }

    #[test]
    fn metrics_are_summed_over_labels() {
        let text = "# HELP a b\n# TYPE a counter\na{x=\"1 }\"} 2\na{x=\"2\"} 3 1700000000\n\
            upesi_log_syncs_total 41\nbroken\n";
        let metrics = Metrics::read(text);
        assert_eq!(metrics.get("a"), Some(5.0));
        assert_eq!(metrics.get("upesi_log_syncs_total"), Some(41.0));
        assert_eq!(metrics.get("broken"), None);
    }

    #[test]
    fn accounts_keep_four_decimals() {
        let body = br#"[{"id":8,"ledgerAccountType":"SETTLEMENT","currency":"USD","isActive":1,
            "value":-10000.1234,"reservedValue":0,"changedDate":"2026-01-01T10:00:00.000Z"}]"#;
        let accounts = read_accounts(body).expect("well formed");
        assert_eq!(accounts[0].value.to_string(), "-10000.1234");
        assert_eq!((accounts[0].id, &*accounts[0].kind), (8, "SETTLEMENT"));
        assert_eq!(read_accounts(b"{}"), None);
    }

    #[test]
    fn host_header_is_the_name_in_the_url() {
        let admin = Admin::at("http://localhost:3001/", None).expect("valid address");
        let request = admin.request("GET", "/health", None);
        assert_eq!(request, "GET /health HTTP/1.1\r\nhost: localhost:3001\r\n\r\n");
    }

    #[test]
    fn addresses_are_http_or_https() {
        for url in ["http://127.0.0.1:4000", "http://127.0.0.1:4000/", "https://127.0.0.1:1"] {
            assert!(resolve(url).is_ok(), "{url}");
        }
        for url in ["127.0.0.1:4000", "ftp://127.0.0.1:1", "https://127.0.0.1:1/api", "http://"] {
            assert!(resolve(url).is_err(), "{url}");
        }
    }
}
