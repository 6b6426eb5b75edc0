//! Hashes of states that were set aside, to be compared with those of other nodes.
//!
//! A hash takes about a microsecond for each transfer in memory: a thread of its own makes it, and
//! what comes while it is at work is left out. Where a node is driven turn by turn there is no
//! thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use ledger::snapshot::StateSnapshot;
use ledger::{Digest, LogIndex};

/// A state after a record, and its hash.
pub(crate) type StateAtIndex = (LogIndex, Digest);

/// Who hashes.
pub(crate) enum StateHashCheck {
    /// Whoever sets a state aside.
    Here(Option<StateAtIndex>),
    /// A thread, which ends when this is dropped.
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

    /// Takes a state to be hashed, unless one is being hashed.
    pub(crate) fn take(&mut self, state: StateSnapshot) {
        match self {
            Self::Here(hashed) => *hashed = Some((state.log_index(), state.hash())),
            // One that is left out is not compared.
            Self::Beside { states, .. } => _ = states.try_send(state),
        }
    }

    /// The next one that was hashed.
    pub(crate) fn hashed(&mut self) -> Option<StateAtIndex> {
        match self {
            Self::Here(hashed) => hashed.take(),
            Self::Beside { hashes, .. } => hashes.try_recv().ok(),
        }
    }
}
