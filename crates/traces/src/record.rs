//! The record of one span, as the I/O threads write it.

use fspiop::body::CorrelationId;
use fspiop::route_table::Operation;
use ledger::{FspName, TraceId, TransferId};

/// Trace, span and parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanIds {
    /// The trace.
    pub trace: TraceId,
    /// The span, not 0.
    pub span: u64,
    /// Its parent; 0 without one.
    pub parent: u64,
}

/// The work that a span describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanStep {
    /// A request from its arrival to the synchronous answer; `None` if its path is unknown.
    Request(Option<Operation>),
    /// A command between its submission and the start of its batch.
    InboxWait,
    /// The batch of a command: writing it to the log, and the sync.
    Append,
    /// The batch of a command: deciding it.
    Decide,
    /// One attempt to deliver a notice.
    Notify(Operation),
    /// A forwarded look-up or quote, or an answer of the hub to one.
    Forward(Operation),
}

/// Why a span counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanError {
    /// An FSPIOP error code of the hub.
    Code(u16),
    /// The status of a participant's answer.
    Status(u16),
    /// A call without an answer.
    Call(&'static str),
}

/// The object that a span is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanSubject {
    /// A transfer.
    Transfer(TransferId),
    /// A quote.
    Quote(CorrelationId),
}

/// The called participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: FspName,
    /// `host:port`.
    pub authority: Box<str>,
}

/// A finished span. It has neither party identifiers nor amounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanRecord {
    /// Trace, span and parent.
    pub ids: SpanIds,
    /// The work.
    pub step: SpanStep,
    /// Start, nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// End, not before the start.
    pub end_ns: u64,
    /// Status of the HTTP answer, if there was one.
    pub status: Option<u16>,
    /// The failure, if it failed.
    pub error: Option<SpanError>,
    /// The transfer or quote that it is about, if known.
    pub subject: Option<SpanSubject>,
    /// The payer's FSP, if known.
    pub payer: Option<FspName>,
    /// The payee's FSP, if known.
    pub payee: Option<FspName>,
    /// State of the transfer after the step, if known.
    pub state: Option<&'static str>,
    /// The called participant.
    pub peer: Option<Peer>,
    /// Earlier attempts of the same call.
    pub resends: u32,
}

impl SpanRecord {
    /// A span without facts beyond its times.
    #[must_use]
    pub const fn new(ids: SpanIds, step: SpanStep, (start_ns, end_ns): (u64, u64)) -> Self {
        Self {
            ids,
            step,
            start_ns,
            end_ns,
            status: None,
            error: None,
            subject: None,
            payer: None,
            payee: None,
            state: None,
            peer: None,
            resends: 0,
        }
    }
}

impl SpanStep {
    /// The name of the span.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request(None) => "request",
            Self::Request(Some(operation)) => names(operation).0,
            Self::InboxWait => "inbox wait",
            Self::Append => "append",
            Self::Decide => "decide",
            Self::Notify(operation) => names(operation).1,
            Self::Forward(operation) => names(operation).2,
        }
    }

    /// The operation of the HTTP exchange; `None` for work inside the hub.
    #[must_use]
    pub const fn operation(self) -> Option<Operation> {
        match self {
            Self::Request(operation) => operation,
            Self::Notify(operation) | Self::Forward(operation) => Some(operation),
            Self::InboxWait | Self::Append | Self::Decide => None,
        }
    }
}

/// The business step of an operation: as a request, as a notice, and as a forwarded message.
const fn names(operation: Operation) -> (&'static str, &'static str, &'static str) {
    macro_rules! step {
        ($name:literal) => {
            ($name, concat!("notify ", $name), concat!("forward ", $name))
        };
    }
    match operation {
        Operation::Health => step!("health"),
        Operation::EndpointCache => step!("endpoint cache"),
        Operation::ParticipantsBatch | Operation::ParticipantsPost => step!("register"),
        Operation::ParticipantsGet => step!("find participant"),
        Operation::ParticipantsBatchPut | Operation::ParticipantsPut => step!("registered"),
        Operation::ParticipantsDelete => step!("unregister"),
        Operation::ParticipantsBatchError | Operation::ParticipantsError => {
            step!("registration error")
        }
        Operation::PartiesGet => step!("party"),
        Operation::PartiesPut => step!("party answer"),
        Operation::PartiesError => step!("party error"),
        Operation::QuotesPost => step!("quote"),
        Operation::QuotesGet => step!("find quote"),
        Operation::QuotesPut => step!("quote answer"),
        Operation::QuotesError => step!("quote error"),
        Operation::BulkQuotesPost => step!("bulk quote"),
        Operation::BulkQuotesGet => step!("find bulk quote"),
        Operation::BulkQuotesPut => step!("bulk quote answer"),
        Operation::BulkQuotesError => step!("bulk quote error"),
        Operation::TransactionRequestsPost => step!("request to pay"),
        Operation::TransactionRequestsGet => step!("find request to pay"),
        Operation::TransactionRequestsPut => step!("request to pay answer"),
        Operation::TransactionRequestsError => step!("request to pay error"),
        Operation::AuthorizationsGet => step!("authorize"),
        Operation::AuthorizationsPut => step!("authorization"),
        Operation::AuthorizationsError => step!("authorization error"),
        Operation::TransactionsGet => step!("find transaction"),
        Operation::TransactionsPut => step!("transaction answer"),
        Operation::TransactionsError => step!("transaction error"),
        Operation::TransfersPost => step!("prepare"),
        Operation::TransfersGet => step!("find transfer"),
        Operation::TransfersPut => step!("fulfil"),
        Operation::TransfersError => step!("abort"),
        Operation::TransfersPatch => step!("confirm"),
        Operation::BulkTransfersPost => step!("bulk prepare"),
        Operation::BulkTransfersGet => step!("find bulk transfer"),
        Operation::BulkTransfersPut => step!("bulk fulfil"),
        Operation::BulkTransfersError => step!("bulk abort"),
        Operation::ServicesGet => step!("find services"),
    }
}
