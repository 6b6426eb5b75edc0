//! A copy is whole at any moment, and a log made of it is the log.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use journal::contract::{IDENTITY, frame_after, noisy_frame_after};
use journal::{
    ArchiveError, Backup, BackupSummary, BlobError, BlobStore, Destination, ExtraFile,
    FetchedBackup, FileLog, LogWalk, MemoryDisk, Options, ProgressObserver, RealDisk, Retention,
    TieredDisk,
};
use ledger::{LogIndex, Stamp};
use ports::{Disk, DiskError, DiskFile, Log, StopReading};
use record::frame::LogIdentity;
use tempfile::TempDir;

use crate::common::{STRICT, go};

const OPTIONS: Options = Options { segment_bytes: 300_000, ..STRICT };

struct Scene {
    directory: TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { directory: tempfile::tempdir().expect("a directory") };
        fs::create_dir(scene.path("copy")).expect("makes it");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn disk(&self) -> TieredDisk<RealDisk> {
        let disk = RealDisk::open_beside(&self.path("data")).expect("opens");
        TieredDisk::open(disk).expect("opens")
    }

    fn place(&self) -> Arc<dyn BlobStore> {
        journal::open_blob_store(&format!("file://{}", self.path("copy").display()))
            .expect("a place")
    }

    fn own(&self) -> TieredDisk<RealDisk> {
        TieredDisk::open(RealDisk::open(&self.path("data")).expect("opens")).expect("opens")
    }

    fn create(&self) -> FileLog<TieredDisk<RealDisk>> {
        FileLog::create(self.own(), IDENTITY, OPTIONS).expect("creates")
    }

    fn run(&self) -> Result<BackupSummary, ArchiveError> {
        Backup::open(&self.disk(), self.place())?.run(&self.disk(), &[], &mut go)
    }

    /// The log of the copy, read.
    fn restore(&self, name: &str) -> Result<LogWalk, ArchiveError> {
        let disk = RealDisk::open(&self.path(name)).expect("opens");
        restore(&*self.place(), &disk, &mut go).map(|(_, walked)| walked)
    }
}

fn restore(
    place: &dyn BlobStore,
    disk: &RealDisk,
    watch: &mut ProgressObserver<'_>,
) -> Result<(FetchedBackup, LogWalk), ArchiveError> {
    let brought = journal::fetch(place, disk, watch)?;
    let log = TieredDisk::open(disk.clone())?;
    let walked = journal::walk(&log, &mut |_| Ok(())).expect("each part was checked");
    brought.check(&walked)?;
    Ok((brought, walked))
}

fn grow<D: Disk>(log: &mut FileLog<D>, frames: usize) {
    for at in 0..frames {
        log.append(&frame_after(&log.tail(), &[20_000 + at])).expect("appends");
    }
    log.sync().expect("syncs");
}

