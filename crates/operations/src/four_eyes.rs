//! `/fourEyes`: the kinds of changes that one operator proposes and another one approves. An
//! addition to the reference's API.
//!
//! The kernel lists kinds by number. Operators choose groups of kinds, which are declared here.

use fspiop::{ErrorCode, Refusal};
use ledger::{
    AbortSettlement, Activate, AddKey, AdjustBalance, AdvanceSettlement, AssignParties, Change,
    ChangeDeclaration, CreateFeeRule, CreateHubAccount, CreateParticipant, CreateSettlementModel,
    CreateToken, EndEnrolment, EndFundsOut, Erase, MoveFunds, OperatorBook, RegisterParties,
    RemoveKey, RemoveRole, SetAccountActive, SetEndpoint, SetFeeRuleActive, SetFourEyes,
    SetInitialPositionAndLimits, SetLimit, SetOperator, SetParticipantActive, SetPassword, SetRole,
    SetSecondFactor, SetSettlementModelActive, State,
};
use serde_json::Value;

use crate::body::{Strings, body};
use crate::body_reader::refuse;
use crate::permissions::{Permission, Permissions};
use crate::proposals::now_of;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{permission_of, routes};
use crate::schema::{self, response_type};

/// The group of operators and their roles. It is listed whenever another one is: who could add an
/// operator alone could approve with that operator.
const ROLES: &str = "roles";

/// Groups of kinds of changes.
const GROUPS: [(&str, &[&ChangeDeclaration]); 10] = [
    ("funds", &[&MoveFunds::DECLARATION, &EndFundsOut::DECLARATION, &AdjustBalance::DECLARATION]),
    ("limits", &[&SetInitialPositionAndLimits::DECLARATION, &SetLimit::DECLARATION]),
    ("settlements", &[&AdvanceSettlement::DECLARATION, &AbortSettlement::DECLARATION]),
    (
        "models",
        &[
            &CreateSettlementModel::DECLARATION,
            &SetSettlementModelActive::DECLARATION,
            &CreateFeeRule::DECLARATION,
            &SetFeeRuleActive::DECLARATION,
        ],
    ),
    ("keys", &[&AddKey::DECLARATION, &RemoveKey::DECLARATION, &EndEnrolment::DECLARATION]),
    (
        "participants",
        &[
            &CreateHubAccount::DECLARATION,
            &CreateParticipant::DECLARATION,
            &SetParticipantActive::DECLARATION,
            &SetAccountActive::DECLARATION,
            &SetEndpoint::DECLARATION,
        ],
    ),
    ("parties", &[&RegisterParties::DECLARATION, &AssignParties::DECLARATION]),
    ("rules", &[&Activate::DECLARATION]),
    ("erasures", &[&Erase::DECLARATION]),
    (
        ROLES,
        &[
            &SetRole::DECLARATION,
            &RemoveRole::DECLARATION,
            &SetOperator::DECLARATION,
            &CreateToken::DECLARATION,
            &SetPassword::DECLARATION,
            &SetSecondFactor::DECLARATION,
        ],
    ),
];

routes! {
    "/fourEyes" {
        guarded GET showFourEyes = show, "Show which changes need a second operator" {
            responses: [200: FourEyesResponse = "The groups of changes."],
        }
        change PUT setFourEyes = set(NewFourEyes), "Choose which changes need a second operator" {
            permission: Security,
            records: SetFourEyes,
            text: "\
                A request for a change of a listed group is answered 202 with a proposal, which \
                another operator approves. Groups: `funds` (funds in and out, adjustments), \
                `limits` (net debit caps, initial positions), `settlements` (moving accounts of a \
                settlement, and aborting it), `models` (settlement models, fee rules), `keys`, \
                `participants` (participants, accounts, endpoints), `parties` (`POST /parties`), \
                `rules` (the rules version), `erasures` (never made alone, listed or not) and \
                `roles` (operators, roles, new tokens, passwords). `roles` must be listed whenever \
                another group is: who could add an operator alone could approve alone. While a \
                group is listed, a change of the list \
                is itself a proposal. Refused with 3100 unless operators have names \
                (`admin.auth = \"roles\"`), and unless two active operators have the permission of \
                each listed group.",
            example: {"groups": ["funds", "limits", "roles"]},
            responses: [200: FourEyesResponse = "The groups after the change."],
            refusals: [400 VALIDATION],
        }
    }
}

body! {
    Closed NewFourEyes {
        groups: Vec<String> = Strings {
            length: 0..=GROUPS.len(),
            is_valid: |text| GROUPS.iter().any(|(name, _)| *name == text),
            form: "is the name of a group; see /openapi/admin.json",
            schema: group_schema,
        },
    }
}

response_type! {
    /// Changes that need a second operator.
    struct FourEyesResponse as "FourEyes" {
        groups: Vec<&'static str>,
        /// Names of the kinds of changes.
        changes: Vec<&'static str>,
        /// Number of proposals that wait for a decision.
        open_proposals: usize,
    }
}

fn group_schema() -> Value {
    schema::one_of(&schema::names(&GROUPS))
}

