//! The kernel proved from outside: tables of commands with what they must bring about, and
//! properties of any history. `tests/model.rs` compares histories with an independent model.

mod cold;
mod history;
mod outcomes;
mod parts;
mod precedence;
mod properties;
mod questions;
mod scenario;
mod scenarios;
mod snapshot;
mod telling;
mod touches;

/// Applies batches and checks what the kernel records about each decision.
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
            super::telling::apply(state, batch, commands, effects);
        }
    }
}
