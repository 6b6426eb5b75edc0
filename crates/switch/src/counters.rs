//! Counters of the I/O threads, declared once: those of a thread and their sums.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count that one thread raises and others read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        // One writer: no read-modify-write is needed.
        self.0.store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    /// For a count that falls as well.
    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one thread.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        /// Sums over all threads.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            /// Adds what a thread has counted.
            pub(crate) fn add(&mut self, thread: &Counters) {
                $(self.$name += thread.$name.get();)*
            }
        }
    };
}

counters! {
    /// Requests accepted.
    requests,
    /// Requests refused.
    refused,
    /// Messages forwarded without a record.
    forwards,
    /// Of these, those that could not be delivered.
    forwards_failed,
    /// Tries to deliver a notice, those too for which its message could not be read.
    attempts,
    /// Connections from clients taken.
    connections,
    /// Connections from clients turned away because too many were open.
    connections_refused,
    /// Connections that lost their place to a new one.
    connections_evicted,
    /// Requests that were no HTTP, not whole, too slow, or open to two readings.
    malformed,
    /// System calls that read from a socket, of a client or a participant, and found something.
    socket_reads,
    /// System calls that wrote to one.
    socket_writes,
    /// Calls to participants not made because their address is not allowed.
    calls_denied,
    /// Messages that changed nothing because their sender is not a participant.
    unknown_senders,
    /// Notices that wait for an address, as of the last look at the lanes.
    parked,
    /// Signatures of participants that were good.
    signatures_verified,
    /// Messages refused because their signature was not.
    signatures_refused,
    /// The hub's own messages that were to be signed.
    signatures_asked,
    /// Of these, those that were; the others failed, or wait.
    signatures_made,
    /// Of these, those that could not be, and were not sent.
    signatures_failed,
}
