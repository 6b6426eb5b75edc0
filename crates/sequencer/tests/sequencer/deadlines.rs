//! Many deadlines are due at once: each batch meets few of them, and all are met within a second.

use journal::MemoryLog;
use ledger::{Amount, Command, Outcome, Stamp};
use ports::ClockReading;
use sequencer::{EXPIRIES_PER_BATCH_MAX, STAMP_LAG_US_MAX, Sequencer};

use crate::fixture::{self, IDENTITY, beginning, prepare};

const LOG_BYTES: usize = 1 << 20;
const FIRST_MS: u64 = 10_000;
/// Number of deadlines, two per millisecond.
const TRANSFERS: u64 = 600;

fn at(ms: u64) -> ClockReading {
    fixture::at(ms * 1_000)
}

fn commit(subject: &mut Sequencer<MemoryLog>, commands: Vec<Command>, now: ClockReading) -> Stamp {
    fixture::commit(subject, commands, now).expect("there is room").stamp
}

/// Reserved transfers, two for each millisecond from [`FIRST_MS`] on.
fn with_transfers() -> Sequencer<MemoryLog> {
    let mut subject = fixture::open(MemoryLog::new(IDENTITY, LOG_BYTES), at(1));
    commit(&mut subject, beginning(), at(1));
    let one = |of: u64| prepare(1_000 + of as usize, Amount::from_units(1), FIRST_MS + of / 2);
    commit(&mut subject, (0..TRANSFERS).map(one).collect(), at(2));
    let reserved = |outcome: &Outcome| *outcome == Outcome::PrepareReserved;
    assert!(subject.outcomes().iter().all(reserved));
    subject
}

#[test]
fn each_batch_expires_few_transfers_and_the_next_follows_at_once() {
    let mut subject = with_transfers();
    let now = at(FIRST_MS + 200);
    let (mut ended, mut last) = (0, Stamp(0));
    while subject.wait_us(now) == Some(0) {
        let stamp = commit(&mut subject, vec![Command::Tick], now);
        let expired = subject.effects().final_rows.len();
        assert!((1..=EXPIRIES_PER_BATCH_MAX + 1).contains(&expired), "{expired} in a batch");
        assert!(last < stamp && stamp <= now.wall, "{last:?}, then {stamp:?}");
        (ended, last) = (ended + expired, stamp);
    }
    assert_eq!(ended, 402, "two a millisecond, both ends included");
    assert_eq!(last, now.wall, "time has caught up");
}

#[test]
fn the_stamp_lags_by_at_most_a_second() {
    let mut subject = with_transfers();
    let late = Stamp::from_millis(FIRST_MS + 100).0 + STAMP_LAG_US_MAX;
    let stamp = commit(&mut subject, vec![Command::Tick], fixture::at(late));
    assert_eq!(stamp, Stamp::from_millis(FIRST_MS + 100));
    assert_eq!(subject.effects().final_rows.len(), 202);
}
