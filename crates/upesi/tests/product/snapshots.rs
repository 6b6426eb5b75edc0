//! A start continues from a snapshot and behaves like a switch that has replayed the whole log. A
//! damaged snapshot costs only time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::message::{Message, Transfer};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, PROGRAM, Ports, Printed, finish};

/// A scheme with one transfer of each kind and a registration before its first snapshot, and one
/// transfer and another snapshot after it.
fn running_scheme() -> (Scheme, Vec<Transfer>) {
    let scheme = Scheme::start();
    let mut transfers: Vec<_> = ["10", "20", "5000", "30"].map(Transfer::of).into();
    for transfer in &transfers {
        scheme.send(&transfer.prepare(), 202);
    }
    scheme.send(&transfers[0].fulfil("COMMITTED"), 200);
    scheme.send(&transfers[1].error("5104", "No"), 200);
    let registration = Message::new("POST", "/participants/MSISDN/27713803912", "payeefsp")
        .body("{\"fspId\":\"payeefsp\",\"currency\":\"USD\"}");
    scheme.send(&registration, 202);
    scheme.wait_until_delivered();
    take(&scheme.admin, 1);
    transfers.push(Transfer::of("40"));
    scheme.send(&transfers[4].prepare(), 202);
    scheme.send(&transfers[4].fulfil("COMMITTED"), 200);
    scheme.wait_until_delivered();
    take(&scheme.admin, 2);
    (scheme, transfers)
}

/// Requests a snapshot and waits until this number of snapshots has been taken.
fn take(admin: &Admin, count: u64) {
    admin.must("POST", "/snapshots", "", 202);
    admin.wait_for("upesi_snapshots_taken_total", |taken| taken == count);
}

/// The snapshots of a data directory, newest first.
fn snapshots(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|it| it == "snapshot")).collect();
    found.sort();
    found.reverse();
    found
}

fn position_of(snapshot: &Path) -> u64 {
    snapshot.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(path, bytes).unwrap();
}

fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn start_continues_from_a_snapshot_with_the_full_state() {
    let (scheme, transfers) = running_scheme();
    let listed = scheme.admin.json("/snapshots");
    let files = snapshots(&scheme.home.data());
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(listed["snapshots"][0]["logIndex"], position_of(&files[0]));
    let late = Transfer::of("50");
    scheme.send(&late.prepare(), 202);
    scheme.wait_until_delivered();
    let before = scheme.admin.quiet_state();
    let ports = scheme.switch.ports();
    let Scheme { switch, home, payer, payee, other, .. } = scheme;
    switch.kill();

    let switch = home.serve_on(ports);
    let expected = format!("continued from the snapshot of record {}", position_of(&files[0]));
    assert!(switch.greeting.contains(&expected), "{}", switch.greeting);
    let admin = Admin::new(&home, &switch);
    assert_eq!(admin.quiet_state()["contentHash"], before["contentHash"]);
    let scheme = Scheme { switch, home, admin, payer, payee, other };
    // Positions: 10 and 40 committed, 30 and 50 reserved.
    scheme.positions("130", "-50");
    // Resends of transfers before and after the snapshot are recognized.
    scheme.send(&transfers[0].prepare(), 202);
    scheme.payer.wait("PUT", &transfers[0].path());
    scheme.send(&transfers[3].fulfil("COMMITTED"), 200);
    scheme.send(&late.fulfil("COMMITTED"), 200);
    scheme.wait_until_delivered();
    scheme.positions("130", "-130");
    let asked = Message::new("GET", "/parties/MSISDN/27713803912", "payerfsp");
    scheme.send(&asked, 202);
    scheme.payee.wait("GET", "/parties/MSISDN/27713803912");
    scheme.end();
}

