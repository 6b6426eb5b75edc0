//! A kernel with a small scheme: the hub, and `dfsp1` and `dfsp2` with funds in USD.

use std::sync::LazyLock;

use ledger::{Batch, ChangeReply, Command, Effects, FspName, Genesis, LogIndex, Stamp, State};
use model::Model;

/// Moment of the first record; each further one is a millisecond later.
const BEGINNING_MS: u64 = 1_767_261_600_000;

static SCHEME: LazyLock<ModelledKernel> = LazyLock::new(|| {
    let mut kernel = ModelledKernel { state: State::new(), model: Model::default() };
    let hub = FspName::new("Hub").expect("a name");
    kernel.decide(&Command::Genesis(Genesis { seed: [7; 16], hub }));
    crate::admin::set_up(kernel)
});

/// The scheme as it was set up.
pub(crate) fn scheme() -> ModelledKernel {
    SCHEME.clone()
}

/// The kernel, and the model that predicts each of its batches.
#[derive(Clone)]
pub(crate) struct ModelledKernel {
    pub(crate) state: State,
    model: Model,
}

impl ModelledKernel {
    /// Decides one command as a batch of its own.
    pub(crate) fn decide(&mut self, command: &Command) -> ChangeReply {
        let first = self.state.log_index().0 + 1;
        let effects = self.apply(command, Stamp::from_millis(BEGINNING_MS + first));
        effects.decided(LogIndex(first), effects.outcomes[0])
    }

    /// Decides one command as a batch with this stamp.
    pub(crate) fn apply(&mut self, command: &Command, stamp: Stamp) -> Effects {
        let effects = apply(&mut self.state, [command], stamp);
        self.model.begin(stamp);
        assert_eq!(effects.outcomes, [self.model.decide(command)], "{command:?}");
        self.model.compare(&self.state, &effects);
        effects
    }

    pub(crate) fn compare_in_full(&self) {
        self.model.compare_in_full(&self.state);
    }
}

/// Applies one batch.
pub(crate) fn apply<'a>(
    state: &mut State,
    commands: impl IntoIterator<Item = &'a Command>,
    stamp: Stamp,
) -> Effects {
    let first = LogIndex(state.log_index().0 + 1);
    let batch = Batch { first, stamp, node: 1, epoch: 1, sequence: first.0 };
    let mut effects = Effects::default();
    state.apply(&batch, commands, &mut effects);
    effects
}
