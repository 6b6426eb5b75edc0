//! The registry of oracles, which nothing calls.

use fspiop::ErrorCode;
use ledger::Outcome;
use openapi::schema::reference;
use openapi::{Answer, Operation};
use serde_json::json;

use super::{CURRENCY, Describe, change, list, question};

const TAG: &str = "oracles";

pub(super) fn operations() -> Vec<Operation> {
    let all = "/oracles";
    let one = "/oracles/{id}";
    let oracle = json!({
        "oracleIdType": "MSISDN",
        "endpoint": {"value": "http://oracle.example", "endpointType": "URL"},
        "currency": "XOF",
        "isDefault": true,
    });
    let moved = json!({
        "endpoint": {"value": "http://oracle-2.example", "endpointType": "URL"},
    });
    vec![
        question(all, "listOracles", TAG, "All oracles")
            .asks("type", "Only this type of identifier.", json!({"type": "string"}), None)
            .asks("currency", CURRENCY, reference("Currency"), None)
            .answers(Answer::json(200, "Oracles, oldest first.", list("Oracle")))
            .refuses(400, &[ErrorCode::VALIDATION]),
        change("post", all, "createOracle", TAG, "Add an oracle")
            .says(
                "One for each type and currency, where none counts as a currency. Kept and shown: \
                 look-ups use the hub's own directory. A second one is 500 with 2001. The address \
                 follows the rules of participants' endpoints: else 3100.",
            )
            .takes_with_more("NewOracle", oracle)
            .answers(Answer::empty(201, "Added."))
            .ends(&[Outcome::OracleExists]),
        change("put", one, "updateOracle", TAG, "Change an oracle")
            .says("What is absent stays. An unknown number is 500 with 2001.")
            .takes_with_more("OracleUpdate", moved)
            .answers(Answer::empty(204, "Changed."))
            .ends(&[Outcome::OracleExists, Outcome::OracleNotFound]),
        change("delete", one, "deleteOracle", TAG, "Remove an oracle")
            .says(
                "One that was removed before is gone: 204 again. A number that never was given \
                 out is 500 with 2001; none is given out twice.",
            )
            .answers(Answer::empty(204, "Gone."))
            .ends(&[Outcome::OracleNotFound]),
    ]
}
