//! Requests to pay: the payee's DFSP asks that of the payer to pay.
//!
//! No money moves here. The back end of the payer pays with `POST /requestToPayTransfer`. A request
//! is in the store from its first pause or its answer on.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use crate::dfsp::{Dfsp, unavailable};
use crate::forms::{
    Object, copy, merge_party, put as put_member, to_fspiop_party, to_internal_party,
};
use crate::outbound::{BackendReply, HubRequest, NO_FSP, party_key, party_path};
use crate::outbound_api::{ask, invalid, parse, state_error, unknown_flow};
use crate::outbound_checks as checks;
use crate::store::{Durability, RowKind};

/// The state's name in errors.
const MEMBER: &str = "requestToPayState";

/// `POST /requestToPay`: looks up the party that shall pay, and sends the request to its DFSP.
pub(crate) async fn post(dfsp: &Arc<Dfsp>, body: &[u8], trace: [u8; 16]) -> BackendReply {
    let checked =
        parse(body).and_then(|body| checks::request_to_pay(&body).map_err(|why| invalid(&why)));
    let mut object = match checked {
        Ok(object) => object,
        Err(answer) => return answer,
    };
    object.insert("transactionRequestId".to_owned(), dfsp.id_form.generate().into());
    object["from"]["fspId"] = dfsp.policy.fsp_id.clone().into();
    let path = format!("/{}", party_path(&object["to"]));
    let destination = object["to"]["fspId"].as_str().map(str::to_owned);
    let request = HubRequest { method: Method::GET, path, destination, body: None };
    let what = "Timeout resolving payee for the request to pay";
    let (headers, body) = match ask(dfsp, party_key(&object["to"]), request, trace, what).await {
        Ok(found) => found,
        Err(failure) => return failure.answer(MEMBER, object.into()),
    };
    let found = to_internal_party(&body["party"]);
    object.insert("getPartiesResponse".to_owned(), json!({ "headers": headers, "body": body }));
    if merge_party(&mut object["to"], &found).is_none() {
        return state_error(500, ("2001", NO_FSP), MEMBER, object.into());
    }
    if dfsp.policy.auto_accept_r2p_party {
        return send(dfsp, object, trace).await;
    }
    show(dfsp, object, "WAITING_FOR_PARTY_ACCEPTANCE").await
}

/// `PUT /requestToPay/{ID}`: accepts or refuses the party.
pub(crate) async fn put(dfsp: &Arc<Dfsp>, id: &str, body: &[u8], trace: [u8; 16]) -> BackendReply {
    let checked = parse(body).and_then(|body| {
        checks::resume(&body, checks::RESUME_REQUEST).map_err(|why| invalid(&why))
    });
    let accept = match checked {
        Ok(accept) => accept,
        Err(answer) => return answer,
    };
    let Some(mut object) = dfsp.load::<Object>(RowKind::Request, id) else {
        return unknown_flow(MEMBER, "transactionRequestId", id);
    };
    if object["currentState"] != "WAITING_FOR_PARTY_ACCEPTANCE" {
        return BackendReply { status: 200, body: object.into() };
    }
    if accept.get("acceptParty") == Some(&Value::Bool(true)) {
        return send(dfsp, object, trace).await;
    }
    object.insert("abortedReason".to_owned(), "Payee rejected by backend".into());
    show(dfsp, object, "ABORTED").await
}

/// Sends the request and waits for the answer of the DFSP. A repetition has the same id.
async fn send(dfsp: &Arc<Dfsp>, mut object: Object, trace: [u8; 16]) -> BackendReply {
    let id = object["transactionRequestId"].as_str().unwrap_or_default().to_owned();
    let request = HubRequest {
        method: Method::POST,
        path: "/transactionRequests".to_owned(),
        destination: object["to"]["fspId"].as_str().map(str::to_owned),
        body: Some(transaction_request(&object)),
    };
    let what = format!("Timeout waiting for the answer to transaction request {id}");
    match ask(dfsp, format!("transactionRequests/{id}"), request, trace, &what).await {
        Ok((headers, body)) => {
            let response = json!({ "headers": headers, "body": body });
            object.insert("transactionRequestResponse".to_owned(), response);
            show(dfsp, object, "COMPLETED").await
        }
        Err(failure) => failure.answer(MEMBER, object.into()),
    }
}

