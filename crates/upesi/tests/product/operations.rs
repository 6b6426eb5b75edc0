//! The life cycle of the process: start, refused start, stop, verification of its log, and dead
//! letters.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::http::PATIENCE;
use testkit::server::Reply;

use crate::support::fsp::Callback;
use crate::support::message::Transfer;
use crate::support::namespaces::{Need, apart, run};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, PROGRAM, Ports, Printed, finish};

/// A refused start prints one line that contains these texts, and exits with a non-zero code.
#[track_caller]
pub(crate) fn assert_refuses(output: &Output, named: &[&str]) {
    let output_text = output.err();
    assert!(!output.status.success(), "{}: {output_text}", output.status);
    assert_eq!(output_text.lines().count(), 1, "one line: {output_text}");
    assert!(output_text.starts_with("upesi: "), "{output_text}");
    assert!(output_text.len() < 520, "a short one: {output_text}");
    for name in named {
        assert!(output_text.contains(name), "it names {name}: {output_text}");
    }
    for inside in ["panicked", "RUST_BACKTRACE", ".rs:", "Os {", "Error("] {
        assert!(!output_text.contains(inside), "{output_text}");
    }
}

#[test]
fn man_pages_and_completions_are_generated() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments);
        finish(command).succeeds().out()
    };
    run(&["man", "--out", pages.to_str().unwrap()]);
    for (page, text) in [("upesi.1", "upesi"), ("upesi-serve.1", "fspiop"), ("upesi-man.1", "out")]
    {
        let page = fs::read_to_string(pages.join(page)).unwrap();
        assert!(page.contains(".TH ") && page.contains(text), "{page}");
    }
    for shell in ["bash", "fish", "zsh"] {
        let script = run(&["completions", shell]);
        assert!(script.contains("check-config") && script.contains("what-if"), "{shell}: {script}");
    }
}

#[test]
fn taken_port_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let home = Home::new();
    for (what, ports) in [
        ("FSPIOP", Ports { fspiop: address, ..Ports::free() }),
        ("admin", Ports { admin: address, ..Ports::free() }),
    ] {
        assert_refuses(&home.serve_in_vain(ports), &[what, &address.to_string()]);
    }
    // Also if another switch with its own data uses the port.
    let switch = home.serve();
    let ports = switch.ports();
    for ports in [
        Ports { fspiop: ports.fspiop, ..Ports::free() },
        Ports { admin: ports.admin, ..Ports::free() },
    ] {
        assert_refuses(&Home::new().serve_in_vain(ports), &["in use"]);
    }
    switch.stop(Signal::TERM);
}

#[test]
fn invalid_configuration_is_reported() {
    for (text, named) in [
        ("[fspiop]\nport = 4000\n", &["upesi.toml", "port"][..]),
        ("[hub\n", &["upesi.toml", "line 1"]),
        ("[log]\nsegment_mib = 0\n", &["log.segment_mib"]),
    ] {
        let home = Home::new();
        fs::write(home.configuration(), text).unwrap();
        assert_refuses(&home.serve_in_vain(Ports::free()), named);
        assert!(!home.data().exists(), "nothing was begun: {text}");
    }
    let home = Home::new();
    fs::write(home.configuration(), b"\xff\xfe").unwrap();
    assert_refuses(&home.serve_in_vain(Ports::free()), &["upesi.toml"]);
    fs::remove_file(home.configuration()).unwrap();
    assert_refuses(&home.serve_in_vain(Ports::free()), &["upesi.toml", "No such file"]);
    fs::create_dir(home.configuration()).unwrap();
    assert_refuses(&home.serve_in_vain(Ports::free()), &["upesi.toml", "directory"]);
}

#[test]
fn unusable_data_directory_is_reported() {
    let home = Home::new();
    fs::write(home.data(), "a file").unwrap();
    let place = home.data().display().to_string();
    assert_refuses(&home.serve_in_vain(Ports::free()), &[&place]);
    assert_refuses(&home.verify(), &[&place]);
    fs::remove_file(home.data()).unwrap();
    assert_refuses(&home.verify(), &[&place, "directory not found"]);
    fs::create_dir(home.data()).unwrap();
    assert_refuses(&home.verify(), &[&place, "no log"]);

    let switch = home.serve();
    assert_refuses(&home.serve_in_vain(Ports::free()), &[&place, "use"]);
    assert_refuses(&home.verify(), &[&place, "use"]);
    switch.stop(Signal::TERM);
    assert!(home.verify().status.success());

    // A log is bound to the name of its hub.
    fs::write(home.configuration(), "[hub]\nname = \"Another\"\n").unwrap();
    assert_refuses(&home.serve_in_vain(Ports::free()), &["hub.name", "Another", "Hub"]);
}

#[test]
fn unknown_arguments_are_reported() {
    for arguments in [&["serve"][..], &["serve", "--data", "x", "--port", "1"], &["fly"]] {
        let mut command = Command::new(PROGRAM);
        command.args(arguments);
        let output = finish(command);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let output_text = output.err();
        assert!(
            output_text.starts_with("error: ") && output_text.contains("--help"),
            "{output_text}"
        );
    }
}

