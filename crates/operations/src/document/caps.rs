//! Net debit caps.

use ledger::AdminOutcome;
use openapi::schema::reference;
use openapi::{Answer, Operation};
use serde_json::{Value, json};

use super::{CURRENCY, Describe, change, list, question};
use crate::shapes::NET_DEBIT_CAP;

const TAG: &str = "caps";

pub(super) fn operations() -> Vec<Operation> {
    let unknown = [AdminOutcome::ParticipantNotFound, AdminOutcome::AccountNotFound];
    let limits = "/participants/{name}/limits";
    let initial = "/participants/{name}/initialPositionAndLimits";
    let cap = json!({"type": NET_DEBIT_CAP, "value": 100_000});
    let mut alarmed = cap.clone();
    alarmed["alarmPercentage"] = json!(10);
    vec![
        filtered(question("/participants/limits", "listAllCaps", TAG, "All caps"))
            .answers(Answer::json(200, "Caps, each with its participant.", list("Cap"))),
        filtered(question(limits, "listCaps", TAG, "The caps of a participant"))
            .answers(Answer::json(200, "Caps.", list("Cap")))
            .ends(&unknown[..1]),
        change("put", limits, "changeCap", TAG, "Change a cap")
            .says("In force with the next prepare.")
            .takes("NewCap", json!({"currency": "XOF", "limit": alarmed}))
            .answers(Answer::json(200, "As it is now.", reference("Cap")))
            .ends(&unknown)
            .ends(&[AdminOutcome::LimitsMissing]),
        change("post", initial, "setInitialCap", TAG, "Set cap and position for the first time")
            .says("Once per currency; switches the accounts on.")
            .takes("InitialPositionAndLimits", json!({"currency": "XOF", "limit": cap}))
            .answers(Answer::empty(201, "Set."))
            .ends(&unknown)
            .ends(&[AdminOutcome::LimitsExist]),
    ]
}

fn filtered(operation: Operation) -> Operation {
    let kind = format!("Only this type; there is none but `{NET_DEBIT_CAP}`.");
    operation
        .asks("currency", CURRENCY, reference("Currency"), None)
        .asks("type", &kind, text(), None)
        .refuses(400, &[fspiop::ErrorCode::MALFORMED_SYNTAX])
}

fn text() -> Value {
    json!({"type": "string"})
}
