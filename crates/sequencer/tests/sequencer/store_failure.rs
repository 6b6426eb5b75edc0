//! A store that cannot be written for a while: rows wait, then commands are refused without effect,
//! and with the store the same process continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use journal::{FileLog, MemoryDisk};
use ledger::{
    ChangeParties, Command, FinalTransfer, LogIndex, PartyBinding, PartyChangeForm, TransferId,
};
use ports::{ClockReading, ColdReader, Log as _, StoreError, WaitFor, WriteBatch};
use sequencer::{CommitError, PENDING_MAX, Sequencer};

use crate::fixture::{self, SECOND, genesis, name};

/// Parties of one command.
const PARTIES: usize = 2_000;

/// A store that is full while it fails.
#[derive(Clone, Debug, Default)]
struct FullStore {
    fails: Arc<AtomicBool>,
    visible: Arc<AtomicU64>,
}

impl ColdReader for FullStore {
    fn read(&self, _: &TransferId, _: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        Ok(None)
    }

    fn visible(&self) -> LogIndex {
        LogIndex(self.visible.load(Ordering::Relaxed))
    }

    fn offer(&mut self, portion: &mut WriteBatch) -> bool {
        if self.fails.load(Ordering::Relaxed) {
            return false;
        }
        self.visible.store(portion.mark.log_index.0, Ordering::Relaxed);
        portion.clear();
        true
    }

    fn wait(&mut self, until: WaitFor) -> Result<(), StoreError> {
        assert_ne!(until, WaitFor::Mended, "a node that can refuse need not wait");
        match self.fails.load(Ordering::Relaxed) {
            true => Err(StoreError::Failed("no room".into())),
            false => Ok(()),
        }
    }
}

fn now() -> ClockReading {
    fixture::at(SECOND)
}

fn change(number: usize) -> Command {
    let party = |at: usize| PartyBinding {
        id_type: "MSISDN".into(),
        id: (number * PARTIES + at).to_string(),
        sub_id: None,
        currency: None,
        fsp: name("Hub"),
    };
    Command::ChangeParties(Box::new(ChangeParties {
        source: name("Hub"),
        form: PartyChangeForm::Batch,
        parties: (0..PARTIES).map(party).collect(),
        trace: [0; 16],
        rule: None,
    }))
}

type Subject = Sequencer<FileLog<MemoryDisk>>;

/// Commits one command in a batch, then runs the maintenance.
fn commit(subject: &mut Subject, command: Command) -> Result<(), CommitError> {
    let committed = fixture::commit(subject, vec![command], now());
    subject.run_maintenance(now())?;
    committed.map(|_| ())
}

fn begun() -> (FullStore, Subject) {
    let store = FullStore::default();
    let subject = fixture::with_store(store.clone(), Duration::ZERO, now());
    (store, subject)
}

/// Queries of decisions wait for the store's mark, and no further command may come.
#[test]
fn a_mark_without_rows_is_offered_by_itself() {
    let (store, mut subject) = begun();
    store.fails.store(true, Ordering::Relaxed);
    commit(&mut subject, genesis()).expect("room");
    assert_eq!(subject.stored(), LogIndex(0));
    assert!(subject.next_maintenance_us(now()).is_some(), "it is tried again");

    store.fails.store(false, Ordering::Relaxed);
    subject.run_maintenance(now()).expect("it is written");
    assert_eq!(subject.stored(), LogIndex(1));
    assert_eq!(subject.next_maintenance_us(now()), None, "there is nothing left to do");
}

#[test]
fn commands_are_refused_while_rows_cannot_leave_memory() {
    let (store, mut subject) = begun();
    commit(&mut subject, genesis()).expect("room");
    commit(&mut subject, change(0)).expect("room");
    let stored = subject.stored();
    assert_eq!(stored, LogIndex(2));

    store.fails.store(true, Ordering::Relaxed);
    let taken =
        (1..).take_while(|number: &usize| commit(&mut subject, change(*number)).is_ok()).count();
    assert_eq!(taken, PENDING_MAX.div_ceil(PARTIES), "commands are accepted up to the bound");
    let (hash, end) = (subject.state().hash(), subject.log().durable_end());
    let refused = commit(&mut subject, change(0));
    assert!(matches!(refused, Err(CommitError::Full)), "{refused:?}");
    assert_eq!((subject.state().hash(), subject.log().durable_end()), (hash, end));
    assert_eq!(subject.stored(), stored);

    store.fails.store(false, Ordering::Relaxed);
    subject.run_maintenance(now()).expect("it is written");
    assert_eq!(subject.stored(), end);
    commit(&mut subject, change(1)).expect("there is room again");
}
