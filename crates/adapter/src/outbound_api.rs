//! The API for back ends: synchronous answers in front of the asynchronous protocol.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fspiop::PartyPath;
use fspiop::route_table::Operation;
use http::Method;
use http::request::Parts;
use ledger::TransferId;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::timeout;

use crate::dfsp::{Dfsp, Input, count, plain_error, unavailable, waiter};
use crate::forms::{Object, error_of};
use crate::http_server::{self, Answered, Handler};
use crate::hub::HubAnswer;
use crate::ids::{now_ms, random};
use crate::outbound::{
    BackendReply, CallbackKind, Event, HubRequest, NewIds, OutboundTransfer, Phase, last_error,
    party_key_of_path,
};
use crate::outbound_checks as checks;
use crate::outbound_flow::{OutboundFlow, flow_key, origin, origin_key};
use crate::store::RowKind;
use crate::tenants::Tenants;
use crate::unsupported::Unsupported;
use crate::{accounts, bulk, forms, request_to_pay, unsupported};

/// Time added to the longest wait of a transfer, so that the transfer itself answers first.
const MARGIN: Duration = Duration::from_secs(5);
/// Codes of a party that does not exist.
const PARTY_UNKNOWN: [&str; 3] = ["3200", "3201", "3204"];

/// The API for back ends.
pub(crate) struct OutboundApi {
    pub(crate) tenants: Tenants,
}

/// The name of the state member in errors of the routes with one step.
#[derive(Clone, Copy)]
enum OneStep {
    Parties,
    Quotes,
    SimpleTransfers,
}

impl Handler for OutboundApi {
    async fn handle(&self, head: Parts, body: Bytes) -> Answered {
        let Some((dfsp, path)) = self.tenants.find(head.uri.path()) else {
            let answer = plain_error(404, "3002", "unknown path");
            return http_server::json(answer.status, &answer.body);
        };
        let answer = respond(dfsp, &head.method, path, &body, trace_of(&head)).await;
        http_server::json(answer.status, &answer.body)
    }

    fn unreadable(&self, is_too_long: bool) -> Answered {
        let what = if is_too_long { "the body is too long" } else { "the body breaks off" };
        http_server::json(400, &plain_error(400, "400", what).body)
    }
}

/// The trace of the back end's request, or a new one.
fn trace_of(head: &Parts) -> [u8; 16] {
    let header = head.headers.get(&fspiop::headers::TRACEPARENT);
    let parsed = header.and_then(|value| fspiop::TraceContext::parse(value.as_bytes()));
    parsed.map_or_else(|| random().to_be_bytes(), |trace| trace.trace_id)
}

async fn respond(
    dfsp: &Arc<Dfsp>,
    method: &Method,
    path: &str,
    body: &[u8],
    trace: [u8; 16],
) -> BackendReply {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match (method.as_str(), segments.as_slice()) {
        ("GET", [""] | ["health"]) => BackendReply { status: 200, body: json!({ "status": "OK" }) },
        ("POST", ["transfers"]) => post_transfer(dfsp, body, trace).await,
        ("GET", ["transfers", id]) => get_transfer(dfsp, id, trace).await,
        ("PUT", ["transfers", id]) => put_transfer(dfsp, id, body).await,
        ("POST", ["requestToPay"]) => request_to_pay::post(dfsp, body, trace).await,
        ("PUT", ["requestToPay", id]) => request_to_pay::put(dfsp, id, body, trace).await,
        ("POST", ["requestToPayTransfer"]) => post_requested_transfer(dfsp, body, trace).await,
        ("PUT", ["requestToPayTransfer", id]) => put_requested_transfer(dfsp, id, body).await,
        ("GET", ["parties", kind, id]) => get_party(dfsp, (kind, id, None), trace).await,
        ("GET", ["parties", kind, id, sub]) => get_party(dfsp, (kind, id, Some(sub)), trace).await,
        ("POST", ["quotes"]) => post_quote(dfsp, body, trace).await,
        ("POST", ["simpleTransfers"]) => post_simple_transfer(dfsp, body, trace).await,
        ("POST", ["accounts"]) => accounts::post(dfsp, body, trace).await,
        ("DELETE", ["accounts", party @ ..]) if matches!(party.len(), 2 | 3) => {
            accounts::delete(dfsp, party, trace).await
        }
        ("POST", ["bulkQuotes"]) => bulk::post_quotes(dfsp, body, trace).await,
        ("GET", ["bulkQuotes", id]) => bulk::get_quotes(dfsp, id, trace).await,
        ("POST", ["bulkTransfers"]) => bulk::post_transfers(dfsp, body, trace).await,
        ("GET", ["bulkTransfers", id]) => bulk::get_transfers(dfsp, id, trace).await,
        (_, ["transfers" | "quotes" | "simpleTransfers"] | ["transfers" | "parties", ..])
        | (_, ["requestToPay" | "requestToPayTransfer" | "accounts", ..])
        | (_, ["bulkQuotes" | "bulkTransfers", ..]) => {
            plain_error(405, "3000", "the path has no such method")
        }
        _ => unserved(method, path),
    }
}

