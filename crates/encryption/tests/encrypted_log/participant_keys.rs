//! Contents that are sealed with keys of their participants, and the destruction of these keys.

use std::collections::BTreeSet;

use ledger::{Command, Digest, FspName, RecordRequestToPay, RequestStep, TransferId};
use record::command::{FIELDS_VERSION, write_fields};
use record::frame::{BatchHeader, FrameBuilder, NewRecord, Payload, Record, Tail, payload_digest};

use super::*;

/// A payload of a participant with a key of its own, and of another one.
const SECRETS: [&[u8]; 2] = [
    b"a name and a number of a person at bank A, and a long note",
    b"a name and a number of a person at bank B, and a long note",
];

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

/// A cipher with a key of its own for `bank-a`.
fn with_own_key(disk: &MemoryDisk) -> Keyring<MemoryDisk> {
    let participants = vec![name("bank-a")];
    Keyring::with_participants(disk.clone(), only(1), participants).expect("the keys open")
}

fn tiered(disk: &MemoryDisk, keys: &Keyring<MemoryDisk>) -> TieredDisk<MemoryDisk> {
    with_cipher(disk, Arc::new(keys.clone()))
}

/// A frame with a message of each participant.
fn frame_of_both(tail: &Tail) -> Vec<u8> {
    let mut builder = FrameBuilder::new();
    let request = TransferId::parse("b51ec534-ee48-4575-b6a9-000000000001").expect("an id");
    // Senders write their names in any case.
    for (source, secret) in ["Bank-A", "bank-b"].into_iter().zip(SECRETS) {
        let (source, hash) = (name(source), Digest([0; 32]));
        let step = RequestStep::Failed;
        let message = RecordRequestToPay { request, source, step, hash, trace: [0; 16] };
        let command = Command::RecordRequestToPay(Box::new(message));
        let mut fields = Vec::new();
        write_fields(&command, &mut fields);
        let payload = Some((secret, payload_digest(secret)));
        let kind = command.number();
        let record = NewRecord { kind, version: FIELDS_VERSION, fields: &fields, payload };
        builder.push(&record.encode().expect("short")).expect("it fits");
    }
    let stamp = ledger::Stamp(tail.stamp.0 + 1);
    builder.seal(tail, &BatchHeader { stamp, wall: stamp, ..BatchHeader::default() }).bytes.to_vec()
}

/// A log of both participants, and the frames in it.
fn log_of_both(disk: &TieredDisk<MemoryDisk>, frames: usize) -> (EncryptedLog, Vec<Vec<u8>>) {
    let mut log = FileLog::open_or_create(disk.clone(), IDENTITY, OPTIONS).expect("opens").0;
    let mut written = Vec::new();
    for _ in 0..frames {
        let frame = frame_of_both(&log.tail());
        log.append(&frame).expect("appends");
        written.push(frame);
    }
    log.sync().expect("syncs");
    (log, written)
}

/// The stored payloads of each participant, in a log that is checked to its end.
fn stored(disk: &TieredDisk<MemoryDisk>) -> [usize; 2] {
    let mut counts = [0; 2];
    let walked = journal::walk(disk, &mut |located| {
        for record in located.frame.records() {
            if let Payload::Stored(payload) = record.payload {
                let at = SECRETS.iter().position(|secret| *secret == payload);
                counts[at.expect("one of both")] += 1;
            }
        }
        Ok(())
    });
    walked.expect("the log is sound");
    counts
}

fn own_keys(disk: &MemoryDisk) -> Vec<KeyId> {
    let file = KeyFile::read(disk).expect("reads").expect("exists");
    let own = file.keys.iter().filter(|key| key.participant == Some(name("bank-a")));
    own.map(|key| key.id).collect()
}

