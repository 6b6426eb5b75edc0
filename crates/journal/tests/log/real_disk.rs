//! The real disk, beyond the contract of a log.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use journal::contract::IDENTITY;
use journal::{FileLog, LOCK_FILE, LogOptions, RealDisk};
use ledger::Stamp;
use ports::{Disk, DiskError, DiskFile, Log};
use record::frame::{BatchHeader, FrameBuilder, NewRecord};
use rustix::fs::{CWD, FileType, Mode};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("exists").permissions().mode() & 0o777
}

#[test]
fn the_directory_is_private_and_has_one_owner() {
    let above = tempfile::TempDir::new().expect("a temporary directory");
    let path = above.path().join("a/b");
    let disk = RealDisk::open(&path).expect("opens");
    assert_eq!(mode(&path), 0o700);
    disk.create("file").expect("creates");
    assert_eq!(mode(&path.join("file")), 0o600);
    assert_eq!(mode(&path.join(LOCK_FILE)), 0o600);

    let second = RealDisk::open(&path).expect_err("refused");
    let shown = path.display();
    let expected = format!(
        "data directory {shown} is in use by another process; stop that process or wait for it"
    );
    assert_eq!(second.to_string(), expected);
    let clone = disk.clone();
    drop(disk);
    assert!(RealDisk::open(&path).is_err(), "a clone still holds it");
    drop(clone);
    assert!(RealDisk::open(&path).is_ok());
}

#[test]
fn a_reader_changes_nothing_and_keeps_owners_out() {
    let above = tempfile::TempDir::new().expect("a temporary directory");
    let path = above.path().join("log");
    RealDisk::open_to_read(&path).expect_err("it is not made");
    let owner = RealDisk::open(&path).expect("opens");
    owner.create("file").and_then(|file| file.write_at(0, b"content")).expect("writes");
    let in_use = |error: DiskError| matches!(error, DiskError::InUse(_));
    assert!(RealDisk::open_to_read(&path).is_err_and(in_use));
    drop(owner);

    let reader = RealDisk::open_to_read(&path).expect("opens");
    let second = RealDisk::open_to_read(&path).expect("readers share");
    assert!(RealDisk::open(&path).is_err_and(in_use));
    let file = second.open("file").expect("opens");
    let mut read = [0; 7];
    assert_eq!((file.read_at(0, &mut read), &read), (Ok(7), b"content"));
    for changed in [
        file.write_at(0, b"other").err(),
        file.truncate(0).err(),
        reader.create("new").err(),
        reader.rename("file", "new").err(),
        reader.remove("file").err(),
    ] {
        assert!(matches!(changed, Some(DiskError::Failed { .. })), "{changed:?}");
    }
    drop((reader, second));
    assert_eq!(std::fs::read(path.join("file")).expect("reads"), b"content");
    std::fs::remove_file(path.join(LOCK_FILE)).expect("removes");
    RealDisk::open_to_read(&path).expect("a copy need not have the lock's file");
    assert!(!path.join(LOCK_FILE).exists());
}

#[test]
fn names_and_content_follow_the_contract() {
    let path = tempfile::TempDir::new().expect("a temporary directory");
    let disk = RealDisk::open(path.path()).expect("opens");
    let file = disk.create("one").expect("creates");
    assert_eq!(disk.create("one").err(), Some(DiskError::Exists("one".into())));
    assert_eq!(disk.open("two").err(), Some(DiskError::NotFound("two".into())));
    assert_eq!(disk.remove("two"), Err(DiskError::NotFound("two".into())));

    file.write_at(3, b"abc").expect("writes");
    file.sync().expect("syncs");
    let mut buffer = [9; 8];
    assert_eq!(file.read_at(1, &mut buffer), Ok(5));
    assert_eq!(buffer, [0, 0, b'a', b'b', b'c', 9, 9, 9]);
    assert_eq!(file.read_at(7, &mut buffer), Ok(0));
    file.truncate(4).expect("truncates");
    assert_eq!(file.length(), Ok(4));

    disk.create("two").expect("creates");
    disk.rename("one", "two").expect("renames over another");
    assert_eq!(disk.list(), Ok(vec!["two".to_owned()]));
    disk.sync_directory().expect("syncs");
    assert_eq!(file.length(), Ok(4), "an open file outlives its name");
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let path = tempfile::TempDir::new().expect("a temporary directory");
    let disk = RealDisk::open(path.path()).expect("opens");
    std::os::unix::fs::symlink("/etc/hostname", path.path().join("link")).expect("links");
    let reader = RealDisk::open_live(path.path()).expect("opens");
    for name in ["", ".", "..", "a/b", "../x", "a\0b", LOCK_FILE, "link"] {
        for opened in [disk.open(name), reader.open(name)] {
            assert!(matches!(opened, Err(DiskError::Failed { .. })), "{name:?}");
        }
    }
}