/// The answer to a path that is not served.
fn unserved(method: &Method, path: &str) -> BackendReply {
    match unsupported::outbound(method.as_str(), path) {
        Some(Unsupported::Operation(why)) => plain_error(501, "2002", why),
        Some(Unsupported::Method) => plain_error(405, "3000", "the path has no such method"),
        None => plain_error(404, "3002", "unknown path"),
    }
}

/// Parses a body as JSON.
pub(crate) fn parse(body: &[u8]) -> Result<Value, BackendReply> {
    serde_json::from_slice(body)
        .map_err(|error| plain_error(400, "400", &format!("the body is not JSON: {error}")))
}

pub(crate) fn invalid(why: &str) -> BackendReply {
    plain_error(400, "400", why)
}

fn new_ids(dfsp: &Dfsp, trace: [u8; 16]) -> NewIds {
    NewIds { transfer: dfsp.id_form.generate(), quote: dfsp.id_form.generate(), trace }
}

fn place(dfsp: &Dfsp) -> Result<OwnedSemaphorePermit, BackendReply> {
    Arc::clone(&dfsp.outbound_places)
        .try_acquire_owned()
        .map_err(|_| unavailable("too many transfers are in progress"))
}

async fn post_transfer(dfsp: &Arc<Dfsp>, body: &[u8], trace: [u8; 16]) -> BackendReply {
    let checked = parse(body).and_then(|body| checks::transfer(&body).map_err(|why| invalid(&why)));
    let request = match checked {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let home = request["homeTransactionId"].as_str().unwrap_or_default().to_owned();
    let origin = dfsp.policy.idempotent_home_transaction_id.then_some((RowKind::Home, &*home));
    begin_transfer(dfsp, request, origin, trace).await
}

/// Begins a transfer and waits for its answer. One with a known origin is not begun again.
async fn begin_transfer(
    dfsp: &Arc<Dfsp>,
    request: Object,
    origin: Option<(RowKind, &str)>,
    trace: [u8; 16],
) -> BackendReply {
    if let Some(origin) = origin
        && let Some(answer) = repeated(dfsp, origin, &request).await
    {
        return answer;
    }
    let place = match place(dfsp) {
        Ok(place) => place,
        Err(answer) => return answer,
    };
    let policy = &dfsp.policy;
    let (transfer, effects) =
        OutboundTransfer::begin(request, new_ids(dfsp, trace), policy, now_ms());
    let Some(mut flow) = OutboundFlow::register(dfsp, transfer, Some(place)) else {
        return unavailable("the new id is in use");
    };
    if let Some(origin) = origin {
        // No other task runs between the look-up of the key and this.
        flow.add_key(origin_key(origin));
    }
    let (waiter, answer) = waiter();
    flow.add_waiter(waiter);
    tokio::spawn(flow.run(effects));
    wait(dfsp, answer, "Timeout waiting for the transfer").await
}

/// `POST /requestToPayTransfer`: pays a request of the payee.
async fn post_requested_transfer(dfsp: &Arc<Dfsp>, body: &[u8], trace: [u8; 16]) -> BackendReply {
    let checked =
        parse(body).and_then(|body| checks::requested_transfer(&body).map_err(|why| invalid(&why)));
    let mut request = match checked {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    request.insert("skipPartyLookup".to_owned(), true.into());
    let id = request["transactionRequestId"].as_str().unwrap_or_default().to_owned();
    let origin = Some((RowKind::Requested, &*id));
    renamed(begin_transfer(dfsp, request, origin, trace).await)
}

/// `PUT /requestToPayTransfer/{ID}`.
async fn put_requested_transfer(dfsp: &Arc<Dfsp>, id: &str, body: &[u8]) -> BackendReply {
    let checked = parse(body).and_then(|body| {
        checks::resume(&body, checks::RESUME_REQUESTED).map_err(|why| invalid(&why))
    });
    let accept = match checked {
        Ok(accept) => accept,
        Err(answer) => return answer,
    };
    match dfsp.load::<String>(RowKind::Requested, id) {
        Some(transfer) => renamed(resume_transfer(dfsp, &transfer, accept).await),
        None => unknown_flow("requestToPayTransferState", "transactionRequestId", id),
    }
}

/// The answer about an id without a stored flow.
pub(crate) fn unknown_flow(member: &str, name: &str, id: &str) -> BackendReply {
    let state = json!({ name: id });
    let what = format!("No cached data found for {name}: {id}");
    state_error(500, ("2001", &what), member, state)
}

/// An error of the adapter itself with the state of its flow.
pub(crate) fn state_error(
    status: u16,
    (code, what): (&str, &str),
    member: &str,
    mut state: Value,
) -> BackendReply {
    state["currentState"] = "ERROR_OCCURRED".into();
    state["lastError"] = last_error(status, forms::error_information(code, what));
    let body = json!({ "message": what, "statusCode": code, member: state });
    BackendReply { status, body }
}

/// An answer with the state's name of requests to pay.
fn renamed(mut answer: BackendReply) -> BackendReply {
    if let Some(body) = answer.body.as_object_mut()
        && let Some(state) = body.remove("transferState")
    {
        body.insert("requestToPayTransferState".to_owned(), state);
    }
    answer
}

/// The answer to a request whose origin began a transfer before. `None` for a new
/// one, and for one that has failed without moving money.
async fn repeated(
    dfsp: &Arc<Dfsp>,
    (kind, origin): (RowKind, &str),
    request: &Object,
) -> Option<BackendReply> {
    let hash = OutboundTransfer::hash_of(request);
    let (waiter, answer) = waiter();
    if dfsp.outbound.send(&origin_key((kind, origin)), Input::Join(hash.clone(), waiter)) > 0 {
        return Some(wait(dfsp, answer, "Timeout waiting for the transfer").await);
    }
    let id: String = dfsp.load(kind, origin)?;
    let stored: OutboundTransfer = dfsp.load(RowKind::Outbound, &id)?;
    match stored.phase {
        Phase::Failed | Phase::Aborted => None,
        _ if stored.request_hash != hash => Some(OutboundTransfer::changed()),
        _ => Some(BackendReply { status: 200, body: stored.shown() }),
    }
}

/// Waits for an answer of a transfer.
async fn wait(dfsp: &Dfsp, answer: oneshot::Receiver<BackendReply>, what: &str) -> BackendReply {
    // A transfer answers after each of its steps.
    let policy = &dfsp.policy;
    let longest = Duration::from_millis(2 * policy.timeout_ms + policy.look_up_ms()) + MARGIN;
    match timeout(longest, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => unavailable("the transfer ended without an answer"),
        Err(_) => state_error(504, ("2004", what), "transferState", json!({})),
    }
}

async fn get_transfer(dfsp: &Arc<Dfsp>, id: &str, trace: [u8; 16]) -> BackendReply {
    if TransferId::parse(id).is_none() {
        return invalid("transferId should be a UUID or a ULID");
    }
    let (waiter, answer) = waiter();
    if dfsp.outbound.send(&flow_key(id), Input::Inquire(waiter)) > 0 {
        let longest = Duration::from_millis(dfsp.policy.timeout_ms);
        return match timeout(longest, answer).await {
            Ok(Ok(answer)) if answer.status == 200 => status_of(&answer.body),
            Ok(Ok(answer)) => answer,
            _ => {
                let what = format!("Timeout getting transfer {id}");
                state_error(504, ("2004", &what), "transferState", json!({ "transferId": id }))
            }
        };
    }
    match dfsp.load::<OutboundTransfer>(RowKind::Outbound, id) {
        Some(stored) if stored.phase == Phase::Failed => stored.failure(&dfsp.policy),
        Some(stored) => status_of(&stored.shown()),
        None => ask_for_transfer(dfsp, id, trace).await,
    }
}

fn status_of(shown: &Value) -> BackendReply {
    let mut body = Object::new();
    for name in ["transferId", "currentState", "fulfil", "lastError"] {
        crate::forms::put(&mut body, name, &shown[name]);
    }
    BackendReply { status: 200, body: body.into() }
}

/// Asks the hub for a transfer that this adapter did not send.
async fn ask_for_transfer(dfsp: &Arc<Dfsp>, id: &str, trace: [u8; 16]) -> BackendReply {
    let path = format!("/transfers/{id}");
    let request = HubRequest { method: Method::GET, path, destination: None, body: None };
    let what = format!("Timeout getting transfer {id}");
    match ask(dfsp, format!("transfers/{id}"), request, trace, &what).await {
        Ok((headers, body)) => {
            let state = match body["transferState"].as_str() {
                Some("COMMITTED") => "COMPLETED",
                Some("ABORTED") => "ABORTED",
                Some(state) => state,
                None => "ERROR_OCCURRED",
            };
            let fulfil = json!({ "headers": headers, "body": body });
            let body = json!({ "transferId": id, "currentState": state, "fulfil": fulfil });
            BackendReply { status: 200, body }
        }
        Err(failure) => failure.answer("transferState", json!({ "transferId": id })),
    }
}

async fn put_transfer(dfsp: &Arc<Dfsp>, id: &str, body: &[u8]) -> BackendReply {
    let checked = parse(body)
        .and_then(|body| checks::resume(&body, checks::RESUME).map_err(|why| invalid(&why)));
    match checked {
        Ok(accept) => resume_transfer(dfsp, id, accept).await,
        Err(answer) => answer,
    }
}

async fn resume_transfer(dfsp: &Arc<Dfsp>, id: &str, accept: Object) -> BackendReply {
    let (waiter, answer) = waiter();
    let what = "Timeout waiting for the transfer";
    let input = Input::Resume(accept.clone(), waiter.clone());
    if dfsp.outbound.send(&flow_key(id), input) > 0 {
        return wait(dfsp, answer, what).await;
    }
    let Some(mut transfer) = dfsp.load::<OutboundTransfer>(RowKind::Outbound, id) else {
        return unknown_flow("transferState", "transferId", id);
    };
    if !transfer.is_paused() {
        let body = if transfer.phase == Phase::Failed { Value::Null } else { transfer.shown() };
        return BackendReply { status: 200, body };
    }
    let place = match place(dfsp) {
        Ok(place) => place,
        Err(answer) => return answer,
    };
    let effects = transfer.handle(Event::Resume(accept), &dfsp.policy, now_ms());
    let key = origin(&transfer).map(origin_key);
    let Some(mut flow) = OutboundFlow::register(dfsp, transfer, Some(place)) else {
        return unavailable("the transfer is in progress");
    };
    if dfsp.policy.idempotent_home_transaction_id {
        key.into_iter().for_each(|key| flow.add_key(key));
    }
    flow.add_waiter(waiter);
    tokio::spawn(flow.run(effects));
    wait(dfsp, answer, what).await
}

/// Why a request with one step has failed.
pub(crate) enum Failure {
    TimedOut(String),
    /// HTTP status and body of the hub's answer.
    Refused(u16, Value),
    /// Body of the error callback.
    Error(Value),
    Unanswered(String),
}

impl Failure {
    pub(crate) fn answer(self, member: &str, state: Value) -> BackendReply {
        let (status, http_status, error, message) = match self {
            Self::TimedOut(what) => {
                let error = crate::forms::error_information("2004", &what);
                (504, 504, error, what)
            }
            Self::Refused(status, body) => (500, status, body, "Refused by the hub".to_owned()),
            Self::Error(body) => (500, 500, body, "Got an error response".to_owned()),
            Self::Unanswered(why) => {
                let error = crate::forms::error_information("1001", &why);
                (500, 500, error, "The hub cannot be reached".to_owned())
            }
        };
        let (code, message) = match error_of(&error) {
            Some((code, text)) if status == 500 => {
                (code.to_owned(), format!("{message}: {code} {text}"))
            }
            Some((code, _)) => (code.to_owned(), message),
            None => ("2001".to_owned(), message),
        };
        let is_unknown = member == OneStep::Parties.member() && PARTY_UNKNOWN.contains(&&*code);
        let status = if is_unknown { 404 } else { status };
        let mut state = crate::forms::object(&state);
        state.insert("currentState".to_owned(), "ERROR_OCCURRED".into());
        state.insert("lastError".to_owned(), last_error(http_status, error));
        let mut body = Object::new();
        body.insert("message".to_owned(), message.into());
        body.insert("statusCode".to_owned(), code.into());
        body.insert(member.to_owned(), state.into());
        BackendReply { status, body: body.into() }
    }
}

impl OneStep {
    const fn member(self) -> &'static str {
        match self {
            Self::Parties => "requestPartiesInformationState",
            Self::Quotes => "requestQuotesInformationState",
            Self::SimpleTransfers => "requestSimpleTransfersInformationState",
        }
    }
}

/// Sends a request and waits for its callback.
pub(crate) async fn ask(
    dfsp: &Arc<Dfsp>,
    key: String,
    request: HubRequest,
    trace: [u8; 16],
    what: &str,
) -> Result<(Value, Value), Failure> {
    let (_wait, mut inputs) = dfsp.outbound.register(vec![key]);
    count(&dfsp.counts.hub_requests);
    match dfsp.hub.send(&request, trace).await {
        HubAnswer::Accepted => {}
        HubAnswer::Refused(status, body) => return Err(Failure::Refused(status, body)),
        HubAnswer::Unanswered(why) => {
            count(&dfsp.counts.hub_unanswered);
            return Err(Failure::Unanswered(why));
        }
    }
    let callback = async {
        loop {
            match inputs.recv().await {
                Some(Input::Event(Event::Callback(callback))) => return callback,
                Some(_) => {}
                // The registration holds a sender.
                None => std::future::pending::<()>().await,
            }
        }
    };
    match timeout(Duration::from_millis(dfsp.policy.timeout_ms), callback).await {
        Ok(callback) if callback.is_error => Err(Failure::Error(callback.body)),
        Ok(callback) => Ok((callback.headers, callback.body)),
        Err(_) => Err(Failure::TimedOut(what.to_owned())),
    }
}

/// The party in a path, checked as FSPIOP checks it.
pub(crate) fn checked_party<'a>(
    method: &Method,
    path: &'a str,
) -> Result<PartyPath<'a>, BackendReply> {
    let route = fspiop::find(method, path).and_then(|route| match route {
        fspiop::MatchedRoute::Api(api) => api.route(None),
        _ => Err(fspiop::Refusal::unknown_uri()),
    });
    match route {
        Ok(fspiop::Route::PartiesGet(party) | fspiop::Route::ParticipantsDelete(party)) => {
            Ok(party)
        }
        Ok(_) => Err(invalid("not a party")),
        Err(refusal) => Err(invalid(&refusal.description)),
    }
}

