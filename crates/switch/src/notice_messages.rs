//! Converts a pending notice to its HTTP message (hub-semantics 3.7 to 3.9).
//!
//! A notice refers to its source record. On the hot path that record's message is still in memory;
//! a redelivery reads it from the log.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use delivery::Attempt;
use fspiop::body::{
    BatchParty, BatchRegistration, ErrorInformation, Extension, Fulfil, Prepare, written_expiration,
};
use fspiop::endpoint::EndpointType;
use fspiop::headers::{FSPIOP_DESTINATION, TRACEPARENT, TRACESTATE};
use fspiop::hub_messages::{self, BatchOutcome, PartyName, TransferNotice};
use fspiop::time::retry_after_ms;
use fspiop::{ErrorCode, PartyIdType, Resource, TraceContext, percent_encode};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use ledger::{
    BulkItemAnswer, ChangeParties, Command, ErrorOutcome, FspName, Fulfilment, LogIndex, Notice,
    NoticeKind, Outcome, ParticipantIndex, PartyBinding, PartyChangeForm, PartyChangeView,
    TransferId, TransferMessage, TransferState, TransferView, is_hashed_identifier,
};
use node::latency_trace::{TracePoint, monotonic_ns};
use ports::{OwnedPayload, OwnedRecord};
use traces::SpanSubject;

use crate::bulk_messages;
use crate::commands::{batch_fault, error_of_another};
use crate::destination::{Destination, Variables};
use crate::egress::{AddressedMessage, Egress};
use crate::failure::{Failure, SendError};
use crate::inbound::Trace;
use crate::measurements::MeasuredAttempt;
use crate::message::{ForwardedMessage, OutgoingNotice};
use crate::outbox::Outbox;
use crate::outcome_errors::{self, PrepareFields, iso_text};
use crate::party_names::{PartyNames, RegistrationCallback};
use crate::pool::{self, RequestClass};
use crate::records::{Records, message_about, reveal_parties, stored_message};

/// A recipient's response to a notice.
pub(crate) struct NoticeResponse {
    pub(crate) status: StatusCode,
    /// The requested pause in microseconds: `Retry-After` of 429 and 503.
    pub(crate) pause_micros: Option<u64>,
}

/// Delivers the notices of one thread.
pub(crate) struct Notices {
    pub(crate) egress: Rc<Egress>,
    pub(crate) records: Records,
    pub(crate) outbox: Rc<Outbox>,
}

impl Notices {
    /// One attempt to deliver a notice.
    pub(crate) async fn send(
        &self,
        attempt: Attempt<Rc<OutgoingNotice>>,
    ) -> Result<NoticeResponse, SendError> {
        let (began_ns, reserved_at) = (monotonic_ns(), attempt.reserved_at);
        let outgoing = match attempt.message {
            Some(outgoing) => outgoing,
            None => {
                let notice = self.records.load_notice(attempt.notice).await;
                OutgoingNotice::new(notice.map_err(SendError::Failed)?, None)
            }
        };
        let thread = &self.egress.thread;
        thread.tracer.notice(&outgoing.notice, TracePoint::Attempted);
        let call = match self.take_from_memory(&outgoing) {
            Some(call) => call,
            None => Box::pin(self.read_from_log(&outgoing)).await,
        };
        let not_built = |_: &SendError| thread.measurements.not_built(&outgoing.notice, began_ns);
        let mut call = call.inspect_err(not_built)?;
        // Reading the log may have taken time.
        if !self.outbox.may_send() {
            return Err(SendError::Failed(Failure::Unsent));
        }
        let span = self.egress.begin_attempt((&outgoing.notice, attempt.number), &mut call);
        let (notice, built_ns) = (&outgoing.notice, monotonic_ns());
        let measured = MeasuredAttempt { notice, reserved_at, began_ns, built_ns };
        let response = self.egress.send(&mut call, RequestClass::Notice).await;
        let ended = response.as_ref().map(|response| response.status);
        let ended = ended.map_err(|failure| SendError::Failed(*failure));
        thread.measurements.called_back(&measured, ended.as_ref().copied());
        self.egress.end_span(span, ended.as_ref().copied());
        let response = response.map_err(SendError::Failed)?;
        thread.tracer.answered(&outgoing.notice, response.times);
        let pause_micros = pause_micros(&response, || thread.wall_ms());
        Ok(NoticeResponse { status: response.status, pause_micros })
    }

