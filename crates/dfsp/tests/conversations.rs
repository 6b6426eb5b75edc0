//! Simulators against each other through a forward-only hub.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use dfsp::forwarder::Forwarder;
use dfsp::{
    Behaviour, Cause, End, Leg, Outcome, Payment, PaymentFlow, PaymentMessage, Simulator,
    SimulatorOptions, Style, Subscribers, Version,
};
use ledger::{Amount, Currency, FspName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{LocalOptions, LocalRuntime};

const PAYEES: std::ops::Range<u64> = 25_500_000..25_500_100;

struct Scheme {
    hub: Forwarder,
    payer: Simulator,
    payee: Simulator,
}

impl Scheme {
    fn new(change: impl Fn(&mut SimulatorOptions)) -> Self {
        let hub = Forwarder::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let currency = Currency::parse("USD").expect("a currency");
        let simulator = |name, subscribers: std::ops::Range<u64>| {
            let mut options = SimulatorOptions::new(name, currency, hub.address());
            options.subscribers = subscribers.clone();
            options.connections.resend_pause = Duration::from_millis(20);
            change(&mut options);
            let simulator = Simulator::bind(options).expect("a free port");
            hub.register(name, simulator.address(), subscribers);
            simulator
        };
        let payer = simulator("payer", 1..2);
        let payee = simulator("payee", PAYEES);
        Self { hub, payer, payee }
    }

    async fn pay(&self, payee_msisdn: u64) -> Outcome {
        let payment = payment(PaymentFlow::Whole, payee_msisdn, "12.3456");
        self.payer.run_transaction(payment).await.expect("within the limit")
    }

    fn stop(&self) {
        self.payer.stop();
        self.payee.stop();
        self.hub.stop();
    }
}

fn payment(flow: PaymentFlow, payee_msisdn: u64, amount: &str) -> Payment {
    let amount = Amount::parse(amount).expect("an amount");
    Payment { flow, payer_msisdn: 1, payee_msisdn, amount, intended: Instant::now() }
}

/// An FSP, and the listener of its hub, which the test plays.
async fn alone(change: impl FnOnce(&mut SimulatorOptions)) -> (TcpListener, Simulator) {
    let hub = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let currency = Currency::parse("USD").expect("a currency");
    let address = hub.local_addr().expect("it is bound");
    let mut options = SimulatorOptions::new("payer", currency, address);
    change(&mut options);
    (hub, Simulator::bind(options).expect("a port"))
}

/// Sends a message to an FSP and waits until it has read it.
async fn send(fsp: &Simulator, head: &str, body: &str) {
    let before = fsp.counts().requests;
    let message = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut stream = TcpStream::connect(fsp.address()).await.expect("it listens");
    stream.write_all(message.as_bytes()).await.expect("it reads");
    until(|| fsp.counts().requests > before).await;
}

fn run<T>(scenario: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime: LocalRuntime =
        builder.enable_all().build_local(LocalOptions::default()).expect("a runtime");
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), scenario).await })
        .expect("the scenario ends in time")
}

/// Waits for a condition that becomes true shortly after the payer has its outcome.
async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::task::yield_now().await;
    }
}

fn check_commit(change: impl Fn(&mut SimulatorOptions)) {
    run(async {
        let scheme = Scheme::new(change);
        scheme.payee.register_subscribers(8, Duration::from_secs(10)).await.expect("registered");
        let outcome = scheme.pay(PAYEES.start).await;
        assert_eq!(outcome.end, End::Committed);
        for leg in [outcome.lookup, outcome.quote, outcome.transfer_time] {
            assert!(leg.is_some_and(|leg| leg > Duration::ZERO && leg < outcome.whole));
        }
        until(|| scheme.payee.counts().confirmations == 1).await;
        let amount = Amount::parse("12.3456").expect("an amount");
        assert_eq!((scheme.payer.position(), scheme.payee.position()), (amount, -amount));
        let (payer, payee) = (scheme.payer.counts(), scheme.payee.counts());
        assert_eq!((payer.commits, payee.prepares, payee.lookups, payee.quotes), (1, 1, 1, 1));
        assert_eq!(payer.unknown + payee.unknown + payer.repeated + payee.repeated, 0);
        assert_eq!((scheme.payer.in_flight(), scheme.payer.counts().refused), (0, 0));
        scheme.stop();
    });
}

