//! A restored state decides like the original.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::history::{CASES, Step, World, history};
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
        let mut one = World::new();
        steps[..at].iter().for_each(|step| drop(play(&mut one, step)));
        let mut other = one.clone();
        other.state = again(&one.state);
        prop_assert_eq!(one.state.hash(), other.state.hash());
        for step in &steps[at..] {
            let effects = play(&mut one, step);
            let same = play(&mut other, step);
            prop_assert_eq!(&effects.outcomes, &same.outcomes);
            prop_assert_eq!(&effects.notices, &same.notices);
            prop_assert_eq!(&effects.withdrawn, &same.withdrawn);
            prop_assert_eq!(effects.register_changed, same.register_changed);
            prop_assert_eq!(&effects.results, &same.results);
            prop_assert_eq!(one.state.digest(), other.state.digest());
        }
        prop_assert_eq!(one.state.hash(), other.state.hash());
        prop_assert_eq!(one.state.parts().head(), other.state.parts().head());
        prop_assert_eq!(rows::<FinalTransfer>(&one.state), rows(&other.state));
        prop_assert_eq!(rows::<ReservedTransfer>(&one.state), rows(&other.state));
    }

    #[test]
    fn snapshot_does_not_change_with_the_state(steps in history(), at in any::<u16>()) {
        let at = usize::from(at) % (steps.len() + 1);
        let mut world = World::new();
        steps[..at].iter().for_each(|step| drop(play(&mut world, step)));
        let hash = world.state.hash();
        let mut aside = world.state.freeze();
        steps[at..].iter().for_each(|step| drop(play(&mut world, step)));
        prop_assert_eq!(aside.hash(), hash);
        prop_assert_eq!(again_of(aside.parts()).hash(), hash);
        // Eviction does not change the logical state.
        while 0 < aside.let_go(2) {}
        let again = again_of(aside.parts());
        prop_assert_eq!(again.transfers_hot(), 0);
        prop_assert_eq!(again.hash(), hash);
    }
}

#[test]
fn empty_state_round_trips() {
    assert_eq!(again(&State::new()).hash(), State::new().hash());
}

fn again(state: &State) -> State {
    again_of(state.parts())
}

fn again_of(parts: StateTables<'_>) -> State {
    put_together(parts).expect("the parts of a state make one")
}

pub(super) fn put_together(parts: StateTables<'_>) -> Result<State, RowError> {
    let mut again = StoredRows(StateBuilder::new(parts.head())?);
    parts.tables(&mut again)?;
    Ok(again.0.finish()?)
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

fn play(world: &mut World, step: &Step) -> Effects {
    world.wait(step.wait_ms);
    let commands: Vec<_> = step.acts.iter().map(|act| world.command(act)).collect();
    world.apply(&commands)
}
