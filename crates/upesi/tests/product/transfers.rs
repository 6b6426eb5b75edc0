//! Transfers, from the payer's POST to what each side hears and what the positions show
//! (hub-semantics 3, Rulings).

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::fsp::{Callback, Fsp, Reply};
use crate::support::message::{
    CONDITION, FULFILMENT, Message, Transfer, WRONG_FULFILMENT, date_time, uuid,
};
use crate::support::scheme::{Admin, Scheme};

const POST: &str = "POST /transfers from payerfsp: ";
const EXPIRED: &str = "PUT {}/error from Hub: 3303 Transfer expired";

/// A reserved transfer that the payee has got.
fn reserve(scheme: &Scheme, amount: &str) -> Transfer {
    let transfer = Transfer::of(amount);
    prepare(scheme, &transfer);
    transfer
}

/// Sends the prepare; the payee gets it byte for byte, in the same trace, and nobody else hears.
fn prepare(scheme: &Scheme, transfer: &Transfer) {
    let message = transfer.prepare();
    scheme.send(&message, 202);
    let post = format!("{POST}{}", String::from_utf8_lossy(message.bytes()));
    let heard = scheme.heard(transfer, [&[], &[&post], &[]]);
    assert_eq!(heard[0].body, message.bytes());
    assert_eq!(heard[0].trace(), message.trace);
    assert_eq!(heard[0].header("content-type"), format!("{}1.1", media("transfers")));
    assert_eq!(heard[0].header("accept"), format!("{}1.1", media("transfers")));
}

fn media(resource: &str) -> String {
    format!("application/vnd.interoperability.{resource}+json;version=")
}

/// All messages that follow from one belong to its trace.
fn assert_trace(heard: &[Callback], message: &Message) {
    for callback in heard {
        assert_eq!(callback.trace(), message.trace, "{}", callback.line());
    }
}

#[test]
fn a_committed_answer_reaches_the_payer_as_it_was_sent_and_is_confirmed_to_the_payee() {
    let scheme = Scheme::start();
    let transfer = reserve(&scheme, "12.5");
    scheme.positions("12.5", "0");
    let fulfil = transfer
        .fulfil("COMMITTED")
        .with("fspiop-signature", "{\"signature\":\"s\",\"protectedHeader\":\"e30\"}")
        .with("tracestate", "theirs=1,others=2")
        .with("accept", "application/vnd.interoperability.transfers+json;version=1.1");
    scheme.send(&fulfil, 200);
    let from_payee = "PUT {} from payeefsp: COMMITTED with fulfilment";
    let from_hub = "PUT {} from Hub: COMMITTED with fulfilment";
    let heard = scheme.heard(&transfer, [&[from_payee], &[from_hub], &[]]);
    assert_trace(&heard, &fulfil);
    assert_eq!(heard[0].body, fulfil.bytes(), "the payee's own bytes");
    assert_eq!(heard[1].body, fulfil.bytes(), "and the same to confirm them");
    assert!(heard[0].header("fspiop-signature").contains("protectedHeader"));
    assert_eq!(heard[0].header("tracestate"), "theirs=1,others=2");
    assert_eq!(heard[0].header("date"), "Tue, 15 Nov 1994 08:12:31 GMT");
    assert_eq!(heard[0].header("content-type"), format!("{}1.1", media("transfers")));
    scheme.positions("12.5", "-12.5");
    scheme.end();
}

#[test]
fn without_confirmation_only_the_payer_hears_of_a_committed_answer() {
    let scheme = Scheme::configured("[transfers]\nconfirm_to_payee = false\n");
    let transfer = reserve(&scheme, "1");
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    let from_payee = "PUT {} from payeefsp: COMMITTED with fulfilment";
    scheme.heard(&transfer, [&[from_payee], &[], &[]]);
    scheme.positions("1", "-1");

    let bad = reserve(&scheme, "1");
    scheme.send(&bad.fulfil_with("COMMITTED", WRONG_FULFILMENT), 200);
    let invalid = "PUT {}/error from Hub: 3100 Generic validation error - invalid fulfilment";
    scheme.heard(&bad, [&[invalid], &[], &[]]);
    scheme.positions("1", "-1");
    scheme.end();
}

