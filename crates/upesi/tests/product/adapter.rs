//! Payments of two banks through their scheme adapters: hub, two adapters and two back ends.

mod bank;
mod bulk;
mod conformance;
mod operations;
#[cfg(feature = "real-receivers")]
mod reference;
mod security;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::http::PATIENCE;

use self::bank::{Program, Scheme, call};
use crate::signatures::pem;
use crate::support::switch::{Home, Printed, finish_within, laboratory};

/// The resources that the hub signs and verifies.
const ALL: &str = "[\"quotes\", \"transfers\"]";

/// `POST /transfers` of a back end.
fn payment(home: &str, amount: &str) -> Value {
    json!({
        "homeTransactionId": home,
        "from": { "idType": "MSISDN", "idValue": "111", "displayName": "Amani Juma" },
        "to": { "idType": "MSISDN", "idValue": "222" },
        "amountType": "SEND", "currency": "USD", "amount": amount,
        "transactionType": "TRANSFER", "note": "rent",
    })
}

/// Whether a member or an item is null: the reference leaves unknown members out.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

/// One synchronous request pays: look-up, quote and transfer, with the reference's shape.
#[test]
fn one_request_pays_and_shows_every_message() {
    let scheme = Scheme::start("", "");
    let (status, paid) = scheme.payer.post("/transfers", &payment("home-1", "12.5"));
    assert_eq!(status, 200, "{paid}");
    assert_eq!(paid["currentState"], "COMPLETED");
    assert_eq!(paid["homeTransactionId"], "home-1");
    assert_eq!(paid["to"]["fspId"], "payeebank");
    assert_eq!(paid["to"]["firstName"], "Neema");
    assert_eq!(paid["getPartiesResponse"]["body"]["party"]["name"], "Neema Ali");
    assert_eq!(paid["quoteResponse"]["body"]["payeeFspFee"]["amount"], "0.5");
    assert_eq!(paid["quoteResponseSource"], "payeebank");
    assert_eq!(paid["prepare"]["body"]["amount"], json!({ "amount": "12.5", "currency": "USD" }));
    assert_eq!(paid["fulfil"]["body"]["transferState"], "COMMITTED");
    let id = paid["transferId"].as_str().unwrap();
    assert_eq!(scheme.admin.position("payerbank"), "12.5");
    assert_eq!(scheme.admin.position("payeebank"), "-12.5");

    let asked = scheme.payee.requests();
    let lines: Vec<_> = asked.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(lines, ["GET /parties/MSISDN/222", "POST /quoterequests", "POST /transfers"]);
    let (_, quote) = &asked[1];
    assert_eq!(quote["amount"], "12.5");
    assert_eq!(quote["from"]["displayName"], "Amani Juma");
    assert_eq!(quote["initiator"], "PAYER");
    let (_, transfer) = &asked[2];
    assert_eq!(transfer["transferId"], id);
    assert_eq!(transfer["quote"]["payeeFspFeeAmount"], "0.5");
    assert_eq!(transfer["ilpPacket"]["data"]["transactionId"], id);
    assert_eq!(transfer["note"], "rent");

    let (status, shown) = scheme.payer.get(&format!("/transfers/{id}"));
    assert_eq!((status, &shown["currentState"]), (200, &json!("COMPLETED")));
    scheme.end();
}

/// The back end resends after it lost the answer, and pays once.
#[test]
fn repeated_home_transaction_id_pays_once() {
    let scheme = Scheme::start("", "");
    let (_, first) = scheme.payer.post("/transfers", &payment("home-1", "10"));
    let (status, again) = scheme.payer.post("/transfers", &payment("home-1", "10"));
    assert_eq!((status, &again["transferId"]), (200, &first["transferId"]));
    let (status, changed) = scheme.payer.post("/transfers", &payment("home-1", "11"));
    assert_eq!((status, &changed["statusCode"]), (400, &json!("3106")));
    assert_eq!(scheme.admin.position("payerbank"), "10");
    scheme.end();
}

