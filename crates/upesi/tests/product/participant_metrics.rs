//! Counters by participant, and the access log, of a switch that records no durations.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;
use testkit::http::{Connection, PATIENCE};
use testkit::server::Reply;

use crate::support::message::{Message, Transfer};
use crate::support::scheme::Scheme;
use crate::support::switch::Home;

/// Waits until the metrics have each of these lines.
#[track_caller]
fn wait_for_lines(scheme: &Scheme, expected: &[&str]) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = scheme.admin.get("/metrics");
        let Some(missing) = expected.iter().find(|line| !text.lines().any(|it| it == **line))
        else {
            return text;
        };
        if deadline < Instant::now() {
            let name = missing.split('{').next().unwrap();
            let found: Vec<_> = text.lines().filter(|line| line.starts_with(name)).collect();
            panic!("{missing} is missing: {found:#?}");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn refusals_and_failures_are_counted_by_participant_and_reason() {
    let scheme = Scheme::configured("[metrics]\nhistograms = false\n");
    scheme.payee.answer(|callback| match callback.method.as_str() {
        "POST" => Reply::Status(503),
        _ => Reply::Accept,
    });
    let refused = scheme.ask(&Message::new("GET", "/transfers/%0a", "payerfsp"));
    assert_eq!(refused.status, 400);
    // Without a header that is needed before the sender is known.
    let dateless = Transfer::of("1").prepare().without("date");
    assert_eq!(scheme.ask(&dateless).status, 400);
    let stranger = dateless.with("fspiop-source", "stranger");
    assert_eq!(scheme.ask(&stranger).status, 400);
    // Beyond the cap, and within it.
    scheme.send(&Transfer::of("1500").prepare(), 202);
    scheme.send(&Transfer::of("1").prepare(), 202);
    let text = wait_for_lines(
        &scheme,
        &[
            "upesi_participant_requests_refused_total{participant=\"payerfsp\",code=\"3101\"} 1",
            "upesi_participant_requests_refused_total{participant=\"payerfsp\",code=\"3102\"} 1",
            "upesi_participant_transfers_refused_total\
             {participant=\"payerfsp\",code=\"4200\",reason=\"cap_exceeded\"} 1",
            "upesi_callbacks_failed_total{participant=\"payerfsp\",reason=\"5xx\"} 0",
            "upesi_callbacks_failed_total{participant=\"payeefsp\",reason=\"timeout\"} 0",
        ],
    );
    assert!(!text.contains("stranger"), "{text}");
    let failed = "upesi_callbacks_failed_total{participant=\"payeefsp\",reason=\"5xx\"} ";
    let count = text.lines().find_map(|line| line.strip_prefix(failed)).unwrap();
    assert!(0 < count.parse::<u64>().unwrap(), "{count}");
    let durations = ["upesi_request_seconds", "upesi_callback_seconds"];
    assert!(durations.iter().all(|name| !text.contains(&format!("{name}_count"))), "{text}");
    scheme.switch.signal(Signal::TERM);
    assert!(scheme.switch.end().0.success());
}

#[test]
fn access_log_names_the_stated_sender() {
    let scheme = Scheme::at(Home::configured("[logging]\nformat = \"json\"\naccess = true\n"));
    scheme.send(&Transfer::of("1").prepare(), 202);
    let hostile = format!("x\u{202e}{}", "y".repeat(200));
    for request in [
        Message::new("GET", "/transfers/first", &hostile),
        Message::new("GET", "/transfers/second", "payerfsp").also("host", "other"),
    ] {
        let mut connection = Connection::open(scheme.switch.fspiop).unwrap();
        assert_eq!(connection.exchange(&request.render()).unwrap().status, 400);
    }
    let messages = scheme.switch.wait_for_messages("/transfers/second", 1);
    assert!(!messages.contains('\u{202e}'), "{messages}");
    let of = |path: &str| -> Value {
        let line = messages.lines().find(|line| line.contains(path)).unwrap();
        serde_json::from_str(line).unwrap()
    };
    let prepare = of("\"path\":\"/transfers\"");
    assert_eq!(prepare["source"], "payerfsp", "{prepare}");
    assert_eq!(prepare["trace_id"].as_str().map(str::len), Some(32), "{prepare}");
    let (first, second) = (of("/transfers/first"), of("/transfers/second"));
    let shown = first["source"].as_str().unwrap();
    assert!(shown.starts_with("x\u{202e}yyy") && shown.len() == 64, "{first}");
    assert_eq!(second["source"], "payerfsp", "{second}");
    assert!(first["trace_id"].is_null() && second["trace_id"].is_null(), "{first} {second}");
    scheme.switch.signal(Signal::TERM);
    assert!(scheme.switch.end().0.success());
}
