//! Offline commands on a log: verification, location of damage, explanations. None of them changes
//! the data directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use journal::{FileLog, RealDisk};
use ledger::{FspName, LogIndex, TransferId};
use ports::Log;
use record::frame::{BatchHeader, Frame, FrameBuilder, NewRecord, Payload, Tail};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::http::{Connection, PATIENCE};
use testkit::server::Reply;

use crate::cold::replace;
use crate::support::message::{Transfer, uuid};
use crate::support::namespaces::{Mounted, Need, apart};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, PROGRAM, Ports, Printed, files};

/// Bytes of a segment's header.
const SEGMENT_HEADER: usize = 512;
/// Bytes of a frame's header.
const FRAME_HEADER: usize = 168;

/// All files of a data directory with their content, except the cold store, which a query opens and
/// its library cleans up.
fn content(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let kept = files(data).into_iter().filter(|path| !path.starts_with(data.join("store")));
    kept.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Runs a command that must print JSON and leave every file unchanged.
#[track_caller]
fn answer(home: &Home, arguments: &[&str]) -> (Value, Output) {
    let before = content(&home.data());
    let output = home.offline(arguments);
    assert!(before == content(&home.data()), "{arguments:?} changes the data directory");
    let output_text = output.out();
    let value = serde_json::from_str(&output_text)
        .unwrap_or_else(|error| panic!("{error}: {output_text} {}", output.err()));
    (value, output)
}

/// Waits until a running switch writes no files: delivery records are synced half a second after
/// the deliveries, and the durable mark at most a second later.
fn wait_until_quiet(data: &Path) {
    let end = Instant::now() + PATIENCE;
    let mut before = content(data);
    loop {
        thread::sleep(Duration::from_millis(1_500));
        let now = content(data);
        if now == before {
            return;
        }
        assert!(Instant::now() < end, "the files change all the time");
        before = now;
    }
}

/// The only segment of a small log.
fn segment(data: &Path) -> PathBuf {
    let path = data.join("00000000000000000001.segment");
    assert!(path.is_file(), "a small log has one segment");
    path
}

/// Byte ranges of the frames of a segment, and the log index of the first record of each.
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

/// A stopped scheme with one committed transfer, one refused by the payee, one refused for
/// insufficient liquidity, and one in flight.
fn stopped_scheme() -> (Home, [Transfer; 4]) {
    let scheme = Scheme::start();
    let transfers = ["10", "20", "5000", "30"].map(Transfer::of);
    for transfer in &transfers {
        scheme.send(&transfer.prepare(), 202);
    }
    scheme.send(&transfers[0].fulfil("COMMITTED"), 200);
    scheme.send(&transfers[1].error("5104", "No"), 200);
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    (scheme.home, transfers)
}

/// The error of a payee that aborted a transfer.
#[test]
fn abort_is_explained_with_its_error() {
    let (home, [_, aborted, ..]) = stopped_scheme();
    let history = history(&home, &aborted.id);
    let explained = messages(&history);
    let says = &explained[1]["message"]["says"];
    assert_eq!(says, "error code of FSPIOP or private use: 5104 \"No\"");
}

#[test]
fn verify_reports_its_counts() {
    let (home, _) = stopped_scheme();
    let (proof, output) = answer(&home, &["verify", "--json"]);
    assert!(output.status.success(), "{}", output.err());
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
    let output_text = output.out();
    assert!(output_text.contains("fulfilments      1 hash to their conditions"), "{output_text}");

    // With little memory the result is the same, and no files remain.
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path().to_str().unwrap();
    let (mut small, _) = answer(&home, &["verify", "--json", "--scratch", place]);
    for measured in ["seconds", "records_per_second"] {
        small[measured] = proof[measured].clone();
    }
    assert_eq!(small, proof);
    assert_eq!(fs::read_dir(place).unwrap().count(), 0);
    let nowhere = scratch.path().join("nowhere");
    let output = home.offline(&["verify", "--scratch", nowhere.to_str().unwrap()]);
    assert!(output.err().contains("/nowhere/upesi-verify-"), "{}", output.err());
}

/// Exit code and standard error of a command with this standard output.
fn printed_to(output: impl Into<Stdio>, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(PROGRAM);
    let ended = command.args(arguments).stdout(output).output().unwrap();
    (ended.status.code(), ended.err())
}

#[test]
fn closed_pipe_ends_a_command_silently() {
    let (home, _) = stopped_scheme();
    let data = home.data();
    let data = data.to_str().unwrap();
    for arguments in [
        &["verify", "--data", data][..],
        &["verify", "--json", "--data", data],
        &["replay", "--data", data],
        &["openapi", "fspiop"],
        &["check-config"],
    ] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(printed_to(writer, arguments), (Some(141), String::new()), "{arguments:?}");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (code, complaint) = printed_to(full, arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {complaint}");
        assert!(
            complaint.starts_with("upesi: standard output: cannot be written: No space left"),
            "{complaint}"
        );
    }
}

#[test]
fn damage_is_located_and_not_repaired() {
    let (home, _) = stopped_scheme();
    let path = segment(&home.data());
    let good = fs::read(&path).unwrap();
    let frames = frames(&good);
    let count = frames.len();
    assert!(20 < count, "{count} frames");
    let (before, rest) = (count / 2, count / 2 + 1);
    let [(one, first), (two, second)] = [&frames[before], &frames[rest]];
    let (last, last_first) = &frames[count - 1];
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path().to_str().unwrap();

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
    for (what, bytes, offset, log_index, named) in [
        ("a byte of a record", flipped(one.end - 3), one.start, *first, "checksum"),
        ("a byte of a frame's header", flipped(one.start + 50), one.start, *first, "header"),
        ("a byte of the segment's header", flipped(40), 0, 1, "the header has a wrong checksum"),
        ("a doubled frame", with(&[a, a, b]), one.end, *second, "starts at log index"),
        ("swapped frames", with(&[b, a]), one.start, *first, "starts at log index"),
        ("a frame taken out", with(&[b]), one.start, *first, "starts at log index"),
        ("a tail cut off", good[..last.end - 7].to_vec(), last.start, *last_first, "durable.mark"),
        ("a frame cut off", good[..last.start].to_vec(), last.start, *last_first, "durable.mark"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let (disproof, output) = answer(&home, &["verify", "--json"]);
        assert!(!output.status.success(), "{what}");
        let fault = &disproof["fault"];
        assert_eq!(disproof["ok"], false, "{what}");
        assert_eq!(fault["segment"], "00000000000000000001.segment", "{what}: {fault:#}");
        assert_eq!(fault["offset"], offset as u64, "{what}: {fault:#}");
        assert_eq!(fault["log_index"], log_index, "{what}: {fault:#}");
        assert!(fault["what"].as_str().unwrap().contains(named), "{what}: {fault:#}");
        if 0 < offset {
            assert_eq!(disproof["records"], log_index - 1, "{what}: all before it was proved");
        }
        let (small, again) = answer(&home, &["verify", "--json", "--scratch", place]);
        assert!(!again.status.success(), "{what}");
        assert_eq!(small["fault"], disproof["fault"], "{what}: with little memory");
        assert_eq!(small["records"], disproof["records"], "{what}: with little memory");
        assert_eq!(fs::read_dir(place).unwrap().count(), 0, "{what}");
        let output_text = output.err();
        assert!(
            output_text.contains(&format!("segment at byte {offset}")),
            "{what}: {output_text}"
        );
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(answer(&home, &["verify", "--json"]).0["ok"], json!(true));
}

/// Damage at any place in a stored message or its fields is reported with the transfer.
#[test]
fn damaged_record_is_reported_with_its_transfer() {
    let (home, [_, transfer, ..]) = stopped_scheme();
    let path = segment(&home.data());
    let good = fs::read(&path).unwrap();
    let mut frames = frames(&good).into_iter();
    let of_prepare = frames.find(|(frame, _)| {
        let text = String::from_utf8_lossy(&good[frame.clone()]);
        text.contains(&transfer.id) && text.contains("\"amount\"")
    });
    let (frame, first) = of_prepare.unwrap();
    let at = |text: &str| {
        let found =
            good[frame.clone()].windows(text.len()).position(|part| part == text.as_bytes());
        frame.start + found.expect(text)
    };
    // The fields precede the message.
    let fields = frame.start + FRAME_HEADER + 20;
    for at in [at("\"amount\"") + 3, at(&transfer.id), at("payerFsp"), fields + 4, fields + 40] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let (disproof, output) = answer(&home, &["verify", "--json"]);
        let fault = &disproof["fault"];
        assert_eq!(fault["log_index"], first, "byte {at}: {fault:#}");
        assert_eq!(fault["transfer"], transfer.id, "byte {at}: {fault:#}");
        let output_text = output.err();
        assert!(
            output_text.contains(&format!("of transfer {}", transfer.id)),
            "byte {at}: {output_text}"
        );
    }
}

/// Replaces the message of a frame, as an attacker who knows the format would: with valid
/// checksums, under the digest that the chain covers.
fn forge(good: &[u8], (before, of): (&Range<usize>, &Range<usize>)) -> Vec<u8> {
    let [before, frame] = [before, of].map(|range| Frame::parse(&good[range.clone()]).unwrap());
    let (before, header) = (before.header(), frame.header());
    let (stamp, chain) = (before.batch.stamp, before.chain);
    let (identity, end) = (header.identity, before.last());
    let tail = Tail { identity, end, durable: header.durable, stamp, chain };
    let mut builder = FrameBuilder::new();
    for record in frame.records() {
        let Payload::Stored(message) = record.payload else { panic!("it has a message") };
        let message =
            String::from_utf8_lossy(message).replace("\"amount\":\"10\"", "\"amount\":\"99\"");
        let payload = Some((message.as_bytes(), record.payload_digest));
        let (kind, version, fields) = (record.kind, record.version, record.fields);
        builder.push(&NewRecord { kind, version, fields, payload }.encode().unwrap()).unwrap();
    }
    builder.seal(&tail, &header.batch).bytes.to_vec()
}

#[test]
fn altered_message_is_detected() {
    let (home, [transfer, ..]) = stopped_scheme();
    let path = segment(&home.data());
    let mut bytes = fs::read(&path).unwrap();
    let frames = frames(&bytes);
    let of_prepare = frames.iter().position(|(frame, _)| {
        let text = String::from_utf8_lossy(&bytes[frame.clone()]);
        text.contains(&transfer.id) && text.contains("\"amount\":\"10\"")
    });
    let at = of_prepare.unwrap();
    let (frame, log_index) = &frames[at];
    let forged = forge(&bytes, (&frames[at - 1].0, frame));
    assert_eq!(forged.len(), frame.len());
    assert_ne!(forged, bytes[frame.clone()]);
    bytes[frame.clone()].copy_from_slice(&forged);
    fs::write(&path, &bytes).unwrap();

    let (disproof, output) = answer(&home, &["verify", "--json"]);
    let fault = &disproof["fault"];
    let found = (&fault["log_index"], &fault["transfer"], &disproof["records"]);
    assert_eq!(found, (&json!(log_index), &json!(transfer.id), &json!(log_index - 1)), "{fault:#}");
    let output_text = output.err();
    assert!(
        output_text.contains("digest") && output_text.contains("compare it with a copy"),
        "{output_text}"
    );
    for more in [&[][..], &["--replay"]] {
        let (history, _) = answer(&home, &[&["explain", &transfer.id, "--json"], more].concat());
        assert_eq!(messages(&history)[0]["message"]["kept"], "damaged", "{history:#}");
        let output_text = home.offline(&[&["explain", &*transfer.id], more].concat()).out();
        assert!(output_text.contains("message   DAMAGED"), "{output_text}");
    }
}

/// Number of transfers of the next test. Their stored data exceeds [`SCRATCH_ROOM`].
const MANY: &str = "3000";
/// Room for an empty store and a little more, in KiB.
const SCRATCH_ROOM: usize = 300;

/// A full scratch disk is distinguished from damage of the log.
#[test]
fn full_scratch_disk_is_not_reported_as_log_damage() {
    apart("offline::full_scratch_disk_is_not_reported_as_log_damage", Need::Memory, || {
        let home = Home::new();
        home.offline(&["preload", "--transfers", MANY, "--fsps", "2"]).succeeds();
        let small = tempfile::tempdir().unwrap();
        let place = small.path().join("disk");
        let _mounted = Mounted::memory(&place, 1);
        let ballast = place.join("ballast");
        for (room, named, why) in [
            (0, "--scratch: ", "No space left on device"),
            (SCRATCH_ROOM, "neither verified nor faulty", "the disk is full"),
        ] {
            fs::write(&ballast, vec![1; (1_024 - room) << 10]).unwrap_or_else(|error| {
                assert_eq!((error.kind(), room), (ErrorKind::StorageFull, 0), "{error}");
            });
            let before = content(&home.data());
            let (verdict, output) =
                answer(&home, &["verify", "--json", "--scratch", place.to_str().unwrap()]);
            let output_text = output.err();
            assert_eq!(output.status.code(), Some(1), "{room} KiB: {output_text}");
            let parts = (&verdict["ok"], &verdict["fault"]);
            assert_eq!(parts, (&json!(null), &json!(null)), "{room} KiB: no proof and no fault");
            assert!(output_text.contains(verdict["error"].as_str().unwrap()), "{verdict:#}");
            for part in [named, place.to_str().unwrap(), why] {
                assert!(output_text.contains(part), "{room} KiB: {part}: {output_text}");
            }
            assert!(before == content(&home.data()), "{room} KiB: the log is as it was");
            let left: Vec<_> = fs::read_dir(&place).unwrap().collect();
            assert_eq!(left.len(), 1, "{room} KiB: only the ballast is left: {left:?}");
        }
        let roomy = small.path().to_str().unwrap();
        let (proof, _) = answer(&home, &["verify", "--json", "--scratch", roomy]);
        assert_eq!(proof["ok"], json!(true));
    });
}

/// A copy of a directory has no lock file, and none is created.
#[test]
fn verify_of_a_copy_leaves_no_files() {
    let (home, _) = stopped_scheme();
    fs::remove_file(home.data().join("LOCK")).unwrap();
    assert_eq!(answer(&home, &["verify", "--json"]).0["ok"], json!(true));
}

/// The messages among the events of a transfer's history.
fn messages(history: &Value) -> Vec<&Value> {
    let events = history["events"].as_array().unwrap();
    events.iter().filter(|event| event["event"] == "message").collect()
}

/// Delivered notices: recipient, number of attempts and response.
fn deliveries(history: &Value) -> Vec<String> {
    let events = history["events"].as_array().unwrap();
    let ends = events.iter().filter(|event| event["event"] == "delivery");
    let mut lines: Vec<_> = ends
        .map(|end| {
            let text = |name: &str| end[name].as_str().unwrap().to_owned();
            let (attempts, status) = (&end["attempts"], &end["last_status"]);
            let (request, to) = (text("request"), text("recipient"));
            format!("{request} to {to}: {} after {attempts}, {status}", text("result"))
        })
        .collect();
    lines.sort();
    lines
}

/// The history of a transfer: as stored when it was decided, and as replayed.
fn history(home: &Home, id: &str) -> Value {
    let (noted, _) = answer(home, &["explain", id, "--json"]);
    assert_eq!(noted["source"], "store", "{noted:#}");
    let (again, _) = answer(home, &["explain", id, "--json", "--replay"]);
    assert_eq!(again["source"], "replay");
    assert_eq!(again["store_not_asked"], json!(null));
    for name in ["transfer", "state", "events", "notices_pending"] {
        assert_eq!(noted[name], again[name], "{name}");
    }
    noted
}

#[test]
fn transfer_is_explained_from_its_prepare_to_its_last_notice() {
    let scheme = Scheme::start();
    let [committed, refused] = ["10", "5000"].map(Transfer::of);
    for transfer in [&committed, &refused, &committed] {
        scheme.send(&transfer.prepare(), 202);
    }
    scheme.send(&committed.fulfil("RESERVED"), 200);
    let expired = Transfer::of("20").expiring(2_000);
    scheme.send(&expired.prepare(), 202);
    scheme.payer.wait("PUT", &format!("{}/error", expired.path()));
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    let home = scheme.home;

    let life_of = |id: &str| history(&home, id);
    let history = life_of(&committed.id);
    assert_eq!((&history["state"], &history["notices_pending"]), (&json!("COMMITTED"), &json!([])));
    let explained = messages(&history);
    let outcomes: Vec<_> = explained.iter().map(|event| &event["decision"]["outcome"]).collect();
    assert_eq!(outcomes, ["PrepareReserved", "PrepareResentReserved", "Committed"]);
    // The prepare: its message, the inputs of its decision, its postings and notices.
    let (message, decision) = (&explained[0]["message"], &explained[0]["decision"]);
    assert_eq!(
        (&message["sender"], &message["destination"]),
        (&json!("payerfsp"), &json!("payeefsp"))
    );
    assert_eq!(message["trace"].as_str().map(str::len), Some(32));
    assert_eq!(message["body_bytes"], committed.prepare().bytes().len());
    assert_eq!(message["hash"], explained[1]["message"]["hash"], "the same message again");
    assert!((590_000..=600_000).contains(&message["expires_in_ms"].as_i64().unwrap()));
    let payer = &decision["parties"][0];
    for (name, expected) in [
        ("name", "payerfsp"),
        ("position_before", "0"),
        ("position_after", "10"),
        ("cover_before", "2000"),
        ("cap", "1000"),
    ] {
        assert_eq!(payer[name], expected, "{name}: {payer:#}");
    }
    let kinds: Vec<_> = decision["postings"].as_array().unwrap().iter().collect();
    let legs = kinds.iter().map(|leg| format!("{} {}", leg["side"], leg["kind"]).replace('"', ""));
    assert_eq!(legs.collect::<Vec<_>>(), ["credit IN_FLIGHT", "debit POSITION"]);
    assert_eq!(decision["owes"][0]["request"], "POST /transfers");
    assert_eq!(explained[1]["decision"]["postings"], json!([]), "a resend moves nothing");
    assert_eq!(
        deliveries(&history),
        [
            "PATCH /transfers/{id} COMMITTED to payeefsp: delivered after 1, 200",
            "POST /transfers to payeefsp: delivered after 1, 202",
            "PUT /transfers/{id} COMMITTED to payerfsp: delivered after 1, 200",
            "PUT /transfers/{id} RESERVED to payerfsp: delivered after 1, 200",
        ]
    );

    let history = life_of(&refused.id);
    let explained = messages(&history);
    assert_eq!(explained[0]["decision"]["outcome"], "PrepareLiquidityInsufficient");
    assert_eq!(explained[0]["decision"]["parties"][0]["cover_before"], "2000");

    let history = life_of(&expired.id);
    let expiry = history["events"].as_array().unwrap().iter().find(|one| one["event"] == "expiry");
    let decision = &expiry.expect("it expired")["decision"];
    assert_eq!((&history["state"], &decision["outcome"]), (&json!("ABORTED"), &json!("Expired")));
    assert_eq!(decision["owes"].as_array().map(Vec::len), Some(2));
    let payer = &decision["parties"][0];
    let positions = (&payer["position_before"], &payer["position_after"]);
    assert_eq!(positions, (&json!("30"), &json!("10")));

    let output = home.offline(&["explain", &committed.id]);
    let output_text = output.out();
    for line in [
        format!("transfer {}: COMMITTED", committed.id),
        "payerfsp USD 0 10 2000 2000 1000 0 of 50000 active".into(),
        "debit 10 USD".into(),
        "POST /transfers payeefsp PrepareReserved".into(),
        "resend: answered with the stored state, RESERVED".into(),
        "no pending notices at the end of the log".into(),
    ] {
        assert!(words(&output_text).contains(&line), "{line}: {output_text}");
    }
    for (id, named) in [("nobody", "invalid transfer id"), (&*Transfer::of("1").id, "none of the")]
    {
        let output = home.offline(&["explain", id]).fails();
        assert!(output.contains(named), "{named}");
    }
}

/// A quarantined message is not decided, but listed with the author of the quarantine, whether or
/// not a later transfer has its id.
#[test]
fn quarantined_message_is_listed() {
    let transfer = Transfer::of("7");
    let (home, _payee, log_index) = Scheme::with_prepare_in_quarantine(&transfer);
    let explained = |history: &Value| {
        let event = &history["events"][0];
        assert_eq!(
            (&event["event"], &event["log_index"]),
            (&json!("set_aside"), &json!(log_index))
        );
        assert_eq!(event["message"]["request"], "POST /transfers");
        assert_eq!(event["message"]["sender"], "payerfsp");
        assert_eq!(event["quarantined"]["by"], "somebody");
        assert_eq!(event["quarantined"]["reason"], "here alone");
        (history["state"].clone(), history["events"].as_array().unwrap().len())
    };
    let (history_again, _) = answer(&home, &["explain", &transfer.id, "--json", "--replay"]);
    assert_eq!(explained(&history_again), (json!(null), 1));
    let text = home.offline(&["explain", &transfer.id]).stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    for line in ["not created", "decision  none: quarantined by somebody at 2026-01-01"] {
        assert!(text.contains(line), "{line}: {text}");
    }

    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    let path = format!("/transfers/{}/explanation", transfer.id);
    let live = || -> Value { admin.json(&path) };
    assert_eq!(explained(&live()), (json!(null), 1));
    let prepare = transfer.prepare().render();
    let mut connection = Connection::open(switch.fspiop).unwrap();
    assert_eq!(connection.exchange(&prepare).unwrap().status, 202);
    assert_eq!(explained(&live()), (json!("RESERVED"), 2));
    switch.stop(Signal::TERM);
    assert_eq!(explained(&history(&home, &transfer.id)), (json!("RESERVED"), 2));
}

/// Repeated messages extend an explanation to at most a few thousand events, and hide nothing.
#[test]
fn repeated_message_is_counted() {
    let scheme = Scheme::start();
    let transfer = Transfer::of("7");
    let mut connection = Connection::open(scheme.switch.fspiop).unwrap();
    let prepare = transfer.prepare().render();
    let mut send = |count: usize| {
        for _ in 0..count {
            assert_eq!(connection.exchange(&prepare).unwrap().status, 202);
        }
    };
    send(600);
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    send(600);
    scheme.wait_until_delivered();
    let live = scheme.admin.explain(&transfer.id);
    scheme.switch.stop(Signal::TERM);
    for explained in [live, history(&scheme.home, &transfer.id)] {
        let outcomes = messages(&explained);
        let outcomes = outcomes.iter().map(|one| one["decision"]["outcome"].as_str().unwrap());
        let outcomes: Vec<_> = outcomes.collect();
        assert_eq!((outcomes.len(), &explained["left_out"]), (1_001, &json!(200)));
        assert_eq!([outcomes[0], outcomes[500]], ["PrepareReserved", "Committed"]);
        assert_eq!(explained["state"], "COMMITTED");
    }
    let output_text = scheme.home.offline(&["explain", &transfer.id]).stdout;
    assert!(String::from_utf8_lossy(&output_text).contains("omitted in the middle: 200 decisions"));
}

/// Both decisions are shown with their numbers, although the balances around the record are equal.
#[test]
fn immediate_expiry_is_explained_as_two_decisions() {
    let scheme = Scheme::start();
    let explain = |id: &str| scheme.admin.explain(id);
    let deadline = Instant::now() + PATIENCE;
    let found = loop {
        assert!(Instant::now() < deadline, "no deadline is met by the clock of its own batch");
        let transfer = Transfer::of("7").expiring(1);
        if scheme.ask(&transfer.prepare()).status != 202 {
            continue;
        }
        scheme.wait_until_delivered();
        let events = explain(&transfer.id)["events"].clone();
        let expiry = events.as_array().unwrap().iter().find(|one| one["event"] == "expiry");
        if expiry.is_some_and(|expiry| expiry["log_index"] == events[0]["log_index"]) {
            break events;
        }
    };
    let expiry = found.as_array().unwrap().iter().find(|one| one["event"] == "expiry").unwrap();
    for (event, outcome, positions, legs) in [
        (&found[0], "PrepareReserved", ["0", "7"], ["credit IN_FLIGHT", "debit POSITION"]),
        (expiry, "Expired", ["7", "0"], ["debit IN_FLIGHT", "credit POSITION"]),
    ] {
        let decision = &event["decision"];
        assert_eq!(decision["outcome"], outcome);
        let payer = &decision["parties"][0];
        assert_eq!([&payer["position_before"], &payer["position_after"]], positions, "{outcome}");
        assert_eq!(decision["parties"][1]["position_after"], "0", "{outcome}");
        let explained = decision["postings"].as_array().unwrap().iter().map(|leg| {
            assert_eq!(leg["amount"], "7", "{leg}");
            format!("{} {}", leg["side"], leg["kind"]).replace('"', "")
        });
        assert_eq!(explained.collect::<Vec<_>>(), legs, "{outcome}");
    }
}

/// The value of a participant's account in a replayed state.
fn value<'a>(state: &'a Value, name: &str, kind: &str) -> &'a Value {
    let of_name = |one: &&Value| one["name"] == name;
    let participant = state["participants"].as_array().unwrap().iter().find(of_name).unwrap();
    let accounts = participant["accounts"].as_array().unwrap();
    &accounts.iter().find(|account| account["kind"] == kind).unwrap()["value"]
}

