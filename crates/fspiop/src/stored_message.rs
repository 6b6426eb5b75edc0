//! The stored form of the headers and body of a message: compact, versioned, safe to read.
//!
//! ```text
//! version (1)   1, or 2 with names of parties
//! parties       LEB128 length and bytes, only in version 2: the identifiers that the fields of the
//!               record have as hashes
//! count         LEB128: number of header lines
//! per line      name: one byte of the dictionary, or 0, LEB128 length, the name
//!               value: LEB128 length, the value
//! body          the rest
//! ```
//!
//! Reading checks everything and never panics: any bytes give a valid header map or an error.
//! Values and body share the stored bytes without a copy.

use std::ops::Range;

use bytes::Bytes;
use http::header::{HeaderName, InvalidHeaderName};
use http::{HeaderMap, HeaderValue};

/// The version without names of parties.
const VERSION: u8 = 1;
/// The version with names of parties.
const VERSION_WITH_PARTIES: u8 = 2;
/// Name byte of a header with its name written out.
const SPELLED: u8 = 0;
/// Name bytes of the headers with sender and recipient.
const SOURCE: u8 = 4;
const DESTINATION: u8 = 5;
/// Maximum number of header lines: 64 KiB at four bytes per line on the wire.
const LINES_MAX: usize = 16 * 1024;

/// The reasons why stored bytes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The first byte is an unknown version.
    #[error("stored message has unknown version {0}")]
    Version(u8),
    /// The bytes end inside the headers.
    #[error("stored message ends inside its headers")]
    Truncated,
    /// A length, a name or a value is invalid.
    #[error("stored message has invalid headers")]
    Corrupt,
}

/// A parsed stored message.
#[derive(Clone, Debug)]
pub struct StoredMessage {
    /// The headers, in the order of the original map.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: Bytes,
}

/// Upper bound of the length of the stored form.
#[must_use]
pub fn bytes_max(headers: &HeaderMap, body: &[u8]) -> usize {
    let lines: usize =
        headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 8).sum();
    lines + body.len() + 8
}

/// Appends the stored form of a message to `out`, which needs room for [`bytes_max`] if it shall
/// not grow.
pub fn encode(headers: &HeaderMap, body: &[u8], out: &mut Vec<u8>) {
    out.push(VERSION);
    encode_lines(headers, body, out);
}

fn encode_lines(headers: &HeaderMap, body: &[u8], out: &mut Vec<u8>) {
    put_length(out, headers.len());
    for (name, value) in headers {
        match code_of(name.as_str()) {
            SPELLED => {
                out.push(SPELLED);
                put_text(out, name.as_str().as_bytes());
            }
            code => out.push(code),
        }
        put_text(out, value.as_bytes());
    }
    out.extend_from_slice(body);
}

/// The same with the names of the parties in the record, in a form that the caller chooses. Without
/// names, it is the same as [`encode`].
pub fn encode_with_parties(headers: &HeaderMap, body: &[u8], parties: &[u8], out: &mut Vec<u8>) {
    if parties.is_empty() {
        return encode(headers, body, out);
    }
    out.push(VERSION_WITH_PARTIES);
    put_text(out, parties);
    encode_lines(headers, body, out);
}

/// The names of parties in a stored message; empty if it has none.
///
/// # Errors
/// [`PayloadError`] if neither function wrote it.
pub fn parties(stored: &[u8]) -> Result<&[u8], PayloadError> {
    let mut reader = Reader { stored, at: 0 };
    reader.parties().map(|range| &stored[range])
}