/// Errors of every step reach the back end with their code, and move no money.
#[test]
fn errors_have_the_code_of_their_step() {
    let scheme = Scheme::start("", "");
    let mut unknown = payment("home-1", "10");
    unknown["to"]["idValue"] = "404".into();
    let (status, error) = scheme.payer.post("/transfers", &unknown);
    assert_eq!(status, 500, "{error}");
    let information = "/transferState/lastError/mojaloopError/errorInformation/errorCode";
    assert_eq!(error["transferState"]["currentState"], "ERROR_OCCURRED");
    assert_eq!(error.pointer(information), Some(&json!("3204")), "{error}");
    assert_eq!(error["statusCode"], "3204");
    for (amount, code) in [("123", "4001"), ("77", "5103"), ("1500", "4200")] {
        let (status, error) = scheme.payer.post("/transfers", &payment(amount, amount));
        assert_eq!((status, &error["statusCode"]), (500, &json!(code)), "{error}");
        assert!(!has_null(&error), "{error}");
    }
    let mut wrong = payment("home-2", "10");
    wrong["amount"] = json!(10);
    let (status, error) = scheme.payer.post("/transfers", &wrong);
    assert_eq!((status, &error["statusCode"]), (400, &json!("400")), "{error}");
    let mut wrong = payment("home-3", "10");
    wrong["currency"] = "ZZZ".into();
    let message = "request.body.currency should be a currency code";
    let refused = (400, json!({ "message": message, "statusCode": "400" }));
    assert_eq!(scheme.payer.post("/transfers", &wrong), refused);
    assert_eq!(scheme.admin.position("payerbank"), "0");
    scheme.end();
}

/// The back end decides about the party and about the quote.
#[test]
fn pauses_are_resumed_or_refused_by_the_back_end() {
    let scheme = Scheme::start("auto_accept_party = false\nauto_accept_quotes = false", "");
    let (status, paused) = scheme.payer.post("/transfers", &payment("home-1", "10"));
    assert_eq!((status, &paused["currentState"]), (200, &json!("WAITING_FOR_PARTY_ACCEPTANCE")));
    let path = format!("/transfers/{}", paused["transferId"].as_str().unwrap());
    let (status, error) = scheme.payer.put(&path, &json!({ "acceptParty": "yes" }));
    assert_eq!(status, 400, "{error}");
    let (_, quoted) = scheme.payer.put(&path, &json!({ "acceptParty": true }));
    assert_eq!(quoted["currentState"], "WAITING_FOR_QUOTE_ACCEPTANCE", "{quoted}");
    for (status, paid) in scheme.payer.put_repeatedly(&path, &json!({ "acceptQuote": true })) {
        assert_eq!((status, &paid["currentState"]), (200, &json!("COMPLETED")), "{paid}");
    }
    let (_, again) = scheme.payer.put(&path, &json!({ "acceptQuote": true }));
    assert_eq!(again["currentState"], "COMPLETED");

    let unknown = format!("/transfers/{}", bank::uuid());
    let (status, error) = scheme.payer.put(&unknown, &json!({ "acceptQuote": true }));
    assert_eq!((status, &error["statusCode"]), (500, &json!("2001")), "{error}");
    assert_eq!(error["transferState"]["currentState"], "ERROR_OCCURRED", "{error}");

    let (_, paused) = scheme.payer.post("/transfers", &payment("home-2", "10"));
    let path = format!("/transfers/{}", paused["transferId"].as_str().unwrap());
    let (status, refused) = scheme.payer.put(&path, &json!({ "acceptParty": false }));
    assert_eq!((status, &refused["currentState"]), (200, &json!("ABORTED")));
    assert_eq!(refused["abortedReason"], "Payee rejected by backend");
    assert_eq!(scheme.admin.position("payerbank"), "10");
    scheme.end();
}

