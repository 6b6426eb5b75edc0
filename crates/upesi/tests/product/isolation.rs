//! Isolation of participants: silent participants delay none of the others, even if all share one
//! address, and operators see them within seconds.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::http::{Connection, PATIENCE};
use testkit::server::{Reply, Server};

use crate::support::fsp::{Callback, Fsp, serve};
use crate::support::message::{Message, Transfer, uuid};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, Switch};

/// Participants that accept messages and never respond.
const SILENT: usize = 8;
/// Maximum number of notices in flight to one participant: `delivery.window`.
const WINDOW: usize = 64;
/// Maximum connections of one I/O thread to one participant for forwarded messages: 3/8 of 512, and
/// fewer while others use many.
const FORWARDS_MAX: usize = 192;
/// The helper thread may get the connections of all requests. It makes half of the attempts to
/// deliver notices, which leaves at least these to one participant.
const FORWARDS_REACHED: usize = 48;
/// I/O threads of the switch.
const THREADS: usize = 3;
/// Enough connections that each I/O thread gets some: the system chooses the thread of each.
const CONNECTIONS: usize = 16;
/// Response timeout that does not expire during a test.
const ENDLESS: &str = "[delivery]\nanswer_timeout_ms = 600000\n";
/// Polling interval.
const GLANCE: Duration = Duration::from_millis(20);

/// Messages by participant: their methods, and the paths after the participant's name.
type ReceivedMessages = BTreeMap<String, Vec<(String, String)>>;

/// A server that represents all participants, like an egress proxy. The path starts with the
/// participant's name.
struct Proxy {
    server: Server,
    received: Arc<(Mutex<ReceivedMessages>, Condvar)>,
}

impl Proxy {
    fn start() -> Self {
        let received: Arc<(Mutex<ReceivedMessages>, Condvar)> = Arc::default();
        let hearing = Arc::clone(&received);
        let server = serve(move |callback: &Callback| {
            let mut parts = callback.path.splitn(3, '/').skip(1);
            let (name, path) = (parts.next().unwrap().to_owned(), parts.next().unwrap().to_owned());
            let reply = if name.starts_with("silent") { Reply::Silence } else { Reply::Accept };
            let mut received = hearing.0.lock().unwrap();
            received.entry(name).or_default().push((callback.method.clone(), path));
            hearing.1.notify_all();
            reply
        });
        Self { server, received }
    }

    fn base(&self, name: &str) -> String {
        format!("http://{}/{name}", self.server.address())
    }

    /// Waits until `holds` is true for the received messages.
    fn wait(&self, what: &str, holds: impl Fn(&ReceivedMessages) -> bool) {
        let received = self.received.0.lock().unwrap();
        let waits = |received: &mut ReceivedMessages| !holds(received);
        let waited = self.received.1.wait_timeout_while(received, PATIENCE, waits);
        let (received, timeout) = waited.unwrap();
        assert!(!timeout.timed_out(), "{what}: {:?}", counts(&received));
    }

    /// Waits until a participant has received this message.
    fn wait_for(&self, name: &str, method: &str, path: &str) {
        let message = (method.to_owned(), path.to_owned());
        self.wait(&format!("{name} hears {method} {path}"), |received| {
            received.get(name).is_some_and(|messages| messages.contains(&message))
        });
    }

    fn count(&self, name: &str, method: &str) -> usize {
        count(&self.received.0.lock().unwrap(), name, method)
    }
}

fn count(received: &ReceivedMessages, name: &str, method: &str) -> usize {
    received.get(name).into_iter().flatten().filter(|(one, _)| one == method).count()
}

fn counts(received: &ReceivedMessages) -> BTreeMap<&str, usize> {
    received.iter().map(|(name, messages)| (&**name, messages.len())).collect()
}

fn silent(number: usize) -> String {
    format!("silent{number}")
}

/// Sends a message on the given connection, which is opened again if the switch closes it.
fn send(connection: &mut Connection, message: &Message) -> u16 {
    connection.exchange_or_reopen(&message.render()).unwrap().status
}