    /// A participant's message that is forwarded and still in memory, which is the usual case.
    fn take_from_memory(
        &self,
        outgoing: &OutgoingNotice,
    ) -> Option<Result<AddressedMessage, SendError>> {
        let notice = &outgoing.notice;
        if !outgoing.is_forwarded() {
            return None;
        }
        // Another notice may have the same source.
        let message = Arc::unwrap_or_clone(outgoing.message.take()?);
        let RenderedNotice { to, headers, body, .. } = self.forwarded(notice, message)?;
        Some(self.egress.address_message(&to, headers, body))
    }

    async fn read_from_log(
        &self,
        outgoing: &OutgoingNotice,
    ) -> Result<AddressedMessage, SendError> {
        match self.render(outgoing).await {
            Some(RenderedNotice { to, headers, body, parent }) => {
                let mut call = self.egress.address_message(&to, headers, body)?;
                call.parent = parent;
                Ok(call)
            }
            None => Err(SendError::Failed(self.log_render_failure(outgoing.notice.source).await)),
        }
    }

    /// The reason why there is no message: the log is unreadable at the moment, which is not the
    /// recipient's fault, or its content cannot be converted to a message.
    async fn log_render_failure(&self, source: LogIndex) -> Failure {
        match self.records.load(source).await {
            None => Failure::Unsent,
            Some(_) => Failure::Broken,
        }
    }

    async fn render(&self, outgoing: &OutgoingNotice) -> Option<RenderedNotice> {
        let notice = &outgoing.notice;
        match notice.kind {
            NoticeKind::Prepare | NoticeKind::Fulfil | NoticeKind::Abort => {
                let message = self.records.load_message(notice.source).await?;
                self.forwarded(notice, message)
            }
            NoticeKind::PartiesChanged => self.parties(notice).await,
            NoticeKind::BulkPrepare | NoticeKind::BulkResult | NoticeKind::BulkError => {
                let body = bulk_messages::notice_body(&self.records, outgoing).await?;
                let message = outgoing.message.borrow().clone();
                let trace = self.trace_of(notice, message.as_deref()).await;
                self.own((destination(notice)?, Resource::BulkTransfers), trace, body).await
            }
            NoticeKind::FulfilCopy
            | NoticeKind::AbortCopy
            | NoticeKind::Committed
            | NoticeKind::Reserved
            | NoticeKind::AbortedState
            | NoticeKind::Error
            | NoticeKind::PatchCommitted
            | NoticeKind::PatchAborted => {
                let body = own_body(&self.records, outgoing).await?;
                let message = outgoing.message.borrow().clone();
                let trace = self.trace_of(notice, message.as_deref()).await;
                self.own((destination(notice)?, Resource::Transfers), trace, body).await
            }
        }
    }

    /// The sender's own bytes. A destination that the sender omitted is known by now.
    fn forwarded(&self, notice: &Notice, message: ForwardedMessage) -> Option<RenderedNotice> {
        let to = destination(notice)?;
        let ForwardedMessage { mut headers, body } = message;
        let name = || self.egress.directory.view().get(notice.recipient).map(|member| member.name);
        if !headers.contains_key(&FSPIOP_DESTINATION)
            && let Some(recipient) = name()
        {
            let trace = TraceContext::new(notice.trace);
            let call = (&to.method, &*to.path);
            let trace = (trace, self.egress.thread.unique());
            self.egress.rewrite_headers(&mut headers, call, trace, Some(&recipient));
        }
        Some(RenderedNotice { to, headers, body, parent: None })
    }

