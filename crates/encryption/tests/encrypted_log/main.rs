//! Logs on disks with a cipher: the contract, crashes, errors without the right keys, and changes of
//! the master key.

mod participant_keys;

use std::sync::Arc;

use encryption::{KEY_FILE, KeyFile, Keyring, LocalKey, MasterKey, MasterKeys};
use journal::contract::{IDENTITY, Subject, check, frame_after};
use journal::{
    Backup, Destination, FileLog, LogOptions, MemoryDisk, OpenError, PendingSegment, RealDisk,
    TailPolicy, TieredDisk, Verify,
};
use ledger::LogIndex;
use ports::{Cipher, Disk, DiskError, KeyId, Log, LogError};
use record::frame::Frame;

const OPTIONS: LogOptions = LogOptions {
    segment_bytes: 20_000,
    verify: Verify::Everything,
    tail_policy: TailPolicy::Refuse,
    room_bytes: 700,
};

type EncryptedLog = FileLog<TieredDisk<MemoryDisk>>;

fn local(byte: u8) -> Arc<dyn MasterKey> {
    Arc::new(LocalKey::new(&[byte; 32]))
}

fn only(byte: u8) -> MasterKeys {
    MasterKeys { current: local(byte), previous: None }
}

fn keyring(disk: &MemoryDisk) -> Keyring<MemoryDisk> {
    Keyring::open(disk.clone(), only(1)).expect("the keys open")
}

fn with_cipher(disk: &MemoryDisk, cipher: Arc<dyn Cipher>) -> TieredDisk<MemoryDisk> {
    TieredDisk::open(disk.clone()).expect("opens").with_cipher(Some(cipher))
}

fn encrypted(disk: &MemoryDisk) -> TieredDisk<MemoryDisk> {
    with_cipher(disk, Arc::new(keyring(disk)))
}

fn walk(disk: &TieredDisk<MemoryDisk>) -> Result<u64, OpenError> {
    journal::walk(disk, &mut |_| Ok(())).map(|walked| walked.frames)
}

/// A log whose frames have payloads of repeated bytes.
fn log_of(disk: &TieredDisk<MemoryDisk>, frames: usize) -> EncryptedLog {
    let mut log = FileLog::open_or_create(disk.clone(), IDENTITY, OPTIONS).expect("opens").0;
    append(&mut log, frames);
    log.sync().expect("syncs");
    log
}

fn append(log: &mut EncryptedLog, frames: usize) {
    for at in 0..frames {
        log.append(&frame_after(&log.tail(), &[700 + at, 0, 90])).expect("appends");
    }
}

struct Encrypted {
    seed: u64,
    disk: MemoryDisk,
}

impl Subject for Encrypted {
    type Log = EncryptedLog;

    fn make(&mut self) -> Self::Log {
        self.seed += 1;
        self.disk = MemoryDisk::new(self.seed);
        FileLog::create(encrypted(&self.disk), IDENTITY, OPTIONS).expect("creates")
    }

    fn crash(&mut self, log: Self::Log) -> Self::Log {
        drop(log);
        self.disk = self.disk.crash();
        FileLog::open(encrypted(&self.disk), OPTIONS).expect("recovers").0
    }
}

#[test]
fn encrypted_log_keeps_the_contract() {
    for seed in [0, 1_000, 2_000] {
        check(&mut Encrypted { seed, disk: MemoryDisk::new(seed) });
    }
}

#[test]
fn frames_come_back_byte_for_byte_and_are_not_on_the_disk() {
    let disk = MemoryDisk::new(1);
    let mut log = FileLog::create(encrypted(&disk), IDENTITY, OPTIONS).expect("creates");
    let mut frames = Vec::new();
    for size in [40, 900, 3_000] {
        let frame = frame_after(&log.tail(), &[size, size]);
        log.append(&frame).expect("appends");
        frames.push(frame);
    }
    log.sync().expect("syncs");
    let mut read = Vec::new();
    log.replay(LogIndex(1), &mut |frame| {
        read.push(frame.as_bytes().to_vec());
        Ok(())
    })
    .expect("replays");
    assert_eq!(read, frames);
    let stored = disk.content("00000000000000000001.segment").expect("a segment");
    for frame in &frames {
        let parsed = Frame::parse(frame).expect("sound");
        let record = parsed.records().next().expect("a record");
        let ports::OwnedPayload::Stored(payload) =
            ports::OwnedRecord::copy(&record, parsed.header().batch.stamp).payload
        else {
            panic!("it has a payload")
        };
        let has = |bytes: &[u8]| bytes.windows(30).any(|window| window == &payload[..30]);
        assert!(has(frame) && !has(&stored));
    }
}

