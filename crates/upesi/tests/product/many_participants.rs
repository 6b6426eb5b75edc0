//! A scheme of as many participants as the hub can have: the metrics stay within their bound.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use rustix::process::Signal;
use testkit::http::Connection;
use testkit::server::{Reply, Server};

use crate::support::fsp::{Callback, serve};
use crate::support::message::{Message, Transfer};
use crate::support::scheme::Admin;
use crate::support::switch::{Home, Switch};

/// All participants but the hub.
const PARTICIPANTS: usize = 9_999;
/// Participants that are called: more than have series of their own.
const CALLED: usize = 700;
/// Participants with series of their own, the hub among them.
const SHOWN_MAX: usize = 500;
/// `docs/operating/metrics.md` states the measured size.
const SCRAPE_BYTES_MAX: usize = 12 << 20;
/// Clients that onboard participants at the same time. Each batch of changes costs a copy of the
/// register.
const CLIENTS: usize = 48;

/// Name of a participant, from 0. The second one has the name of the series that several share.
fn name(number: usize) -> String {
    match number {
        0 => "payerfsp".to_owned(),
        1 => "other".to_owned(),
        number => format!("fsp{number}"),
    }
}

fn onboard_all(home: &Home, switch: &Switch, server: &Server) {
    let admin = Admin::new(home, switch);
    admin.prepare_hub();
    admin.onboard(&name(0), &format!("http://{}", server.address()), "100000", "50000");
    onboard(&admin, 1, server);
    std::thread::scope(|threads| {
        for first in 2..2 + CLIENTS {
            threads.spawn(move || {
                let admin = Admin::new(home, switch);
                (first..PARTICIPANTS).step_by(CLIENTS).for_each(|it| onboard(&admin, it, server));
            });
        }
    });
}

fn onboard(admin: &Admin, number: usize, server: &Server) {
    let name = name(number);
    let body = format!("{{\"name\":\"{name}\",\"currency\":\"USD\"}}");
    admin.must("POST", "/participants", &body, 201);
    if CALLED <= number {
        return;
    }
    let body = "{\"currency\":\"USD\",\"limit\":{\"type\":\"NET_DEBIT_CAP\",\"value\":1000}}";
    admin.must("POST", &format!("/participants/{name}/initialPositionAndLimits"), body, 201);
    let base = format!("http://{}", server.address());
    for (kind, path) in [("TRANSFER_POST", "/transfers"), ("PARTIES_GET", "/parties")] {
        admin.set_endpoint(&name, kind, &format!("{base}{path}"));
    }
}

/// A transfer and a look-up for each participant that is called.
fn call_each(switch: &Switch) {
    let mut connection = Connection::open(switch.fspiop).unwrap();
    for number in 1..CALLED {
        let transfer = Transfer { payee: name(number), ..Transfer::of("1") };
        let look_up = Message::new("GET", "/parties/MSISDN/1", "payerfsp").to(&name(number));
        for message in [transfer.prepare(), look_up] {
            assert_eq!(connection.exchange(&message.render()).unwrap().status, 202);
        }
    }
}

/// The value of the label `participant` in a line of metrics.
fn participant(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("participant=\"")?;
    Some(rest.split_once('"')?.0)
}

/// Each series of a scrape and its value.
fn series(text: &str) -> BTreeMap<&str, f64> {
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let earlier = found.insert(series, value.parse().unwrap());
        assert_eq!(earlier, None, "{series} occurs twice");
    }
    found
}

#[test]
fn metrics_of_ten_thousand_participants_are_bounded() {
    let home = Home::new();
    let switch = home.serve();
    let server = serve(|_: &Callback| Reply::Accept);
    onboard_all(&home, &switch, &server);
    let admin = Admin::new(&home, &switch);
    let one_more = admin.call("POST", "/participants", r#"{"name":"late","currency":"USD"}"#);
    assert!(one_more.text().contains("the registry is full"), "{}", one_more.text());
    call_each(&switch);
    admin.wait_for("upesi_notices_owed", |owed| owed == 0);
    let committed = |text: &str| {
        let all = series(text);
        let sum = |name: &str| -> f64 {
            let own = all.iter().filter(|(it, _)| it.starts_with(&format!("{name}{{")));
            own.map(|(_, value)| value).sum()
        };
        (sum("upesi_position"), sum("upesi_forward_seconds_count"))
    };
    let expected = (CALLED as f64 - 1.0, CALLED as f64 - 1.0);
    let deadline = Instant::now() + testkit::http::PATIENCE;
    // Positions are copied once a second.
    while committed(&admin.get("/metrics")) != expected {
        assert!(Instant::now() < deadline, "{:?}", committed(&admin.get("/metrics")));
    }

    let began = Instant::now();
    let text = admin.get("/metrics");
    let took = began.elapsed();
    let shown: BTreeSet<_> = text.lines().filter_map(participant).collect();
    println!("{} participants, {} bytes, {took:?}", shown.len(), text.len());
    assert_eq!(shown.len(), SHOWN_MAX + 1, "the first {SHOWN_MAX}, and all others together");
    assert!(shown.contains("other") && shown.contains("other (participant)"));
    assert!(!shown.contains("fsp9000"));
    assert!(text.len() < SCRAPE_BYTES_MAX, "{} bytes", text.len());
    switch.stop(Signal::TERM);
}