#[test]
fn whole_transaction_commits_in_both_styles_and_versions() {
    for style in [Style::Committed, Style::Reserved] {
        for version in [Version::V1_1, Version::V2_0] {
            check_commit(|options| (options.style, options.version) = (style, version));
        }
    }
}

fn check_failure(behaviour: Behaviour, patience: Duration, expected: End) {
    run(async {
        let scheme = Scheme::new(|options| options.patience = patience);
        scheme.payee.set_behaviour(behaviour);
        let outcome = scheme.pay(PAYEES.start).await;
        assert_eq!(outcome.end, expected, "{behaviour:?}");
        // The forwarder accepts every fulfilment.
        if behaviour != Behaviour::WrongFulfilment {
            assert_eq!(scheme.payee.position(), Amount::ZERO, "{behaviour:?}");
        }
        scheme.stop();
    });
}

#[test]
fn misbehaving_payee_fails_the_transaction_in_its_leg() {
    let (long, short) = (Duration::from_secs(30), Duration::from_millis(100));
    let code = |leg| Cause::Error(if leg == Leg::Lookup { 3204 } else { 5104 });
    for leg in [Leg::Lookup, Leg::Quote, Leg::Transfer] {
        let Cause::Error(number) = code(leg) else { unreachable!("codes are errors") };
        check_failure(Behaviour::Erroring(leg, number), long, End::Failed(leg, code(leg)));
        check_failure(Behaviour::Silent(leg), short, End::Failed(leg, Cause::TimedOut));
    }
    let wrong = End::Failed(Leg::Transfer, Cause::WrongFulfilment);
    check_failure(Behaviour::WrongFulfilment, long, wrong);
    check_failure(Behaviour::Dead, short, End::Failed(Leg::Lookup, Cause::TimedOut));
    check_failure(Behaviour::Refusing(1), short, End::Failed(Leg::Lookup, Cause::TimedOut));
}

#[test]
fn slow_payee_delays_and_dead_payee_recovers() {
    run(async {
        let scheme = Scheme::new(|_| {});
        scheme.payee.set_behaviour(Behaviour::Slow(Duration::from_millis(30)));
        let outcome = scheme.pay(PAYEES.start).await;
        assert_eq!(outcome.end, End::Committed);
        assert!(outcome.whole >= Duration::from_millis(90), "{:?}", outcome.whole);
        scheme.payee.set_behaviour(Behaviour::Dead);
        scheme.payee.set_behaviour(Behaviour::Normal);
        // The hub's connections are broken, and it makes only one attempt.
        until(|| scheme.payee.in_flight() == 0).await;
        loop {
            let outcome =
                tokio::time::timeout(Duration::from_millis(200), scheme.pay(PAYEES.start));
            if outcome.await.is_ok_and(|outcome| outcome.end == End::Committed) {
                break;
            }
        }
        scheme.stop();
    });
}

#[test]
fn look_up_of_an_unknown_number_times_out() {
    run(async {
        let scheme = Scheme::new(|options| options.patience = Duration::from_millis(100));
        let outcome = scheme.pay(7).await;
        assert_eq!(outcome.end, End::Failed(Leg::Lookup, Cause::TimedOut), "the hub is silent");
        scheme.stop();
    });
}