#[test]
fn encryption_can_begin_in_an_existing_log() {
    let disk = MemoryDisk::new(1);
    let plain = TieredDisk::open(disk.clone()).expect("opens");
    drop(log_of(&plain, 20));
    assert!(disk.content(KEY_FILE).is_none());
    drop(log_of(&encrypted(&disk), 20));
    drop(log_of(&encrypted(&disk), 20));
    assert_eq!(walk(&encrypted(&disk)), Ok(60));
    let keys = KeyFile::read(&disk).expect("reads").expect("exists").keys;
    assert_eq!(keys.len(), 2, "each process that writes makes a data key");
}

/// The error of a log that is opened with these keys, as text.
fn refusal(disk: &MemoryDisk, cipher: Option<Arc<dyn Cipher>>) -> String {
    let tiered = TieredDisk::open(disk.clone()).expect("opens").with_cipher(cipher);
    let before = disk.operations();
    let walked = walk(&tiered).expect_err("it cannot be read").to_string();
    let opened = FileLog::open(tiered, OPTIONS).expect_err("it cannot be opened");
    assert!(matches!(&opened, OpenError::Disk(DiskError::Encrypted { .. })), "{opened:?}");
    assert_eq!(opened.to_string(), walked);
    assert_eq!(disk.operations(), before, "nothing was changed");
    walked
}

fn first_key(disk: &MemoryDisk) -> KeyId {
    KeyFile::read(disk).expect("reads").expect("exists").keys[0].id
}

#[test]
fn a_log_without_its_key_is_refused_and_unchanged() {
    let disk = MemoryDisk::new(1);
    drop(log_of(&encrypted(&disk), 3));
    let key = first_key(&disk);
    assert_eq!(
        refusal(&disk, None),
        format!(
            "00000000000000000001.segment at byte 512: it is encrypted with data key {key}, and no \
             master key is given; name it with encryption.key in the settings file or with \
             UPESI_ENCRYPTION_KEY"
        )
    );
}

#[test]
fn another_master_key_is_named() {
    let disk = MemoryDisk::new(1);
    drop(log_of(&encrypted(&disk), 3));
    let (key, right, wrong) = (first_key(&disk), local(1), local(2));
    let error = Keyring::open(disk.clone(), only(2)).expect_err("it is another key").to_string();
    let (right, wrong) = (right.name(), wrong.name());
    assert_eq!(
        error,
        format!(
            "data key {key} in data.keys is wrapped by master key {right}, and the given master \
             key is {wrong}; give that key, or name it with encryption.previous_key to change to \
             {wrong}"
        )
    );
}

#[test]
fn lost_data_keys_are_named() {
    let disk = MemoryDisk::new(1);
    drop(log_of(&encrypted(&disk), 3));
    let key = first_key(&disk);
    disk.remove(KEY_FILE).expect("removes");
    let lost = refusal(&disk, Some(Arc::new(keyring(&disk))));
    let expected = format!("data key {key}, which is not in data.keys; restore data.keys");
    assert!(lost.contains(&expected), "{lost}");
}

#[test]
fn damaged_file_of_keys_is_refused() {
    let disk = MemoryDisk::new(1);
    drop(log_of(&encrypted(&disk), 3));
    let content = disk.content(KEY_FILE).expect("exists");
    for at in [0, 40, content.len() - 12] {
        disk.damage(KEY_FILE, at, 1);
        let error = Keyring::open(disk.clone(), only(1)).expect_err("damaged").to_string();
        assert!(error.starts_with("data.keys is damaged ("), "{error}");
        disk.damage(KEY_FILE, at, 1);
    }
    assert_eq!(walk(&encrypted(&disk)), Ok(3));
}

#[test]
fn every_changed_byte_of_an_encrypted_frame_is_detected() {
    let disk = MemoryDisk::new(1);
    drop(log_of(&encrypted(&disk), 2));
    let name = "00000000000000000001.segment";
    let cipher: Arc<dyn Cipher> = Arc::new(keyring(&disk));
    let length = disk.content(name).expect("exists").len();
    for at in (512..length.min(1_700)).step_by(7) {
        disk.damage(name, at, 4);
        assert!(walk(&with_cipher(&disk, cipher.clone())).is_err(), "byte {at}");
        disk.damage(name, at, 4);
    }
}