/// A healthy pair makes payments while all silent participants use their limits: the windows of
/// their lanes are full, and there are more look-ups than connections for them.
#[test]
fn silent_participants_of_one_address_delay_no_others() {
    let home = Home::configured(ENDLESS);
    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    admin.prepare_hub();
    let proxy = Proxy::start();
    let names = ["payerfsp", "payeefsp", "otherfsp"].map(str::to_owned);
    for name in names.into_iter().chain((0..SILENT).map(silent)) {
        admin.onboard(&name, &proxy.base(&name), "2000", "2000");
    }
    flood_with_notices(&switch, &proxy);
    flood_with_look_ups(&switch, &proxy);
    for _ in 0..50 {
        pay(&switch, &proxy);
    }
    for number in 0..SILENT {
        let name = silent(number);
        assert_eq!(proxy.count(&name, "POST"), WINDOW, "{name}: no attempt has ended");
    }
    let looked_up = proxy.count(&silent(0), "GET");
    assert!(looked_up <= THREADS * FORWARDS_MAX, "{looked_up} connections for look-ups");
    switch.signal(Signal::TERM);
    let (status, complaints) = switch.end();
    assert!(status.success(), "{complaints}");
}

/// A batch of the largest size.
fn large_batch(sender: &str) -> Vec<u8> {
    let request = uuid();
    let party =
        format!("{{\"partyIdType\":\"MSISDN\",\"partyIdentifier\":\"1\",\"fspId\":\"{sender}\"}}");
    let mut body = format!("{{\"requestId\":\"{request}\",\"partyList\":[{party}]}}");
    body += &" ".repeat(fspiop::BODY_BYTES_MAX - body.len());
    Message::new("POST", "/participants", sender).body(body).render()
}

/// More incomplete messages of one sender than it has memory for.
#[test]
fn incomplete_messages_of_one_sender_leave_memory_for_others() {
    let scheme = Scheme::start();
    let batch = large_batch("payerfsp");
    let incomplete: Vec<_> = (0..8 * THREADS)
        .map(|_| {
            let mut connection = Connection::open(scheme.switch.fspiop).unwrap();
            // The hub may refuse it before it has read everything.
            let _written = connection.write(&batch[..batch.len() - 1]);
            connection
        })
        .collect();
    scheme.admin.wait_for("upesi_requests_refused_total", |refused| 0 < refused);
    for _ in 0..8 * THREADS {
        let mut connection = Connection::open(scheme.switch.fspiop).unwrap();
        assert_eq!(connection.exchange(&large_batch("payeefsp")).unwrap().status, 200);
    }
    drop(incomplete);
    scheme.wait_until_delivered();
    scheme.end();
}

/// More notices to each of them than a window.
fn flood_with_notices(switch: &Switch, proxy: &Proxy) {
    let mut connection = Connection::open(switch.fspiop).unwrap();
    for at in 0..SILENT * (WINDOW + 16) {
        let transfer = Transfer { payer: "otherfsp".into(), ..Transfer::of("1") };
        let transfer = Transfer { payee: silent(at % SILENT), ..transfer };
        assert_eq!(send(&mut connection, &transfer.prepare()), 202);
    }
    proxy.wait("all windows are full", |received| {
        (0..SILENT).all(|number| count(received, &silent(number), "POST") == WINDOW)
    });
}

/// More look-ups on each I/O thread than connections for one participant.
fn flood_with_look_ups(switch: &Switch, proxy: &Proxy) {
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(switch.fspiop).unwrap();
        for number in 0..FORWARDS_MAX {
            let look_up = Message::new("GET", &format!("/parties/MSISDN/{number}"), "otherfsp");
            let status = send(&mut connection, &look_up.to(&silent(0)));
            assert!([202, 503].contains(&status), "{status}");
        }
    }
    proxy.wait("look-ups have most of the connections that they may have", |received| {
        FORWARDS_REACHED <= count(received, &silent(0), "GET")
    });
}

/// A complete transfer and look-up of the healthy pair.
fn pay(switch: &Switch, proxy: &Proxy) {
    let mut connection = Connection::open(switch.fspiop).unwrap();
    let transfer = Transfer::of("1");
    let before = proxy.count("payeefsp", "POST");
    assert_eq!(send(&mut connection, &transfer.prepare()), 202);
    proxy.wait("the payee received the transfer", |received| {
        before < count(received, "payeefsp", "POST")
    });
    assert_eq!(send(&mut connection, &transfer.fulfil("COMMITTED")), 200);
    proxy.wait_for("payerfsp", "PUT", &transfer.path()[1..]);
    let path = format!("parties/MSISDN/{before}");
    let look_up = Message::new("GET", &format!("/{path}"), "payerfsp").to("payeefsp");
    assert_eq!(send(&mut connection, &look_up), 202);
    proxy.wait_for("payeefsp", "GET", &path);
}

