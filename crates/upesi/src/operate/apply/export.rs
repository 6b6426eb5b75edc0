//! `upesi export`: the scheme file of a running switch.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;
use std::collections::BTreeMap;

use super::hub::{Cap, KnownHub, KnownModel, KnownParticipant};
use super::scheme::HUB_ACCOUNTS_ALL;
use crate::CliError;
use crate::cli::admin_address::AdminAddress;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi export > scheme.toml
  upesi export --output scheme.json --admin https://10.0.0.5:3001 --ca ca.pem
`upesi apply` of the file changes nothing. Funds are not part of it.";

/// Arguments of `export`.
#[derive(clap::Args)]
pub(crate) struct ExportArguments {
    /// File to write: TOML, or JSON if its name ends in .json [default: stdout].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    switch: AdminAddress,
}

/// A scheme, with the fields of a scheme file.
#[derive(Serialize)]
struct ExportedScheme {
    hub: ExportedHub,
    settlement_models: Vec<ExportedModel>,
    participants: Vec<ExportedParticipant>,
}

#[derive(Serialize)]
struct ExportedHub {
    currencies: Vec<String>,
    accounts: Vec<&'static str>,
}

#[derive(Serialize)]
struct ExportedModel {
    name: String,
    granularity: String,
    interchange: String,
    delay: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<String>,
    liquidity_check: bool,
    auto_position_reset: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger_account: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settlement_account: Option<String>,
}

#[derive(Serialize)]
struct ExportedParticipant {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    public_keys: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    endpoints: BTreeMap<String, String>,
    currencies: Vec<ExportedCurrency>,
}

#[derive(Serialize)]
struct ExportedCurrency {
    currency: String,
    /// Amounts are texts, which keep all digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    net_debit_cap: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alarm_percentage: Option<String>,
}

pub(crate) fn export(arguments: &ExportArguments) -> Result<(), CliError> {
    let ExportArguments { output, json, switch } = arguments;
    let scheme = scheme_of(KnownHub::read(switch.client()?)?)?;
    let named = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "json");
    let text = match *json || output.as_ref().is_some_and(named) {
        true => serde_json::to_string_pretty(&scheme).map_err(|error| error.to_string()),
        false => toml::to_string(&scheme).map_err(|error| error.to_string()),
    };
    let text = text.map_err(CliError::new)?;
    let Some(file) = output else {
        println!("{}", text.trim_end());
        return Ok(());
    };
    fs::write(file, text).map_err(|error| CliError::new(format!("{}: {error}", file.display())))?;
    println!("the scheme of {} is in {}", switch.admin, file.display());
    Ok(())
}

fn scheme_of(mut hub: KnownHub) -> Result<ExportedScheme, CliError> {
    let exported = hub_of(hub.itself()?);
    let models = hub.models.iter().filter(|model| model.is_active).map(model_of).collect();
    let known: Vec<_> = hub.participants.drain(1..).collect();
    let mut participants = Vec::new();
    for participant in known {
        participants.push(participant_of(&participant, &mut hub)?);
    }
    Ok(ExportedScheme { hub: exported, settlement_models: models, participants })
}

/// Currencies of the hub, and the types of account that it has in all of them.
fn hub_of(itself: &KnownParticipant) -> ExportedHub {
    let currencies = itself.currencies();
    let has_all = |kind: &&str| currencies.iter().all(|currency| itself.has(kind, currency));
    let accounts = HUB_ACCOUNTS_ALL.into_iter().filter(has_all).collect();
    ExportedHub { currencies, accounts }
}

fn model_of(model: &KnownModel) -> ExportedModel {
    ExportedModel {
        name: model.name.clone(),
        granularity: model.settlement_granularity.clone(),
        interchange: model.settlement_interchange.clone(),
        delay: model.settlement_delay.clone(),
        currency: model.currency.clone(),
        liquidity_check: model.require_liquidity_check,
        auto_position_reset: model.auto_position_reset,
        ledger_account: model.ledger_account_type_id.clone(),
        settlement_account: model.settlement_account_type.clone(),
    }
}

fn participant_of(
    participant: &KnownParticipant,
    hub: &mut KnownHub,
) -> Result<ExportedParticipant, CliError> {
    let name = &participant.name;
    let caps = hub.caps(name)?;
    let currency_of = |currency: String| {
        let cap: Option<&Cap> = caps.get(&currency);
        ExportedCurrency {
            net_debit_cap: cap.map(|cap| cap.value.to_string()),
            alarm_percentage: cap.map(|cap| cap.alarm.to_string()),
            currency,
        }
    };
    let keys = hub.keys(name)?.into_iter().filter(|key| key.is_registered());
    Ok(ExportedParticipant {
        name: name.clone(),
        active: (participant.is_active == 0).then_some(false),
        public_keys: keys.map(|key| key.public_key).collect(),
        endpoints: hub.endpoints(name)?,
        currencies: participant.currencies().into_iter().map(currency_of).collect(),
    })
}