#[test]
fn a_torn_end_is_truncated_and_its_log_indexes_are_written_with_another_key() {
    for seed in 0..40 {
        let disk = MemoryDisk::new(seed);
        let mut log = log_of(&encrypted(&disk), 3);
        append(&mut log, 3);
        drop(log);
        let disk = disk.crash();
        let log = log_of(&encrypted(&disk), 2);
        let end = log.tail().end.0;
        drop(log);
        let frames = walk(&encrypted(&disk)).expect("sound");
        assert!((5..=8).contains(&frames) && end == 3 * frames, "{frames} {end}");
    }
}

#[test]
fn a_new_period_has_a_new_key_and_a_failure_keeps_the_old_one() {
    let disk = MemoryDisk::new(1);
    let keys = keyring(&disk);
    let tiered = with_cipher(&disk, Arc::new(keys.clone()));
    let mut log = log_of(&tiered, 2);
    let first = first_key(&disk);
    let second = keys.renew().expect("renews");
    append(&mut log, 2);
    disk.set_capacity(1);
    keys.renew().expect_err("the disk is full");
    disk.set_capacity(u64::MAX);
    append(&mut log, 2);
    log.sync().expect("syncs");
    let used: Vec<KeyId> = keys_of_frames(&disk);
    assert_eq!(used, [first, first, second, second, second, second]);
    drop(log);
    assert_eq!(walk(&encrypted(&disk)), Ok(6));
}

fn keys_of_frames(disk: &MemoryDisk) -> Vec<KeyId> {
    let bytes = disk.content("00000000000000000001.segment").expect("a segment");
    let mut at = 512;
    let mut keys = Vec::new();
    while let Ok(Some(length)) = record::frame::frame_length(&bytes[at..]) {
        keys.push(KeyId::of(&bytes[at + 168..]).expect("an encrypted frame"));
        at += length;
    }
    keys
}

#[test]
fn the_master_key_changes_without_rewriting_and_a_crash_leaves_either_form() {
    let disk = MemoryDisk::new(1);
    drop(log_of(&encrypted(&disk), 2));
    drop(log_of(&encrypted(&disk), 2));
    let change = MasterKeys { current: local(2), previous: Some(local(1)) };
    let steps = {
        let disk = disk.copy(9);
        let before = disk.operations();
        let keys = Keyring::open(disk.clone(), change.clone()).expect("opens");
        assert_eq!((keys.wrapped_by_others(), keys.rewrap()), (2, Ok(2)));
        assert_eq!((keys.wrapped_by_others(), keys.rewrap()), (0, Ok(0)));
        Keyring::open(disk.clone(), only(1)).expect_err("the old key opens nothing any more");
        disk.operations() - before
    };
    for step in 1..=steps {
        let disk = disk.copy(step);
        disk.crash_at(disk.operations() + step);
        let keys = Keyring::open(disk.clone(), change.clone()).expect("opens");
        keys.rewrap().expect_err("the disk is down");
        let disk = disk.crash();
        let opened = Keyring::open(disk.clone(), change.clone()).expect("either form opens");
        assert_eq!(walk(&with_cipher(&disk, Arc::new(opened))), Ok(4), "step {step}");
    }
}

#[test]
fn a_half_changed_file_needs_both_keys() {
    let disk = MemoryDisk::new(1);
    drop(log_of(&encrypted(&disk), 2));
    let change = MasterKeys { current: local(2), previous: Some(local(1)) };
    let keys = Keyring::open(disk.clone(), change).expect("opens");
    drop(log_of(&with_cipher(&disk, Arc::new(keys.clone())), 2));
    assert_eq!(keys.wrapped_by_others(), 1, "the old key is still wrapped by the old master key");
    let new_alone = Keyring::open(disk.clone(), only(2)).expect("the newest key opens");
    let refused = refusal(&disk, Some(Arc::new(new_alone)));
    assert!(refused.contains("is wrapped by master key"), "{refused}");
}

