//! HTTP/1.1 for FSPIOP: heads parsed in place, bodies borrowed from the buffer.
//!
//! Both parsers take all bytes received so far and either return a whole message with its
//! length in bytes, or ask for more. A head is at most 64 KB, a body 5 MB (DESIGN, contract 10).
//! Framing is by `Content-Length` or chunked; a response that ends with its connection is refused.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use thiserror::Error;

/// Longest head accepted, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Longest body accepted, in bytes.
pub const BODY_BYTES_MAX: usize = 5 * 1024 * 1024;
const HEADERS_MAX: usize = 96;

/// A message that cannot be parsed. Its connection must be closed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// The head is not HTTP/1.1.
    #[error("the head is not HTTP/1")]
    Head,
    /// The head is longer than [`HEAD_BYTES_MAX`].
    #[error("the head is too long")]
    HeadTooLong,
    /// The body is longer than [`BODY_BYTES_MAX`].
    #[error("the body is too long")]
    BodyTooLong,
    /// The head does not state the length of the body, or a chunk is invalid.
    #[error("invalid framing of the body")]
    Framing,
}

/// The header fields that a DFSP reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
    /// `FSPIOP-Source`.
    pub source: Option<&'a str>,
    /// `FSPIOP-Destination`.
    pub destination: Option<&'a str>,
    /// `traceparent` (W3C trace context).
    pub traceparent: Option<&'a str>,
    /// `tracestate` (W3C trace context).
    pub tracestate: Option<&'a str>,
}

/// A complete request.
#[derive(Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Method as written.
    pub method: &'a str,
    /// Path and query as written.
    pub path: &'a str,
    /// Header fields of interest.
    pub fields: Fields<'a>,
    /// The bytes before the body.
    pub head: &'a [u8],
    /// Body without its framing.
    pub body: Cow<'a, [u8]>,
    /// Whether the connection stays open.
    pub keep_alive: bool,
    /// Length of the message in the buffer, in bytes.
    pub length: usize,
}

/// A complete response.
#[derive(Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// Status code.
    pub status: u16,
    /// Body without its framing.
    pub body: Cow<'a, [u8]>,
    /// Whether the connection stays open.
    pub keep_alive: bool,
    /// Length of the message in the buffer, in bytes.
    pub length: usize,
}

/// Parses the request at the start of `buffer`; `None` while it is incomplete.
///
/// # Errors
/// See [`WireError`].
pub fn request(buffer: &[u8]) -> Result<Option<Request<'_>>, WireError> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut []);
    let parsed = head.parse_with_uninit_headers(buffer, &mut headers);
    let Some(head_length) = complete(parsed, buffer.len())? else { return Ok(None) };
    let mut fields = Fields::default();
    let mut framing = Framing::new(head.version);
    for header in head.headers.iter() {
        framing.read(header)?;
        fields.read(header);
    }
    let Some((body, length)) = framing.body(buffer, head_length)? else { return Ok(None) };
    let (Some(method), Some(path)) = (head.method, head.path) else { return Err(WireError::Head) };
    let (head, keep_alive) = (&buffer[..head_length], framing.keep_alive);
    Ok(Some(Request { method, path, fields, head, body, keep_alive, length }))
}

/// Calls `take` with each header of a request's head.
pub fn each_header(head: &[u8], mut take: impl FnMut(&str, &[u8])) {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    // The head has been parsed before, so it has no error.
    if request.parse_with_uninit_headers(head, &mut headers).is_ok() {
        request.headers.iter().for_each(|header| take(header.name, header.value));
    }
}

/// Parses the response at the start of `buffer`; `None` while it is incomplete.
///
/// # Errors
/// See [`WireError`].
pub fn response(buffer: &[u8]) -> Result<Option<Response<'_>>, WireError> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut head,
        buffer,
        &mut headers,
    );
    let Some(head_length) = complete(parsed, buffer.len())? else { return Ok(None) };
    let status = head.code.ok_or(WireError::Head)?;
    let mut framing = Framing::new(head.version);
    for header in head.headers.iter() {
        framing.read(header)?;
    }
    let bodiless = status == 204 || status == 304;
    if !bodiless && framing.length.is_none() && !framing.chunked {
        return Err(WireError::Framing);
    }
    let Some((body, length)) = framing.body(buffer, head_length)? else { return Ok(None) };
    Ok(Some(Response { status, body, keep_alive: framing.keep_alive, length }))
}

impl<'a> Fields<'a> {
    fn read(&mut self, header: &httparse::Header<'a>) {
        let slot = match header.name.len() {
            10 if header.name.eq_ignore_ascii_case("tracestate") => &mut self.tracestate,
            11 if header.name.eq_ignore_ascii_case("traceparent") => &mut self.traceparent,
            12 if header.name.eq_ignore_ascii_case("content-type") => &mut self.content_type,
            13 if header.name.eq_ignore_ascii_case("fspiop-source") => &mut self.source,
            18 if header.name.eq_ignore_ascii_case("fspiop-destination") => &mut self.destination,
            _ => return,
        };
        *slot = std::str::from_utf8(header.value).ok();
    }
}

/// A body and the length of the whole message it belongs to.
type Framed<'a> = (Cow<'a, [u8]>, usize);

struct Framing {
    length: Option<usize>,
    chunked: bool,
    keep_alive: bool,
}