#[test]
fn damaged_snapshot_only_delays_the_start() {
    let (scheme, _) = running_scheme();
    let Scheme { switch, home, .. } = scheme;
    switch.stop(Signal::TERM);
    let files = snapshots(&home.data());
    let [newer, older] = [&files[0], &files[1]];
    let output = home.offline(&["verify"]);
    assert!(output.status.success(), "{}", output_text(&output));
    assert!(
        output_text(&output).contains("2 equal the replayed states"),
        "{}",
        output_text(&output)
    );

    let start = |expected: &[&str]| {
        let switch = home.serve();
        for line in expected {
            assert!(switch.greeting.contains(line), "{line}: {}", switch.greeting);
        }
        let admin = Admin::new(&home, &switch);
        let hash = admin.quiet_state()["contentHash"].clone();
        switch.stop(Signal::TERM);
        hash
    };
    let of = |path| format!("continued from the snapshot of record {}", position_of(path));
    let hash = start(&[&of(newer)]);
    damage(newer);
    assert_eq!(start(&["ignored an unusable snapshot: ", "checksum", &of(older)]), hash);
    let output = home.offline(&["verify"]);
    assert!(!output.status.success());
    let name = newer.file_name().unwrap().to_str().unwrap();
    assert!(output_text(&output).contains(name), "{}", output_text(&output));
    damage(older);
    assert_eq!(start(&["ignored an unusable snapshot: ", "upesi: replayed "]), hash);

    // A snapshot of another log replaces both.
    let (stranger, _) = running_scheme();
    let strange = snapshots(&stranger.home.data()).remove(0);
    fs::remove_file(newer).unwrap();
    fs::remove_file(older).unwrap();
    fs::copy(&strange, home.data().join(strange.file_name().unwrap())).unwrap();
    assert_eq!(start(&["it is of log ", "upesi: replayed "]), hash);

    // A valid offline snapshot replaces it.
    let output = home.offline(&["snapshot", "--json"]);
    assert!(output.status.success(), "{}", output_text(&output));
    let shown = output.json();
    assert_eq!(shown["removed"].as_array().unwrap().len(), 1, "{shown}");
    let files = snapshots(&home.data());
    assert_eq!(files.len(), 1);
    assert_eq!(shown["log_index"], position_of(&files[0]));
    assert_eq!(start(&[&of(&files[0]), "replayed 0 records"]), hash);
    let output = home.offline(&["snapshot"]);
    assert!(output_text(&output).contains("already"), "{}", output_text(&output));
}

#[test]
fn offline_snapshot_continues_from_one_that_needs_the_store() {
    let (scheme, _) = running_scheme();
    scheme.send(&Transfer::of("50").prepare(), 202);
    scheme.wait_until_delivered();
    let Scheme { switch, home, .. } = scheme;
    switch.stop(Signal::TERM);
    let before = snapshots(&home.data());
    let output = home.offline(&["snapshot", "--json"]);
    assert!(output.status.success(), "{}", output_text(&output));
    let shown = output.json();
    assert_eq!(shown["removed"], Value::Array(Vec::new()), "{shown}");
    let after = snapshots(&home.data());
    assert_eq!(after[1..], before[..1], "the one before stays");
    let decided = position_of(&after[0]) - position_of(&before[0]);
    assert_eq!(shown["records"], decided, "{shown}");
    let switch = home.serve();
    let expected = format!("continued from the snapshot of record {}", position_of(&after[0]));
    assert!(switch.greeting.contains(&expected), "{}", switch.greeting);
    switch.stop(Signal::TERM);
    let output = home.offline(&["verify"]);
    assert!(
        output_text(&output).contains("2 equal the replayed states"),
        "{}",
        output_text(&output)
    );
}

#[test]
fn offline_snapshot_of_a_running_switch_names_the_alternative() {
    let home = Home::new();
    let switch = home.serve();
    let output = home.offline(&["snapshot"]);
    assert!(!output.status.success());
    assert!(output_text(&output).contains("/snapshots"), "{}", output_text(&output));
    switch.stop(Signal::TERM);
}

