//! Tests of the kernel from outside: tables of commands with their expected effects, and properties
//! of all histories. `tests/model.rs` compares histories with an independent model.

mod decision_recorder;
mod eviction;
mod history;
mod outcomes;
mod position_jumps;
mod precedence;
mod properties;
mod query;
mod scenario;
mod scenarios;
mod senders;
mod snapshot;
mod snapshot_validation;
mod touches;
mod trial;

/// Applies batches, and checks the recorded decisions, those of a trial and jumps.
mod watcher {
    use crate::{Batch, Command, Effects, State};

    #[derive(Clone)]
    pub(super) struct Watcher;

    impl Watcher {
        pub(super) fn new() -> Self {
            Self
        }

        pub(super) fn apply(
            &mut self,
            state: &mut State,
            batch: &Batch,
            commands: &[Command],
            effects: &mut Effects,
        ) {
            let tried = super::trial::tried(state, commands);
            let before = super::position_jumps::before(state, commands);
            super::decision_recorder::apply(state, batch, commands, effects);
            super::position_jumps::compare((state, commands), before, effects);
            super::trial::compare(state, batch, (tried, effects));
        }
    }
}
