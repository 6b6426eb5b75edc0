//! Events of a running switch: pages, positions, the same events after a crash and a snapshot, and
//! `upesi events`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::http::PATIENCE;

use crate::mojaloop_metrics::answered_quote;
use crate::support::message::Transfer;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{PROGRAM, Printed, finish};

/// A page of events.
fn page(admin: &Admin, after: &str, more: &str) -> Value {
    admin.json(&format!("/events?after={after}{more}"))
}

/// All events up to the end of the log, in pages of `limit`.
pub(crate) fn all(admin: &Admin, limit: usize) -> Vec<Value> {
    let (mut after, mut events) = ("0".to_owned(), Vec::new());
    loop {
        let page = page(admin, &after, &format!("&limit={limit}"));
        events.extend(page["events"].as_array().unwrap().iter().cloned());
        let next = page["next"].as_str().unwrap().to_owned();
        if next == after {
            return events;
        }
        after = next;
    }
}

/// Whether an event is the result of a delivery. A prepare is withdrawn if the fulfilment is faster.
fn is_result(of_type: &str) -> bool {
    let result = of_type.strip_prefix("notification.");
    result.is_some_and(|result| !["owed", "resent"].contains(&result))
}

/// The types of the events of a transfer, without those of deliveries, which are recorded later.
fn types_of(events: &[Value], transfer: &Transfer) -> Vec<String> {
    let is_about = |event: &&Value| event["data"]["transferId"] == transfer.id.as_str();
    let of_type = |event: &Value| event["type"].as_str().unwrap().replace("upesi.", "");
    let types = events.iter().filter(is_about).map(of_type);
    types.filter(|name| !is_result(name)).collect()
}

fn command(scheme: &Scheme, line: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    let token = scheme.home.data().join("admin-token");
    command.arg("events").args(line.split_whitespace());
    command.args(["--admin", &format!("http://{}", scheme.switch.admin), "--token"]).arg(token);
    finish(command)
}

#[test]
fn events_are_the_same_after_a_kill_and_from_a_snapshot() {
    let mut scheme = Scheme::start();
    let committed = scheme.pay("30.5");
    let refused = Transfer::of("99999999");
    scheme.send(&refused.prepare(), 202);
    let aborted = Transfer::of("7");
    scheme.send(&aborted.prepare(), 202);
    scheme.send(&aborted.error("5000", "No"), 200);
    scheme.wait_until_delivered();
    let events = all(&scheme.admin, 1_000);
    assert_eq!(all(&scheme.admin, 3), events, "pages of any size");
    let ids: BTreeSet<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), events.len(), "each id is unique");

    let started = ["transfer.reserved", "position.changed", "notification.owed"];
    let ended = ["transfer.committed", "position.changed", "notification.owed"];
    let expected = [started, ended, ["notification.owed"; 3]].concat();
    assert_eq!(types_of(&events, &committed), expected[..7]);
    assert_eq!(types_of(&events, &refused), ["transfer.refused", "notification.owed"]);
    assert_eq!(types_of(&events, &aborted)[3..5], ["transfer.aborted", "position.changed"]);
    let is_committed = |event: &&Value| event["type"] == "upesi.transfer.committed";
    let event = events.iter().find(is_committed).unwrap();
    assert_eq!(event["data"]["amount"], "30.5");
    assert_eq!(event["data"]["payerFsp"], "payerfsp");
    assert_eq!(event["specversion"], "1.0");
    let text = json!(events).to_string();
    assert!(!text.contains("127.0.0.1"), "no address of an operator: {text}");

    scheme.admin.must("POST", "/snapshots", "", 202);
    scheme.admin.wait_for("upesi_snapshots_taken_total", |taken| 0 < taken);
    scheme.switch.kill();
    scheme.switch = scheme.home.serve();
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    let later = scheme.pay("1");
    scheme.wait_until_delivered();
    let again = all(&scheme.admin, 100);
    assert_eq!(again[..events.len()], events);
    assert_eq!(types_of(&again, &later)[..3], started);
    let is_delivery = |event: &&Value| {
        event["data"]["attempts"].is_u64() && event["data"]["transferId"] == committed.id.as_str()
    };
    assert_eq!(again.iter().filter(is_delivery).count(), 3, "each delivery once");
    // From the snapshot.
    let last = again[events.len() - 1]["id"].as_str().unwrap();
    let rest = page(&scheme.admin, last, "&limit=1000");
    assert_eq!(rest["events"].as_array().unwrap()[..], again[events.len()..]);
    scheme.end();
}

