//! The admin API's view of the running node.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use delivery::WaitReason;
use fspiop::egress_policy::EgressPolicy;
use http::StatusCode;
use ledger::{
    Administer, ArchiveKind, ArchivedSettlement, Change, ChangeReply, Command, Currency, Erase,
    Erasure, ErasureForm, ErrorOutcome, ExplainedOutcome, FspName, LogIndex, NoticeId,
    OperatorBook, Outcome, ParticipantIndex, PartyBinding, Proposal, ProposalId, RecordAudit,
    RecordRange, Stamp, State, TransferId, is_hashed_identifier,
};
use node::stall::Stall;
use node::{Handle, ReadFailure, ReplyTo, SubmissionContext, SubmissionRefused, SystemClock};
use operations::{
    ARCHIVED_MAX, Activity, AdminBackend, AuditPage, AuditQuery, BoxFuture, Cluster, ClusterLane,
    ClusterNode, DiskStatus, DiskUse, ERASURES_LISTED_MAX, ErasurePlan, ErasureReport,
    ErasureSelection, EventPage, EventPublishing, EventQuery, ExplanationFormat,
    ExplanationOptions, Health, ListedTransfer, ListedTransfers, NO_ENDPOINT, OpenBreaker,
    OpenBreakers, PARKED_MAX, ParticipantStatementRequest, PartyFindings, PartyName,
    PaymentContents, PositionTrend, PrepareBody, Queues, RetentionOverride, RetentionReport,
    RotatedKey, ServiceStatus, SnapshotFile, Snapshots, Span, StalledLane, StalledLanes, Statement,
    StatementRefusal, StuckStage, Takeover, TracePage, TraceQuery, TransferCounts, TransferTrace,
    Unavailable,
};
use ports::{
    Clock, ClockReading, ColdStore, LogError, OwnedPayload, RecordReader, StoreError, TransferPage,
    TransferQuery,
};
use sequencer::{Durability, Submission};
use snapshots::SnapshotterHandle;
use switch::{
    DeliveryStatus, ForwardedMessage, TestCaller, Traffic, contents_of_parties, reveal_parties,
    stored_message,
};
use tokio::sync::mpsc::Receiver;
use tokio::sync::{Semaphore, oneshot};

use crate::config::MojaloopNames;
use crate::inspect::audit::entries::{last_before, read_page};
use crate::inspect::audit::values::ValuesTask;
use crate::inspect::explain::report::{PendingDelivery, why};
use crate::inspect::explain::{ExplainRequest, IO_ANSWER_TIMEOUT, wait_for_store};
use crate::inspect::live_replay::{LiveReplay, ReplaySource};
use crate::inspect::statements::StatementTask;
use crate::inspect::trace_search::read_trace_page;
use crate::operate::quarantine::Entry;
use crate::serve::background::BackgroundStatus;
use crate::serve::certificates::Certificates;
use crate::serve::content_scan::ContentScan;
use crate::serve::erasure::{ErasureStatus, read_order};
use crate::serve::events::{EventPages, EventSource, PublisherStatus};
use crate::serve::identifiers::DISTINCTIVE_MIN;
use crate::serve::issuers::Issuers;
use crate::serve::liquidity::LiquidityStatus;
use crate::serve::metrics;
use crate::serve::party_search::PartySearch;

/// Answers the requests of the admin API.
pub(crate) struct NodeBackend {
    pub(crate) handle: Handle<ForwardedMessage>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) snapshots: SnapshotterHandle,
    pub(crate) clock: SystemClock,
    pub(crate) began: ClockReading,
    pub(crate) permits: ReadPermits,
    /// The log, for statements of participants and values of the audit trail.
    pub(crate) replays: ReplaySource,
    pub(crate) events: Arc<EventPages>,
    /// The progress of the publisher, if events are published.
    pub(crate) publishing: Option<Arc<PublisherStatus>>,
    /// Quarantined records, which have no effect.
    pub(crate) quarantined: Arc<[Entry]>,
    /// Reports of the background jobs.
    pub(crate) background: BackgroundStatus,
    pub(crate) liquidity: Arc<LiquidityStatus>,
    /// Names of the reference's metrics.
    pub(crate) mojaloop_names: MojaloopNames,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) issuers: Arc<Issuers>,
    /// The settings as JSON, without secrets.
    pub(crate) configuration: Bytes,
}

/// Permits for requests that read the log, and for records of requests.
pub(crate) struct ReadPermits {
    /// For explain requests.
    explaining: Arc<Semaphore>,
    /// For pages of the audit trail.
    auditing: Arc<Semaphore>,
    /// Records of requests without a change that were submitted and are not decided yet.
    audits_pending: Arc<AtomicUsize>,
}

impl Default for ReadPermits {
    fn default() -> Self {
        Self {
            explaining: Arc::new(Semaphore::new(EXPLAINED_MAX)),
            auditing: Arc::new(Semaphore::new(AUDITED_MAX)),
            audits_pending: Arc::default(),
        }
    }
}

/// Maximum number of pages of the audit trail that are read at once.
const AUDITED_MAX: usize = 2;
/// Maximum of [`ReadPermits::audits_pending`]: a flood of requests leaves the inbox to payments.
const AUDITS_PENDING_MAX: usize = 64;

/// Maximum number of open breakers that `/health` lists; all are counted.
const BREAKERS_SHOWN_MAX: usize = 100;
/// The id of a request to explain before it names a payment.
const NO_PAYMENT: &str = "00000000000000000000000000";
/// Maximum number of concurrent explain requests.
const EXPLAINED_MAX: usize = 2;

