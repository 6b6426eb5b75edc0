//! Spans of payments reach a real collector.

use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use testkit::server::Reply;

use crate::support::collector::{Collector, Ports, Span, lines};
use crate::support::fsp::Callback;
use crate::support::message::{Message, Transfer, date_time, uuid};
use crate::support::scheme::Scheme;

/// The span of the payer that begins a payment.
const ROOT: &str = "00f067aa0ba902b7";
/// A `tracestate` with the keys of the scheme's test harness.
const STATE: &str = "tx_end2end_start_ts=1700000000000,tx_callback_start_ts=1700000000001";

/// A configuration that traces every payment.
fn settings(protocol: &str, port: u16) -> String {
    settings_with(protocol, port, "ratio = 1.0\n")
}

fn settings_with(protocol: &str, port: u16, more: &str) -> String {
    format!("[traces]\nendpoint = \"http://127.0.0.1:{port}\"\nprotocol = \"{protocol}\"\n{more}")
}

/// The message as part of the trace of a callback.
fn continuing(message: Message, callback: &Callback) -> Message {
    message
        .with("traceparent", &callback.header("traceparent"))
        .with("tracestate", &callback.header("tracestate"))
        .with("baggage", &callback.header("baggage"))
}

/// The message as part of a trace that the payer began.
fn beginning(message: Message, trace: &str) -> Message {
    message
        .with("traceparent", &format!("00-{trace}-{ROOT}-01"))
        .with("tracestate", STATE)
        .with("baggage", "tenant=a")
}

/// Asserts that the state of other vendors is unchanged.
#[track_caller]
fn keeps_state(callback: &Callback) {
    assert_eq!(callback.header("tracestate"), STATE);
    assert_eq!(callback.header("baggage"), "tenant=a");
}

/// A payment with look-up, quote and transfer in one trace. Returns the transfer and the path of the
/// quote.
fn pay(scheme: &Scheme, trace: &str) -> (Transfer, String) {
    let party = "/parties/MSISDN/27713803912";
    let look_up = Message::new("GET", party, "payerfsp").to("payeefsp");
    scheme.send(&beginning(look_up, trace), 202);
    let asked = scheme.payee.wait("GET", party);
    keeps_state(&asked);
    let body = json!({ "party": { "partyIdInfo": { "partyIdType": "MSISDN",
        "partyIdentifier": "27713803912", "fspId": "payeefsp" } } });
    let answer = Message::new("PUT", party, "payeefsp").to("payerfsp").body(body.to_string());
    scheme.send(&continuing(answer, &asked), 200);
    let found = scheme.payer.wait("PUT", party);

    let transfer = Transfer::of("17");
    let asked = {
        let quote = quote(&transfer);
        scheme.send(&continuing(quote, &found), 202);
        scheme.payee.wait("POST", "/quotes")
    };
    let (path, body) = quote_answer(&asked);
    let answer = Message::new("PUT", &path, "payeefsp").to("payerfsp").body(body);
    scheme.send(&continuing(answer, &asked), 200);
    let quoted = scheme.payer.wait("PUT", &path);

    scheme.send(&continuing(transfer.prepare(), &quoted), 202);
    let asked = scheme.payee.wait("POST", "/transfers");
    keeps_state(&asked);
    scheme.send(&continuing(transfer.fulfil("COMMITTED"), &asked), 200);
    let done = scheme.payer.wait("PUT", &transfer.path());
    keeps_state(&done);
    scheme.wait_until_delivered();
    (transfer, path)
}

fn quote(transfer: &Transfer) -> Message {
    let party = |fsp: &str, id: &str| json!({ "partyIdInfo": { "partyIdType": "MSISDN", "partyIdentifier": id, "fspId": fsp } });
    let body = json!({
        "quoteId": uuid(), "transactionId": transfer.id, "amountType": "SEND",
        "payee": party("payeefsp", "27713803912"), "payer": party("payerfsp", "27713803911"),
        "amount": { "currency": "USD", "amount": "17" },
        "transactionType": { "scenario": "TRANSFER", "initiator": "PAYER",
            "initiatorType": "CONSUMER" },
    });
    Message::new("POST", "/quotes", "payerfsp").to("payeefsp").body(body.to_string())
}

