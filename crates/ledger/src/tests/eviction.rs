//! The place of a row does not change a decision: a kernel with rows evicted and restored at random
//! decides like one that keeps them all.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::history::{CASES, IDS, Step, TestKernel, history, id};
use crate::*;

/// A kernel and its cold store.
struct KernelWithStore {
    kernel: TestKernel,
    /// Every version of every row, like in a store.
    rows: BTreeMap<[u8; 17], BTreeMap<LogIndex, FinalTransfer>>,
    written: LogIndex,
}

/// The driver's behaviour after a batch.
#[derive(Clone, Copy, Debug)]
struct EvictionPattern {
    /// Whether the store shows what the batch changed.
    shown: bool,
    rows_max: usize,
    keep_ms: u64,
}

fn patterns() -> impl Strategy<Value = Vec<EvictionPattern>> {
    let pattern = (any::<bool>(), 0..6usize, prop_oneof![3 => Just(0), 1 => 0..2_000u64]);
    let pattern =
        pattern.prop_map(|(shown, rows_max, keep_ms)| EvictionPattern { shown, rows_max, keep_ms });
    prop::collection::vec(pattern, 30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn eviction_does_not_change_decisions(steps in history(), patterns in patterns()) {
        let mut all_hot = TestKernel::new();
        let mut evicting = KernelWithStore::new();
        for (step, pattern) in steps.iter().zip(patterns) {
            all_hot.wait(step.wait_ms);
            let commands: Vec<_> = step.actions.iter().map(|action| all_hot.command(action)).collect();
            let expected = all_hot.apply(&commands);
            let effects = evicting.play(step, &commands);
            prop_assert_eq!(&effects.outcomes, &expected.outcomes);
            prop_assert_eq!(&effects.notices, &expected.notices);
            prop_assert_eq!(&effects.withdrawn, &expected.withdrawn);
            prop_assert_eq!(&effects.final_rows, &expected.final_rows);
            let (one, other) = (&all_hot.state, &evicting.kernel.state);
            prop_assert_eq!(one.digest(), other.digest());
            prop_assert_eq!(one.final_transfer_count(), other.final_transfer_count());
            evicting.evict(pattern);
            prop_assert_eq!(one.hash(), evicting.kernel.state.hash());
            prop_assert_eq!(one.final_transfer_count(), evicting.kernel.state.final_transfer_count());
        }
        for number in 0..IDS {
            evicting.prefetch(&id(number));
            prop_assert_eq!(all_hot.state.view(&id(number)), evicting.kernel.state.view(&id(number)));
        }
        prop_assert_eq!(all_hot.state.hash(), evicting.kernel.state.hash());
    }
}

impl KernelWithStore {
    fn new() -> Self {
        // The rows of the onboarding are not in the store, because no history needs them.
        Self { kernel: TestKernel::new(), rows: BTreeMap::new(), written: LogIndex(0) }
    }

    fn play(&mut self, step: &Step, commands: &[Command]) -> Effects {
        self.kernel.wait(step.wait_ms);
        for id in commands.iter().flat_map(Command::rows) {
            self.prefetch(id);
        }
        let effects = self.kernel.apply(commands);
        for row in &effects.final_rows {
            self.rows.entry(row.id.to_bytes()).or_default().insert(row.changed, row.clone());
        }
        effects
    }

    /// Restores a row that is not hot, as it was before the next record.
    fn prefetch(&mut self, id: &TransferId) {
        if self.kernel.state.is_hot(id) {
            return;
        }
        let versions = self.rows.get(&id.to_bytes());
        let newest =
            versions.and_then(|rows| rows.range(..=self.kernel.state.log_index()).next_back());
        if let Some((_, row)) = newest {
            self.kernel.state.restore_row(row.clone());
        }
    }

    fn evict(&mut self, pattern: EvictionPattern) {
        if pattern.shown {
            self.written = self.kernel.state.log_index();
        }
        let now = self.kernel.state.stamp();
        let eviction = Eviction {
            visible: self.written,
            completed_before: Stamp((now.0 + 1).saturating_sub(pattern.keep_ms * 1_000)),
            rows_max: pattern.rows_max,
        };
        let (hot, mut gone) = (self.kernel.state.hot_transfer_count(), 0);
        let count = self.kernel.state.evict(eviction, &mut |row| {
            assert!(row.changed <= eviction.visible && row.completed < eviction.completed_before);
            gone += 1;
        });
        assert_eq!((count, self.kernel.state.hot_transfer_count()), (gone, hot - gone));
    }
}

#[test]
#[should_panic = "a row that is restored is not in memory"]
fn restoring_a_hot_row_panics() {
    let mut kernel = TestKernel::new();
    let action = super::history::Action::FundsIn { id: 1, party: 0, units: 1 };
    let command = kernel.command(&action);
    let row = kernel.apply(&[command]).final_rows[0].clone();
    kernel.state.restore_row(row);
}

#[test]
#[should_panic = "a row that comes back has left before"]
fn restoring_without_evicted_rows_panics() {
    let mut kernel = TestKernel::new();
    let mut other = kernel.clone();
    let action = super::history::Action::FundsIn { id: 1, party: 0, units: 1 };
    let command = kernel.command(&action);
    let row = kernel.apply(&[command]).final_rows[0].clone();
    other.state.restore_row(row);
}

/// Rows leave oldest first, and none before the store shows it and its time has come.
#[test]
fn rows_are_evicted_in_order() {
    let mut kernel = TestKernel::new();
    let any = Eviction {
        visible: LogIndex(u64::MAX),
        completed_before: Stamp(u64::MAX),
        rows_max: usize::MAX,
    };
    kernel.state.evict(any, &mut |_| ());
    assert_eq!(kernel.state.next_evictable(), None, "those of the onboarding have left");
    let rows = [1, 2, 3].map(|id| {
        kernel.wait(1_000);
        let command = kernel.command(&super::history::Action::FundsIn { id, party: 0, units: 1 });
        kernel.apply(&[command]).final_rows[0].clone()
    });
    let [first, second, third] = rows.each_ref().map(|row| (row.changed, row.completed));
    let mut check = |eviction: Eviction, expected: &[&FinalTransfer], next| {
        let mut gone = Vec::new();
        let count = kernel.state.evict(eviction, &mut |row| gone.push(row.clone()));
        assert_eq!((count, gone.iter().collect::<Vec<_>>()), (expected.len(), expected.to_vec()));
        assert_eq!(kernel.state.next_evictable(), next);
    };
    check(Eviction { completed_before: first.1, ..any }, &[], Some(first));
    check(Eviction { visible: LogIndex(first.0.0 - 1), ..any }, &[], Some(first));
    check(Eviction { rows_max: 0, ..any }, &[], Some(first));
    let a_little_later = Stamp(first.1.0 + 1);
    check(Eviction { completed_before: a_little_later, ..any }, &[&rows[0]], Some(second));
    check(Eviction { visible: second.0, ..any }, &[&rows[1]], Some(third));
    check(Eviction { rows_max: 5, ..any }, &[&rows[2]], None);
}

/// A driver that prefetches rows before a record must know which ones.
#[test]
fn command_names_its_rows() {
    use super::history::Action;

    let kernel = TestKernel::new();
    for action in [
        Action::FundsIn { id: 7, party: 0, units: 1 },
        Action::EndFundsOut { id: 7, party: 0, commit: true },
    ] {
        assert!(kernel.command(&action).rows().eq([&id(7)]), "{action:?}");
    }
    assert_eq!(kernel.command(&Action::Participant { party: 0, active: true }).rows().next(), None);
    assert_eq!(Command::Tick.rows().next(), None);
}
