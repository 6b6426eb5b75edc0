//! Archives, backups and restored directories, as used by operators.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use journal::{FileLog, LogOptions, RealDisk};
use ports::Log;
use rustix::fs::FlockOperation;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::http::Connection;
use testkit::server::Reply;

use crate::support::message::Transfer;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, PROGRAM, Ports, Printed, Switch, finish};

/// Runs a command that must succeed and print JSON.
#[track_caller]
fn answer(arguments: &[&str]) -> Value {
    let output = run(arguments).succeeds();
    output.json()
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    finish(command)
}

/// Runs a command that must fail with this message.
#[track_caller]
fn refused(arguments: &[&str], named: &str) {
    let output_text = run(arguments).fails();
    assert!(output_text.contains(named), "{arguments:?}: {output_text}");
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A directory next to that of the log.
struct Beside {
    directory: TempDir,
}

impl Beside {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// An empty blob store.
    fn place(&self, name: &str) -> String {
        fs::create_dir(self.path(name)).unwrap();
        format!("file://{}", text(&self.path(name)))
    }
}

/// Rewrites a log in segments of a few kilobytes, as it would be after some time.
fn split(data: &Path) {
    let disk = RealDisk::open(data).unwrap();
    let mut frames = Vec::new();
    let walked = journal::walk(&disk, &mut |placed| {
        frames.push(placed.frame.as_bytes().to_vec());
        Ok(())
    });
    let identity = walked.unwrap().tail.identity;
    fs::remove_file(data.join("00000000000000000001.segment")).unwrap();
    fs::remove_file(data.join("durable.mark")).unwrap();
    let options = LogOptions { segment_bytes: 4_096, ..LogOptions::default() };
    let mut log = FileLog::create(disk, identity, options).unwrap();
    for frame in frames {
        log.append(&frame).unwrap();
        log.sync().unwrap();
    }
}

/// A stopped log of several segments with a few transfers.
pub(crate) fn stopped_scheme() -> (Home, Transfer) {
    let scheme = Scheme::start();
    let transfers = ["10", "20", "30"].map(Transfer::of);
    for transfer in &transfers {
        scheme.send(&transfer.prepare(), 202);
        scheme.send(&transfer.fulfil("COMMITTED"), 200);
    }
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    split(&scheme.home.data());
    let [first, ..] = transfers;
    (scheme.home, first)
}

pub(crate) fn names(data: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = entries.filter(|path| text(path).ends_with(ending)).collect();
    names.sort();
    names
}

#[test]
fn archived_log_is_verified_explained_replayed_and_served() {
    let (home, transfer) = stopped_scheme();
    home.serve().stop(Signal::TERM);
    let (data, beside) = (home.data(), Beside::new());
    let (data, place) = (text(&data), beside.place("archive"));
    let all = || {
        let untimed = |arguments: &[&str]| {
            let mut output_text = answer(&[arguments, &["--json", "--data", data]].concat());
            for name in ["seconds", "records_per_second"] {
                output_text.as_object_mut().unwrap().remove(name);
            }
            output_text
        };
        let life = untimed(&["explain", &transfer.id]);
        (untimed(&["verify"]), life, untimed(&["replay", "--until", "20"]))
    };
    let plain = all();
    let segments = names(Path::new(data), ".segment").len();
    assert!(3 < segments, "{segments}");

    let archive = ["archive", "--json", "--data", data, "--to", &place];
    let planned = answer(&[&archive[..], &["--dry-run", "--keep", "1"]].concat());
    assert_eq!(planned["segments"].as_array().unwrap().len(), segments - 2, "{planned}");
    assert_eq!(names(Path::new(data), ".segment").len(), segments, "nothing was done");
    let packed = answer(&["archive", "--json", "--data", data, "--keep", "2"]);
    assert!(packed["packed_bytes"].as_u64() < packed["plain_bytes"].as_u64(), "{packed}");
    assert_eq!(names(Path::new(data), ".packed").len(), segments - 3);
    assert!(all() == plain, "compressed");
    let moved = answer(&archive);
    assert_eq!(moved["segments"].as_array().unwrap().len(), segments - 1, "{moved}");
    assert_eq!(names(Path::new(data), ".segment").len(), 1);
    assert!(all() == plain, "archived");

    let switch = home.serve();
    let reads = format!("reads 1 segment here, 0 compressed here, {} from {place}", segments - 1);
    assert!(switch.greeting.contains(&reads), "{}", switch.greeting);
    let admin = Admin::new(&home, &switch);
    let state = admin.quiet_state();
    assert_eq!(state["stateHash"], plain.0["state_hash"]);
    let storage = admin.json("/storage");
    assert_eq!(storage["archivedSegments"], segments - 1, "{storage}");
    switch.stop(Signal::TERM);

    // Damage of the archive is reported by name, and nothing is repaired.
    let object = names(&beside.path("archive/segments"), ".packed").remove(1);
    let good = fs::read(&object).unwrap();
    let mut flipped = good.clone();
    flipped[700] ^= 1;
    fs::write(&object, flipped).unwrap();
    let name = text(&object).rsplit('/').next().unwrap();
    let output = run(&["verify", "--json", "--data", data]);
    let disproof = output.json();
    assert!(disproof["fault"]["segment"].as_str().unwrap().ends_with(name), "{disproof}");
    assert!(disproof["fault"]["what"].as_str().unwrap().contains("checksum"), "{disproof}");
    assert_eq!(disproof["fault"]["offset"], 512, "where its first block begins: {disproof}");
    let first: u64 = name.split('.').next().unwrap().parse().unwrap();
    assert_eq!(disproof["fault"]["log_index"], first, "{disproof}");
    let restore = "Restore this file from a copy or the archive";
    refused(&["verify", "--data", data], restore);
    let output_text = home.serve_in_vain(Ports::free()).err();
    assert!(output_text.contains(name) && output_text.contains("checksum"), "{output_text}");
    assert!(output_text.contains(restore), "{output_text}");
    for more in [&good[..], b"more"] {
        fs::write(&object, [&good, more].concat()).unwrap();
        refused(
            &["verify", "--data", data],
            "the object is longer than recorded in archive.catalogue",
        );
    }
    fs::write(&object, &good).unwrap();
    let catalogue = Path::new(data).join("archive.catalogue");
    let lines = fs::read(&catalogue).unwrap();
    for cut in [1, 9, 300] {
        fs::write(&catalogue, &lines[..lines.len() - cut]).unwrap();
        refused(&["verify", "--data", data], "archive.catalogue at byte");
        let output_text = home.serve_in_vain(Ports::free()).err();
        assert!(output_text.contains("its last line is cut short or changed"), "{output_text}");
        assert!(
            output_text.contains("Copy the files below segments/ of the archive"),
            "{output_text}"
        );
    }
    let disproof = run(&["verify", "--json", "--data", data]);
    let disproof = disproof.json();
    assert_eq!(disproof["ok"], false, "{disproof}");
    assert_eq!(disproof["fault"]["segment"], "archive.catalogue", "{disproof}");
    fs::write(&catalogue, lines).unwrap();
    fs::remove_file(&object).unwrap();
    let missing = "the object is missing, but this segment was archived there";
    refused(&["verify", "--data", data], missing);
    let output_text = home.serve_in_vain(Ports::free()).err();
    assert!(output_text.contains(missing), "{output_text}");
    fs::rename(beside.path("archive"), beside.path("unmounted")).unwrap();
    refused(&["verify", "--data", data], "open the directory");
    let incomplete = run(&["verify", "--json", "--data", data]);
    let incomplete = incomplete.json();
    assert_eq!(
        (&incomplete["ok"], &incomplete["fault"]),
        (&Value::Null, &Value::Null),
        "{incomplete}"
    );
    assert!(incomplete["error"].as_str().unwrap().contains("open the directory"), "{incomplete}");
    fs::rename(beside.path("unmounted"), beside.path("archive")).unwrap();
    fs::write(&object, good).unwrap();
    assert!(all() == plain, "it was put back");
}

/// With a snapshot a start needs no old segment. A request that needs one is refused and reported
/// until the segment can be read.
#[test]
fn missing_segment_is_reported_once_when_needed() {
    let (home, transfer) = stopped_scheme();
    let (data, beside) = (home.data(), Beside::new());
    let place = beside.place("archive");
    answer(&["snapshot", "--json", "--data", text(&data)]);
    answer(&["archive", "--json", "--data", text(&data), "--to", &place]);
    // As where the archive is mounted, before it is.
    let (mounted, unmounted) = (beside.path("archive"), beside.path("unmounted"));
    fs::rename(&mounted, &unmounted).unwrap();
    fs::create_dir(&mounted).unwrap();
    let switch = home.serve();
    let complaints = switch.wait_for_complaint("the archive cannot be reached");
    assert!(complaints.contains(&place), "{complaints}");
    switch.signal(Signal::TERM);
    assert!(switch.end().0.success());
    assert!(fs::read_dir(&mounted).unwrap().next().is_none(), "nothing is written there");
    fs::remove_dir(&mounted).unwrap();
    fs::rename(&unmounted, &mounted).unwrap();
    let (kept, away) = (beside.path("archive/segments"), beside.path("away"));
    fs::rename(&kept, &away).unwrap();
    fs::create_dir(&kept).unwrap();

    let switch = home.serve();
    assert!(switch.greeting.contains("continued from the snapshot"), "{}", switch.greeting);
    let admin = Admin::new(&home, &switch);
    let ask = || admin.call("GET", &format!("/transactions/{}", transfer.id), "");
    let failing = || {
        let storage = admin.json("/storage");
        storage["failing"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(failing(), "");
    for _ in 0..3 {
        let refused = ask();
        assert_eq!(refused.status, 503);
        assert!(refused.text().contains("cannot be read from the log"), "{}", refused.text());
    }
    let why = failing();
    assert!(why.contains(".packed") && why.contains(&place), "{why}");
    let complaints = switch.wait_for_complaint("cannot be read");
    assert_eq!(complaints.matches("cannot be read").count(), 1, "{complaints}");

    fs::remove_dir(&kept).unwrap();
    fs::rename(&away, &kept).unwrap();
    assert_ne!(ask().status, 503);
    assert_eq!(failing(), "");
}

/// A callback waits for its message as long as the archive is unavailable. This does not count as
/// an attempt, or as a failure of the participant.
#[test]
fn callback_waits_for_an_unavailable_archive() {
    let scheme = Scheme::start();
    scheme.payee.answer(|_| Reply::Status(503));
    let owed = Transfer::of("10");
    scheme.send(&owed.prepare(), 202);
    scheme.payee.wait("POST", "/transfers");
    // The code of a refused callback, with text from the prepare.
    scheme.payer.answer(|_| Reply::Status(503));
    let refused = Transfer { payee: "nobody".into(), ..Transfer::of("1") };
    scheme.send(&refused.prepare(), 202);
    let its_end = format!("/transfers/{}/error", refused.id);
    scheme.payer.wait("PUT", &its_end);
    for _ in 0..3 {
        let other = Transfer { payee: "otherfsp".into(), ..Transfer::of("1") };
        scheme.send(&other.prepare(), 202);
    }
    let Scheme { switch, home, payer, payee, .. } = scheme;
    switch.stop(Signal::TERM);
    split(&home.data());
    let (data, beside) = (home.data(), Beside::new());
    let place = beside.place("archive");
    answer(&["snapshot", "--json", "--data", text(&data)]);
    answer(&["archive", "--json", "--data", text(&data), "--to", &place]);
    let (kept, away) = (beside.path("archive/segments"), beside.path("away"));
    fs::rename(&kept, &away).unwrap();
    fs::create_dir(&kept).unwrap();
    for fsp in [&payer, &payee] {
        fsp.take(1);
        fsp.answer(|_| Reply::Accept);
    }

    let more = "[delivery]\nhorizon_seconds = 1\n";
    let configuration = fs::read_to_string(home.configuration()).unwrap();
    fs::write(home.configuration(), configuration + more).unwrap();
    let switch = home.serve();
    assert!(switch.greeting.contains("continued from the snapshot"), "{}", switch.greeting);
    let admin = Admin::new(&home, &switch);
    let explanation = format!("/transfers/{}/explanation", owed.id);
    let explained = || admin.call("GET", &explanation, "");
    // If these counted as attempts, the second one would have been the last.
    admin.wait_for("upesi_attempts_total", |tries| 3 <= tries);
    assert_eq!(admin.get("/deadletters"), "[]");
    assert_eq!([payer.take(0).len(), payee.take(0).len()], [0, 0]);
    assert_eq!(explained().status, 503, "the history of a transfer needs the archive too");

    fs::remove_dir(&kept).unwrap();
    fs::rename(&away, &kept).unwrap();
    let received = payee.take(1);
    assert_eq!((&*received[0].method, &*received[0].path), ("POST", "/transfers"));
    let explained = payer.wait("PUT", &its_end);
    assert!(explained.text().contains("Participant nobody not found"), "{}", explained.text());
    admin.wait_for("upesi_notices_owed", |owed| owed == 0);
    drop(switch);
    let explained = answer(&["explain", &owed.id, "--json", "--data", text(&data)]);
    let events = explained["events"].as_array().unwrap().iter();
    let attempts: Vec<_> = events.filter_map(|event| event["attempts"].as_u64()).collect();
    assert_eq!(attempts, [1], "{explained}");
}

/// A quarantined record is not needed, neither by a start from a later snapshot nor to explain
/// other transfers.
#[test]
fn quarantined_record_in_an_unavailable_archive_blocks_nothing() {
    let aside = Transfer::of("7");
    let (home, payee, log_index) = Scheme::with_prepare_in_quarantine(&aside);
    payee.answer(|_| Reply::Accept);
    let data = home.data();
    let pay = |switch: &Switch| {
        let transfer = Transfer::of("1");
        let prepare = transfer.prepare().render();
        let accepted = Connection::open(switch.fspiop).unwrap().exchange(&prepare);
        assert_eq!(accepted.unwrap().status, 202);
        Admin::new(&home, switch).wait_for("upesi_notices_owed", |owed| owed == 0);
        transfer
    };
    let switch = home.serve();
    for _ in 0..10 {
        pay(&switch);
    }
    switch.stop(Signal::TERM);
    split(&data);
    let beside = Beside::new();
    let place = beside.place("archive");
    answer(&["snapshot", "--json", "--data", text(&data)]);
    answer(&["archive", "--json", "--data", text(&data), "--to", &place]);
    let (kept, away) = (beside.path("archive"), beside.path("away"));
    fs::rename(&kept, &away).unwrap();

    let switch = home.serve();
    let output_text =
        format!("record {log_index} is quarantined; its note in the log was not compared");
    assert!(switch.greeting.contains(&output_text), "{}", switch.greeting);
    let here = pay(&switch);
    let admin = Admin::new(&home, &switch);
    let live = admin.get(&format!("/transfers/{}/explanation", here.id));
    switch.signal(Signal::TERM);
    let (status, output_text) = switch.end();
    let complaint = format!("log_index={log_index} ");
    assert!(status.success() && output_text.contains(&complaint), "{status}: {output_text}");
    let offline = answer(&["explain", &here.id, "--json", "--data", text(&data)]);
    for explained in [serde_json::from_str(&live).unwrap(), offline] {
        assert_eq!(
            (&explained["source"], &explained["state"]),
            (&json!("store"), &json!("RESERVED"))
        );
        let unread = explained["unread"][0].as_str().unwrap();
        assert!(unread.contains(&format!("record {log_index} is skipped")), "{unread}");
    }
    fs::rename(&away, &kept).unwrap();
    let proof = answer(&["verify", "--json", "--data", text(&data)]);
    assert_eq!(proof["quarantined"][0]["position"], log_index, "{proof:#}");
    let explained = answer(&["explain", &aside.id, "--json", "--data", text(&data)]);
    assert_eq!(explained["events"][0]["event"], "set_aside");
}

/// A missing segment in the middle of a log also prevents a start that does not read it.
#[test]
fn start_from_a_snapshot_detects_a_missing_segment() {
    let (home, _) = stopped_scheme();
    let data = home.data();
    answer(&["snapshot", "--json", "--data", text(&data)]);
    let segments = names(&data, ".segment");
    assert!(3 < segments.len(), "{segments:?}");
    let [.., before, closed, _] = &*segments else { panic!("{segments:?}") };
    let good = fs::read(closed).unwrap();
    let other = fs::read(before).unwrap();
    for change in [None, Some(&good[..good.len() - 9]), Some(&good[..600]), Some(&other)] {
        match change {
            None => fs::remove_file(closed).unwrap(),
            Some(bytes) => fs::write(closed, bytes).unwrap(),
        }
        let output_text = home.serve_in_vain(Ports::free()).err();
        assert!(output_text.contains("the log is damaged in"), "{output_text}");
        refused(&["verify", "--data", text(&data)], "the log is damaged in");
    }
    fs::write(closed, good).unwrap();
    let switch = home.serve();
    assert!(switch.greeting.contains("continued from the snapshot"), "{}", switch.greeting);
    switch.stop(Signal::TERM);
}

/// A snapshot covers only durable records, so a log that ends before it was truncated, whatever the
/// durable mark states.
#[test]
fn log_that_ends_before_its_snapshot_is_refused() {
    let (home, _) = stopped_scheme();
    let data = home.data();
    home.serve().stop(Signal::TERM);
    answer(&["snapshot", "--json", "--data", text(&data)]);
    let segments = names(&data, ".segment");
    let (last, mark) = (segments.last().unwrap(), data.join("durable.mark"));
    let missing = |what: &str| {
        for output_text in
            [home.serve_in_vain(Ports::free()).err(), home.offline(&["verify"]).err()]
        {
            assert!(output_text.contains("its end is missing"), "{what}: {output_text}");
            assert!(output_text.contains("--truncate-damaged-tail"), "{what}: {output_text}");
        }
    };
    let mut damaged = fs::read(&mark).unwrap();
    damaged[100] ^= 1;
    fs::write(&mark, &damaged).unwrap();
    refused(&["verify", "--data", text(&data)], "durable.mark: its checksum is wrong");
    let kept = fs::read(last).unwrap();
    fs::remove_file(last).unwrap();
    missing("a damaged mark");
    fs::remove_file(&mark).unwrap();
    missing("no mark");
    fs::remove_dir_all(data.join("store")).unwrap();
    missing("no mark and no store");

    let aside = home.data().with_file_name("aside");
    fs::create_dir(&aside).unwrap();
    let all = names(&data, ".segment");
    let to = |file: &PathBuf| aside.join(file.file_name().unwrap());
    all.iter().for_each(|file| fs::rename(file, to(file)).unwrap());
    let output_text = home.serve_in_vain(Ports::free()).err();
    assert!(output_text.contains("the log is missing, but 0000"), "{output_text}");
    assert_eq!(names(&data, ".segment").len(), 0, "none was begun");
    all.iter().for_each(|file| fs::rename(to(file), file).unwrap());

    let copy = fs::read(all.last().unwrap()).unwrap();
    fs::write(last, kept).unwrap();
    home.serve().stop(Signal::TERM);
    fs::remove_file(last).unwrap();
    fs::remove_file(&mark).unwrap();
    assert_eq!(fs::read(all.last().unwrap()).unwrap(), copy);
    let home = home.with_arguments(&["--truncate-damaged-tail"]);
    let switch = home.serve();
    for part in [".snapshot: removed", "the cold store is rebuilt"] {
        assert_eq!(switch.greeting.matches(part).count(), 1, "{}", switch.greeting);
    }
    switch.stop(Signal::TERM);
    assert_eq!(answer(&["verify", "--json", "--data", text(&data)])["ok"], json!(true));

    names(&data, ".segment").iter().for_each(|file| fs::remove_file(file).unwrap());
    let output_text = home.serve_in_vain(Ports::free()).err();
    assert!(output_text.contains("the log is missing, but store"), "nor by a flag: {output_text}");
    assert_eq!(names(&data, ".segment").len(), 0, "none was begun");
}

/// Without a copy, an operator can truncate a damaged tail.
#[test]
fn damaged_tail_is_truncated_only_on_request() {
    let (home, _) = stopped_scheme();
    let data = home.data();
    let last = names(&data, ".segment").pop().unwrap();
    let mut bytes = fs::read(&last).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    bytes[end - 3] ^= 0x40;
    fs::write(&last, bytes).unwrap();
    let output_text = home.serve_in_vain(Ports::free()).err();
    assert!(output_text.contains("start once with --truncate-damaged-tail"), "{output_text}");
    let home = home.with_arguments(&["--truncate-damaged-tail"]);
    let switch = home.serve();
    for part in ["must be reconciled manually", "--truncate-damaged-tail: the log ends with record"]
    {
        assert!(switch.greeting.contains(part), "{part}: {}", switch.greeting);
    }
    switch.stop(Signal::TERM);
    assert_eq!(answer(&["verify", "--json", "--data", text(&data)])["ok"], json!(true));
}

/// Restore drill: a backup of a running switch restores the same state.
#[test]
fn backup_of_a_running_switch_restores_the_same_state() {
    let scheme = Scheme::start();
    let beside = Beside::new();
    let (home, place) = (scheme.home.data(), beside.place("copy"));
    let backup = ["backup", "--json", "--data", text(&home), "--to", &place];
    let mut copied = Vec::new();
    for amount in ["10", "20"] {
        scheme.pay(amount);
        scheme.wait_until_delivered();
        let state = scheme.admin.quiet_state();
        let report = answer(&backup);
        assert_eq!(report["end"], state["logIndex"]);
        copied.push(report["bytes"].as_u64().unwrap());
        let data = beside.path(&format!("restored {amount}"));
        let restore = ["restore", "--json", "--from", &place, "--data", text(&data)];
        let proof = answer(&restore);
        assert_eq!(proof["state_hash"], state["stateHash"]);
        assert_eq!(proof["chain_head"], report["chain_head"]);
        let verified = answer(&["verify", "--json", "--data", text(&data)]);
        assert_eq!(verified["state_hash"], state["stateHash"]);
        refused(&restore, "restore overwrites nothing");
    }
    assert_eq!(answer(&backup)["bytes"], 0, "nothing is new");
    scheme.end();
    let (empty, none) = (beside.place("empty"), beside.path("none"));
    refused(&["restore", "--from", &empty, "--data", text(&none)], "no backup found");
}

/// A damaged or missing part of a backup is reported and rewritten by the next backup.
#[test]
fn damaged_backup_is_repaired_from_the_log() {
    let (home, _) = stopped_scheme();
    let beside = Beside::new();
    let place = beside.place("copy");
    let data = home.data();
    let backup = ["backup", "--json", "--data", text(&data), "--to", &place];
    let checked = [&backup[..], &["--check"]].concat();
    assert_eq!(answer(&backup)["mended"], json!([]));
    let segment = names(&beside.path("copy/segments"), ".packed").remove(0);
    let chunk = fs::read_dir(beside.path("copy/open")).unwrap().next().unwrap().unwrap().path();
    for path in [&segment, &chunk] {
        let mut bytes = fs::read(path).unwrap();
        bytes[600] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    let restored = beside.path("restored");
    let restore = ["restore", "--from", &place, "--data", text(&restored)];
    refused(&restore, "checksum of the block is wrong");
    let name =
        |path: &Path| path.strip_prefix(beside.path("copy")).unwrap().to_str().unwrap().to_owned();
    assert_eq!(answer(&backup)["mended"], json!([name(&chunk)]), "what a look shows");
    assert_eq!(answer(&checked)["mended"], json!([name(&segment)]), "what reading it shows");
    let again = answer(&checked);
    assert_eq!((&again["mended"], &again["bytes"]), (&json!([]), &json!(0)));
    fs::remove_file(&segment).unwrap();
    assert_eq!(answer(&backup)["mended"], json!([name(&segment)]), "what is gone");
    assert!(run(&restore).status.success(), "it goes on in the same directory");
}

/// The data directory of a switch with a backup is lost. The backup contains all acknowledged
/// records.
#[test]
fn switch_maintains_backup_and_archive() {
    let beside = Beside::new();
    let (archive, copy) = (beside.place("archive"), beside.place("copy"));
    let (home, _) = stopped_scheme();
    let settings = format!(
        "\n[archive]\nto = \"{archive}\"\nkeep_segments = 1\n[backup]\nto = \"{copy}\"\n\
         every_seconds = 1\n"
    );
    let configuration = fs::read_to_string(home.configuration()).unwrap() + &settings;
    fs::write(home.configuration(), configuration).unwrap();
    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    admin.must("POST", "/participants", "{\"name\":\"newfsp\",\"currency\":\"USD\"}", 201);
    let state = admin.quiet_state();
    let log_index = state["logIndex"].as_u64().unwrap();
    admin.wait_for("upesi_backup_log_index", |there| log_index <= there);
    let storage = admin.json("/storage");
    assert_eq!(storage["backup"]["logIndex"], log_index, "{storage}");
    assert_eq!(storage["backup"].get("failing"), None, "{storage}");
    while names(&home.data(), ".segment").len() != 2 {
        assert_eq!(admin.metric("upesi_archive_failing"), 0);
    }
    switch.kill();
    fs::remove_dir_all(home.data()).unwrap();
    let data = home.data();
    let proof = answer(&["restore", "--json", "--from", &copy, "--data", text(&data)]);
    assert_eq!(proof["state_hash"], state["stateHash"]);
    assert_eq!(proof["files"], json!(["upesi.toml"]));
    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    let again = admin.quiet_state();
    assert_eq!(again["stateHash"], state["stateHash"]);
    switch.stop(Signal::TERM);
}

/// An unavailable store is reported, listed, and used again when it is back. The switch continues
/// meanwhile.
#[test]
fn unavailable_blob_store_is_reported_and_retried() {
    let beside = Beside::new();
    let copy = beside.place("copy");
    fs::rename(beside.path("copy"), beside.path("away")).unwrap();
    let scheme = Scheme::configured(&format!("[backup]\nto = \"{copy}\"\nevery_seconds = 1\n"));
    scheme.admin.wait_for("upesi_backup_failing", |failing| failing == 1);
    let storage = scheme.admin.get("/storage");
    assert!(storage.contains("open the directory"), "{storage}");
    scheme.pay("1");
    scheme.wait_until_delivered();
    scheme.switch.wait_for_complaint("job=\"backup\"");
    scheme.switch.signal(Signal::TERM);
    let (status, complaints) = scheme.switch.end();
    assert!(status.success() && complaints.lines().count() == 1, "{status}: {complaints}");
    assert!(complaints.contains("failed; it is retried job=\"backup\""), "{complaints}");
    assert!(scheme.home.verify().status.success());
}

/// A switch with a backup does not prevent another backup, to another store or to the same.
#[test]
fn backup_command_runs_next_to_the_switch_backup() {
    let beside = Beside::new();
    let (kept, other) = (beside.place("kept"), beside.place("other"));
    let scheme = Scheme::configured(&format!("[backup]\nto = \"{kept}\"\nevery_seconds = 1\n"));
    let data = scheme.home.data();
    let end = || scheme.admin.metric("upesi_backup_log_index");
    for (to, at) in [(&other, "1"), (&kept, "2"), (&other, "3")] {
        let before = end();
        scheme.pay(at);
        scheme.wait_until_delivered();
        let made = answer(&["backup", "--json", "--data", text(&data), "--to", to]);
        assert!(before < made["end"].as_u64().unwrap(), "{made}");
    }
    let log_end = scheme.admin.metric("upesi_log_index");
    scheme.admin.wait_for("upesi_backup_log_index", |log_index| log_end <= log_index);
    assert_eq!(scheme.admin.metric("upesi_backup_failing"), 0);
    scheme.end();
    let restored = beside.path("restored");
    answer(&["restore", "--json", "--from", &kept, "--data", text(&restored)]);
}

/// While another process writes a backup, the switch waits and reports no error.
#[test]
fn backup_command_does_not_delay_the_switch_backup() {
    let beside = Beside::new();
    let kept = beside.place("kept");
    let scheme = Scheme::configured(&format!("[backup]\nto = \"{kept}\"\nevery_seconds = 1\n"));
    let data = fs::File::open(scheme.home.data()).unwrap();
    rustix::fs::flock(&data, FlockOperation::LockExclusive).unwrap();
    scheme.send(&Transfer::of("1").prepare(), 202);
    scheme.wait_until_delivered();
    let log_end = scheme.admin.metric("upesi_log_index");
    // The switch would have written two backups in this time.
    thread::sleep(Duration::from_millis(2_500));
    assert_eq!(scheme.admin.metric("upesi_backup_failing"), 0);
    assert!(scheme.admin.metric("upesi_backup_log_index") < log_end);
    drop(data);
    let released = Instant::now();
    scheme.admin.wait_for("upesi_backup_log_index", |log_index| log_end <= log_index);
    assert!(released.elapsed() < Duration::from_secs(20), "it goes on at once");
    scheme.end();
}

#[test]
fn directory_without_a_log_cannot_be_archived() {
    let beside = Beside::new();
    let place = beside.place("empty");
    let empty = place.strip_prefix("file://").unwrap();
    for dry_run in [&[][..], &["--dry-run"]] {
        refused(&[&["archive", "--data", empty], dry_run].concat(), "no log found");
    }
}

/// This program reads every stored format as it was first written: compressed segments, the open
/// segment in chunks, manifest and marker of a backup, and a quarantine.
#[test]
fn data_of_earlier_versions_is_readable() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let plain = fixtures.join("data-1");
    let proof = answer(&["verify", "--json", "--data", text(&plain)]);
    let beside = Beside::new();
    let place = format!("file://{}", text(&fixtures.join("copy-1")));
    let data = beside.path("data");
    let restored = answer(&["restore", "--json", "--from", &place, "--data", text(&data)]);
    assert_eq!(restored["files"], json!(["quarantine.json"]));
    assert!(2 < names(&data, ".packed").len());
    let again = answer(&["verify", "--json", "--data", text(&data)]);
    for name in ["state_hash", "chain_head", "outcome_digest", "records", "postings"] {
        assert_eq!(again[name], proof[name], "{name}");
    }
    assert_eq!(proof["quarantined"][0]["by"], "A. Odhiambo");
    assert_eq!(proof["quarantined"], again["quarantined"]);
    assert_eq!(proof["chain_head"], CHAIN_HEAD_1);
    assert_eq!(proof["state_hash"], STATE_HASH_1);
}

/// Frames of both versions. Those of `data-1` do not contain their number of zero bytes.
#[test]
fn frames_of_each_version_are_read() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for (name, version) in [("data-1", 1), ("data-2", 2)] {
        let first = fixtures.join(name).join("00000000000000000001.segment");
        let bytes = fs::read(first).unwrap();
        let header = record::frame::FrameHeader::parse(&bytes[512..]).unwrap();
        assert_eq!(header.zeros.is_some(), 1 < version, "{name}");
    }
    let data = fixtures.join("data-2");
    let proof = answer(&["verify", "--json", "--data", text(&data)]);
    assert_eq!(proof["chain_head"], CHAIN_HEAD_2);
    assert_eq!(proof["state_hash"], STATE_HASH_2);
}

const CHAIN_HEAD_1: &str = "86b8a148b6bec2b183ca67ca36046e11a0c3917b90436367e998539fc70cff07";
const STATE_HASH_1: &str = "36485f5ad938ccae477741e5dafb2d5a442114b7a9154696519195e578e2b0f7";
const CHAIN_HEAD_2: &str = "e9f9bbd21f8b6fb477ca3bc3484a47e7c8b345732e4d99f1809d84a04011e678";
const STATE_HASH_2: &str = "1f6c7026f73f5dc0aa019891179493713c237db0356ae185e93b923b89f1b3c9";
