//! `/ledgerAccountTypes` and `/enums` (hub-semantics 4.1, 4.3).
//!
//! The account types are part of the kernel's rules. A type that is added here is only a name in
//! the list of types: no account has it.

use std::collections::BTreeMap;

use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{AccountKind, CreateLedgerAccountType, LedgerAccountType, ParticipantIndex, State};
use openapi::schema::reference;
use serde::Serialize;
use serde_json::{Value, json};

use crate::body::{FLAG, PatternText, Text, body};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::Timestamp;
use crate::route::{Parameter, routes};
use crate::schema::{response_type, unnamed_response};

/// Names with their numbers.
type Enumeration = &'static [(&'static str, u32)];

/// The enumerations by name. The numbers of account types are the reference's; no request takes the
/// other numbers.
const ENUMERATIONS: [(&str, Enumeration); 7] = [
    (
        "bulkProcessingState",
        &[
            ("RECEIVED", 1),
            ("RECEIVED_DUPLICATE", 2),
            ("RECEIVED_INVALID", 3),
            ("ACCEPTED", 4),
            ("PROCESSING", 5),
            ("FULFIL_DUPLICATE", 6),
            ("FULFIL_INVALID", 7),
            ("COMPLETED", 8),
            ("REJECTED", 9),
            ("EXPIRED", 10),
        ],
    ),
    ("ledgerEntryType", &[("PRINCIPLE_VALUE", 1), ("INTERCHANGE_FEE", 2), ("HUB_FEE", 3)]),
    ("participantLimitType", &[("NET_DEBIT_CAP", 1)]),
    ("settlementDelay", &[("IMMEDIATE", 1), ("DEFERRED", 2)]),
    ("settlementGranularity", &[("GROSS", 1), ("NET", 2)]),
    ("settlementInterchange", &[("BILATERAL", 1), ("MULTILATERAL", 2)]),
    ("transferParticipantRoleType", &[("PAYER_DFSP", 1), ("PAYEE_DFSP", 2), ("HUB", 3)]),
];

/// Internal states with the state that messages show for each (hub-semantics 2.7 and 3.1).
type States = &'static [(&'static str, &'static str)];

/// Transfer states: the name of the internal enumeration, the name of the enumeration of message
/// states, and the mapping. They are the reference's, for clients that use its state names; the
/// kernel has fewer states.
const STATES: [(&str, &str, States); 2] = [
    (
        "transferState",
        "transferStateEnum",
        &[
            ("RECEIVED_PREPARE", "RECEIVED"),
            ("RESERVED", "RESERVED"),
            ("RESERVED_FORWARDED", "RESERVED_FORWARDED"),
            ("RECEIVED_FULFIL", "RESERVED"),
            ("RECEIVED_FULFIL_DEPENDENT", "RESERVED"),
            ("RECEIVED_ERROR", "RESERVED"),
            ("RECEIVED_REJECT", "RESERVED"),
            ("RESERVED_TIMEOUT", "RESERVED"),
            ("COMMITTED", "COMMITTED"),
            ("SETTLED", "SETTLED"),
            ("INVALID", "ABORTED"),
            ("ABORTED_REJECTED", "ABORTED"),
            ("ABORTED_ERROR", "ABORTED"),
            ("EXPIRED_PREPARED", "ABORTED"),
            ("EXPIRED_RESERVED", "ABORTED"),
            ("FAILED", "ABORTED"),
        ],
    ),
    (
        "bulkTransferState",
        "bulkTransferStateEnum",
        &[
            ("RECEIVED", "RECEIVED"),
            ("PENDING_PREPARE", "PENDING"),
            ("PENDING_INVALID", "PENDING"),
            ("ACCEPTED", "ACCEPTED"),
            ("PROCESSING", "PROCESSING"),
            ("PENDING_FULFIL", "PROCESSING"),
            ("EXPIRING", "PROCESSING"),
            ("ABORTING", "PROCESSING"),
            ("COMPLETED", "COMPLETED"),
            ("EXPIRED", "COMPLETED"),
            ("REJECTED", "REJECTED"),
            ("INVALID", "REJECTED"),
        ],
    ),
];

