//! `upesi settlement fees`: the rules for interchange fees.

use serde_json::{Map, Value, json};

use super::action::Action;
use super::api::SettlementApi;
use super::print;
use crate::CliError;

#[derive(clap::Subcommand)]
pub(super) enum FeesCommand {
    /// List the rules in the order in which they are tried.
    List,
    /// Add a rule; it applies to new transfers.
    Add(Box<AddArguments>),
    /// Activate a rule.
    Activate(RuleArguments),
    /// Deactivate a rule; reserved transfers keep their fees.
    Deactivate(RuleArguments),
}

#[derive(clap::Args)]
pub(super) struct RuleArguments {
    /// Number of the rule.
    #[arg(value_name = "RULE")]
    id: u32,
    /// Let the switch answer as it would, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(clap::Args)]
pub(super) struct AddArguments {
    /// Name of the rule.
    #[arg(value_name = "NAME")]
    name: String,
    /// Fee in percent of the amount, with up to 4 decimals.
    #[arg(long, value_name = "PERCENT", required_unless_present = "amount")]
    percentage: Option<String>,
    /// Number of decimals to which a percentage is rounded, from 0 to 4.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    decimals: u32,
    /// Rounding of a percentage: HALF_UP, DOWN, UP or HALF_EVEN.
    #[arg(long, value_name = "ROUNDING", default_value = "HALF_UP")]
    rounding: String,
    /// Fixed fee, in the currency of the transfer.
    #[arg(long, value_name = "AMOUNT", conflicts_with_all = ["percentage", "decimals", "rounding"])]
    amount: Option<String>,
    /// The party whose FSP pays the fee: PAYER or PAYEE.
    #[arg(long, value_name = "PARTY", default_value = "PAYER")]
    payer: String,
    /// Only transfers in this currency.
    #[arg(long, value_name = "CURRENCY")]
    currency: Option<String>,
    /// Only this scenario, for example TRANSFER.
    #[arg(long, value_name = "SCENARIO")]
    scenario: Option<String>,
    /// Only this sub-scenario.
    #[arg(long, value_name = "SCENARIO")]
    sub_scenario: Option<String>,
    /// Only transactions that this party initiates: PAYER or PAYEE.
    #[arg(long, value_name = "PARTY")]
    initiator: Option<String>,
    /// Only initiators of this type, for example CONSUMER.
    #[arg(long, value_name = "TYPE")]
    initiator_type: Option<String>,
    /// Only transfers from this FSP.
    #[arg(long, value_name = "NAME")]
    payer_fsp: Option<String>,
    /// Only transfers to this FSP.
    #[arg(long, value_name = "NAME")]
    payee_fsp: Option<String>,
    /// Only payers with this extension.
    #[arg(long, value_name = "KEY=VALUE", value_parser = extension)]
    payer_extension: Option<(String, String)>,
    /// Only payees with this extension.
    #[arg(long, value_name = "KEY=VALUE", value_parser = extension)]
    payee_extension: Option<(String, String)>,
    /// Add the rule without activating it.
    #[arg(long)]
    inactive: bool,
    /// Let the switch answer as it would, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

fn extension(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(super) fn fees(
    api: &mut SettlementApi,
    command: &FeesCommand,
    json: bool,
) -> Result<(), CliError> {
    let actions = match command {
        FeesCommand::List => return print::fee_rules(&api.fee_rules()?, json),
        FeesCommand::Add(arguments) => add(api, arguments)?,
        FeesCommand::Activate(arguments) => switch(api, arguments, true)?,
        FeesCommand::Deactivate(arguments) => switch(api, arguments, false)?,
    };
    print::actions(&actions, json);
    Ok(())
}

impl FeesCommand {
    pub(super) const fn is_dry_run(&self) -> bool {
        match self {
            Self::List => false,
            Self::Add(arguments) => arguments.dry_run,
            Self::Activate(arguments) | Self::Deactivate(arguments) => arguments.dry_run,
        }
    }
}

fn add(api: &mut SettlementApi, arguments: &AddArguments) -> Result<Vec<Action>, CliError> {
    let (name, body) = (&arguments.name, body_of(arguments));
    let added = api.add_fee_rule(&body)?;
    let made = format!("added fee rule {}: {name}", added["interchangeFeeRuleId"]);
    Ok(vec![api.action(format!("add fee rule {name}: {body}"), made, added)])
}

fn switch(
    api: &mut SettlementApi,
    arguments: &RuleArguments,
    active: bool,
) -> Result<Vec<Action>, CliError> {
    let (id, verb) = (arguments.id, if active { "activate" } else { "deactivate" });
    let answer = api.switch_fee_rule(id, active)?;
    let (planned, made) = (format!("{verb} fee rule {id}"), format!("{verb}d fee rule {id}"));
    Ok(vec![api.action(planned, made, answer)])
}

/// The body of the request.
fn body_of(arguments: &AddArguments) -> Value {
    let mut conditions = Map::new();
    for (member, value) in [
        ("scenario", &arguments.scenario),
        ("subScenario", &arguments.sub_scenario),
        ("initiator", &arguments.initiator),
        ("initiatorType", &arguments.initiator_type),
        ("payerFsp", &arguments.payer_fsp),
        ("payeeFsp", &arguments.payee_fsp),
    ] {
        conditions.extend(value.iter().map(|value| (member.to_owned(), json!(value))));
    }
    for (member, value) in [
        ("payerExtension", &arguments.payer_extension),
        ("payeeExtension", &arguments.payee_extension),
    ] {
        let pair = |(key, value): &(String, String)| json!({ "key": key, "value": value });
        conditions.extend(value.iter().map(|value| (member.to_owned(), pair(value))));
    }
    let fee = match (&arguments.amount, &arguments.percentage) {
        (Some(amount), _) => json!({ "amount": amount }),
        (None, percentage) => json!({
            "percentage": percentage,
            "decimals": arguments.decimals,
            "rounding": arguments.rounding,
        }),
    };
    let mut body = json!({
        "name": arguments.name,
        "conditions": conditions,
        "fee": fee,
        "payer": arguments.payer,
        "isActive": !arguments.inactive,
    });
    if let Some(currency) = &arguments.currency {
        body["currency"] = json!(currency);
    }
    body
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: FeesCommand,
    }

    fn body(line: &str) -> Value {
        let words = line.split(' ');
        let parsed = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        let FeesCommand::Add(arguments) = parsed.command else { panic!("{line}: not a new rule") };
        body_of(&arguments)
    }

    #[test]
    fn rules_are_written_as_the_api_reads_them() {
        assert_eq!(
            body("fees add wallet --percentage 0.6 --scenario TRANSFER --payee-extension a=b=c"),
            json!({
                "name": "wallet",
                "conditions": {
                    "scenario": "TRANSFER",
                    "payeeExtension": {"key": "a", "value": "b=c"},
                },
                "fee": {"percentage": "0.6", "decimals": 2, "rounding": "HALF_UP"},
                "payer": "PAYER",
                "isActive": true,
            })
        );
        assert_eq!(
            body("fees add fixed --amount 0.25 --payer PAYEE --currency USD --inactive"),
            json!({
                "name": "fixed",
                "conditions": {},
                "fee": {"amount": "0.25"},
                "payer": "PAYEE",
                "isActive": false,
                "currency": "USD",
            })
        );
    }

    #[test]
    fn a_rule_has_one_fee() {
        for line in [
            "fees add a",
            "fees add a --amount 1 --percentage 1",
            "fees add a --amount 1 --decimals 2",
            "fees add a --percentage 1 --payer-extension key",
        ] {
            assert!(Line::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