/// The quote is accepted again and again while the payee's back end works. It is paid once.
#[test]
fn acceptance_is_repeated_while_the_payees_back_end_is_slow() {
    let scheme = Scheme::start("auto_accept_quotes = false", "");
    scheme.payee.delay_transfers(true);
    let (_, paused) = scheme.payer.post("/transfers", &payment("home-1", "10"));
    assert_eq!(paused["currentState"], "WAITING_FOR_QUOTE_ACCEPTANCE", "{paused}");
    let path = format!("/transfers/{}", paused["transferId"].as_str().unwrap());
    let accept = || scheme.payer.put(&path, &json!({ "acceptQuote": true }));
    let answers = std::thread::scope(|scope| {
        let first = scope.spawn(accept);
        scheme.payee.wait_for("POST /transfers");
        let others = [(); 3].map(|()| scope.spawn(accept));
        scheme.payee.delay_transfers(false);
        let others = others.map(|it| it.join().unwrap());
        [vec![first.join().unwrap()], others.into()].concat()
    });
    for (status, paid) in answers {
        assert_eq!((status, &paid["currentState"]), (200, &json!("COMPLETED")), "{paid}");
    }
    scheme.payee.wait_for_number("POST /transfers", 1);
    let asked = scheme.payee.requests();
    assert_eq!(asked.iter().filter(|(line, _)| line == "POST /transfers").count(), 1);
    assert_eq!(scheme.admin.position("payerbank"), "10");
    scheme.end();
}

/// The routes with one step, and their errors.
#[test]
fn single_steps_have_routes_of_their_own() {
    let scheme = Scheme::start("auto_accept_quotes = false", "");
    let (status, found) = scheme.payer.get("/parties/MSISDN/222");
    assert_eq!(status, 200, "{found}");
    assert_eq!(found["party"]["body"]["partyIdInfo"]["fspId"], "payeebank");
    let (status, error) = scheme.payer.get("/parties/MSISDN/404");
    assert_eq!((status, &error["statusCode"]), (404, &json!("3204")), "{error}");
    assert!(!has_null(&error), "{error}");
    let (status, _) = scheme.payer.get("/parties/PHONE/1");
    assert_eq!(status, 400);

    // The terms of a paused transfer are used for single steps with new ids.
    let (_, paused) = scheme.payer.post("/transfers", &payment("home-1", "10"));
    let mut request = paused["quoteRequest"]["body"].clone();
    let (quote, transfer) = (bank::uuid(), bank::uuid());
    request["quoteId"] = quote.into();
    request["transactionId"] = transfer.clone().into();
    let body = json!({ "fspId": "payeebank", "quotesPostRequest": request });
    let (status, quoted) = scheme.payer.post("/quotes", &body);
    assert_eq!(status, 200, "{quoted}");
    let terms = &quoted["quotes"]["body"];
    let prepare = json!({
        "transferId": transfer, "payerFsp": "payerbank", "payeeFsp": "payeebank",
        "amount": terms["transferAmount"], "ilpPacket": terms["ilpPacket"],
        "condition": terms["condition"], "expiration": bank::soon(),
    });
    let body = json!({ "fspId": "payeebank", "transfersPostRequest": prepare });
    let (status, paid) = scheme.payer.post("/simpleTransfers", &body);
    assert_eq!((status, &paid["currentState"]), (200, &json!("COMPLETED")), "{paid}");
    assert_eq!(paid["transfer"]["body"]["transferState"], "COMMITTED");
    assert_eq!(scheme.admin.position("payerbank"), "10");
    scheme.end();
}

