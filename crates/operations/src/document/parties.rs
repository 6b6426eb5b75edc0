//! `/parties`: the party directory.

use fspiop::ErrorCode;
use openapi::schema::reference;
use openapi::{Answer, Operation};
use serde_json::json;

use super::{Describe, change, list, question};
use crate::parties::ROWS_MAX;

const TAG: &str = "parties";

pub(super) fn operations() -> Vec<Operation> {
    let rows = json!({"parties": [
        {"partyIdType": "MSISDN", "partyIdentifier": "254700000001", "fspId": "payerfsp"},
        {
            "partyIdType": "ACCOUNT_ID",
            "partyIdentifier": "0012345",
            "partySubIdOrType": "SAVINGS",
            "fspId": "payerfsp",
            "currency": "XOF",
        },
    ]});
    vec![
        change("post", "/parties", "registerParties", TAG, "Say who serves parties")
            .says(&format!(
                "Up to {ROWS_MAX} at once, recorded as one change; the FSPs are sent nothing. A \
                 row has `partyIdType`, `partyIdentifier` and `fspId`, and may have \
                 `partySubIdOrType` and `currency`; their rules are those of `POST /participants` \
                 of FSPIOP. A row with a fault is left out and answered with its place, from 0, \
                 and what is wrong: 3100 for a value, 3101 for what is no text, 3102 for what is \
                 missing, 3103 for what nobody knows, 3200 for an FSP that is no participant; the \
                 others are registered. The last registration of a party holds, within a request \
                 as well. The same request again changes nothing.",
            ))
            .takes("Registrations", rows)
            .answers(Answer::json(200, "What was registered.", reference("Registered")))
            .refuses(400, &[ErrorCode::VALIDATION]),
        question("/parties/{Type}/{ID}", "findParty", TAG, "Who serves a party")
            .guarded()
            .says("An empty list when nobody does. Needs the token, for it tells of people.")
            .asks("subId", "Its part of this name.", json!({"type": "string"}), None)
            .answers(Answer::json(200, "At most one, as look-ups see it.", list("PartyBinding"))),
    ]
}