/// Path and body of the answer to a quote.
fn quote_answer(asked: &Callback) -> (String, String) {
    let quote: serde_json::Value = serde_json::from_slice(&asked.body).unwrap();
    let path = format!("/quotes/{}", quote["quoteId"].as_str().unwrap());
    let body = json!({
        "transferAmount": { "currency": "USD", "amount": "17" },
        "expiration": date_time(60_000), "ilpPacket": "AYIBgQAAAAAAAASw",
        "condition": "BeZFGxq2RPkY0IpxxIBaJSnr7jhPs8hPedGCgk16Uzc",
    });
    (path, body.to_string())
}

/// Name, and names of all spans above it; `payer` and `payee` for those of participants.
fn paths(spans: &[Span]) -> Vec<String> {
    let by_id: HashMap<_, _> = spans.iter().map(|span| (span.id(), span)).collect();
    let path = |span: &Span| {
        let mut path = span.name().to_owned();
        let mut parent = span.parent();
        while let Some(above) = by_id.get(parent) {
            path = format!("{} > {path}", above.name());
            parent = above.parent();
        }
        assert!(parent.is_empty() || parent == ROOT, "{path}: {parent} is not in the trace");
        path
    };
    let mut all: Vec<_> = spans.iter().map(path).collect();
    all.sort();
    all
}

/// The payee gets a copy of the fulfilment, because of `transfers.confirm_to_payee`.
const PAYMENT: [&str; 19] = [
    "party",
    "party > forward party",
    "party > forward party > party answer",
    "party > forward party > party answer > forward party answer",
    "party > forward party > party answer > forward party answer > quote",
    "party > forward party > party answer > forward party answer > quote > forward quote",
    "... > forward quote > quote answer",
    "... > quote answer > forward quote answer",
    "... > forward quote answer > prepare",
    "... > prepare > append",
    "... > prepare > decide",
    "... > prepare > inbox wait",
    "... > prepare > notify prepare",
    "... > notify prepare > fulfil",
    "... > fulfil > append",
    "... > fulfil > decide",
    "... > fulfil > inbox wait",
    "... > fulfil > notify fulfil",
    "... > fulfil > notify fulfil",
];

