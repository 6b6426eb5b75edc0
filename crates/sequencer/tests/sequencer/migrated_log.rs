//! The log of a standalone switch that was moved to a topic. Every node makes the same bytes of it,
//! wherever it starts and whatever messages are in between, and continues from its end.

use journal::{FileLog, LogOptions, MemoryDisk, contract};
use ledger::{Command, LogIndex, Stamp};
use ports::{ClockReading, Log};
use record::bundle::Bundle;
use record::frame::LogIdentity;
use record::topic_message::{self, LogEnd, TopicMessage};
use sequencer::{AppliedMessage, LastMessage, RejectedMessage, Replica};

use crate::fixture::{self, Copy, IDENTITY, SECOND, deactivate, genesis, open_log, submissions};

fn now(seconds: u64) -> ClockReading {
    fixture::at(seconds * SECOND)
}

/// The frames of a log that a switch wrote alone, in two epochs, and its end.
fn history() -> (Vec<Vec<u8>>, LogEnd) {
    let disk = MemoryDisk::new(1);
    for epoch in 0..2 {
        let (log, from) = (open_log(&disk), 100 + epoch * 50);
        let is_new = log.end() == LogIndex(0);
        let mut alone = fixture::open(log, now(from));
        for batch in 0..10 {
            let mut commands = vec![Command::Tick, deactivate(batch), Command::Tick];
            if is_new && batch == 0 {
                commands.insert(0, genesis());
            }
            commands.truncate(1 + batch as usize % 4);
            fixture::commit(&mut alone, commands, now(from + batch)).expect("it is recorded");
        }
    }
    let mut log = open_log(&disk);
    let tail = log.tail();
    let end = LogEnd { identity: IDENTITY, log_index: tail.end, chain: tail.chain };
    (contract::frames_of(&mut log, LogIndex(1)), end)
}

fn moved(frame: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let frame = record::frame::Frame::parse(frame).expect("it is a frame");
    topic_message::write_frame(&frame, &mut bytes);
    bytes
}

fn whole(end: &LogEnd) -> Vec<u8> {
    let mut bytes = Vec::new();
    topic_message::write_end_of_moved_log(end, &mut bytes);
    bytes
}

fn node(disk: &MemoryDisk, number: u32, last: Option<LastMessage>) -> Replica<Copy> {
    fixture::replica(open_log(disk).into_copy(), (number, 1), last)
}

fn bundle(replica: &mut Replica<Copy>, wall: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut waiting = submissions(vec![Command::Tick, deactivate(wall)]);
    replica.propose(&mut waiting, &mut Vec::new(), Stamp(wall * SECOND), &mut out);
    out
}

/// Applies a message of the topic.
fn apply(replica: &mut Replica<Copy>, bytes: &[u8], at: u64) -> Option<AppliedMessage> {
    let at = Stamp(at * SECOND);
    match TopicMessage::parse(bytes).expect("it is a message") {
        TopicMessage::Bundle(bundle) => Some(replica.deliver(&bundle, at).expect("all agree")),
        TopicMessage::Frame(frame) => Some(replica.restore(&frame).expect("all agree")),
        TopicMessage::EndOfMovedLog(end) => {
            replica.complete_migration(&end);
            None
        }
        TopicMessage::LogMoved(_) | TopicMessage::State(_) => None,
    }
}

fn apply_all(replica: &mut Replica<Copy>, frames: &[Vec<u8>]) {
    for frame in frames {
        apply(replica, &moved(frame), 900);
    }
}

