//! Every operation of the reference's two documents has an exact answer, also those that the
//! adapter does not serve.

use std::net::SocketAddr;

use serde_json::{Value, json};
use testkit::http::Connection;

use super::bank::{Bank, call, uuid};
use crate::support::message::Message;
use crate::support::port::ReservedPort;

/// Operations for back ends that are answered without a request to the hub.
const OUTBOUND: [(&str, &str, u16, &str); 31] = [
    ("GET", "/", 200, ""),
    ("POST", "/transfers", 400, "400"),
    ("PUT", "/transfers/ID", 500, "2001"),
    ("GET", "/transfers/no-id", 400, "400"),
    ("POST", "/bulkTransfers", 400, "400"),
    ("GET", "/bulkTransfers/no-id", 400, "400"),
    ("PUT", "/bulkTransfers/ID", 405, "3000"),
    ("POST", "/bulkQuotes", 400, "400"),
    ("GET", "/bulkQuotes/no-id", 400, "400"),
    ("POST", "/requestToPay", 400, "400"),
    ("PUT", "/requestToPay/ID", 500, "2001"),
    ("POST", "/requestToPayTransfer", 400, "400"),
    ("PUT", "/requestToPayTransfer/ID", 500, "2001"),
    ("POST", "/accounts", 400, "400"),
    ("DELETE", "/accounts/PHONE/1", 400, "400"),
    ("DELETE", "/accounts/PHONE/1/2", 400, "400"),
    ("GET", "/parties/PHONE/1", 400, "400"),
    ("GET", "/parties/PHONE/1/2", 400, "400"),
    ("POST", "/quotes", 400, "400"),
    ("POST", "/simpleTransfers", 400, "400"),
    ("POST", "/fxQuotes", 501, "2002"),
    ("POST", "/fxTransfers", 501, "2002"),
    ("GET", "/services/FXP", 501, "2002"),
    ("GET", "/services/FXP/USD/EUR", 501, "2002"),
    ("POST", "/bulkTransactions", 501, "2002"),
    ("PUT", "/bulkTransactions/ID", 501, "2002"),
    ("GET", "/bulkTransactions/ID", 501, "2002"),
    ("DELETE", "/transfers/ID", 405, "3000"),
    ("DELETE", "/fxQuotes", 405, "3000"),
    ("PUT", "/bulkTransactions", 405, "3000"),
    ("GET", "/other", 404, "3002"),
];