/// Reads the bytes written by [`encode`] or [`encode_with_parties`].
///
/// # Errors
/// [`PayloadError`] if [`encode`] did not write them.
pub fn decode(stored: &Bytes) -> Result<StoredMessage, PayloadError> {
    let mut reader = Reader { stored, at: 0 };
    let count = reader.begin()?;
    // Each line takes at least two bytes, so an invalid count reserves little memory.
    let mut headers = HeaderMap::with_capacity(count.min((stored.len() - reader.at) / 2));
    for _ in 0..count {
        let name = reader.name()?;
        let value = HeaderValue::from_maybe_shared(stored.slice(reader.text()?))
            .map_err(|_| PayloadError::Corrupt)?;
        headers.try_append(name, value).map_err(|_| PayloadError::Corrupt)?;
    }
    Ok(StoredMessage { headers, body: stored.slice(reader.at..) })
}

/// The parts of a stored message that decisions need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredSummary<'a> {
    /// `FSPIOP-Source`, the last one; empty when absent.
    pub source: &'a [u8],
    /// `FSPIOP-Destination`, the last one; empty when absent.
    pub destination: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// Sender, recipient and body alone, for messages that [`decode`] can read: a tenth of the work,
/// and no allocation.
///
/// # Errors
/// Like [`decode`].
pub fn stated(stored: &[u8]) -> Result<StoredSummary<'_>, PayloadError> {
    let mut reader = Reader { stored, at: 0 };
    let mut stated = StoredSummary { source: &[], destination: &[], body: &[] };
    for _ in 0..reader.begin()? {
        let code = reader.skip_name()?;
        let value = &stored[reader.text()?];
        if !value.iter().all(|byte| is_of_value(*byte)) {
            return Err(PayloadError::Corrupt);
        }
        match code {
            SOURCE => stated.source = value,
            DESTINATION => stated.destination = value,
            _ => {}
        }
    }
    Ok(StoredSummary { body: &stored[reader.at..], ..stated })
}

/// Whether `http` allows the byte in a header value.
const fn is_of_value(byte: u8) -> bool {
    byte == b'\t' || (0x20 <= byte && byte != 0x7f)
}

macro_rules! dictionary {
    ($($code:literal $name:literal;)*) => {
        fn code_of(name: &str) -> u8 {
            match name {
                $($name => $code,)*
                _ => SPELLED,
            }
        }

        fn name_of(code: u8) -> Option<HeaderName> {
            match code {
                $($code => Some(const { HeaderName::from_static($name) }),)*
                _ => None,
            }
        }

        /// Codes run from one to this number.
        const DICTIONARY_LENGTH: u8 = [$($code),*].len() as u8;

        #[cfg(test)]
        const DICTIONARY: &[(u8, &str)] = &[$(($code, $name)),*];
    };
}

// Stored messages depend on these numbers: append at the end, change and remove nothing.
dictionary! {
    1 "accept";
    2 "content-type";
    3 "date";
    4 "fspiop-source";
    5 "fspiop-destination";
    6 "fspiop-signature";
    7 "fspiop-uri";
    8 "fspiop-http-method";
    9 "fspiop-encryption";
    10 "fspiop-proxy";
    11 "traceparent";
    12 "tracestate";
    13 "baggage";
    14 "authorization";
    15 "user-agent";
    16 "accept-encoding";
    17 "content-encoding";
    18 "content-language";
    19 "accept-language";
    20 "cache-control";
    21 "x-forwarded-for";
    22 "x-forwarded-proto";
    23 "x-forwarded-host";
    24 "x-forwarded-port";
    25 "x-real-ip";
    26 "x-request-id";
    27 "x-client-id";
    28 "x-b3-traceid";
    29 "x-b3-spanid";
    30 "x-b3-parentspanid";
    31 "x-b3-sampled";
    32 "via";
}

