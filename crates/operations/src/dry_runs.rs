//! Dry runs: requests with the header `X-Dry-Run` are handled as ever, but on a copy of the state,
//! and record nothing.
//!
//! The header names the dry run. The first request of a dry run copies the state ([`Trial`]), and
//! each request sees the changes of those before it. A dry run ends with `DELETE /dryRuns/{name}`,
//! or [`IDLE_MAX`] after its last request. Different authors have different dry runs.
//!
//! Costs: one copy of participants and accounts per dry run, made on the sequencer's thread.
//! Bounds: [`DRY_RUNS_MAX`] at a time; one more is refused.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use http::header::{HeaderMap, HeaderName};
use ledger::{
    Administer, ArchiveKind, ArchivedSettlement, ChangeReply, NoticeId, OperatorBook, PartyBinding,
    TransferId, Trial,
};
use metrics::Family;
use tokio::sync::oneshot;

use crate::backend::{ARCHIVED_MAX, AdminBackend, BoxFuture, PrepareBody, StateQuery, Unavailable};
use crate::contents::PaymentContents;
use crate::explanations::ExplanationOptions;
use crate::outcome_errors;
use crate::reports::{Health, TransferTrace};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, Route, routes};
use crate::statements::{ParticipantStatementRequest, Statement, StatementRefusal};

/// The header that names a dry run.
pub(crate) const X_DRY_RUN: HeaderName = HeaderName::from_static("x-dry-run");
/// Longest name of a dry run, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 64;
/// Maximum number of dry runs at a time.
const DRY_RUNS_MAX: usize = 4;
/// Time after the last request of a dry run until it ends.
const IDLE_MAX: Duration = Duration::from_secs(60);

const NAME: Parameter<String> =
    Parameter::some_text("name", "The name of the dry run.").example("\"it\"");

routes! {
    "/dryRuns/{name}" [NAME] {
        action DELETE endDryRun = end, "End a dry run" {
            permission: None,
            text: "Without this request a dry run ends 60 s after its last one.",
            responses: [204: () = "The requester has no dry run of this name."],
        }
    }
}

async fn end(request: &AdminRequest<'_>) -> HandlerResult {
    request.dry_runs.end(&(request.identity.actor.clone(), request.path(&NAME)?));
    Ok(AdminResponse::empty(StatusCode::NO_CONTENT))
}

/// The dry runs in progress, by author and name.
#[derive(Default)]
pub(crate) struct DryRuns(Mutex<HashMap<(String, String), DryRun>>);

struct DryRun {
    trial: SharedTrial,
    used: Instant,
}

/// The state of a dry run; empty until it is copied.
type SharedTrial = Arc<Mutex<Option<Trial>>>;

impl DryRuns {
    /// The backend of a dry run, which is begun if it is new.
    pub(crate) async fn backend(
        &self,
        inner: Arc<dyn AdminBackend>,
        key: (String, String),
    ) -> Result<DryRunBackend, Refusal> {
        let trial = self.find(key, Instant::now()).ok_or_else(too_many)?;
        if lock(&trial).is_none() {
            let (answer, mut answered) = oneshot::channel();
            // The receiver is gone if the client has disconnected.
            let copy: StateQuery = Box::new(move |state| drop(answer.send(state.trial())));
            inner.query_state(copy).await.map_err(outcome_errors::from_unavailable)?;
            let stopped = |_| outcome_errors::from_unavailable(Unavailable::Stopped);
            let copied = answered.try_recv().map_err(stopped)?;
            lock(&trial).get_or_insert(copied);
        }
        Ok(DryRunBackend { inner, trial })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(String, String), DryRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, key: &(String, String)) {
        self.all().remove(key);
    }

    /// A dry run in progress, or a new one. `None` if there are too many.
    fn find(&self, key: (String, String), now: Instant) -> Option<SharedTrial> {
        let mut all = self.all();
        all.retain(|_, it| now.saturating_duration_since(it.used) < IDLE_MAX);
        if DRY_RUNS_MAX <= all.len() && !all.contains_key(&key) {
            return None;
        }
        let found = all.entry(key).or_insert_with(|| DryRun { trial: Arc::default(), used: now });
        found.used = now;
        Some(Arc::clone(&found.trial))
    }
}

/// The name of the dry run that a request belongs to.
pub(crate) fn name(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get(X_DRY_RUN) else { return Ok(None) };
    let name = value.to_str().unwrap_or_default().trim();
    match (1..=NAME_BYTES_MAX).contains(&name.len()) {
        true => Ok(Some(name.to_owned())),
        false => {
            let detail = format!("{X_DRY_RUN} must be 1 to {NAME_BYTES_MAX} visible characters");
            Err(Refusal::new(ErrorCode::VALIDATION, &detail))
        }
    }
}

/// Refuses a route that cannot be part of a dry run.
pub(crate) fn check(route: &Route, path: &str) -> Result<(), Refusal> {
    match route.dry_run {
        true => Ok(()),
        false => {
            let detail = format!("{X_DRY_RUN}: {} {path} cannot be part of a dry run", route.verb);
            Err(Refusal::new(ErrorCode::VALIDATION, &detail))
        }
    }
}

fn too_many() -> Refusal {
    let detail = format!(
        "{DRY_RUNS_MAX} dry runs are in progress; end one, or retry {} s after its last request",
        IDLE_MAX.as_secs()
    );
    Refusal::new(ErrorCode::SERVICE_UNAVAILABLE, &detail)
}

