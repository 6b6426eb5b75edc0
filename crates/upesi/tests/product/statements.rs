//! Statements of a running switch and of its log: they tie to the accounts, to the windows and to
//! the settlements, and their camt.053 is valid against the published schema.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use ledger::Amount;
use serde_json::{Value, json};

use crate::support::message::{Transfer, uuid};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{PROGRAM, Printed, finish};

const NAMES: [&str; 4] = ["payerfsp", "payeefsp", "otherfsp", "Hub"];
const STATES: [&str; 4] =
    ["PS_TRANSFERS_RECORDED", "PS_TRANSFERS_RESERVED", "PS_TRANSFERS_COMMITTED", "SETTLED"];

fn amount(value: &Value) -> Amount {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Amount::parse_decimal(&text).unwrap_or_else(|| panic!("{text} is not an amount"))
}

fn sum(amounts: impl IntoIterator<Item = Amount>) -> Amount {
    amounts.into_iter().fold(Amount::ZERO, |sum, amount| sum.checked_add(amount).unwrap())
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

/// Funds in or out of a SETTLEMENT account. Returns the id of the transfer.
fn funds(admin: &Admin, name: &str, action: &str, value: &str) -> String {
    let (account, id) = (admin.account(name, "SETTLEMENT").id, uuid());
    let body = json!({
        "transferId": id, "externalReference": format!("advice {value}"), "action": action,
        "reason": "test", "amount": {"amount": value, "currency": "USD"},
    });
    admin.must("POST", &format!("/participants/{name}/accounts/{account}"), &body.to_string(), 202);
    id
}

fn commit_funds_out(admin: &Admin, name: &str, id: &str) {
    let account = admin.account(name, "SETTLEMENT").id;
    let path = format!("/participants/{name}/accounts/{account}/transfers/{id}");
    admin.must("PUT", &path, r#"{"action":"recordFundsOutCommit","reason":"paid"}"#, 202);
}

/// Closes a window and creates a settlement over it.
fn settle(admin: &Admin, window: u32) {
    let close = format!("/v2/settlementWindows/{window}");
    admin.must("POST", &close, r#"{"state":"CLOSED","reason":"test"}"#, 200);
    let body = json!({"settlementModel": "DEFAULTDEFERREDNET", "reason": "test",
        "settlementWindows": [{"id": window}]});
    admin.must("POST", "/v2/settlements", &body.to_string(), 200);
}

/// Moves all accounts of a settlement to a state.
pub(crate) fn advance(admin: &Admin, settlement: u32, state: &str) {
    let path = format!("/v2/settlements/{settlement}");
    let shown = admin.json(&path);
    let participants = list(&shown["participants"]).iter().map(|participant| {
        let id = &participant["accounts"][0]["id"];
        json!({"id": participant["id"], "accounts": [{"id": id, "state": state,
            "reason": "test", "externalReference": "advice <1> & \"2\""}]})
    });
    let body = json!({"participants": participants.collect::<Vec<_>>()});
    admin.must("PUT", &path, &body.to_string(), 200);
}

/// A day with committed and reserved transfers, funds in and out, a settlement, an abort and a
/// correction. A snapshot is taken in the middle of the first window, while funds out are reserved
/// that are committed in the second one.
pub(crate) fn day() -> Scheme {
    let scheme = Scheme::start();
    let admin = &scheme.admin;
    scheme.pay("30.5");
    scheme.pay("10");
    let gone = funds(admin, "otherfsp", "recordFundsOutPrepareReserve", "100");
    scheme.wait_until_delivered();
    admin.must("POST", "/snapshots", "", 202);
    admin.wait_for("upesi_snapshots_taken_total", |taken| 0 < taken);
    scheme.pay("0.25");
    settle(admin, 1);
    commit_funds_out(admin, "otherfsp", &gone);
    scheme.pay("5");
    STATES.iter().for_each(|state| advance(admin, 1, state));
    settle(admin, 2);
    advance(admin, 2, STATES[0]);
    advance(admin, 2, STATES[1]);
    let abort = r#"{"state":"ABORTED","reason":"test"}"#;
    admin.must("PUT", "/v2/settlements/2", abort, 200);
    let account = admin.account("payeefsp", "SETTLEMENT").id;
    let body = json!({"transferId": uuid(), "reason": "test",
        "amount": {"amount": "-12.5", "currency": "USD"}});
    let path = format!("/participants/payeefsp/accounts/{account}/adjustments");
    admin.must("POST", &path, &body.to_string(), 202);
    funds(admin, "payerfsp", "recordFundsIn", "40");
    funds(admin, "payerfsp", "recordFundsOutPrepareReserve", "7");
    scheme.send(&Transfer::of("3").prepare(), 202);
    scheme.pay("1");
    scheme.wait_until_delivered();
    scheme
}

/// The net of each account in a statement.
pub(crate) fn nets(statement: &Value) -> BTreeMap<u64, Amount> {
    let net = |account: &Value| {
        (account["accountId"].as_u64().unwrap(), amount(&account["closing"]["booked"]))
    };
    list(&statement["accounts"]).iter().map(net).collect()
}

pub(crate) fn causes(account: &Value) -> Vec<String> {
    let text = |entry: &Value| {
        let (cause, value) = (entry["cause"].as_str().unwrap(), amount(&entry["amount"]));
        format!("{cause} {value}")
    };
    list(&account["entries"]).iter().map(text).collect()
}

pub(crate) fn account<'s>(statement: &'s Value, kind: &str) -> &'s Value {
    let mut accounts = list(&statement["accounts"]).iter();
    accounts.find(|account| account["ledgerAccountType"] == kind).unwrap()
}

/// Statements of all participants end with the balances of their accounts, and explain them.
pub(crate) fn tie_to_accounts(admin: &Admin) {
    let mut booked = Vec::new();
    for name in NAMES {
        let statement = admin.json(&format!("/participants/{name}/statement"));
        let shown = admin.json(&format!("/participants/{name}/accounts"));
        for account in list(&shown) {
            let mut stated = list(&statement["accounts"]).iter();
            let stated = stated.find(|it| it["accountId"] == account["id"]).unwrap();
            let (opening, closing) = (&stated["opening"], &stated["closing"]);
            let entries = list(&stated["entries"]).iter().map(|entry| amount(&entry["amount"]));
            let expected = sum(entries.chain([amount(&opening["booked"])]));
            assert_eq!(amount(&closing["booked"]), expected, "{name} {stated}");
            let balance = sum([amount(&closing["booked"]), amount(&closing["reserved"])]);
            assert_eq!(balance, amount(&account["value"]), "{name} {stated}");
            booked.push(amount(&closing["booked"]));
        }
    }
    assert_eq!(sum(booked), Amount::ZERO);
}

#[test]
fn statements_tie_to_accounts_windows_and_settlements() {
    let scheme = day();
    let admin = &scheme.admin;
    tie_to_accounts(admin);
    let payer = admin.json("/participants/payerfsp/statement");
    assert_eq!(account(&payer, "POSITION")["closing"]["reserved"], "3");
    assert_eq!(account(&payer, "SETTLEMENT")["closing"]["reserved"], "7");
    assert_eq!(
        causes(account(&payer, "POSITION")),
        ["transfers paid 40.75", "transfers paid 5", "settlement -40.75", "transfers paid 1"]
    );
    assert_eq!(causes(account(&payer, "SETTLEMENT")), ["funds in -2000", "funds in -40"]);
    let other = admin.json("/participants/otherfsp/statement");
    let out = &account(&other, "SETTLEMENT")["entries"][1];
    assert_eq!((&out["cause"], &out["amount"]), (&json!("funds out"), &json!("100")));
    assert_eq!(out["externalReference"], "advice 100");
    windows_tie_to_settlements(admin);
    periods_follow_each_other(admin);
    scheme.end();
}

fn windows_tie_to_settlements(admin: &Admin) {
    for id in [1, 2] {
        let window = admin.json(&format!("/v2/settlementWindows/{id}/statement"));
        let settlement = admin.json(&format!("/v2/settlements/{id}/statement"));
        assert_eq!(nets(&window), nets(&settlement));
        assert_eq!(sum(nets(&window).into_values()), Amount::ZERO);
        let shown = admin.json(&format!("/v2/settlements/{id}"));
        let accounts = list(&shown["participants"])
            .iter()
            .flat_map(|it| list(&it["accounts"]))
            .map(|it| (it["id"].as_u64().unwrap(), amount(&it["netSettlementAmount"]["amount"])));
        assert_eq!(nets(&window), accounts.collect());
        for name in ["payerfsp", "payeefsp"] {
            let own =
                admin.json(&format!("/v2/settlementWindows/{id}/statement?participant={name}"));
            let of_log = admin.json(&format!("/participants/{name}/statement?windowId={id}"));
            for point in ["from", "to"] {
                assert_eq!(own[point], of_log[point], "{name} {point}");
            }
            let is_transfer = |entry: &&Value| entry["windowId"] == id;
            let entries = list(&account(&of_log, "POSITION")["entries"]).iter();
            let moved = entries.filter(is_transfer).map(|entry| amount(&entry["amount"]));
            assert_eq!(Some(&sum(moved)), nets(&own).values().next(), "{name}");
        }
    }
}

/// The closing balances of a period are the opening balances of the next one.
fn periods_follow_each_other(admin: &Admin) {
    let time = &admin.json("/v2/settlementWindows/1/statement")["to"]["time"];
    let time = time.as_str().unwrap();
    let all = admin.json("/participants/payerfsp/statement");
    let early = admin.json(&format!("/participants/payerfsp/statement?to={time}"));
    let late = admin.json(&format!("/participants/payerfsp/statement?from={time}&currency=USD"));
    assert_eq!(early["to"]["logIndex"], late["from"]["logIndex"]);
    for kind in ["POSITION", "SETTLEMENT"] {
        let [all, early, late] = [&all, &early, &late].map(|it| account(it, kind));
        assert_eq!(early["closing"], late["opening"], "{kind}");
        assert_eq!(late["closing"], all["closing"], "{kind}");
        let both: Vec<_> = causes(early).into_iter().chain(causes(late)).collect();
        assert_eq!(both, causes(all), "{kind}");
    }
}

/// Runs `upesi statement` and returns its output.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    command.arg("statement").args(arguments);
    finish(command).succeeds().out()
}

