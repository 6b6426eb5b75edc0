//! Erasures of everything that one participant sent, with the real program.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::archive::text;
use crate::erasure::{
    erase_by_hand, holders, pay_party, prepare_with_note, register, run, verified, wait_for_all,
    wait_until_erased,
};
use crate::operators::Office;
use crate::support::message::{Message, Transfer, date_time};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{PROGRAM, Printed, finish};

const NUMBER: &str = "254700000001";

/// Number of contents that a participant's erasure would erase.
fn planned(scheme: &Scheme, participant: &str, more: &[&str]) -> u64 {
    let arguments = ["erase", "--participant", participant, "--dry-run", "--json"];
    let plan = run(scheme, &[&arguments[..], more].concat()).succeeds().json();
    plan["contents"].as_u64().unwrap()
}

/// Quote and prepare of the payer are erased in log, archive and backup. The messages of the payee
/// and the later ones of the payer stay.
#[test]
fn the_messages_that_a_participant_sent_are_erased() {
    let directory = tempfile::tempdir().unwrap();
    let [archive, backup] = ["archive", "backup"].map(|name| directory.path().join(name));
    for path in [&archive, &backup] {
        fs::create_dir(path).unwrap();
    }
    let scheme = Scheme::configured(&format!(
        "[quotes]\npersist = true\n[archive]\nto = \"file://{}\"\nkeep_segments = 0\n[backup]\n\
         to = \"file://{}\"\nevery_seconds = 1\n",
        archive.display(),
        backup.display()
    ));
    register(&scheme, &format!("/participants/MSISDN/{NUMBER}"));
    let transfer = pay_party(&scheme, NUMBER);
    // Case is ignored, as for senders.
    assert_eq!([planned(&scheme, "payerfsp", &[]), planned(&scheme, "PayerFsp", &[])], [2, 2]);
    // The registration and the fulfilment.
    assert_eq!(planned(&scheme, "payeefsp", &[]), 2);
    assert_eq!(planned(&scheme, "payerfsp", &["--before", &date_time(-3_600_000)]), 0);
    let order = ["erase", "--participant", "PayerFsp", "--reason", "payerfsp has left the scheme"];
    let ordered = run(&scheme, &order).succeeds().out();
    assert!(ordered.contains("contents   2 messages\n"), "{ordered}");
    let later = Transfer::of("20");
    scheme.send(&prepare_with_note(&later), 202);
    scheme.send(&later.fulfil("COMMITTED"), 200);
    scheme.wait_until_delivered();
    let all = wait_until_erased(&scheme);
    let subject = all[0]["subject"].as_str().unwrap();
    assert_eq!((&all[0]["form"], all.as_array().unwrap().len()), (&"PARTICIPANT".into(), 1));
    assert!(subject.starts_with("payerfsp before 20"), "{subject}");
    let asked = scheme.admin.call("GET", &format!("/transactions/{}", transfer.id), "");
    assert_eq!(asked.status, 400);
    assert!(asked.text().contains("the message of the transfer was erased"), "{}", asked.text());
    let explained = run(&scheme, &["explain", &transfer.id]).succeeds().out();
    assert_eq!(explained.matches("because: payerfsp has left the scheme").count(), 2);
    assert!(explained.contains("message   stored"), "the fulfilment: {explained}");
    let kept = run(&scheme, &["explain", &later.id]).succeeds().out();
    assert!(!kept.contains("erased on"), "{kept}");
    let record = all[0]["logIndex"].to_string();
    let shown = run(&scheme, &["erase", "show", &record]).succeeds().out();
    assert!(shown.contains(&format!("  what       participant {subject}\n")), "{shown}");

    // Those of the later payment, by the selection of a list that the log does not have.
    let mut listed = run(&scheme, &["erase", "list", "--json"]).succeeds().json();
    let file = directory.path().join("erasures.json");
    let again = |listed: &Value| {
        fs::write(&file, listed.to_string()).unwrap();
        run(&scheme, &["erase", "--again", text(&file)]).succeeds().out()
    };
    assert_eq!(again(&listed), "", "the log has the order");
    listed[0]["orderedDate"] = date_time(-3_600_000).into();
    listed[0]["subject"] = format!("payerfsp before {}", date_time(60_000)).into();
    assert!(again(&listed).contains("again      participant payerfsp before "));
    wait_until_erased(&scheme);
    for place in [&scheme.home.data(), &archive, &backup] {
        assert_eq!(holders(place), Vec::<PathBuf>::new());
    }
    scheme.switch.stop(Signal::TERM);
    let proof = verified(&scheme.home);
    let erased = [0, 1].map(|order: usize| proof["erasures"][order]["contents_erased"].clone());
    assert_eq!((&proof["messages_erased"], erased), (&3.into(), [2.into(), 1.into()]), "{proof}");
}

/// A content of another participant, between those of an order, is missed by `verify`.
#[test]
fn an_order_of_a_participant_excuses_no_content_of_another_one() {
    let scheme = Scheme::start();
    let [first, second] = [scheme.pay("10"), scheme.pay("20")];
    run(&scheme, &["erase", "--participant", "payerfsp", "--reason", "left"]).succeeds();
    wait_until_erased(&scheme);
    for transfer in [&first, &second] {
        let explained = run(&scheme, &["explain", &transfer.id]).succeeds().out();
        assert_eq!(explained.matches("because: left").count(), 1, "{explained}");
    }
    scheme.switch.stop(Signal::TERM);
    verified(&scheme.home);
    let data = scheme.home.data();
    erase_by_hand(&data);
    let mut command = Command::new(PROGRAM);
    command.args(["verify", "--data", text(&data)]);
    let fault = finish(command).fails();
    assert!(fault.contains("no approved erasure names the record"), "{fault}");
}

