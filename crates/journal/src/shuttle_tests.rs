//! Tests the log's writer and readers under different thread schedules.
//!
//! This is the production code with the locks and atomics of shuttle ([`crate::sync`]): its
//! scheduler chooses the next thread before each step. docs/internals/thread-handovers.md lists the
//! deliberate bug that the test caught.
//!
//! `cargo test -p journal --features shuttle --lib`

use ledger::LogIndex;
use ports::Log;
use shuttle::thread;

use crate::contract::{IDENTITY, frame_after};
use crate::{FileLog, LogOptions, MemoryDisk, TailPolicy, Verify};

/// Schedules of each kind that a test tries.
const ORDERS: usize = 1_000;
/// Number of preemptions of a runnable thread in one schedule.
const DEPTH: usize = 3;
/// Two frames per segment.
const OPTIONS: LogOptions = LogOptions {
    segment_bytes: 2_000,
    verify: Verify::Everything,
    tail_policy: TailPolicy::Refuse,
    room_bytes: 0,
};

/// Durable records are found, one by one and sequentially, while the log grows into new segments
/// and another thread closes old ones.
#[test]
fn what_is_durable_is_found_by_every_reader() {
    let test = || {
        let mut log = FileLog::create(MemoryDisk::new(7), IDENTITY, OPTIONS).expect("creates");
        let (reader, frames, closer) = (log.reader(), log.frames(), log.closer());
        let reading = thread::spawn(move || {
            for _ in 0..3 {
                let end = frames.end();
                for position in 1..=end.0 {
                    let found = reader.read(LogIndex(position)).expect("sound");
                    assert!(found.is_some(), "record {position} of {}", end.0);
                }
            }
        });
        let frames = log.frames();
        let walking = thread::spawn(move || {
            for _ in 0..2 {
                let (end, mut seen) = (frames.end(), 0);
                let walked = frames.replay(LogIndex(1), &mut |frame| {
                    seen = frame.header().last().0;
                    Ok(())
                });
                assert_eq!(walked, Ok(()));
                assert!(end.0 <= seen, "{seen} of {}", end.0);
            }
        });
        let closing = thread::spawn(move || (1..5).for_each(|first| closer(LogIndex(first))));
        for _ in 0..5 {
            log.append(&frame_after(&log.tail(), &[600])).expect("appends");
            log.sync().expect("syncs");
        }
        for thread in [reading, walking, closing] {
            thread.join().expect("it ends");
        }
    };
    shuttle::check_random(test, ORDERS);
    shuttle::check_pct(test, ORDERS, DEPTH);
}
