//! Messages of the hub about a bulk transfer (settlement-and-bulk 3.2).
//!
//! The messages of payer and payee are read from the log, the ends of the items from the state. An
//! end of an item never changes, so a message is the same at any age.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use fspiop::ErrorCode;
use fspiop::bulk::{self, BulkTransfer, ItemEnd, ItemResult};
use ledger::{
    BulkState, BulkView, ErrorOutcome, LogIndex, Notice, NoticeKind, Outcome, ParticipantIndex,
    PrepareOutcome, TransferId, TransferState, TransferView,
};

use crate::message::OutgoingNotice;
use crate::outcome_errors::{self, PrepareFields, iso_text};
use crate::records::Records;

/// The errors of items in the payee's message.
type ItemErrors = HashMap<TransferId, (ErrorCode, String)>;

const DUPLICATE_ITEM: &str = "Individual transfer prepare duplicate";

/// The state of a bulk as a party may see it; `None` if a record cannot be read.
pub(crate) async fn state_body(
    records: &Records,
    view: &BulkView,
    reader: ParticipantIndex,
) -> Option<Bytes> {
    let is_payee = is_payee_only(view, reader);
    let state = match view.state {
        BulkState::Accepted if is_payee => {
            return Some(bulk::result("ACCEPTED", None, (&[], None)));
        }
        BulkState::Accepted => "ACCEPTED",
        BulkState::Processing => return Some(bulk::result("PROCESSING", None, (&[], None))),
        BulkState::Final(Outcome::BulkCompleted) => "COMPLETED",
        BulkState::Final(outcome) => {
            let completed_ms = Some(view.changed.millis());
            // A bulk that was refused as a whole has no items.
            if PrepareOutcome::of(outcome).is_some() {
                return Some(bulk::result("REJECTED", completed_ms, (&[], None)));
            }
            "REJECTED"
        }
    };
    result_body(records, view, (state, is_payee)).await
}

/// Whether a participant is the payee, and not the payer too.
fn is_payee_only(view: &BulkView, reader: ParticipantIndex) -> bool {
    view.payee == Some(reader) && view.payer != Some(reader)
}

/// The state with the results of the items. The payee gets those that it was sent.
async fn result_body(
    records: &Records,
    view: &BulkView,
    (state, is_payee): (&str, bool),
) -> Option<Bytes> {
    let post = records.load_message(view.prepare).await?.body;
    let answer = match view.response {
        Some(record) => Some(records.load_message(record).await?.body),
        None => None,
    };
    let request = BulkTransfer::parse(&post).ok()?;
    let fates = fates(records, view.prepare, &request).await?;
    let errors = answer.as_deref().map(bulk::errors_of_items).unwrap_or_default();
    let results: Vec<ItemResult> = request
        .items
        .iter()
        .enumerate()
        .filter(|(at, _)| !is_payee || fates[*at].is_accepted())
        .map(|(at, item)| ItemResult {
            transfer: item.transfer,
            end: match fates[at] {
                ItemFate::InFlight => None,
                ItemFate::Committed => Some(ItemEnd::Committed),
                ItemFate::Duplicate => Some(failed(ErrorCode::MODIFIED_REQUEST, DUPLICATE_ITEM)),
                ItemFate::Refused(outcome) | ItemFate::Aborted(outcome) => {
                    Some(error_of_item(outcome, (&request, at), (&errors, answer.as_deref())))
                }
            },
        })
        .collect();
    let completed_ms = matches!(view.state, BulkState::Final(_)).then(|| view.changed.millis());
    Some(bulk::result(state, completed_ms, (&results, answer.as_deref())))
}

fn failed(code: ErrorCode, detail: &str) -> ItemEnd {
    ItemEnd::Failed(code, code.describe(detail))
}

/// The error of an item: that of the payee, or that of the outcome.
fn error_of_item(
    outcome: Outcome,
    (request, at): (&BulkTransfer, usize),
    (errors, answer): (&ItemErrors, Option<&[u8]>),
) -> ItemEnd {
    let transfer = request.items[at].transfer;
    if outcome == Outcome::Aborted {
        if let Some((code, text)) = errors.get(&transfer) {
            return ItemEnd::Failed(*code, text.clone());
        }
        let whole = answer.and_then(|body| fspiop::body::ErrorInformation::parse(body).ok());
        if let Some(error) = whole {
            let (code, text) = error.effective();
            return ItemEnd::Failed(code, text.into_owned());
        }
    }
    match ErrorOutcome::of(outcome) {
        Some(outcome) => {
            let (code, text) = outcome_errors::error(outcome, &fields_of_item(request, at));
            ItemEnd::Failed(code, text)
        }
        None => failed(ErrorCode::INTERNAL_SERVER, ""),
    }
}

