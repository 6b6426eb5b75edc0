//! Everything that can happen, in order of virtual time.

use std::collections::BTreeMap;

use delivery::AttemptResult;
use ledger::{Notice, NoticeId, Outcome};

use crate::transfers::Request;

/// Something that happens at a moment.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A request reaches the hub.
    Arrive(Request),
    /// The hub's answer to a request reaches who sent it; `None` is "unavailable".
    Reply(Request, Option<Outcome>),
    /// A callback reaches an FSP.
    Callback(u8, Box<Callback>),
    /// The next payer makes a transfer.
    NewTransfer,
    /// A payer looks after a transfer.
    PayerTimer(u32),
    /// A payee looks after a transfer.
    PayeeTimer(u32),
    /// The operator acts.
    Operator,
    /// The registry workload acts.
    Registry,
    /// The outcome workload acts.
    Outcomes,
    /// The currency workload acts.
    Currencies,
    /// The settlement workload acts.
    Settlement,
    /// The workload of the party directory acts.
    Parties,
    /// The workload of quotes and requests to pay acts.
    Quotes,
    /// The next payer makes a bulk transfer.
    Bulks,
    /// A payer looks after a bulk transfer.
    BulkPayerTimer(u32),
    /// A payee looks after a bulk transfer.
    BulkPayeeTimer(u32),
    /// Something breaks.
    Fault(FaultKind),
    /// The cause of a temporary fault ends.
    Repair(FaultKind),
    /// A snapshot of the state is taken.
    Snapshot,
    /// Closed segments are packed or leave.
    Archive,
    /// The hub's process starts.
    Start,
    /// An event within one epoch of the hub's process.
    Hub(u32, HubEvent),
    /// Is everything at rest?
    CheckRest,
}

/// A callback as an FSP receives it.
#[derive(Clone, Debug)]
pub(crate) struct Callback {
    pub(crate) notice: Notice,
    /// The request that the notice is made from, if its message needs it.
    pub(crate) source: Option<Request>,
}

/// Something within the hub's process.
#[derive(Clone, Debug)]
pub(crate) enum HubEvent {
    /// An I/O thread hands over what it gathered.
    Flush(u8),
    /// An I/O thread has mail.
    Mail(u8),
    /// An I/O thread's delivery policy wants to try something again.
    Retry(u8),
    /// Finished deliveries have waited long enough for a record.
    Record(u8),
    /// An attempt to deliver a notice ended.
    Attempted(u8, NoticeId, AttemptResult),
    /// An FSP asked for a pause, in microseconds.
    PauseAsked(u8, u8, u64),
    /// An FSP has registered an address.
    Addressed(u8),
    /// The sequencer's thread looks for work.
    Step,
    /// The sequencer's thread has slept long enough.
    Wake(u64),
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Crash,
    Torn,
    Sync,
    Full,
    Fsp,
    Clock,
}

/// The events to come, the earliest first; of one moment, the one added first.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    events: BTreeMap<(u64, u64), E>,
    added: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { events: BTreeMap::new(), added: 0 }
    }
}

impl<E> Queue<E> {
    pub(crate) fn add(&mut self, at: u64, event: E) {
        self.added += 1;
        self.events.insert((at, self.added), event);
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }
}
