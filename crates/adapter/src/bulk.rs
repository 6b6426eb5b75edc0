//! Bulk quotes and bulk transfers of the payer.
//!
//! A bulk transfer is on disk before it is sent. The same request again sends the identical
//! message, so that the hub recognises it and reports its result. The adapter does not ask by
//! itself how a bulk ended: the back end repeats the request or reads the bulk.

use std::sync::Arc;

use http::Method;
use ledger::TransferId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::dfsp::{Dfsp, plain_error, unavailable};
use crate::forms::{Object, copy, money, put, to_fspiop_party};
use crate::ids::{date_time, now_ms};
use crate::outbound::{BackendReply, HubRequest, OutboundTransfer};
use crate::outbound_api::{ask, invalid, parse};
use crate::outbound_checks as checks;
use crate::store::{Durability, RowKind};

/// The state's names in errors.
const QUOTE_MEMBER: &str = "bulkQuoteState";
const TRANSFER_MEMBER: &str = "bulkTransferState";

/// A bulk that was sent.
#[derive(Serialize, Deserialize)]
struct SentBulk {
    /// Hash of the back end's request; empty for a bulk quote.
    hash: String,
    destination: String,
    /// `POST /bulkTransfers`; null for a bulk quote.
    body: Value,
}

/// `POST /bulkQuotes`.
pub(crate) async fn post_quotes(dfsp: &Arc<Dfsp>, body: &[u8], trace: [u8; 16]) -> BackendReply {
    let checked =
        parse(body).and_then(|body| checks::bulk_quote(&body).map_err(|why| invalid(&why)));
    let (mut object, fsp) = match checked {
        Ok(checked) => checked,
        Err(answer) => return answer,
    };
    let new_id = || dfsp.id_form.generate().into();
    let id = object.entry("bulkQuoteId").or_insert_with(new_id).as_str().unwrap_or_default();
    let id = id.to_owned();
    object["from"]["fspId"] = dfsp.policy.fsp_id.clone().into();
    let items = object["individualQuotes"].as_array().into_iter().flatten();
    let items: Vec<_> = items.map(|item| individual_quote(item, &object["from"], dfsp)).collect();
    let mut message = Object::new();
    message.insert("bulkQuoteId".to_owned(), id.as_str().into());
    message.insert("payer".to_owned(), to_fspiop_party(&object["from"]));
    message.insert("individualQuotes".to_owned(), items.into());
    let expires = now_ms() + dfsp.policy.expiry_ms;
    message.insert("expiration".to_owned(), date_time(expires).into());
    put(&mut message, "extensionList", object.get("extensions").unwrap_or(&Value::Null));
    // Without the recipient the bulk quote cannot be read later; the payee has its terms.
    let sent = SentBulk { hash: String::new(), destination: fsp.clone(), body: Value::Null };
    let row = dfsp.row(RowKind::SentBulk, &id, json!(sent).to_string().into_bytes(), false);
    if dfsp.save(vec![row], Durability::Written).await.is_err() {
        return unavailable("the adapter cannot write its state");
    }
    let request = HubRequest {
        method: Method::POST,
        path: "/bulkQuotes".to_owned(),
        destination: Some(fsp),
        body: Some(message.into()),
    };
    let mut state = Object::new();
    state.insert("bulkQuoteId".to_owned(), id.as_str().into());
    put(&mut state, "homeTransactionId", &object["homeTransactionId"]);
    let what = format!("Timeout requesting bulk quote {id}");
    match ask(dfsp, quote_key(&id), request, trace, &what).await {
        Ok((_, body)) => {
            let results = with_errors(&body["individualQuoteResults"], &["payee"]);
            state.insert("individualQuoteResults".to_owned(), results);
            copy(&body, &["expiration", "extensionList"], &mut state);
            state.insert("currentState".to_owned(), "COMPLETED".into());
            BackendReply { status: 200, body: state.into() }
        }
        Err(failure) => failure.answer(QUOTE_MEMBER, state.into()),
    }
}

fn individual_quote(item: &Value, from: &Value, dfsp: &Dfsp) -> Value {
    let mut kind = Object::new();
    kind.insert("scenario".to_owned(), item["transactionType"].clone());
    put(&mut kind, "subScenario", &item["subScenario"]);
    kind.insert("initiator".to_owned(), "PAYER".into());
    kind.insert("initiatorType".to_owned(), from["type"].as_str().unwrap_or("CONSUMER").into());
    let mut out = Object::new();
    out.insert("quoteId".to_owned(), item["quoteId"].clone());
    out.insert("transactionId".to_owned(), dfsp.id_form.generate().into());
    out.insert("payee".to_owned(), to_fspiop_party(&item["to"]));
    out.insert("amountType".to_owned(), item["amountType"].clone());
    out.insert("amount".to_owned(), money(&item["amount"], &item["currency"]));
    out.insert("transactionType".to_owned(), kind.into());
    put(&mut out, "note", &item["note"]);
    put(&mut out, "extensionList", &item["extensions"]);
    out.into()
}