/// The payee asks for a payment, and the payer pays it after its password, or rejects it.
#[test]
fn request_to_pay_is_paid_or_rejected() {
    let scheme = Scheme::start("", "");
    let (payee, payer) = (&scheme.payer, &scheme.payee);
    for bank in [payee, payer] {
        for kind in ["TRX_REQ_SERVICE", "AUTHORIZATIONS"] {
            scheme.admin.set_endpoint(&bank.name, kind, &format!("http://{}", bank.fspiop()));
        }
    }
    let request = || {
        let body = json!({
            "homeR2PTransactionId": "home-1", "amountType": "SEND", "transactionType": "PAYMENT",
            "from": { "idType": "MSISDN", "idValue": "111" }, "currency": "USD",
            "to": { "idType": "MSISDN", "idValue": "222" }, "amount": "10",
        });
        let (status, paused) = payee.post("/requestToPay", &body);
        assert_eq!(status, 200, "{paused}");
        assert_eq!(paused["currentState"], "WAITING_FOR_PARTY_ACCEPTANCE");
        let id = paused["transactionRequestId"].as_str().unwrap().to_owned();
        let path = format!("/requestToPay/{id}");
        let (_, sent) = payee.put(&path, &json!({ "acceptParty": true }));
        assert_eq!(sent["currentState"], "COMPLETED", "{sent}");
        let response = &sent["transactionRequestResponse"]["body"];
        assert_eq!(response["transactionRequestState"], "RECEIVED");
        id
    };
    let transfer = |id: &str, initiator: &str| {
        let body = json!({
            "transactionRequestId": id, "homeR2PTransactionId": "home-2", "amount": "10",
            "from": { "idType": "MSISDN", "idValue": "222" }, "currency": "USD",
            "to": { "idType": "MSISDN", "idValue": "111", "fspId": "payerbank" },
            "amountType": "SEND", "scenario": "PAYMENT", "initiator": "PAYEE",
            "initiatorType": initiator,
        });
        payer.post("/requestToPayTransfer", &body).1
    };
    let id = request();
    let asked = payer.wait_for("POST /transactionrequests");
    assert_eq!(asked["transactionRequestId"], id);
    assert_eq!(asked["initiator"], "PAYEE");
    let paused = transfer(&id, "CONSUMER");
    assert_eq!(paused["currentState"], "WAITING_FOR_AUTH_ACCEPTANCE", "{paused}");
    let password = &paused["authorizationResponse"]["body"]["authenticationInfo"];
    assert_eq!(password["authenticationValue"], "1234");
    let path = format!("/requestToPayTransfer/{id}");
    let accepted = payer.put_repeatedly(&path, &json!({ "acceptOTP": true }));
    let again = payer.put(&path, &json!({ "acceptOTP": true }));
    for (status, paid) in accepted.iter().chain([&again]) {
        assert_eq!((*status, &paid["currentState"]), (200, &json!("COMPLETED")), "{paid}");
        assert_eq!(paid["transferId"], paused["transferId"]);
    }
    assert_eq!(transfer(&id, "CONSUMER")["transferId"], paused["transferId"], "paid once");
    assert_eq!(scheme.admin.position("payeebank"), "10");

    let id = request();
    let paused = transfer(&id, "BUSINESS");
    assert_eq!(paused["currentState"], "WAITING_FOR_QUOTE_ACCEPTANCE", "{paused}");
    let path = format!("/requestToPayTransfer/{id}");
    let (_, refused) = payer.put(&path, &json!({ "acceptQuote": false }));
    assert_eq!(refused["currentState"], "ABORTED", "{refused}");
    let notice = payee.wait_for(&format!("PUT /requestToPay/{id}"));
    assert_eq!(notice["transactionRequestState"], "REJECTED");
    assert_eq!(notice["homeR2PTransactionId"], "home-1");
    assert_eq!(scheme.admin.position("payeebank"), "10");
    scheme.end();
}

/// With a reservation, the payee's back end learns the outcome from the hub.
#[test]
fn reserved_transfer_is_notified_to_the_back_end() {
    let scheme = Scheme::start("", "reserve_notification = true");
    let (_, paid) = scheme.payer.post("/transfers", &payment("home-1", "10"));
    assert_eq!(paid["currentState"], "COMPLETED", "{paid}");
    let path = format!("PUT /transfers/{}", paid["transferId"].as_str().unwrap());
    let notice = scheme.payee.wait_for(&path);
    assert_eq!(notice["currentState"], "COMPLETED");
    assert_eq!(notice["finalNotification"]["transferState"], "COMMITTED");
    assert_eq!(notice["direction"], "INBOUND");
    scheme.end();
}

/// Both adapters are killed while the payee's back end works. The payment ends as the hub decides.
#[test]
fn killed_adapters_continue_the_payment() {
    let mut scheme = Scheme::start("", "");
    scheme.payee.hold_transfers(true);
    let held = scheme.payer.begin("/transfers", &payment("home-1", "10"));
    let asked = scheme.payee.wait_for("POST /transfers");
    let id = asked["transferId"].as_str().unwrap().to_owned();
    scheme.payer.kill();
    scheme.payee.kill();
    assert!(held.join().unwrap().is_none(), "the connection breaks");
    scheme.payee.hold_transfers(false);
    scheme.restart();
    let paid = scheme.payer.wait_until_paid(&id);
    assert_eq!(paid["fulfil"]["body"]["transferState"], "COMMITTED", "{paid}");
    let (_, again) = scheme.payer.post("/transfers", &payment("home-1", "10"));
    assert_eq!((&again["transferId"], &again["currentState"]), (&json!(id), &json!("COMPLETED")));
    assert_eq!(scheme.admin.position("payerbank"), "10");
    scheme.end();
}

