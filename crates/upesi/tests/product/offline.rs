//! What can be learned from a log without a switch: its proof, and where it is damaged. None of
//! it changes the data directory.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Output;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::message::Transfer;
use crate::support::scheme::Scheme;
use crate::support::switch::Home;

/// Bytes of a segment's header.
const SEGMENT_HEADER: usize = 512;

/// Every file of a data directory with its content.
fn content(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Runs a command that must answer with JSON and leave every file as it is.
#[track_caller]
fn answer(home: &Home, arguments: &[&str]) -> (Value, Output) {
    let before = content(&home.data());
    let output = home.offline(arguments);
    assert!(before == content(&home.data()), "{arguments:?} changes the data directory");
    let said = String::from_utf8_lossy(&output.stdout);
    let value = serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said} {}", complaint(&output)));
    (value, output)
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one segment of a small log.
fn segment(data: &Path) -> PathBuf {
    let path = data.join("00000000000000000001.segment");
    assert!(path.is_file(), "a small log has one segment");
    path
}

/// Where the frames of a segment stand, and the position of the first record of each.
fn frames(bytes: &[u8]) -> Vec<(Range<usize>, u64)> {
    let mut frames = Vec::new();
    let mut at = SEGMENT_HEADER;
    while bytes.get(at..at + 4) == Some(b"UpFr") {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        let first = u64::from_le_bytes(bytes[at + 32..at + 40].try_into().unwrap());
        frames.push((at..at + length, first));
        at += length;
    }
    frames
}

/// A scheme in which one transfer was committed, one refused by the payee, one for want of
/// liquidity, and one is open; stopped.
fn played() -> (Home, [Transfer; 4]) {
    let scheme = Scheme::start();
    let transfers = ["10", "20", "5000", "30"].map(Transfer::of);
    for transfer in &transfers {
        scheme.send(&transfer.prepare(), 202);
    }
    scheme.send(&transfers[0].fulfil("COMMITTED"), 200);
    scheme.send(&transfers[1].error("5104", "No"), 200);
    scheme.settle();
    scheme.switch.stop(Signal::TERM);
    (scheme.home, transfers)
}

#[test]
fn a_proof_says_what_it_counted() {
    let (home, _) = played();
    let (proof, output) = answer(&home, &["verify", "--json"]);
    assert!(output.status.success(), "{}", complaint(&output));
    // Three deposits, three reservations, a commit and a return.
    for (name, expected) in [
        ("postings", 8),
        ("reserved", 3),
        ("committed", 1),
        ("aborted", 1),
        ("expired", 0),
        ("transfers_in_flight", 1),
        ("fulfilments_hashed", 1),
        ("messages", 6),
        ("bodies_compared", 6),
        ("bodies_unreadable", 0),
        ("notices", 8),
        ("notices_delivered", 8),
        ("notices_pending", 0),
        ("notices_dead", 0),
    ] {
        assert_eq!(proof[name], expected, "{name}: {proof:#}");
    }
    assert_eq!(proof["batches_confirmed"], proof["batches"].as_u64().unwrap() - 1);

    let output = home.offline(&["verify"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 fulfilments hash to their conditions"), "{said}");
}

#[test]
fn damage_is_located_and_nothing_is_mended() {
    let (home, _) = played();
    let path = segment(&home.data());
    let good = fs::read(&path).unwrap();
    let frames = frames(&good);
    let count = frames.len();
    assert!(20 < count, "{count} frames");
    let (before, rest) = (count / 2, count / 2 + 1);
    let [(one, first), (two, second)] = [&frames[before], &frames[rest]];
    let (last, last_first) = &frames[count - 1];

    let with = |middle: &[&[u8]]| {
        let mut bytes = good[..one.start].to_vec();
        middle.iter().for_each(|part| bytes.extend_from_slice(part));
        bytes.extend_from_slice(&good[two.end..]);
        bytes
    };
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let (a, b) = (&good[one.clone()], &good[two.clone()]);
    for (what, bytes, offset, position, named) in [
        ("a byte of a record", flipped(one.end - 3), one.start, *first, "checksum"),
        ("a byte of a frame's header", flipped(one.start + 50), one.start, *first, "header"),
        ("a byte of the segment's header", flipped(40), 0, 1, "checksum of the segment's header"),
        ("a doubled frame", with(&[a, a, b]), one.end, *second, "starts at position"),
        ("swapped frames", with(&[b, a]), one.start, *first, "starts at position"),
        ("a frame taken out", with(&[b]), one.start, *first, "starts at position"),
        ("a tail cut off", good[..last.end - 7].to_vec(), last.start, *last_first, "part of a"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let (disproof, output) = answer(&home, &["verify", "--json"]);
        assert!(!output.status.success(), "{what}");
        let fault = &disproof["fault"];
        assert_eq!(disproof["ok"], false, "{what}");
        assert_eq!(fault["segment"], "00000000000000000001.segment", "{what}: {fault:#}");
        assert_eq!(fault["offset"], offset as u64, "{what}: {fault:#}");
        assert_eq!(fault["position"], position, "{what}: {fault:#}");
        assert!(fault["what"].as_str().unwrap().contains(named), "{what}: {fault:#}");
        if 0 < offset {
            assert_eq!(disproof["records"], position - 1, "{what}: all before it was proved");
        }
        let said = complaint(&output);
        assert!(said.contains(&format!("segment at byte {offset}")), "{what}: {said}");
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(answer(&home, &["verify", "--json"]).0["ok"], json!(true));
}

/// A copy of a directory has no lock file, and none is made.
#[test]
fn a_copy_is_proved_without_a_trace() {
    let (home, _) = played();
    fs::remove_file(home.data().join("LOCK")).unwrap();
    assert_eq!(answer(&home, &["verify", "--json"]).0["ok"], json!(true));
}
