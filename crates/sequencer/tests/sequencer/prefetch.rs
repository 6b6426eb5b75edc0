//! The queries of a batch to the store: the ids that are not in memory, all at once, and then the
//! rows of those that may exist.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use journal::{FileLog, MemoryDisk};
use ledger::{Command, FinalTransfer, LogIndex, Outcome, TransferId};
use ports::{ColdReader, StoreError, WaitFor, WriteBatch};
use sequencer::Sequencer;

use crate::fixture::{self, SECOND, id, units};

/// A store whose rows are visible at once, and which records queries.
#[derive(Clone, Debug, Default)]
struct RecordingStore(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    rows: BTreeMap<TransferId, FinalTransfer>,
    visible: LogIndex,
    asked: Vec<TransferId>,
    read: Vec<TransferId>,
}

impl RecordingStore {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no thread panicked")
    }

    /// The queries since the last call: ids checked, and rows read.
    fn asked(&self) -> [Vec<TransferId>; 2] {
        let mut inner = self.lock();
        [std::mem::take(&mut inner.asked), std::mem::take(&mut inner.read)]
    }
}

impl ColdReader for RecordingStore {
    fn read(&self, id: &TransferId, _: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        let mut inner = self.lock();
        inner.read.push(*id);
        Ok(inner.rows.get(id).cloned())
    }

    fn drop_absent(&self, ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        let mut inner = self.lock();
        inner.asked.extend_from_slice(ids);
        ids.retain(|id| inner.rows.contains_key(id));
        Ok(())
    }

    fn visible(&self) -> LogIndex {
        self.lock().visible
    }

    fn offer(&mut self, portion: &mut WriteBatch) -> bool {
        let mut inner = self.lock();
        inner.visible = portion.mark.log_index;
        inner.rows.extend(portion.rows.drain(..).map(|row| (row.id, row)));
        portion.clear();
        true
    }

    fn wait(&mut self, _: WaitFor) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Subject {
    sequencer: Sequencer<FileLog<MemoryDisk>>,
    seconds: u64,
}

impl Subject {
    fn new(store: &RecordingStore) -> Self {
        let hot = Duration::from_secs(10);
        let sequencer = fixture::with_store(store.clone(), hot, fixture::at(SECOND));
        Self { sequencer, seconds: 1 }
    }

    /// The outcomes of a batch, seconds after the previous one.
    fn commit(&mut self, commands: Vec<Command>, seconds: u64) -> Vec<Outcome> {
        self.seconds += seconds;
        let now = fixture::at(self.seconds * SECOND);
        fixture::commit(&mut self.sequencer, commands, now).expect("it is decided");
        self.sequencer.run_maintenance(now).expect("it is kept");
        self.sequencer.outcomes().to_vec()
    }
}

/// A prepare that is refused for lack of liquidity, and recorded.
fn prepare(number: usize) -> Command {
    fixture::prepare(number, units(1_000), 1_000_000)
}

#[test]
fn evicted_ids_are_checked_and_only_possible_rows_are_read() {
    let store = RecordingStore::default();
    let mut subject = Subject::new(&store);
    subject.commit(fixture::beginning(), 0);
    let funds = vec![id(100), id(101)];
    assert_eq!(store.asked(), [funds, vec![]], "the ids of the first funds are new");

    let first = subject.commit(vec![prepare(1), prepare(2)], 1);
    assert_eq!(first, [Outcome::PrepareLiquidityInsufficient; 2]);
    assert_eq!(store.asked(), [vec![id(1), id(2)], vec![]], "they are new");
    let resent = subject.commit(vec![prepare(1), prepare(2)], 1);
    assert_eq!(store.asked(), [vec![], vec![]], "they are in memory");

    // Rows are evicted with the batch after which they are due.
    subject.commit(vec![Command::Tick], 60);
    assert_eq!(subject.sequencer.state().hot_transfer_count(), 0);
    let late = subject.commit(vec![prepare(3), prepare(2), prepare(2), prepare(1)], 1);
    let [asked, read] = store.asked();
    assert_eq!(asked, [id(3), id(2), id(2), id(1)]);
    assert_eq!(read, [id(2), id(1)], "an id that occurs twice is read once");
    assert_eq!(late, [first[0], resent[1], resent[1], resent[0]]);
    let counts = subject.sequencer.cold_counts();
    assert_eq!((counts.reads, counts.found), (8, 2));
}
