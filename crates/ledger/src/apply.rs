//! Applies batches: the only function that changes the state.

use crate::command::Command;
use crate::commands;
use crate::context::Context;
use crate::ids::LogIndex;
use crate::outcome::Outcome;
use crate::state::{ApplyStep, Batch, Effects, State};

/// Number of batches between two full sums of all accounts. Each batch asserts its own postings.
const FULL_SUM_INTERVAL: u64 = 1_024;

impl State {
    /// Decides one batch. `effects` must be empty.
    ///
    /// Panics if the batch does not follow the last one or an accounting invariant breaks. The node
    /// must then stop before it acknowledges anything of the batch.
    pub fn apply<'a>(
        &mut self,
        batch: &Batch,
        commands: impl IntoIterator<Item = &'a Command>,
        effects: &mut Effects,
    ) {
        self.apply_watched(batch, commands, effects, &mut |_, _, _| {});
    }

    /// [`State::apply`] with an observer, which is called at each [`ApplyStep`] with the state and
    /// the effects so far. It cannot change them. The cost of the observer comes on top.
    ///
    /// Panics like [`State::apply`].
    pub fn apply_watched<'a>(
        &mut self,
        batch: &Batch,
        commands: impl IntoIterator<Item = &'a Command>,
        effects: &mut Effects,
        watch: &mut impl FnMut(ApplyStep<'_>, &Self, &Effects),
    ) {
        assert_eq!(batch.first.0, self.log_index.0 + 1, "batches follow each other without a gap");
        assert!(batch.stamp >= self.stamp, "time never runs backwards in the log");
        assert!(effects.outcomes.is_empty(), "effects are cleared between batches");
        self.stamp = batch.stamp;
        let mut context = Context { state: self, effects, log_index: batch.first };
        watch(ApplyStep::Opened, context.state, context.effects);
        while let Some(id) = commands::next_due(&context) {
            watch(ApplyStep::Expiring(id), context.state, context.effects);
            commands::expire_next(&mut context);
            watch(ApplyStep::Expired(id), context.state, context.effects);
        }
        watch(ApplyStep::DeadlinesFired, context.state, context.effects);
        for (at, command) in commands.into_iter().enumerate() {
            context.log_index = LogIndex(batch.first.0 + at as u64);
            watch(ApplyStep::Before(context.log_index, command), context.state, context.effects);
            let outcome = match context.is_repeat(batch, at as u64) {
                true => Outcome::Repeated,
                false => commands::decide(&mut context, command, watch),
            };
            context.record_outcome(outcome);
            let after = ApplyStep::After(context.log_index, command, outcome);
            watch(after, context.state, context.effects);
        }
        self.close_batch();
    }

    pub(crate) fn close_batch(&mut self) {
        self.accounts.assert_balanced();
        self.batches += 1;
        if self.batches.is_multiple_of(FULL_SUM_INTERVAL) {
            self.accounts.assert_balanced_in_full();
        }
        self.digest = self.batch_digest.close(&self.digest);
    }
}