fn look_up(number: usize) -> (Message, String) {
    let path = format!("/parties/MSISDN/{number}");
    (Message::new("GET", &path, "payerfsp").to("payeefsp"), path)
}

const UNSENT: &str = "Destination communication error - Failed to send HTTP request to host";
const NOT_ANSWERING: &str = "Destination communication error - The recipient is not answering";

/// Five look-ups in a row are unanswered, and the sixth fails without an attempt.
fn open_the_breaker(scheme: &Scheme) {
    scheme.payee.answer(|_| Reply::Silence);
    let failures: Vec<_> = (0..5).map(|number| failed(scheme, number)).collect();
    assert_eq!(failures, [UNSENT; 5]);
    assert_eq!(failed(scheme, 5), NOT_ANSWERING);
    assert_eq!(scheme.admin.metric("upesi_forward_breakers_open"), 1);
    let page = scheme.admin.json("/health");
    assert_eq!(page["status"], "OK", "{page}");
    assert_eq!(page["openBreakers"]["count"], 1, "{page}");
    let breaker = &page["openBreakers"]["breakers"][0];
    assert_eq!(breaker["participant"], "payeefsp", "{page}");
    assert_eq!(breaker["failures"], 5, "{page}");
}

/// The description in the error callback of a look-up.
fn failed(scheme: &Scheme, number: usize) -> String {
    let (message, path) = look_up(number);
    scheme.send(&message, 202);
    let callback = scheme.payer.wait("PUT", &format!("{path}/error"));
    scheme.payer.take(1);
    let information = &callback.json()["errorInformation"];
    assert_eq!(information["errorCode"], "1001");
    information["errorDescription"].as_str().unwrap().to_owned()
}

/// Look-ups fail at once until a probe finds that the payee responds.
#[test]
fn probe_closes_the_breaker_of_a_recovered_participant() {
    let scheme = Scheme::configured("[delivery]\nanswer_timeout_ms = 300\n");
    open_the_breaker(&scheme);
    let asked = scheme.payee.take(5).len();
    assert_eq!(asked, 5, "the sixth was not sent");
    scheme.payee.answer(|_| Reply::Accept);
    let mut number = 6;
    while scheme.admin.metric("upesi_forward_breakers_open") == 1 {
        scheme.send(&look_up(number).0, 202);
        number += 1;
        assert!(number < 5_000, "no probe is sent");
        std::thread::sleep(GLANCE);
    }
    // Look-ups before the probe failed at once. Later ones are sent.
    let (message, path) = look_up(number);
    scheme.send(&message, 202);
    scheme.payee.wait("GET", &path);
    let sent = scheme.payee.take(2).len();
    let refused = scheme.payer.take(0);
    assert_eq!(sent + refused.len(), number + 1 - 6, "each look-up has one end");
    for callback in refused {
        assert_eq!(callback.json()["errorInformation"]["errorDescription"], NOT_ANSWERING);
    }
    lines_are(&scheme.switch, &["opened: no HTTP answer to several forwards in a row", "closed"]);
}

#[test]
fn response_or_new_address_closes_the_breaker() {
    let scheme = Scheme::configured("[delivery]\nanswer_timeout_ms = 300\n");
    open_the_breaker(&scheme);
    scheme.payee.answer(|_| Reply::Status(503));
    scheme.send(&Transfer::of("1").prepare(), 202);
    scheme.admin.wait_for("upesi_forward_breakers_open", |open| open == 0);
    scheme.payee.answer(|_| Reply::Accept);
    let (message, path) = look_up(7);
    scheme.send(&message, 202);
    scheme.payee.wait("GET", &path);
    scheme.wait_until_delivered();

    open_the_breaker(&scheme);
    let moved = Fsp::start("payeefsp");
    let base = format!("http://{}", moved.address());
    let template = "/parties/{{partyIdType}}/{{partyIdentifier}}";
    scheme.admin.set_endpoint("payeefsp", "PARTIES_GET", &format!("{base}{template}"));
    scheme.admin.wait_for("upesi_forward_breakers_open", |open| open == 0);
    let (message, path) = look_up(8);
    scheme.send(&message, 202);
    moved.wait("GET", &path);
    let opened = "opened: no HTTP answer to several forwards in a row";
    lines_are(&scheme.switch, &[opened, "closed", opened, "closed"]);
}