#[test]
fn a_reserved_answer_is_committed_by_the_hub_to_both() {
    let scheme = Scheme::start();
    let transfer = reserve(&scheme, "3");
    let fulfil = transfer.fulfil("RESERVED");
    scheme.send(&fulfil, 200);
    let to_payer = "PUT {} from Hub: COMMITTED with fulfilment";
    let to_payee = "PATCH {} from Hub: COMMITTED";
    let heard = scheme.heard(&transfer, [&[to_payer], &[to_payee], &[]]);
    assert_trace(&heard, &fulfil);
    assert_eq!(heard[0].json()["fulfilment"], FULFILMENT);
    for callback in &heard {
        let body = callback.json();
        let completed = body["completedTimestamp"].as_str().expect("the hub's time");
        assert!(completed.ends_with(".000Z"), "{body}");
        assert!(body.get("transferId").is_none(), "{body}");
    }
    scheme.positions("3", "-3");
    scheme.end();
}

#[test]
fn an_expired_transfer_is_told_to_both_and_late_answers_are_refused() {
    let scheme = Scheme::start();
    let transfer = Transfer::of("7").expiring(2_000);
    prepare(&scheme, &transfer);
    // Version 1.0 knows no RESERVED answer, and PUT with ABORTED means nothing: neither ends it.
    scheme.send(&transfer.fulfil("RESERVED").version("1.0"), 200);
    scheme.send(&transfer.answer("{\"transferState\":\"ABORTED\"}"), 200);
    scheme.positions("7", "0");
    scheme.payer.wait("PUT", &format!("{}/error", transfer.path()));
    scheme.heard(&transfer, [&[EXPIRED], &[EXPIRED], &[]]);
    scheme.positions("0", "0");

    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    scheme.heard(&transfer, [&[], &[EXPIRED], &[]]);
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    let ended =
        "PUT {}/error from Hub: 3100 Generic validation error - non-RESERVED transfer state";
    scheme.heard(&transfer, [&[], &[ended], &[]]);
    scheme.send(&transfer.get("payerfsp"), 202);
    let aborted = "PUT {} from Hub: ABORTED, cause 3303: Transfer expired";
    scheme.heard(&transfer, [&[aborted], &[], &[]]);
    scheme.send(&transfer.prepare(), 202);
    scheme.heard(&transfer, [&[aborted], &[], &[]]);
    scheme.positions("0", "0");
    scheme.end();
}

#[test]
fn the_payees_error_aborts_and_goes_on_as_it_was_sent() {
    let scheme = Scheme::start();
    let transfer = reserve(&scheme, "5");
    let error = transfer.error("5104", "Payee rejected: désolé");
    scheme.send(&error, 200);
    let from_payee = "PUT {}/error from payeefsp: 5104 Payee rejected: désolé";
    let from_hub = "PUT {}/error from Hub: 5104 Payee rejected: désolé";
    let heard = scheme.heard(&transfer, [&[from_payee], &[from_hub], &[]]);
    assert_trace(&heard, &error);
    assert_eq!(heard[0].body, error.bytes());
    assert_eq!(heard[1].body, error.bytes());
    scheme.positions("0", "0");

    // The same again hears the stored end, something else that it was changed.
    scheme.send(&error, 200);
    scheme.heard(&transfer, [&[], &[from_hub], &[]]);
    scheme.send(&transfer.error("5105", "Another"), 200);
    let modified = "PUT {}/error from Hub: 3106 Modified request";
    scheme.heard(&transfer, [&[], &[modified], &[]]);
    scheme.send(&transfer.get("payeefsp"), 202);
    let state = "PUT {} from Hub: ABORTED, cause 5104: Payee rejected: désolé";
    scheme.heard(&transfer, [&[], &[state], &[]]);

    // A code of no known group becomes 3100 for the payer.
    let unknown = reserve(&scheme, "5");
    scheme.send(&unknown.error("9999", "Nobody knows"), 200);
    let replaced = "PUT {}/error from Hub: 3100 Generic validation error - API specification undefined errorCode";
    let copied = "PUT {}/error from Hub: 9999 Nobody knows";
    scheme.heard(&unknown, [&[replaced], &[copied], &[]]);
    scheme.positions("0", "0");
    scheme.end();
}

