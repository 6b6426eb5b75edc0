//! Compressed and archived segments are read like plain ones. Damage is reported, and nothing is
//! lost while segments are moved.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use journal::contract::{IDENTITY, noisy_frame_after};
use journal::{
    ArchiveError, ArchivedSegment, BlobError, BlobStore, Destination, FileLog, LogOptions, LogWalk,
    MemoryDisk, OpenError, RealDisk, Retention, Tier, TieredDisk, Verify,
};
use ledger::{LogIndex, Stamp};
use ports::{Disk, DiskError, DiskFile, Log, LogError, StopReading};
use record::frame::LogIdentity;
use tempfile::TempDir;

use crate::common::{STRICT, go};

const ALL: Retention = Retention { keep_segments: 0, closed_by: Stamp(u64::MAX) };
const OPTIONS: LogOptions = LogOptions { segment_bytes: 700_000, room_bytes: 700, ..STRICT };

/// A directory with a log of four segments, the closed ones of three blocks each, and a blob store.
struct Scene {
    directory: TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { directory: tempfile::tempdir().expect("a directory") };
        fs::create_dir(scene.archive()).expect("makes it");
        write_log(scene.disk(), IDENTITY);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn archive(&self) -> PathBuf {
        self.path("archive")
    }

    fn disk(&self) -> RealDisk {
        RealDisk::open(&self.path("data")).expect("opens")
    }

    fn log(&self) -> TieredDisk<RealDisk> {
        TieredDisk::open(self.disk()).expect("opens")
    }

    fn place(&self) -> Arc<dyn BlobStore> {
        journal::open_blob_store(&format!("file://{}", self.archive().display())).expect("a place")
    }

    fn segments(&self) -> Vec<String> {
        let names = self.disk().list().expect("lists");
        names.into_iter().filter(|name| name.contains(".segment")).collect()
    }

    /// The segments of an open log.
    fn segments_of(&self, log: &TieredDisk<RealDisk>) -> Vec<String> {
        let mut names = log.list().expect("lists");
        names.retain(|name| name.ends_with(".segment"));
        names
    }

    fn object(&self, at: usize) -> PathBuf {
        let mut objects: Vec<_> = fs::read_dir(self.archive().join("segments"))
            .expect("lists")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        objects.sort();
        objects.swap_remove(at)
    }
}

fn write_log<D: Disk>(disk: D, identity: LogIdentity) {
    let mut log = FileLog::create(disk, identity, OPTIONS).expect("creates");
    for at in 0..60 {
        log.append(&noisy_frame_after(&log.tail(), &[30_000 + at * 10, 10_000])).expect("appends");
    }
    log.sync().expect("syncs");
}

fn archive_all<D: Disk>(
    log: &TieredDisk<D>,
    destination: Destination<'_>,
) -> Result<Vec<ArchivedSegment>, ArchiveError> {
    if let Destination::BlobStore(place) = destination {
        journal::claim_for(log, place)?;
    }
    let due = journal::due(log, &ALL, destination)?;
    due.iter().map(|due| journal::archive_segment(log, due, destination, &mut go)).collect()
}

fn walk<D: Disk>(disk: &D) -> Result<LogWalk, OpenError> {
    journal::walk(disk, &mut |_| Ok(()))
}