#[test]
fn kinds_are_chosen_and_wrong_parameters_are_refused() {
    let scheme = Scheme::start();
    scheme.pay("1");
    scheme.wait_until_delivered();
    let found = page(&scheme.admin, "0", "&kind=transfers,settlement");
    let types: Vec<&Value> =
        found["events"].as_array().unwrap().iter().map(|event| &event["type"]).collect();
    let expected = ["upesi.window.open", "upesi.transfer.reserved", "upesi.transfer.committed"];
    assert_eq!(types, expected);
    for (query, text) in [
        ("after=x", "\"after\" must be a record number, or the id of an event"),
        ("after=01", "\"after\" must be a record number"),
        ("after=999999", "\"after\" is after the last record of the log, "),
        ("limit=0", "\"limit\" must be an integer from 1 to 1000"),
        ("kind=parties", "\"kind\" must be of transfers, funds, positions"),
        ("kind=", "\"kind\" must be of transfers"),
    ] {
        let answer = scheme.admin.call("GET", &format!("/events?{query}"), "");
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
        let error: Value = serde_json::from_str(&answer.text()).unwrap();
        let description = error["errorInformation"]["errorDescription"].as_str().unwrap();
        assert!(description.contains(text), "{query}: {description}");
    }

    let lines = command(&scheme, "--kind transfers").succeeds().out();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.contains("upesi.transfer.reserved"), "{lines}");
    let first = command(&scheme, "--json --limit 1 --kind transfers").succeeds().json();
    assert_eq!(first["type"], "upesi.transfer.reserved");
    let id = first["id"].as_str().unwrap();
    let next = command(&scheme, &format!("--json --kind transfers --after {id}")).succeeds().json();
    assert_eq!(next["type"], "upesi.transfer.committed");
    let wrong = command(&scheme, "--after 1.0").fails();
    assert!(wrong.contains("expected a record, or the id of an event"), "{wrong}");
    scheme.end();
}

/// The server-sent events of a response that does not end.
struct Followed {
    stream: BufReader<TcpStream>,
}

