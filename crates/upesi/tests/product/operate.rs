//! The commands of operators against a running switch.

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http::PATIENCE;

use crate::support::scheme::Scheme;
use crate::support::switch::{PROGRAM, Printed, finish};

/// Time between two looks.
const GLANCE: Duration = Duration::from_millis(100);

/// Runs a command against the switch of a scheme, with its token.
fn run(scheme: &Scheme, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).args(["--admin", &format!("http://{}", scheme.switch.admin)]);
    command.arg("--token").arg(scheme.home.data().join("admin-token"));
    finish(command)
}

fn answer(scheme: &Scheme, arguments: &[&str]) -> Value {
    run(scheme, &[arguments, &["--json"]].concat()).succeeds().json()
}

#[test]
fn status_shows_health_rates_and_positions() {
    let scheme = Scheme::start();
    scheme.pay("150.5");
    let deadline = Instant::now() + PATIENCE;
    // The rates and the positions are those of the last second.
    let status = loop {
        let status = answer(&scheme, &["status"]);
        if status["rate"]["committed"].as_f64() != Some(0.0)
            && status["nearCap"][0]["participant"] == "payerfsp"
        {
            break status;
        }
        assert!(Instant::now() < deadline, "{status}");
        std::thread::sleep(GLANCE);
    };
    assert_eq!(status["status"], "OK");
    assert_eq!(status["transfers"]["committed"], 1);
    assert!(0.0 < status["rate"]["commitP50Milliseconds"].as_f64().unwrap(), "{status}");
    let near = &status["nearCap"][0];
    assert_eq!(
        (&near["headroom"].to_string(), &near["limitedBy"]),
        (&"849.5".into(), &"cap".into())
    );
    let screen = run(&scheme, &["status"]).succeeds().out();
    assert!(screen.starts_with("upesi ") && screen.contains(": OK, up "), "{screen}");
    assert!(screen.contains("sequencer ok") && screen.contains("849.5"), "{screen}");
    assert!(!screen.contains('\x1b'), "colours are for terminals");
    let refused = run(&scheme, &["top"]).fails();
    assert!(refused.contains("not a terminal"), "{refused}");
    scheme.end();
}

const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqw7TMAN6pcA5jhFhUK9O/eEOeUod\n\
    voJIiIn0GUsAQhOijyMVJb0NahMGw72rZrBIhjU8h4gGfjw+TH7IflGM5w==\n\
    -----END PUBLIC KEY-----\n";

