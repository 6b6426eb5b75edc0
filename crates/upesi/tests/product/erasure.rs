//! Erasures with the real program: ordered by one or two persons, carried out by the switch in its
//! log, archive and backup, proven by `verify`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::http::PATIENCE;

use crate::archive::text;
use crate::bulk::{noted_answer, noted_bulk};
use crate::operators::Office;
use crate::support::clock::Clocks;
use crate::support::message::{FULFILMENT, Message, Transfer, uuid};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, PROGRAM, Ports, Printed, Switch, files, finish};

/// A note of the payer, in the extension list of a payment.
const SECRET: &str = "rent for the flat of Wanjiru Kamau";

pub(crate) fn run(scheme: &Scheme, arguments: &[&str]) -> Output {
    run_at((&scheme.home, &scheme.switch), arguments)
}

/// Runs a command on one switch.
pub(crate) fn run_at((home, switch): (&Home, &Switch), arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg("--admin").arg(format!("http://{}", switch.admin));
    command.arg("--token").arg(home.data().join("admin-token"));
    finish(command)
}

/// Pays with a note, and waits until nothing is owed any more.
fn pay_with_note(scheme: &Scheme, amount: &str) -> Transfer {
    let transfer = Transfer::of(amount);
    scheme.send(&prepare_with_note(&transfer), 202);
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    scheme.wait_until_delivered();
    transfer
}

pub(crate) fn prepare_with_note(transfer: &Transfer) -> Message {
    let prepare = transfer.prepare();
    let body = std::str::from_utf8(prepare.bytes()).unwrap();
    let note = body.replace("Amélie Ngũgĩ 王", SECRET);
    assert!(note.contains(SECRET), "{note}");
    prepare.body(note)
}

/// The files of a directory, and of those below it, that contain the secret.
pub(crate) fn holders(directory: &Path) -> Vec<PathBuf> {
    let is_holder = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => found.extend(holders(&entry)),
            false => found.extend(Some(entry).filter(is_holder)),
        }
    }
    found
}

/// Waits until all erasures are done. Each round makes a change, whose record lets the switch close the
/// segment that it writes.
pub(crate) fn wait_until_erased(scheme: &Scheme) -> Value {
    let is_done = |it: &Value| it["state"] == "DONE";
    wait_for_all(scheme, |all| all.as_array().unwrap().iter().all(is_done))
}

/// Waits until the list of erasures is as expected. A change is made in each round.
pub(crate) fn wait_for_all(scheme: &Scheme, is_expected: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = scheme.admin.json("/erasures");
        if is_expected(&all) {
            return all;
        }
        assert!(Instant::now() < deadline, "{all}");
        scheme.admin.set_limit("payerfsp", "1000");
        thread::sleep(Duration::from_millis(200));
    }
}

pub(crate) fn verified(home: &Home) -> Value {
    let data = home.data();
    let mut command = Command::new(PROGRAM);
    command.args(["verify", "--json", "--data", text(&data)]);
    finish(command).succeeds().json()
}

