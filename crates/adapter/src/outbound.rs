//! The payer's side of one transfer as a state machine without I/O: look-up, quote, transfer.
//!
//! The driver passes events in and carries effects out in their order. It persists the machine at
//! each [`Effect::Save`], so that a restart continues from the last saved phase. Money can move
//! only after the prepare was sent. From then on the machine does not end before it knows the
//! outcome: it resends the identical prepare until it expires, and asks the hub with GET.

use fspiop::{PartyPath, ilp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::forms::{self, Object, error_of, extension_list, money, put, to_fspiop_party};
use crate::ids::date_time;
use crate::policy::Policy;

/// First pause before the hub is asked again, in milliseconds.
const PAUSE_MS: u64 = 1_000;
/// Longest pause between two questions, in milliseconds.
const PAUSE_MS_MAX: u64 = 60_000;
/// Time after the expiration in which the hub may still report a prepare as unknown and decide it,
/// in milliseconds: it covers a message in flight and the difference of the clocks.
const UNKNOWN_AFTER_MS: u64 = 10_000;
/// Maximum number of answers to one look-up.
const PARTIES_MAX: usize = 16;
/// The error about a party without a DFSP.
pub(crate) const NO_FSP: &str = "Resolved payee party has no fspId";
/// Party not found by a hub that knows no such transfer.
const TRANSFER_UNKNOWN: &str = "3208";

/// The step that a transfer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// The party is being looked up.
    LookUp,
    /// The back end must accept the party.
    PartyPause,
    /// The quote was requested.
    Quote,
    /// The back end must accept the quote.
    QuotePause,
    /// The password of the payer was requested, for a transfer that the payee asked for.
    Otp,
    /// The back end must accept the password.
    OtpPause,
    /// The prepare is owed to the hub or was sent; the outcome is unknown.
    Prepared,
    /// Committed.
    Completed,
    /// Refused by the back end.
    Aborted,
    /// Failed; no money moved.
    Failed,
}

/// One outgoing transfer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OutboundTransfer {
    /// Its step.
    pub phase: Phase,
    /// The object that the back end gets, with all messages so far.
    pub object: Object,
    /// Trace id of all its messages.
    pub trace: [u8; 16],
    /// Time of the next [`Event::Deadline`], in milliseconds since 1970.
    pub deadline_ms: Option<u64>,
    /// Expiration of the prepare, in milliseconds since 1970.
    expires_ms: u64,
    /// Whether the back end has its answer.
    is_answered: bool,
    /// Time at which the back end gets an answer in any case, in milliseconds since 1970.
    answer_by_ms: u64,
    /// Attempts to send the prepare.
    attempts: u32,
    /// Whether the hub has accepted the last attempt.
    is_accepted: bool,
    /// Pause before the next question.
    pause_ms: u64,
    /// Hash of the back end's request, by which a repetition is recognised.
    pub request_hash: String,
}

/// A response that the hub delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct Callback {
    /// The kind of request that it answers.
    pub kind: CallbackKind,
    /// Whether it is an error.
    pub is_error: bool,
    /// Its headers.
    pub headers: Value,
    /// Its body.
    pub body: Value,
}

/// The resource of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackKind {
    /// `PUT /parties/...`
    Parties,
    /// `PUT /quotes/{ID}`
    Quotes,
    /// `PUT /authorizations/{ID}`
    Authorizations,
    /// `PUT /transactionRequests/{ID}`
    TransactionRequests,
    /// `PUT /transfers/{ID}`
    Transfers,
    /// `PUT /participants/...`
    Participants,
    /// `PUT /bulkQuotes/{ID}`
    BulkQuotes,
    /// `PUT /bulkTransfers/{ID}`
    BulkTransfers,
}

/// An input of the machine.
#[derive(Clone, Debug)]
pub enum Event {
    /// A callback arrived.
    Callback(Callback),
    /// The hub has accepted a request with 2xx.
    Accepted(RequestKind),
    /// The hub has answered a request with an error.
    Refused(RequestKind, u16, Value),
    /// A request got no answer: whether the hub has it is unknown.
    Unanswered(RequestKind, String),
    /// The deadline has passed.
    Deadline,
    /// The back end resumes a paused transfer.
    Resume(Object),
    /// The process has restarted.
    Restarted,
}

/// The request that an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// `GET /parties/...`
    Party,
    /// `POST /quotes`
    Quote,
    /// `POST /transfers`
    Prepare,
    /// `GET /transfers/{ID}`
    Status,
    /// `GET /authorizations/{ID}`
    Otp,
    /// `PUT /transactionRequests/{ID}`
    Rejection,
}