#[test]
fn wrong_selections_of_a_participant_order_nothing() {
    let scheme = Scheme::start();
    scheme.pay("10");
    let with = |more: &[&str]| run(&scheme, &[&["erase", "--reason", "r"], more].concat());
    for (selection, expected) in [
        (&["--participant", "nofsp"][..], "participant not found"),
        (&["--participant", "Hub"], "the hub sends no messages"),
        (&["--participant", "a-name-of-more-than-thirty-two-bytes"], "the name of a participant"),
        (&["--participant", "payerfsp", "--party", "MSISDN", NUMBER], "cannot be used with"),
        (&["--participant", "payerfsp", "--before", "soon"], "\"before\""),
    ] {
        let refused = with(selection).fails();
        assert!(refused.contains(expected), "{selection:?}: {refused}");
    }
    let nothing = with(&["--participant", "otherfsp"]).succeeds().out();
    assert!(nothing.contains("nothing to erase"), "{nothing}");
    let before = date_time(-3_600_000);
    let nothing = with(&["--before", &before]).succeeds().out();
    assert!(nothing.contains("nothing to erase"), "{nothing}");
    let body = json!({ "before": before }).to_string();
    let refused = scheme.admin.call("POST", "/erasures", &body);
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("no recorded message is selected"), "{}", refused.text());
    let missing = with(&[]).fails();
    for selection in ["--transfer", "--before", "--party", "--participant", "--again"] {
        assert!(missing.contains(selection), "{missing}");
    }
    assert_eq!(scheme.admin.json("/erasures"), json!([]));
    scheme.end();
}

/// With the registrations of its parties by operators, whose identifiers its customers have.
#[test]
fn two_operators_erase_the_contents_of_a_participant() {
    let office = Office::configured("");
    let [amina, benta] = ["amina", "benta"].map(|name| office.add(name, "privacy"));
    let admin = Admin::new(&office.home, &office.switch);
    admin.prepare_hub();
    for name in ["payerfsp", "payeefsp"] {
        admin.onboard(name, "http://127.0.0.1:9", "1000", "1000");
    }
    for (id, fsp) in [(NUMBER, "payerfsp"), ("254700000002", "payeefsp")] {
        let party = json!({"partyIdType": "MSISDN", "partyIdentifier": id, "fspId": fsp});
        let body = json!({ "parties": [party] }).to_string();
        assert_eq!(admin.call("POST", "/parties", &body).status, 200);
    }
    let order = "erase --participant payerfsp --reason left";
    let proposed = office.run(&amina, order);
    assert_eq!(proposed.status.code(), Some(3), "{proposed:?}");
    let listed = office.run(&benta, "proposal list").succeeds().out();
    assert!(listed.contains("contents of 1 message of participant payerfsp before 20"), "{listed}");
    assert!(office.run(&amina, "proposal approve 1").fails().contains("cannot approve it"));
    let reason = format!("proposal approve 1 --reason {NUMBER}");
    let refused = office.run(&benta, &reason).fails();
    assert!(refused.contains("an identifier of a party in the contents"), "{refused}");
    office.run(&benta, "proposal approve 1").succeeds();
    let mut listed = String::new();
    while !listed.contains("DONE") {
        admin.set_limit("payerfsp", "1000");
        listed = office.run(&benta, "erase list").succeeds().out();
    }
    let data = office.home.data();
    let has = |id: &str| crate::party_erasure::holders(&data, id);
    assert_eq!(has(NUMBER), Vec::<PathBuf>::new());
    assert_ne!(has("254700000002"), Vec::<PathBuf>::new(), "a party of another participant");
    office.end(Signal::TERM).verify().succeeds();
}

/// A prepare in flight is needed until it has ended; the list counts it as waiting.
#[test]
fn contents_of_a_participant_wait_for_the_end_of_its_payment() {
    let scheme = Scheme::start();
    let transfer = Transfer::of("10");
    scheme.send(&prepare_with_note(&transfer), 202);
    scheme.wait_until_delivered();
    let other = Message::new("POST", "/participants/MSISDN/254700000001", "payeefsp");
    scheme.send(&other.body(r#"{"fspId":"payeefsp","currency":"USD"}"#), 202);
    scheme.wait_until_delivered();
    run(&scheme, &["erase", "--participant", "payerfsp", "--reason", "left"]).succeeds();
    run(&scheme, &["erase", "--participant", "payeefsp", "--reason", "left"]).succeeds();
    let is_erased = || crate::party_erasure::holders(&scheme.home.data(), NUMBER).is_empty();
    let waiting = |all: &Value| [0, 1].map(|at: usize| all[at]["contentsWaiting"].as_u64());
    wait_for_all(&scheme, |all| is_erased() && waiting(all) == [Some(0), Some(1)]);
    assert!(!holders(&scheme.home.data()).is_empty(), "the payment needs its message");
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    scheme.wait_until_delivered();
    wait_until_erased(&scheme);
    assert_eq!(holders(&scheme.home.data()), Vec::<PathBuf>::new());
    scheme.end();
}
