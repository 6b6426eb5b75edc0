//! Old final transfers: whatever happens to the cold store, they are answered as on the first day.
//! With the tests' configuration none of them stays in memory.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::fsp::{Callback, line};
use crate::support::message::{Message, Transfer};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Printed, files};

/// Number of transfers of each kind.
const TRANSFERS: usize = 5;
const PARTY: &str = "/participants/MSISDN/+254700000009";
const REBUILT: &str = "upesi: the cold store is rebuilt from the log: ";

/// The end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Committed,
    Aborted,
    Expired,
    Refused,
}

/// Final transfers, and their first responses.
struct Past(Vec<One>);

/// A transfer and the payee's response, which a resend repeats byte for byte.
struct One {
    end: End,
    transfer: Transfer,
    answer: Message,
}

impl Past {
    /// Transfers of every kind, and a registered party. All callbacks have been received, and none
    /// is in memory.
    fn new(scheme: &Scheme) -> Self {
        let mut all = Vec::new();
        for _ in 0..TRANSFERS {
            for end in [End::Committed, End::Aborted, End::Expired, End::Refused] {
                let amount = if end == End::Refused { "100000" } else { "0.25" };
                let life = if end == End::Expired { 1_500 } else { 60_000 };
                let transfer = Transfer::of(amount).expiring(life);
                scheme.send(&transfer.prepare(), 202);
                let answer = match end {
                    End::Aborted => transfer.error("5104", "no"),
                    _ => transfer.fulfil("COMMITTED"),
                };
                if matches!(end, End::Committed | End::Aborted) {
                    scheme.send(&answer, 200);
                }
                all.push(One { end, transfer, answer });
            }
        }
        let body = "{\"fspId\":\"payeefsp\",\"currency\":\"USD\"}";
        scheme.send(&Message::new("POST", PARTY, "payeefsp").body(body), 202);
        scheme.admin.wait_for("upesi_transfers_in_flight", |count| count == 0);
        discard_callbacks(scheme);
        Self(all)
    }

    /// Queries and resends all transfers, unchanged and changed. No position changes.
    fn check(&self, scheme: &Scheme) {
        scheme.admin.wait_for("upesi_transfers_ended_in_memory", |count| count == 0);
        let found = scheme.admin.metric("upesi_store_reads_found_total");
        let balances = balances(scheme);
        self.0.iter().for_each(|one| check_one(scheme, one));
        assert_eq!(balances, self::balances(scheme), "nothing moved");
        let again = scheme.admin.metric("upesi_store_reads_found_total");
        assert!(found + self.0.len() as u64 <= again, "the answers came from the store");
        scheme.send(&Message::new("GET", PARTY, "payerfsp"), 202);
        let served = format!("PUT {PARTY} from Hub: {{\"fspId\":\"payeefsp\"}}");
        assert_eq!(line(&scheme.payer.take(1)[0]), served);
    }
}

fn check_one(scheme: &Scheme, one: &One) {
    let One { end, transfer, answer } = one;
    let state = match end {
        End::Committed => "PUT {} from Hub: COMMITTED with fulfilment",
        End::Aborted => "PUT {} from Hub: ABORTED, cause 5104: no",
        End::Expired => "PUT {} from Hub: ABORTED, cause 3303: Transfer expired",
        End::Refused => "PUT {} from Hub: ABORTED",
    };
    let starts = |received: &[Callback]| {
        let line = line(&received[0]);
        let state = state.replace("{}", &transfer.path());
        assert!(line.starts_with(&state), "{end:?}: {line}");
    };
    scheme.send(&transfer.get("payerfsp"), 202);
    starts(&scheme.payer.take(1));
    scheme.send(&transfer.prepare(), 202);
    starts(&scheme.payer.take(1));
    let changed = Message::new("POST", "/transfers", "payerfsp").to("payeefsp");
    let body = String::from_utf8(transfer.prepare().bytes().to_vec()).unwrap();
    scheme.send(&changed.body(body.replace("\"amount\":\"", "\"amount\":\"1")), 202);
    let modified = line(&scheme.payer.take(1)[0]);
    assert!(modified.contains("/error from Hub: 3106"), "{end:?}: {modified}");
    // Repeats the payee's response, or sends a first one if there was none.
    scheme.send(answer, 200);
    let callback = line(&scheme.payee.take(1)[0]);
    let expected = match end {
        End::Committed => "COMMITTED with fulfilment",
        End::Aborted => "/error from",
        End::Expired => "/error from Hub: 3",
        End::Refused => "/error from Hub: 3100",
    };
    assert!(callback.contains(expected), "{end:?}: {callback}");
    scheme.wait_until_delivered();
}

/// Waits until no notice is owed, and discards the received callbacks.
fn discard_callbacks(scheme: &Scheme) {
    scheme.wait_until_delivered();
    for fsp in [&scheme.payer, &scheme.payee, &scheme.other] {
        fsp.take(0);
    }
}

fn balances(scheme: &Scheme) -> [String; 2] {
    ["payerfsp", "payeefsp"].map(|name| scheme.admin.position(name))
}