    /// The callback for a change of the party directory.
    async fn parties(&self, notice: &Notice) -> Option<RenderedNotice> {
        let record = self.records.load(notice.source).await?;
        let command = record::command::read_fields(record.kind, record.version, &record.fields);
        let mut command = command.ok()?;
        if let OwnedPayload::Stored(payload) = &record.payload {
            reveal_parties(command.named_parties_mut(), payload);
        }
        let change = command.party_change()?;
        let recipient = self.egress.directory.view().get(notice.recipient).map(|it| it.name);
        if change.source.copied() != recipient {
            let (to, body) = lost_parties_message(notice, change, &recipient?)?;
            let trace = self.trace_of(notice, None).await;
            return self.own((to, Resource::Participants), trace, body).await;
        }
        let message = stored_message(record)?;
        let Command::ChangeParties(change) = command else { return None };
        let (to, body) = match change.form {
            PartyChangeForm::Batch => batch_registration_callback(notice, &change, &message)?,
            PartyChangeForm::Single | PartyChangeForm::Delete => {
                single_registration_callback(notice.recipient, &change)?
            }
        };
        let trace = self.trace_of(notice, Some(&message)).await;
        self.own((to, Resource::Participants), trace, body).await
    }

    /// The hub's own message, signed for each attempt if the configuration requires it.
    async fn own(
        &self,
        (to, resource): (Destination, Resource),
        trace: Trace,
        body: Bytes,
    ) -> Option<RenderedNotice> {
        let parent = Some(trace.context.span_id);
        let trace = (&trace, self.egress.thread.unique());
        let (headers, body) = self.egress.signed((&to, resource), trace, body).await?;
        Some(RenderedNotice { to, headers, body, parent })
    }

    /// The trace of a notice. If spans are exported, the parent is the span of the message that
    /// caused the notice, which its record names.
    async fn trace_of(&self, notice: &Notice, message: Option<&ForwardedMessage>) -> Trace {
        let (spans, context) = (&self.egress.thread.spans, TraceContext::new(notice.trace));
        let stored = match message {
            Some(message) if spans.is_on() => traceparent(message),
            None if spans.samples(&context) => {
                let message = self.records.load_message(notice.source).await;
                message.as_ref().and_then(traceparent)
            }
            _ => None,
        };
        let context = stored.filter(|stored| stored.trace_id == notice.trace).unwrap_or(context);
        Trace { context, state: tracestate(message) }
    }
}

/// A notice as an HTTP message.
struct RenderedNotice {
    to: Destination,
    headers: HeaderMap,
    body: Bytes,
    /// The parent of the call's span, if `traceparent` names the call; otherwise it names the
    /// parent.
    parent: Option<u64>,
}

fn pause_micros(response: &pool::PeerResponse, wall_ms: impl FnOnce() -> u64) -> Option<u64> {
    let value = response.retry_after.as_ref()?;
    let may_ask = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    let ms = retry_after_ms(value.as_bytes(), wall_ms())?;
    may_ask.contains(&response.status).then(|| ms.saturating_mul(1_000))
}

fn traceparent(message: &ForwardedMessage) -> Option<TraceContext> {
    TraceContext::parse(message.headers.get(&TRACEPARENT)?.as_bytes())
}

fn tracestate(message: Option<&ForwardedMessage>) -> Option<HeaderValue> {
    message.and_then(|message| message.headers.get(&TRACESTATE)).cloned()
}

/// The body of the callback for `GET /transfers/{ID}`; `None` if a record cannot be read.
pub(crate) async fn state_body(
    records: &Records,
    (id, view): (Option<TransferId>, &TransferView),
) -> Option<Bytes> {
    let completed_ms = Some(view.changed.millis());
    let state = match view.state {
        // It is not final and has no completion time.
        TransferState::Reserved => return Some(state_only("RESERVED", None)),
        TransferState::Committed => "COMMITTED",
        TransferState::Aborted => "ABORTED",
    };
    if let Some(cause) = view.cause {
        let extension = cause_extension(records, cause.outcome, (cause.record, id)).await?;
        let notice =
            TransferNotice { state, completed_ms, fulfilment: None, extensions: &[extension] };
        return Some(hub_messages::transfer(&notice));
    }
    match view.response {
        None => Some(state_only(state, completed_ms)),
        Some(response) => {
            let record = records.load(response).await?;
            if record.payload == OwnedPayload::Erased {
                return Some(body_of_erased(&record, (id, completed_ms)));
            }
            let message = message_about(record, id)?;
            committed_body(&message.body, completed_ms, FulfilmentShown::Shown)
        }
    }
}

