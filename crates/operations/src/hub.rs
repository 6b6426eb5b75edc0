//! What this crate needs of the running hub.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use ledger::{
    Administer, ChangeParties, NoticeId, Outcome, PartyBinding, Stamp, State, TransferId,
};

/// Notices without an address that are listed, at most.
pub const PARKED_MAX: usize = 1_000;

/// A future on the heap, which makes [`Hub`] and the table of routes free of generics.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A question about the state; it takes the answer along.
pub type Question = Box<dyn FnOnce(&State) + Send>;

/// The running hub, as operators see it.
pub trait Hub: Send + Sync + 'static {
    /// Records a change and answers with what the kernel decided about it, once that is durable
    /// and applied. On an error nothing is known but that the same change can be asked for again.
    fn administer(&self, change: Administer) -> BoxFuture<'_, Result<Outcome, Unavailable>>;

    /// Records which FSPs serve parties, and beside it who says so and why; answers with what the
    /// kernel decided, once that is durable and applied and look-ups see it.
    fn change_parties(
        &self,
        change: ChangeParties,
        told: Told,
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
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<(), Unavailable>>;

    /// The body of the `POST /transfers` that has this id, read from the log; `None` when there is
    /// none.
    fn prepare_body(&self, id: TransferId) -> BoxFuture<'_, Result<Option<Bytes>, Unavailable>>;

    /// What is known of a transfer, as a document of JSON; `None` when no record made it.
    fn explanation(&self, id: TransferId) -> BoxFuture<'_, Result<Option<Bytes>, Unavailable>>;

    /// Some notices that wait until their recipient registers an address, in order of number, at
    /// most [`PARKED_MAX`].
    fn parked(&self) -> BoxFuture<'_, Vec<NoticeId>>;

    /// Counters and gauges, read without waiting.
    fn metrics(&self) -> Metrics;

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
    fn storage(&self) -> Storage {
        Storage::default()
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
    fn stages(&self, transfer: &TransferId) -> Noted;
}

/// What `GET /snapshots` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    /// Last record that counts, and file name; newest first.
    pub files: Vec<(u64, String)>,
    /// Whether one is being taken, or will be at once.
    pub busy: bool,
    /// Taken since the start.
    pub taken: u64,
    /// Attempts that failed since the start.
    pub failed: u64,
    /// Length of the last one taken since the start, in bytes.
    pub last_bytes: u64,
    /// How long that took, in milliseconds.
    pub last_millis: u64,
    /// Why the last attempt failed, if it did.
    pub error: Option<String>,
}

/// Who asks for something, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// As it is recorded: a name, the fingerprint of the token, the address.
    pub actor: String,
    /// Text of `X-Reason`, empty without one.
    pub reason: String,
}

/// A span of time in which a part of the hub, or a participant, had a transfer in its hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Start, nanoseconds of the machine's monotonic clock.
    pub start_ns: u64,
    /// End, not before the start.
    pub end_ns: u64,
    /// Which message and what was done to it.
    pub label: String,
}

/// What was noted of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Where somebody worked on it, in order of their starts; empty unless all is still kept.
    pub stages: Vec<Stage>,
    /// Where it waited for somebody, in order of their starts.
    pub waits: Vec<Stage>,
    /// How far back notes reach, if older ones have made room.
    pub reach: Option<Duration>,
    /// Not all of it has come to its end; what is open is told up to now.
    pub under_way: bool,
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

/// Whether a part of the hub works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceStatus {
    /// It works.
    Ok,
    /// It does not.
    Down,
}

/// What `GET /health` says (hub-semantics 8.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Version of the program.
    pub version: &'static str,
    /// When the process started.
    pub started: Stamp,
    /// How long it has been running.
    pub uptime: Duration,
    /// The state and what it is stored in.
    pub datastore: ServiceStatus,
    /// The log: down when it has stopped or is stuck, for then nothing can be accepted.
    pub broker: ServiceStatus,
    /// Stages that have work and make no progress; empty while all is well.
    pub stuck: Vec<StuckStage>,
    /// Participants that take no notice: no fault of the hub, which stays well.
    pub stalled_lanes: StalledLanes,
    /// Participants to which forwards fail at once, as they do not answer: no fault either.
    pub open_breakers: OpenBreakers,
}

/// Lanes in which notices are owed and none is delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StalledLanes {
    /// How many there are.
    pub count: u64,
    /// Notices owed to all of them.
    pub owed: u64,
    /// Those that are owed most; not all when there are many.
    pub shown: Vec<StalledLane>,
}

