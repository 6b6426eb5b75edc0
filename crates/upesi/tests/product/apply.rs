//! `upesi apply` and `upesi export`: a scheme from a file. A second run changes nothing; differences are updated or
//! refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::scheme::Admin;
use crate::support::switch::{Home, PROGRAM, Printed, Switch, finish};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tutorial/scheme.toml");
const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqw7TMAN6pcA5jhFhUK9O/eEOeUod\n\
    voJIiIn0GUsAQhOijyMVJb0NahMGw72rZrBIhjU8h4gGfjw+TH7IflGM5w==\n\
    -----END PUBLIC KEY-----\n";

struct Scheme {
    home: Home,
    switch: Switch,
    admin: Admin,
}

impl Scheme {
    fn start() -> Self {
        let home = Home::new();
        let switch = home.serve();
        let admin = Admin::new(&home, &switch);
        Self { home, switch, admin }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.configuration().with_file_name(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn apply(&self, file: &Path, more: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.arg("apply").arg(file).args(more);
        command.arg("--admin").arg(format!("http://{}", self.switch.admin));
        command.arg("--token").arg(self.home.data().join("admin-token"));
        finish(command)
    }

    /// The results, without the parts that were equal: object, result, expected value.
    fn changed(&self, file: &Path, more: &[&str]) -> Vec<String> {
        let rows = self.apply(file, &[&["--json"], more].concat()).succeeds().json();
        changes(&rows)
    }

    /// The hash of everything that changes have made, once all alerts are finished. Refused requests
    /// are records too, and change nothing.
    fn content(&self) -> Value {
        self.admin.quiet_state()["contentHash"].clone()
    }
}

fn changes(rows: &Value) -> Vec<String> {
    let rows = rows.as_array().unwrap();
    assert!(!rows.is_empty());
    let changed = rows.iter().filter(|row| row["done"] != "equal");
    let text = |row: &Value| {
        ["object", "done", "wanted"].map(|name| row[name].as_str().unwrap()).join(": ")
    };
    changed.map(text).collect()
}

#[test]
fn second_run_changes_nothing() {
    let hub = Scheme::start();
    let example = Path::new(EXAMPLE);
    let before = hub.content();
    let planned = hub.changed(example, &["--dry-run"]);
    assert_eq!(hub.content(), before);
    let done = hub.changed(example, &[]);
    assert_eq!(planned.len(), done.len());
    let planned = planned.join("\n").replace("would create", "created");
    assert_eq!(planned.replace("would update", "updated"), done.join("\n"));
    for name in ["fsp201", "fsp202", "fsp203", "fsp204"] {
        let endpoints = hub.admin.json(&format!("/participants/{name}/endpoints"));
        assert_eq!(endpoints.as_array().unwrap().len(), 25 + usize::from(name == "fsp204"));
        let limits = hub.admin.json(&format!("/participants/{name}/limits"));
        assert_eq!(
            limits,
            json!([
                {"currency": "USD", "limit":
                    {"type": "NET_DEBIT_CAP", "value": 1_000_000, "alarmPercentage": 20}},
                {"currency": "KES", "limit":
                    {"type": "NET_DEBIT_CAP", "value": 1_000_000, "alarmPercentage": 10}},
            ])
        );
        let accounts = hub.admin.json(&format!("/participants/{name}/accounts"));
        let accounts = accounts.as_array().unwrap();
        assert_eq!(accounts.len(), 4, "{accounts:?}");
        for account in accounts {
            let funds = if account["ledgerAccountType"] == "SETTLEMENT" { -1_000_000 } else { 0 };
            assert_eq!((&account["value"], &account["isActive"]), (&json!(funds), &json!(1)));
        }
    }
    let after = hub.content();
    assert_eq!(hub.changed(example, &[]), [""; 0]);
    assert_eq!(hub.content(), after);
    let table = String::from_utf8(hub.apply(example, &[]).succeeds().stdout).unwrap();
    assert!(table.contains("fsp204                 equal  25 endpoints\n"), "{table}");
    hub.switch.stop(Signal::TERM);
    hub.home.verify().succeeds();
}

/// A file of one bank, with a key next to it.
fn bank(cap: u32, funds: u32, host: &str, granularity: [&str; 2]) -> Value {
    json!({
        "hub": {"currencies": ["USD"], "accounts": ["HUB_RECONCILIATION",
            "HUB_MULTILATERAL_SETTLEMENT", "HUB_FEE"]},
        "settlement_models": [{"name": "OWNUSD", "granularity": granularity[0],
            "interchange": granularity[1], "delay": "DEFERRED", "currency": "USD"}],
        "participants": [{
            "name": "greenbank",
            "public_key_file": "key.pem",
            "endpoints": {"FSPIOP_CALLBACK_URL_QUOTES": host},
            "currencies": [{"currency": "USD", "net_debit_cap": cap, "funds_in": funds}],
        }],
    })
}

#[test]
fn differences_are_updated_or_refused() {
    let hub = Scheme::start();
    hub.file("key.pem", KEY);
    let net = ["NET", "MULTILATERAL"];
    let file = |bank: Value| hub.file("scheme.json", &bank.to_string());
    assert_eq!(hub.changed(&file(bank(100, 50, "http://127.0.0.1:1", net)), &[]).len(), 9);
    let keys = hub.admin.json("/participants/greenbank/keys");
    assert_eq!(keys[0]["publicKey"], KEY);
    let other = file(bank(200, 50, "http://127.0.0.1:2", net));
    assert_eq!(
        hub.changed(&other, &[]),
        [
            "greenbank: updated: net debit cap 200 USD, alarm at 10 %",
            "greenbank: updated: FSPIOP_CALLBACK_URL_QUOTES http://127.0.0.1:2",
        ]
    );
    let before = hub.content();
    for (bank, differing) in [
        (bank(300, 60, "http://127.0.0.1:1", net), "greenbank: differs: funds in of 60 USD"),
        (
            bank(300, 50, "http://127.0.0.1:1", ["NET", "BILATERAL"]),
            "model OWNUSD: differs: NET BILATERAL DEFERRED in USD, POSITION to SETTLEMENT, with \
             liquidity check, with position reset",
        ),
    ] {
        let output = hub.apply(&file(bank), &["--json"]);
        assert!(!output.status.success());
        let listed = changes(&output.json());
        assert!(listed.contains(&differing.to_owned()), "{listed:?}");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("cannot change 1 part in which"), "{error}");
        assert_eq!(hub.content(), before);
    }
    hub.switch.stop(Signal::TERM);
}

/// The next run does the rest.
#[test]
fn an_interrupted_run_is_continued() {
    let hub = Scheme::start();
    hub.admin.prepare_hub();
    let body = r#"{"name":"fsp203","currency":"KES"}"#;
    let answer = hub.admin.call("POST", "/participants", body);
    assert_ne!(answer.status, 201, "the hub has no accounts in KES");
    hub.admin.must("POST", "/participants", r#"{"name":"fsp203","currency":"USD"}"#, 201);
    let done = hub.changed(Path::new(EXAMPLE), &[]);
    assert!(done.contains(&"fsp203: created: funds in of 1000000 USD".to_owned()));
    assert!(!done.contains(&"fsp203: created: accounts in USD".to_owned()));
    assert_eq!(hub.changed(Path::new(EXAMPLE), &[]), [""; 0]);
    hub.switch.stop(Signal::TERM);
}

#[test]
fn applying_an_export_changes_nothing() {
    let hub = Scheme::start();
    hub.changed(Path::new(EXAMPLE), &[]);
    hub.file("key.pem", KEY);
    let other = bank(100, 50, "http://127.0.0.1:1", ["NET", "MULTILATERAL"]);
    hub.changed(&hub.file("bank.json", &other.to_string()), &[]);
    hub.admin.must("PUT", "/participants/fsp203", r#"{"isActive":false}"#, 200);
    let before = hub.content();
    for name in ["exported.toml", "exported.json"] {
        let file = hub.file(name, "");
        let mut command = Command::new(PROGRAM);
        command.arg("export").arg("--output").arg(&file);
        command.arg("--admin").arg(format!("http://{}", hub.switch.admin));
        finish(command).succeeds();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("fsp203") && text.contains("PUBLIC KEY"), "{text}");
        assert_eq!(hub.changed(&file, &[]), [""; 0], "{text}");
        assert_eq!(hub.changed(&file, &["--prune", "--yes"]), [""; 0], "{text}");
    }
    assert_eq!(hub.content(), before);
    hub.switch.stop(Signal::TERM);
}

#[test]
fn pruning_takes_away_what_the_file_does_not_have() {
    let hub = Scheme::start();
    hub.changed(Path::new(EXAMPLE), &[]);
    hub.file("key.pem", KEY);
    let net = ["NET", "MULTILATERAL"];
    let mut wanted = bank(100, 50, "http://127.0.0.1:1", net);
    hub.changed(&hub.file("bank.json", &wanted.to_string()), &[]);
    wanted["participants"][0].as_object_mut().unwrap().remove("public_key_file");
    let file = hub.file("bank.json", &wanted.to_string());
    let refused = hub.apply(&file, &["--prune"]).fails();
    assert!(refused.contains("--yes"), "{refused}");
    let before = hub.content();
    let planned = hub.changed(&file, &["--prune", "--dry-run"]);
    assert_eq!(hub.content(), before);
    let pruned = hub.changed(&file, &["--prune", "--yes"]);
    assert_eq!(planned.join("\n").replace("would prune", "pruned"), pruned.join("\n"));
    assert!(pruned.contains(&"fsp201: pruned: disabled".to_owned()), "{pruned:?}");
    assert!(pruned.contains(&"model DEFERREDNETUSD: pruned: inactive".to_owned()), "{pruned:?}");
    assert_eq!(hub.admin.json("/participants/greenbank/keys"), json!([]));
    assert_eq!(hub.changed(&file, &["--prune", "--yes"]), [""; 0]);
    let again = hub.changed(Path::new(EXAMPLE), &[]);
    assert!(again.contains(&"fsp201: updated: enabled".to_owned()), "{again:?}");
    hub.switch.stop(Signal::TERM);
}
