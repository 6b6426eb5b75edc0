//! The steps from a hub to a scheme: each part of the scheme is compared with the hub.
//!
//! The order is the usual one of provisioning: accounts of the hub, settlement models, then per
//! participant its currencies, caps, funds, endpoints and key. No step depends on the result of
//! another one that may be refused.

use jws::VerificationKey;
use ledger::{Amount, Currency, FspName, TransferId};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::hub::{Cap, KnownHub, KnownModel};
use super::scheme::{ALARM_PERCENTAGE, InCurrency, Model, Participant, Scheme};
use crate::CliError;

/// One part of the scheme.
pub(super) struct SchemeStep {
    pub(super) object: String,
    pub(super) wanted: String,
    pub(super) verdict: Verdict,
}

/// The comparison of one part with the hub.
pub(super) enum Verdict {
    Equal,
    Create(Change),
    Update {
        found: String,
        change: Change,
    },
    /// The scheme does not have it.
    Prune(Change),
    /// It differs, and the admin API cannot change it.
    Differs {
        found: String,
    },
}

/// A request to the admin API.
pub(super) struct Change {
    method: &'static str,
    target: Target,
    body: Value,
    status: u16,
}

enum Target {
    Path(String),
    /// The SETTLEMENT account of a participant, which an earlier step may create.
    Settlement(FspName, Currency),
}

impl SchemeStep {
    fn new(object: impl Into<String>, wanted: impl Into<String>, verdict: Verdict) -> Self {
        Self { object: object.into(), wanted: wanted.into(), verdict }
    }
}

impl Change {
    /// Activates or deactivates a participant or a model.
    fn switch(path: String, is_active: bool) -> Self {
        let (target, body) = (Target::Path(path), json!({ "isActive": is_active }));
        Self { method: "PUT", target, body, status: 200 }
    }

    fn post(path: impl Into<String>, body: Value, status: u16) -> Self {
        Self { method: "POST", target: Target::Path(path.into()), body, status }
    }

    /// Sends it. Returns its proposal, if it was only proposed.
    pub(super) fn send(&self, hub: &mut KnownHub) -> Result<Option<u64>, CliError> {
        let path = match &self.target {
            Target::Path(path) => path.clone(),
            Target::Settlement(name, currency) => {
                let id = hub.account(name.as_str(), "SETTLEMENT", currency.as_str())?;
                format!("/participants/{name}/accounts/{id}")
            }
        };
        let body = (!self.body.is_null()).then(|| self.body.to_string());
        hub.change((self.method, &path), body.as_deref(), self.status)
    }
}

/// All steps of a scheme, in order.
pub(super) fn all(scheme: &Scheme, hub: &mut KnownHub) -> Result<Vec<SchemeStep>, CliError> {
    let mut steps = hub_accounts(scheme, hub)?;
    steps.extend(scheme.models.iter().flat_map(|model| settlement_model(model, &hub.models)));
    for participant in &scheme.participants {
        let is_known = hub.participant(participant.name.as_str()).is_some();
        steps.extend(currencies(participant, hub, is_known)?);
        steps.extend(endpoints(participant, hub, is_known)?);
        steps.extend(keys(participant, hub, is_known)?);
        steps.extend(activity(participant, hub));
    }
    Ok(steps)
}