/// A lane in which notices are owed and none is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalledLane {
    /// Whose it is.
    pub participant: String,
    /// Notices owed.
    pub owed: u64,
    /// Since when none has been delivered.
    pub since: Stamp,
    /// The same as a duration.
    pub idle: Duration,
    /// How the last attempt ended, in words.
    pub last_attempt: String,
}

/// Circuit breakers of forwards that are open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenBreakers {
    /// How many there are.
    pub count: u64,
    /// Those that opened first; not all when there are many.
    pub shown: Vec<OpenBreaker>,
}

/// A circuit breaker that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenBreaker {
    /// Who does not answer.
    pub participant: String,
    /// When it opened.
    pub since: Stamp,
    /// Forwards in a row without an HTTP answer.
    pub failures: u32,
}

impl Health {
    /// Whether every part works.
    #[must_use]
    pub fn is_well(&self) -> bool {
        [self.datastore, self.broker] == [ServiceStatus::Ok; 2] && self.stuck.is_empty()
    }
}

/// A stage that has work and makes no progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckStage {
    /// Its name: `sequencer`, `log`, `store`, `expiry`, `io-0`, `lane dfsp1`.
    pub name: String,
    /// For how long.
    pub idle: Duration,
    /// What it should be doing.
    pub detail: String,
}

/// How full the disk of the log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fullness {
    /// There is room.
    #[default]
    Ok,
    /// Below a tenth free, or full within three days at the present growth.
    Low,
    /// Below a twentieth free, or full within a day.
    Critical,
    /// No room: commands are refused.
    Full,
}

impl Fullness {
    /// Its name in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Low => "LOW",
            Self::Critical => "CRITICAL",
            Self::Full => "FULL",
        }
    }
}

/// What `GET /cluster` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The node that was asked.
    pub node: String,
    /// The last record that it has applied.
    pub position: u64,
    /// Messages of the topic that it has not applied, as of its last look.
    pub behind: u64,
    /// How long ago the brokers handed out a message, in milliseconds.
    pub unheard_ms: u64,
    /// How much of the brokers' time is not believed, in milliseconds.
    pub held_ms: u64,
    /// Messages of somebody else in the topic, as far as it has met them since it started.
    pub foreign: u64,
    /// The last record after which another node said to have the same state.
    pub agreed_at: Option<u64>,
    /// The nodes that are there.
    pub nodes: Vec<ClusterNode>,
    /// Participants, and the node that sends to each.
    pub lanes: Vec<(String, String)>,
    /// When nodes were last found to be gone.
    pub last_takeover: Option<Takeover>,
}

/// A node that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Its life.
    pub epoch: u32,
    /// Up to where it has applied the log, as it said last.
    pub position: u64,
    /// How long ago it wrote last, in milliseconds.
    pub silent_ms: u64,
    /// The newest rules that it knows, as it said last.
    pub rules: u32,
    /// Where it was found to have decided otherwise than the node that was asked.
    pub contradicts_at: Option<u64>,
}

/// Nodes were found to be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// The record by which they were.
    pub position: u64,
    /// When.
    pub at: Stamp,
    /// Their names.
    pub gone: Vec<String>,
}

/// What `GET /storage` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// How full the disk is.
    pub fullness: Fullness,
    /// Bytes of the log in its directory, compressed segments as they are.
    pub log_bytes: u64,
    /// Segments in the directory.
    pub log_segments: u64,
    /// Bytes of the log that are in an archive only, as they are there.
    pub archived_bytes: u64,
    /// Segments that are in an archive only.
    pub archived_segments: u64,
    /// Bytes of the cold store.
    pub store_bytes: u64,
    /// Bytes of the disk.
    pub disk_bytes: u64,
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Growth of the log, archived or not, over the last day, or over what is known of it, and of
    /// the store in proportion; `None` while less than ten minutes are known.
    pub growth_bytes_per_day: Option<u64>,
    /// When the disk is full at that growth, if nothing is moved away.
    pub hours_until_full: Option<u64>,
    /// Why log or store cannot be written or read at the moment, or their disk not be looked at.
    pub failing: Option<String>,
    /// The archive, if there is to be one.
    pub archive: Option<Task>,
    /// The copy, if there is to be one.
    pub backup: Option<Task>,
}

