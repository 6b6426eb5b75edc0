//! Damage that a crash cannot explain is refused with its location; effects of a crash are
//! repaired.

use expect_test::expect_file;
use journal::contract::{IDENTITY, frame_after, frames_of};
use journal::{
    DamageReason, FileLog, FrameFault, LogOptions, MemoryDisk, OpenError, TailPolicy, Verify,
};
use ledger::{LogIndex, Stamp};
use ports::{Disk, DiskFile, Log, LogError};
use record::frame::{FRAME_HEADER_BYTES, Frame, LogIdentity, Tail};

use crate::common::{STRICT, frame_offsets as frame_offsets_of};

const OPTIONS: LogOptions = LogOptions { segment_bytes: 6_000, ..STRICT };

/// Eleven synced frames of one record each and an unsynced one, three per segment.
fn sample() -> MemoryDisk {
    sample_of(1_200)
}

/// The same with records of this size.
fn sample_of(bytes: usize) -> MemoryDisk {
    let disk = MemoryDisk::new(7);
    let mut log = FileLog::create(disk.clone(), IDENTITY, OPTIONS).expect("creates");
    for _ in 0..11 {
        log.append(&frame_after(&log.tail(), &[bytes])).expect("appends");
        log.sync().expect("syncs");
    }
    log.append(&frame_after(&log.tail(), &[bytes])).expect("appends");
    drop(log);
    disk.kill()
}

fn segment(disk: &MemoryDisk, at: usize) -> String {
    disk.list().expect("lists")[at].clone()
}

/// The files of a disk, to see whether any changed.
fn content(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.list().expect("lists");
    names.into_iter().map(|name| (name.clone(), disk.content(&name).expect("exists"))).collect()
}

/// Offsets of the frames of a segment, and the end of the last one.
fn frame_offsets(disk: &MemoryDisk, name: &str) -> Vec<usize> {
    frame_offsets_of(&disk.content(name).expect("exists"))
}

fn refused(disk: &MemoryDisk) -> OpenError {
    let before = content(disk);
    let error = FileLog::open(disk.clone(), OPTIONS).expect_err("damage is refused");
    assert_eq!(
        journal::walk(disk, &mut |_| Ok(())).as_ref(),
        Err(&error),
        "a reader reports it too"
    );
    assert_eq!(content(disk), before, "nothing is changed");
    error
}

#[test]
fn the_sample_itself_is_sound() {
    let (mut log, report) = FileLog::open(sample(), OPTIONS).expect("opens");
    assert_eq!((report.segments, report.frames, report.end), (4, 12, LogIndex(12)));
    assert_eq!((report.dropped, report.removed_segment), (None, None));
    assert_eq!(frames_of(&mut log, LogIndex(1)).len(), 12);
    let (mut bytes, mut last) = (0, 0);
    let walked = journal::walk(&sample(), &mut |placed| {
        last = placed.frame.as_bytes().len() as u64;
        bytes += last;
        Ok(())
    });
    let walked = walked.expect("it is sound");
    assert_eq!((walked.segments, walked.frames, walked.bytes), (4, 12, bytes));
    assert_eq!(report.rewritten_bytes, last, "what no frame calls durable");
}

/// For a flipped byte in the durable part, opening names the segment and the frame.
#[test]
fn every_flipped_byte_is_refused_with_its_location() {
    let disk = sample();
    let names = disk.list().expect("lists");
    let mut checked = 0;
    for (at, name) in names.iter().enumerate() {
        let offsets = frame_offsets(&disk, name);
        let last_segment = at + 1 == names.len();
        for offset in (0..*offsets.last().expect("not empty")).step_by(7) {
            disk.damage(name, offset, 0x10);
            let OpenError::Damaged(damage) = refused(&disk) else { panic!("typed as damage") };
            assert_eq!(&damage.segment, name, "byte {offset}");
            let frame = offsets.iter().rev().find(|&&start| start <= offset);
            assert_eq!(damage.offset, *frame.unwrap_or(&0) as u64, "byte {offset}");
            let in_last_frame = last_segment && offset >= offsets[offsets.len() - 2];
            let stored = matches!(damage.reason, DamageReason::Stored(_));
            assert!(!in_last_frame || stored, "{damage}");
            disk.damage(name, offset, 0x10);
            checked += 1;
        }
    }
    assert!(checked > 2_500, "{checked}");
    assert!(FileLog::open(disk, OPTIONS).is_ok(), "every byte was put back");
}