#[test]
fn a_log_and_its_switch_give_the_same_statements() {
    let scheme = day();
    let data = scheme.home.data();
    let (data, token) = (data.display().to_string(), data.join("admin-token"));
    let admin = format!("http://{}", scheme.switch.admin);
    let online = ["--admin", &admin, "--token", &token.display().to_string()];
    for name in NAMES {
        for more in [
            &["--window", "1"][..],
            &["--window", "2", "--each"],
            &["--window", "1", "--currency", "USD"],
        ] {
            for format in ["json", "csv", "table"] {
                let wanted = [&["participant", name, "--format", format], more].concat();
                let here = printed(&[&wanted[..], &online].concat());
                let there = printed(&[&wanted[..], &["--data", &data]].concat());
                assert_eq!(here, there, "{wanted:?}");
            }
        }
    }
    let refused = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.arg("statement").args(arguments);
        finish(command).fails()
    };
    let window = refused(&["participant", "payerfsp", "--window", "9", "--data", &data]);
    assert!(window.contains("window 9 does not exist"), "{window}");
    let unknown = refused(&["participant", "unknown", "--data", &data]);
    assert!(unknown.contains("participant unknown not found"), "{unknown}");
    let unknown = refused(&["settlement", "9", "--admin", &admin]);
    assert!(unknown.contains("Settlement with ID '9' not found"), "{unknown}");
    scheme.end();
}

