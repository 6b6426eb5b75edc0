//! Converts a checked message to the kernel's command and to its recorded form. Nothing
//! here reads a clock or touches a socket: the same message gives the same command.

use bytes::Bytes;
use fspiop::body::{
    BatchParty, BatchRegistration, ErrorInformation, Fulfil, ParticipantRegistration,
    ParticipantUpdate, Prepare, TransferState,
};
use fspiop::bulk::{BulkTransfer, BulkTransferResult};
use fspiop::forwarded_headers::{Forwarding, rewrite, strip};
use fspiop::{
    Accepted, ErrorCode, PartyPath, Refusal, Route, TraceContext, Transaction, Version, body_hash,
    is_identifier, stored_message,
};
use http::header::DATE;
use http::{HeaderMap, Method, Uri};
use ledger::{
    AbortBulk, BulkItem, BulkItemAnswer, BulkItemResult, ChangeParties, Command, Currency, Digest,
    FeeRule, FspName, FulfilBulk, FulfilState, PartyBinding, PartyChangeForm, PrepareBulk,
    TransferId, first_match,
};
use record::command::{FIELDS_VERSION, write_fields};
use record::frame::{EncodedRecord, RecordTooLarge};

use crate::inbound::{Envelope, Inbound, RecordedMessage, RequestSpan};
use crate::message::ForwardedMessage;
use crate::trace::RequestTrace;

/// Room for the fields of a command; those of a bulk transfer or of many parties are longer.
const FIELDS_BYTES: usize = 256;

/// A message as the edge records it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The command.
    pub command: Command,
    /// Headers of the outgoing message and body, in their stored form.
    pub payload: Vec<u8>,
}

/// The record of a message with a `Date` and a trace, computed without sockets; `None` for messages
/// that are not recorded. `path` may include the query, `span` is the id of the
/// hub's span, not zero. `completedTimestamp` may be any time.
///
/// # Errors
/// Those of [`fspiop::accept`] and [`command_of`].
pub fn recorded(
    (method, path): (&Method, &str),
    mut headers: HeaderMap,
    body: &[u8],
    span: u64,
) -> Result<Option<Recorded>, Refusal> {
    let Accepted::Message { route, headers: found } = fspiop::accept(method, path, &headers)?
    else {
        return Ok(None);
    };
    let envelope = Envelope {
        source: found.source,
        destination: found.destination,
        version: found.version,
        trace: found.trace.unwrap_or(TraceContext::new([0; 16])),
        through_proxy: found.proxy.is_some(),
    };
    let Some(command) = command_of(&route, &envelope, body, || None)? else { return Ok(None) };
    let uri = Uri::try_from(path)
        .map_err(|_| Refusal::new(ErrorCode::MALFORMED_SYNTAX, "the path is no URI"))?;
    let (method, body) = (method.clone(), Bytes::copy_from_slice(body));
    strip(&mut headers);
    let (span, stages) = (RequestSpan { id: span, is_sampled: false }, RequestTrace::default());
    let inbound = Inbound { envelope, method, uri, headers, body, span, stages };
    let ForwardedMessage { headers, body } = store(&command, inbound, || 0).message;
    let mut payload = Vec::with_capacity(stored_message::bytes_max(&headers, &body));
    stored_message::encode(&headers, &body, &mut payload);
    Ok(Some(Recorded { command, payload }))
}

/// The recorded form of a message. A message about a transfer is recorded with the headers with
/// which it is forwarded. `now_ms` is called if the message has no `Date`.
pub(crate) fn store(
    command: &Command,
    inbound: Inbound,
    now_ms: impl FnOnce() -> u64,
) -> RecordedMessage {
    let Inbound { envelope, method, uri, mut headers, body, span, stages } = inbound;
    if !matches!(command, Command::ChangeParties(_)) {
        let (path, destination) = match command {
            Command::Prepare(prepare) => ("/transfers", Some(&prepare.payee)),
            Command::PrepareBulk(bulk) => ("/bulkTransfers", Some(&bulk.payee)),
            Command::Genesis(_)
            | Command::Tick
            | Command::Fulfil(_)
            | Command::Abort(_)
            | Command::FinishDeliveries(_)
            | Command::ChangeParties(_)
            | Command::Administer(_)
            | Command::FulfilBulk(_)
            | Command::AbortBulk(_)
            | Command::RecordQuote(_)
            | Command::RecordQuoteAnswer(_)
            | Command::RecordRequestToPay(_) => (uri.path(), None),
        };
        let now_ms = if headers.contains_key(DATE) { 0 } else { now_ms() };
        let (method, trace) = (&method, envelope.trace);
        let with = Forwarding { method, path, destination, trace, span: span.id, now_ms };
        rewrite(&mut headers, &with);
    }
    RecordedMessage { message: ForwardedMessage { headers, body }, stages }
}

