//! `upesi settlement fees`: the rules for interchange fees.

use clap::ArgGroup;
use ledger::{Amount, FEE_DECIMALS_MAX, FEE_WHOLE};
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
#[command(group(ArgGroup::new("fee").required(true).args(["percentage", "amount"])))]
pub(super) struct AddArguments {
    /// Name of the rule.
    #[arg(value_name = "NAME")]
    name: String,
    /// Fee in percent of the amount, up to 4 decimals; this or --amount is required.
    #[arg(long, value_name = "PERCENT", value_parser = percentage, allow_negative_numbers = true)]
    percentage: Option<Amount>,
    /// Fixed fee, in the currency of the transfer, with up to 4 decimals.
    #[arg(long, value_name = "AMOUNT", value_parser = above_zero, allow_negative_numbers = true)]
    amount: Option<Amount>,
    /// Number of decimals to which a percentage is rounded, from 0 to 4.
    #[arg(long, value_name = "COUNT", default_value_t = 2, conflicts_with = "amount",
        value_parser = clap::value_parser!(u32).range(..=i64::from(FEE_DECIMALS_MAX)))]
    decimals: u32,
    /// Rounding of a percentage.
    #[arg(long, value_name = "ROUNDING", default_value = "HALF_UP", conflicts_with = "amount",
        value_parser = ["HALF_UP", "DOWN", "UP", "HALF_EVEN"])]
    rounding: String,
    /// The party whose FSP pays the fee.
    #[arg(long, value_name = "PARTY", default_value = "PAYER", value_parser = ["PAYER", "PAYEE"])]
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
    /// Only transactions that this party initiates.
    #[arg(long, value_name = "PARTY", value_parser = ["PAYER", "PAYEE"])]
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

/// An amount above zero.
fn above_zero(text: &str) -> Result<Amount, String> {
    let amount = Amount::parse_decimal(text)
        .ok_or("expected a decimal of at most 18 digits, 4 after the point")?;
    if amount <= Amount::ZERO {
        return Err("expected an amount above 0".into());
    }
    Ok(amount)
}

fn percentage(text: &str) -> Result<Amount, String> {
    let share = above_zero(text)?;
    if Amount::from_units(FEE_WHOLE.into()) < share {
        return Err("expected at most 100".into());
    }
    Ok(share)
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
        (Some(amount), _) => json!({ "amount": amount.to_string() }),
        (None, percentage) => json!({
            "percentage": percentage.map(|share| share.to_string()),
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
    fn invalid_rules_are_refused_with_their_option() {
        const FORM: &str = "expected a decimal of at most 18 digits, 4 after the point";
        let decimal = |option: &str, value: &str, what: &str| {
            format!("invalid value '{value}' for '{option}': {what}")
        };
        let (percent, amount) = ("--percentage <PERCENT>", "--amount <AMOUNT>");
        for (line, expected) in [
            ("", format!("required arguments were not provided:\n  <{percent}|{amount}>")),
            ("--amount 1 --percentage 1", format!("'{amount}' cannot be used with '{percent}'")),
            ("--amount 1 --decimals 2", format!("'{amount}' cannot be used with '--decimals")),
            ("--amount 1 --rounding UP", format!("'{amount}' cannot be used with '--rounding")),
            ("--amount -1", decimal(amount, "-1", "expected an amount above 0")),
            ("--amount 0", decimal(amount, "0", "expected an amount above 0")),
            ("--amount 0.00001", decimal(amount, "0.00001", FORM)),
            ("--amount one", decimal(amount, "one", FORM)),
            ("--percentage -0.5", decimal(percent, "-0.5", "expected an amount above 0")),
            ("--percentage 0.12345", decimal(percent, "0.12345", FORM)),
            ("--percentage 100.0001", decimal(percent, "100.0001", "expected at most 100")),
            (
                "--percentage 1 --decimals 5",
                decimal("--decimals <COUNT>", "5", "5 is not in 0..=4"),
            ),
            (
                "--percentage 1 --rounding NEAREST",
                "'NEAREST' for '--rounding <ROUNDING>'\n  [possible values: HALF_UP, DOWN, UP, \
                 HALF_EVEN]"
                    .to_owned(),
            ),
            (
                "--percentage 1 --payer HUB",
                "'HUB' for '--payer <PARTY>'\n  [possible values: PAYER, PAYEE]".to_owned(),
            ),
            (
                "--percentage 1 --payer-extension key",
                decimal("--payer-extension <KEY=VALUE>", "key", "expected KEY=VALUE"),
            ),
        ] {
            let line = format!("fees add a {line}");
            let error = Line::try_parse_from(line.split_whitespace()).err().expect(&line);
            let text = error.to_string();
            assert!(text.contains(&expected), "{line}: expected {expected}\nfound {text}");
        }
        for line in ["--percentage 100", "--percentage 0.0001 --decimals 4", "--amount 0.0001"] {
            let line = format!("fees add a {line}");
            assert!(Line::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }

    #[test]
    fn help_begins_with_the_fee() {
        let mut command = <Line as clap::CommandFactory>::command();
        let add = command.find_subcommand_mut("add").expect("a command");
        let help = add.render_help().to_string();
        let place = |option: &str| help.find(&format!("  {option}")).expect(option);
        let order = ["--percentage", "--amount", "--decimals", "--rounding", "--payer <"];
        assert!(order.map(place).is_sorted(), "{help}");
        assert!(help.contains("<--percentage <PERCENT>|--amount <AMOUNT>> <NAME>"), "{help}");
    }
}