#[test]
fn a_bad_fulfilment_aborts_and_says_so_for_good() {
    let scheme = Scheme::start();
    let invalid = "PUT {}/error from Hub: 3100 Generic validation error - invalid fulfilment";
    let state = "ABORTED, cause 3100: Generic validation error - invalid fulfilment";
    let put = format!("PUT {{}} from Hub: {state}");
    let patch = format!("PATCH {{}} from Hub: {state}");
    // Its last two bits are none of the 32 bytes.
    let spare_bits = "_".repeat(43);
    let bodies = [
        ("COMMITTED", format!(",\"fulfilment\":\"{WRONG_FULFILMENT}\"")),
        ("RESERVED", format!(",\"fulfilment\":\"{WRONG_FULFILMENT}\"")),
        ("COMMITTED", format!(",\"fulfilment\":\"{spare_bits}\"")),
        ("COMMITTED", format!(",\"fulfilment\":\"{CONDITION}\"")),
        ("COMMITTED", String::new()),
        ("RESERVED", String::new()),
    ];
    for (style, fulfilment) in bodies {
        let transfer = reserve(&scheme, "2");
        let body = format!("{{\"transferState\":\"{style}\"{fulfilment}}}");
        scheme.send(&transfer.answer(&body), 200);
        match style {
            "RESERVED" => scheme.heard(&transfer, [&[invalid], &[invalid, &patch], &[]]),
            _ => scheme.heard(&transfer, [&[invalid], &[invalid], &[]]),
        };
        scheme.positions("0", "0");
        scheme.send(&transfer.get("payerfsp"), 202);
        scheme.heard(&transfer, [&[&put], &[], &[]]);
        // Once aborted, a good fulfilment changes nothing.
        scheme.send(&transfer.fulfil("COMMITTED"), 200);
        let modified = "PUT {}/error from Hub: 3106 Modified request";
        scheme.heard(&transfer, [&[], &[modified], &[]]);
        scheme.positions("0", "0");
    }
    scheme.end();
}

#[test]
fn resends_are_answered_and_changes_refused() {
    let scheme = Scheme::start();
    let transfer = reserve(&scheme, "4");
    let modified = "PUT {}/error from Hub: 3106 Modified request";
    let other = Transfer { amount: "5".into(), ..transfer.clone() };
    scheme.send(&transfer.prepare(), 202);
    scheme.heard(&transfer, [&["PUT {} from Hub: RESERVED"], &[], &[]]);
    scheme.send(&other.prepare(), 202);
    scheme.heard(&transfer, [&[modified], &[], &[]]);
    scheme.positions("4", "0");

    let fulfil = transfer.fulfil("COMMITTED");
    scheme.send(&fulfil, 200);
    let committed = "PUT {} from Hub: COMMITTED with fulfilment";
    let from_payee = "PUT {} from payeefsp: COMMITTED with fulfilment";
    scheme.heard(&transfer, [&[from_payee], &[committed], &[]]);
    // Insignificant white space does not make it another message.
    let compact: Vec<u8> =
        fulfil.bytes().iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    for body in [fulfil.bytes().to_vec(), compact] {
        scheme.send(&fulfil.clone().body(body), 200);
        let heard = scheme.heard(&transfer, [&[], &[committed], &[]]);
        assert_eq!(heard[0].json()["fulfilment"], FULFILMENT);
    }
    scheme.send(&transfer.answer("{\"transferState\":\"COMMITTED\"}"), 200);
    scheme.heard(&transfer, [&[], &[modified], &[]]);
    scheme.send(&transfer.prepare(), 202);
    let heard = scheme.heard(&transfer, [&[committed], &[], &[]]);
    assert_eq!(heard[0].json()["fulfilment"], FULFILMENT);
    scheme.send(&other.prepare(), 202);
    scheme.heard(&transfer, [&[modified], &[], &[]]);
    scheme.positions("4", "-4");
    scheme.end();
}