#[test]
fn unreachable_hub_is_retried_and_then_given_up() {
    run(async {
        let scheme = Scheme::new(|options| options.connections.resends_max = 2);
        scheme.hub.stop();
        until(|| std::net::TcpStream::connect(scheme.hub.address()).is_err()).await;
        let outcome = scheme.pay(PAYEES.start).await;
        assert_eq!(outcome.end, End::Failed(Leg::Lookup, Cause::Unreachable));
        let counts = scheme.payer.connection_counts();
        assert_eq!((counts.resent, counts.lost, counts.silent), (2, 1, 0));
        assert!(counts.unreachable >= 3 && counts.unavailable == 0, "{counts:?}");
        let error = scheme.payer.first_errors().unreachable;
        assert!(error.contains(&scheme.hub.address().to_string()), "{error}");
        assert!(error.contains("refused"), "{error}");
        scheme.stop();
    });
}

#[test]
fn transaction_refused_until_its_timeout_is_not_hung() {
    run(async {
        let scheme = Scheme::new(|options| options.patience = Duration::from_millis(100));
        scheme.hub.stop();
        until(|| std::net::TcpStream::connect(scheme.hub.address()).is_err()).await;
        let outcome = scheme.pay(PAYEES.start).await;
        assert_eq!(outcome.end, End::Failed(Leg::Lookup, Cause::Unreachable));
        scheme.stop();
    });
}

/// A node that serves one connection after the other in the given way, and then stops.
async fn node(serve: impl AsyncFnOnce(TcpListener) + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::task::spawn_local(serve(listener));
    address
}

/// FSPs with this node as home node, and the scheme's hub as the next one.
fn at_home(home: SocketAddr) -> Scheme {
    Scheme::new(|options| {
        options.other_nodes = vec![options.hub];
        options.hub = home;
        options.connections.answer_timeout = Duration::from_millis(200);
        options.ask_again = Some(Duration::from_millis(100));
        options.keeps_acknowledged = true;
    })
}

#[test]
fn silent_node_is_left_for_the_next_one() {
    run(async {
        let silent = node(async |listener| {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.push(stream);
            }
        });
        let scheme = at_home(silent.await);
        assert_eq!(scheme.pay(PAYEES.start).await.end, End::Committed);
        let accepted = |fsp: &Simulator| -> Vec<PaymentMessage> {
            fsp.take_acknowledged().into_iter().map(|message| message.message).collect()
        };
        until(|| scheme.payer.unanswered() + scheme.payee.unanswered() == 0).await;
        assert_eq!(accepted(&scheme.payer), [PaymentMessage::Prepare]);
        assert_eq!(accepted(&scheme.payee), [PaymentMessage::Fulfil]);
        assert!(0 < scheme.payer.connection_counts().resent);
        scheme.stop();
    });
}

#[test]
fn invalid_response_is_described() {
    for (answer, word) in [
        (&b""[..], "closed without a response"),
        (b"HTTP/1.1 202 Acc", "in the middle of a response"),
        (b"\0\xff lalala\r\n\r\n", "invalid HTTP response: the head is not HTTP/1"),
    ] {
        run(async move {
            let strange = node(async move |listener| {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let mut request = [0; 4_096];
                    // Closing before reading resets the connection.
                    let _asked = stream.read(&mut request).await;
                    let _heard = stream.write_all(answer).await;
                }
            });
            let hub = strange.await;
            let scheme = Scheme::new(|options| {
                options.hub = hub;
                options.connections.resends_max = 2;
            });
            let outcome = scheme.pay(PAYEES.start).await;
            assert_eq!(outcome.end, End::Failed(Leg::Lookup, Cause::Unsent));
            let (counts, error) =
                (scheme.payer.connection_counts(), scheme.payer.first_errors().broken);
            assert_eq!((counts.answered, counts.broken), (0, 3), "{error}");
            assert!(error.contains(word), "{error}");
            scheme.stop();
        });
    }
}

#[test]
fn look_up_lost_by_a_node_is_repeated() {
    run(async {
        let dying = node(async |listener| {
            let (mut stream, _) = listener.accept().await.expect("connected");
            let mut request = [0; 4_096];
            let length = stream.read(&mut request).await.expect("a request");
            assert!(request[..length].starts_with(b"GET /parties/"));
            let answer = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).await.expect("received");
        });
        let scheme = at_home(dying.await);
        let outcome = scheme.pay(PAYEES.start).await;
        assert_eq!(outcome.end, End::Committed);
        assert!(outcome.lookup.is_some_and(|time| Duration::from_millis(100) <= time));
        scheme.stop();
    });
}

