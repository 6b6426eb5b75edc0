//! A request in progress: the interface of handlers.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fspiop::{ErrorCode, Refusal};
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use identity::SecretsKey;
use ledger::{
    AdminOutcome, Administer, Change, ChangeResult, Currency, FspName, PROPOSAL_SECONDS_MAX,
    PROPOSAL_TEXT_MAX, Participant, ParticipantIndex, Propose, State, TransferId,
};
use openapi::schema::reference;
use tokio::sync::oneshot;

use crate::admin_requests::AdminRequestTimes;
use crate::audit::{AuditEntry, recorded_path};
use crate::auth::Caller;
use crate::backend::{AdminBackend, ChangeAuthor, Unavailable};
use crate::body::Body;
use crate::body_reader::{CURRENCY_FORM, known_currency, refuse};
use crate::dry_runs::DryRuns;
use crate::logins::Logins;
use crate::metrics::AdminCounters;
use crate::options::AdminOptions;
use crate::outcome_errors;
use crate::permissions::Permission;
use crate::proposals::{ProposalResponse, revealed};
use crate::response::AdminResponse;
use crate::route::{Parameter, Route, parameter};
use crate::schema;
use crate::status_stream::StatusFeed;

/// An authenticated request with its body.
pub(crate) struct AdminRequest<'a> {
    pub(crate) backend: &'a dyn AdminBackend,
    /// The hub itself, also in a dry run.
    pub(crate) hub: &'a Arc<dyn AdminBackend>,
    pub(crate) status_feed: &'a Arc<StatusFeed>,
    pub(crate) options: &'a AdminOptions,
    pub(crate) counters: AdminCounters,
    pub(crate) times: &'a AdminRequestTimes,
    pub(crate) dry_runs: &'a DryRuns,
    pub(crate) headers: &'a HeaderMap,
    /// Values of the path's parameters.
    pub(crate) path: &'a [(&'static str, String)],
    pub(crate) query: &'a str,
    pub(crate) body: Bytes,
    pub(crate) identity: ChangeAuthor,
    /// The sender.
    pub(crate) caller: &'a Caller,
    pub(crate) audit: &'a AuditEntry,
    /// The path as the client sent it.
    pub(crate) target: &'a str,
    /// Set if the change that the handler asked for was proposed instead: the response.
    pub(crate) proposed: OnceLock<AdminResponse>,
    /// Address of the sender.
    pub(crate) peer: IpAddr,
    pub(crate) logins: &'a Logins,
    /// The key of secrets, where operators have roles.
    pub(crate) secrets: Option<&'a SecretsKey>,
    /// The route, which names the changes that it records.
    pub(crate) route: &'static Route,
}