/// The endpoint of a notice about a transfer; `None` for other notices.
fn destination(notice: &Notice) -> Option<Destination> {
    let id = notice.transfer?.to_string();
    let is_bulk = notice.transfer?.is_bulk();
    let resource = if is_bulk { "bulkTransfers" } else { "transfers" };
    let path = |suffix: &str| {
        let parts = ["/", resource, "/", &id, suffix];
        // `concat` allocates once.
        Cow::Owned(parts.concat())
    };
    let (method, endpoint, path) = match notice.kind {
        NoticeKind::Prepare => (Method::POST, EndpointType::TransferPost, "/transfers".into()),
        NoticeKind::PatchCommitted | NoticeKind::PatchAborted => {
            (Method::PATCH, EndpointType::TransferPut, path(""))
        }
        NoticeKind::Abort | NoticeKind::AbortCopy | NoticeKind::Error => {
            (Method::PUT, EndpointType::TransferError, path("/error"))
        }
        NoticeKind::Fulfil
        | NoticeKind::FulfilCopy
        | NoticeKind::Committed
        | NoticeKind::Reserved
        | NoticeKind::AbortedState => (Method::PUT, EndpointType::TransferPut, path("")),
        NoticeKind::BulkPrepare => {
            (Method::POST, EndpointType::BulkTransferPost, "/bulkTransfers".into())
        }
        NoticeKind::BulkResult => (Method::PUT, EndpointType::BulkTransferPut, path("")),
        NoticeKind::BulkError => (Method::PUT, EndpointType::BulkTransferError, path("/error")),
        // About a registration, which `parties` addresses.
        NoticeKind::PartiesChanged => return None,
    };
    let variable = if is_bulk { "id" } else { "transferId" };
    let (participant, variables) = (notice.recipient, Variables::One((variable, id)));
    let subject = notice.transfer.map(SpanSubject::Transfer);
    Some(Destination { participant, endpoint, method, path, variables, subject })
}

async fn own_body(records: &Records, outgoing: &OutgoingNotice) -> Option<Bytes> {
    let notice = &outgoing.notice;
    let completed_ms = Some(notice.at.millis());
    match notice.kind {
        NoticeKind::FulfilCopy | NoticeKind::AbortCopy => {
            match message_of(records, outgoing).await? {
                Content::Message(message) => Some(message.body.clone()),
                Content::Erased(record) => {
                    Some(body_of_erased(&record, (notice.transfer, completed_ms)))
                }
            }
        }
        NoticeKind::Committed => match message_of(records, outgoing).await? {
            Content::Message(message) => {
                committed_body(&message.body, completed_ms, FulfilmentShown::Shown)
            }
            Content::Erased(record) => {
                Some(body_of_erased(&record, (notice.transfer, completed_ms)))
            }
        },
        NoticeKind::PatchCommitted => match message_of(records, outgoing).await? {
            Content::Message(message) => {
                committed_body(&message.body, completed_ms, FulfilmentShown::Hidden)
            }
            Content::Erased(_) => Some(state_only("COMMITTED", completed_ms)),
        },
        NoticeKind::Reserved => Some(state_only("RESERVED", None)),
        NoticeKind::AbortedState | NoticeKind::PatchAborted => {
            let about = (notice.source, notice.transfer);
            let extension = cause_extension(records, notice.outcome, about).await?;
            let extensions = &[extension];
            let state = "ABORTED";
            let transfer = TransferNotice { state, completed_ms, fulfilment: None, extensions };
            Some(hub_messages::transfer(&transfer))
        }
        NoticeKind::Error => {
            let outcome = ErrorOutcome::of(notice.outcome)?;
            let named = prepare_fields(records, outgoing, outcome).await?;
            let (code, description) = outcome_errors::error(outcome, &named);
            Some(hub_messages::error(code, &description, &[]))
        }
        // Not the hub's own, or not about a transfer.
        NoticeKind::Prepare
        | NoticeKind::Fulfil
        | NoticeKind::Abort
        | NoticeKind::PartiesChanged
        | NoticeKind::BulkPrepare
        | NoticeKind::BulkResult
        | NoticeKind::BulkError => None,
    }
}