/// An output of the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write the machine to the store. With `true`, wait until it is on disk.
    Save(bool),
    /// Send a request to the hub.
    Send(RequestKind, HubRequest),
    /// BackendReply the waiting back end.
    Answer(BackendReply),
}

/// A request to the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct HubRequest {
    /// GET, POST or PUT.
    pub method: http::Method,
    /// Path, beginning with the resource.
    pub path: String,
    /// Recipient, if known.
    pub destination: Option<String>,
    /// The body.
    pub body: Option<Value>,
}

/// The answer to the back end.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendReply {
    /// HTTP status.
    pub status: u16,
    /// Body; null for an empty one.
    pub body: Value,
}

/// The random parts of a transfer.
#[derive(Clone, Debug)]
pub struct NewIds {
    /// `transferId`.
    pub transfer: String,
    /// `quoteId`.
    pub quote: String,
    /// Trace id.
    pub trace: [u8; 16],
}

impl OutboundTransfer {
    /// A transfer that the back end requests.
    #[must_use]
    pub fn begin(
        request: Object,
        ids: NewIds,
        policy: &Policy,
        now_ms: u64,
    ) -> (Self, Vec<Effect>) {
        let request_hash = Self::hash_of(&request);
        let mut object = request;
        object.insert("transferId".to_owned(), ids.transfer.into());
        object.insert("quoteId".to_owned(), ids.quote.into());
        object.insert("direction".to_owned(), "OUTBOUND".into());
        object.insert("initiatedTimestamp".to_owned(), date_time(now_ms).into());
        let trace = u128::from_be_bytes(ids.trace);
        object.insert("traceId".to_owned(), format!("{trace:032x}").into());
        let mut transfer = Self {
            phase: Phase::LookUp,
            object,
            trace: ids.trace,
            deadline_ms: Some(now_ms + policy.look_up_ms()),
            expires_ms: 0,
            is_answered: false,
            answer_by_ms: 0,
            attempts: 0,
            is_accepted: false,
            pause_ms: PAUSE_MS,
            request_hash,
        };
        transfer.object["from"]["fspId"] = policy.fsp_id.clone().into();
        let effects = match transfer.object.get("skipPartyLookup") {
            Some(Value::Bool(true)) => transfer.request_quote(policy, now_ms),
            _ => transfer.look_up(),
        };
        (transfer, effects)
    }

    /// A transfer whose terms the back end knows: the transfer step alone.
    #[must_use]
    pub fn simple(
        prepare: Value,
        destination: &str,
        trace: [u8; 16],
        policy: &Policy,
        now_ms: u64,
    ) -> (Self, Vec<Effect>) {
        let expiration = prepare["expiration"].as_str().and_then(fspiop::time::parse_date_time);
        let headers = json!({ "fspiop-source": policy.fsp_id, "fspiop-destination": destination });
        let mut object = Object::new();
        object.insert("transferId".to_owned(), prepare["transferId"].clone());
        object.insert("direction".to_owned(), "OUTBOUND".into());
        object.insert("initiatedTimestamp".to_owned(), date_time(now_ms).into());
        object.insert("prepare".to_owned(), forms::message(headers, prepare));
        let answer_by_ms = now_ms + policy.timeout_ms;
        let mut transfer = Self {
            phase: Phase::Prepared,
            request_hash: Self::hash_of(&object),
            object,
            trace,
            deadline_ms: Some(answer_by_ms),
            expires_ms: expiration.unwrap_or(answer_by_ms),
            is_answered: false,
            answer_by_ms,
            attempts: 0,
            is_accepted: false,
            pause_ms: PAUSE_MS,
        };
        let effects = vec![Effect::Save(true), transfer.prepare_request()];
        (transfer, effects)
    }

