//! Check of line ends in the heads of requests over HTTP/1.1.
//!
//! The HTTP parser accepts a line feed without a carriage return as a line end, but other parsers
//! do not. A request could be hidden from a gateway (RFC 9112, 2.2). The check follows the bytes of
//! one connection from head to head. It reads only the headers that determine the end of a body, by
//! the rules of the parser. It ends when the parser ends the connection.
//!
//! Costs: one search for the line ends of each head, and none within bodies. Bound: an incomplete
//! line is buffered, at most [`HEADER_BYTES_MAX`].

use crate::headers::HEADER_BYTES_MAX;

/// The check of one connection.
#[derive(Debug, Default)]
pub struct LineEndCheck {
    place: LinePart,
    /// The start of an incomplete line.
    partial: Vec<u8>,
    head: Head,
}

/// A bare line feed in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BareLineFeed {
    /// Number of the passed bytes before this head; 0 if the head began in an earlier call of
    /// [`LineEndCheck::check`].
    pub before: usize,
}

/// The part of the message to which the next byte belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LinePart {
    #[default]
    Head,
    Body(u64),
    ChunkSize,
    /// With the line end after it.
    Chunk(u64),
    Trailers,
    /// The parser ends the connection.
    Ended,
}

/// Information about the body from the lines of a head so far.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    has_request_line: bool,
    is_chunked: bool,
    length: u64,
}

