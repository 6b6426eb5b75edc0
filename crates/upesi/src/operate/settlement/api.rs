//! Calls of the settlement API.
//!
//! In a dry run the switch answers the same calls, and records nothing.

use std::collections::BTreeMap;
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use harness::Admin;
use serde_json::{Value, json};

use super::action::Action;
use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::admin_client::proposed;

/// The earliest time: a filter that every window and settlement passes.
const ALL: &str = "fromDateTime=1970-01-01T00:00:00.000Z";

/// The settlement API of a switch.
pub(super) struct SettlementApi {
    admin: Admin,
    is_dry_run: bool,
}

/// Owner and currency of an account.
#[derive(Clone, Debug)]
pub(super) struct AccountOwner {
    pub(super) participant: String,
    pub(super) currency: String,
    pub(super) kind: String,
}

/// Accounts by number.
pub(super) type AccountOwners = BTreeMap<u64, AccountOwner>;

/// A state of a settlement, in the order of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State(ledger::SettlementState);

impl State {
    pub(super) fn parse(name: &str) -> Result<Self, CliError> {
        let known = ledger::SettlementState::ALL.iter().map(|state| state.name());
        let known: Vec<_> = known.collect();
        ledger::SettlementState::parse(name).map(Self).ok_or_else(|| {
            CliError::new(format!("{name}: not a state; the states are {}", known.join(", ")))
        })
    }

    /// A state that an operator can move accounts to.
    pub(super) fn target(name: &str) -> Result<Self, CliError> {
        use ledger::SettlementState::{
            Aborted, PsTransfersCommitted, PsTransfersRecorded, PsTransfersReserved, Settled,
        };
        const TARGETS: [ledger::SettlementState; 4] =
            [PsTransfersRecorded, PsTransfersReserved, PsTransfersCommitted, Settled];
        let found = TARGETS.into_iter().find(|state| state.name() == name);
        found.map(Self).ok_or_else(|| {
            let hint = if name == Aborted.name() { "; use `upesi settlement abort`" } else { "" };
            let names = TARGETS.map(|state| state.name()).join(", ");
            CliError::new(format!(
                "--to {name}: accounts cannot be moved to it; the states are {names}{hint}"
            ))
        })
    }

    pub(super) fn of(settlement: &Value) -> Result<Self, CliError> {
        Self::parse(settlement["state"].as_str().unwrap_or_default())
    }

    pub(super) fn next(self) -> Option<Self> {
        self.0.next().map(Self)
    }

    pub(super) fn name(self) -> &'static str {
        self.0.name()
    }

    /// Whether accounts in this state have reached another one. An aborted settlement has reached
    /// no other state.
    pub(super) fn is_at_or_after(self, other: Self) -> bool {
        self == other || (other < self && self.0 != ledger::SettlementState::Aborted)
    }

    pub(super) fn is_final(self) -> bool {
        self.next().is_none()
    }
}

impl SettlementApi {
    pub(super) fn at(switch: &AdminAddress) -> Result<Self, CliError> {
        Ok(Self { admin: switch.client()?, is_dry_run: false })
    }

    /// Makes all further calls part of one dry run, and returns its name.
    pub(super) fn begin_dry_run(&mut self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("{}-{}", process::id(), now.as_nanos());
        self.admin.with("x-dry-run", &name);
        self.is_dry_run = true;
        name
    }

    /// Ends a dry run that another client has begun. Without an answer it ends by itself.
    pub(super) fn end_dry_run(&mut self, name: &str) {
        let _answer = self.admin.call("DELETE", &format!("/dryRuns/{name}"), None);
    }

    /// An action, in the words of a dry run or as it was made.
    pub(super) fn action(
        &self,
        planned: impl Into<String>,
        made: impl Into<String>,
        answer: Value,
    ) -> Action {
        match self.is_dry_run {
            true => Action::planned(planned),
            false => Action::new(made, answer),
        }
    }

    /// The windows in a state, or all; newest change first.
    pub(super) fn windows(&mut self, state: Option<&str>) -> Result<Vec<Value>, CliError> {
        self.list("/v2/settlementWindows", state)
    }

    pub(super) fn settlements(&mut self, state: Option<&str>) -> Result<Vec<Value>, CliError> {
        self.list("/v2/settlements", state)
    }

    pub(super) fn settlement(&mut self, id: u32) -> Result<Value, CliError> {
        self.call("GET", &format!("/v2/settlements/{id}"), None)
    }

    /// A settlement, and its JSON as the switch wrote it: large amounts do not fit the numbers of
    /// [`Value`].
    pub(super) fn exact_settlement(&mut self, id: u32) -> Result<(Value, String), CliError> {
        self.ask("GET", &format!("/v2/settlements/{id}"), None)
    }