#[test]
fn answers_from_and_to_the_wrong_participant() {
    let scheme = Scheme::start();
    let transfer = reserve(&scheme, "6");
    let stranger = "PUT {}/error from Hub: 3100 Generic validation error - FSPIOP-Source does not match the transfer's payee";
    let as_other = |message: Message| message.with("fspiop-source", "otherfsp");
    for message in [transfer.fulfil("COMMITTED"), transfer.error("5000", "No")] {
        scheme.send(&as_other(message), 200);
        scheme.heard(&transfer, [&[], &[], &[stranger]]);
    }
    // Not even the payer may answer for the payee.
    let as_payer = transfer.fulfil("COMMITTED").with("fspiop-source", "payerfsp");
    scheme.send(&as_payer, 200);
    scheme.heard(&transfer, [&[stranger], &[], &[]]);
    scheme.positions("6", "0");
    scheme.send(&transfer.get("payeefsp"), 202);
    scheme.heard(&transfer, [&[], &["PUT {} from Hub: RESERVED"], &[]]);

    // The payee's answer to somebody else aborts.
    let misdirected = transfer.fulfil("RESERVED").to("otherfsp");
    scheme.send(&misdirected, 200);
    let error = "PUT {}/error from Hub: 3100 Generic validation error - FSPIOP-Destination does not match the transfer's payer";
    let patch = "PATCH {} from Hub: ABORTED, cause 3100: Generic validation error - FSPIOP-Destination does not match the transfer's payer";
    scheme.heard(&transfer, [&[error], &[error, patch], &[]]);
    scheme.positions("0", "0");

    // A transfer that nobody knows; one whose id has no known form.
    for id in [uuid(), "no-id".to_owned()] {
        let unknown = Transfer { id, ..transfer.clone() };
        let not_found = "PUT {}/error from Hub: 2001 Internal server error - transfer not found";
        for message in [unknown.fulfil("COMMITTED"), unknown.error("5000", "No")] {
            scheme.send(&message, 200);
            scheme.heard(&unknown, [&[], &[not_found], &[]]);
        }
    }

    // Errors of a prepare go to the payer that the body names, whoever sent it.
    let transfer = Transfer::of("1");
    let prepare = transfer.prepare().with("fspiop-source", "otherfsp");
    scheme.send(&prepare, 202);
    let source = "PUT {}/error from Hub: 3100 Generic validation error - FSPIOP-Source header should match Payer";
    let heard = scheme.heard(&transfer, [&[source], &[], &[]]);
    assert_trace(&heard, &prepare);
    scheme.positions("0", "0");
    scheme.end();
}

#[test]
fn an_unknown_sender_changes_nothing_and_is_counted() {
    let scheme = Scheme::start();
    let transfer = reserve(&scheme, "6");
    scheme.settle();
    let state = scheme.admin.state();
    let metric = "upesi_unknown_senders_total";
    let fresh = Transfer::of("1");
    let as_stranger = |message: Message| message.with("fspiop-source", "strangerfsp");
    let strangers = [
        (as_stranger(transfer.prepare()), 202),
        (as_stranger(fresh.prepare()), 202),
        (Transfer { payer: "strangerfsp".into(), ..fresh.clone() }.prepare(), 202),
        (fresh.prepare().with("fspiop-source", "Hub"), 202),
        (as_stranger(transfer.fulfil("COMMITTED")), 200),
        (as_stranger(transfer.fulfil("RESERVED")).to("otherfsp"), 200),
        (as_stranger(transfer.error("5000", "No")), 200),
        (as_stranger(fresh.fulfil("COMMITTED")), 200),
        (transfer.error("5000", "No").with("fspiop-source", "HUB"), 200),
        (transfer.get("strangerfsp"), 202),
    ];
    for (number, (message, status)) in strangers.iter().enumerate() {
        scheme.send(message, *status);
        assert_eq!(scheme.admin.metric(metric), number as u64 + 1, "{message:?}");
    }
    // Bad messages are refused as those of others.
    let refused = scheme.ask(&as_stranger(fresh.prepare()).body("{}"));
    assert_eq!(refused.status(), 400);
    assert_eq!(scheme.admin.metric(metric), strangers.len() as u64);
    assert_eq!(scheme.admin.state(), state, "nothing is recorded");
    scheme.heard(&transfer, [&[], &[], &[]]);

    // The id is still free, and a participant is known with the answer that it was created.
    prepare(&scheme, &fresh);
    let newcomer = Fsp::start("strangerfsp");
    scheme.admin.onboard(&newcomer.name, &format!("http://{}", newcomer.address()), "1", "1");
    scheme.send(&as_stranger(transfer.fulfil("COMMITTED")), 200);
    let stranger = "PUT {}/error from Hub: 3100 Generic validation error - FSPIOP-Source does not match the transfer's payee";
    scheme.heard(&transfer, [&[], &[], &[]]);
    assert_eq!(newcomer.take(1)[0].line(), stranger.replace("{}", &transfer.path()));
    assert_eq!(scheme.admin.metric(metric), strangers.len() as u64);
    scheme.end();
}

