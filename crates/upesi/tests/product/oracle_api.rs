//! The oracle API of the party directory: played by curl, and used by another hub.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::message::{Message, uuid};
use crate::support::scheme::Scheme;
use crate::support::switch::{Printed, Switch, finish};

const LISTENER: &str = "[oracle_api]\nlisten = \"127.0.0.1:0\"\n";
const MEDIA: &str = "content-type: application/vnd.interoperability.participants+json;version=1.1";
const PARTY: &str = "/participants/MSISDN/254700000001";

fn address(switch: &Switch) -> SocketAddr {
    let line = |line: &str| line.strip_prefix("upesi: oracle API on http://")?.parse().ok();
    switch.greeting.lines().find_map(line).expect("it has a listener for the oracle API")
}

/// Status and body of a request by curl, with the headers that a look-up service sends.
fn curl(address: SocketAddr, (method, path): (&str, &str), body: &str, more: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--max-time", "20", "--write-out", " %{http_code}"]);
    command.args(["--request", method, "--header", "fspiop-source: payerfsp"]);
    if !more.iter().any(|header| header.starts_with("content-type")) {
        command.args(["--header", MEDIA]);
    }
    command.args(more);
    if !body.is_empty() {
        command.args(["--data", body]);
    }
    command.arg(format!("http://{address}{path}"));
    let output = finish(command).succeeds();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once(' ').unwrap();
    format!("{status} {body}")
}

