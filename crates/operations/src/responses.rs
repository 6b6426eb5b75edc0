//! Response types (hub-semantics 4.2), filled by queries of the state.
//!
//! Amounts are written digit for digit; moments are ISO 8601 with milliseconds; `isActive` of
//! participants and accounts is 0 or 1, as in the reference.

use std::fmt::{self, Display, Formatter};

use events::DateTime;
use ledger::{
    Account, AccountId, Amount, CurrencyAccounts, DeadLetter, NetDebitCap, Notice, Participant,
    SettlementModel, Stamp, State,
};
use openapi::schema::reference;
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::value::RawValue;

use crate::schema::{self, response_type};
use crate::settlement_models::{DELAYS, GRANULARITIES, INTERCHANGES};

/// The only limit type.
pub(crate) const NET_DEBIT_CAP: &str = "NET_DEBIT_CAP";

/// An amount as a JSON number, exact.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonNumber(pub(crate) Amount);

impl Serialize for JsonNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = RawValue::from_string(self.0.to_string());
        digits.expect("the text of an amount is a JSON number").serialize(serializer)
    }
}

/// A moment, `2026-01-01T10:00:00.000Z`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamp(pub(crate) Stamp);

impl Display for Timestamp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        DateTime(self.0).fmt(f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

response_type! {
    /// A participant.
    pub(crate) struct ParticipantResponse as "Participant" {
        name: String,
        id: String,
        created: Timestamp,
        is_active: u8 = reference("Switch"),
        links: Links,
        accounts: Vec<AccountSummary>,
        is_proxy: u8 = reference("Switch"),
    }
}

response_type! {
    struct Links {
        #[serde(rename = "self")]
        itself: String,
    }
}

response_type! {
    /// An account within a participant.
    struct AccountSummary {
        id: u32,
        ledger_account_type: &'static str,
        currency: String = schema::currency(),
        is_active: u8 = reference("Switch"),
        created_date: Option<Timestamp> = <Option<String>>::schema(),
        created_by: &'static str,
    }
}

impl ParticipantResponse {
    pub(crate) fn of(state: &State, participant: &Participant, base_url: &str) -> Self {
        let link = format!("{base_url}/participants/{}", participant.name);
        let summary = |(kind, account): (&'static str, &Account)| AccountSummary {
            id: account.id.0,
            ledger_account_type: kind,
            currency: account.currency.to_string(),
            is_active: u8::from(account.active),
            created_date: None,
            created_by: "unknown",
        };
        Self {
            name: participant.name.to_string(),
            id: link.clone(),
            created: Timestamp(participant.created),
            is_active: u8::from(participant.active),
            links: Links { itself: link },
            accounts: visible_accounts(state, &participant.accounts).map(summary).collect(),
            is_proxy: 0,
        }
    }
}

response_type! {
    /// An account with its balance.
    pub(crate) struct AccountResponse as "Account" {
        id: u32,
        ledger_account_type: &'static str,
        currency: String = schema::currency(),
        is_active: u8 = reference("Switch"),
        value: JsonNumber,
        reserved_value: u8 = reference("Number"),
        changed_date: Timestamp,
    }
}

impl AccountResponse {
    /// The visible accounts of a participant, in order of creation.
    pub(crate) fn all(state: &State, participant: &Participant) -> Vec<Self> {
        visible_accounts(state, &participant.accounts)
            .map(|(kind, account)| Self {
                id: account.id.0,
                ledger_account_type: kind,
                currency: account.currency.to_string(),
                is_active: u8::from(account.active),
                value: JsonNumber(account.value),
                reserved_value: 0,
                changed_date: Timestamp(account.changed),
            })
            .collect()
    }
}

response_type! {
    /// A position in one currency.
    pub(crate) struct PositionResponse as "Position" {
        currency: String = schema::currency(),
        value: JsonNumber,
        changed_date: Timestamp,
    }
}

impl PositionResponse {
    pub(crate) fn of(state: &State, accounts: &CurrencyAccounts) -> Option<Self> {
        let account = state.accounts().get(accounts.position)?;
        Some(Self {
            currency: accounts.currency.to_string(),
            value: JsonNumber(account.value),
            changed_date: Timestamp(account.changed),
        })
    }
}

response_type! {
    /// A net debit cap, with its owner in the list over all participants.
    pub(crate) struct NetDebitCapResponse as "NetDebitCap" {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) name: Option<String>,
        pub(crate) currency: String = schema::currency(),
        pub(crate) limit: LimitResponse,
    }
}

response_type! {
    pub(crate) struct LimitResponse {
        #[serde(rename = "type")]
        kind: &'static str = schema::one_of(&[NET_DEBIT_CAP]),
        value: JsonNumber,
        alarm_percentage: JsonNumber,
    }
}

