//! Messages of the hub about a bulk transfer (settlement-and-bulk 3.2).
//!
//! The messages of payer and payee are read from the log, the ends of the items from the state. An
//! end of an item never changes, so a message is the same at any age. If a message was erased, the
//! fields of its record take its place: extension lists and errors of the payee are missing then.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use fspiop::body::Money;
use fspiop::bulk::{self, BulkTransfer, IndividualTransfer, ItemEnd, ItemResult};
use fspiop::{ErrorCode, hub_messages};
use ledger::{
    BulkState, BulkView, Command, ErrorOutcome, LogIndex, Notice, NoticeKind, Outcome,
    ParticipantIndex, PrepareOutcome, TransferId, TransferState, TransferView,
};
use ports::OwnedPayload;

use crate::message::OutgoingNotice;
use crate::outcome_errors::{self, PrepareFields, iso_text};
use crate::records::{Records, stored_message};

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
    let request = Content::load(records, view.prepare).await?.request()?;
    let answer = match view.response {
        Some(record) => Some(Content::load(records, record).await?.answer()),
        None => None,
    };
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

/// A message of payer or payee.
enum Content {
    Body(Bytes),
    /// It was erased; the record has its fields.
    Erased(Command),
}

impl Content {
    /// Reads a message; `None` if it cannot be read.
    async fn load(records: &Records, record: LogIndex) -> Option<Self> {
        let record = records.load(record).await?;
        if record.payload != OwnedPayload::Erased {
            return stored_message(record).map(|message| Self::Body(message.body));
        }
        let fields = record::command::read_fields(record.kind, record.version, &record.fields);
        fields.ok().map(Self::Erased)
    }

    /// The message of a notice, which may be in memory.
    async fn of_notice(records: &Records, outgoing: &OutgoingNotice) -> Option<Self> {
        let in_memory = outgoing.message.borrow().clone();
        match in_memory {
            Some(message) => Some(Self::Body(message.body.clone())),
            None => Self::load(records, outgoing.notice.source).await,
        }
    }

    /// The payer's message.
    fn request(&self) -> Option<BulkTransfer> {
        let fields = match self {
            Self::Body(body) => return BulkTransfer::parse(body).ok(),
            Self::Erased(Command::PrepareBulk(fields)) => fields,
            Self::Erased(_) => return None,
        };
        let items = fields.items.iter().map(|item| IndividualTransfer {
            transfer: item.id,
            amount: Money { amount: item.amount, currency: item.currency },
            condition: item.condition,
        });
        Some(BulkTransfer {
            bulk: fields.id,
            payer: fields.payer,
            payee: fields.payee,
            expiration_ms: fields.expiration_ms,
            items: items.collect(),
        })
    }

    /// The body of the payee's message.
    fn answer(self) -> Bytes {
        match self {
            Self::Body(body) => body,
            Self::Erased(Command::FulfilBulk(fields)) => bulk::answer_of_fields(&fields.items),
            Self::Erased(_) => {
                let code = ErrorCode::GENERIC_PAYEE;
                hub_messages::error(code, &code.describe(""), &[])
            }
        }
    }
}

/// The body of a notice about a bulk; `None` if a record cannot be read.
pub(crate) async fn notice_body(records: &Records, outgoing: &OutgoingNotice) -> Option<Bytes> {
    let notice = &outgoing.notice;
    match notice.kind {
        NoticeKind::BulkPrepare => {
            // Not erased as long as it is owed.
            let Content::Body(body) = Content::of_notice(records, outgoing).await? else {
                return None;
            };
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
        NoticeKind::BulkError => {
            error_of_bulk(notice, Content::of_notice(records, outgoing).await?)
        }
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
fn error_of_bulk(notice: &Notice, content: Content) -> Option<Bytes> {
    if notice.outcome == Outcome::Aborted {
        return Some(content.answer());
    }
    let outcome = ErrorOutcome::of(notice.outcome)?;
    let named = content.request().map(|it| fields_of_bulk(&it)).unwrap_or_default();
    let (code, description) = outcome_errors::bulk_error(outcome, &named);
    Some(hub_messages::error(code, &description, &[]))
}