    /// The hash of a request.
    #[must_use]
    pub fn hash_of(request: &Object) -> String {
        // The keys of an object are texts: writing it cannot fail.
        let bytes = serde_json::to_vec(request).unwrap_or_default();
        let hash = fspiop::body_hash(&bytes);
        let mut out = Vec::new();
        ilp::push_base64(&mut out, &hash);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The answer to a changed request with a known `homeTransactionId`.
    #[must_use]
    pub fn changed() -> BackendReply {
        let what = "homeTransactionId was used for another transfer";
        BackendReply { status: 400, body: json!({ "message": what, "statusCode": "3106" }) }
    }

    /// The answer about a transfer that has failed.
    #[must_use]
    pub fn failure(&self, policy: &Policy) -> BackendReply {
        self.error_answer(500, "The transfer failed", policy)
    }

    /// Processes one event.
    pub fn handle(&mut self, event: Event, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        match event {
            Event::Callback(callback) => self.callback(callback, policy, now_ms),
            Event::Accepted(RequestKind::Prepare) => {
                self.is_accepted = true;
                Vec::new()
            }
            Event::Accepted(_) => Vec::new(),
            Event::Refused(asked, status, body) => {
                self.refused(asked, (status, body), policy, now_ms)
            }
            Event::Unanswered(asked, why) => self.unanswered(asked, &why, now_ms),
            Event::Deadline => self.deadline(policy, now_ms),
            Event::Resume(accept) => self.resume(&accept, policy, now_ms),
            Event::Restarted => self.restarted(now_ms),
        }
    }

    /// The id of the transfer.
    #[must_use]
    pub fn transfer_id(&self) -> &str {
        self.text("transferId")
    }

    /// Keys of the callbacks that it waits for.
    #[must_use]
    pub fn awaited(&self) -> Vec<String> {
        let mut keys = vec![format!("transfers/{}", self.transfer_id())];
        if let Some(quote) = self.object.get("quoteId").and_then(Value::as_str) {
            keys.push(format!("quotes/{quote}"));
        }
        if self.phase == Phase::LookUp {
            keys.push(party_key(&self.object["to"]));
        }
        if let Some(request) = self.request_id() {
            keys.push(format!("authorizations/{request}"));
        }
        keys
    }

    /// Whether nothing more will happen without the back end.
    #[must_use]
    pub const fn is_at_rest(&self) -> bool {
        !matches!(self.phase, Phase::LookUp | Phase::Quote | Phase::Otp | Phase::Prepared)
    }

    /// Whether it waits for the back end.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        matches!(self.phase, Phase::PartyPause | Phase::QuotePause | Phase::OtpPause)
    }

