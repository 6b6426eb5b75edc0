//! The kernel without a log: every change is a batch of one.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use fspiop::stored_message::StoredMessage;
use http::HeaderMap;
use ledger::{
    Administer, ArchiveKind, ArchivedSettlement, Batch, Change, ChangeReply, Command, Currency,
    Effects, FspName, Genesis, LogIndex, NoticeId, OperatorBook, Outcome, ParticipantIndex,
    PartyBinding, RecordRange, Stamp, State, TransferId,
};
use operations::{
    ARCHIVED_MAX, Activity, AdminBackend, BoxFuture, Cluster, DiskStatus, ErasurePlan,
    ErasureSelection, ExplanationFormat, ExplanationOptions, Health, LogPoint, MessageContent,
    NO_ENDPOINT, OpenBreakers, ParticipantStatementRequest, PaymentContents, PositionTrend,
    PrepareBody, ServiceStatus, Snapshots, StalledLanes, StateQuery, Statement, StatementRefusal,
    StatementSubject, StuckStage, TransferTrace, Unavailable,
};
use tokio::sync::{Notify, OwnedRwLockWriteGuard, RwLock};

/// 2026-01-01T10:00:00.000Z, the moment of the first record; each further one is 1 ms later.
pub(crate) const BEGINNING_MS: u64 = 1_767_261_600_000;

pub(crate) struct TestBackend(Mutex<BackendState>, QueryGate);

/// QueryGate wait while a test holds the gate.
#[derive(Default)]
struct QueryGate {
    gate: Arc<RwLock<()>>,
    query_received: Notify,
}

pub(crate) struct BackendState {
    pub(crate) state: State,
    pub(crate) recorded: Vec<Administer>,
    pub(crate) bodies: Vec<(TransferId, Bytes)>,
    /// Number of times that the figures of the status were read.
    pub(crate) figures_read: u32,
    /// Windows and settlements that left the state.
    pub(crate) archived: Vec<ArchivedSettlement>,
    /// Requests for statements of participants.
    pub(crate) statements: Vec<ParticipantStatementRequest>,
    pub(crate) unavailable: Option<Unavailable>,
    /// Why the windows and settlements that left the state cannot be read.
    pub(crate) archive_unavailable: Option<Unavailable>,
    pub(crate) storage: DiskStatus,
    pub(crate) tracing: bool,
    pub(crate) snapshots: Snapshots,
    pub(crate) activity: Activity,
    pub(crate) traces: Vec<(TransferId, TransferTrace)>,
    pub(crate) retained: Option<Duration>,
    pub(crate) stuck: Vec<StuckStage>,
    pub(crate) stalled_lanes: StalledLanes,
    pub(crate) open_breakers: OpenBreakers,
    pub(crate) cluster: Cluster,
    pub(crate) trends: HashMap<(ParticipantIndex, Currency), PositionTrend>,
}

impl TestBackend {
    pub(crate) fn new() -> Self {
        let inner = Mutex::new(BackendState {
            state: State::new(),
            recorded: Vec::new(),
            bodies: Vec::new(),
            figures_read: 0,
            archived: Vec::new(),
            statements: Vec::new(),
            unavailable: None,
            archive_unavailable: None,
            storage: DiskStatus::default(),
            tracing: false,
            snapshots: Snapshots::default(),
            activity: Activity::default(),
            traces: Vec::new(),
            retained: None,
            stuck: Vec::new(),
            stalled_lanes: StalledLanes::default(),
            open_breakers: OpenBreakers::default(),
            cluster: Cluster::default(),
            trends: HashMap::new(),
        });
        let kernel = Self(inner, QueryGate::default());
        kernel.begin();
        kernel
    }

    fn begin(&self) {
        let hub = FspName::new("Hub").expect("a name");
        self.apply(&Command::Genesis(Genesis { seed: [7; 16], hub }));
    }

    /// Begins a new log, under a version of the rules.
    pub(crate) fn begin_under(&self, rules_version: u32) {
        let mut state = State::new();
        state.begin_under(rules_version);
        self.inner().state = state;
        self.begin();
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, BackendState> {
        self.0.lock().expect("no test panics with the state in hand")
    }

    fn body(&self, id: TransferId) -> Result<Option<Bytes>, Unavailable> {
        let inner = self.inner();
        let body = inner.bodies.iter().find(|(known, _)| *known == id);
        inner.unavailable.map_or_else(|| Ok(body.map(|(_, body)| body.clone())), Err)
    }

    /// Leaves questions without an answer until what it gives is dropped.
    pub(crate) fn hold_queries(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.1.gate).try_write_owned().unwrap()
    }

