//! The parts of a scheme that a hub has already, read through its admin API.

use std::collections::BTreeMap;

use harness::{Admin, HarnessError};
use ledger::{Amount, TransferId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::CliError;

/// Status of the answer to a change that was only proposed.
const PROPOSED: u16 = 202;
/// Beginning of the part of a description that names the approval.
const APPROVAL: &str = " (approval of proposal ";

/// A hub, with its participants and models as they were read.
pub(super) struct KnownHub {
    admin: Admin,
    /// The hub itself is the first one.
    pub(super) participants: Vec<KnownParticipant>,
    pub(super) models: Vec<KnownModel>,
}

/// A participant that the hub has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KnownParticipant {
    pub(super) name: String,
    pub(super) accounts: Vec<KnownAccount>,
    /// 0 or 1.
    pub(super) is_active: u8,
}

/// An account that the hub has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KnownAccount {
    pub(super) id: u64,
    pub(super) ledger_account_type: String,
    pub(super) currency: String,
}

/// A settlement model that the hub has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KnownModel {
    pub(super) name: String,
    pub(super) settlement_granularity: String,
    pub(super) settlement_interchange: String,
    pub(super) settlement_delay: String,
    pub(super) currency: Option<String>,
    pub(super) require_liquidity_check: bool,
    pub(super) auto_position_reset: bool,
    pub(super) ledger_account_type_id: Option<String>,
    pub(super) settlement_account_type: Option<String>,
    pub(super) is_active: bool,
}

/// Net debit cap and alarm percentage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Cap {
    pub(super) value: Amount,
    pub(super) alarm: Amount,
}

#[derive(Deserialize)]
struct ListedCap {
    currency: String,
    limit: Limit,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Limit {
    value: Box<RawValue>,
    alarm_percentage: Box<RawValue>,
}

#[derive(Deserialize)]
struct ListedEndpoint {
    #[serde(rename = "type")]
    kind: String,
    value: String,
}

/// A public key that the hub has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KnownKey {
    /// SHA-256 of the key.
    pub(super) id: String,
    pub(super) public_key: String,
    source: String,
}

impl KnownKey {
    /// Whether it is in the registry, and not in the key directory.
    pub(super) fn is_registered(&self) -> bool {
        self.source == "register"
    }
}

/// A change that waits for a second operator, or waited.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KnownProposal {
    pub(super) proposal_id: u64,
    pub(super) state: String,
    pub(super) description: String,
}

#[derive(Deserialize)]
struct Explanation {
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    change: Option<String>,
    decision: Option<Decision>,
}

#[derive(Deserialize)]
struct Decision {
    outcome: String,
}

impl KnownHub {
    pub(super) fn read(mut admin: Admin) -> Result<Self, CliError> {
        let participants = get(&mut admin, "/participants")?;
        let models = get(&mut admin, "/settlementModels")?;
        Ok(Self { admin, participants, models })
    }

    /// The hub as a participant.
    pub(super) fn itself(&self) -> Result<&KnownParticipant, CliError> {
        let first = self.participants.first();
        first.ok_or_else(|| CliError::new("the hub does not list itself as a participant"))
    }

    pub(super) fn participant(&self, name: &str) -> Option<&KnownParticipant> {
        self.participants.iter().skip(1).find(|known| known.name == name)
    }

    /// Caps of an existing participant, by currency.
    pub(super) fn caps(&mut self, name: &str) -> Result<BTreeMap<String, Cap>, CliError> {
        let path = format!("/participants/{name}/limits");
        let listed: Vec<ListedCap> = get(&mut self.admin, &path)?;
        let cap = |listed: ListedCap| {
            let [value, alarm] = [&listed.limit.value, &listed.limit.alarm_percentage]
                .map(|number| Amount::parse_decimal(number.get()));
            let cap = value.zip(alarm).map(|(value, alarm)| Cap { value, alarm });
            let unread = || CliError::new(format!("GET {path}: it has a limit without a number"));
            Ok((listed.currency, cap.ok_or_else(unread)?))
        };
        listed.into_iter().map(cap).collect()
    }

