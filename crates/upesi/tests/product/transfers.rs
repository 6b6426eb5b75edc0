//! Transfers across a restart, with silent participants and full lanes. Other behaviour is in the
//! golden conversations (`conversations/transfers`).

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use testkit::http::Connection;
use testkit::server::Reply;

use crate::support::fsp::trace;
use crate::support::message::Transfer;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{PROGRAM, Printed, finish};

const POST: &str = "POST /transfers from payerfsp: ";

/// A reserved transfer that the payee has received.
fn reserve(scheme: &Scheme, amount: &str) -> Transfer {
    let transfer = Transfer::of(amount);
    prepare(scheme, &transfer);
    transfer
}

/// Sends the prepare. Only the payee receives it, byte for byte, with the same trace.
fn prepare(scheme: &Scheme, transfer: &Transfer) {
    let message = transfer.prepare();
    scheme.send(&message, 202);
    let post = format!("{POST}{}", String::from_utf8_lossy(message.bytes()));
    let received = scheme.received(transfer, [&[], &[&post], &[]]);
    assert_eq!(received[0].body, message.bytes());
    assert_eq!(trace(&received[0]), message.trace);
}

#[test]
fn lower_expiration_limit_refuses_only_new_transfers() {
    let mut scheme = Scheme::start();
    let far = 7_200_000;
    let known = Transfer::of("2").expiring(far);
    let ended = Transfer::of("3").expiring(far);
    prepare(&scheme, &known);
    prepare(&scheme, &ended);
    scheme.send(&ended.error("5000", "No"), 200);
    scheme.wait_until_delivered();
    scheme.payer.take(1);
    scheme.payee.take(1);
    let ports = scheme.switch.ports();
    scheme.switch.stop(Signal::TERM);
    let path = scheme.home.configuration();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}\n[transfers]\nexpiration_max = \"1h\"\n")).unwrap();
    scheme.switch = scheme.home.serve_on(ports);
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);

    let state = scheme.admin.state();
    let refused = scheme.ask(&Transfer::of("1").expiring(far).prepare());
    assert_eq!(refused.status, 400);
    let text = "Generic validation error - /requestBody/expiration must be at most 3600 s ahead";
    assert!(refused.text().contains("\"errorCode\":\"3100\""), "{}", refused.text());
    assert!(refused.text().contains(text), "{}", refused.text());
    assert_eq!(scheme.admin.state(), state, "nothing is recorded");

    // Requests about known transfers are answered as before.
    scheme.send(&known.prepare(), 202);
    scheme.received(&known, [&["PUT {} from Hub: RESERVED"], &[], &[]]);
    scheme.send(&ended.prepare(), 202);
    scheme.received(&ended, [&["PUT {} from Hub: ABORTED, cause 5000: No"], &[], &[]]);
    let changed = Transfer { amount: "4".into(), ..known.clone() };
    scheme.send(&changed.prepare(), 202);
    scheme.received(&known, [&["PUT {}/error from Hub: 3106 Modified request"], &[], &[]]);
    let stranger = known.prepare().with("fspiop-source", "strangerfsp");
    scheme.send(&stranger, 202);
    scheme.received(&known, [&[], &[], &[]]);
    scheme.positions("2", "0");
    scheme.end();
}

#[test]
fn positions_are_updated_before_the_notice_arrives() {
    let scheme = Scheme::start();
    // The response to the POST is delayed. The transfer continues without it.
    scheme.payee.answer(|callback| match &*callback.method {
        "POST" => Reply::Silence,
        _ => Reply::Accept,
    });
    let transfer = Transfer::of("9");
    scheme.send(&transfer.prepare(), 202);
    scheme.positions("9", "0");
    scheme.payee.wait("POST", "/transfers");
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    scheme.payer.wait("PUT", &transfer.path());
    scheme.positions("9", "-9");
    scheme.switch.stop(rustix::process::Signal::TERM);
    assert!(scheme.home.verify().status.success());
}

