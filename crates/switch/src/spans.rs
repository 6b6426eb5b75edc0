//! Writes the spans of one I/O thread ([`traces`]): requests, stages of a command, and calls.
//!
//! Without export, each step costs one branch. A failure produces its span although its payment is
//! not sampled, up to [`FAILURES_MAX`] a second.

use std::cell::Cell;
use std::rc::Rc;

use fspiop::egress_policy::CallTarget;
use fspiop::route_table::Operation;
use fspiop::{Refusal, Resource, Route, TraceContext};
use http::StatusCode;
use ledger::{
    Command, ErrorOutcome, FspName, Notice, NoticeKind, Outcome, ParticipantIndex, ResponseEnd,
    TraceId, TransferId, TransferMessage,
};
use node::BatchTimes;
use node::latency_trace::{self, monotonic_ns};
use traces::{Peer, SpanError, SpanIds, SpanQueue, SpanRecord, SpanStep, SpanSubject};

use crate::failure::SendError;
use crate::inbound::{Envelope, RequestSpan};
use crate::outcome_errors::error_code;

/// States of a transfer, by their names in the API.
const RESERVED: &str = "RESERVED";
const COMMITTED: &str = "COMMITTED";
const ABORTED: &str = "ABORTED";

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
    /// The transfer or quote, once known.
    pub(crate) subject: Option<SpanSubject>,
}

/// The decision about a command, and its stages.
#[derive(Debug)]
pub(crate) struct DecisionFacts {
    transfer: Option<TransferId>,
    /// Payer and payee, if the command names them.
    parties: Option<(FspName, FspName)>,
    submitted_ns: u64,
    outcome: Option<Outcome>,
    batch: Option<BatchTimes>,
}