/// Stops the process, changes its directory, and restarts it. Its message about the store contains
/// `word`; without `word` there is no message.
fn restart(mut scheme: Scheme, harm: impl FnOnce(&Path), word: Option<&str>) -> Scheme {
    let ports = scheme.switch.ports();
    scheme.switch.kill();
    harm(&scheme.home.data());
    scheme.switch = scheme.home.serve_on(ports);
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    let greeting = &scheme.switch.greeting;
    let output_text = greeting.lines().find_map(|line| line.strip_prefix(REBUILT));
    match (output_text, word) {
        (None, None) => (),
        (Some(output_text), Some(word)) => assert!(output_text.contains(word), "{output_text}"),
        _ => panic!("{word:?} is not what it output_text: {greeting}"),
    }
    scheme
}

/// Compares the state hash of the switch with that of its log.
fn check_state(scheme: Scheme) {
    let state = scheme.admin.quiet_state();
    scheme.switch.stop(Signal::TERM);
    let proof: Value = serde_json::from_slice(&scheme.home.verify().stdout).unwrap();
    assert_eq!(proof["ok"], true, "{proof}");
    assert_eq!(proof["state_hash"], state["stateHash"], "{proof} {state}");
}

#[test]
fn old_transfers_are_answered_after_a_kill_and_without_their_store() {
    let scheme = Scheme::start();
    let past = Past::new(&scheme);
    past.check(&scheme);
    let scheme = restart(scheme, |_| (), None);
    past.check(&scheme);
    let delete = |data: &Path| fs::remove_dir_all(data.join("store")).unwrap();
    let scheme = restart(scheme, delete, Some("empty"));
    past.check(&scheme);
    check_state(scheme);
}

#[test]
fn damaged_or_foreign_store_is_rebuilt() {
    let scheme = Scheme::start();
    let past = Past::new(&scheme);
    past.check(&scheme);
    let damage = |data: &Path| {
        for file in files(&data.join("store")) {
            fs::write(file, b"not what was written").unwrap();
        }
    };
    let scheme = restart(scheme, damage, Some("current is corrupt"));
    past.check(&scheme);
    let truncate = |data: &Path| {
        for path in files(&data.join("store")) {
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        }
    };
    let scheme = restart(scheme, truncate, Some("current is corrupt"));
    past.check(&scheme);
    let other = Scheme::start();
    Past::new(&other);
    let stranger = other.home.data().join("store");
    other.switch.stop(Signal::TERM);
    let swap = |data: &Path| replace(&stranger, &data.join("store"));
    let scheme = restart(scheme, swap, Some("another log"));
    past.check(&scheme);
    check_state(scheme);
}

#[test]
fn store_ahead_of_its_log_reveals_a_truncated_log() {
    let scheme = Scheme::start();
    let past = Past::new(&scheme);
    let aside = tempfile::tempdir().unwrap();
    let (log, store) = (aside.path().join("log"), aside.path().join("store"));
    // A copy of the log as it is now, and of the store at a later time.
    let keep_log = |data: &Path| replace(data, &log);
    let mut scheme = restart(scheme, keep_log, None);
    drop(Past::new(&scheme));
    let end = |scheme: &Scheme| scheme.admin.metric("upesi_log_index");
    let later = end(&scheme);
    let go_back = |data: &Path| {
        replace(&data.join("store"), &store);
        restore_log(&log, data);
    };
    let ports = scheme.switch.ports();
    scheme.switch.kill();
    go_back(&scheme.home.data());
    for _ in 0..2 {
        let output_text = scheme.home.serve_in_vain(ports).err();
        assert!(output_text.contains("its end is missing"), "{output_text}");
    }
    scheme.home = scheme.home.with_arguments(&["--truncate-damaged-tail"]);
    scheme.switch = scheme.home.serve_on(ports);
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    let greeting = &scheme.switch.greeting;
    assert!(greeting.contains(REBUILT) && greeting.contains("but the log ends with"), "{greeting}");
    past.check(&scheme);
    // The log continues differently from the saved store, and beyond it.
    let other = Past::new(&scheme);
    while end(&scheme) < later {
        other.check(&scheme);
    }
    let swap = |data: &Path| replace(&store, &data.join("store"));
    let scheme = restart(scheme, swap, Some("differs from that of the log"));
    past.check(&scheme);
    other.check(&scheme);
    check_state(scheme);
}

/// Makes `to` a copy of the directory `from`.
pub(crate) fn replace(from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).unwrap();
    }
    for file in files(from) {
        let copy = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(file, copy).unwrap();
    }
}

/// Replaces the newer segments by those of an earlier copy, and removes the durable mark.
fn restore_log(copy: &Path, data: &Path) {
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|it| it == "segment");
    let segments = |directory: &Path| files(directory).into_iter().filter(is_segment);
    segments(data).for_each(|segment| fs::remove_file(segment).unwrap());
    fs::remove_file(data.join("durable.mark")).unwrap();
    for segment in segments(copy) {
        fs::copy(&segment, data.join(segment.file_name().unwrap())).unwrap();
    }
}