#[test]
fn damage_is_reported_with_location_and_advice() {
    let changes: [fn(&MemoryDisk); 9] = [
        |disk| disk.damage(&segment(disk, 0), 9, 1),
        |disk| disk.damage(&segment(disk, 1), 600, 1),
        |disk| disk.remove(&segment(disk, 0)).expect("removes"),
        |disk| disk.remove(&segment(disk, 1)).expect("removes"),
        last_frame_of_the_second_segment_cut_off,
        |disk| disk.rename(&segment(disk, 1), "00000000000000000006.segment").expect("renames"),
        first_segment_of_another_log,
        durable_frame_lost_as_in_a_crash,
        last_byte_wrong,
    ];
    let mut shown = String::new();
    for change in changes {
        let disk = sample();
        change(&disk);
        let text = refused(&disk).to_string().replace(". ", ".\n").replace(": ", ":\n  ");
        shown += &text.replace(", where", ",\n  where");
        shown += "\n\n";
    }
    expect_file!["damage.txt"].assert_eq(&shown);
}

fn last_frame_of_the_second_segment_cut_off(disk: &MemoryDisk) {
    let name = segment(disk, 1);
    let bytes = disk.content(&name).expect("exists");
    let offsets = frame_offsets(disk, &name);
    disk.put(&name, &bytes[..offsets[offsets.len() - 2]]);
}

fn first_segment_of_another_log(disk: &MemoryDisk) {
    let other = MemoryDisk::new(1);
    drop(FileLog::create(other.clone(), LogIdentity([0xab; 16]), OPTIONS).expect("creates"));
    let name = segment(&other, 0);
    disk.put(&name, &other.content(&name).expect("exists"));
}

/// The next frame proves that it was durable.
fn durable_frame_lost_as_in_a_crash(disk: &MemoryDisk) {
    let name = segment(disk, 3);
    let mut bytes = disk.content(&name).expect("exists");
    let offsets = frame_offsets(disk, &name);
    bytes[offsets[0]..offsets[1]].fill(0);
    disk.put(&name, &bytes);
}

fn last_byte_wrong(disk: &MemoryDisk) {
    let name = segment(disk, 3);
    let length = disk.content(&name).expect("exists").len();
    disk.damage(&name, length - 1, 1);
}