/// A client of the reference's MSISDN oracle gets the answers of its document.
#[test]
fn directory_answers_clients_of_the_oracle_api() {
    let scheme = Scheme::configured(LISTENER);
    let oracle = address(&scheme.switch);
    let second = format!("{PARTY}?currency=EUR");
    let part = format!("{PARTY}/WORK");
    let queried = format!("{PARTY}?partySubIdOrType=WORK");
    let in_usd = format!("{PARTY}?currency=USD");
    let other = "/participants/MSISDN/254700000002";
    for (method, path, body, expected) in [
        ("GET", PARTY, "", r#"200 {"partyList":[]}"#),
        ("POST", PARTY, r#"{"fspId":"payerfsp","currency":"USD"}"#, "201 "),
        ("GET", PARTY, "", r#"200 {"partyList":[{"fspId":"payerfsp","currency":"USD"}]}"#),
        ("GET", &second, "", r#"200 {"partyList":[]}"#),
        ("POST", PARTY, r#"{"fspId":"otherfsp","currency":"EUR"}"#, "201 "),
        (
            "GET",
            "/participants/MSISDN/%2B254700000001?currency=EUR",
            "",
            r#"200 {"partyList":[{"fspId":"otherfsp","currency":"EUR"}]}"#,
        ),
        ("PUT", PARTY, r#"{"fspId":"payeefsp","currency":"USD"}"#, "200 "),
        ("PUT", PARTY, r#"{"fspId":"payeefsp","currency":"USD"}"#, "200 "),
        ("GET", &in_usd, "", r#"200 {"partyList":[{"fspId":"payeefsp","currency":"USD"}]}"#),
        ("POST", &part, r#"{"fspId":"otherfsp"}"#, "201 "),
        (
            "GET",
            &queried,
            "",
            r#"200 {"partyList":[{"fspId":"otherfsp","partySubIdOrType":"WORK"}]}"#,
        ),
        ("DELETE", &part, "", "204 "),
        ("GET", &part, "", r#"200 {"partyList":[]}"#),
        ("POST", other, r#"{"fspId":"otherfsp","partySubIdOrType":"HOME"}"#, "201 "),
        ("GET", other, "", r#"200 {"partyList":[]}"#),
        ("DELETE", "/participants/MSISDN/254700000002?partySubIdOrType=HOME", "", "204 "),
        ("DELETE", &in_usd, "", "204 "),
        ("GET", PARTY, "", r#"200 {"partyList":[{"fspId":"otherfsp","currency":"EUR"}]}"#),
    ] {
        assert_eq!(curl(oracle, (method, path), body, &[]), expected, "{method} {path} {body}");
    }
    // The operator sees the same entries, and the author of the changes.
    let list = json!({"partyList": [{"fspId": "otherfsp", "currency": "EUR"}]});
    assert_eq!(scheme.admin.json(PARTY), list);
    assert_eq!(scheme.admin.json(&queried), json!({"partyList": []}));
    assert!(scheme.admin.get("/audit?limit=1000").contains("oracle-api"));
    // An FSP that lost its entry is notified.
    assert_eq!(scheme.payer.take(1)[0].text(), r#"{"fspId":"payeefsp"}"#);
    assert_eq!(scheme.payee.take(1)[0].path, format!("{PARTY}/error"));
    scheme.other.take(2);

    let health = curl(oracle, ("GET", "/health"), "", &[]);
    assert!(health.starts_with(r#"200 {"status":"OK""#), "{health}");
    let metrics = curl(oracle, ("GET", "/metrics"), "", &[]);
    let count = "upesi_oracle_api_requests_total{kind=\"registration\"} 4";
    assert!(metrics.starts_with("200 ") && metrics.contains(count), "{metrics}");
    scheme.wait_until_delivered();
    scheme.end();
}

/// Every refusal has its code, and changes nothing.
#[test]
fn oracle_api_refuses_what_is_wrong_and_changes_nothing() {
    let scheme = Scheme::configured(LISTENER);
    let oracle = address(&scheme.switch);
    let entry = r#"{"fspId":"payerfsp"}"#;
    assert_eq!(curl(oracle, ("POST", PARTY), entry, &[]), "201 ");
    let before = scheme.admin.state();
    let long = format!("/participants/ALIAS/{}", "x".repeat(129));
    let origin = ["--header", "origin: https://elsewhere.example"];
    let host = ["--header", "host: elsewhere.example"];
    let text = ["--header", "content-type: text/plain"];
    for (method, path, body, more, expected) in [
        ("POST", PARTY, entry, &[][..], "409 3003"),
        ("POST", PARTY, r#"{"fspId":"otherfsp","currency":"USD"}"#, &[], "409 3003"),
        ("PUT", "/participants/MSISDN/1", entry, &[], "404 3200"),
        ("DELETE", "/participants/MSISDN/1", "", &[], "404 3200"),
        ("DELETE", "/participants/MSISDN/254700000001/WORK", "", &[], "404 3200"),
        ("POST", "/participants/MSISDN/1", r#"{"fspId":"ghostfsp"}"#, &[], "400 3200"),
        ("POST", "/participants/MSISDN/1", r#"{"fspId":"Hub"}"#, &[], "400 3200"),
        ("POST", "/participants/MSISDN/1", "{", &[], "400 3101"),
        ("POST", "/participants/MSISDN/1", "{}", &[], "400 3102"),
        ("POST", "/participants/MSISDN/1", r#"{"fspId":7}"#, &[], "400 3101"),
        ("POST", "/participants/MSISDN/1", entry, &text, "400 3101"),
        (
            "POST",
            "/participants/MSISDN/1",
            r#"{"fspId":"payerfsp","currency":"usd"}"#,
            &[],
            "400 3100",
        ),
        ("GET", "/participants/PHONE/1", "", &[], "400 3101"),
        ("GET", "/participants/MSISDN/a1", "", &[], "400 3101"),
        ("GET", &long, "", &[], "400 3101"),
        ("GET", "/participants/MSISDN/1?currency=X", "", &[], "400 3100"),
        ("PATCH", PARTY, entry, &[], "405 3000"),
        ("GET", "/participants", "", &[], "405 3000"),
        ("GET", "/parties/MSISDN/1", "", &[], "404 3002"),
        ("POST", "/participants", r#"{"requestId":"1","partyList":[]}"#, &[], "400 3100"),
        ("GET", PARTY, "", &origin, "403 3000"),
        ("GET", PARTY, "", &host, "403 3000"),
    ] {
        let answer = curl(oracle, (method, path), body, more);
        let (status, error) = answer.split_once(' ').unwrap();
        let error: Value = serde_json::from_str(error).unwrap();
        let code = error["errorInformation"]["errorCode"].as_str().unwrap();
        assert_eq!(format!("{status} {code}"), expected, "{method} {path} {body}");
    }
    assert_eq!(scheme.admin.state(), before);
    scheme.wait_until_delivered();
    scheme.end();
}

/// Each entry of a batch is registered or has its error; the same batch again changes nothing.
#[test]
fn oracle_api_registers_batches() {
    let scheme = Scheme::configured(LISTENER);
    let oracle = address(&scheme.switch);
    let party = |kind: &str, id: &str, fsp: &str| {
        let (kind, id, fsp) = (json!(kind), json!(id), json!(fsp));
        json!({"partyIdType": kind, "partyIdentifier": id, "fspId": fsp})
    };
    let list = json!([
        party("MSISDN", "1", "payerfsp"),
        party("MSISDN", "+1", "otherfsp"),
        party("ALIAS", "shop", "otherfsp"),
        party("PHONE", "1", "payerfsp"),
        party("MSISDN", "2", "ghostfsp"),
        {"partyIdType": "MSISDN", "partyIdentifier": "3"},
    ]);
    let body = json!({"requestId": uuid(), "partyList": list, "currency": "USD"}).to_string();
    let mut answers = Vec::new();
    for _ in 0..2 {
        let answer = curl(oracle, ("POST", "/participants"), &body, &[]);
        let answer: Value = serde_json::from_str(answer.strip_prefix("201 ").unwrap()).unwrap();
        let results = answer["partyList"].as_array().unwrap();
        let parties: Vec<_> = results.iter().map(|result| result["partyId"].clone()).collect();
        assert_eq!((Value::from(parties), &answer["currency"]), (list.clone(), &json!("USD")));
        let code = |result: &Value| {
            let code = result["errorInformation"]["errorCode"].as_str();
            code.unwrap_or("-").to_owned()
        };
        answers.push(results.iter().map(code).collect::<Vec<_>>());
    }
    assert_eq!(answers[0], ["-", "3003", "-", "3101", "3200", "3102"]);
    assert_eq!(answers[0], answers[1]);
    let found = json!({"partyList": [{"fspId": "payerfsp", "currency": "USD"}]});
    assert_eq!(scheme.admin.json("/participants/MSISDN/1"), found);
    scheme.wait_until_delivered();
    scheme.end();
}

/// A hub whose oracle is another hub: registrations, look-ups and releases reach its directory.
#[test]
fn another_hub_uses_the_directory() {
    let (with_directory, scheme) = (Scheme::configured(LISTENER), Scheme::start());
    let endpoint = format!("http://{}", address(&with_directory.switch));
    let oracle = json!({
        "oracleIdType": "ACCOUNT_ID",
        "endpoint": {"value": endpoint, "endpointType": "URL"},
    });
    scheme.admin.must("POST", "/oracles", &oracle.to_string(), 201);
    let path = "/participants/ACCOUNT_ID/77";
    let registration = r#"{"fspId":"payeefsp","currency":"USD"}"#;
    scheme.send(&Message::new("POST", path, "payeefsp").body(registration), 202);
    assert_eq!(scheme.payee.take(1)[0].path, path);
    let list = json!({"partyList": [{"fspId": "payeefsp", "currency": "USD"}]});
    assert_eq!(with_directory.admin.json(path), list);
    assert_eq!(scheme.admin.json(path), json!({"partyList": []}));

    scheme.send(&Message::new("GET", "/parties/ACCOUNT_ID/77", "payerfsp"), 202);
    assert_eq!(scheme.payee.take(1)[0].path, "/parties/ACCOUNT_ID/77");
    // It exists: the other hub answers 409, and the sender gets an error.
    scheme.send(&Message::new("POST", path, "otherfsp").body(r#"{"fspId":"otherfsp"}"#), 202);
    let error = scheme.other.take(1).remove(0);
    assert!(error.path.ends_with("/error") && error.text().contains("3003"), "{}", error.text());

    scheme.send(&Message::new("DELETE", path, "payeefsp"), 202);
    assert_eq!(scheme.payee.take(1)[0].path, path);
    assert_eq!(with_directory.payee.take(1)[0].path, format!("{path}/error"));
    assert_eq!(with_directory.admin.json(path), json!({"partyList": []}));
    for scheme in [scheme, with_directory] {
        scheme.wait_until_delivered();
        scheme.end();
    }
}