#[test]
fn a_log_reads_the_same_plain_compressed_and_archived() {
    let scene = Scene::new();
    let plain = walk(&scene.disk()).expect("sound");
    assert_eq!((plain.segments, plain.frames), (4, 60));
    let reference = records(scene.log());

    let log = scene.log();
    let handed = archive_all(&log, Destination::InPlace).expect("compresses");
    assert_eq!(handed.len(), 3);
    let (plain_bytes, compressed_bytes) =
        handed.iter().fold((0, 0), |(a, b), h| (a + h.plain_bytes, b + h.compressed_bytes));
    assert!(compressed_bytes < plain_bytes, "{compressed_bytes} of {plain_bytes}");
    assert_eq!(walk(&log), Ok(plain.clone()));
    drop(log);
    assert_eq!(scene.segments().len(), 1);
    assert_eq!(walk(&scene.log()), Ok(plain.clone()));
    assert_eq!(records(scene.log()), reference);

    let (log, place) = (scene.log(), scene.place());
    assert_eq!(archive_all(&log, Destination::BlobStore(&*place)).expect("moves").len(), 3);
    let tiers: Vec<_> =
        log.segments().expect("lists").into_iter().map(|segment| segment.tier).collect();
    let archived = Tier::Archived(place.url().into());
    assert_eq!(tiers, [archived.clone(), archived.clone(), archived, Tier::Plain]);
    assert_eq!(archive_all(&log, Destination::BlobStore(&*place)), Ok(vec![]), "nothing is left");
    drop(log);
    assert_eq!(walk(&scene.log()), Ok(plain));
    assert_eq!(records(scene.log()), reference);
}

/// The index by which single records are found without a search.
#[test]
fn a_compressed_segment_has_an_index_of_frames() {
    let scene = Scene::new();
    let mut frames = Vec::new();
    let all = journal::walk(&scene.disk(), &mut |placed| {
        frames.push((placed.frame.header().first, placed.offset));
        Ok(())
    });
    all.expect("sound");
    let log = scene.log();
    archive_all(&log, Destination::InPlace).expect("compresses");
    for name in scene.segments_of(&log).iter().take(3) {
        let starts = log.open(name).and_then(|file| file.frame_starts()).expect("reads");
        assert!(1 < starts.len() && starts.iter().all(|start| frames.contains(start)), "{name}");
    }
}

#[test]
fn any_part_of_a_compressed_segment_equals_the_plain_one() {
    let scene = Scene::new();
    let name = "00000000000000000001.segment";
    let plain = fs::read(scene.path("data").join(name)).expect("reads");
    let log = scene.log();
    archive_all(&log, Destination::InPlace).expect("compresses");
    let file = log.open(name).expect("opens");
    let (block, end) = (256 << 10, plain.len());
    for (from, length) in [
        (0, 512),
        (0, 2_000),
        (500, 12),
        (512, 1),
        (513, 700),
        (block - 1, 2),
        (block - 1, block + 2),
        (end - 5, 50),
        (end, 1),
        (end + 1, 1),
    ] {
        let mut read = vec![0; length];
        let count = file.read_at(from as u64, &mut read).expect("reads");
        let expected = &plain[from.min(end)..(from + length).min(end).max(from.min(end))];
        assert_eq!((count, &read[..count]), (expected.len(), expected), "{length} from {from}");
    }
}

#[test]
fn other_files_are_on_the_disk_below() {
    let scene = Scene::new();
    let log = scene.log();
    log.create("one").expect("creates");
    log.rename("one", "two").expect("renames");
    assert!(log.below().open("one").is_err() && log.below().open("two").is_ok());
    log.remove("two").expect("removes");
    assert!(log.below().open("two").is_err());
    // A segment whose creation is incomplete is not listed.
    fs::write(scene.path("data").join("00000000000000000121.segment"), [0; 512]).expect("writes");
    assert_eq!(log.segments().expect("lists").len(), 4);
}

/// A segment with many more blocks than in the other tests.
#[test]
fn a_long_segment_is_compressed() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = LogOptions { segment_bytes: 36 << 20, ..OPTIONS };
    let disk = RealDisk::open(directory.path()).expect("opens");
    let mut log = FileLog::create(disk, IDENTITY, options).expect("creates");
    for _ in 0..38 {
        log.append(&noisy_frame_after(&log.tail(), &[1_000_000])).expect("appends");
    }
    log.sync().expect("syncs");
    drop(log);
    let log = TieredDisk::open(RealDisk::open(directory.path()).expect("opens")).expect("opens");
    let plain = walk(&log).expect("sound");
    let handed = archive_all(&log, Destination::InPlace).expect("compresses");
    assert_eq!((plain.segments, handed.len()), (2, 1));
    assert_eq!(walk(&log), Ok(plain));
}