    /// Waits until a question has been asked.
    pub(crate) async fn wait_for_query(&self) {
        self.1.query_received.notified().await;
    }

    pub(crate) fn apply(&self, command: &Command) -> Outcome {
        self.decide(command).outcome
    }

    fn decide(&self, command: &Command) -> ChangeReply {
        let inner = &mut *self.inner();
        let state = &mut inner.state;
        let first = LogIndex(state.log_index().0 + 1);
        let stamp = Stamp::from_millis(BEGINNING_MS + first.0 - 1);
        let batch = Batch { first, stamp, node: 1, epoch: 1, sequence: first.0 };
        let mut effects = Effects::default();
        state.apply(&batch, [command], &mut effects);
        for row in effects.archived.drain(..) {
            let is_earlier =
                |old: &ArchivedSettlement| (old.kind(), old.number()) == (row.kind(), row.number());
            inner.archived.retain(|old| !is_earlier(old));
            inner.archived.push(row);
        }
        effects.decided(first, effects.outcomes[0])
    }
}

impl AdminBackend for TestBackend {
    fn administer(&self, change: Administer) -> BoxFuture<'_, Result<ChangeReply, Unavailable>> {
        Box::pin(async move {
            if let Some(why) = self.inner().unavailable {
                return Err(why);
            }
            self.inner().recorded.push(change.clone());
            Ok(self.decide(&Command::Administer(Box::new(change))))
        })
    }

    fn find_party(
        &self,
        id_type: &str,
        id: &str,
        sub_id: Option<&str>,
    ) -> Result<Vec<PartyBinding>, Unavailable> {
        let inner = self.inner();
        let all = inner.recorded.iter().flat_map(|administer| {
            let Change::AssignParties(change) = &administer.change else { return &[][..] };
            &change.parties
        });
        let is_it = |party: &&PartyBinding| {
            (&*party.id_type, &*party.id, party.sub_id.as_deref()) == (id_type, id, sub_id)
        };
        Ok(all.filter(is_it).cloned().collect())
    }

    fn plan_erasure(
        &self,
        _: ErasureSelection,
        _: String,
    ) -> BoxFuture<'_, Result<Option<ErasurePlan>, Unavailable>> {
        let records = vec![RecordRange { first: LogIndex(1), last: LogIndex(1) }];
        let plan = ErasurePlan { records, contents: 1, segments: 1, ..ErasurePlan::default() };
        Box::pin(async { Ok(Some(plan)) })
    }

    fn operators(&self) -> Arc<OperatorBook> {
        Arc::new(self.inner().state.operators().clone())
    }

    fn query_state(&self, query: StateQuery) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(async move {
            self.1.query_received.notify_one();
            let _open = self.1.gate.read().await;
            let inner = self.inner();
            inner.unavailable.map_or(Ok(()), Err)?;
            query(&inner.state);
            Ok(())
        })
    }

    fn prepare_body(
        &self,
        id: TransferId,
    ) -> BoxFuture<'_, Result<Option<PrepareBody>, Unavailable>> {
        Box::pin(async move {
            let body = self.body(id)?;
            Ok(body.map(PrepareBody::Stored))
        })
    }

    fn explanation(
        &self,
        id: TransferId,
        options: ExplanationOptions,
    ) -> BoxFuture<'_, Result<Option<Bytes>, Unavailable>> {
        Box::pin(async move {
            let body = self.body(id)?;
            Ok(body.map(|_| match options.format {
                ExplanationFormat::Json => Bytes::from_static(b"{\"events\":[]}"),
                ExplanationFormat::Text => Bytes::from_static(b"no events"),
            }))
        })
    }

    /// A statement without accounts: only the request is tested here.
    fn message_contents(
        &self,
        id: TransferId,
    ) -> BoxFuture<'_, Result<Option<PaymentContents>, Unavailable>> {
        Box::pin(async move {
            let body = self.body(id)?;
            let message = body.map(|body| StoredMessage { headers: HeaderMap::new(), body });
            let content = message.map(|message| MessageContent {
                log_index: LogIndex(1),
                request: "POST /transfers",
                sender: "payerfsp".to_owned(),
                kept: "stored",
                message: Some(message),
            });
            Ok(content.map(|it| PaymentContents { messages: vec![it], left_out: 0 }))
        })
    }

    fn participant_statement(
        &self,
        request: ParticipantStatementRequest,
    ) -> BoxFuture<'_, Result<Result<Statement, StatementRefusal>, Unavailable>> {
        Box::pin(async move {
            let mut inner = self.inner();
            if let Some(unavailable) = inner.unavailable {
                return Err(unavailable);
            }
            inner.statements.push(request);
            let at = LogPoint::of(&inner.state);
            let name = request.participant.to_string();
            let subject = StatementSubject::Participant { name };
            Ok(Ok(Statement { subject, from: at, to: at, accounts: Vec::new() }))
        })
    }

    fn archived(
        &self,
        kind: ArchiveKind,
        numbers: RangeInclusive<u32>,
    ) -> BoxFuture<'_, Result<Vec<ArchivedSettlement>, Unavailable>> {
        Box::pin(async move {
            let inner = self.inner();
            inner.unavailable.or(inner.archive_unavailable).map_or(Ok(()), Err)?;
            let is_in =
                |row: &&ArchivedSettlement| row.kind() == kind && numbers.contains(&row.number());
            let mut found: Vec<_> = inner.archived.iter().filter(is_in).cloned().collect();
            found.sort_by_key(ArchivedSettlement::number);
            found.truncate(ARCHIVED_MAX);
            Ok(found)
        })
    }

    /// All pending notices: no participant has an endpoint here.
    fn parked_notices(&self) -> BoxFuture<'_, Vec<NoticeId>> {
        Box::pin(async move { self.inner().state.notices_owed().map(|notice| notice.id).collect() })
    }

    /// The same for each of them.
    fn wait_reasons(&self, notices: Vec<NoticeId>) -> BoxFuture<'_, HashMap<NoticeId, String>> {
        let reasons = notices.into_iter().map(|notice| (notice, NO_ENDPOINT.to_owned()));
        let reasons = reasons.collect();
        Box::pin(async move { reasons })
    }

    fn position_trend(&self, of: (ParticipantIndex, Currency)) -> Option<PositionTrend> {
        self.inner().trends.get(&of).copied()
    }

    fn metrics(&self) -> Vec<metrics::Family> {
        Vec::new()
    }

    fn activity(&self) -> Activity {
        let mut inner = self.inner();
        inner.figures_read += 1;
        inner.activity.clone()
    }

    fn snapshots(&self) -> Snapshots {
        self.inner().snapshots.clone()
    }

    fn take_snapshot(&self) {
        self.inner().snapshots.busy = true;
    }

    fn storage(&self) -> DiskStatus {
        self.inner().storage.clone()
    }

    fn cluster(&self) -> Cluster {
        self.inner().cluster.clone()
    }

    fn is_tracing(&self) -> bool {
        self.inner().tracing
    }

    fn set_tracing(&self, enabled: bool) {
        self.inner().tracing = enabled;
    }

    fn trace(&self, transfer: &TransferId) -> TransferTrace {
        let inner = self.inner();
        let found = inner.traces.iter().find(|(id, _)| id == transfer);
        let nothing = || TransferTrace { retained: inner.retained, ..TransferTrace::default() };
        found.map_or_else(nothing, |(_, trace)| trace.clone())
    }

    fn health(&self) -> Health {
        let broker = match self.inner().unavailable {
            Some(Unavailable::Stopped) => ServiceStatus::Down,
            _ => ServiceStatus::Ok,
        };
        let inner = self.inner();
        Health {
            version: "0.1.0",
            started: Stamp::from_millis(BEGINNING_MS),
            uptime: Duration::from_millis(12_345),
            datastore: ServiceStatus::Ok,
            broker,
            stuck: inner.stuck.clone(),
            stalled_lanes: inner.stalled_lanes.clone(),
            open_breakers: inner.open_breakers.clone(),
        }
    }
}
