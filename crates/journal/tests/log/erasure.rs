//! Payloads are erased from closed segments of every form, whatever a crash interrupts.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use journal::contract::{IDENTITY, frame_after};
use journal::{
    ArchiveError, Backup, BlobStore, Destination, ERASURE_PROGRESS, ErasureOrder, ErasureProgress,
    FileLog, LogOptions, LogWalk, MemoryDisk, OrderedErasures, PendingSegment, RealDisk, Retention,
    Tier, TieredDisk,
};
use ledger::{Erase, ErasureForm, LogIndex, RecordRange, Stamp};
use ports::{Disk, Log, OwnedPayload};
use record::frame::Record;
use tempfile::TempDir;

use crate::common::{STRICT, go};

const OPTIONS: LogOptions = LogOptions { segment_bytes: 12_000, room_bytes: 700, ..STRICT };
const ALL: Retention = Retention { keep_segments: 0, closed_by: Stamp(u64::MAX) };
/// The order that the tests carry out.
const ORDER: LogIndex = LogIndex(1_000);

/// Every third record is erased.
fn is_selected(log_index: LogIndex) -> bool {
    log_index.0.is_multiple_of(3)
}

fn write_log<D: Disk>(disk: D) {
    let mut log = FileLog::create(disk, IDENTITY, OPTIONS).expect("creates");
    for batch in 0..24 {
        log.append(&frame_after(&log.tail(), &[600, 90 + batch, 1_200])).expect("appends");
    }
    log.close().expect("syncs");
}

fn walk<D: Disk>(disk: &D) -> LogWalk {
    journal::walk(disk, &mut |_| Ok(())).expect("the log is sound")
}

/// The closed segments, each with the end of the log after it.
fn closed<D: Disk>(log: &TieredDisk<D>) -> Vec<PendingSegment> {
    let segments = log.segments().expect("lists");
    let pairs = segments.iter().zip(segments.iter().skip(1));
    pairs.map(|(it, next)| PendingSegment { segment: it.clone(), after: next.base }).collect()
}

/// Carries out the order where it is not carried out, as the background job does.
fn erase_all<D: Disk>(log: &TieredDisk<D>) -> Result<u64, ArchiveError> {
    let mut progress = ErasureProgress::load(log.below())?;
    let mut erased = 0;
    for due in closed(log) {
        if progress.through(&due.segment) < ORDER {
            let mut select = |record: &Record<'_>| is_selected(record.log_index);
            let done = journal::erase_segment(log, &due, (&mut select, &|_| ()), &mut go)?;
            progress.note(&done, ORDER);
            progress.store(log.below())?;
            erased += done.erased;
        }
    }
    Ok(erased)
}

/// Reads every record: exactly the selected ones of closed segments have lost their payloads.
#[track_caller]
fn check_records<D: Disk>(disk: TieredDisk<D>) {
    let open = disk.segments().expect("lists").last().expect("one").first;
    let (log, _) = FileLog::open(disk, OPTIONS).expect("opens");
    let reader = log.reader();
    for log_index in (1..=log.tail().end.0).map(LogIndex) {
        let record = reader.read(log_index).expect("reads").expect("exists");
        let is_erased = record.payload == OwnedPayload::Erased;
        assert_eq!(is_erased, is_selected(log_index) && log_index < open, "{log_index:?}");
    }
}

/// How the closed segments are stored.
#[derive(Clone, Copy, Debug)]
enum Form {
    Plain,
    Compressed,
    Archived,
}

/// An archive in a directory.
struct Archive {
    directory: TempDir,
    store: Arc<dyn BlobStore>,
}

impl Archive {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("file://{}", directory.path().display());
        let store = journal::open_blob_store(&url).expect("a store");
        Self { directory, store }
    }

    fn objects(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory.path().join("segments"));
        let mut paths: Vec<_> = entries
            .map(|all| all.map(|it| it.expect("an entry").path()).collect())
            .unwrap_or_default();
        paths.sort();
        paths
    }

    fn take<D: Disk>(&self, log: &TieredDisk<D>, form: Form) {
        let destination = match form {
            Form::Plain => return,
            Form::Compressed => Destination::InPlace,
            Form::Archived => {
                journal::claim_for(log, &*self.store).expect("claims");
                Destination::BlobStore(&*self.store)
            }
        };
        for due in journal::due(log, &ALL, destination).expect("lists") {
            journal::archive_segment(log, &due, destination, &mut go).expect("archives");
        }
    }
}

