//! The order of the single writer: append before apply, and no synced record is lost.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use journal::{FileLog, MemoryDisk};
use ledger::{Command, FinishedDelivery, LogIndex, NoticeId, Outcome};
use ports::{ClockReading, Log};
use record::frame::FRAME_RECORDS_MAX;
use sequencer::{CommitError, Durability, Sequencer, Submission};

use crate::fixture::{self, SECOND, genesis};

type Subject = Sequencer<FileLog<MemoryDisk>>;

fn open(disk: &MemoryDisk) -> Subject {
    fixture::open(fixture::open_log(disk), fixture::at(SECOND))
}

fn now() -> ClockReading {
    fixture::at(SECOND + 1_000)
}

fn submission(command: Command, durability: Durability) -> Submission<u32> {
    Submission::without_payload(command, durability, 0).expect("it fits a record")
}

fn commit(subject: &mut Subject, commands: Vec<(Command, Durability)>) -> Result<(), CommitError> {
    let mut waiting: VecDeque<_> =
        commands.into_iter().map(|(command, how)| submission(command, how)).collect();
    let mut batch = Vec::new();
    while !waiting.is_empty() {
        subject.commit(&mut waiting, &mut batch, now())?;
        batch.clear();
    }
    Ok(())
}

fn tick(subject: &mut Subject) -> Result<(), CommitError> {
    commit(subject, vec![(Command::Tick, Durability::Synced)])
}

fn started(disk: &MemoryDisk) -> Subject {
    let mut subject = open(disk);
    commit(&mut subject, vec![(genesis(), Durability::Synced)]).expect("a new disk has room");
    subject
}

fn lazy() -> (Command, Durability) {
    let end = FinishedDelivery {
        notice: NoticeId(1),
        result: ledger::DeliveryResult::Delivered,
        attempts: 1,
        status: 200,
        finished_ms: 1,
    };
    (Command::FinishDeliveries(vec![end]), Durability::Lazy)
}

#[test]
fn a_committed_batch_is_durable_and_applied() {
    let disk = MemoryDisk::new(1);
    let subject = started(&disk);
    assert_eq!(subject.outcomes(), [Outcome::Accepted]);
    assert_eq!(subject.state().log_index(), LogIndex(1));
    assert_eq!(subject.log().durable_end(), LogIndex(1));
    let hash = subject.state().hash();
    drop(subject);
    assert_eq!(open(&disk.crash()).state().hash(), hash);
}

#[test]
fn a_lazy_record_waits_for_the_next_sync() {
    let disk = MemoryDisk::new(2);
    let mut subject = started(&disk);
    let before = subject.counts().syncs;
    commit(&mut subject, vec![lazy()]).expect("there is room");
    assert_eq!(subject.counts().syncs, before, "a lazy record causes no sync");
    assert_eq!(subject.state().log_index(), LogIndex(2), "but it is applied");
    assert_eq!(subject.log().durable_end(), LogIndex(1));
    tick(&mut subject).expect("there is room");
    assert_eq!(subject.log().durable_end(), LogIndex(3));
}

#[test]
fn more_than_a_frame_holds_becomes_several_batches_in_order() {
    let disk = MemoryDisk::new(3);
    let mut subject = started(&disk);
    let count = FRAME_RECORDS_MAX as usize + 10;
    let mut waiting: VecDeque<_> =
        (0..count).map(|_| submission(Command::Tick, Durability::Synced)).collect();
    let mut batch = Vec::new();
    let first = subject.commit(&mut waiting, &mut batch, now()).expect("there is room");
    assert_eq!((first.first, batch.len()), (LogIndex(2), FRAME_RECORDS_MAX as usize));
    batch.clear();
    let second = subject.commit(&mut waiting, &mut batch, now()).expect("there is room");
    assert_eq!(second.first, LogIndex(2 + u64::from(FRAME_RECORDS_MAX)));
    assert_eq!((batch.len(), waiting.len()), (10, 0));
}

#[test]
fn a_full_disk_refuses_and_changes_nothing_until_there_is_room() {
    let disk = MemoryDisk::new(4);
    let mut subject = started(&disk);
    let (hash, end) = (subject.state().hash(), subject.log().tail());
    disk.set_capacity(0);
    let refused = tick(&mut subject);
    assert!(matches!(refused, Err(CommitError::Full)), "{refused:?}");
    assert_eq!((subject.state().hash(), subject.log().tail().end), (hash, end.end));
    disk.set_capacity(u64::MAX);
    tick(&mut subject).expect("there is room again");
    let hash = subject.state().hash();
    drop(subject);
    assert_eq!(open(&disk.crash()).state().hash(), hash);
}

#[test]
fn a_failed_sync_stops_the_writer_before_anything_is_applied() {
    let disk = MemoryDisk::new(5);
    let mut subject = started(&disk);
    let hash = subject.state().hash();
    disk.fail_sync_at(disk.operations());
    for _ in 0..2 {
        let stopped = tick(&mut subject);
        assert!(matches!(stopped, Err(CommitError::Stopped(_))), "{stopped:?}");
        assert_eq!(subject.state().hash(), hash, "nothing on an unknown tail is applied");
    }
}

#[test]
fn each_start_of_a_node_has_a_new_epoch() {
    let disk = MemoryDisk::new(6);
    let subject = started(&disk);
    assert_eq!(subject.writer().epoch, 1);
    drop(subject);
    let mut second = open(&disk.crash());
    assert_eq!(second.writer().epoch, 2);
    tick(&mut second).expect("there is room");
    assert_eq!(second.outcomes(), [Outcome::Accepted], "a new epoch repeats nothing");
}

#[test]
fn batches_respect_the_record_limit() {
    for (limit, batches) in [(1, 7), (3, 3), (7, 1), (8_192, 1)] {
        let mut subject = started(&MemoryDisk::new(7));
        subject.limit_batches(NonZeroU32::new(limit).expect("it is above zero"));
        let before = subject.counts();
        let ticks = vec![(Command::Tick, Durability::Synced); 7];
        commit(&mut subject, ticks).expect("there is room");
        let counts = subject.counts();
        assert_eq!(counts.batches - before.batches, batches, "{limit}");
        assert_eq!(counts.syncs - before.syncs, batches, "{limit}");
        assert_eq!(counts.records - before.records, 7, "{limit}");
    }
}
