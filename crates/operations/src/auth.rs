//! Authentication, permissions and origin checks, before a request is handled.
//!
//! `Host` must be a name of the loopback interface, a configured name, or the local address of the
//! connection. This prevents DNS rebinding: a web page cannot reach the hub through a name that it
//! resolves to the hub's address. `Origin`, which browsers add, must be a configured one.
//!
//! With one shared token ([`Auth::Token`]), changes require it, and so do reads that are costly or
//! return personal data. With roles ([`Auth::Roles`]), every request requires a token of an
//! operator, and the permission of its route. The shared token then is the break-glass token: it
//! has all permissions, and each use is logged and counted. Access tokens of an
//! OpenID provider are accepted if one is configured ([`crate::provider_tokens`]).

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use fspiop::{ErrorCode, Refusal};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{Method, StatusCode};
use identity::Session;
use ledger::{OperatorBook, OperatorTokenId, Stamp};

use crate::backend::ChangeAuthor;
use crate::dry_runs::X_DRY_RUN;
use crate::operator_token::{OperatorTokenText, id_text};
use crate::options::{AdminOptions, Auth};
use crate::permissions::{BUILT_IN, Permission, Permissions};
use crate::provider_tokens::{self, ProviderOperators};
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
    let allowed = |origin: &[u8]| {
        let is_known = options.origins.iter().any(|known| known.as_bytes() == origin);
        is_known || is_same_origin(options, origin, host.unwrap_or_default())
    };
    if head.headers.get_all(ORIGIN).iter().any(|origin| !allowed(origin.as_bytes())) {
        return Err(forbidden("the Origin is not a configured origin of the admin API"));
    }
    Ok(())
}

/// Whether an origin is that of this listener, whose host has been checked: a page of the console.
/// Without TLS, a proxy in front may have it.
fn is_same_origin(options: &AdminOptions, origin: &[u8], host: &str) -> bool {
    let plain = origin.strip_prefix(b"http://").filter(|_| options.tls.is_none());
    let authority = plain.or_else(|| origin.strip_prefix(b"https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host.as_bytes()))
}

/// Whether an address is that of the console at the host that a request names.
pub(crate) fn is_console(options: &AdminOptions, headers: &HeaderMap, address: &str) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let origin = address.strip_suffix("/console/");
    let pair = origin.zip(host);
    pair.is_some_and(|(origin, host)| is_same_origin(options, origin.as_bytes(), host))
}

/// The name under which uses of the break-glass token are recorded. No operator can have it.
pub(crate) const BREAK_GLASS: &str = "break-glass";

/// The credential of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// None was required.
    None,
    /// The shared token.
    Shared(Fingerprint),
    /// The shared token, where operators have roles.
    BreakGlass(Fingerprint),
    /// A token of an operator.
    Token(OperatorTokenId),
    /// A session that began with a password.
    Session,
    /// An access token of an OpenID provider at this host.
    Provider(Arc<str>),
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("unauthenticated"),
            Self::Shared(fingerprint) | Self::BreakGlass(fingerprint) => {
                write!(f, "token:{fingerprint}")
            }
            Self::Token(id) => write!(f, "token:{}", id_text(*id)),
            Self::Session => f.write_str("session"),
            Self::Provider(host) => write!(f, "oidc:{host}"),
        }
    }
}

/// The authenticated sender of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The operator; `None` if its credential has no name.
    pub(crate) name: Option<String>,
    pub(crate) credential: Credential,
    pub(crate) roles: Vec<String>,
    pub(crate) permissions: Permissions,
    /// When its credential expires.
    pub(crate) expires: Option<Stamp>,
}

impl Caller {
    /// A caller with all permissions.
    pub(crate) fn unrestricted(credential: Credential) -> Self {
        let permissions = Permissions::all();
        Self { name: None, credential, roles: Vec::new(), permissions, expires: None }
    }

    /// The author of a change. `X-Actor` is the name only if the credential has none.
    fn author(&self, headers: &HeaderMap, peer: IpAddr) -> Result<ChangeAuthor, Refusal> {
        let credential = &self.credential;
        let stated = header_text(headers, &X_ACTOR, ACTOR_BYTES_MAX)?;
        let actor = match self.name.clone().or(stated) {
            Some(name) => format!("{name} ({credential}) {peer}"),
            None => format!("{credential} {peer}"),
        };
        let reason = header_text(headers, &X_REASON, REASON_BYTES_MAX)?.unwrap_or_default();
        Ok(ChangeAuthor { actor, reason })
    }

    /// Refuses a caller without the permission.
    pub(crate) fn must_have(
        &self,
        permission: Permission,
        book: &OperatorBook,
    ) -> Result<(), Refusal> {
        if self.permissions.has(permission) {
            return Ok(());
        }
        let built_in = BUILT_IN.iter().filter(|(_, granted)| granted.contains(&permission));
        let needed = permission.name().to_owned();
        let defined = book.roles().filter(|role| role.permissions.contains(&needed));
        let names = built_in.map(|(name, _)| *name).chain(defined.map(|role| &*role.name));
        let roles: Vec<&str> = names.take(ROLES_NAMED_MAX).collect();
        let name = self.name.as_deref().unwrap_or_default();
        Err(forbidden(&format!(
            "{name} lacks the permission \"{needed}\", which this request requires; roles with it: \
             {}",
            roles.join(", ")
        )))
    }
}