/// One copy follows a growing log over several segments; after each run it gives the log.
#[test]
fn a_copy_follows_a_log_at_work() {
    let scene = Scene::new();
    let mut log = scene.create();
    fs::write(scene.path("data").join("quarantine.json"), "{}").expect("writes");
    fs::write(scene.path("data").join("admin-token"), "secret").expect("writes");
    fs::write(scene.path("data").join(journal::MARK), "ahead of the copy").expect("writes");
    let extra = ExtraFile { name: "upesi.toml".into(), bytes: b"# mine".to_vec() };
    let disk = scene.disk();
    let mut backup = Backup::open(&disk, scene.place()).expect("an empty place");
    for (round, frames) in [0, 1, 3, 12, 1, 40, 0, 2].into_iter().enumerate() {
        grow(&mut log, frames);
        let copied = backup.run(&disk, std::slice::from_ref(&extra), &mut go).expect("copies");
        assert_eq!((copied.end, copied.chain), (log.end(), log.chain()), "round {round}");
        let name = format!("restored {round}");
        let disk = RealDisk::open(&scene.path(&name)).expect("opens");
        let (brought, LogWalk { tail, .. }) =
            restore(&*scene.place(), &disk, &mut go).expect("whole");
        drop(disk);
        assert_eq!((tail.end, tail.chain), (log.end(), log.chain()), "round {round}");
        assert_eq!(brought.files, ["upesi.toml", "quarantine.json"]);
        assert!(!scene.path(&name).join("admin-token").exists(), "a secret is not copied");
        let mark = scene.path(&name).join(journal::MARK);
        assert!(!mark.exists(), "the mark may be ahead of the copy");
        let disk = RealDisk::open(&scene.path(&name)).expect("opens");
        let disk = TieredDisk::open(disk).expect("opens");
        let (mut restored, _) = FileLog::open(disk, OPTIONS).expect("opens");
        grow(&mut restored, 15);
    }
    let again = backup.run(&disk, &[extra], &mut go).expect("copies");
    assert_eq!((again.bytes, again.segments, again.files), (0, 0, 0), "nothing is new");
    let open = fs::read_dir(scene.path("copy/open")).expect("lists").count();
    assert!(open <= 1, "{open} chunks: what no manifest names is gone");
    // What was archived meanwhile is the same.
    let place = scene.place();
    let retention = Retention { keep_segments: 0, closed_by: Stamp(u64::MAX) };
    drop(log);
    let own = scene.own();
    for due in journal::due(&own, &retention, Destination::InPlace).expect("lists") {
        journal::archive_segment(&own, &due, Destination::BlobStore(&*place), &mut go)
            .expect("moves");
    }
    assert_eq!(scene.run().expect("copies").segments, 0);
    scene.restore("at last").expect("whole");
}

/// Frames that are written and not yet whole are left out.
#[test]
fn a_half_written_frame_is_left_out() {
    let scene = Scene::new();
    let mut log = scene.create();
    grow(&mut log, 3);
    let frame = frame_after(&log.tail(), &[5_000]);
    let name = scene.disk().list().expect("lists").remove(0);
    let file = scene.own_file(log, &name);
    let length = file.length().expect("says");
    file.write_at(length, &frame[..3_000]).expect("writes");
    assert_eq!(scene.run().expect("copies").end, LogIndex(3));
    assert_eq!(scene.restore("restored").expect("whole").tail.end, LogIndex(3));
    file.write_at(length, &frame).expect("writes");
    assert_eq!(scene.run().expect("copies").end, LogIndex(4));
}

impl Scene {
    /// The file of a log that is not used any more.
    fn own_file(&self, log: FileLog<TieredDisk<RealDisk>>, name: &str) -> impl DiskFile + use<> {
        drop(log);
        self.own().open(name).expect("opens")
    }
}

/// Stopped after any number of steps, the copy is as of an earlier run, whole; the next run and
/// the next attempt to restore go on.
/// A segment that somebody cuts while it is copied ends the copy, which is whole as it was.
#[test]
fn a_segment_that_becomes_shorter_is_not_copied() {
    let scene = Scene::new();
    let mut log = scene.create();
    grow(&mut log, 1);
    let before = scene.run().expect("copies");
    grow(&mut log, 2);
    let segment = scene.path("data").join("00000000000000000001.segment");
    let mut frames = 0;
    let mut cut = |_: u64| {
        frames += 1;
        if frames != 2 {
            return Ok(());
        }
        let file = fs::File::options().write(true).open(&segment).expect("it is there");
        file.set_len(30_000).map_err(|_| StopReading)
    };
    let copied = Backup::open(&scene.disk(), scene.place())
        .and_then(|mut backup| backup.run(&scene.disk(), &[], &mut cut));
    let said = copied.expect_err("it ends").to_string();
    assert!(said.contains("00000000000000000001.segment") && said.contains("shorter"), "{said}");
    assert_eq!(scene.restore("restored").expect("whole").tail.end, before.end);
}

