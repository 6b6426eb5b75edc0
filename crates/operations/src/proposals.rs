//! `/proposals`: changes that wait for the decision of a second operator. An addition to the
//! reference's API.
//!
//! [`AdminRequest::decide`](crate::request::AdminRequest) turns a change of a listed kind into a
//! proposal. Here operators list, approve and reject proposals. An operator who decides needs the
//! permission of the proposed change.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{
    AdminOutcome, ApproveProposal, Change, ChangeResult, Proposal, ProposalEnd, ProposalId,
    ProposalState, RejectProposal, Stamp, State, StepResult,
};

use crate::auth;
use crate::body::{MaybeAbsent, Optional, body, single_line};
use crate::body_reader::refuse;
use crate::change_words::{InWords, masked_words};
use crate::erasures::check_reason;
use crate::four_eyes::group_of;
use crate::outcome_errors;
use crate::permissions::Permission;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::Timestamp;
use crate::route::{Parameter, permission_of, routes};
use crate::rules::all_must_know;
use crate::schema::{self, response_type};

/// Longest reason of a decision, in characters.
const REASON_CHARACTERS_MAX: usize = 1_024;

const STATES: [(&str, ProposalState); 5] = [
    ("OPEN", ProposalState::Open),
    ("EXPIRED", ProposalState::Expired),
    ("APPROVED", ProposalState::Decided(ProposalEnd::Approved)),
    ("REJECTED", ProposalState::Decided(ProposalEnd::Rejected)),
    ("WITHDRAWN", ProposalState::Decided(ProposalEnd::Withdrawn)),
];

/// The number of a proposal in a path; a text that cannot be one names none.
const ID: Parameter<Option<ProposalId>> = Parameter::new(
    "id",
    "The proposal's number, as the list shows it.",
    schema::some_text,
    |text| {
        let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        Ok(number.map(ProposalId))
    },
)
.example("\"1\"");

const STATE: Parameter<ProposalState> = Parameter::new(
    "state",
    "Only proposals in this state.",
    || schema::one_of(&schema::names(&STATES)),
    |text| {
        let known = STATES.iter().find(|(name, _)| *name == text).map(|(_, state)| *state);
        let what = "must be OPEN, EXPIRED, APPROVED, REJECTED or WITHDRAWN";
        known.ok_or_else(|| refuse(ErrorCode::VALIDATION, "state", what))
    },
);

routes! {
    "/proposals" {
        guarded GET listProposals = list, "List proposed changes" {
            text: "\
                Newest first: the open ones, and at least the newest 1,000 that have ended. \
                Identifiers of parties are masked without the permission `audit`.",
            query: [STATE],
            responses: [200: Vec<ProposalResponse> = "Proposals."],
            refusals: [400 VALIDATION],
        }
    }
    "/proposals/{id}" [ID] {
        guarded GET showProposal = show, "Show a proposed change" {
            responses: [200: ProposalResponse = "The proposal."],
            refusals: [400 ID_NOT_FOUND],
        }
    }
    "/proposals/{id}/approve" [ID] {
        change POST approveProposal = approve(MaybeDecision), "Approve and make a proposed change" {
            permission: None,
            records: ApproveProposal,
            text: "\
                Makes the change in the same step. Requires the permission of the change, and \
                another operator than the one who proposed it, who gets 403. If the change has \
                become invalid, the response is its own refusal, nothing changes, and the proposal \
                has ended. A resend by the same operator gets the same response. Needs no \
                body.",
            example: {"reason": "checked with the bank statement"},
            responses: [200: ProposalResponse = "The change is made."],
            refusals: [400 PAYER_INSUFFICIENT_LIQUIDITY, 400 VALIDATION],
        }
    }
    "/proposals/{id}/reject" [ID] {
        change POST rejectProposal = reject(MaybeDecision), "Reject or withdraw a proposed change" {
            permission: None,
            records: RejectProposal,
            text: "\
                The operator who proposed the change withdraws it; another operator needs the \
                permission of the change. Needs no body.",
            example: {"reason": "wrong amount"},
            responses: [200: ProposalResponse = "The proposal has ended."],
        }
    }
}

type MaybeDecision = MaybeAbsent<Decision>;

body! {
    Closed Decision {
        reason: Option<String> = Optional(single_line(REASON_CHARACTERS_MAX)),
    }
}

response_type! {
    /// A proposed change.
    pub(crate) struct ProposalResponse as "Proposal" {
        proposal_id: u32,
        state: &'static str = schema::one_of(&schema::names(&STATES)),
        /// The kind of the change.
        change: &'static str,
        /// Its group in `/fourEyes`.
        #[serde(skip_serializing_if = "Option::is_none")]
        group: Option<&'static str>,
        /// The permission that a decision requires.
        #[serde(skip_serializing_if = "Option::is_none")]
        permission: Option<&'static str>,
        /// The change in words.
        description: String,
        /// Method and path of the request.
        request: String,
        reason: String,
        proposed_by: String,
        proposed_date: Timestamp,
        expiration_date: Timestamp,
        log_index: u64,
        /// The secret of a proposed token or second factor, only in the response to its request.
        #[serde(skip_serializing_if = "Option::is_none")]
        token: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        decision: Option<DecisionResponse>,
    }
}

