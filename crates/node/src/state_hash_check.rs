//! Hashes of frozen states, to be compared with those of other nodes.
//!
//! A hash takes about 1 µs per transfer in memory. It is computed on a separate thread; a state
//! that arrives while the thread is busy is skipped. A node that is driven turn by turn has no such
//! thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use ledger::snapshot::StateSnapshot;
use ledger::{Digest, LogIndex};

/// A state after a record, and its hash.
pub(crate) type StateAtIndex = (LogIndex, Digest);

/// Computes state hashes.
pub(crate) enum StateHashCheck {
    /// On the calling thread.
    Here(Option<StateAtIndex>),
    /// On a separate thread, which ends when this is dropped.
    Beside { states: SyncSender<StateSnapshot>, hashes: Receiver<StateAtIndex> },
}

impl StateHashCheck {
    /// Starts a thread.
    pub(crate) fn beside() -> std::io::Result<Self> {
        let (states, waiting) = sync_channel::<StateSnapshot>(0);
        let (done, hashes) = sync_channel(1);
        let hash = move || {
            for state in waiting {
                if done.send((state.log_index(), state.hash())).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("compare".into()).spawn(hash)?;
        Ok(Self::Beside { states, hashes })
    }

    /// Accepts a state for hashing, unless another one is being hashed.
    pub(crate) fn take(&mut self, state: StateSnapshot) {
        match self {
            Self::Here(hashed) => *hashed = Some((state.log_index(), state.hash())),
            // A skipped state is not compared.
            Self::Beside { states, .. } => _ = states.try_send(state),
        }
    }

    /// The next finished hash.
    pub(crate) fn hashed(&mut self) -> Option<StateAtIndex> {
        match self {
            Self::Here(hashed) => hashed.take(),
            Self::Beside { hashes, .. } => hashes.try_recv().ok(),
        }
    }
}
