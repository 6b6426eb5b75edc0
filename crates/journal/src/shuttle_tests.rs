//! The log's writer and its readers, in one order of steps after the other.
//!
//! The production code, whose locks and atomics are those of shuttle here ([`crate::sync`]): a
//! scheduler of its own decides before each of their steps who goes on. Which deliberate break the
//! test caught stands in docs/internals/handovers.md.
//!
//! `cargo test -p journal --features shuttle --lib`

use ledger::Position;
use ports::Log;
use shuttle::thread;

use crate::contract::{IDENTITY, frame_after};
use crate::{FileLog, MemoryDisk, Options, TailPolicy, Verify};

/// Orders of each kind that a test tries.
const ORDERS: usize = 1_000;
/// Points at which a thread is passed over although it could go on, in the orders of one kind.
const DEPTH: usize = 3;
/// Two frames to a segment.
const OPTIONS: Options = Options {
    segment_bytes: 2_000,
    verify: Verify::Everything,
    tail_policy: TailPolicy::Refuse,
    room_bytes: 0,
};

/// What is durable is found, one by one and in a row, while the log grows into new segments and
/// somebody closes old ones.
#[test]
fn what_is_durable_is_found_by_every_reader() {
    let test = || {
        let mut log = FileLog::create(MemoryDisk::new(7), IDENTITY, OPTIONS).expect("creates");
        let (reader, frames, closer) = (log.reader(), log.frames(), log.closer());
        let reading = thread::spawn(move || {
            for _ in 0..3 {
                let end = frames.end();
                for position in 1..=end.0 {
                    let found = reader.read(Position(position)).expect("sound");
                    assert!(found.is_some(), "record {position} of {}", end.0);
                }
            }
        });
        let frames = log.frames();
        let walking = thread::spawn(move || {
            for _ in 0..2 {
                let (end, mut seen) = (frames.end(), 0);
                let walked = frames.replay(Position(1), &mut |frame| {
                    seen = frame.header().last().0;
                    Ok(())
                });
                assert_eq!(walked, Ok(()));
                assert!(end.0 <= seen, "{seen} of {}", end.0);
            }
        });
        let closing = thread::spawn(move || (1..5).for_each(|first| closer(Position(first))));
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