#[test]
fn contents_of_a_payment_are_erased_and_everything_is_still_proven() {
    let scheme = Scheme::start();
    let transfer = pay_with_note(&scheme, "10");
    let other = scheme.pay("20");
    let id = &*transfer.id;
    let data = scheme.home.data();
    assert!(!holders(&data).is_empty(), "the note is in the log");
    let plan = run(&scheme, &["erase", "--transfer", id, "--dry-run", "--json"]).succeeds().json();
    assert_eq!((&plan["contents"], &plan["segments"]), (&2.into(), &1.into()), "{plan}");
    assert!(!holders(&data).is_empty(), "a dry run erases nothing");
    let unexplained = run(&scheme, &["erase", "--transfer", id]).fails();
    assert!(unexplained.contains("--reason is missing"), "{unexplained}");
    run(&scheme, &["erase", "--transfer", id, "--reason", "request 31"]).succeeds();
    let all = wait_until_erased(&scheme);
    assert_eq!((&all[0]["subject"], &all[0]["reason"]), (&id.into(), &"request 31".into()));
    assert_eq!(holders(&data), Vec::<PathBuf>::new());
    let explained = run(&scheme, &["explain", id]).succeeds().out();
    assert!(explained.contains("message   erased on "), "{explained}");
    assert!(explained.contains("because: request 31"), "{explained}");
    let kept = run(&scheme, &["explain", &other.id]).succeeds().out();
    assert!(kept.contains("message   stored"), "{kept}");
    // A resend is still recognised, and answered from the fields of the record.
    scheme.send(&prepare_with_note(&transfer), 202);
    scheme.wait_until_delivered();
    let listed = run(&scheme, &["erase", "list"]).succeeds().out();
    assert!(listed.contains("DONE") && listed.contains(id), "{listed}");
    let record = all[0]["logIndex"].to_string();
    let shown = run(&scheme, &["erase", "show", &record]).succeeds().out();
    assert!(shown.contains(&format!("erasure {record}: DONE\n")), "{shown}");
    assert!(shown.contains("  contents   2 messages, 0 of them waiting\n"), "{shown}");
    assert!(run(&scheme, &["erase", "show", "1"]).fails().contains("record 1 ordered no erasure"));
    scheme.switch.stop(Signal::TERM);
    let mut offline = Command::new(PROGRAM);
    offline.args(["explain", id, "--data", text(&data)]);
    let explained = finish(offline).succeeds().out();
    assert_eq!(explained.matches("because: request 31").count(), 2, "{explained}");
    let proof = verified(&scheme.home);
    assert_eq!(proof["messages_erased"], 2, "{proof}");
    assert_eq!(proof["erasures"][0]["contents_erased"], 2, "{proof}");
    assert_eq!(proof["erasures"][0]["reason"], "request 31", "{proof}");
    let switch = scheme.home.serve();
    switch.stop(Signal::TERM);
}

/// A quote for a party, with a note, and the payment of the same transaction.
pub(crate) fn pay_party(scheme: &Scheme, number: &str) -> Transfer {
    let transfer = Transfer::of("10");
    let quote = uuid();
    let party = |number: &str, fsp: &str| {
        json!({"partyIdInfo":
            {"partyIdType": "MSISDN", "partyIdentifier": number, "fspId": fsp}})
    };
    let body = json!({
        "quoteId": quote,
        "transactionId": transfer.id,
        "payer": party("254700000009", "payerfsp"),
        "payee": party(number, "payeefsp"),
        "amountType": "RECEIVE",
        "amount": {"currency": "USD", "amount": "10"},
        "transactionType":
            {"scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER"},
        "note": SECRET,
    });
    let asked = Message::new("POST", "/quotes", "payerfsp").to("payeefsp");
    scheme.send(&asked.body(body.to_string()), 202);
    scheme.send(&prepare_with_note(&transfer), 202);
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    scheme.wait_until_delivered();
    transfer
}

/// Registers a party, and waits for the answer to its FSP.
pub(crate) fn register(scheme: &Scheme, path: &str) {
    let body = r#"{"fspId":"payeefsp","currency":"USD"}"#;
    scheme.send(&Message::new("POST", path, "payeefsp").body(body), 202);
    scheme.payee.wait("PUT", path);
    scheme.wait_until_delivered();
    scheme.payee.take(0);
}