/// A mounted volume cannot be replaced, so all files are created inside it. No log is created next
/// to an incomplete restore.
#[test]
fn restore_writes_only_to_its_directory() {
    let (scheme, _) = running_scheme();
    let Scheme { switch, home, .. } = scheme;
    switch.stop(Signal::TERM);
    let restored = Home::new();
    let data = restored.data();
    let from = home.data();
    let restore = || restored.offline(&["restore", "--from", from.to_str().unwrap()]);
    // A formatted volume after a killed restore.
    fs::create_dir_all(data.join("lost+found")).unwrap();
    fs::create_dir_all(data.join(".restoring")).unwrap();
    fs::write(data.join(".restoring/00000000000000000001.segment"), "half of it").unwrap();
    let refused = restored.serve_in_vain(Ports::free());
    let hint = "left by an interrupted restore; repeat";
    assert!(output_text(&refused).contains(hint), "{refused:?}");
    for command in [&["preload", "--transfers", "1"][..], &["verify"]] {
        let refused = restored.offline(command);
        assert!(!refused.status.success() && output_text(&refused).contains(hint), "{refused:?}");
    }
    let output = restore();
    assert!(output.status.success(), "{}", output_text(&output));
    let names = || -> BTreeSet<String> {
        let entries = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect()
    };
    let whole = names();
    assert!(whole.contains("lost+found") && whole.contains("store"), "{whole:?}");
    assert!(!whole.contains(".restoring") && !whole.contains(".restored"), "{whole:?}");

    // Interrupted while the files were being moved up. The next start completes the move.
    let half_moved = || {
        fs::create_dir(data.join(".restored")).unwrap();
        fs::write(data.join(".restored/LOCK"), "").unwrap();
        for name in names().iter().filter(|name| name.ends_with(".segment") || *name == "store") {
            fs::rename(data.join(name), data.join(".restored").join(name)).unwrap();
        }
    };
    half_moved();
    let output = restored.verify();
    assert!(
        output_text(&output).contains("start the switch to finish it"),
        "{}",
        output_text(&output)
    );
    let output = restore();
    assert!(output_text(&output).contains("which is in its place now"), "{}", output_text(&output));
    assert_eq!(names(), whole);
    half_moved();
    let switch = restored.serve();
    assert!(switch.greeting.contains("and replayed 0 records"), "{}", switch.greeting);
    switch.stop(Signal::TERM);
    assert_eq!(names().iter().find(|name| name.starts_with(".rest")), None);

    // A file that only has the name of the marker is left unchanged.
    let strange = tempfile::tempdir().unwrap();
    fs::create_dir(strange.path().join(".restored")).unwrap();
    fs::write(strange.path().join(".restored/letter"), "dear").unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("restore").arg("--from").arg(&from).arg("--data").arg(strange.path());
    let output = finish(command);
    assert!(
        output_text(&output).contains("it has .restored; restore overwrites nothing"),
        "{}",
        output_text(&output)
    );
    assert_eq!(fs::read_to_string(strange.path().join(".restored/letter")).unwrap(), "dear");
}

