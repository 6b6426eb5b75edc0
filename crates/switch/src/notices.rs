//! From an owed notice to the HTTP message that it is (hub-semantics 3.7 to 3.9).
//!
//! A notice names the record it is made from. On the hot path that record's message is still in
//! memory; a redelivery reads it from the log.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use delivery::Attempt;
use fspiop::body::{
    BatchRegistration, ErrorInformation, Extension, Fulfil, Prepare, written_expiration,
};
use fspiop::callback::{self, BatchOutcome, PartyName, TransferNotice};
use fspiop::endpoint::EndpointType;
use fspiop::headers::{FSPIOP_DESTINATION, TRACESTATE};
use fspiop::time::retry_after_ms;
use fspiop::{PartyIdType, Resource, TraceContext, percent_encode};
use http::{HeaderMap, Method, StatusCode};
use ledger::{
    ChangeParties, Command, Notice, NoticeId, NoticeKind, Outcome, PartyChangeForm, Position,
    TransferState, TransferView,
};
use node::stages::{self, Moment, What};
use ports::{OwnedPayload, OwnedRecord};

use crate::Message;
use crate::commands::batch_fault;
use crate::edge::{Edge, Parcel};
use crate::forward::{self, Call, Destination, Trace, Undelivered};
use crate::participants::{Answer, PartyNames};
use crate::pool::{self, Asked, Failure, Use};
use crate::signatures;
use crate::wording::{self, Named};

/// How a recipient answered a notice.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    /// The pause that it asked for, in microseconds: `Retry-After` of 429 and 503.
    pub(crate) pause_micros: Option<u64>,
}

/// One attempt to deliver a notice.
pub(crate) async fn send(
    edge: &Edge,
    attempt: Attempt<Rc<Parcel>>,
) -> Result<Answered, Undelivered> {
    let parcel = match attempt.message {
        Some(parcel) => parcel,
        None => {
            let notice = load_notice(edge, attempt.notice).await.map_err(Undelivered::Failed)?;
            Parcel::new(notice, None)
        }
    };
    if let Some(transfer) = parcel.notice.transfer {
        edge.mark(transfer, sending(&parcel.notice), [Moment::Attempted]);
    }
    let mut call = if let Some(call) = held(edge, &parcel) {
        call?
    } else {
        Box::pin(rendered(edge, &parcel)).await?
    };
    // What has been read from the log may have taken its time.
    if !edge.may_send() {
        return Err(Undelivered::Failed(Failure::Unsent));
    }
    let answer = call.make(edge, Use::Notice).await.map_err(Undelivered::Failed)?;
    mark(edge, &parcel.notice, answer.asked);
    Ok(Answered { status: answer.status, pause_micros: pause_micros(edge, &answer) })
}

fn pause_micros(edge: &Edge, answer: &pool::Answer) -> Option<u64> {
    let value = answer.retry_after.as_ref()?;
    let may_ask = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    let ms = retry_after_ms(value.as_bytes(), edge.wall_ms())?;
    may_ask.contains(&answer.status).then(|| ms.saturating_mul(1_000))
}

/// Somebody watches: notes how a notice went out.
fn mark(edge: &Edge, notice: &Notice, asked: Option<Asked>) {
    let (Some(asked), Some(transfer)) = (asked, notice.transfer) else { return };
    let moments = [
        (Moment::Connected, asked.connected_ns),
        (Moment::Written, asked.written_ns.max(asked.connected_ns)),
        (Moment::Delivered, stages::monotonic_ns()),
    ];
    edge.handle.stages().mark(edge.number + 1, transfer, sending(notice), moments);
}

const fn sending(notice: &Notice) -> What {
    What::Sending(notice.kind, notice.recipient)
}

/// The body by which `GET /transfers/{ID}` is answered; `None` when a record cannot be read.
pub(crate) async fn state_body(edge: &Edge, view: &TransferView) -> Option<Bytes> {
    let completed_ms = Some(view.changed.millis());
    let state = match view.state {
        // It has not ended: there is no time at which it was completed.
        TransferState::Reserved => return Some(state_only("RESERVED", None)),
        TransferState::Committed => "COMMITTED",
        TransferState::Aborted => "ABORTED",
    };
    if let Some(cause) = view.cause {
        let extension = cause_extension(edge, cause.outcome, cause.record).await?;
        let notice =
            TransferNotice { state, completed_ms, fulfilment: None, extensions: &[extension] };
        return Some(callback::transfer(&notice));
    }
    match view.answer {
        None => Some(state_only(state, completed_ms)),
        Some(answer) => {
            let message = load_message(edge, answer).await?;
            committed_body(&message.body, completed_ms, Fulfilling::Shown)
        }
    }
}