/// The steps that take away what a hub has and a scheme has not: participants and settlement models
/// are deactivated, and public keys of named participants are removed.
pub(super) fn prune(scheme: &Scheme, hub: &mut KnownHub) -> Result<Vec<SchemeStep>, CliError> {
    let mut steps = Vec::new();
    let is_named = |name: &str| scheme.models.iter().any(|model| model.name == name);
    for model in hub.models.iter().filter(|model| model.is_active && !is_named(&model.name)) {
        let change = Change::switch(format!("/settlementModels/{}", model.name), false);
        let object = format!("model {}", model.name);
        steps.push(SchemeStep::new(object, "inactive", Verdict::Prune(change)));
    }
    let named = |name: &str| scheme.participants.iter().find(|it| it.name.as_str() == name);
    let known = hub.participants.iter().skip(1);
    let known: Vec<_> = known.map(|it| (it.name.clone(), it.is_active)).collect();
    for (name, is_active) in known {
        let Some(participant) = named(&name) else {
            if is_active == 1 {
                let change = Change::switch(format!("/participants/{name}"), false);
                steps.push(SchemeStep::new(name, "disabled", Verdict::Prune(change)));
            }
            continue;
        };
        let wanted: Vec<_> = participant.keys.iter().map(id_of).collect();
        for key in hub.keys(&name)? {
            if key.is_registered() && !wanted.contains(&key.id) {
                let target = Target::Path(format!("/participants/{name}/keys/{}", key.id));
                let change = Change { method: "DELETE", target, body: Value::Null, status: 204 };
                let what = format!("no public key {}", key.id);
                steps.push(SchemeStep::new(&*name, what, Verdict::Prune(change)));
            }
        }
    }
    Ok(steps)
}

fn hub_accounts(scheme: &Scheme, hub: &KnownHub) -> Result<Vec<SchemeStep>, CliError> {
    let itself = hub.itself()?;
    let mut steps = Vec::new();
    for currency in &scheme.currencies {
        for kind in &scheme.hub_accounts {
            let verdict = match itself.has(kind, currency.as_str()) {
                true => Verdict::Equal,
                false => Verdict::Create(Change::post(
                    format!("/participants/{}/accounts", itself.name),
                    json!({ "currency": currency.as_str(), "type": kind }),
                    201,
                )),
            };
            steps.push(SchemeStep::new(&*itself.name, format!("{kind} {currency}"), verdict));
        }
    }
    Ok(steps)
}

fn settlement_model(model: &Model, known: &[KnownModel]) -> Vec<SchemeStep> {
    let wanted = model.to_string();
    let found = known.iter().find(|known| known.name == model.name);
    let verdict = match found {
        None => Verdict::Create(Change::post("/settlementModels", body_of(model), 201)),
        Some(known) if known.to_string() == wanted => Verdict::Equal,
        Some(known) => Verdict::Differs { found: known.to_string() },
    };
    let object = format!("model {}", model.name);
    let mut steps = vec![SchemeStep::new(&*object, wanted, verdict)];
    if found.is_some_and(|found| !found.is_active) {
        let change = Change::switch(format!("/settlementModels/{}", model.name), true);
        let verdict = Verdict::Update { found: "inactive".to_owned(), change };
        steps.push(SchemeStep::new(object, "active", verdict));
    }
    steps
}

fn body_of(model: &Model) -> Value {
    json!({
        "name": model.name,
        "settlementGranularity": model.granularity,
        "settlementInterchange": model.interchange,
        "settlementDelay": model.delay,
        "currency": model.currency.map(|currency| currency.to_string()),
        "requireLiquidityCheck": model.liquidity_check,
        "ledgerAccountType": model.ledger_account,
        "autoPositionReset": model.auto_position_reset,
        "settlementAccountType": model.settlement_account,
    })
}

/// Accounts, caps and funds of a participant.
fn currencies(
    participant: &Participant,
    hub: &mut KnownHub,
    is_known: bool,
) -> Result<Vec<SchemeStep>, CliError> {
    let name = &participant.name;
    let caps = if is_known { hub.caps(name.as_str())? } else { Default::default() };
    let mut steps = Vec::new();
    for wanted in &participant.currencies {
        let currency = wanted.currency.as_str();
        let known = hub.participant(name.as_str());
        let verdict = match known.is_some_and(|known| known.has_currency(currency)) {
            true => Verdict::Equal,
            false => Verdict::Create(Change::post(
                "/participants",
                json!({ "name": name.as_str(), "currency": currency }),
                201,
            )),
        };
        steps.push(SchemeStep::new(name.as_str(), format!("accounts in {currency}"), verdict));
        steps.extend(cap(name, wanted, caps.get(currency).copied()));
        if let Some(amount) = wanted.funds_in {
            steps.push(funds(name, (wanted.currency, amount), is_known, hub)?);
        }
    }
    Ok(steps)
}

