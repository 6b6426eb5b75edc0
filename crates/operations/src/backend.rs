//! The interface of this crate to the running hub.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use fspiop::egress_policy::EgressPolicy;
use http::StatusCode;
use ledger::{
    Administer, Amount, ArchiveKind, ArchivedSettlement, ChangeReply, Currency, Erase, FspName,
    LogIndex, NoticeId, OperatorBook, ParticipantIndex, PartyBinding, Proposal, Stamp, State,
    TransferId,
};
use metrics::Family;
use ports::{TransferEntry, TransferPlace, TransferQuery};
use tokio::sync::mpsc::Receiver;

use crate::audit_log::{AuditPage, AuditQuery};
use crate::contents::PaymentContents;
use crate::data_keys::RotatedKey;
use crate::erasures::{
    ErasurePlan, ErasureReport, ErasureSelection, RetentionOverride, RetentionReport,
};
use crate::events::{EventPage, EventPublishing, EventQuery};
use crate::explanations::ExplanationOptions;
use crate::reports::{Cluster, DiskStatus, Health, Snapshots, TransferTrace};
use crate::statements::{ParticipantStatementRequest, Statement, StatementRefusal};
use crate::status::Activity;
use crate::trace_search::{TracePage, TraceQuery};

/// Why a notice waits for its recipient to register an endpoint.
pub const NO_ENDPOINT: &str = "no usable endpoint is registered for this callback";
/// Maximum number of listed notices without an endpoint.
pub const PARKED_MAX: usize = 1_000;
/// Maximum number of archived windows or settlements that are read at once.
pub const ARCHIVED_MAX: usize = 100;

/// A boxed future, which keeps [`AdminBackend`] and the table of routes free of generics.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A query of the state; the closure stores its result.
pub type StateQuery = Box<dyn FnOnce(&State) + Send>;

/// The body of a recorded `POST /transfers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrepareBody {
    /// As it was received.
    Stored(Bytes),
    /// An erasure removed it from the log.
    Erased,
}