/// Opens the log for writing, replays it, and reads single records from the end to the beginning.
fn records(disk: TieredDisk<RealDisk>) -> Vec<ports::OwnedRecord> {
    let options = LogOptions { verify: Verify::LastSegment, ..OPTIONS };
    let (mut log, recovery) = FileLog::open(disk, options).expect("opens");
    assert_eq!((recovery.segments, recovery.end), (4, LogIndex(120)));
    let mut frames = 0;
    log.replay(LogIndex(1), &mut |_| {
        frames += 1;
        Ok(())
    })
    .expect("replays");
    assert_eq!(frames, 60);
    let reader = log.reader();
    let read = |log_index| reader.read(LogIndex(log_index)).expect("reads").expect("is there");
    (1..=120).rev().map(read).collect()
}

#[test]
fn a_running_log_continues_while_its_segments_are_moved() {
    let scene = Scene::new();
    let (disk, place) = (scene.log(), scene.place());
    let (mut log, _) = FileLog::open(disk.clone(), OPTIONS).expect("opens");
    let (reader, closer) = (log.reader(), log.closer());
    let before = reader.read(LogIndex(1)).expect("reads");
    for handed in archive_all(&disk, Destination::BlobStore(&*place)).expect("moves") {
        closer(handed.first);
    }
    assert_eq!(reader.read(LogIndex(1)).expect("reads"), before);
    for _ in 0..20 {
        log.append(&noisy_frame_after(&log.tail(), &[40_000])).expect("appends");
    }
    log.sync().expect("syncs");
    assert_eq!(archive_all(&disk, Destination::BlobStore(&*place)).expect("moves").len(), 1);
    assert_eq!(walk(&disk).expect("sound").tail.end, LogIndex(140));
}

#[test]
fn kept_and_recent_segments_stay() {
    let scene = Scene::new();
    let log = scene.log();
    let count =
        |retention| journal::due(&log, &retention, Destination::InPlace).expect("lists").len();
    assert_eq!(count(ALL), 3);
    assert_eq!(count(Retention { keep_segments: 2, ..ALL }), 1);
    assert_eq!(count(Retention { keep_segments: 9, ..ALL }), 0);
    let closed = log.segments().expect("lists")[1].base.stamp;
    assert_eq!(count(Retention { closed_by: closed, ..ALL }), 1);
    assert_eq!(count(Retention { closed_by: Stamp(closed.0 - 1), ..ALL }), 0);
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("reads");
    change(&mut bytes);
    fs::write(path, bytes).expect("writes");
}

/// The archive is damaged: a read reports the location, and nothing is changed.
#[test]
fn a_damaged_archive_is_reported_with_its_location() {
    let scene = Scene::new();
    let place = scene.place();
    archive_all(&scene.log(), Destination::BlobStore(&*place)).expect("moves");
    let good = fs::read(scene.object(1)).expect("reads");
    let check = |spoil: &dyn Fn(&Path), named: &str, at: Option<u64>| {
        let path = scene.archive().join("segments/00000000000000000035.packed");
        spoil(&path);
        let error = walk(&scene.log()).expect_err("it is seen");
        let OpenError::Disk(DiskError::Damaged { file, offset, reason }) = &error else {
            panic!("{error}")
        };
        assert!(file.ends_with("00000000000000000035.packed"), "{file}");
        assert!(reason.contains(named), "{reason} does not name {named}");
        assert_eq!(*offset, at, "{error}");
        let (log, _) =
            FileLog::open(scene.log(), LogOptions { verify: Verify::LastSegment, ..OPTIONS })
                .expect("the archive is not needed to open");
        let reader = log.reader();
        let read = |log_index| reader.read(LogIndex(log_index)).err();
        assert!((35..69).any(|at| matches!(read(at), Some(LogError::Damaged { .. }))));
        fs::write(&path, &good).expect("writes");
    };
    let middle = good.len() / 2;
    // The end of the header.
    let (start, first_block, end) = (Some(0), Some(512), Some(good.len() as u64 - 128));
    check(&|path| change(path, |bytes| bytes[600] ^= 1), "checksum of the block", first_block);
    check(&|path| change(path, |bytes| bytes[20] ^= 1), "the header has a wrong checksum", start);
    check(&|path| change(path, |bytes| bytes.truncate(middle)), "cut short", end);
    check(&|path| change(path, |bytes| *bytes = bytes.split_off(10)), "wrong magic bytes", start);
    check(&|path| fs::remove_file(path).expect("removes"), "the object is missing", None);
    let other = fs::read(scene.object(0)).expect("reads");
    let longer = |path: &Path| {
        change(path, |bytes| {
            bytes.clone_from(&other);
            bytes.resize(good.len(), 0);
        });
    };
    check(&longer, "cut short", end);
    walk(&scene.log()).expect("all of it was put back");
}