/// The span of a call that has not ended.
#[derive(Debug)]
pub(crate) struct CallSpan {
    record: SpanRecord,
    is_sampled: bool,
    /// Whether the message itself reports a failure.
    pub(crate) reports_failure: bool,
    /// Whether the called participant is the payer's, rather than the payee's, if that is known.
    is_to_payer: Option<bool>,
    to: (ParticipantIndex, Option<Rc<CallTarget>>),
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
                subject: None,
            })
        })
    }

    /// The facts about a request whose headers were refused. It begins a trace.
    pub(crate) fn facts_of_refused(&self, trace: TraceId, span: u64) -> Box<RequestFacts> {
        let ids = SpanIds { trace, span, parent: 0 };
        Box::new(RequestFacts {
            ids,
            is_sampled: false,
            source: None,
            destination: None,
            subject: None,
        })
    }

    /// Writes the span of a request that is answered now.
    pub(crate) fn request(
        &self,
        (facts, decision): (&RequestFacts, Option<&DecisionFacts>),
        (operation, arrived_ns): (Option<Operation>, u64),
        result: Result<StatusCode, &Refusal>,
    ) {
        let refusal = result.err();
        let outcome = decision.and_then(|decision| decision.outcome);
        let has_failed = refusal.is_some() || outcome.is_some_and(is_failure);
        if !self.may_write(facts.is_sampled, has_failed) {
            return;
        }
        let times = (arrived_ns, monotonic_ns());
        let mut span = SpanRecord::new(facts.ids, SpanStep::Request(operation), times);
        let status = result.unwrap_or_else(|refusal| refusal.status);
        span.status = Some(status.as_u16());
        span.error = refusal.map(|refusal| SpanError::Code(refusal.code.number()));
        span.error = span.error.or_else(|| outcome.and_then(error_of));
        (span.payer, span.payee) = roles(operation, (facts.source, facts.destination));
        span.subject = facts.subject;
        if let Some(decision) = decision {
            decision.complete(&mut span);
        }
        self.push(span);
    }

    /// Writes the spans of the stages of a sampled command.
    pub(crate) fn stages(
        &self,
        facts: &RequestFacts,
        decision: &DecisionFacts,
        unique: impl Fn() -> u64,
    ) {
        let Some(batch) = decision.batch.filter(|_| facts.is_sampled) else { return };
        let taken_ns = batch.taken_ns.max(decision.submitted_ns);
        let durable_ns = batch.durable_ns.clamp(taken_ns, batch.decided_ns.max(taken_ns));
        let decided_ns = batch.decided_ns.max(durable_ns);
        for (step, from, to) in [
            (SpanStep::InboxWait, decision.submitted_ns, taken_ns),
            (SpanStep::Append, taken_ns, durable_ns),
            (SpanStep::Decide, durable_ns, decided_ns),
        ] {
            let ids = SpanIds { span: unique(), parent: facts.ids.span, ..facts.ids };
            let mut span = SpanRecord::new(ids, step, (from, to));
            if step == SpanStep::Decide {
                decision.complete(&mut span);
            }
            self.push(span);
        }
    }

    /// Writes the span of a call that has ended now. `name` is that of the called participant.
    pub(crate) fn call(
        &self,
        call: CallSpan,
        name: Option<FspName>,
        result: Result<StatusCode, &SendError>,
    ) {
        let error = call_error(result);
        if !self.may_write(call.is_sampled, call.reports_failure || error.is_some()) {
            return;
        }
        let CallSpan { mut record, to: (_, target), is_to_payer, .. } = call;
        record.end_ns = monotonic_ns();
        record.status = result.ok().map(|status| status.as_u16());
        record.error = error;
        match is_to_payer {
            Some(true) => record.payer = name,
            Some(false) => record.payee = name,
            None => {}
        }
        record.peer = name
            .zip(target)
            .map(|(name, target)| Peer { name, authority: target.authority.as_str().into() });
        self.push(record);
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

impl DecisionFacts {
    /// Of a command that is submitted now.
    pub(crate) fn of(command: &Command) -> Box<Self> {
        let transfer = latency_trace::inbound_of(command).map(|(transfer, _)| transfer);
        let parties = match command.message() {
            Some(TransferMessage::Prepare(prepare)) => Some((prepare.payer, prepare.payee)),
            Some(TransferMessage::Fulfil(_) | TransferMessage::Abort(_)) | None => None,
        };
        let submitted_ns = monotonic_ns();
        Box::new(Self { transfer, parties, submitted_ns, outcome: None, batch: None })
    }

    /// Adds the decision.
    pub(crate) fn decided(&mut self, outcome: Option<Outcome>, batch: Option<&BatchTimes>) {
        self.outcome = outcome;
        self.batch = batch.copied();
    }

    /// Adds transfer, parties and state to a span.
    fn complete(&self, span: &mut SpanRecord) {
        span.subject = self.transfer.map(SpanSubject::Transfer).or(span.subject);
        if let Some((payer, payee)) = self.parties {
            (span.payer, span.payee) = (Some(payer), Some(payee));
        }
        span.state = self.outcome.and_then(state_after);
    }
}

impl CallSpan {
    /// Of a forwarded message, or of a message of the hub that is not a notice; it begins now.
    pub(crate) fn new(
        (ids, is_sampled): (SpanIds, bool),
        (step, subject): (SpanStep, Option<SpanSubject>),
        to: (ParticipantIndex, Option<Rc<CallTarget>>),
    ) -> Self {
        let record = SpanRecord { subject, ..SpanRecord::new(ids, step, (monotonic_ns(), 0)) };
        Self { record, is_sampled, reports_failure: false, is_to_payer: None, to }
    }

    /// Of the attempt with this number, from 1, to deliver a notice; it begins now.
    pub(crate) fn of_notice(
        sampled: (SpanIds, bool),
        notice: &Notice,
        number: u32,
        to: (ParticipantIndex, Option<Rc<CallTarget>>),
    ) -> Self {
        let (operation, state, is_to_payer) = about_notice(notice.kind);
        let subject = notice.transfer.map(SpanSubject::Transfer);
        let mut span = Self::new(sampled, (SpanStep::Notify(operation), subject), to);
        span.record.state = state;
        span.record.resends = number.saturating_sub(1);
        span.is_to_payer = is_to_payer;
        span.reports_failure = state == Some(ABORTED) || notice.kind == NoticeKind::Error;
        span
    }

    /// The called participant.
    pub(crate) fn participant(&self) -> ParticipantIndex {
        self.to.0
    }
}

/// The operation of a notice, the state that it reports, and whether it goes to the payer.
fn about_notice(kind: NoticeKind) -> (Operation, Option<&'static str>, Option<bool>) {
    use Operation::{
        BulkTransfersError, BulkTransfersPost, BulkTransfersPut, ParticipantsPut, TransfersError,
        TransfersPatch, TransfersPost, TransfersPut,
    };
    match kind {
        NoticeKind::Prepare => (TransfersPost, Some(RESERVED), Some(false)),
        NoticeKind::Fulfil => (TransfersPut, Some(COMMITTED), Some(true)),
        // To the sender of a resent message, too.
        NoticeKind::Committed => (TransfersPut, Some(COMMITTED), None),
        NoticeKind::Reserved => (TransfersPut, Some(RESERVED), Some(true)),
        NoticeKind::AbortedState => (TransfersPut, Some(ABORTED), None),
        NoticeKind::Abort => (TransfersError, Some(ABORTED), Some(true)),
        NoticeKind::FulfilCopy => (TransfersPut, Some(COMMITTED), Some(false)),
        NoticeKind::AbortCopy => (TransfersError, Some(ABORTED), Some(false)),
        NoticeKind::PatchCommitted => (TransfersPatch, Some(COMMITTED), Some(false)),
        NoticeKind::PatchAborted => (TransfersPatch, Some(ABORTED), Some(false)),
        // To the sender of a refused message, or to both sides of an expired transfer.
        NoticeKind::Error => (TransfersError, None, None),
        NoticeKind::PartiesChanged => (ParticipantsPut, None, None),
        NoticeKind::BulkPrepare => (BulkTransfersPost, None, Some(false)),
        NoticeKind::BulkResult => (BulkTransfersPut, None, None),
        NoticeKind::BulkError => (BulkTransfersError, None, None),
    }
}

/// Whether a payment ended or was refused by this outcome of a command.
fn is_failure(outcome: Outcome) -> bool {
    state_after(outcome) == Some(ABORTED) || error_of(outcome).is_some()
}

/// The error of a refused command.
fn error_of(outcome: Outcome) -> Option<SpanError> {
    ErrorOutcome::of(outcome).map(|outcome| SpanError::Code(error_code(outcome)))
}

/// The state of a transfer after a command with this outcome, if the command set it.
fn state_after(outcome: Outcome) -> Option<&'static str> {
    use ResponseEnd::*;
    if outcome == Outcome::PrepareReserved {
        return Some(RESERVED);
    }
    Some(match ResponseEnd::of(outcome)? {
        Committed => COMMITTED,
        Aborted
        | AbortedWithUnknownCode
        | AbortedByPut
        | FulfilmentInvalid
        | ResponseNotToPayer => ABORTED,
    })
}

