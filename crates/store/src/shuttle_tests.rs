//! Concurrency tests of the write-behind queue and the memtable filter.
//!
//! Each test runs a few threads over the production code with the locks, condition variables and
//! threads of `shuttle` ([`crate::sync`]). Its scheduler chooses the next thread before each step.
//! An endless wait is reported as a deadlock; a wait with a timeout never times out.
//! docs/internals/thread-handovers.md lists the deliberate bug that each test caught.
//!
//! `cargo test -p store --features shuttle --lib`

use ledger::{Decision, Digest, LogIndex};
use ports::{ColdReader, ColdStore, StoreError, StoreMark, WaitFor, WriteBatch};
use shuttle::rand::Rng;

use crate::memtable_filter::{MemtableFilter, Memtables};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, PoisonError, thread};
use crate::{Memory, WriteBehind};

/// Schedules that each strategy tries.
const ORDERS: usize = 1_000;
/// Number of preemptions per schedule in the PCT strategy.
const DEPTH: usize = 3;

/// Tries a test with random schedules, and with schedules that have a few preemptions.
fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, ORDERS);
    shuttle::check_pct(test, ORDERS, DEPTH);
}

/// Visible rows are in the store, a wait ends when they are visible, and closing writes the rest.
#[test]
fn visible_rows_are_written_and_closing_writes_the_rest() {
    explore(|| {
        let store = Arc::new(Memory::default());
        let mut write_behind = WriteBehind::start(Arc::clone(&store) as _).expect("a thread");
        for log_index in 1..=4 {
            assert!(write_behind.offer(&mut write_batch(log_index)), "there is room");
            assert!(
                write_behind.visible() <= store.mark().log_index,
                "visible before it is written"
            );
            if log_index == 2 {
                write_behind.wait(WaitFor::Visible).expect("it is written");
                assert_eq!(write_behind.visible(), LogIndex(2));
            }
            if log_index == 3 {
                write_behind.wait(WaitFor::Room).expect("it is taken");
            }
        }
        drop(write_behind);
        assert_eq!(store.mark().log_index, LogIndex(4));
    });
}

/// After damage, waiting callers get the error and nothing more is accepted.
#[test]
fn damage_is_reported_to_waiting_callers() {
    explore(|| {
        let mut write_behind = WriteBehind::start(Arc::new(Failing)).expect("a thread");
        assert!(write_behind.offer(&mut write_batch(1)), "there is room");
        let failed = Err(StoreError::Damaged("no more".into()));
        assert_eq!(write_behind.wait(WaitFor::Visible), failed);
        assert!(!write_behind.offer(&mut write_batch(2)), "it is accepted but never written");
        assert_eq!(write_behind.visible(), LogIndex(0));
    });
}

/// A reader finds every id that was reported as written, in a buffer or in a table, while the
/// library turns buffers into tables.
#[test]
fn a_written_id_is_in_a_buffer_or_in_a_table() {
    explore(|| {
        let filters = Arc::new(MemtableFilter::new(Vec::new(), None));
        let (buffers, written) = (Arc::new(Buffers::default()), Arc::new(AtomicU64::new(0)));
        let (read, reported) = (Arc::clone(&filters), Arc::clone(&written));
        let reader = thread::spawn(move || {
            (0..4).for_each(|_| find(&read, reported.load(Ordering::Acquire)));
        });
        for id in 0..6 {
            let mut writing = filters.begin_write(buffers.newest());
            writing.add(hash(id));
            buffers.write(id);
            writing.end(&*buffers);
            written.store(id + 1, Ordering::Release);
            find(&filters, id + 1);
        }
        reader.join().expect("it ends");
    });
}

/// Checks that all of these ids are found.
fn find(filters: &MemtableFilter<Vec<u64>>, written: u64) {
    let read = filters.read();
    for id in 0..written {
        let found = read.may_be_buffered(hash(id)) || read.tables().contains(&id);
        assert!(found, "{id} of {written} counts as new");
    }
}

/// A hash that sets different bits of the filter.
fn hash(id: u64) -> u64 {
    (id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Write buffers and tables as in the library. Before each query, a buffer may be rotated or tables
/// may be made.
#[derive(Default)]
struct Buffers(Mutex<BuffersState>);

#[derive(Default)]
struct BuffersState {
    newest: u64,
    written: Vec<u64>,
    sealed: Vec<u64>,
    tables: Vec<u64>,
}

impl Buffers {
    fn with_state<R>(&self, act: impl FnOnce(&mut BuffersState) -> R) -> R {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match shuttle::rand::thread_rng().gen_range(0..4) {
            0 => state.change_buffer(),
            1 => state.make_tables(),
            _ => {}
        }
        act(&mut state)
    }

    fn write(&self, id: u64) {
        self.with_state(|state| state.written.push(id));
    }
}

impl BuffersState {
    fn change_buffer(&mut self) {
        self.newest += 1;
        self.sealed.append(&mut self.written);
    }

    fn make_tables(&mut self) {
        self.tables.append(&mut self.sealed);
    }
}

impl Memtables<Vec<u64>> for Buffers {
    fn newest(&self) -> u64 {
        self.with_state(|state| state.newest)
    }

    fn older_are_tables(&self) -> bool {
        self.with_state(|state| state.sealed.is_empty())
    }

    fn changed_tables(&self, _shared: &Vec<u64>) -> Option<Vec<u64>> {
        Some(self.with_state(|state| state.tables.clone()))
    }
}

/// A batch of one registration that makes the store complete up to a log index.
fn write_batch(log_index: u64) -> WriteBatch {
    let mark = StoreMark { log_index: LogIndex(log_index), chain: Digest([log_index as u8; 32]) };
    let parties = vec![ports::PartyChange {
        key: vec![log_index as u8],
        at: mark.log_index,
        effect: ports::PartyEffect::Release { of: None, currency: None },
    }];
    WriteBatch { parties, mark, ..WriteBatch::default() }
}

/// A store that refuses all writes.
#[derive(Debug)]
struct Failing;

impl ColdStore for Failing {
    fn mark(&self) -> StoreMark {
        StoreMark::default()
    }

    fn read(
        &self,
        _: &ledger::TransferId,
        _: LogIndex,
    ) -> Result<Option<ledger::FinalTransfer>, StoreError> {
        Ok(None)
    }

    fn party(&self, _: &[u8]) -> Result<Option<ports::PartyRow>, StoreError> {
        Ok(None)
    }

    fn decisions(&self, _: &ledger::TransferId) -> Result<Vec<Decision>, StoreError> {
        Ok(Vec::new())
    }

    fn delivery_records(&self, _: ledger::NoticeId) -> Result<Vec<LogIndex>, StoreError> {
        Ok(Vec::new())
    }

    fn settlements(
        &self,
        _: ledger::ArchiveKind,
        _: std::ops::RangeInclusive<u32>,
        _: usize,
    ) -> Result<Vec<ledger::ArchivedSettlement>, StoreError> {
        Ok(Vec::new())
    }

    fn transfers(&self, _: &ports::TransferQuery) -> Result<ports::TransferPage, StoreError> {
        Ok(ports::TransferPage::default())
    }

    fn write(&self, _: &WriteBatch) -> Result<(), StoreError> {
        Err(StoreError::Damaged("no more".into()))
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}