/// The operations of the running hub that the admin API uses.
pub trait AdminBackend: Send + Sync + 'static {
    /// Records a change and returns the kernel's decision once it is durable and applied. After an
    /// error it is unknown whether the change was made; the same change may be requested again.
    fn administer(&self, change: Administer) -> BoxFuture<'_, Result<ChangeReply, Unavailable>>;

    /// Hands over a record of a request that made no change ([`ledger::RecordAudit`]), and does not
    /// wait for it. `false` if the log has no room for it now, or its rules do not know it. The
    /// default is for a hub without an audit trail.
    fn record_audit(&self, _entry: Administer) -> bool {
        false
    }

    /// A page of the audit trail with all requests that were answered before, read from the log on
    /// a separate thread: at most [`AUDIT_READ_MAX`](crate::AUDIT_READ_MAX) records. The default is
    /// for a hub without a log.
    fn audit_page(&self, _query: AuditQuery) -> BoxFuture<'_, Result<AuditPage, Unavailable>> {
        Box::pin(async { Ok(AuditPage::default()) })
    }

    /// A page of events of the log up to its durable end, made on a separate thread. The default is
    /// for a hub without a log.
    fn events_page(&self, _query: EventQuery) -> BoxFuture<'_, Result<EventPage, Unavailable>> {
        Box::pin(async { Ok(EventPage::default()) })
    }

    /// A page of the messages of a trace, read from the log on a separate thread: at most
    /// [`TRACE_READ_MAX`](crate::TRACE_READ_MAX) records. The default is for a hub without a log.
    fn trace_page(&self, _query: TraceQuery) -> BoxFuture<'_, Result<TracePage, Unavailable>> {
        Box::pin(async { Ok(TracePage::default()) })
    }

    /// The pages of events after a position, as they become durable. At most one waits to be taken.
    /// The default is for a hub without a log.
    ///
    /// # Errors
    /// [`Unavailable::TooManyFollow`], if too many clients follow.
    fn follow_events(&self, _query: EventQuery) -> Result<Receiver<EventPage>, Unavailable> {
        Err(Unavailable::Stopped)
    }

    /// The entries of exactly this identifier and sub-identifier, as look-ups see them.
    ///
    /// # Errors
    /// [`Unavailable::Unreadable`].
    fn find_party(
        &self,
        id_type: &str,
        id: &str,
        sub_id: Option<&str>,
    ) -> Result<Vec<PartyBinding>, Unavailable>;

    /// Proposals with the identifiers of parties, which the state has as hashes. Read from their
    /// records, on a separate thread; hashes of erased identifiers stay. The default is for a hub
    /// without a log.
    fn reveal_proposals(
        &self,
        proposals: Vec<Proposal>,
    ) -> BoxFuture<'_, Result<Vec<Proposal>, Unavailable>> {
        Box::pin(async { Ok(proposals) })
    }

    /// Operators, their roles and tokens, as of the newest record that this node has applied. Does
    /// not block.
    fn operators(&self) -> Arc<OperatorBook>;

    /// Runs a query on a state at least as new as the end of the log at the time of the call, and
    /// returns afterwards.
    ///
    /// The query runs on the sequencer thread and must be short. The data that it copies is bounded
    /// by the registry (10,000 participants) or by the page size of the list.
    fn query_state(&self, query: StateQuery) -> BoxFuture<'_, Result<(), Unavailable>>;

    /// The body of the `POST /transfers` with this id, read from the log; `None` if the transfer is
    /// unknown.
    fn prepare_body(
        &self,
        id: TransferId,
    ) -> BoxFuture<'_, Result<Option<PrepareBody>, Unavailable>>;

    /// The history of a transfer; `None` if it has no record.
    fn explanation(
        &self,
        id: TransferId,
        options: ExplanationOptions,
    ) -> BoxFuture<'_, Result<Option<Bytes>, Unavailable>>;

    /// The messages about a transfer, read from the log; `None` if it has no record. At most
    /// [`CONTENTS_MAX`](crate::CONTENTS_MAX) of them, and none after
    /// [`CONTENTS_BYTES_MAX`](crate::CONTENTS_BYTES_MAX). The default is for a hub without a log.
    fn message_contents(
        &self,
        _id: TransferId,
    ) -> BoxFuture<'_, Result<Option<PaymentContents>, Unavailable>> {
        Box::pin(async { Ok(None) })
    }

    /// The records that an erasure with a reason would affect, found on a separate thread; `None`
    /// if no record is about the transfer. The default is for a hub without a log.
    fn plan_erasure(
        &self,
        _selection: ErasureSelection,
        _reason: String,
    ) -> BoxFuture<'_, Result<Option<ErasurePlan>, Unavailable>> {
        Box::pin(async { Ok(None) })
    }

    /// Whether a reason has an identifier of a party in the contents of an erasure. The default is
    /// for a hub without a log.
    fn names_party(
        &self,
        _erase: Erase,
        _reason: String,
    ) -> BoxFuture<'_, Result<bool, Unavailable>> {
        Box::pin(async { Ok(false) })
    }

    /// The erasures that records before one ordered, or all, with their progress, newest first, at
    /// most [`ERASURES_LISTED_MAX`](crate::ERASURES_LISTED_MAX). The default is for a hub without a
    /// log.
    fn erasures(
        &self,
        _before: Option<LogIndex>,
    ) -> BoxFuture<'_, Result<Vec<ErasureReport>, Unavailable>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Each kind of contents that is erased by age, with what would be erased now. The default is
    /// for a hub without a log.
    fn plan_retention(
        &self,
        _other: RetentionOverride,
    ) -> BoxFuture<'_, Result<Vec<RetentionReport>, Unavailable>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// The statement of a participant over a period, computed from the log, on a separate thread.
    fn participant_statement(
        &self,
        request: ParticipantStatementRequest,
    ) -> BoxFuture<'_, Result<Result<Statement, StatementRefusal>, Unavailable>>;

    /// Stored windows or settlements with numbers in a range, in order of number, at most
    /// [`ARCHIVED_MAX`]. All that left memory before the call are among them. A row whose number is
    /// still in memory may be of an earlier state: memory takes precedence.
    fn archived(
        &self,
        kind: ArchiveKind,
        numbers: RangeInclusive<u32>,
    ) -> BoxFuture<'_, Result<Vec<ArchivedSettlement>, Unavailable>>;

    /// A page of final transfers, with all that a record up to [`TransferQuery::up_to`] ended. The
    /// default is for a hub without a cold store.
    fn final_transfers(
        &self,
        _query: TransferQuery,
    ) -> BoxFuture<'_, Result<ListedTransfers, Unavailable>> {
        Box::pin(async { Ok(ListedTransfers::default()) })
    }

    /// The trend of a position over the last hour; `None` if it is unknown. Does not block. The
    /// default is for a hub that keeps no samples.
    fn position_trend(&self, _of: (ParticipantIndex, Currency)) -> Option<PositionTrend> {
        None
    }

    /// Notices that wait until their recipient registers an endpoint, in order of number, at
    /// most [`PARKED_MAX`].
    fn parked_notices(&self) -> BoxFuture<'_, Vec<NoticeId>>;

    /// Why these notices wait: [`NO_ENDPOINT`], or the failure of the last attempt. Those whose
    /// first attempt is under way, and those that another node delivers, are left out.
    fn wait_reasons(&self, notices: Vec<NoticeId>) -> BoxFuture<'_, HashMap<NoticeId, String>>;

    /// The metrics of the node. Does not block.
    fn metrics(&self) -> Vec<Family>;

    /// The health of the hub's parts. Does not block.
    fn health(&self) -> Health;

    /// Figures of the last seconds, and the queues. Does not block. The default is for a hub
    /// without measurements.
    fn activity(&self) -> Activity {
        Activity::default()
    }

    /// The status of snapshots. Does not block. The default is for a hub without snapshots.
    fn snapshots(&self) -> Snapshots {
        Snapshots::default()
    }

    /// Calls the host of an endpoint of a participant; returns its address and the status of its
    /// response, or why it has none. The default is for a hub that makes no calls.
    fn call_endpoint<'a>(
        &'a self,
        _policy: &'a EgressPolicy,
        _endpoint: (FspName, &'a str),
    ) -> BoxFuture<'a, Result<(SocketAddr, StatusCode), String>> {
        Box::pin(async { Err("this hub makes no calls".to_owned()) })
    }

    /// Requests a snapshot; does not wait for it.
    fn take_snapshot(&self) {}

    /// Makes a new data key; `None` if the data directory is not encrypted. The default is for a
    /// hub without encryption.
    fn rotate_data_key(&self) -> BoxFuture<'_, Result<Option<RotatedKey>, Unavailable>> {
        Box::pin(async { Ok(None) })
    }

    /// Makes a new data key for the contents of a participant, so that the ones before can be
    /// destroyed with these contents. Returns the time after which none of them encrypts; `None` if
    /// the participant has no key of its own, or if no new one can be made. The default is for a
    /// hub without encryption.
    fn replace_key_of(
        &self,
        _participant: FspName,
    ) -> BoxFuture<'_, Result<Option<Stamp>, Unavailable>> {
        Box::pin(async { Ok(None) })
    }

    /// Disk space used by the log and free. Does not block.
    fn storage(&self) -> DiskStatus {
        DiskStatus::default()
    }

    /// The nodes that share the log; empty if the log is not shared. Does not block.
    fn cluster(&self) -> Cluster {
        Cluster::default()
    }

    /// The progress of the publisher of events; `None` if none are published. Does not block.
    fn event_publishing(&self) -> Option<EventPublishing> {
        None
    }

    /// The settings of the switch as JSON, without secrets. The default is for a hub without a
    /// configuration.
    fn configuration(&self) -> Bytes {
        Bytes::from_static(br#"{"settings":[],"warnings":[],"bounds":[]}"#)
    }

    /// Whether transfers are traced.
    fn is_tracing(&self) -> bool;

    /// Turns tracing on or off; existing traces are deleted.
    fn set_tracing(&self, enabled: bool);

    /// The trace of a transfer; empty unless it is complete.
    fn trace(&self, transfer: &TransferId) -> TransferTrace;
}

