//! One message of each kind that a hub of the reference measures.

use serde_json::{Value, json};

use crate::support::message::{Message, Transfer, uuid};

const ERROR: &str = r#"{"errorInformation":{"errorCode":"5100","errorDescription":"no"}}"#;

fn from_payer(method: &str, path: &str) -> Message {
    Message::new(method, path, "payerfsp").to("payeefsp")
}

/// A response of the payee.
fn from_payee(path: &str, body: &Value) -> Message {
    Message::new("PUT", path, "payeefsp").to("payerfsp").body(body.to_string())
}

fn error_of_payee(path: &str) -> Message {
    Message::new("PUT", &format!("{path}/error"), "payeefsp").to("payerfsp").body(ERROR)
}

/// Messages about an entry of the directory, with and without a sub-id.
fn about_party(path: &str) -> Vec<Message> {
    let (parties, participants) = (format!("/parties{path}"), format!("/participants{path}"));
    let id = json!({ "partyIdType": "MSISDN", "partyIdentifier": "1", "fspId": "payeefsp" });
    let register = json!({ "fspId": "payerfsp", "currency": "USD" }).to_string();
    vec![
        Message::new("POST", &participants, "payerfsp").body(register),
        Message::new("GET", &participants, "payerfsp"),
        from_payer("GET", &parties),
        from_payee(&parties, &json!({ "party": { "partyIdInfo": id } })),
        error_of_payee(&parties),
        from_payee(&participants, &json!({ "fspId": "payeefsp" })),
        error_of_payee(&participants),
        Message::new("DELETE", &participants, "payerfsp"),
    ]
}

fn batch() -> Message {
    let entry = json!({ "partyIdType": "ALIAS", "partyIdentifier": "one", "fspId": "payerfsp" });
    let body = json!({ "requestId": uuid(), "partyList": [entry], "currency": "USD" });
    Message::new("POST", "/participants", "payerfsp").body(body.to_string())
}

fn about_quote() -> Vec<Message> {
    let path = format!("/quotes/{}", uuid());
    let party = |number: &str, fsp: &str| {
        json!({ "partyIdInfo":
            { "partyIdType": "MSISDN", "partyIdentifier": number, "fspId": fsp } })
    };
    let amount = json!({ "currency": "USD", "amount": "1" });
    let kind = json!({ "scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER" });
    let quote = json!({
        "quoteId": uuid(), "transactionId": uuid(), "payer": party("1", "payerfsp"),
        "payee": party("2", "payeefsp"), "amountType": "SEND", "amount": amount,
        "transactionType": kind,
    });
    let answer = json!({
        "transferAmount": amount, "expiration": crate::support::message::date_time(60_000),
        "ilpPacket": "AYIBgQAAAAAAAASwNGxldmVsb25l",
        "condition": crate::support::message::CONDITION,
    });
    vec![
        from_payer("POST", "/quotes").body(quote.to_string()),
        from_payer("GET", &path),
        from_payee(&path, &answer),
        error_of_payee(&path),
    ]
}

/// A committed and an aborted transfer, each of which is asked for.
fn about_transfers() -> Vec<Message> {
    let (committed, aborted) = (Transfer::of("0.01"), Transfer::of("0.01"));
    vec![
        committed.prepare(),
        committed.fulfil("COMMITTED"),
        Message::new("GET", &committed.path(), "payerfsp"),
        aborted.prepare(),
        aborted.error("5100", "no"),
    ]
}

/// All messages, in an order in which each is accepted.
pub(super) fn all() -> Vec<Message> {
    let mut all = about_party("/MSISDN/1");
    all.extend(about_party("/BUSINESS/1/WORK"));
    all.push(batch());
    all.extend(about_quote());
    all.extend(about_transfers());
    all
}
