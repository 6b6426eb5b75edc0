//! What is answered for an outcome: one table (hub-semantics 4.1 "Typical errors", with the
//! texts partners were seen to compare).

use fspiop::{ErrorCode, Refusal};
use ledger::{AdminOutcome, Outcome, PartiesOutcome};

use crate::backend::Unavailable;

/// For a record that reached the log twice.
const REPEATED: &str = "recorded twice, decided once: ask again for what was decided";

/// Refuses unless the change was made. A record that reached the log twice is 503: what its first
/// copy came to is not known here, and the same request may be sent again.
pub(crate) fn of_change(outcome: Outcome) -> Result<(), Refusal> {
    match AdminOutcome::of(outcome) {
        Some(of_change) => of_outcome(of_change).map_or(Ok(()), Err),
        None => Err(of_another(outcome)),
    }
}

/// The same for a change of the party directory, which the hub itself asks for.
pub(crate) fn of_parties(outcome: Outcome) -> Result<(), Refusal> {
    match PartiesOutcome::of(outcome) {
        Some(PartiesOutcome::Accepted) => Ok(()),
        Some(PartiesOutcome::RegistrarNotFound) => Err(participant_not_found()),
        None => Err(of_another(outcome)),
    }
}

/// The refusal for an outcome that the command itself cannot have.
fn of_another(outcome: Outcome) -> Refusal {
    if outcome == Outcome::Repeated {
        return repeated();
    }
    let detail = format!("unexpected outcome {outcome:?}; report it as a defect of the hub");
    Refusal::new(ErrorCode::INTERNAL_SERVER, &detail)
}

/// The refusal for an outcome of a change; `None` when the change was made.
///
/// 5xx is for faults of the hub. The exceptions are limits and oracles that exist already, which
/// partners compare with the reference's 500, 2001.
///
/// A movement of funds, or its end, that is on record is answered like the first time. An outflow
/// for which the funds are missing is taken like the reference takes it: the record stands, as an
/// aborted transfer under its id.
pub(crate) fn of_outcome(outcome: AdminOutcome) -> Option<Refusal> {
    use AdminOutcome::*;
    let (code, detail) = match outcome {
        Accepted | FundsInsufficient | FundsRepeated => return None,
        ParticipantNotFound => return Some(participant_not_found()),
        ParticipantCurrencyExists => client("Participant currency has already been registered"),
        HubAccountsMissing => (
            ErrorCode::ADD_PARTY,
            "the Hub lacks HUB_RECONCILIATION or HUB_MULTILATERAL_SETTLEMENT in the currency",
        ),
        SettlementModelMissing => {
            (ErrorCode::GENERIC_SETTLEMENT, "no active settlement model serves the currency")
        }
        AccountKindNotForHub => client("the Hub cannot have an account of this type"),
        AccountExists => client("Hub account has already been registered"),
        AccountNotFound => not_found("the participant has no such account"),
        AccountKindWrong => invalid("the account is of the wrong type for this"),
        AccountInactive => invalid("Account is currently set inactive"),
        ParticipantInactive => invalid("Participant is currently set inactive"),
        LimitsExist => internal("limit and initial position were already set"),
        LimitsMissing => invalid("no limit was set yet: use initialPositionAndLimits"),
        CurrencyMismatch => invalid("the amount's currency is not the account's"),
        SettlementModelExists => client("Settlement Model already exists"),
        SettlementModelNotFound => not_found("settlement model not found"),
        FundsOutNotReserved => invalid("no reserved funds out have this transferId and account"),
        DeadLetterNotFound => not_found("dead letter not found"),
        RulesVersionRefused => invalid("the rules version is unknown or already replaced"),
        RegisterFull => internal("the register is full"),
        FundsModified => (ErrorCode::MODIFIED_REQUEST, FUNDS_MODIFIED),
        KeysFull => invalid("the participant has 4 public keys already: delete one first"),
        KeyNotFound => not_found("public key not found"),
        OracleExists => internal("an oracle of this type and currency exists"),
        OracleNotFound => not_found("oracle not found"),
        LedgerAccountTypeExists => client("the ledger account type already exists"),
    };
    Some(Refusal::new(code, detail))
}

