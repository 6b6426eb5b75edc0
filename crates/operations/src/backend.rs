//! What this crate needs of the running hub.

use std::pin::Pin;

use bytes::Bytes;
use ledger::{Administer, ChangeParties, NoticeId, Outcome, PartyBinding, State, TransferId};

use crate::reports::{Cluster, DiskStatus, Health, Snapshots, TransferTrace};

/// Notices without an address that are listed, at most.
pub const PARKED_MAX: usize = 1_000;

/// A future on the heap, which makes [`AdminBackend`] and the table of routes free of generics.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A question about the state; it takes the answer along.
pub type StateQuery = Box<dyn FnOnce(&State) + Send>;

/// The running hub, as operators see it.
pub trait AdminBackend: Send + Sync + 'static {
    /// Records a change and answers with what the kernel decided about it, once that is durable
    /// and applied. On an error nothing is known but that the same change can be asked for again.
    fn administer(&self, change: Administer) -> BoxFuture<'_, Result<Outcome, Unavailable>>;

    /// Records which FSPs serve parties, and beside it who says so and why; answers with what the
    /// kernel decided, once that is durable and applied and look-ups see it.
    fn change_parties(
        &self,
        change: ChangeParties,
        told: ChangeAuthor,
    ) -> BoxFuture<'_, Result<Outcome, Unavailable>>;

    /// Who serves exactly this identifier and sub-identifier, as look-ups see it.
    ///
    /// # Errors
    /// [`Unavailable::Unreadable`].
    fn find_party(
        &self,
        id_type: &str,
        id: &str,
        sub_id: Option<&str>,
    ) -> Result<Option<PartyBinding>, Unavailable>;

    /// Runs a question on a state at least as new as the log's end when it was asked, and returns
    /// afterwards.
    ///
    /// The question runs beside the decisions about money and must be short: it copies what it
    /// wants to know, and what it copies is bounded by the register (10,000 participants) or by
    /// the page size of the list.
    fn ask(&self, question: StateQuery) -> BoxFuture<'_, Result<(), Unavailable>>;

    /// The body of the `POST /transfers` that has this id, read from the log; `None` when there is
    /// none.
    fn prepare_body(&self, id: TransferId) -> BoxFuture<'_, Result<Option<Bytes>, Unavailable>>;

    /// What is known of a transfer, as a document of JSON; `None` when no record made it.
    fn explanation(&self, id: TransferId) -> BoxFuture<'_, Result<Option<Bytes>, Unavailable>>;

    /// Some notices that wait until their recipient registers an address, in order of number, at
    /// most [`PARKED_MAX`].
    fn parked(&self) -> BoxFuture<'_, Vec<NoticeId>>;

    /// Writes the hub's own metrics ([`crate::metrics!`]), read without waiting.
    fn metrics(&self, text: &mut String);

    /// How the hub's parts are, read without waiting.
    fn health(&self) -> Health;

    /// How it stands with states stored beside the log, read without waiting. A hub that stores
    /// none has nothing to say.
    fn snapshots(&self) -> Snapshots {
        Snapshots::default()
    }

    /// Has the state stored beside the log, soon; does not wait for it.
    fn take_snapshot(&self) {}

    /// How much room the log takes and has left, read without waiting.
    fn storage(&self) -> DiskStatus {
        DiskStatus::default()
    }

    /// The nodes that share the log, read without waiting; nobody where the hub has it alone.
    fn cluster(&self) -> Cluster {
        Cluster::default()
    }

    /// Whether stages of transfers are noted.
    fn is_watching(&self) -> bool;

    /// Begins or ends noting stages; what was noted is forgotten.
    fn watch(&self, watching: bool);

    /// What was noted of a transfer: all of it, or nothing.
    fn stages(&self, transfer: &TransferId) -> TransferTrace;
}

/// Who asks for something, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeAuthor {
    /// As it is recorded: a name, the fingerprint of the token, the address.
    pub actor: String,
    /// Text of `X-Reason`, empty without one.
    pub reason: String,
}

/// Why the hub did not answer: 503, 2003 on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// Too many commands wait already; nothing was done.
    #[error("the inbox is full")]
    InboxFull,
    /// As many transfers are being explained as may be at a time.
    #[error("others are being explained; ask again in a second")]
    Busy,
    /// The disk has no room; nothing was done.
    #[error("the disk of the log is full; nothing was recorded")]
    DiskFull,
    /// A disk, or another place, does not give what is asked for.
    #[error("what is asked for cannot be read; the switch's standard error says why")]
    Unreadable,
    /// The log does not give the record that is asked for.
    #[error("the log cannot be read there; GET /storage says why")]
    RecordUnreadable,
    /// The brokers of a shared log did not acknowledge it in time.
    #[error(
        "the brokers of the log did not answer in time: it may be recorded or not; look, and ask \
         again"
    )]
    Unacknowledged,
    /// The brokers of a shared log did not say in time where it ends.
    #[error("the brokers of the log do not answer: nobody knows what is newest; ask again")]
    Unanswered,
    /// The hub has stopped, or stops.
    #[error("the hub has stopped")]
    Stopped,
}