/// A delivery record becomes durable and visible without a later message.
#[test]
fn delivery_is_recorded_soon_without_further_traffic() {
    let scheme = Scheme::start();
    let transfer = reserve(&scheme, "10");
    let path = format!("/transfers/{}/explanation", transfer.id);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let explained = scheme.admin.json(&path);
        if explained["notices_pending"] == json!([]) {
            let end = explained["events"].as_array().unwrap().last().unwrap();
            assert_eq!((&end["event"], &end["result"]), (&json!("delivery"), &json!("delivered")));
            break;
        }
        assert!(Instant::now() < deadline, "{explained:#}");
        thread::sleep(Duration::from_millis(50));
    }
    scheme.end();
}

/// Callbacks to a participant that accepts none would accumulate without a limit.
#[test]
fn sender_without_callbacks_is_accepted_until_two_lanes_are_full() {
    let scheme = Scheme::configured("[transfers]\nlane_capacity = 1\n");
    let endpoint = |url: &str| scheme.admin.set_endpoint("payerfsp", "TRANSFER_PUT", url);
    endpoint("http://127.0.0.1:9");
    let transfer = Transfer::of("10");
    let mut connection = Connection::open(scheme.switch.fspiop).unwrap();
    let prepare = transfer.prepare().render();
    let mut answers = 0;
    let refusal = loop {
        let answer = connection.exchange(&prepare).unwrap();
        if answer.status != 202 {
            break answer;
        }
        answers += 1;
        assert!(answers < 3_000, "they are taken without end");
    };
    assert_eq!(refusal.status, 503);
    assert!(refusal.text().contains("\"2003\""), "{}", refusal.text());
    assert!(refusal.text().contains("too many callbacks are owed"), "{}", refusal.text());
    // The first message has no callback to its sender. A thousand more fit in addition to a lane of
    // one.
    assert_eq!(answers, 1 + 1_001);
    // Other senders are accepted, and so is this one after it has received its callbacks.
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    scheme.positions("10", "-10");
    let address = scheme.payer.address();
    endpoint(&format!("http://{address}"));
    scheme.wait_until_delivered();
    assert_eq!(connection.exchange(&prepare).unwrap().status, 202);
    scheme.wait_until_delivered();
    scheme.positions("10", "-10");
}

/// A payment is found by the trace id of its `traceparent`, within a period.
#[test]
fn payments_are_found_by_their_trace_id() {
    let scheme = Scheme::start();
    let transfer = Transfer::of("7");
    let prepare = transfer.prepare();
    scheme.send(&prepare, 202);
    let fulfil = transfer.fulfil("COMMITTED");
    scheme.send(&fulfil, 200);
    scheme.wait_until_delivered();
    let find = |rest: &str| {
        let mut command = Command::new(PROGRAM);
        let arguments = format!("transfer list --trace {}{rest}", prepare.trace);
        command.args(arguments.split(' '));
        command.arg("--admin").arg(format!("http://{}", scheme.switch.admin));
        command.arg("--token").arg(scheme.home.data().join("admin-token"));
        finish(command)
    };
    let found = find(" --json").succeeds().json();
    let messages = found["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 1, "the fulfilment has another trace: {found}");
    assert_eq!(messages[0]["transferId"], transfer.id.as_str());
    assert!(find("").succeeds().out().contains(&transfer.id));
    let none = find(" --to 2020-01-01").succeeds().out();
    assert!(none.contains("no message has this trace id"), "{none}");
    let traceparent = format!("/traces/00-{}-00f067aa0ba902b7-01", fulfil.trace);
    let found = scheme.admin.json(&traceparent);
    assert_eq!(found["messages"][0]["transferId"], transfer.id.as_str(), "{found}");
    let wrong = scheme.admin.call("GET", "/traces/xyz", "");
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    scheme.end();
}