#[track_caller]
fn is_whole_payment(spans: &[Span], (transfer, quote): &(Transfer, String)) {
    let mut found = paths(spans);
    found.sort_by_key(|path| path.matches(" > ").count());
    for expected in PAYMENT {
        let is = |path: &String| match expected.strip_prefix("... ") {
            Some(end) => path.ends_with(end),
            None => path == expected,
        };
        let at = found.iter().position(is);
        found.remove(at.unwrap_or_else(|| panic!("no {expected}: {found:#?}")));
    }
    assert_eq!(found, [] as [&str; 0]);
    let all = lines(spans);
    let id = format!("mojaloop.transfer_id={}", transfer.id);
    let quote = format!("mojaloop.quote_id={}", quote.trim_start_matches("/quotes/"));
    for (name, expected) in [
        (
            "forward party",
            "client http.request.method=GET http.response.status_code=202 \
             peer.service=payeefsp server.address=127.0.0.1 \
             url.template=/parties/{Type}/{ID}",
        ),
        (
            "quote",
            "server http.request.method=POST http.response.status_code=202 http.route=/quotes \
             mojaloop.payee_fsp=payeefsp mojaloop.payer_fsp=payerfsp {quote}",
        ),
        (
            "forward quote",
            "client http.request.method=POST http.response.status_code=202 {quote} \
             peer.service=payeefsp server.address=127.0.0.1 url.template=/quotes",
        ),
        (
            "quote answer",
            "server http.request.method=PUT http.response.status_code=200 \
             http.route=/quotes/{ID} mojaloop.payee_fsp=payeefsp mojaloop.payer_fsp=payerfsp \
             {quote}",
        ),
        (
            "forward quote answer",
            "client http.request.method=PUT http.response.status_code=200 {quote} \
             peer.service=payerfsp server.address=127.0.0.1 url.template=/quotes/{ID}",
        ),
        (
            "prepare",
            "server http.request.method=POST http.response.status_code=202 \
             http.route=/transfers mojaloop.payee_fsp=payeefsp mojaloop.payer_fsp=payerfsp \
             mojaloop.state=RESERVED {id}",
        ),
        (
            "decide",
            "internal mojaloop.payee_fsp=payeefsp mojaloop.payer_fsp=payerfsp \
             mojaloop.state=RESERVED {id}",
        ),
        (
            "notify prepare",
            "client http.request.method=POST http.response.status_code=202 \
             mojaloop.payee_fsp=payeefsp mojaloop.state=RESERVED {id} peer.service=payeefsp \
             server.address=127.0.0.1 url.template=/transfers",
        ),
        (
            "fulfil",
            "server http.request.method=PUT http.response.status_code=200 \
             http.route=/transfers/{ID} mojaloop.payee_fsp=payeefsp mojaloop.payer_fsp=payerfsp \
             mojaloop.state=COMMITTED {id}",
        ),
        (
            "notify fulfil",
            "client http.request.method=PUT http.response.status_code=200 \
             mojaloop.payer_fsp=payerfsp mojaloop.state=COMMITTED {id} peer.service=payerfsp \
             server.address=127.0.0.1 url.template=/transfers/{ID}",
        ),
    ] {
        let (kind, tags) = expected.split_once(' ').unwrap();
        let tags = tags.replace("{id}", &id).replace("{quote}", &quote);
        let expected = format!("{name} ({kind}) {tags}");
        assert!(all.contains(&expected), "no {expected}: {all:#?}");
    }
    for span in spans {
        assert!(span.start_us() <= span.end_us(), "{}", span.line());
        assert_eq!(span.resource("service.name"), "upesi");
        assert!(span.resource("service.instance.id").contains(':'));
        // Neither party identifiers nor amounts nor baggage.
        for private in ["27713803912", "27713803911", "17.00", "\"17\"", "USD", "tenant"] {
            assert!(!span.text().contains(private), "{}", span.text());
        }
    }
}

#[test]
fn payment_is_one_trace_over_both_protocols() {
    let collector = Collector::start();
    let Ports { http, grpc } = collector.ports();
    for (protocol, port, trace) in [
        ("http", http, "5af7651916cd43dd8448eb211c80319c"),
        ("grpc", grpc, "6af7651916cd43dd8448eb211c80319c"),
    ] {
        let scheme = Scheme::configured(&settings(protocol, port));
        let payment = pay(&scheme, trace);
        is_whole_payment(&collector.spans(trace, PAYMENT.len()), &payment);
        assert_eq!(scheme.admin.metric("upesi_spans_dropped_total"), 0);
        scheme.end();
    }
}

/// The span with this name; the only one.
#[track_caller]
fn only<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<_> = spans.iter().filter(|span| span.name() == name).collect();
    assert_eq!(found.len(), 1, "{name}: {:#?}", lines(spans));
    found[0]
}