/// The group of a kind of change; `None` if it never needs a second operator.
pub(crate) fn group_of(change: &ChangeDeclaration) -> Option<&'static str> {
    let in_group = |kinds: &[&ChangeDeclaration]| kinds.iter().any(|it| it.number == change.number);
    GROUPS.iter().find(|(_, kinds)| in_group(kinds)).map(|(name, _)| *name)
}

impl FourEyesResponse {
    fn of(state: &State) -> Self {
        let proposals = state.proposals();
        let listed = |kinds: &[&ChangeDeclaration]| kinds.iter().all(|it| proposals.needs(it));
        let changes = Change::DECLARATIONS.iter().filter(|declared| proposals.needs(declared));
        let now = now_of(state);
        Self {
            groups: GROUPS
                .iter()
                .filter(|(_, kinds)| listed(kinds))
                .map(|(name, _)| *name)
                .collect(),
            changes: changes.map(|declared| declared.name).collect(),
            open_proposals: proposals
                .iter()
                .filter(|it| it.state(now) == ledger::ProposalState::Open)
                .count(),
        }
    }
}

/// `GET /fourEyes`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::ok(&request.query_state(FourEyesResponse::of).await?))
}

/// `PUT /fourEyes`.
async fn set(request: &AdminRequest<'_>, body: NewFourEyes) -> HandlerResult {
    let chosen: Vec<_> =
        GROUPS.iter().filter(|(name, _)| body.groups.iter().any(|it| it == name)).collect();
    if !chosen.is_empty() {
        if request.caller.name.is_none() {
            return Err(refuse(
                ErrorCode::VALIDATION,
                "groups",
                "needs operators with names: set admin.auth = \"roles\" and add operators",
            ));
        }
        if !chosen.iter().any(|(name, _)| *name == ROLES) {
            let what =
                "must contain roles, because who can add an operator alone can approve alone";
            return Err(refuse(ErrorCode::VALIDATION, "groups", what));
        }
        let kinds = chosen.iter().copied().map(|(name, kinds)| (*name, permission_of(kinds[0])));
        let kinds: Vec<_> = kinds.collect();
        let unfit = request.query_state(move |state| {
            kinds.iter().find_map(|kind| too_few(state.operators(), *kind))
        });
        unfit.await?.map_or(Ok(()), Err)?;
    }
    let mut changes: Vec<u8> =
        chosen.iter().flat_map(|(_, kinds)| *kinds).map(|it| it.number).collect();
    changes.sort_unstable();
    request.change(SetFourEyes { changes }).await?;
    show(request).await
}

/// The refusal of a group that fewer than two active operators could propose and approve.
fn too_few(
    book: &OperatorBook,
    (group, permission): (&'static str, Option<Permission>),
) -> Option<Refusal> {
    let permission = permission?;
    let active = book.operators().filter(|operator| operator.active);
    let able = active.filter(|it| Permissions::of_roles(book, &it.roles).has(permission)).count();
    (able < 2).then(|| {
        let what = format!(
            "needs two active operators with the permission \"{}\" for {group}; {able} has it",
            permission.name()
        );
        refuse(ErrorCode::VALIDATION, "groups", &what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes that operators make alone, each with the reason.
    const ALONE: [(&ChangeDeclaration, &str); 10] = [
        (&ledger::Redeliver::DECLARATION, "sends again what the hub owes"),
        (&ledger::DropDeadLetter::DECLARATION, "drops a message; the payment is unchanged"),
        (&ledger::CreateOracle::DECLARATION, "a record only; the hub calls no oracle"),
        (&ledger::UpdateOracle::DECLARATION, "a record only; the hub calls no oracle"),
        (&ledger::DeleteOracle::DECLARATION, "a record only; the hub calls no oracle"),
        (&ledger::CreateLedgerAccountType::DECLARATION, "a name without accounts"),
        (&ledger::CloseWindow::DECLARATION, "routine; moves no money"),
        (&ledger::CreateSettlement::DECLARATION, "routine; its steps move the money"),
        (&ledger::BeginEnrolment::DECLARATION, "asks only; its end issues the certificate"),
        (&ledger::RevokeToken::DECLARATION, "takes access away, which must not wait"),
    ];

    #[test]
    fn every_kind_of_change_is_in_one_group_or_made_alone() {
        for declared in Change::DECLARATIONS {
            let groups = GROUPS.iter().flat_map(|(_, kinds)| *kinds);
            let grouped = groups.filter(|it| it.number == declared.number).count();
            let alone = ALONE.iter().filter(|(it, _)| it.number == declared.number).count();
            let is_list = declared.number == SetFourEyes::DECLARATION.number;
            let expected = usize::from(Change::is_proposable(declared.number) && !is_list);
            assert_eq!(grouped + alone, expected, "{}", declared.name);
        }
    }

    #[test]
    fn one_permission_serves_each_group() {
        for (name, kinds) in GROUPS {
            let permissions = kinds.iter().map(|kind| permission_of(kind));
            let stated: Vec<_> = permissions.flatten().collect();
            assert!(!stated.is_empty(), "{name}");
            assert!(stated.iter().all(|it| *it == stated[0]), "{name}: {stated:?}");
        }
    }
}
