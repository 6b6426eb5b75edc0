//! The place of a row does not change a decision: a kernel with rows evicted and restored at random
//! decides like one that keeps them all.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::history::{CASES, IDS, Step, World, history, id};
use crate::*;

/// A kernel and its cold store.
struct KernelWithStore {
    world: World,
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

fn habits() -> impl Strategy<Value = Vec<EvictionPattern>> {
    let habit = (any::<bool>(), 0..6usize, prop_oneof![3 => Just(0), 1 => 0..2_000u64]);
    let habit =
        habit.prop_map(|(shown, rows_max, keep_ms)| EvictionPattern { shown, rows_max, keep_ms });
    prop::collection::vec(habit, 30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn eviction_does_not_change_decisions(steps in history(), habits in habits()) {
        let mut all_hot = World::new();
        let mut beside = KernelWithStore::new();
        for (step, habit) in steps.iter().zip(habits) {
            all_hot.wait(step.wait_ms);
            let commands: Vec<_> = step.acts.iter().map(|act| all_hot.command(act)).collect();
            let expected = all_hot.apply(&commands);
            let effects = beside.play(step, &commands);
            prop_assert_eq!(&effects.outcomes, &expected.outcomes);
            prop_assert_eq!(&effects.notices, &expected.notices);
            prop_assert_eq!(&effects.withdrawn, &expected.withdrawn);
            prop_assert_eq!(&effects.ended, &expected.ended);
            let (one, other) = (&all_hot.state, &beside.world.state);
            prop_assert_eq!(one.digest(), other.digest());
            prop_assert_eq!(one.transfers_ended(), other.transfers_ended());
            beside.tend(habit);
            prop_assert_eq!(one.hash(), beside.world.state.hash());
            prop_assert_eq!(one.transfers_ended(), beside.world.state.transfers_ended());
        }
        for number in 0..IDS {
            beside.warm(&id(number));
            prop_assert_eq!(all_hot.state.view(&id(number)), beside.world.state.view(&id(number)));
        }
        prop_assert_eq!(all_hot.state.hash(), beside.world.state.hash());
    }
}

impl KernelWithStore {
    fn new() -> Self {
        // The rows of the onboarding are not in the store, because no history needs them.
        Self { world: World::new(), rows: BTreeMap::new(), written: LogIndex(0) }
    }

    fn play(&mut self, step: &Step, commands: &[Command]) -> Effects {
        self.world.wait(step.wait_ms);
        for id in commands.iter().flat_map(Command::rows) {
            self.warm(id);
        }
        let effects = self.world.apply(commands);
        for row in &effects.ended {
            self.rows.entry(row.id.to_bytes()).or_default().insert(row.changed, row.clone());
        }
        effects
    }

    /// Restores a row that is not hot, as it was before the next record.
    fn warm(&mut self, id: &TransferId) {
        if self.world.state.is_hot(id) {
            return;
        }
        let versions = self.rows.get(&id.to_bytes());
        let newest =
            versions.and_then(|rows| rows.range(..=self.world.state.log_index()).next_back());
        if let Some((_, row)) = newest {
            self.world.state.restore_row(row.clone());
        }
    }

    fn tend(&mut self, habit: EvictionPattern) {
        if habit.shown {
            self.written = self.world.state.log_index();
        }
        let now = self.world.state.stamp();
        let eviction = Eviction {
            visible: self.written,
            completed_before: Stamp((now.0 + 1).saturating_sub(habit.keep_ms * 1_000)),
            rows_max: habit.rows_max,
        };
        let (hot, mut gone) = (self.world.state.transfers_hot(), 0);
        let count = self.world.state.evict(eviction, &mut |row| {
            assert!(row.changed <= eviction.visible && row.completed < eviction.completed_before);
            gone += 1;
        });
        assert_eq!((count, self.world.state.transfers_hot()), (gone, hot - gone));
    }
}

#[test]
#[should_panic = "only what is not hot is brought back"]
fn restoring_a_hot_row_panics() {
    let mut world = World::new();
    let act = super::history::Act::FundsIn { id: 1, party: 0, units: 1 };
    let command = world.command(&act);
    let row = world.apply(&[command]).ended[0].clone();
    world.state.restore_row(row);
}

#[test]
#[should_panic = "a row that comes back has left before"]
fn restoring_without_evicted_rows_panics() {
    let mut world = World::new();
    let mut other = world.clone();
    let act = super::history::Act::FundsIn { id: 1, party: 0, units: 1 };
    let command = world.command(&act);
    let row = world.apply(&[command]).ended[0].clone();
    other.state.restore_row(row);
}

/// Rows leave oldest first, and none before the store shows it and its time has come.
#[test]
fn rows_are_evicted_in_order() {
    let mut world = World::new();
    let any = Eviction {
        visible: LogIndex(u64::MAX),
        completed_before: Stamp(u64::MAX),
        rows_max: usize::MAX,
    };
    world.state.evict(any, &mut |_| ());
    assert_eq!(world.state.next_evictable(), None, "those of the onboarding have left");
    let rows = [1, 2, 3].map(|id| {
        world.wait(1_000);
        let command = world.command(&super::history::Act::FundsIn { id, party: 0, units: 1 });
        world.apply(&[command]).ended[0].clone()
    });
    let [first, second, third] = rows.each_ref().map(|row| (row.changed, row.completed));
    let mut check = |eviction: Eviction, expected: &[&FinalTransfer], next| {
        let mut gone = Vec::new();
        let count = world.state.evict(eviction, &mut |row| gone.push(row.clone()));
        assert_eq!((count, gone.iter().collect::<Vec<_>>()), (expected.len(), expected.to_vec()));
        assert_eq!(world.state.next_evictable(), next);
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
    use super::history::Act;

    let world = World::new();
    for act in [
        Act::FundsIn { id: 7, party: 0, units: 1 },
        Act::EndFundsOut { id: 7, party: 0, commit: true },
    ] {
        assert!(world.command(&act).rows().eq([&id(7)]), "{act:?}");
    }
    assert_eq!(world.command(&Act::Participant { party: 0, active: true }).rows().next(), None);
    assert_eq!(Command::Tick.rows().next(), None);
}
