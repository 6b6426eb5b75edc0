//! Just enough HTTP/1.1 to send any header a conversation asks for and to see exactly what came
//! back: reason phrases, repeated headers, bodies byte for byte.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Largest message that is read, in bytes.
const MESSAGE_BYTES_MAX: usize = 8 << 20;
const HEADERS_MAX: usize = 128;
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_PATIENCE: Duration = Duration::from_secs(20);

/// Names in lower case, in the order of the wire.
pub(crate) type Headers = Vec<(String, String)>;

/// A request, sent or received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

/// A client of one address that keeps its connection.
pub(crate) struct Client {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    /// One exchange. A kept connection that the server has closed meanwhile is opened anew.
    pub(crate) fn call(&mut self, request: &Request) -> io::Result<Answer> {
        let kept = self.stream.is_some();
        match self.exchange(request) {
            Err(_) if kept => self.exchange(request),
            result => result,
        }
    }

    fn exchange(&mut self, request: &Request) -> io::Result<Answer> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        stream.write_all(&render(request, self.address))?;
        let answer = read_answer(&mut stream)?;
        let closes = header(&answer.headers, "connection") == Some("close");
        self.stream = (!closes).then_some(stream);
        Ok(answer)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, CONNECT_PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
        Ok(stream)
    }
}

/// The first header of this name, written in lower case.
pub(crate) fn header<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The next request of a connection; `None` when the client has closed it. With a read timeout
/// on the stream, `WouldBlock` means that nothing has come yet; `buffer` keeps what has.
pub(crate) fn read_request(
    stream: &mut impl Read,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Request>> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Request::new(&mut headers);
        let parsed = head.parse(buffer).map_err(invalid)?;
        if let httparse::Status::Complete(start) = parsed {
            let request = Request {
                method: head.method.unwrap_or_default().to_owned(),
                path: head.path.unwrap_or_default().to_owned(),
                headers: owned(head.headers),
                body: Vec::new(),
            };
            if let Some((body, end)) = body(&buffer[start..], &request.headers)? {
                buffer.drain(..start + end);
                return Ok(Some(Request { body, ..request }));
            }
        }
        if read_more(stream, buffer)? == 0 {
            return Ok(None);
        }
    }
}

/// The bytes of a request: what it does not say itself, `Host` and `Content-Length`, is added.
fn render(request: &Request, address: SocketAddr) -> Vec<u8> {
    let Request { method, path, headers, body } = request;
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if header(headers, "host").is_none() {
        head += &format!("Host: {address}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if header(headers, "transfer-encoding") == Some("chunked") {
        head += "\r\n";
        let mut bytes = head.into_bytes();
        for part in body.chunks(100) {
            bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        return bytes;
    }
    let is_said = header(headers, "content-length").is_some();
    if !is_said && (!body.is_empty() || ["POST", "PUT", "PATCH"].contains(&method.as_str())) {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    let mut bytes = (head + "\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn read_answer(stream: &mut impl Read) -> io::Result<Answer> {
    let mut buffer = Vec::new();
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        let parsed = head.parse(&buffer).map_err(invalid)?;
        if let httparse::Status::Complete(start) = parsed {
            let answer = Answer {
                status: head.code.unwrap_or_default(),
                reason: head.reason.unwrap_or_default().to_owned(),
                headers: owned(head.headers),
                body: Vec::new(),
            };
            if answer.status == 204 || answer.status == 304 {
                return Ok(answer);
            }
            if let Some((body, _)) = body(&buffer[start..], &answer.headers)? {
                return Ok(Answer { body, ..answer });
            }
        }
        if read_more(stream, &mut buffer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn read_more(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut part = [0; 16 * 1024];
    let length = stream.read(&mut part)?;
    buffer.extend_from_slice(&part[..length]);
    match buffer.len() <= MESSAGE_BYTES_MAX {
        true => Ok(length),
        false => Err(invalid("the message is too large")),
    }
}

/// The body and where it ends, once all of it is there.
fn body(bytes: &[u8], headers: &Headers) -> io::Result<Option<(Vec<u8>, usize)>> {
    if header(headers, "transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        return chunks(bytes);
    }
    let length: usize = match header(headers, "content-length") {
        Some(text) => text.trim().parse().map_err(invalid)?,
        None => 0,
    };
    Ok(bytes.get(..length).map(|body| (body.to_vec(), length)))
}

fn chunks(bytes: &[u8]) -> io::Result<Option<(Vec<u8>, usize)>> {
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

fn owned(headers: &[httparse::Header<'_>]) -> Headers {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    headers.iter().map(|one| (one.name.to_ascii_lowercase(), text(one.value))).collect()
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
        let (mut stream, mut buffer) = (&wire[..], Vec::new());
        let mut read = || read_request(&mut stream, &mut buffer).expect("well formed");
        let first = read().expect("a request");
        assert_eq!((&*first.method, &*first.path, &*first.body), ("PUT", "/a", &b"ok"[..]));
        assert_eq!(header(&first.headers, "x-a"), Some("1"));
        assert_eq!(read().expect("a request").body, b"hello");
        assert!(read().is_none());
    }

    #[test]
    fn answers_keep_their_reason_phrase() {
        let mut wire = &b"HTTP/1.1 406 Not Acceptable\r\ncontent-length: 2\r\n\r\n{}"[..];
        let answer = read_answer(&mut wire).expect("well formed");
        assert_eq!((answer.status, &*answer.reason), (406, "Not Acceptable"));
        assert_eq!(answer.body, b"{}");
        assert!(read_answer(&mut &b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{"[..]).is_err());
    }
}
