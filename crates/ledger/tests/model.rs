//! The independent model predicts every batch of every history: each outcome, balance and notice.

extern crate alloc;

#[path = "../src/tests/history.rs"]
mod history;

use ledger::*;
use proptest::prelude::*;

use history::{CASES, TestKernel, history};

/// Applies batches and compares each with the model.
mod watcher {
    use ledger::{Batch, Command, Effects, State};
    use model::Model;

    #[derive(Clone)]
    pub(super) struct Watcher(Model);

    impl Watcher {
        pub(super) fn new() -> Self {
            Self(Model::default())
        }

        pub(super) fn apply(
            &mut self,
            state: &mut State,
            batch: &Batch,
            commands: &[Command],
            effects: &mut Effects,
        ) {
            if state.log_index().0 == 0 {
                self.0.begin_under(state.rules_version());
            }
            state.apply(batch, commands, effects);
            self.0.begin(batch.stamp);
            for (command, outcome) in commands.iter().zip(&effects.outcomes) {
                assert_eq!(*outcome, self.0.decide(command), "{command:?}");
            }
            self.0.compare(state, effects);
            self.0.compare_in_full(state);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn model_predicts_the_kernel(steps in history()) {
        let mut kernel = TestKernel::new();
        for step in &steps {
            kernel.wait(step.wait_ms);
            let commands: Vec<_> = step.actions.iter().map(|it| kernel.command(it)).collect();
            kernel.apply(&commands);
        }
    }

    /// A log of the rules before settlement, which activates newer ones after some steps.
    #[test]
    fn model_predicts_a_log_of_older_rules(steps in history(), until in 0..20usize) {
        let mut kernel = TestKernel::under(1);
        for (at, step) in steps.iter().enumerate() {
            kernel.wait(step.wait_ms);
            if at == until {
                kernel.administer(Activate { rules_version: RULES_VERSION }.into());
            }
            let commands: Vec<_> = step.actions.iter().map(|it| kernel.command(it)).collect();
            kernel.apply(&commands);
        }
    }
}