async fn get_party(
    dfsp: &Arc<Dfsp>,
    (kind, id, sub): (&str, &str, Option<&str>),
    trace: [u8; 16],
) -> BackendReply {
    let path = match sub {
        Some(sub) => format!("/parties/{kind}/{id}/{sub}"),
        None => format!("/parties/{kind}/{id}"),
    };
    let party = match checked_party(&Method::GET, &path) {
        Ok(party) => party,
        Err(answer) => return answer,
    };
    let (id, sub) = (&*party.id.text, party.sub_id.as_ref().map(|sub| &*sub.text));
    let key = party_key_of_path(&party);
    let mut state = Object::new();
    state.insert("idType".to_owned(), party.kind.as_str().into());
    state.insert("idValue".to_owned(), id.into());
    if let Some(sub) = sub {
        state.insert("idSubValue".to_owned(), sub.into());
    }
    let what = format!("Timeout getting parties {id}");
    let request =
        HubRequest { method: Method::GET, path: path.clone(), destination: None, body: None };
    match ask(dfsp, key, request, trace, &what).await {
        Ok((headers, mut body)) => {
            let party = forms::message(headers, body["party"].take());
            BackendReply { status: 200, body: completed("party", party) }
        }
        Err(failure) => failure.answer(OneStep::Parties.member(), state.into()),
    }
}

