//! The hand-over to the writing thread, in one order of steps after the other.
//!
//! A few threads over the production code, whose locks, signals and threads are those of shuttle
//! here ([`crate::sync`]): a scheduler of its own decides before each of their steps who goes on. A
//! wait that nobody ends is found as a deadlock; a wait with a limit of time never times out. Which
//! deliberate break each test caught stands in docs/internals/handovers.md.
//!
//! `cargo test -p store --features shuttle --lib`

use ledger::{Digest, Position};
use ports::{Cold, ColdStore, Mark, Portion, StoreError, Until};
use record::told::Told;

use crate::sync::Arc;
use crate::{Behind, Memory};

/// Orders of each kind that a test tries.
const ORDERS: usize = 1_000;
/// Points at which a thread is passed over although it could go on, in the orders of one kind.
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
        let mut behind = Behind::start(Arc::clone(&store) as _).expect("a thread");
        for position in 1..=4 {
            assert!(behind.offer(&mut portion(position)), "there is room");
            assert!(behind.visible() <= store.mark().position, "visible before it is written");
            if position == 2 {
                behind.wait(Until::Visible).expect("it is written");
                assert_eq!(behind.visible(), Position(2));
            }
            if position == 3 {
                behind.wait(Until::Room).expect("it is taken");
            }
        }
        drop(behind);
        assert_eq!(store.mark().position, Position(4));
    });
}

/// Whoever waits hears that nothing is written any more, and nothing more is taken.
#[test]
fn a_store_that_is_damaged_is_told_to_whoever_waits() {
    explore(|| {
        let mut behind = Behind::start(Arc::new(Failing)).expect("a thread");
        assert!(behind.offer(&mut portion(1)), "there is room");
        let failed = Err(StoreError::Damaged("no more".into()));
        assert_eq!(behind.wait(Until::Visible), failed);
        assert!(!behind.offer(&mut portion(2)), "it is taken, and nobody writes it");
        assert_eq!(behind.visible(), Position(0));
    });
}

/// One party's registration, with which the store is complete up to a position.
fn portion(position: u64) -> Portion {
    let mark = Mark { position: Position(position), chain: Digest([position as u8; 32]) };
    let parties = vec![ports::PartyChange { key: vec![position as u8], row: None }];
    Portion { parties, mark, ..Portion::default() }
}

/// A store that takes nothing.
#[derive(Debug)]
struct Failing;

impl ColdStore for Failing {
    fn mark(&self) -> Mark {
        Mark::default()
    }

    fn read(
        &self,
        _: &ledger::TransferId,
        _: Position,
    ) -> Result<Option<ledger::Ended>, StoreError> {
        Ok(None)
    }

    fn party(&self, _: &[u8]) -> Result<Option<ports::PartyRow>, StoreError> {
        Ok(None)
    }

    fn told_after(&self) -> Position {
        Position(0)
    }

    fn tale(&self, _: &ledger::TransferId) -> Result<Vec<Told>, StoreError> {
        Ok(Vec::new())
    }

    fn ends(&self, _: ledger::NoticeId) -> Result<Vec<Position>, StoreError> {
        Ok(Vec::new())
    }

    fn write(&self, _: &Portion) -> Result<(), StoreError> {
        Err(StoreError::Damaged("no more".into()))
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}
