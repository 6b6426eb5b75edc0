//! The admin API's error for each outcome: one table (hub-semantics 4.1 "Typical errors", with the
//! texts that partners are known to compare).

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{AdminOutcome, Outcome};

use crate::backend::Unavailable;

/// Error text for a record that reached the log twice.
const REPEATED: &str = "duplicate log record; retry the request to get its result";

/// The outcome of a change. A record that reached the log twice gets 503: the outcome of its first
/// copy is unknown here, and the client may resend the request.
pub(crate) fn outcome_of_change(outcome: Outcome) -> Result<AdminOutcome, Refusal> {
    AdminOutcome::of(outcome).ok_or_else(|| unexpected_outcome(outcome))
}

/// The error for an outcome that the command cannot have.
fn unexpected_outcome(outcome: Outcome) -> Refusal {
    if outcome == Outcome::Repeated {
        return repeated();
    }
    let detail = format!("unexpected outcome {outcome:?}; please report this defect of the hub");
    Refusal::new(ErrorCode::INTERNAL_SERVER, &detail)
}

/// The error for an outcome, for a handler that could not answer it in another way.
pub(crate) fn of_result(outcome: AdminOutcome) -> Refusal {
    from_outcome(outcome).unwrap_or_else(|| unexpected_outcome(outcome.into()))
}

/// The error for an outcome of a change; `None` when the change was made.
///
/// 5xx reports faults of the hub. The exceptions are limits and oracles that already exist, which
/// partners compare with the reference's 500, 2001.
///
/// A repeated funds request gets the response of the first one. Funds out without enough funds are
/// accepted as in the reference: they are recorded as an aborted transfer.
pub(crate) fn from_outcome(outcome: AdminOutcome) -> Option<Refusal> {
    use AdminOutcome::*;
    let (code, detail) = match outcome {
        Accepted | FundsInsufficient | FundsRepeated => return None,
        ParticipantNotFound => return Some(participant_not_found()),
        ParticipantCurrencyExists => client("Participant currency has already been registered"),
        HubAccountsMissing => (
            ErrorCode::ADD_PARTY,
            "the Hub needs HUB_RECONCILIATION and HUB_MULTILATERAL_SETTLEMENT in the currency",
        ),
        SettlementModelMissing => {
            (ErrorCode::GENERIC_SETTLEMENT, "no active settlement model serves the currency")
        }
        ProposerCannotApprove
        | ApprovalRequired
        | FourEyesRefused
        | ProposalNotNeeded
        | ProposalTooLarge
        | ProposalRepeated
        | ProposalNotFound
        | ProposalEnded
        | ProposalExpired
        | ProposalDiffers => return Some(from_proposal(outcome)),
        EnrolmentsFull => {
            invalid("the participant has 4 open enrolments: sign or reject one first")
        }
        EnrolmentNotFound => not_found("enrolment not found"),
        EnrolmentEnded => invalid("the enrolment was signed or rejected before"),
        ErasureInvalid => internal("the erasure names no records, or records after it"),
        AccountKindNotForHub => client("the Hub cannot have an account of this type"),
        AccountExists => client("Hub account has already been registered"),
        AccountNotFound => not_found("the participant has no such account"),
        AccountKindWrong => invalid("the account type does not allow this operation"),
        AccountInactive => invalid("Account is currently set inactive"),
        ParticipantInactive => invalid("Participant is currently set inactive"),
        LimitsExist => internal("limit and initial position are already set"),
        LimitsMissing => invalid("no limit is set yet: use initialPositionAndLimits"),
        CurrencyMismatch => invalid("the amount's currency differs from the account's"),
        SettlementModelExists => client("Settlement Model already exists"),
        SettlementModelNotFound => not_found("settlement model not found"),
        FundsOutNotReserved => invalid("no reserved funds out with this transferId and account"),
        DeadLetterNotFound => not_found("dead letter not found"),
        RulesVersionRefused => invalid("the rules version is unknown or already replaced"),
        RegistryFull => internal("the registry is full"),
        FundsModified => (ErrorCode::MODIFIED_REQUEST, FUNDS_MODIFIED),
        KeysFull => invalid("the participant already has 4 public keys: delete one first"),
        KeyNotFound => not_found("public key not found"),
        OracleExists => internal("an oracle of this type and currency already exists"),
        OracleNotFound => not_found("oracle not found"),
        LedgerAccountTypeExists => client("the ledger account type already exists"),
        WindowNotFound => invalid("Window does not exist"),
        WindowNotOpen => invalid("Window is not open"),
        WindowEmpty => invalid("Window is empty"),
        SettlementModelGross => invalid(MODEL_GROSS),
        WindowsInapplicable => invalid("Inapplicable windows"),
        SettlementNotFound => invalid("Settlement not found"),
        FeeRuleExists => client("an interchange fee rule of this name already exists"),
        FeeRuleNotFound => not_found("interchange fee rule not found"),
        RoleNotFound => not_found("role not found"),
        RoleInUse => invalid("an operator or a token has the role"),
        OperatorNotFound => not_found("operator not found"),
        TokenExists => internal("a token with this id exists: retry the request"),
        TokenNotFound => not_found("token not found"),
        LiquidityUnchanged => invalid("the position has not crossed its alarm threshold"),
        SettlementArchived | SettlementCommitted => invalid(SETTLEMENT_ENDED),
        SettlementAccountCommitted => invalid(ACCOUNT_COMMITTED),
    };
    Some(Refusal::new(code, detail))
}