#[test]
fn contents_about_a_party_are_erased_and_the_party_registers_again() {
    const NUMBER: &str = "254700000001";
    let scheme = Scheme::configured("[quotes]\npersist = true\n");
    let path = format!("/participants/MSISDN/{NUMBER}");
    register(&scheme, &path);
    let own = pay_party(&scheme, NUMBER);
    let other = pay_party(&scheme, "254700000002");
    let party = ["erase", "--party", "MSISDN", NUMBER];
    let with = |more: &[&str]| run(&scheme, &[&party[..], more].concat());
    let plan = with(&["--dry-run", "--json"]).succeeds().json();
    // Registration, quote, prepare, fulfilment.
    assert_eq!((&plan["contents"], &plan["isRegistered"]), (&4.into(), &true.into()), "{plan}");
    let shown = with(&["--dry-run"]).succeeds().out();
    assert!(shown.contains("the party is registered: release it first"), "{shown}");
    let refused = with(&["--reason", "request 32"]).fails();
    assert!(refused.contains("release it first"), "{refused}");
    run(&scheme, &["party", "release", "MSISDN", NUMBER]).succeeds();
    scheme.wait_until_delivered();
    let refused = with(&["--reason", &format!("request of {NUMBER}")]).fails();
    assert!(refused.contains("the reason must not contain the identifier"), "{refused}");
    // The quote names the payer.
    let other_reason = ["--reason", "asked by 254700000009"];
    let before = crate::support::message::date_time(1_000);
    for selection in
        [&party[..], &["erase", "--transfer", &own.id], &["erase", "--before", &before]]
    {
        let refused = run(&scheme, &[selection, &other_reason].concat()).fails();
        assert!(refused.contains("an identifier of a party in the contents"), "{refused}");
    }
    with(&["--reason", "request 32"]).succeeds();
    let all = wait_until_erased(&scheme);
    assert_eq!((&all[0]["form"], &all[0]["subject"]), (&"PARTY".into(), &"MSISDN".into()));
    let explained = run(&scheme, &["explain", &own.id]).succeeds().out();
    assert_eq!(explained.matches("message   erased on ").count(), 3, "{explained}");
    let kept = run(&scheme, &["explain", &other.id]).succeeds().out();
    assert!(!kept.contains("erased on"), "{kept}");
    let gone = with(&["--dry-run", "--json"]).succeeds().json();
    assert_eq!(gone["contents"], 0, "{gone}");

    // The erased party is a new one.
    register(&scheme, &path);
    scheme.send(&Message::new("GET", &path, "payerfsp"), 202);
    assert!(scheme.payer.wait("PUT", &path).text().contains("payeefsp"));
    let plan = with(&["--dry-run", "--json"]).succeeds().json();
    assert_eq!((&plan["contents"], &plan["isRegistered"]), (&1.into(), &true.into()), "{plan}");
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    let proof = verified(&scheme.home);
    // With the release.
    assert_eq!(proof["erasures"][0]["contents_erased"], 5, "{proof}");
    let trail = scheme.home.offline(&["audit", "export"]).succeeds().out();
    assert!(!trail.contains(&format!("request of {NUMBER}")), "{trail}");
    assert!(!trail.contains("asked by 254700000009"), "{trail}");
    assert!(trail.contains("it has an identifier of a party"), "{trail}");
}

#[test]
fn identifiers_with_signs_of_a_query_are_found() {
    let scheme = Scheme::configured("");
    let body = r#"{"fspId":"payeefsp","currency":"USD"}"#;
    for (id, in_path) in [("a+b&c@example.org", "a%2Bb%26c@example.org"), ("+2547", "%2B2547")] {
        let id_type = if id.contains('@') { "EMAIL" } else { "MSISDN" };
        let path = format!("/participants/{id_type}/{in_path}");
        scheme.send(&Message::new("POST", &path, "payeefsp").body(body), 202);
        scheme.wait_until_delivered();
        let plan = run(&scheme, &["erase", "--party", id_type, id, "--dry-run", "--json"]);
        let plan = plan.succeeds().json();
        assert_eq!((&plan["contents"], &plan["isRegistered"]), (&1.into(), &true.into()), "{plan}");
    }
}

