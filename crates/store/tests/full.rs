//! A store on a disk that fills up while it writes its journal, flushes or compacts.
//!
//! It reports the error and does not hang. Its visible rows are correct. With free space again it
//! continues from its mark, in the same process and after a restart.
//!
//! The disk is a small tmpfs, mounted for this test in its own namespace. If the system does not
//! permit that, the test prints a message and passes.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use ledger::LogIndex;
use ports::{ColdStore, StoreError};
use record::frame::LogIdentity;
use store::contract::{sample_id, sample_row, write_batch};
use store::{Disk, StoreOptions};

const NAME: &str = "store_survives_a_full_disk";
/// Environment variable with the path of the small disk, for the process that runs on it.
const PLACE: &str = "UPESI_SMALL_DISK";
const IDENTITY: LogIdentity = LogIdentity([3; 16]);
const ROWS: u32 = 1_700;
/// More batches than the disk has room for.
const TOO_MANY: u32 = 400;
/// Free MiB for the store: its journal only; some flushed write buffers; some compactions. After
/// the last one the disk is enlarged.
const ROOMS: [u64; 3] = [4, 20, 40];
const DISK: u64 = 44;
/// MiB of the disk after it was enlarged.
const LARGER: u64 = 88;

#[test]
fn store_survives_a_full_disk() {
    if let Some(place) = std::env::var_os(PLACE) {
        ROOMS.iter().for_each(|room| fill(&PathBuf::from(&place), *room));
        return;
    }
    if !Command::new("unshare").args(["-rm", "true"]).status().is_ok_and(|it| it.success()) {
        eprintln!("skipped: this system does not permit to mount a tmpfs");
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let mount = "mount -t tmpfs -o size=\"$1\" none \"$2\" && shift 2 && exec \"$@\"";
    let mut inside = Command::new("unshare");
    inside.args(["-rm", "sh", "-c", mount, "sh", &format!("{DISK}m")]).arg(place.path());
    inside.arg(std::env::current_exe().expect("this test has a file")).args(["--exact", NAME]);
    let output = inside.env(PLACE, place.path()).output().expect("it starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}{errors}");
}

/// Writes until the disk is full, frees space, and continues.
fn fill(place: &Path, room: u64) {
    let (path, ballast) = (place.join("store"), place.join("ballast"));
    let mut weight = File::create(&ballast).expect("the disk is empty");
    for _ in 0..DISK - room {
        weight.write_all(&[1; 1 << 20]).expect("there is room for that");
    }
    drop(weight);
    let store =
        Disk::begin(&path, IDENTITY, StoreOptions::default()).expect("there is room for it");
    let full = (1..TOO_MANY).find_map(|number| write(&store, number).err());
    assert!(matches!(full, Some(StoreError::Failed(_))), "{room} MiB: {full:?}");
    let mark = store.mark().log_index;
    assert!(LogIndex(0) < mark, "{room} MiB hold a batch");
    check(&store, mark);
    let mended = store.mend();
    assert!(matches!(mended, Err(StoreError::Failed(_))), "{room} MiB: {mended:?}");
    check(&store, mark);
    assert!(store.is_failing() && !store.is_damaged(), "{room} MiB: it is only full");
    fs::remove_file(&ballast).expect("it is there");
    resume(&store, (mark, room));
    let mark = store.mark().log_index;
    drop(store);
    if !has_room_for_a_flush(room) {
        enlarge(place);
    }

    let (store, reason) =
        Disk::open(&path, IDENTITY, StoreOptions::default()).expect("there is room");
    let kept = store.mark().log_index;
    // With a reason the store is empty; without one no visible row is missing.
    assert_eq!(kept < mark, reason.is_some(), "{room} MiB: {kept:?} of {mark:?}, {reason:?}");
    check(&store, kept);
    let next = kept.0 as u32 + 1;
    (next..next + 3).for_each(|number| write(&store, number).expect("there is room again"));
    check(&store, LogIndex(kept.0 + 3));
    drop(store);
    fs::remove_dir_all(&path).expect("it is there");
}

/// Whether there is enough free space once the ballast is gone.
fn has_room_for_a_flush(room: u64) -> bool {
    room <= DISK - 16
}

/// Gives the disk room for the flushes after a restart.
fn enlarge(place: &Path) {
    let options = format!("remount,size={LARGER}m");
    let mounted = Command::new("mount").args(["-o", &options]).arg(place).status();
    assert!(mounted.is_ok_and(|status| status.success()), "the disk is enlarged");
}

/// After space was freed, the same store accepts the refused batch, if there is enough space.
fn resume(store: &Disk, (mark, room): (LogIndex, u64)) {
    let mended = store.mend();
    if !has_room_for_a_flush(room) {
        assert!(matches!(mended, Err(StoreError::Failed(_))), "{room} MiB: {mended:?}");
        return;
    }
    assert_eq!(mended, Ok(()), "{room} MiB");
    assert_eq!(store.mark().log_index, mark, "{room} MiB");
    let next = mark.0 as u32 + 1;
    write(store, next).expect("there is room again");
    check(store, LogIndex(mark.0 + 1));
}

fn write(store: &Disk, number: u32) -> Result<(), StoreError> {
    let rows = (0..ROWS).map(|row| sample_row(scattered(number * ROWS + row), number.into()));
    store.write(&write_batch(rows.collect(), number.into()))
}

/// Random order, as with ids of real transfers, so that there is something to compact.
fn scattered(number: u32) -> u32 {
    number.wrapping_mul(2_654_435_761)
}

/// Checks one row of each batch up to the mark, and that a later one is absent.
fn check(store: &Disk, mark: LogIndex) {
    for number in 1..=mark.0 as u32 + 1 {
        let row = scattered(number * ROWS + number % ROWS);
        let expected = (u64::from(number) <= mark.0).then(|| sample_row(row, number.into()));
        let found = store.read(&sample_id(row), LogIndex(u64::MAX)).expect("it reads");
        assert_eq!(found, expected, "batch {number} of {}", mark.0);
    }
}