/// Operations of the hub. A response that nothing waits for is accepted.
const INBOUND: [(&str, &str, u16, &str); 61] = [
    ("POST", "/participants", 501, "2002"),
    ("PUT", "/participants/ID", 200, ""),
    ("PUT", "/participants/ID/error", 200, ""),
    ("GET", "/participants/MSISDN/1", 202, ""),
    ("POST", "/participants/MSISDN/1", 501, "2002"),
    ("PUT", "/participants/MSISDN/1", 200, ""),
    ("DELETE", "/participants/MSISDN/1", 501, "2002"),
    ("PUT", "/participants/MSISDN/1/error", 200, ""),
    ("GET", "/participants/MSISDN/1/2", 202, ""),
    ("POST", "/participants/MSISDN/1/2", 501, "2002"),
    ("PUT", "/participants/MSISDN/1/2", 200, ""),
    ("DELETE", "/participants/MSISDN/1/2", 501, "2002"),
    ("PUT", "/participants/MSISDN/1/2/error", 200, ""),
    ("GET", "/parties/MSISDN/1", 202, ""),
    ("POST", "/parties/MSISDN/1", 405, "3000"),
    ("PUT", "/parties/MSISDN/1", 400, "3102"),
    ("PUT", "/parties/MSISDN/1/error", 200, ""),
    ("GET", "/parties/MSISDN/1/2", 202, ""),
    ("POST", "/parties/MSISDN/1/2", 405, "3000"),
    ("PUT", "/parties/MSISDN/1/2", 400, "3102"),
    ("PUT", "/parties/MSISDN/1/2/error", 200, ""),
    ("POST", "/transactionRequests", 400, "3102"),
    ("GET", "/transactionRequests/ID", 501, "2002"),
    ("PUT", "/transactionRequests/ID", 400, "3102"),
    ("PUT", "/transactionRequests/ID/error", 200, ""),
    ("POST", "/quotes", 400, "3102"),
    ("GET", "/quotes/ID", 202, ""),
    ("PUT", "/quotes/ID", 400, "3102"),
    ("PUT", "/quotes/ID/error", 200, ""),
    ("GET", "/authorizations/ID", 400, "3102"),
    ("PUT", "/authorizations/ID", 400, "3102"),
    ("PUT", "/authorizations/ID/error", 200, ""),
    ("POST", "/transfers", 400, "3102"),
    ("GET", "/transfers/ID", 202, ""),
    ("PUT", "/transfers/ID", 400, "3102"),
    ("PATCH", "/transfers/ID", 400, "3102"),
    ("PUT", "/transfers/ID/error", 200, ""),
    ("GET", "/transactions/ID", 501, "2002"),
    ("PUT", "/transactions/ID", 501, "2002"),
    ("PUT", "/transactions/ID/error", 501, "2002"),
    ("POST", "/bulkQuotes", 400, "3102"),
    ("GET", "/bulkQuotes/ID", 202, ""),
    ("PUT", "/bulkQuotes/ID", 400, "3102"),
    ("PUT", "/bulkQuotes/ID/error", 200, ""),
    ("POST", "/bulkTransfers", 400, "3102"),
    ("GET", "/bulkTransfers/ID", 202, ""),
    ("PUT", "/bulkTransfers/ID", 400, "3102"),
    ("PUT", "/bulkTransfers/ID/error", 200, ""),
    ("POST", "/fxQuotes", 501, "2002"),
    ("GET", "/fxQuotes/ID", 501, "2002"),
    ("PUT", "/fxQuotes/ID", 501, "2002"),
    ("PUT", "/fxQuotes/ID/error", 501, "2002"),
    ("POST", "/fxTransfers", 501, "2002"),
    ("GET", "/fxTransfers/ID", 501, "2002"),
    ("PUT", "/fxTransfers/ID", 501, "2002"),
    ("PATCH", "/fxTransfers/ID", 501, "2002"),
    ("PUT", "/fxTransfers/ID/error", 501, "2002"),
    ("GET", "/services/FXP", 501, "2002"),
    ("PUT", "/services/FXP", 501, "2002"),
    ("DELETE", "/fxQuotes/ID", 405, "3000"),
    ("GET", "/other", 404, "3002"),
];

/// The answer to a message of the hub.
fn send(address: SocketAddr, method: &str, path: &str) -> (u16, Value) {
    let mut message = Message::new(method, path, "Hub").to("payeebank");
    let error = json!({ "errorInformation": {
        "errorCode": "3200", "errorDescription": "an error" } });
    match method {
        "GET" | "DELETE" => {}
        _ if path.ends_with("/error") => message = message.body(error.to_string()),
        _ => message = message.body("{}"),
    }
    let answer = Connection::open(address).unwrap().exchange(&message.render()).unwrap();
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
}

#[test]
fn every_documented_operation_has_an_exact_answer() {
    let hub = ReservedPort::new();
    let bank = Bank::start("payeebank", hub.address, "", None);
    let mut wrong = Vec::new();
    let mut check = |side: &str, row: (&str, &str, u16, &str), found: (u16, String)| {
        let (method, path, status, code) = row;
        if found != (status, code.to_owned()) {
            wrong.push(format!("{side} {method} {path}: {found:?}, not {status} {code}"));
        }
    };
    for row in OUTBOUND {
        let path = row.1.replace("ID", &uuid());
        let (status, body) = call(bank.api(), row.0, &path, &json!({})).unwrap();
        let code = body["statusCode"].as_str().unwrap_or_default().to_owned();
        check("outbound", row, (status, code));
    }
    for row in INBOUND {
        let path = row.1.replace("/ID", &format!("/{}", uuid()));
        let (status, body) = send(bank.fspiop(), row.0, &path);
        let code = &body["errorInformation"]["errorCode"];
        check("inbound", row, (status, code.as_str().unwrap_or_default().to_owned()));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
