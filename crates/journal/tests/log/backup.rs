//! A backup is complete at any moment, and restores the same log.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use journal::contract::{IDENTITY, frame_after, noisy_frame_after};
use journal::{
    ArchiveError, Backup, BackupSummary, BlobError, BlobStore, Destination, ExtraFile,
    FetchedBackup, FileLog, LogOptions, LogWalk, MemoryDisk, ProgressObserver, RealDisk, Retention,
    TieredDisk,
};
use ledger::{LogIndex, Stamp};
use ports::{Disk, DiskError, DiskFile, Log, StopReading};
use record::frame::LogIdentity;
use tempfile::TempDir;

use crate::common::{STRICT, go};

const OPTIONS: LogOptions = LogOptions { segment_bytes: 300_000, ..STRICT };

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
        let disk = RealDisk::open_live(&self.path("data")).expect("opens");
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

    /// Restores the log of the backup and reads it.
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

/// A backup follows a growing log over several segments. After each run it restores the log.
#[test]
fn a_backup_follows_a_running_log() {
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
    // Segments archived in between are the same.
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

/// Incomplete frames are not copied.
#[test]
fn an_incomplete_frame_is_not_copied() {
    let scene = Scene::new();
    let mut log = scene.create();
    grow(&mut log, 3);
    let frame = frame_after(&log.tail(), &[5_000]);
    let name = scene.disk().list().expect("lists").remove(0);
    let file = scene.own_file(log, &name);
    let length = file.length().expect("has a length");
    file.write_at(length, &frame[..3_000]).expect("writes");
    assert_eq!(scene.run().expect("copies").end, LogIndex(3));
    assert_eq!(scene.restore("restored").expect("whole").tail.end, LogIndex(3));
    file.write_at(length, &frame).expect("writes");
    assert_eq!(scene.run().expect("copies").end, LogIndex(4));
}

impl Scene {
    /// A file of a log that is no longer used.
    fn own_file(&self, log: FileLog<TieredDisk<RealDisk>>, name: &str) -> impl DiskFile + use<> {
        drop(log);
        self.own().open(name).expect("opens")
    }
}

/// A segment that is truncated while it is copied ends the run. The backup remains complete as
/// before.
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
    let error = copied.expect_err("it ends").to_string();
    assert!(error.contains("00000000000000000001.segment") && error.contains("shorter"), "{error}");
    assert_eq!(scene.restore("restored").expect("whole").tail.end, before.end);
}

