//! Rewrites the headers of an inbound message for the forwarded message (hub-semantics 1.2 and
//! Rulings).
//!
//! Headers that signatures cover stay: source, signature, URI, method, date, content type.
//! [`strip`] removes hop-by-hop headers, including those named by `Connection`, and credentials and
//! addresses of callers. It runs once, before a message is stored or sent. The map is changed in
//! place; only added headers are copied.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, EXPECT, HOST, HeaderName, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method};
use ledger::FspName;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use crate::headers::{
    FSPIOP_DESTINATION, FSPIOP_HTTP_METHOD, FSPIOP_SIGNATURE, FSPIOP_URI, TRACEPARENT, TRACESTATE,
};
use crate::time::date_header;
use crate::trace::{self, TraceContext};

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// The parameters of a forwarded message.
#[derive(Clone, Copy, Debug)]
pub struct Forwarding<'a> {
    /// Method of the outgoing call.
    pub method: &'a Method,
    /// Path of the resource, starting with it (`/transfers/…`). Used if the message names none.
    pub path: &'a str,
    /// The derived recipient. Used if the message names none.
    pub destination: Option<&'a FspName>,
    /// The context in the message's `traceparent`, which is then not parsed again, or one without a
    /// parent, to start if the message belongs to none.
    pub trace: TraceContext,
    /// Id of the hub's span, not zero, chosen by the caller.
    pub span: u64,
    /// Time of sending, in milliseconds since 1970. Used if the message has no `Date`.
    pub now_ms: u64,
}

/// Headers that identify a caller: credentials, and the headers with which gateways describe its
/// address, its certificate or its user.
const PRIVATE: [&str; 19] = [
    "api-key",
    "authentication",
    "authentication-info",
    "authorization",
    "cf-connecting-ip",
    "client-cert",
    "client-cert-chain",
    "cookie",
    "cookie2",
    "csrf-token",
    "dpop",
    "fastly-client-ip",
    "forwarded",
    "remote-user",
    "set-cookie",
    "set-cookie2",
    "true-client-ip",
    "via",
    "xsrf-token",
];
/// The same, for names that begin with `x-`, and those with which servers let a request replace its
/// method or path.
const PRIVATE_X: [&str; 27] = [
    "x-access-token",
    "x-amz-security-token",
    "x-anonymous-consumer",
    "x-api-key",
    "x-apigateway-api-userinfo",
    "x-authorization",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-client-cert",
    "x-client-id",
    "x-client-ip",
    "x-client-name",
    "x-cluster-client-ip",
    "x-csrf-token",
    "x-endpoint-api-userinfo",
    "x-envoy-external-address",
    "x-http-method",
    "x-http-method-override",
    "x-id-token",
    "x-method-override",
    "x-original-uri",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
    "x-user",
    "x-userinfo",
    "x-xsrf-token",
];
/// Prefixes of further such names.
const PRIVATE_PREFIXES: [&str; 2] = ["cf-access-", "ssl-client-"];
/// The same, for names that begin with `x-`.
const PRIVATE_X_PREFIXES: [&str; 14] = [
    "x-amzn-oidc-",
    "x-auth-",
    "x-authenticated-",
    "x-consumer-",
    "x-credential-",
    "x-forwarded",
    "x-goog-authenticated-user-",
    "x-goog-iap-",
    "x-jwt-",
    "x-ms-client-principal",
    "x-ms-token-",
    "x-original-forwarded",
    "x-remote-",
    "x-ssl-",
];