const FUNDS_MODIFIED: &str = "a transfer with this transferId and other content exists";

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

/// 503, 2003: nothing is known to have happened, the same request may be sent again.
pub(crate) fn of_unavailable(why: Unavailable) -> Refusal {
    Refusal::new(ErrorCode::SERVICE_UNAVAILABLE, &why.to_string())
}

/// 400, 3200, as the reference answers for an unknown participant.
pub(crate) fn participant_not_found() -> Refusal {
    Refusal::new(ErrorCode::ID_NOT_FOUND, "participant not found")
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect;

    use super::*;

    #[test]
    fn every_outcome_of_a_change_has_its_answer() {
        let mut table = String::new();
        let outcomes = AdminOutcome::ALL.iter().map(|outcome| Outcome::from(*outcome));
        for outcome in outcomes.chain([Outcome::Repeated, Outcome::Expired]) {
            let answer = of_change(outcome).err().map_or("done".to_owned(), |it| it.to_string());
            writeln!(table, "{outcome:?}: {answer}").unwrap();
        }
        expect![[r#"
            Accepted: done
            ParticipantNotFound: 400 Bad Request, 3200: Generic ID not found - participant not found
            ParticipantCurrencyExists: 400 Bad Request, 3000: Generic client error - Participant currency has already been registered
            HubAccountsMissing: 400 Bad Request, 3003: Add Party information error - the Hub lacks HUB_RECONCILIATION or HUB_MULTILATERAL_SETTLEMENT in the currency
            SettlementModelMissing: 400 Bad Request, 6000: Generic Settlement Error - no active settlement model serves the currency
            AccountKindNotForHub: 400 Bad Request, 3000: Generic client error - the Hub cannot have an account of this type
            AccountExists: 400 Bad Request, 3000: Generic client error - Hub account has already been registered
            AccountNotFound: 400 Bad Request, 3200: Generic ID not found - the participant has no such account
            AccountKindWrong: 400 Bad Request, 3100: Generic validation error - the account is of the wrong type for this
            AccountInactive: 400 Bad Request, 3100: Generic validation error - Account is currently set inactive
            LimitsExist: 500 Internal Server Error, 2001: Internal server error - limit and initial position were already set
            LimitsMissing: 400 Bad Request, 3100: Generic validation error - no limit was set yet: use initialPositionAndLimits
            CurrencyMismatch: 400 Bad Request, 3100: Generic validation error - the amount's currency is not the account's
            SettlementModelExists: 400 Bad Request, 3000: Generic client error - Settlement Model already exists
            SettlementModelNotFound: 400 Bad Request, 3200: Generic ID not found - settlement model not found
            FundsOutNotReserved: 400 Bad Request, 3100: Generic validation error - no reserved funds out have this transferId and account
            FundsInsufficient: done
            DeadLetterNotFound: 400 Bad Request, 3200: Generic ID not found - dead letter not found
            RulesVersionRefused: 400 Bad Request, 3100: Generic validation error - the rules version is unknown or already replaced
            RegisterFull: 500 Internal Server Error, 2001: Internal server error - the register is full
            FundsRepeated: done
            FundsModified: 400 Bad Request, 3106: Modified request - a transfer with this transferId and other content exists
            OracleExists: 500 Internal Server Error, 2001: Internal server error - an oracle of this type and currency exists
            OracleNotFound: 400 Bad Request, 3200: Generic ID not found - oracle not found
            LedgerAccountTypeExists: 400 Bad Request, 3000: Generic client error - the ledger account type already exists
            ParticipantInactive: 400 Bad Request, 3100: Generic validation error - Participant is currently set inactive
            KeysFull: 400 Bad Request, 3100: Generic validation error - the participant has 4 public keys already: delete one first
            KeyNotFound: 400 Bad Request, 3200: Generic ID not found - public key not found
            Repeated: 503 Service Unavailable, 2003: Service currently unavailable - recorded twice, decided once: ask again for what was decided
            Expired: 500 Internal Server Error, 2001: Internal server error - unexpected outcome Expired; report it as a defect of the hub
        "#]].assert_eq(&table);
    }
}