/// The payee's adapter is killed after it has answered a quote, and fulfils the transfer of it.
#[test]
fn killed_payees_adapter_knows_its_quotes() {
    let mut scheme = Scheme::start("auto_accept_quotes = false", "reserve_notification = true");
    let (_, paused) = scheme.payer.post("/transfers", &payment("home-1", "10"));
    assert_eq!(paused["currentState"], "WAITING_FOR_QUOTE_ACCEPTANCE", "{paused}");
    scheme.payee.kill();
    scheme.payee.restart();
    let path = format!("/transfers/{}", paused["transferId"].as_str().unwrap());
    let (status, paid) = scheme.payer.put(&path, &json!({ "acceptQuote": true }));
    assert_eq!((status, &paid["currentState"]), (200, &json!("COMPLETED")), "{paid}");
    let notice = scheme.payee.wait_for(&format!("PUT {path}"));
    assert_eq!(notice["quote"]["internalRequest"]["to"]["idValue"], "222", "{notice}");
    assert_eq!(scheme.admin.position("payerbank"), "10");
    scheme.end();
}

/// The payee's adapter is killed between its response and the notice of the hub. The back end gets
/// the notice with the quote, which is stored apart from the transfer.
#[test]
fn killed_payees_adapter_notifies_with_the_quote() {
    let mut scheme = Scheme::start("", "reserve_notification = true\nnotice_grace_ms = 1000");
    scheme.payee.hold_transfers(true);
    let held = scheme.payer.begin("/transfers", &payment("home-1", "10"));
    let asked = scheme.payee.wait_for("POST /transfers");
    scheme.payee.kill();
    scheme.payee.hold_transfers(false);
    scheme.payee.restart();
    let (_, paid) = held.join().unwrap().expect("an answer");
    assert_eq!(paid["currentState"], "COMPLETED", "{paid}");
    let id = asked["transferId"].as_str().unwrap();
    let again = scheme.payee.wait_for(&format!("PUT /transfers/{id}"));
    assert_eq!(again["quote"]["response"], asked["quote"], "{again}");
    assert_eq!(again["fulfil"]["body"]["transferState"], "RESERVED", "{again}");
    scheme.end();
}

/// Health, metrics and an orderly end.
#[test]
fn health_and_metrics_are_served() {
    let scheme = Scheme::start("", "");
    scheme.payer.post("/transfers", &payment("home-1", "10"));
    let (status, health) = scheme.payer.monitor("/health");
    assert_eq!(status, 200, "{health}");
    let (_, metrics) = scheme.payer.monitor("/metrics");
    let line = "upesi_adapter_outbound_completed_total{dfsp=\"payerbank\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    scheme.payer.stop(Signal::TERM);
}

/// The back ends in docs/adapter receive payments. Those whose language is not installed are left
/// out, except Python's.
#[test]
fn back_ends_of_the_guide_receive_payments() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/adapter");
    let languages = [("python3", "backend.py"), ("node", "backend.mjs"), ("java", "Backend.java")];
    for (language, file) in languages {
        let is_installed = Command::new(language).arg("--version").output().is_ok();
        if !is_installed && language != "python3" {
            continue;
        }
        let program = Program::start(Command::new(language).arg(directory.join(file)).arg("0"));
        let scheme = Scheme::with_payees_backend("", program.address());
        let (status, paid) = scheme.payer.post("/transfers", &payment("home-1", "12.5"));
        assert_eq!((status, &paid["currentState"]), (200, &json!("COMPLETED")), "{file}: {paid}");
        assert_eq!(paid["to"]["displayName"], "Neema Ali", "{file}");
        let mut unknown = payment("home-2", "10");
        unknown["to"]["idValue"] = "404".into();
        let (_, error) = scheme.payer.post("/transfers", &unknown);
        assert_eq!(error["statusCode"], "3204", "{file}: {error}");
        assert_eq!(scheme.admin.position("payerbank"), "12.5", "{file}");
        check_credits(program.address(), file);
        scheme.end();
    }
}

