//! Accounts, several answers to a look-up, and bulks, through hub and adapters.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::http::PATIENCE;

use super::bank::{Bank, Scheme, uuid};
use super::payment;
use crate::support::switch::Home;

fn account(id: &str, currency: &str) -> Value {
    json!({ "idType": "MSISDN", "idValue": id, "currency": currency })
}

/// Registrations and releases have a result for each identifier.
#[test]
fn accounts_are_registered_and_released() {
    let scheme = Scheme::start("", "");
    let accounts = json!([account("555", "USD"), account("556", "USD"), account("557", "EUR")]);
    let (status, answer) = scheme.payee.post("/accounts", &accounts);
    assert_eq!((status, &answer["currentState"]), (200, &json!("COMPLETED")), "{answer}");
    let expected = ["555", "556", "557"].map(|id| json!({ "idType": "MSISDN", "idValue": id }));
    assert_eq!(answer["response"], json!(expected), "{answer}");
    assert!(answer["postAccountsResponse"]["headers"]["fspiop-source"].is_string(), "{answer}");
    let (status, found) = scheme.payer.get("/parties/MSISDN/555");
    assert_eq!(status, 200, "{found}");
    assert_eq!(found["party"]["body"]["partyIdInfo"]["fspId"], "payeebank");

    // Each identifier has one owner.
    let (status, answer) = scheme.payer.post("/accounts", &json!([account("555", "USD")]));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["response"][0]["error"]["statusCode"], "3003", "{answer}");
    let (status, error) = scheme.payer.delete("/accounts/MSISDN/555");
    assert_eq!((status, &error["statusCode"]), (500, &json!("3040")), "{error}");
    assert_eq!(error["executionState"]["currentState"], "ERROR_OCCURRED");

    let (status, answer) = scheme.payee.delete("/accounts/MSISDN/555");
    assert_eq!((status, &answer["currentState"]), (200, &json!("COMPLETED")), "{answer}");
    assert_eq!(answer["response"], json!([{ "fspId": "payeebank" }]));
    let (status, error) = scheme.payer.get("/parties/MSISDN/555");
    assert_eq!((status, &error["statusCode"]), (404, &json!("3204")), "{error}");

    for (wrong, what) in [
        (json!([]), "1 to 10000 items"),
        (json!({}), "should be array"),
        (json!([{ "idType": "PHONE", "idValue": "1" }]), "0.idType"),
        (json!([account("1", "usd")]), "0.currency"),
    ] {
        let (status, error) = scheme.payee.post("/accounts", &wrong);
        assert_eq!(status, 400, "{error}");
        assert!(error["message"].as_str().unwrap().contains(what), "{error}");
    }
    scheme.end();
}

