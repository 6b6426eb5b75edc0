//! The kernel and the naive model agree about every outcome, balance and state.

use alloc::format;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::history::{CASES, IDS, Step, World, history, id};
use super::model::{Model, Stands};
use crate::TransferState;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn the_model_predicts_the_kernel(steps in history()) {
        let (mut world, mut model) = (World::new(), Model::new());
        for step in &steps {
            agree_about(&mut world, &mut model, step)?;
        }
    }
}

fn agree_about(world: &mut World, model: &mut Model, step: &Step) -> Result<(), TestCaseError> {
    world.wait(step.wait_ms);
    model.wait(step.wait_ms);
    let commands: Vec<_> = step.acts.iter().map(|act| world.command(act)).collect();
    let effects = world.apply(&commands);
    for (act, outcome) in step.acts.iter().zip(&effects.outcomes) {
        if let Some(predicted) = model.predict(act) {
            prop_assert_eq!(format!("{outcome:?}"), predicted, "{:?}", act);
        }
    }
    for party in 0..3 {
        prop_assert_eq!(world.balances(party), model.balances(party), "party {}", party);
    }
    for number in 0..IDS {
        let stands = world.state.view(&id(number)).map(|view| match view.state {
            TransferState::Reserved => Stands::Reserved,
            TransferState::Committed => Stands::Committed,
            TransferState::Aborted => Stands::Aborted,
        });
        prop_assert_eq!(stands, model.stands(number), "id {}", number);
    }
    Ok(())
}