/// Final transfers, newest first.
#[derive(Clone, Debug, Default)]
pub struct ListedTransfers {
    /// The transfers.
    pub transfers: Vec<ListedTransfer>,
    /// The place before which the next page begins, if there may be one.
    pub next: Option<TransferPlace>,
    /// Transfers that ended up to this record may be missing; 0 if all are listed.
    pub missing_up_to: LogIndex,
}

/// A final transfer with the meaning of its outcome.
#[derive(Clone, Copy, Debug)]
pub struct ListedTransfer {
    /// The transfer.
    pub entry: TransferEntry,
    /// The error code that its payer got from the hub; `None` if it got that of the payee.
    pub error_code: Option<u16>,
    /// Why it ended.
    pub reason: &'static str,
}

/// The trend of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionTrend {
    /// Change per hour; above zero the debt grows.
    pub per_hour: Amount,
    /// Time of the newest position that it is computed from.
    pub at: Stamp,
}

/// The author of a change, and the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeAuthor {
    /// As recorded: a name, the token by its id or fingerprint, the address.
    pub actor: String,
    /// Text of `X-Reason`, empty without one.
    pub reason: String,
}

/// The reason why the hub cannot answer: 503, 2003 on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The command queue is full; nothing was recorded.
    #[error("the command queue is full; nothing was recorded; retry later")]
    InboxFull,
    /// The limit of concurrent explanations is reached.
    #[error("too many concurrent explain requests; retry after 1 s")]
    Busy,
    /// The limit of concurrent statements is reached.
    #[error("too many concurrent statements; retry after 1 s")]
    StatementsBusy,
    /// The limit of concurrent pages of the audit trail is reached.
    #[error("too many concurrent audit requests; retry after 1 s")]
    AuditBusy,
    /// The limit of concurrent searches for a trace is reached.
    #[error("too many concurrent searches for a trace; retry after 1 s")]
    TracesBusy,
    /// The limit of concurrent pages of events is reached.
    #[error("too many concurrent requests for events; retry after 1 s")]
    EventsBusy,
    /// The limit of clients that follow the events is reached.
    #[error("8 clients already follow the events; retry after 1 s")]
    TooManyFollow,
    /// The limit of clients that follow the status is reached.
    #[error("32 clients already follow the status; retry after 1 s")]
    StatusFollowed,
    /// The disk is full; nothing was recorded.
    #[error("the disk of the log is full; nothing was recorded")]
    DiskFull,
    /// The requested data cannot be read from a disk or an archive.
    #[error("the requested record cannot be read from disk; see the server log")]
    Unreadable,
    /// The cold store does not have the newest rows yet.
    #[error("the cold store has not stored the newest records yet; retry after 1 s")]
    StoreBehind,
    /// The requested record cannot be read from the log.
    #[error("the requested record cannot be read from the log; see GET /storage")]
    RecordUnreadable,
    /// No data key can be made.
    #[error(
        "no new data key: the master key or data.keys cannot be used; the old key stays in use; \
         see encryption.failing of GET /storage"
    )]
    NoDataKey,
    /// The brokers of a shared log did not acknowledge it in time.
    #[error(
        "the Kafka brokers did not acknowledge in time: the change may or may not be recorded; \
         check, and retry"
    )]
    Unacknowledged,
    /// The brokers of a shared log did not report its end in time.
    #[error("the Kafka brokers do not respond: the newest state is unknown; retry")]
    Unanswered,
    /// The hub has stopped or is stopping.
    #[error("the hub has stopped")]
    Stopped,
}