response_type! {
    /// The decision on a proposal.
    pub(crate) struct DecisionResponse {
        decided_by: String,
        decided_date: Timestamp,
        reason: String,
        /// The outcome of an approved change.
        outcome: String,
        /// Whether the change was made.
        is_made: bool,
        log_index: u64,
        /// The settlement that was created, or the window that was opened.
        #[serde(skip_serializing_if = "Option::is_none")]
        created_id: Option<u32>,
        /// The result of each account of a settlement, in the order of the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        steps: Option<Vec<&'static str>>,
    }
}

impl ProposalResponse {
    /// A proposal at this time.
    pub(crate) fn of(proposal: &Proposal, now: Stamp) -> Self {
        let state = proposal.state(now);
        let name =
            STATES.iter().find(|(_, known)| *known == state).expect("every state is named").0;
        let declared = proposal.change.declaration();
        let decision = proposal.decision.as_ref().map(|decision| DecisionResponse {
            decided_by: decision.by.clone(),
            decided_date: Timestamp(decision.at),
            reason: decision.reason.clone(),
            outcome: format!("{:?}", decision.outcome),
            is_made: decision.kind == ProposalEnd::Approved
                && refusal_of(AdminOutcome::of(decision.outcome)).is_none(),
            log_index: decision.record.0,
            created_id: None,
            steps: None,
        });
        Self {
            proposal_id: proposal.id.0,
            state: name,
            change: declared.name,
            group: group_of(declared),
            permission: permission_of(declared).map(Permission::name),
            description: masked_words(&proposal.change),
            request: proposal.request.clone(),
            reason: proposal.reason.clone(),
            proposed_by: proposal.by.clone(),
            proposed_date: Timestamp(proposal.proposed),
            expiration_date: Timestamp(proposal.expires),
            log_index: proposal.record.0,
            token: None,
            decision,
        }
    }

    /// The same, complete if the caller may read personal data.
    fn shown_to(request: &AdminRequest<'_>, (proposal, now): (&Proposal, Stamp)) -> Self {
        let masked = Self::of(proposal, now);
        match request.sees_personal_data() {
            true => Self { description: proposal.change.in_words(), ..masked },
            false => masked,
        }
    }

    /// The response to the request that proposed the change.
    pub(crate) fn accepted(self, token: Option<String>) -> AdminResponse {
        let location = format!("/proposals/{}", self.proposal_id);
        AdminResponse::json(StatusCode::ACCEPTED, &Self { token, ..self }).with_location(location)
    }
}

/// `GET /proposals`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let wanted = request.query(&STATE)?;
    let found = request.query_state(move |state| {
        let now = now_of(state);
        let is_wanted = |it: &&Proposal| wanted.is_none_or(|wanted| it.state(now) == wanted);
        let all = state.proposals().iter().rev().filter(is_wanted).cloned();
        (now, all.collect::<Vec<_>>())
    });
    let (now, all) = found.await?;
    let all = revealed(request, all).await?;
    let shown = |it: &Proposal| ProposalResponse::shown_to(request, (it, now));
    let all: Vec<_> = all.iter().map(shown).collect();
    Ok(AdminResponse::ok(&all))
}

/// `GET /proposals/{id}`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let (proposal, now) = find(request).await?;
    Ok(AdminResponse::ok(&ProposalResponse::shown_to(request, (&proposal, now))))
}

/// `POST /proposals/{id}/approve`.
async fn approve(request: &AdminRequest<'_>, MaybeAbsent(body): MaybeDecision) -> HandlerResult {
    let by = name_of(request)?;
    let (proposal, _) = find(request).await?;
    must_be_permitted(request, &proposal)?;
    if let Change::Activate(change) = &*proposal.change {
        all_must_know(change.rules_version, &request.backend.cluster())?;
    }
    let reason = body.reason.unwrap_or_else(|| request.identity.reason.clone());
    if let Change::Erase(erase) = &*proposal.change {
        check_reason(request, erase, &reason).await?;
    }
    let (id, change) = (proposal.id, proposal.change.clone());
    let approval = ApproveProposal { proposal: id, by: by.clone(), reason, change };
    // The reason of the proposal carries the external reference of funds.
    let (outcome, result) = request.decide(proposal.reason, approval).await?;
    let (proposal, now) = find(request).await?;
    let is_resent = outcome == AdminOutcome::ProposalEnded && is_own_approval(&proposal, &by);
    let decided = proposal.decision.as_ref().filter(|_| is_resent);
    let outcome = decided.and_then(|it| AdminOutcome::of(it.outcome)).unwrap_or(outcome);
    refusal_of(Some(outcome)).map_or(Ok(()), Err)?;
    let mut response = ProposalResponse::of(&proposal, now);
    if let Some(decision) = &mut response.decision {
        (decision.created_id, decision.steps) = details_of(result);
    }
    Ok(AdminResponse::ok(&response))
}

