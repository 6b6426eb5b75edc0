//! Replaces the bare responses of the HTTP library to malformed requests by FSPIOP errors.
//!
//! hyper answers a malformed or too large request with only a status, and closes the connection. A
//! driver searches its outgoing bytes for such a response and writes the FSPIOP error instead. A
//! test over sockets fails if hyper changes its responses.
//!
//! Costs: a few comparisons per write.

use crate::{ErrorCode, Refusal};

/// Start and headers of hyper's own responses. A date of fixed length and an empty line follow.
const BARE_STATUS: [&[u8]; 3] = [
    b"HTTP/1.1 400 Bad Request\r\n",
    b"HTTP/1.1 414 URI Too Long\r\n",
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
];
const BARE_HEADERS: &[u8] = b"connection: close\r\ncontent-length: 0\r\ndate: ";
const BARE_END: usize = "Tue, 15 Nov 1994 08:12:31 GMT\r\n\r\n".len();

/// Finds a response of hyper's own, which is always the last on a connection. Returns its offset
/// and the refusal that replaces it.
#[must_use]
pub fn find(bytes: &[u8]) -> Option<(usize, Refusal)> {
    let found = BARE_STATUS.iter().position(|status| {
        let length = status.len() + BARE_HEADERS.len() + BARE_END;
        let answer = bytes.len().checked_sub(length).map(|at| &bytes[at..]);
        answer
            .and_then(|answer| answer.strip_prefix(*status))
            .is_some_and(|rest| rest.starts_with(BARE_HEADERS))
    })?;
    let length = BARE_STATUS[found].len() + BARE_HEADERS.len() + BARE_END;
    let refusal = match found {
        0 => Refusal::new(ErrorCode::MALFORMED_SYNTAX, "the request is not well-formed HTTP/1.1"),
        _ => Refusal::too_large(),
    };
    Some((bytes.len() - length, refusal))
}

/// A whole response with these additional headers. The connection is closed after it.
#[must_use]
pub fn render(refusal: &Refusal, headers: &[(&str, &str)]) -> Vec<u8> {
    let body = refusal.body();
    let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let head = format!(
        "HTTP/1.1 {}\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: {}\r\n\
         {}connection: close\r\n\r\n",
        refusal.status,
        body.len(),
        lines.collect::<String>(),
    );
    [head.as_bytes(), &body].concat()
}