/// Whether the message contains the fulfilment: to the payer it does, to the payee it does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FulfilmentShown {
    Shown,
    Hidden,
}

/// COMMITTED, with members of the payee's fulfilment; funds moved by an operator have none.
fn committed_body(
    answer: &Bytes,
    completed_ms: Option<u64>,
    fulfilling: FulfilmentShown,
) -> Option<Bytes> {
    let Ok(fulfil) = Fulfil::parse(answer) else {
        return Some(state_only("COMMITTED", completed_ms));
    };
    let preimage = match (fulfil.fulfilment, fulfilling) {
        (Some(preimage), FulfilmentShown::Shown) => Some(preimage),
        _ => None,
    };
    let extensions = fulfil.extension_list.as_deref().map(Extension::list).unwrap_or_default();
    Some(hub_messages::transfer(&TransferNotice {
        state: "COMMITTED",
        completed_ms,
        fulfilment: preimage.as_ref(),
        extensions: &extensions,
    }))
}

fn state_only(state: &str, completed_ms: Option<u64>) -> Bytes {
    let notice = TransferNotice { state, completed_ms, fulfilment: None, extensions: &[] };
    hub_messages::transfer(&notice)
}

/// The reason of an abort, with the text of the error that was sent to its FSPs.
async fn cause_extension(
    records: &Records,
    outcome: Outcome,
    (record, id): (LogIndex, Option<TransferId>),
) -> Option<Extension> {
    if outcome == Outcome::Aborted {
        let record = records.load(record).await?;
        if record.payload == OwnedPayload::Erased {
            let code = ErrorCode::GENERIC_PAYEE;
            return Some(hub_messages::cause(code, &code.describe("")));
        }
        let message = message_about(record, id)?;
        let error = ErrorInformation::parse(&message.body).ok()?;
        let (code, description) = error.effective();
        return Some(hub_messages::cause(code, &description));
    }
    let outcome = ErrorOutcome::of(outcome)?;
    let named = match outcome_errors::names_prepare(outcome) {
        true => read_prepare_fields(records, (record, id)).await?,
        false => PrepareFields::default(),
    };
    let (code, description) = outcome_errors::error(outcome, &named);
    Some(hub_messages::cause(code, &description))
}

/// `None` if the prepare is unreadable at the moment.
async fn prepare_fields(
    records: &Records,
    outgoing: &OutgoingNotice,
    outcome: ErrorOutcome,
) -> Option<PrepareFields> {
    if !outcome_errors::names_prepare(outcome) {
        return Some(PrepareFields::default());
    }
    let in_memory = outgoing.message.borrow().clone();
    match in_memory {
        Some(prepare) => Some(prepare_fields_in(&prepare.body)),
        None => read_prepare_fields(records, (outgoing.notice.source, None)).await,
    }
}

/// The fields of the prepare in a record. An erased prepare has no fields; for a record that is
/// unreadable at the moment the notice waits. One read answers both, so that a record that becomes
/// readable in between does not look erased.
async fn read_prepare_fields(
    records: &Records,
    (record, id): (LogIndex, Option<TransferId>),
) -> Option<PrepareFields> {
    let prepare = message_about(records.load(record).await?, id);
    Some(prepare.map_or_else(PrepareFields::default, |message| prepare_fields_in(&message.body)))
}

