//! No visible row is reported absent, whatever the database's threads do and whatever happens to
//! the process.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::thread;

use ledger::{DecisionSink, Outcome, Stamp};
use tempfile::TempDir;

use super::*;
use crate::contract::{sample_id, sample_row, write_batch};

const IDENTITY: LogIdentity = LogIdentity([3; 16]);

/// A number without visible order (splitmix64).
fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Ids of rows that are written are even, the others odd. Their order is random.
fn present(number: u32) -> TransferId {
    sample_id((mix(u64::from(number)) as u32) << 1)
}

fn never_written(number: u32) -> TransferId {
    sample_id((mix(u64::from(number)) as u32) << 1 | 1)
}

fn row(number: u32) -> FinalTransfer {
    FinalTransfer { id: present(number), ..sample_row(8, u64::from(number) + 10) }
}

impl Disk {
    /// Rotates the newest write buffer, which becomes a table soon.
    fn change_buffer(&self) {
        let changed = self
            .ask(|opened| opened.transfers.rotate_memtable().map_err(|error| of_library(&error)));
        changed.expect("it goes into the next one");
    }

    /// Rotates the newest write buffer and waits until it is a table.
    fn make_tables(&self) {
        self.change_buffer();
        let waits = || self.ask(|opened| Ok(0 < opened.transfers.sealed_memtable_count()));
        while waits().expect("it is open") {
            thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn left_of(&self, ids: impl Iterator<Item = TransferId>) -> Vec<TransferId> {
        let mut left = ids.collect();
        self.drop_absent(&mut left).expect("it looks");
        left
    }
}

#[test]
fn visible_rows_are_never_absent_while_buffers_become_tables() {
    const BATCH: u32 = 200;
    const BATCHES: u32 = 120;
    let place = TempDir::new().expect("a directory");
    let store = Disk::begin(&place.path().join("store"), IDENTITY, StoreOptions::default());
    let store = store.expect("it begins");
    let shown = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..BATCHES {
                let end = (number + 1) * BATCH;
                let rows = (number * BATCH..end).map(row).collect();
                store.write(&write_batch(rows, u64::from(end) + 10)).expect("it writes");
                shown.store(end, Ordering::Release);
                if mix(u64::from(number)).is_multiple_of(4) {
                    store.change_buffer();
                }
            }
        });
        for round in 0.. {
            let shown = shown.load(Ordering::Acquire);
            // The newest rows are the ones that move.
            let from = if round % 4 == 0 { 0 } else { shown.saturating_sub(4 * BATCH) };
            let asked: Vec<_> = (from..shown).map(present).collect();
            assert_eq!(store.left_of(asked.iter().copied()), asked, "of {shown} shown");
            if shown == BATCHES * BATCH {
                break;
            }
        }
    });
    store.make_tables();
    // After the next batch, the filter holds only its ids.
    store.write(&write_batch(vec![row(u32::MAX / 2)], 1_000_000)).expect("it writes");
    let others = store.left_of((0..10_000).map(never_written)).len();
    assert!(others < 1_000, "{others} of 10,000 that were never written may be there");
}

/// A store and its expected rows.
fn reservation(number: u32) -> Decision {
    let (transfer, log_index) = (present(number), LogIndex(u64::from(number)));
    let outcome = Outcome::PrepareReserved;
    Decision { transfer, log_index, outcome, inputs: None, owed: Vec::new() }
}

struct TestStore {
    place: TempDir,
    store: Option<Disk>,
    known: BTreeMap<u32, u64>,
    log_index: u64,
}

impl TestStore {
    fn begin() -> Self {
        let place = TempDir::new().expect("a directory");
        let mut test = Self { place, store: None, known: BTreeMap::new(), log_index: 100 };
        test.begin_anew();
        test
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("store")
    }

    fn store(&self) -> &Disk {
        self.store.as_ref().expect("it is open")
    }

    fn begin_anew(&mut self) {
        self.store = None;
        self.store =
            Some(Disk::begin(&self.path(), IDENTITY, StoreOptions::default()).expect("room"));
        self.known.clear();
    }

    fn open(&mut self) {
        let opened = Disk::open(&self.path(), IDENTITY, StoreOptions::default());
        let (store, reason) = opened.expect("it opens");
        assert_eq!(reason, None);
        self.store = Some(store);
    }

    /// Kills the process: nothing in memory becomes a table.
    fn kill(&mut self) {
        let kill = |opened: &Opened| {
            opened.failed.store(true, Ordering::Relaxed);
            Ok(())
        };
        self.store().ask(kill).expect("it is open");
        self.store = None;
        self.open();
    }