impl AdminRequest<'_> {
    /// Records a change; it is durable and applied when this returns without an error.
    pub(crate) async fn change(&self, change: impl Into<Change>) -> Result<(), Refusal> {
        self.change_because(self.identity.reason.clone(), change).await
    }

    /// The same with a reason from the body.
    pub(crate) async fn change_because(
        &self,
        reason: String,
        change: impl Into<Change>,
    ) -> Result<(), Refusal> {
        let (outcome, _) = self.decide(reason, change).await?;
        outcome_errors::from_outcome(outcome).map_or(Ok(()), Err)
    }

    /// Records a change and returns the decision, for handlers that word refusals themselves.
    pub(crate) async fn decide(
        &self,
        reason: String,
        change: impl Into<Change>,
    ) -> Result<(AdminOutcome, Option<ChangeResult>), Refusal> {
        let change = change.into();
        let is_declared = self.route.is_for(change.declaration());
        assert!(is_declared, "a handler records the change that its route declares");
        self.must_be_in_force(change.declaration().rules).await?;
        if let Some(name) = &self.caller.name
            && self.needs_approval(&change).await?
        {
            return Err(self.propose(name, reason, (change, None)).await);
        }
        self.record(reason, change).await
    }

    /// Records a change that creates a secret, which the response to a proposal contains too.
    pub(crate) async fn change_with_secret(
        &self,
        change: impl Into<Change>,
        secret: String,
    ) -> Result<(), Refusal> {
        let (reason, change) = (self.identity.reason.clone(), change.into());
        self.must_be_in_force(change.declaration().rules).await?;
        if let Some(name) = &self.caller.name
            && self.needs_approval(&change).await?
        {
            return Err(self.propose(name, reason, (change, Some(secret))).await);
        }
        self.change_because(reason, change).await
    }

    /// Whether a change needs a second operator.
    async fn needs_approval(&self, change: &Change) -> Result<bool, Refusal> {
        let change = change.clone();
        self.query_state(move |state| state.needs_approval(&change)).await
    }

    /// Proposes a change. Its response is kept in [`Self::proposed`]; the refusal only ends the
    /// handler.
    async fn propose(
        &self,
        by: &str,
        reason: String,
        (change, secret): (Change, Option<String>),
    ) -> Refusal {
        let propose = Propose {
            by: by.to_owned(),
            reason: shortened(&reason),
            request: shortened(&format!("{} {}", self.route.verb, recorded_path(self.target))),
            seconds: (self.options.proposal_time.as_secs() as u32).min(PROPOSAL_SECONDS_MAX),
            change: Arc::new(change),
        };
        let id = match self.record(reason, propose.into()).await {
            Err(refusal) => return refusal,
            Ok((AdminOutcome::RegistryFull, _)) => {
                let what = "1,000 proposals are open: approve or reject some first";
                return Refusal::new(ErrorCode::VALIDATION, what);
            }
            Ok((_, Some(ChangeResult::Proposed(id)))) => id,
            Ok((outcome, _)) => return outcome_errors::of_result(outcome),
        };
        let found = self.query_state(move |state| {
            (state.stamp(), state.proposals().get(id).cloned().into_iter().collect::<Vec<_>>())
        });
        let proposal = match found.await {
            Ok((now, found)) => revealed(self, found).await.map(|mut it| (now, it.pop())),
            Err(refusal) => Err(refusal),
        };
        match proposal {
            Ok((now, Some(proposal))) => {
                let response = ProposalResponse::of(&proposal, now).accepted(secret);
                let _only_once = self.proposed.set(response);
                Refusal::internal("the change was proposed")
            }
            Ok((_, None)) => outcome_errors::of_result(AdminOutcome::ProposalNotFound),
            Err(refusal) => refusal,
        }
    }

    async fn record(
        &self,
        reason: String,
        change: Change,
    ) -> Result<(AdminOutcome, Option<ChangeResult>), Refusal> {
        let actor = self.identity.actor.clone();
        let decided = self
            .backend
            .administer(Administer { actor, reason, change })
            .await
            .map_err(outcome_errors::from_unavailable)?;
        self.audit.recorded(decided.log_index);
        let outcome = outcome_errors::outcome_of_change(decided.outcome)?;
        Ok((outcome, decided.result))
    }

    /// Refuses a change that the rules in force do not know: nodes of an older version, which may
    /// still run, could not read its record.
    async fn must_be_in_force(&self, needed: u32) -> Result<(), Refusal> {
        must_be_in_force(self.backend, needed).await
    }

    /// Whether personal data in the answer are masked: the caller lacks the permission for them.
    pub(crate) fn is_masked(&self) -> bool {
        self.route.unmasks.is_some_and(|needed| !self.caller.permissions.has(needed))
    }

    /// Whether the caller may read personal data, on a route that shows little of it.
    pub(crate) fn sees_personal_data(&self) -> bool {
        self.caller.permissions.has(Permission::Audit)
    }

    /// Queries the state; see [`AdminBackend::query_state`].
    pub(crate) async fn query_state<R: Send + 'static>(
        &self,
        question: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        query_state(self.backend, question).await
    }

    /// Reads from a participant; refuses an unknown name.
    pub(crate) async fn query_participant<R: Send + 'static>(
        &self,
        name: FspName,
        copy: impl FnOnce(&State, &Participant) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        let found = self.query_state(move |state| {
            state.registry().find(&name).map(|(_, participant)| copy(state, participant))
        });
        found.await?.ok_or_else(outcome_errors::participant_not_found)
    }

    /// The index of the participant that a query names; refuses an unknown name.
    pub(crate) async fn query_party(
        &self,
        wanted: &Parameter<FspName>,
    ) -> Result<Option<ParticipantIndex>, Refusal> {
        let Some(name) = self.query(wanted)? else { return Ok(None) };
        let index =
            self.query_state(move |state| state.registry().find(&name).map(|(index, _)| index));
        index.await?.map(Some).ok_or_else(outcome_errors::participant_not_found)
    }

    /// The key of secrets; refused where operators have no roles.
    pub(crate) fn secrets(&self) -> Result<&SecretsKey, Refusal> {
        let detail = "operators log in only with admin.auth = \"roles\"";
        self.secrets.ok_or_else(|| Refusal::new(ErrorCode::VALIDATION, detail))
    }

    /// The body.
    pub(crate) fn body<B: Body>(&self) -> Result<B, Refusal> {
        B::read_text(&self.body)
    }

    /// Refuses a member whose value is not an address that the hub can and may call.
    pub(crate) fn may_call(&self, member: &str, value: &str) -> Result<(), Refusal> {
        self.options
            .egress
            .check(value)
            .map_err(|unreachable| refuse(ErrorCode::VALIDATION, member, &unreachable.to_string()))
    }

    /// Refuses a request whose `Accept` is missing or malformed. Any media range is accepted,
    /// because responses have one format.
    pub(crate) fn must_accept(&self) -> Result<(), Refusal> {
        let lines = self.headers.get_all(ACCEPT);
        if lines.iter().next().is_none() {
            return Err(Refusal::missing("/header must have required property 'accept'"));
        }
        match fspiop::media::is_accept_list(lines.iter().map(HeaderValue::as_bytes)) {
            true => Ok(()),
            false => Err(Refusal::malformed("Invalid accept header")),
        }
    }

    /// A parameter of the path.
    pub(crate) fn path<T>(&self, parameter: &Parameter<T>) -> Result<T, Refusal> {
        let name = parameter.info.name;
        let value = self.path.iter().find(|(known, _)| *known == name);
        let (_, value) = value.expect("a handler reads only parameters that its path has");
        (parameter.read)(value)
    }

    /// A query parameter; `None` if absent.
    pub(crate) fn query<T>(&self, wanted: &Parameter<T>) -> Result<Option<T>, Refusal> {
        let value = parameter(self.query, wanted.info.name);
        value.map(|value| (wanted.read)(&value)).transpose()
    }
}

