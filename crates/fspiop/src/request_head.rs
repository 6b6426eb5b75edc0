//! Checks the head of a request before it is processed: every reader must interpret it alike.
//!
//! The HTTP parser rejects invalid HTTP. These additional rules ensure that a gateway in front
//! cannot interpret the same bytes differently, which would hide a request from it (RFC 9112,
//! sections 3.2, 6.1 and 11.2). A valid head costs two look-ups and a scan of the names.

use http::header::{HOST, HeaderName, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, StatusCode, Version};

use crate::error::Refusal;

/// Maximum number of header lines in one request, the same as in the HTTP/1.1 parser.
pub const HEADER_LINES_MAX: usize = 100;

/// First words of names that readers on the way, or recipients, take for others if `_` and `-` are
/// the same to them, as in CGI. FSPIOP has no header with `_`. Names that describe the caller, such
/// as `X_Forwarded_For`, are not forwarded anyway.
const AMBIGUOUS: [&str; 4] = ["accept", "content", "fspiop", "transfer"];

/// Checks the number of headers, their names, target, `Host` and `Transfer-Encoding`. After a
/// refusal the connection must be closed, because the two ends might disagree on the start of the
/// next request.
///
/// The authority of a target in absolute form is ignored like `Host`: paths mean the same under
/// every name of the hub.
///
/// # Errors
/// 400 with 3101, or 3102 for a missing `Host`; 431 with 3104 for too many headers.
pub fn check(head: &Parts) -> Result<(), Refusal> {
    if HEADER_LINES_MAX < head.headers.len() {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Err(Refusal { status, ..Refusal::too_large() });
    }
    check_names(head)?;
    check_target(head)?;
    check_host(head)?;
    check_coding(head)
}

/// Refuses names with `_` or `.` that are those of known headers with `-`: servers that pass
/// headers in variables treat them as the same. They are refused, not dropped, because the sender
/// means the header to be read, and a reader in front may have done so.
fn check_names(head: &Parts) -> Result<(), Refusal> {
    let mut names = head.headers.keys().map(HeaderName::as_str);
    let begins_known = |name: &str| {
        let rest = AMBIGUOUS.iter().find_map(|word| name.strip_prefix(word));
        rest.is_some_and(|rest| rest.starts_with(['-', '_', '.']))
    };
    let is_ambiguous =
        |name: &&str| begins_known(name) && name.bytes().any(|byte| matches!(byte, b'_' | b'.'));
    match names.find(is_ambiguous) {
        None => Ok(()),
        Some(name) => {
            let what = format!("Header {name} must be written with - instead of _ or .");
            Err(Refusal::malformed(&what))
        }
    }
}

fn check_target(head: &Parts) -> Result<(), Refusal> {
    let uri = &head.uri;
    if head.method == Method::CONNECT || uri.authority().is_some() && uri.scheme().is_none() {
        return Err(Refusal::malformed("the hub is no proxy: CONNECT is not for it"));
    }
    match uri.scheme_str() {
        None | Some("http" | "https") => Ok(()),
        Some(_) => Err(Refusal::malformed("the target has a scheme other than http")),
    }
}

fn check_host(head: &Parts) -> Result<(), Refusal> {
    let mut hosts = head.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Err(Refusal::malformed("Header host must not be repeated")),
        (None, None) if head.version == Version::HTTP_11 => {
            Err(Refusal::missing("/header must have required property 'host'"))
        }
        _ => Ok(()),
    }
}

fn check_coding(head: &Parts) -> Result<(), Refusal> {
    let Some(coding) = head.headers.get(TRANSFER_ENCODING) else {
        return Ok(());
    };
    let once = head.headers.get_all(TRANSFER_ENCODING).iter().nth(1).is_none();
    if once && coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    Err(Refusal::malformed("Header transfer-encoding must be chunked and nothing else"))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn verdict(method: &str, target: &str, headers: &[(&str, &str)]) -> Option<String> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        check(&head).err().map(|refusal| refusal.code.to_string())
    }

    #[test]
    fn ambiguous_heads_are_refused() {
        let host = ("host", "hub");
        let chunked = ("transfer-encoding", "chunked");
        for (method, target, headers, expected) in [
            ("GET", "/health", &[host][..], None),
            ("GET", "http://other/health", &[host], None),
            ("GET", "HTTPS://other/health", &[host], None),
            ("OPTIONS", "*", &[host], None),
            ("POST", "/", &[host, ("Transfer-Encoding", "Chunked")], None),
            ("CONNECT", "hub:80", &[host], Some("3101")),
            ("CONNECT", "/", &[host], Some("3101")),
            ("GET", "hub:80", &[host], Some("3101")),
            ("GET", "ftp://hub/", &[host], Some("3101")),
            ("GET", "/", &[], Some("3102")),
            ("GET", "/", &[host, host], Some("3101")),
            ("POST", "/", &[host, chunked, chunked], Some("3101")),
            ("POST", "/", &[host, ("transfer-encoding", "gzip, chunked")], Some("3101")),
            ("POST", "/", &[host, ("transfer-encoding", "identity")], Some("3101")),
            ("POST", "/", &[host, ("transfer-encoding", "")], Some("3101")),
            ("POST", "/", &[host, ("FSPIOP_Source", "bank-b")], Some("3101")),
            ("POST", "/", &[host, ("fspiop-http_method", "PUT")], Some("3101")),
            ("POST", "/", &[host, ("Content_Length", "5")], Some("3101")),
            ("POST", "/", &[host, ("content-type_", "a")], Some("3101")),
            ("POST", "/", &[host, ("Transfer_Encoding", "chunked")], Some("3101")),
            ("POST", "/", &[host, ("X_Forwarded_For", "10.0.0.1")], None),
            ("POST", "/", &[host, ("correlation_id", "7"), ("fspiop-x", "y")], None),
        ] {
            assert_eq!(verdict(method, target, headers).as_deref(), expected, "{method} {target}");
        }
    }

    #[test]
    fn header_lines_are_limited() {
        let lines = [("x", "y"); HEADER_LINES_MAX];
        assert_eq!(verdict("GET", "http://hub/health", &lines), Some("3102".to_owned()));
        let more = [("x", "y"); HEADER_LINES_MAX + 1];
        assert_eq!(verdict("GET", "http://hub/health", &more), Some("3104".to_owned()));
    }
}