type Rendered = (Destination, HeaderMap, Bytes);

/// The message of a participant that is passed on and still in memory, as nearly all are.
fn held(edge: &Edge, parcel: &Parcel) -> Option<Result<Call, Undelivered>> {
    let notice = &parcel.notice;
    if !matches!(notice.kind, NoticeKind::Prepare | NoticeKind::Fulfil | NoticeKind::Abort) {
        return None;
    }
    // Another notice may be made from the same one.
    let message = Arc::unwrap_or_clone(parcel.message.take()?);
    let (to, headers, body) = forwarded(edge, notice, message)?;
    Some(forward::call(edge, &to, headers, body))
}

async fn rendered(edge: &Edge, parcel: &Parcel) -> Result<Call, Undelivered> {
    match render(edge, parcel).await {
        Some((to, headers, body)) => forward::call(edge, &to, headers, body),
        None => Err(Undelivered::Failed(unmade(edge, parcel.notice.source).await)),
    }
}

/// Why there is no message: the log cannot be read just now, which the recipient has nothing to do
/// with, or it holds what no message can be made of.
async fn unmade(edge: &Edge, source: Position) -> Failure {
    match load(edge, source).await {
        None => Failure::Unsent,
        Some(_) => Failure::Broken,
    }
}

async fn render(edge: &Edge, parcel: &Parcel) -> Option<Rendered> {
    let notice = &parcel.notice;
    match notice.kind {
        NoticeKind::Prepare | NoticeKind::Fulfil | NoticeKind::Abort => {
            let message = load_message(edge, notice.source).await?;
            forwarded(edge, notice, message)
        }
        NoticeKind::PartiesChanged => parties(edge, notice).await,
        _ => {
            let body = own_body(edge, parcel).await?;
            let to = destination(notice)?;
            let headers = own_headers(edge, parcel, &to, Resource::Transfers);
            sealed(edge, to, Resource::Transfers, headers, body).await
        }
    }
}

/// The sender's own bytes. A destination that the sender left out is known by now.
fn forwarded(edge: &Edge, notice: &Notice, message: Message) -> Option<Rendered> {
    let to = destination(notice)?;
    let Message { mut headers, body } = message;
    if !headers.contains_key(&FSPIOP_DESTINATION)
        && let Some(recipient) = edge.view().get(notice.recipient).map(|member| member.name)
    {
        let trace = TraceContext::new(notice.trace);
        let call = (&to.method, to.path.as_str());
        forward::rewrite_headers(edge, &mut headers, call, trace, Some(&recipient));
    }
    Some((to, headers, body))
}

/// The hub's own message, signed anew for each attempt if such are.
async fn sealed(
    edge: &Edge,
    to: Destination,
    resource: Resource,
    headers: HeaderMap,
    body: Bytes,
) -> Option<Rendered> {
    let (headers, body) = signatures::seal(edge, (&to.method, resource), headers, body).await?;
    Some((to, headers, body))
}

fn own_headers(edge: &Edge, parcel: &Parcel, to: &Destination, resource: Resource) -> HeaderMap {
    let message = parcel.message.borrow();
    let state = message.as_ref().and_then(|message| message.headers.get(&TRACESTATE)).cloned();
    let context = TraceContext::new(parcel.notice.trace);
    forward::hub_headers(edge, to, resource, &Trace { context, state })
}

/// Where a notice about a transfer goes; `None` for one that is about none.
fn destination(notice: &Notice) -> Option<Destination> {
    let id = notice.transfer?.to_string();
    let (method, endpoint, suffix) = match notice.kind {
        NoticeKind::Prepare => (Method::POST, EndpointType::TransferPost, ""),
        NoticeKind::PatchCommitted | NoticeKind::PatchAborted => {
            (Method::PATCH, EndpointType::TransferPut, "")
        }
        NoticeKind::Abort | NoticeKind::AbortCopy | NoticeKind::Error => {
            (Method::PUT, EndpointType::TransferError, "/error")
        }
        _ => (Method::PUT, EndpointType::TransferPut, ""),
    };
    let path = match notice.kind {
        NoticeKind::Prepare => "/transfers".to_owned(),
        _ => format!("/transfers/{id}{suffix}"),
    };
    let variables = vec![("transferId", id)];
    Some(Destination { participant: notice.recipient, endpoint, method, path, variables })
}