/// `GET /bulkQuotes/{ID}`.
pub(crate) async fn get_quotes(dfsp: &Arc<Dfsp>, id: &str, trace: [u8; 16]) -> BackendReply {
    let state = json!({ "bulkQuoteId": id });
    let what = format!("Timeout getting bulk quote {id}");
    let mut request = match question("bulkQuotes", id) {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let sent = dfsp.load::<SentBulk>(RowKind::SentBulk, id);
    request.destination = sent.map(|sent| sent.destination);
    match ask(dfsp, quote_key(id), request, trace, &what).await {
        Ok((_, body)) => {
            let results = with_errors(&body["individualQuoteResults"], &["payee"]);
            let body = json!({
                "bulkQuoteId": id, "currentState": "COMPLETED", "individualQuotes": results,
            });
            BackendReply { status: 200, body }
        }
        Err(failure) => failure.answer(QUOTE_MEMBER, state),
    }
}

/// `POST /bulkTransfers`.
pub(crate) async fn post_transfers(dfsp: &Arc<Dfsp>, body: &[u8], trace: [u8; 16]) -> BackendReply {
    let checked =
        parse(body).and_then(|body| checks::bulk_transfer(&body).map_err(|why| invalid(&why)));
    let (object, fsp) = match checked {
        Ok(checked) => checked,
        Err(answer) => return answer,
    };
    let id = object["bulkTransferId"].as_str().unwrap_or_default();
    let hash = OutboundTransfer::hash_of(&object);
    let sent = match dfsp.load::<SentBulk>(RowKind::SentBulk, id) {
        Some(known) if known.hash != hash => {
            return plain_error(400, "3106", &format!("bulkTransferId {id} was used before"));
        }
        Some(known) => known,
        None => {
            let sent =
                SentBulk { hash, body: bulk_transfer(&object, &fsp, dfsp), destination: fsp };
            let row = dfsp.row(RowKind::SentBulk, id, json!(sent).to_string().into_bytes(), false);
            if dfsp.save(vec![row], Durability::Synced).await.is_err() {
                return unavailable("the adapter cannot write its state");
            }
            sent
        }
    };
    let request = HubRequest {
        method: Method::POST,
        path: "/bulkTransfers".to_owned(),
        destination: Some(sent.destination),
        body: Some(sent.body),
    };
    let mut state = Object::new();
    for name in ["bulkTransferId", "bulkQuoteId", "homeTransactionId"] {
        put(&mut state, name, &object[name]);
    }
    let what = format!("Timeout waiting for the fulfil of bulk transfer {id}");
    match ask(dfsp, transfer_key(id), request, trace, &what).await {
        Ok((_, body)) => BackendReply { status: 200, body: bulk_result(state, &body) },
        Err(failure) => failure.answer(TRANSFER_MEMBER, state.into()),
    }
}

fn bulk_transfer(object: &Object, fsp: &str, dfsp: &Dfsp) -> Value {
    let items = object["individualTransfers"].as_array().into_iter().flatten().map(|item| {
        let mut out = Object::new();
        out.insert("transferId".to_owned(), item["transferId"].clone());
        out.insert("transferAmount".to_owned(), money(&item["amount"], &item["currency"]));
        copy(item, &["ilpPacket", "condition"], &mut out);
        put(&mut out, "extensionList", &item["extensions"]);
        Value::from(out)
    });
    let mut body = Object::new();
    body.insert("individualTransfers".to_owned(), items.collect());
    body.insert("bulkTransferId".to_owned(), object["bulkTransferId"].clone());
    body.insert("bulkQuoteId".to_owned(), object["bulkQuoteId"].clone());
    body.insert("payerFsp".to_owned(), dfsp.policy.fsp_id.clone().into());
    body.insert("payeeFsp".to_owned(), fsp.into());
    let expires = now_ms() + dfsp.policy.expiry_ms;
    body.insert("expiration".to_owned(), date_time(expires).into());
    put(&mut body, "extensionList", object.get("extensions").unwrap_or(&Value::Null));
    body.into()
}

/// `GET /bulkTransfers/{ID}`.
pub(crate) async fn get_transfers(dfsp: &Arc<Dfsp>, id: &str, trace: [u8; 16]) -> BackendReply {
    let mut state = Object::new();
    state.insert("bulkTransferId".to_owned(), id.into());
    let what = format!("Timeout getting bulk transfer {id}");
    let request = match question("bulkTransfers", id) {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    match ask(dfsp, transfer_key(id), request, trace, &what).await {
        Ok((_, body)) => BackendReply { status: 200, body: bulk_result(state, &body) },
        Err(failure) => failure.answer(TRANSFER_MEMBER, state.into()),
    }
}

/// The state of a bulk transfer with the hub's report.
fn bulk_result(mut state: Object, body: &Value) -> Value {
    copy(body, &["bulkTransferState", "completedTimestamp", "extensionList"], &mut state);
    let results = with_errors(&body["individualTransferResults"], &[]);
    state.insert("individualTransferResults".to_owned(), results);
    let current = match body["bulkTransferState"].as_str() {
        Some("COMPLETED" | "REJECTED") | None => "COMPLETED",
        Some(state) => state,
    };
    state.insert("currentState".to_owned(), current.into());
    state.into()
}

/// Results of items, with errors in the form of the back end.
fn with_errors(results: &Value, left_out: &[&str]) -> Value {
    let results = results.as_array().into_iter().flatten().map(|result| {
        let mut out = crate::forms::object(result);
        left_out.iter().for_each(|name| drop(out.remove(*name)));
        if let Some(error) = out.remove("errorInformation") {
            let error = json!({ "errorInformation": error });
            let last = json!({ "httpStatusCode": 500, "mojaloopError": error });
            out.insert("lastError".to_owned(), last);
        }
        Value::from(out)
    });
    results.collect()
}

fn question(resource: &str, id: &str) -> Result<HubRequest, BackendReply> {
    match TransferId::parse(id) {
        Some(_) => {
            let path = format!("/{resource}/{id}");
            Ok(HubRequest { method: Method::GET, path, destination: None, body: None })
        }
        None => Err(invalid("the id of a bulk should be a UUID or a ULID")),
    }
}

/// The key of callbacks about a bulk quote.
pub(crate) fn quote_key(id: &str) -> String {
    format!("bulkQuotes/{id}")
}

/// The key of callbacks about a bulk transfer.
pub(crate) fn transfer_key(id: &str) -> String {
    format!("bulkTransfers/{id}")
}
