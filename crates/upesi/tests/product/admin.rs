//! The admin port, the listener for probes and the signals: silent clients, invalid ids, addresses
//! that are not for participants, ignored signals.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use fspiop::percent_encode;
use openapi::generate;
use rustix::process::Signal;
use serde_json::Value;
use testkit::http::{Connection, PATIENCE, Response};

use crate::documents::printed;
use crate::operations::assert_refuses;
use crate::support::fsp::Fsp;
use crate::support::message::Message;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, PROGRAM, Ports, finish};

/// Polling interval.
const GLANCE: Duration = Duration::from_millis(5);
/// A listener for probes on a free port.
const PROBES: &str = "[health]\nlisten = \"127.0.0.1:0\"\n";

fn health(arguments: &[&str]) -> bool {
    let mut command = Command::new(PROGRAM);
    command.arg("health").args(arguments);
    finish(command).status.success()
}

#[test]
fn silent_connections_lock_out_neither_operators_nor_probes() {
    let home = Home::configured(PROBES);
    let switch = home.serve();
    let (admin, probes) = (switch.admin, switch.probes());
    let body = "PUT /participants/Hub HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n";
    let body = format!("{body}authorization: Bearer {}\r\n\r\n{{", home.token());
    let mut silent = Vec::new();
    for sent in ["", "GET /hea", &body] {
        for address in [admin, probes] {
            for _ in 0..300 {
                let mut stream = TcpStream::connect(address).unwrap();
                // A connection that was already closed is accepted, too.
                let _written = stream.write_all(sent.as_bytes());
                silent.push(stream);
            }
        }
        assert!(health(&["--alive", "--admin", &format!("http://{admin}")]), "{sent:?}");
        assert!(health(&["--health", &format!("http://{probes}")]), "{sent:?}");
        Admin::new(&home, &switch).must("PUT", "/participants/Hub", "{\"isActive\":true}", 200);
    }
    assert!(200 < Admin::new(&home, &switch).metric("upesi_admin_connections_evicted_total"));
    drop(silent);
    switch.stop(Signal::TERM);
}

#[test]
fn probes_have_a_separate_listener_or_none() {
    let home = Home::configured(PROBES);
    let switch = home.serve();
    let get = |path: &str| {
        let mut connection = Connection::open(switch.probes()).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: any.example\r\n\r\n");
        connection.exchange(request.as_bytes()).unwrap().status
    };
    let paths = ["/live", "/startup", "/ready", "/health", "/metrics", "/participants"];
    assert_eq!(paths.map(get), [200, 200, 200, 200, 404, 404]);
    let taken = format!("[health]\nlisten = \"{}\"\n", switch.probes());
    let address = switch.probes().to_string();
    let in_vain = Home::configured(&taken).serve_in_vain(Ports::free());
    assert_refuses(&in_vain, &["health probes", &address, "in use"]);
    switch.stop(Signal::TERM);

    // If the admin API is not at its default address, there is no listener for probes unless
    // configured.
    let plain = Home::new().serve();
    assert!(!plain.greeting.contains("health probes"), "{}", plain.greeting);
    let asked = Home::new().with_arguments(&["--health", "127.0.0.1:0"]).serve();
    assert!(health(&["--health", &format!("http://{}", asked.probes())]));
}