/// `POST /proposals/{id}/reject`.
async fn reject(request: &AdminRequest<'_>, MaybeAbsent(body): MaybeDecision) -> HandlerResult {
    let by = name_of(request)?;
    let (proposal, _) = find(request).await?;
    if proposal.by != by {
        must_be_permitted(request, &proposal)?;
    }
    let reason = body.reason.unwrap_or_else(|| request.identity.reason.clone());
    if let Change::Erase(erase) = &*proposal.change {
        check_reason(request, erase, &reason).await?;
    }
    let rejection = RejectProposal { proposal: proposal.id, by, reason: reason.clone() };
    request.change_because(reason, rejection).await?;
    show(request).await
}

/// The time of the state or of this machine, whichever is later: an idle hub applies nothing.
pub(crate) fn now_of(state: &State) -> Stamp {
    state.stamp().max(auth::now())
}

/// The proposal in the path, and the time.
async fn find(request: &AdminRequest<'_>) -> Result<(Proposal, Stamp), Refusal> {
    let unknown = || outcome_errors::of_result(AdminOutcome::ProposalNotFound);
    let id = request.path(&ID)?.ok_or_else(unknown)?;
    let found = request
        .query_state(move |state| (state.proposals().get(id).cloned(), now_of(state)))
        .await?;
    let proposal = revealed(request, found.0.into_iter().collect()).await?.pop();
    Ok((proposal.ok_or_else(unknown)?, found.1))
}

/// Proposals with the identifiers of parties.
pub(crate) async fn revealed(
    request: &AdminRequest<'_>,
    proposals: Vec<Proposal>,
) -> Result<Vec<Proposal>, Refusal> {
    let revealed = request.backend.reveal_proposals(proposals).await;
    revealed.map_err(outcome_errors::from_unavailable)
}

/// The name of the operator who decides.
fn name_of(request: &AdminRequest<'_>) -> Result<String, Refusal> {
    let what = "a decision needs operators with names: set admin.auth = \"roles\"";
    request.caller.name.clone().ok_or_else(|| Refusal::new(ErrorCode::VALIDATION, what))
}

fn must_be_permitted(request: &AdminRequest<'_>, proposal: &Proposal) -> Result<(), Refusal> {
    match permission_of(proposal.change.declaration()) {
        Some(permission) => request.caller.must_have(permission, &request.backend.operators()),
        None => Ok(()),
    }
}

fn is_own_approval(proposal: &Proposal, by: &str) -> bool {
    let decision = proposal.decision.as_ref();
    decision.is_some_and(|it| it.kind == ProposalEnd::Approved && it.by == by)
}

/// The refusal of an approved change. Unlike a request of funds out, an approval of funds out that
/// exceed the cover is refused.
fn refusal_of(outcome: Option<AdminOutcome>) -> Option<Refusal> {
    let outcome = outcome?;
    if outcome == AdminOutcome::FundsInsufficient {
        let what = "the amount exceeds the participant's available liquidity; no funds moved";
        return Some(Refusal::new(ErrorCode::PAYER_INSUFFICIENT_LIQUIDITY, what));
    }
    outcome_errors::from_outcome(outcome)
}

/// The number of a new settlement or window, and the results of the accounts of a settlement.
fn details_of(result: Option<ChangeResult>) -> (Option<u32>, Option<Vec<&'static str>>) {
    match result {
        Some(ChangeResult::Created(settlement)) => (Some(settlement.0), None),
        Some(ChangeResult::Opened(window)) => (Some(window.0), None),
        Some(ChangeResult::Advanced(steps)) => {
            (None, Some(steps.into_iter().map(step_name).collect()))
        }
        // Its id is that of the record.
        Some(ChangeResult::Enrolment(_))
        | Some(ChangeResult::Inapplicable(_) | ChangeResult::Proposed(_))
        | None => (None, None),
    }
}

const fn step_name(step: StepResult) -> &'static str {
    match step {
        StepResult::Moved => "MOVED",
        StepResult::Updated => "UPDATED",
        StepResult::ParticipantNotFound => "PARTICIPANT_NOT_FOUND",
        StepResult::AccountNotFound => "ACCOUNT_NOT_FOUND",
        StepResult::ParticipantMismatch => "PARTICIPANT_MISMATCH",
        StepResult::Repeated => "REPEATED",
        StepResult::NotAllowed => "NOT_ALLOWED",
    }
}
