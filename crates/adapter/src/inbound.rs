//! The payee's side of one transfer as a state machine without I/O: prepare, fulfil, notice.
//!
//! The transfer is saved before the back end is asked, so that no credit is forgotten. Back end and
//! hub may get the same message again after a restart; both recognise it by the transfer's id. The
//! machine ends when the back end knows the outcome of the hub.

use fspiop::ilp::Secret;
use ledger::{Amount, Currency};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::backend::BackendError;
use crate::forms::{self, Object, copy, error_of, extension_list, money, put, to_internal_party};
use crate::ids::date_time;
use crate::outbound::last_error;
use crate::policy::Policy;

/// First pause before a repetition, in milliseconds.
const PAUSE_MS: u64 = 1_000;
/// Longest pause, in milliseconds.
const PAUSE_MS_MAX: u64 = 60_000;
/// Life of a transfer whose expiration cannot be read, in milliseconds.
const LIFE_MS: u64 = 60_000;
/// Longest ILP packet in characters (FSPIOP).
const PACKET_CHARS_MAX: usize = 32_768;
/// Longest transaction object in bytes, from which a packet of that size can be made.
const TRANSACTION_BYTES_MAX: usize = 16 * 1024;

/// A quote that this DFSP has answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QuoteRecord {
    /// `POST /quotes`.
    pub request: Value,
    /// `POST /quoterequests`.
    pub internal_request: Value,
    /// The back end's answer.
    pub response: Value,
    /// `PUT /quotes/{ID}`.
    pub fspiop_response: Value,
    /// The fulfilment, base64url.
    pub fulfilment: String,
}

/// The step that an incoming transfer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InboundPhase {
    /// The back end was asked.
    Received,
    /// The response is owed to the hub.
    Responding,
    /// The hub's decision is awaited.
    Waiting,
    /// The final notice is owed to the back end.
    Notifying,
    /// Nothing is owed.
    Ended,
}

/// One incoming transfer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InboundTransfer {
    /// Its step.
    pub phase: InboundPhase,
    /// The object that the back end gets in the final notice.
    pub object: Object,
    /// Trace id of the payer's message.
    pub trace: [u8; 16],
    /// Time of the next [`InboundEvent::Deadline`], in milliseconds since 1970.
    pub deadline_ms: Option<u64>,
    /// The payer's DFSP.
    payer: String,
    expires_ms: u64,
    /// The response: whether it is an error, and its body.
    response: Option<(bool, Value)>,
    /// Attempts to send the response.
    attempts: u32,
    /// Whether the back end must learn the outcome.
    must_notify: bool,
    pause_ms: u64,
}

/// An input of the machine.
#[derive(Clone, Debug)]
pub enum InboundEvent {
    /// The hub sent the prepare again.
    PreparedAgain,
    /// The back end has answered; `None` is an empty answer.
    BackendAnswered(Result<Option<Value>, BackendError>),
    /// The hub has accepted the response.
    Delivered,
    /// The hub has refused the response, or did not answer.
    Undelivered {
        /// Whether a repetition may succeed.
        may_be_retried: bool,
    },
    /// `PATCH` or `PUT /transfers/{ID}[/error]` of the hub.
    Notice {
        /// Whether it is a PATCH.
        is_patch: bool,
        /// Whether it is an error.
        is_error: bool,
        /// Its body.
        body: Value,
    },
    /// The back end took the final notice; `false` if it did not.
    Notified(bool),
    /// The deadline has passed.
    Deadline,
    /// The process has restarted.
    Restarted,
}

/// An output of the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum InboundEffect {
    /// Write the machine to the store. With `true`, wait until it is on disk.
    Save(bool),
    /// `POST /transfers` to the back end.
    AskBackend(Value),
    /// `PUT /transfers/{ID}` or, with `true`, `/error` to the hub.
    Respond(bool, Value),
    /// `GET /transfers/{ID}` to the hub.
    AskHub,
    /// `PUT /transfers/{ID}` to the back end.
    Notify(Value),
}

impl QuoteRecord {
    /// The quote as the back end sees it in the final notice.
    #[must_use]
    pub fn shown(self) -> Value {
        let mut shown = Object::new();
        for (name, value) in [
            ("request", self.request),
            ("internalRequest", self.internal_request),
            ("response", self.response),
            ("mojaloopResponse", self.fspiop_response),
            ("fulfilment", self.fulfilment.into()),
        ] {
            shown.insert(name.to_owned(), value);
        }
        shown.into()
    }
}