/// Keeps the request in a state, and answers with it.
async fn show(dfsp: &Arc<Dfsp>, mut object: Object, state: &str) -> BackendReply {
    object.insert("currentState".to_owned(), state.into());
    let id = object["transactionRequestId"].as_str().unwrap_or_default();
    let row = dfsp.row(RowKind::Request, id, json!(object).to_string().into_bytes(), false);
    match dfsp.save(vec![row], Durability::Written).await {
        Ok(()) => BackendReply { status: 200, body: object.into() },
        Err(_) => unavailable("the adapter cannot write its state"),
    }
}

/// `POST /transactionRequests`. As in the reference, `payer` is the party of the request's sender.
fn transaction_request(object: &Object) -> Value {
    let mut payer = to_fspiop_party(&object["from"])["partyIdInfo"].take();
    payer["fspId"] = object["from"]["fspId"].clone();
    let mut kind = Object::new();
    kind.insert("scenario".to_owned(), object["transactionType"].clone());
    put_member(&mut kind, "subScenario", object.get("subScenario").unwrap_or(&Value::Null));
    kind.insert("initiator".to_owned(), "PAYEE".into());
    let initiator = object["from"]["type"].as_str().unwrap_or("CONSUMER");
    kind.insert("initiatorType".to_owned(), initiator.into());
    let mut body = Object::new();
    body.insert("transactionRequestId".to_owned(), object["transactionRequestId"].clone());
    body.insert("payer".to_owned(), payer);
    body.insert("payee".to_owned(), to_fspiop_party(&object["to"]));
    let amount = json!({ "amount": object["amount"], "currency": object["currency"] });
    body.insert("amount".to_owned(), amount);
    body.insert("transactionType".to_owned(), kind.into());
    let authentication = object.get("authenticationType").unwrap_or(&Value::Null);
    put_member(&mut body, "authenticationType", authentication);
    body.into()
}

/// `POST /transactionrequests` of the back end.
pub(crate) fn backend_transaction_request(request: &Value) -> Value {
    let kind = &request["transactionType"];
    let mut body = Object::new();
    copy(request, &["transactionRequestId"], &mut body);
    body.insert("to".to_owned(), to_internal_party(&request["payee"]));
    let payer = json!({ "partyIdInfo": request["payer"] });
    body.insert("from".to_owned(), to_internal_party(&payer));
    put_member(&mut body, "amount", &request["amount"]["amount"]);
    put_member(&mut body, "currency", &request["amount"]["currency"]);
    put_member(&mut body, "transactionType", &kind["scenario"]);
    copy(kind, &["initiator", "initiatorType", "subScenario"], &mut body);
    copy(request, &["authenticationType", "geoCode", "note", "expiration"], &mut body);
    body.into()
}

/// `PUT /requestToPay/{ID}` of the back end: the later state of a request that this DFSP has sent.
pub(crate) fn notify(dfsp: &Arc<Dfsp>, id: &str, body: &Value) {
    let Some(object) = dfsp.load::<Object>(RowKind::Request, id) else { return };
    let Ok(place) = Arc::clone(&dfsp.inbound_places).try_acquire_owned() else { return };
    let mut notice = Object::new();
    copy(body, &["transactionRequestState"], &mut notice);
    let home = object.get("homeR2PTransactionId").unwrap_or(&Value::Null);
    put_member(&mut notice, "homeR2PTransactionId", home);
    let (dfsp, path) = (Arc::clone(dfsp), format!("/requestToPay/{id}"));
    tokio::spawn(async move {
        let _place = place;
        if let Err(error) = dfsp.backend.call(Method::PUT, &path, Some(&notice.into())).await {
            crate::dfsp::count(&dfsp.counts.backend_errors);
            tracing::warn!(dfsp = %dfsp.policy.fsp_id, path, "{}", error.message);
        }
    });
}