#[test]
fn an_interrupted_copy_and_an_interrupted_restore_go_on() {
    let scene = Scene::new();
    let mut log = scene.create();
    grow(&mut log, 4);
    let first = scene.run().expect("copies");
    grow(&mut log, 50);
    let mut stops = 0;
    for most in (0..).step_by(9) {
        let mut backup = Backup::open(&scene.disk(), scene.place()).expect("opens");
        let stopped = backup.run(&scene.disk(), &[], &mut stop_after(most));
        let restored = scene.restore(&format!("restored {most}")).expect("whole at any moment");
        if stopped.is_ok() {
            assert_eq!(restored.tail.end, log.end());
            break;
        }
        assert_eq!(stopped, Err(ArchiveError::Stopped));
        assert!(first.end <= restored.tail.end);
        stops += 1;
    }
    assert!(3 < stops, "{stops}");
    let disk = RealDisk::open(&scene.path("resumed")).expect("opens");
    let mut stops = 0;
    for most in (0..).step_by(3) {
        match restore(&*scene.place(), &disk, &mut stop_after(most)) {
            Ok((_, restored)) => {
                assert_eq!(restored.tail.chain, log.chain());
                break;
            }
            Err(_) => stops += 1,
        }
    }
    assert!(2 < stops, "{stops}");
}

fn stop_after(most: usize) -> impl FnMut(u64) -> Result<(), StopReading> {
    let mut left = most;
    move |_| {
        left = left.checked_sub(1).ok_or(StopReading)?;
        Ok(())
    }
}

/// A copy that misses anything, or in which anything is wrong, makes no log, and says why.
#[test]
fn a_damaged_copy_is_refused_with_its_place() {
    let (scene, _log, [chunk, first, second, file]) = a_copy();
    let mut round = 0;
    let mut check = |path: &PathBuf, change: &dyn Fn(&mut Vec<u8>), named: &str| {
        let (good, bytes) = damage(path, change);
        round += 1;
        let error = scene.restore(&format!("restored {round}")).expect_err("refused").to_string();
        assert!(error.contains(named), "{error} does not say {named}");
        // Whoever only looks whether all of it is there does not see what is in it.
        let is_inside = bytes.len() == good.len() && !named.contains("continue");
        let surveyed = journal::survey(&*scene.place());
        assert_eq!(surveyed.is_ok(), is_inside, "{named}: {surveyed:?}");
        fs::write(path, good).expect("writes");
    };
    check(&chunk, &Vec::clear, "is missing");
    check(&chunk, &|bytes| bytes[700] ^= 1, "is damaged: wrong digest");
    check(&chunk, &|bytes| bytes.truncate(900), "has 900 bytes instead of");
    check(&first, &Vec::clear, "the records from 1 on are missing");
    check(&second, &Vec::clear, "on are missing");
    check(&second, &|bytes| bytes[600] ^= 1, "checksum of the block");
    check(&second, &|bytes| bytes.truncate(1_000), "the file was cut short");
    let other = fs::read(&first).expect("reads");
    check(&second, &|bytes| bytes.clone_from(&other), "does not continue");
    check(&file, &|bytes| bytes[0] ^= 1, "is damaged: wrong digest");
    check(&scene.path("copy/backup.json"), &Vec::clear, "no backup was completed");
    check(&scene.path("copy/backup.json"), &|bytes| bytes.truncate(40), "read backup.json");
    check(&scene.path("copy/identity.json"), &Vec::clear, "holds other objects");
    scene.restore("restored").expect("all of it was put back");
    let surveyed = journal::survey(&*scene.place()).expect("all of it is there");
    let last = scene.disk().segments().expect("lists").pop().expect("a last one").base;
    assert_eq!((surveyed.end, surveyed.chain), (last.end, last.chain), "where packed ones end");
}