#[test]
fn keys_that_another_process_added_are_kept() {
    let disk = MemoryDisk::new(1);
    let (one, other) = (keyring(&disk), keyring(&disk));
    let first = one.renew().expect("renews");
    let second = other.renew().expect("renews");
    let third = one.renew().expect("renews");
    let ids = |disk: &MemoryDisk| -> Vec<KeyId> {
        let file = KeyFile::read(disk).expect("reads").expect("exists");
        file.keys.iter().map(|key| key.id).collect()
    };
    assert_eq!(ids(&disk), [first, second, third]);
    let change = MasterKeys { current: local(2), previous: Some(local(1)) };
    let changing = Keyring::open(disk.clone(), change).expect("opens");
    let fourth = other.renew().expect("renews");
    assert_eq!(changing.rewrap(), Ok(4));
    assert_eq!(ids(&disk), [first, second, third, fourth]);
    let file = KeyFile::read(&disk).expect("reads").expect("exists");
    assert!(file.keys.iter().all(|key| key.master == local(2).name()));
    // The wrapped form of the other process is the newer one, and is kept.
    other.check().expect("the same set");
    assert_eq!(KeyFile::read(&disk), Ok(Some(file)));
}

#[test]
fn a_running_process_writes_a_lost_file_of_keys_again_but_not_over_another_one() {
    let disk = MemoryDisk::new(1);
    let keys = keyring(&disk);
    keys.renew().expect("renews");
    let content = disk.content(KEY_FILE).expect("exists");
    disk.remove(KEY_FILE).expect("removes");
    keys.check().expect("it is written again");
    assert_eq!(disk.content(KEY_FILE), Some(content.clone()));
    disk.damage(KEY_FILE, 40, 1);
    let damaged = disk.content(KEY_FILE);
    let errors = [keys.check().expect_err("damaged"), keys.renew().expect_err("damaged")];
    for error in errors {
        assert!(error.to_string().starts_with("data.keys is damaged"), "{error}");
    }
    assert_eq!(disk.content(KEY_FILE), damaged, "the file is as it was");
    let other = MemoryDisk::new(2);
    keyring(&other).renew().expect("renews");
    KeyFile::read(&other).expect("reads").expect("exists").write(&disk).expect("writes");
    let replaced = keys.renew().expect_err("another set").to_string();
    assert!(replaced.contains("replaced by that of another directory"), "{replaced}");
}

/// A new data key at each moment of a backup: the backup has it, unless it came after the last copy
/// of the file.
#[test]
fn a_backup_has_every_data_key_that_it_needs() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut steps = 0;
    for step in 0.. {
        let path = |name: &str| directory.path().join(format!("{step} {name}"));
        let disk = RealDisk::open(&path("data")).expect("opens");
        let keys = Keyring::open(disk.clone(), only(1)).expect("opens");
        let log = TieredDisk::open(disk).expect("opens").with_cipher(Some(Arc::new(keys.clone())));
        let mut written = FileLog::create(log.clone(), IDENTITY, OPTIONS).expect("creates");
        for at in 0..60 {
            written.append(&frame_after(&written.tail(), &[700 + at])).expect("appends");
        }
        written.sync().expect("syncs");
        std::fs::create_dir(path("copy")).expect("makes it");
        let place = journal::open_blob_store(&format!("file://{}", path("copy").display()));
        let place = place.expect("a place");
        let (mut calls, mut renewed) = (0, None);
        let mut watch = |_| {
            if calls == step {
                renewed = Some(keys.renew().expect("renews"));
            }
            calls += 1;
            Ok(())
        };
        let mut backup = Backup::open(&log, place.clone()).expect("opens");
        backup.run(&log, &[], &mut watch).expect("copies");
        let restored = RealDisk::open(&path("restored")).expect("opens");
        journal::fetch(&*place, &restored, &mut |_| Ok(())).expect("restores");
        let file = KeyFile::read(&restored).expect("reads").expect("it was copied");
        let opened = Keyring::open(restored.clone(), only(1)).expect("opens");
        let restored = TieredDisk::open(restored).expect("opens");
        let restored = restored.with_cipher(Some(Arc::new(opened)));
        let walked = journal::walk(&restored, &mut |_| Ok(())).expect("reads");
        assert_eq!(walked.frames, 60);
        let Some(renewed) = renewed else { break };
        let has = file.keys.iter().any(|key| key.id == renewed);
        assert!(has || calls == step + 1, "step {step} of {calls}");
        steps += 1;
    }
    assert!(3 < steps, "it was renewed while segments and files were copied: {steps}");
}

/// A master key out of reach after some uses.
#[derive(Debug)]
struct Unreachable(LocalKey, std::sync::atomic::AtomicBool);

impl MasterKey for Unreachable {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn wrap(&self, context: &[u8], key: &[u8; 32]) -> Result<Vec<u8>, encryption::MasterKeyError> {
        match self.1.load(std::sync::atomic::Ordering::Relaxed) {
            false => self.0.wrap(context, key),
            true => Err(encryption::MasterKeyError::Source("no route to the key store".into())),
        }
    }

