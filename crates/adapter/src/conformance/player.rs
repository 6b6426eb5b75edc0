//! Plays one check after the other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fspiop::headers::FSPIOP_SIGNATURE;
use fspiop::ilp;
use fspiop::route_table::Operation;
use fspiop::time::parse_date_time;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use ledger::{Amount, Currency};
use serde_json::{Value, json};

use super::checks::{Check, CheckStep, Scope};
use super::packet::Packet;
use super::peer::{Callback, Inbox, Peer, PeerAnswer};
use super::{ConformanceOptions, TargetKind};
use crate::forms::{error_information, error_of};
use crate::ids::{IdForm, date_time, now_ms, random};
use crate::outbound::{HubRequest, party_path};

/// Life of the quotes and transfers.
const LIFE_MS: u64 = 60_000;
/// Age of an expired transfer.
const EXPIRED_MS: u64 = 60_000;
/// Time for which a callback is not answered.
const SLOW: Duration = Duration::from_secs(5);

/// The end of a check that did not pass.
pub(super) enum Stop {
    /// The DFSP answered wrongly.
    Failed(String),
    /// The check was not possible.
    Skipped(String),
}

type Played = Result<(), Stop>;

/// A quote and the ids of its transfer.
#[derive(Clone)]
struct Terms {
    transfer_id: String,
    answer: Value,
}

/// The state of a run.
pub(super) struct Player {
    peer: Peer,
    options: ConformanceOptions,
    /// The answers of the current check.
    trail: Vec<String>,
    /// The party that was found.
    payee: Option<Value>,
    /// The transfer that was fulfilled, and its fulfilment.
    paid: Option<(Value, Value)>,
}

fn failed<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(why.into()))
}

fn skipped<T>(why: &str) -> Result<T, Stop> {
    Err(Stop::Skipped(why.to_owned()))
}

impl Player {
    pub(super) fn new(peer: Peer, options: ConformanceOptions) -> Self {
        Self { peer, options, trail: Vec::new(), payee: None, paid: None }
    }

    pub(super) fn inbox(&self) -> &Arc<Inbox> {
        &self.peer.inbox
    }

    /// Plays a check. Returns the answers and the result.
    pub(super) async fn play(&mut self, check: &Check) -> (String, Played) {
        self.trail.clear();
        let played = match check.scope {
            Scope::DfspOnly | Scope::Signed if self.options.target == TargetKind::Hub => {
                skipped("a hub does not forward it")
            }
            Scope::Signed if self.options.signing_key.is_none() => skipped("no signing key"),
            _ => self.step(check.step).await,
        };
        (self.trail.join("; "), played)
    }

    async fn step(&mut self, step: CheckStep) -> Played {
        match step {
            CheckStep::KnownParty => self.known_party().await,
            CheckStep::UnknownParty => self.unknown_party().await,
            CheckStep::SlowHub => self.slow_hub().await,
            CheckStep::Quote => self.agree().await.map(drop),
            CheckStep::QuoteWithout(member) => self.quote_without(member).await,
            CheckStep::NotJson => {
                self.refused_quote(|_, body| *body = Bytes::from("{"), "31").await
            }
            CheckStep::Transfer => self.transfer().await,
            CheckStep::Resend => self.resend().await,
            CheckStep::Notice => self.notice().await,
            CheckStep::WrongCondition => {
                self.wrong_transfer(|prepare| prepare["condition"] = digest().into()).await
            }
            CheckStep::WrongAmount => self.wrong_transfer(add_one).await,
            CheckStep::WithoutQuote => {
                self.wrong_transfer(|prepare| prepare["transferId"] = new_id().into()).await
            }
            CheckStep::Expired => self.expired().await,
            CheckStep::ErrorCallback(resource) => self.error_callback(resource).await,
            CheckStep::WithoutHeader(name) => {
                let change = |headers: &mut HeaderMap, _: &mut Bytes| drop(headers.remove(name));
                self.refused_quote(change, "31").await
            }
            CheckStep::RepeatedHeader(name) => {
                let name = HeaderName::from_static(name);
                let value = HeaderValue::from_static("another");
                let change = |headers: &mut HeaderMap, _: &mut Bytes| {
                    headers.append(name, value);
                };
                self.refused_quote(change, "31").await
            }
            CheckStep::UnknownPath => self.unknown_path().await,
            CheckStep::Unsigned => {
                let change = |headers: &mut HeaderMap, _: &mut Bytes| {
                    drop(headers.remove(&FSPIOP_SIGNATURE));
                };
                self.refused_quote(change, "3105").await
            }
            CheckStep::Tampered => {
                let change = |_: &mut HeaderMap, body: &mut Bytes| {
                    let changed = String::from_utf8_lossy(body).replace("SEND", "RECEIVE");
                    *body = Bytes::from(changed);
                };
                self.refused_quote(change, "3105").await
            }
        }
    }