/// The failure of a call.
fn call_error(result: Result<StatusCode, &SendError>) -> Option<SpanError> {
    Some(match result {
        Ok(status) if status.is_success() => return None,
        Ok(status) => SpanError::Status(status.as_u16()),
        Err(error) => SpanError::Call(error.as_str()),
    })
}

/// The transfer or quote that the path of a request names.
pub(crate) fn subject_of(route: &Route<'_>) -> Option<SpanSubject> {
    match route {
        Route::TransfersGet(path)
        | Route::TransfersPut(path)
        | Route::TransfersError(path)
        | Route::BulkTransfersGet(path)
        | Route::BulkTransfersPut(path)
        | Route::BulkTransfersError(path) => path.id.map(SpanSubject::Transfer),
        Route::Exchange(route) if route.resource == Resource::Quotes => {
            route.id.as_ref().and_then(|id| id.id).map(SpanSubject::Quote)
        }
        _ => None,
    }
}

/// The payer and the payee among source and destination of a request.
fn roles(
    operation: Option<Operation>,
    (source, destination): (Option<FspName>, Option<FspName>),
) -> (Option<FspName>, Option<FspName>) {
    match operation {
        Some(
            Operation::PartiesGet
            | Operation::QuotesPost
            | Operation::BulkQuotesPost
            | Operation::TransactionRequestsPut
            | Operation::TransactionRequestsError
            | Operation::AuthorizationsGet
            | Operation::TransfersPost
            | Operation::BulkTransfersPost,
        ) => (source, destination),
        Some(
            Operation::PartiesPut
            | Operation::PartiesError
            | Operation::QuotesPut
            | Operation::QuotesError
            | Operation::BulkQuotesPut
            | Operation::BulkQuotesError
            | Operation::TransactionRequestsPost
            | Operation::AuthorizationsPut
            | Operation::AuthorizationsError
            | Operation::TransfersPut
            | Operation::TransfersError
            | Operation::BulkTransfersPut
            | Operation::BulkTransfersError,
        ) => (destination, source),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use fspiop::ErrorCode;
    use traces::{SampledFlag, Sampling};

    use super::*;

    #[test]
    fn failures_of_unsampled_payments_are_bounded() {
        const REFUSED: usize = 1_000;
        let (queue, waiting) = traces::queue(Sampling::new(0.0, SampledFlag::Ratio));
        let spans = SpanWriter::new(Some(queue.clone()));
        let facts = spans.facts_of_refused([1; 16], 2);
        let refusal = Refusal::new(ErrorCode::VALIDATION, "text");
        let about = (Some(Operation::TransfersPost), monotonic_ns());
        for _ in 0..REFUSED {
            spans.request((&facts, None), about, Err(&refusal));
            // An accepted request of the same payment has no span.
            spans.request((&facts, None), about, Ok(StatusCode::ACCEPTED));
        }
        let written = waiting.take(usize::MAX).len();
        let limit = FAILURES_MAX as usize;
        // The loop may run at the end of one second and the beginning of the next.
        assert!((limit..=2 * limit).contains(&written), "{written}");
        assert_eq!(queue.counts().dropped, (REFUSED - written) as u64);
    }
}