/// A back end with a balance of 12.5 credits a repeated transfer once, reverses it once, and never
/// credits an aborted one again.
fn check_credits(backend: SocketAddr, file: &str) {
    let balance =
        || call(backend, "GET", "/accounts/222", &Value::Null).unwrap().1["balance"].clone();
    let amount = |balance: Value| balance.as_str().unwrap().parse::<f64>().unwrap();
    let credit = |id: &str| {
        let body = json!({ "transferId": id, "amount": "7.5", "to": { "idValue": "222" } });
        call(backend, "POST", "/transfers", &body).unwrap()
    };
    let abort = |id: &str| {
        let prepare = json!({ "body": { "amount": { "amount": "7.5", "currency": "USD" } } });
        let body = json!({ "transferId": id, "currentState": "ABORTED", "prepare": prepare });
        let (status, _) = call(backend, "PUT", &format!("/transfers/{id}"), &body).unwrap();
        assert_eq!(status, 200, "{file}");
    };
    assert_eq!(amount(balance()), 12.5, "{file}");
    let first = credit("a");
    assert_eq!(first.0, 200, "{file}: {first:?}");
    assert_eq!(credit("a"), first, "{file}");
    assert_eq!(amount(balance()), 20.0, "{file}");
    for _ in 0..2 {
        abort("a");
        assert_eq!(amount(balance()), 12.5, "{file}");
        let (status, error) = credit("a");
        assert_eq!((status, &error["statusCode"]), (400, &json!("5100")), "{file}");
    }
    // The notice may come before the transfer.
    abort("b");
    assert_eq!(credit("b").0, 400, "{file}");
    assert_eq!(amount(balance()), 12.5, "{file}");
}

/// The simulator's repository and scenarios, as test suites of the reference use them.
#[test]
fn simulated_back_ends_pay_by_scenario() {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let (_payee, [backend, repository]) = Program::simulate(nowhere);
    let scheme = Scheme::with_payees_backend("auto_accept_quotes = false", backend);
    let (_payer, [_, scenarios]) = Program::simulate(scheme.payer.api());
    let party = json!({
        "idType": "MSISDN", "idValue": "222", "displayName": "Neema Ali", "firstName": "Neema",
        "middleName": "B", "lastName": "Ali", "dateOfBirth": "1980-01-01",
    });
    let post = |body: &Value| call(repository, "POST", "/repository/parties", body).unwrap();
    assert_eq!(post(&party).0, 204);
    let (status, error) = post(&party);
    assert_eq!((status, &error["message"]), (400, &json!("ID is already registered")));
    let listed = call(repository, "GET", "/repository/parties", &Value::Null).unwrap();
    assert_eq!(listed, (200, json!([party])));

    let run = |amount: &str| {
        let body = json!([
            { "name": "scn1", "operation": "postTransfers", "body": payment(amount, amount) },
            { "name": "scn2", "operation": "putTransfers", "body": { "acceptQuote": true },
              "params": { "transferId": "{{scn1.result.transferId}}" } },
        ]);
        call(scenarios, "POST", "/scenarios", &body).unwrap().1
    };
    let results = run("25");
    assert_eq!(results["scn1"]["result"]["currentState"], "WAITING_FOR_QUOTE_ACCEPTANCE");
    let paid = &results["scn2"]["result"];
    assert_eq!(paid["currentState"], "COMPLETED", "{results}");
    assert_eq!(paid["quoteResponse"]["body"]["payeeFspFee"]["amount"], "2");
    let refused = run("123");
    assert_eq!(refused["scn2"]["error"]["statusCode"], "4001", "{refused}");
    assert_eq!(scheme.admin.position("payerbank"), "25");
    scheme.end();
}

/// The published script pays through adapters on both sides; the summary has the published form. On
/// a busy machine a threshold may be missed.
#[test]
fn published_script_pays_through_adapters() {
    let mut command = laboratory();
    command.args(["published", "--tps", "5", "--minutes", "0.1", "--warmup", "0", "--json"]);
    let report = finish_within(command, 3 * PATIENCE).json();
    assert_eq!(report["valid"], true, "{report:#}");
    assert_eq!(report["results"]["completed_transactions"], 30, "{report:#}");
    assert_eq!((&report["commits"], &report["status"]), (&json!(30), &json!("PASSED")));
    assert_eq!(report["test_config"]["fsp_pairs"].as_array().unwrap().len(), 13);
    let whole = &report["metrics"]["e2e_time"];
    assert!(whole["thresholds"]["p(99)<15000"]["ok"].is_boolean(), "{whole}");
    assert!(whole["values"]["p(95)"].as_f64().unwrap() > 0.0, "{whole}");
}