    async fn known_party(&mut self) -> Played {
        let path = self.party_path(&self.options.party.1);
        self.accepted(&self.request(Method::GET, &path, None)).await?;
        let callback = self.callback(&path).await?;
        let body = self.success(&callback, Operation::PartiesPut)?;
        let id = &body["party"]["partyIdInfo"];
        let (kind, value) = &self.options.party;
        if id["partyIdType"] != kind.as_str() || id["partyIdentifier"] != value.as_str() {
            return failed(format!("partyIdInfo is of another party: {id}"));
        }
        if id["fspId"] != self.options.dfsp.as_str() {
            return failed(format!("fspId is {}, not {}", id["fspId"], self.options.dfsp));
        }
        self.payee = Some(body["party"].clone());
        Ok(())
    }

    async fn unknown_party(&mut self) -> Played {
        let path = self.party_path(&self.options.unknown);
        self.accepted(&self.request(Method::GET, &path, None)).await?;
        let callback = self.callback(&path).await?;
        let code = self.error(&callback)?;
        match code.starts_with("32") {
            true => Ok(()),
            false => failed(format!("{code} does not mean that the party is unknown")),
        }
    }

    async fn slow_hub(&mut self) -> Played {
        let path = self.party_path(&self.options.party.1);
        let request = self.request(Method::GET, &path, None);
        self.peer.inbox.delay(SLOW);
        let first = self.accepted(&request).await;
        let found = match first {
            Ok(_) => self.callback(&path).await.map(drop),
            Err(stop) => Err(stop),
        };
        let second = self.accepted(&request).await;
        self.peer.inbox.delay(Duration::ZERO);
        found?;
        let time = second?.time;
        self.callback(&path).await?;
        match time < SLOW {
            true => Ok(()),
            false => failed(format!("the second request was answered after {} ms", ms(time))),
        }
    }

    /// Requests a quote and checks its answer.
    async fn agree(&mut self) -> Result<Terms, Stop> {
        let (quote_id, transfer_id) = (new_id(), new_id());
        let body = self.quote_request(&quote_id, &transfer_id);
        self.accepted(&self.request(Method::POST, "/quotes", Some(body))).await?;
        let callback = self.callback(&format!("/quotes/{quote_id}")).await?;
        let answer = self.success(&callback, Operation::QuotesPut)?;
        self.check_terms(&answer, &transfer_id)?;
        Ok(Terms { transfer_id, answer })
    }

    fn check_terms(&self, answer: &Value, transfer_id: &str) -> Played {
        let money = &answer["transferAmount"];
        let amount = money["amount"].as_str().and_then(Amount::parse);
        let currency = money["currency"].as_str().and_then(Currency::parse);
        let (Some(amount), Some(currency)) = (amount, currency) else {
            return failed(format!("transferAmount is {money}"));
        };
        if currency.as_str() != self.options.currency {
            return failed(format!("transferAmount is in {}", currency.as_str()));
        }
        if answer["condition"].as_str().and_then(ilp::read_digest).is_none() {
            return failed("condition is not a SHA-256 digest in base64url");
        }
        let packet = answer["ilpPacket"].as_str().and_then(Packet::parse);
        let Some(packet) = packet else { return failed("ilpPacket is not an ILPv1 payment") };
        if !packet.is_of(amount, currency) {
            return failed("the amount in ilpPacket is not transferAmount");
        }
        let id = &packet.transaction["transactionId"];
        if id != transfer_id {
            return failed(format!("the transaction in ilpPacket has transactionId {id}"));
        }
        let expiration = answer["expiration"].as_str().and_then(parse_date_time);
        match expiration.is_some_and(|at| now_ms() < at) {
            true => Ok(()),
            false => failed(format!("expiration is {}", answer["expiration"])),
        }
    }

