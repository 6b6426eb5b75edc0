//! `POST` and `DELETE /accounts`: identifiers of the DFSP's customers in the hub's directory.
//!
//! Nothing is stored. A repeated registration or release has the same result.

use std::sync::Arc;

use fspiop::PartyPath;
use http::Method;
use serde_json::{Value, json};

use crate::dfsp::Dfsp;
use crate::forms::{Object, error_of, put};
use crate::outbound::{BackendReply, HubRequest, party_key_of_path};
use crate::outbound_api::{ask, checked_party, invalid, parse};
use crate::outbound_checks as checks;

/// The state's name in errors.
const MEMBER: &str = "executionState";

/// The key of callbacks about the registration of one identifier.
pub(crate) fn account_key(party: &PartyPath<'_>) -> String {
    format!("accounts/{}", party_key_of_path(party))
}

/// The key of callbacks about the registration of several identifiers.
pub(crate) fn batch_key(request_id: &str) -> String {
    format!("accounts/{request_id}")
}

/// `POST /accounts`: registers identifiers, with one request for each currency.
pub(crate) async fn post(dfsp: &Arc<Dfsp>, body: &[u8], trace: [u8; 16]) -> BackendReply {
    let checked = parse(body).and_then(|body| checks::accounts(&body).map_err(|why| invalid(&why)));
    let accounts = match checked {
        Ok(accounts) => accounts,
        Err(answer) => return answer,
    };
    let mut results = Vec::new();
    let mut response = Value::Null;
    for (currency, parties) in by_currency(&accounts, &dfsp.policy.fsp_id) {
        let id = dfsp.id_form.generate();
        let mut body = Object::new();
        body.insert("requestId".to_owned(), id.as_str().into());
        body.insert("partyList".to_owned(), parties.into());
        put(&mut body, "currency", &currency);
        let request = HubRequest {
            method: Method::POST,
            path: "/participants".to_owned(),
            destination: None,
            body: Some(body.into()),
        };
        let what = format!("Timeout registering accounts, request {id}");
        match ask(dfsp, batch_key(&id), request, trace, &what).await {
            Ok((headers, body)) => {
                let list = body["partyList"].as_array();
                results.extend(list.into_iter().flatten().map(registration));
                response = json!({ "headers": headers, "body": body });
            }
            Err(failure) => {
                let state = json!({ "accounts": accounts, "response": results });
                return failure.answer(MEMBER, state);
            }
        }
    }
    let body = json!({
        "accounts": accounts, "response": results, "currentState": "COMPLETED",
        "postAccountsResponse": response,
    });
    BackendReply { status: 200, body }
}

/// The parties of each currency, in the order of the first account with it.
fn by_currency(accounts: &[Value], fsp: &str) -> Vec<(Value, Vec<Value>)> {
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for account in accounts {
        let mut party = Object::new();
        party.insert("fspId".to_owned(), fsp.into());
        put(&mut party, "partyIdType", &account["idType"]);
        put(&mut party, "partyIdentifier", &account["idValue"]);
        put(&mut party, "partySubIdOrType", &account["idSubValue"]);
        let currency = &account["currency"];
        match groups.iter_mut().find(|(known, _)| known == currency) {
            Some((_, parties)) => parties.push(party.into()),
            None => groups.push((currency.clone(), vec![party.into()])),
        }
    }
    groups
}

/// The result of one registration as the back end reads it.
fn registration(result: &Value) -> Value {
    let id = &result["partyId"];
    let mut out = Object::new();
    put(&mut out, "idType", &id["partyIdType"]);
    put(&mut out, "idValue", &id["partyIdentifier"]);
    put(&mut out, "idSubValue", &id["partySubIdOrType"]);
    if let Some((code, text)) = error_of(result) {
        out.insert("error".to_owned(), json!({ "statusCode": code, "message": text }));
    }
    out.into()
}

/// `DELETE /accounts/{Type}/{ID}[/{SubId}]`: releases an identifier.
pub(crate) async fn delete(dfsp: &Arc<Dfsp>, party: &[&str], trace: [u8; 16]) -> BackendReply {
    let path = format!("/participants/{}", party.join("/"));
    let (key, mut state) = match checked_party(&Method::DELETE, &path) {
        Ok(party) => (account_key(&party), released(&party)),
        Err(answer) => return answer,
    };
    let id = state["idValue"].as_str().unwrap_or_default();
    let what = format!("Timeout deleting account {id}");
    let request =
        HubRequest { method: Method::DELETE, path: path.clone(), destination: None, body: None };
    match ask(dfsp, key, request, trace, &what).await {
        Ok((headers, body)) => {
            let fsp = body["fspId"].as_str().unwrap_or(&dfsp.policy.fsp_id);
            state.insert("response".to_owned(), json!([{ "fspId": fsp }]));
            state.insert("currentState".to_owned(), "COMPLETED".into());
            let response = json!({ "headers": headers, "body": body });
            state.insert("deleteAccountResponse".to_owned(), response);
            BackendReply { status: 200, body: state.into() }
        }
        Err(failure) => failure.answer(MEMBER, state.into()),
    }
}

fn released(party: &PartyPath<'_>) -> Object {
    let mut state = Object::new();
    state.insert("idType".to_owned(), party.kind.as_str().into());
    state.insert("idValue".to_owned(), (&*party.id.text).into());
    if let Some(sub) = &party.sub_id {
        state.insert("subIdOrType".to_owned(), (&*sub.text).into());
    }
    state
}
