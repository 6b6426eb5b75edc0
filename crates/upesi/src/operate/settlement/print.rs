//! Tables of windows and settlements.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::action::Action;
use super::api::AccountOwners;
use crate::CliError;
use crate::cli::table::{Align, Table};

pub(super) fn windows(windows: &[Value], json: bool) -> Result<(), CliError> {
    if json {
        return print_json(&Value::Array(windows.to_vec()));
    }
    let mut table = Table::new([
        ("window", Align::Right),
        ("state", Align::Left),
        ("opened", Align::Left),
        ("changed", Align::Left),
        ("content", Align::Left),
        ("reason", Align::Left),
    ]);
    for window in windows {
        let content = window["content"].as_array().into_iter().flatten().map(|content| {
            let (kind, currency) =
                (text(content, "ledgerAccountType"), text(content, "currencyId"));
            format!("{kind} {currency} {}", text(content, "state"))
        });
        table.add([
            window["settlementWindowId"].to_string(),
            text(window, "state"),
            text(window, "createdDate"),
            text(window, "changedDate"),
            content.collect::<Vec<_>>().join(", "),
            text(window, "reason"),
        ]);
    }
    table.print();
    Ok(())
}

pub(super) fn settlements(settlements: &[Value], json: bool) -> Result<(), CliError> {
    if json {
        return print_json(&Value::Array(settlements.to_vec()));
    }
    let mut table = Table::new([
        ("settlement", Align::Right),
        ("model", Align::Left),
        ("state", Align::Left),
        ("created", Align::Left),
        ("windows", Align::Left),
        ("reason", Align::Left),
    ]);
    for settlement in settlements {
        let windows = settlement["settlementWindows"].as_array().into_iter().flatten();
        let windows: Vec<_> = windows.map(|window| window["id"].to_string()).collect();
        table.add([
            settlement["id"].to_string(),
            text(settlement, "settlementModel"),
            text(settlement, "state"),
            text(settlement, "createdDate"),
            windows.join(", "),
            text(settlement, "reason"),
        ]);
    }
    table.print();
    Ok(())
}

/// The part of a settlement with exact amounts.
#[derive(Deserialize)]
struct ExactSettlement {
    participants: Vec<ExactParticipant>,
}

#[derive(Deserialize)]
struct ExactParticipant {
    accounts: Vec<ExactAccount>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExactAccount {
    id: u64,
    net_settlement_amount: ExactAmount,
}

#[derive(Deserialize)]
struct ExactAmount {
    amount: Box<RawValue>,
}

/// The net of each account, as the switch wrote it.
fn nets_of(text: &str) -> Result<BTreeMap<u64, String>, CliError> {
    let settlement: ExactSettlement = serde_json::from_str(text)
        .map_err(|error| CliError::new(format!("the answer is not a settlement: {error}")))?;
    let accounts = settlement.participants.into_iter().flat_map(|it| it.accounts);
    Ok(accounts.map(|it| (it.id, it.net_settlement_amount.amount.get().to_owned())).collect())
}

pub(super) fn settlement(
    (settlement, exact): &(Value, String),
    owners: &AccountOwners,
    json: bool,
) -> Result<(), CliError> {
    if json {
        println!("{exact}");
        return Ok(());
    }
    let nets = nets_of(exact)?;
    println!(
        "settlement {}: {}, {}, {}\n",
        settlement["id"],
        text(settlement, "settlementModel"),
        text(settlement, "state"),
        text(settlement, "reason")
    );
    let mut table = Table::new([
        ("participant", Align::Left),
        ("account", Align::Right),
        ("type", Align::Left),
        ("pays in", Align::Right),
        ("is paid", Align::Right),
        ("currency", Align::Left),
        ("state", Align::Left),
        ("reason", Align::Left),
    ]);
    let participants = settlement["participants"].as_array().into_iter().flatten();
    for account in participants.flat_map(|it| it["accounts"].as_array().into_iter().flatten()) {
        let id = account["id"].as_u64().unwrap_or_default();
        let owner = owners.get(&id);
        let net = nets.get(&id).cloned().unwrap_or_default();
        let (pays_in, is_paid) = match net.strip_prefix('-') {
            Some(amount) => (String::new(), amount.to_owned()),
            None => (net, String::new()),
        };
        table.add([
            owner.map_or_else(|| "unknown".to_owned(), |owner| owner.participant.clone()),
            account["id"].to_string(),
            owner.map(|owner| owner.kind.clone()).unwrap_or_default(),
            pays_in,
            is_paid,
            owner.map(|owner| owner.currency.clone()).unwrap_or_default(),
            text(account, "state"),
            text(account, "reason"),
        ]);
    }
    table.print();
    println!();
    let windows = settlement["settlementWindows"].as_array().cloned().unwrap_or_default();
    for window in &windows {
        println!("window {}: {}, {}", window["id"], text(window, "state"), text(window, "reason"));
    }
    Ok(())
}

pub(super) fn fee_rules(rules: &[Value], json: bool) -> Result<(), CliError> {
    if json {
        return print_json(&Value::Array(rules.to_vec()));
    }
    let mut table = Table::new([
        ("rule", Align::Right),
        ("name", Align::Left),
        ("active", Align::Left),
        ("fee", Align::Right),
        ("paid by", Align::Left),
        ("currency", Align::Left),
        ("conditions", Align::Left),
    ]);
    for rule in rules {
        let conditions = rule["conditions"].as_object().into_iter().flatten();
        let conditions: Vec<_> = conditions.map(|(name, value)| condition(name, value)).collect();
        table.add([
            rule["interchangeFeeRuleId"].to_string(),
            text(rule, "name"),
            if rule["isActive"] == true { "yes" } else { "no" }.to_owned(),
            fee(&rule["fee"]),
            text(rule, "payer"),
            rule["currency"].as_str().unwrap_or("any").to_owned(),
            conditions.join(", "),
        ]);
    }
    table.print();
    Ok(())
}

fn condition(name: &str, value: &Value) -> String {
    match value.as_str() {
        Some(value) => format!("{name} {value}"),
        None => format!("{name} {}={}", text(value, "key"), text(value, "value")),
    }
}

/// A fixed amount, or a percentage with its decimals and its rounding unless that is HALF_UP.
fn fee(fee: &Value) -> String {
    let Some(percentage) = fee["percentage"].as_str() else { return text(fee, "amount") };
    let rounding = match text(fee, "rounding").as_str() {
        "HALF_UP" => String::new(),
        other => format!(" {other}"),
    };
    format!("{percentage} % to {}{rounding}", fee["decimals"])
}

pub(super) fn actions(actions: &[Action], json: bool) {
    if json {
        let answers: Vec<_> = actions.iter().map(|action| action.answer.clone()).collect();
        println!("{}", Value::Array(answers));
        return;
    }
    if actions.is_empty() {
        println!("nothing to do");
    }
    actions.iter().for_each(|action| println!("{}", action.text));
}

fn print_json(value: &Value) -> Result<(), CliError> {
    println!("{value}");
    Ok(())
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nets_keep_every_digit() {
        let text = r#"{"id":1,"participants":[{"id":2,"accounts":[
            {"id":7,"netSettlementAmount":{"amount":-123456789012345678.9999,"currency":"USD"}},
            {"id":9,"netSettlementAmount":{"amount":51,"currency":"USD"}}]}]}"#;
        let nets = nets_of(text).expect("a settlement");
        let expected = [(7, "-123456789012345678.9999".to_owned()), (9, "51".to_owned())];
        assert_eq!(nets, BTreeMap::from(expected));
    }
}