#[test]
fn replay_shows_the_state_at_any_record_or_time() {
    let (home, [committed, .., open]) = stopped_scheme();
    let (history, _) = answer(&home, &["explain", &committed.id, "--json"]);
    let (proof, _) = answer(&home, &["verify", "--json"]);
    let events = messages(&history);
    let (prepared, committed_at) = (&events[0], &events[1]);
    let at = |until: &str| answer(&home, &["replay", "--until", until, "--json"]).0;

    // Directly before the prepare, directly after it, and after the commit.
    let log_index = prepared["log_index"].as_u64().unwrap();
    let before = at(&(log_index - 1).to_string());
    assert_eq!(value(&before, "payerfsp", "POSITION"), "0");
    assert_eq!(before["transfers_in_flight"], json!([]));
    let after = at(&log_index.to_string());
    assert_eq!(after["log_index"], log_index);
    assert_eq!(value(&after, "payerfsp", "POSITION"), "10");
    assert_eq!(value(&after, "Hub", "IN_FLIGHT"), "-10");
    assert_eq!(after["transfers_in_flight"][0]["id"], *committed.id);
    assert_eq!(after["notices_owed"][0]["request"], "POST /transfers");
    let end = at(&committed_at["log_index"].to_string());
    assert_eq!(value(&end, "payeefsp", "POSITION"), "-10");

    // The same by the time in the explanation.
    let by_time = at(prepared["time"].as_str().unwrap());
    assert_eq!(by_time["state_hash"], after["state_hash"]);
    let last = answer(&home, &["replay", "--json"]).0;
    assert_eq!(last["state_hash"], proof["state_hash"]);
    assert_eq!(last["log_index"], proof["records"]);
    assert_eq!(last["transfers_in_flight"][0]["id"], *open.id);

    let output_text = home.offline(&["replay"]).out();
    assert!(
        output_text.contains("transfers in flight: 1;") && output_text.contains(&open.id),
        "{output_text}"
    );
    for (until, named) in
        [("999999", "the log ends with record"), ("1999-01-01T00:00:00Z", "later")]
    {
        let output = home.offline(&["replay", "--until", until]).fails();
        assert!(output.contains(named), "{until}");
    }
}

