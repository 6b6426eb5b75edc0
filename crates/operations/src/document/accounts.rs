//! Accounts, positions, funds in and out.

use fspiop::ErrorCode;
use ledger::AdminOutcome;
use openapi::schema::reference;
use openapi::{Answer, Operation};
use serde_json::json;

use super::{Describe, EXAMPLE_TRANSFER, change, list, question};

const TAG: &str = "accounts";

/// What may be wrong with an account.
const WRONG: [AdminOutcome; 4] = [
    AdminOutcome::ParticipantNotFound,
    AdminOutcome::AccountNotFound,
    AdminOutcome::AccountKindWrong,
    AdminOutcome::AccountInactive,
];

pub(super) fn operations() -> Vec<Operation> {
    let unknown = [AdminOutcome::ParticipantNotFound];
    let accounts = "/participants/{name}/accounts";
    let account = "/participants/{name}/accounts/{id}";
    let outflow = "/participants/{name}/accounts/{id}/transfers/{transferId}";
    let funds = json!({
        "transferId": EXAMPLE_TRANSFER,
        "externalReference": "advice 4711",
        "action": "recordFundsIn",
        "reason": "deposit",
        "amount": {"amount": 250_000, "currency": "XOF"},
        "extensionList": {"extension": [{"key": "branch", "value": "12"}]},
    });
    vec![
        question("/participants/{name}/positions", "listPositions", TAG, "What a participant owes")
            .asks(
                "currency",
                "Only this currency: one object, empty when there is none.",
                reference("Currency"),
                None,
            )
            .answers(Answer::json(200, "Positions.", super::one_or_all("Position")))
            .refuses(400, &[ErrorCode::MALFORMED_SYNTAX])
            .ends(&unknown),
        question(accounts, "listAccounts", TAG, "The accounts of a participant")
            .answers(Answer::json(200, "Accounts with their balances.", list("Account")))
            .ends(&unknown),
        change("post", accounts, "createHubAccount", TAG, "Add an account of the hub")
            .at("name", "Hub")
            .says("Only the hub gets its accounts one by one; participants get theirs at once.")
            .takes("NewAccount", json!({"currency": "XOF", "type": "HUB_RECONCILIATION"}))
            .answers(Answer::json(201, "As the hub is now.", reference("Participant")))
            .refuses(400, &[ErrorCode::GENERIC_CLIENT])
            .ends(&unknown)
            .ends(&[AdminOutcome::AccountKindNotForHub, AdminOutcome::AccountExists]),
        change("put", account, "switchAccount", TAG, "Switch a POSITION account on or off")
            .takes("Activity", json!({"isActive": true}))
            .answers(Answer::empty(200, "Done."))
            .ends(&WRONG),
        change("post", account, "moveFunds", TAG, "Record funds in, or reserve funds out")
            .says(
                "On the SETTLEMENT account. An outflow that lacks cover is taken, and recorded as \
                 aborted; the account shows it. The same request again, white space apart, is 202 \
                 and moves nothing; another one under a used `transferId` is 400 with 3106.",
            )
            .takes("Funds", funds)
            .answers(Answer::empty(202, "Recorded and applied."))
            .ends(&WRONG)
            .ends(&[AdminOutcome::ParticipantInactive])
            .ends(&[
                AdminOutcome::CurrencyMismatch,
                AdminOutcome::FundsModified,
                AdminOutcome::HubAccountsMissing,
            ]),
        change("put", outflow, "endFundsOut", TAG, "Commit or abort reserved funds out")
            .says(
                "The same request again is 202 and changes nothing. What does not fit the \
                 outflow's state is 400 with 3100.",
            )
            .takes("FundsEnd", json!({"action": "recordFundsOutCommit", "reason": "paid out"}))
            .answers(Answer::empty(202, "Recorded and applied."))
            .ends(&WRONG)
            .ends(&[AdminOutcome::ParticipantInactive, AdminOutcome::FundsOutNotReserved]),
    ]
}
