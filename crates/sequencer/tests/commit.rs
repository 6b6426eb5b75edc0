//! The order of the single writer: nothing is applied before it is in the log, nothing synced is
//! lost, and a log that was not decided by these rules is not taken for one that was.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use journal::{FileLog, MemoryDisk, Options};
use ledger::{Command, FinishedDelivery, FspName, Genesis, NoticeId, Outcome, Position, Stamp};
use ports::{Log, Now};
use record::frame::{FRAME_RECORDS_MAX, LogIdentity};
use sequencer::{CommitError, Durability, ReplayError, Sequencer, Submission, replay};

type Subject = Sequencer<FileLog<MemoryDisk>>;

fn open(disk: &MemoryDisk) -> Subject {
    let options = Options { room_bytes: 0, ..Options::default() };
    let opened = FileLog::open_or_create(disk.clone(), LogIdentity([7; 16]), options);
    let (log, _) = opened.expect("a log in a state that a crash can leave opens");
    Sequencer::open(log, 0, now(0), &mut |_| ()).expect("a good log replays")
}

fn now(millis: u64) -> Now {
    Now { monotonic_us: millis * 1_000, wall: Stamp(1_000_000 + millis * 1_000) }
}

fn genesis() -> Command {
    Command::Genesis(Genesis { seed: [1; 16], hub: FspName::new("Hub").expect("a name") })
}

fn submission(command: Command, durability: Durability) -> Submission<u32> {
    Submission::without_payload(command, durability, 0).expect("it fits a record")
}

fn commit(subject: &mut Subject, commands: Vec<(Command, Durability)>) -> Result<(), CommitError> {
    let mut waiting: VecDeque<_> =
        commands.into_iter().map(|(command, how)| submission(command, how)).collect();
    let mut batch = Vec::new();
    while !waiting.is_empty() {
        subject.commit(&mut waiting, &mut batch, now(1))?;
        batch.clear();
    }
    Ok(())
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
    assert_eq!(subject.state().position(), Position(1));
    assert_eq!(subject.log().durable_end(), Position(1));
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
    assert_eq!(subject.state().position(), Position(2), "but it is applied");
    assert_eq!(subject.log().durable_end(), Position(1));
    commit(&mut subject, vec![(Command::Tick, Durability::Synced)]).expect("there is room");
    assert_eq!(subject.log().durable_end(), Position(3));
}

#[test]
fn more_than_a_frame_holds_becomes_several_batches_in_order() {
    let disk = MemoryDisk::new(3);
    let mut subject = started(&disk);
    let count = FRAME_RECORDS_MAX as usize + 10;
    let mut waiting: VecDeque<_> =
        (0..count).map(|_| submission(Command::Tick, Durability::Synced)).collect();
    let mut batch = Vec::new();
    let first = subject.commit(&mut waiting, &mut batch, now(1)).expect("there is room");
    assert_eq!((first.first, batch.len()), (Position(2), FRAME_RECORDS_MAX as usize));
    batch.clear();
    let second = subject.commit(&mut waiting, &mut batch, now(1)).expect("there is room");
    assert_eq!(second.first, Position(2 + u64::from(FRAME_RECORDS_MAX)));
    assert_eq!((batch.len(), waiting.len()), (10, 0));
}

#[test]
fn a_full_disk_refuses_and_changes_nothing_until_there_is_room() {
    let disk = MemoryDisk::new(4);
    let mut subject = started(&disk);
    let (hash, end) = (subject.state().hash(), subject.log().tail());
    disk.set_capacity(0);
    let refused = commit(&mut subject, vec![(Command::Tick, Durability::Synced)]);
    assert!(matches!(refused, Err(CommitError::Full)), "{refused:?}");
    assert_eq!((subject.state().hash(), subject.log().tail().end), (hash, end.end));
    disk.set_capacity(u64::MAX);
    commit(&mut subject, vec![(Command::Tick, Durability::Synced)]).expect("there is room again");
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
        let stopped = commit(&mut subject, vec![(Command::Tick, Durability::Synced)]);
        assert!(matches!(stopped, Err(CommitError::Stopped(_))), "{stopped:?}");
        assert_eq!(subject.state().hash(), hash, "nothing on an unknown tail is applied");
    }
}

#[test]
fn each_life_of_a_node_has_a_new_epoch() {
    let disk = MemoryDisk::new(6);
    let subject = started(&disk);
    assert_eq!(subject.writer().epoch, 1);
    drop(subject);
    let mut second = open(&disk.crash());
    assert_eq!(second.writer().epoch, 2);
    commit(&mut second, vec![(Command::Tick, Durability::Synced)]).expect("there is room");
    assert_eq!(second.outcomes(), [Outcome::Accepted], "a new life repeats nothing");
}

#[test]
fn a_batch_takes_no_more_than_it_may() {
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

#[test]
fn a_replay_that_decides_otherwise_says_where() {
    let disk = MemoryDisk::new(7);
    let mut subject = started(&disk);
    commit(&mut subject, vec![(Command::Tick, Durability::Synced)]).expect("there is room");
    commit(&mut subject, vec![(Command::Tick, Durability::Synced)]).expect("there is room");
    drop(subject);
    let options = Options::default();
    let (mut log, _) = FileLog::open(disk.crash(), options).expect("a good log opens");
    // The same log, read by rules that see its second record as something else.
    let mut other = Tampered { log: &mut log };
    let error = replay(&mut other, &mut |_| ()).expect_err("another outcome");
    assert!(
        matches!(error, ReplayError::Diverged { position: Position(2) }),
        "the batch that ends at record 2 differs: {error}"
    );
}

/// Shows the log's second frame with another epoch, so that its record counts as another one.
struct Tampered<'a> {
    log: &'a mut FileLog<MemoryDisk>,
}

impl Log for Tampered<'_> {
    fn tail(&self) -> record::frame::Tail {
        self.log.tail()
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), ports::LogError> {
        self.log.append(frame)
    }

    fn sync(&mut self) -> Result<(), ports::LogError> {
        self.log.sync()
    }

    fn replay(
        &mut self,
        from: Position,
        visit: &mut ports::Visitor<'_>,
    ) -> Result<(), ports::LogError> {
        let mut frames: Vec<Vec<u8>> = Vec::new();
        self.log.replay(from, &mut |frame| {
            frames.push(frame.as_bytes().to_vec());
            Ok(())
        })?;
        for (at, bytes) in frames.iter().enumerate() {
            let frame = record::frame::Frame::parse(bytes).expect("it was just read");
            let changed = if at == 1 { another(&frame) } else { bytes.clone() };
            let frame = record::frame::Frame::parse(&changed).expect("it was just sealed");
            if visit(&frame).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn reader(&self) -> std::sync::Arc<dyn ports::RecordReader> {
        self.log.reader()
    }
}

/// The frame as a repeat of what came before: sealed anew with a sequence number already used.
fn another(frame: &record::frame::Frame<'_>) -> Vec<u8> {
    let header = frame.header();
    let tail = record::frame::Tail {
        identity: header.identity,
        end: Position(header.first.0 - 1),
        durable: header.durable,
        stamp: Stamp(0),
        chain: ledger::Digest::default(),
    };
    let mut builder = record::frame::FrameBuilder::new();
    let tick = submission(Command::Tick, Durability::Synced);
    builder.push(&tick.record).expect("an empty frame has room");
    let batch = record::frame::BatchHeader { sequence: 1, ..header.batch };
    builder.seal(&tail, &batch).bytes.to_vec()
}