impl AdminBackend for NodeBackend {
    fn administer(&self, change: Administer) -> BoxFuture<'_, Result<ChangeReply, Unavailable>> {
        Box::pin(async move {
            let (command, contents) = self.conceal(change).await?;
            self.record(command, contents.as_deref()).await
        })
    }

    fn record_audit(&self, entry: Administer) -> bool {
        if self.handle.view().rules_version < RecordAudit::DECLARATION.rules {
            return false;
        }
        let pending = Arc::clone(&self.permits.audits_pending);
        if AUDITS_PENDING_MAX <= pending.fetch_add(1, Ordering::Relaxed) {
            pending.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let done = Arc::clone(&pending);
        let call = Box::new(move |_| {
            done.fetch_sub(1, Ordering::Relaxed);
        });
        let command = Command::Administer(Box::new(entry));
        let is_submitted = self.submit(command, None, ReplyTo::Call(call)).is_ok();
        if !is_submitted {
            pending.fetch_sub(1, Ordering::Relaxed);
        }
        is_submitted
    }

    fn audit_page(&self, query: AuditQuery) -> BoxFuture<'_, Result<AuditPage, Unavailable>> {
        Box::pin(async move {
            let permits = Arc::clone(&self.permits.auditing);
            let permit = permits.try_acquire_owned().map_err(|_| Unavailable::AuditBusy)?;
            // After all records that were submitted before.
            self.query_state(Box::new(|_| ())).await?;
            let (frames, reader) = (self.replays.frames.clone(), self.handle.reader());
            let gone = CancelOnDrop::default();
            let replay = match query.with_values {
                true => {
                    let permits = Arc::clone(&self.replays.permits);
                    let permit = permits.try_acquire_owned().map_err(|_| Unavailable::AuditBusy)?;
                    Some((self.live_replay(&gone)?, permit))
                }
                false => None,
            };
            let reading = tokio::task::spawn_blocking(move || {
                let page = read_page(&frames, &*reader, &query);
                let mut page = page.map_err(|error| error.to_string())?;
                if let Some((replay, _permit)) = replay {
                    page.values_missing = ValuesTask { replay }.add_to(&mut page.entries)?;
                }
                drop(permit);
                Ok(page)
            });
            let page = reading.await.map_err(|_| Unavailable::Stopped)?;
            page.map_err(|error: String| {
                tracing::error!(%error, "the audit trail cannot be read");
                Unavailable::RecordUnreadable
            })
        })
    }

    fn trace_page(&self, query: TraceQuery) -> BoxFuture<'_, Result<TracePage, Unavailable>> {
        Box::pin(async move {
            let permits = Arc::clone(&self.permits.auditing);
            let permit = permits.try_acquire_owned().map_err(|_| Unavailable::TracesBusy)?;
            let (frames, reader) = (self.replays.frames.clone(), self.handle.reader());
            let reading = tokio::task::spawn_blocking(move || {
                let page = read_trace_page(&frames, &*reader, &query);
                drop(permit);
                page
            });
            let page = reading.await.map_err(|_| Unavailable::Stopped)?;
            page.map_err(|error| {
                tracing::error!(%error, "the log cannot be searched for a trace");
                Unavailable::RecordUnreadable
            })
        })
    }

    fn events_page(&self, query: EventQuery) -> BoxFuture<'_, Result<EventPage, Unavailable>> {
        Box::pin(async move {
            let permit = self.events.permit().await.ok_or(Unavailable::EventsBusy)?;
            let store = self.handle.store().ok_or(Unavailable::Stopped)?;
            let source = EventSource { log: self.replays.clone(), store };
            let (events, gone) = (Arc::clone(&self.events), CancelOnDrop::default());
            let is_cancelled = Arc::clone(&gone.0);
            let reading = tokio::task::spawn_blocking(move || {
                let page = events.read(&source, &query, &|| is_cancelled.load(Ordering::Relaxed));
                drop(permit);
                page
            });
            let page = reading.await.map_err(|_| Unavailable::Stopped)?;
            page.map_err(|error| {
                tracing::error!(%error, "events cannot be read");
                Unavailable::RecordUnreadable
            })
        })
    }

    fn find_party(
        &self,
        id_type: &str,
        id: &str,
        sub_id: Option<&str>,
    ) -> Result<Vec<PartyBinding>, Unavailable> {
        let found = self.handle.find_party(id_type, id, sub_id);
        let row = found.map_err(|error| {
            tracing::error!(%error, "a party cannot be read");
            Unavailable::Unreadable
        })?;
        let binding = |entry: &ports::PartyEntry| PartyBinding {
            id_type: id_type.to_owned(),
            id: id.to_owned(),
            sub_id: sub_id.map(Into::into),
            currency: entry.currency,
            fsp: entry.fsp,
        };
        Ok(row.entries.iter().map(binding).collect())
    }

    fn reveal_proposals(
        &self,
        mut proposals: Vec<Proposal>,
    ) -> BoxFuture<'_, Result<Vec<Proposal>, Unavailable>> {
        Box::pin(async move {
            if !proposals.iter().any(names_hashes) {
                return Ok(proposals);
            }
            let reader = self.handle.reader();
            // On another thread, because the disk may block.
            let reading = tokio::task::spawn_blocking(move || {
                for proposal in proposals.iter_mut().filter(|it| names_hashes(it)) {
                    let record = reader.read(proposal.record)?;
                    if let Some(OwnedPayload::Stored(payload)) = record.map(|it| it.payload) {
                        let parties = Arc::make_mut(&mut proposal.change).named_parties_mut();
                        reveal_parties(parties, &payload);
                    }
                }
                Ok::<_, LogError>(proposals)
            });
            let read = reading.await.map_err(|_| Unavailable::Stopped)?;
            read.map_err(|_| Unavailable::RecordUnreadable)
        })
    }

    fn operators(&self) -> Arc<OperatorBook> {
        Arc::clone(&self.handle.view().operators)
    }

    fn query_state(&self, query: operations::StateQuery) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(async move {
            let (done, has_run) = oneshot::channel();
            let ask = move |state: &State| {
                query(state);
                let _requester_may_be_gone = done.send(());
            };
            self.handle.ask(ask).map_err(unavailable)?;
            has_run.await.map_err(|_| self.unanswered())
        })
    }

    fn prepare_body(
        &self,
        id: TransferId,
    ) -> BoxFuture<'_, Result<Option<PrepareBody>, Unavailable>> {
        Box::pin(async move {
            let view = self.ask_about(id, move |state| state.view(&id)).await?;
            let Some(view) = view else { return Ok(None) };
            let reader = self.handle.reader();
            // On another thread, because the disk may block.
            let reading = tokio::task::spawn_blocking(move || reader.read(view.prepare));
            let read = reading.await.map_err(|_| Unavailable::Stopped)?;
            let record = read.map_err(|_| Unavailable::RecordUnreadable)?;
            Ok(record.and_then(|record| match record.payload {
                OwnedPayload::Erased => Some(PrepareBody::Erased),
                _ => stored_message(record).map(|message| PrepareBody::Stored(message.body)),
            }))
        })
    }

    fn explanation(
        &self,
        id: TransferId,
        options: ExplanationOptions,
    ) -> BoxFuture<'_, Result<Option<Bytes>, Unavailable>> {
        Box::pin(async move {
            let answer = self.explain(id, ExplainRequest::answer).await?;
            let written = answer.map(|mut it| {
                if options.masked {
                    it.mask();
                }
                match options.format {
                    ExplanationFormat::Json => serde_json::to_vec(&it).map(Bytes::from),
                    ExplanationFormat::Text => Ok(Bytes::from(it.to_string())),
                }
            });
            written.transpose().map_err(|_| Unavailable::Unreadable)
        })
    }

    fn message_contents(
        &self,
        id: TransferId,
    ) -> BoxFuture<'_, Result<Option<PaymentContents>, Unavailable>> {
        Box::pin(self.explain(id, ExplainRequest::contents))
    }

    fn plan_erasure(
        &self,
        selection: ErasureSelection,
        reason: String,
    ) -> BoxFuture<'_, Result<Option<ErasurePlan>, Unavailable>> {
        Box::pin(async move {
            let mut participant = None;
            let (form, records, party) = match selection {
                ErasureSelection::Transfer(id) => {
                    let found = self.explain(id, ExplainRequest::stored_contents).await?;
                    let Some(found) = found else { return Ok(None) };
                    (ErasureForm::Transfer, ranges_of(&found), PartyFindings::default())
                }
                ErasureSelection::Before(time) => {
                    let records = self.records_before(time).await?;
                    (ErasureForm::Before, records, PartyFindings::default())
                }
                ErasureSelection::Participant(name, time) => {
                    participant = Some(name);
                    let records = self.records_before(time).await?;
                    (ErasureForm::Participant, records, PartyFindings::default())
                }
                ErasureSelection::Party(party) => {
                    let (found, party) = self.records_about(party).await?;
                    (ErasureForm::Party, ranges_of(&found), party)
                }
            };
            let plan = ErasurePlan { records, party, ..ErasurePlan::default() };
            self.scanned(plan, (form, participant), reason).await.map(Some)
        })
    }

    fn names_party(
        &self,
        erase: Erase,
        reason: String,
    ) -> BoxFuture<'_, Result<bool, Unavailable>> {
        let filter = (erase.form, erase.participant());
        let plan = ErasurePlan { records: erase.records, ..ErasurePlan::default() };
        Box::pin(async move {
            if reason.chars().count() < DISTINCTIVE_MIN {
                return Ok(false);
            }
            let scanned = self.scanned(plan, filter, reason).await?;
            Ok(scanned.is_named_in_reason)
        })
    }

    fn erasures(
        &self,
        before: Option<LogIndex>,
    ) -> BoxFuture<'_, Result<Vec<ErasureReport>, Unavailable>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            // The requester may be gone.
            let ask = move |state: &State| drop(answer.send(newest_erasures(state, before)));
            self.handle.ask(ask).map_err(unavailable)?;
            let (orders, proposers) = answered.await.map_err(|_| self.unanswered())?;
            let (reader, status) = (self.handle.reader(), Arc::clone(&self.background.erasures));
            let reading = tokio::task::spawn_blocking(move || {
                let report = |it: &Erasure| erasure_report(&*reader, (it, &proposers), &status);
                orders.iter().map(report).collect::<Result<Vec<_>, String>>()
            });
            let read = reading.await.map_err(|_| Unavailable::Stopped)?;
            let read = read.map_err(|error| {
                tracing::error!(%error, "the erasures cannot be read");
                Unavailable::RecordUnreadable
            })?;
            Ok(read.into_iter().flatten().collect())
        })
    }

    fn plan_retention(
        &self,
        other: RetentionOverride,
    ) -> BoxFuture<'_, Result<Vec<RetentionReport>, Unavailable>> {
        Box::pin(async move {
            let (view, now) = (self.background.retention.clone(), self.clock.now().wall);
            let reading = tokio::task::spawn_blocking(move || view.plan(&other, now));
            let plan = reading.await.map_err(|_| Unavailable::Stopped)?;
            plan.map_err(|error| {
                tracing::error!(%error, "erasures by age cannot be planned");
                Unavailable::RecordUnreadable
            })
        })
    }

    fn participant_statement(
        &self,
        request: ParticipantStatementRequest,
    ) -> BoxFuture<'_, Result<Result<Statement, StatementRefusal>, Unavailable>> {
        Box::pin(async move {
            let permits = Arc::clone(&self.replays.permits);
            let permit = permits.try_acquire_owned().map_err(|_| Unavailable::StatementsBusy)?;
            let gone = CancelOnDrop::default();
            let (replay, reader) = (self.live_replay(&gone)?, self.handle.reader());
            let task = StatementTask { replay, reader, request };
            let task = tokio::task::spawn_blocking(move || {
                let answer = task.answer();
                drop(permit);
                answer
            });
            let answer = task.await.map_err(|_| Unavailable::Stopped)?;
            answer.map_err(|error| {
                let name = request.participant;
                tracing::error!(participant = %name, %error, "a statement cannot be computed");
                Unavailable::Unreadable
            })
        })
    }

    fn archived(
        &self,
        kind: ArchiveKind,
        numbers: RangeInclusive<u32>,
    ) -> BoxFuture<'_, Result<Vec<ArchivedSettlement>, Unavailable>> {
        let read = move |store: &dyn ColdStore| store.settlements(kind, numbers, ARCHIVED_MAX);
        Box::pin(self.read_store(self.handle.committed(), read))
    }

    fn final_transfers(
        &self,
        query: TransferQuery,
    ) -> BoxFuture<'_, Result<ListedTransfers, Unavailable>> {
        Box::pin(async move {
            let page = self.read_store(query.up_to, move |store| store.transfers(&query)).await?;
            let transfers = page.entries.into_iter().map(|entry| ListedTransfer {
                error_code: code_of_hub(entry.outcome),
                reason: ExplainedOutcome::of(entry.outcome).map_or("", why),
                entry,
            });
            let transfers = transfers.collect();
            let TransferPage { next, missing_up_to, .. } = page;
            Ok(ListedTransfers { transfers, next, missing_up_to })
        })
    }

    fn position_trend(&self, of: (ParticipantIndex, Currency)) -> Option<PositionTrend> {
        self.liquidity.samples().trend(of)
    }

    fn parked_notices(&self) -> BoxFuture<'_, Vec<NoticeId>> {
        Box::pin(async move {
            let traffic = Arc::clone(&self.traffic);
            let asking =
                tokio::task::spawn_blocking(move || traffic.parked(PARKED_MAX, IO_ANSWER_TIMEOUT));
            asking.await.unwrap_or_default()
        })
    }

    fn wait_reasons(&self, notices: Vec<NoticeId>) -> BoxFuture<'_, HashMap<NoticeId, String>> {
        Box::pin(async move {
            let traffic = Arc::clone(&self.traffic);
            let asking = move || traffic.delivery_status(&notices, IO_ANSWER_TIMEOUT);
            let statuses = tokio::task::spawn_blocking(asking).await.unwrap_or_default();
            let reasons = statuses.iter();
            reasons.filter_map(|status| Some((status.notice, wait_reason(status)?))).collect()
        })
    }

    fn metrics(&self) -> Vec<::metrics::Family> {
        let (at, names) = (self.clock.now().wall, (self.mojaloop_names, self.began.wall));
        let known = (&*self.certificates, &*self.issuers);
        let seen = (&*self.traffic, &*self.liquidity, known);
        metrics::collect(&self.handle, seen, at, (names, self.event_publishing()))
    }

    fn activity(&self) -> Activity {
        let (node, now) = (self.handle.status(), self.clock.now().wall);
        let participants = self.liquidity.participants();
        self.liquidity.recent.sample(&self.handle, self.clock.now().monotonic_us);
        let (rate, history, log) = self.liquidity.recent.rates(&node);
        Activity {
            time: now,
            log,
            rate,
            history,
            transfers: TransferCounts {
                in_flight: node.in_flight,
                reserved: node.counters.reserved,
                committed: node.counters.committed,
                aborted: node.counters.aborted,
                refused: node.counters.refused,
                expired: node.counters.expired,
            },
            queues: Queues {
                owed: node.owed,
                oldest_seconds: participants.oldest_notice_seconds(now),
                without_endpoint: self.traffic.totals().parked,
                participants: participants.leaders().queues(now),
            },
            dead_letters: node.dead,
            near_cap: participants.leaders().near_cap(),
            liquidity_alarms: self.liquidity.counts().raised,
        }
    }

    fn snapshots(&self) -> Snapshots {
        let status = self.snapshots.status();
        let file = |file: snapshots::SnapshotFile| SnapshotFile {
            log_index: file.log_index.0,
            name: file.name,
        };
        Snapshots {
            files: status.files.into_iter().map(file).collect(),
            busy: status.busy,
            taken: status.taken,
            failed: status.failed,
            last_bytes: status.last_bytes,
            last_millis: status.last_millis,
            last_done: status.last_done.map(|at| {
                let age_us = u64::try_from(at.elapsed().as_micros()).unwrap_or(u64::MAX);
                Stamp(self.clock.now().wall.0.saturating_sub(age_us))
            }),
            error: status.error,
        }
    }

    fn call_endpoint<'a>(
        &'a self,
        policy: &'a EgressPolicy,
        (participant, value): (FspName, &'a str),
    ) -> BoxFuture<'a, Result<(SocketAddr, StatusCode), String>> {
        Box::pin(async move {
            let tls = self.certificates.calls.as_deref();
            let answer = TestCaller { policy, tls }.call(&participant, value).await;
            answer.map(|it| (it.address, it.status)).map_err(|error| error.to_string())
        })
    }

    fn rotate_data_key(&self) -> BoxFuture<'_, Result<Option<RotatedKey>, Unavailable>> {
        Box::pin(async move {
            let Some(keys) = self.background.data_keys.clone() else { return Ok(None) };
            // Disk, command or token may block.
            let made = tokio::task::spawn_blocking(move || keys.rotate());
            let made = made.await.map_err(|_| Unavailable::Stopped)?;
            made.map(Some).ok_or(Unavailable::NoDataKey)
        })
    }

    fn replace_key_of(
        &self,
        participant: FspName,
    ) -> BoxFuture<'_, Result<Option<Stamp>, Unavailable>> {
        Box::pin(async move {
            let keys = self.background.data_keys.clone();
            let Some(keys) = keys.filter(|keys| keys.has_key_of(&participant)) else {
                return Ok(None);
            };
            let made = tokio::task::spawn_blocking(move || keys.rotate());
            let made = made.await.map_err(|_| Unavailable::Stopped)?;
            Ok(made.map(|_| self.clock.now().wall))
        })
    }

    fn take_snapshot(&self) {
        self.snapshots.request();
    }

    fn storage(&self) -> DiskStatus {
        let condition = self.handle.health();
        if let Some(ReadFailure { log_index, .. }) = condition.unread {
            let reader = self.handle.reader();
            // Read again, because no other request may need it. A success clears the failure.
            let _clears_failure =
                tokio::task::spawn_blocking(move || reader.read(log_index).is_ok());
        }
        let storage =
            self.background.storage.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let fullness = if condition.is_full { DiskUse::Full } else { storage.fullness };
        let failing = condition.storage_fault().or(storage.failing);
        DiskStatus { fullness, failing, ..storage }
    }

    fn cluster(&self) -> Cluster {
        let Some(cluster) = self.handle.cluster() else { return Cluster::default() };
        let node = |node: node::ClusterNode| ClusterNode {
            name: node.name,
            epoch: node.epoch,
            log_index: node.log_index.0,
            silent_ms: node.silent_ms,
            rules: node.rules,
            contradicts_at: node.contradicts.map(|log_index| log_index.0),
        };
        let lane = |lane: node::ClusterLane| ClusterLane {
            participant: lane.participant.to_string(),
            node: lane.node,
        };
        Cluster {
            node: cluster.me,
            log_index: cluster.log_index.0,
            behind: cluster.behind,
            unheard_ms: cluster.unheard_ms,
            held_ms: cluster.held_us / 1_000,
            foreign: cluster.foreign,
            agreed_at: cluster.agreed.map(|log_index| log_index.0),
            nodes: cluster.nodes.into_iter().map(node).collect(),
            lanes: cluster.lanes.into_iter().map(lane).collect(),
            last_takeover: cluster.last_takeover.map(|last| Takeover {
                log_index: last.log_index.0,
                at: last.stamp,
                gone: last.gone,
            }),
        }
    }

    fn follow_events(&self, query: EventQuery) -> Result<Receiver<EventPage>, Unavailable> {
        let store = self.handle.store().ok_or(Unavailable::Stopped)?;
        let source = EventSource { log: self.replays.clone(), store };
        self.events.follow(source, query).ok_or(Unavailable::TooManyFollow)
    }

    fn event_publishing(&self) -> Option<EventPublishing> {
        let publishing = self.publishing.as_ref()?;
        Some(publishing.report(self.replays.frames.end()))
    }

    fn configuration(&self) -> Bytes {
        self.configuration.clone()
    }

    fn is_tracing(&self) -> bool {
        self.handle.latency_trace().is_enabled()
    }

    fn set_tracing(&self, enabled: bool) {
        self.handle.latency_trace().enable(enabled);
    }

    fn trace(&self, transfer: &TransferId) -> TransferTrace {
        let trace = self.handle.latency_trace().of(transfer);
        let span = |stage: node::latency_trace::StageSpan| Span {
            start_ns: stage.start_ns,
            end_ns: stage.end_ns,
            label: stage.label,
        };
        TransferTrace {
            stages: trace.stages.into_iter().map(span).collect(),
            waits: trace.waits.into_iter().map(span).collect(),
            retained: trace.reach,
            under_way: trace.in_progress,
        }
    }

    fn health(&self) -> Health {
        let condition = self.handle.health();
        let uptime_us = self.clock.now().monotonic_us.saturating_sub(self.began.monotonic_us);
        let service = |down| if down { ServiceStatus::Down } else { ServiceStatus::Ok };
        let stage = |stuck: &Stall| StuckStage {
            name: stuck.stage.clone(),
            idle: stuck.idle,
            detail: stuck.detail.clone(),
        };
        Health {
            version: env!("CARGO_PKG_VERSION"),
            started: self.began.wall,
            uptime: Duration::from_micros(uptime_us),
            datastore: service(condition.stopped.is_some()),
            broker: service(condition.is_log_down()),
            stuck: condition.stalls.iter().map(stage).collect(),
            stalled_lanes: self.stalled_lanes(),
            open_breakers: self.open_breakers(),
        }
    }
}