async fn own_body(edge: &Edge, parcel: &Parcel) -> Option<Bytes> {
    let notice = &parcel.notice;
    let completed_ms = Some(notice.at.millis());
    match notice.kind {
        NoticeKind::FulfilCopy | NoticeKind::AbortCopy => {
            Some(message_of(edge, parcel).await?.body.clone())
        }
        NoticeKind::Committed => {
            let message = message_of(edge, parcel).await?;
            committed_body(&message.body, completed_ms, Fulfilling::Shown)
        }
        NoticeKind::PatchCommitted => {
            let message = message_of(edge, parcel).await?;
            committed_body(&message.body, completed_ms, Fulfilling::Hidden)
        }
        NoticeKind::Reserved => Some(state_only("RESERVED", None)),
        NoticeKind::AbortedState | NoticeKind::PatchAborted => {
            let extension = cause_extension(edge, notice.outcome, notice.source).await?;
            let extensions = &[extension];
            let state = "ABORTED";
            let told = TransferNotice { state, completed_ms, fulfilment: None, extensions };
            Some(callback::transfer(&told))
        }
        _ => {
            let named = named(edge, parcel).await?;
            let (code, description) = wording::error(notice.outcome, &named)?;
            Some(callback::error(code, &description, &[]))
        }
    }
}

/// Whether the fulfilment is told: to the payer it is, to the payee it is not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fulfilling {
    Shown,
    Hidden,
}

/// COMMITTED, with what the payee's answer holds; funds moved by an operator have no answer.
fn committed_body(
    answer: &Bytes,
    completed_ms: Option<u64>,
    fulfilling: Fulfilling,
) -> Option<Bytes> {
    let Ok(fulfil) = Fulfil::parse(answer) else {
        return Some(state_only("COMMITTED", completed_ms));
    };
    let preimage = match (fulfil.fulfilment, fulfilling) {
        (Some(preimage), Fulfilling::Shown) => Some(preimage),
        _ => None,
    };
    let extensions = fulfil.extension_list.as_deref().map(Extension::list).unwrap_or_default();
    Some(callback::transfer(&TransferNotice {
        state: "COMMITTED",
        completed_ms,
        fulfilment: preimage.as_ref(),
        extensions: &extensions,
    }))
}

fn state_only(state: &str, completed_ms: Option<u64>) -> Bytes {
    let notice = TransferNotice { state, completed_ms, fulfilment: None, extensions: &[] };
    callback::transfer(&notice)
}

/// Why a transfer was aborted, in the words its parties were told.
async fn cause_extension(edge: &Edge, outcome: Outcome, record: Position) -> Option<Extension> {
    if outcome == Outcome::Aborted {
        let message = load_message(edge, record).await?;
        let error = ErrorInformation::parse(&message.body).ok()?;
        let (code, description) = error.effective();
        return Some(callback::cause(code, &description));
    }
    let named = match names_prepare(outcome) {
        true => {
            let prepare = load_message(edge, record).await.map(|message| message.body);
            named_or_erased(edge, prepare, record).await?
        }
        false => Named::default(),
    };
    let (code, description) = wording::error(outcome, &named)?;
    Some(callback::cause(code, &description))
}

/// `None` when the prepare cannot be read just now.
async fn named(edge: &Edge, parcel: &Parcel) -> Option<Named> {
    if !names_prepare(parcel.notice.outcome) {
        return Some(Named::default());
    }
    let prepare = message_of(edge, parcel).await.map(|message| message.body.clone());
    named_or_erased(edge, prepare, parcel.notice.source).await
}

/// What `prepare` names, the body of record `source`. Of one that was erased nothing is known; one
/// that cannot be read is waited for.
async fn named_or_erased(edge: &Edge, prepare: Option<Bytes>, source: Position) -> Option<Named> {
    match prepare {
        Some(body) => Some(named_in(&body)),
        None => load(edge, source).await.map(|_| Named::default()),
    }
}

/// Whether the words for an outcome name something of the prepare.
fn names_prepare(outcome: Outcome) -> bool {
    (Outcome::PrepareAmountPrecision..=Outcome::PreparePayeeLaneFull).contains(&outcome)
}

fn named_in(body: &Bytes) -> Named {
    let Ok(prepare) = Prepare::parse(body) else { return Named::default() };
    Named {
        payer: prepare.payer.to_string(),
        payee: prepare.payee.to_string(),
        amount: prepare.amount.amount.to_string(),
        currency: prepare.amount.currency.to_string(),
        expiration: match prepare.expiration_ms {
            // Whatever lies before 1970 is 0.
            0 => written_expiration(body).unwrap_or_default(),
            millis => iso_text(millis),
        },
    }
}

/// `YYYY-MM-DDThh:mm:ss.sssZ`.
pub(crate) fn iso_text(millis: u64) -> String {
    let mut text = fspiop::time::date_time_whole_seconds(millis);
    let fraction = format!("{:03}", millis % 1_000);
    text[20..23].copy_from_slice(fraction.as_bytes());
    String::from_utf8_lossy(&text).into_owned()
}

