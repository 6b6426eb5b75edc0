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

use crate::memtable_filter::{Library, MemtableFilter};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, PoisonError, thread};
use crate::{Memory, WriteBehind};

/// Schedules that each strategy tries.
const ORDERS: usize = 1_000;
/// Number of preemptions per schedule in the PCT strategy.
const DEPTH: usize = 3;

/// Tries a test in random orders, and in those that differ from a plain one at a few points.
fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, ORDERS);
    shuttle::check_pct(test, ORDERS, DEPTH);
}

/// What is said to be visible is in the store, a wait ends when it is, and the end writes the
/// rest.
#[test]
fn what_is_visible_was_written_and_the_end_writes_the_rest() {
    explore(|| {
        let store = Arc::new(Memory::default());
        let mut behind = WriteBehind::start(Arc::clone(&store) as _).expect("a thread");
        for log_index in 1..=4 {
            assert!(behind.offer(&mut portion(log_index)), "there is room");
            assert!(behind.visible() <= store.mark().log_index, "visible before it is written");
            if log_index == 2 {
                behind.wait(WaitFor::Visible).expect("it is written");
                assert_eq!(behind.visible(), LogIndex(2));
            }
            if log_index == 3 {
                behind.wait(WaitFor::Room).expect("it is taken");
            }
        }
        drop(behind);
        assert_eq!(store.mark().log_index, LogIndex(4));
    });
}

/// Whoever waits hears that nothing is written any more, and nothing more is taken.
#[test]
fn a_store_that_is_damaged_is_told_to_whoever_waits() {
    explore(|| {
        let mut behind = WriteBehind::start(Arc::new(Failing)).expect("a thread");
        assert!(behind.offer(&mut portion(1)), "there is room");
        let failed = Err(StoreError::Damaged("no more".into()));
        assert_eq!(behind.wait(WaitFor::Visible), failed);
        assert!(!behind.offer(&mut portion(2)), "it is taken, and nobody writes it");
        assert_eq!(behind.visible(), LogIndex(0));
    });
}

/// Whoever was told that an id is written finds it, in a buffer or in a table, while the library
/// makes tables of buffers.
#[test]
fn what_was_written_is_in_a_buffer_or_in_a_table() {
    explore(|| {
        let filters = Arc::new(MemtableFilter::beside(Vec::new(), None));
        let (buffers, told) = (Arc::new(Buffers::default()), Arc::new(AtomicU64::new(0)));
        let (asked, heard) = (Arc::clone(&filters), Arc::clone(&told));
        let looking = thread::spawn(move || {
            (0..4).for_each(|_| find(&asked, heard.load(Ordering::Acquire)));
        });
        for id in 0..6 {
            let mut writing = filters.begin(buffers.newest());
            writing.add(hash(id));
            buffers.write(id);
            writing.end(&*buffers);
            told.store(id + 1, Ordering::Release);
            find(&filters, id + 1);
        }
        looking.join().expect("it ends");
    });
}

/// All of these ids are known.
fn find(filters: &MemtableFilter<Vec<u64>>, written: u64) {
    let look = filters.look();
    for id in 0..written {
        let found = look.may_be_buffered(hash(id)) || look.tables().contains(&id);
        assert!(found, "{id} of {written} counts as new");
    }
}

/// Spread over the bits that a filter looks at.
fn hash(id: u64) -> u64 {
    (id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Write buffers and tables as the library has them: each question is answered as of its moment,
/// and before any of them a buffer may have been changed, or tables may have been made.
#[derive(Default)]
struct Buffers(Mutex<Held>);

#[derive(Default)]
struct Held {
    newest: u64,
    written: Vec<u64>,
    sealed: Vec<u64>,
    tables: Vec<u64>,
}

impl Buffers {
    fn held<R>(&self, act: impl FnOnce(&mut Held) -> R) -> R {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match shuttle::rand::thread_rng().gen_range(0..4) {
            0 => held.change_buffer(),
            1 => held.make_tables(),
            _ => {}
        }
        act(&mut held)
    }

    fn write(&self, id: u64) {
        self.held(|held| held.written.push(id));
    }
}

impl Held {
    fn change_buffer(&mut self) {
        self.newest += 1;
        self.sealed.append(&mut self.written);
    }

    fn make_tables(&mut self) {
        self.tables.append(&mut self.sealed);
    }
}

impl Library<Vec<u64>> for Buffers {
    fn newest(&self) -> u64 {
        self.held(|held| held.newest)
    }

    fn older_are_tables(&self) -> bool {
        self.held(|held| held.sealed.is_empty())
    }

    fn tables_but(&self, _shown: &Vec<u64>) -> Option<Vec<u64>> {
        Some(self.held(|held| held.tables.clone()))
    }
}

/// One party's registration, with which the store is complete up to a log_index.
fn portion(log_index: u64) -> WriteBatch {
    let mark = StoreMark { log_index: LogIndex(log_index), chain: Digest([log_index as u8; 32]) };
    let parties = vec![ports::PartyChange {
        key: vec![log_index as u8],
        effect: ports::PartyEffect::Release,
    }];
    WriteBatch { parties, mark, ..WriteBatch::default() }
}

/// A store that takes nothing.
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
