//! Authentication and origin checks, before a request is routed.
//!
//! `Host` must be a name of the loopback interface, a configured name, or the local address of the
//! connection. This prevents DNS rebinding: a web page cannot reach the hub through a name that it
//! resolves to the hub's address. `Origin`, which browsers add, must be a configured one. Changes
//! require the bearer token, and so do reads that are costly or return personal data.

use std::net::IpAddr;

use fspiop::{ErrorCode, Refusal};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{Method, StatusCode};

use crate::backend::ChangeAuthor;
use crate::dry_runs::X_DRY_RUN;
use crate::options::{AdminOptions, Auth};
use crate::token::{Fingerprint, Token};

/// Longest text of an `X-Actor` header, in bytes.
pub(crate) const ACTOR_BYTES_MAX: usize = 128;
/// Longest text of an `X-Reason` header, in bytes.
pub(crate) const REASON_BYTES_MAX: usize = 1_024;

const X_ACTOR: HeaderName = HeaderName::from_static("x-actor");
const X_REASON: HeaderName = HeaderName::from_static("x-reason");

/// Headers that may occur once. [`fspiop::request_head`] checks `Host`; hyper refuses two values of
/// `Content-Length`.
const SINGLE: [HeaderName; 5] = [AUTHORIZATION, CONTENT_TYPE, X_ACTOR, X_REASON, X_DRY_RUN];

/// Whether the method only reads.
pub(crate) fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Refuses a request that repeats one of these headers: a gateway and the hub could each use a
/// different line.
pub(crate) fn check_singles(headers: &HeaderMap) -> Result<(), Refusal> {
    let is_repeated = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
    match SINGLE.iter().find(is_repeated) {
        Some(name) => Err(Refusal::malformed(&format!("Header {name} must not be repeated"))),
        None => Ok(()),
    }
}

/// The local and the remote address of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddresses {
    /// The local address.
    pub(crate) local: IpAddr,
    /// The remote address.
    pub(crate) peer: IpAddr,
}

/// Refuses requests that are not meant for this host, or that a foreign web page sends.
pub(crate) fn check_origin(
    options: &AdminOptions,
    head: &Parts,
    local: IpAddr,
) -> Result<(), Refusal> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let host_fits = host.is_some_and(|host| is_allowed_host(options, host, local));
    let target_fits =
        head.uri.authority().is_none_or(|it| is_allowed_host(options, it.as_str(), local));
    if !host_fits || !target_fits || hosts.next().is_some() {
        return Err(forbidden("the Host header is not a configured host of the admin API"));
    }
    let allowed = |origin: &[u8]| options.origins.iter().any(|known| known.as_bytes() == origin);
    if head.headers.get_all(ORIGIN).iter().any(|origin| !allowed(origin.as_bytes())) {
        return Err(forbidden("the Origin is not a configured origin of the admin API"));
    }
    Ok(())
}

/// Checks the token of a change or of a guarded read, and returns the author.
pub(crate) async fn identify(
    options: &AdminOptions,
    head: &Parts,
    peer: IpAddr,
) -> Result<ChangeAuthor, Refusal> {
    let identity = match &options.auth {
        Auth::None => "unauthenticated".to_owned(),
        Auth::Token(token) => {
            let missing = || match is_reading(&head.method) {
                true => unauthorized("this request requires the admin API's bearer token"),
                false => unauthorized("a change requires the admin API's bearer token"),
            };
            let presented = bearer(&head.headers).ok_or_else(missing)?;
            let fingerprint = verify(token.clone(), presented.to_owned()).await?;
            format!("token:{fingerprint}")
        }
    };
    let named = header_text(&head.headers, &X_ACTOR, ACTOR_BYTES_MAX)?;
    let actor = match named {
        Some(name) => format!("{name} ({identity}) {peer}"),
        None => format!("{identity} {peer}"),
    };
    let reason = header_text(&head.headers, &X_REASON, REASON_BYTES_MAX)?.unwrap_or_default();
    Ok(ChangeAuthor { actor, reason })
}

/// The local address is allowed, because it cannot be rebound like a name. Metrics collectors that
/// discover processes dynamically know only their addresses.
fn is_allowed_host(options: &AdminOptions, host: &str, local: IpAddr) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    !host.contains('@')
        && (name.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|address| address.is_loopback() || address == local)
            || options.hosts.iter().any(|known| known.eq_ignore_ascii_case(name)))
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Verifies the token on the blocking pool, because it reads a file.
async fn verify(token: Token, presented: Vec<u8>) -> Result<Fingerprint, Refusal> {
    match tokio::task::spawn_blocking(move || token.verify(&presented)).await {
        Ok(Ok(Some(fingerprint))) => Ok(fingerprint),
        Ok(Ok(None)) => Err(unauthorized("invalid bearer token")),
        Ok(Err(_)) | Err(_) => {
            Err(Refusal::internal("the file of the admin token cannot be read; see the server log"))
        }
    }
}

fn header_text(
    headers: &HeaderMap,
    name: &HeaderName,
    bytes_max: usize,
) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    if value.len() > bytes_max {
        let detail = format!("{name} is longer than {bytes_max} bytes");
        return Err(Refusal::new(ErrorCode::VALIDATION, &detail));
    }
    let text = String::from_utf8_lossy(value.as_bytes()).trim().to_owned();
    Ok((!text.is_empty()).then_some(text))
}

fn unauthorized(detail: &str) -> Refusal {
    let refusal = Refusal::new(ErrorCode::GENERIC_CLIENT, detail);
    Refusal { status: StatusCode::UNAUTHORIZED, ..refusal }
}

fn forbidden(detail: &str) -> Refusal {
    let refusal = Refusal::new(ErrorCode::GENERIC_CLIENT, detail);
    Refusal { status: StatusCode::FORBIDDEN, ..refusal }
}