/// A frame that was written twice, or belongs to an older copy of the log, is valid in itself.
#[test]
fn valid_frames_out_of_place_are_refused() {
    let disk = sample();
    let name = segment(&disk, 3);
    let bytes = disk.content(&name).expect("exists");
    let offsets = frame_offsets(&disk, &name);
    let (start, end) = (offsets[offsets.len() - 2], offsets[offsets.len() - 1]);
    let twice = [&bytes[..], &bytes[start..end]].concat();
    let frame = Frame::parse(&bytes[start..]).expect("sound");
    let before = Tail {
        identity: IDENTITY,
        end: LogIndex(frame.header().first.0 - 1),
        durable: frame.header().durable,
        stamp: frame.header().batch.stamp,
        chain: record::frame::payload_digest(b"another history"),
    };
    let other_history = [&bytes[..start], &frame_after(&before, &[1_200])].concat();
    for (content, offset) in [(twice, end), (other_history, start)] {
        disk.put(&name, &content);
        let OpenError::Damaged(damage) = refused(&disk) else { panic!("typed as damage") };
        let out_of_place = matches!(damage.reason, DamageReason::Stored(FrameFault::Order(_)));
        assert!(out_of_place, "{damage}");
        assert_eq!(damage.offset, offset as u64);
        // At the end an operator can have it truncated.
        let given_up = LogOptions { tail_policy: TailPolicy::Truncate, ..OPTIONS };
        let (log, report) = FileLog::open(disk.clone(), given_up).expect("opens");
        assert_eq!(log.tail().end, LogIndex(damage.log_index.0 - 1));
        let dropped = report.dropped.expect("it is reported");
        assert_eq!(
            (dropped.offset, dropped.bytes),
            (offset as u64, (content.len() - offset) as u64)
        );
        assert!(matches!(dropped.reason, FrameFault::Order(_)), "{dropped:?}");
    }
    // Earlier in the log, the frames after it were durable.
    let (start, end) = (offsets[0], offsets[1]);
    let inside = [&bytes[..end], &bytes[start..end], &bytes[end..]].concat();
    disk.put(&name, &inside);
    let given_up = LogOptions { tail_policy: TailPolicy::Truncate, ..OPTIONS };
    for options in [OPTIONS, given_up] {
        let opened = FileLog::open(disk.clone(), options);
        let Err(OpenError::Damaged(damage)) = opened else { panic!("typed as damage") };
        assert!(matches!(damage.reason, DamageReason::Order(_)), "{damage}");
        assert_eq!(damage.offset, end as u64);
    }
}

/// Segments of another history are valid too, with the right place and length.
#[test]
fn a_segment_of_another_history_is_refused() {
    let (disk, other) = (sample(), sample_of(1_199));
    for at in [1, 2, 3] {
        let name = segment(&disk, at);
        let content = disk.content(&name).expect("exists");
        disk.put(&name, &other.content(&name).expect("exists"));
        let OpenError::Damaged(damage) = refused(&disk) else { panic!("typed as damage") };
        assert_eq!(damage.reason, DamageReason::Unconnected, "{damage}");
        assert_eq!((damage.segment, damage.offset), (name.clone(), 0));
        disk.put(&name, &content);
    }
}

#[test]
fn a_torn_end_is_truncated_and_reported() {
    let disk = sample();
    let name = segment(&disk, 3);
    let bytes = disk.content(&name).expect("exists");
    let offsets = frame_offsets(&disk, &name);
    let start = offsets[offsets.len() - 2];
    let sector = (start / 512 + 1) * 512;
    let mut hole = bytes.clone();
    hole[sector..sector + 512].fill(0);
    let mut header_lost = bytes.clone();
    header_lost[start..sector].fill(0);
    let torn = [
        bytes[..bytes.len() - 1].to_vec(),
        bytes[..start + FRAME_HEADER_BYTES].to_vec(),
        bytes[..start + 1].to_vec(),
        hole,
        header_lost,
    ];
    for content in torn {
        let disk = sample();
        disk.put(&name, &content);
        let mut frames = 0;
        let walked = journal::walk(&disk, &mut |placed| {
            frames += 1;
            assert_eq!(placed.frame.header().last(), LogIndex(frames));
            Ok(())
        });
        let walked = walked.expect("a torn end is no damage");
        assert_eq!((frames, walked.frames, walked.tail.end), (11, 11, LogIndex(11)));
        assert_eq!(disk.content(&name).as_ref(), Some(&content), "reading repairs nothing");
        let (log, report) = FileLog::open(disk.clone(), OPTIONS).expect("repairs");
        assert_eq!(walked.torn, report.dropped, "a reader foretells it");
        let dropped = report.dropped.expect("something was cut off");
        assert_eq!((dropped.segment, dropped.offset), (name.clone(), start as u64));
        assert_eq!(dropped.bytes, (content.len() - start) as u64);
        assert_eq!((log.end(), log.durable_end()), (LogIndex(11), LogIndex(11)));
        drop(log);
        let (_, again) = FileLog::open(disk.crash(), OPTIONS).expect("opens");
        assert_eq!((again.dropped, again.end), (None, LogIndex(11)), "the repair is durable");
    }
}