/// The record of a command with the message that it came in. `parties` are the identifiers that the
/// command has as hashes.
///
/// # Errors
/// [`RecordTooLarge`] if they exceed a record.
pub(crate) fn encode(
    (command, parties): (&Command, &[u8]),
    message: &ForwardedMessage,
) -> Result<EncodedRecord, RecordTooLarge> {
    let ForwardedMessage { headers, body } = message;
    EncodedRecord::write(
        (command.number(), FIELDS_VERSION),
        FIELDS_BYTES + stored_message::bytes_max(headers, body) + parties.len(),
        |out| write_fields(command, out),
        |out| stored_message::encode_with_parties(headers, body, parties, out),
    )
}

/// The command of a message; `None` for messages that are not recorded. `now_ms` is
/// the time to which `completedTimestamp` must be near; `None` allows any.
///
/// # Errors
/// Those of the body's `parse`: 3100 to 3103.
pub fn command_of(
    route: &Route<'_>,
    envelope: &Envelope,
    body: &[u8],
    now_ms: impl FnOnce() -> Option<u64>,
) -> Result<Option<Command>, Refusal> {
    let source = envelope.source;
    Ok(Some(match route {
        Route::TransfersPost => prepare(envelope, &Prepare::parse(body)?, body),
        Route::TransfersPut(path) => {
            let fulfilled = Fulfil::parse(body)?;
            if !envelope.through_proxy
                && let Some(now_ms) = now_ms()
            {
                fulfilled.check_completed(now_ms)?;
            }
            let Some(id) = path.id else { return Ok(None) };
            fulfil(envelope, id, &fulfilled, body)
        }
        Route::TransfersError(path) => {
            let error = ErrorInformation::parse(body)?;
            let Some(id) = path.id else { return Ok(None) };
            abort(envelope, id, &error, body)
        }
        Route::BulkTransfersPost => prepare_bulk(envelope, &BulkTransfer::parse(body)?, body),
        Route::BulkTransfersPut(path) => {
            let result = BulkTransferResult::parse(body)?;
            if !envelope.through_proxy
                && let Some(now_ms) = now_ms()
            {
                result.check_completed(now_ms)?;
            }
            let Some(id) = path.id else { return Ok(None) };
            fulfil_bulk(envelope, id, &result, body)
        }
        Route::BulkTransfersError(path) => {
            let error = ErrorInformation::parse(body)?;
            let Some(id) = path.id else { return Ok(None) };
            abort_bulk(envelope, id, &error, body)
        }
        Route::ParticipantsPost(path) => {
            let registration = ParticipantRegistration::parse(body)?;
            if path.has_braces {
                return Ok(None);
            }
            register(envelope, path, registration.fsp, registration.currency)
        }
        Route::ParticipantsPut(path) => {
            let update = ParticipantUpdate::parse(body)?;
            if path.has_braces {
                return Ok(None);
            }
            register(envelope, path, update.fsp.unwrap_or(source), update.currency)
        }
        Route::ParticipantsDelete(path) if !path.has_braces => remove(envelope, path),
        Route::ParticipantsBatch => register_batch(envelope, &BatchRegistration::parse(body)?),
        Route::ParticipantsDelete(_)
        | Route::ParticipantsGet(_)
        | Route::ParticipantsError(_)
        | Route::PartiesGet(_)
        | Route::PartiesPut(_)
        | Route::PartiesError(_)
        | Route::Exchange(_)
        | Route::TransfersGet(_)
        | Route::BulkTransfersGet(_)
        | Route::ServicesGet(_) => return Ok(None),
    }))
}

/// `POST /transfers`.
fn prepare(envelope: &Envelope, prepare: &Prepare, body: &[u8]) -> Command {
    Command::Prepare(Box::new(ledger::Prepare {
        id: prepare.transfer,
        source: envelope.source,
        payer: prepare.payer,
        payee: prepare.payee,
        currency: prepare.amount.currency,
        amount: prepare.amount.amount,
        condition: prepare.condition,
        expiration_ms: prepare.expiration_ms,
        hash: Digest(body_hash(body)),
        trace: envelope.trace.trace_id,
        fee_rule: None,
        quote_terms: None,
    }))
}

