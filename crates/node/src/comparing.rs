//! Hashes of states that were set aside, to be compared with those of other nodes.
//!
//! A hash takes about a microsecond for each transfer in memory: a thread of its own makes it, and
//! what comes while it is at work is left out. Where a node is driven turn by turn there is no
//! thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use ledger::snapshot::Frozen;
use ledger::{Digest, Position};

/// A state after a record, and its hash.
pub(crate) type Hashed = (Position, Digest);

/// Who hashes.
pub(crate) enum Comparing {
    /// Whoever sets a state aside.
    Here(Option<Hashed>),
    /// A thread, which ends when this is dropped.
    Beside { states: SyncSender<Frozen>, hashes: Receiver<Hashed> },
}

impl Comparing {
    /// Starts a thread.
    pub(crate) fn beside() -> std::io::Result<Self> {
        let (states, waiting) = sync_channel::<Frozen>(0);
        let (done, hashes) = sync_channel(1);
        let hash = move || {
            for state in waiting {
                if done.send((state.position(), state.hash())).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("compare".into()).spawn(hash)?;
        Ok(Self::Beside { states, hashes })
    }

    /// Takes a state to be hashed, unless one is being hashed.
    pub(crate) fn take(&mut self, state: Frozen) {
        match self {
            Self::Here(hashed) => *hashed = Some((state.position(), state.hash())),
            // One that is left out is not compared.
            Self::Beside { states, .. } => _ = states.try_send(state),
        }
    }

    /// The next one that was hashed.
    pub(crate) fn hashed(&mut self) -> Option<Hashed> {
        match self {
            Self::Here(hashed) => hashed.take(),
            Self::Beside { hashes, .. } => hashes.try_recv().ok(),
        }
    }
}