/// The answer to a change of the party directory.
async fn parties(edge: &Edge, notice: &Notice) -> Option<Rendered> {
    let record = load(edge, notice.source).await?;
    let command = record::command::read_fields(record.kind, record.version, &record.fields);
    let Ok(Command::ChangeParties(change)) = command else { return None };
    let message = stored_message(record)?;
    let state = message.headers.get(&TRACESTATE).cloned();
    let trace = Trace { context: TraceContext::new(notice.trace), state };
    let (to, body) = match change.form {
        PartyChangeForm::Batch => batch_answer(notice, &change, &message)?,
        PartyChangeForm::Single | PartyChangeForm::Delete => single_answer(notice, &change)?,
    };
    let headers = forward::hub_headers(edge, &to, Resource::Participants, &trace);
    sealed(edge, to, Resource::Participants, headers, body).await
}

fn single_answer(notice: &Notice, change: &ChangeParties) -> Option<(Destination, Bytes)> {
    let party = change.parties.first()?;
    let kind = PartyIdType::parse(&party.id_type)?;
    let names = PartyNames {
        kind,
        id: percent_encode(&party.id).into_owned(),
        sub_id: party.sub_id.as_deref().map(|sub_id| percent_encode(sub_id).into_owned()),
    };
    let body = match change.form {
        PartyChangeForm::Delete => callback::participant(&party.fsp),
        _ => {
            let name = PartyName {
                kind,
                id: &party.id,
                sub_id: party.sub_id.as_deref(),
                fsp: Some(&party.fsp),
            };
            callback::participant_registered(&name, party.currency)
        }
    };
    Some((names.to(notice.recipient, Answer::Put), body))
}

fn batch_answer(
    notice: &Notice,
    change: &ChangeParties,
    message: &Message,
) -> Option<(Destination, Bytes)> {
    let batch = BatchRegistration::parse(&message.body).ok()?;
    let request: Cow<'_, str> = percent_encode(&batch.request);
    let path = format!("/participants/{request}");
    let variables = vec![("requestId", request.into_owned())];
    let outcomes: Vec<_> = batch
        .parties
        .iter()
        .map(|party| BatchOutcome {
            party: PartyName {
                kind: party.kind,
                id: &party.id,
                sub_id: party.sub_id.as_deref(),
                fsp: party.fsp.as_ref(),
            },
            refused: batch_fault(&change.source, party),
        })
        .collect();
    let to = Destination {
        participant: notice.recipient,
        endpoint: EndpointType::ParticipantBatchPut,
        method: Method::PUT,
        path,
        variables,
    };
    Some((to, callback::batch_registered(&outcomes, batch.currency)))
}

async fn message_of(edge: &Edge, parcel: &Parcel) -> Option<Arc<Message>> {
    let held = parcel.message.borrow().clone();
    match held {
        Some(message) => Some(message),
        None => load_message(edge, parcel.notice.source).await.map(Arc::new),
    }
}

async fn load_message(edge: &Edge, position: Position) -> Option<Message> {
    stored_message(load(edge, position).await?)
}

/// The message in a record's payload; `None` when it holds none.
#[must_use]
pub fn message_of_payload(payload: &[u8]) -> Option<Message> {
    let payload = fspiop::payload::decode(&Bytes::copy_from_slice(payload)).ok()?;
    Some(Message { headers: payload.headers, body: payload.body })
}

/// The message that a record was made from; `None` where it never had one or it was erased.
#[must_use]
pub fn stored_message(record: OwnedRecord) -> Option<Message> {
    let OwnedPayload::Stored(bytes) = record.payload else { return None };
    let payload = fspiop::payload::decode(&Bytes::from(bytes)).ok()?;
    Some(Message { headers: payload.headers, body: payload.body })
}

/// Reads a record, off the thread: the disk may take its time.
async fn load(edge: &Edge, position: Position) -> Option<OwnedRecord> {
    let reader = edge.handle.reader();
    let reading = tokio::task::spawn_blocking(move || reader.read(position));
    reading.await.ok()?.ok()?
}

/// A notice whose bytes were let go of because too many were waiting.
async fn load_notice(edge: &Edge, id: NoticeId) -> Result<Notice, Failure> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    let asked = edge.handle.ask_local(move |state| {
        // Whoever asked may have gone.
        let _told = answer.send(state.notice(id).copied());
    });
    asked.map_err(|_| Failure::Unsent)?;
    // One that is owed no more, for another node has delivered it, must not be waited for.
    answered.await.map_err(|_| Failure::Unsent)?.ok_or(Failure::Broken)
}