#[test]
fn one_line_adds_a_participant_and_again_changes_nothing() {
    let scheme = Scheme::start();
    let key = scheme.home.configuration().with_file_name("greenbank.pem");
    fs::write(&key, KEY).unwrap();
    let line = ["participant", "add", "greenbank", "--currency", "KES", "--cap", "1000.5"];
    let callbacks = ["--callbacks", "http://127.0.0.1:4999", "--funds-in", "500"];
    let line = [&line[..], &callbacks, &["--public-key", key.to_str().unwrap()]].concat();
    let done = |line: &[&str]| {
        let rows = answer(&scheme, line);
        let rows = rows.as_array().unwrap().clone();
        let changed = rows.iter().filter(|row| row["done"] != "equal");
        changed.map(|row| format!("{}: {}", row["done"], row["wanted"])).collect::<Vec<_>>()
    };
    let content = || scheme.admin.json("/state")["contentHash"].clone();
    let before = content();
    let planned = done(&[&line[..], &["--dry-run"]].concat());
    assert_eq!(content(), before);
    let created = done(&line);
    assert_eq!(planned.len(), created.len(), "{created:?}");
    assert!(created.iter().all(|row| row.starts_with("\"created\"")), "{created:?}");
    let after = content();
    assert_eq!(done(&line), [""; 0]);
    assert_eq!(content(), after);

    let shown = answer(&scheme, &["participant", "show", "greenbank"]);
    assert_eq!(shown["limits"][0]["limit"]["value"].to_string(), "1000.5");
    assert_eq!(shown["endpoints"].as_array().unwrap().len(), 18, "{shown}");
    assert_eq!(shown["keys"].as_array().unwrap().len(), 1, "{shown}");
    let listed = run(&scheme, &["participant", "list"]).succeeds().out();
    let row = listed.lines().find(|line| line.contains("greenbank")).unwrap();
    let row: Vec<_> = row.split_whitespace().collect();
    assert_eq!(row, ["greenbank", "active", "KES", "0", "500", "1000.5", "500"], "{listed}");

    let raised =
        ["participant", "limits", "greenbank", "--cap", "2000", "--alarm-percentage", "80"];
    let limits = answer(&scheme, &raised);
    assert_eq!(
        limits[0]["limit"],
        json!({"type": "NET_DEBIT_CAP", "value": 2000,
        "alarmPercentage": 80})
    );
    let set = "FSPIOP_CALLBACK_URL_TRANSFER_POST=http://127.0.0.1:4998/in";
    let endpoints = answer(&scheme, &["participant", "endpoints", "greenbank", "--set", set]);
    let is_set = |it: &Value| it["value"] == "http://127.0.0.1:4998/in";
    assert!(endpoints.as_array().unwrap().iter().any(is_set), "{endpoints}");
    for (command, text) in
        [("disable", "disabled"), ("disable", "disabled already"), ("enable", "active")]
    {
        let out = run(&scheme, &["participant", command, "greenbank"]).succeeds().out();
        assert_eq!(out.trim(), format!("greenbank is {text}"));
    }
    for (wrong, fault) in [
        ("--currency", "XXQ is not a currency"),
        ("--cap", "at most 18 digits"),
        ("--callbacks", "must be an address"),
    ] {
        let mut line = line.clone();
        let at = line.iter().position(|it| *it == wrong).unwrap();
        line[at + 1] = "XXQ";
        let refused = run(&scheme, &line).fails();
        assert!(refused.contains(wrong) && refused.contains(fault), "{refused}");
    }
    scheme.end();
}

#[test]
fn funds_move_once_and_withdrawals_end() {
    let scheme = Scheme::start();
    let cover =
        || scheme.admin.json("/liquidity?participant=payeefsp")[0]["liquidityCover"].to_string();
    let id = "01HV0000000000000000000009";
    for _ in 0..2 {
        run(&scheme, &["funds", "in", "payeefsp", "100.25", "--id", id]).succeeds();
    }
    assert_eq!(cover(), "2100.25");
    let reserved = answer(&scheme, &["funds", "out", "payeefsp", "12.5", "--currency", "USD"]);
    let out = reserved["transferId"].as_str().unwrap();
    assert_eq!(cover(), "2087.75");
    let table = run(&scheme, &["funds", "list"]).succeeds().out();
    let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    let account = scheme.admin.account("payeefsp", "SETTLEMENT").id.to_string();
    assert_eq!(row[..5], [out, "payeefsp", &*account, "12.5", "USD"], "{table}");
    let none = answer(&scheme, &["funds", "list", "--participant", "payerfsp"]);
    assert_eq!(none, json!([]));
    run(&scheme, &["funds", "abort", out]).succeeds();
    assert_eq!(cover(), "2100.25");
    let ended = run(&scheme, &["funds", "commit", out]).fails();
    assert!(ended.contains("it is not a reserved withdrawal"), "{ended}");
    let paid = answer(&scheme, &["funds", "out", "payeefsp", "100.25"]);
    run(&scheme, &["funds", "commit", paid["transferId"].as_str().unwrap()]).succeeds();
    assert_eq!(cover(), "2000");
    let refused = run(&scheme, &["funds", "out", "payeefsp", "1000000"]).fails();
    assert!(refused.contains("was refused"), "{refused}");
    scheme.end();
}
