//! `upesi reconcile`: the statement of a bank against a running switch and against its log.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::statements::{day, printed};
use crate::support::scheme::Scheme;
use crate::support::switch::{PROGRAM, Printed, finish};

const NAMES: [&str; 3] = ["payerfsp", "payeefsp", "otherfsp"];
const HEADING: &str = "date,reference,participant,amount,currency,direction";

fn reconcile(bank: &Path, arguments: &[&str]) -> Output {
    reconcile_all(&[bank.to_owned()], arguments)
}

fn reconcile_all(banks: &[PathBuf], arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("reconcile").args(arguments);
    for bank in banks {
        command.arg("--bank").arg(bank);
    }
    finish(command)
}

/// The numbers of lines of each part of a result.
fn counts(result: &Value) -> [usize; 6] {
    [
        "both",
        "onlyBank",
        "onlySwitch",
        "amountsDiffer",
        "closingBalancesEqual",
        "closingBalancesDiffer",
    ]
    .map(|name| result[name].as_array().unwrap().len())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// The direction of an amount in the ledger, and the amount without its sign.
fn direction(amount: &str) -> (&str, &str) {
    amount.strip_prefix('-').map_or((amount, "debit"), |amount| (amount, "credit"))
}

/// The statement of a bank that has all movements, as CSV.
fn bank_of(scheme: &Scheme) -> Vec<String> {
    let mut lines = vec![HEADING.to_owned()];
    for name in NAMES {
        let statement = scheme.admin.json(&format!("/participants/{name}/statement"));
        let mut accounts = statement["accounts"].as_array().unwrap().iter();
        let account = accounts.find(|it| it["ledgerAccountType"] == "SETTLEMENT").unwrap();
        for entry in account["entries"].as_array().unwrap() {
            let reference = entry["externalReference"].as_str().unwrap_or_default();
            let (amount, direction) = direction(text(&entry["amount"]));
            let date = &text(&entry["time"])[..10];
            lines.push(format!("{date},{reference},{name},{amount},USD,{direction}"));
        }
        let (amount, direction) = direction(text(&account["closing"]["booked"]));
        let date = &text(&statement["to"]["time"])[..10];
        lines.push(format!("{date},closing balance,{name},{amount},USD,{direction}"));
    }
    lines
}

/// The camt.053 messages that the switch writes of each participant, with all of its accounts.
fn camt_files(data: &str, directory: &Path) -> [PathBuf; 3] {
    NAMES.map(|name| {
        let path = directory.join(format!("{name}.xml"));
        let text = printed(&["participant", name, "--data", data, "--format", "camt053"]);
        fs::write(&path, text).unwrap();
        path
    })
}

#[test]
fn a_bank_is_compared_with_the_settlement_accounts() {
    let scheme = day();
    let directory = tempfile::tempdir().unwrap();
    let data = scheme.home.data().display().to_string();
    let admin = format!("http://{}", scheme.switch.admin);
    let token = scheme.home.data().join("admin-token").display().to_string();
    let online = ["--admin", &admin, "--token", &token];
    let path = directory.path().join("bank");
    let lines = bank_of(&scheme);
    fs::write(&path, lines.join("\r\n")).unwrap();
    let camt = camt_files(&data, directory.path());
    for banks in [&[path.clone()][..], &camt] {
        for source in [&online[..], &["--data", &data]] {
            let all = |more: &[&str]| reconcile_all(banks, &[source, more].concat());
            let equal = all(&["--json"]).succeeds().json();
            assert_eq!(counts(&equal), [6, 0, 0, 0, 3, 0], "{equal}");
            let skipped = equal["skipped"].as_array().unwrap();
            let positions = skipped.iter().filter(|it| it["ledgerAccountType"] == "POSITION");
            assert_eq!(positions.count(), if banks.len() == 1 { 0 } else { 3 }, "{equal}");
            let later = all(&["--from", "2100-01-01T00:00:00Z"]).succeeds().out();
            assert!(later.starts_with("in both: 0\n"), "{later}");
            let one = all(&["--participant", "payeefsp", "--json"]).succeeds().json();
            assert_eq!(counts(&one)[3..], [0, 1, 0], "{one}");
            let names = one["both"].as_array().unwrap().iter().map(|line| &line["participant"]);
            assert!(names.eq(one["both"].as_array().unwrap().iter().map(|_| "payeefsp")), "{one}");
            for option in [["--account", "DE12=unknownfsp"], ["--participant", "unknownfsp"]] {
                let unknown = all(&option);
                assert_eq!(unknown.status.code(), Some(2), "{}", unknown.err());
                let expected =
                    format!("{} {}: participant unknownfsp not found", option[0], option[1]);
                assert!(unknown.err().contains(&expected), "{}", unknown.err());
            }
        }
    }
    let shown = reconcile_all(&camt, &online).succeeds().out();
    let skipped = format!("skipped: {}:", camt[0].display());
    assert!(
        shown.contains(&skipped) && shown.contains("of payerfsp is of type POSITION"),
        "{shown}"
    );
    fs::write(&path, differing(&lines).join("\n")).unwrap();
    let differs = reconcile(&path, &[&online[..], &["--json"]].concat());
    assert_eq!(differs.status.code(), Some(1), "{}", differs.err());
    let differs = differs.json();
    assert_eq!(counts(&differs), [4, 1, 1, 1, 2, 1], "{differs}");
    let (closing, changed) = (&differs["closingBalancesDiffer"][0], differing(&lines));
    let line = changed.iter().position(|it| it.contains("closing balance,payerfsp")).unwrap();
    assert_eq!(closing["bankLine"], line + 1, "{differs}");
    assert_eq!(closing["bankFile"], path.display().to_string(), "{differs}");
    let narrowed = ["--participant", "payeefsp", "--json"];
    let narrowed = reconcile(&path, &[&online[..], &narrowed].concat()).succeeds().json();
    assert_eq!(counts(&narrowed)[1..], [0, 0, 0, 1, 0], "{narrowed}");
    assert_eq!(differs["amountsDiffer"][0]["bankAmount"], "-101");
    assert_eq!(differs["amountsDiffer"][0]["switchAmount"], "-100");
    let other = reconcile(&path, &["--data", &data, "--currency", "EUR"]).succeeds().out();
    assert!(other.starts_with("in both: 0\n"), "{other}");
    unreadable_files_are_named(&path, &camt[0], &online);
    scheme.end();
}

fn unreadable_files_are_named(path: &Path, readable: &Path, online: &[&str]) {
    let directory = path.parent().unwrap();
    let rows = ["x,,a,1,USD,up", "2026-05-01,,a,-,USD,credit"];
    fs::write(path, [HEADING, rows[0], rows[1]].join("\r\n")).unwrap();
    let empty = directory.join("empty.xml");
    let namespace = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08";
    let text = format!("<Document xmlns=\"{namespace}\">\r\n<BkToCstmrStmt/></Document>");
    fs::write(&empty, text).unwrap();
    let banks = [path, readable, &empty, &directory.join("missing")].map(Path::to_owned);
    let unread = reconcile_all(&banks, online);
    assert_eq!(unread.status.code(), Some(2), "{}", unread.err());
    for line in [
        "bank: line 2: direction \"up\"",
        "bank: line 3: amount \"-\"",
        "bank: lines that cannot be read: 2; nothing was compared",
        "empty.xml: line 1: the camt.053 has no Stmt: there is nothing to compare",
        "missing: No such file",
    ] {
        assert!(unread.err().contains(line), "{line}: {}", unread.err());
    }
}

/// The lines of the bank without the first movement, with another amount of the funds out, with an
/// unknown payment, with another closing balance, and with an earlier one, which is not compared.
fn differing(lines: &[String]) -> Vec<String> {
    let mut lines = lines.to_vec();
    lines.remove(1);
    let position = |wanted: &str| lines.iter().position(|line| line.contains(wanted)).unwrap();
    let (out, closing) = (position("advice 100"), position("closing balance,payerfsp"));
    lines[out] = lines[out].replace(",100,", ",101,");
    lines[closing] = lines[closing].replace(",USD", "1,USD");
    lines.push("2026-05-01,unknown,payerfsp,1,USD,credit".to_owned());
    lines.push("2020-01-01,closing balance,payeefsp,1,USD,credit".to_owned());
    lines
}
