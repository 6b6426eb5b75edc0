//! `/ledgerAccountTypes` and `/enums` (hub-semantics 4.1, 4.3).
//!
//! The kinds of account are part of the kernel's rules; a type that is added is a name in the
//! catalogue, and no account is ever of it.

use std::collections::BTreeMap;

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{AccountKind, Change, LedgerAccountType, State};
use serde::Serialize;

use crate::answer::{Answer, Reply};
use crate::call::Call;
use crate::form::Form;
use crate::hub::Hub;

/// Names with their numbers.
type Enumeration = &'static [(&'static str, u32)];

/// The enumerations by name. The numbers of account types are the reference's; the others only
/// tell the values apart, for nothing in the API takes them.
const ENUMERATIONS: [(&str, Enumeration); 6] = [
    (
        "ledgerAccountType",
        &[
            ("POSITION", 1),
            ("SETTLEMENT", 2),
            ("HUB_RECONCILIATION", 3),
            ("HUB_MULTILATERAL_SETTLEMENT", 4),
            ("INTERCHANGE_FEE", 5),
            ("INTERCHANGE_FEE_SETTLEMENT", 6),
            ("HUB_FEE", 7),
        ],
    ),
    ("participantLimitType", &[("NET_DEBIT_CAP", 1)]),
    ("settlementDelay", &[("IMMEDIATE", 1), ("DEFERRED", 2)]),
    ("settlementGranularity", &[("GROSS", 1), ("NET", 2)]),
    ("settlementInterchange", &[("BILATERAL", 1), ("MULTILATERAL", 2)]),
    ("transferState", &[("RECEIVED", 1), ("RESERVED", 2), ("COMMITTED", 3), ("ABORTED", 4)]),
];

/// Longest description of an account type, in characters.
pub(crate) const DESCRIPTION_CHARACTERS_MAX: usize = 1_024;

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
        description: "What a participant owes, or is owed when below zero",
        settleable: true,
    },
    AccountType {
        name: "SETTLEMENT",
        kind: AccountKind::Settlement,
        description: "Funds on deposit, below zero: the cover",
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

/// Number of the first added type: above all that the kernel knows.
const FIRST_ADDED: usize = 8;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountTypeShape {
    id: usize,
    name: String,
    description: String,
    is_active: u8,
    is_settleable: u8,
}

/// `GET /ledgerAccountTypes`: the kernel's own, then the added ones.
pub(crate) async fn account_types<H: Hub>(call: &Call<'_, H>) -> Reply {
    Ok(Answer::ok(&call.ask(all_types).await?))
}

/// `POST /ledgerAccountTypes`: adds a type, by name. 201 for HUB_FEE, which provisioning scripts
/// add and which is here from the start; nothing is recorded then, for nothing changes.
pub(crate) async fn create_account_type<H: Hub>(call: &Call<'_, H>) -> Reply {
    let mut form = call.form()?;
    let is_fit = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let name = form.required("name", |form, name| form.word(name, 2..=30, is_fit))?;
    let description =
        form.required("description", |form, name| form.text(name, 1..=DESCRIPTION_CHARACTERS_MAX))?;
    let active = form.required("isActive", Form::flag)?;
    let settleable = form.required("isSettleable", Form::flag)?;
    form.finish()?;
    if AccountKind::parse(&name) != Some(AccountKind::HubFee) {
        let name = name.clone();
        let added = LedgerAccountType { name, description, active, settleable };
        call.change(Change::CreateLedgerAccountType(added)).await?;
    }
    let types = call.ask(all_types).await?;
    let added = types.into_iter().find(|known| known.name == name);
    Ok(Answer::json(StatusCode::CREATED, &added))
}

/// `GET /enums`: all of them by name, or the one that `id` names.
pub(crate) fn enumerations<H: Hub>(call: &Call<'_, H>) -> Reply {
    let all: BTreeMap<_, BTreeMap<_, _>> = ENUMERATIONS
        .iter()
        .map(|(name, values)| (*name, values.iter().copied().collect()))
        .collect();
    match call.parameter("id") {
        None => Ok(Answer::ok(&all)),
        Some(id) => match all.get(id.as_str()) {
            Some(enumeration) => Ok(Answer::ok(enumeration)),
            None => Err(Refusal::new(ErrorCode::ID_NOT_FOUND, "enumeration not found")),
        },
    }
}

/// The names of the enumerations.
pub(crate) fn enumeration_names() -> [&'static str; 6] {
    ENUMERATIONS.map(|(name, _)| name)
}

fn all_types(state: &State) -> Vec<AccountTypeShape> {
    let own = ACCOUNT_TYPES.iter().map(|known| AccountTypeShape {
        id: usize::from(known.kind.number()),
        name: known.name.into(),
        description: known.description.into(),
        is_active: 1,
        is_settleable: u8::from(known.settleable),
    });
    let added = state.register().account_types().iter().enumerate();
    let added = added.map(|(at, known)| AccountTypeShape {
        id: FIRST_ADDED + at,
        name: known.name.clone(),
        description: known.description.clone(),
        is_active: u8::from(known.active),
        is_settleable: u8::from(known.settleable),
    });
    own.chain(added).collect()
}