    /// Endpoints of an existing participant, by type.
    pub(super) fn endpoints(&mut self, name: &str) -> Result<BTreeMap<String, String>, CliError> {
        let path = format!("/participants/{name}/endpoints");
        let listed: Vec<ListedEndpoint> = get(&mut self.admin, &path)?;
        Ok(listed.into_iter().map(|endpoint| (endpoint.kind, endpoint.value)).collect())
    }

    /// Public keys of an existing participant.
    pub(super) fn keys(&mut self, name: &str) -> Result<Vec<KnownKey>, CliError> {
        get(&mut self.admin, &format!("/participants/{name}/keys"))
    }

    /// The accepted movement of funds with this id, such as `funds in: 10 USD of greenbank`.
    pub(super) fn funds(&mut self, id: TransferId) -> Result<Option<String>, CliError> {
        let path = format!("/transfers/{id}/explanation");
        let answer = self.admin.must("GET", &path, None, &[200, 404]).map_err(failed)?;
        if answer.status == 404 {
            return Ok(None);
        }
        let explanation: Explanation = parsed(&path, &answer.body)?;
        let is_accepted = |event: &Event| {
            event.decision.as_ref().is_some_and(|decision| decision.outcome == "Accepted")
        };
        let change = explanation.events.into_iter().find(is_accepted).and_then(|it| it.change);
        // A change that a second operator approved is described with the approval.
        Ok(change.map(|it| it.split(APPROVAL).next().unwrap_or_default().to_owned()))
    }

    /// The number of an account, read again.
    pub(super) fn account(
        &mut self,
        name: &str,
        kind: &str,
        currency: &str,
    ) -> Result<u64, CliError> {
        let accounts: Vec<KnownAccount> =
            get(&mut self.admin, &format!("/participants/{name}/accounts"))?;
        let is_wanted = |it: &&KnownAccount| it.is(kind, currency);
        let found = accounts.iter().find(is_wanted).map(|account| account.id);
        found
            .ok_or_else(|| CliError::new(format!("{name}: it has no {kind} account in {currency}")))
    }

    /// The newest proposed changes.
    pub(super) fn proposals(&mut self) -> Result<Vec<KnownProposal>, CliError> {
        get(&mut self.admin, "/proposals")
    }

    /// Sends a change that must be answered with this status. Returns its proposal, if it was only
    /// proposed.
    pub(super) fn change(
        &mut self,
        (method, path): (&str, &str),
        body: Option<&str>,
        status: u16,
    ) -> Result<Option<u64>, CliError> {
        let answer = self.admin.must(method, path, body, &[status, PROPOSED]);
        let answer = answer.map_err(failed)?;
        // Funds are answered with the same status, but not with a proposal.
        let value: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let proposal = value["proposalId"].as_u64().filter(|_| value["state"] == "OPEN");
        match proposal.filter(|_| answer.status == PROPOSED) {
            Some(id) => Ok(Some(id)),
            None if answer.status == status => Ok(None),
            None => Err(CliError::new(format!("{method} {path}: answered {}", answer.status))),
        }
    }
}

impl KnownParticipant {
    pub(super) fn has(&self, kind: &str, currency: &str) -> bool {
        self.accounts.iter().any(|account| account.is(kind, currency))
    }

    /// Its currencies, in order.
    pub(super) fn currencies(&self) -> Vec<String> {
        let mut all: Vec<_> = self.accounts.iter().map(|it| it.currency.clone()).collect();
        all.sort();
        all.dedup();
        all
    }

    pub(super) fn has_currency(&self, currency: &str) -> bool {
        self.accounts.iter().any(|account| account.currency == currency)
    }
}

impl KnownAccount {
    fn is(&self, kind: &str, currency: &str) -> bool {
        self.ledger_account_type == kind && self.currency == currency
    }
}

fn get<T: DeserializeOwned>(admin: &mut Admin, path: &str) -> Result<T, CliError> {
    let answer = admin.must("GET", path, None, &[200]).map_err(failed)?;
    parsed(path, &answer.body)
}

fn parsed<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<T, CliError> {
    serde_json::from_slice(body)
        .map_err(|error| CliError::new(format!("GET {path}: cannot be read: {error}")))
}

fn failed(error: HarnessError) -> CliError {
    let text = CliError::from(error).to_string();
    let hint =
        if text.contains("answered 401") { "; name the token file with --token" } else { "" };
    CliError::new(format!("{text}{hint}"))
}