#[test]
fn erasures_before_a_time_reach_archive_and_backup() {
    let directory = tempfile::tempdir().unwrap();
    let [archive, backup] = ["archive", "backup"].map(|name| directory.path().join(name));
    for path in [&archive, &backup] {
        fs::create_dir(path).unwrap();
    }
    let scheme = Scheme::configured(&format!(
        "[archive]\nto = \"file://{}\"\nkeep_segments = 0\n[backup]\nto = \"file://{}\"\n\
         every_seconds = 1\n",
        archive.display(),
        backup.display()
    ));
    pay_with_note(&scheme, "10");
    let before = crate::support::message::date_time(1_000);
    let plan = run(&scheme, &["erase", "--before", &before, "--dry-run", "--json"]).succeeds();
    assert_eq!(plan.json()["contents"], 2, "prepare and fulfilment, of all records");
    run(&scheme, &["erase", "--before", &before, "--reason", "retention"]).succeeds();
    wait_until_erased(&scheme);
    let kept = pay_with_note(&scheme, "30");
    let is_archived = || archive.join("segments").is_dir();
    let is_copied = || !holders(&backup).is_empty() && is_archived();
    let deadline = Instant::now() + PATIENCE;
    while !is_copied() {
        assert!(Instant::now() < deadline, "backup and archive are written");
        thread::sleep(Duration::from_millis(100));
    }
    let data = scheme.home.data();
    assert_eq!(holders(&data).len(), 1, "the later payment");
    let explained = run(&scheme, &["explain", &kept.id]).succeeds().out();
    assert!(explained.contains("message   stored"), "{explained}");
    scheme.switch.stop(Signal::TERM);
    let proof = verified(&scheme.home);
    assert_eq!(proof["erasures"][0]["form"], "BEFORE", "{proof}");
}

/// An order that only the copy still has is not taken back by a later one in the same segment.
#[test]
fn an_order_in_the_copy_stays_there() {
    let directory = tempfile::tempdir().unwrap();
    let scheme = Scheme::configured(&format!(
        "[backup]\nto = \"file://{}\"\nevery_seconds = 3600\n",
        directory.path().display()
    ));
    let [first, second] = ["10", "20"].map(|amount| pay_with_note(&scheme, amount));
    run(&scheme, &["erase", "--transfer", &first.id, "--reason", "request 44"]).succeeds();
    wait_for_state(&scheme, "IN_COPY");
    run(&scheme, &["erase", "--transfer", &second.id, "--reason", "request 45"]).succeeds();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = scheme.admin.json("/erasures");
        assert_eq!(all[1]["state"], "IN_COPY", "{all}");
        if all[0]["state"] == "IN_COPY" {
            break;
        }
        assert!(Instant::now() < deadline, "{all}");
        thread::sleep(Duration::from_millis(50));
    }
    scheme.end();
}

/// Erases all contents of the first segment.
pub(crate) fn erase_by_hand(data: &Path) {
    let path = data.join("00000000000000000001.segment");
    let bytes = fs::read(&path).unwrap();
    let mut erased = bytes[..512].to_vec();
    let mut at = 512;
    while at < bytes.len() {
        let frame = record::frame::Frame::parse(&bytes[at..]).unwrap();
        at += frame.as_bytes().len();
        frame.erase(&mut erased, |_| true);
    }
    fs::write(&path, erased).unwrap();
}

/// Without its order on the log, a missing content is a fault.
#[test]
fn contents_that_no_order_erased_are_a_fault() {
    let scheme = Scheme::start();
    pay_with_note(&scheme, "10");
    scheme.switch.stop(Signal::TERM);
    let data = scheme.home.data();
    erase_by_hand(&data);
    let mut command = Command::new(PROGRAM);
    command.args(["verify", "--data", text(&data)]);
    let fault = finish(command).fails();
    assert!(fault.contains("no approved erasure names the record"), "{fault}");
}