/// A payload that contains a whole frame, which claims that everything was durable, is not mistaken
/// for one: it cannot have the log's identity.
#[test]
fn a_frame_within_a_payload_is_ignored() {
    let forged_by = |identity| Tail {
        end: LogIndex(1_000),
        durable: LogIndex(1_000),
        ..Tail::genesis(identity)
    };
    for (identity, believed) in [(LogIdentity([9; 16]), false), (IDENTITY, true)] {
        let disk = MemoryDisk::new(1);
        drop(FileLog::create(disk.clone(), IDENTITY, OPTIONS).expect("creates"));
        let name = segment(&disk, 0);
        let mut bytes = disk.content(&name).expect("exists");
        bytes.extend_from_slice(&[0; 600]);
        bytes.extend_from_slice(&frame_after(&forged_by(identity), &[10]));
        disk.put(&name, &bytes);
        assert_eq!(FileLog::open(disk, OPTIONS).is_err(), believed);
    }
}

#[test]
fn operator_can_truncate_a_damaged_tail_but_nothing_durable() {
    let options = LogOptions { tail_policy: TailPolicy::Truncate, ..OPTIONS };
    let disk = sample();
    let name = segment(&disk, 3);
    let offsets = frame_offsets(&disk, &name);
    let last = offsets[offsets.len() - 2];
    let before = offsets[offsets.len() - 3];
    disk.damage(&name, before + 20, 1);
    assert!(FileLog::open(disk.clone(), options).is_err(), "it was durable");
    disk.damage(&name, before + 20, 1);
    disk.damage(&name, last + 20, 1);
    let (_, report) = FileLog::open(disk, options).expect("opens");
    assert_eq!(report.dropped.expect("dropped").offset, last as u64);
    assert_eq!(report.end, LogIndex(11));
}

/// If opening reads only the last segment, a reader of an earlier one finds its damage.
#[test]
fn damage_in_closed_segments_is_found_by_replay_and_readers() {
    let options = LogOptions { verify: Verify::LastSegment, ..OPTIONS };
    let disk = sample();
    let name = segment(&disk, 1);
    disk.damage(&name, frame_offsets(&disk, &name)[1] + 300, 1);
    let (mut log, report) = FileLog::open(disk, options).expect("opens");
    assert_eq!((report.frames, report.end), (3, LogIndex(12)));
    let mut seen = Vec::new();
    let replayed = log.replay(LogIndex(1), &mut |frame| {
        seen.push(frame.header().first.0);
        Ok(())
    });
    assert!(matches!(replayed, Err(LogError::Damaged { .. })), "{replayed:?}");
    assert_eq!(seen, [1, 2, 3, 4], "up to the damage");
    let reader = log.reader();
    assert!(matches!(reader.read(LogIndex(5)), Err(LogError::Damaged { .. })));
    assert!(matches!(reader.read(LogIndex(4)), Ok(Some(_))));
    assert!(matches!(reader.read(LogIndex(6)), Ok(Some(_))));
}

/// A reader that continues into the next segment, or begins there, notices that its file was
/// exchanged after the log was opened.
#[test]
fn an_exchanged_segment_is_not_read() {
    let options = LogOptions { verify: Verify::LastSegment, ..OPTIONS };
    let (of_another_history, sound) = (sample_of(1_199), sample());
    for (at, (from, number)) in [(&of_another_history, 1), (&sound, 2)].into_iter().enumerate() {
        let other = from.content(&segment(from, number)).expect("exists");
        let disk = sample();
        let (mut log, _) = FileLog::open(disk.clone(), options).expect("opens");
        let frames = log.frames();
        disk.put(&segment(&disk, 1), &other);
        for from in [1, 4] {
            let (mut seen, mut seen_too) = (Vec::new(), Vec::new());
            let replayed = log.replay(LogIndex(from), &mut |frame| {
                seen.push(frame.header().first.0);
                Ok(())
            });
            let read = frames.replay(LogIndex(from), &mut |frame| {
                seen_too.push(frame.header().first.0);
                Ok(())
            });
            // A reader that begins within the other history cannot detect it at first.
            let expected: &[u64] = match (from, at) {
                (1, _) => &[1, 2, 3],
                (_, 0) => &[4, 5, 6],
                _ => &[],
            };
            assert_eq!((&*seen, &*seen_too), (expected, expected), "{at}, from {from}");
            for ended in [replayed, read] {
                assert!(matches!(ended, Err(LogError::Damaged { .. })), "{at}: {ended:?}");
            }
        }
        disk.put(&segment(&disk, 1), &sample().content(&segment(&disk, 1)).expect("exists"));
        let mut seen = 0;
        let read = frames.replay(LogIndex(1), &mut |_| {
            seen += 1;
            Ok(())
        });
        assert_eq!((read, seen), (Ok(()), 12));
    }
}