/// The log of a running switch cannot be read by another process.
#[test]
fn offline_commands_refuse_a_running_switch() {
    let scheme = Scheme::start();
    let transfer = Transfer::of("1");
    scheme.send(&transfer.prepare(), 202);
    for command in [&["replay"][..], &["verify"], &["explain", &transfer.id]] {
        let output = scheme.home.offline(command).fails();
        assert!(output.contains("in use"), "{command:?}");
    }
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    scheme.wait_until_delivered();
    scheme.end();
}

/// The next frame contains the digest of a record's decisions. A mismatch is reported for the
/// record, with its position and its transfer.
#[test]
fn diverging_decision_is_reported_with_its_record() {
    let (home, transfers) = stopped_scheme();
    let disk = RealDisk::open(&home.data()).unwrap();
    let (mut log, _) = FileLog::open(disk, journal::LogOptions::default()).unwrap();
    let at = log.tail().end.0 + 1;
    // The second frame contains a wrong digest of the first frame's outcomes.
    let change = ledger::Change::EndFundsOut(ledger::EndFundsOut {
        id: TransferId::parse(&transfers[0].id).unwrap(),
        name: FspName::new("payerfsp").unwrap(),
        account: ledger::AccountId(1),
        commit: false,
        hash: ledger::Digest([0; 32]),
    });
    let (actor, reason) = ("nobody".to_owned(), String::new());
    let change = ledger::Administer { actor, reason, change };
    let commands = [ledger::Command::Administer(Box::new(change)), ledger::Command::Tick];
    for (command, applied) in commands.iter().zip([LogIndex(0), LogIndex(at)]) {
        let header = BatchHeader { applied, ..of_nobody(&log.tail()) };
        append(&mut log, &[command], header);
    }
    drop(log);
    let mut offset = 0;
    journal::walk(&RealDisk::open(&home.data()).unwrap(), &mut |placed| {
        if placed.frame.header().first.0 == at {
            offset = placed.offset;
        }
        Ok(())
    })
    .unwrap();
    let (disproof, output) = answer(&home, &["verify", "--json"]);
    let fault = &disproof["fault"];
    assert_eq!((&fault["log_index"], &fault["offset"]), (&json!(at), &json!(offset)), "{fault}");
    assert_eq!(fault["transfer"], *transfers[0].id, "{fault}");
    assert!(output.err().contains(&format!("(transfer {})", transfers[0].id)));
}