fn fields_of_item(request: &BulkTransfer, at: usize) -> PrepareFields {
    let amount = request.items[at].amount;
    PrepareFields {
        amount: amount.amount.to_string(),
        currency: amount.currency.to_string(),
        ..fields_of_bulk(request)
    }
}

fn fields_of_bulk(request: &BulkTransfer) -> PrepareFields {
    PrepareFields {
        payer: request.payer.to_string(),
        payee: request.payee.to_string(),
        expiration: iso_text(request.expiration_ms),
        ..PrepareFields::default()
    }
}

/// The course of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemFate {
    /// Its id was known.
    Duplicate,
    /// It was refused.
    Refused(Outcome),
    /// It was accepted and has not ended.
    InFlight,
    /// It was committed.
    Committed,
    /// It was accepted and then aborted, or has expired.
    Aborted(Outcome),
}

impl ItemFate {
    fn of(view: Option<&TransferView>, prepare: LogIndex) -> Self {
        let Some(view) = view.filter(|view| view.prepare == prepare) else {
            return Self::Duplicate;
        };
        match (view.state, view.cause.map(|cause| cause.outcome)) {
            (TransferState::Committed, _) => Self::Committed,
            (TransferState::Reserved, _) | (TransferState::Aborted, None) => Self::InFlight,
            (TransferState::Aborted, Some(outcome)) => match PrepareOutcome::of(outcome) {
                Some(_) => Self::Refused(outcome),
                None => Self::Aborted(outcome),
            },
        }
    }

    const fn is_accepted(self) -> bool {
        !matches!(self, Self::Duplicate | Self::Refused(_))
    }
}

/// The course of each item of a bulk, in the order of its list. The second item with an id is a
/// duplicate of the first.
async fn fates(
    records: &Records,
    prepare: LogIndex,
    request: &BulkTransfer,
) -> Option<Vec<ItemFate>> {
    let ids: Vec<TransferId> = request.items.iter().map(|item| item.transfer).collect();
    let views = records.load_views(&ids).await?;
    let mut known = HashSet::with_capacity(ids.len());
    let fates = ids.iter().zip(&views).map(|(id, view)| match known.insert(*id) {
        true => ItemFate::of(view.as_ref(), prepare),
        false => ItemFate::Duplicate,
    });
    Some(fates.collect())
}

/// The body of a notice about a bulk; `None` if a record cannot be read.
pub(crate) async fn notice_body(records: &Records, outgoing: &OutgoingNotice) -> Option<Bytes> {
    let notice = &outgoing.notice;
    let in_memory = outgoing.message.borrow().clone();
    let body = match in_memory {
        Some(message) => message.body.clone(),
        None => records.load_message(notice.source).await?.body,
    };
    match notice.kind {
        NoticeKind::BulkPrepare => {
            let request = BulkTransfer::parse(&body).ok()?;
            let fates = fates(records, notice.source, &request).await?;
            bulk::accepted_items(&body, |at| fates[at].is_accepted())
        }
        NoticeKind::BulkResult => {
            let view = records.load_bulk(notice.transfer?).await?;
            let state =
                if notice.outcome == Outcome::BulkCompleted { "COMPLETED" } else { "REJECTED" };
            result_body(records, &view, (state, is_payee_only(&view, notice.recipient))).await
        }
        NoticeKind::BulkError => error_of_bulk(notice, body),
        NoticeKind::Prepare
        | NoticeKind::Fulfil
        | NoticeKind::Abort
        | NoticeKind::FulfilCopy
        | NoticeKind::AbortCopy
        | NoticeKind::Committed
        | NoticeKind::Reserved
        | NoticeKind::AbortedState
        | NoticeKind::Error
        | NoticeKind::PatchCommitted
        | NoticeKind::PatchAborted
        | NoticeKind::PartiesChanged => None,
    }
}

/// The payee's own error, or that of the outcome.
fn error_of_bulk(notice: &Notice, body: Bytes) -> Option<Bytes> {
    if notice.outcome == Outcome::Aborted {
        return Some(body);
    }
    let outcome = ErrorOutcome::of(notice.outcome)?;
    let named = BulkTransfer::parse(&body).map(|it| fields_of_bulk(&it)).unwrap_or_default();
    let (code, description) = outcome_errors::bulk_error(outcome, &named);
    Some(fspiop::hub_messages::error(code, &description, &[]))
}