fn lock(trial: &Mutex<Option<Trial>>) -> MutexGuard<'_, Option<Trial>> {
    trial.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The hub as a dry run sees it.
pub(crate) struct DryRunBackend {
    inner: Arc<dyn AdminBackend>,
    trial: SharedTrial,
}

impl DryRunBackend {
    fn with<R>(&self, act: impl FnOnce(&mut Trial) -> R) -> R {
        act(lock(&self.trial).as_mut().expect("the state was copied before the request"))
    }

    /// The rows in a range that have left the memory of the trial.
    fn own_rows(
        &self,
        kind: ArchiveKind,
        numbers: &RangeInclusive<u32>,
    ) -> Vec<ArchivedSettlement> {
        let is_wanted =
            |row: &&ArchivedSettlement| row.kind() == kind && numbers.contains(&row.number());
        self.with(|trial| trial.archived().iter().filter(is_wanted).cloned().collect())
    }
}

impl AdminBackend for DryRunBackend {
    fn operators(&self) -> Arc<OperatorBook> {
        self.inner.operators()
    }

    fn administer(&self, change: Administer) -> BoxFuture<'_, Result<ChangeReply, Unavailable>> {
        let reply = self.with(|trial| trial.decide(change));
        Box::pin(async { Ok(reply) })
    }

    fn query_state(&self, query: StateQuery) -> BoxFuture<'_, Result<(), Unavailable>> {
        self.with(|trial| query(trial.state()));
        Box::pin(async { Ok(()) })
    }

    fn archived(
        &self,
        kind: ArchiveKind,
        numbers: RangeInclusive<u32>,
    ) -> BoxFuture<'_, Result<Vec<ArchivedSettlement>, Unavailable>> {
        Box::pin(async move {
            let own = self.own_rows(kind, &numbers);
            let mut rows = self.inner.archived(kind, numbers).await?;
            rows.retain(|row| own.iter().all(|it| it.number() != row.number()));
            rows.extend(own);
            rows.sort_by_key(ArchivedSettlement::number);
            rows.truncate(ARCHIVED_MAX);
            Ok(rows)
        })
    }

    // No route of a dry run needs the following.

    fn find_party(
        &self,
        id_type: &str,
        id: &str,
        sub_id: Option<&str>,
    ) -> Result<Vec<PartyBinding>, Unavailable> {
        self.inner.find_party(id_type, id, sub_id)
    }

    fn prepare_body(
        &self,
        id: TransferId,
    ) -> BoxFuture<'_, Result<Option<PrepareBody>, Unavailable>> {
        self.inner.prepare_body(id)
    }

    fn explanation(
        &self,
        id: TransferId,
        options: ExplanationOptions,
    ) -> BoxFuture<'_, Result<Option<Bytes>, Unavailable>> {
        self.inner.explanation(id, options)
    }

    fn message_contents(
        &self,
        id: TransferId,
    ) -> BoxFuture<'_, Result<Option<PaymentContents>, Unavailable>> {
        self.inner.message_contents(id)
    }

    fn participant_statement(
        &self,
        request: ParticipantStatementRequest,
    ) -> BoxFuture<'_, Result<Result<Statement, StatementRefusal>, Unavailable>> {
        self.inner.participant_statement(request)
    }

    fn parked_notices(&self) -> BoxFuture<'_, Vec<NoticeId>> {
        self.inner.parked_notices()
    }

    fn wait_reasons(&self, notices: Vec<NoticeId>) -> BoxFuture<'_, HashMap<NoticeId, String>> {
        self.inner.wait_reasons(notices)
    }

    fn metrics(&self) -> Vec<Family> {
        self.inner.metrics()
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn is_tracing(&self) -> bool {
        self.inner.is_tracing()
    }

    fn set_tracing(&self, _: bool) {}

    fn trace(&self, transfer: &TransferId) -> TransferTrace {
        self.inner.trace(transfer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{ALL, RouteKind};

    #[test]
    fn dry_runs_are_bounded_and_end_when_idle() {
        let runs = DryRuns::default();
        let begin = Instant::now();
        let find = |name: &str, seconds: u64| {
            let now = begin + Duration::from_secs(seconds);
            runs.find(("operator".into(), name.into()), now)
        };
        let first = find("0", 0).expect("there is room");
        for name in ["1", "2", "3"] {
            assert!(find(name, 30).is_some());
        }
        assert!(find("4", 59).is_none());
        assert!(Arc::ptr_eq(&first, &find("0", 59).expect("it is in progress")));
        assert!(find("4", 89).is_none());
        assert!(find("4", 90).is_some());
        assert!(find("5", 90).is_some());
        runs.end(&("operator".into(), "4".into()));
        assert!(find("6", 90).is_some());
        assert!(!Arc::ptr_eq(&first, &find("0", 200).expect("there is room")));
    }

    #[test]
    fn trials_decide_the_changes_of_all_marked_routes() {
        let routes = ALL.iter().flat_map(|(_, resources)| *resources).flat_map(|it| it.routes);
        let mut changes = 0;
        for route in routes.filter(|route| route.dry_run) {
            let mut declared = route.records.into_iter().chain(route.or_records);
            assert!(declared.all(Trial::decides), "{}", route.id);
            assert_ne!(route.kind, RouteKind::Action, "{}", route.id);
            changes += usize::from(route.kind == RouteKind::Change);
        }
        assert_eq!(changes, 7);
    }
}