    async fn quote_without(&mut self, member: &str) -> Played {
        let id = new_id();
        let mut body = self.quote_request(&id, &new_id());
        body.as_object_mut().and_then(|body| body.remove(member));
        let answer = self.send(&self.request(Method::POST, "/quotes", Some(body))).await;
        let code = if answer.status == Some(202) {
            let callback = self.callback(&format!("/quotes/{id}")).await?;
            self.error(&callback)?
        } else {
            self.refusal(&answer)?
        };
        match code.starts_with("31") {
            true => Ok(()),
            false => failed(format!("{code} is not a validation error")),
        }
    }

    async fn refused_quote(
        &mut self,
        change: impl FnOnce(&mut HeaderMap, &mut Bytes),
        code: &str,
    ) -> Played {
        let body = self.quote_request(&new_id(), &new_id());
        let request = self.request(Method::POST, "/quotes", Some(body));
        let answer = self.peer.send(&request, change).await;
        self.trail.push(shown(&answer));
        let found = self.refusal(&answer)?;
        match found.starts_with(code) {
            true => Ok(()),
            false => failed(format!("the code is {found}")),
        }
    }

    async fn transfer(&mut self) -> Played {
        let terms = self.agreed().await?;
        let prepare = self.prepare(&terms, now_ms() + LIFE_MS);
        self.accepted(&self.request(Method::POST, "/transfers", Some(prepare.clone()))).await?;
        let callback = self.callback(&format!("/transfers/{}", terms.transfer_id)).await?;
        let body = self.success(&callback, Operation::TransfersPut)?;
        let state = body["transferState"].as_str().unwrap_or_default();
        self.trail.push(state.to_owned());
        if !matches!(state, "COMMITTED" | "RESERVED") {
            return failed(format!("transferState is {state}"));
        }
        let fulfilment = body["fulfilment"].as_str().and_then(ilp::read_digest);
        let Some(fulfilment) = fulfilment else {
            return failed(format!("fulfilment is {}", body["fulfilment"]));
        };
        let condition = prepare["condition"].as_str().and_then(ilp::read_digest);
        if condition != Some(ilp::condition(&fulfilment)) {
            return failed("the fulfilment's SHA-256 is not the condition");
        }
        self.paid = Some((prepare, body["fulfilment"].clone()));
        Ok(())
    }

    async fn resend(&mut self) -> Played {
        let Some((prepare, fulfilment)) = self.paid.clone() else {
            return skipped("the transfer was not fulfilled");
        };
        let path = format!("/transfers/{}", prepare["transferId"].as_str().unwrap_or_default());
        self.accepted(&self.request(Method::POST, "/transfers", Some(prepare))).await?;
        let callback = self.callback(&path).await?;
        let body = self.success(&callback, Operation::TransfersPut)?;
        match body["fulfilment"] == fulfilment {
            true => Ok(()),
            false => failed("the fulfilment differs from the first one"),
        }
    }

    async fn notice(&mut self) -> Played {
        let Some((prepare, _)) = self.paid.clone() else {
            return skipped("the transfer was not fulfilled");
        };
        let path = format!("/transfers/{}", prepare["transferId"].as_str().unwrap_or_default());
        let body = json!({
            "transferState": "COMMITTED", "completedTimestamp": date_time(now_ms()),
        });
        self.answered(Method::PATCH, &path, body).await
    }

    /// Sends a transfer with a fault, which must not be fulfilled.
    async fn wrong_transfer(&mut self, change: impl FnOnce(&mut Value)) -> Played {
        let terms = self.agreed().await?;
        let mut prepare = self.prepare(&terms, now_ms() + LIFE_MS);
        change(&mut prepare);
        self.unfulfilled(prepare).await?;
        Ok(())
    }

