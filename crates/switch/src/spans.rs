//! Writes the spans of one I/O thread ([`traces`]): requests, stages of a command, and calls.
//!
//! Without export, each step costs one branch. A failure produces its span although its payment is
//! not sampled, up to [`FAILURES_MAX`] a second.

use std::cell::Cell;

use fspiop::route_table::Operation;
use fspiop::{Refusal, TraceContext};
use http::StatusCode;
use ledger::{FspName, TraceId};
use node::latency_trace::monotonic_ns;
use traces::{SpanError, SpanIds, SpanQueue, SpanRecord, SpanStep};

use crate::inbound::{Envelope, RequestSpan};

/// Spans of failures of unsampled payments, per second and thread. More are dropped and counted.
const FAILURES_MAX: u32 = 100;
const SECOND_NS: u64 = 1_000_000_000;

/// Writes the spans of a thread; nothing without a queue.
#[derive(Debug, Default)]
pub(crate) struct SpanWriter {
    queue: Option<SpanQueue>,
    /// A second of the monotonic clock, and the failures in it.
    failures: Cell<(u64, u32)>,
}

/// The content of a request's span, gathered while the request is served.
#[derive(Debug)]
pub(crate) struct RequestFacts {
    ids: SpanIds,
    is_sampled: bool,
    source: Option<FspName>,
    destination: Option<FspName>,
}

impl SpanWriter {
    pub(crate) fn new(queue: Option<SpanQueue>) -> Self {
        Self { queue, failures: Cell::default() }
    }

    /// Whether spans are exported.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether the spans of a message with this context are exported.
    #[inline]
    pub(crate) fn samples(&self, context: &TraceContext) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.sampling().continues(context))
    }

    /// A new trace. If spans are exported, its flag states whether it is sampled.
    pub(crate) fn new_trace(&self, id: TraceId) -> TraceContext {
        let is_sampled = self.queue.as_ref().is_none_or(|queue| queue.sampling().begins(&id));
        TraceContext { flags: u8::from(is_sampled), ..TraceContext::new(id) }
    }

    /// The facts about a request with these headers; `None` if spans are not exported.
    #[inline]
    pub(crate) fn facts(
        &self,
        envelope: &Envelope,
        span: RequestSpan,
    ) -> Option<Box<RequestFacts>> {
        self.is_on().then(|| {
            let TraceContext { trace_id: trace, span_id: parent, .. } = envelope.trace;
            Box::new(RequestFacts {
                ids: SpanIds { trace, span: span.id, parent },
                is_sampled: span.is_sampled,
                source: Some(envelope.source),
                destination: envelope.destination,
            })
        })
    }

    /// The facts about a request whose headers were refused. It begins a trace.
    pub(crate) fn facts_of_refused(&self, trace: TraceId, span: u64) -> Box<RequestFacts> {
        let ids = SpanIds { trace, span, parent: 0 };
        Box::new(RequestFacts { ids, is_sampled: false, source: None, destination: None })
    }

    /// Writes the span of a request that is answered now.
    pub(crate) fn request(
        &self,
        facts: &RequestFacts,
        (operation, arrived_ns): (Option<Operation>, u64),
        result: Result<StatusCode, &Refusal>,
    ) {
        let refusal = result.err();
        if !self.may_write(facts.is_sampled, refusal.is_some()) {
            return;
        }
        let times = (arrived_ns, monotonic_ns());
        let mut span = SpanRecord::new(facts.ids, SpanStep::Request(operation), times);
        let status = result.unwrap_or_else(|refusal| refusal.status);
        span.status = Some(status.as_u16());
        span.error = refusal.map(|refusal| SpanError::Code(refusal.code.number()));
        (span.payer, span.payee) = roles(operation, (facts.source, facts.destination));
        self.push(span);
    }

    /// Whether a span is written: that of a sampled payment, or of a failure.
    fn may_write(&self, is_sampled: bool, has_failed: bool) -> bool {
        is_sampled || (has_failed && self.takes_failure())
    }

    /// Whether the span of a failure has a place in this second.
    fn takes_failure(&self) -> bool {
        let second = monotonic_ns() / SECOND_NS;
        let (last, count) = self.failures.get();
        let count = if last == second { count } else { 0 };
        if count == FAILURES_MAX {
            self.queue.iter().for_each(|queue| queue.count_dropped(1));
            return false;
        }
        self.failures.set((second, count + 1));
        true
    }

    fn push(&self, span: SpanRecord) {
        if let Some(queue) = &self.queue {
            queue.push(span);
        }
    }
}

/// The payer and the payee among source and destination of a request.
fn roles(
    operation: Option<Operation>,
    (source, destination): (Option<FspName>, Option<FspName>),
) -> (Option<FspName>, Option<FspName>) {
    match operation {
        Some(Operation::PartiesGet | Operation::QuotesPost | Operation::TransfersPost) => {
            (source, destination)
        }
        Some(
            Operation::PartiesPut
            | Operation::PartiesError
            | Operation::QuotesPut
            | Operation::QuotesError
            | Operation::TransfersPut
            | Operation::TransfersError,
        ) => (destination, source),
        _ => (None, None),
    }
}