#[test]
fn a_lower_limit_on_expirations_refuses_only_what_the_hub_does_not_know() {
    let mut scheme = Scheme::start();
    let far = 7_200_000;
    let known = Transfer::of("2").expiring(far);
    let ended = Transfer::of("3").expiring(far);
    prepare(&scheme, &known);
    prepare(&scheme, &ended);
    scheme.send(&ended.error("5000", "No"), 200);
    scheme.settle();
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
    assert_eq!(refused.status(), 400);
    let text = "Generic validation error - /requestBody/expiration must be at most 3600 s ahead";
    assert!(refused.text().contains("\"errorCode\":\"3100\""), "{}", refused.text());
    assert!(refused.text().contains(text), "{}", refused.text());
    assert_eq!(scheme.admin.state(), state, "nothing is recorded");

    // What the hub knows is answered as ever.
    scheme.send(&known.prepare(), 202);
    scheme.heard(&known, [&["PUT {} from Hub: RESERVED"], &[], &[]]);
    scheme.send(&ended.prepare(), 202);
    scheme.heard(&ended, [&["PUT {} from Hub: ABORTED, cause 5000: No"], &[], &[]]);
    let changed = Transfer { amount: "4".into(), ..known.clone() };
    scheme.send(&changed.prepare(), 202);
    scheme.heard(&known, [&["PUT {}/error from Hub: 3106 Modified request"], &[], &[]]);
    let stranger = known.prepare().with("fspiop-source", "strangerfsp");
    scheme.send(&stranger, 202);
    scheme.heard(&known, [&[], &[], &[]]);
    scheme.positions("2", "0");
    scheme.end();
}

#[test]
fn questions_are_answered_to_those_concerned() {
    let scheme = Scheme::start();
    let transfer = reserve(&scheme, "8");
    for (state, told) in [("", "RESERVED"), ("COMMITTED", "COMMITTED with fulfilment")] {
        if !state.is_empty() {
            scheme.send(&transfer.fulfil(state), 200);
            let from_payee = "PUT {} from payeefsp: COMMITTED with fulfilment";
            let confirmed = "PUT {} from Hub: COMMITTED with fulfilment";
            scheme.heard(&transfer, [&[from_payee], &[confirmed], &[]]);
        }
        let told = format!("PUT {{}} from Hub: {told}");
        let question = transfer.get("payerfsp");
        scheme.send(&question, 202);
        assert_trace(&scheme.heard(&transfer, [&[&told], &[], &[]]), &question);
        scheme.send(&transfer.get("payeefsp"), 202);
        scheme.heard(&transfer, [&[], &[&told], &[]]);
        scheme.send(&transfer.get("otherfsp"), 202);
        let stranger = "PUT {}/error from Hub: 3000 Generic client error";
        scheme.heard(&transfer, [&[], &[], &[stranger]]);
    }
    for id in [uuid(), "no-id".to_owned()] {
        let unknown = Transfer { id, ..transfer.clone() };
        scheme.send(&unknown.get("payerfsp"), 202);
        let text = "PUT {}/error from Hub: 3208 Transfer ID not found - Provided Transfer ID was not found on the server.";
        let heard = scheme.heard(&unknown, [&[text], &[], &[]]);
        assert_eq!(heard[0].json()["errorInformation"]["errorCode"], "3208");
    }
    scheme.end();
}