/// Bytes after the length in the archive index are never read. Reading the whole object finds them.
#[test]
fn bytes_after_an_archived_segment_are_reported() {
    let scene = Scene::new();
    let place = scene.place();
    archive_all(&scene.log(), Destination::BlobStore(&*place)).expect("moves");
    let length = fs::metadata(scene.object(1)).expect("is there").len();
    walk(&scene.log()).expect("as it was written");
    change(&scene.object(1), |bytes| bytes.push(0));
    let error = walk(&scene.log()).expect_err("it is seen");
    let OpenError::Disk(DiskError::Damaged { file, offset, reason }) = &error else {
        panic!("{error}")
    };
    assert!(file.ends_with("00000000000000000035.packed"), "{file}");
    assert_eq!(
        (*offset, &**reason),
        (Some(length), "the object is longer than recorded in archive.catalogue")
    );
}

/// A reader finds segments that a running switch has archived since the reader opened the log.
#[test]
fn a_reader_follows_segments_archived_meanwhile() {
    let scene = Scene::new();
    let open = || {
        let disk = RealDisk::open_live(&scene.path("data")).expect("opens");
        TieredDisk::open_live(disk).expect("opens")
    };
    let (early, later) = (open(), open());
    let plain = journal::walk_live(&early, &mut |_| Ok(())).expect("sound");
    let place = scene.place();
    archive_all(&scene.log(), Destination::BlobStore(&*place)).expect("moves");
    let mut firsts = Vec::new();
    let moved = journal::walk_live(&later, &mut |placed| {
        firsts.push(placed.frame.header().first);
        Ok(())
    });
    assert_eq!(moved.expect("sound"), plain);
    assert_eq!(firsts.len(), 60);
}

/// Reading all of a compressed file finds every flipped byte.
#[test]
fn every_flipped_byte_of_a_compressed_file_is_found() {
    let scene = Scene::new();
    archive_all(&scene.log(), Destination::InPlace).expect("compresses");
    let path = scene.path("data").join("00000000000000000001.packed");
    let length = fs::read(&path).expect("reads").len();
    let mut checked = 0;
    for at in (0..length).step_by(length / 40).chain((length - 160..length).step_by(5)) {
        change(&path, |bytes| bytes[at] ^= 4);
        let found = TieredDisk::open(scene.disk()).map(|log| walk(&log));
        let sound = matches!(&found, Ok(Ok(_)));
        assert!(!sound, "byte {at} of {length}");
        change(&path, |bytes| bytes[at] ^= 4);
        checked += 1;
    }
    assert!(70 < checked);
    walk(&scene.log()).expect("every byte was put back");
}