#[test]
fn two_operators_order_an_erasure() {
    let office = Office::configured("");
    let [amina, benta] = ["amina", "benta"].map(|name| office.add(name, "privacy"));
    let admin = Admin::new(&office.home, &office.switch);
    admin.prepare_hub();
    admin.onboard("payerfsp", "http://127.0.0.1:9", "1000", "1000");
    let party =
        r#"{"parties":[{"partyIdType":"MSISDN","partyIdentifier":"1","fspId":"payerfsp"}]}"#;
    assert_eq!(admin.call("POST", "/parties", party).status, 200);
    let viewer = office.add("chen", "viewer");
    let order = "erase --before 2030-01-01T00:00:00Z --reason retention";
    let refused = office.run(&viewer, order).fails();
    assert!(refused.contains("chen lacks the permission \"erase\""), "{refused}");
    let proposed = office.run(&amina, order);
    assert_eq!(proposed.status.code(), Some(3), "{proposed:?}");
    let own = office.run(&amina, "proposal approve 1").fails();
    assert!(own.contains("the operator who proposed the change cannot approve it"), "{own}");
    assert!(office.run(&amina, "erase list").succeeds().out().contains("no erasures"));
    office.run(&benta, "proposal approve 1").succeeds();
    let listed = office.run(&benta, "erase list").succeeds().out();
    assert!(listed.contains("amina, operator:benta") || listed.contains("benta"), "{listed}");
    office.end(Signal::TERM);
}

/// Waits until the newest erasure has this state. A change is made in each round.
fn wait_for_state(scheme: &Scheme, state: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let newest = scheme.admin.json("/erasures")[0].clone();
        if newest["state"] == state {
            return newest;
        }
        assert!(Instant::now() < deadline, "{newest}");
        scheme.admin.set_limit("payerfsp", "1000");
        thread::sleep(Duration::from_millis(200));
    }
}

