//! A minimal HTTP/1.1 client that can write any request, well-formed or not, and read the response.
//! It is independent of the product's code.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest wait for a byte, after which a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const HEADERS_MAX: usize = 64;

/// Header names in lower case, and values as received.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Headers(pub(crate) Vec<(String, Vec<u8>)>);

impl Headers {
    /// The value of a header that may occur once, as text.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let mut found = self.0.iter().filter(|(key, _)| key == name);
        let (_, value) = found.next()?;
        assert!(found.next().is_none(), "{name} occurs twice: {self:?}");
        Some(String::from_utf8_lossy(value).into_owned())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// Replaces the value of a header, if present.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let found = self.0.iter_mut().filter(|(key, _)| key == name);
        found.for_each(|(_, old)| *old = value.as_bytes().to_vec());
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |(name, value): &(String, Vec<u8>)| {
            format!("{name}: {}", String::from_utf8_lossy(value))
        };
        f.debug_list().entries(self.0.iter().map(text)).finish()
    }
}

/// A request or a response: its first line without the version, its headers, its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// `POST /path` of a request, the status of a response.
    pub(crate) start: String,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.start.parse().expect("an answer starts with its status")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Replaces text in the body of a message that starts with `start`.
    pub(crate) fn replace_in(&mut self, start: &str, part: &str, other: &str) {
        if self.start.starts_with(start) {
            self.body = self.text().replace(part, other).into_bytes();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Answer,
}

/// A connection from which messages are read in order.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, unread: Vec::new() })
    }

    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Self::new(stream)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next message; `None` if the peer closed between messages.
    pub(crate) fn read(&mut self, kind: Kind) -> io::Result<Option<Answer>> {
        let mut chunk = [0; 16 << 10];
        loop {
            if let Some((parsed, length)) = parse(&self.unread, kind)? {
                self.unread.drain(..length);
                return Ok(Some(parsed));
            }
            match self.stream.read(&mut chunk) {
                Ok(0) if self.unread.is_empty() => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.unread.extend_from_slice(&chunk[..length]),
                // The test process may have been suspended.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes a request and reads its response.
    pub(crate) fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.write(request)?;
        self.read_answer()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn parse(bytes: &[u8], kind: Kind) -> io::Result<Option<(Answer, usize)>> {
    let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let (head, start, headers) = if kind == Kind::Request {
        let mut request = httparse::Request::new(&mut slots);
        let httparse::Status::Complete(head) = request.parse(bytes).map_err(wrong)? else {
            return Ok(None);
        };
        let (method, path) = (request.method.unwrap_or(""), request.path.unwrap_or(""));
        (head, format!("{method} {path}"), request.headers)
    } else {
        let mut answer = httparse::Response::new(&mut slots);
        let httparse::Status::Complete(head) = answer.parse(bytes).map_err(wrong)? else {
            return Ok(None);
        };
        (head, answer.code.unwrap_or(0).to_string(), answer.headers)
    };
    let named =
        |header: &httparse::Header<'_>| (header.name.to_ascii_lowercase(), header.value.to_vec());
    let headers = Headers(headers.iter().map(named).collect());
    let length: usize = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let body = bytes.get(head..head + length).map(<[u8]>::to_vec);
    Ok(body.map(|body| (Answer { start, headers, body }, head + length)))
}