/// `upesi adapter doctor` finds nothing in a good scheme, and names missing parts.
#[test]
fn doctor_names_what_an_adapter_lacks() {
    let scheme = Scheme::start("", "");
    let (code, found) = scheme.payer.doctor();
    assert_eq!((code, &found["problems"]), (Some(0), &json!(0)), "{found}");
    let (program, [backend, _]) = Program::simulate(scheme.payer.api());
    drop(program);
    let broken = Scheme::with_payees_backend("", backend);
    let (code, found) = broken.payee.doctor();
    assert_eq!((code, &found["problems"]), (Some(1), &json!(1)), "{found}");
    let findings = found["findings"].as_array().unwrap();
    let bad = findings.iter().find(|finding| finding["good"] == false).unwrap();
    assert_eq!(bad["check"], "payeebank: back end");
    broken.end();
    scheme.end();
}

/// Hub and adapters sign, and refuse messages that the right key has not signed.
#[test]
fn signed_payments_are_verified_on_every_leg() {
    let pairs = ["rsa", "ec", "rsa"].map(|key| [pem(key, "private"), pem(key, "public")]);
    let keys = Keys::new(&pairs);
    let more = |name: &str| keys.bank(name);
    let jws = keys.hub();
    let scheme = Scheme::with_settings(Home::configured(&jws), &more, ["", ""], None);
    let (status, paid) = scheme.payer.post("/transfers", &payment("home-1", "10"));
    assert_eq!((status, &paid["currentState"]), (200, &json!("COMPLETED")), "{paid}");
    assert!(paid["fulfil"]["headers"]["fspiop-signature"].is_string(), "{paid}");
    let (_, error) = scheme.payer.post("/transfers", &payment("home-2", "123"));
    assert_eq!(error["statusCode"], "4001", "{error}");
    // The hub's own refusal is signed too.
    let (_, error) = scheme.payer.post("/transfers", &payment("home-3", "1500"));
    assert_eq!(error["statusCode"], "4200", "{error}");
    // A message without a signature is refused by the adapter and changes nothing.
    let forged = format!("/transfers/{}/error", bank::uuid());
    let refused = scheme.payer.forge(&forged);
    assert_eq!(refused["errorInformation"]["errorCode"], "3105", "{refused}");
    scheme.end();
}

/// The keys of the banks and of the hub.
struct Keys(TempDir);

impl Keys {
    /// With the private and the public key of payer, payee and hub.
    fn new(pairs: &[[String; 2]; 3]) -> Self {
        let keys = Self(tempfile::tempdir().unwrap());
        fs::create_dir(keys.public()).unwrap();
        for (name, [private, public]) in ["payerbank", "payeebank", "Hub"].iter().zip(pairs) {
            fs::write(keys.private(name), private).unwrap();
            fs::write(keys.public().join(format!("{name}.pem")), public).unwrap();
        }
        restrict(&keys.private("Hub"));
        keys
    }

    fn public(&self) -> PathBuf {
        self.0.path().join("public")
    }

    fn private(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}.key"))
    }

    /// Settings of the hub.
    fn hub(&self) -> String {
        let (public, key) = (self.public(), self.private("Hub"));
        format!(
            "[jws]\nvalidate = {ALL}\nsign = {ALL}\nkeys = \"{}\"\nsigning_key = \"{}\"\n",
            public.display(),
            key.display()
        )
    }

    /// Settings of the adapter of a bank.
    fn bank(&self, name: &str) -> String {
        let (public, key) = (self.public(), self.private(name));
        format!(
            "[dfsp.jws]\nsigning_key_file = \"{}\"\nkeys_directory = \"{}\"\n",
            key.display(),
            public.display()
        )
    }
}

/// Makes a private key readable for its owner only.
fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