/// The names of all enumerations, including those computed from the state or from the registry of
/// endpoints.
const KNOWN: &str = "\
    One of bulkProcessingState, bulkTransferState, bulkTransferStateEnum, endpointType, \
    hubParticipant, ledgerAccountType, ledgerEntryType, participantLimitType, \
    settlementDelay, settlementGranularity, settlementInterchange, \
    transferParticipantRoleType, transferState, transferStateEnum, all.";

/// Longest description of an account type, in characters.
const DESCRIPTION_CHARACTERS_MAX: usize = 1_024;

/// The name of an enumeration.
const ID: Parameter<String> = Parameter::text("id", KNOWN);

routes! {
    "/ledgerAccountTypes" {
        read GET listAccountTypes = account_types, "List account types" {
            responses: [200: Vec<AccountTypeResponse> = "Types."],
        }
        change POST createAccountType = create_account_type(NewAccountType),
        "Add an account type" {
            records: CreateLedgerAccountType,
            text: "\
                Adds a name to the list of types; no account has an added type. A known name gets \
                400 with 3000, except `HUB_FEE`, which exists from the start and gets 201.",
            example: {
                "name": "SCHEME_FEE",
                "description": "Fees of the scheme",
                "isActive": true,
                "isSettleable": false
            },
            responses: [201: AccountTypeResponse = "The type."],
        }
    }
    "/enums" {
        read GET listEnumerations = enumerations, "List enumerations" {
            query: [ID],
            responses: [
                200: Enumerations = "All enumerations by name, or the requested one.",
            ],
            refusals: [400 ID_NOT_FOUND],
        }
    }
}

body! {
    Closed NewAccountType {
        name: String = PatternText(
            2..=30,
            |character| character.is_ascii_alphanumeric() || character == '_',
            "^[A-Za-z0-9_]+$",
        ),
        description: String = Text(DESCRIPTION_CHARACTERS_MAX),
        is_active: bool = FLAG,
        is_settleable: bool = FLAG,
    }
}

unnamed_response! {
    /// One enumeration, or all of them by name.
    struct Enumerations = "application/json", {
        let value = json!({"anyOf": [{"type": "integer"}, {"type": "string"}]});
        let values = json!({"type": "object", "additionalProperties": value});
        json!({"anyOf": [{"type": "object", "additionalProperties": values}, values]})
    }
}

struct AccountType {
    name: &'static str,
    kind: AccountKind,
    description: &'static str,
    settleable: bool,
}

const ACCOUNT_TYPES: [AccountType; 7] = [
    AccountType {
        name: "POSITION",
        kind: AccountKind::Position,
        description: "Net amount owed by a participant; negative if it is owed",
        settleable: true,
    },
    AccountType {
        name: "SETTLEMENT",
        kind: AccountKind::Settlement,
        description: "Funds on deposit (the cover), as a negative value",
        settleable: false,
    },
    AccountType {
        name: "HUB_RECONCILIATION",
        kind: AccountKind::HubReconciliation,
        description: "The hub's counterpart of funds in and out",
        settleable: false,
    },
    AccountType {
        name: "HUB_MULTILATERAL_SETTLEMENT",
        kind: AccountKind::HubMultilateralSettlement,
        description: "The hub's counterpart of net settlement",
        settleable: false,
    },
    AccountType {
        name: "INTERCHANGE_FEE",
        kind: AccountKind::InterchangeFee,
        description: "Fees between participants",
        settleable: true,
    },
    AccountType {
        name: "INTERCHANGE_FEE_SETTLEMENT",
        kind: AccountKind::InterchangeFeeSettlement,
        description: "Settlement of fees between participants",
        settleable: false,
    },
    AccountType {
        name: "HUB_FEE",
        kind: AccountKind::HubFee,
        description: "Fees of the hub",
        settleable: false,
    },
];

/// Number of the first added type: above those of the kernel.
const FIRST_ADDED: usize = 8;

response_type! {
    struct AccountTypeResponse as "AccountType" {
        id: usize,
        name: String,
        description: String,
        is_active: u8 = reference("Switch"),
        is_settleable: u8 = reference("Switch"),
    }
}