/// Two DFSPs serve one identifier. The back end chooses one of the answers.
#[test]
fn one_of_several_parties_is_chosen() {
    let home = Home::configured("[parties]\nownership = \"owner-per-currency\"\n");
    let flow = "auto_accept_party = false\nmultiple_parties_response = true\n\
                multiple_parties_response_seconds = 3\n";
    let scheme = Scheme::with_settings(home, &|_| String::new(), [flow, ""], None);
    let other = Bank::start("otherbank", scheme.hub(), "", None);
    scheme.admin.onboard("otherbank", &format!("http://{}", other.fspiop()), "100", "100");
    for (bank, currency) in [(&scheme.payee, "USD"), (&other, "EUR")] {
        let (status, answer) = bank.post("/accounts", &json!([account("555", currency)]));
        assert_eq!((status, &answer["response"][0]["error"]), (200, &Value::Null), "{answer}");
    }
    let mut request = payment("home-1", "10");
    request["to"]["idValue"] = "555".into();
    let (status, paused) = scheme.payer.post("/transfers", &request);
    assert_eq!(status, 200, "{paused}");
    assert_eq!(paused["currentState"], "WAITING_FOR_PARTY_ACCEPTANCE", "{paused}");
    let answers = paused["getPartiesResponse"].as_array().unwrap();
    let mut names: Vec<_> =
        answers.iter().map(|it| it["headers"]["fspiop-source"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["otherbank", "payeebank"]);

    let path = format!("/transfers/{}", paused["transferId"].as_str().unwrap());
    let (status, error) = scheme.payer.put(&path, &json!({ "acceptParty": true }));
    assert_eq!(status, 400, "{error}");
    let to = json!({ "idType": "MSISDN", "idValue": "555", "fspId": "payeebank" });
    let (status, paid) = scheme.payer.put(&path, &json!({ "acceptParty": true, "to": to }));
    assert_eq!((status, &paid["currentState"]), (200, &json!("COMPLETED")), "{paid}");
    assert_eq!(scheme.admin.position("payeebank"), "-10");
    assert_eq!(scheme.admin.position("otherbank"), "0");
    scheme.end();
}

fn payer() -> Value {
    json!({ "idType": "MSISDN", "idValue": "111", "displayName": "Amani Juma" })
}

/// `POST /bulkQuotes` with an item of each amount.
fn bulk_quote(amounts: &[&str]) -> Value {
    let items = amounts.iter().map(|amount| {
        json!({
            "quoteId": uuid(), "amountType": "SEND", "currency": "USD", "amount": amount,
            "to": { "idType": "MSISDN", "idValue": "222", "fspId": "payeebank" },
            "transactionType": "TRANSFER",
        })
    });
    let items: Value = items.collect();
    let id = uuid();
    json!({
        "homeTransactionId": "bulk-1", "bulkQuoteId": id, "from": payer(),
        "individualQuotes": items,
    })
}

/// `POST /bulkTransfers` for the quotes with terms.
fn bulk_transfer(quoted: &Value) -> Value {
    let results = quoted["individualQuoteResults"].as_array().unwrap();
    let results = results.iter().filter(|result| result["condition"].is_string());
    let items = results.map(|result| {
        json!({
            "transferId": uuid(), "amountType": "SEND",
            "to": { "idType": "MSISDN", "idValue": "222", "fspId": "payeebank" },
            "currency": result["transferAmount"]["currency"],
            "amount": result["transferAmount"]["amount"],
            "ilpPacket": result["ilpPacket"], "condition": result["condition"],
        })
    });
    let items: Value = items.collect();
    json!({
        "bulkTransferId": uuid(), "homeTransactionId": "bulk-1",
        "bulkQuoteId": quoted["bulkQuoteId"], "from": payer(), "individualTransfers": items,
    })
}

fn error_of(result: &Value) -> &Value {
    &result["lastError"]["mojaloopError"]["errorInformation"]["errorCode"]
}

/// Each item is quoted, paid or refused by itself. A repeated bulk pays once.
#[test]
fn bulks_are_quoted_and_paid_item_by_item() {
    let scheme = Scheme::start("", "");
    let request = bulk_quote(&["10", "77", "123"]);
    let (status, quoted) = scheme.payer.post("/bulkQuotes", &request);
    assert_eq!((status, &quoted["currentState"]), (200, &json!("COMPLETED")), "{quoted}");
    assert_eq!(quoted["bulkQuoteId"], request["bulkQuoteId"]);
    assert_eq!(quoted["homeTransactionId"], "bulk-1");
    let results = &quoted["individualQuoteResults"];
    assert_eq!(error_of(&results[1]), "5103", "{quoted}");
    assert_eq!(results[2]["transferAmount"], json!({ "amount": "123", "currency": "USD" }));
    let path = format!("/bulkQuotes/{}", quoted["bulkQuoteId"].as_str().unwrap());
    let (status, shown) = scheme.payer.get(&path);
    assert_eq!((status, &shown["individualQuotes"]), (200, results), "{shown}");

    let transfer = bulk_transfer(&quoted);
    let (status, paid) = scheme.payer.post("/bulkTransfers", &transfer);
    assert_eq!((status, &paid["currentState"]), (200, &json!("COMPLETED")), "{paid}");
    assert_eq!(paid["bulkTransferState"], "COMPLETED", "{paid}");
    let results = &paid["individualTransferResults"];
    assert!(results[0]["fulfilment"].is_string(), "{paid}");
    assert_eq!(error_of(&results[1]), "4001", "{paid}");
    assert_eq!(scheme.admin.position("payerbank"), "10");
    let asked = scheme.payee.wait_for("POST /bulkTransfers");
    assert_eq!(asked["from"]["displayName"], "Amani Juma", "{asked}");
    assert_eq!(asked["individualTransfers"][0]["to"]["idValue"], "222", "{asked}");

    let (status, again) = scheme.payer.post("/bulkTransfers", &transfer);
    assert_eq!((status, &again["individualTransferResults"]), (200, results), "{again}");
    let mut changed = transfer.clone();
    changed["individualTransfers"][0]["amount"] = "11".into();
    let (status, error) = scheme.payer.post("/bulkTransfers", &changed);
    assert_eq!((status, &error["statusCode"]), (400, &json!("3106")), "{error}");
    let path = format!("/bulkTransfers/{}", transfer["bulkTransferId"].as_str().unwrap());
    let (status, shown) = scheme.payer.get(&path);
    assert_eq!((status, &shown["individualTransferResults"]), (200, results), "{shown}");
    assert_eq!(scheme.admin.position("payerbank"), "10");
    scheme.end();
}

/// Wrong bulks are refused, and change nothing.
#[test]
fn wrong_bulks_are_refused() {
    let scheme = Scheme::start("", "");
    let quote = bulk_quote(&["10"]);
    for (pointer, value, what) in [
        ("/individualQuotes", json!([]), "1 to 1000 items"),
        ("/individualQuotes/0/amount", json!(10), "individualQuotes.0.amount"),
        ("/individualQuotes/0/to/fspId", Value::Null, "fspId"),
        ("/bulkQuoteId", json!("no id"), "bulkQuoteId should be a UUID or a ULID"),
    ] {
        let mut wrong = quote.clone();
        *wrong.pointer_mut(pointer).unwrap() = value;
        let (status, error) = scheme.payer.post("/bulkQuotes", &wrong);
        assert_eq!(status, 400, "{error}");
        assert!(error["message"].as_str().unwrap().contains(what), "{error}");
    }
    let (_, quoted) = scheme.payer.post("/bulkQuotes", &quote);
    // A packet that the payee has not made.
    let mut wrong = bulk_transfer(&quoted);
    let packet = wrong["individualTransfers"][0]["ilpPacket"].as_str().unwrap();
    wrong["individualTransfers"][0]["ilpPacket"] = packet[4..].into();
    let (status, error) = scheme.payer.post("/bulkTransfers", &wrong);
    assert_eq!((status, &error["statusCode"]), (500, &json!("2001")), "{error}");
    assert_eq!(error["bulkTransferState"]["currentState"], "ERROR_OCCURRED");
    assert_eq!(scheme.admin.position("payerbank"), "0");
    scheme.end();
}

/// Both adapters are killed while the payee's back end works on a bulk, which is paid all the same.
#[test]
fn killed_adapters_continue_a_bulk() {
    let mut scheme = Scheme::start("expiry_seconds = 60", "");
    let (_, quoted) = scheme.payer.post("/bulkQuotes", &bulk_quote(&["10", "20"]));
    scheme.payee.hold_transfers(true);
    let transfer = bulk_transfer(&quoted);
    let held = scheme.payer.begin("/bulkTransfers", &transfer);
    scheme.payee.wait_for("POST /bulkTransfers");
    scheme.payer.kill();
    scheme.payee.kill();
    assert!(held.join().unwrap().is_none(), "the connection breaks");
    scheme.payee.hold_transfers(false);
    scheme.restart();
    let path = format!("/bulkTransfers/{}", transfer["bulkTransferId"].as_str().unwrap());
    wait_until_completed(&scheme, &path);
    assert_eq!(scheme.admin.position("payerbank"), "30");
    scheme.end();
}

/// Both adapters are killed after the payee has answered and before the hub has: the hub is stopped
/// meanwhile. After the restart each back end learns the hub's result for each item.
#[test]
fn killed_adapters_report_the_result_that_they_awaited() {
    let mut scheme = Scheme::start("expiry_seconds = 60", "");
    let (_, quoted) = scheme.payer.post("/bulkQuotes", &bulk_quote(&["10", "66"]));
    let transfer = bulk_transfer(&quoted);
    scheme.payee.hold_transfers(true);
    let held = scheme.payer.begin("/bulkTransfers", &transfer);
    scheme.payee.wait_for("POST /bulkTransfers");
    scheme.payee.kill();
    scheme.switch().signal(Signal::STOP);
    scheme.payee.hold_transfers(false);
    scheme.payee.restart();
    // The payee's response is on its way to the hub.
    scheme.payee.wait_for_number("POST /bulkTransfers", 2);
    scheme.payer.kill();
    scheme.payee.kill();
    assert!(held.join().unwrap().is_none(), "the connection breaks");
    scheme.switch().signal(Signal::CONT);
    scheme.restart();

    let notice = wait_for_notice(&scheme, &transfer);
    let items = &notice["individualTransferResults"];
    assert_eq!(items[0]["currentState"], "COMPLETED", "{notice}");
    assert_eq!(items[1]["currentState"], "ABORTED", "{notice}");
    let path = format!("/bulkTransfers/{}", transfer["bulkTransferId"].as_str().unwrap());
    let shown = wait_until_completed(&scheme, &path);
    let results = &shown["individualTransferResults"];
    assert!(results[0]["fulfilment"].is_string(), "{shown}");
    assert_eq!(error_of(&results[1]), "3100", "{shown}");
    let (status, again) = scheme.payer.post("/bulkTransfers", &transfer);
    assert_eq!((status, &again["individualTransferResults"]), (200, results), "{again}");
    assert_eq!(scheme.admin.position("payerbank"), "10");
    scheme.end();
}

/// Reads a bulk of the payer until it has been completed.
fn wait_until_completed(scheme: &Scheme, path: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (status, shown) = scheme.payer.get(path);
        if status == 200 && shown["currentState"] == "COMPLETED" {
            return shown;
        }
        assert!(Instant::now() < deadline, "{shown}");
    }
}