/// A gross model returns the position with each commit, and takes the amount from the deposit.
#[test]
fn gross_settlement_has_its_own_entries() {
    let scheme = Scheme::start();
    let model = json!({
        "name": "CGS", "settlementGranularity": "GROSS", "settlementInterchange": "BILATERAL",
        "settlementDelay": "IMMEDIATE", "currency": "USD", "requireLiquidityCheck": true,
        "ledgerAccountType": "POSITION", "autoPositionReset": true,
        "settlementAccountType": "SETTLEMENT",
    });
    scheme.admin.must("POST", "/settlementModels", &model.to_string(), 201);
    scheme.pay("12");
    scheme.wait_until_delivered();
    for (name, position, settlement) in [
        (
            "payerfsp",
            ["transfers paid 12", "gross settlement -12"],
            ["funds in -2000", "gross settlement 12"],
        ),
        (
            "payeefsp",
            ["transfers received -12", "gross settlement 12"],
            ["funds in -2000", "gross settlement -12"],
        ),
    ] {
        let statement = scheme.admin.json(&format!("/participants/{name}/statement"));
        assert_eq!(causes(account(&statement, "POSITION")), position, "{name}");
        assert_eq!(causes(account(&statement, "SETTLEMENT")), settlement, "{name}");
    }
    scheme.end();
}