    /// The payee's request that it pays.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.object.get("transactionRequestId").and_then(Value::as_str)
    }

    /// Whether it has ended.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self.phase, Phase::Completed | Phase::Aborted | Phase::Failed)
    }

    /// The state as the back end reads it.
    #[must_use]
    pub const fn current_state(&self) -> &'static str {
        match self.phase {
            Phase::PartyPause => "WAITING_FOR_PARTY_ACCEPTANCE",
            Phase::QuotePause => "WAITING_FOR_QUOTE_ACCEPTANCE",
            Phase::Completed => "COMPLETED",
            Phase::Aborted => "ABORTED",
            Phase::OtpPause => "WAITING_FOR_AUTH_ACCEPTANCE",
            Phase::LookUp | Phase::Quote | Phase::Otp | Phase::Prepared | Phase::Failed => {
                "ERROR_OCCURRED"
            }
        }
    }

    /// The whole object with its state.
    #[must_use]
    pub fn shown(&self) -> Value {
        let mut object = self.object.clone();
        object.insert("currentState".to_owned(), self.current_state().into());
        object.into()
    }

    /// Asks for the outcome now, for a transfer in doubt.
    pub fn inquire(&mut self, now_ms: u64) -> Vec<Effect> {
        match self.phase {
            Phase::Prepared => {
                self.deadline_ms = Some(now_ms + self.pause_ms);
                vec![self.status_request()]
            }
            _ => Vec::new(),
        }
    }

    fn text(&self, name: &str) -> &str {
        self.object.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn look_up(&mut self) -> Vec<Effect> {
        let to = &self.object["to"];
        let path = format!("/{}", party_path(to));
        let destination = to["fspId"].as_str().map(str::to_owned);
        let request = HubRequest { method: http::Method::GET, path, destination, body: None };
        let shown = json!({ "headers": {}, "body": {} });
        self.object.insert("getPartiesRequest".to_owned(), shown);
        vec![Effect::Send(RequestKind::Party, request)]
    }

    fn callback(&mut self, callback: Callback, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        match (self.phase, callback.kind) {
            (Phase::LookUp, CallbackKind::Parties) => self.party_found(callback, policy, now_ms),
            (Phase::Quote, CallbackKind::Quotes) => self.quoted(callback, policy, now_ms),
            (Phase::Otp, CallbackKind::Authorizations) => self.authorized(callback, policy, now_ms),
            (Phase::Prepared, CallbackKind::Transfers) => self.decided(callback, policy, now_ms),
            // A late or repeated callback.
            _ => Vec::new(),
        }
    }

    fn party_found(&mut self, callback: Callback, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        if policy.multiple_parties_response {
            self.collect_party(callback);
            return Vec::new();
        }
        let Callback { headers, body, is_error, .. } = callback;
        let found = forms::to_internal_party(&body["party"]);
        let error = if is_error { Some(body.clone()) } else { None };
        self.object.insert("getPartiesResponse".to_owned(), forms::message(headers, body));
        if let Some(error) = error {
            return self.fail("Got an error response resolving party", (500, error), policy);
        }
        if forms::merge_party(&mut self.object["to"], &found).is_none() {
            return self.fail_with(NO_FSP, "2001", policy);
        }
        put(&mut self.object, "supportedCurrencies", &found["supportedCurrencies"]);
        match policy.auto_accept_party {
            true => self.request_quote(policy, now_ms),
            false => self.pause(Phase::PartyPause),
        }
    }

    /// Keeps one of several answers to the look-up.
    fn collect_party(&mut self, callback: Callback) {
        let Callback { headers, body, is_error, .. } = callback;
        if is_error {
            self.object.insert("lastError".to_owned(), last_error(500, body));
            return;
        }
        let name = "getPartiesResponse".to_owned();
        let answers = self.object.entry(name).or_insert_with(|| json!([]));
        if let Some(answers) = answers.as_array_mut().filter(|all| all.len() < PARTIES_MAX) {
            answers.push(forms::message(headers, body));
        }
    }

    /// Ends the time for answers to the look-up. The back end chooses one of them.
    fn parties_collected(&mut self, policy: &Policy) -> Vec<Effect> {
        let answers = self.object.get("getPartiesResponse").and_then(Value::as_array);
        let answers = answers.map_or(&[][..], Vec::as_slice);
        if let [only] = answers {
            let found = forms::to_internal_party(&only["body"]["party"]);
            if forms::merge_party(&mut self.object["to"], &found).is_none() {
                return self.fail_with(NO_FSP, "2001", policy);
            }
        } else if answers.is_empty() {
            let id = self.transfer_id().to_owned();
            return match self.object.remove("lastError") {
                Some(mut last) => {
                    let error = (500, last["mojaloopError"].take());
                    self.fail("Got an error response resolving party", error, policy)
                }
                None => self.time_out(&format!("Timeout resolving payee for transfer {id}")),
            };
        }
        self.object.remove("lastError");
        self.pause(Phase::PartyPause)
    }

    fn pause(&mut self, phase: Phase) -> Vec<Effect> {
        (self.phase, self.deadline_ms) = (phase, None);
        vec![Effect::Save(true), Effect::Answer(BackendReply { status: 200, body: self.shown() })]
    }

    fn request_quote(&mut self, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        let expires = now_ms + self.seconds("quoteExpirySeconds").unwrap_or(policy.expiry_ms);
        let o = &self.object;
        let given = |name: &str| o.get(name).unwrap_or(&Value::Null);
        let text = |value: &Value, default: &str| value.as_str().unwrap_or(default).to_owned();
        let initiator_type = text(&o["from"]["type"], "CONSUMER");
        let mut kind = Object::new();
        let scenario = text(given("transactionType"), "TRANSFER");
        kind.insert("scenario".to_owned(), text(given("scenario"), &scenario).into());
        kind.insert("initiator".to_owned(), text(given("initiator"), "PAYER").into());
        let initiator_type = text(given("initiatorType"), &initiator_type);
        kind.insert("initiatorType".to_owned(), initiator_type.into());
        put(&mut kind, "subScenario", o.get("subScenario").unwrap_or(&Value::Null));
        let mut body = Object::new();
        body.insert("quoteId".to_owned(), o["quoteId"].clone());
        body.insert("transactionId".to_owned(), o["transferId"].clone());
        put(&mut body, "transactionRequestId", given("transactionRequestId"));
        body.insert("payer".to_owned(), to_fspiop_party(&o["from"]));
        body.insert("payee".to_owned(), to_fspiop_party(&o["to"]));
        body.insert("amountType".to_owned(), o["amountType"].clone());
        body.insert("amount".to_owned(), money(&o["amount"], &o["currency"]));
        body.insert("transactionType".to_owned(), kind.into());
        body.insert("expiration".to_owned(), date_time(expires).into());
        put(&mut body, "note", o.get("note").unwrap_or(&Value::Null));
        let extensions = o.get("quoteRequestExtensions").unwrap_or(&Value::Null);
        put(&mut body, "extensionList", &extension_list(extensions));
        let request = HubRequest {
            method: http::Method::POST,
            path: "/quotes".to_owned(),
            destination: o["to"]["fspId"].as_str().map(str::to_owned),
            body: Some(body.clone().into()),
        };
        let shown = forms::message(json!({}), body.into());
        self.object.insert("quoteRequest".to_owned(), shown);
        (self.phase, self.deadline_ms) = (Phase::Quote, Some(now_ms + policy.timeout_ms));
        vec![Effect::Send(RequestKind::Quote, request)]
    }

    fn seconds(&self, name: &str) -> Option<u64> {
        Some(self.object.get(name)?.as_u64()? * 1_000)
    }

    fn quoted(&mut self, callback: Callback, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        let Callback { headers, body, is_error, .. } = callback;
        let source = headers["fspiop-source"].clone();
        let expiration = body["expiration"].as_str().and_then(fspiop::time::parse_date_time);
        let error = if is_error { Some(body.clone()) } else { None };
        self.object.insert("quoteResponse".to_owned(), forms::message(headers, body));
        put(&mut self.object, "quoteResponseSource", &source);
        if let Some(error) = error {
            return self.fail("Got an error response requesting quote", (500, error), policy);
        }
        if policy.reject_expired_quotes && expiration.is_some_and(|at| at < now_ms) {
            return self.fail_with("Quote response missed expiry deadline", "3302", policy);
        }
        let is_accepted = match (self.request_id(), self.text("initiatorType")) {
            (None, _) => policy.auto_accept_quotes,
            (Some(_), "BUSINESS") => policy.auto_accept_r2p_business_quotes,
            (Some(_), _) => return self.request_otp(policy, now_ms),
        };
        match is_accepted {
            true => self.prepare(policy, now_ms),
            false => self.pause(Phase::QuotePause),
        }
    }

    /// Asks the payee's DFSP for the one-time password that the payer has entered there.
    fn request_otp(&mut self, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        let path = format!(
            "/authorizations/{}?authenticationType=OTP&retriesLeft=1&amount={}&currency={}",
            self.text("transactionRequestId"),
            self.text("amount"),
            self.text("currency")
        );
        let destination = self.object["to"]["fspId"].as_str().map(str::to_owned);
        let request = HubRequest { method: http::Method::GET, path, destination, body: None };
        (self.phase, self.deadline_ms) = (Phase::Otp, Some(now_ms + policy.timeout_ms));
        vec![Effect::Send(RequestKind::Otp, request)]
    }

    fn authorized(&mut self, callback: Callback, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        let Callback { headers, body, is_error, .. } = callback;
        let response = json!({ "headers": headers, "body": &body });
        self.object.insert("authorizationResponse".to_owned(), response);
        if is_error {
            return self.fail("Got an error response requesting OTP", (500, body), policy);
        }
        match policy.auto_accept_r2p_device_otp && body["responseType"] == "ENTERED" {
            true => self.prepare(policy, now_ms),
            false => self.pause(Phase::OtpPause),
        }
    }

    fn prepare(&mut self, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        let expiry = self.seconds("prepareExpirySeconds").unwrap_or(policy.expiry_ms);
        self.expires_ms = now_ms + expiry;
        let source = self.object.get("quoteResponseSource").cloned().unwrap_or(Value::Null);
        let payee = &self.object["to"]["fspId"];
        let payee = if policy.pay_quote_source { &source } else { payee };
        let quote = &self.object["quoteResponse"]["body"];
        let mut body = Object::new();
        body.insert("transferId".to_owned(), self.object["transferId"].clone());
        body.insert("payeeFsp".to_owned(), payee.clone());
        body.insert("payerFsp".to_owned(), policy.fsp_id.clone().into());
        body.insert("amount".to_owned(), quote["transferAmount"].clone());
        body.insert("ilpPacket".to_owned(), quote["ilpPacket"].clone());
        body.insert("condition".to_owned(), quote["condition"].clone());
        body.insert("expiration".to_owned(), date_time(self.expires_ms).into());
        let extensions = self.object.get("transferRequestExtensions").unwrap_or(&Value::Null);
        put(&mut body, "extensionList", &extension_list(extensions));
        let headers = json!({ "fspiop-source": policy.fsp_id, "fspiop-destination": source });
        self.object.insert("prepare".to_owned(), forms::message(headers, body.into()));
        self.phase = Phase::Prepared;
        self.answer_by_ms = now_ms + policy.timeout_ms;
        self.deadline_ms = Some(self.answer_by_ms);
        let mut effects = vec![Effect::Save(true)];
        effects.push(self.prepare_request());
        effects
    }

    fn prepare_request(&mut self) -> Effect {
        self.attempts += 1;
        self.is_accepted = false;
        let prepare = &self.object["prepare"];
        let request = HubRequest {
            method: http::Method::POST,
            path: "/transfers".to_owned(),
            destination: prepare["headers"]["fspiop-destination"].as_str().map(str::to_owned),
            body: Some(prepare["body"].clone()),
        };
        Effect::Send(RequestKind::Prepare, request)
    }

    fn status_request(&self) -> Effect {
        let path = format!("/transfers/{}", self.transfer_id());
        let request = HubRequest { method: http::Method::GET, path, destination: None, body: None };
        Effect::Send(RequestKind::Status, request)
    }

    /// Processes the hub's report of the outcome, or of a state before it.
    fn decided(&mut self, callback: Callback, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        let Callback { headers, body, is_error, .. } = callback;
        if is_error {
            return self.transfer_error(body, policy, now_ms);
        }
        let state = body["transferState"].as_str().unwrap_or_default();
        let fulfilment = body["fulfilment"].as_str();
        if !matches!((state, fulfilment), ("COMMITTED" | "ABORTED", _) | ("RESERVED", Some(_))) {
            return Vec::new();
        }
        let is_met = fulfilment.is_none_or(|fulfilment| self.meets_condition(fulfilment));
        let is_aborted = state == "ABORTED";
        self.object.insert("fulfil".to_owned(), forms::message(headers, body));
        if is_aborted {
            let error = json!({ "transferState": "ABORTED" });
            return self.fail("Transfer was aborted", (500, error), policy);
        }
        if policy.check_ilp && !is_met {
            // The hub committed it; the back end must know that and that the proof is wrong.
            let error = forms::error_information("3100", "invalid fulfilment");
            self.object.insert("lastError".to_owned(), last_error(500, error));
        }
        (self.phase, self.deadline_ms) = (Phase::Completed, None);
        self.object.remove("abortedReason");
        let mut effects = vec![Effect::Save(false)];
        effects.extend(self.answer(200, self.shown()));
        effects
    }

    fn meets_condition(&self, fulfilment: &str) -> bool {
        let condition = self.object["prepare"]["body"]["condition"].as_str();
        let found = ilp::read_digest(fulfilment).map(|bytes| ilp::condition(&bytes));
        found.is_some() && found == condition.and_then(ilp::read_digest)
    }

    fn transfer_error(&mut self, body: Value, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        let code = error_of(&body).map_or("", |(code, _)| code).to_owned();
        if code == TRANSFER_UNKNOWN {
            return self.unknown_to_hub(body, policy, now_ms);
        }
        let what = "Got an error response preparing transfer";
        if !code.starts_with("20") {
            return self.fail(what, (500, body), policy);
        }
        // A fault of the hub is no outcome: the back end is answered, and the hub is asked.
        self.object.insert("lastError".to_owned(), last_error(500, body));
        let answer = self.error_answer(500, what, policy);
        let mut effects = vec![Effect::Save(false)];
        effects.extend(self.answer(answer.status, answer.body));
        self.deadline_ms = Some(now_ms + self.pause_ms);
        effects
    }

    fn unknown_to_hub(&mut self, body: Value, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        if now_ms < self.expires_ms {
            return vec![self.prepare_request()];
        }
        if now_ms < self.expires_ms + UNKNOWN_AFTER_MS {
            return Vec::new();
        }
        self.fail("The transfer expired before the hub received it", (500, body), policy)
    }

    fn refused(
        &mut self,
        asked: RequestKind,
        (status, body): (u16, Value),
        policy: &Policy,
        now_ms: u64,
    ) -> Vec<Effect> {
        let may_be_retried = status >= 500 || matches!(status, 408 | 425 | 429);
        match (self.phase, asked) {
            (Phase::LookUp, RequestKind::Party) => {
                self.fail("Request to look up the party was refused", (status, body), policy)
            }
            (Phase::Quote, RequestKind::Quote) => {
                self.fail("Quote request was refused", (status, body), policy)
            }
            (Phase::Otp, RequestKind::Otp) => {
                self.fail("OTP request was refused", (status, body), policy)
            }
            (Phase::Prepared, RequestKind::Prepare) if !may_be_retried && self.attempts == 1 => {
                self.fail("Transfer request was refused", (status, body), policy)
            }
            (Phase::Prepared, RequestKind::Prepare) => {
                self.object.insert("lastError".to_owned(), last_error(status, body));
                self.try_later(now_ms);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn unanswered(&mut self, asked: RequestKind, why: &str, now_ms: u64) -> Vec<Effect> {
        let error = forms::error_information("1001", why);
        match (self.phase, asked) {
            (Phase::Prepared, RequestKind::Prepare) => {
                self.object.insert("lastError".to_owned(), last_error(500, error));
                self.try_later(now_ms);
                Vec::new()
            }
            (Phase::LookUp, RequestKind::Party)
            | (Phase::Quote, RequestKind::Quote)
            | (Phase::Otp, RequestKind::Otp) => {
                self.end_failed("The hub cannot be reached", (500, error), |transfer, what| {
                    transfer.bare_answer(500, what, "1001")
                })
            }
            _ => Vec::new(),
        }
    }

    fn try_later(&mut self, now_ms: u64) {
        let next = now_ms + self.pause_ms;
        self.pause_ms = (2 * self.pause_ms).min(PAUSE_MS_MAX);
        let limit = if self.is_answered { u64::MAX } else { self.answer_by_ms.max(now_ms) };
        self.deadline_ms = Some(next.min(limit));
    }

    fn deadline(&mut self, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        let id = self.transfer_id().to_owned();
        match self.phase {
            Phase::LookUp if policy.multiple_parties_response => self.parties_collected(policy),
            Phase::LookUp => self.time_out(&format!("Timeout resolving payee for transfer {id}")),
            Phase::Quote => self.time_out(&format!("Timeout requesting quote for transfer {id}")),
            Phase::Otp => self.time_out(&format!("Timeout requesting OTP for transfer {id}")),
            Phase::Prepared => self.still_unknown(&id, now_ms),
            _ => {
                self.deadline_ms = None;
                Vec::new()
            }
        }
    }

    fn time_out(&mut self, what: &str) -> Vec<Effect> {
        let error = forms::error_information("2004", what);
        self.end_failed(what, (504, error), |transfer, what| {
            transfer.bare_answer(504, what, "2004")
        })
    }

    fn still_unknown(&mut self, id: &str, now_ms: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        if !self.is_answered && self.answer_by_ms <= now_ms {
            let what = format!("Timeout waiting for fulfil for transfer {id}");
            let error = forms::error_information("2004", &what);
            self.object.insert("lastError".to_owned(), last_error(504, error));
            let answer = self.bare_answer(504, &what, "2004");
            effects.extend(self.answer(answer.status, answer.body));
        }
        let is_owed = !self.is_accepted && now_ms < self.expires_ms;
        effects.push(if is_owed { self.prepare_request() } else { self.status_request() });
        self.try_later(now_ms);
        effects
    }

    fn resume(&mut self, accept: &Object, policy: &Policy, now_ms: u64) -> Vec<Effect> {
        let is_true = |name: &str| accept.get(name) == Some(&Value::Bool(true));
        self.is_answered = false;
        match self.phase {
            Phase::PartyPause if is_true("acceptParty") => {
                let to = accept.get("to").unwrap_or(&self.object["to"]);
                if !to["fspId"].is_string() {
                    let what = "request.body.to should name the chosen party with its fspId";
                    let body = json!({ "message": what, "statusCode": "400" });
                    return vec![Effect::Answer(BackendReply { status: 400, body })];
                }
                for name in ["amount", "to"] {
                    put(&mut self.object, name, accept.get(name).unwrap_or(&Value::Null));
                }
                self.request_quote(policy, now_ms)
            }
            Phase::QuotePause if is_true("acceptQuote") || is_true("acceptQuoteOrConversion") => {
                self.prepare(policy, now_ms)
            }
            Phase::OtpPause if is_true("acceptOTP") => self.prepare(policy, now_ms),
            Phase::PartyPause => self.abort("Payee rejected by backend"),
            Phase::QuotePause => self.abort("Quote rejected by backend"),
            Phase::OtpPause => self.abort("OTP rejected by backend"),
            Phase::Failed => vec![Effect::Answer(BackendReply { status: 200, body: Value::Null })],
            Phase::Completed | Phase::Aborted => {
                vec![Effect::Answer(BackendReply { status: 200, body: self.shown() })]
            }
            // A repeated request: it gets the answer that the first one waits for.
            Phase::LookUp | Phase::Quote | Phase::Otp | Phase::Prepared => Vec::new(),
        }
    }

    fn abort(&mut self, reason: &str) -> Vec<Effect> {
        (self.phase, self.deadline_ms) = (Phase::Aborted, None);
        self.object.insert("abortedReason".to_owned(), reason.into());
        let mut effects = vec![Effect::Save(true)];
        effects.extend(self.rejection());
        effects.extend(self.answer(200, self.shown()));
        effects
    }

    /// Informs the DFSP of the payee that its request to pay was rejected.
    fn rejection(&self) -> Option<Effect> {
        let request = HubRequest {
            method: http::Method::PUT,
            path: format!("/transactionRequests/{}", self.request_id()?),
            destination: self.object["to"]["fspId"].as_str().map(str::to_owned),
            body: Some(json!({ "transactionRequestState": "REJECTED" })),
        };
        Some(Effect::Send(RequestKind::Rejection, request))
    }

    /// Continues after the process was stopped. The connection of the back end is gone.
    fn restarted(&mut self, now_ms: u64) -> Vec<Effect> {
        match self.phase {
            Phase::LookUp | Phase::Quote | Phase::Otp => {
                let what = "The adapter restarted before the transfer was sent";
                let error = forms::error_information("2001", what);
                self.end_failed(what, (500, error), |transfer, what| {
                    transfer.bare_answer(500, what, "2001")
                })
            }
            Phase::Prepared => {
                (self.is_answered, self.pause_ms) = (true, PAUSE_MS);
                self.is_accepted = false;
                self.deadline_ms = Some(now_ms);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn answer(&mut self, status: u16, body: Value) -> Option<Effect> {
        let is_first = !std::mem::replace(&mut self.is_answered, true);
        is_first.then_some(Effect::Answer(BackendReply { status, body }))
    }

    fn fail_with(&mut self, what: &str, code: &str, policy: &Policy) -> Vec<Effect> {
        let error = forms::error_information(code, what);
        self.fail(what, (500, error), policy)
    }

    fn fail(&mut self, what: &str, error: (u16, Value), policy: &Policy) -> Vec<Effect> {
        self.end_failed(what, error, |transfer, what| transfer.error_answer(500, what, policy))
    }

    fn end_failed(
        &mut self,
        what: &str,
        (status, body): (u16, Value),
        answer: impl FnOnce(&Self, &str) -> BackendReply,
    ) -> Vec<Effect> {
        (self.phase, self.deadline_ms) = (Phase::Failed, None);
        self.object.insert("lastError".to_owned(), last_error(status, body));
        let answer = answer(self, what);
        let mut effects = vec![Effect::Save(false)];
        effects.extend(self.answer(answer.status, answer.body));
        effects
    }

    fn error_answer(&self, status: u16, what: &str, policy: &Policy) -> BackendReply {
        let error = &self.object["lastError"]["mojaloopError"];
        let information = &error["errorInformation"];
        let found = information["extensionList"]["extension"].as_array().and_then(|entries| {
            let key = policy.status_code_extension_key.as_deref()?;
            entries.iter().find(|entry| entry["key"] == key)?["value"].as_str()
        });
        let code = found.or_else(|| information["errorCode"].as_str()).unwrap_or("2001");
        let detail = error_of(error)
            .map_or_else(String::new, |(code, description)| format!(": {code} {description}"));
        self.bare_answer(status, &format!("{what}{detail}"), code)
    }

    fn bare_answer(&self, status: u16, what: &str, code: &str) -> BackendReply {
        let body = json!({ "message": what, "statusCode": code, "transferState": self.shown() });
        BackendReply { status, body }
    }
}

/// `lastError` of a state. The hub may have answered without a body in JSON.
pub(crate) fn last_error(status: u16, body: Value) -> Value {
    let mut error = Object::new();
    error.insert("httpStatusCode".to_owned(), status.into());
    if !body.is_null() {
        error.insert("mojaloopError".to_owned(), body);
    }
    error.into()
}

/// The path of a party of the back end, without a leading slash.
pub(crate) fn party_path(party: &Value) -> String {
    let part = |name: &str| party[name].as_str().map(fspiop::percent_encode);
    let mut path = format!(
        "parties/{}/{}",
        part("idType").unwrap_or_default(),
        part("idValue").unwrap_or_default()
    );
    if let Some(sub) = part("idSubValue") {
        path.push('/');
        path.push_str(&sub);
    }
    path
}

/// The key of the callbacks about a party.
pub(crate) fn party_key(party: &Value) -> String {
    let part = |name: &str| party[name].as_str().unwrap_or_default();
    let sub = party["idSubValue"].as_str();
    party_key_of(part("idType"), part("idValue"), sub)
}

/// The key of the callbacks about the party of a path.
pub(crate) fn party_key_of_path(party: &PartyPath<'_>) -> String {
    let sub = party.sub_id.as_ref().map(|sub| &*sub.text);
    party_key_of(party.kind.as_str(), &party.id.text, sub)
}

/// The key of the callbacks about a party with these identifiers.
fn party_key_of(kind: &str, id: &str, sub: Option<&str>) -> String {
    match sub {
        Some(sub) => format!("parties/{kind}/{id}/{sub}"),
        None => format!("parties/{kind}/{id}"),
    }
}

#[cfg(test)]
mod tests;
