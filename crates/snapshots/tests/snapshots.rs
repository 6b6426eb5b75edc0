//! Snapshots of a log on a failing disk. A snapshot that is used is valid and belongs to this log;
//! any other is reported.

use std::collections::VecDeque;

use journal::{DurableFrames, FileLog, LogOptions, MemoryDisk};
use ledger::{
    AccountKind, Administer, Change, ChangeParties, Command, CreateHubAccount, Currency, Digest,
    FspName, Genesis, LogIndex, Stamp,
};
use ports::{ClockReading, Disk, DiskError};
use record::frame::LogIdentity;
use sequencer::{Durability, Quarantine, ReplayStart, Sequencer, Submission};
use snapshots::{
    KEPT, NewestSnapshot, OfflineSource, Throttle, WriteError, WrittenSnapshot, find_newest, list,
    take_offline, unpaced,
};

type Subject = Sequencer<FileLog<MemoryDisk>>;

const IDENTITY: LogIdentity = LogIdentity([7; 16]);
/// So small that every few batches start a new one.
const OPTIONS: LogOptions = LogOptions {
    segment_bytes: 4_000,
    verify: journal::Verify::LastSegment,
    tail_policy: journal::TailPolicy::Refuse,
    room_bytes: 700,
};

#[test]
fn start_continues_from_the_newest_snapshot() {
    let disk = MemoryDisk::new(1);
    let (mut subject, frames) = begin(&disk, IDENTITY);
    for round in 0..4 {
        work(&mut subject, 10);
        let taken = taken(&disk, &frames).expect("something was written");
        assert_eq!(taken.file.log_index, subject.state().log_index());
        assert_eq!(taken.records, if round == 0 { 11 } else { 10 });
        assert!(taken.skipped.is_empty(), "{:?}", taken.skipped);
    }
    assert_eq!(taken(&disk, &frames), None, "nothing was written since");
    assert_eq!(list(&disk).expect("a list").len(), KEPT);
    work(&mut subject, 3);
    let hash = subject.state().hash();
    drop(subject);
    assert_eq!(reopened(&disk.kill()), (41, 3, hash));
}

/// Records before the start, records replayed, and the state's hash; which is that of a start
/// without snapshots too.
fn reopened(disk: &MemoryDisk) -> (u64, u64, Digest) {
    let (log, _) = FileLog::open(disk.clone(), OPTIONS).expect("a good log opens");
    let found: NewestSnapshot =
        find_newest(disk, &log.frames(), None, &mut unpaced).expect("the directory is read");
    let start = found.start.map(|start| start.state).unwrap_or_default();
    let before = start.log_index().0;
    let mut replayed = 0;
    let again = ReplayStart { state: start, quarantine: Quarantine::default(), cold_tier: None };
    let subject = Sequencer::open_from(log, again, (0, now()), &mut |_| replayed += 1);
    let hash = subject.map_err(|failed| failed.1).expect("a good log replays").state().hash();
    let (log, _) = FileLog::open(disk.clone(), OPTIONS).expect("a good log opens");
    let whole = Sequencer::open(log, 0, now(), &mut |_| {}).expect("a good log replays");
    assert_eq!(whole.state().hash(), hash, "from the start or from a snapshot");
    (before, replayed, hash)
}

#[test]
fn crash_at_any_operation_leaves_a_usable_snapshot() {
    let mut crashed = 0;
    for operation in 1.. {
        let disk = MemoryDisk::new(operation);
        let (mut subject, frames) = begin(&disk, IDENTITY);
        work(&mut subject, 5);
        taken(&disk, &frames).expect("the first");
        work(&mut subject, 5);
        taken(&disk, &frames).expect("the second");
        work(&mut subject, 5);
        let hash = subject.state().hash();
        disk.crash_at(disk.operations() + operation);
        let third = attempt(&disk, &frames, &mut unpaced);
        if third.is_ok() {
            break;
        }
        crashed += 1;
        let disk = disk.crash();
        let (before, _, again) = reopened(&disk);
        assert_eq!(again, hash);
        assert!(before == 11 || before == 16, "operation {operation}: {before}");
        // And the next attempt succeeds.
        let (log, _) = FileLog::open(disk.clone(), OPTIONS).expect("a good log opens");
        let next = attempt(&disk, &log.frames(), &mut unpaced);
        let next = next.expect("a sound disk").map(|taken| taken.file.log_index);
        assert_eq!(next, (before == 11).then_some(LogIndex(16)));
    }
    assert!(5 < crashed, "a snapshot takes some operations: {crashed}");
}

