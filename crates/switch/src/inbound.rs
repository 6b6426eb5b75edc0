//! A received message that has passed the checks of its headers.

use bytes::Bytes;
use fspiop::TraceContext;
use fspiop::headers::TRACESTATE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::message::ForwardedMessage;
use crate::trace::RequestTrace;

/// Header values that are still needed after the headers are rewritten.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// `FSPIOP-Source`.
    pub source: ledger::FspName,
    /// `FSPIOP-Destination`.
    pub destination: Option<ledger::FspName>,
    /// Version of the `Content-Type`.
    pub version: fspiop::Version,
    /// The trace the message belongs to: its own, or one opened for it.
    pub trace: TraceContext,
    /// Whether a proxy acts for the source.
    pub through_proxy: bool,
}

/// An accepted message without its route, which borrows from the path.
pub(crate) struct Inbound {
    pub(crate) envelope: Envelope,
    pub(crate) method: Method,
    /// Path and query as received.
    pub(crate) uri: http::Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) span: RequestSpan,
    pub(crate) stages: RequestTrace,
}

/// The hub's span of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestSpan {
    pub(crate) id: u64,
    pub(crate) is_sampled: bool,
}

/// A message as it is recorded.
pub(crate) struct RecordedMessage {
    pub(crate) message: ForwardedMessage,
    pub(crate) stages: RequestTrace,
}

/// The trace of a message of the hub: that of the message it answers, with the span of that
/// message as the parent.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) context: TraceContext,
    pub(crate) state: Option<HeaderValue>,
}

impl Inbound {
    /// A copy for one more recipient.
    pub(crate) fn copy(&self) -> Self {
        Self {
            envelope: self.envelope,
            method: self.method.clone(),
            uri: self.uri.clone(),
            headers: self.headers.clone(),
            body: self.body.clone(),
            span: self.span,
            stages: RequestTrace::default(),
        }
    }

    /// The status of a request that was accepted: 200 of `PUT`, 202 of others.
    pub(crate) fn accepted(&self) -> StatusCode {
        if self.method == Method::PUT { StatusCode::OK } else { StatusCode::ACCEPTED }
    }
}

impl Trace {
    /// The trace of a received message. A `tracestate` without a valid parent is ignored.
    pub(crate) fn of(inbound: &Inbound) -> Self {
        let has_parent = inbound.envelope.trace.has_parent();
        let state = has_parent.then(|| inbound.headers.get(&TRACESTATE).cloned()).flatten();
        let context = TraceContext { span_id: inbound.span.id, ..inbound.envelope.trace };
        Self { context, state }
    }
}