/// Adds the terms of a prepare, which the ledger compares with those of a quote. Other commands do
/// not change.
pub(crate) fn add_terms(command: &mut Command, body: &[u8]) {
    if let Command::Prepare(prepare) = command {
        // Terms that are not texts agree with no offer.
        let terms = fspiop::quote_terms(body).map_or(prepare.hash, Digest);
        prepare.quote_terms = Some(terms);
    }
}

/// Names the first of these fee rules that matches the transaction of a prepare. Other commands do
/// not change.
pub(crate) fn choose_fee_rule(command: &mut Command, body: &[u8], rules: &[FeeRule]) {
    if let Command::PrepareBulk(bulk) = command {
        return choose_fee_rules_of_items(bulk, body, rules);
    }
    let Command::Prepare(prepare) = command else { return };
    if !rules.iter().any(|rule| rule.serves(prepare.currency)) {
        return;
    }
    prepare.fee_rule = Transaction::of_transfer(body).and_then(|transaction| {
        let facts = transaction.facts(prepare.currency, (prepare.payer, prepare.payee));
        first_match(rules, &facts)
    });
}

/// `POST /bulkTransfers`.
fn prepare_bulk(envelope: &Envelope, bulk: &BulkTransfer, body: &[u8]) -> Command {
    let items = bulk.items.iter().map(|item| BulkItem {
        id: item.transfer,
        currency: item.amount.currency,
        amount: item.amount.amount,
        condition: item.condition,
        fee_rule: None,
    });
    Command::PrepareBulk(Box::new(PrepareBulk {
        id: bulk.bulk,
        source: envelope.source,
        payer: bulk.payer,
        payee: bulk.payee,
        expiration_ms: bulk.expiration_ms,
        hash: Digest(body_hash(body)),
        trace: envelope.trace.trace_id,
        items: items.collect(),
    }))
}

fn choose_fee_rules_of_items(bulk: &mut PrepareBulk, body: &[u8], rules: &[FeeRule]) {
    let parties = (bulk.payer, bulk.payee);
    for (item, raw) in bulk.items.iter_mut().zip(fspiop::bulk::raw_items(body)) {
        if rules.iter().any(|rule| rule.serves(item.currency)) {
            item.fee_rule = Transaction::of_transfer(raw.as_bytes()).and_then(|transaction| {
                first_match(rules, &transaction.facts(item.currency, parties))
            });
        }
    }
}

/// `PUT /bulkTransfers/{ID}`.
fn fulfil_bulk(
    envelope: &Envelope,
    id: TransferId,
    result: &BulkTransferResult,
    body: &[u8],
) -> Command {
    let items = result.items.iter().map(|item| BulkItemResult {
        id: item.transfer,
        answer: match (&item.error, item.fulfilment) {
            (Some((code, _)), _) => BulkItemAnswer::Refused(code.is_accepted()),
            (None, None) => BulkItemAnswer::Fulfilled(ledger::Fulfilment::Absent),
            (None, Some(preimage)) => {
                BulkItemAnswer::Fulfilled(ledger::Fulfilment::Present(preimage))
            }
        },
    });
    Command::FulfilBulk(Box::new(FulfilBulk {
        id,
        source: envelope.source,
        destination: envelope.destination,
        hash: Digest(body_hash(body)),
        trace: envelope.trace.trace_id,
        items: items.collect(),
    }))
}

/// `PUT /bulkTransfers/{ID}/error`.
fn abort_bulk(
    envelope: &Envelope,
    id: TransferId,
    error: &ErrorInformation<'_>,
    body: &[u8],
) -> Command {
    Command::AbortBulk(Box::new(AbortBulk {
        id,
        source: envelope.source,
        destination: envelope.destination,
        code_is_known: error.code.is_accepted(),
        hash: Digest(body_hash(body)),
        trace: envelope.trace.trace_id,
    }))
}

