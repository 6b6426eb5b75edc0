//! The registry of oracles, which nothing calls.

use ledger::AdminOutcome;
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
            .asks("currency", CURRENCY, json!({"type": "string"}), None)
            .says("A currency that no oracle has, known or not, finds none.")
            .answers(Answer::json(200, "Oracles, oldest first.", list("Oracle"))),
        change("post", all, "createOracle", TAG, "Add an oracle")
            .says(
                "One for each type and currency, where none counts as a currency. Kept and shown: \
                 look-ups use the hub's own directory. A second one is 500 with 2001. The address \
                 follows the rules of participants' endpoints: else 3100.",
            )
            .must_accept()
            .takes_with_more("NewOracle", oracle)
            .answers(Answer::empty(201, "Added."))
            .ends(&[AdminOutcome::OracleExists]),
        change("put", one, "updateOracle", TAG, "Change an oracle")
            .says("What is absent stays, but the endpoint must be given.")
            .takes_with_more("OracleUpdate", moved)
            .answers(Answer::empty(204, "Changed."))
            .ends(&[AdminOutcome::OracleExists, AdminOutcome::OracleNotFound]),
        change("delete", one, "deleteOracle", TAG, "Remove an oracle")
            .says(
                "One that was removed before, or never was, is gone: 204 again. No number is given \
                 out twice.",
            )
            .must_accept()
            .answers(Answer::empty(204, "Gone.")),
    ]
}