/// After a segment was moved, readers close its old file.
#[test]
fn a_closed_segment_file_is_reopened() {
    let options = LogOptions { verify: Verify::LastSegment, ..OPTIONS };
    let disk = sample();
    let (log, _) = FileLog::open(disk.clone(), options).expect("opens");
    let (reader, closer) = (log.reader(), log.closer());
    assert!(matches!(reader.read(LogIndex(1)), Ok(Some(_))));
    disk.put(&segment(&disk, 0), b"another file of this name");
    assert!(matches!(reader.read(LogIndex(2)), Ok(Some(_))), "the one that is open");
    closer(LogIndex(1));
    assert!(reader.read(LogIndex(3)).is_err(), "the one that is there");
    // The segment that is being written stays open.
    let last = disk.list().expect("lists").len() - 1;
    disk.put(&segment(&disk, last), b"another file of this name");
    closer(LogIndex(10));
    assert!(matches!(reader.read(LogIndex(12)), Ok(Some(_))));
}

#[test]
fn a_log_without_frames_has_none_to_visit() {
    let mut log = FileLog::create(MemoryDisk::new(7), IDENTITY, OPTIONS).expect("creates");
    for from in [0, 1, 2] {
        let visit = &mut |_: &Frame<'_>| panic!("there is none");
        assert_eq!(log.frames().replay(LogIndex(from), visit), Ok(()), "{from}");
        assert_eq!(log.replay(LogIndex(from), visit), Ok(()), "{from}");
    }
}

/// Missing bytes between segments are detected from the headers, with the same error as in a full
/// read.
#[test]
fn missing_segments_are_refused_by_any_start() {
    let end_of = |at: usize, cut: fn(Vec<u8>, &[usize]) -> Vec<u8>| {
        move |disk: &MemoryDisk| {
            let name = segment(disk, at);
            let offsets = frame_offsets(disk, &name);
            disk.put(&name, &cut(disk.content(&name).expect("exists"), &offsets));
        }
    };
    let changes: [&dyn Fn(&MemoryDisk); 8] = [
        &|disk| disk.remove(&segment(disk, 1)).expect("removes"),
        &|disk| disk.remove(&segment(disk, 2)).expect("removes"),
        &|disk| {
            disk.put(
                &segment(disk, 1),
                &sample_of(1_199).content(&segment(disk, 1)).expect("exists"),
            )
        },
        &last_frame_of_the_second_segment_cut_off,
        &end_of(0, |bytes, _| bytes[..bytes.len() - 1].to_vec()),
        &end_of(1, |bytes, _| bytes[..512].to_vec()),
        &end_of(2, |bytes, _| [&bytes[..], &[0; 512]].concat()),
        &end_of(2, |mut bytes, offsets| {
            bytes[offsets[2] + 40] ^= 1;
            bytes
        }),
    ];
    let options = LogOptions { verify: Verify::LastSegment, ..OPTIONS };
    for (at, change) in changes.into_iter().enumerate() {
        let disk = sample();
        change(&disk);
        let expected = refused(&disk);
        let before = content(&disk);
        let error = FileLog::open(disk.clone(), options).expect_err("damage is refused");
        assert_eq!(error, expected, "{at}");
        assert_eq!(content(&disk), before, "{at}: nothing is changed");
    }
}