/// A writer to the directory cannot make another file be locked or created.
#[test]
fn a_lock_that_leads_elsewhere_is_refused() {
    let path = tempfile::TempDir::new().expect("a temporary directory");
    let elsewhere = path.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, path.path().join(LOCK_FILE)).expect("links");
    for there in [false, true] {
        for opened in [RealDisk::open(path.path()), RealDisk::open_to_read(path.path())] {
            assert!(matches!(opened, Err(DiskError::Failed { .. })), "{there}: {opened:?}");
        }
        assert_eq!(elsewhere.exists(), there);
        std::fs::write(&elsewhere, "").expect("writes");
    }
}

/// Refusals by the system are reported: files and directories that cannot be synced.
#[test]
fn failed_syncs_and_reads_are_reported() {
    let path = tempfile::TempDir::new().expect("a temporary directory");
    let disk = RealDisk::open(path.path()).expect("opens");
    rustix::fs::mknodat(CWD, path.path().join("pipe"), FileType::Fifo, Mode::RWXU, 0)
        .expect("makes a pipe");
    let pipe = disk.open("pipe").expect("opens");
    for refused in [pipe.sync(), pipe.truncate(0), pipe.read_at(1, &mut [0; 4]).map(|_| ())] {
        assert!(matches!(refused, Err(DiskError::Failed { .. })), "{refused:?}");
    }
    let system = RealDisk::open_live(Path::new("/proc/self")).expect("opens");
    assert!(matches!(system.sync_directory(), Err(DiskError::Failed { .. })));
    let file = path.path().join("file");
    std::fs::write(&file, "").expect("writes");
    assert!(RealDisk::open_live(&file).is_err(), "no directory");
}

/// A log may have more segments than a process may open files.
#[test]
fn few_of_many_segments_are_open() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let disk = RealDisk::open(directory.path()).expect("opens");
    let options = LogOptions { segment_bytes: 1, ..LogOptions::default() };
    let mut log = FileLog::create(disk.clone(), IDENTITY, options).expect("creates");
    for _ in 0..SEGMENTS {
        let mut builder = FrameBuilder::new();
        let new = NewRecord { kind: 1, version: 1, fields: b"fields", payload: None };
        builder.push(&new.encode().expect("short")).expect("short");
        let tail = log.tail();
        let header = BatchHeader { stamp: Stamp(tail.stamp.0 + 1), ..BatchHeader::default() };
        log.append(builder.seal(&tail, &header).bytes).expect("appends");
    }
    log.sync().expect("syncs");
    drop(log);
    let open = || {
        let files = std::fs::read_dir("/proc/self/fd").expect("Linux");
        let names = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        names.filter(|name| name.starts_with(directory.path())).count()
    };
    let mut most = 0;
    let walked = journal::walk(&disk, &mut |_| {
        most = most.max(open());
        Ok(())
    });
    assert_eq!(walked.map(|walked| walked.segments), Ok(SEGMENTS));
    // The directory, its lock, the last two segments and the one that is read.
    assert!(most <= 5, "{most}");
    let options = LogOptions { verify: journal::Verify::Everything, ..options };
    let (_log, recovery) = FileLog::open(disk, options).expect("opens");
    assert_eq!(recovery.segments, SEGMENTS);
    assert!(open() <= 5, "{}", open());
}

const SEGMENTS: usize = 60;
