//! Converts span records to the data of the OpenTelemetry SDK, with the names of its semantic
//! conventions. Attributes of the hub's own begin with `mojaloop.`.

use std::time::{Duration, SystemTime};

use ledger::FspName;
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::record::{Peer, SpanError, SpanRecord, SpanStep, SpanSubject};

/// The monotonic clock and the wall clock at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockPair {
    pub(crate) monotonic_ns: u64,
    pub(crate) wall: SystemTime,
}

impl ClockPair {
    /// The wall time of a moment on the monotonic clock.
    fn wall_of(self, at_ns: u64) -> SystemTime {
        match self.monotonic_ns.checked_sub(at_ns) {
            Some(ago) => self.wall - Duration::from_nanos(ago),
            None => self.wall + Duration::from_nanos(at_ns - self.monotonic_ns),
        }
    }
}

/// The span as the exporter takes it.
pub(crate) fn span_data(
    record: SpanRecord,
    clocks: ClockPair,
    scope: &InstrumentationScope,
) -> SpanData {
    let ids = record.ids;
    let is_request = matches!(record.step, SpanStep::Request(_));
    SpanData {
        span_context: SpanContext::new(
            TraceId::from_bytes(ids.trace),
            SpanId::from_bytes(ids.span.to_be_bytes()),
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        ),
        parent_span_id: SpanId::from_bytes(ids.parent.to_be_bytes()),
        parent_span_is_remote: is_request && ids.parent != 0,
        span_kind: kind(record.step),
        name: record.step.name().into(),
        start_time: clocks.wall_of(record.start_ns),
        end_time: clocks.wall_of(record.end_ns),
        status: status(&record),
        attributes: attributes(record),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        instrumentation_scope: scope.clone(),
    }
}

const fn kind(step: SpanStep) -> SpanKind {
    match step {
        SpanStep::Request(_) => SpanKind::Server,
        SpanStep::InboxWait | SpanStep::Append | SpanStep::Decide => SpanKind::Internal,
        SpanStep::Notify(_) | SpanStep::Forward(_) => SpanKind::Client,
    }
}

/// A request failed only if the hub could not serve it: a refusal is the client's error, or a
/// result of business.
fn status(record: &SpanRecord) -> Status {
    let is_request = matches!(record.step, SpanStep::Request(_));
    let is_fault = record.status.is_some_and(|status| 500 <= status);
    match record.error {
        Some(_) if !is_request || is_fault => Status::error(""),
        _ => Status::Unset,
    }
}

fn attributes(record: SpanRecord) -> Vec<KeyValue> {
    let SpanRecord { step, status, error, subject, payer, payee, state, peer, resends, .. } =
        record;
    let mut all = Vec::with_capacity(12);
    if let Some(operation) = step.operation() {
        let (method, path) = operation.method_and_path();
        let name = if matches!(step, SpanStep::Request(_)) { "http.route" } else { "url.template" };
        all.push(KeyValue::new("http.request.method", method));
        all.push(KeyValue::new(name, path));
    }
    if let Some(status) = status {
        all.push(KeyValue::new("http.response.status_code", i64::from(status)));
    }
    if let Some(error) = error {
        all.push(KeyValue::new("error.type", error_type(error)));
    }
    if let Some(peer) = peer {
        add_peer(&mut all, &peer);
    }
    if resends != 0 {
        all.push(KeyValue::new("http.request.resend_count", i64::from(resends)));
    }
    all.extend(subject.map(|subject| match subject {
        SpanSubject::Transfer(id) => KeyValue::new("mojaloop.transfer_id", id.to_string()),
        SpanSubject::Quote(id) => KeyValue::new("mojaloop.quote_id", id.to_string()),
    }));
    for (name, fsp) in [("mojaloop.payer_fsp", payer), ("mojaloop.payee_fsp", payee)] {
        all.extend(fsp.map(|fsp: FspName| KeyValue::new(name, fsp.to_string())));
    }
    all.extend(state.map(|state| KeyValue::new("mojaloop.state", state)));
    all
}

fn add_peer(all: &mut Vec<KeyValue>, peer: &Peer) {
    let (host, port) = match peer.authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, port.parse::<i64>().ok())
        }
        _ => (&*peer.authority, None),
    };
    all.push(KeyValue::new("server.address", host.trim_matches(['[', ']']).to_owned()));
    all.extend(port.map(|port| KeyValue::new("server.port", port)));
    all.push(KeyValue::new("peer.service", peer.name.to_string()));
}

fn error_type(error: SpanError) -> String {
    match error {
        SpanError::Code(code) => format!("{code:04}"),
        SpanError::Status(status) => status.to_string(),
        SpanError::Call(what) => what.to_owned(),
    }
}