#[test]
fn restored_home_node_is_used_again() {
    run(async {
        let address = node(async |listener| drop(listener)).await;
        until(|| std::net::TcpStream::connect(address).is_err()).await;
        let scheme = at_home(address);
        assert_eq!(scheme.pay(PAYEES.start).await.end, End::Committed);
        let home = Forwarder::bind(address).expect("the port is free again");
        home.register("payer", scheme.payer.address(), 1..2);
        home.register("payee", scheme.payee.address(), PAYEES);
        scheme.hub.stop();
        until(|| std::net::TcpStream::connect(scheme.hub.address()).is_err()).await;
        assert_eq!(scheme.pay(PAYEES.start).await.end, End::Committed);
        home.stop();
        scheme.stop();
    });
}

#[test]
fn many_concurrent_transactions_keep_positions_correct() {
    const TRANSACTIONS: u64 = 5_000;
    run(async {
        let scheme = Rc::new(Scheme::new(|_| {}));
        let ended = Rc::new(RefCell::new((0_u64, 0_u64)));
        let pay = |scheme: &Scheme, number: u64| {
            let payee = PAYEES.start + number % 100;
            let amount = Amount::from_units(i128::from(number % 7 + 1)).to_string();
            let payment = payment(PaymentFlow::Whole, payee, &amount);
            scheme.payer.start(payment).expect("within the limit");
        };
        let (scheme_again, ended_again) = (Rc::downgrade(&scheme), Rc::clone(&ended));
        scheme.payer.observe(move |outcome| {
            assert_eq!(outcome.end, End::Committed);
            let (done, next) = {
                let mut ended = ended_again.borrow_mut();
                ended.0 += 1;
                ended.1 += 1;
                (ended.0, ended.1 + 63)
            };
            if let Some(scheme) = scheme_again.upgrade().filter(|_| done + 63 < TRANSACTIONS) {
                pay(&scheme, next);
            }
        });
        (0..64).for_each(|number| pay(&scheme, number));
        until(|| ended.borrow().0 == TRANSACTIONS).await;
        until(|| scheme.payee.counts().confirmations == TRANSACTIONS).await;
        let expected: i128 = (0..TRANSACTIONS).map(|number| i128::from(number % 7 + 1)).sum();
        assert_eq!(scheme.payer.position().units(), expected);
        assert_eq!(scheme.payee.position().units(), -expected);
        scheme.stop();
    });
}

/// Answers two look-ups of one number in the wrong order, with or without their trace ids.
fn check_match(traced: bool, expected: u64) {
    run(async {
        let (hub, payer) = alone(|options| {
            options.match_by_number = false;
            options.connections.connections_max = 1;
        })
        .await;
        let ended = Rc::new(RefCell::new(Vec::new()));
        let order = Rc::clone(&ended);
        payer.observe(move |outcome| order.borrow_mut().push(outcome));
        for amount in ["1", "2"] {
            payer.start(payment(PaymentFlow::Lookup, 77, amount)).expect("within the limit");
        }
        let (mut stream, _) = hub.accept().await.expect("it connects");
        let mut traces = Vec::new();
        while traces.len() < 2 {
            let (traceparent, _) = next_request(&mut stream, 202).await;
            traces.push(traceparent);
        }
        for trace in traces.iter().rev() {
            let trace = if traced { format!("\r\ntraceparent: {trace}") } else { String::new() };
            let head = format!("PUT /parties/MSISDN/77 HTTP/1.1{trace}");
            send(&payer, &head, &party("77", "payee")).await;
        }
        assert!(ended.borrow().iter().all(|outcome| outcome.end == End::Reached));
        let ended: Vec<_> =
            ended.borrow().iter().map(|outcome| outcome.payment.amount.to_string()).collect();
        assert_eq!(ended, if traced { &["2", "1"][..] } else { &[] });
        assert_eq!(payer.counts().unknown, expected);
        payer.stop();
    });
}