    /// The number of the open window.
    pub(super) fn open_window(&mut self) -> Result<u32, CliError> {
        let open = self.windows(Some("OPEN"))?;
        let id = open.first().and_then(|window| window["settlementWindowId"].as_u64());
        let id = id.and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| CliError::new("no settlement window is open; activate rules version 2"))
    }

    pub(super) fn close(&mut self, window: u32, reason: &str) -> Result<Value, CliError> {
        let body = json!({ "state": "CLOSED", "reason": reason });
        self.call("POST", &format!("/v2/settlementWindows/{window}"), Some(&body))
    }

    pub(super) fn create(
        &mut self,
        model: &str,
        windows: &[u32],
        reason: &str,
    ) -> Result<Value, CliError> {
        let windows: Vec<_> = windows.iter().map(|id| json!({ "id": id })).collect();
        let body = json!({
            "settlementModel": model,
            "reason": reason,
            "settlementWindows": windows,
        });
        self.call("POST", "/v2/settlements", Some(&body))
    }

    /// Moves accounts; `participants` is the list of the request.
    pub(super) fn advance(&mut self, id: u64, participants: &Value) -> Result<Value, CliError> {
        let body = json!({ "participants": participants });
        self.call("PUT", &format!("/v2/settlements/{id}"), Some(&body))
    }

    pub(super) fn abort(&mut self, id: u32, reason: &str) -> Result<Value, CliError> {
        let body = json!({ "state": "ABORTED", "reason": reason });
        self.call("PUT", &format!("/v2/settlements/{id}"), Some(&body))
    }

    /// The rules for interchange fees, in order of number.
    pub(super) fn fee_rules(&mut self) -> Result<Vec<Value>, CliError> {
        let rules = self.call("GET", "/interchangeFeeRules", None)?;
        Ok(rules.as_array().cloned().unwrap_or_default())
    }

    pub(super) fn add_fee_rule(&mut self, rule: &Value) -> Result<Value, CliError> {
        self.call("POST", "/interchangeFeeRules", Some(rule))
    }

    pub(super) fn switch_fee_rule(&mut self, id: u32, active: bool) -> Result<Value, CliError> {
        let body = json!({ "isActive": active });
        self.call("PUT", &format!("/interchangeFeeRules/{id}"), Some(&body))
    }

    /// Names of the active models that settle net.
    pub(super) fn net_models(&mut self) -> Result<Vec<String>, CliError> {
        let models = self.call("GET", "/settlementModels", None)?;
        let models = models.as_array().cloned().unwrap_or_default();
        let is_net =
            |model: &&Value| model["isActive"] == true && model["settlementGranularity"] == "NET";
        let names = models.iter().filter(is_net).filter_map(|model| model["name"].as_str());
        Ok(names.map(str::to_owned).collect())
    }

    /// Owners of all accounts.
    pub(super) fn accounts(&mut self) -> Result<AccountOwners, CliError> {
        let participants = self.call("GET", "/participants", None)?;
        let participants = participants.as_array().cloned().unwrap_or_default();
        let mut owners = AccountOwners::new();
        for participant in &participants {
            for account in participant["accounts"].as_array().into_iter().flatten() {
                let text = |member: &str| account[member].as_str().unwrap_or_default().to_owned();
                let owner = AccountOwner {
                    participant: participant["name"].as_str().unwrap_or_default().to_owned(),
                    currency: text("currency"),
                    kind: text("ledgerAccountType"),
                };
                owners.insert(account["id"].as_u64().unwrap_or_default(), owner);
            }
        }
        Ok(owners)
    }

    /// A list; one without entries is an error of the API.
    fn list(&mut self, path: &str, state: Option<&str>) -> Result<Vec<Value>, CliError> {
        let filter = state.map_or_else(|| ALL.to_owned(), |state| format!("state={state}"));
        match self.call("GET", &format!("{path}?{filter}"), None) {
            Ok(list) => Ok(list.as_array().cloned().unwrap_or_default()),
            Err(error) if error.to_string().ends_with("not found") => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, CliError> {
        self.ask(method, path, body).map(|(value, _)| value)
    }

    /// The answer, and its text.
    fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(Value, String), CliError> {
        let body = body.map(Value::to_string);
        let answer = self.admin.call(method, path, body.as_deref());
        let answer = answer.map_err(CliError::from)?;
        let value = serde_json::from_slice::<Value>(&answer.body).unwrap_or(Value::Null);
        if let Some(text) = proposed(&value).filter(|_| answer.status == 202) {
            return Err(CliError::proposed(text));
        }
        if [200, 201].contains(&answer.status) {
            return Ok((value, String::from_utf8_lossy(&answer.body).into_owned()));
        }
        let described = value["errorInformation"]["errorDescription"].as_str();
        let hint = if answer.status == 401 { "; name the token file with --token" } else { "" };
        let text = described.unwrap_or("no description");
        Err(CliError::new(format!("{method} {path}: status {}: {text}{hint}", answer.status)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_four_steps_are_targets() {
        for name in ["PENDING_SETTLEMENT", "SETTLING", "ABORTED", "FOO", "settled"] {
            let refused = State::target(name).map(State::name).expect_err(name).to_string();
            assert_eq!(refused.contains("upesi settlement abort"), name == "ABORTED", "{refused}");
        }
        assert_eq!(State::target("SETTLED").expect("a step").name(), "SETTLED");
    }
}