/// Orders and the operators who proposed them, by proposal.
type NewestErasures = (Vec<Erasure>, HashMap<ProposalId, String>);

/// The newest orders of erasures before a record, and who proposed them.
fn newest_erasures(state: &State, before: Option<LogIndex>) -> NewestErasures {
    let is_listed = |it: &&Erasure| before.is_none_or(|before| it.record < before);
    let newest = state.erasures().iter().rev().filter(is_listed).take(ERASURES_LISTED_MAX);
    let newest = newest.copied().collect();
    let is_erasure = |change: &Change| matches!(change, Change::Erase(_));
    let proposals = state.proposals().iter().filter(|proposal| is_erasure(&proposal.change));
    (newest, proposals.map(|proposal| (proposal.id, proposal.by.clone())).collect())
}

/// Whether a proposed change has hashes of parties.
fn names_hashes(proposal: &Proposal) -> bool {
    proposal.change.named_parties().iter().any(|party| {
        is_hashed_identifier(&party.id) || party.sub_id.as_deref().is_some_and(is_hashed_identifier)
    })
}

/// The order of an erasure with its progress; `None` if its record is not durable yet.
fn erasure_report(
    reader: &dyn RecordReader,
    (erasure, proposers): (&Erasure, &HashMap<ProposalId, String>),
    status: &ErasureStatus,
) -> Result<Option<ErasureReport>, String> {
    let Some((administer, _)) = read_order(reader, erasure.record)? else { return Ok(None) };
    let Change::Erase(order) = administer.change.decided().clone() else { return Ok(None) };
    let (mut by, mut approved_by) = (administer.actor.clone(), String::new());
    if let Change::ApproveProposal(approval) = &administer.change {
        let proposer = proposers.get(&approval.proposal).cloned().unwrap_or_default();
        approved_by = std::mem::replace(&mut by, proposer);
    }
    let mut report = ErasureReport {
        record: erasure.record.0,
        at: erasure.at,
        order,
        by,
        approved_by,
        reason: administer.reason,
        segments_left: 0,
        archived_left: 0,
        contents_waiting: 0,
        in_copy: false,
    };
    status.add_to(&mut report);
    Ok(Some(report))
}