fn prepare_fields_in(body: &Bytes) -> PrepareFields {
    let Ok(prepare) = Prepare::parse(body) else { return PrepareFields::default() };
    PrepareFields {
        payer: prepare.payer.to_string(),
        payee: prepare.payee.to_string(),
        amount: prepare.amount.amount.to_string(),
        currency: prepare.amount.currency.to_string(),
        expiration: match prepare.expiration_ms {
            // A time before 1970 becomes 0.
            0 => written_expiration(body).unwrap_or_default(),
            millis => iso_text(millis),
        },
    }
}

/// The result of a registration or release of one party.
pub(crate) fn single_registration_callback(
    recipient: ParticipantIndex,
    change: &ChangeParties,
) -> Option<(Destination, Bytes)> {
    let party = change.parties.first()?;
    let names = names_of(party)?;
    let body = match change.form {
        PartyChangeForm::Delete => hub_messages::participant(&party.fsp),
        PartyChangeForm::Single | PartyChangeForm::Batch => {
            hub_messages::participant_registered(&party_name(party)?, party.currency)
        }
    };
    Some((names.registration_callback(recipient, RegistrationCallback::Put), body))
}

/// The message to an FSP that has lost entries: the FSP that serves the identifier now, in the form
/// of the answer to a look-up, or, for several identifiers, to a batch. After a release it is an
/// error.
fn lost_parties_message(
    notice: &Notice,
    change: PartyChangeView<'_>,
    recipient: &FspName,
) -> Option<(Destination, Bytes)> {
    let own = change.former.iter().filter(|owner| owner.fsp == *recipient);
    let mut numbers: Vec<_> = own.map(|owner| usize::from(owner.party)).collect();
    numbers.dedup();
    let lost: Vec<_> = numbers.iter().filter_map(|number| change.parties.get(*number)).collect();
    let party = lost.first()?;
    if change.form == PartyChangeForm::Delete {
        let to =
            names_of(party)?.registration_callback(notice.recipient, RegistrationCallback::Error);
        let code = ErrorCode::PARTY_NOT_FOUND;
        let text = code.describe("the registration was released by another party");
        return Some((to, hub_messages::error(code, &text, &[])));
    }
    if lost.len() == 1 {
        let to =
            names_of(party)?.registration_callback(notice.recipient, RegistrationCallback::Put);
        return Some((to, hub_messages::participant(&party.fsp)));
    }
    let outcomes: Option<Vec<_>> = lost
        .iter()
        .map(|party| party_name(party).map(|party| BatchOutcome { party, refused: None }))
        .collect();
    // No request has this id: it is made from the number of the record.
    let request = format!("00000000-0000-8000-8000-{:012x}", notice.source.0 & 0xffff_ffff_ffff);
    Some((
        batch_callback(notice.recipient, request),
        hub_messages::batch_registered(&outcomes?, None),
    ))
}

/// `None` for an erased identifier, which no message can name.
fn names_of(party: &PartyBinding) -> Option<PartyNames> {
    if is_hashed_identifier(&party.id) {
        return None;
    }
    Some(PartyNames {
        kind: PartyIdType::parse(&party.id_type)?,
        id: percent_encode(&party.id).into_owned(),
        sub_id: party.sub_id.as_deref().map(|sub_id| percent_encode(sub_id).into_owned()),
    })
}

/// `None` for an erased identifier.
fn party_name(party: &PartyBinding) -> Option<PartyName<'_>> {
    if is_hashed_identifier(&party.id) {
        return None;
    }
    Some(PartyName {
        kind: PartyIdType::parse(&party.id_type)?,
        id: &party.id,
        sub_id: party.sub_id.as_deref(),
        fsp: Some(&party.fsp),
    })
}

/// `PUT /participants/{requestId}`.
fn batch_callback(participant: ParticipantIndex, request: String) -> Destination {
    Destination {
        participant,
        endpoint: EndpointType::ParticipantBatchPut,
        method: Method::PUT,
        path: format!("/participants/{request}").into(),
        variables: Variables::One(("requestId", request)),
        subject: None,
    }
}

