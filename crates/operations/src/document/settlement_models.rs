//! Settlement models.

use ledger::AdminOutcome;
use openapi::schema::reference;
use openapi::{Answer, Operation};
use serde_json::json;

use super::{Describe, change, list, question};

const TAG: &str = "settlement";

pub(super) fn operations() -> Vec<Operation> {
    let unknown = [AdminOutcome::SettlementModelNotFound];
    let all = "/settlementModels";
    let one = "/settlementModels/{name}";
    let model = json!({
        "name": "DEFERREDNET",
        "settlementGranularity": "NET",
        "settlementInterchange": "MULTILATERAL",
        "settlementDelay": "DEFERRED",
        "currency": "XOF",
        "requireLiquidityCheck": true,
        "ledgerAccountType": "POSITION",
        "autoPositionReset": true,
        "settlementAccountType": "SETTLEMENT",
    });
    vec![
        question(all, "listSettlementModels", TAG, "All settlement models").answers(Answer::json(
            200,
            "Models, oldest first.",
            list("SettlementModel"),
        )),
        change("post", all, "createSettlementModel", TAG, "Add a settlement model")
            .says(
                "Legal combinations: IMMEDIATE with GROSS and BILATERAL; DEFERRED with GROSS and \
                 BILATERAL; DEFERRED with NET and either. Others are refused with 3100.",
            )
            .takes("NewSettlementModel", model)
            .answers(Answer::empty(201, "Added."))
            .ends(&[AdminOutcome::SettlementModelExists]),
        question(one, "showSettlementModel", TAG, "One settlement model")
            .answers(Answer::json(200, "The model.", reference("SettlementModel")))
            .ends(&unknown),
        change("put", one, "switchSettlementModel", TAG, "Switch a settlement model on or off")
            .says("Decides whether participants created from now on get its accounts.")
            .takes("Activity", json!({"isActive": true}))
            .answers(Answer::json(200, "As it is now.", reference("SettlementModel")))
            .ends(&unknown),
    ]
}
