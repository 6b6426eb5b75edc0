//! The reference's metrics of a running switch: every stage of the manual's table has data in each
//! format, under the names that the setting selects.

use std::collections::BTreeSet;

use testkit::http::{Client, Headers, PATIENCE, Request};

use crate::support::message::{CONDITION, Message, Transfer, date_time, uuid};
use crate::support::scheme::Scheme;

const MANUAL: &str = include_str!("../../../../docs/operating/mojaloop-metrics.md");
const ERROR: &str =
    r#"{"errorInformation":{"errorCode":"5105","errorDescription":"Payee FSP rejected"}}"#;

/// The names in the rows of the manual's table.
fn names_in_manual() -> BTreeSet<&'static str> {
    let rows = MANUAL.lines().filter(|line| line.starts_with("| `") && line.contains("_"));
    let names = |row: &'static str| row.split(" | ").next().unwrap_or_default().split('`');
    let is_name = |word: &&str| word.starts_with("moja_") || UNPREFIXED.contains(word);
    rows.flat_map(names).filter(is_name).collect()
}

const UNPREFIXED: [&str; 3] =
    ["errorCount", "http_requests_total", "http_request_duration_histogram_seconds"];

/// A registration, its query and a look-up with an answer, and errors of both.
pub(crate) fn party(scheme: &Scheme, path: &str) {
    let registration = r#"{"fspId":"payeefsp","currency":"USD"}"#;
    let participants = format!("/participants{path}");
    let from_payee = |method: &str| Message::new(method, &participants, "payeefsp");
    scheme.send(&from_payee("POST").body(registration), 202);
    scheme.send(&from_payee("PUT").body(registration), 200);
    scheme.send(&Message::new("GET", &participants, "payerfsp"), 202);
    let parties = format!("/parties{path}");
    scheme.send(&Message::new("GET", &parties, "payerfsp"), 202);
    scheme.payee.wait("GET", &parties);
    let body = r#"{"party":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"254700000001",
        "fspId":"payeefsp"}}}"#;
    scheme.send(&Message::new("PUT", &parties, "payeefsp").to("payerfsp").body(body), 200);
    scheme.payer.wait("PUT", &parties);
    for path in [&parties, &participants] {
        let path = format!("{path}/error");
        scheme.send(&Message::new("PUT", &path, "payeefsp").to("payerfsp").body(ERROR), 200);
        scheme.payer.wait("PUT", &path);
    }
    scheme.send(&from_payee("DELETE"), 202);
}

/// A quote and a query, with an answer and an error.
pub(crate) fn quote(scheme: &Scheme) {
    let path = format!("{}/error", answered_quote(scheme));
    scheme.send(&Message::new("PUT", &path, "payeefsp").to("payerfsp").body(ERROR), 200);
    scheme.payer.wait("PUT", &path);
}

/// A quote and a query, with an answer. Returns its path.
pub(crate) fn answered_quote(scheme: &Scheme) -> String {
    let (id, payer) = (uuid(), "payerfsp");
    let side = |fsp: &str| {
        format!(
            r#"{{"partyIdInfo":{{"partyIdType":"MSISDN","partyIdentifier":"1","fspId":"{fsp}"}}}}"#
        )
    };
    let body = format!(
        r#"{{"quoteId":"{id}","transactionId":"{}","payer":{},"payee":{},"amountType":"SEND",
        "amount":{{"amount":"1","currency":"USD"}},"transactionType":{{"scenario":"TRANSFER",
        "initiator":"PAYER","initiatorType":"CONSUMER"}}}}"#,
        uuid(),
        side(payer),
        side("payeefsp")
    );
    scheme.send(&Message::new("POST", "/quotes", payer).to("payeefsp").body(body), 202);
    let path = format!("/quotes/{id}");
    scheme.send(&Message::new("GET", &path, payer).to("payeefsp"), 202);
    scheme.payee.wait("GET", &path);
    let terms = format!(
        r#"{{"transferAmount":{{"amount":"1","currency":"USD"}},"expiration":"{}",
        "ilpPacket":"AYIBgQAAAAAAAASwNGxldmVsb25l","condition":"{CONDITION}"}}"#,
        date_time(60_000)
    );
    scheme.send(&Message::new("PUT", &path, "payeefsp").to(payer).body(terms), 200);
    path
}

fn transfers(scheme: &Scheme) {
    let paid = scheme.pay("1");
    scheme.send(&paid.get("payerfsp"), 202);
    let aborted = Transfer::of("2");
    scheme.send(&aborted.prepare(), 202);
    scheme.send(&aborted.error("5104", "No"), 200);
    // More than the cap.
    scheme.send(&Transfer::of("5000").prepare(), 202);
    let refused = Message::new("POST", "/transfers", "payerfsp").body("{}");
    assert_eq!(scheme.ask(&refused).status, 400);
    scheme.wait_until_delivered();
}

/// Every stage runs.
fn use_everything(scheme: &Scheme) {
    party(scheme, "/MSISDN/254700000001");
    party(scheme, "/MSISDN/254700000001/WORK");
    let batch = format!(
        r#"{{"requestId":"{}","partyList":[{{"partyIdType":"MSISDN","partyIdentifier":"2",
        "fspId":"payeefsp"}}]}}"#,
        uuid()
    );
    scheme.send(&Message::new("POST", "/participants", "payeefsp").body(batch), 200);
    quote(scheme);
    transfers(scheme);
}

/// The body of a scrape.
fn scrape(scheme: &Scheme, accept: &str) -> Vec<u8> {
    let headers = [("host", "localhost"), ("accept", accept)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (method, path) = ("GET".to_owned(), "/metrics".to_owned());
    let request = Request { method, path, headers: Headers(headers.to_vec()), body: Vec::new() };
    let answer = Client::new(scheme.switch.admin, PATIENCE).call(&request).unwrap();
    assert_eq!(answer.status, 200, "{accept}");
    answer.body
}

/// The samples of a metric in a text format: all of a counter or gauge, the counts of a histogram.
fn samples<'a>(text: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    let sample = |line: &'a str| {
        let rest = line.strip_prefix(name)?;
        let rest = rest.strip_prefix("_count").unwrap_or(rest);
        let (labels, value) = rest.rsplit_once(' ')?;
        (labels.is_empty() || labels.starts_with('{')).then_some((labels, value))
    };
    text.lines().filter_map(sample).collect()
}

#[track_caller]
fn has_data(text: &str, name: &str) {
    let found = samples(text, name);
    assert!(found.iter().any(|(_, value)| *value != "0"), "{name}: {found:?}");
}

#[test]
fn every_stage_of_the_manual_has_data_in_each_format() {
    let scheme = Scheme::configured("[metrics]\nmojaloop_names = \"both\"\n");
    use_everything(&scheme);
    let names = names_in_manual();
    assert!(130 < names.len(), "{}", names.len());
    let text = scheme.admin.get("/metrics");
    let open = String::from_utf8(scrape(&scheme, "application/openmetrics-text")).unwrap();
    let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                    encoding=delimited";
    let protobuf = scrape(&scheme, protobuf);
    for name in names {
        has_data(&text, name);
        has_data(&open, name);
        assert!(protobuf.windows(name.len()).any(|part| part == name.as_bytes()), "{name}");
    }
    for text in [&text, &open] {
        let bucket = "moja_tx_transfer_bucket{serviceName=\"ml-handler-notification\",\
                      success=\"true\",le=\"1\"} 1\n";
        assert!(text.contains(bucket), "{text}");
    }
    assert_counts(&text);
    scheme.end();
}

/// The counts of what [`use_everything`] did.
#[track_caller]
fn assert_counts(text: &str) {
    for (name, labels, count) in [
        ("moja_tx_transfer", "success=\"true\"", "1"),
        ("moja_tx_transfer_fulfil", "success=\"true\"", "1"),
        ("moja_tx_transfer_prepare", "success=\"true\"", "2"),
        ("moja_ml_transfer_prepare", "success=\"true\"", "3"),
        ("moja_ml_transfer_prepare", "success=\"false\"", "1"),
        ("moja_transfer_prepare", "success=\"true\"", "2"),
        ("moja_transfer_prepare", "success=\"false\"", "1"),
        ("moja_transfer_position", "success=\"true\",action=\"commit\"", "1"),
        ("moja_ing_getPartiesByTypeAndID", "success=\"true\"", "1"),
        ("moja_getPartiesByTypeAndID", "success=\"true\"", "2"),
        (
            "moja_notification_event_delivery",
            "to=\"payeefsp\",dest=\"payeefsp\",action=\"prepare\"",
            "2",
        ),
        ("errorCount", "code=\"3102\",system=\"fspiop\",operation=\"POST /transfers\"", "1"),
        ("http_requests_total", "method=\"POST\",status_code=\"202\",path=\"/transfers\"", "3"),
    ] {
        let found = samples(text, name);
        let matching = |(found, value): &(&str, &str)| found.contains(labels) && *value == count;
        assert!(found.iter().any(matching), "{name} {labels} {count}: {found:?}");
    }
}

#[test]
fn setting_selects_the_names() {
    for (setting, per_service, common) in [
        ("both", true, true),
        ("per-service", true, false),
        ("common", false, true),
        ("off", false, false),
    ] {
        let scheme = Scheme::configured(&format!("[metrics]\nmojaloop_names = \"{setting}\"\n"));
        scheme.pay("1");
        scheme.wait_until_delivered();
        let text = scheme.admin.get("/metrics");
        for (name, is_shown) in [
            ("moja_ml_tx_transfer", per_service),
            ("moja_cl_transfer_prepare", per_service),
            ("moja_tx_transfer", common),
            ("moja_transfer_prepare", common),
            ("moja_ml_transfer_prepare", per_service || common),
            ("http_requests_total", per_service || common),
        ] {
            assert_eq!(!samples(&text, name).is_empty(), is_shown, "{setting}: {name}");
        }
        scheme.end();
    }
    let home = crate::support::switch::Home::configured("[metrics]\nmojaloop_names = \"all\"\n");
    let message = home.serve_or_not().map(drop).unwrap_err();
    assert!(message.contains("mojaloop_names"), "{message}");
}
