//! The operators' console: files below `/console/` that are part of the program.
//!
//! They are the same for every client and contain no data of the scheme, so a request needs no
//! token. The page itself reads the admin API, like any client. `console/` at the top of the
//! repository has the sources; `cargo xtask console` builds them.
//!
//! Phases: the path selects the file, `Accept-Encoding` its form, `If-None-Match` whether the body
//! is sent. Cost: some comparisons; a body is a reference to the program's own bytes.

use std::sync::LazyLock;

use bytes::Bytes;
use fspiop::Refusal;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::{Either, Full};

use crate::auth;
use crate::response::{AdminResponse, ResponseBody};

/// The address of the console.
const HOME: &str = "/console/";
/// Requests, scripts and styles of this address only; nothing inline; no frames, forms or plug-ins.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'";
/// Headers of every file.
const HEADERS: [(HeaderName, &str); 8] = [
    // A browser asks each time whether its copy is current.
    (CACHE_CONTROL, "no-cache"),
    (CONTENT_SECURITY_POLICY, POLICY),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (REFERRER_POLICY, "no-referrer"),
    (VARY, "accept-encoding"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
];
/// Bytes of a digest in an entity tag.
const TAG_BYTES: usize = 16;

/// A file of the console.
struct ConsoleFile {
    /// Its path below [`HOME`]; empty for the page.
    path: &'static str,
    media_type: &'static str,
    plain: StoredForm,
    gzip: StoredForm,
}

/// One form of a file, with its entity tag.
struct StoredForm {
    bytes: &'static [u8],
    tag: LazyLock<String>,
}

macro_rules! stored_form {
    ($name:expr) => {{
        static BYTES: &[u8] = include_bytes!(concat!("../../../console/dist/", $name));
        StoredForm { bytes: BYTES, tag: LazyLock::new(|| entity_tag(BYTES)) }
    }};
}

macro_rules! console_files {
    ($($path:literal $name:literal: $media_type:literal),* $(,)?) => {
        [$(ConsoleFile {
            path: $path,
            media_type: $media_type,
            plain: stored_form!($name),
            gzip: stored_form!(concat!($name, ".gz")),
        }),*]
    };
}

static FILES: [ConsoleFile; 5] = console_files![
    "" "index.html": "text/html; charset=utf-8",
    "console.js" "console.js": "text/javascript; charset=utf-8",
    "style.css" "style.css": "text/css; charset=utf-8",
    "icon.svg" "icon.svg": "image/svg+xml",
    "licences.txt" "licences.txt": "text/plain; charset=utf-8",
];

/// A strong entity tag: equal bytes, equal tag.
fn entity_tag(bytes: &[u8]) -> String {
    let digest = blake3::hash(bytes);
    let digest = digest.as_bytes()[..TAG_BYTES].iter().map(|byte| format!("{byte:02x}"));
    format!("\"{}\"", digest.collect::<String>())
}

/// Whether a path belongs to the console. `/` leads to it.
pub(crate) fn has(path: &str) -> bool {
    path == "/" || path == HOME.trim_end_matches('/') || path.starts_with(HOME)
}

/// Answers a request whose path [`has`] accepts.
pub(crate) fn respond(head: &Parts) -> Response<ResponseBody> {
    if !auth::is_reading(&head.method) {
        let response = AdminResponse::refusal(&Refusal::method_not_allowed());
        return response.into_response(Some("GET, HEAD".to_owned()));
    }
    let Some(path) = head.uri.path().strip_prefix(HOME) else { return redirect() };
    let Some(file) = FILES.iter().find(|file| file.path == path) else {
        return AdminResponse::refusal(&Refusal::unknown_uri()).into_response(None);
    };
    let is_compressed = accepts_gzip(&head.headers);
    let form = if is_compressed { &file.gzip } else { &file.plain };
    let is_known = has_tag(&head.headers, &form.tag);
    let body = if is_known { Bytes::new() } else { Bytes::from_static(form.bytes) };
    let mut response = Response::new(Either::Left(Full::new(body)));
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let tag = HeaderValue::try_from(&**form.tag).expect("an entity tag is visible ASCII");
    headers.insert(ETAG, tag);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.media_type));
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn redirect() -> Response<ResponseBody> {
    let mut response = AdminResponse::empty(StatusCode::FOUND).into_response(None);
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(HOME));
    response
}

/// Whether the client lists gzip, and not with the weight 0.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut codings = values.flat_map(|value| value.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let is_zero = |weight: &str| weight.bytes().all(|byte| matches!(byte, b'0' | b'.'));
        is_gzip && !parts.filter_map(|part| part.strip_prefix("q=")).any(is_zero)
    })
}

/// Whether the client has the form with this tag.
fn has_tag(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}