#[test]
fn sealed_contents_are_read_like_others() {
    let disk = MemoryDisk::new(1);
    let keys = with_own_key(&disk);
    let (mut log, frames) = log_of_both(&tiered(&disk, &keys), 30);
    let mut read = Vec::new();
    log.replay(LogIndex(1), &mut |frame| {
        read.push(frame.as_bytes().to_vec());
        Ok(())
    })
    .expect("replays");
    assert_eq!(read, frames, "byte for byte");
    drop(log);
    // A process that seals nothing, such as a command, reads them too.
    assert_eq!(stored(&encrypted(&disk)), [30, 30]);
    assert_eq!(own_keys(&disk).len(), 1);
}

#[test]
fn contents_of_a_destroyed_key_are_erased_everywhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = journal::open_blob_store(&format!("file://{}", directory.path().display()));
    let place = place.expect("a place");
    for destination in [None, Some(Destination::InPlace), Some(Destination::BlobStore(&*place))] {
        let disk = MemoryDisk::new(2);
        let keys = with_own_key(&disk);
        let log = tiered(&disk, &keys);
        drop(log_of_both(&log, 60));
        let old = own_keys(&disk);
        keys.renew().expect("renews");
        let (writer, _) = log_of_both(&log, 1);
        if let Some(destination) = destination {
            journal::archive_segment(&log, &first_segment(&log), destination, &mut |_| Ok(()))
                .expect("archives");
        }
        assert_eq!(stored(&log), [61, 61]);
        let segments = log.segments().expect("lists");
        let needed = journal::payload_keys(&log, &segments, &mut |_| Ok(())).expect("reads");
        assert_eq!(needed, old.iter().copied().collect::<BTreeSet<_>>(), "the last one is open");
        assert_eq!(keys.replaced_keys(&name("BANK-A"), u64::MAX), old);
        assert_eq!(keys.destroy(&old), Ok(1));
        assert_eq!(keys.destroy(&old), Ok(0));
        // The key in use, and keys of no participant, stay.
        let file = KeyFile::read(&disk).expect("reads").expect("exists");
        let others: Vec<_> = file.keys.iter().map(|key| key.id).collect();
        assert_eq!(keys.destroy(&others), Ok(0));
        assert_eq!(file.destroyed.len(), 1);
        drop(writer);
        for log in [&log, &encrypted(&disk), &tiered(&disk, &with_own_key(&disk))] {
            assert_eq!(stored(log), [1, 61], "the chain is still proven");
        }
    }
}

/// An erasure rewrites a segment with the keys that its contents had.
#[test]
fn rewritten_contents_keep_their_keys() {
    let disk = MemoryDisk::new(3);
    let keys = with_own_key(&disk);
    let log = tiered(&disk, &keys);
    drop(log_of_both(&log, 60));
    let old = own_keys(&disk);
    keys.renew().expect("renews");
    // By a process that makes no keys for participants.
    let command = encrypted(&disk);
    let mut select = |record: &Record<'_>| record.log_index == LogIndex(2);
    let due = first_segment(&command);
    journal::erase_segment(&command, &due, (&mut select, &|_| ()), &mut |_| Ok(()))
        .expect("erases");
    assert_eq!(stored(&command), [60, 59]);
    let segments = command.segments().expect("lists");
    let needed = journal::payload_keys(&command, &segments, &mut |_| Ok(())).expect("reads");
    assert_eq!(needed, old.iter().copied().collect::<BTreeSet<_>>());
    // Without contents of the participant, nothing needs its key.
    let mut select = |record: &Record<'_>| record.log_index.0 % 2 == 1;
    for at in 0..segments.len() - 1 {
        let segments = command.segments().expect("lists");
        let (segment, after) = (segments[at].clone(), segments[at + 1].base);
        let due = PendingSegment { segment, after };
        journal::erase_segment(&command, &due, (&mut select, &|_| ()), &mut |_| Ok(()))
            .expect("erases");
    }
    let segments = command.segments().expect("lists");
    let needed = journal::payload_keys(&command, &segments, &mut |_| Ok(())).expect("reads");
    assert_eq!(needed, BTreeSet::new());
}