#[test]
fn a_store_of_another_log_and_a_missing_store_are_refused() {
    let scene = Scene::new();
    let place = scene.place();
    let other = TieredDisk::open(MemoryDisk::new(1)).expect("opens");
    write_log(other.clone(), LogIdentity(*b"another log    1"));
    let moved = |log: &TieredDisk<MemoryDisk>| archive_all(log, Destination::BlobStore(&*place));
    moved(&other).expect("an empty place is taken");
    let error =
        archive_all(&scene.log(), Destination::BlobStore(&*place)).expect_err("it is taken");
    assert!(matches!(error, ArchiveError::BlobStore(BlobError::OtherLog { .. })), "{error}");

    let elsewhere = scene.path("elsewhere");
    let url = format!("file://{}", elsewhere.display());
    let place = journal::open_blob_store(&url).expect("a place");
    let attempt = || archive_all(&scene.log(), Destination::BlobStore(&*place));
    let error = attempt().expect_err("there is none").to_string();
    assert!(error.contains("open the directory"), "{error}");
    fs::create_dir(&elsewhere).expect("makes it");
    fs::write(elsewhere.join("holiday.jpg"), "x").expect("writes");
    let error = attempt().expect_err("it is something else").to_string();
    assert!(error.contains("holds other objects"), "{error}");
    fs::remove_file(elsewhere.join("holiday.jpg")).expect("removes");
    assert_eq!(attempt().expect("moves").len(), 3);
    // An unmounted share leaves the empty directory below it.
    fs::rename(&elsewhere, scene.path("unmounted")).expect("renames");
    fs::create_dir(&elsewhere).expect("makes it");
    let error = attempt().expect_err("it is empty").to_string();
    assert!(error.contains("is it mounted?"), "{error}");
}

#[test]
fn damaged_segments_are_not_archived() {
    let scene = Scene::new();
    change(&scene.path("data").join(&scene.segments()[1]), |bytes| bytes[90_000] ^= 1);
    let place = scene.place();
    for destination in [Destination::InPlace, Destination::BlobStore(&*place)] {
        let error = archive_all(&scene.log(), destination).expect_err("it is seen");
        assert!(error.to_string().contains("the segment was not archived"), "{error}");
        assert!(scene.segments().contains(&"00000000000000000035.segment".to_owned()));
    }
}

/// An archive run that is stopped at any point continues at the next attempt. An object in the blob
/// store is never torn.
#[test]
fn an_interrupted_archive_continues() {
    let scene = Scene::new();
    let plain = walk(&scene.disk()).expect("sound");
    let place = scene.place();
    let mut stops = 0;
    for most in (0..).step_by(6) {
        let mut left = most;
        let log = scene.log();
        journal::claim_for(&log, &*place).expect("ours");
        let due = journal::due(&log, &ALL, Destination::BlobStore(&*place)).expect("lists");
        let Some(due) = due.first() else { break };
        let mut watch = |_| match left {
            0 => Err(StopReading),
            _ => {
                left -= 1;
                Ok(())
            }
        };
        let done = journal::archive_segment(&log, due, Destination::BlobStore(&*place), &mut watch);
        stops += usize::from(done == Err(ArchiveError::Stopped));
        assert_eq!(walk(&log), Ok(plain.clone()), "after {most} steps");
        let shown = fs::read_dir(scene.archive()).expect("lists").count();
        assert!(shown <= 2, "nothing unfinished is left");
    }
    assert!(3 < stops, "{stops}");
    assert_eq!(scene.segments().len(), 1);
}

