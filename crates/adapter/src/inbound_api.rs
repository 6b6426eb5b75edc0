//! The FSPIOP server of the DFSP: requests of the hub are answered at once, work follows.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fspiop::headers::FSPIOP_SIGNATURE;
use fspiop::route_table::Operation;
use fspiop::{ErrorCode, MatchedRoute, PartyPath, Refusal, RequestHeaders, Route};
use http::header::{ACCEPT, AUTHORIZATION, DATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::accounts::{account_key, batch_key};
use crate::backend::BackendError;
use crate::dfsp::{Dfsp, count};
use crate::forms::{self, to_fspiop_party};
use crate::http_server::{self, Answered, Handler};
use crate::hub::HubAnswer;
use crate::ids::{date_time, now_ms, random};
use crate::inbound::{
    InboundEvent, InboundTransfer, QuoteRecord, backend_quote_request, quote_response,
};
use crate::inbound_flow::InboundFlow;
use crate::outbound::{CallbackKind, HubRequest, party_key_of_path};
use crate::outbound_api::callback_event;
use crate::request_to_pay::{self, backend_transaction_request};
use crate::store::{Durability, RowKind};
use crate::tenants::Tenants;
use crate::unsupported::Unsupported;
use crate::{bulk, inbound_bulk, unsupported};

/// Attempts to deliver a response to a look-up or a quote.
const ATTEMPTS: u32 = 3;
/// Pause between them.
const PAUSE: Duration = Duration::from_secs(1);

/// The FSPIOP server.
pub(crate) struct InboundApi {
    pub(crate) tenants: Tenants,
}

/// A request of the hub that passed all checks.
pub(crate) struct Request {
    pub(crate) source: String,
    /// The version of its body, in which it is answered.
    pub(crate) version: String,
    pub(crate) trace: [u8; 16],
    /// Its headers as an object.
    pub(crate) headers: Value,
    pub(crate) body: Value,
}

impl Handler for InboundApi {
    async fn handle(&self, head: Parts, body: Bytes) -> Answered {
        let Some((dfsp, path)) = self.tenants.find(head.uri.path()) else {
            return refusal(&Refusal::unknown_uri());
        };
        if matches!(path, "/" | "/health") && head.method == Method::GET {
            return http_server::json(200, &json!({ "status": "OK" }));
        }
        match respond(dfsp, &head, path, &body).await {
            Ok(status) => http_server::json(status, &Value::Null),
            Err(why) => refusal(&why),
        }
    }

    fn unreadable(&self, is_too_long: bool) -> Answered {
        refusal(&match is_too_long {
            true => Refusal::too_large(),
            false => Refusal::malformed("the body breaks off"),
        })
    }
}

fn refusal(why: &Refusal) -> Answered {
    http_server::with_body(why.status.as_u16(), "application/json", why.body())
}

async fn respond(dfsp: &Arc<Dfsp>, head: &Parts, path: &str, body: &[u8]) -> Result<u16, Refusal> {
    fspiop::request_head::check(head)?;
    let unsupported = unsupported::inbound(head.method.as_str(), path);
    if let Some(Unsupported::Operation(why)) = unsupported {
        return Err(Refusal::new(ErrorCode::NOT_IMPLEMENTED, why));
    }
    let route = fspiop::find(&head.method, path).map_err(|why| match unsupported {
        Some(Unsupported::Method) => Refusal::method_not_allowed(),
        _ => why,
    })?;
    let MatchedRoute::Api(api) = route else {
        return Err(Refusal::unknown_uri());
    };
    let headers = completed(head);
    let checked = fspiop::headers::check(&headers, &head.method, api.resource().as_str())?;
    check_destination(dfsp, &checked)?;
    let operation = api.operation();
    check_signature(dfsp, head, path, body)?;
    let body = parse(head, operation, body)?;
    let request = Request {
        source: checked.source.as_str().to_owned(),
        version: checked.version.as_str().to_owned(),
        trace: checked.trace.map_or_else(|| random().to_be_bytes(), |trace| trace.trace_id),
        headers: shown(&head.headers),
        body,
    };
    count(&dfsp.counts.callbacks);
    // Messages of hubs, which no hub serves: their routes have no identifiers.
    let id = path.trim_matches('/').split('/').nth(1).unwrap_or_default();
    match operation {
        Operation::TransfersPatch => {
            let event =
                InboundEvent::Notice { is_patch: true, is_error: false, body: request.body };
            notice(dfsp, id, event);
            return Ok(200);
        }
        Operation::ParticipantsBatchPut | Operation::ParticipantsBatchError => {
            let is_error = operation == Operation::ParticipantsBatchError;
            let Request { headers, body, .. } = request;
            let event = callback_event(CallbackKind::Participants, is_error, headers, body);
            dfsp.outbound.send(&batch_key(id), event);
            return Ok(200);
        }
        _ => {}
    }
    let route = api.route(head.uri.query())?;
    match head.method {
        Method::PUT => put(dfsp, &route, operation, request).map(|()| 200),
        _ => work(dfsp, route, operation, request).await.map(|()| 202),
    }
}

/// The headers with those that a hub may leave out towards a DFSP.
fn completed(head: &Parts) -> HeaderMap {
    let mut headers = head.headers.clone();
    if !headers.contains_key(DATE) {
        headers.insert(DATE, fspiop::time::date_header(now_ms()));
    }
    if !headers.contains_key(ACCEPT)
        && let Some(media) = headers.get(http::header::CONTENT_TYPE).cloned()
    {
        headers.insert(ACCEPT, media);
    }
    headers
}

fn check_destination(dfsp: &Dfsp, headers: &RequestHeaders<'_>) -> Result<(), Refusal> {
    match headers.destination {
        Some(name) if name.as_str() != dfsp.policy.fsp_id => {
            let what = format!("fspiop-destination is not {}", dfsp.policy.fsp_id);
            Err(Refusal::new(ErrorCode::VALIDATION, &what))
        }
        _ => Ok(()),
    }
}

fn check_signature(dfsp: &Dfsp, head: &Parts, path: &str, body: &[u8]) -> Result<(), Refusal> {
    let Some(keys) = &dfsp.keys else { return Ok(()) };
    let is_party = head.method == Method::PUT && path.starts_with("/parties/");
    let is_exempt = head.method == Method::GET
        || (is_party
            && !dfsp.verifies_put_parties
            && !head.headers.contains_key(&FSPIOP_SIGNATURE));
    if is_exempt {
        return Ok(());
    }
    let signed = jws::Signed { method: &head.method, path, headers: &head.headers, body };
    jws::verify(&signed, &keys.ring()).map_err(|error| {
        count(&dfsp.counts.signatures_refused);
        tracing::warn!(dfsp = %dfsp.policy.fsp_id, path, "signature refused: {error}");
        error.refusal()
    })
}

fn parse(head: &Parts, operation: Operation, body: &[u8]) -> Result<Value, Refusal> {
    if head.method == Method::GET {
        return Ok(Value::Null);
    }
    fspiop::body::check(operation, body)?;
    let body: Value = serde_json::from_slice(body)
        .map_err(|_| Refusal::new(ErrorCode::MALFORMED_SYNTAX, "the body is not valid JSON"))?;
    match operation {
        Operation::TransfersPatch if !body["transferState"].is_string() => {
            Err(Refusal::missing(". must have required property 'transferState'"))
        }
        _ => Ok(body),
    }
}

/// Headers as the back end sees them, without credentials.
fn shown(headers: &HeaderMap) -> Value {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let shown = headers.iter().filter(|(name, _)| **name != AUTHORIZATION);
    shown.map(|(name, value)| (name.as_str().to_owned(), Value::from(text(value)))).collect()
}

/// Passes a response on to what waits for it. One without a receiver is late.
fn put(
    dfsp: &Arc<Dfsp>,
    route: &Route<'_>,
    operation: Operation,
    request: Request,
) -> Result<(), Refusal> {
    let Request { headers, body, .. } = request;
    let is_error = matches!(
        operation,
        Operation::PartiesError
            | Operation::QuotesError
            | Operation::TransfersError
            | Operation::AuthorizationsError
            | Operation::TransactionRequestsError
            | Operation::ParticipantsError
            | Operation::BulkQuotesError
            | Operation::BulkTransfersError
    );
    let (key, kind) = match route {
        Route::PartiesPut(party) | Route::PartiesError(party) => {
            (party_key_of_path(party), CallbackKind::Parties)
        }
        Route::ParticipantsPut(party) | Route::ParticipantsError(party) => {
            (account_key(party), CallbackKind::Participants)
        }
        Route::BulkTransfersPut(path) | Route::BulkTransfersError(path) => {
            inbound_bulk::notice(dfsp, &path.name.text, is_error, &body);
            (bulk::transfer_key(&path.name.text), CallbackKind::BulkTransfers)
        }
        Route::Exchange(exchange) => match (operation, &exchange.id) {
            (Operation::BulkQuotesPut | Operation::BulkQuotesError, Some(id)) => {
                (bulk::quote_key(&id.name.text), CallbackKind::BulkQuotes)
            }
            (Operation::QuotesPut | Operation::QuotesError, Some(id)) => {
                (format!("quotes/{}", id.name.text), CallbackKind::Quotes)
            }
            (Operation::AuthorizationsPut | Operation::AuthorizationsError, Some(id)) => {
                (format!("authorizations/{}", id.name.text), CallbackKind::Authorizations)
            }
            (Operation::TransactionRequestsPut | Operation::TransactionRequestsError, Some(id)) => {
                let key = format!("transactionRequests/{}", id.name.text);
                let kind = CallbackKind::TransactionRequests;
                if !dfsp.outbound.has(&key) && !is_error {
                    request_to_pay::notify(dfsp, &id.name.text, &body);
                    return Ok(());
                }
                (key, kind)
            }
            _ => return Err(Refusal::not_implemented()),
        },
        Route::TransfersPut(path) | Route::TransfersError(path) => {
            let key = format!("transfers/{}", path.name.text);
            if dfsp.inbound.has(&path.name.text) || !dfsp.outbound.has(&key) {
                let body = body.clone();
                let event = InboundEvent::Notice { is_patch: false, is_error, body };
                notice(dfsp, &path.name.text, event);
            }
            (key, CallbackKind::Transfers)
        }
        _ => return Err(Refusal::not_implemented()),
    };
    dfsp.outbound.send(&key, callback_event(kind, is_error, headers, body));
    Ok(())
}

/// Passes the hub's decision on to an incoming transfer, also to one that has come to rest.
fn notice(dfsp: &Arc<Dfsp>, id: &str, event: InboundEvent) {
    if dfsp.inbound.has(id) {
        dfsp.inbound.send(id, event);
        return;
    }
    let Some(mut transfer) = dfsp.load_inbound(id) else { return };
    let effects = transfer.handle(event, &dfsp.policy, now_ms());
    if effects.is_empty() {
        return;
    }
    if let Some(flow) = InboundFlow::register(dfsp, transfer, None, None) {
        tokio::spawn(flow.run(effects));
    }
}

/// Starts the work of a request. The hub's answer does not wait for it, except for the disk.
async fn work(
    dfsp: &Arc<Dfsp>,
    route: Route<'_>,
    operation: Operation,
    request: Request,
) -> Result<(), Refusal> {
    let place = Arc::clone(&dfsp.inbound_places).try_acquire_owned();
    let place = place.map_err(|_| Refusal::unavailable())?;
    let job = Job { dfsp: Arc::clone(dfsp), request, place: Some(place) };
    match route {
        Route::PartiesGet(party) => {
            let path = party_path("parties", &party);
            tokio::spawn(async move { job.find_party(&path).await });
        }
        Route::ParticipantsGet(party) => {
            let paths = [party_path("parties", &party), party_path("participants", &party)];
            tokio::spawn(async move { job.find_participant(&paths[0], &paths[1]).await });
        }
        Route::Exchange(exchange) => match (operation, &exchange.id) {
            (Operation::QuotesPost, _) => {
                tokio::spawn(job.quote());
            }
            (Operation::QuotesGet, Some(id)) => {
                let path = format!("/quotes/{}/error", id.name.text);
                let error = forms::error_information("3205", "Quote ID not found");
                tokio::spawn(async move { job.deliver(path, error).await });
            }
            (Operation::TransactionRequestsPost, _) => {
                tokio::spawn(job.transaction_request());
            }
            (Operation::BulkQuotesPost, _) => {
                tokio::spawn(job.bulk_quote());
            }
            (Operation::BulkQuotesGet, Some(id)) => {
                let id = id.name.text.to_string();
                tokio::spawn(async move { job.show_bulk_quote(&id).await });
            }
            (Operation::AuthorizationsGet, Some(id)) => {
                let id = id.name.escaped().to_string();
                tokio::spawn(async move { job.authorization(&id).await });
            }
            _ => return Err(Refusal::not_implemented()),
        },
        Route::TransfersPost => return job.receive_transfer().await,
        Route::BulkTransfersPost => return job.receive_bulk().await,
        Route::BulkTransfersGet(path) => {
            let id = path.name.text.to_string();
            tokio::spawn(async move { job.show_bulk(&id).await });
        }
        Route::TransfersGet(path) => {
            let path = format!("/transfers/{}", path.name.escaped());
            tokio::spawn(async move { job.show_transfer(&path).await });
        }
        _ => return Err(Refusal::not_implemented()),
    }
    Ok(())
}

/// The path of a party, as the hub wrote its identifiers.
fn party_path(resource: &str, party: &PartyPath<'_>) -> String {
    let mut path = format!("/{resource}/{}/{}", party.kind.as_str(), party.id.escaped());
    if let Some(sub) = &party.sub_id {
        path.push('/');
        path.push_str(&sub.escaped());
    }
    path
}

/// The work of one request.
pub(crate) struct Job {
    pub(crate) dfsp: Arc<Dfsp>,
    pub(crate) request: Request,
    /// Its place among the requests in progress, unless it is continued after a restart.
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

impl Job {
    async fn find_party(&self, path: &str) {
        match self.ask_backend(Method::GET, path, None).await {
            Ok(None) => {}
            Ok(Some(mut party)) => {
                party["fspId"] = self.dfsp.policy.fsp_id.clone().into();
                let body = json!({ "party": to_fspiop_party(&party) });
                self.deliver(path.to_owned(), body).await;
            }
            Err(error) => self.deliver_error(path, &error).await,
        }
    }

    async fn find_participant(&self, party: &str, path: &str) {
        match self.ask_backend(Method::GET, party, None).await {
            Ok(None) => {}
            Ok(Some(_)) => {
                let body = json!({ "fspId": self.dfsp.policy.fsp_id });
                self.deliver(path.to_owned(), body).await;
            }
            Err(error) => self.deliver_error(path, &error).await,
        }
    }

    async fn quote(self) {
        let quote = &self.request.body;
        let path = format!("/quotes/{}", quote["quoteId"].as_str().unwrap_or_default());
        let body = backend_quote_request(quote);
        let answer = match self.ask_backend(Method::POST, "/quoterequests", Some(&body)).await {
            Ok(None) => return,
            Ok(Some(answer)) => answer,
            Err(error) => return self.deliver_error(&path, &error).await,
        };
        let (secret, policy) = (&self.dfsp.secret, &self.dfsp.policy);
        match quote_response((quote, body), answer, secret, policy, now_ms()) {
            Ok(record) => {
                if self.save_quote(&record).await {
                    self.deliver(path, record.fspiop_response).await;
                }
            }
            Err(why) => {
                let message = format!("the back end's quote cannot be used: {why}");
                let error = BackendError { code: "2001".to_owned(), message, is_certain: true };
                self.deliver_error(&path, &error).await;
            }
        }
    }

    /// Asks the back end of the payer whether it will pay a request.
    async fn transaction_request(self) {
        let request = &self.request.body;
        let id = request["transactionRequestId"].as_str().unwrap_or_default();
        let path = format!("/transactionRequests/{id}");
        let body = backend_transaction_request(request);
        match self.ask_backend(Method::POST, "/transactionrequests", Some(&body)).await {
            Ok(None) => {}
            Ok(Some(answer)) => {
                let mut body = forms::Object::new();
                forms::copy(&answer, &["transactionId", "transactionRequestState"], &mut body);
                let list = forms::extension_list(&answer["extensionList"]);
                forms::put(&mut body, "extensionList", &list);
                self.deliver(path, body.into()).await;
            }
            Err(error) => self.deliver_error(&path, &error).await,
        }
    }

    /// Asks the back end of the payee for the password that the payer has entered.
    async fn authorization(&self, id: &str) {
        let path = format!("/authorizations/{id}");
        match self.ask_backend(Method::GET, &format!("/otp/{id}"), None).await {
            Ok(None) => {}
            Ok(Some(answer)) => {
                let value = match &answer["otpValue"] {
                    Value::String(value) => value.clone(),
                    other => other.to_string(),
                };
                let info = json!({ "authentication": "OTP", "authenticationValue": value });
                let body = json!({ "authenticationInfo": info, "responseType": "ENTERED" });
                self.deliver(path, body).await;
            }
            Err(error) => self.deliver_error(&path, &error).await,
        }
    }

    /// Keeps a quote; without it the transfer would be refused. The quote of a transfer that has
    /// arrived stays: the transfer's row refers to it.
    async fn save_quote(&self, record: &QuoteRecord) -> bool {
        let id = record.request["transactionId"].as_str().unwrap_or_default();
        if self.dfsp.inbound.has(id) || self.dfsp.contains(RowKind::Inbound, id) {
            return true;
        }
        let Ok(value) = serde_json::to_vec(record) else { return false };
        let row = self.dfsp.row(RowKind::Quote, id, value, false);
        self.dfsp.save(vec![row], Durability::Written).await.is_ok()
    }

    async fn receive_transfer(self) -> Result<(), Refusal> {
        let Self { dfsp, request, place } = self;
        let id = request.body["transferId"].as_str().unwrap_or_default().to_owned();
        if dfsp.inbound.send(&id, InboundEvent::PreparedAgain) > 0 {
            return Ok(());
        }
        let now = now_ms();
        if let Some(mut known) = dfsp.load_inbound(&id) {
            let effects = known.handle(InboundEvent::PreparedAgain, &dfsp.policy, now);
            if let Some(flow) = InboundFlow::register(&dfsp, known, None, place) {
                tokio::spawn(flow.run(effects));
            }
            return Ok(());
        }
        let quote: Option<QuoteRecord> = dfsp.load(RowKind::Quote, &id);
        let message = (request.headers, request.body);
        let (transfer, effects) =
            InboundTransfer::begin(message, quote, request.trace, &dfsp.policy, now);
        let (recorded, is_recorded) = oneshot::channel();
        if let Some(flow) = InboundFlow::register(&dfsp, transfer, Some(recorded), place) {
            tokio::spawn(flow.run(effects));
        }
        match is_recorded.await {
            Ok(true) => Ok(()),
            _ => Err(Refusal::unavailable()),
        }
    }

    async fn show_transfer(&self, path: &str) {
        match self.ask_backend(Method::GET, path, None).await {
            Ok(None) => {}
            Ok(Some(found)) => {
                let mut body = forms::Object::new();
                let time = match &found["timestamp"] {
                    Value::Null => date_time(now_ms()).into(),
                    time => time.clone(),
                };
                body.insert("completedTimestamp".to_owned(), time);
                forms::copy(&found, &["transferState", "fulfilment"], &mut body);
                let list = forms::extension_list(&found["extensions"]);
                forms::put(&mut body, "extensionList", &list);
                self.deliver(path.to_owned(), body.into()).await;
            }
            Err(error) => self.deliver_error(path, &error).await,
        }
    }

    pub(crate) async fn ask_backend(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Option<Value>, BackendError> {
        let answer = self.dfsp.backend.call(method, path, body).await;
        if answer.is_err() {
            count(&self.dfsp.counts.backend_errors);
        }
        answer
    }

    pub(crate) async fn deliver_error(&self, path: &str, error: &BackendError) {
        let text: String = error.message.chars().take(fspiop::DESCRIPTION_CHARS_MAX).collect();
        let body = forms::error_information(&error.code, &text);
        self.deliver(format!("{path}/error"), body).await;
    }

    /// Sends a response to the sender of the request. Returns whether the hub has answered. The
    /// payer repeats requests whose response does not arrive.
    pub(crate) async fn deliver(&self, path: String, body: Value) -> bool {
        let request = HubRequest {
            method: Method::PUT,
            path,
            destination: Some(self.request.source.clone()),
            body: Some(body),
        };
        for attempt in 1..=ATTEMPTS {
            count(&self.dfsp.counts.hub_requests);
            let version = &self.request.version;
            match self.dfsp.hub.send_as(version, &request, self.request.trace).await {
                HubAnswer::Accepted => return true,
                HubAnswer::Refused(status, body) if status < 500 => {
                    let path = &request.path;
                    tracing::warn!(dfsp = %self.dfsp.policy.fsp_id, path, status, %body, "refused");
                    return true;
                }
                HubAnswer::Refused(..) | HubAnswer::Unanswered(_) => {
                    count(&self.dfsp.counts.hub_unanswered);
                }
            }
            if attempt < ATTEMPTS {
                tokio::time::sleep(PAUSE).await;
            }
        }
        false
    }
}