#[test]
fn failures_are_traced_at_ratio_zero() {
    let collector = Collector::start();
    let port = collector.ports().http;
    let scheme = Scheme::configured(&settings_with("http", port, "ratio = 0.0\n"));
    let paid = Transfer::of("1").prepare();
    scheme.send(&paid, 202);

    let beyond_cap = Transfer::of("1500").prepare();
    scheme.send(&beyond_cap, 202);
    let spans = collector.spans(&beyond_cap.trace, 2);
    let (prepare, notify) = (only(&spans, "prepare"), only(&spans, "notify abort"));
    let code = prepare.attribute("error.type");
    assert_eq!((code.as_str(), notify.parent()), ("4200", prepare.id()), "{:#?}", lines(&spans));

    let malformed = Message::new("POST", "/transfers", "payerfsp").body("{");
    assert_eq!(scheme.ask(&malformed).status, 400);
    let spans = collector.spans(&malformed.trace, 1);
    let refused = only(&spans, "prepare");
    assert_eq!(refused.attribute("http.response.status_code"), "400");
    assert_eq!(refused.attribute("error.type").len(), 4, "{}", refused.line());

    let answered = |_: &Callback| Reply::Status(500);
    scheme.payee.answer(answered);
    let failed = Transfer::of("1").prepare();
    scheme.send(&failed, 202);
    collector.wait_for_span(&failed.trace, |span| {
        span.name() == "notify prepare"
            && span.attribute("error.type") == "500"
            && span.attribute("http.request.resend_count") == "1"
    });
    assert_eq!(lines(&collector.trace(&paid.trace)), [] as [String; 0]);
    scheme.switch.kill();
}

#[test]
fn flag_of_the_payer_and_a_new_ratio_are_respected() {
    let collector = Collector::start();
    let port = collector.ports().http;
    let scheme = Scheme::configured(&settings_with("http", port, "ratio = 0.0\n"));
    let before = Transfer::of("1").prepare();
    scheme.send(&before, 202);
    // The ratio at the time of the payee's answer decides whether its notice is traced.
    scheme.payee.take(1);
    scheme.admin.wait_for("upesi_notices_owed", |owed| owed == 0);
    let configuration = scheme.home.configuration();
    let text = fs::read_to_string(&configuration).unwrap();
    fs::write(&configuration, text.replace("ratio = 0.0", "ratio = 1.0")).unwrap();
    scheme.switch.signal(Signal::HUP);
    scheme.switch.wait_for_messages("reloaded the configuration", 1);

    let not_sampled = Transfer::of("1").prepare();
    let parent = format!("00-{}-{ROOT}-00", not_sampled.trace);
    scheme.send(&not_sampled.clone().with("traceparent", &parent), 202);
    let sampled = Transfer::of("1").prepare();
    scheme.send(&sampled, 202);
    // Server, three stages, and the notice.
    assert_eq!(collector.spans(&sampled.trace, 5).len(), 5);
    for trace in [&before.trace, &not_sampled.trace] {
        assert_eq!(lines(&collector.trace(trace)), [] as [String; 0]);
    }
    let forwarded = scheme.payee.take(2);
    let flags = |trace: &str| {
        let found = forwarded.iter().find(|it| it.header("traceparent").contains(trace));
        found.unwrap().header("traceparent")[53..].to_owned()
    };
    assert_eq!((flags(&not_sampled.trace), flags(&sampled.trace)), ("00".into(), "01".into()));
    scheme.end();
}

/// Stops the switch, which has logged one warning about the collector.
#[track_caller]
fn end_with_warning(scheme: Scheme) {
    scheme.switch.signal(Signal::TERM);
    let (status, complaints) = scheme.switch.end();
    assert!(status.success(), "{complaints}");
    let warning = "the trace collector does not take spans";
    assert_eq!(complaints.matches(warning).count(), 1, "{complaints}");
}