/// The error for an outcome about proposed changes.
fn from_proposal(outcome: AdminOutcome) -> Refusal {
    use AdminOutcome::*;
    let (code, detail) = match outcome {
        ProposerCannotApprove => return forbidden(PROPOSER),
        FourEyesRefused => invalid("the kinds of changes cannot be listed"),
        ProposalNotNeeded => client("changes of this kind need no second operator: retry"),
        ProposalTooLarge => (
            ErrorCode::TOO_LARGE_PAYLOAD,
            "a change that needs a second operator is at most 1 MiB: divide it",
        ),
        ProposalRepeated => client("the same operator has proposed the same change"),
        ProposalNotFound => not_found("proposal not found"),
        ProposalEnded => invalid("the proposal was approved, rejected or withdrawn before"),
        ProposalExpired => invalid("the proposal has expired: request the change again"),
        ProposalDiffers => invalid("the proposed change is another one: show the proposal again"),
        _ => return forbidden(APPROVAL),
    };
    Refusal::new(code, detail)
}

const PROPOSER: &str = "the operator who proposed the change cannot approve it";
const APPROVAL: &str =
    "this change needs a second operator: set admin.auth = \"roles\" and use an operator's token";
const SETTLEMENT_ENDED: &str = "State change is not allowed for the settlement";
const ACCOUNT_COMMITTED: &str =
    "At least one settlement transfer is committed. Aborting is not allowed.";
const MODEL_GROSS: &str = "Settlement can not be created for GROSS or IMMEDIATE models";
const FUNDS_MODIFIED: &str = "a transfer with this transferId and different content exists";

const fn not_found(detail: &'static str) -> (ErrorCode, &'static str) {
    (ErrorCode::ID_NOT_FOUND, detail)
}

const fn internal(detail: &'static str) -> (ErrorCode, &'static str) {
    (ErrorCode::INTERNAL_SERVER, detail)
}

const fn client(detail: &'static str) -> (ErrorCode, &'static str) {
    (ErrorCode::GENERIC_CLIENT, detail)
}

const fn invalid(detail: &'static str) -> (ErrorCode, &'static str) {
    (ErrorCode::VALIDATION, detail)
}

pub(crate) fn repeated() -> Refusal {
    Refusal::new(ErrorCode::SERVICE_UNAVAILABLE, REPEATED)
}

