//! Types of accounts and enumerations.

use fspiop::ErrorCode;
use ledger::AdminOutcome;
use openapi::schema::reference;
use openapi::{Answer, Operation};
use serde_json::json;

use super::{Describe, change, list, question};
use crate::catalogue::enumeration_names;

const TAG: &str = "hub";

pub(super) fn operations() -> Vec<Operation> {
    let types = "/ledgerAccountTypes";
    let value = json!({"anyOf": [{"type": "integer"}, {"type": "string"}]});
    let values = json!({"type": "object", "additionalProperties": value});
    let example = json!({
        "name": "SCHEME_FEE",
        "description": "Fees of the scheme",
        "isActive": true,
        "isSettleable": false,
    });
    let known = format!("One of {}, all.", enumeration_names().join(", "));
    let one_or_all = json!({"anyOf": [
        {"type": "object", "additionalProperties": values},
        values,
    ]});
    vec![
        question(types, "listAccountTypes", TAG, "Types of accounts").answers(Answer::json(
            200,
            "Types.",
            list("AccountType"),
        )),
        change("post", types, "createAccountType", TAG, "Add a type of account")
            .says(
                "A name in the catalogue: no account is ever of an added type. A known one is 400 \
                 with 3000, but for `HUB_FEE`, which is there from the start and answered 201.",
            )
            .takes("NewAccountType", example)
            .answers(Answer::json(201, "The type.", reference("AccountType")))
            .ends(&[AdminOutcome::LedgerAccountTypeExists]),
        question("/enums", "listEnumerations", TAG, "Names and their numbers")
            .asks("id", &known, json!({"type": "string"}), None)
            .answers(Answer::json(200, "All of them by name, or the one.", one_or_all))
            .refuses(400, &[ErrorCode::ID_NOT_FOUND]),
    ]
}
