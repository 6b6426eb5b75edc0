//! Bulk quotes and bulk transfers of the payee.
//!
//! A bulk transfer is on disk before the hub gets its 202, and its response before it is sent.
//! After a restart the back end gets the same bulk again until the bulk expires, and the hub the
//! same response until it answers. Then the hub's result is awaited. The back end gets a final
//! notice if the hub has not committed an item that the back end may have credited.

use std::sync::Arc;
use std::time::Duration;

use fspiop::Refusal;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::backend::BackendError;
use crate::dfsp::{Dfsp, count};
use crate::forms::{
    Object, copy, error_information, error_of, extension_list, put, to_internal_party,
};
use crate::ids::{date_time, now_ms};
use crate::inbound::{InboundEvent, QuoteRecord, backend_quote_request, quote_response};
use crate::inbound_api::{Job, Request};
use crate::outbound::HubRequest;
use crate::store::{Durability, RowKind, StoreError};

/// Pauses between deliveries of a response.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A bulk quote that this DFSP has answered.
#[derive(Serialize, Deserialize)]
struct BulkQuoteRecord {
    /// The payer as the back end reads it.
    from: Value,
    /// The back end's answer.
    response: Value,
    /// `PUT /bulkQuotes/{ID}`.
    fspiop_response: Value,
    /// The quotes with terms.
    quotes: Vec<QuoteRecord>,
}

/// A bulk transfer that was received.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReceivedBulk {
    source: String,
    version: String,
    trace: [u8; 16],
    /// `POST /bulkTransfers`.
    request: Value,
    /// The response: whether it is an error, and its body.
    response: Option<(bool, Value)>,
    /// Whether the back end may have credited items although the response is an error.
    is_uncertain: bool,
    /// The final notice that is owed to the back end.
    notice: Option<Value>,
    /// Whether the hub has decided about all items.
    is_decided: bool,
}

impl Job {
    /// Asks the back end for the terms of a bulk.
    pub(crate) async fn bulk_quote(self) {
        let request = &self.request.body;
        let id = request["bulkQuoteId"].as_str().unwrap_or_default();
        let path = format!("/bulkQuotes/{id}");
        let items = request["individualQuotes"].as_array().into_iter().flatten();
        let quotes: Vec<_> = items.map(|item| whole_quote(request, item)).collect();
        let body = backend_bulk_quote(request, &quotes);
        let answer = match self.ask_backend(Method::POST, "/bulkQuotes", Some(&body)).await {
            Ok(None) => return,
            Ok(Some(answer)) => answer,
            Err(error) => return self.deliver_error(&path, &error).await,
        };
        let record = self.bulk_quote_record(request, &quotes, answer);
        let value = json!(record).to_string().into_bytes();
        let row = self.dfsp.row(RowKind::BulkQuote, id, value, false);
        if self.dfsp.save(vec![row], Durability::Written).await.is_ok() {
            self.deliver(path, record.fspiop_response).await;
        }
    }

    fn bulk_quote_record(
        &self,
        request: &Value,
        quotes: &[Value],
        answer: Value,
    ) -> BulkQuoteRecord {
        let (policy, now) = (&self.dfsp.policy, now_ms());
        let expiration = match &answer["expiration"] {
            Value::Null => date_time(now + policy.expiry_ms).into(),
            time => time.clone(),
        };
        let mut records = Vec::new();
        let results = quotes.iter().map(|quote| {
            let found = find(&answer["individualQuoteResults"], "quoteId", &quote["quoteId"]);
            let terms = terms(found, &expiration).and_then(|terms| {
                quote_response(
                    (quote, backend_quote_request(quote)),
                    terms,
                    &self.dfsp.secret,
                    policy,
                    now,
                )
                .map_err(|why| error_information("2001", &why))
            });
            let mut result = Object::new();
            result.insert("quoteId".to_owned(), quote["quoteId"].clone());
            match terms {
                Ok(record) => {
                    copy(&record.fspiop_response, &TERMS, &mut result);
                    records.push(record);
                }
                Err(error) => put(&mut result, "errorInformation", &error["errorInformation"]),
            }
            Value::from(result)
        });
        let results: Value = results.collect();
        let response = json!({ "individualQuoteResults": results, "expiration": expiration });
        BulkQuoteRecord {
            from: to_internal_party(&request["payer"]),
            response: answer,
            fspiop_response: response,
            quotes: records,
        }
    }

