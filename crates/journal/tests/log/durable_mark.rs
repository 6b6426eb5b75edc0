//! A log that ends before the record in its durable mark is refused. The mark never causes a
//! complete log to be refused, whatever a crash leaves.

use expect_test::expect;
use journal::contract::{IDENTITY, frame_after};
use journal::{
    DamageReason, DurableMarkWriter, FileLog, LogOptions, MARK, MemoryDisk, OpenError, StoredMark,
    TailPolicy, read_stored_mark,
};
use ledger::LogIndex;
use ports::{Disk, DiskFile, Log};
use record::frame::LogIdentity;

use crate::common::STRICT;

const OPTIONS: LogOptions = LogOptions { segment_bytes: 6_000, ..STRICT };

type MemoryLog = FileLog<MemoryDisk>;

/// Appends this number of frames of one record, each synced, three to a segment.
fn grow(log: &mut MemoryLog, frames: usize) {
    for _ in 0..frames {
        log.append(&frame_after(&log.tail(), &[1_200])).expect("appends");
        log.sync().expect("syncs");
    }
}

/// A log of eleven records with its mark, closed.
fn marked() -> MemoryDisk {
    let disk = MemoryDisk::new(7);
    let mut log = FileLog::create(disk.clone(), IDENTITY, OPTIONS).expect("creates");
    let mut marker = DurableMarkWriter::new(disk.clone(), log.frames());
    grow(&mut log, 5);
    marker.note().expect("writes");
    grow(&mut log, 6);
    marker.note().expect("writes");
    disk.kill()
}

fn segments(disk: &MemoryDisk) -> Vec<String> {
    let names = disk.list().expect("lists");
    names.into_iter().filter(|name| name.ends_with(".segment")).collect()
}

/// Removes the last frame of the last segment.
fn cut_a_frame(disk: &MemoryDisk) {
    let last = segments(disk).pop().expect("there is one");
    let mut content = disk.content(&last).expect("exists");
    let frame = last_frame_bytes(disk);
    content.truncate(content.len() - frame);
    disk.put(&last, &content);
}

fn last_frame_bytes(disk: &MemoryDisk) -> usize {
    let mut bytes = 0;
    let walked = journal::walk(disk, &mut |placed| {
        bytes = placed.frame.as_bytes().len();
        Ok(())
    });
    walked.expect("it is sound before it is cut");
    bytes
}

fn refused(disk: &MemoryDisk) -> String {
    let error = match FileLog::open_or_create(disk.clone(), IDENTITY, OPTIONS) {
        Err(error) => error,
        Ok((log, _)) => panic!("opened up to {:?}", log.tail().end),
    };
    let OpenError::Damaged(damage) = &error else { panic!("{error}") };
    let until = LogIndex(11);
    let expected = match segments(disk).is_empty() {
        true => DamageReason::Gone { until },
        false => DamageReason::Cut { until },
    };
    assert_eq!(damage.reason, expected);
    error.to_string()
}

#[test]
fn a_complete_log_is_opened() {
    let (log, report) = FileLog::open(marked(), OPTIONS).expect("opens");
    assert_eq!((log.tail().end, report.dropped), (LogIndex(11), None));
}