/// Removes the headers that end at the hub: hop-by-hop headers, `Host`, `Content-Length` and
/// `Expect`, credentials, and addresses of callers. Signatures cover none of them.
///
/// An underscore or a dot in a name counts as a hyphen. Costs: one check per name; no allocation if
/// no name matches.
pub fn strip(headers: &mut HeaderMap) {
    if headers.keys().any(|name| *name == CONNECTION) {
        if is_any_named_by_connection(headers) {
            remove_named_by_connection(headers);
        }
        headers.remove(CONNECTION);
    }
    // Nearly every message has these two.
    headers.remove(HOST);
    headers.remove(CONTENT_LENGTH);
    // Looking up names that are hardly ever present costs a hash each.
    let ends_here = |name: &&HeaderName| {
        let text = name.as_str();
        !is_usual(text) && (belongs_to_connection(name) || is_private(text))
    };
    let names: Vec<HeaderName> = headers.keys().filter(ends_here).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Rewrites the headers of an inbound message, [stripped](strip) before, for the outgoing one.
///
/// - `Accept` is removed on PUT.
/// - `FSPIOP-URI`, `FSPIOP-HTTP-Method` and `Date` stay, or are added if absent.
/// - `FSPIOP-Destination` is added if it is known, and absent or empty. It is not added to a signed
///   message with a protected header that lacks it, because the signature would no longer verify.
/// - `traceparent` becomes a child span of the same trace, `tracestate` stays. A message without a
///   valid one joins `trace`; without a state it gets `upesi=<span>`.
pub fn rewrite(headers: &mut HeaderMap, with: &Forwarding<'_>) {
    let present = PresentHeaders::read(headers);
    if present.accept && *with.method == Method::PUT {
        headers.remove(ACCEPT);
    }
    if !present.uri
        && let Some(path) = path_value(with.path)
    {
        headers.insert(&FSPIOP_URI, path);
    }
    if !present.method {
        headers.insert(&FSPIOP_HTTP_METHOD, method_value(with.method));
    }
    if !present.date {
        headers.insert(DATE, date_header(with.now_ms));
    }
    if present.destination != Some(true)
        && let Some(destination) = with.destination
    {
        add_destination(headers, destination);
    }
    continue_trace(headers, present, with);
}

/// Whether the headers that are added if they are absent are present, found in one pass: a look-up
/// costs a hash.
#[derive(Clone, Copy, Default)]
struct PresentHeaders {
    accept: bool,
    date: bool,
    /// Whether its first value is not empty.
    destination: Option<bool>,
    method: bool,
    tracestate: bool,
    uri: bool,
}

impl PresentHeaders {
    fn read(headers: &HeaderMap) -> Self {
        let mut present = Self::default();
        for (name, value) in headers {
            match name.as_str() {
                "accept" => present.accept = true,
                "date" => present.date = true,
                "fspiop-destination" => {
                    present.destination.get_or_insert(!value.is_empty());
                }
                "fspiop-http-method" => present.method = true,
                "fspiop-uri" => present.uri = true,
                "tracestate" => present.tracestate = true,
                _ => {}
            }
        }
        present
    }
}

/// A path as a header value, without an allocation for the usual ones.
fn path_value(path: &str) -> Option<HeaderValue> {
    match path {
        "/transfers" => Some(HeaderValue::from_static("/transfers")),
        _ => HeaderValue::from_str(path).ok(),
    }
}

/// A participant's name as a header value. Bytes that are invalid in a header become `?`.
pub(crate) fn name_value(name: &FspName) -> HeaderValue {
    HeaderValue::from_str(name.as_str()).unwrap_or_else(|_| {
        let visible = |b: u8| if b == b'\t' || b >= b' ' && b != 0x7f { b } else { b'?' };
        let bytes: Vec<u8> = name.as_str().bytes().map(visible).collect();
        HeaderValue::from_bytes(&bytes).expect("the bytes were made fit for a header")
    })
}

pub(crate) fn method_value(method: &Method) -> HeaderValue {
    HeaderValue::from_static(match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        // The API has no other method.
        _ => "",
    })
}