    /// Repeats the terms of a bulk quote.
    pub(crate) async fn show_bulk_quote(&self, id: &str) {
        let path = format!("/bulkQuotes/{id}");
        match self.dfsp.load::<BulkQuoteRecord>(RowKind::BulkQuote, id) {
            Some(record) => {
                self.deliver(path, record.fspiop_response).await;
            }
            None => self.deliver_error(&path, &certain("3209", "Bulk quote ID not found")).await,
        }
    }

    /// Takes a bulk transfer over, and works on it.
    pub(crate) async fn receive_bulk(self) -> Result<(), Refusal> {
        let id = id_of(&self.request.body).to_owned();
        let bulk = match self.dfsp.load::<ReceivedBulk>(RowKind::ReceivedBulk, &id) {
            Some(known) => known,
            None => {
                let request = &self.request;
                let bulk = ReceivedBulk {
                    source: request.source.clone(),
                    version: request.version.clone(),
                    trace: request.trace,
                    request: request.body.clone(),
                    response: None,
                    is_uncertain: false,
                    notice: None,
                    is_decided: false,
                };
                let row = bulk.row(&self.dfsp, true);
                let is_saved = self.dfsp.save(vec![row], Durability::Synced).await.is_ok();
                is_saved.then_some(bulk).ok_or_else(Refusal::unavailable)?
            }
        };
        tokio::spawn(self.work_on_bulk(bulk));
        Ok(())
    }

    /// Repeats the response to a bulk transfer.
    pub(crate) async fn show_bulk(&self, id: &str) {
        let path = format!("/bulkTransfers/{id}");
        let known = self.dfsp.load::<ReceivedBulk>(RowKind::ReceivedBulk, id);
        match known.and_then(|bulk| bulk.response) {
            Some((is_error, body)) => {
                let path = if is_error { format!("{path}/error") } else { path };
                self.deliver(path, body).await;
            }
            None => self.deliver_error(&path, &certain("3210", "Bulk transfer ID not found")).await,
        }
    }

    /// Brings a bulk to its end: response, the hub's result, notice to the back end.
    async fn work_on_bulk(self, mut bulk: ReceivedBulk) {
        // Another task may work on it.
        let key = notice_key(id_of(&bulk.request));
        let Some((_wait, mut inputs)) = self.dfsp.inbound.register_first(&key) else { return };
        if !self.respond_to_bulk(&mut bulk).await {
            return;
        }
        if !bulk.is_decided {
            if !bulk.credited().is_empty() {
                bulk.notice = self.bulk_result(&bulk, &mut inputs).await;
            }
            bulk.is_decided = true;
            if self.save_bulk(&bulk, bulk.notice.is_some()).await.is_err() {
                return;
            }
        }
        if let Some(notice) = bulk.notice.take() {
            self.notify_of_bulk(id_of(&bulk.request), &notice).await;
        }
        self.close_bulk(&bulk).await;
    }