    fn unwrap(
        &self,
        context: &[u8],
        wrapped: &[u8],
    ) -> Result<[u8; 32], encryption::MasterKeyError> {
        self.0.unwrap(context, wrapped)
    }
}

#[test]
fn a_running_log_continues_without_its_master_key() {
    let disk = MemoryDisk::new(1);
    let master = Arc::new(Unreachable(LocalKey::new(&[1; 32]), false.into()));
    let masters = MasterKeys { current: master.clone(), previous: None };
    let keys = Keyring::open(disk.clone(), masters.clone()).expect("opens");
    let mut log = log_of(&with_cipher(&disk, Arc::new(keys.clone())), 1);
    master.1.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = keys.renew().expect_err("out of reach").to_string();
    assert!(error.contains("cannot make a data key") && error.contains("no route"), "{error}");
    append(&mut log, 1);
    log.sync().expect("syncs");
    drop(log);
    // A process that starts meanwhile has no key to encrypt with, and refuses to write.
    let keys = Keyring::open(disk.clone(), masters).expect("opens");
    let tiered = with_cipher(&disk, Arc::new(keys));
    let mut log = FileLog::open(tiered, OPTIONS).expect("reads").0;
    let refused = log.append(&frame_after(&log.tail(), &[9])).expect_err("no key");
    assert!(matches!(&refused, LogError::Storage(why) if why.contains("no route")), "{refused}");
    assert_eq!(walk(&encrypted(&disk)), Ok(2));
}

/// A rewritten segment is encrypted again; the payloads that stay are not on the disk either.
#[test]
fn erased_segments_of_an_encrypted_log_stay_encrypted() {
    let disk = MemoryDisk::new(9);
    drop(log_of(&encrypted(&disk), 60));
    let log = encrypted(&disk);
    let segments = log.segments().expect("lists");
    let first = "00000000000000000001.segment";
    let before = disk.content(first).expect("a segment");
    let (segment, after) = (segments[0].clone(), segments[1].base);
    let due = journal::PendingSegment { segment, after };
    let mut select = |record: &record::frame::Record<'_>| record.log_index == LogIndex(1);
    let erased = journal::erase_segment(&log, &due, (&mut select, &|_| ()), &mut |_| Ok(()))
        .expect("erases");
    assert_eq!(erased.erased, 1);
    let stored = disk.content(first).expect("a segment");
    assert_ne!(stored, before);
    // A payload of the tests that was kept, and the erased one.
    for (log_index, size) in [(1, 700), (4, 701)] {
        let payload = journal::contract::sample_payload(LogIndex(log_index), size);
        let shown = stored.windows(64).any(|window| window == &payload[..64]);
        assert!(!shown, "record {log_index}");
    }
    assert_eq!(walk(&encrypted(&disk)), Ok(60));
    let without_key = TieredDisk::open(disk).expect("opens");
    assert!(walk(&without_key).is_err(), "the key is needed");
}

/// The first segment and its end.
fn first_segment(log: &TieredDisk<MemoryDisk>) -> PendingSegment {
    let segments = log.segments().expect("lists");
    PendingSegment { segment: segments[0].clone(), after: segments[1].base }
}

fn compress_first(log: &TieredDisk<MemoryDisk>) -> journal::ArchivedSegment {
    journal::archive_segment(log, &first_segment(log), Destination::InPlace, &mut |_| Ok(()))
        .expect("compresses")
}

const COMPRESSED: &str = "00000000000000000001.packed";