/// A frame without a digest of the previous decisions is confirmed by the next frame with one. At
/// the end of the log, or with a wrong digest, it is an error.
#[test]
fn log_does_not_end_in_a_frame_without_a_digest() {
    let (home, _) = stopped_scheme();
    let open = || {
        let disk = RealDisk::open(&home.data()).unwrap();
        FileLog::open(disk, journal::LogOptions::default()).unwrap().0
    };
    let tick = [&ledger::Command::Tick];
    let refused = |named: &str| {
        let (disproof, output) = answer(&home, &["verify", "--json"]);
        assert!(output.err().contains(named), "{}", output.err());
        disproof
    };
    let mut log = open();
    let (end, header) = (log.tail().end.0, of_nobody(&log.tail()));
    append(&mut log, &tick, header);
    drop(log);
    let disproof = refused("has no digest of the decisions before it");
    assert_eq!(disproof["fault"]["log_index"], end + 1, "{disproof:#}");

    let mut log = open();
    let header = that_speaks(&mut log);
    append(&mut log, &tick, header);
    drop(log);
    let (proof, _) = answer(&home, &["verify", "--json"]);
    let batches = proof["batches"].as_u64().unwrap();
    assert_eq!(proof["batches_confirmed"], batches - 2, "the next one speaks for it");

    let mut log = open();
    let header = BatchHeader { applied: LogIndex(1), ..of_nobody(&log.tail()) };
    append(&mut log, &tick, header);
    drop(log);
    let named = "confirms the outcomes only up to record 1";
    refused(named);
    assert!(home.serve_in_vain(Ports::free()).err().contains(named), "nor does it start");
}

