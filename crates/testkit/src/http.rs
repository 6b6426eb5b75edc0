//! A minimal HTTP/1.1 implementation that writes any request, well formed or not, and shows the
//! exact response: reason phrase, repeated headers, body bytes.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use serde_json::Value;

/// Longest wait for a byte. A test that reaches it has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Largest message that can be read, in bytes.
const MESSAGE_BYTES_MAX: usize = 8 << 20;
const HEADERS_MAX: usize = 128;

/// Names and values in wire order. Names that were read are in lower case.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// The first value of a header; the name is in lower case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the header is present.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Replaces the value of a header in place.
    pub fn set(&mut self, name: &str, value: &str) {
        let found = self.iter_mut().filter(|(known, _)| known == name);
        found.for_each(|(_, old)| value.clone_into(old));
    }

    fn read(headers: &[httparse::Header<'_>]) -> Self {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let named = headers.iter().map(|one| (one.name.to_ascii_lowercase(), text(one.value)));
        Self(named.collect())
    }
}

impl Deref for Headers {
    type Target = Vec<(String, String)>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Headers {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, value)| format!("{name}: {value}"))).finish()
    }
}

/// A request, sent or received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The method, as written.
    pub method: String,
    /// Path and query, as written.
    pub path: String,
    /// All headers.
    pub headers: Headers,
    /// The body, without transfer framing.
    pub body: Vec<u8>,
}

impl Request {
    /// The bytes on the wire. `Host` and `Content-Length` are added if they are missing.
    #[must_use]
    pub fn render(&self, host: &str) -> Vec<u8> {
        let Self { method, path, headers, body } = self;
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.has("host") {
            head += &format!("Host: {host}\r\n");
        }
        let has_body = !body.is_empty() || ["POST", "PUT", "PATCH"].contains(&method.as_str());
        if headers.get("transfer-encoding") == Some("chunked") {
            return [lines(head, headers).as_bytes(), b"\r\n", &chunked(body)].concat();
        }
        if has_body && !headers.has("content-length") {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        [lines(head, headers).as_bytes(), b"\r\n", body].concat()
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If the body is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The value of a header that may occur once; empty if it is absent.
    ///
    /// # Panics
    /// If the header occurs twice.
    #[must_use]
    pub fn header(&self, name: &str) -> String {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| value.clone()).unwrap_or_default();
        assert!(found.next().is_none(), "{name} occurs twice: {self:?}");
        value
    }

    fn parse(bytes: &[u8]) -> io::Result<Option<(Self, usize)>> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(start) = head.parse(bytes).map_err(invalid)? else {
            return Ok(None);
        };
        let headers = Headers::read(head.headers);
        let Some((body, end)) = body(&bytes[start..], &headers)? else { return Ok(None) };
        let (method, path) = (head.method.unwrap_or_default(), head.path.unwrap_or_default());
        let (method, path) = (method.to_owned(), path.to_owned());
        Ok(Some((Self { method, path, headers, body }, start + end)))
    }
}

/// A response, sent or received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// All headers.
    pub headers: Headers,
    /// The body, without transfer framing.
    pub body: Vec<u8>,
}

impl Response {
    /// Whether the server closes the connection after it.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.headers.iter().any(|(name, value)| (&**name, &**value) == ("connection", "close"))
    }

    /// A response without headers and body.
    #[must_use]
    pub fn of(status: u16) -> Self {
        Self { status, reason: "Answer".to_owned(), ..Self::default() }
    }

    /// The bytes on the wire, with the actual length of the body.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let Self { status, reason, headers, body } = self;
        let mut headers = headers.clone();
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-length"));
        headers.push(("content-length".to_owned(), body.len().to_string()));
        let head = lines(format!("HTTP/1.1 {status} {reason}\r\n"), &headers);
        [head.as_bytes(), b"\r\n", body].concat()
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn parse(bytes: &[u8]) -> io::Result<Option<(Self, usize)>> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(start) = head.parse(bytes).map_err(invalid)? else {
            return Ok(None);
        };
        let status = head.code.unwrap_or_default();
        let reason = head.reason.unwrap_or_default().to_owned();
        let headers = Headers::read(head.headers);
        let found = match status {
            204 | 304 => Some((Vec::new(), 0)),
            _ => body(&bytes[start..], &headers)?,
        };
        let answer = |(body, end)| (Self { status, reason, headers, body }, start + end);
        Ok(found.map(answer))
    }
}

