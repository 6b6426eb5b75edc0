//! `upesi conformance` against our adapter, against adapters with deliberate faults, and through a
//! hub.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::Keys;
use super::bank::{Bank, Scheme};
use crate::signatures::pem;
use crate::support::port::ReservedPort;
use crate::support::switch::{PROGRAM, Printed, finish_within};

/// Longest wait for a callback, in seconds, and longest run: long, for a busy machine.
const WAIT: &str = "60";
const RUN: Duration = Duration::from_secs(300);

/// The payer's, the payee's and the hub's keys.
fn keys() -> Keys {
    Keys::new(&["rsa", "ec", "rsa"].map(|key| [pem(key, "private"), pem(key, "public")]))
}

/// The exit code and the results of a run against `payeebank`.
fn run(target: &str, address: SocketAddr, callbacks: &ReservedPort, more: &[&str]) -> (i32, Value) {
    let mut command = Command::new(PROGRAM);
    command.args(["conformance", "--json", "--dfsp", "payeebank", "--party", "MSISDN/222"]);
    command.args(["--unknown", "404", "--wait", WAIT, target, &format!("http://{address}")]);
    command.args(["--listen", &callbacks.address.to_string()]).args(more);
    let output = finish_within(command, RUN);
    (output.status.code().unwrap(), output.json())
}

/// The names of the checks with a result.
fn names(results: &Value, result: &str) -> Vec<String> {
    let checks = results["checks"].as_array().unwrap();
    let found = checks.iter().filter(|check| check["result"] == result);
    found.map(|check| check["check"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn our_adapter_passes_all_checks() {
    let (keys, callbacks) = (keys(), ReservedPort::new());
    let bank = Bank::start("payeebank", callbacks.address, &keys.bank("payeebank"), None);
    let (key, public) = (keys.private("payerbank"), keys.public());
    let more = ["--as", "payerbank", "--signing-key", key.to_str().unwrap()];
    let more = [&more[..], &["--keys", public.to_str().unwrap()]].concat();
    let (code, results) = run("--url", bank.fspiop(), &callbacks, &more);
    assert_eq!((code, names(&results, "failed")), (0, vec![]), "{results:#}");
    assert_eq!(names(&results, "skipped"), [""; 0], "{results:#}");
    bank.stop(Signal::TERM);
}

/// The faults of each bank are found, and no others.
#[test]
fn faulty_banks_fail_in_the_right_rows() {
    let keys = keys();
    let key = keys.private("payerbank");
    let key = ["--as", "payerbank", "--signing-key", key.to_str().unwrap()];
    let unchecked = "check_ilp = false";
    let wrong = ["wrong-condition", "wrong-amount", "unsigned", "tampered"];
    for (flow, more, failed, skipped) in [
        (unchecked, &key[..], &wrong[..], 0),
        // The back end refuses to quote 77.
        ("", &["--amount", "77"][..], &["quote"][..], 9),
    ] {
        let callbacks = ReservedPort::new();
        let bank = Bank::start("payeebank", callbacks.address, flow, None);
        let (code, results) = run("--url", bank.fspiop(), &callbacks, more);
        assert_eq!((code, names(&results, "failed")), (1, owned(failed)), "{results:#}");
        assert_eq!(names(&results, "skipped").len(), skipped, "{results:#}");
        bank.stop(Signal::TERM);
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// A hub operator checks a DFSP as a participant of the hub.
#[test]
fn a_bank_is_checked_through_its_hub() {
    let scheme = Scheme::start("", "");
    let callbacks = ReservedPort::new();
    scheme.admin.onboard("testbank", &format!("http://{}", callbacks.address), "1000", "1000");
    let (code, results) = run("--hub", scheme.hub(), &callbacks, &["--as", "testbank"]);
    let passed = ["party", "quote", "transfer", "wrong-condition", "wrong-amount", "no-quote"];
    assert_eq!((code, names(&results, "passed")), (0, owned(&passed)), "{results:#}");
    assert_eq!(scheme.admin.position("testbank"), "10");
    scheme.end();
}