/// `PUT /transfers/{ID}`.
fn fulfil(envelope: &Envelope, id: TransferId, fulfil: &Fulfil<'_>, body: &[u8]) -> Command {
    Command::Fulfil(Box::new(ledger::Fulfil {
        id,
        source: envelope.source,
        destination: envelope.destination,
        state: state(fulfil.state, envelope.version),
        fulfilment: match fulfil.fulfilment {
            None => ledger::Fulfilment::Absent,
            Some(preimage) => ledger::Fulfilment::Present(preimage),
        },
        hash: Digest(body_hash(body)),
        trace: envelope.trace.trace_id,
    }))
}

/// `PUT /transfers/{ID}/error`.
fn abort(
    envelope: &Envelope,
    id: TransferId,
    error: &ErrorInformation<'_>,
    body: &[u8],
) -> Command {
    Command::Abort(Box::new(ledger::Abort {
        id,
        source: envelope.source,
        destination: envelope.destination,
        code_is_known: error.code.is_accepted(),
        hash: Digest(body_hash(body)),
        trace: envelope.trace.trace_id,
    }))
}

/// `POST` and `PUT /participants/{Type}/{ID}[/{SubId}]`: `fsp` serves the party.
fn register(
    envelope: &Envelope,
    path: &PartyPath<'_>,
    fsp: FspName,
    currency: Option<Currency>,
) -> Command {
    let party = binding(path, fsp, currency);
    change_parties(envelope, PartyChangeForm::Single, vec![party])
}

/// `DELETE /participants/{Type}/{ID}[/{SubId}]`, restricted by the currency of the query.
fn remove(envelope: &Envelope, path: &PartyPath<'_>) -> Command {
    let party = binding(path, envelope.source, path.currency);
    change_parties(envelope, PartyChangeForm::Delete, vec![party])
}

/// `POST /participants`: the valid entries.
fn register_batch(envelope: &Envelope, batch: &BatchRegistration<'_>) -> Command {
    let source = envelope.source;
    let parties = batch
        .parties
        .iter()
        .filter(|party| batch_fault(&source, party).is_none())
        .map(|party| PartyBinding {
            id_type: party.kind.as_str().into(),
            id: party.id.to_string(),
            sub_id: party.sub_id.as_ref().map(ToString::to_string),
            currency: batch.currency,
            fsp: source,
        })
        .collect();
    change_parties(envelope, PartyChangeForm::Batch, parties)
}

/// The error of one entry of a batch, if it is invalid.
pub(crate) fn batch_fault(source: &FspName, party: &BatchParty<'_>) -> Option<(ErrorCode, String)> {
    if party.fsp != Some(*source) {
        let code = ErrorCode::PARTY_NOT_FOUND;
        return Some((code, code.describe("fspId is not the requester's")));
    }
    // An identifier that does not fit in a path could neither be looked up nor removed.
    let kind = party.kind.as_str();
    let fault = if !party.kind.allows(&party.id) || !is_identifier(&party.id) {
        format!("not the form of a {kind}")
    } else if party.sub_id.as_deref().is_some_and(|text| !is_identifier(text)) {
        "not the form of a partySubIdOrType".to_owned()
    } else {
        return None;
    };
    let code = ErrorCode::ADD_PARTY;
    Some((code, code.describe(&fault)))
}

/// The error of a change of an identifier that another FSP serves.
pub(crate) fn error_of_another(code: ErrorCode) -> (ErrorCode, String) {
    (code, code.describe("another FSP has registered the identifier"))
}

fn change_parties(
    envelope: &Envelope,
    form: PartyChangeForm,
    parties: Vec<PartyBinding>,
) -> Command {
    Command::ChangeParties(Box::new(ChangeParties {
        source: envelope.source,
        form,
        parties,
        trace: envelope.trace.trace_id,
        rule: None,
    }))
}

fn binding(path: &PartyPath<'_>, fsp: FspName, currency: Option<Currency>) -> PartyBinding {
    PartyBinding {
        id_type: path.kind.as_str().into(),
        id: path.id.text.to_string(),
        sub_id: path.sub_id.as_ref().map(|sub_id| sub_id.text.to_string()),
        currency,
        fsp,
    }
}

/// A state that version 1.0 does not define is ignored; the transfer times out (hub-semantics 3.6).
fn state(state: TransferState, version: Version) -> FulfilState {
    match (state, version) {
        (TransferState::Reserved, Version::V1_0) => FulfilState::ReservedUnderVersion10,
        (TransferState::Reserved, _) => FulfilState::Reserved,
        (TransferState::Aborted, _) => FulfilState::Aborted,
        (TransferState::Committed | TransferState::Received, _) => FulfilState::Committed,
    }
}