/// A connection on which messages are read one after another.
pub struct Connection {
    /// For tests that close it, or write half a message.
    pub stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    /// Uses an open stream.
    ///
    /// # Errors
    /// If the stream is closed.
    pub fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, unread: Vec::new() })
    }

    /// Connects to a server.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        Self::open_within(address, PATIENCE)
    }

    /// Connects with a time limit for the connect and for each read.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn open_within(address: SocketAddr, within: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, within)?;
        stream.set_read_timeout(Some(within))?;
        Self::over(stream)
    }

    /// Writes bytes unchanged.
    ///
    /// # Errors
    /// If the peer has closed the connection.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next request; `None` if the peer closed the connection between two requests.
    ///
    /// # Errors
    /// If it is not HTTP, or the peer closed the connection within it.
    pub fn read_request(&mut self) -> io::Result<Option<Request>> {
        self.read(Request::parse)
    }

    /// The next response; `None` if the peer closed the connection between two responses.
    ///
    /// # Errors
    /// If it is not HTTP, or the peer closed the connection within it.
    pub fn read_response(&mut self) -> io::Result<Option<Response>> {
        self.read(Response::parse)
    }

    /// Writes a request and reads its response.
    ///
    /// # Errors
    /// If there is no response in time.
    pub fn exchange(&mut self, request: &[u8]) -> io::Result<Response> {
        self.write(request)?;
        self.read_response()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// As [`Self::exchange`]. If the response closes the connection, another is opened.
    ///
    /// # Errors
    /// If there is no response in time, or the server cannot be reached again.
    pub fn exchange_or_reopen(&mut self, request: &[u8]) -> io::Result<Response> {
        let answer = self.exchange(request)?;
        if answer.closes() {
            *self = Self::open(self.stream.peer_addr()?)?;
        }
        Ok(answer)
    }

    fn read<T>(&mut self, parse: Parse<T>) -> io::Result<Option<T>> {
        let mut chunk = [0; 16 << 10];
        loop {
            if let Some((message, length)) = parse(&self.unread)? {
                self.unread.drain(..length);
                return Ok(Some(message));
            }
            if MESSAGE_BYTES_MAX < self.unread.len() {
                return Err(invalid("the message is too large"));
            }
            match self.stream.read(&mut chunk) {
                Ok(0) if self.unread.is_empty() => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.unread.extend_from_slice(&chunk[..length]),
                // The test process was suspended for a while.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Parses the message at the start of some bytes, with its length; `None` if it is incomplete.
type Parse<T> = fn(&[u8]) -> io::Result<Option<(T, usize)>>;

/// A client of one address with a persistent connection.
pub struct Client {
    address: SocketAddr,
    within: Duration,
    connection: Option<Connection>,
}

impl Client {
    /// Waits this long for a connection, and for each part of a response.
    #[must_use]
    pub fn new(address: SocketAddr, within: Duration) -> Self {
        Self { address, within, connection: None }
    }

    /// One exchange. If the server has closed the connection meanwhile, a new one is opened.
    ///
    /// # Errors
    /// If there is no response in time.
    pub fn call(&mut self, request: &Request) -> io::Result<Response> {
        let bytes = request.render(&self.address.to_string());
        if let Some(connection) = self.connection.take()
            && let Ok(answer) = self.exchange(connection, &bytes)
        {
            return Ok(answer);
        }
        let connection = Connection::open_within(self.address, self.within)?;
        self.exchange(connection, &bytes)
    }

    fn exchange(&mut self, mut connection: Connection, bytes: &[u8]) -> io::Result<Response> {
        let answer = connection.exchange(bytes)?;
        let closes = answer.headers.get("connection") == Some("close");
        self.connection = (!closes).then_some(connection);
        Ok(answer)
    }
}

fn lines(mut head: String, headers: &Headers) -> String {
    for (name, value) in headers.iter() {
        head += &format!("{name}: {value}\r\n");
    }
    head
}

fn chunked(body: &[u8]) -> Vec<u8> {
    let chunk = |part: &[u8]| [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
    let chunks = body.chunks(100).flat_map(chunk);
    chunks.chain(*b"0\r\n\r\n").collect()
}

/// The body and its end, once the body is complete.
fn body(bytes: &[u8], headers: &Headers) -> io::Result<Option<(Vec<u8>, usize)>> {
    if headers.get("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        return unchunked(bytes);
    }
    let length: usize = match headers.get("content-length") {
        Some(text) => text.trim().parse().map_err(invalid)?,
        None => 0,
    };
    Ok(bytes.get(..length).map(|body| (body.to_vec(), length)))
}

fn unchunked(bytes: &[u8]) -> io::Result<Option<(Vec<u8>, usize)>> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let parsed = httparse::parse_chunk_size(&bytes[at..]);
        let Ok(httparse::Status::Complete((start, size))) = parsed else {
            return parsed.map(|_| None).map_err(|_| invalid("a chunk without a size"));
        };
        let size = usize::try_from(size).map_err(invalid)?.min(MESSAGE_BYTES_MAX);
        let from = at + start;
        if bytes.len() < from + size + 2 {
            return Ok(None);
        }
        body.extend_from_slice(&bytes[from..from + size]);
        at = from + size + 2;
        if size == 0 {
            return Ok(Some((body, at)));
        }
    }
}

fn invalid(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_one_after_the_other() {
        let wire = b"PUT /a HTTP/1.1\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nok\
            POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        let (first, length) = Request::parse(wire).expect("well formed").expect("a request");
        assert_eq!((&*first.method, &*first.path, &*first.body), ("PUT", "/a", &b"ok"[..]));
        assert_eq!(first.headers.get("x-a"), Some("1"));
        let (second, rest) = Request::parse(&wire[length..]).expect("well formed").expect("one");
        assert_eq!((&*second.body, length + rest), (&b"hello"[..], wire.len()));
        assert_eq!(Request::parse(&wire[length..wire.len() - 1]).expect("well formed"), None);
    }

    #[test]
    fn what_is_rendered_is_read_back() {
        let headers = Headers(vec![("transfer-encoding".to_owned(), "chunked".to_owned())]);
        let (method, path) = ("POST".to_owned(), "/a".to_owned());
        let request = Request { method, path, headers, body: vec![b'x'; 250] };
        let (read, _) = Request::parse(&request.render("hub")).expect("chunks").expect("whole");
        assert_eq!((read.body, read.headers.get("host")), (request.body, Some("hub")));
        let answer = Response { body: b"{}".to_vec(), ..Response::of(406) };
        let (read, _) = Response::parse(&answer.render()).expect("an answer").expect("whole");
        assert_eq!((read.status, &*read.reason, read.body), (406, "Answer", answer.body));
    }

    #[test]
    fn answers_keep_their_reason_phrase() {
        let wire = b"HTTP/1.1 406 Not Acceptable\r\ncontent-length: 2\r\n\r\n{}";
        let (answer, _) = Response::parse(wire).expect("well formed").expect("whole");
        assert_eq!((answer.status, &*answer.reason), (406, "Not Acceptable"));
        assert_eq!(answer.body, b"{}");
        assert_eq!(Response::parse(&wire[..wire.len() - 1]).expect("well formed"), None);
    }
}