/// Whether `Connection` names a header of the message, which is rare: usual values are
/// `keep-alive` and `close`.
fn is_any_named_by_connection(headers: &HeaderMap) -> bool {
    headers.get_all(CONNECTION).iter().flat_map(tokens).any(|token| {
        let is_named = |name: &HeaderName| token.eq_ignore_ascii_case(name.as_str().as_bytes());
        headers.keys().any(is_named)
    })
}

/// The names in a value of `Connection`.
fn tokens(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Removes the headers that `Connection` names, except those that the API needs: a client must not
/// be able to remove a header between hub and participant.
fn remove_named_by_connection(headers: &mut HeaderMap) {
    let values: Vec<HeaderValue> = headers.get_all(CONNECTION).iter().cloned().collect();
    for token in values.iter().flat_map(tokens) {
        if let Ok(name) = HeaderName::from_bytes(token)
            && !is_end_to_end(&name)
        {
            headers.remove(name);
        }
    }
}

fn is_end_to_end(name: &HeaderName) -> bool {
    name.as_str().starts_with("fspiop-")
        || [CONTENT_TYPE, ACCEPT, DATE].contains(name)
        || *name == TRACEPARENT
        || *name == TRACESTATE
}

fn belongs_to_connection(name: &HeaderName) -> bool {
    [EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name)
        || *name == KEEP_ALIVE
        || begins_with(name.as_str(), "proxy-")
}

/// Whether a name has the prefix of one in nearly every message. None of those ends at the hub.
fn is_usual(name: &str) -> bool {
    matches!(
        name.as_bytes(),
        [b'f', b's', ..]
            | [b'c', b'o', b'n', b't', ..]
            | [b't', b'r', b'a', b'c', ..]
            | [b'a', b'c', b'c', ..]
            | [b'd', b'a', b't', ..]
    )
}

fn is_private(name: &str) -> bool {
    match name.as_bytes() {
        [b'x', b'-' | b'_' | b'.', ..] => is_listed(name, &PRIVATE_X, &PRIVATE_X_PREFIXES),
        [b'a' | b'c' | b'd' | b'f' | b'r' | b's' | b't' | b'v' | b'x', ..] => {
            is_listed(name, &PRIVATE, &PRIVATE_PREFIXES)
        }
        _ => false,
    }
}

fn is_listed(name: &str, names: &[&str], prefixes: &[&str]) -> bool {
    names.iter().any(|known| known.len() == name.len() && begins_with(name, known))
        || prefixes.iter().any(|prefix| begins_with(name, prefix))
}

/// Whether a name begins with a text, where `_` and `.` count as `-`, because many servers treat
/// them as the same name.
fn begins_with(name: &str, prefix: &str) -> bool {
    let is_same =
        |(one, known): (u8, u8)| one == known || matches!(one, b'_' | b'.') && known == b'-';
    prefix.len() <= name.len() && name.bytes().zip(prefix.bytes()).all(is_same)
}

fn add_destination(headers: &mut HeaderMap, destination: &FspName) {
    let allowed = match headers.get(&FSPIOP_SIGNATURE) {
        Some(signature) => protects_destination(signature.as_bytes()),
        None => true,
    };
    if allowed {
        headers.insert(&FSPIOP_DESTINATION, name_value(destination));
    }
}

/// Whether the protected header of a signature names a destination; false if it cannot be read.
fn protects_destination(signature: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Signature {
        protected_header: String,
    }
    let Ok(signature) = serde_json::from_slice::<Signature>(signature) else {
        return false;
    };
    let encoded = signature.protected_header.trim_end_matches('=');
    URL_SAFE_NO_PAD
        .decode(encoded)
        .ok()
        .and_then(|json| serde_json::from_slice::<NamesDestination>(&json).ok())
        .is_some_and(|names| names.0)
}

/// Whether a JSON object has the member `FSPIOP-Destination`.
struct NamesDestination(bool);

impl<'de> Deserialize<'de> for NamesDestination {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = NamesDestination;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found = false;
                while let Some(name) = map.next_key::<String>()? {
                    found |= name.eq_ignore_ascii_case(FSPIOP_DESTINATION.as_str());
                    map.next_value::<IgnoredAny>()?;
                }
                Ok(NamesDestination(found))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

fn continue_trace(headers: &mut HeaderMap, present: PresentHeaders, with: &Forwarding<'_>) {
    let known = Some(with.trace).filter(TraceContext::has_parent);
    let parent = known.or_else(|| TraceContext::parse(headers.get(&TRACEPARENT)?.as_bytes()));
    if present.tracestate && parent.is_none() {
        // A state without a valid parent belongs to no trace.
        headers.remove(&TRACESTATE);
    }
    headers.insert(&TRACEPARENT, parent.unwrap_or(with.trace).child(with.span));
    if !present.tracestate || parent.is_none() {
        headers.insert(&TRACESTATE, trace::state(with.span));
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    /// Each case of the text is a method with headers of an inbound message, and, after a line of
    /// dashes, the headers of the outgoing one.
    #[test]
    fn headers_are_rewritten_as_expected() {
        let text = expect_file!["test_tables/forwarded_headers.txt"];
        let mut lines = String::new();
        for case in text.data().split_terminator("\n\n") {
            let (inbound, _) = case.split_once("\n---").expect("headers before and after");
            let (method, rest) = inbound.split_once('\n').expect("a method, then headers");
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            lines += &format!("{inbound}\n---\n{}\n", outgoing(&method, rest));
        }
        text.assert_eq(&lines);
    }

    fn outgoing(method: &Method, inbound: &str) -> String {
        let mut headers = HeaderMap::new();
        for line in inbound.lines() {
            let (name, value) = line.split_once(": ").expect("a name and a value");
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        strip(&mut headers);
        rewrite(&mut headers, &forwarding(method));
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}\n", value.to_str().expect("ASCII"))
        };
        let mut lines: Vec<_> = headers.iter().map(line).collect();
        lines.sort();
        lines.concat()
    }

    fn forwarding(method: &Method) -> Forwarding<'_> {
        static PAYEE: std::sync::OnceLock<FspName> = std::sync::OnceLock::new();
        Forwarding {
            method,
            path: "/transfers",
            destination: Some(PAYEE.get_or_init(|| FspName::new("payeefsp").expect("a name"))),
            trace: TraceContext::new([0xab; 16]),
            span: 0x1234,
            now_ms: 784_887_151_000,
        }
    }

    fn signature(protected: &str) -> String {
        let protected = URL_SAFE_NO_PAD.encode(protected);
        format!(r#"{{"signature":"abc","protectedHeader":"{protected}"}}"#)
    }

    #[test]
    fn credentials_and_addresses_of_callers_end_at_the_hub() {
        let listed = PRIVATE.into_iter().chain(PRIVATE_X);
        let prefixes = PRIVATE_PREFIXES.into_iter().chain(PRIVATE_X_PREFIXES);
        let longer = prefixes.map(|prefix| format!("{prefix}-name"));
        let mut names: Vec<_> = listed.map(str::to_owned).chain(longer).collect();
        let spelled = "Authorization Proxy-Authorization COOKIE Via DPoP Authentication Remote-User \
                       X-Authorization X-Id-Token X-JWT-Assertion X-Goog-IAP-JWT-Assertion \
                       X-Amz-Security-Token X-Amzn-Oidc-Data X-Userinfo X-User X-Remote-Groups \
                       X-Consumer-Custom-ID X-Credential-Identifier X-CSRF-Token X-XSRF-Token \
                       X-Forwarded X-Forwarded-For X-Original-Forwarded-For X-Auth-Token \
                       X-SSL-Client-DN SSL-Client-Verify X_Forwarded-For";
        names.extend(spelled.split_whitespace().map(str::to_owned));
        let written = |with: &'static str| names.iter().map(|name| name.replace('-', with));
        let other_forms: Vec<_> = written("_").chain(written(".")).collect();
        for name in names.iter().chain(&other_forms) {
            let mut headers = HeaderMap::new();
            let header = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.append(&header, HeaderValue::from_static("secret"));
            headers.append(&header, HeaderValue::from_static("secret"));
            headers.append("x-request-id", HeaderValue::from_static("1"));
            headers.append(&FSPIOP_URI, HeaderValue::from_static("/transfers"));
            strip(&mut headers);
            assert_eq!(headers.len(), 2, "{name}: {headers:?}");
        }
    }

    #[test]
    fn names_that_resemble_private_ones_are_forwarded() {
        let names = "x x- x_ xuser x-use x-users x-request-id x_request_id x-remote x-consumer \
                     x-forward viaduct vi date remote-users cookies proxy proxyname dpop-nonce \
                     user-agent baggage content-digest signature";
        for name in names.split_whitespace() {
            let mut headers = HeaderMap::new();
            let header = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.append(header, HeaderValue::from_static("1"));
            strip(&mut headers);
            assert_eq!(headers.len(), 1, "{name}");
        }
    }

    #[test]
    fn a_signed_message_gets_a_destination_only_if_it_is_signed() {
        for (signature, added) in [
            (signature(r#"{"alg":"RS256","FSPIOP-URI":"/transfers"}"#), false),
            (signature(r#"{"alg":"RS256","FSPIOP-Destination":"payeefsp"}"#), true),
            (signature(r#"{"alg":"RS256","fspiop-destination":"payeefsp"}"#), true),
            (signature(r#"{"alg":"FSPIOP-Destination"}"#), false),
            (signature(r#"["FSPIOP-Destination"]"#), false),
            (signature("not JSON"), false),
            (r#"{"signature":"a","protectedHeader":"*"}"#.to_owned(), false),
            ("not JSON".to_owned(), false),
            (String::new(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(&FSPIOP_SIGNATURE, HeaderValue::from_str(&signature).expect("a value"));
            rewrite(&mut headers, &forwarding(&Method::POST));
            assert_eq!(headers.contains_key(&FSPIOP_DESTINATION), added, "{signature}");
        }
    }

    #[test]
    fn a_context_that_is_known_is_not_parsed_again() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let known = TraceContext::parse(parent.as_bytes()).expect("valid");
        let mut inbound = HeaderMap::new();
        inbound.insert(&TRACEPARENT, HeaderValue::from_static(parent));
        inbound.insert(&TRACESTATE, HeaderValue::from_static("a=b"));
        let (mut parsed, mut passed) = (inbound.clone(), inbound);
        rewrite(&mut parsed, &forwarding(&Method::PUT));
        rewrite(&mut passed, &Forwarding { trace: known, ..forwarding(&Method::PUT) });
        assert_eq!(passed, parsed);
        assert_eq!(passed[&TRACEPARENT], known.child(0x1234));
        assert_eq!(passed[&TRACESTATE], "a=b");
    }

    #[test]
    fn the_first_of_two_destinations_decides() {
        for (first, second, expected) in [("", "b", "payeefsp"), ("a", "", "a")] {
            let mut headers = HeaderMap::new();
            headers.append(&FSPIOP_DESTINATION, HeaderValue::from_static(first));
            headers.append(&FSPIOP_DESTINATION, HeaderValue::from_static(second));
            rewrite(&mut headers, &forwarding(&Method::POST));
            assert_eq!(headers[&FSPIOP_DESTINATION], expected, "{first:?} {second:?}");
        }
    }

    #[test]
    fn names_become_header_values() {
        for (name, value) in [("payer fsp", "payer fsp"), ("a\r\nb", "a??b"), ("é", "é")] {
            let name = FspName::new(name).expect("a name");
            assert_eq!(name_value(&name).as_bytes(), value.as_bytes());
        }
    }
}