    async fn expired(&mut self) -> Played {
        let terms = self.agreed().await?;
        let prepare = self.prepare(&terms, now_ms().saturating_sub(EXPIRED_MS));
        match self.unfulfilled(prepare).await {
            Err(Stop::Failed(_)) if self.trail.last().is_some_and(|last| last == NOTHING) => Ok(()),
            played => played,
        }
    }

    /// Sends a transfer that must end with an error.
    async fn unfulfilled(&mut self, prepare: Value) -> Played {
        let id = prepare["transferId"].as_str().unwrap_or_default();
        let path = format!("/transfers/{id}");
        let answer = self.send(&self.request(Method::POST, "/transfers", Some(prepare))).await;
        if answer.status != Some(202) {
            return self.refusal(&answer).map(drop);
        }
        let callback = self.callback(&path).await?;
        if callback.path == path {
            return failed("it was fulfilled");
        }
        self.error(&callback).map(drop)
    }

    async fn error_callback(&mut self, resource: &str) -> Played {
        let path = match resource.contains('/') {
            true => format!("/{resource}/error"),
            false => format!("/{resource}/{}/error", new_id()),
        };
        self.answered(Method::PUT, &path, error_information("2001", "a check")).await
    }

    async fn unknown_path(&mut self) -> Played {
        let answer = self.send(&self.request(Method::GET, "/nothing", None)).await;
        match answer.status {
            Some(404) => Ok(()),
            _ => failed("the path is not refused"),
        }
    }

    /// Sends a message that must be answered with 200.
    async fn answered(&mut self, method: Method, path: &str, body: Value) -> Played {
        let answer = self.send(&self.request(method, path, Some(body))).await;
        match answer.status {
            Some(200) => Ok(()),
            None => failed(answer.why),
            Some(status) => failed(format!("the status is {status}: {}", answer.body)),
        }
    }

    async fn agreed(&mut self) -> Result<Terms, Stop> {
        let agreed = self.agree().await;
        self.trail.clear();
        match agreed {
            Ok(terms) => Ok(terms),
            Err(_) => skipped("there is no valid quote"),
        }
    }

    async fn send(&mut self, request: &HubRequest) -> PeerAnswer {
        let answer = self.peer.send(request, |_, _| {}).await;
        self.trail.push(shown(&answer));
        answer
    }

    async fn accepted(&mut self, request: &HubRequest) -> Result<PeerAnswer, Stop> {
        let answer = self.send(request).await;
        match answer.status {
            Some(202) => Ok(answer),
            Some(status) => failed(format!("the status is {status}: {}", answer.body)),
            None => failed(answer.why),
        }
    }

    /// The callback or the error callback of a path.
    async fn callback(&mut self, path: &str) -> Result<Callback, Stop> {
        let error = format!("{path}/error");
        let found = self
            .peer
            .inbox
            .take(self.options.wait, |found| found.path == path || found.path == error)
            .await;
        let Some(callback) = found else {
            self.trail.push(NOTHING.to_owned());
            return failed(format!("no callback within {} s", self.options.wait.as_secs()));
        };
        self.trail.push(format!("{} {}", callback.method, callback.path));
        if let Some(why) = &callback.bad_signature {
            return failed(format!("the signature of the callback: {why}"));
        }
        self.check_head(&callback)?;
        Ok(callback)
    }

    fn check_head(&self, callback: &Callback) -> Played {
        if callback.method != Method::PUT {
            return failed("the callback is not a PUT");
        }
        let resource = callback.path[1..].split('/').next().unwrap_or_default();
        let head = fspiop::headers::check(&callback.headers, &Method::PUT, resource);
        let head = match head {
            Ok(head) => head,
            Err(refusal) => {
                return failed(format!("headers of the callback: {}", refusal.description));
            }
        };
        let is_hub = self.options.target == TargetKind::Hub;
        if head.source.as_str() != self.options.dfsp && !is_hub {
            return failed(format!("FSPIOP-Source of the callback is {}", head.source.as_str()));
        }
        match head.destination.as_ref().map(|name| name.as_str()) {
            Some(name) if name == self.options.payer => Ok(()),
            other => failed(format!(
                "FSPIOP-Destination of the callback is {}",
                other.unwrap_or("missing")
            )),
        }
    }