#[test]
fn selected_payloads_are_erased_from_every_form() {
    for form in [Form::Plain, Form::Compressed, Form::Archived] {
        let (disk, archive) = (MemoryDisk::new(7), Archive::new());
        write_log(disk.clone());
        let before = walk(&disk);
        let log = TieredDisk::open(disk.clone()).expect("opens");
        archive.take(&log, form);
        let forms = |log: &TieredDisk<MemoryDisk>| -> Vec<Tier> {
            log.segments().expect("lists").into_iter().map(|it| it.tier).collect()
        };
        let (tiers, names) = (forms(&log), disk.list().expect("lists"));
        assert!(0 < erase_all(&log).expect("erases"), "{form:?}");
        assert_eq!(erase_all(&log), Ok(0), "{form:?}: nothing is left");
        assert_eq!(forms(&log), tiers, "{form:?}: each segment keeps its form");
        let reopened = TieredDisk::open(disk.clone()).expect("opens");
        let after = walk(&reopened);
        assert_eq!((after.tail, after.frames), (before.tail, before.frames), "{form:?}");
        assert!(after.bytes < before.bytes, "{form:?}");
        check_records(reopened);
        let mut names_after = disk.list().expect("lists");
        names_after.retain(|name| name != ERASURE_PROGRESS);
        assert_eq!(names_after, names, "{form:?}: no file is left behind");
    }
}

/// An object from before an erasure that was put back is recognised, and replaced by an archiver.
#[test]
fn an_old_object_that_is_put_back_is_named() {
    let (disk, archive) = (MemoryDisk::new(7), Archive::new());
    write_log(disk.clone());
    let log = TieredDisk::open(disk.copy(1)).expect("opens");
    archive.take(&log, Form::Archived);
    let object = archive.objects()[0].clone();
    let old = fs::read(&object).expect("reads");
    erase_all(&log).expect("erases");
    let erased = fs::read(&object).expect("reads");
    fs::write(&object, &old).expect("puts it back");
    let reopened = TieredDisk::open(log.below().clone()).expect("opens");
    let error = journal::walk(&reopened, &mut |_| Ok(())).expect_err("refused").to_string();
    assert!(error.contains("it is from before an erasure, and not the one in"), "{error}");
    fs::write(&object, &erased).expect("puts the newer one back");
    walk(&TieredDisk::open(log.below().clone()).expect("opens"));

    // The same log on another disk, which has not erased anything yet.
    let log = TieredDisk::open(disk).expect("opens");
    let due = journal::due(&log, &ALL, Destination::BlobStore(&*archive.store)).expect("lists");
    let take = || {
        let destination = Destination::BlobStore(&*archive.store);
        journal::archive_segment(&log, &due[0], destination, &mut go)
    };
    let error = take().expect_err("refused").to_string();
    assert!(error.contains("it is from after an erasure"), "{error}");
    fs::write(&object, &old).expect("puts it back");
    erase_all(&log).expect("erases");
    let due = journal::due(&log, &ALL, Destination::BlobStore(&*archive.store)).expect("lists");
    let destination = Destination::BlobStore(&*archive.store);
    journal::archive_segment(&log, &due[0], destination, &mut go).expect("replaces it");
    check_records(TieredDisk::open(log.below().clone()).expect("opens"));
}

#[test]
fn an_erasure_resumes_after_a_crash_at_any_operation() {
    for form in [Form::Plain, Form::Compressed, Form::Archived] {
        let mut operation = 0;
        loop {
            operation += 1;
            let (disk, archive) = (MemoryDisk::new(31 * operation), Archive::new());
            write_log(disk.clone());
            let before = walk(&disk);
            let log = TieredDisk::open(disk.clone()).expect("opens");
            archive.take(&log, form);
            disk.crash_at(disk.operations() + operation);
            if erase_all(&log).is_ok() && !disk.is_down() {
                break;
            }
            let disk = disk.crash();
            let log = TieredDisk::open(disk.clone()).expect("the index is sound");
            let crashed = walk(&log);
            let place = (form, operation);
            assert_eq!((crashed.tail, crashed.frames), (before.tail, before.frames), "{place:?}");
            erase_all(&log).expect("resumes");
            check_records(TieredDisk::open(disk.clone()).expect("opens"));
            let names = disk.list().expect("lists");
            assert!(!names.iter().any(|name| name.ends_with(".unfinished")), "{names:?}");
            let is_double = |name: &String| {
                let other = name.replace(".segment", ".packed");
                name.ends_with(".segment") && names.contains(&other)
            };
            assert!(!names.iter().any(is_double), "{place:?}: {names:?}");
        }
        assert!(30 < operation, "{form:?}: {operation} operations were interrupted");
    }
}