/// Records as ranges, ascending and apart.
fn ranges_of(records: &BTreeSet<LogIndex>) -> Vec<RecordRange> {
    let mut ranges: Vec<RecordRange> = Vec::new();
    for &record in records {
        match ranges.last_mut().filter(|range| range.last.0 + 1 == record.0) {
            Some(range) => range.last = record,
            None => ranges.push(RecordRange { first: record, last: record }),
        }
    }
    ranges
}

/// Searches the log for a party, and the party directory.
fn search_party<D: ports::Disk>(
    party: PartyName,
    (frames, mut request): (&journal::DurableFrames<D>, ExplainRequest),
    (handle, gone): (&Handle<ForwardedMessage>, &AtomicBool),
) -> Result<(BTreeSet<LogIndex>, PartyFindings), String> {
    let (id_type, id) = (party.id_type.clone(), party.id.clone());
    let mut search = PartySearch::new(party, handle.view().party_key.clone());
    let read = frames.replay(LogIndex(1), &mut |frame| {
        search.examine(frame);
        let is_over = search.is_full() || gone.load(Ordering::Relaxed);
        if is_over { Err(ports::StopReading) } else { Ok(()) }
    });
    read.map_err(|error| error.to_string())?;
    let is_cut = search.is_full();
    if !is_cut {
        add_payments((&mut search, &mut request), gone)?;
    }
    let mut findings =
        PartyFindings { changes: search.changes, is_cut, ..PartyFindings::default() };
    for sub_id in &search.sub_ids {
        let found = handle.find_party(&id_type, &id, sub_id.as_deref());
        findings.is_registered |= !found.map_err(|error| error.to_string())?.entries.is_empty();
    }
    Ok((search.contents, findings))
}