impl LimitResponse {
    pub(crate) const fn of(limit: &NetDebitCap) -> Self {
        Self {
            kind: NET_DEBIT_CAP,
            value: JsonNumber(limit.value),
            alarm_percentage: JsonNumber(limit.alarm_percentage),
        }
    }
}

response_type! {
    /// An endpoint.
    pub(crate) struct EndpointResponse as "Endpoint" {
        #[serde(rename = "type")]
        pub(crate) kind: String,
        pub(crate) value: String,
    }
}

response_type! {
    /// A settlement model; the reference shows the name of the account type as its id.
    pub(crate) struct SettlementModelResponse as "SettlementModel" {
        settlement_model_id: usize,
        name: String,
        is_active: bool,
        settlement_granularity: &'static str = schema::one_of(&schema::names(&GRANULARITIES)),
        settlement_interchange: &'static str = schema::one_of(&schema::names(&INTERCHANGES)),
        settlement_delay: &'static str = schema::one_of(&schema::names(&DELAYS)),
        currency: Option<String> = schema::currency_or_null(),
        require_liquidity_check: bool,
        ledger_account_type_id: Option<&'static str>,
        settlement_account_type: Option<&'static str>,
        auto_position_reset: bool,
    }
}

impl SettlementModelResponse {
    /// All models, oldest first.
    pub(crate) fn all(state: &State) -> Vec<Self> {
        state
            .registry()
            .models()
            .iter()
            .enumerate()
            .map(|(at, model)| Self::of(at + 1, model))
            .collect()
    }

    /// The model of this name.
    pub(crate) fn find(state: &State, name: &str) -> Option<Self> {
        let models = state.registry().models();
        let at = models.iter().position(|model| model.name == name)?;
        Some(Self::of(at + 1, &models[at]))
    }

    fn of(id: usize, model: &SettlementModel) -> Self {
        Self {
            settlement_model_id: id,
            name: model.name.clone(),
            is_active: model.active,
            settlement_granularity: if model.net { "NET" } else { "GROSS" },
            settlement_interchange: if model.multilateral { "MULTILATERAL" } else { "BILATERAL" },
            settlement_delay: if model.deferred { "DEFERRED" } else { "IMMEDIATE" },
            currency: model.currency.map(|currency| currency.to_string()),
            require_liquidity_check: model.liquidity_check,
            ledger_account_type_id: model.ledger_account.name(),
            settlement_account_type: model.settlement_account.name(),
            auto_position_reset: model.auto_position_reset,
        }
    }
}

response_type! {
    /// A notice whose delivery was given up.
    pub(crate) struct DeadLetterResponse as "DeadLetter" {
        id: u64,
        recipient: String,
        transfer_id: Option<String>,
        message: &'static str,
        outcome: u16,
        log_index: u64,
        created_date: Timestamp,
        attempts: u16,
        last_status: Option<u16>,
        last_attempt_date: Timestamp,
    }
}

impl DeadLetterResponse {
    pub(crate) fn of(state: &State, letter: &DeadLetter) -> Self {
        let DeadLetter { notice, end } = letter;
        Self {
            id: notice.id.0,
            recipient: state.registry().get(notice.recipient).name.to_string(),
            transfer_id: notice.transfer.map(|transfer| transfer.to_string()),
            message: events::message_of(notice.kind),
            outcome: notice.outcome.number(),
            log_index: notice.source.0,
            created_date: Timestamp(notice.at),
            attempts: end.attempts,
            last_status: (end.status != 0).then_some(end.status),
            last_attempt_date: Timestamp(Stamp::from_millis(end.finished_ms)),
        }
    }
}

response_type! {
    /// A notice that the hub owes.
    pub(crate) struct OwedNoticeResponse as "OwedNotice" {
        id: u64,
        recipient: String,
        transfer_id: Option<String>,
        message: &'static str,
        outcome: u16,
        log_index: u64,
        /// When it was created, or resent.
        created_date: Timestamp,
        /// Why it waits: no endpoint, or the failure of the last attempt and the time of the next
        /// one. Absent while a first attempt is under way.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
}

impl OwedNoticeResponse {
    pub(crate) fn of(state: &State, notice: &Notice) -> Self {
        Self {
            id: notice.id.0,
            recipient: state.registry().get(notice.recipient).name.to_string(),
            transfer_id: notice.transfer.map(|transfer| transfer.to_string()),
            message: events::message_of(notice.kind),
            outcome: notice.outcome.number(),
            log_index: notice.source.0,
            created_date: Timestamp(notice.owed_at),
            reason: None,
        }
    }

    pub(crate) fn because(self, reason: Option<String>) -> Self {
        Self { reason, ..self }
    }
}

/// Accounts with a name; internal accounts have none and are never shown.
fn visible_accounts<'s>(
    state: &'s State,
    ids: &'s [AccountId],
) -> impl Iterator<Item = (&'static str, &'s Account)> {
    ids.iter()
        .filter_map(|id| state.accounts().get(*id))
        .filter_map(|account| Some((account.kind.name()?, account)))
}