/// A later order whose contents are still needed takes nothing back from an earlier one.
#[test]
fn an_order_that_is_carried_out_stays_so_while_a_later_one_waits() {
    let disk = MemoryDisk::new(5);
    write_log(disk.clone());
    let log = TieredDisk::open(disk).expect("opens");
    let mut orders = OrderedErasures::default();
    let order = |record: u64, first: u64| ErasureOrder {
        record: LogIndex(record),
        erase: Erase {
            form: ErasureForm::Transfer,
            subject: String::new(),
            records: vec![RecordRange { first: LogIndex(first), last: LogIndex(first) }],
            contents: 1,
        },
    };
    let run = |orders: &mut OrderedErasures, needed: &[u64]| -> Vec<(u64, u64)> {
        let mut progress = ErasureProgress::load(log.below()).expect("loads");
        let needed = needed.iter().map(|at| LogIndex(*at)).collect();
        let segments = log.segments().expect("lists");
        for due in orders.due(&segments, &progress) {
            let moved: &dyn Fn(LogIndex) = &|_| ();
            let watch = (moved, &mut go as &mut journal::ProgressObserver<'_>);
            orders.erase(&log, (&due, &needed), &mut progress, watch).expect("erases");
        }
        let segments = log.segments().expect("lists");
        let left = orders.remaining(&segments, &progress);
        left.values().map(|it| (it.segments, it.waiting)).collect()
    };
    orders.push(order(1_000, 1));
    assert_eq!(run(&mut orders, &[]), [(0, 0)]);
    orders.push(order(1_001, 2));
    orders.push(order(1_002, 3));
    assert_eq!(run(&mut orders, &[1, 2]), [(0, 0), (1, 1), (1, 0)]);
    assert_eq!(run(&mut orders, &[]), [(0, 0), (0, 0), (0, 0)]);
}

#[test]
fn readers_of_an_open_log_follow_a_rewritten_segment() {
    let disk = MemoryDisk::new(5);
    write_log(disk.clone());
    let tiered = TieredDisk::open(disk).expect("opens");
    let (log, _) = FileLog::open(tiered.clone(), OPTIONS).expect("opens");
    let (reader, closer, frames) = (log.reader(), log.closer(), log.frames());
    let read = |at| reader.read(LogIndex(at)).expect("reads").expect("exists").payload;
    // The reader knows offsets of the old file.
    assert!((1..=20).all(|at| matches!(read(at), OwnedPayload::Stored(_))));
    for due in closed(&tiered) {
        let mut select = |record: &Record<'_>| is_selected(record.log_index);
        journal::erase_segment(&tiered, &due, (&mut select, &|first| closer(first)), &mut go)
            .expect("erases");
    }
    for at in 1..=20 {
        assert_eq!(read(at) == OwnedPayload::Erased, is_selected(LogIndex(at)), "{at}");
    }
    let mut seen = 0;
    let counted = frames.replay(LogIndex(2), &mut |frame| {
        seen += u64::from(frame.header().count);
        Ok(())
    });
    counted.expect("follows");
    assert_eq!(seen, log.tail().end.0);
}

#[test]
fn a_requested_rotation_closes_the_segment_with_the_next_frame() {
    let disk = MemoryDisk::new(5);
    write_log(disk.clone());
    let (mut log, _) = FileLog::open(disk.clone(), OPTIONS).expect("opens");
    let count = || disk.list().expect("lists").len();
    let (before, rotate) = (count(), log.rotator());
    rotate();
    assert_eq!(count(), before, "nothing was appended");
    log.append(&frame_after(&log.tail(), &[10])).expect("appends");
    log.append(&frame_after(&log.tail(), &[10])).expect("appends");
    log.sync().expect("syncs");
    assert_eq!(count(), before + 1, "it is closed once");
    walk(&disk);
}

#[test]
fn an_old_segment_that_is_put_back_is_erased_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = RealDisk::open(directory.path()).expect("opens");
    write_log(disk.clone());
    let log = TieredDisk::open(disk).expect("opens");
    let first = directory.path().join("00000000000000000001.segment");
    let old = fs::read(&first).expect("reads");
    erase_all(&log).expect("erases");
    assert_ne!(fs::read(&first).expect("reads"), old);
    fs::write(&first, &old).expect("puts it back");
    assert!(0 < erase_all(&log).expect("erases"), "it is longer than the rewritten one");
    assert_ne!(fs::read(&first).expect("reads"), old);
    check_records(log);
}