impl InboundTransfer {
    /// A transfer that the hub has sent.
    #[must_use]
    pub fn begin(
        (headers, body): (Value, Value),
        quote: Option<QuoteRecord>,
        trace: [u8; 16],
        policy: &Policy,
        now_ms: u64,
    ) -> (Self, Vec<InboundEffect>) {
        let expiration = body["expiration"].as_str().and_then(fspiop::time::parse_date_time);
        let mut object = Object::new();
        object.insert("transferId".to_owned(), body["transferId"].clone());
        object.insert("direction".to_owned(), "INBOUND".into());
        object.insert("currentState".to_owned(), "PREPARE_RECEIVED".into());
        object.insert("initiatedTimestamp".to_owned(), date_time(now_ms).into());
        let checked = check(&body, quote.as_ref(), policy, now_ms);
        let payer = body["payerFsp"].as_str().unwrap_or_default().to_owned();
        object.insert("prepare".to_owned(), forms::message(headers, body));
        if let Some(quote) = quote {
            object.insert("quote".to_owned(), quote.shown());
        }
        let mut transfer = Self {
            phase: InboundPhase::Received,
            object,
            trace,
            deadline_ms: None,
            payer,
            expires_ms: expiration.unwrap_or(now_ms + LIFE_MS),
            response: None,
            attempts: 0,
            must_notify: false,
            pause_ms: PAUSE_MS,
        };
        let effects = match checked {
            Ok(()) => vec![InboundEffect::Save(true), transfer.ask_backend()],
            Err((code, text)) => transfer.respond_error(code, &text),
        };
        (transfer, effects)
    }

    /// Processes one event.
    pub fn handle(
        &mut self,
        event: InboundEvent,
        policy: &Policy,
        now_ms: u64,
    ) -> Vec<InboundEffect> {
        match event {
            InboundEvent::PreparedAgain => self.prepared_again(),
            InboundEvent::BackendAnswered(answer) => self.backend_answered(answer, policy, now_ms),
            InboundEvent::Delivered => self.delivered(policy, now_ms),
            InboundEvent::Undelivered { may_be_retried } => {
                self.undelivered(may_be_retried, now_ms)
            }
            InboundEvent::Notice { is_patch, is_error, body } => {
                self.noticed((is_patch, is_error), body, now_ms)
            }
            InboundEvent::Notified(is_taken) => self.notified(is_taken, now_ms),
            InboundEvent::Deadline => self.deadline(now_ms),
            InboundEvent::Restarted => self.restarted(now_ms),
        }
    }

    /// The id of the transfer.
    #[must_use]
    pub fn transfer_id(&self) -> &str {
        self.object["transferId"].as_str().unwrap_or_default()
    }

    /// The payer's DFSP, to which the response is addressed.
    #[must_use]
    pub fn payer(&self) -> &str {
        &self.payer
    }