/// Waits until the newest erasure waits for this number of contents.
fn wait_for_waiting(scheme: &Scheme, contents: u64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let newest = scheme.admin.json("/erasures")[0].clone();
        if newest["contentsWaiting"] == contents {
            assert_eq!(newest["state"], "RUNNING", "{newest}");
            return;
        }
        assert!(Instant::now() < deadline, "{newest}");
        scheme.admin.set_limit("payerfsp", "1000");
        thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn contents_of_a_payment_in_flight_wait_for_its_end() {
    let scheme = Scheme::start();
    let transfer = Transfer::of("10");
    scheme.send(&prepare_with_note(&transfer), 202);
    scheme.wait_until_delivered();
    run(&scheme, &["erase", "--transfer", &transfer.id, "--reason", "request 33"]).succeeds();
    wait_for_waiting(&scheme, 1);
    assert!(!holders(&scheme.home.data()).is_empty(), "the payment needs its message");
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    scheme.wait_until_delivered();
    wait_until_erased(&scheme);
    assert_eq!(holders(&scheme.home.data()), Vec::<PathBuf>::new());
    scheme.end();
}

/// The code of the payee is in its message only. After the erasure the hub answers with its own.
#[test]
fn an_erased_abort_is_answered_from_its_fields() {
    let scheme = Scheme::start();
    let transfer = Transfer::of("10");
    scheme.send(&transfer.prepare(), 202);
    scheme.send(&transfer.error("5104", SECRET), 200);
    scheme.wait_until_delivered();
    let path = transfer.path();
    let asked = |of_payee: &str, expected: bool| {
        scheme.payer.take(0);
        scheme.send(&transfer.get("payerfsp"), 202);
        let answer = scheme.payer.wait("PUT", &path).text();
        assert_eq!((answer.contains(of_payee), answer.contains(SECRET)), (expected, expected));
        answer
    };
    asked("5104", true);
    run(&scheme, &["erase", "--transfer", &transfer.id, "--reason", "request 34"]).succeeds();
    wait_until_erased(&scheme);
    let answer = asked("5104", false);
    assert!(answer.contains("ABORTED") && answer.contains("5000"), "{answer}");
    scheme.end();
}

/// The answers of the hub about a bulk of two items, and about the first item.
fn asked_about_bulk(scheme: &Scheme, bulk: &str, item: &str) -> (Value, Value) {
    let asked = |path: String| -> Value {
        scheme.payer.take(0);
        scheme.send(&Message::new("GET", &path, "payerfsp"), 202);
        serde_json::from_str(&scheme.payer.wait("PUT", &path).text()).unwrap()
    };
    (asked(format!("/bulkTransfers/{bulk}")), asked(format!("/transfers/{item}")))
}

/// The contents of a bulk wait for its end. Then the hub answers from the fields: without lists of
/// extensions, and with its own code in place of the payee's.
#[test]
fn contents_of_a_bulk_transfer_are_erased_after_its_end() {
    let scheme = Scheme::start();
    let (id, items) = (uuid(), [uuid(), uuid()]);
    let bulk = noted_bulk(&id, &items, SECRET);
    scheme.send(&bulk, 202);
    scheme.wait_until_delivered();
    let plan = ["erase", "--transfer", &items[1], "--dry-run", "--json"];
    let plan = run(&scheme, &plan).succeeds().json();
    assert_eq!((&plan["contents"], &plan["bulkMessages"]), (&1.into(), &1.into()), "{plan}");
    run(&scheme, &["erase", "--transfer", &items[1], "--reason", "request 41"]).succeeds();
    wait_for_waiting(&scheme, 1);
    scheme.send(&noted_answer(&id, &items, SECRET), 200);
    scheme.wait_until_delivered();
    let results = |answer: &Value| answer["individualTransferResults"].clone();
    let (of_bulk, of_item) = asked_about_bulk(&scheme, &id, &items[0]);
    let error = &results(&of_bulk)[1]["errorInformation"];
    assert_eq!((&error["errorCode"], &error["errorDescription"]), (&"5104".into(), &SECRET.into()));
    wait_until_erased(&scheme);
    run(&scheme, &["erase", "--transfer", &id, "--reason", "request 42"]).succeeds();
    wait_until_erased(&scheme);
    assert_eq!(holders(&scheme.home.data()), Vec::<PathBuf>::new());

    let (after, item_after) = asked_about_bulk(&scheme, &id, &items[0]);
    assert_eq!(after["bulkTransferState"], "COMPLETED", "{after}");
    assert_eq!(after["completedTimestamp"], of_bulk["completedTimestamp"], "{after}");
    let [first, second] = [&results(&after)[0], &results(&after)[1]];
    assert_eq!(first, &json!({"fulfilment": FULFILMENT, "transferId": items[0]}), "{after}");
    assert_eq!(second["errorInformation"]["errorCode"], "5000", "{after}");
    let mut expected = of_item;
    expected.as_object_mut().unwrap().remove("extensionList");
    assert_eq!(item_after, expected);
    // Resends are recognised by their hash.
    scheme.payer.take(0);
    scheme.send(&bulk, 202);
    let path = format!("/bulkTransfers/{id}");
    let resent: Value = serde_json::from_str(&scheme.payer.wait("PUT", &path).text()).unwrap();
    assert_eq!(resent, after);
    scheme.send(&noted_bulk(&id, &items, "another"), 202);
    assert!(scheme.payer.wait("PUT", &format!("{path}/error")).text().contains("3106"));
    let explained = run(&scheme, &["explain", &id]).succeeds().out();
    assert!(explained.contains("because: request 41"), "{explained}");
    assert!(explained.contains("because: request 42"), "{explained}");
    scheme.wait_until_delivered();
    scheme.end();
}

/// After the erasure, an FSP gets state, time and fulfilment of a committed transfer.
#[test]
fn an_erased_fulfilment_is_answered_from_its_fields() {
    let scheme = Scheme::start();
    let transfer = pay_with_note(&scheme, "10");
    let path = transfer.path();
    let asked = || -> Value {
        scheme.payer.take(0);
        scheme.send(&transfer.get("payerfsp"), 202);
        serde_json::from_str(&scheme.payer.wait("PUT", &path).text()).unwrap()
    };
    let mut before = asked();
    assert_eq!(before["fulfilment"], FULFILMENT, "{before}");
    run(&scheme, &["erase", "--transfer", &transfer.id, "--reason", "request 43"]).succeeds();
    wait_until_erased(&scheme);
    before.as_object_mut().unwrap().remove("extensionList");
    assert_eq!(asked(), before);
    scheme.end();
}

/// A segment in an archive is replaced there.
#[test]
fn an_archived_segment_is_erased_by_a_running_switch() {
    let directory = tempfile::tempdir().unwrap();
    let scheme = Scheme::configured(&format!(
        "[archive]\nto = \"file://{}\"\nkeep_segments = 0\n",
        directory.path().display()
    ));
    let [first, second] = ["10", "20"].map(|amount| pay_with_note(&scheme, amount));
    // The erasure of the first payment closes the segment of both.
    run(&scheme, &["erase", "--transfer", &first.id, "--reason", "request 35"]).succeeds();
    wait_until_erased(&scheme);
    let plan = || {
        let arguments = ["erase", "--transfer", &second.id, "--dry-run", "--json"];
        run(&scheme, &arguments).succeeds().json()
    };
    let deadline = Instant::now() + PATIENCE;
    while plan()["archivedSegments"] != 1 {
        assert!(Instant::now() < deadline, "{}", plan());
        thread::sleep(Duration::from_millis(500));
    }
    let archived = || {
        let mut all: Vec<_> =
            files(directory.path()).iter().map(|it| fs::read(it).unwrap()).collect();
        all.sort();
        all
    };
    let before = archived();
    run(&scheme, &["erase", "--transfer", &second.id, "--reason", "request 36"]).succeeds();
    wait_until_erased(&scheme);
    assert_ne!(archived(), before, "the object was replaced");
    let explained = run(&scheme, &["explain", &second.id]).succeeds().out();
    assert_eq!(explained.matches("because: request 36").count(), 2, "{explained}");
    scheme.switch.stop(Signal::TERM);
    let proof = verified(&scheme.home);
    assert_eq!(proof["messages_erased"], 4, "{proof}");
}

/// A restored copy that ends before an order does not know it.
#[test]
fn erasures_are_ordered_again_after_the_restore_of_an_older_copy() {
    let directory = tempfile::tempdir().unwrap();
    let scheme = Scheme::start();
    let transfer = pay_with_note(&scheme, "10");
    let data = scheme.home.data();
    let copy = format!("file://{}", directory.path().join("copy").display());
    fs::create_dir(directory.path().join("copy")).unwrap();
    let backup = |data: &Path, arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).args(["--data", text(data)]);
        finish(command).succeeds().out()
    };
    backup(&data, &["backup", "--to", &copy]);
    let arguments = ["erase", "--transfer", &transfer.id, "--reason", "request 37"];
    run(&scheme, &arguments).succeeds();
    wait_for_state(&scheme, "DONE");
    let list = run(&scheme, &["erase", "list", "--json"]).succeeds().out();
    let file = directory.path().join("erasures.json");
    fs::write(&file, list).unwrap();
    let again = run(&scheme, &["erase", "--again", text(&file)]).succeeds().out();
    assert_eq!(again, "", "the log has the order");
    let Scheme { home, switch, payer, payee, other, .. } = scheme;
    switch.stop(Signal::TERM);

    fs::rename(&data, directory.path().join("old")).unwrap();
    let restored = backup(&data, &["restore", "--from", &copy]);
    assert!(restored.contains("order them again with `upesi erase --again LIST`"), "{restored}");
    assert!(!holders(&data).is_empty(), "the copy has the note");
    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    let scheme = Scheme { home, switch, admin, payer, payee, other };
    let again = run(&scheme, &["erase", "--again", text(&file)]).succeeds().out();
    assert!(again.contains("request 37"), "{again}");
    wait_until_erased(&scheme);
    assert_eq!(holders(&data), Vec::<PathBuf>::new());
    let again = run(&scheme, &["erase", "--again", text(&file)]).succeeds().out();
    assert_eq!(again, "", "the log has the new order");
    scheme.switch.stop(Signal::TERM);
}