#[test]
fn a_crash_leaves_the_key_or_destroys_it() {
    let disk = MemoryDisk::new(4);
    let keys = with_own_key(&disk);
    drop(log_of_both(&tiered(&disk, &keys), 5));
    keys.renew().expect("renews");
    let old = [own_keys(&disk)[0]];
    let destroyed_after = |disk: &MemoryDisk| {
        let keys = with_own_key(disk);
        let done = keys.destroy(&old);
        (done, disk.operations())
    };
    let steps = {
        let disk = disk.copy(9);
        let before = disk.operations();
        let (done, after) = destroyed_after(&disk);
        assert_eq!(done, Ok(1));
        after - before
    };
    let mut outcomes = BTreeSet::new();
    for step in 1..=steps {
        let disk = disk.copy(step);
        disk.crash_at(disk.operations() + step);
        destroyed_after(&disk).0.expect_err("the disk is down");
        let disk = disk.crash();
        let keys = with_own_key(&disk);
        outcomes.insert(stored(&tiered(&disk, &keys)));
        assert!(keys.destroy(&old).is_ok(), "it is made again");
        assert_eq!(stored(&tiered(&disk, &keys)), [0, 5], "step {step}");
    }
    assert!(outcomes.is_subset(&BTreeSet::from([[0, 5], [5, 5]])), "{outcomes:?}");
}

/// A file of keys from before a destruction is put back while the switch runs.
#[test]
fn a_destroyed_key_does_not_come_back() {
    let disk = MemoryDisk::new(5);
    let keys = with_own_key(&disk);
    let log = tiered(&disk, &keys);
    drop(log_of_both(&log, 5));
    let before = KeyFile::read(&disk).expect("reads").expect("exists");
    let old = own_keys(&disk);
    keys.renew().expect("renews");
    assert_eq!(keys.destroy(&old), Ok(1));
    before.write(&disk).expect("writes");
    keys.check().expect("the same set");
    let file = KeyFile::read(&disk).expect("reads").expect("exists");
    assert_eq!((file.destroyed.len(), file.keys.len()), (1, 3), "two common keys, and a new one");
    assert_eq!(stored(&log), [0, 5]);
}

/// The wrapped key of a participant is bound to its name.
#[test]
fn keys_of_participants_are_wrapped_anew_and_cannot_be_exchanged() {
    let disk = MemoryDisk::new(6);
    drop(log_of_both(&tiered(&disk, &with_own_key(&disk)), 5));
    let change = MasterKeys { current: local(2), previous: Some(local(1)) };
    let keys = Keyring::open(disk.clone(), change.clone()).expect("opens");
    assert_eq!(keys.rewrap(), Ok(2));
    let mut file = KeyFile::read(&disk).expect("reads").expect("exists");
    let opened = || Keyring::open(disk.clone(), only(2)).expect("opens");
    assert_eq!(stored(&tiered(&disk, &opened())), [5, 5]);
    for key in file.keys.iter_mut().filter(|key| key.participant.is_some()) {
        key.participant = Some(name("bank-c"));
    }
    file.write(&disk).expect("writes");
    let refused = walk(&tiered(&disk, &opened())).expect_err("another name").to_string();
    assert!(refused.contains("cannot be opened"), "{refused}");
}

/// A lost key is not a destroyed one.
#[test]
fn contents_of_a_lost_key_are_not_taken_for_erased_ones() {
    let disk = MemoryDisk::new(7);
    drop(log_of_both(&tiered(&disk, &with_own_key(&disk)), 5));
    let mut file = KeyFile::read(&disk).expect("reads").expect("exists");
    file.keys.retain(|key| key.participant.is_none());
    file.write(&disk).expect("writes");
    let refused = refusal(&disk, Some(Arc::new(keyring(&disk))));
    assert!(refused.contains("which is not in data.keys"), "{refused}");
}
