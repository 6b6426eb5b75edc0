//! Names of steps, results and messages in events.

use ledger::{DeliveryResult, NoticeKind, TransferState};

use crate::event::{QuoteStep, TransferStep};

impl TransferStep {
    /// The last part of the event's type.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Refused => "refused",
            Self::Committed => "committed",
            Self::Aborted => "aborted",
            Self::Expired => "expired",
        }
    }

    /// The state as FSPIOP names it.
    pub(crate) const fn state(self) -> &'static str {
        match self {
            Self::Reserved => "RESERVED",
            Self::Committed => "COMMITTED",
            Self::Refused | Self::Aborted | Self::Expired => "ABORTED",
        }
    }
}

impl QuoteStep {
    /// The last part of the event's type.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Answered => "answered",
            Self::Failed => "failed",
        }
    }
}

/// The state of a movement of funds: the last part of the event's type, and as FSPIOP names it.
pub(crate) const fn of_state(state: TransferState) -> (&'static str, &'static str) {
    match state {
        TransferState::Reserved => ("reserved", "RESERVED"),
        TransferState::Committed => ("committed", "COMMITTED"),
        TransferState::Aborted => ("aborted", "ABORTED"),
    }
}

/// The result of a delivery: the last part of the event's type.
pub(crate) const fn of_result(result: DeliveryResult) -> &'static str {
    match result {
        DeliveryResult::Delivered => "delivered",
        DeliveryResult::Dead => "dead",
        DeliveryResult::Withdrawn => "withdrawn",
        DeliveryResult::GivenUp => "given-up",
    }
}

/// The request that a notice becomes, such as `PUT /transfers/{id}`.
#[must_use]
pub const fn message_of(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Prepare => "POST /transfers",
        NoticeKind::Fulfil
        | NoticeKind::FulfilCopy
        | NoticeKind::Committed
        | NoticeKind::Reserved
        | NoticeKind::AbortedState => "PUT /transfers/{id}",
        NoticeKind::Abort | NoticeKind::AbortCopy | NoticeKind::Error => {
            "PUT /transfers/{id}/error"
        }
        NoticeKind::PatchCommitted | NoticeKind::PatchAborted => "PATCH /transfers/{id}",
        NoticeKind::PartiesChanged => "PUT /participants",
        NoticeKind::BulkPrepare => "POST /bulkTransfers",
        NoticeKind::BulkResult => "PUT /bulkTransfers/{id}",
        NoticeKind::BulkError => "PUT /bulkTransfers/{id}/error",
    }
}