impl LineEndCheck {
    /// Checks the next bytes of the connection.
    ///
    /// # Errors
    /// [`BareLineFeed`]; no further bytes of the connection may be parsed after it.
    pub fn check(&mut self, bytes: &[u8]) -> Result<(), BareLineFeed> {
        let (mut at, mut head_at) = (0, 0);
        while at < bytes.len() {
            match &mut self.place {
                LinePart::Ended => break,
                LinePart::Body(left) | LinePart::Chunk(left) => {
                    let part = (bytes.len() - at).min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= part as u64;
                    at += part;
                    if *left == 0 {
                        self.end_part();
                        head_at = at;
                    }
                }
                LinePart::Head | LinePart::ChunkSize | LinePart::Trailers => {
                    let is_head = self.place == LinePart::Head;
                    at += self.take_line(&bytes[at..], BareLineFeed { before: head_at })?;
                    let is_next = self.place == LinePart::Head && !is_head;
                    if is_next || self.is_between_requests() {
                        head_at = at;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the first line of `bytes`, or all of them if it does not end there.
    fn take_line(&mut self, bytes: &[u8], fault: BareLineFeed) -> Result<usize, BareLineFeed> {
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            self.keep(bytes);
            return Ok(bytes.len());
        };
        let (line, length) = (&bytes[..end], end + 1);
        if self.partial.is_empty() {
            match line.strip_suffix(b"\r") {
                Some(line) => self.end_line(line),
                None => self.meet_bare_line_feed(&bytes[..length], fault)?,
            }
            return Ok(length);
        }
        let mut whole = std::mem::take(&mut self.partial);
        whole.extend_from_slice(line);
        match whole.strip_suffix(b"\r") {
            Some(line) => self.end_line(line),
            None => {
                whole.push(b'\n');
                self.meet_bare_line_feed(&whole, fault)?;
            }
        }
        Ok(length)
    }

    fn meet_bare_line_feed(
        &mut self,
        line: &[u8],
        fault: BareLineFeed,
    ) -> Result<(), BareLineFeed> {
        match self.place {
            LinePart::Head => return Err(fault),
            // The parser reads trailers up to the next CR LF.
            LinePart::Trailers => self.keep(line),
            _ => self.place = LinePart::Ended,
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        if HEADER_BYTES_MAX < self.partial.len() {
            self.partial = Vec::new();
            self.place = LinePart::Ended;
        }
    }

    /// Handles a line without its end.
    fn end_line(&mut self, line: &[u8]) {
        match self.place {
            LinePart::Head if line.is_empty() && !self.head.has_request_line => {}
            LinePart::Head if line.is_empty() => self.end_head(),
            LinePart::Head if self.head.has_request_line => self.read_header(line),
            LinePart::Head => self.head.has_request_line = true,
            LinePart::ChunkSize => {
                self.place = match chunk_size(line) {
                    Some(0) => LinePart::Trailers,
                    Some(size) => size.checked_add(2).map_or(LinePart::Ended, LinePart::Chunk),
                    None => LinePart::Ended,
                };
            }
            LinePart::Trailers if line.is_empty() => self.place = LinePart::Head,
            LinePart::Trailers | LinePart::Body(_) | LinePart::Chunk(_) | LinePart::Ended => {}
        }
    }

    fn end_head(&mut self) {
        let Head { is_chunked, length, .. } = std::mem::take(&mut self.head);
        self.place = match length {
            _ if is_chunked => LinePart::ChunkSize,
            0 => LinePart::Head,
            length => LinePart::Body(length),
        };
    }

    fn end_part(&mut self) {
        self.place = match self.place {
            LinePart::Chunk(_) => LinePart::ChunkSize,
            _ => LinePart::Head,
        };
    }

    fn is_between_requests(&self) -> bool {
        self.place == LinePart::Head && self.partial.is_empty() && !self.head.has_request_line
    }

    fn read_header(&mut self, line: &[u8]) {
        if let Some(value) = value_of(line, b"content-length") {
            match decimal(value) {
                Some(length) => self.head.length = length,
                None => self.place = LinePart::Ended,
            }
        } else if let Some(value) = value_of(line, b"transfer-encoding") {
            self.head.is_chunked = true;
            if !value.eq_ignore_ascii_case(b"chunked") {
                self.place = LinePart::Ended;
            }
        }
    }
}

/// The value of a header line with this name.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    u64::from_str_radix(std::str::from_utf8(&line[..end]).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    const POST: &str = "POST /a HTTP/1.1\r\nContent-Length:  4 \r\nHost: a\r\n\r\n{\n\n}";
    const CHUNKED: &str = "POST /a HTTP/1.1\r\nTRANSFER-encoding: Chunked\r\nContent-Length: 9\r\n\
                           \r\n3;a=b\r\n{\n}\r\n0\r\nx: y\n\r\nz: a\r\n\r\n";
    const BARE: &str = "GET /a HTTP/1.1\r\nHost: a\n\r\n";

    /// The end of the valid requests, with the bytes passed in pieces of this length.
    fn end_of_good(text: &str, piece: usize) -> Option<usize> {
        let mut check = LineEndCheck::default();
        let mut head_at = 0;
        for (number, bytes) in text.as_bytes().chunks(piece).enumerate() {
            match check.check(bytes) {
                Ok(()) => {}
                Err(fault) if fault.before == 0 => return Some(head_at),
                Err(fault) => return Some(number * piece + fault.before),
            }
            if check.is_between_requests() {
                head_at = number * piece + bytes.len();
            }
        }
        None
    }

    #[test]
    fn a_bare_line_feed_is_found_in_heads_only() {
        for good in [GET, POST, CHUNKED, "\r\n\r\n", ""] {
            for more in [GET, POST, CHUNKED] {
                let text = [good, more, good].concat();
                assert_eq!(end_of_good(&text, 1), None, "{text:?}");
                assert_eq!(end_of_good(&text, text.len()), None, "{text:?}");
                let bad = [good, more, BARE, GET].concat();
                let end = good.len() + more.len();
                assert_eq!(end_of_good(&bad, bad.len()), Some(end), "{bad:?}");
                assert_eq!(end_of_good(&bad, 1), Some(end), "{bad:?}");
            }
        }
    }

    #[test]
    fn each_line_of_a_head_is_checked() {
        for bad in [
            "\nGET /a HTTP/1.1\r\n\r\n",
            "GET /a HTTP/1.1\n\r\n",
            "GET /a HTTP/1.1\nHost: a\n\n",
            "GET /a HTTP/1.1\r\nHost: a\n\r\n",
            "GET /a HTTP/1.1\r\nHost: a\r\n\n",
        ] {
            assert_eq!(end_of_good(bad, bad.len()), Some(0), "{bad:?}");
        }
    }

    #[test]
    fn check_ends_with_the_connection() {
        for head in [
            "content-length: +4\r\n\r\n",
            "content-length: 4, 4\r\n\r\n",
            "content-length: 99999999999999999999\r\n\r\n",
            "transfer-encoding: gzip\r\n\r\n",
            "transfer-encoding: chunked\r\n\r\nzz\r\n",
            "transfer-encoding: chunked\r\n\r\n3\n",
            "transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ] {
            let text = format!("POST /a HTTP/1.1\r\n{head}{BARE}");
            assert_eq!(end_of_good(&text, text.len()), None, "{text:?}");
        }
        let long = format!("GET /{} HTTP/1.1\r\n{BARE}", "a".repeat(HEADER_BYTES_MAX + 2_000));
        assert_eq!(end_of_good(&long, 1_000), None);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            texts in prop::collection::vec(prop_oneof![
                Just(GET), Just(POST), Just(CHUNKED), Just(BARE), Just("\r\n"), Just("x")], 0..6),
            piece in 1..80usize,
        ) {
            let text = texts.concat();
            let whole = end_of_good(&text, text.len().max(1));
            prop_assert_eq!(end_of_good(&text, piece).is_some(), whole.is_some());
        }

        #[test]
        fn checking_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = LineEndCheck::default().check(&bytes);
        }
    }
}