/// A run stopped after any number of steps leaves the backup of an earlier run, complete. The next
/// run and the next attempt to restore continue.
#[test]
fn interrupted_backups_and_restores_continue() {
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

/// A backup with a missing or damaged object is not restored, and the error names the reason.
#[test]
fn a_damaged_backup_is_refused_with_the_object() {
    let (scene, _log, [chunk, first, second, file]) = a_backup();
    let mut round = 0;
    let mut check = |path: &PathBuf, change: &dyn Fn(&mut Vec<u8>), named: &str| {
        let (good, bytes) = damage(path, change);
        round += 1;
        let error = scene.restore(&format!("restored {round}")).expect_err("refused").to_string();
        assert!(error.contains(named), "{error} does not name {named}");
        // The survey does not read the content of objects.
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
    scene.restore("restored").expect("everything was put back");
    let surveyed = journal::survey(&*scene.place()).expect("all of it is there");
    let last = scene.disk().segments().expect("lists").pop().expect("a last one").base;
    assert_eq!(
        (surveyed.end, surveyed.chain),
        (last.end, last.chain),
        "the end of the compressed segments"
    );
}

/// Changes the content of a file, or removes the file if nothing is left. Returns the content
/// before and after.
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

/// A backup of several segments, a chunk and another file, and their paths.
fn a_backup() -> (Scene, FileLog<TieredDisk<RealDisk>>, [PathBuf; 4]) {
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

/// The next run finds a missing or damaged object and writes it again. Damage within a compressed
/// segment is found only by reading all of it.
#[test]
fn damaged_objects_are_written_again() {
    let (scene, log, [chunk, first, second, file]) = a_backup();
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
    // Another segment of the log in its place is detected, but it is not damaged, so it is not
    // overwritten.
    fs::copy(&first, &second).expect("copies");
    let mut backup = Backup::open(&scene.disk(), scene.place()).expect("opens");
    assert_eq!(backup.damaged(), named(&second));
    let error = backup.run(&scene.disk(), &[], &mut go).expect_err("refused").to_string();
    assert!(error.contains("it holds a different segment"), "{error}");
}

/// A damaged object that was fetched is fetched again once it is repaired.
#[test]
fn a_restore_continues_after_the_backup_was_repaired() {
    let (scene, log, [_, _, second, _]) = a_backup();
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
    // A fetched segment that was damaged locally is not trusted either.
    let name = second.file_name().expect("a name");
    let here = scene.path("restored").join(name);
    let mut bytes = fs::read(&here).expect("reads");
    bytes[600] ^= 1;
    fs::write(&here, bytes).expect("writes");
    assert_eq!(scene.restore("restored").expect("whole").tail.chain, log.chain());
}

/// A backup accepts one log, and one history of it.
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
    // The original continues and is copied. The restored log has another history from there on.
    grow(&mut log, 1);
    scene.run().expect("copies");
    twin.append(&frame_after(&twin.tail(), &[77])).expect("appends");
    twin.sync().expect("syncs");
    let disk_of = |name: &str| {
        TieredDisk::open(RealDisk::open_live(&scene.path(name)).expect("opens")).expect("opens")
    };
    let error = Backup::open(&disk_of("twin"), scene.place()).err().expect("refused");
    assert!(matches!(error, ArchiveError::Forked { .. }), "{error}");

    let disk = RealDisk::open(&scene.path("other")).expect("opens");
    let other = LogIdentity(*b"another log    2");
    FileLog::create(TieredDisk::open(disk).expect("opens"), other, OPTIONS).expect("creates");
    let error = Backup::open(&disk_of("other"), scene.place()).err().expect("refused");
    assert!(matches!(error, ArchiveError::BlobStore(BlobError::OtherLog { .. })), "{error}");
}

/// A kept backup is reopened when another process has written to the same store.
#[test]
fn a_backup_continued_by_another_process_is_noticed() {
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

/// The counts of the first run match the stored objects.
#[test]
fn a_run_counts_the_objects_it_writes() {
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

/// A log that loses power after a backup has everything in the backup, even records without a sync.
#[test]
fn a_backup_is_never_ahead_of_its_log() {
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

/// A full chunk stays. Only the short last one is written again, with the new bytes.
#[test]
fn full_chunks_are_copied_once() {
    const CHUNK: u64 = 4 << 20;
    let scene = Scene::new();
    let long = LogOptions { segment_bytes: 64 << 20, ..OPTIONS };
    let mut log = FileLog::create(scene.own(), IDENTITY, long).expect("creates");
    let name = scene.disk().list().expect("lists").remove(0);
    let length = || fs::metadata(scene.path("data").join(&name)).expect("is there").len();
    let chunks = || fs::read_dir(scene.path("copy/open")).expect("lists").count() as u64;
    let mut backup = Backup::open(&scene.disk(), scene.place()).expect("opens");
    let mut run = || backup.run(&scene.disk(), &[], &mut go).expect("copies");
    let frame = |log: &FileLog<_>, bytes: u64| {
        let overhead = frame_after(&log.tail(), &[1_000]).len() - 1_000;
        frame_after(&log.tail(), &[bytes as usize - overhead])
    };
    // To the byte, twice: no short chunk is left that would be written again.
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

/// A compressed segment that is read in several pieces arrives unchanged.
#[test]
fn a_long_compressed_segment_is_restored() {
    let scene = Scene::new();
    let long = LogOptions { segment_bytes: 6 << 20, ..OPTIONS };
    let mut log = FileLog::create(scene.own(), IDENTITY, long).expect("creates");
    for _ in 0..7 {
        log.append(&noisy_frame_after(&log.tail(), &[1 << 20])).expect("appends");
    }
    log.sync().expect("syncs");
    assert_eq!(scene.run().expect("copies").segments, 1);
    assert_eq!(scene.restore("restored").expect("whole").tail.chain, log.chain());
}

/// A snapshot never changes under its name. Other files may have its length.
#[test]
fn snapshots_are_copied_once_each() {
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

/// A snapshot that is too long is skipped, because it can be made again. Any other such file is an
/// error.
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

/// A manifest that names a file that is never copied is rejected.
#[test]
fn a_manifest_may_name_only_files_that_are_copied() {
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

/// A run that was interrupted between two segments may leave both in chunks. The survey reports it.
#[test]
fn a_backup_with_two_segments_in_chunks_is_incomplete() {
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

/// Two concurrent runs would remove each other's chunks.
#[test]
fn only_one_process_copies_at_a_time() {
    let scene = Scene::new();
    drop(scene.create());
    let disk = RealDisk::open_live(&scene.path("data")).expect("opens");
    let held = disk.copy_alone().expect("no other process copies");
    let other = RealDisk::open_live(&scene.path("data")).expect("opens");
    assert!(matches!(other.copy_alone(), Err(DiskError::InUse(_))));
    drop(held);
    other.copy_alone().expect("no other process copies");
    drop(RealDisk::open(&scene.path("data")).expect("a copy keeps no owner away"));
}