/// A last frame that is longer than the first window of the search, and one that contains another
/// frame.
#[test]
fn the_end_of_a_segment_is_found_however_long_its_last_frame_is() {
    let options = LogOptions { segment_bytes: 400_000, verify: Verify::LastSegment, ..OPTIONS };
    for sizes in [&[65_000][..], &[65_536], &[200_000], &[399_000], &[100; 700], &[390_000, 100]] {
        let disk = MemoryDisk::new(7);
        let mut log = FileLog::create(disk.clone(), IDENTITY, options).expect("creates");
        for _ in 0..8 {
            log.append(&frame_after(&log.tail(), sizes)).expect("appends");
        }
        log.sync().expect("syncs");
        let (end, chain) = (log.end(), log.chain());
        drop(log);
        let (log, report) = FileLog::open(disk.clone(), options).expect("opens");
        assert_eq!((log.end(), log.chain()), (end, chain), "{sizes:?}");
        let in_last = journal::walk(&disk, &mut |_| Ok(())).expect("sound").frames;
        assert!(report.frames < in_last, "{sizes:?}: closed segments are not read");
        drop(log);
        let name = segment(&disk, 0);
        let bytes = disk.content(&name).expect("exists");
        disk.put(&name, &bytes[..bytes.len() - 1]);
        assert!(FileLog::open(disk, options).is_err(), "{sizes:?}");
    }
}

#[test]
fn logs_are_created_once_and_opened_only_if_created() {
    let disk = MemoryDisk::new(1);
    assert_eq!(FileLog::open(disk.clone(), OPTIONS).err(), Some(OpenError::NoLog));
    let make = || FileLog::create(disk.clone(), IDENTITY, OPTIONS);
    assert!(make().is_ok());
    assert_eq!(make().err(), Some(OpenError::Exists));
    let open = || FileLog::open_or_create(disk.clone(), LogIdentity([5; 16]), OPTIONS);
    let (log, report) = open().expect("opens");
    assert_eq!((log.tail(), report.created), (Tail::genesis(IDENTITY), false));
    disk.remove(&segment(&disk, 0)).expect("removes");
    let (log, report) = open().expect("makes");
    assert_eq!((log.tail().identity, report.created), (LogIdentity([5; 16]), true));
}

#[test]
fn an_incomplete_new_segment_is_removed() {
    let next = "00000000000000000013.segment";
    for content in [&[][..], &[0; 512], &[0; 100], b"UpSegmnt"] {
        let disk = sample();
        disk.put(next, content);
        let (log, report) = FileLog::open(disk.clone(), OPTIONS).expect("repairs");
        assert_eq!(report.removed_segment.as_deref(), Some(next));
        assert_eq!((log.end(), report.segments), (LogIndex(12), 4));
        assert_eq!(disk.content(next), None);
    }
    // The end of the previous segment had been synced by then, so missing bytes in it are damage.
    let disk = sample();
    let name = segment(&disk, 3);
    let bytes = disk.content(&name).expect("exists");
    disk.put(next, &[]);
    disk.put(&name, &bytes[..bytes.len() - 1]);
    let OpenError::Damaged(damage) = refused(&disk) else { panic!("typed as damage") };
    assert!(matches!(damage.reason, DamageReason::Durable { durable: LogIndex(12), .. }));
    // All records before it were durable too.
    let disk = sample();
    disk.put("00000000000000000015.segment", &[]);
    let OpenError::Damaged(damage) = refused(&disk) else { panic!("typed as damage") };
    assert_eq!(damage.reason, DamageReason::Missing { until: LogIndex(14) });
    assert_eq!((&damage.segment, damage.log_index), (&name, LogIndex(13)));
}