/// A log that was encrypted from its beginning, and one in whose first segment encryption began.
#[test]
fn compressed_segments_are_as_small_as_unencrypted_ones_and_stay_encrypted() {
    let plain = MemoryDisk::new(3);
    drop(log_of(&TieredDisk::open(plain.clone()).expect("opens"), 60));
    let expected = compress_first(&TieredDisk::open(plain).expect("opens")).compressed_bytes;
    for first_frames in [0, 5] {
        let disk = MemoryDisk::new(4);
        if 0 < first_frames {
            drop(log_of(&TieredDisk::open(disk.clone()).expect("opens"), first_frames));
        }
        let mut written = FileLog::open_or_create(encrypted(&disk), IDENTITY, OPTIONS);
        let written = &mut written.as_mut().expect("opens").0;
        for at in first_frames..60 {
            written.append(&frame_after(&written.tail(), &[700 + at, 0, 90])).expect("appends");
        }
        written.sync().expect("syncs");
        let log = encrypted(&disk);
        let before = first_segment(&log).segment;
        let archived = compress_first(&log);
        assert!(archived.compressed_bytes < expected * 5 / 4, "{archived:?}, not {expected}");
        let after = first_segment(&log).segment;
        assert_eq!((after.plain_bytes, after.base), (before.plain_bytes, before.base));
        let stored = disk.content(COMPRESSED).expect("a compressed segment");
        let payload = journal::contract::sample_payload(LogIndex(1), 700);
        assert!(!stored.windows(64).any(|window| window == &payload[..64]));
        assert_eq!(walk(&encrypted(&disk)), Ok(60), "{first_frames}");
        let refused = walk(&TieredDisk::open(disk.clone()).expect("opens"));
        let refused = refused.expect_err("the key is needed").to_string();
        assert!(refused.contains("no master key is given"), "{refused}");
        for at in (512..stored.len()).step_by(31) {
            disk.damage(COMPRESSED, at, 4);
            assert!(walk(&encrypted(&disk)).is_err(), "byte {at}");
            disk.damage(COMPRESSED, at, 4);
        }
    }
}

/// Contents are erased from a compressed segment, which stays encrypted and compressed.
#[test]
fn erased_compressed_segments_stay_encrypted_and_compressed() {
    let disk = MemoryDisk::new(5);
    drop(log_of(&encrypted(&disk), 60));
    let log = encrypted(&disk);
    let compressed = compress_first(&log).compressed_bytes;
    let due = first_segment(&log);
    let mut select = |record: &record::frame::Record<'_>| record.log_index == LogIndex(1);
    let erased = journal::erase_segment(&log, &due, (&mut select, &|_| ()), &mut |_| Ok(()))
        .expect("erases");
    assert_eq!(erased.erased, 1);
    assert_eq!(first_segment(&encrypted(&disk)).segment.plain_bytes, erased.plain_bytes);
    let stored = disk.content(COMPRESSED).expect("a compressed segment");
    assert!((stored.len() as u64) < compressed * 5 / 4, "{} of {compressed}", stored.len());
    assert_eq!(walk(&encrypted(&disk)), Ok(60));
    let again =
        journal::erase_segment(&log, &first_segment(&log), (&mut select, &|_| ()), &mut |_| Ok(()));
    assert_eq!(again.expect("nothing is left").erased, 0);
}

/// An archive of encrypted segments: read from the middle, by a process that has only the index,
/// and after an erasure.
#[test]
fn archived_segments_of_an_encrypted_log_are_read_and_erased() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = journal::open_blob_store(&format!("file://{}", directory.path().display()));
    let place = place.expect("a place");
    let disk = MemoryDisk::new(6);
    drop(log_of(&encrypted(&disk), 60));
    let log = encrypted(&disk);
    let due = first_segment(&log);
    let destination = Destination::BlobStore(&*place);
    let archived = journal::archive_segment(&log, &due, destination, &mut |_| Ok(()));
    let archived = archived.expect("archives");
    assert!(archived.compressed_bytes * 2 < archived.plain_bytes, "{archived:?}");
    let before = first_segment(&encrypted(&disk)).segment;
    assert_eq!(before.plain_bytes, due.segment.plain_bytes, "the index has the stored length");
    assert_eq!(walk(&encrypted(&disk)), Ok(60));
    let payload = journal::contract::sample_payload(LogIndex(1), 700);
    for entry in std::fs::read_dir(directory.path().join("segments")).expect("segments") {
        let stored = std::fs::read(entry.expect("an object").path()).expect("reads");
        assert!(!stored.windows(64).any(|window| window == &payload[..64]));
    }
    for from in [1, 10, 29] {
        let mut opened = FileLog::open(encrypted(&disk), OPTIONS).expect("opens").0;
        let mut first = None;
        let replayed = opened.replay(LogIndex(from), &mut |frame| {
            first.get_or_insert(frame.header().first);
            Ok(())
        });
        replayed.expect("replays");
        assert!(first.is_some_and(|first| first <= LogIndex(from)), "{first:?}");
    }
    let due = first_segment(&log);
    let mut select = |record: &record::frame::Record<'_>| record.log_index == LogIndex(1);
    let erased = journal::erase_segment(&log, &due, (&mut select, &|_| ()), &mut |_| Ok(()));
    assert_eq!(erased.expect("erases").erased, 1);
    assert_eq!(walk(&encrypted(&disk)), Ok(60));
    assert!(walk(&TieredDisk::open(disk).expect("opens")).is_err(), "the key is needed");
}