impl Storage {
    /// One word for all of it, the same wherever it is shown.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match (self.fullness, &self.failing) {
            (Fullness::Full, _) | (_, None) => self.fullness.name(),
            (_, Some(_)) => FAILING,
        }
    }
}

/// The status of storage that cannot be written or read.
pub(crate) const FAILING: &str = "FAILING";

/// Work beside the log, towards another place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// When it went well the last time; `None` if it did not since the start.
    pub last_done: Option<Stamp>,
    /// The last record that is there; 0 if it is not known.
    pub position: u64,
    /// Why it does not go well at the moment.
    pub failing: Option<String>,
}

/// What `GET /metrics` shows beside the process's own use of processor and memory. Counters
/// start anywhere and only rise; gauges are as of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Counter: syncs of the log.
    pub log_syncs: u64,
    /// Counter: bytes appended to the log.
    pub log_bytes: u64,
    /// Gauge: position of the last record applied.
    pub log_position: u64,
    /// Counter: batches appended.
    pub batches: u64,
    /// Counter: records appended.
    pub records: u64,
    /// Counter: transfers reserved.
    pub transfers_reserved: u64,
    /// Counter: prepares refused.
    pub transfers_refused: u64,
    /// Counter: transfers committed.
    pub transfers_committed: u64,
    /// Counter: transfers aborted.
    pub transfers_aborted: u64,
    /// Counter: transfers that met their deadline.
    pub transfers_expired: u64,
    /// Gauge: transfers reserved and not ended.
    pub transfers_in_flight: u64,
    /// Gauge: transfers that ended and are kept.
    pub transfers_ended: u64,
    /// Gauge: of these, with their rows in memory.
    pub transfers_hot: u64,
    /// Gauge: position up to which the cold store is complete.
    pub store_position: u64,
    /// Counter: questions to the cold store for a transfer that is not in memory.
    pub store_reads: u64,
    /// Counter: of these, answered with a row.
    pub store_found: u64,
    /// Counter: times that the sequencer waited for the cold store.
    pub store_waits: u64,
    /// Gauge: bytes that the cold store takes on disk.
    pub store_bytes: u64,
    /// Gauge: notices owed to participants.
    pub notices_owed: u64,
    /// Counter: notices delivered.
    pub notices_delivered: u64,
    /// Counter: notices given up without a dead letter.
    pub notices_given_up: u64,
    /// Gauge: notices that wait until their recipient registers an address.
    pub notices_parked: u64,
    /// Gauge: notices given up and not sent again.
    pub dead_letters: u64,
    /// Gauge: lanes of this node in which notices are owed and none is delivered.
    pub lanes_stalled: u64,
    /// Gauge: notices owed in these.
    pub lanes_stalled_notices: u64,
    /// Gauge: participants to which this node's forwards fail at once.
    pub forward_breakers_open: u64,
    /// Counter: commands refused because too many waited.
    pub inbox_refused: u64,
    /// Counter: FSPIOP requests accepted.
    pub requests: u64,
    /// Counter: FSPIOP requests refused.
    pub requests_refused: u64,
    /// Counter: messages forwarded without a record (look-ups, quotes).
    pub forwards: u64,
    /// Counter: forwards that failed.
    pub forwards_failed: u64,
    /// Counter: tries to deliver a notice, those too for which its message could not be read.
    pub attempts: u64,
    /// Counter: FSPIOP connections taken.
    pub connections: u64,
    /// Counter: FSPIOP connections turned away because too many were open.
    pub connections_refused: u64,
    /// Counter: FSPIOP connections that lost their place to a new one.
    pub connections_evicted: u64,
    /// Counter: FSPIOP requests that were no HTTP, not whole, too slow, or open to two readings.
    pub malformed: u64,
    /// Counter: system calls that read from a socket of FSPIOP and found something.
    pub socket_reads: u64,
    /// Counter: system calls that wrote to one.
    pub socket_writes: u64,
    /// Counter: calls to participants not made because their address is not allowed.
    pub calls_denied: u64,
    /// Counter: messages that changed nothing because their sender is not a participant.
    pub unknown_senders: u64,
    /// Counter: signatures of participants that were good.
    pub signatures_verified: u64,
    /// Counter: messages refused for their signature.
    pub signatures_refused: u64,
    /// Counter: messages of the hub that were signed.
    pub signatures_made: u64,
    /// Counter: messages of the hub that could not be signed, and were not sent.
    pub signatures_failed: u64,
    /// Gauge: messages of the hub that wait for their signature.
    pub signatures_waiting: u64,
}