#[test]
fn backup_becomes_a_data_directory_after_verification() {
    let (scheme, _) = running_scheme();
    let Scheme { switch, home, .. } = scheme;
    switch.stop(Signal::TERM);
    let proof: Value = serde_json::from_slice(&home.verify().stdout).unwrap();
    let place = tempfile::tempdir().unwrap();
    let restored = Home::new();
    let restore = |data: &Path, more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let url = format!("file://{}", home.data().display());
        command.args(["restore", "--from", &url, "--data"]).arg(data);
        finish({
            command.args(more);
            command
        })
    };
    // A failed restore leaves no files, and a later attempt succeeds.
    let none = place.path().join("none");
    let mut command = Command::new(PROGRAM);
    let strange = tempfile::tempdir().unwrap();
    std::fs::write(strange.path().join("letter"), "dear").unwrap();
    let url = format!("file://{}", strange.path().display());
    command.args(["restore", "--from", &url, "--data"]).arg(&none);
    let output = finish(command);
    assert!(output_text(&output).contains("holds other objects"), "{}", output_text(&output));
    assert!(!output_text(&output).contains("the fetched part is kept"), "{}", output_text(&output));
    // A wrong hash, then an existing directory, then a valid restore.
    let output = restore(&none, &["--state-hash", &"0".repeat(64)]);
    assert!(output_text(&output).contains("nothing was restored"), "{}", output_text(&output));
    assert!(!none.exists());
    let output = restore(place.path().parent().unwrap(), &[]);
    assert!(output_text(&output).contains("is not empty"), "{}", output_text(&output));
    let hash = proof["state_hash"].as_str().unwrap();
    let output = restore(&restored.data(), &["--state-hash", hash, "--json"]);
    assert!(output.status.success(), "{}", output_text(&output));
    let shown = output.json();
    assert_eq!(shown["state_hash"], proof["state_hash"]);
    assert_eq!(shown["chain_head"], proof["chain_head"]);
    assert_eq!(shown["snapshots"], 2);
    let output = restore(&restored.data(), &[]);
    assert!(
        output_text(&output).contains("restore overwrites nothing"),
        "{}",
        output_text(&output)
    );
    let again: Value = serde_json::from_slice(&restored.verify().stdout).unwrap();
    assert_eq!(again["state_hash"], proof["state_hash"]);
    let switch = restored.serve();
    // Store and snapshot are created with the copy, so no record is replayed.
    let end = shown["last_record"].as_u64().unwrap();
    let expected = format!("continued from the snapshot of record {end} and replayed 0 records");
    assert!(switch.greeting.contains(&expected), "{}", switch.greeting);
    assert!(!switch.greeting.contains("unusable"), "{}", switch.greeting);
    assert!(!switch.greeting.contains("rebuilt"), "{}", switch.greeting);
    switch.stop(Signal::TERM);

    // The backup contains the snapshots, and can be given as a path.
    let kept = place.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let output = home.offline(&["backup", "--to", &format!("file://{}", kept.display())]);
    assert!(output.status.success(), "{}", output_text(&output));
    let back = place.path().join("back");
    let restored = |hash: &str| {
        let mut command = Command::new(PROGRAM);
        command.arg("restore").arg("--from").arg(&kept).arg("--data").arg(&back);
        command.args(["--json", "--state-hash", hash]);
        finish(command)
    };
    let output = restored(&"0".repeat(64));
    assert!(output_text(&output).contains("nothing was restored"), "{}", output_text(&output));
    let entries = fs::read_dir(&back).unwrap().map(|entry| entry.unwrap().file_name());
    let brought: BTreeSet<_> = entries.collect();
    assert_eq!(brought, [".restoring", "LOCK"].map(Into::into).into(), "for the next attempt");
    let output = restored(hash);
    assert!(output.status.success(), "{}", output_text(&output));
    let shown = output.json();
    assert_eq!(shown["state_hash"], proof["state_hash"]);
    assert_eq!(shown["snapshots"], 2);
    let positions =
        |data: &Path| snapshots(data).iter().map(|one| position_of(one)).collect::<Vec<_>>();
    let (there, here) = (positions(&back), positions(&home.data()));
    let both: Vec<_> = there.iter().filter(|one| here.contains(one)).collect();
    assert_eq!(both, here.iter().collect::<Vec<_>>(), "beside the one that was made with it");
    assert_eq!(there[0], shown["last_record"]);

    // A damaged backup is reported, and nothing is restored.
    damage(&home.data().join("00000000000000000001.segment"));
    let output = restore(&none, &[]);
    assert!(
        output_text(&output).contains("00000000000000000001.segment"),
        "{}",
        output_text(&output)
    );
    assert!(!none.exists());
}