#[test]
fn both_signals_stop_cleanly_and_the_state_is_restored() {
    let mut scheme = Scheme::start();
    let committed = Transfer::of("10");
    scheme.send(&committed.prepare(), 202);
    // A prepare that was not delivered before its transfer ended is withdrawn.
    scheme.payee.wait("POST", "/transfers");
    scheme.send(&committed.fulfil("COMMITTED"), 200);
    let open = Transfer::of("5");
    scheme.send(&open.prepare(), 202);
    scheme.wait_until_delivered();
    let state = scheme.admin.quiet_state();
    for signal in [Signal::INT, Signal::TERM, Signal::INT] {
        scheme.switch.stop(signal);
        scheme.switch = scheme.home.serve();
        scheme.admin = Admin::new(&scheme.home, &scheme.switch);
        assert!(scheme.switch.greeting.contains("replayed"), "{}", scheme.switch.greeting);
        assert_eq!(scheme.admin.quiet_state(), state);
    }
    let path = open.path();
    let received: Vec<_> =
        scheme.payee.take(3).iter().map(|callback| callback.path.clone()).collect();
    assert_eq!(received.len(), 3, "what was delivered is not sent again: {received:?}");
    scheme.send(&open.fulfil("RESERVED"), 200);
    scheme.payer.wait("PUT", &path);
    scheme.positions("15", "-15");
    scheme.end();
}

#[test]
fn damaged_log_is_refused_with_file_and_offset() {
    let scheme = Scheme::start();
    for _ in 0..20 {
        scheme.send(&Transfer::of("1").prepare(), 202);
    }
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    let good = scheme.home.verify();
    let proof = good.json();
    assert_eq!((&proof["ok"], &proof["transfers_in_flight"]), (&true.into(), &20.into()));

    let segment = segment(&scheme.home.data());
    let name = segment.file_name().unwrap().to_str().unwrap().to_owned();
    let mut bytes = fs::read(&segment).unwrap();
    let written = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    for at in [100, written / 3, written / 2, written * 2 / 3] {
        bytes[at] ^= 0x10;
        fs::write(&segment, &bytes).unwrap();
        assert_refuses(&scheme.home.verify(), &[&name, " at "]);
        assert_refuses(&scheme.home.serve_in_vain(Ports::free()), &[&name, " at "]);
        assert_eq!(fs::read(&segment).unwrap(), bytes, "nothing was mended or cut");
        bytes[at] ^= 0x10;
    }
    fs::write(&segment, &bytes).unwrap();
    let again: Value = serde_json::from_slice(&scheme.home.verify().stdout).unwrap();
    assert_eq!(again["state_hash"], proof["state_hash"]);
}

/// The state hashes of the running node and of its replayed log are equal.
#[test]
fn state_hash_of_the_node_matches_its_log() {
    let scheme = Scheme::start();
    let transfer = Transfer::of("1");
    scheme.send(&transfer.prepare(), 202);
    scheme.send(&transfer.prepare(), 202);
    scheme.wait_until_delivered();
    let state = scheme.admin.quiet_state();
    scheme.switch.stop(Signal::TERM);
    let proof: Value = serde_json::from_slice(&scheme.home.verify().stdout).unwrap();
    assert_eq!(state["logIndex"], proof["records"], "nothing was appended in between");
    assert_eq!(state["stateHash"], proof["state_hash"]);
    assert_eq!(state["outcomeDigest"], proof["outcome_digest"]);
}

/// The only segment of a small log.
fn segment(data: &Path) -> PathBuf {
    let files = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let mut segments = files.filter(|path| path.extension().is_some_and(|end| end == "segment"));
    let segment = segments.next().expect("a segment");
    assert_eq!(segments.next(), None);
    segment
}

#[test]
fn refused_notice_becomes_a_dead_letter_and_can_be_resent() {
    let scheme = Scheme::start();
    assert_eq!(scheme.admin.get("/deadletters"), "[]");
    scheme.payer.answer(|callback| match &*callback.method {
        "PUT" => Reply::Status(400),
        _ => Reply::Accept,
    });
    let transfer = scheme.pay("1");
    scheme.admin.wait_for("upesi_dead_letters", |count| count == 1);
    let refused = scheme.payer.take(1);
    let letters = scheme.admin.json("/deadletters");
    let letter = &letters[0];
    assert_eq!(letter["recipient"], "payerfsp");
    assert_eq!(letter["transferId"], *transfer.id);
    assert_eq!(letter["message"], "PUT /transfers/{id}");
    assert_eq!((&letter["attempts"], &letter["lastStatus"]), (&1.into(), &400.into()));
    scheme.positions("1", "-1");

    scheme.payer.answer(|_| Reply::Accept);
    let path = format!("/deadletters/{}/resend", letter["id"]);
    scheme.admin.must("POST", &path, "", 202);
    let resent = scheme.payer.take(1);
    assert_eq!((&resent[0].path, &resent[0].body), (&refused[0].path, &refused[0].body));
    assert_eq!(resent[0].header("fspiop-source"), "payeefsp");
    scheme.wait_until_delivered();
    assert_eq!(scheme.admin.get("/deadletters"), "[]");
    scheme.admin.must("POST", &path, "", 400);
    scheme.end();
}