impl Framing {
    fn new(version: Option<u8>) -> Self {
        Self { length: None, chunked: false, keep_alive: version == Some(1) }
    }

    fn read(&mut self, header: &httparse::Header<'_>) -> Result<(), WireError> {
        match header.name.len() {
            10 if header.name.eq_ignore_ascii_case("connection") => {
                if header.value.eq_ignore_ascii_case(b"close") {
                    self.keep_alive = false;
                } else if header.value.eq_ignore_ascii_case(b"keep-alive") {
                    self.keep_alive = true;
                }
            }
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                let text = std::str::from_utf8(header.value).map_err(|_| WireError::Framing)?;
                let length = text.trim().parse().map_err(|_| WireError::Framing)?;
                if self.length.is_some_and(|earlier| earlier != length) {
                    return Err(WireError::Framing);
                }
                self.length = Some(length);
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                if !header.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(WireError::Framing);
                }
                self.chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// The body after a head of `head_length` bytes, and the length of the whole message.
    fn body<'a>(
        &self,
        buffer: &'a [u8],
        head_length: usize,
    ) -> Result<Option<Framed<'a>>, WireError> {
        let rest = &buffer[head_length..];
        if self.chunked {
            let whole = chunks(rest)?;
            return Ok(whole.map(|(body, length)| (Cow::Owned(body), head_length + length)));
        }
        let length = self.length.unwrap_or(0);
        if length > BODY_BYTES_MAX {
            return Err(WireError::BodyTooLong);
        }
        Ok(rest.get(..length).map(|body| (Cow::Borrowed(body), head_length + length)))
    }
}

fn complete(parsed: httparse::Result<usize>, available: usize) -> Result<Option<usize>, WireError> {
    match parsed {
        Ok(httparse::Status::Complete(length)) => Ok(Some(length)),
        Ok(httparse::Status::Partial) if available > HEAD_BYTES_MAX => Err(WireError::HeadTooLong),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(WireError::Head),
    }
}

/// Joins the chunks at the start of `rest`. Returns the body and the length of its framing.
fn chunks(rest: &[u8]) -> Result<Option<(Vec<u8>, usize)>, WireError> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let (line, size) = match httparse::parse_chunk_size(&rest[at..]) {
            Ok(httparse::Status::Complete((line, size))) => (line, size),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(WireError::Framing),
        };
        let size = usize::try_from(size).map_err(|_| WireError::BodyTooLong)?;
        if body.len().saturating_add(size) > BODY_BYTES_MAX {
            return Err(WireError::BodyTooLong);
        }
        at += line;
        let Some(chunk) = rest.get(at..at + size + 2) else { return Ok(None) };
        if size == 0 {
            // The scheme uses no trailer fields, so only the empty line may follow.
            return if chunk == b"\r\n" {
                Ok(Some((body, at + 2)))
            } else {
                Err(WireError::Framing)
            };
        }
        if !chunk.ends_with(b"\r\n") {
            return Err(WireError::Framing);
        }
        body.extend_from_slice(&chunk[..size]);
        at += size + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_complete_only_with_its_last_byte() {
        let text = b"PUT /quotes/1 HTTP/1.1\r\nFSPIOP-Source: a\r\ntraceparent: 00-x\r\n\
            Content-Length: 4\r\n\r\nbody";
        for cut in 0..text.len() {
            assert_eq!(request(&text[..cut]), Ok(None), "{cut}");
        }
        let whole = request(text).expect("well formed").expect("complete");
        assert_eq!((whole.method, whole.path), ("PUT", "/quotes/1"));
        assert_eq!((whole.fields.source, whole.fields.traceparent), (Some("a"), Some("00-x")));
        assert_eq!((&*whole.body, whole.length), (&b"body"[..], text.len()));
        assert!(whole.keep_alive);
    }

    #[test]
    fn two_requests_in_one_buffer_are_parsed_in_order() {
        let text = b"GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nConnection: close\r\n\r\n";
        let first = request(text).expect("well formed").expect("complete");
        let second = request(&text[first.length..]).expect("well formed").expect("complete");
        assert_eq!((first.path, first.keep_alive), ("/a", true));
        assert_eq!((second.path, second.keep_alive), ("/b", false));
    }

    #[test]
    fn chunks_are_joined() {
        let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n\
            0\r\n\r\n";
        for cut in 0..text.len() {
            assert_eq!(response(&text[..cut]), Ok(None), "{cut}");
        }
        let whole = response(text).expect("well formed").expect("complete");
        assert_eq!((whole.status, &*whole.body, whole.length), (200, &b"abcde"[..], text.len()));
    }

    #[test]
    fn invalid_framing_is_refused() {
        for (text, error) in [
            (&b"HTTP/1.1 200 OK\r\n\r\n"[..], WireError::Framing),
            (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", WireError::Framing),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                WireError::Framing,
            ),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", WireError::Framing),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", WireError::BodyTooLong),
            (b"\x00\x01\x02", WireError::Head),
        ] {
            assert_eq!(response(text), Err(error));
        }
        let endless = vec![b'a'; HEAD_BYTES_MAX + 1];
        let endless = [b"GET /".as_slice(), &endless].concat();
        assert_eq!(request(&endless), Err(WireError::HeadTooLong));
    }
}