#[test]
fn backups_follow_an_erasure() {
    let directory = tempfile::tempdir().expect("a directory");
    let (disk, archive) = (RealDisk::open(directory.path()).expect("opens"), Archive::new());
    write_log(disk.clone());
    let log = TieredDisk::open(disk).expect("opens");
    let copy = |backup: &mut Backup| backup.run(&log, &[], &mut go).expect("copies");
    let mut backup = Backup::open(&log, Arc::clone(&archive.store)).expect("opens");
    copy(&mut backup);
    let old: Vec<_> = archive.objects().iter().map(|it| fs::read(it).expect("reads")).collect();
    assert!(1 < old.len());
    erase_all(&log).expect("erases");
    let copied = copy(&mut backup);
    assert_eq!(copied.segments, old.len());
    for (path, old) in archive.objects().iter().zip(&old) {
        assert_ne!(&fs::read(path).expect("reads"), old, "{path:?}");
    }
    assert_eq!(copy(&mut backup).segments, 0, "once");
    let mut reopened = Backup::open(&log, Arc::clone(&archive.store)).expect("opens");
    reopened.check(&mut go).expect("reads all");
    assert!(reopened.damaged().is_empty(), "{:?}", reopened.damaged());
    assert_eq!(copy(&mut reopened).segments, 0);
    let restored = tempfile::tempdir().expect("a directory");
    let target = RealDisk::open(restored.path()).expect("opens");
    journal::fetch(&*archive.store, &target, &mut go).expect("restores");
    let target = TieredDisk::open(target).expect("opens");
    assert_eq!(walk(&target).tail, walk(&log).tail);
    check_records(target);
}

/// The chunks of a segment in a backup hold contents that were erased after its end.
#[test]
fn a_backup_of_an_open_segment_follows_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let (disk, archive) = (RealDisk::open(directory.path()).expect("opens"), Archive::new());
    write_log(disk.clone());
    let log = TieredDisk::open(disk).expect("opens");
    let open = |log: &TieredDisk<RealDisk>| Backup::open(log, Arc::clone(&archive.store));
    let mut backup = open(&log).expect("opens");
    backup.run(&log, &[], &mut go).expect("copies");
    let (mut file, _) = FileLog::open(log.clone(), OPTIONS).expect("opens");
    file.rotator()();
    file.append(&frame_after(&file.tail(), &[40])).expect("appends");
    file.close().expect("syncs");
    drop(file);
    erase_all(&log).expect("erases");
    backup.run(&log, &[], &mut go).expect("the run continues");
    open(&log).expect("a new run begins").run(&log, &[], &mut go).expect("copies");
    let restored = tempfile::tempdir().expect("a directory");
    let target = RealDisk::open(restored.path()).expect("opens");
    journal::fetch(&*archive.store, &target, &mut go).expect("restores");
    check_records(TieredDisk::open(target).expect("opens"));
}

#[test]
fn an_invalid_progress_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = RealDisk::open(directory.path()).expect("opens");
    let file = directory.path().join(ERASURE_PROGRESS);
    let of_version = |version: u32| {
        let segments = r#"[{"first":1,"bytes":2,"through":3}]"#;
        let text = format!(r#"{{"version":{version},"segments":{segments}}}"#);
        fs::write(&file, text).expect("writes");
        ErasureProgress::load(&disk)
    };
    assert_eq!(of_version(1), Ok(ErasureProgress::default()), "every segment is read again");
    assert!(of_version(2).expect("reads").has(LogIndex(1)));
    assert!(of_version(3).is_err());
    fs::write(&file, "{}").expect("writes");
    let error = ErasureProgress::load(&disk).expect_err("refused").to_string();
    assert!(error.contains("remove the file"), "{error}");
}