#[test]
fn cover_and_cap_are_two_bounds_and_a_changed_cap_counts_at_once() {
    let scheme = Scheme::start();
    let refused = |amount: &str, error: &str| {
        let transfer = Transfer::of(amount);
        scheme.send(&transfer.prepare(), 202);
        let error = format!("PUT {{}}/error from Hub: {error}");
        scheme.heard(&transfer, [&[&error], &[], &[]]);
        // Refused once, refused for good: a resend is told the same.
        scheme.send(&transfer.prepare(), 202);
        let (code, text) = error.split_once(": ").unwrap().1.split_once(' ').unwrap();
        let aborted = format!("PUT {{}} from Hub: ABORTED, cause {code}: {text}");
        scheme.heard(&transfer, [&[&aborted], &[], &[]]);
    };
    refused("1000.0001", "4200 Payer limit error");
    refused("2000.0001", "4001 Payer FSP insufficient liquidity");
    reserve(&scheme, "600");
    scheme.positions("600", "0");
    refused("400.01", "4200 Payer limit error");
    scheme.admin.set_limit("payerfsp", "5000");
    refused("1400.01", "4001 Payer FSP insufficient liquidity");
    reserve(&scheme, "1400");
    scheme.positions("2000", "0");
    refused("0.0001", "4001 Payer FSP insufficient liquidity");
    scheme.admin.set_limit("payerfsp", "100");
    refused("0.0001", "4001 Payer FSP insufficient liquidity");
    scheme.end();
}

#[test]
fn a_participant_or_account_that_is_switched_off_is_refused_at_once_and_comes_back() {
    let scheme = Scheme::start();
    let refused = |text: &str| {
        let transfer = Transfer::of("1");
        scheme.send(&transfer.prepare(), 202);
        let error = format!("PUT {{}}/error from Hub: 3100 Generic validation error - {text}");
        scheme.heard(&transfer, [&[&error], &[], &[]]);
    };
    for name in ["payerfsp", "payeefsp"] {
        scheme.admin.set_active(name, false);
        refused(&format!("Participant {name} is inactive"));
        scheme.admin.set_active(name, true);
        reserve(&scheme, "1");
        scheme.admin.set_account_active(name, false);
        refused(&format!("Participant {name} USD account is inactive"));
        scheme.admin.set_account_active(name, true);
        reserve(&scheme, "1");
    }
    // What was reserved before may still be committed.
    let transfer = reserve(&scheme, "1");
    scheme.admin.set_active("payeefsp", false);
    scheme.send(&transfer.fulfil("RESERVED"), 200);
    let to_payer = "PUT {} from Hub: COMMITTED with fulfilment";
    scheme.heard(&transfer, [&[to_payer], &["PATCH {} from Hub: COMMITTED"], &[]]);
    scheme.positions("5", "-1");
    scheme.end();
}

#[test]
fn prepares_that_are_wrong_are_refused_by_callback() {
    let scheme = Scheme::start();
    let past = date_time(-1_000);
    let good = Transfer::of("1");
    let cases = [
        (
            Transfer { payee: "nobody".into(), ..good.clone() },
            "Participant nobody not found".to_owned(),
        ),
        (
            Transfer { payee: "Hub".into(), ..good.clone() },
            "Participant Hub not found".to_owned(),
        ),
        (
            Transfer { expiration: past.clone(), ..good.clone() },
            format!("Expiration date {past} is already in the past"),
        ),
        (
            Transfer { payee: "payerfsp".into(), ..good.clone() },
            "Payer FSP and Payee FSP should be different, unless on-us tranfers are allowed by the Scheme".to_owned(),
        ),
        (
            Transfer { amount: "123456789012345.6789".into(), ..good.clone() },
            "Amount 123456789012345.6789 exceeds allowed precision of 18".to_owned(),
        ),
    ];
    for (transfer, text) in cases {
        let transfer = Transfer { id: uuid(), ..transfer };
        scheme.send(&transfer.prepare(), 202);
        let whole = format!("Generic validation error - {text}");
        let cut: String = whole.chars().take(128).collect();
        let error = format!("PUT {{}}/error from Hub: 3100 {cut}");
        scheme.heard(&transfer, [&[&error], &[], &[]]);
    }
    let euros = Transfer { id: uuid(), ..good };
    let body = String::from_utf8(euros.prepare().bytes().to_vec()).unwrap().replace("USD", "EUR");
    scheme.send(&euros.prepare().body(body), 202);
    let account = "PUT {}/error from Hub: 3100 Generic validation error - Participant payerfsp EUR account not found";
    scheme.heard(&euros, [&[account], &[], &[]]);
    scheme.positions("0", "0");
    scheme.end();
}