/// A switch and the command read archived segments from their archive.
#[test]
fn archived_segments_are_part_of_statements() {
    let (home, _) = crate::archive::stopped_scheme();
    let data = home.data().display().to_string();
    let request = ["participant", "payerfsp", "--format", "json"];
    let before = printed(&[&request[..], &["--data", &data]].concat());
    let directory = tempfile::tempdir().unwrap();
    let place = format!("file://{}", directory.path().display());
    let mut command = Command::new(PROGRAM);
    command.args(["archive", "--data", &data, "--to", &place, "--json"]);
    let archived = finish(command).succeeds().json();
    assert!(!list(&archived["segments"]).is_empty(), "{archived}");
    assert_eq!(printed(&[&request[..], &["--data", &data]].concat()), before);
    let switch = home.serve();
    let statement = Admin::new(&home, &switch).json("/participants/payerfsp/statement");
    let before: Value = serde_json::from_str(&before).unwrap();
    assert_eq!(statement["accounts"], before["accounts"]);
    switch.stop(rustix::process::Signal::TERM);
}

#[test]
fn camt_053_is_valid_against_the_published_schema() {
    let scheme = day();
    let directory = tempfile::tempdir().unwrap();
    let data = scheme.home.data().display().to_string();
    let admin = format!("http://{}", scheme.switch.admin);
    let requests: [&[&str]; 5] = [
        &["settlement", "1", "--admin", &admin],
        &["window", "2", "--admin", &admin],
        &["participant", "payerfsp", "--data", &data],
        &["participant", "otherfsp", "--data", &data, "--each"],
        &["participant", "Hub", "--data", &data],
    ];
    let mut files = Vec::new();
    for (at, request) in requests.iter().enumerate() {
        let path = directory.path().join(format!("{at}.xml"));
        let file = path.display().to_string();
        printed(&[request, &["--format", "camt053", "--output", &file][..]].concat());
        files.push(path);
    }
    validate(&files.iter().map(|path| &**path).collect::<Vec<_>>()).succeeds();
    // The schema finds a fault.
    let text = fs::read_to_string(&files[0]).unwrap();
    fs::write(&files[1], text.replacen("CLBD", "CLOSING", 1)).unwrap();
    assert!(!validate(&[&files[1]]).status.success());
    scheme.end();
}

/// Validates files with libxml2, which the first call installs.
fn validate(files: &[&Path]) -> std::process::Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/product/support/camt053.py");
    let mut command = Command::new("python3");
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("camt053");
    command.arg(script).arg(kept).args(files);
    crate::support::switch::finish_within(command, std::time::Duration::from_secs(300))
}