/// The payee's back end learns which items it must reverse: one whose fulfilment the hub has
/// refused, and all items of a bulk that it left without an answer.
#[test]
fn uncommitted_items_are_reported_to_the_back_end() {
    let retry = "[dfsp.retry]\nattempts = 1\nanswer_seconds = 3\n";
    let scheme = Scheme::start("", retry);
    let (_, quoted) = scheme.payer.post("/bulkQuotes", &bulk_quote(&["10", "66"]));
    let transfer = bulk_transfer(&quoted);
    let (status, paid) = scheme.payer.post("/bulkTransfers", &transfer);
    assert_eq!(status, 200, "{paid}");
    let error = error_of(&paid["individualTransferResults"][1]);
    assert_eq!(error, "3100", "{paid}");
    let notice = wait_for_notice(&scheme, &transfer);
    assert_eq!(notice["currentState"], "COMPLETED", "{notice}");
    let items = &notice["individualTransferResults"];
    assert_eq!(items[0]["currentState"], "COMPLETED", "{notice}");
    assert_eq!(items[1]["currentState"], "ABORTED", "{notice}");
    assert_eq!(error_of(&items[1]), error, "{notice}");

    let (_, quoted) = scheme.payer.post("/bulkQuotes", &bulk_quote(&["20", "30"]));
    scheme.payee.hold_transfers(true);
    let transfer = bulk_transfer(&quoted);
    let (status, failed) = scheme.payer.post("/bulkTransfers", &transfer);
    assert_eq!((status, &failed["statusCode"]), (500, &json!("2001")), "{failed}");
    let notice = wait_for_notice(&scheme, &transfer);
    assert_eq!(notice["currentState"], "ABORTED", "{notice}");
    let items = notice["individualTransferResults"].as_array().unwrap();
    assert!(items.iter().all(|item| item["currentState"] == "ABORTED"), "{notice}");
    assert_eq!((items.len(), scheme.admin.position("payerbank")), (2, "10".to_owned()));
    scheme.end();
}

/// Waits for the final notice about a bulk.
fn wait_for_notice(scheme: &Scheme, transfer: &Value) -> Value {
    let id = transfer["bulkTransferId"].as_str().unwrap();
    let notice = scheme.payee.wait_for(&format!("PUT /bulkTransfers/{id}"));
    assert_eq!(notice["bulkTransferId"], id);
    notice
}