    /// The version of the payer's message, in which it is answered.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        let media = self.object["prepare"]["headers"]["content-type"].as_str()?;
        let (_, version) = media.split_once("version=")?;
        ["1.0", "1.1", "2.0"].contains(&version).then_some(version)
    }

    /// Takes the quote out. It does not change, and is stored by itself.
    pub fn take_quote(&mut self) -> Option<Value> {
        self.object.remove("quote")
    }

    /// Puts the quote in.
    pub fn put_quote(&mut self, quote: Value) {
        self.object.insert("quote".to_owned(), quote);
    }

    /// Whether nothing more is owed.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.phase == InboundPhase::Ended
    }

    fn set_state(&mut self, state: &str) {
        self.object.insert("currentState".to_owned(), state.into());
    }

    fn ask_backend(&mut self) -> InboundEffect {
        let prepare = &self.object["prepare"]["body"];
        let quote = self.object.get("quote").unwrap_or(&Value::Null);
        let request = &quote["request"];
        let mut body = Object::new();
        body.insert("transferId".to_owned(), prepare["transferId"].clone());
        put(&mut body, "transactionRequestId", &request["transactionRequestId"]);
        put(&mut body, "quote", &quote["response"]);
        if request.is_object() {
            body.insert("from".to_owned(), to_internal_party(&request["payer"]));
            body.insert("to".to_owned(), to_internal_party(&request["payee"]));
            body.insert(
                "transactionType".to_owned(),
                request["transactionType"]["scenario"].clone(),
            );
            put(&mut body, "amountType", &request["amountType"]);
            put(&mut body, "subScenario", &request["transactionType"]["subScenario"]);
            put(&mut body, "note", &request["note"]);
            let extensions = &request["extensionList"]["extension"];
            put(&mut body, "quoteRequestExtensions", extensions);
        }
        body.insert("amount".to_owned(), prepare["amount"]["amount"].clone());
        body.insert("currency".to_owned(), prepare["amount"]["currency"].clone());
        body.insert("ilpPacket".to_owned(), json!({ "data": transaction_of(request, quote) }));
        put(&mut body, "extensionList", &prepare["extensionList"]["extension"]);
        InboundEffect::AskBackend(body.into())
    }

    fn prepared_again(&mut self) -> Vec<InboundEffect> {
        match (&self.response, self.phase) {
            (_, InboundPhase::Received) | (None, _) => Vec::new(),
            (Some((is_error, body)), _) => vec![InboundEffect::Respond(*is_error, body.clone())],
        }
    }

    fn backend_answered(
        &mut self,
        answer: Result<Option<Value>, BackendError>,
        policy: &Policy,
        now_ms: u64,
    ) -> Vec<InboundEffect> {
        if self.phase != InboundPhase::Received {
            return Vec::new();
        }
        match answer {
            // The back end wants no response; the transfer expires at the hub.
            Ok(None) => {
                self.phase = InboundPhase::Ended;
                vec![InboundEffect::Save(false)]
            }
            Ok(Some(answer)) => self.fulfil(&answer, policy, now_ms),
            Err(error) => {
                // A back end that did not answer may have credited the payee.
                self.must_notify = !error.is_certain;
                self.respond_error(&error.code, &error.message)
            }
        }
    }

    fn fulfil(&mut self, answer: &Value, policy: &Policy, now_ms: u64) -> Vec<InboundEffect> {
        let known = &self.object.get("quote").unwrap_or(&Value::Null)["fulfilment"];
        let fulfilment = if answer["fulfilment"].is_null() { known } else { &answer["fulfilment"] };
        let state = match answer["transferState"].as_str() {
            // In version 1.0 the hub sends no notice.
            _ if policy.reserve_notification && self.version() != Some("1.0") => "RESERVED",
            Some(state) => state,
            None => "COMMITTED",
        };
        let mut body = Object::new();
        match &answer["completedTimestamp"] {
            Value::Null => body.insert("completedTimestamp".to_owned(), date_time(now_ms).into()),
            time => body.insert("completedTimestamp".to_owned(), time.clone()),
        };
        body.insert("transferState".to_owned(), state.into());
        put(&mut body, "fulfilment", fulfilment);
        put(&mut body, "extensionList", &extension_list(&answer["extensionList"]));
        let body = Value::from(body);
        let home = answer["homeTransactionId"].clone();
        put(&mut self.object, "homeTransactionId", &home);
        self.object.insert("fulfil".to_owned(), forms::message(json!({}), body.clone()));
        self.set_state("RESERVED");
        self.respond(false, body)
    }

    fn respond_error(&mut self, code: &str, text: &str) -> Vec<InboundEffect> {
        let description: String = text.chars().take(fspiop::DESCRIPTION_CHARS_MAX).collect();
        let error = forms::error_information(code, &description);
        let last = last_error(500, error.clone());
        self.object.insert("lastError".to_owned(), last);
        self.set_state("ERROR_OCCURRED");
        self.respond(true, error)
    }

    fn respond(&mut self, is_error: bool, body: Value) -> Vec<InboundEffect> {
        self.phase = InboundPhase::Responding;
        (self.response, self.attempts, self.deadline_ms) = (Some((is_error, body)), 0, None);
        let mut effects = vec![InboundEffect::Save(false)];
        effects.extend(self.try_response());
        effects
    }

    fn try_response(&mut self) -> Option<InboundEffect> {
        let (is_error, body) = self.response.as_ref()?;
        self.attempts += 1;
        Some(InboundEffect::Respond(*is_error, body.clone()))
    }

    fn delivered(&mut self, policy: &Policy, now_ms: u64) -> Vec<InboundEffect> {
        let is_error = match &self.response {
            Some((is_error, _)) if self.phase == InboundPhase::Responding => *is_error,
            _ => return Vec::new(),
        };
        self.pause_ms = PAUSE_MS;
        let is_reserved = self
            .object
            .get("fulfil")
            .is_some_and(|fulfil| fulfil["body"]["transferState"] == "RESERVED");
        if is_error && self.must_notify {
            // The back end may have credited the payee, and the hub may have an earlier response.
            self.phase = InboundPhase::Waiting;
            self.pause(now_ms);
            return vec![InboundEffect::Save(false)];
        }
        if is_error {
            return self.end("ABORTED", false);
        }
        // After a repetition, the hub's answer may belong to an earlier attempt.
        if is_reserved || self.attempts > 1 {
            self.phase = InboundPhase::Waiting;
            self.deadline_ms = Some(now_ms + policy.notice_grace_ms);
            return vec![InboundEffect::Save(false)];
        }
        self.end("COMPLETED", false)
    }

    fn undelivered(&mut self, may_be_retried: bool, now_ms: u64) -> Vec<InboundEffect> {
        if self.phase != InboundPhase::Responding {
            return Vec::new();
        }
        if may_be_retried {
            self.pause(now_ms);
            return Vec::new();
        }
        // The hub does not take the response; only the hub knows the outcome.
        self.must_notify = true;
        self.phase = InboundPhase::Waiting;
        self.deadline_ms = Some(now_ms.max(self.expires_ms) + PAUSE_MS);
        vec![InboundEffect::Save(false)]
    }

    fn noticed(
        &mut self,
        (is_patch, is_error): (bool, bool),
        body: Value,
        now_ms: u64,
    ) -> Vec<InboundEffect> {
        let has_fulfilled = matches!(&self.response, Some((false, _)));
        let is_known = self.object.get("finalNotification").is_some();
        if self.phase == InboundPhase::Received || self.phase == InboundPhase::Notifying || is_known
        {
            return Vec::new();
        }
        if is_error {
            return self.noticed_error(body, has_fulfilled, now_ms);
        }
        let state = body["transferState"].as_str().unwrap_or_default();
        let must_notify = is_patch || self.must_notify || self.phase == InboundPhase::Waiting;
        match state {
            "COMMITTED" => {
                self.set_notification(&body, now_ms);
                self.end("COMPLETED", must_notify)
            }
            "ABORTED" => {
                self.set_notification(&body, now_ms);
                self.end("ABORTED", has_fulfilled || self.must_notify)
            }
            _ => Vec::new(),
        }
    }

    fn noticed_error(
        &mut self,
        body: Value,
        has_fulfilled: bool,
        now_ms: u64,
    ) -> Vec<InboundEffect> {
        if !has_fulfilled && !self.must_notify {
            return Vec::new();
        }
        let code = error_of(&body).map_or("", |(code, _)| code).to_owned();
        // The hub refuses a response that differs from an earlier one, which it may have taken
        // before the power was lost. Only the state at the hub is the outcome.
        let is_certain = code == "3303" || (code == "3208" && self.expires_ms <= now_ms);
        if !is_certain {
            self.phase = InboundPhase::Waiting;
            self.pause(now_ms);
            // A transfer that had come to rest is in progress again.
            return vec![InboundEffect::Save(false)];
        }
        let last = last_error(500, body);
        self.object.insert("lastError".to_owned(), last);
        self.set_notification(&json!({ "transferState": "ABORTED" }), now_ms);
        self.end("ABORTED", true)
    }

    fn set_notification(&mut self, body: &Value, now_ms: u64) {
        let mut notification = Object::new();
        notification.insert("completedTimestamp".to_owned(), date_time(now_ms).into());
        copy(body, &["completedTimestamp", "transferState", "extensionList"], &mut notification);
        self.object.insert("finalNotification".to_owned(), notification.into());
    }

    fn end(&mut self, state: &str, must_notify: bool) -> Vec<InboundEffect> {
        self.set_state(state);
        (self.deadline_ms, self.pause_ms) = (None, PAUSE_MS);
        if !must_notify {
            self.phase = InboundPhase::Ended;
            return vec![InboundEffect::Save(false)];
        }
        self.phase = InboundPhase::Notifying;
        vec![InboundEffect::Save(false), InboundEffect::Notify(self.object.clone().into())]
    }

    fn notified(&mut self, is_taken: bool, now_ms: u64) -> Vec<InboundEffect> {
        if self.phase != InboundPhase::Notifying {
            return Vec::new();
        }
        if is_taken {
            self.phase = InboundPhase::Ended;
            return vec![InboundEffect::Save(false)];
        }
        self.pause(now_ms);
        Vec::new()
    }

    fn pause(&mut self, now_ms: u64) {
        self.deadline_ms = Some(now_ms + self.pause_ms);
        self.pause_ms = (2 * self.pause_ms).min(PAUSE_MS_MAX);
    }

    fn deadline(&mut self, now_ms: u64) -> Vec<InboundEffect> {
        self.deadline_ms = None;
        match self.phase {
            InboundPhase::Responding => self.try_response().into_iter().collect(),
            InboundPhase::Waiting => {
                self.pause(now_ms);
                vec![InboundEffect::AskHub]
            }
            InboundPhase::Notifying => vec![InboundEffect::Notify(self.object.clone().into())],
            InboundPhase::Received | InboundPhase::Ended => Vec::new(),
        }
    }

    /// Continues after the process was stopped.
    fn restarted(&mut self, now_ms: u64) -> Vec<InboundEffect> {
        self.pause_ms = PAUSE_MS;
        match self.phase {
            InboundPhase::Received if now_ms < self.expires_ms => vec![self.ask_backend()],
            InboundPhase::Received => {
                // Whether back end and hub got an answer is unknown; the hub has decided.
                (self.must_notify, self.phase) = (true, InboundPhase::Waiting);
                self.attempts = self.attempts.max(1);
                self.deadline(now_ms)
            }
            InboundPhase::Responding | InboundPhase::Waiting | InboundPhase::Notifying => {
                self.deadline(now_ms)
            }
            InboundPhase::Ended => Vec::new(),
        }
    }
}

