//! Responses: a status, and a body of JSON, of text, or none.

use bytes::Bytes;
use fspiop::Refusal;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, LOCATION,
    RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{Response, StatusCode};
use http_body_util::{Either, Full};
use serde::Serialize;

use crate::event_stream::EventStream;
use crate::status_stream::StatusStream;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const PAGE: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
/// Content security policy of responses: nothing is allowed. The page has inline style, no script.
const POLICY_TEXT: &str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'";
const POLICY: HeaderValue = HeaderValue::from_static(POLICY_TEXT);
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
);

/// Headers of the response to a request that is not HTTP, which is written elsewhere.
pub(crate) const BARE_HEADERS: [(&str, &str); 4] = [
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("content-security-policy", POLICY_TEXT),
];

/// A response to the client.
#[derive(Debug)]
pub(crate) struct AdminResponse {
    status: StatusCode,
    body: Option<(HeaderValue, Bytes)>,
    /// Path of a resource that the request created.
    location: Option<String>,
    /// Events that follow instead of a body.
    stream: Option<Events>,
}

/// The body of a response.
pub(crate) type ResponseBody = Either<Full<Bytes>, Events>;

/// Server-sent events: of the log, or the status.
pub(crate) type Events = Either<EventStream, StatusStream>;

impl AdminResponse {
    /// A status without a body.
    pub(crate) const fn empty(status: StatusCode) -> Self {
        Self { status, body: None, location: None, stream: None }
    }

    /// Its status.
    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// A body of JSON.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        let body = serde_json::to_vec(value).expect("a response is always writable");
        Self { status, body: Some((JSON, body.into())), location: None, stream: None }
    }

    /// The same with the path of a resource that the request created, of visible ASCII.
    pub(crate) fn with_location(self, path: String) -> Self {
        Self { location: Some(path), ..self }
    }

    /// 200 with a body of JSON.
    pub(crate) fn ok(value: &impl Serialize) -> Self {
        Self::json(StatusCode::OK, value)
    }

    /// 200 with metrics.
    pub(crate) fn metrics(content_type: &'static str, body: Vec<u8>) -> Self {
        let content_type = HeaderValue::from_static(content_type);
        Self::with_body(content_type, body.into())
    }

    /// 200 with a document that is JSON already.
    pub(crate) const fn document(text: Bytes) -> Self {
        Self::with_body(JSON, text)
    }

    /// 200 with a text of a media type.
    pub(crate) fn of_media(media_type: &'static str, text: Bytes) -> Self {
        let media_type = HeaderValue::from_static(media_type);
        Self::with_body(media_type, text)
    }

    /// 200 with events that follow.
    pub(crate) fn event_stream(stream: EventStream) -> Self {
        Self { stream: Some(Either::Left(stream)), ..Self::with_body(EVENTS, Bytes::new()) }
    }

    /// 200 with the status each second.
    pub(crate) fn status_stream(stream: StatusStream) -> Self {
        Self { stream: Some(Either::Right(stream)), ..Self::with_body(EVENTS, Bytes::new()) }
    }

    /// 200 with an HTML page.
    pub(crate) const fn page(text: Bytes) -> Self {
        Self::with_body(PAGE, text)
    }

    const fn with_body(content_type: HeaderValue, body: Bytes) -> Self {
        let body = Some((content_type, body));
        Self { status: StatusCode::OK, body, location: None, stream: None }
    }

    /// The error body of a refusal.
    pub(crate) fn refusal(refusal: &Refusal) -> Self {
        Self { status: refusal.status, ..Self::with_body(JSON, refusal.body()) }
    }

    /// The HTTP response; `allow` lists the methods of the resource, if it exists.
    pub(crate) fn into_response(self, allow: Option<String>) -> Response<ResponseBody> {
        let (content_type, body) = match self.body {
            None => (None, Bytes::new()),
            Some((content_type, body)) => (Some(content_type), body),
        };
        let body = self.stream.map_or_else(|| Either::Left(Full::new(body)), Either::Right);
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        let is_page = content_type.as_ref() == Some(&PAGE);
        headers.insert(CONTENT_SECURITY_POLICY, if is_page { PAGE_POLICY } else { POLICY });
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, content_type);
        }
        if let Some(path) = self.location {
            let path = HeaderValue::try_from(path).expect("a path of visible ASCII");
            headers.insert(LOCATION, path);
        }
        let come_again = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
        if come_again.contains(&self.status) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let (StatusCode::METHOD_NOT_ALLOWED, Some(allow)) = (self.status, allow) {
            let allow = HeaderValue::try_from(allow).expect("names of methods are visible ASCII");
            headers.insert(ALLOW, allow);
        }
        response
    }
}

/// Result of a handler.
pub(crate) type HandlerResult = Result<AdminResponse, Refusal>;