/// The cap. A new cap has the default alarm percentage, which a second step changes.
fn cap(name: &FspName, wanted: &InCurrency, found: Option<Cap>) -> Vec<SchemeStep> {
    let InCurrency { currency, initial_position, alarm_percentage, .. } = wanted;
    let Some(net_debit_cap) = &wanted.net_debit_cap else { return Vec::new() };
    let all = Cap { value: *net_debit_cap, alarm: *alarm_percentage };
    let change = |found: Cap| {
        let limit = json!({
            "type": "NET_DEBIT_CAP",
            "value": net_debit_cap.to_string(),
            "alarmPercentage": alarm_percentage.to_string(),
        });
        let change = Change {
            method: "PUT",
            target: Target::Path(format!("/participants/{name}/limits")),
            body: json!({ "currency": currency.as_str(), "limit": limit }),
            status: 200,
        };
        Verdict::Update { found: found.text(*currency), change }
    };
    let text = all.text(*currency);
    match found {
        Some(found) if found == all => vec![SchemeStep::new(name.as_str(), text, Verdict::Equal)],
        Some(found) => vec![SchemeStep::new(name.as_str(), text, change(found))],
        None => {
            let fresh = Cap { value: *net_debit_cap, alarm: ALARM_PERCENTAGE };
            let create = Verdict::Create(Change::post(
                format!("/participants/{name}/initialPositionAndLimits"),
                json!({
                    "currency": currency.as_str(),
                    "limit": { "type": "NET_DEBIT_CAP", "value": net_debit_cap.to_string() },
                    "initialPosition": initial_position.to_string(),
                }),
                201,
            ));
            let mut steps = vec![SchemeStep::new(
                name.as_str(),
                format!("{}, initial position {initial_position}", fresh.text(*currency)),
                create,
            )];
            if fresh != all {
                steps.push(SchemeStep::new(name.as_str(), text, change(fresh)));
            }
            steps
        }
    }
}

/// Funds in. The transfer id depends only on participant and currency, so that a file moves them
/// once.
fn funds(
    name: &FspName,
    (currency, amount): (Currency, Amount),
    is_known: bool,
    hub: &mut KnownHub,
) -> Result<SchemeStep, CliError> {
    let id = funds_id(name, currency);
    let wanted = format!("funds in: {amount} {currency} of {name}");
    let found = if is_known { hub.funds(id)? } else { None };
    let verdict = match found {
        Some(found) if found == wanted => Verdict::Equal,
        Some(found) => Verdict::Differs { found },
        None => Verdict::Create(Change {
            method: "POST",
            target: Target::Settlement(*name, currency),
            body: json!({
                "transferId": id.to_string(),
                "externalReference": format!("onboarding of {name}"),
                "action": "recordFundsIn",
                "reason": "onboarding",
                "amount": { "amount": amount.to_string(), "currency": currency.as_str() },
            }),
            status: 202,
        }),
    };
    Ok(SchemeStep::new(name.as_str(), format!("funds in of {amount} {currency}"), verdict))
}