/// The checks of a prepare against its quote, in the order of the reference.
fn check(
    body: &Value,
    quote: Option<&QuoteRecord>,
    policy: &Policy,
    now_ms: u64,
) -> Result<(), (&'static str, String)> {
    let id = body["transferId"].as_str().unwrap_or_default();
    let expiration = body["expiration"].as_str().and_then(fspiop::time::parse_date_time);
    if expiration.is_some_and(|at| at <= now_ms) {
        return Err(("3303", format!("Transfer {id} has expired")));
    }
    let Some(quote) = quote else {
        return match policy.allow_transfer_without_quote {
            true => Ok(()),
            false => Err(("2001", format!("Corresponding quote not found for transfer {id}"))),
        };
    };
    let terms = &quote.fspiop_response;
    let fits = ["ilpPacket", "condition"].iter().all(|name| body[name] == terms[name])
        && body["amount"] == terms["transferAmount"];
    if policy.check_ilp && !fits {
        return Err(("2001", format!("ILP packet does not match the quote of transfer {id}")));
    }
    let expiration = terms["expiration"].as_str().and_then(fspiop::time::parse_date_time);
    if policy.reject_transfers_on_expired_quotes && expiration.is_some_and(|at| at < now_ms) {
        return Err(("3302", format!("The quote of transfer {id} has expired")));
    }
    Ok(())
}