/// Payments continue, and their spans are counted as dropped.
#[track_caller]
fn pays_without_collector(protocol: &str, port: u16) -> Duration {
    let scheme = Scheme::configured(&settings(protocol, port));
    let began = Instant::now();
    for _ in 0..50 {
        scheme.pay("1");
    }
    let took = began.elapsed();
    scheme.wait_until_delivered();
    scheme.admin.wait_for("upesi_span_exports_failed_total", |failed| 0 < failed);
    let dropped = scheme.admin.metric("upesi_spans_dropped_total");
    assert!(0 < dropped);
    assert_eq!(scheme.admin.metric("upesi_spans_exported_total"), 0);
    assert_eq!(scheme.admin.metric("upesi_transfers_committed_total"), 50);
    end_with_warning(scheme);
    took
}

#[test]
fn collector_that_is_down_or_silent_delays_no_payment() {
    let down = Ports::free();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for (protocol, port) in
        [("http", down.http), ("grpc", down.grpc), ("http", port), ("grpc", port)]
    {
        let took = pays_without_collector(protocol, port);
        // An export waits for up to 10 s: no payment waits for one.
        assert!(took < Duration::from_secs(8), "{protocol} {port}: {took:?}");
    }
}

#[test]
fn collector_that_returns_gets_later_spans() {
    let ports = Ports::free();
    let scheme = Scheme::configured(&settings("http", ports.http));
    scheme.pay("1");
    scheme.admin.wait_for("upesi_span_exports_failed_total", |failed| 0 < failed);
    let collector = Collector::start_at(ports);
    let prepare = Transfer::of("1").prepare();
    scheme.send(&prepare, 202);
    assert_eq!(collector.spans(&prepare.trace, 5).len(), 5);
    scheme.switch.wait_for_messages("the trace collector takes spans again", 1);
    end_with_warning(scheme);
}

/// Two nodes with a shared log. Each message is answered by one node, and its notices are delivered
/// by the other one.
#[cfg(feature = "real-brokers")]
#[test]
fn trace_continues_on_the_node_that_delivers() {
    use crate::kafka::{Node, owner, send, start_brokers};
    use crate::support::switch::Home;

    let directory = tempfile::tempdir().unwrap();
    let cluster = start_brokers(&directory);
    let collector = Collector::start();
    let home = |name: &str| {
        let log = format!("kafka://{}/scheme", cluster.bootstrap());
        let home = Home::configured(&settings("http", collector.ports().http));
        home.with_arguments(&["--log", &log, "--node", name])
    };
    let scheme = Scheme::at(home("a"));
    let home = home("b");
    let other = Node { switch: home.serve(), home };
    let not_of = |participant: &str| match &*owner(&scheme.admin, participant, 2) {
        "a" => other.switch.fspiop,
        _ => scheme.switch.fspiop,
    };
    let transfer = Transfer::of("5");
    let prepare = transfer.prepare();
    send(not_of("payeefsp"), &prepare, 202);
    let asked = scheme.payee.wait("POST", "/transfers");
    send(not_of("payerfsp"), &continuing(transfer.fulfil("COMMITTED"), &asked), 200);
    scheme.payer.wait("PUT", &transfer.path());
    scheme.wait_until_delivered();

    // Two messages with their stages, and three notices.
    let spans = collector.spans(&prepare.trace, 11);
    let node = |span: &Span| span.resource("service.instance.id");
    let (prepare, fulfil) = (only(&spans, "prepare"), only(&spans, "fulfil"));
    let asked = only(&spans, "notify prepare");
    assert_eq!(asked.parent(), prepare.id(), "{:#?}", lines(&spans));
    assert_ne!(node(asked), node(prepare));
    assert_eq!(fulfil.parent(), asked.id(), "{:#?}", lines(&spans));
    let notified: Vec<_> = spans.iter().filter(|span| span.name() == "notify fulfil").collect();
    assert_eq!(notified.len(), 2, "{:#?}", lines(&spans));
    assert!(notified.iter().all(|span| span.parent() == fulfil.id()), "{:#?}", lines(&spans));
    assert!(notified.iter().any(|span| node(span) != node(fulfil)));
    scheme.switch.stop(Signal::TERM);
    other.switch.stop(Signal::TERM);
}