#[test]
fn full_disk_and_failed_sync_keep_older_snapshots() {
    let disk = MemoryDisk::new(3);
    let (mut subject, frames) = begin(&disk, IDENTITY);
    work(&mut subject, 5);
    taken(&disk, &frames).expect("the first");
    work(&mut subject, 5);
    let before = disk.list().expect("a list");
    disk.set_capacity(10);
    let full = attempt(&disk, &frames, &mut unpaced);
    assert!(matches!(full, Err(WriteError::Disk(DiskError::Full))), "{full:?}");
    assert_eq!(disk.list().expect("a list"), before);
    disk.set_capacity(u64::MAX);
    disk.fail_sync_at(disk.operations());
    let failed = attempt(&disk, &frames, &mut unpaced);
    assert!(matches!(failed, Err(WriteError::Disk(DiskError::Failed { .. }))), "{failed:?}");
    assert_eq!(disk.list().expect("a list"), before);
    taken(&disk, &frames).expect("the disk has recovered");
    work(&mut subject, 1);
    assert_eq!(reopened(&disk).0, 11);
}

#[test]
fn pace_stops_the_snapshot() {
    let disk = MemoryDisk::new(4);
    let (mut subject, frames) = begin(&disk, IDENTITY);
    work(&mut subject, 50);
    let before = disk.list().expect("a list");
    for breaths in 0..3 {
        let mut left = breaths;
        let mut pace = || {
            left -= 1;
            if left < 0 { Err(ports::StopReading) } else { Ok(()) }
        };
        let stopped = attempt(&disk, &frames, &mut pace);
        assert!(matches!(stopped, Err(WriteError::Stopped)), "{stopped:?}");
        assert_eq!(disk.list().expect("a list"), before);
    }
}

#[test]
fn unusable_snapshots_are_skipped_with_a_reason() {
    let disk = MemoryDisk::new(5);
    let (mut subject, frames) = begin(&disk, IDENTITY);
    work(&mut subject, 5);
    let older = taken(&disk, &frames).expect("the first").file.name;
    work(&mut subject, 5);
    let newer = taken(&disk, &frames).expect("the second").file.name;
    check_skipped(&disk, &frames, 11, &[]);

    disk.damage(&newer, 700, 1);
    check_skipped(&disk, &frames, 6, &["at byte"]);
    disk.damage(&older, 40, 1);
    check_skipped(&disk, &frames, 0, &["at byte", "at byte 0: the checksum of a block's rows"]);

    // Of a log with another identity, and of another life of this one.
    for (identity, expected) in
        [(LogIdentity([8; 16]), "it is of log 0808"), (IDENTITY, "it is of another history")]
    {
        let other = MemoryDisk::new(6);
        let (mut subject, frames) = begin_with(&other, identity, [4; 16]);
        work(&mut subject, 6);
        let strange = taken(&other, &frames).expect("a snapshot").file.name;
        disk.put(&strange, &other.content(&strange).expect("it was written"));
        disk.remove(&newer).ok();
        disk.remove(&older).ok();
        check_skipped(&disk, &self::frames(&disk), 0, &[expected]);
        disk.remove(&strange).expect("it is there");
    }

    // Of a record that this log never had, under its own name and under another.
    let (mut subject, frames) = reopen(&disk);
    work(&mut subject, 5);
    let far = taken(&disk, &frames).expect("a snapshot").file.name;
    let content = disk.content(&far).expect("it was written");
    let short = MemoryDisk::new(7);
    let (mut subject, frames) = begin(&short, IDENTITY);
    work(&mut subject, 1);
    short.put(&far, &content);
    short.put("00000000000000000002.snapshot", &content);
    let expected = ["and the log ends with record 2", "file name does not match its content"];
    check_skipped(&short, &frames, 0, &expected);
    let taken = taken(&short, &frames).expect("a good one");
    assert_eq!(taken.skipped.len(), 2);
    check_skipped(&short, &frames, 2, &[]);
}