/// `POST /quoterequests` for a quote request.
#[must_use]
pub fn backend_quote_request(request: &Value) -> Value {
    let kind = &request["transactionType"];
    let mut body = Object::new();
    copy(request, &["quoteId", "transactionId", "transactionRequestId"], &mut body);
    body.insert("from".to_owned(), to_internal_party(&request["payer"]));
    body.insert("to".to_owned(), to_internal_party(&request["payee"]));
    copy(request, &["amountType", "geoCode", "note", "expiration"], &mut body);
    put(&mut body, "amount", &request["amount"]["amount"]);
    put(&mut body, "currency", &request["amount"]["currency"]);
    put(&mut body, "feesAmount", &request["fees"]["amount"]);
    put(&mut body, "feesCurrency", &request["fees"]["currency"]);
    put(&mut body, "transactionType", &kind["scenario"]);
    copy(kind, &["initiator", "initiatorType", "subScenario"], &mut body);
    copy(request, &["converter", "currencyConversion"], &mut body);
    put(&mut body, "extensionList", &request["extensionList"]["extension"]);
    body.into()
}

/// The answer to a quote request, given with its form for the back end: `PUT /quotes/{ID}` with
/// packet and condition.
///
/// # Errors
/// Why the back end's answer cannot be used.
pub fn quote_response(
    (request, internal_request): (&Value, Value),
    answer: Value,
    secret: &Secret,
    policy: &Policy,
    now_ms: u64,
) -> Result<QuoteRecord, String> {
    let currency = &answer["transferAmountCurrency"];
    let mut body = Object::new();
    body.insert("transferAmount".to_owned(), money(&answer["transferAmount"], currency));
    for (name, amount) in [
        ("payeeReceiveAmount", "payeeReceiveAmount"),
        ("payeeFspFee", "payeeFspFeeAmount"),
        ("payeeFspCommission", "payeeFspCommissionAmount"),
    ] {
        let own = &answer[format!("{amount}Currency")];
        let own = if own.is_null() { currency } else { own };
        put(&mut body, name, &money(&answer[amount], own));
    }
    let expiration = match &answer["expiration"] {
        Value::Null => date_time(now_ms + policy.expiry_ms).into(),
        time => time.clone(),
    };
    body.insert("expiration".to_owned(), expiration);
    put(&mut body, "geoCode", &answer["geoCode"]);
    put(&mut body, "extensionList", &extension_list(&answer["extensionList"]));
    let transaction = transaction(request, &body);
    let (packet, fulfilment, condition) = seal(&transaction, secret, policy)?;
    body.insert("ilpPacket".to_owned(), packet.into());
    body.insert("condition".to_owned(), condition.into());
    Ok(QuoteRecord {
        internal_request,
        request: request.clone(),
        response: answer,
        fspiop_response: body.into(),
        fulfilment,
    })
}