impl Followed {
    fn open(scheme: &Scheme, headers: &str) -> Self {
        let mut stream = TcpStream::connect(scheme.switch.admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let token = scheme.home.token();
        let head = format!(
            "GET /events?kind=transfers HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \
             {token}\r\naccept: text/event-stream\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The next events, as values.
    fn take(&mut self, count: usize) -> Vec<Value> {
        let mut found = Vec::new();
        while found.len() < count {
            if let Some(data) = self.line().strip_prefix("data: ") {
                found.push(serde_json::from_str(data).unwrap());
            }
        }
        found
    }
}

#[test]
fn clients_follow_the_events_as_they_happen() {
    let scheme = Scheme::start();
    scheme.pay("1");
    let mut followed = Followed::open(&scheme, "");
    assert_eq!(followed.line(), "HTTP/1.1 200 OK");
    let mut events = followed.take(2);
    scheme.pay("2");
    events.extend(followed.take(2));
    let listed = page(&scheme.admin, "0", "&kind=transfers&limit=1000");
    assert_eq!(json!(events), listed["events"]);
    let id = events[1]["id"].as_str().unwrap();
    let mut resumed = Followed::open(&scheme, &format!("last-event-id: {id}\r\n"));
    assert_eq!(resumed.take(2), events[2..]);
    let wrong = Followed::open(&scheme, "last-event-id: x\r\n").line();
    assert_eq!(wrong, "HTTP/1.1 400 Bad Request");

    let mut others: Vec<_> = (0..6).map(|_| Followed::open(&scheme, "")).collect();
    for other in &mut others {
        assert_eq!(other.line(), "HTTP/1.1 200 OK");
    }
    let refused = Followed::open(&scheme, "").line();
    assert_eq!(refused, "HTTP/1.1 503 Service Unavailable");
    drop(others);
    drop(followed);
    scheme.pay("3");
    resumed.take(2);
    let lines = command(&scheme, "--follow --json --kind transfers --limit 6").succeeds().out();
    let printed: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(printed[..4], events);
    // The stream ends with the switch.
    scheme.switch.stop(Signal::TERM);
}

#[test]
fn recorded_quotes_have_events_for_those_who_ask() {
    let scheme = Scheme::configured("[quotes]\npersist = true\n");
    let path = answered_quote(&scheme);
    scheme.payer.wait("PUT", &path);
    let all = page(&scheme.admin, "0", "&limit=1000");
    let types = |events: &Value| -> Vec<String> {
        let events = events["events"].as_array().unwrap();
        events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    };
    assert!(!types(&all).iter().any(|name| name.starts_with("upesi.quote.")), "{all}");
    let quotes = page(&scheme.admin, "0", "&kind=quotes");
    // The query is no step.
    assert_eq!(types(&quotes), ["upesi.quote.requested", "upesi.quote.answered"]);
    let [requested, answered] = [0, 1].map(|at| &quotes["events"][at]["data"]);
    for member in ["quoteId", "transactionId", "payerFsp", "payeeFsp"] {
        assert_eq!(requested[member], answered[member], "{member}");
    }
    assert_eq!(requested["payerFsp"], "payerfsp");
    assert_eq!(answered["payeeFsp"], "payeefsp");
    assert_eq!(answered["requestLogIndex"], requested["logIndex"]);
    let lines = command(&scheme, "--kind quotes").succeeds().out();
    assert_eq!(lines.lines().count(), 2, "{lines}");
}

#[test]
fn settlements_and_funds_have_events() {
    let scheme = Scheme::start();
    scheme.pay("5");
    scheme.wait_until_delivered();
    let token = scheme.home.data().join("admin-token");
    let mut run = Command::new(PROGRAM);
    run.args(["settlement", "run", "--admin", &format!("http://{}", scheme.switch.admin)]);
    finish({
        run.arg("--token").arg(&token);
        run
    })
    .succeeds();
    let events = all(&scheme.admin, 1_000);
    let of_kind = |start: &str| -> Vec<String> {
        let types = events.iter().map(|event| event["type"].as_str().unwrap().to_owned());
        types.filter(|name| name.starts_with(start)).collect()
    };
    assert_eq!(
        of_kind("upesi.settlement"),
        [
            "upesi.settlement.pending-settlement",
            "upesi.settlement.ps-transfers-recorded",
            "upesi.settlement.ps-transfers-reserved",
            "upesi.settlement.ps-transfers-committed",
            "upesi.settlement.settled",
        ]
    );
    assert_eq!(
        of_kind("upesi.window"),
        [
            "upesi.window.open",
            "upesi.window.closed",
            "upesi.window.open",
            "upesi.window.pending-settlement",
            "upesi.window.settled",
        ]
    );
    // The last balance of each account is that of the admin API.
    for name in ["payerfsp", "payeefsp"] {
        let is_its = |event: &&Value| {
            event["type"] == "upesi.position.changed"
                && event["data"]["participant"] == name
                && event["data"]["accountType"] == "POSITION"
        };
        let last = events.iter().rev().find(is_its).unwrap();
        assert_eq!(last["data"]["after"], scheme.admin.position(name).as_str(), "{name}");
    }
    assert_eq!(of_kind("upesi.funds"), ["upesi.funds.committed"; 3]);
    fs::metadata(token).unwrap();
    scheme.switch.stop(Signal::TERM);
}