/// These contents are recorded under a clock that is three days late.
#[test]
fn contents_are_erased_by_age() {
    let clocks = Clocks::new();
    clocks.set("old", -3 * 86_400);
    let home = Home::new();
    let mut command = home.command(Ports::free());
    clocks.lead("old", &mut command);
    let switch = home.started(command);
    let scheme = Scheme::over(home, switch);
    register(&scheme, "/participants/MSISDN/254700000001");
    let transfer = Transfer::of("10");
    scheme.send(&prepare_with_note(&transfer), 202);
    let completed = crate::support::message::date_time(-3 * 86_400_000);
    let answer = format!(
        "{{\"transferState\":\"COMMITTED\",\"completedTimestamp\":\"{completed}\",\
         \"fulfilment\":\"{FULFILMENT}\"}}"
    );
    scheme.send(&transfer.answer(&answer), 200);
    scheme.wait_until_delivered();
    let Scheme { home, switch, payer, payee, other, .. } = scheme;
    switch.stop(Signal::TERM);
    let settings = home.configuration();
    let text_before = fs::read_to_string(&settings).unwrap();
    let with = |days: &str| format!("{text_before}\n[retention]\n{days}\n");
    fs::write(&settings, with("payments_days = 1")).unwrap();
    let other_settings = settings.with_file_name("other.toml");
    fs::write(&other_settings, with("registrations_days = 2")).unwrap();

    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    let scheme = Scheme { home, switch, admin, payer, payee, other };
    let order = wait_for_state(&scheme, "DONE");
    assert_eq!(
        (&order["form"], &order["orderedBy"]),
        (&"RETAINED_PAYMENTS".into(), &"retention".into())
    );
    assert_eq!(order["reason"], "retention.payments_days = 1");
    assert_eq!(holders(&scheme.home.data()), Vec::<PathBuf>::new());
    let explained = run(&scheme, &["explain", &transfer.id]).succeeds().out();
    assert_eq!(explained.matches("because: retention.payments_days = 1").count(), 2, "{explained}");
    let plan = run(&scheme, &["retention", "plan", "--json"]).succeeds().json();
    let kinds = [&plan[0], &plan[1]].map(|it| (it["days"].clone(), it["contents"].clone()));
    assert_eq!(kinds, [(1, 0), (0, 0)].map(|(days, records)| (days.into(), records.into())));
    let arguments = ["retention", "plan", "--json", "--config", text(&other_settings)];
    let plan = run(&scheme, &arguments).succeeds().json();
    assert_eq!((&plan[1]["contents"], &plan[1]["segments"]), (&1.into(), &1.into()), "{plan}");
    let settings = scheme.admin.json("/configuration")["settings"].clone();
    let is_own = |it: &&Value| it["name"] == "retention.payments_days";
    let in_force = settings.as_array().unwrap().iter().find(is_own);
    assert_eq!(in_force.expect("the setting")["value"], "1", "{settings}");
    let shown = run(&scheme, &["retention", "plan"]).succeeds().out();
    assert!(shown.contains("1 day") && shown.contains("ever"), "{shown}");
    scheme.switch.stop(Signal::TERM);
    let proof = verified(&scheme.home);
    // The registration stays.
    assert_eq!(
        (&proof["messages_erased"], &proof["erasures"][0]["form"]),
        (&2.into(), &"RETAINED_PAYMENTS".into())
    );
}

/// Payments are kept for a day, and there were none: only registrations are ordered.
#[test]
fn days_without_contents_are_not_ordered() {
    let clocks = Clocks::new();
    clocks.set("old", -3 * 86_400);
    let home = Home::new();
    let mut command = home.command(Ports::free());
    clocks.lead("old", &mut command);
    let switch = home.started(command);
    let scheme = Scheme::over(home, switch);
    register(&scheme, "/participants/MSISDN/254700000001");
    let Scheme { home, switch, payer, payee, other, .. } = scheme;
    switch.stop(Signal::TERM);
    let settings = home.configuration();
    let text = fs::read_to_string(&settings).unwrap();
    let days = "[retention]\npayments_days = 1\nregistrations_days = 1\n";
    fs::write(&settings, format!("{text}\n{days}")).unwrap();
    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    let scheme = Scheme { home, switch, admin, payer, payee, other };
    let order = wait_for_state(&scheme, "DONE");
    assert_eq!(order["form"], "RETAINED_REGISTRATIONS", "{order}");
    assert_eq!(scheme.admin.json("/erasures").as_array().unwrap().len(), 1);
    scheme.switch.stop(Signal::TERM);
}