/// The answer of a route with one step.
fn completed(name: &str, found: Value) -> Value {
    let mut body = Object::new();
    body.insert(name.to_owned(), found);
    body.insert("currentState".to_owned(), "COMPLETED".into());
    body.into()
}

/// The recipient and the message of an envelope, checked as FSPIOP checks the message.
fn message(body: &[u8], name: &str, operation: Operation) -> Result<(String, Value), BackendReply> {
    let mut body = parse(body)?;
    let (fsp, message) = checks::envelope(&body, name).map_err(|why| invalid(&why))?;
    fspiop::body::check(operation, &forms::bytes(message))
        .map_err(|refusal| invalid(&refusal.description))?;
    let fsp = fsp.to_owned();
    Ok((fsp, body[name].take()))
}

async fn post_quote(dfsp: &Arc<Dfsp>, body: &[u8], trace: [u8; 16]) -> BackendReply {
    let (fsp, message) = match message(body, "quotesPostRequest", Operation::QuotesPost) {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    let id = message["quoteId"].as_str().unwrap_or_default().to_owned();
    let state = json!({ "quoteId": id });
    let what = format!("Timeout requesting quote {id}");
    let request = HubRequest {
        method: Method::POST,
        path: "/quotes".to_owned(),
        destination: Some(fsp),
        body: Some(message),
    };
    match ask(dfsp, format!("quotes/{id}"), request, trace, &what).await {
        Ok((headers, body)) => {
            let quotes = forms::message(headers, body);
            BackendReply { status: 200, body: completed("quotes", quotes) }
        }
        Err(failure) => failure.answer(OneStep::Quotes.member(), state),
    }
}

async fn post_simple_transfer(dfsp: &Arc<Dfsp>, body: &[u8], trace: [u8; 16]) -> BackendReply {
    let (fsp, message) = match message(body, "transfersPostRequest", Operation::TransfersPost) {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    if message["payerFsp"] != dfsp.policy.fsp_id.as_str() {
        return invalid("request.body.transfersPostRequest.payerFsp should be the own name");
    }
    let place = match place(dfsp) {
        Ok(place) => place,
        Err(answer) => return answer,
    };
    let id = message["transferId"].as_str().unwrap_or_default();
    if dfsp.load::<OutboundTransfer>(RowKind::Outbound, id).is_some() {
        return plain_error(400, "3106", &format!("transferId {id} was used before"));
    }
    let (transfer, effects) =
        OutboundTransfer::simple(message, &fsp, trace, &dfsp.policy, now_ms());
    let Some(mut flow) = OutboundFlow::register(dfsp, transfer, Some(place)) else {
        return unavailable("the transfer is in progress");
    };
    let (waiter, answer) = waiter();
    flow.add_waiter(waiter);
    tokio::spawn(flow.run(effects));
    let answer = wait(dfsp, answer, "Timeout waiting for the transfer").await;
    simple_answer(answer)
}

/// The answer of a transfer in the form of `POST /simpleTransfers`.
fn simple_answer(mut answer: BackendReply) -> BackendReply {
    if answer.status == 200 {
        let transfer = answer.body["fulfil"].take();
        let state = answer.body["currentState"].take();
        answer.body = json!({ "currentState": state });
        answer.body["transfer"] = transfer;
    } else if let Some(body) = answer.body.as_object_mut()
        && let Some(state) = body.remove("transferState")
    {
        body.insert(OneStep::SimpleTransfers.member().to_owned(), state);
    }
    answer
}

/// The event of a callback.
pub(crate) fn callback_event(
    kind: CallbackKind,
    is_error: bool,
    headers: Value,
    body: Value,
) -> Input {
    let callback = crate::outbound::Callback { kind, is_error, headers, body };
    Input::Event(Event::Callback(callback))
}
