//! Contents of participants that have data keys of their own, with the real program.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use testkit::http::PATIENCE;

use crate::encryption::{KeyFile, offline, refusal};
use crate::erasure::{pay_party, run, wait_until_erased};
use crate::support::message::Transfer;
use crate::support::scheme::Scheme;
use crate::support::switch::{Home, Printed};

const NUMBER: &str = "254700000001";

fn settings(key: &KeyFile) -> String {
    format!("{}participant_keys = [\"payerfsp\"]\n", key.setting())
}

/// The data keys of the payer: those in use, and those that were destroyed.
fn keys_of_payer(home: &Home) -> [Vec<String>; 2] {
    let all = offline(&["keys", "list", "--json"], &home.data(), None).succeeds().json();
    let own = all.as_array().unwrap().iter().filter(|key| key["participant"] == "payerfsp");
    let (destroyed, kept): (Vec<&Value>, Vec<_>) = own.partition(|it| it["destroyed"].is_string());
    [kept, destroyed].map(|keys| keys.iter().map(|it| it["id"].to_string()).collect())
}

/// Waits until some of the payer's keys are destroyed. Returns those that are left.
fn wait_until_destroyed(scheme: &Scheme, count: usize) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let [kept, destroyed] = keys_of_payer(&scheme.home);
        if destroyed.len() == count {
            return kept;
        }
        assert!(Instant::now() < deadline, "{kept:?}, {destroyed:?}: {}", scheme.switch.messages());
        // A record lets the switch close the segment that it writes.
        scheme.admin.set_limit("payerfsp", "1000");
        thread::sleep(Duration::from_millis(200));
    }
}

/// An old segment and an old file of keys are put back; the first alone shows nothing any more.
#[test]
fn keys_of_a_participant_are_destroyed_with_its_contents() {
    let key = KeyFile::new("1");
    let scheme = Scheme::configured(&settings(&key));
    let [other, before] = [scheme.pay("5"), scheme.pay("10")];
    pay_party(&scheme, NUMBER);
    // Closes the segment.
    run(&scheme, &["erase", "--transfer", &other.id, "--reason", "asked for"]).succeeds();
    wait_until_erased(&scheme);
    let data = scheme.home.data();
    let [kept, destroyed] = keys_of_payer(&scheme.home);
    assert_eq!((kept.len(), destroyed.len()), (1, 0));
    let old = ["00000000000000000001.segment", "data.keys"]
        .map(|name| (data.join(name), fs::read(data.join(name)).unwrap()));

    let order = ["erase", "--participant", "payerfsp", "--reason", "payerfsp has left"];
    run(&scheme, &order).succeeds();
    let later = scheme.pay("20");
    wait_until_erased(&scheme);
    let left = wait_until_destroyed(&scheme, 1);
    assert!(!left.contains(&kept[0]) && left.len() == 1, "{left:?}");
    let listed = offline(&["keys", "list"], &data, None).succeeds().out();
    assert_eq!(listed.matches("payerfsp").count(), 2, "{listed}");
    scheme.switch.stop(Signal::TERM);
    let is_shown = |id: &str| {
        let explained = offline(&["explain", id], &data, Some(&key.source())).succeeds().out();
        let erased = explained.matches("because: payerfsp has left").count();
        assert_eq!(explained.matches("message   stored").count() + erased, 2, "{explained}");
        erased == 0
    };
    assert!(!is_shown(&before.id) && is_shown(&later.id));
    offline(&["verify"], &data, Some(&key.source())).succeeds();

    // A segment from before the erasure: the payer's messages in it cannot be decrypted.
    fs::write(&old[0].0, &old[0].1).unwrap();
    assert!(!is_shown(&before.id));
    // With the keys of that time they can, and the switch erases and destroys them again.
    let newer = fs::read(&old[1].0).unwrap();
    fs::write(&old[1].0, &old[1].1).unwrap();
    let explained = offline(&["explain", &before.id], &data, Some(&key.source())).fails();
    assert!(explained.contains("which is not in data.keys"), "the later segments: {explained}");
    fs::write(&old[1].0, newer).unwrap();
    let switch = scheme.home.serve();
    switch.stop(Signal::TERM);
    offline(&["verify"], &data, Some(&key.source())).succeeds();
}

/// Keys live as long as a content needs them: here, of a payment in flight.
#[test]
fn a_key_stays_while_a_content_needs_it() {
    let key = KeyFile::new("1");
    let scheme = Scheme::configured(&settings(&key));
    let transfer = Transfer::of("10");
    scheme.send(&transfer.prepare(), 202);
    scheme.wait_until_delivered();
    let [kept, _] = keys_of_payer(&scheme.home);
    run(&scheme, &["erase", "--participant", "payerfsp", "--reason", "left"]).succeeds();
    // The job has looked at the order several times.
    for _ in 0..30 {
        scheme.admin.set_limit("payerfsp", "1000");
        thread::sleep(Duration::from_millis(100));
    }
    let [waiting, destroyed] = keys_of_payer(&scheme.home);
    assert_eq!((waiting.len(), destroyed.len()), (2, 0));
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    scheme.wait_until_delivered();
    let left = wait_until_destroyed(&scheme, 1);
    assert!(!left.contains(&kept[0]), "{left:?}");
    scheme.switch.stop(Signal::TERM);
    offline(&["verify"], &scheme.home.data(), Some(&key.source())).succeeds();
}

#[test]
fn wrong_lists_of_participants_with_keys_are_refused() {
    let key = KeyFile::new("1");
    let home = Home::new();
    let many: Vec<_> = (0..257).map(|at| format!("\"bank-{at}\"")).collect();
    let with = |list: &str| format!("{}participant_keys = [{list}]\n", key.setting());
    for (text, expected) in [
        (with("\"bank-a\", \"BANK-A\""), "names BANK-A twice"),
        (with("\"bank a\""), "\"bank a\" has other characters than"),
        (with("\"\""), "is not a name of 1 to 32 characters"),
        (with(&many.join(",")), "has 257 names; at most 256 are possible"),
        (
            "[encryption]\nparticipant_keys = [\"bank-a\"]\n".to_owned(),
            "encryption.participant_keys needs a master key",
        ),
    ] {
        let refused = refusal(&home, &text);
        assert!(refused.contains(expected), "{text}: {refused}");
    }
}