    /// Asks the back end unless it has answered, and delivers the response; `false` without one.
    async fn respond_to_bulk(&self, bulk: &mut ReceivedBulk) -> bool {
        if bulk.response.is_none() {
            bulk.response = match self.answer_bulk(&bulk.request).await {
                Ok(Some(body)) => Some((false, body)),
                // The back end wants no response; the bulk expires at the hub.
                Ok(None) => {
                    self.close_bulk(bulk).await;
                    return false;
                }
                Err(error) => {
                    bulk.is_uncertain |= !error.is_certain;
                    let text = error.message.chars().take(fspiop::DESCRIPTION_CHARS_MAX);
                    Some((true, error_information(&error.code, &text.collect::<String>())))
                }
            };
            if self.save_bulk(bulk, true).await.is_err() {
                return false;
            }
        }
        let Some((is_error, body)) = bulk.response.clone() else { return false };
        let end = if is_error { "/error" } else { "" };
        let path = format!("/bulkTransfers/{}{end}", id_of(&bulk.request));
        let mut pause = PAUSE;
        while !self.deliver(path.clone(), body.clone()).await {
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
        true
    }

    /// Waits for the hub's result, and asks for it when it does not come. Returns the notice that
    /// the back end must get.
    async fn bulk_result(
        &self,
        bulk: &ReceivedBulk,
        inputs: &mut mpsc::Receiver<InboundEvent>,
    ) -> Option<Value> {
        let id = id_of(&bulk.request);
        let mut wait = Duration::from_millis(self.dfsp.policy.notice_grace_ms);
        let mut pause = PAUSE;
        loop {
            match timeout(wait, inputs.recv()).await {
                Ok(Some(InboundEvent::Notice { is_error, body, .. })) => {
                    if let Some(results) = bulk.results(is_error, &body, now_ms()) {
                        return bulk.notice_of(&results);
                    }
                }
                Ok(_) => {}
                Err(_) => {
                    let (method, path) = (Method::GET, format!("/bulkTransfers/{id}"));
                    let request = HubRequest { method, path, destination: None, body: None };
                    count(&self.dfsp.counts.hub_requests);
                    // The answer comes as a callback; without one the hub is asked again.
                    let version = &self.request.version;
                    self.dfsp.hub.send_as(version, &request, self.request.trace).await;
                }
            }
            wait = pause;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// Repeats the final notice until the back end takes it.
    async fn notify_of_bulk(&self, id: &str, notice: &Value) {
        let path = format!("/bulkTransfers/{id}");
        let mut pause = PAUSE;
        while let Err(error) = self.ask_backend(Method::PUT, &path, Some(notice)).await {
            if error.is_certain {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    async fn save_bulk(&self, bulk: &ReceivedBulk, is_open: bool) -> Result<(), StoreError> {
        self.dfsp.save(vec![bulk.row(&self.dfsp, is_open)], Durability::Written).await
    }

    /// The row may be read again, but a start need not continue it.
    async fn close_bulk(&self, bulk: &ReceivedBulk) {
        match bulk.response {
            Some((false, _)) => count(&self.dfsp.counts.inbound_completed),
            _ => count(&self.dfsp.counts.inbound_aborted),
        }
        // Otherwise the next start delivers it once more.
        let _saved = self.save_bulk(bulk, false).await;
    }

    /// The response to a bulk transfer; `None` for an empty answer of the back end.
    async fn answer_bulk(&self, request: &Value) -> Result<Option<Value>, BackendError> {
        let policy = &self.dfsp.policy;
        let expiration = request["expiration"].as_str().and_then(fspiop::time::parse_date_time);
        let id = id_of(request);
        if expiration.is_some_and(|at| at <= now_ms()) {
            return Err(certain("3303", &format!("Bulk transfer {id} has expired")));
        }
        let quote_id = request["bulkQuoteId"].as_str().unwrap_or_default();
        let quote = self.dfsp.load::<BulkQuoteRecord>(RowKind::BulkQuote, quote_id);
        let items = request["individualTransfers"].as_array().into_iter().flatten();
        let items: Vec<_> = items
            .map(|item| (item, quote.as_ref().and_then(|quote| quote_of(quote, item))))
            .collect();
        if quote.is_none() && !policy.allow_transfer_without_quote {
            let what = format!("Corresponding bulk quote not found for bulk transfer {id}");
            return Err(certain("2001", &what));
        }
        if policy.check_ilp && quote.is_some() && items.iter().any(|(_, found)| found.is_none()) {
            let what = format!("An ILP packet does not match the quote of bulk transfer {id}");
            return Err(certain("2001", &what));
        }
        let body = backend_bulk_transfer(request, quote.as_ref(), &items);
        let answer = self.ask_backend(Method::POST, "/bulkTransfers", Some(&body)).await?;
        Ok(answer.map(|answer| bulk_response(&answer, &items)))
    }
}

/// Members of a result with terms.
const TERMS: [&str; 7] = [
    "transferAmount",
    "payeeReceiveAmount",
    "payeeFspFee",
    "payeeFspCommission",
    "ilpPacket",
    "condition",
    "extensionList",
];

/// Continues a bulk transfer that was stored.
pub(crate) fn resume(dfsp: &Arc<Dfsp>, mut bulk: ReceivedBulk) {
    // A back end that was asked may have credited items.
    bulk.is_uncertain |= bulk.response.is_none();
    let request = Request {
        source: bulk.source.clone(),
        version: bulk.version.clone(),
        trace: bulk.trace,
        headers: Value::Null,
        body: Value::Null,
    };
    let job = Job { dfsp: Arc::clone(dfsp), request, place: None };
    tokio::spawn(job.work_on_bulk(bulk));
}

/// Passes the hub's result on to the bulk that waits for it.
pub(crate) fn notice(dfsp: &Arc<Dfsp>, id: &str, is_error: bool, body: &Value) {
    let event = InboundEvent::Notice { is_patch: false, is_error, body: body.clone() };
    dfsp.inbound.send(&notice_key(id), event);
}

/// The key of the hub's results.
fn notice_key(id: &str) -> String {
    format!("bulk/{id}")
}

impl ReceivedBulk {
    fn row(&self, dfsp: &Dfsp, is_open: bool) -> crate::store::Row {
        let value = json!(self).to_string().into_bytes();
        dfsp.row(RowKind::ReceivedBulk, id_of(&self.request), value, is_open)
    }

    /// The ids of the items that the back end may have credited.
    fn credited(&self) -> Vec<&Value> {
        let (list, must_fulfil) = match &self.response {
            Some((false, body)) => (&body["individualTransferResults"], true),
            Some((true, _)) if self.is_uncertain => (&self.request["individualTransfers"], false),
            _ => return Vec::new(),
        };
        let items = list.as_array().into_iter().flatten();
        let credited = items.filter(|item| !must_fulfil || item["fulfilment"].is_string());
        credited.map(|item| &item["transferId"]).collect()
    }

    /// The hub's results of all items, if a message from it has them.
    fn results(&self, is_error: bool, body: &Value, now_ms: u64) -> Option<Value> {
        let expiration = self.request["expiration"].as_str();
        let expiration = expiration.and_then(fspiop::time::parse_date_time);
        let code = error_of(body).map(|(code, _)| code);
        match body["bulkTransferState"].as_str() {
            Some("COMPLETED" | "REJECTED") if !is_error => {
                Some(body["individualTransferResults"].clone())
            }
            // The hub does not know the bulk, and will not accept it any more.
            None if code == Some("3210") && expiration.is_none_or(|at| at <= now_ms) => {
                Some(Value::Null)
            }
            // Other errors are about one message.
            _ => None,
        }
    }

    /// `PUT /bulkTransfers/{ID}` of the back end; `None` if all credited items were committed.
    fn notice_of(&self, results: &Value) -> Option<Value> {
        let items = self.credited().into_iter().map(|id| {
            let found = find(results, "transferId", id);
            let error = found.map(|found| &found["errorInformation"]);
            let mut item = Object::new();
            item.insert("transferId".to_owned(), id.clone());
            let state = if error.is_some_and(Value::is_null) { "COMPLETED" } else { "ABORTED" };
            item.insert("currentState".to_owned(), state.into());
            if let Some(error) = error.filter(|error| !error.is_null()) {
                let error = json!({ "errorInformation": error });
                let last = json!({ "httpStatusCode": 500, "mojaloopError": error });
                item.insert("lastError".to_owned(), last);
            }
            item
        });
        let items: Vec<_> = items.collect();
        let is_committed = |item: &Object| item["currentState"] == "COMPLETED";
        if items.iter().all(is_committed) {
            return None;
        }
        let state = if items.iter().any(is_committed) { "COMPLETED" } else { "ABORTED" };
        Some(json!({
            "bulkTransferId": self.request["bulkTransferId"], "currentState": state,
            "individualTransferResults": items,
        }))
    }
}

fn id_of(request: &Value) -> &str {
    request["bulkTransferId"].as_str().unwrap_or_default()
}

fn certain(code: &str, message: &str) -> BackendError {
    BackendError { code: code.to_owned(), message: message.to_owned(), is_certain: true }
}

/// An item of a bulk quote in the form of a single one.
fn whole_quote(request: &Value, item: &Value) -> Value {
    let mut quote = crate::forms::object(item);
    quote.insert("payer".to_owned(), request["payer"].clone());
    put(&mut quote, "expiration", &request["expiration"]);
    quote.into()
}

/// `POST /bulkQuotes` of the back end.
fn backend_bulk_quote(request: &Value, quotes: &[Value]) -> Value {
    let items = quotes.iter().map(|quote| {
        let mut item = crate::forms::object(&backend_quote_request(quote));
        // They are those of the bulk.
        ["from", "expiration"].iter().for_each(|name| drop(item.remove(*name)));
        Value::from(item)
    });
    let mut body = Object::new();
    body.insert("individualQuotes".to_owned(), items.collect());
    body.insert("from".to_owned(), to_internal_party(&request["payer"]));
    copy(request, &["bulkQuoteId", "expiration", "geoCode"], &mut body);
    put(&mut body, "extensionList", &request["extensionList"]["extension"]);
    body.into()
}

/// The entry of a list whose id is this one.
fn find<'a>(list: &'a Value, name: &str, id: &Value) -> Option<&'a Value> {
    list.as_array()?.iter().find(|entry| entry[name] == *id)
}

/// The error in a result of the back end.
fn error_in(result: &Value) -> Option<Value> {
    let error =
        [&result["errorResponse"], &result["error"]].into_iter().find(|it| it.is_object())?;
    let text = error["message"].as_str().unwrap_or("refused by the back end");
    let code = error["statusCode"].as_str().filter(|code| fspiop::ErrorCode::parse(code).is_some());
    let text: String = text.chars().take(fspiop::DESCRIPTION_CHARS_MAX).collect();
    Some(error_information(code.unwrap_or("2001"), &text))
}

/// The terms of one quote, with the expiration of the bulk.
fn terms(found: Option<&Value>, expiration: &Value) -> Result<Value, Value> {
    let found = found.ok_or_else(|| error_information("2001", "not quoted by the back end"))?;
    if let Some(error) = error_in(found) {
        return Err(error);
    }
    let mut terms = crate::forms::object(found);
    terms.insert("expiration".to_owned(), expiration.clone());
    Ok(terms.into())
}

/// The quote that an item pays.
fn quote_of<'a>(quote: &'a BulkQuoteRecord, item: &Value) -> Option<&'a QuoteRecord> {
    quote.quotes.iter().find(|quote| {
        let terms = &quote.fspiop_response;
        item["ilpPacket"] == terms["ilpPacket"]
            && item["condition"] == terms["condition"]
            && item["transferAmount"] == terms["transferAmount"]
    })
}

/// `POST /bulkTransfers` of the back end.
fn backend_bulk_transfer(
    request: &Value,
    quote: Option<&BulkQuoteRecord>,
    items: &[(&Value, Option<&QuoteRecord>)],
) -> Value {
    let items = items.iter().map(|(item, quote)| {
        let mut out = Object::new();
        if let Some(quote) = quote {
            out = crate::forms::object(&quote.internal_request);
            ["from", "expiration", "extensionList"].iter().for_each(|name| drop(out.remove(*name)));
        }
        out.insert("transferId".to_owned(), item["transferId"].clone());
        out.insert("amount".to_owned(), item["transferAmount"]["amount"].clone());
        out.insert("currency".to_owned(), item["transferAmount"]["currency"].clone());
        put(&mut out, "extensionList", &item["extensionList"]["extension"]);
        Value::from(out)
    });
    let mut body = Object::new();
    body.insert("individualTransfers".to_owned(), items.collect());
    copy(request, &["bulkTransferId"], &mut body);
    if let Some(quote) = quote {
        body.insert("bulkQuote".to_owned(), quote.response.clone());
        body.insert("from".to_owned(), quote.from.clone());
    }
    body.into()
}

/// `PUT /bulkTransfers/{ID}`. Without a list in the back end's answer all items are accepted.
fn bulk_response(answer: &Value, items: &[(&Value, Option<&QuoteRecord>)]) -> Value {
    let list = &answer["individualTransferResults"];
    let results = items.iter().map(|(item, quote)| {
        let found = find(list, "transferId", &item["transferId"]);
        let own = found.and_then(|found| found["fulfilment"].as_str());
        let fulfilment = own.or_else(|| quote.map(|quote| &*quote.fulfilment));
        let error = match (found, fulfilment) {
            (None, _) if list.is_array() => {
                Some(error_information("2001", "not accepted by the back end"))
            }
            (_, None) => Some(error_information("2001", "no fulfilment is known")),
            (found, Some(_)) => found.and_then(error_in),
        };
        let mut out = Object::new();
        out.insert("transferId".to_owned(), item["transferId"].clone());
        match (error, fulfilment) {
            (None, Some(fulfilment)) => {
                out.insert("fulfilment".to_owned(), fulfilment.into());
            }
            (error, _) => {
                put(&mut out, "errorInformation", &error.unwrap_or_default()["errorInformation"]);
            }
        }
        let extensions = found.unwrap_or(&Value::Null)["extensionList"].clone();
        put(&mut out, "extensionList", &extension_list(&extensions));
        Value::from(out)
    });
    let results: Value = results.collect();
    json!({
        "bulkTransferState": "COMPLETED", "completedTimestamp": date_time(now_ms()),
        "individualTransferResults": results,
    })
}