    fn success(&mut self, callback: &Callback, operation: Operation) -> Result<Value, Stop> {
        let body: Value = serde_json::from_slice(&callback.body).unwrap_or(Value::Null);
        if callback.path.ends_with("/error") {
            let code = error_of(&body).map_or("", |(code, _)| code);
            self.trail.push(code.to_owned());
            return failed(format!("an error: {body}"));
        }
        match fspiop::body::check(operation, &callback.body) {
            Ok(()) => Ok(body),
            Err(refusal) => failed(format!("body of the callback: {}", refusal.description)),
        }
    }

    /// The code of an error callback.
    fn error(&mut self, callback: &Callback) -> Result<String, Stop> {
        if !callback.path.ends_with("/error") {
            return failed("the callback is not an error");
        }
        let body: Value = serde_json::from_slice(&callback.body).unwrap_or(Value::Null);
        self.code(&body)
    }

    /// The code of an answer with 400.
    fn refusal(&mut self, answer: &PeerAnswer) -> Result<String, Stop> {
        match answer.status {
            Some(400) => self.code(&answer.body),
            Some(status) => failed(format!("the status is {status}")),
            None => failed(answer.why.clone()),
        }
    }

    fn code(&mut self, body: &Value) -> Result<String, Stop> {
        match error_of(body) {
            Some((code, _)) if is_code(code) => {
                self.trail.push(code.to_owned());
                Ok(code.to_owned())
            }
            _ => failed(format!("no errorInformation: {body}")),
        }
    }

    fn party_path(&self, id: &str) -> String {
        format!("/{}", party_path(&json!({ "idType": self.options.party.0, "idValue": id })))
    }

    fn request(&self, method: Method, path: &str, body: Option<Value>) -> HubRequest {
        let destination = Some(self.options.dfsp.clone());
        HubRequest { method, path: path.to_owned(), destination, body }
    }

    fn quote_request(&self, quote_id: &str, transfer_id: &str) -> Value {
        let (kind, id) = &self.options.party;
        let named = json!({ "partyIdInfo": {
            "partyIdType": kind, "partyIdentifier": id, "fspId": self.options.dfsp } });
        let payer = json!({ "partyIdInfo": {
            "partyIdType": "MSISDN", "partyIdentifier": "1", "fspId": self.options.payer } });
        json!({
            "quoteId": quote_id,
            "transactionId": transfer_id,
            "payer": payer,
            "payee": self.payee.clone().unwrap_or(named),
            "amountType": "SEND",
            "amount": { "amount": self.options.amount, "currency": self.options.currency },
            "transactionType": {
                "scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER" },
            "expiration": date_time(now_ms() + LIFE_MS),
        })
    }

    fn prepare(&self, terms: &Terms, expires_ms: u64) -> Value {
        json!({
            "transferId": terms.transfer_id,
            "payerFsp": self.options.payer,
            "payeeFsp": self.options.dfsp,
            "amount": terms.answer["transferAmount"],
            "ilpPacket": terms.answer["ilpPacket"],
            "condition": terms.answer["condition"],
            "expiration": date_time(expires_ms),
        })
    }
}

/// The answer of a DFSP that sends no callback.
const NOTHING: &str = "no callback";

fn shown(answer: &PeerAnswer) -> String {
    match answer.status {
        Some(status) => format!("{status} after {} ms", ms(answer.time)),
        None => "no answer".to_owned(),
    }
}

fn ms(time: Duration) -> u128 {
    time.as_millis()
}

fn new_id() -> String {
    IdForm::Uuid.generate()
}

fn is_code(code: &str) -> bool {
    code.len() == 4 && code.bytes().all(|byte| byte.is_ascii_digit())
}

/// A condition whose fulfilment is unknown.
fn digest() -> String {
    let bytes = [random().to_be_bytes(), random().to_be_bytes()].concat();
    let mut text = Vec::new();
    ilp::push_base64(&mut text, &bytes);
    String::from_utf8_lossy(&text).into_owned()
}

/// Changes the amount of a transfer.
fn add_one(prepare: &mut Value) {
    let amount = &mut prepare["amount"]["amount"];
    *amount = if *amount == "1" { "2".into() } else { "1".into() };
}