/// Answers the next request. Returns its trace and its body.
async fn next_request(stream: &mut TcpStream, status: u16) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        if let Some(request) = dfsp::http1::request(&bytes).expect("well formed") {
            let trace = request.fields.traceparent.expect("every look-up has one").to_owned();
            let body = request.body.to_vec();
            let answer = format!("HTTP/1.1 {status} Status\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.expect("it reads");
            return (trace, body);
        }
        assert!(stream.read_buf(&mut bytes).await.expect("it writes") > 0, "it closed");
    }
}

#[test]
fn callbacks_are_matched_by_trace_and_not_by_number() {
    check_match(true, 0);
    check_match(false, 2);
}

fn party(number: &str, fsp: &str) -> String {
    let id = format!(r#"{{"partyIdentifier":"{number}","fspId":"{fsp}"}}"#);
    format!(r#"{{"party":{{"partyIdInfo":{id}}}}}"#)
}

fn quote(amount: &str, currency: &str) -> String {
    let money = format!(r#"{{"amount":"{amount}","currency":"{currency}"}}"#);
    let condition = "A".repeat(43);
    format!(r#"{{"transferAmount":{money},"ilpPacket":"AQ","condition":"{condition}"}}"#)
}

/// A payment of five to the number 77.
fn five(flow: PaymentFlow) -> Payment {
    payment(flow, 77, "5")
}

/// A payer looks up the number 77, which is the payee's, or requests a quote of 5 USD. The hub
/// accepts it with `status` and sends `body`. Returns the detected problem, if any.
async fn answered(flow: PaymentFlow, status: u16, body: String) -> Option<String> {
    let (hub, payer) = alone(|options| {
        // A payer expects matching terms from a known payee.
        if flow == PaymentFlow::Lookup {
            let known =
                |(fsp, numbers)| Subscribers { numbers, fsp: FspName::new(fsp).expect("a name") };
            options.known = [("other", 70..75), ("payee", 75..80)].map(known).into();
        }
    })
    .await;
    let answering = async {
        let (mut stream, _) = hub.accept().await.expect("it connects");
        let (trace, asked) = next_request(&mut stream, status).await;
        until(|| payer.unanswered() == 0).await;
        let asked = serde_json::from_slice(&asked).unwrap_or(serde_json::Value::Null);
        let path = match [&asked["transferId"], &asked["quoteId"]].map(serde_json::Value::as_str) {
            [Some(transfer), _] => format!("transfers/{transfer}"),
            [None, Some(quote)] => format!("quotes/{quote}"),
            [None, None] => "parties/MSISDN/77".to_owned(),
        };
        send(&payer, &format!("PUT /{path} HTTP/1.1\r\ntraceparent: {trace}"), &body).await;
        until(|| payer.unanswered() == 0).await;
        drop(stream);
    };
    let (outcome, ()) = tokio::join!(payer.run_transaction(five(flow)), answering);
    let end = outcome.expect("there is room").end;
    let wrong = payer.observations().wrong().clone();
    payer.stop();
    match wrong.count {
        0 => assert_eq!(end, End::Reached),
        1 => assert_eq!(end, End::Failed(flow.first_leg(), Cause::WrongAnswer)),
        more => panic!("{more} instead of one: {}", wrong.first),
    }
    (wrong.count == 1).then_some(wrong.first)
}

#[test]
fn mismatching_response_fails_its_unit_and_is_recorded() {
    run(async {
        let lookup = PaymentFlow::Lookup;
        let payee = FspName::new("payee").expect("a name");
        let (quoted, paid) = (PaymentFlow::Quote(payee), PaymentFlow::Transfer(payee));
        for (flow, status, body, expected) in [
            (lookup, 202, party("77", "payee"), None),
            (lookup, 202, party("78", "payee"), Some("contains 78 of payee")),
            (lookup, 202, party("77", "other"), Some("expected 77 of payee")),
            (lookup, 200, party("77", "payee"), Some("was answered 200 instead of 202")),
            (quoted, 202, quote("5", "USD"), None),
            (quoted, 204, quote("5", "USD"), Some("POST /quotes of payer was answered 204")),
            (quoted, 202, quote("10", "USD"), Some("contains 10 USD, expected 5 USD")),
            (quoted, 202, quote("5", "EUR"), Some("contains 5 EUR")),
            (
                paid,
                202,
                r#"{"transferState":"RESERVED"}"#.to_owned(),
                Some("'{\"transferState\":\"R"),
            ),
            (paid, 202, "{}".to_owned(), Some("PUT /transfers to payer contains no final state")),
            (paid, 202, "done".to_owned(), Some("no final state: 'done'")),
        ] {
            let found = answered(flow, status, body).await;
            let found = found.as_deref();
            assert_eq!(found.is_some(), expected.is_some(), "{found:?} for {expected:?}");
            assert!(expected.is_none_or(|it| found.is_some_and(|text| text.contains(it))));
        }
    });
}

/// A payer that resends a transfer is notified of the reservation once or twice, and keeps waiting.
#[test]
fn reservation_notice_of_a_resent_transfer_is_accepted() {
    run(async {
        let (hub, payer) = alone(|_| {}).await;
        let answering = async {
            let (mut stream, _) = hub.accept().await.expect("it connects");
            next_request(&mut stream, 503).await;
            let (_, asked) = next_request(&mut stream, 202).await;
            until(|| payer.unanswered() == 0).await;
            let asked: serde_json::Value = serde_json::from_slice(&asked).expect("a transfer");
            let id = asked["transferId"].as_str().expect("an id");
            for state in ["RESERVED", "RESERVED", "ABORTED"] {
                let body = format!(r#"{{"transferState":"{state}"}}"#);
                send(&payer, &format!("PUT /transfers/{id} HTTP/1.1"), &body).await;
            }
            drop(stream);
        };
        let payee = FspName::new("payee").expect("a name");
        let paid = five(PaymentFlow::Transfer(payee));
        let (outcome, ()) = tokio::join!(payer.run_transaction(paid), answering);
        let end = outcome.expect("there is room").end;
        assert_eq!(end, End::Failed(Leg::Transfer, Cause::Aborted));
        assert_eq!(payer.observations().wrong().count, 0);
        payer.stop();
    });
}

#[test]
fn condition_that_does_not_match_the_packet_is_refused_and_recorded() {
    run(async {
        let scheme = Scheme::new(|_| {});
        assert_eq!(scheme.pay(PAYEES.start).await.end, End::Committed);
        assert_eq!(scheme.payee.observations().wrong().count, 0);
        let other = "A".repeat(43);
        for (number, condition) in
            [format!(r#","condition":"{other}""#), String::new()].iter().enumerate()
        {
            let body = format!(
                r#"{{"transferId":"00000000-0000-4000-8000-00000000000{number}","payerFsp":"payer",
                "payeeFsp":"payee","amount":{{"amount":"5","currency":"USD"}},
                "ilpPacket":"AQ"{condition}}}"#
            );
            send(&scheme.payee, "POST /transfers HTTP/1.1\r\nfspiop-source: payer", &body).await;
            until(|| scheme.payee.observations().wrong().count == number as u64 + 1).await;
        }
        let first = scheme.payee.observations().wrong().first.clone();
        assert!(first.contains(&format!("condition '{other}', which does not match")), "{first}");
        until(|| scheme.payee.observations().exchanges()[0].1.received.aborted.count == 2).await;
        scheme.stop();
    });
}

#[test]
fn registrations_without_callbacks_time_out() {
    run(async {
        let hub = node(async |listener| {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::task::spawn_local(async move {
                    let accepted = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
                    let mut request = [0; 4_096];
                    while stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                        stream.write_all(accepted).await.expect("it reads");
                    }
                });
            }
        });
        let currency = Currency::parse("USD").expect("a currency");
        let mut options = SimulatorOptions::new("payee", currency, hub.await);
        options.subscribers = 1..4;
        let payee = Simulator::bind(options).expect("a port");
        assert_eq!(payee.registered(), 0);
        let patience = Duration::from_millis(200);
        let error = payee.register_subscribers(8, patience).await.expect_err("no callbacks");
        let expected = "3 of 3 registrations have no callback; none arrived within 200ms";
        assert_eq!((error.to_string().as_str(), payee.registered()), (expected, 0));
        payee.stop();
    });
}

#[test]
fn unexpected_response_status_is_recorded() {
    run(async {
        let (hub, payer) = alone(|options| options.patience = Duration::from_millis(50)).await;
        let payee = FspName::new("payee").expect("a name");
        for (flow, what) in [
            (PaymentFlow::Lookup, "GET /parties of payer was answered 200 instead of 202"),
            (PaymentFlow::Quote(payee), ""),
            (PaymentFlow::Transfer(payee), ""),
        ] {
            let answering = async {
                let (mut stream, _) = hub.accept().await.expect("it connects");
                let request = next_request(&mut stream, 200).await;
                // It closes the connection, so that the next message opens a new one.
                drop((stream, request));
            };
            let (outcome, ()) = tokio::join!(payer.run_transaction(five(flow)), answering);
            assert!(!outcome.expect("within the limit").end.is_good(), "{flow:?}");
            assert!(payer.observations().wrong().first.contains(what));
            until(|| payer.unanswered() == 0).await;
        }
        assert_eq!(payer.observations().wrong().count, 3);
        payer.stop();
    });
}

#[test]
fn request_for_another_fsp_is_refused_and_recorded() {
    run(async {
        let scheme = Scheme::new(|_| {});
        let body = |fsp: &str, number: u64, currency: &str| {
            let party = |fsp: &str, number| {
                let id = format!(r#"{{"partyIdentifier":"{number}","fspId":"{fsp}"}}"#);
                format!(r#"{{"partyIdInfo":{id}}}"#)
            };
            let (payer, payee) = (party("payer", 1), party(fsp, number));
            let money = format!(r#"{{"amount":"5","currency":"{currency}"}}"#);
            let parties = format!(r#""payer":{payer},"payee":{payee},"amount":{money}"#);
            format!(r#"{{"quoteId":"q","transactionId":"t",{parties}}}"#)
        };
        let transfer = |fsp: &str, currency: &str| {
            let id = "00000000-0000-4000-8000-000000000001";
            let money = format!(r#"{{"amount":"5","currency":"{currency}"}}"#);
            let fsps = format!(r#""payerFsp":"payer","payeeFsp":"{fsp}""#);
            format!(r#"{{"transferId":"{id}",{fsps},"amount":{money},"ilpPacket":"AQ"}}"#)
        };
        let ours = PAYEES.start;
        for (path, body, wrong) in [
            ("/quotes", body("payee", ours, "USD"), 0),
            ("/quotes", body("other", ours, "USD"), 1),
            ("/quotes", body("payee", PAYEES.end, "USD"), 2),
            ("/quotes", body("payee", ours, "EUR"), 3),
            ("/transfers", transfer("other", "USD"), 4),
            ("/transfers", transfer("payee", "EUR"), 5),
        ] {
            let head = format!("POST {path} HTTP/1.1\r\nfspiop-source: payer");
            send(&scheme.payee, &head, &body).await;
            assert_eq!(scheme.payee.observations().wrong().count, wrong, "{body}");
        }
        let first = scheme.payee.observations().wrong().first.clone();
        assert!(first.contains("POST /quotes for 25500000 of other in USD"), "{first}");
        assert_eq!(scheme.payee.position(), Amount::ZERO);
        scheme.stop();
    });
}
