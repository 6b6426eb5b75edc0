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
    Inline(Option<StateAtIndex>),
    /// On a separate thread, which ends when this is dropped.
    Thread { states: SyncSender<StateSnapshot>, hashes: Receiver<StateAtIndex> },
}

impl StateHashCheck {
    /// Starts a thread.
    pub(crate) fn on_thread() -> std::io::Result<Self> {
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
        Ok(Self::Thread { states, hashes })
    }

    /// Accepts a state for hashing, unless another one is being hashed.
    pub(crate) fn take(&mut self, state: StateSnapshot) {
        match self {
            Self::Inline(hashed) => *hashed = Some((state.log_index(), state.hash())),
            // A skipped state is not compared.
            Self::Thread { states, .. } => _ = states.try_send(state),
        }
    }

    /// The next finished hash.
    pub(crate) fn hashed(&mut self) -> Option<StateAtIndex> {
        match self {
            Self::Inline(hashed) => hashed.take(),
            Self::Thread { hashes, .. } => hashes.try_recv().ok(),
        }
    }
}