#[test]
fn a_truncated_log_is_refused_at_any_length() {
    let disk = marked();
    cut_a_frame(&disk);
    let error = refused(&disk).replace(". ", ".\n").replace(", ", ",\n  ").replace(": ", ":\n  ");
    expect![[r#"
        the log is damaged in 00000000000000000010.segment at byte 1940,
          where record 11 should start:
          the log ends there,
          but durable.mark shows that the records up to 11 were durable.
        Nothing was changed.
        Put the missing end back from a copy,
          or restore the log from its backup.
        Without either,
          start once with --truncate-damaged-tail:
          acknowledged records that are missing are lost and must be reconciled manually."#]]
    .assert_eq(&error);
    let read = journal::walk(&disk, &mut |_| Ok(()));
    assert!(matches!(read, Err(OpenError::Damaged(_))), "a reader reports it too: {read:?}");

    for gone in 1..=segments(&disk).len() {
        let disk = marked();
        let names = segments(&disk);
        names[names.len() - gone..].iter().for_each(|name| disk.remove(name).expect("removes"));
        let error = refused(&disk);
        let read = journal::walk(&disk, &mut |_| Ok(())).expect_err("a reader reports it too");
        assert_eq!(read.to_string(), error, "{gone}");
    }

    // Within the header of the last segment, as if its creation were incomplete.
    let disk = marked();
    let last = segments(&disk).pop().expect("there is one");
    disk.put(&last, &disk.content(&last).expect("exists")[..487]);
    let error = refused(&disk);
    let place = format!("in {last} at byte 487, where record 10 should start");
    assert!(error.contains(&place), "{error}");

    // Torn as after a crash, but it was durable.
    let disk = marked();
    let last = segments(&disk).pop().expect("there is one");
    let file = disk.open(&last).expect("opens");
    file.truncate(file.length().expect("has one") - 7).expect("truncates");
    refused(&disk);
}

#[test]
fn an_operator_can_accept_a_truncated_log() {
    let given_up = LogOptions { tail_policy: TailPolicy::Truncate, ..OPTIONS };
    let cut = || {
        let disk = marked();
        cut_a_frame(&disk);
        disk
    };
    let by_hand = cut();
    by_hand.remove(MARK).expect("removes");
    for (disk, options) in [(by_hand, OPTIONS), (cut(), given_up)] {
        let (log, _) = FileLog::open(disk.clone(), options).expect("opens");
        assert_eq!(log.tail().end, LogIndex(10));
        drop(log);
        assert!(FileLog::open(disk, OPTIONS).is_ok(), "once");
    }
    // Not if the whole log is missing.
    let disk = marked();
    segments(&disk).iter().for_each(|name| disk.remove(name).expect("removes"));
    for options in [OPTIONS, given_up] {
        let begun = FileLog::open_or_create(disk.clone(), LogIdentity([9; 16]), options);
        let error = begun.expect_err("no log is begun where one was").to_string();
        assert!(error.contains("To create a new log, use an empty directory"), "{error}");
        assert!(segments(&disk).is_empty(), "and nothing is");
    }
}

#[test]
fn an_unreadable_or_foreign_mark_is_ignored() {
    for (what, change) in [
        ("damaged", (|disk| disk.damage(MARK, 33, 1)) as fn(&MemoryDisk)),
        ("cut short", |disk| disk.put(MARK, &disk.content(MARK).expect("exists")[..100])),
        ("empty", |disk| disk.put(MARK, &[])),
        ("of another log", |disk| {
            let other = MemoryDisk::new(1);
            let identity = LogIdentity([9; 16]);
            let mut log = FileLog::create(other.clone(), identity, OPTIONS).expect("creates");
            grow(&mut log, 40);
            DurableMarkWriter::new(other.clone(), log.frames()).note().expect("writes");
            disk.put(MARK, &other.content(MARK).expect("exists"));
        }),
    ] {
        let disk = marked();
        cut_a_frame(&disk);
        change(&disk);
        let opened = FileLog::open(disk, OPTIONS);
        assert_eq!(opened.expect(what).0.tail().end, LogIndex(10), "{what}");
    }
}

/// The next write replaces whatever the file contains.
#[test]
fn a_changed_mark_is_rewritten() {
    let disk = marked();
    let sound = disk.content(MARK).expect("exists");
    for bytes in [&sound[..256], &[&sound[..], &[0]].concat()] {
        disk.put(MARK, bytes);
        let (log, _) = FileLog::open(disk.clone(), OPTIONS).expect("opens");
        DurableMarkWriter::new(disk.clone(), log.frames()).note().expect("writes");
        assert_eq!(read_stored_mark(&disk), Ok(StoredMark::Durable(IDENTITY, LogIndex(11))));
    }
}

/// A first write that a crash or a full disk left incomplete is ignored. Any other content that is
/// not a mark is damage.
#[test]
fn an_unfinished_mark_is_ignored_and_a_changed_one_is_damage() {
    let disk = marked();
    let sound = disk.content(MARK).expect("exists");
    assert_eq!(read_stored_mark(&disk), Ok(StoredMark::Durable(IDENTITY, LogIndex(11))));
    let longer = [&sound[..], &[0]].concat();
    let flipped: Vec<u8> = sound.iter().map(|byte| byte ^ 1).collect();
    for (found, bytes) in [
        (StoredMark::Nothing, &sound[..0]),
        (StoredMark::Nothing, &[0; 512]),
        (StoredMark::Damaged, &sound[..256]),
        (StoredMark::Damaged, &longer),
        (StoredMark::Damaged, &flipped),
    ] {
        disk.put(MARK, bytes);
        assert_eq!(read_stored_mark(&disk), Ok(found), "{} bytes", bytes.len());
    }
}

/// Marks are written between batches, some of them unsynced. The power fails at each operation in
/// turn.
#[test]
fn no_crash_leaves_a_mark_ahead_of_its_log() {
    let script = |disk: &MemoryDisk| -> Result<(), ()> {
        let opened = FileLog::create(disk.clone(), IDENTITY, OPTIONS);
        let mut log = opened.map_err(drop)?;
        let mut marker = DurableMarkWriter::new(disk.clone(), log.frames());
        for batch in 0..15 {
            log.append(&frame_after(&log.tail(), &[700])).map_err(drop)?;
            if batch % 3 != 1 {
                log.sync().map_err(drop)?;
            }
            if batch % 2 == 0 {
                marker.note().map_err(drop)?;
            }
        }
        Ok(())
    };
    let whole = MemoryDisk::new(0);
    script(&whole).expect("nothing breaks");
    for operation in 1..=whole.operations() {
        for seed in 0..3 {
            let disk = MemoryDisk::new(seed);
            disk.crash_at(operation);
            assert!(script(&disk).is_err(), "operation {operation} is reached");
            let disk = disk.crash();
            // An unfinished mark is ignored.
            let found = read_stored_mark(&disk).expect("it is read");
            assert_ne!(found, StoredMark::Damaged, "operation {operation}, seed {seed}");
            match FileLog::open(disk, OPTIONS) {
                Ok(_) | Err(OpenError::NoLog) => {}
                Err(error) => panic!("operation {operation}, seed {seed}: {error}"),
            }
        }
    }
}