/// Every sync takes 2 s, also those of a start.
#[test]
fn probes_are_answered_while_the_switch_starts() {
    let probes = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let slow = ["--health", &probes.to_string(), "--inject-sync-delay-us", "2000000"];
    let home = Home::new().with_arguments(&slow);
    let get = move |path: &str| {
        let mut connection = Connection::open(probes).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: any.example\r\n\r\n");
        Some(connection.exchange(request.as_bytes()).ok()?.text())
    };
    let starting = std::thread::spawn(move || {
        let deadline = Instant::now() + PATIENCE;
        while get("/live").is_none() {
            assert!(Instant::now() < deadline, "no probe is answered");
            std::thread::sleep(GLANCE);
        }
        ["/live", "/startup", "/ready", "/health"].map(|path| get(path).unwrap())
    });
    let switch = home.serve();
    let [well, starting_is] = [r#"{"status":"OK"}"#, r#"{"status":"STARTING"}"#];
    assert_eq!(starting.join().unwrap(), [well, starting_is, starting_is, starting_is]);
    assert_eq!(["/live", "/startup", "/ready"].map(|path| get(path).unwrap()), [well; 3]);
    switch.stop(Signal::TERM);
}

/// Every sync takes 2 s, also those of a start.
#[test]
fn hangup_has_no_effect_on_a_starting_switch() {
    let probes = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let slow = ["--health", &probes.to_string(), "--inject-sync-delay-us", "2000000"];
    let home = Home::new().with_arguments(&slow);
    let mut switch = home.starting();
    // Ports are bound first, so a probe may be accepted before it is answered.
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(probes).is_err() {
        assert!(Instant::now() < deadline, "it does not start");
        std::thread::sleep(GLANCE);
    }
    switch.signal(Signal::HUP);
    switch.wait_for_messages("ignored: the switch is starting signal=\"SIGHUP\"", 1);
    assert!(switch.is_ready(), "{}", switch.messages());
    switch.signal(Signal::HUP);
    switch.wait_for_messages("reloaded the configuration on SIGHUP", 1);
    switch.stop(Signal::TERM);
}

#[test]
fn ignored_signals_have_no_effect_and_quit_stops_cleanly() {
    let home = Home::new();
    let switch = home.serve();
    let signals = [
        (Signal::HUP, "reloaded the configuration on SIGHUP"),
        (Signal::USR1, "it has no effect on the switch signal=\"SIGUSR1\""),
        (Signal::USR2, "it has no effect on the switch signal=\"SIGUSR2\""),
        (Signal::ALARM, "it has no effect on the switch signal=\"SIGALRM\""),
        (Signal::IO, "it has no effect on the switch signal=\"SIGIO\""),
        (Signal::HUP, "reloaded the configuration on SIGHUP"),
    ];
    for (at, (signal, logged)) in signals.into_iter().enumerate() {
        switch.signal(signal);
        let deadline = Instant::now() + PATIENCE;
        let expected = signals[..=at].iter().filter(|(_, other)| *other == logged).count();
        let is_logged = |line: &&str| line.contains(" INFO ") && line.ends_with(logged);
        while switch.messages().lines().filter(is_logged).count() < expected {
            assert!(Instant::now() < deadline, "{logged} is not logged: {}", switch.messages());
            std::thread::sleep(GLANCE);
        }
        assert_eq!(Admin::new(&home, &switch).call("GET", "/health", "").status, 200);
    }
    switch.signal(Signal::QUIT);
    let (status, output_text) = switch.end();
    assert!(status.success(), "{status}: {output_text}");
    assert!(home.verify().status.success());
}

/// Path segments that are not valid ids.
fn wrong_ids() -> Vec<String> {
    let mut ids: Vec<String> = [
        "nobody",
        "0",
        "-1",
        "+1",
        "1.5",
        "4294967295",
        "4294967296",
        "18446744073709551615",
        "99999999999999999999999999",
        "..",
        "%2e%2e",
        "%00",
        "%0d%0a",
        "%20",
        "a%2Fb",
        "%2F",
        "%ff",
        "%c3%28",
        "%C3%A9",
        "%",
        "%4",
        "%zz",
        "%7B%7D",
        "%27%3B--",
        "null",
        "*",
        "~",
        "b51ec534-ee48-4575-b6a9-ffffffffffff",
        "B51EC534-EE48-4575-B6A9-FFFFFFFFFFFF",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ]
    .map(str::to_owned)
    .to_vec();
    ids.extend([31, 129, 300, 5_000].map(|length| "x".repeat(length)));
    ids
}

/// Documented operations that accept an unknown id without an error.
const LENIENT: [(&str, &str); 7] = [
    ("deleteOracle", "{id}"),
    ("findParty", "{ID}"),
    ("listPartyFsps", "{ID}"),
    ("releaseParty", "{ID}"),
    ("endDryRun", "{name}"),
    // These create the named object.
    ("setOperator", "{name}"),
    ("setRole", "{role}"),
];

/// The example messages of the served operations, with an id in place of one path parameter, and
/// whether they must be refused.
fn with_id(document: &Value, id: &str) -> Vec<(generate::ExampleMessage, bool)> {
    let mut all = generate::operations(document);
    all.retain(|entry| entry.operation["responses"].get("501").is_none());
    // Explanations first, since later refusals are recorded and explained; what creates last.
    let place = |id| match id {
        "explainTransfer" | "listMessages" => 0,
        "setOperator" | "setRole" => 2,
        _ => 1,
    };
    all.sort_by_key(|entry| place(entry.id));
    let mut found = Vec::new();
    for entry in all {
        for (at, name) in entry.path.split('/').enumerate().filter(|(_, it)| it.starts_with('{')) {
            let mut segments: Vec<_> = entry.good.path.split('/').collect();
            segments[at] = id;
            let message =
                generate::ExampleMessage { path: segments.join("/"), ..entry.good.clone() };
            found.push((message, !LENIENT.contains(&(entry.id, name))));
        }
    }
    found
}

/// A refusal has an error body, and no response is a server error.
fn assert_no_fault(answer: &Response, request: &str, refused: bool) {
    let (status, text) = (answer.status, answer.text());
    let request: String = request.chars().take(200).collect();
    // A missing window is a 500 of the reference, with this text.
    if status == 500 && text.contains("2001") && text.contains("No record for settlementWindowId") {
        return;
    }
    assert!(status < 500, "{request}: {status} {text}");
    assert!(!refused || 400 <= status, "{request}: {status} {text}");
    let is_error = text.starts_with("{\"errorInformation\":{\"errorCode\":\"3");
    assert!(status < 400 || is_error, "{request}: {status} {text}");
}

#[test]
fn invalid_id_is_a_client_error() {
    let scheme = Scheme::start();
    let before = scheme.admin.get("/participants");
    let [admin, fspiop] =
        ["admin", "fspiop"].map(|api| serde_json::from_str(&printed(api)).unwrap());
    for id in wrong_ids() {
        for (generate::ExampleMessage { method, path, body, .. }, refused) in with_id(&admin, &id) {
            let body = body.map_or(String::new(), |(_, text)| text);
            let answer = scheme.admin.call(&method, &path, &body);
            assert_no_fault(&answer, &format!("{method} {path}"), refused);
        }
        for (generate::ExampleMessage { method, path, .. }, _) in with_id(&fspiop, &id) {
            let message = Message::new(&method, &path, "payerfsp").body("{}");
            assert_no_fault(&scheme.ask(&message), &format!("{method} {path}"), false);
        }
    }
    assert_eq!(scheme.admin.get("/participants"), before);
    scheme.switch.stop(Signal::TERM);
}

/// Existing objects, which the reference reports by 500, 2001, and a missing window.
const FAULTS_OF_THE_REFERENCE: [&str; 3] =
    ["already set", "an oracle of this type and currency already exists", "No record for"];

/// Ids for queries and bodies.
const WRONG_IDS: [&str; 8] = [
    "stranger",
    "0",
    "-1",
    "18446744073709551616",
    "1e999",
    "\u{0}\n\"",
    "b51ec534-ee48-4575-b6a9-ffffffffffff",
    "9999-99-99T99:99:99.999Z",
];

/// The example messages of the served operations, with an id in place of one parameter of the query
/// or one value of the body.
fn with_id_elsewhere(document: &Value, id: &str) -> Vec<generate::ExampleMessage> {
    let mut found = Vec::new();
    for entry in generate::operations(document) {
        if entry.operation["responses"].get("501").is_some() {
            continue;
        }
        let parameters = entry.operation["parameters"].as_array().into_iter().flatten();
        for parameter in parameters.filter(|it| it["in"] == "query") {
            let path = entry.good.path.split('?').next().unwrap_or_default();
            let name = parameter["name"].as_str().unwrap();
            let path = format!("{path}?{name}={}", percent_encode(id));
            found.push(generate::ExampleMessage { path, ..entry.good.clone() });
        }
        let Some((media, text)) = &entry.good.body else { continue };
        let body: Value = serde_json::from_str(text).unwrap();
        let is_number = id.parse::<f64>().is_ok_and(f64::is_finite);
        let values = [Some(Value::from(id)), is_number.then(|| id.parse().unwrap())];
        for value in values.into_iter().flatten() {
            for body in with_value(&body, &value) {
                let body = Some((media.clone(), body.to_string()));
                found.push(generate::ExampleMessage { body, ..entry.good.clone() });
            }
        }
    }
    found
}

/// The JSON with another value in place of each of its texts and numbers.
fn with_value(json: &Value, value: &Value) -> Vec<Value> {
    match json {
        Value::Object(members) => {
            let member = |(name, member): (&String, &Value)| {
                let replaced = |changed| {
                    let mut members = members.clone();
                    members.insert(name.clone(), changed);
                    Value::Object(members)
                };
                with_value(member, value).into_iter().map(replaced).collect::<Vec<_>>()
            };
            members.iter().flat_map(member).collect()
        }
        Value::Array(items) => {
            let first = items.first().map(|item| with_value(item, value));
            first.into_iter().flatten().map(|item| Value::Array(vec![item])).collect()
        }
        Value::String(_) | Value::Number(_) => vec![value.clone()],
        Value::Bool(_) | Value::Null => Vec::new(),
    }
}

#[test]
fn invalid_id_in_a_query_or_body_is_no_server_error() {
    let scheme = Scheme::start();
    let [admin, fspiop] =
        ["admin", "fspiop"].map(|api| serde_json::from_str(&printed(api)).unwrap());
    let check = |answer: &Response, message: &generate::ExampleMessage| {
        let (status, text) = (answer.status, answer.text());
        let is_known = status == 500 && FAULTS_OF_THE_REFERENCE.iter().any(|it| text.contains(it));
        assert!(status < 500 || is_known, "{message:?}: {status} {text}");
    };
    let mut count = 0;
    for id in WRONG_IDS {
        for message in with_id_elsewhere(&admin, id) {
            count += 1;
            let body = message.body.as_ref().map_or("", |(_, text)| text);
            check(&scheme.admin.call(&message.method, &message.path, body), &message);
        }
        for message in with_id_elsewhere(&fspiop, id) {
            let body = message.body.clone().map_or(String::new(), |(_, text)| text);
            let sent = Message::new(&message.method, &message.path, "payerfsp").body(body);
            check(&scheme.ask(&sent.to("payeefsp")), &message);
        }
    }
    assert!(500 < count, "{count} messages to the admin API");
    scheme.switch.stop(Signal::TERM);
}

fn endpoint(kind: &str, value: &str) -> String {
    format!("{{\"type\":\"FSPIOP_CALLBACK_URL_{kind}\",\"value\":\"{value}\"}}")
}

/// A switch that is reachable from other machines does not call local addresses, under any name.
#[test]
fn loopback_participants_require_a_switch_on_loopback() {
    let everywhere = Ports { fspiop: SocketAddr::from(([0, 0, 0, 0], 0)), ..Ports::free() };
    let home = Home::new();
    let switch = home.serve_on(everywhere);
    let admin = Admin::new(&home, &switch);
    let secret = Fsp::start("secret");
    let port = secret.address().port();
    admin.prepare_hub();
    for name in ["payerfsp", "payeefsp"] {
        // A name whose address only the system's resolver recognizes.
        admin.onboard(name, &format!("http://127.1:{port}"), "1000", "1000");
    }
    for (value, named) in [
        (format!("http://127.0.0.1:{port}/"), "endpoints.networks"),
        (format!("http://localhost:{port}/"), "endpoints.networks"),
        (format!("http://[::1]:{port}/"), "endpoints.networks"),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), "endpoints.networks"),
        ("http://169.254.169.254/latest".to_owned(), "never called"),
        (format!("http://0.0.0.0:{port}/"), "never called"),
        (format!("http://{}/", switch.admin), "listener of the hub"),
        (format!("http://127.0.0.1:{}/", switch.fspiop.port()), "listener of the hub"),
    ] {
        let answer =
            admin.call("POST", "/participants/payeefsp/endpoints", &endpoint("QUOTES", &value));
        assert_eq!(answer.status, 400, "{value}");
        let text = answer.text();
        assert!(text.contains("\\\"value\\\"") && text.contains(named), "{value}: {text}");
        let oracle = format!(
            "{{\"oracleIdType\":\"IBAN\",\"endpoint\":{{\"value\":\"{value}\",\
            \"endpointType\":\"URL\"}}}}"
        );
        assert_eq!(admin.call("POST", "/oracles", &oracle).status, 400, "{value}");
    }
    let message = Message::new("GET", "/parties/MSISDN/1", "payerfsp").to("payeefsp");
    let fspiop = SocketAddr::from(([127, 0, 0, 1], switch.fspiop.port()));
    let mut connection = Connection::open(fspiop).unwrap();
    assert_eq!(connection.exchange(&message.render()).unwrap().status, 202);
    admin.wait_for("upesi_calls_denied_total", |denied| 0 < denied);
    assert!(secret.received().is_empty(), "nothing was called");
    switch.signal(Signal::TERM);
    assert!(switch.end().0.success());

    // The operator can allow it.
    let named = Home::configured("[endpoints]\nnetworks = [\"127.0.0.0/8\"]\n");
    let switch = named.serve_on(everywhere);
    let admin = Admin::new(&named, &switch);
    admin.prepare_hub();
    let fsp = Fsp::start("payerfsp");
    admin.onboard("payerfsp", &format!("http://{}", fsp.address()), "1000", "1000");
    let own = endpoint("QUOTES", &format!("http://{}/", switch.admin));
    assert_eq!(admin.call("POST", "/participants/payerfsp/endpoints", &own).status, 400);
}