/// 503, 2003: the client may resend the request unchanged.
pub(crate) fn from_unavailable(why: Unavailable) -> Refusal {
    Refusal::new(ErrorCode::SERVICE_UNAVAILABLE, &why.to_string())
}

/// 403, 3000.
fn forbidden(detail: &str) -> Refusal {
    let refusal = Refusal::new(ErrorCode::GENERIC_CLIENT, detail);
    Refusal { status: StatusCode::FORBIDDEN, ..refusal }
}

/// 400, 3200, like the reference, for an unknown participant.
pub(crate) fn participant_not_found() -> Refusal {
    Refusal::new(ErrorCode::ID_NOT_FOUND, "participant not found")
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect;

    use super::*;

    #[test]
    fn every_outcome_of_a_change_has_a_response() {
        let mut table = String::new();
        let outcomes = AdminOutcome::ALL.iter().map(|outcome| Outcome::from(*outcome));
        for outcome in outcomes.chain([Outcome::Repeated, Outcome::Expired]) {
            let refusal = match outcome_of_change(outcome) {
                Ok(outcome) => from_outcome(outcome),
                Err(refusal) => Some(refusal),
            };
            let answer = refusal.map_or("done".to_owned(), |it| it.to_string());
            writeln!(table, "{outcome:?}: {answer}").unwrap();
        }
        expect![[r#"
            Accepted: done
            ParticipantNotFound: 400 Bad Request, 3200: Generic ID not found - participant not found
            ParticipantCurrencyExists: 400 Bad Request, 3000: Generic client error - Participant currency has already been registered
            HubAccountsMissing: 400 Bad Request, 3003: Add Party information error - the Hub needs HUB_RECONCILIATION and HUB_MULTILATERAL_SETTLEMENT in the currency
            SettlementModelMissing: 400 Bad Request, 6000: Generic Settlement Error - no active settlement model serves the currency
            AccountKindNotForHub: 400 Bad Request, 3000: Generic client error - the Hub cannot have an account of this type
            AccountExists: 400 Bad Request, 3000: Generic client error - Hub account has already been registered
            AccountNotFound: 400 Bad Request, 3200: Generic ID not found - the participant has no such account
            AccountKindWrong: 400 Bad Request, 3100: Generic validation error - the account type does not allow this operation
            AccountInactive: 400 Bad Request, 3100: Generic validation error - Account is currently set inactive
            LimitsExist: 500 Internal Server Error, 2001: Internal server error - limit and initial position are already set
            LimitsMissing: 400 Bad Request, 3100: Generic validation error - no limit is set yet: use initialPositionAndLimits
            CurrencyMismatch: 400 Bad Request, 3100: Generic validation error - the amount's currency differs from the account's
            SettlementModelExists: 400 Bad Request, 3000: Generic client error - Settlement Model already exists
            SettlementModelNotFound: 400 Bad Request, 3200: Generic ID not found - settlement model not found
            FundsOutNotReserved: 400 Bad Request, 3100: Generic validation error - no reserved funds out with this transferId and account
            FundsInsufficient: done
            DeadLetterNotFound: 400 Bad Request, 3200: Generic ID not found - dead letter not found
            RulesVersionRefused: 400 Bad Request, 3100: Generic validation error - the rules version is unknown or already replaced
            RegistryFull: 500 Internal Server Error, 2001: Internal server error - the registry is full
            FundsRepeated: done
            FundsModified: 400 Bad Request, 3106: Modified request - a transfer with this transferId and different content exists
            OracleExists: 500 Internal Server Error, 2001: Internal server error - an oracle of this type and currency already exists
            OracleNotFound: 400 Bad Request, 3200: Generic ID not found - oracle not found
            LedgerAccountTypeExists: 400 Bad Request, 3000: Generic client error - the ledger account type already exists
            ParticipantInactive: 400 Bad Request, 3100: Generic validation error - Participant is currently set inactive
            KeysFull: 400 Bad Request, 3100: Generic validation error - the participant already has 4 public keys: delete one first
            KeyNotFound: 400 Bad Request, 3200: Generic ID not found - public key not found
            WindowNotFound: 400 Bad Request, 3100: Generic validation error - Window does not exist
            WindowNotOpen: 400 Bad Request, 3100: Generic validation error - Window is not open
            WindowEmpty: 400 Bad Request, 3100: Generic validation error - Window is empty
            SettlementModelGross: 400 Bad Request, 3100: Generic validation error - Settlement can not be created for GROSS or IMMEDIATE models
            WindowsInapplicable: 400 Bad Request, 3100: Generic validation error - Inapplicable windows
            SettlementNotFound: 400 Bad Request, 3100: Generic validation error - Settlement not found
            SettlementArchived: 400 Bad Request, 3100: Generic validation error - State change is not allowed for the settlement
            SettlementCommitted: 400 Bad Request, 3100: Generic validation error - State change is not allowed for the settlement
            SettlementAccountCommitted: 400 Bad Request, 3100: Generic validation error - At least one settlement transfer is committed. Aborting is not allowed.
            LiquidityUnchanged: 400 Bad Request, 3100: Generic validation error - the position has not crossed its alarm threshold
            FeeRuleExists: 400 Bad Request, 3000: Generic client error - an interchange fee rule of this name already exists
            FeeRuleNotFound: 400 Bad Request, 3200: Generic ID not found - interchange fee rule not found
            RoleNotFound: 400 Bad Request, 3200: Generic ID not found - role not found
            RoleInUse: 400 Bad Request, 3100: Generic validation error - an operator or a token has the role
            OperatorNotFound: 400 Bad Request, 3200: Generic ID not found - operator not found
            TokenExists: 500 Internal Server Error, 2001: Internal server error - a token with this id exists: retry the request
            TokenNotFound: 400 Bad Request, 3200: Generic ID not found - token not found
            ApprovalRequired: 403 Forbidden, 3000: Generic client error - this change needs a second operator: set admin.auth = "roles" and use an operator's token
            FourEyesRefused: 400 Bad Request, 3100: Generic validation error - the kinds of changes cannot be listed
            ProposalNotNeeded: 400 Bad Request, 3000: Generic client error - changes of this kind need no second operator: retry
            ProposalTooLarge: 400 Bad Request, 3104: Too large payload - a change that needs a second operator is at most 1 MiB: divide it
            ProposalRepeated: 400 Bad Request, 3000: Generic client error - the same operator has proposed the same change
            ProposalNotFound: 400 Bad Request, 3200: Generic ID not found - proposal not found
            ProposalEnded: 400 Bad Request, 3100: Generic validation error - the proposal was approved, rejected or withdrawn before
            ProposalExpired: 400 Bad Request, 3100: Generic validation error - the proposal has expired: request the change again
            ProposerCannotApprove: 403 Forbidden, 3000: Generic client error - the operator who proposed the change cannot approve it
            ProposalDiffers: 400 Bad Request, 3100: Generic validation error - the proposed change is another one: show the proposal again
            EnrolmentsFull: 400 Bad Request, 3100: Generic validation error - the participant has 4 open enrolments: sign or reject one first
            EnrolmentNotFound: 400 Bad Request, 3200: Generic ID not found - enrolment not found
            EnrolmentEnded: 400 Bad Request, 3100: Generic validation error - the enrolment was signed or rejected before
            ErasureInvalid: 500 Internal Server Error, 2001: Internal server error - the erasure names no records, or records after it
            Repeated: 503 Service Unavailable, 2003: Service currently unavailable - duplicate log record; retry the request to get its result
            Expired: 500 Internal Server Error, 2001: Internal server error - unexpected outcome Expired; please report this defect of the hub
        "#]].assert_eq(&table);
    }
}