/// The object of an earlier attempt is kept if it is identical, written again if it is damaged, and
/// left alone if it differs.
#[test]
fn an_existing_object_is_compared() {
    let scene = Scene::new();
    let place = scene.place();
    let names = scene.segments();
    let data = scene.path("data");
    let keep: Vec<_> = names.iter().map(|name| fs::read(data.join(name)).expect("reads")).collect();
    archive_all(&scene.log(), Destination::BlobStore(&*place)).expect("moves");
    // The state before the index was written.
    for (name, bytes) in names.iter().zip(&keep) {
        fs::write(data.join(name), bytes).expect("writes");
    }
    fs::remove_file(data.join(journal::ARCHIVE_INDEX)).expect("removes");
    let good = fs::read(scene.object(1)).expect("reads");
    change(&scene.object(1), |bytes| bytes[9_000] ^= 1);
    fs::copy(scene.object(1), scene.object(2)).expect("copies");
    fs::write(scene.object(2), &good).expect("writes");
    let error = archive_all(&scene.log(), Destination::BlobStore(&*place)).expect_err("another");
    assert!(matches!(error, ArchiveError::Differs { .. }), "{error}");
    assert_eq!(fs::read(scene.object(1)).expect("reads"), good, "it was written again");
    assert_eq!(scene.segments().len(), 2, "the last two are still here");
    walk(&scene.log()).expect("sound");
}

/// A crash truncates the last line of the index.
#[test]
fn a_torn_index_loses_nothing_and_a_damaged_one_is_refused() {
    let scene = Scene::new();
    let plain = walk(&scene.disk()).expect("sound");
    let place = scene.place();
    let last = scene.segments()[2].clone();
    let bytes = fs::read(scene.path("data").join(&last)).expect("reads");
    archive_all(&scene.log(), Destination::BlobStore(&*place)).expect("moves");
    let index = scene.path("data").join(journal::ARCHIVE_INDEX);
    let whole = fs::read(&index).expect("reads");
    for cut in [1, 30, 300] {
        fs::write(&index, &whole[..whole.len() - cut]).expect("writes");
        fs::write(scene.path("data").join(&last), &bytes).expect("writes");
        assert_eq!(walk(&scene.log()), Ok(plain.clone()), "{cut} bytes cut off");
        let moved = archive_all(&scene.log(), Destination::BlobStore(&*place)).expect("moves");
        assert_eq!(moved.len(), 1);
        assert_eq!(fs::read(&index).expect("reads"), whole);
    }
    change(&index, |bytes| bytes[40] ^= 1);
    let error = TieredDisk::open(scene.disk()).err().expect("refused").to_string();
    assert!(error.contains("at byte 0: invalid line: wrong checksum"), "{error}");
    // The advice in the error loses nothing.
    for object in (0..3).map(|at| scene.object(at)) {
        let name = object.file_name().expect("it has one");
        fs::copy(&object, scene.path("data").join(name)).expect("copies");
    }
    fs::remove_file(&index).expect("removes");
    assert_eq!(walk(&scene.log()), Ok(plain));
    assert_eq!(archive_all(&scene.log(), Destination::BlobStore(&*place)).expect("moves").len(), 3);
    assert_eq!(fs::read(&index).expect("reads"), whole);
}

/// The disk is full at any moment of compressing in place: the plain file stays until the
/// compressed one is complete, and no unfinished file remains.
#[test]
fn a_full_disk_loses_nothing() {
    let disk = MemoryDisk::new(3);
    write_log(disk.clone(), IDENTITY);
    let plain = walk(&disk).expect("sound");
    let used: u64 = disk
        .list()
        .expect("lists")
        .iter()
        .map(|name| disk.open(name).and_then(|file| file.length()).expect("reads"))
        .sum();
    let mut full = 0;
    for room in [0, 600, 70_000, 200_000, 500_000, 700_000, 2_000_000] {
        disk.set_capacity(used + room);
        let log = TieredDisk::open(disk.clone()).expect("opens");
        match archive_all(&log, Destination::InPlace) {
            Err(ArchiveError::Disk(DiskError::Full)) => full += 1,
            done => assert_eq!(done.map(|handed| handed.len()), Ok(3)),
        }
        assert_eq!(walk(&log), Ok(plain.clone()), "{room}");
        let names = disk.list().expect("lists");
        assert!(!names.iter().any(|name| name.ends_with(".packing")), "{names:?}");
        if names.iter().any(|name| name.ends_with(".packed")) {
            break;
        }
    }
    assert!(2 < full, "{full}");
}