#[test]
fn four_decimals_and_any_known_form_of_an_id() {
    let scheme = Scheme::start();
    let ids = [
        "01HQZX3V5T8Y9WABCDEFGHJKMN",
        "00000000000000000000ABCDEF",
        "018f3c9e-7b6a-7c3d-8e2f-0123456789ab",
        "00000000-0000-1000-8000-000000000000",
    ];
    let mut sum = 0;
    for id in ids {
        let transfer = Transfer { id: id.to_owned(), ..Transfer::of("1.2345") };
        prepare(&scheme, &transfer);
        scheme.send(&transfer.fulfil("RESERVED"), 200);
        let to_payer = "PUT {} from Hub: COMMITTED with fulfilment";
        scheme.heard(&transfer, [&[to_payer], &["PATCH {} from Hub: COMMITTED"], &[]]);
        sum += 12_345;
        let position = format!("{}.{:04}", sum / 10_000, sum % 10_000);
        let position = position.trim_end_matches('0');
        scheme.positions(position, &format!("-{position}"));
    }
    let smallest = reserve(&scheme, "0.0001");
    scheme.positions("4.9381", "-4.938");
    scheme.send(&smallest.fulfil("COMMITTED"), 200);
    scheme.settle();
    scheme.positions("4.9381", "-4.9381");
    // Nothing at all is an amount, as it is for the reference.
    reserve_and_forget(&scheme, "0");
    scheme.end();
}

fn reserve_and_forget(scheme: &Scheme, amount: &str) {
    let transfer = Transfer::of(amount);
    scheme.send(&transfer.prepare(), 202);
    scheme.settle();
    scheme.send(&transfer.get("payerfsp"), 202);
    scheme.payer.wait("PUT", &transfer.path());
}

#[test]
fn what_belongs_to_one_connection_is_not_forwarded_and_everything_else_is() {
    let scheme = Scheme::start();
    let transfer = Transfer::of("1");
    let prepare = transfer
        .prepare()
        .with("connection", "keep-alive, x-hop")
        .with("keep-alive", "timeout=5")
        .with("te", "trailers")
        .with("upgrade", "h2c")
        .with("x-hop", "mine")
        .with("baggage", "a=b")
        .with("authorization", "NOT_APPLICABLE")
        .with("x-note", "first")
        .also("x-note", "second")
        .with("tracestate", "acmevendor=1")
        .chunked();
    scheme.send(&prepare, 202);
    let post = format!("{POST}{}", String::from_utf8_lossy(prepare.bytes()));
    let heard = scheme.heard(&transfer, [&[], &[&post], &[]]);
    let post = &heard[0];
    assert_eq!(post.body, prepare.bytes(), "however it was cut on its way in");
    assert!(!post.headers.has("x-hop"), "Connection names it");
    assert_eq!(post.header("baggage"), "a=b");
    assert!(!post.headers.has("authorization"), "credentials end at the hub");
    assert_eq!(post.header("tracestate"), "acmevendor=1");
    assert_eq!(post.header("fspiop-destination"), "payeefsp", "added, for nobody else knows it");
    let notes: Vec<_> = post.headers.0.iter().filter(|(name, _)| name == "x-note").collect();
    assert_eq!(notes.len(), 2);

    let fulfil = transfer.fulfil("COMMITTED").chunked();
    scheme.send(&fulfil, 200);
    let from_payee = "PUT {} from payeefsp: COMMITTED with fulfilment";
    let confirmed = "PUT {} from Hub: COMMITTED with fulfilment";
    let heard = scheme.heard(&transfer, [&[from_payee], &[confirmed], &[]]);
    assert_eq!(heard[0].body, fulfil.bytes());
    scheme.end();
}

#[test]
fn positions_are_right_when_the_notice_comes() {
    let scheme = Scheme::start();
    // The answer to the POST is withheld; the transfer goes on without it.
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

/// What is noted of a delivery needs no later message to become durable, and told.
#[test]
fn a_delivery_is_on_record_soon_after_though_nothing_follows() {
    let scheme = Scheme::start();
    let transfer = reserve(&scheme, "10");
    let path = format!("/transfers/{}/explanation", transfer.id);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let told: Value = serde_json::from_str(&scheme.admin.get(&path)).unwrap();
        if told["notices_pending"] == json!([]) {
            let end = told["events"].as_array().unwrap().last().unwrap();
            assert_eq!((&end["event"], &end["result"]), (&json!("delivery"), &json!("delivered")));
            break;
        }
        assert!(Instant::now() < deadline, "{told:#}");
        thread::sleep(Duration::from_millis(50));
    }
    scheme.end();
}
