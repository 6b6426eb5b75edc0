//! Callbacks to participants and the operations that cause them.

use ::fspiop::Resource;
use ::fspiop::endpoint::EndpointType;
use ::fspiop::route_table::Operation as Cause;
use serde_json::{Value, json};

use super::examples;
use crate::api::{Access, ApiResponse, Body, Callback, Operation, Parameter, ParameterLocation};
use crate::schema::reference;

const TO_DESTINATION: &str = "To the destination.";

/// Origin of the bytes of a callback.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Written by the hub: compact JSON with sorted members, version 2.0.
    ByHub,
    /// The message that caused it, byte for byte.
    Forwarded,
}

/// One kind of callback.
struct CallbackKind {
    name: &'static str,
    endpoint: EndpointType,
    method: &'static str,
    /// Path of the resource, which completes a base address.
    path: &'static str,
    origin: Origin,
    text: &'static str,
    body: Option<(&'static str, Value)>,
}

/// Schemas of bodies that the hub only writes.
pub(super) fn schemas() -> Vec<(String, Value)> {
    let word = json!({"type": "string", "enum": ["OK", "DOWN"]});
    let service = json!({
        "type": "object",
        "required": ["name", "status"],
        "properties": {"name": {"type": "string"}, "status": word},
    });
    let batch_entry = json!({
        "type": "object",
        "required": ["partyId"],
        "properties": {
            "partyId": reference("PartyIdInfo"),
            "errorInformation": reference("ErrorInformation"),
        },
    });
    let list = |item: Value| {
        json!({
            "type": "object",
            "required": ["partyList"],
            "properties": {
                "currency": reference("Currency"),
                "partyList": {"type": "array", "items": item},
            },
        })
    };
    vec![
        (
            "Health".to_owned(),
            json!({
                "type": "object",
                "required": ["status", "uptime", "startTime", "versionNumber", "services"],
                "properties": {
                    "status": word,
                    "uptime": {"type": "number", "description": "Seconds."},
                    "startTime": {"type": "string", "format": "date-time"},
                    "versionNumber": {"type": "string"},
                    "services": {"type": "array", "items": service},
                },
            }),
        ),
        ("ParticipantsIDPutResponse".to_owned(), list(batch_entry)),
        ("ParticipantsRegistered".to_owned(), list(reference("PartyIdInfo"))),
        (
            "ParticipantsTypeIDPutResponse".to_owned(),
            json!({
                "type": "object",
                "required": ["fspId"],
                "properties": {"fspId": reference("FspId")},
            }),
        ),
        ("ServicesFXPPutResponse".to_owned(), provider_list()),
        (
            "TransfersIDPatchResponse".to_owned(),
            json!({
                "type": "object",
                "required": ["transferState"],
                "properties": {
                    "completedTimestamp": reference("DateTime"),
                    "extensionList": reference("ExtensionList"),
                    "transferState": {"type": "string", "enum": ["COMMITTED", "ABORTED"]},
                },
            }),
        ),
    ]
}

fn provider_list() -> Value {
    json!({
        "type": "object",
        "required": ["providers"],
        "properties": {"providers": {"type": "array", "items": reference("FspId")}},
    })
}

/// The callbacks that an operation can cause.
pub(super) fn of(cause: Cause, has_sub_id: bool) -> Vec<Callback> {
    kinds(cause, has_sub_id).into_iter().map(|kind| callback(cause, kind)).collect()
}

/// The callback of a request for the providers of a pair of currencies.
pub(super) fn of_currency_pair() -> Vec<Callback> {
    let kind = providers("/services/FXP/{SourceCurrency}/{TargetCurrency}", "answer-of-pair");
    vec![callback(Cause::ServicesGet, kind)]
}

fn callback(cause: Cause, kind: CallbackKind) -> Callback {
    let address = match kind.endpoint.is_base_url() {
        true => format!("{{{}}}{}", kind.endpoint.as_str(), kind.path),
        false => format!("{{{}}}", kind.endpoint.as_str()),
    };
    let resource = kind.path.split('/').nth(1).unwrap_or_default();
    let media = format!("application/vnd.interoperability.{resource}+json;version=2.0");
    let bytes = match kind.origin {
        Origin::ByHub => {
            "Written by the hub: sorted members, version 2.0, `FSPIOP-Source` is the hub's name."
        }
        Origin::Forwarded => {
            "Forwarded: body and headers are those of the sender, except for connection headers \
             and for missing headers, which the hub adds."
        }
    };
    let tag = Resource::ALL.map(Resource::as_str).into_iter().find(|name| *name == resource);
    let tag = tag.expect("a callback has the path of a resource");
    let operation = Operation {
        method: kind.method.to_owned(),
        path: kind.path.to_owned(),
        tag,
        id: format!("{cause:?}-{}-{}", kind.name, kind.endpoint.as_str()),
        summary: format!("{} {}", kind.method.to_ascii_uppercase(), kind.path),
        text: format!("{} {bytes}", kind.text),
        parameters: headers(kind.origin),
        body: kind.body.map(|(name, example)| Body {
            media: vec![media],
            schema: reference(name),
            example,
            is_required: true,
        }),
        responses: vec![ApiResponse::empty(0, "Delivered.")],
        callbacks: Vec::new(),
        access: Access::Open,
        permission: None,
        unmasks: None,
    };
    Callback { name: kind.name, address, operation }
}

fn headers(origin: Origin) -> Vec<Parameter> {
    let always = ["Content-Type", "Date", "FSPIOP-Source", "FSPIOP-URI", "FSPIOP-HTTP-Method"];
    let mut headers: Vec<Parameter> = always.iter().map(|name| header(name, true)).collect();
    headers.push(header("FSPIOP-Destination", origin == Origin::ByHub));
    headers.push(header("traceparent", true));
    headers.push(header("tracestate", true));
    if origin == Origin::Forwarded {
        headers.push(header("FSPIOP-Signature", false));
    }
    headers
}

fn header(name: &str, required: bool) -> Parameter {
    Parameter {
        name: name.to_owned(),
        location: ParameterLocation::Header,
        required,
        text: String::new(),
        schema: json!({"type": "string"}),
        example: None,
        shared: Some(format!("call-{name}{}", if required { "" } else { "-optional" })),
    }
}

fn kinds(cause: Cause, has_sub_id: bool) -> Vec<CallbackKind> {
    match cause {
        Cause::ParticipantsBatch => vec![CallbackKind {
            name: "registered",
            endpoint: EndpointType::ParticipantBatchPut,
            method: "put",
            path: "/participants/{ID}",
            origin: Origin::ByHub,
            text: "The result of each entry.",
            body: Some((
                "ParticipantsIDPutResponse",
                json!({"currency": "XOF", "partyList": [{"partyId": examples::party("payerfsp")}]}),
            )),
        }],
        Cause::ParticipantsGet | Cause::ParticipantsDelete => vec![
            participant_put(
                has_sub_id,
                ("ParticipantsTypeIDPutResponse", json!({"fspId": "payeefsp"})),
            ),
            participant_error(has_sub_id, Origin::ByHub, "The look-up failed: 3204 or 3003."),
        ],
        Cause::ParticipantsPost | Cause::ParticipantsPut => {
            let example = json!({"currency": "XOF", "partyList": [examples::party("payerfsp")]});
            vec![
                participant_put(has_sub_id, ("ParticipantsRegistered", example)),
                participant_error(has_sub_id, Origin::ByHub, "The registration failed: 3003."),
            ]
        }
        Cause::ParticipantsError => {
            vec![participant_error(has_sub_id, Origin::Forwarded, TO_DESTINATION)]
        }
        Cause::PartiesGet => parties_get(has_sub_id),
        Cause::PartiesPut => vec![
            party(has_sub_id, "answer", Origin::Forwarded, TO_DESTINATION),
            party(has_sub_id, "error", Origin::ByHub, "To the sender: 3201, or the failure."),
        ],
        Cause::PartiesError => vec![party(has_sub_id, "error", Origin::Forwarded, TO_DESTINATION)],
        Cause::TransfersPost => transfers_post(),
        Cause::TransfersPut => transfers_put(),
        Cause::TransfersError => vec![transfer_error(
            Origin::Forwarded,
            "To the payer, and a copy written by the hub to the payee. To the sender only, if it \
             may not abort the transfer.",
        )],
        Cause::TransfersGet => vec![
            transfer_state("To the sender: the current state."),
            transfer_error(Origin::ByHub, "To the sender: 3208, or 3000 for other FSPs."),
        ],
        Cause::BulkTransfersPost => bulk_post(),
        Cause::BulkTransfersPut => vec![
            bulk_result("To both sides, once no item is in flight."),
            bulk_error(Origin::ByHub, "To the sender: the answer is refused."),
        ],
        Cause::BulkTransfersError => {
            vec![bulk_error(Origin::ByHub, "To both sides: the payee's error.")]
        }
        Cause::BulkTransfersGet => vec![
            bulk_result("To the sender: the current state."),
            bulk_error(Origin::ByHub, "To the sender: 3210, or 3000 for other FSPs."),
        ],
        Cause::ServicesGet => vec![providers("/services/FXP", "answer")],
        Cause::Health
        | Cause::EndpointCache
        | Cause::ParticipantsBatchPut
        | Cause::ParticipantsBatchError
        | Cause::TransfersPatch => Vec::new(),
        _ => exchange(cause),
    }
}

fn bulk_post() -> Vec<CallbackKind> {
    vec![
        CallbackKind {
            name: "request",
            endpoint: EndpointType::BulkTransferPost,
            method: "post",
            path: "/bulkTransfers",
            origin: Origin::ByHub,
            text: "To the payee: the accepted items.",
            body: Some(("BulkTransfersPostRequest", examples::of(Cause::BulkTransfersPost))),
        },
        bulk_result("To the payer, if no item is accepted; to both sides after the deadline."),
        bulk_error(Origin::ByHub, "To the payer: the bulk is refused."),
    ]
}

fn bulk_result(text: &'static str) -> CallbackKind {
    CallbackKind {
        name: "answer",
        endpoint: EndpointType::BulkTransferPut,
        method: "put",
        path: "/bulkTransfers/{ID}",
        origin: Origin::ByHub,
        text,
        body: Some(("BulkTransfersIDPutResponse", examples::of(Cause::BulkTransfersPut))),
    }
}

fn bulk_error(origin: Origin, text: &'static str) -> CallbackKind {
    CallbackKind {
        name: "error",
        endpoint: EndpointType::BulkTransferError,
        method: "put",
        path: "/bulkTransfers/{ID}/error",
        origin,
        text,
        body: Some(("ErrorInformationObject", examples::error("3203", "Payee FSP ID not found"))),
    }
}

fn providers(path: &'static str, name: &'static str) -> CallbackKind {
    CallbackKind {
        name,
        endpoint: EndpointType::FxQuotes,
        method: "put",
        path,
        origin: Origin::ByHub,
        text: "To the sender: the active participants that convert.",
        body: Some(("ServicesFXPPutResponse", json!({"providers": ["fxp1"]}))),
    }
}

fn participant_put(has_sub_id: bool, body: (&'static str, Value)) -> CallbackKind {
    let (endpoint, path) = match has_sub_id {
        false => (EndpointType::ParticipantPut, "/participants/{Type}/{ID}"),
        true => (EndpointType::ParticipantSubIdPut, "/participants/{Type}/{ID}/{SubId}"),
    };
    let text = "The result.";
    let origin = Origin::ByHub;
    CallbackKind { name: "answer", endpoint, method: "put", path, origin, text, body: Some(body) }
}

fn participant_error(has_sub_id: bool, origin: Origin, text: &'static str) -> CallbackKind {
    let (endpoint, path) = match has_sub_id {
        false => (EndpointType::ParticipantPutError, "/participants/{Type}/{ID}/error"),
        true => (EndpointType::ParticipantSubIdPutError, "/participants/{Type}/{ID}/{SubId}/error"),
    };
    let body = Some(("ErrorInformationObject", examples::error("3204", "Party not found")));
    CallbackKind { name: "error", endpoint, method: "put", path, origin, text, body }
}

fn parties_get(has_sub_id: bool) -> Vec<CallbackKind> {
    let (endpoint, path) = match has_sub_id {
        false => (EndpointType::PartiesGet, "/parties/{Type}/{ID}"),
        true => (EndpointType::PartiesSubIdGet, "/parties/{Type}/{ID}/{SubId}"),
    };
    let question = CallbackKind {
        name: "question",
        endpoint,
        method: "get",
        path,
        origin: Origin::Forwarded,
        text: "To the destination, or to the FSPs that the directory names.",
        body: None,
    };
    vec![
        question,
        party(has_sub_id, "error", Origin::ByHub, "To the sender: 3204, or the failure."),
    ]
}

fn party(has_sub_id: bool, name: &'static str, origin: Origin, text: &'static str) -> CallbackKind {
    let (endpoint, path) = match (name, has_sub_id) {
        ("error", false) => (EndpointType::PartiesPutError, "/parties/{Type}/{ID}/error"),
        ("error", true) => {
            (EndpointType::PartiesSubIdPutError, "/parties/{Type}/{ID}/{SubId}/error")
        }
        (_, false) => (EndpointType::PartiesPut, "/parties/{Type}/{ID}"),
        (_, true) => (EndpointType::PartiesSubIdPut, "/parties/{Type}/{ID}/{SubId}"),
    };
    let body = match name {
        "error" => Some(("ErrorInformationObject", examples::error("3204", "Party not found"))),
        _ => Some(("PartiesTypeIDPutResponse", examples::of(Cause::PartiesPut))),
    };
    CallbackKind { name, endpoint, method: "put", path, origin, text, body }
}

/// The callbacks of a message that is only forwarded: the message, and an error to its sender.
fn exchange(cause: Cause) -> Vec<CallbackKind> {
    use Cause::*;
    let (resource, path, error_path, schema) = match cause {
        QuotesPost | QuotesGet | QuotesPut | QuotesError => {
            (Resource::Quotes, "/quotes/{ID}", "/quotes/{ID}/error", "QuotesIDPutResponse")
        }
        BulkQuotesPost | BulkQuotesGet | BulkQuotesPut | BulkQuotesError => (
            Resource::BulkQuotes,
            "/bulkQuotes/{ID}",
            "/bulkQuotes/{ID}/error",
            "BulkQuotesIDPutResponse",
        ),
        AuthorizationsGet | AuthorizationsPut | AuthorizationsError => (
            Resource::Authorizations,
            "/authorizations/{ID}",
            "/authorizations/{ID}/error",
            "AuthorizationsIDPutResponse",
        ),
        TransactionsGet | TransactionsPut | TransactionsError => (
            Resource::Transactions,
            "/transactions/{ID}",
            "/transactions/{ID}/error",
            "TransactionsIDPutResponse",
        ),
        _ => (
            Resource::TransactionRequests,
            "/transactionRequests/{ID}",
            "/transactionRequests/{ID}/error",
            "TransactionRequestsIDPutResponse",
        ),
    };
    let endpoint = EndpointType::of_exchange(resource);
    let error = |origin: Origin, text: &'static str| CallbackKind {
        name: "error",
        endpoint,
        method: "put",
        path: error_path,
        origin,
        text,
        body: Some(("ErrorInformationObject", examples::error("3201", "Destination FSP Error"))),
    };
    let (name, method, path, body) = match cause {
        QuotesError
        | BulkQuotesError
        | TransactionRequestsError
        | AuthorizationsError
        | TransactionsError => return vec![error(Origin::Forwarded, TO_DESTINATION)],
        QuotesPost => ("request", "post", "/quotes", Some("QuotesPostRequest")),
        BulkQuotesPost => ("request", "post", "/bulkQuotes", Some("BulkQuotesPostRequest")),
        TransactionRequestsPost => {
            ("request", "post", "/transactionRequests", Some("TransactionRequestsPostRequest"))
        }
        QuotesPut => ("quote", "put", path, Some(schema)),
        BulkQuotesPut | TransactionRequestsPut | AuthorizationsPut | TransactionsPut => {
            ("answer", "put", path, Some(schema))
        }
        _ => ("question", "get", path, None),
    };
    let forwarded = CallbackKind {
        name,
        endpoint,
        method,
        path,
        origin: Origin::Forwarded,
        text: "To the destination.",
        body: body.map(|schema| (schema, examples::of(cause))),
    };
    let text = "To the sender: the reason why it was not forwarded.";
    vec![forwarded, error(Origin::ByHub, text)]
}

fn transfers_post() -> Vec<CallbackKind> {
    let prepare = CallbackKind {
        name: "prepare",
        endpoint: EndpointType::TransferPost,
        method: "post",
        path: "/transfers",
        origin: Origin::Forwarded,
        text: "To the payee, once the amount is reserved.",
        body: Some(("TransfersPostRequest", examples::transfer())),
    };
    vec![
        prepare,
        transfer_state("To the payer after an identical resend: the current state."),
        transfer_error(
            Origin::ByHub,
            "To the payer: the transfer was refused (3100, 3106, 4001, 4200, 2003). To both FSPs: \
             the transfer expired (3303).",
        ),
    ]
}

fn transfers_put() -> Vec<CallbackKind> {
    let fulfil = CallbackKind {
        name: "fulfil",
        endpoint: EndpointType::TransferPut,
        method: "put",
        path: "/transfers/{ID}",
        origin: Origin::Forwarded,
        text: "To the payer, once the transfer is committed. If the scheme is so configured, the \
               hub also sends a confirmation to the payee.",
        body: Some(("TransfersIDPutResponse", examples::of(Cause::TransfersPut))),
    };
    let confirmation = CallbackKind {
        name: "confirmation",
        endpoint: EndpointType::TransferPut,
        method: "patch",
        path: "/transfers/{ID}",
        origin: Origin::ByHub,
        text: "To the payee that answered `RESERVED`: the final state.",
        body: Some((
            "TransfersIDPatchResponse",
            json!({
                "completedTimestamp": "2026-01-01T10:00:00.000Z",
                "transferState": "COMMITTED",
            }),
        )),
    };
    let text = "To the sender, or to both FSPs: 2001 for an unknown transfer, 3100 for an invalid \
                fulfilment, a sender that is not the payee, or a final state, 3106, 3303.";
    vec![fulfil, confirmation, transfer_error(Origin::ByHub, text)]
}

fn transfer_state(text: &'static str) -> CallbackKind {
    CallbackKind {
        name: "state",
        endpoint: EndpointType::TransferPut,
        method: "put",
        path: "/transfers/{ID}",
        origin: Origin::ByHub,
        text,
        body: Some((
            "TransfersIDPutResponse",
            json!({
                "completedTimestamp": "2026-01-01T10:00:00.000Z",
                "fulfilment": examples::of(Cause::TransfersPut)["fulfilment"],
                "transferState": "COMMITTED",
            }),
        )),
    }
}

fn transfer_error(origin: Origin, text: &'static str) -> CallbackKind {
    CallbackKind {
        name: "error",
        endpoint: EndpointType::TransferError,
        method: "put",
        path: "/transfers/{ID}/error",
        origin,
        text,
        body: Some((
            "ErrorInformationObject",
            examples::error("5104", "Payee rejected transaction"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use ::fspiop::hub_messages::{self, BatchOutcome, PartyName, TransferNotice};
    use ::fspiop::{ErrorCode, PartyIdType};
    use bytes::Bytes;
    use ledger::{Currency, FspName};

    use crate::validate;

    #[track_caller]
    fn check(schema: &str, body: &Bytes) {
        let value = serde_json::from_slice(body).expect("a body is JSON");
        let schema = crate::schema::reference(schema);
        assert_eq!(validate::fault(&crate::fspiop::document(), &schema, &value), None, "{value}");
    }

    #[test]
    fn what_the_hub_makes_is_what_is_described() {
        let fsp = FspName::new("payerfsp").expect("a name");
        let sub_id = Some("till");
        let party = PartyName { kind: PartyIdType::Alias, id: "grace", sub_id, fsp: Some(&fsp) };
        let currency = Currency::parse("XOF");
        check("ParticipantsTypeIDPutResponse", &hub_messages::participant(&fsp));
        check("ParticipantsRegistered", &hub_messages::participant_registered(&party, currency));
        let refused = Some((ErrorCode::ADD_PARTY, ErrorCode::ADD_PARTY.describe("")));
        let outcomes = [BatchOutcome { party, refused: None }, BatchOutcome { party, refused }];
        check("ParticipantsIDPutResponse", &hub_messages::batch_registered(&outcomes, None));
        let cause = hub_messages::cause(ErrorCode::TRANSFER_EXPIRED, "Transfer expired");
        for (schema, state) in [
            ("TransfersIDPutResponse", "RESERVED"),
            ("TransfersIDPatchResponse", "COMMITTED"),
            ("TransfersIDPatchResponse", "ABORTED"),
        ] {
            let extensions = std::slice::from_ref(&cause);
            let completed_ms = Some(1_767_261_600_000);
            let fulfilment = None;
            let notice = TransferNotice { state, completed_ms, fulfilment, extensions };
            check(schema, &hub_messages::transfer(&notice));
        }
        let body = hub_messages::error(ErrorCode::VALIDATION, "", &[cause]);
        check("ErrorInformationObject", &body);
    }
}