    fn write(&mut self, numbers: impl Iterator<Item = u32>) {
        self.log_index += 1;
        let Self { known, log_index, store, .. } = self;
        let rows = numbers.map(|number| match known.get(&number) {
            None => {
                known.insert(number, *log_index);
                let completed = Stamp(*log_index * 1_000);
                FinalTransfer { changed: LogIndex(*log_index), completed, ..row(number) }
            }
            // A response that arrived too late.
            Some(_) => FinalTransfer {
                changed: LogIndex(*log_index),
                outcome: Outcome::Expired,
                ..row(number)
            },
        });
        let batch = write_batch(rows.collect(), *log_index);
        store.as_ref().expect("it is open").write(&batch).expect("it writes");
    }

    /// Writes the prepares of these transfers, whose records are numbered like them.
    fn reserve(&mut self, numbers: std::ops::Range<u32>) {
        let mut batch = write_batch(Vec::new(), u64::from(numbers.end));
        for number in numbers {
            batch.decisions.record_decision(&reservation(number));
        }
        self.store().write(&batch).expect("it writes");
    }

    fn check_reservations(&self, numbers: &[u32]) {
        for number in numbers {
            let found = self.store().decisions(&present(*number));
            assert_eq!(found, Ok(vec![reservation(*number)]), "{number}");
        }
    }

    fn trace_count(&self) -> usize {
        let count = |opened: &Opened| {
            let (_, traces) = opened.named().find(|it| it.0 == "traces").expect("it is there");
            // One key is its name.
            Ok(traces.iter().count() - 1)
        };
        self.store().ask(count).expect("it is open")
    }

    fn step(&mut self, draw: u64) {
        let first = (draw >> 32) as u32 % 1_000;
        match draw % 16 {
            0..8 => self.write((0..first % 100 + 1).map(|number| 100 * first + number)),
            8 => self.store().change_buffer(),
            9 => self.store().make_tables(),
            10 => {
                let again: Vec<_> = self.known.keys().copied().take(first as usize).collect();
                self.write(again.into_iter());
            }
            11 => {
                self.store = None;
                self.open();
            }
            12 => self.kill(),
            13 => self.store().open_again().expect("it opens"),
            14 if first < 200 => self.begin_anew(),
            _ => {}
        }
    }

    fn check(&self) {
        let asked = self.known.keys().copied().map(present);
        let others = (0..1_000).map(never_written);
        let left = self.store().left_of(asked.clone().chain(others));
        assert_eq!(left[..self.known.len()], asked.collect::<Vec<_>>());
        for (number, changed) in self.known.iter().take(20) {
            let found = self.store().read(&present(*number), LogIndex(*changed));
            assert!(found.expect("it reads").is_some_and(|row| row.changed.0 == *changed));
        }
    }
}

#[test]
fn rows_are_never_absent_whatever_happens_to_the_store() {
    for seed in 0..2_u64 {
        let mut test = TestStore::begin();
        for step in 0..50 {
            test.step(mix(seed << 32 | step));
            test.check();
        }
    }
}

/// Most new ids are recognised as new without the library's own read, also after a restart.
#[test]
fn new_ids_are_recognised_without_a_read() {
    let mut test = TestStore::begin();
    for round in 0..3 {
        test.write(20_000 * round..20_000 * (round + 1));
        test.store().make_tables();
        test.write(std::iter::once(1_000_000 + round));
        let others = test.store().left_of((0..10_000).map(never_written)).len();
        assert!(others < 500, "{others} of 10,000 in round {round}");
        test.store = None;
        test.open();
    }
}

/// A prepare is found without a trace while it is recent, also after the process was killed. It
/// gets one unless the row of its transfer follows soon.
#[test]
fn only_old_records_without_a_row_have_traces() {
    let mut test = TestStore::begin();
    test.reserve(1..1_001);
    test.check_reservations(&[1, 1_000]);
    test.kill();
    test.check_reservations(&[1, 1_000]);
    let rows = (1..501).map(|number| FinalTransfer {
        prepare: LogIndex(u64::from(number)),
        changed: LogIndex(2_000),
        ..row(number)
    });
    test.store().write(&write_batch(rows.collect(), 2_000)).expect("it writes");
    assert_eq!(test.trace_count(), 0);
    test.reserve(2_001..2_001 + 32_768);
    assert_eq!(test.trace_count(), 500);
    test.check_reservations(&[1, 500, 501, 1_000, 2_001, 34_000]);
    test.kill();
    test.check_reservations(&[1, 500, 501, 1_000, 2_001, 34_000]);
    test.store().write(&write_batch(Vec::new(), 200_000)).expect("it writes");
    test.kill();
    test.check_reservations(&[1, 500, 501, 1_000, 2_001, 34_000]);
    assert!(500 + 32_768 <= test.trace_count(), "the mark is far from all of them");
}
