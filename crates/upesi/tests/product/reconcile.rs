//! `upesi reconcile`: the statement of a bank against a running switch and against its log.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::statements::{day, printed};
use crate::support::scheme::Scheme;
use crate::support::switch::{PROGRAM, Printed, finish};

const NAMES: [&str; 3] = ["payerfsp", "payeefsp", "otherfsp"];
const HEADING: &str = "date,reference,participant,amount,currency,direction";

fn reconcile(bank: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("reconcile").arg("--bank").arg(bank).args(arguments);
    finish(command)
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

/// The same as camt.053, from the statements of the switch.
fn camt_of(data: &str) -> String {
    let exported =
        NAMES.map(|name| printed(&["participant", name, "--data", data, "--format", "camt053"]));
    let (head, _) = exported[0].split_once("<Stmt>").unwrap();
    let (_, tail) = exported[0].rsplit_once("</Stmt>").unwrap();
    let all = exported.iter().flat_map(|text| text.split("<Stmt>").skip(1));
    let all = all.map(|text| text.split_once("</Stmt>").unwrap().0);
    let kept = all.filter(|text| text.contains("<Prtry>SETTLEMENT</Prtry>"));
    let kept: Vec<_> = kept.map(|text| format!("<Stmt>{text}</Stmt>")).collect();
    format!("{head}{}{tail}", kept.join("\n"))
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
    for bank in [lines.join("\n"), camt_of(&data)] {
        fs::write(&path, bank).unwrap();
        for source in [&online[..], &["--data", &data]] {
            let equal = reconcile(&path, &[source, &["--json"]].concat()).succeeds().json();
            assert_eq!(equal["both"].as_array().unwrap().len(), 6, "{equal}");
            let later = reconcile(&path, &[source, &["--from", "2100-01-01T00:00:00Z"]].concat());
            assert!(later.succeeds().out().starts_with("in both: 0\n"));
        }
    }
    fs::write(&path, differing(&lines).join("\n")).unwrap();
    let differs = reconcile(&path, &[&online[..], &["--json"]].concat());
    assert_eq!(differs.status.code(), Some(1), "{}", differs.err());
    let differs = differs.json();
    let counts = ["both", "onlyBank", "onlySwitch", "amountsDiffer", "closingBalancesDiffer"]
        .map(|name| differs[name].as_array().unwrap().len());
    assert_eq!(counts, [4, 1, 1, 1, 1], "{differs}");
    assert_eq!(differs["amountsDiffer"][0]["bankAmount"], "-101");
    assert_eq!(differs["amountsDiffer"][0]["switchAmount"], "-100");
    let other = reconcile(&path, &["--data", &data, "--currency", "EUR"]).succeeds().out();
    assert!(other.starts_with("in both: 0\n"), "{other}");
    fs::write(&path, format!("{HEADING}\nx,,a,1,USD,up\n2026-05-01,,a,-,USD,credit\n")).unwrap();
    let unread = reconcile(&path, &online);
    assert_eq!(unread.status.code(), Some(2), "{}", unread.err());
    for line in ["line 2: direction \"up\"", "line 3: amount \"-\"", "2 lines cannot be read"] {
        assert!(unread.err().contains(line), "{line}: {}", unread.err());
    }
    let missing = reconcile(&directory.path().join("missing"), &online);
    assert_eq!(missing.status.code(), Some(2), "{}", missing.err());
    scheme.end();
}

/// The lines of the bank without the first movement, with another amount of the funds out, with an
/// unknown payment, and with another closing balance.
fn differing(lines: &[String]) -> Vec<String> {
    let mut lines = lines.to_vec();
    lines.remove(1);
    let position = |wanted: &str| lines.iter().position(|line| line.contains(wanted)).unwrap();
    let (out, closing) = (position("advice 100"), position("closing balance,payerfsp"));
    lines[out] = lines[out].replace(",100,", ",101,");
    lines[closing] = lines[closing].replace(",USD", "1,USD");
    lines.push("2026-05-01,unknown,payerfsp,1,USD,credit".to_owned());
    lines
}