/// Reads from the front.
struct Reader<'a> {
    stored: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// Reads the part before the lines; returns their number.
    fn begin(&mut self) -> Result<usize, PayloadError> {
        self.parties()?;
        match self.length()? {
            count if count <= LINES_MAX => Ok(count),
            _ => Err(PayloadError::Corrupt),
        }
    }

    /// Reads the version and the range of the names of parties.
    fn parties(&mut self) -> Result<Range<usize>, PayloadError> {
        match self.byte()? {
            VERSION => Ok(0..0),
            VERSION_WITH_PARTIES => self.text(),
            other => Err(PayloadError::Version(other)),
        }
    }

    fn byte(&mut self) -> Result<u8, PayloadError> {
        let byte = *self.stored.get(self.at).ok_or(PayloadError::Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    /// At most four bytes of LEB128: stored lengths are far below 2^28.
    fn length(&mut self) -> Result<usize, PayloadError> {
        let mut length = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            length |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(length);
            }
        }
        Err(PayloadError::Corrupt)
    }

    /// The range of a text.
    fn text(&mut self) -> Result<Range<usize>, PayloadError> {
        let length = self.length()?;
        if length > self.stored.len() - self.at {
            return Err(PayloadError::Truncated);
        }
        let text = self.at..self.at + length;
        self.at = text.end;
        Ok(text)
    }

    fn name(&mut self) -> Result<HeaderName, PayloadError> {
        match self.byte()? {
            SPELLED => HeaderName::from_bytes(&self.stored[self.text()?])
                .map_err(|_: InvalidHeaderName| PayloadError::Corrupt),
            code => name_of(code).ok_or(PayloadError::Corrupt),
        }
    }

    /// Its code, also if its name is written out.
    fn skip_name(&mut self) -> Result<u8, PayloadError> {
        match self.stored.get(self.at) {
            Some(code) if (1..=DICTIONARY_LENGTH).contains(code) => {
                self.at += 1;
                Ok(*code)
            }
            _ => self.name().map(|name| code_of(name.as_str())),
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_length(out, text.len());
    out.extend_from_slice(text);
}

fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    fn encoded(headers: &HeaderMap, body: &[u8]) -> Bytes {
        let mut out = Vec::new();
        encode(headers, body, &mut out);
        Bytes::from(out)
    }

    #[test]
    fn the_dictionary_is_numbered_from_one_without_gaps() {
        for (at, (code, name)) in DICTIONARY.iter().enumerate() {
            assert_eq!(usize::from(*code), at + 1);
            assert_eq!(name_of(*code).as_ref().map(HeaderName::as_str), Some(*name));
            assert_eq!(code_of(name), *code);
        }
        assert_eq!(name_of(SPELLED), None);
        assert_eq!(code_of("x-other"), SPELLED);
    }

    #[test]
    fn the_stored_form_is_fixed() {
        let mut headers = HeaderMap::new();
        headers.insert("fspiop-source", HeaderValue::from_static("payerfsp"));
        headers.insert("x-other", HeaderValue::from_static("1"));
        let stored = encoded(&headers, b"{}");
        expect![[r#""\u{1}\u{2}\u{4}\u{8}payerfsp\0\u{7}x-other\u{1}1{}""#]]
            .assert_eq(&format!("{:?}", std::str::from_utf8(&stored).expect("ASCII")));
    }

    #[test]
    fn names_of_parties_are_stored_before_the_headers() {
        let mut headers = HeaderMap::new();
        headers.insert("fspiop-source", HeaderValue::from_static("payerfsp"));
        let mut stored = Vec::new();
        encode_with_parties(&headers, b"{}", b"names", &mut stored);
        assert_eq!(stored, b"\x02\x05names\x01\x04\x08payerfsp{}");
        assert_eq!(parties(&stored), Ok(&b"names"[..]));
        assert_eq!(stated(&stored).expect("it was written").source, b"payerfsp");
        let found = decode(&Bytes::from(stored)).expect("it was written");
        assert_eq!((found.headers, &found.body[..]), (headers.clone(), &b"{}"[..]));
        let mut without = Vec::new();
        encode_with_parties(&headers, b"{}", b"", &mut without);
        assert_eq!(without, encoded(&headers, b"{}"));
        assert_eq!(parties(&without), Ok(&b""[..]));
    }

    #[test]
    fn sender_and_recipient_are_found_however_they_are_stored() {
        let mut headers = HeaderMap::new();
        assert_eq!(stated(&encoded(&headers, b"{}")).expect("it was written").source, b"");
        headers.insert("fspiop-destination", HeaderValue::from_static("payerfsp"));
        headers.insert("date", HeaderValue::from_static("now"));
        headers.insert("fspiop-source", HeaderValue::from_static("payeefsp"));
        let (source, destination, body) = (&b"payeefsp"[..], &b"payerfsp"[..], &b"{}"[..]);
        let expected = Ok(StoredSummary { source, destination, body });
        assert_eq!(stated(&encoded(&headers, b"{}")), expected);
        let spelled = b"\x01\x02\x00\x0dFSPIOP-Source\x08payeefsp\x05\x08payerfsp{}";
        assert_eq!(stated(spelled), expected);
    }

    #[test]
    fn long_values_and_other_versions() {
        let mut headers = HeaderMap::new();
        headers.insert("date", HeaderValue::from_str(&"a".repeat(70_000)).expect("a value"));
        let stored = encoded(&headers, b"body");
        let payload = decode(&stored).expect("it was written");
        assert_eq!((payload.headers, &payload.body[..]), (headers, &b"body"[..]));
        for (bytes, error) in [
            (&b""[..], PayloadError::Truncated),
            (&b"\x03"[..], PayloadError::Version(3)),
            (&b"\x02"[..], PayloadError::Truncated),
            (&b"\x02\x02a"[..], PayloadError::Truncated),
            (&b"\x02\x01a"[..], PayloadError::Truncated),
            (&b"\x01"[..], PayloadError::Truncated),
            (&b"\x01\x01"[..], PayloadError::Truncated),
            (&b"\x01\x01\x03"[..], PayloadError::Truncated),
            (&b"\x01\x01\x03\x05"[..], PayloadError::Truncated),
            (&b"\x01\x01\xfe\x00"[..], PayloadError::Corrupt),
            (&b"\x01\x01\x00\x01 \x00"[..], PayloadError::Corrupt),
            (&b"\x01\x01\x03\x01\n"[..], PayloadError::Corrupt),
            (&b"\x01\xff\xff\xff\xff\x01"[..], PayloadError::Corrupt),
            (&b"\x01\xff\xff\x7f"[..], PayloadError::Corrupt),
        ] {
            let found = decode(&Bytes::from_static(bytes)).map(|payload| payload.body);
            assert_eq!(found, Err(error), "{bytes:?}");
            assert_eq!(stated(bytes), Err(error), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn values_round_trip(
            lines in prop::collection::vec(
                (prop_oneof!["date|fspiop-uri|via", "[a-z][a-z0-9-]{0,20}"], "[ -~]{0,200}"), 0..20),
            body in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut headers = HeaderMap::new();
            for (name, value) in &lines {
                headers.append(
                    HeaderName::from_bytes(name.as_bytes()).expect("a name"),
                    HeaderValue::from_str(value).expect("a value"),
                );
            }
            let stored = encoded(&headers, &body);
            let payload = decode(&stored).expect("it was written");
            prop_assert_eq!(payload.headers, headers);
            prop_assert_eq!(&payload.body[..], &body[..]);
            prop_assert_eq!(stated(&stored).map(|stated| stated.body), Ok(&body[..]));
        }

        #[test]
        fn reading_never_panics(
            bytes in prop::collection::vec(prop_oneof![0..40u8, any::<u8>()], 0..200),
        ) {
            let mut versioned = vec![VERSION];
            versioned.extend(&bytes);
            for bytes in [bytes, versioned] {
                let whole = decode(&Bytes::from(bytes.clone())).map(|payload| payload.body);
                let found = stated(&bytes).map(|stated| stated.body);
                prop_assert_eq!(found, whole.as_deref().map_err(|error| *error));
            }
        }
    }
}
