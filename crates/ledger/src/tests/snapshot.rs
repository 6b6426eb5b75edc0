//! A state that was taken apart and put together again decides as the first one does.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::history::{CASES, Step, World, history};
use crate::snapshot::{Builder, Inconsistent, Parts};
use crate::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn a_state_put_together_again_goes_on_as_the_first(steps in history(), at in any::<u16>()) {
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
            prop_assert_eq!(one.state.digest(), other.state.digest());
        }
        prop_assert_eq!(one.state.hash(), other.state.hash());
        prop_assert_eq!(one.state.parts().head(), other.state.parts().head());
        prop_assert!(one.state.parts().ended().eq(other.state.parts().ended()));
        prop_assert_eq!(one.state.parts().active(), other.state.parts().active());
    }

    #[test]
    fn what_is_set_aside_stays_as_it_is(steps in history(), at in any::<u16>()) {
        let at = usize::from(at) % (steps.len() + 1);
        let mut world = World::new();
        steps[..at].iter().for_each(|step| drop(play(&mut world, step)));
        let hash = world.state.hash();
        let mut aside = world.state.freeze();
        steps[at..].iter().for_each(|step| drop(play(&mut world, step)));
        prop_assert_eq!(aside.hash(), hash);
        prop_assert_eq!(again_of(aside.parts()).hash(), hash);
        // Wherever the rows of ended transfers live, it is the same state.
        while 0 < aside.let_go(2) {}
        let again = again_of(aside.parts());
        prop_assert_eq!(again.transfers_hot(), 0);
        prop_assert_eq!(again.hash(), hash);
    }
}

#[test]
fn the_state_before_the_first_record_has_parts_too() {
    assert_eq!(again(&State::new()).hash(), State::new().hash());
}

fn again(state: &State) -> State {
    again_of(state.parts())
}

fn again_of(parts: Parts<'_>) -> State {
    put_together(parts).expect("the parts of a state make one")
}

fn put_together(parts: Parts<'_>) -> Result<State, Inconsistent> {
    let mut builder = Builder::new(parts.head())?;
    parts.accounts().for_each(|account| builder.account(account.clone()));
    parts.participants().for_each(|participant| builder.participant(participant.clone()));
    parts.models().iter().for_each(|model| builder.model(model.clone()));
    parts.oracles().iter().for_each(|(id, oracle)| builder.oracle(*id, oracle.clone()));
    parts.account_types().iter().for_each(|added| builder.account_type(added.clone()));
    parts.active().into_iter().try_for_each(|row| builder.active(row.clone()))?;
    parts.outflows().try_for_each(|(id, row)| builder.outflow(*id, row.clone()))?;
    parts.ended().try_for_each(|row| builder.ended(row.clone()))?;
    parts.notices().into_iter().try_for_each(|notice| builder.notice(*notice))?;
    parts.dead_letters().try_for_each(|letter| builder.dead_letter(*letter))?;
    builder.finish()
}

fn play(world: &mut World, step: &Step) -> Effects {
    world.wait(step.wait_ms);
    let commands: Vec<_> = step.acts.iter().map(|act| world.command(act)).collect();
    world.apply(&commands)
}
