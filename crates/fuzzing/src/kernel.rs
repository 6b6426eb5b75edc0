//! The kernel with a small scheme in it: the hub, and `dfsp1` and `dfsp2` in USD with funds.

use std::sync::LazyLock;

use ledger::{Batch, Command, Effects, FspName, Genesis, Outcome, Position, Stamp, State};

/// Moment of the first record; each further one is a millisecond later.
const BEGINNING_MS: u64 = 1_767_261_600_000;

static SCHEME: LazyLock<State> = LazyLock::new(|| {
    let mut state = State::new();
    let hub = FspName::new("Hub").expect("a name");
    decide(&mut state, &Command::Genesis(Genesis { seed: [7; 16], hub }));
    crate::admin::set_up(state)
});

/// The scheme as it was set up.
pub(crate) fn scheme() -> State {
    SCHEME.clone()
}

/// Decides one command as a batch of its own.
pub(crate) fn decide(state: &mut State, command: &Command) -> Outcome {
    let first = Position(state.position().0 + 1);
    let stamp = Stamp::from_millis(BEGINNING_MS + first.0);
    let batch = Batch { first, stamp, node: 1, epoch: 1, sequence: first.0 };
    let mut effects = Effects::default();
    state.apply(&batch, [command], &mut effects);
    effects.outcomes[0]
}