/// A UUID of the form of version 5 from participant and currency.
fn funds_id(name: &FspName, currency: Currency) -> TransferId {
    let digest = Sha256::digest(format!("upesi onboard funds_in {name} {currency}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x50;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    TransferId::parse(&parts.join("-")).expect("the text of a UUID")
}

fn endpoints(
    participant: &Participant,
    hub: &mut KnownHub,
    is_known: bool,
) -> Result<Vec<SchemeStep>, CliError> {
    let name = &participant.name;
    let needed = is_known && !participant.endpoints.is_empty();
    let known = if needed { hub.endpoints(name.as_str())? } else { Default::default() };
    let step = |(kind, value): &(String, String)| {
        let body = json!({ "type": kind, "value": value });
        let change = || Change::post(format!("/participants/{name}/endpoints"), body, 201);
        let verdict = match known.get(kind) {
            None => Verdict::Create(change()),
            Some(found) if found == value => Verdict::Equal,
            Some(found) => Verdict::Update { found: found.clone(), change: change() },
        };
        SchemeStep::new(name.as_str(), format!("{kind} {value}"), verdict)
    };
    Ok(participant.endpoints.iter().map(step).collect())
}

fn keys(
    participant: &Participant,
    hub: &mut KnownHub,
    is_known: bool,
) -> Result<Vec<SchemeStep>, CliError> {
    if participant.keys.is_empty() {
        return Ok(Vec::new());
    }
    let name = &participant.name;
    let known = if is_known { hub.keys(name.as_str())? } else { Vec::new() };
    let step = |key: &VerificationKey| {
        let id = id_of(key);
        let verdict = match known.iter().any(|known| known.id == id) {
            true => Verdict::Equal,
            false => Verdict::Create(Change::post(
                format!("/participants/{name}/keys"),
                json!({ "publicKey": key.to_pem() }),
                201,
            )),
        };
        SchemeStep::new(name.as_str(), format!("public key {id}"), verdict)
    };
    Ok(participant.keys.iter().map(step).collect())
}

fn id_of(key: &VerificationKey) -> String {
    key.fingerprint().to_string()
}

/// Enables or disables a participant. A new one is enabled.
fn activity(participant: &Participant, hub: &KnownHub) -> Option<SchemeStep> {
    let name = &participant.name;
    let is_active = hub.participant(name.as_str()).is_none_or(|known| known.is_active == 1);
    if is_active == participant.active {
        return None;
    }
    let text = |is_active| if is_active { "enabled" } else { "disabled" };
    let change = Change::switch(format!("/participants/{name}"), participant.active);
    let verdict = Verdict::Update { found: text(is_active).to_owned(), change };
    Some(SchemeStep::new(name.as_str(), text(participant.active), verdict))
}

impl Cap {
    fn text(self, currency: Currency) -> String {
        format!("net debit cap {} {currency}, alarm at {} %", self.value, self.alarm)
    }
}

impl std::fmt::Display for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let currency = self.currency.map(|currency| currency.to_string());
        describe(
            f,
            [self.granularity, self.interchange, self.delay],
            currency.as_deref(),
            [self.ledger_account, self.settlement_account],
            [self.liquidity_check, self.auto_position_reset],
        )
    }
}

impl std::fmt::Display for KnownModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |kind: &Option<String>| kind.clone().unwrap_or_default();
        describe(
            f,
            [&self.settlement_granularity, &self.settlement_interchange, &self.settlement_delay],
            self.currency.as_deref(),
            [&of(&self.ledger_account_type_id), &of(&self.settlement_account_type)],
            [self.require_liquidity_check, self.auto_position_reset],
        )
    }
}

fn describe(
    f: &mut std::fmt::Formatter<'_>,
    kind: [&str; 3],
    currency: Option<&str>,
    [ledger, settlement]: [&str; 2],
    [liquidity_check, reset]: [bool; 2],
) -> std::fmt::Result {
    let with = |flag: bool| if flag { "with" } else { "without" };
    write!(
        f,
        "{} in {}, {ledger} to {settlement}, {} liquidity check, {} position reset",
        kind.join(" "),
        currency.unwrap_or("all currencies"),
        with(liquidity_check),
        with(reset)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_funds_depends_on_participant_and_currency_only() {
        let id = |name: &str, currency: &str| {
            let name = FspName::new(name).expect("a name");
            funds_id(&name, Currency::parse(currency).expect("a code")).to_string()
        };
        assert_eq!(id("greenbank", "USD"), id("greenbank", "USD"));
        assert_ne!(id("greenbank", "USD"), id("greenbank", "KES"));
        assert_ne!(id("greenbank", "USD"), id("bluebank", "USD"));
    }
}