/// Asserts the switch's log lines about the payee's breaker.
fn lines_are(switch: &Switch, expected: &[&str]) {
    let messages = switch.wait_for_messages("circuit breaker ", expected.len());
    let about = |line: &'_ str| {
        let (_, change) = line.split_once("circuit breaker ")?;
        change.strip_suffix(" participant=\"payeefsp\"").map(str::to_owned)
    };
    let lines: Vec<_> = messages.lines().filter_map(about).collect();
    assert_eq!(lines, expected, "{messages}");
}

/// The payer has sent four transfers of 1.
fn participants_have_gauges(admin: &Admin) {
    let owed = |name: &str| format!("upesi_participant_notices_owed{{participant=\"{name}\"}}");
    admin.wait_for(&owed("payeefsp"), |owed| owed == 3);
    assert_eq!(admin.metric(&owed("otherfsp")), 1);
    assert_eq!(admin.metric(&owed("payerfsp")), 0);
    admin.wait_for("upesi_oldest_notice_seconds", |seconds| 4 <= seconds);
    let text = admin.get("/metrics");
    let value = |name: &str| {
        let start = format!("upesi_{name}{{participant=\"payerfsp\",currency=\"USD\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
        line.parse::<f64>().unwrap()
    };
    assert_eq!(value("position"), 4.0);
    let limit = value("net_debit_cap").min(value("liquidity_cover"));
    assert_eq!(value("liquidity_headroom"), limit - 4.0);
}

/// Lanes of both I/O threads whose participants accept messages and do not respond.
#[test]
fn stalled_lanes_are_listed_counted_and_reported_once_until_they_recover() {
    let scheme = Scheme::configured("[delivery]\nanswer_timeout_ms = 500\n");
    scheme.wait_until_delivered();
    let stalled = || scheme.admin.metric("upesi_lanes_stalled");
    assert_eq!(stalled(), 0);
    let began = Instant::now();
    for (fsp, count) in [(&scheme.payee, 3), (&scheme.other, 1)] {
        fsp.answer(|_| Reply::Silence);
        for _ in 0..count {
            let transfer = Transfer { payee: fsp.name.clone(), ..Transfer::of("1") };
            scheme.send(&transfer.prepare(), 202);
        }
    }
    scheme.admin.wait_for("upesi_lanes_stalled", |stalled| stalled == 2);
    assert!(Duration::from_secs(4) < began.elapsed(), "a lane has some seconds");
    assert_eq!(scheme.admin.metric("upesi_lanes_stalled_notices"), 4);
    participants_have_gauges(&scheme.admin);
    let page = scheme.admin.json("/health");
    assert_eq!(page["status"], "OK", "another start of the hub would help nobody: {page}");
    let lanes = &page["stalledLanes"];
    assert_eq!((&lanes["count"], &lanes["owed"]), (&2.into(), &4.into()), "{page}");
    let shown = ["payeefsp", "otherfsp"].into_iter().zip([3, 1]).enumerate();
    for (at, (name, owed)) in shown {
        let lane = &lanes["lanes"][at];
        assert_eq!((&lane["participant"], &lane["owed"]), (&name.into(), &owed.into()), "{page}");
        assert_eq!(lane["lastAttempt"], "no answer in time", "{page}");
        assert!(5 <= lane["seconds"].as_u64().unwrap(), "{page}");
        assert!(lane["since"].is_string(), "{page}");
    }
    let public = scheme.ask(&Message::new("GET", "/health", "payerfsp"));
    assert_eq!(public.status, 200);
    assert!(!public.text().contains("payeefsp"), "{}", public.text());

    [&scheme.payee, &scheme.other].into_iter().for_each(|fsp| fsp.answer(|_| Reply::Accept));
    scheme.admin.wait_for("upesi_lanes_stalled", |stalled| stalled == 0);
    assert!(!scheme.admin.get("/health").contains("stalledLanes"));
    scheme.wait_until_delivered();
    let messages = scheme.switch.wait_for_messages("lane recovered", 2);
    let lanes: Vec<_> = messages.lines().filter(|line| line.contains(": lane ")).collect();
    for name in ["payeefsp", "otherfsp"] {
        let field = format!("participant={name:?}");
        let lines = lanes.iter().filter(|line| line.contains(&field));
        let words = lines.map(|line| line.split(": lane ").nth(1).unwrap());
        let words: Vec<_> = words.filter_map(|line| line.split([':', ' ']).next()).collect();
        assert_eq!(words, ["stalled", "recovered"], "{messages}");
    }
    let complaints = scheme.switch.complaints();
    assert_eq!(complaints.lines().count(), 2, "nothing else is reported: {complaints}");
}