/// Queries the state; see [`AdminBackend::query_state`].
pub(crate) async fn query_state<R: Send + 'static>(
    backend: &dyn AdminBackend,
    question: impl FnOnce(&State) -> R + Send + 'static,
) -> Result<R, Refusal> {
    let (answer, mut answered) = oneshot::channel();
    // The receiver is gone if the client has disconnected.
    let question = Box::new(move |state: &State| drop(answer.send(question(state))));
    backend.query_state(question).await.map_err(outcome_errors::from_unavailable)?;
    answered.try_recv().map_err(|_| outcome_errors::from_unavailable(Unavailable::Stopped))
}

/// Refuses a change that needs a newer version of the rules than the one in force.
pub(crate) async fn must_be_in_force(
    backend: &dyn AdminBackend,
    needed: u32,
) -> Result<(), Refusal> {
    if needed == 1 {
        return Ok(());
    }
    match query_state(backend, State::rules_version).await? {
        rules if rules < needed => Err(Refusal::new(
            ErrorCode::VALIDATION,
            &format!("needs rules version {needed}, but {rules} is in force; see PUT /rules"),
        )),
        _ => Ok(()),
    }
}

/// A text within the bound of proposals.
fn shortened(text: &str) -> String {
    let end = (0..=text.len().min(PROPOSAL_TEXT_MAX)).rev().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or_default()].to_owned()
}

/// The id of a transfer in examples, as JSON.
pub(crate) const EXAMPLE_TRANSFER: &str = "\"b51ec534-ee48-4575-b6a9-ead2955b8069\"";

/// The transfer in a path.
pub(crate) const TRANSFER: Parameter<TransferId> = Parameter::new(
    "transferId",
    "The transfer.",
    || reference("TransferId"),
    |text| {
        let what = "must be a UUID or a ULID";
        TransferId::parse(text)
            .ok_or_else(|| refuse(ErrorCode::MALFORMED_SYNTAX, "transferId", what))
    },
)
.example(EXAMPLE_TRANSFER);

/// The query parameter `currency`.
pub(crate) const ONLY_CURRENCY: Parameter<Currency> =
    Parameter::new("currency", "Only this currency.", schema::currency, |code| {
        known_currency(code)
            .ok_or_else(|| refuse(ErrorCode::MALFORMED_SYNTAX, "currency", CURRENCY_FORM))
    });

/// A participant's name from the path; an invalid name is an unknown participant.
pub(crate) fn participant_name(text: &str) -> Result<FspName, Refusal> {
    FspName::new(text).ok_or_else(outcome_errors::participant_not_found)
}