/// A segment begins with its header, one sector, synced. No crash leaves frames after a header of
/// zeros or a wrong one.
#[test]
fn a_header_that_no_crash_leaves_is_refused() {
    let frames =
        |disk: &MemoryDisk| disk.content(&segment(disk, 3)).expect("exists")[512..].to_vec();
    let last = "00000000000000000010.segment";
    for (header, has_frames) in [([0; 512], true), ([b'U'; 512], true), ([b'U'; 512], false)] {
        let disk = sample();
        let frames = if has_frames { frames(&disk) } else { Vec::new() };
        disk.put(last, &[&header[..], &frames].concat());
        let OpenError::Damaged(damage) = refused(&disk) else { panic!("typed as damage") };
        assert!(matches!(damage.reason, DamageReason::SegmentHeader(_)), "{damage}");
        assert_eq!((&damage.segment[..], damage.offset), (last, 0));
    }
}

/// The error of a replay in which a frame of a segment was replaced by one of another chain, with
/// valid checksums. The frame is restored afterwards.
fn replay_with_forged(
    log: &mut FileLog<MemoryDisk>,
    disk: &MemoryDisk,
    (name, at): (&str, usize),
) -> Result<(), String> {
    let bytes = disk.content(name).expect("exists");
    let offsets = frame_offsets(disk, name);
    let (start, end) = (offsets[at], offsets[at + 1]);
    let header = *Frame::parse(&bytes[start..end]).expect("sound").header();
    let before = Tail {
        end: LogIndex(header.first.0 - 1),
        durable: header.durable,
        stamp: Stamp(header.batch.stamp.0 - 10),
        ..Tail::genesis(IDENTITY)
    };
    let forged = frame_after(&before, &[100]);
    assert_eq!(forged.len(), end - start);
    let file = disk.open(name).expect("opens");
    file.write_at(start as u64, &forged).expect("writes");
    let result = log.replay(LogIndex(1), &mut |_| Ok(()));
    file.write_at(start as u64, &bytes[start..end]).expect("writes");
    result.map_err(|error| error.to_string())
}

/// Opening has hashed the existing frames, so a replay checks only their checksums. Later frames
/// are hashed, which also covers the earlier ones.
#[test]
fn a_replay_hashes_frames_that_opening_has_not() {
    let disk = sample_of(100);
    let name = segment(&disk, 0);
    let (mut log, _) = FileLog::open(disk.clone(), OPTIONS).expect("opens");
    log.append(&frame_after(&log.tail(), &[100])).expect("appends");
    log.append(&frame_after(&log.tail(), &[100])).expect("appends");
    let offsets = frame_offsets(&disk, &name);
    let seen = replay_with_forged(&mut log, &disk, (&name, 10));
    assert_eq!(seen, Ok(()), "opening has seen another one");
    for (forged, found) in [(11, 12), (12, 12), (13, 13)] {
        let error =
            replay_with_forged(&mut log, &disk, (&name, forged)).expect_err("a broken link");
        assert!(error.contains(&format!("byte {}", offsets[found])), "{forged}: {error}");
    }
    assert_eq!(log.replay(LogIndex(1), &mut |_| Ok(())), Ok(()), "all was put back");
}

/// This applies to the segment that opening has read, while it is the last one.
#[test]
fn a_replay_hashes_every_segment_begun_after_opening() {
    let disk = sample_of(100);
    let (mut log, _) = FileLog::open(disk.clone(), OPTIONS).expect("opens");
    while disk.list().expect("lists").len() < 2 {
        log.append(&frame_after(&log.tail(), &[100])).expect("appends");
    }
    log.append(&frame_after(&log.tail(), &[100])).expect("appends");
    for (at, frame) in [(0, 10), (1, 0), (1, 1)] {
        let name = segment(&disk, at);
        let error = replay_with_forged(&mut log, &disk, (&name, frame)).expect_err("a broken link");
        assert!(error.contains(&name), "{error}");
    }
    assert_eq!(log.replay(LogIndex(1), &mut |_| Ok(())), Ok(()), "all was put back");
}