/// Appends a record that the switch never writes, and another one of the same batch: a log cannot
/// begin twice. Returns its log index.
fn poison(home: &Home) -> u64 {
    let disk = RealDisk::open(&home.data()).unwrap();
    let (mut log, _) = FileLog::open(disk, journal::LogOptions::default()).unwrap();
    let genesis = ledger::Genesis { seed: [0; 16], hub: FspName::new("Hub").unwrap() };
    let tail = log.tail();
    let commands = [&ledger::Command::Genesis(genesis), &ledger::Command::Tick];
    let header = that_speaks(&mut log);
    append(&mut log, &commands, header);
    assert_eq!(log.end(), LogIndex(tail.end.0 + 2));
    tail.end.0 + 1
}

/// A batch of an unknown node.
fn of_nobody(tail: &Tail) -> BatchHeader {
    let stamp = ledger::Stamp(tail.stamp.0 + 1);
    BatchHeader { stamp, node: 9, epoch: 1, sequence: tail.end.0, ..BatchHeader::default() }
}

/// A header with a digest of the previous decisions.
fn that_speaks(log: &mut FileLog<RealDisk>) -> BatchHeader {
    let state = sequencer::replay(log, &mut |_| {}).unwrap().state;
    let (applied, outcome_digest) = (state.log_index(), *state.digest());
    BatchHeader { applied, outcome_digest, ..of_nobody(&log.tail()) }
}

fn append(log: &mut FileLog<RealDisk>, commands: &[&ledger::Command], header: BatchHeader) {
    let mut builder = FrameBuilder::new();
    for command in commands {
        let mut fields = Vec::new();
        record::command::write_fields(command, &mut fields);
        let (kind, version) = (command.number(), 1);
        let new = NewRecord { kind, version, fields: &fields, payload: None };
        builder.push(&new.encode().unwrap()).unwrap();
    }
    let tail = log.tail();
    log.append(builder.seal(&tail, &header).bytes).unwrap();
    log.sync().unwrap();
}