/// Changes what is in a file, or removes it when nothing is left; gives what was and what is.
fn damage(path: &PathBuf, change: &dyn Fn(&mut Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    let good = fs::read(path).expect("reads");
    let mut bytes = good.clone();
    change(&mut bytes);
    match bytes.is_empty() {
        true => fs::remove_file(path).expect("removes"),
        false => fs::write(path, &bytes).expect("writes"),
    }
    (good, bytes)
}

/// A copy of several segments, a chunk and another file, and the paths of these.
fn a_copy() -> (Scene, FileLog<TieredDisk<RealDisk>>, [PathBuf; 4]) {
    let scene = Scene::new();
    let mut log = scene.create();
    grow(&mut log, 40);
    fs::write(scene.path("data").join("notes"), "kept").expect("writes");
    scene.run().expect("copies");
    let files = |prefix: &str| {
        let entries = fs::read_dir(scene.path("copy").join(prefix)).expect("lists");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    };
    let segments = files("segments");
    let paths = [
        files("open").remove(0),
        segments[0].clone(),
        segments[1].clone(),
        files("files").remove(0),
    ];
    (scene, log, paths)
}

/// Whatever happens to a copy, the next run finds it and writes it again; what is within a packed
/// segment is found by whoever reads all of it.
#[test]
fn what_is_damaged_in_a_copy_is_written_again() {
    let (scene, log, [chunk, first, second, file]) = a_copy();
    let mut round = 0;
    let mut mend = |path: &PathBuf, reads_all: bool, change: &dyn Fn(&mut Vec<u8>)| {
        let (good, _) = damage(path, change);
        let mut backup = Backup::open(&scene.disk(), scene.place()).expect("opens");
        if reads_all {
            assert!(backup.damaged().is_empty(), "{:?}", backup.damaged());
            backup.check(&mut go).expect("reads");
        }
        let damaged = backup.damaged().to_vec();
        let copied = backup.run(&scene.disk(), &[], &mut go).expect("copies");
        assert!(0 < copied.bytes, "{path:?}");
        assert_eq!(fs::read(path).expect("reads"), good, "{path:?}");
        round += 1;
        let restored = scene.restore(&format!("restored {round}")).expect("whole");
        assert_eq!(restored.tail.chain, log.chain());
        damaged
    };
    let named = |path: &PathBuf| {
        let name = path.strip_prefix(scene.path("copy")).expect("it is in the copy");
        [name.to_str().expect("a name").to_owned()]
    };
    for path in [&chunk, &file] {
        assert_eq!(mend(path, false, &Vec::clear), named(path));
        assert_eq!(mend(path, false, &|bytes| bytes[1] ^= 1), named(path));
        assert_eq!(mend(path, false, &|bytes| bytes.truncate(2)), named(path));
    }
    assert_eq!(mend(&first, false, &Vec::clear), named(&first));
    assert_eq!(mend(&second, false, &|bytes| bytes.truncate(1_000)), named(&second));
    assert_eq!(mend(&second, false, &|bytes| bytes[3] ^= 1), named(&second));
    assert_eq!(mend(&second, true, &|bytes| bytes[600] ^= 1), named(&second));
    // Another segment of the log in its place is seen too, but no damage: nothing is written over
    // it.
    fs::copy(&first, &second).expect("copies");
    let mut backup = Backup::open(&scene.disk(), scene.place()).expect("opens");
    assert_eq!(backup.damaged(), named(&second));
    let error = backup.run(&scene.disk(), &[], &mut go).expect_err("refused").to_string();
    assert!(error.contains("it holds a different segment"), "{error}");
}

/// What an attempt brought of a damaged object is brought again once the object is good.
#[test]
fn a_restore_goes_on_once_the_copy_is_mended() {
    let (scene, log, [_, _, second, _]) = a_copy();
    let good = fs::read(&second).expect("reads");
    let mut bad = good.clone();
    bad[600] ^= 1;
    fs::write(&second, bad).expect("writes");
    let url = format!("{}/copy/segments/", scene.directory.path().display());
    for _ in 0..2 {
        let error = scene.restore("restored").expect_err("refused").to_string();
        assert!(error.contains(&url) && error.contains("checksum of the block"), "{error}");
    }
    fs::write(&second, good).expect("writes");
    let restored = scene.restore("restored").expect("whole");
    assert_eq!(restored.tail.chain, log.chain());
    // Nor is what was damaged here believed, after it was brought.
    let name = second.file_name().expect("a name");
    let here = scene.path("restored").join(name);
    let mut bytes = fs::read(&here).expect("reads");
    bytes[600] ^= 1;
    fs::write(&here, bytes).expect("writes");
    assert_eq!(scene.restore("restored").expect("whole").tail.chain, log.chain());
}

/// Who writes to the copy: one log, and one history of it.
#[test]
fn another_log_and_another_history_are_refused() {
    let scene = Scene::new();
    let mut log = scene.create();
    grow(&mut log, 5);
    scene.run().expect("copies");
    scene.restore("twin").expect("whole");
    let open = |name: &str| {
        let disk = RealDisk::open(&scene.path(name)).expect("opens");
        FileLog::open(TieredDisk::open(disk).expect("opens"), OPTIONS).expect("opens").0
    };
    let mut twin = open("twin");
    // The old one goes on and is copied; the restored one has another history from there.
    grow(&mut log, 1);
    scene.run().expect("copies");
    twin.append(&frame_after(&twin.tail(), &[77])).expect("appends");
    twin.sync().expect("syncs");
    let beside = |name: &str| {
        TieredDisk::open(RealDisk::open_beside(&scene.path(name)).expect("opens")).expect("opens")
    };
    let error = Backup::open(&beside("twin"), scene.place()).err().expect("refused");
    assert!(matches!(error, ArchiveError::Forked { .. }), "{error}");

    let disk = RealDisk::open(&scene.path("other")).expect("opens");
    let other = LogIdentity(*b"another log    2");
    FileLog::create(TieredDisk::open(disk).expect("opens"), other, OPTIONS).expect("creates");
    let error = Backup::open(&beside("other"), scene.place()).err().expect("refused");
    assert!(matches!(error, ArchiveError::BlobStore(BlobError::OtherLog { .. })), "{error}");
}

/// One that is kept open is opened anew when somebody else has copied to the same place.
#[test]
fn a_copy_that_somebody_else_has_continued_is_noticed() {
    let scene = Scene::new();
    let mut log = scene.create();
    grow(&mut log, 3);
    let mut kept = Backup::open(&scene.disk(), scene.place()).expect("opens");
    assert_eq!(kept.is_current(), Ok(true), "there is no copy yet");
    kept.run(&scene.disk(), &[], &mut go).expect("copies");
    assert_eq!(kept.is_current(), Ok(true));
    grow(&mut log, 1);
    scene.run().expect("copies");
    assert_eq!(kept.is_current(), Ok(false));
    fs::write(scene.path("copy").join(journal::MANIFEST), "").expect("writes");
    let error = kept.is_current().expect_err("it is damaged").to_string();
    assert!(error.contains("delete it and run `upesi backup`"), "{error}");
    fs::remove_file(scene.path("copy").join(journal::MANIFEST)).expect("removes");
    scene.run().expect("copies");
    assert_eq!(scene.restore("restored").expect("it is whole").frames, 4);
}

/// What a run says that it brought is what lies there after the first.
#[test]
fn what_a_run_brings_is_counted() {
    let scene = Scene::new();
    let mut log = scene.create();
    grow(&mut log, 50);
    let extra = |name: &str| ExtraFile { name: name.into(), bytes: name.as_bytes().to_vec() };
    let extras = [extra("one.toml"), extra("other.toml"), extra("third.toml")];
    let mut backup = Backup::open(&scene.disk(), scene.place()).expect("opens");
    let copied = backup.run(&scene.disk(), &extras, &mut go).expect("copies");
    let bytes = |directory: &str| -> u64 {
        let listed = fs::read_dir(scene.path("copy").join(directory)).expect("lists");
        listed.map(|entry| entry.expect("an entry").metadata().expect("is there").len()).sum()
    };
    let segments = fs::read_dir(scene.path("copy/segments")).expect("lists").count();
    assert_eq!((copied.segments, copied.files), (segments, extras.len()));
    assert!(1 < segments);
    assert_eq!(copied.bytes, bytes("segments") + bytes("open") + bytes("files"));
    assert_eq!(scene.restore("restored").expect("whole").segments, segments + 1);
}

/// A log that loses power after it was copied has all that was copied, synced before or not.
#[test]
fn a_copy_is_never_ahead_of_its_log() {
    for seed in 0..20 {
        let disk = MemoryDisk::new(seed);
        let own = TieredDisk::open(disk.clone()).expect("opens");
        let mut log = FileLog::create(own, IDENTITY, OPTIONS).expect("creates");
        grow(&mut log, 20);
        log.append(&frame_after(&log.tail(), &[20_000])).expect("appends");
        let scene = Scene::new();
        let own = TieredDisk::open(disk.clone()).expect("opens");
        let mut backup = Backup::open(&own, scene.place()).expect("opens");
        let copied = backup.run(&own, &[], &mut go).expect("copies");
        assert_eq!(copied.end, LogIndex(21));
        let after = TieredDisk::open(disk.crash()).expect("opens");
        let (log, _) = FileLog::open(after, OPTIONS).expect("opens");
        assert_eq!((log.end(), log.chain()), (copied.end, copied.chain), "seed {seed}");
    }
}

/// A chunk that is full stays; only the short one at the end is written again, with what is new.
#[test]
fn full_chunks_are_copied_once() {
    const CHUNK: u64 = 4 << 20;
    let scene = Scene::new();
    let long = Options { segment_bytes: 64 << 20, ..OPTIONS };
    let mut log = FileLog::create(scene.own(), IDENTITY, long).expect("creates");
    let name = scene.disk().list().expect("lists").remove(0);
    let length = || fs::metadata(scene.path("data").join(&name)).expect("is there").len();
    let chunks = || fs::read_dir(scene.path("copy/open")).expect("lists").count() as u64;
    let mut backup = Backup::open(&scene.disk(), scene.place()).expect("opens");
    let mut run = || backup.run(&scene.disk(), &[], &mut go).expect("copies");
    let frame = |log: &FileLog<_>, bytes: u64| {
        let beside = frame_after(&log.tail(), &[1_000]).len() - 1_000;
        frame_after(&log.tail(), &[bytes as usize - beside])
    };
    // To the byte, twice: nothing short is left to be written again.
    for whole in [1, 2] {
        while length() + 400_000 < whole * CHUNK {
            log.append(&frame(&log, 200_000)).expect("appends");
        }
        log.append(&frame(&log, whole * CHUNK - length())).expect("appends");
        log.sync().expect("syncs");
        assert_eq!((length(), run().bytes, chunks()), (whole * CHUNK, CHUNK, whole));
    }
    for more in 1..4 {
        grow(&mut log, 1);
        assert_eq!((run().bytes, chunks()), (length() - 2 * CHUNK, 3), "{more}");
    }
    assert_eq!(scene.restore("restored").expect("whole").tail.chain, log.chain());
}

/// A packed segment that is read in several pieces comes as it is.
#[test]
fn a_long_packed_segment_is_restored() {
    let scene = Scene::new();
    let long = Options { segment_bytes: 6 << 20, ..OPTIONS };
    let mut log = FileLog::create(scene.own(), IDENTITY, long).expect("creates");
    for _ in 0..7 {
        log.append(&noisy_frame_after(&log.tail(), &[1 << 20])).expect("appends");
    }
    log.sync().expect("syncs");
    assert_eq!(scene.run().expect("copies").segments, 1);
    assert_eq!(scene.restore("restored").expect("whole").tail.chain, log.chain());
}

/// A stored state never changes under its name, and others may be as long as it.
#[test]
fn stored_states_are_copied_once_each() {
    let scene = Scene::new();
    let mut log = scene.create();
    grow(&mut log, 1);
    let put =
        |name: &str, text: &str| fs::write(scene.path("data").join(name), text).expect("writes");
    put("one.snapshot", "the first");
    put("two.snapshot", "a second ");
    assert_eq!(scene.run().expect("copies").files, 2);
    put("one.snapshot", "disturbed");
    put("three.snapshot", "the third");
    assert_eq!(scene.run().expect("copies").files, 1);
    scene.restore("restored").expect("whole");
    for (name, text) in [
        ("one.snapshot", "the first"),
        ("two.snapshot", "a second "),
        ("three.snapshot", "the third"),
    ] {
        let read = fs::read_to_string(scene.path("restored").join(name)).expect("reads");
        assert_eq!(read, text, "{name}");
    }
}

/// A state that is too long can be made again; whatever else is too long is said.
#[test]
fn files_that_are_too_long_are_not_read() {
    let scene = Scene::new();
    let mut log = scene.create();
    grow(&mut log, 1);
    let long = |name: &str| {
        let file = fs::File::create(scene.path("data").join(name)).expect("creates");
        file.set_len((1 << 30) + 1).expect("takes no room");
    };
    long("large.snapshot");
    assert_eq!(scene.run().expect("copies").files, 0);
    long("large.json");
    let error = scene.run().expect_err("refused").to_string();
    assert!(error.contains("large.json") && error.contains("longer than 1073741824"), "{error}");
}

/// A manifest that names what no copy has is none, whoever wrote it.
#[test]
fn a_manifest_names_what_a_copy_may_have() {
    let scene = Scene::new();
    let mut log = scene.create();
    grow(&mut log, 1);
    fs::write(scene.path("data").join("quarantine.json"), "{}").expect("writes");
    scene.run().expect("copies");
    let path = scene.path("copy").join(journal::MANIFEST);
    let good = fs::read_to_string(&path).expect("reads");
    let chain = log.chain().to_string();
    let digest = blake3::hash(b"{}").to_hex().to_string();
    for (at, (from, to, expected)) in [
        ("quarantine.json", "below/quarantine.json", "which is never copied"),
        ("quarantine.json", "admin-token", "which is never copied"),
        (&*chain, "none", "contains an invalid digest"),
        (&*digest, "none", "contains an invalid digest"),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(good.contains(from), "{good} has no {from}");
        fs::write(&path, good.replace(from, to)).expect("writes");
        let error = scene.restore(&format!("restored {at}")).expect_err("refused").to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

/// A run that was interrupted between two segments may leave both of them in chunks: whoever looks
/// whether a copy is whole says so.
#[test]
fn a_copy_with_two_segments_in_chunks_is_not_whole() {
    let scene = Scene::new();
    grow(&mut scene.create(), 1);
    scene.run().expect("copies");
    journal::survey(&*scene.place()).expect("all of it is there");
    let path = scene.path("copy").join(journal::MANIFEST);
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("reads")).expect("JSON");
    let open = manifest["open"].as_array_mut().expect("a list");
    open.push(open[0].clone());
    fs::write(&path, manifest.to_string()).expect("writes");
    let error = journal::survey(&*scene.place()).expect_err("it is not").to_string();
    assert!(error.contains("the last backup was interrupted"), "{error}");
}

/// Two that copy at once would remove each other's chunks.
#[test]
fn one_copies_at_a_time() {
    let scene = Scene::new();
    drop(scene.create());
    let disk = RealDisk::open_beside(&scene.path("data")).expect("opens");
    let held = disk.copy_alone().expect("nobody copies");
    let other = RealDisk::open_beside(&scene.path("data")).expect("opens");
    assert!(matches!(other.copy_alone(), Err(DiskError::InUse(_))));
    drop(held);
    other.copy_alone().expect("nobody copies");
    drop(RealDisk::open(&scene.path("data")).expect("a copy keeps no owner away"));
}
