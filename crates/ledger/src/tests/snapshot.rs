//! A restored state decides like the original.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::history::{CASES, Step, TestKernel, history};
use crate::field::{Reader, Row};
use crate::snapshot::{
    ReservedTransfer, RowError, StateBuilder, StateTables, Table, TableRow, TableVisitor,
};
use crate::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn restored_state_decides_like_the_original(steps in history(), at in any::<u16>()) {
        let at = usize::from(at) % (steps.len() + 1);
        let mut one = TestKernel::new();
        steps[..at].iter().for_each(|step| drop(play(&mut one, step)));
        let mut other = one.clone();
        other.state = restored(&one.state);
        prop_assert_eq!(one.state.hash(), other.state.hash());
        for step in &steps[at..] {
            let effects = play(&mut one, step);
            let same = play(&mut other, step);
            prop_assert_eq!(&effects.outcomes, &same.outcomes);
            prop_assert_eq!(&effects.notices, &same.notices);
            prop_assert_eq!(&effects.withdrawn, &same.withdrawn);
            prop_assert_eq!(effects.registry_changed, same.registry_changed);
            prop_assert_eq!(&effects.results, &same.results);
            prop_assert_eq!(one.state.digest(), other.state.digest());
        }
        prop_assert_eq!(one.state.hash(), other.state.hash());
        prop_assert_eq!(one.state.tables().header(), other.state.tables().header());
        prop_assert_eq!(rows::<FinalTransfer>(&one.state), rows(&other.state));
        prop_assert_eq!(rows::<ReservedTransfer>(&one.state), rows(&other.state));
    }

    #[test]
    fn snapshot_does_not_change_with_the_state(steps in history(), at in any::<u16>()) {
        let at = usize::from(at) % (steps.len() + 1);
        let mut kernel = TestKernel::new();
        steps[..at].iter().for_each(|step| drop(play(&mut kernel, step)));
        let hash = kernel.state.hash();
        let mut snapshot = kernel.state.snapshot();
        steps[at..].iter().for_each(|step| drop(play(&mut kernel, step)));
        prop_assert_eq!(snapshot.hash(), hash);
        prop_assert_eq!(restored_from(snapshot.tables()).hash(), hash);
        // Eviction does not change the logical state.
        while 0 < snapshot.evict(2) {}
        let restored = restored_from(snapshot.tables());
        prop_assert_eq!(restored.hot_transfer_count(), 0);
        prop_assert_eq!(restored.hash(), hash);
    }
}

#[test]
fn empty_state_round_trips() {
    assert_eq!(restored(&State::new()).hash(), State::new().hash());
}

fn restored(state: &State) -> State {
    restored_from(state.tables())
}

fn restored_from(tables: StateTables<'_>) -> State {
    restore(tables).expect("the tables are those of a state")
}

pub(super) fn restore(tables: StateTables<'_>) -> Result<State, RowError> {
    let mut restored = StoredRows(StateBuilder::new(tables.header())?);
    tables.visit(&mut restored)?;
    Ok(restored.0.finish()?)
}

/// Reads every row from its stored form.
struct StoredRows(StateBuilder);

impl TableVisitor for StoredRows {
    type Error = RowError;

    fn table<R: Row>(
        &mut self,
        table: Table,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), RowError> {
        rows.into_iter().try_for_each(|row| self.0.row(table, &mut Reader(&stored(&row))))
    }
}

fn stored(row: &impl Row) -> Vec<u8> {
    let mut bytes = Vec::new();
    row.write_row(&mut bytes);
    bytes
}

/// The rows of a table.
pub(super) fn rows<R: TableRow>(state: &State) -> Vec<R> {
    let read = |row| Reader(&stored(&row)).value().expect("it was just written");
    R::all(state).into_iter().map(read).collect()
}

fn play(kernel: &mut TestKernel, step: &Step) -> Effects {
    kernel.wait(step.wait_ms);
    let commands: Vec<_> = step.actions.iter().map(|action| kernel.command(action)).collect();
    kernel.apply(&commands)
}