/// Adds the contents of the other messages of the found payments.
fn add_payments(
    (search, request): (&mut PartySearch, &mut ExplainRequest),
    gone: &AtomicBool,
) -> Result<(), String> {
    for id in std::mem::take(&mut search.payments) {
        if gone.load(Ordering::Relaxed) {
            return Err("the requester is gone".to_owned());
        }
        request.id = id;
        search.contents.extend(request.stored_contents()?.into_iter().flatten());
    }
    Ok(())
}

/// Cancels a task when the request that waits for it is dropped.
#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl NodeBackend {
    fn stalled_lanes(&self) -> StalledLanes {
        let switch::StalledLanes { count, owed, shown } = self.traffic.stalled_lanes();
        let now = self.clock.now().wall;
        let lane = |lane: switch::StalledLane| StalledLane {
            participant: lane.participant,
            owed: lane.owed,
            since: Stamp(now.0.saturating_sub(lane.idle.as_micros() as u64)),
            idle: lane.idle,
            last_attempt: switch::described(lane.last),
        };
        StalledLanes { count, owed, shown: shown.into_iter().map(lane).collect() }
    }

    fn open_breakers(&self) -> OpenBreakers {
        let open = self.traffic.open_breakers();
        let (view, now) = (self.handle.view(), self.clock.now());
        let breaker = |open: &switch::OpenBreaker| {
            let participant = view.get(open.participant)?.name.to_string();
            let open_micros = now.monotonic_us.saturating_sub(open.since_micros);
            let since = Stamp(now.wall.0.saturating_sub(open_micros));
            Some(OpenBreaker { participant, since, failures: open.failures })
        };
        let shown = open.iter().take(BREAKERS_SHOWN_MAX).filter_map(breaker).collect();
        OpenBreakers { count: open.len() as u64, shown }
    }

    /// A plan with the number of contents and their segments. Reads the contents on a separate
    /// thread, within the limit of explanations.
    async fn scanned(
        &self,
        mut plan: ErasurePlan,
        (form, participant): (ErasureForm, Option<FspName>),
        reason: String,
    ) -> Result<ErasurePlan, Unavailable> {
        let permits = Arc::clone(&self.permits.explaining);
        let permit = permits.try_acquire_owned().map_err(|_| Unavailable::Busy)?;
        let (reader, frames) = (self.handle.reader(), self.replays.frames.clone());
        let status = Arc::clone(&self.background.erasures);
        let gone = CancelOnDrop::default();
        let is_gone = Arc::clone(&gone.0);
        let task = tokio::task::spawn_blocking(move || {
            let mut scan = ContentScan::new(form, &reason).of_participant(participant);
            let read = scan.read((&frames, &*reader), &plan.records, &is_gone);
            read.map_err(|error| error.to_string())?;
            if participant.is_some() {
                plan.records = scan.found.into_iter().collect();
            }
            let ContentScan { contents, bulks, is_named: is_named_in_reason, .. } = scan;
            let planned = status.plan(ErasurePlan { contents, bulks, is_named_in_reason, ..plan });
            drop(permit);
            planned
        });
        task.await.map_err(|_| Unavailable::Stopped)?.map_err(|error| {
            tracing::error!(%error, "an erasure cannot be planned");
            Unavailable::RecordUnreadable
        })
    }

    /// All durable records before a time.
    async fn records_before(&self, time: Stamp) -> Result<Vec<RecordRange>, Unavailable> {
        let (reader, end) = (self.handle.reader(), self.replays.frames.end());
        let reading =
            tokio::task::spawn_blocking(move || last_before(&*reader, (LogIndex(0), end), time));
        let last = reading.await.map_err(|_| Unavailable::Stopped)?;
        let last = last.map_err(|_| Unavailable::RecordUnreadable)?;
        let range = RecordRange { first: LogIndex(1), last };
        Ok((0 < last.0).then_some(range).into_iter().collect())
    }

    /// The records whose contents are about a party: those that name it, and the others of their
    /// payments. Reads the whole log on a separate thread, within the limit of explanations.
    async fn records_about(
        &self,
        party: PartyName,
    ) -> Result<(BTreeSet<LogIndex>, PartyFindings), Unavailable> {
        let permits = Arc::clone(&self.permits.explaining);
        let permit = permits.try_acquire_owned().map_err(|_| Unavailable::Busy)?;
        let no_payment = TransferId::parse(NO_PAYMENT).expect("a ULID");
        let request = self.explain_request(no_payment).await?;
        let (handle, frames) = (self.handle.clone(), self.replays.frames.clone());
        let gone = CancelOnDrop::default();
        let is_gone = Arc::clone(&gone.0);
        let task = tokio::task::spawn_blocking(move || {
            let found = search_party(party, (&frames, request), (&handle, &is_gone));
            drop(permit);
            found
        });
        task.await.map_err(|_| Unavailable::Stopped)?.map_err(|error| {
            tracing::error!(%error, "the log cannot be searched for a party");
            Unavailable::RecordUnreadable
        })
    }

    /// Reads from the store, on another thread, once it is complete up to a record.
    async fn read_store<R: Send + 'static>(
        &self,
        wanted: LogIndex,
        read: impl FnOnce(&dyn ColdStore) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, Unavailable> {
        let store = self.handle.store().ok_or(Unavailable::Stopped)?;
        let reader = self.handle.reader();
        let reading = tokio::task::spawn_blocking(move || {
            let waited = wait_for_store(&*store, &*reader, (wanted, Instant::now()));
            let (_, is_complete) = waited.map_err(|_| Unavailable::RecordUnreadable)?;
            if !is_complete {
                return Err(Unavailable::StoreBehind);
            }
            read(&*store).map_err(|error| {
                tracing::error!(%error, "the cold store cannot be read");
                Unavailable::Unreadable
            })
        });
        reading.await.map_err(|_| Unavailable::Stopped)?
    }

    /// Reads the history of a transfer on a separate thread, within the limit of explanations.
    async fn explain<R: Send + 'static>(
        &self,
        id: TransferId,
        read: impl FnOnce(&ExplainRequest) -> Result<Option<R>, String> + Send + 'static,
    ) -> Result<Option<R>, Unavailable> {
        let permits = Arc::clone(&self.permits.explaining);
        let permit = permits.try_acquire_owned().map_err(|_| Unavailable::Busy)?;
        let request = self.explain_request(id).await?;
        let task = tokio::task::spawn_blocking(move || {
            let answer = read(&request);
            drop(permit);
            answer
        });
        task.await.map_err(|_| Unavailable::Stopped)?.map_err(|error| {
            tracing::error!(transfer = %id, %error, "cannot be explained");
            Unavailable::Unreadable
        })
    }

    async fn explain_request(&self, id: TransferId) -> Result<ExplainRequest, Unavailable> {
        let store = self.handle.store().ok_or(Unavailable::Stopped)?;
        let asked_at = self.handle.committed();
        let (reader, traffic) = (self.handle.reader(), Arc::clone(&self.traffic));
        let quarantined = Arc::clone(&self.quarantined);
        let erasures = self.all_erasures().await?;
        Ok(ExplainRequest { id, store, reader, asked_at, traffic, quarantined, erasures })
    }

    /// The orders of erasures, oldest first.
    async fn all_erasures(&self) -> Result<Vec<Erasure>, Unavailable> {
        let (answer, answered) = oneshot::channel();
        let all = |state: &State| state.erasures().iter().copied().collect();
        // The requester may be gone.
        let ask = move |state: &State| drop(answer.send(all(state)));
        self.handle.ask_local(ask).map_err(unavailable)?;
        answered.await.map_err(|_| self.unanswered())
    }

    /// Runs a query about a transfer, whose row may be in memory or in the cold store.
    async fn ask_about<R: Send + 'static>(
        &self,
        id: TransferId,
        question: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, Unavailable> {
        let (answer, answered) = oneshot::channel();
        // The requester may be gone.
        let ask = move |state: &State| drop(answer.send(question(state)));
        self.handle.ask_about(id, ask).map_err(unavailable)?;
        answered.await.map_err(|_| self.unanswered())
    }

    /// Why a query was dropped without an answer.
    fn unanswered(&self) -> Unavailable {
        match self.handle.ask_local(|_| ()) {
            Err(SubmissionRefused::Stopped) => Unavailable::Stopped,
            _ => Unavailable::Unanswered,
        }
    }

    /// A replay that ends when the client is gone.
    fn live_replay(&self, gone: &CancelOnDrop) -> Result<LiveReplay, Unavailable> {
        let store = self.handle.store().ok_or(Unavailable::Stopped)?;
        let is_cancelled = Arc::clone(&gone.0);
        Ok(LiveReplay { source: self.replays.clone(), store, is_cancelled })
    }

    /// A change as it is recorded, with hashes of parties in its fields, and with its contents. An
    /// approval repeats the proposed change, which may be older than the hashes.
    async fn conceal(
        &self,
        mut change: Administer,
    ) -> Result<(Command, Option<Vec<u8>>), Unavailable> {
        let is_repeated = self.repeats_proposal(&change.change).await?;
        let mut contents = None;
        if !is_repeated {
            let names = self.handle.view().conceal_parties(change.change.named_parties_mut());
            contents = names.as_ref().map(contents_of_parties);
        }
        Ok((Command::Administer(Box::new(change)), contents))
    }

    /// Whether a change approves a proposal of the same entries of the party directory.
    async fn repeats_proposal(&self, change: &Change) -> Result<bool, Unavailable> {
        let Change::ApproveProposal(approval) = change else { return Ok(false) };
        if approval.change.named_parties().is_empty() {
            return Ok(false);
        }
        let (id, change) = (approval.proposal, Arc::clone(&approval.change));
        let (answer, answered) = oneshot::channel();
        let ask = move |state: &State| {
            let proposal = state.proposals().get(id);
            // The requester may be gone.
            let _sent = answer.send(proposal.is_some_and(|it| it.change == change));
        };
        self.handle.ask(ask).map_err(unavailable)?;
        answered.await.map_err(|_| self.unanswered())
    }

    /// Submits a command and waits until its decision is durable.
    async fn record(
        &self,
        command: Command,
        payload: Option<&[u8]>,
    ) -> Result<ChangeReply, Unavailable> {
        let (answer, answered) = oneshot::channel();
        let call = Box::new(move |result| {
            // The requester may be gone; the change is recorded anyway.
            let _sent = answer.send(result);
        });
        self.submit(command, payload, ReplyTo::Call(call))?;
        answered.await.map_err(|_| Unavailable::Stopped)?.map_err(unavailable)
    }

    fn submit(
        &self,
        command: Command,
        payload: Option<&[u8]>,
        ticket: ReplyTo,
    ) -> Result<(), Unavailable> {
        let attached = SubmissionContext { ticket, message: None };
        let record = sequencer::encode(&command, payload).map_err(|_| Unavailable::InboxFull)?;
        let durability = Durability::Synced;
        let submission = Submission { command, record, durability, attached };
        self.handle.submit(&mut vec![submission]).map_err(unavailable)
    }
}

/// Why a notice waits; `None` while its first attempt is under way.
fn wait_reason(status: &DeliveryStatus) -> Option<String> {
    match (status.wait_reason, status.last) {
        (WaitReason::Address, _) => Some(NO_ENDPOINT.to_owned()),
        (WaitReason::Result | WaitReason::Record, None) => None,
        _ => Some(PendingDelivery::new(status, (String::new(), "")).progress()),
    }
}

/// The error code that the payer of a failed transfer got from the hub. After an abort it got the
/// payee's own, which is in the message only.
fn code_of_hub(end: Outcome) -> Option<u16> {
    ErrorOutcome::of(end).filter(|end| *end != ErrorOutcome::Aborted).map(switch::error_code)
}

fn unavailable(refused: SubmissionRefused) -> Unavailable {
    match refused {
        // Commands of operators have no sender, so the second case does not occur.
        SubmissionRefused::Full | SubmissionRefused::SenderBacklogFull => Unavailable::InboxFull,
        SubmissionRefused::DiskFull => Unavailable::DiskFull,
        SubmissionRefused::BrokersTimedOut => Unavailable::Unacknowledged,
        SubmissionRefused::Stopped => Unavailable::Stopped,
    }
}