/// `GET /ledgerAccountTypes`: the kernel's own, then the added ones.
async fn account_types(request: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::ok(&request.query_state(all_types).await?))
}

/// `POST /ledgerAccountTypes`: adds a type by name. Provisioning scripts add HUB_FEE, which exists
/// from the start: it gets 201, and nothing is recorded.
async fn create_account_type(request: &AdminRequest<'_>, body: NewAccountType) -> HandlerResult {
    let NewAccountType { name, description, is_active, is_settleable } = body;
    if AccountKind::parse(&name) != Some(AccountKind::HubFee) {
        let (name, active, settleable) = (name.clone(), is_active, is_settleable);
        let added = LedgerAccountType { name, description, active, settleable };
        request.change(CreateLedgerAccountType { account_type: added }).await?;
    }
    let types = request.query_state(all_types).await?;
    let added = types.into_iter().find(|known| known.name == name);
    Ok(AdminResponse::json(StatusCode::CREATED, &added))
}

/// `GET /enums`: all enumerations by name, or the one that `id` names; `all` means all.
async fn enumerations(request: &AdminRequest<'_>) -> HandlerResult {
    let (types, hub) =
        request.query_state(|state| (all_types(state), HubResponse::of(state))).await?;
    let mut all: BTreeMap<&str, Value> = BTreeMap::new();
    for (name, values) in ENUMERATIONS {
        all.insert(name, values.iter().map(|(name, number)| (*name, *number)).collect());
    }
    for (internal, shown, states) in STATES {
        all.insert(internal, states.iter().map(|(state, _)| (*state, *state)).collect());
        all.insert(shown, states.iter().copied().collect());
    }
    let endpoints = EndpointType::ALL.iter().enumerate();
    all.insert("endpointType", endpoints.map(|(at, kind)| (kind.as_str(), at + 1)).collect());
    all.insert("hubParticipant", json!(hub));
    let types = types.into_iter().map(|known| (known.name, known.id));
    all.insert("ledgerAccountType", types.collect());
    match request.query(&ID)?.as_deref() {
        None | Some("all") => Ok(AdminResponse::ok(&all)),
        Some(id) => match all.get(id) {
            Some(enumeration) => Ok(AdminResponse::ok(enumeration)),
            None => Err(Refusal::new(ErrorCode::ID_NOT_FOUND, "enumeration not found")),
        },
    }
}

/// The hub as in the reference's table of participants.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HubResponse {
    participant_id: u32,
    name: String,
    description: &'static str,
    is_active: u8,
    created_date: Timestamp,
    created_by: &'static str,
    is_proxy: u8,
}

impl HubResponse {
    fn of(state: &State) -> Self {
        let hub = state.registry().get(ParticipantIndex::HUB);
        Self {
            participant_id: 1,
            name: hub.name.to_string(),
            description: "The hub itself",
            is_active: u8::from(hub.active),
            created_date: Timestamp(hub.created),
            created_by: "unknown",
            is_proxy: 0,
        }
    }
}

fn all_types(state: &State) -> Vec<AccountTypeResponse> {
    let own = ACCOUNT_TYPES.iter().map(|known| AccountTypeResponse {
        id: usize::from(known.kind.number()),
        name: known.name.into(),
        description: known.description.into(),
        is_active: 1,
        is_settleable: u8::from(known.settleable),
    });
    let added = state.registry().account_types().iter().enumerate();
    let added = added.map(|(at, known)| AccountTypeResponse {
        id: FIRST_ADDED + at,
        name: known.name.clone(),
        description: known.description.clone(),
        is_active: u8::from(known.active),
        is_settleable: u8::from(known.settleable),
    });
    own.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_names_every_enumeration() {
        let live = ["endpointType", "hubParticipant", "ledgerAccountType"];
        let states = STATES.iter().flat_map(|(internal, shown, _)| [*internal, *shown]);
        let mut names: Vec<_> =
            live.into_iter().chain(ENUMERATIONS.map(|(name, _)| name)).chain(states).collect();
        names.sort_unstable();
        assert_eq!(KNOWN, format!("One of {}, all.", names.join(", ")));
    }
}