#[test]
fn silent_participant_delays_no_others() {
    const WAITING: usize = 300;
    let scheme = Scheme::start();
    scheme.payee.answer(|_| Reply::Silence);
    for _ in 0..WAITING {
        scheme.send(&Transfer::of("0.01").prepare(), 202);
    }
    // A participant whose machine is off: nothing listens at its address.
    let off: SocketAddr = ([127, 0, 0, 1], 1).into();
    scheme.admin.set_endpoint("payerfsp", "TRANSFER_ERROR", &format!("http://{off}/"));
    let to_other = |amount: &str| Transfer { payee: "otherfsp".into(), ..Transfer::of(amount) };
    let refused = to_other("999999");
    scheme.send(&refused.prepare(), 202);
    for _ in 0..20 {
        let transfer = to_other("1");
        scheme.send(&transfer.prepare(), 202);
        let posted = scheme.other.take(1);
        assert!(Callback::text(&posted[0]).contains(&transfer.id));
        scheme.send(&transfer.fulfil("RESERVED"), 200);
        scheme.other.take(1);
        scheme.payer.wait("PUT", &transfer.path());
    }
    // All notices of the silent participant were owed throughout.
    let owed = scheme.admin.metric("upesi_notices_owed");
    assert!(WAITING as u64 <= owed, "{owed}");
    scheme.switch.stop(Signal::TERM);
    assert!(scheme.home.verify().status.success());
}

/// A wrong port is registered and later corrected. Neither earlier nor later notices wait for the
/// retry pauses of the wrong one.
#[test]
fn corrected_endpoint_is_used_at_once() {
    const OWED: usize = 12;
    let scheme = Scheme::start();
    let off: SocketAddr = ([127, 0, 0, 1], 1).into();
    scheme.admin.set_endpoint("payerfsp", "TRANSFER_ERROR", &format!("http://{off}/"));
    let mut owed = Vec::new();
    for _ in 0..OWED {
        let refused = Transfer::of("999999");
        scheme.send(&refused.prepare(), 202);
        owed.push(refused);
    }
    // Five failures in a row, and four probes: the next one would follow after at least 1.6 s.
    let attempts = || scheme.admin.metric("upesi_attempts_total");
    let deadline = Instant::now() + Duration::from_secs(20);
    while attempts() < 9 {
        assert!(Instant::now() < deadline, "{} attempts", attempts());
        std::thread::yield_now();
    }
    let corrected = format!("http://{}/transfers/{{{{transferId}}}}/error", scheme.payer.address());
    let changed = Instant::now();
    scheme.admin.set_endpoint("payerfsp", "TRANSFER_ERROR", &corrected);
    for refused in &owed {
        scheme.payer.wait("PUT", &format!("{}/error", refused.path()));
    }
    let took = changed.elapsed();
    assert!(took < Duration::from_millis(1_500), "{took:?}: the next pause was longer");
    scheme.end();
}

#[test]
fn signal_stops_the_switch_as_soon_as_it_is_ready() {
    let home = Home::new();
    for signal in [Signal::TERM, Signal::INT, Signal::TERM, Signal::INT, Signal::TERM] {
        home.serve().stop(signal);
    }
    assert!(home.verify().status.success());
}

/// The first process of a container, for which signals have no default action.
#[test]
fn signal_stops_the_first_process_before_it_is_ready() {
    let test = "operations::signal_stops_the_first_process_before_it_is_ready";
    apart(test, Need::Processes, || {
        let place = tempfile::tempdir().unwrap();
        let token = place.path().join("token");
        run("mkfifo", &["-m", "600", token.to_str().unwrap()]);
        let home = Home::configured(&format!("[admin]\ntoken_file = {token:?}\n"));
        let mut child = Command::new("unshare")
            .args(["--pid", "--fork", PROGRAM, "serve", "--fspiop", "127.0.0.1:0"])
            .args(["--admin", "127.0.0.1:0", "--data", home.data().to_str().unwrap()])
            .args(["--config", home.configuration().to_str().unwrap()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut held = OpenOptions::new();
        held.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        // Succeeds once the program waits for the token, which it never receives.
        let deadline = Instant::now() + PATIENCE;
        let _held = loop {
            match held.open(&token) {
                Ok(held) => break held,
                Err(_) => assert!(Instant::now() < deadline, "it never asks for its token"),
            }
            std::thread::yield_now();
        };
        let parent = child.id();
        let first = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
        let first = Pid::from_raw(first.trim().parse().unwrap());
        kill_process(first.expect("it has an id"), Signal::TERM).unwrap();
        let mut output_text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut output_text).unwrap();
        assert!(child.wait().unwrap().success(), "{output_text}");
        assert!(output_text.contains("stopped by a signal before it was ready"), "{output_text}");
    });
}