fn batch_registration_callback(
    notice: &Notice,
    change: &ChangeParties,
    message: &ForwardedMessage,
) -> Option<(Destination, Bytes)> {
    // In the order of the message, without the invalid entries and those of other FSPs.
    let mut recorded = change.parties.iter().peekable();
    batch_result_callback((notice.recipient, &change.source), &message.body, |party| {
        let found = recorded.next_if(|one| {
            let named = (&*one.id_type, &*one.id, one.sub_id.as_deref());
            named == (party.kind.as_str(), &*party.id, party.sub_id.as_deref())
        });
        found.is_none().then(|| error_of_another(ErrorCode::ADD_PARTY))
    })
}

/// The result of a batch. `refused` is asked for the error of each valid entry, in their order.
pub(crate) fn batch_result_callback(
    (recipient, source): (ParticipantIndex, &FspName),
    body: &[u8],
    mut refused: impl FnMut(&BatchParty<'_>) -> Option<(ErrorCode, String)>,
) -> Option<(Destination, Bytes)> {
    let batch = BatchRegistration::parse(body).ok()?;
    let request: Cow<'_, str> = percent_encode(&batch.request);
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
            refused: batch_fault(source, party).or_else(|| refused(party)),
        })
        .collect();
    let to = batch_callback(recipient, request.into_owned());
    Some((to, hub_messages::batch_registered(&outcomes, batch.currency)))
}

/// The message that a notice is made from.
enum Content {
    /// From memory or from the log.
    Message(Arc<ForwardedMessage>),
    /// It was erased; the record has its fields.
    Erased(OwnedRecord),
}

/// The message of a notice; `None` if it is unreadable at the moment.
async fn message_of(records: &Records, outgoing: &OutgoingNotice) -> Option<Content> {
    let in_memory = outgoing.message.borrow().clone();
    if let Some(message) = in_memory {
        return Some(Content::Message(message));
    }
    let record = records.load(outgoing.notice.source).await?;
    match record.payload {
        OwnedPayload::Erased => Some(Content::Erased(record)),
        _ => stored_message(record).map(|message| Content::Message(Arc::new(message))),
    }
}

/// The answer of a payee whose message was erased: what the log proves of it.
fn body_of_erased(
    record: &OwnedRecord,
    (transfer, completed_ms): (Option<TransferId>, Option<u64>),
) -> Bytes {
    let command = record::command::read_fields(record.kind, record.version, &record.fields).ok();
    let fulfilment = match command.as_ref().and_then(Command::message) {
        Some(TransferMessage::Abort(_)) => {
            let code = ErrorCode::GENERIC_PAYEE;
            return hub_messages::error(code, &code.describe(""), &[]);
        }
        Some(TransferMessage::Fulfil(fulfil)) => fulfil.fulfilment,
        Some(TransferMessage::Prepare(_)) | None => fulfilment_of_item(command.as_ref(), transfer),
    };
    let preimage = match &fulfilment {
        Fulfilment::Present(preimage) => Some(preimage),
        Fulfilment::Absent | Fulfilment::Undecodable => None,
    };
    let state = "COMMITTED";
    let notice = TransferNotice { state, completed_ms, fulfilment: preimage, extensions: &[] };
    hub_messages::transfer(&notice)
}

/// The fulfilment of an item in the payee's answer to a bulk.
fn fulfilment_of_item(command: Option<&Command>, transfer: Option<TransferId>) -> Fulfilment {
    let Some(Command::FulfilBulk(bulk)) = command else { return Fulfilment::Absent };
    let item = bulk.items.iter().find(|item| Some(item.id) == transfer);
    match item.map(|item| item.answer) {
        Some(BulkItemAnswer::Fulfilled(fulfilment)) => fulfilment,
        Some(BulkItemAnswer::Refused(_)) | None => Fulfilment::Absent,
    }
}