/// The transaction object of a packet.
fn transaction(request: &Value, terms: &Object) -> Value {
    let mut out = Object::new();
    copy(request, &["transactionId", "quoteId", "payee", "payer"], &mut out);
    put(&mut out, "amount", &terms["transferAmount"]);
    put(&mut out, "expiration", &terms["expiration"]);
    copy(request, &["transactionType", "note"], &mut out);
    out.into()
}

/// The transaction object of a known quote.
fn transaction_of(request: &Value, quote: &Value) -> Value {
    match quote["mojaloopResponse"].as_object() {
        Some(terms) => transaction(request, terms),
        None => json!({}),
    }
}

/// Packet, fulfilment and condition as text.
fn seal(
    transaction: &Value,
    secret: &Secret,
    policy: &Policy,
) -> Result<(String, String, String), String> {
    let text = |pointer: &str| transaction.pointer(pointer).and_then(Value::as_str);
    let amount = text("/amount/amount").and_then(Amount::parse);
    let amount = amount.ok_or("transferAmount is not an amount")?;
    let currency = text("/amount/currency").and_then(Currency::parse);
    let currency = currency.ok_or("transferAmountCurrency is not a currency")?;
    let mut account = format!(
        "g.{}.{}.{}",
        policy.fsp_id,
        text("/payee/partyIdInfo/partyIdType").unwrap_or_default(),
        text("/payee/partyIdInfo/partyIdentifier").unwrap_or_default()
    );
    if let Some(sub) = text("/payee/partyIdInfo/partySubIdOrType") {
        account = format!("{account}.{sub}");
    }
    let account = account.to_lowercase();
    let object = transaction.to_string();
    if TRANSACTION_BYTES_MAX < object.len() + account.len() {
        return Err("the transaction is too long for an ILP packet".to_owned());
    }
    let payment = fspiop::ilp::Payment {
        amount,
        currency,
        account: account.as_bytes(),
        transaction: object.as_bytes(),
    };
    let mut packet = Vec::new();
    fspiop::ilp::push_packet(&mut packet, &mut Vec::new(), &payment);
    debug_assert!(packet.len() <= PACKET_CHARS_MAX, "bounded by the transaction");
    let fulfilment = secret.fulfilment(&packet);
    let condition = fspiop::ilp::condition(&fulfilment);
    let base64 = |bytes: &[u8]| {
        let mut out = Vec::new();
        fspiop::ilp::push_base64(&mut out, bytes);
        String::from_utf8_lossy(&out).into_owned()
    };
    let packet = String::from_utf8_lossy(&packet).into_owned();
    Ok((packet, base64(&fulfilment), base64(&condition)))
}

#[cfg(test)]
mod tests;
