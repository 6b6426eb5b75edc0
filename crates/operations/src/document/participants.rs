//! `/participants`, `/participants/{name}` and `/participants/{name}/endpoints`.

use fspiop::ErrorCode;
use ledger::AdminOutcome;
use openapi::schema::reference;
use openapi::{Answer, Operation};
use serde_json::json;

use super::{Describe, change, list, question};

const TAG: &str = "participants";

pub(super) fn operations() -> Vec<Operation> {
    let unknown = [AdminOutcome::ParticipantNotFound];
    let refused = [
        AdminOutcome::ParticipantCurrencyExists,
        AdminOutcome::HubAccountsMissing,
        AdminOutcome::SettlementModelMissing,
    ];
    let name = "/participants/{name}";
    let endpoints = "/participants/{name}/endpoints";
    let active = json!({"isActive": true});
    vec![
        question("/participants", "listParticipants", TAG, "All participants, the hub first")
            .asks(
                "isProxy",
                "`true` or `1`: only proxies, of which there are none.",
                json!({"type": "string"}),
                None,
            )
            .answers(Answer::json(200, "Participants with their accounts.", list("Participant"))),
        change(
            "post",
            "/participants",
            "createParticipant",
            TAG,
            "Add a participant or a currency",
        )
        .says(
            "Names are told apart by case. A known name gets a further currency. The accounts \
                 stay inactive until limits are set. A proxy is 501.",
        )
        .takes("NewParticipant", json!({"name": "payerfsp", "currency": "XOF"}))
        .answers(Answer::json(201, "As it is now.", reference("Participant")))
        .refuses(501, &[ErrorCode::NOT_IMPLEMENTED])
        .ends(&refused),
        question(name, "showParticipant", TAG, "One participant")
            .answers(Answer::json(200, "With its accounts.", reference("Participant")))
            .ends(&unknown),
        change("put", name, "switchParticipant", TAG, "Switch a participant on or off")
            .says("In force with the next message.")
            .takes("Activity", active)
            .answers(Answer::json(200, "As it is now.", reference("Participant")))
            .ends(&unknown),
        question(endpoints, "listEndpoints", TAG, "Where a participant is called")
            .asks(
                "type",
                "Only this type: one object, empty when it is not set.",
                json!({"type": "string"}),
                None,
            )
            .answers(Answer::json(200, "Endpoints.", super::one_or_all("Endpoint")))
            .ends(&unknown),
        change("post", endpoints, "setEndpoint", TAG, "Set where a participant is called")
            .says(
                "Sets or overwrites one type; one that is not known is 3101. Values are \
                 templates with names as `{{transferId}}` in them, or, for quotes, base \
                 addresses. What the hub calls, types that begin with `FSPIOP_CALLBACK_URL_`, \
                 must be `http://`, without a user's name, with a fixed host, and a port and an \
                 address that the configuration allows: else 3100. `https://` is 3100, too.",
            )
            .takes(
                "NewEndpoint",
                json!({
                    "type": "FSPIOP_CALLBACK_URL_TRANSFER_PUT",
                    "value": "http://payerfsp.example/transfers/{{transferId}}",
                }),
            )
            .answers(Answer::empty(201, "Set."))
            .ends(&unknown),
    ]
}
