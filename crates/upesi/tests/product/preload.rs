//! `preload` fills a directory with valid transfers, and adds more when it is run again.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::switch::{PROGRAM, Printed, finish, laboratory};

fn carry_out(mut command: Command, arguments: &[&str]) -> Output {
    command.args(arguments);
    finish(command)
}

/// The JSON that a successful command prints last.
fn result(command: Command, arguments: &[&str]) -> Value {
    let output = carry_out(command, arguments);
    let (text, errors) = (output.out(), output.err());
    assert!(output.status.success(), "{text}{errors}");
    let json = text.find('{').expect("JSON");
    serde_json::from_str(&text[json..]).expect("JSON")
}

fn preload(data: &Path, more: &[&str]) -> Value {
    result(laboratory(), &[&["preload", "--json", "--data", data.to_str().unwrap()], more].concat())
}

#[test]
fn directory_is_filled_verified_and_measured() {
    let place = TempDir::new().unwrap();
    let data = place.path();
    let name = data.to_str().unwrap();
    let first = preload(data, &["--transfers", "0.3k", "--fsps", "4"]);
    assert_eq!((&first["added"], &first["stored"]), (&Value::from(300), &Value::from(300)));
    let bytes = first["disk"]["log"].as_u64().unwrap();
    assert!((450_000..900_000).contains(&bytes), "{first}");

    let more = preload(data, &["--total", "500", "--fsps", "4"]);
    assert_eq!((&more["added"], &more["stored"]), (&Value::from(200), &Value::from(500)));
    let none = preload(data, &["--total", "500", "--fsps", "4"]);
    assert_eq!((&none["added"], &none["stored"]), (&Value::from(0), &Value::from(500)));
    let others = preload(data, &["--transfers", "10", "--body-bytes", "3000"]);
    assert_eq!(others["stored"], Value::from(510), "further FSPs are onboarded");
    for participants in ["200", "300"] {
        preload(data, &["--total", "510", "--participants", participants]);
    }
    let state = result(Command::new(PROGRAM), &["replay", "--json", "--data", name]);
    let banks = state["participants"].as_array().unwrap().iter();
    let banks = banks.filter(|one| one["name"].as_str().unwrap().starts_with("bank"));
    assert_eq!(banks.count(), 300, "each is added once");

    let proof = result(Command::new(PROGRAM), &["verify", "--json", "--data", name]);
    assert_eq!(proof["ok"], Value::from(true), "{proof}");
    let json = data.join("out.json");
    let measured = carry_out(
        laboratory(),
        &[
            "transfer",
            "--data",
            name,
            "--count",
            "50",
            "--warmup",
            "0",
            "--fsps",
            "4",
            "--json",
            json.to_str().unwrap(),
        ],
    );
    assert!(measured.status.success(), "{measured:?}");
    let measured = std::fs::read_to_string(json).unwrap();
    let measured: Value = serde_json::from_str(&measured).unwrap();
    // Includes one transfer of funds per FSP.
    assert_eq!(measured["stored_transfers"]["at_start"], Value::from(518), "{measured}");
}

#[test]
fn invalid_preload_options_write_nothing() {
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    let name = data.to_str().unwrap();
    for (arguments, expected) in [
        (&["--transfers", "a lot"][..], "such as 2500, 100k, 0.1M or 10M"),
        (&["--transfers", "0"][..], "expected a count from 1"),
        (&[][..], "--transfers <COUNT>"),
        (&["--transfers", "1", "--total", "1"][..], "cannot be used with"),
        (&["--transfers", "1", "--fsps", "3"][..], "--fsps: expected an even number"),
        (&["--transfers", "1", "--fsps", "0"][..], "--fsps: expected an even number"),
        (&["--transfers", "900000M"][..], "make room, add fewer, or take another --data"),
    ] {
        let arguments = [&["preload", "--data", name], arguments].concat();
        let errors = carry_out(laboratory(), &arguments).fails();
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
        assert!(!data.exists(), "{arguments:?}");
    }
}