#[test]
fn record_that_blocks_every_start_can_be_quarantined() {
    let (home, transfers) = stopped_scheme();
    let sound = answer(&home, &["verify", "--json"]).0["records"].as_u64().unwrap();
    let arguments = |position: &str| -> Vec<String> {
        let all = ["quarantine", position, "--by", "A. Odhiambo", "--reason", "defect 512"];
        all.map(str::to_owned).to_vec()
    };
    let quarantine = |log_index: u64| {
        let arguments = arguments(&log_index.to_string());
        home.offline(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let refused = |log_index: u64, named: &str| {
        let before = content(&home.data());
        let output_text = quarantine(log_index).fails();
        assert!(output_text.contains(named), "{output_text}");
        assert!(before == content(&home.data()), "nothing is set aside");
    };
    refused(sound, "the log replays to its end");

    let poison = poison(&home);
    let stopped = |output: Output| {
        let output_text = output.err();
        assert!(!output.status.success(), "{output_text}");
        assert!(
            output_text.contains(&format!("record {poison} breaks an invariant")),
            "{output_text}"
        );
    };
    stopped(home.serve_in_vain(Ports::free()));
    let (disproof, _) = answer(&home, &["verify", "--json"]);
    assert_eq!(disproof["fault"]["log_index"], poison);
    refused(sound, "the replay stops at record");
    quarantine(poison).succeeds();

    // Verified without the record, before and after the next start, which records author and
    // reason.
    let (proof, _) = answer(&home, &["verify", "--json"]);
    assert_eq!((&proof["ok"], &proof["quarantined"][0]["noted"]), (&json!(true), &json!(null)));
    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    assert_eq!(admin.position("payeefsp"), "-10");
    switch.stop(Signal::TERM);
    home.serve().stop(Signal::TERM);
    let (proof, _) = answer(&home, &["verify", "--json"]);
    let quarantined = &proof["quarantined"][0];
    for (name, expected) in [
        ("position", json!(poison)),
        ("by", json!("A. Odhiambo")),
        ("reason", json!("defect 512")),
        ("noted", json!(poison + 2)),
    ] {
        assert_eq!(quarantined[name], expected, "{name}: {proof:#}");
    }
    assert_eq!(proof["records"], poison + 2, "it is put on record once");
    // The same for a start from a snapshot, which does not read earlier records.
    assert!(home.offline(&["snapshot"]).status.success());
    let switch = home.serve();
    assert!(switch.greeting.contains("continued from the snapshot"), "{}", switch.greeting);
    switch.stop(Signal::TERM);
    let (proof, _) = answer(&home, &["verify", "--json"]);
    assert_eq!((&proof["records"], &proof["snapshots"]), (&json!(poison + 2), &json!(1)));
    fs::remove_file(home.data().join(format!("{:020}.snapshot", poison + 2))).unwrap();
    let (history, _) = answer(&home, &["explain", &transfers[0].id, "--json"]);
    assert_eq!(history["state"], "COMMITTED");
    let at = answer(&home, &["replay", "--until", &poison.to_string(), "--json"]).0;
    assert_eq!(
        (&at["log_index"], &at["quarantined"][0]["position"]),
        (&json!(poison), &json!(poison))
    );
    let before = answer(&home, &["replay", "--until", "5", "--json"]).0;
    assert_eq!(before["quarantined"], json!(null), "it is later");
    let what_if = ["what-if", "--limit", "payerfsp:USD:5", "--from", "20"];
    for explained in [home.offline(&what_if), home.offline(&["replay"])] {
        let output_text = explained.out();
        let line = format!("record {poison} is skipped: quarantined by A. Odhiambo at ");
        assert!(
            explained.status.success() && output_text.contains(&line),
            "{output_text} {}",
            explained.err()
        );
    }

    // A later change or loss of the file is detected.
    let file = home.data().join("quarantine.json");
    let sheet = fs::read_to_string(&file).unwrap();
    for (from, to, named) in [
        ("A. Odhiambo", "Nobody", "have no note about it"),
        ("defect 512", "none", "have no note about it"),
        (
            &*format!("\"position\": {poison}"),
            "\"position\": 5",
            "digest does not match quarantine.json",
        ),
    ] {
        assert!(sheet.contains(from), "{sheet}");
        fs::write(&file, sheet.replace(from, to)).unwrap();
        let (disproof, _) = answer(&home, &["verify", "--json"]);
        let what = disproof["fault"]["what"].as_str().unwrap();
        assert!(what.contains(named), "{from}: {what}");
        // No start records another reason, or another record.
        let output_text = home.serve_in_vain(Ports::free()).err();
        assert!(output_text.contains("quarantine.json"), "{from}: {output_text}");
    }
    fs::write(&file, "{").unwrap();
    let output = home.offline(&["verify"]).fails();
    assert!(output.contains("quarantine.json"));
    fs::remove_file(&file).unwrap();
    stopped(home.serve_in_vain(Ports::free()));
    fs::write(&file, &sheet).unwrap();
    let (proof, _) = answer(&home, &["verify", "--json"]);
    assert_eq!((&proof["ok"], &proof["records"]), (&json!(true), &json!(poison + 2)));
}

/// Runs next to a running switch, and leaves no files.
#[test]
fn what_if_applies_other_caps_and_cover() {
    let scheme = Scheme::start();
    let from = scheme.admin.metric("upesi_log_index") + 1;
    let [small, large] = ["10", "5000"].map(Transfer::of);
    for transfer in [&small, &large] {
        scheme.send(&transfer.prepare(), 202);
    }
    scheme.send(&small.fulfil("COMMITTED"), 200);
    scheme.wait_until_delivered();
    wait_until_quiet(&scheme.home.data());
    let ask = |changes: &[&str]| {
        let from = from.to_string();
        let mut arguments = vec!["what-if", "--list", "--json", "--from", &from];
        arguments.extend(changes);
        let (shown, output) = answer(&scheme.home, &arguments);
        assert!(output.status.success(), "{}", output.err());
        shown
    };
    let row = |shown: &Value, course: &str| {
        let rows = shown["participants"].as_array().unwrap();
        let payer = rows.iter().find(|row| row["participant"] == "payerfsp").unwrap();
        let Value::Object(row) = payer[course].clone() else { panic!("{payer}") };
        let count = |name: &str| row[name]["count"].as_u64().unwrap();
        let counts = ["refused", "refusals_that_appear", "refusals_that_vanish"].map(count);
        (counts, row["highest_position"].clone(), row["least_headroom"].clone())
    };
    let same = ask(&["--limit", "payerfsp:USD:1000"]);
    for course in ["log", "all_commit", "none_commit", "given_back"] {
        assert_eq!(row(&same, course), ([1, 0, 0], json!("10"), json!("990")), "{same:#}");
    }
    assert_eq!(same["transfers"], json!([]));
    let lower = ask(&["--limit", "payerfsp:USD:9.5"]);
    assert_eq!(row(&lower, "none_commit"), ([2, 1, 0], json!("0"), json!("9.5")), "{lower:#}");
    let higher = ask(&["--limit", "payerfsp:USD:9000", "--cover", "payerfsp:USD:+9000"]);
    assert_eq!(row(&higher, "all_commit"), ([0, 0, 1], json!("5010"), json!("3990")));
    let id = large.path().rsplit('/').next().unwrap().to_owned();
    let transfer = &higher["transfers"][0];
    let explained = [&transfer["transfer"], &transfer["log"], &transfer["none_commit"]];
    assert_eq!(explained, [id.as_str(), "PrepareLiquidityInsufficient", "PrepareReserved"]);

    for (arguments, named) in [
        (&["--limit", "payerfsp:USD:-1", "--from", "9"][..], "cannot be negative"),
        (&["--limit", "nobody:USD:1", "--from", "9"], "no such account"),
        (&["--limit", "payerfsp:USD:1", "--from", "1"], "--from"),
        (&["--limit", "payerfsp:USD:1", "--from", "999999"], "ends with record"),
        (
            &["--limit", "payerfsp:USD:1", "--from", "2020-01-01T00:00:00Z", "--to"],
            "the next records are stamped",
        ),
        (&["--limit", "payerfsp:USD:1.00001", "--from", "9"], "18 digits and 4 decimals"),
        (&["--limit", "payerfsp:USD:1", "--from", "1"], "no participant has a cap before"),
        (&["--from", "9"], "--limit"),
        (&["--limit", "payerfsp:USD:1", "--from", "12", "--to", "9"], "--to: is before --from"),
        (&["--limit", "payerfsp:USD:1", "--from", "2999-01-01T00:00:00Z", "--to", "9"], "within"),
        (&["--limit", "a:USD:1", "--limit", "a:USD:2", "--from", "9"], "a:USD is given twice"),
        (&["--limit", "payerfsp:USD:1", "--from", "99", "--to", "999999"], "the log ends with"),
    ] {
        let mut arguments = arguments.to_vec();
        if arguments.last() == Some(&"--to") {
            arguments.push("2021-01-01T00:00:00Z");
        }
        let output = scheme.home.offline(&[&["what-if"], &*arguments].concat()).fails();
        assert!(output.contains(named), "{named}");
    }
    let output_text =
        scheme.home.offline(&["what-if", "--limit", "payerfsp:USD:9.5", "--from", "9"]).out();
    assert!(
        output_text.contains("refusals that appear") && output_text.contains("least headroom"),
        "{output_text}"
    );
    assert!(!output_text.contains("withdrawals refused"), "there is none: {output_text}");
    // The period is not over. The output ends with the log, and states so.
    let tomorrow = ["--limit", "payerfsp:USD:9", "--to", "2999-01-01T00:00:00Z"];
    assert_eq!(ask(&tomorrow)["log_ends_before"], true);
    assert_eq!(same["log_ends_before"], false);
    let output_text =
        scheme.home.offline(&[&["what-if", "--from", "9"], &tomorrow[..]].concat()).out();
    assert!(output_text.lines().next().unwrap().ends_with("; the log ends there"), "{output_text}");
    scheme.end();
}

/// Another cap admits a transfer, after which an operator's withdrawal would be refused for lack of
/// liquidity. The remaining money is not an effect of the cap, and the output states so.
#[test]
fn what_if_names_a_withdrawal_that_another_cap_refuses() {
    let scheme = Scheme::start();
    let admin = &scheme.admin;
    let pay = |amount: &str| {
        scheme.pay(amount);
    };
    // Cover of 2000, of which 1500 are withdrawn before the period.
    withdraw(admin, "1500", "recordFundsOutCommit");
    admin.set_limit("payerfsp", "250");
    pay("200");
    scheme.wait_until_delivered();
    let from = (admin.metric("upesi_log_index") + 1).to_string();
    let [by_cap, by_cover] = ["100", "100"].map(Transfer::of);
    scheme.send(&by_cap.prepare(), 202);
    pay("50");
    admin.set_limit("payerfsp", "1000");
    let movement = withdraw(admin, "200", "recordFundsOutCommit");
    scheme.send(&by_cover.prepare(), 202);
    scheme.wait_until_delivered();

    let asked = ["what-if", "--limit", "payerfsp:USD:1000", "--from", &from];
    let (shown, _) = answer(&scheme.home, &[&asked[..], &["--json"]].concat());
    let rows = shown["participants"].as_array().unwrap();
    let payer = rows.iter().find(|row| row["participant"] == "payerfsp").unwrap();
    for (course, refused, withdrawals, kept, covered) in [
        ("log", 2, 0, "0", 0),
        ("all_commit", 0, 1, "200", 1),
        ("none_commit", 0, 1, "200", 1),
        ("given_back", 1, 0, "0", 0),
    ] {
        let course = &payer[course];
        assert_eq!(course["refused"]["count"], refused, "{payer:#}");
        assert_eq!(course["withdrawals_refused"]["count"], withdrawals, "{payer:#}");
        assert_eq!(course["cover_not_withdrawn"], kept, "{payer:#}");
        assert_eq!(course["transfers_so_covered"]["count"], covered, "{payer:#}");
    }
    let in_columns = json!({ "all_commit": 1, "none_commit": 1, "given_back": 0 });
    assert_eq!((&shown["funds_differing"], &shown["funds_differing_in"]), (&json!(1), &in_columns));
    let one = &shown["funds"][0];
    for (name, expected) in [
        ("transfer", &*movement),
        ("participant", "payerfsp"),
        ("direction", "out"),
        ("amount", "200"),
        ("currency", "USD"),
        ("log", "withdrawn"),
        ("all_commit", "refused"),
        ("none_commit", "refused"),
        ("given_back", "withdrawn"),
    ] {
        assert_eq!(one[name], expected, "{name}: {one:#}");
    }
    // The text output names it without an option.
    let output_text = scheme.home.offline(&asked).out();
    let (record, count) = (&one["log_index"], "(all commit 1, none commits 1, given back 0)");
    for expected in [
        &*format!("movements of funds with another result: 1 {count}"),
        &format!("{record} {movement} payerfsp out 200 USD withdrawn refused refused withdrawn"),
        "cover not withdrawn 0 200 200 0",
        "This also lowers the refusals in that column",
    ] {
        assert!(words(&output_text).contains(expected), "{expected}: {output_text}");
    }
    scheme.end();
}

/// A text with single spaces, independent of column widths.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Withdraws funds of `payerfsp` and ends the withdrawal. Returns its id.
fn withdraw(admin: &Admin, amount: &str, end: &str) -> String {
    let (id, account) = (uuid(), admin.account("payerfsp", "SETTLEMENT").id);
    let path = format!("/participants/payerfsp/accounts/{account}");
    let reserve = format!(
        "{{\"transferId\":\"{id}\",\"externalReference\":\"none\",\"reason\":\"less cover\",\
         \"action\":\"recordFundsOutPrepareReserve\",\
         \"amount\":{{\"amount\":\"{amount}\",\"currency\":\"USD\"}}}}"
    );
    admin.must("POST", &path, &reserve, 202);
    let end = format!("{{\"action\":\"{end}\",\"reason\":\"less cover\"}}");
    admin.must("PUT", &format!("{path}/transfers/{id}"), &end, 202);
    id
}

/// A running switch and its log give the same explanation of a transfer.
#[test]
fn running_switch_and_log_explain_a_transfer_alike() {
    let scheme = Scheme::start();
    let transfers = ["10", "20", "5000", "30"].map(Transfer::of);
    for transfer in &transfers {
        scheme.send(&transfer.prepare(), 202);
    }
    let short = Transfer::of("40").expiring(1_500);
    scheme.send(&short.prepare(), 202);
    scheme.send(&transfers[0].fulfil("COMMITTED"), 200);
    scheme.send(&transfers[1].error("5104", "No"), 200);
    scheme.admin.wait_for("upesi_transfers_expired_total", |expired| expired == 1);
    scheme.wait_until_delivered();
    // Makes the delivery records durable.
    scheme.send(&transfers[3].prepare(), 202);
    scheme.wait_until_delivered();
    let explain = |id: &str| scheme.admin.explain(id);
    let ids: Vec<_> = transfers.iter().chain([&short]).map(|one| one.id.clone()).collect();
    let live: Vec<_> = ids.iter().map(|id| explain(id)).collect();
    let states: Vec<_> = live.iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["COMMITTED", "ABORTED", "ABORTED", "RESERVED", "ABORTED"]);
    scheme.switch.stop(Signal::TERM);
    for (at, (id, live)) in ids.iter().zip(&live).enumerate() {
        let later = history(&scheme.home, id);
        assert_eq!(live["state"], later["state"]);
        assert_eq!(live["missing"], Value::Null);
        if at == 3 {
            continue;
        }
        assert_eq!(live["notices_pending"], json!([]), "everything was delivered");
        assert_eq!(live["events"], later["events"]);
    }
}

/// While a callback fails, the explanation shows the attempts and the time of the next one.
#[test]
fn failing_callback_is_explained_while_it_is_retried() {
    let scheme = Scheme::start();
    scheme.payee.answer(|_| Reply::Status(500));
    let transfer = Transfer::of("10");
    scheme.send(&transfer.prepare(), 202);
    let explain = || scheme.admin.explain(&transfer.id);
    let deadline = Instant::now() + Duration::from_secs(20);
    let explained = loop {
        let explained = explain();
        let failed = explained["under_way"][0]["last_status"] == 500;
        if failed && explained["under_way"][0]["waits"] != "the answer to an attempt" {
            break explained;
        }
        assert!(Instant::now() < deadline, "{explained:#}");
    };
    let one = &explained["under_way"][0];
    assert_eq!(explained["notices_pending"], json!([one["notice"]]), "{explained:#}");
    assert_eq!(
        (&one["recipient"], &one["request"]),
        (&json!("payeefsp"), &json!("POST /transfers"))
    );
    assert!(1 <= one["attempts"].as_u64().unwrap(), "{one:#}");
    assert!(one["first_attempt"].as_str() <= one["next_attempt"].as_str(), "{one:#}");
    assert!(one["waits"].as_str().unwrap().contains("pause"), "{one:#}");
    let tried = one["tried"].as_array().unwrap();
    assert_eq!(tried.len() as u64, one["attempts"].as_u64().unwrap(), "{one:#}");
    assert!(tried.iter().all(|attempt| attempt["status"] == 500), "{one:#}");
    scheme.payee.answer(|_| Reply::Status(202));
    scheme.wait_until_delivered();
    // Makes the delivery records durable.
    scheme.send(&transfer.prepare(), 202);
    scheme.wait_until_delivered();
    let notice = one["notice"].clone();
    let explained = explain();
    assert!(!explained["notices_pending"].as_array().unwrap().contains(&notice), "{explained:#}");
    let is_end = |event: &&Value| event["event"] == "delivery" && event["notice"] == notice;
    let end = explained["events"].as_array().unwrap().iter().find(is_end).unwrap();
    let tried = end["tried"].as_array().unwrap();
    assert!(2 <= tried.len() && tried.len() as u64 == end["attempts"], "{end:#}");
    let (last, failed) = tried.split_last().unwrap();
    assert_eq!(last["status"], 202);
    assert!(failed.iter().all(|attempt| attempt["status"] == 500), "{end:#}");
    assert!(tried.is_sorted_by_key(|attempt| attempt["began"].as_str()), "{end:#}");
    assert!(last["began"].as_str() <= end["finished"].as_str(), "{end:#}");
    scheme.switch.stop(Signal::TERM);
    let later = history(&scheme.home, &transfer.id);
    assert!(later["events"].as_array().unwrap().contains(end), "{later:#}");
    let text = String::from_utf8(scheme.home.offline(&["explain", &transfer.id]).stdout).unwrap();
    let has_row = |number: usize, began: &Value, status: u16| {
        let begin = format!("{number} {} ", began.as_str().unwrap());
        let mut rows = text.lines().map(words);
        rows.any(|row| row.starts_with(&begin) && row.ends_with(&format!(" ms status {status}")))
    };
    assert!(has_row(1, &tried[0]["began"], 500), "{text}");
    assert!(has_row(tried.len(), &last["began"], 202), "{text}");
}

/// The cause of an unanswered attempt is stored. A delivery at the first attempt needs no space.
#[test]
fn unanswered_attempts_are_explained_with_their_cause() {
    let scheme = Scheme::configured("[delivery]\nhorizon_seconds = 1\n");
    let transfer = Transfer::of("10");
    let reached = Transfer::of("20");
    scheme.send(&reached.prepare(), 202);
    scheme.wait_until_delivered();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{closed}/transfers");
    scheme.admin.set_endpoint("payeefsp", "TRANSFER_POST", &url);
    scheme.send(&transfer.prepare(), 202);
    scheme.admin.wait_for("upesi_dead_letters", |dead| dead == 1);
    scheme.switch.stop(Signal::TERM);
    let ends = |id: &str| -> Vec<Value> {
        let explained = history(&scheme.home, id);
        let events = explained["events"].as_array().unwrap().iter();
        events.filter(|event| event["event"] == "delivery").cloned().collect()
    };
    let [dead] = &ends(&transfer.id)[..] else { panic!("one end") };
    assert_eq!((&dead["result"], &dead["last_status"]), (&json!("dead"), &Value::Null));
    let explained = answer(&scheme.home, &["explain", &transfer.id, "--json"]).0;
    assert_eq!(
        (&explained["notices_pending"], &explained["dead_letters"]),
        (&json!([]), &json!([2]))
    );
    let causes: Vec<_> =
        dead["tried"].as_array().unwrap().iter().map(|one| one["failure"].as_str()).collect();
    assert_eq!(dead["attempts"], causes.len(), "{dead:#}");
    assert!(2 <= causes.len(), "{dead:#}");
    assert!(causes.iter().all(|cause| *cause == Some("no connection")), "{dead:#}");
    let [first] = &ends(&reached.id)[..] else { panic!("one end") };
    assert_eq!((&first["attempts"], &first["tried"]), (&json!(1), &json!([])));
}

/// An unusable store is ignored with a message, and the result is the same.
#[test]
fn decisions_missing_in_the_store_are_replayed() {
    let mut scheme = Scheme::start();
    let [resent, open] = ["10", "20"].map(Transfer::of);
    for transfer in [&resent, &open] {
        scheme.send(&transfer.prepare(), 202);
    }
    scheme.send(&resent.fulfil("COMMITTED"), 200);
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    let store = scheme.home.data().join("store");
    let kept = scheme.home.data().parent().unwrap().join("kept");
    replace(&store, &kept);
    scheme.switch = scheme.home.serve();
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    scheme.send(&resent.prepare(), 202);
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);

    let home = scheme.home;
    let newest = history(&home, &resent.id);
    let check = |named: &str| {
        let (explained, _) = answer(&home, &["explain", &resent.id, "--json"]);
        let why = explained["store_not_asked"].as_str().unwrap();
        assert!(why.contains(named), "{why}");
        assert_eq!(explained["events"], newest["events"], "{named}");
    };
    fs::remove_dir_all(&store).unwrap();
    check("it does not exist");
    // A store that ends before a record about the transfer. For the other transfer it suffices.
    fs::rename(&kept, &store).unwrap();
    check("it ends with record");
    assert_eq!(history(&home, &open.id)["state"], "RESERVED");
}