#[test]
fn every_node_makes_the_same_frames_and_continues() {
    let (frames, end) = history();
    let disks = [MemoryDisk::new(2), MemoryDisk::new(3)];
    let mut nodes = [node(&disks[0], 1, None), node(&disks[1], 2, None)];
    // A node that does not wait writes before the log is complete: its bundle is rejected.
    let mut early = node(&MemoryDisk::new(4), 3, None);
    apply_all(&mut early, &frames);
    early.begin_epoch();
    let early = bundle(&mut early, 900);
    let mut topic: Vec<Vec<u8>> = Vec::new();
    for (at, frame) in frames.iter().enumerate() {
        topic.push(moved(frame));
        if at % 3 == 0 {
            // A frame of an earlier attempt, late.
            topic.push(moved(&frames[at / 2]));
        }
        if at == 7 {
            topic.push(early.clone());
            // An end marker that comes too early.
            topic.push(whole(&LogEnd { log_index: LogIndex(3), ..end }));
        }
    }
    for replica in &mut nodes {
        let mut framed = 0;
        for message in &topic {
            match apply(replica, message, 1_000) {
                Some(AppliedMessage::Applied { .. }) => framed += 1,
                Some(AppliedMessage::Rejected(
                    RejectedMessage::Repeat | RejectedMessage::OutOfPlace,
                ))
                | None => {}
                other => panic!("{other:?}"),
            }
            assert!(replica.is_partial());
        }
        assert_eq!(framed, frames.len());
        assert!(replica.complete_migration(&end) && !replica.is_partial());
        assert_eq!(replica.members().iter().count(), 0, "a standalone node is not a member");
        replica.begin_epoch();
    }
    let [one, two] = &mut nodes;
    assert_eq!(end_of(one), (end.log_index, end.chain));
    // After the end frames are rejected and bundles are applied.
    assert!(matches!(
        apply(one, &moved(&frames[3]), 1_001),
        Some(AppliedMessage::Rejected(RejectedMessage::Repeat))
    ));
    for round in 0..4 {
        for message in [bundle(one, 1_001 + round), bundle(two, 1_001 + round)] {
            for replica in [&mut *one, &mut *two] {
                let delivered = apply(replica, &message, 1_001 + round);
                assert!(matches!(delivered, Some(AppliedMessage::Applied { .. })), "{delivered:?}");
            }
        }
    }
    assert_eq!(end_of(one), end_of(two));
    assert_eq!(one.sequencer().state().hash(), two.sequencer().state().hash());
    assert_eq!(one.sequencer().state().stamp(), Stamp(1_004 * SECOND), "the brokers' time");
    let mut log = FileLog::open(disks[0].clone(), LogOptions::default()).expect("it opens").0;
    let copied = contract::frames_of(&mut log, LogIndex(1));
    assert!(copied[..frames.len()] == frames[..], "the frames are those that were moved");
}

fn end_of(replica: &Replica<Copy>) -> (LogIndex, ledger::Digest) {
    let tail = replica.sequencer().log().tail();
    (tail.end, tail.chain)
}

/// A node that stops anywhere in the log continues from its copy.
#[test]
fn a_node_may_restart_anywhere() {
    let (frames, end) = history();
    let mut ends = Vec::new();
    for stop in 0..=frames.len() {
        let disk = MemoryDisk::new(9);
        let mut replica = node(&disk, 1, None);
        apply_all(&mut replica, &frames[..stop]);
        drop(replica);
        let mut replica = node(&disk, 1, None);
        assert_eq!(replica.is_partial(), 0 < stop);
        apply_all(&mut replica, &frames);
        assert!(replica.complete_migration(&end));
        replica.begin_epoch();
        let message = bundle(&mut replica, 901);
        apply(&mut replica, &message, 901);
        ends.push(end_of(&replica));
    }
    assert!(ends.windows(2).all(|pair| pair[0] == pair[1]));
}

/// A message that is not the next frame of this log has no effect.
#[test]
fn other_messages_are_rejected() {
    let (frames, end) = history();
    let disk = MemoryDisk::new(9);
    let mut replica = node(&disk, 1, None);
    let rejected = |replica: &mut Replica<Copy>, bytes: &[u8]| match apply(replica, bytes, 900) {
        Some(AppliedMessage::Rejected(rejected)) => rejected,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        rejected(&mut replica, &moved(&frames[1])),
        RejectedMessage::OutOfPlace,
        "not the first"
    );
    apply(&mut replica, &moved(&frames[0]), 900);
    assert_eq!(
        rejected(&mut replica, &moved(&frames[2])),
        RejectedMessage::OutOfPlace,
        "one is missing"
    );
    assert_eq!(rejected(&mut replica, &moved(&frames[0])), RejectedMessage::Repeat);
    assert!(!replica.complete_migration(&end), "it is incomplete");
    assert!(!replica.complete_migration(&LogEnd { identity: LogIdentity([8; 16]), ..end }));

    // A log that began in the topic accepts no frames.
    let mut begun = node(&MemoryDisk::new(10), 2, None);
    let mut other = node(&MemoryDisk::new(11), 3, None);
    other.begin_epoch();
    let mut genesis_bytes = Vec::new();
    let mut waiting = submissions(vec![genesis()]);
    other.propose(&mut waiting, &mut Vec::new(), Stamp(1), &mut genesis_bytes);
    let mut header = Bundle::parse(&genesis_bytes).expect("it is a bundle").header;
    header.creates_log = true;
    let bundle = Bundle::parse(&genesis_bytes).expect("it is a bundle");
    let mut first = Vec::new();
    record::bundle::write(&header, bundle.count, bundle.records, &mut first);
    assert!(matches!(apply(&mut begun, &first, 1), Some(AppliedMessage::Applied { .. })));
    assert!(!begun.is_partial());
    for frame in &frames {
        assert!(matches!(
            rejected(&mut begun, &moved(frame)),
            RejectedMessage::Repeat | RejectedMessage::OutOfPlace
        ));
    }
}