#[test]
fn only_durable_frames_are_replayed() {
    let disk = MemoryDisk::new(8);
    let (mut subject, frames) = begin(&disk, IDENTITY);
    work(&mut subject, 30);
    let end = frames.end();
    assert_eq!(end, LogIndex(31));
    for from in 1..=32 {
        let mut seen = Vec::new();
        let visited = frames.replay(LogIndex(from), &mut |frame| {
            seen.push(frame.header().first.0);
            Ok(())
        });
        visited.expect("a good log is read");
        assert_eq!(seen, (from..=31).collect::<Vec<_>>());
    }
    for at in 1..=31 {
        let tail = frames.tail_at(LogIndex(at)).expect("a good log is read").expect("a frame");
        assert_eq!((tail.end.0, tail.identity), (at, IDENTITY));
    }
    assert_eq!(frames.tail_at(LogIndex(32)).expect("a good log is read"), None);
    assert_eq!(frames.tail_at(LogIndex(0)).expect("a good log is read"), None);
}

fn check_skipped(
    disk: &MemoryDisk,
    frames: &DurableFrames<MemoryDisk>,
    log_index: u64,
    expected: &[&str],
) {
    let found: NewestSnapshot =
        find_newest(disk, frames, None, &mut unpaced).expect("the directory is read");
    let start = found.start.map_or(0, |start| start.state.log_index().0);
    let skipped = &found.skipped;
    assert_eq!(start, log_index, "{skipped:?}");
    assert_eq!(skipped.len(), expected.len(), "{skipped:?}");
    for (line, expected) in skipped.iter().zip(expected) {
        assert!(line.contains(expected), "{line}");
    }
}

fn taken(disk: &MemoryDisk, frames: &DurableFrames<MemoryDisk>) -> Option<WrittenSnapshot> {
    attempt(disk, frames, &mut unpaced).expect("a sound disk")
}

fn attempt(
    disk: &MemoryDisk,
    frames: &DurableFrames<MemoryDisk>,
    pace: &mut Throttle<'_>,
) -> Result<Option<WrittenSnapshot>, WriteError> {
    take_offline(disk, (OfflineSource { frames, quarantine: &Quarantine::default() }, None), pace)
}

fn begin(disk: &MemoryDisk, identity: LogIdentity) -> (Subject, DurableFrames<MemoryDisk>) {
    begin_with(disk, identity, [3; 16])
}

fn begin_with(
    disk: &MemoryDisk,
    identity: LogIdentity,
    seed: [u8; 16],
) -> (Subject, DurableFrames<MemoryDisk>) {
    let log = FileLog::create(disk.clone(), identity, OPTIONS).expect("an empty disk");
    let frames = log.frames();
    let mut subject = Sequencer::open(log, 0, now(), &mut |_| {}).expect("an empty log replays");
    let hub = FspName::new("Hub").expect("a name");
    commit(&mut subject, Command::Genesis(Genesis { seed, hub }));
    (subject, frames)
}

fn reopen(disk: &MemoryDisk) -> (Subject, DurableFrames<MemoryDisk>) {
    let (log, _) = FileLog::open(disk.clone(), OPTIONS).expect("a good log opens");
    let frames = log.frames();
    (Sequencer::open(log, 0, now(), &mut |_| {}).expect("a good log replays"), frames)
}

fn frames(disk: &MemoryDisk) -> DurableFrames<MemoryDisk> {
    FileLog::open(disk.clone(), OPTIONS).expect("a good log opens").0.frames()
}

/// Commits this many batches of one record each.
fn work(subject: &mut Subject, records: usize) {
    for _ in 0..records {
        let number = subject.state().log_index().0;
        commit(subject, command(number));
    }
}

fn command(number: u64) -> Command {
    let code = [b'A' + (number / 26 % 26) as u8, b'A' + (number % 26) as u8, b'X'];
    let currency = std::str::from_utf8(&code).ok().and_then(Currency::parse);
    let name = FspName::new("Hub").expect("a name");
    if number.is_multiple_of(3) {
        let form = ledger::PartyChangeForm::Single;
        let parties = Vec::new();
        let trace = [1; 16];
        let change = ChangeParties { source: name, form, parties, trace, rule: None };
        return Command::ChangeParties(Box::new(change));
    }
    let kind = AccountKind::HubReconciliation;
    let currency = currency.expect("three letters");
    Command::Administer(Box::new(Administer {
        actor: "operator".into(),
        reason: "x".repeat(200),
        change: Change::CreateHubAccount(CreateHubAccount { currency, kind }),
    }))
}

fn commit(subject: &mut Subject, command: Command) {
    let submission = Submission::without_payload(command, Durability::Synced, ());
    let mut waiting = VecDeque::from([submission.expect("it fits a record")]);
    subject.commit(&mut waiting, &mut Vec::new(), now()).expect("a sound disk");
}

fn now() -> ClockReading {
    ClockReading { monotonic_us: 1, wall: Stamp(1_000_000) }
}