/// Maximum number of roles that a refusal names.
const ROLES_NAMED_MAX: usize = 8;

/// Checks the credential of a request, and returns its sender and the author of a change.
pub(crate) async fn identify(
    options: &AdminOptions,
    book: &OperatorBook,
    head: &Parts,
    peer: IpAddr,
) -> Result<(Caller, ChangeAuthor), Refusal> {
    let caller = match &options.auth {
        Auth::None => Caller::unrestricted(Credential::None),
        Auth::Token(token) => {
            let missing = || match is_reading(&head.method) {
                true => unauthorized("this request requires the admin API's bearer token"),
                false => unauthorized("a change requires the admin API's bearer token"),
            };
            let presented = bearer(&head.headers).ok_or_else(missing)?;
            let fingerprint = verify(token.clone(), presented.to_owned()).await?;
            Caller::unrestricted(Credential::Shared(fingerprint))
        }
        Auth::Roles(token) => {
            let missing = || unauthorized("this request requires the bearer token of an operator");
            let presented = bearer(&head.headers).ok_or_else(missing)?;
            match OperatorTokenText::parse(presented) {
                Some(token) => of_operator(book, &token, now())?,
                None if Session::is_token(presented) => {
                    of_session(options, book, presented, now())?
                }
                None if let Some(provider) = of_provider(options, presented) => {
                    provider.identify(book, presented, now()).await?
                }
                None => {
                    let fingerprint = verify(token.clone(), presented.to_owned()).await?;
                    let caller = Caller::unrestricted(Credential::BreakGlass(fingerprint));
                    Caller { name: Some(BREAK_GLASS.to_owned()), ..caller }
                }
            }
        }
    };
    let author = caller.author(&head.headers, peer)?;
    Ok((caller, author))
}

/// The provider of a token, if its tokens are accepted.
fn of_provider<'a>(options: &'a AdminOptions, presented: &[u8]) -> Option<&'a ProviderOperators> {
    options.provider.as_ref().filter(|_| provider_tokens::is_token(presented))
}

/// The operator of a token. An unknown token, a wrong secret and a disabled operator get the same
/// text, so that a guess reveals nothing.
fn of_operator(
    book: &OperatorBook,
    presented: &OperatorTokenText,
    now: Stamp,
) -> Result<Caller, Refusal> {
    let token = book.token(presented.id).filter(|token| presented.matches(&token.hash));
    let operator = token.and_then(|token| book.operator(&token.operator));
    let (Some(token), Some(operator)) = (token, operator.filter(|operator| operator.active)) else {
        return Err(unauthorized("invalid bearer token"));
    };
    if token.expires <= now {
        return Err(unauthorized("the bearer token has expired"));
    }
    let granted = Permissions::of_roles(book, &operator.roles);
    let (roles, permissions) = match token.roles.is_empty() {
        true => (&operator.roles, granted),
        false => (&token.roles, granted.and(Permissions::of_roles(book, &token.roles))),
    };
    Ok(Caller {
        name: Some(operator.name.clone()),
        credential: Credential::Token(token.id),
        roles: roles.clone(),
        permissions,
        expires: Some(token.expires),
    })
}

/// The operator of a session, which must not have ended.
fn of_session(
    options: &AdminOptions,
    book: &OperatorBook,
    presented: &[u8],
    now: Stamp,
) -> Result<Caller, Refusal> {
    let session = options.secrets.as_ref().and_then(|key| Session::read(presented, key));
    let Some(session) = session else { return Err(unauthorized("invalid bearer token")) };
    let operator = book.operator(&session.operator).filter(|operator| operator.active);
    let operator = operator.filter(|operator| operator.generation == session.generation);
    let operator = operator.filter(|_| now.0 < session.expires);
    let ended = || unauthorized("the session has ended: log in again");
    let operator = operator.ok_or_else(ended)?;
    Ok(Caller {
        name: Some(operator.name.clone()),
        credential: Credential::Session,
        roles: operator.roles.clone(),
        permissions: Permissions::of_roles(book, &operator.roles),
        expires: Some(Stamp(session.expires)),
    })
}

/// The time of this machine.
pub(crate) fn now() -> Stamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Stamp(since.as_micros() as u64)
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

pub(crate) fn unauthorized(detail: &str) -> Refusal {
    let refusal = Refusal::new(ErrorCode::GENERIC_CLIENT, detail);
    Refusal { status: StatusCode::UNAUTHORIZED, ..refusal }
}

pub(crate) fn forbidden(detail: &str) -> Refusal {
    let refusal = Refusal::new(ErrorCode::GENERIC_CLIENT, detail);
    Refusal { status: StatusCode::FORBIDDEN, ..refusal }
}
